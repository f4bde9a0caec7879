#!/usr/bin/env python3
"""The instructions of loads and stores through views, compared with plain ones of the same bytes.

callgrind counts the instructions of a kernel's cell, so the figures do not depend on how busy the machine is.
The kernels are compiled for x86-64-v3, whose instructions valgrind knows.

    tests/view_costs.py

Ends with "N passed, N failed".
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from suite import BUILD, PKC, ROOT, check, finish

TARGET, CC = "x86-64-v3", ["gcc", "-std=c11", "-O2", "-march=x86-64-v3", "-ffp-contract=off", "-I%s" % (ROOT / "include")]
CODES = {"i": "kDLInt", "u": "kDLUInt", "f": "kDLFloat", "bf": "kDLBfloat"}
# Each row: the highest ratio that passes, a kernel with views, and one without that reads and writes the same bytes.
# Elements of words must stay below 1.3. The other limits lie just above the measured ratios.
PAIRS = [
    (1.3, "bf16 from words of u32",
     "(x: u32[256, 256]) -> (y: bf16[512, 256]) { let v = view(x[...], dtype = bf16); y[...] = v[...] * 2; }",
     "(x: bf16[512, 256]) -> (y: bf16[512, 256]) { y[...] = x[...] * 2; }"),
    (1.3, "i8 from words of i32",
     "(x: i32[64, 256]) -> (y: f32[256, 256]) { let v = view(x[...], dtype = i8); y[...] = cast(v[...], f32) * 2; }",
     "(x: i8[256, 256]) -> (y: f32[256, 256]) { y[...] = cast(x[...], f32) * 2; }"),
    (1.3, "i16 from words of i32",
     "(x: i32[128, 256]) -> (y: f32[256, 256]) { let v = view(x[...], dtype = i16); y[...] = cast(v[...], f32) * 2; }",
     "(x: i16[256, 256]) -> (y: f32[256, 256]) { y[...] = cast(x[...], f32) * 2; }"),
    (1.3, "u8 from words of i32",
     "(x: i32[64, 256]) -> (y: f32[256, 256]) { let v = view(x[...], dtype = u8); y[...] = cast(v[...], f32) * 2; }",
     "(x: u8[256, 256]) -> (y: f32[256, 256]) { y[...] = cast(x[...], f32) * 2; }"),
    (1.3, "i8 from i16",
     "(x: i16[128, 256]) -> (y: f32[256, 256]) { let v = view(x[...], dtype = i8); y[...] = cast(v[...], f32) + 1; }",
     "(x: i8[256, 256]) -> (y: f32[256, 256]) { y[...] = cast(x[...], f32) + 1; }"),
    # These integers stay packed in registers, with a view and without.
    (1.3, "i16 from words of i32, stored as i16",
     "(x: i32[128, 256]) -> (y: i16[256, 256]) { let v = view(x[...], dtype = i16); y[...] = v[...] * 2; }",
     "(x: i16[256, 256]) -> (y: i16[256, 256]) { y[...] = x[...] * 2; }"),
    (1.4, "u8 from words of i32, stored as u8",
     "(x: i32[64, 256]) -> (y: u8[256, 256]) { let v = view(x[...], dtype = u8); y[...] = v[...] * 2; }",
     "(x: u8[256, 256]) -> (y: u8[256, 256]) { y[...] = x[...] * 2; }"),
    (1.35, "i8 from i16, stored as i8",
     "(x: i16[128, 256]) -> (y: i8[256, 256]) { let v = view(x[...], dtype = i8); y[...] = v[...] + 1; }",
     "(x: i8[256, 256]) -> (y: i8[256, 256]) { y[...] = x[...] + 1; }"),
    (1.3, "bf16 from words of u32, only moved",
     "(x: u32[128, 256]) -> (y: bf16[256, 256]) { let v = view(x[...], dtype = bf16); y[...] = v[...]; }",
     "(x: bf16[256, 256]) -> (y: bf16[256, 256]) { y[...] = x[...]; }"),
    (1.3, "f16 from words of i32",
     "(x: i32[128, 256]) -> (y: f16[256, 256]) { let v = view(x[...], dtype = f16); y[...] = v[...] * 2; }",
     "(x: f16[256, 256]) -> (y: f16[256, 256]) { y[...] = x[...] * 2; }"),
    (1.3, "i4 from words of i32",
     "(x: i32[32, 256]) -> (y: f32[256, 256]) { let v = view(x[...], dtype = i4); y[...] = cast(v[...], f32) * 2; }",
     "(x: i4 packed [256, 256]) -> (y: f32[256, 256]) { y[...] = cast(x[...], f32) * 2; }"),
    (1.35, "words of u32 from bytes",
     "(x: u8[256, 256]) -> (y: u32[64, 256]) { let v = view(x[...], dtype = u32); y[...] = v[...] + 1; }",
     "(x: u32[64, 256]) -> (y: u32[64, 256]) { y[...] = x[...] + 1; }"),
    (1.4, "words of u32 from bytes, transposed",
     "(x: u8[8, 32, 256]) -> (y: u32[256, 8, 8]) { let v = view(x[...], dtype = u32); let w = view(v[...], perm = (2, 1, 0)); y[...] = w[...]; }",
     "(x: u32[8, 8, 256]) -> (y: u32[256, 8, 8]) { y[...] = transpose(x[...], perm = (2, 1, 0)); }"),
    (3.7, "bytes of words of u32, transposed",
     "(x: u32[8, 8, 256]) -> (y: u8[256, 32, 8]) { let v = view(x[...], perm = (2, 1, 0)); let w = view(v[...], dtype = u8); y[...] = w[...]; }",
     "(x: u32[8, 8, 256]) -> (y: u32[256, 8, 8]) { y[...] = transpose(x[...], perm = (2, 1, 0)); }"),
    (6.2, "bytes, transposed, as words of u32",
     "(x: u8[256, 256]) -> (y: u32[64, 256]) { let v = view(x[...], perm = (1, 0)); let w = view(v[...], dtype = u32); y[...] = w[...]; }",
     "(x: u32[256, 64]) -> (y: u32[64, 256]) { y[...] = transpose(x[...], perm = (1, 0)); }"),
    (1.3, "bf16 stored to words of u32",
     "(x: bf16[512, 256]) -> (y: u32[256, 256]) { let v = view(y[...], dtype = bf16); v[...] = x[...] * 2; }",
     "(x: bf16[512, 256]) -> (y: bf16[512, 256]) { y[...] = x[...] * 2; }"),
]


def main_text(name, signature):
    """A program that calls the kernel once."""
    lines = ["#include \"%s.h\"" % name, "#include <stdlib.h>", "int main(void) {"]
    names = []
    for operand, kind, bits, dims in re.findall(r"(\w+): (bf|[iuf])(\d+)(?: packed )?\[([\d, ]+)\]", signature):
        extents = [int(n) for n in dims.split(",")]
        size = max(1, int(bits) // 8)
        for n in extents:
            size *= n
        names.append("&" + operand)
        lines += ["  int64_t %s_shape[] = {%s};" % (operand, dims),
                  "  DLTensor %s = {calloc(%d, 1), {kDLCPU, 0}, %d, {%s, %s, 1}, %s_shape, NULL, 0};" % (
                      operand, size, len(extents), CODES[kind], bits, operand)]
    return "\n".join(lines + ["  return %s(NULL, %s);" % (name, ", ".join(names)), "}", ""])


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(map(str, words)), done.stderr))
    return done.stderr


def instructions(name, kernel, folder):
    """The instructions of the cells of one call."""
    for ending, text in ((".pk", "kernel %s%s\n" % (name, kernel)), ("_main.c", main_text(name, kernel))):
        with open(os.path.join(folder, name + ending), "w", encoding="utf-8") as out:
            out.write(text)
    run([PKC, name + ".pk", "--target", TARGET, "-o", name + ".c"], folder)
    run([*CC, "-o", name, name + ".c", name + "_main.c", BUILD / "libpkrt.a", "-lm", "-lpthread"], folder)
    said = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=%s_cell" % name, "./" + name], folder)
    return int(re.search(r"Collected\s*:\s*(\d+)", said).group(1))


def main():
    if not shutil.which("valgrind") or not shutil.which("gcc"):
        print("SKIPPED view_costs: there is no valgrind or no gcc")
        return finish()
    with tempfile.TemporaryDirectory() as folder:
        for n, (most, what, view, plain) in enumerate(PAIRS):
            seen, bare = (instructions("%s%d" % (name, n), text, folder) for name, text in (("seen", view), ("plain", plain)))
            check(what, seen <= most * bare, "%d instructions, and %d without views: %.2f times as many, where %.2f is allowed" % (seen, bare, seen / bare, most))
            if "-v" in sys.argv:
                print("%s: %d, %d without views: %.2f" % (what, seen, bare, seen / bare))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
