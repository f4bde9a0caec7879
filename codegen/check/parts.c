// Copies of views in the interpreter: parts of elements, of as many bits at both ends.
#include "codegen/check/internal.h"

#include <string.h>

typedef struct {
  int64_t element, bit;
} Part;

typedef LIST(Part) Parts;

typedef struct {
  Arena *arena;
  Parts *parts;
} Collecting;

static void collect_part(void *context, int64_t element, int64_t bit) {
  const Collecting *c = context;
  LIST_PUSH(c->arena, c->parts, ((Part){element, bit}));
}

static DType unsigned_of(DType t) {
  static const DType of[] = {[1] = DT_U8, [2] = DT_U16, [4] = DT_U32, [8] = DT_U64};
  return of[dtype_bytes(t)];
}

static uint64_t low_bits(int64_t bits) {
  return bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
}

static uint64_t bits_at(const Value *v, int64_t at) {
  Scalar value = is_float(v->dtype) ? (Scalar){.f = v->f[at]} : (Scalar){.i = v->i[at]};
  return (uint64_t)scalar_bitcast(unsigned_of(v->dtype), v->dtype, value).i &
         low_bits(dtype_info[v->dtype].bits);
}

static void set_bits_at(Value *v, int64_t at, uint64_t bits) {
  Scalar value = scalar_bitcast(v->dtype, unsigned_of(v->dtype), (Scalar){.i = (int64_t)bits});
  if (is_float(v->dtype))
    v->f[at] = value.f;
  else
    v->i[at] = value.i;
  if (v->uncertain) v->error[at] = 0;
}

static uint8_t source_poison(const Transfer *t, const Value *from, int64_t at) {
  if (at < 0) return POISON_OTHER;
  return from->poison[at] == POISON_UNSTORED ? ref_mark(t->from.ref) : from->poison[at];
}

// Elements of the target that get all of their parts are as specified as these; others are not
// more specified than before.
typedef struct {
  uint64_t got;
  uint8_t poison;
} Filled;

static void move_part(const Transfer *t, const Value *from, Value *to, const Part *a, const Part *b,
                      int64_t bits, Filled *filled) {
  uint8_t poison = source_poison(t, from, a->element);
  int all = dtype_info[to->dtype].bits;
  if (b->element < 0) return;
  if (a->element >= 0 && bits == all && from->dtype == to->dtype) {
    to->i[b->element] = from->i[a->element];  // floats too
    if (to->uncertain) to->error[b->element] = error_at(from, a->element);
  } else if (a->element >= 0) {
    uint64_t part = bits_at(from, a->element) >> a->bit & low_bits(bits),
             old = bits == all ? 0 : bits_at(to, b->element) & ~(low_bits(bits) << b->bit);
    set_bits_at(to, b->element, old | part << b->bit);
  }
  Filled *f = &filled[b->element];
  f->got |= low_bits(bits) << b->bit;
  if (poison) f->poison = poison;
  if (f->got == low_bits(all))
    to->poison[b->element] = f->poison;
  else if (poison)
    to->poison[b->element] = poison;
}

void move_parts(Interp *in, const Transfer *t, const Value *from, Value *to) {
  const Seen *source = t->from.seen, *target = t->to.seen;
  Arena *arena = arena_new();
  Parts a = {0}, b = {0};
  layout_walk(source->layout, source->sizes, source->start, collect_part, &(Collecting){arena, &a});
  layout_walk(target->layout, target->sizes, target->start, collect_part, &(Collecting){arena, &b});
  REQUIRE(a.count == b.count);
  Filled *filled = scratch_space(in, 3, to->count, sizeof *filled);
  if (filled) {
    memset(filled, 0, (size_t)to->count * sizeof *filled);
    int64_t bits = layout_part_bits(source->layout);
    for (int i = 0; i < a.count; i++) move_part(t, from, to, &a.at[i], &b.at[i], bits, filled);
  }
  arena_free(arena);
}
