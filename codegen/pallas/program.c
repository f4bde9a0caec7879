// The functions of kernels and programs, and the file that they are in.
#include "codegen/ir/flow.h"
#include "codegen/pallas/internal.h"
#include "codegen/pallas/pallas.h"

#include <string.h>

// ---- a kernel

static void refuse_wide(Instr *v, void *context) {
  bool wide = has_result(v) && is_wide(v->type.dtype) && v->type.dtype != DT_I64;
  if (wide) py_fail(context, v->span, "%s", dtype_info[v->type.dtype].name);
}

static bool is_refused(Py *p) {
  for (int i = 0; i < p->k->refs.count; i++) {
    const Ref *ref = p->k->refs.at[i];
    if (is_wide(ref->type.dtype) && ref->type.rank + ref->array.rank > 0)
      py_fail(p, ref->span, "`%s` is an array of %s", ref->name, dtype_info[ref->type.dtype].name);
  }
  const Ref *empty = py_empty_ref(p->k);
  if (empty)
    py_fail(p, empty->span, "`%s` has no elements, and Pallas has no empty blocks", empty->name);
  ir_walk(p->k->body, refuse_wide, p);
  return diag_error_count(p->diag) > 0;
}

// The function of a kernel.
static void put_function(Py *p, Buf *out) {
  if (is_refused(p)) return;
  Buf body = {0};
  py_start_kernel(p);
  p->out = &body;
  p->indent = 2;
  p->body = true;
  py_count_uses(p, p->k->body);
  py_region(p, p->k->body, 0);
  p->body = false;
  p->out = out;
  p->indent = 0;
  py_signature(p);
  py_sizes(p);
  py_checks(p);
  py_refuse_empty(p);
  py_kernel_call(p, &body);
  p->indent = 0;
  buf_free(&body);
}

// ---- a program

// A kernel's function, as the program calls it; the helpers that it calls are the program's.
static void put_callee(Py *p, int number, Buf *out) {
  Kernel *callee = p->k->flow->callees.at[number].kernel;
  ir_take_parts(callee);
  if (!py_writes_pipelines(callee)) ir_expand_pipelines(callee);
  Py python = {.k = callee, .arena = p->arena, .diag = p->diag, .function = callee->symbol};
  put_function(&python, out);
  p->pads |= python.pads;
  p->strides |= python.strides;
  p->fills |= python.fills;
  p->windows |= python.windows;
  p->callee_size[number] = python.size;
}

static void start_program(Py *p) {
  const Flow *flow = p->k->flow;
  py_start_kernel(p);
  p->axis = NEW_ARRAY(p->arena, const char *, flow->variables + 1);
  p->axis_used = NEW_ARRAY(p->arena, bool, flow->variables + 1);
  p->axis_bounds = NEW_ARRAY(p->arena, Interval, flow->variables + 1);
  for (int i = 0; i < flow->variables; i++) p->axis_bounds[i] = interval_counter;
  for (int i = 0; i < flow->steps.count; i++) {
    const FlowStep *step = &flow->steps.at[i];
    if (step->kind == FLOW_FOR)
      p->axis[step->variable] =
          py_name(p, strcmp(step->name, "_") == 0 ? "iteration" : step->name, NULL);
  }
}

// Names by array: an aliased output is its input. A spare has no name, since nothing is updated in
// place in Python.
static const char **array_names(Py *p) {
  const Flow *flow = p->k->flow;
  const char **names = NEW_ARRAY(p->arena, const char *, flow->arrays.count + 1);
  for (int i = 0; i < flow->arrays.count; i++)
    names[i] = flow_root(p->k, i) != i      ? names[flow_root(p->k, i)]
               : flow_is_temporary(p->k, i) ? py_name(p, flow->arrays.at[i].name, NULL)
                                            : p->ref[i];
  return names;
}

// Arrays that are assigned in parts, and outputs that a loop without iterations leaves unassigned,
// begin as zeros.
static void put_empty_arrays(Py *p, const char *const *names) {
  const Flow *flow = p->k->flow;
  bool *whole = NEW_ARRAY(p->arena, bool, flow->arrays.count + 1);
  for (int i = 0; i < p->k->inputs; i++) whole[i] = true;
  for (int i = 0; i < flow->steps.count; i++) {
    const FlowStep *step = &flow->steps.at[i];
    if (step->kind != FLOW_CALL) continue;
    const Kernel *callee = flow->callees.at[step->callee].kernel;
    for (int o = 0; o < callee->inputs + callee->outputs; o++) {
      int array = flow_root(p->k, step->parts[o].array);
      bool sets = o >= callee->inputs && !step->parts[o].leading && step->loop < 0;
      if (!whole[array] && !sets)
        py_line(p, "%s = jnp.zeros(%s, %s)", names[array],
                py_shape(p, &flow->arrays.at[array].type),
                py_dtype(flow->arrays.at[array].type.dtype));
      whole[array] = true;
    }
  }
  for (int i = p->k->inputs; i < p->k->inputs + p->k->outputs; i++)
    if (!whole[flow_root(p->k, i)])
      py_line(p, "%s = %s", names[i], py_empty_output(p, p->k->refs.at[i]));
}

static const char *part_index(Py *p, const FlowPart *part) {
  const char *items[MAX_RANK];
  for (int i = 0; i < part->leading; i++) items[i] = py_yielded(p, part->index, i);
  return py_list(p, items, part->leading);
}

static const char *part_text(Py *p, const FlowPart *part, const char *const *names) {
  const char *name = names[part->array];
  if (part->leading) name = py_text(p, "%s[%s]", name, part_index(p, part));
  return part->reshaped ? py_text(p, "%s.reshape(%s)", name, py_shape(p, &part->shape)) : name;
}

// A result in the shape of its destination.
static const char *placed_result(Py *p, const FlowPart *part, const char *result) {
  FlowPart plain = *part;
  plain.reshaped = false;
  Type type = flow_part_type(p->k->flow, &plain);
  return part->reshaped ? py_text(p, "%s.reshape(%s)", result, py_shape(p, &type)) : result;
}

// Sizes that no input of the callee has, from the shapes of the results.
static const char *size_arguments(Py *p, const FlowStep *step, const Kernel *callee) {
  const char *arguments = "";
  bool *given = NEW_ARRAY(p->arena, bool, callee->sizes.count + 1);
  for (int o = callee->inputs; o < callee->inputs + callee->outputs; o++) {
    Type type = flow_part_type(p->k->flow, &step->parts[o]);
    for (int i = 0; i < type.rank; i++) {
      Dim dim = py_whole_type(callee->refs.at[o])->dim[i];
      int size = dim_is_const(dim) ? -1 : dim_size_index(dim);
      if (size < 0 || callee->sizes.at[size].value || given[size] || py_binding_input(callee, size))
        continue;
      given[size] = true;
      arguments = py_text(p, "%s%s=%s, ", arguments, p->callee_size[step->callee][size],
                          py_dim(p, type.dim[i]));
    }
  }
  return arguments;
}

// A kernel whose axes have other names creates its own mesh.
static const char *mesh_argument(const Py *p, const Kernel *callee) {
  if (callee->mesh.count == 0) return "";
  for (int i = 0; i < callee->mesh.count; i++)
    if (callee->mesh.at[i].name != p->k->mesh.at[i].name) return "";
  return "mesh=mesh, ";
}

// Writes one call of a program.
static void put_flow_call(Py *p, const FlowStep *step, const char *const *names) {
  const Kernel *callee = p->k->flow->callees.at[step->callee].kernel;
  const char *inputs = "", *results = "";
  const char **parts = NEW_ARRAY(p->arena, const char *, callee->outputs + 1);
  for (int i = 0; i < callee->inputs; i++)
    inputs = py_text(p, "%s%s, ", inputs, part_text(p, &step->parts[i], names));
  for (int i = 0; i < callee->outputs; i++) {
    const FlowPart *part = &step->parts[callee->inputs + i];
    bool direct = !part->leading && !part->reshaped;
    parts[i] = direct ? names[part->array] : py_name(p, "part", NULL);
    results = py_text(p, "%s%s%s", results, i ? ", " : "", parts[i]);
  }
  py_line(p, "%s%s%s(%s%s%sinterpret=interpret)", results, callee->outputs ? " = " : "",
          callee->symbol, inputs, size_arguments(p, step, callee), mesh_argument(p, callee));
  for (int i = 0; i < callee->outputs; i++) {
    const FlowPart *part = &step->parts[callee->inputs + i];
    const char *result = placed_result(p, part, parts[i]);
    if (part->leading)
      py_line(p, "%s = %s.at[%s].set(%s)", names[part->array], names[part->array],
              part_index(p, part), result);
    else if (part->reshaped)
      py_line(p, "%s = %s", names[part->array], result);
  }
}

static void put_flow_steps(Py *p, const char *const *names) {
  const Flow *flow = p->k->flow;
  for (int i = 0; i < flow->steps.count; i++) {
    const FlowStep *step = &flow->steps.at[i];
    if (step->kind == FLOW_CALL) put_flow_call(p, step, names);
    if (step->kind == FLOW_END && i == step->mate + 1) py_line(p, "pass");
    if (step->kind == FLOW_END) p->indent--;
    if (step->kind != FLOW_FOR) continue;
    const char *from = py_yielded(p, step->bounds, 0);
    py_line(p, "for %s in range(%s, %s):", p->axis[step->variable], from,
            py_yielded(p, step->bounds, 1));
    p->indent++;
  }
}

static void put_program(Py *p, Buf *out) {
  start_program(p);
  const char **names = array_names(p), **results = names + p->k->inputs;
  p->out = out;
  py_signature(p);
  py_sizes(p);
  py_checks(p);
  put_empty_arrays(p, names);
  put_flow_steps(p, names);
  py_line(p, "return %s", p->k->outputs == 1 ? results[0] : py_tuple(p, results, p->k->outputs));
  p->indent = 0;
}

void emit_pallas(Kernel *k, Diag *diag, Buf *out) {
  ir_take_parts(k);
  if (!py_writes_pipelines(k)) ir_expand_pipelines(k);
  Py python = {.k = k, .arena = k->arena, .diag = diag}, *p = &python;
  Buf functions = {0};
  int callees = k->flow ? k->flow->callees.count : 0;
  p->callee_size = NEW_ARRAY(k->arena, const char **, callees + 1);
  for (int i = 0; i < callees; i++) put_callee(p, i, &functions);
  if (k->flow)
    put_program(p, &functions);
  else
    put_function(p, &functions);
  p->out = out;
  py_imports(p);
  py_helpers(p);
  buf_add(out, functions.text, functions.length);
  buf_free(&functions);
}
