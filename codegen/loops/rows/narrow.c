// Results of narrow dtypes. A store to elements of that dtype rounds or wraps them itself, and so
// does a bitcast of a float. So a vector that is only stored, and not read from its register, need
// not be narrowed first. Neither need an operand of a sum or product of integers that is not.
#include "codegen/loops/loops.h"

// Whether the low bits of a result depend on the low bits of the operands alone.
static bool keeps_low_bits(const Instr *v) {
  const bool adds = v->op == OP_ADD || v->op == OP_SUB || v->op == OP_MUL || v->op == OP_NEG;
  return adds && is_integer(v->type.dtype) && val(v)->narrowed_by_stores;
}

static bool is_float_of_16_bits(const Instr *v) {
  return v->op == OP_BITCAST && is_float(v->type.dtype) && dtype_info[v->type.dtype].bits == 16;
}

static bool is_stored_by(const Instr *v, const Instr *user) {
  if (val(user)->group != val(v)->group) return false;
  if (keeps_low_bits(user) || is_float_of_16_bits(user)) return true;
  if (user->op == OP_BITCAST) return is_narrow_float(v->type.dtype);
  return user->op == OP_STORE && ir_store_value(user) == v &&
         ir_access_dtype(user) == v->type.dtype;
}

// Is v read from memory by its users, and by those of the views of it?
static bool is_read_in_memory(const Instr *v, const Instr *reader) {
  for (int i = 0; i < val(reader)->users.count; i++) {
    const Instr *user = val(reader)->users.at[i];
    if (reader == v && is_stored_by(v, user)) continue;
    if (is_transparent(user) ? !is_read_in_memory(v, user)
                             : user->op != OP_DOT && val(user)->group == val(v)->group)
      return false;
  }
  return true;
}

static bool is_only_stored(const Instr *v) {
  if (val(v)->buffer)
    return val(v)->buffer->element == v->type.dtype && !val(v)->recompute &&
           is_read_in_memory(v, v);
  for (int i = 0; i < val(v)->users.count; i++)
    if (!is_stored_by(v, val(v)->users.at[i])) return false;
  return true;
}

// Does a lane hold more than an element of v in memory? Stores have no dtype to look at.
static bool is_wider_in_lanes(const Instr *v) {
  if (!op_is_elementwise(v->op) || v->type.rank == 0) return false;
  DType t = v->type.dtype;
  return is_narrow_float(t) || (is_narrow_integer(t) && !is_part_of_byte(t));
}

static void leave_to_stores(Gen *g, Group *group) {
  (void)g;
  if (group->kind != GROUP_ROWS) return;
  for (int s = group->steps.count - 1; s >= 0; s--)  // users first
    for (int m = group->steps.at[s].members.count - 1; m >= 0; m--) {
      const Instr *v = group->steps.at[s].members.at[m];
      val(v)->narrowed_by_stores = is_wider_in_lanes(v) && !is_row_scalar(v) && is_only_stored(v);
    }
}

void leave_narrowing(Gen *g) { visit_groups(g, g->body, leave_to_stores); }
