// The naive reference: whole-array loops, output axes in order, contracted axes innermost, one
// scalar accumulator an element.
//
// `pkc bench` times it and `pkc run` compares with it, so it shares nothing with the generator:
// each value of the reference is one loop nest, elementwise chains are one expression, and
// everything else is left to the C compiler.
#include "codegen/naive/naive.h"
#include "codegen/naive/internal.h"

#include "codegen/naive/naive.h"

#include <string.h>

// ---- values

static void fill_memory(Naive *n, Instr *v) {
  NaiveValue *value = naive_value(v);
  n->loops = 0;
  if (op_info[v->op].class == OPC_SCAN) {
    naive_scan(n, v);
    return;
  }
  const char *index[MAX_RANK] = {0};
  int indent = n->indent;
  for (int i = 0; i < v->type.rank; i++) index[i] = naive_open_loop(n, v->type.dim[i]);
  value->place = op_info[v->op].class == OPC_DOT || op_info[v->op].class == OPC_REDUCE ||
                         op_info[v->op].class == OPC_ARGREDUCE
                     ? IN_ACCUMULATOR
                     : IN_EXPRESSION;
  const char *element = naive_element(n, v, index);
  value->place = IN_MEMORY;
  naive_line(n, "%s[%s] = %s;", value->name, naive_linear(n, &v->type, index), element);
  naive_close_loops(n, n->indent - indent);
}

static void declare_memory(Naive *n, const Instr *v) {
  NaiveValue *value = naive_value(v);
  value->name = naive_text(n, "t%d", v->id);
  value->slot = n->slots++;
  naive_line(n, "%s *%s = naive_memory(&memory[%d], %s, sizeof *%s);",
             naive_ctype(n, v->type.dtype), value->name, value->slot, naive_elements(n, &v->type),
             value->name);
  naive_line(n, "if (!%s) goto no_memory;", value->name);
}

static void set_scalar(Naive *n, Instr *v) {
  NaiveValue *value = naive_value(v);
  OpClass class = op_info[v->op].class;
  n->loops = 0;
  value->name = naive_text(n, "t%d", v->id);
  value->place = class == OPC_DOT || class == OPC_REDUCE || class == OPC_ARGREDUCE ? IN_ACCUMULATOR
                                                                                   : IN_EXPRESSION;
  const char *element = naive_element(n, v, NULL);
  value->place = IN_SCALAR;
  naive_line(n, "const %s %s = %s;", naive_ctype(n, v->type.dtype), value->name, element);
}

static Instr *write_region(Naive *n, Region *region);

// An arm of an if: its value goes to the if's own variable or memory.
static void write_arm(Naive *n, Instr *v, Region *arm) {
  n->indent++;
  Instr *yield = arm ? write_region(n, arm) : NULL;
  const NaiveValue *value = naive_value(v);
  if (yield && has_result(v)) {
    const char *index[MAX_RANK] = {0};
    int indent = n->indent;
    n->loops = 0;
    for (int i = 0; i < v->type.rank; i++) index[i] = naive_open_loop(n, v->type.dim[i]);
    const char *element = naive_element(n, yield->args[0], index);
    if (value->place == IN_SCALAR)
      naive_line(n, "%s = %s;", value->name, element);
    else
      naive_line(n, "%s[%s] = %s;", value->name, naive_linear(n, &v->type, index), element);
    naive_close_loops(n, n->indent - indent);
  }
  n->indent--;
}

static void write_if(Naive *n, Instr *v) {
  NaiveValue *value = naive_value(v);
  n->loops = 0;
  if (value->place == IN_SCALAR) {
    value->name = naive_text(n, "t%d", v->id);
    naive_line(n, "%s %s;", naive_ctype(n, v->type.dtype), value->name);
  } else if (has_result(v)) {
    declare_memory(n, v);
  }
  naive_line(n, "if (%s) {", naive_truth(n, naive_element(n, v->args[0], NULL)));
  write_arm(n, v, v->regions[0]);
  naive_line(n, "} else {");
  write_arm(n, v, v->regions[1]);
  naive_line(n, "}");
}

static void write_for(Naive *n, Instr *v) {
  NaiveValue *variable = naive_value(v->regions[0]->arg);
  n->loops = 0;
  const char *from = naive_element(n, v->args[0], NULL), *to = naive_element(n, v->args[1], NULL);
  variable->place = IN_SCALAR;
  variable->name = naive_text(n, "t%d", v->regions[0]->arg->id);
  naive_line(n, "for (int64_t %s = %s, end%d = %s; %s < end%d; %s++) {", variable->name, from,
             v->id, to, variable->name, v->id, variable->name);
  n->indent++;
  write_region(n, v->regions[0]);
  n->indent--;
  naive_line(n, "}");
}

// Writes the values that have their own variable or memory; returns the YIELD.
static Instr *write_region(Naive *n, Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (v->op == OP_YIELD) return v;
    if (v->op == OP_IF) {
      write_if(n, v);
    } else if (v->op == OP_FOR) {
      write_for(n, v);
    } else if (v->op == OP_STORE) {
      naive_store_state(n, v);
    } else if (has_result(v) && naive_value(v)->place == IN_MEMORY) {
      declare_memory(n, v);
      fill_memory(n, v);
    } else if (has_result(v) && naive_value(v)->place == IN_SCALAR) {
      set_scalar(n, v);
    }
  }
  return NULL;
}

// An integer that is rounded from a float, and the allowed difference.
static void write_rounded(Naive *n, const Ref *ref, const char *at, const Instr *v,
                          const char *element) {
  DType t = ref->array.dtype;
  const char *result = naive_text(n, "%s_judged", ref->name);
  naive_line(n, "const pk_bound %s = %s;", result, element);
  naive_line(n, "%s_slack[%s] = naive_integer_allowed(%s, INT64_C(%lld), INT64_C(%lld));",
             ref->name, at, result, (long long)dtype_min(t), (long long)dtype_max(t));
  naive_line(n, "%s_data[%s] = %s;", ref->name, at,
             naive_stored(n, t, naive_cast(n, v->args[0]->type.dtype, t, result)));
}

// Writes an element of an output, and its allowance.
static void write_element(Naive *n, const Ref *ref, const char *at, const char *element) {
  DType t = ref->array.dtype;
  if (n->bounded && is_float(t)) {
    const char *result = naive_text(n, "%s_judged", ref->name);
    naive_line(n, "const pk_bound %s = %s;", result, element);
    naive_line(n, "%s_slack[%s] = naive_allowed(naive_as_%s, %s);", ref->name, at,
               dtype_info[t].name, result);
    element = result;
  }
  naive_line(n, "%s_data[%s] = %s;", ref->name, at, naive_stored(n, t, element));
}

// Writes the loops that compute the outputs.
static void write_outputs(Naive *n, const Instr *yield) {
  for (int o = 0; o < yield->nargs; o++) {
    const Ref *ref = n->k->refs.at[n->k->inputs + o];
    const char *index[MAX_RANK] = {0}, *at = NULL;
    n->loops = 0;
    int indent = n->indent;
    for (int i = 0; i < ref->array.rank; i++) {
      index[i] = naive_open_loop(n, ref->array.dim[i]);
      if (strcmp(index[i], "0") == 0) continue;
      const char *term = naive_text(n, "%s * %s_stride%d", index[i], ref->name, i);
      at = at ? naive_text(n, "%s + %s", at, term) : term;
    }
    Instr *v = yield->args[o];
    bool rounded = n->bounded && ir_is_rounded_integer(v);
    const char *element = naive_element(n, rounded ? v->args[0] : v, index);
    if (!at) at = "0";
    if (rounded)
      write_rounded(n, ref, at, v, element);
    else
      write_element(n, ref, at, element);
    naive_close_loops(n, n->indent - indent);
  }
}

// ---- the kernel around it

static void write_sizes(Naive *n, const char *from) {
  for (int i = 0; i < n->k->sizes.count; i++) {
    const Size *size = &n->k->sizes.at[i];
    naive_line(n, "const int64_t %s = %s[%d];%s%s", naive_size(n, i), from, n->position[i],
               size->value ? "  // " : "", size->value ? size->name : "");
  }
}

static bool aliases(const Kernel *k) {
  for (int i = 0; i < k->outputs; i++)
    if (k->refs.at[k->inputs + i]->alias) return true;
  return false;
}

static const char *memory_type(DType t) { return dtype_info[t].ctype; }

// Pointers and strides. Where every operand is dense along its last axis the strides there are the
// constant 1.
static void write_operands(Naive *n) {
  const Kernel *k = n->k;
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    const Ref *ref = k->refs.at[i];
    const char *type = memory_type(ref->array.dtype);
    if (i < k->inputs)
      naive_line(n, "const %s *%s_data = (const %s *)(const void *)call->array[%d].data;", type,
                 ref->name, type, i);
    else
      naive_line(n, "%s *%s%s_data = (%s *)(void *)call->array[%d].data;", type,
                 aliases(k) ? "" : "restrict ", ref->name, type, i);
    if (n->bounded && i >= k->inputs &&
        (is_float(ref->array.dtype) ||
         ir_is_rounded_integer(ir_yielded(k->reference, i - k->inputs))))
      naive_line(n, "double *%s_slack = (double *)(void *)call->array[%d].data;", ref->name,
                 i + k->outputs);
    for (int axis = 0; axis < ref->array.rank; axis++) {
      bool last = axis == ref->array.rank - 1;
      naive_line(n, "const int64_t %s_stride%d = %scall->array[%d].stride[%d];", ref->name, axis,
                 last ? "dense ? 1 : " : "", i, axis);
    }
  }
}

// Writes the function that computes the reference.
static void write_body(Naive *n) {
  Buf *out = n->out, body = {0};
  n->out = &body;
  n->indent = 1;
  naive_declare_states(n);
  write_outputs(n, write_region(n, n->k->reference));
  n->out = out;
  buf_printf(out,
             "\nstatic inline __attribute__((always_inline)) void %s_compute(const pk_call *call, "
             "pk_worker *worker, const bool "
             "dense) {\n",
             n->kind);
  write_sizes(n, "call->size");
  write_operands(n);
  if (n->slots) naive_line(n, "void *memory[%d] = {0};", n->slots);
  buf_add(out, body.text ? body.text : "", body.length);
  if (n->slots) {
    naive_line(n, "for (int i = 0; i < %d; i++) free(memory[i]);", n->slots);
    naive_line(n, "return;");
    buf_puts(out, "no_memory:\n");
    naive_line(n, "for (int i = 0; i < %d; i++) free(memory[i]);", n->slots);
    naive_line(n, "pk_fail(worker, \"no memory for the naive reference\");");
  }
  buf_puts(out, "}\n");
  buf_free(&body);
}

static void write_cell(Naive *n) {
  buf_printf(n->out,
             "\nstatic void %s_cell(const pk_call *call, pk_worker *worker, int64_t number) {\n",
             n->kind);
  buf_puts(n->out, "  (void)number;\n  bool dense = true;\n");
  for (int i = 0; i < n->k->inputs + n->k->outputs; i++) {
    const Ref *ref = n->k->refs.at[i];
    if (ref->array.rank > 0)
      naive_line(n, "dense = dense && call->array[%d].stride[%d] == 1;", i, ref->array.rank - 1);
  }
  naive_line(n, "if (dense) %s_compute(call, worker, true);", n->kind);
  naive_line(n, "else %s_compute(call, worker, false);\n}", n->kind);
}

// Derived sizes. Requirements are not checked here, because the kernel, which checks them, is
// called first.
static void write_prepare(Naive *n) {
  Kernel *k = n->k;
  buf_printf(n->out, "\nstatic const char *%s_prepare(int64_t *size, pk_plan *plan) {\n", n->kind);
  n->indent = 1;
  for (int i = 0; i < k->sizes.count; i++) {
    const Size *size = &k->sizes.at[i];
    if (size->value) {
      naive_place(n, size->value);
      Instr *yield = write_region(n, size->value);
      n->loops = 0;
      naive_line(n, "size[%d] = %s;", n->position[i], naive_element(n, yield->args[0], NULL));
    }
    naive_line(n, "const int64_t %s = size[%d];", naive_size(n, i), n->position[i]);
  }
  buf_puts(n->out,
           "  *plan = (pk_plan){.cells = 1, .steps = 1, .work = 1};\n  (void)size;\n  return "
           "NULL;\n}\n");
}

static void write_operand(Naive *n, const Ref *ref, bool allowed) {
  buf_printf(
      n->out,
      "    {.name = \"%s%s\", .dtype = %d, .rank = %d, .output = %s, .alias = -1, .shape = {",
      ref->name, allowed ? "_allowed" : "", (int)(allowed ? DT_F64 : ref->array.dtype),
      ref->array.rank, ref->role == REF_OUTPUT ? "true" : "false");
  for (int axis = 0; axis < ref->array.rank; axis++) {
    Dim dim = ref->array.dim[axis];
    int64_t extent = dim_is_const(dim) ? dim : -1 - n->position[dim_size_index(dim)];
    buf_printf(n->out, "%s%lld", axis ? ", " : "", (long long)extent);
  }
  buf_printf(n->out, "%s}},\n", ref->array.rank ? "" : "0");
}

// Writes the tables of the reference's description.
static void write_tables(Naive *n, int bound) {
  const Kernel *k = n->k;
  Buf *out = n->out;
  int operands = k->inputs + k->outputs, judged = n->bounded ? k->outputs : 0;
  buf_printf(out, "\nstatic const pk_operand %s_operands[] = {\n", n->kind);
  for (int i = 0; i < operands; i++) write_operand(n, k->refs.at[i], false);
  for (int i = 0; i < judged; i++) write_operand(n, k->refs.at[k->inputs + i], true);
  buf_printf(out, "};\nstatic const char *const %s_size_names[] = {", n->kind);
  for (int place = 0; place < k->sizes.count; place++)
    for (int i = 0; i < k->sizes.count; i++)
      if (n->position[i] == place) buf_printf(out, "\"%s\", ", k->sizes.at[i].name);
  const char *symbol = naive_text(n, "%s_%s", k->symbol, n->kind);
  buf_printf(out, "NULL};\n\nextern const pk_kernel %s_kernel;\nconst pk_kernel %s_kernel = {\n",
             symbol, symbol);
  naive_line(n, "  .abi = PK_ABI, .name = \"%s_%s\", .signature = \"%s\", .statics = \"\",",
             k->name, n->kind, k->name);
  naive_line(n, "  .operands = %d, .inputs = %d, .operand = %s_operands, .sizes = %d,",
             operands + judged, k->inputs, n->kind, k->sizes.count);
  naive_line(n, "  .size_name = %s_size_names, .bound = %d,", n->kind, bound);
  naive_line(n, "  .prepare = %s_prepare, .cell = %s_cell,\n};", n->kind, n->kind);
}

// Bound sizes first, then those that `prepare` computes.
static int order_sizes(Naive *n) {
  int bound = 0, at = 0;
  n->position = NEW_ARRAY(n->arena, int, n->k->sizes.count + 1);
  for (int i = 0; i < n->k->sizes.count; i++)
    if (!n->k->sizes.at[i].value) n->position[i] = bound++;
  at = bound;
  for (int i = 0; i < n->k->sizes.count; i++)
    if (n->k->sizes.at[i].value) n->position[i] = at++;
  return bound;
}

static void write_rules(Naive *n, DType t, double unit) {
  Rounding rules = reference_rounding(&n->hidden, unit);
  buf_printf(n->out, "\nstatic const pk_bound_rules %s = {%a, %a, %a, %a};\n", naive_rules(t),
             rules.input, rules.result, rules.function, rules.sum);
}

static void note_f64(Instr *v, void *context) {
  if (has_result(v) && v->type.dtype == DT_F64) *(bool *)context = true;
}

static void write_kernel(Naive *n) {
  int bound = order_sizes(n);
  naive_place(n, n->k->reference);
  write_body(n);
  n->indent = 1;
  write_cell(n);
  write_prepare(n);
  write_tables(n, bound);
}

void emit_naive(Kernel *k, Buf *c) {
  REQUIRE(k->reference);
  ir_unmix_dots(k);
  Naive n = {.k = k, .arena = k->arena, .out = c, .kind = "naive"};
  buf_printf(
      c, "// The naive reference of %s: plain loops over whole arrays.\n#include <pk/naive.h>\n",
      k->name);
  write_kernel(&n);
}

void emit_judge(Kernel *k, Buf *c) {
  REQUIRE(k->reference);
  ir_unmix_dots(k);
  Naive n = {.k = k,
             .arena = k->arena,
             .out = c,
             .kind = "judge",
             .bounded = true,
             .hidden = hidden_roundings(k)};
  bool wide = false;
  ir_walk(k->reference, note_f64, &wide);
  buf_printf(
      c,
      "\n// The same in %s, with the allowed difference of %s.\n%s#include <pk/naive.h>\n#include "
      "<pk/naive_bound.h>\n",
      wide ? "long double" : "binary64", wide ? "f64" : "f32",
      wide ? "#define PK_BOUND_WIDE\n" : "");
  write_rules(&n, DT_F32, F32_UNIT);
  n.wide = wide;
  if (wide) write_rules(&n, DT_F64, F64_UNIT);
  write_kernel(&n);
}
