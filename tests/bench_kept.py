#!/usr/bin/env python3
"""The results that `make bench` keeps for each processor model, and the documents made from them. Ends with the line "N passed, N failed"."""
import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench"))
sys.dont_write_bytecode = True
import kept  # noqa: E402
import pages  # noqa: E402

from suite import check, finish

DAY = datetime.date(2026, 3, 10)


def row(ms, goal=1.0, date="2026-03-01", ratio=1.0, clear=False, counted=True):
    return {"ms": ms, "peer": "mkl", "ratio": ratio, "clear": clear, "counted": counted, "goal": goal, "date": date, "commit": "abc"}


def check_pages(folder):
    """Tables, charts and the list of losses agree with the kept results."""
    rows = {"softmax 4096x2048": row(3.0, counted=False), "add": row(1.0, ratio=4.0, clear=True), "add on 2 threads": row(0.5, ratio=2.0, clear=True), "mul": row(2.0, ratio=0.5, clear=True, counted=False)}
    kept.keep("CPU A", rows, folder)
    page = folder.parent / "performance.md"
    readme = folder.parent / "README.md"
    page.write_text(f"before\n{pages.BEGIN}\nold\n{pages.END}\nafter\n")
    readme.write_text("before\n\n![Speed on old](old.svg)\n\nbetween\n\nOne thread of old.\n\n| case |\n|---|\n| old |\n\nafter\n")
    check("documents are out of date", len(pages.out_of_date(folder, page, readme)) == 4)
    pages.write(folder, page, readme)
    check("documents are up to date", pages.out_of_date(folder, page, readme) == [])
    text, rest = page.read_text(), (folder / "rows.md").read_text()
    check("the text around the tables stays", text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text, text)
    check("the mean of the counted cases", "| CPU A | 4.00 (1) | 1 | 2.00 (1) |" in text, text)
    check("a row for each counted case", "| add | 1 ms, 4.00 (mkl) | 2.00 |" in text and "| mul |" not in text, text)
    check("other rows, and those behind", "| mul | 2 ms, **0.50** (mkl) |" in rest and "| CPU A | mul | 0.50 | mkl |" in rest, rest)
    first = readme.read_text()
    check("README.md has the chart", "](docs/performance/cpu-a.svg)" in first and "old" not in first and first.endswith("\n\nafter\n"), first)
    check("README.md has rows of the same machine", "One thread of CPU A, " in first and "| softmax 4096x2048 | 3 ms | mkl | 3 ms | " in first, first)
    check("a chart", "4.00 against mkl" in (folder / "cpu-a.svg").read_text())


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "performance"
        check("nothing is kept", kept.read("CPU A", folder) is None)
        text = kept.provenance("CPU A", None, DAY)
        check("goals of other machines", "no results of CPU A are kept" in text and "other machines" in text, text)
        kept.keep("CPU A", {"add": row(1.0), "mul": row(2.0)}, folder)
        kept.keep("CPU A", {"mul": row(1.5, date="2026-03-09")}, folder)
        mine = kept.read("CPU A", folder)
        check("a second run replaces its cases only", mine["cases"]["add"]["ms"] == 1.0 and mine["cases"]["mul"]["ms"] == 1.5, mine)
        text = kept.provenance("CPU A", mine, DAY)
        check("how old", "9 days ago to a day ago (2 cases)" in text, text)
        check("no other machine's", kept.read("CPU B", folder) is None)
        other = kept.path_of("CPU-A", folder)
        check("nor that of a name that is spelled alike", other == kept.path_of("CPU A", folder) and kept.read("CPU-A", folder) is None)
        lines = kept.changes(mine, {"add": row(1.2), "mul": row(1.0, goal=1.5), "new": row(9)})
        check("slower", any("add: 1.20 times as long as kept, since 2026-03-01 (abc)" in line for line in lines), lines)
        check("faster, another goal", sum(line.startswith("mul") for line in lines) == 2 and len(lines) == 3, lines)
        check("within the noise", not kept.changes(mine, {"add": row(1.05)}))
        check("nothing kept, nothing said", not kept.changes(None, {"add": row(5)}))
        check("plain JSON", json.loads(kept.path_of("CPU A", folder).read_text())["processor"] == "CPU A")
        check_pages(Path(name) / "pages" / "performance")
    stale = pages.out_of_date()
    check("docs/performance.md holds what is kept (tests/bench/pages.py writes it)", not stale, stale)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
