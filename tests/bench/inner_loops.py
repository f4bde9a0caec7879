#!/usr/bin/env python3
"""Counts the instructions of the inner loops of products, for every target that this machine can compile for, also for machines that it is not.

    tests/bench/inner_loops.py [--target NAME ..] [--write]

The micro-kernels that a target uses for f32, bf16 and i8 are compiled by gcc (for Arm by Debian's cross compiler) and disassembled. The inner loop of a
product is the loop without calls or further loops that has the most multiply-adds, or those of a matrix unit. --write writes the table of
docs/performance/inner-loops.md, which says how to read it."""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance" / "inner-loops.md"
PKC = ROOT / os.environ.get("BUILD", "build") / "pkc"
DTYPES = ["f32", "bf16", "i8"]
TARGETS = [  # those with vectors; generic is compiled for any machine
    "x86-64-v2", "x86-64-v3", "x86-64-v3-vnni", "x86-64-v4", "zen4", "x86-64-v4-amx", "aarch64", "aarch64-dotprod", "aarch64-i8mm"]
COMPILERS = {"aarch64": "aarch64-linux-gnu-"}
MULTIPLY = re.compile(r"^(v?fn?madd\w*ps|v?mulps|vdpbf16ps|vpdpb[us][us]d|v?pmaddwd|tdp\w+|fmla|fmadd\.s|[us]dot|usdot|[us]?mmla|usmmla|bfmmla|bfdot|smlal2?|smull2?|mla)$")
SOURCE = """#include <pk/dot.h>
#include <pk/dot/bf16.h>
#include <pk/dot/i16.h>
#include <pk/dot/i8.h>
#define DEFINE(name) void count_##name(const pk_dot_product *p); void count_##name(const pk_dot_product *p) { name(p); }
"""

Line = collections.namedtuple("Line", "address name operands")
Count = collections.namedtuple("Count", "all multiplies loads tiles")  # tiles: multiply-adds of a matrix unit


def flags_of(target):
    for line in subprocess.run([PKC, "--targets"], capture_output=True, text=True, check=True).stdout.splitlines():
        name, *flags = line.split()
        if name == target:
            return flags
    raise SystemExit(f"inner_loops: pkc has no target {target}")


def prefix_of(target):
    return next((prefix for start, prefix in COMPILERS.items() if target.startswith(start)), "")


def kind_of(target, dtype):
    """What `pkc explain` says of products of the dtype: the dtype of the operands in panels."""
    said = subprocess.run([PKC, "explain", ROOT / "kernels" / "matmul.pk", "-D", f"T={dtype}", "--target", target], capture_output=True, text=True, check=True).stdout
    return re.search(r"operands as (\w+),", said).group(1)


def functions_of(target, kind, folder):
    """The functions that the product is compiled to: lists of lines. None without a compiler."""
    prefix = prefix_of(target)
    if not shutil.which(prefix + "gcc"):
        return None
    source, built = pathlib.Path(folder) / f"{kind}.c", pathlib.Path(folder) / f"{kind}.o"
    source.write_text(SOURCE + f"DEFINE(pk_dot_product_{kind})\n")
    command = [prefix + "gcc", "-std=c11", "-O2", "-ffp-contract=off", "-w", f"-I{ROOT}/include", *flags_of(target), "-c", "-o", built, source]
    if prefix:
        command.insert(1, "-isystem/usr/include")  # SIMDe, which has no files of an architecture
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"inner_loops: {' '.join(map(str, command))}\n{done.stderr[:2000]}")
    text = subprocess.run([prefix + "objdump", "-d", "--no-show-raw-insn", built], capture_output=True, text=True, check=True).stdout
    functions, lines = [], []
    for line in text.splitlines():
        if re.match(r"^[0-9a-f]+ <", line):
            lines = []
            functions.append(lines)
        parts = re.match(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$", line)
        if parts:
            name, operands = re.sub(r"^\{vex\} +", "", f"{parts.group(2)} {parts.group(3)}").split(" ", 1)
            lines.append(Line(int(parts.group(1), 16), name, operands))
    return functions


def loops_of(lines):
    """The innermost loops: from the target of a branch backwards to the branch, without calls and without another such branch."""
    at = {line.address: i for i, line in enumerate(lines)}
    ends = []
    for i, line in enumerate(lines):
        jump = re.search(r"\b([0-9a-f]+) <", line.operands)
        if jump and re.match(r"^(j|b|cb|tb)", line.name) and not line.name.startswith("bl") and at.get(int(jump.group(1), 16), i + 1) <= i:
            ends.append((at[int(jump.group(1), 16)], i))
    for first, last in ends:
        inside = lines[first:last + 1]
        if any(line.name.startswith(("call", "bl", "jal")) for line in inside):
            continue
        if any(first <= a and b <= last and (a, b) != (first, last) for a, b in ends):
            continue
        yield inside


def counted(loop):
    multiplies = sum(bool(MULTIPLY.match(line.name)) for line in loop)
    loads = sum(line.name.startswith(("ld", "flw", "lw", "tileload")) or (line.name.startswith(("vmov", "mov", "vbroadcast", "vpbroadcast")) and "(" in line.operands.split(",")[0])
                for line in loop)
    return Count(len(loop), multiplies, loads, sum(line.name.startswith("tdp") for line in loop))


def inner_loop(functions):
    loops = [counted(loop) for lines in functions for loop in loops_of(lines)]
    return max(loops, key=lambda count: (count.tiles > 0, count.multiplies, count.multiplies / count.all), default=None)


def row_of(target, folder):
    cells = []
    for dtype in DTYPES:
        kind = kind_of(target, dtype)
        functions = functions_of(target, kind, folder)
        if functions is None:
            return None
        cells.append((dtype, kind, inner_loop(functions)))
    return cells


def shown(dtype, kind, count):
    name = "" if kind == dtype else f"as {kind}: "
    return f"{name}{count.multiplies} of {count.all} ({100 * count.multiplies / count.all:.0f} %), {count.loads} loads"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for target in options.target or TARGETS:
            cells = row_of(target, folder)
            line = f"| {target} | " + " | ".join(shown(*cell) for cell in cells) + " |" if cells else f"| {target} | no compiler | | |"
            print(line, flush=True)
            rows.append(line)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        head, tail = text.split("<!-- rows -->")[0], text.split("<!-- end of rows -->")[1]
        PAGE.write_text(head + "<!-- rows -->\n\n| target | " + " | ".join(DTYPES) + " |\n|---" + "|---" * len(DTYPES) + "|\n" + "\n".join(rows) + "\n\n<!-- end of rows -->" + tail, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
