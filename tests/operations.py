#!/usr/bin/env python3
"""Operations that the lowering composes of others, against NumPy: gathers, windows, packing, convolutions, order, less common functions,
random numbers; and all kinds of operations on i64, u64 and f64, with the limits of their ranges.

Each row of the table is an expression of the language and its equivalent in NumPy. The rows of a group form one kernel, which runs natively,
with --target generic, and by `pkc test`. Random numbers are compared with an implementation in this file, with recorded values of
jax.random (jax_threefry_partitionable=True), and, if JAX is installed, with JAX.

    tests/operations.py [TEXT]    only groups whose name contains TEXT

Ends with "N passed, N failed".
"""
import math
import os
import subprocess
import sys

import numpy as np

from suite import one_line

import dtypes

WORK = os.path.join(os.environ.get("BUILD", "build"), "operations", str(os.getpid()))
rng = np.random.default_rng(5)
np.seterr(over="ignore", invalid="ignore", divide="ignore")


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def integers(*shape, low=-9, high=10, dtype=np.int32):
    return rng.integers(low, high, shape).astype(dtype)


NAMES = {"float32": "f32", "int32": "i32", "uint32": "u32", "uint16": "u16", "int16": "i16", "int8": "i8", "uint8": "u8",
         "bool": "bool", "float16": "f16", "int64": "i64", "uint64": "u64", "float64": "f64"}
X, Y, Z = floats(8, 12), floats(8, 12), floats(4, 6, 10)
I, J, U = integers(8, 12), integers(8, 12, low=0, high=8), integers(8, 12, low=0, high=1 << 32, dtype=np.uint32)
V, B = integers(8, 12, low=-(1 << 31), high=1 << 31), floats(8, 12) > 0
INPUTS = {"x": X, "y": Y, "z": Z, "i": I, "j": J, "u": U, "v": V, "b": B}


def bf16(values):
    return dtypes.round_to("bf16", values).astype(np.float32)


def bf16_bits(values):
    return (bf16(values).view(np.uint32) >> 16).astype(np.uint32)


def update(v, u, r, c):
    v = v.copy()
    v[r:r + u.shape[0], c:c + u.shape[1]] = u
    return v


def strided_roll(v, shift, stride):
    return np.stack([np.roll(row, shift + stride * k) for k, row in enumerate(v)])


def conv(x, w, stride=(1, 1), pad=((0, 0), (0, 0)), dilation=(1, 1), groups=1):
    x = np.pad(x.astype(np.float64), ((0, 0), *pad, (0, 0)))
    window = [(w.shape[k] - 1) * dilation[k] + 1 for k in range(2)]
    out = [(x.shape[1 + k] - window[k]) // stride[k] + 1 for k in range(2)]
    result = np.zeros((x.shape[0], *out, w.shape[3]))
    cin, cout = w.shape[2], w.shape[3] // groups
    for g in range(groups):
        for r in range(w.shape[0]):
            for c in range(w.shape[1]):
                part = x[:, r * dilation[0]:, c * dilation[1]:][:, :out[0] * stride[0]:stride[0], :out[1] * stride[1]:stride[1]]
                result[..., g * cout:(g + 1) * cout] += part[:, :out[0], :out[1], g * cin:(g + 1) * cin] @ w[r, c, :, g * cout:(g + 1) * cout]
    return result


def stochastic(x, random):
    """Stochastic rounding to f8e4m3fn: down, or up if the sum of the dropped bits and the random ones carries."""
    size = np.abs(x).view(np.uint32).astype(np.int64)
    drop = 20 + np.maximum(127 - 6 - (size >> 23), 0)
    drop = np.minimum(drop, 31)
    mask = (np.int64(1) << drop) - 1
    cut = ((size + (random & mask)) & ~mask).astype(np.uint32).view(np.float32)
    return dtypes.round_to("f8e4m3fn", np.copysign(cut, x))


def erf_inv(x):
    low, high = np.zeros_like(x), np.full_like(x, 6)
    erf = np.vectorize(math.erf)
    for _ in range(60):
        middle = (low + high) / 2
        below = erf(middle) < np.abs(x)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.copysign(low, x)


S = X / 4
UP = np.abs(X) + 1
IN = np.clip(X / 4, -0.99, 0.99).astype(np.float32)
ARGUMENTS = {"x": X, "abs(x) + 1": UP, "clamp(x / 4, -0.99, 0.99)": IN, "x, y": (X, Y), "abs(x) + 1, y": (UP, Y)}


def whole_erf_inv(x):
    near = np.where(np.abs(x) < 1e-4, x * 0.886226925452758, erf_inv(np.clip(x, -0.999999999, 0.999999999)))
    return np.where(np.abs(x) < 1, near, np.where(np.abs(x) == 1, np.copysign(np.inf, x), np.nan))


def libm(f):
    return np.vectorize(f, otypes=[float])


# The inexact functions of codegen/ir/ops.def: (an argument within the domain, the function in binary64).
FUNCTIONS = {
    "exp": ("x", np.exp), "exp2": ("x", np.exp2), "expm1": ("x", np.expm1), "log": ("abs(x) + 1", np.log), "log2": ("abs(x) + 1", np.log2),
    "log1p": ("abs(x) + 1", np.log1p), "log10": ("abs(x) + 1", np.log10), "cbrt": ("x", np.cbrt), "rsqrt": ("abs(x) + 1", lambda x: 1 / np.sqrt(x)),
    "tanh": ("x", np.tanh), "logistic": ("x", lambda x: 1 / (1 + np.exp(-x))), "sigmoid": ("x", lambda x: 1 / (1 + np.exp(-x))),
    "sin": ("x", np.sin), "cos": ("x", np.cos), "tan": ("x", np.tan), "sinh": ("x", np.sinh), "cosh": ("x", np.cosh),
    "asin": ("clamp(x / 4, -0.99, 0.99)", np.arcsin), "acos": ("clamp(x / 4, -0.99, 0.99)", np.arccos), "atan": ("x", np.arctan),
    "asinh": ("x", np.arcsinh), "acosh": ("abs(x) + 1", np.arccosh), "atanh": ("clamp(x / 4, -0.99, 0.99)", np.arctanh),
    "exp10": ("x", lambda x: np.power(10.0, x)), "softplus": ("x", lambda x: np.logaddexp(x, 0)), "log_sigmoid": ("x", lambda x: -np.logaddexp(-x, 0)), "erf": ("x", libm(math.erf)), "erfc": ("x", libm(math.erfc)), "erf_inv": ("clamp(x / 4, -0.99, 0.99)", whole_erf_inv),
    "pow": ("abs(x) + 1, y", np.power), "atan2": ("x, y", np.arctan2), "hypot": ("x, y", np.hypot),
}


def function_rows():
    for name, (argument, f) in FUNCTIONS.items():
        values = ARGUMENTS[argument]
        wide = [v.astype(np.float64) for v in (values if isinstance(values, tuple) else (values,))]
        yield f"{name}({argument})", "f32", f(*wide)


# Whole numbers, whose sums are exact.
IMAGE, TAPS, DEPTH = (integers(*shape).astype(np.float32) for shape in ((2, 7, 9, 4), (3, 3, 4, 6), (3, 2, 2, 8)))
# group: [(expression, dtype of the result, value)]; expressions use the inputs by name
GROUPS = {
    "functions": list(function_rows()) + [
        ("sinh(cast(x, bf16))", "bf16", np.sinh(bf16(X))), ("atan(cast(x, f16))", "f16", np.arctan(X.astype(np.float16)))],
    "elementwise": [
        ("square(x)", "f32", X * X), ("square(i)", "i32", I * I), ("integer_pow(x, 5)", "f32", X ** 5), ("integer_pow(x, 0)", "f32", X * 0 + 1),
        ("integer_pow(abs(x) + 1, -3)", "f32", UP ** -3.0), ("integer_pow(i, 3)", "i32", I ** 3),
        ("round_half_away(x * 2)", "f32", np.trunc(X * 2 + np.copysign(0.5, X))),
        ("round_half_away(cast(i, f32) / 2)", "f32", np.trunc(I / 2 + np.copysign(0.5, I) * (I != 0))),
        ("copysign(x, y)", "f32", np.copysign(X, Y)), ("signbit(x)", "bool", np.signbit(X)), ("nextafter(x, y)", "f32", np.nextafter(X, Y)),
        ("nextafter(x * 0, y)", "f32", np.nextafter(X * 0, Y)), ("nextafter(x, inf)", "f32", np.nextafter(X, np.float32(np.inf))),
        ("nextafter(cast(x, f16), 0)", "f16", np.nextafter(X.astype(np.float16), np.float16(0))), ("is_finite(1 / (x - x))", "bool", X != X),
        ("select_n(b, x, y)", "f32", np.where(B, Y, X)), ("select_n(j % 3, x, y, x + y)", "f32", np.choose(J % 3, [X, Y, X + Y])),
        ("mulhi(u, u >> 3)", "u32", ((U.astype(np.uint64) * (U >> 3)) >> 32).astype(np.uint32)),
        ("mulhi(v, i)", "i32", ((V.astype(np.int64) * I) >> 32).astype(np.int32)),
        ("mulhi(cast(v, i16), cast(u, i16))", "i16", ((V.astype(np.int16).astype(np.int64) * U.astype(np.int16)) >> 16).astype(np.int16)),
        ("mulhi(cast(v, u8), cast(u, u8))", "u8", ((V.astype(np.uint8).astype(np.int64) * U.astype(np.uint8)) >> 8).astype(np.uint8)),
        ("clamp(i, -3, 4)", "i32", np.clip(I, -3, 4))],
    "bits": [
        ("bitcast(x, i16)", "i16", X.view(np.int16).reshape(8, 12, 2).transpose(0, 2, 1).reshape(16, 12)),
        ("bitcast(u, u8)", "u8", U.view(np.uint8).reshape(8, 12, 4).transpose(0, 2, 1).reshape(32, 12)),
        ("bitcast(bitcast(x, i16), f32)", "f32", X), ("bitcast(bitcast(u, u4), u32)", "u32", U), ("bitcast(bitcast(z, u16), f32)", "f32", Z),
        ("bitcast(cast(j, u8), u32)", "u32", J.astype(np.uint8).reshape(2, 4, 12).transpose(0, 2, 1).copy().view(np.uint32)[:, :, 0]),
        ("pack_elementwise(x, y, dtype = bf16)", "u32", bf16_bits(X) | bf16_bits(Y) << 16),
        ("pack_elementwise(cast(i, i8), cast(j, i8), dtype = i4)", "u8", ((I & 15) | (J & 15) << 4).astype(np.uint8)),
        ("pack_elementwise(u, u >> 8, u >> 16, u >> 24, dtype = u8)", "u32", U),
        ("unpack_elementwise(pack_elementwise(x, y, dtype = bf16), 1, bf16, f32)", "f32", bf16(Y)),
        ("unpack_elementwise(v, 2, i8, i32)", "i32", (V >> 16).astype(np.int8).astype(np.int32)),
        ("unpack_elementwise(v, 7, u4, i32)", "i32", (V >> 28) & 15),
        ("stochastic_round(x, u * 0, bf16)", "bf16", (X.view(np.uint32) & 0xFFFF0000).view(np.float32)),
        ("stochastic_round(x, ~(u * 0), bf16)", "bf16", ((X.view(np.uint32) + 0xFFFF) & 0xFFFF0000).view(np.float32)),
        ("stochastic_round(x / 64, u, f8e4m3fn)", "f8e4m3fn", stochastic(X / np.float32(64), U))],
    "gather": [
        ("take(x, j[0, :], axis = 0)", "f32", X[J[0]]), ("take(x, j[:3, :2], axis = 1)", "f32", X[:, J[:3, :2]]), ("take(x, j[0, 0], axis = 0)", "f32", X[J[0, 0]]),
        ("take_along_axis(x, j, axis = 0)", "f32", np.take_along_axis(X, J, 0)), ("take_along_axis(x, j, axis = 1)", "f32", np.take_along_axis(X, J, 1)),
        ("one_hot(j[0, :], 5)", "f32", (J[0][:, None] == np.arange(5)).astype(np.float32)),
        ("one_hot(j, 8, axis = 0, dtype = i8)", "i8", (J[None] == np.arange(8)[:, None, None]).astype(np.int8)),
        ("one_hot(cast(j, u8), 3, axis = 1, dtype = bool)", "bool", J[:, None] == np.arange(3)[:, None]),
        ("stack(x, y)", "f32", np.stack([X, Y])), ("stack(x, y, x, axis = 1)", "f32", np.stack([X, Y, X], 1)), ("stack([i, j], axis = -1)", "i32", np.stack([I, J], -1)),
        ("split(x, 3, axis = 1)[1]", "f32", X[:, 4:8]), ("split(x, (2, 7), axis = 1)[-1]", "f32", X[:, 7:]), ("unstack(z, axis = 1)[2]", "f32", Z[:, 2]),
        ("concatenate(split(x, 4, axis = 1), axis = 0)", "f32", np.concatenate(np.split(X, 4, 1), 0)),
        ("rev(z, axis = 1)", "f32", Z[:, ::-1]), ("roll(x, 3, axis = 1, stride = 2, stride_axis = 0)", "f32", strided_roll(X, 3, 2)),
        ("roll(x, j[0, 0] - 5, axis = 1, stride = -1, stride_axis = 0)", "f32", strided_roll(X, int(J[0, 0]) - 5, -1))],
    "windows": [
        ("dynamic_slice(x, (j[0, 0], j[0, 1] + 4), [3, 5])", "f32", X[min(J[0, 0], 5):, min(J[0, 1] + 4, 7):][:3, :5]),
        ("dynamic_slice(x, (99, -99), [3, 5])", "f32", X[5:, :5]), ("dynamic_slice(z, (j[1, 1], 0, j[2, 2]), [2, 6, 3])", "f32", Z[min(J[1, 1], 2):, :, min(J[2, 2], 7):][:2, :, :3]),
        ("dynamic_update_slice(x, y[:3, :5], (j[3, 0], j[0, 3]))", "f32", update(X, Y[:3, :5], min(J[3, 0], 5), min(J[0, 3], 7))),
        ("dynamic_update_slice(x, y[:, :5], (4, 100))", "f32", update(X, Y[:, :5], 0, 7)), ("dynamic_update_slice(i, 7 * j[:1, :1], (j[0, 0], 11))", "i32", update(I, 7 * J[:1, :1], J[0, 0], 11)),
        ("x[ds(j[0, 0], 1), :]", "f32", X[J[0, 0]:J[0, 0] + 1])],
    "order": [
        ("top_k(x, 3)[0]", "f32", -np.sort(-X, 1)[:, :3]), ("top_k(x, 3)[1]", "i32", np.argsort(-X, 1, kind="stable")[:, :3]),
        ("top_k(j, 2, axis = 0)[1]", "i32", np.argsort(-J, 0, kind="stable")[:2]), ("sort_by(j, x, axis = 0)[1]", "f32", np.take_along_axis(X, np.argsort(J, 0, kind="stable"), 0)),
        ("sort_by(j, x, i, axis = 1, descending = true)[2]", "i32", np.take_along_axis(I, np.argsort(-J, 1, kind="stable"), 1)),
        ("sort_by(j, x, axis = 1)[0]", "i32", np.sort(J, 1)),
        ("cummin(x, axis = 0)", "f32", np.minimum.accumulate(X, 0)), ("cumsum(i, axis = 1, reverse = true)", "i32", np.cumsum(I[:, ::-1], 1)[:, ::-1]),
        ("cumprod(i, axis = 0)", "i32", np.cumprod(I, 0, dtype=np.int32)), ("reduce_xor(u, axis = (0, 1))", "u32", np.bitwise_xor.reduce(U.ravel()).reshape(1, 1)),
        ("reduce_and(v | 5, axis = 1)", "i32", np.bitwise_and.reduce(V | 5, 1, keepdims=True)), ("reduce_or(u & 0xff00, axis = 0)", "u32", np.bitwise_or.reduce(U & 0xFF00, 0, keepdims=True))],
    "conv": [
        ("conv(p, w)", "f32", conv(IMAGE, TAPS)), ('conv(p, w, padding = "same")', "f32", conv(IMAGE, TAPS, pad=((1, 1), (1, 1)))),
        ("conv(p, w, strides = (2, 3), padding = ((2, 1), (0, 3)))", "f32", conv(IMAGE, TAPS, (2, 3), ((2, 1), (0, 3)))),
        ("conv(p, w, dilation = 2)", "f32", conv(IMAGE, TAPS, dilation=(2, 2))), ('conv(p, q, groups = 2, strides = 2, padding = "same")', "f32", conv(IMAGE, DEPTH, (2, 2), ((1, 1), (0, 1)), groups=2)),
        ("conv(cast(p, i8), cast(w, i8))", "i32", conv(IMAGE, TAPS)), ("conv(cast(p, bf16), cast(w, bf16), out = bf16)", "bf16", dtypes.round_to("bf16", conv(IMAGE, TAPS))),
        ("conv(p[:, 0, :, :], w[0, :, :, :])", "f32", conv(IMAGE[:, :1], TAPS[:1])[:, 0])],
}
EXTRA = {"conv": {"p": IMAGE, "w": TAPS, "q": DEPTH}}

# ---- elements of 64 bits, including the limits of their ranges

MOST = (1 << 63) - 1
L = rng.integers(-MOST - 1, MOST, (8, 12), dtype=np.int64)
L[0, :6] = [0, 1, -1, MOST, -MOST - 1, -MOST]
K = integers(8, 12, dtype=np.int64)
H = rng.integers(0, 2 * MOST + 1, (8, 12), dtype=np.uint64)
H[0, :5] = [0, 1, 2 * MOST + 1, MOST, MOST + 1]
E, F = rng.standard_normal((8, 12)), rng.standard_normal((8, 12))
E[0, :5] = [0.0, 1e300, -1e300, 5e-324, -1e-310]
C6, W6 = integers(2, 7, 9, 4, dtype=np.int64) << 40, integers(3, 3, 4, 6, dtype=np.int64) << 19


def exact(f):
    """Computes in Python integers, element by element, and wraps the results."""
    def result(*arrays):
        kind = arrays[0].dtype.type
        low = 0 if kind is np.uint64 else -MOST - 1
        values = [(int(f(*map(int, v))) - low) % (1 << 64) + low for v in zip(*(a.ravel() for a in arrays))]
        return np.array(values, dtype=kind).reshape(arrays[0].shape)
    return result


def truncated(a, b):
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def floored(a, b):
    return -1 if b == 0 else a // b


def shifted(a, b, width=64):
    return a >> b if 0 <= b < width else -1 if a < 0 else 0


DIVISIONS = {"{0} / {1}": truncated, "{0} % {1}": lambda a, b: a if b == 0 else a - truncated(a, b) * b, "floordiv({0}, {1})": floored,
             "mod({0}, {1})": lambda a, b: a if b == 0 else a % b, "cdiv({0}, {1})": lambda a, b: -1 + (a != 0) if b == 0 else -(-a // b)}
ARITHMETIC = {"{0} + {1}": lambda a, b: a + b, "{0} - {1}": lambda a, b: a - b, "{0} * {1}": lambda a, b: a * b, "{0} & {1}": lambda a, b: a & b,
              "{0} | {1}": lambda a, b: a | b, "{0} ^ {1}": lambda a, b: a ^ b, "max({0}, {1})": max, "min({0}, {1})": min}
SHIFTS = {"{0} << {1}": lambda a, b: a << b if 0 <= b < 64 else 0, "{0} >> {1}": shifted}


def wide_integer_rows():
    for a, b, kind, v, w in (("l", "k", "i64", L, K), ("k", "l", "i64", K, L), ("l", "l", "i64", L, L), ("h", "cast(k, u64)", "u64", H, K.astype(np.uint64)),
                             ("h", "(h >> 32)", "u64", H, H >> np.uint64(32)), ("cast(l, u64)", "h", "u64", L.astype(np.uint64), H)):
        for text, f in {**DIVISIONS, **ARITHMETIC}.items():
            yield text.format(a, b), kind, exact(f)(v, w)
    by = K * 8
    for text, f in SHIFTS.items():
        yield text.format("l", "k * 8"), "i64", exact(f)(L, by)
        yield text.format("h", "cast(abs(k) * 8, u64)"), "u64", exact(f)(H, abs(by).astype(np.uint64))
    yield "l >>> (k * 8)", "i64", np.where((by >= 0) & (by < 64), (L.astype(np.uint64) >> np.clip(by, 0, 63).astype(np.uint64)).astype(np.int64), 0)
    for text, f in {"-{0}": lambda a: -a, "abs({0})": abs, "~{0}": lambda a: ~a, "sign({0})": lambda a: (a > 0) - (a < 0),
                    "population_count({0})": lambda a: bin(a % (1 << 64)).count("1"), "clz({0})": lambda a: 64 - (a % (1 << 64)).bit_length(),
                    "integer_pow({0}, 5)": lambda a: a ** 5}.items():
        yield text.format("l"), "i64", exact(f)(L)
        yield text.format("h"), "u64", exact(f)(H)


GROUPS["wide_integers"] = list(wide_integer_rows()) + [
    (f"{a} {o} {b}", "bool", f(v, w)) for a, b, v, w in (("l", "k", L, K), ("h", "cast(l, u64)", H, L.astype(np.uint64)))
    for o, f in (("<", np.less), ("<=", np.less_equal), (">", np.greater), (">=", np.greater_equal), ("==", np.equal), ("!=", np.not_equal))] + [
    ("cast(l, u64)", "u64", L.astype(np.uint64)), ("cast(h, i64)", "i64", H.astype(np.int64)), ("cast(l, i32)", "i32", L.astype(np.int32)),
    ("cast(v, i64)", "i64", V.astype(np.int64)), ("cast(u, u64)", "u64", U.astype(np.uint64)), ("cast(l, f64)", "f64", L.astype(np.float64)),
    ("cast(h, f64)", "f64", H.astype(np.float64)), ("cast(l, f32)", "f32", L.astype(np.float32)), ("bitcast(e, i64)", "i64", E.view(np.int64)),
    ("bitcast(h, f64) == bitcast(h, f64)", "bool", ~np.isnan(H.view(np.float64)))]
GROUPS["wide_moves"] = [
    ("take(l, j[0, :], axis = 0)", "i64", L[J[0]]), ("take_along_axis(h, j, axis = 0)", "u64", np.take_along_axis(H, J.astype(np.int64), 0)),
    ("one_hot(j[0, :], 5, dtype = i64)", "i64", (J[0][:, None] == np.arange(5)).astype(np.int64)), ("stack(e, f, axis = 1)", "f64", np.stack([E, F], 1)),
    ("split(l, 3, axis = 1)[1]", "i64", L[:, 4:8]), ("rev(h, axis = 1)", "u64", H[:, ::-1]), ("roll(e, 3, axis = 1)", "f64", np.roll(E, 3, 1)),
    ("l.T", "i64", L.T), ("pad(h, ((1, 0), (0, 2)), value = 7)", "u64", np.pad(H, ((1, 0), (0, 2)), constant_values=7)),
    ("dynamic_slice(l, (j[0, 0], j[0, 1] + 4), [3, 5])", "i64", L[min(J[0, 0], 5):, min(J[0, 1] + 4, 7):][:3, :5]),
    ("dynamic_update_slice(e, f[:3, :5], (j[3, 0], j[0, 3]))", "f64", update(E, F[:3, :5], min(J[3, 0], 5), min(J[0, 3], 7))),
    ("where(b, l, k)", "i64", np.where(B, L, K)), ("select_n(j % 3, e, f, e + f)", "f64", np.choose(J % 3, [E, F, E + F])),
    ("sort(l, axis = 1)", "i64", np.sort(L, 1)), ("sort(h, axis = 0, descending = true)", "u64", -np.sort(-H.astype(object), 0)),
    ("argsort(l, axis = 1)", "i32", np.argsort(L, 1, kind="stable")), ("top_k(h, 3)[0]", "u64", -np.sort(-H.astype(object), 1)[:, :3]),
    ("top_k(l, 3)[1]", "i32", np.argsort(-L.astype(object), 1, kind="stable")[:, :3]), ("sort_by(j, e, axis = 0)[1]", "f64", np.take_along_axis(E, np.argsort(J, 0, kind="stable"), 0)),
    ("argmax(h, axis = 1)", "i32", np.argmax(H, 1)[:, None]), ("argmin(l, axis = 0)", "i32", np.argmin(L, 0)[None])]
GROUPS["wide_folds"] = [
    ("cumsum(l, axis = 1)", "i64", np.cumsum(L, 1)), ("cumprod(h, axis = 0)", "u64", np.cumprod(H, 0)), ("cummax(h, axis = 1)", "u64", np.maximum.accumulate(H, 1)),
    ("cummin(l, axis = 0, reverse = true)", "i64", np.minimum.accumulate(L[::-1], 0)[::-1]), ("reduce_sum(l, axis = 0)", "i64", L.sum(0, keepdims=True)),
    ("reduce_prod(h, axis = 1)", "u64", H.prod(1, keepdims=True)), ("reduce_max(h, axis = 1)", "u64", H.max(1, keepdims=True)), ("reduce_min(l, axis = 1)", "i64", L.min(1, keepdims=True)),
    ("reduce_xor(h, axis = (0, 1))", "u64", np.bitwise_xor.reduce(H.ravel()).reshape(1, 1)), ("reduce_and(l | 5, axis = 1)", "i64", np.bitwise_and.reduce(L | 5, 1, keepdims=True)),
    ("dot(l, l.T)", "i64", L @ L.T), ("dot(h, h.T)", "u64", H @ H.T), ('einsum("ab,ab->b", l, k)', "i64", (L * K).sum(0)), ("conv(p, w)", "i64", None),
    ("dot(f, f.T)", "f64", F @ F.T), ("reduce_sum(f, axis = 1)", "f64", F.sum(1, keepdims=True)), ("cumsum(f, axis = 0)", "f64", np.cumsum(F, 0))]


def wide_conv(x, w):
    out = np.zeros((x.shape[0], x.shape[1] - 2, x.shape[2] - 2, w.shape[3]), np.int64)
    for r in range(3):
        for c in range(3):
            out += x[:, r:r + out.shape[1], c:c + out.shape[2]] @ w[r, c]
    return out


GROUPS["wide_folds"] = [(e, t, wide_conv(C6, W6) if v is None else v) for e, t, v in GROUPS["wide_folds"]]
F_UP, F_IN = np.abs(F) + 1, np.clip(F / 4, -0.99, 0.99)
F_ARGUMENTS = {"x": ("f", F), "abs(x) + 1": ("abs(f) + 1", F_UP), "clamp(x / 4, -0.99, 0.99)": ("clamp(f / 4, -0.99, 0.99)", F_IN), "x, y": ("f, e", (F, E)),
               "abs(x) + 1, y": ("abs(f) + 1, clamp(e, -9, 9)", (F_UP, np.clip(E, -9, 9)))}
GROUPS["wide_floats"] = [(f"{name}({F_ARGUMENTS[a][0]})", "f64", f(*(v if isinstance(v, tuple) else (v,)))) for name, (a, f) in FUNCTIONS.items() if name != "erf_inv"
                         for v in (F_ARGUMENTS[a][1],)] + [
    ("e + f", "f64", E + F), ("e * e", "f64", E * E), ("e / f", "f64", E / F), ("f % 0.3", "f64", np.fmod(F, 0.3)), ("mod(f, 0.3)", "f64", np.mod(F, 0.3)), ("floordiv(f, 0.3)", "f64", np.floor_divide(F, 0.3)),
    ("sqrt(abs(e))", "f64", np.sqrt(abs(E))), ("floor(f * 4)", "f64", np.floor(F * 4)), ("round(f * 4)", "f64", np.rint(F * 4)), ("trunc(e)", "f64", np.trunc(E)),
    ("nextafter(f, inf)", "f64", np.nextafter(F, np.inf)), ("copysign(e, f)", "f64", np.copysign(E, F)), ("signbit(e)", "bool", np.signbit(E)),
    ("max(e, f)", "f64", np.maximum(E, F)), ("cast(e, f32)", "f32", E.astype(np.float32)), ("cast(e, i64)", "i64", np.array([[min(max(int(v), -MOST - 1), MOST) for v in r] for r in E])),
    ("cast(abs(e), u64)", "u64", np.array([[min(int(abs(v)), 2 * MOST + 1) for v in r] for r in E], dtype=np.uint64)), ("isfinite(e * e)", "bool", np.isfinite(E * E))]
for _name, _arrays in (("wide_integers", {"l": L, "k": K, "h": H, "e": E}), ("wide_moves", {"l": L, "k": K, "h": H, "e": E, "f": F}),
                       ("wide_folds", {"l": L, "k": K, "h": H, "f": F, "p": C6, "w": W6}), ("wide_floats", {"e": E, "f": F})):
    EXTRA[_name] = _arrays


# ---- random numbers


def threefry(key, high, low):
    x, k = [high.astype(np.uint32), low.astype(np.uint32)], [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0] ^ key[1] ^ 0x1BD11BDA)]
    x = [x[0] + k[0], x[1] + k[1]]
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x[0] = x[0] + x[1]
            x[1] = x[0] ^ (x[1] << np.uint32(turn) | x[1] >> np.uint32(32 - turn))
        x = [x[0] + k[(group + 1) % 3], x[1] + k[(group + 2) % 3] + np.uint32(group + 1)]
    return x


def philox(key, *counter):
    x, k = [c.astype(np.uint64) for c in counter], [np.uint64(key[0]), np.uint64(key[1])]
    m = np.uint64(0xFFFFFFFF)
    for turn in range(10):
        if turn:
            k = [(k[0] + np.uint64(0x9E3779B9)) & m, (k[1] + np.uint64(0xBB67AE85)) & m]
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(b >> np.uint64(32)) ^ x[1] ^ k[0], b & m, (a >> np.uint64(32)) ^ x[3] ^ k[1], a & m]
    return [c.astype(np.uint32) for c in x]


def counts(shape, at=None, total=None):
    at, total = at or [0] * len(shape), total or shape
    index = np.zeros(shape, np.uint64)
    for axis, n in enumerate(shape):
        line = np.arange(n, dtype=np.uint64).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        index = index * np.uint64(total[axis]) + line + np.uint64(at[axis])
    return (index >> np.uint64(32)).astype(np.uint32), index.astype(np.uint32)


def bits(key, shape, at=None, total=None):
    x = threefry(key, *counts(shape, at, total))
    return x[0] ^ x[1]


def philox_bits(key, shape):
    high, low = counts(shape)
    x = philox(key, high, low, high * 0, low * 0)
    return x[0] ^ x[1] ^ x[2] ^ x[3]


def uniform(key, shape):
    return (bits(key, shape) >> np.uint32(9) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)


def words(*x):
    return np.stack([np.uint32(w) for w in x], -1)


def normal(key, shape):
    return np.sqrt(2) * erf_inv(np.maximum(-0.99999994, uniform(key, shape) * np.float32(2) - np.float32(0.99999994)).astype(np.float64))


KEY, NONE = (0, 42), np.zeros((), np.uint32)
PKEY = philox((0, 0), NONE, NONE + np.uint32(42), NONE, NONE)[:2]
SPLIT = words(*threefry(KEY, *counts((3,))))
TEXT = "random_key(42)"
PTEXT = 'random_key(42, impl = "philox4x32")'
RANDOM = [
        (TEXT, "u32", words(0, 42)), (f"random_fold_in({TEXT}, 77)", "u32", words(*threefry(KEY, NONE, NONE + np.uint32(77)))), (f"random_split({TEXT}, 3)", "u32", SPLIT),
        (f"random_bits({TEXT}, [3, 5])", "u32", bits(KEY, (3, 5))), (f"random_bits({TEXT}, [7], u8)", "u8", bits(KEY, (7,)).astype(np.uint8)),
        (f"random_bits(random_split({TEXT}, 3)[1], [9], dtype = u16)", "u16", bits(SPLIT[1], (9,)).astype(np.uint16)),
        (f"random_bits({TEXT}, [2, 300], at = (4, 100), total = [70000, 70000])", "u32", bits(KEY, (2, 300), (4, 100), (70000, 70000))),
        (f"random_bits({TEXT}, [4, 8], at = (65534, 69990), total = [70000, 70000])", "u32", bits(KEY, (4, 8), (65534, 69990), (70000, 70000))),
        (f"random_bits({TEXT}, [4, 3, 8], at = (j[0, 0], 1, 2), total = [64, 4, 100])", "u32", bits(KEY, (4, 3, 8), (int(J[0, 0]), 1, 2), (64, 4, 100))),
        (f"random_uniform({TEXT}, [3, 5])", "f32", uniform(KEY, (3, 5))), (f"random_normal({TEXT}, [40, 50])", "f32", normal(KEY, (40, 50))),
        (f"random_uniform({TEXT}, [8], dtype = bf16)", "bf16", dtypes.decode("bf16", (bits(KEY, (8,)) & np.uint32(255)) >> np.uint32(1) | np.uint32(0x3F80)) - 1),
        (f"random_uniform({TEXT}, [6], minval = -2.5, maxval = 7)", "f32", uniform(KEY, (6,)) * np.float32(9.5) - np.float32(2.5)),
        (f"random_bernoulli({TEXT}, [20], 0.3)", "bool", uniform(KEY, (20,)) < np.float32(0.3)),
        (PTEXT, "u32", words(*PKEY)), (f'random_bits({PTEXT}, [3, 5], impl = "philox4x32")', "u32", philox_bits(PKEY, (3, 5))),
        (f'random_fold_in({PTEXT}, 77, impl = "philox4x32")', "u32", words(*philox(PKEY, NONE, NONE, NONE, NONE + np.uint32(77))[:2]))]
GROUPS["random"] = RANDOM

# Values of jax.random 0.10 with key(42), with which the implementation above must agree.
GOLDEN = [
    (bits(KEY, (3, 5)).ravel()[:5], [0x7D1C13A2, 0xAE0730D9, 0x9DC3F9F9, 0x8F9EC1D7, 0x735D7315]), (bits(KEY, (3, 5)).ravel()[-1:], [0x7A40FDDA]),
    (SPLIT.ravel(), [0x6D3E048F, 0x1022172D, 0x3D7B32D, 0xADD083F4, 0x92FB20EA, 0xF38D913]),
    (words(*threefry(KEY, NONE, NONE + np.uint32(77))), [0xC74F69BD, 0xDCC17687]), (philox_bits(PKEY, (4,)), [0x51E13205, 0xC029E4CF, 0x8394ADFF, 0x8BD4894F]),
    (words(*PKEY), [0xDD97B048, 0x1FCD9669]), (uniform(KEY, (4,)), [0.48870956897735596, 0.6797971725463867, 0.6162714958190918, 0.5610160827636719]),
    (normal(KEY, (4,)).astype(np.float32).round(5), np.float32([-0.0283, 0.46713, 0.2957, 0.15355])),
]


# ---- running


def text_of(name, rows):
    inputs = {**{k: v for k, v in INPUTS.items() if name != "random" or k == "j"}, **EXTRA.get(name, {})}
    declare = lambda n, t, shape: "%s: %s[%s]" % (n, t, ", ".join(map(str, shape)))
    head = ", ".join(declare("in_" + k, NAMES[v.dtype.name], v.shape) for k, v in inputs.items())
    tail = ", ".join(declare("o%d" % k, t, np.shape(v)) for k, (_, t, v) in enumerate(rows))
    body = "".join("  let %s = in_%s[...];\n" % (k, k) for k in inputs)
    body += "".join("  o%d[...] = %s;\n" % (k, e) for k, (e, _, _) in enumerate(rows))
    return inputs, "// test:%s\nkernel %s(%s) -> (%s) {\n%s}\n" % (" in_j=randint:0:8:1", name, head, tail, body)


def agrees(dtype, got, want):
    """Whether results are equal, or, for functions and sums of f32, within a few units in the last place."""
    want = np.asarray(want)
    if got.shape != want.shape:
        return False
    if dtype not in dtypes.FLOATS:
        return (got == want).all()
    slack = {"f32": 2e-6, "f64": 3e-14, "bf16": 2**-7, "f16": 2**-10, "f8e4m3fn": 0}[dtype]
    with np.errstate(invalid="ignore"):
        close = np.abs(got - want) <= slack * np.maximum(np.abs(want), 1e-3 if slack else 0)
    return (close | (got == want) | (np.isnan(got) & np.isnan(want))).all()


def run(name, rows):
    folder = os.path.join(WORK, name)
    os.makedirs(folder)
    path = os.path.join(folder, name + ".pk")
    inputs, text = text_of(name, rows)
    with open(path, "w") as file:
        file.write(text)
    command = [dtypes.PKC, "run", path]
    for key, value in inputs.items():
        np.save(os.path.join(folder, key), value)
        command.append("in_%s=%s/%s.npy" % (key, folder, key))
    for k in range(len(rows)):
        command += ["-o", "o%d=%s/o%d.npy" % (k, folder, k)]
    failures = []
    for extra in ([], ["--target", "generic"]):
        done = subprocess.run(command + extra, capture_output=True, text=True)
        if done.returncode:
            return ["%s: %s" % (" ".join(command + extra), (done.stderr or done.stdout).strip()[:2000])]
        for k, (expression, dtype, want) in enumerate(rows):
            got = dtypes.load("%s/o%d.npy" % (folder, k), dtype)
            if not agrees(dtype, got, want):
                want = np.asarray(want)
                at = tuple(np.argwhere(got != want)[0]) if got.shape == want.shape else ()
                failures.append("%s %s: %s: %s%s, expected %s" % (name, extra, expression, at, got[at] if at else got.shape, want[at] if at else want.shape))
    done = subprocess.run([dtypes.PKC, "test", path], capture_output=True, text=True)
    if done.returncode:
        failures.append((done.stdout + done.stderr)[:2000])
    return failures


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    passed = failed = 0
    for ours, theirs in GOLDEN:
        good = (np.asarray(ours) == np.asarray(theirs)).all()
        passed, failed = passed + good, failed + (not good)
        if not good:
            print("FAIL random numbers: %s, jax.random gives %s; reproduce: tests/operations.py" % (ours, theirs))
    for name, rows in GROUPS.items():
        if wanted in name:
            failures = run(name, rows)
            passed, failed = passed + len(rows) - min(len(failures), len(rows)), failed + len(failures)
            for text in failures:
                print(f"FAIL {one_line(text)}; reproduce: tests/operations.py '{name}'")
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
