// What the parts of the derivation share.
#ifndef CODEGEN_GRAD_INTERNAL_H
#define CODEGEN_GRAD_INTERNAL_H

#include "codegen/grad/grad.h"

// The gradient of a value, or its tangent: `value` where `mask` holds, else exactly 0. What `value`
// is elsewhere counts for nothing: it may be NaN. mask NULL: everywhere. value NULL: 0.
typedef struct {
  Instr *value, *mask;
} Adjoint;

// A loop around the instructions at work; the innermost first.
typedef struct Turn Turn;
struct Turn {
  const Turn *around;
  const Instr *loop;  // the FOR
};

typedef struct {
  Kernel *k;
  Diag *diag;
  Arena *arena;
  Region *out;       // where instructions go
  Region *top;       // the reference
  Span span;         // of what is being derived
  int count;         // the first id that is not of the reference as it was
  bool *active;      // by id: depends on what is derived by, and outputs depend on it
  Region **home;     // by id
  Adjoint *adjoint;  // by id
  Ref **sum;         // by id: the var that adds up the gradient, or NULL
  Ref **state;       // by state: the var of its gradient or tangent, or NULL
  bool *state_active;
  Instr **image;  // by id, in a loop or choice on its way back: the value computed again, or NULL
  const Turn *turn;
  LIST(Ref *) tapes;
  LIST(Span) tape_spans;  // of loops without a bound, by tape; {0, 0}: it has one
} Grad;

// ---- build.c: instructions at g->out
Instr *put(Grad *g, Op op, Type type, int nargs, ...);
Instr *put_like(Grad *g, Op op, Instr *a);            // of one operand, of its type
Instr *put_pair(Grad *g, Op op, Instr *a, Instr *b);  // of two, of their type
Instr *put_test(Grad *g, Op op, Instr *a, Instr *b);  // a comparison
Instr *put_number(Grad *g, double value, Type type);  // in each element
Instr *put_int(Grad *g, int64_t value, Type type);
Instr *put_index(Grad *g, int64_t value);
Instr *put_cast(Grad *g, Instr *v, DType dtype);
Instr *put_spread(Grad *g, Instr *v, Type shape);  // v broadcast to it
Instr *put_reshape(Grad *g, Instr *v, Type shape);
Instr *put_choice(Grad *g, Instr *c, Instr *a, Instr *b);
Instr *put_reduce(Grad *g, Op op, Instr *v, int64_t axes);
Instr *put_iota(Grad *g, Type shape, DType dtype, int axis);
Instr *put_extent(Grad *g, Dim dim);
Instr *put_load(Grad *g, Ref *ref);  // all of it
void put_store(Grad *g, Ref *ref, Instr *value);
bool is_number(const Instr *v, double *value);  // the same constant in each element
Dim dim_plus(Grad *g, Dim dim, int64_t by);
// A window of a var, of the shape of `type`; where value, a store.
Instr *put_window(Grad *g, Ref *ref, Instr *const *starts, const int64_t *strides, Type type,
                  Instr *value);
// A loop from 0 to an extent: instructions go into it until it is ended. Its variable.
typedef struct {
  Region *body, *outer;
  Instr *to, *at;
} Loop;
Instr *begin_loop(Grad *g, Loop *loop, Dim count);
void end_loop(Grad *g, Loop *loop);
Ref *new_state(Grad *g, const char *name, Type type);
Type working(Type type);  // of its gradient: accum of the dtype
// The value in the place at work, in the dtype of its gradient.
Instr *value_of(Grad *g, Instr *v);
Instr *wide(Grad *g, Instr *v);

// ---- table.c
typedef enum { KIND_SMOOTH, KIND_MOVES, KIND_OTHER, KIND_NOTHING, KIND_REFUSED, KIND_WALKED } Kind;
typedef void Give(Grad *g, Instr *v, Adjoint d);
typedef Adjoint Tangent(Grad *g, Instr *v);
typedef struct {
  Kind kind;
  const char *by[3];  // SMOOTH
  const char *why;    // REFUSED
  Give *give;
  Tangent *tangent;
} Derivative;
extern const Derivative derivatives[OP_COUNT];
// The expression of a SMOOTH operation's operand, of d in place of g.
Adjoint smooth_term(Grad *g, Instr *v, int operand, Adjoint d);

// ---- adjoint.c
Instr *settled(Grad *g, Adjoint d);  // with 0 where the mask does not hold
Adjoint masked(Grad *g, Adjoint d, Instr *mask);
Adjoint added(Grad *g, Adjoint a, Adjoint b);
Adjoint plain(Instr *value);
// Adds to elements of the var that adds up the gradient of v, from these on.
void give_part(Grad *g, Instr *v, Instr *const *starts, const int64_t *strides, Adjoint d);
// Adds to the gradient of v, where v has one.
void give(Grad *g, Instr *v, Adjoint d);
bool wants(const Grad *g, const Instr *v);  // has one
Adjoint tangent_of(Grad *g, Instr *v);      // forwards; value NULL: 0

// ---- moves.c, folds.c, dots.c: the functions of the table
// A piece of the axis, from an index on; picked: elements of x put there, 0 elsewhere.
Instr *piece(Grad *g, Instr *x, int axis, Instr *from, Dim size);
Give give_select, give_cast, give_broadcast, give_reshape, give_transpose, give_slice, give_concat,
    give_pad, give_roll, give_rev, give_window, give_take, give_take_along, give_reduce_sum,
    give_reduce_prod, give_extreme, give_cumsum, give_cumprod, give_running, give_sort, give_dot;
Tangent tangent_select, tangent_cast, tangent_moved, tangent_reduce_prod, tangent_extreme,
    tangent_cumprod, tangent_running, tangent_sort, tangent_dot;
bool gives_parts(const Instr *v);  // to its first operand: element by element of a var

#define TAPE_PREFIX "kept_"
// ---- loops.c: values of loops on the way back
Instr *again(Grad *g, Instr *v);  // what it was in this turn, from a var that has kept it
void compute_again(Grad *g, const Region *region);
void insert_at_top(Grad *g, const Region *added);  // of the reference, behind its ARRAYs

// ---- walk.c
void find_active(Grad *g, const bool *wrt);
void find_states(Grad *g);  // gives each var with a gradient one for that
void find_sums(Grad *g);    // and each value whose gradient is added up in a var
void start_sums(Grad *g, const Region *region);  // with 0, before its gradients are given
void reverse_region(Grad *g, const Region *region);
Adjoint finished(Grad *g, Instr *v);  // all of its gradient, once its users are done
void forward_region(Grad *g, Region *region);

// ---- clean.c
void clean(Grad *g);  // leaves out what no result needs, and what is there twice

#endif
