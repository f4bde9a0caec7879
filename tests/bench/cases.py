"""The table of cases: which kernel at which sizes, what a peer is asked for the same result, and the goal.

A goal is the best peer's time divided by ours. An odd case also names its round neighbour: sizes of the same kernel that the time
per unit of work is compared with.

Peers' expressions see the operands, sizes and statics by name. Torch and NumPy write into the output, which is there beforehand;
for JAX an expression is the jitted function of all inputs. A pair is (statements that are run once before, expression).
Of a kernel with several outputs an expression gives a tuple, in their order, with None for what the peer does not compute.
"""

from dataclasses import dataclass, field

import numpy as np


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


def attend(q, k, v, causal):
    """(o, lse) of attention, by NumPy: what gradients are given."""
    s = np.einsum("bhnd,bhsd->bhns", q, k, optimize=True) * q.shape[3] ** -0.5
    if causal:
        s = np.where(np.tri(*s.shape[2:], dtype=bool), s, -np.inf)
    lse = np.log(np.exp(s - s.max(3, keepdims=True)).sum(3, keepdims=True)) + s.max(3, keepdims=True)
    return np.exp(s - lse) @ v, lse


BLAS = {name: "sgemm" for name in ("mkl", "onednn", "openblas", "blis")}

ATTENTION_TORCH = "F.scaled_dot_product_attention(q, k, v, is_causal=CAUSAL, enable_gqa=H != G)"
ATTENTION_JAX = """attention(q, k, v, CAUSAL)"""
ATTENTION_NUMPY = (
    "seen = np.tril(np.ones((N, S), bool)) if CAUSAL else np.ones((N, S), bool)\n"
    "def softmax(s): e = np.exp(s - s.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)\n"
    "def scores(): return np.where(seen, q @ k.repeat(H // G, 1).swapaxes(2, 3) * np.float32(D ** -0.5), -np.inf)",
    "np.matmul(softmax(scores()), v.repeat(H // G, 1), out=o)",
)

KERNELS = {
    "matmul": Kernel(
        "2*M*N*K",
        "K",
        {"torch": "torch.mm(a, b, out=c)", "jax": "a @ b", "numpy": "np.matmul(a, b, out=c)", **BLAS},
    ),
    "flash_attn": Kernel(
        "4*B*H*D*(N*(N+1)//2 if CAUSAL else N*S)",
        "max(S, D)",
        {"torch": ATTENTION_TORCH, "jax": ATTENTION_JAX, "numpy": ATTENTION_NUMPY},
    ),
    "mlp": Kernel(
        "4*M*D*F",
        "max(D, F)",
        {
            "torch": (
                "h = torch.empty(M, F)",
                "(torch.addmm(b1, x, w1, out=h), torch.relu_(h), torch.addmm(b2, h, w2, out=o))",
            ),
            "jax": "jnp.maximum(x @ w1 + b1, 0) @ w2 + b2",
            "numpy": (
                "h = np.empty((M, F), np.float32)",
                "(np.matmul(x, w1, out=h), np.add(h, b1, out=h), np.maximum(h, 0, out=h), np.matmul(h, w2, out=o), np.add(o, b2, out=o))",
            ),
        },
    ),
    "add": Kernel("0", "1", {"torch": "torch.add(x, y, out=o)", "jax": "x + y", "numpy": "np.add(x, y, out=o)"}),
    "selu": Kernel(
        "0",
        "1",
        {
            "torch": "torch.ops.aten.elu.out(x, ALPHA, SCALE, 1, out=o)",
            "jax": "jax.nn.selu(x)",
            "numpy": "np.multiply(SCALE, np.where(x > 0, x, ALPHA * np.expm1(np.minimum(x, 0))), out=o)",
        },
    ),
    "gelu": Kernel(
        "0",
        "1",
        {
            "torch": "torch.ops.aten.gelu.out(x, approximate='tanh', out=o)",
            "jax": "jax.nn.gelu(x, approximate=True)",
            "numpy": "np.multiply(0.5 * x, 1 + np.tanh(ROOT * (x + CUBE * x * x * x)), out=o)",
        },
    ),
    "softmax": Kernel(
        "0",
        "N",
        {
            "torch": "torch.softmax(x, 1, out=o)",
            "jax": "jax.nn.softmax(x, axis=1)",
            "numpy": "(np.subtract(x, x.max(1, keepdims=True), out=o), np.exp(o, out=o), np.divide(o, o.sum(1, keepdims=True), out=o))",
        },
    ),
    "rmsnorm": Kernel(
        "0",
        "N",
        {
            "torch": "F.rms_norm(x, (N,), w, EPS)",
            "jax": "x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPS) * w",
            "numpy": "np.multiply(x / np.sqrt((x * x).mean(1, keepdims=True) + EPS), w, out=o)",
        },
    ),
    "layernorm": Kernel(
        "0",
        "N",
        {
            "torch": "torch.native_layer_norm(x, (N,), w, b, EPS)[0]",
            "jax": "(x - jnp.mean(x, 1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, 1, keepdims=True) + EPS) * w + b",
            "numpy": "np.add((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + EPS) * w, b, out=o)",
        },
    ),
    "row_sum": Kernel(
        "0",
        "N",
        {
            "torch": "torch.sum(x, 1, keepdim=True, out=o)",
            "jax": "jnp.sum(x, axis=1, keepdims=True)",
            "numpy": "np.sum(x, axis=1, keepdims=True, out=o)",
        },
    ),
    "conv2d": Kernel(
        "2*N*S*S//BY//BY*F*K*K*C//G",
        "K*K*C//G",
        {
            "torch": (
                # What SAME pads of a stride is not the same on both sides, which conv2d has no word for.
                "xt = x.permute(0, 3, 1, 2)\nwt = w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)\n"
                "conv2d, pad = torch.nn.functional.conv2d, torch.nn.functional.pad\n"
                "more = max((-(-S // BY) - 1) * BY + K - S, 0)\n"
                "def padded(): return xt if more % 2 == 0 else pad(xt, (more // 2, more - more // 2) * 2)",
                "conv2d(padded(), wt, padding=more // 2 if more % 2 == 0 else 0, stride=BY, groups=G).permute(0, 2, 3, 1)",
            ),
            "jax": "jax.lax.conv_general_dilated(x, w, (BY, BY), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'), "
            "feature_group_count=G)",
        },
    ),
    "causal_conv1d": Kernel(
        "0",
        "4",
        {
            "torch": (
                "wt = w.t().reshape(D, 1, 4).contiguous()",
                "F.silu(F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), wt, b[0], groups=D)).transpose(1, 2)",
            ),
            "jax": "jax.nn.silu(sum(jnp.pad(x, ((0, 0), (3, 0), (0, 0)))[:, i:i + x.shape[1]] * w[i] for i in range(4)) + b)",
        },
    ),
    "weights_int8": Kernel(
        "2*M*N*K", "K", {"torch": "(a @ w.to(torch.float32)) * scale", "jax": "(a @ w.astype(jnp.float32)) * scale"}
    ),
    "weights_int8:weights_bf16": Kernel(
        "2*M*N*K",
        "K",
        {
            "torch": ("wt = w.t().contiguous()", "torch._weight_int8pack_mm(a, wt, scale[0])"),
            "jax": "((a @ w.astype(jnp.bfloat16)).astype(jnp.float32) * scale.astype(jnp.float32)).astype(jnp.bfloat16)",
        },
    ),
    "weights_gptq": Kernel(
        "256*M*N*K",
        "128*K",
        {
            "jax": "a @ (((jax.lax.shift_right_logical(w[:, None, :], jnp.arange(0, 32, 4, dtype=jnp.int32)[None, :, None]) & 15)"
            ".reshape(a.shape[1], -1).astype(jnp.float32) - jnp.repeat(zero, 128, 0)) * jnp.repeat(scale, 128, 0))"
        },
    ),
    "rope_pairs": Kernel(
        "0",
        "1",
        {
            "torch": (
                "pairs, turn = x.view(N, D // 2, 2), torch.complex(c, s)",
                "torch.view_as_real(torch.view_as_complex(pairs) * turn).reshape(N, D)",
            ),
            "jax": "jnp.stack([x[:, ::2] * c - x[:, 1::2] * s, x[:, 1::2] * c + x[:, ::2] * s], 2).reshape(x.shape)",
            "numpy": (
                "a, b = x[:, ::2], x[:, 1::2]",
                "(np.subtract(a * c, b * s, out=o[:, ::2]), np.add(b * c, a * s, out=o[:, 1::2]))",
            ),
        },
    ),
    "sort_rows": Kernel(
        "0",
        "1",
        {
            "torch": ("order = torch.empty(M, N, dtype=torch.int64)", "torch.sort(x, dim=1, out=(o, order))"),
            "jax": "jnp.sort(x, axis=1)",
            "numpy": "(np.copyto(o, x), o.sort(axis=1))",
        },
    ),
    "argsort_rows": Kernel(
        "0",
        "1",
        {
            "torch": "o.copy_(torch.argsort(x, dim=1, stable=True))",
            "jax": "jnp.argsort(x, axis=1)",
            "numpy": "np.copyto(o, np.argsort(x, axis=1, kind='stable'), casting='unsafe')",
        },
    ),
    "top_k": Kernel(
        "0",
        "1",
        {
            "torch": "torch.topk(x, K, dim=1)[0]",
            "jax": "jax.lax.top_k(x, K)[0]",
            "numpy": "np.copyto(o, np.sort(np.partition(x, N - K, axis=1)[:, N - K:], axis=1)[:, ::-1])",
        },
    ),
    "cumsum_rows": Kernel(
        "0",
        "N",
        {
            "torch": "torch.cumsum(x, 1, out=o)",
            "jax": "jnp.cumsum(x, axis=1)",
            "numpy": "np.cumsum(x, axis=1, out=o)",
        },
    ),
    "segment_sum": Kernel(
        "0",
        "N // S",
        {
            "torch": ("to = id.long()", "o.zero_().index_add_(0, to, x)"),
            "jax": "jnp.zeros((S, D), jnp.float32).at[id].add(x)",
            "numpy": "(o.fill(0), np.add.at(o, id, x))",
        },
        data={"id": "cases.places(id, S)"},
    ),
    "histogram": Kernel(
        "0",
        "1",
        {
            "torch": "o.copy_(torch.bincount(x, minlength=BINS))",
            "jax": "jnp.bincount(x, length=BINS).astype(jnp.int32)",
            "numpy": "np.copyto(o, np.bincount(x, minlength=BINS), casting='unsafe')",
        },
        data={"x": "cases.places(x, BINS)"},
    ),
    "spmv": Kernel(
        "0",
        "K",
        {
            "torch": (
                "starts = torch.arange(0, R * K + 1, K, dtype=torch.int32)\n"
                "a = torch.sparse_csr_tensor(starts, place.reshape(-1), value.reshape(-1), size=(R, N), check_invariants=False)",
                "y.copy_(torch.mv(a, x)[:, None])",
            ),
            "jax": "jnp.sum(value * x[place], axis=1, keepdims=True)",
            "numpy": "np.einsum('rk,rk->r', value, x[place], out=y[:, 0])",
        },
        data={"place": "cases.places(place, N)"},
    ),
    "matmul/linear:linear": Kernel(
        "2*M*N*K",
        "K",
        {
            "torch": ("h = torch.empty(M, N)", "torch.ops.aten.gelu.out(torch.addmm(bias, x, w, out=h), approximate='tanh', out=o)"),
            "jax": "jax.nn.gelu(x @ w + bias, approximate=True)",
        },
    ),
    "matmul/linear:swiglu": Kernel(
        "4*M*N*K",
        "K",
        {"torch": "torch.mul(F.silu(x @ gate), x @ up, out=o)", "jax": "jax.nn.silu(x @ gate) * (x @ up)"},
    ),
    "matmul/linear:linear_weights": Kernel("2*M*N*K", "M", {"torch": "torch.mm(x.t(), do, out=dw)", "jax": "x.T @ do"}),
    "sequence/conv1d": Kernel(
        "0",
        "4",
        {
            "torch": (
                "wt = w.t().reshape(C, 1, 4).contiguous()",
                "F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), wt, bias, groups=C).transpose(1, 2)",
            ),
            "jax": "sum(jnp.pad(x, ((0, 0), (3, 0), (0, 0)))[:, i:i + x.shape[1]] * w[i] for i in range(4)) + bias",
        },
    ),
    "train/gelu_backward": Kernel(
        "0",
        "64",  # XLA's tanh is some units in the last place off, and is multiplied by the cube's derivative
        {
            "torch": "torch.ops.aten.gelu_backward(do, x, approximate='tanh')",
            "jax": "jax.vjp(lambda v: jax.nn.gelu(v, approximate=True), x)[1](do)[0]",
        },
    ),
    "train/softmax_backward": Kernel(
        "0",
        "N",
        {
            "torch": "torch.ops.aten._softmax_backward_data(do, o, 1, torch.float32)",
            "jax": "o * (do - (o * do).sum(1, keepdims=True))",
        },
    ),
    "attention/options:attention": Kernel(
        "4*B*H*D*N*min(WINDOW, S)",
        "max(S, D)",
        {
            "torch": (
                "row, col = torch.arange(N)[:, None], torch.arange(S)\nseen = (col <= row) & (row - col < WINDOW)",
                "(F.scaled_dot_product_attention(q, k, v, attn_mask=seen), None)",
            ),
            "jax": "(windowed(q, k, v, WINDOW), None)",
        },
    ),
    "attention/decode:decode": Kernel(
        "4*B*G*R*S*D",
        "max(S, D)",
        {
            "torch": "F.scaled_dot_product_attention(q, k.float() * k_scale.mT, v.float() * v_scale.mT)",
            "jax": "jnp.einsum('bgrs,bgsd->bgrd', jax.nn.softmax(jnp.einsum('bgrd,bgsd->bgrs', q, k.astype('f4')) * k_scale * D**-0.5) "
            "* v_scale, v.astype('f4'))",
        },
        {"length": "S", **{name: "np.linspace(0.005, 0.01, S) * np.ones((B, G, 1, 1))" for name in ("k_scale", "v_scale")}},
    ),
    "attention/paged:paged": Kernel(
        "4*B*G*R*TMAX*PAGE*D",
        "max(TMAX * PAGE, D)",
        {
            "torch": (
                "def pages(a): return a[:, table].permute(1, 0, 2, 3, 4).reshape(B, G, TMAX * PAGE, D)",
                "F.scaled_dot_product_attention(q, pages(k), pages(v))",
            ),
            "jax": "gathered(q, k, v, table)",
        },
        {"table": "(np.arange(B * TMAX) * 7 % P).reshape(B, TMAX)", "length": "TMAX * PAGE"},
    ),
    "sequence/ssd:ssd": Kernel(
        "B*H*N*(2*BN*S + 2*BN*P + 4*S*P)",
        "4*BN",
        {
            # The product that is masked by the decays, whole: what the chunks avoid.
            "torch": (
                "earlier = torch.ones(N, N, dtype=torch.bool).tril()\n"
                "def decays(): u = log_a.cumsum(2); return torch.where(earlier, u - u.mT, -torch.inf).exp()\n"
                "def state(): u = log_a.cumsum(2); return u.exp() * (c.repeat_interleave(H // G, 1) @ first)",
                "(((c @ b.mT).repeat_interleave(H // G, 1) * decays()) @ x + state(), None)",
            ),
            "jax": "(chunked(x, log_a, b, c, first, BN), None)",
        },
        {"log_a": "-np.abs(log_a) / 64"},
    ),
    "sequence/gated:gated": Kernel(
        "0",
        "16",
        {
            "jax": "(lambda h: (h, h[:, -1:]))(jax.lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), "
            "(jnp.exp(log_a), x.at[:, 0].add(jnp.exp(log_a[:, 0]) * first[:, 0])), axis=1)[1])"
        },
        {"log_a": "-np.abs(log_a) / 16"},
    ),
    "images/pool:pool": Kernel(
        "0",
        "1",
        {
            "torch": "F.max_pool2d(x.permute(0, 3, 1, 2), K).permute(0, 2, 3, 1)",
            "jax": "x.reshape(N, H // K, K, W // K, K, C).max((2, 4))",
        },
    ),
    "train/attention:attention_backward": Kernel(
        "10*B*H*D*(N*(N+1)//2 if CAUSAL else N*S)",
        "4*max(S, D)",
        {
            "torch": (
                "torch.set_grad_enabled(True)\nleaves = [t.clone().requires_grad_() for t in (q, k, v)]\n"
                "made = F.scaled_dot_product_attention(*leaves, is_causal=CAUSAL)\ntorch.set_grad_enabled(False)",
                "torch.autograd.grad(made, leaves, do, retain_graph=True)",
            ),
            "jax": "jax.vjp(lambda q, k, v: attention(q, k, v, CAUSAL), q, k, v)[1](do)",
        },
        {"o": "cases.attend(q, k, v, CAUSAL)[0]", "lse": "cases.attend(q, k, v, CAUSAL)[1]"},
    ),
    "train/layernorm_backward": Kernel(
        "0",
        "4*max(M, N)",
        {
            "torch": (
                "o, mean, scale = torch.native_layer_norm(x, (N,), w, w, 1e-5)",
                "torch.ops.aten.native_layer_norm_backward(do, x, (N,), mean, scale, w, w, (True, True, True))",
            ),
            "jax": "jax.vjp(lambda x, w, b: (x - jnp.mean(x, 1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, 1, keepdims=True) + 1e-5) * w + b, "
            "x, w, w)[1](do)",
        },
    ),
    "train/rmsnorm_backward": Kernel(
        "0",
        "4*max(M, N)",
        {"jax": "jax.vjp(lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x, 1, keepdims=True) + 1e-6) * w, x, w)[1](do)"},
    ),
    "train/swiglu_backward": Kernel(
        "12*M*N*K",
        "4*max(M, N, K)",
        {
            "torch": (
                "torch.set_grad_enabled(True)\nleaves = [t.clone().requires_grad_() for t in (x, gate, up)]\ntorch.set_grad_enabled(False)\n"
                "def made():\n    with torch.enable_grad(): return F.silu(leaves[0] @ leaves[1]) * (leaves[0] @ leaves[2])",
                "torch.autograd.grad(made(), leaves, do)",
            ),
            "jax": "jax.vjp(lambda x, g, u: jax.nn.silu(x @ g) * (x @ u), x, gate, up)[1](do)",
        },
    ),
    "train/cross_entropy:cross_entropy": Kernel(
        "0",
        "N",
        {
            "torch": "(F.cross_entropy(x, target[:, 0].long(), reduction='none'), None)",
            "jax": "(lambda e: (e - jnp.take_along_axis(x, target, 1), e))(jax.nn.logsumexp(x, 1, keepdims=True))",
        },
        {"target": "np.arange(M)[:, None] * 31 % N"},
    ),
    "train/embedding_backward": Kernel(
        "0",
        "16",
        {"torch": "torch.zeros(V, D).index_add_(0, id, do)", "jax": "jnp.zeros((V, D)).at[id].add(do)"},
        {"id": "np.arange(N) * 7 % V"},
    ),
    "train/conv1d_backward": Kernel(
        "0",
        "4*N",
        {"jax": "jax.vjp(lambda x, w, b: sum(jnp.pad(x, ((0, 0), (3, 0), (0, 0)))[:, i:i + x.shape[1]] * w[i] for i in range(4)) + b, x, w, bias)[1](do)"},
    ),
    "train/weights_backward:i8_columns_backward": Kernel(
        "2*M*N*K", "N", {"torch": "(do * scale) @ w.t().float()", "jax": "(do * scale) @ w.T.astype('f4')"}
    ),
    "rope": Kernel(
        "0",
        "1",
        {
            "torch": (
                "step = BASE ** (torch.arange(D // 2) * (-2 / D))\ndef turned(c, s, a, b): return torch.cat([a * c - b * s, b * c + a * s], 3)\n"
                "def angle(): return (position[..., None] * step)[:, :, None]",
                "(lambda t: turned(t.cos(), t.sin(), *x.chunk(2, 3)))(angle())",
            ),
            "jax": "(lambda t, a, b: jnp.concatenate([a * jnp.cos(t) - b * jnp.sin(t), b * jnp.cos(t) + a * jnp.sin(t)], 3))("
            "(position[..., None] * BASE ** (jnp.arange(D // 2) * (-2 / D)))[:, :, None], *jnp.split(x, 2, axis=3))",
        },
        {"position": "np.arange(N) % 8"},  # where rounding of BASE's powers does not show
    ),
    "sampling": Kernel(
        "0",
        "1",
        {
            # At temperature 0, where chance does not matter: the same sort, sums and limits.
            "torch": (
                "def chosen(best, place):\n"
                "    e = ((best - best[:, :1]) / 1e-6).exp(); sums = e.cumsum(1)\n"
                "    return place.gather(1, (sums < 0.5 * sums[:, -1:]).sum(1, keepdim=True)).int()",
                "chosen(*torch.sort(logits, 1, True))",
            ),
            "jax": "(lambda best, place: (lambda sums: jnp.take_along_axis(place, (sums < 0.5 * sums[:, -1:]).sum(1, keepdims=True), 1))("
            "jnp.cumsum(jnp.exp((best[:, :1] - best) / 1e-6), 1)))(*jax.lax.sort((-logits, jax.lax.broadcasted_iota('i4', logits.shape, 1)), num_keys=1))",
        },
        {"temperature": "np.zeros(1)", "top_p": "np.ones(1)", "top_k": "0"},
    ),
    **{
        f"matmul/weights:{name}": Kernel(
            "64*M*N*Q", "32*Q", {"torch": f"x @ ({wide}.float() * d).reshape(N, -1).t()", "jax": f"x @ ({wide_jax}.astype('f4') * d).reshape(w.shape[0], -1).T"}
        )
        for name, wide, wide_jax in (
            ("q8_0", "w", "w"),
            ("q4_0", "(torch.cat([w & 15, w >> 4], 2).to(torch.int8) - 8)", "(jnp.concatenate([w & 15, w >> 4], 2).astype('i1') - 8)"),
        )
    },
    "matmul/grouped:grouped": Kernel(
        "2*M*N*K",
        "K",
        {
            "torch": ("rows = M // len(group)", "torch.cat([x[i * rows:(i + 1) * rows] @ w[g] for i, g in enumerate(group.tolist())])"),
            "jax": "jnp.einsum('bmk,bkn->bmn', x.reshape(group.shape[0], -1, x.shape[1]), w[group]).reshape(x.shape[0], -1)",
        },
        {"group": "np.arange(len(group)) * G // len(group)"},
    ),
    "embedding": Kernel("0", "1", {"torch": "F.embedding(id, table)", "jax": "table[id]"}, {"id": "cases.places(id, V)"}),
    "train/linear_cross_entropy:linear_cross_entropy": Kernel(
        "2*M*N*K",
        "4*max(K, N)",
        {
            "torch": "(F.cross_entropy(x @ w.t(), target[:, 0].long(), reduction='none')[:, None], None)",
            "jax": "(lambda s: (lambda e: (e - jnp.take_along_axis(s, target, 1), e))(jax.nn.logsumexp(s, 1, keepdims=True)))(x @ w.T)",
        },
        {"target": "np.arange(M)[:, None] * 31 % N", "w": "w / 16"},
    ),
    "attention/biased:biased": Kernel(
        "4*B*H*D*N*S",
        "max(S, D)",
        {
            "torch": "(F.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(qs == ks, 0, -torch.inf)[:, None] + bias), None)",
            "jax": "(jnp.einsum('bhns,bhsd->bhnd', jax.nn.softmax(jnp.where((qs == ks)[:, None], jnp.einsum('bhnd,bhsd->bhns', q, k) * D**-0.5 + bias, "
            "-jnp.inf)), v), None)",
        },
        {"qs": "np.arange(N)[:, None] * 4 // N", "ks": "np.arange(S) * 4 // S"},
    ),
    "sequence/gated:gated_backward": Kernel(
        "0",
        "16",
        {
            "jax": "(lambda d: (d, None, None))(jax.lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), "
            "(jnp.exp(jnp.pad(log_a[:, 1:], ((0, 0), (0, 1), (0, 0)))), dh.at[:, -1].add(dlast[:, 0])), axis=1, reverse=True)[1])"
        },
        {"log_a": "-np.abs(log_a) / 16"},
    ),
    "train/pool_backward:pool_backward": Kernel(
        "0",
        "1",
        {
            "torch": (
                "torch.set_grad_enabled(True)\nleaf = x.permute(0, 3, 1, 2).clone(memory_format=torch.channels_last).requires_grad_()\n"
                "given = do.permute(0, 3, 1, 2)\ntorch.set_grad_enabled(False)\n"
                # Which element is the greatest is not given to the kernel either.
                "def made():\n    with torch.enable_grad(): return F.max_pool2d(leaf, K)",
                "torch.autograd.grad(made(), leaf, given)[0].permute(0, 2, 3, 1)",
            ),
        },
    ),
    "train/gradient_norm:gradient_norm": Kernel(
        "0", "M*N", {"torch": "torch.linalg.vector_norm(g).reshape(1, 1)", "jax": "jnp.sqrt(jnp.sum(g * g)).reshape(1, 1)", "numpy": "np.copyto(norm, np.sqrt(np.vdot(g, g)))"}
    ),
    "transpose": Kernel("0", "1", {"torch": "o.copy_(x.t())", "jax": "x.T", "numpy": "np.copyto(o, x.T)"}),
}

BF16_MATMUL = {"torch": "torch.mm(a, b, out=c)", "jax": "a @ b"}
I8_MATMUL = {
    "torch": "torch._int_mm(a, b, out=c)",
    "jax": "jnp.matmul(a, b, preferred_element_type=jnp.int32)",
    "onednn": "s8s8s32",
}
BF16_ATTENTION = {"torch": ATTENTION_TORCH, "jax": ATTENTION_JAX}


def matmul(m, n, k):
    return {"M": m, "N": n, "K": k}


def rows(m, n):
    return {"M": m, "N": n}


def heads(n, s=None, h=8, g=8):
    return {"B": 1, "H": h, "G": g, "N": n, "S": n if s is None else s}


CAUSAL = {"CAUSAL": "true"}

GOALS = [
    *(
        Case(f"matmul f32 {n}^3", "matmul", matmul(n, n, n), goal)
        for n, goal in ((64, 1.2), (128, 1.0), (256, 1.0), (512, 1.0), (1024, 1.03), (2048, 1.03))
    ),
    Case(
        "matmul f32 1x4096x4096",
        "matmul",
        matmul(1, 4096, 4096),
        1.0,
        peers={**KERNELS["matmul"].peers, "torch": "torch.mv(b.t(), a[0], out=c[0])"},
    ),
    Case("matmul f32 8x4096x4096", "matmul", matmul(8, 4096, 4096), 1.0),
    Case("matmul bf16 1024^3", "matmul", matmul(1024, 1024, 1024), 1.85, {"T": "bf16"}, peers=BF16_MATMUL),
    Case("matmul i8 1024^3", "matmul", matmul(1024, 1024, 1024), 1.0, {"T": "i8"}, peers=I8_MATMUL),
    *(
        Case(f"attention full {n}, D={d}", "flash_attn", heads(n), goal, {"D": d})
        for n, d, goal in ((1024, 64, 1.2), (2048, 64, 1.2), (2048, 128, 1.08))
    ),
    *(
        Case(f"attention causal {n}, D=64", "flash_attn", heads(n), goal, CAUSAL)
        for n, goal in ((512, 2.0), (1024, 1.6), (2048, 1.4))
    ),
    Case("attention bf16 1024, D=64", "flash_attn", heads(1024), 2.0, {"T": "bf16"}, peers=BF16_ATTENTION),
    Case("attention bf16 1024, 8 heads on 2", "flash_attn", heads(1024, g=2), 2.0, {"T": "bf16"}, peers=BF16_ATTENTION),
    Case("decode 4096 keys, 8 heads on 8, D=64", "flash_attn", heads(1, 4096), 1.0),
    Case("decode 4096 keys, 32 heads on 8, D=128", "flash_attn", heads(1, 4096, 32, 8), 2.5, {"D": 128}),
    Case("mlp 256x1024x4096", "mlp", {"M": 256, "D": 1024, "F": 4096}, 1.05),
    Case("add 4096x4096", "add", rows(4096, 4096), 1.8),
    Case("selu 2048x2048", "selu", rows(2048, 2048), 3.0),
    Case("gelu 2048x2048", "gelu", rows(2048, 2048), 1.8),
    Case("softmax 4096x2048", "softmax", rows(4096, 2048), 1.8),
    Case("softmax 1024x1024", "softmax", rows(1024, 1024), 1.6),
    Case("rmsnorm 4096x2048", "rmsnorm", rows(4096, 2048), 1.8),
    Case("rmsnorm 1024x1024", "rmsnorm", rows(1024, 1024), 1.8),
    Case("layernorm 4096x2048", "layernorm", rows(4096, 2048), 1.25),
    Case("layernorm 1024x1024", "layernorm", rows(1024, 1024), 1.25),
    Case("row_sum 4096x4096", "row_sum", rows(4096, 4096), 1.0),
    Case("transpose 4096x4096", "transpose", rows(4096, 4096), 3.5),
    Case("transpose 1024x1024", "transpose", rows(1024, 1024), 1.5),
]

IMAGE = {"S": 56, "C": 64, "F": 64}

# What people write: convolutions, products with weights that are computed, sorts. Not counted: their goals are of one machine, and peers
# widen all weights before they multiply.
WRITTEN = [
    *(
        Case(f"conv2d {what}", "conv2d", {"N": n}, goal, statics={**IMAGE, **statics}, counted=False)
        for what, n, statics, goal in (
            ("3x3 of 56x56x64", 1, {}, 1.0),
            ("1x1 of 8x56x56x64", 8, {"K": 1}, 1.0),
            ("3x3 by 2 of 56x56x64", 1, {"BY": 2}, 1.0),
            ("3x3 depthwise of 8x56x56x64", 8, {"G": 64}, 1.0),
        )
    ),
    Case("causal conv1d 8x512x256", "causal_conv1d", {"B": 8}, 1.5, statics={"S": 512, "D": 256}, counted=False),
    *(
        Case(f"weights i8 {m}x4096x4096", "weights_int8", {"M": m, "N": 4096, "K": 4096}, goal, counted=False)
        for m, goal in ((1, 8.0), (4, 5.0), (16, 2.2), (64, 1.3))
    ),
    *(
        Case(f"weights i8, x bf16 {m}x4096x4096", "weights_int8:weights_bf16", {"M": m, "N": 4096, "K": 4096}, goal, counted=False)
        for m, goal in ((1, 1.5), (4, 1.5), (16, 2.0), (64, 2.0))
    ),
    *(
        Case(f"weights GPTQ {m}x4096x4096", "weights_gptq", {"M": m, "N": 4096, "K": 32}, goal, counted=False)
        for m, goal in ((1, 8.0), (4, 4.0), (16, 2.2), (64, 1.3))
    ),
    Case("rotary embedding by pairs 8192x128", "rope_pairs", {"N": 8192}, 1.0, counted=False),
    Case("sort 1024x1024", "sort_rows", rows(1024, 1024), 2.0, counted=False),
    Case("argsort 1024x1024", "argsort_rows", rows(1024, 1024), 2.0, counted=False),
    Case("top_k 8 of 1024x1024", "top_k", rows(1024, 1024), 2.0, counted=False),
    Case("top_k 8 of 16x50257", "top_k", rows(16, 50257), 2.0, counted=False),
    Case("cumsum along 1024x1024", "cumsum_rows", rows(1024, 1024), 2.0, counted=False),
    Case("segment sums 8192x512 by 256", "segment_sum", {"N": 8192, "D": 512, "S": 256}, 2.0, counted=False),
    Case("histogram of 1048576 in 256", "histogram", {"N": 1048576}, 1.0, counted=False),
    Case("SpMV 65536x65536, 16 a row", "spmv", {"R": 65536, "N": 65536}, 1.0, counted=False),
]

# Kernels of the library's folders.
LIBRARY = [
    Case(
        "linear, bias and gelu 512x1024x4096",
        "matmul/linear:linear",
        matmul(512, 4096, 1024),
        statics={"BIAS": "true", "ACT": 2},
        counted=False,
    ),
    Case("swiglu 512x1024x2048", "matmul/linear:swiglu", matmul(512, 2048, 1024), counted=False),
    Case("gradient of weights 1024x1024x1024", "matmul/linear:linear_weights", matmul(1024, 1024, 1024), counted=False),
    Case("conv1d 8x512x1024", "sequence/conv1d", {"B": 8, "N": 512, "C": 1024, "K": 4}, counted=False),
    Case(
        "attention, window 256 of 2048, D=64",
        "attention/options:attention",
        heads(2048),
        statics={"CAUSAL": "true", "WINDOW": 256},
        counted=False,
    ),
    *(
        Case(
            f"decode 4 x 4096 keys, 32 heads on 8, {kv}",
            "attention/decode:decode",
            {"B": 4, "G": 8, "S": 4096},
            statics={"KV": kv, "R": 4, "D": 128, "SCALED": "true"},
            counted=False,
        )
        for kv in ("f32", "i8")
    ),
    Case(
        "paged decode 4 x 4096 keys, 32 heads on 8",
        "attention/paged:paged",
        {"B": 4, "G": 8, "P": 1024, "TMAX": 256},
        statics={"R": 4, "D": 128},
        counted=False,
    ),
    Case("state space 2048 rows, 8 heads of 64", "sequence/ssd:ssd", {"B": 1, "H": 8, "G": 1, "N": 2048}, counted=False),
    Case("gated recurrence 4x2048x1024", "sequence/gated:gated", {"B": 4, "N": 2048, "C": 1024}, counted=False),
    Case("pooling 2x2 of 8x112x112x64", "images/pool:pool", {"N": 8, "H": 112, "C": 64}, counted=False),
    *(
        Case(f"attention, gradient {what} 1024, D=64", "train/attention:attention_backward", heads(1024), statics=statics, counted=False)
        for what, statics in (("full", {}), ("causal", CAUSAL))
    ),
    Case("layernorm, gradient 4096x2048", "train/layernorm_backward", rows(4096, 2048), counted=False),
    Case("rmsnorm, gradient 4096x2048", "train/rmsnorm_backward", rows(4096, 2048), counted=False),
    Case("swiglu, gradient 512x1024x2048", "train/swiglu_backward", matmul(512, 2048, 1024), counted=False),
    Case("cross entropy 512x50257", "train/cross_entropy:cross_entropy", rows(512, 50257), counted=False),
    Case("embedding, gradient 4096 of 50257x768", "train/embedding_backward", {"N": 4096, "V": 50257, "D": 768}, counted=False),
    Case("conv1d, gradient 8x512x1024", "train/conv1d_backward", {"B": 8, "N": 512, "C": 1024, "K": 4}, counted=False),
    Case(
        "gradient by int8 weights 512x4096x4096",
        "train/weights_backward:i8_columns_backward",
        matmul(512, 4096, 4096),
        counted=False,
    ),
    Case("gelu, gradient 2048x2048", "train/gelu_backward", rows(2048, 2048), counted=False),
    Case("softmax, gradient 4096x2048", "train/softmax_backward", rows(4096, 2048), counted=False),
    Case("rotary positions 4x1024x16x64", "rope", {"B": 4, "N": 1024, "H": 16}, counted=False),
    *(Case(f"sampling of {m}x50257", "sampling", rows(m, 50257), counted=False) for m in (1, 8)),
    *(
        Case(f"weights {kind} {m}x4096x4096", f"matmul/weights:{kind}", {"M": m, "N": 4096, "Q": 128}, counted=False)
        for kind in ("q8_0", "q4_0")
        for m in (1, 16)
    ),
    Case("grouped 1024x1024x1024, 4 groups", "matmul/grouped:grouped", {**matmul(1024, 1024, 1024), "G": 4}, counted=False),
    Case("embedding 4096 of 50257x768", "embedding", {"N": 4096, "V": 50257, "D": 768}, counted=False),
    Case(
        "cross entropy of logits 512x768x50257",
        "train/linear_cross_entropy:linear_cross_entropy",
        matmul(512, 50257, 768),
        counted=False,
    ),
    Case("attention, biases and segments 1024, D=64", "attention/biased:biased", heads(1024), counted=False),
    Case("gated recurrence, gradient 4x2048x1024", "sequence/gated:gated_backward", {"B": 4, "N": 2048, "C": 1024}, counted=False),
    Case("pooling, gradient 2x2 of 8x112x112x64", "train/pool_backward:pool_backward", {"N": 8, "H": 112, "C": 64}, counted=False),
    Case("norm of 4096x4096", "train/gradient_norm:gradient_norm", rows(4096, 4096), counted=False),
]

# Beyond the list of goals; the last two against what Pallas itself does on a CPU.
MORE = [
    Case("attention f32 1024, 8 heads on 2", "flash_attn", heads(1024, g=2), counted=False),
    Case("Pallas interpreted: add 2048x2048", "add", rows(2048, 2048), 100.0, peers={"pallas": "add"}, counted=False),
    Case(
        "Pallas interpreted: attention 1024, D=64", "flash_attn", heads(1024), 100.0, peers={"pallas": "attention"}, counted=False
    ),
]


def odd(name, kernel, sizes, round_sizes, statics={}, round_statics=None):
    return Case(name, kernel, sizes, statics=statics, round=round_sizes, round_statics=round_statics, counted=False)


ODD = [
    *(odd(f"matmul f32 {n}^3", "matmul", matmul(n, n, n), matmul(1024, 1024, 1024)) for n in (1023, 1025)),
    odd("matmul f32 1000x777x1000", "matmul", matmul(1000, 777, 1000), matmul(1024, 768, 1024)),
    odd("matmul f32 65^3", "matmul", matmul(65, 65, 65), matmul(64, 64, 64)),
    *(odd(f"matmul f32 {m}x2048x2048", "matmul", matmul(m, 2048, 2048), matmul(64, 2048, 2048)) for m in range(1, 17)),
    odd("matmul f32 2048x1x2048", "matmul", matmul(2048, 1, 2048), matmul(2048, 32, 2048)),
    odd("matmul f32 2048x17x2048", "matmul", matmul(2048, 17, 2048), matmul(2048, 32, 2048)),
    odd("matmul f32 1024x1024x1", "matmul", matmul(1024, 1024, 1), matmul(1024, 1024, 16)),
    *(odd(f"attention full 1024, D={d}", "flash_attn", heads(1024), heads(1024), {"D": d}, {"D": 64}) for d in (80, 96)),
    odd("attention full 1023, D=64", "flash_attn", heads(1023), heads(1024)),
    odd("attention causal 1023, D=64", "flash_attn", heads(1023), heads(1024), CAUSAL, CAUSAL),
    odd("decode 4095 keys, 8 heads on 8, D=64", "flash_attn", heads(1, 4095), heads(1, 4096)),
    odd("mlp 255x1023x4095", "mlp", {"M": 255, "D": 1023, "F": 4095}, {"M": 256, "D": 1024, "F": 4096}),
    *(
        odd(f"{kernel} 1000x777", kernel, rows(1000, 777), rows(1024, 768))
        for kernel in ("add", "selu", "gelu", "softmax", "rmsnorm", "layernorm", "row_sum", "transpose")
    ),
    *(odd(f"{kernel} 4095x4097", kernel, rows(4095, 4097), rows(4096, 4096)) for kernel in ("add", "row_sum", "transpose")),
    odd("transpose 1023x1023", "transpose", rows(1023, 1023), rows(1024, 1024)),
    odd("softmax 1023x1023", "softmax", rows(1023, 1023), rows(1024, 1024)),
    odd("sort 1000x777", "sort_rows", rows(1000, 777), rows(1024, 768)),
    odd("cumsum along 1000x777", "cumsum_rows", rows(1000, 777), rows(1024, 768)),
    odd("argsort 1000x777", "argsort_rows", rows(1000, 777), rows(1024, 768)),
]

CASES = GOALS + MORE + WRITTEN + LIBRARY + ODD
