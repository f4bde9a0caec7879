#!/usr/bin/env python3
"""Times remote copies between two processes against MPI's put, MPI's send and memcpy, an all-reduce against those of MPI and gloo, and a
product whose left operand is gathered while it is used against one whose operand is gathered first.

usage: devices.py [--json FILE]; needs mpicc and mpirun, and torch for gloo. Two idle cores are required, because a waiting process spins.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
HERE = ROOT / "tests" / "bench" / "devices"
KERNELS = [HERE / "exchange.pk", *(ROOT / "kernels/collectives" / f"{name}.pk" for name in ("gradient_mean", "gather_matmul")),
           ROOT / "tests/tpu/gather_then_matmul.pk"]
# Tables: one exchange of this number of bytes, one all-reduce, one product with this number of columns (bytes / 4).
EXCHANGES = ("remote_copy", "MPI_Put", "put_and_message", "MPI_Sendrecv", "persistent_send", "memcpy")
TABLES = [EXCHANGES, ("gradient_mean", "MPI_Allreduce", "gloo"), ("gather_matmul", "gather_then_matmul")]
GLOO = """
import os, sys, time, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29551")
torch.set_num_threads(1)
rank = int(sys.argv[1])
dist.init_process_group("gloo", rank=rank, world_size=2)
for count in (1 << 14, 1 << 19, 1 << 24):
    x = torch.ones(count)
    best = 1e30
    for _ in range(8):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        best = min(best, time.perf_counter() - start)
    if rank == 0:
        print("gloo", 4 * count, f"{best:.9f}")
"""


def build(folder):
    sources = []
    for kernel in KERNELS:
        sources.append(f"{folder}/{kernel.stem}.c")
        subprocess.run([BUILD / "pkc", kernel, *([] if kernel.parent == HERE else ["-D", "D=2"]), "-o", sources[-1]], check=True)
    subprocess.run(["mpicc", "-std=c11", "-O2", "-march=native", "-ffp-contract=off", f"-I{ROOT}/include", f"-I{folder}", HERE / "bench.c",
                    *sources, f"-L{BUILD}", "-lpkrt_mpi", "-l:libpkrt.a", "-lm", "-pthread",
                    f"-Wl,-rpath,{BUILD}", "-o", f"{folder}/bench"], check=True)


def lines_of(text):
    return [(name, int(count), float(seconds)) for name, count, seconds in (line.split() for line in text.splitlines())]


def by_mpi(folder):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    done = subprocess.run(["mpirun", *root, "--bind-to", "core", "-n", "2", f"{folder}/bench"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return lines_of(done.stdout)


def by_gloo(python):
    try:
        subprocess.run([python, "-c", "import torch"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("gloo is left out: no torch")
        return []
    ranks = [subprocess.Popen([python, "-c", GLOO, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    return lines_of(ranks[0].communicate()[0]) if [r.wait() for r in ranks[1:]] == [0] else []


def table(rows):
    names = list(dict.fromkeys(name for name, _, _ in rows))
    print("| bytes | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for count in sorted({count for _, count, _ in rows}):
        cells = [next((f"{s * 1e6:.4g}" for n, c, s in rows if n == name and c == count), "") for name in names]
        print(f"| {count} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="write the figures there")
    parser.add_argument("--torch", default=sys.executable, help="a Python that has torch")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build(folder)
        rows = by_mpi(folder) + by_gloo(given.torch)
    print("microseconds, the best of some samples: one exchange, one all-reduce, one product")
    for names in TABLES:
        print()
        table([row for row in rows if row[0] in names])
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(rows), encoding="utf-8")


main()
