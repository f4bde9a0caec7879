#!/usr/bin/env python3
"""Each pass of the compiler keeps what a kernel computes, for all inputs: `pkc test --passes` on the files of tests/cases and kernels.

tests/unit/test_prove.c plants faults, which these proofs have to see.
"""
import re
import subprocess
import sys

from suite import PKC, ROOT, check, finish
from sampling import sampled

# Files in which a pass may change numbers: it rounds folded constants, and exact arithmetic does not.
ROUNDED = {"tests/cases/bugs/no_shortcut.pk", "tests/cases/lang/random.pk"}

# Reasons why a proof is undecided: the printed text, and the cases.
PLACES = "data determines the place of a load"
ZEROS = "the sign of a zero determines the result"
CAUSES = {
    PLACES: ("`load` in line .* depends on data", ["bugs/dot_windows"]),
    ZEROS: ("no rule decides `(div|rsqrt)`|numbers differ", ["bugs/rsqrt_of_minus_zero", "bugs/scan_of_minus_zero", "masked/ends", "operations/floats"]),
}
LATE = "the limit of "  # limits of time or memory: cases with large blocks
PAGE = ROOT / "docs/proved-kernels.md"


def listed():
    """The table of docs/proved-kernels.md."""
    rows = ["| why | cases |", "|---|---|"]
    return "\n".join(rows + [f"| {why} | {', '.join(f'`{name}`' for name in names)} |" for why, (_, names) in CAUSES.items()]) + "\n"


def is_listed(path, said):
    name = path.removeprefix("tests/cases/").removesuffix(".pk")
    return any(name in names and re.search(pattern, said) for pattern, names in CAUSES.values())


def judge(lines):
    """Checks the proofs that are undecided, and returns their cases."""
    seen = set()
    for line in lines:
        found = re.match(r"undecided (\S+?\.pk):(.*)", line)
        if found and LATE not in line:
            seen.add(found.group(1))
            check(f"an undecided proof is listed in CAUSES: {line}", is_listed(*found.groups()))
    return seen


def write_page(write):
    text = PAGE.read_text(encoding="utf-8")
    fresh = re.sub("(<!-- passes -->\n).*?(<!-- end -->)", lambda m: m[1] + listed() + m[2], text, flags=re.S)
    if write:
        PAGE.write_text(fresh, encoding="utf-8")
    check("docs/proved-kernels.md lists the undecided cases (tests/passes_proved.py --write)", fresh == text or write)


def main():
    write_page("--write" in sys.argv)
    if "--write" in sys.argv:
        return finish()
    files = sorted(path for folder in ("tests/cases", "kernels") for path in (ROOT / folder).rglob("*.pk") if "// test:" in path.read_text(encoding="utf-8"))
    chosen = [str(path.relative_to(ROOT)) for path in sampled(files, 120, 40, "files")]
    run = subprocess.run([PKC, "test", "--passes", *chosen], cwd=ROOT, capture_output=True, text=True)
    lines = run.stdout.splitlines()
    for line in lines:
        found = re.match(r"FAIL (\S+?):\d", line)
        if line.startswith("FAIL") and not (found and found.group(1) in ROUNDED):
            check(line[5:], False)
    undecided = judge(lines)
    for name in (name for _, names in CAUSES.values() for name in names):
        path = f"tests/cases/{name}.pk"
        check(f"{path} is still undecided", path in undecided or path not in chosen, "take it out of CAUSES")
    total = re.search(r"^(\d+) by drawn orders, (\d+) undecided\n(\d+) passed", run.stdout, re.M)
    if check("the proofs end", total, run.stderr[-300:] or run.stdout[-300:]):
        orders, open_, passed = map(int, total.groups())
        print(f"{passed - orders} proved, {orders} equal on drawn orders, {open_} undecided, {sum(LATE in line for line in lines)} of them at a limit")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
