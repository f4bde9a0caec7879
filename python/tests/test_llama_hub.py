"""examples/llama beside transformers: the random models of tests/llama.py, which it reads from the same folders, in binary64.

Logits of a prompt and of the tokens after it, which a cache serves, are within 1e-5 of the largest."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
hub = pytest.importorskip("transformers", reason="transformers is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("BUILD", "build")
STATICS = ROOT / BUILD / "llama/statics"


def models():
    """tests/llama.py, whose folder has modules with the names of others: it is on the path no longer than needed."""
    sys.path.insert(0, str(ROOT / "tests"))
    spec = importlib.util.spec_from_file_location("llama_models", ROOT / "tests/llama.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    sys.path.remove(str(ROOT / "tests"))
    return found


@pytest.mark.skipif(not STATICS.exists(), reason="examples/llama is not compiled: make build/llama/statics")
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"])
def test_logits(kind, tmp_path):
    made = models()
    config = {**made.SIZES, **made.MODELS[kind]}
    made.save(tmp_path, config, made.weights(config, 3), 2)
    program = subprocess.run(["examples/llama/build.sh", BUILD, tmp_path, "f32"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    token = numpy.random.default_rng(5).integers(0, config["vocab_size"], 40)
    theirs = hub.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64, attn_implementation="eager").eval()
    want = theirs(torch.tensor(token)[None]).logits[0].detach().numpy()
    for prompt in (30, 40):
        out = subprocess.run([ROOT / program, "logits", tmp_path, *map(str, token), "--prompt", str(prompt)], stdout=subprocess.PIPE, check=True).stdout
        found = numpy.frombuffer(out, "f4").reshape(-1, config["vocab_size"])
        numpy.testing.assert_allclose(found, want[prompt - 1:], rtol=0, atol=1e-5 * numpy.abs(want).max())
