#!/usr/bin/env python3
"""examples/llama: logits of small random models of each family, compared with the same models in NumPy, in each form of the weights; tokens,
texts, and refused files.

python/tests/test_llama_hub.py compares them with transformers. Ends with `N passed, N failed`."""
import collections
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unicodedata

import numpy

from suite import ROOT, check, finish

BUILD = os.environ.get("BUILD", "build")
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 130,
         "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "use_cache": True, "eos_token_id": [1, 2], "sliding_window": None}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
GEMMA = {"head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 24, "sliding_window": 8}
MODELS = {
    "llama": {"model_type": "llama", "hidden_act": "silu", "rope_theta": 500000.0, "rope_scaling": LLAMA3},
    "mistral": {"model_type": "mistral", "hidden_act": "silu", "rope_theta": 1e6, "sliding_window": 8, "head_dim": None},
    "qwen2": {"model_type": "qwen2", "hidden_act": "silu", "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}, "layer_types": ["full_attention"] * 3},
    "qwen3": {"model_type": "qwen3", "hidden_act": "silu", "rope_theta": 1e6, "head_dim": 32, "tie_word_embeddings": True, "rope_scaling": None},
    "gemma2": {"model_type": "gemma2", "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0, "rope_theta": 1e4,
               "rope_scaling": {"rope_type": "linear", "factor": 4.0}, **GEMMA},
    "gemma3": {"model_type": "gemma3_text", "num_hidden_layers": 8, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
               "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 3, **GEMMA},
}


def weights(config, seed):
    """Random tensors by their published names: norms near the identity, matrices that keep the size of a row."""
    draw, c = numpy.random.default_rng(seed), config
    C, D, gemma = c["hidden_size"], c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"], c["model_type"].startswith("gemma")
    H, G, F = c["num_attention_heads"], c["num_key_value_heads"], c["intermediate_size"]

    def norm(n):
        return (draw.standard_normal(n) * 0.3 + (0 if gemma else 1)).astype("f4")

    def matrix(rows, columns):
        return (draw.standard_normal((rows, columns)) / columns ** 0.5).astype("f4")
    tensors = {"model.embed_tokens.weight": matrix(c["vocab_size"], C), "model.norm.weight": norm(C)}
    if not c.get("tie_word_embeddings", gemma):
        tensors["lm_head.weight"] = matrix(c["vocab_size"], C)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, rows, columns in (("self_attn.q_proj", H * D, C), ("self_attn.k_proj", G * D, C), ("self_attn.v_proj", G * D, C), ("self_attn.o_proj", C, H * D),
                                    ("mlp.gate_proj", F, C), ("mlp.up_proj", F, C), ("mlp.down_proj", C, F)):
            tensors[f"{at}{name}.weight"] = matrix(rows, columns)
            if c["model_type"] == "qwen2" and name[10] in "qkv":
                tensors[f"{at}{name}.bias"] = norm(rows) - 1
        for name in ["input_layernorm", "post_attention_layernorm"] + ["pre_feedforward_layernorm", "post_feedforward_layernorm"] * gemma:
            tensors[f"{at}{name}.weight"] = norm(C)
        if c["model_type"] in ("qwen3", "gemma3_text"):
            tensors[f"{at}self_attn.q_norm.weight"], tensors[f"{at}self_attn.k_norm.weight"] = norm(D), norm(D)
    return tensors


def angles(base, D, scaling):
    """The angle of each pair of features at position 1."""
    step = base ** (-numpy.arange(0, D, 2) / D)
    kind = (scaling or {}).get("rope_type", "default")
    if kind == "linear":
        return step / scaling["factor"]
    if kind == "llama3":
        turns = scaling["original_max_position_embeddings"] * step / (2 * numpy.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept = numpy.clip((turns - low) / (high - low), 0, 1)
        return step * (kept + (1 - kept) / scaling["factor"])
    return step


def rounded(x):
    """Rows in blocks of 32, rounded to bytes with a scale for each block."""
    block = x.reshape(*x.shape[:-1], -1, 32)
    scale = numpy.abs(block).max(-1, keepdims=True) / 127
    return (numpy.round(block / numpy.where(scale == 0, 1, scale)) * scale).reshape(x.shape)


def logits(config, tensors, token, cache="f8", multiplied=lambda x: x):
    """The logits after each token, in binary64, of the whole sequence at once. Keys and values are rounded to the dtype `cache`, and the operands of matrices
    are passed through `multiplied`."""
    c, t = config, {name: value.astype("f8") for name, value in tensors.items()}
    gemma = c["model_type"].startswith("gemma")
    mistral = c["model_type"] == "mistral"
    C, H, G = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    D = c.get("head_dim") or C // H
    about = c.get("rope_parameters") or {"rope_theta": c.get("rope_theta"), **(c.get("rope_scaling") or {})}
    period = {"gemma2": 2}.get(c["model_type"], c.get("sliding_window_pattern", 1))
    N = len(token)

    def norm(x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * (t[name + ".weight"] + gemma)

    def turn(x, step):
        angle = (numpy.arange(N)[:, None] * step)[:, None, :]
        a, b = x[..., :D // 2], x[..., D // 2:]
        return numpy.concatenate((a * numpy.cos(angle) - b * numpy.sin(angle), b * numpy.cos(angle) + a * numpy.sin(angle)), -1)

    def active(x):
        return 0.5 * x * (1 + numpy.tanh((2 / numpy.pi) ** 0.5 * (x + 0.044715 * x ** 3))) if gemma else x / (1 + numpy.exp(-x))
    h = t["model.embed_tokens.weight"][token] * (C ** 0.5 if gemma else 1)
    for layer in range(c["num_hidden_layers"]):
        at, local = f"model.layers.{layer}.", mistral or gemma and layer % period != period - 1
        n = norm(h, at + "input_layernorm")
        q, k, v = (multiplied(n) @ t[f"{at}self_attn.{name}_proj.weight"].T + t.get(f"{at}self_attn.{name}_proj.bias", 0) for name in "qkv")
        q, k, v = q.reshape(N, H, D), k.reshape(N, G, D), v.reshape(N, G, D)
        if at + "self_attn.q_norm.weight" in t:
            q, k = norm(q, at + "self_attn.q_norm"), norm(k, at + "self_attn.k_norm")
        own = local and "rope_local_base_freq" in c
        step = angles(c["rope_local_base_freq"], D, None) if own else angles(about["rope_theta"], D, about)
        q, k = turn(q, step), turn(k, step)
        k, v = k.astype(cache).astype("f8"), v.astype(cache).astype("f8")
        score = numpy.einsum("nhd,mhd->hnm", q, k.repeat(H // G, 1)) * (c.get("query_pre_attn_scalar", D) ** -0.5)
        if c.get("attn_logit_softcapping"):
            score = c["attn_logit_softcapping"] * numpy.tanh(score / c["attn_logit_softcapping"])
        back = numpy.arange(N)[:, None] - numpy.arange(N)
        score = numpy.where((back >= 0) & (back < (c["sliding_window"] if local else N)), score, -numpy.inf)
        p = numpy.exp(score - score.max(-1, keepdims=True))
        a = numpy.einsum("hnm,mhd->nhd", p / p.sum(-1, keepdims=True), v.repeat(H // G, 1)).reshape(N, H * D)
        a = multiplied(a) @ t[at + "self_attn.o_proj.weight"].T
        h = h + (norm(a, at + "post_attention_layernorm") if gemma else a)
        n = norm(h, at + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm"))
        n = multiplied(n)
        u = multiplied(active(n @ t[at + "mlp.gate_proj.weight"].T) * (n @ t[at + "mlp.up_proj.weight"].T)) @ t[at + "mlp.down_proj.weight"].T
        h = h + (norm(u, at + "post_feedforward_layernorm") if gemma else u)
    o = multiplied(norm(h, "model.norm")) @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).T
    return c["final_logit_softcapping"] * numpy.tanh(o / c["final_logit_softcapping"]) if c.get("final_logit_softcapping") else o


def narrowed(tensors, form):
    """The weights in the precision of the form."""
    def bf16(x):
        bits = x.view("u4")
        return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype("u4").view("f4")

    def i8(x):
        scale = numpy.abs(x).max(1, keepdims=True) / 127
        return numpy.round(x / scale) * scale

    def i4(x):
        rows = x.reshape(len(x), -1, 32)
        scale = (numpy.abs(rows).max(2, keepdims=True) / numpy.float32(7)).astype("f2").astype("f4")
        return (numpy.clip(numpy.round(rows / scale), -8, 7) * scale).reshape(x.shape)
    change = {"f32": lambda x: x, "bf16": bf16, "i8": i8, "i4": i4}[form]
    return {name: change(value) if value.ndim == 2 else value for name, value in tensors.items()}


def write(path, tensors, dtype="F32"):
    header, data = {}, b""
    for name, value in tensors.items():
        raw = (value.view("u4") >> 16).astype("u2").tobytes() if dtype == "BF16" else value.astype("f4").tobytes()
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def save(folder, config, tensors, files=1):
    """One file, or several and their index."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    if files == 1:
        write(folder / "model.safetensors", tensors)
        return
    place = {name: f"model-{i % files + 1:05}-of-{files:05}.safetensors" for i, name in enumerate(names)}
    for file in sorted(set(place.values())):
        write(folder / file, {name: tensors[name] for name in names if place[name] == file})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": place}))


def build(folder, form, *activations):
    done = subprocess.run(["examples/llama/build.sh", BUILD, folder, form, *activations], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    check(f"{folder.name} builds in {' by '.join((form, *activations))}", done.returncode == 0, done.stderr[-800:])
    return ROOT / done.stdout.strip() if done.returncode == 0 else None


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def check_logits(name, form, folder, config, tensors, program, multiplied=lambda x: x):
    token = numpy.random.default_rng(7).integers(0, config["vocab_size"], 40)
    want = logits(config, narrowed(tensors, form), token, "f4" if form == "f32" else "f2", multiplied)
    limit = {"f32": 1e-5}.get(form, 5e-3) * numpy.abs(want).max()  # keys and values of narrow weights are f16
    for prompt, threads in ((30, 1), (1, 2), (40, 2)):
        status, out, err = run(program, "logits", folder, *token, "--prompt", prompt, "--threads", threads)
        got = numpy.frombuffer(out, "f4").reshape(-1, config["vocab_size"])
        good = status == 0 and got.shape == want[prompt - 1:].shape
        check(f"{name} in {form}, a prompt of {prompt}", good and numpy.abs(got - want[prompt - 1:]).max() < limit,
              err or good and (numpy.abs(got - want[prompt - 1:]).max(), limit))


def check_refused(folder, config, tensors, program):
    def refused(what, expected, *words):
        status, out, err = run(program, "logits", folder, *(words or (1, 2)))
        check(f"refuses {what}", status == 1 and expected in err and err.count("\n") == 1 and err.startswith("llama: ") and not out, (status, out, err))

    def changed(what, expected, **members):
        save(folder, {**config, **members}, tensors)
        refused(what, expected)
    for name, value, expected in (("model_type", "mamba", "model_type is mamba; the kernels are written for llama"), ("hidden_act", "relu", "hidden_act is relu"),
                                  ("attention_bias", True, "attention_bias is true"), ("mla_rank", 3, "the member mla_rank is not known"),
                                  ("rope_scaling", {"rope_type": "dynamic", "factor": 2}, "rope_scaling.rope_type is dynamic"),
                                  ("rope_scaling", {**LLAMA3, "short": 1}, "the member rope_scaling.short is not known"),
                                  ("hidden_size", -3, "hidden_size is -3"), ("num_hidden_layers", 1e9, "num_hidden_layers is 1000000000.0"),
                                  ("num_hidden_layers", 5000, "at most 4096"), ("vocab_size", None, "has no vocab_size"), ("num_key_value_heads", 3, "not a multiple"),
                                  ("layer_types", ["full_attention", "chunked"], "layer_types has chunked"), ("rms_norm_eps", "x", "rms_norm_eps is x"),
                                  ("num_hidden_layers", 4, "has no tensor model.layers.3.input_layernorm.weight"), ("vocab_size", 131, "axis 0 is 130, not 131"),
                                  ("num_hidden_layers", 2, "the tensor model.layers.2."), ("rope_theta", 1e5, "compiled for another model: make llama"),
                                  ("tie_word_embeddings", True, "lm_head.weight is not the same")):
        changed(f"{name} {value}", expected, **{name: value})
    (folder / "config.json").write_text("{\"model_type\": [")
    refused("half a config.json", "not JSON of a model's configuration at byte")
    save(folder, config, {**tensors, "extra.weight": tensors["model.norm.weight"]})
    refused("another tensor", "the tensor extra.weight is not one of the model")
    save(folder, config, tensors)
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-9])
    refused("a file that is cut short", "is cut short at the tensor")
    (folder / "model.safetensors").write_bytes(data)
    refused("a token that the model lacks", "token 130: the model has 130", 130)
    index = folder / "model.safetensors.index.json"
    for text, expected in (("{}", "is not JSON with a weight_map"), ('{"weight_map": {"a": "../x"}}', "the file ../x is not in the folder"),
                           ('{"weight_map": {"a": "none.safetensors"}}', "none.safetensors: No such file"), ('{"weight_map": {"a"', "is not JSON with")):
        index.write_text(text)
        refused(f"the index {text}", expected)
    index.unlink()


# ---- tokenizer.json: byte pairs and pieces in Python

LATE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXT = pathlib.Path(__file__).read_text(encoding="utf-8")[:3000] + "Naïve CAFÉ, 12345 x² привет 你好 ½ 😀!?\n\n  \tEnd "
PARTS = ["a", "Bc", " ", "  ", "\n", "\r\n", "\t", "7", "1234", "'s", "'LL", "don't", "é", "你好", "😀", "?!", "\u3000", "(", "_", "<|end|>", "the", " kernel"]


def words_of(text, digits):
    """Splits a text into the words of Llama 3 and Qwen, by classes of characters."""
    def of(c):
        kind = unicodedata.category(c)[0]
        return "R" if c in "\r\n" else " " if c == " " else "S" if c.isspace() else kind if kind in "LN" else "O"
    classes, at = "".join(map(of, text)), 0
    pattern = re.compile(r"[^RLN]?L+|N{1,%d}| ?O+R*|[ SR]*R+|[ SR]+(?![^ SR])|[ SR]+" % digits)
    while at < len(text):
        short = re.compile(r"'(?:re|ve|ll|[stmd])", re.I).match(text, at)
        stop = (short or pattern.match(classes, at)).end()
        yield text[at:stop]
        at = stop


def joined(parts, ranks):
    parts = list(parts)
    while len(parts) > 1:
        rank, at = min((ranks.get(pair, len(ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
        if rank == len(ranks):
            break
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def learned(words, count):
    """The merges that join the most frequent pair, again and again."""
    words, merges = [list(word) for word in words], []
    for _ in range(count):
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        if not pairs:
            break
        merges.append(max(pairs, key=lambda pair: (pairs[pair], pair)))
        ranks = {pair: i for i, pair in enumerate(merges)}
        words = [joined(word, ranks) for word in words]
    return merges


def spelling():
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    hidden = iter(range(256, 512))
    return {b: chr(b) if b in shown else chr(next(hidden)) for b in range(256)}


def byte_tokenizer(digits, as_text):
    spell = spelling()
    merges = learned({"".join(spell[b] for b in word.encode()) for word in words_of(TEXT, digits)}, 90)
    vocabulary = {text: i for i, text in enumerate(dict.fromkeys([*spell.values(), *map("".join, merges)]))}
    pattern = LATE % (r"\p{N}{1,3}" if digits == 3 else r"\p{N}")
    made = {"version": "1.0", "truncation": None, "added_tokens": [{"id": len(vocabulary), "content": "<|end|>", "single_word": False, "special": True}],
            "normalizer": {"type": "NFC"} if digits == 1 else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                                                                    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "byte_fallback": False, "ignore_merges": digits == 3, "vocab": vocabulary,
                      "merges": [" ".join(pair) if as_text else list(pair) for pair in merges]}}
    ranks = {pair: i for i, pair in enumerate(merges)}

    def tokens(text):
        for i, part in enumerate(text.split("<|end|>")):
            if i:
                yield len(vocabulary)
            for word in words_of(part, digits):
                spelt = "".join(spell[b] for b in word.encode())
                yield from [vocabulary[spelt]] if digits == 3 and spelt in vocabulary else [vocabulary[p] for p in joined(spelt, ranks)]
    return made, tokens


def gpt2_tokenizer():
    """Only ByteLevel, whose words are those of GPT-2."""
    def of(c):
        kind = unicodedata.category(c)[0]
        return " " if c == " " else "S" if c.isspace() else kind if kind in "LN" else "O"
    pattern, spell = re.compile(r" ?L+| ?N+| ?O+|[ S]+(?![^ S])|[ S]+"), spelling()

    def words(text):
        classes, at = "".join(map(of, text)), 0
        while at < len(text):
            stop = (re.compile(r"'(?:re|ve|ll|[stmd])").match(text, at) or pattern.match(classes, at)).end()
            yield text[at:stop]
            at = stop
    merges = learned({"".join(spell[b] for b in word.encode()) for word in words(TEXT)}, 90)
    vocabulary = {text: i for i, text in enumerate(dict.fromkeys([*spell.values(), *map("".join, merges)]))}
    made = {"added_tokens": [{"id": len(vocabulary), "content": "<|end|>", "special": True}], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
            "model": {"dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False, "vocab": vocabulary,
                      "merges": [" ".join(pair) for pair in merges]}}
    ranks = {pair: i for i, pair in enumerate(merges)}

    def tokens(text):
        for i, part in enumerate(text.split("<|end|>")):
            if i:
                yield len(vocabulary)
            yield from (vocabulary[p] for word in words(part) for p in joined("".join(spell[b] for b in word.encode()), ranks))
    return made, tokens


def piece_tokenizer(scheme=None):
    """Spaces become U+2581 by a normalizer, as in Llama 2 and Gemma, or by Metaspace with its prepend_scheme, as in Mistral."""
    spaced = "▁".join(TEXT.split(" "))
    merges = learned([spaced[:1500]], 60)
    letters = sorted(set(spaced) - set("é你"))
    vocabulary = {text: i for i, text in enumerate(dict.fromkeys(["<unk>", "<bos>", *(f"<0x{b:02X}>" for b in range(256)), *letters, *map("".join, merges)]))}
    made = {"added_tokens": [{"id": 1, "content": "<bos>", "special": True}, {"id": len(vocabulary), "content": "<|end|>", "special": True}],
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
            "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                               "special_tokens": {"<bos>": {"id": "<bos>", "ids": [1], "tokens": ["<bos>"]}}},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocabulary,
                      "merges": list(map(list, merges))}}
    if scheme:
        made["normalizer"], made["pre_tokenizer"] = None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
    ranks = {pair: i for i, pair in enumerate(merges)}

    def tokens(text):
        yield 1
        for i, part in enumerate(text.split("<|end|>")):
            if i:
                yield len(vocabulary)
            if part and part[0] not in " ▁" and (scheme == "always" or scheme == "first" and i == 0):
                part = " " + part
            parts = [p for c in part.replace(" ", "▁") for p in ([c] if c in vocabulary else [f"<0x{b:02X}>" for b in c.encode()])]
            yield from (vocabulary[p] for p in joined(parts, ranks))
    return made, tokens


def check_tokenizers(folder, program):
    draw = random.Random(5)
    texts = ["".join(draw.choice(PARTS) for _ in range(draw.randint(1, 25))) for _ in range(40)] + [TEXT[-60:]]
    path = folder / "tokenizer.json"

    def tokens(text):
        done = subprocess.run([program, "tokens", folder], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    for name, (made, wanted) in {"Llama 3": byte_tokenizer(3, False), "Qwen": byte_tokenizer(1, True), "Gemma": piece_tokenizer(), "Mistral": piece_tokenizer("first"),
                                 "Llama 2": piece_tokenizer("always"), "GPT-2": gpt2_tokenizer()}.items():
        path.write_text(json.dumps(made))
        for text in texts:
            status, out, err = tokens(text)
            want = list(wanted(text))
            check(f"tokens of {name} of {text!r}", status == 0 and list(map(int, out.split())) == want, err or (out, want))
    made = byte_tokenizer(1, False)[0]
    model, late = made["model"], made["pre_tokenizer"]
    first = model["merges"][0]
    for what, change, expected in (("WordPiece", {"model": {**model, "type": "WordPiece"}}, "model.type is WordPiece"), ("lower case", {"normalizer": {"type": "Lowercase"}}, "is Lowercase"),
                                   ("another pattern", {"pre_tokenizer": json.loads(json.dumps(late).replace("1,3", "1,4").replace("N}|", "N}+|"))}, "pattern.Regex is"),
                                   ("an unknown member", {"model": {**model, "noise": 1}}, "the member model.noise is not known"),
                                   ("a merge of no tokens", {"model": {**model, "merges": [["x", "yzzy"]]}}, "merge 0: a token is not in the vocabulary"),
                                   ("a token twice", {"model": {**model, "vocab": {**model["vocab"], "zz": 5}}}, "the token 5 is there twice"),
                                   ("a distant token", {"model": {**model, "vocab": {**model["vocab"], "zz": 10**7}}}, "more than the file can have"),
                                   ("no bytes", {"model": {**model, "vocab": dict(list(model["vocab"].items())[1:]), "merges": []}}, "has no token for the byte"),
                                   ("a long merge", {"model": {**model, "merges": [first + first]}}, "at byte")):
        path.write_text(json.dumps({**made, **change}))
        status, out, err = tokens("x")
        check(f"refuses {what}", status == 1 and expected in err and err.count("\n") == 1 and not out, (status, out, err))
    path.write_text(json.dumps(made)[:-40])
    check("refuses half a tokenizer.json", tokens("x")[0] == 1)
    path.write_text(json.dumps(made))
    status, out, err = tokens("e\u0301")
    check("refuses what NFC would change", status == 1 and "U+0301" in err and not out, (status, out, err))


def check_writing(folder, config, program):
    """A conversation and a text: each token is the one with the greatest logit."""
    made, wanted = byte_tokenizer(3, False)
    made["model"]["vocab"] = {text: i for text, i in made["model"]["vocab"].items()}
    made["added_tokens"] += [{"id": len(made["model"]["vocab"]) + 1, "content": "<|im_start|>"}, {"id": len(made["model"]["vocab"]) + 2, "content": "<|im_end|>"}]
    config = {**config, "vocab_size": len(made["model"]["vocab"]) + 3}
    save(folder, config, weights(config, 9))
    (folder / "tokenizer.json").write_text(json.dumps(made))
    prompt, length = "The kernel is", 12

    def written(verb, text, *words):
        done = subprocess.run([program, verb, folder, "--temperature", "0", *words], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr.decode()
    spelt, token = {text: b for b, text in spelling().items()}, list(wanted(prompt))
    texts, want, ends = {i: bytes(spelt[c] for c in text) for text, i in made["model"]["vocab"].items()}, b"", set(range(len(made["model"]["vocab"]) + 2, config["vocab_size"]))
    for _ in range(length):
        status, out, err = run(program, "logits", folder, *token)
        token.append(int(numpy.frombuffer(out, "f4").argmax()))
        if token[-1] in ends:
            break
        want += texts.get(token[-1], {len(texts): b"<|end|>", len(texts) + 1: b"<|im_start|>"}.get(token[-1], b""))
    status, out, err = written("write", prompt, "--length", str(length))
    check("writes the likeliest tokens", status == 0 and out == want + b"\n", (status, out, want, err))
    check("reports the speed", "read " in err and "tokens/s; wrote" in err, err)
    status, out, err = written("chat", "Hello\nAnd more\n", "--length", "5")
    check("a conversation", status == 0 and out.count(b"\n") >= 2, (status, out, err))
    for what, text, words, expected in (("an empty prompt", "", (), "the prompt is empty"), ("a long prompt", prompt * 20, ("--context", "20"), "do not fit into a context of 20"),
                                        ("a long context", prompt, ("--context", "1000"), "the model has 256 positions")):
        status, out, err = written("write", text, *words)
        check(f"refuses {what}", status == 1 and expected in err and not out, (status, out, err))


def check_kernels():
    program = next((ROOT / BUILD / "llama").glob("f32-*/llama.pk"))
    for kernel in "place place_groups remember exchange shift cap narrow".split():
        lines = [line[9:] for line in (ROOT / "examples/llama/llama.pk").read_text().splitlines() if line.startswith(f"// test: -k {kernel} ")]
        for line in lines:
            done = subprocess.run([ROOT / BUILD / "pkc", "run", program, *line.replace("threads=", "--threads=").split()], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            check(f"kernel {line}", done.returncode == 0, done.stdout)
        check(f"kernel {kernel} is tested", lines)


def main():
    forms = {"llama": ("f32", "bf16", "i8", "i4"), "gemma2": ("f32", "i4")}
    made = subprocess.run([os.environ.get("MAKE", "make"), "-s", f"BUILD={BUILD}", f"{BUILD}/llama/statics"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    check("statics are built", made.returncode == 0, made.stdout[-600:])
    with tempfile.TemporaryDirectory(prefix="llama_") as name:
        for seed, (kind, members) in enumerate(MODELS.items()):
            config, folder = {**SIZES, **members}, pathlib.Path(name) / kind
            tensors = weights(config, seed)
            save(folder, config, tensors, 1 + 2 * (seed % 2))
            for form in forms.get(kind, ("f32",)):
                program = build(folder, form)
                if program:
                    check_logits(kind, form, folder, config, tensors, program)
                if program and (kind, form) == ("llama", "f32"):
                    check_refused(folder, config, tensors, program)
                    check_tokenizers(folder, program)
                    check_writing(folder, config, program)
                    save(folder, config, tensors)
                if kind == "llama" and form in ("i8", "i4"):
                    program = build(folder, form, "i8")
                    if program:
                        check_logits("llama with rounded activations", form, folder, config, tensors, program, rounded)
                if program and (kind, form) == ("llama", "bf16"):
                    wide = {name: (value.view("u4") & 0xffff0000).view("f4") for name, value in tensors.items()}
                    write(folder / "model.safetensors", wide, "BF16")
                    check_logits("llama from BF16", form, folder, config, wide, program)
                    save(folder, config, tensors)
        check_kernels()
    return finish()


if __name__ == "__main__":
    raise SystemExit(main())
