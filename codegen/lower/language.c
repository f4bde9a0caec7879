// Built-in functions and statements. These files lower expressions, so the files that lower
// expressions reach them only through l->language.
#include "codegen/lower/ops/ops.h"

#include <string.h>

static const Builtin *const functions[] = {elementwise_builtins, shape_builtins,
                                           reduce_builtins,      dot_builtins,
                                           conv_builtins,        bits_builtins,
                                           gather_builtins,      random_builtins,
                                           memory_builtins,      mesh_builtins,
                                           view_builtins,        scatter_builtins,
                                           other_builtins,       NULL};

const Language language = {functions, lower_method, lower_scoped, lower_pipeline};

static const Builtin *function_number(int index) {
  for (int t = 0; functions[t]; t++)
    for (const Builtin *b = functions[t]; b->name; b++)
      if (index-- == 0) return b;
  return NULL;
}

bool language_function(Arena *arena, int index, LanguageFunction *out) {
  const Builtin *b = function_number(index);
  if (!b) return false;
  *out = (LanguageFunction){.name = b->name};
  if (b->op && strcmp(op_info[b->op].name, b->name) == 0) out->meaning = op_info[b->op].meaning;
  out->count = builtin_parameters(arena, b, out->parameter);
  return true;
}
