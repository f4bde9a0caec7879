#!/usr/bin/env python3
"""Kernels that JAX ships: compiled, in both of JAX's interpreters, and XLA's code for the same function; milliseconds, the best call.

    interpreted.py [WORD ..]     only kernels whose names have one of the words
"""
import functools
import importlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import config
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu.matmul import matmul
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm, tgmm
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask

import pkc.pallas

gpu = {name: getattr(importlib.import_module("jax.experimental.pallas.ops.gpu." + name), name) for name in ("layer_norm", "softmax")}


def values(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype("f4"))


def attention(q, k, v, mask):
    s = jnp.einsum("...qd,...kd->...qk", q, k)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(jnp.where(mask, s, -1e30), axis=-1), v)


def long_attention(q, k, v):
    return attention(q, k, v, np.tri(2048, dtype=bool))


def layer_norm(x, w, b):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b


def splash(q, k, v):
    mask = splash_attention_mask.LocalMask((1024, 1024), (128, 0), 0)
    return splash_attention_kernel.make_splash_mha_single_device(splash_attention_mask.MultiHeadMask([mask, mask]))(q, k, v)


ROWS, SIZES = np.arange(1024), jnp.array([200, 56, 256], "int32")
CAUSAL, LOCAL = np.tri(512, dtype=bool), (ROWS[:, None] >= ROWS) & (ROWS[:, None] - ROWS <= 128)
A, B, G = values(512, 512), values(512, 512, seed=1), values(3, 256, 256, seed=2)
TILES = {"preferred_element_type": jnp.float32, "tiling": (128, 128, 128)}
Q, K, V = (values(1, 2, 512, 64, seed=s) for s in range(3))
LONG, WIDE = (tuple(values(1, 1, 2048, 128, seed=s) for s in range(3)), tuple(values(2048, 2048, seed=s) for s in range(2)))
LARGE = flash.BlockSizes(block_b=1, block_q=512, block_k_major=512, block_k=512)
CASES = {  # name: (the kernel, the same in JAX, operands)
    "gpu.layer_norm": (gpu["layer_norm"], layer_norm, (values(4, 256, 1024), values(1024), values(1024, seed=1))),
    "gpu.softmax": (gpu["softmax"], lambda x: jax.nn.softmax(x, axis=-1), (values(1024, 1000),)),
    "tpu.flash_attention": (functools.partial(flash.flash_attention, causal=True), lambda q, k, v: attention(q, k, v, CAUSAL), (Q, K, V)),
    "tpu.flash_attention 2048": (functools.partial(flash.flash_attention, causal=True), long_attention, LONG),
    "tpu.flash_attention 2048 by 512": (functools.partial(flash.flash_attention, causal=True, block_sizes=LARGE), long_attention, LONG),
    "tpu.splash_attention": (splash, lambda q, k, v: attention(q, k, v, LOCAL), tuple(values(2, 1024, 128, seed=s) for s in range(3))),
    "tpu.matmul 128": (functools.partial(matmul, block_shape=(128, 128), block_k=128), jnp.matmul, (A, B)),
    "tpu.matmul 256 x 512 x 512": (functools.partial(matmul, block_shape=(256, 512), block_k=512), jnp.matmul, (A, B)),
    "tpu.matmul 2048 by 512": (functools.partial(matmul, block_shape=(512, 512), block_k=512), jnp.matmul, WIDE),
    "megablox.gmm": (lambda x, y: gmm(x, y, SIZES, **TILES), lambda x, y: jax.lax.ragged_dot(x, y, SIZES), (values(512, 256), G)),
    "megablox.tgmm": (lambda x, y: tgmm(x.T, y, SIZES, **TILES), None, (values(512, 256), values(512, 256, seed=1))),
}


def best(f, operands):
    """Milliseconds of the best of up to 15 calls, or of what half a second has room for."""
    call = jax.jit(lambda *a: f(*a))
    jax.block_until_ready(call(*operands))
    times, end = [], time.perf_counter() + 0.5
    while len(times) < 15 and (not times or time.perf_counter() < end):
        start = time.perf_counter()
        jax.block_until_ready(call(*operands))
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def interpreted(mode, f, operands):
    """In an interpreter, where it takes the kernel."""
    before = config.pallas_tpu_interpret_mode_context_manager.swap_local(mode)
    jax.clear_caches()
    try:
        return "%9.2f" % best(f, operands)
    except Exception:  # a kernel of the other family, or one that says how it runs
        return "%9s" % "-"
    finally:
        config.pallas_tpu_interpret_mode_context_manager.set_local(before)
        jax.clear_caches()


pkc.pallas.install()
print("%-32s %9s %9s %9s %9s" % ("", "compiled", "interpret", "TPU's", "XLA"))
for name, (kernel, plain, operands) in CASES.items():
    if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
        continue
    compiled = best(kernel, operands)
    both = [interpreted(mode, kernel, operands) for mode in (True, pltpu.InterpretParams())]
    print("%-32s %9.2f %s %s %s" % (name, compiled, *both, "%9.2f" % best(plain, operands) if plain else ""), flush=True)
