"""PyTorch, compiled by torch.compile. It is asked for the kernels that people compile: those whose rows name it."""

import functools

import torch

from . import torch as eager

NAME = "inductor"
version = eager.version


def prepare(expression, problem):
    return eager.prepare(expression, problem, functools.partial(torch.compile, dynamic=False))
