// Layouts of views against a model that follows each part of an element back through the steps, one
// at a time.
#include <stdlib.h>
#include <string.h>

#include "codegen/ir/layout.h"
#include "check.h"

enum { CHAINS = 4000, MOST_STEPS = 6 };

static uint64_t state = 1;
static int64_t draw(int64_t n) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (int64_t)(state % (uint64_t)n);
}

static int64_t elements(const Type *t) {
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++) count *= t->dim[i];
  return count;
}

// ---- random steps

typedef struct {
  ChainStep step[MOST_STEPS + 1];  // the last one is the copy's own window
  Instr *start[MOST_STEPS + 1][MAX_RANK];
  int count;
} Made;

static void make_window(Kernel *k, Made *m, const Type *before) {
  ChainStep *s = &m->step[m->count];
  *s = (ChainStep){.kind = CHAIN_WINDOW, .type = {.dtype = before->dtype}};
  for (int i = 0; i < before->rank; i++) {
    int64_t dim = before->dim[i], way = draw(4);
    int64_t stride = way == 3 ? 1 + draw(3) : 1, size = way ? 1 + draw(dim ? dim : 1) : dim;
    while (size > 1 && (size - 1) * stride >= dim) size--;
    int64_t start = way ? draw(dim - (size - 1) * stride > 0 ? dim - (size - 1) * stride : 1) : 0;
    if (draw(12) == 0) start += draw(5) - 2;
    s->window.size[i] = size;
    s->window.stride[i] = stride;
    s->window.squeeze[i] = size == 1 && draw(2);
    // Constants, or run-time values.
    m->start[m->count][i] = ir_const_int(k, k->body, DT_I64, start, (Span){0});
    if (draw(2)) m->start[m->count][i]->op = OP_ARG;
    if (!s->window.squeeze[i]) s->type.dim[s->type.rank++] = size;
  }
  m->count++;
}

// Another shape with as many elements: prime factors are distributed at random.
static bool make_reshape(Made *m, const Type *before) {
  ChainStep *s = &m->step[m->count];
  int64_t left = elements(before);
  int rank = 1 + (int)draw(4);
  *s = (ChainStep){.kind = CHAIN_RESHAPE, .type = {.dtype = before->dtype, .rank = rank}};
  for (int i = 0; i < rank; i++) s->type.dim[i] = 1;
  if (left == 0) return false;
  for (int64_t p = 2; left > 1; p++)
    for (; left % p == 0; left /= p) s->type.dim[draw(rank)] *= p;
  m->count++;
  return true;
}

static void make_transpose(Made *m, const Type *before) {
  ChainStep *s = &m->step[m->count++];
  *s = (ChainStep){.kind = CHAIN_TRANSPOSE, .type = *before};
  for (int i = 0; i < before->rank; i++) s->perm[i] = i;
  for (int i = before->rank - 1; i > 0; i--) {
    int j = (int)draw(i + 1), old = s->perm[i];
    s->perm[i] = s->perm[j], s->perm[j] = old;
  }
  for (int i = 0; i < before->rank; i++) s->type.dim[i] = before->dim[s->perm[i]];
}

static bool make_bitcast(Made *m, const Type *before) {
  static const DType dtypes[] = {DT_U8, DT_U16, DT_U32, DT_I4};
  ChainStep *s = &m->step[m->count];
  Type after = *before;
  int row = before->rank - 2;
  after.dtype = dtypes[draw(4)];
  int64_t from = dtype_info[before->dtype].bits, to = dtype_info[after.dtype].bits;
  if (from != to && (row < 0 || before->dim[row] * from % to)) return false;
  if (from != to) after.dim[row] = before->dim[row] * from / to;
  *s = (ChainStep){.kind = CHAIN_BITCAST, .type = after};
  m->count++;
  return true;
}

// ---- the model

typedef struct {
  int64_t index[MAX_RANK], bit;
} Spot;

static void take_apart(int64_t flat, const Type *t, int64_t *index) {
  for (int i = t->rank - 1; i >= 0; flat /= t->dim[i--]) index[i] = flat % t->dim[i];
}

static int64_t put_together(const Type *t, const int64_t *index) {
  int64_t flat = 0;
  for (int i = 0; i < t->rank; i++) flat = flat * t->dim[i] + index[i];
  return flat;
}

static bool back(const ChainStep *s, Instr *const *start, const Type *before, Spot *spot) {
  Spot was = *spot;
  int64_t from = dtype_info[before->dtype].bits, to = dtype_info[s->type.dtype].bits;
  int row = before->rank - 2;
  switch (s->kind) {
    case CHAIN_WINDOW:
      for (int i = 0, axis = 0; i < before->rank; i++) {
        int64_t at = s->window.squeeze[i] ? 0 : was.index[axis++];
        spot->index[i] = start[i]->ival + at * s->window.stride[i];
        if (spot->index[i] < 0 || spot->index[i] >= before->dim[i]) return false;
      }
      break;
    case CHAIN_RESHAPE:
      take_apart(put_together(&s->type, was.index), before, spot->index);
      break;
    case CHAIN_TRANSPOSE:
      for (int i = 0; i < before->rank; i++) spot->index[s->perm[i]] = was.index[i];
      break;
    default:
      if (from < to) spot->index[row] = was.index[row] * (to / from) + was.bit / from;
      if (from < to) spot->bit = was.bit % from;
      if (from > to) spot->index[row] = was.index[row] / (from / to);
      if (from > to) spot->bit = was.index[row] % (from / to) * to + was.bit;
  }
  return true;
}

typedef struct {
  const Made *made;
  const Ref *ref;
  int64_t parts, bits, number;
  bool wrong;
} Comparison;

static void compare_part(void *context, int64_t element, int64_t bit) {
  Comparison *c = context;
  const Made *m = c->made;
  Spot spot = {.bit = c->number % c->parts * c->bits};
  take_apart(c->number++ / c->parts, &m->step[m->count - 1].type, spot.index);
  bool inside = true;
  for (int i = m->count - 1; inside && i >= 0; i--)
    inside = back(&m->step[i], m->start[i], i ? &m->step[i - 1].type : &c->ref->type, &spot);
  int64_t wanted = inside ? put_together(&c->ref->type, spot.index) : -1;
  if (element != wanted || (inside && bit != spot.bit)) c->wrong = true;
}

// ---- one chain

static Instr *copy_of(Kernel *k, const Made *m, Ref *ref) {
  Chain *chain = NEW(k->arena, Chain);
  Instr *args[(MOST_STEPS + 2) * MAX_RANK];
  const Type *seen = m->count > 1 ? &m->step[m->count - 2].type : &ref->type;
  int count = 0;
  *chain = (Chain){m->count - 1, m->step};
  for (int i = 0; i < 2 * seen->rank; i++) args[count++] = m->start[m->count - 1][i % seen->rank];
  for (int i = 0; i < m->count - 1; i++)
    for (int j = 0;
         m->step[i].kind == CHAIN_WINDOW && j < (i ? m->step[i - 1].type : ref->type).rank; j++)
      args[count++] = m->start[i][j];
  Instr *copy = ir_new(k, OP_MOVE, (Type){.dtype = DT_COUNT}, (Span){0}, count, args);
  Ref *target = NEW(k->arena, Ref);
  *target = (Ref){.type = *seen};
  copy->ref = ref;
  copy->target = target;
  copy->chain = m->count > 1 ? chain : NULL;
  copy->window = copy->target_window = m->step[m->count - 1].window;
  return copy;
}

static void test_chain(int number) {
  static const DType dtypes[] = {DT_U8, DT_U16, DT_U32};
  Arena *arena = arena_new();
  Kernel *k = NEW(arena, Kernel);
  *k = (Kernel){.arena = arena};
  k->body = ir_region(k);
  Ref *ref = NEW(arena, Ref);
  *ref = (Ref){.type = {.dtype = dtypes[draw(3)], .rank = 1 + (int)draw(4)}};
  for (int i = 0; i < ref->type.rank; i++) ref->type.dim[i] = 1 + draw(8);
  Made *m = NEW(arena, Made);
  int steps = (int)draw(MOST_STEPS);
  while (m->count < steps) {
    const Type *before = m->count ? &m->step[m->count - 1].type : &ref->type;
    int kind = (int)draw(4);
    if (kind == 0) make_window(k, m, before);
    if (kind == 1) make_transpose(m, before);
    if (kind == 2 && !make_reshape(m, before)) steps--;
    if (kind == 3 && !make_bitcast(m, before)) steps--;
  }
  make_window(k, m, m->count ? &m->step[m->count - 1].type : &ref->type);
  Layout *l = NEW(arena, Layout);
  int64_t start[LAYOUT_PLACES] = {0};
  bool fits = ir_layout(k, copy_of(k, m, ref), false, l);
  for (int p = 0; fits && p < l->places; p++)
    start[p] = l->place[p].start ? l->place[p].start->ival : 0;
  Comparison c = {.made = m, .ref = ref};
  if (fits) {
    c.bits = layout_part_bits(l);
    c.parts = dtype_info[m->step[m->count - 1].type.dtype].bits / c.bits;
    layout_walk(l, NULL, start, compare_part, &c);
  }
  check(fits && !c.wrong && c.number == c.parts * elements(&m->step[m->count - 1].type),
        arena_printf(arena, "%d steps", m->count), "chain %d: %lld parts", number,
        (long long)c.number);
  arena_free(arena);
}

// Constant windows of the halves of words: the number of added terms.
static void test_split(const char *name, int64_t start, int64_t size, int64_t stride, int more) {
  Arena *arena = arena_new();
  Kernel *k = NEW(arena, Kernel);
  *k = (Kernel){.arena = arena};
  k->body = ir_region(k);
  Ref *ref = NEW(arena, Ref);
  *ref = (Ref){.type = {.dtype = DT_U32, .rank = 2, .dim = {4, 8}}};
  Made *m = NEW(arena, Made);
  m->step[0] =
      (ChainStep){.kind = CHAIN_BITCAST, .type = {.dtype = DT_U16, .rank = 2, .dim = {8, 8}}};
  m->step[1] =
      (ChainStep){.kind = CHAIN_WINDOW, .type = {.dtype = DT_U16, .rank = 2, .dim = {size, 8}}};
  m->step[1].window = (Window){.size = {size, 8}, .stride = {stride, 1}};
  m->start[1][0] = ir_const_int(k, k->body, DT_I64, start, (Span){0});
  m->start[1][1] = ir_const_int(k, k->body, DT_I64, 0, (Span){0});
  m->count = 2;
  Layout *l = NEW(arena, Layout);
  bool fits = ir_layout(k, copy_of(k, m, ref), false, l);
  check(fits && l->places == ref->type.rank + 1 + more, name, "%d places", l->places);
  arena_free(arena);
}

int main(void) {
  for (int i = 0; i < CHAINS; i++) test_chain(i);
  test_split("words", 2, 4, 1, 0);
  test_split("one half", 3, 1, 1, 0);
  test_split("upper halves", 1, 4, 2, 0);
  test_split("every second upper half", 1, 2, 4, 0);
  test_split("from within a word", 1, 4, 1, 1);
  return check_end();
}
