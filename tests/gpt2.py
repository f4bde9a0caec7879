#!/usr/bin/env python3
"""examples/gpt2 trains, continues a checkpoint to the same bits, reads published ones, writes, and refuses damaged files with a message.

Byte pairs are compared with an implementation in Python; python/tests/test_gpt2.py compares the kernels with torch and NumPy.
Ends with `N passed, N failed`."""
import argparse
import importlib.util
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import unicodedata
import warnings
import zipfile

import numpy

from suite import ROOT, check, finish

BUILD = os.environ.get("BUILD", "build")
PROGRAM = ROOT / BUILD / "gpt2" / "gpt2"
# A fixed text. A model of 60 steps on a document may choose other tokens with weights in 4 bits after each edit of the document.
VERBS, THINGS = "adds copies reads sorts stores sums widens".split(), "blocks columns pages rows scales slices tiles tokens views windows words".split()
LINES = "".join(f"The kernel {VERBS[k % 7]} {k % 13 + 2} {THINGS[k * k % 11]} of `x` in step {k % 17}.\n" for k in range(2000))
text_file = tempfile.NamedTemporaryFile("w", prefix="gpt2_text_")
text_file.write(LINES)
text_file.flush()


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    return done.returncode, done.stdout.decode("latin1"), done.stderr.decode("latin1")


def refused(what, expected, *words):
    status, out, err = run(*words)
    lines = [line for line in err.splitlines() if not line.startswith("gpt2: note: ")]
    check(what, status == 1 and expected in err and len(lines) == 1 and not out, (status, out, err))


def train(folder, name, *words):
    path = folder / name
    status, out, err = run("train", text_file.name, "--checkpoint", path, "--steps", 60, "--batch", 4, *words)
    check(f"train {words}", status == 0, err)
    return path, out


# ---- published checkpoints: the names that Hugging Face gives the tensors

def read_own(path):
    """The parameters of a checkpoint of training, without the optimiser's means."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    return {name: numpy.frombuffer(data[8 + length:][slice(*about["data_offsets"])], numpy.float32).reshape(about["shape"])
            for name, about in header.items() if not name.endswith((".m", ".v"))}


def safetensors(tensors, dtype="F32", change=None):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = array.astype({"F32": numpy.float32, "F16": numpy.float16, "F64": numpy.float64}[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    if change:
        change(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def check_published(folder, own_path):
    own = read_own(own_path)
    words = ["--length", 40, "--prompt", "The kernel ", "--temperature", 0]
    want = run("sample", "--checkpoint", own_path, *words)[1]
    path = folder / "hub"

    def same(what):
        status, out, err = run("sample", "--checkpoint", path, *words)
        check(f"published: {what}", status == 0 and out == want and len(out) == 52, (status, out, err))
    path.write_bytes(safetensors(own))
    same("safetensors")
    extra = {f"transformer.{name}": array for name, array in reversed(own.items())}
    extra.update({"transformer.h.1.attn.bias": numpy.ones((1, 1, 8, 8)), "lm_head.weight": own["wte.weight"]})
    path.write_bytes(safetensors(extra))
    same("with a prefix, a mask and the head")
    path.write_bytes(safetensors(own, "F16"))
    check("published: F16", run("sample", "--checkpoint", path, *words)[0] == 0)
    with open(path, "wb") as file:
        numpy.savez(file, **own)
    same(".npz")
    whole = path.read_bytes()
    for kind in ("bf16", "i8", "i4"):
        status, out, err = run("sample", "--checkpoint", path, "--weights", kind, "--report", *words)
        check(f"weights as {kind}", status == 0 and out[:12] == want[:12] and "0 bytes" in err and "quantise" in err or kind == "bf16", err)
    bad = folder / "bad"

    def refused_file(what, expected, data):
        bad.write_bytes(data)
        refused("published: " + what, expected, "sample", "--checkpoint", bad)
    for end in (3, 100, len(whole) // 2, len(whole) - 1, len(whole) - 30):
        refused_file(f".npz cut at {end}", "", whole[:end])
    with open(bad, "wb") as file:
        numpy.savez_compressed(file, **own)
    refused("published: compressed", "is compressed", "sample", "--checkpoint", bad)
    with zipfile.ZipFile(bad, "w") as file:
        file.writestr("wte.weight.npy", b"no array")
    refused("published: no array", "wte.weight is not an array", "sample", "--checkpoint", bad)
    with zipfile.ZipFile(bad, "w") as file:
        file.writestr("archive/data.pkl", b"of torch.save")
        file.writestr("archive/data/0", bytes(64))
    refused("published: of torch.save", "safetensors.torch.save_file", "sample", "--checkpoint", bad)
    with open(bad, "wb") as file:
        numpy.savez(file, **{**own, "wte.weight": own["wte.weight"].T.copy(order="C").T})
    refused("published: Fortran's order", "C order", "sample", "--checkpoint", bad)
    text = safetensors(own)
    for end in (4, 50, len(text) // 2, len(text) - 1):
        refused_file(f"cut at {end}", "", text[:end])
    without = dict(own)
    del without["h.2.attn.c_attn.weight"]
    refused_file("a missing tensor", "layer 2 has no tensor attn.c_attn.weight", safetensors(without))
    refused_file("an unknown tensor", "score.weight is not one of a GPT-2", safetensors({**own, "score.weight": own["wpe.weight"]}))
    refused_file("another head", "not the same", safetensors({**own, "lm_head.weight": 2 * own["wte.weight"]}))
    refused_file("a wrong shape", "h.1.mlp.c_fc.bias: axis 0 is 5, not 512", safetensors({**own, "h.1.mlp.c_fc.bias": numpy.ones(5)}))
    refused_file("a wrong rank", "ln_f.bias has 2 axes, not 1", safetensors({**own, "ln_f.bias": numpy.ones((1, 128))}))
    refused_file("a wrong dtype", "of F64", safetensors(own, "F64"))
    refused_file("a huge shape", "bytes, which is not", safetensors(own, change=lambda h: h["wte.weight"].update(shape=[1 << 40, 1 << 40])))
    refused_file("wrong offsets", "is cut short at", safetensors(own, change=lambda h: h["wte.weight"].update(data_offsets=[0, 1 << 62])))
    refused_file("offsets in reverse", "is cut short at", safetensors(own, change=lambda h: h["wte.weight"].update(data_offsets=[9, 1])))
    refused_file("no offsets", "does not describe", safetensors(own, change=lambda h: h["wte.weight"].pop("data_offsets")))
    refused_file("other features", "the tensor wpe.weight: axis 1 is 128, not 100", safetensors({**own, "wte.weight": numpy.ones((256, 100))}))
    refused_file("no layers", "has no layers", safetensors({name: own[name] for name in ("wte.weight", "wpe.weight")}))
    refused_file("layer 900000", "layer 900000", safetensors({**own, "h.900000.ln_1.bias": numpy.ones(128)}))
    generator = random.Random(1)
    for _ in range(60):
        damaged = bytearray(generator.choice((text[:6000], whole[-3000:], whole[:3000] + whole[-3000:])))
        for _ in range(generator.randint(1, 6)):
            damaged[generator.randrange(len(damaged))] = generator.choice((0, 255, 34, 125, generator.randrange(256)))
        bad.write_bytes(damaged)
        check("published: damaged by chance", run("sample", "--checkpoint", bad)[0] == 1)


# ---- config.json, for parameters that shapes do not determine

def check_config(folder, own_path):
    (folder / "model").mkdir()
    model, beside, elsewhere = folder / "model" / "hub", folder / "model" / "config.json", folder / "settings"
    good = {"model_type": "gpt2", "n_head": 2, "n_layer": 4, "n_embd": 128, "n_positions": 64, "vocab_size": 256, "n_inner": None, "architectures": ["GPT2"],
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
    model.write_bytes(safetensors(read_own(own_path)))
    words = "sample", "--checkpoint", model, "--length", 0
    notes = []
    for config in (None, {}, {"n_head": None}, {"n_head": 2}, {**good, "layer_norm_epsilon": None}, good, {**good, "activation_function": "gelu_pytorch_tanh"}):
        if config is not None:
            beside.write_text(json.dumps(config))
        status, out, err = run(*words)
        check(f"config: {config}", status == 0 and out == "The \n", (status, out, err))
        notes.append([line.partition(": assumed ")[2] for line in err.splitlines() if line.startswith("gpt2: note: ")])
    rest = "activation_function gelu_new, layer_norm_epsilon 1e-05"
    check("config: what is assumed", notes == 3 * [["2 heads of 64 features, " + rest]] + [[rest], [rest[rest.index("layer"):]], [], []], notes)
    for name, value, expected in (("model_type", "gpt_neo", "is gpt_neo; the kernels are written for gpt2"), ("activation_function", "relu", "for gelu_new"),
                                  ("layer_norm_epsilon", 1e-6, "is 1e-06; the kernels are written for 1e-05"), ("layer_norm_epsilon", "x", "is x; the kernels"),
                                  ("scale_attn_weights", False, "is false; the kernels are written for true"),
                                  ("scale_attn_by_inverse_layer_idx", True, "is true"), ("n_head", 4, "heads of 32 features; this program is for 64: make build/gpt2/gpt2 GPT2_E=32"),
                                  ("n_head", 3, "the tensors have 128 features"), ("n_head", 0, "the tensors have 128 features"), ("n_head", 1 << 70, "the tensors have 128"),
                                  ("n_head", 2.5, "the tensors have 128 features"), ("n_layer", 5, "the tensors have 4"), ("n_embd", 64, "the tensors have 128"),
                                  ("n_positions", 1024, "the tensors have 64"), ("vocab_size", 50257, "the tensors have 256"), ("n_inner", 128, "the tensors have 512")):
        beside.write_text(json.dumps({**good, name: value}))
        refused(f"config: {name} {value}", f"config.json: {name} is ", *words)
        refused(f"config: why {name} {value}", expected, *words)
    for text in ("", "[]", "{", '{"n_head": }', '{"n_head": [2]}', '{"n_head": 2} 3', '{"n_head" 2}', "\0"):
        beside.write_text(text)
        refused(f"config: {text!r}", "config.json: is not JSON of a model's configuration at byte", *words)
    elsewhere.write_text(json.dumps(good))
    status, _, err = run(*words, "--config", elsewhere)
    check("config: of another place", status == 0 and "note" not in err, err)
    refused("config: a file that is not there", "No such file", *words, "--config", folder / "none")
    refused("config: a folder", "Is a directory", *words, "--config", folder)
    refused("config: of training", "is one of training", "sample", "--checkpoint", own_path, "--config", elsewhere)
    sparse_checkpoint(model, 256, 100)
    beside.unlink()
    refused("config: features that are not whole heads", "100 features are not whole heads of 64", *words)


def check_fine_tuning(folder, whole):
    """Training starts from a published model, and its result has the published form."""
    words = "train", text_file.name, "--steps", 5, "--batch", 4, "--rate", 0.0001
    hub = folder / "start"
    hub.write_bytes(safetensors(read_own(whole)))
    data = []
    for name, start in (("tuned", whole), ("again", hub)):
        status, out, err = run(*words, "--checkpoint", folder / name, "--from", start)
        check(f"fine-tuning from {start.name}", status == 0 and float(out.rsplit("loss ", 1)[1].split()[0]) < 3.6, (status, out, err))
        data.append((folder / name).read_bytes())
    check("fine-tuning: a checkpoint and a published model are the same start", data[0] == data[1] != whole.read_bytes())
    status, out, err = run("train", "README.md", "--from", hub, "--batch", 32, "--steps", 60)
    lines = [line.endswith(" left") for line in out.splitlines()[1:]]
    check("time left, but for the last step", status == 0 and len(lines) > 1 and not lines[-1] and all(lines[:-1]), (out, err))
    status, out, err = run("publish", folder / "out", "--checkpoint", folder / "tuned")
    check("publish", (status, out, err) == (0, "", ""), (status, out, err))
    names = sorted(p.name for p in (folder / "out").iterdir())
    check("publish: two files", names == ["config.json", "model.safetensors"], names)
    tuned, out = read_own(folder / "tuned"), read_own(folder / "out/model.safetensors")
    check("publish: the parameters", list(tuned) == list(out) and all((tuned[name] == out[name]).all() for name in tuned))
    words = "--length", 40, "--prompt", "The kernel ", "--temperature", 0
    own, again = (run("sample", "--checkpoint", path, *words) for path in (folder / "tuned", folder / "out/model.safetensors"))
    check("publish: without a note, and the same text", own[:2] == again[:2] and "note" not in again[2], (own, again))
    refused("publish: no checkpoint", "requires --checkpoint", "publish", folder / "out")
    refused("publish: no folder", "No such file", "publish", folder / "a" / "b", "--checkpoint", whole)
    refused("fine-tuning: a file that is not there", "No such file", "train", "README.md", "--from", folder / "none")
    refused("fine-tuning: damaged", "is not a safetensors file", "train", "README.md", "--from", "README.md")
    sparse_checkpoint(hub, 256, 128)
    refused("fine-tuning: other positions", "has heads of 64 features and 8 positions", "train", "README.md", "--from", hub)


def check_batch(whole):
    """Several prompts at once give the same as each alone, also past the end of the cache."""
    prompts = ["The kernel ", "A", "blocks and grids of the longest prompt here are"]
    words = ["sample", "--checkpoint", whole, "--length", 50, "--temperature", 0]
    alone = [run(*words, "--prompt", prompt)[1] for prompt in prompts]
    status, out, err = run(*words, "--threads", 2, *(word for prompt in prompts for word in ("--prompt", prompt)))
    # The tokens that fit into the cache before the first prompt has filled it are the same.
    same = [a[:len(p) + 18] == b[:len(p) + 18] for a, b, p in zip(alone, out.split("----\n"), prompts)]
    check("several prompts", status == 0 and len(same) == 3 and all(same), (status, err, out, alone))
    refused("a long prompt", "has 65 tokens, the context 64", "sample", "--checkpoint", whole, "--prompt", "x" * 65)
    refused("a long context", "has 64 positions", "sample", "--checkpoint", whole, "--context", 65)
    refused("a short context", "has 11 tokens, the context 10", "sample", "--checkpoint", whole, "--prompt", "The kernel ", "--context", 10)
    refused("weights", "expected f32, bf16, i8 or i4", "sample", "--checkpoint", whole, "--weights", "i2")
    status, out, err = run("sample", "--checkpoint", whole, "--length", 100, "--context", 16, "--report", "--prompt", "The kernel ")
    check("a small cache, and no allocation", status == 0 and len(out) == 112 and "first call: 0 bytes" in err and "recall" in err, err)


# ---- hostile files

def own_file(meta, tensors):
    """A checkpoint of training."""
    return safetensors(tensors, change=lambda header: header.update(__metadata__={key: str(value) for key, value in meta.items()}))


def limited(*words, limit):
    """Limits the size of files to that many bytes."""
    return subprocess.run([PROGRAM, *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))


def sparse_checkpoint(path, tokens, features):
    """All tensors of one layer, as a sparse file of zeros."""
    C, header, at = features, {}, 0
    shapes = {"wte.weight": [tokens, C], "wpe.weight": [8, C], "h.0.attn.c_attn.weight": [C, 3 * C], "h.0.attn.c_attn.bias": [3 * C],
              "h.0.attn.c_proj.weight": [C, C], "h.0.mlp.c_fc.weight": [C, 4 * C], "h.0.mlp.c_fc.bias": [4 * C], "h.0.mlp.c_proj.weight": [4 * C, C],
              **{name: [C] for norm in ("h.0.ln_1", "h.0.ln_2", "ln_f") for name in (norm + ".weight", norm + ".bias")},
              "h.0.attn.c_proj.bias": [C], "h.0.mlp.c_proj.bias": [C]}
    for name, shape in shapes.items():
        size = 2 * int(numpy.prod(shape, dtype=numpy.int64))
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + at)


def check_hostile(folder, whole):
    hub, path = read_own(whole), folder / "hostile"
    numbers = {"heads": 2, "step": 60}

    def refused_file(what, expected, data):
        path.write_bytes(data)
        refused("hostile: " + what, expected, "sample", "--checkpoint", path)
    refused_file("control characters in a name", "the tensor a??[31mb is not one", safetensors({**hub, "a\n\x1b[31mb": hub["wpe.weight"]}))
    refused_file("a tensor by two names", "transformer.ln_f.bias is there twice", safetensors({**hub, "transformer.ln_f.bias": hub["ln_f.bias"]}))
    refused_file("no number of a layer", "h.ln_1.bias is not one", safetensors({**hub, "h.ln_1.bias": hub["ln_f.bias"]}))
    refused_file("a table in a layer", "has no tensor wte.weight", safetensors({name.replace("wte", "h.0.wte"): array for name, array in hub.items()}))
    refused_file("no numbers", "the logits after token 4 are not finite", safetensors({**hub, "ln_f.bias": numpy.full(128, numpy.nan)}))
    refused_file("infinities", "are not finite", safetensors({**hub, "wpe.weight": numpy.full((64, 128), numpy.inf)}))
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, array in [*hub.items(), ("ln_f.bias", hub["ln_f.bias"])]:
            with archive.open(name + ".npy", "w") as entry:
                numpy.save(entry, array)
    refused("hostile: an entry twice", "ln_f.bias is there twice", "sample", "--checkpoint", path)
    sparse_checkpoint(path, 1 << 24, 1 << 16)
    refused("hostile: more than the machine's memory", "no memory: ", "sample", "--checkpoint", path)
    refused("hostile: a folder", "Is a directory", "sample", "--checkpoint", folder)
    for name, value, expected in (("heads", 4, "make gpt2 GPT2_E=32 GPT2_S=64"), ("heads", 0, "no good heads"), ("heads", 1 << 70, "no good heads"),
                                  ("heads", 1 << 60, "are not 1152921504606846976 whole heads"), ("step", -1, "no good step"), ("step", "x", "no good step")):
        refused_file(f"{name} {value}", expected, own_file({**numbers, name: value}, hub))
    refused_file("a mean in a published model", "wte.weight.m is not one of a GPT-2", safetensors({**hub, "wte.weight.m": hub["wte.weight"]}))
    path.write_bytes(own_file(numbers, hub))
    check("hostile: parameters alone can be sampled", run("sample", "--checkpoint", path, "--length", 0)[:2] == (0, "The \n"))
    refused("hostile: they cannot be trained", "has no tensor wte.weight.m", "train", "README.md", "--checkpoint", path)
    path.write_bytes(safetensors(hub))
    refused("hostile: nor can a published one", "is not a checkpoint of training", "train", "README.md", "--checkpoint", path)
    check_training_stays(whole, path)
    refused("hostile: top-k", "--top-k: expected a number from 0", "sample", "--top-k", "-1")
    refused("hostile: top-p", "--top-p: expected a number", "sample", "--top-p", "nan")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, "sample", "--checkpoint", whole, "--length", "0"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    check("hostile: no room for what it writes", done.returncode == 1 and "standard output: No space" in done.stderr, done.stderr)


def check_training_stays(whole, path):
    """Training that cannot continue leaves the checkpoint unchanged, and no other files."""
    data, beside = whole.read_bytes(), sorted(path.parent.iterdir())
    path.write_bytes(data)
    words = "train", "README.md", "--batch", 2, "--checkpoint", path, "--steps"
    status, out, err = run(*words, 60)
    check("hostile: all steps are done", status == 0 and "has had 60 steps: none are left" in out and not err, (out, err))
    status, _, err = run(*words, 90, "--rate", 100000)
    check("hostile: a loss that is not finite", status == 1 and "a lower --rate may help" in err, err)
    done = limited(*words, 61, limit=100000)
    check("hostile: a file that is too large", done.returncode == 1 and "cannot be written: File too large" in done.stderr, done.stderr)
    check("hostile: the checkpoint stays", path.read_bytes() == data and sorted(path.parent.iterdir()) == beside)


# ---- byte pairs

def spelling():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


SPELL = spelling()


def kind(c):
    if c in "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" or "\u2000" <= c <= "\u200a":
        return "S"
    category = unicodedata.category(c)[0]
    return category if category in "LN" else "O"


def words_of(text):
    """The published pattern: 's|'t|'re|'ve|'m|'ll|'d| ?L+| ?N+| ?(neither)+|spaces before a space or the end|spaces"""
    at = 0
    while at < len(text):
        end = next((at + len(e) for e in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d") if text.startswith(e, at)), None)
        if end is None:
            first = at + (text[at] == " " and at + 1 < len(text) and kind(text[at + 1]) != "S")
            end, of = first, kind(text[first])
            while end < len(text) and kind(text[end]) == of:
                end += 1
            if of == "S" and end < len(text) and end - at > 1:
                end -= 1
        yield text[at:end]
        at = end


def byte_pairs(text, encoder, ranks):
    for word in words_of(text):
        parts = [SPELL[b] for b in word.encode()]
        while True:
            found = min((ranks.get(pair, len(ranks)), pair) for pair in zip(parts, parts[1:])) if len(parts) > 1 else (len(ranks), None)
            if found[0] == len(ranks):
                break
            joined, i = [], 0
            while i < len(parts):
                pair = tuple(parts[i:i + 2]) == found[1]
                joined.append("".join(parts[i:i + 2]) if pair else parts[i])
                i += 1 + pair
            parts = joined
        yield from (encoder[part] for part in parts)


def random_vocabulary(generator, text):
    encoder, merges = {c: i for i, c in enumerate(SPELL.values())}, []
    words = [[SPELL[b] for b in word.encode()] for word in words_of(text)]
    while len(merges) < 300:
        word = generator.choice(words)
        if len(word) < 2:
            continue
        i = generator.randrange(len(word) - 1)
        pair = tuple(word[i:i + 2])
        if pair in merges or "".join(pair) in encoder:
            word[i:i + 2] = ["".join(pair)] if pair in merges else word[i:i + 2]
            continue
        merges.append(pair)
        encoder["".join(pair)] = len(encoder)
        word[i:i + 2] = ["".join(pair)]
    return encoder, merges


def check_byte_pairs(folder, whole):
    generator = random.Random(3)
    texts = ["", " ", "a", "The cat's 12 hats, they'll  do!\n\n  x", "naïve Ελλάδα русский 中文字 ١٢٣ ² Ⅷ 🙂🙂 a\u00a0b\u2003 c", "'s's 'll''d", "x" * 3000,
             " " * 50, "tabs\t\tand \r\n ends  "]
    texts += ["".join(generator.choice(" aé'sd1٣中.\n\u3000🙂") for _ in range(60)) for _ in range(30)]
    encoder, merges = random_vocabulary(generator, " ".join(texts))
    files = folder / "encoder.json", folder / "vocab.bpe"
    files[0].write_text(json.dumps(encoder))
    files[1].write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    ranks = {pair: i for i, pair in enumerate(merges)}
    words = ["--encoder", files[0], "--merges", files[1]]
    for first in range(0, len(texts), 20):
        some = texts[first:first + 20]
        status, out, err = run("tokens", *some, *words)
        want = "".join(" ".join(map(str, byte_pairs(text, encoder, ranks))) + "\n" for text in some)
        check("byte pairs", status == 0 and out == want, (err, [(t, a, b) for t, a, b in zip(some, out.split("\n"), want.split("\n")) if a != b][:1]))
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({"added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
                                "model": {"type": "BPE", "vocab": encoder, "merges": [f"{a} {b}" for a, b in merges]}}))
    both = [run("tokens", *texts[:20], *how) for how in (words, ["--tokenizer", file])]
    check("the same tokens from tokenizer.json", both[0][0] == 0 and both[0] == both[1], both)
    refused("two vocabularies", "--tokenizer excludes --encoder", "tokens", "x", *words, "--tokenizer", file)
    broken = subprocess.run([PROGRAM, "tokens", b"a\xff\xc3 \xe4\xb8z", *words], stdout=subprocess.PIPE, check=False).stdout
    back = {i: text for text, i in encoder.items()}
    byte = {c: b for b, c in SPELL.items()}
    check("bytes that are not text", bytes(byte[c] for i in broken.split() for c in back[int(i)]) == b"a\xff\xc3 \xe4\xb8z", broken)
    path = folder / "pairs"
    trained = ["train", "docs/language.md", "--checkpoint", path, "--batch", 2, *words, "--steps", 3]
    check("trains on byte pairs", run(*trained)[0] == 0)
    text = folder / "text"
    text.write_text(next(a + b for a, b in merges if a != b and (a + b).isascii() and (a + b).isalpha() and len(a + b) == 2) * 1000)
    trained = ["train", text, "--checkpoint", folder / "same", "--batch", 2, *words, "--steps", 40]
    run(*trained, "--stop", 39)
    status, out, err = run(*trained)
    loss = float(out.rsplit("loss ", 1)[-1].split()[0]) if status == 0 else 9
    check("what follows a pair is a pair", "continued" in out and status == 0 and loss < 0.3, (status, out, err))  # 0.69 would be the loss of two equally likely bytes
    status, out, err = run("sample", "--checkpoint", path, "--prompt", "The cat's", "--length", 10, *words)
    check("writes byte pairs", status == 0 and out.startswith("The cat's"), (status, out, err))
    refused("another vocabulary", "has 556 tokens", "sample", "--checkpoint", whole, *words)
    refused("one file alone", "require each other", "sample", "--checkpoint", whole, *words[:2])
    for what, expected, texts in (
            ("not JSON", "is not JSON", ("{", None)), ("a list", "is not JSON", ("[1, 2]", None)), ("no comma", "is not JSON", ('{"a": 1 "b": 2}', None)),
            ("few tokens", "has no token for the byte", ('{"a": 0}', None)), ("a number twice", "is there twice", ('{"a": 0, "b": 0}', None)),
            ("a large number", "more than the number", ('{"a": 77}', None)), ("a strange character", "stands for no byte", ('{"中": 0}', None)),
            ("one word in a line", "line 2: expected two tokens", (None, "#version\nab\n")), ("three words", "expected two tokens", (None, "a b c\n")),
            ("an unknown pair", "line 1: the first token is not", (None, "qqzz b\n")),
            ("an unknown sum", "together are not", (None, "q z\n") if "qz" not in encoder else (None, "z q\n"))):
        for file, text, good in zip(files, texts, (json.dumps(encoder), "")):
            file.write_text(good if text is None else text)
        refused("vocabulary: " + what, expected, "tokens", "a", *words)


# ---- the plan for TPUs

def reported(err):
    """The calls in a report by kernel; kernels for one row count as those for several."""
    calls = {}
    for line in err.split("kernel ", 1)[1].splitlines()[1:]:
        if line.strip():
            name, count = line.split()[:2]
            calls[name.removesuffix("_row")] = calls.get(name.removesuffix("_row"), 0) + int(count)
    return calls


def counted(calls, times):
    counts = {}
    for kernel, often, _ in calls:
        counts[kernel] = counts.get(kernel, 0) + times * often
    return counts


def check_plan(folder, whole):
    """The plan has as many calls of each kernel as the programs."""
    path = ROOT / "examples/gpt2/plan.py"
    spec = importlib.util.spec_from_file_location("plan", path)
    plan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan)
    plan.MODELS["tiny"] = 4, 2
    o = argparse.Namespace(chip="v5e", model="tiny", weights="f32", mesh=(1, 1), context=64)
    err = run("sample", "--checkpoint", whole, "--length", 3, "--report")[2]
    check("plan: the kernels of a token", reported(err) == counted(plan.forward_calls(o, 1, 1, 1, 9), 3), err)
    err = run("train", "README.md", "--steps", 2, "--batch", 2, "--report")[2]
    found = {kernel: n for kernel, n in reported(err).items() if kernel != "zeros"}
    check("plan: the kernels of a step of training", found == counted(plan.training_calls(o, 2, 64, 1), 2), err)

    def planned(*words):
        return subprocess.run([sys.executable, path, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    one, four = (json.loads(planned("v5e", "--json", "--context", "128", *words).stdout) for words in ((), ("--mesh", "2x2", "--plot", str(folder / "plan.svg"))))
    lines = run("--plan", "all", "--context", 128, "--mesh", "2x2", "--weights", "i4")[1].splitlines()
    chips = subprocess.run([ROOT / BUILD / "pkc", "tpu", "--chips"], stdout=subprocess.PIPE, text=True, check=False).stdout.split("\n\n")[0].splitlines()[2:]
    check("plan: all chips, called by the program", [line.split()[0] for line in lines[3:-2]] == [line.split()[0] for line in chips if "D " in line], lines)
    check("plan: the plan of one chip, called by the program", run("--plan", "v5e", "--context", 128, "--json")[1] == planned("v5e", "--context", "128", "--json").stdout)
    check("plan: a batch in two", 180 < one["weights_bound"] < 260 and one["steps"][0]["sums_s"] == 0, one["weights_bound"])
    check("plan: a mesh", all(b["sums_s"] > 0 and b["kernels_s"] < a["kernels_s"] for a, b in zip(one["steps"], four["steps"])) and
          four["steps"][2]["gradients_s"] > 0 and 0 < four["memory"]["writing"] < one["memory"]["writing"], four["memory"])
    check("plan: utilisation", all(0 < step["utilisation"] < 1 for step in one["steps"] + four["steps"]))
    times = [point["seconds"] for point in four["by_batch"]]
    check("plan: a plot", times == sorted(times) and (folder / "plan.svg").read_text().count("<polyline") == 5, times)
    planned("v5e", "--plot", str(folder / "plan.svg"))
    check("plan: the plot of the manual is not that of `build/gpt2/gpt2 --plan v5e --plot docs/gpt2-v5e.svg`",
          (folder / "plan.svg").read_text() == (ROOT / "docs/gpt2-v5e.svg").read_text())
    for words, expected in ((("v99",), "no chip v99"), (("v5e", "--mesh", "4"), "expected two numbers"), (("v5e", "--mesh", "1x13"), "12 heads"),
                            (("v5e", "--batch", "0"), "positive"), (("v5e", "--context", "2000"), "1024 positions"), (("v5e", "--model", "1B"), "invalid choice")):
        done = planned(*words)
        check(f"plan {words}", done.returncode and expected in done.stderr and not done.stdout, done.stderr)


def main():
    made = subprocess.run([os.environ.get("MAKE", "make"), "-s", f"BUILD={BUILD}", f"{BUILD}/gpt2/gpt2"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    check("builds", made.returncode == 0, made.stdout[-600:])
    if made.returncode:
        finish()
        return 1
    with tempfile.TemporaryDirectory(prefix="gpt2_") as name:
        folder = pathlib.Path(name)
        whole, out = train(folder, "whole")
        loss = float(out.rsplit("loss ", 1)[1].split()[0])
        check("the loss falls", 1 < loss < 4.2, out)
        check("same bits on two threads", train(folder, "threads", "--threads", 2)[0].read_bytes() == whole.read_bytes())
        parts, _ = train(folder, "parts", "--stop", 25)
        check("a part differs", parts.read_bytes() != whole.read_bytes())
        _, out = train(folder, "parts", "--threads", 2)
        check("continued to the same bits", "continued" in out and parts.read_bytes() == whole.read_bytes(), out)
        check("nothing is left", sorted(p.name for p in folder.iterdir()) == ["parts", "threads", "whole"])
        status, text, err = run("sample", "--checkpoint", whole, "--length", 150, "--prompt", "The kernel ")
        check("writes past its context", status == 0 and text.startswith("The kernel ") and len(text) == 150 + 12, (status, err))
        check("the same text again", run("sample", "--checkpoint", whole, "--length", 150, "--prompt", "The kernel ", "--threads", 2)[1] == text)
        greedy = run("sample", "--checkpoint", whole, "--length", 30, "--temperature", 0)[1]
        for few in (("--top-k", 1), ("--top-p", 0)):
            check(f"the likeliest: {few}", run("sample", "--checkpoint", whole, "--length", 30, "--temperature", 2, *few)[1] == greedy)
        check("another seed", run("sample", "--checkpoint", whole, "--length", 150, "--prompt", "The kernel ", "--seed", 2)[1] != text)
        data = whole.read_bytes()
        damaged = folder / "damaged"
        header = int.from_bytes(data[:8], "little")
        check_batch(whole)
        check_plan(folder, whole)
        check_published(folder, whole)
        check_config(folder, whole)
        check_fine_tuning(folder, whole)
        check_byte_pairs(folder, whole)
        check_hostile(folder, whole)
        swap = lambda a, b: data[:8] + data[8:8 + header].replace(a, b, 1) + data[8 + header:]  # noqa: E731
        assert len(swap(b'"shape":[256,128]', b'"shape":[128,256]')) == len(data)
        for what, text, expected in (
                ("empty", b"", "is not a safetensors file"), ("a text", b"hello world, this is not a model", "is not a safetensors file"),
                ("a header cut short", data[:100], "cut short"), ("a tensor cut short", data[:len(data) // 20], "is cut short at the tensor"),
                ("a wrong shape", swap(b'"shape":[256,128]', b'"shape":[128,256]'), "has heads of 128 features"),
                ("a wrong dtype", swap(b'"dtype":"F32"', b'"dtype":"I32"'), "the tensor wte.weight is of I32"),
                ("a missing tensor", swap(b'"h.0.attn.c_attn.bias":', b'"h.0.attn.c_attn.bits":'), "h.0.attn.c_attn.bits is not one of a GPT-2"),
                ("no heads", swap(b'"heads":"2"', b'"heads":"x"'), "the metadata has no good heads"),
                ("heads that do not fit", swap(b'"heads":"2"', b'"heads":"3"'), "not 3 whole heads"),
                ("no step", swap(b'"step":"60"', b'"step":"6x"'), "the metadata has no good step")):
            damaged.write_bytes(text)
            refused(what, expected, "sample", "--checkpoint", damaged)
            refused(what + ", to train", expected, "train", "README.md", "--checkpoint", damaged)
            check(what + " stays as it is", damaged.read_bytes() == text)
        refused("no text", "requires a text", "train")
        refused("a text that is not there", "No such file", "train", "no/such/text")
        refused("a short text", "at least 65 are needed", "train", "/dev/null")
        refused("no checkpoint", "requires --checkpoint", "sample")
        refused("an empty prompt", "the prompt is empty", "sample", "--checkpoint", whole, "--prompt", "")
        refused("an option", "unknown option --abc", "train", "README.md", "--abc", "1")
        refused("a number", "--steps: expected a number from 1", "train", "README.md", "--steps", "0")
        status, _, err = run("train", "README.md", "--steps", "1", "--checkpoint", folder / "a" / "b")
        check("a checkpoint that cannot be written", status == 1 and "No such file" in err, (status, err))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
