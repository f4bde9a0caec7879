#!/usr/bin/env python3
"""--dma=literal: every logical DMA is a copy by the runtime's engine, none is skipped, packed or kept, and the results are the same."""
import os
import re
import subprocess
import sys

from suite import PKC, ROOT, check, finish

SIZES = {"M": 9, "N": 21, "K": 17, "F": 19, "D": 13, "B": 1, "H": 2, "G": 1, "S": 11}
RUN = ["add", "matmul", "softmax", "flash_attn", "mlp"]


def pkc(*words):
    return subprocess.run([PKC, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)


def operands(c_text, path):
    """(inputs, outputs) of the generated table of operands that the pipeline of the grid moves, without those that stay in HBM."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        stay = {name for line in re.findall(r"^ *block ([\w, ]+): any;", file.read(), re.MULTILINE) for name in line.split(", ")}
    rows = re.findall(r'^  \{"(\w+)", PK_\w+, \d+, (true|false), ', c_text, re.MULTILINE)
    moved = [output for name, output in rows if name not in stay]
    return moved.count("false"), moved.count("true")


def sizes_of(c_text):
    return re.findall(r'"(\w+)"', re.search(r"_sizes\[\] = \{(.*)\};", c_text)[1])


def kernels_of(path):
    """The names of the kernels and programs of a file; None instead of the name if there is only one."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        names = re.findall(r"^(?:kernel|program) (\w+)", file.read(), re.MULTILINE)
    return names if len(names) > 1 and len(set(names)) == len(names) else [None]


def problems(path, kernel):
    done = pkc("--dma=literal", "--emit=c", "--target=x86-64-v4", path, *(["-k", kernel] if kernel else []))
    if done.returncode != 0:
        return [f"exit status {done.returncode}: {done.stderr.strip()[:200]}"]
    text = done.stdout
    inputs, outputs = operands(text, path)
    counts = {  # expected text: its number of occurrences
        "pk_dma_in(": inputs,
        "pk_dma_out(": 2 * outputs,  # at each change of the block, and at the end
        "_slots": 0,
        "pk_streams(": 0,
    }
    wrong = [f"{what} occurs {text.count(what)} times, expected {n}" for what, n in counts.items() if text.count(what) != n]
    name = os.path.basename(path)[:-3]
    if name in RUN:
        words = [f"{s}={SIZES[s]}" for s in sizes_of(text) if s in SIZES]
        run = pkc("run", "--dma=literal", path, *words)
        if run.returncode != 0:
            wrong.append(f"run {' '.join(words)}: exit status {run.returncode}: {run.stderr.strip()[:200]}")
    return wrong


def main():
    for path in sorted((ROOT / "kernels").glob("*.pk")):
        path = path.relative_to(ROOT)
        for kernel in kernels_of(path):
            check(f"{path} {kernel or ''}", not (found := problems(str(path), kernel)), "; ".join(found))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
