// Expressions as text: as C, and as explain prints them.
#include "codegen/loops/expr/notation.h"

enum {
  PRECEDENCE_CHOOSE,
  PRECEDENCE_LOGIC,
  PRECEDENCE_COMPARE,
  PRECEDENCE_ADD,
  PRECEDENCE_MUL,
  PRECEDENCE_UNARY,
  PRECEDENCE_ATOM
};

static const struct {
  const char *infix;
  int precedence;
} operators[EXPR_LIST + 1] = {
    [EXPR_ADD] = {" + ", PRECEDENCE_ADD},     [EXPR_SUB] = {" - ", PRECEDENCE_ADD},
    [EXPR_MUL] = {" * ", PRECEDENCE_MUL},     [EXPR_SAT_ADD] = {" + ", PRECEDENCE_ADD},
    [EXPR_SAT_MUL] = {" * ", PRECEDENCE_MUL}, [EXPR_DIV] = {" / ", PRECEDENCE_MUL},
    [EXPR_REM] = {" % ", PRECEDENCE_MUL},     [EXPR_EQ] = {" == ", PRECEDENCE_COMPARE},
    [EXPR_NE] = {" != ", PRECEDENCE_COMPARE}, [EXPR_LT] = {" < ", PRECEDENCE_COMPARE},
    [EXPR_LE] = {" <= ", PRECEDENCE_COMPARE}, [EXPR_GT] = {" > ", PRECEDENCE_COMPARE},
    [EXPR_GE] = {" >= ", PRECEDENCE_COMPARE}, [EXPR_AND] = {" && ", PRECEDENCE_LOGIC},
    [EXPR_OR] = {" || ", PRECEDENCE_LOGIC},
};

// The function that an operation is written as, or NULL.
static const char *name_of(const ExprWriter *w, ExprKind kind) {
  return kind <= EXPR_ROUND_UP ? w->notation->names[kind] : NULL;
}

static const char *infix_of(const ExprWriter *w, ExprKind kind) {
  return name_of(w, kind) ? NULL : operators[kind].infix;
}

static int precedence(const ExprWriter *w, const Expr *e) {
  if (e->kind == EXPR_CHOOSE) return PRECEDENCE_CHOOSE;
  if (e->kind == EXPR_NOT || e->kind == EXPR_CAST) return PRECEDENCE_UNARY;
  return infix_of(w, e->kind) ? operators[e->kind].precedence : PRECEDENCE_ATOM;
}

// The binding strength that an operand of an infix operator needs to go without parentheses.
// Comparisons within comparisons and `&&` within `||` get parentheses, although C does not require
// them.
static int least_operand(const ExprWriter *w, const Expr *e, int side) {
  int own = precedence(w, e);
  bool same = e->arg[side]->kind == e->kind;
  if (own == PRECEDENCE_COMPARE) return own + 1;
  if (side == 1) return w->notation->plain && same && own != PRECEDENCE_LOGIC ? own : own + 1;
  return own == PRECEDENCE_LOGIC && !same ? own + 1 : own;
}

static void put(ExprWriter *w, const Expr *e, int least);

void expr_put_call(ExprWriter *w, const char *function, const Expr *e) {
  buf_printf(w->out, "%s(", function);
  for (int i = 0; i < EXPR_ARGS && e->arg[i]; i++) {
    if (i) buf_puts(w->out, ", ");
    put(w, e->arg[i], PRECEDENCE_CHOOSE);
  }
  buf_putc(w->out, ')');
}

static void put_const(Buf *out, int64_t value) {
  if (value == INT64_MIN)
    buf_puts(out, "INT64_MIN");
  else
    buf_printf(out, "%lld", (long long)value);
}

static void put_choice(ExprWriter *w, const Expr *e) {
  put(w, e->arg[0], PRECEDENCE_LOGIC);
  buf_puts(w->out, " ? ");
  put(w, e->arg[1], PRECEDENCE_LOGIC);
  buf_puts(w->out, " : ");
  put(w, e->arg[2], PRECEDENCE_CHOOSE);
}

static void put_cast(ExprWriter *w, const Expr *e) {
  buf_putc(w->out, '(');
  w->notation->put(w, e);
  buf_putc(w->out, ')');
  put(w, e->arg[0], PRECEDENCE_UNARY);
}

static void put_symbol(ExprWriter *w, const Expr *e) {
  bool named = e->named && *e->named;
  if (e->read) *e->read = true;
  REQUIRE(w->notation->plain || !e->named || named);
  buf_puts(w->out, named ? *e->named : e->name);
}

static void put_infix(ExprWriter *w, const Expr *e) {
  put(w, e->arg[0], least_operand(w, e, 0));
  buf_puts(w->out, infix_of(w, e->kind));
  put(w, e->arg[1], least_operand(w, e, 1));
}

// Writes an expression without the parentheses around it.
static void put_bare(ExprWriter *w, const Expr *e) {
  if (name_of(w, e->kind)) {
    expr_put_call(w, name_of(w, e->kind), e);
    return;
  }
  if (infix_of(w, e->kind)) {
    put_infix(w, e);
    return;
  }
  switch (e->kind) {
    case EXPR_CONST:
      put_const(w->out, e->value);
      break;
    case EXPR_SYMBOL:
    case EXPR_CODE:
      put_symbol(w, e);
      break;
    case EXPR_CALL:
      expr_put_call(w, e->name, e);
      break;
    case EXPR_FUNCTION:
      expr_put_call(w, w->notation->functions[e->value], e);
      break;
    case EXPR_CHOOSE:
      put_choice(w, e);
      break;
    case EXPR_NOT:
      buf_putc(w->out, '!');
      put(w, e->arg[0], PRECEDENCE_UNARY);
      break;
    case EXPR_CAST:
      put_cast(w, e);
      break;
    default:
      w->notation->put(w, e);
  }
}

// In parentheses if it binds less strongly than `least`.
static void put(ExprWriter *w, const Expr *e, int least) {
  bool apart = precedence(w, e) < least;
  if (apart) buf_putc(w->out, '(');
  put_bare(w, e);
  if (apart) buf_putc(w->out, ')');
}

const char *expr_written(const Expr *e, const Notation *notation) {
  Buf buf = {0};
  put(&(ExprWriter){&buf, notation}, e, PRECEDENCE_CHOOSE);
  const char *result = intern(buf.text);
  buf_free(&buf);
  return result;
}

// ---- for people

static const char *const functions[FN_COUNT] = {
    [FN_START] = "start",
    [FN_IS_INDEX] = "is_index",
    [FN_CLAMP] = "clamp",
    [FN_MUL] = "mul",
    [FN_MOD] = "mod",
    [FN_SAT_HALF] = "half",
    [FN_ROW_LENGTH] = "row_length",
    [FN_SLOTS] = "slots",
    [FN_BATCH_MOST] = "batch_most",
    [FN_BATCHES] = "batches",
    [FN_BATCH_FIRST] = "batch_first",
    [FN_ODD_I64] = "odd",
};

static void put_of_operand(ExprWriter *w, const char *what, const Expr *e) {
  buf_printf(w->out, "%s(operand %d", what, (int)e->value);
  if (e->arg[1]) buf_puts(w->out, ", ");
  if (e->arg[1]) put(w, e->arg[1], PRECEDENCE_CHOOSE);
  buf_putc(w->out, ')');
}

// Writes an expression in the notation of the loop IR, if it has no operator or call.
static void put_plain(ExprWriter *w, const Expr *e) {
  switch (e->kind) {
    case EXPR_CAST:
      buf_puts(w->out, dtype_info[e->dtype].name);
      break;
    case EXPR_LITERAL:
      if (is_float(e->dtype))
        buf_printf(w->out, "%g", e->number);
      else
        put_const(w->out, e->value);
      break;
    case EXPR_OPERATION:
      expr_put_call(w, op_info[e->op].name, e);
      break;
    case EXPR_NARROW:
      expr_put_call(w, dtype_info[e->dtype].name, e);
      break;
    case EXPR_STRIDE:
      put_of_operand(w, "stride", e);
      break;
    case EXPR_DIM:
      put_of_operand(w, "extent", e);
      break;
    case EXPR_ELEMENT:
      put_of_operand(w, "element", e);
      break;
    case EXPR_LIST:
      put(w, e->arg[0], PRECEDENCE_CHOOSE);
      if (!e->arg[1]) break;
      buf_puts(w->out, ", ");
      put_plain(w, e->arg[1]);
      break;
    default:
      INTERNAL("an expression without a form for people");
  }
}

static const Notation plain_notation = {
    .names = {[EXPR_MIN] = "min",
              [EXPR_MAX] = "max",
              [EXPR_FLOOR_DIV] = "floordiv",
              [EXPR_CEIL_DIV] = "cdiv",
              [EXPR_ROUND_UP] = "round_up"},
    .functions = functions,
    .put = put_plain,
    .plain = true,
};

const char *expr_plain(const Expr *e) { return expr_written(e, &plain_notation); }
