"""emit_pipeline: the language's `pipeline` where that can say it, else the copies that it stands for; equal to NumPy in both."""
import numpy
import pytest

from pallas_calls import installed, jax, jnp, pl, pltpu, values  # noqa: F401 (installed: a fixture)
import pkc.pallas

anywhere, smem = pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.SMEM)


def ran(kernel, out, *args, said=True, whole=True, **words):
    """The result of a call whose operands stay in HBM; `said`: its pipelines are the language's; `whole`: it writes all of the output."""
    def call(*args):
        specs = [smem if a.dtype == numpy.int32 else anywhere for a in args]
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(out, "float32"), in_specs=specs, out_specs=anywhere, **words)(*args)
    from jax._src.pallas.mosaic import pipeline
    if hasattr(pipeline, "emit_pipeline_p"):
        text = str(pkc.pallas.to_pk(call, *args))
        assert ("pipeline (" in text, "async_copy" in text) == (said, not said), text
        if said and whole:
            assert pkc.pallas.check(call, *args)
    return call(*args)


def twice(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def rows(n=8):
    return pl.BlockSpec((n, 128), lambda i: (i, 0))


def test_a_body_that_takes_its_indices_and_adds_to_its_output():
    if jax.__version_info__ < (0, 11):
        pytest.skip("this JAX gives a body no indices")

    def kernel(x_ref, o_ref):
        def inner(step, x_ref, o_ref):
            @pl.when(getattr(step, "index", step)[1] == 0)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)
            o_ref[...] += x_ref[...]
        pltpu.emit_pipeline(inner, grid=(2, 3), in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
                            out_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, 0))], _explicit_indices=True)(x_ref, o_ref)
    x = values(16, 384)
    numpy.testing.assert_allclose(ran(kernel, (16, 128), x, said=False), x.reshape(16, 3, 128).sum(1), rtol=1e-5, atol=1e-5)


def test_rows_and_places():
    def kernel(x_ref, o_ref):
        def inner(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2 + pl.program_id(0).astype(jnp.float32) + pl.num_programs(0)
        pltpu.emit_pipeline(inner, grid=(8,), in_specs=[rows()], out_specs=[rows()])(x_ref, o_ref)
    x = values(64, 128)
    numpy.testing.assert_allclose(ran(kernel, x.shape, x), x * 2 + numpy.arange(64)[:, None] // 8 + 8, rtol=1e-6)


@pytest.mark.each_jax
@pytest.mark.parametrize("returned", [False, True])
def test_a_kernel_that_is_a_pipeline(returned):
    """A pipeline returns None, which a kernel must: whether it is the kernel itself, or the kernel returns what it returns."""
    if not returned and jax.__version_info__ < (0, 11):
        pytest.skip("this JAX counts the steps where the pipeline is made, which must be in a kernel")

    def piped(*refs):
        return pltpu.emit_pipeline(twice, grid=(8,), in_specs=[rows()], out_specs=[rows()])(*refs)
    x = values(64, 128)
    kernel = piped if returned else pltpu.emit_pipeline(twice, grid=(8,), in_specs=[rows()], out_specs=[rows()])
    numpy.testing.assert_array_equal(ran(kernel, x.shape, x), x * 2)


@pytest.mark.parametrize("m, n", [(64, 256), (56, 200)])
def test_product(m, n):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        def inner(x_ref, y_ref, o_ref):
            @pl.when(pl.program_id(2) == 0)
            def _():
                acc_ref[...] = jnp.zeros_like(acc_ref)
            acc_ref[...] += jnp.dot(x_ref[...], y_ref[...])

            @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
            def _():
                o_ref[...] = acc_ref[...]
        pltpu.emit_pipeline(
            inner, grid=(pl.cdiv(m, 16), pl.cdiv(n, 128), 3),
            in_specs=[pl.BlockSpec((16, 128), lambda i, j, k: (i, k), pipeline_mode=pl.Buffered(3)),
                      pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
            out_specs=[pl.BlockSpec((16, 128), lambda i, j, k: (i, j))])(x_ref, y_ref, o_ref)
    x, y = values(m, 384), values(384, n, seed=1)
    found = ran(kernel, (m, n), x, y, scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)])
    numpy.testing.assert_allclose(found, x @ y, rtol=1e-4, atol=1e-4)


def test_maps_that_read():
    """Pages by a table, to rows that are counted from a number; the count of steps is known at run time."""
    def kernel(table_ref, n_ref, x_ref, o_ref):
        first = n_ref[1] * 2

        def inner(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2
        pltpu.emit_pipeline(inner, grid=(n_ref[0],), in_specs=[pl.BlockSpec((None, 8, 128), lambda t: (table_ref[t + first], 0, 0))],
                            out_specs=[pl.BlockSpec((8, 128), lambda t: (t, 0))])(x_ref, o_ref)
    x, table, n = values(5, 8, 128), numpy.array([0, 0, 3, 1, 3, 4, 0], "i4"), numpy.array([4, 1], "i4")
    found = ran(kernel, (32, 128), table, n, x)
    numpy.testing.assert_array_equal(found, 2 * x[table[2:6]].reshape(32, 128))


@pytest.mark.parametrize("size, said", [(32, True), (36, False)])
def test_windows(size, said):
    """Of rows [8 + .., ..) of one matrix of several; rows that no whole number of blocks has are copied."""
    def kernel(n_ref, x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(pl.cdiv(size, 8),), in_specs=[rows()], out_specs=[rows()])(
            x_ref.at[n_ref[0], pl.ds(n_ref[1], size)], o_ref.at[pl.ds(8, size)])
    x, n = values(3, 64, 128), numpy.array([2, 16], "i4")
    found = numpy.asarray(ran(kernel, (56, 128), n, x, said=said, whole=False))
    numpy.testing.assert_array_equal(found[8:8 + size], 2 * x[2, 16:16 + size])


def test_two_in_each_other():
    def kernel(x_ref, y_ref, o_ref):
        def outer(o_ref):
            i = pl.program_id(0)

            def inner(x_ref, y_ref):
                j = pl.program_id(0)
                o_ref[:, pl.ds(j * 128, 128)] = x_ref[...] + y_ref[...] * pl.num_programs(0)
            pltpu.emit_pipeline(inner, grid=(3,), in_specs=[pl.BlockSpec((8, 128), lambda j: (i, j)), pl.BlockSpec((1, 128), lambda j: (0, j))])(
                x_ref, y_ref)
        pltpu.emit_pipeline(outer, grid=(4,), out_specs=[pl.BlockSpec((8, 384), lambda i: (i, 0))])(o_ref)
    x, y = values(32, 384), values(1, 384, seed=1)
    numpy.testing.assert_allclose(ran(kernel, x.shape, x, y), x + 3 * y, rtol=1e-6)


def test_one_after_the_other():
    """What the first wrote the second reads: a block of an output is not fetched, so that one is copied."""
    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(4,), in_specs=[rows()], out_specs=[rows()])(x_ref, o_ref.at[pl.ds(0, 32)])
        pltpu.emit_pipeline(twice, grid=(4,), in_specs=[rows()], out_specs=[rows()])(o_ref.at[pl.ds(0, 32)], o_ref.at[pl.ds(32, 32)])
    x = values(32, 128)

    def call(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((64, 128), "float32"), in_specs=[anywhere], out_specs=anywhere)(x)
    numpy.testing.assert_array_equal(call(x), numpy.concatenate([2 * x, 4 * x]))
    assert pkc.pallas.check(call, x)


def test_an_alias():
    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(2,), in_specs=[rows()], out_specs=[rows()])(x_ref, o_ref)
    x = values(32, 128)
    found = ran(kernel, x.shape, x, input_output_aliases={0: 0})
    numpy.testing.assert_array_equal(found, numpy.concatenate([2 * x[:16], x[16:]]))


def test_blocks_by_element():
    def kernel(x_ref, o_ref):
        def inner(x_ref, o_ref):
            o_ref[...] = x_ref[:8] + x_ref[8:]
        pltpu.emit_pipeline(inner, grid=(3,), in_specs=[pl.BlockSpec((pl.Element(16), 128), lambda i: (i * 8, 0))], out_specs=[rows()])(
            x_ref, o_ref)
    x = values(32, 128)
    numpy.testing.assert_array_equal(ran(kernel, (24, 128), x), x[:24] + x[8:])


def test_what_is_copied():
    """Refs in VMEM, slices of a length known at run time, blocks in SMEM, buffers of the caller, HBM that is read directly."""
    def kernel(n_ref, x_ref, o_ref, here_ref):
        def inner(x_ref, n_ref, o_ref):
            o_ref[...] = x_ref[...] * 2 + n_ref[0].astype(jnp.float32) + pl.num_programs(0).astype(jnp.float32)
        here_ref[...] = jnp.ones((16, 128), jnp.float32)
        count = pl.BlockSpec((1,), lambda i: (i,), memory_space=pltpu.SMEM)
        pltpu.emit_pipeline(inner, grid=(n_ref[0],), in_specs=[rows(), count], out_specs=[rows()])(here_ref, n_ref, o_ref.at[pl.ds(0, 16)])
        pltpu.emit_pipeline(twice, grid=(2,), in_specs=[pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(i * 8, 8), 0))],
                            out_specs=[rows()])(x_ref, o_ref.at[pl.ds(16, 16)])
    x, n = values(16, 128), numpy.array([2, 5], "i4")
    found = ran(kernel, (32, 128), n, x, said=False, scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)])
    numpy.testing.assert_allclose(found, numpy.concatenate([numpy.full((8, 128), 6), numpy.full((8, 128), 9), 2 * x]), rtol=1e-6)


@pytest.mark.parametrize("grid", [(), (2,)])
@pytest.mark.parametrize("here", [True, False])
def test_a_map_that_asks_for_the_extent(grid, here):
    """It is the pipeline's, also where that is known at run time, copies stand for the pipeline, and the kernel has a grid of its own."""
    def kernel(n_ref, x_ref, o_ref, here_ref):
        pltpu.sync_copy(x_ref, here_ref)
        backwards = pl.BlockSpec((8, 128), lambda i: (pl.num_programs(0) - 1 - i, 0))
        pltpu.emit_pipeline(twice, grid=(n_ref[0],), in_specs=[backwards], out_specs=[rows()])(here_ref if here else x_ref, o_ref)
    x, n = values(32, 128), numpy.array([4], "i4")

    def call(n, x):
        return pl.pallas_call(kernel, grid=grid, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[smem, anywhere],
                              out_specs=anywhere, scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)])(n, x)
    numpy.testing.assert_array_equal(call(n, x), 2 * x.reshape(4, 8, 128)[::-1].reshape(32, 128))


def test_a_slice_that_is_always_the_same():
    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(1,), in_specs=[pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(8, 8), 0))],
                            out_specs=[rows()])(x_ref, o_ref)
    x = values(24, 128)
    numpy.testing.assert_array_equal(ran(kernel, (8, 128), x, said=False), 2 * x[8:16])


def test_a_ref_that_is_also_read_directly():
    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(2,), in_specs=[rows()], out_specs=[rows()])(x_ref, o_ref)
        o_ref[0, 0] = x_ref[3, 7]
    x = values(16, 128)

    def call(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere], out_specs=anywhere)(x)
    wanted = 2 * x
    wanted[0, 0] = x[3, 7]
    numpy.testing.assert_array_equal(call(x), wanted)


def test_both_interpreters_see_the_copies():
    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(2,), in_specs=[rows()], out_specs=[rows()])(x_ref, o_ref)
    x = values(16, 128)
    for interpret in [True, pltpu.InterpretParams()] if hasattr(pltpu, "InterpretParams") else [True]:
        call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere], out_specs=anywhere, interpret=interpret)
        numpy.testing.assert_array_equal(call(x), 2 * x)


def test_vmap_and_a_mesh():
    def kernel(x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(2,), in_specs=[rows()], out_specs=[rows()])(x_ref, o_ref)

    def call(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere], out_specs=anywhere)(x)
    x = values(3, 16, 128)
    numpy.testing.assert_array_equal(jax.vmap(call)(x), 2 * x)
    if not hasattr(pl, "kernel") or not hasattr(pltpu, "create_tensorcore_mesh"):
        return
    import inspect
    word = "out_type" if "out_type" in inspect.signature(pl.kernel).parameters else "out_shape"

    def shared(x_ref, o_ref):
        pltpu.emit_pipeline(twice, grid=(2,), in_specs=[rows()], out_specs=[rows()], core_axis_name="core",
                            dimension_semantics=(pltpu.PARALLEL,))(x_ref, o_ref)
    call = pl.kernel(shared, mesh=pltpu.create_tensorcore_mesh("core"), **{word: jax.ShapeDtypeStruct((16, 128), "float32")})
    numpy.testing.assert_array_equal(call(x[0]), 2 * x[0])

    def named(x_ref, o_ref, here_ref):
        def inner(x_ref, o_ref):
            o_ref[...] = x_ref[...] + jax.lax.axis_index("core").astype(jnp.float32) + jax.lax.axis_size("core")
        pltpu.sync_copy(x_ref, here_ref)  # a block of what is not in HBM: copies
        pltpu.emit_pipeline(inner, grid=(2,), in_specs=[rows()], out_specs=[rows()])(here_ref, o_ref)
    scratch = "scratch_types" if word == "out_type" else "scratch_shapes"
    call = pl.kernel(named, mesh=pltpu.create_tensorcore_mesh("core"),
                     **{word: jax.ShapeDtypeStruct((16, 128), "float32"), scratch: [pltpu.VMEM((16, 128), jnp.float32)]})
    numpy.testing.assert_array_equal(call(x[0]), x[0] + 1)


def test_vmap_of_copies():
    """What stays in HBM has one more axis than the kernel sees; also where the kernel reads it directly, and with an axis not in front."""
    def kernel(x_ref, o_ref, p_ref, sem):
        i = pl.program_id(0)
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(i * 8, 8)], o_ref.at[pl.ds(i * 8, 8)], sem)
        copy.start()
        copy.wait()
        p_ref[...] = jnp.full((8, 128), x_ref[0, 3] if direct else i, jnp.float32)

    def call(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=[shape, shape], grid=(2,), in_specs=[anywhere], out_specs=[anywhere, rows()],
                              scratch_shapes=[pltpu.SemaphoreType.DMA])(x)
    x = values(3, 16, 128)
    for direct, axis in [(False, 0), (False, 1), (True, 0)]:
        jax.clear_caches()
        o, p = jax.vmap(call, axis)(numpy.moveaxis(x, 0, axis))
        numpy.testing.assert_array_equal(o, x)
        wanted = x[:, :1, 3:4] if direct else numpy.arange(16)[:, None] // 8
        numpy.testing.assert_array_equal(p, numpy.broadcast_to(wanted, x.shape))


def test_indices_of_two_dtypes():
    def kernel(n_ref, x_ref, o_ref):
        n = n_ref[0]
        window = x_ref.at[pl.ds(n.astype(jnp.uint32), 16)]
        o_ref[...] = window[pl.ds(n, 8), :] + window[n.astype(jnp.uint8)]
    x, n = values(24, 128), numpy.array([3], "i4")

    def call(n, x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), "float32"), in_specs=[smem, pl.BlockSpec(memory_space=pltpu.VMEM)])(n, x)
    numpy.testing.assert_array_equal(call(n, x), x[6:14] + x[6])


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_pipeline_in_vmap(dynamic, explicit):
    """JAX batches a pipeline where its own setting keeps one as an equation; the setting is left as it was. The axis of the batch is
    none of those that the body and the maps know."""
    config, pipeline = pytest.importorskip("jax._src.config"), pytest.importorskip("jax._src.pallas.mosaic.pipeline")
    keep = getattr(config, "use_emit_pipeline_primitive", None)
    if keep is None or not hasattr(pipeline, "emit_pipeline_p") or pkc._versions.row(jax.__version__).since < (0, 11):
        pytest.skip("this JAX does not batch pipelines")

    def kernel(x_ref, o_ref):
        def known(x, o):
            o[...] = x[...] * 2 + pl.program_id(1) * 10 + pl.num_programs(1)

        def given(step, x, o):
            o[...] = x[...] * 2 + step.index[1] * 10 + 3
        ins = pl.BlockSpec((8, 128), lambda _, i: (0, pl.num_programs(1) - 1 - i))
        outs = pl.BlockSpec((8, 128), lambda _, i: (0, i))
        grid = (1, jnp.array(3)) if dynamic else (1, 3)
        words = {"_explicit_indices": True} if explicit else {}
        jax.vmap(pltpu.emit_pipeline(given if explicit else known, grid=grid, in_specs=[ins], out_specs=[outs], **words))(x_ref, o_ref)
    x = values(4, 8, 384)
    with keep(True):
        found = pl.kernel(kernel, jax.ShapeDtypeStruct(x.shape, "float32"), mesh=pltpu.create_tensorcore_mesh("core"))(x)
        assert keep.value
    blocks = x.reshape(4, 8, 3, 128)[:, :, ::-1] * 2 + numpy.arange(3, dtype="f4")[:, None] * 10 + 3
    numpy.testing.assert_allclose(found, blocks.reshape(x.shape), rtol=1e-6)
