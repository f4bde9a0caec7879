#!/usr/bin/env python3
"""A matrix product on tensors of torch."""
import pathlib

import torch

import pkc

matmul = pkc.load(pathlib.Path(pkc.__file__).parent / "share/pkc/kernels/matmul.pk")
a, b = torch.randn(300, 200), torch.randn(200, 100)
c = matmul(a, b, threads=2)
print("largest difference: %.1g" % (c - a @ b).abs().max())
c = matmul(a.to(torch.bfloat16), b.to(torch.bfloat16))
print(c.dtype, tuple(c.shape))
