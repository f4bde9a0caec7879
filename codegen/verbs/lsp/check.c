// Errors and warnings of documents, kernel by kernel, while no request waits.
#include "codegen/verbs/lsp/lsp.h"

#include <stdio.h>
#include <string.h>

// ---- finding

static bool is_known(const Document *d, const DiagMessage *message) {
  for (int i = 0; i < d->messages.count; i++)
    if (diag_same_message(&d->messages.at[i], message)) return true;
  return false;
}

// Adds copies of the messages that another kernel has not produced yet; notes follow their message.
static void add_messages(Document *d, const Diag *diag) {
  bool adding = false;
  for (int i = 0; i < diag_count(diag); i++) {
    DiagMessage m = *diag_message(diag, i);
    if (m.severity != DIAG_NOTE) adding = !is_known(d, &m);
    if (!adding) continue;
    m.text = arena_strndup(d->arena, m.text, strlen(m.text));
    if (m.fix.text) m.fix.text = arena_strndup(d->arena, m.fix.text, strlen(m.fix.text));
    LIST_PUSH(d->arena, &d->messages, m);
  }
}

static void add_facts(Document *d, const NameFacts *facts) {
  for (int i = 0; i < facts->count; i++) {
    NameFact f = facts->at[i];
    f.type = arena_strndup(d->arena, f.type, strlen(f.type));
    if (f.more) f.more = arena_strndup(d->arena, f.more, strlen(f.more));
    LIST_PUSH(d->arena, &d->facts, f);
  }
  d->sorted = false;
}

int entry_named(const Node *file, const char *name) {
  for (int i = 0; i < file->list.count; i++)
    if (is_entry(file->list.at[i]) && file->list.at[i]->name == name) return i;
  return -1;
}

// A reference is lowered with its kernel.
static void lower_item(Document *d, int index) {
  const Node *item = d->file->list.at[index];
  bool lone = item->kind == N_REFERENCE && entry_named(d->file, item->name) < 0;
  if (d->done[index]) return;
  d->done[index] = true;
  if (!is_entry(item) && !lone) return;
  Arena *arena = arena_new();
  Diag *diag = diag_new(arena, &d->source);
  NameFacts facts = {0};
  lower(arena, &d->source, d->file, item->name, &(LowerOptions){.facts = &facts}, diag);
  add_messages(d, diag);
  add_facts(d, &facts);
  arena_free(arena);
}

static bool meets(Span a, Span b) { return a.start <= b.end && b.start <= a.end; }

void check_part(Document *d, Span part) {
  const Node *file = document_tree(d);
  for (int i = 0; i < file->list.count; i++) {
    const Node *item = file->list.at[i];
    if (!meets(item->span, part)) continue;
    int entry = item->kind == N_REFERENCE ? entry_named(file, item->name) : -1;
    lower_item(d, entry >= 0 ? entry : i);
  }
}

// Hints inside functions come from the kernels that call them, and may have changed.
static void finish(Server *server, Document *d) {
  publish(d);
  if (!server->refreshes || d->facts.count == 0) return;
  Buf out = {0};
  json_open(&out, NULL, '{');
  json_text(&out, "jsonrpc", "2.0");
  json_text(&out, "id", "hints");
  json_text(&out, "method", "workspace/inlayHint/refresh");
  json_close(&out, '}');
  wire_send(&out);
  buf_free(&out);
}

bool check_some(Server *server) {
  Document *d = server->documents;
  while (d && d->published) d = d->next;
  if (!d) return false;
  const Node *file = document_tree(d);
  if (d->lowered < file->list.count)
    lower_item(d, d->lowered++);
  else
    finish(server, d);
  return true;
}

// ---- publishing

static void put_related(Document *d, Buf *out, int first, int end) {
  json_open(out, "relatedInformation", '[');
  for (int i = first; i < end; i++) {
    const DiagMessage *note = &d->messages.at[i];
    if (note->span.end == 0) continue;
    json_open(out, NULL, '{');
    put_location(d, out, "location", note->span);
    json_text(out, "message", note->text);
    json_close(out, '}');
  }
  json_close(out, ']');
}

// Writes one error or warning with its notes; returns the index of the next one.
static int put_message(Document *d, Buf *out, int at) {
  enum { LSP_ERROR = 1, LSP_WARNING = 2 };
  const DiagMessage *m = &d->messages.at[at];
  int end = at + 1;
  Buf text = {0};
  buf_puts(&text, m->text);
  for (; end < d->messages.count && d->messages.at[end].severity == DIAG_NOTE; end++)
    if (d->messages.at[end].span.end == 0)
      buf_printf(&text, "\nnote: %s", d->messages.at[end].text);
  char code[16];
  snprintf(code, sizeof code, "E%04d", m->code);
  json_open(out, NULL, '{');
  put_range(d, out, "range", m->span);
  json_int(out, "severity", m->severity == DIAG_ERROR ? LSP_ERROR : LSP_WARNING);
  json_text(out, "code", code);
  json_text(out, "source", "pkc");
  json_text(out, "message", text.text);
  put_related(d, out, at + 1, end);
  json_close(out, '}');
  buf_free(&text);
  return end;
}

void publish(Document *d) {
  Buf out = {0};
  json_open(&out, NULL, '{');
  json_text(&out, "jsonrpc", "2.0");
  json_text(&out, "method", "textDocument/publishDiagnostics");
  json_open(&out, "params", '{');
  json_text(&out, "uri", d->uri);
  json_int(&out, "version", d->version);
  json_open(&out, "diagnostics", '[');
  for (int i = 0; i < d->messages.count;) i = put_message(d, &out, i);
  json_close(&out, ']');
  json_close(&out, '}');
  json_close(&out, '}');
  wire_send(&out);
  buf_free(&out);
  d->published = true;
}
