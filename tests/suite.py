"""Shared by the suites in Python: the path of the compiler, the counting of cases, the last line.

`from suite import PKC, ROOT, check, finish`; `sys.exit(finish())` at the end prints "N passed, N failed", which tests/check.sh adds up.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("BUILD", "build")
PKC = os.path.abspath(os.environ.get("PKC", str(BUILD / "pkc")))
NAME = pathlib.Path(sys.argv[0]).stem
# Results of tests do not depend on a calibration of the machine.
os.environ.setdefault("PKC_CALIBRATION", "0")
counts = {"passed": 0, "failed": 0}


def run(*words, **more):
    """The exit status of a program, and all that it printed."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.returncode, done.stdout


def one_line(said):
    """The output of a program or a comparison, as the rest of a line."""
    return " / ".join(str(said).strip().splitlines())


def check(what, good, said=""):
    """Counts one case; a failure is one line with the command that reproduces it. Returns whether the case passed."""
    good = bool(good)
    counts["passed" if good else "failed"] += 1
    if not good:
        said = one_line(said)
        print(f"FAIL {NAME}: {what}{': ' if said else ''}{said}; reproduce: tests/{NAME}.py", flush=True)
    return good


def finish():
    """Prints the last line, and returns the exit status of the suite."""
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return int(counts["failed"] > 0)


def def_rows(path, word):
    """The arguments of each WORD(..) of one of the compiler's .def files, strings without their quotes."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for row in re.findall(rf"^{word}\(((?:[^\"()]|\([^()\"]*\)|\"(?:[^\"\\]|\\.)*\")*)\)$", text, re.M):
        strings = re.sub(r'"\s+"', "", row)
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"|([^",\s][^",]*)', strings)
        yield [quoted.replace('\\"', '"') or plain for quoted, plain in parts]


def callable_kernels(text):
    """The programs of a file, and the kernels that no program calls."""
    text = re.sub("//.*", "", text)
    programs = dict(re.findall(r"^program (\w+)(.*?)^}", text, re.M | re.S))
    steps = {name for body in programs.values() for name in re.findall(r"(\w+)\(", body)}
    return [*programs, *(name for name in re.findall(r"^kernel (\w+)", text, re.M) if name not in steps)]
