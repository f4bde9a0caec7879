"""The times of `pkc tpu` against published measurements (tests/tpu/published/rows.csv), by group of kernel and chip.

Half of each group is `seen`: the model may be changed with it in view. The other half is a test of that: the rows of a group, ordered by a hash of
what they measure, are seen and unseen by turns. A group meets the goal when the median of model / measured lies within 0.85 and 1.18, and, of 10
rows or more, nine in ten lie within 0.85 and 1.15 and the rank correlation is 0.95 or more; one that does not must be listed in expected.csv
with its cause, and may not get worse.

    tests/tpu_published.py [--rows] [--seen] [--json] [--update] [GROUP..]

Ends with the line "N passed, N failed".
"""
import concurrent.futures
import csv
import hashlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

from suite import PKC

try:
    import numpy
except ImportError:
    print("SKIPPED tpu_published: NumPy is not installed\n0 passed, 0 failed")
    sys.exit(0)

FOLDER = os.path.join(os.path.dirname(__file__), "tpu", "published")
FILES = {"matmul": "kernels/matmul.pk", "flash_attn": "kernels/flash_attn.pk", "splash_attention": os.path.join(FOLDER, "splash_attention.pk"),
         "attention_backward": os.path.join(FOLDER, "attention_backward.pk"),
         **dict.fromkeys(("cross_entropy", "cross_entropy_backward"), os.path.join(FOLDER, "cross_entropy.pk"))}
GROUPED = os.path.join(FOLDER, "grouped_matmul.pk")
LOW, HIGH, RANK, RANKED = 0.85, 1.18, 0.95, 10
NEAR, MOST = (0.85, 1.15), 0.9
SLACK = 0.02  # a listed group is worse if it moves by more than this


def pairs(text):
    return dict(word.split("=") for word in text.split())


def read_rows():
    with open(os.path.join(FOLDER, "rows.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    groups = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    for group in groups.values():
        what = ("kernel", "chip", "sizes", "statics", "list", "buffers")
        group.sort(key=lambda row: hashlib.sha256(" ".join(row[w] for w in what).encode()).hexdigest())
        for place, row in enumerate(group):
            row["half"] = "unseen" if place % 2 else "seen"
    return groups


# ---- the lists over which grids iterate

def group_sizes(name, rows, groups):
    if name != "uniform":
        with open(os.path.join(FOLDER, "groups.json"), encoding="utf-8") as f:
            return numpy.array(json.load(f)[name])
    return numpy.bincount(numpy.random.default_rng(0).choice(groups, rows), minlength=groups)


# One visit for each tile of rows of a group; an empty group is visited if its output must be cleared.
def visits(sizes, tile, empty):
    ends = numpy.cumsum(sizes)
    starts = ends - sizes
    group, tiles = [], []
    for g, (start, end) in enumerate(zip(starts, ends)):
        touched = range(start // tile, -(-end // tile)) if end > start else [start // tile] if empty else []
        group += [g] * len(touched)
        tiles += [min(t, ends[-1] // tile - 1) for t in touched]
    return {"group": group, "tile": tiles, "offset": [0, *ends], "visits": [len(group)]}


def active_blocks(sizes, statics):
    rows, columns = int(sizes["N"]) // int(statics["BQ"]), int(sizes["S"]) // int(statics["BK"])
    causal = statics["CAUSAL"] == "true"
    active = [(i, j) for i in range(rows) for j in range(columns) if not causal or j * int(statics["BK"]) < (i + 1) * int(statics["BQ"])]
    return {"row": [i for i, _ in active], "col": [j for _, j in active]}


def command(row, folder):
    sizes, statics, kernel = pairs(row["sizes"]), pairs(row["statics"]), row["kernel"]
    lists = {}
    if kernel.startswith("grouped"):
        lists = visits(group_sizes(row["list"], int(sizes["M"]), int(sizes["G"])), int(statics["TM"]), kernel == "grouped_outer")
        statics["BUFFERS"] = row["buffers"]
        if kernel == "grouped_outer":
            statics["G"] = sizes.pop("G")
    if kernel == "splash_attention":
        lists = active_blocks(sizes, statics)
        statics["A"] = len(lists["row"])
        statics.update(N=sizes.pop("N"), S=sizes.pop("S"), **{name.upper() + "T": "true" for name in row["minor"].split()})
    if kernel == "attention_backward":
        statics["P"] = int(sizes["S"]) // int(statics["BK"])
        statics["Q"] = "bf16" if statics["P"] <= 4 else "f32"
    words = [PKC, "tpu", FILES.get(kernel, GROUPED), "-k", kernel, "--chip", row["chip"], "--json"]
    words += [f"{n}={v}" for n, v in sizes.items()] + [w for n, v in statics.items() for w in ("-D", f"{n}={v}")]
    for name, values in lists.items():
        path = os.path.join(folder, name + ".npy")
        numpy.save(path, numpy.array(values, numpy.int32))
        words.append(f"{name}={path}")
    return words


# ---- the work of a measurement outside the kernel

LANES = 128


# XLA stores an array with an axis last that fills whole lanes, if there is one; the copy that a kernel reads or writes has its own last
# axis padded to whole lanes. `minor`: that axis is the one XLA stores last anyway.
def copied(width, minor=False):
    whole = width % LANES == 0
    if minor and not whole:
        return 0
    return 2 if minor or whole else 1 + math.ceil(width / LANES) * LANES / width


def grouped_copies(row):
    sizes = pairs(row["sizes"])
    widths = {"lhs": "K", "rhs": "K" if row["kernel"] == "grouped_matmul_t" else "N", "out": "N"}
    return {name: 0 if int(sizes[width]) % LANES == 0 else copied(int(sizes[width])) for name, width in widths.items()}


# The arrays [batch, row, head, ..] are copied to [batch, head, row, ..], and results back. q is scaled on the way.
def attention_copies(row):
    width = {name: int(pairs(row["statics"])[name]) for name in "DV"}
    times = {name: copied(width[axis], name in row["minor"].split()) for name, axis in zip("qkvo", "DDVV")}
    return {**times, "q": max(times["q"], 2)}


# Before its gradients, the output (as long as do) is multiplied by do; after them, the parts of dq are read and their sum is written.
def attention_backward_copies(row):
    statics = pairs(row["statics"])
    q, v = copied(int(statics["D"])), copied(int(statics["V"]))
    return {"q": q + 1, "k": q, "v": v, "do": v + 2, "dq": q - 1, "dk": q, "dv": v}


# How often an operand is read or written outside the kernel in a measurement, relative to its size without padding. The measured times of
# cross entropy's gradients grow linearly with the blocks of rows, from a constant that is the time of writing dw once.
OUTSIDE = {**dict.fromkeys(("grouped_matmul", "grouped_matmul_t", "grouped_outer"), grouped_copies),
           "splash_attention": attention_copies, "attention_backward": attention_backward_copies,
           "cross_entropy_backward": lambda row: {"dw": 1}}


def outside(row, report):
    times = OUTSIDE.get(row["kernel"], lambda row: {})(row)
    return sum(times.get(o["name"], 0) * o["once"] for o in report["operands"]) / report["hbm_sustained"]


# The sources say how much memory a measurement takes: the arrays, and the copies, of which one may be where the result will be. So it
# shows which copies are made.
def wrong_copies(row, report):
    if row["kernel"] not in ("grouped_matmul", "grouped_matmul_t", "grouped_outer", "splash_attention") or not row["peak"]:
        return None
    times = OUTSIDE[row["kernel"]](row)
    sizes = {o["name"]: o["once"] for o in report["operands"] if o["name"] in times}
    *inputs, output = [(times[name] - 1) * size if times[name] else 0 for name, size in sizes.items()]
    result = [*sizes.values()][-1]
    bytes_taken = sum(sizes.values()) + sum(inputs) + output - max([c for c in inputs if c <= result], default=0)
    peak = float(row["peak"]) * 1e6
    return None if abs(bytes_taken - peak) <= 1e-3 * peak else f"{bytes_taken / 1e6:.1f} MB with the copies, measured {row['peak']}"


def model(row):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command(row, folder), capture_output=True, text=True)
    if done.returncode:
        return row, None, done.stderr.strip()
    report = json.loads(done.stdout)
    wrong = wrong_copies(row, report)
    if wrong:
        return row, None, wrong
    seconds = report["seconds_with_dispatch" if "dispatch" in row["group"] else "seconds"] + outside(row, report)
    return row, report, seconds * 1e6 / float(row["us"])


# ---- figures of a group

def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    rank = [0] * len(values)
    for place, i in enumerate(order):
        rank[i] = place
    return rank


def rank_correlation(a, b):
    return statistics.correlation(ranks(a), ranks(b)) if len(a) > 2 else math.nan


class Figures:
    def __init__(self, results):
        ratios = [ratio for _, _, ratio in results]
        measured = [float(row["us"]) for row, _, _ in results]
        self.count = len(results)
        self.median = statistics.median(ratios) if ratios else math.nan
        self.low, self.high = min(ratios, default=math.nan), max(ratios, default=math.nan)
        self.near = sum(NEAR[0] <= r <= NEAR[1] for r in ratios) / max(self.count, 1)
        self.rank = rank_correlation(measured, [m * r for m, r in zip(measured, ratios)])

    def meets(self):
        return LOW <= self.median <= HIGH and (self.count < RANKED or (self.rank >= RANK and self.near >= MOST))

    def worse_than(self, other):
        off = abs(math.log(self.median)) - abs(math.log(float(other["median"])))
        less = self.rank < float(other["rank"]) - SLACK or self.near < float(other["near"]) - SLACK
        return off > SLACK or (self.count >= RANKED and less)

    def text(self):
        return (f"{self.count:3d} rows, median {self.median:.2f} ({self.low:.2f} to {self.high:.2f}), {100 * self.near:3.0f} % within 15 %, "
                f"rank correlation {self.rank:.2f}")


def expectations():
    with open(os.path.join(FOLDER, "expected.csv"), encoding="utf-8") as f:
        return {line["group"]: line for line in csv.DictReader(f)}


def measure(wanted, only_seen):
    groups = {name: rows for name, rows in read_rows().items() if not wanted or any(w in name for w in wanted)}
    rows = [row for group in groups.values() for row in group if not only_seen or row["half"] == "seen"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(model, rows))
    return {name: [r for r in results if r[0]["group"] == name] for name in groups}


# codegen/tpu/regimes.def says, by what binds, between which multiples of the model the measurements lie: the middle 19 of 20 of the seen
# half. Of the unseen half nine in ten must lie there.
def regimes(found):
    by_bound = {}
    for results in found.values():
        for row, report, ratio in results:
            if report:
                by_bound.setdefault(report["bound"], {"seen": [], "unseen": []})[row["half"]].append(1 / ratio)
    with open(os.path.join(os.path.dirname(__file__), "..", "codegen", "tpu", "regimes.def"), encoding="utf-8") as f:
        table = re.findall(r'^REGIME\("(.+)", (\d+), ([\d.]+), ([\d.]+)\)', f.read(), re.M)
    wrong = inside = tested = 0
    for bound, count, low, high in table:
        halves = by_bound.get(bound, {"seen": [], "unseen": []})
        ratios, unseen = sorted(halves["seen"]), halves["unseen"]
        derived = [f"{ratios[min(len(ratios) - 1, int(p * len(ratios)))]:.2f}" for p in (0.025, 0.975)] if ratios else []
        inside, tested = inside + sum(float(low) <= r <= float(high) for r in unseen), tested + len(unseen)
        if abs(len(ratios) + len(unseen) - int(count)) > 3 or any(abs(float(d) - float(t)) > 0.03 for d, t in zip(derived, (low, high))):
            wrong += 1
            print(f'FAIL regimes.def: REGIME("{bound}", {count}, {low}, {high}), derived {len(ratios) + len(unseen)}, {", ".join(derived)}; '
                  "reproduce: tests/tpu_published.py")
    holds = inside >= 0.9 * tested
    print(f"{'' if holds else 'FAIL '}regimes.def: {inside} of {tested} unseen measurements are in the range of what binds")
    return len(table) - wrong + holds, wrong + (not holds)


def show_rows(results):
    for row, report, ratio in results:
        print(f"    {ratio:5.2f} {row['half']:6s} {float(row['us']):10.0f} us  {row['sizes']} {row['statics']} {row['list']}: {report['bound']}")


def main():
    flags = {word for word in sys.argv[1:] if word.startswith("--")}
    found = measure([word for word in sys.argv[1:] if not word.startswith("--")], "--seen" in flags)
    passed = failed = 0
    listed = expectations()
    lines = []
    for name, results in found.items():
        broken = [r for r in results if r[1] is None]
        for row, _, wrong in broken[:1]:
            print(f"FAIL {name}: {row['sizes']} {row['statics']}: {wrong}; reproduce: tests/tpu_published.py '{name}'")
        results = [r for r in results if r[1] is not None]
        figures, unseen = Figures(results), Figures([r for r in results if r[0]["half"] == "unseen"])
        print(f"{name:34s} {figures.text()}" + ("" if "--seen" in flags else
                                                f"; unseen {unseen.median:.2f}, {100 * unseen.near:.0f} %, {unseen.rank:.2f}"))
        if "--rows" in flags:
            show_rows(results)
        lines.append([name, f"{figures.median:.3f}", f"{figures.near:.3f}", f"{figures.rank:.3f}", listed.get(name, {}).get("cause", "")])
        if name not in listed:
            good = not broken and figures.meets()
        else:
            good = not broken and not figures.worse_than(listed[name])
        passed, failed = passed + good, failed + (not good)
        if not good and not broken:
            print(f"FAIL {name}: {'misses and is not listed' if name not in listed else 'is worse than expected.csv says'}; "
                  f"reproduce: tests/tpu_published.py --rows '{name}'")
    if len(sys.argv) == 1:
        good, bad = regimes(found)
        passed, failed = passed + good, failed + bad
    if "--update" in flags:
        with open(os.path.join(FOLDER, "expected.csv"), "w", encoding="utf-8") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["group", "median", "near", "rank", "cause"])
            out.writerows(line for line in lines if line[0] in listed)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
