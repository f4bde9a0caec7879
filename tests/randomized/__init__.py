"""Random kernels from the grammar and the type rules, with a meaning of their own in NumPy (for tests/random_kernels.py)."""
