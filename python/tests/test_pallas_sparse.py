"""Kernels for SparseCores: a mesh of subcores is a grid, copies take lists of indices, and barriers divide a kernel in phases. Equal to NumPy."""
import functools

import numpy
import pytest

from pallas_calls import installed, jax, jnp, pl, pltpu, values  # noqa: F401 (installed: a fixture)
import pkc.pallas

if jax.__version_info__ < (0, 12):
    pytest.skip("kernels for SparseCores are those of JAX 0.12", allow_module_level=True)
from jax._src.pallas.mosaic.sc_primitives import cummin  # noqa: E402 (0.12 does not export it)
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402 (older versions may lack it)

N = 16  # lanes


def mesh(cores=2, subcores=16):
    return plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=cores, num_subcores=subcores)


def kernel(out, body=None, cores=2, subcores=16, **words):
    """The decorator of a kernel on subcores, whose operands stay in HBM."""
    make = functools.partial(pl.kernel, out_type=out, mesh=mesh(cores, subcores), **words)
    return make if body is None else make(body)


def one(body, *args, out=(N,), dtype="int32", **words):
    """The result of a body of one subcore whose operands are in its memory."""
    like = [jax.ShapeDtypeStruct(out, dtype)] if isinstance(out, tuple) else out

    def whole(*refs):
        arrays, results, mine = refs[:len(args)], refs[len(args):len(args) + len(like)], refs[len(args) + len(like):]
        for array, memory in zip(arrays, mine):
            pltpu.sync_copy(array, memory)
        body(*mine)
        for result, memory in zip(results, mine[len(args):]):
            pltpu.sync_copy(memory, result)
    scratch = [pltpu.VMEM(a.shape, a.dtype) for a in (*args, *like)]
    found = kernel(like, whole, cores=1, subcores=1, scratch_types=scratch, **words)(*args)
    return [numpy.asarray(a) for a in found] if not isinstance(out, tuple) else numpy.asarray(found[0])


def ints(*shape, most=100, seed=0):
    return numpy.random.default_rng(seed).integers(0, most, shape).astype("i4")


def like(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


# ---- copies by indices

@pytest.mark.parametrize("rows, width", [(512, 128), (1024, 8)])
def test_rows_of_a_table(rows, width):
    """The subcores share the steps of a pipeline, each of which copies the rows that a list in its block names."""
    @kernel(like(rows, width))
    def gather(x_hbm, i_hbm, o_hbm):
        def body(i_vmem, o_vmem):
            pltpu.sync_copy(x_hbm.at[i_vmem.at[0]], o_vmem)
        pltpu.emit_pipeline(body, grid=(rows // 16,), in_specs=[pl.BlockSpec((1, 16), lambda i: (0, i))],
                            out_specs=[pl.BlockSpec((16, width), lambda i: (i, 0))], core_axis_name=("core", "subcore"),
                            dimension_semantics=(pltpu.PARALLEL,))(i_hbm, o_hbm)
    x, index = values(70, width), ints(1, rows, most=70)
    numpy.testing.assert_array_equal(jax.jit(gather)(x, index), x[index[0]])
    assert pkc.pallas.check(gather, x, index)


def mapped(out, **words):
    """As `kernel`, by `core_map`."""
    def decorate(body):
        def call(*args):
            refs = [*map(jax.new_ref, args), jax.new_ref(jnp.zeros(out.shape, out.dtype))]
            pl.core_map(mesh(), scratch_shapes=words.get("scratch_types", ()))(lambda *scratch: body(*refs, *scratch))
            return refs[-1][...]
        return jax.jit(call)
    return decorate


@pytest.mark.parametrize("by", [kernel, mapped])
@pytest.mark.parametrize("of", ["ref", "array"])
def test_indirect_blocks(of, by):
    """`pl.Indirect`: the index map gives a list, in memory or as a value."""
    @by(like(4, N, N), scratch_types=[pltpu.VMEM((4, N), jnp.int32)])
    def gather(x_hbm, i_hbm, o_hbm, i_vmem):
        pltpu.sync_copy(i_hbm, i_vmem)

        def body(x_vmem, o_vmem):
            o_vmem[...] = x_vmem[...] * 2
        pltpu.emit_pipeline(
            body, grid=(4,), in_specs=[pl.BlockSpec((pl.Indirect(N), N), lambda i: (i_vmem.at[i] if of == "ref" else i_vmem[i], 0))],
            out_specs=[pl.BlockSpec((None, N, N), lambda i: (i, 0, 0))])(x_hbm, o_hbm)
    x, index = values(33, N), ints(4, N, most=33)
    numpy.testing.assert_array_equal(gather(x, index), 2 * x[index])


@pytest.mark.parametrize("count", [1, 7, 16])
def test_a_list_of_run_time_length(count):
    """Elements of one row of a table, at the first indices of a list; one index stands for no element."""
    @kernel(like(N), cores=1, subcores=1, scratch_types=[pltpu.VMEM((N,), jnp.int32), pltpu.SMEM((1,), jnp.int32), pltpu.VMEM((N,), jnp.float32)])
    def gather(x_hbm, i_hbm, n_hbm, o_hbm, i_vmem, n_smem, o_vmem):
        pltpu.sync_copy((i_hbm, n_hbm), (i_vmem, n_smem))
        o_vmem[...] = jnp.full((N,), -1.0)
        n = n_smem[0]
        pltpu.sync_copy(x_hbm.at[2].at[plsc.Indices(i_vmem.at[pl.ds(0, n)], ignored_value=5)], o_vmem.at[pl.ds(0, n)])
        pltpu.sync_copy(o_vmem, o_hbm)
    x, index = values(4, 40), ints(N, most=8)
    wanted = numpy.where((numpy.arange(N) < count) & (index != 5), x[2, index], -1)
    numpy.testing.assert_array_equal(gather(x, index, numpy.array([count], "i4")), wanted)


def test_rows_to_places():
    """Each subcore stores its rows at the places of a permutation, with a copy that it waits for later."""
    @kernel(like(256, 24), scratch_types=[pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 24), jnp.float32), pltpu.SemaphoreType.DMA])
    def scatter(x_hbm, i_hbm, o_hbm, i_vmem, x_vmem, sem):
        first = 8 * jax.lax.axis_index(("core", "subcore"))
        pltpu.sync_copy((i_hbm.at[pl.ds(first, 8)], x_hbm.at[pl.ds(first, 8)]), (i_vmem, x_vmem))
        copy = pltpu.make_async_copy(x_vmem, o_hbm.at[i_vmem], sem)
        copy.start()
        copy.wait()
    x, place = values(256, 24), numpy.random.default_rng(1).permutation(256).astype("i4")
    found = numpy.asarray(scatter(x, place))
    numpy.testing.assert_array_equal(found[place], x)


def test_gradient_of_a_table():
    """Rows are added to those that a list names, which occur several times."""
    x, index = numpy.round(values(128, 16) * 64), ints(128, most=20)

    @jax.jit
    def gradient(x, index):
        table = jax.new_ref(jnp.ones((20, 16)), memory_space=pltpu.HBM)

        @kernel((), scratch_types=[pltpu.VMEM((4,), jnp.int32), pltpu.VMEM((4, 16), jnp.float32)])
        def add(x_hbm, i_hbm, table_hbm, i_vmem, x_vmem):
            first = 4 * jax.lax.axis_index(("core", "subcore"))
            pltpu.sync_copy((i_hbm.at[pl.ds(first, 4)], x_hbm.at[pl.ds(first, 4)]), (i_vmem, x_vmem))
            pltpu.sync_copy(x_vmem, table_hbm.at[i_vmem], add=True)
        add(x, index, table)
        return table[...]
    wanted = numpy.ones((20, 16), "f4")
    numpy.add.at(wanted, index, x)
    numpy.testing.assert_array_equal(gradient(x, index), wanted)


def test_packed_rows():
    """Rows of bf16 are copied as halves of rows of 32 bits, and taken apart."""
    @kernel(like(N, 128, dtype="uint32"), cores=1, subcores=1, scratch_types=[pltpu.VMEM((N,), jnp.int32), pltpu.VMEM((N, 128), jnp.uint32)])
    def gather(x_hbm, i_hbm, o_hbm, i_vmem, o_vmem):
        pltpu.sync_copy(i_hbm, i_vmem)
        pltpu.sync_copy(x_hbm.bitcast(jnp.uint32).at[i_vmem], o_vmem)
        pltpu.sync_copy(o_vmem, o_hbm)
    x, index = jnp.asarray(values(64, 128), jnp.bfloat16), ints(N, most=32)
    bits = numpy.asarray(jax.lax.bitcast_convert_type(x, jnp.uint16)).astype("u4")
    numpy.testing.assert_array_equal(gather(x, index), bits[2 * index] | bits[2 * index + 1] << 16)


# ---- the vector unit

def test_elements_at_indices():
    x, i, j = values(5, 7), ints(N, most=5), ints(N, most=7, seed=1)

    def body(x, i, j, o, masked):
        o[...] = plsc.load_gather(x, [i[...], j[...]])
        masked[...] = plsc.load_gather(x.at[1], [jnp.where(j[...] > 2, j[...], 1000)], mask=j[...] > 2)
    found, masked = one(body, x, i, j, out=[like(N), like(N)])
    numpy.testing.assert_array_equal(found, x[i, j])
    numpy.testing.assert_array_equal(masked[j > 2], x[1, j[j > 2]])


@pytest.mark.parametrize("add", [False, True])
def test_stores_at_indices(add):
    """A mask excludes elements even where others have their index; of equal indices the last one stays, or all are added."""
    x, i = ints(N), ints(N, most=6, seed=1)
    on = x % 3 != 0

    def body(x, i, o):
        o[...] = jnp.full((8,), 7, jnp.int32)
        (plsc.addupdate_scatter if add else plsc.store_scatter)(o, [i[...]], x[...], mask=x[...] % 3 != 0)
    wanted = numpy.full(8, 7, "i4")
    if add:
        numpy.add.at(wanted, i[on], x[on])
    else:
        wanted[i[on]] = x[on]
    numpy.testing.assert_array_equal(one(body, x, i, out=(8,)), wanted)


def test_compressed_and_expanded():
    x = ints(N)
    on = x % 2 == 0

    def body(x, packed, summed, spread):
        packed[...] = jnp.full((2 * N,), -1, jnp.int32)
        plsc.store_compressed(packed.at[pl.ds(3, N)], x[...], mask=x[...] % 2 == 0)
        summed[...] = x[...]
        plsc.addupdate(summed.at[...], x[...])
        plsc.addupdate_compressed(summed.at[...], x[...], mask=x[...] % 2 == 0)
        spread[...] = plsc.load_expanded(x.at[...], mask=x[...] % 2 == 0)
    packed, summed, spread = one(body, x, out=[like(2 * N, dtype="int32"), like(N, dtype="int32"), like(N, dtype="int32")])
    wanted, count = numpy.full(2 * N, -1), on.sum()
    wanted[3:3 + count] = x[on]
    numpy.testing.assert_array_equal(packed, wanted)
    numpy.testing.assert_array_equal(summed, 2 * x + numpy.pad(x[on], (0, N - count)))
    numpy.testing.assert_array_equal(spread[on], x[:count])


def test_counts_and_running_values():
    x = ints(N, most=6)
    on = ints(N, most=2, seed=1)

    def body(x, on, count, last, total, most, least, ones, first):
        mask = on[...] > 0
        count[...], ends = plsc.scan_count(x[...], mask)
        last[...] = ends.astype(jnp.int32)
        total[...] = plsc.cumsum(x[...], mask=mask)
        most[...] = plsc.cummax(x[...], mask=mask)
        least[...] = cummin(x[...], mask=mask)
        ones[...] = plsc.all_reduce_population_count(mask)
        first[...] = plsc.all_reduce_ffs(mask)
    count, last, total, most, least, ones, first = one(body, x, on, out=[like(N, dtype="int32")] * 7)
    mask = on > 0
    for k in range(N):
        before = x[:k + 1][mask[:k + 1]]
        assert not mask[k] or count[k] == (before == x[k]).sum()
        assert last[k] == (mask[k] and not (x[k + 1:][mask[k + 1:]] == x[k]).any())
        assert total[k] == before.sum()
        assert (most[k], least[k]) == ((before.max(), before.min()) if before.size else (x[k], x[k]))
    assert set(ones) == {mask.sum()} and set(first) == {int(numpy.argmax(mask))}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_sorted_pairs(dtype, descending):
    keys, items, on = (ints(N, most=9) - (0 if dtype == "uint32" else 4)).astype(dtype), ints(N, seed=1), ints(N, most=2, seed=2)

    def body(keys, items, on, o_keys, o_items, o_on):
        o_keys[...], o_items[...], mask = plsc.sort_key_val(keys[...], items[...], mask=on[...] > 0, descending=descending)
        o_on[...] = mask.astype(jnp.int32)
    found = one(body, keys, items, on, out=[like(N, dtype=dtype), like(N, dtype="int32"), like(N, dtype="int32")])
    signed = keys.astype("i8") * (-1 if descending else 1)
    order = numpy.argsort(numpy.where(on > 0, signed, 1000), kind="stable")
    for a, b in zip(found, (keys[order], items[order], on[order])):
        numpy.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("form", list(plsc.PackFormat))
def test_pairs_of_halves(form):
    a, b = values(N), values(N, seed=1)

    def body(a, b, oa, ob):
        oa[...], ob[...] = plsc.unpack(plsc.pack(a[...], b[...], format=form), format=form)
    found = one(body, a, b, out=[like(N), like(N)])
    for x, y in zip(found, (a, b)):
        numpy.testing.assert_array_equal(x, numpy.asarray(jnp.asarray(y).astype(jnp.bfloat16).astype(jnp.float32)))


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
def test_bits_along_lanes(dtype):
    x = ints(N, most=1 << 30)

    def body(x, narrow, again):
        narrow[...] = pltpu.bitcast(x[...], jnp.dtype(dtype), dim=-1)
        again[...] = pltpu.bitcast(narrow[...], jnp.int32, dim=-1)
    narrow, again = one(body, x, out=[like(len(x.view(dtype)), dtype=dtype), like(N, dtype="int32")])
    numpy.testing.assert_array_equal(narrow.view("i4"), x)
    numpy.testing.assert_array_equal(again, x)


@pytest.mark.parametrize("first, last, step", [(0, 64, 16), (5, 50, 7), (3, 3, 1), (0, 5, 1)])
def test_parallel_loops(first, last, step):
    """A loop with a carry, whose bounds are known at run time."""
    def body(n, o):
        o[...] = jnp.zeros((80,), jnp.int32)
        ends = n[...]

        @plsc.parallel_loop(ends[0], ends[1], step, carry=(jnp.int32(0), jnp.zeros((N,), jnp.int32)))
        def total(i, carry):
            o[pl.ds(i, 1)] = jnp.full((1,), i)
            return carry[0] + i, carry[1] + 1
        o[pl.ds(64, N)] = total[0] + total[1]
    found = one(body, numpy.array([first, last] + [0] * 14, "i4"), out=(80,))
    wanted, steps = numpy.zeros(80, "i4"), numpy.arange(first, last, step)
    wanted[steps] = steps
    wanted[64:] = steps.sum() + len(steps)
    numpy.testing.assert_array_equal(found, wanted)


# ---- subcores that wait for each other

def test_segment_sums():
    """Every subcore adds its rows to sums in the memory that all of a core share; after a barrier each writes some of them."""
    rows, width, segments = 32, 16, 32
    x, index = numpy.round(values(2, 16, rows // 16, width) * 64), ints(2, 16, rows // 16, most=segments)

    @kernel(like(2, segments, width), scratch_types=[pltpu.VMEM_SHARED((segments, width), jnp.float32), pltpu.VMEM((2, width), jnp.float32),
                                                     pltpu.VMEM((2,), jnp.int32)])
    def sums(x_hbm, i_hbm, o_hbm, shared, x_vmem, i_vmem):
        core, me = jax.lax.axis_index("core"), jax.lax.axis_index("subcore")
        x_vmem[...] = jnp.zeros((2, width))
        mine = pl.ds(2 * me, 2)
        pltpu.sync_copy(x_vmem, shared.at[mine])
        pltpu.sync_copy((x_hbm.at[core, me], i_hbm.at[core, me]), (x_vmem, i_vmem))
        plsc.subcore_barrier()
        pltpu.sync_copy(x_vmem, shared.at[i_vmem], add=True)
        plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[mine], o_hbm.at[core, mine])
    wanted = numpy.zeros((2, segments, width), "f4")
    for core in range(2):
        numpy.add.at(wanted[core], index[core].reshape(-1), x[core].reshape(-1, width))
    numpy.testing.assert_array_equal(sums(x, index), wanted)


@pytest.mark.parametrize("subcores", [1, 4, 16])
def test_a_sort_of_all_subcores(subcores):
    """Each subcore keeps the lower or upper half of what it and a neighbour have, in turns: barriers in a loop, in the scope of scratch."""
    x = ints(subcores * N, most=1000)

    @kernel(like(subcores * N, dtype="int32"), cores=1, subcores=subcores, scratch_types=[pltpu.VMEM_SHARED((subcores, N), jnp.int32)])
    def sort(x_hbm, o_hbm, shared):
        me = jax.lax.axis_index("subcore")

        @functools.partial(pl.run_scoped, own=pltpu.VMEM((N,), jnp.int32), other=pltpu.VMEM((N,), jnp.int32))
        def _(own, other):
            pltpu.sync_copy(x_hbm.at[pl.ds(me * N, N)], own)
            own[...] = jnp.sort(own[...])
            pltpu.sync_copy(own, shared.at[me])

            @pl.loop(0, subcores)
            def _(turn):
                plsc.subcore_barrier()
                lower = (me + turn) % 2 == 0
                with_me = jnp.where(lower, me + 1, me - 1)
                pair = (with_me >= 0) & (with_me < subcores)
                pltpu.sync_copy(shared.at[jnp.clip(with_me, 0, subcores - 1)], other)
                plsc.subcore_barrier()
                turned = other[...][::-1]
                half = jnp.where(lower, jnp.minimum(own[...], turned), jnp.maximum(own[...], turned))
                own[...] = jnp.where(pair, jnp.sort(half), own[...])
                pltpu.sync_copy(own, shared.at[me])
            pltpu.sync_copy(own, o_hbm.at[pl.ds(me * N, N)])
    numpy.testing.assert_array_equal(sort(x), numpy.sort(x))


def test_values_across_a_barrier():
    """A value that is computed, numbers and bools that were read, and a copy in flight."""
    @kernel(like(16, N, dtype="int32"), cores=1, scratch_types=[pltpu.VMEM((N,), jnp.int32), pltpu.VMEM_SHARED((16, N), jnp.int32), pltpu.SemaphoreType.DMA((2,))])
    def body(x_hbm, o_hbm, own, shared, sems):
        me = jax.lax.axis_index("subcore")
        copy = pltpu.make_async_copy(x_hbm.at[me], own, sems.at[1])
        copy.start()
        double = me * 2
        plsc.subcore_barrier()
        copy.wait()
        read = own[...] + double
        first, large = own[...][0], own[...] > 50
        own[...] = jnp.zeros((N,), jnp.int32)
        pltpu.sync_copy(own, shared.at[me])
        plsc.subcore_barrier()
        own[...] = read + first + double + large.astype(jnp.int32)
        pltpu.sync_copy(own, o_hbm.at[me])
    x = ints(16, N)
    numpy.testing.assert_array_equal(body(x), x + x[:, :1] + 4 * numpy.arange(16)[:, None] + (x > 50))


def test_counters_of_other_subcores():
    @kernel(like(16, N, dtype="int32"), cores=1, scratch_types=[pltpu.SMEM((1,), jnp.int32), pltpu.VMEM((N,), jnp.int32)])
    def body(o_hbm, counter, own):
        me = jax.lax.axis_index("subcore")
        counter[0] = me
        plsc.subcore_barrier()
        old = plsc.fetch_and_add(counter.at[0], 10, subcore_id=(me + 1) % 16)
        plsc.subcore_barrier()
        own[...] = jnp.where(jnp.arange(N) == 0, old, counter[0])
        pltpu.sync_copy(own, o_hbm.at[me])
    found, me = numpy.asarray(body()), numpy.arange(16)
    numpy.testing.assert_array_equal(found[:, 0], (me + 1) % 16)
    numpy.testing.assert_array_equal(found[:, 1], me + 10)


@pytest.mark.parametrize("subcores", [4, 16])
def test_the_part_of_shared_memory_that_is_a_subcores_own(subcores):
    """Each subcore fills its part, which has the same size however many subcores take part, and reads the one of the next subcore after a barrier."""
    @kernel([like(2, 2, 16 * N, dtype="int32"), like(2, subcores, N, dtype="int32")], subcores=subcores,
            scratch_types=[pltpu.VMEM_SHARED((2, 16 * N), jnp.int32), pltpu.VMEM((N,), jnp.int32)])
    def body(x_hbm, all_hbm, o_hbm, shared, own):
        core, me = jax.lax.axis_index("core"), jax.lax.axis_index("subcore")
        part = plsc.slice_subcore_vmem_from_shared(shared)
        pltpu.sync_copy(x_hbm.at[core, me], part)
        part[1] += me
        plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[1, pl.ds((me + 1) % subcores * N, N)], own)
        pltpu.sync_copy(own, o_hbm.at[core, me])

        @pl.when(me == 0)
        def _():
            pltpu.sync_copy(shared, all_hbm.at[core])
    x = ints(2, subcores, 2, N)
    everything, rows = map(numpy.asarray, body(x))
    wanted = x + numpy.array([0, 1])[None, None, :, None] * numpy.arange(subcores)[None, :, None, None]
    numpy.testing.assert_array_equal(everything.reshape(2, 2, 16, N)[:, :, :subcores], wanted.transpose(0, 2, 1, 3))
    numpy.testing.assert_array_equal(rows, numpy.roll(wanted[:, :, 1], -1, axis=1))


def test_scalar_subcores():
    @functools.partial(pl.kernel, out_type=like(2, N, dtype="int32"), mesh=plsc.ScalarSubcoreMesh(axis_name="core", num_cores=2),
                       scratch_types=[pltpu.SMEM((N,), jnp.int32)])
    def running(x_hbm, o_hbm, own):
        me = jax.lax.axis_index("core")
        pltpu.sync_copy(x_hbm.at[me], own)

        @pl.loop(1, N)
        def _(i):
            own[i] += own[i - 1]
        pltpu.sync_copy(own, o_hbm.at[me])
    x = ints(2, N)
    numpy.testing.assert_array_equal(running(x), numpy.cumsum(x, axis=1))


# ---- what a program is told, and what is refused

def test_a_program_that_asks():
    """Without `sparse_cores` a program that can do without them does."""
    assert pltpu.get_tpu_info().sparse_core is None
    assert plsc.get_sparse_core_info().num_lanes == N
    pkc.pallas.install(sparse_cores=True)
    try:
        assert pltpu.get_tpu_info().sparse_core == plsc.get_sparse_core_info()
    finally:
        pkc.pallas.install()


def test_a_barrier_in_a_branch():
    @kernel(like(N, dtype="int32"), cores=1)
    def body(x_hbm, o_hbm):
        @pl.when(jax.lax.axis_index("subcore") == 0)
        def _():
            plsc.subcore_barrier()
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)a barrier of subcores in `cond`.*test_pallas_sparse.py:\d+"):
        body(ints(N))


def test_a_barrier_in_a_loop_of_run_time_length():
    @kernel(like(N, dtype="int32"), cores=1, scratch_types=[pltpu.VMEM((N,), jnp.int32)])
    def body(x_hbm, o_hbm, x_vmem):
        pltpu.sync_copy(x_hbm, x_vmem)

        @pl.loop(0, x_vmem[...][0])
        def _(turn):
            plsc.subcore_barrier()
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)a barrier of subcores in `while`.*test_pallas_sparse.py:\d+.*in loops of constant length"):
        body(ints(N))


def test_a_part_of_a_subcore_where_there_are_none():
    @functools.partial(pl.kernel, out_type=like(N, dtype="int32"), mesh=plsc.ScalarSubcoreMesh(axis_name="core", num_cores=1),
                       scratch_types=[pltpu.VMEM_SHARED((16 * N,), jnp.int32)])
    def body(x_hbm, o_hbm, shared):
        pltpu.sync_copy(x_hbm, plsc.slice_subcore_vmem_from_shared(shared))
        pltpu.sync_copy(shared.at[pl.ds(0, N)], o_hbm)
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)slice_subcore_vmem_from_shared` in a kernel without subcores.*test_pallas_sparse.py:\d+"):
        body(ints(N))


def test_several_meshes():
    def on_vectors(x_hbm, o_hbm):
        pass

    def on_scalars(x_hbm, o_hbm):
        pass
    both = pl.kernel([on_vectors, on_scalars], like(N), mesh=[mesh(), plsc.ScalarSubcoreMesh(axis_name="core", num_cores=2)])
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)several meshes:.*on_vectors at .*test_pallas_sparse.py:\d+.*on_scalars"):
        both(values(N))


def test_a_transform_after_indices():
    @kernel(like(N, dtype="int32"), cores=1, subcores=1, scratch_types=[pltpu.VMEM((N,), jnp.int32), pltpu.VMEM((N,), jnp.int32)])
    def body(x_hbm, i_hbm, o_hbm, i_vmem, o_vmem):
        pltpu.sync_copy(i_hbm, i_vmem)
        pltpu.sync_copy(x_hbm.at[i_vmem].at[pl.ds(0, 8)], o_vmem.at[pl.ds(0, 8)])
        pltpu.sync_copy(o_vmem, o_hbm)
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)elements of a ref that indices name.*test_pallas_sparse.py:\d+"):
        body(ints(40), ints(N))


def test_indices_of_two_axes():
    @kernel(like(2, N, dtype="int32"), cores=1, subcores=1, scratch_types=[pltpu.VMEM((2, N), jnp.int32), pltpu.VMEM((2, N), jnp.int32)])
    def body(x_hbm, i_hbm, o_hbm, i_vmem, o_vmem):
        pltpu.sync_copy(i_hbm, i_vmem)
        pltpu.sync_copy(x_hbm.at[i_vmem], o_vmem)
        pltpu.sync_copy(o_vmem, o_hbm)
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)indices of a copy in a ref of shape \(2, 16\).*test_pallas_sparse.py:\d+"):
        body(ints(40), ints(2, N))
