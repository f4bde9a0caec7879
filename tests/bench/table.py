"""The rows of the benchmark: a kernel with its equivalents for peers, and a case of it at some sizes."""

from dataclasses import dataclass, field

import numpy as np

KERNELS = {}  # FILE or FOLDER/FILE, with :KERNEL if its name differs from that of the file


@dataclass(frozen=True)
class Kernel:
    flops: str  # number of operations that bound it; "0" if only memory does
    terms: str  # length of its longest float reduction, for the tolerance
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
    """Random indices in an array of this shape, below `most`."""
    return np.random.default_rng(array.size).integers(0, most, array.shape)


def attend(q, k, v, causal, bias=0):
    """(o, lse) of attention, by NumPy, as inputs of gradients."""
    s = np.einsum("bhnd,bhsd->bhns", q, k, optimize=True) * q.shape[3] ** -0.5 + bias
    if causal:
        s = np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf)
    lse = np.log(np.exp(s - s.max(3, keepdims=True)).sum(3, keepdims=True)) + s.max(3, keepdims=True)
    return np.exp(s - lse) @ v, lse


def matmul(m, n, k):
    return {"M": m, "N": n, "K": k}


def attend_listed(q, k, v, chosen, size):
    """o and lse of one row for each position, [B, G, N, 1, D]; each block of queries sees the blocks of `size` keys that `chosen` lists."""
    batch, groups, lists, count = chosen.shape
    def listed(a):
        blocks = a.reshape(batch, groups, -1, size, a.shape[3])
        return np.take_along_axis(blocks, chosen.reshape(batch, groups, -1, 1, 1), 2).reshape(batch * groups, lists, count * size, -1)
    o, lse = attend(q.reshape(batch * groups, lists, -1, q.shape[4]), listed(k), listed(v), False)
    return o.reshape(*q.shape[:4], -1), lse.reshape(*q.shape[:4], 1)


def gguf_blocks(w, halves):
    """Blocks of random bytes, with finite f16 numbers as their scales."""
    made = w.copy()
    for at in halves:
        made[..., at:at + 2] = np.linspace(0.001, 0.002, w.shape[0] * w.shape[1]).astype(np.float16).view(np.uint8).reshape(*w.shape[:2], 2)
    return made


def rows(m, n):
    return {"M": m, "N": n}


def heads(n, s=None, h=8, g=8):
    return {"B": 1, "H": h, "G": g, "N": n, "S": n if s is None else s}


CAUSAL = {"CAUSAL": "true"}
