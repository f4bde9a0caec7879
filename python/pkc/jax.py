"""Kernels inside jax.jit: XLA's custom calls on CPUs."""
import ctypes
import functools
import os

import numpy

from pkc import _arrays, _build, _versions
from pkc._kernel import CompileError, grad, quickest_grad
from pkc._tool import FOLDER

try:
    import jax
    from jax import ffi
except ImportError as error:
    raise ImportError("pkc.jax requires JAX 0.5 or newer: %s" % error) from None
_versions.require("pkc.jax", jax)
from pkc import _linear

_NAME, _MESH_NAME = "pkc_call", "pkc_device_call"


class _Entry(ctypes.Structure):
    _fields_ = [("call", ctypes.c_void_p), ("add", ctypes.c_void_p), ("instantiate", ctypes.c_void_p)]


def _text(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _capsule(address):
    return ffi.pycapsule(ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address))


@functools.lru_cache(maxsize=None)
def _add(mesh=False):
    """Compiles and registers the handler, or that of one device of a mesh. Returns the function that registers a kernel with it."""
    text = _text("xla.c")
    if mesh:  # the cache knows a program by its text
        text = "#define PKC_MESH\n" + text.replace('#include "xla_mesh.h"\n', _text("xla_mesh.h"))
    with _versions.noted("pkc.jax", jax):
        entry = _Entry.from_address(_build.build(text, "pk_xla_mesh" if mesh else "pk_xla", _build.native(), ("-I" + ffi.include_dir(),)))
    handler = {"instantiate": _capsule(entry.instantiate), "execute": _capsule(entry.call)} if mesh else _capsule(entry.call)
    ffi.register_ffi_target(_MESH_NAME if mesh else _NAME, handler, platform="cpu", api_version=1)
    return ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p)(entry.add)


def loaded(address, mesh=False):
    """The number by which programs call a kernel; registers the kernel with the handler."""
    number = _build.number(address)
    if not _add(mesh)(number, address):
        raise MemoryError("no memory for a kernel")
    return numpy.int64(number)


# ---- dtypes that XLA packs, two or four elements to a byte: kernels take whole bytes

_WIDER = {"int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8", "float4_e2m1fn": "uint8"}


def widened(dtype):
    """The dtype of whole bytes that replaces a packed dtype."""
    return numpy.dtype(_WIDER.get(str(dtype), dtype))


def widen(value):
    """An array of whole bytes, whose lower bits are the packed elements."""
    wide = widened(value.dtype)
    if wide == value.dtype:
        return value
    bits = jax.lax.bitcast_convert_type(value, "uint4") if "float" in str(value.dtype) else value
    return bits.astype(wide)


def narrow(value, dtype):
    """The array of a packed dtype from its whole bytes; other arrays are returned unchanged."""
    if value.dtype == dtype:
        return value
    return jax.lax.bitcast_convert_type(value.astype("uint4"), dtype) if "float" in str(dtype) else value.astype(dtype)


@functools.lru_cache(maxsize=None)
def _dtype_number(dtype):
    name = _arrays.dtype_name(dtype)
    return -1 if name is None else _arrays.NAMES.index(name)


def _described(value):
    """The description of an argument for Caller._plan."""
    return value, tuple(value.shape), _dtype_number(value.dtype)


def _arguments(arrays):
    return [value if hasattr(value, "dtype") and hasattr(value, "shape") else jax.numpy.asarray(value) for value in arrays]


@functools.lru_cache(maxsize=1024)
def _program(number, outputs, aliases, threads, jitted):
    """The function of arrays that calls the kernel with this number."""
    dtypes = [_arrays.DTYPES[dtype] for _, dtype in outputs]
    results = [jax.ShapeDtypeStruct(shape, widened(dtype)) for (shape, _), dtype in zip(outputs, dtypes)]
    # A batch is one call of the handler, which loops over the elements; an operand that is written in place is copied for each.
    bound = ffi.ffi_call(_NAME, results, vmap_method="broadcast_all" if aliases else "expand_dims", input_output_aliases=dict(aliases))

    def run(*arrays):
        made = bound(*map(widen, arrays), kernel=number, threads=numpy.int64(threads or 0))
        made = tuple(narrow(value, dtype) for value, dtype in zip(made, dtypes))
        return made[0] if len(made) == 1 else made

    return jax.jit(run) if jitted else run


def call(kernel, /, *arrays, threads=None, **sizes):
    """The outputs of a kernel on arrays or tracers of JAX, on a CPU.

    Works eagerly and in jit, vmap, shard_map, scan, and under custom_vjp. Its derivatives, in forward and reverse mode and
    again, are those that pkc.grad derives: of its body, or of its reference; a custom_vjp around it takes precedence. The kernel uses threads of
    XLA's pool: `threads`, else $PK_THREADS, else all of them. An output that is an alias has the memory of its input where that is donated, else a copy.
    """
    return _called(kernel, _Derivatives(kernel, threads, sizes), arrays, threads, sizes)


def derived_call(kernel, meaning, inputs, read, given, threads, sizes):
    """The outputs of a derivative, as a tuple. Its own derivatives are those of the kernel that meaning() gives, which has the same operands without
    `read`, the outputs that the derivative reads."""
    rule = _Meaning(meaning, threads, sizes, len(inputs), len(given))
    read = map(jax.lax.stop_gradient, read)  # they follow from the inputs
    return _several(_called(kernel, rule, [*inputs, *read, *given], threads, sizes))


def _several(made):
    return made if isinstance(made, tuple) else (made,)


def _called(kernel, rule, arrays, threads, sizes):
    arrays = _arguments(arrays)
    _arrays.check_threads(threads)
    address, outputs = kernel._plan([_described(value) for value in arrays], sizes)
    outputs = tuple((tuple(shape), dtype) for shape, dtype in outputs)
    eager = not any(isinstance(value, jax.core.Tracer) for value in arrays)
    program = _program(loaded(address), outputs, _aliases(kernel), threads, eager)
    if eager:
        return program(*arrays)
    return _linear.differentiable(program, rule)(*arrays)


# ---- derivatives, which are derived on first use

def _like(arrays):
    return tuple((tuple(v.shape), v.dtype) for v in arrays)


@functools.lru_cache(maxsize=1024)
def _derived(kernel, operands, wrt, forward, meaning=False):
    """The derivative of a kernel with respect to the inputs with these numbers, for such operands, and the outputs that it reads. `meaning`: that of
    its reference, which reads none."""
    names = [o["name"] for o in kernel.signature["operands"] if o["direction"] == "input"]
    known, chosen = kernel.with_statics_of([jax.ShapeDtypeStruct(*operand) for operand in operands]), [names[i] for i in wrt]
    return (grad(known, chosen, forward=forward), ()) if meaning else quickest_grad(known, tuple(chosen), forward)


class _Derivatives:
    """Those of a call."""

    def __init__(self, kernel, threads, sizes):
        self.kernel, self.threads, self.sizes = kernel, threads, sizes

    def reads(self, wrt, values):
        try:
            return _derived(self.kernel, _like(values), wrt, False)[1]
        except CompileError:  # `back` tells
            return ()

    def _call(self, wrt, forward, values, read, given):
        derive = functools.partial(_derived, self.kernel, _like(values), wrt, forward)
        return derived_call(derive()[0], lambda: derive(meaning=True)[0], values, read, given, self.threads, self.sizes)

    def forth(self, wrt, values, directions):
        return self._call(wrt, True, values, (), directions)

    def back(self, wrt, values, outputs, gradients):
        return self._call(wrt, False, values, outputs, gradients)


class _Meaning:
    """Those of a derivative. Its operands are inputs, then outputs that it reads, then what is given; its meaning reads no outputs."""

    def __init__(self, meaning, threads, sizes, inputs, given):
        self.meaning, self.threads, self.sizes, self.inputs, self.given = meaning, threads, sizes, inputs, given

    def reads(self, wrt, values):
        return ()

    def _call(self, wrt, forward, values, linear):
        rest = len(values) - self.given
        own = [*values[:self.inputs], *values[rest:]]
        places = tuple(i if i < self.inputs else i - rest + self.inputs for i in wrt)
        derived, _ = _derived(self.meaning(), _like(own), places, forward, meaning=True)
        return _several(call(derived, *own, *linear, threads=self.threads, **self.sizes))

    def forth(self, wrt, values, directions):
        return self._call(wrt, True, values, directions)

    def back(self, wrt, values, outputs, gradients):
        return self._call(wrt, False, values, gradients)


def prepare(kernel, /, *arrays, **sizes):
    """Loads a kernel for arrays (or jax.ShapeDtypeStructs) like these, so that a program which jax.export has serialised in
    another process can run."""
    loaded(kernel._plan([_described(value) for value in _arguments(arrays)], sizes)[0])


def _aliases(kernel):
    """Pairs of an input and the output that shares its memory, by index."""
    operands = kernel.signature["operands"]
    inputs = [o["name"] for o in operands if o["direction"] == "input"]
    outputs = [o for o in operands if o["direction"] == "output"]
    return tuple((inputs.index(o["alias"]), i) for i, o in enumerate(outputs) if o["alias"])
