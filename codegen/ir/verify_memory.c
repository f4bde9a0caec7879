// The verifier of the block IR: operations on refs, copies and semaphores.
#include "codegen/ir/axes.h"
#include "codegen/ir/layout.h"
#include "codegen/ir/verify.h"

// ---- memory

bool known_ref(const Verifier *v, const Ref *ref) {
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
void verify_memory(Verifier *v, const Instr *instr) {
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
