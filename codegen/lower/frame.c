// Where instructions are added: the current region, its budget, the sizes of the kernel.
#include "codegen/lower/internal.h"

#include <string.h>

void reenter_region(Lower *l, Frame *frame, Region *region) {
  *frame = (Frame){region, l->frame};
  l->frame = frame;
}

Region *enter_region(Lower *l, Frame *frame) {
  Region *region = ir_region(l->k);
  reenter_region(l, frame, region);
  return region;
}

void leave_region(Lower *l) { l->frame = l->frame->up; }

bool over_budget(Lower *l, Span span) {
  if (l->stopped) return true;
  if (++l->work <= MAX_WORK && !diag_too_many(l->diag)) return false;
  l->stopped = true;
  if (!diag_too_many(l->diag))
    diag_error(
        l->diag, span, ERR_TOO_LARGE,
        "the kernel grows beyond %d expressions once loops are unrolled and functions inlined",
        MAX_WORK);
  return true;
}

Instr *yield_from(Lower *l, Instr *v, Span span) { return emit1(l, OP_YIELD, no_result, span, v); }

int size_index(Lower *l, const char *name) {
  for (int i = 0; i < l->k->sizes.count; i++)
    if (strcmp(l->k->sizes.at[i].name, name) == 0) return i;
  return -1;
}

int add_derived_size(Lower *l, const char *name, Span span, Region *value) {
  LIST_PUSH(l->arena, &l->k->sizes, ((Size){.name = name, .span = span, .value = value}));
  return l->k->sizes.count - 1;
}

static bool is_part(const Instr *v, const Instr *other) {
  return v->op == OP_DIV && other->op == OP_DIV && v->args[0]->op == OP_SIZE &&
         other->args[0]->op == OP_SIZE && v->args[1]->op == OP_CONST &&
         other->args[1]->op == OP_CONST && v->args[0]->ival == other->args[0]->ival &&
         v->args[1]->ival == other->args[1]->ival;
}

int part_size(Lower *l, const Instr *v) {
  if (l->k->mesh.count == 0 || !v || v->op != OP_DIV) return -1;
  if (v->args[0]->op == OP_SIZE && ir_is_const(v->args[1], 1)) return (int)v->args[0]->ival;
  for (int i = 0; i < l->k->sizes.count; i++) {
    const Region *value = l->k->sizes.at[i].value;
    if (value && is_part(ir_yielded(value, 0), v)) return i;
  }
  return -1;
}
