"""The process that measures cells for matrix.py: it reads each as a line of JSON on standard input, and answers with a line on standard output."""

import ctypes
import json
import os
import sys
import time

import numpy as np

import measure
import ours

SAMPLE_SECONDS = 5e-4  # shorter calls are timed several at a time
LEAST_ROUNDS = 3
NARROW = {"f8e4m3fn": 0.07, "bf16": 0.01, "f16": 2e-3}  # permitted difference of results, relative to the largest value


def values_of(dtype, shape, span, cell, seed):
    """Random numbers of a dtype; floats lie between 0.1 and 0.9 by default."""
    random = np.random.default_rng(seed)
    extents, axis = cell["extents"], cell["axis"]
    if span and span[1] == "order":
        return random.permutation(shape[0]).astype(np.int32)
    if span and isinstance(span[1], str):
        span = (0, {"extent": extents[axis or 0], "rows": extents[0] * extents[1], "C": extents[2]}[span[1]])
    array = measure.empty(shape, dtype)
    if dtype[0] in "iu":
        array[...] = random.integers(*(span or (1, 100)), shape)
    elif dtype == "bool":
        array[...] = random.integers(0, 2, shape)
    else:
        floats = random.random(shape, np.float32) * np.float32((span or (0.1, 0.9))[1] - (span or (0.1, 0.9))[0]) + np.float32((span or (0.1, 0.9))[0])
        array[...] = measure.to_bf16(floats) if dtype == "bf16" else random.integers(0x28, 0x40, shape) if dtype == "f8e4m3fn" else floats
    return array


class Kernel:
    """A kernel of a shared object, called as measure.py calls those of the library."""

    def __init__(self, library, cell, native):
        self.kernel = ours.Kernel(library, cell["kernel"])
        arrays = [values_of(dtype, shape, cell["data"].get(name), cell, n) for n, (name, dtype, shape) in enumerate(cell["inputs"])]
        self.inputs, self.out = arrays, measure.empty(tuple(cell["result"][2]), cell["result"][1])
        dtypes = [dtype for _, dtype, _ in [*cell["inputs"], cell["result"]]]
        self.call = self.kernel.caller(native, [*arrays, self.out], dtypes)


def jax_call(cell, inputs):
    import jax
    import peers.jax as peer

    jax.config.update("jax_enable_x64", "64" in cell["dtype"] or "64" in cell["result"][1])
    names = {"jax": jax, "jnp": peer.jnp, "lax": jax.lax}
    arrays = [peer.device_array(a, dtype) for a, (_, dtype, _) in zip(inputs, cell["inputs"])]
    compute = eval(f"lambda {', '.join(name for name, _, _ in cell['inputs'])}: {cell['jax']}", names)
    run = jax.jit(compute)
    return lambda: run(*arrays).block_until_ready()


def torch_call(cell, inputs):
    import torch

    kind = {"bf16": torch.bfloat16, "f8e4m3fn": torch.float8_e4m3fn}
    arrays = [torch.from_numpy(a).view(kind[dtype]) if dtype in kind else torch.from_numpy(a) for a, (_, dtype, _) in zip(inputs, cell["inputs"])]
    compute = eval(f"lambda {', '.join(name for name, _, _ in cell['inputs'])}: {cell['torch']}", {"torch": torch})
    out = compute(*arrays)
    if out.dtype != arrays[0].dtype and out.dtype != torch.bool:
        raise TypeError("computes in another dtype")
    return lambda: compute(*arrays)


def as_numbers(array, dtype):
    if dtype == "bf16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype == "f8e4m3fn":
        import ml_dtypes
        return array.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    return array.astype(np.float64)


def difference(cell, out, other):
    """The difference of results, or None if they agree; random numbers of another generator are not compared."""
    dtype = cell["result"][1]
    other = np.asarray(other)
    if not cell["inputs"]:
        return None
    mine, theirs = as_numbers(out, dtype), as_numbers(other.reshape(out.shape) if other.size == out.size else other, dtype)
    if mine.shape != theirs.shape:
        return f"shape {theirs.shape}"
    room = NARROW.get(dtype, NARROW.get(cell["dtype"], 1e-3)) * max(1e-30, float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)))
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(mine - theirs) <= room) | (mine == theirs) | (np.isnan(mine) & np.isnan(theirs)))
    return float(f"{np.abs(mine - theirs)[wrong].max():.3g}") if wrong.any() else None


def repeats_of(call):
    begun = time.perf_counter()
    call()
    return max(1, min(1000, int(SAMPLE_SECONDS / max(time.perf_counter() - begun, 1e-7))))


def best_times(calls, seconds):
    """The least microseconds of each, measured alternately."""
    repeats = {}
    for name, call in calls.items():
        call()
        repeats[name] = repeats_of(call)
    best, end, rounds = dict.fromkeys(calls, float("inf")), time.perf_counter() + seconds, 0
    while rounds < LEAST_ROUNDS or time.perf_counter() < end:
        for name, call in calls.items():
            call()
            best[name] = min(best[name], measure.sample(call, repeats[name])[0] * 1e3)
        rounds += 1
    return {name: round(us, 3) for name, us in best.items()}


RATES = {}


def bound(cell, native):
    """The least possible times in us: for the bytes of the operands at the rate of copies, for the operations at the f32 rate."""
    size = 1 << max(cell["bytes"] - 1, 4095).bit_length()
    if size not in RATES:
        RATES[size] = native.bench_memory_rate(size, 1)
    if "operations" not in RATES:
        RATES["operations"] = native.bench_f32_rate()
    return {"bytes": round(cell["bytes"] / RATES[size] * 1e-3, 3), "operations": round(cell["work"] / RATES["operations"] * 1e-3, 3)}


def answer(library, native, cell, names, seconds):
    kernel, row = Kernel(library, cell, native), {}
    kernel.call()
    calls, failed = {"ours": kernel.call}, {}
    makers = {"jax": jax_call, "torch": torch_call}
    for name in names:
        if not cell[name]:
            continue
        try:
            calls[name] = makers[name](cell, kernel.inputs)
            if name == "jax" and (found := difference(cell, kernel.out, calls[name]())) is not None:
                row["differs"] = found
        except Exception as error:  # a peer may lack the operation, or be missing
            failed[name] = f"{type(error).__name__}: {error}"[:160]
    row |= best_times(calls, seconds)
    return {**row, "bound": bound(cell, native), **({"failed": failed} if failed else {})}


def main(native_path, seconds, *names):
    out = os.dup(1)
    os.dup2(2, 1)  # the output of peers must not mix with the answers
    native = ctypes.CDLL(native_path)
    for name in ("bench_f32_rate", "bench_memory_rate"):
        getattr(native, name).restype = ctypes.c_double
    native.bench_memory_rate.argtypes = [ctypes.c_int64, ctypes.c_int]
    for line in sys.stdin:
        cell = json.loads(line)
        try:
            found = answer(cell["library"], native, cell, [name for name in names if name != "none"], float(seconds))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        os.write(out, (json.dumps(found) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
