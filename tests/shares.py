#!/usr/bin/env python3
"""The share of the machine's peak that `pkc bench` reports: it refers to the right arithmetic, is never above 1, or is replaced by a reason.

Ends with the line "N passed, N failed".
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

from suite import PKC, check, finish

SCALE = """// Its reference multiplies by a diagonal matrix.
kernel scale(d: f32[N], x: f32[N, N]) -> (o: f32[N, N]) {
  grid (i in cdiv(N, 64) parallel);
  block d: [64] at (i);
  block x: [64, N] at (i, 0);
  block o: [64, N] at (i, 0);
  o[...] = reshape(d[...], [64, 1]) * x[...];
}

reference scale {
  let same = iota([N, N], axis = 0) == iota([N, N], axis = 1);
  let diagonal = where(same, reshape(d, [N, 1]), 0.0);
  o = einsum("ij,jk->ik", diagonal, x);
}
"""
LOOP = """// As many steps as an element says.
kernel loop(n: i32[M], x: f32[M, 128]) -> (o: f32[M, 128]) {
  grid (i in cdiv(M, 8) parallel);
  block n: [8] at (i);
  block x: [8, 128] at (i, 0);
  block o: [8, 128] at (i, 0);
  var left: i32 = n[0] & 7;
  var sum: f32[8, 128] = x[...];
  while left > 0 { sum = sum + sum; left = left - 1; }
  o[...] = sum;
}
"""
BARE = """// Without a reference.
kernel bare(x: f32[N]) -> (o: f32[N]) {
  grid (i in cdiv(N, 1024) parallel);
  block x: [1024] at (i);
  block o: [1024] at (i);
  o[...] = x[...] + 1;
}
"""
DOUBLE = """// A product of f64.
kernel double(a: f64[M, K], b: f64[K, N]) -> (c: f64[M, N]) {
  grid (i in cdiv(M, 64) parallel, j in cdiv(N, 64) parallel);
  block a: [64, K] at (i, 0);
  block b: [K, 64] at (0, j);
  block c: [64, 64] at (i, j);
  c[...] = dot(a[...], b[...]);
}

reference double { c = einsum("mk,kn->mn", a, b); }
"""


def bench(path, *words):
    run = subprocess.run([PKC, "bench", path, "--json", "--no-naive", "--min-time", "0.01", "--max-time", "2", *words],
                         capture_output=True, text=True)
    lines = run.stdout.splitlines()
    return json.loads(lines[-1]) if run.returncode == 0 and lines else None, run.stdout + run.stderr


def is_sound(found):
    """A share of the peak, or a reason."""
    share, of, why = found["peak_share"], found["peak_of"], found["peak_unknown"]
    return why is None and 0 < share <= 1 and of in ("f32", "f64", "bf16", "i8", "memory") if share is not None else of is None and bool(why)


def busy(found):
    return found["peak_unknown"] and "the machine was busy" in found["peak_unknown"]


def test_written(folder, name, text, words, of, why):
    path = os.path.join(folder, name + ".pk")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    found, said = bench(path, *words)
    if not found:
        return check(f"{name} runs", False, said)
    check(f"{name} is sound", is_sound(found), said)
    check(f"{name} is a share of {of}", found["peak_of"] == of or (of and busy(found)), said)
    check(f"{name}: {why}", found["work_unknown"] is None if why is None else why in (found["work_unknown"] or ""), said)
    check(f"{name}: operations a second", (found["gflops"] is None) == bool(why), said)


def test_library(path):
    """The first test of a kernel that has enough data."""
    with open(path, encoding="utf-8") as f:
        tests = re.findall(r"^// test: (.*)$", f.read(), re.M)
    words = max((t.split() for t in tests if "npy" not in t and " -k " not in f" {t} "), default=None,
                key=lambda t: max([int(n) for n in re.findall(r"=(\d+)\b", " ".join(t))], default=0))
    if words is None:
        return
    words = [f"--{w.replace('=', ' ')}".split() if w.startswith("threads=") else [w] for w in words]
    found, said = bench(path, *(w for group in words for w in group))
    if found is None and "refused" in said:
        return
    check(f"{path} {words}", bool(found) and is_sound(found), said)


def main():
    matmul = "kernels/matmul.pk"
    for dtype, of in (("f32", "f32"), ("bf16", "bf16"), ("i8", "i8")):
        found, said = bench(matmul, "M=192", "K=256", "N=256", "-D", f"T={dtype}")
        check(f"matmul of {dtype} is sound", bool(found) and is_sound(found), said)
        check(f"matmul of {dtype} is measured by its own arithmetic", bool(found) and (found["peak_of"] == of or busy(found)), said)
    with tempfile.TemporaryDirectory() as folder:
        test_written(folder, "scale", SCALE, ["N=512"], "memory", "its reference does other work")
        test_written(folder, "loop", LOOP, ["M=512"], None, "the work depends on data")
        test_written(folder, "bare", BARE, ["N=1000000"], "memory", "it has no reference")
        test_written(folder, "double", DOUBLE, ["M=128", "K=128", "N=128"], "f64", None)
    for path in sorted(glob.glob("kernels/*.pk") + glob.glob("kernels/train/*.pk")):
        test_library(path)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
