#!/usr/bin/env python3
"""The rank of the blocks that vLLM tuned on a device in the order of `pkc tpu --sweep` (tests/tpu/published/tuned.csv).

The table has the fastest blocks but not their times, so the order is compared: the model's time of the tuned blocks divided by the least
time of all blocks that divide the shape and fit. Half of the rows, by a hash, are unseen, as those of tests/tpu_published.py.

    tests/tpu_order.py [--rows] [CHIP..]
"""
import concurrent.futures
import csv
import hashlib
import json
import os
import statistics
import subprocess
import sys

from sampling import sampled
from suite import PKC, check, finish

FOLDER = os.path.join(os.path.dirname(__file__), "tpu", "published")
# Of all rows: the median of tuned over best, and the share of rows within a tenth of the best; neither may get worse by more than SLACK.
EXPECTED = {"v6e": (1.02, 0.83), "7x": (1.04, 0.81)}
SLACK = 0.03


def read_rows():
    with open(os.path.join(FOLDER, "tuned.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    rows.sort(key=lambda row: hashlib.sha256(" ".join(row.values()).encode()).hexdigest())
    for place, row in enumerate(rows):
        row["half"] = "unseen" if place % 2 else "seen"
    return rows


def divisors(n, unit):
    return [d for d in range(unit, n + 1, unit) if n % d == 0] or [n]


def powers(m):
    found = [m]
    while found[-1] % 2 == 0 and found[-1] > 128:
        found.append(found[-1] // 2)
    return found


def place(row):
    """(tuned over best, number of faster blocks, number of blocks)"""
    m, n, k = (int(row[name]) for name in "MNK")
    ranges = {"BM": powers(m), "BN": divisors(n, 128), "BK": divisors(k, 128)}
    for name, values in ranges.items():
        if int(row[name]) not in values:
            values.append(int(row[name]))
    words = [f"{name}={','.join(map(str, values))}" + ("," if len(values) == 1 else "") for name, values in ranges.items()]
    command = [PKC, "tpu", os.path.join(FOLDER, "quantized_matmul.pk"), "--chip", row["chip"], "--json",
               *[w for name in ("T", "M", "N", "K") for w in ("-D", f"{name}={row[name]}")], "--sweep", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    found = [c for c in map(json.loads, done.stdout.splitlines()) if c.get("fits")]
    tuned = [c["seconds"] for c in found if all(c["statics"][name] == row[name] for name in ranges)]
    if not tuned:
        return "the tuned blocks do not fit"
    times = [c["seconds"] for c in found]
    return tuned[0] / min(times), sum(t < tuned[0] * (1 - 1e-9) for t in times), len(times)


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    rows = [row for row in read_rows() if not words or row["chip"] in words]
    if not words:
        rows = sampled(rows, 20, what="shapes")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        places = list(pool.map(place, rows))
    for row, found in zip(rows, places):
        text = " ".join(f"{name}={row[name]}" for name in ("M", "N", "K", "BM", "BN", "BK"))
        check(f"{row['chip']} {text}", not isinstance(found, str), found)
        if "--rows" in sys.argv and not isinstance(found, str):
            print(f"{row['chip']} {row['half']:6} {found[0]:5.2f}  {found[1]:3} of {found[2]:3} are faster  {text}")
    for chip in sorted({row["chip"] for row in rows}):
        both = [(row["half"], found) for row, found in zip(rows, places) if row["chip"] == chip and not isinstance(found, str)]
        for half in ("seen", "unseen"):
            describe(f"{chip:4} {half:6}", [found for h, found in both if h == half])
        whole = sum(row["chip"] == chip for row in read_rows()) == len(both)
        if whole:
            median, near = figures([found for _, found in both])
            wanted = EXPECTED[chip]
            check(f"the order on {chip}", median <= wanted[0] + SLACK and near >= wanted[1] - SLACK, f"{median:.3f}, {near:.3f}")
    return finish()


def figures(found):
    ratios = [ratio for ratio, _, _ in found]
    return statistics.median(ratios), sum(ratio <= 1.1 for ratio in ratios) / len(ratios)


def describe(name, found):
    if not found:
        return
    median, near = figures(found)
    faster = statistics.median(faster / count for _, faster, count in found)
    print(f"{name} {len(found):4} shapes: tuned / best, median {median:.2f}, within a tenth {100 * near:.0f} %; "
          f"{100 * faster:.0f} % of all blocks are faster (median)")


sys.exit(main())
