#!/usr/bin/env python3
"""Damaged files for the readers of examples/: tensors, tokens and configurations. tests/fuzzing/readers.c, compiled with the address sanitizer,
damages good files and reads them; a file is accepted, or refused with one line, before memory is allocated for more data than it has.

tests/readers.py --seed 3 --count 100000 runs longer. Ends with `N passed, N failed`."""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import numpy

from llama import MODELS, SIZES, byte_tokenizer, gpt2_tokenizer, piece_tokenizer, write
from sampling import LEVEL
from suite import ROOT, check, finish

SOURCES = ["tests/fuzzing/readers.c", "examples/llama/config.c", *(f"examples/common/{name}.c" for name in ("json", "tensors", "npz", "tokens", "tokenizer", "words"))]
FLAGS = ["-std=c11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Iexamples/common", "-Iexamples/llama"]
# An allocation that is too large for a small file returns NULL, and the line of the sanitizer counts as a second message.
LIMITS = {"ASAN_OPTIONS": "max_allocation_size_mb=32:allocator_may_return_null=1:detect_leaks=1"}


def good_files(folder):
    """(kind, file, further arguments)"""
    def written(name, text):
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name
    draw = numpy.random.default_rng(1)
    tensors = {f"model.layers.{i}.weight": draw.standard_normal((3, 2 + i)).astype("f4") for i in range(4)}
    for dtype in ("F32", "BF16"):
        write(folder / f"{dtype}.safetensors", tensors, dtype)
        yield "tensors", folder / f"{dtype}.safetensors"
    numpy.savez(folder / "arrays.npz", **tensors, wide=numpy.arange(5.0), number=numpy.int64(3))
    yield "tensors", folder / "arrays.npz"
    tokenizers = {"llama3": byte_tokenizer(3, False), "qwen": byte_tokenizer(1, True), "gemma": piece_tokenizer(), "mistral": piece_tokenizer("first"), "gpt2": gpt2_tokenizer()}
    for name, (made, _) in tokenizers.items():
        yield "tokenizer", written(f"{name}.json", json.dumps(made))
    model = tokenizers["gpt2"][0]["model"]
    encoder, merges = written("encoder.json", json.dumps(model["vocab"])), written("vocab.bpe", "#version: 0.2\n" + "\n".join(model["merges"]) + "\n")
    yield "encoder", encoder, merges
    yield "merges", merges, encoder
    for name, members in MODELS.items():
        yield "config", written(f"{name}.config.json", json.dumps({**SIZES, **members}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default={"fast": 200, "sample": 1000, "all": 5000}[LEVEL])
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="readers_") as name:
        folder = pathlib.Path(name)
        program = folder / "readers"
        made = subprocess.run([os.environ.get("CC", "cc"), *FLAGS, *SOURCES, "-lm", "-o", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if check("the readers are compiled with the sanitizer", made.returncode == 0, made.stdout[-600:]):
            for kind, file, *more in good_files(folder):
                words = [kind, str(file), str(o.seed), str(o.count), *map(str, more)]
                done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **LIMITS}, timeout=1800, check=False)
                check(f"{o.count} damaged copies of {file.name}", done.returncode == 0, done.stdout.decode(errors="replace")[-1500:])
    return finish()


if __name__ == "__main__":
    raise SystemExit(main())
