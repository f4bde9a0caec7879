// Integers of the block IR as affine functions of sizes, grid axes, loop variables and element
// indices, and conditions as sets of them: what safe.c decides by. All are parameters of libisl.
#ifndef CODEGEN_PROVE_SETS_H
#define CODEGEN_PROVE_SETS_H

#include "codegen/ir/ir.h"
#include "codegen/prove/isl.h"

// An upper and a lower bound of a set.
typedef struct {
  isl_set *may, *must;
} Sets;

enum { MOST_RATIOS = 2, MOST_RATIO = 16 };

// The variable of a loop, and its value in this iteration of a loop that is written out.
typedef struct {
  const Instr *arg;
  int64_t value;
} Fixed;

typedef struct {
  Arena *arena;
  Kernel *k;
  isl_ctx *ctx;
  Sets given;                      // the ranges of sizes, and the kernel's requirements
  const Instr *why;                // the first term since it was set to NULL that is not known
  int64_t device[MOST_MESH_AXES];  // the index of the device along each mesh axis
  LIST(Fixed) fixed;
  // Pairs of sizes whose quotient is a term, and what it is taken as in this pass.
  int ratios;
  struct {
    int64_t size[2];
    int64_t value;
  } ratio[MOST_RATIOS];
} Safe;

// A term is owned by the caller, NULL where it is not known; those that functions are given stay
// the caller's.
isl_pw_aff *term_number(const Safe *s, int64_t n);
isl_pw_aff *term_variable(const Safe *s, const char *name);
isl_pw_aff *term_extent(const Safe *s, Dim dim);
// Of an integer at an index along each of its axes.
isl_pw_aff *term_of(Safe *s, const Instr *v, isl_pw_aff *const *index);
Sets truth_of(Safe *s, const Instr *v, isl_pw_aff *const *index);
const char *loop_name(const Safe *s, const Instr *arg);

typedef isl_set *Comparison(isl_pw_aff *, isl_pw_aff *);  // takes both
// For terms that may be unknown: then both are possible.
Sets sets_compare(const Safe *s, Comparison *compare, isl_pw_aff *a, isl_pw_aff *b);  // takes both
Sets sets_all(const Safe *s);
Sets sets_none(const Safe *s);
Sets sets_copy(const Sets *a);
Sets sets_and(Sets a, Sets b);  // these take both
Sets sets_or(Sets a, Sets b);
Sets sets_not(const Safe *s, Sets a);
void sets_free(Sets *a);
// 0 <= a variable of that name < extent, which is taken.
Sets sets_range(const Safe *s, const char *name, isl_pw_aff *extent);

#endif
