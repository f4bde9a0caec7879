// A program's C: the kernels it calls, its temporaries, and the function that calls them.
#include "codegen/emit/emit.h"
#include "codegen/emit/internal.h"
#include "codegen/ir/flow.h"

#include <string.h>

// ---- the kernels

// The account of one kernel begins with what was noted before, so each has a text of its own.
static void put_callee(Gen *g, Kernel *callee, const EmitOptions *options, Buf *out, Buf *loops) {
  Buf account = {0};
  buf_printf(out, "/* ---- %s */\n\n", callee->name);
  emit_kernel(callee, options, out, NULL, loops, g->explain ? &account : NULL);
  if (g->explain) buf_printf(g->explain, "\n%s", account.text ? account.text : "");
  buf_free(&account);
}

void put_flow_callees(Gen *g, Buf *out, Buf *loops) {
  const Flow *flow = g->k->flow;
  EmitOptions options = *g->options;
  options.part = true;
  if (g->explain) flow_explain(g->k, g->explain);
  for (int i = 0; i < flow->callees.count; i++)
    put_callee(g, flow->callees.at[i].kernel, &options, out, loops);
  buf_printf(out, "/* ---- %s */\n\n", g->k->name);
}

// ---- temporaries

static int temporaries_of(const Kernel *k) {
  return k->flow->arrays.count - k->inputs - k->outputs;
}

static void put_temporaries(const Kernel *k, Buf *out) {
  if (!temporaries_of(k)) return;
  buf_printf(out, "static const pk_temporary %s_temporaries[] = {\n", k->symbol);
  for (int i = k->inputs + k->outputs; i < k->flow->arrays.count; i++) {
    const FlowArray *a = &k->flow->arrays.at[i];
    buf_printf(out, "  {\"%s\", %s, %d, {", a->name, pk_dtype_name(a->type.dtype), a->type.rank);
    for (int d = 0; d < a->type.rank; d++)
      buf_printf(out, "%s%lld", d ? ", " : "", (long long)a->type.dim[d]);
    buf_printf(out, "%s}, %d, %d},\n", a->type.rank ? "" : "0", a->first, a->last);
  }
  buf_puts(out, "};\n\n");
}

void put_flow_entry(const Kernel *k, Buf *out) {
  buf_printf(out, "  .program = %s_program,\n", k->symbol);
  if (!temporaries_of(k)) return;
  buf_printf(out, "  .temporary = %s_temporaries,\n  .temporaries = %d,\n", k->symbol,
             temporaries_of(k));
}

// ---- the calls

typedef struct {
  Gen *g;
  const char **variables;  // C names, by number
  bool sizes, arrays;      // does the text name any?
} FlowNames;

static const char *leaf_name(const Instr *instr, void *context) {
  FlowNames *names = context;
  names->sizes = names->sizes || instr->op == OP_SIZE;
  return instr->op == OP_AXIS ? names->variables[instr->ival]
                              : text(names->g, "size[%lld]", (long long)instr->ival);
}

static const char *index_of(FlowNames *names, const Region *region, int k) {
  return flow_expression(names->g->arena, ir_yielded(region, k), "pk_idx_", leaf_name, names);
}

static const char *leading_text(FlowNames *names, const FlowPart *part, int array) {
  Gen *g = names->g;
  names->arrays = names->arrays || !part->leading;
  if (!part->leading) return text(g, "array[%d]", array);
  const char *index = "";
  for (int i = 0; i < part->leading; i++)
    index = text(g, "%s%s%s", index, i ? ", " : "", index_of(names, part->index, i));
  return text(g, "pk_flow_part(flow, %d, %d, (const int64_t[]){%s})", array, part->leading, index);
}

static const char *part_text(FlowNames *names, const FlowPart *part, int array) {
  Gen *g = names->g;
  const char *whole = leading_text(names, part, array), *shape = "";
  int rank = g->k->flow->arrays.at[part->array].type.rank - part->leading;
  if (!part->reshaped) return whole;
  for (int i = 0; i < part->shape.rank; i++) {
    Dim dim = part->shape.dim[i];
    names->sizes = names->sizes || !dim_is_const(dim);
    shape = text(g, dim_is_const(dim) ? "%s%s%lld" : "%s%ssize[%lld]", shape, i ? ", " : "",
                 (long long)(dim_is_const(dim) ? dim : dim_size_index(dim)));
  }
  return text(g, "pk_flow_reshape(flow, %d, %s, %d, %d, (const int64_t[]){%s})", array, whole, rank,
              part->shape.rank, *shape ? shape : "1");
}

// Where the result goes: to the spare of an array that has one, unless it is updated in place.
static int array_of_result(const Kernel *k, const FlowPart *part, const Ref *ref) {
  const FlowArray *a = &k->flow->arrays.at[part->array];
  return a->spare < 0 || part->leading || ref->alias ? part->array : a->spare;
}

static void put_call(FlowNames *names, const FlowStep *step) {
  Gen *g = names->g;
  const Kernel *k = g->k, *callee = k->flow->callees.at[step->callee].kernel;
  int operands = callee->inputs + callee->outputs;
  Buf what = {0};
  flow_print_call(k, step, &what);
  line(g, "/* %d: %s */", line_of(g, step->span), what.text);
  buf_free(&what);
  line(g, "{");
  g->indent++;
  line(g, "const pk_array on[] = {");
  for (int i = 0; i < operands; i++) {
    const FlowPart *part = &step->parts[i];
    bool result = i >= callee->inputs;
    int array = result ? array_of_result(k, part, callee->refs.at[i]) : part->array;
    line(g, "  %s,", part_text(names, part, array));
  }
  if (!operands) line(g, "  {0},");
  line(g, "};");
  line(g, "if (!pk_flow_call(flow, %d, &%s_kernel, on)) return;", line_of(g, step->span),
       callee->symbol);
  for (int i = callee->inputs; i < operands; i++) {
    int array = array_of_result(k, &step->parts[i], callee->refs.at[i]);
    if (array != step->parts[i].array)
      line(g, "pk_flow_exchange(flow, %d, %d);", step->parts[i].array, array);
  }
  close_block(g);
}

static void put_step(FlowNames *names, const FlowStep *step) {
  Gen *g = names->g;
  if (step->kind == FLOW_CALL) {
    put_call(names, step);
  } else if (step->kind == FLOW_END) {
    close_block(g);
  } else {
    const char *from = index_of(names, step->bounds, 0), *end = index_of(names, step->bounds, 1);
    const char *variable = lasting_name(g, strcmp(step->name, "_") == 0 ? "turn" : step->name);
    names->variables[step->variable] = variable;
    open_block(g, "for (int64_t %s = %s; %s < %s; ++%s)", variable, from, variable, end, variable);
  }
}

// The function goes to g->c, as the cell of a kernel does.
void emit_flow(Gen *g) {
  const Kernel *k = g->k;
  static const char *const own[] = {"flow", "array", "size", "on"};
  FlowNames names = {.g = g,
                     .variables = NEW_ARRAY(g->arena, const char *, k->flow->variables + 1)};
  for (int i = 0; i < 4; i++) LIST_PUSH(g->arena, &g->kept, intern(own[i]));
  put_temporaries(k, g->c);
  Buf steps = {0}, *out = g->c;
  g->c = &steps;
  g->indent++;
  for (int i = 0; i < k->flow->steps.count; i++) put_step(&names, &k->flow->steps.at[i]);
  g->indent--;
  g->c = out;
  open_block(g, "static void %s_program(pk_flow *flow)", k->symbol);
  if (names.sizes) line(g, "const int64_t *const size = flow->size;");
  if (names.arrays) line(g, "const pk_array *const array = flow->array;");
  if (!k->flow->steps.count) line(g, "(void)flow;");
  buf_add(out, steps.text ? steps.text : "", steps.length);
  close_block(g);
  buf_putc(out, '\n');
  buf_free(&steps);
}
