// Memory by hand in the interpreter: copies, semaphores, `scoped`.
#include "codegen/interp_internal.h"

#include <string.h>

// ---- windows

// An input that shares its memory with an output lives in the output's block.
static Value *home_of(Interp *in, const Ref *ref) {
  if (ref->role == REF_INPUT && ref->space == SPACE_ANY)
    for (int i = in->k->inputs; i < in->k->inputs + in->k->outputs; i++)
      if (in->k->refs.at[i]->alias == ref) return &in->refs[i].block;
  return &in->refs[ref->id].block;
}

// A window on its ref's block: axis i has extent[i] elements, from start[i], stride[i] apart.
typedef struct {
  const Ref *ref;
  Value *block;
  int64_t start[MAX_RANK], extent[MAX_RANK], stride[MAX_RANK];
} WindowPlace;

static void check_end(Interp *in, const Instr *instr, const WindowPlace *w, int axis) {
  int64_t size = w->extent[axis], reach, last, start = w->start[axis], dim = w->block->dim[axis];
  bool fits =
      start >= 0 && (size == 0 || (mul_i64(size - 1, w->stride[axis], &reach) && add_i64(start, reach, &last) && last < dim));
  if (fits || instr->flags & INSTR_EDGE) return;
  find(in, instr, FIND_SLICE, instr->span,
       "a copy %s `%s` is out of range on axis %d: %lld elements%s from %lld, but the axis has %lld",
       w->ref == instr->ref ? "from" : "to", w->ref->name, axis, (long long)size,
       w->stride[axis] == 1 ? "" : arena_printf(in->report->arena, " with step %lld", (long long)w->stride[axis]),
       (long long)start, (long long)dim);
}

static WindowPlace resolve_window(Interp *in, const Instr *instr, const Ref *ref, const Window *window, Instr *const *starts) {
  WindowPlace w = {.ref = ref, .block = home_of(in, ref)};
  for (int i = 0; i < ref->type.rank; i++) {
    const Value *start = value_of(in, starts[i]);
    if (poison_at(start, 0))
      find(in, instr, FIND_POISON_INDEX, instr->span, "the start of a copy's window on `%s`, axis %d, is unspecified: %s",
           ref->name, i, poison_cause(in, start->poison[0]));
    w.start[i] = start->i[0];
    w.extent[i] = resolve_dim(in->sizes, window->size[i]);
    w.stride[i] = window->stride[i];
    check_end(in, instr, &w, i);
  }
  return w;
}

// ---- moving elements

// Where element `index` of a window is in the block; -1: outside.
static int64_t place_in_block(const WindowPlace *w, const int64_t *index) {
  int64_t at = 0;
  for (int i = 0; i < w->ref->type.rank; i++) {
    int64_t offset, position;
    if (!mul_i64(index[i], w->stride[i], &offset) || !add_i64(offset, w->start[i], &position)) return -1;
    if (position < 0 || position >= w->block->dim[i]) return -1;
    at = at * w->block->dim[i] + position;
  }
  return at;
}

static bool next_index(const WindowPlace *w, int64_t *index) {
  for (int i = w->ref->type.rank - 1; i >= 0; i--) {
    if (++index[i] < w->extent[i]) return true;
    index[i] = 0;
  }
  return false;
}

static int64_t count_elements(const WindowPlace *w) {
  int64_t count = 1;
  for (int i = 0; i < w->ref->type.rank; i++) count *= w->extent[i];
  return count;
}

static void move_element(Interp *in, const Instr *instr, const WindowPlace *from, int64_t source, const WindowPlace *to,
                         int64_t target) {
  Value *t = to->block;
  if (source >= 0) {
    t->i[target] = from->block->i[source];  // floats too: the bits move
    t->poison[target] = from->block->poison[source];
    if (t->poison[target] == POISON_UNSTORED)
      t->poison[target] = (uint8_t)(from->ref->id + 1 <= POISON_REFS ? from->ref->id + 1 : POISON_OTHER);
    return;
  }
  const Value *other = instr->flags & INSTR_OTHER ? value_of(in, instr->args[instr->nargs - 1]) : NULL;
  if (other) t->i[target] = other->i[0];
  t->poison[target] = other ? poison_at(other, 0) : POISON_OTHER;
}

static void move_window(Interp *in, const Instr *instr, const WindowPlace *from, const WindowPlace *to) {
  int64_t source[MAX_RANK] = {0}, target[MAX_RANK] = {0};
  int64_t count = count_elements(to);
  for (int64_t e = 0; e < count; e++) {
    int64_t at = place_in_block(to, target);
    if (at >= 0) move_element(in, instr, from, place_in_block(from, source), to, at);
    next_index(from, source);
    next_index(to, target);
  }
}

// ---- semaphores

static const char *element_text(Interp *in, const Ref *ref, int64_t element) {
  Buf text = {0};
  int64_t index[MAX_RANK];
  for (int i = ref->type.rank - 1; i >= 0; i--) {
    index[i] = element % ref->type.dim[i];
    element /= ref->type.dim[i];
  }
  buf_puts(&text, ref->name);
  if (ref->type.rank) buf_putc(&text, '['), format_indices(&text, index, ref->type.rank), buf_putc(&text, ']');
  const char *copy = arena_strndup(in->report->arena, text.text, text.length);
  buf_free(&text);
  return copy;
}

// The element an instruction names; an index out of range is reported and clamped.
static int64_t semaphore_element(Interp *in, const Instr *instr) {
  const Ref *ref = instr->semaphore;
  Instr *const *index = ir_semaphore_index(instr);
  int64_t element = 0;
  for (int i = 0; i < ref->type.rank; i++) {
    int64_t at = value_of(in, index[i])->i[0], dim = ref->type.dim[i];
    if (at < 0 || at >= dim)
      find(in, instr, FIND_SLICE, instr->span, "semaphore %lld of `%s` on axis %d is out of range: there are %lld", (long long)at,
           ref->name, i, (long long)dim);
    element = element * dim + (at < 0 ? 0 : at >= dim ? dim - 1 : at);
  }
  return element;
}

static void take(Interp *in, const Instr *instr, int64_t amount, const char *unit) {
  int64_t element = semaphore_element(in, instr), *held = &in->refs[instr->semaphore->id].block.i[element];
  if (*held < amount) {
    find(in, instr, FIND_DEADLOCK, instr->span,
         "deadlock: this waits for %lld%s on `%s`, which holds %lld, and nothing is under way", (long long)amount, unit,
         element_text(in, instr->semaphore, element), (long long)*held);
    in->stopped = true;
    return;
  }
  *held -= amount;
}

static void run_copy(Interp *in, const Instr *instr) {
  WindowPlace from = resolve_window(in, instr, instr->ref, &instr->window, instr->args);
  WindowPlace to = resolve_window(in, instr, instr->target, &instr->target_window, instr->args + instr->ref->type.rank);
  int64_t bytes = count_elements(&to) * dtype_bytes(instr->ref->type.dtype);
  if (instr->op == OP_COPY_WAIT) {
    take(in, instr, bytes, " bytes");
    return;
  }
  in->refs[instr->target->id].last_store = instr;
  move_window(in, instr, &from, &to);
  in->refs[instr->semaphore->id].block.i[semaphore_element(in, instr)] += bytes;
}

void run_dma(Interp *in, const Instr *instr) {
  if (instr->op == OP_COPY_START || instr->op == OP_COPY_WAIT) {
    run_copy(in, instr);
    return;
  }
  if (instr->op == OP_SEM_READ) {
    Value *out = value_new(in, instr);
    if (out) out->i[0] = wrap_int(DT_I32, in->refs[instr->semaphore->id].block.i[semaphore_element(in, instr)]);
    return;
  }
  int64_t amount = value_of(in, instr->args[instr->nargs - 1])->i[0];
  if (amount < 0)
    find(in, instr, FIND_SLICE, instr->span, "a semaphore takes 0 or more, not %lld", (long long)amount);
  else if (instr->op == OP_SEM_WAIT)
    take(in, instr, amount, "");
  else
    in->refs[instr->semaphore->id].block.i[semaphore_element(in, instr)] += amount;
}

// ---- lifetimes

// A semaphore whose life begins holds 0, and has to when it ends.
void begin_semaphore(Interp *in, const Ref *ref) {
  Value *block = &in->refs[ref->id].block;
  memset(block->i, 0, (size_t)block->count * sizeof *block->i);
  memset(block->poison, 0, (size_t)block->count);
}

void end_semaphore(Interp *in, const Ref *ref) {
  const Value *block = &in->refs[ref->id].block;
  for (int64_t e = 0; e < block->count && !in->stopped; e++)
    if (block->i[e] != 0)
      find(in, ref, FIND_SEMAPHORE, ref->span, "the semaphore `%s` still holds %lld%s at the end: %s", element_text(in, ref, e),
           (long long)block->i[e], ref->semaphore == SEM_DMA ? " bytes" : "",
           ref->semaphore == SEM_DMA ? "a copy was started and never waited for" : "it was signalled more than waited for");
}

void begin_scratch(Interp *in, const Ref *ref) {
  Value *block = &in->refs[ref->id].block;
  if (ref->space == SPACE_SEM)
    begin_semaphore(in, ref);
  else
    fill_unspecified(block, 0, block->count, (uint8_t)(ref->id + 1 <= POISON_REFS ? ref->id + 1 : POISON_OTHER));
}

void begin_scope(Interp *in, const Instr *scoped) {
  for (int i = in->k->inputs + in->k->outputs; i < in->k->refs.count; i++)
    if (in->k->refs.at[i]->scope == scoped) begin_scratch(in, in->k->refs.at[i]);
}

void end_scope(Interp *in, const Instr *scoped) {
  for (int i = in->k->inputs + in->k->outputs; i < in->k->refs.count; i++)
    if (in->k->refs.at[i]->scope == scoped && in->k->refs.at[i]->space == SPACE_SEM) end_semaphore(in, in->k->refs.at[i]);
}
