"""Objects that are not what they say, and random views."""
import random

import numpy
import pytest
from capsules import Capsule
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


X, Y = pair()
CAPSULES = [
    *[("device %d" % d, {"device": (d, 0)}, TypeError, "expected CPU memory, found %s" % said)
      for d, said in ((2, "a device of CUDA"), (4, "a device of OpenCL"), (10, "a device of ROCm"), (13, "DLPack device type 13"),
                      (0, "DLPack device type 0"))],
    ("CUDA, versioned", {"device": (2, 0), "version": 1}, TypeError, "found a device of CUDA"),
    ("version 2", {"version": 2}, TypeError, "DLPack version 2.0 is not known"),
    ("f64", {"dtype": (2, 64, 1)}, TypeError, "expected f32, found f64"),
    ("lanes", {"dtype": (2, 32, 4)}, TypeError, "expected f32, found elements of DLPack's code 2, 32 bits and 4 lanes"),
    ("rank -1", {"ndim": -1}, ValueError, "expected 2 axes, found -1"),
    ("rank 100", {"ndim": 100}, ValueError, "expected 2 axes, found 100"),
    ("no memory", {"data": 0}, ValueError, "data is NULL"),
    ("an extent below 0", {"shape": (-5, 7)}, ValueError, "expected an extent from 0 to 2147483647, found -5"),
    ("an extent of 2**62", {"shape": (1 << 62, 7)}, ValueError, "expected an extent from 0 to 2147483647, found 4611686018427387904"),
    ("strides of 2**62", {"strides": (1 << 62, 1)}, ValueError, "reach beyond any memory"),
    ("strides of -2**63", {"strides": (-1 << 63, 1)}, ValueError, "reach beyond any memory"),
    ("not aligned", {"shape": (4, 7), "offset": 27}, ValueError, "data is not aligned"),
    ("used up", {"name": b"used_dltensor"}, ValueError, "expected a capsule of DLPack, found one that is used up"),
    ("another name", {"name": b"tensor"}, TypeError, "expected __dlpack__ to give a capsule of DLPack, found PyCapsule"),
]


@pytest.mark.parametrize("name, words, error, said", CAPSULES, ids=[c[0] for c in CAPSULES])
def test_capsules(name, words, error, said):
    out = X.copy()
    for call in (lambda: scale()(Capsule(X, **words), Y), lambda: scale()(X[:4 if "offset" in words else 5], Y, out=Capsule(out, **words))):
        with pytest.raises(error, match=said):
            call()
    numpy.testing.assert_array_equal(out, X)


def test_capsules_that_are_right():
    want = scaled(X, Y)
    for words in ({}, {"version": 1}, {"strides": ()}, {"device": (1, 7)}):
        numpy.testing.assert_array_equal(scale()(Capsule(X, **words), Y), want)
        out = X * 0
        scale()(X, Y, out=Capsule(out, **words))
        numpy.testing.assert_array_equal(out, want)
    numpy.testing.assert_array_equal(scale()(Capsule(X, shape=(4, 7), offset=28), Y), want[1:])
    assert scale()(Capsule(X, shape=(0, 7), data=0), Y).shape == (0, 7)
    with pytest.raises(ValueError, match="operand o: an output, and the array is read-only"):
        scale()(X, Y, out=Capsule(X, version=1, flags=1))


def test_capsules_that_are_used_up():
    x, y = pair()
    capsule = x.__dlpack__()
    once = type("Once", (), {"__dlpack__": returning(capsule), "__dlpack_device__": lambda self: (1, 0)})()
    for _ in range(2):  # a call leaves a capsule as it is
        numpy.testing.assert_array_equal(scale()(once, y), scaled(x, y))
    numpy.from_dlpack(once)
    with pytest.raises(ValueError, match="operand x: expected a capsule of DLPack, found one that is used up"):
        scale()(once, y)


def test_calls_within_calls():
    class Calling:
        def __dlpack__(self, **words):
            scale()(X, Y)
            with pytest.raises(TypeError):
                scale()(X)
            return X.__dlpack__(**words)

        def __del__(self):
            scale()(X, Y)
    numpy.testing.assert_array_equal(scale()(Calling(), Y), scaled(X, Y))
    try:
        raise KeyError("in progress")
    except KeyError:
        numpy.testing.assert_array_equal(scale()(X, Y), scaled(X, Y))


def test_views_that_are_right():
    """Of records, of one element with any stride, of a file, not aligned, broadcast."""
    strided = numpy.lib.stride_tricks.as_strided
    records = numpy.zeros((5, 7), [("a", "f4"), ("b", "i4")])
    records["a"] = X
    apart = numpy.zeros(141, "u1")[1:].view("f4").reshape(5, 7)
    apart[...] = X
    for x in (records["a"], apart, numpy.broadcast_to(X[:1], (5, 7)), strided(X, (1, 7), (1 << 62, 4)), strided(X, (0, 7), (1 << 62, 4))):
        numpy.testing.assert_array_equal(scale()(x, Y), scaled(x, Y))
    scale()(X, Y, out=records["a"])
    numpy.testing.assert_array_equal(records["a"], scaled(X, Y))
    assert not records["b"].any()


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
