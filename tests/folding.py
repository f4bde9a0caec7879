#!/usr/bin/env python3
"""Constants and data have the same results, those of NumPy: every operation on every dtype, at the limits of the dtype.

Each expression is in a kernel three times: of literals, which the lowering folds (`l`); of literals cast to the dtype, which
the pass `simplify` folds (`p`); of elements of arrays (`d`). Integers of 64 bits, of which i64 scalars are index scalars,
also occur as scalars: both operands (`s`), the first (`sx`) or the second (`sy`), with a literal as the other one. Exact operations write the bits of their results, with one code for
every NaN: the three must be equal, in the interpreter and in compiled code, and equal to what NumPy gives; the sign of a zero
counts. Functions with an error bound write floats: constants must be the nearest value or its neighbour, and data within the
bounds of docs/numerics.md.

    tests/folding.py [--full] [TEXT]    only dtypes whose name contains TEXT; --full: all pairs of values, generic C, `pkc test`

Ends with "N passed, N failed".
"""
import math
import os
import random
import subprocess
import sys

import numpy as np

import dtypes
from dtypes import ALL as EVERY, FLOATS as ALL_FLOATS, INTEGERS, WIDE, bits_of, decode, round_to, wrap
from operations import FUNCTIONS

# Rows are defined in int64 and float64, for integers of 64 bits in Python integers, so f64 is left out. Scales have no operations.
LONG = ("i64", "u64")
ALL = [t for t in EVERY if t not in WIDE and t != dtypes.SCALE]
FLOATS = {t: f for t, f in ALL_FLOATS.items() if t in ALL}

WORK = os.path.join(os.environ.get("BUILD", "build"), "folding", str(os.getpid()))
PAIRS = 16  # tried of each dtype
ULPS = 3.0  # the largest bound of a function in docs/numerics.md is 2.8


# ---- values


def codes_of(dtype, values):
    """The codes of values that the dtype has, as its arrays store them."""
    if dtype == "bool":
        return np.array(values, np.uint8)
    if dtype in LONG:
        return np.array([int(v) & ((1 << 64) - 1) for v in values], np.uint64)
    store = {2: np.uint8, 4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}[bits_of(dtype)]
    if dtype in INTEGERS:
        return (np.array(values, np.int64) & ((1 << bits_of(dtype)) - 1)).astype(store)
    if dtype == "f32":
        return np.array(values, np.float64).astype(np.float32).view(np.uint32)
    table, sizes = dtypes.TABLE[dtype], np.abs(np.array(values, np.float64))
    if dtypes.without_minus_zero(dtype):
        table = np.append(table, math.nan)  # stands for -0
    found = np.array([np.flatnonzero(table == s)[0] if s == s else np.flatnonzero(table != table)[0] for s in sizes], np.int64)
    signs = np.signbit(values) & ((sizes != 0) | (not dtypes.without_minus_zero(dtype)))
    return (found | (signs.astype(np.int64) << (bits_of(dtype) - 1))).astype(store)


def edges(dtype):
    if dtype == "bool":
        return [False, True]
    if dtype in INTEGERS:
        bits, signed = INTEGERS[dtype]
        least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        wanted = [0, 1, 2, 3, 5, 7, bits - 1, bits, bits + 1, 100, -1, -2, -3, -7, least, least + 1, most - 1, most]
        return sorted({v for v in wanted if least <= v <= most})
    digits, least, infinite = FLOATS[dtype]
    most = np.nanmax(np.where(np.isinf(dtypes.TABLE[dtype]), 0, dtypes.TABLE[dtype])) if dtype in dtypes.TABLE else (2 - 2.0 ** (1 - digits)) * 2.0 ** (1 - least)
    sizes = [0.0, 1.0, 2.0, 3.0, 6.0, 0.5, 2.5, 1.1, 1 / 3, 1 + 2.0 ** (1 - digits), 3 + 2.0 ** (2 - digits), 2.0 ** digits - 1, most, most / 2,
             2.0 ** least, 2.0 ** (least - digits + 1), 3 * 2.0 ** (least - digits + 1), math.nan] + [math.inf] * infinite
    sizes = [float(v) for v in round_to(dtype, np.array(sizes))]
    return sizes + [-v for v in sizes if v == v and (v or not dtypes.without_minus_zero(dtype))]


def literal(value):
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, int):
        value -= (value >= 1 << 63) << 64  # of u64: a cast of it
        return "(%d - 1)" % (value + 1) if value == -1 << 63 else "(%d)" % value if value < 0 else "%d" % value
    if value != value:
        return "nan"
    text = "inf" if math.isinf(value) else repr(abs(float(value))).replace("+", "")
    return "(-%s)" % text if math.copysign(1, value) < 0 else text


# ---- operations: text, arguments, result for exact values, result for integer literals


class Row:
    """`kind`: a dtype, or "same" for that of the operands. `exact`: the result for literals, before they take a dtype, or None."""

    def __init__(self, text, meaning, kind="same", exact=None, folds=True):
        self.text, self.meaning, self.kind, self.exact, self.folds = text, meaning, kind, exact, folds


def shift_left(a, b):
    return a << b if 0 <= b < 63 else 0 if a == 0 else None


def shift_right(a, b):
    return a >> b if 0 <= b < 64 else -1 if a < 0 else 0


def quotient(a, b):
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def int_power(a, b):
    return a ** b if b >= 0 and (abs(a) < 2 or b < 64) else None if b >= 0 else 1 if a == 1 else (-1) ** (b % 2) if a == -1 else 0


def checked(f):
    return lambda a, b: None if b == 0 else f(a, b)


EXACT = {"x + y": lambda a, b: a + b, "x - y": lambda a, b: a - b, "x * y": lambda a, b: a * b, "-x": lambda a, b: -a,
         "abs(x)": lambda a, b: abs(a), "sign(x)": lambda a, b: (a > 0) - (a < 0), "x / y": quotient,
         "x % y": checked(lambda a, b: a - quotient(a, b) * b), "floordiv(x, y)": checked(lambda a, b: a // b),
         "mod(x, y)": checked(lambda a, b: a % b), "max(x, y)": max, "min(x, y)": min, "x & y": lambda a, b: a & b,
         "x | y": lambda a, b: a | b, "x ^ y": lambda a, b: a ^ b, "~x": lambda a, b: ~a, "pow(x, y)": int_power,
         "x << y": shift_left, "x >> y": shift_right, "x >>> y": lambda a, b: None if a < 0 else shift_right(a, b),
         "where(x > y, x, y - 1)": lambda a, b: None if b == -1 << 63 else a if a > b else b - 1}


def compares():
    return [Row(text, lambda t, x, y, z, f=f: f(x, y), "bool") for _, text, f in dtypes.COMPARES]


def casts(t):
    return [Row("cast(x, %s)" % u, lambda t, x, y, z, u=u: dtypes.cast(x, t, u), u) for u in ALL + list(LONG) * (t in LONG)]


def integer_rows(t):
    rows = [Row(text, lambda t, x, y, z, f=f: wrap(t, f(t, x, y)), exact=EXACT.get(text), folds=text in EXACT)
            for _, text, f in dtypes.INTEGER_OPS]
    return rows + compares() + casts(t) + [
        Row("clamp(x, y, z)", lambda t, x, y, z: np.minimum(np.maximum(x, y), z), exact=lambda a, b, c: min(max(a, b), c)),
        Row("cdiv(x, y)", lambda t, x, y, z: wrap(t, np.where(y == 0, -1 + (x != 0), -(-x // np.where(y == 0, 1, y)))), exact=checked(lambda a, b: -(-a // b))),
        Row("square(x)", lambda t, x, y, z: wrap(t, x * x), folds=False),
        Row("integer_pow(x, 3)", lambda t, x, y, z: wrap(t, wrap(t, x * x) * x), folds=False),
        Row("mulhi(x, y)", lambda t, x, y, z: wrap(t, (x.astype(object) * y) >> bits_of(t)), folds=False)][: None if t not in LONG else -1]


def floor_divide(x, y):
    """For operands of 24 bits: a quotient below 2^24 is never rounded to an integer in binary64."""
    q = x / y
    return np.where(np.abs(q) <= 2.0 ** 24, np.floor(q), q)


def float_mod(t, x, y, z):
    return round_to(t, np.mod(x, y))


def fma(t, x, y, z):
    """Computes finite operands as exact fractions and rounds to odd in binary64, so that a further rounding is exact."""
    from fractions import Fraction

    def one(a, b, c):
        rough = a * b + c
        if not all(map(math.isfinite, (a, b, c))) or not math.isfinite(rough):
            return rough
        true = Fraction(a) * Fraction(b) + Fraction(c)
        if true == 0:
            return rough
        near = float(true)
        if Fraction(near) != true and math.frexp(near)[0] * 2.0 ** 53 % 2 == 0:
            near = math.nextafter(near, math.inf if true > Fraction(near) else -math.inf)
        return near

    return round_to(t, np.array([one(*v) for v in zip(x.tolist(), y.tolist(), z.tolist())]))


def next_after(t, x, y, z):
    codes = codes_of(t, x).astype(np.int64)
    top = 1 << (bits_of(t) - 1)
    outwards = (x < y) == (x > 0)
    moved = np.where(x == 0, np.where(np.signbit(y), top, 0) + 1, codes + np.where(outwards, 1, -1))
    store = np.uint32 if t == "f32" else np.int64
    moved = np.where(np.isnan(x) | np.isnan(y) | (x == y), 0, moved).astype(store)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x == y, y, decode(t, moved)))


def half_away(t, x, y, z):
    return np.where(np.isfinite(x), np.copysign(np.floor(np.abs(x) + (np.abs(x) < 2.0 ** 30) * 0.5), x), x)


def sign(t, x, y, z):
    return np.where(np.isnan(x) | (x == 0), x, np.copysign(1.0, x))


def float_rows(t):
    rows = [Row(text, lambda t, x, y, z, f=f: round_to(t, f(t, x, y))) for _, text, f in dtypes.FLOAT_OPS if "fma" not in text and "nextafter" not in text]
    return rows + compares() + casts(t) + [
        Row("mod(x, y)", float_mod), Row("floordiv(x, y)", lambda t, x, y, z: round_to(t, floor_divide(x, y))),
        Row("fma(x, y, z)", fma), Row("clamp(x, y, z)", lambda t, x, y, z: dtypes.best(dtypes.best(x, y, np.maximum), z, np.minimum)),
        Row("sign(x)", sign), Row("ceil(x)", lambda t, x, y, z: np.ceil(x)), Row("trunc(x)", lambda t, x, y, z: np.trunc(x)),
        Row("reciprocal(x)", lambda t, x, y, z: round_to(t, 1 / x)), Row("isnan(x)", lambda t, x, y, z: np.isnan(x), "bool"),
        Row("isinf(x)", lambda t, x, y, z: np.isinf(x), "bool"), Row("isfinite(x)", lambda t, x, y, z: np.isfinite(x), "bool"),
        Row("square(x)", lambda t, x, y, z: round_to(t, x * x), folds=False),
        Row("integer_pow(x, 3)", lambda t, x, y, z: round_to(t, round_to(t, x * x) * x), folds=False),
        Row("signbit(x) && x == x", lambda t, x, y, z: np.signbit(x) & (x == x), "bool", folds=False),
        Row("copysign(abs(x), where(y == y, y, 1))", lambda t, x, y, z: np.copysign(np.abs(x), np.where(y == y, y, 1)), folds=False),
        Row("round_half_away(x)", half_away, folds=False), Row("nextafter(x, y)", next_after, folds=False)] + identities()


def identities():
    """Expressions that `simplify` may or must not simplify: signs of zeros, infinities and NaN show the difference."""
    rows = [("x + %s" % IDLE, lambda x: x - 0.0), ("x + 0.0", lambda x: x + 0.0), ("0.0 + x", lambda x: x + 0.0), ("x - 0.0", lambda x: x - 0.0),
            ("x - %s" % IDLE, lambda x: x + 0.0), ("0.0 - x", lambda x: 0.0 - x), ("x * 0.0", lambda x: x * 0.0), ("x * 1.0", lambda x: x),
            ("x / 1.0", lambda x: x), ("x - x", lambda x: x - x), ("x / x", lambda x: x / x), ("-(-x)", lambda x: x), ("max(x, x)", lambda x: x),
            ("x * %s" % literal(-1.0), lambda x: -x), ("floordiv(x, 1.0)", lambda x: floor_divide(x, 1.0)), ("mod(x, 1.0)", lambda x: np.mod(x, 1.0))]
    return [Row(text, lambda t, x, y, z, f=f: round_to(t, f(x)), folds=False) for text, f in rows]


IDLE = literal(-0.0)
BOOLS = [Row(text, lambda t, x, y, z, f=f: f(x, y), "bool") for text, f in (
    ("x & y", np.logical_and), ("x | y", np.logical_or), ("x ^ y", np.logical_xor), ("!x", lambda x, y: ~x), ("x == y", np.equal),
    ("x != y", np.not_equal), ("x && y", np.logical_and), ("x || y", np.logical_or), ("x & true", lambda x, y: x), ("x | x", lambda x, y: x))]


def inexact_rows():
    rows = []
    for name, (argument, f) in FUNCTIONS.items():
        if argument.endswith("y"):
            rows.append(Row(f"{name}(x, y)", lambda t, x, y, z, f=f: f(x, y)))
        else:
            rows.append(Row(f"{name}(x)", lambda t, x, y, z, f=f: f(x)))
    return rows


HALVES = ("x / y", "x % y", "floordiv(x, y)", "mod(x, y)", "cdiv(x, y)", "x << y", "x >> y", "x >>> y", "pow(x, y)")


# ---- the kernel of a dtype


def fits(t, value):
    """Whether a number in binary64 is accepted as a constant of a float dtype."""
    if math.isinf(value):
        return FLOATS[t][2]
    return value != value or bool(np.isfinite(round_to(t, np.array([value])))[0])


def folds(row, t, operands):
    """Whether the expression of literals is valid: its exact value must fit the dtype."""
    if t in LONG and max(map(abs, operands)) >= 1 << 63:
        return False  # larger than any literal
    if not row.folds or t == "bool" or row.kind == "bool" or row.text.startswith("cast"):
        return row.folds
    if t in INTEGERS:
        count = 3 if "z" in row.text else 2
        value = row.exact(*operands[:count])
        bits, signed = INTEGERS[t]
        if t in LONG and value is not None and abs(value) >= 1 << 63:
            return False
        return value is not None and (-(1 << (bits - 1)) <= value < 1 << (bits - 1) if signed else 0 <= value < 1 << bits)
    if row.text.startswith("where"):
        return fits(t, operands[1] - 1) or operands[0] > operands[1]
    arrays = [np.array([v]) for v in operands]
    with np.errstate(all="ignore"):
        return fits(t, float(wide(row)(*arrays)[0]))


WIDE = {text: (lambda x, y, z, f=f: f("f32", x, y)) for _, text, f in dtypes.FLOAT_OPS}
WIDE.update({"mod(x, y)": lambda x, y, z: np.mod(x, y), "floordiv(x, y)": lambda x, y, z: floor_divide(x, y), "reciprocal(x)": lambda x, y, z: 1 / x,
             "fma(x, y, z)": lambda x, y, z: x * y + z})


def wide(row):
    return WIDE.get(row.text) or (lambda x, y, z: row.meaning("f32", x, y, z))


def place(text, names):
    """The expression with each operand's name replaced."""
    out, word = "", ""
    for c in text + " ":
        if c.isalnum() or c == "_":
            word += c
            continue
        out += names.get(word, word) + c
        word = ""
    return out[:-1]


def code_text(code, kind, value):
    """Any dtype as an integer."""
    return "cast(%s, %s)" % ("code_%s(%s)" % (kind, value) if kind in FLOATS else value, code)


def functions():
    lines = []
    for t in FLOATS:
        lines.append("fn code_%s(v) = where(v != v, 99999, cast(bitcast(cast(v, %s), i%d), i32));" % (t, t, bits_of(t)))
    return "\n".join(lines) + "\n"


class Case:
    def __init__(self, t, operands):
        self.t, self.operands = t, operands
        self.code = "i64" if t in LONG else "i32"
        self.rows = BOOLS if t == "bool" else integer_rows(t) if t in INTEGERS else float_rows(t)
        self.loose = inexact_rows() if t in FLOATS else []

    def kind(self, row):
        return self.t if row.kind == "same" else row.kind

    def folded(self, row, number):
        return folds(row, self.t, self.operands[number])

    def scalars(self):
        """Expressions of single elements: all operands are data, or, in divisions and shifts, one is a literal."""
        lines = ["  %s[...] = 0;" % name for name in self.places()]
        for r, row in enumerate(self.rows):
            store = "%s[%d, %s] = " + code_text(self.code, self.kind(row), "%s") + ";"
            lines.append("  for k in 0..%d { %s }" % (len(self.operands), store % ("s", r, "k", place(row.text, {n: "in_%s[k]" % n for n in "xyz"}))))
            for k, values in enumerate(self.operands if self.has_half(row) else []):
                number = ["cast(%s, %s)" % (literal(v), self.t) if v >= 1 << 63 else literal(v) for v in values]
                lines.append("  " + store % ("sx", r, k, place(row.text, {"x": "in_x[%d]" % k, "y": number[1]})))
                lines.append("  " + store % ("sy", r, k, place(row.text, {"x": number[0], "y": "in_y[%d]" % k})))
        return lines

    def places(self):
        return ["s", "sx", "sy"] if self.t in LONG else []

    def has_half(self, row):
        return row.text in HALVES

    def exact(self):
        return ["l", "p", "d"] + self.places()

    def stores(self, rows, names, wrapped):
        lines = []
        for r, row in enumerate(rows):
            lines.append("  %s[%d, :] = %s;" % (names[2], r, wrapped(row, row.text)))
            for k, values in enumerate(self.operands):
                constant = place(row.text, dict(zip("xyz", map(literal, values))))
                typed = place(row.text, dict(zip("xyz", ("cast(%s, %s)" % (literal(v), self.t) for v in values))))
                lines.append("  %s[%d, %d] = %s;" % (names[1], r, k, wrapped(row, typed)))
                if self.folded(row, k):
                    kept = constant if row.kind == "bool" or row.text.startswith("cast") else "cast(%s, %s)" % (constant, self.t)
                    lines.append("  %s[%d, %d] = %s;" % (names[0], r, k, wrapped(row, kept)))
        return lines

    def text(self):
        p, r, f = len(self.operands), len(self.rows), len(self.loose)
        outputs = ["%s: %s[%d, %d]" % (n, self.code, r, p) for n in self.exact()] + ["%s: %s[%d, %d]" % (n, self.t, f, p) for n in ("lf", "pf", "df") if f]
        lines = ["kernel fold_%s(%s) -> (%s) {" % (self.t, ", ".join("in_%s: %s[%d]" % (n, self.t, p) for n in "xyz"), ", ".join(outputs))]
        lines += ["  let %s = in_%s[...];" % (n, n) for n in "xyz"] + ["  l[...] = 0;"] + ["  lf[...] = 0;"] * (f > 0)
        lines += self.stores(self.rows, "lpd", lambda row, e: code_text(self.code, self.kind(row), e))
        lines += self.scalars() if self.places() else []
        lines += self.stores(self.loose, ("lf", "pf", "df"), lambda row, e: e)
        return functions() + "\n".join(lines) + "\n}\n"


# ---- comparison


def bits_wanted(code, kind, values):
    if kind not in FLOATS and code == "i64":
        return wrap("i64", np.asarray(values).astype(object)).astype(np.int64)
    if kind not in FLOATS:
        return np.asarray(values).astype(np.int64).astype(np.int32).astype(np.int64)
    codes = codes_of(kind, values).astype(np.int64)
    width = bits_of(kind)
    return np.where(np.isnan(values), 99999, np.where(codes >> (width - 1), codes - (1 << width), codes))


def ulps(t, got, want):
    digits, least, _ = FLOATS[t]
    rounded = round_to(t, want)
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.where(np.isfinite(want) & (want != 0), np.abs(want), 1))), least)
        error = np.abs(got - want) / 2.0 ** (exponent + 1 - digits)
    alike = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(alike, 0, np.where(np.isfinite(got) & np.isfinite(want), error, np.inf))


def compare(case, outputs, where):
    failures = []  # (row, text)
    columns = [np.array(c, dtype=object if case.t in LONG else None) for c in zip(*case.operands)]

    def report(name, row, k, got, want):
        failures.append((row.text, "fold_%s: %s = %s of %s: got %s, expected %s; %s" % (
            case.t, name, row.text, ", ".join(map(literal, case.operands[k])), got, want, where)))

    for r, row in enumerate(case.rows):
        want = bits_wanted(case.code, case.kind(row), row.meaning(case.t, *columns))
        for name in case.exact():
            for k in np.flatnonzero(outputs[name][r] != want):
                if (name != "l" or case.folded(row, k)) and (name not in ("sx", "sy") or case.has_half(row)):
                    report(name, row, k, outputs[name][r][k], want[k])
    for r, row in enumerate(case.loose):
        want = row.meaning(case.t, *columns)
        for name, bound in (("lf", 1), ("pf", 1), ("df", ULPS)):
            for k in np.flatnonzero(~(ulps(case.t, outputs[name][r], want) <= bound)):
                if name != "lf" or case.folded(row, k):
                    report(name, row, k, outputs[name][r][k], want[k])
        both = [k for k in range(len(case.operands)) if case.folded(row, k)]
        for k in both:
            a, b = outputs["lf"][r][k], outputs["pf"][r][k]
            if not (a == b and np.signbit(a) == np.signbit(b) or (a != a and b != b)):
                report("lf", row, k, a, b)
    return failures


def run(case, folder, full):
    os.makedirs(folder)
    path = os.path.join(folder, "fold.pk")
    with open(path, "w") as file:
        file.write(case.text())
    command = [dtypes.PKC, "run", path, "--quiet", "--checked"]
    for name, column in zip("xyz", zip(*case.operands)):
        dtypes.save("%s/in_%s.npy" % (folder, name), case.t, codes_of(case.t, list(column) if case.t in LONG else np.array(column)))
        command.append("in_%s=%s/in_%s.npy" % (name, folder, name))
    names = {n: case.code for n in case.exact()}
    names.update({n: case.t for n in ("lf", "pf", "df") if case.loose})
    for name in names:
        command += ["-o", "%s=%s/%s.npy" % (name, folder, name)]
    failures = []
    for extra in [[], ["--target", "generic"], ["--long-cell", "1"]] if full else [[]]:
        shown = "reproduce: " + " ".join(command + extra)
        done = subprocess.run(command + extra, capture_output=True, text=True)
        if done.returncode:
            said = " / ".join((done.stderr or done.stdout).strip().splitlines())[:2000]
            failures += [(row.text, "fold_%s: %s; %s" % (case.t, said, shown)) for row in case.rows + case.loose]
            continue
        outputs = {n: dtypes.load("%s/%s.npy" % (folder, n), t) for n, t in names.items()}
        with np.errstate(all="ignore"):
            failures += compare(case, outputs, shown)
    return failures


def must(t):
    """Pairs in every sample: remainder zero, a quotient that rounds up to an integer, the least number by -1, division by zero."""
    if t in FLOATS:
        digits = FLOATS[t][0]
        return [(6.0, -3.0), (3 + 2.0 ** (2 - digits), 1 + 2.0 ** (1 - digits)), (0.0, -0.0), (-0.0, 0.0), (6.0, 0.0)]
    values = edges(t)
    return [(values[0], -1), (values[0], 7), (values[-1], 0), (values[-1], values[-1])]


def cases(t, full):
    values = edges(t)
    pairs = [(a, b) for a in values for b in values]
    rng = random.Random(t)
    triples = [(a, b, rng.choice(values)) for a, b in pairs]
    if not full:
        chosen = [p for p in triples if p[:2] in must(t)]
        return [Case(t, (chosen + rng.sample(triples, min(PAIRS, len(triples))))[:PAIRS])]
    return [Case(t, triples[k:k + PAIRS]) for k in range(0, len(triples), PAIRS)]


def main():
    full = "--full" in sys.argv
    wanted = [a for a in sys.argv[1:] if not a.startswith("--")]
    passed = failed = 0
    for t in ALL + list(LONG):
        if wanted and not any(w in t for w in wanted):
            continue
        for k, case in enumerate(cases(t, full)):
            failures = run(case, os.path.join(WORK, "%s_%d" % (t, k)), full)
            for text in list(dict.fromkeys(text for _, text in failures))[:20]:
                print("FAIL", text)
            wrong = len({row for row, _ in failures})
            failed, passed = failed + wrong, passed + len(case.rows) + len(case.loose) - wrong
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
