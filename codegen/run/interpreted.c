// Interprets a binding's kernel or reference on a copy of the data.
#define _GNU_SOURCE
#include "codegen/run/run.h"

#include <string.h>
#include <sys/mman.h>

// Offsets of an output's additional arrays, after the operands.
typedef struct {
  int64_t apart;      // of the reference: the output itself, if it is an alias
  int64_t allowed;    // the allowed differences
  int64_t specified;  // of a body: one byte per element
} Extra;

static bool add_dtype(int64_t *bytes, const HostArray *output, DType dtype, int64_t *place) {
  HostArray array = *output;
  array.dtype = dtype;
  *place = *bytes;
  return add_array_bytes(bytes, &array);
}

static bool place_extra(const Ref *ref, const HostArray *output, bool reference, bool judges,
                        int64_t *bytes, Extra *extra) {
  if (reference && ref->alias && !add_dtype(bytes, output, output->dtype, &extra->apart))
    return false;
  if (judges && !add_dtype(bytes, output, DT_F64, &extra->allowed)) return false;
  return reference || add_dtype(bytes, output, DT_U8, &extra->specified);
}

static void note_extras(Arena *arena, Kernel *k, bool reference, bool judges, const Extra *extras,
                        Interpreted *result) {
  char *memory = result->memory;
  HostArray *outputs = result->operands + k->inputs;
  result->outputs = (Reference){outputs, NEW_ARRAY(arena, const double *, k->outputs)};
  result->allowed = judges ? NEW_ARRAY(arena, double *, k->outputs) : NULL;
  result->specified = reference ? NULL : NEW_ARRAY(arena, uint8_t *, k->outputs);
  for (int i = 0; i < k->outputs; i++) {
    if (reference && k->refs.at[k->inputs + i]->alias) outputs[i].data = memory + extras[i].apart;
    if (!reference) result->specified[i] = (uint8_t *)memory + extras[i].specified;
    if (!judges) continue;
    result->allowed[i] = (double *)(void *)(memory + extras[i].allowed);
    bool equal = reference && must_be_equal(k, i);
    if (!equal) result->outputs.allowed[i] = result->allowed[i];
  }
}

const char *interpret_binding(Arena *arena, Binding *binding, bool reference, bool judges,
                              Interpreted *result) {
  Kernel *k = binding->program.kernel;
  int count = k->inputs + k->outputs;
  *result = (Interpreted){.bytes = binding->total_bytes, .report = {.arena = arena}};
  Extra *extras = NEW_ARRAY(arena, Extra, k->outputs + 1);
  for (int i = 0; i < k->outputs; i++) {
    int operand = k->inputs + i;
    if (!place_extra(k->refs.at[operand], &binding->operands[operand], reference, judges,
                     &result->bytes, &extras[i]))
      return "the outputs are too large";
  }
  const char *wrong = check_memory(arena, result->bytes);
  if (wrong) return wrong;
  result->memory = map_memory(result->bytes, -1);
  if (!result->memory) return "no memory for the arrays";
  wrong = bind_fill(binding, result->memory);
  if (wrong) return wrong;
  result->operands = NEW_ARRAY(arena, HostArray, count);
  memcpy(result->operands, binding->operands, sizeof *result->operands * (size_t)count);
  note_extras(arena, k, reference, judges, extras, result);
  CheckOptions options = binding->check;
  options.allowed = result->allowed;
  options.specified = result->specified;
  if (reference)
    interpret_reference(k, binding->sizes, result->operands,
                        &(CheckOptions){.allowed = result->allowed}, &result->report);
  else
    interpret(k, binding->sizes, result->operands, &options, &result->report);
  return NULL;
}

void interpreted_free(Interpreted *result) {
  if (result->memory) munmap(result->memory, result->bytes > 0 ? (size_t)result->bytes : 1);
  result->memory = NULL;
}
