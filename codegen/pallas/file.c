// The rest of a Python file: imports, helpers, the head of a function with sizes and checks of its
// call, arrays without elements.
#include "codegen/ir/flow.h"
#include "codegen/ir/names.h"
#include "codegen/pallas/internal.h"

#include <string.h>

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

void py_imports(Py *p) {
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

// Writes the helper functions that the kernel uses.
void py_helpers(Py *p) {
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

const Ref *py_binding_input(const Kernel *k, int size) {
  for (int i = 0; i < k->inputs; i++)
    if (py_has_size(py_whole_type(k->refs.at[i]), size)) return k->refs.at[i];
  return NULL;
}

static const char *operand_type(Py *p, const Ref *ref) {
  const char *items[MAX_RANK], *dtype = dtype_info[ref->array.dtype].name;
  for (int i = 0; i < ref->array.rank; i++) items[i] = py_dim(p, py_whole_type(ref)->dim[i]);
  return py_text(p, ref->array.rank ? "%s: %s[%s]" : "%s: %s%s", ref->name, dtype,
                 py_list(p, items, ref->array.rank));
}

void py_signature(Py *p) {
  const Kernel *k = p->k;
  const char *inputs = "", *sizes = "", *from = "", *to = "";
  for (int i = 0; i < k->inputs; i++) inputs = py_text(p, "%s%s, ", inputs, p->ref[i]);
  for (int i = 0; i < k->sizes.count; i++)
    if (!k->sizes.at[i].value && !py_binding_input(k, i))
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
void py_sizes(Py *p) {
  const Kernel *k = p->k;
  bool *bound = NEW_ARRAY(p->arena, bool, k->sizes.count + 1);
  for (int i = 0; i < k->inputs; i++) {
    const Type *array = py_whole_type(k->refs.at[i]);
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

// Writes the checks of the arguments.
void py_checks(Py *p) {
  const Kernel *k = p->k;
  if (k->inputs) py_line(p, "for name, array, shape, dtype in (");
  for (int i = 0; i < k->inputs; i++) {
    const Type *array = py_whole_type(k->refs.at[i]);
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

const char *py_empty_output(Py *p, const Ref *ref) {
  return py_text(p, "jnp.zeros(%s, %s)", py_shape(p, py_whole_type(ref)),
                 py_dtype(ref->array.dtype));
}

void py_refuse_empty(Py *p) {
  const Kernel *k = p->k;
  const char *sizes = "", **outputs = NEW_ARRAY(p->arena, const char *, k->outputs + 1);
  int count = 0;
  for (int i = 0; i < k->sizes.count; i++)
    if (py_is_filled(k, i)) sizes = py_text(p, "%s%s%s", sizes, count++ ? ", " : "", p->size[i]);
  for (int i = 0; i < k->outputs; i++) outputs[i] = py_empty_output(p, k->refs.at[k->inputs + i]);
  if (count) {
    py_line(p, count == 1 ? "if %s == 0:" : "if 0 in (%s):", sizes);
    py_line(p, "  return %s", k->outputs == 1 ? outputs[0] : py_tuple(p, outputs, k->outputs));
  }
  for (int i = 0; i < k->sizes.count; i++) {
    if (py_is_filled(k, i) || !py_must_be_filled(k, i)) continue;
    py_line(p, "if %s == 0:", p->size[i]);
    py_line(p, "  raise ValueError(\"%s: %s is 0, and Pallas has no blocks of no elements\")",
            k->name, k->sizes.at[i].name);
  }
}
