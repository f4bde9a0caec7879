#!/usr/bin/env python3
"""Runs the examples of docs/language.md: each fenced block that holds a whole kernel, with the `// test:` lines in it.

Ends with the line "N passed, N failed".
"""
import os
import re
import subprocess
import sys
import tempfile

PKC = os.environ.get("PKC", "build/pkc")


def examples(text):
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        if re.search(r"^kernel \w+\(", block, re.M):
            yield block


def main():
    passed = failed = 0
    with open("docs/language.md", encoding="utf-8") as f, tempfile.TemporaryDirectory() as folder:
        for number, block in enumerate(examples(f.read())):
            path = os.path.join(folder, f"example{number}.pk")
            with open(path, "w", encoding="utf-8") as example:
                example.write(block)
            run = subprocess.run([PKC, "test", path], capture_output=True, text=True)
            good = run.returncode == 0 and (" 0 passed" not in run.stdout)
            passed += good
            failed += not good
            if not good:
                said = " / ".join((run.stdout + run.stderr).strip().splitlines())
                print(f"FAIL example {number + 1} of docs/language.md ({block.split('(')[0].strip()}): {said}; reproduce: tests/manual.py")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
