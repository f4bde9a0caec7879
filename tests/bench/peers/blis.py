"""BLIS as the system has it (Debian: libblis-dev)."""

import ctypes

from . import blas

NAME = "blis"
library = blas.library("libblis.so.4", "libblis.so")


def version():
    library.bli_info_get_version_str.restype = ctypes.c_char_p
    return library.bli_info_get_version_str().decode()


def prepare(expression, problem):
    return blas.prepare_product(library.cblas_sgemm, "bench_cblas_sgemm", problem)
