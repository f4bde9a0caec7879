"""References of the kernels beside this file."""
import numpy as np


def scan(x, a):
    """h[t] = a[t] h[t - 1] + x[t], which has no closed form."""
    h = np.zeros(x.shape[1], np.float64)
    out = []
    for row, decay in zip(x.astype(np.float64), a.astype(np.float64)):
        h = decay * h + row
        out.append(h)
    return np.array(out).reshape(x.shape)


def several(x, n, M, SCALE, T, CAUSAL, extra=3):
    assert T == "bf16" and CAUSAL is True and extra == 3 and x.dtype == np.float32 and n.dtype == np.int8
    return {"count": np.sum(n > 0), "o": x * SCALE + M}


def wrong(x, a):
    return scan(x, a) + 1e-3


def broken(x):
    return x[:0]
