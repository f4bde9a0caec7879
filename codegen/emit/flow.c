// A program's C: its temporaries, and the function that calls the kernels.
#include "codegen/emit/internal.h"
#include "codegen/ir/flow.h"

#include <string.h>

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
  CWriter *w;
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

// The destination of the result: the spare of an array that has one, unless it is updated in place.
static int array_of_result(const Kernel *k, const FlowPart *part, const Ref *ref) {
  const FlowArray *a = &k->flow->arrays.at[part->array];
  return a->spare < 0 || part->leading || ref->alias ? part->array : a->spare;
}

// Writes one call of a program: its arrays, then pk_flow_call.
static void put_call(FlowNames *names, const FlowStep *step) {
  Gen *g = names->g;
  const Kernel *k = g->k, *callee = k->flow->callees.at[step->callee].kernel;
  int operands = callee->inputs + callee->outputs;
  Buf what = {0};
  flow_print_call(k, step, &what);
  line(names->w, "/* %d: %s */", line_of(g, step->span), what.text);
  buf_free(&what);
  line(names->w, "{");
  names->w->indent++;
  line(names->w, "const pk_array on[] = {");
  for (int i = 0; i < operands; i++) {
    const FlowPart *part = &step->parts[i];
    bool result = i >= callee->inputs;
    int array = result ? array_of_result(k, part, callee->refs.at[i]) : part->array;
    line(names->w, "  %s,", part_text(names, part, array));
  }
  if (!operands) line(names->w, "  {0},");
  line(names->w, "};");
  line(names->w, "if (!pk_flow_call(flow, %d, &%s_kernel, on)) return;", line_of(g, step->span),
       callee->symbol);
  for (int i = callee->inputs; i < operands; i++) {
    int array = array_of_result(k, &step->parts[i], callee->refs.at[i]);
    if (array != step->parts[i].array)
      line(names->w, "pk_flow_exchange(flow, %d, %d);", step->parts[i].array, array);
  }
  close_block(names->w);
}

static void put_step(FlowNames *names, const FlowStep *step) {
  if (step->kind == FLOW_CALL) {
    put_call(names, step);
  } else if (step->kind == FLOW_END) {
    close_block(names->w);
  } else {
    const char *from = index_of(names, step->bounds, 0), *end = index_of(names, step->bounds, 1);
    const char *variable =
        lasting_name(&names->w->names, strcmp(step->name, "_") == 0 ? "iteration" : step->name);
    names->variables[step->variable] = variable;
    open_block(names->w, "for (int64_t %s = %s; %s < %s; ++%s)", variable, from, variable, end,
               variable);
  }
}

// The function goes to g->c, as the cell of a kernel does.
void emit_flow(CWriter *w) {
  Gen *g = w->g;
  const Kernel *k = g->k;
  static const char *const own[] = {"flow", "array", "size", "on"};
  FlowNames names = {
      .g = g, .w = w, .variables = NEW_ARRAY(g->arena, const char *, k->flow->variables + 1)};
  for (int i = 0; i < 4; i++) keep_name(&w->names, own[i]);
  put_temporaries(k, w->c);
  Buf steps = {0}, *out = w->c;
  w->c = &steps;
  w->indent++;
  for (int i = 0; i < k->flow->steps.count; i++) put_step(&names, &k->flow->steps.at[i]);
  w->indent--;
  w->c = out;
  open_block(w, "static void %s_program(%spk_flow *flow)", k->symbol,
             k->flow->steps.count ? "" : "PK_UNUSED ");
  if (names.sizes) line(w, "const int64_t *const size = flow->size;");
  if (names.arrays) line(w, "const pk_array *const array = flow->array;");
  buf_add(out, steps.text ? steps.text : "", steps.length);
  close_block(w);
  buf_putc(out, '\n');
  buf_free(&steps);
}
