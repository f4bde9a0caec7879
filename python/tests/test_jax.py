"""Calls with arrays of JAX."""
import numpy
import pytest
from kernels import COPY, IN_PLACE, made, pair, scale, scaled

from pkc import _arrays, _core

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy


@pytest.mark.parametrize("shape", [(5, 7), (0, 7), (64, 128), (1, 1)])
def test_result(shape):
    x, y = pair(*shape)
    o = scale()(jnp.asarray(x), jnp.asarray(y))
    assert isinstance(o, jax.Array) and o.dtype == jnp.float32
    numpy.testing.assert_array_equal(o, scaled(x, y))
    assert isinstance(scale()(x, jnp.asarray(y)), jax.Array)
    numpy.testing.assert_array_equal(o + 1, scaled(x, y) + 1)


def test_results_are_their_own():
    x, y = pair(64, 64)
    first = scale()(jnp.asarray(x), jnp.asarray(y))
    before = numpy.array(first)
    for _ in range(5):
        scale()(jnp.asarray(-x), jnp.asarray(y))
    numpy.testing.assert_array_equal(first, before)


@pytest.mark.parametrize("dtype", "float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int32 uint32 int16 uint16 int8 uint8 int4 uint4 bool".split())
def test_dtypes(dtype):
    x = (jnp.arange(33).reshape(11, 3) % 7).astype(dtype)
    for _ in range(2):  # the second is made in a shorter way, by its shape and dtype
        o = made(COPY)(x)
        assert isinstance(o, jax.Array) and o.dtype == x.dtype and o.aval == x.aval
        numpy.testing.assert_array_equal(o, x)


def test_computed_input():
    x, y = pair(200, 300)
    o = scale()(jax.jit(lambda x: (x + 1).T)(jnp.asarray(x.T)), jnp.asarray(y))
    numpy.testing.assert_array_equal(o, scaled(x + 1, y))


def test_a_jax_array_is_no_output():
    x, y = pair()
    o = jnp.zeros((5, 7))
    with pytest.raises(TypeError, match="operand o: an output, and a JAX array cannot be written to"):
        scale()(x, y, out=o)
    assert not numpy.asarray(o).any()
    x = jnp.arange(20, dtype="float32")
    numpy.testing.assert_array_equal(made(IN_PLACE)(x), 2 * numpy.arange(20))
    numpy.testing.assert_array_equal(x, numpy.arange(20))


def test_into_numpy():
    x, y = pair()
    out = numpy.empty((5, 7), "f4")
    assert scale()(jnp.asarray(x), jnp.asarray(y), out=out) is out
    numpy.testing.assert_array_equal(out, scaled(x, y))


def test_tracer():
    with pytest.raises(TypeError, match="tracer of JAX"):
        jax.jit(lambda x, y: scale()(x, y))(*pair())


def test_results_are_as_of_asarray():
    """On the default device, and not bound to it."""
    x, y = pair(8, 16)
    p = jnp.asarray(x)
    for _ in range(2):
        o = scale()(jnp.asarray(x), jnp.asarray(y))
        assert (o.aval, o.sharding, o.devices()) == (p.aval, p.sharding, p.devices())
        assert getattr(o, "_committed", False) == getattr(p, "_committed", False)
    with jax.default_device(jax.devices()[0]):
        assert isinstance(scale()(jnp.asarray(x), jnp.asarray(y)), jax.Array)


def test_what_puts_small_arrays_may_fail():
    """As that of another version of JAX would."""
    x, y = pair(9, 17)
    want = scale()(jnp.asarray(x), jnp.asarray(y))
    calls = []

    def put(*words):
        calls.append(words)
        raise TypeError("other words")
    _core.set_helpers(*{**_arrays._helpers, "put": put}.values())
    try:
        o = scale()(jnp.asarray(x), jnp.asarray(y))
    finally:
        _core.set_helpers(*_arrays._helpers.values())
    assert len(calls) == 1 and isinstance(o, jax.Array)
    numpy.testing.assert_array_equal(o, want)
