// Loops over the elements of a value, and one element of an operand or of the result.
#include "codegen/emit/generic.h"

#include <string.h>

const Expr *open_loop(CWriter *w, const char *base, const Expr *end) {
  Gen *g = w->g;
  const char *i = unique_name(&w->names, base);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s++)", i, i, expr_text(end), i);
  return symbol(g, i);
}

Loops open_loops(CWriter *w, const Instr *v, unsigned skip) {
  Gen *g = w->g;
  Loops loops = {.opened = 0};
  const Instr *shape = v->op == OP_STORE ? ir_store_value(v) : v;
  for (int i = 0; i < shape->type.rank; i++) {
    loops.at[i] = number(g, 0);
    if ((skip >> i) & 1) continue;
    loops.at[i] =
        open_loop(w, text(g, "i%d", i), demand_expr(g, val(v)->demand[i], shape->type.dim[i]));
    loops.opened++;
  }
  return loops;
}

void close_loops(CWriter *w, const Loops *loops) {
  for (int i = 0; i < loops->opened; i++) close_block(w);
}

const Expr *read_element(Gen *g, const Instr *v, const Expr *const *index) {
  Context x = {.g = g};
  memcpy(x.index, index, (size_t)v->type.rank * sizeof *index);
  return argument_at(&x, v, false);
}

void write_element(CWriter *w, const Instr *v, const Expr *const *index, const Expr *value) {
  Gen *g = w->g;
  Place p;
  REQUIRE(place_of(g, v, &p));
  int rank = v->op == OP_STORE ? ir_store_value(v)->type.rank : v->type.rank;
  line(w, "pks_store_%s(%s, %s);", dtype_info[p.element].name, address(g, &p, rank, index),
       expr_text(value));
}
