#!/usr/bin/env python3
"""Kernels with many copies of the same statements, as unrolled loops of Python leave them: each further copy adds one call, no function is
long, and the results are those of the interpreter.

    tests/long_functions.py

The lines of C are counted instead of seconds. The C compiler takes more than twice as long for a function of twice as many lines.
Prints one line a failure, ends with "N passed, N failed".
"""
import os
import re
import subprocess
import sys
import tempfile

from suite import PKC, check, finish

LONGEST = 420  # lines of a function other than the cell
PER_COPY = {"rows": 6, "sums": 8, "copies": 5, "pages": 2, "chain": 9}  # lines of C that a copy adds


def rows(k, n):
    """Elementwise copies, each at other rows."""
    return f"  o[{8 * k}:{8 * k + 8}] = exp(x[{8 * (n - 1 - k)}:{8 * (n - k)}] * {k % 7}.5) + x[{8 * k}:{8 * k + 8}];"


def sums(k, n):
    """Copies with loops of several kinds: a sum along each axis, and a small product."""
    a, b = 8 * k, 8 * (n - 1 - k)
    return (f"  let s{k} = reduce_sum(x[{b}:{b + 8}], axis = 0, keep = true);\n"
            f"  let m{k} = dot(x[{a}:{a + 8}], x[{b}:{b + 8}].T);\n"
            f"  o[{a}:{a + 8}] = dot(m{k}, x[{a}:{a + 8}]) * 0.01 + s{k};")


def copies(k, n):
    """Copies by hand, with lengths that depend on data."""
    return (f"  when n[{k % 4}] > {k % 5} {{ async_copy(x[ds({8 * k}, n[{k % 4}])] -> o[ds({8 * (n - 1 - k)}, n[{k % 4}])], t[{k % 2}]).start();\n"
            f"    async_copy(x[ds({8 * k}, n[{k % 4}])] -> o[ds({8 * (n - 1 - k)}, n[{k % 4}])], t[{k % 2}]).wait(); }}")


def pages(k, n):
    """Copies of pages of a table: the place and the length of a page are scalars, which several statements of a copy read."""
    return (f"  let size{k} = min(8, max(0, n[0] + {k}));\n  let page{k} = min(n[1] + {k}, {n - 1}) * 8;\n"
            f"  let a{k} = async_copy(x[ds(page{k}, size{k})] -> o[ds({8 * k}, size{k})], t[{k % 2}]);\n  a{k}.start();\n  a{k}.wait();")


def chain(k, n):
    """Each copy reads the one before it, so one loop could contain them all."""
    return f"  let v{k + 1} = where(x[{8 * k}:{8 * k + 8}] > 0.{k % 10}, v{k} * 0.5 + x[{8 * k}:{8 * k + 8}], v{k});" + \
        (f"\n  o[...] = v{n};" if k == n - 1 else "")


HEADS = {
    "rows": "  block x, o: [{m}, 24] at (0, 0);",
    "sums": "  block x, o: [{m}, 24] at (0, 0);",
    "copies": "  block n: smem;\n  block x, o: any;\n  scratch t: sem dma[2];",
    "pages": "  block n: smem;\n  block x, o: any;\n  scratch t: sem dma[2];",
    "chain": "  block x: [{m}, 24] at (0, 0);\n  block o: [8, 24] at (0, 0);\n  let v0 = x[:8];",
}


def kernel(kind, n):
    m, make = 8 * n, globals()[kind]
    first = "n: i32[4], " if "block n:" in HEADS[kind] else ""
    out = 8 if kind == "chain" else m
    lines = [f"// test:{' n=const:8' if first else ''}", f"kernel {kind}({first}x: f32[{m}, 24]) -> (o: f32[{out}, 24]) {{", HEADS[kind].format(m=m)]
    return "\n".join([*lines, *(make(k, n) for k in range(n)), "}", ""])


TYPES = """// test: x=patterns:1
kernel types(x: u64[8]) -> (s: i64[64, 8], d: u64[64, 8]) {
  block x, s, d: smem;
%s}
"""


def types():
    """Copies that differ only in a type or in a constant of 64 bits, which cannot be parameters."""
    return TYPES % "".join(f"  for i in 0..8 {{ s[{k}, i] = cast(cast(x[i], {'iu'[k % 2]}32), i64); d[{k}, i] = x[i] / {3 + k // 2}; }}\n" for k in range(64))


LARGE = {"f32": ["exp(v)", "log1p(v)", "pow(v, 0.5 + v)", "rsqrt(v)"], "bf16": ["tanh(v)", "exp(v)"], "f64": ["exp(v)"]}
CALLED = {"pk_exp_f32", "pk_log1p_f32", "pk_pow_f32", "pk_tanh_narrow", "pk_exp_f64"}


def large(uses):
    """Elementwise chains that use functions of the vector layer, each `uses` times a dtype."""
    operands, results, lines = [], [], []
    for dtype, calls in LARGE.items():
        operands.append(f"x_{dtype}: {dtype}[8, 24]")
        results.append(f"o_{dtype}: {dtype}[8, 24]")
        last = start = f"abs(x_{dtype}[...])"
        for i in range(uses * len(calls)):
            lines.append(f"  let v{i}_{dtype} = where({start} > 0.{i % 10}, {start}, {calls[i % len(calls)].replace('v', last)}) * 0.5;")
            last = f"v{i}_{dtype}"
        lines.append(f"  o_{dtype}[...] = {last};")
    blocks = "".join(f"  block x_{dtype}, o_{dtype}: [8, 24] at (0, 0);\n" for dtype in LARGE)
    body = "\n".join(lines)
    return f"// test:{''.join(f' x_{dtype}=random:1' for dtype in LARGE)}\nkernel large({', '.join(operands)}) -> ({', '.join(results)}) {{\n{blocks}{body}\n}}\n"


def functions(c):
    """The lines of each function, without comments and declarations of buffers."""
    found = {}
    for name, body in re.findall(r"^(?:static )?[\w *]*?(\w+)\([^;{]*\) \{\n(.*?)^\}", c, re.M | re.S):
        found[name] = [line for line in body.splitlines() if not re.match(r" *(/\*|\w+ \*const \w+ = PK_AT)", line)]
    return found


def compiled(text, folder):
    path = os.path.join(folder, "k.pk")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([PKC, "--emit=c", "--target", "x86-64-v4", path], capture_output=True, text=True)
    return path, done.stdout, done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        for kind, most in PER_COPY.items():
            sizes = {}
            for n in (200, 300):
                path, c, said = compiled(kernel(kind, n), folder)
                if not check(f"{kind}: {n} copies compile", c, said):
                    break
                found = functions(c)
                sizes[n] = sum(map(len, found.values()))
                longest = max((len(body), name) for name, body in found.items() if not name.endswith(("_cell", "_layout")))
                check(f"{kind}: the longest function of {n} copies has at most {LONGEST} lines", longest[0] <= LONGEST, "%s has %d" % longest[::-1])
                print(kind, n, sizes[n], longest) if "-v" in sys.argv else None
            if os.environ.get("PKC_TESTS") != "fast":
                done = subprocess.run([PKC, "test", path], capture_output=True, text=True)
                check(f"{kind}: interpreter, portable and native C agree", done.returncode == 0, done.stdout + done.stderr)
            account = subprocess.run([PKC, "explain", path], capture_output=True, text=True).stdout
            check(f"{kind}: explain says what became of it", "Long cell" in account)
            if len(sizes) == 2:
                per = (sizes[300] - sizes[200]) / 100
                check(f"{kind}: a copy adds at most {most} lines of C", per <= most, f"it adds {per:g}")
        for uses, shared in ((2, set()), (20, CALLED)):
            path, _, said = compiled(large(uses), folder)
            text = subprocess.run([PKC, path, "--long-cell", "1", "-o", path + ".c"], capture_output=True, text=True)
            c = open(path + ".c").read() if check(f"large: {uses} uses compile", text.returncode == 0, said + text.stderr) else ""
            own = set(re.findall(r"^static PK_PIECE pk_f\d\dv \w+\(.*return (\w+)\(", c, re.M))
            check(f"large: functions of their own for {uses} uses", own == shared, f"{sorted(own)}, not {sorted(shared)}")
            for name in own:
                check(f"large: {name} has one copy", c.count(name + "(") == 1, f"it has {c.count(name + '(')}")
            done = subprocess.run([PKC, "test", path, "--long-cell", "1"], capture_output=True, text=True)
            check(f"large: results with {uses} uses", done.returncode == 0, done.stdout + done.stderr)
        path, _, _ = compiled(types(), folder)
        for forced in ([], ["--long-cell", "1"]):
            done = subprocess.run([PKC, "test", path, *forced], capture_output=True, text=True)
            check(" ".join(["types: results", *forced]), done.returncode == 0, done.stdout + done.stderr)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
