#!/usr/bin/env python3
"""Runs each file of kernels and of test cases once, at the smallest sizes of its `// test:` lines. `make san` takes an hour for it.

    tests/smallest.py [FILE.pk ..] [--part K/N]     --part: a part of the files, spread over all of them

Of the lines without a size of 0, the one with the smallest product of sizes is run as `pkc run .. --checked`: compiler, interpreter, native C,
reference and runtime. Before it the compiler runs by itself, and must not leak memory. $PKC_CFLAGS has the sanitizers for the C (see `make san`).
"""
import argparse
import math
import os
import re
import subprocess

from sampling import GOLDEN
from suite import PKC, ROOT, check, finish

SECONDS = 600


def sizes_of(words):
    return [int(w.split("=")[1]) for i, w in enumerate(words) if re.fullmatch(r"\w+=\d+", w) and words[i - 1] != "-D"
            and not w.startswith("threads=")]


def smallest(path):
    """The words of the file's smallest test, or None where it has none."""
    lines = re.findall(r"^// test: ?(.*)", path.read_text(errors="replace"), re.M)
    whole = [line.split() for line in lines if 0 not in sizes_of(line.split())]
    return min(whole, key=lambda words: math.prod(sizes_of(words)), default=None)


def part_of(paths, part):
    """Part K of N of the paths; each part is spread over all of them."""
    number, parts = map(int, part.split("/"))
    order = sorted(range(len(paths)), key=lambda k: k * GOLDEN % 1)
    return [paths[k] for k in sorted(order[number - 1 :: parts])]


def compile_it(path, words):
    """If pkc is built with sanitizers, a leak is an error; the programs that it compiles need not free memory."""
    kept = [w for i, w in enumerate(words) if w in ("-D", "-k") or words[i - 1] in ("-D", "-k")]
    done = subprocess.run([PKC, str(path), *kept, "-o", "-"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                          timeout=SECONDS, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"})
    check(f"{path.relative_to(ROOT)} {' '.join(kept)}: compiled", done.returncode == 0, done.stderr.strip().split("\n")[-1])


def run(path, words):
    name = path.relative_to(ROOT)
    words = [f"--threads={w[8:]}" if w.startswith("threads=") else w for w in words]
    try:
        done = subprocess.run([PKC, "run", str(name), *words, "--checked"], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        check(f"{name} {' '.join(words)}", False, f"takes more than {SECONDS} s")
        return
    said = [line for line in done.stdout.splitlines() if re.search("error|ERROR|differs|Sanitizer", line)]
    check(f"{name} {' '.join(words)}", done.returncode == 0, said[0] if said else f"status {done.returncode}")


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--part", default="1/1")
    options = parser.parse_args()
    paths = [(ROOT / f).resolve() for f in options.files]
    paths = paths or sorted([*(ROOT / "kernels").rglob("*.pk"), *(ROOT / "tests" / "cases").rglob("*.pk")])
    for path in part_of(paths, options.part):
        words = smallest(path)
        if words is not None:
            compile_it(path, words)
            run(path, words)
    return finish()


if __name__ == "__main__":
    raise SystemExit(main())
