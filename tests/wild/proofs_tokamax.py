"""Kernels of tokamax, each with a function of jax.numpy that it is compared with: tests/wild/proofs.py runs them."""
import importlib
import sys
import types

import jax
import numpy
import projects
from pallas_proofs import attention, causal, ints, shape

jnp = jax.numpy
TINY = float(jnp.finfo(jnp.float32).tiny)  # these kernels add it to a sum of exponentials, which may be 0


def prepare(folder):
    projects.answer_for_a_tpu(projects.tpu_v5e())
    sys.path.insert(0, folder)
    for name in ("xprof", "xprof.cli", "xprof.cli.tools"):  # a profiler, which no kernel needs
        projects._module(name, get_kernel_stats_tool=None)
    type(jax.devices()[0]).core_count = type(jax.devices()[0]).num_cores = 1  # the answers of a GPU and a TPU
    setattr(importlib.import_module("tokamax._src.config"), "cross_compile", types.SimpleNamespace(value=True))


def module(name):
    return importlib.import_module("tokamax._src.ops." + name)


def operation(name, kind, options=None, **config):
    """The operation `kind` of a module, with the configuration for a GPU."""
    made = module(name)
    return getattr(made, kind)(config=made.Config(num_warps=4, **config), **options or {})


# ---- attention

def triton_attention(queries=32, keys=32, heads=(1, 1), **words):
    kernel = operation("attention.pallas_triton", "PallasTritonFlashAttention", {"use_stable_softmax": True}, block_q=16, block_k=16, num_stages=1)

    def plain(q, k, v, *bias):
        q, k, v = (x.swapaxes(0, 1) for x in (q, k, v))
        k, v = (jnp.repeat(x, heads[0] // heads[1], 0) for x in (k, v))
        mask = causal(queries) if words.get("is_causal") else None
        s = jnp.einsum("...qd,...kd->...qk", q, k) * 0.25
        cap = words.get("logits_soft_cap")
        s = cap * jnp.tanh(s / cap) if cap else s
        s = s + bias[0] if bias else s
        s = s if mask is None else jnp.where(mask, s, -jnp.inf)
        e = jnp.exp(s - s.max(-1, keepdims=True))
        return (e / (e.sum(-1, keepdims=True) + TINY) @ v).swapaxes(0, 1)

    def run(q, k, v, *bias):
        return kernel(q, k, v, logits_scale=0.25, bias=bias[0] if bias else None, **words)
    return run, plain, [shape(queries, heads[0], 16), shape(keys, heads[1], 16), shape(keys, heads[1], 16)]


def with_bias():
    kernel, plain, arguments = triton_attention()
    return kernel, plain, [*arguments, shape(1, 32, 32)]


def flex():
    kernel = operation("flex_attention.pallas_triton", "PallasTritonFlexAttention", block_q=16, block_k=16, num_stages=1)
    return (lambda *a: kernel(*a, score_mod=lambda s: s * 0.25), triton_attention()[1], triton_attention()[2])


def splash(window=None, rows=256):
    kernels = module("experimental.tpu.splash_attention.splash_attention_kernel")
    masks = module("experimental.tpu.splash_attention.splash_attention_mask")
    mask = masks.LocalMask((rows, 256), (window, 0), 0) if window else masks.CausalMask((rows, rows))
    kernel = kernels.make_splash_mha_single_device(mask, config=kernels.SplashConfig(block_q=128, block_kv=128, block_kv_compute=128, block_q_dkv=128, block_kv_dkv=128, block_kv_dkv_compute=128))
    keys = rows if window is None else 256
    return (lambda *a: kernel(*a), lambda *a: attention(*a, jnp.asarray(numpy.asarray(mask[:, :]))),
            [shape(1, rows, 128), shape(1, keys, 128), shape(1, keys, 128)])


# ---- products

def linear_unit(activation=None):
    kernel = operation("gated_linear_unit.pallas_triton", "PallasTritonGatedLinearUnit", block_m=16, block_n=16, block_k=16, num_stages=1)
    return (lambda x, w: kernel(x, w, activation=activation), lambda x, w: (activation or (lambda y: y))(x @ w[:, 0]) * (x @ w[:, 1]),
            [shape(24, 40), shape(40, 2, 32)])


def products(sizes):
    of = numpy.repeat(numpy.arange(len(sizes)), sizes)
    return (lambda x, y, _: jnp.concatenate([x[row:row + 1] @ y[group] for row, group in enumerate(of)]))


def transposed_products(sizes):
    ends = numpy.cumsum([0, *sizes])
    return lambda x, y, _: jnp.stack([x[a:b].T @ y[a:b] for a, b in zip(ends, ends[1:])])


def grouped(sizes):
    kernels = module("ragged_dot.pallas_mosaic_tpu_kernel")
    return (lambda *a: kernels.gmm(*a, jax.lax.Precision.DEFAULT, jnp.float32, tiling=(8, 128, 128)), products(sizes),
            [shape(sum(sizes), 128), shape(len(sizes), 128, 128), ints(*sizes)])


def grouped_transposed(sizes):
    kernels = module("ragged_dot.pallas_mosaic_tpu_kernel")
    return (lambda x, y, n: kernels.tgmm(x.T, y, n, jax.lax.Precision.DEFAULT, jnp.float32, tiling=(8, 128, 128)), transposed_products(sizes),
            [shape(sum(sizes), 128), shape(sum(sizes), 128), ints(*sizes)])


def triton_products(rows):
    return operation("ragged_dot.pallas_triton", "PallasTritonRaggedDot", block_m=rows, block_n=16, block_k=16, num_stages=1)


def triton_grouped(sizes):
    kernel = triton_products(8)
    return (lambda x, y, n: kernel(x, y, group_sizes=n), products(sizes), [shape(sum(sizes), 32), shape(len(sizes), 32, 16), ints(*sizes)])


def triton_grouped_transposed(sizes):
    kernel, axes = triton_products(16), module("ragged_dot.base").RAGGED_CONTRACTING_DOT_DIM_NUMS
    return (lambda x, y, n: kernel(x, y, group_sizes=n, ragged_dot_dimension_numbers=axes), transposed_products(sizes),
            [shape(sum(sizes), 16), shape(sum(sizes), 16), ints(*sizes)])


# ---- rows

def normalization(centred):
    name = "normalization.pallas_triton"
    kernel = module(name).PallasTritonNormalization(config=module(name).Config(block_m=4, block_n=None, num_warps=4))

    def run(x, w, b):
        return kernel(x, w, b, subtract_mean=centred, epsilon=1e-5)

    def plain(x, w, b):
        x = x - x.mean(-1, keepdims=True) if centred else x
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b
    return run, plain, [shape(8, 48), shape(48), shape(48)]


def cross_entropy_gradients():
    kernels = module("linear_softmax_cross_entropy_loss.pallas_mosaic_tpu_kernel")
    labels = ints(*(37 * i % 256 for i in range(128)))

    def plain(weight, lse, x, at, w):
        s = weight * (jnp.exp(x @ w - lse[:, None]) - (at[:, None] == jnp.arange(256)))
        return s @ w.T, x.T @ s
    return (lambda *a: kernels.linear_softmax_cross_entropy_loss_bwd_pallas_mosaic_tpu(*a, b_block_size=128, h_block_size=128, v_block_size=128), plain,
            [shape(), shape(128), shape(128, 128), labels, shape(128, 256)])


def gradients(made):
    """The gradients of the sum of the squares of what the kernel and the reference return."""
    kernel, plain, arguments = made
    return (*(lambda *a, f=f: jax.grad(lambda *b: (f(*b) ** 2).sum(), argnums=tuple(range(len(a))))(*a) for f in (kernel, plain)), arguments)


CASES = [
    ("gated_linear_unit.pallas_triton", "24 x 40 x 32", linear_unit),
    ("gated_linear_unit.pallas_triton", "swish", lambda: linear_unit(jax.nn.silu)),
    ("normalization.pallas_triton", "8 rows of 48", lambda: normalization(True)),
    ("normalization.pallas_triton", "root mean square", lambda: normalization(False)),
    ("normalization.pallas_triton_vjp", "8 rows of 48", lambda: gradients(normalization(True))),
    ("normalization.pallas_triton_vjp", "root mean square", lambda: gradients(normalization(False))),
    ("attention.pallas_triton", "32 rows, 32 keys", triton_attention),
    ("attention.pallas_triton", "causal", lambda: triton_attention(is_causal=True)),
    ("attention.pallas_triton", "a bias", with_bias),
    ("attention.pallas_triton", "2 heads of keys for 4", lambda: triton_attention(heads=(4, 2))),
    ("attention.pallas_triton", "soft cap", lambda: triton_attention(logits_soft_cap=5.0)),
    ("flex_attention.pallas_triton", "32 rows, 32 keys", flex),
    ("ragged_dot.pallas_mosaic_tpu", "groups of 5, 0 and 11 rows", lambda: grouped((5, 0, 11))),
    ("ragged_dot.pallas_mosaic_tpu", "groups of 5, 3 and 8 rows", lambda: grouped((5, 3, 8))),
    ("ragged_dot.pallas_mosaic_tpu", "transposed, groups of 5, 3 and 8 rows", lambda: grouped_transposed((5, 3, 8))),
    ("ragged_dot.pallas_triton", "groups of 5, 3 and 8 rows", lambda: triton_grouped((5, 3, 8))),
    ("ragged_dot.pallas_triton", "groups of 3, 5 and 8 rows", lambda: triton_grouped((3, 5, 8))),
    ("ragged_dot.pallas_triton", "transposed, groups of 5, 3 and 8 rows", lambda: triton_grouped_transposed((5, 3, 8))),
    ("splash_attention", "causal, 256 rows", splash),
    ("splash_attention", "window of 65, 128 rows", lambda: splash(64, 128)),
    ("linear_softmax_cross_entropy_loss", "its gradients, 128 rows, 256 labels", cross_entropy_gradients),
]


# Pairs of CASES: the kernel of the first differs from the reference of the second, which is refuted.
CROSSED = [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (6, 7), (7, 6), (6, 10), (10, 6), (12, 13), (13, 12), (15, 16), (16, 15)]
