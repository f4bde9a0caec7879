#!/usr/bin/env python3
"""GPT-2 in kernels beside llama.cpp: the same random weights, written as GGUF, logits compared, tokens a second. Options as measure.py.

    python3 examples/gpt2/measure_llama.py --rows prompt,token,token8 --weights f32,bf16,i8,i4 --threads 1,2

Requires what measure.py does, and llama_cpp (llama-cpp-python) and gguf. i8 is q8_0 there and i4 q4_0, with a scale of f16 for 32 of a row;
keys and values are f16, as llama.cpp has them unless told otherwise; --cache says what the kernels have."""
import argparse
import os
import sys
import tempfile

import gguf
import numpy

import measure
from measure import E, P, PROMPT, MODELS, Kernels, difference

sys.path.insert(0, str(measure.HERE.parent / "common"))
from llama_cpp_peer import Llama, add_matrix, finish  # noqa: E402
NAMES = {"wqkv": "attn_qkv.weight", "bqkv": "attn_qkv.bias", "wo": "attn_output.weight", "bo": "attn_output.bias", "wup": "ffn_up.weight",
         "bup": "ffn_up.bias", "wdown": "ffn_down.weight", "bdown": "ffn_down.bias"}


def write(path, made, heads, kind):
    tokens, C = made["wte"].shape
    out = gguf.GGUFWriter(path, "gpt2")
    out.add_context_length(P)
    out.add_embedding_length(C)
    out.add_feed_forward_length(4 * C)
    out.add_block_count(len(made["ln1"]))
    out.add_head_count(heads)
    out.add_layer_norm_eps(1e-5)
    out.add_vocab_size(tokens)
    out.add_tokenizer_model("none")

    def norm(name, pair):
        for part, array in zip(("weight", "bias"), pair):
            out.add_tensor(f"{name}.{part}", numpy.ascontiguousarray(array))
    add_matrix(out, "token_embd.weight", made["wte"], kind)
    out.add_tensor("position_embd.weight", made["wpe"])
    norm("output_norm", made["lnf"])
    for layer in range(len(made["ln1"])):
        norm(f"blk.{layer}.attn_norm", made["ln1"][layer])
        norm(f"blk.{layer}.ffn_norm", made["ln2"][layer])
        for name, place in NAMES.items():
            if name[0] == "w":
                add_matrix(out, f"blk.{layer}.{place}", made[name][layer].T, kind)
            else:
                out.add_tensor(f"blk.{layer}.{place}", made[name][layer])
    finish(out)


def measured(o, made, path, row, dtype, threads, timed):
    batch, count, at = {"prompt": (1, PROMPT, 0), "token": (1, 1, PROMPT), "token8": (8, 1, PROMPT)}[row]
    _, heads, tokens = MODELS[o.model]
    token = numpy.random.default_rng(2).integers(0, tokens, (batch, count)).astype(numpy.int32)
    prompt = numpy.random.default_rng(3).integers(0, tokens, (batch, PROMPT)).astype(numpy.int32)
    mine = Kernels(made, heads, dtype, batch, threads, o.products if dtype != "f32" else "f32", True, o.cache)
    other = Llama(path, batch, P, PROMPT, tokens, threads)
    if at:
        mine.next(prompt, 0)
        other.next(prompt, 0)
    apart = difference(mine.next(token, at), other.next(token, at))
    best = timed([lambda: mine.next(token, at), lambda: other.next(token, at)], o.seconds)
    other.close()
    return batch * count, apart, best


def main(timed=measure.alternate):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="124M")
    parser.add_argument("--rows", default="prompt,token,token8")
    parser.add_argument("--weights", default="f32,bf16,i8,i4")
    parser.add_argument("--products", choices=measure.TORCH, default="bf16", help="what narrow weights are multiplied in (bf16)")
    parser.add_argument("--cache", choices=["f32", "f16"], default="f16", help="keys and values of the kernels (f16)")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=5)
    o = parser.parse_args()
    made = measure.weights(*MODELS[o.model])
    print(f"{'row':10} {'weights':8} {'threads':7} {'pkc tok/s':>10} {'llama tok/s':>11} {'ratio':>6}  largest difference / largest value", flush=True)
    for dtype in o.weights.split(","):
        with tempfile.TemporaryDirectory(prefix="gpt2_") as folder:
            path = os.path.join(folder, "model.gguf")
            write(path, made, MODELS[o.model][1], dtype)
            for threads in map(int, o.threads.split(",")):
                for row in o.rows.split(","):
                    count, apart, best = measured(o, made, path, row, dtype, threads, timed)
                    print(f"{row:10} {dtype:8} {threads:7} {count / best[0]:10.1f} {count / best[1]:11.1f} {best[1] / best[0]:6.2f}  {apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
