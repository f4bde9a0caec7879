"""Gradients of pkc.jax.call, derived from references."""
import numpy
import pytest

jax = pytest.importorskip("jax")
import pkc
from pkc.jax import call

SOFTMAX = """
kernel softmax(x: T[M, N], n: i32[1]) -> (o: T[M, N]) {
  static T: dtype = f32;
  let e = exp(x[...] - reduce_max(x[...], axis = 1));
  o[...] = e / reduce_sum(e, axis = 1);
}
reference softmax {
  let e = exp(x - reduce_max(x, axis = 1));
  o = e / reduce_sum(e, axis = 1);
}
"""


def loss(x, w, f):
    return (f(x) * w).sum()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient(dtype):
    x, w = (jax.random.normal(jax.random.key(i), (5, 7)).astype(dtype) for i in (0, 1))
    k, n = pkc.kernel(SOFTMAX), numpy.zeros(1, numpy.int32)
    for wrapped in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        got = wrapped(lambda v: loss(v, w, lambda u: call(k, u, n)))(x)
        want = jax.grad(lambda v: loss(v, w.astype("float32"), lambda u: jax.nn.softmax(u, axis=1)))(x.astype("float32"))
        assert got.dtype == x.dtype
        assert numpy.allclose(got.astype("float32"), want, atol=1e-5 if dtype == "float32" else 2e-2)


def test_vmap_and_precedence():
    x = jax.random.normal(jax.random.key(2), (3, 5, 7))
    k, n = pkc.kernel(SOFTMAX), numpy.zeros(1, numpy.int32)
    got = jax.vmap(jax.grad(lambda v: (call(k, v, n) ** 2).sum()))(x)
    want = jax.vmap(jax.grad(lambda v: (jax.nn.softmax(v, axis=1) ** 2).sum()))(x)
    assert numpy.allclose(got, want, atol=1e-5)
    own = jax.custom_vjp(lambda v: call(k, v, n))
    own.defvjp(lambda v: (call(k, v, n), v), lambda v, g: (v * 0 + 3,))
    assert (jax.grad(lambda v: own(v).sum())(x[0]) == 3).all()
