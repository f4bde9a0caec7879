"""What vector subcores of SparseCore have beside the operations of a TensorCore."""
import functools

import jax
from jax import numpy as jnp
from jax.extend import core as jex

from pkc.pallas.rules.control import assign_together, declare, hold, traced
from pkc.pallas.rules.memory import load, ref_window, store, touch
from pkc.pallas.translate import SPARSE, Ref, tree_of
from pkc.pallas.values import ADD, MUL, Value, literal, physical_shape, shape_text


# ---- loads and stores by indices and masks

def _indexed(tr, ref, transforms, indices):
    """The window of the elements that arrays of indices name, one array for each axis of a ref."""
    window = ref_window(tr, ref, transforms)
    window.narrow([tr.read(index) for index in indices])
    return window


def _load_gather(tr, equation):
    ref, transforms, indices, mask = tree_of(equation, "tree")
    window, out = _indexed(tr, ref, transforms, indices), equation.outvars[0]
    if mask is not None:
        tr.read(mask)  # the other elements are unspecified: those at indices moved into the ref
    return load(tr, window, physical_shape(out.aval), tr.dtype(out), "clamped" if mask is not None else "plain")


def _store_scatter(tr, equation):
    ref, transforms, indices, value, mask = tree_of(equation, "tree")
    window, value = _indexed(tr, ref, transforms, indices), tr.read(value)
    if mask is not None:  # positions out of range are skipped
        first, on = window.arrays[0], tr.read(mask)
        index = window.entries[first]
        window.entries[first] = Value("where(%s, %s, -1)" % (on.text, index.typed), index.shape, "i32", reads=on.reads or index.reads)
    store(tr, window, value, "+=" if equation.params["add"] else "=", "plain")
    return []


def _operands_of(tr, equation, first):
    """(window, mask or None) of a load or store of the vector unit."""
    rest = equation.invars[first:]
    rest, mask = (rest[:-1], rest[-1]) if equation.params["has_mask"] else (rest, None)
    window = ref_window(tr, equation.invars[0], jax.tree.unflatten(equation.params["tree"], rest))
    if mask is not None and len(window.shape) != 1:
        tr.refuse("a compressed access of %d axes" % len(window.shape), "Access a window of one axis.")
    return window, mask


def _load_expanded(tr, equation):
    window, mask = _operands_of(tr, equation, 1)
    out = equation.outvars[0]
    if mask is None:
        return load(tr, window, physical_shape(out.aval), tr.dtype(out))
    on, n = tr.read(mask), window.shape[0]
    text = "take(%s, clamp(cumsum(cast(%s, i32), axis = 0) - 1, 0, %d), 0)" % (window.text(), on.text, n - 1)
    return Value(text, (n,), tr.dtype(out), reads=True)


def _store_lanes(tr, equation):
    p, value = equation.params, tr.read(equation.invars[1])
    window, mask = _operands_of(tr, equation, 2)
    if tr.uses[equation.outvars[0]]:
        tr.refuse("the result of a store of the vector unit")
    if mask is not None and p["compress"]:
        on = tr.held(tr.read(mask))
        moved, n = "sort_by(cast(!%s, i32), %s, axis = 0)[1]" % (on.text, value.typed), window.shape[0]
        first = "iota(%s) < reduce_sum(cast(%s, i32), axis = 0, keep = false)" % (shape_text((n,)), on.text)
        value, mask = Value(moved, (n,), value.dtype, reads=value.reads), Value(first, (n,), "bool", reads=on.reads)
    elif mask is not None:
        mask = tr.read(mask)
    if mask is None:
        store(tr, window, value, "+=" if p["add"] else "=")
        return literal(0, "i32")
    if p["add"]:
        value = Value("%s + %s" % (window.text(), value.at(ADD + 1)), value.shape, value.dtype, ADD, reads=True)
    touch(window.ref, stored=True)
    tr.writer.effect("store(%s, %s, mask = %s);" % (window.text(window.ref.store), value.thin.typed, mask.text))
    return literal(0, "i32")


# ---- loops

def _parallel_loop(tr, equation):
    """The iterations in order: each is independent of the others."""
    lower, upper, step, consts, carries = tree_of(equation, "tree")
    writer = tr.writer
    writer.flush(everything=True)
    captured = [tr.env[atom] if isinstance(atom, jex.Var) and isinstance(tr.env[atom], Ref) else _value(tr, atom) for atom in consts]
    first, last, by = (_value(tr, atom) for atom in (lower, upper, step))
    starts = [_value(tr, atom) for atom in carries]
    hold(tr, [value for value in (*captured, first, last, by) if isinstance(value, Value)])
    kept = [declare(tr, var, "carry", start) for var, start in zip(equation.outvars, starts)]
    turn, one = Value(writer.name("t"), (), "i32", index=True), by.constant and by.number == 1
    bounds = (first.text, last.text) if one else ("0", "cdiv(%s - %s, %s)" % (last.text, first.at(ADD + 1), by.text))
    writer.open("for %s in %s..%s" % (turn.text, *bounds))
    index = turn if one else Value("%s + %s * %s" % (first.at(ADD), turn.text, by.at(MUL + 1)), (), "i32", ADD, index=True)
    jaxpr, operands = equation.params["jaxpr"], [tr.held(index), *kept]
    results = tr.inline(jaxpr, operands, captured) if jaxpr.constvars else tr.inline(jaxpr, [*captured, *operands], ())
    assign_together(tr, kept, results)
    writer.pending = []
    writer.close()
    return kept


def _value(tr, atom):
    return tr.read(atom) if isinstance(atom, (jex.Var, jex.Literal)) else literal(atom, "i32")


# ---- what lanes have in common

def _scan_count(x, mask):
    """How often each element occurred up to its place, and where it does for the last time."""
    same = (x[:, None] == x[None, :]) & mask[None, :]
    place = jax.lax.broadcasted_iota(jnp.int32, same.shape, 1) - jax.lax.broadcasted_iota(jnp.int32, same.shape, 0)
    return jnp.sum(jnp.where(same & (place <= 0), 1, 0), axis=1, dtype=jnp.int32), mask & ~jnp.any(same & (place > 0), axis=1)


def _running(function, least):
    """A running extreme of the elements whose mask is true; those before the first of them are as they were."""
    def run(x, mask):
        info = jnp.iinfo(x.dtype) if jnp.issubdtype(x.dtype, jnp.integer) else jnp.finfo(x.dtype)
        found = function(jnp.where(mask, x, info.min if least else info.max))
        return jnp.where(jnp.cumsum(mask.astype(jnp.int32)) > 0, found, x)
    return run


def _running_sum(x, mask):
    return jax.lax.cumsum(jnp.where(mask, x, jnp.zeros_like(x)))


def _sort(keys, values, *masks, descending):
    """Stable; what the mask excludes comes last, in its order."""
    order = keys if not descending else ~keys if jnp.issubdtype(keys.dtype, jnp.integer) else -keys
    on = masks[0] if masks else jnp.ones(keys.shape, bool)
    order = jnp.where(on, order, jnp.zeros_like(order))
    off, _, keys, values = jax.lax.sort(((~on).astype(jnp.int32), order, keys, values), num_keys=2)
    return keys, values, *((off == 0,) if masks else ())


def _count(x, reduce):
    return jnp.broadcast_to(jnp.sum(x.astype(jnp.int32)), (x.size // reduce,))


def _first(x, reduce):
    lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return jnp.broadcast_to(jnp.min(jnp.where(x, lane, x.size)), (x.size // reduce,))


def _pack(a, b, format, preferred_element_type):
    to = preferred_element_type or {"float32": jnp.bfloat16, "int32": jnp.int16}[a.dtype.name]
    pairs = jnp.stack([a.astype(to), b.astype(to)], axis=1)
    return pairs.reshape(-1) if format.value == "interleaved" else pairs


def _unpack(pairs, format, preferred_element_type):
    to = preferred_element_type or {"bfloat16": jnp.float32, "int16": jnp.int32}[pairs.dtype.name]
    pairs = pairs.reshape(-1, 2).astype(to)
    return pairs[:, 0], pairs[:, 1]


def _function(function):
    """The rule of a primitive that is expressed by other functions of JAX; its parameters are theirs."""
    return lambda tr, equation: traced(tr, functools.partial(function, **equation.params), equation.invars)


RULES = {(SPARSE, name): rule for name, rule in {
    "gather": _load_gather,
    "scatter": _store_scatter,
    "load": _load_expanded,
    "swap": _store_lanes,
    "parallel_loop": _parallel_loop,
    "scan_count": _function(_scan_count),
    "masked_cumsum": _function(_running_sum),
    "masked_cummax": _function(_running(jax.lax.cummax, True)),
    "masked_cummin": _function(_running(jax.lax.cummin, False)),
    "masked_sort": _function(_sort),
    "all_reduce_population_count": _function(_count),
    "all_reduce_ffs": _function(_first),
    "pack": _function(_pack),
    "unpack": _function(_unpack),
}.items()}
