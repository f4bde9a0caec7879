// Finds libisl and its functions.
#ifdef PKC_ISL
#include "codegen/prove/isl.h"

#include <dlfcn.h>
#include <string.h>

Isl isl;

// dlsym returns a pointer to data, whose bits are copied to the function pointer.
static bool find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

bool isl_load(void) {
  static const char *const names[] = {"libisl.so.23", "libisl.so.22", "libisl.so"};
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
    library = dlopen(names[i], RTLD_NOW);
  if (!library) return false;
  bool all = true;
#define F(name) all = find(library, "isl_" #name, &isl.name) && all;
  ISL_FUNCTIONS(F)
#undef F
  return all;
}
#endif
