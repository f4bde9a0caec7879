"""Intel's MKL as pip installs it."""

import ctypes

from . import blas

NAME = "mkl"
library = blas.library(blas.environment("libmkl_rt.so*"), "libmkl_rt.so")


def version():
    text = ctypes.create_string_buffer(200)
    library.mkl_get_version_string(text, 200)
    words = text.value.decode().split()
    return words[words.index("Version") + 1] if "Version" in words else ""


def prepare(expression, problem):
    return blas.prepare_product(library.cblas_sgemm, "bench_cblas_sgemm", problem)
