// Built-in functions and statements. These files lower expressions, so the files that lower
// expressions reach them only through l->language.
#include "codegen/lower/ops/ops.h"

static const Builtin *const functions[] = {elementwise_builtins, shape_builtins,
                                           reduce_builtins,      dot_builtins,
                                           conv_builtins,        bits_builtins,
                                           gather_builtins,      random_builtins,
                                           memory_builtins,      mesh_builtins,
                                           view_builtins,        scatter_builtins,
                                           other_builtins,       NULL};

const Language language = {functions, lower_method, lower_scoped, lower_pipeline};
