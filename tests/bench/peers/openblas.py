"""OpenBLAS as the system has it (Debian: libopenblas-dev)."""

import ctypes
import os

from . import blas

NAME = "openblas"
library = blas.library("libopenblas.so.0", "libopenblas.so")
library.openblas_set_num_threads(int(os.environ["OPENBLAS_NUM_THREADS"]))


def version():
    library.openblas_get_config.restype = ctypes.c_char_p
    return library.openblas_get_config().decode().split()[1]


def prepare(expression, problem):
    return blas.prepare_product(library.cblas_sgemm, "bench_cblas_sgemm", problem)
