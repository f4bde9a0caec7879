#!/usr/bin/env python3
"""`pkc --emit=signature`: one JSON object with the contents of a kernel's signature."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from suite import PKC, ROOT, check, finish

TEXT = r'''
// A first line,
//   and a "second" \ one.
// test: N=3
kernel double(a: T[N, D], b: f32[N + 1]) -> (o: T[N, D], p: f32[2]) {
  prefetch start: i32[N];
  static T: dtype = bf16, D = 4 * 8, EPS = 1.0e-5, ON = true, W: u8 = 7;
  static O = where(ON, 1, 2);
  require N % 2 == 0 : "N is even";
  alias o = a;

  p[...] = 0.0;
  o[...] = a[...];
}
kernel plain(x: f32[]) -> (o: f32[]) { o[...] = x[...]; }
'''

def equal(what, got, want):
    check(what, got == want, "%r, expected %r" % (got, want))


def run(*words, text=None):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "k.pk")
        path.write_text(text or "")
        return subprocess.run([PKC, "--emit=signature", *words, *([str(path)] if text else [])], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)


def signature(*words, text=None):
    done = run(*words, text=text)
    equal("status of %s" % (words,), (done.returncode, done.stdout.count("\n")), (0, 1))
    return json.loads(done.stdout)


def operand(name, direction, type, dtype, shape, extents, prefetch=False, alias=None, packed=False):
    return dict(name=name, direction=direction, prefetch=prefetch, alias=alias, packed=packed, type=type, dtype=dtype, shape=shape,
                extents=extents)


def check_members():
    got = signature("-k", "double", "-D", "D=16", text=TEXT)
    equal("kernel", (got["kernel"], got["kind"], got["symbol"], got["line"]), ("double", "kernel", "double_", 5))
    equal("doc", got["doc"], 'A first line,\n  and a "second" \\ one.')
    equal("operands", got["operands"], [
        operand("start", "input", "i32", "i32", ["N"], [None], prefetch=True),
        operand("a", "input", "T", "bf16", ["N", "D"], [None, 16]),
        operand("b", "input", "f32", "f32", ["N + 1"], [None]),
        operand("o", "output", "T", "bf16", ["N", "D"], [None, 16], alias="a"),
        operand("p", "output", "f32", "f32", ["2"], [2])])
    equal("statics", [tuple(s[k] for k in ("name", "type", "default", "value")) for s in got["statics"]],
          [("T", "dtype", "bf16", "bf16"), ("D", "integer", "4 * 8", "16"), ("EPS", "float", "1.0e-5", "1.0e-05"),
           ("ON", "bool", "true", "true"), ("W", "u8", "7", "7"), ("O", "integer", "where(ON, 1, 2)", "1")])
    equal("rest", (got["sizes"], got["requires"], got["reference"]), (["N"], ["N is even"], False))
    plain = signature("-k", "plain", text=TEXT)
    equal("plain", (plain["doc"], plain["statics"], plain["sizes"]), ("", [], []))
    equal("rank 0", plain["operands"][0], operand("x", "input", "f32", "f32", [], []))


def check_program():
    got = signature(text="kernel copy(x: f32[N]) -> (o: f32[N]) { o[...] = x[...]; }\n"
                    "// Twice.\nprogram again(a: f32[M]) -> (b: f32[M]) { static Q = 2; let c = copy(a); b = copy(c); }")
    equal("program", (got["kernel"], got["kind"], got["doc"], got["sizes"], [s["name"] for s in got["statics"]],
                      [o["name"] for o in got["operands"]]), ("again", "program", "Twice.", ["M"], ["Q"], ["a", "b"]))


def check_solved():
    got = signature(text="kernel up(x: f32[N, K + 1]) -> (o: f32[M, K]) { static B = 2; require N == B * M; o[...] = x[0:M, 1:]; }")
    equal("solved", (got["sizes"], got["solved"], got["operands"][1]["shape"]), (["N", "K"], {"M": "(N / 2)"}, ["M", "K"]))


def check_errors():
    for words, said in (((), "E0"), (("-k", "none"), "none"), (("-k", "double", "-D", "Q=1"), "Q")):
        done = run(*words, text=TEXT)
        equal("refused %s" % (words,), (done.returncode, done.stdout, said in done.stderr), (1, "", True))


def check_library():
    for path in sorted((ROOT / "kernels").glob("*.pk")):
        for head in re.finditer(r"^kernel (\w+)\((.*?)\) -> \((.*?)\) \{", path.read_text(), re.S | re.M):
            got = signature("-k", head.group(1), str(path))
            names = [re.findall(r"(\w+): \w+", head.group(k)) for k in (2, 3)]
            operands = [[o["name"] for o in got["operands"] if o["direction"] == way and not o["prefetch"]] for way in ("input", "output")]
            equal(path.name, [got["kernel"]] + operands, [head.group(1)] + names)


check_members()
check_program()
check_solved()
check_errors()
check_library()
sys.exit(finish())
