// pkc lsp: a language server on the standard streams.
//
// One thread: requests are answered in their order, from the syntax tree of the text as it is then.
// Kernels are lowered for their errors while no message waits, one after another.
#include "codegen/verbs/lsp/lsp.h"

#include <string.h>

typedef struct {
  const char *name;
  Handler *handle;
  bool answers;
  const char *capability, *value;
} Method;

static const Method methods[] = {
#define REQUEST(method, function, capability, value) \
  {method, lsp_##function, true, capability, value},
#define NOTIFICATION(method, function) {method, lsp_##function, false, NULL, NULL},
#include "codegen/verbs/lsp/methods.def"
};
enum { METHODS = sizeof methods / sizeof *methods };

static const Method *find_method(const char *name) {
  for (int i = 0; i < METHODS; i++)
    if (strcmp(methods[i].name, name) == 0) return &methods[i];
  return NULL;
}

// ---- messages

static void put_id(Buf *out, const Json *id) {
  if (id && id->kind == JSON_STRING)
    json_text(out, "id", id->text);
  else if (id && json_is_integer(id))
    json_int(out, "id", (int64_t)id->number);
  else
    json_raw(out, "id", "null");
}

static void send_answer(Request *r) {
  Buf *out = &r->out;
  if (r->error) {
    json_open(out, "error", '{');
    json_int(out, "code", r->error);
    json_text(out, "message", r->said);
    json_close(out, '}');
  }
  json_close(out, '}');
  if (!wire_send(out)) r->server->left = true;
}

// Why the message cannot be handled: 0, or an error.
static void check_message(Request *r, const Json *json, const Method *method, const char *name) {
  const Json *id = json_member(json, "id");
  if (!json)
    request_fail(r, RPC_PARSE_ERROR, "the message is not JSON");
  else if (!name)
    request_fail(r, RPC_INVALID_REQUEST, "the message has no method");
  else if (!method || (id && !method->answers))
    request_fail(r, RPC_METHOD_NOT_FOUND, arena_printf(r->arena, "there is no request `%s`", name));
  else if (r->server->shut_down)
    request_fail(r, RPC_INVALID_REQUEST, "the server was shut down");
  else if (!r->server->initialized && method->handle != lsp_initialize)
    request_fail(r, RPC_NOT_INITIALIZED, "the server was not initialized");
  else if (id && wire_cancels(&r->server->wire, id))
    request_fail(r, RPC_CANCELLED, "cancelled");
}

// Answers one message: a request gets a result or an error, a notification gets nothing.
static void handle(Server *server, const Message *message) {
  const Json *json = message->json, *id = json_member(json, "id");
  const char *name = json_string(json, "method");
  const Method *method = name ? find_method(name) : NULL;
  if (!name && (json_member(json, "result") || json_member(json, "error"))) return;  // an answer
  Request r = {.server = server, .arena = message->arena, .params = json_member(json, "params")};
  const char *uri = json_string(json_member(r.params, "textDocument"), "uri");
  r.document = document_find(server, uri);
  check_message(&r, json, method, name);
  bool leaves = !id && method && method->handle == lsp_leave;
  if (!id && name && method && method->answers)
    return;  // a request without an id cannot be answered
  json_open(&r.out, NULL, '{');
  json_text(&r.out, "jsonrpc", "2.0");
  put_id(&r.out, id);
  size_t before = r.out.length;
  if ((!r.error || leaves) && method) method->handle(&r);
  if (!r.error && r.out.length == before) json_raw(&r.out, "result", "null");
  if (id || !name) send_answer(&r);
  buf_free(&r.out);
}

int verb_lsp(Options *options) {
  Server server = {.arena = options->arena, .wire = {.arena = options->arena}};
  Message message;
  while (!server.left) {
    wire_read(&server.wire, false);
    if (wire_take(&server.wire, &message)) {
      handle(&server, &message);
      arena_free(message.arena);
    } else if (server.wire.ended) {
      break;
    } else if (wire_pending(&server.wire) || !check_some(&server)) {
      wire_read(&server.wire, true);
    }
  }
  while (server.documents) document_close(&server, server.documents->uri);
  while (wire_take(&server.wire, &message)) arena_free(message.arena);
  buf_free(&server.wire.in);
  return server.left && server.shut_down ? DONE : USER_ERROR;
}
