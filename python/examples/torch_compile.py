#!/usr/bin/env python3
"""An operator of torch with a gradient: silu and the kernel of its backward, under torch.compile."""
import torch

import pkc
import pkc.torch

TEXT = """
kernel silu(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8, N] at (i, 0);
  o[...] = x[...] * sigmoid(x[...]);
}
kernel silu_backward(x: f32[M, N], do: f32[M, N]) -> (dx: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, do, dx: [8, N] at (i, 0);
  let s = sigmoid(x[...]);
  dx[...] = do[...] * s * (1 + x[...] * (1 - s));
}
"""
silu = pkc.torch.op(pkc.kernel(TEXT, "silu"), "examples::silu", backward=pkc.kernel(TEXT, "silu_backward"))


@torch.compile(fullgraph=True, backend="aot_eager")
def loss(x):
    return silu(x).square().sum()


x = torch.randn(300, 200, requires_grad=True)
loss(x).backward()
y = x.detach().clone().requires_grad_()
torch.nn.functional.silu(y).square().sum().backward()
print("largest difference of the gradients: %.1g" % (x.grad - y.grad).abs().max())
