// The table of derivatives, and the expressions in it as instructions.
#include "codegen/grad/internal.h"
#include "dsl/ast.h"

#include <string.h>

enum {
#define SMOOTH(id, a, b, c) ROW_##id,
#define MOVES(id, give) ROW_##id,
#define OTHER(id, give, tangent) ROW_##id,
#define NOTHING(id) ROW_##id,
#define REFUSED(id, why) ROW_##id,
#define WALKED(id) ROW_##id,
#include "codegen/grad/derivatives.def"
  ROWS
};
_Static_assert((int)ROWS == (int)OP_COUNT, "one row of derivatives.def for each of ops.def");

const Derivative derivatives[OP_COUNT] = {
#define SMOOTH(id, a, b, c) [OP_##id] = {.kind = KIND_SMOOTH, .by = {a, b, c}},
#define MOVES(id, function) [OP_##id] = {KIND_MOVES, .give = function, .tangent = tangent_moved},
#define OTHER(id, function, forwards) \
  [OP_##id] = {KIND_OTHER, .give = function, .tangent = forwards},
#define NOTHING(id) [OP_##id] = {.kind = KIND_NOTHING},
#define REFUSED(id, reason) [OP_##id] = {.kind = KIND_REFUSED, .why = reason},
#define WALKED(id) [OP_##id] = {.kind = KIND_WALKED},
#include "codegen/grad/derivatives.def"
};

// ---- expressions

typedef struct {
  Grad *g;
  Instr *v;      // the instruction that is derived
  Instr *given;  // g
  Type type;     // of all that is computed
} Formula;

static Instr *evaluate(Formula *f, const Node *node);

static Instr *named(Formula *f, const char *name) {
  if (strcmp(name, "g") == 0) return f->given;
  if (strcmp(name, "y") == 0) return wide(f->g, f->v);
  REQUIRE(name[0] >= 'a' && name[0] < 'a' + f->v->nargs);
  return wide(f->g, f->v->args[name[0] - 'a']);
}

static Op operation_of(int binary) {
  static const Op ops[] = {
#define BINARY(id, spelling, precedence, operation) [BIN_##id] = OP_##operation,
#include "dsl/operators.def"
#undef BINARY
  };
  return ops[binary];
}

static Instr *evaluate_pair(Formula *f, const Node *node) {
  Op op = operation_of(node->op);
  Instr *a = evaluate(f, node->a), *b = evaluate(f, node->b);
  return op_info[op].class == OPC_COMPARE ? put_test(f->g, op, a, b) : put_pair(f->g, op, a, b);
}

static Instr *evaluate_call(Formula *f, const Node *node) {
  Instr *args[3] = {NULL};
  REQUIRE(node->list.count >= 1 && node->list.count <= 3);
  for (int i = 0; i < node->list.count; i++) args[i] = evaluate(f, node->list.at[i]);
  if (node->list.count == 3) return put_choice(f->g, args[0], args[1], args[2]);
  Op op = op_by_name(node->name);
  REQUIRE(op < OP_COUNT);
  return args[1] ? put_pair(f->g, op, args[0], args[1]) : put_like(f->g, op, args[0]);
}

static Instr *evaluate(Formula *f, const Node *node) {
  switch (node->kind) {
    case N_NAME:
      return named(f, node->name);
    case N_FLOAT:
      return put_number(f->g, node->fval, f->type);
    case N_UNARY:
      return put_like(f->g, OP_NEG, evaluate(f, node->a));
    case N_BINARY:
      return evaluate_pair(f, node);
    case N_CALL:
      return evaluate_call(f, node);
    default:
      INTERNAL("an expression of derivatives.def");
  }
}

static const Node *parse_formula(Grad *g, const char *text) {
  Source *source = NEW(g->arena, Source);
  source->path = "derivatives.def";
  source->text = arena_printf(g->arena, "fn d() = %s;", text);
  source->length = strlen(source->text);
  Diag *diag = diag_new(g->arena, source);
  const Node *file = parse(g->arena, source, diag);
  REQUIRE(diag_error_count(diag) == 0);
  return file->list.at[0]->a;
}

// In max(value, constant) and the like, a tie goes to the constant.
static const char *with_constant(const Instr *v, int operand) {
  double value;
  if ((v->op != OP_MAX && v->op != OP_MIN) || !is_number(v->args[1 - operand], &value)) return NULL;
  static const char *const text[2][2] = {{"where(a > b, g, 0.0)", "where(b > a, g, 0.0)"},
                                         {"where(a < b, g, 0.0)", "where(b < a, g, 0.0)"}};
  return text[v->op == OP_MIN][operand];
}

static bool is_mask(const Node *node) {
  return node->kind == N_CALL && strcmp(node->name, "where") == 0 &&
         node->list.at[2]->kind == N_FLOAT;
}

// g or -g; zeros remain zeros.
static bool is_same(const Node *node) {
  if (node->kind == N_UNARY) node = node->a;
  return node->kind == N_NAME && strcmp(node->name, "g") == 0;
}

Adjoint smooth_term(Grad *g, Instr *v, int operand, Adjoint d) {
  const char *text = with_constant(v, operand);
  const Node *node = parse_formula(g, text ? text : derivatives[v->op].by[operand]);
  Formula f = {.g = g, .v = v, .given = d.value, .type = working(v->type)};
  if (!is_mask(node)) return (Adjoint){evaluate(&f, node), d.mask, d.zero && is_same(node)};
  Instr *mask = evaluate(&f, node->list.at[0]);
  return masked(g, (Adjoint){evaluate(&f, node->list.at[1]), d.mask, false}, mask);
}
