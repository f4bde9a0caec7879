/* Memory that a context keeps from call to call. */
#include "runtime/platform.h"
#include "runtime/runtime.h"

enum { PAGE = 4096, HUGE_PAGE = PK_HUGE_PAGE };

bool pk_memory_reserve(pk_memory *memory, int64_t bytes) {
  if (bytes <= memory->bytes) return true;
  int64_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
  if (bytes > INT64_MAX - alignment) return false;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  void *data =
      (uint64_t)bytes > SIZE_MAX ? NULL : pk_allocate_aligned((size_t)bytes, (size_t)alignment);
  if (!data) return false;
  pk_free_aligned(memory->data);
  memory->data = data;
  memory->bytes = bytes;
  return true;
}

void pk_memory_free(pk_memory *memory) {
  pk_free_aligned(memory->data);
  memory->data = NULL;
  memory->bytes = 0;
}
