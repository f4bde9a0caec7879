"""Kernels inside jax.jit: XLA's custom calls on CPUs."""
import ctypes
import functools
import os

import numpy

from pkc import _arrays, _build
from pkc._tool import FOLDER

try:
    import jax
    from jax import ffi
except ImportError as error:
    raise ImportError("pkc.jax requires JAX 0.5 or newer: %s" % error) from None

_NAME = "pkc_call"


class _Entry(ctypes.Structure):
    _fields_ = [("call", ctypes.c_void_p), ("add", ctypes.c_void_p)]


@functools.lru_cache(maxsize=None)
def _add():
    """Compiles and registers the handler; the function that makes a kernel known to it."""
    with open(os.path.join(FOLDER, "xla.c"), encoding="utf-8") as file:
        text = file.read()
    address = _build.build(text, "pk_xla", _build.native(), ("-I" + ffi.include_dir(),))
    entry = _Entry.from_address(address)
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(entry.call)
    ffi.register_ffi_target(_NAME, ffi.pycapsule(function), platform="cpu", api_version=1)
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(entry.add)


_PACKED = ("i4", "u4", "i2", "u2")


def _described(value):
    """What Caller._plan wants to know of an argument."""
    dtype = _arrays.dtype_name(value.dtype)
    if dtype in _PACKED:
        raise TypeError("pkc.jax.call: XLA packs %s, kernels take a byte each: call the kernel outside of jax.jit" % dtype)
    return value, tuple(value.shape), -1 if dtype is None else _arrays.NAMES.index(dtype)


def call(kernel, /, *arrays, threads=1, **sizes):
    """The outputs of a kernel on arrays or tracers of JAX, on a CPU.

    Works eagerly and in jit, vmap (a loop), shard_map, scan, and under custom_vjp. With `threads` above 1 the kernel also
    uses threads of XLA's pool. An output that is an alias has the memory of its input where that is donated, else a copy.
    """
    arrays = [value if hasattr(value, "dtype") and hasattr(value, "shape") else jax.numpy.asarray(value) for value in arrays]
    if not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise ValueError("threads: expected 1 to 1024, found %r" % (threads,))
    address, outputs = kernel._plan([_described(value) for value in arrays], sizes)
    if not _add()(address):
        raise MemoryError("no memory for a kernel")
    results = [jax.ShapeDtypeStruct(shape, _result_dtype(kernel, number)) for shape, number in outputs]
    bound = ffi.ffi_call(_NAME, results[0] if len(results) == 1 else tuple(results), vmap_method="sequential",
                         input_output_aliases=_aliases(kernel))
    return bound(*arrays, kernel=numpy.int64(address), threads=numpy.int64(threads))


def _result_dtype(kernel, number):
    name = _arrays.NAMES[number]
    if name in _PACKED:
        raise TypeError("pkc.jax.call: an output of %s is in %s, which XLA packs: call the kernel outside of jax.jit" %
                        (kernel.__name__, name))
    return _arrays.DTYPES[number]


def _aliases(kernel):
    operands = kernel.signature["operands"]
    inputs = [o["name"] for o in operands if o["direction"] == "input"]
    outputs = [o for o in operands if o["direction"] == "output"]
    return {inputs.index(o["alias"]): i for i, o in enumerate(outputs) if o["alias"]}
