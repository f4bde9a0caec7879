#!/usr/bin/env python3
"""Operations that only move elements keep all bits: every pattern of every narrow float, native and portable.

codegen/ir/ops.def marks these operations (MOVED). Each has expressions here, of an array x that holds all patterns, or of y, the same
patterns as integers; the expected results are computed on integers only. Statements move elements through memory: scratch, variables,
copies, masks. Ends with "N passed, N failed".
"""
import os
import re
import shutil
import subprocess
import sys

import numpy as np

from suite import BUILD, PKC, ROOT, check, finish

DTYPES = {"f16": 16, "bf16": 16, "f8e4m3fn": 8, "f8e5m2": 8, "f8e4m3b11fnuz": 8, "f8e4m3fnuz": 8, "f8e5m2fnuz": 8, "f8e8m0fnu": 8, "f4e2m1fn": 4}
TARGETS = ["native", "generic"]
WORK = BUILD / "moved_bits" / str(os.getpid())

# Expressions of each operation, with the expected result as a function of the patterns x. T is the dtype, U and I are the integers of its
# width, OTHER is another float of that width, ONE a number of the dtype, N the number of rows and of columns. `odd` is a mask, `order` a
# permutation of [0, N), `every` has one such permutation in each row, `five` is 5.
EXPRESSIONS = {
    "select": [("where(odd, x, rev(x, 1))", lambda x, m: np.where(m.odd, x, x[:, ::-1])),
               ("where(odd, x, ONE)", lambda x, m: np.where(m.odd, x, m.one)),
               ("where(x != x, x, max(x, x))", lambda x, m: x)],
    "bitcast": [("bitcast(x, U)", lambda x, m: x), ("bitcast(x, I)", lambda x, m: x), ("bitcast(y, T)", lambda x, m: x),
                ("bitcast(rev(bitcast(y, T), 0), U)", lambda x, m: x[::-1]), ("bitcast(rev(bitcast(x, OTHER), 1), U)", lambda x, m: x[:, ::-1]),
                ("bitcast(bitcast(transpose(x, (1, 0)), U) ^ 1, T)", lambda x, m: x.T ^ 1)],
    "broadcast": [("broadcast(x[1:2, :], [N, N])", lambda x, m: np.repeat(x[1:2], len(x), 0)),
                  ("broadcast(x[:, 3:4], [N, N])", lambda x, m: np.repeat(x[:, 3:4], len(x), 1))],
    "reshape": [("reshape(rev(reshape(x, [N, N / 8, 8]), 1), [N, N])", lambda x, m: x.reshape(len(x), -1, 8)[:, ::-1].reshape(x.shape))],
    "transpose": [("transpose(x, (1, 0))", lambda x, m: x.T)],
    "slice": [("concatenate(x[:, 0:N:2], x[:, 1:N:2], axis = 1)", lambda x, m: np.concatenate([x[:, ::2], x[:, 1::2]], 1))],
    "concatenate": [("concatenate(x[4:N, :], x[0:4, :], axis = 0)", lambda x, m: np.roll(x, -4, 0)),
                    ("concatenate(x[:, 3:N], x[:, 0:3], axis = 1)", lambda x, m: np.roll(x, -3, 1))],
    "pad": [("pad(x[1:N, 2:N], ((1, 0), (0, 2)), value = ONE)", lambda x, m: np.pad(x[1:, 2:], ((1, 0), (0, 2)), constant_values=m.one))],
    "roll": [("roll(x, 3, 1)", lambda x, m: np.roll(x, 3, 1)), ("roll(x, five, 0)", lambda x, m: np.roll(x, 5, 0))],
    "rev": [("rev(x, 0)", lambda x, m: x[::-1]), ("rev(x, 1)", lambda x, m: x[:, ::-1])],
    "window": [("concatenate(x[ds(five, N - 5), :], x[ds(five - 5, 5), :], axis = 0)", lambda x, m: np.roll(x, -5, 0)),
               ("concatenate(x[:, ds(five, N - 5)], x[:, ds(five - 5, 5)], axis = 1)", lambda x, m: np.roll(x, -5, 1))],
    "take": [("take(x, order, axis = 0)", lambda x, m: x[m.order]), ("take(x, order, axis = 1)", lambda x, m: x[:, m.order])],
    "take_along_axis": [("take_along_axis(x, every, axis = 1)", lambda x, m: np.take_along_axis(x, m.every, 1)),
                        ("take_along_axis(x, every, axis = 0)", lambda x, m: np.take_along_axis(x, m.every, 0))],
    "gather": [("x[in_order[...], every]", lambda x, m: x[m.order, m.every]), ("x[every, every]", lambda x, m: x[m.every, m.every])],
    "if": [("if five > 2 { rev(x, 1) } else { sort(x, axis = 1) }", lambda x, m: x[:, ::-1])],
}
# Moves through memory: statements that store to o. `kept` and `copy` are scratch.
STATEMENTS = {
    "load": [("o[...] = x;", lambda x, m: x),
             ("for i in 0..N { o[i, :] = in_x[i, :]; }", lambda x, m: x),
             ("for i in 0..N { for j in 0..8 { o[i, j] = in_x[i, j]; } o[i, 8:N] = in_x[i, 8:N]; }", lambda x, m: x),
             ("o[:, 0:1] = in_x[:, 0:1]; o[:, 1:N] = in_x[:, 1:N];", lambda x, m: x),
             ("kept[...] = transpose(x, (1, 0)); o[...] = rev(kept[...], 0);", lambda x, m: x.T[::-1]),
             ("var v: T[N, N] = x; for i in 0..3 { v[...] = roll(v[...], 1, 1); } o[...] = v[...];", lambda x, m: np.roll(x, 3, 1)),
             ("o[...] = ONE; store(o[...], x, mask = odd);", lambda x, m: np.where(m.odd, x, m.one)),
             ("o[...] = load(in_x[ds(2, N), :], mask = iota([N, N], 0) < N - 2, other = ONE);",
              lambda x, m: np.pad(x[2:], ((0, 2), (0, 0)), constant_values=m.one)),
             ("let c = async_copy(in_x[...] -> copy[...], sem); c.start(); c.wait(); o[...] = copy[...];", lambda x, m: x),
             ("let w = view(in_x[...], dtype = U); o[...] = bitcast(w[...], T);", lambda x, m: x)],
}
STATEMENTS["take_along_axis"] = [("let k, s = sort_by(every, x, axis = 1); o[...] = s;", lambda x, m: np.take_along_axis(x, np.argsort(m.every, 1), 1))]
# `neg` and `abs` change only the sign bit, except in FNUZ, whose zero has no sign.
SIGNS = [("-x", lambda x, m: x ^ m.sign), ("abs(x)", lambda x, m: x & ~m.sign & m.all), ("where(odd, -abs(x), rev(x, 1))", lambda x, m: np.where(m.odd, x | m.sign, x[:, ::-1])),
         ("-transpose(x, (1, 0))", lambda x, m: x.T ^ m.sign), ("if five > 2 { -x } else { x }", lambda x, m: x ^ m.sign)]
BESIDE = {"signbit(x)": lambda x, m: x >> (m.bits - 1),
          "copysign(full([N, N], 1, dtype = T), x) < 0": lambda x, m: (x >> (m.bits - 1)) * ~((x == 0x80) & m.dtype.endswith("fnuz"))}


class Meaning:
    """The other names in expressions."""

    def __init__(self, dtype):
        self.dtype, self.bits = dtype, DTYPES[dtype]
        self.n = n = max(16, 1 << self.bits // 2)
        self.sign, self.all = 1 << self.bits - 1, (1 << self.bits) - 1
        self.u = np.dtype(f"u{max(1, self.bits // 8)}")
        self.x = (np.arange(n * n, dtype=np.uint32) % (1 << self.bits)).astype(self.u).reshape(n, n)
        self.odd = np.add.outer(np.arange(n), np.arange(n)) % 3 > 0
        self.order = np.random.default_rng(1).permutation(n).astype(np.int32)
        self.every = np.random.default_rng(2).permuted(np.tile(np.arange(n, dtype=np.int32), (n, 1)), axis=1)
        self.one = {"f16": 0x3c00, "bf16": 0x3f80, "f8e4m3fn": 0x38, "f8e5m2": 0x3c, "f8e4m3b11fnuz": 0x58, "f8e4m3fnuz": 0x40,
                    "f8e5m2fnuz": 0x40, "f8e8m0fnu": 0x7f, "f4e2m1fn": 0x2}[dtype]

    def text(self, text):
        other = {"f16": "bf16", "bf16": "f16", "f8e5m2": "f8e4m3fn"}.get(self.dtype, "f8e5m2")
        words = {"T": self.dtype, "U": f"u{self.bits}", "I": f"i{self.bits}", "OTHER": other, "ONE": "1.0", "N": str(self.n)}
        return re.sub(r"\b(T|U|I|OTHER|ONE|N)\b", lambda w: words[w[0]], text)


def moved_operations():
    """The names of ops.def whose results are elements of their operands."""
    text = (ROOT / "codegen/ir/ops.def").read_text()
    return [name for name, columns in re.findall(r'^OP\(\w+, "(\w+)",(.*?)"', text, re.M | re.S) if re.search(r"\bMOVED\b", columns)]


def kernel_of(m):
    """Returns (text of the kernel, {output: (its expression, its patterns)})."""
    outputs, parameters, body = {}, [], []

    def add(what, dtype, statement, meaning):
        o = f"o{len(outputs)}"
        outputs[o] = (what, meaning(m.x, m))
        parameters.append(f"{o}: {m.text(dtype)}[N, N]")
        body.append("  " + re.sub(r"\bo\b", o, statement))
    for cases in EXPRESSIONS.values():
        for text, meaning in cases:
            dtype = re.fullmatch(r"bitcast\(.*, (\w)\)", text)
            add(text, dtype[1] if dtype else "T", f"o[...] = {text};", meaning)
    for text, meaning in SIGNS if m.dtype != "f8e8m0fnu" and not m.dtype.endswith("fnuz") else []:
        add(text, "T", f"o[...] = {text};", meaning)
    for cases in STATEMENTS.values():
        for text, meaning in cases:
            add(text, "T", text, meaning)
    for text, meaning in BESIDE.items():
        if m.dtype != "f8e8m0fnu":
            add(text, "bool", f"o[...] = {text};", meaning)
    blocks = ", ".join(outputs)
    text = f"""kernel moves(in_x: T[N, N], in_y: U[N, N], in_odd: bool[N, N], in_every: i32[N, N], in_order: i32[N], in_five: i32[1]) -> (
  {", ".join(parameters)}) {{
  block {blocks}: [N, N] at (0, 0);
  scratch kept, copy: vmem T[N, N];
  scratch sem: sem dma;
  let x = in_x[...]; let y = in_y[...]; let odd = in_odd[...]; let every = in_every[...]; let order = in_order[...]; let five = in_five[0];
"""
    return m.text(text) + m.text("\n".join(body)) + "\n}\n", outputs


def run(dtype, target):
    m = Meaning(dtype)
    folder = WORK / f"{dtype}_{target}"
    folder.mkdir(parents=True)
    text, outputs = kernel_of(m)
    (folder / "moves.pk").write_text(text)
    header = {"f16": "<f2"}.get(dtype, f"V{m.u.itemsize}")
    inputs = {"in_x": m.x.view(header), "in_y": m.x.view("V1") if m.bits < 8 else m.x, "in_odd": m.odd, "in_every": m.every, "in_order": m.order, "in_five": np.array([5], np.int32)}
    command = [PKC, "run", str(folder / "moves.pk")] + ([] if target == "native" else ["--target", target])
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        command.append(f"{name}={folder / name}.npy")
    for name in outputs:
        command += ["-o", f"{name}={folder / name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not check(f"{dtype} {target} runs", done.returncode == 0, done.stderr[:1600]):
        return
    for name, (what, expected) in outputs.items():
        got = np.load(folder / f"{name}.npy")
        got = got.view(np.uint8 if got.dtype == bool else m.u)
        bad = np.argwhere(got != expected)
        at = tuple(bad[0]) if len(bad) else None
        check(f"{dtype} {target} {what}", not len(bad), at and f"{len(bad)} of {got.size} patterns change, the first {expected[at]:#x} to {got[at]:#x}")


operations = moved_operations()
check("every operation that moves elements is tried", set(operations) == {*EXPRESSIONS, *STATEMENTS}, sorted({*operations} ^ {*EXPRESSIONS, *STATEMENTS}))
for t in sys.argv[1:] or DTYPES:
    for target in TARGETS:
        run(t, target)
shutil.rmtree(WORK)
raise SystemExit(finish())
