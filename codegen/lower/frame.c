// Where instructions go: the region at work, its budget, the sizes of the kernel.
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
