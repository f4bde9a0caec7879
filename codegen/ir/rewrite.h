// Rewriting of regions: one walk, and what the passes do on it.
#ifndef CODEGEN_IR_REWRITE_H
#define CODEGEN_IR_REWRITE_H

#include "codegen/ir/inside.h"

// A walk that rebuilds a region. Its rule sees one instruction after another; their arguments are
// the latest values already. What the rule puts goes before the instruction, which follows if the
// rule returns true and is left out otherwise.
typedef struct Rewriter Rewriter;
struct Rewriter {
  Kernel *k;
  bool (*rule)(Rewriter *w, Instr *v);
  void *context;         // of the rule
  Region *out;           // being rebuilt
  Span span;             // of the instruction at work, and of what is put before it
  const Around *around;  // the loops and conditions that it is in
};
void ir_rewrite(Rewriter *w, Region *region);
// The regions nested in an instruction. A rule calls it first, last or not at all.
void ir_rewrite_inside(Rewriter *w, Instr *v);
// What the rule leaves of a region, but for its YIELD, before the instruction at work; what that
// yields first, or NULL.
Instr *ir_splice(Rewriter *w, const Region *region);

// ---- before the instruction at work

Instr *ir_put(Rewriter *w, Op op, Type type, int nargs, ...);  // args: Instr *
Instr *ir_put_number(Rewriter *w, int64_t value);              // an i64
Instr *ir_put_cast(Rewriter *w, Instr *v, DType dtype);        // v, if it has that dtype
// The scalar in each element of a value of this shape; itself, for a shape without axes.
Instr *ir_put_spread(Rewriter *w, Instr *scalar, Type shape);

// ---- replacing an instruction

// v is what `by` is from here on. Its users stay, and so do its id, its name and its place in the
// source.
void ir_become(Instr *v, const Instr *by);
// v, which has one argument, becomes another operation of one argument, of the same type.
void ir_become_unary(Instr *v, Op op, Instr *arg);
// What follows in the walk uses `by` in place of v.
void ir_replace(Instr *v, Instr *by);

// ---- without a walk

void ir_remove(Region *region, int at);
void ir_insert_after(Kernel *k, Region *region, const Instr *earlier, Instr *v);

// Who uses what, by Instr.id, of all instructions that the kernel has so far.
typedef struct {
  int *count;           // as how many arguments
  const Region **home;  // the region that it is in
} Uses;
Uses ir_uses(const Kernel *k, const Region *body);

#endif
