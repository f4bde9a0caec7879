#!/usr/bin/env python3
"""Kernels for many devices as C: the collectives against NumPy on 2, 3, 4 and 8 devices, the same bits every time, and what a
device that fails ends the call with.

usage: devices.py; prints "N passed, N failed".
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PKC = os.environ.get("PKC", os.path.join(ROOT, os.environ.get("BUILD", "build"), "pkc"))
COLLECTIVES = os.path.join(ROOT, "kernels", "collectives")
FAULTS = os.path.join(ROOT, "tests", "cases", "mesh")
passed = failed = 0


def judge(good, what, said=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL devices: {what}: {said}; reproduce: tests/devices.py", flush=True)


def numbers(*shape):
    """Sums of these are exact in any order."""
    return np.random.default_rng(7).integers(-64, 64, shape).astype(np.float32)


def run(path, arguments, operands, folder):
    result = os.path.join(folder, "o.npy")
    for name, array in operands.items():
        np.save(os.path.join(folder, name + ".npy"), array)
    given = [f"{name}={os.path.join(folder, name)}.npy" for name in operands]
    done = subprocess.run([PKC, "run", path, *given, "-o", f"o={result}", *arguments], capture_output=True, text=True)
    return (np.load(result) if done.returncode == 0 else None), done.stderr


# kernel, numbers of devices, x for so many of them, what comes out
CASES = [
    ("all_gather", (2, 3, 4, 8), lambda d: numbers(5 * d, 7), lambda x, d: x),
    ("reduce_scatter", (2, 3, 4, 8), lambda d: numbers(d, 3 * d, 5), lambda x, d: x.sum(0)),
    ("all_reduce", (2, 3, 4, 8), lambda d: numbers(d, 2 * d, 9), lambda x, d: x.sum(0)),
    ("all_to_all", (3, 8), lambda d: numbers(2 * d, 3 * d), lambda x, d: x),
    ("permute", (2, 4), lambda d: numbers(3 * d, 4), lambda x, d: np.roll(x, 3, axis=0)),
    ("all_gather_both", (3,), lambda d: numbers(2 * d, 2, 5), lambda x, d: x),
]
# Products of whole numbers, which are exact: devices, operands
PRODUCTS = [
    ("gather_matmul", 3, {"x": (12, 5), "w": (5, 9)}, lambda x, w: x @ w),
    ("matmul_scatter", 4, {"x": (8, 12), "w": (12, 7)}, lambda x, w: x @ w),
    ("mlp", 3, {"x": (7, 5), "w1": (5, 9), "w2": (9, 5)}, lambda x, w1, w2: np.maximum(x @ w1, 0) @ w2),
]
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


def main():
    with tempfile.TemporaryDirectory() as folder:
        for kernel, counts, given, wanted in CASES:
            for d in counts:
                x = given(d)
                got, said = run(os.path.join(COLLECTIVES, kernel + ".pk"), ["--devices", str(d)], {"x": x}, folder)
                judge(got is not None and np.array_equal(got, wanted(x, d)), f"{kernel} on {d} devices", said)
        for kernel, d, shapes, wanted in PRODUCTS:
            given = {name: numbers(*shape) for name, shape in shapes.items()}
            got, said = run(os.path.join(COLLECTIVES, kernel + ".pk"), ["--devices", str(d)], given, folder)
            judge(got is not None and np.array_equal(got, wanted(**given)), f"{kernel} on {d} devices", said)
        x = np.random.default_rng(3).standard_normal((8, 64, 33)).astype(np.float32)
        path = os.path.join(COLLECTIVES, "all_reduce.pk")
        results = [run(path, ["--devices", "8"], {"x": x}, folder)[0] for _ in range(4)]
        judge(all(r is not None and r.tobytes() == results[0].tobytes() for r in results), "all_reduce: other bits in another run")
        asserts = os.path.join(folder, "asserts.pk")
        with open(asserts, "w", encoding="utf-8") as f:
            f.write(ASSERTS)
        faults = [(os.path.join(FAULTS, file), kernel, text) for file, kernel, text in MESSAGES]
        for path, kernel, text in faults + [(asserts, "asserts", "not here, on device (d=2)")]:
            done = subprocess.run([PKC, "run", "-k", kernel, path, "M=8"], capture_output=True, text=True)
            judge(done.returncode == 1 and text in done.stderr, kernel, f"status {done.returncode}, {done.stderr.strip()}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
