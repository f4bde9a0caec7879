// `pipeline` as pltpu.emit_pipeline. It supports only whole blocks, so arrays are padded at their
// ends, and loads select the value of `pad`.
#include "codegen/pallas/internal.h"

#include <string.h>

// ---- supported pipelines

typedef struct {
  const Kernel *k;
  const Instr *pipeline;
  bool *inside, *outside;  // by ref id: a var is stored to in the body; it is accessed elsewhere
  bool good;
} PipelineSearch;

static void note_inside(Instr *v, void *context) {
  PipelineSearch *s = context;
  if (v->op == OP_STORE && v->ref->role == REF_VAR) s->inside[v->ref->id] = true;
  if (v->op == OP_PIPELINE) s->good = false;  // JAX does not interpret one inside another
}

static void note_outside(PipelineSearch *s, const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v == s->pipeline) continue;
    if (v->op == OP_LOAD || v->op == OP_STORE) s->outside[v->ref->id] = true;
    for (int r = 0; r < 2; r++) note_outside(s, v->regions[r]);
  }
}

Instr *py_block_index(const Kernel *k, const Ref *ref, int axis) {
  if (!ref->operand) return ir_yielded(ref->index_map, axis);
  return ir_yielded(ref->scope->regions[0], ir_block_index(k, ref) + axis);
}

// The extent of a pipeline's axis without its maximum with 0.
static Instr *plain_extent(Instr *extent) {
  return extent->op == OP_MAX && ir_is_const(extent->args[1], 0) ? extent->args[0] : extent;
}

// The size whose blocks of `block` elements the extent counts; -1: none.
static int blocks_of(const Instr *n, int64_t block) {
  if (n->op == OP_MAX && n->args[0]->op == OP_CONST && n->args[0]->ival <= 1) n = n->args[1];
  if (n->op == OP_SIZE && block == 1) return (int)n->ival;
  if (n->op != OP_FLOORDIV || !ir_is_const(n->args[1], block)) return -1;
  const Instr *sum = n->args[0];
  bool rounded =
      sum->op == OP_ADD && sum->args[0]->op == OP_SIZE && ir_is_const(sum->args[1], block - 1);
  return rounded ? (int)sum->args[0]->ival : -1;
}

bool py_step_is_within(const Ref *block, const Instr *index, Dim dim) {
  if (index->op != OP_STEP_AXIS) return false;
  const Instr *n = plain_extent(block->scope->args[index->ival]);
  return dim_is_const(dim) ? n->op == OP_CONST && n->ival <= dim
                           : n->op == OP_SIZE && n->ival == dim_size_index(dim);
}

// Is every block inside of the array, with padding at its end?
static bool covers(const Kernel *k, const Ref *ref, int axis) {
  const Instr *index = py_block_index(k, ref, axis);
  Dim dim = ref->array.dim[axis], block = ref->block[axis];
  if (ir_is_const(index, 0)) return true;
  if (index->op != OP_STEP_AXIS || !dim_is_const(block)) return false;
  const Instr *n = plain_extent(ref->scope->args[index->ival]);
  if (!dim_is_const(dim)) return blocks_of(n, block) == dim_size_index(dim);
  return n->op == OP_CONST && block > 0 && n->ival <= (dim + block - 1) / block;
}

static bool takes_block(const Kernel *k, const Ref *ref) {
  if (ref->at != AT_BLOCK) return false;
  for (int i = 0; i < ref->array.rank; i++) {
    bool whole = ref->block[i] == ref->array.dim[i] && ir_is_const(py_block_index(k, ref, i), 0);
    if (whole) continue;
    if (!dim_is_const(ref->block[i])) return false;
    if (ref->operand->role == REF_OUTPUT && !covers(k, ref, i)) return false;
  }
  return true;
}

static void check_pipeline(Instr *v, void *context) {
  PipelineSearch *s = context;
  if (v->op != OP_PIPELINE || !s->good) return;
  PipelineSearch inner = *s;
  inner.pipeline = v;
  inner.inside = NEW_ARRAY(s->k->arena, bool, s->k->refs.count + 1);
  inner.outside = NEW_ARRAY(s->k->arena, bool, s->k->refs.count + 1);
  ir_walk(v->regions[1], note_inside, &inner);
  note_outside(&inner, s->k->body);
  s->good = inner.good;
  for (int i = 0; i < s->k->refs.count; i++) {
    const Ref *ref = s->k->refs.at[i];
    if (inner.inside[i] && inner.outside[i]) s->good = false;
    if (ref->scope == v && !takes_block(s->k, ref)) s->good = false;
  }
}

bool py_writes_pipelines(const Kernel *k) {
  PipelineSearch s = {.k = k, .good = true};
  ir_walk(k->body, check_pipeline, &s);
  return s.good;
}

// ---- writing one

const char *py_step_axis(const Py *p, const Instr *v) { return p->pipeline->axis[v->ival]; }

static int64_t common_multiple(int64_t a, int64_t b) {
  int64_t x = a, y = b;
  while (y) {
    int64_t rest = x % y;
    x = y, y = rest;
  }
  return a / x * b;
}

static void add_padding(Py *p, const Ref *block) {
  PyPadding *padding = &p->padding[block->operand->id];
  for (int i = 0; i < block->array.rank; i++) {
    Dim extent = block->block[i];
    if (extent == 1 || extent == block->array.dim[i] || !dim_is_const(extent)) continue;
    padding->multiple[i] =
        padding->multiple[i] ? common_multiple(padding->multiple[i], extent) : extent;
  }
}

static const char *spec_text(Py *p, const Ref *block) {
  const char *shape[MAX_RANK], *index[MAX_RANK];
  int rank = block->array.rank;
  bool map = p->map;
  p->map = true;
  for (int i = 0; i < rank; i++) {
    shape[i] = block->squeeze[i] ? "None" : py_dim(p, block->block[i]);
    index[i] = py_yielded(p, block->scope->regions[0], ir_block_index(p->k, block) + i);
    if (covers(p->k, block, i)) continue;
    const char *last = block->block[i] == 1 ? "" : py_text(p, " // %s", py_dim(p, block->block[i]));
    index[i] = py_text(p, "jnp.clip(%s, 0, %s.shape[%d]%s - 1)", index[i],
                       p->ref[block->operand->id], i, last);
  }
  p->map = map;
  const char *mode =
      block->buffers > 2 ? py_text(p, ", pipeline_mode=pl.Buffered(%d)", block->buffers) : "";
  return py_text(p, "pl.BlockSpec(%s, lambda %s: %s%s)", py_tuple(p, shape, rank),
                 py_list(p, p->pipeline->axis, p->pipeline->instr->nargs), py_tuple(p, index, rank),
                 mode);
}

// The specs of blocks of inputs or outputs, and their operands after the call.
static const char *put_specs(Py *p, const Instr *v, RefRole role, const char *operands) {
  py_line(p, role == REF_INPUT ? "in_specs=[" : "out_specs=[");
  for (int i = 0; i < p->k->refs.count; i++) {
    const Ref *ref = p->k->refs.at[i];
    if (ref->scope != v || ref->operand->role != role) continue;
    add_padding(p, ref);
    py_line(p, "    %s,", spec_text(p, ref));
    operands = py_text(p, "%s%s%s", operands, *operands ? ", " : "", p->ref[ref->operand->id]);
  }
  py_line(p, "],");
  return operands;
}

// Writes the body of an emit_pipeline.
static void put_body(Py *p, Instr *v, const char *name) {
  const char *parameters = "";
  bool padded = false;
  for (int role = REF_INPUT; role <= REF_OUTPUT; role++)
    for (int i = 0; i < p->k->refs.count; i++)
      if (p->k->refs.at[i]->scope == v && (int)p->k->refs.at[i]->operand->role == role) {
        parameters = py_text(p, "%s%s%s", parameters, *parameters ? ", " : "", p->ref[i]);
        padded = padded || p->k->refs.at[i]->has_pad;
      }
  const char **saved = NEW_ARRAY(p->arena, const char *, p->vars);
  memcpy(saved, p->var, sizeof *saved * (size_t)p->vars);
  py_line(p, "def %s(%s):", name, parameters);
  py_enter(p);
  for (int i = 0; i < v->nargs; i++)  // a plain number if there is one step
    if (padded || py(v->regions[1]->instrs.at[i])->uses)
      py_line(p, "%s = jnp.int32(pl.program_id(%d))", p->pipeline->axis[i], i);
  size_t before = p->out->length;
  py(v->regions[1]->arg)->text = name;
  py_region(p, v->regions[1], 0);
  if (p->out->length == before) py_line(p, "pass");
  py_leave(p);
  memcpy(p->var, saved, sizeof *saved * (size_t)p->vars);
}

static bool is_positive(const Py *p, const Instr *extent) {
  int size = extent->op == OP_SIZE       ? (int)extent->ival
             : extent->op == OP_FLOORDIV ? blocks_of(extent, extent->args[1]->ival)
                                         : -1;
  return py(extent)->bounds.low > 0 || (size >= 0 && py_is_filled(p->k, size));
}

// The extents; *guard: an expression that is above 0 if there is a step, which emit_pipeline
// requires.
static const char *grid_text(Py *p, const Instr *v, const char **guard) {
  const char *items[MAX_RANK];
  *guard = "";
  for (int i = 0; i < v->nargs; i++) {
    Instr *extent = plain_extent(v->args[i]);
    bool dropped = extent != v->args[i] && py(extent)->bounds.low >= 0;
    if (!dropped) extent = v->args[i];
    items[i] = py_use(p, extent, PY_CHOICE);
    if (!py(extent)->host || is_positive(p, extent)) continue;
    *guard = py_text(p, "%s%s%s > 0", *guard, **guard ? " and " : "", py_use(p, extent, PY_OR));
  }
  return py_tuple(p, items, v->nargs);
}

void py_pipeline(Py *p, Instr *v) {
  PyPipeline pipeline = {.instr = v};
  const char *guard, *grid = grid_text(p, v, &guard), *name = py_free_name(p, "step");
  py_flush(p, ~(uint64_t)0);
  for (int i = 0; i < v->nargs; i++)
    pipeline.axis[i] = py_name(p, v->regions[1]->instrs.at[i]->text, NULL);
  p->pipeline = &pipeline;
  if (*guard) py_line(p, "if %s:", guard), p->indent++;
  put_body(p, v, name);
  py_line(p, "pltpu.emit_pipeline(");
  p->indent += 2;
  py_line(p, "%s,", name);
  py_line(p, "grid=%s,", grid);
  const char *operands = put_specs(p, v, REF_INPUT, "");
  operands = put_specs(p, v, REF_OUTPUT, operands);
  p->indent -= 2;
  py_line(p, ")(%s)", operands);
  if (*guard) p->indent--;
  p->pipeline = NULL;
}
