"""Operations that make, rearrange, reduce and contract arrays."""
import functools
import math

import jax
import jax.numpy as jnp
import numpy

from pkc.pallas.rules.control import as_function, declare, traced
from pkc.pallas.values import ATOM, COMPARE, Value, bits_of, broadcast, dtype_name, is_integer, literal, physical_shape, shape_text


def out_shape(equation, k=0):
    """Of a result. A key is some numbers."""
    return physical_shape(equation.outvars[k].aval)


def made(tr, equation, text, values, k=0, level=ATOM):
    """A value in the shape and dtype of a result."""
    return Value(text, out_shape(equation, k), tr.dtype(equation.outvars[k]), level, reads=any(v.reads for v in values))


def numbers(items):
    """A tuple of the language."""
    return "(%s%s)" % (", ".join(str(int(i)) for i in items), "," if len(items) == 1 else "")


def axes_text(axes):
    return str(int(axes[0])) if len(axes) == 1 else numbers(axes)


# ---- shapes

def reshaped(value, shape):
    """A value in another shape, in the shortest notation."""
    shape = tuple(shape)
    if value.shape == shape:
        return value
    inner = value.thin
    if inner.shape == ():
        return broadcast(inner, shape) if shape else inner
    if value.base is None and shape in value.forms:
        return Value(value.forms[shape], shape, value.dtype, reads=value.reads)
    result = Value("reshape(%s, %s)" % (value.typed, shape_text(shape)), shape, value.dtype, reads=value.reads)
    if value.base is None:
        result.ramp = value.ramp
    return result


def _broadcast_in_dim(tr, equation):
    value, shape, places = tr.read(equation.invars[0]), out_shape(equation), equation.params["broadcast_dimensions"]
    kept = [1] * len(shape)
    for axis, place in enumerate(places):
        kept[place] = value.shape[axis]
    lead = len(shape) - len(value.shape)
    if list(places) != list(range(lead, len(shape))):  # NumPy would not put the axes there
        value = reshaped(value, kept)
    return broadcast(value, shape)


def _reshape(tr, equation):
    return reshaped(tr.read(equation.invars[0]), out_shape(equation))


def _transpose(tr, equation):
    value, perm = tr.read(equation.invars[0]), equation.params["permutation"]
    if list(perm) == list(range(len(perm))):
        return value
    if tuple(perm) == (*range(len(perm) - 2), len(perm) - 1, len(perm) - 2):
        return made(tr, equation, value.at(ATOM) + ".T", [value])
    return made(tr, equation, "transpose(%s, %s)" % (value.text, numbers(perm)), [value])


def _concatenate(tr, equation):
    values = [tr.read(atom) for atom in equation.invars]
    if len(values) == 1:
        return values[0]
    text = "concatenate(%s, axis = %d)" % (", ".join(v.typed for v in values), equation.params["dimension"])
    return made(tr, equation, text, values)


def _stack(tr, equation):
    values = [tr.read(atom) for atom in equation.invars]
    return made(tr, equation, "stack(%s, axis = %d)" % (", ".join(v.typed for v in values), equation.params["axis"]), values)


def _pad(tr, equation):
    value, filler = [tr.read(atom) for atom in equation.invars]
    return made(tr, equation, padded(value, equation.params["padding_config"], filler.text), [value, filler])


def padded(value, config, filler):
    """The text of a padded value, with elements before, after and between its own; negative counts remove elements."""
    config = [(int(lo), int(hi), int(inner)) for lo, hi, inner in config]
    shape, text = list(value.shape), value.typed
    for axis, (lo, hi, inner) in enumerate(config):
        if inner and shape[axis] > 1:  # between the elements: a new axis behind this one, which is merged
            wide = shape[:axis + 1] + [1] + shape[axis + 1:]
            room = ["(0, 0)"] * len(wide)
            room[axis + 1] = "(0, %d)" % inner
            text = "pad(reshape(%s, %s), (%s), value = %s)" % (text, shape_text(wide), ", ".join(room), filler)
            wide[axis + 1] = inner + 1
            shape[axis] *= inner + 1
            text = "reshape(%s, %s)" % (text, shape_text(shape))
            config[axis] = (lo, hi - inner, 0)
    if any(lo < 0 or hi < 0 for lo, hi, _ in config):
        cuts = ["%s:%s" % (-lo if lo < 0 else "", n + hi if hi < 0 else "") for n, (lo, hi, _) in zip(shape, config)]
        text = "%s[%s]" % (text if text.endswith(")") or text.isidentifier() else "(%s)" % text, ", ".join(cuts))
    if any(lo > 0 or hi > 0 for lo, hi, _ in config):
        room = ", ".join("(%d, %d)" % (max(lo, 0), max(hi, 0)) for lo, hi, _ in config)
        text = "pad(%s, (%s%s), value = %s)" % (text, room, "," if len(config) == 1 else "", filler)
    return text


def _rev(tr, equation):
    value, text = tr.read(equation.invars[0]), None
    text = value.text
    for axis in equation.params["dimensions"]:
        text = "rev(%s, axis = %d)" % (text, axis)
    return made(tr, equation, text, [value])


def _iota(tr, equation):
    shape, axis = out_shape(equation), equation.params["dimension"]
    dtype = tr.dtype(equation.outvars[0])
    own = [1] * len(shape)
    own[axis] = shape[axis]
    thin = own[axis:]  # only this axis, and those of 1 behind it
    words = [shape_text(thin)] + (["axis = 0"] if len(thin) > 1 else []) + ([] if dtype == "i32" else ["dtype = " + dtype])
    value = Value("iota(%s)" % ", ".join(words), thin, dtype)
    if dtype[0] in "iu":
        value.ramp = literal(0, dtype)
    return broadcast(value, shape)


def _slice(tr, equation):
    value, p = tr.read(equation.invars[0]), equation.params
    strides = p["strides"] or [1] * len(value.shape)
    cuts = []
    for n, a, b, s in zip(value.shape, p["start_indices"], p["limit_indices"], strides):
        whole = (a, b, s) == (0, n, 1)
        cuts.append(":" if whole else "%s:%s%s" % (a or "", "" if b == n else b, "" if s == 1 else ":%d" % s))
    if all(cut == ":" for cut in cuts):
        return value
    while len(cuts) > 1 and cuts[-1] == ":":
        cuts.pop()
    return made(tr, equation, "%s[%s]" % (value.at(ATOM), ", ".join(cuts)), [value])


def _split(tr, equation):
    value, axis, sizes = tr.atom(equation.invars[0]), equation.params["axis"], equation.params["sizes"]
    results, at = [], 0
    for k, size in enumerate(sizes):
        cuts = [":"] * axis + ["%d:%d" % (at, at + size)]
        results.append(made(tr, equation, "%s[%s]" % (value.text, ", ".join(cuts)), [value], k))
        at += size
    return results


def _unstack(tr, equation):
    value, axis = tr.atom(equation.invars[0]), equation.params["axis"]
    return [made(tr, equation, "%s[%s]" % (value.text, ", ".join([":"] * axis + [str(k)])), [value], k)
            for k in range(len(equation.outvars))]


def starts_text(values):
    return "(%s%s)" % (", ".join(v.text for v in values), "," if len(values) == 1 else "")


def _dynamic_slice(tr, equation):
    value, *starts = [tr.read(atom) for atom in equation.invars]
    sizes = equation.params["slice_sizes"]
    text = "dynamic_slice(%s, %s, %s)" % (value.typed, starts_text(starts), shape_text(sizes))
    return made(tr, equation, text, [value, *starts])


def _dynamic_update_slice(tr, equation):
    value, update, *starts = [tr.read(atom) for atom in equation.invars]
    text = "dynamic_update_slice(%s, %s, %s)" % (value.typed, update.typed, starts_text(starts))
    return made(tr, equation, text, [value, update, *starts])


def _roll(tr, equation):
    value, shift = tr.read(equation.invars[0]), tr.read(equation.invars[1])
    p = equation.params
    text = "roll(%s, %s, axis = %d" % (value.text, shift.text, p["axis"])
    if p.get("stride") is not None:
        text += ", stride = %d, stride_axis = %d" % (p["stride"], p["stride_axis"])
    return made(tr, equation, text + ")", [value, shift])


def _tile(tr, equation):
    value, reps = tr.read(equation.invars[0]), equation.params["reps"]
    if all(n == 1 for n in reps):
        return reshaped(value, out_shape(equation))
    return made(tr, equation, "tile(%s, %s)" % (value.text, numbers(reps)), [value])


def _bitcast(tr, equation):
    value, to = tr.read(equation.invars[0]), tr.dtype(equation.outvars[0])
    if value.dtype == to:
        return value
    if equation.params.get("dim", -2) % max(len(value.shape), 1) == len(value.shape) - 1 and value.shape != out_shape(equation):
        return _bitcast_last(tr, equation, value, to)
    return made(tr, equation, "bitcast(%s, %s)" % (value.typed, to), [value])


def _bitcast_last(tr, equation, value, to):
    """To elements of another width, along the last axis: the language has them on the last axis but one."""
    shape = out_shape(equation)
    parts = max(1, value.shape[-1] // shape[-1])
    tall = "bitcast(reshape(%s, %s), %s)" % (value.typed, shape_text((*value.shape[:-1], value.shape[-1] // parts, parts, 1)), to)
    return made(tr, equation, "reshape(%s, %s)" % (tall, shape_text(shape)), [value])


def _bitcast_convert(tr, equation):
    value, shape = tr.read(equation.invars[0]), out_shape(equation)
    if shape == value.shape:
        return _bitcast_of(tr, equation, value)
    to = tr.dtype(equation.outvars[0])
    if len(shape) > len(value.shape):  # a last axis of parts: the language has them on the last axis but one
        tall = "bitcast(reshape(%s, %s), %s)" % (value.typed, shape_text((*value.shape, 1, 1)), to)
        return made(tr, equation, "reshape(%s, %s)" % (tall, shape_text(shape)), [value])
    tall = "bitcast(reshape(%s, %s), %s)" % (value.typed, shape_text((*value.shape, 1)), to)
    return made(tr, equation, "reshape(%s, %s)" % (tall, shape_text(shape)), [value])


def _bitcast_of(tr, equation, value):
    to = tr.dtype(equation.outvars[0])
    return value if value.dtype == to else made(tr, equation, "bitcast(%s, %s)" % (value.typed, to), [value])


# ---- reductions and scans

def numbers_of(value, dtype="i32"):
    """Bools as numbers 0 and 1."""
    return Value("cast(%s, %s)" % (value.text, dtype), value.shape, dtype, reads=value.reads) if value.dtype == "bool" else value


def reduction(word, of_bools=None):
    def rule(tr, equation):
        value, axes = tr.read(equation.invars[0]), equation.params["axes"]
        name = of_bools if of_bools and value.dtype == "bool" else word
        if not axes:
            return value
        shape = out_shape(equation)
        if value.constant or value.thin.constant:
            value = Value(value.text, value.shape, value.dtype)
        text = "%s(%s, axis = %s" % (name, value.text, axes_text(axes))
        result = made(tr, equation, text + ", keep = false)", [value])
        result.forms[tuple(1 if k in axes else n for k, n in enumerate(value.shape))] = text + ")"
        return result if shape or value.shape else result
    return rule


def total_order(compare):
    """Compares floats by their bits as signed integers: -0 is less than 0, and NaN is the greatest."""

    def function(a, b):
        def place(x):
            if not jnp.issubdtype(x.dtype, jnp.floating):
                return x
            bits = jax.lax.bitcast_convert_type(x, "int%d" % (8 * x.dtype.itemsize))
            return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)
        return compare(place(a), place(b))
    return as_function(function)


MOST_PARTS = 256  # statements that a reduction of windows may become


def _extreme(dtype, end):
    """The least or greatest value of a dtype."""
    if jnp.issubdtype(dtype, jnp.floating):
        return {"min": -math.inf, "max": math.inf}[end]
    return end == "max" if dtype == bool else getattr(jnp.iinfo(dtype), end)


def window_reduction(combine, neutral):
    """Reductions of windows: axis by axis, the slices with each of a window's elements are combined."""

    def rule(tr, equation):
        p, dtype = equation.params, equation.invars[0].aval.dtype
        windows = list(zip(p["window_dimensions"], p["window_strides"], p["window_dilation"]))
        if sum(n for n, _, _ in windows) > MOST_PARTS:
            tr.refuse("a `%s` with windows of %s" % (equation.primitive.name, numbers(p["window_dimensions"])),
                      "Windows of up to %d elements have a translation: add them up in a loop, or use cumsum." % MOST_PARTS)

        def function(x):
            room = [(lo, hi, between - 1) for (lo, hi), between in zip(p["padding"], p["base_dilation"])]
            x = jax.lax.pad(x, numpy.asarray(neutral(dtype), dtype), room)
            for axis, (n, stride, dilation) in enumerate(windows):
                count = max(0, (x.shape[axis] - (n - 1) * dilation - 1) // stride + 1)
                parts = [jax.lax.slice_in_dim(x, k * dilation, k * dilation + max(0, (count - 1) * stride + 1), stride, axis) for k in range(n)]
                x = functools.reduce(combine, parts)
            return x
        return traced(tr, function, equation.invars)
    return rule


def arg_reduction(name):
    def rule(tr, equation):
        value, axes = numbers_of(tr.read(equation.invars[0])), equation.params["axes"]
        result, to = "%s(%s, axis = %d, keep = false)", tr.dtype(equation.outvars[0])
        text = result % (name, value.text, axes[0])
        return made(tr, equation, text if to == "i32" else "cast(%s, %s)" % (text, to), [value])
    return rule


def scan(name):
    def rule(tr, equation):
        value, p = tr.read(equation.invars[0]), equation.params
        text = "%s(%s, axis = %d%s)" % (name, value.text, p["axis"], ", reverse = true" if p["reverse"] else "")
        return made(tr, equation, text, [value])
    return rule


def _cumlogsumexp(tr, equation):
    p = equation.params

    def function(x):
        return jax.lax.associative_scan(jnp.logaddexp, x, reverse=p["reverse"], axis=p["axis"])
    return traced(tr, function, equation.invars)


def _sort(tr, equation):
    values = [tr.read(atom) for atom in equation.invars]
    axis = equation.params["dimension"]
    if len(values) == 1:
        return made(tr, equation, "sort(%s, axis = %d)" % (values[0].text, axis), values)
    for key in reversed(range(equation.params["num_keys"])):  # sorting is stable: by the last key first
        order = [key, *range(key), *range(key + 1, len(values))]
        text = "sort_by(%s, axis = %d)" % (", ".join(values[k].typed for k in order), axis)
        found = several(tr, equation, text, values)
        values = [Value(found[order.index(k)].text, v.shape, v.dtype) for k, v in enumerate(values)]
    return values


def several(tr, equation, text, values):
    """The results of a function with several results."""
    tuple_value = Value(text, (), "i32", reads=any(v.reads for v in values))
    tr.writer.let(tuple_value, "found")
    return [made(tr, equation, "%s[%d]" % (tuple_value.text, k), [], k) for k in range(len(equation.outvars))]


def _top_k(tr, equation):
    value, p = tr.read(equation.invars[0]), equation.params
    axis = p.get("axis", len(value.shape) - 1)
    return several(tr, equation, "top_k(%s, %d, axis = %d)" % (value.text, p["k"], axis), [value])


# ---- products

def _factors(a, b, out):
    """The operands of a product, as two that `dot` takes: wide integers beside floats, and what is beside integers of 64 bits, are cast."""
    if a.dtype == b.dtype:
        return a, b
    common = out
    if is_integer(a.dtype) != is_integer(b.dtype):
        common = "f64" if "f64" in (a.dtype, b.dtype, out) else "f32"
    wide = 64 if is_integer(a.dtype) and is_integer(b.dtype) else 32
    if max([bits_of(v.dtype) for v in (a, b) if is_integer(v.dtype)], default=0) < wide:
        return a, b
    return [v if v.dtype == common else Value("cast(%s, %s)" % (v.text, common), v.shape, common, reads=v.reads) for v in (a, b)]


def _precision(of_operands):
    """The precision of a product of f32: the higher one of its operands, or JAX's default."""
    names = [str(getattr(one, "name", one) or "default").lower() for one in (of_operands if isinstance(of_operands, tuple) else (of_operands,))]
    order = ("default", "high", "highest")
    return ', precision = "%s"' % max((n if n in order else "default" for n in names), key=order.index)


def _as_float(value, wanted):
    dtype = "f64" if wanted == "f64" else "f32"
    return Value("cast(%s, %s)" % (value.text, dtype), value.shape, dtype, reads=value.reads)


def _summed(a, b, wanted, length):
    """(a, b, dtype of their sums of products): bools are counted; floats are wanted of bytes, whose sums fit i32, and of other integers."""
    a, b = numbers_of(a, "i8"), numbers_of(b, "i8")
    if not is_integer(wanted) and is_integer(a.dtype) and is_integer(b.dtype):
        if max(bits_of(v.dtype) for v in (a, b)) <= 8 and length < 1 << 15:
            return a, b, "i32"
        a, b = _as_float(a, wanted), _as_float(b, wanted)
    return (*_factors(a, b, wanted), wanted)


def _dot_general(tr, equation):
    a, b = [tr.read(atom) for atom in equation.invars[:2]]
    ((ca, cb), (ba, bb)), wanted = equation.params["dimension_numbers"], tr.dtype(equation.outvars[0])
    a, b, out = _summed(a, b, wanted, math.prod(a.shape[k] for k in ca))
    own = {"f64": "f64", "i64": "i64", "u64": "u64"}.get(a.dtype, "f32" if a.dtype[0] in "fb" else "i32")
    to = "" if out == own and a.dtype == b.dtype else ", out = " + out
    if "f32" in (a.dtype, b.dtype):
        to += _precision(equation.params["precision"])
    ra, rb, words, left, right = len(a.shape), len(b.shape), "", None, None
    if (ra, rb) == (2, 2) and not ba:
        left = a.typed if tuple(ca) == (1,) else a.at(ATOM) + ".T" if tuple(ca) == (0,) else None
        right = b.typed if tuple(cb) == (0,) else b.at(ATOM) + ".T" if tuple(cb) == (1,) else None
    if not left or not right:
        left, right, words = a.typed, b.typed, ", contract = (%s, %s)" % (numbers(ca), numbers(cb))
        words += ", batch = (%s, %s)" % (numbers(ba), numbers(bb)) if ba else ""
    text = "dot(%s, %s%s%s)" % (left, right, words, to)
    if wanted == "bool":
        return made(tr, equation, text + " != 0", [a, b], level=COMPARE)
    return made(tr, equation, text if out == wanted else "cast(%s, %s)" % (text, wanted), [a, b])


def _conv(tr, equation):
    x, w = [tr.read(atom) for atom in equation.invars]
    p, d = equation.params, equation.params["dimension_numbers"]
    if p["batch_group_count"] != 1:
        tr.refuse("`conv_general_dilated` with batch_group_count = %d" % p["batch_group_count"], "Use feature_group_count.")
    text = rearranged(x, [d.lhs_spec[0], *d.lhs_spec[2:], d.lhs_spec[1]])
    room = [tuple(int(n) for n in pair) for pair in p["padding"]]
    if any(n != 1 for n in p["lhs_dilation"]) or any(n < 0 for pair in room for n in pair):
        config = [(0, 0, 0), *((lo, hi, n - 1) for (lo, hi), n in zip(room, p["lhs_dilation"])), (0, 0, 0)]
        text, room = padded(text, config, "0"), [(0, 0)] * len(room)
    else:
        text = text.typed
    words = [text, rearranged(w, [*d.rhs_spec[2:], d.rhs_spec[1], d.rhs_spec[0]]).typed]
    words += ["%s = %s" % (name, numbers(items)) for name, items in (("strides", p["window_strides"]), ("dilation", p["rhs_dilation"]))
              if any(n != 1 for n in items)]
    words.append("padding = (%s%s)" % (", ".join("(%d, %d)" % pair for pair in room), "," if len(room) == 1 else ""))
    words += ["groups = %d" % p["feature_group_count"]] if p["feature_group_count"] != 1 else []
    words.append("out = " + tr.dtype(equation.outvars[0]))
    places = [d.out_spec[0], *d.out_spec[2:], d.out_spec[1]]  # of the axes of the language's result
    shape = [out_shape(equation)[k] for k in places]
    result = Value("conv(%s)" % ", ".join(words), shape, tr.dtype(equation.outvars[0]), reads=x.reads or w.reads)
    return rearranged(result, [places.index(k) for k in range(len(places))])


def rearranged(value, perm):
    """A transposed value."""
    if list(perm) == list(range(len(perm))):
        return value
    return Value("transpose(%s, %s)" % (value.typed, numbers(perm)), [value.shape[k] for k in perm], value.dtype, reads=value.reads)


# ---- gathers

def _gather(tr, equation):
    """take_along_axis, and rows named by a vector: the forms that NumPy-like indexing makes."""
    value, where = [tr.read(atom) for atom in equation.invars]
    d, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape, rank = out_shape(equation), len(value.shape)
    mapped = list(d.start_index_map)
    batch = list(getattr(d, "operand_batching_dims", ()))
    index_shape = where.shape[:-1]
    if len(mapped) == 1 and len(batch) == rank - 1 and not d.offset_dims and all(n == 1 for n in sizes):
        axis = mapped[0]
        others = list(d.start_indices_batching_dims)
        order = [others[batch.index(k)] if k in batch else None for k in range(rank)]
        free = [k for k in range(len(index_shape)) if k not in others]
        if len(free) == 1 and [free[0] if k is None else k for k in order] == list(range(rank)):
            index = tr.held(reshaped(where, index_shape))
            text = "take_along_axis(%s, %s, axis = %d)" % (value.text, _in_range(tr, index, value.shape[axis]), axis)
            return _filled(tr, equation, made(tr, equation, text, [value, where]), [(index.text, value.shape[axis])])
    if len(mapped) == 1 and not batch and tuple(d.collapsed_slice_dims) == (mapped[0],):
        axis = mapped[0]
        if all(sizes[k] == value.shape[k] for k in range(rank) if k != axis):
            index = tr.held(reshaped(where, index_shape))
            text = "take(%s, %s, axis = %d)" % (value.text, _in_range(tr, index, value.shape[axis]), axis)
            natural = [*range(axis), *[None] * len(index_shape), *range(axis + 1, rank)]  # the value's axes, where the indices' are
            lengths = iter(index_shape)
            found = Value(text, [next(lengths) if k is None else value.shape[k] for k in natural], value.dtype, reads=value.reads or where.reads)
            wide = reshaped(index, (*index_shape, *(1 for _ in value.shape[axis + 1:])))
            found = _filled(tr, equation, found, [(wide.text, value.shape[axis])])
            own = iter(k for k, n in enumerate(natural) if n is not None)
            others = iter(k for k, n in enumerate(natural) if n is None)
            return rearranged(found, [next(own) if k in d.offset_dims else next(others) for k in range(len(shape))])
    if not index_shape and not batch:
        return _window(tr, equation, value, where, d, sizes)
    if sorted(mapped) == list(range(rank)) and not d.offset_dims and not batch and mapped == sorted(mapped):
        where = tr.held(where)
        places = [Value("%s[..., %d]" % (where.text, k), index_shape, where.dtype) for k in range(rank)]
        parts = [_in_range(tr, place, n) for place, n in zip(places, value.shape)]
        found = made(tr, equation, "%s[%s]" % (value.at(ATOM), ", ".join(parts)), [value])
        return _filled(tr, equation, found, [(place.text, n) for place, n in zip(places, value.shape)])
    if not batch and set(mapped) == set(d.collapsed_slice_dims) and all(sizes[k] == value.shape[k] > 0 for k in range(rank) if k not in mapped):
        return _as_rows(tr, equation)
    kept = [k for k in mapped if k not in d.collapsed_slice_dims and sizes[k] == 1]
    if kept:
        return _without_axes(tr, equation, kept)
    return tr.refuse("this `gather`: %s, slices of %s" % (d, numbers(sizes)),
                     "Forms that have a translation are take_along_axis, x[i] and x[i, j] with arrays i and j, and dynamic slices.")


def _as_rows(tr, equation):
    """x[i, j] with arrays i and j and further axes: rows of x whose indexed axes are one."""
    p, d = equation.params, equation.params["dimension_numbers"]
    fills = "FILL" in str(p["mode"])

    def function(value, where):
        where = jnp.minimum(where, jnp.array(2**31 - 1, where.dtype)) if where.dtype == jnp.uint32 else where
        where, row, inside = where.astype(jnp.int32), 0, True
        axes = sorted(d.start_index_map)
        for axis in axes:
            place, n = where[..., d.start_index_map.index(axis)], value.shape[axis]
            row = row * n + jnp.clip(place, 0, n - 1)
            inside = inside & (place >= 0) & (place < n)
        rest = [axis for axis in range(value.ndim) if axis not in axes]
        shape = [value.shape[axis] for axis in rest]
        rows = jnp.transpose(value, (*axes, *rest)).reshape(-1, *shape)
        row = jnp.where(inside, row, -1) if fills else row
        numbers_of_rows = d._replace(collapsed_slice_dims=(0,), start_index_map=(0,))
        return jax.lax.gather(rows, row[..., None], numbers_of_rows, (1, *shape), mode=p["mode"], fill_value=p["fill_value"])
    return traced(tr, function, equation.invars)


def _without_axes(tr, equation, kept):
    """A gather whose slices keep axes of one element, computed without these axes; a reshape adds them to the result."""
    p, d = equation.params, equation.params["dimension_numbers"]
    gone = {*d.collapsed_slice_dims, *getattr(d, "operand_batching_dims", ())}
    places = dict(zip([k for k in range(len(p["slice_sizes"])) if k not in gone], d.offset_dims))
    drop = [places[k] for k in kept]
    left = tuple(n - sum(m < n for m in drop) for n in d.offset_dims if n not in drop)

    def function(value, where):
        numbers_left = d._replace(offset_dims=left, collapsed_slice_dims=tuple(sorted([*d.collapsed_slice_dims, *kept])))
        found = jax.lax.gather(value, where, numbers_left, p["slice_sizes"], mode=p["mode"], fill_value=p["fill_value"])
        return jax.lax.expand_dims(found, drop)
    return traced(tr, function, equation.invars)


def _filled(tr, equation, found, places):
    """The result of a gather, with JAX's fill value for indices out of range. `places`: indices, and how many there may be."""
    if "FILL" not in str(equation.params.get("mode")):
        return found
    fill = equation.params.get("fill_value")
    text = literal(fill, found.dtype).text if fill is not None else _nothing_found(found.dtype)
    return Value("where(%s, %s, %s)" % (_all_inside((place, n - 1) for place, n in places), found.text, text), found.shape, found.dtype, reads=found.reads)


def _nothing_found(dtype):
    """NaN, the least number of a signed dtype, the greatest of another."""
    if dtype == "bool":
        return "true"
    if not is_integer(dtype):
        return "nan"
    bits = int(dtype[1:])
    return literal(-1 << bits - 1 if dtype[0] == "i" else (1 << bits) - 1, dtype).text


def _in_range(tr, index, n):
    del tr
    return "clamp(%s, 0, %d)" % (index.text, n - 1) if n > 0 else index.text


def _window(tr, equation, value, where, d, sizes):
    """A gather at one position is a dynamic slice."""
    where = tr.held(where)
    starts = ["0"] * len(value.shape)
    for k, axis in enumerate(d.start_index_map):
        starts[axis] = "%s[%d]" % (where.text, k)
    text = "dynamic_slice(%s, (%s,), %s)" % (value.typed, ", ".join(starts), shape_text(sizes))
    places = [(starts[axis], value.shape[axis] - sizes[axis] + 1) for axis in d.start_index_map]
    cut = [n for k, n in enumerate(sizes) if k not in d.collapsed_slice_dims]
    if len(cut) != len(sizes):
        text = "reshape(%s, %s)" % (text, shape_text(cut))
    return _filled(tr, equation, made(tr, equation, text, [value, where]), places)


_STATEMENTS = {None: "scatter", "%s + %s": "scatter_add"}


def scatter(combine):
    """x.at[i, :, j].set(v) and the like: a window of x is replaced; or, at several places, elements, rows or windows are."""

    def rule(tr, equation):
        value, where, updates = [tr.read(atom) for atom in equation.invars]
        d = equation.params["dimension_numbers"]
        if getattr(d, "operand_batching_dims", ()):
            return _scatter_in_batches(tr, equation)
        if len(where.shape) == 1:
            return _scatter_once(tr, equation, (value, where, updates), combine)
        axes = list(d.scatter_dims_to_operand_dims)
        whole = [value.shape[k] for k in range(len(value.shape)) if k not in axes]
        if combine in _STATEMENTS and sorted(d.inserted_window_dims) == sorted(axes) and [updates.shape[k] for k in d.update_window_dims] == whole:
            return _scatter_rows(tr, equation, (value, where, updates), _STATEMENTS[combine])
        return _scatter_windows(tr, equation, (value, where, updates), combine)
    return rule


def _scatter_in_batches(tr, equation):
    """The axes of a batch become axes that the indices name."""
    p, d = equation.params, equation.params["dimension_numbers"]
    batch = tuple(d.operand_batching_dims)

    def function(value, where, updates):
        where = where.astype(jnp.int32)
        counts = [jax.lax.broadcasted_iota("int32", (*where.shape[:-1], 1), k) for k in d.scatter_indices_batching_dims]
        numbers_left = d._replace(inserted_window_dims=tuple(sorted([*d.inserted_window_dims, *batch])), operand_batching_dims=(),
                                  scatter_dims_to_operand_dims=(*batch, *d.scatter_dims_to_operand_dims), scatter_indices_batching_dims=())
        return equation.primitive.bind(value, jax.lax.concatenate([*counts, where], where.ndim - 1), updates, **{**p, "dimension_numbers": numbers_left})
    return traced(tr, function, equation.invars)


def _window_sizes(d, value, updates):
    """The extents of the windows that a scatter updates."""
    left = iter(updates.shape[k] for k in d.update_window_dims)
    return [1 if k in d.inserted_window_dims else next(left) for k in range(len(value.shape))]


def _drops(equation):
    """Is an update that is partly out of bounds dropped?"""
    mode = str(equation.params.get("mode"))
    return "CLIP" not in mode and "PROMISE" not in mode


def _all_inside(places):
    """Words: are these indices in range? `places`: texts, and the greatest that each may be."""
    return " && ".join("%s >= 0 && %s <= %d" % (place, place, most) for place, most in places)


def _scatter_once(tr, equation, operands, combine):
    value, where, updates = operands
    d = equation.params["dimension_numbers"]
    sizes = _window_sizes(d, value, updates)
    where, starts, places = tr.held(where), ["0"] * len(sizes), []
    for k, axis in enumerate(d.scatter_dims_to_operand_dims):
        known = where.base.number if where.base is not None and where.base.constant else None
        starts[axis] = "%s[%d]" % (where.text, k) if where.base is None else where.base.text
        if known is None or not 0 <= known <= value.shape[axis] - sizes[axis]:
            places.append((starts[axis], value.shape[axis] - sizes[axis]))
    guarded = places and _drops(equation)
    place, update = "(%s,)" % ", ".join(starts), reshaped(updates, sizes).typed
    if combine or guarded:
        value = tr.held(value)
        before = "dynamic_slice(%s, %s, %s)" % (value.typed, place, shape_text(sizes))
        update = combine % (before, update) if combine else update
        update = "where(%s, %s, %s)" % (_all_inside(places), update, before) if guarded else update
    return made(tr, equation, "dynamic_update_slice(%s, %s, %s)" % (value.typed, update, place), [value, where, updates])


def _scatter_rows(tr, equation, operands, name):
    """Several places, each named along some axes and whole along the others: a variable that is stored to."""
    value, where, updates = operands
    d, rank = equation.params["dimension_numbers"], len(value.shape)
    axes = list(d.scatter_dims_to_operand_dims)
    windows = [k for k in range(rank) if k not in axes]
    places = [k for k in range(len(updates.shape)) if k not in d.update_window_dims]
    count = math.prod(updates.shape[k] for k in places)
    lead = sum(k < min(axes) for k in windows)
    order = [*d.update_window_dims[:lead], *places, *d.update_window_dims[lead:]]
    rows = reshaped(rearranged(updates, order), [*(value.shape[k] for k in windows[:lead]), count, *(value.shape[k] for k in windows[lead:])])
    where = tr.held(reshaped(where, (count, len(axes))))
    words = ["%s[:, %d]" % (where.text, axes.index(k)) for k in sorted(axes)]
    if "CLIP" in str(equation.params.get("mode")):
        words = ["clamp(%s, 0, %d)" % (word, value.shape[k] - 1) for word, k in zip(words, sorted(axes))]
    index, axis = ("(%s)" % ", ".join(words), numbers(sorted(axes))) if len(axes) > 1 else (words[0], axes[0])
    rows = tr.held(Value(rows.typed, rows.shape, rows.dtype, reads=rows.reads))
    variable = declare(tr, equation.outvars[0], tr.wanted.get(equation.outvars[0], "updated"), value)
    tr.writer.line("%s(%s, %s, %s, axis = %s);" % (name, variable.text, index, rows.text, axis))
    return variable


def _scatter_windows(tr, equation, operands, combine):
    """Windows at several places, one after the other: a variable that is stored to."""
    value, where, updates = operands
    d = equation.params["dimension_numbers"]
    sizes, axes = _window_sizes(d, value, updates), list(d.scatter_dims_to_operand_dims)
    places = [k for k in range(len(updates.shape)) if k not in d.update_window_dims]
    count = math.prod(updates.shape[k] for k in places)
    rows = reshaped(rearranged(updates, [*places, *d.update_window_dims]), [count, *sizes])
    where, rows = tr.held(reshaped(where, (count, len(axes)))), tr.held(Value(rows.typed, rows.shape, rows.dtype, reads=rows.reads))
    variable = declare(tr, equation.outvars[0], tr.wanted.get(equation.outvars[0], "updated"), value)
    writer, k = tr.writer, tr.writer.name("place")
    writer.open("for %s in 0..%d" % (k, count))
    starts, inside = ["0"] * len(sizes), []
    for place, axis in enumerate(axes):
        most, at = value.shape[axis] - sizes[axis], writer.name("at")
        text = "%s[%s, %d]" % (where.text, k, place)
        writer.line("let %s = %s;" % (at, text if _drops(equation) else "clamp(%s, 0, %d)" % (text, most)))
        starts[axis] = at
        inside.append((at, most))
    if _drops(equation):
        writer.open("when " + _all_inside(inside))
    window = "%s[%s]" % (variable.name, ", ".join("ds(%s, %d)" % place for place in zip(starts, sizes)))
    row = "%s[%s]" % (rows.text, ", ".join([k, *[":"] * len(sizes)]))
    writer.line("%s = %s;" % (window, combine % (window, row) if combine else row))
    if _drops(equation):
        writer.close()
    writer.close()
    return variable


# ---- packing

def _pack(tr, equation):
    values = [tr.read(atom) for atom in equation.invars]
    to = dtype_name(equation.params["packed_dtype"])
    text = "pack_elementwise(%s, dtype = %s)" % (", ".join(v.text for v in values), to)
    own = tr.dtype(equation.outvars[0])
    return made(tr, equation, text if own[0] == "u" else "bitcast(%s, %s)" % (text, own), values)


def _unpack(tr, equation):
    value, p = tr.read(equation.invars[0]), equation.params
    text = "unpack_elementwise(%s, %d, %s, %s)" % (value.text, p["index"], dtype_name(p["packed_dtype"]),
                                                   dtype_name(p["unpacked_dtype"]))
    return made(tr, equation, text, [value])


def _stochastic_round(tr, equation):
    value, bits = [tr.read(atom) for atom in equation.invars]
    text = "stochastic_round(%s, %s, %s)" % (value.text, bits.text, tr.dtype(equation.outvars[0]))
    return made(tr, equation, text, [value, bits])


def _einshape(tr, equation):
    from jax._src.pallas import einshape
    p = equation.params
    return traced(tr, functools.partial(einshape._einshape, p["equation"], **dict(p["sizes"])), equation.invars)


RULES = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
    "einshape_lo": _einshape,
    "concatenate": _concatenate,
    "stack": _stack,
    "unstack": _unstack,
    "pad": _pad,
    "rev": _rev,
    "iota": _iota,
    "slice": _slice,
    "split": _split,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "roll": _roll,
    "tile": _tile,
    "bitcast": _bitcast,
    "bitcast_convert_type": _bitcast_convert,
    **{"reduce_" + name: reduction("reduce_" + name) for name in ("sum", "prod", "and", "or", "xor")},
    "reduce_max": reduction("reduce_max", "reduce_or"),
    "reduce_min": reduction("reduce_min", "reduce_and"),
    "reduce_window_sum": window_reduction(jax.lax.add, lambda dtype: 0),
    "reduce_window_max": window_reduction(jax.lax.max, lambda dtype: _extreme(dtype, "min")),
    "reduce_window_min": window_reduction(jax.lax.min, lambda dtype: _extreme(dtype, "max")),
    "argmax": arg_reduction("argmax"),
    "argmin": arg_reduction("argmin"),
    **{name: scan(name) for name in ("cumsum", "cumprod", "cummax", "cummin")},
    "cumlogsumexp": _cumlogsumexp,
    "lt_to": total_order(jax.lax.lt),
    "le_to": total_order(jax.lax.le),
    "sort": _sort,
    "top_k": _top_k,
    "dot_general": _dot_general,
    "gather": _gather,
    "scatter": scatter(None),
    "scatter-add": scatter("%s + %s"),
    "scatter-sub": scatter("%s - %s"),
    "scatter-mul": scatter("%s * %s"),
    "scatter-min": scatter("min(%s, %s)"),
    "scatter-max": scatter("max(%s, %s)"),
    "pack_elementwise": _pack,
    "unpack_elementwise": _unpack,
    "stochastic_round": _stochastic_round,
    "conv_general_dilated": _conv,
}
