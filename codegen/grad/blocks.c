// A kernel's body as a reference of blocks: the supported kernels, and the blocks of gradients.
//
// The grid cells must be independent: whole blocks are read and stored, each block of an output
// once, and nothing is carried from cell to cell. Its cells then have a gradient each, which
// follows from their blocks alone. The gradient of an input is a sum over the axes of the grid that
// its index map ignores. Where an index map does not move blocks one by one (pages, halos), each
// step adds to the gradient of the elements that it read.
#include "codegen/grad/blocks.h"

// ---- supported kernels

bool refuse_kernel(Diag *diag, Span span, const char *format, ...) {
  Buf text = {0};
  va_list args;
  va_start(args, format);
  buf_vprintf(&text, format, args);
  va_end(args);
  diag_error(diag, span, ERR_KERNEL_DERIVED, "%s", text.text);
  buf_free(&text);
  return false;
}

bool refuse_instr(const Kernel *k, const Instr *v, Diag *diag) {
  if (v->op == OP_FOR)
    return refuse_kernel(
        diag, v->span,
        "--kernel writes a loop out if its bounds are constants and it has few iterations and "
        "no `break`: without --kernel, `pkc grad` differentiates other loops");
  if (v->op == OP_WHILE || v->op == OP_BREAK)
    return refuse_kernel(diag, v->span, "`%s` has no derivative: %s", op_info[v->op].name,
                         UNBOUNDED);
  return refuse_kernel(
      diag, v->span,
      "--kernel does not differentiate `%s`: `pkc grad` differentiates the reference of `%s`",
      op_info[v->op].name, k->name);
}

static Instr *extent_of(const Kernel *k, int axis) {
  return ir_yielded(k->grid.at[axis].extent, 0);
}

bool rounded_up(const Instr *v, Dim *size, int64_t *by) {
  if (v->op == OP_MAX && ir_is_const(v->args[0], 1)) v = v->args[1];
  if (v->op != OP_FLOORDIV || v->args[1]->op != OP_CONST || v->args[0]->op != OP_ADD) return false;
  const Instr *sum = v->args[0];
  *by = v->args[1]->ival;
  if (sum->args[0]->op != OP_SIZE || !ir_is_const(sum->args[1], *by - 1)) return false;
  *size = dim_of_size((int)sum->args[0]->ival);
  return true;
}

// Whether both are the same index, built from sizes and constants.
static bool same_index(const Kernel *k, const Instr *a, const Instr *b) {
  if (a->op == OP_SIZE && b->op == OP_SIZE && a->ival == b->ival) return true;
  if (a->op == OP_SIZE && b->op != OP_SIZE && k->sizes.at[a->ival].value)
    return same_index(k, ir_yielded(k->sizes.at[a->ival].value, 0), b);
  if (a->op != b->op || a->nargs != b->nargs || a->op == OP_LOAD || a->ival != b->ival)
    return false;
  for (int i = 0; i < a->nargs; i++)
    if (!same_index(k, a->args[i], b->args[i])) return false;
  return a->nargs > 0 || a->op == OP_CONST || a->op == OP_AXIS;
}

static bool is_extent_of(const Kernel *k, const Instr *v, Dim dim) {
  if (dim_is_const(dim)) return ir_is_const(v, dim);
  const Instr size = {.op = OP_SIZE, .ival = dim_size_index(dim)};
  return same_index(k, &size, v);
}

bool may_overhang(const Ref *ref, int axis) {
  Dim dim = ref->array.dim[axis], block = ref->block[axis];
  if (block == 1) return false;
  return dim != block && !(dim_is_const(dim) && dim_is_const(block) && dim % block == 0);
}

// Does a `require` of the kernel state that a % divides is 0?
static bool is_required(const Kernel *k, const Instr *a, const Instr *divides) {
  for (int i = 0; i < k->requires.count; i++) {
    const Instr *v = ir_yielded(k->requires.at[i].condition, 0);
    if (v->op != OP_EQ || !ir_is_const(v->args[1], 0) || v->args[0]->op != OP_REM) continue;
    if (same_index(k, v->args[0]->args[0], a) && same_index(k, v->args[0]->args[1], divides))
      return true;
  }
  return false;
}

// A size that is a constant multiple of another one: the other, *factor; else it is itself.
static Dim multiple_of(const Kernel *k, Dim dim, int64_t *factor) {
  const Region *value = k->sizes.at[dim_size_index(dim)].value;
  const Instr *v = value ? ir_yielded((Region *)value, 0) : NULL;
  *factor = 1;
  for (int i = 0; v && v->op == OP_MUL && i < 2; i++)
    if (v->args[i]->op == OP_SIZE && v->args[1 - i]->op == OP_CONST && v->args[1 - i]->ival > 0) {
      *factor = v->args[1 - i]->ival;
      return dim_of_size((int)v->args[i]->ival);
    }
  return dim;
}

// Has the grid a step for each block of that axis of an array?
static bool covers(const Kernel *k, int axis, Dim dim, Dim block) {
  const Instr *v = extent_of(k, axis);
  Dim size;
  int64_t by;
  if (!dim_is_const(block)) return dim == block && ir_is_const(v, 1);
  if (dim_is_const(dim)) return ir_is_const(v, (dim + block - 1) / block);
  int64_t factor;
  dim = multiple_of(k, dim, &factor);
  if (block % factor) return false;
  block /= factor;
  if (v->op == OP_MAX && ir_is_const(v->args[0], 1)) v = v->args[1];
  if (block == 1 && is_extent_of(k, v, dim)) return true;
  if (v->op == OP_DIV || v->op == OP_FLOORDIV)
    if (is_extent_of(k, v->args[0], dim) && ir_is_const(v->args[1], block) &&
        is_required(k, v->args[0], v->args[1]))
      return true;
  return rounded_up(v, &size, &by) && size == dim && by == block;
}

// Whether the extent is the array's extent times the divisor.
static bool is_product(const Kernel *k, const Instr *extent, Dim dim, const Instr *divisor) {
  if (divisor->op == OP_CONST && dim_is_const(dim))
    return divisor->ival > 0 && ir_is_const(extent, dim * divisor->ival);
  if (extent->op == OP_MUL)
    for (int i = 0; i < 2; i++)
      if (is_extent_of(k, extent->args[i], dim) && same_index(k, extent->args[1 - i], divisor))
        return true;
  return (divisor->op == OP_DIV || divisor->op == OP_FLOORDIV) &&
         same_index(k, divisor->args[0], extent) && is_extent_of(k, divisor->args[1], dim) &&
         is_required(k, extent, divisor->args[1]);
}

int divided_axis(const Kernel *k, const Ref *ref, int axis, const Instr **divisor) {
  const Instr *v = ref->whole ? NULL : ir_yielded(ref->index_map, axis);
  if (!v || (v->op != OP_DIV && v->op != OP_FLOORDIV) || v->args[0]->op != OP_AXIS) return -1;
  const int grid = (int)v->args[0]->ival;
  *divisor = v->args[1];
  bool good =
      ref->block[axis] == 1 && is_product(k, extent_of(k, grid), ref->array.dim[axis], *divisor);
  return good ? grid : -1;
}

// The grid axis that an index map yields for an axis of the array; -1: the first block, which is
// all of it. -2: another map.
int block_axis(const Kernel *k, const Ref *ref, int axis) {
  if (ref->whole) return -1;
  const Instr *v = ir_yielded(ref->index_map, axis);
  if (v->op == OP_AXIS && covers(k, (int)v->ival, ref->array.dim[axis], ref->block[axis]))
    return (int)v->ival;
  return ir_is_const(v, 0) && ref->block[axis] == ref->array.dim[axis] ? -1 : -2;
}

// For an index map that counts elements: the grid axis that moves the block along this axis of the
// array by one block per step. -1: one block covers the axis. -2: the map is of another form.
static int element_axis(const Kernel *k, const Ref *ref, int axis) {
  const Dim dim = ref->array.dim[axis], block = ref->block[axis];
  const Instr *v = ir_yielded(ref->index_map, axis);
  if (ir_is_const(v, 0) && block == dim) return -1;
  if (v->op == OP_MUL && dim_is_const(block) && ir_is_const(v->args[1], block))
    v = v->args[0];
  else if (block != 1)
    return -2;
  return v->op == OP_AXIS && covers(k, (int)v->ival, dim, block) ? (int)v->ival : -2;
}

int followed_axis(const Kernel *k, const Ref *ref, int axis) {
  const Instr *divisor;
  int64_t used = 0;
  for (int i = 0, found; i <= axis; i++) {
    found = ref->whole || ref->at == AT_BLOCK ? block_axis(k, ref, i) : element_axis(k, ref, i);
    if (found == -2 && ref->at == AT_BLOCK && ref->role != REF_OUTPUT) {
      const int divided = divided_axis(k, ref, i, &divisor);
      if (divided >= 0) found = divided;
    }
    if (found >= 0 && used >> found & 1) found = -2;
    if (i == axis) return found;
    if (found >= 0) used |= (int64_t)1 << found;
  }
  return -2;
}

bool is_scattered(const Kernel *k, const Ref *ref) {
  for (int i = 0; i < ref->array.rank; i++)
    if (followed_axis(k, ref, i) == -2) return true;
  return !ref->whole && ref->at != AT_BLOCK;
}

static bool check_map(const Kernel *k, const Ref *ref, Diag *diag) {
  if (ref->prefetch) return true;
  if (!ref->whole && ref->at == AT_SLICE)
    return refuse_kernel(diag, ref->map_span,
                         "blocks of `%s` are slices, which --kernel does not differentiate",
                         ref->name);
  if (ref->role == REF_INPUT || !is_scattered(k, ref)) return true;
  return refuse_kernel(
      diag, ref->map_span,
      "--kernel differentiates outputs whose block index on each axis is a grid axis with one step "
      "for each block, or 0 if the block is the whole axis: `%s` has another index map",
      ref->name);
}

int64_t ignored_axes(const Kernel *k, const Ref *ref) {
  int64_t ignored = ((int64_t)1 << k->grid.count) - 1;
  for (int i = 0; i < ref->array.rank; i++)
    if (followed_axis(k, ref, i) >= 0) ignored &= ~((int64_t)1 << followed_axis(k, ref, i));
  return ignored;
}

int64_t split_axes(const Kernel *k, const Ref *ref) {
  int64_t split = 0;
  for (int i = 0; i < ref->array.rank && ref->at == AT_BLOCK; i++)
    if (block_axis(k, ref, i) == -2 && followed_axis(k, ref, i) >= 0)
      split |= (int64_t)1 << followed_axis(k, ref, i);
  return split;
}

bool same_blocks(const Kernel *k, const Ref *a, const Ref *b) {
  if (a->whole || b->whole) return a->whole && b->whole;
  bool same = a->at == b->at;
  for (int i = 0; i < a->array.rank; i++)
    same = same && a->block[i] == b->block[i] && a->squeeze[i] == b->squeeze[i] &&
           same_index(k, ir_yielded(a->index_map, i), ir_yielded(b->index_map, i));
  return same;
}

// Refuses an output whose gradient blocks cannot express: memory shared with other blocks, or a
// value carried along an axis of the grid.
static bool check_output(const Kernel *k, const GridSums *sums, const Ref *ref, Diag *diag) {
  const int64_t ignored = ignored_axes(k, ref) & ~sums->axes;
  if (ref->alias && (!same_blocks(k, ref, ref->alias) || sums->axes))
    return refuse_kernel(diag, ref->span,
                         sums->axes
                             ? "`%s` shares the memory of `%s`, which --kernel does not support "
                               "together with a sum along the grid"
                             : "`%s` shares the memory of `%s` and has other blocks, which "
                               "--kernel does not differentiate",
                         ref->name, ref->alias->name);
  for (int i = 0; i < k->grid.count; i++)
    if (ignored >> i & 1)
      return refuse_kernel(diag, ref->map_span,
                           "blocks of `%s` are the same in each step along `%s`: --kernel does not "
                           "differentiate what steps carry along an axis",
                           ref->name, k->grid.at[i].name);
  if (sums->axes & ~ignored_axes(k, ref))
    return refuse_kernel(
        diag, ref->map_span,
        "`%s` has several blocks along the axis of a sum, which --kernel does not differentiate",
        ref->name);
  return true;
}

// Does each step store the memory before it reads it?
static bool is_local(const GridSums *sums, const Ref *ref) {
  return !sums->axes && (ref->role == REF_SCRATCH || ref->role == REF_VAR) && !ref->scope &&
         (ref->space == SPACE_VMEM || ref->space == SPACE_SMEM || ref->space == SPACE_VAR);
}

static bool check_refs(const Kernel *k, const GridSums *sums, Diag *diag) {
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    if (ref->role != REF_INPUT && ref->role != REF_OUTPUT && is_carried(sums, ref)) continue;
    if (ref == sums->kept_point)
      return refuse_kernel(diag, ref->span,
                           "the outputs depend on `%s`, which scales sums along the grid: --kernel "
                           "requires that it cancels",
                           ref->name);
    if (is_local(sums, ref)) continue;
    if (ref->role != REF_INPUT && ref->role != REF_OUTPUT)
      return refuse_kernel(
          diag, ref->span,
          "`%s` is scratch: --kernel does not differentiate the values that it carries", ref->name);
    if (!check_map(k, ref, diag) || (ref->role == REF_OUTPUT && !check_output(k, sums, ref, diag)))
      return false;
  }
  return true;
}

// The part of memory that a step has stored so far: all of it, or its first elements along an axis.
typedef struct {
  bool any, all;
  int axis;
  Dim count;
} Stored;

bool is_known_part(const Instr *v) {
  for (int i = 0; i < v->ref->type.rank; i++) {
    if (ir_window_covers(v, i)) continue;
    if (v->window.stride[i] != 1 || v->args[i]->op != OP_CONST || v->args[i]->ival < 0 ||
        !dim_is_const(v->window.size[i]))
      return false;
  }
  return v->op == OP_STORE ? !is_open(v) : !v->flags;
}

static bool check_load(const Instr *v, const Stored *stored, Diag *diag) {
  if (v->ref->role == REF_INPUT || stored[v->ref->id].all) return true;
  return refuse_kernel(
      diag, v->span,
      v->ref->role == REF_OUTPUT
          ? "`%s` is read before a step has stored all of it, which --kernel does not differentiate"
          : "`%s` is read before a step has stored all of it: --kernel does not differentiate what "
            "it carries from step to step",
      v->ref->name);
}

// Extends what is stored by a part that begins inside it or at its end.
static void see_part(const Instr *v, Stored *now) {
  int axis = -1, parts = 0;
  for (int i = 0; i < v->ref->type.rank; i++)
    if (!ir_window_covers(v, i)) axis = i, parts++;
  if (parts != 1) return;
  const Dim from = v->args[axis]->ival, done = axis == now->axis ? now->count : 0;
  if (from > done || from + v->window.size[axis] <= done) return;
  now->axis = axis;
  now->count = from + v->window.size[axis];
  now->all = now->all || now->count == v->ref->type.dim[axis];
}

static bool check_store(const GridSums *sums, const Instr *v, Stored *stored, Diag *diag) {
  Stored *now = &stored[v->ref->id];
  if (v->ref->role == REF_INPUT)
    return refuse_kernel(diag, v->span,
                         "`%s`, an input, is stored to, which --kernel does not differentiate",
                         v->ref->name);
  if (now->any && sums->axes)
    return refuse_kernel(
        diag, v->span, "`%s` is stored twice, which --kernel does not differentiate", v->ref->name);
  now->any = true;
  if (v->flags & INSTR_MASKED) return true;
  now->all = now->all || ir_window_is_full(v);
  see_part(v, now);
  return true;
}

static bool check_access(const GridSums *sums, const Instr *v, Stored *stored, Diag *diag) {
  if (!is_known_part(v))
    return refuse_kernel(
        diag, v->span,
        "--kernel differentiates accesses of whole blocks, as in `%s[...]`, and of parts "
        "that begin at constants",
        v->ref->name);
  return v->op == OP_LOAD ? check_load(v, stored, diag) : check_store(sums, v, stored, diag);
}

static bool check_instr(const Kernel *k, const GridSums *sums, const Instr *v, Stored *stored,
                        Diag *diag);

// Reads and stores inside a conditional region.
static bool check_inside(const Kernel *k, const GridSums *sums, const Instr *choice, Stored *stored,
                         Diag *diag) {
  const Region *region = choice->regions[0];
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    bool end = choice == sums->last && v->op == OP_LOAD && is_carried(sums, v->ref);
    if (v->op != OP_YIELD && !end && !check_instr(k, sums, v, stored, diag)) return false;
  }
  return true;
}

// An element of a prefetched operand that a value is computed from.
static const Instr *prefetched_in(const Instr *v) {
  const Instr *found = NULL;
  if (v->op == OP_LOAD) return v->ref->prefetch && !ir_window_is_full(v) ? v : NULL;
  if (!is_place(v)) return NULL;
  for (int i = 0; i < v->nargs && !found; i++) found = prefetched_in(v->args[i]);
  for (int r = 0; v->op == OP_IF && r < 2 && !found; r++)
    found = prefetched_in(ir_yielded(v->regions[r], 0));
  return found;
}

static bool check_prefetched(const Instr *v, Diag *diag) {
  for (int i = 0; i < v->nargs && !is_place(v); i++) {
    const Instr *element = prefetched_in(v->args[i]);
    if (element)
      return refuse_kernel(
          diag, element->span,
          "`%s` is computed from an element of `%s`, which is prefetched: --kernel allows such "
          "elements only in index maps and in a condition around a whole step",
          op_info[v->op].name, element->ref->name);
  }
  return true;
}

static bool check_instr(const Kernel *k, const GridSums *sums, const Instr *v, Stored *stored,
                        Diag *diag) {
  if (v != sums->guard && !check_prefetched(v, diag)) return false;
  if (prefetched_in(v)) return true;
  if (v->op == OP_FETCH || v->op == OP_WRITEBACK || (v == sums->first && v)) return true;
  if (v->op == OP_LOAD && is_grid_sum(sums, v->ref) && sums->loads[v->ref->id] == v) return true;
  if (v->op == OP_LOAD && sums->scale && v->ref == sums->scale) return true;
  if (v && (v == sums->last || v == sums->guard)) return check_inside(k, sums, v, stored, diag);
  if (v->op == OP_LOAD || v->op == OP_STORE) return check_access(sums, v, stored, diag);
  bool value = v->op == OP_IF && has_result(v);
  if ((v->regions[0] && !value) || op_acts(v->op)) return refuse_instr(k, v, diag);
  return true;
}

static bool reads_input(const Region *region, const Ref *ref, const Instr *except) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v == except) continue;
    if (v->op == OP_LOAD && v->ref == ref) return true;
    for (int r = 0; r < 2; r++)
      if (reads_input(v->regions[r], ref, except)) return true;
  }
  return false;
}

bool is_read_at_end(const GridSums *sums, const Ref *ref) {
  return reads_input(sums->last->regions[0], ref, NULL);
}

// ---- do elements past an edge reach those inside?

// A slice or a padding that changes this axis.
static bool changes(const Instr *v, int axis) {
  const Type *from = &v->args[0]->type;
  return axis >= 0 && (v->type.dim[axis] != from->dim[axis] || v->ints[axis] != 0);
}

// Does the operation move elements along axis `rank - from_last`?
static bool moves_along(const Instr *v, int from_last) {
  const int axis = v->type.rank - from_last;
  if (v->op == OP_SLICE || v->op == OP_PAD) return changes(v, axis);
  switch (op_info[v->op].moves) {
    case MOVES_NOTHING:
      return false;
    case MOVES_AXIS:
      return v->ival == axis;
    case MOVES_AXES:
      return axis >= 0 && (v->ival >> axis & 1);
    default:
      return v->nargs > 0 && v->op != OP_BROADCAST && v->op != OP_YIELD;
  }
}

static bool moves_elements(const Region *region, int from_last) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    bool access = (v->op == OP_LOAD || v->op == OP_STORE) && ir_window_is_full(v);
    if (v->regions[0] || (!access && moves_along(v, from_last))) return true;
  }
  return false;
}

// ---- a last step that is derived apart

static bool check_edges(const Kernel *k, const GridSums *sums, Diag *diag) {
  for (int o = 0; o < k->outputs; o++) {
    const Ref *ref = k->refs.at[k->inputs + o];
    int at = 0;
    for (int i = 0; i < ref->array.rank; i++) {
      if (ref->squeeze[i]) continue;
      if (may_overhang(ref, i) && moves_elements(sums->last->regions[0], ref->type.rank - at))
        return refuse_kernel(
            diag, sums->last->span,
            "the last step moves elements along axis %d of `%s`, whose blocks may end "
            "past the array, which --kernel does not differentiate",
            i, ref->name);
      at++;
    }
  }
  return true;
}

static bool uses_axes(const Region *map, int64_t axes) {
  for (int i = 0; map && i < map->instrs.count; i++)
    if (map->instrs.at[i]->op == OP_AXIS && axes >> map->instrs.at[i]->ival & 1) return true;
  return false;
}

// A value that a separate kernel derives is read and stored by that kernel.
static bool check_end(const Kernel *k, const GridSums *sums, Diag *diag) {
  const Region *end = sums->last->regions[0];
  double value;
  for (int i = 0; i < end->instrs.count; i++)
    for (int a = 0; a < end->instrs.at[i]->nargs; a++) {
      const Instr *arg = end->instrs.at[i]->args[a];
      bool here = is_place(arg) || is_number(arg, &value);
      for (int j = 0; j < i && !here; j++) here = end->instrs.at[j] == arg;
      if (!here)
        return refuse_kernel(
            diag, end->instrs.at[i]->span,
            "the last step uses what each step computes, which --kernel does not differentiate");
    }
  for (int i = 0; i < k->inputs; i++)
    if (is_read_at_end(sums, k->refs.at[i]) && uses_axes(k->refs.at[i]->index_map, sums->axes))
      return refuse_kernel(
          diag, k->refs.at[i]->map_span,
          "the last step reads a block of `%s` that depends on the axis of the sum, "
          "which --kernel does not differentiate",
          k->refs.at[i]->name);
    else if (is_read_at_end(sums, k->refs.at[i]) && reads_input(k->body, k->refs.at[i], sums->last))
      return refuse_kernel(
          diag, k->refs.at[i]->span,
          "`%s` is read by each step and by the last one, which --kernel does not differentiate",
          k->refs.at[i]->name);
  return check_edges(k, sums, diag);
}

bool check_extents(const Kernel *k, Diag *diag) {
  Grad g = {.k = (Kernel *)k, .arena = k->arena};
  for (int i = 0; i < k->grid.count; i++)
    if (!is_extent(&g, extent_of(k, i)))
      return refuse_kernel(
          diag, k->grid.at[i].span,
          "the number of steps along `%s` does not follow from sizes, which --kernel "
          "does not differentiate",
          k->grid.at[i].name);
  return true;
}

bool check_blocks(const Kernel *k, bool forward, Diag *diag) {
  const GridSums sums = forward ? (GridSums){0} : find_grid_sums(k);
  if (k->flow)
    return refuse_kernel(diag, k->span,
                         "`%s` is a program: --kernel differentiates kernels, and -k selects one",
                         k->name);
  if (k->mesh.count)
    return refuse_kernel(diag, k->span, "--kernel does not differentiate kernels with a mesh");
  if (!check_refs(k, &sums, diag)) return false;
  Stored *stored = NEW_ARRAY(k->arena, Stored, k->refs.count + 1);
  for (int i = 0; i < k->refs.count; i++) stored[i].all = k->refs.at[i]->alias != NULL;
  for (int i = 0; i < k->body->instrs.count; i++)
    if (!check_instr(k, &sums, k->body->instrs.at[i], stored, diag)) return false;
  for (int i = 0; i < k->outputs; i++)
    if (!stored[k->inputs + i].any && !k->refs.at[k->inputs + i]->alias)
      return refuse_kernel(diag, k->refs.at[k->inputs + i]->span, "nothing stores `%s`",
                           k->refs.at[k->inputs + i]->name);
  return !sums.apart || (check_extents(k, diag) && check_end(k, &sums, diag));
}

// ---- the body as a reference

typedef struct {
  Kernel *k;
  Part part;
  GridSums sums;
  Region *region;
  Instr **image;   // by id
  Instr **arrays;  // by ref: of each operand that is read
  Instr **stored;  // by ref: the value that memory holds, or NULL
  bool at_end;     // in the last step
} Build;

static void read_operand(Build *b, Ref *ref) {
  Instr *v = ir_new(b->k, OP_ARRAY, ref->type, ref->span, 0, NULL);
  v->ref = ref;
  b->arrays[ref->id] = ir_append(b->k, b->region, v);
}

static Instr *image_of(const Build *b, Instr *v, int count) {
  while (v->id < count && b->image[v->id]) v = b->image[v->id];
  return v;
}

static void replace_args(const Build *b, Region *region, int count) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int a = 0; a < v->nargs; a++) v->args[a] = image_of(b, v->args[a], count);
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) replace_args(b, v->regions[r], count);
  }
}

static Grad here(const Build *b, Span span) {
  return (Grad){.k = b->k, .arena = b->k->arena, .top = b->region, .out = b->region, .span = span};
}

static void take_load(Build *b, Instr *v) {
  Instr *array = b->arrays[v->ref->id], *sum = b->sums.axes ? b->sums.added[v->ref->id] : NULL;
  Instr *value = array ? array : sum ? sum : b->stored[v->ref->id];
  Grad g = here(b, v->span);
  if (v->ref->prefetch || sum)
    b->image[v->id] = value;
  else
    b->image[v->id] = value ? window_value(&g, value, v, v->args) : NULL;
  if (array && b->image[v->id] == array && !array->text) array->text = v->text;
}

static Instr *nothing_stored(Grad *g, Type type) {
  return type.dtype == DT_BOOL ? put_truth(g, false, type) : put_zero(g, type);
}

static void take_store(Build *b, Instr *v) {
  const Ref *ref = v->ref;
  Grad g = here(b, v->span);
  if (b->sums.axes && b->sums.added[ref->id] && !b->at_end) {
    b->stored[ref->id] = b->sums.added[ref->id];
    return;
  }
  Instr *before = b->stored[ref->id], *value = ir_store_value(v);
  const bool masks = v->flags & INSTR_MASKED;
  if (!before && (masks || !ir_window_is_full(v))) before = nothing_stored(&g, ref->type);
  if (masks) value = put_choice(&g, ir_mask(v), value, window_value(&g, before, v, v->args));
  if (!before && value->type.rank != ref->type.rank) value = put_reshape(&g, value, ref->type);
  b->stored[ref->id] = before ? with_window(&g, before, v, value) : value;
}

// One step of a sum along the grid represents all of its steps: each has the same function of the
// sum's gradient as its gradient.
static void take_region(Build *b, const Region *from) {
  for (int i = 0; i < from->instrs.count; i++) {
    Instr *v = from->instrs.at[i];
    const GridSums *s = &b->sums;
    if (v->op == OP_FETCH || v->op == OP_WRITEBACK || v->op == OP_YIELD) continue;
    if (v->op == OP_IF && prefetched_in(v)) continue;
    if (s->axes && (v == s->first || v == s->last || v == s->guard)) {
      bool taken = v == s->last ? b->part != PART_STEP : v == s->guard && b->part != PART_END;
      b->at_end = v == s->last;
      if (taken) take_region(b, v->regions[0]);
      b->at_end = false;
    } else if (s->scale && v == s->reached) {
      b->image[v->id] = b->arrays[s->scale->id];
    } else if (v->op == OP_LOAD) {
      take_load(b, v);
    } else if (v->op == OP_STORE) {
      take_store(b, v);
    } else {
      LIST_PUSH(b->k->arena, &b->region->instrs, v);
    }
  }
}

// ---- values that a kernel carries as operands: one block for each cell of their axes

void make_array(Kernel *k, const GridSums *s, Ref *ref) {
  static const Type none = {.dtype = DT_COUNT};
  Region *map = ir_region(k);
  Grad g = {.k = k, .arena = k->arena, .out = map, .span = ref->span};
  Instr *at[MAX_RANK];
  Type array = {.dtype = ref->type.dtype};
  for (int i = 0; i < k->grid.count; i++) {
    if (s->axes >> i & 1) continue;
    at[array.rank] = put(&g, OP_AXIS, type_scalar(DT_I64), 0);
    at[array.rank]->ival = i;
    ref->block[array.rank] = 1;
    ref->squeeze[array.rank] = true;
    array.dim[array.rank++] = extent_named(&g, extent_of(k, i));
  }
  for (int i = 0; i < ref->type.rank; i++) {
    at[array.rank] = put_index(&g, 0);
    ref->block[array.rank] = array.dim[array.rank] = ref->type.dim[i];
    array.rank++;
  }
  ir_append(k, map, ir_new(k, OP_YIELD, none, ref->span, array.rank, at));
  ref->array = array;
  ref->at = AT_BLOCK;
  ref->index_map = map;
}

// The part of an operand or of memory that each part of the derived kernel has.
typedef enum { NO_OPERAND, READ, STORED } Use;

static Use use_of(const Build *b, const Ref *ref) {
  if (ref->role == REF_INPUT) return READ;
  if (ref->role == REF_OUTPUT)
    return b->part == PART_ALL || b->part == PART_END ? STORED : NO_OPERAND;
  if (!is_carried(&b->sums, ref) || b->part == PART_ALL) return NO_OPERAND;
  if (b->part == PART_END) return READ;
  return b->part == PART_STEP && ref == b->sums.scale ? READ : STORED;
}

// The part's operands come first.
static Blocks sign_part(Build *b) {
  Kernel *k = b->k;
  LIST(Ref *) refs = {0};
  Blocks blocks = {.edges = NEW_ARRAY(k->arena, Ref, k->outputs + 1), .edge_count = k->outputs};
  for (int i = 0; i < k->outputs; i++) blocks.edges[i] = *k->refs.at[k->inputs + i];
  for (Use use = READ; use <= STORED; use++) {
    for (int i = 0; i < k->refs.count; i++)
      if (use_of(b, k->refs.at[i]) == use) LIST_PUSH(k->arena, &refs, k->refs.at[i]);
    *(use == READ ? &blocks.inputs : &blocks.outputs) = refs.count - blocks.inputs;
  }
  blocks.refs = NEW_ARRAY(k->arena, Ref, refs.count + 1);
  for (int i = 0; i < refs.count; i++) {
    Ref *ref = refs.at[i];
    if (is_carried(&b->sums, ref) && b->part != PART_ALL) make_array(k, &b->sums, ref);
    blocks.refs[i] = *ref;
    ref->role = i < blocks.inputs ? REF_INPUT : REF_OUTPUT;
  }
  return blocks;
}

static void reorder_refs(Build *b, const Blocks *blocks) {
  Kernel *k = b->k;
  const int count = k->refs.count, operands = blocks->inputs + blocks->outputs;
  Ref **old = NEW_ARRAY(k->arena, Ref *, count + 1);
  int next = operands;
  for (int i = 0; i < count; i++) old[i] = k->refs.at[i];
  for (int i = 0; i < count; i++) {
    int place = -1;
    for (int j = 0; j < operands; j++)
      if (blocks->refs[j].name == old[i]->name) place = j;
    k->refs.at[place < 0 ? next++ : place] = old[i];
  }
  for (int i = 0; i < count; i++) k->refs.at[i]->id = i;
  k->inputs = blocks->inputs;
  k->outputs = blocks->outputs;
}

static Instr *place_again(Grad *g, const Instr *v) {
  if (v->op == OP_IF) {
    Instr *test = place_again(g, v->args[0]), *yes = place_again(g, ir_yielded(v->regions[0], 0));
    return put_choice(g, test, yes, place_again(g, ir_yielded(v->regions[1], 0)));
  }
  Instr *copy = ir_copy(g->k, v);
  for (int i = 0; i < v->nargs; i++) copy->args[i] = place_again(g, v->args[i]);
  return ir_append(g->k, g->out, copy);
}

// The condition of each step, without the values computed before it.
static Region *guard_of(const Build *b) {
  static const Type none = {.dtype = DT_COUNT};
  if (b->part != PART_STEP || !b->sums.guard) return NULL;
  Region *region = ir_region(b->k);
  Grad g = {.k = b->k, .arena = b->k->arena, .out = region, .span = b->k->span};
  put(&g, OP_YIELD, none, 1, place_again(&g, b->sums.guard->args[0]));
  return region;
}

static Build start_build(Kernel *k, Part part, bool forward) {
  const int refs = k->refs.count + 1;
  Build b = {.k = k,
             .part = part,
             .region = ir_region(k),
             .image = NEW_ARRAY(k->arena, Instr *, k->next_id),
             .arrays = NEW_ARRAY(k->arena, Instr *, refs),
             .stored = NEW_ARRAY(k->arena, Instr *, refs)};
  b.sums = forward ? (GridSums){0} : find_grid_sums(k);
  return b;
}

// Makes a part of the body the reference of the kernel: refs that it reads become operands, and the
// last values of refs that it stores become results.
Blocks part_as_reference(Kernel *k, Part part, bool forward) {
  static const Type none = {.dtype = DT_COUNT};
  const int count = k->next_id;
  Build b = start_build(k, part, forward);
  Blocks blocks = sign_part(&b);
  blocks.guard = guard_of(&b);
  blocks.stepwise = b.sums.axes;
  for (int i = 0; i < k->refs.count; i++)
    if (k->refs.at[i]->role == REF_INPUT) read_operand(&b, k->refs.at[i]);
  for (int i = 0; i < k->refs.count; i++)
    if (k->refs.at[i]->alias) b.stored[i] = b.arrays[k->refs.at[i]->alias->id];
  take_region(&b, k->body);
  replace_args(&b, b.region, count);
  Instr **results = NEW_ARRAY(k->arena, Instr *, blocks.outputs + 1);
  for (int i = 0; i < blocks.outputs; i++)
    results[i] = image_of(&b, b.stored[blocks.refs[blocks.inputs + i].id], count);
  ir_append(k, b.region, ir_new(k, OP_YIELD, none, k->span, blocks.outputs, results));
  reorder_refs(&b, &blocks);
  for (int i = 0; i < k->grid.count; i++) {
    const bool summed = b.sums.axes >> i & 1;
    k->grid.at[i].parallel = k->grid.at[i].parallel || summed;
    if (summed && part == PART_END) blocks.skipped |= (int64_t)1 << i;
  }
  k->reference = b.region;
  k->states.count = 0;
  for (int i = 0; i < k->refs.count; i++) k->refs.at[i]->array = k->refs.at[i]->type;
  return blocks;
}

// ---- the sums themselves

// The body without its last step; carried memory becomes vars of the same names.
static void keep_region(Build *b, Region *region, Ref *const *vars) {
  const Region old = *region;
  region->instrs.at = NULL;
  region->instrs.count = region->instrs.capacity = 0;
  for (int i = 0; i < old.instrs.count; i++) {
    Instr *v = old.instrs.at[i];
    if (v->op == OP_FETCH || v->op == OP_WRITEBACK || v == b->sums.last) continue;
    if (v->op == OP_LOAD && b->arrays[v->ref->id]) {
      take_load(b, v);
      continue;
    }
    if (v->op == OP_LOAD || v->op == OP_STORE) v->ref = vars[v->ref->id];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) keep_region(b, v->regions[r], vars);
    LIST_PUSH(b->k->arena, &region->instrs, v);
  }
}

Blocks sums_as_reference(Kernel *k) {
  static const Type none = {.dtype = DT_COUNT};
  const int count = k->next_id;
  Build b = start_build(k, PART_SUMS, false);
  Blocks blocks = sign_part(&b);
  Grad g = here(&b, k->span);
  Ref **vars = NEW_ARRAY(k->arena, Ref *, k->refs.count + 1);
  Instr **results = NEW_ARRAY(k->arena, Instr *, blocks.outputs + 1);
  k->states.count = 0;
  for (int i = 0; i < blocks.outputs; i++) {
    const Ref *ref = &blocks.refs[blocks.inputs + i];
    vars[ref->id] = new_state(&g, ref->name, ref->type);
  }
  for (int i = 0; i < k->refs.count; i++)
    if (k->refs.at[i]->role == REF_INPUT) read_operand(&b, k->refs.at[i]);
  keep_region(&b, k->body, vars);
  replace_args(&b, k->body, count);
  for (int i = 0; i < k->body->instrs.count; i++) ir_append(k, b.region, k->body->instrs.at[i]);
  for (int i = 0; i < blocks.outputs; i++) results[i] = put_load(&g, k->states.at[i]);
  ir_append(k, b.region, ir_new(k, OP_YIELD, none, k->span, blocks.outputs, results));
  clean(&g);
  b.region->instrs.count--;
  reorder_refs(&b, &blocks);
  k->reference = b.region;
  blocks.ignored = b.sums.axes;
  blocks.pads = true;
  for (int i = 0; i < k->refs.count; i++) k->refs.at[i]->array = k->refs.at[i]->type;
  return blocks;
}

// ---- edges

// Is the element within the array along one axis? The shape is that of the block, with 1 along
// other axes.
static Instr *inside_axis(Grad *g, const Ref *ref, int axis, int at, Type block) {
  Type along = type_as(block, DT_I64);
  for (int i = 0; i < along.rank; i++)
    if (i != at) along.dim[i] = 1;
  Instr *start = put(g, OP_AXIS, type_scalar(DT_I64), 0);
  start->ival = ir_yielded(ref->index_map, axis)->ival;
  start = put_pair(g, OP_MUL, start, put_index(g, ref->block[axis]));
  Instr *place = put_iota(g, along, DT_I64, at);
  place = put(g, OP_ADD, along, 2, put_spread(g, start, along), place);
  Instr *test =
      put_test(g, OP_LT, place, put_spread(g, put_extent(g, ref->array.dim[axis]), along));
  return put_spread(g, test, block);
}

// The operand whose array ends along axis `at` of an output's block, if blocks may exceed it, and
// the axis of that array. For carried memory it is an output to which the last step stores the
// elements along that axis in order.
static const Ref *edge_at(const Blocks *b, int output, int at, int *axis) {
  const Ref *ref = &b->refs[b->inputs + output];
  const bool own = ref->role == REF_OUTPUT;
  for (int e = 0; e < (own ? 1 : b->edge_count); e++) {
    const Ref *edge = own ? ref : &b->edges[e];
    int place = edge->type.rank - (ref->type.rank - at), here = 0;
    for (int i = 0; i < edge->array.rank; i++) {
      if (edge->squeeze[i] || here++ != place || !may_overhang(edge, i)) continue;
      *axis = i;
      if (edge->type.dim[place] == ref->type.dim[at]) return edge;
    }
  }
  return NULL;
}

// May a step be past the end of the array along an axis whose blocks are single elements, because
// the grid has a step even if there are none?
static bool may_miss(const Kernel *k, const Ref *ref, int axis) {
  const int grid = followed_axis(k, ref, axis);
  const Instr *extent = grid < 0 ? NULL : extent_of(k, grid);
  return extent && ref->block[axis] == 1 && !dim_is_const(ref->array.dim[axis]) &&
         extent->op == OP_MAX;
}

bool may_miss_any(const Kernel *k, const Ref *ref) {
  for (int i = 0; i < ref->array.rank; i++)
    if (may_miss(k, ref, i)) return true;
  return false;
}

// Is the step one of those that there are blocks for?
static Instr *within_steps(Grad *g, const Ref *ref, Instr *all) {
  for (int i = 0; i < ref->array.rank; i++) {
    if (!may_miss(g->k, ref, i)) continue;
    Instr *at = put(g, OP_AXIS, type_scalar(DT_I64), 0);
    at->ival = followed_axis(g->k, ref, i);
    Instr *one = put_test(g, OP_LT, at, put_extent(g, ref->array.dim[i]));
    one = put_spread(g, one, type_as(ref->type, DT_BOOL));
    all = all ? put_pair(g, OP_AND, all, one) : one;
  }
  return all;
}

Instr *inside(Grad *g, int output) {
  const Blocks *b = g->blocks;
  const Ref *ref = &b->refs[b->inputs + output];
  Instr *all = NULL;
  if (b->backwards && ref->role != REF_OUTPUT) return NULL;  // a state
  for (int at = 0; at < ref->type.rank && b->masks; at++) {
    int axis;
    const Ref *edge = edge_at(b, output, at, &axis);
    if (!edge) continue;
    Instr *one = inside_axis(g, edge, axis, at, ref->type);
    all = all ? put_pair(g, OP_AND, all, one) : one;
  }
  return b->backwards && b->masks ? within_steps(g, ref, all) : all;
}

// A finite number that elements past the edges of an input's array are.
static bool is_padded(const Ref *ref) {
  double value;
  return ref->has_pad && is_number(ref->pad, &value) && value - value == 0;
}

static const Ref *block_read(const Grad *g, const Instr *v) {
  while (v->op == OP_CAST) v = v->args[0];
  for (int i = 0; v->op == OP_ARRAY && g->blocks && i < g->blocks->inputs; i++)
    if (g->blocks->refs[i].name == v->ref->name) return &g->blocks->refs[i];
  return NULL;
}

Instr *inside_padded(Grad *g, const Instr *v) {
  const Ref *ref = block_read(g, v);
  Instr *all = NULL;
  if (!ref || ref->whole || ref->at != AT_BLOCK || !is_padded(ref)) return NULL;
  for (int i = 0, at = 0; i < ref->array.rank; i++) {
    if (may_overhang(ref, i)) {
      if (ref->squeeze[i] || ir_yielded(ref->index_map, i)->op != OP_AXIS) return NULL;
      Instr *one = inside_axis(g, ref, i, at, ref->type);
      all = all ? put_pair(g, OP_AND, all, one) : one;
    }
    at += !ref->squeeze[i];
  }
  return all;
}

bool blocks_add_up(const Blocks *blocks) {
  return blocks->ignored || blocks->split || blocks->scattered;
}

bool adds_up(const Kernel *k, const Blocks *b, int input) {
  if (!b->backwards) return blocks_add_up(b);
  const Ref *ref = &b->refs[input];
  return ref->role != REF_INPUT || (b->partial && b->partial[input]) ||
         (ignored_axes(k, ref) & b->backwards);
}

bool needs_masks(const Kernel *k, const Blocks *b) {
  for (int o = 0; o < b->outputs; o++) {
    const Ref *ref = &b->refs[b->inputs + o];
    int axis;
    if (b->backwards && ref->role != REF_OUTPUT) continue;
    if (b->backwards && may_miss_any(k, ref)) return true;
    for (int at = 0; at < ref->type.rank; at++)
      if (edge_at(b, o, at, &axis) &&
          (blocks_add_up(b) || moves_elements(k->reference, ref->type.rank - at)))
        return true;
  }
  return false;
}
