"""NumPy, with the OpenBLAS that its wheels hold. Also an independent check of the results."""

import numpy as np

NAME = "numpy"


def version():
    return np.__version__


def prepare(expression, problem):
    outs = problem.empties()
    names = {"np": np, **problem.values, **problem.inputs, **outs}
    before, text = expression if isinstance(expression, tuple) else ("", expression)
    exec(before, names)
    return eval(f"lambda: {text}", names), lambda: list(outs.values())
