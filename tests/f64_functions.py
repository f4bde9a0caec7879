#!/usr/bin/env python3
"""Functions of f64 against mpmath with 120 bits: the largest error in units in the last place must not exceed the bounds of docs/numerics.md.

usage: f64_functions.py [--target NAME ..]; prints a table, then "N passed, N failed".
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

from suite import PKC, check, finish

try:
    import mpmath
except ImportError:
    print("SKIPPED f64_functions: mpmath is not installed")
    print("0 passed, 0 failed")
    sys.exit(0)

COUNT = 1500
mpmath.mp.prec = 120
wide, small, unit, positive = (-700, 700), (-20, 20), (-1, 1), (1e-300, 1e300)
mp = mpmath
# function, range of the arguments, definition, bound in units in the last place
FUNCTIONS = [
    ("exp", wide, mp.exp, 1), ("exp2", wide, lambda x: mp.power(2, x), 1), ("exp10", (-300, 300), lambda x: mp.power(10, x), 1.5),
    ("expm1", small, mp.expm1, 1.5), ("log", positive, mp.log, 1), ("log2", positive, lambda x: mp.log(x, 2), 1.5),
    ("log10", positive, mp.log10, 2), ("log1p", (-0.99, 100), mp.log1p, 1), ("rsqrt", positive, lambda x: 1 / mp.sqrt(x), 1.5),
    ("tanh", small, mp.tanh, 2.5), ("logistic", small, lambda x: 1 / (1 + mp.exp(-x)), 2.5),
    ("softplus", small, lambda x: mp.log1p(mp.exp(x)), 2.5), ("log_sigmoid", small, lambda x: -mp.log1p(mp.exp(-x)), 2.5),
    ("erf", (-6, 6), mp.erf, 1.5), ("erfc", (-5, 25), mp.erfc, 3), ("sin", wide, mp.sin, 1), ("cos", wide, mp.cos, 1),
    ("tan", wide, mp.tan, 2), ("sinh", small, mp.sinh, 2.5), ("cosh", small, mp.cosh, 2.5), ("asin", unit, mp.asin, 1),
    ("acos", unit, mp.acos, 1), ("atan", wide, mp.atan, 1), ("asinh", wide, mp.asinh, 2.5), ("acosh", (1, 700), mp.acosh, 2.5),
    ("atanh", unit, mp.atanh, 2.5), ("cbrt", positive, mp.cbrt, 1), ("erf_inv", unit, mp.erfinv, 3)]
# Functions of two operands, with the ranges of the first and of the second.
PAIRS = [("pow", (1e-3, 1e3), (-90, 90), mp.power, 1), ("atan2", wide, wide, mp.atan2, 2), ("hypot", wide, wide, mp.hypot, 1.5)]


def arguments(low, high, seed):
    rng = np.random.default_rng(seed)
    if low == 1e-300:
        return np.exp(rng.uniform(np.log(low), np.log(high), COUNT))
    x = rng.uniform(low, high, COUNT)
    near = x[: COUNT // 3] * 10.0 ** rng.uniform(-9, 0, COUNT // 3)
    return np.clip(np.concatenate([near, x[COUNT // 3 :]]), low, high) if low <= 0 else x


def error(got, meaning, *x):
    want = meaning(*(mpmath.mpf(float(v)) for v in x))
    return float(abs(mpmath.mpf(float(got)) - want) / np.spacing(abs(float(want))))


def run(body, inputs):
    """Runs a kernel with this body, whose inputs are arrays [F, N], and returns the rows of results."""
    rows = len(inputs[0])
    text = "kernel f(%s) -> (o: f64[F, N]) {\n  block %s, o: [%d, N] at (0, 0);\n%s}\n" % (
        ", ".join("x%d: f64[F, N]" % k for k in range(len(inputs))), ", ".join("x%d" % k for k in range(len(inputs))), rows, body)
    with tempfile.TemporaryDirectory() as folder:
        path = [os.path.join(folder, name) for name in ("f.pk", "o.npy")]
        with open(path[0], "w", encoding="utf-8") as file:
            file.write(text)
        given = []
        for k, x in enumerate(inputs):
            np.save("%s/x%d.npy" % (folder, k), x)
            given.append("x%d=%s/x%d.npy" % (k, folder, k))
        subprocess.run([PKC, "run", path[0], *given, "-o", "o=" + path[1], *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
        return np.load(path[1])


def judge(name, bound, worst):
    print("| %s | %g | %.2f |" % (name, bound, worst))
    check("%s is off by %.2f units in the last place, more than %g" % (name, worst, bound), worst <= bound)


def main():
    x = np.stack([arguments(*f[1], k) for k, f in enumerate(FUNCTIONS)])
    got = run("".join("  o[%d, :] = %s(x0[%d, :]);\n" % (k, f[0], k) for k, f in enumerate(FUNCTIONS)), [x])
    for k, (name, _, meaning, bound) in enumerate(FUNCTIONS):
        judge(name, bound, max(error(g, meaning, v) for g, v in zip(got[k], x[k])))
    pairs = [np.stack([arguments(*f[1 + side], 50 + 2 * k + side) for k, f in enumerate(PAIRS)]) for side in range(2)]
    got = run("".join("  o[%d, :] = %s(x0[%d, :], x1[%d, :]);\n" % (k, f[0], k, k) for k, f in enumerate(PAIRS)), pairs)
    for k, (name, _, _, meaning, bound) in enumerate(PAIRS):
        judge(name, bound, max(error(g, meaning, a, b) for g, a, b in zip(got[k], pairs[0][k], pairs[1][k])))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
