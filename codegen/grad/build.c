// Creates instructions of a derivative at the current position.
#include "codegen/grad/internal.h"

Instr *put(Grad *g, Op op, Type type, int nargs, ...) {
  va_list args;
  va_start(args, nargs);
  Instr *v = ir_add_list(g->k, g->out, op, type, g->span, nargs, args);
  va_end(args);
  return v;
}

bool is_number(const Instr *v, double *value) {
  while (v->op == OP_BROADCAST) v = v->args[0];
  if (v->op != OP_CONST || !is_float(v->type.dtype)) return false;
  *value = v->fval;
  return true;
}

Instr *put_like(Grad *g, Op op, Instr *a) {
  if (op == OP_NOT && is_truth(a, false)) return put_truth(g, true, a->type);
  if (op == OP_NEG && a->op == OP_NEG) return a->args[0];
  return put(g, op, a->type, 1, a);
}

Instr *put_again(Grad *g, const Instr *v) {
  Instr *copy = ir_copy(g->k, v);
  for (int a = 0; a < v->nargs; a++) copy->args[a] = value_of(g, v->args[a]);
  LIST_PUSH(g->arena, &g->copies, copy);
  return ir_append(g->k, g->out, copy);
}

static void copy_instr(Grad *g, const Instr *v, const Copies *c) {
  Instr *copy = ir_copy(g->k, v);
  for (int i = 0; i < v->nargs; i++)
    if (c->image[v->args[i]->id]) copy->args[i] = c->image[v->args[i]->id];
  const bool state = v->ref && v->ref->role == REF_STATE && v->ref->id < c->states;
  if (state && c->by[v->ref->id]) copy->ref = c->by[v->ref->id];
  for (int r = 0; r < 2; r++) {
    const Region *from = v->regions[r];
    if (!from) continue;
    Region *outer = g->out, *inside = g->out = copy->regions[r] = ir_region(g->k);
    if (from->arg) {
      inside->arg = ir_new(g->k, OP_ARG, from->arg->type, g->span, 0, NULL);
      c->image[from->arg->id] = inside->arg;
    }
    copy_region(g, from, c);
    g->out = outer;
  }
  c->image[v->id] = copy;
  if (has_result(v)) LIST_PUSH(g->arena, &g->copies, copy);
  ir_append(g->k, g->out, copy);
}

void copy_region(Grad *g, const Region *from, const Copies *c) {
  for (int i = 0; i < from->instrs.count; i++) {
    const Instr *v = from->instrs.at[i];
    if (v != c->except && !c->image[v->id]) copy_instr(g, v, c);
  }
}

bool is_truth(const Instr *v, bool value) {
  while (v->op == OP_BROADCAST) v = v->args[0];
  return v->op == OP_CONST && v->type.dtype == DT_BOOL && v->ival == value;
}

static bool is_one(const Instr *v) {
  double value;
  return is_number(v, &value) && value == 1;
}

// With the sign in front, which is easier to read.
static Instr *put_product(Grad *g, Op op, Instr *a, Instr *b) {
  if (is_one(b)) return a;
  if (op == OP_MUL && is_one(a)) return b;
  if (a->op == OP_NEG) return put_like(g, OP_NEG, put_product(g, op, a->args[0], b));
  return put(g, op, a->type, 2, a, b);
}

Instr *put_pair(Grad *g, Op op, Instr *a, Instr *b) {
  if (op == OP_MUL || op == OP_DIV) return put_product(g, op, a, b);
  if (op == OP_ADD && b->op == OP_NEG) return put(g, OP_SUB, a->type, 2, a, b->args[0]);
  if (op == OP_ADD && a->op == OP_NEG) return put(g, OP_SUB, a->type, 2, b, a->args[0]);
  return put(g, op, a->type, 2, a, b);
}

Instr *put_test(Grad *g, Op op, Instr *a, Instr *b) {
  return put(g, op, type_as(a->type, DT_BOOL), 2, a, b);
}

Instr *put_spread(Grad *g, Instr *v, Type shape) {
  if (type_same_shape(&v->type, &shape)) return v;
  if (v->op == OP_NEG) return put_like(g, OP_NEG, put_spread(g, v->args[0], shape));
  return put(g, OP_BROADCAST, type_as(shape, v->type.dtype), 1, v);
}

Instr *put_number(Grad *g, double value, Type type) {
  return put_spread(g, ir_const_float(g->k, g->out, type.dtype, value, g->span), type);
}

Instr *put_int(Grad *g, int64_t value, Type type) {
  return put_spread(g, ir_const_int(g->k, g->out, type.dtype, value, g->span), type);
}

Instr *put_truth(Grad *g, bool value, Type shape) {
  return put_int(g, value, type_as(shape, DT_BOOL));
}

Instr *put_zero(Grad *g, Type type) {
  return is_float(type.dtype) ? put_number(g, 0, type) : put_int(g, 0, type);
}

Instr *put_index(Grad *g, int64_t value) {
  return ir_const_int(g->k, g->out, DT_I64, value, g->span);
}

Instr *put_cast(Grad *g, Instr *v, DType dtype) {
  return v->type.dtype == dtype ? v : put(g, OP_CAST, type_as(v->type, dtype), 1, v);
}

Instr *put_reshape(Grad *g, Instr *v, Type shape) {
  if (type_same_shape(&v->type, &shape)) return v;
  if (v->op == OP_NEG) return put_like(g, OP_NEG, put_reshape(g, v->args[0], shape));
  if (v->op == OP_RESHAPE && v->id >= g->count) return put_reshape(g, v->args[0], shape);
  return put(g, OP_RESHAPE, type_as(shape, v->type.dtype), 1, v);
}

Instr *put_choice(Grad *g, Instr *c, Instr *a, Instr *b) {
  double other;
  if (a->op == OP_NEG && is_number(b, &other) && other == 0)
    return put_like(g, OP_NEG, put_choice(g, c, a->args[0], b));
  return put(g, OP_SELECT, a->type, 3, c, a, b);
}

Instr *put_reduce(Grad *g, Op op, Instr *v, int64_t axes) {
  Type type = v->type;
  for (int i = 0; i < type.rank; i++)
    if (axes >> i & 1) type.dim[i] = 1;
  if (!axes) return v;
  if (op == OP_REDUCE_SUM && v->op == OP_NEG)
    return put_like(g, OP_NEG, put_reduce(g, op, v->args[0], axes));
  Instr *sum = put(g, op, type, 1, v);
  sum->ival = axes;
  return sum;
}

Instr *put_scan(Grad *g, Op op, Instr *x, int axis, bool reverse) {
  Instr *v = put_like(g, op, x);
  v->ival = axis;
  v->flags = reverse ? INSTR_REVERSE : 0;
  return v;
}

Instr *put_iota(Grad *g, Type shape, DType dtype, int axis) {
  Instr *v = put(g, OP_IOTA, type_as(shape, dtype), 0);
  v->ival = axis;
  return v;
}

Instr *put_extent(Grad *g, Dim dim) { return ir_extent(g->k, g->out, dim, g->span); }

// ---- vars

Ref *new_state(Grad *g, const char *name, Type type) {
  Ref *ref = NEW(g->arena, Ref);
  *ref = (Ref){.name = name,
               .id = g->k->states.count,
               .role = REF_STATE,
               .space = SPACE_VAR,
               .type = type,
               .span = g->span};
  LIST_PUSH(g->arena, &g->k->states, ref);
  return ref;
}

static Instr *put_whole(Grad *g, Op op, Ref *ref, Instr *value) {
  Instr *args[MAX_RANK + 1];
  const int rank = ref->type.rank;
  static const Type none = {.dtype = DT_COUNT};
  for (int i = 0; i < rank; i++) args[i] = put_index(g, 0);
  args[rank] = value;
  Instr *v = ir_new(g->k, op, value ? none : ref->type, g->span, rank + (value != NULL), args);
  v->ref = ref;
  for (int i = 0; i < rank; i++) v->window.size[i] = ref->type.dim[i], v->window.stride[i] = 1;
  return ir_append(g->k, g->out, v);
}

Instr *put_load(Grad *g, Ref *ref) { return put_whole(g, OP_LOAD, ref, NULL); }
void put_store(Grad *g, Ref *ref, Instr *value) { put_whole(g, OP_STORE, ref, value); }

Instr *put_window(Grad *g, Ref *ref, Instr *const *starts, const int64_t *strides, Type type,
                  Instr *value) {
  Instr *args[MAX_RANK + 1];
  static const Type none = {.dtype = DT_COUNT};
  for (int i = 0; i < type.rank; i++) args[i] = starts[i];
  args[type.rank] = value;
  Instr *v = ir_new(g->k, value ? OP_STORE : OP_LOAD, value ? none : type, g->span,
                    type.rank + (value != NULL), args);
  v->ref = ref;
  for (int i = 0; i < type.rank; i++)
    v->window.size[i] = type.dim[i], v->window.stride[i] = strides ? strides[i] : 1;
  return ir_append(g->k, g->out, v);
}

Instr *begin_loop(Grad *g, Loop *loop, Dim count) {
  loop->outer = g->out;
  loop->to = put_extent(g, count);
  loop->body = ir_region(g->k);
  loop->body->arg = ir_new(g->k, OP_ARG, type_scalar(DT_I64), g->span, 0, NULL);
  g->out = loop->body;
  return loop->body->arg;
}

void end_loop(Grad *g, Loop *loop) {
  static const Type none = {.dtype = DT_COUNT};
  g->out = loop->outer;
  put(g, OP_FOR, none, 2, put_index(g, 0), loop->to)->regions[0] = loop->body;
}

// ---- extents

static int find_size(const Kernel *k, const char *name) {
  for (int i = 0; i < k->sizes.count; i++)
    if (k->sizes.at[i].name == name) return i;
  return -1;
}

Dim dim_plus(Grad *g, Dim dim, int64_t by) {
  if (dim_is_const(dim)) return dim + by;
  const char *name =
      intern_printf(by < 0 ? "%s - %lld" : "%s + %lld", g->k->sizes.at[dim_size_index(dim)].name,
                    (long long)(by < 0 ? -by : by));
  int known = find_size(g->k, name);
  if (known >= 0) return dim_of_size(known);
  Region *outer = g->out, *value = g->out = ir_region(g->k);
  static const Type none = {.dtype = DT_COUNT};
  Instr *extent = put_extent(g, dim), *more = put_index(g, by < 0 ? -by : by);
  put(g, OP_YIELD, none, 1, put_pair(g, by < 0 ? OP_SUB : OP_ADD, extent, more));
  g->out = outer;
  LIST_PUSH(g->arena, &g->k->sizes, ((Size){.name = name, .span = g->span, .value = value}));
  return dim_of_size(g->k->sizes.count - 1);
}

// ---- values of the reference

Type working(Type type) { return type_as(type, dtype_accum(type.dtype)); }

Instr *value_of(Grad *g, Instr *v) {
  return v->id < g->count && g->image[v->id] ? g->image[v->id] : v;
}

Instr *wide(Grad *g, Instr *v) {
  v = value_of(g, v);
  return is_float(v->type.dtype) ? put_cast(g, v, dtype_accum(v->type.dtype)) : v;
}
