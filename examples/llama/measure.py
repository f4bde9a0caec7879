#!/usr/bin/env python3
"""Compares the program of examples/llama with llama.cpp and torch on a random Llama: its logits, and tokens per second of a prompt and of single tokens.

    python3 examples/llama/measure.py --weights f32,bf16,i8,i4 --threads 1,2

Requires NumPy, and for each peer of --peers its package: llama_cpp (llama-cpp-python) with gguf, or torch. i8 is q8_0 in llama.cpp and i4 q4_0;
torch has neither. Keys and values are f16, with f32 weights f32, and in torch as the weights. Each figure is the best of --rounds, in which the programs alternate.
--keep FILE adds the figures to a file of JSON, in place of earlier ones of the same cell."""
import argparse
import json
import os
import platform
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPES = {"tiny": (2, 64, 128, 4, 2, 500), "300M": (4, 2048, 5632, 32, 8, 32000), "1B": (16, 2048, 8192, 32, 8, 128256)}
HF_NAMES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj", "gate": "mlp.gate_proj",
           "up": "mlp.up_proj", "down": "mlp.down_proj"}
GGUF_NAMES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
BASE, EPS = 10000.0, 1e-5


class Model:
    """Random weights: `table`, `head`, and for each layer the matrices of HF_NAMES. Norms multiply by 1."""

    def __init__(self, shape, seed=1):
        self.layers, self.C, self.F, self.H, self.G, self.tokens = shape
        self.D, draw = self.C // self.H, numpy.random.default_rng(seed)

        def matrix(rows, columns):
            return ((draw.random((rows, columns), numpy.float32) - 0.5) * numpy.float32((12 / columns) ** 0.5))
        kv = self.G * self.D
        rows = {"q": (self.C, self.C), "k": (kv, self.C), "v": (kv, self.C), "o": (self.C, self.C), "gate": (self.F, self.C), "up": (self.F, self.C),
                "down": (self.C, self.F)}
        self.table, self.head = matrix(self.tokens, self.C), matrix(self.tokens, self.C)
        self.layer = [{name: matrix(*size) for name, size in rows.items()} for _ in range(self.layers)]

    def write_folder(self, folder, positions):
        """config.json and model.safetensors."""
        (folder / "config.json").write_text(json.dumps({
            "model_type": "llama", "hidden_act": "silu", "hidden_size": self.C, "intermediate_size": self.F, "num_hidden_layers": self.layers,
            "num_attention_heads": self.H, "num_key_value_heads": self.G, "vocab_size": self.tokens, "max_position_embeddings": positions,
            "rms_norm_eps": EPS, "rope_theta": BASE, "tie_word_embeddings": False}))
        ones = numpy.ones(self.C, numpy.float32)
        tensors = {"model.embed_tokens.weight": self.table, "lm_head.weight": self.head, "model.norm.weight": ones}
        for i, layer in enumerate(self.layer):
            tensors.update({f"model.layers.{i}.{HF_NAMES[name]}.weight": array for name, array in layer.items()})
            tensors.update({f"model.layers.{i}.{name}_layernorm.weight": ones for name in ("input", "post_attention")})
        header, at = {}, 0
        for name, array in tensors.items():
            header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for array in tensors.values():
                out.write(array.tobytes())


# ---- the programs: each has round(), which returns tokens per second of a prompt and of single tokens, and logits(tokens), after the last of them

ROUNDED = {"bf16": "bf16", "i8": "i8", "i4": "i8"}


def activations_of(o, weights):
    return ROUNDED.get(weights, "f32") if o.activations == "rounded" else "f32"


class Kernels:
    """`llama speed` and `llama logits` of the program that `make llama` compiles."""

    def __init__(self, o, model, folder, weights, threads):
        self.o, self.folder, self.threads, self.tokens = o, folder, threads, model.tokens
        activations = activations_of(o, weights)
        done = subprocess.run(["make", "-s", "llama", f"MODEL={folder}", f"WEIGHTS={weights}", f"ACTIVATIONS={activations}"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        self.program = ROOT / done.stdout.split()[-1]

    def run(self, *words):
        return subprocess.run([self.program, *map(str, words), "--threads", str(self.threads)], check=True, stdout=subprocess.PIPE).stdout

    def round(self):
        said = self.run("speed", self.folder, "--prompt", self.o.prompt, "--length", self.o.length).decode()
        prompt, step = re.search(r": ([\d.]+) tokens/s; .* at best ([\d.]+)", said).groups()
        return float(prompt), float(step)

    def logits(self, token):
        return numpy.frombuffer(self.run("logits", self.folder, *token), "f4").reshape(-1, self.tokens)[-1]


class Peer:
    """A peer has next(tokens, at): the logits after the last of these tokens, whose first has position `at`."""

    def round(self):
        token = numpy.arange(self.o.prompt) * 7919 % self.model.tokens
        start = time.perf_counter()
        self.next(token, 0)
        prompt, best = time.perf_counter() - start, float("inf")
        for i in range(self.o.length):
            start = time.perf_counter()
            self.next(token[i % len(token):][:1], self.o.prompt + i)
            best = min(best, time.perf_counter() - start)
        return self.o.prompt / prompt, 1 / best

    def logits(self, token):
        return self.next(numpy.array(token), 0)


class LlamaCpp(Peer):
    name = "llama.cpp"

    @staticmethod
    def takes(weights):
        return True

    def __init__(self, o, model, folder, weights, threads):
        sys.path.insert(0, str(ROOT / "examples" / "common"))
        import llama_cpp_peer
        self.o, self.model, path = o, model, folder / f"{weights}.gguf"
        if not path.exists():
            self.write(path, weights, llama_cpp_peer)
        self.llama = llama_cpp_peer.Llama(path, 1, o.prompt + o.length, o.prompt, model.tokens, threads, weights == "f32")

    def write(self, path, weights, peer):
        import gguf
        m, out = self.model, gguf.GGUFWriter(path, "llama")
        out.add_context_length(self.o.prompt + self.o.length)
        out.add_embedding_length(m.C)
        out.add_feed_forward_length(m.F)
        out.add_block_count(m.layers)
        out.add_head_count(m.H)
        out.add_head_count_kv(m.G)
        out.add_layer_norm_rms_eps(EPS)
        out.add_rope_freq_base(BASE)
        out.add_rope_dimension_count(m.D)
        out.add_vocab_size(m.tokens)
        out.add_tokenizer_model("none")
        ones = numpy.ones(m.C, numpy.float32)
        peer.add_matrix(out, "token_embd.weight", m.table, weights)
        peer.add_matrix(out, "output.weight", m.head, weights)
        out.add_tensor("output_norm.weight", ones)
        for i, layer in enumerate(m.layer):
            for name in ("attn_norm", "ffn_norm"):
                out.add_tensor(f"blk.{i}.{name}.weight", ones)
            for name, array in layer.items():
                if name in "qk":  # GGUF's Llama rotates neighbours, safetensors' halves
                    array = array.reshape(-1, 2, m.D // 2, m.C).swapaxes(1, 2).reshape(array.shape)
                peer.add_matrix(out, f"blk.{i}.{GGUF_NAMES[name]}.weight", array, weights)
        peer.finish(out)

    def next(self, token, at):
        return self.llama.next(token[None], at)[0].copy()

    def close(self):
        self.llama.close()


class Torch(Peer):
    """The model as it is written in torch: scaled_dot_product_attention, and a cache that is written in place."""
    name = "torch"

    @staticmethod
    def takes(weights):
        return weights in ("f32", "bf16")

    def __init__(self, o, model, _, weights, threads):
        import torch
        self.torch, self.o, self.model = torch, o, model
        torch.set_num_threads(threads)
        self.dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[weights]

        def of(array):
            return torch.from_numpy(array).to(self.dtype)
        self.table, self.head, self.layer = of(model.table), of(model.head), [{n: of(a) for n, a in layer.items()} for layer in model.layer]
        positions = o.prompt + o.length
        self.k, self.v = (torch.zeros(model.layers, 1, model.G, positions, model.D, dtype=self.dtype) for _ in range(2))
        angle = torch.arange(positions)[:, None] * BASE ** (-torch.arange(0, model.D, 2) / model.D)
        self.cos, self.sin = (f(torch.cat((angle, angle), -1)).to(self.dtype) for f in (torch.cos, torch.sin))

    def heads(self, x, count, rotated):
        x = x.view(1, count, -1, self.model.D).transpose(1, 2)
        if rotated is None:
            return x
        a, b = x.chunk(2, -1)
        return x * self.cos[rotated] + self.torch.cat((-b, a), -1) * self.sin[rotated]

    def next(self, token, at):
        torch, m, count = self.torch, self.model, len(token)
        F, where = torch.nn.functional, slice(at, at + count)
        with torch.inference_mode():
            h = self.table[torch.from_numpy(token)]
            for l, w in enumerate(self.layer):
                n = F.rms_norm(h, (m.C,), eps=EPS)
                q, k = (self.heads(n @ w[name].T, count, where) for name in "qk")
                self.k[l][:, :, where], self.v[l][:, :, where] = k, self.heads(n @ w["v"].T, count, None)
                a = F.scaled_dot_product_attention(q, self.k[l][:, :, :at + count], self.v[l][:, :, :at + count], is_causal=count > 1, enable_gqa=True)
                h = h + a.transpose(1, 2).reshape(count, m.C) @ w["o"].T
                n = F.rms_norm(h, (m.C,), eps=EPS)
                h = h + (F.silu(n @ w["gate"].T) * (n @ w["up"].T)) @ w["down"].T
            return (F.rms_norm(h[-1], (m.C,), eps=EPS) @ self.head.T).float().numpy()

    def close(self):
        pass


def measured(o, model, folder, weights, threads):
    """Rows of (what, pkc's tokens/s, {peer: tokens/s}), and each peer's largest difference of the logits over the largest."""
    mine = Kernels(o, model, folder, weights, threads)
    peers = [kind(o, model, folder, weights, threads) for kind in (LlamaCpp, Torch) if kind.name in o.peers and kind.takes(weights)]
    token = [int(t) for t in numpy.random.default_rng(2).integers(0, model.tokens, min(20, o.prompt))]
    want = mine.logits(token)
    apart = {peer.name: numpy.abs(peer.logits(token) - want).max() / numpy.abs(want).max() for peer in peers}
    best = {each: (0.0, 0.0) for each in [mine, *peers]}
    for _ in range(o.rounds):
        for each in best:
            best[each] = tuple(map(max, best[each], each.round()))
    for peer in peers:
        peer.close()
    return [(what, best[mine][i], {peer.name: best[peer][i] for peer in peers}) for i, what in enumerate(("prompt", "token"))], apart


def keep(path, o, weights, threads, rows, apart):
    """Each row as an object; those of the same cell are replaced."""
    path = pathlib.Path(path)
    kept = json.loads(path.read_text()) if path.exists() else []
    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), platform.machine())
    activations = activations_of(o, weights)
    for what, own, others in rows:
        cell = {"row": what, "weights": weights, "activations": activations, "threads": threads, "model": o.model, "prompt": o.prompt, "processor": processor}
        kept = [each for each in kept if any(each[name] != value for name, value in cell.items())]
        kept.append({**cell, "pkc": round(own, 2), **{name: round(value, 2) for name, value in others.items()},
                     "apart": {name: float(f"{value:.1e}") for name, value in apart.items()}})
    path.write_text("[\n" + ",\n".join(json.dumps(each) for each in kept) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="300M")
    parser.add_argument("--weights", default="f32,bf16,i8,i4")
    parser.add_argument("--activations", choices=("f32", "rounded"), default="rounded", help="rounded: to bf16 for bf16 weights, to i8 for i8 and i4, as llama.cpp does")
    parser.add_argument("--peers", default="llama.cpp,torch")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--length", type=int, default=32, help="tokens after the prompt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", metavar="FILE", help="add the figures to this file of JSON")
    o = parser.parse_args()
    o.peers = o.peers.split(",")
    model = Model(SHAPES[o.model])
    names = [kind.name for kind in (LlamaCpp, Torch) if kind.name in o.peers]
    print(f"{'row':8} {'weights':8} {'threads':7} {'pkc tok/s':>10}" + "".join(f" {name:>10} {'ratio':>6} {'apart':>8}" for name in names), flush=True)
    with tempfile.TemporaryDirectory(prefix="llama_") as made:
        folder = pathlib.Path(made)
        model.write_folder(folder, o.prompt + o.length)
        for weights in o.weights.split(","):
            for threads in map(int, o.threads.split(",")):
                rows, apart = measured(o, model, folder, weights, threads)
                if o.keep:
                    keep(o.keep, o, weights, threads, rows, apart)
                for what, own, others in rows:
                    cells = [f" {others[n]:10.1f} {own / others[n]:6.2f} {apart[n]:8.1e}" if n in others else f" {'':>10} {'':>6} {'':>8}" for n in names]
                    print(f"{what:8} {weights:8} {threads:7} {own:10.1f}{''.join(cells)}", flush=True)
            gguf = folder / f"{weights}.gguf"
            if gguf.exists():
                os.unlink(gguf)


if __name__ == "__main__":
    main()
