// The processes that a launcher such as mpirun started together; each is a device of a mesh.
#include "codegen/run/run.h"

#include <stdio.h>
#include <stdlib.h>

// The environment variables that Open MPI's launcher and those of the PMI family (MPICH, Intel MPI,
// srun) set.
static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"},
                         *const numbers[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};

static int64_t number_in(const char *const *names, int64_t otherwise) {
  for (int i = 0; i < 2; i++) {
    int64_t value;
    const char *text = getenv(names[i]);
    if (text && parse_int(text, &value) && value >= 0) return value;
  }
  return otherwise;
}

int64_t world_count(void) {
  int64_t count = number_in(counts, 1);
  return count > 0 ? count : 1;
}

int64_t world_number(void) { return world_count() > 1 ? number_in(numbers, 0) : 0; }
