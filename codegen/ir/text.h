// The text form of the block IR, shared by its printer (text.c) and its reader (read.c).
//
//   kernel add from "add.pk" @3:8-3:11
//     size M @3:19-3:20
//     input $x: f32[256, 512] of f32[M, N] vmem blocks [256, 512] at block {
//       %0: i64 = axis i
//       yield %0
//     }
//     grid i parallel { .. }
//     body { .. }
//
// Line breaks have no meaning. A position `@line:column-line:column` follows its item, and is
// omitted if there is none. Without `from`, positions are those of the text itself.
#ifndef CODEGEN_IR_TEXT_H
#define CODEGEN_IR_TEXT_H

#include "codegen/ir/ir.h"

// semaphore_names: ir.h
extern const char *const space_names[], *const at_names[], *const role_names[];
enum {
  SPACE_COUNT = SPACE_VAR + 1,
  AT_COUNT = AT_SLICE + 1,
  ROLE_COUNT = REF_STATE + 1,
  SEMAPHORE_COUNT = SEM_BARRIER + 1
};

bool is_plain_name(const char *name);  // a letter or _, then letters, digits, _

#endif
