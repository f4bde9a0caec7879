#!/usr/bin/env python3
"""A Pallas kernel in a training loop: a network learns which of two spirals a point lies on, with jax.grad through pallas_call.

JAX itself does not differentiate pallas_call in reverse mode; the kernel has no gradient of its own, and pkc derives one."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pkc.pallas


def layer_kernel(x_ref, w_ref, b_ref, o_ref):
    """gelu(x w + b) of a block of rows."""
    v = jnp.dot(x_ref[...], w_ref[...]) + b_ref[...]
    o_ref[...] = 0.5 * v * (1 + jnp.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))


def layer(x, w, b):
    rows, (inner, features) = 32, w.shape
    return pl.pallas_call(layer_kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], features), x.dtype), grid=(pl.cdiv(x.shape[0], rows),),
                          in_specs=[pl.BlockSpec((rows, inner), lambda i: (i, 0)), pl.BlockSpec((inner, features), lambda i: (0, 0)),
                                    pl.BlockSpec((1, features), lambda i: (0, 0))],
                          out_specs=pl.BlockSpec((rows, features), lambda i: (i, 0)))(x, w, b)


def plain_layer(x, w, b):
    return jax.nn.gelu(x @ w + b, approximate=True)


def loss(parameters, x, side, layer=layer):
    *hidden, (w, b) = parameters
    for weights in hidden:
        x = layer(x, *weights)
    return jnp.mean(jnp.logaddexp(0, -side * (x @ w + b)[:, 0]))


@jax.jit
def step(parameters, moments, x, side):
    """Gradient descent with momentum."""
    value, gradient = jax.value_and_grad(loss)(parameters, x, side)
    moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, gradient)
    return jax.tree.map(lambda p, m: p - 0.05 * m, parameters, moments), moments, value


def spirals(random, count):
    angle, side = random.uniform(0.5, 2.5 * np.pi, count), random.choice([-1.0, 1.0], count)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * (side * angle)[:, None] / 4
    return jnp.asarray(points + random.normal(0, 0.02, points.shape), jnp.float32), jnp.asarray(side, jnp.float32)


pkc.pallas.install()
random = np.random.default_rng(0)
widths = (2, 64, 64, 1)
parameters = [(jnp.asarray(random.normal(0, m ** -0.5, (m, n)), jnp.float32), jnp.zeros((1, n), jnp.float32)) for m, n in zip(widths, widths[1:])]
moments = jax.tree.map(jnp.zeros_like, parameters)

x, side = spirals(random, 500)
ours, plain = (jax.grad(loss)(parameters, x, side, f) for f in (layer, plain_layer))
difference = max(float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(plain)))
print("gradients differ from jax.numpy's by %.0e" % difference)
assert difference < 1e-5

first = float(loss(parameters, x, side))
for _ in range(1500):
    parameters, moments, value = step(parameters, moments, x, side)
print("loss %.3f, after training %.4f" % (first, value))
assert value < 0.1 * first
print("the network learned the spirals")
