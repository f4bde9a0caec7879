// Rows in order: sorts, the places of elements, and elements at such places. Infinities and masks
// are ordered; between data, an order is an atom.
#include "codegen/prove/internal.h"

#include <math.h>

// Infinities and multiples of the infinite M are compared first.
static int compare_ranks(const Number *a, const Number *b) {
  double of[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    const Number *n = i ? b : a;
    of[i] = n->kind == PLUS_INFINITY    ? (double)INFINITY
            : n->kind == MINUS_INFINITY ? -(double)INFINITY
                                        : n->mask;
  }
  return (of[0] > of[1]) - (of[0] < of[1]);
}

// Those that an ascending sort puts around `place`, which becomes their place among themselves.
static Members ranked(Proof *p, const Id *elements, int64_t count, int64_t *place) {
  Members m = {NEW_ARRAY(p->run, int64_t, count + 1), 0};
  for (const Number *last = NULL;;) {
    const Number *least = NULL;
    for (int64_t i = 0; i < count; i++) {
      const Number *n = at(p, elements[i]);
      if (last && compare_ranks(n, last) <= 0) continue;
      int order = least ? compare_ranks(n, least) : -1;
      if (order < 0) m.count = 0, least = n;
      if (order <= 0) m.at[m.count++] = i;
    }
    if (!least || *place < m.count) return m;
    *place -= m.count;
    last = least;
  }
}

static bool has_order(const Proof *p, const Id *elements, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (at(p, elements[i])->kind == UNKNOWN || at(p, elements[i])->kind == NOT_A_NUMBER)
      return false;
  return true;
}

// Equal elements keep their order.
static bool is_settled(const Id *elements, const Members *m) {
  for (int64_t i = 1; i < m->count; i++)
    if (elements[m->at[i]] != elements[m->at[0]]) return false;
  return true;
}

// ---- places

Members number_members(Proof *p, Id index, int64_t count) {
  Members m = side_known(p, index)->members;
  if (m.count) return m;
  m = (Members){NEW_ARRAY(p->run, int64_t, count + 1), count};
  for (int64_t i = 0; i < count; i++) m.at[i] = i;
  return m;
}

static int64_t cell_of_place(Proof *p, DType dtype, const Members *m, Id id) {
  int64_t cell = integer_between(p, dtype, id, (double)m->at[0], (double)m->at[m->count - 1]);
  if (at(p, open_id(cell))->kind == FINITE) side_of(p, open_id(cell))->members = *m;
  return cell;
}

// An atom of the elements of one rank and of their places in the row.
static Id number_of_order(Proof *p, Op what, const Id *elements, const Members *m) {
  Id *named = NEW_ARRAY(p->run, Id, 2 * m->count + 1);
  for (int64_t i = 0; i < m->count; i++) {
    named[2 * i] = elements[m->at[i]];
    named[2 * i + 1] = number_integer(p, m->at[i]);
  }
  return number_atom(p, what, named, (int)(2 * m->count), 0);
}

// A place in a row with a NaN, or with a number that may be one: of the row as it is.
static int64_t place_in_any(Proof *p, DType dtype, Id row, bool negated, int64_t place,
                            int64_t count) {
  Id named[3] = {row, negated ? ID_ONE : ID_ZERO, number_integer(p, place)};
  return integer_between(p, dtype, number_of_bits(p, OP_ARGSORT, named, 3), 0, (double)(count - 1));
}

int64_t number_least_place(Proof *p, DType dtype, const Id *elements, int64_t count, bool negated) {
  int64_t place = 0;
  if (!has_order(p, elements, count))
    return place_in_any(p, dtype, number_atom(p, OP_ARGMIN, elements, (int)count, 0), negated, 0,
                        count);
  Members m = ranked(p, elements, count, &place);
  if (is_settled(elements, &m)) return m.at[0];
  return cell_of_place(p, dtype, &m, number_of_order(p, OP_ARGMIN, elements, &m));
}

void number_places(Proof *p, DType dtype, const Id *elements, int64_t count, bool negated,
                   int64_t *cells) {
  if (!has_order(p, elements, count)) {
    Id row = number_atom(p, OP_ARGSORT, elements, (int)count, 0);
    for (int64_t l = 0; l < count; l++) cells[l] = place_in_any(p, dtype, row, negated, l, count);
    return;
  }
  for (int64_t first = 0, end; first < count; first = end) {
    int64_t place = first;
    Members m = ranked(p, elements, count, &place);
    end = first + m.count;
    bool settled = is_settled(elements, &m);
    Id whole = settled ? ID_UNKNOWN : number_of_order(p, OP_ARGSORT, elements, &m);
    for (int64_t l = first; l < end; l++) {
      if (settled) {
        cells[l] = m.at[l - first];
        continue;
      }
      Id named[2] = {whole, number_integer(p, l - first)};
      Id id = l == first ? number_of_order(p, OP_ARGMIN, elements, &m)
                         : number_atom(p, OP_ARGSORT, named, 2, 0);
      cells[l] = cell_of_place(p, dtype, &m, id);
    }
  }
}

// ---- elements

static Id atom_of_members(Proof *p, const Id *elements, const Members *m) {
  Id *finite = NEW_ARRAY(p->run, Id, m->count + 1);
  for (int64_t i = 0; i < m->count; i++) finite[i] = number_scale_mask(p, elements[m->at[i]], 0);
  return number_atom_of_all(p, OP_SORT, finite, m->count);
}

static void sort_any(Proof *p, const Id *elements, int64_t count, bool descending, Id *out) {
  Id row = number_atom(p, OP_SORT, elements, (int)count, 0), way = descending ? ID_ONE : ID_ZERO;
  for (int64_t l = 0; l < count; l++)
    out[l] = number_named(p, OP_SORT, (Id[]){row, way, number_integer(p, l)}, 3);
}

void number_sort(Proof *p, const Id *elements, int64_t count, bool descending, Id *out) {
  int scale = number_scale(p, elements, count);
  if (!has_order(p, elements, count)) return sort_any(p, elements, count, descending, out);
  for (int64_t first = 0, place = 0; first < count; place = first) {
    Members m = ranked(p, elements, count, &place);
    const Number *least = at(p, elements[m.at[0]]);
    bool settled = is_settled(elements, &m);
    Id all = settled ? ID_UNKNOWN : atom_of_members(p, elements, &m);
    for (int64_t l = 0; l < m.count; l++) {
      Id named[2] = {all, number_integer(p, l)};
      Id id = settled ? elements[m.at[l]]
                      : number_with_scale(p, number_atom(p, OP_SORT, named, 2, 0), scale);
      out[descending ? count - 1 - first - l : first + l] =
          settled || least->mask == 0 ? id : number_add(p, id, number_mask(p, least->mask));
    }
    first += m.count;
  }
}

Id number_taken(Proof *p, const Id *elements, int64_t count, Id index) {
  Id *named = NEW_ARRAY(p->run, Id, count + 2);
  double low = INFINITY, high = -INFINITY;
  uint8_t signs = 0;
  bool finite = true;
  for (int64_t i = 0; i < count; i++) {
    const Number *n = at(p, elements[i]);
    if (n->kind == UNKNOWN && !n->v[0]) return number_unknown(p);
    finite &= n->kind == FINITE && n->mask == 0;
    low = fmin(low, n->low), high = fmax(high, n->high);
    signs |= signs_of(n);
    named[i] = elements[i];
  }
  named[count] = index;
  if (!finite) return number_named(p, OP_TAKE, named, (int)count + 1);
  Number n = *at(p, number_atom(p, OP_TAKE, named, (int)count + 1, 0));
  if (n.kind != FINITE) return number_unknown(p);
  n.low = low, n.high = high, n.signs = signs;
  n.scale = (int8_t)number_scale(p, elements, count);
  return number_add_new(p, &n);
}
