// Calls of Linux that the compiler makes to run programs and that WebAssembly does not have. They
// fail, so the verbs that run programs say that they cannot.
#include <errno.h>

int memfd_create(const char *name, unsigned flags);
int prctl(int option, ...);

int memfd_create(const char *name, unsigned flags) {
  (void)name, (void)flags;
  errno = ENOSYS;
  return -1;
}

int prctl(int option, ...) {
  (void)option;
  errno = ENOSYS;
  return -1;
}
