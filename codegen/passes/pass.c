#include "codegen/passes/pass.h"

static void expand_pipelines(Kernel *k, Buf *notes) {
  (void)notes;
  ir_expand_pipelines(k);
}

static void note_mixed(Instr *v, void *notes) {
  if (!ir_is_mixed_dot(v)) return;
  buf_printf(notes, "dot of %s by %s: multiplied in %s, which holds both\n",
             dtype_info[v->args[0]->type.dtype].name, dtype_info[v->args[1]->type.dtype].name,
             dtype_info[ir_dot_dtype(v)].name);
}

static void unmix_dots(Kernel *k, Buf *notes) {
  if (k->body && notes) ir_walk(k->body, note_mixed, notes);
  ir_unmix_dots(k);
}

// Passes, in the order in which they run.
const Pass passes[] = {
    {'p', "pipelines", "write pipelines in the body out as loops, scratch and copies",
     expand_pipelines},
    {'d', "dots", "cast operands of a dot that have different dtypes to one", unmix_dots},
    {'a', "axes", "make grid axes parallel whose steps provably do not depend on each other",
     free_axes},
    {'r', "variables", "use what was stored to a `var` where it is read", forget_variables},
    {'m', "unmask", "turn masked loads into loads and selections, keep masks false outside the ref",
     unmask},
    {'v', "moves",
     "take slices and reshapes to what is sliced, stores to the parts that are put "
     "together",
     move_moves},
    {'b', "branches", "turn an `if` of few operations by element into a selection",
     convert_branches},
    {'k', "picks", "load what one index takes from an input where it is taken", pick_rows},
    {'g', "gathers", "index by 32-bit integers what is gathered along several axes",
     narrow_gathers},
    {'s', "simplify",
     "fold constants, drop operations that change nothing, share equal values, remove dead ones",
     simplify},
    {'o', "powers", "compute powers by a constant as products and roots", expand_powers},
    {'e', "edges", "store what reads a padded value in parts, those inside without the padding",
     split_edges},
    {'c', "canonicalise", "bring dots and reductions to the forms that have loops", canonicalise},
    {'n', "narrow", "leave right operands of dots narrow, to be widened as they are read",
     narrow_operands},
    {'t', "bits", "move narrow floats as integers, so that they keep all their bits", keep_bits},
    {'w', "widen", "give elementwise kernels blocks that are long in memory", widen_blocks},
};
const int pass_count = (int)(sizeof passes / sizeof *passes);

static void verify_after(const char *what, Kernel *k) {
  const char *message = ir_verify(k);
  if (message) INTERNAL("block IR is wrong after %s: %s", what, message);
}

void run_passes(Kernel *k, Buf *notes, void (*after)(const Pass *pass, Kernel *k, void *context),
                void *context) {
  verify_after("lowering", k);
  for (int i = 0; i < pass_count; i++) {
    passes[i].run(k, notes);
    verify_after(passes[i].name, k);
    if (after) after(&passes[i], k, context);
  }
}
