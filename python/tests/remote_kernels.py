"""Pallas kernels that talk to other devices, beside JAX's collectives: `remote_kernels.py` prints a line for each. In a process of its
own: what waits in vain there ends with it. Other forms of such kernels are in test_pallas_devices.py."""
import functools
import os
import sys

if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P

DMA, REGULAR, ANY = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR, pl.ANY
ROWS, COLUMNS = 8, 128


def neighbours(n, axis="d"):
    me = lax.axis_index(axis)
    return me, lax.rem(me + n - 1, n), lax.rem(me + 1, n)


def meet(*others):
    """Goes on when these devices have come here, too."""
    arrived = pltpu.get_barrier_semaphore()
    for other in others:
        pl.semaphore_signal(arrived, 1, device_id=(other,), device_id_type=pl.DeviceIdType.MESH)
    pl.semaphore_wait(arrived, len(others))


def send(source, target, sent, came, device):
    return pltpu.make_async_remote_copy(source, target, sent, came, device_id=(device,), device_id_type=pl.DeviceIdType.MESH)


def made(kernel, x, out, scratch=(), grid=(), spaces=None, outs=None):
    """The kernel's results; operands are in HBM unless `spaces` (of inputs) or `outs` say otherwise."""
    out = out if isinstance(out, list) else [out]
    results = pl.pallas_call(
        kernel, grid=grid, in_specs=[pl.BlockSpec(memory_space=s) for s in spaces or [ANY] * len(x)],
        out_specs=[pl.BlockSpec(memory_space=s) for s in outs or [ANY] * len(out)],
        out_shape=[jax.ShapeDtypeStruct(shape, "float32") for shape in out], scratch_shapes=list(scratch),
        compiler_params=pltpu.CompilerParams(collective_id=0))(*x)
    return results[0]


# ---- each: (of a device's part, the same by JAX)

def right_permute(n, x):
    def kernel(x, o, sent, came):
        _, left, right = neighbours(n)
        meet(left, right)
        pass_on = send(x, o, sent, came, right)
        pass_on.start()
        pass_on.wait()
    return made(kernel, [x], x.shape, [DMA, DMA])


def right_permute_of_jax(n, x):
    return lax.ppermute(x, "d", [(i, (i + 1) % n) for i in range(n)])


def all_gather(n, x):
    def kernel(x, o, own, sent, came):
        me, left, right = neighbours(n)
        meet(left, right)
        keep = pltpu.make_async_copy(x, o.at[me], own)
        keep.start()
        keep.wait()
        for hop in range(n - 1):
            slot = lax.rem(me + n - hop, n)
            pass_on = send(o.at[slot], o.at[slot], sent, came.at[hop], right)
            pass_on.start()
            pass_on.wait_recv()
            pass_on.wait_send()
    return made(kernel, [x], (n, *x.shape), [DMA, DMA, DMA((n,))])


def all_gather_of_jax(n, x):
    return lax.all_gather(x, "d")


def all_reduce(n, x):
    """A ring in n - 1 steps of the grid; two slots, and a credit for each that may be written."""
    def kernel(x, o, slots, sent, came, credit):
        step = pl.program_id(0)
        _, left, right = neighbours(n)
        old, new = lax.rem(step, 2), lax.rem(step + 1, 2)

        @pl.when(step == 0)
        def _():
            meet(left, right)
            o[...] = x[...]
            slots[0] = x[...]
            pl.semaphore_signal(credit, 1, device_id=(left,), device_id_type=pl.DeviceIdType.MESH)
        pl.semaphore_wait(credit, 1)
        pass_on = send(slots.at[old], slots.at[new], sent.at[old], came.at[new], right)
        pass_on.start()
        pass_on.wait()
        o[...] += slots[new]

        @pl.when(step < n - 2)
        def _():
            pl.semaphore_signal(credit, 1, device_id=(left,), device_id_type=pl.DeviceIdType.MESH)
    scratch = [pltpu.VMEM((2, *x.shape), jnp.float32), DMA((2,)), DMA((2,)), REGULAR]
    return made(kernel, [x], x.shape, scratch, (n - 1,), [pltpu.VMEM], [pltpu.VMEM])


def all_reduce_of_jax(n, x):
    return lax.psum(x, "d")


def reduce_scatter(n, x):
    """Both directions at once: one half of a part goes left, the other right. What goes on is summed on the way."""
    half = x.shape[0] // n // 2

    def kernel(x, o, way, sent, came, credit):
        me, left, right = neighbours(n)
        meet(left, right)
        for turn in range(n):
            for side, (to, back) in enumerate([(left, right), (right, left)]):
                towards = turn + 1 if side == 0 else n - turn - 1
                part = lax.rem(me + towards, n)
                here = x[pl.ds(part * 2 * half + side * half, half), :]
                slot = turn % 2
                if turn == 0:
                    way[side, 0] = here
                else:
                    way[side, slot] += here
                if turn == n - 1:
                    o[pl.ds(side * half, half), :] = way[side, slot]
                    continue
                pl.semaphore_signal(credit.at[side], 1, device_id=(back,), device_id_type=pl.DeviceIdType.MESH)
                pl.semaphore_wait(credit.at[side], 1)
                send(way.at[side, slot], way.at[side, 1 - slot], sent.at[side], came.at[side], to).start()
            for side, to in enumerate([left, right]):
                if turn < n - 1:
                    send(way.at[side, turn % 2], way.at[side, 1 - turn % 2], sent.at[side], came.at[side], to).wait()
    scratch = [pltpu.VMEM((2, 2, half, x.shape[1]), jnp.float32), DMA((2,)), DMA((2,)), REGULAR((2,))]
    return made(kernel, [x], (2 * half, x.shape[1]), scratch, (), [pltpu.VMEM], [pltpu.VMEM])


def reduce_scatter_of_jax(n, x):
    return lax.psum_scatter(x, "d", tiled=True)


def reduce_scatter_pipelined(n, x):
    """Parts stay in HBM; a pipeline adds them block by block."""
    rows, columns = x.shape[0] // n, x.shape[1]

    def add(x, came, total):
        total[...] = x[...] + came[...]
    block = pl.BlockSpec((8, columns), lambda i: (i, 0))

    def kernel(x, o, slots, sent, came, own, credit):
        me, left, right = neighbours(n)
        meet(left, right)
        accumulate = pltpu.emit_pipeline(add, grid=(rows // 8,), in_specs=[block, block], out_specs=[block])

        def part(turn):
            return x.at[pl.ds(lax.rem(me + 2 * n - 1 - turn, n) * rows, rows), :]
        first = pltpu.make_async_copy(part(0), slots.at[0], own)
        first.start()
        first.wait()
        for turn in range(n - 1):
            old, new = 2 * (turn % 2), 2 * ((turn + 1) % 2)
            pl.semaphore_signal(credit, 1, device_id=(left,), device_id_type=pl.DeviceIdType.MESH)
            pl.semaphore_wait(credit, 1)
            pass_on = send(slots.at[old], slots.at[new + 1], sent, came, right)
            pass_on.start()
            pass_on.wait()
            accumulate(part(turn + 1), slots.at[new + 1], slots.at[new])
        last = pltpu.make_async_copy(slots.at[2 * ((n - 1) % 2)], o, own)
        last.start()
        last.wait()
    return made(kernel, [x], [(rows, columns), (4, rows, columns)], [DMA, DMA, DMA, REGULAR])


reduce_scatter_pipelined_of_jax = reduce_scatter_of_jax


def all_to_all(n, x):
    rows = x.shape[0] // n

    def kernel(x, o, sent, came, own):
        me = lax.axis_index("d")
        meet(*[lax.rem(me + k, n) for k in range(1, n)])
        keep = pltpu.make_async_copy(x.at[pl.ds(me * rows, rows)], o.at[pl.ds(me * rows, rows)], own)
        keep.start()
        copies = []
        for k in range(1, n):
            to = lax.rem(me + k, n)
            copies.append(pltpu.make_async_remote_copy(x.at[pl.ds(to * rows, rows)], o.at[pl.ds(me * rows, rows)], sent.at[k - 1], came.at[k - 1],
                                                       device_id=to, device_id_type=pl.DeviceIdType.LOGICAL))
            copies[-1].start()
        for one in copies:
            one.wait()
        keep.wait()
    return made(kernel, [x], x.shape, [DMA((n,)), DMA((n,)), DMA])


def all_to_all_of_jax(n, x):
    return lax.all_to_all(x, "d", 0, 0, tiled=True)


def gather_matmul(n, x):
    """The product with this device's columns of what all have, each part multiplied while it is passed on."""
    rows = x.shape[0]

    def kernel(x, w, o, slots, sent, came):
        me, left, right = neighbours(n)
        meet(left, right)
        slots[0] = x[...]
        for hop in range(n):
            pass_on = send(slots.at[hop], slots.at[hop + 1], sent, came.at[hop], right)
            if hop < n - 1:
                pass_on.start()
            product = jnp.dot(slots[hop], w[...], preferred_element_type=jnp.float32)
            o[pl.ds(lax.rem(me + n - hop, n) * rows, rows), :] = product
            if hop < n - 1:
                pass_on.wait()
    w = jnp.cos(jnp.arange(COLUMNS * COLUMNS, dtype="float32").reshape(COLUMNS, COLUMNS)) * (1 + lax.axis_index("d"))
    scratch = [pltpu.VMEM((n, *x.shape), jnp.float32), DMA, DMA((n,))]
    return made(kernel, [x, w], (n * rows, COLUMNS), scratch, (), [pltpu.VMEM] * 2, [pltpu.VMEM])


def gather_matmul_of_jax(n, x):
    w = jnp.cos(jnp.arange(COLUMNS * COLUMNS, dtype="float32").reshape(COLUMNS, COLUMNS)) * (1 + lax.axis_index("d"))
    return lax.all_gather(x, "d", tiled=True) @ w


def broadcast(n, x):
    """Device 0 sends to all; semaphores of a run_scoped, and copies in a loop."""
    def kernel(x, o):
        def body(ready, sent, came, copied):
            me = lax.axis_index("d")
            meet(*[lax.rem(me + k, n) for k in range(1, n)])
            own = pltpu.make_async_copy(x, o, copied)

            @pl.when(me == 0)
            def _():
                own.start()
                own.wait()
                pl.semaphore_wait(ready, n - 1)

                @pl.loop(1, n)
                def _(to):
                    one = pltpu.make_async_remote_copy(x, o, sent, came, device_id={"d": to})
                    one.start()
                    one.wait_send()

            @pl.when(me > 0)
            def _():
                pl.semaphore_signal(ready, 1, device_id={"d": 0})
                pltpu.make_async_remote_copy(x, o, sent, came, device_id={"d": 0}).wait_recv()
        pl.run_scoped(body, REGULAR, DMA, DMA, DMA)
    return made(kernel, [x], x.shape)


def broadcast_of_jax(n, x):
    return lax.all_gather(x, "d")[0]


DEVICES = (4,) if os.environ.get("PKC_TESTS") == "sample" else (2, 4, 8)
KERNELS = [right_permute, all_gather, all_reduce, reduce_scatter, reduce_scatter_pipelined, all_to_all, gather_matmul, broadcast]


def arrays(n, rows):
    return jax.random.normal(jax.random.key(n), (n * rows, COLUMNS))


def over(n, function, axes=("d",), extents=None):
    mesh = Mesh(numpy.array(jax.devices()[:n]).reshape(extents or (n,)), axes)
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P(axes), out_specs=P(axes), check_vma=False))


def compare(kernel, n):
    x = arrays(n, 16 * n if kernel.__name__.startswith(("reduce_scatter", "all_to_all")) else ROWS)
    expected = numpy.asarray(over(n, functools.partial(globals()[kernel.__name__ + "_of_jax"], n))(x))
    found = numpy.asarray(over(n, functools.partial(kernel, n))(x))
    numpy.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


# ---- meshes of two axes, calls in other forms, and mistakes

def torus(x):
    """One step along y, then along both by the number of the device."""
    def kernel(x, o, sent, came):
        i, j = lax.axis_index("x"), lax.axis_index("y")
        ahead = 2 * lax.rem(i + 1, 2) + lax.rem(j + 1, 2)
        arrived = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(arrived, 1, device_id={"y": 1 - j})
        pl.semaphore_signal(arrived, 1, device_id=ahead, device_id_type=pl.DeviceIdType.LOGICAL)
        pl.semaphore_wait(arrived, 2)
        first = pltpu.make_async_remote_copy(x, o.at[0], sent, came.at[0], device_id={"y": 1 - j})
        second = pltpu.make_async_remote_copy(x, o.at[1], sent, came.at[1], device_id=ahead, device_id_type=pl.DeviceIdType.LOGICAL)
        third = pltpu.make_async_remote_copy(x, o.at[2], sent, came.at[2], device_id=(1 - i, j))
        for one in (first, second, third):
            one.start()
        for one in (first, second, third):
            one.wait()
    return made(kernel, [x], (3, *x.shape), [DMA, DMA((3,))])


def check_torus():
    x = arrays(4, ROWS)
    found = numpy.asarray(over(4, torus, ("x", "y"), (2, 2))(x)).reshape(2, 2, 3, ROWS, COLUMNS)
    parts = numpy.asarray(x).reshape(2, 2, ROWS, COLUMNS)
    expected = numpy.stack([parts[:, ::-1], parts[::-1, ::-1], parts[::-1]], 2)
    assert (found == expected).all()


def check_repeated():
    """The same kernel twice on data apart from each other, in a loop, and between collectives of JAX."""
    n = 4

    @jax.jit
    def step(x):
        return right_permute(n, x)

    def f(x):
        twice = step(x) + 2 * step(3 * x)
        return lax.psum(lax.fori_loop(0, 5, lambda _, v: step(v) + 1, twice), "d") + twice
    x = arrays(n, ROWS)
    parts = numpy.asarray(x, "f8").reshape(n, ROWS, COLUMNS)
    twice = 7 * numpy.roll(parts, 1, 0)
    expected = twice + (numpy.roll(twice, 5, 0) + 5).sum(0)
    for _ in range(10):
        numpy.testing.assert_allclose(numpy.asarray(over(n, f)(x)).reshape(parts.shape), expected, rtol=1e-4, atol=1e-3)


def message(function, n=4):
    try:
        jax.block_until_ready(over(n, function)(arrays(n, ROWS)))
    except Exception as error:  # of XLA, with the runtime's text
        return str(error)
    return "nothing was raised"


def check_mistakes():
    def outside(x, o, sent, came):
        one = send(x, o, sent, came, lax.axis_index("d") + 2)
        one.start()
        one.wait()

    def nobody(x, o, sent, came):
        send(x, o, sent, came, lax.axis_index("d")).wait_recv()
        o[...] = x[...]

    def big(x, o, sent, came):
        send(x, o, sent, came, 300).start()
    said = message(lambda x: made(outside, [x], x.shape, [DMA, DMA]))
    assert "outside the mesh" in said and "on device (d=2)" in said, said
    said = message(lambda x: made(nobody, [x], x.shape, [DMA, DMA], spaces=[pltpu.VMEM], outs=[pltpu.VMEM]))
    assert "on device (d=" in said, said
    check_torus()  # and what follows is as before
    try:
        jax.jit(lambda x: right_permute(1, x))(arrays(1, ROWS))
    except Exception as error:
        said = str(error)
    assert "jax.shard_map" in said or "unbound axis name" in said, said


def main():
    import pkc.pallas
    pkc.pallas.install()
    checks = [("%s on %d devices" % (kernel.__name__, n), functools.partial(compare, kernel, n)) for kernel in KERNELS for n in DEVICES]
    checks += [(name, globals()["check_" + name]) for name in ("torus", "repeated", "mistakes")]
    for name, check in checks:
        try:
            check()
            print("%s: equal" % name, flush=True)
        except Exception as error:
            print("%s: %s" % (name, " / ".join(str(error).splitlines()[:12])), flush=True)
    print("all were tried", flush=True)


if __name__ == "__main__":
    sys.exit(main())
