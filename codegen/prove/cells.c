// Cells of the proof as numbers, and numbers named by the operation that made them.
#include "codegen/prove/cells.h"

Id named_id(const Proof *p, int64_t cell) { return number_is(p, cell) ? (Id)cell : ID_UNKNOWN; }

// Rules receive unknown numbers without their names, which no result may inherit.
Id id_of(const Proof *p, int64_t cell) {
  Id id = named_id(p, cell);
  return number_at(p, id)->kind == UNKNOWN ? ID_UNKNOWN : id;
}

// May the sign of a zero change the result by more than its own sign?
static bool heeds_zeros(Op op) {
  return op == OP_DIV || op == OP_RECIP || op == OP_RSQRT || op == OP_POW || op == OP_ATAN2;
}

Id or_named(Proof *p, Id result, Op op, const Id *operands, int count) {
  if (number_at(p, result)->kind != UNKNOWN) return result;
  for (int i = 0; i < count && heeds_zeros(op); i++)
    if (operands[i] == ID_ZERO) return result;
  return number_named(p, op, operands, count);
}

int64_t or_named_truth(Proof *p, int64_t result, Op op, const Id *operands, int count) {
  if (!cell_is_open(result) || number_at(p, open_id(result))->kind != UNKNOWN) return result;
  return open_cell(number_of_bits(p, op, operands, count));
}

bool any_open(const int64_t *cells, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (cell_is_open(cells[i])) return true;
  return false;
}

Id plain_integer(Proof *p, DType dtype, int64_t cell) {
  Id id = integer_id(p, cell);
  if (!number_at(p, id)->wrapped) return id;
  Id named[2] = {id, number_integer(p, dtype)};
  return open_id(integer_ranged(p, dtype, number_atom(p, OP_REM, named, 2, 0)));
}

Id integer_function(Proof *p, Op op, DType dtype, const int64_t *cells, int count) {
  Id named[3] = {number_integer(p, dtype)};
  integer_wanted(p, cells, count);
  if (proof_wanted(p)) return number_unknown(p);
  for (int i = 0; i < count; i++) named[1 + i] = integer_id(p, cells[i]);
  return number_of_bits(p, op, named, 1 + count);
}
