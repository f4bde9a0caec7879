"""A Pallas kernel and its test: races, lost copies, unwritten elements and blocks out of range are failures, and so are other values."""
import jax
import jax.numpy as jnp
import numpy
import pkc.pallas
import pkc.testing
from jax.experimental import pallas as pl

pkc.pallas.install()


def softmax_kernel(x_ref, o_ref):
    x = x_ref[...]
    e = jnp.exp(x - jnp.max(x, axis=1, keepdims=True))
    o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)


def softmax(x):
    rows = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(softmax_kernel, out_shape=x, grid=(pl.cdiv(x.shape[0], 8),), in_specs=[rows], out_specs=rows)(x)


def test_softmax():
    x = jnp.asarray(numpy.random.default_rng(0).normal(size=(37, 130)), "float32")
    pkc.testing.check(softmax, x, reference=jax.nn.softmax)
