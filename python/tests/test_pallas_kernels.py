"""pkc.pallas: kernels as people publish them, unchanged, against NumPy in double precision. Each compiles once."""
import functools

import numpy
import pytest

from pallas_calls import jax, jnp, pl, pltpu, values
import pkc.pallas

F32 = jnp.float32


def shape(dtype, *extents):
    return jax.ShapeDtypeStruct(extents, dtype)


def block(extents, index=None):
    return pl.BlockSpec(extents, index)


def softmax(s):
    e = numpy.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))


# ---- attention

def flash_attention():
    """Blocks of keys on the grid, those past the diagonal left out; heads share keys; maxima and sums in lanes."""
    heads, shared, n, d, b = 4, 2, 64, 32, 16

    def kernel(q_ref, k_ref, v_ref, o_ref, m, l, acc):
        i, j = pl.program_id(1), pl.program_id(2)

        @pl.when(j == 0)
        def _():
            m[...] = jnp.full_like(m, -jnp.inf)
            l[...] = jnp.zeros_like(l)
            acc[...] = jnp.zeros_like(acc)

        @pl.when(j <= i)
        def _():
            s = jax.lax.dot_general(q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=F32) * d**-0.5
            at = i * b + jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
            s = jnp.where(at >= j * b + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1), s, -1e30)
            new = jnp.maximum(m[...], s.max(axis=1, keepdims=True))
            p, scale = jnp.exp(s - new[:, :1]), jnp.exp(m[...] - new)
            l[...] = l[...] * scale + p.sum(axis=1, keepdims=True)
            acc[...] = acc[...] * scale[:, :1] + jnp.dot(p, v_ref[...], preferred_element_type=F32)
            m[...] = new

        @pl.when(j == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = (acc[...] / l[:, :1]).astype(o_ref.dtype)
    q, k, v = values(heads, n, d), values(shared, n, d, seed=1), values(shared, n, d, seed=2)
    keys = block((None, b, d), lambda h, i, j: (h // (heads // shared), jnp.minimum(i, j), 0))
    rows = block((None, b, d), lambda h, i, j: (h, i, 0))
    found = pl.pallas_call(
        kernel, out_shape=shape("float32", heads, n, d), grid=(heads, n // b, n // b), in_specs=[rows, keys, keys], out_specs=rows,
        scratch_shapes=[pltpu.VMEM((b, 128), F32), pltpu.VMEM((b, 128), F32), pltpu.VMEM((b, d), F32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")))(q, k, v)
    k, v = (a.astype("f8").repeat(heads // shared, 0) for a in (k, v))
    s = numpy.where(numpy.tri(n, dtype=bool), q @ k.swapaxes(1, 2) * d**-0.5, -numpy.inf)
    return found, softmax(s) @ v, 1e-5


def attention_of_gpus():
    """One program a block of queries; a loop with a bound of the program's own over the keys it sees, in carries."""
    n, d, b, window = 60, 16, 16, 24

    def kernel(q_ref, k_ref, v_ref, o_ref, lse_ref):
        i = pl.program_id(0)
        q, rows = q_ref[...], i * b + jnp.arange(b)

        def body(j, carry):
            acc, m, l = carry
            k, v = (r[pl.ds(j * b, b), :] for r in (k_ref, v_ref))
            cols = j * b + jnp.arange(b)
            seen = (rows[:, None] >= cols) & (rows[:, None] - cols < window) & (cols < n)
            s = jnp.where(seen, 5 * jnp.tanh(jnp.dot(q, k.T) / 5), -1e30)
            new = jnp.maximum(m, s.max(axis=1))
            p, scale = jnp.where(seen, jnp.exp(s - new[:, None]), 0), jnp.exp(m - new)
            return acc * scale[:, None] + jnp.dot(p, jnp.where(cols[:, None] < n, v, 0)), new, l * scale + p.sum(axis=1)
        first = jnp.maximum(i * b - window + 1, 0) // b
        acc, m, l = jax.lax.fori_loop(first, i + 1, body, (jnp.zeros((b, d)), jnp.full(b, -1e30), jnp.zeros(b)))
        o_ref[...] = acc / l[:, None]
        lse_ref[...] = m + jnp.log(l)
    q, k, v = (values(n, d, seed=s) for s in range(3))
    rows, whole = block((b, d), lambda i: (i, 0)), block((64, d), lambda i: (0, 0))
    found = pl.pallas_call(kernel, out_shape=(shape("float32", n, d), shape("float32", n)), grid=(pl.cdiv(n, b),),
                           in_specs=[rows, whole, whole], out_specs=(rows, block((b,), lambda i: i)))(q, k, v)
    at = numpy.arange(n)
    seen = (at[:, None] >= at) & (at[:, None] - at < window)
    s = numpy.where(seen, 5 * numpy.tanh(q.astype("f8") @ k.T / 5), -numpy.inf)
    return found, (softmax(s) @ v, numpy.log(numpy.exp(s).sum(1))), 1e-5


def paged_attention():
    """One query a sequence; pages by a prefetched table in the index map, and nothing done past the length."""
    batch, heads, d, page, most = 3, 4, 32, 8, 4

    def kernel(lengths, table, q_ref, k_ref, v_ref, o_ref, m, l):
        b, j = pl.program_id(0), pl.program_id(1)

        @pl.when(j == 0)
        def _():
            m[...], l[...] = jnp.full_like(m, -1e30), jnp.zeros_like(l)
            o_ref[...] = jnp.zeros_like(o_ref)

        @pl.when(j * page < lengths[b])
        def _():
            s = jnp.einsum("hd,phd->hp", q_ref[...], k_ref[...])
            s = jnp.where(j * page + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < lengths[b], s, -1e30)
            new = jnp.maximum(m[...], s.max(axis=1, keepdims=True))
            p, scale = jnp.exp(s - new), jnp.exp(m[...] - new)
            m[...], l[...] = new, l[...] * scale + p.sum(axis=1, keepdims=True)
            o_ref[...] = o_ref[...] * scale + jnp.einsum("hp,phd->hd", p, v_ref[...])

        @pl.when(j == most - 1)
        def _():
            o_ref[...] /= l[...]
    q, k, v = values(batch, heads, d), values(16, page, heads, d, seed=1), values(16, page, heads, d, seed=2)
    lengths, table = numpy.array([5, 32, 17], "i4"), numpy.random.default_rng(3).permutation(16)[:batch * most].reshape(batch, most).astype("i4")
    rows = block((None, heads, d), lambda b, j, *_: (b, 0, 0))
    pages = block((None, page, heads, d), lambda b, j, lengths, table: (table[b, jnp.minimum(j, (lengths[b] - 1) // page)], 0, 0, 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=2, grid=(batch, most), in_specs=[rows, pages, pages], out_specs=rows,
                                        scratch_shapes=[pltpu.VMEM((heads, 1), F32)] * 2)
    found = pl.pallas_call(kernel, out_shape=shape("float32", batch, heads, d), grid_spec=grid)(lengths, table, q, k, v)
    wanted = []
    for b, n in enumerate(lengths):
        keys, vals = (a[table[b]].reshape(-1, heads, d)[:n].astype("f8") for a in (k, v))
        wanted.append(numpy.einsum("hp,phd->hd", softmax(numpy.einsum("hd,phd->hp", q[b], keys)), vals))
    return found, numpy.stack(wanted), 1e-5


def rotary():
    def kernel(x_ref, cos_ref, sin_ref, o_ref):
        x = x_ref[...]
        half = x.shape[-1] // 2
        turned = jnp.concatenate([-x[..., half:], x[..., :half]], axis=-1)
        o_ref[...] = x * cos_ref[...][:, None] + turned * sin_ref[...][:, None]
    x, angle = values(20, 3, 16), numpy.arange(20)[:, None] * 10.0 ** -numpy.arange(8)
    cos, sin = (numpy.concatenate([f(angle)] * 2, 1).astype("f4") for f in (numpy.cos, numpy.sin))
    rows, table = block((8, 3, 16), lambda i: (i, 0, 0)), block((8, 16), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=shape("float32", 20, 3, 16), grid=(3,), in_specs=[rows, table, table], out_specs=rows)(x, cos, sin)
    turned = (x[..., :8] + 1j * x[..., 8:]) * numpy.exp(1j * angle)[:, None]
    return found, numpy.concatenate([turned.real, turned.imag], -1), 1e-5


# ---- norms, losses, optimizers

def norm_of_a_sum():
    """Two results: the sum that goes on, and its norm in bf16."""
    def kernel(x_ref, r_ref, w_ref, sum_ref, o_ref):
        s = x_ref[...].astype(F32) + r_ref[...]
        sum_ref[...] = s
        o_ref[...] = (s * jax.lax.rsqrt(jnp.mean(s * s, axis=-1, keepdims=True) + 1e-6) * (1 + w_ref[...])).astype(o_ref.dtype)
    x, r, w = jnp.asarray(values(13, 96), "bfloat16"), values(13, 96, seed=1), values(96, seed=2)
    rows = block((4, 96), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=(shape("float32", 13, 96), shape("bfloat16", 13, 96)), grid=(4,),
                           in_specs=[rows, rows, block((96,), lambda i: 0)], out_specs=(rows, rows))(x, r, w)
    s = numpy.asarray(x, "f8") + r
    return found, (s, s / numpy.sqrt((s * s).mean(1, keepdims=True) + 1e-6) * (1 + w)), 1e-2


def layer_norm_backward():
    """Gradients of the weights are summed over the grid in their outputs."""
    def kernel(x_ref, w_ref, g_ref, dx_ref, dw_ref, db_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            dw_ref[...] = jnp.zeros_like(dw_ref)
            db_ref[...] = jnp.zeros_like(db_ref)
        x, g = x_ref[...], g_ref[...]
        c = x - x.mean(axis=1, keepdims=True)
        r = jax.lax.rsqrt((c * c).mean(axis=1, keepdims=True) + 1e-5)
        hat, gw = c * r, g * w_ref[...]
        dx_ref[...] = r * (gw - gw.mean(axis=1, keepdims=True) - hat * (gw * hat).mean(axis=1, keepdims=True))
        dw_ref[...] += (g * hat).sum(axis=0)
        db_ref[...] += g.sum(axis=0)
    x, w, g = values(24, 40), values(40, seed=1), values(24, 40, seed=2)
    rows, row = block((8, 40), lambda i: (i, 0)), block((40,), lambda i: 0)
    found = pl.pallas_call(kernel, out_shape=(shape("float32", 24, 40),) + (shape("float32", 40),) * 2, grid=(3,),
                           in_specs=[rows, row, rows], out_specs=(rows, row, row))(x, w, g)
    x, g = x.astype("f8"), g.astype("f8")
    c = x - x.mean(1, keepdims=True)
    r = 1 / numpy.sqrt((c * c).mean(1, keepdims=True) + 1e-5)
    hat, gw = c * r, g * w
    return found, (r * (gw - gw.mean(1, keepdims=True) - hat * (gw * hat).mean(1, keepdims=True)), (g * hat).sum(0), g.sum(0)), 1e-4


def cross_entropy():
    """The vocabulary in blocks, the last one partial."""
    rows, words, b = 16, 300, 128

    def kernel(x_ref, label_ref, loss_ref, m, l, at):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def _():
            m[...], l[...], at[...] = jnp.full_like(m, -1e30), jnp.zeros_like(l), jnp.zeros_like(at)
        word = j * b + jax.lax.broadcasted_iota(jnp.int32, (8, b), 1)
        x = jnp.where(word < words, x_ref[...], -1e30)
        new = jnp.maximum(m[...], x.max(axis=1))
        l[...] = l[...] * jnp.exp(m[...] - new) + jnp.exp(x - new[:, None]).sum(axis=1)
        at[...] += jnp.where(word == label_ref[...][:, None], x, 0).sum(axis=1)
        m[...] = new

        @pl.when(j == pl.num_programs(1) - 1)
        def _():
            loss_ref[...] = m[...] + jnp.log(l[...]) - at[...]
    x, label = values(rows, words) * 4, numpy.random.default_rng(1).integers(0, words, rows).astype("i4")
    one = block((8,), lambda i, j: i)
    found = pl.pallas_call(kernel, out_shape=shape("float32", rows), grid=(rows // 8, pl.cdiv(words, b)),
                           in_specs=[block((8, b), lambda i, j: (i, j)), one], out_specs=one, scratch_shapes=[pltpu.VMEM((8,), F32)] * 3)(x, label)
    return found, -numpy.log(softmax(x.astype("f8"))[numpy.arange(rows), label]), 1e-4


def adam():
    """Parameters and moments are updated in place; the step is a scalar in SMEM."""
    def kernel(step_ref, g_ref, p_ref, m_ref, v_ref, p_out, m_out, v_out):
        t, g = step_ref[0].astype(F32), g_ref[...]
        m, v = 0.9 * m_ref[...] + 0.1 * g, 0.99 * v_ref[...] + 0.01 * g * g
        p_out[...] = p_ref[...] - 0.1 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8)
        m_out[...], v_out[...] = m, v
    g, p, m, v = values(100), values(100, seed=1), values(100, seed=2), values(100, seed=3) ** 2
    part = block((32,), lambda i: i)
    found = pl.pallas_call(kernel, out_shape=(shape("float32", 100),) * 3, grid=(4,), out_specs=(part,) * 3,
                           in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), part, part, part, part],
                           input_output_aliases={2: 0, 3: 1, 4: 2})(numpy.array([3], "i4"), g, p, m, v)
    m, v = 0.9 * m + 0.1 * g.astype("f8"), 0.99 * v + 0.01 * g.astype("f8") ** 2
    return found, (p - 0.1 * (m / (1 - 0.9**3)) / (numpy.sqrt(v / (1 - 0.99**3)) + 1e-8), m, v), 1e-4


def dropout():
    """Bits of a key folded with the program's number, compared as integers."""
    def kernel(x_ref, o_ref):
        bits = jax.random.bits(jax.random.fold_in(jax.random.key(5), pl.program_id(0)), x_ref.shape)
        o_ref[...] = jnp.where(bits >= jnp.uint32(0.25 * 2**32), x_ref[...] / 0.75, 0)
    x = values(32, 64)
    rows = block((16, 64), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=shape("float32", 32, 64), grid=(2,), in_specs=[rows], out_specs=rows)(x)
    bits = numpy.concatenate([jax.random.bits(jax.random.fold_in(jax.random.key(5), i), (16, 64)) for i in range(2)])
    return found, numpy.where(bits >= 2**30, x / 0.75, 0), 1e-6


# ---- products

def matmul_with_an_epilogue():
    """No extent is a multiple of its block: the last block of k is masked on both sides."""
    m, n, k, b = 40, 72, 50, 32

    def kernel(x_ref, y_ref, bias_ref, rest_ref, o_ref, acc):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)
        left = k - pl.program_id(2) * b
        x = jnp.where(jax.lax.broadcasted_iota(jnp.int32, (b, b), 1) < left, x_ref[...], 0)
        y = jnp.where(jax.lax.broadcasted_iota(jnp.int32, (b, b), 0) < left, y_ref[...], 0)
        acc[...] += jnp.dot(x, y, preferred_element_type=F32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = jax.nn.gelu(acc[...] + bias_ref[...], approximate=True) + rest_ref[...]
    x, y, bias, rest = values(m, k), values(k, n, seed=1), values(1, n, seed=2), values(m, n, seed=3)
    out = block((b, b), lambda i, j, k: (i, j))
    found = pl.pallas_call(
        kernel, out_shape=shape("float32", m, n), grid=(pl.cdiv(m, b), pl.cdiv(n, b), pl.cdiv(k, b)),
        in_specs=[block((b, b), lambda i, j, k: (i, k)), block((b, b), lambda i, j, k: (k, j)), block((1, b), lambda i, j, k: (0, j)), out],
        out_specs=out, scratch_shapes=[pltpu.VMEM((b, b), F32)])(x, y, bias, rest)
    return found, gelu(x.astype("f8") @ y + bias) + rest, 1e-4


def swiglu():
    def kernel(x_ref, gate_ref, up_ref, o_ref):
        gate, up = (jnp.dot(x_ref[...], w[...], preferred_element_type=F32) for w in (gate_ref, up_ref))
        o_ref[...] = (jax.nn.silu(gate) * up).astype(o_ref.dtype)
    x, gate, up = (jnp.asarray(values(*s, seed=k), "bfloat16") for k, s in enumerate([(16, 64), (64, 48), (64, 48)]))
    w = block((64, 16), lambda i, j: (0, j))
    found = pl.pallas_call(kernel, out_shape=shape("bfloat16", 16, 48), grid=(2, 3), in_specs=[block((8, 64), lambda i, j: (i, 0)), w, w],
                           out_specs=block((8, 16), lambda i, j: (i, j)))(x, gate, up)
    x, gate, up = (numpy.asarray(a, "f8") for a in (x, gate, up))
    return found, x @ gate / (1 + numpy.exp(-(x @ gate))) * (x @ up), 1e-2


def matmul_of_int8():
    """Both sides quantised: products in i32, then a scale for each row and column."""
    def kernel(x_ref, w_ref, xs_ref, ws_ref, o_ref, acc):
        @pl.when(pl.program_id(1) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)
        acc[...] += jax.lax.dot_general(x_ref[...], w_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32)

        @pl.when(pl.program_id(1) == 1)
        def _():
            o_ref[...] = acc[...].astype(F32) * xs_ref[...] * ws_ref[...].T
    rng = numpy.random.default_rng(0)
    x, w = (rng.integers(-128, 128, s).astype("i1") for s in [(24, 64), (40, 64)])
    xs, ws = numpy.abs(values(24, 1)), numpy.abs(values(40, 1, seed=1))
    found = pl.pallas_call(
        kernel, out_shape=shape("float32", 24, 40), grid=(3, 2),
        in_specs=[block((8, 32), lambda i, k: (i, k)), block((40, 32), lambda i, k: (0, k)), block((8, 1), lambda i, k: (i, 0)),
                  block((40, 1), lambda i, k: (0, 0))],
        out_specs=block((8, 40), lambda i, k: (i, 0)), scratch_shapes=[pltpu.VMEM((8, 40), jnp.int32)])(x, w, xs, ws)
    return found, (x.astype("f8") @ w.T.astype("f8")) * xs * ws.T, 1e-5


def matmul_of_nibbles():
    """Two weights in a byte, with a scale and a zero point for each group of 16 of k."""
    k, n, group = 64, 24, 16

    def kernel(x_ref, w_ref, s_ref, z_ref, o_ref):
        packed = w_ref[...].astype(jnp.int32)
        w = jnp.stack([packed & 15, packed >> 4], axis=1).reshape(k, n).astype(F32)
        w = (w.reshape(k // group, group, n) - z_ref[...][:, None]) * s_ref[...][:, None]
        o_ref[...] = jnp.dot(x_ref[...], w.reshape(k, n), preferred_element_type=F32)
    rng = numpy.random.default_rng(0)
    x, w = values(8, k), rng.integers(0, 256, (k // 2, n)).astype("u1")
    s, z = values(k // group, n, seed=1), rng.integers(0, 16, (k // group, n)).astype("f4")
    found = pl.pallas_call(kernel, out_shape=shape("float32", 8, n))(x, w, s, z)
    plain = numpy.stack([w & 15, w >> 4], 1).reshape(k // group, group, n).astype("f8")
    return found, x @ ((plain - z[:, None]) * s[:, None]).reshape(k, n), 1e-4


def quantise():
    """Rows to int8 with a scale each."""
    def kernel(x_ref, o_ref, s_ref):
        scale = jnp.max(jnp.abs(x_ref[...]), axis=1, keepdims=True) / 127
        o_ref[...] = jnp.clip(jnp.round(x_ref[...] / scale), -128, 127).astype(jnp.int8)
        s_ref[...] = scale
    x = values(10, 33)
    rows, one = block((4, 33), lambda i: (i, 0)), block((4, 1), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=(shape("int8", 10, 33), shape("float32", 10, 1)), grid=(3,), in_specs=[rows], out_specs=(rows, one))(x)
    scale = numpy.abs(x).max(1, keepdims=True) / numpy.float32(127)
    return found, (numpy.round(x / scale), scale), 1e-6


def matmul_with_copies():
    """Operands in HBM; the next block is on its way to the other half of a buffer while this one is multiplied."""
    m, k, n, b = 16, 96, 32, 16

    def kernel(x_hbm, y_hbm, o_ref, x_buf, y_buf, sems):
        def copies(step, slot):
            at = pl.ds(step * b, b)
            return (pltpu.make_async_copy(x_hbm.at[:, at], x_buf.at[slot], sems.at[slot, 0]),
                    pltpu.make_async_copy(y_hbm.at[at], y_buf.at[slot], sems.at[slot, 1]))

        def start(step, slot):
            for copy in copies(step, slot):
                copy.start()
        start(0, 0)
        o_ref[...] = jnp.zeros_like(o_ref)

        def body(step, slot):
            pl.when(step + 1 < k // b)(functools.partial(start, step + 1, 1 - slot))
            for copy in copies(step, slot):
                copy.wait()
            o_ref[...] += jnp.dot(x_buf[slot], y_buf[slot], preferred_element_type=F32)
            return 1 - slot
        jax.lax.fori_loop(0, k // b, body, 0)
    x, y = values(m, k), values(k, n, seed=1)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    found = pl.pallas_call(kernel, out_shape=shape("float32", m, n), in_specs=[anywhere, anywhere],
                           scratch_shapes=[pltpu.VMEM((2, m, b), F32), pltpu.VMEM((2, b, n), F32), pltpu.SemaphoreType.DMA((2, 2))])(x, y)
    return found, x.astype("f8") @ y, 1e-4


def mixture_of_experts():
    """Rows sorted by expert; the expert of a block is prefetched; the last blocks may hold nothing."""
    experts, d, h, b = 4, 16, 24, 8
    owner, used = numpy.array([2, 0, 0, 3, 3], "i4"), numpy.array([4], "i4")

    def kernel(owner, used, x_ref, gate_ref, w_ref, o_ref):
        @pl.when(pl.program_id(0) < used[0])
        def _():
            o_ref[...] = jnp.dot(x_ref[...], w_ref[0], preferred_element_type=F32) * gate_ref[...][:, None]

        @pl.when(pl.program_id(0) >= used[0])
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)
    x, gate, w = values(5 * b, d), values(5 * b, seed=1), values(experts, d, h, seed=2)
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2, grid=(5, 2), out_specs=block((b, h // 2), lambda i, j, *_: (i, j)),
        in_specs=[block((b, d), lambda i, j, *_: (i, 0)), block((b,), lambda i, j, *_: i),
                  block((1, d, h // 2), lambda i, j, owner, used: (owner[i], 0, j))])
    found = pl.pallas_call(kernel, out_shape=shape("float32", 5 * b, h), grid_spec=grid)(owner, used, x, gate, w)
    wanted = numpy.einsum("bid,bdh->bih", x.reshape(5, b, d).astype("f8"), w[owner]).reshape(-1, h) * gate[:, None]
    wanted[4 * b:] = 0
    return found, wanted, 1e-4


def block_sparse_matmul():
    """Only blocks that are there, by prefetched rows and columns; a new row of blocks begins its output."""
    b, n = 8, 16
    row, col = numpy.array([0, 0, 1, 3, 3, 3], "i4"), numpy.array([1, 3, 0, 0, 2, 3], "i4")

    def kernel(row, col, zeros_ref, x_ref, y_ref, o_ref):
        s = pl.program_id(0)

        @pl.when((s == 0) | (row[s] != row[jnp.maximum(s - 1, 0)]))
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[...] += jnp.dot(x_ref[0], y_ref[...], preferred_element_type=F32)
    x, y = values(6, b, b), values(4 * b, n, seed=1)
    out = block((b, n), lambda s, row, col: (row[s], 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=2, grid=(6,), out_specs=out, in_specs=[
        pl.BlockSpec(memory_space=pl.ANY), block((1, b, b), lambda s, row, col: (s, 0, 0)), block((b, n), lambda s, row, col: (col[s], 0))])
    found = pl.pallas_call(kernel, out_shape=shape("float32", 4 * b, n), grid_spec=grid,
                           input_output_aliases={2: 0})(row, col, numpy.zeros((4 * b, n), "f4"), x, y)
    wanted = numpy.zeros((4, b, n))
    for s in range(6):
        wanted[row[s]] += x[s].astype("f8") @ y[col[s] * b:][:b]
    return found, wanted.reshape(-1, n), 1e-4


# ---- scans, searches, gathers

def selective_scan():
    """A state of each channel, kept in scratch from chunk to chunk, a step of time a round."""
    time, chunk, channels, state = 24, 8, 16, 4

    def kernel(x_ref, dt_ref, a_ref, b_ref, c_ref, o_ref, h):
        @pl.when(pl.program_id(0) == 0)
        def _():
            h[...] = jnp.zeros_like(h)

        def body(t, _):
            x, dt = x_ref[t], jax.nn.softplus(dt_ref[t])
            h[...] = jnp.exp(dt[:, None] * a_ref[...]) * h[...] + (dt * x)[:, None] * b_ref[t][None]
            o_ref[t] = (h[...] * c_ref[t][None]).sum(axis=1)
            return 0
        jax.lax.fori_loop(0, chunk, body, 0)
    x, dt, a, b, c = (values(*s, seed=k) for k, s in enumerate([(time, channels), (time, channels), (channels, state), (time, state), (time, state)]))
    a = -numpy.abs(a)
    wide, narrow = block((chunk, channels), lambda i: (i, 0)), block((chunk, state), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=shape("float32", time, channels), grid=(time // chunk,), out_specs=wide,
                           in_specs=[wide, wide, block((channels, state), lambda i: (0, 0)), narrow, narrow],
                           scratch_shapes=[pltpu.VMEM((channels, state), F32)])(x, dt, a, b, c)
    h, wanted = numpy.zeros((channels, state)), []
    for t in range(time):
        step = numpy.log1p(numpy.exp(dt[t].astype("f8")))
        h = numpy.exp(step[:, None] * a) * h + (step * x[t])[:, None] * b[t]
        wanted.append((h * c[t]).sum(1))
    return found, numpy.stack(wanted), 1e-4


def running_sum():
    """A block's own sums, with what the blocks before it add up to in SMEM."""
    def kernel(x_ref, o_ref, total):
        @pl.when(pl.program_id(0) == 0)
        def _():
            total[0] = 0
        o_ref[...] = jnp.cumsum(x_ref[...]) + total[0]
        total[0] += x_ref[...].sum()
    x = numpy.random.default_rng(0).integers(-9, 9, 96).astype("i4")
    part = block((32,), lambda i: i)
    found = pl.pallas_call(kernel, out_shape=shape("int32", 96), grid=(3,), in_specs=[part], out_specs=part,
                           scratch_shapes=[pltpu.SMEM((1,), jnp.int32)])(x)
    return found, numpy.cumsum(x), 0


def top_k():
    """The largest of each row, taken out one by one; the first of equal ones."""
    def kernel(x_ref, value_ref, index_ref):
        x = x_ref[...]
        column = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
        for k in range(4):
            best = jnp.argmax(x, axis=1).astype(jnp.int32)
            value_ref[:, k], index_ref[:, k] = x.max(axis=1), best
            x = jnp.where(column == best[:, None], -jnp.inf, x)
    x = numpy.random.default_rng(0).integers(-20, 20, (20, 37)).astype("f4")
    out = block((8, 4), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=(shape("float32", 20, 4), shape("int32", 20, 4)), grid=(3,),
                           in_specs=[block((8, 37), lambda i: (i, 0))], out_specs=(out, out))(x)
    order = numpy.argsort(-x, axis=1, kind="stable")[:, :4]
    return found, (numpy.take_along_axis(x, order, 1), order), 0


def embedding():
    """Rows of a table by prefetched numbers, of which some are outside the table."""
    def kernel(words, table_ref, place_ref, o_ref):
        o_ref[...] = jnp.where(words[pl.program_id(0)] < 0, 0, table_ref[...]) + place_ref[...]
    words, table, places = numpy.array([3, 0, -1, 7, 3, 9, -1], "i4"), values(10, 24), values(7, 24, seed=1)
    row = block((None, 1, 24), lambda i, words: (i, 0, 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(7,), out_specs=row, in_specs=[
        block((None, 1, 24), lambda i, words: (jnp.maximum(words[i], 0), 0, 0)), row])
    found = pl.pallas_call(kernel, out_shape=shape("float32", 7, 1, 24), grid_spec=grid)(words, table[:, None], places[:, None])
    return found, (numpy.where(words[:, None] < 0, 0, table[words]) + places)[:, None], 1e-6


def causal_convolution():
    """Four taps a channel; what they need of the chunk before is kept in scratch."""
    def kernel(x_ref, w_ref, o_ref, tail):
        @pl.when(pl.program_id(0) == 0)
        def _():
            tail[...] = jnp.zeros_like(tail)
        x = jnp.concatenate([tail[...], x_ref[...]], axis=0)
        o_ref[...] = jax.nn.silu(sum(x[t:t + 8] * w_ref[t] for t in range(4)))
        tail[...] = x_ref[5:, :]
    x, w = values(24, 16), values(4, 16, seed=1)
    rows = block((8, 16), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=shape("float32", 24, 16), grid=(3,), in_specs=[rows, block((4, 16), lambda i: (0, 0))],
                           out_specs=rows, scratch_shapes=[pltpu.VMEM((3, 16), F32)])(x, w)
    padded = numpy.concatenate([numpy.zeros((3, 16)), x])
    y = sum(padded[t:t + 24] * w[t] for t in range(4))
    return found, y / (1 + numpy.exp(-y)), 1e-5


KERNELS = [flash_attention, attention_of_gpus, paged_attention, rotary, norm_of_a_sum, layer_norm_backward, cross_entropy, adam, dropout,
           matmul_with_an_epilogue, swiglu, matmul_of_int8, matmul_of_nibbles, quantise, matmul_with_copies, mixture_of_experts,
           block_sparse_matmul, selective_scan, running_sum, top_k, embedding, causal_convolution]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_kernel(kernel):
    pkc.pallas.install()
    found, wanted, tolerance = kernel()
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.shape == b.shape
        numpy.testing.assert_allclose(numpy.asarray(a).astype("f8"), numpy.asarray(b).astype("f8"), rtol=tolerance, atol=tolerance)
