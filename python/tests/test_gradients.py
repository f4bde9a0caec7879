"""The gradients of the library against finite differences in binary64; test_autograd.py compares them with torch's."""
import math
import pathlib

import numpy
import pytest

import pkc

FOLDER = pathlib.Path(pkc.__file__).parent / "share/pkc/kernels"
F64 = numpy.float64


def load(file, kernel=None, **statics):
    path = FOLDER / "train" / (file + ".pk")
    return pkc.load(path if path.exists() else FOLDER / (file + ".pk"), kernel, **statics)


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


def attention_with(seen, cap=0.0, slope=None, scale=None):
    """Attention as functions of q, k, v, sink and bias; `seen` broadcasts to [B, H, N, S]. A query that sees nothing gets 0."""
    def function(q, k, v, sink=None, bias=0.0):
        heads, n, s = q.shape[1], q.shape[2], k.shape[2]
        k, v = (numpy.repeat(a, heads // a.shape[1], axis=1) for a in (k, v))
        score = q @ k.swapaxes(2, 3) * (scale or q.shape[3] ** -0.5)
        score = cap * numpy.tanh(score / cap) if cap else score
        if slope is not None:
            score = score + slope[:, None, None] * (numpy.arange(s) - numpy.arange(n)[:, None] - (s - n))
        score = numpy.where(seen, score + bias, -numpy.inf)
        extra = numpy.full((heads,), -1e30) if sink is None else sink
        extra = numpy.broadcast_to(extra[:, None, None], score.shape[:3] + (1,))
        score = numpy.concatenate([score, extra], 3)
        return numpy.exp(score - log_sum(score))[..., :s] @ v
    return function


def gated(x, log_a, first):
    """h and the state after the last row, row by row, as one array."""
    state, rows = first[:, 0], []
    for t in range(x.shape[1]):
        state = numpy.exp(log_a[:, t]) * state + x[:, t]
        rows.append(state)
    return numpy.stack(rows + [state], 1)


def state_space(x, log_a, b, c, first):
    """y and the state after the last row, row by row, as one flat array."""
    b, c = (numpy.repeat(a, x.shape[1] // a.shape[1], axis=1) for a in (b, c))
    state, rows = first, []
    for t in range(x.shape[2]):
        state = numpy.exp(log_a[:, :, t, :, None]) * state + b[:, :, t, :, None] * x[:, :, t, None, :]
        rows.append((c[:, :, t, None, :] @ state)[:, :, 0])
    return numpy.concatenate([numpy.stack(rows, 2).ravel(), state.ravel()])


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
def test_exact_gelu(dtype, tolerance):
    x, do = 2 * normal(9, 37), normal(9, 37, seed=1)
    check(lambda x: x * numpy.vectorize(math.erfc)(-x / math.sqrt(2)) / 2, [x], do, [load("gelu_backward", EXACT=True)(x.astype(dtype), do.astype(dtype))], tolerance)


@dtypes()
def test_glu(dtype, tolerance):
    a, b, do = 2 * normal(9, 37), normal(9, 37, seed=1), normal(9, 37, seed=2)
    check(lambda a, b: gelu(a) * b, [a, b], do, load("glu_backward", ACT=2)(*(x.astype(dtype) for x in (a, b, do))), tolerance)


def test_narrow():
    """Gradients of bf16 operands, computed in f32 and rounded once: those of the same operands in f64 to half a unit."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, w, do = (a.astype(ml_dtypes.bfloat16) for a in (normal(33, 70), normal(70, seed=1), normal(33, 70, seed=2)))
    cases = [("gelu_backward", {}, (x, do)), ("gelu_backward", {"EXACT": True}, (x, do)), ("softmax_backward", {}, (abs(x) / 70, do)),
             ("rmsnorm_backward", {}, (x, w, do)), ("layernorm_backward", {}, (x, w, do))]
    for name, statics, given in cases:
        kernel = load(name, name, **statics)
        found, want = kernel(*given), kernel(*(a.astype(F64) for a in given))
        for a, b in zip(*((r,) if isinstance(r, numpy.ndarray) else r for r in (found, want))):
            assert a.dtype == x.dtype
            numpy.testing.assert_allclose(a.astype(F64), b, rtol=1.02 * 2.0 ** -8, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("ignored", [-100, 3])
def test_cross_entropy_of_narrow_logits(ignored):
    """Logits in bf16, targets in i64: as torch has them."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, dloss = (3 * normal(20, 53)).astype(ml_dtypes.bfloat16), normal(20, 1, seed=1).astype(numpy.float32)
    target = numpy.random.default_rng(5).integers(0, 7, (20, 1))
    target[4] = -100
    counts = (target >= 0) & (target != ignored)
    loss, lse = load("cross_entropy", "cross_entropy", IGNORE=ignored)(x, target)
    wide = x.astype(F64)
    want = numpy.where(counts, cross_entropy(wide, target), 0)
    assert loss.dtype == lse.dtype == numpy.float32 and (want == 0).sum() == (~counts).sum() > (1 if ignored == 3 else 0)
    numpy.testing.assert_allclose(loss, want, rtol=1e-5, atol=1e-5)
    dx = load("cross_entropy", "cross_entropy_backward", IGNORE=ignored)(x, target, lse, dloss)
    slope = (numpy.exp(wide - log_sum(wide)) - (numpy.arange(53) == target)) * numpy.where(counts, dloss, 0)
    numpy.testing.assert_allclose(dx.astype(F64), slope, rtol=2.0 ** -7, atol=1e-5)


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
def test_norm_residual(dtype, tolerance):
    x, r, w, b, do, dsum = normal(33, 70), normal(33, 70, seed=1), normal(70, seed=2), normal(70, seed=3), normal(33, 70, seed=4), normal(33, 70, seed=5)
    given = [a.astype(dtype) for a in (x + r, w, do, dsum)]
    both = numpy.concatenate([do, dsum])
    for name, function, inputs in (("rmsnorm_residual_backward", rmsnorm, [x, w]), ("layernorm_residual_backward", layernorm, [x, w, b])):
        def made(x, *scales, function=function):
            return numpy.concatenate([function(x + r, *scales), x + r])
        check(made, inputs, both, load("norm_residual_backward", name)(*given, threads=2), tolerance)


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


def visible(n, s, causal=False, window=0):
    row, col = numpy.arange(n)[:, None] + s - n, numpy.arange(s)
    seen = numpy.ones((n, s), bool)
    if causal:
        seen &= col <= row
    if window:
        seen &= (row - col < window) & (causal | (col - row < window))
    return seen


@pytest.mark.parametrize("options", [
    {"CAP": 1.5}, {"CAUSAL": True, "WINDOW": 21}, {"WINDOW": 7, "SINKS": True}, {"CAUSAL": True, "ALIBI": True, "SINKS": True},
    {"CAUSAL": True, "WINDOW": 40, "CAP": 2.0, "ALIBI": True, "SINKS": True}, {"CAUSAL": True, "DV": 5, "SCALE": 0.3}])
@pytest.mark.parametrize("heads, groups, n, s", [(2, 2, 53, 53), (4, 2, 20, 70), (2, 1, 50, 30)])
def test_attention_options(heads, groups, n, s, options):
    width = options.get("DV", 8)
    inputs = [normal(2, heads, n, 8), normal(2, groups, s, 8, seed=1), normal(2, groups, s, width, seed=2), normal(heads, seed=3)]
    slope, do = numpy.abs(normal(heads, seed=4)) / 4, normal(2, heads, n, width, seed=5)
    seen = visible(n, s, options.get("CAUSAL", False), options.get("WINDOW", 0))
    reference = attention_with(seen, options.get("CAP", 0.0), slope if "ALIBI" in options else None, options.get("SCALE"))
    def function(q, k, v, sink):
        return reference(q, k, v, sink if "SINKS" in options else None)
    q, k, v, sink, slope, do = (a.astype(numpy.float32) for a in (*inputs, slope, do))
    o, lse = load("attention/options", "attention", BQ=16, BK=16, **options)(q, k, v, slope, sink)
    numpy.testing.assert_allclose(o, function(*inputs), rtol=1e-4, atol=1e-5)
    backward = load("attention/options", "attention_backward", BQ=16, BK=16, **options)
    found = backward(q, k, v, slope, sink, o, lse, do, threads=2)
    check(function, inputs, do, found, 5e-5)
    again = backward(q, k, v, slope, sink, o, lse, do)
    assert all((a == b).all() for a, b in zip(found, again))


def selected(lists, n, s, bq, bk, causal):
    """How often each query of each group sees each key."""
    listed = lists[:, :, numpy.arange(n) // bq]  # [B, G, N, K]
    times = (listed[..., None] == numpy.arange(s) // bk).sum(3)
    return times * visible(n, s, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows, n, s", [(1, 37, 37), (3, 20, 45)])
def test_sparse(rows, n, s, causal):
    """Blocks that are listed twice, and numbers of no block; gradients have the same bits with any number of threads."""
    batch, groups, d, width, bq, bk = 2, 2, 8, 5, 8, 8
    inputs = [normal(batch, groups * rows, n, d), normal(batch, groups, s, d, seed=1), normal(batch, groups, s, width, seed=2)]
    lists = numpy.random.default_rng(3).integers(-1, 6, (batch, groups, -(-n // bq), 4)).astype(numpy.int32)
    times = selected(lists, n, s, bq, bk, causal).repeat(rows, 1)
    do, reference = normal(batch, groups * rows, n, width, seed=4), attention_with(times > 0, scale=0.3)
    bias = numpy.log(numpy.maximum(times, 1))
    def function(q, k, v):
        return reference(q, k, v, bias=bias)
    def by_position(a):
        return a.reshape(batch, groups, rows, n, -1).transpose(0, 1, 3, 2, 4)
    q, k, v, do32 = (a.astype(numpy.float32) for a in (*inputs, do))
    settings = dict(CAUSAL=causal, BQ=bq, BK=bk, SCALE=0.3, R=rows, D=d, DV=width)
    o, lse = load("attention/sparse", "sparse", **settings)(lists, by_position(q), k, v)
    numpy.testing.assert_allclose(o, by_position(function(*inputs)), rtol=1e-4, atol=1e-5)
    backward = load("attention/sparse", "sparse_backward", **settings)
    found = backward(lists, by_position(q), k, v, o, lse, by_position(do32), threads=2)
    check(function, inputs, do, [found[0].transpose(0, 1, 3, 2, 4), *found[1:]], 5e-5)
    again = backward(lists, by_position(q), k, v, o, lse, by_position(do32))
    assert all((a == b).all() for a, b in zip(found, again))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_biases_and_segments(causal):
    batch, heads, groups, n, s = 3, 4, 2, 37, 45
    inputs = [normal(batch, heads, n, 8), normal(batch, groups, s, 8, seed=1), normal(batch, groups, s, 8, seed=2), normal(heads, n, s, seed=3)]
    do, draw = normal(batch, heads, n, 8, seed=4), numpy.random.default_rng(6)
    qs, ks = (draw.integers(0, 3, shape).astype(numpy.int32) for shape in ((batch, n, 1), (batch, 1, s)))
    seen = (qs == ks)[:, None] & (numpy.tri(n, s, dtype=bool) | (not causal))
    def function(q, k, v, bias):
        return attention_with(seen)(q, k, v, None, bias)
    single = [a.astype(numpy.float32) for a in inputs]
    o, lse = load("attention/biased", "biased", CAUSAL=causal, BQ=16, BK=16)(*single, qs, ks)
    numpy.testing.assert_allclose(o, function(*inputs), rtol=1e-4, atol=1e-5)
    backward = load("attention/biased", "biased_backward", CAUSAL=causal, BQ=16, BK=16)
    found = backward(*single, qs, ks, o, lse, do.astype(numpy.float32), threads=2)
    check(function, inputs, do, found, 5e-5)
    again = backward(*single, qs, ks, o, lse, do.astype(numpy.float32))
    assert all((a == b).all() for a, b in zip(found, again))


@dtypes()
@pytest.mark.parametrize("rows", [1, 9, 64])
def test_gated(rows, dtype, tolerance):
    inputs = [normal(2, rows, 20), -numpy.abs(normal(2, rows, 20, seed=1)), normal(2, 1, 20, seed=2)]
    do = normal(2, rows + 1, 20, seed=3)
    x, log_a, first, dh, dlast = (a.astype(dtype) for a in (*inputs, do[:, :-1], do[:, -1:]))
    h, _ = load("sequence/gated", "gated", BN=16)(x, log_a, first)
    found = load("sequence/gated", "gated_backward", BN=16)(log_a, first, h, dh, dlast, threads=2)
    check(gated, inputs, do, found, tolerance)


@pytest.mark.parametrize("rows", [1, 16, 41])
def test_state_space(rows):
    batch, heads, groups, p, s = 2, 4, 2, 8, 5
    inputs = [normal(batch, heads, rows, p), -numpy.abs(normal(batch, heads, rows, 1, seed=1)), normal(batch, groups, rows, s, seed=2),
              normal(batch, groups, rows, s, seed=3), normal(batch, heads, s, p, seed=4)]
    dy, dlast = normal(batch, heads, rows, p, seed=5), normal(batch, heads, s, p, seed=6)
    single = [a.astype(numpy.float32) for a in (*inputs, dy, dlast)]
    found = load("sequence/ssd", "ssd_backward", BN=16)(*single, threads=2)
    check(state_space, inputs, numpy.concatenate([dy.ravel(), dlast.ravel()]), found, 5e-5)


SCAN_OPTIONS = [{}, {"SOFTPLUS": False}, {"GATE": False, "SKIP": False}]


def scan_inputs(rows, options):
    """x, delta, a, b, c, d, z, bias and the state before the first row; then the gradients of y and of the state after the last."""
    batch, c, s = 2, 20, 5
    positive = (lambda v: v) if options.get("SOFTPLUS", True) else numpy.abs
    inputs = [normal(batch, rows, c), positive(normal(batch, rows, c, seed=1)), -numpy.exp(normal(s, c, seed=2)), normal(batch, rows, s, seed=3),
              normal(batch, rows, s, seed=4), normal(c, seed=5), normal(batch, rows, c, seed=6), positive(normal(c, seed=7)), normal(batch, s, c, seed=8)]
    return inputs, normal(batch, rows, c, seed=9), normal(batch, s, c, seed=10)


def selective_scan(options):
    """y and the state after the last row, in one array."""
    def function(x, delta, a, b, c, d, z, bias, state):
        made = []
        for t in range(x.shape[1]):
            step = delta[:, t] + bias
            step = numpy.logaddexp(0, step) if options.get("SOFTPLUS", True) else step
            state = numpy.exp(step[:, None] * a) * state + b[:, t, :, None] * (step * x[:, t])[:, None]
            y = (c[:, t, :, None] * state).sum(1) + (d * x[:, t] if options.get("SKIP", True) else 0)
            made.append(y * z[:, t] / (1 + numpy.exp(-z[:, t])) if options.get("GATE", True) else y)
        return numpy.concatenate([numpy.stack(made, 1).ravel(), state.ravel()])
    return function


@pytest.mark.parametrize("options", SCAN_OPTIONS, ids=lambda o: "-".join(o) or "all")
@pytest.mark.parametrize("rows", [1, 16, 41])
def test_selective_scan(rows, options):
    inputs, dy, dlast = scan_inputs(rows, options)
    single = [a.astype(numpy.float32) for a in (*inputs, dy, dlast)]
    backward = load("sequence/selective", "selective_scan_backward", BN=16, BC=16, **options)
    found = backward(*single, threads=2)
    check(selective_scan(options), inputs, numpy.concatenate([dy.ravel(), dlast.ravel()]), found, 5e-5)
    assert all((a == b).all() for a, b in zip(found, backward(*single)))


def delta_inputs(rows, same):
    """q, k, v, log_a, beta and the state before the first row; then the gradients of o and of the state after the last."""
    batch, heads, groups, k, v = 2, 4, 2, 8, 5
    key = normal(batch, groups, rows, k, seed=1) / (1 if same else 4)
    inputs = [normal(batch, groups, rows, k), key, normal(batch, heads, rows, v, seed=2), -numpy.abs(normal(batch, heads, rows, 1, seed=3)) / 4,
              1 / (1 + numpy.exp(normal(batch, heads, rows, 1, seed=4))), normal(batch, heads, k, v, seed=5)]
    return inputs, normal(batch, heads, rows, v, seed=6), normal(batch, heads, k, v, seed=7)


def delta_rule(same, scale):
    """o and the state after the last row, in one array."""
    def function(q, k, v, log_a, beta, state):
        norm = (lambda x: x / numpy.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)) if same else (lambda x: x)
        q, k = (numpy.repeat(norm(a), v.shape[1] // a.shape[1], 1) for a in (q, k))
        made = []
        for t in range(q.shape[2]):
            state = numpy.exp(log_a[:, :, t, :, None]) * state
            w = beta[:, :, t] * (v[:, :, t] - numpy.einsum("bhk,bhkv->bhv", k[:, :, t], state))
            state = state + k[:, :, t, :, None] * w[:, :, None]
            made.append(scale * numpy.einsum("bhk,bhkv->bhv", q[:, :, t], state))
        return numpy.concatenate([numpy.stack(made, 2).ravel(), state.ravel()])
    return function


@pytest.mark.parametrize("same", [True, False], ids=["unit", "as given"])
@pytest.mark.parametrize("rows", [1, 16, 41])
def test_delta_rule(rows, same):
    inputs, do, dlast = delta_inputs(rows, same)
    single = [a.astype(numpy.float32) for a in (*inputs, do, dlast)]
    backward = load("sequence/delta", "delta_rule_backward", BN=16, SUB=4, UNIT=same, SCALE=0.5)
    found = backward(*single, threads=2)
    check(delta_rule(same, 0.5), inputs, numpy.concatenate([do.ravel(), dlast.ravel()]), found, 5e-5)
    assert all((a == b).all() for a, b in zip(found, backward(*single)))


def mixture(x, r, w1, w2, expert, place):
    """Experts that are chosen beforehand; the choice has no gradient."""
    logits = x @ r
    best = numpy.take_along_axis(logits, expert, 1)
    share = numpy.exp(best - log_sum(best))
    o = numpy.zeros_like(x)
    for m, k in numpy.argwhere(place >= 0):
        u = x[m] @ w1[expert[m, k]]
        o[m] += share[m, k] * ((u / (1 + numpy.exp(-u))) @ w2[expert[m, k]])
    return o


@pytest.mark.parametrize("capacity", [30, 7])
def test_mixture_of_experts(capacity):
    rows, features, experts, inner = 29, 12, 4, 20
    inputs = [normal(rows, features), normal(features, experts, seed=1), normal(experts, features, inner, seed=2) / 4,
              normal(experts, inner, features, seed=3) / 4]
    do, settings = normal(rows, features, seed=4), dict(K=2, CAP=capacity, BM=8, BN=32, BK=32)
    expert, place = numpy.argsort(-(inputs[0] @ inputs[1]), 1)[:, :2], numpy.zeros((rows, 2), int)
    used = numpy.zeros(experts, int)
    for m, k in numpy.ndindex(rows, 2):
        place[m, k] = used[expert[m, k]] if used[expert[m, k]] < capacity else -1
        used[expert[m, k]] += 1
    assert (place < 0).any() == (capacity == 7)
    def function(*given):
        return mixture(*given, expert, place)
    single = [a.astype(numpy.float32) for a in inputs]
    numpy.testing.assert_allclose(load("moe/layer", "moe", **settings)(*single, threads=2), function(*inputs), rtol=1e-4, atol=1e-5)
    backward = load("moe/layer", "moe_backward", **settings)
    found = backward(*single, do.astype(numpy.float32), threads=2)
    check(function, inputs, do, found, 5e-5)
    again = backward(*single, do.astype(numpy.float32))
    assert all((a == b).all() for a, b in zip(found, again))


def test_softmax():
    x, do = normal(9, 37), normal(9, 37, seed=1)
    def softmax(x):
        return numpy.exp(x - log_sum(x))
    found = load("softmax_backward")(softmax(x), do, threads=2)
    check(softmax, [x], do, [found], 1e-7)


def silu(x):
    return x / (1 + numpy.exp(-x))


def windows(x, kh, kw, before, behind):
    """[..., H, W, KH, KW]: what each place sees of images [N, H, W, C], which have zeros around them."""
    padded = numpy.pad(x.transpose(0, 3, 1, 2), ((0, 0), (0, 0), before, behind))
    return numpy.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (2, 3))


def test_swiglu():
    inputs, do = [normal(37, 70), normal(70, 50, seed=1) / 4, normal(70, 50, seed=2) / 4], normal(37, 50, seed=3)
    single = [a.astype(numpy.float32) for a in (*inputs, do)]
    backward = load("swiglu_backward", "swiglu_backward", BM=16, BN=32, BK=32)
    found = backward(*single, threads=2)
    check(lambda x, gate, up: silu(x @ gate) * (x @ up), inputs, do, found, 2e-5)
    assert all((a == b).all() for a, b in zip(found, backward(*single)))


def weights(kind, k, n):
    """(arguments of a kernel of kernels/matmul/weights.pk, the matrix [k, n] that they stand for)"""
    random = numpy.random.default_rng(k * n)
    if kind == "i8_columns":
        w, scale = random.integers(-128, 128, (k, n)).astype("i1"), random.random(n, "f4") / 64
        return (w, scale), w * F64(scale)
    if kind == "i4_groups":
        w, scale = random.integers(-8, 8, (k, n)).astype("i1"), random.random((k // 32, n), "f4") / 4
        return (w.astype(pytest.importorskip("ml_dtypes").int4), scale), w * numpy.repeat(F64(scale), 32, 0)
    d = (random.random((n, k // 32, 1)) / 64).astype("f2")
    if kind == "q8_0":
        w = random.integers(-128, 128, (n, k // 32, 32)).astype("i1")
        return (w, d), (w * F64(d)).reshape(n, k).T
    w = random.integers(0, 256, (n, k // 32, 16)).astype("u1")
    return (w, d), ((numpy.concatenate([w & 15, w >> 4], 2) - 8.0) * F64(d)).reshape(n, k).T


@pytest.mark.parametrize("kind", ["i8_columns", "i4_groups", "q8_0", "q4_0"])
def test_weights_in_few_bits(kind):
    """The product is the one of the matrix, and dx that product's gradient."""
    x, do = normal(9, 96), normal(9, 37, seed=1)
    given, matrix = weights(kind, 96, 37)
    blocks = dict(BM=16, BN=16, **{"BQ": 2} if kind[0] == "q" else {"BK": 32})
    product = load("matmul/weights", kind, **blocks)(x.astype("f4"), *given)
    numpy.testing.assert_allclose(product, x @ matrix, rtol=0, atol=2e-5 * numpy.abs(x @ matrix).max())
    check(lambda x: x @ matrix, [x], do, [load("weights_backward", kind + "_backward", **blocks)(do.astype("f4"), *given)], 2e-5)


def block_scaled(kind, k, n):
    """Weights of a product, and the matrix that it makes of the unit matrix."""
    ml_dtypes, random = pytest.importorskip("ml_dtypes"), numpy.random.default_rng(7)
    if kind == "fp8_blocks":
        w, scale = normal(n, k).astype(ml_dtypes.float8_e4m3fn), numpy.abs(normal(-(-n // 128), -(-k // 128))).astype("f4")
        weights, given = (w, scale), (numpy.zeros((k, -(-k // 128)), "f4"), w, scale)
    elif kind == "fp4":
        w, scale = random.integers(0, 256, (n, k // 2)).astype("u1"), numpy.exp2(random.integers(-3, 4, (n, k // 16))).astype("f4")
        weights = given = (w, scale.astype(ml_dtypes.float8_e4m3fn), numpy.array([0.75], "f4"))
    else:
        size, halves = (144, (0, 2)) if kind == "q4_k" else (210, (208,))
        w = random.integers(0, 256, (n, k // 256, size)).astype("u1")
        for at in halves:
            w[:, :, at:at + 2] = normal(n, k // 256, 1).astype("f2").view("u1")
        weights = given = (w,)
    settings = dict(GROUP=16) if kind == "fp4" else {}
    matrix = load("matmul/block_scaled", kind, **settings)(numpy.eye(k, dtype="f4"), *given)
    return weights, settings, matrix.astype(F64)


@pytest.mark.parametrize("kernel", ["fp8_blocks_backward", "fp4_backward", "q4_k_backward", "q6_k_backward"])
def test_block_scaled(kernel):
    """dx is the gradient of the product, which test_library.py compares with the formats."""
    x, do = normal(9, 512), normal(9, 37, seed=1)
    given, settings, matrix = block_scaled(kernel.replace("_backward", ""), 512, 37)
    backward = load("matmul/block_scaled", kernel, BM=16, **settings)
    check(lambda x: x @ matrix, [x], do, [backward(do.astype("f4"), *given, threads=2)], 2e-5)


@dtypes()
def test_conv1d(dtype, tolerance):
    inputs, do = [normal(3, 41, 20), normal(4, 20, seed=1), normal(20, seed=2)], normal(3, 41, 20, seed=3)
    def function(x, w, bias):
        return silu(numpy.einsum("ncthk,kc->ntc", windows(x[:, :, None], 4, 1, (3, 0), (0, 0))[:, :, :, :, :, 0], w) + bias)
    found = load("conv1d_backward", "conv1d_backward", SILU=True, BN=16, BC=16)(*(a.astype(dtype) for a in (*inputs, do)), threads=2)
    check(function, inputs, do, found, tolerance)


# The window, groups and options; without relu, whose derivative jumps.
CONVOLUTIONS = [
    ((3, 5), 1, {}), ((2, 4), 2, {"SH": 2, "SW": 3}), ((3, 2), 3, {"DH": 2, "DW": 3}), ((5, 3), 1, {"SH": 2, "SW": 2, "DH": 2}), ((1, 1), 1, {"SH": 2, "SW": 2}),
    ((2, 2), 1, {"SH": 2, "SW": 2, "PT": 0, "PB": 0, "PL": 0, "PR": 0}), ((1, 3), 6, {"PT": 2, "PB": 1, "PL": 0, "PR": 4, "SH": 2})]


def padding(window, options):
    """Of rows and columns: before and after the image."""
    (kh, kw), dh, dw = window, options.get("DH", 1), options.get("DW", 1)
    top, left = options.get("PT", dh * (kh - 1) // 2), options.get("PL", dw * (kw - 1) // 2)
    return (top, options.get("PB", dh * (kh - 1) - top)), (left, options.get("PR", dw * (kw - 1) - left))


def convolved(window, options):
    """Of x, w [KH, KW, C / groups, F] and bias."""
    dh, dw, sh, sw = (options.get(name, 1) for name in ("DH", "DW", "SH", "SW"))

    def function(x, w, bias):
        wide, group = numpy.pad(x, ((0, 0), *padding(window, options), (0, 0))), w.shape[2]
        rows, columns, total = wide.shape[1] - dh * (window[0] - 1), wide.shape[2] - dw * (window[1] - 1), bias
        for a, b in numpy.ndindex(window):
            moved = wide[:, a * dh:a * dh + rows:sh, b * dw:b * dw + columns:sw]
            moved = moved.reshape(*moved.shape[:3], -1, group)
            total = total + numpy.einsum("nhwgc,cgf->nhwgf", moved, w[a, b].reshape(group, moved.shape[3], -1)).reshape(*moved.shape[:3], -1)
        return total
    return function


@pytest.mark.parametrize("window, groups, options", CONVOLUTIONS)
@pytest.mark.parametrize("program", ["conv2d_backward", "depthwise_backward"])
def test_conv2d(program, window, groups, options):
    deep = program == "depthwise_backward"
    inputs = [normal(2, 11, 9, 6), normal(*window, 1, 6, seed=1) if deep else normal(*window, 6 // groups, 12, seed=1), normal(6 if deep else 12, seed=2)]
    function = convolved(window, options)
    do = normal(*function(*inputs).shape, seed=3)
    x, w, _, do32 = (a.astype(numpy.float32) for a in (*inputs, do))
    given = w[:, :, 0].copy() if deep else w
    found = load("conv2d_backward", program, BH=2, BW=4, **options)(x, given, do32, do32, threads=2)
    check(function, inputs, do, [found[0], found[1].reshape(w.shape), found[2]], 2e-5)


def test_patches():
    inputs, do = [normal(2, 6, 8, 3), normal(3, 2, 3, 7, seed=1), normal(7, seed=2)], normal(2, 2, 4, 7, seed=3)
    x, w, _, do32 = (a.astype(numpy.float32) for a in (*inputs, do))
    found = load("conv2d_backward", "patches_backward", BH=2, BW=3)(x, w, do32, threads=2)
    check(convolved((3, 2), {"SH": 3, "SW": 2, "PT": 0, "PB": 0, "PL": 0, "PR": 0}), inputs, do, found, 2e-5)


@dtypes()
@pytest.mark.parametrize("mean", [False, True])
def test_pool(mean, dtype, tolerance):
    x, do = normal(2, 11, 9, 6), normal(2, 5, 4, 6, seed=1)
    def function(x):
        parts = x[:, :10, :8].reshape(2, 5, 2, 4, 2, 6)
        return parts.mean((2, 4)) if mean else parts.max((2, 4))
    found = load("pool_backward", "pool_backward", W=9, MEAN=mean, BH=2)(x.astype(dtype), do.astype(dtype), threads=2)
    check(function, [x], do, [found], tolerance)


@dtypes()
def test_global_mean(dtype, tolerance):
    x, do = normal(3, 7, 5, 6), normal(3, 6, seed=1)
    found = numpy.zeros(x.shape, dtype)
    load("pool_backward", "global_mean_backward")(do.astype(dtype), out=found, threads=2)
    check(lambda x: x.mean((1, 2)), [x], do, [found], tolerance)


def test_linear():
    """Of x the product with the transposed weights, of w that with the transposed rows."""
    inputs, do = [normal(37, 70), normal(70, 50, seed=1)], normal(37, 50, seed=2)
    x, w, do32 = (a.astype(numpy.float32) for a in (*inputs, do))
    none = numpy.zeros(70, numpy.float32), numpy.zeros(70, numpy.float32), numpy.zeros((37, 70), numpy.float32)
    dx = load("matmul/linear", "linear_transposed", BM=16, BN=32, BK=32)(do32, w, *none, threads=2)
    dw = load("matmul/linear", "linear_weights", BM=16, BN=32, BK=32)(x, do32, threads=2)
    check(lambda x, w: x @ w, inputs, do, [dx, dw], 2e-5)


def test_dropout():
    """The gradient is the same dropout."""
    x, do, seeds = normal(33, 70), normal(33, 70, seed=1), (numpy.int32(7), numpy.int32(3))
    drop = load("dropout", T="f64")
    check(lambda x: drop(x, *seeds), [x], do, [drop(do, *seeds, threads=2)], 1e-7)


def test_rope():
    """The gradient is the rotation back."""
    x, do = normal(2, 9, 3, 16), normal(2, 9, 3, 16, seed=1)
    position = numpy.random.default_rng(5).integers(0, 500, (2, 9)).astype(numpy.int32)
    turn = numpy.exp(1j * position[:, :, None, None] * 10000.0 ** (-numpy.arange(8) / 8))
    def rope(x):
        z = (x[..., :8] + 1j * x[..., 8:]) * turn
        return numpy.concatenate([z.real, z.imag], 3)
    found = load("rope", "rope", INVERSE=True)(do.astype(numpy.float32), position)
    check(rope, [x], do, [found], 1e-4)
    def scaled(x):
        z = 1.3 * (x[..., 0:12:2] + 1j * x[..., 1:12:2]) * numpy.exp(1j * position[:, None, :, None] * 10000.0 ** (-numpy.arange(6) / 6))
        return numpy.concatenate([numpy.stack([z.real, z.imag], 4).reshape(*x.shape[:3], 12), x[..., 12:]], 3)
    x, do = normal(2, 3, 9, 16), normal(2, 3, 9, 16, seed=1)
    found = load("rope", "rope_heads", INVERSE=True, INTERLEAVED=True, ROT=12, ATTENTION=1.3)(do.astype(numpy.float32), position)
    check(scaled, [x], do, [found], 1e-4)


def test_embedding():
    ids = numpy.random.default_rng(5).integers(0, 11, 200).astype(numpy.int32)
    do = normal(200, 37)
    found = load("embedding_backward")(ids, do, V=11, threads=2)
    check(lambda table: table[ids], [normal(11, 37)], do, [found], 1e-7)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    narrow = do.astype(ml_dtypes.bfloat16)
    found = load("embedding_backward")(ids.astype(numpy.int64), narrow, V=11, threads=2)
    assert found.dtype == numpy.float32
    check(lambda table: table[ids], [normal(11, 37)], narrow.astype(F64), [found], 1e-6)


def test_adamw_narrow():
    """One step from bf16 parameters: the means are f32, and the parameters are rounded once."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    p, m, v = normal(7, 30).astype(ml_dtypes.bfloat16), normal(7, 30, seed=1).astype(numpy.float32), numpy.abs(normal(7, 30, seed=2)).astype(numpy.float32)
    for g in (normal(7, 30, seed=3).astype(ml_dtypes.bfloat16), normal(7, 30, seed=3).astype(numpy.float32)):
        found = load("adamw")(p.copy(), m.copy(), v.copy(), g, numpy.array([0.01, 2.0, 3.0, 0.5, 0.1], numpy.float32))
        clipped, wide = g.astype(F64) * 0.5, p.astype(F64)
        mean, square = 0.9 * m + 0.1 * clipped, 0.95 * v + 0.05 * clipped ** 2
        want = wide - 0.01 * (mean * 2 / (numpy.sqrt(square * 3) + 1e-8) + 0.1 * wide)
        assert [a.dtype for a in found] == [p.dtype, m.dtype, v.dtype]
        numpy.testing.assert_allclose(found[1], mean, rtol=1e-5, atol=1e-6)
        numpy.testing.assert_allclose(found[2], square, rtol=1e-5, atol=1e-6)
        numpy.testing.assert_allclose(found[0].astype(F64), want, rtol=2 ** -8, atol=1e-6)  # half an ulp is 2^-9


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
