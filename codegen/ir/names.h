// The reserved names of the C and the Python that pkc writes.
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

// The base of a local name in C: the name in the source, with a prefix if it begins like a name of
// our headers or of the implementation, so that appending a number eventually gives a free name.
const char *name_c_base(Arena *arena, const char *name);

// The name of a kernel's function: the kernel's own if that is free, otherwise followed by `_`
// (docs/embedding.md). No two kernels get the same name, because a kernel that is such a name with
// underscores gets one more. In C, `kernels` are all those of the file: next to a kernel `add`,
// whose description is `add_kernel`, that name is taken.
const char *name_of_kernel(Arena *arena, const char *name, NameRole role,
                           const char *const *kernels, int count);

#endif
