#!/usr/bin/env python3
"""Kernels for many devices as C: the collectives against NumPy on 2, 3, 4 and 8 devices, the same bits every time, and what a
device that fails ends the call with; on threads and, where mpirun and libpkrt_mpi are, on processes.

usage: devices.py; prints "N passed, N failed".
"""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from suite import BUILD, PKC, ROOT, check, finish

COLLECTIVES = os.path.join(ROOT, "kernels", "collectives")
FAULTS = os.path.join(ROOT, "tests", "cases", "mesh")
MPIRUN = ["mpirun", "--oversubscribe", "-n"]
if hasattr(os, "geteuid") and os.geteuid() == 0:
    MPIRUN.insert(1, "--allow-run-as-root")


def launch(command, processes=0, timeout="60"):
    """The command, or so many processes of it."""
    where = dict(os.environ, PK_DEVICE_TIMEOUT=timeout)
    command = [*MPIRUN, str(processes), *command] if processes else command
    return subprocess.run(command, capture_output=True, text=True, env=where)


def numbers(*shape):
    """Sums of these are exact in any order."""
    return np.random.default_rng(7).integers(-64, 64, shape).astype(np.float32)


def run(path, arguments, operands, folder, processes=0):
    """Output o and what was said; on so many processes of MPI, 0: on threads."""
    result = os.path.join(folder, "o.npy")
    for name, array in operands.items():
        np.save(os.path.join(folder, name + ".npy"), array)
    given = [f"{name}={os.path.join(folder, name)}.npy" for name in operands]
    done = launch([PKC, "run", path, *given, "-o", f"o={result}", *arguments], processes)
    return (np.load(result) if done.returncode == 0 else None), done.stderr


# kernel, numbers of devices, x for so many of them, what comes out
CASES = [
    ("all_gather", (2, 3, 4, 8), lambda d: numbers(5 * d, 7), lambda x, d: x),
    ("reduce_scatter", (2, 3, 4, 8), lambda d: numbers(d, 3 * d, 5), lambda x, d: x.sum(0)),
    ("all_reduce", (2, 3, 4, 8), lambda d: numbers(d, 2 * d, 9), lambda x, d: x.sum(0)),
    ("all_to_all", (3, 8), lambda d: numbers(2 * d, 3 * d), lambda x, d: x),
    ("permute", (2, 4), lambda d: numbers(3 * d, 4), lambda x, d: np.roll(x, 3, axis=0)),
    ("gradient_mean", (2, 4), lambda d: 4 * numbers(d, 70 * d), lambda x, d: x.sum(0) / d),
    ("all_gather_both", (3,), lambda d: numbers(2 * d, 2, 5), lambda x, d: x),
]
# Products of whole numbers, which are exact: devices, operands
PRODUCTS = [
    ("gather_matmul", 3, {"x": (12, 5), "w": (5, 9)}, lambda x, w: x @ w),
    ("matmul_scatter", 4, {"x": (8, 12), "w": (12, 7)}, lambda x, w: x @ w),
    ("mlp", 3, {"x": (7, 5), "w1": (5, 9), "w2": (9, 5)}, lambda x, w1, w2: np.maximum(x @ w1, 0) @ w2),
]
# Functions of floats: devices, operands, settings, greatest difference.
ATTENTION = ("ring_attention", 4, {"q": (12, 16), "k": (12, 16), "v": (12, 16)}, 2e-6)
MESSAGES = [
    ("semaphores.pk", "all_wait", "waits for signals on `ready` that nothing brings, on device (d=0)"),
    ("semaphores.pk", "one_skips", "waits for bytes on `arrived` that nothing brings, on device (d=3)"),
    ("semaphores.pk", "one_is_gone", "waits for signals on `barrier` that nothing brings, on device (d=2)"),
    ("semaphores.pk", "wrong_direction", "on `ready` that nothing brings, on device (dx=0, dy=1)"),
    ("places.pk", "right_end", "line 14 names a device outside the mesh, on device (d=3)"),
    ("places.pk", "other_axis", "names a device outside the mesh, on device (dx=2, dy=0)"),
]
ASSERTS = """
kernel asserts(x: f32[M] shard (d)) -> (o: f32[M] shard (d)) {
  mesh (d: 4);
  assert(device(d) != 2, "not here");
  barrier();
  o[...] = x[...];
}
"""


# The same on processes, where the extents of the mesh follow from their number: kernel, processes, x, what comes out.
# Long rows go past the size at which data is sent apart from what is said of it.
ON_PROCESSES = [
    ("all_gather", 2, lambda: numbers(4, 70000), lambda x: x),
    ("all_gather", 4, lambda: numbers(20, 7), lambda x: x),
    ("reduce_scatter", 4, lambda: numbers(4, 12, 5), lambda x: x.sum(0)),
    ("all_to_all", 4, lambda: numbers(8, 12), lambda x: x),
    ("all_to_all", 2, lambda: numbers(600, 514), lambda x: x),
    ("all_gather_both", 3, lambda: numbers(6, 2, 5), lambda x: x),
    ("all_gather_torus", 4, lambda: numbers(8, 3), lambda x: x),
    ("gradient_mean", 2, lambda: 2 * numbers(2, 300000), lambda x: x.sum(0) / 2),
]


def dispatched(x, to, devices, capacity):
    """What kernels/collectives/moe_dispatch.pk computes."""
    o = np.zeros((devices, devices, capacity, x.shape[1]), np.float32)
    n = np.zeros((devices, devices), np.int32)
    for t, other in enumerate(to):
        source = t // (len(to) // devices)
        if 0 <= other < devices and n[other, source] < capacity:
            o[other, source, n[other, source]] = x[t]
            n[other, source] += 1
    return o, n


def check_dispatch(folder):
    x, to = numbers(48, 9), np.random.default_rng(5).integers(-1, 5, 48).astype(np.int32)
    path = os.path.join(COLLECTIVES, "moe_dispatch.pk")
    got, said = run(path, ["-o", f"n={folder}/n.npy"], {"x": x, "to": to}, folder)
    o, n = dispatched(x, to, 4, 4)
    check("moe_dispatch", got is not None and np.array_equal(got, o) and np.array_equal(np.load(f"{folder}/n.npy"), n), said)


def check_threads(folder):
    for kernel, counts, given, wanted in CASES:
        for d in counts:
            x = given(d)
            got, said = run(os.path.join(COLLECTIVES, kernel + ".pk"), ["--devices", str(d)], {"x": x}, folder)
            check(f"{kernel} on {d} devices", got is not None and np.array_equal(got, wanted(x, d)), said)
    for kernel, d, shapes, wanted in PRODUCTS:
        given = {name: numbers(*shape) for name, shape in shapes.items()}
        got, said = run(os.path.join(COLLECTIVES, kernel + ".pk"), ["--devices", str(d)], given, folder)
        check(f"{kernel} on {d} devices", got is not None and np.array_equal(got, wanted(**given)), said)


def attention(q, k, v):
    e = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return e / e.sum(axis=1, keepdims=True) @ v


def check_attention(folder):
    kernel, d, shapes, most = ATTENTION
    random = np.random.default_rng(5)
    given = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    got, said = run(os.path.join(COLLECTIVES, kernel + ".pk"), ["--devices", str(d)], given, folder)
    wanted = attention(**{name: array.astype(np.float64) for name, array in given.items()})
    check(f"{kernel} on {d} devices", got is not None and np.abs(got - wanted).max() < most, said)


def check_bits(folder):
    x = np.random.default_rng(3).standard_normal((4, 64, 33)).astype(np.float32)
    path = os.path.join(COLLECTIVES, "all_reduce.pk")
    results = [run(path, ["--devices", "4"], {"x": x}, folder)[0] for _ in range(4)]
    if has_mpi():
        results.append(run(path, [], {"x": x}, folder, 4)[0])
    check("all_reduce: other bits in another run", all(r is not None and r.tobytes() == results[0].tobytes() for r in results))


def check_pieces(folder):
    """A file a device, in and out."""
    path, pieces = os.path.join(COLLECTIVES, "all_to_all.pk"), os.path.join(folder, "p")
    x = numbers(8, 12)
    os.mkdir(pieces)
    for d, part in enumerate(np.split(x, 4, axis=0)):
        np.save(f"{pieces}/x.{d}.npy", part)
    command = [PKC, "run", path, f"x={pieces}/x.{{device}}.npy", "-o", f"o={pieces}/o.{{device}}.npy"]
    done = launch(command)
    parts = [np.load(f"{pieces}/o.{d}.npy") for d in range(4)] if done.returncode == 0 else [x]
    check("a file a device", np.array_equal(np.concatenate(parts, axis=1), x) and parts[0].shape == (8, 3), done.stderr)
    np.save(f"{pieces}/x.2.npy", x)
    done = launch(command)
    check("a device's file of another shape", done.returncode == 1 and "x.2.npy: expected the dtype and shape" in done.stderr, done.stderr)
    os.remove(f"{pieces}/x.2.npy")
    done = launch(command)
    check("a device's file that is missing", done.returncode == 1 and "x.2.npy: No such file" in done.stderr, done.stderr)
    done = launch([PKC, "run", os.path.join(ROOT, "kernels", "add.pk"), f"x={pieces}/x.{{device}}.npy"])
    check("devices of a kernel without a mesh", done.returncode == 1 and "a kernel without a mesh has no devices" in done.stderr, done.stderr)


def check_failures(asserts):
    faults = [(os.path.join(FAULTS, file), kernel, text) for file, kernel, text in MESSAGES] + [(asserts, "asserts", "not here, on device (d=2)")]
    for path, kernel, text in faults:
        done = launch([PKC, "run", "-k", kernel, path, "M=8"])
        check(kernel, done.returncode == 1 and text in done.stderr, f"status {done.returncode}, {done.stderr.strip()}")


def has_mpi():
    return shutil.which("mpirun") is not None and (BUILD / "libpkrt_mpi.so").exists()


def check_processes(folder, asserts):
    for kernel, d, given, wanted in ON_PROCESSES:
        x = given()
        got, said = run(os.path.join(COLLECTIVES, kernel + ".pk"), [], {"x": x}, folder, d)
        check(f"{kernel} on {d} processes", got is not None and np.array_equal(got, wanted(x)), said)
    refusals = [
        ("a device that fails", ["-k", "asserts", asserts, "M=8"], 4, "not here, on device (d=2)"),
        ("a mesh of another size", ["-k", "asserts", asserts, "M=8"], 2, "the mesh is 4, not of 2 devices"),
        ("a wait that nothing ends", ["-k", "one_skips", os.path.join(FAULTS, "semaphores.pk"), "M=8"], 4, "waits for bytes on `arrived`"),
        ("a kernel without a mesh", [os.path.join(ROOT, "kernels", "add.pk"), "M=8", "N=8"], 2, "the mesh is none, not of 2 devices"),
    ]
    for what, command, processes, text in refusals:
        done = launch([PKC, "run", *command], processes, timeout="1")
        check(f"{what}, on processes", done.returncode != 0 and done.stderr.count(text) == 1, done.stderr)


def check_calls(folder):
    """A C program that passes parts: tests/mpi/calls.c."""
    kernel = os.path.join(folder, "all_gather.c")
    program = os.path.join(folder, "calls")
    subprocess.run([PKC, os.path.join(COLLECTIVES, "all_gather.pk"), "-D", "D=2", "-o", kernel], check=True)
    built = subprocess.run(
        ["mpicc", "-std=c11", "-O1", "-Wall", "-Wextra", "-march=native", "-ffp-contract=off", f"-I{ROOT}/include", f"-I{folder}",
         os.path.join(ROOT, "tests", "mpi", "calls.c"), kernel, f"-L{BUILD}", "-lpkrt_mpi", "-l:libpkrt.a", "-lm", "-pthread",
         f"-Wl,-rpath,{BUILD}", "-o", program], capture_output=True, text=True)
    if not check("tests/mpi/calls.c compiles", built.returncode == 0, built.stderr):
        return
    done = launch([program], 2)
    for line in done.stdout.splitlines():
        check(f"calls.c: {line}", line.startswith("ok "))
    check("calls.c says how it ended", done.returncode == 0 and "ok all" in done.stdout, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        asserts = os.path.join(folder, "asserts.pk")
        with open(asserts, "w", encoding="utf-8") as f:
            f.write(ASSERTS)
        check_threads(folder)
        check_dispatch(folder)
        check_attention(folder)
        check_bits(folder)
        check_pieces(folder)
        check_failures(asserts)
        if has_mpi():
            check_processes(folder, asserts)
            check_calls(folder)
        else:
            print("SKIPPED devices, on processes: mpirun or libpkrt_mpi.so is not here")
    return finish()


sys.exit(main())
