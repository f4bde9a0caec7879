// Operations that are not loops over rows: moves of whole values, strided and masked accesses, the
// other operations by their methods, and values of rank 0.
#include "codegen/emit/generic.h"

#include <string.h>

// ---- moves: result element (i..) is the operand's element at another index

// A variable for an expression that is more than a name or a number.
static const Expr *named(CWriter *w, const char *base, const Expr *e) {
  Gen *g = w->g;
  if (e->kind == EXPR_SYMBOL || e->kind == EXPR_CONST) return e;
  const char *name = unique_name(&w->names, base);
  line(w, "const int64_t %s = %s;", name, expr_text(e));
  return symbol(g, name);
}

static void index_of_reshape(CWriter *w, const Instr *v, const Expr *const *at, const Expr **from) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const Expr *linear = number(g, 0), *below = number(g, 1);
  for (int i = 0; i < v->type.rank; i++)
    linear = expr_add(pool, expr_mul(pool, linear, extent_expr(g, v->type.dim[i])), at[i]);
  const Expr *n = named(w, "n", linear);
  const Type *t = &v->args[0]->type;
  for (int i = t->rank - 1; i >= 0; i--) {
    const Expr *extent = extent_expr(g, t->dim[i]);
    from[i] = expr_operator(pool, EXPR_DIV, n, below);
    if (i) from[i] = expr_operator(pool, EXPR_REM, from[i], extent);
    below = expr_mul(pool, below, extent);
  }
}

// An index in a variable of its own, clamped to an axis.
static const Expr *taken_index(Gen *g, const Instr *which, const Expr *const *at, Dim extent) {
  const Expr *index = expr_cast(&g->exprs, DT_I64, read_element(g, which, at)),
             *last = expr_sub(&g->exprs, extent_expr(g, extent), number(g, 1));
  return expr_call(&g->exprs, "pk_start", index, last, NULL);
}

static void gathered_index(Gen *g, const Instr *v, const Expr *const *at, const Expr **from) {
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(v, axes);
  const Type *table = &v->args[0]->type;
  for (int k = 0; k < table->rank; k++) {
    const int to = ir_gathered_axis(v, k);
    if (to >= 0) from[k] = at[to];
  }
  for (int i = 0; i < count; i++)
    from[axes[i]] = taken_index(g, v->args[1 + i], &at[axes[0]], table->dim[axes[i]]);
}

static const Expr *rolled_index(Gen *g, const Instr *v, const Expr *at, const Expr *extent) {
  ExprPool *pool = &g->exprs;
  const Expr *by = expr_call(pool, "pk_idx_mod", scalar_expr(g, v->args[1]), extent, NULL);
  return expr_call(pool, "pk_idx_mod", expr_call(pool, "pk_idx_sub", at, by, NULL), extent, NULL);
}

static void index_of_move(CWriter *w, const Instr *v, const Expr *const *at, const Expr **from) {
  Gen *g = w->g;
  AxisMap map;
  int axis = (int)v->ival;
  memcpy(from, at, sizeof(const Expr *) * MAX_RANK);
  if (ir_axis_map(v, &map))
    operand_index(g, v, &map, at, from);
  else if (v->op == OP_RESHAPE)
    index_of_reshape(w, v, at, from);
  else if (v->op == OP_ROLL)
    from[axis] = rolled_index(g, v, at[axis], extent_expr(g, v->args[0]->type.dim[axis]));
  else if (v->op == OP_GATHER)
    gathered_index(g, v, at, from);
  else
    from[axis] =
        taken_index(g, v->args[1], v->op == OP_TAKE ? &at[axis] : at, v->args[0]->type.dim[axis]);
}

static void emit_move(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Loops loops = open_loops(w, v, 0);
  const Expr *from[MAX_RANK] = {0};
  index_of_move(w, v, loops.at, from);
  for (int i = 0; i < v->args[0]->type.rank; i++) from[i] = named(w, "from", from[i]);
  write_element(w, v, loops.at, read_element(g, v->args[0], from));
  close_loops(w, &loops);
}

static void emit_transpose(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Place from, to;
  REQUIRE(place_of(g, v->args[0], &from) && place_of(g, v, &to));
  const RefGen *r = val(v)->stored_by ? &g->refs[val(v)->stored_by->ref->id] : NULL;
  bool streams = r && may_stream(g, val(v)->stored_by);
  const char *kind = streams ? "f32" : text(g, "b%d", dtype_bytes(to.element));
  line(w, "pk_transpose_block_%s(%s, %s, %s, %s, %s, %s%s);", kind, place_text(g, &to),
       expr_text(to.stride[0]), place_text(g, &from), expr_text(from.stride[0]),
       demand_text(g, val(v)->demand[1], v->type.dim[1]),
       demand_text(g, val(v)->demand[0], v->type.dim[0]),
       streams ? text(g, ", %s", expr_text(streams_expr(g, r))) : "");
}

// Copies each part of a concatenation that is not computed in place.
static void emit_concatenate(CWriter *w, Instr *v) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  for (int a = 0; a < v->nargs; a++) {
    if (is_inside(v, a)) continue;
    const Instr *part = v->args[a];
    const Expr *offset = part_offset(g, v, a);
    Loops loops = {.opened = 0};
    const Expr *to[MAX_RANK] = {0};
    for (int i = 0; i < v->type.rank; i++) {
      Demand demand = val(v)->demand[i];
      const Expr *end = i == v->ival ? extent_expr(g, part->type.dim[i])
                                     : demand_expr(g, demand, part->type.dim[i]);
      if (i == v->ival && demand != DEMAND_FULL)
        end = expr_min(pool, end, expr_sub(pool, demand_expr(g, demand, v->type.dim[i]), offset));
      loops.at[i] = open_loop(w, text(g, "i%d", i), end);
      loops.opened++;
      to[i] = i == v->ival ? expr_add(pool, loops.at[i], offset) : loops.at[i];
    }
    write_element(w, v, to, read_element(g, part, loops.at));
    close_loops(w, &loops);
  }
}

static void emit_pad(CWriter *w, Instr *v) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  Loops loops = open_loops(w, v, 0);
  const Expr *from[MAX_RANK] = {0}, *inside = NULL, *zero = number(g, 0);
  index_of_move(w, v, loops.at, from);
  for (int i = 0; i < v->type.rank; i++) {
    const Expr *extent = extent_expr(g, v->args[0]->type.dim[i]);
    inside = expr_and(pool, inside, expr_operator(pool, EXPR_GE, from[i], zero));
    inside = expr_and(pool, inside, expr_operator(pool, EXPR_LT, from[i], extent));
  }
  const Expr *value = read_element(g, v->args[0], from), *pad = scalar_expr(g, v->args[1]);
  write_element(w, v, loops.at, inside ? expr_choose(pool, inside, value, pad) : value);
  close_loops(w, &loops);
}

// ---- strided and masked accesses, elementwise operations of 64-bit integers

static void emit_elements(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Loops loops = open_loops(w, v, 0);
  Context x = {.g = g, .w = w};
  memcpy(x.index, loops.at, sizeof x.index);
  if (v->op == OP_STORE) {
    const Instr *mask = ir_mask(v);
    if (mask) open_block(w, "if (%s)", expr_text(read_element(g, mask, loops.at)));
    write_element(w, v, loops.at, read_element(g, ir_store_value(v), loops.at));
    if (mask) close_block(w);
  } else {
    write_element(w, v, loops.at, element_at(&x, v));
  }
  close_loops(w, &loops);
}

// Writes a group that is not a loop over rows, by its method.
void emit_generic(CWriter *w, const Group *group) {
  static void (*const emit[METHOD_COUNT])(CWriter *, Instr *) = {
      [METHOD_ELEMENTS] = emit_elements,
      [METHOD_MOVE] = emit_move,
      [METHOD_TRANSPOSE] = emit_transpose,
      [METHOD_CONCATENATE] = emit_concatenate,
      [METHOD_PAD] = emit_pad,
      [METHOD_REDUCE] = emit_reduce,
      [METHOD_REDUCE_ROWS] = emit_reduce_rows,
      [METHOD_REDUCE_STRIPS] = emit_reduce_strips,
      [METHOD_ARG_REDUCE] = emit_arg_reduce,
      [METHOD_ARG_ROWS] = emit_arg_rows,
      [METHOD_ARG_LINES] = emit_arg_lines,
      [METHOD_SCAN] = emit_scan,
      [METHOD_SCAN_ROWS] = emit_scan_rows,
      [METHOD_SCAN_LINES] = emit_scan_lines,
      [METHOD_SORT] = emit_sort,
      [METHOD_SORT_LINES] = emit_sort_lines,
      [METHOD_CONTRACT] = emit_contractions,
      [METHOD_PRODUCTS] = emit_products,
      [METHOD_WIDE_PRODUCTS] = emit_wide_products,
      [METHOD_BYTE_PRODUCTS] = emit_byte_products,
  };
  if (group->method == METHOD_DONE) return;
  int taken = open_names(&w->names);
  line(w, "{ /* %s */", op_info[group->instr->op].name);
  w->indent++;
  if (group->nests.count)
    emit_nests(w, group);
  else
    emit[group->method](w, group->instr);
  close_block(w);
  close_names(&w->names, taken);
}

// ---- rank 0

// Writes the computation of a rank-0 value, or a store of one.
void emit_scalar(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Place p;
  if (v->op == OP_STORE) {
    REQUIRE(place_of(g, v, &p));
    const Instr *mask = ir_mask(v);
    line(w, "%spks_store_%s(%s, %s);", mask ? text(g, "if (%s) ", scalar_text(g, mask)) : "",
         dtype_info[p.element].name, place_text(g, &p), scalar_text(g, ir_store_value(v)));
    return;
  }
  const char *name = unique_name(&w->names, v->text && op_info[v->op].class != OPC_CONTROL
                                                ? v->text
                                                : text(g, "v%d", v->id)),
             *value;
  if (v->op == OP_DOT) {
    const Expr *of_label[DOT_LABELS] = {0}, *sum = symbol(g, unique_name(&w->names, "sum"));
    emit_contraction(w, v, of_label, sum);
    value = sum->name;
  } else if (v->op == OP_LOAD && ir_may_leave(v)) {
    value = expr_text(element_at(&(Context){.g = g, .w = w}, v));
  } else if (v->op == OP_LOAD) {
    REQUIRE(place_of(g, v, &p));
    value = text(g, "pks_load_%s(%s)", dtype_info[p.element].name, place_text(g, &p));
  } else if (v->nargs && v->args[0]->type.rank > 0) {
    REQUIRE(v->op == OP_RESHAPE);
    const Expr *zeros[MAX_RANK];
    for (int i = 0; i < MAX_RANK; i++) zeros[i] = number(g, 0);
    value = expr_text(read_element(g, v->args[0], zeros));
  } else {
    value = expr_text(scalar_value(g, v));
  }
  line(w, "const %s %s = %s;", scalar_type(v->type.dtype), name, value);
  expr_name(val(v)->scalar, name);
}
