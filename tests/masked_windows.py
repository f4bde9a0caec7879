#!/usr/bin/env python3
"""Masked windows that leave their refs, against NumPy: constant, run-time and negative starts, strides, scalar indices, windows
wider than the ref, windows that touch its ends, refs of one to four axes in every kind of memory that loads and stores reach, transposed
views of refs, every dtype, overhanging blocks.

Windows without a mask are clamped: the first kernel.

Each kernel is run as code of the native or another target, by the interpreter (`--checked`), and, with its masks restricted to the ref,
by `pkc test`. `pkc check` must report a lane outside exactly if its mask is true.

    tests/masked_windows.py [COUNT [SEED]]

Ends with "N passed, N failed".
"""
import os
import random
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import dtypes
from sampling import most

WORK = os.path.join(os.path.abspath(os.environ.get("BUILD", "build")), "masked_windows", str(os.getpid()))
FAR = [-(1 << 31), -(1 << 31) + 1, (1 << 31) - 1, 1 << 30, -70000, 70000]
TARGETS = [[], [], ["--target=x86-64-v3"], ["--target=generic"], ["--dma=literal"], ["--threads=2"]]


def codes(rng, dtype, shape):
    """Values that every dtype can represent."""
    if dtype == "f32":
        return rng.integers(-5, 6, shape).astype(np.float32).view(np.uint32)
    if dtype == "f64":
        return rng.integers(-5, 6, shape).astype(np.float64).view(np.uint64)
    if dtype in dtypes.FLOATS:
        finite = np.flatnonzero(np.isfinite(dtypes.TABLE[dtype]))
        return rng.choice(finite, shape).astype(dtypes.UNSIGNED[dtypes.bits_of(dtype)])
    return dtypes.codes_of(dtype, shape, int(rng.integers(1 << 30)))


class Axis:
    """The elements that a window selects along one axis of a ref of `dim` elements."""

    def __init__(self, r, dim, starts):
        self.dim, self.squeeze, self.stride = dim, r.random() < 0.15, r.choice([1, 1, 1, 2, 3])
        self.size = 1 if self.squeeze else r.choice([1, 2, 5, 16, 17, 33, max(1, dim // 2), max(1, dim), dim + 3, 2 * dim + 1])
        reach = (self.size - 1) * self.stride + 1
        near = r.randint(-reach - 1, dim + 1)
        self.start = r.choice([0, near, near, near, r.randint(0, max(0, dim - reach)), r.choice(FAR)])
        self.constant = r.random() < 0.4 and abs(self.start) < 1 << 31
        if self.constant and self.squeeze and self.start < 0:
            self.start = dim + 1  # constants below 0 count from the end
        self.text = str(self.start)
        if not self.constant:
            self.text = "s[%d]" % len(starts)
            starts.append(self.start)

    def window(self):
        stride = ", %d" % self.stride if self.stride > 1 else ""
        return self.text if self.squeeze else "ds(%s, %d%s)" % (self.text, self.size, stride)

    def index(self):
        return self.start + self.stride * np.arange(self.size)

    def inside(self):
        return (self.index() >= 0) & (self.index() < self.dim)

    def condition(self, shape, lane_axis):
        at = "cast(%s, i64)" % self.text
        if not self.squeeze and shape:
            at += " + %d * cast(iota(%s, axis = %d), i64)" % (self.stride, shape, lane_axis)
        return "%s >= 0 && %s < %d" % (at, at, self.dim)


class Access:
    def __init__(self, r, rng, n, starts, bounded, grid):
        self.name, self.dtype, self.bounded = "%d" % n, r.choice([t for t in dtypes.ALL if t != dtypes.SCALE]), bounded
        rank = r.choice([1, 1, 2, 2, 3, 4])
        self.dims = [r.choice([1, 3, 8, 17, 64] if rank < 3 else [1, 2, 5, 9]) for _ in range(rank)]
        self.axes = [Axis(r, d, starts) for d in self.dims]
        self.shape = [a.size for a in self.axes if not a.squeeze]
        while np.prod(self.shape, dtype=int) > 20000:
            widest = max((a for a in self.axes), key=lambda a: a.size)
            widest.size = max(1, widest.size // 2)
            self.shape = [a.size for a in self.axes if not a.squeeze]
        self.blocks, self.place = grid, r.choice(["ref", "ref", "scratch", "var"])
        self.extent = [d * grid - r.randint(0, d - 1) if k == 0 and grid > 1 else d for k, d in enumerate(self.dims)]
        self.sized = [grid == 1 and r.random() < 0.3 for _ in self.dims]
        self.turned = grid == 1 and rank > 1 and not any(self.sized) and r.random() < 0.3  # x and o are seen through views
        self.x, self.y = codes(rng, self.dtype, self.extent), codes(rng, self.dtype, self.extent)
        self.one = codes(rng, self.dtype, self.shape)
        inside = np.ones(self.shape, bool)
        lane = 0
        for a in self.axes:
            inside = inside & (a.inside().all() if a.squeeze else a.inside().reshape([-1 if k == lane else 1 for k in range(len(self.shape))]))
            lane += not a.squeeze
        self.inside = inside
        self.kind = r.choice(["true", "array", "array", "iota"])
        self.mask = np.ones(self.shape, bool) if self.kind == "true" else rng.integers(0, 4, self.shape) > 0
        if self.kind == "iota":
            self.limit = r.randint(0, self.shape[-1]) if self.shape else 1
            self.mask = np.broadcast_to(np.arange(self.shape[-1]) < self.limit, self.shape) if self.shape else np.ones([], bool)
        if bounded:
            self.mask = self.mask & inside
        self.other, self.load_first = not bounded or r.random() < 0.7, r.random() < 0.5

    def brackets(self, shape=None):
        shape = self.shape if shape is None else shape
        return "[%s]" % ", ".join(map(str, shape)) if len(shape) else ""

    def type(self, shape, prefix=""):
        if prefix:
            shape = ["%s%s_%d" % (prefix, self.name, k) if s else n for k, (n, s) in enumerate(zip(shape, self.sized))]
        return "%s%s" % (self.dtype, self.brackets(shape))

    def stored(self, array):
        """Dimensions, or an array, of x, y or o as declared."""
        if not self.turned:
            return array
        return array[::-1] if isinstance(array, list) else np.ascontiguousarray(array.transpose())

    def stored_shape(self):
        return [self.blocks] + (self.shape or [1])

    def inputs(self):
        for name, values in (("x", self.x), ("y", self.y)):
            yield name + self.name, self.type(self.stored(self.extent), "N"), self.stored(values), self.dtype
        yield "w" + self.name, self.type(self.shape or [1]), self.one.reshape(self.shape or [1]), self.dtype
        if self.kind == "array":
            yield "m" + self.name, "bool" + self.brackets(self.shape or [1]), self.mask.reshape(self.shape or [1]).astype(np.uint8), "bool"

    def outputs(self):
        loaded, stored = self.expected()
        yield "l" + self.name, "%s[%s]" % (self.dtype, ", ".join(map(str, self.stored_shape()))), loaded
        yield "o" + self.name, self.type(self.stored(self.extent), "N"), self.stored(stored)

    def one_text(self):
        return "true" if self.dtype == "bool" else "1"

    def blocks_text(self):
        n, lead = self.name, len(self.stored_shape()) - 1
        text = "  block l%s: [_, %s] at (g, %s);\n" % (n, ", ".join(map(str, self.stored_shape()[1:])), ", ".join(["0"] * lead))
        if self.blocks > 1:
            zeros = ", 0" * (len(self.dims) - 1)
            text += "  block x%s, y%s: %s at (g%s) pad %s;\n  block o%s: %s at (g%s);\n" % (
                n, n, self.brackets(self.dims), zeros, self.one_text(), n, self.brackets(self.dims), zeros)
        if self.place == "scratch":
            text += "  scratch t%s: vmem %s;\n" % (n, self.type(self.stored(self.dims), "N"))
        return text

    def mask_text(self):
        shape, n = self.brackets(), self.name
        if self.kind == "array":
            return "m%s[...]" % n if self.shape else "m%s[0]" % n
        terms = ["iota(%s, axis = %d) < %d" % (shape, len(self.shape) - 1, self.limit)] if self.kind == "iota" and self.shape else []
        lane = 0
        for a in self.axes:
            if self.bounded:
                terms.append(a.condition(shape, lane))
            lane += not a.squeeze
        return " && ".join(terms) or "true"

    def body(self):
        n, window = self.name, ", ".join(a.window() for a in self.axes)
        source, text = "x" + n, ""
        other = ", other = %s" % self.one_text()
        if self.place == "scratch":
            text += "  t%s[...] = x%s[...];\n" % (n, n)
            source = "t" + n
        if self.place == "var" and not any(self.sized):
            text += "  var t%s: %s = x%s[...];\n" % (n, self.type(self.stored(self.dims)), n)
            source = "t" + n
        target = "o" + n
        if self.turned:
            perm = ", ".join(map(str, reversed(range(len(self.dims)))))
            for name in (source, target):
                text += "  let %s_view = view(%s[...], perm = (%s));\n" % (name, name, perm)
            source, target = source + "_view", target + "_view"
        mask = "mask%s" % n
        text += "  let %s = %s;\n" % (mask, self.mask_text())
        load = "load(%s[%s], mask = %s%s)" % (source, window, mask, other if self.other else "")
        if not self.other:
            load = "where(%s, %s, %s)" % (mask, load, self.one_text())
        value = "w%s[...]" % n if self.shape else "w%s[0]" % n
        load = "  l%s[...] = %s;\n" % (n, "reshape(%s, [1])" % load if not self.shape else load)
        store = "  o%s[...] = y%s[...];\n  store(%s[%s], %s, mask = %s);\n" % (n, n, target, window, value, mask)
        return text + (load + store if self.load_first else store + load)

    def expected(self):
        """The result of the load in each block, and the memory after the store."""
        x, y, w = (dtypes.decode(self.dtype, c) for c in (self.x, self.y, self.one))
        one = True if self.dtype == "bool" else 1
        lanes = self.mask & self.inside
        grid = np.ix_(*[np.clip(a.index(), 0, a.dim - 1) for a in self.axes])
        sizes = [a.size for a in self.axes]
        loaded, stored = [], y.copy()
        for g in range(self.blocks):
            part = slice(g * self.dims[0], (g + 1) * self.dims[0])
            block, target = (np.full(self.dims, one, x.dtype) for _ in range(2))
            rows = x[part].shape[0]
            block[:rows], target[:rows] = x[part], y[part]
            loaded.append(np.where(lanes, block[grid].reshape(self.shape), one).reshape(self.shape or [1]))
            for at in np.argwhere(lanes.reshape(sizes)):
                target[tuple(g_[tuple(i if k == axis else 0 for k in range(len(sizes)))] for axis, (g_, i) in enumerate(zip(grid, at)))] = w.reshape(sizes)[tuple(at)]
            stored[part] = target[:rows]
        return np.stack(loaded), stored

    def leaves(self):
        return bool((self.mask & ~self.inside).any())


class Edge(Access):
    """A window of one axis, or one element (stride 0), under a mask that is true everywhere."""

    def __init__(self, rng, n, starts, start, size, stride, constant):
        axis = Axis.__new__(Axis)
        axis.dim, axis.squeeze, axis.stride, axis.size, axis.start, axis.constant = 8, not stride, stride, size, start, constant
        axis.text = str(start) if constant else "s[%d]" % len(starts)
        starts += [] if constant else [start]
        self.name, self.dtype, self.bounded, self.dims, self.axes, self.shape = "%d" % n, "f32", False, [8], [axis], [size] * (stride > 0)
        self.blocks, self.place, self.extent, self.sized, self.turned = 1, "ref", [8], [False], False
        self.x, self.y, self.one = codes(rng, "f32", [8]) + 1, codes(rng, "f32", [8]), codes(rng, "f32", self.shape)
        self.inside, self.kind, self.mask = axis.inside().reshape(self.shape), "true", np.ones(self.shape, bool)
        self.other, self.load_first = True, True


def edges(rng, starts):
    """Windows that contain one element, or none, at either end of the ref, and their neighbours."""
    cases = []
    for size, stride in ((5, 1), (3, 2), (1, 1)):
        reach = (size - 1) * stride + 1
        for start in sorted({-reach - 1, -reach, 1 - reach, -1, 0, 8 - reach, 9 - reach, 7, 8, 9}):
            cases += [(start, size, stride, True), (start, size, stride, False)]
    cases += [(start, 1, 0, constant) for start, constant in ((7, True), (8, True), (9, True), (-1, False), (0, False), (7, False), (8, False))]
    return [Edge(rng, n, starts, *case) for n, case in enumerate(cases)]


def text_of(name, accesses, starts, grid):
    inputs = ["s: i32[%d]" % max(1, len(starts))] + ["%s: %s" % (n, t) for a in accesses for n, t, *_ in a.inputs()]
    outputs = ["%s: %s" % (n, t) for a in accesses for n, t, _ in a.outputs()]
    blocks = "".join(a.blocks_text() for a in accesses)
    return "kernel %s(%s) -> (%s) {\n  grid (g in %d%s);\n  block s: smem;\n%s%s}\n" % (
        name, ", ".join(inputs), ", ".join(outputs), grid, " parallel" if grid > 1 else "", blocks, "".join(a.body() for a in accesses))


CLAMPED = [(size, stride, start) for size, stride in ((5, 1), (3, 2), (1, 1), (8, 1))
           for start in (-70000, -8, -1, 0, 8 - (size - 1) * stride - 1, 8 - (size - 1) * stride, 7, 8, 70000)]


def clamped():
    """Windows without a mask are moved into their ref: with a start from data, one that folding makes a constant, and a constant one under
    a condition, which is treated as a run-time start."""
    x, y = np.arange(1, 9, dtype=np.float32), -np.arange(1, 9, dtype=np.float32)
    starts = np.array([start for *_, start in CLAMPED] + [1], np.int32)
    outputs, body, want = [], "", {}
    for n, (size, stride, start) in enumerate(CLAMPED):
        at = min(max(start, 0), 7 - (size - 1) * stride) + stride * np.arange(size)
        for kind, text in (("d", "s[%d]" % n), ("f", "s[%d] * 0 + %d" % (n, start)), ("c", "%d" % start), ("r", "%d" % start)):
            load, store = "l%s%d" % (kind, n), "o%s%d" % (kind, n)
            outputs += ["%s: f32[%d]" % (load, size), "%s: f32[8]" % store]
            window = "ds(%s, %d, %d)" % (text, size, stride)
            if kind == "r":  # bounds, which count from the end where they are negative
                window = "%d:%d:%d" % (start, start + (size - 1) * stride + 1, stride) if start >= 0 else "ds(%s, %d, %d)" % (text, size, stride)
            lines = "%s[...] = x[%s]; %s[...] = y[...]; %s[%s] = x[0:%d];" % (load, window, store, store, window, size)
            value, square = "v%s%d" % (kind, n), "w%s%d" % (kind, n)
            outputs += ["%s: f32[%d]" % (value, size), "%s: f32[%d, 2]" % (square, size)]
            lines += " %s[...] = (x[...] + 0)[%s]; %s[...] = table[%s, ds(%s, 2)];" % (value, window, square, window, text)
            row = "t%s%d" % (kind, n)  # one element at a run-time position: loaded by itself, from the window that was moved inside
            outputs.append("%s: f32[1]" % row)
            lines += " %s[...] = take(x[%s], stack(max(min(s[%d], %d), 0)), axis = 0);" % (row, window, len(CLAMPED), size - 1)
            want[row] = x[at[min(1, size - 1)]][None]
            want[value] = x[at]
            want[square] = (x[:, None] + 10 * x[:3])[at, min(max(start, 0), 1):][:, :2]
            body += "  %s\n" % ("when s[%d] > 0 { %s }" % (len(CLAMPED), lines) if kind in "cr" else lines)
            want[load], want[store] = x[at], y.copy()
            want[store][at] = x[:size]
    folder = os.path.join(WORK, "clamped")
    os.makedirs(folder)
    path = os.path.join(folder, "clamped.pk")
    with open(path, "w") as file:
        file.write("kernel clamped(s: i32[%d], x: f32[8], y: f32[8]) -> (%s) {\n  block s: smem;\n"
                   "  let table = x[...][:, None] + 10 * x[0:3];\n%s}\n" % (len(starts), ", ".join(outputs), body))
    for name, values in (("s", starts), ("x", x), ("y", y)):
        np.save(os.path.join(folder, name + ".npy"), values)
    data = ["%s=%s" % (name, os.path.join(folder, name + ".npy")) for name in "sxy"]
    out = [t for name in want for t in ("-o", "%s=%s" % (name, os.path.join(folder, "out_%s.npy" % name)))]
    failures = []
    for target in ([], ["--target=generic"], ["--dma=literal"]):
        command = [dtypes.PKC, "run", path, *data, *out, *target]
        done = call(command)
        wrong = [name for name in want if done.returncode or not np.array_equal(np.load(os.path.join(folder, "out_%s.npy" % name)), want[name])]
        if wrong:
            failures.append("%s: %s %s" % (" ".join(command[:6] + target), ", ".join(wrong), (done.stderr or done.stdout).strip()[:500]))
    done = call([dtypes.PKC, "run", path, *data, *out, "--checked"])
    if "differ" in done.stdout + done.stderr or "wrong" in done.stdout + done.stderr:
        failures.append("clamped --checked: " + (done.stdout + done.stderr)[:2000])
    return failures


def call(command):
    return subprocess.run(command, capture_output=True, text=True)


def run(n, seed):
    r, rng = random.Random("%d.%d" % (seed, n)), np.random.default_rng([seed, n])
    starts, bounded, grid = [], r.random() < 0.6, r.choice([1, 1, 3])
    if n == 0:
        bounded, grid = False, 1
    accesses = edges(rng, starts) if n == 0 else [Access(r, rng, k, starts, bounded, grid) for k in range(r.choice([1, 2, 3]))]
    folder = os.path.join(WORK, "k%d" % n)
    os.makedirs(folder)
    path = os.path.join(folder, "k%d.pk" % n)
    text = text_of("k%d" % n, accesses, starts, grid)
    data, files = [], {}
    for name, dtype, values in [("s", "i32", np.array(starts or [0]).astype(np.int32))] + [(i, d, c) for a in accesses for i, _, c, d in a.inputs()]:
        dtypes.save(os.path.join(folder, name + ".npy"), dtype, values)
        data.append("%s=%s" % (name, os.path.join(folder, name + ".npy")))
    for a in accesses:
        for name, _, want in a.outputs():
            files[name] = (os.path.join(folder, "out_" + name + ".npy"), a.dtype, want)
    if bounded:
        text = "// test: %s\n" % " ".join("%s=%s" % tuple(d.split("=")) for d in data) + text
    with open(path, "w") as file:
        file.write(text)
    out = [t for name, (f, *_) in files.items() for t in ("-o", "%s=%s" % (name, f))]
    command = [dtypes.PKC, "run", path, *data, *out, *r.choice(TARGETS)]
    done = call(command)
    if done.returncode:
        return ["%s: %s" % (" ".join(command), (done.stderr or done.stdout).strip()[:2000])]
    failures = []
    for name, (f, dtype, want) in files.items():
        got = dtypes.load(f, dtype)
        if got.shape != want.shape or not (got == want).all():
            failures.append("%s differs; reproduce: %s" % (name, " ".join(command)))
    checked = call([dtypes.PKC, "check", path, *data])
    if ("out of range" in checked.stdout + checked.stderr) != any(a.leaves() for a in accesses):
        failures.append("findings: %s %s: %s" % (path, " ".join(data), (checked.stdout + checked.stderr)[:500]))
    if bounded:
        done = call([dtypes.PKC, "test", path])
        if done.returncode:
            failures.append((done.stdout + done.stderr)[:2000])
    else:
        done = call(command + ["--checked"])
        if "differ" in done.stdout + done.stderr or "wrong" in done.stdout + done.stderr:
            failures.append(" ".join(command) + " --checked: " + (done.stdout + done.stderr)[:2000])
    if not failures:
        shutil.rmtree(folder)
    return failures


def main():
    count = int(sys.argv[1]) if sys.argv[1:] else most(40, 12, what="kernels")
    seed = int(sys.argv[2]) if sys.argv[2:] else 1
    failed = 0
    for n in range(-1, count):
        failures = run(n, seed) if n >= 0 else clamped()
        for text in failures:
            print("FAIL", text)
        failed += bool(failures)
    count += 1
    print("%d passed, %d failed" % (count - failed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
