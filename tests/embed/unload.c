/* Loads the library that its argument names, with the kernel of kernels/add.pk and the runtime,
 * calls the kernel on the default context, and unloads it: no thread of the runtime may be left in
 * its code. */
#define _DEFAULT_SOURCE
#include "../unit/threads.h"
#include "add.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 2048, COLUMNS = 1024 };
static float x[ROWS * COLUMNS], o[ROWS * COLUMNS];

typedef pk_status add_call(pk_context *, const DLTensor *, const DLTensor *, DLTensor *);

static bool call_and_unload(const char *path) {
  int64_t shape[2] = {ROWS, COLUMNS};
  DLTensor tx = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, to = tx;
  to.data = o;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL),
       *symbol = library ? dlsym(library, "add") : NULL;
  if (!symbol) return fprintf(stderr, "%s\n", dlerror()), false;
  add_call *call;
  memcpy(&call, &symbol, sizeof call);
  bool right =
      call(NULL, &tx, &tx, &to) == PK_OK && o[ROWS * COLUMNS - 1] == 2 && threads_of_process() == 2;
  right = dlclose(library) == 0 && right;
  return right && !dlopen(path, RTLD_NOW | RTLD_NOLOAD) && threads_become(1);
}

int main(int count, char **words) {
  x[ROWS * COLUMNS - 1] = 1;
  for (int i = 0; i < 10; ++i) {
    if (count != 2 || !call_and_unload(words[1])) return fprintf(stderr, "round %d failed\n", i), 1;
  }
  const pid_t child = fork(); /* it no longer calls the library */
  if (child == 0) _exit(0);
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    return fprintf(stderr, "fork failed\n"), 1;
  (void)printf("unloaded\n");
  return 0;
}
