"""Kernels of pkc in Python.

    import numpy, pkc

    softmax = pkc.load("softmax.pk")
    o = softmax(numpy.random.rand(1000, 777).astype("f4"))

pkc.load reads a .pk file, pkc.kernel a text; both give a Kernel. The manual is docs/python.md of pkc.
"""
from pkc import _core
from pkc._build import BuildError
from pkc._kernel import Kernel, grad, kernel, load
from pkc._tool import PROGRAM, CompileError

__version__ = _core.version()
__all__ = ["BuildError", "CompileError", "Kernel", "PROGRAM", "grad", "kernel", "load", "processors"]


def processors():
    """How many processors this process may use."""
    return _core.processors()


def load_ipython_extension(shell):
    """`%load_ext pkc` in IPython or a notebook."""
    from pkc import _notebook
    _notebook.load(shell)
