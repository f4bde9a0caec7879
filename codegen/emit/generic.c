// Operations that are not loops over rows, as plain loops over elements: moves of whole values,
// scans, sorts, contractions of more than two axes, strided and masked accesses, reductions over
// other axes than the last.
#include "codegen/emit/internal.h"

#include <string.h>

typedef struct {
  const char *at[MAX_RANK];
  int opened;
} Loops;

static Loops open_loops(Gen *g, const Instr *v, unsigned skip) {
  Loops loops = {.opened = 0};
  const Instr *shape = v->op == OP_STORE ? ir_store_value(v) : v;
  for (int i = 0; i < shape->type.rank; i++) {
    if ((skip >> i) & 1) {
      loops.at[i] = "0";
      continue;
    }
    loops.at[i] = unique_name(g, text(g, "i%d", i));
    open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", loops.at[i], loops.at[i],
               demand_text(g, val(v)->demand[i], shape->type.dim[i]), loops.at[i]);
    loops.opened++;
  }
  return loops;
}

static void close_loops(Gen *g, const Loops *loops) {
  for (int i = 0; i < loops->opened; i++) close_block(g);
}

static const char *read(Gen *g, const Instr *v, const char *const *index) {
  Context x = {.g = g};
  memcpy(x.index, index, sizeof x.index);
  return argument_at(&x, v, false);
}

static void write(Gen *g, const Instr *v, const char *const *index, const char *value) {
  Context x = {.g = g};
  Place p;
  REQUIRE(place_of(g, v, &p));
  int rank = v->op == OP_STORE ? ir_store_value(v)->type.rank : v->type.rank;
  line(g, "pks_store_%s(%s, %s);", dtype_info[p.element].name, address(&x, &p, rank, index), value);
}

// ---- moves: result element (i..) is the operand's element at another index

static void index_of_reshape(Gen *g, const Instr *v, const char *const *at, const char **from) {
  const char *linear = "0";
  for (int i = 0; i < v->type.rank; i++)
    linear = add_text(g, mul_text(g, linear, extent_text(g, v->type.dim[i])), at[i]);
  const char *n = unique_name(g, "n");
  line(g, "const int64_t %s = %s;", n, linear);
  const char *below = "1";
  const Type *t = &v->args[0]->type;
  for (int i = t->rank - 1; i >= 0; i--) {
    from[i] = text(g, i ? "(%s / (%s)) %% %s" : "%s / (%s)", n, below, extent_text(g, t->dim[i]));
    below = mul_text(g, below, extent_text(g, t->dim[i]));
  }
}

static const char *taken_index(Gen *g, const Instr *v, const char *const *at, Dim extent) {
  const char *inner[MAX_RANK];
  memcpy(inner, at, sizeof inner);
  if (v->op == OP_TAKE) inner[0] = at[v->ival];
  return text(g, "pk_start((int64_t)%s, %s - 1)", read(g, v->args[1], inner),
              extent_text(g, extent));
}

static void index_of_move(Gen *g, const Instr *v, const char *const *at, const char **from) {
  memcpy(from, at, sizeof(const char *) * MAX_RANK);
  int axis = (int)v->ival;
  const char *extent =
      v->nargs && v->args[0]->type.rank > axis ? extent_text(g, v->args[0]->type.dim[axis]) : "0";
  switch (v->op) {
    case OP_TRANSPOSE:
      for (int i = 0; i < v->type.rank; i++) from[v->ints[i]] = at[i];
      break;
    case OP_SLICE:
      for (int i = 0; i < v->type.rank; i++)
        from[i] = add_text(g, text(g, "%lld", (long long)v->ints[i]),
                           mul_text(g, at[i], text(g, "%lld", (long long)v->ints2[i])));
      break;
    case OP_ROLL:
      from[axis] = text(g, "pk_idx_mod(pk_idx_sub(%s, pk_idx_mod(%s, %s)), %s)", at[axis],
                        scalar_text(g, v->args[1]), extent, extent);
      break;
    case OP_REV:
      from[axis] = text(g, "%s - 1 - %s", extent, at[axis]);
      break;
    case OP_TAKE:
    case OP_TAKE_ALONG:
      from[axis] = taken_index(g, v, at, v->args[0]->type.dim[axis]);
      break;
    case OP_RESHAPE:
      index_of_reshape(g, v, at, from);
      break;
    default:
      INTERNAL("%s does not move elements", op_info[v->op].name);
  }
}

static void emit_move(Gen *g, Instr *v) {
  Loops loops = open_loops(g, v, 0);
  const char *from[MAX_RANK] = {0};
  index_of_move(g, v, loops.at, from);
  for (int i = 0; i < v->args[0]->type.rank; i++) {
    if (strspn(from[i], "abcdefghijklmnopqrstuvwxyz_0123456789") == strlen(from[i])) continue;
    const char *name = unique_name(g, "from");
    line(g, "const int64_t %s = %s;", name, from[i]);
    from[i] = name;
  }
  write(g, v, loops.at, read(g, v->args[0], from));
  close_loops(g, &loops);
}

static void emit_transpose(Gen *g, Instr *v) {
  Place from, to;
  REQUIRE(place_of(g, v->args[0], &from) && place_of(g, v, &to));
  const RefGen *r = val(v)->stored_by ? &g->refs[val(v)->stored_by->ref->id] : NULL;
  bool streams = r && r->form == FORM_DIRECT && r->element == DT_F32;
  const char *kind = streams ? "f32" : text(g, "b%d", dtype_bytes(to.element));
  line(g, "pk_transpose_block_%s(%s, %s, %s, %s, %s, %s%s);", kind, to.pointer,
       expr_text(to.stride[0]), from.pointer, expr_text(from.stride[0]),
       demand_text(g, val(v)->demand[1], v->type.dim[1]),
       demand_text(g, val(v)->demand[0], v->type.dim[0]),
       streams ? text(g, ", %s_stream", r->stem) : "");
}

static void emit_concatenate(Gen *g, Instr *v) {
  const char *offset = "0";
  for (int a = 0; a < v->nargs; a++) {
    const Instr *part = v->args[a];
    Loops loops = {.opened = 0};
    const char *to[MAX_RANK] = {0};
    for (int i = 0; i < v->type.rank; i++) {
      loops.at[i] = unique_name(g, text(g, "i%d", i));
      Demand demand = val(v)->demand[i];
      const char *end = i == v->ival ? extent_text(g, part->type.dim[i])
                                     : demand_text(g, demand, part->type.dim[i]);
      if (i == v->ival && demand != DEMAND_FULL)
        end = text(g, "pk_idx_min(%s, %s - (%s))", end, demand_text(g, demand, v->type.dim[i]),
                   offset);
      open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", loops.at[i], loops.at[i], end,
                 loops.at[i]);
      loops.opened++;
      to[i] = i == v->ival ? add_text(g, loops.at[i], offset) : loops.at[i];
    }
    write(g, v, to, read(g, part, loops.at));
    close_loops(g, &loops);
    offset = add_text(g, offset, extent_text(g, part->type.dim[v->ival]));
  }
}

static void emit_pad(Gen *g, Instr *v) {
  Loops loops = open_loops(g, v, 0);
  const char *from[MAX_RANK] = {0}, *inside = "true";
  for (int i = 0; i < v->type.rank; i++) {
    from[i] = text(g, "(%s - %lld)", loops.at[i], (long long)v->ints[i]);
    inside = text(g, "%s && %s >= 0 && %s < %s", inside, from[i], from[i],
                  extent_text(g, v->args[0]->type.dim[i]));
  }
  write(g, v, loops.at,
        text(g, "%s ? %s : %s", inside, read(g, v->args[0], from), scalar_text(g, v->args[1])));
  close_loops(g, &loops);
}

// ---- one element from many

static const char *combine(Gen *g, const char *verb, const char *lane, const char *a,
                           const char *b) {
  if (strcmp(lane, "mask") == 0)
    return text(g, "%s %s %s", a,
                strcmp(verb, "and") == 0  ? "&&"
                : strcmp(verb, "or") == 0 ? "||"
                                          : "!=",
                b);
  return text(g, "pks_%s_%s(%s, %s)", verb, lane, a, b);
}

static const char *wrapped(Gen *g, DType t, const char *value) {
  return is_narrow_integer(t) ? text(g, "pks_wrap_%s(%s)", dtype_info[t].name, value) : value;
}

static const char *scalar_lane(const Instr *v) {
  DType t = v->args[0]->type.dtype;
  return t == DT_BOOL ? "mask" : t == DT_I64 ? "i64" : lane_type(t);
}

static void emit_reduce(Gen *g, Instr *v) {
  const Instr *from = v->args[0];
  Loops loops = open_loops(g, v, (unsigned)v->ival);
  const char *sum = unique_name(g, "sum"), *at[MAX_RANK];
  DType t = from->type.dtype;
  line(g, "%s %s = %s;", scalar_type(t), sum, reduce_identity(g, v));
  memcpy(at, loops.at, sizeof at);
  int inner = 0;
  for (int i = 0; i < from->type.rank; i++) {
    if (!((v->ival >> i) & 1)) continue;
    at[i] = unique_name(g, text(g, "k%d", i));
    open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", at[i], at[i],
               demand_text(g, val(from)->demand[i], from->type.dim[i]), at[i]);
    inner++;
  }
  line(g, "%s = %s;", sum, combine(g, reduce_operation(v), scalar_lane(v), sum, read(g, from, at)));
  while (inner--) close_block(g);
  write(g, v, loops.at, wrapped(g, t, sum));
  close_loops(g, &loops);
}

static void emit_reduce_rows(Gen *g, Instr *v) {
  const Instr *from = v->args[0];
  Place p, to;
  int last = from->type.rank - 1;
  DType t = from->type.dtype;
  REQUIRE(place_of(g, from, &p) && place_of(g, v, &to));
  Loops loops = open_loops(g, v, (unsigned)v->ival | 1u << last);
  const char *n = demand_text(g, val(v)->demand[last], v->type.dim[last]),
             *column = unique_name(g, "col"), *at[MAX_RANK];
  const char *lane = reduce_lanes(v), *type = dtype_info[t].name;
  memcpy(at, loops.at, sizeof at);
  at[last] = column;
  Context x = {.g = g};
  const char *sum_at = address(&x, &to, v->type.rank, at);
  open_block(g, "for (int64_t %s = 0; %s < %s; %s += %d)", column, column, n, column, g->lanes);
  const char *sum = unique_name(g, "sum"), *left = unique_name(g, "left");
  line(g, "const int64_t %s = %s - %s;", left, n, column);
  line(g, "%s %s = pk_splat_%s(%s);", vector_type(t), sum, strcmp(lane, "u32") == 0 ? "u32" : lane,
       reduce_identity(g, v));
  int inner = 0;
  for (int i = 0; i < last; i++) {
    if (!((v->ival >> i) & 1)) continue;
    at[i] = unique_name(g, text(g, "k%d", i));
    open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", at[i], at[i],
               demand_text(g, val(from)->demand[i], from->type.dim[i]), at[i]);
    inner++;
  }
  line(g, "%s = pk_%s_%s(%s, pk_loadn_%s(%s, %s));", sum, reduce_operation(v), lane, sum, type,
       address(&x, &p, from->type.rank, at), left);
  while (inner--) close_block(g);
  line(g, "pk_storen_%s(%s, %s, %s);", type, sum_at, sum, left);
  close_block(g);
  close_loops(g, &loops);
}

static void emit_arg_reduce(Gen *g, Instr *v) {
  const Instr *from = v->args[0];
  int axis = (int)v->ival;
  Loops loops = open_loops(g, v, 1u << axis);
  const char *best = unique_name(g, "best"), *value = unique_name(g, "value"),
             *k = unique_name(g, "k"), *at[MAX_RANK];
  memcpy(at, loops.at, sizeof at);
  at[axis] = "0";
  DType t = from->type.dtype;
  Dim extent = from->type.dim[axis];
  const char *n = extent_text(g, extent);
  line(g, "int64_t %s = 0;", best);
  if (dim_is_const(extent)) {
    line(g, "%s %s = %s;", scalar_type(t), value, read(g, from, at));
  } else {
    line(g, "if (%s == 0) pk_fail(worker, \"line %d: %s over an axis of no elements\");", n,
         line_of(g, v->span), op_info[v->op].name);
    line(g, "%s %s = %s > 0 ? %s : 0;", scalar_type(t), value, n, read(g, from, at));
  }
  at[axis] = k;
  open_block(g, "for (int64_t %s = 1; %s < %s; %s++)", k, k, extent_text(g, from->type.dim[axis]),
             k);
  const char *here = unique_name(g, "here"), *sign = v->op == OP_ARGMAX ? ">" : "<";
  line(g, "const %s %s = %s;", scalar_type(t), here, read(g, from, at));
  const char *better = text(g, "%s %s %s", here, sign, value);
  if (is_float(t))
    better = text(g, "(%s || %s != %s) && %s == %s", better, here, here, value, value);
  open_block(g, "if (%s)", better);
  line(g, "%s = %s;", best, k);
  line(g, "%s = %s;", value, here);
  close_block(g);
  close_block(g);
  write(g, v, loops.at, text(g, "(int32_t)%s", best));
  close_loops(g, &loops);
}

static void emit_scan(Gen *g, Instr *v) {
  const Instr *from = v->args[0];
  int axis = (int)v->ival;
  const char *verb = v->op == OP_CUMSUM    ? "add"
                     : v->op == OP_CUMPROD ? "mul"
                     : v->op == OP_CUMMAX  ? "max"
                                           : "min",
             *lane = scalar_lane(v);
  Loops loops = open_loops(g, v, 1u << axis);
  DType t = v->type.dtype;
  const char *sum = unique_name(g, "sum"), *step = unique_name(g, "k"), *k = unique_name(g, "at"),
             *n = extent_text(g, v->type.dim[axis]), *at[MAX_RANK];
  memcpy(at, loops.at, sizeof at);
  at[axis] = k;
  line(g, "%s %s = 0;", scalar_type(t), sum);
  open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", step, step, n, step);
  line(g, "const int64_t %s = %s;", k,
       v->flags & INSTR_REVERSE ? text(g, "%s - 1 - %s", n, step) : step);
  const char *value = read(g, from, at);
  line(g, "%s = %s == 0 ? %s : %s;", sum, step, value,
       wrapped(g, t, combine(g, verb, lane, sum, value)));
  write(g, v, at, sum);
  close_block(g);
  close_loops(g, &loops);
}

static void emit_sort(Gen *g, Instr *v) {
  const Instr *from = v->args[0];
  int axis = (int)v->ival;
  Dim n = from->type.dim[axis];
  const char *extent = extent_text(g, n);
  const Buffer *room = val(v)->room;
  Loops loops = open_loops(g, v, 1u << axis);
  const char *k = unique_name(g, "k"), *at[MAX_RANK], *keys_at = room->name,
             *stride = expr_text(room->stride[0]);
  memcpy(at, loops.at, sizeof at);
  at[axis] = k;
  DType t = from->type.dtype;
  const char *key = is_float(t) ? text(g, "pk_sort_key_f32(%s, %s)", read(g, from, at),
                                       v->flags & INSTR_REVERSE ? "true" : "false")
                                : text(g, "(int64_t)%s", read(g, from, at));
  line(g, "for (int64_t %s = 0; %s < %s; %s++) %s[%s] = %s;", k, k, extent, k, keys_at, k, key);
  const char *order = unique_name(g, "order");
  line(g, "const int64_t *const %s = pk_argsort(%s, %s, %s, %s);", order, keys_at, stride, extent,
       v->flags & INSTR_REVERSE ? "true" : "false");
  open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", k, k, extent, k);
  const char *to[MAX_RANK];
  memcpy(to, at, sizeof to);
  at[axis] = text(g, "%s[%s]", order, k);
  write(g, v, to, v->op == OP_ARGSORT ? text(g, "(int32_t)%s", at[axis]) : read(g, from, at));
  close_block(g);
  close_loops(g, &loops);
}

// ---- contractions

static void label_indices(const Type *t, const int8_t *labels, const char *const *of_label,
                          const char **at) {
  for (int i = 0; i < t->rank; i++) at[i] = of_label[labels[i]];
}

static const char *product(Gen *g, const Instr *v, const char *a, const char *b) {
  if (is_float(v->args[0]->type.dtype)) return text(g, "%s * %s", a, b);
  return v->type.dtype == DT_I64 ? text(g, "pk_idx_mul(%s, %s)", a, b)
                                 : text(g, "pks_mul_i32((int32_t)%s, (int32_t)%s)", a, b);
}

// Declares `sum` and adds up all terms of one result element.
static void emit_contraction(Gen *g, const Instr *v, const char **of_label, const char *sum) {
  bool floats = is_float(v->args[0]->type.dtype);
  line(g, "%s %s = 0;", floats ? "float" : v->type.dtype == DT_I64 ? "int64_t" : "int32_t", sum);
  int inner = 0;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < v->args[side]->type.rank; i++) {
      int label = side ? v->labels.b[i] : v->labels.a[i];
      if (of_label[label]) continue;
      of_label[label] = unique_name(g, text(g, "k%d", label));
      const char *k = of_label[label];
      open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", k, k,
                 extent_text(g, v->args[side]->type.dim[i]), k);
      inner++;
    }
  const char *a_at[MAX_RANK] = {0}, *b_at[MAX_RANK] = {0};
  label_indices(&v->args[0]->type, v->labels.a, of_label, a_at);
  label_indices(&v->args[1]->type, v->labels.b, of_label, b_at);
  const char *term = product(g, v, read(g, v->args[0], a_at), read(g, v->args[1], b_at));
  if (floats)
    line(g, "%s += %s;", sum, term);
  else
    line(g, "%s = %s(%s, %s);", sum, v->type.dtype == DT_I64 ? "pk_idx_add" : "pks_add_i32", sum,
         term);
  while (inner--) close_block(g);
}

static const char *at_batch(Gen *g, const Place *p, const Loops *loops, int batch) {
  Context x = {.g = g};
  return address(&x, p, batch, loops->at);
}

static void emit_products(Gen *g, Instr *v) {
  ProductShape s = product_shape(v);
  int n = v->type.rank, batch = n - 2, m_axis = n - 2 + s.a_transposed, k_axis = 2 * n - 3 - m_axis;
  const Instr *a = v->args[0];
  const DotKind *kind = val(v)->kind;
  Dim m = v->type.dim[n - 2], cols = v->type.dim[n - 1], k = a->type.dim[k_axis];
  const Buffer *panels = val(v)->panels, *left = val(v)->left;
  DType element = dot_element(kind, a->type.dtype);
  Place from_a, from_b, to;
  REQUIRE(place_of(g, a, &from_a) && place_of(g, v->args[1], &from_b) && place_of(g, v, &to));
  Loops loops = open_loops(g, v, 3u << (n - 2));
  const char *a_at = at_batch(g, &from_a, &loops, batch), *ld = expr_text(from_a.stride[n - 2]);
  if (left) {
    const char *packed = expr_text(left->stride[0]);
    line(g, "%s(%s, %s, %s, %s, %s, %s, %s, %s, 0);",
         pack_rows_text(g, kind, from_a.element, s.a_transposed), left->name, packed, a_at, ld,
         extent_text(g, m), extent_text(g, k), extent_text(g, m), packed);
    a_at = left->name;
    ld = packed;
  }
  const char *depth = expr_text(panel_depth(g, kind, DEMAND_FULL, k));
  line(g, "%s(%s, %s, %s, %s, %s, %s, %s, 0);",
       pack_panels_text(g, kind, from_b.element, s.b_transposed), panels->name, depth,
       at_batch(g, &from_b, &loops, batch), expr_text(from_b.stride[n - 2]), extent_text(g, k),
       extent_text(g, cols), extent_text(g, cols));
  const char *product = unique_name(g, "product");
  line(g, "const pk_dot_product %s = {", product);
  line(g, "  .rows = %s, .cols = %s, .k = %s,", extent_text(g, m), extent_text(g, cols),
       extent_text(g, k));
  line(g, "  .a = %s, .lda = %s, .panels = %s, .depth = %s,", a_at,
       mul_text(g, text(g, "%d", dtype_bytes(element)), ld), panels->name, depth);
  line(g, "  .to = %s, .ldto = %s, .padded = true,", at_batch(g, &to, &loops, batch),
       offset_text(g, "4", to.stride[n - 2]));
  line(g, "};");
  line(g, "pk_dot_product_%s(&%s);", kind->name, product);
  close_loops(g, &loops);
}

static void emit_contractions(Gen *g, Instr *v) {
  Loops loops = open_loops(g, v, 0);
  const char *of_label[DOT_LABELS] = {0}, *sum = unique_name(g, "sum");
  for (int i = 0; i < v->type.rank; i++) of_label[v->labels.out[i]] = loops.at[i];
  emit_contraction(g, v, of_label, sum);
  write(g, v, loops.at, v->type.dtype == DT_U32 ? text(g, "(uint32_t)%s", sum) : sum);
  close_loops(g, &loops);
}

// ---- strided and masked accesses, elementwise operations of 64-bit integers

static void emit_elements(Gen *g, Instr *v) {
  Loops loops = open_loops(g, v, 0);
  Context x = {.g = g};
  memcpy(x.index, loops.at, sizeof x.index);
  if (v->op == OP_STORE) {
    const Instr *mask = ir_mask(v);
    if (mask) open_block(g, "if (%s)", read(g, mask, loops.at));
    write(g, v, loops.at, read(g, ir_store_value(v), loops.at));
    if (mask) close_block(g);
  } else {
    write(g, v, loops.at, element_at(&x, v));
  }
  close_loops(g, &loops);
}

void emit_generic(Gen *g, const Group *group) {
  static void (*const emit[METHOD_COUNT])(Gen *, Instr *) = {
      [METHOD_ELEMENTS] = emit_elements,
      [METHOD_MOVE] = emit_move,
      [METHOD_TRANSPOSE] = emit_transpose,
      [METHOD_CONCATENATE] = emit_concatenate,
      [METHOD_PAD] = emit_pad,
      [METHOD_REDUCE] = emit_reduce,
      [METHOD_REDUCE_ROWS] = emit_reduce_rows,
      [METHOD_ARG_REDUCE] = emit_arg_reduce,
      [METHOD_SCAN] = emit_scan,
      [METHOD_SORT] = emit_sort,
      [METHOD_CONTRACT] = emit_contractions,
      [METHOD_PRODUCTS] = emit_products,
  };
  int taken = g->taken.count;
  line(g, "{ /* %s */", op_info[group->instr->op].name);
  g->indent++;
  emit[group->method](g, group->instr);
  close_block(g);
  g->taken.count = taken;
}

// ---- rank 0

void emit_scalar(Gen *g, Instr *v) {
  const char *zero[MAX_RANK] = {"0", "0", "0", "0", "0", "0", "0", "0"};
  Place p;
  if (v->op == OP_STORE) {
    REQUIRE(place_of(g, v, &p));
    const Instr *mask = ir_mask(v);
    line(g, "%spks_store_%s(%s, %s);", mask ? text(g, "if (%s) ", scalar_text(g, mask)) : "",
         dtype_info[p.element].name, p.pointer, scalar_text(g, ir_store_value(v)));
    return;
  }
  const char *name = unique_name(g, v->text && op_info[v->op].class != OPC_CONTROL
                                        ? v->text
                                        : text(g, "v%d", v->id)),
             *value;
  if (v->op == OP_DOT) {
    const char *of_label[DOT_LABELS] = {0}, *sum = unique_name(g, "sum");
    emit_contraction(g, v, of_label, sum);
    value = sum;
  } else if (v->op == OP_LOAD && ir_may_leave(v)) {
    value = element_at(&(Context){.g = g}, v);
  } else if (v->op == OP_LOAD) {
    REQUIRE(place_of(g, v, &p));
    value = text(g, "pks_load_%s(%s)", dtype_info[p.element].name, p.pointer);
  } else if (v->nargs && v->args[0]->type.rank > 0) {
    REQUIRE(v->op == OP_RESHAPE);
    value = read(g, v->args[0], zero);
  } else {
    value = scalar_text(g, v);
  }
  line(g, "const %s %s = %s;", scalar_type(v->type.dtype), name, value);
  val(v)->scalar = name;
}
