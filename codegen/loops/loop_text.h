// The loop IR as text: what `-dl` prints, and `explain` under Loops.
#ifndef CODEGEN_LOOPS_LOOP_TEXT_H
#define CODEGEN_LOOPS_LOOP_TEXT_H

#include "codegen/loops/loops.h"

const char *form_text(Form form);
// Why a value is in memory, or "" when it is not known.
const char *why_kept(Gen *g, const Instr *v);
// "%127 s = select": id, name in the source where there is one, operation.
const char *instr_text(Gen *g, const Instr *v);

// Both write to g->loops, if there is any, at the generator's indentation.
void print_fetch(Gen *g, const RefGen *r);
void print_group(Gen *g, const Group *group);

#endif
