"""Views of refs that are unusual or wrong: bitcasts and shapes that do not fit, starts far outside, no rows, parts of bytes, batches, aliases,
scoped refs and blocks of pipelines; compared with NumPy."""
import numpy
import pytest

from pallas_calls import installed, jax, jnp, like, pl, pltpu, values  # noqa: F401 (installed: a fixture)

anywhere, smem = pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.SMEM)


def shaped(shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def words_of(x):
    """Rows of x joined to words of 32 bits: element k of word [.., i, j] is x[.., n * i + k, j]."""
    n = 4 // x.dtype.itemsize
    parts = x.reshape(*x.shape[:-2], x.shape[-2] // n, n, x.shape[-1])
    return numpy.ascontiguousarray(numpy.moveaxis(parts, -2, -1)).view("u4")[..., 0]


def rows_of(words, dtype):
    """The inverse of `words_of`."""
    parts = numpy.moveaxis(numpy.ascontiguousarray(words)[..., None].view(dtype), -1, -2)
    return parts.reshape(*words.shape[:-2], -1, words.shape[-1])


@pytest.mark.parametrize("shape, dtype, view", [
    ((7, 128), "bfloat16", lambda ref: ref.bitcast(jnp.uint32)),
    ((6, 128), "int8", lambda ref: ref.bitcast(jnp.int32)),
    ((4, 6, 128), "int8", lambda ref: ref.bitcast(jnp.int32).at[0]),
    ((128,), "float32", lambda ref: ref.bitcast(jnp.bfloat16)),
    ((8, 128), "float32", lambda ref: ref.reshape(7, 128)),
    ((8, 128), "float32", lambda ref: ref.at[pl.ds(0, 4)].reshape(8, 128)),
    ((8, 128), "float32", lambda ref: ref.at[pl.ds(6, 4)].reshape(512)),
    ((8, 128), "float32", lambda ref: ref.transpose((0, 0))),
    ((8, 128), "float32", lambda ref: ref.at[pl.ds(0, 9)]),
])
def test_what_does_not_fit_is_refused_before_anything_is_written(shape, dtype, view):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)
        seen = view(x_ref)
        o_ref[...] = jnp.zeros_like(o_ref) + seen[(0,) * len(seen.shape)].astype(jnp.float32)
    with pytest.raises(Exception) as refused:
        pl.pallas_call(kernel, out_shape=shaped((8, 128)))(jnp.zeros(shape, dtype))
    lines = [entry.name for entry in refused.traceback]  # JAX refuses while it traces the kernel, pkc in its message
    assert "kernel" in lines or "test_pallas_views.py" in str(refused.value), refused.value


@pytest.mark.parametrize("space", ["vmem", "hbm"])
def test_starts_far_outside_of_views_of_views(space):
    """A load of blocks is moved into each window in turn; of a copy in HBM only what is inside is moved."""
    def kernel(at_ref, x_ref, o_ref):
        words = x_ref.bitcast(jnp.uint32).reshape(16, 128)
        page = words.at[pl.ds(at_ref[0], 8)]
        pair = page.reshape(4, 2, 128).at[pl.ds(at_ref[1], 2)]
        part = pair.reshape(4, 128).at[pl.ds(at_ref[2], 3)]
        if space == "vmem":
            o_ref[...] = part[...]
        else:
            pltpu.sync_copy(part, o_ref)
    x = values(4, 8, 128).astype(jnp.bfloat16)
    words = words_of(numpy.asarray(x).view("u2")).reshape(16, 128)
    spec = anywhere if space == "hbm" else pl.BlockSpec()
    for at in ([0, 0, 0], [3, 1, 1], [8, 2, 1]) + (([9, 3, 2], [-1, -1, -1], [2**31 - 1] * 3, [-2**31] * 3) if space == "vmem" else ()):
        found = pl.pallas_call(kernel, out_shape=shaped((3, 128), "uint32"), in_specs=[smem, spec], out_specs=spec)(numpy.array(at, "i4"), x)
        first, pair, part = (min(max(n, 0), most) for n, most in zip(at, (8, 2, 1)))
        numpy.testing.assert_array_equal(found, words[first + 2 * pair + part:][:3])


def test_stores_of_int4_to_words():
    def kernel(x_ref, at_ref, o_ref):
        small = o_ref.bitcast(jnp.int4)
        o_ref[...] = jnp.zeros_like(o_ref)
        small[pl.ds(at_ref[0], 5)] = x_ref[...].astype(jnp.int4)
    x = (numpy.arange(5 * 128).reshape(5, 128) % 16 - 8).astype("i4")
    for at in (0, 3, 9, 11):
        found = pl.pallas_call(kernel, out_shape=shaped((2, 128), "int32"), in_specs=[pl.BlockSpec(), smem])(x, numpy.array([at], "i4"))
        small = numpy.zeros((16, 128), "i8")
        small[at:at + 5] = x & 15
        wanted = sum(small.reshape(2, 8, 128)[:, k] << 4 * k for k in range(8)).astype("u4").view("i4")
        numpy.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("n", [1, 5])
def test_copies_of_no_rows_of_a_view(n):
    """JAX itself refuses views of refs without elements."""
    def kernel(n_ref, x_ref, o_ref, s_ref):
        s_ref[...] = jnp.ones_like(s_ref)
        pltpu.sync_copy(x_ref.reshape(n * 4, 128).at[pl.ds(0, n_ref[0])], s_ref.bitcast(jnp.uint32).at[pl.ds(1, n_ref[0])])
        pltpu.sync_copy(s_ref, o_ref)
    words = words_of(values(n, 8, 128).astype(jnp.bfloat16).view("u2"))
    for length in {0, min(n, 3)}:
        found = pl.pallas_call(kernel, out_shape=shaped((8, 128), "bfloat16"), in_specs=[smem, anywhere], out_specs=anywhere,
                               scratch_shapes=[pltpu.VMEM((8, 128), jnp.bfloat16)])(numpy.array([length], "i4"), words)
        wanted = numpy.ones((8, 128), jnp.bfloat16)
        wanted[2:2 + 2 * length] = rows_of(words, "u2").view(jnp.bfloat16).reshape(-1, 128)[:2 * length]
        numpy.testing.assert_array_equal(numpy.asarray(found), wanted)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_views_in_a_batch(axis):
    """Blocks and operands in HBM have one more axis than the kernel sees, wherever it is."""
    def kernel(at_ref, x_ref, y_ref, o_ref, p_ref):
        turned = x_ref.bitcast(jnp.uint32).reshape(2, 2, 128).at[at_ref[0]]
        o_ref[...] = turned[...] + 1
        pltpu.sync_copy(y_ref.reshape(16 * 4, 32).at[pl.ds(at_ref[1], 20)], p_ref.reshape(64, 32).at[pl.ds(at_ref[2], 20)])
        pltpu.sync_copy(y_ref.at[pl.ds(0, 1)].bitcast(jnp.int32), p_ref.at[pl.ds(15, 1)].bitcast(jnp.int32))

    def call(at, x, y, p):
        return pl.pallas_call(lambda at_ref, x_ref, y_ref, _, *refs: kernel(at_ref, x_ref, y_ref, *refs),
                              out_shape=[shaped((2, 128), "uint32"), shaped((16, 128))], in_specs=[smem, pl.BlockSpec(), anywhere, anywhere],
                              out_specs=[pl.BlockSpec(), anywhere], input_output_aliases={3: 1})(at, x, y, p)
    x, y, p = values(3, 8, 128).astype(jnp.bfloat16), values(3, 16, 128, seed=1), values(3, 16, 128, seed=2)
    at = numpy.array([[0, 3, 40], [1, 44, 0], [1, 17, 23]], "i4")
    o, q = jax.vmap(call, (0, axis, axis, axis))(at, *(numpy.moveaxis(numpy.asarray(a), 0, axis) for a in (x, y, p)))
    for b in range(3):
        words = words_of(numpy.asarray(x[b]).view("u2")).reshape(2, 2, 128)
        numpy.testing.assert_array_equal(o[b], words[at[b, 0]] + 1)
        wanted = p[b].reshape(64, 32).copy()
        wanted[at[b, 2]:at[b, 2] + 20] = y[b].reshape(64, 32)[at[b, 1]:at[b, 1] + 20]
        wanted = wanted.reshape(16, 128)
        wanted[15] = y[b, 0]
        numpy.testing.assert_array_equal(q[b], wanted)


def test_views_of_both_names_of_one_memory():
    """What a copy wrote through a view of the output, a view of the input reads; the caller's array stays as it was."""
    def kernel(at_ref, x_ref, y_ref, p_ref, o_ref):
        pltpu.sync_copy(y_ref.reshape(2, 8, 64), p_ref.reshape(8, 4, 64).at[pl.ds(at_ref[0], 4)].reshape(2, 8, 64))
        pltpu.sync_copy(x_ref.bitcast(jnp.uint16).at[pl.ds(at_ref[1], 8)], o_ref)
    x, y = values(16, 128), values(8, 128, seed=1)
    before = x.copy()
    for at in ([0, 0], [1, 3], [4, 24]):
        p, o = pl.pallas_call(kernel, out_shape=[like(x), shaped((8, 128), "uint16")], in_specs=[smem, anywhere, anywhere], out_specs=[anywhere] * 2,
                              input_output_aliases={1: 0})(numpy.array(at, "i4"), x, y)
        wanted = x.copy()
        wanted[2 * at[0]:2 * at[0] + 8] = y
        numpy.testing.assert_array_equal(p, wanted)
        numpy.testing.assert_array_equal(o, rows_of(wanted.view("u4"), "u2")[at[1]:at[1] + 8])
        numpy.testing.assert_array_equal(x, before)


def test_views_of_scoped_refs_and_of_blocks_of_pipelines():
    """A scoped ref is seen as words, and a pipeline over a view of an operand in HBM sees its blocks in another shape."""
    def kernel(at_ref, x_ref, o_ref):
        def scoped(s_ref):
            def step(x_ref, o_ref):
                s_ref[...] = x_ref[...]
                words = s_ref.bitcast(jnp.uint32)
                some = words.reshape(8, 64).at[pl.ds(at_ref[0], 4)].reshape(2, 128)
                words[2:4] = some[...]
                o_ref.reshape(2, 4, 128)[...] = s_ref.reshape(2, 4, 128)[...]
            block = pl.BlockSpec((8, 128), lambda i: (i, 0))
            pltpu.emit_pipeline(step, grid=(4,), in_specs=[block], out_specs=[block])(x_ref.reshape(32, 128), o_ref.reshape(32, 128))
        pl.run_scoped(scoped, pltpu.VMEM((8, 128), jnp.bfloat16))
    x = values(4, 8, 128).astype(jnp.bfloat16)
    for at in (0, 3, 4):
        found = pl.pallas_call(kernel, out_shape=like(x), in_specs=[smem, anywhere], out_specs=anywhere)(numpy.array([at], "i4"), x)
        words = words_of(numpy.asarray(x).view("u2"))
        words[:, 2:4] = words.reshape(4, 8, 64)[:, at:at + 4].copy().reshape(4, 2, 128)
        numpy.testing.assert_array_equal(numpy.asarray(found).view("u2"), rows_of(words, "u2"))


def test_views_in_products():
    """Operands of products that are views of words, transposed and of windows at run-time starts."""
    def kernel(at_ref, x_ref, w_ref, o_ref):
        left = x_ref.bitcast(jnp.bfloat16).at[pl.ds(at_ref[0], 8)]
        right = w_ref.reshape(2, 128, 64).at[at_ref[1]]
        o_ref[...] = jnp.dot(left[...], right[...], preferred_element_type=jnp.float32)
        o_ref[0:8, 0:8] += jax.lax.dot_general(left[...], left[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    rng = numpy.random.default_rng(0)
    x, w = (jnp.asarray(rng.integers(-4, 5, shape), "bfloat16") for shape in ((16, 128), (128, 128)))
    words = words_of(numpy.asarray(x).view("u2"))
    for at in ([0, 0], [3, 1], [8, 0]):
        found = pl.pallas_call(kernel, out_shape=shaped((8, 64)), in_specs=[smem, pl.BlockSpec(), pl.BlockSpec()])(numpy.array(at, "i4"), words, w)
        left, right = numpy.asarray(x, "f4")[at[0]:at[0] + 8], numpy.asarray(w, "f4").reshape(2, 128, 64)[at[1]]
        wanted = left @ right
        wanted[:, :8] += left @ left.T
        numpy.testing.assert_array_equal(found, wanted)
