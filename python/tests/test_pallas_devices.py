"""Pallas kernels that talk to other devices, in jax.shard_map: equal to NumPy and to JAX's interpreter of a TPU."""
import functools
import os
import subprocess
import sys

import numpy
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp, lax = jax.numpy, jax.lax
pl = pytest.importorskip("jax.experimental.pallas", reason="JAX has no Pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu", reason="JAX has no Pallas for TPUs")
import pkc.pallas  # noqa: E402
from pallas_calls import integers  # noqa: E402

if not (hasattr(jax, "shard_map") and hasattr(pltpu, "InterpretParams")):
    pytest.skip("this JAX has no jax.shard_map or no pltpu.InterpretParams", allow_module_level=True)

P = jax.sharding.PartitionSpec
LOGICAL, MESH = pl.DeviceIdType.LOGICAL, pl.DeviceIdType.MESH
hbm, vmem, smem = [pl.BlockSpec(memory_space=space) for space in (pl.ANY, pltpu.VMEM, pltpu.SMEM)]
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR


@pytest.fixture(autouse=True)
def installed():
    pkc.pallas.install()
    if len(jax.devices()) < 8:
        pytest.skip("JAX has fewer than 8 devices")


def mesh_of(**axes):
    extents = tuple(axes.values())
    return jax.sharding.Mesh(numpy.array(jax.devices()[:numpy.prod(extents)]).reshape(extents), tuple(axes))


def mapped(f, mesh, ins, outs):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False))


def called(kernel, *shapes, interpret=False, ins=(), outs=None, scratch=(), grid=(), collective=None, **words):
    """A pallas_call of arrays of f32, one for each of `shapes`."""
    params = pltpu.CompilerParams() if collective is None else pltpu.CompilerParams(collective_id=collective)
    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    outs = outs or [hbm] * len(shapes)
    one = len(shapes) == 1
    return pl.pallas_call(kernel, out_shape=shapes[0] if one else shapes, in_specs=ins, out_specs=outs[0] if one else outs, grid=grid,
                          scratch_shapes=scratch, compiler_params=params, interpret=interpret, **words)


def ring(axis="x"):
    """(this device, the one before, the one after)"""
    me, n = lax.axis_index(axis), lax.axis_size(axis)
    return me, lax.rem(me + n - 1, n), lax.rem(me + 1, n)


def push(source, target, sent, came, to):
    return pltpu.make_async_remote_copy(source, target, sent, came, device_id=(to,), device_id_type=MESH)


def meet(*others):
    """Waits until these devices are in the kernel, which say the same to this one."""
    barrier = pltpu.get_barrier_semaphore()
    for other in others:
        pl.semaphore_signal(barrier, 1, device_id=(other,), device_id_type=MESH)
    pl.semaphore_wait(barrier, len(others))


def meet_twice(*others):
    """And until they have seen that it is: the next call may use the same barrier."""
    meet(*others)

    @functools.partial(pl.run_scoped, again=REGULAR)
    def _(again):
        for other in others:
            pl.semaphore_signal(again, 1, device_id=(other,), device_id_type=MESH)
        pl.semaphore_wait(again, len(others))


# ---- the nine kernels of JAX's guide to distributed computing. Each function gives what is mapped, its specs, arguments and result

def permute(n, interpret):
    def kernel(x_ref, o_ref, sent, came):
        _, left, right = ring()
        meet(left, right)
        copy = push(x_ref, o_ref, sent, came, right)
        copy.start()
        copy.wait()
    call = called(kernel, (8, 128), interpret=interpret, ins=[hbm], scratch=[DMA, DMA], collective=1)
    x = integers(8, 128 * n)
    return call, P(None, "x"), P(None, "x"), [x], numpy.roll(x, 128, axis=1)


def pairs(n, interpret):
    """In each four devices: the first to the second, and the last two with each other."""
    def kernel(x_ref, o_ref, sent, came):
        me = lax.axis_index("x")
        first = me // 4 * 4
        o_ref[...] = jnp.zeros_like(o_ref)
        meet(*[lax.rem(me + k, n) for k in range(n)])

        def to(place):
            return push(x_ref, o_ref, sent, came, first + place)

        @pl.when(me == first)
        def _():
            to(1).start()
            to(1).wait_send()

        @pl.when(me == first + 1)
        def _():
            to(1).wait_recv()
        for own, other in (2, 3), (3, 2):
            @pl.when(me == first + own)
            def _(own=own, other=other):
                to(other).start()
                to(other).wait_send()
                to(own).wait_recv()
    call = called(kernel, (8, 128), interpret=interpret, ins=[vmem], outs=[vmem], scratch=[DMA, DMA], collective=2)
    x = integers(8 * n, 128)
    wanted = x.reshape(n // 4, 4, 8, 128)[:, [0, 0, 3, 2]].copy()
    wanted[:, 0] = 0
    return call, P("x"), P("x"), [x], wanted.reshape(x.shape)


def gather(n, interpret):
    """Around the ring, with a semaphore for each part that comes."""
    def kernel(x_ref, o_ref, copied, sent, came):
        step, (me, left, right) = pl.program_id(0), ring()
        part = lax.rem(me - step + n, n)

        @pl.when(step == 0)
        def _():
            meet(left, right)
            own = pltpu.make_async_copy(x_ref, o_ref.at[me], copied)
            own.start()
            own.wait()
        copy = push(o_ref.at[part], o_ref.at[part], sent, came.at[step], right)
        copy.start()
        copy.wait()
    call = called(kernel, (n, 8, 128), interpret=interpret, ins=[hbm], scratch=[DMA, DMA, DMA((n - 1,))], grid=(n - 1,), collective=3)
    x = integers(8 * n, 128)
    return call, P("x"), P("x"), [x], numpy.tile(x.reshape(n, 8, 128), (n, 1, 1))


def barrier(n, interpret):
    """The first step of three waits for the device before; ids are numbers."""
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            semaphore, right = pltpu.get_barrier_semaphore(), ring()[2]
            pl.semaphore_signal(semaphore, device_id=right, device_id_type=LOGICAL)
            pl.semaphore_wait(semaphore, 1)
        o_ref[...] = x_ref[...] + lax.axis_index("x").astype(jnp.float32)
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = called(kernel, (24, 128), interpret=interpret, ins=[rows], outs=[rows], grid=(3,), collective=4)
    x = integers(24 * n, 128)
    return call, P("x"), P("x"), [x], x + numpy.arange(24 * n)[:, None] // 24


def buffers(n, interpret):
    """The largest of all parts: one buffer is read while the other one is filled."""
    def kernel(x_ref, o_ref, slots, copied, sent, came, free, seen):
        step, (_, left, right) = pl.program_id(0), ring()
        work, receive = lax.rem(step, 2), lax.rem(step + 1, 2)

        @pl.when(step == 0)
        def _():
            meet_twice(left, right)
            o_ref[...] = x_ref[...]
            pltpu.sync_copy(x_ref, slots.at[work])

        @pl.when(step > 0)
        def _():
            pl.semaphore_wait(free, 1)
        local = pltpu.make_async_copy(slots.at[work], seen, copied)
        local.start()
        remote = push(slots.at[work], slots.at[receive], sent, came, right)
        remote.start()
        local.wait()
        o_ref[...] = jnp.maximum(o_ref[...], seen[...])
        remote.wait()

        @pl.when(step < n - 1)
        def _():
            pl.semaphore_signal(free, 1, device_id=(left,), device_id_type=MESH)
    call = called(kernel, (8, 128), (2, 8, 128), interpret=interpret, ins=[vmem], outs=[vmem, hbm], grid=(n,), collective=5,
                  scratch=[DMA, DMA, DMA, REGULAR, pltpu.VMEM((8, 128), jnp.float32)])
    x = integers(8, 128 * n)
    largest = x.reshape(8, n, 128).max(axis=1)
    return lambda x: call(x)[0], P(None, "x"), P(None, "x"), [x], numpy.tile(largest, (1, n))


def all_reduce(n, interpret):
    """The sum: each part goes around, and a device says when its buffer may be written."""
    def kernel(x_ref, o_ref, slots, copied, came, sent, room, seen):
        step, (_, left, right) = pl.program_id(0), ring()
        work, receive = lax.rem(step, 2), 1 - lax.rem(step, 2)

        @pl.when(step == 0)
        def _():
            meet_twice(left, right)
            o_ref[...] = jnp.zeros_like(o_ref)
            first = push(x_ref, slots.at[work], sent, came, right)
            first.start()
            first.wait()
        pl.semaphore_signal(room, 1, device_id=(left,), device_id_type=MESH)
        local = pltpu.make_async_copy(slots.at[work], seen, copied)
        local.start()
        pl.semaphore_wait(room, 1)
        remote = push(slots.at[work], slots.at[receive], sent, came, right)
        remote.start()
        local.wait()
        o_ref[...] += seen[...]
        remote.wait()
    call = called(kernel, (8, 128), (2, 8, 128), interpret=interpret, ins=[vmem], outs=[vmem, hbm], grid=(n,), collective=6,
                  scratch=[DMA, DMA, DMA, REGULAR, pltpu.VMEM((8, 128), jnp.float32)])
    x = integers(8, 128 * n)
    return lambda x: call(x)[0], P(None, "x"), P(None, "x"), [x], numpy.tile(x.reshape(8, n, 128).sum(axis=1), (1, n))


def scatter_copies(x_ref, slots, step, rows, left_sems, right_sems):
    """(first to the left, first to the right, left, right): the upper halves of parts go left, and the lower ones right."""
    work, receive, (me, left, right) = lax.rem(step, 2), 1 - lax.rem(step, 2), ring()
    upper, lower = pl.ds(0, rows // 2), pl.ds(rows // 2, rows // 2)
    return (push(x_ref.at[me, upper], slots.at[work, upper], *left_sems, left),
            push(x_ref.at[me, lower], slots.at[work, lower], *right_sems, right),
            push(slots.at[work, upper], slots.at[receive, upper], *left_sems, left),
            push(slots.at[receive, lower], slots.at[work, lower], *right_sems, right))


def scatter_steps(n, rows, x_ref, slots, left_sems, right_sems, left_room, right_room, add, keep):
    """A step of the sum of which each device keeps a part. While the sum of one half is made, that of the other half moves."""
    step, phase, (me, left, right) = pl.program_id(0), pl.program_id(1), ring()
    work, begins, ends = lax.rem(step, 2), (pl.program_id(0) == 0) & (pl.program_id(1) == 0), pl.program_id(0) == n - 1
    first_left, first_right, to_left, to_right = scatter_copies(x_ref, slots, step, rows, left_sems, right_sems)

    def give_room(semaphore, device):
        pl.semaphore_signal(semaphore, 1, device_id=(device,), device_id_type=MESH)

    @pl.when(begins)
    def _():
        meet_twice(left, right)
        first_left.start()
        first_left.wait()
        first_right.start()
        give_room(right_room, left)
        give_room(left_room, right)
    for k, room, copy in (0, right_room, to_right), (1, left_room, to_left):
        @pl.when(~begins & (phase == k))
        def _(room=room, copy=copy):
            pl.semaphore_wait(room, 1)
            copy.start()
    for k, part in (0, lax.rem(me + step + 1, n)), (1, lax.rem(me - step - 1 + n, n)):
        @pl.when(~ends & (phase == k))
        def _(k=k, part=part):
            add(part, work, pl.ds(k * (rows // 2), rows // 2))

    @pl.when(begins)
    def _():
        first_right.wait()
    for k, room, copy, device in (0, right_room, to_right, left), (1, left_room, to_left, right):
        @pl.when(~begins & (phase == k))
        def _(room=room, copy=copy, device=device):
            copy.wait()
            give_room(room, device)

        @pl.when(ends & (phase == k))
        def _(k=k, room=room):
            keep(work, pl.ds(k * (rows // 2), rows // 2))
            pl.semaphore_wait(room, 1)


def scatter_call(kernel, n, rows, columns, interpret, space, scratch, collective):
    call = called(kernel, (rows, columns), (2, rows, columns), interpret=interpret, ins=[space], outs=[space, hbm], grid=(n, 2),
                  scratch=[DMA] * 5 + [REGULAR] * 2 + scratch, collective=collective)
    x = integers(rows * n, columns * n)
    wanted = x.reshape(n, rows, n, columns).sum(axis=2).reshape(n * rows, columns)
    return lambda x: call(x.reshape(n, rows, columns))[0], P(None, "x"), P("x"), [x], wanted


def reduce_scatter(n, interpret):
    def kernel(x_ref, o_ref, slots, copied, left_came, left_sent, right_came, right_sent, left_room, right_room, total):
        def add(part, work, half):
            pltpu.async_copy(slots.at[work, half], total, copied).wait()
            total[...] += x_ref[part, half]
            pltpu.async_copy(total, slots.at[work, half], copied).wait()

        def keep(work, half):
            pltpu.async_copy(slots.at[work, half], total, copied).wait()
            o_ref[half] = total[...]
        scatter_steps(n, 16, x_ref, slots, (left_sent, left_came), (right_sent, right_came), left_room, right_room, add, keep)
    return scatter_call(kernel, n, 16, 128, interpret, vmem, [pltpu.VMEM((8, 128), jnp.float32)], 7)


def product(n, interpret):
    """A pipeline in what moves between devices: each part of x is multiplied while the next one comes."""
    def multiply(x_ref, w_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...], precision="highest")

    def kernel(x_ref, w_ref, o_ref, parts, sent, came):
        step, (me, left, right) = pl.program_id(0), ring()
        part = lax.rem(me - step + n, n)

        @pl.when(step == 0)
        def _():
            meet(left, right)
            pltpu.sync_copy(x_ref, parts.at[me])
        copy = push(parts.at[part], parts.at[part], sent.at[lax.rem(step, 2)], came.at[step], right)

        @pl.when(step < n - 1)
        def _():
            copy.start()
        pltpu.emit_pipeline(multiply, grid=(2, 2), in_specs=[pl.BlockSpec((8, 32), lambda i, j: (i, 0)), pl.BlockSpec((32, 128), lambda i, j: (0, j))],
                            out_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))])(parts.at[part], w_ref, o_ref.at[part])

        @pl.when(step < n - 1)
        def _():
            copy.wait()
    call = called(kernel, (n, 16, 256), (n, 16, 32), interpret=interpret, ins=[hbm, hbm], outs=[hbm, hbm], grid=(n,), collective=8,
                  scratch=[DMA((2,)), DMA((n - 1,))])
    x, w = integers(16 * n, 32), integers(32, 256 * n, seed=1)
    return lambda x, w: call(x, w)[0].reshape(16 * n, 256), (P("x"), P(None, "x")), P(None, "x"), [x, w], x @ w


def reduce_scatter_of_blocks(n, interpret):
    """Parts stay in HBM, and are added by a pipeline whose result is where one of its operands is."""
    def sum_of(x_ref, before_ref, after_ref):
        after_ref[...] = before_ref[...] + x_ref[...]

    def kernel(x_ref, o_ref, slots, copied, left_came, left_sent, right_came, right_sent, left_room, right_room):
        block = pl.BlockSpec((8, 128), lambda i, j: (i, j))

        def add(part, work, half):
            pltpu.emit_pipeline(sum_of, grid=(2, 2), in_specs=[block, block], out_specs=[block])(
                x_ref.at[part, half], slots.at[work, half], slots.at[work, half])

        def keep(work, half):
            pltpu.async_copy(slots.at[work, half], o_ref.at[half], copied).wait()
        scatter_steps(n, 32, x_ref, slots, (left_sent, left_came), (right_sent, right_came), left_room, right_room, add, keep)
    return scatter_call(kernel, n, 32, 256, interpret, hbm, [], 9)


GUIDE = [permute, pairs, gather, barrier, buffers, all_reduce, reduce_scatter, product, reduce_scatter_of_blocks]


def ran(example, n, interpret):
    f, ins, outs, args, wanted = example(n, interpret)
    return mapped(f, mesh_of(x=n), ins, outs)(*args), wanted


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("example", GUIDE, ids=lambda e: e.__name__)
def test_guide(example, n):
    found, wanted = ran(example, n, False)
    numpy.testing.assert_array_equal(found, wanted)
    numpy.testing.assert_array_equal(found, ran(example, n, pltpu.InterpretParams())[0])


# ---- ids of devices, semaphores and operands in the forms that Pallas has

def exchanged(kernel, mesh, spec, *args, space=vmem, rows=8, interpret=False, **words):
    """Of a kernel (*operands, o_ref, ready, sent, came), which copies to another device when that is ready."""
    def scoped(*refs):
        pl.run_scoped(functools.partial(kernel, *refs), REGULAR, DMA, DMA)
    call = called(scoped, (rows, 128), interpret=interpret, ins=[space] * len(args), outs=[space], **words)
    return mapped(call, mesh, spec, spec)(*args)


def ready_for(semaphore, device):
    pl.semaphore_signal(semaphore, device_id=device)
    pl.semaphore_wait(semaphore)


@pytest.mark.parametrize("space", [vmem, hbm], ids=["vmem", "hbm"])
def test_exchange(space):
    def kernel(x_ref, o_ref, ready, sent, came):
        other = 1 - lax.axis_index("x")
        pl.semaphore_signal(ready, device_id=other, device_id_type=LOGICAL)
        pl.semaphore_wait(ready)
        copy = pltpu.async_remote_copy(x_ref, o_ref, sent, came, other, device_id_type=LOGICAL)
        copy.wait_send()
        copy.wait_recv()
    x = integers(16, 128)
    numpy.testing.assert_array_equal(exchanged(kernel, mesh_of(x=2), P("x"), x, space=space), numpy.roll(x, 8, axis=0))


FORMS = {
    "number": (dict(x=8), P("x"), lambda next: next("x")),
    "indices": (dict(y=2, x=4), P("x"), lambda next: (lax.axis_index("y"), next("x"))),
    "names": (dict(y=2, x=4), P("x"), lambda next: {"x": next("x")}),
    "outer": (dict(y=4, x=2), P("y"), lambda next: {"y": next("y")}),
    "joint": (dict(y=2, x=3), P(("y", "x")), lambda next: {("y", "x"): next(("y", "x"))}),
    "three": (dict(z=2, y=2, x=2), P("y"), lambda next: {"y": next("y"), "z": lax.axis_index("z")}),
}


@pytest.mark.parametrize("aliased", [False, True])
def test_copies_of_views(aliased):
    """Rows of merged axes, of a run-time length, that start and end in views of their own."""
    def kernel(n_ref, x_ref, spare_ref, o_ref, *more):
        sent, came = more[-2:]
        right = ring()[2]
        meet_twice(right)
        rows = spare_ref.reshape(4 * 4, 128)
        n = n_ref[0]
        push(x_ref.reshape(8, 128).at[pl.ds(1, n)], rows.at[pl.ds(3, n)], sent, came, right).start()
        push(x_ref.reshape(8, 128).at[pl.ds(1, n)], rows.at[pl.ds(3, n)], sent, came, right).wait()
        pltpu.sync_copy(rows.at[pl.ds(2, 8)], o_ref)
    x, spare = integers(2, 8, 128), integers(4, 2 * 4, 128, seed=1)
    shapes = [jax.ShapeDtypeStruct((8, 128), "float32")] + [jax.ShapeDtypeStruct((4, 4, 128), "float32")] * aliased
    call = pl.pallas_call(kernel, out_shape=shapes, in_specs=[smem, hbm, hbm], out_specs=[hbm] * len(shapes), scratch_shapes=[DMA, DMA],
                          input_output_aliases={2: 1} if aliased else {}, compiler_params=pltpu.CompilerParams(collective_id=1))
    for n in (0, 5):
        f = mapped(call, mesh_of(x=2), (P(), P("x"), P(None, "x")), (P("x"), P(None, "x"))[:1 + aliased])
        found = f(numpy.array([n], "i4"), x, spare)
        for d in range(2):
            wanted = spare[:, 4 * d:4 * d + 4].reshape(16, 128).copy()
            wanted[3:3 + n] = x[1 - d, 1:1 + n]
            numpy.testing.assert_array_equal(found[0][8 * d:8 * d + 8], wanted[2:10])
            if aliased:
                numpy.testing.assert_array_equal(found[1][:, 4 * d:4 * d + 4].reshape(16, 128), wanted)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", [1, -1])
def test_device_ids(form, way):
    axes, spec, place = FORMS[form]
    axis = spec[0]
    size = numpy.prod([axes[name] for name in (axis if isinstance(axis, tuple) else (axis,))])

    def kernel(x_ref, o_ref, ready, sent, came):
        def beside(axis, way):
            return lax.rem(lax.axis_index(axis) + way + lax.axis_size(axis), lax.axis_size(axis))
        ready_for(ready, place(lambda axis: beside(axis, -way)))
        pltpu.async_remote_copy(x_ref, o_ref, sent, came, device_id=place(lambda axis: beside(axis, way))).wait()
    x = integers(8 * size, 128)
    numpy.testing.assert_array_equal(exchanged(kernel, mesh_of(**axes), spec, x), numpy.roll(x, 8 * way, axis=0))


def test_logical_ids_of_two_axes():
    """Along the last axis they are neighbours."""
    def kernel(x_ref, o_ref, ready, sent, came):
        me = lax.axis_index("y") * 3 + lax.axis_index("x")
        pl.semaphore_signal(ready, 2, device_id=lax.rem(me + 5, 6), device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 2)
        pltpu.async_remote_copy(x_ref, o_ref, sent, came, device_id=lax.rem(me + 1, 6), device_id_type=LOGICAL).wait()
    x = integers(48, 128)
    numpy.testing.assert_array_equal(exchanged(kernel, mesh_of(y=2, x=3), P(("y", "x")), x), numpy.roll(x, 8, axis=0))


def test_barrier_of_all():
    def kernel(x_ref, o_ref):
        n, semaphore = lax.axis_size("x"), pltpu.get_barrier_semaphore()
        for device in range(n):
            pl.semaphore_signal(semaphore, device_id=device)
        pl.semaphore_wait(semaphore, n)
        pltpu.sync_copy(x_ref, o_ref)
    x = integers(64, 128)
    call = called(kernel, (8, 128), ins=[vmem], outs=[vmem], collective=0)
    numpy.testing.assert_array_equal(mapped(call, mesh_of(x=8), P("x"), P("x"))(x), x)


def test_choices():
    """Refs and semaphores that are chosen in a loop, and by an operand."""
    if not hasattr(pl, "select_ref"):
        pytest.skip("this JAX has no pl.select_ref")

    def kernel(which_ref, *refs):
        *x_refs, o_ref = refs

        def body(ready, sent, came):
            other = 1 - lax.axis_index("x")
            ready_for(ready, other)

            @pl.loop(0, 3)
            def _(i):
                pltpu.async_remote_copy(pl.select_ref(lax.rem(i + which_ref[0], 3), *x_refs), o_ref.at[pl.ds(8 * i, 8)],
                                        pl.select_ref(i % 2, sent.at[0], sent.at[1]), pl.select_ref(i % 2, came.at[0], came.at[1]), other).wait()
        pl.run_scoped(body, REGULAR, DMA((2,)), DMA((2,)))
    xs = [integers(16, 128, seed=k) for k in range(3)]
    call = called(kernel, (24, 128), ins=[smem, vmem, vmem, vmem], outs=[vmem])
    found = mapped(call, mesh_of(x=2), (P(), P("x"), P("x"), P("x")), P("x"))(numpy.array([2], "i4"), *xs)
    wanted = numpy.concatenate([numpy.roll(x, 8, axis=0).reshape(2, 8, 128) for x in (xs[2], xs[0], xs[1])], axis=1)
    numpy.testing.assert_array_equal(found, wanted.reshape(48, 128))


def test_unlike_targets():
    """Devices write to different places of the next one, and to different refs."""
    def kernel(x_ref, o_ref, p_ref, ready, sent, came):
        me, left, right = ring()
        even = lax.rem(me, 2) == 0
        o_ref[...] = jnp.zeros_like(o_ref)
        p_ref[...] = jnp.zeros_like(p_ref)
        ready_for(ready, left)
        for condition, target in (even, o_ref.at[1]), (~even, p_ref):
            @pl.when(condition)
            def _(target=target):
                push(x_ref, target, sent, came, right).start()
                push(x_ref, target, sent, came, right).wait()
    call = called(kernel, (2, 8, 128), (8, 128), ins=[vmem], outs=[vmem, vmem], scratch=[REGULAR, DMA, DMA])
    x = integers(32, 128)
    o, p = mapped(call, mesh_of(x=4), P("x"), (P("x"), P("x")))(x)
    before = numpy.roll(x.reshape(4, 8, 128), 1, axis=0)
    odd = (numpy.arange(4) % 2)[:, None, None]
    numpy.testing.assert_array_equal(p.reshape(4, 8, 128), numpy.where(odd, 0, before))
    numpy.testing.assert_array_equal(o.reshape(4, 2, 8, 128)[:, 1], numpy.where(odd, before, 0))
    assert not o.reshape(4, 2, 8, 128)[:, 0].any()


def test_cores():
    """pl.core_map in shard_map: signals to the one core of a device, beside a copy to another device."""
    mesh = mesh_of(x=4)

    def local(x):
        x_ref, y_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

        @pl.core_map(pltpu.create_tensorcore_mesh("core"))
        def _():
            def body(ready, sent, came):
                cores = lax.axis_size("core")
                for core in range(cores):
                    pl.semaphore_signal(ready, 1, device_id={"core": core})
                pl.semaphore_wait(ready, cores)
                _, left, right = ring()
                ready_for(ready, {"x": left, "core": 0})
                pltpu.async_remote_copy(x_ref, y_ref, sent, came, device_id={"x": right, "core": lax.axis_index("core")}).wait()
            pl.run_scoped(body, REGULAR, DMA, DMA)
        return jax.freeze(y_ref)
    x = integers(32, 128)
    numpy.testing.assert_array_equal(mapped(local, mesh, P("x"), P("x"))(x), numpy.roll(x, 8, axis=0))


def test_dtypes():
    """All at once, of lengths that no vector divides."""
    dtypes = ["bfloat16", "int8", "int32", "bool"]

    def kernel(*refs):
        k = len(dtypes)
        _, left, right = ring()
        meet(left, right)
        copies = [push(x, o, refs[2 * k].at[i], refs[2 * k + 1].at[i], right) for i, (x, o) in enumerate(zip(refs[:k], refs[k:2 * k]))]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()
    xs = [jnp.asarray(integers(3 * 3, 13, seed=k) > 0 if dtype == "bool" else integers(3 * 3, 13, seed=k)).astype(dtype) for k, dtype in enumerate(dtypes)]
    call = pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct((3, 13), dtype) for dtype in dtypes], in_specs=[hbm] * 4, out_specs=[hbm] * 4,
                          scratch_shapes=[DMA((4,)), DMA((4,))], compiler_params=pltpu.CompilerParams(collective_id=1))
    for x, found in zip(xs, mapped(call, mesh_of(x=3), P("x"), P("x"))(*xs)):
        numpy.testing.assert_array_equal(numpy.asarray(found, "f4"), numpy.roll(numpy.asarray(x, "f4"), 3, axis=0))


# ---- programs around such kernels

def mover(way=1, space=hbm, **words):
    """A call that moves the part of x to the device after, or before. It may be a part of a mesh with other axes."""
    def kernel(*refs):
        x_ref, (o_ref, sent, came) = refs[0], refs[-3:]
        _, left, right = ring()
        semaphore = pltpu.get_barrier_semaphore()
        for other in left, right:
            pl.semaphore_signal(semaphore, device_id={"x": other})
        pl.semaphore_wait(semaphore, 2)
        pltpu.async_remote_copy(x_ref, o_ref, sent, came, device_id={"x": right if way > 0 else left}).wait()
    return called(kernel, (8, 128), ins=words.pop("ins", [space]), outs=[space], scratch=[DMA, DMA], collective=1, **words)

def test_calls_in_a_program():
    """Calls in a loop, twice in one program, beside XLA's own collectives, and many at once."""
    step = mover()

    def local(x):
        def body(carry, _):
            moved = step(carry) + 1
            return step(moved), lax.psum(moved, "x")
        x, sums = lax.scan(body, x, None, length=3)
        return x, sums
    x = integers(8, 512)
    f = mapped(local, mesh_of(x=4), P(None, "x"), (P(None, "x"), P(None, None, "x")))
    results = [f(x + k) for k in range(8)]
    for k, (found, sums) in enumerate(results):
        numpy.testing.assert_array_equal(found, numpy.roll(x, 6 * 128, axis=1) + k + 3)
        total = (x + k).reshape(8, 4, 128).sum(axis=1)
        numpy.testing.assert_array_equal(sums[2], numpy.tile(total + 12, (1, 4)))


def test_devices_in_another_order():
    """A mesh of some of the devices, and not in their order."""
    devices = [jax.devices()[k] for k in (6, 1, 4, 3)]
    call, ins, outs, (x,), wanted = permute(4, False)
    numpy.testing.assert_array_equal(mapped(call, jax.sharding.Mesh(numpy.array(devices), "x"), ins, outs)(x), wanted)


def test_a_kernel_of_one_device():
    """Each device copies to itself."""
    def kernel(x_ref, o_ref, ready, sent, came):
        ready_for(ready, lax.axis_index("x"))
        pltpu.async_remote_copy(x_ref, o_ref, sent, came, device_id=(lax.axis_index("x"),)).wait()
    x = integers(8, 128)
    numpy.testing.assert_array_equal(exchanged(kernel, mesh_of(x=1), P("x"), x), x)


def test_gradient():
    """The gradient of a step to the right is one to the left; both are kernels."""
    right, left = mover(1), mover(-1)
    step = jax.custom_vjp(right)
    step.defvjp(lambda x: (right(x), None), lambda _, g: (left(g),))
    f = mapped(lambda x, w: step(x) * w, mesh_of(x=4), P("x"), P("x"))
    x, w = integers(32, 128), integers(32, 128, seed=1)
    numpy.testing.assert_array_equal(jax.grad(lambda x: f(x, w).sum())(x), numpy.roll(w, -8, axis=0))


def test_vmap():
    """All calls of a batch in one call: the axis of the batch is one of the grid, which moves blocks in VMEM."""
    x, mesh = integers(3, 32, 128), mesh_of(x=4)
    found = mapped(jax.vmap(mover()), mesh, P(None, "x"), P(None, "x"))(x)
    numpy.testing.assert_array_equal(found, numpy.roll(x, 8, axis=1))
    with pytest.raises(pkc.pallas.TranslationError, match="is in blocks, which the grid moves"):
        mapped(jax.vmap(mover(space=vmem)), mesh, P(None, "x"), P(None, "x"))(x)


def test_branches():
    """All devices go one way."""
    move = mover()

    def local(x):
        x = lax.cond(lax.axis_index("y") == 0, lambda x: x * 1, lambda x: x * 2, x)
        return lax.switch(x[0, 0].astype("int32") * 0 + 1, [lambda x: x, lambda x: move(x) + 1, lambda x: x], x)
    x = integers(16, 512)
    wanted = numpy.roll(numpy.concatenate([x[:8], 2 * x[8:]]), 128, axis=1) + 1
    numpy.testing.assert_array_equal(mapped(local, mesh_of(y=2, x=4), P("y", "x"), P("y", "x"))(x), wanted)


def test_prefetched_places_and_blocks():
    """Blocks that the grid moves in VMEM beside copies to a device that an operand names."""
    def kernel(to_ref, x_ref, all_ref, o_ref, inbox, sent, came):
        step, me = pl.program_id(0), lax.axis_index("x")

        @pl.when(step == 0)
        def _():
            meet(*[lax.rem(me + k, 4) for k in range(4)])
            pltpu.make_async_remote_copy(all_ref, inbox, sent, came, device_id=to_ref[lax.rem(me, to_ref.shape[0])], device_id_type=LOGICAL).start()
            pltpu.make_async_remote_copy(all_ref, inbox, sent, came, device_id=to_ref[lax.rem(me, to_ref.shape[0])], device_id_type=LOGICAL).wait()
        o_ref[...] = x_ref[...] * 100 + inbox[pl.ds(step * 8, 8), :]
    rows = pl.BlockSpec((8, 128), lambda i, to: (i, 0))
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(3,), in_specs=[rows, hbm], out_specs=rows,
                                        scratch_shapes=[pltpu.VMEM((24, 128), jnp.float32), DMA, DMA])
    call = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((24, 128), "float32"),
                          compiler_params=pltpu.CompilerParams(collective_id=1))
    x, to = integers(96, 128), numpy.array([2, 0, 3, 1], "i4")
    f = mapped(lambda to, x: call(to, x, x), mesh_of(x=4), (P(), P("x")), P("x"))
    found = f(to, x)
    assert pkc.pallas.check(f, to, x)
    own = mapped(lambda to, x: call(to, x, x), mesh_of(x=4), (P("x"), P("x")), P("x"))
    numpy.testing.assert_array_equal(own(to, x), found)
    with pytest.raises(pkc.pallas.TranslationError, match="different scalars or prefetched operands"):
        pkc.pallas.check(own, to, x)
    parts = x.reshape(4, 24, 128)
    wanted = parts * 100
    wanted[to] += parts
    numpy.testing.assert_array_equal(found, wanted.reshape(x.shape))


def test_alias_and_scalars():
    """An output that is an input, of which neighbours replace a row; a scalar that differs from device to device."""
    def kernel(k_ref, x_ref, x_same, o_ref, row, sent, came):
        _, left, right = ring()
        row[...] = x_ref[:1, :] + k_ref[0].astype(jnp.float32)
        meet(left, right)
        copy = push(row, o_ref.at[pl.ds(7, 1)], sent, came, right)
        copy.start()
        copy.wait()
    call = called(kernel, (8, 128), ins=[smem, vmem, hbm], scratch=[pltpu.VMEM((1, 128), jnp.float32), DMA, DMA], collective=1,
                  input_output_aliases={2: 0})
    x = integers(32, 128)
    found = mapped(lambda k, x: call(k, x, x), mesh_of(x=4), (P("x"), P("x")), P("x"))(numpy.arange(4, dtype="i4"), x)
    parts = x.reshape(4, 8, 128).copy()
    parts[:, 7] = numpy.roll(parts[:, 0] + numpy.arange(4)[:, None], 1, axis=0)
    numpy.testing.assert_array_equal(found, parts.reshape(x.shape))


# ---- looking, and errors

def test_text():
    call, ins, outs, args, _ = all_reduce(4, False)
    text = str(pkc.pallas.to_pk(mapped(call, mesh_of(x=4), ins, outs), *args))
    assert "mesh (x: 4);" in text and "remote_copy(x_ref[...] -> slots[v4], send = sent, recv = came, device = (x = v3)).start();" in text, text
    assert "signal(room, 1, device = (x = v2));" in text, text


def test_check():
    call, ins, outs, args, _ = all_reduce(4, False)
    assert pkc.pallas.check(mapped(call, mesh_of(x=4), ins, outs), *args)

    def careless(x_ref, o_ref, sent, came):
        _, left, right = ring()
        o_ref[...] = x_ref[...]
        copy = push(x_ref, o_ref, sent, came, right)
        copy.start()
        copy.wait()
    call = called(careless, (8, 128), ins=[vmem], outs=[vmem], scratch=[DMA, DMA])
    report = pkc.pallas.check(mapped(call, mesh_of(x=4), P("x"), P("x")), integers(32, 128))
    assert not report and "test_pallas_devices.py" in str(report)


def doubled(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def test_programs_that_are_looked_at():
    """Operands are those of the call, also in loops and branches, with scalars and collectives around it."""
    move, plain = mover(), called(doubled, (8, 128), ins=[vmem], outs=[vmem])

    def local(x, k):
        x, places = lax.scan(lambda c, row: (move(c) + row.sum() + k, c[0, 0]), x, x[:2])
        x = lax.cond(k > 1, lambda x: move(x), lambda x: x, lax.psum(x, "x") + lax.axis_index("x"))
        return plain(x) + places[0]

    def whole(x, k):
        x = jax.shard_map(local, mesh=mesh_of(y=2, x=4), in_specs=(P("y", "x"), P()), out_specs=P("y", "x"), check_vma=False)(x * 2 + 1, k)
        return x - 1
    x = integers(16, 512)
    report = pkc.pallas.check(whole, x, numpy.float32(3))
    assert report and [str(report).count(name) for name in ("kernel: ", "doubled: ")] == [3, 8], report
    def apart(x):
        return lax.cond(x[0, 0] > lax.axis_index("x"), lambda x: move(x), lambda x: x, x)
    with pytest.raises(pkc.pallas.TranslationError, match="different ways around a kernel"):
        pkc.pallas.check(mapped(apart, mesh_of(x=4), P(None, "x"), P(None, "x")), numpy.ones((8, 512), "f4"))


def test_what_is_around_a_kernel():
    """A function with operations before and after its kernel, on one device."""
    call = called(doubled, (8, 128), ins=[vmem], outs=[vmem])
    assert pkc.pallas.check(lambda x: jax.nn.relu(call(jnp.transpose(x) + 1).reshape(-1)), integers(128, 8))


@pytest.mark.parametrize("chip", ["v5e", "v5p"])
def test_tpu(chip):
    call, ins, outs, args, _ = permute(4, False)
    assert chip in str(pkc.pallas.tpu(mapped(call, mesh_of(x=4), ins, outs), *args, chip=chip))


def test_without_a_mesh():
    def kernel(x_ref, o_ref, sent, came):
        pltpu.async_remote_copy(x_ref, o_ref, sent, came, device_id=0, device_id_type=LOGICAL).wait()
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)a remote copy.*shard_map"):
        called(kernel, (8, 128), ins=[hbm], scratch=[DMA, DMA])(integers(8, 128))


def signal_by_index(x_ref, o_ref, ready, sent, came):
    pl.semaphore_signal(ready, 1, core_index=1)


def signal_by_name(x_ref, o_ref, ready, sent, came):
    pl.semaphore_signal(ready, 1, device_id={"core": 1})


def meet_cores(x_ref, o_ref, ready, sent, came):
    pltpu.core_barrier(ready, core_axis_name="core")


def copy_to_a_core(x_ref, o_ref, ready, sent, came):
    pltpu.async_remote_copy(x_ref, o_ref, sent, came, device_id={"core": 1}).wait()


@pytest.mark.parametrize("talk, what", [
    (signal_by_index, "a signal to another core"), (signal_by_name, "a signal to another core"), (meet_cores, "a signal to another core"),
    (copy_to_a_core, "a remote copy to another core")], ids=["index", "name", "barrier", "copy"])
def test_cores_that_wait_for_each_other(talk, what):
    """A kernel on two cores runs, unless one of them waits for the other: then it is refused by name, and nothing is written."""
    def kernel(x_ref, o_ref, *semaphores):
        pl.semaphore_signal(semaphores[0], 2)
        pl.semaphore_wait(semaphores[0], 2)
        half = pl.ds(lax.axis_index("core") * 128, 128)
        pltpu.sync_copy(x_ref.at[:, half], o_ref.at[:, half])

    def talks(*refs):
        talk(*refs)
        kernel(*refs)

    def run(body, x):
        x_ref, y_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

        @pl.core_map(pltpu.create_tensorcore_mesh("core", num_cores=2))
        def _():
            pl.run_scoped(lambda *semaphores: body(x_ref, y_ref, *semaphores), REGULAR, DMA, DMA)
        return jax.freeze(y_ref)
    x = integers(8, 256)
    numpy.testing.assert_array_equal(jax.jit(lambda x: run(kernel, x))(x), x)
    with pytest.raises(pkc.pallas.TranslationError, match=what + r"\n(?s:.*)one after another"):
        jax.jit(lambda x: run(talks, x))(x)


def test_a_remote_copy_with_a_regular_semaphore():
    def kernel(x_ref, o_ref, sent, came):
        push(x_ref, o_ref, sent, came, ring()[2]).start()
    for kinds in (REGULAR, DMA), (DMA, REGULAR):
        with pytest.raises(pkc.pallas.TranslationError, match="a remote copy with a regular semaphore"):
            mapped(called(kernel, (8, 128), ins=[hbm], outs=[hbm], scratch=list(kinds)), mesh_of(x=4), P("x"), P("x"))(integers(32, 128))


WRONG = '''
import sys
sys.path.insert(0, %r)
import test_pallas_devices as t
t.pkc.pallas.install()
def kernel(x_ref, o_ref, ready, sent, came):
    me = t.lax.axis_index("x")
    if sys.argv[1] == "alone":
        t.pl.semaphore_wait(ready)
    t.pltpu.async_remote_copy(x_ref, o_ref, sent, came, device_id=(me + 1,)).wait()
try:
    t.jax.block_until_ready(t.exchanged(kernel, t.mesh_of(x=4), t.P("x"), t.integers(32, 128)))
except Exception as error:
    print(error)
'''


@pytest.mark.parametrize("how, said", [("outside", "a device outside the mesh, on device (x=3)"), ("alone", "waits")])
def test_what_fails(how, said):
    """A device that is not there, and a signal that no device sends: an error, in time. In a process of its own: it may hang."""
    env = {**os.environ, "PK_DEVICE_TIMEOUT": "2", "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    found = subprocess.run([sys.executable, "-c", WRONG % os.path.dirname(os.path.abspath(__file__)), how], env=env, timeout=60,
                           capture_output=True, text=True)
    assert said in found.stdout, found.stdout + found.stderr[-2000:]
