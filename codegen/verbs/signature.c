// pkc --emit=signature: the signature that a caller needs, as one JSON object.
#include "codegen/ir/flow.h"
#include "codegen/verbs/verbs.h"

#include <string.h>

static const char *source_text(const Program *program, Span span) {
  return arena_strndup(program->arena, program->source.text + span.start, span.end - span.start);
}

// ---- the comment above a kernel

// The line of the source that ends before `end` (the offset after its line break).
static size_t line_start(const char *text, size_t end) {
  size_t start = end > 0 ? end - 1 : 0;
  while (start > 0 && text[start - 1] != '\n') start--;
  return start;
}

static bool is_directive(const char *text) {
  static const char *const words[] = {"test:",    "error:",       "warning:", "check:", "refused:",
                                      "explain:", "explain-not:", "target:",  "emit:"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strncmp(text, words[i], strlen(words[i])) == 0) return true;
  return false;
}

// The `//` lines directly above the kernel, without directives of `pkc test`.
static const char *comment_above(const Program *program) {
  const char *text = program->source.text, *doc = "";
  size_t at = program->kernel_node->span.start;
  while (at > 0 && text[at - 1] != '\n') at--;
  while (at > 0) {
    size_t start = line_start(text, at), end = at - 1;
    if (end < start + 2 || strncmp(text + start, "//", 2) != 0) break;
    const char *line = text + start + 2;
    if (*line == ' ') line++;
    if (!is_directive(line))
      doc = arena_printf(program->arena, "%.*s\n%s", (int)(text + end - line), line, doc);
    at = start;
  }
  size_t length = strlen(doc);
  while (length > 0 && doc[length - 1] == '\n') length--;
  return arena_strndup(program->arena, doc, length);
}

// ---- operands

static void put_shape(const Program *program, const Node *param, Buf *out) {
  json_open(out, "shape", '[');
  for (int i = 0; i < param->list.count; i++)
    json_text(out, NULL, source_text(program, param->list.at[i]->span));
  json_close(out, ']');
}

static void put_extents(const Ref *ref, Buf *out) {
  json_open(out, "extents", '[');
  for (int i = 0; i < ref->array.rank; i++)
    if (dim_is_const(ref->array.dim[i]))
      json_int(out, NULL, ref->array.dim[i]);
    else
      json_raw(out, NULL, "null");
  json_close(out, ']');
}

// By axis, the names of the mesh axes that divide it.
static void put_shard(const Kernel *k, const Ref *ref, Buf *out) {
  json_open(out, "shard", '[');
  for (int i = 0; i < ref->array.rank; i++) {
    json_open(out, NULL, '[');
    for (int j = 0; j < MOST_MESH_AXES && ref->shard[i][j]; j++)
      json_text(out, NULL, k->mesh.at[ref->shard[i][j] - 1].name);
    json_close(out, ']');
  }
  json_close(out, ']');
}

static void put_mesh(const Kernel *k, Buf *out) {
  json_open(out, "mesh", '{');
  for (int i = 0; i < k->mesh.count; i++) json_int(out, k->mesh.at[i].name, k->mesh.at[i].extent);
  json_close(out, '}');
}

static void put_operand(const Program *program, const Node *param, int index, Buf *out) {
  const Ref *ref = program->kernel->refs.at[index];
  json_open(out, NULL, '{');
  json_text(out, "name", param->name);
  json_text(out, "direction", ref->role == REF_OUTPUT ? "output" : "input");
  json_bool(out, "prefetch", ref->prefetch);
  json_text(out, "alias", ref->alias ? ref->alias->name : NULL);
  const char *dtype = dtype_info[ref->array.dtype].name;
  json_text(out, "type", param->a ? source_text(program, param->a->span) : dtype);
  json_text(out, "dtype", dtype);
  json_bool(out, "packed", ref->packed);
  put_shape(program, param, out);
  put_extents(ref, out);
  if (program->kernel->mesh.count) put_shard(program->kernel, ref, out);
  json_close(out, '}');
}

// The order of a call: prefetched operands, inputs, outputs, as in lower_signature.
static void put_operands(const Program *program, Buf *out) {
  const Node *node = program->kernel_node;
  int index = 0;
  json_open(out, "operands", '[');
  for (int i = 0; i < node->a->list.count; i++) {
    const Node *item = node->a->list.at[i];
    for (int j = 0; item->kind == N_PREFETCH && j < item->list.count; j++)
      put_operand(program, item->list.at[j], index++, out);
  }
  for (int i = 0; i < node->list.count; i++) put_operand(program, node->list.at[i], index++, out);
  for (int i = 0; i < node->list2.count; i++) put_operand(program, node->list2.at[i], index++, out);
  json_close(out, ']');
}

// ---- statics and sizes

static const char *static_type(const Node *item, const char *value) {
  if (item->a) return item->a->name;
  if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) return "bool";
  if (dtype_by_name(value) != DT_COUNT) return "dtype";
  return strpbrk(value, ".einf") ? "float" : "integer";
}

static const char *value_of(const Kernel *k, const char *name) {
  for (int i = 0; i < k->statics.count; i++)
    if (strcmp(k->statics.at[i].name, name) == 0) return k->statics.at[i].value;
  return "";
}

static void put_static(const Program *program, const Node *item, Buf *out) {
  const char *value = value_of(program->kernel, item->name);
  json_open(out, NULL, '{');
  json_text(out, "name", item->name);
  json_text(out, "type", static_type(item, value));
  json_text(out, "default", item->b ? source_text(program, item->b->span) : NULL);
  json_text(out, "value", value);
  json_close(out, '}');
}

static void put_statics(const Program *program, Buf *out) {
  const NodeList *items = &program->kernel_node->a->list;
  json_open(out, "statics", '[');
  for (int i = 0; i < items->count; i++)
    for (int j = 0; items->at[i]->kind == N_STATIC && j < items->at[i]->list.count; j++)
      put_static(program, items->at[i]->list.at[j], out);
  json_close(out, ']');
}

static void put_sizes(const Kernel *k, Buf *out) {
  json_open(out, "sizes", '[');
  for (int i = 0; i < k->sizes.count; i++)
    if (!k->sizes.at[i].value) json_text(out, NULL, k->sizes.at[size_by_name(k->sizes.at, i)].name);
  json_close(out, ']');
}

static const char *name_of_size(const Instr *instr, void *context) {
  const Kernel *k = context;
  return k->sizes.at[instr->ival].name;
}

// Is it a size that only other sizes determine?
static bool is_solved(const Kernel *k, int size) {
  const Region *value = k->sizes.at[size].value;
  for (int i = 0; i < k->sizes.count; i++)
    if (k->sizes.at[i].solved == size + 1) return false;
  return value && !strpbrk(k->sizes.at[size].name, " (") && flow_is_plain(value);
}

static void put_solved(Kernel *k, Buf *out) {
  json_open(out, "solved", '{');
  for (int i = 0; i < k->sizes.count; i++)
    if (is_solved(k, i))
      json_text(
          out, k->sizes.at[i].name,
          flow_expression(k->arena, ir_yielded(k->sizes.at[i].value, 0), NULL, name_of_size, k));
  json_close(out, '}');
}

static void put_requirements(const Program *program, Buf *out) {
  const Kernel *k = program->kernel;
  json_open(out, "requires", '[');
  for (int i = 0; i < k->requires.count; i++)
    json_text(out, NULL,
              k->requires.at[i].message ? k->requires.at[i].message
                                        : source_text(program, k->requires.at[i].span));
  json_close(out, ']');
}

void put_signature(const Program *program, Buf *out) {
  const Kernel *k = program->kernel;
  json_open(out, NULL, '{');
  json_text(out, "kernel", k->name);
  json_text(out, "kind", k->flow ? "program" : "kernel");
  json_text(out, "symbol", k->symbol);
  json_int(out, "line", ir_line(k, k->span));
  json_text(out, "doc", comment_above(program));
  put_operands(program, out);
  if (k->mesh.count) put_mesh(k, out);
  put_statics(program, out);
  put_sizes(k, out);
  put_solved(program->kernel, out);
  put_requirements(program, out);
  json_bool(out, "reference", k->reference);
  json_close(out, '}');
  buf_putc(out, '\n');
}
