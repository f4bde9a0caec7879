"""oneDNN's products as the system has it (Debian: libdnnl-dev). PyTorch holds another, newer one."""

import ctypes

from . import blas

NAME = "onednn"
library = blas.library("libdnnl.so.3", "libdnnl.so.2", "libdnnl.so")


def version():
    class Version(ctypes.Structure):
        _fields_ = [(name, ctypes.c_int) for name in ("major", "minor", "patch")]

    library.dnnl_version.restype = ctypes.POINTER(Version)
    v = library.dnnl_version().contents
    return f"{v.major}.{v.minor}.{v.patch}"


def prepare(expression, problem):
    if expression == "s8s8s32":
        return blas.prepare_product(library.dnnl_gemm_s8s8s32, "bench_dnnl_i8gemm", problem)
    return blas.prepare_product(library.dnnl_sgemm, "bench_dnnl_sgemm", problem)
