#!/usr/bin/env python3
"""Cells that are divided into parts for threads: the bits are those of one thread, and calls are actually divided.

Each kernel is called on several numbers of threads, with sizes that give parts no rows, one row and an odd number of rows. `pkc run` compares
each result with the reference; this suite compares the bits.

    tests/split_cells.py

Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sampling import sampled
from suite import PKC, ROOT, check, finish

THREADS = [2, 3, 5, 7, 16]
OWN = "tests/cases/structure/split.pk"
# File, words, outputs, cells on two threads.
CASES = [
    ("kernels/matmul.pk", "M=128 K=128 N=128", "c", 2),
    ("kernels/matmul.pk", "M=257 K=131 N=257", "c", 2),
    ("kernels/matmul.pk", "M=300 K=700 N=530", "c", 4),  # on 7 threads 256 rows and 44 rows are divided
    ("kernels/matmul.pk", "M=31 K=600 N=700", "c", 2),
    ("kernels/matmul.pk", "M=211 K=521 N=37", "c", 2),
    ("kernels/matmul.pk", "M=256 K=300 N=300 -D T=bf16", "c", 2),
    ("kernels/mlp.pk", "M=97 D=67 F=701", "o", 2),
    ("kernels/flash_attn.pk", "B=1 H=1 G=1 N=113 S=517", "o", 2),
    (OWN, "-k product M=61 K=257 N=601", "o top", 1),
    (OWN, "-k product M=64 K=64 N=1009", "o top", 2),
    (OWN, "-k product M=129 K=257 N=601", "o top", 6),
    (OWN, "-k planes B=7 M=31 N=1201", "o", 2),
    (OWN, "-k planes B=3 M=47 N=2003", "o", 2),
    (OWN, "-k summed B=3 M=47 N=4003", "o", 2),
]
# The same with the number of threads, and of the cells that run on them.
FEW = [
    (OWN, "-k planes B=1 M=32 N=8", "o", 2, 1),  # too little work
    (OWN, "-k planes B=3 M=32 N=9001", "o", 2, 2),  # at most the number of threads
    (OWN, "-k product M=576 K=64 N=300", "o", 2, 9),  # the shares are nearly equal
    ("kernels/matmul.pk", "M=300 K=700 N=530", "c", 3, 12),  # 44 rows; no part has 14
]


def run(folder, file, words, outputs, threads):
    """The bytes of the outputs, and the number of cells of the call."""
    paths = [folder / f"{name}.npy" for name in outputs]
    trace = folder / "trace.json"
    command = [PKC, "run", file, *words, "--threads", str(threads), "--no-tuning", "--quiet", f"--trace={trace}"]
    for name, path in zip(outputs, paths):
        command += ["-o", f"{name}={path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return None, 0, done.stdout + done.stderr
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    cells = sum("cell" in event.get("args", {}) for event in events)
    return [path.read_bytes() for path in paths], cells, ""


def check_cells(name, found, wanted):
    check(f"{name}, cells", found == wanted, f"{found} cells, expected {wanted}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for file, words, outputs, cells in sampled(CASES, 8, 4):
            words, outputs = words.split(), outputs.split()
            one, _, said = run(folder, file, words, outputs, 1)
            name = " ".join([file, *words])
            if not check(name, one, said):
                continue
            for threads in THREADS:
                bits, found, said = run(folder, file, words, outputs, threads)
                check(f"{name}, {threads} threads", bits == one, said or "other bits than on one thread")
                if threads == 2:
                    check_cells(name, found, cells)
        for file, words, outputs, threads, cells in FEW:
            one = run(folder, file, words.split(), outputs.split(), 1)[0]
            bits, found, said = run(folder, file, words.split(), outputs.split(), threads)
            check(f"{file} {words}", one is not None and bits == one, said or "other bits than on one thread")
            check_cells(f"{file} {words}", found, cells)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
