"""Kernels of the library against their definitions in NumPy, in binary64: recurrences step by step, masks pair by pair, routing row by row."""
import math
import pathlib

import numpy
import pytest

import pkc

FOLDER = pathlib.Path(pkc.__file__).parent / "share/pkc/kernels"
F32, F64 = numpy.float32, numpy.float64


def load(file, kernel=None, **statics):
    return pkc.load(FOLDER / (file + ".pk"), kernel, **statics)


def normal(*shape, seed=0):
    return numpy.random.default_rng([seed, *shape]).standard_normal(shape).astype(F32)


def integers(low, high, *shape, seed=0):
    return numpy.random.default_rng([seed, *shape]).integers(low, high, shape).astype(numpy.int32)


def close(got, want, tolerance=2e-5):
    numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * max(1, numpy.abs(want).max(initial=0)))


def silu(x):
    return x / (1 + numpy.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x ** 3)))


# ---- rows and elements in narrow types: as computed in binary64 and rounded once

def exact_gelu(x):
    return x * numpy.vectorize(math.erfc)(-x / math.sqrt(2)) / 2


def selu(x):
    return 1.0507009873554805 * numpy.where(x > 0, x, 1.6732632423543772 * numpy.expm1(numpy.minimum(x, 0)))


def softmax(x):
    e = numpy.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def rmsnorm(x, w):
    return x / numpy.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w


def layernorm(x, w, b):
    centred = x - x.mean(1, keepdims=True)
    return centred / numpy.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * w + b


ROWS, ROW = (37, 70), (70,)
NARROW = [
    ("add", {}, lambda x, y: x + y, (ROWS, ROWS)), ("transpose", {}, lambda x: x.T, (ROWS,)), ("selu", {}, selu, (ROWS,)), ("gelu", {}, gelu, (ROWS,)),
    ("gelu", {"EXACT": True}, exact_gelu, (ROWS,)), ("row_sum", {}, lambda x: x.sum(1, keepdims=True), (ROWS,)), ("softmax", {}, softmax, (ROWS,)),
    ("rmsnorm", {}, rmsnorm, (ROWS, ROW)), ("layernorm", {}, layernorm, (ROWS, ROW, ROW))]


@pytest.mark.parametrize("dtype, half_unit", [("float32", 2.0 ** -21), ("float16", 2.0 ** -11), ("bfloat16", 2.0 ** -8)])
@pytest.mark.parametrize("name, statics, function, shapes", NARROW, ids=["%s%s" % (case[0], len(case[1])) for case in NARROW])
def test_narrow(name, statics, function, shapes, dtype, half_unit):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    narrow = numpy.dtype(getattr(ml_dtypes, dtype, dtype))
    inputs = [normal(*shape, seed=i).astype(narrow) for i, shape in enumerate(shapes)]
    o = load(name, **statics)(*inputs, threads=2)
    assert o.dtype == narrow
    # What a row's sum of f32 loses on top of the rounding is far less than half a unit of a narrow type.
    numpy.testing.assert_allclose(o.astype(F64), function(*(x.astype(F64) for x in inputs)), rtol=1.01 * half_unit, atol=2e-6)


@pytest.mark.parametrize("dtype, half_unit", [("float32", 2.0 ** -21), ("bfloat16", 2.0 ** -8)])
def test_norm_residual(dtype, half_unit):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    narrow = numpy.dtype(getattr(ml_dtypes, dtype, dtype))
    x, r, w, b = (normal(*shape, seed=i).astype(narrow) for i, shape in enumerate((ROWS, ROWS, ROW, ROW)))
    total = (x.astype(F32) + r.astype(F32)).astype(narrow)
    wide, w64 = total.astype(F64), w.astype(F64)
    for name, given, want in (("rmsnorm_residual", (w,), rmsnorm(wide, w64)), ("layernorm_residual", (w, b), layernorm(wide, w64, b.astype(F64)))):
        o, found = load("norm_residual", name)(x, r, *given)
        numpy.testing.assert_array_equal(found, total)
        numpy.testing.assert_allclose(o.astype(F64), want, rtol=1.01 * half_unit, atol=2e-6)
    for kind, most in ((numpy.int8, 127), (ml_dtypes.float8_e4m3fn, 448)):
        q, scale, found = load("norm_residual", "rmsnorm_residual_quantise", Q=numpy.dtype(kind))(x, r, w)
        want = rmsnorm(wide, w64)
        assert q.dtype == kind and numpy.abs(q.astype(F64)).max(1).min() == most
        numpy.testing.assert_array_equal(found, total)
        step = scale / 2 if most == 127 else numpy.maximum(numpy.abs(want) * 2.0 ** -4, scale * 2.0 ** -10)
        assert (numpy.abs(q.astype(F64) * scale - want) <= 1.01 * step + 1e-6).all()


# Kernels that mix narrow and f32 operands: `rows` makes a narrow operand, `sums` an f32 operand. Tests below compare them with NumPy
# in f64; test_gradients.py compares their gradients with finite differences.
MIXED = [
    ("images/pool", "pool", {"K": 3}, lambda rows, sums: (rows(2, 13, 9, 6),)),
    ("images/pool", "pool", {"K": 3, "MEAN": True}, lambda rows, sums: (rows(2, 13, 9, 6),)),
    ("images/pool", "global_mean", {}, lambda rows, sums: (rows(2, 13, 9, 6),)),
    ("train/pool_backward", "pool_backward", {"W": 9}, lambda rows, sums: (rows(2, 13, 9, 6), rows(2, 6, 4, 6))),
    ("train/pool_backward", "pool_backward", {"W": 9, "K": 3, "MEAN": True}, lambda rows, sums: (rows(2, 13, 9, 6), rows(2, 4, 3, 6))),
    ("sequence/conv1d", "conv1d", {"SILU": True, "BN": 16}, lambda rows, sums: (rows(2, 40, 6), rows(4, 6), rows(6))),
    ("train/conv1d_backward", "conv1d_backward", {"SILU": True, "BN": 16}, lambda rows, sums: (rows(2, 40, 6), rows(4, 6), rows(6), rows(2, 40, 6))),
    ("sequence/gated", "gated", {"BN": 16}, lambda rows, sums: (rows(2, 37, 20), -abs(rows(2, 37, 20)), sums(2, 1, 20))),
    ("sequence/gated", "gated_backward", {"BN": 16},
     lambda rows, sums: (-abs(rows(2, 37, 20)), sums(2, 1, 20), rows(2, 37, 20), rows(2, 37, 20), sums(2, 1, 20))),
    ("sequence/wkv", "wkv", {"BN": 16},
     lambda rows, sums: (rows(2, 3, 37, 8), rows(2, 3, 37, 8), rows(2, 3, 37, 8), -abs(rows(2, 3, 37, 8)), rows(3, 1, 8), sums(2, 3, 8, 8)))]


@pytest.mark.parametrize("dtype, half_unit", [("float16", 2.0 ** -11), ("bfloat16", 2.0 ** -8)])
@pytest.mark.parametrize("file, kernel, statics, operands", MIXED, ids=[case[1] + str(len(case[2])) for case in MIXED])
def test_mixed(file, kernel, statics, operands, dtype, half_unit):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    narrow = numpy.dtype(getattr(ml_dtypes, dtype, dtype))
    seeds = iter(range(9))
    inputs = operands(lambda *shape: normal(*shape, seed=next(seeds)).astype(narrow), lambda *shape: normal(*shape, seed=next(seeds)))
    called = load(file, kernel, **statics)
    found, want = called(*inputs, threads=2), called(*(a.astype(F64) for a in inputs))
    for a, b in zip(*((r,) if isinstance(r, numpy.ndarray) else r for r in (found, want))):
        assert a.dtype in (narrow, F32) and b.dtype == F64
        rounding = 1.02 * half_unit if a.dtype == narrow else 2e-5
        numpy.testing.assert_allclose(a.astype(F64), b, rtol=rounding, atol=1e-5 * numpy.abs(b).max())
    assert any(a.dtype == narrow for a in ((found,) if isinstance(found, numpy.ndarray) else found)), "no narrow output"


def test_mlp_narrow():
    """The hidden layer is rounded once, between the products."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for narrow, half_unit in ((numpy.dtype("float16"), 2.0 ** -11), (numpy.dtype(ml_dtypes.bfloat16), 2.0 ** -8)):
        x, w1, b1, w2, b2 = (normal(*shape, seed=i).astype(narrow) for i, shape in enumerate(((9, 33), (33, 70), (70,), (70, 33), (33,))))
        hidden = numpy.maximum(x.astype(F64) @ w1.astype(F64) + b1.astype(F64), 0)
        want = hidden.astype(F32).astype(narrow).astype(F64) @ w2.astype(F64) + b2.astype(F64)
        o = load("mlp", BM=8, BF=32)(x, w1, b1, w2, b2, threads=2)
        assert o.dtype == narrow
        # A sum of the hidden layer that lies at the middle of two narrow numbers may be rounded to either.
        numpy.testing.assert_allclose(o.astype(F64), want, rtol=2 * half_unit, atol=half_unit * numpy.abs(want).max() / 4)


def test_axpy_narrow():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, x, y = normal(1), normal(300, seed=1).astype(ml_dtypes.bfloat16), normal(300, seed=2).astype(ml_dtypes.bfloat16)
    o = load("axpy")(a, x, y)
    numpy.testing.assert_allclose(o.astype(F64), a.astype(F64) * x.astype(F64) + y.astype(F64), rtol=1.01 * 2.0 ** -8, atol=2e-6)


# ---- attention

def one_query(q, k, v, position, causal=False, window=0, cap=0.0, slope=0.0, sink=None):
    """Pair by pair."""
    scores, values = [], []
    for c in range(len(k)):
        if (causal and c > position) or (window and not (position - c < window and (causal or c - position < window))):
            continue
        s = q @ k[c] / numpy.sqrt(len(q))
        s = cap * numpy.tanh(s / cap) if cap else s
        scores.append(s + slope * (c - position))
        values.append(v[c])
    if sink is not None:
        scores.append(sink)
        values.append(numpy.zeros(v.shape[1]))
    if not scores:
        return numpy.zeros(v.shape[1]), -1e30
    m = max(scores)
    e = numpy.exp(numpy.array(scores) - m)
    return (e[:, None] * numpy.array(values)).sum(0) / e.sum(), m + numpy.log(e.sum())


@pytest.mark.parametrize("options", [
    {}, {"CAUSAL": True}, {"CAUSAL": True, "WINDOW": 5, "CAP": 1.5}, {"WINDOW": 4, "SINKS": True}, {"CAUSAL": True, "ALIBI": True, "SINKS": True},
    {"CAUSAL": True, "DV": 5, "SCALE": 0.3}, {"WINDOW": 6, "DV": 12, "SCALE": 0.2, "SINKS": True}])
def test_attention_options(options):
    batch, heads, groups, n, s, d = 2, 4, 2, 21, 33, 8
    q, k, v = normal(batch, heads, n, d), normal(batch, groups, s, d, seed=1), normal(batch, groups, s, options.get("DV", d), seed=2)
    scale = options.get("SCALE", d**-0.5) * numpy.sqrt(d)
    slope, sink = numpy.abs(normal(heads, seed=3)), normal(heads, seed=4)
    o, lse = load("attention/options", "attention", BQ=8, BK=8, **options)(q, k, v, slope, sink, threads=2)
    for b, h, r in numpy.ndindex(batch, heads, n):
        want, total = one_query(q[b, h, r].astype(F64) * scale, k[b, h // 2].astype(F64), v[b, h // 2].astype(F64), r + s - n, options.get("CAUSAL", False),
                                options.get("WINDOW", 0), options.get("CAP", 0.0), slope[h] if "ALIBI" in options else 0.0,
                                sink[h] if "SINKS" in options else None)
        close(o[b, h, r], want)
        close(lse[b, h, r, 0], total)


def test_biased():
    batch, heads, n, s, d = 2, 2, 19, 23, 8
    q, k, v, bias = normal(batch, heads, n, d), normal(batch, 1, s, d, seed=1), normal(batch, 1, s, d, seed=2), normal(heads, n, s, seed=3)
    qs, ks = integers(0, 3, batch, n, 1), integers(0, 3, batch, 1, s, seed=1)
    o = load("attention/biased", "biased", BQ=8, BK=8)(q, k, v, bias, qs, ks)[0]
    scores = numpy.where((qs == ks)[:, None], q @ k.swapaxes(2, 3).astype(F64) / numpy.sqrt(d) + bias, -numpy.inf)
    e = numpy.exp(scores - scores.max(3, keepdims=True))
    close(o, e / e.sum(3, keepdims=True) @ v.astype(F64))


@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_decode(dtype):
    batch, groups, rows, s, d = 3, 2, 4, 50, 16
    q, lengths = normal(batch, groups, rows, d), numpy.array([50, 1, 33], numpy.int32)
    k, v = normal(batch, groups, s, d, seed=1), normal(batch, groups, s, d, seed=2)
    scales = numpy.full((2, batch, groups, 1, s), numpy.nan, F32)
    if dtype == "i8":
        quantise = load("quantise", "quantise_rows")
        for i, x in enumerate((k, v)):
            narrow, scale = quantise(x.reshape(-1, d))
            scales[i] = scale.reshape(scales[i].shape)
            x[...] = (narrow * scale[:, None]).reshape(x.shape)
        kn, vn = (quantise(x.reshape(-1, d))[0].reshape(x.shape) for x in (k, v))
    else:
        kn, vn = k, v
    sink = normal(groups, rows, seed=3)
    found = [load("attention/decode", "decode", KV=dtype, BK=8)(lengths, q, kn, vn, *scales, sink, threads=2),
             load("attention/decode", "decode_split", KV=dtype, BK=8, PARTS=3)(lengths, q, kn, vn, *scales, sink, threads=2)]
    for b, g, r in numpy.ndindex(batch, groups, rows):
        want, _ = one_query(q[b, g, r].astype(F64), k[b, g, :lengths[b]].astype(F64), v[b, g, :lengths[b]].astype(F64), 0)
        for o in found:
            close(o[b, g, r], want, 1e-4)


@pytest.mark.parametrize("window, sinks", [(11, False), (0, True), (24, True), (100, True)])
def test_decode_options(window, sinks):
    """Windows and sinks, pair by pair; values of another width, which are a part of the keys, as in latent caches."""
    batch, groups, rows, s, d, width = 4, 2, 3, 50, 20, 12
    q, lengths = normal(batch, groups, rows, d), numpy.array([50, 1, 33, 0], numpy.int32)
    k, sink, none = normal(batch, groups, s, d, seed=1), normal(groups, rows, seed=3), numpy.zeros((batch, groups, 1, s), F32)
    v, options = k[..., :width], dict(WINDOW=window, SINKS=sinks, BK=8, SCALE=0.25)
    found = [load("attention/decode", "decode", **options)(lengths, q, k, v, none, none, sink, threads=2),
             load("attention/decode", "decode_split", PARTS=3, **options)(lengths, q, k, v, none, none, sink, threads=2)]
    for b, g, r in numpy.ndindex(batch, groups, rows):
        n = lengths[b]
        want, _ = one_query(q[b, g, r].astype(F64) * 0.25 * numpy.sqrt(d), k[b, g, :n].astype(F64), v[b, g, :n].astype(F64), n - 1, True, window,
                            sink=sink[g, r] if sinks else None)
        for o in found:
            close(o[b, g, r], want, 1e-4)


@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_paged(dtype):
    """Keys and values in pages that follow one another in no order, against the sequence as it is."""
    batch, groups, rows, s, d, page = 3, 2, 4, 48, 16, 8
    q, lengths = normal(batch, groups, rows, d), numpy.array([48, 0, 33], numpy.int32)
    table = numpy.random.default_rng(3).permutation(batch * s // page).astype(numpy.int32).reshape(batch, s // page)
    wide, given, scales = [], [], []
    for i in (1, 2):
        pool, scale = normal(groups, batch * s // page, page, d, seed=i), numpy.full((groups, batch * s // page, 1, page), numpy.nan, F32)
        if dtype == "i8":
            narrow, scale = load("quantise", "quantise_rows")(pool.reshape(-1, d))
            given.append(narrow.reshape(pool.shape))
            scale = scale.reshape(groups, -1, 1, page)
            pool = given[-1] * scale.swapaxes(2, 3)
        else:
            given.append(pool)
        wide.append(pool.astype(F64)[:, table].reshape(groups, batch, s, d))
        scales.append(scale)
    sink = numpy.full((groups, rows), numpy.nan, F32)
    o = load("attention/paged", KV=dtype, PAGE=page, D=d)(table, lengths, q, *given, *scales, sink, threads=2)
    for b, g, r in numpy.ndindex(batch, groups, rows):
        want, _ = one_query(q[b, g, r].astype(F64), wide[0][g, b, :lengths[b]], wide[1][g, b, :lengths[b]], 0)
        close(o[b, g, r], want, 1e-4)


VLLM_CACHES = {  # shape of the cache; its keys and values as views [G, P, PAGE, D]
    "[2, P, PAGE, G, D]": lambda kv: kv.transpose(0, 3, 1, 2, 4),
    "[P, 2, PAGE, G, D]": lambda kv: kv.transpose(1, 3, 0, 2, 4),
    "[P, 2, G, PAGE, D]": lambda kv: kv.transpose(1, 2, 0, 3, 4),
    "[P, PAGE, 2 G, D]": lambda kv: kv.reshape(*kv.shape[:2], -1, 2, kv.shape[-1]).transpose(3, 2, 0, 1, 4),
}


@pytest.mark.parametrize("window, sinks", [(0, False), (11, True), (100, True)])
@pytest.mark.parametrize("layout", list(VLLM_CACHES))
def test_paged_vllm(layout, window, sinks):
    """The caches of vLLM are read where they are, as strided views; windows and sinks, pair by pair."""
    batch, groups, rows, s, d, page = 3, 2, 3, 48, 20, 8
    pages = batch * s // page
    sizes = {"2": 2, "P": pages, "PAGE": page, "G": groups, "D": d, "2 G": 2 * groups}
    cache = normal(*(sizes[n] for n in layout.strip("[]").split(", ")), seed=1)
    k, v = VLLM_CACHES[layout](cache)
    assert numpy.shares_memory(k, cache) and k.shape == v.shape == (groups, pages, page, d)
    q, sink, lengths = normal(batch, groups, rows, d), normal(groups, rows, seed=3), numpy.array([48, 0, 33], numpy.int32)
    table = numpy.random.default_rng(3).permutation(pages).astype(numpy.int32).reshape(batch, -1)
    none = numpy.zeros((groups, pages, 1, page), F32)
    run = load("attention/paged", PAGE=page, PAGES=2, WINDOW=window, SINKS=sinks, SCALE=0.25)
    o = run(table, lengths, q, k, v, none, none, sink, threads=2)
    for b, g, r in numpy.ndindex(batch, groups, rows):
        n = lengths[b]
        keys, values = (x[g, table[b]].reshape(s, d)[:n].astype(F64) for x in (k, v))
        want, _ = one_query(q[b, g, r].astype(F64) * 0.25 * numpy.sqrt(d), keys, values, n - 1, True, window, sink=sink[g, r] if sinks else None)
        close(o[b, g, r], want, 1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_sparse(causal):
    """Pair by pair, with a list that names a block twice, blocks outside the keys and -1; q of [B, H, N, D] as a strided view."""
    batch, groups, rows, n, s, d, width, bq, bk = 2, 2, 3, 21, 37, 16, 10, 8, 8
    heads = normal(batch, groups * rows, n, d)
    q = heads.reshape(batch, groups, rows, n, d).transpose(0, 1, 3, 2, 4)
    k, v = normal(batch, groups, s, d, seed=1), normal(batch, groups, s, width, seed=2)
    lists = integers(-1, 6, batch, groups, 3, 4, seed=3)
    lists[0, 0, 0] = [2, 2, -1, 1]
    o, lse = load("attention/sparse", "sparse", R=rows, DV=width, CAUSAL=causal, BQ=bq, BK=bk)(lists, q, k, v, threads=2)
    for b, g, t, r in numpy.ndindex(batch, groups, n, rows):
        columns = [c for block in lists[b, g, t // bq] for c in range(max(0, block * bk), min(s, (block + 1) * bk)) if not causal or c <= t + s - n]
        want, total = one_query(q[b, g, t, r].astype(F64), k[b, g, columns].astype(F64), v[b, g, columns].astype(F64), 0)
        close(o[b, g, t, r], want, 1e-4)
        close(lse[b, g, t, r], total, 1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_choose(causal):
    batch, groups, rows, n, s, d, bq, bk, count = 2, 2, 3, 21, 37, 16, 4, 8, 3
    q, k = normal(batch, groups, n, rows, d), normal(batch, groups, s, d, seed=1)
    chosen = load("attention/sparse", "choose", R=rows, D=d, K=count, CAUSAL=causal, BQ=bq, BK=bk)(q, k, threads=2)
    for b, g, i in numpy.ndindex(*chosen.shape[:3]):
        last = min(n, (i + 1) * bq) - 1 + s - n
        score = [q[b, g, i * bq:(i + 1) * bq].astype(F64).mean((0, 1)) @ k[b, g, at:at + bk].astype(F64).mean(0) for at in range(0, s, bk)]
        if causal:
            score = [numpy.inf if at == last // bk else x for at, x in enumerate(score) if at * bk <= last]
        want = sorted(range(len(score)), key=lambda at: -score[at])[:count]
        assert list(chosen[b, g, i]) == want + [-1] * (count - len(want))


# ---- products

@pytest.mark.parametrize("act, function", list(enumerate([lambda x: x, lambda x: numpy.maximum(x, 0), gelu, silu])))
def test_linear(act, function):
    x, w, scale, bias, r = normal(20, 37), normal(37, 45, seed=1), normal(45, seed=2), normal(45, seed=3), normal(20, 45, seed=4)
    settings = dict(SCALE=True, BIAS=True, ACT=act, RESIDUAL=True)
    want = function(x.astype(F64) @ w * scale + bias) + r
    close(load("matmul/linear", "linear", **settings)(x, w, scale, bias, r), want)
    close(load("matmul/linear", "linear_transposed", **settings)(x, w.T.copy(), scale, bias, r), want)


def test_swiglu_and_weights():
    x, gate, up = normal(20, 37), normal(37, 45, seed=1), normal(37, 45, seed=2)
    close(load("matmul/linear", "swiglu")(x, gate, up), silu(x.astype(F64) @ gate) * (x.astype(F64) @ up))
    close(load("matmul/linear", "linear_weights")(x, normal(20, 45, seed=5)), x.astype(F64).T @ normal(20, 45, seed=5))


@pytest.mark.parametrize("scaled", [False, True])
def test_fp8_blocks(scaled):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    m, n, k, block = 20, 50, 70, 16
    w = normal(n, k, seed=1).astype(ml_dtypes.float8_e4m3fn)
    x = normal(m, k).astype(ml_dtypes.float8_e4m3fn if scaled else F32)
    w_scale, x_scale = (numpy.abs(normal(-(-rows // each), -(-k // block), seed=2)) for rows, each in ((n, block), (m, 1)))
    want = numpy.zeros((m, n))
    for i, j, c in numpy.ndindex(m, n, k):
        want[i, j] += F64(x[i, c]) * F64(w[j, c]) * w_scale[j // block, c // block] * (x_scale[i, c // block] if scaled else 1)
    run = load("matmul/block_scaled", "fp8_blocks", SCALED=scaled, BLOCK=block, BM=16, BN=32)
    close(run(x, x_scale, w, w_scale, threads=2), want)


@pytest.mark.parametrize("group, kind", [(32, "float8_e8m0fnu"), (16, "float8_e4m3fn")])
def test_fp4(group, kind):
    """MXFP4 and NVFP4, two elements a byte; the values of the elements are written out here."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, kind):
        pytest.skip(f"this ml_dtypes has no {kind}")
    m, n, k = 20, 33, 192
    codes, x = integers(0, 16, n, k).astype(numpy.uint8), normal(m, k)
    scale = numpy.exp2(integers(-3, 4, n, k // group, seed=1)).astype(F32).astype(getattr(ml_dtypes, kind))
    values = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    want = x.astype(F64) @ (values[codes] * scale.astype(F64).repeat(group, 1)).T * 0.75
    run = load("matmul/block_scaled", "fp4", GROUP=group, BM=16, BN=16, BK=64)
    close(run(x, codes[:, ::2] | codes[:, 1::2] << 4, scale, numpy.array([0.75], F32), threads=2), want)


def q4_k_elements(block):
    """The 256 elements of 144 bytes, one by one, as ggml's dequantize_row_q4_K reads them."""
    d, least = block[:4].view(numpy.float16).astype(F64)
    packed, found = block[4:16].astype(int), []
    for i in range(8):
        if i < 4:
            scale, offset = packed[i] & 63, packed[i + 4] & 63
        else:
            scale = packed[i + 4] & 15 | packed[i - 4] >> 6 << 4
            offset = packed[i + 4] >> 4 | packed[i] >> 6 << 4
        part = block[16 + i // 2 * 32:][:32].astype(int)
        found += [d * scale * (byte >> 4 if i % 2 else byte & 15) - least * offset for byte in part]
    return found


def q6_k_elements(block):
    """The 256 elements of 210 bytes, one by one, as ggml's dequantize_row_q6_K reads them."""
    d, found = F64(block[208:].view(numpy.float16)[0]), numpy.zeros(256)
    for half, i in numpy.ndindex(2, 32):
        low, high, scale = block[64 * half:].astype(int), int(block[128 + 32 * half + i]), block[192 + 8 * half:].view(numpy.int8)
        for row, bits in enumerate((low[i] & 15, low[i + 32] & 15, low[i] >> 4, low[i + 32] >> 4)):
            value = (bits | (high >> 2 * row & 3) << 4) - 32
            found[128 * half + 32 * row + i] = d * scale[i // 16 + 2 * row] * value
    return found


@pytest.mark.parametrize("kernel, elements, size, halves", [("q4_k", q4_k_elements, 144, (0, 2)), ("q6_k", q6_k_elements, 210, (208,))])
def test_gguf_blocks(kernel, elements, size, halves):
    m, n, blocks = 5, 17, 3
    x, w = normal(m, 256 * blocks), integers(0, 256, n, blocks, size).astype(numpy.uint8)
    for at in halves:
        w[:, :, at:at + 2] = normal(n, blocks, 1, seed=at).astype(numpy.float16).view(numpy.uint8)
    wide = numpy.array([[elements(w[i, q].copy()) for q in range(blocks)] for i in range(n)]).reshape(n, -1)
    close(load("matmul/block_scaled", kernel, BM=4, BN=16)(x, w, threads=2), x.astype(F64) @ wide.T)
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError:
        return
    theirs = quants.dequantize(w.reshape(n, -1), getattr(GGMLQuantizationType, kernel.upper()))
    numpy.testing.assert_allclose(theirs, wide, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("act, function", [(1, lambda x: numpy.maximum(x, 0)), (2, gelu), (3, silu), (4, exact_gelu)])
def test_glu(act, function):
    both = normal(20, 90)
    a, b = both[:, :45], both[:, 45:]
    close(load("glu", ACT=act)(a, b), function(a.astype(F64)) * b)
    if act == 2:
        x, gate, up = normal(20, 37), normal(37, 45, seed=1), normal(37, 45, seed=2)
        close(load("matmul/linear", "swiglu", ACT=act)(x, gate, up), function(x.astype(F64) @ gate) * (x.astype(F64) @ up))


def test_weight_formats():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, n, blocks = normal(5, 96), 40, 3
    do, backward = normal(5, n, seed=3), "train/weights_backward"
    w, scale = integers(-128, 128, 96, n).astype(numpy.int8), normal(n, seed=1)
    close(load("matmul/weights", "i8_columns")(x, w, scale), x.astype(F64) @ w * scale)
    close(load(backward, "i8_columns_backward")(do, w, scale), do.astype(F64) * scale @ w.T)
    w, scale = integers(-8, 8, 96, n), normal(blocks, n, seed=1)
    packed, wide = w.astype(ml_dtypes.int4), w * scale.repeat(32, 0)
    close(load("matmul/weights", "i4_groups", BK=64)(x, packed, scale), x.astype(F64) @ wide)
    close(load(backward, "i4_groups_backward", BK=64)(do, packed, scale), do.astype(F64) @ wide.T)
    d = normal(n, blocks, 1, seed=2).astype(numpy.float16)
    w = integers(-128, 128, n, blocks, 32).astype(numpy.int8)
    wide = (w * d.astype(F64)).reshape(n, 96)
    close(load("matmul/weights", "q8_0", BQ=2)(x, w, d), x.astype(F64) @ wide.T)
    close(load(backward, "q8_0_backward", BQ=2)(do, w, d), do.astype(F64) @ wide)
    q, e = integers(-128, 128, 5, blocks, 32).astype(numpy.int8), abs(normal(5, blocks, seed=4))
    rounded = (q * e.astype(F64)[..., None]).reshape(5, 96)
    close(load("matmul/by_q8", "q8_0_by_q8", BQ=2)(q, e, w, d.reshape(n, blocks)), rounded @ wide.T)
    close(load("matmul/by_q8", "i8_by_q8", BQ=2)(q, e, w, scale[0]), rounded @ w.reshape(n, 96).T.astype(F64) * scale[0])
    raw = integers(0, 256, n, blocks, 16).astype(numpy.uint8)
    wide = numpy.zeros((n, blocks, 32))
    for i in range(16):  # as ggml's dequantize_row_q4_0
        wide[:, :, i] = ((raw[:, :, i] & 15).astype(int) - 8) * d[:, :, 0]
        wide[:, :, i + 16] = ((raw[:, :, i] >> 4).astype(int) - 8) * d[:, :, 0]
    wide = wide.reshape(n, 96)
    close(load("matmul/weights", "q4_0", BQ=2)(x, raw, d), x.astype(F64) @ wide.T)
    close(load("matmul/by_q8", "q4_0_by_q8", BQ=2)(q, e, raw, d.reshape(n, blocks)), rounded @ wide.T)
    close(load(backward, "q4_0_backward", BQ=2)(do, raw, d), do.astype(F64) @ wide)


@pytest.mark.parametrize("capacity", [16, 4])
def test_mixture_of_experts(capacity):
    """Route, dispatch, multiply, combine: each row by its experts one after the other, while they have room."""
    rows, experts, choices, d, f = 30, 4, 2, 12, 20
    x, logits, w = normal(rows, d), normal(rows, experts, seed=1), normal(experts, d, f, seed=2)
    weight, expert, place = load("moe/route", K=choices, CAP=capacity, BM=8)(logits)
    queue = load("moe/experts", "dispatch", K=choices)(x, expert, place, E=experts, CAP=capacity)
    group = numpy.arange(experts * capacity // 4, dtype=numpy.int32) // (capacity // 4)
    made = load("matmul/grouped", BM=4)(group, queue.reshape(-1, d), w).reshape(experts, capacity, f)
    found = load("moe/experts", "combine")(expert, place, made, weight, threads=2)
    used, want = numpy.zeros(experts, int), numpy.zeros((rows, f))
    for row in range(rows):
        best = numpy.argsort(-logits[row], kind="stable")[:choices]
        share = numpy.exp(logits[row, best].astype(F64))
        for e, part in zip(best, share / share.sum()):
            if used[e] < capacity:
                want[row] += part * (x[row].astype(F64) @ w[e])
            used[e] += 1
    assert capacity == 16 or used.max() > capacity
    close(found, want)


# ---- sequences

def test_gated():
    x, log_a, first = normal(2, 70, 20), -numpy.abs(normal(2, 70, 20, seed=1)), normal(2, 1, 20, seed=2)
    h, last = load("sequence/gated", "gated", BN=16)(x, log_a, first, threads=2)
    state = first[:, 0].astype(F64)
    for t in range(70):
        state = numpy.exp(log_a[:, t].astype(F64)) * state + x[:, t]
        close(h[:, t], state)
    close(last[:, 0], state)


def test_wkv():
    batch, heads, n, d = 2, 3, 37, 16
    r, k, v, log_w = (normal(batch, heads, n, d, seed=i) for i in range(4))
    u, first, log_w = normal(heads, 1, d, seed=4), normal(batch, heads, d, d, seed=5), -numpy.abs(log_w)
    y, last = load("sequence/wkv", "wkv", BN=8)(r, k, v, log_w, u, first, threads=2)
    for b, h in numpy.ndindex(batch, heads):
        state = first[b, h].astype(F64)
        for t in range(n):
            added = numpy.outer(k[b, h, t].astype(F64), v[b, h, t])
            close(y[b, h, t], r[b, h, t] @ (state + u[h, 0][:, None] * added))
            state = numpy.exp(log_w[b, h, t].astype(F64))[:, None] * state + added
        close(last[b, h], state)


def test_state_space():
    batch, heads, groups, n, p, s = 2, 4, 2, 50, 8, 5
    x, log_a, first = normal(batch, heads, n, p), -numpy.abs(normal(batch, heads, n, 1, seed=1)), normal(batch, heads, s, p, seed=2)
    b, c = normal(batch, groups, n, s, seed=3), normal(batch, groups, n, s, seed=4)
    y, last = load("sequence/ssd", "ssd", BN=16)(x, log_a, b, c, first, threads=2)
    for i, h in numpy.ndindex(batch, heads):
        state = first[i, h].astype(F64)
        for t in range(n):
            state = numpy.exp(F64(log_a[i, h, t, 0])) * state + numpy.outer(b[i, h // 2, t], x[i, h, t])
            close(y[i, h, t], c[i, h // 2, t] @ state)
        close(last[i, h], state)


@pytest.mark.parametrize("options", [{}, {"SOFTPLUS": False}, {"GATE": False, "SKIP": False}], ids=lambda o: "-".join(o) or "all")
def test_selective_scan(options):
    batch, n, c, s = 2, 37, 20, 5
    x, z, delta = normal(batch, n, c), normal(batch, n, c, seed=1), normal(batch, n, c, seed=2) / 2
    a, d, bias = -numpy.exp(normal(s, c, seed=3)), normal(c, seed=4), normal(c, seed=5)
    b, mix, first = normal(batch, n, s, seed=6), normal(batch, n, s, seed=7), normal(batch, s, c, seed=8)
    delta, bias = (delta, bias) if options.get("SOFTPLUS", True) else (numpy.abs(delta), numpy.abs(bias))
    args = (x, delta, a, b, mix, d, z, bias)
    scan = load("sequence/selective", "selective_scan", BN=8, BC=16, **options)
    y, last = scan(*args, first, threads=2)
    state = first.astype(F64)
    for t in range(n):
        step = delta[:, t].astype(F64) + bias
        step = numpy.log1p(numpy.exp(step)) if options.get("SOFTPLUS", True) else step
        state = numpy.exp(step[:, None] * a) * state + b[:, t, :, None] * (step * x[:, t])[:, None]
        want = (mix[:, t, :, None] * state).sum(1) + (d * x[:, t] if options.get("SKIP", True) else 0)
        close(y[:, t], want * silu(z[:, t].astype(F64)) if options.get("GATE", True) else want)
    close(last, state)
    # The same text in two parts, the second of one row.
    def rows(part):
        return [numpy.ascontiguousarray(v[:, part]) if v.shape[:2] == (batch, n) else v for v in args]
    head, middle = scan(*rows(slice(0, n - 1)), first)
    tail, end = scan(*rows(slice(n - 1, n)), middle)
    close(numpy.concatenate([head, tail], 1), y)
    close(end, last)


def unit(x):
    return x / numpy.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize("kernel, options, width", [
    ("delta_rule", {"BN": 16, "SUB": 4}, 1), ("delta_rule", {"BN": 16, "UNIT": False, "SCALE": 0.5}, 1), ("delta_rule_rows", {"BN": 8}, 1),
    ("delta_rule_rows", {"BN": 8, "UNIT": False, "SCALE": 0.5}, 8)])
def test_delta_rule(kernel, options, width):
    batch, heads, groups, n, k, v = 2, 4, 2, 37, 8, 5
    query, key = normal(batch, groups, n, k), normal(batch, groups, n, k, seed=1)
    if not options.get("UNIT", True):
        key /= 4
    value, first = normal(batch, heads, n, v, seed=2), normal(batch, heads, k, v, seed=3)
    log_a, beta = -numpy.abs(normal(batch, heads, n, width, seed=4)) / 4, 1 / (1 + numpy.exp(normal(batch, heads, n, 1, seed=5)))
    o, last = load("sequence/delta", kernel, **options)(query, key, value, log_a, beta, first, threads=2)
    norm = unit if options.get("UNIT", True) else lambda x: x
    for i, h in numpy.ndindex(batch, heads):
        state = first[i, h].astype(F64)
        for t in range(n):
            own = norm(key[i, h // 2, t].astype(F64))
            state = numpy.exp(log_a[i, h, t].astype(F64))[:, None] * state
            state = state + numpy.outer(own, beta[i, h, t] * (value[i, h, t] - own @ state))
            close(o[i, h, t], norm(query[i, h // 2, t].astype(F64)) @ state * options.get("SCALE", k ** -0.5))
        close(last[i, h], state)


def rope_steps(rot, base=10000.0, kind=0, factor=8.0, original=8192.0, low=1.0, high=4.0, truncate=True):
    """As transformers' modeling_rope_utils defines them, feature by feature."""
    steps = base ** (-numpy.arange(0, rot, 2) / rot)
    if kind == 1:
        return steps / factor
    if kind == 2:
        lengths, made = 2 * numpy.pi / steps, []
        for step, length in zip(steps, lengths):
            share = (original / length - low) / (high - low)
            made.append(step if length < original / high else step / factor if length > original / low else (1 - share) * step / factor + share * step)
        return numpy.array(made)
    if kind == 3:
        def index(turns):
            return rot * numpy.log(original / (turns * 2 * numpy.pi)) / (2 * numpy.log(base))
        first, last = index(high), index(low)
        first, last = (numpy.floor(first), numpy.ceil(last)) if truncate else (first, last)
        first, last = max(first, 0), min(last, rot - 1)
        ramp = numpy.clip((numpy.arange(rot // 2) - first) / (last - first), 0, 1)
        return steps / factor * ramp + steps * (1 - ramp)
    return steps


def turned(x, position, steps, interleaved=False):
    """x [.., N, D], position [N]: pair by pair."""
    o, half = x.copy(), len(steps)
    for d in range(half):
        i, j = (2 * d, 2 * d + 1) if interleaved else (d, d + half)
        c, s = numpy.cos(position * steps[d]), numpy.sin(position * steps[d])
        o[..., i], o[..., j] = x[..., i] * c - x[..., j] * s, x[..., j] * c + x[..., i] * s
    return o


SCALED = [
    {}, {"ROT": 6}, {"INTERLEAVED": True}, {"ROT": 12, "INTERLEAVED": True}, {"SCALING": 1}, {"SCALING": 2, "ORIGINAL": 100.0, "BASE": 500000.0},
    {"SCALING": 3, "ORIGINAL": 400.0, "FACTOR": 4.0}, {"SCALING": 3, "ORIGINAL": 400.0, "TRUNCATE": False, "INTERLEAVED": True, "ROT": 12}]


@pytest.mark.parametrize("options", SCALED, ids=lambda o: "-".join(map(str, o.values())) or "plain")
def test_rope(options):
    x, position = normal(2, 9, 3, 16), integers(0, 500, 2, 9)
    kind, rot = options.get("SCALING", 0), options.get("ROT", 16)
    steps = rope_steps(rot, options.get("BASE", 10000.0), kind, options.get("FACTOR", 8.0), options.get("ORIGINAL", 8192.0), 1.0, 32.0 if kind == 3 else 4.0,
                       options.get("TRUNCATE", True))
    want = numpy.stack([turned(x[b].astype(F64).swapaxes(0, 1), position[b], steps, options.get("INTERLEAVED", False)) for b in range(2)])  # [B, H, N, D]
    close(load("rope", "rope", **options)(x, position), want.swapaxes(1, 2), 1e-4)
    heads = load("rope", "rope_heads", **options)(x.swapaxes(1, 2).copy(), position, threads=2)
    close(heads, want, 1e-4)
    if not options:
        close(load("rope", "rope_heads", INVERSE=True)(heads, position), x.swapaxes(1, 2), 1e-4)


def convolved(x, w, strides=(1, 1), dilation=(1, 1), pads=None):
    """The sum of the image at each position of the window w [KH, KW, C / groups, F], in binary64."""
    (kh, kw, group, features), (dh, dw) = w.shape, dilation
    def same(d, k):
        return d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2
    (pt, pb), (pl, pr) = pads or (same(dh, kh), same(dw, kw))
    wide, groups = numpy.pad(x.astype(F64), ((0, 0), (pt, pb), (pl, pr), (0, 0))), x.shape[3] // group
    rows, columns = wide.shape[1] - dh * (kh - 1), wide.shape[2] - dw * (kw - 1)
    total = 0
    for a, b in numpy.ndindex(kh, kw):
        moved = wide[:, a * dh:a * dh + rows:strides[0], b * dw:b * dw + columns:strides[1]]
        moved = moved.reshape(*moved.shape[:3], groups, group)
        total = total + numpy.einsum("nhwgc,cgf->nhwgf", moved, w[a, b].reshape(group, groups, -1).astype(F64))
    return total.reshape(*total.shape[:3], features)


CONVOLUTIONS = [  # the window, groups, and options
    ((3, 3), 1, {"RELU": True}), ((2, 4), 2, {"SH": 2, "SW": 3}), ((7, 7), 1, {"SH": 2, "SW": 2}), ((3, 2), 3, {"DH": 2, "DW": 3}),
    ((4, 4), 1, {"SH": 4, "SW": 4, "PT": 0, "PB": 0, "PL": 0, "PR": 0}), ((1, 3), 6, {"PT": 2, "PB": 1, "PL": 0, "PR": 4, "SH": 2})]


@pytest.mark.parametrize("window, groups, options", CONVOLUTIONS)
def test_conv2d(window, groups, options):
    x, w, bias = normal(2, 13, 11, 6), normal(*window, 6 // groups, 12, seed=1), normal(12, seed=2)
    pads = ((options["PT"], options["PB"]), (options["PL"], options["PR"])) if "PT" in options else None
    given = ((options.get("SH", 1), options.get("SW", 1)), (options.get("DH", 1), options.get("DW", 1)), pads)
    relu = (lambda v: numpy.maximum(v, 0)) if options.get("RELU") else lambda v: v
    want = relu(convolved(x, w, *given) + bias)
    close(load("images/conv2d", "conv2d", BH=2, BW=4, **options)(x, w, bias, threads=2), want)
    close(load("images/conv2d", "conv2d", **options)(x, w, bias), want)
    deep, short = w[:, :, :1, :6], bias[:6].copy()
    close(load("images/conv2d", "depthwise", BH=2, BW=4, **options)(x, deep[:, :, 0].copy(), short, threads=2), relu(convolved(x, deep, *given) + short))


def test_patches():
    x, w, bias = normal(2, 48, 64, 3), normal(16, 16, 3, 20, seed=1), normal(20, seed=2)
    close(load("images/conv2d", "patches", BH=2, BW=3)(x, w, bias, threads=2), convolved(x, w, (16, 16), pads=((0, 0), (0, 0))) + bias, 1e-4)


def test_pool():
    x = normal(2, 13, 9, 6)
    blocks = x[:, :12, :9].reshape(2, 4, 3, 3, 3, 6)
    close(load("images/pool", "pool", K=3)(x), blocks.max((2, 4)))
    close(load("images/pool", "pool", K=3, MEAN=True)(x), blocks.astype(F64).mean((2, 4)))
    close(load("images/pool", "global_mean")(x), x.astype(F64).mean((1, 2)))


def test_conv1d():
    x, w, bias = normal(2, 40, 6), normal(4, 6, seed=1), normal(6, seed=2)
    padded = numpy.pad(x.astype(F64), ((0, 0), (3, 0), (0, 0)))
    close(load("sequence/conv1d", BN=16)(x, w, bias), sum(padded[:, i:i + 40] * w[i] for i in range(4)) + bias)


# ---- chance

def test_sampling():
    """Frequencies of 4,000 draws, and what the limits leave out."""
    logits = normal(12)
    many = numpy.tile(logits, (4000, 1))

    def draw(temperature=1.0, top_p=1.0, step=0, top_k=0, many=many):
        return load("sampling")(many, 7, step, numpy.array([temperature], F32), numpy.array([top_p], F32), top_k, threads=2)[:, 0]

    def share(p, keep):
        p = numpy.where(keep, p, 0)
        return p / p.sum()
    p = numpy.exp(logits / 0.7) / numpy.exp(logits / 0.7).sum()
    order = numpy.argsort(-logits)
    rank = numpy.argsort(order)
    before = numpy.cumsum(p[order])[rank] - p
    for found, want in ((draw(0.7), p), (draw(0.7, top_k=3), share(p, rank < 3)), (draw(0.7, 0.6), share(p, before < 0.6))):
        counts = numpy.bincount(found, minlength=12) / 4000
        assert (counts[want == 0] == 0).all() and numpy.abs(counts - want).max() < 0.035
    assert (draw(0.0) == logits.argmax()).all() and (draw(1.0, 0.0) == logits.argmax()).all()
    near = numpy.tile(F32([0.5, 0.5000001, 0.5000001, 0.4]), (50, 1))
    assert (draw(0.0, many=near) == 1).all() and (draw(top_k=1, many=near) == 1).all()
    assert (draw(0.7) == draw(0.7)).all() and (draw(0.7) != draw(0.7, step=1)).any()


def test_dropout():
    x = numpy.ones((300, 400), F32)
    kernel = load("train/dropout", RATE=0.25)
    o = kernel(x, 7, 3, threads=2)
    assert set(numpy.unique(o)) <= {F32(0), F32(1 / 0.75)} and abs((o == 0).mean() - 0.25) < 0.01
    assert (o == load("train/dropout", RATE=0.25, BM=8, BN=32)(x, 7, 3)).all() and (o != kernel(x, 7, 4)).any()


def test_gradient_norm():
    g = normal(50, 300)
    length = numpy.sqrt((g.astype(F64) ** 2).sum())
    close(load("train/gradient_norm", "gradient_norm")(g, threads=2)[0, 0], length)
    for most in (0.5, 1e6):
        o, found = load("train/gradient_norm", "clipped")(g, numpy.array([most], F32))
        close(o, g * min(1, most / length))
        close(found[0, 0], length)
