#!/usr/bin/env python3
"""No operation is far slower than the others: cells of bench-matrix against a bound, without peers, and the table of forms itself.

The bound of a cell is a number of times that a copy of as many f32 elements (f64 if its elements are wider) takes; the number follows from
the operations of the cell, with a generous margin. A dtype or an axis for which no vector loop exists takes 20 to 100 times as long and
exceeds it. Cell and copy are timed alternately, and the minimum of each counts, so that other load changes little.

    tests/bench_matrix.py [TEXT]    only cells whose OPERATION/DTYPE/AXIS/SIZE contains TEXT

Ends with "N passed, N failed".
"""
import argparse
import ctypes
import math
import os
import re
import sys

from sampling import sampled
from suite import BUILD, ROOT, check, def_rows, finish

sys.path.insert(0, str(ROOT / "tests/bench"))
import numpy as np

import forms
import matrix
import matrix_chart
import matrix_measure
import ours

ROOM = 8  # a cell may take this many times its bound
CLOSE = {"asin/f32/all/l2": 35, "acosh/f32/all/l2": 30, "erf_inv/f32/all/l2": 35, "erfc/f32/all/l2": 30, "hypot/f32/all/l2": 12, "pow/f32/all/l2": 40,
         "div/i8/all/l2": 3, "cast to f16/i64/all/l2": 2, "reduce_sum/i64/last/short": 6}  # bounds in copies, with vectors of 64 bytes, of forms whose operations are counted too low
ROUNDS, MORE_ROUNDS = 4, 40


def copying(cell):
    """A copy with as many elements, of at least 32 bits, as the largest operand of the cell."""
    count = max(math.prod(shape) for _, _, shape in cell.operands())
    wide = any(forms.BITS[dtype] > 32 for _, dtype, _ in cell.operands())
    source = np.ones(count, np.float64 if wide else np.float32)
    target = source.copy()
    return lambda: np.copyto(target, source)


def slowness(calls, most):
    """The ratio of the times of two calls, from more rounds if the first few exceed the bound."""
    repeats = {call: matrix_measure.repeats_of(call) for call in calls}
    best = dict.fromkeys(calls, math.inf)
    for number in range(MORE_ROUNDS):
        for call in calls:
            best[call] = min(best[call], matrix_measure.measure.sample(call, repeats[call])[0])
        if number + 1 >= ROUNDS and best[calls[0]] < most * best[calls[1]]:
            break
    return best[calls[0]] / best[calls[1]]


def most_of(cell, source):
    """The bound of the cell in copies; the length of vectors is read from `source`, its kernel in C."""
    if cell.key in CLOSE:
        return CLOSE[cell.key] * 64 // int(re.search(r"vectors of (\d+) bytes", source.read_text())[1])
    return ROOM * (1 + cell.work() / max(math.prod(shape) for _, _, shape in cell.operands()))


def table():
    found = forms.forms()
    names = [(form.name, dtype) for form in found for dtype in form.dtypes]
    check("every form and dtype is there once", len(names) == len(set(names)), [n for n in names if names.count(n) > 1][:3])
    named = {form.operation for form in found}
    folds = {row[0] for row in def_rows("codegen/ir/ops.def", "FOLD")}
    check("every fold has a form", folds <= named, folds - named)
    rows = {"add/f32/all/l1": {"ours": 1.0, "jax": 2.0, "bound": {"bytes": 0.5}}, "add/bf16/all/l1": {"ours": 4.0, "jax": 1.0, "bound": {"bytes": 0.5}},
            "add/i8/all/l1": {"error": "none"}}
    check("the worst comes first", matrix.worst(rows, 3)[1].startswith("add/bf16"), matrix.worst(rows, 3))
    check("summary", matrix.summary(rows).startswith("2 cells beside a peer: geometric mean 0.71, 50.0% at least 1, 1 below 0.67"), matrix.summary(rows))
    check("chart", matrix_chart.chart(rows, matrix.ratio).count("<path") == 2)


def run(texts):
    options = argparse.Namespace(build=BUILD, cpu="none")
    native = ctypes.CDLL(str(ours.build_native(BUILD)))
    chosen = [cell for cell in matrix.cells() if (cell.size == "l2" or cell.key in CLOSE) and all(text in cell.key for text in texts)]
    close = [cell for cell in chosen if cell.key in CLOSE]
    others = [cell for cell in chosen if cell.key not in CLOSE]
    for _, group in sorted(matrix.groups(close + sampled(others, 120, what="cells")).items()):
        library, failed = matrix.build(group, options)
        for n, cell in enumerate(group):
            if cell.key in failed:
                check(cell.key, False, failed[cell.key])
                continue
            kernel = matrix_measure.Kernel(str(library), matrix.request_of(cell, f"k{n}"), native)
            most = most_of(cell, library.parent / f"k{n}.c")
            found = slowness([kernel.call, copying(cell)], most)
            check(cell.key, found < most, f"takes {found:.1f} times a copy, {most:.0f} would be much")


table()
run(sys.argv[1:])
sys.exit(finish())
