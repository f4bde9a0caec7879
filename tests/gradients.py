#!/usr/bin/env python3
"""Derived references (`pkc grad`) against central differences in binary64.

ROWS has every operation with a derivative: an expression of the language and its equivalent in NumPy. Random references compose them on
axes of 0, 1 and prime extents. For each reference, the gradient and the derivative along directions are derived, interpreted, and compared
with differences of NumPy's results; every fourth gradient is derived again, and the second derivative compared with differences of the first.

Right and wrong backward kernels with lines `// gradient:` follow, then those of kernels/, and gradients of kernels (`--kernel`): of kernels
in this file and of all kernels of the library.

    tests/gradients.py [N] [SEED]    N random references (default 60)

Ends with "N passed, N failed".
"""
import math
import os
import pathlib
import random
import re
import subprocess
import sys

import numpy as np

from suite import BUILD, PKC, ROOT, check, def_rows, finish

WORK = BUILD / "gradients" / str(os.getpid())
np.seterr(all="ignore")


def vector(f):
    return np.vectorize(f, otypes=[np.float64])


erf, erfc = vector(math.erf), vector(math.erfc)


def erf_inv(y):
    x = np.zeros_like(y)
    for _ in range(60):
        x = x - (erf(x) - y) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    return x


# By operation: an expression of A and B, and its equivalent in NumPy. Operands are mapped into the domain of the operation.
UNARY = {
    "NEG": ("-A", lambda a: -a),
    "ABS": ("abs(A)", np.abs),
    "EXP": ("exp(sin(A))", lambda a: np.exp(np.sin(a))),
    "EXP2": ("exp2(sin(A))", lambda a: np.exp2(np.sin(a))),
    "EXP10": ("exp10(sin(A) * 0.3)", lambda a: 10 ** (np.sin(a) * 0.3)),
    "EXPM1": ("expm1(sin(A))", lambda a: np.expm1(np.sin(a))),
    "LOG": ("log(abs(A) + 0.5)", lambda a: np.log(np.abs(a) + 0.5)),
    "LOG2": ("log2(A * A + 0.5)", lambda a: np.log2(a * a + 0.5)),
    "LOG10": ("log10(A * A + 0.5)", lambda a: np.log10(a * a + 0.5)),
    "LOG1P": ("log1p(A * A)", lambda a: np.log1p(a * a)),
    "SQRT": ("sqrt(A * A + 0.3)", lambda a: np.sqrt(a * a + 0.3)),
    "RSQRT": ("rsqrt(A * A + 0.3)", lambda a: (a * a + 0.3) ** -0.5),
    "RECIP": ("reciprocal(A * A + 0.7)", lambda a: 1 / (a * a + 0.7)),
    "TANH": ("tanh(A)", np.tanh),
    "LOGISTIC": ("logistic(A)", lambda a: 1 / (1 + np.exp(-a))),
    "SOFTPLUS": ("softplus(A)", lambda a: np.logaddexp(a, 0)),
    "LOG_SIGMOID": ("log_sigmoid(A)", lambda a: -np.logaddexp(-a, 0)),
    "ERF": ("erf(A)", erf),
    "ERFC": ("erfc(A)", erfc),
    "ERF_INV": ("erf_inv(tanh(A) * 0.7)", lambda a: erf_inv(np.tanh(a) * 0.7)),
    "SIN": ("sin(A)", np.sin),
    "COS": ("cos(A)", np.cos),
    "TAN": ("tan(tanh(A))", lambda a: np.tan(np.tanh(a))),
    "SINH": ("sinh(sin(A))", lambda a: np.sinh(np.sin(a))),
    "COSH": ("cosh(sin(A))", lambda a: np.cosh(np.sin(a))),
    "ASIN": ("asin(tanh(A) * 0.9)", lambda a: np.arcsin(np.tanh(a) * 0.9)),
    "ACOS": ("acos(tanh(A) * 0.9)", lambda a: np.arccos(np.tanh(a) * 0.9)),
    "ATAN": ("atan(A)", np.arctan),
    "ASINH": ("asinh(A)", np.arcsinh),
    "ACOSH": ("acosh(A * A + 1.5)", lambda a: np.arccosh(a * a + 1.5)),
    "ATANH": ("atanh(tanh(A) * 0.9)", lambda a: np.arctanh(np.tanh(a) * 0.9)),
    "CBRT": ("cbrt(A * A + 0.2)", lambda a: np.cbrt(a * a + 0.2)),
    "CAST": ("A * cast(cast(A > 0.0, i32), f64)", lambda a: a * (a > 0)),
    "SELECT": ("where(A > 0.3, log(A), sin(A))", lambda a: np.where(a > 0.3, np.log(a), np.sin(a))),
    "FLOOR": ("A * floor(A)", lambda a: a * np.floor(a)),
}
BINARY = {
    "ADD": ("A + B", lambda a, b: a + b),
    "SUB": ("A - B", lambda a, b: a - b),
    "MUL": ("A * B", lambda a, b: a * b),
    "DIV": ("A / (B * B + 0.6)", lambda a, b: a / (b * b + 0.6)),
    "REM": ("A % (abs(B) + 0.7)", lambda a, b: np.fmod(a, np.abs(b) + 0.7)),
    "MOD": ("mod(A, abs(B) + 0.7)", lambda a, b: np.mod(a, np.abs(b) + 0.7)),
    "POW": ("pow(A * A + 0.5, B)", lambda a, b: (a * a + 0.5) ** b),
    "ATAN2": ("atan2(A, B)", np.arctan2),
    "HYPOT": ("hypot(A, B)", np.hypot),
    "MAX": ("max(A, B)", np.maximum),
    "MIN": ("min(A, B)", np.minimum),
    "FMA": ("fma(A, B, A)", lambda a, b: a * b + a),
}


def keep(f):
    return lambda v, axis: f(v, axis=axis, keepdims=True)


def reverse(f):
    return lambda v, axis: np.flip(f(np.flip(v, axis), axis), axis)


def shifted(v, axis):
    top = v.max(axis, keepdims=True)
    return np.exp(v - top), top


def softmax(v, axis):
    e, _ = shifted(v, axis)
    return e / e.sum(axis, keepdims=True)


def sum_of_first_axis(v, axis):
    e, top = shifted(v, axis)
    return v * (np.log(e.sum(0, keepdims=True)) + top)


# Of A along an axis K, whose extent is not 0 where the third says so.
ALONG = {
    "REDUCE_SUM": ("reduce_sum(A, axis = K)", keep(np.sum), False),
    "REDUCE_PROD": ("reduce_prod(A, axis = K)", keep(np.prod), False),
    "REDUCE_MAX": ("reduce_max(A, axis = K)", keep(np.max), True),
    "REDUCE_MIN": ("reduce_min(A, axis = K)", keep(np.min), True),
    "CUMSUM": ("cumsum(A, axis = K)", np.cumsum, False),
    "CUMSUM_REVERSE": ("cumsum(A, axis = K, reverse = true)", reverse(np.cumsum), False),
    "CUMPROD": ("cumprod(A, axis = K)", np.cumprod, False),
    "CUMPROD_REVERSE": ("cumprod(A, axis = K, reverse = true)", reverse(np.cumprod), False),
    "CUMMAX": ("cummax(A, axis = K)", np.maximum.accumulate, False),
    "CUMMAX_REVERSE": ("cummax(A, axis = K, reverse = true)", reverse(np.maximum.accumulate), False),
    "CUMMIN": ("cummin(A, axis = K)", np.minimum.accumulate, False),
    "SORT": ("sort(A, axis = K)", np.sort, False),
    "SORT_DESCENDING": ("sort(A, axis = K, descending = true)", lambda v, axis: -np.sort(-v, axis), False),
    "REV": ("rev(A, axis = K)", np.flip, False),
    "ROLL": ("roll(A, 1, axis = K)", lambda v, axis: np.roll(v, 1, axis), False),
    "CONCAT": ("concatenate(A, A * 2.0, axis = K)", None, False),
    "PAD": (None, None, False),
    "BROADCAST": ("A * reduce_sum(A, axis = K)", lambda v, axis: v * v.sum(axis, keepdims=True), False),
    # the result does not depend on the first maximum, nor on the second if K is 0
    "SOFTMAX": ("exp(A - reduce_max(A, axis = K)) / reduce_sum(exp(A - reduce_max(A, axis = K)), axis = K)", softmax, True),
    "SUM_OF_FIRST": ("A * (log(reduce_sum(exp(A - reduce_max(A, axis = K)), axis = 0)) + reduce_max(A, axis = K))", sum_of_first_axis, True),
}
# Expressions of an A: [M, N] in which element j of a row depends only on elements up to j; with REVERSE, of a reversed A.
APART = {
    "CUMSUM": ("cumsum(A, axis = 1REVERSE)", lambda v: np.cumsum(v, 1)),
    "CUMPROD": ("cumprod(A, axis = 1REVERSE)", lambda v: np.cumprod(v, 1)),
    "CUMMAX": ("cummax(A, axis = 1REVERSE)", lambda v: np.maximum.accumulate(v, 1)),
    "CUMMIN": ("cummin(A, axis = 1REVERSE)", lambda v: np.minimum.accumulate(v, 1)),
    "TAKE": ("take(A, iota([N]), axis = 1)", lambda v: v),
    "TAKE_ALONG": ("take_along_axis(A, iota([M, N], axis = 1), axis = 1)", lambda v: v),
    "CONV": ("reshape(conv(reshape(A, [M, N, 1]), cast(broadcast(1.5, [1, 1, 1]), f64)), [M, N])", lambda v: 1.5 * v),
    "CONCAT": ("concatenate(A, A, axis = 1)[:, :N] + concatenate(A, A, axis = 1)[:, N:]", lambda v: 2 * v),
    "PAD": ("pad(A, ((0, 0), (1, 2)), value = 0.5)[:, 1:N + 1]", lambda v: v),
    "ROLL": ("roll(roll(A, 1, axis = 1), -1, axis = 1)", lambda v: v),
    "REV": ("rev(rev(A, axis = 1), axis = 1)", lambda v: v),
    "TRANSPOSE": ("transpose(transpose(A, (1, 0)), (1, 0))", lambda v: v),
    "BROADCAST": ("reduce_sum(broadcast(A[:, :, None], [M, N, 2]), axis = 2, keep = false)", lambda v: 2 * v),
    "REDUCE_PROD": ("reduce_prod(stack(A, A * 0.5 + 1.0, axis = 2), axis = 2, keep = false)", lambda v: v * (v * 0.5 + 1)),
    "REDUCE_MAX": ("reduce_max(stack(A, A - 1.0, axis = 2), axis = 2, keep = false)", lambda v: np.maximum(v, v - 1)),
    "SORT": ("sort(stack(A, A - 1.0, axis = 2), axis = 2)[:, :, 0]", lambda v: np.minimum(v, v - 1)),
    "MUL": ("A * 0.5", lambda v: v * 0.5),
    "FOR": (None, lambda v: 2 * v),
}
# Operations whose operands have particular shapes, such as [M, N] and [N, 3]; `special` writes them.
SPECIAL = ("RESHAPE", "TRANSPOSE", "SLICE", "WINDOW", "TAKE", "TAKE_ALONG", "GATHER", "DOT", "PAD", "CONCAT")


class Reference:
    """A random reference: its text, and the function of a list of arrays that computes it."""

    def __init__(self, rng):
        self.rng, self.lines, self.steps = rng, [], []
        self.sizes = {"M": rng.choice([0, 1, 2, 3, 5]), "N": rng.choice([1, 2, 3, 5])}
        self.inputs = {"x": ("M", "N"), "y": ("M", "N"), "z": ("N",), "w": ("N", 3)}
        self.values = dict(self.inputs)
        self.used, self.count = set(), 0

    def extent(self, dim):
        return self.sizes.get(dim, dim)

    def put(self, operation, text, shape, f):
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"let {name} = {text};")
        self.steps.append((name, f))
        self.values[name] = tuple(shape)
        self.used.add(operation)
        return name

    def pick(self, rank=None):
        names = [n for n, s in self.values.items() if rank is None or len(s) == rank]
        return self.rng.choice(names[-6:] + names[:4] if rank is None else names)

    def unary(self, operation):
        text, f = UNARY[operation]
        a = self.pick()
        self.put(operation, text.replace("A", a), self.values[a], lambda e, a=a: f(e[a]))

    def binary(self, operation):
        text, f = BINARY[operation]
        a = self.pick()
        fitting = [n for n, s in self.values.items() if s == self.values[a] or s == self.values[a][1:]]
        b = self.rng.choice(fitting)
        self.put(operation, text.replace("A", a).replace("B", b), self.values[a], lambda e: f(e[a], e[b]))

    def along(self, operation):
        text, f, filled = ALONG[operation]
        a = self.pick()
        shape = self.values[a]
        if not shape or text is None or f is None:
            return self.special(self.rng.choice(SPECIAL))
        axis = self.rng.randrange(len(shape))
        if filled and self.extent(shape[axis]) == 0:
            axis = len(shape) - 1
            if self.extent(shape[axis]) == 0:
                return None
        out = list(shape)
        if operation.startswith("REDUCE"):
            out[axis] = 1
        return self.put(operation, text.replace("A", a).replace("K", str(axis)), out, lambda e: f(e[a], axis))

    def special(self, operation):
        a, m, n = self.pick(2), "M", "N"
        s = self.values[a]
        constant = [k for k in range(2) if isinstance(s[k], int)]
        if operation == "TRANSPOSE" and self.rng.random() < 0.5:
            stacked = f"stack({a}, {a} * 2.0, sin({a}), axis = 2)"
            return self.put(operation, f"transpose({stacked}, (2, 0, 1))[2, :, :]", s, lambda e: np.sin(e[a]))
        if operation == "TRANSPOSE":
            return self.put(operation, f"transpose({a}, (1, 0))", s[::-1], lambda e: e[a].T)
        if operation == "RESHAPE":
            return self.put(operation, f"reshape({a}, [{s[0]}, 1, {s[1]}])[:, 0, :] * 0.5", s, lambda e: e[a] * 0.5)
        if operation == "SLICE" and constant and s[constant[0]] > 1:
            k, step = constant[0], self.rng.choice([1, 2])
            out, cut = list(s), [slice(None)] * 2
            out[k] = (s[k] - 1 + step - 1) // step
            cut[k] = slice(1, None, step)
            at = ["1:" + (f":{step}" if step > 1 else "") if i == k else ":" for i in range(2)]
            return self.put(operation, f"{a}[{at[0]}, {at[1]}]", out, lambda e: e[a][tuple(cut)])
        if operation == "SLICE" and s[1] == n:
            if self.sizes["N"] < 2:
                return None
            return self.put(operation, f"{a} * 0.1 + reduce_sum({a}[:, 1:], axis = 1)", s,
                            lambda e: e[a] * 0.1 + e[a][:, 1:].sum(1, keepdims=True))
        if operation == "WINDOW" and s[1] == n:
            return self.put(operation, f"{a} * {a}[:, N - 1][:, None]", s, lambda e: e[a] * e[a][:, -1:])
        if operation == "TAKE" and s[1] == n:
            return self.put(operation, f"take({a}, (iota([N]) * 2 + 1) % cast(N, i32), axis = 1)", s,
                            lambda e: e[a][:, (np.arange(e[a].shape[1]) * 2 + 1) % e[a].shape[1]])
        if operation == "TAKE_ALONG" and s == (m, n):
            return self.put(operation, f"take_along_axis({a}, (iota([M, N], axis = 0) + iota([M, N], axis = 1)) / 2 % cast(N, i32), axis = 1)", s,
                            lambda e: np.take_along_axis(e[a], sum(np.indices(e[a].shape)) // 2 % e[a].shape[1], 1))
        if operation == "GATHER" and s == (m, n):
            place = "iota([M, N], axis = 0)", "iota([M, N], axis = 1)"
            return self.put(operation, f"{a}[({place[0]} + {place[1]}) / 2 % cast(M, i32), {place[1]}]", s,
                            lambda e: e[a][sum(np.indices(e[a].shape)) // 2 % max(e[a].shape[0], 1), np.indices(e[a].shape)[1]])
        if operation == "DOT" and s == (m, n):
            b = self.rng.choice([v for v, shape in self.values.items() if shape == (n, 3)])
            return self.put(operation, f"dot({a}, {b})", (m, 3), lambda e: e[a] @ e[b])
        if operation == "DOT":
            return self.put(operation, f"einsum(\"ab,cb->ac\", {a}, {a} * 0.5)", (s[0], s[0]), lambda e: e[a] @ e[a].T * 0.5)
        if operation == "PAD":
            return self.put(operation, f"pad({a}, ((0, 0), (1, 2)), value = 0.5)[:, 1:{s[1]} + 1] * 2.0", s, lambda e: e[a] * 2)
        if operation == "CONCAT" and isinstance(s[1], int):
            return self.put(operation, f"concatenate({a}, sin({a}), axis = 1)", (s[0], 2 * s[1]), lambda e: np.concatenate([e[a], np.sin(e[a])], 1))
        return None

    def loop(self):
        """A recurrence along the first axis, with a choice by its index."""
        a = self.rng.choice([v for v, s in self.values.items() if s == ("M", "N")])
        b = self.rng.choice([v for v, s in self.values.items() if s == ("N",)])
        k = self.count
        self.lines += [f"var s{k}: f64[N] = 0;", f"var all{k}: f64[M, N] = 0;", "for t in 0..M {",
                       f"  s{k} = tanh(s{k} * {b}) + {a}[t, :];", f"  when t % 2 == 1 {{ s{k} = s{k} * {a}[t, :]; }}",
                       f"  all{k}[t, :] = s{k};", "}"]

        def run(e):
            s, rows = np.zeros_like(e[b]), []
            for t in range(e[a].shape[0]):
                s = np.tanh(s * e[b]) + e[a][t]
                s = s * e[a][t] if t % 2 else s
                rows.append(s)
            return np.array(rows).reshape(e[a].shape)
        self.put("FOR", f"all{k} * 1.0", ("M", "N"), run)

    def apart(self, wanted=None):
        """Elements whose derivative is not finite; a choice excludes them after other operations, or they are constants."""
        a = self.rng.choice([v for v, s in self.values.items() if s == ("M", "N")])
        last, constant = self.rng.random() < 0.5, self.rng.random() < 0.5
        inside = "iota([M, N], axis = 1) < cast(N, i32) - 1" if last else "iota([M, N], axis = 1) > 0"
        k = self.count
        start = f"where(in{k}, {a} * {a} + 0.5, 0.0)" if constant else f"log(({a} * {a} + 0.5) * cast(in{k}, f64))"
        self.lines += [f"let in{k} = {inside};", f"let at{k}_0 = {start};"]
        names = [n for n in APART if not constant or n not in ("CUMPROD", "SORT")]
        chosen = [wanted] * (wanted in names) + [self.rng.choice(names) for _ in range(self.rng.randrange(1, 3))]
        for number, name in enumerate(chosen):
            self.apart_step(k, number, name, last != constant)
        end = f"at{k}_{len(chosen)}"

        def run(e):
            v = e[a]
            keep = np.arange(v.shape[1]) < v.shape[1] - 1 if last else np.arange(v.shape[1]) > 0
            v = np.where(keep, v * v + 0.5, 0) if constant else np.log((v * v + 0.5) * keep)
            for name in chosen:
                v = APART[name][1](v) if last != constant else np.flip(APART[name][1](np.flip(v, 1)), 1)
            return np.sqrt(v) if constant else np.where(keep, v, 0)
        self.put("SELECT", f"sqrt({end})" if constant else f"where(in{k}, {end}, 0.0)", ("M", "N"), run)

    def apart_step(self, k, number, name, forth):
        a, to = f"at{k}_{number}", f"at{k}_{number + 1}"
        if name == "FOR":
            self.lines += [f"var {to}: f64[M, N] = 0;", "for t in 0..N {", f"  {to}[:, ds(t, 1)] = {a}[:, ds(t, 1)] * 2.0;", "}"]
        else:
            text = APART[name][0].replace("REVERSE", "" if forth else ", reverse = true")
            self.lines.append(f"let {to} = {text.replace('A', a)};")

    def finish(self):
        """The sum of the last results, as one output [M, N]."""
        last = list(self.values)[-4:] + ["x"]
        text, parts = "x * 0.1", []
        for name in last:
            if len(self.values[name]) <= 2 and all(s in (m, 1) for s, m in zip(self.values[name][::-1], ("N", "M"))):
                text += f" + {name}"
                parts.append((name, False))
            else:
                text += f" + 0.3 * reduce_sum({name}, keep = false)"
                parts.append((name, True))
        self.lines.append(f"o = {text};")
        self.parts = parts

    def text(self):
        signature = ", ".join(f"{n}: f64[{', '.join(map(str, s))}]" for n, s in self.inputs.items())
        return f"reference f({signature}) -> (o: f64[M, N]) {{\n  " + "\n  ".join(self.lines) + "\n}\n"

    def __call__(self, arrays):
        e = dict(arrays)
        for name, f in self.steps:
            e[name] = f(e)
        o = e["x"] * 0.1
        for name, summed in self.parts:
            o = o + (0.3 * e[name].sum() if summed else e[name])
        return o


def random_reference(rng, wanted):
    r = Reference(rng)
    if wanted in APART and rng.random() < 0.3 or isinstance(wanted, tuple):
        r.apart(wanted[0] if isinstance(wanted, tuple) else wanted)
    for k in range(rng.randrange(2, 7)):
        kind = rng.choice(["unary", "binary", "along", "special", "loop", "apart"])
        if k == 0 and isinstance(wanted, str):
            operation = wanted
            kind = "unary" if wanted in UNARY else "binary" if wanted in BINARY else "special" if wanted in SPECIAL else "along"
        elif kind not in ("loop", "apart"):
            operation = rng.choice({"unary": list(UNARY), "binary": list(BINARY), "along": list(ALONG), "special": SPECIAL}[kind])
        if kind in ("loop", "apart"):
            getattr(r, kind)()
        else:
            getattr(r, kind)(operation)
    r.finish()
    return r


def pkc(*arguments):
    return subprocess.run([PKC, *map(str, arguments)], capture_output=True, text=True, check=False)


def derived(path, to, *options):
    done = pkc("grad", path, *options)
    to.write_text(done.stdout)
    return done


def evaluate(path, arrays, outputs, sizes, folder):
    """The interpreted outputs of the only entry of a file, or the message."""
    arguments = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        arguments.append(f"{name}={folder / f'{name}.npy'}")
    for name in outputs:
        arguments += ["-o", f"{name}={folder / f'{name}.out.npy'}"]
    done = pkc("check", path, *arguments, "--quiet")
    if done.returncode:
        return None, done.stdout + done.stderr
    return {name: np.load(folder / f"{name}.out.npy") for name in outputs}, ""


def central(f, arrays, direction, step):
    def at(t):
        return f({n: a + t * direction[n] if n in direction else a for n, a in arrays.items()})
    return (at(step) - at(-step)) / (2 * step)


def numeric_gradient(f, arrays, do):
    """Differences with two steps; NaN where they disagree, because the function has a jump or a bend there."""
    result = {}
    for name, array in arrays.items():
        g = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            unit = {name: np.zeros_like(array)}
            unit[name][place] = 1
            wide, narrow = ((central(f, arrays, unit, step) * do).sum() for step in (2e-5, 1e-5))
            g[place] = narrow if abs(wide - narrow) <= 1e-5 * (1 + abs(narrow)) else np.nan
        result[name] = g
    return result


def close(got, want):
    sure = np.isfinite(want)
    return np.all(np.abs(got - want)[sure] <= 2e-5 * (1 + np.abs(want[sure])))


def case(number, seed, wanted):
    rng = random.Random(f"{seed} {number}")
    r = random_reference(rng, wanted)
    folder = WORK / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "f.pk").write_text(r.text())
    data = np.random.default_rng(rng.randrange(1 << 30))
    arrays = {n: data.standard_normal([r.extent(d) for d in s]) for n, s in r.inputs.items()}
    what = f"reference {number} of seed {seed} ({folder / 'f.pk'}: {r.sizes})"
    got, said = evaluate(folder / "f.pk", arrays, ["o"], r.sizes, folder)
    want = r(arrays)
    if not check(f"{what}: it is what it means", got and np.allclose(got["o"], want, 1e-9, 1e-9, equal_nan=True), said or "another value"):
        return r
    if not np.isfinite(want).all() or np.abs(want).max(initial=0) > 1e4:
        return r
    do = data.standard_normal(want.shape)
    check(f"{what}: a gradient", derived(folder / "f.pk", folder / "b.pk").returncode == 0)
    gradients = [f"d{n}" for n in arrays]
    got, said = evaluate(folder / "b.pk", {**arrays, "do": do}, gradients, r.sizes, folder)
    numeric = numeric_gradient(r, arrays, do)
    wrong = said if got is None else [n for n in arrays if not close(got[f"d{n}"], numeric[n])]
    check(f"{what}: the gradient by differences", not wrong, wrong)
    direction = {n: data.standard_normal(a.shape) for n, a in arrays.items()}
    check(f"{what}: a derivative along directions", derived(folder / "f.pk", folder / "t.pk", "--forward").returncode == 0)
    along, said = evaluate(folder / "t.pk", {**arrays, **{f"d{n}": d for n, d in direction.items()}}, ["do"], r.sizes, folder)
    if check(f"{what}: it runs", along, said) and got:
        forth, back = (along["do"] * do).sum(), sum((got[f"d{n}"] * direction[n]).sum() for n in arrays)
        smooth = all(np.isfinite(numeric[n]).all() for n in arrays)
        agree = abs(forth - back) <= 1e-8 * (1 + abs(forth)) or not smooth and not math.isfinite(forth + back)
        check(f"{what}: both ways agree", agree, (forth, back))
    if number % 4 == 0 and got:
        second(what, folder, r, arrays, do, direction, gradients, data)
    return r


def second(what, folder, r, arrays, do, direction, gradients, data):
    """The derivative of u . (gradient of f) along a direction, by differences of the first gradient."""
    if not check(f"{what}: a second derivative", derived(folder / "b.pk", folder / "bb.pk").returncode == 0):
        return
    weights = {f"d{g}": data.standard_normal(arrays[g[1:]].shape) for g in gradients}

    def first(e):
        out, said = evaluate(folder / "b.pk", {**e, "do": do}, gradients, r.sizes, folder)
        return sum((out[g] * weights[f"d{g}"]).sum() for g in gradients)
    wide, narrow = (central(first, arrays, direction, step) for step in (2e-5, 1e-5))
    results = [f"{g}_" for g in gradients]
    got, said = evaluate(folder / "bb.pk", {**arrays, "do": do, **weights}, results, r.sizes, folder)
    if not check(f"{what}: it runs", got, said) or abs(wide - narrow) > 1e-5 * (1 + abs(narrow)):
        return
    along = sum((got[f"{g}_"] * direction[g[1:]]).sum() for g in gradients)
    check(f"{what}: the second derivative by differences", abs(along - narrow) <= 1e-4 * (1 + abs(narrow)), (along, narrow))


DIRECTIVE = re.compile(r"^// (\w+): (.*)$", re.M)


def lines_of_kernels():
    """Runs `pkc test` on the lines `// gradient:` of the files in kernels/; the suite of kernels runs all directives."""
    found = 0
    for path in sorted((ROOT / "kernels").glob("*/*.pk")):
        lines = []
        for line in path.read_text(encoding="utf-8").splitlines():
            kind = DIRECTIVE.match(line)
            found += bool(kind) and kind[1] == "gradient"
            if not kind or kind[1] == "gradient":
                lines.append(re.sub(r"^(// gradient: .* in )(\S+)", lambda m: m[1] + str((path.parent / m[2]).resolve()), line))
        if any(line.startswith("// gradient:") for line in lines):
            copy = WORK / path.name
            copy.write_text("\n".join(lines) + "\n")
            done = pkc("test", copy)
            check(f"{path}: its lines `// gradient:`", done.returncode == 0, done.stdout + done.stderr)
    check("some file has a line `// gradient:`", found)


SQUARE = """
kernel sq(x: f32[M, N]) -> (o: f32[M, N]) { grid (i in M parallel); block x, o: [1, N] at (i, 0); o[...] = x[...] * x[...]; }
reference sq { o = x * x; }
kernel back(x: f32[M, N], GIVEN: f32[M, N]) -> (RESULT: f32[M, N]) {
  grid (i in M parallel);
  block x, GIVEN, RESULT: [1, N] at (i, 0);
  RESULT[...] = BODY;
}
"""

# A backward kernel, its directive, and the message of `pkc test`, or None.
BACKWARD = [
    ("2 * x[...] * do[...]", "do", "dx", "back of sq M=3 N=5", None),
    ("2.001 * x[...] * do[...]", "do", "dx", "back of sq M=3 N=5", "not the gradient of sq: dx[0, 0] is"),
    ("x[...] * do[...]", "do", "dx", "back of sq M=1 N=1", "not the gradient of sq: dx[0, 0] is"),
    ("x[...] * do[...]", "do", "dx", "back of sq M=1 N=1 x=zeros", None),
    ("x[...] * do[...]", "do", "dx", "back of sq M=1 N=1 do=zeros", None),
    ("2 * x[...] * go[...]", "go", "dx", "back of sq M=3 N=5", "go of back is neither an operand of sq nor the gradient of an output"),
    ("2 * x[...] * do[...]", "do", "y", "back of sq M=3 N=5", "back gives y, which is the gradient of no input"),
    ("2 * x[...] * do[...]", "do", "dx", "back of cube M=3 N=5", "there is no kernel cube in"),
    ("2 * x[...] * do[...]", "do", "dx", "back of back M=3 N=5", "back has no reference"),
    ("2 * x[...] * do[...]", "do", "dx", "back sq M=3 N=5", "expected BACKWARD of FORWARD [in FILE] ARGUMENTS"),
    ("2 * x[...] * do[...]", "do", "dx", "forth of sq M=3 N=5", "there is no kernel forth"),
]


def directives():
    """`pkc test` and `pkc check` accept right kernels and report wrong ones."""
    path = WORK / "directive.pk"
    for body, given, result, line, said in BACKWARD:
        text = SQUARE.replace("BODY", body).replace("GIVEN", given).replace("RESULT", result)
        path.write_text(f"// gradient: {line}\n{text}")
        done = pkc("test", path)
        check(f"{line} with {body}", said in done.stdout if said else done.returncode == 0, done.stdout)
        if "of sq M=3" in line and line.startswith("back"):
            done = pkc("check", path, "-k", "back", "M=3", "N=5")
            want = "agrees with the gradient of sq" if not said else "not compared with" if "2.001" not in body else "the gradient of sq says: dx[0, 0]"
            check(f"{line} with {body}: pkc check", want in done.stdout + done.stderr and bool(done.returncode) == bool(said), done.stdout + done.stderr)
            done = pkc("prove", path, "-k", "sq", "M=3", "N=5")
            check(f"{line}: pkc prove of the forward kernel", done.returncode == 0, done.stdout + done.stderr)
    for verb in ("check", "prove"):
        path.write_text("// gradient: back sq M=3 N=5\n" + SQUARE.replace("BODY", "2 * x[...] * do[...]").replace("GIVEN", "do").replace("RESULT", "dx"))
        done = pkc(verb, path, "-k", "sq", "M=3", "N=5")
        check(f"{verb} of a malformed line", done.returncode == 1 and re.search(r":1:1: error: expected BACKWARD of FORWARD .*\[E0608\]", done.stderr), done.stderr)


# ---- `pkc grad --kernel`: the body, block by block, against the derived reference

# Masked windows that leave their refs, at constants and at a position that depends on the grid; and the same in NumPy.
MASKED = """grid (i in cdiv(M, 4) GRID); block x, n, o: [4, 8] at (i, 0);
       scratch s: vmem f32[4, 8];
       s[...] = x[...] * 2.0;
       store(s[:, 1:5], sin(x[:, 2:6]), mask = n[:, 1:5] > 1);
       let v = load(s[:, ds((i - 1) * 3, 5)], mask = n[:, :5] > 0, other = 2.0);
       o[...] = s[...];
       store(o[ds(-1, 4), 2:7], exp(v), mask = n[:, 1:6] > 0);"""
MASKED_MEANS = """let r = iota([M, 8], axis = 0); let c = iota([M, 8], axis = 1);
       let s = where(c >= 1 && c < 5 && n > 1, sin(x[r, min(c + 1, 7)]), x * 2.0);
       let col = (r / 4 - 1) * 3 + c;
       let v = where(col >= 0 && col < 8 && n > 0, s[r, clamp(col, 0, 7)], 2.0);
       let below = where(r % 4 < 3, r + 1, r);
       o = where(r % 4 < 3 && c >= 2 && c < 7 && n[below, max(c - 1, 0)] > 0, exp(v[below, max(c - 2, 0)]), s);"""

# Kernels and the sizes at which their gradients are checked.
BLOCKS = [
    # loops, memory of a part of the body, and branches with stores, one of which stores only what a condition selects
    ("""kernel k(x: f32[M, 8]) -> (o: f32[M, 8], p: f32[M, 8]) {
  grid (i in M parallel); block x, o, p: [1, 8] at (i, 0); scratch r: vmem f32[1, 8]; scratch s: vmem f32[1, 8];
  for t in 0..2 { for u in 0..4 { r[:, ds(t * 4 + u, 1)] = x[:, ds(t * 4 + u, 1)] * cast(t + 1, f32); } }
  region "inner" { scoped q: vmem f32[1, 8] { q[...] = sin(r[...]); s[...] = q[...] * x[...]; } }
  if i % 2 == 0 { o[...] = s[...]; r[...] = s[...]; } else { o[...] = r[...] * r[...]; when i % 3 == 0 { r[...] += x[...]; } }
  p[...] = r[...] * x[...];
}
reference k {
  let row = iota([M, 8], axis = 0); let y = x * where(iota([M, 8], axis = 1) < 4, 1.0, 2.0); let s = sin(y) * x;
  o = where(row % 2 == 0, s, y * y);
  p = where(row % 2 == 0, s, y + where(row % 3 == 0, x, 0.0)) * x;
}""", ["M=7", "M=1", "M=0"]),
    ("kernel k(x: f32[M, 8], n: i32[M, 8]) -> (o: f32[M, 8]) {" + MASKED.replace("GRID", "parallel") + "}\nreference k {" + MASKED_MEANS + "}",
     ["M=12 n=randint:0:4:1", "M=4 n=randint:0:4:2", "M=0 n=zeros"]),
    # a masked row that is longer than its block
    ("""kernel k(x: f32[M, 9]) -> (o: f32[M, 9]) {
       grid (b in M parallel);
       block x, o: [_, 9] at (b, 0);
       let mask = iota([16]) < 9;
       let row = load(x[ds(0, 16)], mask = mask, other = -inf);
       let e = exp(row - reduce_max(row, axis = 0, keep = false));
       store(o[ds(0, 16)], e / reduce_sum(e, axis = 0, keep = false), mask = mask);
     }
     reference k { let e = exp(x - reduce_max(x, axis = 1)); o = e / reduce_sum(e, axis = 1); }""", ["M=5", "M=1", "M=0"]),
    ("""kernel k(x: bf16[M, N], w: bf16[N]) -> (o: bf16[M, N]) {
       grid (i in cdiv(M, 4) parallel, j in cdiv(N, 8) parallel);
       block x, o: [4, 8] at (i, j); block w: [8] at (j);
       o[...] = cast(sin(cast(x[...], f32)) * cast(w[...], f32), bf16);
     }
     reference k { o = cast(sin(cast(x, f32)) * cast(w, f32), bf16); }""", ["M=9 N=17", "M=0 N=3", "M=3 N=0", "M=4 N=8"]),
    ("""kernel k(x: f32[M, N]) -> (o: f32[1, N], p: f32[M, N]) {
       grid (j in cdiv(N, 8) parallel);
       block x, p: [M, 8] at (0, j) pad 3; block o: [1, 8] at (0, j);
       o[...] = reduce_sum(log(x[...] * x[...] + 1), axis = 0); p[...] = x[...] - reduce_max(x[...], axis = 0);
     }
     reference k { o = reduce_sum(log(x * x + 1), axis = 0); p = x - reduce_max(x, axis = 0); }""", ["M=5 N=11", "M=1 N=1", "M=3 N=0"]),
    ("""kernel k(x: f32[M, 6], s: f32[1, 1], n: i32[M, 1]) -> (o: f32[M, 1]) {
       grid (i in cdiv(M, 4) parallel);
       block x: [4, 6] at (i, 0); block n, o: [4, 1] at (i, 0); block s: [1, 1] at (0, 0);
       o[...] = reduce_sum(where(n[...] > 0, log(x[...] * x[...]), x[...] * s[...]), axis = 1);
     }
     reference k { o = reduce_sum(where(n > 0, log(x * x), x * s), axis = 1); }""", ["M=9", "M=1", "M=0", "M=8"]),
    ("""kernel k(x: f32[B, M, N], w: f32[B, N]) -> (o: f32[B, M, N]) {
       grid (b in B parallel, i in cdiv(M, 4) parallel);
       block x, o: [_, 4, N] at (b, i, 0); block w: [_, N] at (b, 0);
       o[...] = x[...] * reduce_sum(x[...] * w[...], axis = 1);
     }
     reference k {
       o = x * reduce_sum(x * w[:, None, :], axis = 2);
     }""", ["B=2 M=9 N=5", "B=1 M=1 N=1", "B=3 M=0 N=2"]),
    ("""kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
       grid (i in cdiv(M, 4) parallel);
       block x, o: [4, N] at (i, 0);
       o[...] = cumsum(sort(x[...], axis = 1) * x[...], axis = 1);
     }
     reference k { o = cumsum(sort(x, axis = 1) * x, axis = 1); }""", ["M=5 N=3", "M=9 N=4", "M=0 N=1"]),
    ("""kernel k(x: f32[M, 8], w: f32[8, 3]) -> (o: f32[M, 3]) {
       grid (i in cdiv(M, 4) parallel);
       block x: [4, 8] at (i, 0); block o: [4, 3] at (i, 0);
       o[...] = max(dot(x[...], w[...]), 0);
     }
     reference k { o = max(dot(x, w), 0); }""", ["M=9", "M=1", "M=0"]),
    ("""kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
       grid (i in cdiv(M, 4) parallel);
       block x, o: [4, N] at (i, 0);
       let row = i * 4 + iota([4, N], axis = 0);
       o[...] = where(row < M, x[...], 0) * (1 + 0 * reduce_sum(where(row < M, x[...], 0), axis = 0));
     }
     reference k { o = x; }""", ["M=9 N=3"]),
    ("""kernel k(x: f32[M]) -> (o: f32[M]) {
       grid (i in cdiv(M, 8) parallel);
       block x, o: [8] at (i);
       let y = 1.0 / x[...];
       o[...] = cumsum(concatenate(y[:2], y[2:], axis = 0), axis = 0);
     }
     reference k { o = cumsum(1.0 / x, axis = 0); }""", ["M=5", "M=1", "M=8", "M=0"]),
    # blocks that overlap, from an element before the array on
    ("""kernel k(x: f32[M, N], w: f32[3]) -> (o: f32[M, N]) {
       grid (i in cdiv(M, 4) parallel, j in cdiv(N, 8) parallel);
       block x: [6, 8] at element (i * 4 - 1, j * 8) halo (1, 5), (0, 8) pad 0;
       block o: [4, 8] at (i, j);
       var sum: f32[4, 8] = 0;
       static for t in 0..3 { sum[...] += x[t:t + 4, :] * x[t:t + 4, :] * w[t]; }
       o[...] = sum[...];
     }
     reference k {
       let p = pad(x, ((1, 1), (0, 0)));
       o = p[:M, :] * p[:M, :] * w[0] + p[1:M + 1, :] * p[1:M + 1, :] * w[1] + p[2:M + 2, :] * p[2:M + 2, :] * w[2];
     }""", ["M=9 N=17", "M=1 N=1", "M=4 N=8", "M=0 N=3", "M=3 N=0"]),
    # blocks chosen by a list, along a squeezed axis and along one whose last block overhangs
    ("""kernel k(x: f32[P, N, 6], y: bf16[N, 6]) -> (o: f32[B, 2, 6]) {
       prefetch page: i32[B], part: i32[B];
       grid (b in B parallel);
       block x: [_, 2, 6] at (page[b], part[b], 0) pad 1;
       block y: [2, 6] at (part[b], 0) pad 0;
       block o: [_, 2, 6] at (b, 0, 0);
       o[...] = exp(x[...]) * cast(y[...], f32);
     }
     reference k {
       let row = cast(part[:, None], i64) * 2 + iota([B, 2], axis = 1, dtype = i64);
       let there = (row < N)[:, :, None];
       let at = where(row < N, row, 0);
       o = exp(where(there, x[page[:, None], at, :], 1)) * where(there, cast(y, f32)[at, :], 0);
     }""",
     ["B=7 P=3 N=5 page=randint:0:3:1 part=randint:0:3:2", "B=1 P=1 N=2 page=zeros part=zeros", "B=4 P=2 N=4 page=randint:0:2:3 part=randint:0:3:2"]),
    # one block for two steps, backwards; an axis of the array moved by two grid axes; the second block; a diagonal
    ("""kernel k(x: f32[M, 4], y: f32[6, 4], z: f32[8, 4], u: f32[6, 6]) -> (o: f32[2, 3, 4]) {
       grid (a in 2 parallel, b in 3 parallel);
       block x: [1, 4] at ((5 - a * 3 - b) / 2, 0); block y: [1, 4] at (a * 3 + b, 0);
       block z: [4, 4] at (1, 0); block u: [2, 2] at (b, b);
       block o: [_, 1, 4] at (a, b, 0);
       o[...] = x[...] * y[...] + reduce_sum(z[...] * z[...], axis = 0) * reduce_sum(u[...]);
     }
     reference k {
       let i = iota([2, 3], axis = 0) * 3 + iota([2, 3], axis = 1);
       let s = reshape(u, [3, 2, 3, 2]);
       let t = where(iota([3, 3], axis = 0) == iota([3, 3], axis = 1), reduce_sum(s, axis = (1, 3), keep = false), 0);
       o = x[(5 - i) / 2, :] * y[i, :] + reduce_sum(z[4:, :] * z[4:, :], axis = 0)[None, :, :] * reduce_sum(t, axis = 0, keep = false)[None, :, None];
     }""", ["M=3"]),
    # memory that each step stores in parts before it reads it, and outputs that it reads again
    ("""kernel k(x: f32[M, 8]) -> (o: f32[M, 8], p: f32[M, 8]) {
       grid (i in cdiv(M, 4) parallel);
       block x, o, p: [4, 8] at (i, 0);
       scratch s: vmem f32[4, 8];
       s[...] = x[...] * x[...];
       s[:, 2:5] = sin(x[:, 3:6]) * s[:, 0:3];
       o[:, :4] = s[:, 4:]; o[:, 4:] = s[:, :4] * x[:, 1:5];
       p[...] = o[...] * o[...];
       p[2, 1:3] = x[0, :2];
       o[...] = p[...] + 1;
     }
     reference k {
       let s0 = x * x;
       let s = concatenate(s0[:, :2], sin(x[:, 3:6]) * s0[:, :3], s0[:, 5:], axis = 1);
       let o1 = concatenate(s[:, 4:], s[:, :4] * x[:, 1:5], axis = 1);
       let row = iota([M, 8], axis = 0);
       let first = x[where(row < 2, 0, row - 2), where(iota([M, 8], axis = 1) < 1, 0, iota([M, 8], axis = 1) - 1)];
       p = where(row % 4 == 2 && iota([M, 8], axis = 1) >= 1 && iota([M, 8], axis = 1) < 3, first, o1 * o1);
       o = p + 1;
     }""", ["M=9", "M=1", "M=4", "M=0"]),
    # an output that shares the memory of an input and keeps it where nothing is stored
    ("""kernel k(x: f32[M, 8], y: f32[M, 8]) -> (o: f32[M, 8]) {
       alias o = x;
       grid (i in cdiv(M, 4) parallel);
       block x, y, o: [4, 8] at (i, 0);
       o[:, 2:5] = sin(x[:, 2:5]) * o[:, 3:6] * y[:, :3] + y[:, 5:];
       o[:, 4:6] = o[:, :2] * x[:, 2:4];
     }
     reference k {
       let a = concatenate(x[:, :2], sin(x[:, 2:5]) * x[:, 3:6] * y[:, :3] + y[:, 5:], x[:, 5:], axis = 1);
       o = concatenate(a[:, :4], a[:, :2] * x[:, 2:4], a[:, 6:], axis = 1);
     }""", ["M=9", "M=1", "M=4", "M=0"]),
]
# Sums along axes of the grid; --kernel derives only their gradients.
SUMS = [
    # in scratch, whose last step stores a linear function, with an input that the summed axis ignores; edges along all axes
    ("""kernel k(x: f32[M, K], y: f32[K, N], s: f32[N]) -> (o: bf16[M, N]) {
       grid (i in cdiv(M, 4) parallel, j in cdiv(N, 8) parallel, t in max(1, cdiv(K, 3)) arbitrary);
       block x: [4, 3] at (i, t) pad 0; block y: [3, 8] at (t, j) pad 0; block s: [8] at (j); block o: [4, 8] at (i, j);
       scratch acc: vmem f32[4, 8];
       when t == 0 { acc[...] = 0; }
       acc[...] = dot(sin(x[...]), y[...]) * s[...] + acc[...];
       when t == num_programs(t) - 1 { o[...] = cast(-(acc[...] * 0.5), bf16); }
     }
     reference k { o = cast(-(dot(sin(x), y) * s * 0.5), bf16); }""", ["M=9 N=11 K=7", "M=1 N=1 K=1", "M=3 N=5 K=0", "M=0 N=2 K=2"]),
    # in an output, along two axes of constant extents
    ("""kernel k(x: f32[6, 10, N]) -> (o: f32[N]) {
       grid (j in cdiv(N, 4) parallel, a in 2, b in 5);
       block x: [3, 2, 4] at (a, b, j); block o: [4] at (j);
       when a == 0 && b == 0 { o[...] = 0; }
       o[...] += reduce_sum(x[...] * x[...], axis = (0, 1), keep = false);
     }
     reference k { o = reduce_sum(x * x, axis = (0, 1), keep = false); }""", ["N=7", "N=1", "N=0"]),
    # an unused input
    ("""kernel k(x: bf16[M, K], y: bf16[N]) -> (o: f32[M, N]) {
       grid (i in cdiv(M, 4) parallel, j in cdiv(N, 4) parallel, t in max(1, cdiv(K, 4)));
       block x: [4, 4] at (i, t) pad 0; block y: [4] at (j); block o: [4, 4] at (i, j);
       when t == 0 { o[...] = 0; }
       o[...] += broadcast(reduce_sum(cast(x[...], f32), axis = 1), [4, 4]);
     }
     reference k { o = broadcast(reduce_sum(cast(x, f32), axis = 1), [M, N]); }""", ["M=5 N=6 K=7", "M=1 N=1 K=0", "M=0 N=2 K=2"]),
    # two sums; the last step stores one of them
    ("""kernel k(x: f32[M, 4]) -> (o: f32[1, 4], p: f32[1, 4]) {
       grid (i in max(1, cdiv(M, 4)));
       block x: [4, 4] at (i, 0) pad 0; block o, p: [1, 4] at (0, 0);
       scratch acc: vmem f32[1, 4];
       when i == 0 { acc[...] = 0; p[...] = 0; }
       acc[...] += reduce_sum(x[...], axis = 0);
       p[...] += reduce_sum(x[...] * x[...], axis = 0);
       when i == num_programs(i) - 1 { o[...] = acc[...] / 4.0; }
     }
     reference k { o = reduce_sum(x, axis = 0) / 4.0; p = reduce_sum(x * x, axis = 0); }""", ["M=9", "M=1", "M=0"]),
    # a last step that is not linear, with further inputs, one of which is the same along rows
    ("""kernel k(x: f32[M, K], y: f32[K, N], b: f32[N], r: f32[M, N]) -> (o: f32[M, N]) {
       grid (i in cdiv(M, 4) parallel, j in cdiv(N, 8) parallel, t in max(1, cdiv(K, 3)) arbitrary);
       block x: [4, 3] at (i, t) pad 0; block y: [3, 8] at (t, j) pad 0; block b: [8] at (j); block r, o: [4, 8] at (i, j);
       scratch acc: vmem f32[4, 8];
       when t == 0 { acc[...] = 0; }
       acc[...] += dot(x[...], y[...]);
       when t == num_programs(t) - 1 { o[...] = tanh(acc[...] + b[...]) * r[...]; }
     }
     reference k { o = tanh(dot(x, y) + b) * r; }""", ["M=9 N=11 K=7", "M=1 N=1 K=1", "M=3 N=5 K=0", "M=0 N=2 K=2"]),
    # two sums in one output, in steps that a condition skips; rows of the last step are reduced
    ("""kernel k(x: f32[M, 6], y: f32[K, 6]) -> (o: f32[M, 6]) {
       grid (i in cdiv(M, 4) parallel, t in max(1, cdiv(K, 2)) arbitrary);
       block x, o: [4, 6] at (i, 0); block y: [2, 6] at (t, 0) pad 0;
       scratch a: vmem f32[4, 6]; scratch c: vmem f32[4, 1];
       when t == 0 { a[...] = 0; c[...] = 0; }
       when t * 2 <= i * 4 + 3 {
         let row = i * 4 + iota([4, 2], axis = 0); let col = t * 2 + iota([4, 2], axis = 1);
         let s = where(col <= row && col < K, einsum("ac,bc->ab", x[...], y[...]), 0);
         a[...] += dot(s, y[...]); c[...] = reduce_sum(s * s, axis = 1) + c[...];
       }
       when t == num_programs(t) - 1 { o[...] = a[...] * rsqrt(c[...] + reduce_sum(a[...], axis = 1) * 0 + 1); }
     }
     reference k {
       let s = where(iota([M, K], axis = 1) <= iota([M, K], axis = 0), einsum("ac,bc->ab", x, y), 0);
       let a = dot(s, y);
       o = a * rsqrt(reduce_sum(s * s, axis = 1) + 1);
     }""", ["M=9 K=7", "M=1 K=1", "M=3 K=0", "M=5 K=13"]),
    # without sums: the gradient of a skipped step is 0
    ("""kernel k(x: f32[8, 6]) -> (o: f32[1, 6]) {
       grid (t in 4 arbitrary);
       block x: [2, 6] at (t, 0); block o: [1, 6] at (0, 0);
       scratch a: vmem f32[1, 6];
       when t == 0 { a[...] = 0; }
       when t < 2 { a[...] += reduce_sum(x[...] * x[...], axis = 0); }
       when t == num_programs(t) - 1 { o[...] = sqrt(a[...]); }
     }
     reference k { o = sqrt(reduce_sum(x[:4, :] * x[:4, :], axis = 0)); }""", [""]),
    # sums that a maximum scales, in powers of 2, with a guard; heads share keys, of constant extents
    ("""kernel k(q: f32[6, M, 4], y: f32[3, K, 4], b: f32[6]) -> (o: f32[6, M, 4], e: f32[6, M, 1]) {
       grid (h in 6 parallel, i in cdiv(M, 4) parallel, t in max(1, cdiv(K, 2)));
       block q, o: [_, 4, 4] at (h, i, 0); block y: [_, 2, 4] at (h / 2, t, 0) pad 0; block b: [1] at (h); block e: [_, 4, 1] at (h, i, 0);
       scratch top, l: vmem f32[4, 1]; scratch acc: vmem f32[4, 4];
       when t == 0 { top[...] = -1e30; l[...] = 0; acc[...] = 0; }
       let s = where(t * 2 + iota([4, 2], axis = 1) < K, einsum("ac,bc->ab", q[...], y[...]), -inf);
       let new = max(top[...], reduce_max(s, axis = 1));
       let p = exp2((s - new) * 1.5);
       let scale = exp2(1.5 * (top[...] - new));
       l[...] = reduce_sum(p, axis = 1) + l[...] * scale;
       acc[...] = acc[...] * scale + dot(p, y[...]);
       top[...] = new;
       when t == num_programs(t) - 1 {
         let sum = where(l[...] == 0, 1, l[...]);
         o[...] = acc[...] / sum * b[...];
         e[...] = top[...] * 1.5 + log2(sum);
       }
     }
     reference k {
       let z = y[iota([6]) / 2, :, :];
       let s = einsum("hac,hbc->hab", q, z);
       let m = max(reduce_max(s, axis = 2), -1e30);
       let p = exp2((s - m) * 1.5);
       let l = reduce_sum(p, axis = 2);
       let sum = where(l == 0, 1, l);
       o = einsum("hab,hbc->hac", p, z) / sum * b[:, None, None];
       e = m * 1.5 + log2(sum);
     }""", ["M=5 K=7", "M=1 K=1", "M=4 K=2", "M=3 K=0", "M=0 K=3"]),
    # sums that are scaled by a quotient
    ("""kernel k(x: f32[K, 4]) -> (o: f32[1, 4]) {
       grid (t in max(1, cdiv(K, 2)));
       block x: [2, 4] at (t, 0) pad 1; block o: [1, 4] at (0, 0);
       scratch top, a: vmem f32[1, 4];
       when t == 0 { top[...] = 1; a[...] = 0; }
       let new = max(top[...], reduce_max(abs(x[...]), axis = 0));
       let s = reduce_sum(where(t * 2 + iota([2, 4], axis = 0) < K, x[...] * x[...], 0), axis = 0);
       a[...] = a[...] * (top[...] / new) + s / new;
       top[...] = new;
       when t == num_programs(t) - 1 { o[...] = sin(a[...] * top[...]); }
     }
     reference k { o = sin(reduce_sum(x * x, axis = 0)); }""", ["K=5", "K=1", "K=0"]),
]

# Bodies of `kernel k(x: f32[M, 8]) -> (o: f32[1, 8])` that resemble sums but are none: they carry state.
SUM = "grid (i in max(1, cdiv(M, 4))); block x: [4, 8] at (i, 0) pad 0; block o: [1, 8] at (0, 0); MEMORY FIRST STEP LAST"
NO_SUMS = [
    ("s[...] = 1;", "s[...] += reduce_sum(x[...], axis = 0);", "o[...] = s[...];"),
    ("s[...] = 0;", "s[...] += s[...] * reduce_sum(x[...], axis = 0);", "o[...] = s[...];"),
    ("s[...] = 0;", "s[...] += reduce_sum(x[...], axis = 0); s[...] += 1;", "o[...] = s[...];"),
    ("s[...] = 0;", "s[...] += reduce_sum(x[...], axis = 0);", "o[...] = s[...] + x[...][:1, :];"),
    ("s[...] = 0;", "let v = s[...]; s[...] = v + v * reduce_sum(x[...], axis = 0);", "o[...] = s[...];"),
    ("", "s[...] += reduce_sum(x[...], axis = 0); when i == 0 { s[...] = 0; }", "o[...] = s[...];"),
    ("s[...] = 0;", "when i == num_programs(i) - 1 { o[...] = s[...]; } s[...] += reduce_sum(x[...], axis = 0);", ""),
    ("s[...] = 0;", "s[...] = max(s[...], reduce_sum(x[...], axis = 0));", "o[...] = s[...];"),
    # the last step uses a value that each step computes
    ("s[...] = 0;", "let u = reduce_sum(x[...], axis = 0); s[...] += u;", "o[...] = s[...] * s[...] + u;"),
    # a decaying sum; outputs in which the point does not cancel; a term that does not depend on the point
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = 2 * exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = s[...] / s[...];"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = s[...];"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = m[...];"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = m[...] + 2 * log(s[...]);"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + v; m[...] = new;", "o[...] = m[...] + log(s[...]);"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(new - m[...]) * s[...] + p; m[...] = new;", "o[...] = m[...] + log(s[...]);"),
    ("m[...] = -9; s[...] = 0;", "STEP2 m[...] = new; s[...] = exp(m[...] - new) * s[...] + p;", "o[...] = m[...] + log(s[...]);"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p * m[...]; m[...] = new;", "o[...] = m[...] + log(s[...]);"),
    ("m[...] = -9; s[...] = 1;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = m[...] + log(s[...]);"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = m[...] + log(where(s[...] == 1, 1, s[...]));"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p * v; m[...] = new;", "o[...] = m[...] + log(where(s[...] == 0, 1, s[...]));"),
    ("m[...] = -9; s[...] = -9;", "STEP2 s[...] = max(s[...], m[...] - new); m[...] = new;", "o[...] = m[...] - s[...];"),
    # column sums with different points
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = s[...] / reduce_sum(s[...], axis = 1);"),
    ("m[...] = -9; s[...] = 0;", "STEP2 s[...] = exp(m[...] - new) * s[...] + p; m[...] = new;", "o[...] = s[...] / rev(s[...], axis = 1);"),
]
# For STEP2: a new point, and terms of sums.
POINT = "let v = reduce_sum(x[...], axis = 0); let new = max(m[...], v); let p = exp(v - new);"

# State that a kernel carries from step to step, and the sizes at which its gradient is checked.
CARRIED = [
    # a linear recurrence, with the state before the first and after the last step
    ("""kernel k(x: f32[M, 8], a: f32[1, 8], first: f32[1, 8]) -> (y: f32[M, 8], last: f32[1, 8]) {
  grid (i in max(1, M) arbitrary); block x, y: [1, 8] at (i, 0); block a, first, last: [1, 8] at (0, 0);
  scratch h: vmem f32[1, 8];
  when i == 0 { h[...] = first[...]; }
  h[...] = where(i < M, a[...] * h[...] + x[...], h[...]);
  y[...] = h[...];
  when i == num_programs(i) - 1 { last[...] = h[...] * 2.0; }
}
reference k {
  var h: f32[8] = 0.0; var all: f32[M, 8] = 0.0; h = first[0, :];
  for t in 0..M { h = a[0, :] * h + x[t, :]; all[t, :] = h; }
  y = all; last = (h * 2.0)[None, :];
}""", ["M=7", "M=1", "M=0"]),
    # not linear, for each row of a batch; all rows share w
    ("""kernel k(x: f32[B, M, 8], w: f32[1, 8], s: f32[1, 1]) -> (y: f32[B, M, 8]) {
  grid (b in B parallel, i in M arbitrary); block x, y: [_, 1, 8] at (b, i, 0); block w: [1, 8] at (0, 0); block s: [1, 1] at (0, 0);
  scratch h: vmem f32[1, 8];
  when i == 0 { h[...] = 0.5; }
  h[...] = sin(h[...] * x[...] + w[...] * s[...]);
  y[...] = h[...] * x[...];
}
reference k {
  var h: f32[B, 8] = 0.0; var all: f32[B, M, 8] = 0.0; h = broadcast(0.5, [B, 8]);
  for t in 0..M { h = sin(h * x[:, t, :] + w * s); all[:, t, :] = h * x[:, t, :]; }
  y = all;
}""", ["B=3 M=5", "B=1 M=1", "B=0 M=3", "B=2 M=0"]),
    # two states in blocks of rows, which overhang; one is read before it is set anew
    ("""kernel k(x: f32[N, 5]) -> (o: f32[N, 5], p: f32[1, 5]) {
  grid (i in max(1, cdiv(N, 4)) arbitrary); block x, o: [4, 5] at (i, 0) pad 0; block p: [1, 5] at (0, 0);
  scratch s, t: vmem f32[1, 5];
  when i == 0 { s[...] = 1; t[...] = 2; }
  let inside = i * 4 + iota([4, 5], axis = 0) < N;
  let old = s[...];
  s[...] = old + reduce_sum(where(inside, x[...] * t[...], 0.0), axis = 0);
  t[...] = cos(t[...]) + old * 0.25;
  o[...] = x[...] * old + exp(-t[...] * t[...]);
  p[...] = s[...] * t[...];
}
reference k {
  var s: f32[5] = 1.0; var t: f32[5] = 2.0; var all: f32[N, 5] = 0.0;
  for c in 0..max(1, (N + 3) / 4) {
    let old = s; let before = t; var sum: f32[5] = 0.0;
    for r in 0..4 { if c * 4 + r < N { sum = sum + x[c * 4 + r, :] * before; } }
    s = old + sum; t = cos(before) + old * 0.25;
    for r in 0..4 { if c * 4 + r < N { all[c * 4 + r, :] = x[c * 4 + r, :] * old + exp(-t * t); } }
  }
  o = all; p = (s * t)[None, :];
}""", ["N=9", "N=8", "N=1", "N=0"]),
    # heads that share keys, whose gradients other kernels add up
    ("""kernel k(x: f32[H, M, 4], c: f32[G, M, 4], b: f32[H, 1, 4]) -> (y: f32[H, M, 4]) {
  require H % G == 0;
  grid (h in H parallel, i in M arbitrary); block x, y: [_, 1, 4] at (h, i, 0); block c: [_, 1, 4] at (h / (H / G), i, 0); block b: [_, 1, 4] at (h, 0, 0);
  scratch s: vmem f32[1, 4];
  when i == 0 { s[...] = b[...]; }
  s[...] = s[...] * c[...] + x[...];
  y[...] = s[...] * s[...] * c[...];
}
reference k {
  let g = iota([H]) / (H / G); var s: f32[H, 4] = 0.0; var all: f32[H, M, 4] = 0.0; s = b[:, 0, :];
  for t in 0..M { s = s * c[g, t, :] + x[:, t, :]; all[:, t, :] = s * s * c[g, t, :]; }
  y = all;
}""", ["H=4 G=2 M=5", "H=3 G=1 M=2", "H=2 G=2 M=1", "H=2 G=1 M=0"]),
    # a running maximum that reaches outputs; a counter of steps
    ("""kernel k(x: f32[M, 6]) -> (y: f32[M, 6]) {
  grid (i in M arbitrary); block x, y: [1, 6] at (i, 0);
  scratch m: vmem f32[1, 1]; scratch n: smem i32[1];
  when i == 0 { m[...] = -1e30; n[0] = 1; }
  m[...] = max(m[...], reduce_max(x[...], axis = 1));
  y[...] = (x[...] - m[...]) * x[...] * cast(n[0], f32);
  n[0] = n[0] + 2;
}
reference k {
  let m = cummax(reduce_max(x, axis = 1), axis = 0);
  y = (x - m) * x * cast(iota([M, 1], axis = 0) * 2 + 1, f32);
}""", ["M=7", "M=1", "M=0"]),
    # parts of a state; a state of narrow inputs; two axes that carry it
    ("""kernel k(x: bf16[M, N, 4], w: bf16[M, 4]) -> (y: bf16[M, N, 4], e: f32[1, 8]) {
  grid (i in M arbitrary, j in N arbitrary); block x, y: [_, 1, 4] at (i, j, 0); block w: [1, 4] at (i, 0); block e: [1, 8] at (0, 0);
  scratch s: vmem f32[1, 8];
  when i == 0 && j == 0 { s[...] = 0.25; }
  let v = cast(x[...], f32);
  s[:, 0:4] = sin(s[:, 4:8] + v);
  s[:, 4:8] = s[:, 0:4] * cast(w[...], f32) + s[:, 4:8] * 0.5;
  y[...] = cast(s[:, 4:8] * v, bf16);
  when i == num_programs(i) - 1 && j == num_programs(j) - 1 { e[...] = s[...]; }
}
reference k {
  var a: f32[4] = 0.25; var b: f32[4] = 0.25; var all: f32[M, N, 4] = 0.0; let v = cast(x, f32);
  for i in 0..M { for j in 0..N { a = sin(b + v[i, j, :]); b = a * cast(w[i, :], f32) + b * 0.5; all[i, j, :] = b * v[i, j, :]; } }
  y = cast(all, bf16); e = concatenate(a, b, axis = 0)[None, :];
}""", ["M=2 N=3", "M=1 N=1"]),
    # masked and conditional stores of a state, and values that other steps do not read
    ("""kernel k(x: f32[M, 8], n: i32[M, 8]) -> (y: f32[M, 8]) {
  grid (i in M arbitrary); block x, n, y: [1, 8] at (i, 0);
  scratch s, t: vmem f32[1, 8];
  when i == 0 { s[...] = 0; }
  t[...] = x[...] * 3.0;
  when i % 2 == 0 { s[...] = s[...] * t[...] + x[...]; }
  store(s[...], log(x[...] * x[...] + 1.0), mask = n[...] > 1);
  y[...] = s[...] + t[...];
}
reference k {
  var s: f32[8] = 0.0; var all: f32[M, 8] = 0.0;
  for i in 0..M {
    s = where(i % 2 == 0, s * (x[i, :] * 3.0) + x[i, :], s);
    s = where(n[i, :] > 1, log(x[i, :] * x[i, :] + 1.0), s);
    all[i, :] = s + x[i, :] * 3.0;
  }
  y = all;
}""", ["M=6 n=randint:0:4:1", "M=1 n=zeros", "M=0 n=zeros"]),
    # a state that depends on no input: the kernel of the states has x for the number of steps alone
    ("""kernel k(v: f32[1, 5], x: f32[M, 5]) -> (o: f32[M, 5]) {
  grid (i in cdiv(M, 3) arbitrary); block x: [3, 5] at (i, 0) pad 0; block o: [3, 5] at (i, 0); block v: [1, 5] at (0, 0);
  scratch h: vmem f32[1, 5];
  when i == 0 { h[...] = 0.5; }
  h[...] = cos(h[...] * 2.0);
  o[...] = x[...] * h[...] * v[...];
}
reference k {
  var h: f32[5] = 0.5; var all: f32[M, 5] = 0.0;
  for t in 0..M { if t % 3 == 0 { h = cos(h * 2.0); } all[t, :] = h; }
  o = x * all * v;
}""", ["M=7", "M=3", "M=1", "M=0"]),
]

# Bodies of `kernel k(x: f32[M, 8]) -> (o: f32[M, 8])`, and the message for each.
REFUSED = [
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); for t in 0..M { o[...] = x[...]; }", "--kernel writes a loop out if its bounds are constants"),
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); for t in 0..3000 { o[...] = x[...]; }", "--kernel writes a loop out if its bounds are constants"),
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); var n: i32 = 3; while n > 0 { o[...] = x[...]; n = n - 1; }", "`while` has no derivative: no size bounds the iterations"),
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); for t in 0..3 { o[...] = x[...]; break; }", "--kernel writes a loop out"),
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); scoped q: vmem f32[1, 8] { o[...] = x[...] * q[...]; }", "`q` is read before a step has stored all of it"),
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); o[...] = x[0, ds(i % 8, 1)];", "--kernel differentiates accesses of whole blocks, as in `x[...]`, and of parts that begin at constants"),
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); o[0, :4] = x[0, :4]; o[...] = o[...] * 2;", "`o` is read before a step has stored all of it"),
    ("grid (i in M parallel, t in 2 arbitrary); block x, o: [1, 8] at (i, 0); o[...] = x[...];", "blocks of `o` are the same in each step along `t`"),
    ("grid (i in M parallel); block x: [1, 8] at (i, 0); block o: [2, 8] at (i / 2, 0); o[...] = broadcast(x[...], [2, 8]);", "`o` has another index map"),
    ("grid (i in 3 parallel); block x, o: [1, 8] at (i, 0); o[...] = x[...];", "`o` has another index map"),
    ("grid (i in M parallel); block x: [1, 8] at slice (ds(i, 1), 0); block o: [1, 8] at (i, 0); o[...] = x[...];", "blocks of `x` are slices"),
    ("prefetch n: i32[M]; grid (i in M parallel); block x, o: [1, 8] at (i, 0); o[...] = x[...] * cast(n[i], f32);", "is computed from an element of `n`"),
    ("grid (i in M arbitrary); block x, o: [1, 8] at (i, 0); scratch s: vmem f32[1, 8]; o[...] = s[...]; for t in 0..M { s[...] = x[...]; }",
     "--kernel writes a loop out if its bounds are constants"),
    ("grid (i in M arbitrary, j in 2 parallel); block x, o: [1, 4] at (i, j); scratch s: vmem f32[1, 4]; o[...] = s[...]; s[...] = x[...];",
     "`s` is read before a step has stored all of it"),
    ("grid (i in M arbitrary); block x, o: [1, 8] at (i, 0); scratch s: vmem bf16[1, 8]; o[...] = cast(s[...], f32); s[...] = cast(x[...], bf16);",
     "`s` carries narrow floats from step to step"),
    ("grid (i in M arbitrary); block x: [1, 8] at (i / 2, 0); block o: [1, 8] at (i, 0); scratch s: vmem f32[1, 8]; o[...] = s[...]; s[...] = x[...];",
     "`x` has another index map"),
    ("alias o = x; grid (i in M parallel); block x: [1, 8] at (M - 1 - i, 0); block o: [1, 8] at (i, 0); o[...] = x[...];",
     "`o` shares the memory of `x` and has other blocks"),
    ("grid (i in M parallel); block x, o: [1, 8] at (i, 0); when i > 0 { for t in 0..M { o[...] = x[...]; } }", "--kernel does not differentiate `if`"),
]


def derives(what, path, options, kernel, sizes, to):
    """Derives the kernel of the file, and compares the gradient with that of its reference at each of the sizes."""
    done = derived(path, to, "--kernel", *options)
    if check(f"{what}: derived", done.returncode == 0, done.stderr):
        for words in sizes:
            done = pkc("check", to, "-k", kernel, *words.split(), "--quiet")
            check(f"{what} at {words}", done.returncode == 0, done.stdout + done.stderr)


def derives_backward_only(what, path, sizes, to):
    """Derives the gradient of the kernel as derives() does; its derivative along directions is refused."""
    derives(what, path, [], "k_backward", sizes, to)
    done = pkc("grad", path, "--kernel", "--forward")
    check(f"{what}: not along directions", done.returncode == 1 and "[E0607]" in done.stderr, done.stderr)


def sums():
    path, to = WORK / "sums.pk", WORK / "sums_backward.pk"
    for number, (text, sizes) in enumerate(SUMS):
        path.write_text(text)
        derives_backward_only(f"sums {number}", path, sizes, to)
    for first, step, last in NO_SUMS:
        memory = "".join(f"scratch {name}: vmem f32[1, 8]; " for name in ("s", "m") if f"{name}[" in first + step)
        step = step.replace("STEP2", POINT)
        body = SUM.replace("MEMORY", memory).replace("FIRST", f"when i == 0 {{ {first} }}").replace("STEP", step).replace("LAST", f"when i == num_programs(i) - 1 {{ {last} }}")
        text = "kernel k(x: f32[M, 8]) -> (o: f32[1, 8]) {\n" + body.replace("; ", ";\n") + "\n}\n"
        path.write_text(text.replace("M, 8", "12, 8").replace("max(1, cdiv(M, 4))", "3"))
        state(f"no sum: {first} {step} {last}", path, to)


def state(what, path, to):
    """A kernel without a reference that carries state: its derivative equals that of its body, step by step."""
    steps, done = pkc("grad", path), derived(path, to, "--kernel")
    if check(f"{what}: derived", done.returncode == 0 and steps.returncode == 0, done.stderr + steps.stderr):
        to.write_text(done.stdout + re.sub(r"^reference k_backward\(.*?\{$", "reference k_backward {", steps.stdout, flags=re.M | re.S))
        done = pkc("check", to, "-k", "k_backward")
        check(what, "agrees with the reference" in done.stdout, done.stdout + done.stderr)


def carried():
    path, to = WORK / "carried.pk", WORK / "carried_backward.pk"
    for number, (text, sizes) in enumerate(CARRIED):
        path.write_text(text)
        derives_backward_only(f"carried {number}", path, sizes, to)
    path.write_text(CARRIED[1][0])
    derived(path, to, "--kernel", "--memory", "1K")
    for size, fits in ((14, True), (15, False)):
        done = pkc("check", to, "-k", "k_backward", "B=2", f"M={size}", "--quiet")
        said = "the gradient keeps 32 * B * M + 32 * B + 4 * B bytes" in done.stderr
        check(f"carried: --memory 1K at M={size}", done.returncode == 0 if fits else done.returncode and said, done.stdout + done.stderr)


def blocks():
    path, to = WORK / "blocks.pk", WORK / "blocks_backward.pk"
    for number, (text, sizes) in enumerate(BLOCKS):
        path.write_text(text)
        derives(f"blocks {number}", path, [], "k_backward", sizes, to)
        derives(f"blocks {number} along directions", path, ["--forward"], "k_forward", sizes, to)
    path.write_text("kernel k(x: f32[M]) -> (o: f32[M]) { o[...] = x[...] * x[...]; }\n")
    done = pkc("grad", path, "--kernel", "--wrt", "y")
    check("--kernel --wrt y", done.returncode == 1 and "`y` is not an input of `k`" in done.stderr, done.stderr)
    done = derived(path, to, "--kernel", "--wrt", "x")
    check("--kernel without a reference", done.returncode == 0 and "reference" not in to.read_text(), done.stderr)
    path.write_text("kernel k(x: f32[50000, 768]) -> (o: f32[N, 768]) {\nprefetch id: i32[N];\ngrid (n in N parallel);\n"
                    "block x: [1, 768] at (id[n], 0); block o: [1, 768] at (n, 0);\no[...] = x[...];\n}\n")
    done = pkc("grad", path, "--kernel")
    check("--kernel of a sum that VMEM does not hold", done.returncode == 1 and "needs 153600000 bytes there, more than the limit of 134217728" in done.stderr, done.stderr)
    for body, said in REFUSED:
        path.write_text("kernel k(x: f32[M, 8]) -> (o: f32[M, 8]) {\n" + body.replace("; ", ";\n") + "\n}\nreference k { o = x; }\n")
        done = pkc("grad", path, "--kernel")
        check(f"--kernel of {body}", done.returncode == 1 and said in done.stderr and re.search(r":\d+:\d+: error: .*\[E0607\]", done.stderr), done.stderr)


# ---- `--saved`: outputs of the forward kernel that its gradient reads, compared by a line `// gradient:`
#
# (the kernel, the outputs that its gradient reads, sizes, what the gradient does not contain)
SOFTMAX = """kernel k(x: T[M, N]) -> (o: T[M, N]) {
  static T: dtype = f32;
  grid (i in cdiv(M, 4) parallel); block x, o: [4, N] at (i, 0);
  let v = cast(x[...], accum(T)); let e = EXP(v - reduce_max(v, axis = 1)); let t = reduce_sum(e, axis = 1);
  o[...] = cast(QUOTIENT, T);
}
reference k { let v = cast(x, accum(T)); let e = EXP(v - reduce_max(v, axis = 1)); o = cast(e / reduce_sum(e, axis = 1), T); }
"""
# weights, a sum of rows by them, and the logarithm of their sum, in two steps along the keys; no query sees some of the keys
ATTENTION = """kernel k(q: f32[N, 8], x: f32[S, 8], v: f32[S, 4], n: i32[N, 1]) -> (o: f32[N, 4], lse: f32[N, 1]) {
  grid (i in cdiv(N, 4) parallel, j in max(1, cdiv(S, 2)) arbitrary);
  block q: [4, 8] at (i, 0); block x: [2, 8] at (j, 0) pad 0; block v: [2, 4] at (j, 0) pad 0; block n, lse: [4, 1] at (i, 0); block o: [4, 4] at (i, 0);
  scratch m, l: vmem f32[4, 1]; scratch acc: vmem f32[4, 4];
  when j == 0 { m[...] = -1e30; l[...] = 0; acc[...] = 0; }
  let col = j * 2 + iota([4, 2], axis = 1);
  let s = where(col < S && col < n[...], dot(q[...], x[...].T), -inf);
  let new = max(m[...], reduce_max(s, axis = 1)); let p = exp(s - new); let scale = exp(m[...] - new);
  l[...] = scale * l[...] + reduce_sum(p, axis = 1);
  acc[...] = scale * acc[...] + dot(p, v[...]);
  m[...] = new;
  when j == num_programs(j) - 1 { let t = where(l[...] == 0, 1, l[...]); o[...] = acc[...] / t; lse[...] = m[...] + log(t); }
}
reference k {
  let s = where(iota([N, S], axis = 1) < n, dot(q, x.T), -inf);
  let m = max(reduce_max(s, axis = 1), -1e30); let p = exp(s - m); let l = reduce_sum(p, axis = 1); let t = where(l == 0, 1, l);
  o = dot(p, v) / t; lse = m + log(t);
}
"""
SAVED = [
    (SOFTMAX.replace("EXP", "exp").replace("QUOTIENT", "e / t"), "o", ["M=7 N=5", "M=1 N=1", "M=0 N=3", "M=3 N=0"], "exp("),
    (SOFTMAX.replace("EXP", "exp").replace("QUOTIENT", "e / t").replace("T: dtype = f32", "T: dtype = bf16"), "o", ["M=9 N=70", "M=1 N=1"], "exp("),
    (SOFTMAX.replace("EXP", "exp").replace("QUOTIENT", "e * (1.0 / t)"), "o", ["M=7 N=5 x=randint:-99:99:1"], "exp("),
    (SOFTMAX.replace("EXP", "exp2").replace("QUOTIENT", "e / t"), "o", ["M=7 N=5"], "exp2("),
    (ATTENTION, "o,lse", ["N=7 S=5 n=randint:0:5:1", "N=1 S=1 n=const:1", "N=4 S=0 n=zeros", "N=0 S=3 n=zeros", "N=5 S=4 n=zeros"], "_sums("),
    # a function of one value
    ("kernel k(x: f32[M]) -> (o: f32[M]) { grid (i in cdiv(M, 4) parallel); block x, o: [4] at (i); o[...] = tanh(x[...]) * 1.0; }\nreference k { o = tanh(x); }",
     "o", ["M=7", "M=1", "M=0"], "tanh("),
    # only the logarithm of a sum, and a value that is still computed
    ("""kernel k(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, 1], lse: f32[M, 1]) {
  grid (i in cdiv(M, 4) parallel); block x, y: [4, N] at (i, 0); block o, lse: [4, 1] at (i, 0);
  let v = x[...]; let m = reduce_max(v, axis = 1); let t = reduce_sum(exp(v - m), axis = 1);
  lse[...] = log(t) + m; o[...] = reduce_sum(exp(v - m) * y[...], axis = 1) / t;
}
reference k {
  let m = reduce_max(x, axis = 1); let e = exp(x - m); let t = reduce_sum(e, axis = 1);
  o = reduce_sum(e * y, axis = 1) / t; lse = m + log(t);
}""", "lse", ["M=7 N=5", "M=1 N=1", "M=0 N=3"], "reduce_max("),
]
# Refused kernels, with the message.
NOT_SAVED = [
    ("kernel k(x: f32[M]) -> (o: f32[M]) { block x, o: [M] at (0); o[...] = x[...] * x[...]; }\nreference k { o = x * x; }", "p",
     "--saved: `p` is not an output of `k`"),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { block x, o: [M] at (0); o[...] = x[...] * x[...]; }\nreference k { o = x * x; }", "o",
     "--saved: the gradient of `k` does not follow from `o`"),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { block x, o: [M] at (0); o[...] = tanh(x[...]); }\nreference k { o = tanh(x); }", "o,o",
     "--saved names `o` twice"),
]


# What `--saved auto` chooses of the kernel, as the names of operands; "": the gradient with outputs is not cheaper, or they are rounded.
AUTO = [
    (SAVED[0][0], "o"),
    (SAVED[1][0], ""),
    (ATTENTION, "o, lse"),
    ("kernel k(x: f32[M]) -> (o: f32[M], p: f32[M]) { grid (i in cdiv(M, 4) parallel); block x, o, p: [4] at (i); o[...] = x[...] * x[...]; p[...] = exp(x[...]); }\n"
     "reference k { o = x * x; p = exp(x); }", "p"),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { grid (i in cdiv(M, 4) parallel); block x, o: [4] at (i); o[...] = x[...] * x[...]; }\nreference k { o = x * x; }", ""),
]


# What `pkc explain --gradient` says of kernels.
EXPLAINED = [
    (SAVED[0][0], [r"Gradient of the body", r"reads o \(4 \* M \* N bytes\): 0\.14 times the operations\n$"]),
    (ATTENTION, [r"Gradient of the body", r"reads o \(16 \* N bytes\), lse \(4 \* N bytes\): 0\.57 times the operations", r"k_dq computes col, s and p of lines 6 to 8 again: 216 operations, of 559"]),
    (SAVED[1][0], [r"does not read o, which is rounded", r"k_backward computes v, e and t of lines 4 to 5 again"]),
    (CARRIED[1][0], [r"before_h keeps 32 \* B \* M bytes of k_states", r"dw_parts takes 32 \* B bytes", r"k_steps computes .* again: \d+ operations, of \d+"]),
    ("kernel k(x: f32[M, 8]) -> (o: f32[M, 8]) { grid (i in M parallel); block x, o: [1, 8] at (i, 0); for t in 0..M { o[0, t % 8] = sin(x[0, t % 8]); } }",
     [r"Gradient of the reference", r"not of the body: --kernel writes a loop out"]),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { grid (i in cdiv(M, 4) parallel); block x, o: [4] at (i); o[...] = x[...] * 2.0; }",
     [r"^Gradient of the body, as by pkc grad --kernel --saved auto\n  does not read o, which it does not need\n$"]),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { grid (i in 1); var h: f32 = 1.0; for t in 0..M { h = sin(h * x[t]); o[t] = h; } }",
     [r"not of the body", r"keeps kept_\w+: 4 \* M bytes"]),
]


def explained():
    path = WORK / "explained.pk"
    for number, (text, said) in enumerate(EXPLAINED):
        path.write_text(text)
        done = pkc("explain", path, "--gradient")
        for one in said:
            check(f"explain --gradient {number}: {one}", done.returncode == 0 and re.search(one, done.stdout), done.stdout + done.stderr)
    path.write_text("kernel k(x: i32[M]) -> (o: i32[M]) { grid (i in cdiv(M, 4) parallel); block x, o: [4] at (i); o[...] = x[...]; }")
    done = pkc("explain", path, "--gradient")
    check("explain --gradient of integers", done.returncode == 1 and "[E06" in done.stderr and not done.stdout, done.stdout + done.stderr)


def saved():
    path, to = WORK / "forward.pk", WORK / "saved_backward.pk"
    for number, (text, chosen) in enumerate(AUTO):
        path.write_text(text)
        for way in (["--kernel"], []):
            done = pkc("grad", path, *way, "--saved", "auto")
            found = re.search(r"^(?:kernel|program|reference) k_backward\((.*?)\) ?\n? *->", done.stdout, re.M | re.S)
            names = [] if not found else [w for w in re.findall(r"(\w+):", found[1]) if w in ("o", "p", "lse")]
            check(f"--saved auto {number} {way}", found and names == [w for w in chosen.split(", ") if w], done.stdout + done.stderr)
    for number, (text, outputs, sizes, without) in enumerate(SAVED):
        path.write_text(text)
        for way in (["--kernel"], []):
            done = derived(path, to, *way, "--saved", outputs)
            if not check(f"saved {number} {way}: derived", done.returncode == 0, done.stderr):
                continue
            found = to.read_text()
            check(f"saved {number} {way}: without {without}", without not in found, found)
            if way:
                to.write_text("".join(f"// gradient: k_backward of k in {path} {words}\n" for words in sizes) + found)
                done = pkc("test", to)
                check(f"saved {number} at {sizes}", done.returncode == 0, done.stdout + done.stderr)
    for text, outputs, said in NOT_SAVED:
        path.write_text(text)
        for way in (["--kernel"], []):
            done = pkc("grad", path, *way, "--saved", outputs)
            check(f"--saved {outputs} {way}", done.returncode == 1 and said in done.stderr, done.stderr)
            done = pkc("grad", path, *way, "--forward", "--saved", outputs)
            check(f"--forward --saved {outputs} {way}", done.returncode == 1 and "--saved applies to gradients" in done.stderr, done.stderr)


# ---- kernels without a reference: the gradient of the body, step by step, against that of an equivalent reference
#
# (the kernel, its reference)
STEPS = [
    # a sum over an axis of the grid in scratch, with edges; several inputs
    ("""kernel k(x: f32[13, 6], y: f32[6, 7], b: f32[7]) -> (o: f32[13, 7]) {
  grid (i in 4 parallel, t in 3); block x: [4, 2] at (i, t); block y: [2, 7] at (t, 0); block b: [7] at (0); block o: [4, 7] at (i, 0);
  scratch acc: vmem f32[4, 7];
  when t == 0 { acc[...] = 0.0; }
  acc[...] += dot(x[...], y[...]);
  when t == 2 { o[...] = tanh(acc[...] + b[...]); } }""", "o = tanh(dot(x, y) + b);"),
    # an output that all steps add to, and one that each step overwrites
    ("""kernel k(x: f32[12, 5]) -> (o: f32[5], p: f32[1, 5]) {
  grid (i in 3); block x: [4, 5] at (i, 0); block o: [5] at (0); block p: [1, 5] at (0, 0);
  when i == 0 { o[...] = 0.0; }
  o[...] += reduce_sum(exp(x[...]), axis = 0, keep = false);
  p[...] = reduce_max(x[...], axis = 0) * x[:1, :]; }""",
     "o = reduce_sum(exp(x), axis = 0, keep = false); p = reduce_max(x[8:, :], axis = 0) * x[8:9, :];"),
    # a carry that later steps rescale
    ("""kernel k(q: f32[5, 3], x: f32[8, 3], v: f32[8, 4]) -> (o: f32[5, 4]) {
  grid (t in 4); block q: [5, 3] at (0, 0); block x: [2, 3] at (t, 0); block v: [2, 4] at (t, 0); block o: [5, 4] at (0, 0);
  scratch m: vmem f32[5, 1]; scratch l: vmem f32[5, 1]; scratch acc: vmem f32[5, 4];
  when t == 0 { m[...] = -99.0; l[...] = 0.0; acc[...] = 0.0; }
  let s = einsum("ac,bc->ab", q[...], x[...]);
  let m2 = max(m[...], reduce_max(s, axis = 1));
  let a = exp(m[...] - m2);
  let p = exp(s - m2);
  l[...] = a * l[...] + reduce_sum(p, axis = 1);
  acc[...] = a * acc[...] + dot(p, v[...]);
  m[...] = m2;
  when t == 3 { o[...] = acc[...] / l[...]; } }""",
     """let s = einsum("ac,bc->ab", q, x); let p = exp(s - reduce_max(s, axis = 1)); o = dot(p, v) / reduce_sum(p, axis = 1);"""),
    # a recurrence: the result of a step is a factor of the next one's
    ("""kernel k(x: f32[6, 4], w: f32[4]) -> (o: f32[6, 4]) {
  grid (t in 6); block x, o: [1, 4] at (t, 0); block w: [4] at (0);
  scratch h: vmem f32[1, 4];
  when t == 0 { h[...] = 1.0; }
  h[...] = sin(h[...] * w[...]) * x[...];
  o[...] = h[...]; }""",
     "var h: f32[4] = 1.0; var r: f32[6, 4] = 0.0; for t in 0..6 { h = sin(h * w) * x[t]; r[t, :] = h; } o = r;"),
    # blocks chosen by an operand, and one that two steps share
    ("""kernel k(x: f32[4, 5], y: f32[2, 5]) -> (o: f32[3, 5]) {
  prefetch n: i32[3];
  grid (i in 3 parallel); block x: [_, 5] at (n[i], 0); block y: [1, 5] at (i / 2, 0); block o: [1, 5] at (i, 0);
  o[...] = broadcast(x[...], [1, 5]) * y[...]; }""",
     "o = take(x, n, axis = 0) * take(y, iota([3], axis = 0, dtype = i32) / 2, axis = 0);"),
    # overhanging blocks with values that are not finite, and whose elements all add to w
    ("""kernel k(x: f32[5, 3], w: f32[3]) -> (o: f32[5, 3]) {
  grid (i in 2 parallel); block x, o: [4, 3] at (i, 0); block w: [3] at (0);
  o[...] = 1.0 / x[...] * w[...]; }""", "o = 1.0 / x * w;"),
    # parts of blocks, in a loop and by a var
    ("""kernel k(x: f32[3, 8], s: f32[1]) -> (o: f32[3, 2]) {
  grid (i in 3 parallel); block x: [_, 8] at (i, 0); block s: [1] at (0); block o: [1, 2] at (i, 0);
  var total: f32[2] = 0.0;
  for j in 0..4 { total += x[ds(2 * j, 2)] * x[ds(2 * j, 2)]; if j == 2 { total = total * s[0]; } }
  o[...] = reshape(total, [1, 2]); }""",
     "let q = x * x; o = (q[:, 0:2] + q[:, 2:4] + q[:, 4:6]) * s[0] + q[:, 6:8];"),
]
STEPS += [
    # loops without iterations
    *((f"""kernel k(x: f32[4, 3]) -> (o: f32[4, 3]) {{
  grid (i in 2 parallel); block x, o: [2, 3] at (i, 0); scratch r: vmem f32[2, 3];
  r[...] = x[...]; for t in {turns} {{ r[...] = tanh(r[...]); }}
  o[...] = r[...] * r[...];
}}""", "o = x * x;") for turns in ("0..0", "3..2")),
    ("kernel k(x: f32[12, 8], n: i32[12, 8]) -> (o: f32[12, 8]) {" + MASKED.replace("M", "12").replace("GRID", "arbitrary") + "}", MASKED_MEANS.replace("M", "12")),
    # an output that shares the memory of an input: stored blocks, one of them in part and twice in a row, and blocks that no step stores
    ("""kernel k(x: f32[6, 4], y: f32[5, 4]) -> (o: f32[6, 4]) {
  alias o = x;
  grid (i in 5); block x, o: [_, 4] at ((i * 5 + 1) / 7, 0); block y: [_, 4] at (i, 0);
  when i != 2 { o[...] = sin(x[...]) * y[...]; }
  when i == 2 { o[1:3] = y[1:3] * x[2:4]; } }""",
     """var m: f32[6, 4] = x;
  for i in 0..5 {
    let at = (i * 5 + 1) / 7;
    if i == 2 { m[at, 1:3] = y[i, 1:3] * x[at, 2:4]; } else { m[at, :] = sin(x[at, :]) * y[i, :]; }
  }
  o = m;"""),
]
COPIED = "kernel k(x: f32[8, 6], y: f32[6, 5]) -> (o: f32[8, 5]) {\n"
STEPS += [
    # copies to two buffers in turn, one step ahead; scratch of a part of the body; a copy back
    (COPIED + """grid (i in 2 parallel); block x, y, o: any;
  scratch at: vmem f32[2, 4, 2], acc: vmem f32[4, 5]; scratch arrived: sem dma[2];
  fn part(t, slot) { return async_copy(x[ds(i * 4, 4), ds(t * 2, 2)] -> at[slot], arrived[slot]); }
  acc[...] = 0;
  part(0, 0).start();
  for t in 0..3 {
    when t < 2 { part(t + 1, (t + 1) % 2).start(); }
    part(t, t % 2).wait();
    scoped rows: vmem f32[2, 5], come: sem dma {
      async_copy(y[ds(t * 2, 2), :] -> rows[...], come).start();
      async_copy(y[ds(t * 2, 2), :] -> rows[...], come).wait();
      acc[...] += dot(at[t % 2, :, :], sin(rows[...]));
    }
  }
  async_copy(acc[...] -> o[ds(i * 4, 4), :], arrived[0]).start();
  async_copy(acc[...] -> o[ds(i * 4, 4), :], arrived[0]).wait(); }""", "o = dot(x, sin(y));"),
    # a pipeline
    (COPIED + """block x, y: any; block o: [8, 5] at (0, 0);
  scratch acc: vmem f32[8, 5];
  acc[...] = 0;
  pipeline (t in 3) {
    block p of x: [8, 2] at (0, t); block q of y: [2, 5] at (t, 0);
    acc[...] += dot(p[...], sin(q[...]));
  }
  o[...] = acc[...]; }""", "o = dot(x, sin(y));"),
]
# Bodies of `kernel k(x: f32[7, 8]) -> (o: f32[7, 8])` without a reference, and the message for each.
NO_STEPS = [
    ("alias o = x; grid (i in 7); block x: [1, 8] at (6 - i, 0); block o: [1, 8] at (i, 0); o[...] = 2 * x[...];",
     "an output that aliases an input with other blocks"),
    ("alias o = x; grid (i in 14); block x: [1, 8] at (i / 2, 0); block o: [1, 8] at (i / 2, 0) revisit any; o[...] = 2 * x[...];",
     "an output that aliases an input and may be revisited"),
    ("block x: any; scratch s: vmem f32[7, 8]; scratch d: sem dma; let v = view(x[...], shape = [8, 7]); let t = view(s[...], shape = [8, 7]); async_copy(v[...] -> t[...], d).start(); async_copy(v[...] -> t[...], d).wait(); o[...] = s[...];",
     "a copy of a view, or of a part that data determines,"),
    ("for t in 0..2 { store(o[ds(t * 3, 7), :], x[...], mask = x[...] > 0); }", "a masked part that may leave its block"),
    ("o[...] = x[...]; print(\"{}\", x[0, 0]);", "`print`"),
]


def arrays_of(text, seed):
    """Random inputs of the only entry of a text: numbers that are not near 0, and indices of four rows."""
    inputs, outputs = re.search(r"\((.*?)\)\s*-> \((.*?)\)", text, re.S).groups()
    rng, found = np.random.default_rng(seed), {}
    for name, dtype, shape in re.findall(r"(\w+): (\w+)\[(.*?)\]", inputs):
        shape = [int(n) for n in shape.split(",")]
        found[name] = rng.integers(0, 4, shape).astype("i4") if dtype == "i32" else rng.choice([-1, 1], shape) * rng.uniform(0.3, 1.5, shape)
    return found, re.findall(r"(\w+): ", outputs)


def steps():
    path, to = WORK / "steps.pk", WORK / "steps_backward.pk"
    for number, (text, meaning) in enumerate(STEPS):
        found = []
        for reference in ("", f"\nreference k {{ {meaning} }}\n"):
            path.write_text(text.replace("f32", "f64") + reference.replace("f32", "f64"))
            done = derived(path, to)
            if check(f"steps {number}: a gradient", done.returncode == 0, done.stderr):
                values, said = evaluate(to, *arrays_of(to.read_text(), number), (), WORK)
                check(f"steps {number}: it runs", values, said)
                found.append(values or {})
        same = len(found) == 2 and all(np.allclose(found[0].get(n), found[1][n], rtol=1e-9, atol=1e-9) for n in found[1])
        check(f"steps {number}: the gradient of the reference", same, found)
    for body, said in NO_STEPS:
        path.write_text("kernel k(x: f32[7, 8]) -> (o: f32[7, 8]) {\n" + body.replace("; ", ";\n") + "\n}\n")
        done = pkc("grad", path)
        check(f"no reference and {body}", done.returncode == 1 and said in done.stderr and re.search(r":\d+:\d+: error: .*\[E0607\]", done.stderr), done.stderr)


# At least these kernels of the library must be derived.
DERIVED = ["flash_attn", "attention", "biased", "swiglu", "mlp", "rows", "add", "gelu", "selu", "softmax", "layernorm", "rmsnorm", "row_sum", "transpose", "cross_entropy", "dropout", "global_mean", "matmul", "linear_transposed", "linear_weights", "embedding", "patches", "conv1d", "q8_0", "q4_0", "i4_groups", "fp8_blocks", "q4_k", "grouped"]


def arguments(path, kernel):
    """The sizes of its first three `// test:` lines and of the last: (statics, other words)."""
    found = []
    for kind, words in DIRECTIVE.findall(path.read_text(encoding="utf-8")):
        words = words.split()
        if kind != "test" or words[:1] == ["-k"] and words[1] != kernel:
            continue
        words = [w for w in words[2 * (words[:1] == ["-k"]):] if not w.startswith("threads=")]
        statics = [w for k, w in enumerate(words) if w == "-D" or words[k - 1] == "-D"]
        found.append((statics, [w for w in words if w not in statics]))
    return found[:3] + found[3:][-1:]


# Kernels that compute in another order than their reference, whose error bounds hold for its order.
OTHER_ORDER = {"delta_rule"}


def only_rounds(path, kernel, sizes, said):
    """Is the difference that of rounding? In f64 it is smaller by the ratio of the precisions, 2^29, or nearly so."""
    path.write_text(path.read_text(encoding="utf-8").replace("f32", "f64"), encoding="utf-8")
    done = pkc("check", path, "-k", kernel + "_backward", *sizes, "--quiet", "--seed=1")
    wide, narrow = (re.search(r"\(difference (\S+),", text) for text in (done.stdout + done.stderr, said))
    return narrow and (done.returncode == 0 or (wide and float(wide[1]) < 2**-25 * float(narrow[1])))


def library_of_blocks():
    """--kernel derives each kernel of the library, and the result agrees with the derived reference, or refuses it and names a line."""
    names = set()
    for path in sorted((ROOT / "kernels").rglob("*.pk")):
        for kernel in re.findall(r"^kernel (\w+)\(", path.read_text(encoding="utf-8"), re.M):
            to = WORK / "kernel.pk"
            done = derived(path, to, "-k", kernel, "--kernel")
            if done.returncode:
                check(f"{path}: --kernel of {kernel} is refused", re.search(r":\d+:\d+: error: .*\[E060[567]\]", done.stderr), done.stderr)
                continue
            for statics, sizes in arguments(path, kernel):
                done = derived(path, to, "-k", kernel, "--kernel", *statics)
                if done.returncode:  # a kernel of integers, or a sum of which a function is stored
                    check(f"{path}: --kernel of {kernel} {' '.join(statics)} is refused", re.search(r":\d+:\d+: error: .*\[E060[567]\]", done.stderr), done.stderr)
                    continue
                done = pkc("check", to, "-k", kernel + "_backward", *sizes, "--quiet", "--seed=1")
                if "is not a size, static or operand of" in done.stderr:  # the line belongs to another kernel
                    continue
                if kernel == "pool_backward" and "H=1" in sizes:  # the reference takes elements of an empty array, which has no gradient
                    continue
                names |= {kernel}
                good = done.returncode == 0 or (kernel in OTHER_ORDER and only_rounds(to, kernel, sizes, done.stderr))
                check(f"{path}: --kernel of {kernel} {' '.join(sizes)}", good, done.stdout + done.stderr)
    check("--kernel derives what it should", not set(DERIVED) - names, set(DERIVED) - names)


# (file, settings, sizes, gradients)
COMPILED = [
    ("layernorm", [], ["M=45", "N=37"], ("dx", "dw", "db")),
    ("matmul", ["BM=8", "BN=16", "BK=8"], ["M=37", "N=45", "K=29"], ("da", "db")),
    ("flash_attn", ["BQ=8", "BK=16", "D=16", "CAUSAL=true"], ["B=2", "H=4", "G=2", "N=37", "S=45"], ("dq", "dk", "dv")),
    ("embedding", [], ["V=9", "N=45", "D=37", "id=randint:0:9:1"], ("dtable",)),
    ("sequence/conv1d", ["BN=8", "BC=16"], ["B=2", "N=37", "C=45"], ("dx", "dw", "dbias")),
    ("matmul/grouped", ["BM=8", "BN=16", "BK=8"], ["M=40", "K=29", "N=37", "G=3", "group=randint:-1:4:1"], ("dx", "dw")),
]


# Kernels of which a TPU refuses the gradient alone: a sum of windows that may leave the array.
NOT_ON_TPU = {"i4_groups": "masked loads", "i4_groups_backward": "masked loads", "pool_backward": "masked loads"}


def tpus():
    """What --kernel derives is Pallas, and keeps the rules of a TPU where the kernel does, at the sizes that its file names."""
    to, seen = WORK / "tpu.pk", 0
    for path in sorted((ROOT / "kernels").rglob("*.pk")):
        text = path.read_text(encoding="utf-8")
        entries = re.findall(r"^(?:kernel|program) (\w+)\(", text, re.M)
        for line in re.findall(r"^// pkc tpu (.*?): .* on a v5e", text, re.M):
            words = line.split() if line.startswith("-k") else ["-k", entries[-1], *line.split()]
            kernel, words = words[1], words[2:]
            statics = [w for k, w in enumerate(words) if w == "-D" or words[k - 1] == "-D"]
            done = derived(path, to, "-k", kernel, "--kernel", *statics)
            if done.returncode:
                continue
            entries_of = re.findall(r"^(?:kernel|program) (\w+)\(", done.stdout, re.M)
            for entry in entries_of:
                made = pkc("--emit=pallas", "-k", entry, to)
                check(f"{path}: Pallas of {entry}", made.returncode == 0, made.stderr)
            if pkc("check", path, "--tpu", "v5e", "-k", kernel, *words).returncode:
                continue
            seen += 1
            said = pkc("check", to, "--tpu", "v5e", "-k", entries_of[-1], *[w for w in words if w not in statics])
            reason = NOT_ON_TPU.get(kernel)
            check(f"{path}: the gradient of {kernel} on a TPU", reason in said.stdout + said.stderr if reason else said.returncode == 0, said.stdout + said.stderr)
    check("gradients on a TPU", seen > 25, seen)


def compiled_blocks():
    """A compiled gradient that is summed over blocks has the same bits on any number of threads."""
    for file, settings, sizes, gradients in COMPILED:
        kernel = file.rpartition("/")[2]
        path, results = WORK / f"{kernel}_blocks.pk", []
        statics = [word for setting in settings for word in ("-D", setting)]
        derived(ROOT / f"kernels/{file}.pk", path, "--kernel", *statics)
        for threads in (1, 3):
            files = [f"{name}={WORK / f'{name}{threads}.npy'}" for name in gradients]
            done = pkc("run", path, "-k", f"{kernel}_backward", *sizes, f"--threads={threads}", *[w for f in files for w in ("-o", f)])
            if check(f"{kernel}'s gradient by --kernel, with {threads} threads", done.returncode == 0, done.stdout + done.stderr):
                results.append([np.load(f.split("=")[1]) for f in files])
        check(f"{kernel}'s gradient has the same bits on any number of threads", len(results) == 2 and all(map(np.array_equal, *results)))


# The hand-written gradient of attention, as a program with the operands of the derived one.
BY_HAND = """
program by_hand(q: f32[B, H, N, 8], k: f32[B, G, S, 8], v: f32[B, G, S, 8], do: f32[B, H, N, 8])
    -> (dq: f32[B, H, N, 8], dk: f32[B, G, S, 8], dv: f32[B, G, S, 8]) {
  let o, lse = attention(q, k, v, D = 8, CAUSAL = MASK, BQ = 4, BK = 4);
  dq, dk, dv = attention_backward(q, k, v, o, lse, do, D = 8, CAUSAL = MASK, BQ = 4, BK = 4);
}
"""


def proved():
    """flash_attn's gradient by --kernel is proved equal to its derived reference and to the hand-written kernels; a wrong one is not."""
    path, hand = WORK / "flash_attn.pk", WORK / "by_hand.pk"
    text = re.sub("^//.*\n", "", (ROOT / "kernels/train/attention.pk").read_text(encoding="utf-8"), flags=re.M)
    for mask in ("false", "true"):
        derived(ROOT / "kernels/flash_attn.pk", path, "--kernel", *[w for s in ("D=8", "BQ=4", "BK=4", f"CAUSAL={mask}") for w in ("-D", s)])
        kept = re.findall("// (\\w+) keeps (.*) bytes", path.read_text())
        sizes = "B * H * cdiv(N, 4)"
        check(f"what flash_attn's gradient, CAUSAL = {mask}, keeps", kept == [("m", f"16 * {sizes}"), ("l", f"16 * {sizes}"), ("acc", f"128 * {sizes}")], kept)
        hand.write_text(text + BY_HAND.replace("MASK", mask))
        for against in ([], [f"--against={hand}:by_hand"]):
            for sizes in ("B=1 H=4 G=2 N=9 S=9", "B=1 H=1 G=1 N=3 S=6"):
                done = pkc("prove", path, "-k", "flash_attn_backward", *against, *sizes.split())
                check(f"flash_attn's gradient, CAUSAL = {mask}, is proved {against} at {sizes}", done.returncode == 0 and ": proved" in done.stdout, done.stdout + done.stderr)
        hand.write_text(re.sub(r"dacc\[\.\.\.\] = (.*);", r"dacc[...] = 1.001 * (\1);", path.read_text()))
        done = pkc("prove", path, "-k", "flash_attn_backward", f"--against={hand}:flash_attn_backward", "B=1", "H=1", "G=1", "N=3", "S=6")
        check(f"a wrong gradient, CAUSAL = {mask}, is refuted", done.returncode == 3, done.stdout + done.stderr)
    done = pkc("prove", path, "-k", "flash_attn_backward", f"--against={hand}:other", "B=1", "H=1", "G=1", "N=3", "S=6")
    check("--against a kernel that is not there", done.returncode == 1 and "there is no kernel or program `other`" in done.stderr, done.stderr)


# Files and kernels with lines `// gradient:`, and sizes at which the hand-written gradients are proved equal to the derived ones.
PROVED = [
    ("train/gelu_backward", "gelu_backward", "M=7 N=5"), ("train/softmax_backward", "softmax_backward", "M=5 N=7"),
    ("train/layernorm_backward", "layernorm_backward", "M=3 N=4"),
    ("train/cross_entropy", "cross_entropy_backward", "M=3 N=5 target=randint:-1:5:1"),
    ("train/swiglu_backward", "swiglu_backward", "M=3 N=4 K=5"), ("train/conv1d_backward", "conv1d_backward", "B=1 N=5 C=3"),
    ("train/embedding_backward", "embedding_backward", "V=4 N=3 D=5 id=randint:0:4:1"),
    ("train/attention", "attention_backward", "B=1 H=2 G=1 N=5 S=5 -D D=8 -D BQ=4 -D BK=4 -D CAUSAL=true"),
    ("sequence/ssd", "ssd_backward", "B=1 H=2 G=1 N=3 -D P=3 -D S=2"),
]


def proved_lines():
    """Runs `pkc prove` on kernels with lines `// gradient:`, right ones and wrong ones, also with errors that are too small for a test."""
    for file, kernel, sizes in PROVED:
        done = pkc("prove", ROOT / f"kernels/{file}.pk", "-k", kernel, *sizes.split(), "--quiet")
        check(f"{kernel} at {sizes}", done.returncode == 0 and ": proved, as the gradient of" in done.stdout, done.stdout + done.stderr)
    path = WORK / "directive.pk"
    for body, status, said in (("2 * x[...] * do[...]", 0, "proved, as the gradient of sq"), ("2.001 * x[...] * do[...]", 3, "the gradient of sq says: dx[0, 0]"),
                               ("2 * x[...] * do[...] + 1e-30 * x[...]", 4, "undecided, as the gradient of sq")):
        text = SQUARE.replace("BODY", body).replace("GIVEN", "do").replace("RESULT", "dx")
        text += "reference back { dx = " + body.replace("[...]", "") + "; }\n"
        path.write_text(f"// gradient: back of sq M=3 N=5\n{text}")
        done = pkc("prove", path, "-k", "back", "M=3", "N=5")
        check(f"pkc prove of {body}", done.returncode == status and said in done.stdout + done.stderr, done.stdout + done.stderr)
        check(f"the verdict on {body}", (": refuted, as the gradient of sq" in done.stdout) == (status == 3), done.stdout)
        done = pkc("prove", path, "-k", "back", "M=3", "N=5", "--json")
        check(f"pkc prove --json of {body}", '"gradient of"' in done.stdout, done.stdout)


# Functions of x: f64[M, N] and y: f64[N, 3], the shape of o, the axis of the maximum, and whether the gradient of the maximum `t` is left
# out because no result depends on it.
SHIFT = "let t = reduce_max(x, axis = AXIS); let e = exp(x - t); o = "
CANCELS = [
    (SHIFT + "e / reduce_sum(e, axis = 1);", "M, N", 1, True),
    (SHIFT + "e / reduce_sum(e, axis = 0);", "M, N", 0, True),
    (SHIFT + "e / reduce_sum(e, axis = 0);", "M, N", 1, False),
    (SHIFT + "e / reduce_sum(e);", "M, N", (0, 1), True),
    (SHIFT + "e / reduce_sum(e);", "M, N", 1, False),
    (SHIFT + "e;", "M, N", 1, False),
    (SHIFT + "log(reduce_sum(e, axis = 1)) + t;", "M, 1", 1, True),
    (SHIFT + "log(reduce_sum(e, axis = 1)) + 2.0 * t;", "M, 1", 1, False),
    (SHIFT + "log(reduce_sum(e, axis = 0)) + t;", "M, N", 1, False),
    (SHIFT + "dot(e, y) / reduce_sum(e, axis = 1);", "M, 3", 1, True),
    (SHIFT + "einsum(\"mn,mk->nk\", e, e) / reduce_sum(e * e);", "N, N", 1, False),
    (SHIFT + "transpose(e, (1, 0)) / reduce_sum(transpose(e, (1, 0)), axis = 0);", "N, M", 1, True),
    (SHIFT + "reshape(e, [N * M]) / reshape(reduce_sum(e), [1]);", "N * M", (0, 1), True),
    (SHIFT + "reshape(e, [1, M, 1, N]) / reshape(reduce_sum(e, axis = 1), [1, M, 1, 1]);", "1, M, 1, N", 1, True),
    (SHIFT + "e / rev(reduce_sum(e, axis = 1), axis = 0);", "M, N", 1, False),
    (SHIFT + "e / reduce_sum(e, axis = 1)[0:1, :];", "M, N", 1, False),
    (SHIFT + "where(y[0, 0] > 0.0, e, 0.0) / reduce_sum(e, axis = 1);", "M, N", 1, True),
    (SHIFT + "where(t > 0.0, e, 0.0) / reduce_sum(e, axis = 1);", "M, N", 1, False),
    ("let t = reduce_max(abs(x), axis = AXIS); let e = x / t; o = e / reduce_sum(e * e, axis = 1) / t;", "M, N", 1, True),
    ("let t = reduce_max(abs(x), axis = AXIS); let e = x / t; o = e / reduce_sum(e * e, axis = 1) * t;", "M, N", 1, False),
    ("let t = reduce_max(x, axis = AXIS); var s: f64[M, N] = 0.0; for k in 0..3 { s = s + exp(x - t); } o = s / reduce_sum(s, axis = 1);", "M, N", 1, False),
]


def cancels():
    """The gradient of a maximum is left out exactly if the results do not depend on it, and the gradient is right in both cases."""
    folder = WORK / "cancels"
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    arrays = {"x": rng.standard_normal((3, 4)), "y": rng.standard_normal((4, 3))}
    for text, shape, axis, gone in CANCELS:
        text = text.replace("AXIS", str(axis))
        (folder / "f.pk").write_text(f"reference f(x: f64[M, N], y: f64[N, 3]) -> (o: f64[{shape}]) {{ {text} }}\n")
        done = derived(folder / "f.pk", folder / "b.pk", "--wrt", "x")
        if not check(f"{text}: it is derived", done.returncode == 0, done.stderr):
            continue
        counted = "reduce_sum(cast(" in (folder / "b.pk").read_text()
        check(f"{text}: the gradient of t is {'left out' if gone else 'there'}", counted != gone, (folder / "b.pk").read_text())
        o, said = evaluate(folder / "f.pk", arrays, ["o"], {}, folder)
        if not check(f"{text}: it runs", o, said):
            continue
        do = rng.standard_normal(o["o"].shape)

        def loss(x):
            return np.sum(do * evaluate(folder / "f.pk", dict(arrays, x=x), ["o"], {}, folder)[0]["o"])
        direction = rng.standard_normal((3, 4))
        want = (loss(arrays["x"] + 1e-5 * direction) - loss(arrays["x"] - 1e-5 * direction)) / 2e-5
        got, said = evaluate(folder / "b.pk", dict(arrays, do=do), ["dx"], {}, folder)
        right = got and abs(np.sum(got["dx"] * direction) - want) <= 1e-6 * max(1, abs(want))
        check(f"{text}: the gradient", right, said or (got, want))


# Points at which the derivative is a convention, or an element that is not selected is not finite: an expression of x, x, and the gradient for do = 1.
CONVENTIONS = [
    ("where(x > 0.0, log(x), 0.0)", [0.0, 2.0, -1.0], [0, 0.5, 0]),
    ("where(x > 0.0, reshape(log(reshape(x, [1, N])), [N]), 0.0)", [0.0, 2.0, -1.0], [0, 0.5, 0]),
    ("where(x > 0.0, sqrt(x) / x, 0.0)", [0.0, 4.0], [0, -0.0625]),
    ("where(x > 0.0, reduce_sum(broadcast(log(x), [2, N]), axis = 0, keep = false), 0.0)", [0.0, 2.0], [0, 1]),
    ("where(x > 0.0, reshape(dot(reshape(log(x), [N, 1]), reshape(x[0:1], [1, 1])), [N]), 0.0)", [1.0, -1.0, 0.0], [1, 0, 0]),
    ("where(x > 0.0, cumsum(log(x), axis = 0), 0.0)", [1.0, 2.0, 0.0], [2, 0.5, 0]),
    ("where(x > 0.0, cumsum(log(x), axis = 0, reverse = true), 0.0)", [0.0, 2.0, 1.0], [0, 0.5, 2]),
    ("where(x > 0.0, cumprod(1.0 / x, axis = 0), 0.0)", [1.0, 2.0, 0.0], [-1.5, -0.25, 0]),
    ("where(x > 0.0, cummax(log(x), axis = 0), 0.0)", [1.0, 2.0, 0.0], [1, 0.5, 0]),
    ("where(x > 0.0, take(log(x), iota([N]), axis = 0), 0.0)", [0.0, 2.0], [0, 0.5]),
    ("where(x > 0.0, take_along_axis(log(x), iota([N]), axis = 0), 0.0)", [0.0, 2.0], [0, 0.5]),
    ("take(log(x), iota([N]) / N * 0 + 1, axis = 0)", [0.0, 2.0], [0, 1]),
    ("where(x > 0.0, broadcast(log(x), [2, N])[iota([N]) * 0 + 1, iota([N])], 0.0)", [0.0, 2.0], [0, 0.5]),
    ("reshape(conv(reshape(where(x > 0.0, sqrt(x), 0.0), [1, N, 1]), cast(broadcast(2.0, [1, 1, 1]), f64)), [N])", [0.0, 4.0], [0, 0.5]),
    ("where(x > 0.0, reshape(conv(reshape(sqrt(x), [1, N, 1]), cast(broadcast(2.0, [1, 1, 1]), f64)), [N]), 0.0)", [0.0, 4.0], [0, 0.5]),
    ("broadcast(sqrt(x)[1:][0], [N])", [0.0, 4.0], [0, 0.5]),
    ("max(x, 0.0)", [0.0, 2.0, -2.0], [0, 1, 0]),
    ("clamp(x, 0.0, 1.0)", [0.0, 1.0, 0.5, 2.0], [0, 0, 1, 0]),
    ("max(x, rev(x, axis = 0))", [1.0, 1.0, 1.0], [1, 1, 1]),
    ("max(x, x * 2.0)", [0.0, 1.0, -1.0], [1.5, 2, 1]),
    ("abs(x)", [0.0, -2.0], [0, -1]),
    ("broadcast(reduce_max(x), [N])", [3.0, 3.0, 1.0], [1.5, 1.5, 0]),
    ("cummax(x, axis = 0)", [1.0, 1.0, 2.0, 0.0], [2, 0, 2, 0]),
    ("cumprod(x, axis = 0)", [2.0, 0.0, 3.0], [1, 8, 0]),
    ("broadcast(reduce_prod(x), [N])", [2.0, 0.0, 3.0], [0, 18, 0]),
    ("pow(x, 0.0)", [0.0, 2.0], [0, 0]),
    ("sort(x, axis = 0) * cast(iota([N]), f64)", [2.0, 1.0, 2.0], [1, 0, 2]),
    ("x * floor(x)", [1.5, -0.5], [1, -1]),
    ("x[clamp(iota([N]) - 1, 0, 9)]", [1.0, 2.0, 3.0], [2, 1, 0]),
    ("x * cast(cast(x, bf16), f64)", [1.0, 2.0], [2, 4]),
]


def conventions():
    folder = WORK / "conventions"
    folder.mkdir(parents=True, exist_ok=True)
    for text, x, want in CONVENTIONS:
        (folder / "f.pk").write_text(f"reference f(x: f64[N]) -> (o: f64[N]) {{ o = {text}; }}\n")
        done = derived(folder / "f.pk", folder / "b.pk")
        if not check(f"{text}: it is derived", done.returncode == 0, done.stderr):
            continue
        got, said = evaluate(folder / "b.pk", {"x": np.array(x), "do": np.ones(len(x))}, ["dx"], {}, folder)
        check(f"{text} at {x}", got and np.array_equal(got["dx"], np.array(want, float)), said or got)


def tapes():
    """The bytes that a loop keeps, by sizes; a value that is only added to keeps none."""
    path = WORK / "tapes.pk"
    path.write_text("""reference f(x: f32[T, N], y: bf16[T + 1, 5]) -> (o: f32[N], p: f32[5]) {
  var s: f32[N] = 1.0; var q: bf16[5] = 0.0; var sum: f32[5] = 0.0;
  for t in 0..T + 1 { q = sin(q * y[t, :]); sum = sum + cast(q, f32); }
  for t in 0..T { s = sin(s * x[t, :]); }
  o = s; p = sum; }
""")
    done = derived(path, WORK / "tapes_backward.pk")
    found = sorted(re.findall(r"var (kept_\w+): (\w+\[.*?\]) = .*; +// keeps (.*) bytes", done.stdout))
    # q before and after its factor
    want = {("s", "f32[T, N]", "4 * T * N"), ("q", "bf16[T + 1, 5]", "10 * (T + 1)")}
    check("the bytes of tapes", {(re.sub(r"kept_|\d", "", n), t, b) for n, t, b in found} == want, done.stdout + done.stderr)
    derived(path, WORK / "tapes_backward.pk", "--memory", "2000")
    for size, fits in ((9, True), (50, True), (3000, False)):
        done = pkc("check", WORK / "tapes_backward.pk", f"T={size}", "N=9", "--quiet")
        said = "the gradient keeps 4 * (segments - 1) * N + 4 * segment * N + 10 * (segments2 - 1) + 10 * segment2 bytes" in done.stderr
        check(f"--memory 2000 at T={size}", done.returncode == 0 if fits else done.returncode and said, done.stdout + done.stderr)


# Loops that keep values, and the bytes of --memory. The sizes T have remainders, one iteration, and none.
CHECKPOINTS = [
    # two vars, one of which nothing needs; a var that each iteration stores before it reads it
    ("""reference f(x: f32[T, N]) -> (o: f32[N], p: f32[N]) {
  var s: f32[N] = 1.0; var a: f32[N] = 0.0; var u: f32[N] = 0.0;
  for t in 0..T { u = s * x[t, :]; a = a + u * u; s = sin(u + s); }
  o = s; p = a;
}""", [64, 100, 200]),
    # from another index on; a loop of a constant number of iterations in it; a branch; parts of a var
    ("""reference f(x: f32[T, N]) -> (o: f32[N], p: f32[3, N]) {
  var s: f32[N] = 0.5; var m: f32[3, N] = 1.0;
  for t in 2..T {
    for j in 0..3 { m[j, :] = sin(m[j, :] * x[t, :] + s); }
    if t % 3 == 0 { s = s + m[0, :] * m[1, :]; } else { s = cos(s * m[2, :]); }
  }
  o = s; p = m;
}""", [400, 900]),
    # a var that the loop reads and that is stored later; two loops; the bound of the inner one moves
    ("""reference f(x: f32[T, N]) -> (o: f32[N]) {
  var s: f32[N] = 1.0; var w: f32[N] = 0.25;
  w = x[0, :] * 2.0 + w;
  for t in 0..T { s = sin(s * x[t, :] + w); }
  w = s * w;
  for t in 0..T - 1 { for j in 0..min(t, 2) { w = sin(w * x[t + 1, :]) + s; } s = s * w; }
  o = s + w;
}""", [400, 600]),
    # integers and truth values in vars; bf16
    ("""reference f(x: bf16[T, N]) -> (o: f32[N]) {
  var s: bf16[N] = 1.0; var n: i32[N] = 0; var b: bool[N] = false;
  for t in 0..T {
    s = where(b, s * x[t, :], sin(s + x[t, :]));
    n = n + cast(x[t, :] > 0.0, i32);
    b = n % 2 == 1;
  }
  o = cast(s, f32);
}""", [100, 200]),
]
# The same in a kernel without a reference: a state along an axis of the grid, and loops in the body.
CHECKPOINTS.append(("""kernel f(x: f32[T, N]) -> (o: f32[T, N]) {
  grid (t in T arbitrary);
  block x, o: [1, N] at (t, 0);
  scratch s: vmem f32[1, N];
  when t == 0 { s[...] = 0.5; }
  for j in 0..2 { s[...] = sin(s[...] * x[...] + 0.1); }
  o[...] = s[...] * x[...];
}""", [60, 300]))


def checkpoints():
    """With too little memory for the values of all iterations, a loop keeps those of a segment: the gradient has the same bits. With too
    little for that, it is refused with the bytes."""
    folder = WORK / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    path, to = folder / "f.pk", folder / "b.pk"
    for number, (text, memories) in enumerate(CHECKPOINTS):
        path.write_text(text)
        what = f"checkpoints {number}"
        if not check(f"{what}: without a limit", derived(path, folder / "all.pk").returncode == 0):
            continue
        outputs = re.findall(r"(d\w+): ", re.search(r"-> \((.*?)\)", (folder / "all.pk").read_text())[1])
        cut = refused = 0

        def bits(path, count, verb="check", outputs=outputs):
            """The outputs at a number of iterations, or the message."""
            files = [folder / f"{name}.npy" for name in outputs]
            done = pkc(verb, path, f"T={count}", "N=2", "--quiet", *[w for n, f in zip(outputs, files) for w in ("-o", f"{n}={f}")])
            return ([f.read_bytes() for f in files] if done.returncode == 0 else None), done.stdout + done.stderr

        for memory in memories:
            done = derived(path, to, "--memory", memory)
            if not check(f"{what}: --memory {memory}", done.returncode == 0 and "require segment ==" in done.stdout, done.stderr):
                continue
            for count in (0, 1, 2, 5, 7, 12, 40):
                want, _ = bits(folder / "all.pk", count)
                if want is None:  # a row that does not exist
                    continue
                got, said = bits(to, count)
                if got is None:
                    refused += check(f"{what}: --memory {memory} at T={count}: refused with the bytes", "the gradient keeps" in said and "segment = " in said, said)
                    continue
                check(f"{what}: --memory {memory} at T={count}", got == want)
                cut += count > 3
        check(f"{what}: compiled", bits(to, 5, "run")[0] == bits(folder / "all.pk", 5, "run")[0])
        check(f"{what}: there are checkpoints", cut)
        check(f"{what}: some are refused", refused)


# Bounds of a loop in `for i in 0..4`, and the number of iterations that its tape holds; None if that is not known.
TURNS = [("i + 1", "4"), ("(4 * (i + 1) + 1) / 2", "8"), ("min(i * 3, N)", "min(9, N)"), ("max(2, i) - 1", "2"), ("max(N, i)", "max(N, 3)"),
         ("cast(cast(i, i32) + 2, i64)", "5"), ("4 - i", "4"), ("min(N, i * 2 + 3) - i * 2", "min(N, 3)"), ("2 * N - i * 3", "2 * N"), ("N - (i - 2)", None), ("(i - 2) * (i - 2)", None), ("9 / (i + 1)", None)]


def turns():
    """A tape holds the greatest number of iterations that follows from sizes; without such a number the loop is refused, with its line."""
    path = WORK / "turns.pk"
    for bound, room in TURNS:
        path.write_text("reference f(x: f32[16, N]) -> (o: f32[N]) {\n  var s: f32[N] = 1.0;\n"
                        f"  for i in 0..4 {{ for t in 0..{bound} {{ s = sin(s * x[t, :]); }} }}\n  o = s;\n}}\n")
        done = derived(path, WORK / "turns_backward.pk")
        if room is None:
            check(f"{bound} turns", done.returncode == 1 and re.search(r":3:\d+: error: .*no size bounds.*\[E0605\]", done.stderr), done.stderr)
            continue
        found = re.search(r"var kept_s\d*: f32\[4, (.*), N\] =", (WORK / "turns_backward.pk").read_text())
        check(f"{bound} turns", found and found[1] == room, done.stderr or (WORK / "turns_backward.pk").read_text())


def narrow():
    """Sums of bf16 are added in f32 and rounded once: many small terms and a large one."""
    folder = WORK / "narrow"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "f.pk").write_text("reference f(x: bf16[1]) -> (o: f32[1]) {\n  let y = cast(x, f32);\n  o = "
                                 + " + ".join(["y * 256.0", *["x_of"] * 7]).replace("x_of", "cast(x, f32) * 0.5") + ";\n}\n")
    derived(folder / "f.pk", folder / "b.pk")
    text = (folder / "b.pk").read_text()
    check("the gradient of bf16 is bf16, and rounded once", "(dx: bf16[1])" in text and text.count("bf16)") == 1, text)


def operations():
    """ROWS has every operation that has a derivative by derivatives.def; loops, choices and vars are in `loop`."""
    rows = [row[0] for kind in ("SMOOTH", "MOVES", "OTHER") for row in def_rows("codegen/grad/derivatives.def", kind)]
    return [row for row in rows if row]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    wanted = list(dict.fromkeys([*UNARY, *BINARY, *ALONG, *SPECIAL]))
    missing = [o for o in operations() if o not in wanted]
    check("a row for each operation with a derivative", not missing, missing)
    used = set()
    for number in range(count):
        used |= case(number, seed, wanted[number % len(wanted)]).used
    for number, name in enumerate(APART):
        case(count + number, seed, (name,))
    if count >= 2 * len(wanted):
        left = [o for o in operations() if o not in used]
        check("each operation occurs", not left, left)
    cancels()
    conventions()
    narrow()
    tapes()
    checkpoints()
    turns()
    directives()
    lines_of_kernels()
    blocks()
    sums()
    carried()
    explained()
    saved()
    steps()
    library_of_blocks()
    tpus()
    compiled_blocks()
    proved()
    proved_lines()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
