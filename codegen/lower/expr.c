// Expressions: operators, names, members, and checks where only some expressions are allowed.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

bool in_index_place(const Lower *l) { return l->place < IN_BODY; }

// ---- names

static const char *place_text(ExprContext place) {
  static const char *const text[] = {
      "a static",     "an operand's shape", "a size",      "a grid extent",
      "an index map", "a `require`",        "a pad value", "an index or a bound of a program",
      "the body",     "a reference"};
  return text[place];
}

static Value not_visible(Lower *l, const Symbol *s, Span span) {
  const char *where =
      l->prelude && l->place == IN_BODY ? "a `let` among the declarations" : place_text(l->place);
  diag_error(l->diag, span, ERR_NOT_VISIBLE, "the %s `%s` cannot be used in %s",
             symbol_kind_text(s->kind), s->name, where);
  diag_note(l->diag, s->span, "`%s` is declared here", s->name);
  return value_error();
}

static bool region_is_open(const Lower *l, const Region *region) {
  for (const Frame *f = l->frame; f->up;
       f = f->up)  // the outermost frame takes what belongs to no region
    if (f->region == region) return true;
  return false;
}

// A `let` among the declarations is evaluated again in every region that uses it.
Value one_of_several(Lower *l, const Node *value, Value v, int i, int count) {
  if (v.kind == V_LIST && v.count == count) return v.items[i];
  if (!is_error(v) && i == 0)
    diag_error(l->diag, value->span, ERR_NOT_SEVERAL, "%d names for %s", count,
               v.kind == V_LIST ? arena_printf(l->arena, "%d values", v.count) : "one value");
  return value_error();
}

// The value of a `let` among the declarations, which is lowered where it is first used.
Value lower_lazy(Lower *l, Symbol *s) {
  if (s->region && (s->value.kind != V_DATA || region_is_open(l, s->region))) return s->value;
  if (s->busy) {
    diag_error(l->diag, s->node->span, ERR_RECURSION, "the value of `%s` depends on itself",
               s->name);
    return value_error();
  }
  Symbol *scope = l->scope;
  const Node *prelude = l->prelude;
  s->busy = true;
  l->scope = s->scope;
  l->prelude = s->node;
  Value v =
      s->node->a->kind == N_IF_EXPR ? lower_if_expr(l, s->node->a) : lower_expr(l, s->node->a);
  if (s->node->list.count) v = one_of_several(l, s->node->a, v, s->index, s->node->list.count);
  l->scope = scope;
  l->prelude = prelude;
  s->busy = false;
  bool scalar = is_static(v) || is_error(v) || (v.kind == V_DATA && v.instr->type.rank == 0);
  if (!scalar) {
    diag_error(l->diag, s->node->span, ERR_NOT_A_SCALAR,
               "a `let` among the declarations is a scalar; this is %s", value_text(l, v));
    v = value_error();
  }
  s->value = v;
  s->region = l->frame->region;
  return v;
}

static Value leaf(Lower *l, Op op, int64_t index, Span span) {
  Instr *instr = emit(l, op, type_scalar(DT_I64), span, 0, NULL);
  instr->ival = index;
  return value_data(instr);
}

static Value bare_ref(Lower *l, Ref *ref, Span span) {
  if (is_broken(l, ref)) return value_error();
  if (ref->type.rank == 0) return load_ref(l, ref, span);
  if (!check_accessible(l, ref, span)) return value_error();
  diag_error(l->diag, span, ERR_BARE_REF, "`%s` is a ref, %s: read it as `%s[...]`", ref->name,
             type_text(l, &ref->type), ref->name);
  diag_note(l->diag, ref->span, "`%s` is declared here%s", ref->name, axes_text(l, ref));
  return value_error();
}

static Value bare_view(Lower *l, const Symbol *s, Span span) {
  diag_error(l->diag, span, ERR_BARE_REF, "`%s` is a view of a ref: read it as `%s[...]`", s->name,
             s->name);
  diag_note(l->diag, s->span, "`%s` is declared here", s->name);
  return value_error();
}

static Value name_operand(Lower *l, const Symbol *s, Span span) {
  if (is_broken(l, s->ref)) return value_error();
  if (l->place == IN_REFERENCE) {
    Instr *array = l->array[s->ref->id];
    if (array) return value_data(array);
    diag_error(l->diag, span, ERR_NOT_VISIBLE, "the output `%s` has no value yet", s->name);
    return value_error();
  }
  if (l->place == IN_BODY && !l->prelude) return bare_ref(l, s->ref, span);
  Ref *given = prefetched_of(l, s);
  return given ? bare_ref(l, given, span) : not_visible(l, s, span);
}

// The value of a symbol, if it may be used here.
static Value name_symbol(Lower *l, Symbol *s, Span span) {
  if (s->poisoned) return value_error();
  switch (s->kind) {
    case SYM_STATIC:
      return s->value;
    case SYM_SIZE:
      return l->place == IN_STATIC ? not_visible(l, s, span) : leaf(l, OP_SIZE, s->index, span);
    case SYM_AXIS:
      return l->place == IN_MAP || l->place == IN_BODY ? leaf(l, OP_AXIS, s->index, span)
                                                       : not_visible(l, s, span);
    case SYM_MESH:
      diag_error(
          l->diag, span, ERR_BAD_MESH,
          "`%s` is a mesh axis: device(%s) is the index along it, num_devices(%s) the extent",
          s->name, s->name, s->name);
      return value_error();
    case SYM_ITERATION:
      return l->place == IN_ARGUMENT ? leaf(l, OP_AXIS, s->index, span) : not_visible(l, s, span);
    case SYM_ARRAY:
      return not_visible(l, s, span);
    case SYM_OPERAND:
      return name_operand(l, s, span);
    case SYM_SCRATCH:
      return l->place == IN_BODY && !l->prelude ? bare_ref(l, s->ref, span)
                                                : not_visible(l, s, span);
    case SYM_VAR:
      return load_ref(l, s->ref, span);
    case SYM_PRELUDE:
      return lower_lazy(l, s);
    default:
      if (s->value.kind == V_VIEW) return bare_view(l, s, span);
      return s->value.kind == V_REF ? bare_ref(l, s->value.ref, span) : s->value;
  }
}

static Value lower_name(Lower *l, const Node *node) {
  Symbol *s = find_symbol(l, node->name);
  if (s) return name_symbol(l, s, node->span);
  if (strcmp(node->name, "inf") == 0) return value_float(__builtin_inf());
  if (strcmp(node->name, "nan") == 0) return value_float(__builtin_nan(""));
  DType dtype = dtype_by_name(node->name);
  if (dtype != DT_COUNT) return value_dtype(dtype);
  unknown_name(l, node->name, node->span);
  return value_error();
}

// ---- operators

// false < true: a < b is !a & b, a <= b is !a | b.
static Value order_bools(Lower *l, Op op, Instr *a, Instr *b, Span span) {
  bool swap = op_has(op, IF_GREATER), strict = !op_has(op, IF_EQUAL);
  Instr *low = swap ? b : a, *high = swap ? a : b;
  Instr *not_low = emit1(l, OP_NOT, low->type, span, low);
  return value_data(emit2(l, strict ? OP_AND : OP_OR, low->type, span, not_low, high));
}

static bool meets_index(const Value *v, const Value *other) {
  bool index = is_index(*other) || is_spread_index(*other);
  return index && !is_weak(*other) && v->kind == V_DATA && is_integer(v->instr->type.dtype);
}

// Comparisons of an index scalar with an integer value compare the true values, in 64 bits.
static void widen_compared(Lower *l, Value *v, const Value *other, Span span) {
  if (!meets_index(v, other) || is_wide(v->instr->type.dtype)) return;
  *v = value_data(emit1(l, OP_CAST, with_dtype(v->instr->type, DT_I64), span, v->instr));
}

static bool is_u64(const Value *v) { return v->kind == V_DATA && v->instr->type.dtype == DT_U64; }

// u64 has no negative values, so a negative index is less than every u64.
static Value compare_with_u64(Lower *l, Op op, Value a, Value b, Span span) {
  bool index_first = !is_u64(&a);
  Instr *index = index_first ? a.instr : b.instr, *both[] = {a.instr, b.instr}, *v[2];
  Type shape, truth = with_dtype(index->type, DT_BOOL);
  if (!common_shape(l, both, 2, span, "a comparison", &shape)) return value_error();
  Instr *zero = broadcast_to(l, index_const(l, 0, span), &truth, span);
  Instr *negative = emit2(l, OP_LT, truth, span, index, zero);
  both[!index_first] = emit1(l, OP_CAST, with_dtype(index->type, DT_U64), span, index);
  for (int i = 0; i < 2; i++) v[i] = broadcast_to(l, both[i], &shape, span);
  bool below = op_has(op, index_first ? IF_LESS : IF_GREATER);
  if (!below) negative = emit1(l, OP_NOT, truth, span, negative);
  shape.dtype = DT_BOOL;
  Instr *apart = emit2(l, op, shape, span, v[0], v[1]);
  return value_data(emit2(l, below ? OP_OR : OP_AND, shape, span,
                          broadcast_to(l, negative, &shape, span), apart));
}

// A binary operator on two lowered values.
Value lower_binary(Lower *l, const Node *node, int op, Value a, Value b) {
  Value folded;
  Instr *v[2];
  if (is_error(a) || is_error(b)) return value_error();
  if (fold_binary(l, node, op, a, b, &folded)) return folded;
  const char *what = arena_printf(l->arena, "`%s`", binary_spelling((BinaryOp)op));
  Op o = binary_op(op);
  bool comparison = op_info[o].class == OPC_COMPARE;
  if (comparison) {
    Value first = a;
    widen_compared(l, &a, &b, node->span);
    widen_compared(l, &b, &first, node->span);
    if ((is_u64(&a) && meets_index(&a, &b)) || (is_u64(&b) && meets_index(&b, &a)))
      return compare_with_u64(l, o, a, b, node->span);
  }
  Value both[] = {a, b};
  if (!unify(l, both, 2, node->span, what, v)) return value_error();
  DType dtype = v[0]->type.dtype;
  if (!op_takes(o, dtype)) {
    diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED, "%s is not defined for %s%s", what,
               dtype_info[dtype].name,
               dtype == DT_BOOL ? "; `&&`, `||`, `!` and comparisons are" : "");
    return value_error();
  }
  if (dtype == DT_BOOL && comparison && op != BIN_EQ && op != BIN_NE)
    return order_bools(l, o, v[0], v[1], node->span);
  Type type = comparison ? with_dtype(v[0]->type, DT_BOOL) : v[0]->type;
  return value_data(emit2(l, o, type, node->span, v[0], v[1]));
}

// ---- && and ||

static bool is_cheap(const Region *region) {
  if (region->instrs.count > 16) return false;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    bool plain =
        instr->op == OP_LOAD ? instr->ref->type.rank == 0 : op_info[instr->op].class <= OPC_CAST;
    if (!plain || instr->type.rank > 0) return false;
  }
  return true;
}

static void splice(Lower *l, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++)
    ir_append(l->k, l->frame->region, region->instrs.at[i]);
}

static bool check_bool(Lower *l, Value v, Span span, int op) {
  if (is_error(v) || v.kind == V_BOOL || (v.kind == V_DATA && v.instr->type.dtype == DT_BOOL))
    return !is_error(v);
  diag_error(l->diag, span, ERR_NOT_A_CONDITION, "`%s` requires bools, and this is %s",
             binary_spelling((BinaryOp)op), value_text(l, v));
  return false;
}

// Scalars short-circuit: the right side is in a branch of its own unless it costs nothing.
static Value early_stop(Lower *l, const Node *node, Instr *a, Instr *b, Region *region) {
  bool is_and = node->op == BIN_AND;
  Frame frame;
  Region *other = enter_region(l, &frame);
  yield_from(l, ir_const_int(l->k, other, DT_BOOL, !is_and, node->span), node->span);
  leave_region(l);
  ir_append(l->k, region, ir_new(l->k, OP_YIELD, no_result, node->span, 1, &b));
  Instr *choice = emit1(l, OP_IF, type_scalar(DT_BOOL), node->span, a);
  choice->regions[0] = is_and ? region : other;
  choice->regions[1] = is_and ? other : region;
  return value_data(choice);
}

// `&&` and `||`: the right side is evaluated only if the left side does not decide.
static Value lower_logical(Lower *l, const Node *node) {
  bool is_and = node->op == BIN_AND;
  Value a = lower_expr(l, node->a);
  bool good = check_bool(l, a, node->a->span, node->op);
  if (good && a.kind == V_BOOL && (a.ival != 0) != is_and) return a;
  Frame frame;
  Region *region = enter_region(l, &frame);
  Value b = lower_expr(l, node->b);
  leave_region(l);
  if (!check_bool(l, b, node->b->span, node->op) || !good) return value_error();
  if (b.kind == V_BOOL && (a.kind == V_BOOL || (b.ival != 0) == is_and))
    return a.kind == V_BOOL ? b : a;
  if (b.kind == V_BOOL && a.instr->type.rank == 0) return b;
  bool scalars =
      a.kind == V_DATA && b.kind == V_DATA && a.instr->type.rank == 0 && b.instr->type.rank == 0;
  if (scalars && !in_index_place(l) && l->place != IN_REFERENCE && !is_cheap(region))
    return early_stop(l, node, a.instr, b.instr, region);
  splice(l, region);
  if (a.kind == V_BOOL) return b;
  Instr *v[2];
  Value both[] = {a, b};
  if (!unify(l, both, 2, node->span, is_and ? "`&&`" : "`||`", v)) return value_error();
  return value_data(emit2(l, is_and ? OP_AND : OP_OR, v[0]->type, node->span, v[0], v[1]));
}

// ---- others

static Value lower_unary(Lower *l, const Node *node) {
  Value a = lower_expr(l, node->a);
  if (is_error(a)) return a;
  if (a.kind != V_DATA) return fold_unary(l, node, a);
  DType dtype = a.instr->type.dtype;
  bool good = node->op == UN_NOT   ? dtype == DT_BOOL
              : node->op == UN_NEG ? dtype != DT_BOOL
                                   : is_integer(dtype);
  if (!good) {
    static const char *const spelling[] = {"-", "!", "~"}, *const wants[] = {"numbers", "bools",
                                                                             "integers"};
    diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED, "`%s` requires %s, and this is %s",
               spelling[node->op], wants[node->op], value_text(l, a));
    return value_error();
  }
  return value_data(
      emit1(l, node->op == UN_NEG ? OP_NEG : OP_NOT, a.instr->type, node->span, a.instr));
}

// A number without a dtype of its own, among which at least one is an index: their choice takes the
// integer dtype it meets, as each of them does.
static bool has_index_dtype(Value v) {
  return v.kind == V_INT || is_weak(v) || is_index(v) || is_spread_index(v);
}

static void remember_choice(Lower *l, Value *out, Value c, Value a, Value b) {
  bool constants = is_static(a) && is_static(b) && is_number(a);
  bool indices = has_index_dtype(a) && has_index_dtype(b) && out->instr->type.dtype == DT_I64 &&
                 out->instr->type.rank > 0;
  if (!constants && !indices) return;
  Value *items = NEW_ARRAY(l->arena, Value, 3);
  items[0] = a;
  items[1] = b;
  items[2] = c;
  out->items = items;
  out->count = constants ? 2 : 3;
}

// where(c, a, b), also of constants.
Value lower_select(Lower *l, Value c, Value a, Value b, Span span) {
  if (is_error(c) || is_error(a) || is_error(b)) return value_error();
  bool constant = c.kind == V_BOOL;
  if (!constant && (c.kind != V_DATA || c.instr->type.dtype != DT_BOOL)) {
    diag_error(l->diag, span, ERR_NOT_A_CONDITION, "the condition of where is a bool, not %s",
               value_text(l, c));
    return value_error();
  }
  if (constant && (is_static(a) || is_static(b)) &&
      (a.kind == b.kind || (is_number(a) && is_number(b))))
    return c.ival ? a : b;
  Instr *v[3];
  Value sides[] = {a, b};
  if (!constant && is_static(a) && is_static(b) && a.kind == V_INT && b.kind == V_INT &&
      c.instr->type.rank == 0) {
    v[0] = constant_of(l, a, DT_I64, span);
    v[1] = constant_of(l, b, DT_I64, span);
  } else if (!unify(l, sides, 2, span, "where", v)) {
    return value_error();
  }
  if (constant) return value_data(v[!c.ival]);
  Type shape;
  Instr *all[] = {c.instr, v[0], v[1]};
  if (!common_shape(l, all, 3, span, "where", &shape)) return value_error();
  for (int i = 0; i < 3; i++) all[i] = broadcast_to(l, all[i], &shape, span);
  Value out = value_data(emit(l, OP_SELECT, all[1]->type, span, 3, all));
  remember_choice(l, &out, c, a, b);
  return out;
}

static Value lower_member(Lower *l, const Node *node) {
  static const char *const members[] = {"T"};
  Value a = lower_expr(l, node->a);
  if (is_error(a)) return a;
  if (strcmp(node->name, "T") != 0) {
    diag_error(l->diag, node->name_span, ERR_UNKNOWN_MEMBER, "values have no member `%s`%s",
               node->name, suggestion(l, node->name, members, 1));
    return value_error();
  }
  if (a.kind != V_DATA || a.instr->type.rank < 2) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH,
               "`.T` swaps the last two axes, and this is %s", value_text(l, a));
    return value_error();
  }
  int perm[MAX_RANK], rank = a.instr->type.rank;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  return value_data(transpose_to(l, a.instr, perm, node->span));
}

static Value lower_list(Lower *l, const Node *node) {
  Value *items = NEW_ARRAY(l->arena, Value, node->list.count + 1);
  bool good = true;
  for (int i = 0; i < node->list.count; i++) {
    items[i] = lower_expr(l, node->list.at[i]);
    good = good && !is_error(items[i]);
  }
  return good ? (Value){.kind = V_LIST, .items = items, .count = node->list.count} : value_error();
}

static Value lower_indexing(Lower *l, const Node *node) {
  Ref *ref = ref_of(l, node->a);
  if (ref) return lower_ref_read(l, node, ref);
  const RefView *view = named_view(l, node->a);
  if (view) return lower_view_read(l, node, view);
  Value base = lower_expr(l, node->a);
  return is_error(base) ? base : index_value(l, node, base);
}

static Value misplaced(Lower *l, const Node *node) {
  if (node->kind == N_ERROR) return value_error();
  diag_error(l->diag, node->span, ERR_BAD_INDEX, "`%s` is not allowed here", node_name[node->kind]);
  return value_error();
}

// The value of an expression.
Value lower_expr(Lower *l, const Node *node) {
  if (over_budget(l, node->span)) return value_error();
  switch (node->kind) {
    case N_INT:
      return value_int(node->ival);
    case N_FLOAT:
      return value_float(node->fval);
    case N_BOOL:
      return value_bool(node->ival != 0);
    case N_STRING:
      return (Value){.kind = V_STRING, .text = node->name};
    case N_NAME:
      return lower_name(l, node);
    case N_UNARY:
      return lower_unary(l, node);
    case N_BINARY: {
      if (node->op == BIN_AND || node->op == BIN_OR) return lower_logical(l, node);
      Value a = lower_expr(l, node->a), b = lower_expr(l, node->b);
      if (b.kind == V_DTYPE) a = as_dtype(l, node->a, a);
      if (a.kind == V_DTYPE) b = as_dtype(l, node->b, b);
      return lower_binary(l, node, node->op, a, b);
    }
    case N_CALL:
      return lower_call(l, node);
    case N_MEMBER:
      return lower_member(l, node);
    case N_METHOD:
      return l->language->method(l, node);
    case N_INDEX:
      return lower_indexing(l, node);
    case N_ARRAY:
    case N_TUPLE:
      return lower_list(l, node);
    case N_IF_EXPR:
      return lower_if_expr(l, node);
    default:
      return misplaced(l, node);
  }
}

Value lower_aside(Lower *l, const Node *node) {
  Frame frame;
  enter_region(l, &frame);
  const Value v = lower_expr(l, node);
  leave_region(l);
  return v;
}
