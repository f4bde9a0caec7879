// Operations along one axis that compare elements or select them by an index: positions of
// extremes, sorting, and elements at unknown indices.
#include "codegen/ir/scalar.h"
#include "codegen/prove/cells.h"

// Is element x less than y? Numbers are compared by their shadows.
static bool is_less(const Proof *p, const Value *a, int64_t x, int64_t y) {
  if (!is_float(a->dtype)) return int_compare(OP_LT, a->dtype, a->i[x], a->i[y]);
  const Number *left = number_at(p, id_of(p, a->i[x])), *right = number_at(p, id_of(p, a->i[y]));
  return left->below && right->below ? compare_rationals(left, right) < 0
                                     : left->shadow < right->shadow;
}

static bool is_known_lane(Proof *p, const Value *a, const Lane *lane) {
  bool known = true;
  for (int64_t l = 0; l < lane->count; l++) {
    int64_t cell = a->i[lane->base + l * lane->stride];
    if (is_float(a->dtype)) {
      const Number *n = number_at(p, id_of(p, cell));
      known &= n->kind != UNKNOWN && n->kind != NOT_A_NUMBER &&
               (proof_mode(p) == BY_ORDER || n->kind != FINITE || n->below);
    } else if (cell_is_open(cell)) {
      integer_wanted(p, &cell, 1);
      known = false;
    }
  }
  return known;
}

// The numbers of a lane, or their negatives.
static Id *lane_numbers(Proof *p, const Value *a, const Lane *lane, bool negative) {
  Id *numbers = NEW_ARRAY(proof_run_arena(p), Id, lane->count + 1);
  for (int64_t l = 0; l < lane->count; l++) {
    int64_t cell = a->i[lane->base + l * lane->stride];
    Id id = is_float(a->dtype) ? named_id(p, cell) : plain_integer(p, a->dtype, cell);
    numbers[l] = !negative                ? id
                 : number_is_named(p, id) ? number_named(p, OP_NEG, &id, 1)
                                          : number_neg(p, id);
  }
  return numbers;
}

// argmax(x) is argmin(-x), and a descending argsort of x an ascending one of -x: equal elements
// keep their order in both.
static int64_t best_by_atoms(Proof *p, const Instr *instr, const Value *a, const Lane *lane) {
  if (proof_mode(p) == BY_ORDER) return open_cell(number_unknown(p));
  Id *numbers = lane_numbers(p, a, lane, instr->op == OP_ARGMAX);
  return number_least_place(p, instr->type.dtype, numbers, lane->count, instr->op == OP_ARGMAX);
}

static void places_by_atoms(Proof *p, const Instr *instr, Value *out, const Value *a,
                            const Lane *lane) {
  Id *numbers = lane_numbers(p, a, lane, instr->flags & INSTR_REVERSE);
  int64_t *cells = NEW_ARRAY(proof_run_arena(p), int64_t, lane->count + 1);
  number_places(p, out->dtype, numbers, lane->count, instr->flags & INSTR_REVERSE, cells);
  for (int64_t l = 0; l < lane->count; l++) out->i[lane->base + l * lane->stride] = cells[l];
}

int64_t best_of_lane(void *context, const Instr *instr, const Value *a, const Lane *lane) {
  Proof *p = context;
  int64_t best = 0;
  if (!is_known_lane(p, a, lane)) return best_by_atoms(p, instr, a, lane);
  for (int64_t l = 1; l < lane->count; l++) {
    int64_t x = lane->base + l * lane->stride, y = lane->base + best * lane->stride;
    if (instr->op == OP_ARGMAX ? is_less(p, a, y, x) : is_less(p, a, x, y)) best = l;
  }
  return best;
}

static bool ascends(const void *context, const Value *a, int64_t x, int64_t y) {
  return is_less(context, a, x, y);
}

static bool descends(const void *context, const Value *a, int64_t x, int64_t y) {
  return is_less(context, a, y, x);
}

static void sort_by_atoms(Proof *p, Value *out, const Value *a, const Lane *lane, bool descending) {
  Id *sorted = NEW_ARRAY(proof_run_arena(p), Id, lane->count + 1);
  number_sort(p, lane_numbers(p, a, lane, false), lane->count, descending, sorted);
  for (int64_t l = 0; l < lane->count; l++) out->i[lane->base + l * lane->stride] = sorted[l];
}

void sort_lane(void *context, const Instr *instr, Value *out, const Value *a, const Lane *lane,
               int64_t *order) {
  Proof *p = context;
  bool descending = instr->flags & INSTR_REVERSE, values = instr->op == OP_SORT;
  if (is_known_lane(p, a, lane)) {
    sort_stably(descending ? descends : ascends, p, a, order, lane->count);
    for (int64_t l = 0; l < lane->count; l++)
      out->i[lane->base + l * lane->stride] =
          values ? a->i[order[l]] : (order[l] - lane->base) / lane->stride;
    return;
  }
  if (values && is_float(a->dtype)) return sort_by_atoms(p, out, a, lane, descending);
  if (!values && proof_mode(p) != BY_ORDER) return places_by_atoms(p, instr, out, a, lane);
  for (int64_t l = 0; l < lane->count; l++)
    out->i[lane->base + l * lane->stride] = open_cell(number_unknown(p));
}

// An element at a data-dependent index is a function of the elements that it may be, and of the
// index.
static int64_t taken(Proof *p, const Instr *instr, const Value *a, const Lane *lane, Id index) {
  DType t = a->dtype;
  Members m = number_members(p, index, lane->count);
  Id *numbers = lane_numbers(p, a, lane, false);
  bool same = true, counts = !is_float(t) && t == instr->args[1]->type.dtype;
  for (int64_t i = 0; i < m.count; i++) {
    int64_t cell = a->i[lane->base + m.at[i] * lane->stride];
    same &= cell == a->i[lane->base + m.at[0] * lane->stride];
    counts &= cell == m.at[i];
    numbers[i] = numbers[m.at[i]];
  }
  if (same) return a->i[lane->base + m.at[0] * lane->stride];
  if (counts) return open_cell(index);
  Id id = number_taken(p, numbers, m.count, index);
  return is_float(t) ? id : t == DT_BOOL ? open_cell(id) : integer_cell(p, t, id);
}

int64_t element_of_lane(void *context, const Instr *instr, const Value *a, const Lane *lane,
                        int64_t index) {
  Proof *p = context;
  integer_wanted(p, &index, 1);
  if (proof_is_over(p)) return is_float(a->dtype) ? ID_UNKNOWN : open_cell(ID_UNKNOWN);
  if (proof_mode(p) != BY_ORDER &&
      number_is_within(p, open_id(index), 0, (double)(lane->count - 1)))
    return taken(p, instr, a, lane, open_id(index));
  Id unknown = number_unknown(p);
  return is_float(a->dtype) ? unknown : open_cell(unknown);
}
