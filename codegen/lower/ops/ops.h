// Built-in functions: their tables, and the helpers that they are composed of.
#ifndef CODEGEN_LOWER_OPS_H
#define CODEGEN_LOWER_OPS_H

#include "codegen/lower/internal.h"

typedef struct Builtin Builtin;
typedef struct {
  const Node *node;
  const Builtin *builtin;
  const Node *arg[MAX_ARGUMENTS];
  const Node *const *rest;
  int rest_count;
} Call;
struct Builtin {
  const char *name;
  Value (*lower)(Lower *l, const Call *call);
  int op;
  const char *parameters;  // "a b out?": `?` is optional, `+` takes all further positional
                           // arguments, at least one; `*` any number
};
extern const Builtin elementwise_builtins[], shape_builtins[], reduce_builtins[], dot_builtins[],
    conv_builtins[], bits_builtins[], gather_builtins[], random_builtins[], memory_builtins[],
    mesh_builtins[], view_builtins[], scatter_builtins[], other_builtins[];

// ---- language.c: the elements of the language besides expressions and plain statements
Value lower_method(Lower *l, const Node *node);  // dma.c: .start() and .wait() of a copy
void lower_scoped(Lower *l, const Node *node);
void lower_pipeline(Lower *l, const Node *node);
struct Language {
  const Builtin *const *functions;  // NULL at the end
  Value (*method)(Lower *l, const Node *node);
  void (*scoped)(Lower *l, const Node *node);
  void (*pipeline)(Lower *l, const Node *node);
};
extern const Language language;

// ---- call.c
int builtin_parameters(Arena *arena, const Builtin *b, LanguageParameter *out);

// ---- ops/expand.c: instructions of one shape
typedef struct {
  Lower *l;
  Span span;
  Type shape;  // its dtype is ignored
} Expand;
Expand expand_like(Lower *l, const Instr *v, Span span);
Instr *expand_int(const Expand *e, DType dtype, int64_t value);
Instr *expand_float(const Expand *e, DType dtype, double value);
Instr *expand_number(const Expand *e, DType dtype, int64_t value);
Instr *expand1(const Expand *e, Op op, Instr *a);
Instr *expand2(const Expand *e, Op op, Instr *a, Instr *b);
Instr *expand_cast(const Expand *e, Instr *a, DType dtype);
Instr *expand_bits(const Expand *e, Instr *a, DType dtype);  // a bitcast
Instr *expand_select(const Expand *e, Instr *c, Instr *a, Instr *b);
Instr *expand_shift(const Expand *e, Op op, Instr *a, int places);
Instr *expand_mulhi(const Expand *e, Instr *a, Instr *b);  // ops/bits.c
Instr *take_axis(Lower *l, Instr *v, int axis, Instr *index, Span span);
Instr *transpose_to(Lower *l, Instr *v, const int *perm, Span span);

// ---- ops/dot.c
// `precision = "high"`; node NULL: none. False, after reporting it, if it is invalid.
bool lower_precision(Lower *l, const Node *node, Precision *precision);
// The dot with that precision: itself, or in a body the computation that --numerics selects
// instead.
Instr *with_precision(Lower *l, Instr *dot, Precision precision);

// ---- ops/bitcast.c
// The narrow element's bits in an unsigned integer of the width of `wide`.
Instr *narrow_bits(const Expand *e, Instr *v, DType packed, int wide);
// Element `index` of the elements packed in v, with the packed dtype.
Instr *narrow_part(const Expand *e, Instr *v, DType packed, int index);
// The type of a bitcast's result, of a value or a view: between widths the second-last axis grows
// or shrinks. False, after reporting it, if there is none.
bool check_bitcast(Lower *l, const Type *from, DType to, bool of_value, Span span, Type *out);
Instr *bitcast_to(Lower *l, Instr *v, DType dtype, Span span);

// ---- ops/shape.c, ops/reduce.c
Instr *lower_array(Lower *l, const Node *node);  // data, or a number as data of rank 0
// An axis number, counted from the end if negative. Without a node: axis 0 of a value of rank 1,
// otherwise an error.
bool lower_axis(Lower *l, const Node *node, int rank, Span span, int *axis);
bool lower_flag(Lower *l, const Node *node, bool otherwise, bool *out);
Value reduce_axes(Lower *l, Op op, Instr *v, int64_t axes, bool keep, Span span);
// the values of a list of arguments, which may contain lists
int collect_parts(Lower *l, const Call *call, const Value **parts);
// An axis of `out` elements: element i is element i * stride + start of v, or `fill` if that is out
// of bounds.
Instr *take_places(Lower *l, Instr *v, int axis, Dim out, int64_t stride, int64_t start,
                   Instr *fill, Span span);

#endif
