"""The table of cases: which kernel at which sizes, what a peer is asked for the same result, and the goal.

A goal is the best peer's time divided by ours. A case with odd sizes also names its round neighbour: sizes of the same kernel with which
the time per unit of work is compared.

Expressions of peers use the operands, sizes and statics by name. Torch and NumPy write into an allocated output; for JAX the expression is
the jitted function of all inputs. A pair is (statements that are run once before, expression). For a kernel with several outputs an
expression returns a tuple, in their order, with None for outputs that the peer does not compute.
"""

from library import LIBRARY
from table import CAUSAL, KERNELS, Case, Kernel, heads, matmul, rows

BLAS = {name: "sgemm" for name in ("mkl", "onednn", "openblas", "blis")}

ATTENTION_TORCH = "F.scaled_dot_product_attention(q, k, v, is_causal=CAUSAL, enable_gqa=H != G)"
ATTENTION_JAX = """attention(q, k, v, CAUSAL)"""
ATTENTION_NUMPY = (
    "seen = np.tril(np.ones((N, S), bool)) if CAUSAL else np.ones((N, S), bool)\n"
    "def softmax(s): e = np.exp(s - s.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)\n"
    "def scores(): return np.where(seen, q @ k.repeat(H // G, 1).swapaxes(2, 3) * np.float32(D ** -0.5), -np.inf)",
    "np.matmul(softmax(scores()), v.repeat(H // G, 1), out=o)",
)

KERNELS |= {
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
                # With a stride, SAME pads the two sides differently, which conv2d does not support.
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
            "inductor": "torch.stack([x[:, ::2] * c - x[:, 1::2] * s, x[:, 1::2] * c + x[:, ::2] * s], 2).reshape(N, D)",
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
        data={"id": "places(id, S)"},
    ),
    "histogram": Kernel(
        "0",
        "1",
        {
            "torch": "o.copy_(torch.bincount(x, minlength=BINS))",
            "jax": "jnp.bincount(x, length=BINS).astype(jnp.int32)",
            "numpy": "np.copyto(o, np.bincount(x, minlength=BINS), casting='unsafe')",
        },
        data={"x": "places(x, BINS)"},
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
        data={"place": "places(place, N)"},
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

# Common kernels: convolutions, products with computed weights, sorts. They are not counted: their goals belong to one machine, and peers widen
# all weights before they multiply.
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

# Cases without counted goals; the last two against Pallas itself on a CPU.
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
