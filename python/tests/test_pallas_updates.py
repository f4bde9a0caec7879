"""Reads and updates at indices that may be out of range, in kernels of Pallas: what XLA computes for the same function.

PKC_TEST_SEED and PKC_TEST_COUNT draw other cases, and more of them.
"""
import os
import random

import numpy
import pytest

from pallas_calls import installed, jax, jnp, pl  # noqa: F401 (installed: a fixture)

SEED, COUNT = int(os.environ.get("PKC_TEST_SEED", 0)), int(os.environ.get("PKC_TEST_COUNT", 60))
UPDATES = ["set", "add", "multiply", "min", "max"]
MODES = [None, "clip", "drop", "fill"]
INDICES = ["int8", "uint8", "int16", "int32", "uint32"]


def same(f, *args):
    """f in a kernel, compiled by pkc, gives the bits that XLA gives."""
    wanted = jax.jit(f)(*args)

    def kernel(*refs):
        refs[-1][...] = f(*(ref[...] for ref in refs[:-1]))
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(wanted.shape, wanted.dtype))(*args)
    numpy.testing.assert_array_equal(found, wanted)


def numbers(r, shape, dtype):
    """Small integers: sums of them are exact in any order."""
    drawn = numpy.array([r.randint(-4, 4) for _ in range(int(numpy.prod(shape)))]).reshape(shape)
    return jnp.asarray(drawn, dtype)


def index(r, extent, dtype, shape, wild):
    low, high = (-2 * extent - 2, 2 * extent + 1) if wild else (0, extent - 1)
    info = numpy.iinfo(dtype)
    return jnp.asarray(numpy.array([r.randint(max(low, int(info.min)), min(high, int(info.max))) for _ in range(int(numpy.prod(shape)))], dtype).reshape(shape))


def case(number):
    """A shape, and indices into it: a scalar, an array, or one array for each of two axes; wild ones leave the array."""
    r = random.Random(1000 * SEED + number)
    rank = r.randint(1, 3)
    shape = tuple(r.choice([1, 2, 3, 5, 8]) for _ in range(rank))
    count = r.randint(1, min(rank, 2))
    taken = () if r.random() < 0.3 else (r.choice([1, 2, 4, 7]),)
    wild, dtype = r.random() < 0.8, r.choice(INDICES)
    return r, shape, [index(r, shape[axis], dtype, taken, wild) for axis in range(count)]


@pytest.mark.parametrize("number", range(COUNT))
def test_updates(number):
    r, shape, places = case(number)
    dtype, mode, how = r.choice(["float32", "int32", "bfloat16"]), r.choice(MODES), r.choice(UPDATES)
    if how == "set" and len(places[0].shape):  # the order of stores to one element is not determined
        places = [place[:1] for place in places]
    x, update = numbers(r, shape, dtype), numbers(r, (*places[0].shape, *shape[len(places):]), dtype)
    same(lambda x, update, *places: getattr(x.at[places], how)(update, mode=mode), x, update, *places)


@pytest.mark.parametrize("number", range(COUNT))
def test_reads(number):
    r, shape, places = case(number)
    x, mode = numbers(r, shape, r.choice(["float32", "int32", "bfloat16"])), r.choice(MODES)
    if mode == "fill":
        same(lambda x, *places: x.at[places].get(mode="fill", fill_value=7), x, *places)
    else:
        same(lambda x, *places: x.at[places].get(mode=None if mode == "drop" else mode), x, *places)


@pytest.mark.parametrize("number", range(COUNT))
def test_slices(number):
    """dynamic_slice and dynamic_update_slice move a start until the slice is inside."""
    r = random.Random(1000 * SEED + number)
    shape = tuple(r.choice([1, 2, 3, 5, 8]) for _ in range(r.randint(1, 3)))
    size = tuple(r.randint(1, extent) for extent in shape)
    dtype = r.choice(INDICES)
    starts = [index(r, extent, dtype, (), True) for extent in shape]
    x, update = numbers(r, shape, "float32"), numbers(r, size, "float32")
    same(lambda x, *starts: jax.lax.dynamic_slice(x, starts, size), x, *starts)
    same(lambda x, update, *starts: jax.lax.dynamic_update_slice(x, update, starts), x, update, *starts)
