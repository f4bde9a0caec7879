#!/usr/bin/env python3
"""Times every operation in every dtype, along every axis and at several sizes, against XLA and PyTorch: `make bench-matrix`.

A cell is an operation of forms.py, a dtype, an axis and a size. The kernels of one operation are compiled together as one source file; a
crash costs only its own cell. Measurements are kept in a file and not repeated, so an interrupted run continues. docs/hacking.md explains the
results.
"""

import argparse
import fnmatch
import json
import math
import os
import select
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True  # files are written to build/ only

import bench
import forms
import kept
import ours
import matrix_chart

HERE = Path(__file__).resolve().parent
CELL_LIMIT = 300  # seconds
WHOLE = {"PK_VMEM_LIMIT": str(1 << 36)}  # the block is the whole array, and a row of few elements takes a tile of VMEM
ENOUGH, BEHIND = 1.0, 0.67  # bounds of the ratio: for at least 95 % of the cells, and for every cell


@dataclass(frozen=True)
class Cell:
    form: forms.Form
    dtype: str
    axis: int
    size: str

    @property
    def key(self):
        return "/".join([self.form.name, self.dtype, forms.AXES.get(self.axis, "all"), self.size])

    @property
    def extents(self):
        if self.size == "short":
            return tuple(5 if k == self.axis else extent for k, extent in enumerate(forms.SHORT))
        return forms.SIZES[self.size]

    def filled(self, text):
        return forms.filled(text, self.dtype, self.axis, self.extents)

    def operands(self):
        """(name, dtype, shape) of each operand; the result is the last."""
        known = forms.shapes(self.extents, self.axis)
        inputs = [(name, self.filled(dtype), known[shape]) for name, dtype, shape in self.form.inputs]
        return [*inputs, ("o", self.filled(self.form.result), known[self.form.shape])]

    def text(self, name):
        *inputs, (_, result, shape) = [(name, dtype, f"{dtype}{list(shape)}") for name, dtype, shape in self.operands()]
        value = self.filled(self.form.text)
        body = value if value.endswith(";") else f"o[...] = {value};"
        return f"kernel {name}({', '.join(f'{n}: {shape}' for n, _, shape in inputs)}) -> (o: {shape}) {{ {body} }}\n"

    def bytes(self):
        return sum(math.prod(shape) * forms.BITS[dtype] // 8 for _, dtype, shape in self.operands())

    def work(self):
        """The number of operations: multiply-adds of products, else a number for each element."""
        a, b, c = self.extents
        if self.form.work:
            return self.form.work * max(math.prod(shape) for _, _, shape in self.operands())
        return 2 * a * b * (9 * 16 * max(c // 8, 1) if self.form.name == "conv" else b * c)


def cells():
    for form in forms.forms():
        for dtype in form.dtypes:
            for axis in form.axes:
                for size in form.sizes or [*forms.SIZES, *(["short"] if axis is not None else [])]:
                    yield Cell(form, dtype, axis, size)


def groups(chosen):
    found = {}
    for cell in chosen:
        found.setdefault(cell.form.name, []).append(cell)
    return found


def build(group, options):
    """Compiles the kernels k0, k1, .. of an operation into a shared object, and returns (path, errors by key)."""
    text = "".join(cell.text(f"k{n}") for n, cell in enumerate(group))
    digest = ours.contents(options.build / "libpkrt.a", options.build / "pkc", *sorted((ours.ROOT / "include/pk").rglob("*.h")))
    digest.update(text.encode())
    folder = options.build / "bench/matrix" / digest.hexdigest()[:16]
    target, failed = folder / "kernels.so", {}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels.pk").write_text(text)
    parts = []
    for n, cell in enumerate(group):
        part = folder / f"k{n}.c"
        try:
            if not part.exists():
                ours.command([options.build / "pkc", folder / "kernels.pk", "-k", f"k{n}", "-o", part])
            parts.append(part)
        except ours.BuildError as error:
            failed[cell.key] = str(error).splitlines()[0][-300:]
    if parts and not target.exists():
        source = folder / "all.c"
        source.write_text("".join(f'#include "{part}"\n' for part in parts))
        ours.compile_shared(target, ["-pthread", "-I", ours.ROOT / "include", source, options.build / "libpkrt.a"])
    return target, failed


def request_of(cell, name):
    *inputs, result = cell.operands()
    return {"key": cell.key, "kernel": name, "dtype": cell.dtype, "inputs": inputs, "result": result, "jax": cell.filled(cell.form.peer), "torch": cell.form.torch,
            "data": cell.form.data, "extents": cell.extents, "axis": cell.axis, "bytes": cell.bytes(), "work": cell.work()}


class Worker:
    """The measuring process, which is restarted if a cell ends it."""

    def __init__(self, options, native):
        self.options, self.native, self.process = options, native, None

    def start(self):
        pin = ["taskset", "-c", self.options.cpu] if self.options.cpu != "none" and shutil.which("taskset") else []
        words = [*pin, self.options.python, HERE / "matrix_measure.py", str(self.native), str(self.options.seconds), *self.options.peers]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None if self.options.verbose else subprocess.DEVNULL,
                                        env={**bench.environment(self.options), **WHOLE}, cwd=ours.ROOT, text=True)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def measure(self, library, cell):
        if not self.process:
            self.start()
        try:
            self.process.stdin.write(json.dumps({"library": str(library), **cell}) + "\n")
            self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], CELL_LIMIT)[0] and (line := self.process.stdout.readline()):
                return json.loads(line)
        except BrokenPipeError:
            pass
        status = self.process.poll()
        self.stop()
        return {"error": "no answer in time" if status is None else f"the measuring process ended with status {status}"}


def measure(group, options, worker, keep):
    """Passes the answers of a group's cells to keep(key, answer), also those of cells that end the process."""
    try:
        library, failed = build(group, options)
    except ours.BuildError as error:
        library, failed = None, {cell.key: str(error)[-300:] for cell in group}
    for n, cell in enumerate(group):
        keep(cell.key, {"error": failed[cell.key]} if cell.key in failed else worker.measure(library, request_of(cell, f"k{n}")))


# ---- measurements


def ratio(row):
    """The time of the fastest peer divided by ours; None without a peer, or if results differ."""
    times = [row[name] for name in ("jax", "torch") if name in row]
    return min(times) / row["ours"] if times and not row.get("differs") else None


def share(row):
    return max(row["bound"].values()) / row["ours"]


def shown(key, row):
    if "error" in row:
        return f"{key:<44} FAILED: {row['error']}"
    peers = " ".join(f"{name} {row[name]:.2f}" for name in ("jax", "torch") if name in row)
    found, bound = ratio(row), max(row["bound"], key=row["bound"].get)
    text = f"{key:<44} {found:6.2f}" if found else f"{key:<44}      -"
    return f"{text}  ours {row['ours']:.2f} us, {peers}; {share(row):.0%} of {bound}" + (f"; DIFFERS by {row['differs']}" if row.get("differs") else "")


def summary(rows):
    found = sorted((r, key) for key, row in rows.items() if "error" not in row and (r := ratio(row)))
    if not found:
        return "nothing was measured beside a peer"
    mean = math.exp(sum(math.log(r) for r, _ in found) / len(found))
    least = sum(r >= ENOUGH for r, _ in found) / len(found)
    return (f"{len(found)} cells beside a peer: geometric mean {mean:.2f}, {least:.1%} at least {ENOUGH:g}, {sum(r < BEHIND for r, _ in found)} below {BEHIND:g}; "
            f"the least {found[0][0]:.3f}, {found[0][1]}")


def worst(rows, count):
    order = sorted(rows, key=lambda key: (ratio(rows[key]) or math.inf) if "error" not in rows[key] else 0)
    return [shown(key, rows[key]) for key in order[:count]]


def read(path):
    return json.loads(path.read_text())["cells"] if path.exists() else {}


def write(path, machine, rows):
    """One line for each cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(rows[key])}" for key in sorted(rows))
    part = path.with_suffix(".part")
    part.write_text(f'{{"machine": {json.dumps(machine)}, "cells": {{\n{lines}\n}}}}\n')
    part.rename(path)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--cell", action="append", metavar="TEXT", help="only cells whose OPERATION/DTYPE/AXIS/SIZE contains TEXT, in which * and ? match anything (may be repeated)")
    parser.add_argument("--seconds", type=float, default=0.15, help="of rounds a cell")
    parser.add_argument("--again", action="store_true", help="measure also what was measured before")
    parser.add_argument("--worst", type=int, default=40, metavar="N", help="so many cells are printed at the end, the worst first")
    parser.add_argument("--peer", action="append", dest="peers", metavar="NAME", help="only this peer: jax, torch (none: no peer)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="what was measured (default: bench/matrix.json in the folder of --build)")
    parser.add_argument("--keep", action="store_true", help="keep it and its chart in docs/performance/matrix/, for this model of processor")
    parser.add_argument("--build", type=Path, default=ours.ROOT / "build", metavar="DIR", help="where pkc and libpkrt.a are")
    parser.add_argument("--cpu", metavar="N", help="the core to stay on (none: any; default: the last)")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="the Python that has the peers")
    parser.add_argument("--list", action="store_true", help="list the cells")
    parser.add_argument("--verbose", action="store_true", help="show what peers say on standard error")
    options = parser.parse_args(words)
    options.build = options.build.resolve()
    options.results = options.results or options.build / "bench/matrix.json"
    options.cpu = options.cpu or str(sorted(os.sched_getaffinity(0))[-1])
    options.threads, options.no_amx = 1, False
    options.peers = ["jax", "torch"] if options.peers is None else options.peers
    return options


def main(words):
    options = parse(words)
    chosen = [cell for cell in cells() if not options.cell or any(fnmatch.fnmatchcase(cell.key, f"*{text}*") for text in options.cell)]
    if options.list:
        print("\n".join(cell.key for cell in chosen))
        return 0
    rows = read(options.results)
    missing = [cell for cell in chosen if options.again or cell.key not in rows]
    worker = Worker(options, ours.build_native(options.build))
    machine = {"processor": bench.machine(), "compiler": bench.compiler(), "commit": kept.commit()}
    done = 0

    def keep(key, row):
        nonlocal done
        done += 1
        rows[key] = row
        bench.show("")
        print(f"{done}/{len(missing)} {shown(key, row)}", flush=True)

    try:
        for form, group in groups(missing).items():
            bench.show(f"{done}/{len(missing)} {form}")
            measure(group, options, worker, keep)
            write(options.results, machine, rows)
    except KeyboardInterrupt:
        print("interrupted: the next run continues from here", file=sys.stderr)
    finally:
        worker.stop()
        write(options.results, machine, rows)
    mine = {cell.key: rows[cell.key] for cell in chosen if cell.key in rows}
    print(f"\n{summary(mine)}\nthe worst:", *worst(mine, options.worst), sep="\n")
    chart = matrix_chart.chart(rows, ratio)
    options.results.with_suffix(".svg").write_text(chart)
    if options.keep:
        path = kept.path_of(bench.machine(), kept.FOLDER / "matrix")
        write(path, machine, rows)
        path.with_suffix(".svg").write_text(chart)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
