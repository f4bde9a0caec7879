"""Kernels that JAX ships, each with a function of jax.numpy that it is proved by (pkc.pallas.prove), at small sizes.

CASES: a name, a function that returns (kernel, reference, arguments), and the verdict with what is to be said of it.
`python python/tests/pallas_proofs.py --write` writes the table of docs/proved-kernels.md.
"""
import importlib
import pathlib
import re
import sys

import jax
import numpy

jnp = jax.numpy
PAGE = pathlib.Path(__file__).parents[2] / "docs/proved-kernels.md"
OPS = "jax.experimental.pallas.ops."


def shape(*extents, dtype="float32"):
    return jax.ShapeDtypeStruct(extents, dtype)


def ints(*values):
    return numpy.array(values, "int32")


def attention(q, k, v, mask=None, scale=1.0, cap=None):
    s = jnp.einsum("...qd,...kd->...qk", q, k) * scale
    s = s if cap is None else cap * jnp.tanh(s / cap)
    s = s if mask is None else jnp.where(mask, s, -jnp.inf)
    e = jnp.exp(s - s.max(-1, keepdims=True))
    return jnp.einsum("...qk,...kd->...qd", e / e.sum(-1, keepdims=True), v)


def causal(n):
    return jnp.tril(jnp.ones((n, n), bool))


# ---- attention

def flash(masked, n=256, d=8):
    module = importlib.import_module(OPS + "tpu.flash_attention")
    rows = n if masked else 16
    blocks = module.BlockSizes(block_q=128 if masked else 8, block_k_major=128, block_k=128, block_b=1)
    arguments = [shape(1, 1, rows, d), shape(1, 1, n, d), shape(1, 1, n, d)]
    return (lambda *a: module.flash_attention(*a, causal=masked, sm_scale=0.25, block_sizes=blocks),
            lambda *a: attention(*a, mask=causal(n) if masked else None, scale=0.25), arguments)


def flash_segments():
    module = importlib.import_module(OPS + "tpu.flash_attention")
    blocks = module.BlockSizes(block_q=8, block_k_major=128, block_k=128, block_b=1)
    q_of, k_of = ints([0] * 5 + [1] * 11), ints([0] * 100 + [1] * 156)

    def kernel(q, k, v, a, b):
        return module.flash_attention(q, k, v, segment_ids=module.SegmentIds(a, b), block_sizes=blocks)
    return (kernel, lambda q, k, v, a, b: attention(q, k, v, mask=a[:, None, :, None] == b[:, None, None, :]),
            [shape(1, 1, 16, 8), shape(1, 1, 256, 8), shape(1, 1, 256, 8), q_of, k_of])


def splash():
    kernels = importlib.import_module(OPS + "tpu.splash_attention.splash_attention_kernel")
    masks = importlib.import_module(OPS + "tpu.splash_attention.splash_attention_mask")
    mask = masks.LocalMask((128, 256), (64, 0), 0)
    kernel = kernels.make_splash_mha_single_device(masks.MultiHeadMask([mask, mask]), block_sizes=kernels.BlockSizes(
        block_q=128, block_kv=128, block_kv_compute=128))
    return (lambda *a: kernel(*a), lambda *a: attention(*a, mask=jnp.asarray(numpy.asarray(mask[:, :]))),
            [shape(2, 128, 128), shape(2, 256, 128), shape(2, 256, 128)])


def paged():
    module = importlib.import_module(OPS + "tpu.paged_attention")
    lengths, pages = ints(20, 32), ints([3, 1, 4, 7], [6, 2, 0, 5])

    def reference(q, k, v, *_):
        rows = []
        for b, length in enumerate(lengths):
            keys, values = (jnp.concatenate([a[:, page] for page in pages[b]], 1)[:, :length] for a in (k, v))
            rows.append(jnp.concatenate([attention(q[b, h:h + 1], keys[h // 2], values[h // 2]) for h in range(4)]))
        return jnp.stack(rows)
    return (lambda *a: module.paged_attention(*a, pages_per_compute_block=2), reference,
            [shape(2, 4, 128), shape(2, 8, 8, 128), shape(2, 8, 8, 128), lengths, pages])


def ragged(window=None, cap=None):
    module = importlib.import_module(OPS + "tpu.ragged_paged_attention")
    lengths, starts, pages = [(7, 18), (1, 30)], numpy.cumsum([0, 7, 1]).astype("i4"), ints([3, 1, 4], [0, 2, 5])

    def reference(q, kv, *_):
        rows = []
        for b, (queries, keys) in enumerate(lengths):
            held = jnp.concatenate([kv[page] for page in pages[b][:2]])[:keys]
            at, of = numpy.arange(keys - queries, keys)[:, None], numpy.arange(keys)
            seen = jnp.asarray((of <= at) & (True if window is None else of > at - window))
            heads = [attention(q[starts[b]:starts[b + 1], h], held[:, 2 * (h // 2)], held[:, 2 * (h // 2) + 1], seen, 0.1, cap)
                     for h in range(4)]
            rows.append(jnp.stack(heads, 1))
        return jnp.concatenate(rows)
    return (lambda *a: module.ragged_paged_attention(*a, sm_scale=0.1, sliding_window=window, soft_cap=cap,
                                                     num_kv_pages_per_block=2, num_queries_per_block=8), reference,
            [shape(8, 4, 128), shape(6, 16, 4, 128), ints(18, 30), pages, starts, ints(2)])


def gpu_attention():
    module = importlib.import_module(OPS + "gpu.attention")

    def reference(*a):
        return attention(*(x.swapaxes(1, 2) for x in a), mask=causal(128)).swapaxes(1, 2)
    return lambda *a: module.mha(*a, segment_ids=None, causal=True), reference, [shape(1, 128, 1, 64)] * 3


# ---- products

def matmul():
    module = importlib.import_module(OPS + "tpu.matmul")
    return (lambda x, y: module.matmul(x, y, block_shape=(128, 128), block_k=128), lambda x, y: x @ y,
            [shape(128, 256), shape(256, 128)])


GROUPS = 5, 0, 11


def grouped():
    module = importlib.import_module(OPS + "tpu.megablox.gmm")
    of = numpy.repeat(numpy.arange(3), GROUPS)
    return (lambda *a: module.gmm(*a, preferred_element_type=jnp.float32, tiling=(8, 128, 128)),
            lambda x, y, _: jnp.concatenate([x[row:row + 1] @ y[group] for row, group in enumerate(of)]),
            [shape(16, 128), shape(3, 128, 128), ints(*GROUPS)])


def grouped_transposed():
    module = importlib.import_module(OPS + "tpu.megablox.gmm")
    ends = numpy.cumsum([0, 5, 3, 8])
    return (lambda *a: module.tgmm(*a, preferred_element_type=jnp.float32, tiling=(8, 128, 128)),
            lambda x, y, _: jnp.stack([x[:, a:b] @ y[a:b] for a, b in zip(ends, ends[1:])]),
            [shape(128, 16), shape(16, 128), ints(5, 3, 8)])


# ---- rows

def norm(name, gradient=False):
    function = getattr(importlib.import_module(OPS + "gpu." + name), name)

    def plain(x, w, b):
        x = x - x.mean(-1, keepdims=True) if name == "layer_norm" else x
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b
    if gradient:
        return (*(lambda *a, f=f: jax.grad(lambda *b: (f(*b) ** 2).sum(), argnums=(0, 1, 2))(*a) for f in (function, plain)),
                [shape(1, 4, 96), shape(96), shape(96)])
    return function, plain, [shape(1, 4, 96), shape(96), shape(96)]


def softmax():
    return importlib.import_module(OPS + "gpu.softmax").softmax, jax.nn.softmax, [shape(8, 90)]


CASES = [
    ("tpu.flash_attention", "16 rows, 256 keys", lambda: flash(False), "proved", ""),
    ("tpu.flash_attention", "causal, 256 rows", lambda: flash(True), "proved", ""),
    ("tpu.flash_attention", "segments", flash_segments, "proved", ""),
    ("tpu.splash_attention", "local mask, 2 heads", splash, "proved", ""),
    ("tpu.paged_attention", "2 sequences of 20 and 32 keys", paged, "proved", ""),
    ("tpu.ragged_paged_attention", "7 and 1 queries", ragged, "proved", ""),
    ("tpu.ragged_paged_attention", "window of 7", lambda: ragged(window=7), "proved", ""),
    ("tpu.ragged_paged_attention", "soft cap", lambda: ragged(cap=2.0), "proved", ""),
    ("tpu.matmul", "128 x 256 x 128", matmul, "proved", ""),
    ("tpu.megablox.gmm", "groups of 5, 0 and 11 rows", grouped, "proved", ""),
    ("tpu.megablox.tgmm", "groups of 5, 3 and 8 rows", grouped_transposed, "proved", ""),
    ("gpu.attention", "causal, 128 rows", gpu_attention, "proved", ""),
    ("gpu.layer_norm", "4 rows of 96", lambda: norm("layer_norm"), "proved", ""),
    ("gpu.layer_norm", "its gradients", lambda: norm("layer_norm", True), "proved", ""),
    ("gpu.rms_norm", "4 rows of 96", lambda: norm("rms_norm"), "proved", ""),
    ("gpu.rms_norm", "its gradients", lambda: norm("rms_norm", True), "proved", ""),
    ("gpu.softmax", "8 rows of 90", softmax, "proved", ""),
]


# What each of these has instead of the reference of CASES: a number, the index of the case and the reference, which has to be refuted.
WRONG = [
    ("another scale", 0, lambda *a: attention(*a, scale=0.26)),
    ("without the mask", 1, lambda *a: attention(*a, scale=0.25)),
    ("one key less", 1, lambda *a: attention(*a, mask=jnp.tril(jnp.ones((256, 256), bool), -1) | (jnp.arange(256) == 0), scale=0.25)),
    ("segments of keys shifted by one", 2, lambda q, k, v, a, b: attention(q, k, v, mask=a[:, None, :, None] == jnp.roll(b, 1)[:, None, None, :])),
    ("queries and keys exchanged", 11, lambda q, k, v: CASES[11][2]()[1](k, q, v)),
    ("the left operand twice", 8, lambda x, y: x @ y + x @ y),
    ("groups in another order", 9, lambda x, y, n: CASES[9][2]()[1](x, y[::-1], n)),
    ("no weights", 12, lambda x, w, b: CASES[12][2]()[1](x, 1 + 0 * w, b)),
    ("another epsilon", 14, lambda x, w, b: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-3) * w + b),
    ("log of it", 16, lambda x: jax.nn.log_softmax(x)),
]


def table():
    rows = ["| kernel | at | verdict |", "|---|---|---|"]
    return "\n".join(rows + ["| `%s` | %s | %s%s |" % (name, at, verdict, why and ": " + why) for name, at, _, verdict, why in CASES])


def page():
    """(the page as it is, the page with the table)"""
    text = PAGE.read_text(encoding="utf-8")
    return text, re.sub("(<!-- jax -->\n).*?(<!-- end -->)", lambda m: m[1] + table() + "\n" + m[2], text, flags=re.S)


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(page()[1], encoding="utf-8")
