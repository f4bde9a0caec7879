// Shared by the files of the lowering: values, names, the context of an expression, and the
// functions that lower expressions and statements. refs.h: refs, their windows and views.
// ops/ops.h: built-in functions.
#ifndef CODEGEN_LOWER_INTERNAL_H
#define CODEGEN_LOWER_INTERNAL_H

#include "codegen/ir/array.h"
#include "codegen/lower/lower.h"

// ---- values of expressions

typedef enum {
  V_ERROR,  // reported already: suppresses further errors
  V_VOID,   // a function without a result
  V_INT,
  V_FLOAT,
  V_BOOL,
  V_DTYPE,
  V_STRING,  // known at compile time, exact
  V_LIST,    // [a, b] or (a, b)
  V_DATA,    // an instruction's result; i64 of rank 0 is an index scalar
  V_REF,     // a ref as such: an argument of a function
  V_COPY,    // the arguments of async_copy
  V_VIEW     // a view of a ref
} ValueKind;

typedef struct Value Value;
typedef struct Copy Copy;
typedef struct RefView RefView;
struct Value {
  ValueKind kind;
  DType dtype;
  int64_t ival;
  double fval, odd;  // odd: for an inexact fma, its sum rounded to odd, from which dtypes narrower
                     // than f64 are rounded once; otherwise 0
  const char *text;
  Instr *instr;
  Ref *ref;
  const Copy *copy;
  const RefView *view;
  const Value *items;
  int count;
};

static inline Value value_error(void) { return (Value){.kind = V_ERROR}; }
static inline Value value_int(int64_t v) { return (Value){.kind = V_INT, .ival = v}; }
static inline Value value_float(double v) { return (Value){.kind = V_FLOAT, .fval = v}; }
static inline Value value_bool(bool v) { return (Value){.kind = V_BOOL, .ival = v}; }
static inline Value value_dtype(DType t) { return (Value){.kind = V_DTYPE, .dtype = t}; }
static inline Value value_data(Instr *i) {
  return i ? (Value){.kind = V_DATA, .instr = i} : value_error();
}
static inline bool is_error(Value v) { return v.kind == V_ERROR; }
static inline bool is_number(Value v) { return v.kind == V_INT || v.kind == V_FLOAT; }
static inline bool is_static(Value v) {
  return is_number(v) || v.kind == V_BOOL || v.kind == V_DTYPE;
}
// where(c, 1, 0) with constants takes the dtype of its context, as the constants would: `items` are
// the two constants.
static inline bool is_weak(Value v) { return v.kind == V_DATA && v.count == 2; }
// An index scalar in another shape takes the integer dtype of its context: `items` is the scalar.
// So does a selection among indices and constants: `items` are the two sides and the condition.
static inline bool is_index_choice(Value v) { return v.kind == V_DATA && v.count == 3; }
static inline bool is_spread_index(Value v) {
  return v.kind == V_DATA && (v.count == 1 || v.count == 3);
}
static inline bool is_index(Value v) {
  return v.kind == V_DATA && v.instr->type.dtype == DT_I64 && v.instr->type.rank == 0;
}

// ---- names

typedef enum {
  SYM_STATIC,
  SYM_SIZE,
  SYM_AXIS,
  SYM_MESH,
  SYM_OPERAND,
  SYM_SCRATCH,
  SYM_VAR,  // these may not be hidden
  SYM_LET,
  SYM_PRELUDE,
  SYM_LOOP,
  SYM_PARAMETER,  // a PRELUDE is a `let` among the declarations
  SYM_ARRAY,
  SYM_ITERATION  // in a program: a temporary, the variable of a loop
} SymbolKind;

typedef struct Symbol Symbol;
struct Symbol {
  const char *name;
  Symbol *next;   // the previous declaration; a scope is its newest symbol
  Symbol *far;    // an earlier declaration, by which any ancestor is reached in few steps (names.c)
  Symbol *other;  // the previous declaration with the same hash, in any scope
  int depth;      // number of symbols before it in its scope
  SymbolKind kind;
  Span span;
  Value value;       // STATIC, LET, LOOP, PARAMETER; PRELUDE: as last evaluated, in `region`
  Ref *ref;          // OPERAND, SCRATCH, VAR
  int index;         // SIZE, AXIS, ARRAY, ITERATION; PRELUDE: which of the LET's names
  Instr *extent;     // LOOP: of a pipeline's axis
  const Node *node;  // PRELUDE: the LET
  Symbol *scope;     // PRELUDE: the scope that it sees
  Region *region;
  bool busy;
  bool poisoned;  // its declaration was an error: uses are not reported
};

typedef struct Function Function;
struct Function {
  const char *name;
  const Node *node;
  Symbol *scope;       // the scope of its body, without its parameters
  Function **visible;  // the functions visible in its body
  bool busy;           // being inlined
  bool failed;         // an error was found in it: reported once
  Function *next;
};

// ---- the context of an expression, which determines what it may use

typedef enum {
  IN_STATIC,
  IN_SHAPE,
  IN_SIZE,
  IN_EXTENT,
  IN_MAP,
  IN_REQUIRE,
  IN_PAD,
  IN_ARGUMENT,
  IN_BODY,
  IN_REFERENCE
} ExprContext;

typedef struct Frame Frame;
struct Frame {
  Region *region;
  Frame *up;
};

typedef enum { LOOP_NONE, LOOP_RUNTIME, LOOP_UNROLLED } LoopKind;

typedef struct Language Language;

typedef struct Lower {
  Arena *arena;
  Diag *diag;
  const LowerOptions *options;
  const Language *language;
  const Source *source;
  const Node *file, *node;     // node: the KERNEL or PROGRAM
  const struct Lower *caller;  // the lowering of the program that calls it, else NULL
  struct Lowered *
      *programs;  // the programs that were lowered for calls, here or in another program
  Kernel *k;
  int quotients;  // nesting of requests for the form of a dividend
  ExprContext place;
  Frame *frame;               // instructions go to frame->region
  const Region *whole;        // in the reference: outputs are assigned here, outside its loops
  Symbol *declared[1 << 14];  // by hash: the newest symbol of all scopes
  Symbol *scope;
  Symbol *root;         // the scope of all declarations
  Function *functions;  // the visible functions
  Function *file_functions, *kernel_functions;
  const Node *prelude;  // the `let` among the declarations that is being evaluated
  LoopKind loop;
  int unsure;    // number of enclosing loops and conditions: what is lowered may never run
  bool lengths;  // windows may have run-time lengths, as in copies
  int depth;     // of inlined functions
  bool talks;    // copies or signals go to other devices
  Ref *barrier;  // the semaphore of barrier(), if there is one
  int64_t work;  // expressions and statements lowered so far
  bool stopped;  // the limit was reached and reported
  LIST(const Ref *) broken;    // refs whose declaration was an error: uses are not reported
  const Node **spec;           // by ref id: the SPEC of an operand's block, or NULL
  bool *stored;                // by ref id: is any element stored?
  Instr **array;               // in the reference: the value of operand k by name
  LIST(const Symbol *) known;  // all that were declared, if options->facts takes them
} Lower;

enum {
  MAX_WORK = 300000,
  MAX_UNROLL = 4096,
  MAX_INLINE = 64,
  MAX_LIST = 4096,
  MAX_INDEX_TERMS = 10000
};

// ---- frame.c
static const Type no_result = {.dtype = DT_COUNT};
// begins a region that receives instructions; frame is on the caller's stack
Region *enter_region(Lower *l, Frame *frame);
void leave_region(Lower *l);
void reenter_region(Lower *l, Frame *frame, Region *region);
// counts one step of work; returns true, after reporting it, if there was too much
bool over_budget(Lower *l, Span span);
Instr *yield_from(Lower *l, Instr *v, Span span);  // ends the current region with YIELD v
int size_index(Lower *l, const char *name);        // -1 if there is none
int add_derived_size(Lower *l, const char *name, Span span, Region *value);
int part_size(Lower *l,
              const Instr *v);  // in a kernel with a mesh: the size that is M / 4; -1: none

// ---- value.c
Instr *emit(Lower *l, Op op, Type type, Span span, int nargs, Instr *const *args);
Instr *emit1(Lower *l, Op op, Type type, Span span, Instr *a);
Instr *emit2(Lower *l, Op op, Type type, Span span, Instr *a, Instr *b);
Instr *index_op(Lower *l, Op op, Instr *a, Instr *b, Span span);  // of i64 scalars
Instr *index_const(Lower *l, int64_t value, Span span);           // i64
Instr *dim_value(Lower *l, Dim dim, Span span);                   // an extent as an i64
const char *type_text(Lower *l, const Type *type);                // f32[BM, N]
const char *shape_text(Lower *l, const Type *type);               // [BM, N]
const char *dim_text(Lower *l, Dim dim);
const char *value_text(Lower *l, Value v);      // its type, for messages
const char *expression_text(const Node *node);  // canonical source text
Type with_dtype(Type type, DType dtype);
DType natural_dtype(Value v);  // the dtype of a value that no other value determines
bool static_fits(Value v, DType dtype);
// NULL, after reporting it, if it does not fit
Instr *constant_of(Lower *l, Value v, DType dtype, Span span);
// converts to exactly this dtype by the rules, or reports an error
Instr *convert(Lower *l, Value v, DType dtype, Span span, const char *what);
Instr *data_of(Lower *l, Value v, Span span);  // any number or data as an instruction
bool common_dtype(Lower *l, const Value *v, int count, Span span, const char *what, DType *dtype);
bool common_shape(Lower *l, Instr *const *v, int count, Span span, const char *what, Type *shape);
// v with that dtype and shape, which must be possible
Instr *broadcast_to(Lower *l, Instr *v, const Type *shape, Span span);
// false, after reporting it, if it is larger than any memory
bool check_ref_elements(Lower *l, const Ref *ref);
bool can_broadcast(const Type *from, const Type *to);
// v itself if it has the shape
Instr *reshape_to(Lower *l, Instr *v, const Type *shape, Span span);
// to one dtype and one shape
bool unify(Lower *l, const Value *v, int count, Span span, const char *what, Instr **out);
double as_double(Value v);
const char *axes_text(Lower *l, const Ref *ref);

// ---- expr.c
Value lower_expr(Lower *l, const Node *node);
// in a region that is then dropped, for what may not emit instructions
Value lower_aside(Lower *l, const Node *node);
Value lower_binary(Lower *l, const Node *node, int op, Value a, Value b);
Value lower_select(Lower *l, Value c, Value a, Value b, Span span);
// NULL, after reporting it, if v is not an integer scalar
Instr *convert_index(Lower *l, Value v, Span span);
Instr *lower_index(Lower *l, const Node *node);                // an i64 scalar, NULL after an error
bool lower_condition(Lower *l, const Node *node, Value *out);  // V_BOOL or rank-0 bool data
bool lower_dtype(Lower *l, const Node *node, DType *out);
Value as_dtype(Lower *l, const Node *node, Value v);  // v, or the dtype that the node names
bool lower_static_int(Lower *l, const Node *node, const char *what, int64_t *out);
bool in_index_place(
    const Lower *l);  // extents, maps, requires, sizes: only integer scalars are allowed
// an ARRAY or TUPLE of constants and sizes
bool lower_shape(Lower *l, const Node *node, Type *out);
bool constant_dim(Lower *l, int64_t extent, Span span, Dim *out);
bool lower_dim(Lower *l, const Node *node, Dim *out);
bool lower_int_list(Lower *l, const Node *node, const char *what, int64_t *out, int capacity,
                    int *count);
// Several names or targets take the values of a list, one each: the value of the i-th of `count`.
Value one_of_several(Lower *l, const Node *value, Value v, int i, int count);
Value lower_lazy(Lower *l, Symbol *s);

// ---- fold.c
// false if one of them is not static
bool fold_binary(Lower *l, const Node *node, int op, Value a, Value b, Value *out);
Value fold_unary(Lower *l, const Node *node, Value a);
Value fold_one(Lower *l, Op op, Value a, Span span);  // an operation on one number
Value fold_fma(Value a, Value b, Value c);
// floordiv, mod, max, min, pow, .. of numbers
Value fold_function(Lower *l, Op op, Value a, Value b, Span span);
Op binary_op(int op);  // the operation of a BinaryOp

// ---- index.c
Value index_value(Lower *l, const Node *node, Value base);

// ---- call.c
Value lower_call(Lower *l, const Node *node);

// ---- stmt.c
void lower_statement(Lower *l, const Node *node);
Value lower_if_expr(Lower *l, const Node *node);
Region *lower_arm(Lower *l, const Node *items);  // an ITEMS or IF in its own region

// ---- names.c
Symbol *find_symbol(Lower *l, const char *name);
// reports duplicates and hiding; never NULL
Symbol *declare(Lower *l, SymbolKind kind, const char *name, Span span);
void unknown_name(Lower *l, const char *name, Span span);
bool same_but_case(const char *a, const char *b);
// "; did you mean `x`?" or ""
const char *suggestion(Lower *l, const char *name, const char *const *names, int count);
const char *suggest_kernel(Lower *l, const char *name);  // among those of the file
// what to write instead of a function of another language, or NULL
const char *written_out(const char *name);
const char *symbol_kind_text(SymbolKind kind);
Function *find_function(const Lower *l, const char *name);
void add_function(Lower *l, const Node *node);

// ---- facts.c
void tell_facts(Lower *l);  // adds facts about the known symbols to options->facts
// ---- statics.c
void lower_statics(Lower *l);
// ---- written.c
void lower_written_inputs(Lower *l);  // at the start of the body
void restore_inputs(Lower *l);        // after it
// ---- linear.c
typedef struct Linear Linear;
// A scalar as a linear form of sizes, or NULL.
Linear *linear_form(Lower *l, const Instr *v);
// The length of the slice from .. to (NULL: the end) of an axis with a step, as an axis; a size is
// added if none is known to be equal and it is a length in every call. *inside: the slice is in
// bounds in every call.
bool linear_slice(Lower *l, Linear *from, Linear *to, Dim dim, int64_t step, Dim *length,
                  bool *inside, Span span);
// The extent equal to a sum of sizes; added if no size is known to be equal. False: it is not a
// sum.
bool sum_dim(Lower *l, const Instr *v, Span span, Dim *out);
// Do both have as many elements in every call, given the `require`s?
bool same_elements(Lower *l, const Type *a, const Type *b);
// The same for an axis that does not have such a part in every call: the length becomes a size, and
// other calls are refused. False: a sum exceeds 64 bits.
bool slice_at_call(Lower *l, Linear *from, Linear *to, Dim dim, Dim *length, Span span);
// The extent of an axis that is longer by `by` elements; added if no size is known to be equal.
Dim shifted_dim(Lower *l, Dim dim, int64_t by, Span span);
// The product of extents as one extent, added as a size if there is none. False: it is too long.
bool product_dim(Lower *l, const Dim *dims, int count, Span span, Dim *joined);
// Of no extents: 1.
Instr *product_value(Lower *l, const Dim *dims, int count, Span span);
// The extent of two concatenated axes; added if no size is known to be equal.
Dim joined_dim(Lower *l, Dim a, Dim b, Span span);
// Is v = factor * size + constant, with a factor of at least 1?
bool solve_linear(Lower *l, const Instr *v, int size, int64_t *factor, int64_t *constant);
// The rest of v without that multiple; NULL: v is not a sum of multiples of sizes that include this
// one.
Instr *linear_rest(Lower *l, const Instr *v, int size, int64_t *factor, Span span);
// ---- size.c
void lower_signature(Lower *l);
void stay_in_hbm(Lower *l, Ref *ref);
// A call is refused unless both are equal.
void require_equal(Lower *l, Dim a, Dim b, Span span, const char *message);
bool lower_size_argument(Lower *l, const Node *node, Dim *dim);
// ---- entries.c
bool is_declaration(const Node *node);
// ---- decl.c
// integer arithmetic on scalars only, else an error
bool check_index_region(Lower *l, const Region *region);
// Sets the extents of a block; `_` is an axis of one element. Reports a wrong extent and returns
// false.
bool lower_block_axes(Lower *l, const Node *spec, Ref *ref);
void lower_declarations(Lower *l);
// The constant that `pad` gives, for the ref.
bool lower_pad_value(Lower *l, const Node *spec, Ref *ref);
// scope: the SCOPED it lives in, or NULL
void lower_scratch(Lower *l, const Node *node, Instr *scope);
void check_parallel(Lower *l);
void check_scales(Lower *l);
// Refuses calls in which the numbers of elements of two shapes do not compare so.
void require_at_call(Lower *l, Op op, const Type *a, const Type *b, Span span, const char *message);
// ---- mesh.c
bool lower_mesh(Lower *l);  // before the signature, whose shardings name its axes; false: errors
void lower_shard(Lower *l, const Node *shard, Ref *ref);
bool same_shard(const Ref *a, const Ref *b);
Dim part_dim(Lower *l, const Ref *ref, int axis);  // of an operand, what a device has
// `device = (dx = .., dy = ..)`: the other device's index along each axis of the mesh
bool lower_device(Lower *l, const Node *node, Instr **index);
bool check_reachable(Lower *l, const Ref *ref, Span span);  // by other devices
void check_devices(Lower *l);
// ---- reference.c
void lower_reference(Lower *l, const Node *reference,
                     int declarations);  // declarations: the number of items before its statements
// Of a REFERENCE with a signature: it, and the body that computes the same in one step.
void lower_own_reference(Lower *l);

#endif
