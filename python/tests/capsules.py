"""Capsules of DLPack with the contents that a test sets."""
import ctypes

TENSOR = [("data", ctypes.c_void_p), ("device", ctypes.c_int * 2), ("ndim", ctypes.c_int), ("code", ctypes.c_uint8),
          ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
          ("offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [*TENSOR, ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), *TENSOR]


# A prototype of its own: that of ctypes.pythonapi is shared, and JAX sets its argument types.
new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))


class Capsule:
    """The memory of an array of NumPy. Words that are not given are as the array has them."""

    def __init__(self, array, shape=None, strides=None, device=(1, 0), dtype=(2, 32, 1), offset=0, ndim=None, data=None, name=b"dltensor",
                 version=None, flags=0):
        shape = array.shape if shape is None else shape
        strides = [s // array.itemsize for s in array.strides] if strides is None else strides
        self.array, self.name = array, name if version is None else b"dltensor_versioned"
        self.shape, self.strides = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(strides))(*strides)
        tensor = (array.ctypes.data if data is None else data, (ctypes.c_int * 2)(*device), len(shape) if ndim is None else ndim, *dtype,
                  ctypes.addressof(self.shape) if shape else None, ctypes.addressof(self.strides) if strides else None, offset)
        self.struct = Managed(*tensor, None, None) if version is None else Versioned(version, 0, None, None, flags, *tensor)

    def __dlpack__(self, **words):
        return new(ctypes.addressof(self.struct), self.name, None)

    def __dlpack_device__(self):
        return tuple(self.struct.device)
