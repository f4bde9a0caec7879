// Makes and inspects the block IR: kernels, refs, regions and instructions.
#include "codegen/ir/ir.h"

#include <string.h>

enum {
  NARGS_UNARY = 1,
  NARGS_PREDICATE = 1,
  NARGS_BINARY = 2,
  NARGS_COMPARE = 2,
  NARGS_TERNARY = 3
};

const OpInfo op_info[OP_COUNT] = {
#define OP(id, name, class, nargs, domain, attribute, moves, effect, exactness, meaning) \
  [OP_##id] = {name,                                                                     \
               OPC_##class,                                                              \
               nargs,                                                                    \
               DOMAIN_##domain,                                                          \
               ATTR_##attribute,                                                         \
               MOVES_##moves,                                                            \
               EFFECT_##effect,                                                          \
               RESULT_##exactness,                                                       \
               meaning},
#include "codegen/ir/ops.def"
};

const ElementInfo element_info[OP_COUNT] = {
#define ELEMENTWISE(id, name, class, domain, exactness, f64, bound, neutral, laws, interval, \
                    spelling, jax, vector, transcendental, instead, meaning)                 \
  [OP_##id] = {#f64, BOUND_##bound, NEUTRAL_##neutral, laws,   spelling,                     \
               jax,  vector,        transcendental,    instead},
#include "codegen/ir/ops.def"
};

const Op fold_operation[OP_COUNT] = {
#define FOLD(id, name, class, domain, attribute, exactness, operation, meaning) \
  [OP_##id] = OP_##operation,
#include "codegen/ir/ops.def"
};

Op op_by_name(const char *name) {
  for (int op = 0; op < OP_COUNT; op++)
    if (strcmp(op_info[op].name, name) == 0) return (Op)op;
  return OP_COUNT;
}

bool op_is_elementwise(Op op) {
  return op_info[op].class >= OPC_UNARY && op_info[op].class <= OPC_CAST;
}

bool op_takes(Op op, DType dtype) {
  switch (op_info[op].domain) {
    case DOMAIN_ANY:
      return true;
    case DOMAIN_NUMBERS:
      return dtype != DT_BOOL;
    case DOMAIN_FLOATS:
      return is_float(dtype);
    case DOMAIN_INTEGERS:
      return is_integer(dtype);
    case DOMAIN_BITS:
      return !is_float(dtype);
  }
  return false;
}

bool op_has_result(Op op) {
  return op_info[op].class < OPC_MEMORY || op == OP_LOAD || op == OP_SEM_READ;
}

const char *const chain_names[CHAIN_KINDS] = {"window", "bitcast", "reshape", "transpose"};

Region *ir_region(Kernel *k) { return NEW(k->arena, Region); }

Instr *ir_new(Kernel *k, Op op, Type type, Span span, int nargs, Instr *const *args) {
  REQUIRE(op < OP_COUNT && nargs >= 0);
  Instr *instr = NEW(k->arena, Instr);
  instr->op = op;
  instr->id = k->next_id++;
  instr->type = type;
  instr->span = span;
  instr->nargs = nargs;
  instr->args = NEW_ARRAY(k->arena, Instr *, nargs > 0 ? nargs : 1);
  for (int i = 0; i < nargs; i++) instr->args[i] = args[i];
  return instr;
}

Instr *ir_copy(Kernel *k, const Instr *v) {
  Instr *copy = ir_new(k, v->op, v->type, v->span, v->nargs, v->args);
  int id = copy->id;
  Instr **args = copy->args;
  *copy = *v;
  copy->id = id;
  copy->args = args;
  return copy;
}

static void note_change(Instr *v, void *context) {
  bool *fixed = context;
  if (v->op != OP_STORE && !op_starts_copy(v->op)) return;
  fixed[v->ref->id] = false;
  if (v->target) fixed[v->target->id] = false;
}

const bool *ir_fixed_inputs(const Kernel *k) {
  bool *fixed = NEW_ARRAY(k->arena, bool, k->refs.count + 1);
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    fixed[ref->id] = ref->role == REF_INPUT && ref->space == SPACE_VMEM;
  }
  for (int i = 0; i < k->refs.count; i++)
    if (k->refs.at[i]->alias) fixed[k->refs.at[i]->alias->id] = false;
  ir_walk(k->body, note_change, fixed);
  return fixed;
}

Instr *ir_append(Kernel *k, Region *region, Instr *instr) {
  LIST_PUSH(k->arena, &region->instrs, instr);
  return instr;
}

Instr *ir_add_list(Kernel *k, Region *region, Op op, Type type, Span span, int nargs,
                   va_list args) {
  Instr *instr = ir_new(k, op, type, span, 0, NULL);
  instr->nargs = nargs;
  instr->args = NEW_ARRAY(k->arena, Instr *, nargs > 0 ? nargs : 1);
  for (int i = 0; i < nargs; i++) instr->args[i] = va_arg(args, Instr *);
  return ir_append(k, region, instr);
}

Instr *ir_add(Kernel *k, Region *region, Op op, Type type, Span span, int nargs, ...) {
  va_list args;
  va_start(args, nargs);
  Instr *instr = ir_add_list(k, region, op, type, span, nargs, args);
  va_end(args);
  return instr;
}

Instr *ir_const_int(Kernel *k, Region *region, DType dtype, int64_t value, Span span) {
  Instr *instr = ir_add(k, region, OP_CONST, type_scalar(dtype), span, 0);
  instr->ival = value;
  return instr;
}

Instr *ir_extent(Kernel *k, Region *region, Dim dim, Span span) {
  if (dim_is_const(dim)) return ir_const_int(k, region, DT_I64, dim, span);
  Instr *size = ir_add(k, region, OP_SIZE, type_scalar(DT_I64), span, 0);
  size->ival = dim_size_index(dim);
  return size;
}

Instr *ir_const_float(Kernel *k, Region *region, DType dtype, double value, Span span) {
  Instr *instr = ir_add(k, region, OP_CONST, type_scalar(dtype), span, 0);
  instr->fval = value;
  return instr;
}

bool ir_is_const(const Instr *instr, int64_t value) {
  return instr->op == OP_CONST && !is_float(instr->type.dtype) && instr->ival == value;
}

Instr *ir_yielded(const Region *region, int k) {
  const Instr *last = region->instrs.at[region->instrs.count - 1];
  REQUIRE(last->op == OP_YIELD);
  return last->args[k];
}

bool ir_is_pure(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    bool chooses =
        v->op == OP_IF && has_result(v) && ir_is_pure(v->regions[0]) && ir_is_pure(v->regions[1]);
    if (op_acts(v->op) && v->op != OP_YIELD && !chooses) return false;
  }
  return true;
}

bool ir_uses_axis(const Instr *instr, int64_t axis) {
  if (instr->op == OP_AXIS && instr->ival == axis) return true;
  for (int i = 0; i < instr->nargs; i++)
    if (ir_uses_axis(instr->args[i], axis)) return true;
  for (int r = 0; r < 2; r++)
    for (int i = 0; instr->regions[r] && i < instr->regions[r]->instrs.count; i++)
      if (ir_uses_axis(instr->regions[r]->instrs.at[i], axis)) return true;
  return false;
}

typedef struct {
  int64_t axis;
  bool used;
} AxisUse;

static void see_axis(Instr *instr, void *context) {
  AxisUse *use = context;
  if (instr->op == OP_AXIS && instr->ival == use->axis) use->used = true;
}

bool ir_ignores_axis(const Kernel *k, const Ref *output, int axis) {
  const GridAxis *a = &k->grid.at[axis];
  AxisUse use = {.axis = axis};
  if (output->role != REF_OUTPUT || output->space == SPACE_ANY || !a->parallel || !a->extent ||
      ir_is_const(ir_yielded(a->extent, 0), 1))
    return false;
  if (output->index_map) ir_walk(output->index_map, see_axis, &use);
  return !use.used;
}

bool ir_any_packed(const Kernel *k) {
  for (int i = 0; i < k->inputs + k->outputs; i++)
    if (k->refs.at[i]->packed) return true;
  return false;
}

bool ir_ignores_any_axis(const Kernel *k, const Ref *output) {
  for (int i = 0; i < k->grid.count; i++)
    if (ir_ignores_axis(k, output, i)) return true;
  return false;
}

static bool is_as_long_as_ref(const Instr *instr, int axis) {
  return !instr->window.squeeze[axis] && instr->window.stride[axis] == 1 &&
         instr->window.size[axis] == instr->ref->type.dim[axis];
}

bool ir_window_covers(const Instr *instr, int axis) {
  return is_as_long_as_ref(instr, axis) && ir_is_const(instr->args[axis], 0);
}

bool ir_window_is_full(const Instr *instr) {
  for (int i = 0; i < instr->ref->type.rank; i++)
    if (!ir_window_covers(instr, i)) return false;
  return true;
}

bool ir_starts_at_zero(const Instr *instr, int axis) {
  return is_as_long_as_ref(instr, axis) ||
         (instr->ref->type.dim[axis] == 1 && instr->window.size[axis] == 1);
}

bool ir_axis_is_inside(const Instr *instr, int axis) {
  const Instr *start = instr->args[axis];
  Dim extent = instr->ref->type.dim[axis], size = instr->window.size[axis];
  int64_t stride = instr->window.stride[axis], reach;
  if (start->op != OP_CONST) return false;
  if (start->ival == 0 && size == extent && stride == 1) return true;
  if (start->ival < 0 || !dim_is_const(extent) || !dim_is_const(size) || start->ival > extent)
    return false;
  return size == 0 || (mul_i64(size - 1, stride, &reach) && reach < extent - start->ival);
}

int64_t ir_moved_in(int64_t start, Dim dim, Dim size, int64_t stride) {
  if (!dim_is_const(dim) || !dim_is_const(size)) return start;
  int64_t last = size ? dim - (size - 1) * stride - 1 : dim;
  start = start > last ? last : start;
  return start < 0 ? 0 : start;
}

bool ir_may_leave(const Instr *instr) {
  if (!(instr->flags & (INSTR_MASKED | INSTR_OPEN))) return false;
  for (int i = 0; i < instr->ref->type.rank; i++)
    if (!ir_axis_is_inside(instr, i)) return true;
  return false;
}

const Instr *ir_filling(const Instr *v) {
  while (v->op == OP_BROADCAST || v->op == OP_RESHAPE) v = v->args[0];
  return v->op == OP_CONST ? v : NULL;
}

int ir_operand(const Kernel *k, const char *name) {
  for (int i = 0; i < k->inputs + k->outputs; i++)
    if (strcmp(k->refs.at[i]->name, name) == 0) return i;
  return -1;
}

int ir_line(const Kernel *k, Span span) {
  int line, column;
  source_position(k->source, span.start, &line, &column);
  return line;
}

Instr *ir_store_value(const Instr *store) {
  REQUIRE(store->op == OP_STORE);
  return store->args[store->ref->type.rank];
}

bool ir_same_bits(const Type *a, const Type *b) {
  int wide = dtype_info[a->dtype].bits, narrow = dtype_info[b->dtype].bits, row = a->rank - 2;
  if (wide < narrow) return ir_same_bits(b, a);
  Type rows = *a;
  if (wide != narrow && (row < 0 || !dim_is_const(a->dim[row]))) return false;
  if (wide != narrow) rows.dim[row] *= wide / narrow;
  return type_same_shape(&rows, b);
}

int ir_length_count(const Instr *copy) {
  int count = 0;
  int rank = copy->ref ? ir_seen(copy->ref, copy->chain)->rank : 0;
  for (int i = 0; i < rank; i++) count += copy->window.length[i];
  return count;
}

Instr *ir_length(const Instr *copy, const Window *window, int axis) {
  int number = copy->nargs - ir_length_count(copy);
  if (!window->length[axis]) return NULL;
  for (int i = 0; i < axis; i++) number += window->length[i];
  return copy->args[number];
}

const Type *ir_seen(const Ref *ref, const Chain *chain) {
  return chain ? &chain->at[chain->count - 1].type : &ref->type;
}

Instr *const *ir_starts(const Instr *copy, bool target) {
  return copy->args + (target ? ir_seen(copy->ref, copy->chain)->rank : 0);
}

int ir_chain_starts(const Type *of, const Chain *chain) {
  int count = 0;
  for (int i = 0; chain && i < chain->count; of = &chain->at[i++].type)
    if (chain->at[i].kind == CHAIN_WINDOW) count += of->rank;
  return count;
}

Instr *const *ir_chain_args(const Instr *copy, bool target) {
  int behind = ir_length_count(copy) + ir_chain_starts(&copy->target->type, copy->target_chain);
  if (!target) behind += ir_chain_starts(&copy->ref->type, copy->chain);
  return copy->args + copy->nargs - behind;
}

Instr *const *ir_semaphore_index(const Instr *instr) {
  bool copies = op_info[instr->op].attribute == ATTR_COPY;
  return copies ? ir_starts(instr, true) + ir_seen(instr->target, instr->target_chain)->rank
                : instr->args;
}

int ir_block_index(const Kernel *k, const Ref *block) {
  int first = 0;
  for (int i = 0; i < block->id; i++)
    if (k->refs.at[i]->scope == block->scope) first += k->refs.at[i]->array.rank;
  return first;
}

Instr *const *ir_receive_index(const Instr *instr) {
  return ir_semaphore_index(instr) + instr->semaphore->type.rank;
}

Instr *ir_amount(const Instr *instr) { return instr->args[instr->semaphore->type.rank]; }

bool ir_is_rounded_integer(const Instr *instr) {
  DType to = instr->type.dtype;
  return instr->op == OP_CAST && is_float(instr->args[0]->type.dtype) && is_integer(to) &&
         !is_wide(to);
}

Type ir_window_type(const Type *type, const Window *window) {
  Type part = type_scalar(type->dtype);
  for (int i = 0; i < type->rank; i++)
    if (!window->squeeze[i]) part.dim[part.rank++] = window->size[i];
  return part;
}

Instr *const *ir_device_index(const Instr *instr) {
  if (instr->op == OP_REMOTE_START) return ir_receive_index(instr) + instr->receive->type.rank;
  return instr->args + instr->semaphore->type.rank + 1;
}

// The size that is a part of another one.
static Dim part_of(const Kernel *k, Dim dim, int64_t parts) {
  if (parts <= 1) return dim;
  if (dim_is_const(dim)) return dim / parts;
  for (int i = 0; i < k->sizes.count; i++) {
    const Instr *v = k->sizes.at[i].value ? ir_yielded(k->sizes.at[i].value, 0) : NULL;
    if (v && v->op == OP_DIV && v->args[0]->op == OP_SIZE && ir_is_const(v->args[1], parts) &&
        dim == dim_of_size((int)v->args[0]->ival))
      return dim_of_size(i);
  }
  INTERNAL("no size for %lld parts of an axis", (long long)parts);
}

void ir_take_parts(Kernel *k) {
  for (int i = 0; k->mesh.count && i < k->inputs + k->outputs; i++) {
    Ref *ref = k->refs.at[i];
    Type *all = NEW(k->arena, Type);
    if (ref->all) continue;
    *all = ref->array;
    ref->all = all;
    for (int axis = 0; axis < all->rank; axis++)
      ref->array.dim[axis] = part_of(k, all->dim[axis], ref->parts[axis]);
  }
}

void ir_take_whole(Kernel *k) {
  for (int i = 0; k->mesh.count && i < k->inputs + k->outputs; i++) {
    Ref *ref = k->refs.at[i];
    if (!ref->all) continue;
    ref->array = *ref->all;
    ref->all = NULL;
  }
}

int64_t ir_device_count(const Kernel *k) {
  int64_t count = 1;
  for (int i = 0; i < k->mesh.count; i++) count *= k->mesh.at[i].extent;
  return count;
}

Instr *ir_mask(const Instr *instr) {
  if (!(instr->flags & INSTR_MASKED)) return NULL;
  if (instr->op == OP_STORE) return instr->args[instr->ref->type.rank + 1];
  return instr->op == OP_LOAD ? instr->args[instr->ref->type.rank] : NULL;
}

void ir_walk(Region *region, void (*visit)(Instr *instr, void *context), void *context) {
  if (!region) return;
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *instr = region->instrs.at[i];
    visit(instr, context);
    ir_walk(instr->regions[0], visit, context);
    ir_walk(instr->regions[1], visit, context);
  }
}

DType ir_access_dtype(const Instr *access) {
  return access->op == OP_STORE ? ir_store_value(access)->type.dtype : access->type.dtype;
}

bool ir_may_hold(const Ref *ref, DType dtype) {
  const DType own = ref->type.dtype;
  return dtype == own || (is_narrow_float(own) && dtype == unsigned_of_width(dtype_info[own].bits));
}

bool ir_copies_views(const Instr *copy) { return copy->chain || copy->target_chain; }
