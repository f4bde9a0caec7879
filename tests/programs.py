#!/usr/bin/env python3
"""Programs against NumPy, called as hosts call them: through the C function's description, with DLPack tensors of any strides.

    tests/programs.py [PART..]     parts whose name contains one of these words

Each program is compiled to a shared object and called by ctypes. Prints one line a failure, ends with "N passed, N failed".
"""
import ctypes
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("SKIPPED programs: NumPy is not installed")
    print("0 passed, 0 failed")
    sys.exit(0)

import suite
from sampling import sampled

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PKC = os.environ.get("PKC", os.path.join(BUILD, "pkc"))
CC = os.environ.get("CC", "cc").split()
CASES = os.path.join(ROOT, "tests", "cases", "programs")
WARNINGS = "-Wall -Wextra -Werror -Wno-unused-variable".split()
SIZES = (0, 1, 2, 7, 13)
runtime = ctypes.CDLL(os.path.join(BUILD, "libpkrt.so"), mode=ctypes.RTLD_GLOBAL)


def ok(what, good, more=""):
    suite.check(what, good, more)


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def tensor(array):
    shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    strides = (ctypes.c_int64 * max(1, array.ndim))(*(s // array.itemsize for s in array.strides))
    return Tensor(array.ctypes.data, (ctypes.c_int32 * 2)(1, 0), array.ndim, CODES[array.dtype.kind], 8 * array.itemsize, 1,
                  shape, strides, 0)


runtime.pk_context_new.restype = ctypes.c_void_p
runtime.pk_message.restype = ctypes.c_char_p
runtime.pk_status_name.restype = ctypes.c_char_p
runtime.pk_temporary_bytes.restype = ctypes.c_int64


class Context:
    def __init__(self, threads=1, limit=0):
        self.at = ctypes.c_void_p(runtime.pk_context_new())
        runtime.pk_context_set_threads(self.at, threads)
        if limit:
            runtime.pk_context_set_vmem_limit(self.at, ctypes.c_int64(limit))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        runtime.pk_context_free(self.at)

    def pack(self, arrays):
        kept = [tensor(a) for a in arrays]
        return (ctypes.POINTER(Tensor) * len(kept))(*(ctypes.pointer(t) for t in kept)), kept

    def call(self, kernel, *arrays):
        """The status and the message."""
        tensors, _ = self.pack(arrays)
        status = runtime.pk_call_kernel(self.at, kernel, tensors)
        return runtime.pk_status_name(status).decode(), runtime.pk_message(self.at).decode()

    def bytes(self, kernel, *arrays):
        tensors, _ = self.pack(arrays)
        return runtime.pk_temporary_bytes(self.at, kernel, tensors)


folder = tempfile.mkdtemp(prefix="programs-")
loaded = {}


def build(path, name, *settings):
    """The description of a program of a file, or None."""
    key = (path, name, settings)
    if key in loaded:
        return loaded[key]
    stem = os.path.join(folder, f"p{len(loaded)}")
    flags = [f"-I{ROOT}/include", "-std=c11", "-O1", "-DPK_OUTLINE", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", *WARNINGS]
    for words in ([PKC, path, "-k", name, "-o", stem + ".c", *settings], [*CC, *flags, "-o", stem + ".so", stem + ".c"]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            ok(f"{os.path.basename(path)} {name} compiles", False, done.stderr[:500])
            loaded[key] = None
            return None
    library = ctypes.CDLL(stem + ".so")
    symbol = next(line.split()[-1] for line in open(stem + ".h") if line.startswith("extern const pk_kernel"))
    loaded[key] = ctypes.byref(ctypes.c_char.in_dll(library, symbol.rstrip(";")))
    return loaded[key]


def case(name):
    return os.path.join(CASES, name + ".pk")


random = np.random.default_rng(0)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def poison(*shape):
    return np.full(shape, np.nan, np.float32)


def near(got, want, tolerance=2e-5):
    want = np.asarray(want, np.float64)
    return got.shape == want.shape and bool(np.all(np.abs(got - want) <= tolerance * (1 + np.abs(want))))


def check(what, kernel, inputs, outputs, wants, context=None):
    if kernel is None:
        return
    own = context or Context()
    status, message = own.call(kernel, *inputs, *outputs)
    good = status == "PK_OK" and all(near(g, w) for g, w in zip(outputs, wants))
    worst = "" if status != "PK_OK" else [float(np.nanmax(np.abs(g - w))) if g.size else 0 for g, w in zip(outputs, wants)]
    ok(what, good, f"{status} {message} {worst}")
    if not context:
        own.__exit__()


# ---- the parts of the suite


def straight():
    kernel = build(case("basic"), "straight")
    for m in SIZES:
        for n in SIZES:
            x, y = normal(m, n), normal(m, n)
            check(f"straight {m}x{n}", kernel, [x, y], [poison(m, n)], [2 * x + y / 2])
    with Context(threads=3) as context:
        x, y = normal(513, 257), normal(513, 257)
        check("straight with threads", kernel, [x, y], [poison(513, 257)], [2 * x + y / 2], context)


def layers():
    kernel = build(case("basic"), "layers")
    for m, n, l in ((5, 7, 0), (5, 7, 1), (1, 1, 4), (13, 64, 6), (0, 3, 2)):
        x, w = normal(m, n), normal(l, m, n)
        check(f"layers {m}x{n}x{l}", kernel, [x, w], [poison(m, n)], [2 * x.astype(float) + w.sum(0, dtype=float)])


def strided():
    """Operands of any strides: reversed columns, rows with gaps, transposed axes, layers in another order."""
    kernel = build(case("basic"), "layers")
    x, w, o = normal(26, 9)[::2, ::-1], normal(13, 5, 9).transpose(1, 0, 2), poison(9, 13).T
    check("strided layers", kernel, [x, w], [o], [2 * x.astype(float) + w.sum(0, dtype=float)])
    kernel = build(case("reshape"), "batched")
    x, o = normal(3, 5, 7), poison(3, 5, 7)
    check("reshape", kernel, [x], [o], [4 * x])
    x, o = normal(3, 11, 7)[:, 1::2], poison(3, 5, 7)
    with Context() as context:
        status, message = context.call(kernel, x, o)
        ok("a reshape that needs a copy is refused", status == "PK_BAD_SIZE" and "not contiguous" in message, message)
        ok("a reshape that needs a copy writes nothing", bool(np.isnan(o).all()))
    x, o = normal(1, 10, 7)[:, ::2], poison(1, 5, 14)[:, :, :7]
    check("reshape of even rows", kernel, [x], [o], [4 * x])


def in_place():
    kernel = build(case("basic"), "in_place")
    for m, n in ((11, 31), (0, 4), (1, 1)):
        x = normal(m, n)
        one = x + 1
        two = 2 * one + 1
        check(f"in place {m}x{n}", kernel, [x], [x, poison(m, n)], [one, two + two + 3])
    with Context() as context:
        status, message = context.call(kernel, normal(3, 4), normal(3, 4), normal(3, 4))
        ok("an alias that is none is refused", status == "PK_OVERLAP", f"{status} {message}")


def refused():
    """Nothing is written, whichever call of the program is refused."""
    kernel = build(case("findings"), "limited")
    with Context() as context:
        o = poison(2, 100, 3)
        status, message = context.call(kernel, normal(100, 3), normal(2, 100, 3), o)
        ok("a kernel's requirement", status == "PK_REQUIREMENT" and "too many rows" in message and "line" in message, message)
        ok("a kernel's requirement writes nothing", bool(np.isnan(o).all()))
        ok("no bytes for a refused call", context.bytes(kernel, normal(5, 1), normal(2, 5, 1), poison(2, 5, 1)) == -1)
    kernel = build(case("findings"), "outside")
    with Context() as context:
        o = poison(5, 3)
        status, message = context.call(kernel, normal(5, 3), normal(4, 5, 3), o)
        ok("an index outside", status == "PK_BAD_SIZE" and "index 4 of axis 0 of w" in message, message)
        ok("an index outside writes nothing", bool(np.isnan(o).all()))
    kernel = build(case("basic"), "straight")
    with Context(limit=4096) as context:
        o = poison(64, 640)
        status, message = context.call(kernel, normal(64, 640), normal(64, 640), o)
        ok("the VMEM limit holds for each kernel", status == "PK_VMEM_EXCEEDED", f"{status} {message}")
        ok("the VMEM limit writes nothing", bool(np.isnan(o).all()))
    kernel = build(case("findings"), "asserted")
    with Context() as context:
        status, message = context.call(kernel, np.ones(5, np.float32), poison(5))
        ok("a failure", status == "PK_FAILED" and "not below 1" in message, f"{status} {message}")
        status, message = context.call(kernel, np.zeros(5, np.float32), poison(5))
        ok("a call after a failure", status == "PK_OK" and message == "", f"{status} {message}")


def memory():
    """Arrays that are not alive at the same time share memory; a second call allocates nothing."""
    chain = os.path.join(folder, "chain.pk")
    with open(chain, "w") as file:
        file.write("kernel scale(x: f32[N]) -> (o: f32[N]) {\n  grid (i in cdiv(N, 8) parallel);\n  block x, o: [8] at (i);\n"
                   "  o[...] = 2.0 * x[...];\n}\nprogram chain(x: f32[N]) -> (o: f32[N]) {\n  let a0 = scale(x);\n"
                   + "".join(f"  let a{i} = scale(a{i - 1});\n" for i in range(1, 20)) + "  o = scale(a19);\n}\n")
    kernel = build(chain, "chain")
    with Context() as context:
        x, o = normal(1000), poison(1000)
        ok("twenty arrays in two places", context.bytes(kernel, x, o) == 2 * 4032, context.bytes(kernel, x, o))
        ok("no arrays", context.bytes(kernel, normal(0), poison(0)) == 0)
        check("a chain", kernel, [x], [o], [x * 2.0**21], context)
    kernel = build(case("basic"), "straight")
    with Context() as context:
        ok("two arrays at once", context.bytes(kernel, normal(8, 8), normal(8, 8), poison(8, 8)) == 512)
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return

    class Mallinfo(ctypes.Structure):
        _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

    libc.mallinfo2.restype = Mallinfo
    with Context() as context:
        x, w, o = normal(64, 64), normal(3, 64, 64), poison(64, 64)
        kernel = build(case("basic"), "layers")
        tensors, _ = context.pack([x, w, o])
        runtime.pk_call_kernel(context.at, kernel, tensors)
        before = libc.mallinfo2()
        for _ in range(20):
            runtime.pk_call_kernel(context.at, kernel, tensors)
        after = libc.mallinfo2()
        used = (after.uordblks + after.hblkhd) - (before.uordblks + before.hblkhd)
        ok("a later call keeps no memory", used < 4096, used)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def normalised(x, gain, bias, eps=1e-5):
    c = x - x.mean(1, keepdims=True)
    return c / np.sqrt((c * c).mean(1, keepdims=True) + eps) * gain + bias


def transformer():
    kernel = build(case("transformer"), "decoder")
    for t, v, d, places, n, f in ((5, 11, 12, 7, 2, 24), (1, 3, 4, 1, 1, 4), (33, 50, 33, 40, 3, 65), (6, 4, 8, 6, 0, 8)):
        if n == 0:
            continue  # it reads up[0]
        token = random.integers(0, v, t).astype(np.int32)
        table, place, gain, bias = normal(v, d), normal(places, d), normal(n, 2, d), normal(n, 2, d)
        up, up_bias, down, down_bias = normal(n, d, f) / np.sqrt(np.float32(d)), normal(n, f), normal(n, f, d) / np.sqrt(np.float32(f)), normal(n, d)
        h = (table[token] + place[:t]).astype(float)
        for l in range(n):
            a = normalised(h, gain[l, 0], bias[l, 0])
            y = gelu(a @ up[l] + up_bias[l]) @ down[l] + down_bias[l]
            h = h + normalised(y, gain[l, 1], bias[l, 1], 0.001)
        for threads in (1, 2):
            with Context(threads) as context:
                check(f"transformer {t} {d} {n}, {threads} threads", kernel, [token, table, place, gain, bias, up, up_bias, down, down_bias],
                      [poison(t, f)], [h @ up[0] + up_bias[0]], context)
    with Context() as context:
        arrays = [np.zeros(8, np.int32), normal(3, 4), normal(7, 4), normal(1, 2, 4), normal(1, 2, 4), normal(1, 4, 4), normal(1, 4),
                  normal(1, 4, 4), normal(1, 4), poison(8, 4)]
        status, message = context.call(kernel, *arrays)
        ok("a requirement of a kernel with prefetched operands", status == "PK_REQUIREMENT" and "more tokens" in message, f"{status} {message}")
    kernel = build(case("findings"), "counted")
    with Context() as context:
        status, message = context.call(kernel, np.array([0, 0], np.int32), np.ones(5, np.float32), poison(5))
        ok("a requirement of prefetched data", status == "PK_FAILED" and "none" in message, f"{status} {message}")


def decode():
    kernel = build(case("decode"), "decode")
    for s, h, d in ((1, 1, 4), (17, 2, 5), (40, 3, 16), (129, 4, 64)):
        q, k, v = normal(h, d), normal(s, h, d), normal(s, h, d)
        e = np.einsum("hd,shd->sh", q, k, dtype=float) / np.sqrt(d)
        e = np.exp(e - e.max(0))
        check(f"decode {s} {h} {d}", kernel, [q, k, v], [poison(h, d)], [np.einsum("sh,shd->hd", e / e.sum(0), v)])


WORDS = """int char for_ float double struct static switch while_ register size array flow on iteration context tensors kernel part at reshape
program operands pk_x x2 bool true_ NULL errno main index stride L1 lambda def class None_ self import jnp jax lax pl pltpu range""".split()


def names():
    """Words of C, of Python and of the output of pkc as names of everything."""
    words = [w for w in WORDS if w not in ("register", "static")] + ["register", "int64_t", "const", "sizeof", "sqrt", "exit", "free"]
    text = ""
    for i, w in enumerate(words):
        text += f"kernel {w}(x: f32[N]) -> (o: f32[N]) {{ o[...] = {i}.0 + x[...]; }}\n"
    for i, w in enumerate(words):
        other, third = words[(i + 7) % len(words)], words[(i + 11) % len(words)]
        text += (f"program p{i}({w}: f32[n{i}], {w}_: f32[3, n{i}]) -> ({other}_o: f32[n{i}]) {{\n  let {third} = {w}({w});\n"
                 f"  var {w}_v: f32[n{i}];\n  {w}_v = {other}({third});\n  for {other} in 0..3 {{ {w}_v = {third}({w}_v); }}\n"
                 f"  {other}_o = {w}({w}_v);\n}}\n")
    text = text.replace("kernel kernel(", "kernel kernel(")
    path = os.path.join(folder, "names.pk")
    with open(path, "w") as file:
        file.write(text)
    for i, w in sampled(list(enumerate(words)), 8):
        kernel = build(path, f"p{i}")
        total = i + (i + 7) % len(words) + 3 * ((i + 11) % len(words)) + i
        x = normal(5)
        check(f"names: {w}", kernel, [x, normal(3, 5)], [poison(5)], [x + total])
        python = subprocess.run([PKC, path, "-k", f"p{i}", "--emit=pallas"], capture_output=True, text=True)
        try:
            compile(python.stdout, w, "exec")
            ok(f"names: {w} in Python", python.returncode == 0, python.stderr[:300])
        except SyntaxError as error:
            ok(f"names: {w} in Python", False, str(error))
    for w in ("int", "sqrt", "lambda", "main", "pk_x", "_"):
        path = os.path.join(folder, f"name_{w}.pk")
        with open(path, "w") as file:
            file.write(f"kernel a(x: f32[N]) -> (o: f32[N]) {{ o[...] = 1.0 + x[...]; }}\n"
                       f"program {w}(x: f32[N]) -> (o: f32[N]) {{ let y = a(x); o = a(y); }}\n")
        x = normal(5)
        check(f"names: program {w}", build(path, w), [x], [poison(5)], [x + 2])


KERNELS = """
kernel scale(x: f32[M, N]) -> (o: f32[M, N]) { static F = 0.5; o[...] = F * x[...]; }
kernel add(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 4) parallel);
  block x, y, o: [4, N] at (i, 0);
  o[...] = 0.5 * (x[...] + y[...]);
}
kernel both(x: f32[M, N], y: f32[M, N]) -> (p: f32[M, N], q: f32[M, N]) { p[...] = x[...] - y[...]; q[...] = 0.5 * x[...]; }
kernel bump(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, N]) { alias o = x; o[...] = x[...] + y[...]; }
"""


class Writer:
    """A random program and its result: every statement is written and executed at the same time, loops iteration by iteration."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.m, self.n, self.l = (int(v) for v in self.random.integers(2, 6, 3))
        self.lets, self.count = [], 0
        self.run = []  # statements as functions of the arrays and the loop variable

    def draw(self, items):
        return items[int(self.random.integers(len(items)))]

    def argument(self, loop, without=()):
        """The text of an expression, and a function of the state."""
        choices = [("x", lambda s, l: s["x"]), ("v", lambda s, l: s["v"]), ("u[1]", lambda s, l: s["u"][1]), ("o[0]", lambda s, l: s["o"][0])]
        choices += [(name, lambda s, l, name=name: s[name]) for name in self.lets]
        if loop:
            choices += [("w[l]", lambda s, l: s["w"][l])] * 2
        return self.draw([c for c in choices if c[0] not in without])

    def target(self, loop, used):
        """The text of a statement, and a function that stores."""
        def store(name, at=None):
            def put(s, l, value):
                if at is None:
                    s[name] = value
                else:
                    s[name][at] = value
            return put
        choices = [("v", store("v")), ("u[0]", store("u", 0)), ("u[1]", store("u", 1)), ("o[0]", store("o", 0)), ("o[1]", store("o", 1))]
        return self.draw([c for c in choices if c[0] not in used or c[0] == "v"])

    def statement(self, loop):
        kind = self.draw(["scale", "add", "add", "both", "bump"])
        half, one, two = np.float32(0.5), self.argument(loop), self.argument(loop)
        if kind == "bump":
            two = self.argument(loop, ("v",))
            self.run.append((loop, lambda s, l: s.__setitem__("v", s["v"] + two[1](s, l))))
            return f"v = bump(v, {two[0]});"
        if kind == "both":
            self.count += 2
            p, q = f"a{self.count - 1}", f"a{self.count}"

            def act(s, l):
                x, y = one[1](s, l), two[1](s, l)
                s[p], s[q] = x - y, half * x
            self.run.append((loop, act))
            self.lets += [p, q]
            return f"let {p}, {q} = both({one[0]}, {two[0]});"
        value = (lambda s, l: half * one[1](s, l)) if kind == "scale" else (lambda s, l: half * (one[1](s, l) + two[1](s, l)))
        call = f"scale({one[0]})" if kind == "scale" else f"add({one[0]}, {two[0]})"
        if self.random.random() < 0.7:
            self.count += 1
            name = f"a{self.count}"
            self.run.append((loop, lambda s, l: s.__setitem__(name, value(s, l))))
            self.lets.append(name)
            return f"let {name} = {call};"
        used = [one[0]] + ([two[0]] if kind == "add" else [])
        target = self.target(loop, used)
        self.run.append((loop, lambda s, l: target[1](s, l, value(s, l))))
        return f"{target[0]} = {call};"

    def text(self, name):
        lines = ["var v: f32[M, N];", "var u: f32[2, M, N];", "v = scale(x, F = 1.0);", "u[0] = scale(x);", "u[1] = scale(v);", "o[0] = scale(x);", "o[1] = scale(u[0]);"]
        self.blocks = []
        for _ in range(int(self.random.integers(2, 6))):
            self.run = []
            if self.random.random() < 0.5:
                kept = list(self.lets)
                lines += ["for l in 0..L {"] + ["  " + self.statement(True) for _ in range(int(self.random.integers(2, 9)))] + ["}"]
                self.lets = kept
                self.blocks.append((True, self.run))
            else:
                lines += [self.statement(False) for _ in range(int(self.random.integers(1, 5)))]
                self.blocks.append((False, self.run))
        lines.append("o[1] = add(v, u[1]);")
        body = "".join(f"  {line}\n" for line in lines)
        return f"program {name}(x: f32[M, N], w: f32[L, M, N]) -> (o: f32[2, M, N]) {{\n{body}}}\n"

    def compute(self, x, w):
        half = np.float32(0.5)
        s = {"x": x, "w": w, "v": x.copy(), "u": np.stack([half * x, half * x]), "o": np.stack([half * x, half * half * x])}
        for loop, statements in self.blocks:
            for l in range(self.l if loop else 1):
                for _, act in statements:
                    act(s, l)
        s["o"][1] = half * (s["v"] + s["u"][1])
        return s["o"]


def random_programs():
    """Random calls, vars, parts, loops and updates in place: temporaries must keep their contents as long as they are needed."""
    path, count = os.path.join(folder, "random.pk"), 40
    writers = [Writer(i) for i in range(count)]
    with open(path, "w") as file:
        file.write(KERNELS + "".join(w.text(f"p{i}") for i, w in enumerate(writers)))
    for i, writer in sampled(list(enumerate(writers)), 8):
        x, w, o = normal(writer.m, writer.n), normal(writer.l, writer.m, writer.n), poison(2, writer.m, writer.n)
        check(f"random program {i} of {path}", build(path, f"p{i}"), [x, w], [o], [writer.compute(x, w)])
        sizes = [f"{n}={v}" for n, v in zip("MNL", (writer.m, writer.n, writer.l))]
        done = subprocess.run([PKC, "check", path, "-k", f"p{i}", *sizes], capture_output=True, text=True)
        ok(f"random program {i} of {path}, checked", done.returncode == 0, done.stderr[:300])


PARTS = [random_programs, straight, layers, strided, in_place, refused, memory, transformer, decode, names]


def main():
    words = sys.argv[1:]
    for part in PARTS:
        if not words or any(w in part.__name__ for w in words) or not any(w in p.__name__ for p in PARTS for w in words):
            part()
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
