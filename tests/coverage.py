#!/usr/bin/env python3
"""Lists what tests did not reach in a build with gcov. `make coverage` calls it.

    tests/coverage.py BUILD [--lines]

Prints each folder's share of lines that ran, then each function that never ran, by file. --lines also prints the lines that
never ran in functions that did. gcovr reads the counts.
"""
import argparse
import json
import subprocess
from collections import defaultdict
from pathlib import Path

from suite import ROOT


def read_counts(build):
    """The objects {file, lines, functions} that gcovr prints, for the sources of the compiler."""
    words = ["gcovr", "--root", ROOT, "--object-directory", build, "--filter", "dsl/", "--filter", "codegen/", "--json", "-"]
    done = subprocess.run([*words, build], capture_output=True, text=True, cwd=ROOT, check=True)
    return json.loads(done.stdout)["files"]


def functions_without_run(file):
    ran = {line["line_number"]: line["count"] for line in file["lines"]}
    return [f for f in file["functions"] if f.get("execution_count", ran.get(f["lineno"], 1)) == 0]


def ranges(numbers):
    """Consecutive numbers as pairs (first, last)."""
    found = []
    for n in sorted(numbers):
        if found and n == found[-1][1] + 1:
            found[-1] = (found[-1][0], n)
        else:
            found.append((n, n))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--lines", action="store_true", help="also the lines that never ran")
    options = parser.parse_args()
    files = read_counts(options.build.resolve())
    folders = defaultdict(lambda: [0, 0])
    for file in files:
        folder = folders[str(Path(file["file"]).parent)]
        folder[0] += sum(line["count"] > 0 for line in file["lines"])
        folder[1] += len(file["lines"])
    for name, (ran, lines) in sorted(folders.items()):
        print(f"{name:28} {100 * ran / max(lines, 1):6.1f} % of {lines} lines")
    for file in files:
        text = (ROOT / file["file"]).read_text(encoding="utf-8").splitlines()
        for f in functions_without_run(file):
            print(f"{file['file']}:{f['lineno']}: {f['name']} never ran")
        missed = [line["line_number"] for line in file["lines"] if line["count"] == 0]
        for first, last in ranges(missed) if options.lines else []:
            print(f"{file['file']}:{first}-{last}: {text[first - 1].strip()}")


if __name__ == "__main__":
    main()
