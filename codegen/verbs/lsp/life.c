// The life of the language server and of its documents.
#include "codegen/verbs/lsp/lsp.h"

#include <string.h>

// ---- the life of the server

static bool takes_utf8(const Json *params) {
  const Json *general = json_member(json_member(params, "capabilities"), "general"),
             *encodings = json_member(general, "positionEncodings");
  for (const Json *e = encodings ? encodings->first : NULL; e; e = e->next)
    if (e->kind == JSON_STRING && strcmp(e->text, "utf-8") == 0) return true;
  return false;
}

static bool takes_refreshes(const Json *params) {
  const Json *workspace = json_member(json_member(params, "capabilities"), "workspace"),
             *can = json_member(json_member(workspace, "inlayHint"), "refreshSupport");
  return can && can->truth;
}

static void put_provider(Buf *out, const char *capability, const char *value) {
  if (capability) json_raw(out, capability, value);
}

static void put_capabilities(const Server *server, Buf *out) {
  enum { INCREMENTAL = 2 };
  json_open(out, "capabilities", '{');
  json_text(out, "positionEncoding", server->utf8 ? "utf-8" : "utf-16");
  json_open(out, "textDocumentSync", '{');
  json_bool(out, "openClose", true);
  json_int(out, "change", INCREMENTAL);
  json_close(out, '}');
#define REQUEST(method, function, capability, value) put_provider(out, capability, value);
#define NOTIFICATION(method, function)
#include "codegen/verbs/lsp/methods.def"
  json_close(out, '}');
}

void lsp_initialize(Request *r) {
  Server *s = r->server;
  if (s->initialized) {
    request_fail(r, RPC_INVALID_REQUEST, "initialized already");
    return;
  }
  s->initialized = true;
  s->utf8 = takes_utf8(r->params);
  s->refreshes = takes_refreshes(r->params);
  json_open(&r->out, "result", '{');
  put_capabilities(s, &r->out);
  json_open(&r->out, "serverInfo", '{');
  json_text(&r->out, "name", "pkc");
  json_text(&r->out, "version", PKC_VERSION);
  json_close(&r->out, '}');
  json_close(&r->out, '}');
}

void lsp_shut_down(Request *r) { r->server->shut_down = true; }
void lsp_leave(Request *r) { r->server->left = true; }
void lsp_nothing(Request *r) { (void)r; }

// ---- documents

void lsp_did_open(Request *r) {
  const Json *document = json_member(r->params, "textDocument"),
             *text = json_member(document, "text");
  const char *uri = json_string(document, "uri");
  if (uri && text && text->kind == JSON_STRING)
    document_open(r->server, uri, json_integer(document, "version", 0), text->text, text->length);
}

void lsp_did_change(Request *r) {
  const Json *changes = json_member(r->params, "contentChanges");
  if (!r->document) return;
  for (const Json *c = changes ? changes->first : NULL; c; c = c->next)
    document_change(r->document, c);
  r->document->version =
      json_integer(json_member(r->params, "textDocument"), "version", r->document->version);
}

// Its messages are withdrawn.
void lsp_did_close(Request *r) {
  Document *d = r->document;
  if (!d) return;
  d->messages.count = 0;
  publish(d);
  document_close(r->server, d->uri);
}
