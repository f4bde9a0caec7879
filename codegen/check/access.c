// Loads and stores of the interpreter: windows of refs, masks, lanes out of bounds.
#include "codegen/check/internal.h"

#include <string.h>

// A window of a ref: its start, and its lanes in bounds, in the block and in the value. Squeezed
// axes have size 1 in the window and are absent from the value.
typedef struct {
  int64_t start[MAX_RANK], size[MAX_RANK];
  Walk block, value;
  bool leaves;  // some lanes are outside
} WindowWalk;

static bool is_clamped(const Instr *instr) { return !(instr->flags & (INSTR_MASKED | INSTR_OPEN)); }

static void report_range(Interp *in, const Instr *instr, int axis, int64_t at, int64_t size,
                         const char *more) {
  const Value *block = &state_of(in, instr->ref)->block;
  int64_t stride = instr->window.stride[axis];
  find(in, instr, FIND_SLICE, instr->span,
       "a slice of `%s` is out of range on axis %d: %s%s from %lld, but the axis has "
       "%lld%s",
       instr->ref->name, axis, count_text(in->words, size),
       stride == 1 ? "" : arena_printf(in->words, " with step %lld", (long long)stride),
       (long long)at, (long long)block->dim[axis], more);
}

// Clamps a start so that the window is in bounds. False if this is impossible.
static bool clamp_start(Interp *in, const Instr *instr, int axis, int64_t size, int64_t *at) {
  int64_t dim = state_of(in, instr->ref)->block.dim[axis], reach;
  bool fits = mul_i64(size > 0 ? size - 1 : 0, instr->window.stride[axis], &reach) &&
              reach + (size > 0) <= dim;
  int64_t last = fits ? dim - reach - (size > 0) : 0;
  if (!fits || (size > 0 && (*at < 0 || *at > last))) report_range(in, instr, axis, *at, size, "");
  *at = *at < 0 ? 0 : *at > last ? last : *at;
  return fits;
}

// The lanes [low, high) of an axis that are in bounds. A start that is further away than any window
// is long has none.
static void lanes_inside(int64_t dim, int64_t at, int64_t size, int64_t stride, int64_t *low,
                         int64_t *high) {
  const int64_t far = INT64_C(1) << 62;
  at = at < -far ? -far : at;
  *low = at < 0 ? (-at + stride - 1) / stride : 0;
  *high = at < dim ? (dim - at + stride - 1) / stride : 0;
  if (*high > size) *high = size;
  if (*high < *low) *low = *high = 0;
}

// False, after reporting it, if a window that must be in bounds cannot be.
static bool window_walk(Interp *in, const Instr *instr, WindowWalk *w) {
  const Value *block = &state_of(in, instr->ref)->block;
  int64_t low[MAX_RANK], high[MAX_RANK], line = 1;
  *w = (WindowWalk){.block = whole_walk(block), .value = {.rank = block->rank}};
  for (int i = 0; i < block->rank; i++) {
    const Value *start = value_of(in, instr->args[i]);
    int64_t at = start->i[0], size = resolve_dim(in->sizes, instr->window.size[i]),
            stride = instr->window.stride[i];
    if (poison_at(start, 0))
      find(in, instr, FIND_POISON_INDEX, instr->span,
           "the start of a slice of `%s` on axis %d is unspecified: %s", instr->ref->name, i,
           poison_cause(in, start->poison[0]));
    if (is_clamped(instr) && !clamp_start(in, instr, i, size, &at)) return false;
    lanes_inside(block->dim[i], at, size, stride, &low[i], &high[i]);
    w->start[i] = at;
    w->size[i] = size;
    w->leaves |= high[i] - low[i] < size;
    if (low[i] < high[i]) w->block.base += (at + low[i] * stride) * w->block.stride[i];
    w->block.stride[i] *= stride;
    w->block.extent[i] = w->value.extent[i] = high[i] - low[i];
  }
  for (int i = block->rank - 1; i >= 0; i--) {
    w->value.stride[i] = line;
    w->value.base += low[i] * line;
    line *= w->size[i];
  }
  return true;
}

// Reports the DMAs in progress with which a load or store races.
static void check_window(Interp *in, const Instr *instr, const WindowWalk *w) {
  if ((in->transfer_count == 0 && !in->mesh) || instr->flags & INSTR_OPEN) return;
  Box box = whole_block(in, instr->ref);
  for (int i = 0; i < box.rank; i++) {
    box.start[i] = w->start[i];
    box.extent[i] = w->size[i];
    box.stride[i] = box.extent[i] > 1 ? instr->window.stride[i] : 1;
  }
  const Value *mask = instr->flags & INSTR_MASKED ? value_of(in, ir_mask(instr)) : NULL;
  bool writes = instr->op == OP_STORE;
  check_access(in, instr, &box, mask, writes, writes ? "written" : "read");
}

// Marks the lanes that are in the ref, one byte each.
static uint8_t *lanes_of(Interp *in, const WindowWalk *w, int64_t count) {
  static const uint8_t one = 1;
  uint8_t *inside = scratch_space(in, 1, count, 1);
  if (!inside) return NULL;
  memset(inside, 0, (size_t)count);
  copy_walk(inside, &w->value, &one, &(Walk){.rank = w->value.rank}, 1);
  return inside;
}

// A lane outside the ref for which the mask is true.
static void check_lanes(Interp *in, const Instr *instr, const WindowWalk *w,
                        const uint8_t *inside) {
  const Value *mask = value_of(in, ir_mask(instr));
  int64_t lane = w->leaves ? 0 : mask->count, index[MAX_RANK];
  while (lane < mask->count && (inside[lane] || !mask->i[lane] || poison_at(mask, lane))) lane++;
  if (lane == mask->count) return;
  int64_t rest = lane;
  int axis = -1;
  for (int i = w->block.rank - 1; i >= 0; i--) {
    index[i] = rest % w->size[i];
    rest /= w->size[i];
    int64_t low, high, stride = instr->window.stride[i];
    lanes_inside(state_of(in, instr->ref)->block.dim[i], w->start[i], w->size[i], stride, &low,
                 &high);
    if (index[i] < low || index[i] >= high) axis = i;
  }
  report_range(in, instr, axis, w->start[axis], w->size[axis],
               arena_printf(in->words, ", and the mask is true at element %lld of the slice",
                            (long long)index[axis]));
}

static void set_element(Value *to, int64_t at, const Value *from, int64_t index) {
  if (is_float(to->dtype))
    to->f[at] = from->f[index];
  else
    to->i[at] = from->i[index];
  to->poison[at] = poison_at(from, index);
  if (to->partial) to->missing[at] = missing_at(from, index);
  if (to->uncertain) to->error[at] = error_at(from, index);
}

static void mask_load(Interp *in, const Instr *instr, Value *out, const uint8_t *inside) {
  const Value *mask = instr->flags & INSTR_MASKED ? value_of(in, ir_mask(instr)) : NULL;
  const Value *other =
      instr->flags & INSTR_OTHER ? value_of(in, instr->args[instr->nargs - 1]) : NULL;
  if (other && other->partial && !value_partial(in, out)) return;
  for (int64_t e = 0; e < out->count; e++) {
    bool asked = inside[e] && (!mask || mask->i[e]);
    uint8_t unknown = inside[e] && mask ? poison_at(mask, e) : 0;
    if (!asked && other) set_element(out, e, other, e);
    if (!asked && !other) fill_unspecified(out, e, 1, POISON_MASKED);
    if (!unknown) continue;
    out->poison[e] = unknown;
    if (out->partial) out->missing[e] = UINT64_MAX;
  }
}

// Elements that are loaded or stored as the bits of the ref's dtype.
static void convert_bits(Interp *in, Value *to, const Value *from) {
  const Instr bitcast = {.op = OP_BITCAST, .type = {.dtype = to->dtype}};
  in->arithmetic->elementwise(arithmetic_context(in), &bitcast, to, &from);
}

// Executes a load: copies the window of a block, or reports indices out of range.
void run_load(Interp *in, const Instr *instr) {
  Value *out = value_new(in, instr);
  const Value *block = &state_of(in, instr->ref)->block;
  WindowWalk w;
  if (!out || !value_poison(in, out)) return;
  if (!window_walk(in, instr, &w)) {
    fill_unspecified(out, 0, out->count, POISON_OTHER);
    return;
  }
  check_window(in, instr, &w);
  copy_walk(out->data, &w.value, block->data, &w.block, 8);
  copy_walk(out->poison, &w.value, block->poison, &w.block, 1);
  copy_missing(in, out, &w.value, block, &w.block);
  if (out->dtype != block->dtype) {
    Value loaded = *out;
    loaded.dtype = block->dtype;
    convert_bits(in, out, &loaded);
  }
  if (block->uncertain && value_error(in, out))
    copy_walk(out->error, &w.value, block->error, &w.block, 8);
  if (instr->ref->role == REF_OUTPUT)
    for (int64_t e = 0; e < out->count; e++)
      if (out->poison[e] == POISON_UNSTORED) out->poison[e] = ref_mark(instr->ref);
  if (!is_clamped(instr)) {
    uint8_t *inside = lanes_of(in, &w, out->count);
    if (!inside) return;
    if (instr->flags & INSTR_MASKED) check_lanes(in, instr, &w, inside);
    mask_load(in, instr, out, inside);
  }
  if (!first_poison(out->poison, out->count)) out->poisoned = false;
}

// The contents of the window after a masked store: the old elements where the mask is false. Lanes
// out of bounds are not read.
static bool merge_masked(Interp *in, const Instr *instr, const WindowWalk *w, Value *value) {
  const Value *block = &state_of(in, instr->ref)->block, *mask = value_of(in, ir_mask(instr));
  Value merged = *value;
  merged.poisoned = true;
  merged.partial = value->partial || block->partial;
  merged.data = scratch_space(in, 0, value->count, 8);
  merged.poison = scratch_space(in, 2, value->count, 1);
  merged.missing = scratch_space(in, 4, merged.partial ? value->count : 0, sizeof *merged.missing);
  if (!merged.data || !merged.poison || !merged.missing) return false;
  copy_walk(merged.data, &w->value, block->data, &w->block, 8);
  copy_walk(merged.poison, &w->value, block->poison, &w->block, 1);
  copy_missing(in, &merged, &w->value, block, &w->block);
  for (int64_t e = 0; e < value->count; e++) {
    uint8_t unknown = poison_at(mask, e);
    if (mask->i[e]) {
      merged.i[e] = value->i[e];  // floats too: the bits
      merged.poison[e] = poison_at(value, e);
      if (merged.partial) merged.missing[e] = missing_at(value, e);
    }
    if (!unknown) continue;
    merged.poison[e] = unknown;
    if (merged.partial) merged.missing[e] = UINT64_MAX;
  }
  *value = merged;
  return true;
}

static void store_errors(Interp *in, const Instr *instr, const WindowWalk *w) {
  Value *block = &state_of(in, instr->ref)->block;
  const Value *value = value_of(in, ir_store_value(instr));
  const Value *mask = instr->flags & INSTR_MASKED ? value_of(in, ir_mask(instr)) : NULL;
  if (!block->uncertain) return;
  double *errors = scratch_space(in, 1, value->count, sizeof *errors);
  if (!errors) return;
  copy_walk(errors, &w->value, block->error, &w->block, 8);
  for (int64_t e = 0; e < value->count; e++)
    if (!mask || mask->i[e]) errors[e] = error_at(value, e);
  copy_walk(block->error, &w->block, errors, &w->value, 8);
}

// Executes a store, in the block's dtype and under its mask.
void run_store(Interp *in, const Instr *instr) {
  RefState *state = state_of(in, instr->ref);
  const Value *value = value_of(in, ir_store_value(instr));
  Value *block = &state->block;
  WindowWalk w;
  state->last_store = instr;
  if (!window_walk(in, instr, &w)) return;
  check_window(in, instr, &w);
  Value own = *value;
  if (value->dtype != block->dtype) {
    own.dtype = block->dtype;
    own.data = scratch_space(in, 3, value->count, 8);
    if (!own.data) return;
    convert_bits(in, &own, value);
  }
  if (instr->flags & INSTR_MASKED) {
    uint8_t *inside = lanes_of(in, &w, value->count);
    if (!inside) return;
    check_lanes(in, instr, &w, inside);
    if (!merge_masked(in, instr, &w, &own)) return;
  }
  copy_walk(block->data, &w.block, own.data, &w.value, 8);
  const Walk still = {.rank = w.block.rank};
  static const uint8_t none = 0;
  copy_walk(block->poison, &w.block, own.poisoned ? own.poison : &none,
            own.poisoned ? &w.value : &still, 1);
  copy_missing(in, block, &w.block, &own, &w.value);
  store_errors(in, instr, &w);
}
