// Which outputs of the forward kernel its gradient should read. They are compared by the operations
// of the derivations with and without them.
#include "codegen/grad/grad.h"
#include "codegen/grad/text.h"

#include <string.h>

// A gradient that reads outputs keeps them until the backward pass, so it has to be this many times
// as cheap.
#define PAYS 1.1

typedef struct {
  KernelAgain *again;
  void *context;
  GradOptions options;
  bool of_body;
  Kernel *k;
  Writer writer;  // of the notes
  GradResult result;
} Trial;

// ---- candidates

static bool is_rounded(const Instr *stored) {
  for (; stored->op == OP_CAST; stored = stored->args[0])
    if (dtype_info[stored->type.dtype].bits < dtype_info[stored->args[0]->type.dtype].bits)
      return true;
  return false;
}

static bool stores_rounded(const Region *region, const Ref *ref) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_STORE && v->ref == ref && is_rounded(ir_store_value(v))) return true;
    for (int r = 0; r < 2; r++)
      if (stores_rounded(v->regions[r], ref)) return true;
  }
  return false;
}

static bool is_candidate(const Trial *t, int output) {
  const Ref *ref = t->k->refs.at[t->k->inputs + output];
  if (!is_float(ref->array.dtype)) return false;
  return t->of_body ? !stores_rounded(t->k->body, ref)
                    : !is_rounded(ir_yielded(t->k->reference, output));
}

// The list without a name; NULL: nothing is left.
static const char *without(Arena *arena, const char *list, const char *name) {
  const char *rest = NULL;
  while (*list) {
    const size_t length = strcspn(list, ",");
    const char *one = arena_strndup(arena, list, length);
    if (strcmp(one, name) != 0) rest = list_with(arena, rest, one);
    list += length + (list[length] == ',');
  }
  return rest;
}

// ---- derivations

static bool derive(Trial *t, const char *saved) {
  Buf text = {0};
  Diag *diag = diag_new(t->k->arena, t->k->source);
  t->result = (GradResult){0};
  t->options.saved = saved;
  t->options.result = &t->result;
  Kernel *k = t->of_body ? NULL : t->again(t->context);
  const bool good =
      t->of_body ? grad_kernel(t->again, t->context, &t->options, diag, &text)
                 : (k->reference || grad_steps(k, diag)) && grad_derive(k, &t->options, diag);
  buf_free(&text);
  return good;
}

// Leaves out what costs nothing to leave out.
static const char *fewest(Trial *t, const char *list, double *operations) {
  for (const char *at = list; *at;) {
    const size_t length = strcspn(at, ",");
    const char *name = arena_strndup(t->k->arena, at, length),
               *rest = without(t->k->arena, list, name);
    at += length + (at[length] == ',');
    if (!rest || !derive(t, rest) || t->result.operations > *operations) continue;
    *operations = t->result.operations;
    list = rest;
    at = list;
  }
  return list;
}

static void note(const Trial *t, const GradOptions *options, const char *text) {
  if (options->result) LIST_PUSH(t->k->arena, &options->result->notes, text);
}

// "o (4 * M * N bytes), lse (4 * M bytes)"
static const char *with_bytes(Trial *t, const char *list) {
  const char *text = "";
  for (int i = t->k->inputs; i < t->k->inputs + t->k->outputs; i++) {
    const Ref *ref = t->k->refs.at[i];
    if (is_in_list(list, ref->name))
      text = arena_printf(t->k->arena, "%s%s%s (%s bytes)", text, *text ? ", " : "", ref->name,
                          bytes_text(&t->writer, &ref->array));
  }
  return text;
}

// The outputs that hold values as they are computed; NULL: there are none.
static const char *candidates(Trial *t, const GradOptions *options) {
  const char *list = NULL;
  for (int i = 0; i < t->k->outputs; i++) {
    const Ref *ref = t->k->refs.at[t->k->inputs + i];
    const char *name = ref->name;
    if (is_candidate(t, i))
      list = list_with(t->k->arena, list, name);
    else if (is_float(ref->array.dtype))
      note(t, options, arena_printf(t->k->arena, "does not read %s, which is rounded", name));
  }
  return list;
}

// See grad.h.
const char *grad_choose_saved(KernelAgain *again, void *context, const GradOptions *options,
                              bool of_body) {
  Trial t = {again, context, *options, of_body, .k = again(context)};
  Buf unused = {0};
  if (options->forward || (t.k->flow && !t.k->reference)) return NULL;
  if (!of_body && !t.k->reference) return NULL;
  text_start(&t.writer, t.k, &unused);
  const char *list = candidates(&t, options);
  if (!list || !derive(&t, NULL)) return NULL;
  const double alone = t.result.operations;
  if (!derive(&t, list) || !t.result.read) {
    note(&t, options, arena_printf(t.k->arena, "does not read %s, which it does not need", list));
    return NULL;
  }
  double operations = t.result.operations;
  list = fewest(&t, t.result.read, &operations);
  const bool pays = alone >= PAYS * operations;
  note(&t, options,
       arena_printf(t.k->arena, "%s %s: %.2f times the operations",
                    pays ? "reads" : "does not read", with_bytes(&t, list), operations / alone));
  return pays ? list : NULL;
}
