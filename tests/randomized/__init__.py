"""Random kernels from the grammar and the type rules, with a meaning of their own in NumPy (for tests/random_kernels.py)."""
import os

os.environ.setdefault("NUMPY_EXPERIMENTAL_ARRAY_FUNCTION", "0")  # small arrays: NumPy's dispatch takes as long as its work
