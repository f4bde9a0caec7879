"""Gradients of unchanged pl.pallas_call, where pkc.pallas.install() has been called; compared with JAX's of the plain function."""
import functools
import pathlib

import numpy
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
pl = pytest.importorskip("jax.experimental.pallas", reason="JAX has no Pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu", reason="JAX has no Pallas for TPUs")
import pkc.pallas  # noqa: E402


@pytest.fixture(autouse=True)
def installed():
    pkc.pallas.install()


def values(*shape, seed=0, dtype="float32"):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


# ---- kernels, and the same functions in plain JAX

def rows(kernel, block=8):
    """The call of a kernel on blocks of rows; what has one axis is the same for all of them."""
    def call(*arrays, out=None):
        specs = [pl.BlockSpec((block, a.shape[1]), lambda i: (i, 0)) if a.ndim == 2 else pl.BlockSpec(a.shape, lambda i: (0,)) for a in arrays]
        out = out or like(arrays[0])
        shapes = out if isinstance(out, tuple) else (out,)
        specs_out = [pl.BlockSpec((block, s.shape[1]), lambda i: (i, 0)) for s in shapes]
        return pl.pallas_call(kernel, out_shape=out, grid=(pl.cdiv(arrays[0].shape[0], block),), in_specs=specs,
                              out_specs=specs_out if isinstance(out, tuple) else specs_out[0])(*arrays)
    return call


def softmax_kernel(x_ref, o_ref):
    o_ref[...] = jax.nn.softmax(x_ref[...].astype(jnp.float32), axis=-1).astype(o_ref.dtype)


def norm_of(x, w, b):
    x = x.astype(jnp.float32)
    centred = x - x.mean(axis=1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * w + b


def norm_kernel(x_ref, w_ref, b_ref, o_ref):
    o_ref[...] = norm_of(x_ref[...], w_ref[...], b_ref[...]).astype(o_ref.dtype)


def two_kernel(x_ref, x, o_ref, p_ref):  # an operand's name is the beginning of another's
    o_ref[...] = x_ref[...] * x[...]
    p_ref[...] = jnp.sin(x_ref[...]) + x[...] ** 2


def two(x, y):
    return rows(two_kernel)(x, y, out=(like(x), like(x)))


def product_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)


def product(x, y, block=16):
    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(product_kernel, out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), grid=(pl.cdiv(m, block), pl.cdiv(n, block)),
                          in_specs=[pl.BlockSpec((block, k), lambda i, j: (i, 0)), pl.BlockSpec((k, block), lambda i, j: (0, j))],
                          out_specs=pl.BlockSpec((block, block), lambda i, j: (i, j)))(x, y)


def whole(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[:, :] = jax.nn.gelu(x_ref[:, :]) * y_ref[:, :]
    return pl.pallas_call(kernel, out_shape=like(x))(x, y)


def cases():
    """(name, with pallas_call, plain, shapes)."""
    softmax, norm = rows(softmax_kernel), rows(norm_kernel)
    return [("softmax", softmax, functools.partial(jax.nn.softmax, axis=-1), [(13, 37)]),
            ("norm", norm, norm_of, [(13, 37), (37,), (37,)]),
            ("two", two, lambda x, y: (x * y, jnp.sin(x) + y ** 2), [(11, 5), (11, 5)]),
            ("product", product, jnp.dot, [(19, 7), (7, 33)]),
            ("whole", whole, lambda x, y: jax.nn.gelu(x) * y, [(4, 5), (4, 5)])]


CASES = [pytest.param(*case[1:], id=case[0]) for case in cases()]


def loss(f):
    """A number of all outputs of f."""
    def number(*arrays):
        return sum((jnp.cos(v.astype(jnp.float32)) * (k + 1.5)).sum() for k, v in enumerate(jax.tree.leaves(f(*arrays))))
    return number


def close(found, wanted, atol=1e-4, rtol=1e-4):
    found, wanted = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        numpy.testing.assert_allclose(numpy.asarray(a, "f4"), numpy.asarray(b, "f4"), atol=atol, rtol=rtol)


@pytest.mark.parametrize("ours, plain, shapes", CASES)
def test_gradient(ours, plain, shapes):
    arrays, every = [values(*shape, seed=k) for k, shape in enumerate(shapes)], tuple(range(len(shapes)))
    wanted = jax.grad(loss(plain), every)(*arrays)
    close(jax.grad(loss(ours), every)(*arrays), wanted)
    close(jax.jit(jax.grad(loss(ours), every))(*arrays), wanted)
    for k in every:
        close(jax.grad(loss(ours), k)(*arrays), wanted[k])


@pytest.mark.parametrize("ours, plain, shapes", CASES)
def test_all_ways(ours, plain, shapes):
    arrays = [values(*shape, seed=k) for k, shape in enumerate(shapes)]
    directions = [values(*shape, seed=k + 9) for k, shape in enumerate(shapes)]
    stacks = [jnp.stack([a, d]) for a, d in zip(arrays, directions)]
    every = tuple(range(len(shapes)))

    def repeated(f):
        return lambda *a: jax.lax.scan(lambda c, t: (c + 0.01 * t * loss(f)(c, *a[1:]), None), a[0], jnp.arange(1., 3.))[0].mean()
    for derive in (lambda f: jax.jvp(f, arrays, directions),
                   lambda f: jax.jvp(lambda x: f(x, *arrays[1:]), arrays[:1], directions[:1]),
                   lambda f: jax.linearize(f, *arrays)[1](*directions),
                   lambda f: jax.vjp(f, *arrays)[1](f(*arrays)),
                   lambda f: jax.grad(loss(jax.checkpoint(f)), every)(*arrays),
                   lambda f: jax.vmap(jax.grad(loss(f), every))(*stacks),
                   lambda f: jax.jit(jax.grad(loss(jax.vmap(f)), every))(*stacks),
                   lambda f: jax.grad(loss(jax.vmap(f, in_axes=(0, *[None] * (len(arrays) - 1)))), every)(stacks[0], *arrays[1:]),
                   lambda f: jax.grad(repeated(f), every)(*arrays)):
        close(derive(ours), derive(plain), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["softmax", "norm", "product"])
def test_narrow(name, dtype):
    _, ours, plain, shapes = next(case for case in cases() if case[0] == name)
    arrays, every = [values(*shape, seed=k, dtype=dtype) for k, shape in enumerate(shapes)], tuple(range(len(shapes)))
    found = jax.grad(loss(ours), every)(*arrays)
    assert all(g.dtype == dtype for g in found)
    close(found, jax.grad(loss(plain), every)(*(a.astype("float32") for a in arrays)), atol=6e-2, rtol=6e-2)


def test_masked_zero():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.where(x_ref[...] > 0, jnp.log(x_ref[...]), 0)
    x = jnp.array([[-1., 0., 2.]])
    close(jax.grad(lambda v: rows(kernel)(v).sum())(x), jnp.array([[0, 0, 0.5]]))


def test_integers():
    def kernel(x_ref, i_ref, o_ref, j_ref):
        o_ref[...] = x_ref[...] * i_ref[...].astype(jnp.float32)
        j_ref[...] = i_ref[...] + 1
    x, i = values(5, 3), jnp.arange(15, dtype=jnp.int32).reshape(5, 3)
    call = lambda x: rows(kernel)(x, i, out=(like(x), like(i)))  # noqa: E731
    close(jax.grad(lambda x: (call(x)[0] ** 2).sum())(x), 2 * x * i * i)
    made, tangents = jax.jvp(call, (x,), (x,))
    close((made, tangents[0]), ((x * i, i + 1), x * i))
    assert tangents[1].dtype == jax.dtypes.float0


def test_refused():
    def kernel(x_ref, o_ref, seen):
        seen[...] = x_ref[...]
        o_ref[...] = seen[...] * 2
    def call(x):
        return pl.pallas_call(kernel, out_shape=like(x), scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)])(x)
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)the gradient of .*`seen` is memory of the kernel.*custom_vjp"):
        jax.grad(lambda v: call(v).sum())(values(3, 5))


def test_document():
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/gradients.md").read_text()
    exec(text.split("```python\n")[1].split("```")[0], {})


def test_custom_vjp_counts_more():
    own = jax.custom_vjp(rows(softmax_kernel))
    own.defvjp(lambda x: (own(x), x), lambda x, g: (x * 0 + 3,))
    assert (jax.grad(lambda v: own(v).sum())(values(5, 7)) == 3).all()
