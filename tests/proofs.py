#!/usr/bin/env python3
"""pkc prove: what is proved, and that what is wrong never is.

TRAPS are pairs of expressions where an arithmetic of finite fields could be deceived; FAULTS are changes of kernels of the library, each of which has to be refuted by floats.
"""
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import PKC, ROOT, check, finish
from sampling import sampled

PROVED, REFUTED, UNDECIDED, ORDERS = 0, 3, 4, 5
NAMES = {PROVED: "proved", REFUTED: "refuted", UNDECIDED: "undecided", ORDERS: "equal on drawn orders"}


def prove(path, *words):
    run = subprocess.run([PKC, "prove", str(path), *words], capture_output=True, text=True)
    return run.returncode, (run.stdout + run.stderr).strip()


# -- expressions: of the kernel, of the reference, which verdicts are right. x, y, z: f32[4, 6]; m, n: i8[4, 6]; c: bool[4, 6]
HOLDS, NOT, OPEN = (PROVED,), (REFUTED,), (UNDECIDED, ORDERS)
ROW = "reduce_max({}, axis = 1)"
TRAPS = [
    # sums, products, quotients
    ("(x + y) * (x - y)", "x * x - y * y", HOLDS),
    ("(x + y) * (x - y)", "x * x + y * y", NOT),
    ("x - x + y", "y", HOLDS),
    ("(x + 1.0) - x", "1.0 + 0.0 * x", HOLDS),
    ("x / 3.0", "x * (1.0 / 3.0)", HOLDS),
    ("x * 0.1 + x * 0.2", "x * 0.3", HOLDS),
    ("x * 0.1 + x * 0.2", "x * 0.31", NOT),
    ("x * 0.125", "x / 8.0", HOLDS),
    ("x / y * y", "x", HOLDS),
    ("x * 1.0e-6", "x / 1000000.0", HOLDS),
    ("x * 1.0e-6", "0.0 * x", NOT),
    # exp, log and their inverses
    ("exp(x + y)", "exp(x) * exp(y)", HOLDS),
    ("exp(x - y)", "exp(x) / exp(y)", HOLDS),
    ("exp(x) + exp(y)", "exp(x + y)", NOT),
    ("log(exp(x) * exp(y))", "x + y", HOLDS),
    ("exp(x - log(exp(y) + exp(z)))", "exp(x) / (exp(y) + exp(z))", HOLDS),
    ("exp(2.0 * x)", "exp(x) * exp(x)", HOLDS),
    ("exp(exp(x) + exp(y))", "exp(exp(y) + exp(x))", HOLDS),
    ("exp(exp(x))", "exp(exp(y))", NOT),
    ("exp(exp(x) + 1.0)", "exp(exp(x))", NOT),
    ("exp(exp(x) / exp(y))", "exp(exp(x) * exp(y))", NOT),
    ("exp2(x)", "exp(x * 0.6931471805599453)", HOLDS),
    ("tanh(x)", "2.0 * logistic(2.0 * x) - 1.0", HOLDS),
    ("softplus(x) - softplus(-x)", "x", HOLDS),
    ("logistic(x)", "1.0 - logistic(-x)", HOLDS),
    ("logistic(x)", "1.0 - logistic(x)", NOT),
    ("sin(x)", "sin(x + 0.0)", HOLDS),
    ("sin(x) * sin(x) + cos(x) * cos(x)", "1.0 + 0.0 * x", OPEN),
    ("sin(x)", "cos(x)", NOT),
    # maxima
    ("max(x, max(y, z))", "max(max(z, x), y)", HOLDS),
    ("max(x, x)", "x", HOLDS),
    ("max(x, y)", "max(max(x, y), y)", HOLDS),
    ("max(x, y)", "max(x, max(y, z))", NOT),
    ("max(x, y)", "x", NOT),
    ("max(x, y)", "min(x, y)", NOT),
    ("min(x, y)", "-max(-x, -y)", HOLDS),
    ("max(x, y)", "x + y - min(x, y)", OPEN),
    ("max(x, 0.0)", "max(0.0, x)", HOLDS),
    ("max(x, 0.0)", "x", NOT),
    ("max(max(x, 1.0), 2.0)", "max(x, 2.0)", HOLDS),
    ("max(max(x, 1.0), 2.0)", "max(x, 1.0)", NOT),
    ("max(x * x, -1.0)", "x * x", HOLDS),
    ("max(exp(x), 0.0)", "exp(x)", HOLDS),
    ("abs(x) + abs(-x)", "2.0 * abs(x)", HOLDS),
    ("abs(x)", "x", NOT),
    ("abs(x * x)", "x * x", HOLDS),
    ("sign(x) * sign(x)", "1.0 + 0.0 * x", NOT),
    ("x - " + ROW.format("x"), "x - max(" + ROW.format("x") + ", -1.0e30)", HOLDS),
    ("x - " + ROW.format("x"), "x - " + ROW.format("x[:, 0:5]"), NOT),
    (ROW.format("x") + " + 0.0 * x", "max(" + ROW.format("x[:, 0:3]") + ", " + ROW.format("x[:, 3:6]") + ") + 0.0 * x", HOLDS),
    (ROW.format("x") + " + 0.0 * x", "max(" + ROW.format("x[:, 0:3]") + ", " + ROW.format("x[:, 4:6]") + ") + 0.0 * x", NOT),
    ("exp(x - " + ROW.format("x") + ")", "exp(x) / exp(" + ROW.format("x") + ")", HOLDS),
    ("reduce_min(x, axis = 1) + 0.0 * x", "-reduce_max(-x, axis = 1) + 0.0 * x", HOLDS),
    ("reduce_min(x, axis = 1) + 0.0 * x", "reduce_max(x, axis = 1) + 0.0 * x", NOT),
    ("cummax(x, axis = 1)", "cummax(max(x, x), axis = 1)", HOLDS),
    ("cummax(x, axis = 1)", "x", NOT),
    # sorts and orders
    ("sort(x, axis = 1)", "sort(x[:, ::1], axis = 1)", HOLDS),
    ("sort(x, axis = 1)", "sort(concatenate(x[:, 3:6], x[:, 0:3], axis = 1), axis = 1)", HOLDS),
    ("sort(x, axis = 1)", "sort(concatenate(x[:, 0:5], x[:, 0:1], axis = 1), axis = 1)", NOT),
    ("sort(x, axis = 1)", "x", NOT),
    ("sort(x, axis = 1)", "sort(max(x, y), axis = 1)", NOT),
    ("cast(argmax(x, axis = 1), f32) + 0.0 * x", "cast(argmax(x * 2.0, axis = 1), f32) + 0.0 * x", (ORDERS,)),
    ("cast(argmax(x, axis = 1), f32) + 0.0 * x", "cast(argmax(-x, axis = 1), f32) + 0.0 * x", NOT),
    ("cast(argmax(x, axis = 1), f32) + 0.0 * x", "cast(argmin(-x, axis = 1), f32) + 0.0 * x", (ORDERS,)),
    # comparisons
    ("where(x > y, x, y)", "where(y < x, x, y)", HOLDS),
    ("where(x > y, x, y)", "where(x > y, y, x)", NOT),
    ("where(x > y, 1.0, 0.0)", "where(x >= y, 1.0, 0.0)", OPEN + (REFUTED,)),
    ("where(x > y, 1.0, 0.0)", "1.0 - where(x <= y, 1.0, 0.0)", HOLDS),
    ("where(x > y && y > z, x, z)", "where(y > z && x > y, x, z)", HOLDS),
    ("where(x > y || y > z, x, z)", "where(!(x <= y && y <= z), x, z)", HOLDS),
    ("where(x > y, x, z)", "where(x > z, x, z)", NOT),
    ("where(x == x, x, y)", "x", HOLDS),
    ("where(x * x + 1.0 > 0.0, x, y)", "x", HOLDS),
    ("where(x > 0.0, x, 0.0)", "max(x, 0.0)", OPEN),
    ("where(reduce_max(x, axis = 1) == x, 1.0, 0.0)", "0.0 * x", OPEN + (REFUTED,)),
    ("where(c, x, y)", "where(!c, y, x)", HOLDS),
    ("where(c, x, y)", "where(c, y, x)", NOT),
    # masks and infinities
    ("exp(where(n == n, x, -1.0e30))", "exp(x)", HOLDS),
    ("exp(x - 1.0e30)", "0.0 * x", HOLDS),
    ("x - 1.0e30", "x - 1.0e29", NOT),
    ("(x - 1.0e30) - (y - 1.0e30)", "x - y", OPEN + (PROVED,)),
    ("x + -1.0e30", "y + -1.0e30", OPEN + (REFUTED,)),
    ("max(x, -inf)", "x", HOLDS),
    ("exp(x + -inf)", "0.0 * x", HOLDS),
    ("-inf + x - (-inf + x)", "0.0 * x", NOT),
    ("x * inf", "y * inf", OPEN + (REFUTED,)),
    ("exp(x) * inf", "inf + x", HOLDS),
    ("0.0 * x / (0.0 * x)", "x", NOT),
    # roots
    ("sqrt(x * x + 1.0) * sqrt(x * x + 1.0)", "x * x + 1.0", HOLDS),
    ("rsqrt(x * x + 1.0) * rsqrt(x * x + 1.0)", "1.0 / (x * x + 1.0)", HOLDS),
    ("x * rsqrt(y * y + 1.0)", "x / sqrt(y * y + 1.0)", HOLDS),
    ("sqrt(x * x)", "x", NOT),
    ("sqrt(x * x + 1.0)", "x", NOT),
    ("sqrt(x * x + 1.0)", "-sqrt(x * x + 1.0)", NOT),
    ("sqrt(exp(x)) * sqrt(exp(y))", "sqrt(exp(x + y))", HOLDS),
    ("x * sqrt(2.0) * sqrt(2.0)", "2.0 * x", HOLDS),
    ("x * 0.35355339", "x / sqrt(8.0)", HOLDS),
    ("x * 0.35355339", "x / sqrt(9.0)", NOT),
    ("x * rsqrt(64.0)", "x * 0.125", HOLDS),
    # integers
    ("cast(m, f32) * cast(n, f32)", "cast(cast(m, i32) * cast(n, i32), f32)", HOLDS),
    ("cast(m * n, f32)", "cast(m, f32) * cast(n, f32)", NOT),
    ("cast(cast(m, i16) * cast(n, i16), f32)", "cast(m, f32) * cast(n, f32)", HOLDS),
    ("cast(cast(m, i16) * cast(n, i16) * cast(n, i16), f32)", "cast(m, f32) * cast(n, f32) * cast(n, f32)", NOT),
    ("cast(m + n, f32)", "cast(m, f32) + cast(n, f32)", NOT),
    ("cast((m + n) - n, f32)", "cast(m, f32)", OPEN + (PROVED,)),
    ("cast(cast(cast(m, i32) * 3, i8), f32)", "cast(m, f32) * 3.0", NOT),
    ("cast(m, f32) * x", "x * cast(n, f32)", NOT),
    ("cast(max(m, n), f32)", "cast(max(n, m), f32)", HOLDS),
    ("cast(max(m, n), f32)", "cast(m, f32)", NOT),
    ("cast(cast(m, u8), f32)", "cast(m, f32)", NOT),
    ("where(m > n, x, y)", "where(n < m, x, y)", HOLDS),
    ("where(m > n, x, y)", "where(m > n, y, x)", NOT),
    ("round(x)", "floor(x)", NOT),
    ("round(x + 1.0)", "round(1.0 + x)", HOLDS),
    ("cast(cast(x, i32), f32)", "x", NOT),
    ("cast(cast(x, i32), f32)", "trunc(x)", OPEN),
    ("cast(x, bf16)", "x", OPEN + (PROVED,)),
]
HEAD = "x: f32[4, 6], y: f32[4, 6], z: f32[4, 6], m: i8[4, 6], n: i8[4, 6], c: bool[4, 6]"


def loaded(expression):
    return re.sub(r"\b([xyzmnc])\b(\[)?", lambda m: m[1] + "[" if m[2] else m[1] + "[...]", expression)


def trap(folder, number, body, meaning):
    path = Path(folder) / f"trap{number}.pk"
    path.write_text(f"kernel t({HEAD}) -> (o: f32[4, 6]) {{ o[...] = cast({loaded(body)}, f32); }}\nreference t {{ o = cast({meaning}, f32); }}\n")
    return prove(path, "m=randint:-128:128:1", "n=randint:-128:128:2")


def traps(folder):
    chosen = sampled(range(len(TRAPS)), 60, 40, "traps")
    with ThreadPoolExecutor(2) as pool:
        for k, (status, said) in zip(chosen, pool.map(lambda k: trap(folder, k, *TRAPS[k][:2]), chosen)):
            body, meaning, right = TRAPS[k]
            check(f"`{body}` for `{meaning}` is {' or '.join(NAMES[r] for r in right)}", status in right, f"exit {status}: {said}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        traps(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
