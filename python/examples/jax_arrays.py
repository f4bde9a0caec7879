#!/usr/bin/env python3
"""A kernel and its backward inside jax.jit, as one function with a derivative."""
import jax
import jax.numpy as jnp

import pkc
import pkc.jax

square = pkc.kernel("""
kernel square(x: f32[N]) -> (o: f32[N]) {
  grid (i in cdiv(N, 4096) parallel);
  block x, o: [4096] at (i);
  o[...] = x[...] * x[...];
}
""")
backward = pkc.kernel("""
kernel square_backward(x: f32[N], g: f32[N]) -> (dx: f32[N]) {
  grid (i in cdiv(N, 4096) parallel);
  block x, g, dx: [4096] at (i);
  dx[...] = 2.0 * x[...] * g[...];
}
""")


@jax.custom_vjp
def f(x):
    return pkc.jax.call(square, x)


f.defvjp(lambda x: (f(x), x), lambda x, g: (pkc.jax.call(backward, x, g),))

x = jnp.arange(5, dtype=jnp.float32)
print(jax.jit(lambda x: f(x) + 1)(x))
print(jax.jit(jax.grad(lambda x: f(x).sum()))(x))
print(square(x))  # without jit, on the arrays themselves
