// The loop IR as text: what `-dl` prints, and `explain` under Loops.
#ifndef CODEGEN_LOOPS_LOOP_TEXT_H
#define CODEGEN_LOOPS_LOOP_TEXT_H

#include "codegen/loops/loops.h"

const char *form_text(Form form);
// Why a value is in memory, or "" if it is unknown.
const char *why_kept(Gen *g, const Instr *v);
// "%127 s = select": id, name in the source where there is one, operation.
const char *instr_text(Gen *g, const Instr *v);

void print_loops(Gen *g, Buf *out);    // all of it
void print_regions(Gen *g, Buf *out);  // the tree alone

#endif
