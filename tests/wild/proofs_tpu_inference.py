"""Kernels of tpu-inference, each with a function of jax.numpy that it is compared with: tests/wild/proofs.py runs them."""
import importlib

import jax
import numpy
import pallas_proofs
import projects
from pallas_proofs import ints, shape

jnp = jax.numpy


def prepare(folder):
    projects.prepare_tpu_inference(folder, "params")


def module(name):
    return importlib.import_module("tpu_inference.kernels." + name)


# ---- attention

def flash(keys, causal=False, segments=False, bias=False):
    flash = module("flash_attention.kernel")
    blocks = flash.BlockSizes(block_q=8, block_k_major=128, block_k=128, block_b=1)
    q_of, k_of = ints(*[0] * 5 + [1] * 11), ints(*[0] * 100 + [1] * (keys - 100))

    def kernel(q, k, v, *bias):
        ids = flash.SegmentIds(q_of[None], k_of[None]) if segments else None
        return flash.flash_attention(q, k, v, *bias, segment_ids=ids, causal=causal, sm_scale=0.25, block_sizes=blocks)

    def reference(q, k, v, *bias):
        mask = jnp.tril(jnp.ones((16, keys), bool)) if causal else None
        mask = jnp.asarray(q_of[:, None] == k_of) if segments else mask
        s = jnp.einsum("...qd,...kd->...qk", q, k)
        s = (s + bias[0] if bias else s) * 0.25
        s = s if mask is None else jnp.where(mask, s, -jnp.inf)
        e = jnp.exp(s - s.max(-1, keepdims=True))
        return jnp.einsum("...qk,...kd->...qd", e / e.sum(-1, keepdims=True), v)
    return kernel, reference, [shape(1, 1, 16, 8), shape(1, 1, keys, 8), shape(1, 1, keys, 8)] + [shape(1, 1, 16, keys)] * bias


def ragged(window=None, cap=None):
    kernels = module("ragged_paged_attention.v2.kernel")
    reference, arguments = pallas_proofs.ragged(window, cap)[1:]
    return (lambda *a: kernels.ragged_paged_attention(*a, sm_scale=0.1, sliding_window=window, soft_cap=cap, num_kv_pages_per_block=2, num_queries_per_block=8),
            reference, arguments)


# ---- products

def grouped(sizes):
    kernels = module("megablox.gmm")
    of = numpy.repeat(numpy.arange(len(sizes)), sizes)
    return (lambda *a: kernels.gmm(*a, preferred_element_type=jnp.float32, tiling=(8, 128, 128)),
            lambda x, y, _: jnp.concatenate([x[row:row + 1] @ y[group] for row, group in enumerate(of)]),
            [shape(len(of), 128), shape(len(sizes), 128, 128), ints(*sizes)])


def grouped_bias():
    kernels = module("megablox.gmm")
    of = numpy.repeat(numpy.arange(3), (5, 3, 8))
    return (lambda x, y, b, n: kernels.gmm(x, y, n, preferred_element_type=jnp.float32, rhs_bias=b, tiling=(8, 128, 128)),
            lambda x, y, b, _: jnp.concatenate([x[row:row + 1] @ y[group] + b[group] for row, group in enumerate(of)]),
            [shape(16, 128), shape(3, 128, 128), shape(3, 1, 128), ints(5, 3, 8)])


# ---- inverses of triangular matrices

def lower(a):
    n = a.shape[-1]
    return jnp.where(jnp.tril(jnp.ones((n, n), bool), -1), a, 0.0) + jnp.eye(n)


def forward_substitution(a):
    n = a.shape[-1]
    rows = []
    for i in range(n):
        row = jnp.broadcast_to(jnp.eye(n)[i], a.shape[:-2] + (n,))
        for j in range(i):
            row = row - a[..., i, j, None] * rows[j]
        rows.append(row)
    return jnp.stack(rows, -2)


def inverse(name, n=16, **words):
    solver = getattr(module("gdn.triangle_solver"), name)
    return lambda a: solver(lower(a), **words), lambda a: forward_substitution(lower(a)), [shape(2, n, n)]


# ---- streams of hyper-connections

def streams_after():
    kernels = module("experimental.deepseek_v4.mhc.post_kernel")

    def reference(x, old, post, mix):
        mixed = jnp.einsum("tij,tih->tjh", mix, old.astype("float32"))
        return (mixed + post * x[:, None].astype("float32")).astype(old.dtype)
    return (lambda *a: kernels.mhc_post(*a), reference,
            [shape(20, 24, dtype="bfloat16"), shape(20, 4, 24, dtype="bfloat16"), shape(20, 4, 1), shape(20, 4, 4)])


def streams_before():
    kernels = module("experimental.deepseek_v4.mhc.pre_kernel")
    return (lambda x, w: kernels.mhc_pre_mixes(x, w), lambda x, w: (x.astype("float32") @ w.T, (x.astype("float32") ** 2).sum(-1, keepdims=True)),
            [shape(20, 4 * 128, dtype="bfloat16"), shape(24, 4 * 128)])


def streams_collapsed():
    kernels = module("experimental.deepseek_v4.mhc.pre_kernel")

    def reference(x, w, scale, base):
        y = x.astype("float32")
        mixes, squares = y @ w.T, (y * y).sum(-1, keepdims=True)
        gates = jax.nn.sigmoid(mixes[:, :4] / jnp.sqrt(squares / y.shape[1] + 1e-6) * scale[0] + base[:4]) + 1e-6
        return mixes, squares, jnp.einsum("ts,tsh->th", gates, y.reshape(20, 4, 128)).astype(x.dtype)
    return (lambda *a: kernels.mhc_pre_mixes_collapse(*a, 1e-6, 1e-6), reference,
            [shape(20, 4 * 128, dtype="bfloat16"), shape(24, 4 * 128), shape(3), shape(24)])


# ---- rows

def rotary(inverse, heads):
    kernels = module("experimental.deepseek_v4.rope")
    at = ints(*(3 * i % 16 for i in range(8)))

    def reference(x, _, table):
        cos, sin = (jnp.repeat(t, 2, -1).reshape(8, *[1] * bool(heads), 64) for t in jnp.split(table[at], 2, -1))
        turned = x[..., -64:]
        other = jnp.stack([-turned[..., 1::2], turned[..., ::2]], -1).reshape(turned.shape)
        return jnp.concatenate([x[..., :-64], turned * cos + other * (-sin if inverse else sin)], -1)
    return lambda *a: kernels.rope(*a, inverse=inverse), reference, [shape(8, *heads, 512), at, shape(16, 64)]


def transposed():
    kernels = module("mla.v2.transpose")
    return lambda x: kernels.xpose_full(x, transpose_axes=(1, 0, 2))[0], lambda x: x.transpose(1, 0, 2), [shape(8, 16, 128)]


CASES = [
    ("flash_attention", "16 rows, 256 keys", lambda: flash(256)),
    ("flash_attention", "causal, 16 rows, 256 keys", lambda: flash(256, causal=True)),
    ("flash_attention", "segments, 16 rows, 256 keys", lambda: flash(256, segments=True)),
    ("flash_attention", "a bias, 16 rows, 256 keys", lambda: flash(256, bias=True)),
    ("flash_attention", "16 rows, 128 keys", lambda: flash(128)),
    ("ragged_paged_attention.v2", "7 and 1 queries", ragged),
    ("ragged_paged_attention.v2", "window of 7", lambda: ragged(window=7)),
    ("ragged_paged_attention.v2", "soft cap", lambda: ragged(cap=2.0)),
    ("megablox.gmm", "groups of 5, 0 and 11 rows", lambda: grouped((5, 0, 11))),
    ("megablox.gmm", "groups of 8 and 8 rows", lambda: grouped((8, 8))),
    ("megablox.gmm", "a bias", grouped_bias),
    ("gdn.newton_schulz_inverse", "2 of 8 x 8", lambda: inverse("newton_schulz_inverse_pallas", 8, block_size=2)),
    ("gdn.newton_schulz_inverse", "2 of 16 x 16", lambda: inverse("newton_schulz_inverse_pallas", 16, block_size=2)),
    ("gdn.decompose_triangular_matrix_inverse", "2 of 16 x 16", lambda: inverse("decompose_triangular_matrix_inverse_pallas", 16, n_block_size=2, block_size=8)),
    ("gdn.decompose_triangular_matrix_inverse", "2 of 32 x 32", lambda: inverse("decompose_triangular_matrix_inverse_pallas", 32, n_block_size=2, block_size=16)),
    ("deepseek_v4.mhc_post", "20 rows of 4 x 24", streams_after),
    ("deepseek_v4.mhc_pre_mixes", "20 rows of 4 x 128", streams_before),
    ("deepseek_v4.mhc_pre_mixes_collapse", "20 rows of 4 x 128", streams_collapsed),
    ("deepseek_v4.rope", "8 rows", lambda: rotary(False, ())),
    ("deepseek_v4.rope", "8 rows of 8 heads", lambda: rotary(False, (8,))),
    ("deepseek_v4.rope", "inverse", lambda: rotary(True, ())),
    ("mla.v2.xpose_full", "8 x 16 x 128", transposed),
]


# Pairs of CASES: the kernel of the first differs from the reference of the second, which is refuted.
CROSSED = [(0, 1), (1, 0), (2, 1), (5, 6), (6, 5), (7, 5), (18, 20), (20, 18)]
