// Classifies instructions for the loops: evaluated where used, vector, row scalar, fusable.
#include "codegen/ir/array.h"
#include "codegen/ir/axes.h"
#include "codegen/loops/loops.h"

bool moves_elements(const Instr *v) {
  return v->op == OP_RESHAPE || ir_keeps_lanes(v) || is_gather(v);
}

// A window whose last axis is contiguous in the ref, or a single column.
static bool load_is_vector(const Instr *v) {
  int rank = v->ref->type.rank;
  if (v->op == OP_LOAD && v->nargs > rank) return false;
  if (rank == 0) return true;
  const Type *t = v->op == OP_LOAD ? &v->type : &v->args[rank]->type;
  if (t->rank && t->dim[t->rank - 1] == 1) return true;
  return !v->window.squeeze[rank - 1] && v->window.stride[rank - 1] == 1;
}

// A window with strided lanes, which vectors gather and scatter.
int64_t lane_step(const Instr *v) {
  int last = v->ref->type.rank - 1;
  bool masked = v->op == OP_LOAD ? v->nargs > last + 1 : ir_mask(v) != NULL;
  return last >= 0 && ir_has_lanes_apart(v->ref->type.dtype) && !masked && !ir_may_leave(v) &&
                 !v->window.squeeze[last] && v->window.stride[last] <= 1 << 16
             ? v->window.stride[last]
             : 1;
}

static bool is_by_vectors(const Instr *v) { return load_is_vector(v) || lane_step(v) > 1; }

// ---- elements selected by an index are read from the table, a row or a vector at a time

// The table without the broadcasts that repeat it. *axis is the axis that is indexed, *last the
// axis of the table that v's last axis becomes.
static const Instr *gathered_table(const Instr *v, int *axis, int *last) {
  const Instr *table = v->args[0];
  *axis = (int)v->ival;
  *last = v->type.rank - 1;
  while (table->op == OP_BROADCAST && !val(table)->snapshot) {
    int a = ir_operand_axis(table, *axis), b = ir_operand_axis(table, *last);
    if (a < 0 || b < 0) break;
    *axis = a;
    *last = b;
    table = table->args[0];
  }
  return table;
}

const Instr *gathered_from(const Instr *v) {
  int axis, last;
  if (v->op == OP_GATHER) return v->args[0];
  return gathered_table(v, &axis, &last);
}

// The axis of the result along which a gather has one index for each element; -1: there is none.
static int picking_axis(const Instr *v) {
  int axes[MAX_RANK];
  const bool gathers = v->op == OP_TAKE || v->op == OP_TAKE_ALONG || v->op == OP_GATHER;
  if (!gathers || v->type.rank == 0) return -1;
  ir_indexed_axes(v, axes);
  return axes[0];
}

bool gathers_lanes(const Instr *v) {
  const int axis = picking_axis(v);
  if (axis < 0 || (v->op != OP_TAKE_ALONG && axis != v->type.rank - 1)) return false;
  bool lanes = true;
  for (int i = 1; i < v->nargs; i++) {
    const DType t = v->args[i]->type.dtype;
    lanes = lanes && (t == DT_I32 || dtype_info[t].bits < 32);
  }
  return lanes || is_row_scalar(v);
}

// If a gather selects rows, the columns are the table's.
static bool gathers_rows(const Instr *v) {
  const int axis = picking_axis(v), last = v->type.rank - 1;
  if (axis < 0 || v->op == OP_TAKE_ALONG || axis >= last) return false;
  if (ir_gathered_axis(v, v->args[0]->type.rank - 1) != last) return false;
  const Instr *table = gathered_from(v);
  return table->op != OP_LOAD || load_is_vector(table);
}

bool is_gather(const Instr *v) { return gathers_lanes(v) || gathers_rows(v); }

// A window whose elements are selected one by one need not be in a layout that vectors can read.
static bool only_gathered(const Instr *v, const Instr *table) {
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    bool repeats = user->op == OP_BROADCAST && only_gathered(user, table);
    bool gathers = gathers_lanes(user) && gathered_from(user) == table;
    for (int a = 1; a < user->nargs; a++) gathers = gathers && user->args[a] != v;
    if (!repeats && !gathers) return false;
  }
  return val(v)->users.count > 0;
}

bool splits_axes(const Instr *v) {
  AxisMap map;
  unsigned seen = 0;
  if (v->op != OP_RESHAPE || !ir_axis_map(v, &map)) return false;
  for (int i = 0; i < map.count; i++) {
    const AxisPiece *p = &map.piece[i];
    if (p->to_step != 1 || seen >> p->to & 1) return false;
    seen |= 1u << p->to;
  }
  return true;
}

static bool is_gathered_in_place(const Instr *v) {
  return v->nargs == v->ref->type.rank && only_gathered(v, v);
}

bool only_compared_with_index(const Instr *v) {
  if (v->op != OP_CAST || v->type.dtype != DT_I64 || v->args[0]->type.dtype != DT_I32) return false;
  for (int i = 0; i < val(v)->users.count; i++)
    if (!compares_with_index(val(v)->users.at[i])) return false;
  return true;
}

static bool reduces_leading_axes(const Instr *v) {
  return op_info[v->op].class == OPC_REDUCE && !((v->ival >> (v->args[0]->type.rank - 1)) & 1);
}

// A lane of f32, or of 32 bits, holds an element of a narrow dtype as it is loaded: such a cast of
// what is in memory costs nothing in reductions, which take vectors of rows.
bool widens_for_reductions(const Instr *v) {
  const Instr *load = v->nargs ? v->args[0] : NULL;
  if (v->op != OP_CAST || v->type.rank < 2 || load->op != OP_LOAD || !load_is_vector(load) ||
      ir_may_leave(load))
    return false;
  const DType from = load->type.dtype, to = v->type.dtype;
  const bool widens = is_narrow_float(from)
                          ? to == DT_F32
                          : is_narrow_integer(from) && (to == DT_I32 || to == DT_U32);
  if (!widens || dtype_info[from].bits < 8) return false;
  for (int i = 0; i < val(v)->users.count; i++)
    if (!reduces_leading_axes(val(v)->users.at[i])) return false;
  return val(v)->users.count > 0;
}

// Rows that are assembled from rows (ir_keeps_pieces), for operations at the same index: their
// loops take whole vectors from the first column on.
bool reads_pieces(const Instr *v) {
  if (v->op != OP_RESHAPE || ir_keeps_lanes(v) || !ir_keeps_pieces(v)) return false;
  for (int i = 0; i < val(v)->users.count; i++)
    if (!op_is_elementwise(val(v)->users.at[i]->op)) return false;
  return true;
}

// Evaluated where it is used: costs nothing by itself.
bool is_transparent(const Instr *v) {
  if (val(v)->snapshot) return false;
  switch (v->op) {
    case OP_CONST:
    case OP_IOTA:
    case OP_BROADCAST:
      return true;
    case OP_LOAD:
      return v->type.rank > 0 && !ir_may_leave(v) && (load_is_vector(v) || is_gathered_in_place(v));
    case OP_RESHAPE:
    case OP_SLICE:
    case OP_TRANSPOSE:
      return v->type.rank > 0 && (ir_moves_unit_axes(v) || ir_keeps_lanes(v) || reads_pieces(v));
    case OP_CAST:
      return v->type.rank > 0 && (only_compared_with_index(v) || widens_for_reductions(v));
    default:
      return false;
  }
}

bool is_computed_in(const Group *group, const Instr *v) {
  return val(v)->group == group && !val(v)->buffer && op_is_elementwise(v->op);
}

bool is_row_scalar(const Instr *v) {
  const Type *t = v->op == OP_STORE ? &ir_store_value(v)->type : &v->type;
  return t->rank > 0 && t->dim[t->rank - 1] == 1;
}

static bool reduces_last_axis(const Instr *v) {
  if (op_info[v->op].class != OPC_REDUCE) return false;
  const Instr *x = v->args[0];
  if (x->type.rank == 0 || v->ival != (INT64_C(1) << (x->type.rank - 1))) return false;
  bool bits = v->op == OP_REDUCE_AND || v->op == OP_REDUCE_OR || v->op == OP_REDUCE_XOR;
  return !bits || x->type.dtype == DT_BOOL;
}

// cast(x: i32, i64) compared with a scalar: vec.h compares lanes with a 64-bit scalar.
bool compares_with_index(const Instr *v) {
  if (op_info[v->op].class != OPC_COMPARE || v->args[0]->type.dtype != DT_I64) return false;
  const Instr *x = v->args[0], *s = v->args[1];
  return x->op == OP_CAST && x->args[0]->type.dtype == DT_I32 && s->op == OP_BROADCAST &&
         s->args[0]->type.rank == 0;
}

bool is_fusable(const Instr *v) {
  if (v->op == OP_STORE) return ir_store_value(v)->type.rank > 0 && is_by_vectors(v);
  if (v->type.rank == 0 || !has_result(v)) return false;
  if (v->op == OP_DOT) return dot_shape(v).plain;
  if (v->op == OP_LOAD) return is_by_vectors(v);
  if (val(v)->snapshot) return true;
  return op_is_elementwise(v->op) || reduces_last_axis(v) || is_gather(v);
}

bool adds_in_parts(const Instr *v) {
  return v->op == OP_REDUCE_SUM && v->args[0]->type.dtype == DT_F32;
}

// Maxima and minima of floats do; that costs less than checking for NaNs at each step.
bool notes_nans(const Instr *v) {
  DType t = v->args[0]->type.dtype;
  return (v->op == OP_REDUCE_MAX || v->op == OP_REDUCE_MIN) && is_float(t) && dtype_has_inf(t) &&
         !is_wide(t);
}

// The shape over which a fusable instruction's loops run.
const Instr *loop_shape(const Instr *v) {
  if (v->op == OP_STORE) return ir_store_value(v);
  return op_info[v->op].class == OPC_REDUCE ? v->args[0] : v;
}

bool feeds_only_dots(const Instr *v) {
  if (v->op != OP_TRANSPOSE || v->type.rank != 2) return false;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    if (user->op == OP_DOT ? !dot_shape(user).plain : !feeds_only_dots(user)) return false;
  }
  return true;
}

// The extent of these loops: a store may show less of its value than others read of it.
const Demand *loop_demand(const Instr *v) {
  return v->op == OP_STORE && !val(v)->divided ? val(v)->demand : val(loop_shape(v))->demand;
}

bool is_generic(const Instr *v) {
  if (feeds_only_dots(v)) return false;
  return (has_result(v) || v->op == OP_STORE) && op_info[v->op].class != OPC_CONTROL &&
         !is_transparent(v) && !is_fusable(v) &&
         (v->op == OP_STORE ? ir_store_value(v)->type.rank > 0 : v->type.rank > 0);
}

// ---- the operands that an instruction reads

bool stretches_rows(const Instr *broadcast) {
  const Type *a = &broadcast->args[0]->type, *b = &broadcast->type;
  if (a->rank != b->rank) return true;
  for (int i = 0; i + 1 < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return true;
  return false;
}

// Is the left operand read while the loop over rows runs? A packed one is read before that loop.
bool reads_left_by_rows(Gen *g, const Instr *dot) {
  DotShape s = dot_shape(dot);
  if (s.a_transposed) return false;
  if (s.a->op != OP_LOAD || !is_transparent(s.a)) return true;
  return ir_window_is_full(s.a) &&
         g->refs[s.a->ref->id].element == dot_element(val(dot)->dot.kind, s.a->type.dtype);
}

// The load whose elements an operand is, or NULL.
const Instr *load_behind(const Instr *arg) {
  while (arg->op != OP_LOAD) {
    bool passes_on = arg->op == OP_BROADCAST || arg->op == OP_RESHAPE || is_transparent(arg);
    if (!passes_on || !arg->nargs) return NULL;
    arg = arg->args[0];
  }
  return arg;
}

bool instr_reads(const Instr *v, const Ref *ref) {
  for (int i = 0; i < v->nargs; i++) {
    const Instr *load = load_behind(v->args[i]);
    if (load && load->ref == ref) return true;
  }
  return v->op == OP_LOAD && v->ref == ref;
}

// A wait depends on a number of bytes and a semaphore; the positions of the windows matter only to
// the start of the copy.
int first_read(const Instr *v) {
  return v->op == OP_COPY_WAIT ? (int)(ir_semaphore_index(v) - v->args) : 0;
}

Dim dot_depth(const Instr *dot) {
  DotShape s = dot_shape(dot);
  return s.b->type.dim[s.b_transposed];
}
