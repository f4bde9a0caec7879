#!/usr/bin/env python3
"""`precision` of products and --numerics: the results of `run` and `check` against NumPy with explicit rounding to bf16, and the output of
--emit=pallas, `pkc tpu` and `explain`.

usage: precision.py [--table]; --table prints the errors that docs/numerics.md gives. Ends with "N passed, N failed".
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

from suite import PKC, check, finish

TEXT = """
kernel product(a: {A}[M, K], b: {B}[K, N]) -> (o: f32[M, N]) {{
  grid (i in cdiv(M, 16) parallel, j in cdiv(N, 32) parallel);
  block a: [16, K] at (i, 0) pad 0;
  block b: [K, 32] at (0, j) pad 0;
  block o: [16, 32] at (i, j);
  o[...] = {product};
}}
reference product {{ o = dot(a, b); }}
"""
FORMS = {
    "dot": "dot(a[...], b[...]{})",
    "transposed": "dot(b[...], a[...], contract = ((0), (1)){}).T",
    "einsum": 'einsum("mk,kn->mn", a[...], b[...]{})',
}
CONV = """
kernel convolve(x: f32[1, 12, 8], w: f32[3, 8, 16]) -> (o: f32[1, 10, 16]) {{
  grid (i in 1);
  block x: [1, 12, 8] at (0, 0, 0);
  block w: [3, 8, 16] at (0, 0, 0);
  block o: [1, 10, 16] at (0, 0, 0);
  o[...] = conv(x[...], w[...]{});
}}
reference convolve {{ o = conv(x, w); }}
"""
PROGRAM = """
kernel half(a: f32[M, K], b: f32[K, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 16));
  block a: [16, K] at (i, 0) pad 0;
  block b: [K, N] at (0, 0);
  block o: [16, N] at (i, 0);
  o[...] = dot(a[...], b[...], precision = "default");
}
reference half { o = dot(a, b); }
program both(a: f32[M, K], b: f32[K, N]) -> (o: f32[M, N]) { o = half(a, b); }
"""
PRODUCTS = {  # number of products of bf16, by --numerics and precision: a copy of the table of codegen/ir/dot.c
    "f32": {"": 0, "default": 0, "high": 0, "highest": 0},
    "high": {"": 0, "default": 3, "high": 3, "highest": 0},
    "tpu": {"": 1, "default": 1, "high": 3, "highest": 0},
}


def bf16(x):
    """Rounds f32 to bf16: to nearest, ties to even."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def parts(x, wide):
    first = bf16(x) if wide else x
    return first.astype(np.float64), (bf16(x - first) if wide else np.zeros_like(x)).astype(np.float64)


def product(a, b, products, wide=(True, True)):
    if not products:
        return a.astype(np.float64) @ b.astype(np.float64)
    (a0, a1), (b0, b1) = parts(a, wide[0]), parts(b, wide[1])
    return a0 @ b0 + (a0 @ b1 + a1 @ b0 if products == 3 else 0)


class Folder:
    def __init__(self):
        self.path = tempfile.mkdtemp()

    def file(self, name, content):
        path = os.path.join(self.path, name)
        if isinstance(content, str):
            with open(path, "w", encoding="ascii") as file:
                file.write(content)
        else:
            np.save(path, content)
        return path

    def result(self, verb, kernel, arrays, numerics, *more):
        inputs = [f"{name}={self.file(name + '.npy', array)}" for name, array in arrays.items()]
        out = os.path.join(self.path, "o.npy")
        done = subprocess.run([PKC, verb, kernel, *inputs, "-o", "o=" + out, "--numerics=" + numerics, *more], capture_output=True, text=True, timeout=300)
        return done, np.load(out) if done.returncode == 0 else None


def close(got, want, scale):
    """A tolerance for the order of f32 sums, far below the error of rounding to bf16."""
    return got is not None and np.all(np.abs(got - want) <= 2e-6 * scale)


def test_forms(folder):
    random = np.random.default_rng(1)
    a, b = random.standard_normal((33, 70)).astype(np.float32), random.standard_normal((70, 45)).astype(np.float32)
    scale = np.abs(a).astype(np.float64) @ np.abs(b) + 1e-30
    for numerics, of in PRODUCTS.items():
        for precision, products in of.items():
            said = f', precision = "{precision}"' if precision else ""
            for form, text in FORMS.items():
                kernel = folder.file("k.pk", TEXT.format(A="f32", B="f32", product=text.format(said)))
                for verb in ("run", "check"):
                    done, got = folder.result(verb, kernel, {"a": a, "b": b}, numerics)
                    check(f"{verb} --numerics={numerics} {form} {precision}", close(got, product(a, b, products), scale), done.stdout + done.stderr)
    check("the cases differ", not close(product(a, b, 1), product(a, b, 3), scale) and not close(product(a, b, 3), product(a, b, 0), scale * 0.5))


def test_mixed(folder):
    """If one operand is bf16, there are fewer products of parts."""
    random = np.random.default_rng(2)
    a, b = random.standard_normal((20, 33)).astype(np.float32), bf16(random.standard_normal((33, 40)))
    scale = np.abs(a).astype(np.float64) @ np.abs(b) + 1e-30
    for numerics, precision in (("tpu", "default"), ("tpu", "high"), ("high", "high"), ("tpu", "highest")):
        text = f'dot(a[...], cast(b[...], bf16), precision = "{precision}")'
        kernel = folder.file("k.pk", TEXT.format(A="f32", B="f32", product=text))
        done, got = folder.result("run", kernel, {"a": a, "b": b}, numerics)
        want = product(a, b, PRODUCTS[numerics][precision], (True, False))
        check(f"run --numerics={numerics} {precision}, f32 by bf16", close(got, want, scale), done.stdout + done.stderr)


def test_conv(folder):
    random = np.random.default_rng(3)
    x, w = random.standard_normal((1, 12, 8)).astype(np.float32), random.standard_normal((3, 8, 16)).astype(np.float32)
    for precision in PRODUCTS["tpu"]:
        kernel = folder.file("c.pk", CONV.format(f', precision = "{precision}"' if precision else ""))
        done, got = folder.result("run", kernel, {"x": x, "w": w}, "tpu")
        want = sum(product(x[0, k:k + 10], w[k], PRODUCTS["tpu"][precision]) for k in range(3))
        scale = sum(np.abs(x[0, k:k + 10]).astype(np.float64) @ np.abs(w[k]) for k in range(3))
        check(f"run --numerics=tpu conv {precision}", got is not None and close(got[0], want, scale), done.stdout + done.stderr)


def test_program(folder):
    random = np.random.default_rng(4)
    a, b = random.standard_normal((20, 33)).astype(np.float32), random.standard_normal((33, 40)).astype(np.float32)
    scale = np.abs(a).astype(np.float64) @ np.abs(b)
    done, got = folder.result("run", folder.file("p.pk", PROGRAM), {"a": a, "b": b}, "tpu")
    check("run --numerics=tpu of a program", close(got, product(a, b, 1), scale) and "agrees" in done.stdout + done.stderr, done.stdout + done.stderr)


def test_verdicts(folder):
    """The tolerance allows only the error of the parts: a kernel with a slightly larger error is wrong."""
    random = np.random.default_rng(5)
    a, b = random.standard_normal((16, 64)).astype(np.float32), random.standard_normal((64, 32)).astype(np.float32)
    for numerics, precision, factor in (("tpu", "default", "1.2"), ("tpu", "high", "1.0005"), ("tpu", "highest", "1.0001"), ("high", "high", "1.0005")):
        for off, wanted in (("1.0", 0), (factor, 1)):
            kernel = folder.file("v.pk", TEXT.format(A="f32", B="f32", product=f'{off} * dot(a[...], b[...], precision = "{precision}")'))
            done, _ = folder.result("run", kernel, {"a": a, "b": b}, numerics)
            check(f"verdict of {off} times, --numerics={numerics} {precision}", (done.returncode != 0) == bool(wanted), done.stdout + done.stderr)


def said_by(*command):
    done = subprocess.run([PKC, *command], capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_outputs(folder):
    for precision, passes, name in (("", 6, "HIGHEST"), ("default", 1, "DEFAULT"), ("high", 3, "HIGH"), ("highest", 6, "HIGHEST")):
        said = f', precision = "{precision}"' if precision else ""
        kernel = folder.file("k.pk", TEXT.format(A="f32", B="f32", product=FORMS["dot"].format(said)))
        text = said_by("--emit=pallas", kernel, "-o", "-")
        check(f"--emit=pallas, {precision or 'none'}", f"precision=lax.Precision.{name})" in text, text[-600:])
        text = said_by("tpu", kernel, "M=1024", "N=1024", "K=1024")
        check(f"tpu, {precision or 'none'}", f"f32 products in {passes} pass" in text, text[-600:])
    text = said_by("explain", kernel.replace("k.pk", "v.pk"), "--numerics=high", "--target", "x86-64-v4-amx")
    check("explain names the unit", "tdpbf16ps" in text, text)
    bad = folder.file("bad.pk", TEXT.format(A="f32", B="f32", product=FORMS["dot"].format(', precision = "hihg"')))
    text = said_by("run", bad, "M=1", "N=1", "K=1")
    check("a name that is none", "did you mean `high`?" in text and "hihg" in text, text)
    text = said_by("run", bad, "--numerics=bf16")
    check("numerics that are none", "f32, high or tpu" in text, text)


def table(folder):
    """The median and the greatest error of 64 x 64 sums, relative to the sum of |a b|, in units of 2^-24."""
    random = np.random.default_rng(6)
    print("| terms | f32 | `high` | `default` |\n|---|---|---|---|")
    for k in (16, 128, 1024, 4096):
        a, b = random.standard_normal((64, k)).astype(np.float32), random.standard_normal((k, 64)).astype(np.float32)
        scale, row = np.abs(a).astype(np.float64) @ np.abs(b), []
        for precision in ("highest", "high", "default"):
            kernel = folder.file("t.pk", TEXT.format(A="f32", B="f32", product=FORMS["dot"].format(f', precision = "{precision}"')))
            _, got = folder.result("run", kernel, {"a": a, "b": b}, "tpu")
            error = np.abs(got - product(a, b, 0)) / scale * 2.0**24
            row.append(f"{np.median(error):.2g}, {error.max():.2g}")
        print(f"| {k} | " + " | ".join(row) + " |")


def main():
    folder = Folder()
    if "--table" in sys.argv:
        return table(folder)
    for test in (test_forms, test_mixed, test_conv, test_program, test_verdicts, test_outputs):
        test(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
