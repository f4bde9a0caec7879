"""The gradients of kernels/train against finite differences in binary64, and against torch's autograd where there is torch."""
import pathlib

import numpy
import pytest

import pkc

FOLDER = pathlib.Path(pkc.__file__).parent / "share/pkc/kernels/train"
F64 = numpy.float64


def load(file, kernel=None, **statics):
    return pkc.load(FOLDER / (file + ".pk"), kernel, **statics)


def normal(*shape, seed=0):
    return numpy.random.default_rng([seed, *shape]).standard_normal(shape)


# ---- the functions, in binary64

def gelu(x):
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x ** 3)))


def layernorm(x, w, b):
    centred = x - x.mean(1, keepdims=True)
    return centred / numpy.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5) * w + b


def rmsnorm(x, w):
    return x / numpy.sqrt((x ** 2).mean(1, keepdims=True) + 1e-6) * w


def log_sum(s):
    m = s.max(-1, keepdims=True)
    return m + numpy.log(numpy.exp(s - m).sum(-1, keepdims=True))


def cross_entropy(x, target):
    counts = (target >= 0) & (target < x.shape[1])
    own = numpy.take_along_axis(x, numpy.where(counts, target, 0), 1)
    return numpy.where(counts, log_sum(x) - own, 0)


def attention(q, k, v, causal):
    k, v = (numpy.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
    s = q @ k.swapaxes(2, 3) / numpy.sqrt(q.shape[3])
    if causal:
        s = numpy.where(numpy.tri(*s.shape[2:], dtype=bool), s, -numpy.inf)
    return numpy.exp(s - log_sum(s)) @ v


def check(function, inputs, gradient, found, tolerance):
    """sum(found * u) is the derivative of sum(gradient * function) in the direction u, for each input."""
    for i, got in enumerate(found):
        for seed in range(3):
            u = normal(*inputs[i].shape, seed=100 + seed)
            step = 1e-5
            def at(h, i=i, u=u):
                return (function(*(x + h * u if j == i else x for j, x in enumerate(inputs))) * gradient).sum()
            want = (at(step) - at(-step)) / (2 * step)
            have = (got.astype(F64).reshape(u.shape) * u).sum()
            scale = numpy.abs(got.astype(F64).reshape(u.shape) * u).sum() + 1e-6
            assert abs(have - want) <= tolerance * scale, (i, seed, have, want, scale)


def dtypes():
    return pytest.mark.parametrize("dtype, tolerance", [(numpy.float64, 1e-7), (numpy.float32, 2e-5)])


@dtypes()
def test_gelu(dtype, tolerance):
    x, do = 2 * normal(9, 37), normal(9, 37, seed=1)
    found = load("gelu_backward")(x.astype(dtype), do.astype(dtype))
    assert found.dtype == dtype
    check(gelu, [x], do, [found], tolerance)


@dtypes()
@pytest.mark.parametrize("shape", [(9, 37), (1, 300), (70, 8)])
def test_layernorm(shape, dtype, tolerance):
    x, w, b, do = normal(*shape) + 1, normal(shape[1], seed=1), normal(shape[1], seed=2), normal(*shape, seed=3)
    found = load("layernorm_backward", "layernorm_backward")(*(a.astype(dtype) for a in (x, w, do)), threads=2)
    check(layernorm, [x, w, b], do, found, tolerance)


@dtypes()
def test_rmsnorm(dtype, tolerance):
    x, w, do = normal(33, 70), normal(70, seed=1), normal(33, 70, seed=3)
    found = load("rmsnorm_backward", "rmsnorm_backward")(*(a.astype(dtype) for a in (x, w, do)), threads=2)
    check(rmsnorm, [x, w], do, found, tolerance)


@dtypes()
def test_cross_entropy(dtype, tolerance):
    x, dloss = 3 * normal(20, 53), normal(20, 1, seed=1)
    target = numpy.random.default_rng(5).integers(-2, 55, (20, 1)).astype(numpy.int32)
    loss, lse = load("cross_entropy", "cross_entropy")(x.astype(dtype), target)
    numpy.testing.assert_allclose(loss, cross_entropy(x, target), rtol=1e-5, atol=1e-5)
    found = load("cross_entropy", "cross_entropy_backward")(x.astype(dtype), target, lse, dloss.astype(dtype))
    check(lambda x: cross_entropy(x, target), [x], dloss, [found], tolerance)


def test_linear_cross_entropy():
    x, w, dloss = normal(33, 20), normal(70, 20, seed=1), normal(33, 1, seed=2)
    target = numpy.random.default_rng(5).integers(-2, 72, (33, 1)).astype(numpy.int32)
    single = [a.astype(numpy.float32) for a in (x, w)]
    loss, lse = load("linear_cross_entropy", "linear_cross_entropy")(*single, target)
    numpy.testing.assert_allclose(loss, cross_entropy(x @ w.T, target), rtol=1e-5, atol=1e-5)
    found = load("linear_cross_entropy", "linear_cross_entropy_backward")(*single, target, lse, dloss.astype(numpy.float32), threads=2)
    check(lambda x, w: cross_entropy(x @ w.T, target), [x, w], dloss, found, 2e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, groups, n, s, d", [(2, 2, 13, 13, 8), (4, 2, 40, 70, 16)])
def test_attention(heads, groups, n, s, d, causal):
    n, s = (s, s) if causal else (n, s)
    q, do = normal(2, heads, n, d), normal(2, heads, n, d, seed=3)
    k, v = normal(2, groups, s, d, seed=1), normal(2, groups, s, d, seed=2)
    single = [a.astype(numpy.float32) for a in (q, k, v)]
    o, lse = load("attention", "attention", CAUSAL=causal, BQ=32, BK=32)(*single)
    numpy.testing.assert_allclose(o, attention(q, k, v, causal), rtol=1e-4, atol=1e-5)
    backward = load("attention", "attention_backward", CAUSAL=causal, BQ=32, BK=32)
    found = backward(*single, o, lse, do.astype(numpy.float32), threads=2)
    check(lambda *a: attention(*a, causal), [q, k, v], do, found, 5e-5)
    again = backward(*single, o, lse, do.astype(numpy.float32))
    assert all((a == b).all() for a, b in zip(found, again))  # whatever the number of threads


def test_embedding():
    ids = numpy.random.default_rng(5).integers(0, 11, 200).astype(numpy.int32)
    do = normal(200, 37)
    found = load("embedding_backward")(ids, do, V=11, threads=2)
    check(lambda table: table[ids], [normal(11, 37)], do, [found], 1e-7)


def test_adamw():
    """Ten steps against the algorithm in binary64."""
    p, m, v = normal(7, 30), numpy.zeros((7, 30)), numpy.zeros((7, 30))
    kernel = load("adamw")
    mine = [a.astype(F64) for a in (p, m, v)]
    for t in range(1, 11):
        g = normal(7, 30, seed=t)
        rate, clip = 0.01 / t, 0.5
        mine = kernel(*mine, g, numpy.array([rate, 1 / (1 - 0.9 ** t), 1 / (1 - 0.95 ** t), clip, 0.1], numpy.float32))
        m = 0.9 * m + 0.1 * (g * clip)
        v = 0.95 * v + 0.05 * (g * clip) ** 2
        p = p - rate * (m / (1 - 0.9 ** t) / (numpy.sqrt(v / (1 - 0.95 ** t)) + 1e-8) + 0.1 * p)
    for a, b in zip(mine, (p, m, v)):
        numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_against_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    functional = torch.nn.functional

    def torch_gradients(function, inputs, gradient):
        leaves = [torch.tensor(x, dtype=torch.float32, requires_grad=True) for x in inputs]
        function(*leaves).backward(torch.tensor(gradient, dtype=torch.float32))
        return [x.grad.numpy() for x in leaves]

    def same(found, want):
        for a, b in zip(found, want):
            numpy.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-4, atol=2e-5)

    x, w, b, do = normal(33, 70), normal(70, seed=1), normal(70, seed=2), normal(33, 70, seed=3)
    single = [a.astype(numpy.float32) for a in (x, w, do)]
    same(load("layernorm_backward", "layernorm_backward")(*single),
         torch_gradients(lambda x, w, b: functional.layer_norm(x, (70,), w, b), [x, w, b], do))
    same([load("gelu_backward")(single[0], single[2])], torch_gradients(lambda x: functional.gelu(x, approximate="tanh"), [x], do))
    q, k, v, do = (normal(2, 3, 40, 16, seed=i) for i in range(4))
    single = [a.astype(numpy.float32) for a in (q, k, v)]
    for causal in (False, True):
        o, lse = load("attention", "attention", CAUSAL=causal)(*single)
        found = load("attention", "attention_backward", CAUSAL=causal)(*single, o, lse, do.astype(numpy.float32))
        same(found, torch_gradients(lambda *a, c=causal: functional.scaled_dot_product_attention(*a, is_causal=c), [q, k, v], do))
