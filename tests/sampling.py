"""How much of a suite runs: $PKC_TESTS is `fast`, `sample` or `all` (the default).

What is left out is printed as a line "left out: N of M ..", which tests/check.sh adds up. A sample is always the same one.
"""
import os
import sys

LEVEL = os.environ.get("PKC_TESTS") or "all"
if LEVEL not in ("fast", "sample", "all"):
    sys.exit(f"PKC_TESTS={LEVEL}: expected fast, sample or all")
GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are spread evenly, whatever period a list has


def most(everything, sample, fast=None, what="cases"):
    """How many of `everything` run: as many as `sample` or `fast` (default: `sample`) says."""
    wanted = {"all": everything, "sample": sample, "fast": sample if fast is None else fast}[LEVEL]
    if wanted >= everything:
        return everything
    print(f"left out: {everything - wanted} of {everything} {what}", flush=True)
    return wanted


def sampled(items, sample, fast=None, what="cases"):
    """That many items, in their order."""
    items = list(items)
    count = most(len(items), sample, fast, what)
    chosen = sorted(range(len(items)), key=lambda k: k * GOLDEN % 1)[:count]
    return [items[k] for k in sorted(chosen)]
