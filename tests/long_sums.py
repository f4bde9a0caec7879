#!/usr/bin/env python3
"""The error of long float sums, means and products, over 28,672 and 1,000,003 random terms, natively and on `generic`, relative to NumPy
in float64.

usage: long_sums.py [--table]; --table prints the errors. Ends with "N passed, N failed".

One f32 sum in order of n standard normal terms has a root mean square error of about 1.5e-8 sqrt(n) of that of the sum: 2.5e-6 and 1.5e-5
here. Sums of parts of 512 terms have 1.5e-8 sqrt(512 + n / 512), or less where vectors share the terms.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

from suite import PKC, check, finish

MOST = {28672: 6e-7, 1000003: 1.1e-6}
COUNT = {28672: 64, 1000003: 12}  # number of sums
ACROSS, DOWN = "x: {T}[M, N]", "x: {T}[N, M]"

# NAME: the operand, the output, the sum, the same in NumPy, the sizes other than the length N.
SUMS = {
    "rows": (ACROSS, "[M, 1]", "reduce_sum({x}, axis = 1)", lambda x: x.sum(1, keepdims=True)),
    "mean of rows": (ACROSS, "[M, 1]", "reduce_sum({x}, axis = 1) / cast(N, f32)", lambda x: x.mean(1, keepdims=True)),
    "masked rows": (ACROSS, "[M, 1]", "reduce_sum(where(iota([M, N], axis = 1) < N - 5, {x}, 0), axis = 1)",
                    lambda x: x[:, :-5].sum(1, keepdims=True)),
    "columns": (DOWN, "[1, M]", "reduce_sum({x}, axis = 0)", lambda x: x.sum(0, keepdims=True)),
    "mean of columns": (DOWN, "[1, M]", "reduce_sum({x}, axis = 0) / cast(N, f32)", lambda x: x.mean(0, keepdims=True)),
    "columns, one by one": (DOWN, "[M]", "reduce_sum({x}.T, axis = 1, keep = false)", lambda x: x.sum(0)),
    "short rows, then their sums": ("x: {T}[M, N, 3]", "[M, 1, 1]", "reduce_sum({x}, axis = (1, 2))", lambda x: x.sum((1, 2), keepdims=True)),
    "lines of two axes": ("x: {T}[N, 3, M]", "[1, 1, M]", "reduce_sum({x}, axis = (0, 1))", lambda x: x.sum((0, 1), keepdims=True)),
}
# Products of few rows with a computed right operand: in registers, through memory, and in steps of a grid.
PRODUCTS = {
    "weights": "o[...] = dot(x[...], cast(w[...], f32) * 0.5);",
    "weights by row": "let v = cast(w[...], f32); o[...] = dot(x[...], v * (4 / reduce_max(abs(v), axis = 1)));",
}
PRODUCT = "kernel long(x: f32[M, K], w: i8[K, N]) -> (o: f32[M, N]) {{ {body} }}\n"
STEPS = """kernel long(x: f32[M, K], w: i8[K, N]) -> (o: f32[M, N]) {
  grid (k in cdiv(K, 512) arbitrary);
  block x: [M, 512] at (0, k) pad 0;
  block w: [512, N] at (k, 0) pad 0;
  block o: [M, N] at (0, 0);
  when k == 0 { o[...] = 0; }
  o[...] += dot(x[...], cast(w[...], f32) * 0.5);
}
"""
KERNEL = "kernel long({operand}) -> (o: f32{shape}) {{ o[...] = {sum}; }}\n"


def result(folder, text, arrays, target):
    path, out = os.path.join(folder, "k.pk"), os.path.join(folder, "o.npy")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    inputs = []
    for name, array in arrays.items():
        np.save(os.path.join(folder, name), array)
        inputs.append(f"{name}={folder}/{name}.npy")
    environment = {**os.environ, "PK_VMEM_LIMIT": str(1 << 40)}
    done = subprocess.run([PKC, "run", path, *inputs, "-o", "o=" + out, *target], capture_output=True, text=True, timeout=300, env=environment)
    return done.stdout + done.stderr, np.load(out).astype(np.float64) if done.returncode == 0 else None


def judge(what, said, got, want, scale, most, table):
    """The root mean square of the errors, relative to that of such sums."""
    error = np.sqrt(((got - want) ** 2).mean()) / scale if got is not None else np.inf
    if table:
        print(f"{what}: {error:.2g}")
    check(what, error <= most, said if got is None else f"{error:.2g}, more than {most:.2g}")


def test_sums(folder, random, table):
    for name, (operand, shape, text, wanted) in SUMS.items():
        for n, most in MOST.items():
            for dtype in ("f32", "f16"):
                if dtype == "f16" and n > 28672:
                    continue
                axes = operand[operand.index("[") + 1:-1].split(", ")
                x = random.standard_normal([{"M": COUNT[n], "N": n}.get(axis) or int(axis) for axis in axes])
                x = x.astype(np.float16 if dtype == "f16" else np.float32)
                terms = x.size / COUNT[n]
                bound = most * (terms / n) ** 0.5 * (0.4 if dtype == "f16" else 1)  # terms of 11 bits have smaller errors
                value = "cast(x[...], f32)" if dtype == "f16" else "x[...]"
                kernel = KERNEL.format(operand=operand.format(T=dtype), shape=shape, sum=text.format(x=value))
                for target in ((), ("--target=generic",)):
                    said, got = result(folder, kernel, {"x": x}, target)
                    what = f"{name} of {n} {dtype}{' ' if target else ''}{' '.join(target)}"
                    judge(what, said, got, wanted(x.astype(np.float64)), terms ** 0.5 / (n if "mean" in name else 1), bound, table)


def test_products(folder, random, table):
    """A row also has the same bits among few rows and among many, and in steps of 512 terms."""
    k = 28672
    x, w = random.standard_normal((40, k)).astype(np.float32), random.integers(-7, 8, (k, 48)).astype(np.int8)
    for name, body in PRODUCTS.items():
        scaled = w * (0.5 if name == "weights" else 4 / np.abs(w).max(1, keepdims=True).astype(np.float32))
        want = x.astype(np.float64) @ scaled.astype(np.float64)
        for target in ((), ("--target=generic",)):
            seen = {}
            for rows in (1, 3, 24, 40):
                said, got = result(folder, PRODUCT.format(body=body), {"x": x[:rows], "w": w}, target)
                what = f"product with {name}, {rows} rows {' '.join(target)}"
                scale = np.sqrt((want ** 2).mean())
                judge(what, said, got, want[:rows], scale, 6e-7, table)
                seen[rows] = got
            check(f"{name}: bits of few and of many rows {' '.join(target)}", all(np.array_equal(seen[n], seen[40][:n]) for n in seen))
            if name == "weights":
                for rows in (1, 24):
                    said, got = result(folder, STEPS, {"x": x[:rows], "w": w}, target)
                    check(f"{name}: bits of steps of {rows} rows {' '.join(target)}", got is not None and np.array_equal(got, seen[rows]), said)


def main():
    table, random = "--table" in sys.argv[1:], np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        test_sums(folder, random, table)
        test_products(folder, random, table)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
