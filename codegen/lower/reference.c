// References: the same expressions on whole arrays.
#include "codegen/lower/internal.h"

static void load_inputs(Lower *l) {
  for (int i = 0; i < l->k->inputs; i++) {
    Ref *ref = l->k->refs.at[i];
    l->array[i] = emit(l, OP_ARRAY, ref->array, ref->span, 0, NULL);
    l->array[i]->ref = ref;
  }
}

static void yield_outputs(Lower *l, const Node *reference) {
  Instr **results = NEW_ARRAY(l->arena, Instr *, l->k->outputs + 1);
  bool good = true;
  for (int i = 0; i < l->k->outputs; i++) {
    const Ref *ref = l->k->refs.at[l->k->inputs + i];
    results[i] = l->array[ref->id];
    good = good && results[i];
    if (results[i] || l->stored[ref->id]) continue;
    diag_error(l->diag, reference->name_span, ERR_REFERENCE_OUTPUT,
               "the reference gives the output `%s` no value", ref->name);
    diag_note(l->diag, ref->span, "`%s` is declared here", ref->name);
  }
  if (good) emit(l, OP_YIELD, no_result, reference->span, l->k->outputs, results);
}

void lower_reference(Lower *l, const Node *reference) {
  Frame frame;
  l->place = IN_REFERENCE;
  l->scope = l->root;
  l->functions = l->kernel_functions;
  l->loop = LOOP_NONE;
  for (int i = 0; i < l->k->inputs + l->k->outputs; i++) l->stored[i] = false;
  Region *region = enter_region(l, &frame);
  l->whole = region;
  load_inputs(l);
  for (int i = 0; i < reference->a->list.count && !l->stopped; i++)
    lower_statement(l, reference->a->list.at[i]);
  yield_outputs(l, reference);
  leave_region(l);
  l->k->reference = region;
}
