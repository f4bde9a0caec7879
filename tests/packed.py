#!/usr/bin/env python3
"""Operands whose elements share bytes, against NumPy: called with DLPack tensors of any layout, and from the command line.

    tests/packed.py

Prints one line a failure, ends with "N passed, N failed".
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile

from suite import BUILD, PKC, ROOT, check, finish

try:
    import numpy as np
except ImportError:
    print("SKIPPED packed: NumPy is not installed")
    print("0 passed, 0 failed")
    sys.exit(0)

CC = os.environ.get("CC", "cc").split()
runtime = ctypes.CDLL(os.path.join(BUILD, "libpkrt.so"), mode=ctypes.RTLD_GLOBAL)
runtime.pk_context_new.restype = ctypes.c_void_p
runtime.pk_message.restype = ctypes.c_char_p
runtime.pk_status_name.restype = ctypes.c_char_p
random = np.random.default_rng(0)
folder = tempfile.mkdtemp(prefix="packed-")
built = []


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Array:
    """Elements of a few bits in bytes, with strides in elements."""

    def __init__(self, dtype, shape, strides=None, start=0, fill=0x5a):
        self.code, self.bits = {"i": 0, "u": 1}[dtype[0]], int(dtype[1:])
        self.shape, self.start = shape, start
        self.strides = strides or [int(np.prod(shape[k + 1:])) for k in range(len(shape))]
        index = np.indices(shape).reshape(len(shape), -1)
        self.at = sum((i * s for i, s in zip(index, self.strides)), np.zeros(index.shape[1], int)) + start
        assert self.at.size == 0 or self.at.min() >= 0
        self.memory = np.full((int(self.at.max(initial=0)) + 1) * self.bits // 8 + 2, fill, np.uint8)
        self.before = self.memory.copy()

    def get(self):
        shift = self.at * self.bits % 8
        found = self.memory[self.at * self.bits // 8].astype(np.int64) >> shift & (1 << self.bits) - 1
        return self.signed(found).reshape(self.shape)

    def signed(self, values):
        half = 1 << self.bits - 1
        return values if self.code else (values ^ half) - half

    def set(self, values):
        for at, value in zip(self.at, np.asarray(values).reshape(-1)):
            shift, mask = int(at * self.bits % 8), (1 << self.bits) - 1
            byte = int(self.memory[at * self.bits // 8])
            self.memory[at * self.bits // 8] = byte & ~(mask << shift) & 255 | (int(value) & mask) << shift
        self.before = self.memory.copy()
        return self

    def around_is_kept(self):
        """Whether all bits that belong to no element are unchanged."""
        own = np.zeros(self.memory.size * 8, bool)
        for bit in range(self.bits):
            own[self.at * self.bits + bit] = True
        changed = np.unpackbits(self.memory ^ self.before, bitorder="little").astype(bool)
        return not (changed & ~own).any()

    def tensor(self, bits=None):
        count = max(1, len(self.shape))
        assert self.start * self.bits % 8 == 0
        return Tensor(self.memory.ctypes.data, (ctypes.c_int32 * 2)(1, 0), len(self.shape), self.code, bits or self.bits, 1,
                      (ctypes.c_int64 * count)(*self.shape), (ctypes.c_int64 * count)(*self.strides), self.start * self.bits // 8)


def build(text, name, target="native"):
    built.append(name)
    stem = os.path.join(folder, f"{name}{len(built)}")
    with open(stem + ".pk", "w") as file:
        file.write(text)
    flags = [f"-I{ROOT}/include", "-std=c11", "-O1", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Werror", "-Wno-unused"]
    for words in ([PKC, stem + ".pk", "--target", target, "-o", stem + ".c"], [*CC, *flags, "-o", stem + ".so", stem + ".c"]):
        done = subprocess.run(words, capture_output=True, text=True)
        if not check(f"{name} compiles for {target}", done.returncode == 0, done.stderr[:300]):
            return None
    return ctypes.byref(ctypes.c_char.in_dll(ctypes.CDLL(stem + ".so"), name + "_kernel"))


def call(kernel, tensors, threads=1):
    context = ctypes.c_void_p(runtime.pk_context_new())
    runtime.pk_context_set_threads(context, threads)
    pointers = (ctypes.POINTER(Tensor) * len(tensors))(*(ctypes.pointer(t) for t in tensors))
    status = runtime.pk_status_name(runtime.pk_call_kernel(context, kernel, pointers)).decode()
    message = runtime.pk_message(context).decode()
    runtime.pk_context_free(context)
    return status, message


def layouts(shape):
    """Contiguous rows; rows with gaps, of odd and even length; columns; reversed axes; every third element."""
    m, n = shape
    yield "dense", [n, 1], 0
    yield "odd rows", [n + 3 - n % 2, 1], 0
    yield "even rows", [n + 4 + n % 2, 1], 4
    yield "columns", [1, m], 0
    yield "backwards", [n, -1], (n - 1 + 3) // 4 * 4
    yield "spread", [3 * n + 1, 3], 0


KERNEL = """kernel shifted(x: %s packed [M, N], y: %s packed [M, N]) -> (o: %s packed [M, N]) {
  static BM = 2, BN = 5;
  grid (i in cdiv(M, BM) parallel, j in cdiv(N, BN) parallel);
  block x, y, o: [BM, BN] at (i, j);
  o[...] = x[...] - y[...];
}
"""


def wrapped(array, values):
    mask = (1 << array.bits) - 1
    return array.signed(np.asarray(values) & mask)


def test_layouts():
    for dtype in ("i4", "u4", "i2", "u2"):
        kernels = [build(KERNEL % ((dtype,) * 3), "shifted", target) for target in ("native", "generic")]
        for shape in ((1, 1), (3, 7), (5, 33), (2, 64), (4, 0)):
            for (name, strides, start) in layouts(shape):
                for threads, kernel in ((1, kernels[0]), (2, kernels[1])):
                    if kernel is None:
                        continue
                    x, y, o = (Array(dtype, shape, strides, start) for _ in range(3))
                    for array in (x, y):
                        array.set(random.integers(0, 16, shape))
                    status, message = call(kernel, [x.tensor(), y.tensor(), o.tensor()], threads)
                    want = wrapped(o, x.get() - y.get())
                    what = f"{dtype} {shape}, {name}, {threads} threads"
                    check(what, status == "PK_OK" and np.array_equal(o.get(), want), message)
                    check(f"{what}: bits around", o.around_is_kept())


def test_bytes():
    """An array with one byte for each element is accepted too."""
    kernel = build(KERNEL % (("u4",) * 3), "shifted")
    x, o = Array("u4", (3, 7)).set(random.integers(0, 16, (3, 7))), Array("u4", (3, 7))
    y = random.integers(0, 16, (3, 7)).astype(np.uint8)
    given = Array("u8", (3, 7)).set(y)
    status, message = call(kernel, [x.tensor(), given.tensor(), o.tensor()])
    check("a byte an element", status == "PK_OK" and np.array_equal(o.get(), x.get() - y & 15), message)
    status, message = call(kernel, [x.tensor(), Array("i8", (3, 7)).tensor(), o.tensor()])
    check("bytes of another sign", status == "PK_BAD_ARGUMENT" and "operand y: expected u4 packed, found i8" in message, message)
    status, message = call(kernel, [x.tensor(), Array("u2", (3, 7)).tensor(), o.tensor()])
    check("elements of another width", status == "PK_BAD_ARGUMENT", message)
    status, message = call(kernel, [x.tensor(), given.tensor(), x.tensor()])
    check("an output in the memory of an input", status == "PK_OVERLAP", message)


PROGRAM = """kernel flipped(x: i4 packed [M, N]) -> (o: i4 packed [M, N]) { o[...] = ~x[...]; }
program layers(x: i4 packed [L, M, N]) -> (o: i4 packed [M, N]) { o = flipped(x[1]); }
"""


def test_parts():
    kernel = build(PROGRAM, "layers")
    for m, n in ((3, 4), (3, 5)):
        x, o = Array("i4", (2, m, n)).set(random.integers(0, 16, (2, m, n))), Array("i4", (m, n))
        status, message = call(kernel, [x.tensor(), o.tensor()])
        if m * n % 2:
            check("a part that begins within a byte", status == "PK_BAD_SIZE" and "x, which is packed, begins within a byte" in message,
                  status + " " + message)
        else:
            check("a part", status == "PK_OK" and np.array_equal(o.get(), ~x.get()[1]), message)


LINE = """kernel widened(w: %s packed [K, N], s: f32[1, N]) -> (o: f32[K, N], c: %s packed [K, N]) {
  grid (i in cdiv(K, 4));
  block w, o, c: [4, N] at (i, 0);
  o[...] = cast(w[...], f32) * s[...];
  c[...] = ~w[...];
}
reference widened { o = cast(w, f32) * s; c = ~w; }
"""


def packed_rows(values, bits):
    """The elements as in .npy files: uint8, each row begins in a new byte."""
    each = 8 // bits
    rows = np.zeros((values.shape[0], -(-values.shape[1] // each)), np.uint8)
    for i in range(values.shape[1]):
        rows[:, i // each] |= ((values[:, i] & (1 << bits) - 1) << i % each * bits).astype(np.uint8)
    return rows


def pkc(*words):
    return subprocess.run([PKC, *words], capture_output=True, text=True, cwd=folder)


def test_files():
    for dtype, bits in (("i4", 4), ("u4", 4), ("i2", 2), ("u2", 2)):
        with open(f"{folder}/widened.pk", "w") as file:
            file.write(LINE % (dtype, dtype))
        for k, n in ((5, 7), (3, 16), (1, 1), (4, 0)):
            signed = Array(dtype, (k, n))
            w, s = wrapped(signed, random.integers(0, 16, (k, n))), random.standard_normal((1, n)).astype(np.float32)
            np.save(f"{folder}/s.npy", s)
            for name, given in (("packed", packed_rows(w, bits)), ("bytes", (w & 255).astype(np.uint8).view("V1"))):
                np.save(f"{folder}/w.npy", given)
                for verb in ("run", "check"):
                    done = pkc(verb, "widened.pk", "w=w.npy", "s=s.npy", *(("-o", "o=o.npy", "-o", "c=c.npy") if verb == "run" else ()))
                    check(f"{verb} {dtype} {(k, n)} from {name}", done.returncode == 0, done.stdout + done.stderr)
                o, c = np.load(f"{folder}/o.npy"), np.load(f"{folder}/c.npy")
                check(f"{dtype} {(k, n)} from {name}: o", np.array_equal(o, w.astype(np.float32) * s))
                check(f"{dtype} {(k, n)} from {name}: c", c.dtype == np.uint8 and np.array_equal(c, packed_rows(wrapped(signed, ~w), bits)))
        np.save(f"{folder}/w.npy", packed_rows(wrapped(signed, random.integers(0, 4, (4, 9))), bits))
        done = pkc("run", "widened.pk", "w=w.npy", "K=4", "N=3")
        check(f"{dtype}: a file of other columns", done.returncode and "N is 3, but axis 1 of w (w.npy)" in done.stderr, done.stderr)


def test_forms():
    """`packed` changes only the output that depends on the caller's memory."""
    path = f"{ROOT}/tests/cases/dtypes/packed.pk"
    with open(path) as file:
        text = file.read()
    for name, words in (("packed", text), ("plain", text.replace(" packed ", " "))):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        with open(f"{folder}/{name}/k.pk", "w") as file:
            file.write(words)
    for kernel in re.findall(r"^(?:kernel|program) (\w+)", text, re.M):
        for verb in (["--emit=pallas"], ["--emit=naive"]):
            a, b = (pkc(*verb, "-k", kernel, f"{name}/k.pk") for name in ("packed", "plain"))
            check(f"{verb[0]} of {kernel}", a.returncode == 0 and a.stdout == b.stdout, a.stderr or "differs")
    a, b = (pkc("tpu", f"{name}/k.pk", "-k", "scaled", "K=100", "N=256") for name in ("packed", "plain"))
    check("tpu", a.returncode == 0 and a.stdout == b.stdout, a.stderr or "differs")


test_layouts()
test_forms()
test_bytes()
test_parts()
test_files()
sys.exit(finish())
