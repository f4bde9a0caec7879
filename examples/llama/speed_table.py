#!/usr/bin/env python3
"""Writes the table of README.md from speed.json, to which `measure.py --keep` adds figures.

    python3 examples/llama/speed_table.py

tests/figures.py checks that the two agree."""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "speed.json"
PAGE = HERE / "README.md"
BEGIN, END = "<!-- speed: examples/llama/speed_table.py -->", "<!-- end of speed -->"
PEERS = ("llama.cpp", "torch")
ORDER = ("f32", "bf16", "i8", "i4")


def digits(speed):
    """Three digits, or all of the integer."""
    return f"{speed:.0f}" if speed >= 100 else f"{speed:.3g}"


def row(cell):
    best = max(cell[peer] for peer in PEERS if peer in cell)
    peers = " | ".join(digits(cell[peer]) if peer in cell else "" for peer in PEERS)
    return f"| {cell['row']} | {cell['weights']} | {cell['activations']} | {cell['threads']} | {digits(cell['pkc'])} | {peers} | {cell['pkc'] / best:.2f} |"


def table(cells):
    """Rows by weights, then threads."""
    cells = sorted(cells, key=lambda cell: (ORDER.index(cell["weights"]), cell["activations"], cell["threads"], cell["row"]))
    lines = ["| | weights | activations | threads | pkc | " + " | ".join(PEERS) + " | ratio |", "|---|---|---|---|---|" + "---|" * len(PEERS) + "---|"]
    return "\n".join(lines + [row(cell) for cell in cells])


def page():
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(json.loads(DATA.read_text(encoding='utf-8')))}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
