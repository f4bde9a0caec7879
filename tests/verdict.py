#!/usr/bin/env python3
"""The comparison of `pkc run`: kernels that compute the same in another way agree with their references, and kernels with planted faults do
not.

usage: verdict.py; prints "N passed, N failed".
"""
import json
import os
import subprocess
import sys
import tempfile

from suite import PKC

MATMUL = """
kernel matmul(a: f32[M, K], b: f32[K, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel, k in cdiv(K, 64) arbitrary);
  block a: [8, 64] at (i, k) pad 0;
  block b: [64, N] at (k, 0) pad 0;
  block o: [8, N] at (i, 0);
  when k == 0 { o[...] = 0; }
  o[...] += dot(a[...], b[...]);
}
reference matmul { o = dot(a, b); }
"""
SOFTMAX = """
kernel softmax(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8, N] at (i, 0);
  let v = x[...];
  let e = exp(v - reduce_max(v, axis = 1));
  o[...] = e / reduce_sum(e, axis = 1);
}
reference softmax {
  let e = exp(x - reduce_max(x, axis = 1));
  o = e / reduce_sum(e, axis = 1);
}
"""
QUANTISE = """
kernel quantise(x: f32[M, N]) -> (q: i8[M, N], y: f32[M, N]) {
  grid (i in cdiv(M, 8));
  block x, q, y: [8, N] at (i, 0);
  let s = reduce_max(abs(x[...]), axis = 1) / 127.0;
  let v = cast(round(x[...] / s), i8);
  q[...] = v;
  y[...] = cast(v, f32) * s;
}
reference quantise {
  let s = reduce_max(abs(x), axis = 1) / 127.0;
  let v = cast(round(x / s), i8);
  q = v;
  y = cast(v, f32) * s;
}
"""
# name, arguments, text; then right and wrong replacements of a line: (from, to).
CASES = [
    ("matmul", "M=24 N=24 K=512", MATMUL, [
        ("dot(a[...], b[...])", "dot(b[...].T, a[...].T).T"),
        ("dot(a[...], b[...])", "(dot(a[...] * 3, b[...]) / 3)"),
    ], [
        ("dot(a[...], b[...])", "dot(where(iota([8, 64], axis = 1) + k * 64 == 100, 0, a[...]), b[...])"),
        ("dot(a[...], b[...])", "dot(cast(cast(a[...], bf16), f32), b[...])"),
        ("dot(a[...], b[...])", "dot(cast(cast(a[...], f16), f32), b[...])"),
        ("dot(a[...], b[...])", "where(k == 3, dot(a[...], b[...]) * 1.0005, dot(a[...], b[...]))"),
    ]),
    ("quantise", "M=370 N=1000", QUANTISE, [
        ("x[...] / s", "x[...] * (1.0 / s)"),
        ("round(x[...] / s)", "floor(x[...] / s + 0.5)"),
    ], [
        ("round(x[...] / s)", "trunc(x[...] / s)"),
        ("round(x[...] / s)", "round(x[...] / s * 1.0001)"),
        ("cast(round(x[...] / s), i8)", "cast(round(x[...] / s), i8) + cast(iota([8, N], axis = 1) == 77, i8)"),
        ("cast(v, f32) * s", "(cast(v, f32) + where(iota([8, N], axis = 1) == 77, 1.0, 0)) * s"),
    ]),
    ("matmul_f64", "M=24 N=24 K=512", MATMUL.replace("f32", "f64"), [
        ("dot(a[...], b[...])", "dot(b[...].T, a[...].T).T"),
        ("dot(a[...], b[...])", "(dot(a[...] * 3, b[...]) / 3)"),
    ], [
        ("dot(a[...], b[...])", "(dot(a[...], b[...]) * 1.0000000000001)"),
        ("dot(a[...], b[...])", "dot(cast(cast(a[...], f32), f64), b[...])"),
        ("dot(a[...], b[...])", "cast(dot(cast(a[...], f32), cast(b[...], f32)), f64)"),
    ]),
    ("softmax_f64", "M=16 N=3000", SOFTMAX.replace("f32", "f64"), [
        ("e / reduce_sum", "e * reciprocal(reduce_sum(e, axis = 1)) + 0 * reduce_sum"),
        ("exp(v - reduce_max(v, axis = 1))", "exp2((v - reduce_max(v, axis = 1)) * 1.4426950408889634)"),
    ], [
        ("exp(v - reduce_max(v, axis = 1))", "cast(exp(cast(v - reduce_max(v, axis = 1), f32)), f64)"),
        ("e / reduce_sum", "1.0000000000001 * e / reduce_sum"),
    ]),
    ("matmul_bf16", "M=16 N=16 K=256", """
kernel mm(a: bf16[M, K], b: bf16[K, N]) -> (o: bf16[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block a: [8, K] at (i, 0);
  block b: [K, N] at (0, 0);
  block o: [8, N] at (i, 0);
  o[...] = cast(dot(a[...], b[...]), bf16);
}
reference mm { o = cast(einsum("mk,kn->mn", a, b, out = f32), bf16); }
""", [], [
        ("dot(a[...], b[...])", "dot(where(iota([8, K], axis = 1) == 100, 0, a[...]), b[...])"),
        ("dot(a[...], b[...])", "(dot(a[...], b[...]) * 1.02)"),
    ]),
    ("softmax", "M=16 N=300", SOFTMAX, [
        ("exp(v - reduce_max(v, axis = 1))", "exp2(v * 1.4426950408889634 - reduce_max(v, axis = 1) * 1.4426950408889634)"),
        ("exp(v - reduce_max(v, axis = 1))", "exp(v)"),
        ("e / reduce_sum(e, axis = 1)", "e * (1 / reduce_sum(e, axis = 1))"),
        ("e / reduce_sum(e, axis = 1)", "exp(v - reduce_max(v, axis = 1) - log(reduce_sum(e, axis = 1)))"),
    ], [
        ("let e = exp(v - reduce_max(v, axis = 1));",
         "let u = exp(v - reduce_max(v, axis = 1)); let e = u * (1 + 1.0e-5 * sin(v * 1000));"),
        ("let e = exp(v - reduce_max(v, axis = 1));",
         "let e = cast(cast(exp(v - reduce_max(v, axis = 1)), bf16), f32);"),
        ("reduce_sum(e, axis = 1)", "reduce_sum(where(iota([8, N], axis = 1) == 17, 0, e), axis = 1)"),
        ("o[...] = e", "o[...] = where(iota([8, N], axis = 1) == 17, 1.00001, 1) * e"),
    ]),
    ("softmax of large scores", "M=16 N=300 x=randint:-200:200:3", """
kernel softmax(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8, N] at (i, 0);
  let v = x[...] * 0.37;
  let e = exp(v - reduce_max(v, axis = 1));
  o[...] = e / reduce_sum(e, axis = 1);
}
reference softmax {
  let v = x * 0.37;
  let e = exp(v - reduce_max(v, axis = 1));
  o = e / reduce_sum(e, axis = 1);
}
""", [
        ("exp(v - reduce_max(v, axis = 1))",
         "exp2(x[...] * 0.5337971651 - reduce_max(x[...], axis = 1) * 0.5337971651)"),
    ], [("o[...] = e", "o[...] = (e + 1.0e-12)")]),
    ("masked", "N=40 S=50", """
kernel masked(x: f32[N, S]) -> (o: f32[N, S]) {
  grid (i in cdiv(N, 8) parallel);
  block x, o: [8, S] at (i, 0);
  let row = i * 8 + iota([8, S], axis = 0);
  let col = iota([8, S], axis = 1);
  let keep = col <= row;
  o[...] = where(keep, exp(x[...]) * 2 - 1, 0);
}
reference masked { o = where(iota([N, S], axis = 1) <= iota([N, S], axis = 0), exp(x) * 2 - 1, 0); }
""", [("* 2 - 1", "* 2 + (-1)")], [
        ("col <= row", "col < row"),
        ("* 2 - 1, 0);", "* 2 - 1, where(row == 3 && col == 30, 1.0e-30, 0));"),
        ("o[...] = where(keep,", "o[...] = where(row == 20 && col == 7, 1.001, 1) * where(keep,"),
    ]),
    ("one small element", "N=64", """
kernel small(x: f32[N]) -> (o: f32[N]) {
  let at = iota([N], axis = 0);
  o[...] = exp(x[...]) * x[...] * where(at == 9, 1.0e-9, 1000);
}
reference small { o = exp(x) * x * where(iota([N], axis = 0) == 9, 1.0e-9, 1000); }
""", [("exp(x[...]) * x[...]", "x[...] * exp(x[...])")], [
        ("1.0e-9", "1.00001e-9"),
        ("1.0e-9", "0"),
    ]),
    ("variance", "M=8 N=1000 x=randint:10:14:2", """
kernel variance(x: f32[M, N]) -> (o: f32[M, 1]) {
  let c = x[...] - reduce_sum(x[...], axis = 1) / cast(N, f32);
  o[...] = reduce_sum(c * c, axis = 1) / cast(N, f32);
}
reference variance {
  let c = x - reduce_sum(x, axis = 1) / cast(N, f32);
  o = reduce_sum(c * c, axis = 1) / cast(N, f32);
}
""", [("reduce_sum(x[...], axis = 1) / cast(N, f32)", "reduce_sum(x[...] / cast(N, f32), axis = 1)")], [
        ("reduce_sum(c * c, axis = 1) / cast(N, f32)", "reduce_sum(c * c, axis = 1) / cast(N - 1, f32)"),
    ]),
    ("long sums", "N=100000", """
kernel sums(x: f32[N]) -> (o: f32[1]) { o[...] = reduce_sum(x[...], axis = 0); }
reference sums { o = reduce_sum(x, axis = 0); }
""", [("reduce_sum(x[...], axis = 0)", "reduce_sum(rev(x[...], axis = 0), axis = 0)")], [
        ("reduce_sum(x[...], axis = 0)", "reduce_sum(where(iota([N], axis = 0) == 5, 0, x[...]), axis = 0)"),
    ]),
    ("sums of equal terms", "M=4 N=10000 x=const:0.1", """
kernel sums(x: f32[M, N]) -> (o: f32[M, 1]) { o[...] = reduce_sum(x[...], axis = 1); }
reference sums { o = reduce_sum(x, axis = 1); }
""", [], [("reduce_sum(x[...], axis = 1)", "reduce_sum(where(iota([M, N], axis = 1) < 20, 0, x[...]), axis = 1)")]),
    ("softmax backward", "M=16 N=200", """
kernel back(x: f32[M, N], g: f32[M, N]) -> (d: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, g, d: [8, N] at (i, 0);
  let e = exp(x[...] * 4 - reduce_max(x[...] * 4, axis = 1));
  let p = e / reduce_sum(e, axis = 1);
  d[...] = p * (g[...] - reduce_sum(p * g[...], axis = 1));
}
reference back {
  let e = exp(x * 4 - reduce_max(x * 4, axis = 1));
  let p = e / reduce_sum(e, axis = 1);
  d = p * (g - reduce_sum(p * g, axis = 1));
}
""", [("p * (g[...] - reduce_sum(p * g[...], axis = 1))", "p * g[...] - p * reduce_sum(p * g[...], axis = 1)")], [
        ("reduce_sum(p * g[...], axis = 1)", "reduce_sum(where(iota([8, N], axis = 1) == 3, 0, p * g[...]), axis = 1)"),
        ("reduce_sum(p * g[...], axis = 1)", "cast(cast(reduce_sum(p * g[...], axis = 1), bf16), f32)"),
    ]),
    ("exact", "N=50", """
kernel exact(x: f32[N], y: f32[N]) -> (o: f32[N]) { o[...] = x[...] * y[...]; }
reference exact { o = x * y; }
""", [], [("x[...] * y[...]", "nextafter(x[...] * y[...], 1000.0)")]),
]


def run(folder, text, words):
    path = os.path.join(folder, "case.pk")
    with open(path, "w") as f:
        f.write(text)
    return subprocess.run([PKC, "run", path, *words], capture_output=True, text=True)


class Counts:
    passed = failed = 0

    def check(self, good, what, done):
        if good:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAIL {what}: status {done.returncode}: {(done.stdout + done.stderr).strip()}; reproduce: tests/verdict.py")


def check_cases(counts, folder):
    for name, arguments, text, right, wrong in CASES:
        done = run(folder, text, arguments.split())
        counts.check(done.returncode == 0, name, done)
        body, reference = text.split("reference ", 1)
        for change in [*right, *wrong]:
            assert change[0] in body, (name, change)
            mutant = body.replace(*change, 1) + "reference " + reference
            done = run(folder, mutant, arguments.split())
            expected = 0 if change in right else 3
            counts.check(done.returncode == expected, f"{name}: {change[1]}: expected status {expected}", done)


def check_options(counts, folder):
    text = """
kernel k(x: f32[N]) -> (o: f32[N], p: i32[N]) { o[...] = exp(x[...]) * 1.001; p[...] = 1; }
reference k { o = exp(x); p = iota([N], axis = 0) * 0 + 1; }
"""
    done = run(folder, text, ["N=20"])
    counts.check(done.returncode == 3 and "20 of 20 elements differ" in done.stderr, "each element is counted", done)
    for option, status in (("1e-2", 0), ("1e-4", 3), ("0,0.1", 0), ("0,1e-6", 3), ("0", 3)):
        done = run(folder, text, ["N=20", f"--tolerance={option}"])
        counts.check(done.returncode == status, f"--tolerance={option}", done)
    for option in ("-1", "x", "1,", "1,x", "nan"):
        done = run(folder, text, ["N=20", f"--tolerance={option}"])
        counts.check(done.returncode == 2, f"--tolerance={option} is refused", done)
    integers = text.replace("p[...] = 1", "p[...] = 2").replace(" * 1.001", "")
    done = run(folder, integers, ["N=20", "--tolerance=10"])
    counts.check(done.returncode == 3, "integers are equal whatever the tolerance is", done)


def check_bench(counts, folder):
    text = """
kernel k(x: f32[N]) -> (o: f32[N], p: f32[N]) { o[...] = exp(x[...]); p[...] = exp(x[...]) * 1.001; }
reference k { o = exp(x); p = exp(x); }
"""
    path = os.path.join(folder, "bench.pk")
    with open(path, "w") as f:
        f.write(text)
    done = subprocess.run([PKC, "bench", path, "N=100", "--json", "--max-time=0.1"], capture_output=True, text=True)
    figures = json.loads(done.stdout)
    good = done.returncode == 3 and not figures["ok"] and figures["wrong_elements"] == 100
    good = good and figures["worst_element"].startswith("p[") and figures["max_abs_error"] > figures["tolerance"]
    counts.check(good, "bench --json names the worst element and its own figures", done)


def check_unspecified(counts, folder):
    text = "kernel k(x: i32[2]) -> (o: i32[2]) { o[0] = x[0]; }\n"
    done = run(folder, text, ["--checked", "--json"])
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    counts.check(kinds == ["never-written"], "what is unspecified is not compared", done)


def main():
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        check_cases(counts, folder)
        check_options(counts, folder)
        check_bench(counts, folder)
        check_unspecified(counts, folder)
    print(f"{counts.passed} passed, {counts.failed} failed")
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
