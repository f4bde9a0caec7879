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


def pairs():
    """The kernel and the same in JAX, plain and inside of what differentiates, maps and repeats functions."""
    k, n = pkc.kernel(SOFTMAX), numpy.zeros(1, numpy.int32)
    plain = (lambda v: call(k, v, n)), (lambda v: jax.nn.softmax(v, axis=1))
    for name, wrap in [("plain", lambda f: f), ("jit", jax.jit), ("remat", jax.checkpoint),
                       ("vmap", lambda f: lambda v: jax.vmap(f, in_axes=1, out_axes=1)(v.reshape(5, 1, 7) * jax.numpy.ones((1, 2, 1))).sum(1)),
                       ("scan", lambda f: lambda v: jax.lax.scan(lambda c, t: (f(c) * t, None), v, jax.numpy.arange(1., 4.))[0])]:
        yield pytest.param(wrap(plain[0]), wrap(plain[1]), id=name)


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


@pytest.mark.parametrize("ours, theirs", list(pairs()))
def test_all_ways(ours, theirs):
    x, d, w = (jax.random.normal(jax.random.key(i), (5, 7)) for i in (3, 4, 5))

    def scalar(f):
        return lambda v: (f(v) * w).sum()
    for derive in (lambda f: jax.jvp(f, (x,), (d,)), lambda f: jax.linearize(f, x)[1](d), lambda f: jax.vjp(f, x)[1](w)[0],
                   lambda f: jax.hessian(scalar(f))(x), lambda f: jax.jacrev(jax.jacfwd(scalar(f)))(x),
                   lambda f: jax.grad(lambda v: (jax.jvp(jax.grad(scalar(f)), (v,), (d,))[1] * w).sum())(x),
                   lambda f: jax.jit(jax.vmap(jax.grad(scalar(f))))(jax.numpy.stack([x, d]))):
        got, want = jax.tree.leaves(derive(ours)), jax.tree.leaves(derive(theirs))
        assert all(numpy.allclose(g, w, atol=2e-5) for g, w in zip(got, want)) and len(got) == len(want)


def test_integers_and_several_outputs():
    k = pkc.kernel("""
      kernel two(x: f32[N], i: i32[N], y: f32[N]) -> (o: f32[N], j: i32[N], p: f32[N]) {
        o[...] = x[...] * y[...]; j[...] = i[...] + 1; p[...] = sin(y[...]);
      }
      reference two { o = x * y; j = i + 1; p = sin(y); }""")
    x, y = jax.random.normal(jax.random.key(6), (2, 4))
    i = jax.numpy.arange(4)
    for use in (lambda x, y: call(k, x, i, y), lambda x, y: (x * y, i + 1, jax.numpy.sin(y))):
        found = jax.grad(lambda y: use(x, y)[0].sum() + use(x, y)[2].sum())(y), jax.jvp(lambda x: use(x, y)[::2], (x,), (y,)), \
            jax.grad(lambda v: use(v * 2, v)[0].sum())(x)
        want = x + jax.numpy.cos(y), ((x * y, jax.numpy.sin(y)), (y * y, 0 * y)), 4 * x
        assert jax.tree.all(jax.tree.map(lambda a, b: bool(numpy.allclose(a, b, atol=1e-6)), found, want))


def test_refused():
    bare = pkc.kernel("kernel bare(x: f32[N]) -> (o: f32[N]) { grid (i in cdiv(N, 4) parallel); block x, o: [4] at (i); for t in 0..N { o[...] = x[...]; } }")
    with pytest.raises(pkc.CompileError, match="a block that does not divide an array of run-time size"):
        jax.grad(lambda v: call(bare, v).sum())(jax.numpy.ones(3))


def test_outputs_that_the_gradient_reads():
    """They are kept for it, and only they."""
    def kept(many):
        x = jax.numpy.ones((4, 6))
        k = pkc.kernel(SOFTMAX) if not many else pkc.kernel("""
          kernel three(x: T[M, N]) -> (a: T[M, N], o: T[M, N], b: T[M, N]) {
            static T: dtype = f32; a[...] = x[...] * x[...]; o[...] = exp(x[...]); b[...] = x[...] + 1; }""")
        arguments = (x,) if many else (x, numpy.zeros(1, numpy.int32))
        _, back = jax.vjp(lambda v: call(k, v, *arguments[1:]), x)
        return sum(leaf.shape == (4, 6) for leaf in jax.tree.leaves(back))
    assert kept(False) == 2 and kept(True) == 2


def test_state_along_the_grid():
    k = pkc.kernel("""
      kernel scan(x: f32[M, 8], w: f32[1, 8]) -> (y: f32[M, 8]) {
        grid (i in M arbitrary); block x, y: [1, 8] at (i, 0); block w: [1, 8] at (0, 0); scratch s: vmem f32[1, 8];
        when i == 0 { s[...] = 1; }
        s[...] = sin(s[...] * x[...]) + w[...];
        y[...] = s[...];
      }""")

    def plain(x, w):
        return jax.lax.scan(lambda s, v: (jax.numpy.sin(s * v) + w[0],) * 2, jax.numpy.ones(8), x)[1]
    w = jax.random.normal(jax.random.key(1), (1, 8))
    for rows in (5, 1):
        x = jax.random.normal(jax.random.key(0), (rows, 8))
        for derive in (lambda f: jax.grad(lambda *a: (f(*a) ** 2).sum(), (0, 1))(x, w), lambda f: jax.jvp(f, (x, w), (x, w))[1],
                       lambda f: jax.hessian(lambda *a: (f(*a) ** 2).sum())(x, w)):
            got, want = jax.tree.leaves(derive(lambda *a: call(k, *a))), jax.tree.leaves(derive(plain))
            assert all(numpy.allclose(g, v, atol=1e-4) for g, v in zip(got, want, strict=True))


def test_sums_larger_than_vmem():
    """On a CPU the sum of a gradient may take any memory."""
    k = pkc.kernel("""
      kernel rows(table: f32[V, 32]) -> (o: f32[N, 32]) {
        prefetch id: i32[N]; vmem_limit 20000;
        grid (n in N parallel); block table: [1, 32] at (id[n], 0); block o: [1, 32] at (n, 0);
        o[...] = table[...] * 2;
      }""")
    table, index = jax.random.normal(jax.random.key(0), (600, 32)), jax.numpy.array([5, 599, 5], numpy.int32)
    arguments = [o["name"] for o in k.signature["operands"] if o["direction"] == "input"]
    found = jax.grad(lambda t: (call(k, *(t if name == "table" else index for name in arguments)) ** 2).sum())(table)
    assert numpy.allclose(found, jax.grad(lambda t: ((t[index] * 2) ** 2).sum())(table), atol=1e-5)
