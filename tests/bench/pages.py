#!/usr/bin/env python3
"""Writes the contents of docs/performance/*.json into documents: the tables of docs/performance.md, all rows in docs/performance/rows.md, a chart of each machine,
and in README.md the chart and some rows of the machine that was measured last.

`bench.py --keep` calls it; by itself it writes the documents again. --check writes nothing and fails where a document is out of date.
"""

import argparse
import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import kept
import report

PAGE = kept.ROOT / "docs" / "performance.md"
README = kept.ROOT / "README.md"
BEGIN, END = "<!-- tables: make bench BENCH=--keep -->", "<!-- end of tables -->"
CHART_LINE = re.compile(r"^!\[Speed on .*$", re.M)
TABLE_LINES = re.compile(r"^One thread of .*\n\n(\|.*\n)*", re.M)
SHOWN = (  # in README.md
    "softmax 4096x2048",
    "layernorm 4096x2048",
    "matmul f32 1024^3",
    "matmul bf16 1024^3",
    "matmul f32 1x4096x4096",
    "attention causal 1024, D=64",
    "decode 4096 keys, 32 heads on 8, D=128",
)
THREADS = " on 2 threads"


def machines(folder=kept.FOLDER):
    """The kept results of each processor model, the latest first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    found = [machine for machine in found if machine.get("cases") and "processor" in machine]
    return sorted(found, key=lambda machine: (last_date(machine), machine["processor"]), reverse=True)


def last_date(machine):
    return max(row["date"] for row in machine["cases"].values())


def title(machine):
    return machine.get("title") or machine["processor"]


def counted(machine, threads=False):
    return {name: row for name, row in machine["cases"].items() if row["counted"] and name.endswith(THREADS) == threads}


def ratio_text(row):
    if row["peer"] is None:
        return ""
    text = report.ratio_text(row)
    return f"**{text}**" if is_behind(row) else text


def is_behind(row):
    return row["peer"] is not None and report.clear(row) and row["ratio"] < 1


def at_goal(row):
    return row["ratio"] >= row["goal"] or (row["goal"] <= 1 and not report.clear(row))


def summary_row(machine):
    rows = counted(machine)
    pairs = counted(machine, threads=True)
    mean = report.geometric_mean([row["ratio"] for row in rows.values()])
    two = f"{report.geometric_mean([row['ratio'] for row in pairs.values()]):.2f} ({len(pairs)})" if pairs else ""
    return [title(machine), f"{mean:.2f} ({len(rows)})", sum(map(at_goal, rows.values())), two, last_date(machine)]


def case_row(name, found):
    cells = []
    for machine in found:
        row, two = machine["cases"].get(name), machine["cases"].get(name + THREADS)
        cells.append(f"{report.milliseconds(row['ms'])}, {ratio_text(row)} ({row['peer']})" if row and row["peer"] else "")
        if any(case.endswith(THREADS) for case in machine["cases"]):
            cells.append(ratio_text(two) if two else "")
    return [name, *cells]


def headers(found):
    for machine in found:
        yield title(machine)
        if any(case.endswith(THREADS) for case in machine["cases"]):
            yield "two threads"


def natural(name):
    """A sort key by which numbers within a name are ordered by value."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def names_of(found, chosen):
    return sorted({name for machine in found for name, row in machine["cases"].items() if chosen(name, row)}, key=natural)


def tables(found):
    names = names_of(found, lambda name, row: row["counted"] and not name.endswith(THREADS))
    head = ["machine", "geometric mean (cases)", "at the goal", "two threads", "last measured"]
    charts = "\n".join(f"![Ratios on {title(machine)}](performance/{kept.slug(machine['processor'])}.svg)" for machine in found)
    return "\n".join(
        [
            report.table(head, map(summary_row, found)),
            report.table(["case", *headers(found)], (case_row(name, found) for name in names)),
            charts,
            "",
        ]
    )


def rows_page(found):
    names = names_of(found, lambda name, row: not row["counted"] and not name.endswith(THREADS))
    behind = [
        [title(machine), name, f"{row['ratio']:.2f}", row["peer"]]
        for machine in found
        for name, row in machine["cases"].items()
        if is_behind(row)
    ]
    return "\n".join(
        [
            "# All rows of the benchmark",
            "",
            "Written by `tests/bench/pages.py` from the `.json` files of this folder; [performance.md](../performance.md) explains the figures.",
            "Each cell is our time, the best peer's time divided by ours, and the peer.",
            "Ratios below 1 are bold.",
            "",
            "## Rows that no goal counts",
            "",
            report.table(["case", *headers(found)], (case_row(name, found) for name in names)),
            "## Rows slower than a peer",
            "",
            report.table(["machine", "case", "ratio", "peer"], sorted(behind, key=lambda cell: float(cell[2]))),
        ]
    )


def chart(machine):
    """The chart (report.chart) of the kept results: the counted cases on one thread."""
    names = names_of([machine], lambda name, row: row["goal"] is not None and row["peer"] and not name.endswith(THREADS))
    cases = []
    for name in names:
        row = machine["cases"][name]
        cases.append(
            {
                "name": name,
                "ratios": {row["peer"]: row},
                "goal": row["goal"],
                "counted": row["counted"],
                "round_sizes": None,
            }
        )
    return report.chart({"cases": cases})


def shown_row(name, row):
    return [name, report.milliseconds(row["ms"]), row["peer"], report.milliseconds(row["ms"] * row["ratio"]), ratio_text(row)]


def shown_table(machine):
    """The table of README.md."""
    rows = [shown_row(name, machine["cases"][name]) for name in SHOWN if name in machine["cases"] and machine["cases"][name]["peer"]]
    said = f"One thread of {title(machine)}, measured by `make bench BENCH=--keep` on {last_date(machine)}: the time of pkc, the fastest peer, its time, and the ratio."
    return f"{said}\n\n{report.table(['case', 'pkc', 'peer', 'its time', 'times faster'], rows)}"


def shown_chart(machine):
    """The chart of README.md."""
    return (
        f"![Speed on one core of {title(machine)} relative to the fastest of PyTorch, XLA, oneDNN, MKL, OpenBLAS, BLIS and NumPy: right of 1, pkc is faster]"
        f"(docs/performance/{kept.slug(machine['processor'])}.svg)"
    )


def with_shown(text, machine):
    """README.md with the chart and the table of a machine."""
    for place, new in ((CHART_LINE, shown_chart(machine)), (TABLE_LINES, shown_table(machine))):
        (old,) = place.finditer(text)
        text = text[: old.start()] + new + text[old.end() :]
    return text


def documents(folder=kept.FOLDER, page=PAGE, readme=README):
    """(path, text) of all generated documents."""
    found = machines(folder)
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    yield page, f"{before}{BEGIN}\n\n{tables(found)}\n{END}{after}"
    yield readme, with_shown(readme.read_text(encoding="utf-8"), found[0])
    yield folder / "rows.md", rows_page(found)
    for machine in found:
        yield folder / f"{kept.slug(machine['processor'])}.svg", chart(machine)


def out_of_date(folder=kept.FOLDER, page=PAGE, readme=README):
    return [path for path, text in documents(folder, page, readme) if not path.exists() or path.read_text(encoding="utf-8") != text]


def write(folder=kept.FOLDER, page=PAGE, readme=README):
    for path, text in list(documents(folder, page, readme)):
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a document is out of date")
    if parser.parse_args().check:
        stale = out_of_date()
        for path in stale:
            print(f"{path}: out of date; run tests/bench/pages.py", file=sys.stderr)
        return 1 if stale else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
