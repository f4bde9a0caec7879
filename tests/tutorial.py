#!/usr/bin/env python3
"""Runs the tutorial: saves every kernel of docs/tutorial.md under the name in its first line, and runs the commands unchanged."""
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", "build")
PKC = os.environ.get("PKC", os.path.join(ROOT, BUILD, "pkc"))
FOLDER = os.path.join(ROOT, BUILD, "tutorial")


def blocks(text):
    """(kind, body) of every fenced block, in order."""
    return re.findall(r"^```(\w[^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(command, wanted):
    words = shlex.split(command)
    done = subprocess.run([PKC if words[0] == "build/pkc" else words[0]] + words[1:], cwd=FOLDER, capture_output=True, text=True,
                          errors="replace", timeout=300)
    if done.returncode == wanted:
        return True
    said = " / ".join((done.stderr or done.stdout).strip().splitlines()[:3])
    print(f"FAIL tutorial: exit status {done.returncode}, expected {wanted}: {said}; reproduce: cd {os.path.relpath(FOLDER, ROOT)} && {command}")
    return False


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(ROOT, "docs", "tutorial.md"), encoding="utf-8") as file:
        text = file.read()
    results = []
    for kind, body in blocks(text):
        if kind == "pk":
            with open(os.path.join(FOLDER, re.match(r"// (\w+\.pk)\n", body)[1]), "w", encoding="utf-8") as file:
                file.write(body)
        elif kind.startswith("sh"):
            results += [run(line, 3 if "fails" in kind else 0) for line in body.splitlines()]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
