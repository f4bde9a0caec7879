"""What a row of the benchmark is: a kernel and what peers compute in its place, and a case of it at some sizes."""

from dataclasses import dataclass, field

import numpy as np

KERNELS = {}  # by the name of its file, FILE or FOLDER/FILE, and :KERNEL where it is not called as the file


@dataclass(frozen=True)
class Kernel:
    flops: str  # operations of the arithmetic that bounds it; "0": only memory does
    terms: str  # of its longest float reduction, for the tolerance
    peers: dict
    data: dict = None  # inputs that are not random numbers: NumPy expressions of sizes, statics and the inputs before them


@dataclass(frozen=True)
class Case:
    name: str
    kernel: str
    sizes: dict
    goal: float = None
    statics: dict = field(default_factory=dict)
    round: dict = None  # sizes of the round neighbour
    round_statics: dict = None
    peers: dict = None  # in place of the kernel's
    counted: bool = True  # in the geometric mean
    note: str = ""

    @property
    def dtype(self):
        return self.statics.get("T", "f32")

    @property
    def expressions(self):
        return self.peers if self.peers is not None else KERNELS[self.kernel].peers


def places(array, most):
    """Random places of an array's shape, below `most`."""
    return np.random.default_rng(array.size).integers(0, most, array.shape)


def attend(q, k, v, causal, bias=0):
    """(o, lse) of attention, by NumPy: what gradients are given."""
    s = np.einsum("bhnd,bhsd->bhns", q, k, optimize=True) * q.shape[3] ** -0.5 + bias
    if causal:
        s = np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf)
    lse = np.log(np.exp(s - s.max(3, keepdims=True)).sum(3, keepdims=True)) + s.max(3, keepdims=True)
    return np.exp(s - lse) @ v, lse


def matmul(m, n, k):
    return {"M": m, "N": n, "K": k}


def attend_listed(q, k, v, chosen, size):
    """o and lse of one row a position, [B, G, N, 1, D], whose blocks of queries see the blocks of `size` keys that `chosen` lists."""
    batch, groups, lists, count = chosen.shape
    def listed(a):
        blocks = a.reshape(batch, groups, -1, size, a.shape[3])
        return np.take_along_axis(blocks, chosen.reshape(batch, groups, -1, 1, 1), 2).reshape(batch * groups, lists, count * size, -1)
    o, lse = attend(q.reshape(batch * groups, lists, -1, q.shape[4]), listed(k), listed(v), False)
    return o.reshape(*q.shape[:4], -1), lse.reshape(*q.shape[:4], 1)


def gguf_blocks(w, halves):
    """Blocks of random bytes, with finite f16 numbers at the places of their scales."""
    made = w.copy()
    for at in halves:
        made[..., at:at + 2] = np.linspace(0.001, 0.002, w.shape[0] * w.shape[1]).astype(np.float16).view(np.uint8).reshape(*w.shape[:2], 2)
    return made


def rows(m, n):
    return {"M": m, "N": n}


def heads(n, s=None, h=8, g=8):
    return {"B": 1, "H": h, "G": g, "N": n, "S": n if s is None else s}


CAUSAL = {"CAUSAL": "true"}
