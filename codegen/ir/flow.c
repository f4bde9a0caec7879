// Programs: their parts, the lives of temporaries, and their calls for given sizes.
#include "codegen/ir/flow.h"
#include "codegen/ir/index.h"

#include <string.h>

int flow_root(const Kernel *k, int array) {
  if (flow_is_temporary(k, array) || !k->refs.at[array]->alias) return array;
  return k->refs.at[array]->alias->id;
}

Type flow_part_type(const Flow *flow, const FlowPart *part) {
  if (part->reshaped) return part->shape;
  Type type = flow->arrays.at[part->array].type;
  type.rank -= part->leading;
  for (int i = 0; i < type.rank; i++) type.dim[i] = type.dim[i + part->leading];
  return type;
}

// ---- lives

static void widen(FlowArray *a, int from, int to) {
  if (from < a->first) a->first = from;
  if (to > a->last) a->last = to;
}

// An array that is declared outside a loop and used in it is needed in every iteration.
static void note_access(Flow *flow, int array, int step) {
  FlowArray *a = &flow->arrays.at[array];
  widen(a, step, step);
  for (int loop = flow->steps.at[step].loop; loop > a->loop; loop = flow->steps.at[loop].loop)
    widen(a, loop, flow->steps.at[loop].mate);
}

void flow_find_lives(Flow *flow) {
  for (int i = 0; i < flow->arrays.count; i++) {
    flow->arrays.at[i].first = flow->steps.count;
    flow->arrays.at[i].last = -1;
  }
  for (int i = 0; i < flow->steps.count; i++) {
    const FlowStep *step = &flow->steps.at[i];
    if (step->kind != FLOW_CALL) continue;
    const Kernel *callee = flow->callees.at[step->callee].kernel;
    for (int p = 0; p < callee->inputs + callee->outputs; p++)
      note_access(flow, step->parts[p].array, i);
  }
  for (int i = 0; i < flow->arrays.count; i++) {
    const FlowArray *a = &flow->arrays.at[i];
    if (a->spare >= 0) widen(&flow->arrays.at[a->spare], a->first, a->last);
    if (a->spare >= 0)
      widen(&flow->arrays.at[i], flow->arrays.at[a->spare].first, flow->arrays.at[a->spare].last);
  }
}

// ---- calls for given sizes

void flow_walk(Kernel *k, const int64_t *sizes, FlowVisit *visit, void *context) {
  const Flow *flow = k->flow;
  int64_t *variables = NEW_ARRAY(k->arena, int64_t, flow->variables + 1);
  int64_t *ends = NEW_ARRAY(k->arena, int64_t, flow->variables + 1);
  for (int i = 0; i < flow->steps.count; i++) {
    const FlowStep *step = &flow->steps.at[i];
    if (step->kind == FLOW_CALL) {
      if (!visit(&(FlowIteration){k, sizes, step, variables}, context)) return;
    } else if (step->kind == FLOW_FOR) {
      int64_t bounds[2];
      eval_region(k, step->bounds, sizes, variables, bounds);
      variables[step->variable] = bounds[0];
      ends[step->variable] = bounds[1];
      if (bounds[0] >= bounds[1]) i = step->mate;
    } else if (++variables[step->variable] < ends[step->variable]) {
      i = step->mate;
    }
  }
}

// The number of elements along the axes from `first` on; *wrong: the axis that is refused.
static int64_t set_extents(const FlowIteration *iteration, const char *name, const Type *type,
                           int first, HostArray *shape, const char **wrong) {
  Arena *arena = iteration->k->arena;
  int64_t count = 1;
  shape->rank = type->rank - first;
  for (int i = first; i < type->rank; i++) {
    int64_t extent = resolve_dim(iteration->sizes, type->dim[i]);
    if (extent < 0 || extent > INT32_MAX)
      *wrong = arena_printf(arena, "axis %d of `%s` has %lld elements; an axis has 0 to %d", i,
                            name, (long long)extent, INT32_MAX);
    else if (!mul_i64(count, extent, &count))
      *wrong = arena_printf(arena, "%s is too large", name);
    if (*wrong) return 0;
    shape->dim[i - first] = extent;
  }
  return count;
}

static const char *part_start(const FlowIteration *iteration, const FlowPart *part,
                              const FlowArray *array, int64_t elements, int64_t *element) {
  int64_t index[MAX_INDEX] = {0};
  if (part->leading)
    eval_region(iteration->k, part->index, iteration->sizes, iteration->variables, index);
  *element = 0;
  for (int i = 0; i < part->leading; i++) {
    int64_t extent = resolve_dim(iteration->sizes, array->type.dim[i]);
    if (index[i] < 0 || index[i] >= extent)
      return arena_printf(iteration->k->arena,
                          "index %lld of axis %d of %s is outside: it has %lld elements",
                          (long long)index[i], i, array->name, (long long)extent);
    *element = *element * extent + index[i];
  }
  *element *= elements;
  return NULL;
}

const char *flow_part(const FlowIteration *iteration, int operand, HostArray *shape,
                      int64_t *element) {
  const FlowPart *part = &iteration->step->parts[operand];
  const FlowArray *array = &iteration->k->flow->arrays.at[part->array];
  const char *wrong = NULL;
  int64_t bytes, elements;
  *shape = (HostArray){.dtype = array->type.dtype};
  elements = set_extents(iteration, array->name, &array->type, 0, shape, &wrong);
  if (!wrong && !mul_i64(elements, dtype_bytes(array->type.dtype), &bytes))
    wrong = arena_printf(iteration->k->arena, "%s is too large", array->name);
  if (!wrong)
    elements = set_extents(iteration, array->name, &array->type, part->leading, shape, &wrong);
  if (!wrong) wrong = part_start(iteration, part, array, elements, element);
  if (wrong || !part->reshaped) return wrong;
  int64_t reshaped = set_extents(iteration, array->name, &part->shape, 0, shape, &wrong);
  if (!wrong && reshaped != elements)
    wrong = arena_printf(iteration->k->arena, "reshape of %s: it has %lld elements, not %lld",
                         array->name, (long long)elements, (long long)reshaped);
  return wrong;
}

static const char *compare_extent(const FlowIteration *iteration, const Kernel *callee, int operand,
                                  int axis, int64_t expected, const HostArray *found) {
  if (found->dim[axis] == expected) return NULL;
  return arena_printf(iteration->k->arena, "%s: operand %s: axis %d: expected %lld, found %lld",
                      callee->name, callee->refs.at[operand]->name, axis, (long long)expected,
                      (long long)found->dim[axis]);
}

static const char *bind_operand(const FlowIteration *iteration, const Kernel *callee, int operand,
                                int64_t *sizes) {
  const Ref *ref = callee->refs.at[operand];
  HostArray shape;
  int64_t element;
  const char *wrong = flow_part(iteration, operand, &shape, &element);
  for (int i = 0; !wrong && i < shape.rank; i++) {
    Dim dim = ir_all(ref)->dim[i];
    int size = dim_is_const(dim) ? -1 : dim_size_index(dim);
    if (size >= 0 && callee->sizes.at[size].value) continue;
    if (size >= 0 && sizes[size] < 0) sizes[size] = shape.dim[i];
    wrong = compare_extent(iteration, callee, operand, i, size >= 0 ? sizes[size] : dim, &shape);
  }
  return wrong;
}

static const char *check_derived(const FlowIteration *iteration, const Kernel *callee, int operand,
                                 const int64_t *sizes) {
  const Ref *ref = callee->refs.at[operand];
  HostArray shape;
  int64_t element;
  const char *wrong = flow_part(iteration, operand, &shape, &element);
  for (int i = 0; !wrong && i < shape.rank; i++) {
    wrong = compare_extent(iteration, callee, operand, i, resolve_dim(sizes, ir_all(ref)->dim[i]),
                           &shape);
  }
  return wrong;
}

static bool has_prefetched(const Kernel *k) {
  for (int i = 0; i < k->inputs; i++)
    if (k->refs.at[i]->prefetch) return true;
  return false;
}

const char *flow_callee_sizes(const FlowIteration *iteration, int64_t **sizes) {
  Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  int operands = callee->inputs + callee->outputs;
  *sizes = NEW_ARRAY(iteration->k->arena, int64_t, callee->sizes.count + 1);
  for (int i = 0; i < callee->sizes.count; i++) (*sizes)[i] = -1;
  const char *wrong = NULL;
  for (int i = 0; i < operands && !wrong; i++) wrong = bind_operand(iteration, callee, i, *sizes);
  if (wrong) return wrong;
  // Prefetched values are known only at the call.
  wrong = has_prefetched(callee) ? derive_sizes(callee, *sizes) : check_sizes(callee, *sizes);
  if (wrong) return arena_printf(iteration->k->arena, "%s: %s", callee->name, wrong);
  for (int i = 0; i < operands && !wrong; i++) wrong = check_derived(iteration, callee, i, *sizes);
  return wrong;
}

// ---- calls that are refused

typedef struct {
  const char *wrong;
  int64_t **sizes;  // by step: of the callee, once they were checked
} FlowCheck;

typedef struct {
  int root;
  int64_t from, count;
} Stretch;

static bool overlap(const Stretch *a, const Stretch *b) {
  return a->root == b->root && a->from < b->from + b->count && b->from < a->from + a->count;
}

static int alias_of(const Kernel *k, int operand) {
  return k->refs.at[operand]->alias ? k->refs.at[operand]->alias->id : operand;
}

// A result that is exchanged with its array's spare is written elsewhere.
static bool is_exchanged(const FlowIteration *iteration, int operand) {
  const FlowPart *part = &iteration->step->parts[operand];
  const Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  return operand >= callee->inputs && !callee->refs.at[operand]->alias && !part->leading &&
         iteration->k->flow->arrays.at[part->array].spare >= 0;
}

// Does a call of a program write memory that it also reads as another operand?
static const char *check_overlaps(const FlowIteration *iteration) {
  const Kernel *callee = iteration->k->flow->callees.at[iteration->step->callee].kernel;
  int operands = callee->inputs + callee->outputs;
  enum { USUAL = 32 };
  Stretch usual[USUAL];
  Stretch *at = operands <= USUAL ? usual : NEW_ARRAY(iteration->k->arena, Stretch, operands);
  for (int i = 0; i < operands; i++) {
    HostArray shape;
    const char *wrong = flow_part(iteration, i, &shape, &at[i].from);
    if (wrong) return wrong;
    array_elements(&shape, &at[i].count);
    at[i].root = flow_root(iteration->k, iteration->step->parts[i].array);
  }
  for (int o = callee->inputs; o < operands; o++)
    for (int i = 0; i < o; i++) {
      bool same = alias_of(callee, o) == alias_of(callee, i);
      bool exchanged = is_exchanged(iteration, o) && i < callee->inputs;
      if (same || exchanged || !overlap(&at[o], &at[i])) continue;
      return arena_printf(iteration->k->arena, "%s: operand %s overlaps operand %s", callee->name,
                          callee->refs.at[o]->name, callee->refs.at[i]->name);
    }
  for (int o = callee->inputs; o < operands; o++)
    if (alias_of(callee, o) != o && at[o].count > 0 && at[o].from != at[alias_of(callee, o)].from)
      return arena_printf(iteration->k->arena,
                          "%s: operand %s: expected the memory of %s, its alias; found another",
                          callee->name, callee->refs.at[o]->name,
                          callee->refs.at[alias_of(callee, o)]->name);
  return NULL;
}

static bool check_iteration(const FlowIteration *iteration, void *context) {
  FlowCheck *check = context;
  int64_t **sizes = &check->sizes[iteration->step - iteration->k->flow->steps.at];
  if (!*sizes) check->wrong = flow_callee_sizes(iteration, sizes);
  if (!check->wrong) check->wrong = check_overlaps(iteration);
  if (!check->wrong) return true;
  const char *loops = flow_iteration_text(iteration);
  check->wrong = arena_printf(iteration->k->arena, "line %d%s%s%s: %s",
                              ir_line(iteration->k, iteration->step->span), loops ? " (" : "",
                              loops ? loops : "", loops ? ")" : "", check->wrong);
  return false;
}

const char *flow_check(Kernel *k, const int64_t *sizes) {
  FlowCheck check = {NULL, NEW_ARRAY(k->arena, int64_t *, k->flow->steps.count + 1)};
  flow_walk(k, sizes, check_iteration, &check);
  return check.wrong;
}

const char *flow_iteration_text(const FlowIteration *iteration) {
  const Flow *flow = iteration->k->flow;
  const char *text = NULL;
  for (int loop = iteration->step->loop; loop >= 0; loop = flow->steps.at[loop].loop) {
    const FlowStep *step = &flow->steps.at[loop];
    text = arena_printf(iteration->k->arena, "%s=%lld%s%s", step->name,
                        (long long)iteration->variables[step->variable], text ? ", " : "",
                        text ? text : "");
  }
  return text;
}

// ---- text

// Index arithmetic: the operations that have bounds.
static const bool is_arithmetic[OP_COUNT] = {
#define ARITHMETIC_OWN true
#define ARITHMETIC_NONE false
#define OPERATOR(id, name, class, domain, exactness, f64, bound, neutral, laws, interval, \
                 spelling, call, vector, transcendental, meaning)                         \
  [OP_##id] = ARITHMETIC_##interval,
#include "codegen/ir/ops.def"
};

const char *flow_expression(Arena *arena, const Instr *instr, const char *prefix, FlowName *name,
                            void *context) {
  if (instr->op == OP_CONST) return arena_printf(arena, "%lld", (long long)instr->ival);
  if (!is_arithmetic[instr->op]) return name(instr, context);
  const char *spelling = element_info[instr->op].spelling, *word = op_info[instr->op].name;
  const char *a = flow_expression(arena, instr->args[0], prefix, name, context);
  bool call = prefix || !*spelling;
  if (prefix) word = arena_printf(arena, "%s%s", prefix, word);
  if (instr->nargs == 1)
    return call ? arena_printf(arena, "%s(%s)", word, a)
                : arena_printf(arena, "(%s%s)", spelling, a);
  const char *b = flow_expression(arena, instr->args[1], prefix, name, context);
  return call ? arena_printf(arena, "%s(%s, %s)", word, a, b)
              : arena_printf(arena, "(%s %s %s)", a, spelling, b);
}

bool flow_is_plain(const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    bool leaf = v->op == OP_CONST || v->op == OP_SIZE || v->op == OP_AXIS || v->op == OP_YIELD;
    if (!leaf && !is_arithmetic[v->op]) return false;
    if (v->op != OP_YIELD && v->type.dtype != DT_I64) return false;
  }
  return true;
}

static const char *source_name(const Instr *instr, void *context) {
  const Kernel *k = context;
  if (instr->op == OP_SIZE) return k->sizes.at[instr->ival].name;
  for (int i = 0; i < k->flow->steps.count; i++) {
    const FlowStep *step = &k->flow->steps.at[i];
    if (step->kind == FLOW_FOR && step->variable == instr->ival) return step->name;
  }
  return "?";
}

static void print_expression(const Kernel *k, const Instr *instr, Buf *out) {
  const char *text = flow_expression(k->arena, instr, NULL, source_name, (void *)(uintptr_t)k);
  size_t length = strlen(text);
  bool around = text[0] == '(' && length > 1;
  buf_add(out, text + around, length - 2 * (size_t)around);
}

static void print_shape(const Kernel *k, const Type *type, Buf *out) {
  buf_putc(out, '[');
  for (int i = 0; i < type->rank; i++) {
    if (i) buf_puts(out, ", ");
    if (dim_is_const(type->dim[i]))
      buf_printf(out, "%lld", (long long)type->dim[i]);
    else
      buf_puts(out, k->sizes.at[dim_size_index(type->dim[i])].name);
  }
  buf_putc(out, ']');
}

static void print_part(const Kernel *k, const FlowPart *part, Buf *out) {
  if (part->reshaped) buf_puts(out, "reshape(");
  buf_puts(out, k->flow->arrays.at[part->array].name);
  for (int i = 0; i < part->leading; i++) {
    buf_puts(out, i ? ", " : "[");
    print_expression(k, ir_yielded(part->index, i), out);
  }
  if (part->leading) buf_putc(out, ']');
  if (part->reshaped) {
    buf_puts(out, ", ");
    print_shape(k, &part->shape, out);
    buf_putc(out, ')');
  }
}

void flow_print_call(const Kernel *k, const FlowStep *step, Buf *out) {
  const Kernel *callee = k->flow->callees.at[step->callee].kernel;
  for (int i = 0; i < callee->outputs; i++) {
    if (i) buf_puts(out, ", ");
    print_part(k, &step->parts[callee->inputs + i], out);
  }
  buf_printf(out, "%s%s(", callee->outputs ? " = " : "", callee->name);
  for (int i = 0; i < callee->inputs; i++) {
    if (i) buf_puts(out, ", ");
    print_part(k, &step->parts[i], out);
  }
  buf_putc(out, ')');
  for (int i = 0; i < callee->statics.count; i++)
    buf_printf(out, "%s%s = %s", i ? ", " : " with ", callee->statics.at[i].name,
               callee->statics.at[i].value);
}

void flow_print_shard(const Kernel *k, const int8_t (*shard)[MOST_MESH_AXES], int rank, Buf *out) {
  buf_putc(out, '(');
  for (int i = 0; i < rank; i++) {
    const int8_t *by = shard[i];
    buf_puts(out, i ? ", " : "");
    if (by[0] && by[1]) buf_putc(out, '(');
    for (int j = 0; j < MOST_MESH_AXES && by[j]; j++)
      buf_printf(out, "%s%s", j ? ", " : "", k->mesh.at[by[j] - 1].name);
    if (!by[0]) buf_putc(out, '_');
    if (by[0] && by[1]) buf_putc(out, ')');
  }
  buf_putc(out, ')');
}

static bool is_spare(const Flow *flow, int array) {
  for (int i = 0; i < array; i++)
    if (flow->arrays.at[i].spare == array) return true;
  return false;
}

// Prints a program's temporaries and steps.
void flow_print(const Kernel *k, Buf *out) {
  const Flow *flow = k->flow;
  buf_putc(out, '\n');
  for (int i = k->inputs + k->outputs; i < flow->arrays.count; i++) {
    const FlowArray *a = &flow->arrays.at[i];
    if (is_spare(flow, i)) continue;
    buf_printf(out, "  temporary %s: ", a->name);
    buf_puts(out, dtype_info[a->type.dtype].name);
    print_shape(k, &a->type, out);
    if (k->mesh.count && a->type.rank) {
      buf_puts(out, " shard ");
      flow_print_shard(k, a->shard, a->type.rank, out);
    }
    buf_printf(out, " in steps %d to %d%s\n", a->first, a->last,
               a->spare >= 0 ? ", and a spare that it changes places with" : "");
  }
  for (int i = 0, level = 1; i < flow->steps.count; i++) {
    const FlowStep *step = &flow->steps.at[i];
    if (step->kind == FLOW_END) level--;
    buf_printf(out, "%*s", 2 * level, "");
    if (step->kind != FLOW_END) buf_printf(out, "%d: ", i);
    if (step->kind == FLOW_CALL) flow_print_call(k, step, out);
    if (step->kind == FLOW_END) buf_putc(out, '}');
    if (step->kind == FLOW_FOR) {
      buf_printf(out, "for %s in ", step->name);
      print_expression(k, ir_yielded(step->bounds, 0), out);
      buf_puts(out, "..");
      print_expression(k, ir_yielded(step->bounds, 1), out);
      buf_puts(out, " {");
      level++;
    }
    buf_putc(out, '\n');
  }
}

void flow_explain(const Kernel *k, Buf *out) {
  const Flow *flow = k->flow;
  int calls = 0;
  for (int i = 0; i < flow->steps.count; i++) calls += flow->steps.at[i].kind == FLOW_CALL;
  buf_printf(out, "program %s: %d call%s of %d kernel%s", k->name, calls, calls == 1 ? "" : "s",
             flow->callees.count, flow->callees.count == 1 ? "" : "s");
  flow_print(k, out);
  if (flow->uncomposed)
    buf_printf(out, "  nothing to compare with: line %d: %s\n", ir_line(k, flow->uncomposed_at),
               flow->uncomposed);
}
