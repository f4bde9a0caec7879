"""The gradients of the library's kernels against torch's autograd, in binary64, of the same functions written in torch."""
import numpy
import pytest

from test_gradients import (
    CONVOLUTIONS, SCAN_OPTIONS, block_scaled, delta_inputs, load, normal, padding, scan_inputs, selected, visible, weights)

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional


def single(*arrays):
    return [a.astype(numpy.float32) for a in arrays]


def compare(found, function, inputs, gradient, tolerance=5e-5):
    """`found`: the gradients of the inputs, where those of function's results are `gradient`."""
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in inputs]
    results = function(*leaves)
    results, gradient = ((results,), (gradient,)) if isinstance(results, torch.Tensor) else (results, gradient)
    torch.autograd.backward(results, [torch.tensor(g, dtype=torch.float64).reshape(r.shape) for g, r in zip(gradient, results)])
    for i, (got, leaf) in enumerate(zip(found, leaves)):
        want = leaf.grad.numpy()
        numpy.testing.assert_allclose(got.reshape(want.shape), want, rtol=0, atol=tolerance * max(1e-3, numpy.abs(want).max()), err_msg=f"input {i}")


def attention(seen, cap=0.0, slope=None, sinks=False, scale=None):
    """Of q, k, v, sink and bias; a query that sees nothing gets 0."""
    def function(q, k, v, sink=None, bias=0.0):
        heads, n, s = q.shape[1], q.shape[2], k.shape[2]
        k, v = (a.repeat_interleave(heads // a.shape[1], 1) for a in (k, v))
        score = q @ k.mT * (scale or q.shape[3] ** -0.5)
        score = cap * torch.tanh(score / cap) if cap else score
        if slope is not None:
            score = score + torch.tensor(slope)[:, None, None] * (torch.arange(s) - torch.arange(n)[:, None] - (s - n))
        score = (score + bias).masked_fill(~torch.tensor(seen), -torch.inf)
        extra = sink if sinks else torch.full((heads,), -1e30, dtype=torch.float64)
        score = torch.cat([score, extra[:, None, None].expand(*score.shape[:3], 1)], 3)
        return torch.softmax(score, 3)[..., :s] @ v
    return function


@pytest.mark.parametrize("options", [
    {"CAP": 1.5}, {"CAUSAL": True, "WINDOW": 21}, {"WINDOW": 7, "SINKS": True}, {"CAUSAL": True, "ALIBI": True, "SINKS": True},
    {"CAUSAL": True, "DV": 5, "SCALE": 0.3}])
@pytest.mark.parametrize("heads, groups, n, s", [(4, 2, 20, 70), (2, 1, 50, 30)])
def test_attention_options(heads, groups, n, s, options):
    width = options.get("DV", 8)
    inputs = [normal(2, heads, n, 8), normal(2, groups, s, 8, seed=1), normal(2, groups, s, width, seed=2), normal(heads, seed=3)]
    slope, do = numpy.abs(normal(heads, seed=4)) / 4, normal(2, heads, n, width, seed=5)
    sinks = "SINKS" in options
    function = attention(visible(n, s, options.get("CAUSAL", False), options.get("WINDOW", 0)), options.get("CAP", 0.0),
                         slope.astype(numpy.float32).astype(float) if "ALIBI" in options else None, sinks, options.get("SCALE"))
    q, k, v, sink, slope, do32 = single(*inputs, slope, do)
    settings = dict(BQ=16, BK=16, **options)
    o, lse = load("attention/options", "attention", **settings)(q, k, v, slope, sink)
    found = load("attention/options", "attention_backward", **settings)(q, k, v, slope, sink, o, lse, do32)
    compare(found[:3 + sinks], function, inputs[:3 + sinks], do)


@pytest.mark.parametrize("causal", [False, True])
def test_sparse(causal):
    batch, heads, n, s, d, width = 2, 4, 37, 45, 8, 5
    inputs = [normal(batch, heads, n, d), normal(batch, heads, s, d, seed=1), normal(batch, heads, s, width, seed=2)]
    lists = numpy.random.default_rng(3).integers(-1, 6, (batch, heads, 5, 4)).astype(numpy.int32)
    times, do = selected(lists, n, s, 8, 8, causal), normal(batch, heads, n, width, seed=4)
    function, bias = attention(times > 0), torch.tensor(numpy.log(numpy.maximum(times, 1)))
    q, k, v, do32 = single(*inputs, do)
    q, do32 = q[:, :, :, None], do32[:, :, :, None]
    settings = dict(CAUSAL=causal, BQ=8, BK=8, D=d, DV=width)
    o, lse = load("attention/sparse", "sparse", **settings)(lists, q, k, v)
    found = load("attention/sparse", "sparse_backward", **settings)(lists, q, k, v, o, lse, do32)
    compare(found, lambda q, k, v: function(q, k, v, None, bias), inputs, do)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_biases_and_segments(causal):
    batch, heads, groups, n, s = 3, 4, 2, 37, 45
    inputs = [normal(batch, heads, n, 8), normal(batch, groups, s, 8, seed=1), normal(batch, groups, s, 8, seed=2), normal(heads, n, s, seed=3)]
    do, draw = normal(batch, heads, n, 8, seed=4), numpy.random.default_rng(6)
    qs, ks = (draw.integers(0, 3, shape).astype(numpy.int32) for shape in ((batch, n, 1), (batch, 1, s)))
    seen = (qs == ks)[:, None] & (numpy.tri(n, s, dtype=bool) | (not causal))
    function, given = attention(seen), single(*inputs)
    o, lse = load("attention/biased", "biased", CAUSAL=causal, BQ=16, BK=16)(*given, qs, ks)
    found = load("attention/biased", "biased_backward", CAUSAL=causal, BQ=16, BK=16)(*given, qs, ks, o, lse, *single(do))
    compare(found, lambda q, k, v, bias: function(q, k, v, None, bias), inputs, do)


def test_gated():
    inputs = [normal(2, 33, 20), -numpy.abs(normal(2, 33, 20, seed=1)), normal(2, 1, 20, seed=2)]
    dh, dlast = normal(2, 33, 20, seed=3), normal(2, 1, 20, seed=4)
    x, log_a, first = single(*inputs)

    def function(x, log_a, first):
        state, rows = first[:, 0], []
        for t in range(x.shape[1]):
            state = torch.exp(log_a[:, t]) * state + x[:, t]
            rows.append(state)
        return torch.stack(rows, 1), state[:, None]
    h, _ = load("sequence/gated", "gated", BN=16)(x, log_a, first)
    compare(load("sequence/gated", "gated_backward", BN=16)(log_a, first, h, *single(dh, dlast)), function, inputs, (dh, dlast))


def test_state_space():
    batch, heads, groups, rows, p, s = 2, 4, 2, 41, 8, 5
    inputs = [normal(batch, heads, rows, p), -numpy.abs(normal(batch, heads, rows, 1, seed=1)), normal(batch, groups, rows, s, seed=2),
              normal(batch, groups, rows, s, seed=3), normal(batch, heads, s, p, seed=4)]
    dy, dlast = normal(batch, heads, rows, p, seed=5), normal(batch, heads, s, p, seed=6)

    def function(x, log_a, b, c, state):
        b, c, made = b.repeat_interleave(2, 1), c.repeat_interleave(2, 1), []
        for t in range(rows):
            state = torch.exp(log_a[:, :, t, :, None]) * state + b[:, :, t, :, None] * x[:, :, t, None, :]
            made.append(torch.einsum("bhs,bhsp->bhp", c[:, :, t], state))
        return torch.stack(made, 2), state
    compare(load("sequence/ssd", "ssd_backward", BN=16)(*single(*inputs, dy, dlast)), function, inputs, (dy, dlast))


@pytest.mark.parametrize("options", SCAN_OPTIONS, ids=lambda o: "-".join(o) or "all")
def test_selective_scan(options):
    inputs, dy, dlast = scan_inputs(37, options)

    def function(x, delta, a, b, c, d, z, bias, state):
        made = []
        for t in range(x.shape[1]):
            step = F.softplus(delta[:, t] + bias) if options.get("SOFTPLUS", True) else delta[:, t] + bias
            state = torch.exp(step[:, None] * a) * state + b[:, t, :, None] * (step * x[:, t])[:, None]
            made.append((c[:, t, :, None] * state).sum(1))
        y = torch.stack(made, 1)
        y = y + d * x if options.get("SKIP", True) else y + 0 * d
        return y * F.silu(z) if options.get("GATE", True) else y + 0 * z, state
    found = load("sequence/selective", "selective_scan_backward", BN=16, BC=16, **options)(*single(*inputs, dy, dlast), threads=2)
    compare(found, function, inputs, (dy, dlast))


@pytest.mark.parametrize("same", [True, False], ids=["unit", "as given"])
def test_delta_rule(same):
    inputs, do, dlast = delta_inputs(37, same)

    def function(q, k, v, log_a, beta, state):
        norm = (lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)) if same else (lambda x: x)
        q, k, made = norm(q).repeat_interleave(2, 1), norm(k).repeat_interleave(2, 1), []
        for t in range(37):
            state = torch.exp(log_a[:, :, t, :, None]) * state
            w = beta[:, :, t] * (v[:, :, t] - torch.einsum("bhk,bhkv->bhv", k[:, :, t], state))
            state = state + k[:, :, t, :, None] * w[:, :, None]
            made.append(8 ** -0.5 * torch.einsum("bhk,bhkv->bhv", q[:, :, t], state))
        return torch.stack(made, 2), state
    found = load("sequence/delta", "delta_rule_backward", BN=16, SUB=8, UNIT=same)(*single(*inputs, do, dlast), threads=2)
    compare(found, function, inputs, (do, dlast))


@pytest.mark.parametrize("capacity", [30, 7])
def test_mixture_of_experts(capacity):
    rows, features, experts, inner = 29, 12, 4, 20
    inputs = [normal(rows, features), normal(features, experts, seed=1), normal(experts, features, inner, seed=2) / 4,
              normal(experts, inner, features, seed=3) / 4]
    do = normal(rows, features, seed=4)

    def function(x, r, w1, w2):
        share, expert = torch.softmax(x @ r, 1).topk(2, 1)
        o, used = [], [0] * experts
        for m in range(rows):
            row = torch.zeros(features, dtype=torch.float64)
            for k in range(2):
                e = int(expert[m, k])
                if used[e] < capacity:
                    row = row + share[m, k] / share[m].sum() * (F.silu(x[m] @ w1[e]) @ w2[e])
                used[e] += 1
            o.append(row)
        return torch.stack(o)
    compare(load("moe/layer", "moe_backward", K=2, CAP=capacity, BM=8, BN=32, BK=32)(*single(*inputs, do)), function, inputs, do)


def test_linear():
    """The gradients of a product are products of transposed operands."""
    x, w, do = normal(37, 70), normal(70, 50, seed=1), normal(37, 50, seed=2)
    none = numpy.zeros(70, numpy.float32), numpy.zeros(70, numpy.float32), numpy.zeros((37, 70), numpy.float32)
    dx = load("matmul/linear", "linear_transposed")(*single(do, w), *none)
    compare([dx, load("matmul/linear", "linear_weights")(*single(x, do))], lambda x, w: x @ w, [x, w], do)


def test_swiglu():
    inputs, do = [normal(37, 70), normal(70, 50, seed=1) / 4, normal(70, 50, seed=2) / 4], normal(37, 50, seed=3)
    compare(load("swiglu_backward", "swiglu_backward", BM=16, BN=32, BK=32)(*single(*inputs, do), threads=2),
            lambda x, gate, up: F.silu(x @ gate) * (x @ up), inputs, do)


@pytest.mark.parametrize("act, function", [(1, F.relu), (2, lambda v: F.gelu(v, approximate="tanh")), (4, F.gelu)])
def test_geglu(act, function):
    x, gate, up, do = normal(37, 70), normal(70, 50, seed=1) / 4, normal(70, 50, seed=2) / 4, normal(37, 50, seed=3)
    a, b = x @ gate, x @ up
    compare(load("glu_backward", ACT=act)(*single(a, b, do)), lambda a, b: function(a) * b, [a, b], do)
    if act == 2:
        compare(load("swiglu_backward", "swiglu_backward", ACT=act)(*single(x, gate, up, do)), lambda x, g, u: function(x @ g) * (x @ u), [x, gate, up], do)


@pytest.mark.parametrize("silu", [False, True])
def test_conv1d(silu):
    inputs, do = [normal(3, 41, 20), normal(4, 20, seed=1), normal(20, seed=2)], normal(3, 41, 20, seed=3)

    def function(x, w, bias):
        v = F.conv1d(F.pad(x.mT, (3, 0)), w.T[:, None], bias, groups=20).mT
        return F.silu(v) if silu else v
    compare(load("conv1d_backward", "conv1d_backward", SILU=silu, BN=16, BC=16)(*single(*inputs, do), threads=2), function, inputs, do)


def image_convolution(window, options):
    """torch's conv2d of x [N, H, W, C], w [KH, KW, C / groups, F] and bias."""
    (top, bottom), (left, right) = padding(window, options)
    stride, dilation = ((options.get(d + "H", 1), options.get(d + "W", 1)) for d in "SD")

    def function(x, w, bias):
        wide = F.pad(x.permute(0, 3, 1, 2), (left, right, top, bottom))
        v = F.conv2d(wide, w.permute(3, 2, 0, 1), bias, stride, 0, dilation, x.shape[3] // w.shape[2]).permute(0, 2, 3, 1)
        return torch.relu(v) if options.get("RELU") else v
    return function


@pytest.mark.parametrize("window, groups, options", [*CONVOLUTIONS, ((3, 5), 1, {"RELU": True}), ((3, 2), 2, {"RELU": True, "SH": 2, "DW": 2})])
@pytest.mark.parametrize("deep", [False, True])
def test_conv2d(window, groups, options, deep):
    inputs = [normal(2, 11, 9, 6), normal(*window, 1, 6, seed=1) if deep else normal(*window, 6 // groups, 12, seed=1), normal(6 if deep else 12, seed=2)]
    function, name = image_convolution(window, options), "depthwise" if deep else "conv2d"
    x, w, bias = single(*inputs)
    given = w[:, :, 0].copy() if deep else w
    o = load("images/conv2d", name, BH=2, BW=4, **options)(x, given, bias)
    do = normal(*o.shape, seed=3)
    compare(load("conv2d_backward", name + "_backward", BH=2, BW=4, **options)(x, given, o, *single(do), threads=2), function, inputs, do)


def test_patches():
    inputs, do = [normal(2, 6, 8, 3), normal(3, 2, 3, 7, seed=1), normal(7, seed=2)], normal(2, 2, 4, 7, seed=3)
    x, w, bias, do32 = single(*inputs, do)
    function = image_convolution((3, 2), {"SH": 3, "SW": 2, "PT": 0, "PB": 0, "PL": 0, "PR": 0})
    compare(load("conv2d_backward", "patches_backward", BH=2, BW=3)(x, w, do32, threads=2), function, inputs, do)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("mean", [False, True])
def test_pool(mean, size):
    x, do = normal(2, 11, 9, 6), normal(2, 11 // size, 9 // size, 6, seed=1)
    pooled = F.avg_pool2d if mean else F.max_pool2d
    found = load("pool_backward", "pool_backward", W=9, K=size, MEAN=mean, BH=2)(*single(x, do), threads=2)
    compare([found], lambda x: pooled(x.permute(0, 3, 1, 2), size).permute(0, 2, 3, 1), [x], do)


def test_global_mean():
    x, do = normal(3, 7, 5, 6), normal(3, 6, seed=1)
    out = numpy.zeros(x.shape, numpy.float32)
    load("pool_backward", "global_mean_backward")(*single(do), out=out)
    compare([out], lambda x: x.mean((1, 2)), [x], do)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [3, 1])
def test_attention(groups, causal):
    inputs = [normal(2, heads, 40, 16, seed=i) for i, heads in enumerate((3, groups, groups))]
    do, given = normal(2, 3, 40, 16, seed=3), single(*inputs)
    o, lse = load("attention", "attention", CAUSAL=causal)(*given)
    found = load("attention", "attention_backward", CAUSAL=causal)(*given, o, lse, *single(do))
    compare(found, lambda *a: F.scaled_dot_product_attention(*a, is_causal=causal, enable_gqa=True), inputs, do)


@pytest.mark.parametrize("kind", ["i8_columns", "i4_groups", "q8_0", "q4_0"])
def test_weights_in_few_bits(kind):
    given, matrix = weights(kind, 96, 37)
    do = normal(9, 37, seed=1)
    compare([load("weights_backward", kind + "_backward")(*single(do), *given)], lambda x: x @ torch.tensor(matrix), [normal(9, 96)], do)


@pytest.mark.parametrize("kind", ["fp8_blocks", "fp4", "q4_k", "q6_k"])
def test_block_scaled(kind):
    given, settings, matrix = block_scaled(kind, 256, 37)
    do = normal(9, 37, seed=1)
    found = load("matmul/block_scaled", kind + "_backward", **settings)(*single(do), *given)
    compare([found], lambda x: x @ torch.tensor(matrix), [normal(9, 256)], do)


def test_rows():
    """Of each row: gelu, softmax, layernorm, rmsnorm, cross entropy, and cross entropy of a product."""
    x, w, do = normal(33, 70), normal(70, seed=1), normal(33, 70, seed=2)
    compare([load("gelu_backward")(*single(x, do))], lambda x: F.gelu(x, approximate="tanh"), [x], do)
    compare([load("gelu_backward", EXACT=True)(*single(x, do))], F.gelu, [x], do)
    compare(load("layernorm_backward", "layernorm_backward")(*single(x, w, do)), lambda x, w, b: F.layer_norm(x, (70,), w, b), [x, w, normal(70, seed=3)], do)
    soft = torch.softmax(torch.tensor(x), 1).numpy()
    compare([load("softmax_backward")(*single(soft, do))], lambda x: torch.softmax(x, 1), [x], do)
    compare(load("rmsnorm_backward", "rmsnorm_backward")(*single(x, w, do)), lambda x, w: F.rms_norm(x, (70,), w, 1e-6), [x, w], do)
    dsum, given = normal(33, 70, seed=6), normal(33, 70, seed=7)
    for name, norm, inputs in (("rmsnorm_residual_backward", lambda x, w: F.rms_norm(x, (70,), w, 1e-6), [x, w]),
                               ("layernorm_residual_backward", lambda x, w, b: F.layer_norm(x, (70,), w, b), [x, w, normal(70, seed=3)])):
        compare(load("norm_residual_backward", name)(*single(x + given, w, do, dsum)),
                lambda x, *scales, norm=norm: (norm(x + torch.tensor(given), *scales), x + torch.tensor(given)), inputs, (do, dsum))
    target, dloss = numpy.random.default_rng(5).integers(0, 70, (33, 1)).astype(numpy.int32), normal(33, 1, seed=3)
    def loss(x):
        return F.cross_entropy(x, torch.tensor(target[:, 0]).long(), reduction="none")
    _, lse = load("cross_entropy", "cross_entropy")(*single(x), target)
    compare([load("cross_entropy", "cross_entropy_backward")(*single(x), target, lse, *single(dloss))], loss, [x], dloss)
    ids, mean = target.astype(numpy.int64), numpy.full((33, 1), 1 / (target != 7).sum())
    _, lse = load("cross_entropy", "cross_entropy", IGNORE=7)(*single(x), ids)
    compare([load("cross_entropy", "cross_entropy_backward", IGNORE=7)(*single(x), ids, lse, *single(mean))],
            lambda x: F.cross_entropy(x, torch.tensor(ids[:, 0]), ignore_index=7), [x], numpy.ones(()))
    h, table = normal(33, 20, seed=4), normal(70, 20, seed=5)
    _, lse = load("linear_cross_entropy", "linear_cross_entropy")(*single(h, table), target)
    compare(load("linear_cross_entropy", "linear_cross_entropy_backward")(*single(h, table), target, lse, *single(dloss)),
            lambda h, table: loss(h @ table.T), [h, table], dloss)


def test_rope_embedding_and_dropout():
    x, do = normal(2, 9, 3, 16), normal(2, 9, 3, 16, seed=1)
    position = numpy.random.default_rng(5).integers(0, 500, (2, 9)).astype(numpy.int32)
    angle = torch.tensor(position[:, :, None, None] * 10000.0 ** (-numpy.arange(8) / 8))

    def rope(x):
        turned = torch.complex(x[..., :8], x[..., 8:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([turned.real, turned.imag], 3)
    compare([load("rope", "rope", INVERSE=True)(*single(do), position)], rope, [x], do, 1e-4)
    flip = (0, 2, 1, 3)
    compare([load("rope", "rope_heads", INVERSE=True)(*single(do.transpose(flip)), position)], lambda x: rope(x.permute(flip)).permute(flip), [x.transpose(flip)],
            do.transpose(flip), 1e-4)
    ids, do = numpy.random.default_rng(5).integers(0, 11, 200).astype(numpy.int32), normal(200, 37)
    compare([load("embedding_backward")(ids, do, V=11)], lambda table: F.embedding(torch.tensor(ids).long(), table), [normal(11, 37)], do)
    drop, seeds = load("dropout"), (numpy.int32(7), numpy.int32(3))
    kept = drop(numpy.ones((33, 70), numpy.float32), *seeds)
    do = normal(33, 70, seed=2)
    compare([drop(*single(do), *seeds)], lambda x: x * torch.tensor(kept), [normal(33, 70)], do)


def test_adamw():
    """Ten steps of the optimiser, with the gradient's norm clipped to a half."""
    p, grads = normal(7, 30), [normal(7, 30, seed=t) for t in range(1, 11)]
    leaf = torch.tensor(p, requires_grad=True)
    theirs = torch.optim.AdamW([leaf], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    mine, step, length = [p, numpy.zeros_like(p), numpy.zeros_like(p)], load("adamw"), load("gradient_norm", "gradient_norm")
    for t, g in enumerate(grads, 1):
        norm = float(length(*single(g))[0, 0])
        leaf.grad = torch.tensor(g)
        assert abs(norm - float(torch.nn.utils.clip_grad_norm_([leaf], 0.5))) < 1e-5 * norm
        theirs.step()
        clip = min(1.0, 0.5 / (norm + 1e-6))
        mine = step(*mine, g, numpy.array([0.01, 1 / (1 - 0.9 ** t), 1 / (1 - 0.95 ** t), clip, 0.1], numpy.float32))
    numpy.testing.assert_allclose(mine[0], leaf.detach().numpy(), rtol=1e-5, atol=1e-6)
