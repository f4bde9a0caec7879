"""The built-in functions of the language as the evaluator computes them: one entry each in CALLS."""
import numpy as np

from . import operations as op
from .operations import Reject, V, each
from .types import INDEX, accumulator, holder, is_float, spread, wrap


def _axis_call(function):
    def run(ev, expr):
        par, v = expr.attr["par"], ev.ev(expr.args[0])
        return function(v, expr, par)
    return run


def _unary(ev, expr):
    return op.unary(expr.attr["fn"], expr.args[0].type.dtype, ev.ev(expr.args[0]))


def _binary(ev, expr):
    a, b = [ev.operand(x, expr.type.dtype) for x in expr.args]
    return op.arithmetic(expr.attr["fn"], expr.type.dtype, a, b)


def _extremum(ev, expr):
    return op.extremum(expr.attr["fn"], expr.type.dtype, [ev.operand(x, expr.type.dtype) for x in expr.args])


def _clamp(ev, expr):
    v, low, high = [ev.operand(x, expr.type.dtype) for x in expr.args]
    return op.extremum("min", expr.type.dtype, [op.extremum("max", expr.type.dtype, [v, low]), high])


def _where(ev, expr):
    c, (a, b) = ev.ev(expr.args[0]), [ev.operand(x, expr.type.dtype) for x in expr.args[1:]]
    return op.select(V(c.d.astype(np.int64), c.u), [b, a])


def _select_n(ev, expr):
    which = ev.ev(expr.args[0])
    values = [ev.operand(x, expr.type.dtype) for x in expr.args[1:]]
    at = which.d.astype(np.int64)
    if np.any((at < 0) | (at >= len(values))):
        raise Reject("select_n of nothing")
    return op.select(V(at, which.u), values)


def _cast(ev, expr):
    arg, dtype = expr.args[0], expr.type.dtype
    if arg.type == INDEX:
        return op.cast(V(np.int64(ev.ix(arg))), dtype, "i64")
    return op.cast(ev.ev(arg), dtype, arg.type.dtype)


def _iota(ev, expr):
    shape, axis = ev.shape(expr.type.shape), expr.attr["par"]["axis"]
    line = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return V(spread(op.convert(expr.type.dtype, line, "i32"), shape))


def _broadcast(v, expr, par, ev):
    shape = ev.shape(expr.type.shape)
    return each(v, lambda a: spread(a, shape))


def _concatenate(ev, expr):
    values, axis = [ev.ev(x) for x in expr.args], expr.attr["par"]["axis"]
    u = e = None
    if any(v.u is not None for v in values):
        u = np.concatenate([np.zeros(v.d.shape, bool) if v.u is None else spread(v.u, v.d.shape) for v in values], axis)
    if any(v.e is not None for v in values):
        e = np.concatenate([np.zeros(v.d.shape) if v.e is None else spread(v.e, v.d.shape) for v in values], axis)
    return V(np.concatenate([v.d for v in values], axis), u, e)


def _stack(ev, expr):
    axis = expr.attr["par"]["axis"]
    values = [each(ev.ev(x), lambda a: np.expand_dims(a, axis)) for x in expr.args]
    u = e = None
    if any(v.u is not None for v in values):
        u = np.concatenate([np.zeros(v.d.shape, bool) if v.u is None else v.u for v in values], axis)
    if any(v.e is not None for v in values):
        e = np.concatenate([np.zeros(v.d.shape) if v.e is None else v.e for v in values], axis)
    return V(np.concatenate([v.d for v in values], axis), u, e)


def _pad(v, expr, par):
    return V(np.pad(v.d, par["widths"], constant_values=par["value"]), None if v.u is None else np.pad(v.u, par["widths"]),
             None if v.e is None else np.pad(v.e, par["widths"]))


def _roll(v, expr, par):
    if "stride" not in par:
        return each(v, lambda a: np.roll(a, par["shift"], par["axis"]))
    along, axis = par["stride_axis"], par["axis"]

    def turned(a):
        rows = [np.roll(np.take(a, [r], along), par["shift"] + par["stride"] * r, axis) for r in range(a.shape[along])]
        return np.concatenate(rows, along) if rows else a
    return each(v, turned)


def _check_indices(at, size):
    if at.u is not None and np.any(at.u):
        raise Reject("unspecified index")
    if np.any((at.d < 0) | (at.d >= size)):
        raise Reject("an index out of range")


def _take(ev, expr):
    v, at = [ev.ev(x) for x in expr.args]
    axis = expr.attr["par"]["axis"]
    _check_indices(at, v.d.shape[axis])
    return each(v, lambda a: np.take(a, at.d, axis))


def _take_along(ev, expr):
    v, at = [ev.ev(x) for x in expr.args]
    axis = expr.attr["par"]["axis"]
    _check_indices(at, v.d.shape[axis])
    shape = list(v.d.shape)
    shape[axis] = at.d.shape[axis]
    places = spread(at.d, shape)
    return each(v, lambda a: np.take_along_axis(a, places, axis))


def _one_hot(ev, expr):
    at, axis = ev.ev(expr.args[0]), expr.attr["par"]["axis"]
    n = expr.type.shape[axis]
    line = np.arange(n).reshape([-1 if a == axis else 1 for a in range(len(expr.type.shape))])
    d = np.expand_dims(at.d, axis) == line
    u = None if at.u is None else spread(np.expand_dims(at.u, axis), d.shape)
    return V(d.astype(holder(expr.type.dtype)), u)


def _dynamic_slice(ev, expr):
    v, sizes = ev.ev(expr.args[0]), expr.type.shape
    places = []
    for start, n, size in zip(expr.args[1].args, v.d.shape, sizes):
        at = max(0, min(ev.ix(start), n - size))
        places.append(slice(at, at + size))
    return each(v, lambda a: a[tuple(places)])


def _dynamic_update(ev, expr):
    v, new = ev.ev(expr.args[0]), ev.ev(expr.args[1])
    places = []
    for start, n, size in zip(expr.args[2].args, v.d.shape, new.d.shape):
        at = max(0, min(ev.ix(start), n - size))
        places.append(slice(at, at + size))

    def put(a, b, empty):
        out = np.array(spread(empty if a is None else a, v.d.shape))
        out[tuple(places)] = empty if b is None else b
        return out
    u = None if v.u is None and new.u is None else put(v.u, new.u, False)
    e = None if v.e is None and new.e is None else put(v.e, new.e, 0.0)
    return V(put(v.d, new.d, 0), u, e)


def _reduce(ev, expr):
    par, arg = expr.attr["par"], expr.args[0]
    return op.reduce(expr.attr["fn"], ev.ev(arg), arg.type.dtype, tuple(par["axes"]), par["keep"])


def _argreduce(ev, expr):
    par, arg = expr.attr["par"], expr.args[0]
    return op.argreduce(expr.attr["fn"], ev.ev(arg), arg.type.dtype, par["axis"], par["keep"])


def _scan(ev, expr):
    par, arg = expr.attr["par"], expr.args[0]
    return op.scan(expr.attr["fn"], ev.ev(arg), arg.type.dtype, par["axis"], par["reverse"])


def _sort(ev, expr):
    par, arg = expr.attr["par"], expr.args[0]
    v = ev.ev(arg)
    at = op.order(v, arg.type.dtype, par["axis"], par["descending"])
    mask = op.sorted_mask(v, par["axis"])
    if expr.attr["fn"] == "argsort":
        return V(at, mask)
    return op.in_order(V(v.d), at, par["axis"], mask)


def _sort_by(ev, expr):
    par, values = expr.attr["par"], [ev.ev(x) for x in expr.args]
    if values[0].u is not None:
        raise Reject("sort_by of an unspecified key")
    at = op.order(values[0], expr.args[0].type.dtype, par["axis"], par["descending"])
    mask = op.sorted_mask(values[0], par["axis"])
    return [op.in_order(V(v.d, None if k == 0 else v.u, v.e), at, par["axis"], mask) for k, v in enumerate(values)]


def _top_k(ev, expr):
    par, arg = expr.attr["par"], expr.args[0]
    v = ev.ev(arg)
    if is_float(arg.type.dtype) and np.any(np.isnan(v.d)):
        raise Reject("top_k of a NaN")
    if v.u is not None:
        raise Reject("top_k of unspecified elements")
    at = op.order(v, arg.type.dtype, par["axis"], True)
    at = np.take(at, range(par["k"]), par["axis"])
    mask = None if v.u is None else spread(v.u.any(axis=par["axis"], keepdims=True), at.shape)
    return [op.in_order(V(v.d), at, par["axis"], mask), V(at, mask)]


def _split(ev, expr):
    par, v = expr.attr["par"], ev.ev(expr.args[0])
    parts = [[None if a is None else p for p in (np.split(a, par["cuts"], par["axis"]) if a is not None else [None] * (len(par["cuts"]) + 1))]
             for a in (v.d, v.u, v.e)]
    return [V(*p) for p in zip(*parts)]


def _unstack(ev, expr):
    par, v = expr.attr["par"], ev.ev(expr.args[0])
    return [each(v, lambda a, n=n: np.take(a, n, par["axis"])) for n in range(v.d.shape[par["axis"]])]


def _contract(ev, expr):
    par, values = expr.attr["par"], [ev.ev(x) for x in expr.args]
    dtypes = [x.type.dtype for x in expr.args]
    out = op.contract(par["spec"], values[0], values[1] if len(values) > 1 else None, dtypes, expr.type.dtype)
    if is_float(expr.type.dtype):
        return out
    return V(wrap(expr.type.dtype, wrap(accumulator(dtypes[0]), out.d)), out.u)


def _conv(ev, expr):
    """A product of the elements of the window, as columns, with the weights."""
    par, (x, w) = expr.attr["par"], [ev.ev(a) for a in expr.args]
    window, groups, shape = w.d.shape[:-2], par["groups"], expr.type.shape

    def patches(a):
        a = np.pad(a, [(0, 0)] + par["padding"] + [(0, 0)])
        taps = []
        for tap in np.ndindex(*window):
            place = [slice(at * d, at * d + (n - 1) * s + 1, s) for at, d, s, n in zip(tap, par["dilation"], par["strides"], shape[1:])]
            taps.append(a[(slice(None), *place)].reshape(shape[0], -1, groups, a.shape[-1] // groups))
        return np.concatenate(taps, 3)
    weights = each(w, lambda a: a.reshape(-1, groups, shape[-1] // groups))
    whole = each(x, lambda a: patches(spread(a, x.d.shape)))
    out = op.contract("bsgk,kgf->bsgf", whole, weights, [a.type.dtype for a in expr.args], expr.type.dtype)
    out = each(out, lambda a: a.reshape(shape))
    return out if is_float(expr.type.dtype) else V(wrap(expr.type.dtype, out.d), out.u)


CALLS = {
    "where": _where, "select_n": _select_n, "clamp": _clamp, "max": _extremum, "min": _extremum, "cast": _cast, "iota": _iota,
    "fma": lambda ev, x: op.fma(x.type.dtype, *[ev.operand(a, x.type.dtype) for a in x.args]),
    "integer_pow": lambda ev, x: op.integer_pow(x.type.dtype, ev.ev(x.args[0]), x.attr["par"]["n"]),
    "pow": lambda ev, x: op.power(x.type.dtype, *[ev.operand(a, x.type.dtype) for a in x.args]),
    "bitcast": lambda ev, x: op.bitcast(ev.ev(x.args[0]), x.type.dtype, x.args[0].type.dtype),
    "copysign": lambda ev, x: (lambda a, b: V(np.copysign(a.d, b.d), op.join((a, b), (a.d + b.d).shape)))(*[ev.ev(a) for a in x.args]),
    "broadcast": lambda ev, x: _broadcast(ev.ev(x.args[0]), x, None, ev),
    "reshape": lambda ev, x: each(ev.ev(x.args[0]), lambda a: a.reshape(ev.shape(x.type.shape))),
    "squeeze": lambda ev, x: each(ev.ev(x.args[0]), lambda a: a.reshape(ev.shape(x.type.shape))),
    "transpose": _axis_call(lambda v, x, par: each(v, lambda a: np.transpose(a, par["perm"]))),
    "rev": _axis_call(lambda v, x, par: each(v, lambda a: np.flip(a, par["axis"]))),
    "repeat": _axis_call(lambda v, x, par: each(v, lambda a: np.repeat(a, par["n"], par["axis"]))),
    "tile": _axis_call(lambda v, x, par: each(v, lambda a: np.tile(a, par["reps"]))),
    "pad": _axis_call(_pad), "roll": _axis_call(_roll), "concatenate": _concatenate, "stack": _stack,
    "take": _take, "take_along_axis": _take_along, "one_hot": _one_hot, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update, "sort": _sort, "argsort": _sort, "sort_by": _sort_by, "top_k": _top_k, "split": _split,
    "unstack": _unstack, "dot": _contract, "einsum": _contract, "conv": _conv, "argmax": _argreduce, "argmin": _argreduce,
}
for _name in ("reduce_sum", "sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor", "all", "any"):
    CALLS[_name] = _reduce
for _name in ("cumsum", "cumprod", "cummax", "cummin"):
    CALLS[_name] = _scan
for _name in ("floordiv", "mod", "cdiv", "mulhi"):
    CALLS[_name] = _binary
for _name in op.PAIRS:
    CALLS[_name] = lambda ev, x: op.pair(x.attr["fn"], x.type.dtype, *[ev.operand(a, x.type.dtype) for a in x.args])
for _table in (op.EXACT_FLOAT, op.ROUNDED_FLOAT, op.TESTS, op.FUNCTIONS, {"population_count": 0, "clz": 0}):
    for _name in _table:
        CALLS[_name] = _unary
