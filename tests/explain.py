#!/usr/bin/env python3
"""`pkc explain CODE` of every code: the wrong example gives the code, and the right one compiles without a message.

An example whose first line is `// pkc ..` is run by that command. Ends with the line "N passed, N failed".
"""
import os
import re
import subprocess
import sys
import tempfile

from suite import PKC

TOO_LONG = {"E0107"}  # the only code without an example: a text of more than 8 MB


def codes():
    with open("dsl/errors.def", encoding="utf-8") as f:
        return [f"E{int(n):04d}" for n in re.findall(r"^E\((\d+),", f.read(), re.M)]


def example(text, title):
    found = re.search(rf"^{title}:\n\n((?:    .*\n|\n)*)", text, re.M)
    return re.sub(r"^    ", "", found.group(1), flags=re.M) if found else None


def compile_example(text, folder):
    path = os.path.join(folder, "k.pk")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    command = re.match(r"// pkc (.*)\n", text)
    words = command.group(1).split() if command else ["FILE"]
    words = [path if w == "FILE" else w for w in words]
    if words[0] not in ("check", "profile", "tpu"):
        words += ["-o", os.path.join(folder, "k.out")]
    run = subprocess.run([PKC, *words], capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def faults(code, folder):
    run = subprocess.run([PKC, "explain", code], capture_output=True, text=True)
    if run.returncode or len(run.stdout.splitlines()) < 3:
        return "not explained at length"
    wrong, right = example(run.stdout, "Wrong"), example(run.stdout, "Right")
    if code in TOO_LONG:
        status, said = compile_example(" " * (8 << 20) + "\n", folder)
        return None if f"[{code}]" in said else f"a text of 8 MB gives status {status}: {said.strip()[:200]}"
    if not wrong or not right:
        return "has no examples"
    status, said = compile_example(wrong, folder)
    if set(re.findall(r"\[(E\d{4})\]", said)) != {code}:
        return f"the wrong example gives status {status}: {said.strip() or 'nothing'}"
    status, said = compile_example(right, folder)
    if status or re.search(r"\[E\d{4}\]", said):
        return f"the right example gives status {status}: {said.strip()}"
    return None


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for code in codes():
            fault = faults(code, folder)
            passed += fault is None
            failed += fault is not None
            if fault:
                print(f"FAIL {code}: {' / '.join(fault.splitlines())}; reproduce: {PKC} explain {code}, tests/explain.py")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
