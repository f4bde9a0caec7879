// The method of an operation that is not a loop over rows, and the memory that it needs.
#include "codegen/loops/loops.h"

// ---- products

ProductShape product_shape(const Instr *v) {
  int n = v->type.rank;
  ProductShape none = {0}, s = {0};
  if (n < 3 || v->args[0]->type.rank != n || v->args[1]->type.rank != n) return none;
  const int8_t *a = v->labels.a, *b = v->labels.b, *out = v->labels.out;
  for (int i = 0; i < n - 2; i++)
    if (a[i] != out[i] || b[i] != out[i]) return none;
  s.a_transposed = a[n - 1] == out[n - 2];
  s.b_transposed = b[n - 2] == out[n - 1];
  int8_t k = s.a_transposed ? a[n - 2] : a[n - 1];
  bool labels = (s.a_transposed ? a[n - 1] : a[n - 2]) == out[n - 2] &&
                (s.b_transposed ? b[n - 2] : b[n - 1]) == out[n - 1] &&
                (s.b_transposed ? b[n - 1] : b[n - 2]) == k;
  DType t = v->args[0]->type.dtype;
  s.plain = labels && t != DT_U16 && !is_wide(t) && v->args[1]->type.dtype != DT_U16;
  return s.plain ? s : none;
}

int label_axis(const int8_t *labels, int rank, int8_t label) {
  for (int i = 0; i < rank; i++)
    if (labels[i] == label) return i;
  return -1;
}

// Does the operand have the label `axis` of the result, not the label `other`, and one label more
// than the leading axes of the result? *k is its axis.
static bool has_matrix(const Instr *v, const Instr *operand, const int8_t *labels, int8_t axis,
                       int8_t other, int *k) {
  int rank = operand->type.rank, summed = 0;
  for (int i = 0; i < rank; i++) {
    if (label_axis(labels, rank, labels[i]) != i) return false;
    if (label_axis(v->labels.out, v->type.rank, labels[i]) < 0) summed++, *k = i;
  }
  return summed == 1 && label_axis(labels, rank, axis) >= 0 && label_axis(labels, rank, other) < 0;
}

MatrixProduct matrix_product(const Instr *v) {
  MatrixProduct none = {0}, s = {0};
  int n = v->type.rank;
  if (n < 2) return none;
  int8_t row = v->labels.out[n - 2], column = v->labels.out[n - 1];
  int left = label_axis(v->labels.a, v->args[0]->type.rank, row) >= 0 ? 0 : 1;
  s.a = v->args[left];
  s.b = v->args[1 - left];
  s.a_labels = left ? v->labels.b : v->labels.a;
  s.b_labels = left ? v->labels.a : v->labels.b;
  s.plain = row != column && has_matrix(v, s.a, s.a_labels, row, column, &s.k) &&
            has_matrix(v, s.b, s.b_labels, column, row, &s.k2) &&
            s.a_labels[s.k] == s.b_labels[s.k2];
  if (!s.plain) return none;
  s.m = label_axis(s.a_labels, s.a->type.rank, row);
  s.n = label_axis(s.b_labels, s.b->type.rank, column);
  return s;
}

static bool has_wide_products(Gen *g, const Instr *v) {
  Place at;
  if (!is_wide(v->type.dtype)) return false;
  for (int i = 0; i < 2; i++)
    if (!is_wide(v->args[i]->type.dtype) || !layout_of(g, v->args[i], &at)) return false;
  return matrix_product(v).plain && layout_of(g, v, &at);
}

// Are the bytes of both operands contiguous along k, and the columns of the result?
static bool has_byte_products(Gen *g, const Instr *v) {
  const MatrixProduct s = matrix_product(v);
  Place a, b, to;
  return s.plain && v->type.rank > 2 && is_byte(s.a->type.dtype) && is_byte(s.b->type.dtype) &&
         layout_of(g, s.a, &a) && layout_of(g, s.b, &b) && layout_of(g, v, &to) &&
         is_byte(a.element) && is_byte(b.element) && !is_float(to.element) &&
         dtype_bytes(to.element) == 4 && expr_is(a.stride[s.k], 1) && expr_is(b.stride[s.k2], 1) &&
         expr_is(to.stride[v->type.rank - 1], 1);
}

static bool has_products(Gen *g, const Instr *v) {
  Place a, b, out;
  int last = v->type.rank - 1;
  return product_shape(v).plain && layout_of(g, v->args[0], &a) && layout_of(g, v->args[1], &b) &&
         layout_of(g, v, &out) && expr_is(a.stride[last], 1) && expr_is(b.stride[last], 1);
}

static void place_products(Gen *g, const Instr *v) {
  ProductShape s = product_shape(v);
  const DotKind *kind = val(v)->dot.kind;
  int n = v->type.rank, m_axis = n - 2 + s.a_transposed, k_axis = 2 * n - 3 - m_axis;
  const Instr *a = v->args[0];
  Dim k = a->type.dim[k_axis], rows[2] = {v->type.dim[n - 2], k};
  DType element = dot_element(kind, a->type.dtype);
  val(v)->dot.panels = panels_buffer(g, text(g, "panels%d", v->id), kind, v->args[1]->type.dtype, k,
                                     v->type.dim[n - 1], "right operand of dot");
  val(v)->dot.depth = panel_depth(g, kind, DEMAND_FULL, k);
  Place at;
  REQUIRE(layout_of(g, a, &at));
  if (at.element != element || s.a_transposed)
    val(v)->dot.left =
        buffer_new(g, text(g, "left%d", v->id), element, 2, rows, "left operand of dot");
}

// ---- transposes, reductions

static bool has_blocks(Gen *g, const Instr *v) {
  Place from, to;
  return v->type.rank == 2 && v->ints[0] == 1 && layout_of(g, v->args[0], &from) &&
         layout_of(g, v, &to) && expr_is(from.stride[1], 1) && from.element == to.element;
}

// Is the reduction over leading axes only, so that rows are added (or compared) to one row?
static bool has_rows(Gen *g, const Instr *v) {
  const Instr *from = v->args[0];
  Place at, to;
  int last = from->type.rank - 1;
  DType t = from->type.dtype;
  return last >= 1 && !((v->ival >> last) & 1) && !is_row_scalar(from) && layout_of(g, from, &at) &&
         layout_of(g, v, &to) && expr_is(at.stride[last], 1) && to.element == t &&
         (at.element == t || widens_for_reductions(from));
}

// Does the reduction have so few rows that their sums may stay in registers?
static bool has_few_rows(const Instr *v) {
  int64_t rows = 1;
  for (int i = 0; i < v->args[0]->type.rank; i++)
    if ((v->ival >> i) & 1 &&
        (!dim_is_const(v->args[0]->type.dim[i]) || !mul_i64(rows, v->args[0]->type.dim[i], &rows)))
      return false;
  return rows <= COLUMN_STRIP_ROWS;
}

// Does the vector layer have searches and running folds along lines of this dtype?
static bool has_lines(DType t) {
  return t == DT_F32 || t == DT_BF16 || t == DT_F16 ||
         (is_integer(t) && dtype_info[t].bits >= 8 && !is_wide(t));
}

// Is the operand of a search in memory, with its last axis laid out for vectors?
static bool searches(Gen *g, const Instr *v) {
  const Instr *from = v->args[0];
  Place at;
  const DType t = from->type.dtype;
  return layout_of(g, from, &at) && at.element == t && expr_is(at.stride[from->type.rank - 1], 1);
}

static bool searches_lines(Gen *g, const Instr *v) {
  const Instr *from = v->args[0];
  return v->ival == from->type.rank - 1 && has_lines(from->type.dtype) && searches(g, v);
}

// Are rows compared, and is the result in memory that vectors can write?
static bool searches_rows(Gen *g, const Instr *v) {
  const int last = v->type.rank - 1;
  const DType t = v->args[0]->type.dtype;
  Place to;
  return last >= 1 && v->ival != last && (has_lines(t) || is_wide(t)) &&
         !is_row_scalar(v->args[0]) && searches(g, v) && layout_of(g, v, &to) &&
         expr_is(to.stride[last], 1) && to.element == DT_I32;
}

// Does it run along rows that are in memory as vectors read and write them?
static bool runs_in_rows(Gen *g, const Instr *v) {
  const Instr *from = v->args[0];
  Place at, to;
  int last = v->type.rank - 1;
  DType t = v->type.dtype;
  Op op = fold_operation[v->op];
  bool combines = op == OP_ADD || op == OP_MUL || op == OP_MAX || op == OP_MIN;
  return combines && layout_of(g, from, &at) && layout_of(g, v, &to) &&
         expr_is(at.stride[last], 1) && expr_is(to.stride[last], 1) && at.element == t &&
         to.element == t;
}

static bool runs_from_row_to_row(Gen *g, const Instr *v) {
  return v->ival < v->type.rank - 1 && runs_in_rows(g, v);
}

static bool runs_along_lines(Gen *g, const Instr *v) {
  int last = v->type.rank - 1;
  return v->ival == last && last >= 1 && v->type.dim[last - 1] != 1 && has_lines(v->type.dtype) &&
         runs_in_rows(g, v);
}

// Do the sorting networks have keys for these elements? 64-bit elements have no room for their
// positions: keys take all their bits.
static bool has_networks(const Instr *v) {
  DType t = v->args[0]->type.dtype;
  return t == DT_F32 || t == DT_I32 || t == DT_U32 || (v->op == OP_SORT && is_wide(t));
}

static bool sorts_lines(Gen *g, const Instr *v) {
  const Instr *from = v->args[0];
  Place p, to;
  return has_networks(v) && layout_of(g, from, &p) && layout_of(g, v, &to) &&
         p.element == from->type.dtype && to.element == v->type.dtype;
}

int sorted_side_by_side(Gen *g, const Instr *v) {
  int found = -1;
  for (int i = v->type.rank - 1; i >= 0; i--) {
    Dim d = v->type.dim[i];
    if (i == v->ival) continue;
    if (!dim_is_const(d) || d >= g->lanes) return i;
    if (found < 0 || d > v->type.dim[found]) found = i;
  }
  return found;
}

static int64_t most_read(const Instr *v, int axis);

// The number of elements from the start of the axis that `user` reads of v.
static int64_t elements_read(const Instr *user, const Instr *v, int axis) {
  if (user->op == OP_CAST) return most_read(user, axis);
  if (user->op == OP_SLICE && user->ints2[axis] > 0)
    return dim_is_const(user->type.dim[axis]) && user->type.dim[axis] > 0
               ? user->ints[axis] + (user->type.dim[axis] - 1) * user->ints2[axis] + 1
               : INT64_MAX;
  bool counts = user->op == OP_TAKE && user->args[0] == v && user->ival == axis &&
                user->args[1]->op == OP_IOTA && dim_is_const(user->args[1]->type.dim[0]);
  return counts ? user->args[1]->type.dim[0] : INT64_MAX;
}

static int64_t most_read(const Instr *v, int axis) {
  int64_t count = 1;
  for (int i = 0; i < val(v)->users.count; i++) {
    int64_t read = elements_read(val(v)->users.at[i], v, axis);
    if (read > count) count = read;
  }
  return val(v)->users.count ? count : INT64_MAX;
}

// The number of elements that are read of a sorted line, if few enough to select them without a
// sort; else 0.
static int64_t first_sorted(const Instr *v) {
  enum { MOST = 1024 };
  Dim extent = v->type.dim[v->ival];
  const int64_t count = most_read(v, (int)v->ival);
  bool few = count <= MOST && (!dim_is_const(extent) || count < extent / 2);
  return few ? count : 0;
}

// Two rows take the keys of one vector at least. Lines side by side (include/pk/sort_lines.h) take
// a vector of 64 bytes for each element, and a quarter more.
static void place_sort(Gen *g, const Instr *v, bool lines) {
  Dim extent = v->args[0]->type.dim[v->ival], keys[2] = {lines ? 10 : 4, extent == 1 ? 2 : extent};
  val(v)->first = first_sorted(v);
  val(v)->scratch = buffer_new(g, "sort_keys", DT_I64, 2, keys, "keys and order of a sort");
}

// Nested loops, if the memory at both ends allows it.
static Method method_of_move(Gen *g, Group *group, Method otherwise) {
  bool rows = true;
  if (!move_nests(g, group, expr_symbol(&g->exprs, "shift"))) {
    group->nests.count = 0;
    return otherwise;
  }
  for (int i = 0; i < group->nests.count; i++)
    rows = rows && (group->nests.at[i].rows || group->nests.at[i].column >= 0);
  return rows ? METHOD_ROWS : METHOD_STRIDED;
}

static bool all_inside(const Instr *concat) {
  for (int part = 0; part < concat->nargs; part++)
    if (!is_inside(concat, part)) return false;
  return true;
}

// The method by which a group that is not a loop over rows is computed.
static Method method_of(Gen *g, Group *group) {
  const Instr *v = group->instr;
  switch (v->op) {
    case OP_TRANSPOSE:
      return has_blocks(g, v) ? METHOD_TRANSPOSE : method_of_move(g, group, METHOD_MOVE);
    case OP_RESHAPE:
    case OP_SLICE:
    case OP_ROLL:
    case OP_REV:
      return method_of_move(g, group, METHOD_MOVE);
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_GATHER:
      return METHOD_MOVE;
    case OP_CONCAT:
      return all_inside(v) ? METHOD_DONE : method_of_move(g, group, METHOD_CONCATENATE);
    case OP_PAD:
      return method_of_move(g, group, METHOD_PAD);
    case OP_SORT:
    case OP_ARGSORT:
      return sorts_lines(g, v) ? METHOD_SORT_LINES : METHOD_SORT;
    case OP_DOT:
      return val(v)->dot.fields        ? METHOD_BYTE_PRODUCTS
             : has_products(g, v)      ? METHOD_PRODUCTS
             : has_wide_products(g, v) ? METHOD_WIDE_PRODUCTS
             : has_byte_products(g, v) ? METHOD_BYTE_PRODUCTS
                                       : METHOD_CONTRACT;
    default:
      break;
  }
  switch (op_info[v->op].class) {
    case OPC_REDUCE:
      return !has_rows(g, v)   ? METHOD_REDUCE
             : has_few_rows(v) ? METHOD_REDUCE_ROWS
                               : METHOD_REDUCE_STRIPS;
    case OPC_ARGREDUCE:
      return searches_rows(g, v)    ? METHOD_ARG_ROWS
             : searches_lines(g, v) ? METHOD_ARG_LINES
                                    : METHOD_ARG_REDUCE;
    case OPC_SCAN:
      return runs_from_row_to_row(g, v) ? METHOD_SCAN_ROWS
             : runs_along_lines(g, v)   ? METHOD_SCAN_LINES
                                        : METHOD_SCAN;
    default:
      return METHOD_ELEMENTS;
  }
}

void choose_method(Gen *g, Group *generic) {
  generic->method = method_of(g, generic);
  bool lines = generic->method == METHOD_SORT_LINES;
  if (lines || generic->method == METHOD_SORT) place_sort(g, generic->instr, lines);
  if (generic->method == METHOD_PRODUCTS) place_products(g, generic->instr);
  if (generic->method == METHOD_BYTE_PRODUCTS) {
    const MatrixProduct s = matrix_product(generic->instr);
    choose_byte_kind(generic->instr, s.a->type.dtype, s.b->type.dtype);
  }
}
