#!/usr/bin/env python3
"""Random kernels: `pkc test` on each of them, so that compiled code is compared with the interpreter.

    tests/fuzz.py [--family F] [--seed S] [--count N] [--seconds T] [--first K] [--batch B] [--keep DIR] [--print]
                  [--options "..."]

Families: `any` draws operations at random, `attention` and `masks` write variants of attention kernels, `hazards` stores to windows of
memory that other windows overlap. Without --family all of them run. --options are passed to every `pkc test`: "--target=aarch64".
The run ends after N kernels or T seconds; --print prints the kernels and runs nothing. `$PKC` names another compiler.
WRONG is a bug; REFUSED (by the front end) and INVALID (the interpreter reports something) are usually mistakes of the generator.

Kernel number K of seed S of a family is always the same text. Kernels are valid: the front end accepts them and the interpreter reports
nothing. Floats hold small integers, so that sums are exact in any order; inexact values reach float outputs only, which are compared
within the tolerance of `pkc test`. Each failure is a line; failing files stay in DIR (build/fuzz).
Ends with "N passed, N failed".
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from fuzzing import attention, kernels, masks  # noqa: E402
from sampling import most  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
FAMILIES = {"any": kernels.kernel_text, "attention": attention.kernel_text, "masks": masks.kernel_text,
            "hazards": kernels.hazards_text}
PKC = os.environ.get("PKC", os.path.join(BUILD, "pkc"))


def run_test(paths, seconds, more=()):
    """The lines that begin with FAIL, or None after a time-out."""
    p = subprocess.Popen([PKC, "test", *more, *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                         start_new_session=True)
    try:
        out, _ = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return None
    return [line for line in out.splitlines() if line.startswith("FAIL") or "rror: " in line and "FAIL" not in line]


def kind_of(line):
    if ": not expected: " in line or ": refused: " in line or "takes more than" in line:
        return "refused"
    return "invalid" if re.search(r": interpreter: ", line) else "wrong"


def run_batch(paths, counts, keep, more):
    lines = run_test(paths, 40 * len(paths), more)
    if lines is None:
        lines = []
        for path in paths:
            found = run_test([path], 120, more)
            lines += found if found is not None else [f"FAIL {path}: takes too long"]
    seen = set()
    for line in lines:
        match = re.match(r"FAIL (\S+?\.pk)", line)
        if not match or match.group(1) in seen:
            continue
        seen.add(match.group(1))
        kind = kind_of(line)
        counts[kind] += 1
        path = os.path.join(keep, kind + "_" + os.path.basename(match.group(1)))
        shutil.copy(match.group(1), path)
        print(f"{kind.upper()} {path}: {line.split('reproduce:')[0][len(match.group(1)) + 5:][-260:]}", flush=True)
    counts["passed"] += len(paths) - len(seen)


def run_family(family, options):
    """Counts the kernels by result."""
    work = os.path.join(options.keep, f"work{os.getpid()}")
    os.makedirs(work)
    os.environ["XDG_CACHE_HOME"] = os.path.join(work, "cache")
    counts = {"passed": 0, "wrong": 0, "refused": 0, "invalid": 0}
    start, n, end = time.monotonic(), options.first, options.first + options.count
    while n < end and time.monotonic() - start < options.seconds:
        paths = []
        for number in range(n, min(end, n + options.batch)):
            paths.append(os.path.join(work, f"{family}_{options.seed}_{number}.pk"))
            with open(paths[-1], "w") as file:
                file.write(FAMILIES[family](options.seed, number))
        run_batch(paths, counts, options.keep, options.options.split())
        shutil.rmtree(os.path.join(work, "cache"), ignore_errors=True)
        for path in paths:
            os.remove(path)
        n += options.batch
    shutil.rmtree(work, ignore_errors=True)
    last = min(n, end) - 1
    print(f"{family}, seed {options.seed}, kernels {options.first} to {last}: " + ", ".join(f"{v} {k}" for k, v in counts.items()))
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, help="of each family (24)")
    parser.add_argument("--seconds", type=float, default=1e9, help="for each family")
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--keep", default=os.path.join(BUILD, "fuzz"))
    parser.add_argument("--options", default="", help="options of pkc test")
    parser.add_argument("--print", action="store_true", help="print the kernels, run nothing")
    options = parser.parse_args()
    families = options.family or list(FAMILIES)
    if options.count is None:
        options.count = 24 if options.print else most(24, 5, what="kernels of each family")
    if options.print:
        for family in families:
            for n in range(options.first, options.first + options.count):
                print(FAMILIES[family](options.seed, n))
        return 0
    os.makedirs(options.keep, exist_ok=True)
    counts = [run_family(family, options) for family in families]
    passed = sum(c["passed"] for c in counts)
    failed = sum(sum(c.values()) for c in counts) - passed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
