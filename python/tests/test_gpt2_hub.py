"""examples/gpt2 beside Hugging Face's own GPT-2: models of random sizes and weights, each of one seed, that `transformers` saves as safetensors.

Logits and gradients are those of its model in binary64: within 1e-4 of the largest logit, and 2e-4 of the largest element of each gradient."""
import math
import os
import subprocess

import numpy
import pytest

import pkc
from test_gpt2 import FOLDER, NAMES

torch = pytest.importorskip("torch", reason="torch is not installed")
hub = pytest.importorskip("transformers", reason="transformers is not installed")
read = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed").load_file

PLACES = {"wqkv": "attn.c_attn.weight", "bqkv": "attn.c_attn.bias", "wo": "attn.c_proj.weight", "bo": "attn.c_proj.bias", "wup": "mlp.c_fc.weight",
          "bup": "mlp.c_fc.bias", "wdown": "mlp.c_proj.weight", "bdown": "mlp.c_proj.bias"}


def model(seed, folder, **sizes):
    """A model whose logits are far from even: its shifts and scales are drawn too. Saved in the folder, and returned in binary64."""
    draw, few = numpy.random.default_rng(seed), {"n_layer": 1, "n_head": 1, "n_positions": 8, "vocab_size": 20}
    sizes = {**{name: int(draw.integers(least, 4 * least + 1)) for name, least in few.items()}, "features": int(draw.choice([16, 32, 64])), **sizes}
    sizes["n_embd"] = sizes.pop("features") * sizes["n_head"]
    torch.manual_seed(seed)
    made = hub.GPT2LMHeadModel(hub.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    made.save_pretrained(folder)
    return made.double()


def parameters(get, layers):
    """By the names of gpt2.pk, of an array for each name of Hugging Face's."""
    def pair(name):
        return numpy.stack([get(f"transformer.{name}.{part}") for part in ("weight", "bias")])
    each = [f"h.{layer}" for layer in range(layers)]
    return {"wte": get("transformer.wte.weight"), "wpe": get("transformer.wpe.weight"), "lnf": pair("ln_f"),
            "ln1": numpy.stack([pair(name + ".ln_1") for name in each]), "ln2": numpy.stack([pair(name + ".ln_2") for name in each]),
            **{name: numpy.stack([get(f"transformer.{layer}.{place}") for layer in each]) for name, place in PLACES.items()}}


@pytest.mark.parametrize("seed", range(4))
def test_logits_and_gradients(seed, tmp_path):
    theirs = model(seed, tmp_path)
    c, stored = theirs.config, read(tmp_path / "model.safetensors")
    made, E = parameters(stored.__getitem__, c.n_layer), c.n_embd // c.n_head
    draw = numpy.random.default_rng(seed)
    token, target = (draw.integers(0, c.vocab_size, (3, c.n_positions)).astype(numpy.int32) for _ in range(2))
    logits = theirs(torch.tensor(token).long()).logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(target).long().flatten(), reduction="none")
    losses.mean().backward()
    want = logits.detach().numpy()

    step = pkc.load(FOLDER / "next.pk", "gpt2_next", E=E)
    scales = [numpy.ones(made[name].shape[:1] if name == "wte" else (c.n_layer, made[name].shape[2]), "f4") for name in "wte wqkv wo wup wdown".split()]
    k, v = (numpy.zeros((c.n_layer, 3, c.n_head, c.n_positions, E), "f4") for _ in range(2))
    given = [made[name] for name in NAMES]
    for first, count in ((0, 5), *((at, 1) for at in range(5, c.n_positions))):  # a prompt, and token by token behind it
        full = numpy.full(3, first, numpy.int32), numpy.full(3, count - 1, numpy.int32)
        part = numpy.ascontiguousarray(token[:, first:first + count])
        found = step(*full, part, k, v, *given, *scales, out=(None, k, v), threads=2)[0]
        numpy.testing.assert_allclose(found, want[:, first + count - 1], rtol=0, atol=1e-4 * numpy.abs(want).max())

    gradients = pkc.load(FOLDER / "gpt2.pk", "gpt2_gradients", S=c.n_positions, E=E)
    loss, *found = gradients(token.reshape(-1), target.reshape(-1, 1), *given, threads=2)
    numpy.testing.assert_allclose(loss[:, 0], losses.detach().numpy(), rtol=1e-4, atol=1e-4)
    grads = parameters(lambda name: theirs.get_parameter(name).grad.numpy(), c.n_layer)
    for name, got in zip(NAMES, found):
        numpy.testing.assert_allclose(got, grads[name], rtol=0, atol=2e-4 * numpy.abs(grads[name]).max(), err_msg=name)


PROGRAM = FOLDER.parents[1] / os.environ.get("BUILD", "build") / "gpt2/gpt2"


@pytest.mark.skipif(not PROGRAM.exists(), reason="examples/gpt2 is not compiled: make build/gpt2/gpt2")
@pytest.mark.parametrize("seed", range(3))
def test_program_writes_the_same(seed, tmp_path):
    """The C program reads what `transformers` saved, and writes the likeliest tokens, which are bytes."""
    theirs = model(seed, tmp_path, n_positions=64, vocab_size=256, features=64)
    prompt = b"The kernel "
    words = ["sample", "--checkpoint", tmp_path / "model.safetensors", "--prompt", prompt, "--length", "40", "--temperature", "0"]
    done = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    token = torch.tensor([list(prompt)])
    for _ in range(40):
        token = torch.cat([token, theirs(token).logits[:, -1].argmax(1, keepdim=True)], 1)
    assert done.stdout == bytes(token[0].tolist()) + b"\n"


# ---- fine-tuning

SEED, STEPS, BATCH, S, RATE = 7, 4, 3, 64, 1e-3


def random_bits(seed, counter):
    """SplitMix64, as the program draws sequences."""
    def times(a, b):
        return a * b & (1 << 64) - 1
    z = times(seed, 0xd1342543de82ef95) + times(counter + 1, 0x9e3779b97f4a7c15) & (1 << 64) - 1
    z = times(z ^ z >> 30, 0xbf58476d1ce4e5b9)
    z = times(z ^ z >> 27, 0x94d049bb133111eb)
    return z ^ z >> 31


def rate_of(step):
    warm = 0.05 * STEPS + 1
    done = min(1, (step - warm) / (STEPS - warm + 1))
    return RATE * ((step + 1) / warm if step < warm else 0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def tune(theirs, text):
    """The same steps with torch's optimiser: matrices decay."""
    named = dict(theirs.named_parameters())
    groups = [{"params": [p for p in named.values() if (p.dim() == 2) == matrix], "weight_decay": 0.1 * matrix} for matrix in (True, False)]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    for step in range(STEPS):
        at = [random_bits(SEED, step * BATCH + b) % (len(text) - S) for b in range(BATCH)]
        rows = torch.tensor([list(text[i:i + S + 1]) for i in at])
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(theirs(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(list(named.values()), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = rate_of(step)
        optimiser.step()


@pytest.mark.skipif(not PROGRAM.exists(), reason="examples/gpt2 is not compiled: make build/gpt2/gpt2")
@pytest.mark.parametrize("seed", range(2))
def test_fine_tuning(seed, tmp_path):
    """From what `transformers` saved to what it reads: the logits are those of its own model after the same steps of torch's AdamW."""
    theirs = model(seed, tmp_path / "start", n_positions=S, vocab_size=256, features=64)
    text = bytes(numpy.random.default_rng(seed).integers(0, 256, 500, dtype=numpy.uint8))
    (tmp_path / "text").write_bytes(text)
    begun = theirs(torch.tensor([list(text[:S])])).logits.detach()
    tune(theirs, text)
    for words in (["train", tmp_path / "text", "--from", tmp_path / "start/model.safetensors", "--checkpoint", tmp_path / "tuned", "--steps", STEPS,
                   "--batch", BATCH, "--seed", SEED, "--rate", RATE],
                  ["publish", tmp_path / "out", "--checkpoint", tmp_path / "tuned"]):
        done = subprocess.run([PROGRAM, *map(str, words)], stderr=subprocess.PIPE, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
    mine, about = hub.GPT2LMHeadModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(about.get(kind) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), about
    assert mine.config.n_head == theirs.config.n_head
    found, want = (m.eval().double()(torch.tensor([list(text[:S])])).logits.detach().numpy() for m in (mine, theirs))
    assert numpy.abs(want - begun.numpy()).max() > 0.05 * numpy.abs(want).max()  # the steps changed it
    numpy.testing.assert_allclose(found, want, rtol=0, atol=2e-3 * numpy.abs(want).max())
