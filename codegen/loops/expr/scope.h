// Names of variables that C text has: identifiers that nothing else uses.
#ifndef CODEGEN_LOOPS_SCOPE_H
#define CODEGEN_LOOPS_SCOPE_H

#include "codegen/ir/names.h"

// A name that was made of `base` and a number, and its place in `taken`: it is in use while it
// still has that place.
typedef struct NumberedName {
  const struct NumberedName *before;  // made of the same base
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
  int count, capacity, kept;  // kept: how many of `kept` it knows
} NameTable;

// Zeros but for the arena and the role: none is in use.
typedef struct {
  Arena *arena;
  NameRole role;
  LIST(const char *) taken;  // in the open scopes
  LIST(const char *) kept;   // in all of the function
  NameTable table;           // where each is in these lists
} Names;

// The first of base, base2, base3, .. that is free; taken until its scope is closed.
const char *unique_name(Names *n, const char *base);
// A name in all of the function, whatever scope is open.
const char *lasting_name(Names *n, const char *base);
// A stem such that `forms`, each with one %s for it, are names nothing else uses; lasting ones,
// from now on.
const char *name_family(Names *n, const char *source, const char *const *forms, int count);
void keep_name(Names *n, const char *name);  // in use from now on
int open_names(const Names *n);              // begins a scope, which
void close_names(Names *n, int opened);      // this closes: its names are free again

#endif
