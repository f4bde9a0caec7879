#include "codegen/ir/axes.h"
#include "codegen/ir/layout.h"

#include <string.h>

// The instructions that a region may contain.
typedef enum { PLACE_SIZE, PLACE_LAUNCH, PLACE_MAP, PLACE_BODY, PLACE_REFERENCE } CodePlace;

typedef struct {
  Kernel *k;
  const char *message;  // the first violated rule
  Instr **visible;      // by id: values that may be used here
  bool *seen;           // by id
  bool *open;           // by id: a SCOPED or PIPELINE around the current instruction
  const Instr **owner;  // by id, of an ARG: the FOR or PIPELINE
  CodePlace place;
  int size_limit;  // sizes below this number may be used
  int loops;       // loops around the current instruction, inside this region tree
} Verifier;

static void fail(Verifier *v, const Instr *instr, const char *format, ...) PRINTF_LIKE(3, 4);
static void fail(Verifier *v, const Instr *instr, const char *format, ...) {
  if (v->message) return;
  Buf text = {0};
  if (instr) buf_printf(&text, "%%%d (%s): ", instr->id, op_info[instr->op].name);
  va_list args;
  va_start(args, format);
  buf_vprintf(&text, format, args);
  va_end(args);
  v->message = arena_take(v->k->arena, &text);
}

#define RULE(condition, ...) ((condition) ? (void)0 : fail(v, instr, __VA_ARGS__))

// ---- types

static bool is_scalar(const Instr *instr, DType dtype) {
  return instr->type.rank == 0 && instr->type.dtype == dtype;
}

static bool same_type(const Type *a, const Type *b) {
  return a->dtype == b->dtype && type_same_shape(a, b);
}

static bool valid_dim(const Verifier *v, Dim dim) {
  return dim_is_const(dim) || dim >= -(int64_t)v->k->sizes.count;
}

static void check_type(Verifier *v, const Instr *instr, const Type *type) {
  RULE(type->dtype < DT_COUNT, "no dtype");
  RULE(type->rank >= 0 && type->rank <= MAX_RANK, "rank %d", type->rank);
  if (v->message) return;
  for (int i = 0; i < type->rank; i++)
    RULE(valid_dim(v, type->dim[i]), "axis %d names size %d, which does not exist", i,
         dim_size_index(type->dim[i]));
}

// ---- elementwise

// Operands and result of an elementwise instruction have the same shape, and suitable dtypes.
static void check_elementwise(Verifier *v, const Instr *instr) {
  OpClass class = op_info[instr->op].class;
  for (int i = 0; i < instr->nargs; i++)
    RULE(type_same_shape(&instr->args[i]->type, &instr->type),
         "operand %d has another shape than the result", i);
  const Type *first = &instr->args[0]->type;
  if (class == OPC_UNARY || class == OPC_BINARY || class == OPC_TERNARY)
    for (int i = 0; i < instr->nargs; i++)
      RULE(instr->args[i]->type.dtype == instr->type.dtype,
           "operand %d has another dtype than the result", i);
  if (class == OPC_PREDICATE || class == OPC_COMPARE)
    RULE(instr->type.dtype == DT_BOOL, "the result is not bool");
  if (class == OPC_COMPARE) RULE(first->dtype == instr->args[1]->type.dtype, "compares two dtypes");
  if (class == OPC_SELECT) {
    RULE(first->dtype == DT_BOOL, "the condition is not bool");
    RULE(instr->args[1]->type.dtype == instr->type.dtype &&
             instr->args[2]->type.dtype == instr->type.dtype,
         "the sides and the result differ in dtype");
  }
  if (instr->op == OP_BITCAST)
    RULE(dtype_info[first->dtype].bits == dtype_info[instr->type.dtype].bits,
         "the dtypes differ in width");
  RULE(op_takes(instr->op, first->dtype), "not defined on %s", dtype_info[first->dtype].name);
}

// ---- moving elements

static void check_broadcast(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type, *to = &instr->type;
  int extra = to->rank - from->rank;
  RULE(extra >= 0, "the result has fewer axes");
  for (int i = 0; extra >= 0 && i < from->rank; i++)
    RULE(from->dim[i] == 1 || from->dim[i] == to->dim[i + extra],
         "axis %d of the operand does not stretch", i);
}

static void check_transpose(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(from->rank == instr->type.rank, "the ranks differ");
  unsigned used = 0;
  for (int i = 0; !v->message && i < from->rank; i++) {
    int64_t axis = instr->ints[i];
    RULE(axis >= 0 && axis < from->rank && !(used >> axis & 1), "not a permutation");
    if (v->message) return;
    used |= 1u << axis;
    RULE(instr->type.dim[i] == from->dim[axis], "axis %d of the result has another extent", i);
  }
}

static void check_slice(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(from->rank == instr->type.rank, "the ranks differ");
  for (int i = 0; !v->message && i < from->rank; i++) {
    int64_t start = instr->ints[i], step = instr->ints2[i], count = instr->type.dim[i], last;
    RULE(start >= 0 && step >= 1, "axis %d: start %lld, step %lld", i, (long long)start,
         (long long)step);
    if (count == from->dim[i] && start == 0 && step == 1) continue;
    RULE(dim_is_const(count), "axis %d: a run-time extent is sliced to another", i);
    if (v->message || !dim_is_const(from->dim[i]) || count == 0) continue;
    bool fits =
        mul_i64(count - 1, step, &last) && add_i64(last, start, &last) && last < from->dim[i];
    RULE(fits, "axis %d: the slice ends past the operand", i);
  }
}

static void check_concat(Verifier *v, const Instr *instr) {
  int64_t axis = instr->ival, total = 0;
  bool sizes = false;
  RULE(instr->nargs > 0 && axis >= 0 && axis < instr->type.rank, "no operand or no such axis");
  for (int i = 0; !v->message && i < instr->nargs; i++) {
    const Type *part = &instr->args[i]->type;
    RULE(part->rank == instr->type.rank && part->dtype == instr->type.dtype,
         "operand %d has another rank or dtype", i);
    for (int j = 0; !v->message && j < part->rank; j++)
      RULE(j == axis || part->dim[j] == instr->type.dim[j], "operand %d does not fit on axis %d", i,
           j);
    sizes = sizes || (!v->message && !dim_is_const(part->dim[axis]));
    if (!v->message && !sizes) RULE(add_i64(total, part->dim[axis], &total), "too long");
  }
  if (!v->message && !sizes)
    RULE(total == instr->type.dim[axis], "the parts do not add up to the result");
}

static void check_pad(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(from->rank == instr->type.rank, "the ranks differ");
  RULE(is_scalar(instr->args[1], instr->type.dtype),
       "the value is not a scalar of the result's dtype");
  for (int i = 0; !v->message && i < from->rank; i++) {
    int64_t low = instr->ints[i], high = instr->ints2[i], total;
    RULE(low >= 0 && high >= 0, "negative padding");
    if (low == 0 && high == 0 && from->dim[i] == instr->type.dim[i]) continue;
    bool fits = dim_is_const(from->dim[i])
                    ? add_i64(from->dim[i], low, &total) && add_i64(total, high, &total) &&
                          total == instr->type.dim[i]
                    : !dim_is_const(instr->type.dim[i]);
    RULE(fits, "axis %d: operand and padding do not add up to the result", i);
  }
}

static void check_take(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type, *index = &instr->args[1]->type;
  RULE(is_integer(index->dtype), "the index is not an integer");
  RULE(instr->ival >= 0 && instr->ival < from->rank && instr->type.rank == from->rank,
       "no such axis");
  RULE(instr->op == OP_TAKE ? index->rank == 1 : index->rank == from->rank, "the index has rank %d",
       index->rank);
  for (int i = 0; !v->message && i < from->rank; i++) {
    if (i == instr->ival) {
      RULE(instr->type.dim[i] == index->dim[instr->op == OP_TAKE ? 0 : i],
           "axis %d is not as long as the index", i);
    } else {
      RULE(instr->type.dim[i] == from->dim[i], "axis %d has another extent", i);
      if (instr->op == OP_TAKE_ALONG)
        RULE(index->dim[i] == from->dim[i], "the index does not fit on axis %d", i);
    }
  }
}

static void check_gather(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type, *index = NULL;
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(instr, axes);
  RULE(count > 0 && instr->ival >> from->rank == 0 && instr->nargs == 1 + count,
       "not an index for each axis");
  RULE(instr->type.rank == from->rank - count + 1, "the result has rank %d", instr->type.rank);
  for (int i = 1; !v->message && i < instr->nargs; i++) {
    index = &instr->args[i]->type;
    RULE(is_integer(index->dtype) && index->rank == 1, "index %d is not a vector of integers", i);
    RULE(index->dim[0] == instr->type.dim[axes[0]], "index %d has another length", i);
  }
  for (int k = 0; !v->message && k < from->rank; k++) {
    const int to = ir_gathered_axis(instr, k);
    RULE(to < 0 || instr->type.dim[to] == from->dim[k], "axis %d has another extent", k);
  }
}

static void check_window_op(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(is_scalar(instr->args[1], DT_I64), "the start is not an i64 scalar");
  RULE(instr->ival >= 0 && instr->ival < from->rank && instr->type.rank == from->rank,
       "no such axis");
  for (int i = 0; !v->message && i < from->rank; i++)
    RULE(i == instr->ival || instr->type.dim[i] == from->dim[i], "axis %d has another extent", i);
}

// The shapes of an instruction that moves elements.
static void check_shape_op(Verifier *v, const Instr *instr) {
  if (instr->nargs == 0) return fail(v, instr, "no operand");
  const Type *from = &instr->args[0]->type;
  RULE(from->dtype == instr->type.dtype, "the dtype changes");
  if (v->message) return;
  switch (instr->op) {
    case OP_BROADCAST:
      check_broadcast(v, instr);
      break;
    case OP_RESHAPE:
      // In a reference, shapes may have the same number of elements by the kernel's requirements.
      RULE(ir_may_have_same_elements(v->k, from, &instr->type) ||
               (v->place == PLACE_REFERENCE &&
                (type_has_sizes(from) || type_has_sizes(&instr->type))),
           "the number of elements changes");
      break;
    case OP_TRANSPOSE:
      check_transpose(v, instr);
      break;
    case OP_SLICE:
      check_slice(v, instr);
      break;
    case OP_CONCAT:
      check_concat(v, instr);
      break;
    case OP_PAD:
      check_pad(v, instr);
      break;
    case OP_TAKE:
    case OP_TAKE_ALONG:
      check_take(v, instr);
      break;
    case OP_GATHER:
      check_gather(v, instr);
      break;
    case OP_WINDOW:
      check_window_op(v, instr);
      break;
    default:  // ROLL, REV
      RULE(type_same_shape(from, &instr->type), "the shape changes");
      RULE(instr->ival >= 0 && instr->ival < from->rank, "no axis %lld", (long long)instr->ival);
      if (instr->op == OP_ROLL)
        RULE(is_scalar(instr->args[1], DT_I64), "the shift is not an i64 scalar");
  }
}

// ---- along axes

static void check_reduce(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  bool arg = op_info[instr->op].class == OPC_ARGREDUCE;
  int64_t mask = arg ? (instr->ival >= 0 && instr->ival < MAX_RANK ? (int64_t)1 << instr->ival : -1)
                     : instr->ival;
  RULE(mask >= 0 && mask >> from->rank == 0, "axes outside the operand");
  RULE(from->rank == instr->type.rank, "the ranks differ");
  for (int i = 0; !v->message && i < from->rank; i++)
    RULE(instr->type.dim[i] == (mask >> i & 1 ? 1 : from->dim[i]),
         "axis %d of the result has another extent", i);
  RULE(instr->type.dtype == (arg ? DT_I32 : from->dtype), "the result has the wrong dtype");
  RULE(op_takes(instr->op, from->dtype), "not defined on %s", dtype_info[from->dtype].name);
}

static void check_scan(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(instr->ival >= 0 && instr->ival < from->rank, "no axis %lld", (long long)instr->ival);
  RULE(type_same_shape(from, &instr->type), "the shape changes");
  RULE(instr->type.dtype == (instr->op == OP_ARGSORT ? DT_I32 : from->dtype),
       "the result has the wrong dtype");
  RULE(op_takes(instr->op, from->dtype), "not defined on %s", dtype_info[from->dtype].name);
}

// The labels of a contraction.
static void check_dot(Verifier *v, const Instr *instr) {
  RULE(instr->ival >= 0 && instr->ival < PRECISIONS, "no such precision");
  const int8_t *labels[] = {instr->labels.a, instr->labels.b, instr->labels.out};
  const Type *types[] = {&instr->args[0]->type, &instr->args[1]->type, &instr->type};
  Dim extent[DOT_LABELS];
  unsigned in_operands = 0;
  for (int t = 0; t < 3; t++) {
    unsigned used = 0;
    for (int i = 0; i < types[t]->rank; i++) {
      int label = labels[t][i];
      RULE(label >= 0 && label < DOT_LABELS && !(used >> label & 1),
           "a label is out of range or repeated");
      if (v->message) return;
      used |= 1u << label;
      if (t < 2 && !(in_operands >> label & 1)) extent[label] = types[t]->dim[i];
      if (t < 2) in_operands |= 1u << label;
      RULE(in_operands >> label & 1, "a label of the result is in no operand");
      if (v->message) return;
      RULE(extent[label] == types[t]->dim[i], "label %c has two extents", 'a' + label);
    }
  }
  DType a = types[0]->dtype, b = types[1]->dtype, sums = dtype_product(a, b);
  RULE(a != DT_BOOL && b != DT_BOOL && types[2]->dtype != DT_BOOL, "not defined on bool");
  RULE(sums != DT_COUNT, "%s and %s do not mix", dtype_info[a].name, dtype_info[b].name);
  RULE(sums == DT_COUNT || is_float(sums) == is_float(types[2]->dtype),
       "the result has the wrong dtype");
}

// ---- memory

static bool known_ref(const Verifier *v, const Ref *ref) {
  if (!ref || ref->id < 0) return false;
  if (ref->role == REF_STATE)
    return ref->id < v->k->states.count && v->k->states.at[ref->id] == ref;
  return ref->id < v->k->refs.count && v->k->refs.at[ref->id] == ref;
}

static void check_window(Verifier *v, const Instr *instr, const Ref *ref, const Type *block,
                         const Window *window, Instr *const *starts) {
  const unsigned may_leave = INSTR_EDGE | INSTR_MASKED | INSTR_OPEN;
  for (int i = 0; !v->message && i < block->rank; i++) {
    int64_t size = window->size[i], stride = window->stride[i], last;
    RULE(is_scalar(starts[i], DT_I64), "start %d of `%s` is not an i64 scalar", i, ref->name);
    RULE(valid_dim(v, size) && stride >= 1, "axis %d: size %lld, stride %lld", i, (long long)size,
         (long long)stride);
    if (window->squeeze[i])
      RULE(size == 1, "axis %d is squeezed but has size %lld", i, (long long)size);
    if ((size == block->dim[i] && stride == 1) || instr->flags & may_leave) continue;
    if (!dim_is_const(size) || !dim_is_const(block->dim[i]) || size == 0) continue;
    if (window->length[i]) continue;  // `size` is not their number
    RULE(mul_i64(size - 1, stride, &last) && last < block->dim[i],
         "axis %d: the window is larger than `%s`", i, ref->name);
  }
}

// Is the ref visible here: declared by the kernel, or by a `scoped` around this instruction?
static bool in_scope(const Verifier *v, const Ref *ref) {
  return !ref->scope || v->open[ref->scope->id];
}

// Memory that other devices access must be declared by the kernel.
static void check_remote(Verifier *v, const Instr *instr) {
  bool copies = instr->op == OP_REMOTE_START;
  const Ref *s = copies ? instr->receive : instr->semaphore;
  RULE(v->k->mesh.count > 0, "without a mesh");
  RULE(known_ref(v, s) && s->space == SPACE_SEM && !s->scope, "no semaphore of the other device");
  if (v->message || !copies) return;
  RULE(s->semaphore == SEM_DMA, "`%s` counts signals", s->name);
  RULE(!instr->target->scope, "`%s` does not exist on another device", instr->target->name);
}

// The semaphore of a copy, signal or wait.
static void check_semaphore(Verifier *v, const Instr *instr, bool copy) {
  const Ref *s = instr->semaphore;
  RULE(known_ref(v, s) && s->space == SPACE_SEM && in_scope(v, s), "no semaphore");
  if (v->message) return;
  bool remote = instr->op == OP_REMOTE_START || instr->op == OP_REMOTE_SIGNAL;
  if (remote) check_remote(v, instr);
  if (v->message) return;
  bool counts =
      instr->op == OP_SEM_READ || (instr->op == OP_COPY_START ? s->semaphore != SEM_BARRIER
                                                              : copy == (s->semaphore == SEM_DMA));
  RULE(counts, "`%s` counts %s", s->name, copy ? "signals" : "bytes of DMAs");
  int first = (int)(ir_semaphore_index(instr) - instr->args), chains = 0;
  if (copy)
    chains = ir_chain_starts(&instr->ref->type, instr->chain) +
             ir_chain_starts(&instr->target->type, instr->target_chain);
  bool amount = op_info[instr->op].attribute == ATTR_SEMAPHORE && instr->op != OP_SEM_READ,
       other = instr->flags & INSTR_OTHER;
  int lengths = copy ? ir_length_count(instr) : 0, device = remote ? v->k->mesh.count : 0,
      receive = copy && remote ? instr->receive->type.rank : 0;
  RULE(instr->nargs == first + s->type.rank + receive + device + amount + other + chains + lengths,
       "%d arguments", instr->nargs);
  RULE(!other || !(lengths + chains), "a copy of run-time length or of a view has no `other`");
  for (int i = first; !v->message && i < instr->nargs - other; i++)
    RULE(is_scalar(instr->args[i], DT_I64), "argument %d is not an i64 scalar", i);
  if (instr->op == OP_SEM_READ) RULE(is_scalar(instr, DT_I32), "the result is not an i32 scalar");
}

// Each step only selects or rearranges the bits of the type before it.
static void check_step(Verifier *v, const Instr *instr, const ChainStep *step, const Type *before) {
  const Type *after = &step->type;
  unsigned axes = 0;
  switch (step->kind) {
    case CHAIN_WINDOW: {
      Type type = ir_window_type(before, &step->window);
      RULE(same_type(&type, after), "a window of a view has another type");
      break;
    }
    case CHAIN_BITCAST:
      RULE(ir_same_bits(before, after), "a bitcast of a view has other bits");
      break;
    case CHAIN_RESHAPE:
      RULE(before->dtype == after->dtype && ir_same_elements(v->k, before, after),
           "a view has another number of elements");
      break;
    default:
      for (int i = 0; i < after->rank; i++) axes |= 1U << step->perm[i];
      RULE(after->rank == before->rank && axes == (1U << after->rank) - 1, "axes of a view");
  }
}

static void check_end(Verifier *v, const Instr *instr, bool target) {
  const Ref *ref = target ? instr->target : instr->ref;
  const Chain *chain = target ? instr->target_chain : instr->chain;
  const Type *before = &ref->type;
  Instr *const *starts = ir_chain_args(instr, target);
  for (int i = 0; chain && i < chain->count && !v->message; before = &chain->at[i++].type) {
    check_step(v, instr, &chain->at[i], before);
    if (v->message || chain->at[i].kind != CHAIN_WINDOW) continue;
    check_window(v, instr, ref, before, &chain->at[i].window, starts);
    starts += before->rank;
  }
  if (!v->message)
    check_window(v, instr, ref, before, target ? &instr->target_window : &instr->window,
                 ir_starts(instr, target));
}

// The windows of a copy.
static void check_copy(Verifier *v, const Instr *instr) {
  const Ref *from = instr->ref, *to = instr->target;
  RULE(known_ref(v, from) && known_ref(v, to) && in_scope(v, from) && in_scope(v, to), "no ref");
  if (v->message) return;
  RULE(from->space != SPACE_SEM && to->space != SPACE_SEM, "semaphores are not copied");
  const Type *source = ir_seen(from, instr->chain), *target = ir_seen(to, instr->target_chain);
  RULE(instr->nargs >= source->rank + target->rank, "%d arguments", instr->nargs);
  RULE(instr->op == OP_COPY_WAIT || to->role != REF_INPUT, "writes to the input `%s`", to->name);
  if (v->message) return;
  if (instr->op == OP_MOVE)
    RULE(instr->nargs == source->rank + target->rank + ir_chain_starts(&from->type, instr->chain) +
                             ir_chain_starts(&to->type, instr->target_chain),
         "%d arguments", instr->nargs);
  else
    check_semaphore(v, instr, true);
  if (v->message) return;
  check_end(v, instr, false);
  if (v->message) return;
  check_end(v, instr, true);
  if (v->message) return;
  Type a = ir_window_type(source, &instr->window),
       b = ir_window_type(target, &instr->target_window);
  RULE(same_type(&a, &b), "the windows differ in type");
  for (int i = 0, j = 0; !v->message && i < source->rank; i++) {
    if (instr->window.squeeze[i]) continue;
    while (instr->target_window.squeeze[j]) j++;
    RULE(instr->window.length[i] == instr->target_window.length[j++],
         "axis %d has a run-time length in one window only", i);
  }
  if (instr->flags & INSTR_OTHER)
    RULE(is_scalar(instr->args[instr->nargs - 1], a.dtype),
         "`other` is not a scalar of that dtype");
  Layout layout;
  RULE(ir_layout(v->k, instr, false, &layout) && ir_layout(v->k, instr, true, &layout),
       "a view has more digits than there is room for");
}

// An instruction that accesses memory: its place, ref and window.
static void check_memory(Verifier *v, const Instr *instr) {
  bool prefetched =
      instr->op == OP_LOAD && instr->ref && instr->ref->prefetch && v->place != PLACE_REFERENCE;
  bool state = instr->ref && instr->ref->role == REF_STATE &&
               (instr->op == OP_LOAD || instr->op == OP_STORE);
  if (state)
    RULE(v->place == PLACE_REFERENCE, "a var of the reference outside it");
  else
    RULE(v->place == PLACE_BODY || prefetched, "memory is touched outside the body");
  if (v->message) return;
  if (op_info[instr->op].attribute == ATTR_COPY) return check_copy(v, instr);
  if (op_info[instr->op].attribute == ATTR_SEMAPHORE) return check_semaphore(v, instr, false);
  RULE(known_ref(v, instr->ref) && in_scope(v, instr->ref), "no ref");
  if (v->message) return;
  const Ref *ref = instr->ref;
  bool load = instr->op == OP_LOAD, masked = instr->flags & INSTR_MASKED,
       other = instr->flags & INSTR_OTHER;
  if (instr->op == OP_FETCH)
    RULE(ref->role == REF_INPUT, "fetches `%s`, which is not an input", ref->name);
  if (instr->op == OP_WRITEBACK)
    RULE(ref->role == REF_OUTPUT, "writes back `%s`, which is not an output", ref->name);
  if (!load && instr->op != OP_STORE) return;
  int expected = ref->type.rank + (load ? 0 : 1) + masked + other;
  RULE(ref->space != SPACE_SEM && ref->space != SPACE_ANY, "`%s` is in %s", ref->name,
       ref->space == SPACE_SEM ? "semaphore memory" : "HBM");
  RULE(!other || (load && masked), "`other` without a mask");
  RULE(!(instr->flags & INSTR_OPEN) || (load && !masked), "`open` is for loads without a mask");
  RULE(instr->nargs == expected, "%d arguments instead of %d", instr->nargs, expected);
  const Ref *operand = ref->operand ? ref->operand : ref;
  RULE(load || operand->role != REF_INPUT, "stores to the input `%s`", ref->name);
  if (v->message) return;
  check_window(v, instr, ref, &ref->type, &instr->window, instr->args);
  Type type = ir_window_type(&ref->type, &instr->window);
  if (ir_may_hold(ref, ir_access_dtype(instr))) type.dtype = ir_access_dtype(instr);
  const Type *value = load ? &instr->type : &instr->args[ref->type.rank]->type;
  RULE(same_type(value, &type), "the value does not have the window's type");
  Type mask = type;
  mask.dtype = DT_BOOL;
  if (masked)
    RULE(same_type(&ir_mask(instr)->type, &mask), "the mask is not bool of the window's shape");
  if (other)
    RULE(same_type(&instr->args[ref->type.rank + 1]->type, &type),
         "`other` does not have the window's type");
}

// ---- regions

// A region yields `count` values of `type`; count 0: it does not yield.
typedef struct {
  int count;
  Type type;
} Results;

static void check_region(Verifier *v, const Instr *owner, Region *region, Results results);

static void check_pipeline(Verifier *v, Instr *instr) {
  Results nothing = {0}, indices = {0, type_scalar(DT_I64)};
  RULE(v->place == PLACE_BODY, "outside the body");
  RULE(instr->nargs >= 1 && instr->nargs <= MAX_RANK, "%d axes", instr->nargs);
  for (int i = 0; i < instr->nargs; i++)
    RULE(is_scalar(instr->args[i], DT_I64), "extent %d is not an i64 scalar", i);
  for (int i = 0; i < 2; i++)
    RULE(instr->regions[i] && instr->regions[i]->arg, "no step in region %d", i);
  for (int i = 0; i < v->k->refs.count; i++)
    if (v->k->refs.at[i]->scope == instr) indices.count += v->k->refs.at[i]->array.rank;
  if (v->message) return;
  RULE(ir_is_pure(instr->regions[0]), "its index maps do more than compute");
  check_region(v, instr, instr->regions[0], indices);
  v->loops = 0;
  v->open[instr->id] = true;
  check_region(v, instr, instr->regions[1], nothing);
  v->open[instr->id] = false;
}

// A control instruction: its condition, regions and results.
static void check_control(Verifier *v, Instr *instr) {
  Results nothing = {0}, condition = {1, type_scalar(DT_BOOL)},
          result = {has_result(instr), instr->type};
  int loops = v->loops;
  RULE(v->place != PLACE_REFERENCE || instr->op == OP_IF || instr->op == OP_FOR ||
           instr->op == OP_YIELD,
       "not in a reference");
  if (v->message) return;
  switch (instr->op) {
    case OP_IF:
      RULE(is_scalar(instr->args[0], DT_BOOL), "the condition is not a bool scalar");
      RULE(instr->regions[1] || !has_result(instr), "a result but no else region");
      check_region(v, instr, instr->regions[0], result);
      if (instr->regions[1]) check_region(v, instr, instr->regions[1], result);
      break;
    case OP_FOR:
      RULE(is_scalar(instr->args[0], DT_I64) && is_scalar(instr->args[1], DT_I64),
           "the bounds are not i64 scalars");
      RULE(instr->regions[0] && instr->regions[0]->arg, "no variable");
      v->loops++;
      check_region(v, instr, instr->regions[0], nothing);
      break;
    case OP_WHILE:
      v->loops = 0;
      check_region(v, instr, instr->regions[0], condition);
      v->loops = loops + 1;
      check_region(v, instr, instr->regions[1], nothing);
      break;
    case OP_SCOPED:
      v->open[instr->id] = true;
      check_region(v, instr, instr->regions[0], nothing);
      v->open[instr->id] = false;
      break;
    case OP_PIPELINE:
      check_pipeline(v, instr);
      break;
    case OP_NAMED:
      check_region(v, instr, instr->regions[0], nothing);
      break;
    case OP_BREAK:
      RULE(v->loops > 0, "outside a loop");
      break;
    case OP_ASSERT:
      RULE(is_scalar(instr->args[0], DT_BOOL), "the condition is not a bool scalar");
      break;
    default:
      break;
  }
  v->loops = loops;
  if (instr->op == OP_NAMED || instr->op == OP_PRINT || instr->op == OP_ASSERT)
    RULE(instr->text, "no text");
}

// An instruction without operands.
static void check_leaf(Verifier *v, const Instr *instr) {
  bool in_step = v->place == PLACE_BODY || v->place == PLACE_MAP;
  switch (instr->op) {
    case OP_CONST:
      RULE(instr->type.rank == 0, "not a scalar");
      break;
    case OP_IOTA:
      RULE(instr->ival >= 0 && instr->ival < instr->type.rank && instr->type.dtype != DT_BOOL,
           "no such axis");
      break;
    case OP_SIZE:
      RULE(instr->ival >= 0 && instr->ival < v->size_limit, "size %lld is not known here",
           (long long)instr->ival);
      break;
    case OP_AXIS:
    case OP_EXTENT:
      RULE(in_step && instr->ival >= 0 && instr->ival < v->k->grid.count,
           "grid axis %lld is not known here", (long long)instr->ival);
      break;
    case OP_DEVICE:
      RULE(v->place == PLACE_BODY && instr->ival >= 0 && instr->ival < v->k->mesh.count,
           "mesh axis %lld is not known here", (long long)instr->ival);
      break;
    case OP_ARG:
      fail(v, instr, "is outside a loop's head");
      break;
    case OP_STEP_AXIS: {
      const Instr *owner = instr->args[0]->op == OP_ARG ? v->owner[instr->args[0]->id] : NULL;
      RULE(owner && owner->op == OP_PIPELINE, "not of a pipeline's step");
      RULE(!owner || (instr->ival >= 0 && instr->ival < owner->nargs), "no axis %lld",
           (long long)instr->ival);
      break;
    }
    case OP_ARRAY:
      RULE(v->place == PLACE_REFERENCE && known_ref(v, instr->ref) && instr->ref->role == REF_INPUT,
           "not an input, or outside a reference");
      if (!v->message)
        RULE(same_type(&instr->type, &instr->ref->array), "the type is not the array's");
      break;
    default:
      INTERNAL("leaf %d", (int)instr->op);
  }
  if (instr->op == OP_SIZE || instr->op == OP_AXIS || instr->op == OP_EXTENT ||
      instr->op == OP_DEVICE || instr->op == OP_STEP_AXIS)
    RULE(is_scalar(instr, DT_I64), "not an i64 scalar");
}

static void check_arguments(Verifier *v, const Instr *instr) {
  int expected = op_info[instr->op].nargs;
  RULE(instr->nargs >= 0 && (expected < 0 || instr->nargs == expected),
       "%d arguments instead of %d", instr->nargs, expected);
  for (int i = 0; !v->message && i < instr->nargs; i++) {
    const Instr *arg = instr->args[i];
    RULE(arg && arg->id >= 0 && arg->id < v->k->next_id && v->visible[arg->id] == arg,
         "argument %d (%%%d) is not defined here", i, arg ? arg->id : -1);
    if (!v->message) RULE(has_result(arg), "argument %d has no value", i);
  }
}

// Outside of bodies and references all instructions are index arithmetic on scalars.
static void check_place(Verifier *v, const Instr *instr) {
  if (v->place == PLACE_REFERENCE || v->place == PLACE_BODY) return;
  OpClass class = op_info[instr->op].class;
  bool pure = class == OPC_LEAF || op_is_elementwise(instr->op) || instr->op == OP_IF ||
              instr->op == OP_YIELD || instr->op == OP_LOAD;
  RULE(pure, "not allowed in index arithmetic");
  if (has_result(instr))
    RULE(instr->type.rank == 0 && !is_float(instr->type.dtype),
         "index arithmetic is on integer scalars");
}

static void define(Verifier *v, Instr *instr) {
  RULE(instr->id >= 0 && instr->id < v->k->next_id, "id beyond next_id");
  if (v->message) return;
  RULE(!v->seen[instr->id], "two instructions have this id, or one is in two places");
  v->seen[instr->id] = true;
  v->visible[instr->id] = instr;
}

// All rules of one instruction.
static void check_instr(Verifier *v, Instr *instr) {
  if (instr->op >= OP_COUNT) return fail(v, NULL, "%%%d has no operation", instr->id);
  check_arguments(v, instr);
  if (v->message) return;
  if (has_result(instr)) check_type(v, instr, &instr->type);
  if (op_has_result(instr->op))
    RULE(has_result(instr), "no result");
  else if (instr->op != OP_IF)
    RULE(!has_result(instr), "a result");
  check_place(v, instr);
  if (v->message) return;
  switch (op_info[instr->op].class) {
    case OPC_LEAF:
      check_leaf(v, instr);
      break;
    case OPC_SHAPE:
      check_shape_op(v, instr);
      break;
    case OPC_REDUCE:
    case OPC_ARGREDUCE:
      check_reduce(v, instr);
      break;
    case OPC_SCAN:
      check_scan(v, instr);
      break;
    case OPC_DOT:
      check_dot(v, instr);
      break;
    case OPC_MEMORY:
      check_memory(v, instr);
      break;
    case OPC_CONTROL:
      check_control(v, instr);
      break;
    default:
      check_elementwise(v, instr);
  }
}

static void check_yield(Verifier *v, const Instr *owner, const Region *region, Results results) {
  const Instr *last = region->instrs.count ? region->instrs.at[region->instrs.count - 1] : NULL;
  if (results.count == 0) return;
  if (!last || last->op != OP_YIELD) return fail(v, owner, "a region does not end in a yield");
  const Instr *instr = last;
  RULE(instr->nargs == results.count, "yields %d values instead of %d", instr->nargs,
       results.count);
  for (int i = 0; !v->message && i < results.count; i++)
    RULE(results.type.dtype == DT_COUNT || same_type(&instr->args[i]->type, &results.type),
         "value %d has the wrong type", i);
}

// The instructions of a region, and its results.
static void check_region(Verifier *v, const Instr *owner, Region *region, Results results) {
  if (v->message) return;
  if (!region) return fail(v, owner, "a region is missing");
  Instr *arg = region->arg;
  if (arg) {
    const Instr *instr = arg;
    bool loops = owner && (owner->op == OP_FOR || owner->op == OP_PIPELINE);
    RULE(loops && arg->op == OP_ARG && is_scalar(arg, DT_I64), "not the i64 variable of a for");
    define(v, arg);
    if (!v->message) v->owner[arg->id] = owner;
  }
  int done = 0;
  for (; !v->message && done < region->instrs.count; done++) {
    Instr *instr = region->instrs.at[done];
    if (!instr) return fail(v, owner, "an instruction is missing");
    bool last = done == region->instrs.count - 1;
    if (instr->op == OP_YIELD)
      RULE(last && results.count > 0, "yields where no result is expected");
    check_instr(v, instr);
    if (!v->message) define(v, instr);
  }
  if (!v->message) check_yield(v, owner, region, results);
  for (int i = 0; i < done && !v->message; i++) v->visible[region->instrs.at[i]->id] = NULL;
  if (arg && !v->message) v->visible[arg->id] = NULL;
}

static void check_tree(Verifier *v, Region *region, CodePlace place, int size_limit,
                       Results results, const char *what) {
  if (v->message) return;
  v->place = place;
  v->size_limit = size_limit;
  v->loops = 0;
  check_region(v, NULL, region, results);
  if (v->message) v->message = arena_printf(v->k->arena, "%s: %s", what, v->message);
}

// ---- the kernel

// The block's type follows from its spec.
static void check_block(Verifier *v, const Ref *ref) {
  const Instr *instr = NULL;
  RULE(ref->type.dtype == ref->array.dtype, "`%s`: block and array differ in dtype", ref->name);
  int axis = 0;
  for (int i = 0; !v->message && i < ref->array.rank; i++) {
    RULE(valid_dim(v, ref->block[i]), "`%s`: block axis %d names a size that does not exist",
         ref->name, i);
    if (ref->squeeze[i]) {
      RULE(ref->block[i] == 1, "`%s`: squeezed axis %d has another extent than 1", ref->name, i);
      continue;
    }
    RULE(axis < ref->type.rank && ref->type.dim[axis] == ref->block[i],
         "`%s`: the block's type does not follow from its spec", ref->name);
    axis++;
  }
  RULE(axis == ref->type.rank, "`%s`: the block's type does not follow from its spec", ref->name);
}

// The attributes after an operand's type: pad, alias, packed; its parts and buffers.
static void check_properties(Verifier *v, const Ref *ref) {
  const Instr *instr = NULL;
  if (ref->has_pad) {
    const Ref *of = ref->operand ? ref->operand : ref;
    RULE(of->role == REF_INPUT && ref->pad && ref->pad->op == OP_CONST,
         "`%s`: pad is not a constant of an input", ref->name);
    if (!v->message)
      RULE(is_scalar(ref->pad, ref->array.dtype), "`%s`: pad has another dtype", ref->name);
  }
  if (ref->alias) {
    bool input =
        known_ref(v, ref->alias) && ref->alias->role == REF_INPUT && ref->role == REF_OUTPUT;
    RULE(input && same_type(&ref->alias->array, &ref->array) && ref->alias->packed == ref->packed,
         "`%s`: an alias joins an output to an input of its type", ref->name);
  }
  RULE(!ref->packed || (ref_is_operand(ref) && is_part_of_byte(ref->array.dtype) &&
                        ref->array.rank > 0 && !ref->prefetch && !v->k->mesh.count),
       "`%s` cannot be packed", ref->name);
  for (int i = 0; !v->message && i < ref->array.rank; i++)
    RULE(ref->parts[i] <= 1 || !dim_is_const(ref->array.dim[i]) ||
             ref->array.dim[i] % ref->parts[i] == 0,
         "`%s`: axis %d does not divide into %lld parts", ref->name, i, (long long)ref->parts[i]);
  RULE(ref->buffers >= 1 && ref->buffers <= MOST_BUFFERS, "`%s`: %d buffers", ref->name,
       ref->buffers);
}

// The array and blocks of an operand, or of a pipeline's block.
static void check_operand(Verifier *v, const Ref *ref) {
  const Instr *instr = NULL;
  check_type(v, NULL, &ref->array);
  if (!v->message) check_block(v, ref);
  if (!v->message) check_properties(v, ref);
  if (v->message) return;
  if (ref->operand) {
    RULE(ref->scope && ref->scope->op == OP_PIPELINE && ref->space == SPACE_VMEM && !ref->index_map,
         "`%s` is not a block of a pipeline", ref->name);
    RULE(known_ref(v, ref->operand) && ref->operand->space == SPACE_ANY &&
             same_type(&ref->array, &ref->operand->type) && ref->at != AT_SLICE,
         "`%s` is a block of an array that is not in HBM", ref->name);
    return;
  }
  RULE(!ref->prefetch || (ref->role == REF_INPUT && ref->whole && ref->space == SPACE_SMEM &&
                          is_integer(ref->type.dtype)),
       "`%s` cannot be prefetched", ref->name);
  Results indices = {ref->at == AT_SLICE ? 2 * ref->array.rank : ref->array.rank,
                     type_scalar(DT_I64)};
  if (ref->index_map)
    check_tree(v, ref->index_map, PLACE_MAP, v->k->sizes.count, indices,
               arena_printf(v->k->arena, "index map of `%s`", ref->name));
  else
    RULE(ref->whole || ref->space == SPACE_ANY, "`%s` has no index map", ref->name);
}

// The refs of a kernel, and their order.
static void check_refs(Verifier *v) {
  const Instr *instr = NULL;
  const Kernel *k = v->k;
  RULE(k->inputs >= 0 && k->outputs >= 0 && (int64_t)k->inputs + k->outputs <= k->refs.count,
       "more operands than refs");
  for (int i = 0; !v->message && i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    RULE(known_ref(v, ref) && ref->id == i && ref->name, "ref %d is not in its place", i);
    if (v->message) return;
    bool in_place = i < k->inputs                ? ref->role == REF_INPUT
                    : i < k->inputs + k->outputs ? ref->role == REF_OUTPUT
                                                 : !ref_is_operand(ref);
    RULE(in_place, "`%s` is not where its role belongs", ref->name);
    check_type(v, NULL, &ref->type);
    RULE(!ref->scope || ref->role == REF_SCRATCH, "`%s` has a scope but is not a scratch",
         ref->name);
    RULE(!ref->operand || ref->role == REF_SCRATCH, "`%s` is a block and not scratch", ref->name);
    RULE(!ref->scope || ref->scope->op == (ref->operand ? OP_PIPELINE : OP_SCOPED),
         "`%s` lives where it does not belong", ref->name);
    if (!v->message && (ref_is_operand(ref) || ref->operand)) check_operand(v, ref);
    if (v->message) v->message = arena_printf(v->k->arena, "ref `%s`: %s", ref->name, v->message);
  }
}

static void check_states(Verifier *v) {
  const Instr *instr = NULL;
  for (int i = 0; !v->message && i < v->k->states.count; i++) {
    const Ref *ref = v->k->states.at[i];
    RULE(known_ref(v, ref) && ref->id == i && ref->name && ref->space == SPACE_VAR && !ref->scope,
         "var %d of the reference is not in its place", i);
    if (!v->message) check_type(v, NULL, &ref->type);
  }
}

static void check_launch(Verifier *v) {
  Kernel *k = v->k;
  Results index = {1, type_scalar(DT_I64)}, condition = {1, type_scalar(DT_BOOL)};
  for (int i = 0; i < k->sizes.count; i++)
    if (k->sizes.at[i].value)
      check_tree(v, k->sizes.at[i].value, PLACE_SIZE, i, index, "derived size");
  for (int i = 0; i < k->grid.count; i++)
    check_tree(v, k->grid.at[i].extent, PLACE_LAUNCH, k->sizes.count, index, "grid extent");
  for (int i = 0; i < k->requires.count; i++)
    check_tree(v, k->requires.at[i].condition, PLACE_LAUNCH, k->sizes.count, condition,
               "requirement");
}

// A reference yields one whole array per output.
static void check_reference(Verifier *v) {
  Kernel *k = v->k;
  Results arrays = {k->outputs, {.dtype = DT_COUNT}};
  check_tree(v, k->reference, PLACE_REFERENCE, k->sizes.count, arrays, "reference");
  if (v->message || k->outputs == 0) return;
  const Instr *instr = k->reference->instrs.at[k->reference->instrs.count - 1];
  for (int i = 0; !v->message && i < k->outputs; i++)
    RULE(same_type(&instr->args[i]->type, &k->refs.at[k->inputs + i]->array),
         "value %d does not have the output's type", i);
}

const char *ir_verify(Kernel *k) {
  Verifier verifier = {.k = k}, *v = &verifier;
  v->visible = NEW_ARRAY(k->arena, Instr *, k->next_id + 1);
  v->seen = NEW_ARRAY(k->arena, bool, k->next_id + 1);
  v->open = NEW_ARRAY(k->arena, bool, k->next_id + 1);
  v->owner = NEW_ARRAY(k->arena, const Instr *, k->next_id + 1);
  check_launch(v);
  check_refs(v);
  check_states(v);
  check_tree(v, k->body, PLACE_BODY, k->sizes.count, (Results){0}, "body");
  if (k->reference) check_reference(v);
  return v->message;
}
