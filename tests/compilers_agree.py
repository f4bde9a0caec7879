#!/usr/bin/env python3
"""pkc compiled by gcc and by clang writes the same text: C, gradients, Pallas and explanations of every kernel.

The two evaluate arguments in opposite orders, so the order of instructions that are emitted within arguments of one call would differ.
The other of gcc and clang compiles pkc to build/compilers_agree; without it the suite is skipped.

    tests/compilers_agree.py [FILE.pk ..]     default: a sample of kernels/ and tests/cases

Ends with "N passed, N failed".
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

from sampling import sampled
from suite import BUILD, PKC, ROOT, check, finish

WAYS = {"C": ["--emit=c"], "Pallas": ["--emit=pallas"], "explain": ["explain"], "gradient": ["grad", "--kernel"], "derivative": ["grad", "--forward"]}
NAME = re.compile(r"^(?:kernel|program|reference) (\w+) *\(", re.M)


def other_compiler():
    """The compiler that did not compile pkc, of gcc and clang; None if it is not installed."""
    mine = os.path.basename(os.environ.get("CC", "cc"))
    return shutil.which("gcc" if "clang" in mine else "clang")


def build(compiler):
    """The path of pkc compiled by `compiler`."""
    folder = BUILD / "compilers_agree"
    done = subprocess.run(["make", "-s", f"BUILD={folder}", f"CC={compiler}", str(folder / "pkc")], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"make with {compiler}: {done.stderr}")
    return str(folder / "pkc")


def texts(program, way, path, kernel):
    words = [program, *WAYS[way], str(path), *(["-k", kernel] if kernel else [])]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def first_difference(a, b):
    for one, other in zip(a[1].split(b"\n"), b[1].split(b"\n")):
        if one != other:
            return f"`{one.decode().strip()}` and `{other.decode().strip()}`"
    return f"exit {a[0]} and {b[0]}"


def main():
    compiler = other_compiler()
    if not compiler:
        print("SKIPPED compilers_agree: it requires gcc and clang")
        return finish()
    paths = [pathlib.Path(path).resolve() for path in sys.argv[1:]] or sampled(sorted([*ROOT.glob("kernels/**/*.pk"), *ROOT.glob("tests/cases/**/*.pk")]), 250, 60, "files")
    other = build(compiler)

    def compared(path):
        rows = []
        for kernel in dict.fromkeys(NAME.findall(path.read_text(encoding="utf-8", errors="replace"))) or [None]:
            for way in WAYS:
                ours, theirs = texts(PKC, way, path.relative_to(ROOT), kernel), texts(other, way, path.relative_to(ROOT), kernel)
                rows.append((f"{path.relative_to(ROOT)} -k {kernel}: {way}", ours == theirs, first_difference(ours, theirs) if ours != theirs else ""))
        return rows

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("PKC_JOBS", 2))) as pool:
        for rows in pool.map(compared, paths):
            for row in rows:
                check(*row)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
