// The outline of a document: symbols and foldings.
#include "codegen/verbs/lsp/lsp.h"

#include <string.h>

// ---- symbols

// SymbolKind of the protocol.
typedef enum { KIND_MODULE = 2, KIND_FUNCTION = 12, KIND_VARIABLE = 13, KIND_CONSTANT = 14 } Kind;

static void open_symbol(Request *r, const Node *node, const char *name, const char *detail,
                        Kind kind) {
  Span chosen = node->name_span.end ? node->name_span : node->span;
  json_open(&r->out, NULL, '{');
  json_text(&r->out, "name", name && *name ? name : "_");
  if (detail) json_text(&r->out, "detail", detail);
  json_int(&r->out, "kind", kind);
  put_range(r->document, &r->out, "range", node->span);
  put_range(r->document, &r->out, "selectionRange", chosen);
}

static void put_leaf(Request *r, const Node *node, const char *detail, Kind kind) {
  open_symbol(r, node, node->name, detail, kind);
  json_close(&r->out, '}');
}

static void put_leaves(Request *r, const NodeList *list, const char *detail, Kind kind) {
  for (int i = 0; i < list->count; i++) put_leaf(r, list->at[i], detail, kind);
}

static void put_item(Request *r, const Node *node);

static void put_items(Request *r, const Node *items) {
  for (int i = 0; items && i < items->list.count; i++) put_item(r, items->list.at[i]);
}

// The symbol of one declaration, with those inside it.
static void put_item(Request *r, const Node *node) {
  const char *word = node_name[node->kind];
  switch (node->kind) {
    case N_STATIC:
      put_leaves(r, &node->list, word, KIND_CONSTANT);
      break;
    case N_GRID:
    case N_MESH:
    case N_SCRATCH:
    case N_PREFETCH:
      put_leaves(r, &node->list, word, KIND_VARIABLE);
      break;
    case N_LET:
    case N_VAR:
      put_leaf(r, node, word, KIND_VARIABLE);
      break;
    case N_KERNEL:
    case N_PROGRAM:
    case N_REFERENCE:
    case N_FN:
      open_symbol(r, node, node->name, word, node->kind == N_PROGRAM ? KIND_MODULE : KIND_FUNCTION);
      json_open(&r->out, "children", '[');
      if (node->kind != N_FN) put_leaves(r, &node->list, "input", KIND_VARIABLE);
      put_leaves(r, &node->list2, "output", KIND_VARIABLE);
      put_items(r, node->kind == N_FN ? node->b : node->a);
      json_close(&r->out, ']');
      json_close(&r->out, '}');
      break;
    default:
      break;
  }
}

void lsp_document_symbols(Request *r) {
  if (!r->document) return;
  json_open(&r->out, "result", '[');
  put_items(r, document_tree(r->document));
  json_close(&r->out, ']');
}

// ---- foldings

static void put_fold(Request *r, int first, int last, const char *kind) {
  if (last <= first) return;
  json_open(&r->out, NULL, '{');
  json_int(&r->out, "startLine", first);
  json_int(&r->out, "endLine", last);
  if (kind) json_text(&r->out, "kind", kind);
  json_close(&r->out, '}');
}

// The lines of each `{ .. }`, without the last one.
static void fold_node(Request *r, const Node *node) {
  if (!node) return;
  if (node->kind == N_ITEMS)
    put_fold(r, line_number(r->document, node->span.start),
             line_number(r->document, node->span.end) - 1, NULL);
  fold_node(r, node->a);
  fold_node(r, node->b);
  fold_node(r, node->c);
  for (int i = 0; i < node->list.count; i++) fold_node(r, node->list.at[i]);
}

static bool is_comment_line(const Document *d, int line) {
  const char *text = d->source.text + d->lines.at[line];
  return strncmp(text + strspn(text, " \t"), "//", 2) == 0;
}

static void fold_comments(Request *r) {
  const Document *d = r->document;
  for (int line = 0, first; line < d->lines.count; line++) {
    for (first = line; line < d->lines.count && is_comment_line(d, line);) line++;
    put_fold(r, first, line - 1, "comment");
  }
}

void lsp_folding_ranges(Request *r) {
  if (!r->document) return;
  json_open(&r->out, "result", '[');
  fold_node(r, document_tree(r->document));
  fold_comments(r);
  json_close(&r->out, ']');
}
