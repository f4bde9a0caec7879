// Shared by the files of operations that are not loops over rows.
#ifndef CODEGEN_EMIT_GENERIC_H
#define CODEGEN_EMIT_GENERIC_H

#include "codegen/emit/internal.h"

// The open loops over the axes of a value, and their indices; 0 along an axis without a loop.
typedef struct {
  const Expr *at[MAX_RANK];
  int opened;
} Loops;

static inline const Expr *symbol(Gen *g, const char *name) { return expr_symbol(&g->exprs, name); }

// element_loops.c
const Expr *open_loop(CWriter *w, const char *base,
                      const Expr *end);                       // an index of its own, from 0
Loops open_loops(CWriter *w, const Instr *v, unsigned skip);  // skip: axes without a loop
void close_loops(CWriter *w, const Loops *loops);
const Expr *read_element(Gen *g, const Instr *v, const Expr *const *index);
void write_element(CWriter *w, const Instr *v, const Expr *const *index, const Expr *value);

// folds.c
void emit_reduce(CWriter *w, Instr *v);
void emit_reduce_rows(CWriter *w, Instr *v);
void emit_reduce_strips(CWriter *w, Instr *v);
void emit_arg_reduce(CWriter *w, Instr *v);
void emit_arg_rows(CWriter *w, Instr *v);
void emit_arg_lines(CWriter *w, Instr *v);
void emit_scan(CWriter *w, Instr *v);
void emit_scan_rows(CWriter *w, Instr *v);
void emit_scan_lines(CWriter *w, Instr *v);
void emit_sort(CWriter *w, Instr *v);
void emit_sort_lines(CWriter *w, Instr *v);

// contractions.c
void emit_contractions(CWriter *w, Instr *v);
void emit_products(CWriter *w, Instr *v);
void emit_wide_products(CWriter *w, Instr *v);
void emit_byte_products(CWriter *w, Instr *v);
// Declares `sum` and adds up all terms of one result element, whose index is in of_label.
void emit_contraction(CWriter *w, const Instr *v, const Expr **of_label, const Expr *sum);

#endif
