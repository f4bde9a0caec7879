#!/usr/bin/env python3
"""Kernels for many devices as C: the collectives against NumPy on 2, 3, 4 and 8 devices, with the same bits in each run, and the status
of a call in which a device fails; on threads and, if mpirun and libpkrt_mpi exist, on processes.

usage: devices.py; prints "N passed, N failed".
"""
import concurrent.futures
import os
import re
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


def together(cases, at_once=2):
    """Runs cases (name, function) in parallel. A function returns whether the case passed, and the message."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for (name, _), (good, said) in zip(cases, pool.map(lambda case: case[1](), cases)):
            check(name, good, said)


def launch(command, processes=0, timeout="60"):
    """The command, run by `processes` processes."""
    command = [*MPIRUN, str(processes), *command] if processes else command
    where = dict(os.environ, PK_DEVICE_TIMEOUT=timeout)
    return subprocess.run(command, capture_output=True, text=True, env=where)


def numbers(*shape):
    """Numbers whose sums are exact in any order."""
    return np.random.default_rng(7).integers(-64, 64, shape).astype(np.float32)


def run(path, arguments, operands, folder, processes=0):
    """Output o and the messages; on `processes` processes of MPI, or on threads if it is 0."""
    folder = tempfile.mkdtemp(dir=folder)
    result = os.path.join(folder, "o.npy")
    for name, array in operands.items():
        np.save(os.path.join(folder, name + ".npy"), array)
    given = [f"{name}={os.path.join(folder, name)}.npy" for name in operands]
    done = launch([PKC, "run", path, *given, "-o", f"o={result}", *arguments], processes)
    return (np.load(result) if done.returncode == 0 else None), done.stderr


def same(path, arguments, operands, folder, wanted, processes=0):
    """A case whose output o must equal `wanted` bit for bit."""
    def case():
        got, said = run(path, arguments, operands, folder, processes)
        return got is not None and np.array_equal(got, wanted), said

    return case


def close(path, arguments, operands, folder, wanted, **how):
    def case():
        got, said = run(path, arguments, operands, folder)
        return got is not None and np.allclose(got, wanted, **how), said

    return case


def collective(kernel):
    return os.path.join(COLLECTIVES, kernel + ".pk")


# kernel, x by the number of devices, the expected output
CASES = [
    ("all_gather", lambda d: numbers(5 * d, 7), lambda x, d: x),
    ("all_gather_both", lambda d: numbers(2 * d, 2, 5), lambda x, d: x),
    ("reduce_scatter", lambda d: numbers(d, 3 * d, 5), lambda x, d: x.sum(0)),
    ("reduce_scatter_both", lambda d: numbers(d, 2 * d, 2, 3), lambda x, d: x.sum(0)),
    ("all_reduce", lambda d: numbers(d, 2 * d, 9), lambda x, d: x.sum(0)),
    ("all_reduce_both", lambda d: numbers(d, 3 * d, 2, 3), lambda x, d: x.sum(0)),
    ("all_to_all", lambda d: numbers(2 * d, 3 * d), lambda x, d: x),
    ("all_to_all_ring", lambda d: numbers(3 * d, 2 * d), lambda x, d: x),
    ("all_to_all_both", lambda d: numbers(2 * d, 2 * d), lambda x, d: x),
    ("permute", lambda d: numbers(3 * d, 4), lambda x, d: np.roll(x, 3, axis=0)),
    ("permute_ring", lambda d: numbers(3 * d, 4), lambda x, d: np.roll(x, 3, axis=0)),
    ("permute_both", lambda d: numbers(3 * d, 4), lambda x, d: np.roll(x, 3, axis=0)),
    ("gradient_mean", lambda d: 12 * numbers(d, 70 * d), lambda x, d: x.sum(0) * np.float32(1 / d)),
]
COUNTS = (2, 3, 4, 8)
# The same on tori.
TORUS_CASES = [
    ("all_gather_torus", lambda y, x: numbers(2 * y * x, 3), lambda a: a),
    ("reduce_scatter_torus", lambda y, x: numbers(y * x, 3 * y * x, 2), lambda a: a.sum(0)),
    ("all_reduce_torus", lambda y, x: numbers(y * x, 2 * y * x, 3), lambda a: a.sum(0)),
    ("all_to_all_torus", lambda y, x: numbers(2 * y * x, 3 * y * x), lambda a: a),
]
TORI = ((1, 2), (3, 1), (2, 2), (2, 4), (4, 2))
# Products of whole numbers, which are exact: operands by the number of devices
PRODUCTS = [
    ("gather_matmul", lambda d: {"x": (4 * d, 5), "w": (5, 3 * d)}, lambda x, w: x @ w),
    ("matmul_scatter", lambda d: {"x": (2 * d, 3 * d), "w": (3 * d, 7)}, lambda x, w: x @ w),
    ("mlp", lambda d: {"x": (7, 5), "w1": (5, 3 * d), "w2": (3 * d, 5)}, lambda x, w1, w2: np.maximum(x @ w1, 0) @ w2),
]
# Functions of floats: operands, permitted difference.
ATTENTION = ("ring_attention", lambda d: {name: (3 * d, 16) for name in "qkv"}, 2e-6)
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


# The same on processes, whose number determines the extents of the mesh: kernel, processes, x, the expected output.
# Long rows exceed the size above which data is sent separately from the head of its message.
ON_PROCESSES = [
    ("all_gather", 2, lambda: numbers(4, 70000), lambda x: x),
    ("all_gather", 4, lambda: numbers(20, 7), lambda x: x),
    ("reduce_scatter", 4, lambda: numbers(4, 12, 5), lambda x: x.sum(0)),
    ("all_to_all", 4, lambda: numbers(8, 12), lambda x: x),
    ("all_to_all", 2, lambda: numbers(600, 514), lambda x: x),
    ("all_gather_both", 3, lambda: numbers(6, 2, 5), lambda x: x),
    ("all_gather_torus", 4, lambda: numbers(8, 3), lambda x: x),
    ("all_reduce", 2, lambda: numbers(2, 12, 9), lambda x: x.sum(0)),
    ("all_reduce_both", 4, lambda: numbers(4, 12, 2, 600), lambda x: x.sum(0)),
    ("all_reduce_torus", 4, lambda: numbers(4, 8, 5), lambda x: x.sum(0)),
    ("reduce_scatter_both", 4, lambda: numbers(4, 8, 2, 5), lambda x: x.sum(0)),
    ("reduce_scatter_torus", 4, lambda: numbers(4, 8, 5), lambda x: x.sum(0)),
    ("all_to_all_ring", 4, lambda: numbers(8, 12), lambda x: x),
    ("all_to_all_both", 2, lambda: numbers(8, 6), lambda x: x),
    ("all_to_all_torus", 4, lambda: numbers(80, 120), lambda x: x),
    ("permute_ring", 4, lambda: numbers(8, 12), lambda x: np.roll(x, 2, axis=0)),
    ("permute_both", 4, lambda: numbers(8, 12), lambda x: np.roll(x, 2, axis=0)),
    ("permute_torus", 4, lambda: numbers(8, 12), lambda x: np.roll(np.roll(x, 6, axis=1), 4, axis=0)),
    ("gradient_mean", 2, lambda: 2 * numbers(2, 300000), lambda x: x.sum(0) / 2),
]


def dispatched(x, to, devices, capacity):
    """The result of kernels/collectives/moe_dispatch.pk."""
    o = np.zeros((devices, devices, capacity, x.shape[1]), np.float32)
    n = np.zeros((devices, devices), np.int32)
    for t, other in enumerate(to):
        source = t // (len(to) // devices)
        if 0 <= other < devices and n[other, source] < capacity:
            o[other, source, n[other, source]] = x[t]
            n[other, source] += 1
    return o, n


def dispatch(d, folder):
    x, to = numbers(12 * d, 9), np.random.default_rng(5).integers(-1, d + 1, 12 * d).astype(np.int32)
    number = os.path.join(folder, f"n{d}.npy")
    got, said = run(collective("moe_dispatch"), ["--devices", str(d), "-o", f"n={number}"], {"x": x, "to": to}, folder)
    o, n = dispatched(x, to, d, 4)
    return got is not None and np.array_equal(got, o) and np.array_equal(np.load(number), n), said


def attention(q, k, v):
    e = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    return e / e.sum(axis=1, keepdims=True) @ v


def check_threads(folder):
    cases, random = [], np.random.default_rng(5)
    for d in COUNTS:
        devices = ["--devices", str(d)]
        for kernel, given, wanted in CASES:
            x = given(d)
            case = close(collective(kernel), devices, {"x": x}, folder, wanted(x, d), rtol=1e-6, atol=0)
            cases.append((f"{kernel} on {d} devices", case))
        for kernel, shapes, wanted in PRODUCTS:
            given = {name: numbers(*shape) for name, shape in shapes(d).items()}
            cases.append((f"{kernel} on {d} devices", same(collective(kernel), devices, given, folder, wanted(**given))))
        kernel, shapes, most = ATTENTION
        given = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes(d).items()}
        wanted = attention(**{name: array.astype(np.float64) for name, array in given.items()})
        cases.append((f"{kernel} on {d} devices", close(collective(kernel), devices, given, folder, wanted, rtol=0, atol=most)))
        cases.append((f"moe_dispatch on {d} devices", lambda d=d: dispatch(d, folder)))
    together(cases)


def check_tori(folder):
    cases = []
    for kernel, given, wanted in TORUS_CASES:
        for y, x in TORI:
            array = given(y, x)
            case = same(collective(kernel), ["--mesh", f"{y}x{x}"], {"x": array}, folder, wanted(array))
            cases.append((f"{kernel} on {y}x{x} devices", case))
    for y, x in ((2, 2), (2, 4)):
        array = numbers(3 * y, 2 * x)
        moved = np.roll(np.roll(array, 2 * (x - 1), axis=1), 3, axis=0)
        case = same(collective("permute_torus"), ["--mesh", f"{y}x{x}", f"SX={x - 1}"], {"x": array}, folder, moved)
        cases.append((f"permute_torus on {y}x{x} devices", case))
    together(cases)


def check_many(folder):
    """Many more devices than processors, each a thread."""
    cases = []
    for d, kernel in ((16, "all_gather"), (64, "all_to_all"), (256, "all_gather")):
        x = numbers(d, d if kernel == "all_to_all" else 3)
        cases.append((f"{kernel} on {d} devices", same(collective(kernel), ["--devices", str(d)], {"x": x}, folder, x)))
    together(cases)


def check_bits(folder):
    x = np.random.default_rng(3).standard_normal((4, 64, 33)).astype(np.float32)
    path = collective("all_reduce")
    results = [run(path, ["--devices", "4"], {"x": x}, folder)[0] for _ in range(4)]
    if has_mpi():
        results.append(run(path, [], {"x": x}, folder, 4)[0])
    check("all_reduce: other bits in another run", all(r is not None and r.tobytes() == results[0].tobytes() for r in results))


def check_pieces(folder):
    """One file for each device, for inputs and outputs."""
    path, pieces = collective("all_to_all"), os.path.join(folder, "p")
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


def refused(command, text, processes=0, timeout="60"):
    """A case that ends with this message, printed once."""
    def case():
        done = launch(command, processes, timeout)
        return done.returncode == 1 and done.stderr.count(text) == 1, f"status {done.returncode}, {done.stderr}"

    return case


def check_failures(asserts):
    faults = [(os.path.join(FAULTS, file), kernel, text) for file, kernel, text in MESSAGES] + [(asserts, "asserts", "not here, on device (d=2)")]
    together([(kernel, refused([PKC, "run", "-k", kernel, path, "M=8"], text)) for path, kernel, text in faults])


def check_orders():
    """`--orders`: all orders of the messages between devices if these are few, else the number that is given."""
    right, races = os.path.join(FAULTS, "right.pk"), os.path.join(FAULTS, "races.pk")
    for kernel, sizes in (("permute", ["M=2", "N=1"]), ("all_gather", ["M=4", "N=1"]), ("reduce_scatter", ["M=2", "N=1"])):
        done = launch([PKC, "check", collective(kernel), *sizes, "D=2", "--orders", "4000"])
        orders = re.search(r"no findings in .* in all (\d+) orders", done.stdout)
        check(f"{kernel} in all orders", orders and int(orders[1]) > 100, done.stdout + done.stderr)
    done = launch([PKC, "check", collective("all_to_all"), "M=256", "N=256", "D=256"])
    check("256 devices, in every order", "on 256 devices, in every order" in done.stdout, done.stdout + done.stderr)
    done = launch([PKC, "check", "-k", "credits", right, "M=4", "D=2", "--orders", "300"])
    check("more orders than are wanted", "no findings in 2 grid steps on 2 devices, in 300 orders" in done.stdout, done.stdout + done.stderr)
    done = launch([PKC, "check", "-k", "no_credit", races, "M=16", "--orders", "200"])
    check("a race in one of the orders", done.returncode == 3 and "written by this copy on device" in done.stderr + done.stdout, done.stderr)


def has_mpi():
    return shutil.which("mpirun") is not None and (BUILD / "libpkrt_mpi.so").exists()


def check_processes(folder, asserts):
    cases = []
    for kernel, d, given, wanted in ON_PROCESSES:
        x = given()
        cases.append((f"{kernel} on {d} processes", same(collective(kernel), [], {"x": x}, folder, wanted(x), d)))
    refusals = [
        ("a device that fails", ["-k", "asserts", asserts, "M=8"], 4, "not here, on device (d=2)"),
        ("a mesh of another size", ["-k", "asserts", asserts, "M=8"], 2, "the mesh is 4, not of 2 devices"),
        ("a wait that nothing ends", ["-k", "one_skips", os.path.join(FAULTS, "semaphores.pk"), "M=8"], 4, "that nothing brings, on device (d=3)"),
        ("a kernel without a mesh", [os.path.join(ROOT, "kernels", "add.pk"), "M=8", "N=8"], 2, "`add` has no mesh and runs on one device, not on 2 devices"),
    ]
    for what, command, processes, text in refusals:
        cases.append((f"{what}, on processes", refused([PKC, "run", *command], text, processes, timeout="1")))
    together(cases, 1)  # several mpirun at the same time disturb each other


# Windows with strides that reach past both ends and are moved by n; short ones are sent within the head of the message, long ones separately.
WINDOWS = """
kernel windows(x: f32[2, M] shard (d, _), n: i32) -> (o: f32[2, M] shard (d, _)) {
  mesh (d: 2);
  scratch b: vmem f32[M], sent: sem dma, arrived: sem dma[2];
  block x: any;
  b[...] = 7;
  barrier();
  let first = remote_copy(x[0, ds(n, M / 2)] -> b[ds(n - 2, M / 2)], send = sent, recv = arrived[0], device = (d = 1 - device(d)));
  first.start();
  first.wait();
  barrier();
  let second = remote_copy(x[0, ds(n, M / 4, 2)] -> b[ds(1 - n, M / 4, 3)], send = sent, recv = arrived[1], device = (d = 1 - device(d)));
  second.start();
  second.wait();
  o[0, :] = b[...];
}
"""


def check_windows(folder):
    path = os.path.join(folder, "windows.pk")
    with open(path, "w", encoding="utf-8") as f:
        f.write(WINDOWS)
    for m, n, moved in ((16, -3, True), (16, 5, True), (16, 2**31 - 1, False), (40000, 5, True)):
        given = {"x": numbers(2, m), "n": np.array(n, np.int32)}
        wanted, said = run(path, [], given, folder)
        right = wanted is not None and (wanted != 7).any() == moved
        check(f"windows at {n} of {m} on processes", right and np.array_equal(run(path, [], given, folder, 2)[0], wanted), said)


def check_views():
    """Copies of views on processes: the target has the strides of the other device's array."""
    path = os.path.join(FAULTS, "views.pk")
    for kernel, sizes in (("to_hbm", ["M=8", "at=const:3"]), ("to_scratch", ["at=const:5"]), ("words", ["at=const:1"]),
                          ("words_to_hbm", ["at=const:2"]), ("nibbles", ["at=const:3"])):
        done = launch([PKC, "run", "-k", kernel, path, *sizes], 2)
        check(f"{kernel} on processes", done.returncode == 0 and "equal to the reference" in done.stdout, done.stdout + done.stderr)


def check_programs(folder):
    """Programs on processes, whose arrays stay divided between calls."""
    path = os.path.join(FAULTS, "programs.pk")
    given = {"x": numbers(8, 5), "w1": numbers(5, 12), "w2": numbers(12, 5)}
    wanted = np.maximum(given["x"] @ given["w1"], 0) @ given["w2"]
    cases = [(f"program two_layers on {d} processes", same(path, ["-k", "two_layers"], given, folder, wanted, d)) for d in (2, 4)]
    x, b, n = numbers(8, 300), numbers(3, 8, 300), np.array([3, -1, 2], np.int32)
    wanted = np.roll(x, 2, axis=0)
    for row in b:
        wanted = np.roll(wanted, 2, axis=0) + row
    cases.append(("program steps on 4 processes", same(path, ["-k", "steps"], {"x": x, "b": b}, folder, wanted + x, 4)))
    wanted = np.roll(x, 2 * (2 + n.sum()), axis=0)
    cases.append(("program around on 4 processes", same(path, ["-k", "around"], {"x": x, "n": n}, folder, wanted, 4)))
    together(cases, 1)


def check_calls(folder):
    """A C program that passes parts: tests/mpi/calls.c."""
    kernel = os.path.join(folder, "all_gather.c")
    program = os.path.join(folder, "calls")
    subprocess.run([PKC, collective("all_gather"), "-D", "D=2", "-o", kernel], check=True)
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
        check_tori(folder)
        check_many(folder)
        check_bits(folder)
        check_pieces(folder)
        check_failures(asserts)
        check_orders()
        if has_mpi():
            check_processes(folder, asserts)
            check_windows(folder)
            check_views()
            check_programs(folder)
            check_calls(folder)
        else:
            print("SKIPPED devices, on processes: mpirun or libpkrt_mpi.so is not here")
    return finish()


sys.exit(main())
