// A kernel as a Python function for JAX Pallas: names, block specs, pl.pallas_call.
#include "codegen/ir/names.h"
#include "codegen/pallas/internal.h"

#include <ctype.h>
#include <string.h>

// ---- names

// A computed size has a text such as "E + 1" as its name.
static const char *plain_name(Py *p, const char *name) {
  Buf buf = {0};
  if (!isalpha((unsigned char)name[0]) && name[0] != '_') buf_puts(&buf, "n_");
  for (const char *at = name; *at; at++) {
    bool word = isalnum((unsigned char)*at) || *at == '_';
    if (word)
      buf_putc(&buf, *at);
    else if (buf.length && buf.text[buf.length - 1] != '_' && at[1])
      buf_putc(&buf, '_');
  }
  return arena_take(p->arena, &buf);
}

static Interval bounds_of_axis(const Region *extent) {
  const Instr *n = ir_yielded(extent, 0);
  return n->op == OP_CONST && n->ival > 0 ? (Interval){0, n->ival - 1} : interval_counter;
}

static void choose_names(Py *p) {
  const Kernel *k = p->k;
  for (int i = 0; i < k->sizes.count; i++)
    p->size[i] = py_name(p, plain_name(p, k->sizes.at[i].name), NULL);
  for (int i = 0; i < k->grid.count; i++) {
    p->axis[i] = py_name(p, k->grid.at[i].name, NULL);
    p->axis_bounds[i] = bounds_of_axis(k->grid.at[i].extent);
  }
  for (int i = 0; i < k->refs.count; i++)
    if (!p->is_carried[i]) p->ref[i] = py_name(p, k->refs.at[i]->name, NULL);
}

// ---- vars: values if they are always read and assigned as a whole, otherwise scratch memory

static void find_windows(Instr *v, void *context) {
  Py *p = context;
  if ((v->op == OP_LOAD || v->op == OP_STORE) && (!ir_window_is_full(v) || v->flags))
    p->is_carried[v->ref->id] = false;
}

// Arrays that are padded because copies or blocks of pipelines may exceed them.
static void find_growing(Instr *v, void *context) {
  Py *p = context;
  if (op_is_dma(v->op) && v->flags & INSTR_EDGE)
    p->may_grow[v->ref->id] = p->may_grow[v->target->id] = true;
  for (int i = 0; v->op == OP_PIPELINE && i < p->k->refs.count; i++)
    if (p->k->refs.at[i]->scope == v && p->k->refs.at[i]->operand)
      p->may_grow[p->k->refs.at[i]->operand->id] = true;
}

static int loop_depth(const Region *region) {
  int deepest = 0;
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int side = 0; side < 2; side++) {
      int depth = loop_depth(v->regions[side]) + (v->op == OP_FOR || v->op == OP_WHILE);
      if (depth > deepest) deepest = depth;
    }
  }
  return deepest;
}

void py_start_kernel(Py *p) {
  Kernel *k = p->k;
  p->size = NEW_ARRAY(p->arena, const char *, k->sizes.count + 1);
  p->axis = NEW_ARRAY(p->arena, const char *, k->grid.count + 1);
  p->axis_bounds = NEW_ARRAY(p->arena, Interval, k->grid.count + 1);
  p->axis_used = NEW_ARRAY(p->arena, bool, k->grid.count + 1);
  p->ref = NEW_ARRAY(p->arena, const char *, k->refs.count + 1);
  p->is_carried = NEW_ARRAY(p->arena, bool, k->refs.count + 1);
  p->padding = NEW_ARRAY(p->arena, PyPadding, k->refs.count + 1);
  p->may_grow = NEW_ARRAY(p->arena, bool, k->refs.count + 1);
  p->vars = k->refs.count + loop_depth(k->body) + 2;
  p->var = NEW_ARRAY(p->arena, const char *, p->vars);
  for (int i = 0; i < k->refs.count; i++) p->is_carried[i] = k->refs.at[i]->role == REF_VAR;
  ir_walk(k->body, find_windows, p);
  ir_walk(k->body, find_growing, p);
  choose_names(p);
}

// ---- block specs

static void mark_axes(Instr *v, void *context) {
  Py *p = context;
  if (v->op == OP_AXIS) p->axis_used[v->ival] = true;
  for (int i = 0; i < v->nargs; i++) mark_axes(v->args[i], p);
  for (int side = 0; side < 2; side++) ir_walk(v->regions[side], mark_axes, p);
}

// The text of the index along an axis.
static const char *map_index(Py *p, const Ref *ref, int axis) {
  if (ref->operand) return py_yielded(p, ref->scope->regions[0], ir_block_index(p->k, ref) + axis);
  bool *used = p->axis_used;
  p->axis_used =
      NEW_ARRAY(p->arena, bool, p->k->grid.count + 1);  // of all entries; only this one is used
  const char *index = py_yielded(p, ref->index_map, axis);
  p->axis_used = used;
  mark_axes(ir_yielded(ref->index_map, axis), p);
  return index;
}

const char *py_map_entry(Py *p, const Ref *ref, int axis) {
  const char *index = map_index(p, ref, axis);
  if (ref->at != AT_BLOCK || ref->block[axis] == 1 || strcmp(index, "0") == 0) return index;
  bool sum = py(py_block_index(p->k, ref, axis))->prec < PY_TIMES;
  const char *factor = sum ? py_text(p, "(%s)", index) : index;
  return py_text(p, "%s * %s", factor, py_dim(p, ref->block[axis]));
}

// i * b on an axis of cdiv(n, b) steps never exceeds n.
static bool walks_over(const Kernel *k, const Instr *start, Dim dim) {
  if (start->op == OP_SUB) start = start->args[0];
  if (start->op != OP_MUL || start->args[0]->op != OP_AXIS || start->args[1]->op != OP_CONST)
    return false;
  int64_t block = start->args[1]->ival;
  const Region *extent = k->grid.at[start->args[0]->ival].extent;
  const Instr *n = ir_yielded(extent, 0);
  if (n->op != OP_FLOORDIV || !ir_is_const(n->args[1], block) || n->args[0]->op != OP_ADD)
    return false;
  const Instr *size = n->args[0]->args[0];
  return size->op == OP_SIZE && dim == dim_of_size((int)size->ival) &&
         ir_is_const(n->args[0]->args[1], block - 1);
}

// A block that starts at an element: the array gets padding before and after it, and the start
// counts from there.
typedef struct {
  const char *shape, *index;
} ElementAxis;

enum { MOST_HALO = 1 << 30 };  // limit if the start depends on data

// The extent and start of a block along an axis that is indexed by elements.
static ElementAxis element_axis(Py *p, const Ref *ref, int axis) {
  const char *start = py_yielded(p, ref->index_map, axis), *block = py_dim(p, ref->block[axis]),
             *dim = py_dim(p, ref->array.dim[axis]);
  Instr *index = ir_yielded(ref->index_map, axis);
  int64_t low = py(index)->bounds.low;
  bool stated = ref->halo[axis][0] >= 0, known = low > -MOST_HALO;
  if (ref->squeeze[axis] || (ref->block[axis] == ref->array.dim[axis] && ir_is_const(index, 0)))
    return (ElementAxis){ref->squeeze[axis] ? "None" : py_text(p, "pl.Element(%s)", block), start};
  const char *before = stated  ? py_text(p, "%lld", (long long)ref->halo[axis][0])
                       : known ? py_text(p, "%lld", (long long)(low < 0 ? -low : 0))
                               : block;
  const char *after = stated ? py_text(p, "%lld", (long long)ref->halo[axis][1]) : block;
  const char *shape = py_text(p, "pl.Element(%s, (%s, %s))", block, before, after);
  if (!stated && !known)
    return (ElementAxis){shape, py_text(p, "jnp.clip(%s, -%s, %s) + %s", start, block, dim, block)};
  if (!stated && !walks_over(p->k, index, ref->array.dim[axis]))
    start = py_text(p, "jnp.minimum(%s, %s)", start, dim);
  if (strcmp(before, "0") == 0) return (ElementAxis){shape, start};
  bool cancels = index->op == OP_SUB && start == py(index)->text &&
                 strcmp(py(index->args[1])->text, before) == 0;
  return (ElementAxis){shape,
                       cancels ? py(index->args[0])->text : py_text(p, "%s + %s", start, before)};
}

static const char *lambda_head(Py *p) {
  const char *names = py_list(p, p->axis, p->k->grid.count);
  for (int i = 0; i < p->k->inputs; i++)
    if (p->k->refs.at[i]->prefetch)
      names = py_text(p, "%s%s%s", names, *names ? ", " : "", p->ref[i]);
  return py_text(p, "lambda%s%s", *names ? " " : "", names);
}

static const char *map_text(Py *p, const Ref *ref) {
  const char *shape[MAX_RANK], *index[MAX_RANK];
  if (ref->at == AT_SLICE)
    py_fail(p, ref->map_span, "`at slice`: pl.BoundedSlice is not for the blocks of a grid");
  for (int i = 0; i < ref->array.rank; i++) {
    if (ref->at == AT_BLOCK) {
      shape[i] = ref->squeeze[i] ? "None" : py_dim(p, ref->block[i]);
      index[i] = py_yielded(p, ref->index_map, i);
    } else {
      ElementAxis axis = element_axis(p, ref, i);
      shape[i] = axis.shape, index[i] = axis.index;
    }
  }
  return py_text(p, "%s, %s: %s", py_tuple(p, shape, ref->array.rank), lambda_head(p),
                 py_tuple(p, index, ref->array.rank));
}

static const char *block_spec(Py *p, const Ref *ref) {
  bool moves = ref->index_map && !ref->whole && ref->space != SPACE_ANY;
  const char *space = ref->space == SPACE_SMEM  ? "pltpu.SMEM"
                      : ref->space == SPACE_ANY ? "pl.ANY"
                      : moves                   ? ""
                                                : "pltpu.VMEM";
  const char *mode = ref->revisit                ? "pl.Buffered(1, revisit=pl.RevisitMode.ANY)"
                     : moves && ref->buffers > 2 ? py_text(p, "pl.Buffered(%d)", ref->buffers)
                                                 : "";
  p->launch = p->map = true;
  const char *text = moves ? map_text(p, ref) : "";
  p->launch = p->map = false;
  if (*space) text = py_text(p, "%s%smemory_space=%s", text, *text ? ", " : "", space);
  if (*mode) text = py_text(p, "%s, pipeline_mode=%s", text, mode);
  return py_text(p, "pl.BlockSpec(%s)", text);
}

// ---- the kernel and its call

// Pallas has one barrier semaphore, which is not among the scratch.
static bool is_barrier(const Ref *ref) {
  return ref->space == SPACE_SEM && ref->semaphore == SEM_BARRIER;
}

static bool is_parameter(const Py *p, int ref) {
  const Ref *r = p->k->refs.at[ref];
  return !p->is_carried[ref] && !r->scope && !is_barrier(r);
}

static const Ref *barrier_of(const Kernel *k) {
  for (int i = 0; i < k->refs.count; i++)
    if (is_barrier(k->refs.at[i])) return k->refs.at[i];
  return NULL;
}

// Writes the kernel function.
static void put_kernel(Py *p, const Buf *body) {
  const Kernel *k = p->k;
  const char *names = "";
  for (int first = 1; first >= 0; first--)
    for (int i = 0; i < k->refs.count; i++)
      if (is_parameter(p, i) && k->refs.at[i]->prefetch == first)
        names = py_text(p, "%s%s%s", names, *names ? ", " : "", p->ref[i]);
  buf_putc(p->out, '\n');
  py_line(p, "def kernel(%s):", names);
  p->indent++;
  for (int i = 0; i < k->grid.count; i++)
    if (p->axis_used[i]) py_line(p, "%s = pl.program_id(%d)", p->axis[i], i);
  if (barrier_of(k)) py_line(p, "%s = pltpu.get_barrier_semaphore()", p->ref[barrier_of(k)->id]);
  if (body->length && strncmp(body->text + p->indent * 2, "@", 1) == 0) buf_putc(p->out, '\n');
  if (body->length)
    buf_add(p->out, body->text, body->length);
  else
    py_line(p, "pass");
  p->indent--;
  buf_putc(p->out, '\n');
}

static void put_specs(Py *p, const char *head, int first, int count) {
  if (count == 1 && strcmp(head, "out_specs") == 0) {
    py_line(p, "%s=%s,", head, block_spec(p, p->k->refs.at[first]));
    return;
  }
  py_line(p, "%s=[", head);
  for (int i = first; i < first + count; i++)
    if (!p->k->refs.at[i]->prefetch) py_line(p, "    %s,", block_spec(p, p->k->refs.at[i]));
  py_line(p, "],");
}

// The padding after an axis; NULL: none.
static const char *axis_padding(Py *p, const Ref *ref, int axis) {
  const PyPadding *padding = &p->padding[ref->id];
  long long after = padding->after[axis], multiple = padding->multiple[axis];
  if (!multiple) return after ? py_text(p, "%lld", after) : NULL;
  Dim dim = ref->array.dim[axis];
  const char *size = py_dim(p, dim);
  if (after) return py_text(p, "%lld + (-%s - %lld) %% %lld", after, size, after, multiple);
  bool filled = dim_is_const(dim) ? dim > 0 : py_is_filled(p->k, dim_size_index(dim));
  return filled ? py_text(p, "-%s %% %lld", size, multiple)
                : py_text(p, "(-%s %% %lld or (%s == 0) * %lld)", size, multiple, size, multiple);
}

// The shape with the padding that copies and blocks need.
static const char *padded_shape(Py *p, const Ref *ref) {
  const char *items[MAX_RANK];
  for (int i = 0; i < ref->array.rank; i++) {
    items[i] = py_dim(p, ref->array.dim[i]);
    const char *padding = axis_padding(p, ref, i);
    if (padding) items[i] = py_text(p, "%s + %s", items[i], padding);
  }
  return py_tuple(p, items, ref->array.rank);
}

static bool has_padding(const Py *p, const Ref *ref) {
  for (int i = 0; i < ref->array.rank; i++)
    if (p->padding[ref->id].after[i] || p->padding[ref->id].multiple[i]) return true;
  return false;
}

static const char *padded_input(Py *p, const Ref *ref) {
  const PyPadding *padding = &p->padding[ref->id];
  const char *items[MAX_RANK];
  for (int i = 0; i < ref->array.rank; i++) {
    const char *after = axis_padding(p, ref, i);
    items[i] = py_text(p, "(0, %s)", after ? after : "0");
  }
  const char *filler = padding->filler ? py_text(p, ", constant_values=%s", padding->filler) : "";
  return py_text(p, "jnp.pad(%s, %s%s)", p->ref[ref->id], py_tuple(p, items, ref->array.rank),
                 filler);
}

static const char *without_padding(Py *p, const Ref *ref, const char *array) {
  const char *items[MAX_RANK];
  if (!has_padding(p, ref)) return array;
  if (ref->alias) py_fail(p, ref->span, "copies that go past an array with an alias");
  for (int i = 0; i < ref->array.rank; i++)
    items[i] = py_text(p, ":%s", py_dim(p, ref->array.dim[i]));
  return py_text(p, "%s[%s]", array, py_list(p, items, ref->array.rank));
}

static void put_outputs(Py *p) {
  const Kernel *k = p->k;
  const char **items = NEW_ARRAY(p->arena, const char *, k->outputs + 1);
  for (int i = 0; i < k->outputs; i++) {
    const Type *array = &k->refs.at[k->inputs + i]->array;
    items[i] = py_text(p, "jax.ShapeDtypeStruct(%s, %s)",
                       padded_shape(p, k->refs.at[k->inputs + i]), py_dtype(array->dtype));
  }
  if (k->outputs == 1) {
    py_line(p, "out_shape=%s,", items[0]);
    return;
  }
  py_line(p, "out_shape=(");
  for (int i = 0; i < k->outputs; i++) py_line(p, "    %s,", items[i]);
  py_line(p, "),");
}

const char *py_scratch(Py *p, const Ref *ref) {
  static const char *const kinds[] = {
      [SEM_DMA] = "DMA", [SEM_REGULAR] = "REGULAR", [SEM_BARRIER] = "BARRIER"};
  const char *shape = py_shape(p, &ref->type);
  if (ref->space == SPACE_SEM)
    return py_text(p, ref->type.rank ? "pltpu.SemaphoreType.%s(%s)" : "pltpu.SemaphoreType.%s",
                   kinds[ref->semaphore], shape);
  return py_text(p, "pltpu.%s(%s, %s)", ref->space == SPACE_SMEM ? "SMEM" : "VMEM", shape,
                 py_dtype(ref->type.dtype));
}

static void put_scratch(Py *p) {
  const Kernel *k = p->k;
  bool any = false;
  for (int i = k->inputs + k->outputs; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    if (!is_parameter(p, i)) continue;
    if (!any) py_line(p, "scratch_shapes=[");
    any = true;
    py_line(p, "    %s,", py_scratch(p, ref));
  }
  if (any) py_line(p, "],");
}

static int prefetched(const Kernel *k, int before) {
  int count = 0;
  for (int i = 0; i < before; i++) count += k->refs.at[i]->prefetch;
  return count;
}

// Prefetched inputs come first.
static int argument_index(const Kernel *k, const Ref *input) {
  int before = prefetched(k, input->id);
  return input->prefetch ? before : prefetched(k, k->inputs) + input->id - before;
}

static void put_aliases(Py *p) {
  const Kernel *k = p->k;
  const char *pairs = "";
  for (int i = 0; i < k->outputs; i++) {
    const Ref *ref = k->refs.at[k->inputs + i];
    if (ref->alias)
      pairs = py_text(p, "%s%s%d: %d", pairs, *pairs ? ", " : "", argument_index(k, ref->alias), i);
  }
  if (*pairs) py_line(p, "input_output_aliases={%s},", pairs);
}

// In Pallas any step of a parallel axis may write last; if the axis runs in order, it is the last
// index.
static bool runs_in_order(const Kernel *k, int axis) {
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    if (ir_ignores_axis(k, k->refs.at[i], axis)) return true;
  return !k->grid.at[axis].parallel;
}

static void put_parameters(Py *p) {
  const Kernel *k = p->k;
  const char *words = "";
  for (int i = 0; i < k->grid.count; i++)
    words = py_text(p, "%s%s\"%s\"", words, i ? ", " : "",
                    runs_in_order(k, i) ? "arbitrary" : "parallel");
  const char *semantics =
      k->grid.count ? py_text(p, "dimension_semantics=(%s%s)", words, k->grid.count == 1 ? "," : "")
                    : "";
  const bool limited = k->vmem_limit && k->vmem_limit < VMEM_UNLIMITED;
  const char *limit = limited ? py_text(p, "vmem_limit_bytes=%lld", (long long)k->vmem_limit) : "";
  const char *items[] = {semantics, limit, barrier_of(k) ? "collective_id=0" : ""}, *all = "";
  for (int i = 0; i < 3; i++)
    if (*items[i]) all = py_text(p, "%s%s%s", all, *all ? ", " : "", items[i]);
  if (*all) py_line(p, "compiler_params=pltpu.CompilerParams(%s),", all);
}

// Grid, specs and scratch: one object if scalars are prefetched.
static void put_launch(Py *p) {
  const Kernel *k = p->k;
  int first = prefetched(k, k->inputs);
  if (first) {
    py_line(p, "grid_spec=pltpu.PrefetchScalarGridSpec(");
    p->indent += 2;
    py_line(p, "num_scalar_prefetch=%d,", first);
  }
  if (k->grid.count || first) py_line(p, k->grid.count ? "grid=grid," : "grid=(),");
  put_specs(p, "in_specs", 0, k->inputs);
  put_specs(p, "out_specs", k->inputs, k->outputs);
  put_scratch(p);
  if (!first) return;
  p->indent -= 2;
  py_line(p, "),");
}

static const char *argument_text(Py *p, const Ref *ref) {
  if (has_padding(p, ref)) return padded_input(p, ref);
  bool copied = false;
  const char *least[MAX_RANK];
  for (int i = 0; i < ref->array.rank; i++) {
    int64_t wanted = p->padding[ref->id].least[i];
    copied = copied || wanted > 1;
    least[i] = py_text(p, "%lld", (long long)(wanted ? wanted : 1));
  }
  if (!copied && !py_may_be_empty(p->k, ref)) return p->ref[ref->id];
  p->fills = true;
  return copied ? py_text(p, "_fill(%s, %s)", p->ref[ref->id], py_list(p, least, ref->array.rank))
                : py_text(p, "_fill(%s)", p->ref[ref->id]);
}

// Writes the pallas_call.
static void put_call(Py *p) {
  const Kernel *k = p->k;
  bool pads = false;
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    pads = pads || has_padding(p, k->refs.at[i]);
  const char *result =
      k->outputs == 1 ? p->ref[k->inputs] : py_list(p, p->ref + k->inputs, k->outputs);
  py_line(p, pads ? "%s = pl.pallas_call(" : "return pl.pallas_call(", result);
  p->indent += 2;
  py_line(p, "kernel,");
  put_outputs(p);
  put_launch(p);
  put_aliases(p);
  put_parameters(p);
  py_line(p, "interpret=interpret,");
  py_line(p, "name=%s,", py_quoted(p, k->name));
  p->indent -= 2;
  const char *arrays = "";
  for (int first = 1; first >= 0; first--)
    for (int i = 0; i < k->inputs; i++)
      if (k->refs.at[i]->prefetch == first)
        arrays = py_text(p, "%s%s%s", arrays, *arrays ? ", " : "", argument_text(p, k->refs.at[i]));
  py_line(p, ")(%s)", arrays);
  if (!pads) return;
  const char *cut = "";
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    cut = py_text(p, "%s%s%s", cut, *cut ? ", " : "", without_padding(p, k->refs.at[i], p->ref[i]));
  py_line(p, "return %s", cut);
}

static void put_grid(Py *p) {
  const Kernel *k = p->k;
  const char **items = NEW_ARRAY(p->arena, const char *, k->grid.count + 1);
  for (int i = 0; i < k->grid.count; i++) items[i] = py_yielded(p, k->grid.at[i].extent, 0);
  if (k->grid.count) py_line(p, "grid = %s", py_tuple(p, items, k->grid.count));
}

// JAX has only index arithmetic in 64 bits, unless jax_enable_x64 is set, which changes the meaning
// of everything else. ---- many devices

// jax.P("x", None, ("y", "x"))
static const char *partition(Py *p, const Ref *ref) {
  const char *items[MAX_RANK], *names[MOST_MESH_AXES];
  for (int i = 0; i < ref->array.rank; i++) {
    int count = 0;
    while (count < MOST_MESH_AXES && ref->shard[i][count]) {
      names[count] = py_quoted(p, p->k->mesh.at[ref->shard[i][count] - 1].name);
      count++;
    }
    items[i] = count == 0 ? "None" : count == 1 ? names[0] : py_tuple(p, names, count);
  }
  return py_text(p, "jax.P(%s)", py_list(p, items, ref->array.rank));
}

static const char *partitions(Py *p, int first, int count) {
  const char **items = NEW_ARRAY(p->arena, const char *, count + 1);
  for (int i = 0; i < count; i++) items[i] = partition(p, p->k->refs.at[first + i]);
  return count == 1 && first ? items[0] : py_tuple(p, items, count);
}

static void put_mesh(Py *p) {
  const Kernel *k = p->k;
  const char *extents[MOST_MESH_AXES], *names[MOST_MESH_AXES], *types[MOST_MESH_AXES];
  for (int i = 0; i < k->mesh.count; i++) {
    extents[i] = py_text(p, "%lld", (long long)k->mesh.at[i].extent);
    names[i] = py_quoted(p, k->mesh.at[i].name);
    types[i] = "jax.sharding.AxisType.Auto";
  }
  int count = k->mesh.count;
  py_line(p, "if mesh is None:");
  py_line(p, "  mesh = jax.make_mesh(%s, %s, axis_types=%s)", py_tuple(p, extents, count),
          py_tuple(p, names, count), py_tuple(p, types, count));
}

// The call on a device's parts, as a function, and the call of that function on all devices.
static void put_devices(Py *p) {
  const Kernel *k = p->k;
  const char *inputs = py_list(p, p->ref, k->inputs);
  py_line(p, "def device(%s):", inputs);
  p->indent++;
  put_call(p);
  p->indent--;
  buf_putc(p->out, '\n');
  put_mesh(p);
  py_line(p, "specs = %s, %s", partitions(p, 0, k->inputs), partitions(p, k->inputs, k->outputs));
  py_line(p,
          "devices = jax.shard_map(device, mesh=mesh, in_specs=specs[0], out_specs=specs[1], "
          "check_vma=False)");
  py_line(p, "return jax.jit(devices)(%s)", inputs);
}

void py_kernel_call(Py *p, const Buf *body) {
  put_grid(p);
  put_kernel(p, body);
  if (p->k->mesh.count)
    put_devices(p);
  else
    put_call(p);
}
