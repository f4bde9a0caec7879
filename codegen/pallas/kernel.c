// A kernel as a Python file for JAX Pallas: its signature, the function around pl.pallas_call,
// block specs, helpers.
#include "codegen/ir/names.h"
#include "codegen/pallas/pallas.h"
#include "codegen/ir/flow.h"
#include "codegen/pallas/internal.h"

#include <ctype.h>
#include <string.h>

// ---- names

// A size that is computed has a text such as "E + 1" for a name.
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

// ---- vars: values where they are always read and assigned whole, else scratch memory

static void find_windows(Instr *v, void *context) {
  Py *p = context;
  if ((v->op == OP_LOAD || v->op == OP_STORE) && (!ir_window_is_full(v) || v->flags))
    p->is_carried[v->ref->id] = false;
}

// Arrays that are given room for what goes past their ends, as copies and blocks of pipelines may.
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

static void start(Py *p) {
  Kernel *k = p->k;
  p->size = NEW_ARRAY(p->arena, const char *, k->sizes.count + 1);
  p->axis = NEW_ARRAY(p->arena, const char *, k->grid.count + 1);
  p->axis_bounds = NEW_ARRAY(p->arena, Interval, k->grid.count + 1);
  p->axis_used = NEW_ARRAY(p->arena, bool, k->grid.count + 1);
  p->ref = NEW_ARRAY(p->arena, const char *, k->refs.count + 1);
  p->is_carried = NEW_ARRAY(p->arena, bool, k->refs.count + 1);
  p->room = NEW_ARRAY(p->arena, PyRoom, k->refs.count + 1);
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
      NEW_ARRAY(p->arena, bool, p->k->grid.count + 1);  // of all entries: only this one counts
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

// A block that starts at an element: the array gets room before and after it, and the start counts
// from there.
typedef struct {
  const char *shape, *index;
} ElementAxis;

enum { MOST_HALO = 1 << 30 };  // how far before the array it begins depends on data

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

// ---- the parts of the file

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void put_imports(Py *p) {
  const Kernel *k = p->k;
  const char *statics = "";
  for (int i = 0; i < k->statics.count; i++)
    statics = py_text(p, "%s%s%s = %s", statics, i ? ", " : "", k->statics.at[i].name,
                      k->statics.at[i].value);
  py_line(p, "\"\"\"%s, from %s by `pkc --emit=pallas`%s%s.\"\"\"", k->name,
          k->source->path ? base_name(k->source->path) : "its IR", *statics ? ", with " : "",
          statics);
  buf_puts(p->out,
           "\n"
           "import jax\n"
           "import jax.numpy as jnp\n"
           "from jax import lax\n"
           "from jax.experimental import pallas as pl\n"
           "from jax.experimental.pallas import tpu as pltpu\n");
}

static void put_helpers(Py *p) {
  if (p->pads)
    buf_printf(p->out,
               "\n\n"
               "def _pad(x, value, *axes):\n"
               "  \"\"\"x, and `value` where it lies outside its array. axes: (axis of x, its "
               "first index in the array, the "
               "array's size%s).\"\"\"\n"
               "  for axis, start, size%s in axes:\n"
               "    at = start if axis is None else start + lax.broadcasted_iota(jnp.int32, "
               "x.shape, axis)%s\n"
               "    x = jnp.where((at >= 0) & (at < size), x, value).astype(x.dtype)\n"
               "  return x\n",
               p->strides ? "[, stride]" : "", p->strides ? ", *stride" : "",
               p->strides ? " * (stride or [1])[0]" : "");
  if (p->windows)
    buf_puts(
        p->out,
        "\n\n"
        "def _along(n, axis, rank):\n"
        "  return lax.broadcasted_iota(jnp.int32, [n if k == axis else 1 for k in range(rank)], "
        "axis)\n"
        "\n\n"
        "def _load(x, mask, other, *axes):\n"
        "  \"\"\"A window of x where `mask` holds and it lies inside, else `other`. axes: (start, "
        "size, stride).\"\"\"\n"
        "  inside, shape = True, [size for _, size, _ in axes if size is not None]\n"
        "  for axis, (start, size, stride) in enumerate(axes):\n"
        "    at = start + stride * _along(1 if size is None else size, axis, x.ndim)\n"
        "    inside = inside & (at >= 0) & (at < x.shape[axis])\n"
        "    x = jnp.take(x, at.reshape(-1), axis=axis, mode=\"clip\")\n"
        "  inside = jnp.broadcast_to(inside, x.shape).reshape(shape)\n"
        "  return jnp.where(mask & inside, x.reshape(shape), other).astype(x.dtype)\n"
        "\n\n"
        "def _store(ref, value, mask, *axes):\n"
        "  \"\"\"Stores to a window of ref where `mask` holds and it lies inside. axes: (start, "
        "size, stride).\"\"\"\n"
        "  shape = [1 if size is None else size for _, size, _ in axes]\n"
        "  value, mask = value.reshape(shape), mask.reshape(shape)\n"
        "  for axis, (start, _, stride) in enumerate(axes):\n"
        "    at = _along(ref.shape[axis], axis, len(axes)) - start\n"
        "    lane = at.reshape(-1) // stride\n"
        "    value, mask = (jnp.take(v, lane, axis=axis, mode=\"clip\") for v in (value, mask))\n"
        "    mask = mask & (at >= 0) & (at % stride == 0) & (at < shape[axis] * stride)\n"
        "  ref[...] = jnp.where(mask, value, ref[...])\n");
  if (p->fills)
    buf_puts(p->out,
             "\n\n"
             "def _fill(x, *least):\n"
             "  \"\"\"x, with one element on each axis, or as many as `least` says: pallas_call "
             "takes no empty arrays.\"\"\"\n"
             "  return jnp.pad(x, [(0, max(0, m - n)) for n, m in zip(x.shape, least or (1,) * "
             "x.ndim)])\n");
}

// An operand's whole array, of which a device has a part.
static const Type *whole(const Ref *ref) { return ref->all ? ref->all : &ref->array; }

static bool has_size(const Type *type, int size) {
  for (int i = 0; i < type->rank; i++)
    if (type->dim[i] == dim_of_size(size)) return true;
  return false;
}

static const Ref *binding_input(const Kernel *k, int size) {
  for (int i = 0; i < k->inputs; i++)
    if (has_size(whole(k->refs.at[i]), size)) return k->refs.at[i];
  return NULL;
}

static const char *operand_type(Py *p, const Ref *ref) {
  const char *items[MAX_RANK], *dtype = dtype_info[ref->array.dtype].name;
  for (int i = 0; i < ref->array.rank; i++) items[i] = py_dim(p, whole(ref)->dim[i]);
  return py_text(p, ref->array.rank ? "%s: %s[%s]" : "%s: %s%s", ref->name, dtype,
                 py_list(p, items, ref->array.rank));
}

static void put_signature(Py *p) {
  const Kernel *k = p->k;
  const char *inputs = "", *sizes = "", *from = "", *to = "";
  for (int i = 0; i < k->inputs; i++) inputs = py_text(p, "%s%s, ", inputs, p->ref[i]);
  for (int i = 0; i < k->sizes.count; i++)
    if (!k->sizes.at[i].value && !binding_input(k, i))
      sizes = py_text(p, "%s%s, ", sizes, p->size[i]);
  for (int i = 0; i < k->inputs; i++)
    from = py_text(p, "%s%s%s", from, i ? ", " : "", operand_type(p, k->refs.at[i]));
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    to = py_text(p, "%s%s%s", to, i > k->inputs ? ", " : "", operand_type(p, k->refs.at[i]));
  py_line(p, "\n\ndef %s(%s*, %s%sinterpret=False):",
          p->function ? p->function : name_of_kernel(p->arena, k->name, NAME_PY_FUNCTION, NULL, 0),
          inputs, sizes, k->mesh.count ? "mesh=None, " : "");
  p->indent++;
  py_line(p, "\"\"\"%s -> %s\"\"\"", from, to);
}

// Sizes from the shapes of the inputs, then those computed from them.
static void put_sizes(Py *p) {
  const Kernel *k = p->k;
  bool *bound = NEW_ARRAY(p->arena, bool, k->sizes.count + 1);
  for (int i = 0; i < k->inputs; i++) {
    const Type *array = whole(k->refs.at[i]);
    const char *names[MAX_RANK];
    bool any = false;
    for (int a = 0; a < array->rank; a++) {
      int size = dim_is_const(array->dim[a]) ? -1 : dim_size_index(array->dim[a]);
      bool binds = size >= 0 && !k->sizes.at[size].value && !bound[size];
      names[a] = binds ? p->size[size] : "_";
      any = any || binds;
      if (binds) bound[size] = true;
    }
    if (any)
      py_line(p, array->rank == 1 ? "%s, = %s.shape" : "%s = %s.shape",
              py_list(p, names, array->rank), p->ref[i]);
  }
  for (int i = 0; i < k->sizes.count; i++)
    if (k->sizes.at[i].value)
      py_line(p, "%s = %s", p->size[i], py_yielded(p, k->sizes.at[i].value, 0));
}

static void put_checks(Py *p) {
  const Kernel *k = p->k;
  if (k->inputs) py_line(p, "for name, array, shape, dtype in (");
  for (int i = 0; i < k->inputs; i++) {
    const Type *array = whole(k->refs.at[i]);
    py_line(p, "    (%s, %s, %s, %s),", py_quoted(p, k->refs.at[i]->name), p->ref[i],
            py_shape(p, array), py_dtype(array->dtype));
  }
  if (k->inputs) {
    py_line(p, "):");
    py_line(p, "  if array.shape != shape or array.dtype != dtype:");
    py_line(p,
            "    raise ValueError(f\"%s: {name} is {array.dtype}{array.shape}, not "
            "{jnp.dtype(dtype)}{shape}\")",
            k->name);
  }
  for (int i = 0; i < k->requires.count; i++) {
    Region *r = k->requires.at[i].condition;
    const char *condition = py_yielded(p, r, 0), *message = k->requires.at[i].message;
    bool plain = py(ir_yielded(r, 0))->prec > PY_NOT;
    py_line(p, plain ? "if not %s:" : "if not (%s):", condition);
    py_line(p, "  raise ValueError(%s)",
            py_quoted(p, py_text(p, "%s: %s", k->name, message ? message : condition)));
  }
}

// ---- arrays of no elements

// Is the size above 0 after the early return? It is where every output has it as an axis.
bool py_is_filled(const Kernel *k, int size) {
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    if (!has_size(&k->refs.at[i]->array, size) && !has_size(whole(k->refs.at[i]), size))
      return false;
  return true;
}

static bool must_be_filled(const Kernel *k, int size) {
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    bool block = !ref->prefetch && ref->space != SPACE_ANY;
    if ((block && has_size(&ref->type, size)) ||
        (ref->role == REF_OUTPUT && has_size(&ref->array, size)))
      return true;
  }
  return false;
}

static bool may_be_empty(const Kernel *k, const Ref *ref) {
  for (int size = 0; size < k->sizes.count; size++)
    if (has_size(&ref->array, size) && !py_is_filled(k, size) && !must_be_filled(k, size))
      return true;
  return false;
}

static const char *empty_output(Py *p, const Ref *ref) {
  return py_text(p, "jnp.zeros(%s, %s)", py_shape(p, whole(ref)), py_dtype(ref->array.dtype));
}

static void put_empty(Py *p) {
  const Kernel *k = p->k;
  const char *sizes = "", **outputs = NEW_ARRAY(p->arena, const char *, k->outputs + 1);
  int count = 0;
  for (int i = 0; i < k->sizes.count; i++)
    if (py_is_filled(k, i)) sizes = py_text(p, "%s%s%s", sizes, count++ ? ", " : "", p->size[i]);
  for (int i = 0; i < k->outputs; i++) outputs[i] = empty_output(p, k->refs.at[k->inputs + i]);
  if (count) {
    py_line(p, count == 1 ? "if %s == 0:" : "if 0 in (%s):", sizes);
    py_line(p, "  return %s", k->outputs == 1 ? outputs[0] : py_tuple(p, outputs, k->outputs));
  }
  for (int i = 0; i < k->sizes.count; i++) {
    if (py_is_filled(k, i) || !must_be_filled(k, i)) continue;
    py_line(p, "if %s == 0:", p->size[i]);
    py_line(p, "  raise ValueError(\"%s: %s is 0, and Pallas has no blocks of no elements\")",
            k->name, k->sizes.at[i].name);
  }
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

// The room behind an axis; NULL: none.
static const char *axis_room(Py *p, const Ref *ref, int axis) {
  const PyRoom *room = &p->room[ref->id];
  long long after = room->after[axis], multiple = room->multiple[axis];
  if (!multiple) return after ? py_text(p, "%lld", after) : NULL;
  Dim dim = ref->array.dim[axis];
  const char *size = py_dim(p, dim);
  if (after) return py_text(p, "%lld + (-%s - %lld) %% %lld", after, size, after, multiple);
  bool filled = dim_is_const(dim) ? dim > 0 : py_is_filled(p->k, dim_size_index(dim));
  return filled ? py_text(p, "-%s %% %lld", size, multiple)
                : py_text(p, "(-%s %% %lld or (%s == 0) * %lld)", size, multiple, size, multiple);
}

// The shape with the room that copies and blocks need.
static const char *roomy_shape(Py *p, const Ref *ref) {
  const char *items[MAX_RANK];
  for (int i = 0; i < ref->array.rank; i++) {
    items[i] = py_dim(p, ref->array.dim[i]);
    const char *room = axis_room(p, ref, i);
    if (room) items[i] = py_text(p, "%s + %s", items[i], room);
  }
  return py_tuple(p, items, ref->array.rank);
}

static bool has_room(const Py *p, const Ref *ref) {
  for (int i = 0; i < ref->array.rank; i++)
    if (p->room[ref->id].after[i] || p->room[ref->id].multiple[i]) return true;
  return false;
}

static const char *roomy_input(Py *p, const Ref *ref) {
  const PyRoom *room = &p->room[ref->id];
  const char *items[MAX_RANK];
  for (int i = 0; i < ref->array.rank; i++) {
    const char *after = axis_room(p, ref, i);
    items[i] = py_text(p, "(0, %s)", after ? after : "0");
  }
  const char *filler = room->filler ? py_text(p, ", constant_values=%s", room->filler) : "";
  return py_text(p, "jnp.pad(%s, %s%s)", p->ref[ref->id], py_tuple(p, items, ref->array.rank),
                 filler);
}

static const char *without_room(Py *p, const Ref *ref, const char *array) {
  const char *items[MAX_RANK];
  if (!has_room(p, ref)) return array;
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
    items[i] = py_text(p, "jax.ShapeDtypeStruct(%s, %s)", roomy_shape(p, k->refs.at[k->inputs + i]),
                       py_dtype(array->dtype));
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

// Pallas lets any step of a parallel axis write last; in order, that of the last index does.
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
  const char *limit =
      k->vmem_limit ? py_text(p, "vmem_limit_bytes=%lld", (long long)k->vmem_limit) : "";
  const char *items[] = {semantics, limit, barrier_of(k) ? "collective_id=0" : ""}, *all = "";
  for (int i = 0; i < 3; i++)
    if (*items[i]) all = py_text(p, "%s%s%s", all, *all ? ", " : "", items[i]);
  if (*all) py_line(p, "compiler_params=pltpu.CompilerParams(%s),", all);
}

// Grid, specs and scratch: one object where scalars are prefetched.
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
  if (has_room(p, ref)) return roomy_input(p, ref);
  bool copied = false;
  const char *least[MAX_RANK];
  for (int i = 0; i < ref->array.rank; i++) {
    int64_t wanted = p->room[ref->id].least[i];
    copied = copied || wanted > 1;
    least[i] = py_text(p, "%lld", (long long)(wanted ? wanted : 1));
  }
  if (!copied && !may_be_empty(p->k, ref)) return p->ref[ref->id];
  p->fills = true;
  return copied ? py_text(p, "_fill(%s, %s)", p->ref[ref->id], py_list(p, least, ref->array.rank))
                : py_text(p, "_fill(%s)", p->ref[ref->id]);
}

static void put_call(Py *p) {
  const Kernel *k = p->k;
  bool roomy = false;
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    roomy = roomy || has_room(p, k->refs.at[i]);
  const char *result =
      k->outputs == 1 ? p->ref[k->inputs] : py_list(p, p->ref + k->inputs, k->outputs);
  py_line(p, roomy ? "%s = pl.pallas_call(" : "return pl.pallas_call(", result);
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
  if (!roomy) return;
  const char *cut = "";
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    cut = py_text(p, "%s%s%s", cut, *cut ? ", " : "", without_room(p, k->refs.at[i], p->ref[i]));
  py_line(p, "return %s", cut);
}

static void put_grid(Py *p) {
  const Kernel *k = p->k;
  const char **items = NEW_ARRAY(p->arena, const char *, k->grid.count + 1);
  for (int i = 0; i < k->grid.count; i++) items[i] = py_yielded(p, k->grid.at[i].extent, 0);
  if (k->grid.count) py_line(p, "grid = %s", py_tuple(p, items, k->grid.count));
}

// Of 64 bits JAX has only index arithmetic, unless jax_enable_x64 changes what everything else
// means.
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
  ir_walk(p->k->body, refuse_wide, p);
  return diag_error_count(p->diag) > 0;
}

// ---- many devices

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

// The call on what a device has, as a function, and the call of that on all devices.
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

// The function of a kernel.
static void put_function(Py *p, Buf *out) {
  if (is_refused(p)) return;
  Buf body = {0};
  start(p);
  p->out = &body;
  p->indent = 2;
  p->body = true;
  py_count_uses(p, p->k->body);
  py_region(p, p->k->body, 0);
  p->body = false;
  p->out = out;
  p->indent = 0;
  put_signature(p);
  put_sizes(p);
  put_checks(p);
  put_empty(p);
  put_grid(p);
  put_kernel(p, &body);
  if (p->k->mesh.count)
    put_devices(p);
  else
    put_call(p);
  p->indent = 0;
  buf_free(&body);
}

// ---- programs

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
  start(p);
  p->axis = NEW_ARRAY(p->arena, const char *, flow->variables + 1);
  p->axis_used = NEW_ARRAY(p->arena, bool, flow->variables + 1);
  p->axis_bounds = NEW_ARRAY(p->arena, Interval, flow->variables + 1);
  for (int i = 0; i < flow->variables; i++) p->axis_bounds[i] = interval_counter;
  for (int i = 0; i < flow->steps.count; i++) {
    const FlowStep *step = &flow->steps.at[i];
    if (step->kind == FLOW_FOR)
      p->axis[step->variable] =
          py_name(p, strcmp(step->name, "_") == 0 ? "turn" : step->name, NULL);
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

// What is assigned in parts, and outputs that a loop of no turns leaves alone, begin as zeros.
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
      py_line(p, "%s = %s", names[i], empty_output(p, p->k->refs.at[i]));
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

// A result in the shape that its place has.
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
      Dim dim = whole(callee->refs.at[o])->dim[i];
      int size = dim_is_const(dim) ? -1 : dim_size_index(dim);
      if (size < 0 || callee->sizes.at[size].value || given[size] || binding_input(callee, size))
        continue;
      given[size] = true;
      arguments = py_text(p, "%s%s=%s, ", arguments, p->callee_size[step->callee][size],
                          py_dim(p, type.dim[i]));
    }
  }
  return arguments;
}

// A kernel whose axes have other names makes a mesh of its own.
static const char *mesh_argument(const Py *p, const Kernel *callee) {
  if (callee->mesh.count == 0) return "";
  for (int i = 0; i < callee->mesh.count; i++)
    if (callee->mesh.at[i].name != p->k->mesh.at[i].name) return "";
  return "mesh=mesh, ";
}

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
  put_signature(p);
  put_sizes(p);
  put_checks(p);
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
  put_imports(p);
  put_helpers(p);
  buf_add(out, functions.text, functions.length);
  buf_free(&functions);
}
