#!/usr/bin/env python3
"""What a call costs beside the kernel: add on f32[8, 16], in microseconds, the best of many."""
import importlib.util
import pathlib
import time

import numpy as np

import pkc


def best(call, calls=200, rounds=300):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return min(times) * 1e6


add = pkc.load(pathlib.Path(pkc.__file__).parent / "share/pkc/kernels/add.pk")
x = np.ones((8, 16), "f4")
o = add(x, x)
print("NumPy    %6.2f   out= %6.2f   numpy.add %6.2f" % (best(lambda: add(x, x)), best(lambda: add(x, x, out=o)), best(lambda: np.add(x, x))))
if importlib.util.find_spec("jax"):
    import jax

    import pkc.jax
    y = jax.numpy.asarray(x)
    add(y, y)
    print("JAX      %6.2f   out= %6.2f (of NumPy)   x + y %6.2f" %
          (best(lambda: add(y, y), 50), best(lambda: add(y, y, out=o), 50), best(lambda: y + y, 50)))
    f, g = jax.jit(lambda x: pkc.jax.call(add, x, x)), jax.jit(lambda x: x + x)
    f(y), g(y)
    print("jax.jit  %6.2f   x + x %6.2f" % (best(lambda: f(y), 50), best(lambda: g(y), 50)))
if importlib.util.find_spec("torch"):
    import torch
    z, p = torch.ones(8, 16), torch.ones(8, 16)
    print("torch    %6.2f   out= %6.2f   z + z %6.2f" % (best(lambda: add(z, z)), best(lambda: add(z, z, out=p)), best(lambda: z + z)))
