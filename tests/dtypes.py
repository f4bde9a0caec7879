#!/usr/bin/env python3
"""Every dtype in every place, against NumPy: casts between all pairs, elementwise operations, reductions, products, moves.

The table of operations defines each operation a second time, on exact values; a table of the values of all codes rounds the results to
the dtype. For narrow dtypes all pairs of codes are tried. Each kernel also runs by `pkc test`, which compares the interpreter and the
portable build with the native one.

    tests/dtypes.py [TEXT]    only kernels whose name contains TEXT

Where ml_dtypes is installed, the tables are compared with it first. Ends with "N passed, N failed".
"""
import math
import os
import subprocess
import sys

import numpy as np

from sampling import sampled

from suite import PKC

WORK = os.path.join(os.environ.get("BUILD", "build"), "dtypes", str(os.getpid()))
INTEGERS = {"i2": (2, True), "u2": (2, False), "i4": (4, True), "u4": (4, False), "i8": (8, True), "u8": (8, False), "i16": (16, True), "u16": (16, False),
            "i32": (32, True), "u32": (32, False), "i64": (64, True), "u64": (64, False)}
# significant bits, least exponent, has infinities
FLOATS = {"f8e4m3fn": (4, -6, False), "f8e5m2": (3, -14, True), "f8e4m3b11fnuz": (4, -10, False), "f8e4m3fnuz": (4, -7, False),
          "f8e5m2fnuz": (3, -15, False), "f8e8m0fnu": (1, -127, False), "f4e2m1fn": (2, 0, False), "bf16": (8, -126, True), "f16": (11, -14, True),
          "f32": (24, -126, True), "f64": (53, -1022, True)}
WIDE = ("i64", "u64", "f64")  # integers of 64 bits are arrays of Python integers
FINITE = "f4e2m1fn"  # no NaN: a NaN becomes -0; numbers that are too large become the greatest one
SCALE = "f8e8m0fnu"  # no sign, no zero, no arithmetic
UNSIGNED = {2: np.uint8, 4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}  # number of codes
ALL = list(INTEGERS) + list(FLOATS) + ["bool"]


def bits_of(dtype):
    return 1 if dtype == "bool" else INTEGERS[dtype][0] if dtype in INTEGERS else {"f4": 4, "f8": 8, "bf": 16, "f1": 16, "f3": 32, "f6": 64}[dtype[:2]]


ANYTHING = 123456789  # expected values: the language does not define the bits of a NaN


# ---- the values of codes


def without_minus_zero(dtype):
    return dtype.endswith("fnuz")


def decode_float(dtype, codes):
    digits, least, infinite = FLOATS[dtype]
    if dtype == SCALE:
        return np.where(codes == 255, np.nan, 2.0 ** (np.minimum(codes.astype(np.int64), 254) - 127))
    codes, width = codes.astype(np.int64), bits_of(dtype)
    sign = np.where(codes >> (width - 1) & 1, -1.0, 1.0)
    rest = codes & ((1 << (width - 1)) - 1)
    exponent, fraction = rest >> (digits - 1), rest & ((1 << (digits - 1)) - 1)
    top = (1 << (width - digits)) - 1
    value = np.where(exponent > 0, fraction + (1 << (digits - 1)), fraction) * 2.0 ** (np.maximum(exponent, 1) - 1 + least - digits + 1.0)
    if infinite:
        value = np.where(exponent == top, np.where(fraction, np.nan, np.inf), value)
    elif without_minus_zero(dtype):
        value = np.where(codes == 1 << (width - 1), np.nan, value)
    elif dtype != FINITE:
        value = np.where(rest == (1 << (width - 1)) - 1, np.nan, value)
    return sign * value


TABLE = {t: decode_float(t, np.arange(1 << (bits_of(t) - (t != SCALE)))) for t in FLOATS if t not in ("f32", "f64")}


def decode(dtype, codes):
    if dtype == "f32":
        return codes.view(np.float32).astype(np.float64)
    if dtype == "f64":
        return codes.view(np.float64)
    if dtype in FLOATS:
        return decode_float(dtype, codes)
    if dtype == "bool":
        return codes.astype(bool)
    bits, signed = INTEGERS[dtype]
    if bits == 64:
        return wrap(dtype, codes.astype(object))
    value = codes.astype(np.int64) & ((1 << bits) - 1)
    return np.where(value >> (bits - 1), value - (1 << bits), value) if signed else value


def round_to(dtype, value):
    """float64 to the nearest value of a float dtype, ties to even codes."""
    value = np.asarray(value, dtype=np.float64)
    if dtype == "f64":
        return value
    if dtype == "f32":
        with np.errstate(over="ignore"):
            return value.astype(np.float32).astype(np.float64)
    table = TABLE[dtype]
    finite = table[np.isfinite(table)]
    if dtype == SCALE:
        exponent = np.floor(np.log2(np.where((value > 0) & (value < np.inf), value, 1.0)))
        low = np.maximum(2.0 ** exponent, finite[0])
        nearest = np.where(value >= 1.5 * low, 2 * low, low)
        return np.where((value > 0) & (value < np.inf) & (nearest <= finite[-1]), nearest, np.nan)
    step = finite[-1] - finite[-2]
    nodes = np.append(finite, finite[-1] + step)  # the value after the greatest one, if the dtype had it
    size = np.where(np.isnan(value), 0, np.minimum(np.abs(value), nodes[-1]))
    above = np.clip(np.searchsorted(nodes, size), 1, len(nodes) - 1)
    low, high = nodes[above - 1], nodes[above]
    up = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    nearest = np.where(up, high, low)
    overflow = np.inf if FLOATS[dtype][2] else finite[-1] if dtype == FINITE else np.nan
    nearest = np.where(nearest > finite[-1], overflow, nearest)
    signed = np.where(np.isnan(value), -0.0 if dtype == FINITE else np.nan, np.copysign(nearest, value))
    return np.where(signed == 0, 0.0, signed) if without_minus_zero(dtype) else signed


def wrap(dtype, value):
    bits, signed = INTEGERS[dtype]
    if bits == 64:
        low = lambda v: ((v + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63) if signed else v & ((1 << 64) - 1)
        return low(value if isinstance(value, int) else np.asarray(value).astype(object))
    value = np.asarray(value).astype(object) if np.asarray(value).dtype == object else np.asarray(value, dtype=np.int64)
    value = value & ((1 << bits) - 1)
    value = np.where(value >= 1 << (bits - 1), value - (1 << bits), value) if signed else value
    return value.astype(np.int64)


def to_odd(value):
    """An integer as a float of 53 bits, rounded to odd: rounding it to fewer bits gives the same as rounding once."""
    dropped = max(abs(value).bit_length() - 53, 0)
    kept = abs(value) >> dropped
    return math.copysign(math.ldexp(kept | (kept << dropped != abs(value)), dropped), value)


def cast(value, source, target):
    if target == "bool":
        return (value != 0).astype(bool)
    if target == "f64":
        return value.astype(np.float64)
    if target in FLOATS and source in ("i64", "u64"):
        return round_to(target, np.vectorize(to_odd, otypes=[np.float64])(value))
    if target in FLOATS:
        return round_to(target, value.astype(np.float64))
    if source not in FLOATS:
        return wrap(target, value if source in WIDE else value.astype(np.int64))
    bits, signed = INTEGERS[target]
    least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    value = np.trunc(np.where(np.isnan(value), 0, value))
    if target in WIDE:
        finite = np.clip(value, -2.0 ** 70, 2.0 ** 70)
        return np.clip(np.vectorize(int, otypes=[object])(finite), least, greatest)
    return np.clip(value, least, greatest).astype(np.int64)


# ---- files


BYTES = [t for t in ALL if t != "bool" and (bits_of(t) < 8 or t.startswith("f8"))]  # NumPy alone sees raw bytes
STORED = {**{t: np.uint8 for t in BYTES}, "bool": np.bool_, "bf16": np.uint16,
          "f16": np.float16, "f32": np.float32, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
          "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f64": np.float64}
OPAQUE = {**{t: "<V1" for t in BYTES}, "f8e5m2": "<f1", "bf16": "<V2"}


def save(path, dtype, codes):
    array = np.ascontiguousarray(codes).view(STORED[dtype])
    with open(path, "wb") as file:
        if dtype in OPAQUE:  # as np.save writes the arrays of ml_dtypes
            np.lib.format.write_array_header_1_0(file, {"descr": OPAQUE[dtype], "fortran_order": False, "shape": array.shape})
            file.write(array.tobytes())
        else:
            np.lib.format.write_array(file, array)


def load(path, dtype):
    array = np.load(path)
    if dtype in OPAQUE:
        assert array.dtype == np.dtype("V%d" % STORED[dtype]().itemsize), (path, array.dtype)
        codes = array.view(STORED[dtype])
        assert (codes < 1 << bits_of(dtype)).all(), path
        return decode(dtype, codes)
    assert array.dtype == STORED[dtype], (path, array.dtype)
    if dtype in FLOATS or dtype == "bool":
        return array.astype(np.float64) if dtype in FLOATS else array
    return array.astype(object if dtype in WIDE else np.int64)


# ---- operations: name, dtypes, text, result as a function of exact values (dtype, x, y)


def integer_power(t, x, y):
    modulus = 1 << bits_of(t)
    power = lambda a, b: pow(a, b, modulus) if b >= 0 else 1 if a == 1 else (-1 if b % 2 else 1) if a == -1 else 0
    return np.array([power(a, b) for a, b in zip(x.ravel().tolist(), y.ravel().tolist())], dtype=object).reshape(x.shape)


def shifted(t, x, y, signed_fill):
    bits = bits_of(t)
    value = x if signed_fill else x & ((1 << bits) - 1)
    return np.where((y >= 0) & (y < bits), value >> np.clip(y, 0, 63 if bits == 64 else 62), np.where(signed_fill & (x < 0), -1, 0))


def divided(x, y):
    safe = np.where(y == 0, 1, y)
    quotient = np.abs(x) // np.abs(safe) * np.sign(x) * np.sign(safe)
    return np.where(y == 0, -1, quotient)


def best(x, y, pick):
    """A NaN is the result if there is one; a positive zero is greater than a negative one."""
    chosen = pick(x, y)
    zero = (x == 0) & (y == 0)
    sign = (np.signbit(x) & np.signbit(y)) if pick is np.maximum else (np.signbit(x) | np.signbit(y))
    return np.where(zero, np.where(sign, -0.0, 0.0), chosen)


def sum_to_odd(a, b):
    """a + b, rounded to odd: rounding it once more gives the same as rounding the exact sum once."""
    s = a + b
    part = s - a
    lost = (a - (s - part)) + (b - part)
    even = (s.view(np.int64) & 1) == 0
    moved = np.nextafter(s, np.where(lost > 0, np.inf, -np.inf))
    return np.where(np.isfinite(s) & (lost != 0) & even, moved, s)


def following(t, x, y):
    """The neighbour of x in the direction of y, from the list of all values."""
    if t in ("f32", "f64"):
        return np.nextafter(x.astype(np.float32), y.astype(np.float32)).astype(np.float64) if t == "f32" else np.nextafter(x, y)
    sizes = TABLE[t][~np.isnan(TABLE[t])]
    line = np.concatenate([-sizes[:0:-1], sizes])
    at = np.clip(np.searchsorted(line, np.where(np.isnan(x), 0, x)) + np.sign(np.where(np.isnan(x + y), 0, y - x) if not FLOATS[t][2] else
                 np.where(np.isnan(x) | np.isnan(y), 0, (y > x) * 1.0 - (y < x))).astype(np.int64), 0, len(line) - 1)
    moved = line[at]
    moved = np.where((moved == 0) & (x < 0) & (not without_minus_zero(t)), -0.0, moved)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x == y, y, moved))


BOTH = [
    ("add", "x + y", lambda t, x, y: x + y), ("sub", "x - y", lambda t, x, y: x - y), ("mul", "x * y", lambda t, x, y: x * y),
    ("neg", "-x", lambda t, x, y: -x), ("abs", "abs(x)", lambda t, x, y: np.abs(x)),
    ("pick", "where(x > y, x, y - 1)", lambda t, x, y: np.where(x > y, x, round_to(t, y - 1.0) if t in FLOATS else y - 1)),
]
COMPARES = [("%s" % n, "x %s y" % o, f) for n, o, f in (
    ("eq", "==", np.equal), ("ne", "!=", np.not_equal), ("lt", "<", np.less), ("le", "<=", np.less_equal), ("gt", ">", np.greater),
    ("ge", ">=", np.greater_equal))]
FLOAT_OPS = BOTH + [
    ("div", "x / y", lambda t, x, y: x / y), ("rem", "x % y", lambda t, x, y: np.fmod(x, y)),
    ("sqrt", "sqrt(x)", lambda t, x, y: np.sqrt(x)), ("floor", "floor(x)", lambda t, x, y: np.floor(x)),
    ("rint", "round(x)", lambda t, x, y: np.rint(x)), ("most", "max(x, y)", lambda t, x, y: best(x, y, np.maximum)),
    ("least", "min(x, y)", lambda t, x, y: best(x, y, np.minimum)),
    ("following", "nextafter(x, y)", lambda t, x, y: following(t, x, y)), ("third", "fma(x, y, x)", lambda t, x, y: sum_to_odd(x * y, x)),
]
SCALE_OPS = [("pick", "where(x > y, x, y)", lambda t, x, y: np.where(x > y, x, y))] + [op for op in FLOAT_OPS if op[0] in ("most", "least")]
INTEGER_OPS = BOTH + [
    ("div", "x / y", lambda t, x, y: divided(x, y)),
    ("rem", "x % y", lambda t, x, y: np.where(y == 0, x, x - divided(x, y) * y)),
    ("fdiv", "floordiv(x, y)", lambda t, x, y: np.where(y == 0, -1, x // np.where(y == 0, 1, y))),
    ("mod", "mod(x, y)", lambda t, x, y: np.where(y == 0, x, x % np.where(y == 0, 1, y))),
    ("sign", "sign(x)", lambda t, x, y: np.sign(x)), ("most", "max(x, y)", lambda t, x, y: np.maximum(x, y)),
    ("least", "min(x, y)", lambda t, x, y: np.minimum(x, y)),
    ("conj", "x & y", lambda t, x, y: x & y), ("disj", "x | y", lambda t, x, y: x | y), ("xor", "x ^ y", lambda t, x, y: x ^ y),
    ("inv", "~x", lambda t, x, y: ~x), ("power", "pow(x, y)", integer_power),
    ("shl", "x << y", lambda t, x, y: np.where((y >= 0) & (y < bits_of(t)), x << np.clip(y, 0, max(31, bits_of(t) - 1)), 0)),
    ("shr", "x >> y", lambda t, x, y: shifted(t, x, y, True)), ("ushr", "x >>> y", lambda t, x, y: shifted(t, x, y, False)),
    ("ones", "population_count(x)", lambda t, x, y: np.vectorize(lambda v: bin(int(v) & ((1 << bits_of(t)) - 1)).count("1"))(x)),
    ("zeros", "clz(x)", lambda t, x, y: np.vectorize(lambda v: bits_of(t) - (int(v) & ((1 << bits_of(t)) - 1)).bit_length())(x)),
]


# ---- running


class Kernel:
    """Inputs (name, dtype, codes); outputs (name, dtype, shape text, expression, expected values)."""

    def __init__(self, name, prelude=""):
        self.name, self.inputs, self.outputs, self.prelude, self.body = name, [], [], prelude, ""

    def text(self, sizes):
        inputs = ", ".join("%s: %s[%s]" % (n, t, "M, N") for n, t, _ in self.inputs)
        outputs = ", ".join("%s: %s%s" % (n, t, shape) for n, t, shape, _, _ in self.outputs)
        stores = "".join("  o_%s[...] = %s;\n" % (n[2:], e) for n, _, _, e, _ in self.outputs)
        loads = "".join("  let %s = in_%s[...];\n" % (n[3:], n[3:]) for n, _, _ in self.inputs)
        return "// test: %s\nkernel %s(%s) -> (%s) {\n%s%s%s%s}\n" % (sizes, self.name, inputs, outputs, self.prelude, loads, self.body, stores)

    def add(self, name, dtype, shape, expression, expected):
        self.outputs.append(("o_" + name, dtype, shape, expression, expected))


def same(dtype, got, want):
    if got.shape != want.shape:
        return False
    if dtype not in FLOATS:
        return ((got == want) | (want == ANYTHING)).all()
    want = np.where(want == ANYTHING, got, want)
    return ((got == want) & (np.signbit(got) == np.signbit(want)) | (np.isnan(got) & np.isnan(want))).all()


def run(kernel):
    folder = os.path.join(WORK, kernel.name)
    os.makedirs(folder)
    path = os.path.join(folder, kernel.name + ".pk")
    rows, cols = kernel.inputs[0][2].shape
    with open(path, "w") as file:
        file.write(kernel.text("M=%d N=%d" % (min(rows, 7), min(cols, 37))))
    command = [PKC, "run", path]
    for name, dtype, codes in kernel.inputs:
        save(os.path.join(folder, name + ".npy"), dtype, codes)
        command.append("%s=%s" % (name, os.path.join(folder, name + ".npy")))
    for name, *_ in kernel.outputs:
        command += ["-o", "%s=%s" % (name, os.path.join(folder, name + ".npy"))]
    failures = []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return ["%s: %s" % (" ".join(command), (done.stderr or done.stdout).strip()[:2000])]
    for name, dtype, _, expression, want in kernel.outputs:
        got = load(os.path.join(folder, name + ".npy"), dtype)
        if same(dtype, got, want):
            continue
        at = tuple(np.argwhere(~((got == want) | (got != got) & (want != want)))[:1].ravel()) if got.shape == want.shape else ()
        where = "" if not at else " at %s: got %s, expected %s" % (at, got[at], want[at])
        failures.append("%s: %s = %s%s; reproduce: %s" % (kernel.name, name, expression, where, " ".join(command)))
    done = subprocess.run([PKC, "test", path], capture_output=True, text=True)
    if done.returncode:
        failures.append((done.stdout + done.stderr)[:2000])
    return failures


# ---- the kernels


def codes_of(dtype, shape, seed):
    """All codes if there are few, else random ones: small values, the whole range, special values."""
    rng, bits = np.random.default_rng(seed), bits_of(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.uint8)
    if dtype == "f32":
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 34, shape)
        values.ravel()[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -0.5]
        return values.astype(np.float32).view(np.uint32)
    if dtype == "f64":
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-70, 70, shape)
        values.ravel()[:12] = [0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308, -0.5, 2.0 ** 63, -(2.0 ** 63), 2.0 ** 64, 1e-310]
        return values.view(np.uint64)
    if bits == 64:
        codes = rng.integers(0, 1 << 64, shape, dtype=np.uint64) >> rng.integers(0, 60, shape, dtype=np.uint64)
        codes.ravel()[:6] = np.array([0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 53) + 1], np.uint64)[:codes.size]
        return codes
    return rng.integers(0, 1 << bits, shape).astype(UNSIGNED[bits])


def all_pairs(dtype):
    bits = bits_of(dtype)
    if bits > 8:
        x, y = codes_of(dtype, (97, 131), 1), codes_of(dtype, (97, 131), 2)
        y[::2] = (y[::2] % 19).astype(y.dtype) if dtype in INTEGERS else y[::2]
        return x, y
    x, y = np.meshgrid(np.arange(1 << bits, dtype=np.uint8), np.arange(1 << bits, dtype=np.uint8), indexing="ij")
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def casts(t):
    k = Kernel("casts_" + t, "  grid (i in cdiv(M, 16));\n  block in_x: [16, N] at (i, 0);\n")
    codes = all_pairs(t)[0] if t != "bool" else codes_of(t, (33, 50), 3)
    k.inputs.append(("in_x", t, codes))
    x = decode(t, codes)
    for u in ALL:
        k.add(u, u, "[M, N]", "cast(x, %s)" % u, cast(x, t, u))
        if u != t and bits_of(u) == bits_of(t) and "bool" not in (t, u):
            k.add("bits_" + u, u, "[M, N]", "bitcast(x, %s)" % u, np.where(x != x, ANYTHING, decode(u, codes)))
    k.prelude += "  block %s: [16, N] at (i, 0);\n" % ", ".join(n for n, *_ in k.outputs)
    return k


def elementwise(t):
    k = Kernel("each_" + t, "  grid (i in cdiv(M, 16));\n  block in_x, in_y: [16, N] at (i, 0);\n")
    a, b = all_pairs(t)
    k.inputs += [("in_x", t, a), ("in_y", t, b)]
    x, y = decode(t, a), decode(t, b)
    for name, text, meaning in SCALE_OPS if t == SCALE else FLOAT_OPS if t in FLOATS else INTEGER_OPS:
        if name == "third" and t in ("f32", "f64"):
            continue  # its products are not exact in float64; tests/unit tests them
        with np.errstate(all="ignore"):
            value = meaning(t, x, y)
        k.add(name, t, "[M, N]", text, round_to(t, value) if t in FLOATS else wrap(t, value))
    for name, text, meaning in COMPARES:
        k.add(name, "bool", "[M, N]", text, meaning(x, y))
    k.prelude += "  block %s: [16, N] at (i, 0);\n" % ", ".join(n for n, *_ in k.outputs)
    return k


def logic():
    k = Kernel("each_bool")
    a, b = codes_of("bool", (9, 45), 1), codes_of("bool", (9, 45), 2)
    k.inputs += [("in_x", "bool", a), ("in_y", "bool", b)]
    x, y = decode("bool", a), decode("bool", b)
    for name, text, value in (("conj", "x & y", x & y), ("disj", "x | y", x | y), ("xor", "x ^ y", x ^ y), ("inv", "!x", ~x),
                              ("eq", "x == y", x == y), ("pick", "where(x, y, !y)", np.where(x, y, ~y))):
        k.add(name, "bool", "[M, N]", text, value)
    k.add("all", "bool", "[M, 1]", "all(x, axis = 1)", x.all(1, keepdims=True))
    k.add("any", "bool", "[1, N]", "any(x, axis = 0)", x.any(0, keepdims=True))
    k.add("parity", "bool", "[M, 1]", "reduce_xor(x, axis = 1)", np.logical_xor.reduce(x, axis=1, keepdims=True))
    return k


def small_codes(t, shape, seed):
    """Integers whose sums are exact in f32."""
    values = np.random.default_rng(seed).integers(-3 if t[0] != "u" else 0, 4, shape)
    if t in ("i64", "u64"):
        return values.astype(np.int64).view(np.uint64)
    if t in INTEGERS:
        return (values & ((1 << bits_of(t)) - 1)).astype(UNSIGNED[bits_of(t)])
    if t in ("f32", "f64"):
        return values.astype(np.float32).view(np.uint32) if t == "f32" else values.astype(np.float64).view(np.uint64)
    table = TABLE[t]
    if t == SCALE:
        return (values + 127).astype(np.uint8)
    found = np.searchsorted(np.where(np.isnan(table), np.inf, table), np.abs(values))
    return (found | ((values < 0) << (bits_of(t) - 1))).astype(UNSIGNED[bits_of(t)])


def along(t, m, n, seed):
    """Reductions, scans, sorts and products."""
    k = Kernel("along_%s_%d" % (t, n))
    a, b = small_codes(t, (m, n), seed), small_codes(t, (m, n), seed + 1)
    k.inputs += [("in_x", t, a), ("in_y", t, b)]
    x, y = decode(t, a), decode(t, b)
    fit = (lambda v: round_to(t, v)) if t in FLOATS else (lambda v: wrap(t, v))
    if t in FLOATS:
        lowest = -np.inf if FLOATS[t][2] else TABLE[t][0] if t == SCALE else -np.nanmax(TABLE[t])
    else:
        lowest = wrap(t, 1 << (bits_of(t) - 1)) if INTEGERS[t][1] else 0
    highest = 1 / lowest if t == SCALE else -lowest if t in FLOATS else wrap(t, (1 << (bits_of(t) - INTEGERS[t][1])) - 1)
    for axis, shape in ((0, "[1, N]"), (1, "[M, 1]")):
        tell = "(x, axis = %d)" % axis
        if t != SCALE:
            k.add("sum%d" % axis, t, shape, "reduce_sum" + tell, fit(x.sum(axis, keepdims=True)))
            k.add("prod%d" % axis, t, shape, "reduce_prod" + tell, fit(x.prod(axis, keepdims=True)))
            k.add("cumsum%d" % axis, t, "[M, N]", "cumsum" + tell, fit(x.cumsum(axis)))
            k.add("cumprod%d" % axis, t, "[M, N]", "cumprod" + tell, fit(x.cumprod(axis)))
        k.add("max%d" % axis, t, shape, "reduce_max" + tell, x.max(axis, keepdims=True, initial=lowest))
        k.add("min%d" % axis, t, shape, "reduce_min" + tell, x.min(axis, keepdims=True, initial=highest))
        if n:
            k.add("argmax%d" % axis, "i32", shape, "argmax" + tell, x.argmax(axis, keepdims=True))
            k.add("argmin%d" % axis, "i32", shape, "argmin" + tell, x.argmin(axis, keepdims=True))
        k.add("cummax%d" % axis, t, "[M, N]", "cummax" + tell, np.maximum.accumulate(x, axis))
        k.add("cummin%d" % axis, t, "[M, N]", "cummin(x, axis = %d, reverse = true)" % axis,
              np.flip(np.minimum.accumulate(np.flip(x, axis), axis), axis))
        order = np.argsort(x, axis, kind="stable")
        k.add("order%d" % axis, "i32", "[M, N]", "argsort" + tell, order)
        k.add("sort%d" % axis, t, "[M, N]", "sort" + tell, np.take_along_axis(x, order, axis))
        if t in INTEGERS:
            k.add("xor%d" % axis, t, shape, "reduce_xor" + tell, np.bitwise_xor.reduce(x, axis=axis, keepdims=True))
            k.add("and%d" % axis, t, shape, "reduce_and" + tell, wrap(t, np.bitwise_and.reduce(x, axis=axis, keepdims=True)))
            k.add("or%d" % axis, t, shape, "reduce_or" + tell, np.bitwise_or.reduce(x, axis=axis, keepdims=True))
    if t == SCALE:
        return k
    wide = t if t in WIDE else "f32" if t in FLOATS else "i32"
    exact = x @ y.T
    k.add("dot", wide, "[M, M]", "dot(x, y.T)", exact)
    k.add("left", wide, "[N, N]", "dot(x, y, contract = ((0), (0)))", x.T @ y)
    k.add("narrow", t, "[M, M]", "dot(x, y.T, out = %s)" % t, fit(exact))
    k.add("outer", wide, "[M, M]", 'einsum("ab,cb->ca", x, y)', exact.T)
    return k


def sums_of(t, other):
    """The dtype of the sums of products of two dtypes, or None if they cannot be multiplied."""
    if t in FLOATS or other in FLOATS:
        sums = "f64" if "f64" in (t, other) else "f32"
        digits = [FLOATS[d][0] if d in FLOATS else bits_of(d) for d in (t, other)]
        return sums if max(digits) <= FLOATS[sums][0] else None
    return None if t in WIDE or other in WIDE else "i32"


def mixes(t):
    return [other for other in ALL if other not in (t, SCALE, "bool") and sums_of(t, other)]


def mixed(t, others, m, n):
    """Products of operands of two dtypes."""
    k = Kernel("mixed_%s_%s" % (t, others[0]))
    a = small_codes(t, (m, n), 21)
    k.inputs.append(("in_x", t, a))
    x = decode(t, a)
    for i, other in enumerate(others):
        b = small_codes(other, (m, n), 22 + i)
        y, wide = decode(other, b), sums_of(t, other)
        k.inputs.append(("in_" + other, other, b))
        k.add("by_" + other, wide, "[M, M]", "dot(x, %s.T)" % other, x @ y.T)
        forms = [("[N, N]", "dot(%s, x, contract = ((0), (0)))" % other, y.T @ x),
                 ("[M, M]", 'einsum("ab,cb->ca", x, %s)' % other, (x @ y.T).T),
                 ("[M]", 'einsum("ab,ab->a", x, %s)' % other, (x * y).sum(1)),
                 ("[M, N]", "dot(x, %s, contract = ((), ()), batch = ((0, 1), (0, 1)))" % other, x * y + 0)]  # sums start from 0
        shape, text, want = forms[i % len(forms)]
        k.add("with_" + other, wide, shape, text, want)
    return k


def moves(t):
    """Blocks with padding, masks, scratch, and operations that only move elements."""
    pad = {"bool": "true"}.get(t, "1")
    k = Kernel("moves_" + t, "  static T: dtype = %s;\n  grid (i in cdiv(M, 8), j in cdiv(N, 16));\n" % t +
               "  block in_x: [8, 16] at (i, j) pad %s;\n  scratch s: vmem T[8, 16];\n" % pad)
    codes = codes_of(t, (21, 37), 7)
    k.inputs.append(("in_x", t, codes))
    x = decode(t, codes)
    one = True if t == "bool" else 1
    whole = np.full((24, 48), one, dtype=x.dtype)
    whole[:21, :37] = x
    blocks = whole.reshape(3, 8, 3, 16).transpose(0, 2, 1, 3)

    def put(name, text, change):
        done = np.stack([[change(b) for b in row] for row in blocks]).transpose(0, 2, 1, 3).reshape(24, 48)
        k.add(name, t, "[M, N]", text, done[:21, :37])

    put("copy", "x", lambda b: b)
    put("turned", "transpose(reshape(x, [16, 8]))", lambda b: b.reshape(16, 8).T)
    put("rolled", "roll(x, 3, axis = 1)", lambda b: np.roll(b, 3, 1))
    put("rev", "rev(x, axis = 0)", lambda b: b[::-1])
    put("joined", "concatenate(x[:, 5:], x[:, :5], axis = 1)", lambda b: np.concatenate([b[:, 5:], b[:, :5]], 1))
    put("padded", "pad(x[1:, 2:], ((1, 0), (0, 2)), value = %s)" % pad, lambda b: np.pad(b[1:, 2:], ((1, 0), (0, 2)), constant_values=one))
    put("again", "repeat(x[:, ::2], 2, axis = 1)", lambda b: np.repeat(b[:, ::2], 2, 1))
    put("taken", "take_along_axis(x, (iota([8, 16], axis = 1) * 5) & 15, axis = 1)", lambda b: b[:, np.arange(16) * 5 % 16])
    put("masked", "load(in_x[...], mask = iota([8, 16], axis = 1) < 5, other = %s)" % pad, lambda b: np.where(np.arange(16) < 5, b, one))
    k.body = "  s[...] = x;\n  store(s[...], rev(x, axis = 1), mask = iota([8, 16], axis = 0) > 3);\n"
    put("stored", "s[...]", lambda b: np.where(np.arange(8)[:, None] > 3, b[:, ::-1], b))
    k.prelude += "  block %s: [8, 16] at (i, j);\n" % ", ".join(n for n, *_ in k.outputs)
    return k


def check_tables():
    try:
        import ml_dtypes
    except ImportError:
        print("SKIPPED dtypes, tables beside ml_dtypes: it is not installed")
        return []
    wrong = []
    for t in BYTES + ["bf16"]:
        name = {"bf16": "bfloat16"}.get(t) or t.replace("f8", "float8_").replace("f4", "float4_") if t in FLOATS else t.replace("i", "int").replace("u", "uint")
        theirs = getattr(ml_dtypes, name, None)
        if theirs is None:
            print("SKIPPED dtypes, %s beside ml_dtypes: this one has no %s" % (t, name))
            continue
        codes = np.arange(1 << bits_of(t)).astype(STORED[t])
        if not same("f32" if t in FLOATS else t, codes.view(theirs).astype(np.float64 if t in FLOATS else np.int64), decode(t, codes)):
            wrong.append("ml_dtypes decodes %s otherwise" % t)
        halves = np.arange(1 << 16).astype(np.uint16)
        values = np.concatenate([codes_of("f32", (400, 400), 5).view(np.float32).ravel(), decode("bf16", halves).astype(np.float32),
                                 decode("f16", halves).astype(np.float32), 2.0 ** np.random.default_rng(6).uniform(-150, 129, 1 << 16).astype(np.float32)])
        if t == SCALE:  # ml_dtypes rounds all subnormal numbers above the least scale up
            values = values[~((values > 2.0 ** -127) & (values < 1.5 * 2.0 ** -127))]
        if t in FLOATS and not same("f32", values.astype(theirs).astype(np.float64), round_to(t, values)):
            wrong.append("ml_dtypes rounds to %s otherwise" % t)
    return wrong


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    numbers = [t for t in ALL if t != "bool"]
    makers = [lambda t=t: casts(t) for t in ALL] + [lambda t=t: elementwise(t) for t in numbers] + [logic]
    makers += [lambda t=t: along(t, 13, 37, 11) for t in numbers] + [lambda t=t: along(t, 3, 0, 11) for t in ("i4", "u2", "u16", "f8e4m3fn", "f8e4m3fnuz", SCALE, "f32", "u64", "f64")]
    makers += [lambda t=t: moves(t) for t in ALL]
    makers += [lambda t=t, i=i, m=m: mixed(t, mixes(t)[i:i + 6], m, 37 if i else 20) for t in numbers if t != SCALE for i, m in ((0, 13), (6, 1), (12, 40))
               if mixes(t)[i:i + 6]]
    if not wanted:
        makers = sampled(makers, 12, what="kernels")
    passed = failed = 0
    for wrong in check_tables():
        failed += 1
        print("FAIL", wrong)
    with np.errstate(all="ignore"):
        for make in makers:
            kernel = make()
            if wanted not in kernel.name:
                continue
            failures = run(kernel)
            for text in failures:
                print("FAIL", text)
            failed, passed = failed + bool(failures), passed + (not failures)
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
