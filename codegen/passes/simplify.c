// Pass `simplify`: constant folding, identities that are exact in floating point, sharing of equal
// values, removal of dead ones.
//
// Requires: nothing. Preserves: every store, loop, print and assert, their order, and their
// operands bit for bit. References do not change, because results are compared with them.
#include "codegen/passes/pass.h"

#include <math.h>
#include <string.h>

#include "codegen/ir/axes.h"
#include "codegen/ir/rewrite.h"
#include "codegen/ir/scalar.h"

enum { FEWEST_BUCKETS = 1 << 8 };

// A value that later instructions may reuse; a load only while memory is unchanged.
typedef struct {
  Instr *instr;
  uint64_t hash;
  int next, epoch;
} Known;

typedef struct {
  Rewriter w;
  LIST(Known) known;
  int *buckets;      // 1 + index of the latest entry; more of them than entries
  int bucket_count;  // a power of two
  int epoch;         // counts instructions that may have changed memory
  int folded, shared, dead;
  bool *live;  // by instruction id
  int live_capacity;
} Simplifier;

// ---- properties of an instruction

static bool is_filled_with(Instr *instr, double value) {
  const Instr *c = ir_filling(instr);
  if (!c) return false;
  if (is_float(c->type.dtype)) return c->fval == value && signbit(c->fval) == signbit(value);
  return c->ival == wrap_int(c->type.dtype, (int64_t)value);
}

static bool same_type(const Type *a, const Type *b) {
  return a->dtype == b->dtype && type_same_shape(a, b);
}

// ---- new instructions, at the current end of the region

static Instr *place(Simplifier *s, Instr *instr);

static Instr *make(Simplifier *s, const Instr *old, Op op, Type type, int nargs,
                   Instr *const *args) {
  return place(s, ir_new(s->w.k, op, type, old->span, nargs, args));
}

static Instr *constant(Simplifier *s, const Instr *old, DType dtype, Scalar value) {
  Instr *instr = ir_new(s->w.k, OP_CONST, type_scalar(dtype), old->span, 0, NULL);
  if (is_float(dtype))
    instr->fval = value.f;
  else
    instr->ival = value.i;
  return place(s, instr);
}

static Instr *fill(Simplifier *s, const Instr *old, Instr *scalar) {
  return old->type.rank == 0 ? scalar : make(s, old, OP_BROADCAST, old->type, 1, &scalar);
}

// ---- folding

static Scalar value_of(const Instr *c) {
  return is_float(c->type.dtype) ? (Scalar){.f = c->fval} : (Scalar){.i = c->ival};
}

static Instr *fold_constants(Simplifier *s, Instr *instr) {
  Scalar values[3];
  if (!op_is_elementwise(instr->op) || instr->op == OP_SELECT) return NULL;
  for (int i = 0; i < instr->nargs; i++) {
    const Instr *c = ir_filling(instr->args[i]);
    if (!c) return NULL;
    values[i] = value_of(c);
    if (is_float(c->type.dtype)) values[i].f = dtype_round(c->type.dtype, values[i].f);
  }
  Scalar value = scalar_apply(instr->op, instr->type.dtype, instr->args[0]->type.dtype, values);
  return fill(s, instr, constant(s, instr, instr->type.dtype, value));
}

// An elementwise operation on broadcast scalars: computes the scalar and broadcasts the result.
static Instr *on_scalars(Simplifier *s, Instr *instr) {
  Instr *args[3];
  if (!op_is_elementwise(instr->op) || instr->type.rank == 0) return NULL;
  for (int i = 0; i < instr->nargs; i++) {
    const Instr *arg = instr->args[i];
    if (arg->op != OP_BROADCAST || arg->args[0]->type.rank != 0) return NULL;
    args[i] = arg->args[0];
  }
  return fill(s, instr,
              make(s, instr, instr->op, type_scalar(instr->type.dtype), instr->nargs, args));
}

// ---- identities

// Is it the b with a op b = a?
static bool is_neutral(Op op, Instr *b) {
  bool floats = is_float(b->type.dtype);
  switch (element_info[op].neutral) {
    case NEUTRAL_ZERO:
      return is_filled_with(b, 0);
    case NEUTRAL_MINUS_ZERO:  // x + 0.0 is not x where x is -0.0
      return is_filled_with(b, floats ? -0.0 : 0);
    case NEUTRAL_ONE:
      return is_filled_with(b, 1);
    case NEUTRAL_INTEGER_ONE:
      return !floats && is_filled_with(b, 1);
    case NEUTRAL_ONES:
      return is_filled_with(b, b->type.dtype == DT_BOOL ? 1 : -1);
    default:
      break;
  }
  return false;
}

static Instr *identity_of_binary(Simplifier *s, const Instr *instr) {
  Instr *a = instr->args[0], *b = instr->args[1];
  Op op = instr->op;
  if ((a == b && op_has(op, IDEMPOTENT)) || is_neutral(op, b)) return a;
  if (op_has(op, COMMUTES) && is_neutral(op, a)) return b;
  bool vanishes = op_has(op, ZERO_OF_ZERO) && !is_float(instr->type.dtype);
  if (vanishes && (is_filled_with(a, 0) || is_filled_with(b, 0)))
    return fill(s, instr, constant(s, instr, instr->type.dtype, (Scalar){.i = 0}));
  return NULL;
}

static Instr *identity_of_select(Instr *instr) {
  const Instr *c = ir_filling(instr->args[0]);
  if (instr->args[1] == instr->args[2]) return instr->args[1];
  return c ? instr->args[c->ival ? 1 : 2] : NULL;
}

// The low bits of an integer, with the sign of the requested dtype.
static Instr *joined_casts(Simplifier *s, const Instr *instr) {
  Instr *a = instr->args[0], *wide = a->op == OP_CAST ? a->args[0] : NULL;
  if (instr->op != OP_BITCAST || !wide) return NULL;
  const DType to = instr->type.dtype, by = a->type.dtype, from = wide->type.dtype;
  bool integers = is_integer(to) && is_integer(by) && is_integer(from);
  bool same = dtype_info[to].bits == dtype_info[by].bits,
       narrows = dtype_info[from].bits > dtype_info[to].bits;
  return integers && same && narrows ? make(s, instr, OP_CAST, instr->type, 1, a->args) : NULL;
}

// A cast to a type that represents every value, and back.
static Instr *identity_of_cast(Simplifier *s, Instr *instr) {
  Instr *a = instr->args[0], *joined = joined_casts(s, instr);
  if (instr->type.dtype == a->type.dtype) return a;
  if (joined) return joined;
  if (instr->op != a->op || a->args[0]->type.dtype != instr->type.dtype) return NULL;
  if (instr->op == OP_BITCAST)
    return is_float(instr->type.dtype) || is_float(a->type.dtype) ? NULL : a->args[0];
  DType narrow = instr->type.dtype, wide = a->type.dtype;
  bool floats = is_float(narrow) && is_float(wide),
       integers = is_integer(narrow) && is_integer(wide);
  bool wider = dtype_info[wide].bits > dtype_info[narrow].bits;
  return (floats && dtype_holds(wide, narrow)) || (integers && wider) ? a->args[0] : NULL;
}

static Instr *joined_transposes(Simplifier *s, const Instr *instr) {
  Instr *a = instr->args[0];
  if (a->op != OP_TRANSPOSE) return NULL;
  Instr *joined = ir_new(s->w.k, OP_TRANSPOSE, instr->type, instr->span, 1, a->args);
  for (int i = 0; i < instr->type.rank; i++) joined->ints[i] = a->ints[instr->ints[i]];
  return place(s, joined);
}

// Elements of a vector by an index of several axes: taken along the last one, which needs no
// reshape.
static Instr *taken_by_axes(Simplifier *s, const Instr *instr) {
  Instr *taken = instr->args[0], *index = taken->op == OP_TAKE ? taken->args[1] : NULL;
  if (!index || taken->args[0]->type.rank != 1 || index->op != OP_RESHAPE || instr->type.rank < 2 ||
      !type_same_shape(&index->args[0]->type, &instr->type))
    return NULL;
  int last = instr->type.rank - 1;
  Type rows = instr->type;
  rows.dim[last] = taken->args[0]->type.dim[0];
  Instr *along[2] = {make(s, instr, OP_BROADCAST, rows, 1, taken->args), index->args[0]};
  Instr *v = ir_new(s->w.k, OP_TAKE_ALONG, instr->type, instr->span, 2, along);
  v->ival = last;
  return place(s, v);
}

// The simpler form of an instruction that moves elements, or NULL.
static Instr *identity_of_shape(Simplifier *s, Instr *instr) {
  Instr *a = instr->args[0];
  if (same_type(&a->type, &instr->type) && ir_moves_nothing(instr)) return a;
  switch (instr->op) {
    case OP_RESHAPE:
      if (a->op == OP_TAKE) return taken_by_axes(s, instr);
      return a->op == instr->op ? make(s, instr, instr->op, instr->type, 1, a->args) : NULL;
    case OP_BROADCAST:
      return a->op == instr->op ? make(s, instr, instr->op, instr->type, 1, a->args) : NULL;
    case OP_TRANSPOSE:
      return joined_transposes(s, instr);
    case OP_CONCAT:
      return instr->nargs == 1 ? a : NULL;
    case OP_ROLL:
      return ir_is_const(instr->args[1], 0) ? a : NULL;
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_GATHER:  // of a table whose elements are all the same
      return a->op == OP_BROADCAST && a->args[0]->type.rank == 0 ? fill(s, instr, a->args[0])
                                                                 : NULL;
    case OP_REV:
      return a->op == OP_REV && a->ival == instr->ival ? a->args[0] : NULL;
    default:
      return NULL;
  }
}

static Instr *identity(Simplifier *s, Instr *instr) {
  if (op_has(instr->op, INVOLUTION) && instr->args[0]->op == instr->op)
    return instr->args[0]->args[0];
  if (instr->op == OP_ISINF && !dtype_has_inf(instr->args[0]->type.dtype))
    return fill(s, instr, constant(s, instr, DT_BOOL, (Scalar){.i = 0}));
  switch (op_info[instr->op].class) {
    case OPC_BINARY:
      return identity_of_binary(s, instr);
    case OPC_SELECT:
      return identity_of_select(instr);
    case OPC_CAST:
      return identity_of_cast(s, instr);
    case OPC_SHAPE:
      return identity_of_shape(s, instr);
    default:
      return NULL;
  }
}

// A mask that is true everywhere is dropped if the window cannot leave its ref.
static void drop_full_mask(Simplifier *s, Instr *instr) {
  Instr *mask = ir_mask(instr);
  if (!mask || !is_filled_with(mask, 1) || ir_may_leave(instr)) return;
  instr->nargs -= 1 + ((instr->flags & INSTR_OTHER) != 0);
  instr->flags &= ~(unsigned)(INSTR_MASKED | INSTR_OTHER);
  s->folded++;
}

// ---- sharing

static uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

static uint64_t hash_of(const Instr *instr) {
  uint64_t hash = mix((uint64_t)instr->op, (uint64_t)instr->type.dtype), bits;
  memcpy(&bits, &instr->fval, sizeof bits);
  hash = mix(mix(hash, (uint64_t)instr->ival), bits);
  for (int i = 0; i < instr->type.rank; i++) hash = mix(hash, (uint64_t)instr->type.dim[i]);
  for (int i = 0; i < instr->nargs; i++) hash = mix(hash, (uint64_t)instr->args[i]->id);
  return instr->ref ? mix(hash, (uint64_t)instr->ref->id) : hash;
}

static bool same_value(const Instr *a, const Instr *b) {
  if (a->op != b->op || a->flags != b->flags || a->nargs != b->nargs || a->ival != b->ival ||
      a->ref != b->ref)
    return false;
  if (memcmp(&a->fval, &b->fval, sizeof a->fval) != 0 || !same_type(&a->type, &b->type))
    return false;
  for (int i = 0; i < a->nargs; i++)
    if (a->args[i] != b->args[i]) return false;
  if (memcmp(a->ints, b->ints, sizeof a->ints) != 0 ||
      memcmp(a->ints2, b->ints2, sizeof a->ints2) != 0)
    return false;
  return memcmp(&a->labels, &b->labels, sizeof a->labels) == 0 &&
         (a->op != OP_LOAD || memcmp(&a->window, &b->window, sizeof a->window) == 0);
}

static int *bucket_of(const Simplifier *s, uint64_t hash) {
  return &s->buckets[(hash ^ hash >> 32) & (uint64_t)(s->bucket_count - 1)];
}

// Entries keep their order in a bucket: the latest comes first.
static void add_buckets(Simplifier *s) {
  s->bucket_count = s->bucket_count ? 2 * s->bucket_count : FEWEST_BUCKETS;
  s->buckets = NEW_ARRAY(s->w.k->arena, int, s->bucket_count);
  for (int i = 0; i < s->known.count; i++) {
    int *bucket = bucket_of(s, s->known.at[i].hash);
    s->known.at[i].next = *bucket;
    *bucket = i + 1;
  }
}

static Instr *find_known(Simplifier *s, Instr *instr) {
  if (s->known.count >= s->bucket_count) add_buckets(s);
  uint64_t hash = hash_of(instr);
  int *bucket = bucket_of(s, hash);
  for (int i = *bucket; i; i = s->known.at[i - 1].next) {
    Known *known = &s->known.at[i - 1];
    if (known->hash != hash || !same_value(known->instr, instr)) continue;
    if (instr->op != OP_LOAD || known->epoch == s->epoch) return known->instr;
    known->instr = instr;  // memory has changed, so earlier loads cannot be reused
    known->epoch = s->epoch;
    return NULL;
  }
  Known entry = {instr, hash, *bucket, s->epoch};
  LIST_PUSH(s->w.k->arena, &s->known, entry);
  *bucket = s->known.count;
  return NULL;
}

static void forget_from(Simplifier *s, int count) {
  while (s->known.count > count) {
    const Known *known = &s->known.at[--s->known.count];
    *bucket_of(s, known->hash) = known->next;
  }
}

// Adds a pure instruction, or a simpler or existing equal value. Every rewriting makes the
// remaining expression smaller.
static Instr *place(Simplifier *s, Instr *instr) {
  Instr *better = fold_constants(s, instr);
  if (!better) better = identity(s, instr);
  if (!better) better = on_scalars(s, instr);
  if (better) {
    s->folded++;
    return better;
  }
  Instr *known = find_known(s, instr);
  if (known) s->shared++;
  return known ? known : ir_append(s->w.k, s->w.out, instr);
}

// ---- regions

// An `if` whose condition is constant is replaced by the side that runs.
static bool take_known_side(Simplifier *s, Instr *instr) {
  if (instr->op != OP_IF || instr->args[0]->op != OP_CONST) return false;
  s->folded++;
  ir_replace(instr, ir_splice(&s->w, instr->regions[instr->args[0]->ival ? 0 : 1]));
  return true;
}

static void simplify_region(Simplifier *s, Region *region) {
  int known = s->known.count;
  ir_rewrite(&s->w, region);
  forget_from(s, known);
}

static void simplify_control(Simplifier *s, Instr *instr) {
  bool loop = instr->op == OP_FOR || instr->op == OP_WHILE;
  if (loop) s->epoch++;  // the body may run again after its own stores
  for (int i = 0; i < 2; i++) {
    if (!instr->regions[i]) continue;
    simplify_region(s, instr->regions[i]);
    s->epoch++;
  }
}

// A window as long as its ref starts at 0, because any start is clamped to 0.
static void start_at_zero(Simplifier *s, Instr *access) {
  if (access->flags & (INSTR_MASKED | INSTR_OPEN)) return;
  for (int i = 0; i < access->ref->type.rank; i++)
    if (ir_starts_at_zero(access, i) && !ir_is_const(access->args[i], 0))
      access->args[i] = constant(s, access, DT_I64, (Scalar){.i = 0});
}

// Simplifies one instruction.
static bool simplify_instr(Rewriter *w, Instr *instr) {
  Simplifier *s = w->context;
  if (take_known_side(s, instr)) return false;
  if (op_info[instr->op].effect == EFFECT_NONE) {
    Instr *placed = place(s, instr);
    if (placed != instr) ir_replace(instr, placed);
    return false;
  }
  if (instr->op == OP_LOAD || instr->op == OP_STORE) {
    drop_full_mask(s, instr);
    start_at_zero(s, instr);
  }
  Instr *known = instr->op == OP_LOAD ? find_known(s, instr) : NULL;
  if (known) {
    ir_replace(instr, known);
    s->shared++;
    return false;
  }
  if (op_info[instr->op].class == OPC_CONTROL)
    simplify_control(s, instr);
  else if (op_acts(instr->op))
    s->epoch++;
  return true;
}

// ---- dead values

typedef struct {
  bool *live;
  LIST(Instr *) work;
  Arena *arena;
} Liveness;

static void reach(Liveness *l, Instr *instr) {
  if (l->live[instr->id]) return;
  l->live[instr->id] = true;
  LIST_PUSH(l->arena, &l->work, instr);
}

static void reach_root(Instr *instr, void *context) {
  if (op_acts(instr->op)) reach(context, instr);
}

static bool is_live(Rewriter *w, Instr *instr) {
  Simplifier *s = w->context;
  if (s->live[instr->id])
    ir_rewrite_inside(w, instr);
  else
    s->dead++;
  return s->live[instr->id];
}

// An instruction belongs to one tree, so marks of earlier trees have no effect.
static void grow_liveness(Simplifier *s) {
  const Kernel *k = s->w.k;
  if (k->next_id < s->live_capacity) return;
  s->live_capacity = 2 * (k->next_id + 1);
  s->live = NEW_ARRAY(k->arena, bool, s->live_capacity);
}

static void remove_dead(Simplifier *s, Region *region) {
  grow_liveness(s);
  Liveness l = {.live = s->live, .arena = s->w.k->arena};
  ir_walk(region, reach_root, &l);
  while (l.work.count > 0) {
    const Instr *instr = l.work.at[--l.work.count];
    for (int i = 0; i < instr->nargs; i++) reach(&l, instr->args[i]);
  }
  ir_rewrite(&(Rewriter){.k = s->w.k, .rule = is_live, .context = s}, region);
}

void remove_unread(Kernel *k, Region *region) {
  Simplifier s = {.w = {.k = k}};
  remove_dead(&s, region);
}

static void simplify_tree(Simplifier *s, Region *region) {
  if (!region) return;
  simplify_region(s, region);
  remove_dead(s, region);
}

void simplify(Kernel *k, Buf *notes) {
  Simplifier *s = NEW(k->arena, Simplifier);
  s->w = (Rewriter){.k = k, .rule = simplify_instr, .context = s};
  for (int i = 0; i < k->sizes.count; i++) simplify_tree(s, k->sizes.at[i].value);
  for (int i = 0; i < k->grid.count; i++) simplify_tree(s, k->grid.at[i].extent);
  for (int i = 0; i < k->requires.count; i++) simplify_tree(s, k->requires.at[i].condition);
  for (int i = 0; i < k->refs.count; i++) simplify_tree(s, k->refs.at[i]->index_map);
  simplify_tree(s, k->body);
  if (s->folded + s->shared + s->dead > 0 && notes)
    buf_printf(notes, "simplify: %d folded, %d shared, %d dead\n", s->folded, s->shared, s->dead);
}
