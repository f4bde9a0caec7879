#!/usr/bin/env python3
"""A transformer of torch whose attention and norms are kernels of pkc's library, trained under torch.compile to add two numbers modulo 10."""
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

import pkc
import pkc.torch

KERNELS = pathlib.Path(pkc.__file__).parent / "share/pkc/kernels"
attention = pkc.torch.op(pkc.load(KERNELS / "train/attention.pk", "attention", CAUSAL=True), "examples::attention", threads=1,
                         backward=pkc.load(KERNELS / "train/attention.pk", "attention_backward", CAUSAL=True))
rmsnorm_backward = pkc.torch.op(pkc.load(KERNELS / "train/rmsnorm_backward.pk"), "examples::rmsnorm_backward", threads=1)


def norm_gradient(inputs, outputs, gradients):
    dx, dw = rmsnorm_backward(*inputs, *gradients)
    return dx, dw.reshape(-1)


rmsnorm = pkc.torch.op(pkc.load(KERNELS / "rmsnorm.pk"), "examples::rmsnorm", backward=norm_gradient, threads=1)


class Norm(nn.Module):
    def __init__(self, width, kernels):
        super().__init__()
        self.weight, self.kernels = nn.Parameter(torch.ones(width)), kernels

    def forward(self, x):
        if not self.kernels:
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)
        return rmsnorm(x.reshape(-1, x.shape[-1]), self.weight).view_as(x)


class Block(nn.Module):
    def __init__(self, width, heads, kernels):
        super().__init__()
        self.heads, self.kernels = heads, kernels
        self.first, self.second = Norm(width, kernels), Norm(width, kernels)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2).contiguous() for part in self.qkv(self.first(x)).chunk(3, 2))
        made = attention(q, k, v)[0] if self.kernels else F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(made.transpose(1, 2).flatten(2))
        return x + self.inner(self.second(x))


class Model(nn.Module):
    def __init__(self, tokens=10, length=2, width=64, heads=4, layers=2, kernels=True):
        super().__init__()
        self.embedding, self.position = nn.Embedding(tokens, width), nn.Parameter(torch.randn(length, width) / 8)
        self.blocks = nn.Sequential(*(Block(width, heads, kernels) for _ in range(layers)))
        self.norm, self.head = Norm(width, kernels), nn.Linear(width, tokens)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.embedding(ids) + self.position)))[:, -1]


torch.set_num_threads(1)  # the model is small
torch.manual_seed(0)
model, plain = Model(), Model(kernels=False)
plain.load_state_dict(model.state_dict())
ids = torch.cartesian_prod(torch.arange(10), torch.arange(10))
sums = ids.sum(1) % 10
for each in (model, plain):
    F.cross_entropy(each(ids), sums).backward()
difference = max((a.grad - b.grad).abs().max().item() for a, b in zip(model.parameters(), plain.parameters()))
print("gradients differ from torch's by %.0e" % difference)
assert difference < 1e-5

compiled = torch.compile(model, fullgraph=True, backend="aot_eager")  # without `backend` by Inductor, which takes a minute to compile
optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
for _ in range(100):
    optimiser.zero_grad()
    loss = F.cross_entropy(compiled(ids), sums)
    loss.backward()
    optimiser.step()
right = (compiled(ids).argmax(1) == sums).sum().item()
print("loss %.4f, %d of 100 sums are right" % (loss.item(), right))
assert right == 100
