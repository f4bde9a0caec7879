// Values that depend on four bits alone, as tables.
//
// If a vector has 16 lanes, one instruction selects for each lane an element of a register by the
// low four bits of an index. So a weight of 4 bits is widened in one operation, however the kernel
// writes it: a cast, a mask, a subtraction.
#include "codegen/ir/array.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/scalar.h"
#include "codegen/loops/loops.h"

#include <string.h>

enum { DEEPEST = 8, LOW_BITS = TABLE_SIZE - 1 };

// The position at which a value is computed: a group, and the indices of its loops.
typedef struct {
  Gen *g;
  const Group *group;
  const Expr *const *index;
} Where;

// ---- operands that are constant at a position

static Interval range_of(const Where *at, const Instr *v, int depth) {
  const int last = v->type.rank - 1;
  Interval args[3];
  int64_t place;
  if (v->op == OP_CONST) return interval_of_value(v, NULL, NULL);
  if (depth == 0 || last < 0 || v->nargs > 3) return interval_of(v->type.dtype);
  if (v->op == OP_IOTA && v->ival < last && expr_is_const(at->index[v->ival], &place))
    return interval_point(wrap_int(v->type.dtype, place));
  if (v->op == OP_BROADCAST || ((ir_keeps_lanes(v) || reads_pieces(v)) && is_transparent(v))) {
    const Expr *from[MAX_RANK];
    AxisMap map;
    REQUIRE(ir_axis_map(v, &map));
    operand_index(at->g, v, &map, at->index, from);
    return range_of(&(Where){at->g, at->group, from}, v->args[0], depth - 1);
  }
  if (!is_computed_in(at->group, v)) return interval_of(v->type.dtype);
  for (int i = 0; i < v->nargs; i++) args[i] = range_of(at, v->args[i], depth - 1);
  return interval_of_value(v, NULL, args);
}

static bool constant_at(const Where *at, const Instr *v, Scalar *value) {
  if (is_integer(v->type.dtype)) {
    const Interval range = range_of(at, v, DEEPEST);
    value->i = range.low;
    return interval_is_point(range);
  }
  const Instr *c = ir_filling(v);
  if (!c || c->type.dtype != DT_F32) return false;
  value->f = dtype_round(DT_F32, c->fval);
  return true;
}

bool known_integer(Gen *g, const Group *group, const Instr *v, const Expr *const *index,
                   int64_t *value) {
  Scalar found;
  const DType t = v->type.dtype;
  const bool known = v->type.rank > 0 && is_integer(t) && !is_wide(t) &&
                     constant_at(&(Where){g, group, index}, v, &found);
  if (known) *value = found.i;
  return known && found.i >= 0 && found.i <= INT32_MAX;
}

// The only varying operand of an operation, if a table can represent the result; otherwise NULL.
static const Instr *varying(const Where *at, const Instr *v) {
  const DType from = v->args[0]->type.dtype;
  const bool rounds = v->op == OP_ADD || v->op == OP_SUB || v->op == OP_MUL || v->op == OP_NEG,
             holds = is_integer(from) || (from == DT_F32 && rounds);
  const Instr *found = NULL;
  Scalar value;
  if (!holds || is_wide(from) || op_info[v->op].class == OPC_SELECT) return NULL;
  if (v->type.dtype != DT_F32 && (!is_integer(v->type.dtype) || is_wide(v->type.dtype)))
    return NULL;
  for (int i = 0; i < v->nargs; i++) {
    if (v->args[i] == found || constant_at(at, v->args[i], &value)) continue;
    if (found) return NULL;
    found = v->args[i];
  }
  return found;
}

static bool is_four_bits(const Where *at, const Instr *v, bool *is_signed) {
  if (!is_integer(v->type.dtype) || is_wide(v->type.dtype)) return false;
  const Interval range = range_of(at, v, DEEPEST);
  *is_signed = range.low < 0;
  return (range.low >= 0 && range.high < TABLE_SIZE) ||
         (range.low >= -TABLE_SIZE / 2 && range.high < TABLE_SIZE / 2);
}

// ---- the table

static Scalar value_for(const Where *at, const Instr *v, const Instr *root, Scalar given) {
  Scalar args[3], value;
  if (v == root) return given;
  if (constant_at(at, v, &value)) return value;
  for (int i = 0; i < v->nargs; i++) args[i] = value_for(at, v->args[i], root, given);
  value = scalar_apply(v->op, v->type.dtype, v->args[0]->type.dtype, args);
  if (is_float(v->type.dtype)) value.f = dtype_round(v->type.dtype, value.f);
  return value;
}

// The value before operations that keep the low four bits.
static const Instr *low_bits_of(const Where *at, const Instr *v, int *operations) {
  while (v->op == OP_AND && is_computed_in(at->group, v)) {
    const Instr *of = varying(at, v);
    Scalar mask;
    if (!of || !constant_at(at, v->args[v->args[0] == of], &mask)) break;
    if ((mask.i & LOW_BITS) != LOW_BITS) break;
    v = of, ++*operations;
  }
  return v;
}

bool table_of(Gen *g, const Group *group, const Instr *v, const Expr *const *index, Table *t) {
  const Where at = {g, group, index};
  const Instr *root = NULL;
  int operations = 0;
  bool is_signed = false, below = false;
  if (g->lanes != TABLE_SIZE || v->type.dtype != DT_F32 || v->type.rank == 0) return false;
  if (v->type.dim[v->type.rank - 1] == 1 || !op_is_elementwise(v->op)) return false;
  const Instr *w = v;
  for (int n = 0; n < DEEPEST && (w == v || is_computed_in(group, w)); n++) {
    w = varying(&at, w);
    if (!w) break;
    if (is_four_bits(&at, w, &below)) root = w, operations = n + 1, is_signed = below;
  }
  if (!root) return false;
  t->index = low_bits_of(&at, root, &operations);
  t->in_byte = t->index->op == OP_LOAD && dtype_info[t->index->type.dtype].bits == 4;
  if (operations < 2 && !t->in_byte) return false;
  for (int i = 0; i < TABLE_SIZE; i++) {
    const int64_t value = is_signed && i >= TABLE_SIZE / 2 ? i - TABLE_SIZE : i;
    t->value[i] = value_for(&at, v, root, (Scalar){.i = value}).f;
  }
  return true;
}

// ---- members that nothing reads once tables are used

// Does the index of a table read v, directly or through views?
static bool is_index(const Step *step, const Instr *index, const Instr *v) {
  while (index != v && !has_member(step, index) && is_transparent(index) && index->nargs)
    index = index->args[0];
  return index == v;
}

static bool is_needed(const Step *step, const Instr *v, const bool *spared, const Table *tables,
                      const Instr *through) {
  for (int i = 0; i < val(through)->users.count; i++) {
    const Instr *user = val(through)->users.at[i];
    const int m = member_at(step, user);
    if (m >= 0) {
      if (!spared[m] && (!tables[m].index || is_index(step, tables[m].index, v))) return true;
    } else if (!is_transparent(user) || is_needed(step, v, spared, tables, user)) {
      return true;
    }
  }
  return false;
}

bool *spared_members(Gen *g, const Group *group, const Step *step, const Expr *const *index) {
  const int n = step->members.count;
  bool *spared = NEW_ARRAY(g->arena, bool, n), any = false;
  Table *tables = NEW_ARRAY(g->arena, Table, n);
  for (int m = 0; m < n; m++) {
    if (!table_of(g, group, step->members.at[m], index, &tables[m])) tables[m].index = NULL;
    any |= tables[m].index != NULL;
  }
  for (int m = n; any && m-- > 0;) {
    const Instr *v = step->members.at[m];
    spared[m] = op_is_elementwise(v->op) && !val(v)->buffer && val(v)->users.count &&
                !is_needed(step, v, spared, tables, v);
  }
  return spared;
}
