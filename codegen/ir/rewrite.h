// Rewriting of regions: one walk, and what the passes do on it.
#ifndef CODEGEN_IR_REWRITE_H
#define CODEGEN_IR_REWRITE_H

#include "codegen/ir/inside.h"

// A walk that rebuilds a region. Its rule sees one instruction after another; their arguments are
// the latest values already. Instructions that the rule adds come before that instruction, which
// follows if the rule returns true and is removed otherwise.
typedef struct Rewriter Rewriter;
struct Rewriter {
  Kernel *k;
  bool (*rule)(Rewriter *w, Instr *v);
  void *context;         // of the rule
  Region *out;           // being rebuilt
  Span span;             // of the current instruction, and of those added before it
  const Around *around;  // the loops and conditions that it is in
};
void ir_rewrite(Rewriter *w, Region *region);
// The regions nested in an instruction. A rule calls it first, last or not at all.
void ir_rewrite_inside(Rewriter *w, Instr *v);
// Adds a region, as rewritten and without its YIELD, before the current instruction. Returns the
// first yielded value, or NULL.
Instr *ir_splice(Rewriter *w, const Region *region);

// ---- before the current instruction

Instr *ir_put(Rewriter *w, Op op, Type type, int nargs, ...);  // args: Instr *
Instr *ir_put_number(Rewriter *w, int64_t value);              // an i64
Instr *ir_put_cast(Rewriter *w, Instr *v, DType dtype);        // v, if it has that dtype
// Broadcasts a scalar to this shape; the scalar itself for a shape without axes.
Instr *ir_put_spread(Rewriter *w, Instr *scalar, Type shape);

// ---- replacing an instruction

// Gives v the operation and operands of `by`. Its users, id, name and source range are unchanged.
void ir_become(Instr *v, const Instr *by);
// v, which has one argument, becomes another operation of one argument, of the same type.
void ir_become_unary(Instr *v, Op op, Instr *arg);
// Later instructions of the walk use `by` instead of v.
void ir_replace(Instr *v, Instr *by);

// ---- without a walk

void ir_remove(Region *region, int at);
void ir_insert_after(Kernel *k, Region *region, const Instr *earlier, Instr *v);

// The uses of all current instructions of the kernel, by Instr.id.
typedef struct {
  int *count;           // the number of arguments that it is
  const Region **home;  // the region that it is in
} Uses;
Uses ir_uses(const Kernel *k, const Region *body);

#endif
