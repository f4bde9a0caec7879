"""The definition of each built-in function and operator on NumPy arrays: the twin with which compiled kernels are compared.

A value is a `V`: data, a mask of unspecified elements, and a bound of the error of each element (None: exact). Floats are
correctly rounded operation by operation; sums and products are exact where any order gives the same bits, else they have a bound.
"""
import math
import os
import re
from statistics import NormalDist

import numpy as np

from .types import (DTYPES, NO_INFINITY, SCALE, accumulator, bits_of, convert, from_bits, int_range, is_float, round_float, spacing,
                    spread, wrap)


class Reject(Exception):
    """The kernel is not valid on this data, or its result cannot be predicted."""


class V:
    __slots__ = ("d", "u", "e")

    def __init__(self, d, u=None, e=None):
        self.d, self.u, self.e = np.asarray(d), u, e


def join(values, shape=None):
    """The elements that are unspecified in any operand."""
    out = None
    for v in values:
        if v.u is not None:
            out = v.u if out is None else out | v.u
    if out is not None and shape is not None and out.shape != shape:
        out = spread(out, shape)
    return out


def exact(*values):
    for v in values:
        if v.e is not None and np.any(v.e):
            raise Reject("inexact operand")


def each(v, function):
    """A function that moves elements."""
    return V(function(v.d), None if v.u is None else function(v.u), None if v.e is None else function(v.e))


# ---- operators


def _divisor(b):
    return np.where(b == 0, np.ones_like(b), b)


def _floordiv(a, b):
    ones = ~np.zeros_like(b)
    return np.where(b == 0, ones, a // _divisor(b))


def _mod(a, b):
    return np.where(b == 0, a, a % _divisor(b))


def _towards_zero(a, b):
    """Where the floor of the quotient is not what the quotient without its fraction is."""
    return ((a < 0) != (b < 0)) & (_mod(a, b) != 0) & (b != 0)


def _truncated(a, b):
    return _floordiv(a, b) + _towards_zero(a, b).astype(np.asarray(a).dtype)


def _remainder(a, b):
    return np.where(_towards_zero(a, b), _mod(a, b) - b, _mod(a, b))


def _shift(symbol, dtype, a, b):
    width = DTYPES[dtype].bits
    outside, none = (b < 0) | (b >= width), np.zeros_like(a)
    by = np.where(outside, np.zeros_like(b), b)
    if symbol == "<<":
        return np.where(outside, none, a << by)
    if symbol == ">>>":
        return np.where(outside, none, wrap(dtype, bits_of(dtype, a) >> by.astype(bits_of(dtype, a).dtype)))
    return np.where(outside, np.where(a < 0, ~none, none), a >> by)


INTEGER = {
    "+": lambda t, a, b: a + b, "-": lambda t, a, b: a - b, "*": lambda t, a, b: a * b,
    "&": lambda t, a, b: a & b, "|": lambda t, a, b: a | b, "^": lambda t, a, b: a ^ b,
    "/": lambda t, a, b: _truncated(a, b), "%": lambda t, a, b: _remainder(a, b),
    "<<": lambda t, a, b: _shift("<<", t, a, b), ">>": lambda t, a, b: _shift(">>", t, a, b),
    ">>>": lambda t, a, b: _shift(">>>", t, a, b),
    "floordiv": lambda t, a, b: _floordiv(a, b), "mod": lambda t, a, b: _mod(a, b),
    "cdiv": lambda t, a, b: _floordiv(a, b) + (_mod(a, b) != 0).astype(np.asarray(a).dtype),
    "mulhi": lambda t, a, b: (a * b) >> DTYPES[t].bits if t != "u32" else
    ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(np.int64),
}
FLOAT = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
COMPARE = {"==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
LOGICAL = {"&": np.logical_and, "|": np.logical_or, "^": np.logical_xor, "&&": np.logical_and, "||": np.logical_or}


def _float_error(symbol, dtype, a, b, d):
    if a.e is None and b.e is None:
        return None
    ea, eb = (0 if a.e is None else a.e), (0 if b.e is None else b.e)
    if symbol in "+-":
        e = ea + eb
    elif symbol == "*":
        e = np.abs(a.d) * eb + np.abs(b.d) * ea + ea * eb
    else:
        raise Reject("inexact operand")
    return e + spacing(dtype, np.abs(d) + e)


def arithmetic(symbol, dtype, a, b):
    """A binary operator or function on two values of one dtype."""
    kind = DTYPES[dtype].kind
    if kind == "f":
        d = round_float(dtype, FLOAT[symbol](a.d, b.d))
        return V(d, join((a, b), d.shape), _float_error(symbol, dtype, a, b, d))
    if kind == "b":
        d = LOGICAL[symbol](a.d, b.d)
    else:
        d = wrap(dtype, INTEGER[symbol](dtype, a.d, b.d))
    return V(d, join((a, b), d.shape))


def compare(symbol, a, b):
    exact(a, b)
    values = [v.d.astype(object) if a.d.dtype != b.d.dtype and is_integral(v.d) else v.d for v in (a, b)]  # true values
    d = np.asarray(COMPARE[symbol](*values), bool)
    return V(d, join((a, b), d.shape))


def is_integral(a):
    return a.dtype.kind in "iu"


def negate(symbol, dtype, a):
    if symbol == "!":
        return V(~a.d, a.u)
    if symbol == "~":
        return V(wrap(dtype, ~a.d), a.u)
    return V(round_float(dtype, -a.d) if is_float(dtype) else wrap(dtype, -a.d), a.u, a.e)


# ---- elementwise functions


def _round_half_away(a):
    return np.copysign(np.floor(np.abs(a) + 0.5), a)


def _population(dtype, a):
    return sum(bit(bits_of(dtype, a), k) for k in range(DTYPES[dtype].bits))


def bit(bits, k):
    return (bits >> bits.dtype.type(k) & bits.dtype.type(1)).astype(np.int64)


def _leading_zeros(dtype, a):
    bits, width = bits_of(dtype, a), DTYPES[dtype].bits
    return sum((bits >> bits.dtype.type(k) == 0).astype(np.int64) for k in range(width))


EXACT_FLOAT = {"abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
               "round_half_away": _round_half_away}
ROUNDED_FLOAT = {"sqrt": np.sqrt, "reciprocal": np.reciprocal, "square": np.square}
TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "is_finite": np.isfinite, "signbit": np.signbit}
def _each(function):
    return np.vectorize(function, otypes=[np.float64])


def _erf_inv(a):
    inside = np.abs(a) < 1
    ends = np.where(np.abs(a) == 1, np.copysign(np.inf, a), np.where(a == 0, a, np.nan))
    return np.where(inside & (a != 0), _each(lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2))(np.where(inside, a, 0)), ends)


FUNCTIONS = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda a: np.power(10.0, a), "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "rsqrt": lambda a: 1 / np.sqrt(a), "cbrt": np.cbrt, "softplus": lambda a: np.logaddexp(a, 0),
    "log_sigmoid": lambda a: -np.logaddexp(-a, 0), "logistic": lambda a: 1 / (1 + np.exp(-a)), "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "erf": _each(math.erf), "erfc": _each(math.erfc), "erf_inv": _erf_inv,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
}
PAIRS = {"atan2": np.arctan2, "hypot": np.hypot}  # functions of two operands
EXACT_AT_SMALL = ("pow",)  # rows of the table that are drawn only for integers


def drawn_functions():
    """The inexact float functions of the compiler's table: names of FUNCTIONS and of PAIRS."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../codegen/ir/ops.def"), encoding="utf-8") as file:
        rows = re.findall(r"^FUNCTION\(\s*\w+, (\w+), (\w+), \w+, INEXACT", file.read(), re.M)
    unknown = [name for name, _ in rows if name not in FUNCTIONS and name not in PAIRS and name not in EXACT_AT_SMALL]
    if unknown:
        raise LookupError(f"tests/randomized/operations.py has no twin of {', '.join(unknown)}")
    return [name for name, _ in rows if name in FUNCTIONS], [name for name, _ in rows if name in PAIRS]


def _function_error(dtype, d):
    return 32 * spacing("f64" if dtype == "f64" else "f32", d) + 2 * spacing(dtype, d)


def pair(function, dtype, a, b):
    exact(a, b)
    d = round_float(dtype, PAIRS[function](a.d, b.d))
    return V(d, join((a, b), d.shape), _function_error(dtype, d))


def unary(function, dtype, a):
    if function in TESTS:
        exact(a)
        return V(TESTS[function](a.d), a.u)
    if function in FUNCTIONS:
        exact(a)
        d = round_float(dtype, FUNCTIONS[function](a.d))
        return V(d, a.u, _function_error(dtype, d))
    if is_float(dtype):
        if function == "abs":
            return V(np.abs(a.d), a.u, a.e)
        exact(a)
        if function in EXACT_FLOAT:
            return V(round_float(dtype, EXACT_FLOAT[function](a.d)), a.u)
        return V(round_float(dtype, ROUNDED_FLOAT[function](a.d)), a.u)
    if function == "population_count":
        d = _population(dtype, a.d)
    elif function == "clz":
        d = _leading_zeros(dtype, a.d)
    else:
        d = {"abs": np.abs, "sign": np.sign, "square": np.square}[function](a.d)
    return V(wrap(dtype, d), a.u)


def extremum(function, dtype, values):
    pick = {"max": np.maximum, "min": np.minimum}[function]
    d, e = values[0].d, None
    for v in values[1:]:
        d = pick(d, v.d)
    if any(v.e is not None for v in values):
        e = sum((0 if v.e is None else v.e) for v in values) + np.zeros(d.shape)
    return V(d, join(values, d.shape), e)


def select(which, values):
    """Selects values[which] for each element, with the error and state of the selected value only."""
    exact(which)
    shape = np.broadcast_shapes(which.d.shape, *(v.d.shape for v in values))
    at = spread(which.d, shape)
    d = spread(values[0].d, shape)
    u = None if values[0].u is None else spread(values[0].u, shape)
    e = None if values[0].e is None else spread(values[0].e, shape)
    for k, v in enumerate(values[1:], 1):
        chosen = at == k
        d = np.where(chosen, v.d, d)
        if u is not None or v.u is not None:
            u = np.where(chosen, False if v.u is None else v.u, False if u is None else u)
        if e is not None or v.e is not None:
            e = np.where(chosen, 0.0 if v.e is None else v.e, 0.0 if e is None else e)
    if which.u is not None:
        u = which.u | (False if u is None else u)
        u = spread(u, shape)
    return V(d, u, e)


def fma(dtype, a, b, c):
    exact(a, b, c)
    product = a.d * b.d
    if dtype == "f64" and (None in [granularity(x.d) for x in (a, b, c)] or np.any(np.abs(product) + np.abs(c.d) > 1 << 20)):
        raise Reject("a product that binary64 does not hold")
    total = product + c.d
    back = total - product
    lost = (product - (total - back)) + (c.d - back)
    d = round_float(dtype, total)
    e = np.where(np.isfinite(lost) & (lost == 0), 0.0, spacing(dtype, d)) if np.any(lost != 0) else None
    if e is not None and not np.any(e):
        e = None
    return V(d, join((a, b, c), d.shape), e)


def integer_pow(dtype, a, n):
    if is_float(dtype):
        raise Reject("a float power")
    d, base = np.ones_like(a.d), a.d
    for _ in range(n):
        d = wrap(dtype, d * base)
    return V(d, a.u)


def power(dtype, a, b):
    """Powers of integers wrap; a negative exponent gives 0, except for the bases 1 and -1."""
    base, exponent = [np.array(x) for x in np.broadcast_arrays(a.d, b.d)]
    one, d, n = base.dtype.type(1), np.ones_like(base), np.where(exponent < 0, np.zeros_like(exponent), exponent)
    odd = exponent & one == one
    ends = np.where(base == 1, 1, np.where(base == -1, np.where(odd, -1, 1), 0))
    while np.any(n > 0):
        d = np.where(n & one == one, wrap(dtype, d * base), d)
        base, n = wrap(dtype, base * base), n >> one
    d = np.where(exponent < 0, wrap(dtype, ends), d)
    return V(wrap(dtype, d), join((a, b), d.shape))


def cast(a, dtype, source):
    if is_integral(a.d) and is_float(dtype) and dtype not in ("f32", "f64") and np.any(np.abs(a.d.astype(np.float64)) > 1 << 53):
        raise Reject("an integer that binary64 does not hold")
    d = convert(dtype, a.d, source)
    e = None
    if a.e is not None and is_float(dtype) and dtype != SCALE:
        e = a.e + spacing(dtype, np.abs(d) + a.e)
    elif not is_float(dtype) or dtype == SCALE:
        exact(a)
    return V(d, a.u, e)


def bitcast(a, dtype, source):
    exact(a)
    if is_float(source) and np.any(np.isnan(a.d)):
        raise Reject("the bits of a NaN")
    return V(from_bits(dtype, bits_of(source, a.d)), a.u)


# ---- reductions


def granularity(d):
    """The least k such that all elements are multiples of 2^-k, or None if it is too large."""
    for k in (0, 3, 8, 16, 24):
        scaled = np.ldexp(d, k)
        if np.all(scaled == np.rint(scaled)):
            return k
    return None


def finite(*values):
    for v in values:
        bad = ~np.isfinite(v.d)
        if v.u is not None:
            bad = bad & ~v.u
        if np.any(bad):
            raise Reject("an infinity or NaN in a sum")


def clean(v):
    """Data with 0 for unspecified elements."""
    return v.d if v.u is None else np.where(v.u, 0, v.d)


def _sum_error(terms, magnitude, d, dtype, errors, exact_bits):
    """The bound of a sum in any order; None when it is exact."""
    digits = 53 if dtype == "f64" else 24
    if errors is None and exact_bits is not None and (magnitude.size == 0 or np.ldexp(magnitude.max(), exact_bits) <= 1 << digits):
        return None
    e = (terms + 2) * 2.0**(1 - digits) * magnitude + spacing(dtype, d)
    return e if errors is None else e + 2 * errors


def float_sum(v, dtype, axes, keep):
    finite(v)
    data = clean(v)
    d = round_float(dtype, data.sum(axis=axes, keepdims=keep))
    magnitude = np.abs(data).sum(axis=axes, keepdims=keep)
    errors = None if v.e is None else v.e.sum(axis=axes, keepdims=keep)
    terms = data.size // max(1, d.size)
    return V(d, reduce_mask(v, axes, keep), _sum_error(terms, magnitude, d, dtype, errors, granularity(data)))


def reduce_mask(v, axes, keep):
    return None if v.u is None else v.u.any(axis=axes, keepdims=keep)


def _float_product(v, dtype, axes, keep):
    finite(v)
    exact(v)
    data = np.where(v.u, 1, v.d) if v.u is not None else v.d
    size = np.maximum(np.abs(data), 1).prod(axis=axes, keepdims=keep)
    if granularity(data) != 0 or np.any(size > 1 << 24):
        raise Reject("an inexact product")
    return V(round_float(dtype, data.prod(axis=axes, keepdims=keep)), reduce_mask(v, axes, keep))


def _least(dtype):
    if dtype == SCALE:
        return 2.0 ** DTYPES[SCALE].least
    return -np.inf if is_float(dtype) else int_range(dtype)[0]


def _greatest(dtype):
    if dtype == SCALE:
        return DTYPES[SCALE].largest
    return np.inf if is_float(dtype) else int_range(dtype)[1]


def reduce(function, v, dtype, axes, keep):
    if function in ("sum", "reduce_sum"):
        if is_float(dtype):
            return float_sum(v, dtype, axes, keep)
        return V(wrap(dtype, v.d.sum(axis=axes, keepdims=keep)), reduce_mask(v, axes, keep))
    exact(v)
    u = reduce_mask(v, axes, keep)
    if function == "reduce_prod":
        if is_float(dtype):
            return _float_product(v, dtype, axes, keep)
        data = v.d
        for axis in sorted(axes, reverse=True):
            out = np.ones([n for k, n in enumerate(data.shape) if k != axis], data.dtype)
            for k in range(data.shape[axis]):
                out = wrap(dtype, out * np.take(data, k, axis))
            data = np.expand_dims(out, axis)
        return V(data if keep else np.squeeze(data, axis=axes), u)
    if function in ("reduce_max", "reduce_min"):
        if dtype in NO_INFINITY and any(v.d.shape[a] == 0 for a in axes):
            raise Reject("the greatest of nothing where there is no infinity")
        pick, start = (np.max, _least) if function == "reduce_max" else (np.min, _greatest)
        return V(pick(v.d, axis=axes, keepdims=keep, initial=start(dtype)), u)
    if DTYPES[dtype].kind == "b":
        fold = {"reduce_and": np.logical_and, "all": np.logical_and, "reduce_or": np.logical_or, "any": np.logical_or,
                "reduce_xor": np.logical_xor}[function]
    else:
        fold = {"reduce_and": np.bitwise_and, "reduce_or": np.bitwise_or, "reduce_xor": np.bitwise_xor}[function]
    if function == "reduce_and" and DTYPES[dtype].kind == "u":  # without elements: all bits of the dtype and no others
        return V(fold.reduce(v.d, axis=axes, keepdims=keep, initial=_greatest(dtype)), u)
    return V(fold.reduce(v.d, axis=axes, keepdims=keep), u)


def argreduce(function, v, dtype, axis, keep):
    exact(v)
    if v.d.shape[axis] == 0:
        raise Reject("the greatest of nothing")
    d = (np.argmax if function == "argmax" else np.argmin)(v.d, axis=axis)
    d = np.expand_dims(d, axis) if keep else d
    return V(d.astype(np.int64), reduce_mask(v, axis, keep))


def scan(function, v, dtype, axis, reverse):
    def turned(a):
        return np.flip(a, axis) if reverse else a

    u = None if v.u is None else turned(np.logical_or.accumulate(turned(v.u), axis))
    if function in ("cummax", "cummin"):
        exact(v)
        fold = np.maximum if function == "cummax" else np.minimum
        return V(turned(fold.accumulate(turned(v.d), axis)), u)
    data = turned(clean(v))
    if function == "cumsum":
        if not is_float(dtype):
            return V(turned(wrap(dtype, np.cumsum(data, axis))), u)
        finite(v)
        d = round_float(dtype, np.cumsum(data, axis))
        magnitude = np.cumsum(np.abs(data), axis)
        errors = None if v.e is None else np.cumsum(turned(v.e), axis)
        e = _sum_error(v.d.shape[axis], magnitude, d, dtype, errors, granularity(data))
        return V(turned(d), u, None if e is None else turned(e))
    exact(v)
    if is_float(dtype):
        finite(v)
        if granularity(data) != 0 or np.any(np.cumprod(np.maximum(np.abs(data), 1), axis) > 1 << 24):
            raise Reject("an inexact product")
        return V(turned(round_float(dtype, np.cumprod(data, axis))), u)
    out, running = np.empty_like(data), np.ones_like(np.take(data, [0], axis)) if data.shape[axis] else None
    for k in range(data.shape[axis]):
        running = wrap(dtype, running * np.take(data, [k], axis))
        place = [slice(None)] * data.ndim
        place[axis] = slice(k, k + 1)
        out[tuple(place)] = running
    return V(turned(out), u)


def order(v, dtype, axis, descending):
    """Indices that sort stably, NaN last."""
    exact(v)
    key = v.d.astype(np.int64) if DTYPES[dtype].kind == "b" else v.d
    if not is_float(dtype):
        return np.argsort(~key if descending else key, axis=axis, kind="stable")
    nan = np.isnan(key)
    key = np.where(nan, np.inf, -key if descending else key)
    first = np.argsort(key, axis=axis, kind="stable")
    nan = np.take_along_axis(nan, first, axis)
    return np.take_along_axis(first, np.argsort(nan, axis=axis, kind="stable"), axis)


def sorted_mask(v, axis):
    return None if v.u is None else spread(v.u.any(axis=axis, keepdims=True), v.d.shape)


def in_order(v, at, axis, mask):
    u = mask
    if v.u is not None:
        moved = np.take_along_axis(spread(v.u, v.d.shape), at, axis)
        u = moved if u is None else u | moved
    e = None if v.e is None else np.take_along_axis(spread(v.e, v.d.shape), at, axis)
    return V(np.take_along_axis(v.d, at, axis), u, e)


# ---- products


def contract(spec, a, b, dtypes, out):
    """einsum of two operands (or one, with b None)."""
    values = [v for v in (a, b) if v is not None]
    u = None
    if any(v.u is not None for v in values):
        masks = [np.zeros(v.d.shape) if v.u is None else spread(v.u, v.d.shape).astype(np.float64) for v in values]
        ones = [np.ones(v.d.shape) for v in values]
        u = np.einsum(spec, masks[0], *ones[1:]) > 0
        if b is not None:
            u = u | (np.einsum(spec, ones[0], masks[1]) > 0)
    if not any(is_float(t) for t in dtypes):
        return V(np.einsum(spec, *[v.d for v in values]), u)
    finite(*values)
    data = [clean(v).astype(np.float64) for v in values]
    raw = np.einsum(spec, *data)
    magnitude = np.einsum(spec, *[np.abs(x) for x in data])
    grains = [granularity(x) for x in data]
    bits = None if None in grains else sum(grains)
    terms = max(1, int(np.prod([x.size for x in data]) // max(1, raw.size)))
    errors = None
    if any(v.e is not None for v in values):
        errors = 0
        for k, v in enumerate(values):
            if v.e is not None:
                parts = [np.abs(x) + (0 if w.e is None else w.e) for x, w in zip(data, values)]
                parts[k] = spread(v.e, v.d.shape)
                errors = errors + np.einsum(spec, *parts)
    sums = accumulator("f64" if "f64" in dtypes else "f32")
    d = round_float(out, round_float(sums, raw))
    return V(d, u, _sum_error(terms, magnitude, d, sums if out == "f64" else out, errors, bits))


__all__ = ["is_int"] + [n for n in dir() if not n.startswith("_")]
