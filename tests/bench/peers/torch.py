"""PyTorch, eager, on as many threads as OMP_NUM_THREADS says. Its tensors are views of the same memory that ours are."""

import os

import numpy as np
import torch
import torch.nn.functional as F

NAME = "torch"
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.set_grad_enabled(False)


def version():
    return torch.__version__


def tensor(array, dtype):
    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array).view(torch.float8_e4m3fn) if dtype == "f8e4m3fn" else torch.from_numpy(array)


def array(value, dtype):
    return value.view(torch.int16).numpy().view(np.uint16) if dtype == "bf16" else value.numpy()


def mixture(x, r, w1, w2, k):
    """A mixture of experts as it is written in torch: each expert takes its rows out, and adds what it made. Experts are chosen in f32."""
    share, expert = (x.float() @ r.float()).topk(k)
    share, o = share.softmax(1).to(x.dtype), torch.zeros_like(x)
    for e in range(len(w1)):
        row, choice = (expert == e).nonzero(as_tuple=True)
        o = o.index_add(0, row, (F.silu(x[row] @ w1[e]) @ w2[e]) * share[row, choice, None])
    return o


def prepare(expression, problem, compiled=lambda function: function):
    outs = {name: tensor(value, problem.dtypes[name]) for name, value in problem.empties().items()}
    names = {"torch": torch, "F": F, **problem.values, **outs}
    names.update((name, tensor(value, problem.dtypes[name])) for name, value in problem.inputs.items())
    before, text = expression if isinstance(expression, tuple) else ("", expression)
    exec(before, names)
    call = compiled(eval(f"lambda: {text}", names))

    def result():
        """Where the operation has no out=, its own result: allocated anew by each call, from memory that is warm."""
        value = call()
        values = value if len(outs) > 1 else [value]
        return [chosen(value, out, problem.dtypes[name]) for value, (name, out) in zip(values, outs.items(), strict=True)]

    return call, result


def chosen(value, out, dtype):
    if value is None:
        return None
    own = isinstance(value, torch.Tensor) and value.numel() == out.numel()
    return array(value.detach().reshape(out.shape).to(out.dtype).contiguous() if own else out, dtype)
