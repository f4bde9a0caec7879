// The naive reference as C: shared by its files.
#ifndef CODEGEN_NAIVE_INTERNAL_H
#define CODEGEN_NAIVE_INTERNAL_H

#include "codegen/ir/hidden.h"
#include "codegen/ir/ir.h"

// The place of a value of the reference in the C text.
typedef enum {
  IN_EXPRESSION,   // written out where it is used
  IN_ACCUMULATOR,  // a loop with a scalar accumulator just before the statement that uses it
  IN_SCALAR,       // a local variable (rank 0)
  IN_MEMORY        // its own array, filled by a loop nest
} Storage;

typedef struct {
  Storage place;
  int uses, depth;
  bool holds_loop;
  const char *name;
  int slot;
  const Region *home;  // the region that computes it
} NaiveValue;

typedef struct {
  Kernel *k;
  Arena *arena;
  Buf *out;
  int indent, loops, names, slots;  // loops: number of index variables used in the current nest
  int *position;                    // by size: its position in the C tables, bound sizes first
  const char *kind;                 // naive or judge, a part of every static name in the text
  bool wide;                        // uses long double
  bool bounded;                     // floats are pk_bound: values in binary64 with their errors
  Hidden hidden;
} Naive;

// ---- place.c
// fills Instr.note with NaiveValues, nested regions included
void naive_place(Naive *n, Region *region);
static inline NaiveValue *naive_value(const Instr *v) { return v->note; }

// ---- expr.c
#define naive_text(n, ...) arena_printf((n)->arena, __VA_ARGS__)
PRINTF_LIKE(2, 3) void naive_line(Naive *n, const char *format, ...);
const char *naive_size(Naive *n, int index);  // a run-time size
const char *naive_extent(Naive *n, Dim dim);
const char *naive_elements(Naive *n, const Type *type);  // the number of elements as an expression
const char *naive_ctype(const Naive *n, DType t);        // of a value in an expression
const char *naive_linear(Naive *n, const Type *type, const char *const *index);
const char *naive_open_loop(Naive *n, Dim extent);  // returns the index variable
void naive_close_loops(Naive *n, int count);
// The element of v at an index (one expression per axis). May write statements before the current
// one.
const char *naive_element(Naive *n, Instr *v, const char *const *index);
// with the dtype of an operand's memory
const char *naive_stored(Naive *n, DType t, const char *value);
// A cast value, in C.
const char *naive_cast(Naive *n, DType from, DType to, const char *a);
const char *naive_converted(Naive *n, DType t, const char *value);  // an integer, wrapped to t
const char *naive_rules(DType t);  // the error rules of the dtype of the computation
const char *naive_truth(Naive *n, const char *value);  // a bool as C's
const char *naive_rounded(Naive *n, DType t, const char *value);
const char *naive_summand(Naive *n, DType t, const char *value);  // an operand of a contraction

// ---- loop.c
// DOT, REDUCE, ARGREDUCE
const char *naive_accumulate(Naive *n, Instr *v, const char *const *index);
void naive_scan(Naive *n, Instr *v);  // fills v's memory

// ---- state.c: vars of the reference
void naive_declare_states(Naive *n);
const char *naive_loaded_state(Naive *n, const Instr *load, const char *const *index);
void naive_store_state(Naive *n, const Instr *store);

#endif
