"""A Pallas kernel of a JAX program, unchanged: interpreted by JAX, then compiled by pkc, checked and costed."""
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pkc.pallas


def softmax_kernel(x_ref, o_ref):
    e = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
    o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)


def softmax(x, interpret=False):
    rows = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(softmax_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(pl.cdiv(x.shape[0], 8),),
                          in_specs=[rows], out_specs=rows, interpret=interpret)(x)


def milliseconds(f, x):
    f(x).block_until_ready()
    start = time.perf_counter()
    f(x).block_until_ready()
    return (time.perf_counter() - start) * 1e3


pkc.pallas.install()  # without this line, JAX raises: on a CPU it only interprets
x = jnp.asarray(np.random.default_rng(0).standard_normal((1000, 1000), "f4"))
print(pkc.pallas.to_pk(softmax, x))
print(pkc.pallas.check(softmax, x[:20]))
difference = float(jnp.abs(softmax(x) - softmax(x, interpret=True)).max())
print("compiled %.2f ms, interpreted %.2f ms, difference %.0e" %
      (milliseconds(jax.jit(softmax), x), milliseconds(jax.jit(lambda x: softmax(x, interpret=True)), x), difference))
print(str(pkc.pallas.tpu(softmax, x, chip="v6e")).split("\n")[0])
