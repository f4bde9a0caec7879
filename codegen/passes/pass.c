// The table of passes, in the order in which they run.
#include "codegen/passes/pass.h"

#include <string.h>

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
    {'p', "pipelines", "expand pipelines in the body into loops, scratch and copies",
     expand_pipelines},
    {'d', "dots", "cast the operands of a dot to one dtype", unmix_dots},
    {'a', "axes", "mark grid axes as parallel if their steps provably do not depend on each other",
     free_axes},
    {'r', "variables", "replace reads of a `var` by the value last stored to it", forget_variables},
    {'m', "unmask",
     "replace masked loads by loads and selections, with masks false outside the ref", unmask},
    {'v', "moves",
     "apply slices and reshapes to operands, and store the parts of a concatenation separately",
     move_moves},
    {'b', "branches", "replace an `if` with few elementwise operations by a selection",
     convert_branches},
    {'k', "indexed", "load an element or row of an input where an index selects it", load_indexed},
    {'g', "gathers", "use 32-bit indices in gathers along several axes", narrow_gathers},
    {'s', "simplify",
     "fold constants, drop operations without effect, share equal values, remove dead ones",
     simplify},
    {'o', "powers", "compute powers with a constant exponent by products and roots", expand_powers},
    {'x', "strips", "run loops over columns of many rows for a few rows at a time", strip_columns},
    {'e', "edges", "split stores of values that read padding, so that the inner part reads none",
     split_edges},
    {'c', "canonicalise", "rewrite dots and reductions in the forms for which there are loops",
     canonicalise},
    {'n', "narrow", "keep right operands of dots in a narrow dtype, to be widened as they are read",
     narrow_operands},
    {'t', "bits", "move narrow floats as integers, so that they keep all their bits", keep_bits},
    {'h', "hoist", "compute values of one row before the rows that they are broadcast to",
     hoist_rows},
    {'w', "widen", "lengthen elementwise blocks along the contiguous axis", widen_blocks},
};
const int pass_count = (int)(sizeof passes / sizeof *passes);

static void verify_after(const char *what, Kernel *k) {
  const char *message = ir_verify(k);
  if (message) INTERNAL("block IR is wrong after %s: %s", what, message);
}

// Calls `after`, and replaces `text`, the kernel before the pass, by its present text.
static void call_after(AfterPass *after, const Pass *pass, Kernel *k, Buf *text, void *context) {
  Buf now = {0};
  ir_print(k, &now);
  bool changed = now.length != text->length || memcmp(now.text, text->text, now.length) != 0;
  buf_free(text);
  *text = now;
  after(pass, k, changed, context);
}

void run_passes(Kernel *k, Buf *notes, AfterPass *after, void *context) {
  Buf text = {0};
  verify_after("lowering", k);
  if (after) ir_print(k, &text);
  for (int i = 0; i < pass_count; i++) {
    passes[i].run(k, notes);
    verify_after(passes[i].name, k);
    if (after) call_after(after, &passes[i], k, &text, context);
  }
  buf_free(&text);
}
