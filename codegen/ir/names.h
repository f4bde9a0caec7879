// Which names are taken in the C and the Python that pkc writes: the one place that knows.
#ifndef CODEGEN_NAMES_H
#define CODEGEN_NAMES_H

#include "dsl/base.h"

typedef enum {
  NAME_C_LOCAL,      // a variable of a generated function, a member of its arena
  NAME_C_PARAMETER,  // an operand in the header
  NAME_C_KERNEL,     // a kernel's function, which C and C++ programs link with
  NAME_PY_LOCAL,     // a parameter or variable of the Python function
  NAME_PY_FUNCTION,  // the Python function itself
  NAME_ROLES
} NameRole;

// Is it a word of the language, of its libraries or of our own headers that a name in this role
// must not be?
bool name_is_reserved(const char *name, NameRole role);

// What a local name of C is made from: the source's name, or one with letters before it where it
// begins as our headers' names or the implementation's do, so that a number behind it makes a free
// name sooner or later.
const char *name_c_base(Arena *arena, const char *name);

// The name of a kernel's function: the kernel's own where that is free, else with `_` behind it
// (docs/embedding.md). No two kernels get the same, since one that is such a name with underscores
// gets one more. In C `kernels` are all those of the file: beside a kernel `add`, whose description
// is `add_kernel`, a kernel of that name counts as taken.
const char *name_of_kernel(Arena *arena, const char *name, NameRole role,
                           const char *const *kernels, int count);

#endif
