"""The versions of JAX that a part of the package is for; others are refused by name."""
import os
import re


def require(part, jax, first, last):
    """Raises ImportError where the version of `jax` is before `first` or after the series of `last`."""
    found = tuple(int(n) for n in re.findall(r"\d+", jax.__version__)[:3])
    if first <= found[:len(first)] and found[:len(last)] <= last or os.environ.get("PKC_ANY_JAX") == "1":
        return
    raise ImportError("%s: JAX %s is not supported: it is for %s to %s, and tested with the first and the last "
                      "(PKC_ANY_JAX=1 tries another)" % (part, jax.__version__, *(".".join(map(str, v)) for v in (first, last))))
