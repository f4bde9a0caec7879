#!/usr/bin/env python3
"""How much of each long test was run, and when: docs/reliability.json, and the table of docs/reliability.md that is generated from it.

    tests/figures.py --record "random kernels" 20000    # of this commit, today; writes the table
    tests/figures.py --write                            # writes the table
    tests/figures.py                                    # tests that the table agrees with the file

A figure counts cases without a failure; a run that failed is not recorded.
"""
import argparse
import datetime
import json
import subprocess
import sys

from suite import ROOT, check, finish

DATA = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: tests/figures.py -->", "<!-- end of figures -->"


def table(rows):
    lines = ["| test | cases | command | commit | date |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['test']} | {row['cases']:,} | `{row['command']}` | {row['commit']} | {row['date']} |")
    return "\n".join(lines)


def page(rows):
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{rest.split(END)[1]}"


def record(rows, test, cases):
    found = [row for row in rows if row["test"] == test]
    if not found:
        names = ", ".join(row["test"] for row in rows)
        sys.exit(f"figures: no test '{test}' in {DATA.name}; it has: {names}")
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    found[0].update(cases=cases, commit=commit.stdout.strip(), date=datetime.date.today().isoformat())
    DATA.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--record", nargs=2, metavar=("TEST", "CASES"), help="so many cases of this test passed")
    options = parser.parse_args()
    rows = json.loads(DATA.read_text(encoding="utf-8"))
    if options.record:
        record(rows, options.record[0], int(options.record[1].replace(",", "")))
    if options.record or options.write:
        PAGE.write_text(page(rows), encoding="utf-8")
        return 0
    sys.path.insert(0, str(ROOT / "examples" / "llama"))
    import speed_table

    speed = speed_table.page() == speed_table.PAGE.read_text(encoding="utf-8")
    check("examples/llama/README.md has the table of speed.json (examples/llama/speed_table.py)", speed)
    same = page(rows) == PAGE.read_text(encoding="utf-8")
    check("docs/reliability.md has the table of docs/reliability.json (tests/figures.py --write)", same)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
