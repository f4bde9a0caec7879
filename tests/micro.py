#!/usr/bin/env python3
"""Linked micro-kernels (libpkrt_TARGET.a) give the same bits as those that are compiled with the kernel, the table of
include/pk/micro.h has all micro-kernels that generated C calls, and inner loops consist of multiply-adds for the most part."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from sampling import sampled
from suite import check, finish

BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PKC = os.path.join(BUILD, "pkc")
NATIVE = subprocess.run([PKC, "--targets"], capture_output=True, text=True, check=True).stdout.split()[0]
RUNS = [
    ("matmul", "M=37 K=45 N=53"), ("matmul", "M=3 K=70 N=129"), ("matmul", "M=130 K=33 N=5"),
    ("matmul", "-D T=bf16 M=37 K=45 N=53"), ("matmul", "-D T=bf16 M=3 K=45 N=53"), ("matmul", "-D T=f16 M=37 K=45 N=53"),
    ("flash_attn", "B=1 H=2 G=1 N=33 S=47 -D D=24 -D BQ=16 -D BK=16"), ("mlp", "M=19 D=40 F=50"),
    ("matmul_dma", None), ("transpose", "M=70 N=131"), ("paged_attention", None),
]


def judge(ok, name, said):
    check(name, ok, said)


def outputs(path, sizes, folder, micro):
    text = open(path).read()
    names = re.findall(r"(\w+):", re.search(r"->\s*\(([^)]*)\)", text).group(1))
    args = [a for n in names for a in ("-o", f"{n}={folder}/{n}{micro}.npy")]
    command = [PKC, "run", path, *sizes.split(), *args]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PKC_MICRO": str(micro)})
    if done.returncode:
        return None, " ".join(command) + ": " + done.stderr
    return [open(f"{folder}/{n}{micro}.npy", "rb").read() for n in names], ""


def same_bits():
    with tempfile.TemporaryDirectory() as folder:
        for kernel, sizes in RUNS:
            path = os.path.join(ROOT, "kernels", kernel + ".pk")
            sizes = sizes or re.search(r"// test: (.*)", open(path).read()).group(1)
            (linked, wrong), (compiled, wrong2) = (outputs(path, sizes, folder, m) for m in (1, 0))
            ok = linked is not None and linked == compiled
            judge(ok, f"{kernel} {sizes}", wrong or wrong2 or f"PKC_MICRO=0 and 1 differ; reproduce: pkc run {path} {sizes}")


def table_is_whole():
    """Every kernel and case compiles with <pk/micro.h>."""
    files = sorted(glob.glob(os.path.join(ROOT, "kernels/*.pk")) + glob.glob(os.path.join(ROOT, "tests/cases/[!e]*/*.pk")))
    called = []
    for path in files:
        c = subprocess.run([PKC, "--emit=c", path], capture_output=True, text=True).stdout
        if re.search(r"\bpk_(dot|pack|copy_rows|transpose)_", c):
            called.append((path, c))
    chosen = sampled(called, 24, what="C files that call micro-kernels")
    with tempfile.TemporaryDirectory() as folder:
        for path, c in chosen:
            source = os.path.join(folder, "k.c")
            open(source, "w").write(c)
            command = [os.environ.get("CC", "cc").split()[0], "-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused",
                       "-DPK_MICRO=" + NATIVE.replace("-", "_"), "-I" + os.path.join(ROOT, "include"), source]
            done = subprocess.run(command, capture_output=True, text=True)
            judge(done.returncode == 0, os.path.relpath(path, ROOT), done.stderr.split("\n")[0])


def inner_loops():
    """Other instructions in the loop of a product may not go unnoticed: tests/bench/inner_loops.py counts 44 and 46 % (gcc 12)."""
    if not shutil.which("objdump"):
        print("SKIPPED micro, inner loops: objdump is not installed")
        return
    for target in ("x86-64-v3", "aarch64"):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/bench/inner_loops.py"), "--target", target], capture_output=True, text=True)
        found = re.match(r"\| \S+ \| \d+ of \d+ \((\d+) %\)", done.stdout)
        if "no compiler" in done.stdout:
            print(f"SKIPPED micro, inner loops of {target}: no compiler")
        else:
            judge(found and int(found.group(1)) >= 40, f"inner loop of f32 for {target}", done.stdout + done.stderr)


if os.path.exists(os.path.join(BUILD, f"libpkrt_{NATIVE}.a")):
    same_bits()
else:
    print(f"SKIPPED micro: libpkrt_{NATIVE}.a is not built (make micro)")
table_is_whole()
inner_loops()
sys.exit(finish())
