// The chain of a view, as the IR has it.
#include "codegen/lower/refs.h"

#include <string.h>

bool is_all_of_ref(const View *window) {
  const Window *w = &window->window;
  for (int i = 0; i < window->ref->type.rank; i++)
    if (w->size[i] != window->ref->type.dim[i] || w->stride[i] != 1 || w->squeeze[i] ||
        !ir_is_const(window->starts[i], 0))
      return false;
  return true;
}

void push_args(Lower *l, Arguments *args, Instr *const *values, int count) {
  for (int i = 0; i < count; i++) LIST_PUSH(l->arena, args, values[i]);
}

static ChainStep chain_window(Lower *l, Arguments *args, const View *window, const Type *of,
                              bool clamped, Span span) {
  const Window *w = &window->window;
  for (int i = 0; i < of->rank; i++) {
    Instr *start = clamped
                       ? moved_in(l, span, window->starts[i], w->size[i], w->stride[i], of->dim[i])
                       : window->starts[i];
    LIST_PUSH(l->arena, args, start);
  }
  return (ChainStep){.kind = CHAIN_WINDOW, .type = window->type, .window = *w};
}

const Chain *push_chain(Lower *l, Arguments *args, const RefView *view, bool clamped, Span span) {
  LIST(ChainStep) steps = {0};
  const Type *before = &view->window.ref->type;
  if (!is_all_of_ref(&view->window)) {
    ChainStep step = chain_window(l, args, &view->window, before, clamped, span);
    LIST_PUSH(l->arena, &steps, step);
    before = &view->window.type;
  }
  for (int i = 0; i < view->steps.count; before = &view->steps.at[i++].type) {
    const ViewStep *of = &view->steps.at[i];
    ChainStep step = {.kind = of->kind, .type = of->type};
    memcpy(step.perm, of->perm, sizeof step.perm);
    if (of->kind == CHAIN_WINDOW) step = chain_window(l, args, &of->window, before, clamped, span);
    LIST_PUSH(l->arena, &steps, step);
  }
  if (steps.count == 0) return NULL;
  Chain *chain = NEW(l->arena, Chain);
  *chain = (Chain){steps.count, steps.at};
  return chain;
}
