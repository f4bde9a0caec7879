"""Objects that are not what they say, and random views."""
import random

import numpy
import pytest
from kernels import COPY, SCALE, made, pair, scale, scaled

import pkc
from pkc import _core


def raising(error):
    def method(self, *args, **keywords):
        raise error
    return method


def returning(value):
    return lambda self, *args, **keywords: value


OBJECTS = {
    "no capsule": {"__dlpack__": returning(None)},
    "another capsule": {"__dlpack__": returning(numpy.zeros(3).__array_struct__)},
    "a number": {"__dlpack__": 3},
    "BufferError": {"__dlpack__": raising(BufferError("no export"))},
    "a system's error": {"__dlpack__": raising(OSError("gone"))},
    "nothing": {},
    "a false dtype": {"dtype": "float32"},
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(name):
    value = type("Strange", (), OBJECTS[name])()
    for _ in range(3):
        with pytest.raises((TypeError, ValueError, BufferError)):
            scale()(value, pair()[1])
        with pytest.raises((TypeError, ValueError, BufferError)):
            scale()(*pair(), out=value)


def test_capsules_that_are_used_up():
    x, y = pair()
    capsule = x.__dlpack__()
    numpy.from_dlpack(type("Once", (), {"__dlpack__": lambda self, **k: capsule, "__dlpack_device__": lambda self: (1, 0)})())
    with pytest.raises((TypeError, ValueError)):
        scale()(type("Used", (), {"__dlpack__": returning(capsule)})(), y)


def test_subclasses_of_ndarray():
    x, y = pair()
    numpy.testing.assert_array_equal(scale()(x.view(numpy.matrix), y), scaled(x, y))

    class Liar(numpy.ndarray):
        @property
        def __array_struct__(self):
            return 3
    with pytest.raises((TypeError, ValueError)):
        scale()(x.view(Liar), y)


def test_callers():
    for arguments in ((), ("a", 5, (), ()), ("a", 1, (), (("x", 99, -1, ()),)), ("a", 1, ("S",), (("x", -3, -1, ()),)),
                      ("a", 1, (), (("x", 0, -1, (3,)),)), ("a", 1, (), (("x", 0, -1, (-1,) * 9),)), ("a", 0, ("S",) * 20, ()),
                      ("a", 1, (), (("x", 0, 7, ()),)), ("a", -1, (), ())):
        with pytest.raises((TypeError, ValueError)):
            _core.Caller(*arguments)
    bare = _core.Caller.__new__(_core.Caller)
    with pytest.raises((TypeError, AttributeError)):
        bare()
    with pytest.raises(RuntimeError):
        _core.Caller.__init__(scale(), "a", 0, (), ())
    with pytest.raises(OSError):
        _core.load("/nowhere.so", "x")


def random_view(rng, x):
    """An array with the elements of x and any strides."""
    steps = [rng.choice([1, 1, 2, 3, -1, -2]) for _ in x.shape]
    room = numpy.zeros([abs(s) * n + 2 for s, n in zip(steps, x.shape)], x.dtype, order=rng.choice("CF"))
    view = room[tuple(slice(1, 1 + abs(s) * n, abs(s)) for s, n in zip(steps, x.shape))]
    view = view[tuple(slice(None, None, 1 if s > 0 else -1) for s in steps)]
    view[...] = x
    return room, view


@pytest.mark.parametrize("seed", range(60))
def test_random_views(seed):
    rng = random.Random(seed)
    x, y = pair(rng.choice([0, 1, 2, 7, 8, 33]), rng.choice([0, 1, 5, 64, 129]), seed)
    (_, a), (_, b), (room, o) = random_view(rng, x), random_view(rng, y), random_view(rng, numpy.zeros_like(x))
    assert a.shape == o.shape == x.shape
    scale()(a, b, out=o, threads=rng.choice([1, 2]))
    numpy.testing.assert_array_equal(o, scaled(x, y))
    o[...] = 0
    assert not room.any()  # nothing beside it was written
    half = x.astype("f2")
    into = random_view(rng, half * 0)[1]
    made(COPY)(random_view(rng, half)[1], out=into)
    numpy.testing.assert_array_equal(into, half)


def test_references_are_given_back():
    import gc
    import sys
    x, y = pair()
    scale()(x, y)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for i in range(100):
        o = scale()(x, y)
        assert sys.getrefcount(o) == 2
        for bad in (lambda: scale()(x, y[:3]), lambda: scale()(x, y, out=x), lambda: scale()(x), lambda: scale()(x, y, Q=3)):
            with pytest.raises((TypeError, ValueError)):
                bad()
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before
    for _ in range(50):
        pkc.kernel(SCALE)
