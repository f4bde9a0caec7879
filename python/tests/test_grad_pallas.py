"""Gradients of unchanged pl.pallas_call, where pkc.pallas.install() has been called; compared with JAX's of the plain function."""
import functools
import pathlib
import re

import numpy
import pytest

from pallas_calls import normals, installed, jax, jnp, like, matmul_kernel, pl, pltpu  # noqa: F401 (installed: a fixture)
import pkc.pallas
from pkc.pallas import derivatives


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
    arrays, every = [normals(*shape, seed=k) for k, shape in enumerate(shapes)], tuple(range(len(shapes)))
    wanted = jax.grad(loss(plain), every)(*arrays)
    close(jax.grad(loss(ours), every)(*arrays), wanted)
    close(jax.jit(jax.grad(loss(ours), every))(*arrays), wanted)
    for k in every:
        close(jax.grad(loss(ours), k)(*arrays), wanted[k])


@pytest.mark.parametrize("ours, plain, shapes", CASES)
def test_all_ways(ours, plain, shapes):
    arrays = [normals(*shape, seed=k) for k, shape in enumerate(shapes)]
    directions = [normals(*shape, seed=k + 9) for k, shape in enumerate(shapes)]
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
    arrays, every = [normals(*shape, seed=k, dtype=dtype) for k, shape in enumerate(shapes)], tuple(range(len(shapes)))
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
    x, i = normals(5, 3), jnp.arange(15, dtype=jnp.int32).reshape(5, 3)
    call = lambda x: rows(kernel)(x, i, out=(like(x), like(i)))  # noqa: E731
    close(jax.grad(lambda x: (call(x)[0] ** 2).sum())(x), 2 * x * i * i)
    made, tangents = jax.jvp(call, (x,), (x,))
    close((made, tangents[0]), ((x * i, i + 1), x * i))
    assert tangents[1].dtype == jax.dtypes.float0


def test_copies():
    def kernel(x_ref, o_ref, done):
        pltpu.make_async_copy(x_ref, o_ref, done).start()
        pltpu.make_async_copy(x_ref, o_ref, done).wait()

    def call(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(kernel, out_shape=like(x), in_specs=[anywhere], out_specs=anywhere, scratch_shapes=[pltpu.SemaphoreType.DMA])(x)
    weights = normals(8, 128)
    numpy.testing.assert_array_equal(jax.grad(lambda v: (call(v) * weights).sum())(normals(8, 128)), weights)


def test_refused():
    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.while_loop(lambda v: v.sum() < 1000, lambda v: v * v + 1, x_ref[...])
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)the gradient of .*`while` has no derivative.*custom_vjp"):
        jax.grad(lambda v: pl.pallas_call(kernel, out_shape=like(v))(v).sum())(normals(8, 128))


# ---- state along the grid, and derivatives of derivatives

def summed(x, y, block=8):
    """x @ y by an accumulator, where the blocks divide x's columns."""
    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(matmul_kernel, out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), grid=(pl.cdiv(m, block), pl.cdiv(n, block), k // block),
                          in_specs=[pl.BlockSpec((block, block), lambda i, j, k: (i, k)), pl.BlockSpec((block, block), lambda i, j, k: (k, j))],
                          out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
                          scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)])(x, y)


def attention_of(q, k, v):
    return jax.nn.softmax(q @ k.T, axis=-1) @ v


def flash(q, k, v, rows=8, block=4):
    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)
        s = jnp.dot(q_ref[...], k_ref[...].T, preferred_element_type=jnp.float32)
        m = jnp.maximum(m_ref[...], s.max(axis=1, keepdims=True))
        a, p = jnp.exp(m_ref[...] - m), jnp.exp(s - m)
        l_ref[...] = a * l_ref[...] + p.sum(axis=1, keepdims=True)
        acc_ref[...] = a * acc_ref[...] + jnp.dot(p, v_ref[...], preferred_element_type=jnp.float32)
        m_ref[...] = m

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)
    (n, d), e = q.shape, v.shape[1]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((n, e), q.dtype), grid=(pl.cdiv(n, rows), k.shape[0] // block),
                          in_specs=[pl.BlockSpec((rows, d), lambda i, j: (i, 0)), pl.BlockSpec((block, d), lambda i, j: (j, 0)),
                                    pl.BlockSpec((block, e), lambda i, j: (j, 0))], out_specs=pl.BlockSpec((rows, e), lambda i, j: (i, 0)),
                          scratch_shapes=[pltpu.VMEM((rows, 1), jnp.float32)] * 2 + [pltpu.VMEM((rows, e), jnp.float32)])(q, k, v)


def squares(x):
    """The sum of the squares of each column: all steps add to one block."""
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[...] += jnp.sum(x_ref[...] ** 2, axis=0)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape[1:], x.dtype), grid=(x.shape[0] // 4,),
                          in_specs=[pl.BlockSpec((4, x.shape[1]), lambda i: (i, 0))], out_specs=pl.BlockSpec(x.shape[1:], lambda i: (0,)))(x)


STATES = [pytest.param(*case[1:], id=case[0]) for case in [
    ("summed", summed, jnp.dot, [(13, 24), (24, 19)]),
    ("flash", flash, attention_of, [(11, 5), (12, 5), (12, 6)]),
    ("squares", squares, lambda x: (x ** 2).sum(axis=0), [(12, 5)])]]


@pytest.mark.parametrize("ours, plain, shapes", STATES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_state(ours, plain, shapes, dtype):
    arrays, every = [normals(*shape, seed=k, dtype=dtype) for k, shape in enumerate(shapes)], tuple(range(len(shapes)))
    wanted = jax.grad(loss(plain), every)(*(a.astype("float32") for a in arrays))
    found = jax.jit(jax.grad(loss(ours), every))(*arrays)
    assert all(g.dtype == dtype for g in found)
    bound = 1e-4 if dtype == "float32" else 0.03 * max(float(abs(w).max()) for w in wanted)
    close(found, wanted, atol=bound, rtol=bound)


def test_scaled_sums_in_blocks(monkeypatch):
    """Sums that a running maximum scales are derived as kernels of blocks, not step by step."""
    made, derive = [], derivatives.quickest_grad
    monkeypatch.setattr(derivatives, "quickest_grad", lambda *arguments: made.append(derive(*arguments)) or made[-1])
    jax.grad(lambda v: flash(v, v, v).sum())(normals(16, 7))
    assert made and all("program kernel_backward" in derived._source.text for derived, _ in made)


@pytest.mark.parametrize("ours, plain, shapes", STATES)
def test_state_in_all_ways(ours, plain, shapes):
    arrays = [normals(*shape, seed=k) for k, shape in enumerate(shapes)]
    directions = [normals(*shape, seed=k + 9) for k, shape in enumerate(shapes)]
    stacks, every = [jnp.stack([a, d]) for a, d in zip(arrays, directions)], tuple(range(len(shapes)))
    for derive in (lambda f: jax.jvp(f, arrays, directions), lambda f: jax.vjp(f, *arrays)[1](f(*arrays)),
                   lambda f: jax.vmap(jax.grad(loss(f), every))(*stacks), lambda f: jax.grad(loss(jax.checkpoint(f)), every)(*arrays)):
        close(derive(ours), derive(plain), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("ours, plain, shapes", [case for case in CASES + STATES if case.id in ("softmax", "norm", "product", "summed", "flash")])
def test_second(ours, plain, shapes):
    arrays = [normals(*shape, seed=k) for k, shape in enumerate(shapes)]
    directions, every = [normals(*shape, seed=k + 9) for k, shape in enumerate(shapes)], tuple(range(len(shapes)))

    def along(f):
        gradient = jax.grad(lambda a: loss(f)(*a))
        return jax.jit(lambda a, d: jax.jvp(gradient, (a,), (d,))[1])(arrays, directions)

    def twice(f):
        return jax.grad(lambda *a: sum((g ** 2).sum() for g in jax.grad(loss(f), every)(*a)), every)(*arrays)
    close(along(ours), along(plain), atol=2e-3, rtol=2e-3)
    close(twice(ours), twice(plain), atol=2e-2, rtol=2e-2)


def test_hessian():
    x = normals(3, 4)
    close(jax.hessian(lambda v: loss(rows(softmax_kernel))(v))(x), jax.hessian(lambda v: loss(jax.nn.softmax)(v))(x))


def test_prefetched():
    def kernel(n_ref, x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...])
    n, x = jnp.array([2, 0, 2], jnp.int32), normals(4, 8)
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(3,), in_specs=[pl.BlockSpec((1, 8), lambda i, n: (n[i], 0))],
                                        out_specs=pl.BlockSpec((1, 8), lambda i, n: (i, 0)))
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((3, 8), x.dtype), grid_spec=spec)
    close(jax.grad(lambda v: loss(lambda v: call(n, v))(v))(x), jax.grad(lambda v: loss(lambda v: jnp.sin(v[n]))(v))(x))


def test_document():
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/gradients.md").read_text()
    exec(text.split("```python\n")[1].split("```")[0], {})


def test_custom_vjp_counts_more():
    own = jax.custom_vjp(rows(softmax_kernel))
    own.defvjp(lambda x: (own(x), x), lambda x, g: (x * 0 + 3,))
    assert (jax.grad(lambda v: own(v).sum())(normals(5, 7)) == 3).all()


# ---- where pkc derives nothing, and on several devices

def halved_kernel(x_ref, o_ref):  # how often the loop runs depends on the data
    o_ref[...] = jax.lax.while_loop(lambda v: v.max() > 1, lambda v: jnp.sin(v) * 0.9, x_ref[...])


def test_fallback():
    """In forward mode JAX's own derivative of the call; in reverse mode an error, unless a custom_vjp gives a derivative."""
    def call(x):
        return pl.pallas_call(halved_kernel, out_shape=like(x))(x)

    def plain(x):
        return jax.lax.while_loop(lambda v: v.max() > 1, lambda v: jnp.sin(v) * 0.9, x)
    x, direction = 2 * normals(8, 128), normals(8, 128, seed=1)
    wanted = jax.jvp(plain, (x,), (direction,))
    close(jax.jvp(call, (x,), (direction,)), wanted)
    close(jax.jit(lambda x, t: jax.jvp(call, (x,), (t,)))(x, direction), wanted)
    with pytest.raises(pkc.pallas.TranslationError, match=r"(?s)the gradient of .*`while` has no derivative.*custom_vjp"):
        jax.grad(lambda v: call(v).sum())(x)
    own = jax.custom_vjp(call)
    own.defvjp(lambda x: (call(x), x), lambda x, g: (3 * g,))
    close(jax.grad(lambda v: own(v).sum())(x), 3 * jnp.ones_like(x))


def test_shard_map(on_four_devices):
    """Gradients inside and around jax.shard_map: an operand that all devices share has the sum of theirs."""
    text = """
import jax, jax.numpy as jnp, numpy
from jax.sharding import Mesh, PartitionSpec as P
from test_grad_pallas import close, norm_of, norm_kernel, rows, summed
from pallas_calls import normals
import pkc.pallas
pkc.pallas.install()
mesh = Mesh(numpy.array(jax.devices()), ("d",))
def divided(f, spec_of_rest):
    return lambda x, *rest: jax.shard_map(f, mesh=mesh, in_specs=(P("d"), *[spec_of_rest] * len(rest)), out_specs=P("d"), check_vma=False)(x, *rest)
for f, plain, shapes in [(rows(norm_kernel), norm_of, [(32, 20), (20,), (20,)]), (summed, jnp.dot, [(32, 16), (16, 10)])]:
    arrays, every = [normals(*s, seed=k) for k, s in enumerate(shapes)], tuple(range(len(shapes)))
    loss = lambda f: lambda *a: (f(*a) ** 2).sum()
    wanted = jax.grad(loss(plain), every)(*arrays)
    close(jax.jit(jax.grad(loss(divided(f, P())), every))(*arrays), wanted, atol=1e-3)
    def inside(x, *rest):
        dx, *others = jax.grad(loss(f), every)(x, *rest)
        return (dx, *[jax.lax.psum(g, "d") for g in others])
    specs = (P("d"), *[P()] * (len(shapes) - 1))
    close(jax.jit(jax.shard_map(inside, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False))(*arrays), wanted, atol=1e-3)
print(len(jax.devices()))
"""
    on_four_devices(text)


@pytest.mark.parametrize("ours, plain, shapes", [case for case in CASES if case.id in ("softmax", "norm", "product")])
def test_to_pallas(ours, plain, shapes):
    """The module's function, which JAX's own interpreter runs, equals the gradient of the plain function."""
    arrays = [normals(*shape, seed=k) for k, shape in enumerate(shapes)]
    text, made = str(pkc.pallas.grad_to_pallas(ours, *arrays)), {}
    exec(compile(text, "made", "exec"), made)
    back = next(f for name, f in made.items() if re.fullmatch(r"\w+_kernel_backward", name))
    out, pull = jax.vjp(plain, *arrays)
    found = back(*arrays, jnp.cos(out), interpret=True)
    close(found, pull(jnp.cos(out)))


def test_to_pallas_refused():
    with pytest.raises(ValueError, match="calls no Pallas kernel"):
        pkc.pallas.grad_to_pallas(jnp.sin, normals(3))
    with pytest.raises(ValueError, match="calls 2 kernels"):
        pkc.pallas.grad_to_pallas(lambda x: rows(softmax_kernel)(product(x, x)), normals(16, 16))


def test_pages_in_blocks():
    """Pages that a list chooses and parts of blocks: one kernel with blocks, not step by step."""
    def kernel(page_ref, x_ref, o_ref):
        o_ref[:, :4] = jnp.sin(x_ref[:, 4:])
        o_ref[:, 4:] = x_ref[:, :4] ** 2
    pages, x = jnp.array([3, 1, 3, 0, 2, 3], jnp.int32), normals(32, 8)
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(6,), in_specs=[pl.BlockSpec((8, 8), lambda i, page: (page[i], 0))],
                                        out_specs=pl.BlockSpec((8, 8), lambda i, page: (i, 0)))

    def ours(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((48, 8), "float32"), grid_spec=spec)(pages, x)

    def plain(x):
        taken = x.reshape(4, 8, 8)[pages].reshape(48, 8)
        return jnp.concatenate([jnp.sin(taken[:, 4:]), taken[:, :4] ** 2], axis=1)
    wanted, made = jax.grad(loss(plain))(x), {}
    close(jax.grad(loss(ours))(x), wanted)
    exec(compile(str(pkc.pallas.grad_to_pallas(ours, x)), "made", "exec"), made)
    close(made["kernel_backward"](pages, x, -1.5 * jnp.sin(plain(x)), interpret=True), wanted)
