// Inlay hints: the shapes of values after their names, and the values of computed statics.
#include "codegen/verbs/lsp/names.h"

static void put_hint(Request *r, uint32_t offset, const char *label) {
  enum { HINT_TYPE = 1 };
  json_open(&r->out, NULL, '{');
  put_position(r->document, &r->out, "position", offset);
  json_text(&r->out, "label", label);
  json_int(&r->out, "kind", HINT_TYPE);
  json_close(&r->out, '}');
}

// A static whose default is a literal needs no hint.
static bool is_written(const NameDeclaration *d) {
  const Node *value = d->node->b;
  if (d->kind != NAME_STATIC || !value) return false;
  return value->kind == N_INT || value->kind == N_FLOAT || value->kind == N_BOOL ||
         value->kind == N_NAME;
}

static bool has_hint(const NameDeclaration *d) {
  return d->kind == NAME_VALUE || d->kind == NAME_PARAMETER ||
         (d->kind == NAME_STATIC && !is_written(d));
}

// textDocument/inlayHint: the type or value of each declared name that has a single one.
void lsp_inlay_hints(Request *r) {
  Document *d = r->document;
  if (!d) return;
  const Json *range = json_member(r->params, "range");
  Span part = {offset_of(d, json_member(range, "start")), offset_of(d, json_member(range, "end"))};
  check_part(d, part);
  const Names *names = document_names(d);
  json_open(&r->out, "result", '[');
  for (int i = 0; i < names->uses.count; i++) {
    const NameUse *use = &names->uses.at[i];
    bool several;
    if (use->declaration < 0 || use->span.start < part.start || use->span.end > part.end) continue;
    const NameDeclaration *of = &names->declarations.at[use->declaration];
    if (of->span.start != use->span.start || !has_hint(of)) continue;
    const NameFact *fact = fact_of(d, of->span, &several);
    if (fact && !several)
      put_hint(r, of->span.end,
               arena_printf(r->arena, "%s%s", fact->value ? " = " : ": ", fact->type));
  }
  json_close(&r->out, ']');
}
