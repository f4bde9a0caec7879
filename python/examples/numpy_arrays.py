#!/usr/bin/env python3
"""Flash attention on arrays of NumPy: a kernel of the library, compiled for the head's width when it is first called."""
import pathlib

import ml_dtypes
import numpy as np

import pkc

attention = pkc.load(pathlib.Path(pkc.__file__).parent / "share/pkc/kernels/flash_attn.pk", CAUSAL=True)
print(attention)

rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, heads, 100, 64), "f4") for heads in (4, 2, 2))
o = attention(q, k, v, threads=2)  # D = 64 is taken from the arrays

score = np.einsum("bgrnd,bgsd->bgrns", q.reshape(1, 2, 2, 100, 64), k) / 8
score = np.where(np.tri(100, dtype=bool), score, -np.inf)
weight = np.exp(score - score.max(-1, keepdims=True))
want = np.einsum("bgrns,bgsd->bgrnd", weight / weight.sum(-1, keepdims=True), v).reshape(q.shape)
print("largest difference from NumPy: %.1g" % abs(o - want).max())

half = attention(*(x.astype(ml_dtypes.bfloat16) for x in (q, k, v)))  # another variant
print("in %s: %.1g" % (half.dtype, abs(half.astype("f4") - want).max()))

attention(q.transpose(0, 1, 2, 3), k, v, out=o[::-1])  # views need no copies of one's own
print(attention.check(q[:, :, :5], k[:, :, :5], v[:, :, :5]))
