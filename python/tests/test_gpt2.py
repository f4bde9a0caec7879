"""examples/gpt2: loss and gradients of a whole model against the same model in torch, and its logits against the model in NumPy."""
import pathlib

import numpy
import pytest

import pkc

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/gpt2"
L, H, C, V, P = 3, 4, 64, 40, 20
NAMES = "wte wpe ln1 wqkv bqkv wo bo ln2 wup bup wdown bdown lnf".split()
SHAPES = dict(wte=(V, C), wpe=(P, C), ln1=(L, 2, C), wqkv=(L, C, 3 * C), bqkv=(L, 3 * C), wo=(L, C, C), bo=(L, C), ln2=(L, 2, C),
              wup=(L, C, 4 * C), bup=(L, 4 * C), wdown=(L, 4 * C, C), bdown=(L, C), lnf=(2, C))


def weights(seed=0):
    rng = numpy.random.default_rng(seed)
    made = {name: (0.3 * rng.standard_normal(shape)).astype(numpy.float32) for name, shape in SHAPES.items()}
    for name in ("ln1", "ln2", "lnf"):
        made[name][..., 0, :] += 1
    return made


def hidden(torch, w, token):
    """The final hidden states, of tokens [B, S]."""
    functional = torch.nn.functional
    size = token.shape[1]
    h = w["wte"][token] + w["wpe"][:size]
    for layer in range(L):
        n = functional.layer_norm(h, (C,), w["ln1"][layer, 0], w["ln1"][layer, 1])
        q, k, v = (x.reshape(*x.shape[:2], H, C // H).transpose(1, 2) for x in (n @ w["wqkv"][layer] + w["bqkv"][layer]).split(C, 2))
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(h.shape)
        h = h + a @ w["wo"][layer] + w["bo"][layer]
        n = functional.layer_norm(h, (C,), w["ln2"][layer, 0], w["ln2"][layer, 1])
        h = h + functional.gelu(n @ w["wup"][layer] + w["bup"][layer], approximate="tanh") @ w["wdown"][layer] + w["bdown"][layer]
    return functional.layer_norm(h, (C,), w["lnf"][0], w["lnf"][1])


@pytest.mark.parametrize("batch, size", [(2, 16), (1, 1), (3, 20)])
def test_gradients(batch, size):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    functional = torch.nn.functional
    rng = numpy.random.default_rng(7)
    token, target = (rng.integers(0, V, (batch, size)).astype(numpy.int32) for _ in range(2))
    made = weights()
    leaves = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in made.items()}
    logits = hidden(torch, leaves, torch.tensor(token).long()) @ leaves["wte"].T
    losses = functional.cross_entropy(logits.reshape(-1, V), torch.tensor(target).long().reshape(-1), reduction="none")
    losses.mean().backward()
    step = pkc.load(FOLDER / "gpt2.pk", "gpt2_gradients", S=size, E=C // H)
    loss, *found = step(token.reshape(-1), target.reshape(-1, 1), *(made[name] for name in NAMES), threads=2)
    numpy.testing.assert_allclose(loss[:, 0], losses.detach().numpy(), rtol=1e-4, atol=1e-4)
    for name, got in zip(NAMES, found):
        want = leaves[name].grad.numpy()
        numpy.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-4 * max(1e-3, numpy.abs(want).max()), err_msg=name)


# ---- generation

MATRICES = "wte wqkv wo wup wdown".split()


CACHE = {"f32": numpy.float32, "bf16": numpy.float16, "i8": numpy.float16, "i4": numpy.float16}  # keys and values by the dtype of weights


def logits_of(w, token, cache):
    """The logits of every position in binary64, of tokens [B, S]; keys and values are rounded to the cache's dtype."""
    w = {name: array.astype(numpy.float64) for name, array in w.items()}
    size = token.shape[1]

    def norm(x, scale, shift):
        centred = x - x.mean(-1, keepdims=True)
        return centred / numpy.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    h = w["wte"][token] + w["wpe"][:size]
    for layer in range(L):
        qkv = norm(h, *w["ln1"][layer]) @ w["wqkv"][layer] + w["bqkv"][layer]
        q, k, v = (x.reshape(*x.shape[:2], H, C // H).swapaxes(1, 2) for x in numpy.split(qkv, 3, axis=2))
        k, v = (x.astype(cache).astype(numpy.float64) for x in (k, v))
        s = numpy.where(numpy.tri(size, dtype=bool), q @ k.swapaxes(2, 3) / numpy.sqrt(C // H), -numpy.inf)
        e = numpy.exp(s - s.max(-1, keepdims=True))
        h = h + (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(h.shape) @ w["wo"][layer] + w["bo"][layer]
        u = norm(h, *w["ln2"][layer]) @ w["wup"][layer] + w["bup"][layer]
        g = 0.5 * u * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (u + 0.044715 * u ** 3)))
        h = h + g @ w["wdown"][layer] + w["bdown"][layer]
    return norm(h, *w["lnf"]) @ w["wte"].T


def narrowed(made, dtype):
    """Weights and scales as the program takes them, and the weights that they stand for. Matrices in few bits are [out, in]."""
    given, meant, scales = dict(made), dict(made), []
    for name in MATRICES:
        rows = made[name] if name == "wte" else numpy.ascontiguousarray(made[name].swapaxes(1, 2))
        scale = numpy.full(rows.shape[:-1], numpy.nan, numpy.float32)
        if dtype == "bf16":
            given[name] = rows.astype(pytest.importorskip("ml_dtypes").bfloat16)
            rows = given[name].astype(numpy.float32)
        if dtype == "i8":
            kernel = pkc.load(FOLDER.parents[1] / "kernels/quantise.pk", "quantise_rows")
            q, scale = (numpy.stack(x) for x in zip(*map(kernel, rows.reshape(-1, *rows.shape[-2:]))))
            given[name], scale = q.reshape(rows.shape), scale.reshape(rows.shape[:-1])
            assert q.dtype == numpy.int8 and abs(q.astype(int)).max() == 127
            wide = given[name] * scale[..., None]
            assert (abs(wide - rows) <= scale[..., None] * 0.5001).all()
            rows = wide
        if dtype == "i4":
            kernel = pkc.load(FOLDER.parents[1] / "kernels/quantise.pk", "quantise_groups")
            q, scale = kernel(rows.reshape(-1, rows.shape[-1] // 32, 32))
            low, high = (q & 15).astype(int) - 8, (q >> 4).astype(int) - 8
            wide = numpy.concatenate([low, high], 2) * scale
            assert abs(low).max() == 7 and (abs(wide - rows.reshape(wide.shape)) <= scale * 0.5001).all()
            given[name], scale = (x.reshape(*rows.shape[:-1], -1, x.shape[-1]) for x in (q, scale))
            rows = wide.reshape(rows.shape)
        meant[name] = rows if name == "wte" else rows.swapaxes(1, 2)
        scales.append(scale)
    return [given[name] for name in NAMES], scales, meant


class Cache:
    def __init__(self, step, given, scales, batch, dtype="f32"):
        self.step, self.given, self.scales = step, given, scales
        self.k, self.v = (numpy.full((L, batch, H, P, C // H), 7, CACHE[dtype]) for _ in range(2))

    def next(self, at, last, token, threads=1):
        at, last = (numpy.array(x, numpy.int32) for x in (at, last))
        return self.step(at, last, numpy.ascontiguousarray(token), self.k, self.v, *self.given, *self.scales,
                         out=(None, self.k, self.v), threads=threads)[0]


def program(dtype, **statics):
    statics["KV"] = "f32" if dtype == "f32" else "f16"
    if dtype == "i4":
        return pkc.load(FOLDER / "next.pk", "gpt2_next_groups", E=C // H, **statics)
    return pkc.load(FOLDER / "next.pk", "gpt2_next", E=C // H, W=dtype, **statics)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i4"])
def test_generation(dtype):
    """Prompts of several lengths at once, in two parts, then token by token: the logits of whole sequences."""
    token = numpy.random.default_rng(7).integers(0, V, (3, P)).astype(numpy.int32)
    given, scales, meant = narrowed(weights(), dtype)
    want = logits_of(meant, token, CACHE[dtype])
    step = program(dtype)

    def same(got, places):
        numpy.testing.assert_allclose(got, want[range(3), places], rtol=1e-3, atol=2e-3)
    cache = Cache(step, given, scales, 3, dtype)
    same(cache.next([0, 0, 0], [2, 6, 6], token[:, :7], threads=2), [2, 6, 6])
    same(cache.next([3, 7, 7], [0, 3, 1], numpy.stack([token[0, 3:7], token[1, 7:11], token[2, 7:11]])), [3, 10, 8])
    place = numpy.array([4, 11, 9])
    while (place < P).all():
        same(cache.next(place, [0, 0, 0], token[range(3), place][:, None]), place)
        place += 1


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i4"])
def test_rows(dtype):
    """The kernels for one token of one sequence."""
    token = numpy.random.default_rng(7).integers(0, V, (1, P)).astype(numpy.int32)
    given, scales, meant = narrowed(weights(), dtype)
    want = logits_of(meant, token, CACHE[dtype])
    cache = Cache(program(dtype, **({} if dtype == "i4" else {"ROW": True})), given, scales, 1, dtype)
    for at in range(P):
        numpy.testing.assert_allclose(cache.next([at], [0], token[:, at:at + 1])[0], want[0, at], rtol=1e-3, atol=2e-3)


def test_generation_refused():
    """A context longer than the cache, and tokens that are not in the table: nothing is written."""
    given, scales, _ = narrowed(weights(), "f32")
    cache = Cache(pkc.load(FOLDER / "next.pk", "gpt2_next", E=C // H), given, scales, 2)
    before = cache.k.copy(), cache.v.copy()
    for at, token, message in (([0, P - 1], [[0, 0], [0, 0]], "the context is longer than the cache"),
                               ([-1, 0], [[0], [0]], "the context is longer than the cache"),
                               ([0, 0], [[0], [V]], "a token is out of range"), ([0, 0], [[-1], [0]], "a token is out of range")):
        with pytest.raises(RuntimeError, match=message):
            cache.next(at, [0, 0], numpy.array(token, numpy.int32))
        assert (cache.k == before[0]).all() and (cache.v == before[1]).all()
