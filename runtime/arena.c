/* Memory that a context keeps from call to call. */
#define _DEFAULT_SOURCE
#include "runtime/runtime.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static void *allocate(int64_t bytes, int64_t alignment) {
  void *data = NULL;
  if ((uint64_t)bytes > SIZE_MAX || posix_memalign(&data, (size_t)alignment, (size_t)bytes) != 0)
    return NULL;
#ifdef MADV_HUGEPAGE
  if (alignment == HUGE_PAGE) (void)madvise(data, (size_t)bytes, MADV_HUGEPAGE); /* only a hint */
#endif
  return data;
}

bool pk_memory_reserve(pk_memory *memory, int64_t bytes) {
  if (bytes <= memory->bytes) return true;
  int64_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
  if (bytes > INT64_MAX - alignment) return false;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void *data = allocate(bytes, alignment);
  if (!data) return false;
  free(memory->data);
  memory->data = data;
  memory->bytes = bytes;
  return true;
}

void pk_memory_free(pk_memory *memory) {
  free(memory->data);
  memory->data = NULL;
  memory->bytes = 0;
}
