// A backward kernel against a derived reference: its inputs that are outputs of the forward kernel
// are the numbers that the forward kernel's reference computes.
#include "codegen/prove/gradient.h"

#include <stdlib.h>
#include <string.h>

// Arrays of cells for all operands of a kernel.
static HostArray *new_operands(Arena *arena, const Kernel *k, const HostArray *shapes) {
  const int count = k->inputs + k->outputs;
  HostArray *operands = NEW_ARRAY(arena, HostArray, count);
  for (int i = 0; i < count; i++) {
    operands[i] = shapes[i];
    operands[i].dtype = DT_I64;
    operands[i].data = array_cells(&operands[i]);
  }
  return operands;
}

GradientRuns *gradient_runs_new(Arena *arena, const ProveGradient *of) {
  GradientRuns *r = NEW(arena, GradientRuns);
  *r = (GradientRuns){.of = of,
                      .forward = new_operands(arena, of->forward, of->forward_operands),
                      .backward = new_operands(arena, of->backward, of->backward_operands),
                      .specified = NEW_ARRAY(arena, uint8_t *, of->backward->outputs + 1)};
  return r;
}

static void free_operands(const Kernel *k, HostArray *operands) {
  for (int i = 0; i < k->inputs + k->outputs; i++) free(operands[i].data);
}

void gradient_runs_free(GradientRuns *r) {
  free_operands(r->of->forward, r->forward);
  free_operands(r->of->backward, r->backward);
}

// The elements of the operand of that name, if the kernel has it.
static void copy_operand(const Kernel *k, const HostArray *operands, const char *name,
                         HostArray *to) {
  const int from = ir_operand(k, name);
  int64_t elements;
  if (from < 0) return;
  array_elements(to, &elements);
  memcpy(to->data, operands[from].data, (size_t)elements * sizeof(int64_t));
}

bool has_gradient(const GradientRuns *r, const char *name) {
  return ir_operand(r->of->backward, name) >= r->of->backward->inputs;
}

bool takes_input(const GradientRuns *r, const char *name) {
  const int own = ir_operand(r->of->backward, name), of = ir_operand(r->of->forward, name);
  return (own >= 0 && own < r->of->backward->inputs) || (of >= 0 && of < r->of->forward->inputs);
}

void gradient_take_others(GradientRuns *r, const Kernel *derived, const HostArray *from,
                          HostArray *to) {
  for (int i = derived->inputs; i < derived->inputs + derived->outputs; i++)
    if (!has_gradient(r, derived->refs.at[i]->name))
      copy_operand(derived, from, derived->refs.at[i]->name, &to[i]);
}

void gradient_run_backward(GradientRuns *r, const Kernel *derived, HostArray *operands,
                           uint8_t *const *specified, const CheckOptions *options,
                           CheckReport *report) {
  Kernel *forward = r->of->forward, *backward = r->of->backward;
  for (int i = 0; i < forward->inputs; i++)
    copy_operand(derived, operands, forward->refs.at[i]->name, &r->forward[i]);
  interpret_reference(forward, r->of->forward_sizes, r->forward, options, report);
  for (int i = 0; i < backward->inputs; i++) {
    const char *name = backward->refs.at[i]->name;
    copy_operand(forward, r->forward, name, &r->backward[i]);
    copy_operand(derived, operands, name, &r->backward[i]);
  }
  CheckOptions own = *options;
  for (int i = 0; i < backward->outputs; i++) {
    const int to = ir_operand(derived, backward->refs.at[backward->inputs + i]->name);
    r->specified[i] = to < 0 ? NULL : specified[to - derived->inputs];
  }
  own.specified = r->specified;
  interpret(backward, r->of->backward_sizes, r->backward, &own, report);
  for (int i = derived->inputs; i < derived->inputs + derived->outputs; i++)
    copy_operand(backward, r->backward, derived->refs.at[i]->name, &operands[i]);
}
