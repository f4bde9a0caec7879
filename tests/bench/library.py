"""Rows for the kernels of the library's folders: kernels/attention to kernels/train. They are not counted."""

from table import CAUSAL, KERNELS, Case, Kernel, heads, matmul, rows

# Torch computes gradients of the result of `made` with respect to the leaves.
TORCH_GRADIENT = """
torch.set_grad_enabled(True)
leaves = [t.clone().requires_grad_() for t in (%s)]
torch.set_grad_enabled(False)
def made(%s):
    with torch.enable_grad(): return %s
"""


def eager_and_compiled(before, expression):
    return {"torch": (before, expression), "inductor": (before, expression)}


def torch_gradient(operands, function, do="do", before=""):
    """(statements, expression) for the gradients of a function of these operands; the statements compute the function."""
    return before + TORCH_GRADIENT % (operands, operands, function), f"torch.autograd.grad(made(*leaves), leaves, {do})"


def residual_gradient(norm, operands):
    """The gradients of a norm of the sum, and of the sum itself."""
    made = "b = torch.zeros(N)\n" + TORCH_GRADIENT % (operands, operands, f"({norm}, sum)")
    return Kernel("0", "4*max(M, N)", {"torch": (made, "torch.autograd.grad(made(*leaves), leaves, (do, dsum))")})


def jax_gradient(operands, function, do="do"):
    return f"jax.vjp(lambda {operands}: {function}, {operands})[1]({do})"


BIASED_JAX = (
    "jnp.einsum('bhns,bhsd->bhnd', jax.nn.softmax(jnp.where((qs == ks)[:, None], jnp.einsum('bhnd,bhsd->bhns', q, k) * D**-0.5 + bias, "
    "-jnp.inf)), v)"
)
BIASED_TORCH = "F.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(qs == ks, 0, -torch.inf)[:, None] + bias)"
OWN = "import peers.torch as own"
SEEN = "row, col = torch.arange(N)[:, None], torch.arange(S)\nseen = (col <= row) & (row - col < WINDOW)"
SPARSE = """
def listed(a): return a.view(B * G, S // BK, -1)[torch.arange(B * G)[:, None], chosen.view(B * G, -1)].view(B, G, M, K * BK, -1)
"""
SPARSE_TORCH = "F.scaled_dot_product_attention(q.view(B, G, M, BQ, D), listed(k), listed(v)).view(B, G, N, 1, -1)"
SPARSE_GRADIENT = torch_gradient("q, k, v", SPARSE_TORCH, before=SPARSE)
CHOSEN = {"chosen": "(np.arange(B * G * M)[:, None] * 7 + np.arange(K) * 3).reshape(B, G, M, K) % (S // BK)"}
FP4 = """
half = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
values = torch.stack([half.repeat(16), half.repeat_interleave(16)], 1)
"""
Q4_K = """
def elements(w):
    d, least = w[..., :4].contiguous().view(torch.float16).float().split(1, 2)
    a, b, c = w[..., 4:16].split(4, 2)
    scale = torch.cat([a & 63, (c & 15) | (a >> 6 << 4)], 2) * d
    offset = torch.cat([b & 63, (c >> 4) | (b >> 6 << 4)], 2) * least
    bits = w[..., 16:].view(N, Q, 4, 1, 32)
    return scale[..., None] * torch.cat([bits & 15, bits >> 4], 3).view(N, Q, 8, 32) - offset[..., None]
"""
Q6_K = """
def elements(w):
    low, high = w[..., :128].view(N, Q, 2, 2, 32), w[..., 128:192].view(N, Q, 2, 1, 32)
    bits = torch.cat([low & 15, low >> 4], 3) | (high >> torch.tensor([0, 2, 4, 6], dtype=torch.uint8)[:, None] & 3) << 4
    scale = w[..., 192:208].contiguous().view(torch.int8) * w[..., 208:].contiguous().view(torch.float16).float()
    return (bits.float() - 32).view(N, Q, 16, 16) * scale[..., None]
"""
DELTA = {"log_a": "-np.abs(log_a) / 64", "beta": "1 / (1 + np.exp(-beta))"}
EXPERTS = {"w1": "w1 / 16", "w2": "w2 / 32", "r": "r / 16"}
PAGES_OF_SEQUENCES = "def pages(a): return a[:, table].permute(1, 0, 2, 3, 4).reshape(B, G, TMAX * PAGE, D)"
PAGED = {
    "torch": (
        PAGES_OF_SEQUENCES,
        "F.scaled_dot_product_attention(q, pages(k), pages(v))",
    ),
    "jax": "gathered(q, k, v, table)",
}
PAGES = {"table": "(np.arange(B * TMAX) * 7 % P).reshape(B, TMAX)", "length": "TMAX * PAGE"}
DECODE = {
    "torch": "F.scaled_dot_product_attention(q, k.float() * k_scale.mT, v.float() * v_scale.mT)",
    "jax": "jnp.einsum('bgrs,bgsd->bgrd', jax.nn.softmax(jnp.einsum('bgrd,bgsd->bgrs', q, k.astype('f4')) * k_scale * D**-0.5) "
    "* v_scale, v.astype('f4'))",
}
CACHED = {"length": "S", **{name: "np.linspace(0.005, 0.01, S) * np.ones((B, G, 1, 1))" for name in ("k_scale", "v_scale")}}
SEGMENTS = {"qs": "np.arange(N)[:, None] * 4 // N", "ks": "np.arange(S) * 4 // S"}
LOGITS = {"target": "np.arange(M)[:, None] * 31 % N", "w": "w / 16"}
SEEN_GRADIENT = torch_gradient("q, k, v", "F.scaled_dot_product_attention(q, k, v, attn_mask=seen)", before=SEEN)
# The rounding of q at a half depends on the last bit of the norm, so it is computed but not compared.
QUANTISED = """
def quantised(s):
    n = F.rms_norm(s.float(), (N,), w.float(), EPS)
    scale = n.abs().amax(1, True) / 127
    (n / scale).round().to(torch.int8)
    return None, scale, s
"""
INTERLEAVED = """
step = BASE ** (torch.arange(D // 2) * (-2 / D))
def angle(): return (position[..., None] * step)[:, :, None]
def turned(t): return torch.stack([x[..., ::2] * t.cos() - x[..., 1::2] * t.sin(), x[..., 1::2] * t.cos() + x[..., ::2] * t.sin()], 4).flatten(3)
"""
HALVES = """
step, half = BASE ** (torch.arange(D // 2) * (-2 / D)), D // 2
def angle(): return (position[..., None] * step)[:, None]
def turned(t):
    c, s, a, b = t.cos(), t.sin(), x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], 3)
"""
WITH_SINKS = """
def seen(a): return a[:, :, -WINDOW:]
def shares(s): return torch.cat([s, sink[None, :, :, None].expand(B, -1, -1, -1)], 3).softmax(3)[..., :-1]
"""
GEGLU = {
    "torch": "torch.mul(F.gelu(x @ gate, approximate='tanh'), x @ up, out=o)",
    "jax": "jax.nn.gelu(x @ gate, approximate=True) * (x @ up)",
}
EXACT_GELU = {"torch": "torch.ops.aten.gelu.out(x, out=o)", "jax": "jax.nn.gelu(x, approximate=False)"}
EXACT_GELU_GRADIENT = {"torch": "torch.ops.aten.gelu_backward(do, x)", "jax": "jax.vjp(lambda v: jax.nn.gelu(v, approximate=False), x)[1](do)[0]"}
NARROW_ROWS = {
    "softmax": "torch.softmax(x, 1, out=o)",
    "rmsnorm": "F.rms_norm(x, (N,), w, EPS)",
    "layernorm": "torch.native_layer_norm(x, (N,), w, b, EPS)[0]",
    "gelu": "torch.ops.aten.gelu.out(x, approximate='tanh', out=o)",
}
CONV1D = (
    "wt = w.t().reshape(C, 1, 4).contiguous()",
    "F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), wt, bias, groups=C).transpose(1, 2)",
)
NARROW_IMAGES = (
    ("mlp", "256x1024x4096", "mlp", {"M": 256, "D": 1024, "F": 4096}, "torch.addmm(b2, torch.addmm(b1, x, w1).relu_(), w2, out=o)"),
    ("conv1d", "8x512x1024", "sequence/conv1d", {"B": 8, "N": 512, "C": 1024, "K": 4}, CONV1D),
    ("pooling 2x2", "of 8x112x112x64", "images/pool:pool", {"N": 8, "H": 112, "C": 64}, "F.max_pool2d(x.permute(0, 3, 1, 2), K).permute(0, 2, 3, 1)"),
    ("global mean", "of 8x112x112x64", "images/pool:global_mean", {"N": 8, "H": 112, "W": 112, "C": 64}, "torch.mean(x, (1, 2), out=o)"),
)
# Rows in bf16 whose peers compute the same as in f32, with operands in bf16: (operation, size, kernel, sizes, statics, peer).
# The gradients of attention and of the mixture of experts have no row. They differ from torch's by 2.5 and 1.01 times the allowed difference; neither was
# compared with the exact gradient.
IMAGE = {"N": 8, "H": 56, "W": 56}
NARROW_TWINS = (
    ("swiglu", "512x1024x2048", "matmul/linear:swiglu", matmul(512, 2048, 1024), {}, "torch"),
    ("linear, transposed weights", "512x1024x4096", "matmul/linear:linear_transposed", matmul(512, 4096, 1024), {}, "torch"),
    ("grouped, 4 groups", "1024x1024x1024", "matmul/grouped:grouped", {**matmul(1024, 1024, 1024), "G": 4}, {}, "torch"),
    ("mixture of 8 experts,", "1024x512x1024", "moe/layer:moe", {"M": 1024, "D": 512, "E": 8, "F": 1024}, {"CAP": 384}, "torch"),
    ("embedding", "4096 of 50257x768", "embedding", {"N": 4096, "V": 50257, "D": 768}, {}, "torch"),
    ("gate and silu", "2048x4096", "glu", rows(2048, 4096), {}, "torch"),
    ("rotary positions", "4x1024x16x64", "rope", {"B": 4, "N": 1024, "H": 16}, {}, "torch"),
    ("attention, window 256", "of 2048, D=64", "attention/options:attention", heads(2048), {"CAUSAL": "true", "WINDOW": 256}, "torch"),
    ("library conv2d 3x3", "of 8x56x56x64", "images/conv2d:conv2d", IMAGE, {}, "torch"),
    ("conv2d 3x3, gradient", "of 8x56x56x64", "train/conv2d_backward:conv2d_backward", {**IMAGE, "R": 56, "L": 56}, {}, "torch"),
    ("library depthwise 3x3", "of 8x56x56x64", "images/conv2d:depthwise", IMAGE, {}, "torch"),
    ("depthwise 3x3, gradient", "of 8x56x56x64", "train/conv2d_backward:depthwise_backward", {**IMAGE, "R": 56, "L": 56}, {}, "torch"),
    ("patches 16x16", "of 8x224x224x3", "images/conv2d:patches", {"N": 8, "H": 224, "W": 224, "M": 14, "L": 14}, {}, "torch"),
    ("state space", "2048 rows, 8 heads of 64", "sequence/ssd:ssd", {"B": 1, "H": 8, "G": 1, "N": 2048}, {}, "jax"),
    ("norm", "of 4096x4096", "train/gradient_norm:gradient_norm", rows(4096, 4096), {}, "torch"),
)
IMAGES = "'NHWC', 'HWIO', 'NHWC'"


def convolution(what, windows):
    """The forward kernel and the gradient: `windows` turns torch's [F, C, KH, KW] into the kernel's."""
    deep = what == "depthwise"
    groups = "C" if deep else "C // CG" if what == "conv2d" else "1"
    strides = "(KH, KW)" if what == "patches" else "(SH, SW)"
    padding = "0" if what == "patches" else "(PT, PL)"  # of odd windows, the same on both sides
    before = (
        "xt, groups = x.permute(0, 3, 1, 2), %s\nwt = w.reshape(KH, KW, -1, w.shape[-1]).permute(3, 2, 0, 1)"
        ".contiguous(memory_format=torch.channels_last)" % groups
    )
    jax = "jax.lax.conv_general_dilated(x, w.reshape(KH, KW, -1, w.shape[-1]), %s, %s, dimension_numbers=(%s), feature_group_count=%s) + bias" % (
        strides,
        "'VALID'" if what == "patches" else "((PT, PB), (PL, PR))",
        IMAGES,
        "C" if deep else "C // CG" if what == "conv2d" else "1",
    )
    given = f"(torch.ops.aten.convolution_backward(do.permute(0, 3, 1, 2), xt, wt, [wt.shape[0]], {strides}, {padding if padding != '0' else (0, 0)}, (1, 1), False, (0, 0), groups, (True,) * 3))"
    flops = {"conv2d": "2*N*(H//SH)*(W//SW)*KH*KW*CG*F", "depthwise": "2*N*(H//SH)*(W//SW)*KH*KW*C", "patches": "2*N*M*L*KH*KW*C*F"}[what]
    return {
        f"images/conv2d:{what}": Kernel(
            flops,
            "KH*KW*C",
            {"torch": (before, f"torch.nn.functional.conv2d(xt, wt, bias, {strides}, {padding}, groups=groups).permute(0, 2, 3, 1)"), "jax": jax},
        ),
        f"train/conv2d_backward:{what}_backward": Kernel(
            "2*" + flops,
            "4*N*M*L" if what == "patches" else "4*N*H*W",
            {
                "torch": (before, f"(lambda dx, dw, db: (dx.permute(0, 2, 3, 1), dw.permute({windows}), db))(*{given})"),
                "jax": jax_gradient("x, w, bias", jax).replace("x, w, bias)[1]", "x, w, jnp.zeros(w.shape[-1]))[1]"),
            },
        ),
    }


KERNELS.update(
    {
        **convolution("conv2d", "2, 3, 1, 0"),
        **convolution("depthwise", "2, 3, 1, 0"),
        **convolution("patches", "2, 3, 1, 0"),
        "matmul/weights:i8_columns": Kernel("2*M*N*K", "K", {"torch": "(x @ w.float()) * scale", "jax": "(x @ w.astype('f4')) * scale"}),
        "matmul/weights:i4_groups": Kernel(
            "2*M*N*K",
            "K",
            {"torch": "x @ (w.float().view(-1, 32, N) * scale[:, None]).view(K, N)", "jax": "x @ (w.astype('f4').reshape(-1, 32, w.shape[1]) * scale[:, None]).reshape(w.shape)"},
        ),
        "matmul/linear:linear_transposed": Kernel("2*M*N*K", "K", {"torch": "torch.mm(x, w.t(), out=o)", "jax": "x @ w.T"}),
        "moe/route": Kernel(
            "0",
            "16",
            {
                "torch": (
                    "def routed():\n"
                    "    best, expert = logits.topk(K)\n"
                    "    hot = F.one_hot(expert.reshape(-1), E)\n"
                    "    place = (hot.cumsum(0) * hot).sum(1).reshape(M, K) - 1\n"
                    "    return best.softmax(1) * (place < CAP), expert.int(), torch.where(place < CAP, place, -1).int()",
                    "routed()",
                ),
                "jax": "routed(logits, K, CAP)",
            },
        ),
        "moe/experts:dispatch": Kernel(
            "0",
            "1",
            {
                "torch": "queue.zero_().index_put_((expert.long(), place.long()), x[:, None])",
                "jax": "jnp.zeros((E, CAP, D)).at[expert, place].set(x[:, None])",
            },
            {"expert": "np.arange(M * K).reshape(M, K) % E", "place": "np.arange(M * K).reshape(M, K) // E"},
        ),
        "moe/experts:combine": Kernel(
            "0",
            "4",
            {"torch": "(queue[expert, place] * weight[:, :, None]).sum(1)", "jax": "(queue[expert, place] * weight[:, :, None]).sum(1)"},
            {"expert": "np.arange(M * K).reshape(M, K) % E", "place": "np.arange(M * K).reshape(M, K) // E"},
        ),
        # No queue is full, so that peers need no capacity.
        "moe/layer:moe": Kernel(
            "2*M*D*E + 4*M*K*D*F",
            "4*max(M, D, F)",
            {"torch": (OWN, "own.mixture(x, r, w1, w2, K)"), "jax": "mixture(x, r, w1, w2, K)"},
            EXPERTS,
        ),
        "moe/layer:moe_backward": Kernel(
            "3*(2*M*D*E + 4*M*K*D*F)",
            "4*max(M, D, F)",
            {
                "torch": torch_gradient("x, r, w1, w2", "own.mixture(x, r, w1, w2, K)", before=OWN),
                "jax": jax_gradient("x, r, w1, w2", "mixture(x, r, w1, w2, K)"),
            },
            EXPERTS,
        ),
        # XLA multiplies by 1 / 127, which rounds otherwise.
        "quantise:quantise_columns": Kernel(
            "0",
            "1",
            {
                "torch": "(lambda s: ((w / s).round().to(torch.int8), s))(w.abs().amax(0) / 127)",
            },
        ),
        "quantise:quantise_rows": Kernel(
            "0",
            "1",
            {
                "torch": "(lambda s: ((w / s[:, None]).round().to(torch.int8), s))(w.abs().amax(1) / 127)",
            },
        ),
        "quantise:quantise_groups": Kernel(
            "0",
            "1",
            {
                "torch": "(lambda s: (lambda n: (n[:, :, :16] | n[:, :, 16:] << 4, s))((w / s).round().add(8).to(torch.uint8)))(w.abs().amax(2, True) / 7)",
            },
        ),
        # With a rate of 0 and means that equal those of the gradient, each step returns its input.
        "train/adamw": Kernel(
            "0",
            "1",
            {
                "torch": (
                    "own, step = [t.clone() for t in (p, m, v)], torch.ones(())",
                    "(torch._fused_adamw_([own[0]], [g], [own[1]], [own[2]], [], [step], lr=0.0, beta1=BETA1, beta2=BETA2, weight_decay=0.1, eps=EPS, "
                    "amsgrad=False, maximize=False), own)[1]",
                ),
                "inductor": (
                    "def step(mean, square): return p - rate[0] * (mean * rate[1] / ((square * rate[2]).sqrt() + 1e-8) + rate[4] * p), mean, square",
                    "step(0.9 * m + (1 - 0.9) * (g * rate[3]), 0.95 * v + (1 - 0.95) * (g * rate[3]) ** 2)",
                ),
                "jax": "(lambda mean, square: (p - rate[0] * (mean * rate[1] / (jnp.sqrt(square * rate[2]) + 1e-8) + rate[4] * p), mean, square))("
                "0.9 * m + (1 - 0.9) * (g * rate[3]), 0.95 * v + (1 - 0.95) * (g * rate[3]) ** 2)",
            },
            {"rate": "np.array([0, 10, 20, 1, 0.1])", "g": "g", "m": "g", "v": "g * g"},
        ),
        # The numbers of jax.random; torch draws others.
        "train/dropout": Kernel(
            "0",
            "1",
            {
                "jax": "jnp.where(jax.random.bernoulli(jax.random.fold_in(jax.random.key(seed), layer), 1 - 0.1, x.shape), x * (1 / (1 - 0.1)), 0)",
            },
            {"seed": "7", "layer": "3"},
        ),
        "train/gradient_norm:clipped": Kernel(
            "0",
            "M*N",
            {
                "torch": "(lambda n: (g * (most / (n + 1e-6)).clamp(max=1), n))(torch.linalg.vector_norm(g))",
                "jax": "(lambda n: (g * jnp.minimum(most / (n + 1e-6), 1), n))(jnp.sqrt(jnp.sum(g * g)))",
            },
            {"most": "np.ones(1)"},
        ),
        "train/cross_entropy:cross_entropy_backward": Kernel(
            "0",
            "16",
            {
                "torch": (
                    "rows, own = torch.arange(M), target[:, 0].long()",
                    "torch.sub(x, lse, out=dx).exp_().index_put_((rows, own), torch.full((1,), -1.0), accumulate=True).mul_(dloss)",
                ),
                "jax": "(jnp.exp(x - lse) - (jnp.arange(x.shape[1]) == target)) * dloss",
            },
            {"target": "np.arange(M)[:, None] * 31 % N", "lse": "np.log(np.exp(x).sum(1, keepdims=True))"},
        ),
        "train/linear_cross_entropy:linear_cross_entropy_backward": Kernel(
            "6*M*N*K",
            "4*max(K, N)",
            {
                "torch": torch_gradient("x, w", "F.cross_entropy(x @ w.t(), target[:, 0].long(), reduction='none')", "dloss[:, 0]"),
                "jax": jax_gradient(
                    "x, w", "(lambda s: jax.nn.logsumexp(s, 1, keepdims=True) - jnp.take_along_axis(s, target, 1))(x @ w.T)", "dloss"
                ),
            },
            {**LOGITS, "lse": "(lambda s: np.log(np.exp(s - s.max(1, keepdims=True)).sum(1, keepdims=True)) + s.max(1, keepdims=True))(x @ w.T)"},
        ),
        "attention/biased:biased_backward": Kernel(
            "10*B*H*D*N*S",
            "4*max(S, D)",
            {"torch": torch_gradient("q, k, v, bias", BIASED_TORCH), "jax": jax_gradient("q, k, v, bias", BIASED_JAX)},
            {**SEGMENTS, **{part: f"attend(q, k, v, False, np.where(qs == ks, 0, -np.inf)[:, None] + bias)[{i}]" for i, part in enumerate(("o", "lse"))}},
        ),
        "attention/options:attention_backward": Kernel(
            "10*B*H*D*N*min(WINDOW, S)",
            "4*max(S, D)",
            {
                "torch": (SEEN_GRADIENT[0], f"(*{SEEN_GRADIENT[1]}, None)"),
                "jax": f"(*{jax_gradient('q, k, v', 'windowed(q, k, v, WINDOW)')}, None)",
            },
            {part: f"attend(q, k, v, True, np.where(np.tri(N, S, -WINDOW, dtype=bool), -np.inf, 0))[{i}]" for i, part in enumerate(("o", "lse"))},
        ),
        "images/pool:global_mean": Kernel("0", "H*W", {"torch": "torch.mean(x, (1, 2), out=o)", "jax": "x.mean((1, 2))", "numpy": "np.mean(x, (1, 2), out=o)"}),
        "train/pool_backward:global_mean_backward": Kernel(
            "0",
            "1",
            {
                "torch": "dx.copy_((do / (H * W))[:, None, None, :].expand(N, H, W, C))",
                "jax": "jnp.broadcast_to((do / (H * W))[:, None, None, :], (N, H, W, do.shape[1]))",
            },
        ),
        "train/weights_backward:i4_groups_backward": Kernel(
            "2*M*N*K",
            "N",
            {"torch": "do @ (w.float().view(-1, 32, N) * scale[:, None]).view(K, N).t()", "jax": "do @ (w.astype('f4').reshape(-1, 32, w.shape[1]) * scale[:, None]).reshape(w.shape).T"},
        ),
        "train/attention:attention": Kernel(
            "4*B*H*D*(N*(N+1)//2 if CAUSAL else N*S)",
            "max(S, D)",
            {"torch": "(F.scaled_dot_product_attention(q, k, v, is_causal=CAUSAL, enable_gqa=H != G), None)", "jax": "(attention(q, k, v, CAUSAL), None)"},
        ),
        "sequence/ssd:ssd_backward": Kernel(
            "2*B*H*N*(2*BN*S + 2*BN*P + 4*S*P)",
            "16*BN",
            {"jax": jax_gradient("x, log_a, b, c, first", "chunked(x, log_a, b, c, first, BN)", "(dy, dlast)")},
            {"log_a": "-np.abs(log_a) / 64"},
        ),
        "axpy": Kernel("0", "1", {"torch": "torch.add(y, x, alpha=a.item(), out=o)", "jax": "a * x + y", "numpy": "(np.multiply(a, x, out=o), np.add(o, y, out=o))"}),
        "matmul_dma": Kernel("2*M*N*K", "K", {"torch": "torch.mm(a, b, out=c)", "jax": "a @ b", "numpy": "np.matmul(a, b, out=c)"}),
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
        "norm_residual:rmsnorm_residual": Kernel("0", "N", eager_and_compiled("", "(lambda s: (F.rms_norm(s, (N,), w, EPS), s))(x + r)")),
        "norm_residual:layernorm_residual": Kernel("0", "N", eager_and_compiled("", "(lambda s: (F.layer_norm(s, (N,), w, b, EPS), s))(x + r)")),
        "norm_residual:rmsnorm_residual_quantise": Kernel("0", "N", eager_and_compiled(QUANTISED, "quantised(x + r)")),
        "train/norm_residual_backward:rmsnorm_residual_backward": residual_gradient("F.rms_norm(sum, (N,), w, 1e-6)", "sum, w"),
        "train/norm_residual_backward:layernorm_residual_backward": residual_gradient("F.layer_norm(sum, (N,), w, b, 1e-5)", "sum, w, b"),
        "glu": Kernel("0", "1", {**eager_and_compiled("", "F.silu(a) * b"), "jax": "jax.nn.silu(a) * b"}),
        "train/glu_backward": Kernel(
            "0",
            "4",
            {
                "inductor": ("def slope(s): return s * (1 + a * (1 - s))", "(do * b * slope(a.sigmoid()), do * F.silu(a))"),
                "torch": "(torch.ops.aten.silu_backward(do * b, a), do * F.silu(a))",
                "jax": "jax.vjp(lambda a, b: jax.nn.silu(a) * b, a, b)[1](do)",
            },
        ),
        "sequence/conv1d": Kernel(
            "0",
            "4",
            {
                "torch": CONV1D,
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
            "2*B*H*(D + DV)*N*(min(WINDOW, S) or (S + 1)/2)",
            "(S**0.5 + D**0.5)**2",  # a sum of D terms in the exponent of a sum of S terms: their errors add
            {
                "torch": (SEEN, "(F.scaled_dot_product_attention(q, k, v, attn_mask=seen), None)"),
                "jax": "(windowed(q, k, v, WINDOW), None)",
            },
        ),
        **{f"attention/decode:{name}": Kernel("4*B*G*R*S*D", "max(S, D)", DECODE, CACHED) for name in ("decode", "decode_split")},
        **{name: Kernel("4*B*G*R*TMAX*PAGE*D", "max(TMAX * PAGE, D)", PAGED, PAGES) for name in ("attention/paged:paged", "paged_attention")},
        "attention/sparse:sparse": Kernel(
            "4*B*G*N*R*K*BK*D", "((K*BK)**0.5 + D**0.5)**2", {"torch": (SPARSE, f"({SPARSE_TORCH}, None)")}, CHOSEN
        ),
        "attention/sparse:sparse_backward": Kernel(
            "10*B*G*N*R*K*BK*D",
            "4*((K*BK)**0.5 + D**0.5)**2",
            {"torch": SPARSE_GRADIENT},
            {**CHOSEN, **{part: f"attend_listed(q, k, v, chosen, BK)[{i}]" for i, part in enumerate(("o", "lse"))}},
        ),
        "attention/sparse:choose": Kernel(
            "2*B*G*(N/BQ)*(S/BK)*D",
            "D",
            {"torch": "((q.view(B, G, N // BQ, -1, D).mean(3) @ k.view(B, G, S // BK, BK, D).mean(3).mT).topk(K, 3)[1].int())"},
        ),
        **{
            f"matmul/block_scaled:{kind}{end}": Kernel(f"2*M*N*{width}", width if of == "x" else "N", {"torch": (before, f"({of} @ {wide}{turned}){factor}")}, data)
            for kind, width, before, wide, factor, data in (
                ("fp4", "K", FP4, "(values[w.int()].view(N, -1, GROUP) * scale.view(torch.float8_e8m0fnu).float()[..., None]).view(N, K)", " * factor", {}),
                ("fp8_blocks", "K", "", "(w.float().view(N // BLOCK, BLOCK, K // BLOCK, BLOCK) * w_scale[:, None, :, None]).view(N, K)", "", {}),
                ("q4_k", "256*Q", Q4_K, "elements(w).view(N, -1)", "", {"w": "gguf_blocks(w, (0, 2))"}),
                ("q6_k", "256*Q", Q6_K, "elements(w).view(N, -1)", "", {"w": "gguf_blocks(w, (208,))"}),
            )
            for end, of, turned in (("", "x", ".t()"), ("_backward", "do", ""))
        },
        "sequence/ssd:ssd": Kernel(
            "B*H*N*(2*BN*S + 2*BN*P + 4*S*P)",
            "4*BN",
            {
                # The whole product, masked by the decays, which the chunks avoid.
                **eager_and_compiled(
                    "earlier = torch.ones(N, N, dtype=torch.bool).tril()\n"
                    "def decays(): u = log_a.cumsum(2); return torch.where(earlier, u - u.mT, -torch.inf).exp()\n"
                    "def state(): u = log_a.cumsum(2); return u.exp() * (c.repeat_interleave(H // G, 1) @ first)",
                    "(((c @ b.mT).repeat_interleave(H // G, 1) * decays()) @ x + state(), None)",
                ),
                "jax": "chunked(x, log_a, b, c, first, BN)",
            },
            {"log_a": "-np.abs(log_a) / 64"},
        ),
        "sequence/selective:selective_scan": Kernel(
            "0", "16*S", {"jax": "selected(x, delta, a, b, c, d, z, bias, first)"}, {"a": "-np.exp(a)"}
        ),
        "sequence/selective:selective_scan_backward": Kernel(
            "0",
            "64*max(C, N)",
            {"jax": jax_gradient("x, delta, a, b, c, d, z, bias, first", "selected(x, delta, a, b, c, d, z, bias, first)", "(dy, dlast)")},
            {"a": "-np.exp(a)"},
        ),
        "sequence/delta:delta_rule": Kernel("B*H*N*(4*BN*K + 3*BN*V + 6*K*V)", "16*BN", {"jax": "corrected(q, k, v, log_a, beta, first, BN)"}, DELTA),
        "sequence/delta:delta_rule_rows": Kernel("6*B*H*N*K*V", "16*K", {"jax": "corrected(q, k, v, log_a, beta, first, 1)"}, DELTA),
        "sequence/delta:delta_rule_backward": Kernel(
            "3*B*H*N*(4*BN*K + 3*BN*V + 6*K*V)",
            "64*BN",
            {"jax": jax_gradient("q, k, v, log_a, beta, first", "corrected(q, k, v, log_a, beta, first, BN)", "(do, dlast)")},
            DELTA,
        ),
        "sequence/wkv": Kernel(
            "5*B*H*N*D*D",
            "8*D",
            {"jax": "received(r, k, v, jnp.exp(log_w), u, first)"},
            {"log_w": "-np.abs(log_w) / 4", "k": "k / 8"},
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
            {"o": "attend(q, k, v, CAUSAL)[0]", "lse": "attend(q, k, v, CAUSAL)[1]"},
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
            {
                **eager_and_compiled(
                    "def gradient(s, n, g): return s * (g - n * (g * n).mean(1, True)), (do * n).sum(0)",
                    "(lambda s: gradient(s, x * s, do * w))(torch.rsqrt((x * x).mean(1, True) + 1e-6))",
                ),
                "jax": "jax.vjp(lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x, 1, keepdims=True) + 1e-6) * w, x, w)[1](do)",
            },
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
        "rope:rope_heads": Kernel("0", "1", eager_and_compiled(HALVES, "turned(angle())"), {"position": "np.arange(N) % 8"}),
        "rope": Kernel(
            "0",
            "1",
            {
                **eager_and_compiled(
                    "step = BASE ** (torch.arange(D // 2) * (-2 / D))\ndef turned(c, s, a, b): return torch.cat([a * c - b * s, b * c + a * s], 3)\n"
                    "def angle(): return (position[..., None] * step)[:, :, None]",
                    "(lambda t: turned(t.cos(), t.sin(), *x.chunk(2, 3)))(angle())",
                ),
                "jax": "(lambda t, a, b: jnp.concatenate([a * jnp.cos(t) - b * jnp.sin(t), b * jnp.cos(t) + a * jnp.sin(t)], 3))("
                "(position[..., None] * BASE ** (jnp.arange(D // 2) * (-2 / D)))[:, :, None], *jnp.split(x, 2, axis=3))",
            },
            {"position": "np.arange(N) % 8"},  # positions at which the rounding of powers of BASE does not matter
        ),
        "sampling": Kernel(
            "0",
            "1",
            {
                # At temperature 0, without random choice: the same sort, sums and limits.
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
            f"{file}:{name}{end}": Kernel(
                "64*M*N*Q", terms, {"torch": f"{of} @ ({wide}.float() * d).reshape(N, -1){turned}", "jax": f"{of} @ ({wide_jax}.astype('f4') * d).reshape(w.shape[0], -1){turned_jax}"}
            )
            for name, wide, wide_jax in (
                ("q8_0", "w", "w"),
                ("q4_0", "(torch.cat([w & 15, w >> 4], 2).to(torch.int8) - 8)", "(jnp.concatenate([w & 15, w >> 4], 2).astype('i1') - 8)"),
            )
            for file, end, of, terms, turned, turned_jax in (
                ("matmul/weights", "", "x", "32*Q", ".t()", ".T"),
                ("train/weights_backward", "_backward", "do", "N", "", ""),
            )
        },
        **{
            f"matmul/by_q8:{name}": Kernel(
                "64*M*N*Q",
                "32*Q",
                {"torch": f"(x.float() * e[..., None]).reshape(M, -1) @ {wide}.reshape(N, -1).t(){after}", "jax": f"(x.astype('f4') * e[..., None]).reshape(x.shape[0], -1) @ {wide_jax}.reshape(w.shape[0], -1).T{after}"},
            )
            for name, wide, wide_jax, after in (
                ("i8_by_q8", "w.float()", "w.astype('f4')", " * scale"),
                ("q8_0_by_q8", "(w.float() * d.float()[..., None])", "(w.astype('f4') * d.astype('f4')[..., None])", ""),
                (
                    "q4_0_by_q8",
                    "((torch.cat([w & 15, w >> 4], 2).float() - 8) * d.float()[..., None])",
                    "((jnp.concatenate([w & 15, w >> 4], 2).astype('f4') - 8) * d.astype('f4')[..., None])",
                    "",
                ),
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
        "embedding": Kernel("0", "1", {"torch": "F.embedding(id, table)", "jax": "table[id]"}, {"id": "places(id, V)"}),
        "train/linear_cross_entropy:linear_cross_entropy": Kernel(
            "2*M*N*K",
            "4*max(K, N)",
            {
                **eager_and_compiled("", "(F.cross_entropy(x @ w.t(), target[:, 0].long(), reduction='none')[:, None], None)"),
                "jax": "(lambda s: (lambda e: (e - jnp.take_along_axis(s, target, 1), e))(jax.nn.logsumexp(s, 1, keepdims=True)))(x @ w.T)",
            },
            LOGITS,
        ),
        "attention/biased:biased": Kernel(
            "4*B*H*D*N*S", "max(S, D)", {"torch": f"({BIASED_TORCH}, None)", "jax": f"({BIASED_JAX}, None)"}, SEGMENTS
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
                    # The kernel is not given the position of the greatest element either.
                    "def made():\n    with torch.enable_grad(): return F.max_pool2d(leaf, K)",
                    "torch.autograd.grad(made(), leaf, given)[0].permute(0, 2, 3, 1)",
                ),
            },
        ),
        "train/gradient_norm:gradient_norm": Kernel(
            "0", "M*N", {"torch": "torch.linalg.vector_norm(g).reshape(1, 1)", "jax": "jnp.sqrt(jnp.sum(g * g)).reshape(1, 1)", "numpy": "np.copyto(norm, np.sqrt(np.vdot(g, g)))"}
        ),
    }
)

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
    *(
        Case(f"selective scan{what} 2048x2048, 16 states", f"sequence/selective:selective_scan{end}", {"B": 1, "N": 2048, "C": 2048, "S": 16}, counted=False)
        for what, end in (("", ""), (", gradient", "_backward"))
    ),
    *(
        Case(f"delta rule, {what}, 16 heads of 128", f"sequence/delta:{kernel}", {"B": batch, "H": 16, "G": 8, "N": n}, counted=False)
        for what, kernel, batch, n in (
            ("2048 rows", "delta_rule", 1, 2048),
            ("one row of 8 sequences", "delta_rule_rows", 8, 1),
            ("gradient of 2048 rows", "delta_rule_backward", 1, 2048),
        )
    ),
    Case("RWKV-6 2048 rows, 8 heads of 64", "sequence/wkv", {"B": 1, "H": 8, "N": 2048}, counted=False),
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
    Case(
        "rotary positions, interleaved 4x1024x16x64",
        "rope",
        {"B": 4, "N": 1024, "H": 16},
        statics={"INTERLEAVED": "true"},
        peers=eager_and_compiled(INTERLEAVED, "turned(angle())"),
        counted=False,
    ),
    Case("rotary positions by heads 4x16x1024x64", "rope:rope_heads", {"B": 4, "N": 1024, "H": 16}, counted=False),
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
    Case("linear, transposed weights 512x1024x4096", "matmul/linear:linear_transposed", matmul(512, 4096, 1024), counted=False),
    *(
        Case(f"weights {kind} {m}x4096x4096", f"matmul/weights:{kind}", matmul(m, 4096, 4096), counted=False)
        for kind in ("i8_columns", "i4_groups")
        for m in (1, 16)
    ),
    *(
        Case(f"gradient by {kind} weights 512x4096x4096", f"train/weights_backward:{kind}_backward", sizes, counted=False)
        for kind, sizes in (("i4_groups", matmul(512, 4096, 4096)), *((kind, {"M": 512, "N": 4096, "Q": 128}) for kind in ("q8_0", "q4_0")))
    ),
    *(
        Case(name, f"moe/layer:{kernel}", {"M": 1024, "D": 512, "E": 8, "F": 1024}, statics={"CAP": 384}, counted=False)
        for name, kernel in (("mixture of 8 experts, 1024x512x1024", "moe"), ("mixture of 8 experts, gradient 1024x512x1024", "moe_backward"))
    ),
    Case("routing of 4096 rows to 64 experts", "moe/route", {"M": 4096, "E": 64}, statics={"CAP": 160}, counted=False),
    *(
        Case(f"experts' queues, {kernel} 4096x1024", f"moe/experts:{kernel}", {"M": 4096, "K": 2, "E": 8, "CAP": 1280, "D": 1024}, counted=False)
        for kernel in ("dispatch", "combine")
    ),
    *(Case(f"quantise {what} of 4096x4096", f"quantise:quantise_{what}", {"M": 4096, "K": 4096, "N": 4096}, counted=False) for what in ("columns", "rows")),
    Case("quantise groups of 4096x4096", "quantise:quantise_groups", {"M": 4096, "Q": 128}, counted=False),
    Case("AdamW 4096x4096", "train/adamw", rows(4096, 4096), counted=False),
    Case("dropout 4096x4096", "train/dropout", rows(4096, 4096), counted=False),
    Case("clipped gradient 4096x4096", "train/gradient_norm:clipped", rows(4096, 4096), counted=False),
    Case("cross entropy, gradient 512x50257", "train/cross_entropy:cross_entropy_backward", rows(512, 50257), counted=False),
    Case(
        "cross entropy of logits, gradient 512x768x50257",
        "train/linear_cross_entropy:linear_cross_entropy_backward",
        matmul(512, 50257, 768),
        counted=False,
    ),
    Case("attention, biases and segments, gradient 1024, D=64", "attention/biased:biased_backward", heads(1024), counted=False),
    Case(
        "attention, window 256, gradient 2048, D=64",
        "attention/options:attention_backward",
        heads(2048),
        statics={"CAUSAL": "true", "WINDOW": 256},
        counted=False,
    ),
    Case(
        "decode 4 x 4096 keys, 32 heads on 8, f8",
        "attention/decode:decode",
        {"B": 4, "G": 8, "S": 4096},
        statics={"KV": "f8e4m3fn", "R": 4, "D": 128},
        counted=False,
    ),
    Case(
        "decode by parts 1 x 4096 keys, 32 heads on 8, i8",
        "attention/decode:decode_split",
        {"B": 1, "G": 8, "S": 4096},
        statics={"KV": "i8", "R": 4, "D": 128},
        counted=False,
    ),
    Case(
        "decode 4 x 4096 keys, window 1024 and sinks, 64 heads on 8, D=64",
        "attention/decode:decode",
        {"B": 4, "G": 8, "S": 4096},
        statics={"R": 8, "D": 64, "WINDOW": 1024, "SINKS": "true"},
        peers={"torch": (WITH_SINKS, "shares(q @ seen(k).mT * D**-0.5) @ seen(v)")},
        counted=False,
    ),
    Case(
        "decode 4 x 4096 latent rows, 16 heads, 576 and 512 features",
        "attention/decode:decode",
        {"B": 4, "G": 1, "S": 4096},
        statics={"R": 16, "D": 576, "DV": 512, "SCALE": 0.0721688},
        peers={"torch": "F.scaled_dot_product_attention(q, k, v, scale=SCALE)"},
        counted=False,
    ),
    Case(
        "paged decode 4 x 4096 keys, window 1024 and sinks, 64 heads on 8, D=64",
        "attention/paged:paged",
        {"B": 4, "G": 8, "P": 1024, "TMAX": 256},
        statics={"R": 8, "D": 64, "WINDOW": 1024, "SINKS": "true"},
        peers={"torch": (PAGES_OF_SEQUENCES + WITH_SINKS, "shares(q @ seen(pages(k)).mT * D**-0.5) @ seen(pages(v))")},
        counted=False,
    ),
    Case(
        "attention, 192 and 128 features, causal 1024",
        "attention/options:attention",
        heads(1024),
        statics={"CAUSAL": "true", "D": 192, "DV": 128, "SCALE": 0.0721688},
        peers={"torch": "(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE), None)"},
        counted=False,
    ),
    *(
        Case(
            f"{what} 16 of 64 blocks of keys, 4096, D=64",
            f"attention/sparse:{kernel}",
            {"B": 1, "G": 8, "N": 4096, "S": 4096, **sizes},
            statics=statics,
            counted=False,
        )
        for what, kernel, sizes, statics in (
            ("attention to", "sparse", {"M": 64, "K": 16}, {}),
            ("gradient of attention to", "sparse_backward", {"M": 64, "K": 16}, {}),
            ("the choice of", "choose", {}, {"K": 16}),
        )
    ),
    *(
        Case(f"{what} {m}x4096x4096", f"matmul/block_scaled:{kind}{end}", {"M": m, "N": 4096, **sizes}, counted=False)
        for name, kind, sizes in (
            ("fp8 in blocks", "fp8_blocks", {"K": 4096}),
            ("MXFP4", "fp4", {"K": 4096}),
            ("q4_k", "q4_k", {"Q": 16}),
            ("q6_k", "q6_k", {"Q": 16}),
        )
        for what, m, end in ((f"weights {name}", 1, ""), (f"weights {name}", 512, ""), (f"gradient by weights {name}", 512, "_backward"))
    ),
    *(
        Case(f"weights {kind}, activations in bytes {m}x4096x4096", f"matmul/by_q8:{kernel}", {"M": m, "N": 4096, "Q": 128}, counted=False)
        for kind, kernel in (("i8", "i8_by_q8"), ("q8_0", "q8_0_by_q8"), ("q4_0", "q4_0_by_q8"))
        for m in (1, 8)
    ),
    Case("paged decode by hand 4 x 4096 keys, 32 heads on 8", "paged_attention", {"B": 4, "G": 8, "P": 1024, "TMAX": 256}, statics={"R": 4, "D": 128}, counted=False),
    *(
        Case(f"{what} of 8x56x56x64", f"{file}:{kernel}", {"N": 8, "H": 56, "W": 56, **outputs}, statics=statics, counted=False)
        for what, file, kernel, statics, outputs in (
            ("library conv2d 3x3", "images/conv2d", "conv2d", {}, {}),
            ("library conv2d 3x3, stride 2", "images/conv2d", "conv2d", {"SH": 2, "SW": 2}, {}),
            ("library conv2d 3x3, 4 groups", "images/conv2d", "conv2d", {"CG": 16}, {}),
            ("library depthwise 3x3", "images/conv2d", "depthwise", {}, {}),
            ("conv2d 3x3, gradient", "train/conv2d_backward", "conv2d_backward", {}, {"R": 56, "L": 56}),
            ("depthwise 3x3, gradient", "train/conv2d_backward", "depthwise_backward", {}, {"R": 56, "L": 56}),
        )
    ),
    *(
        Case(f"patches 16x16{what} of 8x224x224x3", f"{file}:{kernel}", {"N": 8, "H": 224, "W": 224, "M": 14, "L": 14}, counted=False)
        for what, file, kernel in (("", "images/conv2d", "patches"), (", gradient", "train/conv2d_backward", "patches_backward"))
    ),
    Case("global mean of 8x112x112x64", "images/pool:global_mean", {"N": 8, "H": 112, "W": 112, "C": 64}, counted=False),
    Case("global mean, gradient 8x112x112x64", "train/pool_backward:global_mean_backward", {"N": 8, "H": 112, "W": 112, "C": 64}, counted=False),
    Case("state space, gradient 2048 rows, 8 heads of 64", "sequence/ssd:ssd_backward", {"B": 1, "H": 8, "G": 1, "N": 2048}, counted=False),
    Case("attention and its sums, causal 1024, D=64", "train/attention:attention", heads(1024), statics=CAUSAL, counted=False),
    Case("axpy of 16777216", "axpy", {"N": 16777216}, counted=False),
    Case("geglu 512x1024x4096", "matmul/linear:swiglu", matmul(512, 4096, 1024), statics={"ACT": 2}, peers=GEGLU, counted=False),
    Case("gate and silu 2048x4096", "glu", rows(2048, 4096), counted=False),
    Case("gate and silu, gradient 2048x4096", "train/glu_backward", rows(2048, 4096), counted=False),
    *(
        Case(f"residual and {name} bf16 2048x4096", f"norm_residual:{kernel}", rows(2048, 4096), statics={"T": "bf16"}, counted=False)
        for name, kernel in (("rmsnorm", "rmsnorm_residual"), ("layernorm", "layernorm_residual"), ("rmsnorm to i8", "rmsnorm_residual_quantise"))
    ),
    *(
        Case(f"residual and {name}, gradient 2048x4096", f"train/norm_residual_backward:{name}_residual_backward", rows(2048, 4096), counted=False)
        for name in ("rmsnorm", "layernorm")
    ),
    Case("gelu, exact 2048x2048", "gelu", rows(2048, 2048), statics={"EXACT": "true"}, peers=EXACT_GELU, counted=False),
    Case("gelu, exact, gradient 2048x2048", "train/gelu_backward", rows(2048, 2048), statics={"EXACT": "true"}, peers=EXACT_GELU_GRADIENT, counted=False),
    *(
        Case(f"{kernel} bf16 4096x2048", kernel, rows(4096, 2048), statics={"T": "bf16"}, peers={"torch": text}, counted=False)
        for kernel, text in NARROW_ROWS.items()
    ),
    Case(
        "cross entropy bf16 512x50257",
        "train/cross_entropy:cross_entropy",
        rows(512, 50257),
        statics={"T": "bf16", "I": "i64"},
        peers={"torch": "(F.cross_entropy(x.float(), target[:, 0], reduction='none'), None)"},
        counted=False,
    ),
    *(
        Case(f"{what} bf16 {size}", kernel, sizes, statics={"T": "bf16"}, peers={"torch": text}, counted=False)
        for what, size, kernel, sizes, text in NARROW_IMAGES
    ),
    *(
        Case(f"{what} bf16 {size}", kernel, sizes, statics={"T": "bf16", **statics}, peers={peer: KERNELS[kernel].peers[peer]}, counted=False)
        for what, size, kernel, sizes, statics, peer in NARROW_TWINS
    ),
    Case(
        "decode 4 x 4096 keys, 32 heads on 8, bf16",
        "attention/decode:decode",
        {"B": 4, "G": 8, "S": 4096},
        statics={"T": "bf16", "KV": "bf16", "R": 4, "D": 128},
        peers={"torch": "F.scaled_dot_product_attention(q, k, v)"},
        counted=False,
    ),
    Case("matmul by hand 1024^3", "matmul_dma", matmul(1024, 1024, 1024), counted=False),
]
