// A binding's kernel or reference, interpreted on data of its own.
#define _GNU_SOURCE
#include "codegen/driver.h"

#include <string.h>
#include <sys/mman.h>

// Room, behind the operands, for what may differ from each element of the outputs, and (of a body) whether it is specified.
static bool add_judgement(int64_t *bytes, const HostArray *output, int64_t *allowed, int64_t *specified) {
  HostArray array = *output;
  array.dtype = DT_F32;
  *allowed = *bytes;
  if (!add_array_bytes(bytes, &array)) return false;
  array.dtype = DT_U8;
  *specified = *bytes;
  return add_array_bytes(bytes, &array);
}

static void note_judgement(Arena *arena, Kernel *k, bool reference, const int64_t *places, Interpreted *result) {
  result->outputs = (Reference){result->operands + k->inputs, NEW_ARRAY(arena, const float *, k->outputs)};
  result->allowed = NEW_ARRAY(arena, float *, k->outputs);
  if (!reference) result->specified = NEW_ARRAY(arena, uint8_t *, k->outputs);
  for (int i = 0; i < k->outputs; i++) {
    result->allowed[i] = (float *)(void *)((char *)result->memory + places[2 * i]);
    if (!reference) result->specified[i] = (uint8_t *)result->memory + places[2 * i + 1];
    bool equal = reference ? must_be_equal(k, result->outputs.outputs[i].dtype) : !is_float(result->outputs.outputs[i].dtype);
    if (!equal) result->outputs.allowed[i] = result->allowed[i];
  }
}

const char *interpret_binding(Arena *arena, Binding *binding, bool reference, bool judges, Interpreted *result) {
  Kernel *k = binding->program.kernel;
  int count = k->inputs + k->outputs;
  *result = (Interpreted){.bytes = binding->total_bytes, .report = {.arena = arena}};
  int64_t *apart = NEW_ARRAY(arena, int64_t, count);  // places of the reference's aliased outputs
  for (int i = k->inputs; reference && i < count; i++) {
    apart[i] = result->bytes;
    if (k->refs.at[i]->alias && !add_array_bytes(&result->bytes, &binding->operands[i])) return "the outputs are too large";
  }
  int64_t *places = NEW_ARRAY(arena, int64_t, 2 * k->outputs + 1);
  for (int i = 0; judges && i < k->outputs; i++)
    if (!add_judgement(&result->bytes, &binding->operands[k->inputs + i], &places[2 * i], &places[2 * i + 1]))
      return "the outputs are too large";
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
  if (judges) note_judgement(arena, k, reference, places, result);
  CheckOptions options = binding->check;
  options.allowed = result->allowed;
  options.specified = result->specified;
  if (reference)
    interpret_reference(k, binding->sizes, result->operands, result->allowed, &result->report);
  else
    interpret(k, binding->sizes, result->operands, &options, &result->report);
  return NULL;
}

void interpreted_free(Interpreted *result) {
  if (result->memory) munmap(result->memory, result->bytes > 0 ? (size_t)result->bytes : 1);
  result->memory = NULL;
}
