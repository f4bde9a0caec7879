#!/usr/bin/env python3
"""Integers of 8 and 16 bits and bools in packed vectors, against NumPy: each of their operations, at every size from 0 to 200.

The outputs of a dtype form one kernel with one loop, which `pkc explain` must call packed: an operation without a packed form would unpack
the others. Reductions along rows form a second kernel, reductions of all rows to one a third. They run natively, and at some of the sizes
for the other vector widths. Ends with "N passed, N failed".
"""
import os
import shutil
import subprocess

import numpy as np

from suite import BUILD, PKC, check, finish
from sampling import sampled

WORK = BUILD / "packed_vectors" / str(os.getpid())
MOST = 200
OTHER_SIZES = [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200]
TARGETS = ["generic", "x86-64-v2", "x86-64-v4"]
OTHER_SIGN = {"i8": "u8", "u8": "i8", "i16": "u16", "u16": "i16"}
NUMPY = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "bool": np.bool_}

# An expression, its dtype and its definition: x and y have the dtype T, c is bool, U is the integer of the other signedness.
COMPARISONS = [(f"x {op} y", "bool", lambda x, y, c, op=op: eval(f"x {op} y")) for op in ("==", "!=", "<", "<=", ">", ">=")]
INTEGERS = [
    ("x + y", "T", lambda x, y, c: x + y), ("x - y", "T", lambda x, y, c: x - y), ("x * y", "T", lambda x, y, c: x * y),
    ("x * 7 - 3", "T", lambda x, y, c: x * x.dtype.type(7) - x.dtype.type(3)), ("-x", "T", lambda x, y, c: -x),
    ("abs(x)", "T", lambda x, y, c: np.abs(x)), ("max(x, y)", "T", lambda x, y, c: np.maximum(x, y)),
    ("min(x, y)", "T", lambda x, y, c: np.minimum(x, y)), ("x & y", "T", lambda x, y, c: x & y), ("x | y", "T", lambda x, y, c: x | y),
    ("x ^ y", "T", lambda x, y, c: x ^ y), ("~x", "T", lambda x, y, c: ~x),
    ("where((x < y) & !(x == 5), x, max(y, 3))", "T",
     lambda x, y, c: np.where((x < y) & (x != 5), x, np.maximum(y, x.dtype.type(3)))),
    ("cast(x, U)", "U", lambda x, y, c: x.astype(c)), ("bitcast(x, U)", "U", lambda x, y, c: x.view(c)),
    ("cast(x >= y, T)", "T", lambda x, y, c: (x >= y).astype(x.dtype)), ("where(cast(x, bool), y, x)", "T", lambda x, y, c: np.where(x != 0, y, x)),
    *((f"where({text}, x, 9)", "T", lambda x, y, c, f=f: np.where(f(x, y, c), x, x.dtype.type(9))) for text, _, f in COMPARISONS)]
# A bool with as many bits as an element may be loaded and stored.
BYTES = [*INTEGERS, *COMPARISONS, ("cast(x, bool)", "bool", lambda x, y, c: x != 0), ("where(y > x, y > 2, x < 1)", "bool", lambda x, y, c: np.where(y > x, y > 2, x < 1))]
BOOLS = [*COMPARISONS, ("x & y", "bool", lambda x, y, c: x & y), ("x | y", "bool", lambda x, y, c: x | y), ("x ^ y", "bool", lambda x, y, c: x ^ y),
         ("!x", "bool", lambda x, y, c: ~x), ("where(x, y, !y)", "bool", lambda x, y, c: np.where(x, y, ~y)),
         ("cast(x, u8)", "u8", lambda x, y, c: x.astype(np.uint8)), ("where(x, true, y)", "bool", lambda x, y, c: x | y)]
CASES = {"i8": BYTES, "u8": BYTES, "i16": INTEGERS, "u16": INTEGERS, "bool": BOOLS}

def folded(ufunc, start):
    return lambda x, axis: ufunc.reduce(x, axis=axis, dtype=x.dtype, initial=start(x.dtype))


FOLDS = [("reduce_sum", folded(np.add, lambda t: t.type(0))), ("reduce_prod", folded(np.multiply, lambda t: t.type(1))),
         ("reduce_max", folded(np.maximum, lambda t: np.iinfo(t).min)), ("reduce_min", folded(np.minimum, lambda t: np.iinfo(t).max))]
TRUTHS = [("reduce_and", lambda x, axis: np.all(x, axis)), ("reduce_or", lambda x, axis: np.any(x, axis)),
          ("reduce_xor", lambda x, axis: np.logical_xor.reduce(x, axis))]
ROWS = 5


def reduced(dtype):
    """(name of the fold, argument, dtype of the result, its definition by x, y and the axis)."""
    if dtype == "bool":
        return [*((name, "x", "bool", lambda x, y, a, f=f: f(x, a)) for name, f in TRUTHS), *((name, "x | !y", "bool", lambda x, y, a, f=f: f(x | ~y, a)) for name, f in TRUTHS)]
    return [*((name, "x", dtype, lambda x, y, a, f=f: f(x, a)) for name, f in FOLDS), *((name, "x * y - 3", dtype, lambda x, y, a, f=f: f(x * y - x.dtype.type(3), a)) for name, f in FOLDS),
            *((name, "x < y", "bool", lambda x, y, a, f=f: f(x < y, a)) for name, f in TRUTHS)]


def rows_kernel(dtype, axis):
    """A kernel of several rows. Reductions of rows to one read operands only, because computed values are stored before them."""
    cases = [case for case in reduced(dtype) if axis or case[1] == "x"]
    shape = f"[{ROWS}, 1]" if axis else "[1, N]"
    outputs = ", ".join(f"o{i}: {t}{shape}" for i, (_, _, t, _) in enumerate(cases))
    body = "\n".join(f"  o{i}[...] = {name}({text}, axis = {axis});" for i, (name, text, _, _) in enumerate(cases))
    return cases, f"kernel k(in_x: {dtype}[{ROWS}, N], in_y: {dtype}[{ROWS}, N]) -> ({outputs}) {{\n  block in_x, in_y: [{ROWS}, N] at (0, 0);\n" \
        f"  block {', '.join(f'o{i}' for i in range(len(cases)))}: {shape} at (0, 0);\n  let x = in_x[...]; let y = in_y[...];\n{body}\n}}\n"


def kernel_of(dtype):
    names = {"T": dtype, "U": OTHER_SIGN.get(dtype, "u8")}
    cases = CASES[dtype]
    outputs = ", ".join(f"o{i}: {names.get(t, t)}[N]" for i, (_, t, _) in enumerate(cases))
    blocks = ", ".join(f"o{i}" for i in range(len(cases)))
    body = "\n".join(f"  o{i}[...] = {text.replace('U)', names['U'] + ')').replace('T)', dtype + ')')};" for i, (text, _, _) in enumerate(cases))
    return f"kernel k(in_x: {dtype}[N], in_y: {dtype}[N]) -> ({outputs}) {{\n  block in_x, in_y, {blocks}: [N] at (0);\n" \
           f"  let x = in_x[...]; let y = in_y[...];\n{body}\n}}\n"


def elements(dtype, count, rng):
    if dtype == "bool":
        return rng.random(count) < 0.5
    limits = np.iinfo(NUMPY[dtype])
    x = rng.integers(limits.min, limits.max + 1, count).astype(NUMPY[dtype])
    few = rng.random(count) < 0.4
    return np.where(few, rng.choice([limits.min, limits.min + 1, 0, 1, 5, limits.max - 1, limits.max], count).astype(x.dtype), x)


def operands(dtype, rows, size):
    rng = np.random.default_rng(size)
    x, y = elements(dtype, rows * size, rng), elements(dtype, rows * size, rng)
    same = rng.random(rows * size) < 0.3
    return x, np.where(same, x, y)


def results(folder, what, x, y, size, target, count):
    """The results of the kernel in the folder by output, or None if it does not run."""
    command = [PKC, "run", str(folder / "k.pk"), f"N={size}"] + (["--target", target] if target else [])
    for name, array in (("in_x", x), ("in_y", y)):
        np.save(folder / f"{name}.npy", array)
        command.append(f"{name}={folder / name}.npy")
    for i in range(count):
        command += ["-o", f"o{i}={folder}/o{i}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    return [np.load(folder / f"o{i}.npy") for i in range(count)] if check(f"{what} runs", done.returncode == 0, done.stderr[:800]) else None


def compare(what, got, expected):
    bad = np.flatnonzero(got.ravel() != expected.ravel()) if got.shape == expected.shape else []
    check(what, got.shape == expected.shape and not len(bad), len(bad) and f"element {bad[0]} is {got.ravel()[bad[0]]}, not {expected.ravel()[bad[0]]}")


def run(dtype, target, size):
    x, y = operands(dtype, 1, size)
    what = f"{dtype} {target or 'native'} N={size}"
    other = NUMPY[OTHER_SIGN[dtype]] if dtype in OTHER_SIGN else None
    found = results(WORK / dtype, what, x, y, size, target, len(CASES[dtype]))
    for got, (text, _, meaning) in zip(found or [], CASES[dtype]):
        compare(f"{what} {text}", got, meaning(x, y, other))


def run_rows(dtype, axis, cases, target, size):
    x, y = (a.reshape(ROWS, size) for a in operands(dtype, ROWS, size))
    what = f"{dtype} {target or 'native'} {ROWS} x {size} along axis {axis}"
    found = results(WORK / f"{dtype}{axis}", what, x, y, size, target, len(cases))
    for got, (name, text, _, meaning) in zip(found or [], cases):
        compare(f"{what} {name}({text})", got, np.expand_dims(meaning(x, y, axis), axis))


def explained(folder, text):
    folder.mkdir(parents=True)
    (folder / "k.pk").write_text(text)
    return subprocess.run([PKC, "explain", str(folder / "k.pk")], capture_output=True, text=True).stdout


def at_sizes(tried):
    for n in sampled(range(MOST + 1), 24, 6, "sizes"):
        tried(None, n)
    for other_target in TARGETS:
        for n in sampled(OTHER_SIZES, 5, 2, "sizes of other targets"):
            tried(other_target, n)


np.seterr(over="ignore")
for t in CASES:
    packed = f"packed in {16 if '16' in t else 8} bits"
    said = explained(WORK / t, kernel_of(t))
    loops = [row.strip() for row in said.splitlines() if row.strip().startswith("columns to")]
    check(f"{t} is packed in one loop", len(loops) == 1 and packed in loops[0], loops or said[:800])
    at_sizes(lambda target, n: run(t, target, n))
    for along in (0, 1):
        tested, kernel = rows_kernel(t, along)
        said = explained(WORK / f"{t}{along}", kernel)
        if along:
            check(f"{t} is packed along rows", packed in said, said[:800])
        at_sizes(lambda target, n: run_rows(t, along, tested, target, n))
shutil.rmtree(WORK)
raise SystemExit(finish())
