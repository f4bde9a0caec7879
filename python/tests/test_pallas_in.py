"""pkc.pallas: kernels of JAX's Pallas, unchanged, compiled; compared with NumPy and with JAX's interpreter."""
import functools
import inspect
import re

import numpy
import pytest

from pallas_calls import installed, jax, jnp, like, matmul_kernel, pl, pltpu, values  # noqa: F401 (installed: a fixture)
import pkc.pallas


def both(f, *args, rtol=1e-5, atol=1e-5):
    """f(interpret, *args) compiled and interpreted."""
    found, wanted = f(False, *args), f(True, *args)
    jax.tree.map(lambda a, b: numpy.testing.assert_allclose(a, b, rtol=rtol, atol=atol), found, wanted)
    return found


# ---- whole kernels

def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + 2 * y_ref[...]


def add(x, y, block=8):
    spec = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(add_kernel, out_shape=like(x), grid=(pl.cdiv(x.shape[0], block),), in_specs=[spec, spec], out_specs=spec)(x, y)


@pytest.mark.parametrize("rows", [1, 8, 13, 40])
def test_add(rows):
    x, y = values(rows, 128), values(rows, 128, seed=1)
    numpy.testing.assert_array_equal(add(x, y), x + 2 * y)
    numpy.testing.assert_array_equal(jax.jit(lambda x, y: add(x + 1, y) * 2)(x, y), (x + 1 + 2 * y) * 2)


def matmul(x, y, block=32):
    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        matmul_kernel, out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), grid=(m // block, n // block, k // block),
        in_specs=[pl.BlockSpec((block, block), lambda i, j, k: (i, k)), pl.BlockSpec((block, block), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")))(x, y)


def test_matmul():
    x, y = values(64, 96), values(96, 128, seed=1)
    numpy.testing.assert_allclose(jax.jit(matmul)(x, y), x @ y, rtol=1e-4, atol=1e-4)
    half = matmul(jnp.asarray(x, "bfloat16"), jnp.asarray(y, "bfloat16"))
    assert half.dtype == jnp.bfloat16
    numpy.testing.assert_allclose(numpy.asarray(half, "f4"), x @ y, rtol=0.05, atol=0.3)


def add_one(x_ref, o_ref):
    x = x_ref[...]
    m = jnp.max(x, axis=1, keepdims=True)
    e = jnp.exp(x - m)
    o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)


def softmax(x):
    spec = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(add_one, out_shape=like(x), grid=(pl.cdiv(x.shape[0], 8),), in_specs=[spec], out_specs=spec)(x)


def test_softmax_in_transformations():
    x = values(3, 20, 77)
    wanted = numpy.asarray(jax.nn.softmax(x))
    numpy.testing.assert_allclose(softmax(x[0]), wanted[0], rtol=1e-5)
    numpy.testing.assert_allclose(jax.vmap(softmax)(x), wanted, rtol=1e-5)
    numpy.testing.assert_allclose(jax.lax.map(softmax, x), wanted, rtol=1e-5)
    scanned = jax.lax.scan(lambda c, x: (c + 1, softmax(x)), 0, x)[1]
    numpy.testing.assert_allclose(scanned, wanted, rtol=1e-5)


def test_custom_vjp():
    f = jax.custom_vjp(softmax)
    f.defvjp(lambda x: (softmax(x),) * 2, lambda o, g: ((g - (g * o).sum(1, keepdims=True)) * o,))
    x, w = values(9, 33), values(9, 33, seed=1)
    found = jax.grad(lambda x: (f(x) * w).sum())(x)
    numpy.testing.assert_allclose(found, jax.grad(lambda x: (jax.nn.softmax(x) * w).sum())(x), rtol=1e-4, atol=1e-5)


# ---- one call without a grid

def run(kernel, *args, out=None, interpret=False, scratch=()):
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(*a), out, is_leaf=lambda a: isinstance(a, tuple)) if out else like(args[0])
    return pl.pallas_call(kernel, out_shape=shapes, interpret=interpret, scratch_shapes=scratch)(*args)


def test_carries_change_together():
    def kernel(x_ref, o_ref):
        def body(i, carry):
            a, b = carry
            return b + x_ref[i, :], a * 2
        a, b = jax.lax.fori_loop(0, 8, body, (jnp.zeros(16), jnp.ones(16)))
        o_ref[0, :] = a
        o_ref[1:, :] = jnp.broadcast_to(b, (7, 16))
    both(lambda i, x: run(kernel, x, interpret=i), values(8, 16))


def test_loops_with_bounds_and_conditions():
    def kernel(n_ref, x_ref, o_ref):
        o_ref[0, :] = jax.lax.fori_loop(0, n_ref[0], lambda i, c: c + x_ref[i, :], jnp.zeros(16))
        steps, left = jax.lax.while_loop(lambda c: (c[1] > 1) & (c[0] < 50), lambda c: (c[0] + 1, c[1] // 2), (0, n_ref[1]))
        o_ref[1, :] = jnp.full((16,), steps + left, jnp.float32)
        last, rows = jax.lax.scan(lambda c, x: (c + x, c * x), jnp.ones(16), x_ref[...])
        o_ref[2, :] = last
        o_ref[pl.ds(3, 5), :] = rows[3:]
        o_ref[7, :] = jax.lax.scan(lambda c, x: (c * 0.5 + x, None), jnp.ones(16), x_ref[...], reverse=True)[0]
    n = numpy.array([5, 1000], "i4")
    both(lambda i, n, x: run(kernel, n, x, interpret=i, out=((8, 16), "float32")), n, values(8, 16))


@pytest.mark.parametrize("which", [-1, 0, 1, 2, 7])
def test_branches_with_values(which):
    def kernel(w_ref, x_ref, o_ref):
        x = x_ref[...]
        a, n = jax.lax.switch(w_ref[0], [lambda: (x, 1), lambda: (x + 1, 2), lambda: (jnp.sin(x), 3)])
        o_ref[...] = jax.lax.cond(x[0, 0] > 0, lambda a: a * 2, lambda a: a - 1, a) + n
    both(lambda i, w, x: run(kernel, w, x, interpret=i, out=((8, 16), "float32")), numpy.array([which], "i4"), values(8, 16))


def test_a_load_is_a_snapshot():
    def kernel(x_ref, o_ref, s_ref):
        s_ref[...] = x_ref[...]
        before = s_ref[...]
        s_ref[...] = before * 3
        o_ref[...] = before - s_ref[...]
    x = values(8, 16)
    numpy.testing.assert_array_equal(run(kernel, x, scratch=[pltpu.VMEM((8, 16), jnp.float32)]), x - x * 3)


def test_windows():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[0, 2:6] = x_ref[7, pl.ds(3, 4)]
        o_ref.at[pl.ds(2, 4)][1, :] = x_ref.at[3:7, :].at[2][...]
        o_ref[6:8, 4] = x_ref[1:3, 5]
        o_ref[4, :] += x_ref[0, :]
    both(lambda i, x: run(kernel, x, interpret=i), values(8, 16))


def test_rounding_of_integers():
    def kernel(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[...]
        o_ref[0] = x // y
        o_ref[1] = x % y
        o_ref[2] = jax.lax.div(x, y)
        o_ref[3] = jax.lax.rem(x, y)
        o_ref[4] = (x << 3) ^ (y >> 1) & ~x
        o_ref[5] = jnp.clip(x, -3, 5)
    x = numpy.arange(-20, 20, dtype="i4")
    y = numpy.where(x % 7 < 4, 3, -5).astype("i4")
    both(lambda i, x, y: run(kernel, x, y, interpret=i, out=((6, 40), "int32")), x, y)


def test_program_id_of_a_batch():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + pl.program_id(0).astype(jnp.float32)
    spec = pl.BlockSpec((2, 16), lambda i: (i, 0))
    x = values(3, 8, 16)
    both(lambda i, x: jax.vmap(lambda x: pl.pallas_call(kernel, out_shape=like(x), grid=(4,), in_specs=[spec], out_specs=spec,
                                                        interpret=i)(x))(x), x)


def test_prefetched_scalars_and_dynamic_grids():
    def kernel(row_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * row_ref[pl.program_id(0)].astype(jnp.float32)

    def f(interpret, n, rows, x):
        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(n,), in_specs=[pl.BlockSpec((1, 16), lambda i, row: (row[i], 0))],
            out_specs=pl.BlockSpec((1, 16), lambda i, row: (i, 0)))
        return pl.pallas_call(kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct((4, 16), x.dtype), interpret=interpret)(rows, x)
    rows, x = numpy.array([5, 0, 5, 2], "i4"), values(6, 16)
    wanted = x[rows] * rows[:, None].astype("f4")
    numpy.testing.assert_array_equal(f(False, 4, rows, x), wanted)
    found = jax.jit(functools.partial(f, False))(jnp.int32(3), rows, x)
    numpy.testing.assert_array_equal(found[:3], wanted[:3])


def test_alias():
    def kernel(x_ref, o_ref):
        o_ref[0, :] = x_ref[0, :] * 2
    x = values(8, 16)
    found = pl.pallas_call(kernel, out_shape=like(x), input_output_aliases={0: 0})(x)
    numpy.testing.assert_array_equal(found, numpy.concatenate([x[:1] * 2, x[1:]]))


@pytest.mark.parametrize("space", [None, pltpu.SMEM])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_alias_that_is_read(shape, space):
    """The output holds what the input holds before anything is stored, of scalars too."""
    def kernel(x_ref, o_ref, p_ref):
        k = () if not shape else (1,)
        p_ref[k] = o_ref[k] * 2
        o_ref[k] = jnp.where(o_ref[k] == 5, o_ref[k] + 1, o_ref[k])
    spec = pl.BlockSpec(memory_space=space)
    call = pl.pallas_call(kernel, out_shape=(jax.ShapeDtypeStruct(shape, "int32"),) * 2, in_specs=[spec], out_specs=(spec, spec),
                          input_output_aliases={0: 0})
    for number in (5, 7):
        x = jnp.full(shape, number, jnp.int32)
        o, p = jax.jit(call)(x)
        k = () if not shape else 1
        assert (o[k], p[k]) == (number + (number == 5), number * 2)
        if shape:
            assert (o[0], o[2]) == (number, number)


def test_words_of_triton():
    triton = pytest.importorskip("jax.experimental.pallas.triton", reason="JAX has no Pallas for GPUs")

    def kernel(x_ref, lock_ref, o_ref, held_ref, old_ref):
        i = triton.max_contiguous(pl.multiple_of(pl.program_id(0) * 8, 8), 8)
        triton.debug_barrier()
        o_ref[pl.ds(i, 8)] = triton.approx_tanh(x_ref[pl.ds(i, 8)])
        old_ref[()] = triton.atomic_cas(held_ref, 0, 1)
    x, scalar = values(32), jax.ShapeDtypeStruct((), "int32")
    for held in (0, 2):
        o, now, old = pl.pallas_call(kernel, grid=(4,), out_shape=(like(x), scalar, scalar), input_output_aliases={1: 1})(x, jnp.int32(held))
        numpy.testing.assert_allclose(o, numpy.tanh(x), rtol=1e-6)
        assert (now, old) == ((1, 1) if held == 0 else (2, 2))


def test_slices_that_start_at_the_only_element_of_an_array():
    triton = pytest.importorskip("jax.experimental.pallas.triton", reason="JAX has no Pallas for GPUs")

    def kernel(order_ref, starts_ref, x_ref, o_ref):
        which = triton.load(order_ref.at[pl.ds(pl.program_id(0), 1)])
        start = triton.load(starts_ref.at[pl.ds(which, 1)])
        o_ref[0] = triton.load(x_ref.at[pl.ds(start * 2, 4)])
    x, order, starts = values(32), jnp.array([2, 0, 1]), jnp.array([3, 0, 13])
    found = pl.pallas_call(kernel, grid=(3,), out_specs=pl.BlockSpec((1, 4), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((3, 4), "float32"))(order, starts, x)
    numpy.testing.assert_array_equal(found, [x[start:start + 4] for start in (26, 6, 0)])


@pytest.mark.parametrize("at", [-3, 0, 4, 9, 20])
@pytest.mark.parametrize("way", ["load", "window", "column", "store", "swap", "add"])
def test_lanes_of_triton_keep_their_places(way, at):
    """Without a mask past the end: those outside are unspecified, and no other one moves."""
    triton = pytest.importorskip("jax.experimental.pallas.triton", reason="JAX has no Pallas for GPUs")
    primitives = pytest.importorskip("jax._src.pallas.primitives")

    def kernel(s_ref, x_ref, o_ref):
        s = s_ref[0]
        inside = (s + jnp.arange(8) >= 0) & (s + jnp.arange(8) < 12)
        if way == "column":
            x = triton.load(x_ref.at[pl.ds(s, 8), 1])
        elif way == "window":
            x = triton.load(x_ref.at[2:12].at[pl.ds(s - 2, 8), 0])
            inside &= s + jnp.arange(8) >= 2
        else:
            x = triton.load(x_ref.at[pl.ds(s, 8), 0])
        if way == "store":
            triton.store(o_ref.at[pl.ds(s, 8), 1], x + 1)
        elif way == "swap":
            x = primitives.swap(o_ref, (pl.ds(s, 8), 1), x + 1)
        elif way == "add":
            x = triton.atomic_add(o_ref, (pl.ds(s, 8), 1), jnp.where(inside, x, 0))
        triton.store(o_ref.at[pl.ds(s, 8), 0], x * 2, mask=inside)

    x, lanes = values(12, 2), at + numpy.arange(8)
    call = pl.pallas_call(kernel, out_shape=like(x), input_output_aliases={1: 0})
    wanted = x.copy()
    first = 2 if way == "window" else 0
    kept = lanes[(lanes >= first) & (lanes < 12)]
    wanted[kept, 0] = 2 * x[kept, int(way in ("column", "swap", "add"))]
    if way in ("store", "swap", "add"):
        wanted[kept, 1] = x[kept, 0] + (x[kept, 1] if way == "add" else 1)
    numpy.testing.assert_array_equal(call(numpy.array([at], "i4"), x), wanted)


def test_slices_of_triton_longer_than_their_axis():
    triton = pytest.importorskip("jax.experimental.pallas.triton", reason="JAX has no Pallas for GPUs")

    def kernel(s_ref, x_ref, o_ref, *, masked=False):
        mask = {"mask": s_ref[0] + jnp.arange(16) < 12} if masked else {}
        o_ref[...] = triton.load(x_ref.at[pl.ds(s_ref[0], 16)], other=0.0 if masked else None, **mask)
    s, x, out = numpy.array([4], "i4"), values(12), jax.ShapeDtypeStruct((16,), "float32")
    with pytest.raises(pkc.pallas.TranslationError, match="(?s)a slice of 16 elements of an axis of 12, without a mask.*Give it a mask"):
        pl.pallas_call(kernel, out_shape=out)(s, x)
    found = pl.pallas_call(functools.partial(kernel, masked=True), out_shape=out)(s, x)
    numpy.testing.assert_array_equal(found, numpy.concatenate([x[4:], numpy.zeros(8, "f4")]))


def test_copies():
    def kernel(x_ref, o_ref, buf, sem):
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(8, 8), :], buf.at[1], sem.at[0])
        copy.start()
        copy.wait()

        def scoped(twice, done):
            twice[...] = buf[1] * 2
            pltpu.sync_copy(twice, o_ref)
            pl.semaphore_signal(done, 2)
            pl.semaphore_wait(done, 2)
        pl.run_scoped(scoped, pltpu.VMEM((8, 16), jnp.float32), pltpu.SemaphoreType.REGULAR)
    x = values(24, 16)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 16), x.dtype), in_specs=[anywhere], out_specs=anywhere,
                           scratch_shapes=[pltpu.VMEM((2, 8, 16), jnp.float32), pltpu.SemaphoreType.DMA((2,))])(x)
    numpy.testing.assert_array_equal(found, x[8:16] * 2)


def test_functions_of_numpy():
    def kernel(x_ref, o_ref):
        v = x_ref[...]
        a, b = jnp.split(v, 2, axis=1)
        moved = jnp.concatenate([b, a], axis=1) + jnp.pad(v[:, 1:-1], ((0, 0), (1, 1)), constant_values=2.0) + jnp.roll(v, 3, axis=1)
        copied = jnp.tile(a, (1, 2)) + jnp.flip(v, 0) + jnp.repeat(a, 2, axis=1) + jnp.stack([v, v]).sum(0)
        picked = jnp.take_along_axis(v, jnp.argsort(v, axis=1), axis=1) + jnp.outer(v[:, 0], v[0])
        changed = v.at[2, 3].set(9.0) + v.at[1:3].add(1.0) + jnp.tril(jnp.ones(v.shape))
        reduced = jnp.cumsum(v, 1) + jnp.linalg.norm(v, axis=1, keepdims=True) + jnp.mean(v) + jnp.var(v, axis=0)
        o_ref[...] = moved + copied + picked + changed + reduced + jax.nn.gelu(v) + jax.nn.softplus(v) + jnp.logaddexp(v, v)
    both(lambda i, x: run(kernel, x, interpret=i), values(8, 16), atol=1e-4)


def test_float4():
    """Weights of float4 in blocks: loaded, scaled, multiplied and stored."""
    fp4 = getattr(jnp, "float4_e2m1fn", None)
    if fp4 is None:
        pytest.skip("this JAX has no float4_e2m1fn")

    def kernel(w_ref, s_ref, x_ref, o_ref, c_ref):
        w = w_ref[...].astype(jnp.float32) * s_ref[...]
        o_ref[...] = jnp.dot(x_ref[...], w, preferred_element_type=jnp.float32)
        c_ref[...] = (w / 2).astype(c_ref.dtype)
    codes = numpy.random.default_rng(0).integers(0, 16, (64, 48)).astype("u1")
    w, s, x = codes.view(fp4), numpy.exp2(numpy.arange(48) % 3 - 1.0).astype("f4")[None], values(8, 64)
    rows = pl.BlockSpec((64, 16), lambda j: (0, j))
    o, c = jax.jit(pl.pallas_call(
        kernel, out_shape=(jax.ShapeDtypeStruct((8, 48), "float32"), jax.ShapeDtypeStruct((64, 48), fp4)), grid=(3,),
        in_specs=[rows, pl.BlockSpec((1, 16), lambda j: (0, j)), pl.BlockSpec((8, 64), lambda j: (0, 0))],
        out_specs=(pl.BlockSpec((8, 16), lambda j: (0, j)), rows)))(jnp.asarray(w), s, x)
    wide = w.astype("f4") * s
    numpy.testing.assert_allclose(o, x @ wide, rtol=1e-5, atol=1e-4)
    numpy.testing.assert_array_equal(numpy.asarray(c).astype("f4"), (wide / 2).astype(fp4).astype("f4"))


def test_einsum():
    def kernel(q_ref, k_ref, o_ref):
        o_ref[...] = jnp.einsum("abqd,abkd->bakq", q_ref[...], k_ref[...])
    q, k = values(2, 3, 8, 16), values(2, 3, 4, 16, seed=1)
    found = run(kernel, q, k, out=((3, 2, 4, 8), "float32"))
    numpy.testing.assert_allclose(found, numpy.einsum("abqd,abkd->bakq", q, k), rtol=1e-4, atol=1e-4)


def test_nested_loops():
    def kernel(x_ref, o_ref):
        def outer(i, c):
            def inner(j, d):
                return jax.lax.cond(j % 2 == 0, lambda d: d + x_ref[i, j], lambda d: d * 1.5, d)
            return c + jax.lax.fori_loop(0, i + 1, inner, jnp.float32(0))
        o_ref[0, 0] = jax.lax.fori_loop(0, 8, outer, jnp.float32(1))
        o_ref[0, 1:] = jnp.zeros(15)
        o_ref[1:, :] = x_ref[1:, :]

        @pl.loop(2, 6)
        def _(k):
            @pl.when(k > 3)
            def _():
                o_ref[k, :] = x_ref[k, :] * k.astype(jnp.float32)
    both(lambda i, x: run(kernel, x, interpret=i), values(8, 16))


def test_names_that_the_language_has():
    def größe(grid, kernel, let, o):
        sum = grid[...] + kernel[...]  # naïve ∑ \
        fn = jnp.exp(sum)
        o[...] = fn + sum + let[...]
    x = values(8, 16)
    numpy.testing.assert_allclose(run(größe, x, x, x), numpy.exp(2 * x) + 3 * x, rtol=1e-5)


@pytest.mark.parametrize("dtype", "bfloat16 float16 int8 uint8 int16 uint32 bool float8_e4m3fn".split())
def test_dtypes(dtype):
    def kernel(a_ref, b_ref, o_ref, m_ref):
        a, b = a_ref[...].astype(jnp.float32), b_ref[...].astype(jnp.float32)
        o_ref[...] = jnp.where(a > b, a_ref[...], b_ref[...])
        m_ref[...] = jnp.max(a, axis=0, keepdims=True)
    a, b = (jnp.asarray(abs(values(8, 16, seed=s)) * 5).astype(dtype) for s in (0, 1))
    o, m = run(kernel, a, b, out=[((8, 16), dtype), ((1, 16), "float32")])
    wide = [numpy.asarray(v).astype("f4") for v in (a, b)]
    assert o.dtype == a.dtype
    numpy.testing.assert_array_equal(numpy.asarray(o).astype("f4"), numpy.maximum(*wide))
    numpy.testing.assert_array_equal(m, wide[0].max(0, keepdims=True))


@pytest.mark.parametrize("rows", [0, 3])
def test_small_arrays(rows):
    x = values(rows, 128)
    assert add(x, x).shape == (rows, 128)
    numpy.testing.assert_array_equal(run(add_kernel, x, x), 3 * x)


def test_views_of_refs():
    def kernel(x_ref, o_ref, s_ref):
        s_ref[...] = x_ref[...]
        o_ref[...] = s_ref.bitcast(jnp.int32)[...] + s_ref.reshape(2, 8, 16).bitcast(jnp.int32)[1, 0:1, :]
    x = values(16, 16)
    found = run(kernel, x, out=((16, 16), "int32"), scratch=[pltpu.VMEM((16, 16), jnp.float32)])
    numpy.testing.assert_array_equal(found, x.view("i4") + x.view("i4")[8:9])


def test_copies_of_parts_of_views():
    def kernel(at_ref, x_ref, o_ref, p_ref, s_ref, sem):
        rows, n = x_ref.reshape(6 * 16, 128), at_ref[1]
        s_ref[...] = jnp.zeros_like(s_ref)
        pltpu.sync_copy(rows.at[pl.ds(at_ref[0], n)], s_ref.reshape(32, 128).at[pl.ds(3, n)])
        pltpu.sync_copy(s_ref, o_ref)
        words = x_ref.bitcast(jnp.int16).at[at_ref[2]].reshape(4, 8, 128)
        copy = pltpu.make_async_copy(words.at[pl.ds(1, 2)], p_ref.bitcast(jnp.int16), sem)
        copy.start()
        copy.wait()
    x = values(6, 16, 128)
    for at in ([7, 21, 3], [95, 1, 0], [0, 0, 5]):
        grid = pltpu.PrefetchScalarGridSpec(1, grid=(1,), in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                                            out_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
                                            scratch_shapes=[pltpu.VMEM((2, 16, 128), jnp.float32), pltpu.SemaphoreType.DMA])
        shapes = [jax.ShapeDtypeStruct((2, 16, 128), "float32"), jax.ShapeDtypeStruct((2, 4, 128), "float32")]
        found, words = pl.pallas_call(kernel, out_shape=shapes, grid_spec=grid)(numpy.array(at, "i4"), x)
        wanted = numpy.zeros((32, 128), "f4")
        wanted[3:3 + at[1]] = x.reshape(96, 128)[at[0]:at[0] + at[1]]
        numpy.testing.assert_array_equal(found.reshape(32, 128), wanted)
        numpy.testing.assert_array_equal(words, x[at[2], 4:12].reshape(2, 4, 128))


def test_inputs_in_hbm_as_scratch():
    def kernel(x_ref, spare_ref, o_ref, s_ref):
        pltpu.sync_copy(spare_ref.at[1], o_ref.at[1])
        pltpu.sync_copy(x_ref, spare_ref.at[0])
        pltpu.sync_copy(spare_ref.at[0], s_ref)
        o_ref[0] = s_ref[...]
    x, spare = values(8, 128), values(2, 8, 128)
    before = spare.copy()
    specs = [pl.BlockSpec(memory_space=pltpu.VMEM), pl.BlockSpec(memory_space=pl.ANY)]
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((2, 8, 128), "float32"), in_specs=specs,
                           scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)])(x, spare)
    numpy.testing.assert_array_equal(found, numpy.stack([x, before[1]]))
    numpy.testing.assert_array_equal(spare, before)


def test_a_copy_of_no_rows_past_the_end():
    def kernel(n_ref, x_ref, o_ref, s_ref, sem):
        s_ref[...] = jnp.zeros_like(s_ref)
        for start in (0, 8):
            copy = pltpu.make_async_copy(x_ref.at[pl.ds(jnp.int32(1) * start, n_ref[start // 8])], s_ref.at[pl.ds(start // 2, n_ref[start // 8])], sem)
            copy.start()
            copy.wait()
        o_ref[...] = s_ref[...]
    x = values(8, 128)
    grid = pltpu.PrefetchScalarGridSpec(1, grid=(1,), in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                                        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA])
    for n in (0, 3):
        found = pl.pallas_call(kernel, out_shape=like(x), grid_spec=grid)(numpy.array([n, 0], "i4"), x)
        numpy.testing.assert_array_equal(found, numpy.where(numpy.arange(8)[:, None] < n, x, 0))


@pytest.mark.parametrize("start, stride", [(0, 1), (4, 1), (1, 2)])
def test_copies_of_constant_windows_past_the_end(start, stride):
    """What the source lacks arrives as zeros, what the target lacks is left out, and nothing else is changed."""
    def kernel(x_ref, o_ref, s_ref, sem):
        zero = jnp.zeros((), "int32")  # JAX itself refuses starts whose values it knows
        s_ref[...] = jnp.full_like(s_ref, 7)
        pltpu.sync_copy(x_ref.at[pl.ds(zero + 2, 8), pl.ds(zero + start, 16, stride)], s_ref.at[pl.ds(0, 8)])
        copy = pltpu.make_async_copy(s_ref.at[pl.ds(zero + 4, 6), pl.ds(2, 14)], o_ref.at[pl.ds(zero + 2, 6), pl.ds(zero, 14)], sem)
        copy.start()
        copy.wait()
    x, anywhere = values(8, 11), pl.BlockSpec(memory_space=pl.ANY)
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((9, 13), "float32"), in_specs=[anywhere], out_specs=anywhere,
                           scratch_shapes=[pltpu.VMEM((10, 16), jnp.float32), pltpu.SemaphoreType.DMA])(x)
    held = numpy.full((10, 16), 7, "f4")
    held[:8] = 0
    part = x[2:, start::stride]
    held[:6, :part.shape[1]] = part
    numpy.testing.assert_array_equal(found[2:8], held[4:10, 2:15])


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_copies_of_some_rows_past_the_end_of_a_row(n):
    """The zeros are put into the rows that are copied alone."""
    def kernel(n_ref, x_ref, o_ref, s_ref):
        s_ref[...] = jnp.full_like(s_ref, 7)
        pltpu.sync_copy(x_ref.at[pl.ds(2, n_ref[0]), pl.ds(jnp.zeros((), "int32") + 4, 16)], s_ref.at[1, pl.ds(n_ref[1], n_ref[0])])
        o_ref[...] = s_ref[...]
    x, smem = values(10, 11), pl.BlockSpec(memory_space=pltpu.SMEM)
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((2, 9, 16), "float32"), in_specs=[smem, pl.BlockSpec(memory_space=pl.ANY)],
                           scratch_shapes=[pltpu.VMEM((2, 9, 16), jnp.float32)])(numpy.array([n, 1], "i4"), x)
    wanted = numpy.full((2, 9, 16), 7, "f4")
    wanted[1, 1:1 + n] = numpy.pad(x[2:2 + n, 4:], ((0, 0), (0, 9)))
    numpy.testing.assert_array_equal(found, wanted)


def test_a_copy_past_the_end_into_hbm_is_refused():
    """A store cannot put the zeros there."""
    def kernel(x_ref, o_ref):
        pltpu.sync_copy(x_ref.at[pl.ds(jnp.zeros((), "int32") + 4, 8)], o_ref)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    with pytest.raises(Exception, match="a copy to HBM of elements past the end"):
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 16), "float32"), in_specs=[anywhere], out_specs=anywhere)(values(8, 16))


def test_pinned_buffers():
    """Two calls that update a pinned buffer; the array that was pinned stays."""
    state = pytest.importorskip("jax._src.state.primitives")

    def kernel(x_ref, o_ref, s_ref):
        pltpu.sync_copy(x_ref.at[1], s_ref)
        s_ref[...] = s_ref[...] * 2
        pltpu.sync_copy(s_ref, o_ref.at[0])
        pltpu.sync_copy(s_ref, o_ref.at[1])
    anywhere = pl.BlockSpec(memory_space=pl.ANY)

    @jax.jit
    def f(x):
        found = state.pin(x)
        for _ in range(2):
            found = pl.pallas_call(kernel, out_shape=found, in_specs=[anywhere], out_specs=anywhere, input_output_aliases={0: 0},
                                   scratch_shapes=[pltpu.VMEM((128,), jnp.float32)])(found)
        return state.unpin(found)
    x = jnp.asarray(values(3, 128))
    before = numpy.array(x)
    numpy.testing.assert_array_equal(f(x), numpy.stack([before[1] * 4, before[1] * 4, before[2]]))
    numpy.testing.assert_array_equal(x, before)


def test_regular_semaphores_that_one_call_hands_to_another():
    """Their counts go on: made by the steps of a grid, waited for, aliased, and read."""
    def first(x_ref, o_ref, one_ref, three_ref):
        o_ref[...] = x_ref[...] + 1
        pl.semaphore_signal(one_ref, 2)
        pl.semaphore_signal(three_ref.at[1], 3)

    def second(y_ref, one_ref, three_ref, o_ref, same_ref):
        pl.semaphore_wait(one_ref, 1)
        pl.semaphore_wait(three_ref.at[1], 6)
        pl.semaphore_signal(same_ref, 4)
        o_ref[...] = y_ref[...] * 2

    def third(y_ref, one_ref, o_ref):
        o_ref[...] = y_ref[...] + pl.semaphore_read(one_ref).astype(jnp.float32)
        pl.semaphore_wait(one_ref, 7)
    held, vmem, regular = pl.BlockSpec(memory_space=pltpu.SEMAPHORE), pl.BlockSpec(memory_space=pltpu.VMEM), pltpu.SemaphoreType.REGULAR

    @jax.jit
    def f(x):
        y, one, three = pl.pallas_call(first, grid=(2,), out_shape=[like(x), regular(()), regular((3,))], in_specs=[vmem], out_specs=[vmem, held, held])(x)
        y, one = pl.pallas_call(second, out_shape=[like(x), regular(())], in_specs=[vmem, held, held], out_specs=[vmem, held],
                                input_output_aliases={1: 1})(y, one, three)
        return pl.pallas_call(third, out_shape=like(x), in_specs=[vmem, held], out_specs=vmem)(y, one)
    x = values(8, 128)
    numpy.testing.assert_array_equal(f(x), (x + 1) * 2 + 7)


def test_signals_to_the_only_core():
    """Of a kernel without other devices: by an axis of cores, and by a core's number."""
    if not hasattr(pl, "kernel"):
        pytest.skip("JAX has no pl.kernel")

    def kernel(x_ref, o_ref, sem):
        for core in range(jax.lax.axis_size("core")):
            pl.semaphore_signal(sem, device_id={"core": core})
        pl.semaphore_signal(sem, 2, core_index=0)
        pl.semaphore_wait(sem, 3)
        pltpu.sync_copy(x_ref, o_ref)
    words = ("out_type", "scratch_types") if "out_type" in inspect.signature(pl.kernel).parameters else ("out_shape", "scratch_shapes")
    mesh = pltpu.TensorCoreMesh(axis_name="core") if jax.__version_info__ >= (0, 11) else pltpu.create_tensorcore_mesh("core")
    x = values(8, 128)
    numpy.testing.assert_array_equal(pl.kernel(kernel, mesh=mesh, **dict(zip(words, (like(x), [pltpu.SemaphoreType.REGULAR]))))(x), x)


def test_one_row_again_and_again():
    def kernel(at_ref, x_ref, o_ref):
        o_ref[0] = x_ref[pl.ds(at_ref[0], 8, 0), :]
        o_ref[1] = x_ref[pl.ds(2, 8, 0), pl.ds(at_ref[0], 128, 0)]
    x = values(8, 128)
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((2, 8, 128), "float32"),
                           in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()])(numpy.array([5], "i4"), x)
    numpy.testing.assert_array_equal(found[0], x[5:6].repeat(8, 0))
    numpy.testing.assert_array_equal(found[1], numpy.full((8, 128), x[2, 5]))


def test_copies_of_int4_as_words():
    def kernel(x_ref, y_ref, o_ref, p_ref, s_ref, t_ref):
        pltpu.sync_copy(x_ref.bitcast(jnp.int32), s_ref)
        pltpu.sync_copy(y_ref, t_ref.bitcast(jnp.int32))
        o_ref[...], p_ref[...] = s_ref[...], t_ref[...].astype(jnp.int32)
    small = numpy.random.default_rng(0).integers(-8, 8, (64, 128)).astype("i4")
    words = sum((small.reshape(8, 8, 128)[:, k] & 15) << 4 * k for k in range(8)).astype("i4")
    shapes = [jax.ShapeDtypeStruct(x.shape, "int32") for x in (words, small)]
    found = pl.pallas_call(kernel, out_shape=shapes, in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
                           scratch_shapes=[pltpu.VMEM((8, 128), jnp.int32), pltpu.VMEM((64, 128), jnp.int4)])(jnp.asarray(small).astype(jnp.int4), words)
    numpy.testing.assert_array_equal(found[0], words)
    numpy.testing.assert_array_equal(found[1], small)


@pytest.mark.parametrize("aliased", [False, True])
def test_views_of_inputs_that_are_stored_to(aliased):
    def kernel(x_ref, spare_ref, o_ref, *more):
        rows = spare_ref.reshape(2 * 8, 128)
        pltpu.sync_copy(x_ref.reshape(8, 128).at[pl.ds(2, 4)], rows.at[pl.ds(6, 4)])
        pltpu.sync_copy(rows.at[pl.ds(4, 8)], o_ref)
    x, spare = values(2, 4, 128), values(2, 8, 128, seed=1)
    whole = pl.BlockSpec(memory_space=pl.ANY)
    shapes = [jax.ShapeDtypeStruct((8, 128), "float32")] + [like(spare)] * aliased
    found = pl.pallas_call(kernel, out_shape=shapes, in_specs=[whole] * 2, out_specs=[whole] * len(shapes),
                           input_output_aliases={1: 1} if aliased else {})(x, spare)
    wanted = spare.reshape(16, 128).copy()
    wanted[6:10] = x.reshape(8, 128)[2:6]
    numpy.testing.assert_array_equal(found[0], wanted[4:12])
    if aliased:
        numpy.testing.assert_array_equal(found[1].reshape(16, 128), wanted)


def test_views_of_blocks_that_outputs_share():
    def kernel(x_ref, o_ref):
        words = x_ref.bitcast(jnp.int32)
        words[pl.ds(1, 2), :] = words[pl.ds(4, 2), :] + 1
    x = values(16, 128)
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    found = pl.pallas_call(kernel, out_shape=like(x), grid=(2,), in_specs=[spec], out_specs=spec, input_output_aliases={0: 0})(x)
    wanted = x.view("i4").copy().reshape(2, 8, 128)
    wanted[:, 1:3] = wanted[:, 4:6] + 1
    numpy.testing.assert_array_equal(numpy.asarray(found).view("i4"), wanted.reshape(16, 128))


def test_views_of_windows_of_views():
    def kernel(x_ref, o_ref, s_ref):
        s_ref[...] = x_ref[...]
        words = s_ref.bitcast(jnp.uint32).at[1]
        o_ref[0] = words.reshape(64, 128)[pl.ds(1, 8, 4), :]
        o_ref[1] = words.at[:2].reshape(8, 128).transpose((1, 0)).at[:, 4:].transpose((1, 0)).reshape(4, 128).bitcast(jnp.bfloat16).bitcast(
            jnp.uint32).reshape(2, 2, 128).at[1].reshape(1, 2, 128).transpose((1, 0, 2)).reshape(2, 1, 128)[:, 0].repeat(4, 0)
    x = values(2, 16, 8, 128).astype(jnp.bfloat16)
    found = run(kernel, x, out=((2, 8, 128), "uint32"), scratch=[pltpu.VMEM(x.shape, jnp.bfloat16)])
    words = numpy.ascontiguousarray(x.reshape(2, 16, 4, 2, 128).swapaxes(3, 4)).view("u4")[1, ..., 0]
    numpy.testing.assert_array_equal(found[0], words.reshape(64, 128)[1:32:4])
    numpy.testing.assert_array_equal(found[1], words.reshape(64, 128)[6:8].repeat(4, 0))


def test_windows_of_slices_stay_in_the_slice():
    def kernel(at_ref, x_ref, o_ref, p_ref, q_ref, n_ref):
        x, y = x_ref.at[pl.ds(at_ref[0], 8)], p_ref.at[2:10]
        o_ref[0] = x[pl.ds(at_ref[1], 4)]
        o_ref[1] = jnp.broadcast_to(x.at[1:7].at[2:6][at_ref[1]], (4, 128))
        p_ref[...] = jnp.zeros_like(p_ref)
        y[pl.ds(at_ref[1], 4)] = x_ref[:4]
        q_ref[...] = jnp.zeros_like(q_ref)
        pltpu.sync_copy(x.at[pl.ds(1, 4)], q_ref.at[pl.ds(at_ref[2], 8)].at[2:6])
        n_ref[0] = at_ref.at[0:2][at_ref[1]]
    x = values(16, 128)
    for at in ([2, 1, 0], [2, 7, 3], [15, 5, 4]):
        shapes = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 4, 128), (16, 128), (16, 128))] + [jax.ShapeDtypeStruct((1,), "int32")]
        found = pl.pallas_call(kernel, out_shape=shapes, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()],
                               out_specs=[pl.BlockSpec()] * 3 + [pl.BlockSpec(memory_space=pltpu.SMEM)])(numpy.array(at, "i4"), x)
        first, second = min(at[0], 8), min(at[1], 4)
        numpy.testing.assert_array_equal(found[0][0], x[first + second:][:4])
        numpy.testing.assert_array_equal(found[0][1], x[first + 3 + min(at[1], 3)][None].repeat(4, 0))
        stored, copied = numpy.zeros((2, 16, 128), "f4")
        stored[2 + second:6 + second] = x[:4]
        if at[0] + 5 <= 16:
            copied[at[2] + 2:at[2] + 6] = x[at[0] + 1:at[0] + 5]
            numpy.testing.assert_array_equal(found[2], copied)
        numpy.testing.assert_array_equal(found[1], stored)
        assert found[3][0] == at[min(at[1], 1)]


def test_random_numbers():
    def kernel(o_ref):
        o_ref[...] = jax.random.uniform(jax.random.fold_in(jax.random.key(3), pl.program_id(0)), o_ref.shape)
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32), grid=(2,),
                           out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)))()
    wanted = [jax.random.uniform(jax.random.fold_in(jax.random.key(3), i), (8, 128)) for i in range(2)]
    numpy.testing.assert_array_equal(found, numpy.concatenate(wanted))


def drawn(body, steps=4, dtype="int32", semantics="parallel"):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8 * steps, 128), dtype), grid=(steps,),
                          out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
                          compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))()


def test_the_generator_of_tpus():
    def seeded(o_ref):
        pltpu.prng_seed(7, pl.program_id(0))
        o_ref[...] = pltpu.prng_random_bits(o_ref.shape)
    found = numpy.asarray(drawn(seeded))
    key = [jax.random.fold_in(jax.random.fold_in(jax.random.key(7), i), 0) for i in range(4)]
    wanted = numpy.concatenate([jax.random.bits(k, (8, 128)) for k in key]).view("i4")
    numpy.testing.assert_array_equal(found, wanted)
    assert "parallel" in str(pkc.pallas.to_pk(lambda: drawn(seeded)))

    def twice(o_ref):
        pltpu.prng_seed(7, pl.program_id(0))
        first, second = pltpu.prng_random_bits(o_ref.shape), pltpu.prng_random_bits(o_ref.shape)
        o_ref[...] = first ^ second
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(7), 2), 1)
    numpy.testing.assert_array_equal(numpy.asarray(drawn(twice))[16:24], wanted[16:24] ^ numpy.asarray(jax.random.bits(key, (8, 128))).view("i4"))


def test_the_generator_of_tpus_goes_on_from_step_to_step():
    def once(o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            pltpu.prng_seed(3)
        o_ref[...] = pltpu.stateful_uniform(shape=o_ref.shape)
    found = numpy.asarray(drawn(once, dtype="float32"))
    assert found.min() >= 0 and found.max() < 1 and abs(found.mean() - 0.5) < 0.02
    assert not numpy.array_equal(found[:8], found[8:16])
    assert " parallel" not in str(pkc.pallas.to_pk(lambda: drawn(once, dtype="float32")))

    def never(o_ref):
        o_ref[...] = pltpu.prng_random_bits(o_ref.shape)
    assert len(numpy.unique(drawn(never))) > 4000
    assert pkc.pallas.check(lambda: drawn(never))


def test_keys_as_operands():
    def kernel(key_ref, keys_ref, o_ref, p_ref):
        o_ref[...] = jax.random.uniform(key_ref[...], o_ref.shape)
        p_ref[...] = jax.random.bits(jax.random.fold_in(keys_ref[1], 5), p_ref.shape)
    key, keys = jax.random.key(3), jax.random.split(jax.random.key(4), 3)
    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    o, p = pl.pallas_call(kernel, in_specs=[smem, smem],
                          out_shape=[jax.ShapeDtypeStruct((8, 128), "float32"), jax.ShapeDtypeStruct((8, 128), "uint32")])(key, keys)
    numpy.testing.assert_array_equal(o, jax.random.uniform(key, (8, 128)))
    numpy.testing.assert_array_equal(p, jax.random.bits(jax.random.fold_in(keys[1], 5), (8, 128)))

    def own(key_ref, o_ref):
        key = key_ref[...]
        o_ref[:8] = jax.random.uniform(key, (8, 128))
        o_ref[8:16] = jax.random.uniform(jax.random.fold_in(key, 1), (8, 128))
        o_ref[16:] = jax.random.uniform(key, (8, 128))
    found = numpy.asarray(pl.pallas_call(own, in_specs=[smem], out_shape=jax.ShapeDtypeStruct((24, 128), "float32"))(
        pltpu.to_pallas_key(jax.random.key(0))))
    assert numpy.array_equal(found[:8], found[16:]) and not numpy.array_equal(found[:8], found[8:16])
    with pytest.raises(pkc.pallas.TranslationError, match="(?s)`rbg`.*jax.random.key"):
        pl.pallas_call(own, in_specs=[smem], out_shape=jax.ShapeDtypeStruct((24, 128), "float32"))(jax.random.key(0, impl="rbg"))


def test_sort_by_several_keys():
    rng = numpy.random.default_rng(0)
    a, b, c = rng.integers(0, 4, (8, 65)).astype("i4"), rng.integers(0, 3, (8, 65)).astype("f4"), values(8, 65)
    b[0, 3], b[1, 5] = numpy.nan, -0.0
    for axis, keys in ((1, 2), (0, 2), (1, 3), (1, 1)):
        def kernel(*refs):
            for ref, value in zip(refs[3:], jax.lax.sort([r[...] for r in refs[:3]], dimension=axis, num_keys=keys)):
                ref[...] = value
        found = run(kernel, a, b, c, out=[(x.shape, x.dtype) for x in (a, b, c)])
        for one, wanted in zip(found, jax.lax.sort([a, b, c], dimension=axis, num_keys=keys)):
            numpy.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize("x, w, options", [
    ((2, 3, 9, 10), (4, 3, 3, 3), dict(window_strides=(1, 1), padding="SAME")),
    ((2, 3, 9, 10), (4, 3, 3, 3), dict(window_strides=(2, 1), padding=((1, 2), (-1, 3)), rhs_dilation=(2, 1))),
    ((2, 3, 9, 10), (4, 3, 3, 3), dict(window_strides=(1, 2), padding=((1, 2), (0, 3)), lhs_dilation=(2, 3))),
    ((2, 9, 6), (3, 3, 4), dict(window_strides=(1,), padding="VALID", dimension_numbers=("NWC", "WIO", "NCW"), feature_group_count=2)),
    ((3, 9, 10, 2), (3, 3, 2, 5), dict(window_strides=(1, 1), padding="SAME", dimension_numbers=("CHWN", "IHWO", "NHWC")))])
def test_convolutions(x, w, options):
    x, w = values(*x), values(*w, seed=1)
    wanted = jax.lax.conv_general_dilated(x, w, **options)

    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = jax.lax.conv_general_dilated(x_ref[...], w_ref[...], **options)
    numpy.testing.assert_allclose(run(kernel, x, w, out=(wanted.shape, "float32")), wanted, rtol=1e-4, atol=1e-5)


def test_bounded_slices():
    def kernel(from_ref, x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]
    x, starts = values(17, 8, 16), numpy.array([0, 3, 8, 8, 17], "i4")
    spec = pl.BlockSpec((pl.BoundedSlice(9), 4, 16), lambda i, j, s: (pl.ds(s[i], s[i + 1] - s[i]), j, 0))
    call = pl.pallas_call(kernel, out_shape=like(x), grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(4, 2), in_specs=[spec], out_specs=spec))
    numpy.testing.assert_array_equal(call(starts, x), 2 * x)
    assert pkc.pallas.check(call, starts, x)


@pytest.mark.skipif(jax.__version_info__ < (0, 9), reason="this JAX does not reshape semaphores")
def test_views_of_semaphores():
    def kernel(n_ref, x_ref, o_ref, s_ref, sems):
        flat = sems.at[:, pl.ds(1, 2)].reshape(4)
        views = [(flat.at[n_ref[0]], sems.at[1, 1]), (flat.reshape(2, 2).at[0].at[1], sems.at[0, 2])]
        if hasattr(sems, "transpose"):
            views.append((sems.transpose((1, 0)).at[2, 0], sems.at[0, 2]))
        for k, (started, awaited) in enumerate(views):
            pltpu.make_async_copy(x_ref.at[k], s_ref.at[k], started).start()
            pltpu.make_async_copy(x_ref.at[k], s_ref.at[k], awaited).wait()
        o_ref[...] = s_ref[:2]
    x = values(3, 8, 128)
    found = pl.pallas_call(kernel, out_shape=like(x[:2]), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
                           scratch_shapes=[pltpu.VMEM(x.shape, jnp.float32), pltpu.SemaphoreType.DMA((2, 3))])(numpy.array([2], "i4"), x)
    numpy.testing.assert_array_equal(found, x[:2])


@pytest.mark.parametrize("n", [0, 1])
def test_views_of_refs_that_are_chosen(n):
    def kernel(n_ref, x_ref, y_ref, o_ref, p_ref, s_ref):
        for ref, out in ((pl.select_ref(n_ref[0], x_ref, y_ref).reshape(16, 64), o_ref),
                         (pl.select_ref(n_ref[0], x_ref.reshape(16, 64), y_ref.reshape(16, 64)), p_ref)):
            pltpu.sync_copy(ref.at[pl.ds(3, 8)], s_ref)
            out[...] = s_ref[...]
    if not hasattr(pl, "select_ref"):
        pytest.skip("this JAX has no pl.select_ref")
    x = values(2, 8, 128)
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), *[pl.BlockSpec(memory_space=pl.ANY)] * 2]
    found = pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct((8, 64), "float32")] * 2, in_specs=specs,
                           scratch_shapes=[pltpu.VMEM((8, 64), jnp.float32)])(numpy.array([n], "i4"), *x)
    for out in found:
        numpy.testing.assert_array_equal(out, x[n].reshape(16, 64)[3:11])


@pytest.mark.parametrize("n", [0, 1, 2, 7, -1])
def test_refs_that_are_chosen(n):
    if not hasattr(pl, "select_ref"):
        pytest.skip("JAX has no select_ref")

    def kernel(n_ref, x_ref, y_ref, z_ref, o_ref, sem):
        here = pl.select_ref(n_ref[0] & 1, sem.at[0], sem.at[1])
        pltpu.async_copy(pl.select_ref(n_ref[0], x_ref, y_ref.at[4:12], z_ref), o_ref, here).wait()
    x, y, z, anywhere = values(8, 16), values(12, 16, seed=1), values(8, 16, seed=2), pl.BlockSpec(memory_space=pl.ANY)
    found = pl.pallas_call(kernel, out_shape=like(x), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), anywhere, anywhere, anywhere],
                           out_specs=anywhere, scratch_shapes=[pltpu.SemaphoreType.DMA((2,))])(numpy.array([n], "i4"), x, y, z)
    numpy.testing.assert_array_equal(found, [x, y[4:], z][min(max(n, 0), 2)])


def test_array_indices():
    def kernel(x_ref, i_ref, o_ref):
        column = pl.program_id(0) * 16 + jnp.arange(16)
        o_ref[0, :] = pltpu.load(x_ref.at[3, column], mask=column < 20)
        o_ref[1:5, :] = x_ref[i_ref[...], 0:16]
        o_ref[5, column % 16] = x_ref[i_ref[...][0], 0:16] * 2

    def f(interpret, x, i):
        whole = pl.BlockSpec(x.shape, lambda i: (0, 0))
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((6, 16), x.dtype), grid=(1,), interpret=interpret,
                              in_specs=[whole, pl.BlockSpec((4,), lambda i: (0,))])(x, i)
    both(f, values(8, 20), numpy.array([3, 0, 7, 7], "i4"))


def test_pipelines_and_kernels_of_a_mesh():
    x, anywhere = values(64, 128), pl.BlockSpec(memory_space=pl.ANY)

    def outer(x_ref, o_ref):
        def inner(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2 + pl.program_id(0).astype(jnp.float32)
        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(inner, grid=(8,), in_specs=[spec], out_specs=[spec])(x_ref, o_ref)
    found = pl.pallas_call(outer, out_shape=like(x), in_specs=[anywhere], out_specs=anywhere)(x)
    numpy.testing.assert_allclose(found, x * 2 + numpy.arange(64)[:, None] // 8, rtol=1e-6)
    if not hasattr(pl, "kernel"):
        return

    def moved(x_ref, o_ref, s_ref):
        pltpu.sync_copy(x_ref, s_ref)
        s_ref[...] = s_ref[...] + 1
        pltpu.sync_copy(s_ref, o_ref)
    words = ("out_type", "scratch_types") if "out_type" in inspect.signature(pl.kernel).parameters else ("out_shape", "scratch_shapes")
    mesh = pltpu.TensorCoreMesh(axis_name="core") if jax.__version_info__ >= (0, 11) else pltpu.create_tensorcore_mesh("core")
    found = pl.kernel(moved, mesh=mesh,
                      **dict(zip(words, (like(x), [pltpu.VMEM(x.shape, jnp.float32)]))))(x)
    numpy.testing.assert_array_equal(found, x + 1)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_int4(dtype):
    def kernel(x_ref, w_ref, o_ref, p_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...].astype(jnp.float32))
        p_ref[...] = w_ref[...]
        p_ref[2:4, :] = (x_ref[:2, :] * 3).astype(dtype)
    x, w = values(8, 16), jnp.asarray(numpy.arange(16 * 16).reshape(16, 16) % 16 - (8 if dtype == "int4" else 0)).astype(dtype)

    def f(interpret, x, w):
        o, p = run(kernel, abs(x), w, interpret=interpret, out=[((8, 16), "float32"), ((16, 16), dtype)])
        assert p.dtype == jnp.dtype(dtype)
        return o, p.astype("int32")
    both(f, x, w)


def test_copies_of_dynamic_length_and_refs_of_the_body():
    def kernel(n_ref, x_ref, o_ref, sem):
        if hasattr(jax, "new_ref"):
            total = jax.new_ref(jnp.zeros((1, 16), jnp.float32))
            total[...] += 2.0
            o_ref[8:, :] = jnp.broadcast_to(total[...], (8, 16))
        o_ref[:8, :] = jnp.zeros((8, 16))
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(0, n_ref[0]), :], o_ref.at[pl.ds(0, n_ref[0]), :], sem)
        copy.start()
        copy.wait()
    x, whole = values(8, 16), pl.BlockSpec(memory_space=pltpu.SMEM)
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 16), x.dtype), in_specs=[whole, pl.BlockSpec((8, 16), lambda: (0, 0))],
                           scratch_shapes=[pltpu.SemaphoreType.DMA])(numpy.array([5], "i4"), x)
    numpy.testing.assert_array_equal(found[:8], numpy.where(numpy.arange(8)[:, None] < 5, x, 0))
    if hasattr(jax, "new_ref"):
        numpy.testing.assert_array_equal(found[8:], 2)


def test_several_devices(on_four_devices):
    """Each device runs the kernel on its shard; nothing is gathered."""
    text = """
import jax, numpy
from jax.experimental import pallas as pl
from jax.sharding import Mesh, PartitionSpec as P
import pkc.pallas
pkc.pallas.install(threads=2)
def kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] * y_ref[0, 0] + pl.program_id(0).astype(jax.numpy.float32)
def scaled(x, y):
    row = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 8,), out_specs=row,
                          in_specs=[row, pl.BlockSpec((1, 1), lambda i: (0, 0))])(x, y)
mesh = Mesh(numpy.array(jax.devices()), ("d",))
x, y = numpy.arange(64 * 128, dtype="f4").reshape(64, 128), numpy.full((1, 1), 3, "f4")
f = jax.jit(jax.shard_map(scaled, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"), check_vma=False))
expected = 3 * x + (numpy.arange(64) // 8 % 2)[:, None]
for _ in range(10):
    assert (numpy.asarray(f(x, y)) == expected).all()
g = jax.jit(jax.shard_map(lambda x, y: jax.lax.psum(scaled(x, y), "d"), mesh=mesh, in_specs=(P("d"), P()), out_specs=P(), check_vma=False))
assert (numpy.asarray(g(x, y)) == expected.reshape(4, 16, 128).sum(0)).all()
assert "all-gather" not in f.lower(x, y).compile().as_text()
print(len(jax.devices()))
"""
    on_four_devices(text)


def test_updates_at_several_places():
    def kernel(x_ref, i_ref, v_ref, o_ref, p_ref, q_ref, r_ref):
        x, i, v = x_ref[...], i_ref[...], v_ref[...]
        o_ref[...] = x.at[i].set(v)
        p_ref[...] = x.at[i].add(v) + x.at[:, i[:2] % 4].add(x[:, 1:3])
        q_ref[...] = x.at[i, i % 4].set(v[:, 0])
        r_ref[...] = x.at[i[:3] % 4 + 9].set(v[:3]) + x.at[i[1:3].reshape(1, 2) + 5].set(7.0, mode="clip")

    def f(interpret, x, i, v):
        return run(kernel, x, i, v, interpret=interpret, out=[(x.shape, x.dtype)] * 4)
    both(f, values(8, 4), numpy.array([3, 0, 6, 7], "i4"), values(4, 4, seed=1))


def test_places_out_of_range():
    def kernel(x_ref, i_ref, o_ref, p_ref, q_ref):
        x, i = x_ref[...], i_ref[...]
        o_ref[...] = jnp.take(x, i, axis=0, mode="fill", fill_value=7)
        p_ref[...] = jnp.take(x, i, axis=1, mode="clip")
        q_ref[...] = jnp.take_along_axis(x, i[None] + jnp.zeros((8, 1), "int32"), axis=1, mode="fill", fill_value=-1)

    def f(interpret, x, i):
        shapes = [((5, 4), x.dtype), ((8, 5), x.dtype), ((8, 5), x.dtype)]
        return run(kernel, x, i, interpret=interpret, out=shapes)
    both(f, values(8, 4), numpy.array([3, -9, 6, 8, 100], "i4"))


@pytest.mark.parametrize("dtype", "float32 bfloat16 int32 uint8 bool int8".split())
def test_past_the_end_of_what_is_interpreted(dtype):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def call(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), x.dtype), interpret=True, grid=(1,),
                              in_specs=[pl.BlockSpec((8,), lambda i: (0,))])(x)
    x = jnp.ones(5, dtype)
    wanted = call(x)
    pkc.pallas.install(interpreted=True)
    jax.clear_caches()
    numpy.testing.assert_array_equal(call(x).astype("float32"), wanted.astype("float32"))


# ---- looking, and errors


# ---- constant indices past the end in code that does not run

@pytest.mark.parametrize("turns", [1, 2])
def test_a_prefetch_past_the_last_turn(turns):
    def kernel(x, o, buf, sem):
        def copy(j):
            return pltpu.make_async_copy(x.at[:, pl.ds(j * 128, 128)], buf.at[j % 2], sem.at[j % 2])
        copy(0).start()

        def turn(j, _):
            @pl.when(j + 1 < turns)
            def _():
                copy(j + 1).start()
            copy(j).wait()
            o[:, pl.ds(j * 128, 128)] = buf[j % 2] * 2
        jax.lax.fori_loop(0, turns, turn, None)
    x = values(8, 128 * turns)
    f = pl.pallas_call(kernel, out_shape=like(x), in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                       scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))])
    numpy.testing.assert_array_equal(f(x), 2 * x)
    assert "no findings" in str(pkc.pallas.check(f, x))


@pytest.mark.parametrize("n", [0, 1])
def test_a_constant_index_past_the_end_under_a_condition(n):
    def kernel(n_ref, size_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

        @pl.when(n_ref[0] > 0)
        def _():
            o_ref[0, 0] = size_ref[jnp.int32(1) * 4].astype(jnp.float32)
            o_ref[pl.ds(jnp.int32(6), 4)] = x_ref[pl.ds(jnp.int32(7), 4)]

        def turn(j, _):
            o_ref[pl.ds((j + 1) * 8, 8), :] += x_ref[pl.ds((j + 1) * 8, 8), :]
        jax.lax.fori_loop(0, n_ref[0], turn, None)

    def f(interpret, *args):
        return pl.pallas_call(kernel, out_shape=like(args[2]), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)] * 2 + [pl.BlockSpec()],
                              interpret=interpret)(*args)
    args = numpy.array([n], "i4"), numpy.array([5], "i4"), values(8, 128)
    both(f, *args)
    found = str(pkc.pallas.check(functools.partial(f, False), *args))
    assert ("out of range" in found) == (n > 0)


def test_a_constant_index_past_the_end_that_is_used():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(jnp.int32(5), 8)]
    with pytest.raises(Exception, match="this reaches to index 12 of an axis of 9"):
        pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))(values(9))


@pytest.mark.each_jax
def test_each_kernel_is_translated_and_compiled_once(monkeypatch):
    from pkc.pallas import lowering
    done = []

    def count(what, function):
        def counted(*args, **words):
            done.append(what)
            return function(*args, **words)
        monkeypatch.setattr(lowering, what, counted)
    count("translate", lowering.translate)
    count("_compile", lowering._compile)

    def third_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 3 - 1

    def fourth_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 4 - 1
    x = values(5, 7)
    third, fourth = (pl.pallas_call(kernel, out_shape=like(x)) for kernel in (third_kernel, fourth_kernel))
    for _ in range(1000):
        found = third(x)
    numpy.testing.assert_allclose(found, x * 3 - 1, rtol=1e-6)
    assert sorted(done) == ["_compile", "translate"]
    for _ in range(3):  # the same kernel, made and traced again, has the same text
        pl.pallas_call(third_kernel, out_shape=like(x))(x)
    assert done.count("_compile") == 1
    done.clear()

    @jax.jit
    def f(x):
        for _ in range(4):
            x = third(fourth(x))
        return jax.lax.fori_loop(0, 3, lambda k, x: fourth(x), x)
    for _ in range(3):
        f(x)
    assert done.count("_compile") == 1 and done.count("translate") <= 3  # the loop is a program of its own


def test_constants_are_folded():
    def kernel(n_ref, x_ref, o_ref):
        lax, true, false = jax.lax, jnp.bool_(True), jnp.bool_(False)
        n = lax.select(lax.eq(jnp.int32(3), jnp.int32(3)), n_ref[0], jnp.int32(7))
        above = lax.bitwise_and(true, lax.bitwise_or(false, n_ref[0] > 2))
        z = jnp.where(above, x_ref[...], -x_ref[...])
        z = jnp.where(lax.bitwise_not(lax.bitwise_and(false, above)), z, 0.0)
        z = lax.cond(lax.ne(jnp.int32(1), jnp.int32(1)), lambda: z * 2, lambda: z + 1)
        o_ref[...] = z + n.astype(jnp.float32)
    x = values(8, 128)

    def f(interpret, n):
        return pl.pallas_call(kernel, out_shape=like(x), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()], interpret=interpret)(n, x)
    for n in (1, 3):
        both(f, numpy.array([n], "i4"))
    text = pkc.pallas.to_pk(functools.partial(f, False), numpy.array([3], "i4"))
    lines = "\n".join(line for line in text.splitlines() if not line.strip().startswith("//"))
    assert "n[0] > 2" in lines.replace("_ref", "") and not any(word in lines for word in ("true", "false", "if ", "* 2.0"))


def test_text():
    text = str(pkc.pallas.to_pk(matmul, values(64, 64), values(64, 64)))
    assert "kernel matmul_kernel(x_ref: f32[64, 64], y_ref: f32[64, 64]) -> (o_ref: f32[64, 64])" in text
    assert "grid (i in 2 parallel, j in 2 parallel, k in 2);" in text
    assert 'acc[...] + dot(x_ref[...], y_ref[...], precision = "default");' in text
    assert "acc[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)" in text  # the comment


@pytest.mark.parametrize("given, kept", [(None, "default"), (jax.lax.Precision.HIGH, "high"), ("highest", "highest"),
                                         ((jax.lax.Precision.DEFAULT, jax.lax.Precision.HIGHEST), "highest")])
def test_precision(given, kept):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision=given)
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 8), jnp.float32))
    assert 'precision = "%s"' % kept in str(pkc.pallas.to_pk(call, values(8, 16), values(16, 8)))


def test_a_kernel_named_as_a_word_of_the_language():
    def scratch(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1
    x = values(8, 128)
    numpy.testing.assert_array_equal(run(scratch, x), x + 1)


def test_text_of_kernels_with_one_name():
    """Each kernel of the text can be compiled: a number follows a name that an earlier one has, unless it makes the name of another."""
    def double_kernel_2(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 3

    def f(x, y, z):
        return (run(double_kernel, x), run(double_kernel, y), run(double_kernel_2, x), run(double_kernel_2, y), run(double_kernel, z), run(double_kernel, x))
    x, y, z = (values(n, 16) for n in (3, 5, 7))
    text = pkc.pallas.to_pk(f, x, y, z)
    assert re.findall(r"(?m)^kernel (\w+)\(", text) == ["double_kernel", "double_kernel_3", "double_kernel_2", "double_kernel_2_2", "double_kernel_4"]
    for name, operand, factor in (("double_kernel", x, 2), ("double_kernel_3", y, 2), ("double_kernel_2", x, 3), ("double_kernel_2_2", y, 3), ("double_kernel_4", z, 2)):
        numpy.testing.assert_array_equal(pkc.kernel(text, name)(operand), operand * factor)


@pytest.mark.each_jax
def test_looking_into_functions():
    """Kernels are found in what functions of JAX make of a function, in each version of JAX."""
    def double(x):
        return pl.pallas_call(double_kernel, out_shape=like(x))(x)
    custom = jax.custom_vjp(double)
    custom.defvjp(lambda x: (double(x), None), lambda _, g: (double(g),))
    x = jnp.ones((8, 128))
    for f in (jax.jit(double), jax.checkpoint(double), custom, jax.grad(lambda x: custom(x).sum()), lambda x: jax.vmap(double)(x[None]),
              lambda x: jax.lax.fori_loop(0, 2, lambda _, c: double(c), x), lambda x: jax.lax.cond(x.sum() > 0, double, double, x),
              lambda x: jax.lax.while_loop(lambda c: c.sum() < 3000, double, x)):
        assert pkc.pallas.check(f, x) and "kernel double_kernel(" in pkc.pallas.to_pk(f, x)
        reports = pkc.pallas.tpu(f, x)
        assert all("double_kernel on v5e" in str(report) for report in (reports if isinstance(reports, list) else [reports]))


@pytest.mark.each_jax
def test_check():
    assert pkc.pallas.check(jax.jit(softmax), values(20, 33))

    def careless(x_ref, o_ref, s_ref):
        o_ref[...] = x_ref[...] + s_ref[...]
    report = pkc.pallas.check(lambda x: run(careless, x, scratch=[pltpu.VMEM((8, 16), jnp.float32)]), values(8, 16))
    assert not report and "test_pallas_in.py" in str(report)
    assert report.findings[0]["kernel"] == "careless" and "test_pallas_in.py:" in report.findings[0]["python"]


@pytest.mark.each_jax
def test_looking_at_memory_spaces():
    """JAX runs the operation in compiled code alone."""
    def f(x):
        return run(add_one, pltpu.with_memory_space_constraint(x * 2, pltpu.HBM))

    def add_one(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1
    x = values(8, 128)
    assert pkc.pallas.check(f, x) and "v5e" in str(pkc.pallas.tpu(f, x, chip="v5e")) and "kernel" in pkc.pallas.to_pk(f, x)
    assert pkc.pallas.check(jax.jit(f), x)


@pytest.mark.each_jax
def test_tpu():
    assert "v6e" in str(pkc.pallas.tpu(matmul, values(64, 64), values(64, 64), chip="v6e"))


def test_what_cannot_be_translated():
    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.lgamma(x_ref[...])
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)`lgamma`.*test_pallas_in.py.*lgamma\(x_ref"):
        run(kernel, values(8, 16))
    numpy.testing.assert_allclose(run(kernel, abs(values(8, 16)), interpret=True), jax.lax.lgamma(abs(values(8, 16))), rtol=1e-5)


def test_copies_from_one_call_to_another():
    """A semaphore that is handed on: the copy is over before the call that waits for it."""
    semaphore = pl.BlockSpec(memory_space=pltpu.SEMAPHORE)

    def start(x_ref, same_ref, o_ref, sems):
        for i in range(2):
            pltpu.make_async_copy(x_ref.at[i], o_ref.at[1 - i], sems.at[i]).start()

    def done(x_ref, o_ref, sems, same_ref):
        for i in range(2):
            pltpu.make_async_copy(x_ref.at[i], o_ref.at[1 - i], sems.at[i]).wait()

    @jax.jit
    def f(x):
        shape, anywhere = like(x), pl.BlockSpec(memory_space=pl.ANY)
        x, o, sems = pl.pallas_call(start, out_shape=(shape, shape, pltpu.SemaphoreType.DMA((2,))), in_specs=[anywhere],
                                    out_specs=(anywhere, anywhere, semaphore), input_output_aliases={0: 0})(x)
        return pl.pallas_call(done, out_shape=shape, in_specs=[anywhere, anywhere, semaphore], out_specs=anywhere,
                              input_output_aliases={1: 0})(x, o, sems)
    x = values(2, 8, 16)
    numpy.testing.assert_array_equal(f(x), x[::-1])
    assert "async_copy" in str(pkc.pallas.to_pk(f, x))


def test_atomic_updates():
    """Against NumPy: JAX's interpreter has no exchange and no bits."""
    plt = pytest.importorskip("jax.experimental.pallas.triton", reason="JAX has no Pallas for GPUs")

    def kernel(x_ref, i_ref, o_in, p_in, o_ref, p_ref, before_ref, bits_ref):
        r = pl.program_id(0)
        before_ref[r] = plt.atomic_add(o_ref, (i_ref[r],), x_ref[r])
        plt.atomic_max(p_ref, (0, pl.ds(0, 4)), x_ref[r] * jnp.ones(4))
        plt.atomic_min(p_ref, (1, pl.ds(0, 4)), x_ref[r] * jnp.ones(4), mask=jnp.arange(4) < 3)
        plt.atomic_add(p_ref, (2, i_ref[...]), jnp.ones(6))
        plt.atomic_xchg(p_ref, (3, r % 4), x_ref[r])

        @pl.when(r == 0)
        def _():
            bits_ref[0] = 8
        plt.atomic_or(bits_ref, (0,), 1 << r)
        plt.atomic_xor(bits_ref, (0,), 64)
    x, i = values(6), numpy.array([0, 1, 0, 2, 1, 0], "i4")
    o, p, before, bits = pl.pallas_call(
        kernel, grid=(6,), out_shape=[jax.ShapeDtypeStruct(*s) for s in [((4,), "float32"), ((4, 4), "float32"), ((6,), "float32"), ((1,), "int32")]],
        input_output_aliases={2: 0, 3: 1})(x, i, numpy.zeros(4, "f4"), numpy.zeros((4, 4), "f4"))
    sums, seen = numpy.zeros(4, "f4"), []
    for value, place in zip(x, i):
        seen.append(sums[place])
        sums[place] += value
    numpy.testing.assert_allclose(o, sums, rtol=1e-6)
    numpy.testing.assert_allclose(before, seen, rtol=1e-6)
    assert bits[0] == 63
    low = numpy.array([min(0, x.min())] * 3 + [0], "f4")
    numpy.testing.assert_allclose(p, [[max(0, x.max())] * 4, low, [18, 12, 6, 0], [x[4], x[5], x[2], x[3]]], rtol=1e-6)


def test_scans_and_checkpoints():
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jax.lax.cumlogsumexp(x, axis=0) + jax.checkpoint(jnp.sin)(x) + jax.lax.cumlogsumexp(x, axis=1, reverse=True)
    both(lambda interpret, x: run(kernel, x, interpret=interpret), values(5, 7))


def test_views_of_int4():
    def kernel(w_ref, b_ref, o_ref, p_ref, q_ref):
        o_ref[...] = w_ref.bitcast(jnp.int8)[...]
        p_ref[...] = b_ref.bitcast(jnp.int4)[2:6, :]
        q_ref[...] = w_ref.reshape(2, 4, 128)[1].astype(jnp.int32)
    w, b = jnp.asarray(numpy.arange(8 * 128).reshape(8, 128) % 16 - 8).astype("int4"), numpy.arange(4 * 128).reshape(4, 128).astype("i1")
    o, p, q = run(kernel, w, b, out=[((4, 128), "int8"), ((4, 128), "int4"), ((4, 128), "int32")])
    low, high = [numpy.asarray(w).astype(int)[k::2] & 15 for k in (0, 1)]
    numpy.testing.assert_array_equal(o.astype("uint8"), low | high << 4)
    wanted = numpy.stack([b.astype(int) & 15, b.astype(int) >> 4 & 15], axis=1).reshape(8, 128)
    numpy.testing.assert_array_equal(numpy.asarray(p).astype(int) & 15, wanted[2:6])
    numpy.testing.assert_array_equal(q, numpy.asarray(w).astype(int)[4:])


# ---- what JAX's options and parameters ask for

def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


@pytest.mark.parametrize("dtype", ["float32", "int4"])
@pytest.mark.parametrize("effects, kept", [("PURE", False), ("SIDE_EFFECTING", True), ("DATAFLOW_SIDE_EFFECTING", True), (True, True)])
def test_side_effects(effects, kept, dtype):
    """A call whose results are not used stays where it has side effects."""
    version = jax.__version_info__
    if kept and version < (0, 10) or effects == "DATAFLOW_SIDE_EFFECTING" and not (0, 10, 1) <= version < (0, 12):
        pytest.skip("this JAX drops such a call before it is lowered")
    if isinstance(effects, str):
        effects = getattr(pltpu.SideEffectType, effects)
    params = pltpu.CompilerParams(has_side_effects=effects)

    def f(x):
        pl.pallas_call(double_kernel, out_shape=like(x), compiler_params=params)(x)
        return x
    program = jax.jit(f).lower(jnp.ones((8, 128), dtype))
    assert ("has_side_effect = true" in program.as_text()) == kept
    assert ("pkc_call" in program.compile().as_text()) == kept


def test_prints(capsys):
    """They come to what Python has as sys.stdout, in eager calls and in compiled programs, from several threads too."""
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        pl.debug_print("step {} has {}: naïve", i, x_ref[0, 0])
        o_ref[...] = x_ref[...]
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = numpy.repeat(numpy.arange(4, dtype="f4") / 2, 8)[:, None] * numpy.ones((1, 128), "f4")
    call = pl.pallas_call(kernel, grid=(4,), in_specs=[spec], out_specs=spec, out_shape=like(x),
                          compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))
    wanted = ["step %d has %s: naïve" % (i, text) for i, text in enumerate(["0.0", "0.5", "1.0", "1.5"])]
    try:
        for f, threads in ((call, 1), (jax.jit(call), 1), (lambda x: jax.jit(call)(x) + 0, 3)):
            pkc.pallas.install(threads=threads)
            jax.block_until_ready(f(x))
            printed = capsys.readouterr()
            assert sorted(printed.out.splitlines()) == wanted and not printed.err
    finally:
        pkc.pallas.install()


@pytest.mark.parametrize("kind", ["whole", "slice", "indices"])
def test_a_masked_swap_gives_back_what_it_does_not_store(kind):
    """Where the mask is false, the value of a swap is the element that was given to it, and the ref keeps its own."""
    primitives = pytest.importorskip("jax._src.pallas.primitives")
    start = 20

    def kernel(x_ref, y_ref, mask_ref, index_ref, old_ref, z_ref):
        z_ref[...] = y_ref[...]
        place = {"whole": slice(None), "slice": pl.ds(index_ref[0], 24), "indices": index_ref[...]}[kind]
        old_ref[...] = primitives.swap(z_ref, (place,), x_ref[...], mask=mask_ref[...])
    n = 32 if kind == "whole" else 24
    x, y, index = values(n), values(32, seed=1), numpy.arange(start, start + n, dtype="i4")
    mask = numpy.arange(n) % 3 > 0 if kind == "whole" else index < 32
    place = numpy.arange(32) if kind == "whole" else numpy.minimum(index, 31)
    old, z = run(kernel, x, y, mask, index, out=[((n,), "f4"), ((32,), "f4")], interpret=False)
    wanted = numpy.array(y)
    wanted[place[mask]] = x[mask]
    numpy.testing.assert_array_equal(old, numpy.where(mask, y[place], x))
    numpy.testing.assert_array_equal(z, wanted)


def test_prints_of_large_arrays(capsys):
    """They are named by their dtype, and what is printed beside them stays in its place."""
    def kernel(x_ref, o_ref):
        jax.debug.print("{} and {}", x_ref, x_ref[0, 0])
        pl.debug_print("{}: {}", x_ref[0, 1], x_ref[...] + 1)
        o_ref[...] = x_ref[...]
    x = numpy.arange(8 * 128, dtype="f4").reshape(8, 128)
    jax.block_until_ready(run(kernel, x))
    assert capsys.readouterr().out == "array of f32 and 0.0\n1.0: array of f32\n"


def test_prints_of_small_arrays(capsys):
    """They are printed with their elements, also where some of these are the same element of memory."""
    def kernel(x_ref, o_ref):
        jax.debug.print("x = {}", x_ref)
        pl.debug_print("rows {}", jnp.broadcast_to(x_ref[...], (3, 2)))
        pl.debug_print("columns {}", jnp.broadcast_to(x_ref[...].T, (2, 2)))
        pl.debug_print("{} and", jnp.full((1, 2), 3))
        o_ref[...] = x_ref[...]
    x = numpy.array([[4.2, 2.4]], "f4")
    jax.block_until_ready(run(kernel, x))
    assert capsys.readouterr().out.splitlines() == [
        "x = [[4.2 2.4]]", "rows [[4.2 2.4] [4.2 2.4] [4.2 2.4]]", "columns [[4.2 4.2] [2.4 2.4]]", "[[3 3]] and"]


def test_prints_with_names_and_numbers(capsys):
    """A value comes where the format says, whatever the order in which the values are given."""
    def kernel(x_ref, o_ref):
        jax.debug.print("{b} {a} {b!r} {c:.2f}", a=x_ref[0], b=x_ref[1], c=x_ref[2])
        jax.debug.print("{1} {0} {word}", x_ref[0], x_ref[1:3], word="last")
        jax.debug.print("{0} {{{1}}}", x_ref[1], x_ref[2])
        pl.debug_print("plain", x_ref[0], x_ref[1])
        o_ref[...] = x_ref[...]
    jax.block_until_ready(run(kernel, numpy.arange(5, 13, dtype="f4")))
    assert capsys.readouterr().out.splitlines() == ["6.0 5.0 6.0 7.0", "[6.0 7.0] 5.0 last", "6.0 {7.0}", "plain 5.0 6.0"]


def test_unknown_side_effects():
    params = pltpu.CompilerParams(has_side_effects="some")
    x = values(8, 128)
    with pytest.raises(ValueError, match="side effect type: some"):
        pl.pallas_call(double_kernel, out_shape=like(x), compiler_params=params)(x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "uint8", "int4", "float8_e4m3fn", "bool"])
def test_poisoned_scratch(dtype):
    """With JAX's option scratch of `run_scoped` holds NaN, or the least integer, before it is written."""
    if not hasattr(jax.config, "jax_pallas_poison_buffers"):
        pytest.skip("this JAX has no jax_pallas_poison_buffers")

    def kernel(x_ref, o_ref):
        def inner(scratch_ref):
            scratch_ref[:3] = x_ref[:3]
            o_ref[...] = scratch_ref[...]
        pl.run_scoped(inner, pltpu.VMEM(x_ref.shape, x_ref.dtype))
    x = jnp.zeros((7, 128), dtype)
    jax.config.update("jax_pallas_poison_buffers", True)
    try:
        found = numpy.asarray(pl.pallas_call(kernel, out_shape=like(x))(x))
    finally:
        jax.config.update("jax_pallas_poison_buffers", False)
    rest = found[3:].astype("f4")
    least = {"int8": -128, "uint8": 128, "int4": -8, "bool": 1}
    assert not found[:3].astype("f4").any()
    assert (rest == least[dtype]).all() if dtype in least else numpy.isnan(rest).all()


# ---- products of two dtypes

@pytest.mark.parametrize("left, right, out", [
    ("bfloat16", "float32", "float32"), ("float32", "bfloat16", "float32"), ("float16", "bfloat16", "float32"),
    ("bfloat16", "int8", "float32"), ("int8", "bfloat16", "float32"), ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("bfloat16", "float8_e4m3fn", "bfloat16"), ("int8", "uint8", "int32"), ("int8", "int4", "int32"), ("bfloat16", "int4", "float32"),
    ("int16", "int8", "int32"), ("float32", "int32", "float32"), ("uint32", "bfloat16", "float32"), ("int32", "int8", "int32")])
def test_products_of_two_dtypes(left, right, out):
    """Of matrices, of one that is transposed, and of batches."""
    forms = {"ij,jk->ik": (([1], [0]), ([], [])), "ij,kj->ik": (([1], [1]), ([], [])), "bij,bjk->bik": (([2], [1]), ([0], [0]))}
    extents = {"i": 9, "j": 40, "k": 17, "b": 2}

    def array(letters, dtype, seed):
        numbers = numpy.random.default_rng(seed).integers(0 if dtype[0] == "u" else -7, 8, [extents[c] for c in letters])
        return jnp.asarray(numbers).astype(dtype)

    def kernel(*refs):
        for k, dims in enumerate(forms.values()):
            refs[6 + k][...] = jax.lax.dot_general(refs[2 * k][...], refs[2 * k + 1][...], dims, preferred_element_type=out)
    operands = [array(letters, dtype, seed) for form in forms
                for letters, dtype, seed in zip(form.split("->")[0].split(","), (left, right), (1, 2))]
    exact = [numpy.asarray(v).astype("f8") for v in operands]
    wanted = [numpy.einsum(form, *exact[2 * k:2 * k + 2]) for k, form in enumerate(forms)]
    found = pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(w.shape, out) for w in wanted])(*operands)
    for f, w in zip(found, wanted):
        numpy.testing.assert_allclose(numpy.asarray(f).astype("f8"), w, rtol=1e-2 if out == "bfloat16" else 0)


def test_int4_results():
    """Arrays of int4 come and go as JAX has them."""
    def kernel(x_ref, o_ref, p_ref):
        o_ref[...] = jnp.clip(x_ref[...].astype(jnp.int32) * 2, -8, 7).astype(jnp.int4)
        p_ref[...] = pltpu.bitcast(x_ref[...], jnp.int8)
    x = jnp.asarray(numpy.random.default_rng(3).integers(-8, 8, (16, 128)), jnp.int4)
    call = pl.pallas_call(kernel, out_shape=(like(x), jax.ShapeDtypeStruct((8, 128), "int8")))
    found, packed = jax.jit(call)(x)
    numbers = numpy.asarray(x).astype(int)
    assert found.dtype == jnp.int4
    numpy.testing.assert_array_equal(numpy.asarray(found).astype(int), numpy.clip(numbers * 2, -8, 7))
    low, high = numbers[0::2] & 15, numbers[1::2] & 15
    numpy.testing.assert_array_equal(numpy.asarray(packed).view("u1"), low | high << 4)


def _odd_uses():
    """Bodies that are seldom written, by name: each is computed as JAX does, or refused in words."""
    lax, key = jax.lax, jax.random.key
    return {
        "scan of no rows": lambda x: lax.scan(lambda c, row: (c + 1, c + row), jnp.ones(16), x[:0])[1],
        "map of no rows": lambda x: lax.map(lambda row: row * 2, x[:0]),
        "carries of no turn": lambda x: lax.scan(lambda c, row: (c + row, None), x[1], x[:0])[0],
        "no elements": lambda x: x[:0],
        "fft": lambda x: jnp.abs(jnp.fft.fft(x)),
        "complex": lambda x: jnp.abs(x + 1j),
        "qr": lambda x: jnp.linalg.qr(x)[0],
        "eigenvalues": lambda x: jnp.linalg.eigvalsh(x @ x.T),
        "reduce by a function": lambda x: lax.reduce(x, jnp.float32(0), lambda a, b: a * 0.5 + b, (1,)),
        "other precision": lambda x: lax.reduce_precision(x, 5, 3),
        "windows of products": lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 1), "VALID"),
        "gradient of a window": lambda x: jax.grad(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID").sum())(x),
        "random bits": lambda x: lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (8, 16))[1],
        "random gamma": lambda x: jax.random.gamma(key(1), 2.0, (4,)),
        "add to strided columns": lambda x: x.at[1:3, ::2].add(1),
        "rows of a while": lambda x: jax.vmap(lambda row: lax.while_loop(lambda c: c < 10, lambda c: c + 1, row))(x[:, 0]),
        "lgamma": lambda x: lax.lgamma(x),
        "a callback": lambda x: jax.pure_callback(lambda a: a * 2, jax.ShapeDtypeStruct((8, 16), jnp.float32), x),
        "branch before the first": lambda x: lax.switch(-1, [jnp.sin, jnp.cos], x),
        "negative padding": lambda x: lax.pad(x, 0.0, ((-1, 2, 0), (1, -3, 0))),
        "diagonal": lambda x: jnp.einsum("ii->i", x[:, :8]),
    }


@pytest.mark.parametrize("name", list(_odd_uses()))
def test_odd_uses(name):
    """A body is computed as JAX does, or refused by its primitive; an error of this package's own is never what is said."""
    f, x = _odd_uses()[name], values(8, 16)

    def kernel(x_ref, o_ref):
        o_ref[...] = f(x_ref[...])
    call = pl.pallas_call(kernel, out_shape=jax.eval_shape(f, x))
    try:
        found = call(x)
    except pkc.pallas.TranslationError as error:
        assert not re.search(r"\w+Error", str(error)) and "this form of" not in str(error), error
    else:
        numpy.testing.assert_allclose(found, jax.jit(f)(x), rtol=1e-4, atol=1e-4)


def test_an_error_of_this_package_is_the_cause_of_a_refusal(monkeypatch):
    """Within the body and outside of it: the text says what has no translation, and Python shows the cause."""
    from pkc.pallas import launch, rules

    def broken(*_):
        return [][1]
    x = values(8, 128)
    with monkeypatch.context() as patch:
        patch.setitem(rules.RULES, "mul", broken)
        with pytest.raises(pkc.pallas.TranslationError, match="this form of `mul` has no translation\n") as inside:
            pkc.pallas.to_pk(pl.pallas_call(double_kernel, out_shape=like(x)), x)
    with monkeypatch.context() as patch:
        patch.setattr(launch._Launch, "_header", broken)
        with pytest.raises(pkc.pallas.TranslationError, match="the kernel double_kernel .*outside its body has no translation") as outside:
            pkc.pallas.to_pk(pl.pallas_call(double_kernel, out_shape=like(x)), x)
    for caught in (inside, outside):
        assert "IndexError" not in str(caught.value) and "interpret=True" in str(caught.value)
