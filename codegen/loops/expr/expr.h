// Expressions of the loop IR that C evaluates at launch or in a step: extents, strides, bytes,
// indices and offsets, all of int64_t, and the scalars and conditions that these are made of.
//
// Equal expressions of one pool are one pointer. Integer constants are folded as the C would
// compute them; where C's + - * would overflow, the result is the nearest int64_t, and INT64_MAX
// represents "too much". Only integers are CONST, so floats are never folded or reordered.
#ifndef CODEGEN_LOOPS_EXPR_H
#define CODEGEN_LOOPS_EXPR_H

#include "codegen/ir/ir.h"

typedef enum {
  EXPR_CONST,
  EXPR_SYMBOL,
  EXPR_CODE,     // for emission only
  EXPR_LITERAL,  // a number of another type than int64_t
  EXPR_ADD,
  EXPR_SUB,
  EXPR_MUL,
  EXPR_SAT_ADD,  // pk_sat_add, pk_sat_mul: for nonnegative numbers
  EXPR_SAT_MUL,
  EXPR_MIN,
  EXPR_MAX,
  EXPR_FLOOR_DIV,
  EXPR_CEIL_DIV,
  EXPR_ROUND_UP,
  EXPR_DIV,  // C's own operators from here on
  EXPR_REM,
  EXPR_EQ,
  EXPR_NE,
  EXPR_LT,
  EXPR_LE,
  EXPR_GT,
  EXPR_GE,
  EXPR_AND,
  EXPR_OR,
  EXPR_NOT,
  EXPR_CAST,
  EXPR_CALL,
  EXPR_CHOOSE,
  EXPR_FUNCTION,
  EXPR_OPERATION,  // of the block IR, on scalars
  EXPR_NARROW,     // a result in 32 bits, converted to a narrow dtype
  EXPR_STRIDE,     // of an axis of an operand's array, in elements
  EXPR_DIM,        // the extent of a dimension
  EXPR_ELEMENT,    // of an operand's array, at the indices of a LIST
  EXPR_LIST,
} ExprKind;

// Functions of the runtime without effects.
typedef enum {
  FN_START,        // index, last: the index, clamped to its axis
  FN_IS_INDEX,     // index, extent: is it on the axis?
  FN_CLAMP,        // x, least, most
  FN_MUL,          // of any numbers
  FN_MOD,          // remainder with the sign of the divisor
  FN_SAT_HALF,     // half, rounded up; "too much" is preserved
  FN_ROW_LENGTH,   // extent, multiple, bytes of an element: the distance of rows in memory
  FN_SLOTS,        // revisits, bytes, most bytes: the number of blocks that are kept
  FN_BATCH_MOST,   // rows of a cell, most rows: the maximum number of cells in a batch
  FN_BATCHES,      // cells, run, most
  FN_BATCH_FIRST,  // batch, cells, run, most
  FN_ODD_I64,      // rounded to odd, so that rounding again to a narrow float is correct
  FN_COUNT
} ExprFunction;

enum { EXPR_ARGS = 4 };

typedef struct Expr Expr;
struct Expr {
  ExprKind kind;
  int64_t value;  // CONST, LITERAL of integers; FUNCTION: which; STRIDE, DIM, ELEMENT: the operand
  double number;  // LITERAL of floats
  const char *name;   // SYMBOL: its C name; CODE: C text; CALL: the function
  Op op;              // OPERATION
  DType from, dtype;  // OPERATION: of its last operand and of its result; others: of the result
  const Expr *definition;      // SYMBOL: the value of its declaration; NULL: declared elsewhere
  bool *read;                  // SYMBOL: whether C that reads it was printed
  const char **named;          // SYMBOL of expr_variable: its C name, once it has one
  const Expr *arg[EXPR_ARGS];  // NULL past the last; CHOOSE: condition, then, otherwise
};

// Zeros but for the arena is an empty pool.
typedef struct {
  Arena *arena;
  const Expr **at;  // a hash table
  int count, capacity;
} ExprPool;

const Expr *expr_const(ExprPool *pool, int64_t value);
const Expr *expr_symbol(ExprPool *pool, const char *name);
// A variable with this definition, different from a plain symbol of that name.
const Expr *expr_declared(ExprPool *pool, const char *name, const Expr *definition);
// A variable that gets its C name when its declaration is printed; until then `stem` represents it.
const Expr *expr_variable(ExprPool *pool, const char *stem);
void expr_name(const Expr *variable, const char *name);
// A primary expression of C without known properties. Only emission creates these.
const Expr *expr_code(ExprPool *pool, const char *c);
const Expr *expr_add(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_sub(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_mul(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_sat_add(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_sat_mul(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_min(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_max(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_floor_div(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_ceil_div(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_sat_half(ExprPool *pool, const Expr *a);              // half, rounded up
const Expr *expr_round_up(ExprPool *pool, const Expr *a, int64_t to);  // to a multiple of `to` > 0
// kind: from EXPR_DIV to EXPR_OR
const Expr *expr_operator(ExprPool *pool, ExprKind kind, const Expr *a, const Expr *b);
// Conjunction and disjunction of conditions; NULL: no condition.
const Expr *expr_and(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_or(ExprPool *pool, const Expr *a, const Expr *b);
const Expr *expr_not(ExprPool *pool, const Expr *a);
const Expr *expr_cast(ExprPool *pool, DType dtype, const Expr *a);  // to its scalars' C type
const Expr *expr_literal(ExprPool *pool, const Instr *constant);
const Expr *expr_operation(ExprPool *pool, const Instr *v, const Expr *const *args);
// The value of an element in a computation: `v` itself unless dtype is narrow.
const Expr *expr_narrow(ExprPool *pool, DType dtype, const Expr *v);
// Arguments past the last are NULL.
const Expr *expr_function(ExprPool *pool, ExprFunction function, const Expr *const args[EXPR_ARGS]);
const Expr *expr_stride(ExprPool *pool, int operand, const Expr *axis);
const Expr *expr_dim(ExprPool *pool, int operand, int axis);
const Expr *expr_element(ExprPool *pool, const Ref *operand, const Expr *const *index);
// A call of a function that emission names, without effects; arguments from the first NULL on are
// absent.
const Expr *expr_call(ExprPool *pool, const char *function, const Expr *a, const Expr *b,
                      const Expr *c);
const Expr *expr_choose(ExprPool *pool, const Expr *condition, const Expr *then,
                        const Expr *otherwise);

bool expr_is_const(const Expr *e, int64_t *value);
bool expr_is(const Expr *e, int64_t value);  // this constant
void expr_forget_reads(ExprPool *pool);      // marks all symbols as unread

#endif
