#!/usr/bin/env python3
"""Times of derived backward kernels (`pkc grad --kernel`), compared with jax.grad of the plain JAX function, jitted, both on one core.

    tests/bench/gradient_peers.py [NAME ..] [--write]    --write puts the table into docs/gradients.md

The two run alternately, and the shortest time of each counts. Needs JAX and `make python`.
"""
import argparse
import os
import re
import sys
import time

CORES = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, CORES[-1:])  # before JAX counts them
os.environ.update(JAX_PLATFORMS="cpu", PK_THREADS="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from suite import BUILD, ROOT  # noqa: E402
sys.path.insert(0, str(BUILD / "python"))

import jax  # noqa: E402
import numpy  # noqa: E402
import pkc  # noqa: E402

jnp = jax.numpy
PAGE = ROOT / "docs/gradients.md"
TURNS, SECONDS, LEAST = 25, 20.0, 7


# ---- the functions in plain JAX

def attention(q, k, v):
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v


def layernorm(x, w, b):
    centred = x - x.mean(1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * w + b


def rmsnorm(x, w):
    return x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-6) * w


def conv1d(x, w, bias):
    past = jnp.pad(x, ((0, 0), (w.shape[0] - 1, 0), (0, 0)))
    return sum(past[:, k:k + x.shape[1]] * w[k] for k in range(w.shape[0])) + bias


def cross_entropy(x, target):
    lse = jax.nn.logsumexp(x, axis=1, keepdims=True)
    return lse - jnp.take_along_axis(x, target, 1), lse


# By name: the file and name of the kernel, the function, the shapes of its operands (an integer has values below its bound), and their order
# in the kernel.
CASES = {
    "softmax": ("softmax.pk", "softmax", lambda x: jax.nn.softmax(x, axis=1), [(1024, 1024)]),
    "layernorm": ("layernorm.pk", "layernorm", layernorm, [(1024, 1024), (1024,), (1024,)]),
    "rmsnorm": ("rmsnorm.pk", "rmsnorm", rmsnorm, [(1024, 1024), (1024,)]),
    "gelu": ("gelu.pk", "gelu", jax.nn.gelu, [(1024, 1024)]),
    "glu": ("glu.pk", "glu", lambda a, b: jax.nn.silu(a) * b, [(1024, 1024), (1024, 1024)]),
    "cross_entropy": ("train/cross_entropy.pk", "cross_entropy", cross_entropy, [(512, 4096), ("i4", 4096, (512, 1))]),
    "embedding": ("embedding.pk", "embedding", lambda ids, table: table[ids], [("i4", 2048, (1024,)), (2048, 512)]),
    "conv1d": ("sequence/conv1d.pk", "conv1d", conv1d, [(2, 1024, 512), (4, 512), (512,)]),
    "matmul": ("matmul.pk", "matmul", jnp.matmul, [(512, 512), (512, 512)]),
    "swiglu": ("matmul/linear.pk", "swiglu", lambda x, gate, up: jax.nn.silu(x @ gate) * (x @ up), [(512, 512), (512, 512), (512, 512)]),
    "flash_attn": ("flash_attn.pk", "flash_attn", attention, [(1, 4, 1024, 64)] * 3),
}


def array(rng, given):
    if given[0] == "i4":
        return rng.integers(0, given[1], given[2]).astype("i4")
    return rng.standard_normal(given).astype("f4")


def spent(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def turns(ours, theirs):
    """The least seconds of each."""
    best, begun = [float("inf")] * 2, time.monotonic()
    for turn in range(TURNS):
        if turn >= LEAST and time.monotonic() - begun > SECONDS:
            break
        best = [min(a, spent(f)) for a, f in zip(best, (ours, theirs))]
    return best


def measured(path, name, plain, shapes):
    """Returns (sizes, seconds of the kernel, seconds of JAX)."""
    rng = numpy.random.default_rng(0)
    arrays = [array(rng, given) for given in shapes]
    floats = tuple(k for k, a in enumerate(arrays) if a.dtype == "f4")
    results = jax.tree.leaves(jax.eval_shape(plain, *arrays))
    given = [rng.standard_normal(r.shape).astype("f4") for r in results]
    kernel = pkc.grad(pkc.load(ROOT / "kernels" / path, name), blocks=True)

    def derivative(given, *a):
        _, back = jax.vjp(lambda *of: plain(*(of[floats.index(k)] if k in floats else a[k] for k in range(len(a)))), *(a[k] for k in floats))
        return back(jax.tree.unflatten(jax.tree.structure(jax.eval_shape(plain, *a)), given))
    jitted, on_device = jax.jit(derivative), [jnp.asarray(a) for a in arrays]
    given_there = [jnp.asarray(g) for g in given]
    found, wanted = kernel(*arrays, *given), jitted(given_there, *on_device)
    for a, b in zip(jax.tree.leaves(found), wanted, strict=True):
        numpy.testing.assert_allclose(numpy.asarray(a), numpy.asarray(b), rtol=1e-3, atol=1e-3 * float(abs(numpy.asarray(b)).max()))
    at = " ".join("x".join(map(str, a.shape)) for a in arrays)
    return (at, *turns(lambda: kernel(*arrays, *given), lambda: jax.block_until_ready(jitted(given_there, *on_device))))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", help="of CASES; by default all")
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    rows = ["| gradient of | operands | derived, ms | `jax.grad`, ms | times as fast |", "|---|---|---|---|---|"]
    for name in options.names or CASES:
        at, ours, theirs = measured(*CASES[name])
        rows.append("| `%s` | %s | %.2f | %.2f | %.2f |" % (name, at, ours * 1e3, theirs * 1e3, theirs / ours))
        print(rows[-1], flush=True)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        made = re.sub("(<!-- jax.grad -->\n).*?(<!-- end of jax.grad -->)", lambda m: m[1] + "\n".join(rows) + "\n" + m[2], text, flags=re.S)
        PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
