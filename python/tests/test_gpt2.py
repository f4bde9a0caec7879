"""examples/gpt2: loss and gradients of a whole model against the same model in torch."""
import pathlib

import numpy
import pytest

import pkc

torch = pytest.importorskip("torch", reason="torch is not installed")
functional = torch.nn.functional
FILE = pathlib.Path(__file__).resolve().parents[2] / "examples/gpt2/gpt2.pk"
L, H, C, V, P = 3, 3, 24, 40, 20
NAMES = "wte wpe ln1 wqkv bqkv wo bo ln2 wup bup wdown bdown lnf".split()
SHAPES = dict(wte=(V, C), wpe=(P, C), ln1=(L, 2, C), wqkv=(L, C, 3 * C), bqkv=(L, 3 * C), wo=(L, C, C), bo=(L, C), ln2=(L, 2, C),
              wup=(L, C, 4 * C), bup=(L, 4 * C), wdown=(L, 4 * C, C), bdown=(L, C), lnf=(2, C))


def weights(seed=0):
    rng = numpy.random.default_rng(seed)
    made = {name: (0.3 * rng.standard_normal(shape)).astype(numpy.float32) for name, shape in SHAPES.items()}
    for name in ("ln1", "ln2", "lnf"):
        made[name][..., 0, :] += 1
    return made


def hidden(w, token):
    """The final hidden states, of tokens [B, S]."""
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
    rng = numpy.random.default_rng(7)
    token, target = (rng.integers(0, V, (batch, size)).astype(numpy.int32) for _ in range(2))
    made = weights()
    leaves = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in made.items()}
    logits = hidden(leaves, torch.tensor(token).long()) @ leaves["wte"].T
    losses = functional.cross_entropy(logits.reshape(-1, V), torch.tensor(target).long().reshape(-1), reduction="none")
    losses.mean().backward()
    step = pkc.load(FILE, "gpt2_gradients", S=size, E=C // H)
    loss, *found = step(token.reshape(-1), target.reshape(-1, 1), *(made[name] for name in NAMES), threads=2)
    numpy.testing.assert_allclose(loss[:, 0], losses.detach().numpy(), rtol=1e-4, atol=1e-4)
    for name, got in zip(NAMES, found):
        want = leaves[name].grad.numpy()
        numpy.testing.assert_allclose(got, want, rtol=1e-3, atol=2e-4 * max(1e-3, numpy.abs(want).max()), err_msg=name)


def test_generation():
    """Token by token, beside keys and values of earlier ones: the logits of the whole sequence."""
    rng = numpy.random.default_rng(7)
    token = rng.integers(0, V, (2, P)).astype(numpy.int32)
    made = weights()
    leaves = {name: torch.tensor(array, dtype=torch.float64) for name, array in made.items()}
    want = (hidden(leaves, torch.tensor(token).long()) @ leaves["wte"].T).numpy()
    step = pkc.load(FILE, "gpt2_next", E=C // H)
    k, v = (numpy.zeros((L, 2, P, H, C // H), numpy.float32) for _ in range(2))
    for at in range(P):
        arguments = numpy.array([at], numpy.int32), numpy.ascontiguousarray(token[:, at]), k, v, *(made[name] for name in NAMES)
        logits, _, _ = step(*arguments, out=(None, k, v))
        numpy.testing.assert_allclose(logits, want[:, at], rtol=1e-3, atol=1e-3)
    with pytest.raises(RuntimeError, match="the context is full"):
        step(numpy.array([P], numpy.int32), *arguments[1:], out=(None, k, v))
