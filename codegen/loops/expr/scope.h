// Names of variables that C text has: identifiers that nothing else uses.
#ifndef CODEGEN_LOOPS_SCOPE_H
#define CODEGEN_LOOPS_SCOPE_H

#include "codegen/ir/names.h"

// A name that consists of `base` and a number, and its position in `taken`: it is in use while it
// is at that position.
typedef struct NumberedName {
  const struct NumberedName *before;  // the previous name with the same base
  const char *name;
  int place, number;
} NumberedName;

typedef struct {
  const char *name;  // interned; NULL: a free slot
  int place;         // in `taken`
  bool kept;
  int all_kept;              // numbers from 1 on of kept names made of it, without a gap
  const NumberedName *last;  // taken name made of it
} NameUse;

typedef struct {
  NameUse *at;
  int count, capacity, kept;  // kept: the number of entries of `kept` that it includes
} NameTable;

// Zeros, except the arena and the role: no name is in use.
typedef struct {
  Arena *arena;
  NameRole role;
  LIST(const char *) taken;  // in the open scopes
  LIST(const char *) kept;   // in all of the function
  NameTable table;           // the position of each name in these lists
} Names;

// The first of base, base2, base3, .. that is free; taken until its scope is closed.
const char *unique_name(Names *n, const char *base);
// A name for the whole function, whatever scope is open.
const char *lasting_name(Names *n, const char *base);
// A stem such that `forms`, each with one %s for it, are unused names; they are reserved for the
// whole function.
const char *name_family(Names *n, const char *source, const char *const *forms, int count);
void keep_name(Names *n, const char *name);  // in use from now on
int open_names(const Names *n);              // begins a scope, which
void close_names(Names *n, int opened);      // this closes: its names are free again

#endif
