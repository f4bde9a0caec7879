"""What the C libraries of matrix products have in common. Not a peer itself."""

import ctypes
import glob
import sys


class Product(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), *((n, ctypes.c_int64) for n in "mnk"), *((n, ctypes.c_void_p) for n in "abc")]


def library(*patterns):
    """The first of the shared objects that loads."""
    wrong = OSError("not found: " + " ".join(patterns))
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)) if "/" in pattern else [pattern]:
            try:
                return ctypes.CDLL(path)
            except OSError as error:
                wrong = error
    raise wrong


def environment(name):
    """Where pip puts shared objects."""
    return f"{sys.prefix}/lib/{name}"


def prepare_product(function, wrapper, problem):
    """`wrapper` is the function of native.c that knows the arguments' order."""
    (out,) = problem.empties().values()
    a, b = problem.inputs["a"], problem.inputs["b"]
    product = Product(
        ctypes.cast(function, ctypes.c_void_p), *(problem.values[n] for n in "MNK"), a.ctypes.data, b.ctypes.data, out.ctypes.data
    )
    run = getattr(problem.native, wrapper)
    run.restype = None
    pointer = ctypes.byref(product)
    keep = (product, a, b)
    return lambda keep=keep: run(pointer), lambda: [out]
