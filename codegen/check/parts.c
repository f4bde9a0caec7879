// Copies of views in the interpreter: parts of elements, with the same number of bits at both ends.
#include "codegen/check/internal.h"

#include <string.h>

typedef LIST(Part) Parts;

typedef struct {
  Arena *arena;
  Parts *parts;
} Collecting;

static void collect_part(void *context, int64_t element, int64_t bit) {
  const Collecting *c = context;
  LIST_PUSH(c->arena, c->parts, ((Part){element, bit}));
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

// The new value of an element of the target. All its bits are set together, because some of them
// alone might form a NaN, whose other bits would not be preserved.
typedef struct {
  uint64_t got, bits, missing;
  uint8_t poison;
  LIST(CellPart) parts;  // for an arithmetic whose cells are not the numbers
} Filled;

typedef struct {
  Interp *in;
  Arena *arena;
  const Transfer *t;
  const Value *from;
  Value *to;
  int64_t bits;  // of each part
} Moving;

// Adds one part of a source element to a target element: its bits, or its cell for symbolic
// arithmetic, and which of the bits are not specified.
static void gather_part(const Moving *m, const Part *a, const Part *b, Filled *f) {
  const Value *from = m->from;
  int64_t bits = m->bits;
  uint64_t part = 0, missing = low_bits(bits);
  uint8_t poison = POISON_OTHER;
  if (a->element >= 0) {
    missing &= missing_at(from, a->element) >> a->bit;
    poison = poison_at(from, a->element);
    if (poison == POISON_UNSTORED) poison = ref_mark(m->t->from.ref);
    if (!m->in->arithmetic->join)
      part = bits_at(from, a->element) >> a->bit & low_bits(bits);
    else if (!missing)
      LIST_PUSH(
          m->arena, &f->parts,
          ((CellPart){from->i[a->element], from->dtype, (int)a->bit, (int)b->bit, (int)bits}));
  }
  f->got |= low_bits(bits) << b->bit;
  f->bits |= part << b->bit;
  f->missing |= missing << b->bit;
  if (missing) f->poison = poison;
}

// The bits that the element keeps are a part of it too.
static void join_element(const Moving *m, int64_t at, Filled *f, uint64_t kept) {
  int width = dtype_info[m->to->dtype].bits;
  for (int bit = 0, end; bit < width; bit = end + 1) {
    for (end = bit; end < width && kept >> end & 1;) end++;
    if (end > bit)
      LIST_PUSH(m->arena, &f->parts, ((CellPart){m->to->i[at], m->to->dtype, bit, bit, end - bit}));
  }
  m->to->i[at] =
      m->in->arithmetic->join(arithmetic_context(m->in), m->to->dtype, f->parts.at, f->parts.count);
}

static void set_element(const Moving *m, int64_t at, Filled *f) {
  Interp *in = m->in;
  Value *to = m->to;
  uint64_t all = low_bits(dtype_info[to->dtype].bits),
           missing = (missing_at(to, at) & ~f->got) | f->missing;
  uint8_t poison = f->missing ? f->poison : missing ? to->poison[at] : 0;
  if (missing == all) return fill_unspecified(to, at, 1, poison);
  if (missing && !value_partial(in, to)) return;
  if (in->arithmetic->join)
    join_element(m, at, f, all & ~f->got & ~missing);
  else
    set_bits_at(to, at, ((f->got == all ? 0 : bits_at(to, at) & ~f->got) | f->bits) & ~missing);
  to->poison[at] = poison;
  if (missing) to->missing[at] = missing;
}

// Parts that are whole elements of the same dtype are copied as cells, without interpretation.
static void move_cell(const Transfer *t, const Value *from, Value *to, int64_t a, int64_t b) {
  to->i[b] = from->i[a];  // floats too
  to->poison[b] = poison_at(from, a);
  if (to->poison[b] == POISON_UNSTORED) to->poison[b] = ref_mark(t->from.ref);
  if (to->partial) to->missing[b] = missing_at(from, a);
  if (to->uncertain) to->error[b] = error_at(from, a);
}

// Copies the parts of a copy of views.
void move_parts(Interp *in, const Transfer *t, const Value *from, Value *to) {
  const Seen *source = t->from.seen, *target = t->to.seen;
  int64_t bits = layout_part_bits(source->layout);
  bool cells = from->dtype == to->dtype && bits == dtype_info[to->dtype].bits;
  Arena *arena = arena_new();
  Parts a = {0}, b = {0};
  walk_seen(source, collect_part, &(Collecting){arena, &a});
  walk_seen(target, collect_part, &(Collecting){arena, &b});
  REQUIRE(a.count == b.count);
  const Moving moving = {in, arena, t, from, to, bits};
  Filled *filled = scratch_space(in, 3, to->count, sizeof *filled);
  if (filled && (!cells || !from->partial || value_partial(in, to))) {
    memset(filled, 0, (size_t)to->count * sizeof *filled);
    for (int i = 0; i < a.count; i++)
      if (b.at[i].element >= 0 && cells && a.at[i].element >= 0)
        move_cell(t, from, to, a.at[i].element, b.at[i].element);
      else if (b.at[i].element >= 0)
        gather_part(&moving, &a.at[i], &b.at[i], &filled[b.at[i].element]);
    for (int64_t e = 0; e < to->count; e++)
      if (filled[e].got) set_element(&moving, e, &filled[e]);
  }
  arena_free(arena);
}
