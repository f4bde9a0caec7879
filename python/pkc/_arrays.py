"""Arrays of NumPy, torch and JAX: the rare cases of a call. pkc/_core handles the others."""
import math
import sys

import ml_dtypes
import numpy

from pkc import _core

NUMPY, TORCH, JAX, DLPACK, REFUSED, TORCH_LIKE = range(6)  # as in core.h

_ROWS = _core.dtype_names()
NAMES = tuple(name for name, _ in _ROWS)  # a dtype's number is its place


def _numpy_dtype(known):
    """A dtype by its name in NumPy or ml_dtypes, or None if the installed version does not have it."""
    made = getattr(ml_dtypes, known, None) or getattr(numpy, known, None) or {"bool": bool}.get(known)
    return None if made is None else numpy.dtype(made)


DTYPES = {number: _numpy_dtype(known) for number, (_, known) in enumerate(_ROWS) if _numpy_dtype(known) is not None}
_OF_NUMPY = {number: dtype for number, dtype in DTYPES.items() if dtype.isbuiltin == 1}
_OF_ML = {number: dtype for number, dtype in DTYPES.items() if number not in _OF_NUMPY}

_ALIGNMENT = 64  # what JAX takes without a copy


def dtype_name(value):
    """The pkc name of a dtype of NumPy, torch or JAX, or None."""
    text = str(value)
    if text in NAMES:
        return text
    text = text[len("torch."):] if text.startswith("torch.") else text
    for name, known in _ROWS:
        if text == known:
            return name
    try:
        dtype = numpy.dtype(value)
    except (TypeError, ValueError, SyntaxError):  # of a text that is none
        return None
    return next((NAMES[number] for number, known in DTYPES.items() if known == dtype), None)


# ---- kinds

_kinds = {}


def _is(module, name, value):
    """isinstance without importing the module, which is imported if such an object exists."""
    loaded = sys.modules.get(module)
    known = getattr(loaded, name, None) if loaded else None
    return isinstance(known, type) and isinstance(value, known)


def is_tracer(value):
    return _is("jax.core", "Tracer", value)


_torch_known = {}  # what _core looks up: dtypes, and the device of the CPU
_torch_dtypes = {}  # the other way: number -> dtype


def _know_torch():
    torch = sys.modules["torch"]
    _helpers["torch_threads"] = torch.get_num_threads
    _core.set_helpers(*_helpers.values())
    _torch_known[torch.device("cpu")] = 0
    for number, dtype in DTYPES.items():
        known = getattr(torch, dtype.name, None)
        if isinstance(known, torch.dtype):
            _torch_known[known] = number
            _torch_dtypes[number] = known


def _know_jax():
    """Takes the functions that jax.dlpack and jax.numpy.asarray come down to, where this version of JAX has them: theirs take 2 and
    17 us more."""
    try:
        from jax._src.lib import xla_client
        _helpers["capsule"] = getattr(getattr(xla_client, "_xla", None) or xla_client._jax, "buffer_to_dlpack_managed_tensor")
        _helpers["put"], _helpers["jax_config"] = xla_client.batched_device_put, sys.modules["jax"].config
    except (ImportError, AttributeError):
        return
    _core.set_helpers(*_helpers.values())


def kind_of(value):
    if is_tracer(value):
        raise TypeError("a kernel is called with arrays, and this is a tracer of JAX: in jax.jit use pkc.jax.call(kernel, ..)")
    if isinstance(value, (type, numpy.ma.MaskedArray)):
        kind = REFUSED
    elif isinstance(value, (numpy.ndarray, numpy.generic)):
        kind = NUMPY
    elif _is("torch", "Tensor", value):
        kind = TORCH if type(value) is sys.modules["torch"].Tensor else TORCH_LIKE
        _know_torch()
    elif "jax" in sys.modules and isinstance(value, sys.modules["jax"].Array):
        kind = JAX
        _know_jax()
    else:
        kind = DLPACK if hasattr(value, "__dlpack__") else REFUSED
    _kinds[type(value)] = kind
    return kind


# ---- inputs

def adapt(value, output):
    """A NumPy array with the elements of an object whose memory a kernel cannot use directly."""
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        if output:
            raise ValueError("an output, and its elements are not aligned, or not whole elements apart")
        return numpy.array(value, order="C", subok=False)
    if kind_of(value) == JAX:
        platforms = sorted({device.platform for device in value.devices()})
        if platforms != ["cpu"]:
            raise TypeError("expected CPU memory, found a JAX array on %s" % ", ".join(platforms))
        return numpy.asarray(value)
    if kind_of(value) in (TORCH, TORCH_LIKE) and value.requires_grad:
        raise TypeError("expected a tensor that does not require grad; pass its detach()")
    if kind_of(value) in (TORCH, TORCH_LIKE) and value.is_neg():
        raise TypeError("expected a tensor whose signs are in its memory; pass its resolve_neg()")
    try:
        value.__dlpack__()
    except Exception as error:
        raise TypeError("%s has no memory that DLPack describes: %s" % (type(value).__name__, error)) from None
    raise TypeError("%s has no memory that DLPack describes" % type(value).__name__)


def found(value, said=None):
    """The description of an unsuitable object for an error message; `said`: its dtype according to DLPack."""
    dtype = None if isinstance(value, (type, numpy.ma.MaskedArray)) else getattr(value, "dtype", None)
    if dtype is None:
        return said or type(value).__name__
    if isinstance(dtype, numpy.dtype) and not dtype.isnative:
        return "%s of the other byte order" % dtype.newbyteorder("=")
    return dtype_name(dtype) or str(dtype)


def scalar(value, number):
    """A Python number as an operand of rank 0; a number that does not fit an integer dtype is an error."""
    name = NAMES[number]
    if name[0] == "f" or name == "bf16":
        return numpy.array(float(value)).astype(DTYPES[number])
    bits = 1 if name == "bool" else int(name[1:])
    low = -(1 << bits - 1) if name[0] == "i" else 0
    if value != value or abs(value) == float("inf") or int(value) != value or not low <= value < low + (1 << bits):
        raise ValueError("%r does not fit an operand of %s" % (value, name))
    return numpy.array(int(value), dtype=DTYPES[number] if DTYPES[number] in _OF_NUMPY.values() else int).astype(DTYPES[number])


# ---- results

_places = {}  # what _core looks up: how a small array of JAX is made


def _aligned(shape, dtype):
    count = math.prod(shape)
    if count * dtype.itemsize < _core.SMALL_RESULT:
        return numpy.empty(shape, dtype)
    memory = numpy.empty(count * dtype.itemsize + _ALIGNMENT, numpy.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start:start + count * dtype.itemsize].view(dtype).reshape(shape)


def make(kind, shape, number):
    if kind == TORCH:
        if number not in _torch_dtypes:
            raise TypeError("torch has no dtype for %s" % NAMES[number])
        return sys.modules["torch"].empty(shape, dtype=_torch_dtypes[number])
    if number not in DTYPES:
        raise TypeError("this version of ml_dtypes has no %s" % NAMES[number])
    return _aligned(shape, DTYPES[number])


def _remember_place(array, number):
    """From the next small array with this shape and dtype on, _core makes the one of JAX, as jax.numpy.asarray does."""
    jax = sys.modules["jax"]
    device = jax.devices()[0]
    # The result may be converted to 32 bits or moved to another device.
    if array.dtype.itemsize <= 4 and array.nbytes < _core.SMALL_RESULT and device.platform == "cpu" and len(_places) < 10000:
        _places[(number, *array.shape)] = (jax.core.ShapedArray(array.shape, array.dtype), jax.sharding.SingleDeviceSharding(device), [device])


def finish(kind, array, number):
    if kind != JAX:
        return array
    jax = sys.modules["jax"]
    if array.dtype in _OF_NUMPY.values() and array.nbytes >= _core.SMALL_RESULT:
        try:
            return jax.dlpack.from_dlpack(array)
        except Exception:  # what JAX cannot take as it is, it copies
            pass
    _remember_place(array, number)
    return jax.numpy.asarray(array)


def copy(value):
    if kind_of(value) in (TORCH, TORCH_LIKE):
        return value.detach().clone(memory_format=sys.modules["torch"].contiguous_format)
    source = numpy.asarray(value) if kind_of(value) in (NUMPY, JAX) else numpy.from_dlpack(value)
    fresh = _aligned(source.shape, source.dtype)
    fresh[...] = source
    return fresh


_helpers = {
    "kinds": _kinds, "kind_of": kind_of, "numpy_dtypes": {dtype: number for number, dtype in _OF_ML.items()}, "torch_known": _torch_known,
    "torch_threads": None, "dtypes": DTYPES, "empty": numpy.empty, "adapt": adapt, "make": make, "finish": finish, "copy": copy, "found": found, "scalar": scalar,
    "capsule": lambda value: value.__dlpack__(), "put": None, "places": _places, "jax_config": None}
_core.set_helpers(*_helpers.values())


def check_threads(threads):
    """Raises ValueError unless `threads` is a number of threads, or None for the default."""
    if threads is not None and (not isinstance(threads, int) or not 1 <= threads <= 1024):
        raise ValueError("threads: expected 1 to 1024, found %r" % (threads,))
