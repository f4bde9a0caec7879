#!/usr/bin/env python3
"""Products of every form at every small size, 0 among them, on every target that this machine runs, against NumPy.

All forms of a target are compiled into one shared object, so that the micro-kernels are compiled once, and called in this process. Elements
are small whole numbers, so results are compared exactly. The matrix unit is emulated.

    tests/product_sizes.py [TEXT]    only forms whose name contains TEXT

Ends with "N passed, N failed"."""
import ctypes
import itertools
import os
import subprocess
import sys
import tempfile

from sampling import sampled
from suite import BUILD, PKC, ROOT, check, finish

try:
    import numpy as np
except ImportError:
    print("SKIPPED product_sizes: NumPy is not installed")
    print("0 passed, 0 failed")
    sys.exit(0)

ROWS, COLUMNS, DEPTHS = (0, 1, 2, 17, 40), (0, 1, 2, 17, 300), (0, 1, 2, 17)  # more rows than a skinny product has; more panels than those that prefetch the next rows
SMALL = list(itertools.product(ROWS, COLUMNS, DEPTHS))
# Products panel by panel, on targets that have them: (M, N, K) around the least rows, columns and bytes of a row, and the parts of a row.
LARGE = [(96, 257, 256), (95, 289, 259), (97, 289, 1025), (255, 320, 513), (256 + 97, 511, 511), (257, 288, 2047), (529, 17, 1024), (513, 40, 600)]
TARGETS = {"generic": ([], []), "x86-64-v2": (["sse4_2"], []), "x86-64-v3": (["avx2", "fma"], []), "x86-64-v4": (["avx512bw"], []),
           "zen4": (["avx512_bf16"], []), "zen5": (["avx512_bf16"], []), "x86-64-v4-amx": (["avx512_bf16"], ["-DPK_AMX_EMULATED"])}
random = np.random.default_rng(0)


# ---- dtypes: the storage of whole numbers, and the code and bits of DLPack


def bf16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def f8e4m3fn(values):
    return np.array([0xC0, 0xB8, 0, 0x38, 0x40], np.uint8)[values + 2]


class Kept:
    def __init__(self, code, bits, put, least=-2):
        self.code, self.bits, self.put, self.least = code, bits, put, least


def plain(name, code, least=-2):
    dtype = np.dtype(name)
    return Kept(code, 8 * dtype.itemsize, lambda values: values.astype(dtype), least)


DTYPES = {"f32": plain("f4", 2), "f64": plain("f8", 2), "f16": plain("f2", 2), "bf16": Kept(4, 16, bf16), "f8e4m3fn": Kept(10, 8, f8e4m3fn),
          "i8": plain("i1", 0), "i16": plain("i2", 0), "i32": plain("i4", 0), "i64": plain("i8", 0),
          "u8": plain("u1", 1, 0), "i4": Kept(0, 4, lambda values: values.astype("i1"))}


# ---- forms

HEAD = """kernel NAME(x: X[LEFT], w: W[RIGHT], s: f32[1, N], t: f32[N, 1], u: f32[K, 1]) -> (o: O[M, N]) {
  static BM = ROWS;
  grid (i in cdiv(M, BM) parallel);
  block x: [LEFTBLOCK] at (LEFTAT);
  block o: [BM, N] at (i, 0);
  BODY
}
"""
KEPT = """kernel NAME(x: X[M, K], w: W[K, N], s: f32[1, N], t: f32[N, 1], u: f32[K, 1]) -> (o: O[M, N]) {
  static BM = ROWS, BN = 512, BK = 16;
  grid (i in cdiv(M, BM) parallel, j in cdiv(N, BN) parallel, k in max(1, cdiv(K, BK)) arbitrary);
  block x: [BM, BK] at (i, k) pad 0;
  block w: [BK, BN] at (k, j) pad 0;
  block o: [BM, BN] at (i, j);
  scratch acc: vmem accum(X)[BM, BN];
  when k == 0 { acc[...] = 0; }
  acc[...] += dot(x[...], w[...]);
  when k == num_programs(k) - 1 { o[...] = cast(acc[...], O); }
}
"""
BATCHES = """kernel NAME(x: X[M, 3, K], w: W[M, K, N], s: f32[1, N], t: f32[N, 1], u: f32[K, 1]) -> (o: O[M, 3, N]) {
  static BM = 2;
  grid (i in cdiv(M, BM) parallel);
  block x: [BM, 3, K] at (i, 0, 0);
  block w: [BM, K, N] at (i, 0, 0);
  block o: [BM, 3, N] at (i, 0, 0);
  o[...] = einsum("bmk,bkn->bmn", x[...], w[...]);
}
"""


class Form:
    def __init__(self, name, dtypes, body, turned=(False, False), expect=None, head=HEAD, rows=64, sizes=SMALL):
        self.name, self.dtypes, self.body, self.turned, self.head, self.rows = name, dtypes.split(), body, turned, head, rows
        self.sizes = sizes
        self.expect = expect or (lambda x, w, s, t, u: x @ w)

    def text(self):
        left, right = self.turned
        words = {"LEFTBLOCK": "K, BM" if left else "BM, K", "LEFTAT": "0, i" if left else "i, 0", "LEFT": "K, M" if left else "M, K",
                 "RIGHT": "N, K" if right else "K, N", "NAME": self.name, "ROWS": str(self.rows), "BODY": self.body,
                 "X[": self.dtypes[0] + "[", "W[": self.dtypes[1] + "[", "O[": self.dtypes[2] + "[", "accum(X)": f"accum({self.dtypes[0]})",
                 "O)": self.dtypes[2] + ")"}
        text = self.head
        for word, by in words.items():
            text = text.replace(word, by)
        return text

    def shapes(self, m, n, k):
        left, right = self.turned
        if self.head is BATCHES:
            return (m, 3, k), (m, k, n), (m, 3, n)
        return (k, m) if left else (m, k), (n, k) if right else (k, n), (m, n)

    def wanted(self, x, w, s, t, u):
        """The product of the operands in their stored form."""
        left, right = self.turned
        return self.expect(x.T if left else x, w.T if right else w, s, t, u)


def forms():
    pairs = ["f32 f32 f32", "bf16 bf16 f32", "f16 f16 f32", "f8e4m3fn f8e4m3fn f32", "i8 i8 i32", "u8 u8 i32", "i8 u8 i32", "u8 i8 i32", "i16 i16 i32",
             "i4 i4 i32", "i32 i32 i32", "f64 f64 f64", "i64 i64 i64"]
    for types in pairs:
        x, w, o = types.split()
        for left, right in itertools.product((False, True), repeat=2):
            a, b = "x[...].T" if left else "x[...]", "w[...].T" if right else "w[...]"
            product = f"o[...] = dot({a}, {b}, out = {o});"
            yield Form(f"plain_{x}_{w}_{left:d}{right:d}", types, product, (left, right))
            if not left:
                yield Form(f"large_{x}_{w}_{right:d}", types, product, (left, right), rows=256, sizes=LARGE)
    for types in ("f32 f32 f32", "bf16 bf16 f32", "i8 i8 i32"):
        yield Form(f"kept_{types.split()[0]}", types, "", head=KEPT)
        yield Form(f"added_{types.split()[0]}", types, "o[...] = 1; o[...] += dot(x[...], w[...]);", expect=lambda x, w, s, t, u: 1 + x @ w)
        yield Form(f"added_large_{types.split()[0]}", types, "o[...] = 1; o[...] += dot(x[...], w[...]);", expect=lambda x, w, s, t, u: 1 + x @ w,
                   rows=256, sizes=LARGE)
        yield Form(f"blocks_{types.split()[0]}", types, f"o[...] = dot(x[...], w[...], out = {types.split()[2]});", rows=16)
    for types in ("f32 f32 f32", "i8 i8 i32", "f64 f64 f64"):
        yield Form(f"batches_{types.split()[0]}", types, "", head=BATCHES)
    for x, w in itertools.product(("f32", "bf16"), ("i8", "u8", "i4", "bf16", "f16", "f32")):
        types = f"{x} {w} f32"
        wide = f"cast(cast(w[...], f32) * %s, {x})"
        if w not in ("i4", x):
            yield Form(f"narrow_{x}_{w}", types, f"o[...] = dot(x[...], cast(w[...], {x}), out = f32);")
            yield Form(f"narrow_turned_{x}_{w}", types, f"o[...] = dot(x[...], cast(w[...], {x}).T, out = f32);", (False, True))
        yield Form(f"computed_{x}_{w}", types, f"o[...] = dot(x[...], {wide % 's[...]'}, out = f32);", expect=lambda x, w, s, t, u: x @ (w * s))
        yield Form(f"computed_rows_{x}_{w}", types, f"o[...] = dot(x[...], {wide % 'u[...]'}, out = f32);", expect=lambda x, w, s, t, u: x @ (w * u))
        yield Form(f"computed_turned_{x}_{w}", types, f"o[...] = dot(x[...], {wide % 't[...]'}.T, out = f32);", (False, True),
                   expect=lambda x, w, s, t, u: x @ (w * t.T))
    for x in ("f32", "bf16", "i8"):
        accumulated = "i32" if x == "i8" else "f32"
        yield Form(f"left_{x}", f"{x} {x} {accumulated}", f"o[...] = dot(x[...] + x[...], w[...], out = {accumulated});", expect=lambda x, w, s, t, u: 2 * (x @ w))
        yield Form(f"twice_{x}", f"{x} {x} {accumulated}",
                   f"o[...] = dot(x[...], w[...], out = {accumulated}) - 2 * dot(x[...], w[...] + 1, out = {accumulated});",
                   expect=lambda x, w, s, t, u: x @ w - 2 * (x @ (w + 1)))


# ---- calls


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def tensor(array, kept):
    return Tensor(array.ctypes.data, (ctypes.c_int32 * 2)(1, 0), array.ndim, kept.code, kept.bits, 1, (ctypes.c_int64 * array.ndim)(*array.shape), None, 0)


def build(all_forms, target, more, folder):
    """The forms of a target as one library."""
    names = []
    for form in all_forms:
        stem = os.path.join(folder, f"{form.name}.{target}")
        with open(stem + ".pk", "w", encoding="ascii") as file:
            file.write(form.text())
        done = subprocess.run([PKC, stem + ".pk", "--target", target, "-o", stem + ".c"], capture_output=True, text=True, check=False)
        if check(f"{form.name} for {target}", done.returncode == 0, done.stderr[:300]):
            names.append(stem + ".c")
    whole = os.path.join(folder, target)
    with open(whole + ".c", "w", encoding="ascii") as file:
        file.writelines(f'#include "{name}"\n' for name in names)
    flags = [flag for line in subprocess.run([PKC, "--targets"], capture_output=True, text=True, check=True).stdout.splitlines()
             for flag in line.split()[1:] if line.split()[0] == target]
    words = [*os.environ.get("CC", "cc").split(), f"-I{ROOT}/include", "-std=c11", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-w", *flags, *more]
    done = subprocess.run([*words, "-o", whole + ".so", whole + ".c"], capture_output=True, text=True, check=False)
    return ctypes.CDLL(whole + ".so") if check(f"C for {target}", done.returncode == 0, done.stderr[:500]) else None


def call(runtime, library, form, sizes, target):
    m, n, k = sizes
    kept = [DTYPES[name] for name in (*form.dtypes[:2], "f32", "f32", "f32", form.dtypes[2])]
    left, right, result = form.shapes(m, n, k)
    values = [random.integers(kind.least, 3, shape) for kind, shape in zip(kept, (left, right, (1, n), (n, 1), (k, 1)))]
    arrays = [np.ascontiguousarray(kind.put(value)) for kind, value in zip(kept, values)]
    out = kept[-1].put(np.full(result, 99))
    tensors = [tensor(array, kind) for array, kind in zip([*arrays, out], kept)]
    pointers = (ctypes.POINTER(Tensor) * len(tensors))(*(ctypes.pointer(one) for one in tensors))
    kernel = ctypes.byref(ctypes.c_char.in_dll(library, form.name + "_kernel"))
    status = runtime.pk_status_name(runtime.pk_call_kernel(None, kernel, pointers)).decode()
    right_result = status == "PK_OK" and np.array_equal(out, form.wanted(*values))
    return None if right_result else f"M={m} N={n} K={k}: {status} {runtime.pk_message(None).decode()}"


def test_target(runtime, target, more, wanted):
    with tempfile.TemporaryDirectory(prefix="product-sizes-") as folder:
        chosen = [form for form in forms() if wanted in form.name]
        library = build(chosen, target, more, folder)
        for form in chosen if library else []:
            wrong = [said for said in (call(runtime, library, form, sizes, target) for sizes in form.sizes) if said]
            check(f"{form.name}, {target}", not wrong, "; ".join(wrong[:3]))


def main():
    runtime = ctypes.CDLL(os.path.join(BUILD, "libpkrt.so"), mode=ctypes.RTLD_GLOBAL)
    runtime.pk_message.restype = runtime.pk_status_name.restype = ctypes.c_char_p
    with open("/proc/cpuinfo", encoding="ascii") as cpu:
        flags = cpu.read().split()
    here = [target for target, (needed, _) in TARGETS.items() if all(flag in flags for flag in needed)]
    for target in sorted(set(TARGETS) - set(here)):
        print(f"SKIPPED product_sizes, {target}: this machine has no {', '.join(TARGETS[target][0])}")
    for target in sampled(here, 2, what="targets"):
        test_target(runtime, target, TARGETS[target][1], sys.argv[1] if len(sys.argv) > 1 else "")
    return finish()


sys.exit(main())
