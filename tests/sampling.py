"""How much of a suite runs: $PKC_TESTS is `fast`, `sample` or `all` (the default).

The line "left out: N of M .." counts the omitted cases; tests/check.sh adds these lines up. The sample is the same in every run.
"""
import os
import sys

LEVEL = os.environ.get("PKC_TESTS") or "all"
if LEVEL not in ("fast", "sample", "all"):
    sys.exit(f"PKC_TESTS={LEVEL}: expected fast, sample or all")
GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are spread evenly, for any period of a list


def most(everything, sample, fast=None, what="cases"):
    """How many of `everything` run: at most `sample`, or `fast` (default: `sample`), by $PKC_TESTS."""
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
