// A binding's kernel or reference, interpreted on data of its own.
#define _GNU_SOURCE
#include "codegen/driver.h"

#include <string.h>
#include <sys/mman.h>

const char *interpret_binding(Arena *arena, Binding *binding, bool reference, Interpreted *result) {
  Kernel *k = binding->program.kernel;
  int count = k->inputs + k->outputs;
  *result = (Interpreted){.bytes = binding->total_bytes, .report = {.arena = arena}};
  int64_t *apart = NEW_ARRAY(arena, int64_t, count);  // places of the reference's aliased outputs
  for (int i = k->inputs; reference && i < count; i++) {
    apart[i] = result->bytes;
    if (k->refs.at[i]->alias && !add_array_bytes(&result->bytes, &binding->operands[i])) return "the outputs are too large";
  }
  const char *wrong = check_memory(arena, result->bytes);
  if (wrong) return wrong;
  result->memory = map_memory(result->bytes, -1);
  if (!result->memory) return "no memory for the arrays";
  wrong = bind_fill(binding, result->memory);
  if (wrong) return wrong;
  result->operands = NEW_ARRAY(arena, HostArray, count);
  memcpy(result->operands, binding->operands, sizeof *result->operands * (size_t)count);
  for (int i = k->inputs; reference && i < count; i++)
    if (k->refs.at[i]->alias) result->operands[i].data = (char *)result->memory + apart[i];
  if (reference)
    interpret_reference(k, binding->sizes, result->operands, &result->report);
  else
    interpret(k, binding->sizes, result->operands, &binding->check, &result->report);
  return NULL;
}

void interpreted_free(Interpreted *result) {
  if (result->memory) munmap(result->memory, result->bytes > 0 ? (size_t)result->bytes : 1);
  result->memory = NULL;
}
