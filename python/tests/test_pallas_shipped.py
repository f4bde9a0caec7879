"""pkc.pallas: the kernels that JAX ships, unchanged, against plain JAX or NumPy."""
import numpy
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
ops = pytest.importorskip("jax.experimental.pallas.ops.tpu.flash_attention", reason="JAX has no Pallas for TPUs")
from pallas_calls import normals, installed  # noqa: E402, F401 (installed: a fixture)


def close(found, wanted, tolerance=2e-4):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        numpy.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def attention(q, k, v, causal=False, mask=None, scale=1.0):
    s = jnp.einsum("...qd,...kd->...qk", q, k) * scale
    if causal:
        mask = jnp.tril(jnp.ones(s.shape[-2:], bool))
    s = s if mask is None else jnp.where(mask, s, -1e30)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(s), v)


def test_flash_attention():
    q, k, v = (normals(1, 2, 256, 64, seed=s) * 0.3 for s in range(3))
    close(jax.jit(lambda *a: ops.flash_attention(*a, causal=True))(q, k, v), attention(q, k, v, causal=True))


def test_flash_attention_backward():
    q, k, v = (normals(1, 1, 256, 128, seed=s) * 0.3 for s in range(3))
    found = jax.grad(lambda *a: (ops.flash_attention(*a, causal=True) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)
    close(found, jax.grad(lambda *a: (attention(*a, causal=True) ** 2).sum(), argnums=(0, 1, 2))(q, k, v), 2e-3)


def test_matmul():
    from jax.experimental.pallas.ops.tpu.matmul import matmul
    x, y = normals(256, 256), normals(256, 128, seed=1)
    close(matmul(x, y, block_shape=(128, 128), block_k=128), x @ y, 1e-3)


def test_grouped_matmul():
    from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm, tgmm
    x, y, sizes = normals(256, 128), normals(3, 128, 128, seed=1), jnp.array([100, 30, 126], "int32")
    rows = numpy.split(numpy.arange(256), numpy.cumsum(sizes)[:-1])
    found = gmm(x, y, sizes, preferred_element_type=jnp.float32, tiling=(128, 128, 128))
    close(found, numpy.concatenate([numpy.asarray(x)[r] @ numpy.asarray(y)[g] for g, r in enumerate(rows)]), 1e-3)
    z = normals(256, 128, seed=2)
    found = tgmm(x.T, z, sizes, preferred_element_type=jnp.float32, tiling=(128, 128, 128))
    close(found, numpy.stack([numpy.asarray(x)[r].T @ numpy.asarray(z)[r] for r in rows]), 1e-3)


def test_paged_attention():
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
    q, k, v = normals(2, 4, 128) * 0.1, normals(2, 16, 16, 128, seed=1), normals(2, 16, 16, 128, seed=2)
    lengths, pages = jnp.array([40, 64], "int32"), jnp.array([[3, 1, 4, 15], [9, 2, 6, 5]], "int32")
    found = paged_attention(q, k, v, lengths, pages, pages_per_compute_block=2)
    for b in range(2):
        keys, vals = (jnp.repeat(a[:, pages[b]].reshape(2, 64, 128)[:, :lengths[b]], 2, axis=0) for a in (k, v))
        close(found[b], attention(q[b][:, None], keys, vals)[:, 0], 1e-2)  # the kernel rounds keys to bf16


@pytest.mark.parametrize("window, cap", [(None, None), (7, None), (None, 2.0)])
def test_ragged_paged_attention(window, cap):
    ragged = pytest.importorskip("jax.experimental.pallas.ops.tpu.ragged_paged_attention")
    lengths = [(5, 18), (1, 30), (20, 20), (16, 33)]  # queries, keys
    heads, shared, dim, page = 4, 2, 128, 16
    starts = numpy.cumsum([0, *(n for n, _ in lengths)])
    rng = numpy.random.default_rng(0)
    pages = rng.permutation(32)[:3 * len(lengths)].reshape(-1, 3).astype("i4")
    q, kv = normals(64, heads, dim) * 0.2, normals(32, page, 2 * shared, dim, seed=1)
    found = ragged.ragged_paged_attention(
        q, kv, jnp.array([n for _, n in lengths], "int32"), jnp.asarray(pages), jnp.asarray(starts, "int32"),
        jnp.array([len(lengths)], "int32"), sm_scale=0.1, sliding_window=window, soft_cap=cap, num_kv_pages_per_block=2,
        num_queries_per_block=8)
    for b, (queries, keys) in enumerate(lengths):
        rows = numpy.asarray(kv)[pages[b]].reshape(-1, 2 * shared, dim)[:keys]
        k, v = (numpy.repeat(rows[:, part::2].swapaxes(0, 1), heads // shared, axis=0) for part in (0, 1))
        s = numpy.einsum("qhd,hkd->hqk", numpy.asarray(q)[starts[b]:starts[b + 1]], k) * 0.1
        s = s if cap is None else cap * numpy.tanh(s / cap)
        at, of = numpy.arange(keys - queries, keys)[:, None], numpy.arange(keys)
        seen = (of <= at) & (True if window is None else of > at - window)
        e = numpy.where(seen, numpy.exp(s), 0)
        wanted = numpy.einsum("hqk,hkd->qhd", e / e.sum(-1, keepdims=True), v)
        close(found[starts[b]:starts[b + 1]], wanted, 2e-3)


def test_splash_attention():
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
    mask = splash_attention_mask.LocalMask((256, 256), (64, 0), 0)
    kernel = splash_attention_kernel.make_splash_mha_single_device(splash_attention_mask.MultiHeadMask([mask, mask]))
    q, k, v = (normals(2, 256, 128, seed=s) * 0.3 for s in range(3))
    close(kernel(q, k, v), attention(q, k, v, mask=mask[:, :]))


def test_random_bits():
    from jax.experimental.pallas.ops.tpu.random import philox
    from jax.experimental.pallas import tpu
    key = jnp.array([1, 2], "uint32")
    found = philox.philox_4x32_count(key, (256, 256))
    with tpu.force_tpu_interpret_mode():
        wanted = philox.philox_4x32_count(key, (256, 256))
    numpy.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_norms(name):
    import importlib
    norm = getattr(importlib.import_module("jax.experimental.pallas.ops.gpu." + name), name)
    x, w, b = normals(2, 8, 96), normals(96, seed=1), normals(96, seed=2)

    def plain(x, w, b):
        x = x - x.mean(-1, keepdims=True) if name == "layer_norm" else x
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b
    close(norm(x, w, b), plain(x, w, b))
    found = jax.grad(lambda *a: (norm(*a) ** 2).sum(), argnums=(0, 1, 2))(x, w, b)
    close(found, jax.grad(lambda *a: (plain(*a) ** 2).sum(), argnums=(0, 1, 2))(x, w, b), 2e-3)


def test_softmax_and_attention_of_gpus():
    from jax.experimental.pallas.ops.gpu import attention as gpu_attention, softmax
    x = normals(8, 90)
    close(softmax.softmax(x), jax.nn.softmax(x))
    q, k, v = (normals(1, 128, 2, 64, seed=s) * 0.3 for s in range(3))
    found = gpu_attention.mha(q, k, v, segment_ids=None, causal=True)
    close(found, attention(*(a.swapaxes(1, 2) for a in (q, k, v)), causal=True).swapaxes(1, 2))
