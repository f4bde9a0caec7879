#!/usr/bin/env python3
"""The benchmark calls compiled kernels as the runtime defines it: the ABI, operands whose sizes follow from others, a call."""
import ctypes
import os
import re
import subprocess
import sys

from suite import BUILD, PKC, ROOT, callable_kernels, check, finish

sys.path.insert(0, str(ROOT / "tests/bench"))
import numpy as np

import bench
import cases
import ours
import report


def call(kernel, arrays, dtypes):
    tensors = [ours.tensor(array, dtype) for array, dtype in zip(arrays, dtypes)]
    pointers = (ctypes.POINTER(ours.Tensor) * len(tensors))(*map(ctypes.pointer, tensors))
    return kernel.library.pk_call_kernel(kernel.context(1), ctypes.byref(kernel.description), pointers)


def gptq():
    kernel = ours.Kernel(ours.build_kernel(BUILD, "weights_gptq", {}), "weights_gptq")
    operands = list(kernel.operands({"M": 2, "N": 5, "K": 1}))
    shapes = [shape for _, _, shape, _ in operands]
    check("operands", shapes == [(2, 128), (16, 5), (1, 5), (1, 5), (2, 5)], shapes)
    a, w = np.ones((2, 128), np.float32), np.full((16, 5), 0x11111111, np.int32)
    scale, zero, c = np.full((1, 5), 2, np.float32), np.zeros((1, 5), np.float32), np.zeros((2, 5), np.float32)
    status = call(kernel, [a, w, scale, zero, c], [dtype for _, dtype, _, _ in operands])
    check("call", status == 0 and (c == 256).all(), f"status {status}, {c.ravel()}")


def dropout():
    """A call with operands of rank 0."""
    kernel = ours.Kernel(ours.build_kernel(BUILD, "train/dropout", {"RATE": 0.0}), "train/dropout")
    arrays = [np.ones((2, 3), np.float32), np.array(7, np.int32), np.array(3, np.int32), np.zeros((2, 3), np.float32)]
    status = call(kernel, arrays, [dtype for _, dtype, _, _ in kernel.operands({"M": 2, "N": 3})])
    check("a call with scalars", status == 0 and (arrays[3] == 1).all(), f"status {status}, {arrays[3].ravel()}")


abi = int(re.search(r"PK_ABI = (\d+)", (ROOT / "include/pk/rt.h").read_text()).group(1))
if check("ABI", ours.ABI == abi, f"rt.h says {abi}, tests/bench/ours.py {ours.ABI}: compare its structures with rt.h"):
    gptq()
    dropout()
for threads in 1, 2:
    found = bench.environment(bench.parse(["--no-amx", "--threads", str(threads)])) if threads <= len(os.sched_getaffinity(0)) else None
    check(f"environment of {threads} threads", not found or (found["OMP_NUM_THREADS"] == str(threads) and ("multi_thread_eigen=false" in found["XLA_FLAGS"]) == (threads == 1)), found)
    check(f"title on {threads} threads", report.title({"name": "add", "threads": threads}) == ("add" if threads == 1 else "add on 2 threads"))
sizes = {}
for case in cases.CASES:
    file, name = ours.kernel_file(case.kernel), ours.kernel_name(case.kernel)
    if (file, name) not in sizes:
        listed = subprocess.run([PKC, "complete", "--", "run", file, "-k", name, ""], stdout=subprocess.PIPE, universal_newlines=True).stdout
        sizes[file, name] = {line.split("=")[0] for line in listed.splitlines() if line.endswith("a size")}
    lacking = sizes[file, name] - {*case.sizes, *case.statics}
    check(f"sizes of {case.name}", not lacking, f"{case.kernel} has {', '.join(sorted(lacking))} too")
    check(case.name, ours.kernel_file(case.kernel).exists() and case.kernel in cases.KERNELS)
rows = {(ours.kernel_file(case.kernel), ours.kernel_name(case.kernel)) for case in cases.CASES}
for path in sorted((ROOT / "kernels").rglob("*.pk")):
    for name in callable_kernels(path.read_text()) if path.parent.name != "collectives" else []:
        check(f"a row of {path.relative_to(ROOT)}: {name}", (path, name) in rows)
sys.exit(finish())
