// A kernel's body as a reference of blocks: what may be derived, and which blocks a gradient has.
//
// Of a kernel whose grid cells are independent: whole blocks are read and stored, each block of an
// output once, and nothing is carried from cell to cell. Its cells then have a gradient each, which
// follows from their blocks alone. An input whose index map ignores axes of the grid has the sum
// over these.
#include "codegen/grad/blocks.h"

// ---- supported kernels

static bool refuse(Diag *diag, Span span, const char *format, ...) PRINTF_LIKE(3, 4);
static bool refuse(Diag *diag, Span span, const char *format, ...) {
  Buf text = {0};
  va_list args;
  va_start(args, format);
  buf_vprintf(&text, format, args);
  va_end(args);
  diag_error(diag, span, ERR_KERNEL_DERIVED, "%s", text.text);
  buf_free(&text);
  return false;
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

// Has the grid a step for each block of that axis of an array?
static bool covers(const Kernel *k, int axis, Dim dim, Dim block) {
  const Instr *v = extent_of(k, axis);
  Dim size;
  int64_t by;
  if (!dim_is_const(block)) return dim == block && ir_is_const(v, 1);
  if (dim_is_const(dim)) return ir_is_const(v, (dim + block - 1) / block);
  if (v->op == OP_MAX && ir_is_const(v->args[0], 1)) v = v->args[1];
  if (block == 1 && v->op == OP_SIZE) return dim_of_size((int)v->ival) == dim;
  return rounded_up(v, &size, &by) && size == dim && by == block;
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

static bool check_map(const Kernel *k, const Ref *ref, Diag *diag) {
  if (ref->prefetch)
    return refuse(diag, ref->span, "`%s` is prefetched, which --kernel does not derive", ref->name);
  if (ref->at != AT_BLOCK)
    return refuse(diag, ref->map_span,
                  "blocks of `%s` begin at elements, which --kernel does not derive", ref->name);
  int64_t used = 0;
  for (int i = 0; i < ref->array.rank; i++) {
    int axis = block_axis(k, ref, i);
    if (axis == -2 || (axis >= 0 && used >> axis & 1))
      return refuse(diag, ref->map_span,
                    "--kernel derives blocks at an axis of the grid that has a step for each of "
                    "them, or at 0 where they are all of the array: axis %d of `%s` is another",
                    i, ref->name);
    if (axis >= 0) used |= (int64_t)1 << axis;
  }
  return true;
}

int64_t ignored_axes(const Kernel *k, const Ref *ref) {
  int64_t ignored = ((int64_t)1 << k->grid.count) - 1;
  for (int i = 0; i < ref->array.rank; i++)
    if (block_axis(k, ref, i) >= 0) ignored &= ~((int64_t)1 << block_axis(k, ref, i));
  return ignored;
}

static bool check_output(const Kernel *k, const GridSums *sums, const Ref *ref, Diag *diag) {
  const int64_t ignored = ignored_axes(k, ref) & ~sums->axes;
  if (ref->alias)
    return refuse(diag, ref->span,
                  "`%s` has the memory of an input, which --kernel does not derive", ref->name);
  for (int i = 0; i < k->grid.count; i++)
    if (ignored >> i & 1)
      return refuse(diag, ref->map_span,
                    "blocks of `%s` are the same in each step along `%s`: what is carried along an "
                    "axis is not derived by --kernel",
                    ref->name, k->grid.at[i].name);
  if (sums->axes & ~ignored_axes(k, ref))
    return refuse(diag, ref->map_span,
                  "blocks of `%s` differ along the axis that a sum is added up along, which "
                  "--kernel does not derive",
                  ref->name);
  return true;
}

static bool check_refs(const Kernel *k, const GridSums *sums, Diag *diag) {
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    if (ref->role != REF_INPUT && ref->role != REF_OUTPUT && is_grid_sum(sums, ref)) continue;
    if (ref->role != REF_INPUT && ref->role != REF_OUTPUT)
      return refuse(diag, ref->span,
                    "`%s` is memory of the kernel: what it carries is not derived by --kernel",
                    ref->name);
    if (!check_map(k, ref, diag) || (ref->role == REF_OUTPUT && !check_output(k, sums, ref, diag)))
      return false;
  }
  return true;
}

static bool check_access(const Instr *v, const bool *stored, Diag *diag) {
  if (v->flags || !ir_window_is_full(v))
    return refuse(diag, v->span, "--kernel derives whole blocks, as in `%s[...]`: this is a part",
                  v->ref->name);
  if (v->op == OP_LOAD && v->ref->role != REF_INPUT)
    return refuse(diag, v->span, "`%s` is read again, which --kernel does not derive",
                  v->ref->name);
  if (v->op == OP_STORE && stored[v->ref->id])
    return refuse(diag, v->span, "`%s` is stored twice, which --kernel does not derive",
                  v->ref->name);
  return true;
}

static bool check_instr(const Kernel *k, const GridSums *sums, const Instr *v, bool *stored,
                        Diag *diag) {
  if (v->op == OP_FETCH || v->op == OP_WRITEBACK || (v == sums->first && v)) return true;
  if (v->op == OP_LOAD && is_grid_sum(sums, v->ref) && sums->loads[v->ref->id] == v) return true;
  if (v == sums->last && v) {
    for (int i = 0; i < v->regions[0]->instrs.count; i++) {
      const Instr *inner = v->regions[0]->instrs.at[i];
      if (inner->op == OP_STORE && !check_instr(k, sums, inner, stored, diag)) return false;
    }
    return true;
  }
  if (v->op == OP_LOAD || v->op == OP_STORE) {
    bool good = check_access(v, stored, diag);
    if (v->op == OP_STORE) stored[v->ref->id] = true;
    return good;
  }
  bool value = v->op == OP_IF && has_result(v);
  if ((v->regions[0] && !value) || op_acts(v->op))
    return refuse(diag, v->span,
                  "--kernel does not derive `%s`: `pkc grad` derives the reference of `%s`",
                  op_info[v->op].name, k->name);
  return true;
}

bool check_blocks(const Kernel *k, bool forward, Diag *diag) {
  const GridSums sums = forward ? (GridSums){0} : find_grid_sums(k);
  if (k->flow)
    return refuse(diag, k->span, "`%s` is a program: --kernel derives kernels, each by -k",
                  k->name);
  if (k->mesh.count) return refuse(diag, k->span, "--kernel does not derive kernels with a mesh");
  if (!check_refs(k, &sums, diag)) return false;
  bool *stored = NEW_ARRAY(k->arena, bool, k->refs.count + 1);
  for (int i = 0; i < k->body->instrs.count; i++)
    if (!check_instr(k, &sums, k->body->instrs.at[i], stored, diag)) return false;
  for (int i = 0; i < k->outputs; i++)
    if (!stored[k->inputs + i])
      return refuse(diag, k->refs.at[k->inputs + i]->span, "nothing stores `%s`",
                    k->refs.at[k->inputs + i]->name);
  return true;
}

// ---- the body as a reference

static Instr *array_of(Kernel *k, Region *region, Ref *ref) {
  Instr *v = ir_append(k, region, ir_new(k, OP_ARRAY, ref->type, ref->span, 0, NULL));
  v->ref = ref;
  return v;
}

static void replace_args(Region *region, Instr *const *image, int count) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    for (int a = 0; a < v->nargs; a++)
      while (v->args[a]->id < count && image[v->args[a]->id]) v->args[a] = image[v->args[a]->id];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) replace_args(v->regions[r], image, count);
  }
}

// The body without its sums along the grid: a step of one stands for all of it, since its gradient
// is the same function of the output's.
static void drop_sums(Kernel *k, const GridSums *sums, Instr **image) {
  const Region body = *k->body;
  k->body->instrs.at = NULL;
  k->body->instrs.count = k->body->instrs.capacity = 0;
  for (int i = 0; i < body.instrs.count; i++) {
    Instr *v = body.instrs.at[i];
    const Region *ends = sums->last && v == sums->last ? v->regions[0] : NULL;
    bool sum = v->ref && is_grid_sum(sums, v->ref);
    if (sum && v->op == OP_LOAD) image[v->id] = sums->added[v->ref->id];
    if (sum && v->op == OP_STORE && v->ref->role == REF_OUTPUT)
      v->args[v->nargs - 1] = sums->added[v->ref->id];
    bool kept = v->ref && v->ref->role == REF_OUTPUT && v->op == OP_STORE;
    if ((!sum || kept) && v != sums->first && !ends) LIST_PUSH(k->arena, &k->body->instrs, v);
    for (int j = 0; ends && j < ends->instrs.count; j++) {
      Instr *inner = ends->instrs.at[j];
      if (inner->op == OP_LOAD) image[inner->id] = sums->added[inner->ref->id];
      if (inner->op != OP_LOAD && inner->op != OP_YIELD)
        LIST_PUSH(k->arena, &k->body->instrs, inner);
    }
  }
  for (int i = 0; i < k->grid.count; i++)
    k->grid.at[i].parallel = k->grid.at[i].parallel || (sums->axes >> i & 1);
}

void blocks_as_reference(Kernel *k, bool forward) {
  static const Type none = {.dtype = DT_COUNT};
  const GridSums sums = forward ? (GridSums){0} : find_grid_sums(k);
  const int count = k->next_id;
  Region *region = ir_region(k);
  Instr **image = NEW_ARRAY(k->arena, Instr *, count),
        **arrays = NEW_ARRAY(k->arena, Instr *, k->inputs + 1),
        **stored = NEW_ARRAY(k->arena, Instr *, k->outputs + 1);
  for (int i = 0; i < k->inputs; i++) arrays[i] = array_of(k, region, k->refs.at[i]);
  if (sums.axes) drop_sums(k, &sums, image);
  replace_args(k->body, image, count);
  for (int i = 0; i < k->body->instrs.count; i++) {
    Instr *v = k->body->instrs.at[i];
    if (v->op == OP_FETCH || v->op == OP_WRITEBACK) continue;
    if (v->op == OP_LOAD) {
      image[v->id] = arrays[v->ref->id];
      if (!arrays[v->ref->id]->text) arrays[v->ref->id]->text = v->text;
    } else if (v->op == OP_STORE) {
      stored[v->ref->id - k->inputs] = ir_store_value(v);
    } else {
      LIST_PUSH(k->arena, &region->instrs, v);
    }
  }
  replace_args(region, image, count);
  for (int i = 0; i < k->outputs; i++)
    while (stored[i]->id < count && image[stored[i]->id]) stored[i] = image[stored[i]->id];
  ir_append(k, region, ir_new(k, OP_YIELD, none, k->span, k->outputs, stored));
  k->reference = region;
  k->states.count = 0;
  for (int i = 0; i < k->refs.count; i++) k->refs.at[i]->array = k->refs.at[i]->type;
}

// ---- edges

static bool may_overhang(const Ref *ref, int axis) {
  Dim dim = ref->array.dim[axis], block = ref->block[axis];
  return dim != block && !(dim_is_const(dim) && dim_is_const(block) && dim % block == 0);
}

// Along an axis of the array: the element's place is below its extent. Of the shape of the block,
// but 1 along other axes.
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

Instr *inside(Grad *g, int output) {
  const Blocks *b = g->blocks;
  const Ref *ref = &b->refs[b->inputs + output];
  Instr *all = NULL;
  int at = 0;
  for (int i = 0; i < ref->array.rank && b->masks; i++) {
    if (ref->squeeze[i]) continue;
    if (may_overhang(ref, i)) {
      Instr *one = inside_axis(g, ref, i, at, ref->type);
      all = all ? put_pair(g, OP_AND, all, one) : one;
    }
    at++;
  }
  return all;
}

bool blocks_add_up(const Blocks *blocks) { return blocks->ignored != 0; }

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

static bool region_moves_along(const Region *region, int from_last) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->regions[0] || moves_along(v, from_last)) return true;
  }
  return false;
}

bool needs_masks(const Kernel *k, const Blocks *b) {
  for (int o = 0; o < b->outputs; o++) {
    const Ref *ref = &b->refs[b->inputs + o];
    int at = 0;
    for (int i = 0; i < ref->array.rank; i++) {
      if (ref->squeeze[i]) continue;
      if (may_overhang(ref, i) &&
          (b->ignored || region_moves_along(k->reference, ref->type.rank - at)))
        return true;
      at++;
    }
  }
  return false;
}
