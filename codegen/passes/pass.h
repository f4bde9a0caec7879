// The pass table: one row gives order, `-d` letter and help line of a pass. In and out: the block
// IR. Uses ir.
#ifndef CODEGEN_PASSES_PASS_H
#define CODEGEN_PASSES_PASS_H

#include "codegen/ir/ir.h"

// A pass rewrites the kernel in place and preserves its meaning. It writes each change and its
// reason to `notes`, one line each, which explain prints.
typedef struct {
  char letter;
  const char *name, *help;
  void (*run)(Kernel *k, Buf *notes);
} Pass;
extern const Pass passes[];
extern const int pass_count;

// ---- parts.c: stores in parts

// The axis of the ref that corresponds to axis `axis` of an access's window.
int window_axis(const Instr *access, int axis);
// Does a block provably end with its array along axis `k` of the ref? Stores in parts must not
// overhang.
bool never_overhangs(const Ref *ref, int k);
// The start of the window that begins `offset` elements further along an axis of the ref.
Instr *part_start(Kernel *k, Region *region, const Instr *access, int axis, int64_t offset);

// The passes, one a file.
void free_axes(Kernel *k, Buf *notes);
void forget_variables(Kernel *k, Buf *notes);
void unmask(Kernel *k, Buf *notes);
void move_moves(Kernel *k, Buf *notes);
void convert_branches(Kernel *k, Buf *notes);
void load_indexed(Kernel *k, Buf *notes);
void narrow_gathers(Kernel *k, Buf *notes);
void simplify(Kernel *k, Buf *notes);
void expand_powers(Kernel *k, Buf *notes);
void strip_columns(Kernel *k, Buf *notes);
void split_edges(Kernel *k, Buf *notes);
void canonicalise(Kernel *k, Buf *notes);
void narrow_operands(Kernel *k, Buf *notes);
void keep_bits(Kernel *k, Buf *notes);
void hoist_rows(Kernel *k, Buf *notes);
void widen_blocks(Kernel *k, Buf *notes);

// simplify.c: removes instructions on which no instruction with an effect depends.
void remove_unread(Kernel *k, Region *region);

// Called after each pass, for dumps and tests. `changed`: the pass changed the text of the kernel,
// as ir_print writes it.
typedef void AfterPass(const Pass *pass, Kernel *k, bool changed, void *context);
// Runs all passes, with the verifier after each. `after` may be NULL.
void run_passes(Kernel *k, Buf *notes, AfterPass *after, void *context);

#endif
