"""Random kernels from the grammar and the type rules, and their independent evaluation in NumPy (for tests/random_kernels.py)."""
import os

os.environ.setdefault("NUMPY_EXPERIMENTAL_ARRAY_FUNCTION", "0")  # arrays are small, so dispatch takes as long as computation in NumPy
