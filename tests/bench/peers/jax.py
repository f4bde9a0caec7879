"""JAX: jitted, compiled by XLA. The output's buffer is given back to each call (donated)."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

NAME = "jax"
jax.config.update("jax_cpu_enable_async_dispatch", False)


def version():
    return jax.__version__


def attention(q, k, v, causal):
    b, h, n, d = q.shape
    g, s = k.shape[1:3]
    grouped = q.reshape(b, g, h // g, n, d)
    scores = jnp.einsum("bghnd,bgsd->bghns", grouped, k, preferred_element_type=jnp.float32) * d**-0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((n, s), bool)), scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    o = jnp.einsum("bghns,bgsd->bghnd", weights, v, preferred_element_type=jnp.float32)
    return o.reshape(q.shape).astype(q.dtype)


def windowed(q, k, v, window):
    n, s = q.shape[2], k.shape[2]
    row, col = jnp.arange(n)[:, None], jnp.arange(s)
    scores = jnp.einsum("bhnd,bhsd->bhns", q, k) * q.shape[3] ** -0.5
    return jax.nn.softmax(jnp.where((col <= row) & (row - col < window), scores, -jnp.inf)) @ v


def gathered(q, k, v, table):
    """Attention of each sequence to the pages that its row of the table names."""
    k, v = (a[:, table].transpose(1, 0, 2, 3, 4).reshape(*q.shape[:2], -1, q.shape[3]) for a in (k, v))
    return jnp.einsum("bgrs,bgsd->bgrd", jax.nn.softmax(jnp.einsum("bgrd,bgsd->bgrs", q, k) * q.shape[3] ** -0.5), v)


def chunked(x, log_a, b, c, first, rows):
    """The state space by chunks of so many rows, one after the other, and the state behind the last."""
    batch, h, n, p = x.shape
    b, c = (jnp.repeat(a, h // a.shape[1], 1) for a in (b, c))
    parts = [a.reshape(batch, h, n // rows, rows, -1).transpose(2, 0, 1, 3, 4) for a in (x, log_a, b, c)]

    def step(state, part):
        x, log_a, b, c = part
        u = jnp.cumsum(log_a, 2)
        decay = jnp.exp(jnp.where(jnp.tril(jnp.ones((rows, rows), bool)), u - u.mT, -jnp.inf))
        y = ((c @ b.mT) * decay) @ x + jnp.exp(u) * (c @ state)
        return jnp.exp(u[:, :, -1:]) * state + (b * jnp.exp(u[:, :, -1:] - u)).mT @ x, y

    last, y = jax.lax.scan(step, first, tuple(parts))
    return y.transpose(1, 2, 0, 3, 4).reshape(x.shape), last


def routed(logits, k, places):
    """(weights, experts, places in their queues) of each row's k greatest."""
    best, expert = jax.lax.top_k(logits, k)
    hot = jax.nn.one_hot(expert.reshape(-1), logits.shape[1], dtype=jnp.int32)
    place = ((jnp.cumsum(hot, 0) - 1) * hot).sum(1).reshape(expert.shape)
    return jax.nn.softmax(best) * (place < places), expert, jnp.where(place < places, place, -1)


def mixture(x, r, w1, w2, k):
    """A mixture of experts by products of rows that are sorted by their experts."""
    share, expert = jax.lax.top_k(x @ r, k)
    order, counts = jnp.argsort(expert.reshape(-1), stable=True), jnp.bincount(expert.reshape(-1), length=w1.shape[0])
    made = jax.lax.ragged_dot(jax.nn.silu(jax.lax.ragged_dot(x[order // k], w1, counts)), w2, counts)
    return jnp.zeros_like(x).at[order // k].add(made * jax.nn.softmax(share).reshape(-1)[order][:, None])


def received(r, k, v, w, u, first):
    """The state of RWKV-6, row after row."""
    def step(s, row):
        r, k, v, w = row
        added = k[..., None] * v[..., None, :]
        return w[..., None] * s + added, jnp.einsum("bhi,bhij->bhj", r, s + u[:, 0, :, None] * added)
    last, y = jax.lax.scan(step, first, tuple(jnp.moveaxis(a, 2, 0) for a in (r, k, v, w)))
    return jnp.moveaxis(y, 0, 2), last


def selected(x, delta, a, b, c, d, z, bias, first):
    """The state space of Mamba-1, row after row."""
    step = jax.nn.softplus(delta + bias)

    def row(state, part):
        step, scaled, b, c = part
        state = jnp.exp(step[:, None] * a) * state + b[:, :, None] * scaled[:, None]
        return state, (c[:, :, None] * state).sum(1)

    last, y = jax.lax.scan(row, first, tuple(jnp.moveaxis(v, 1, 0) for v in (step, step * x, b, c)))
    return (jnp.moveaxis(y, 0, 1) + d * x) * jax.nn.silu(z), last


def corrected(q, k, v, log_a, beta, first, rows):
    """The gated delta rule by chunks of so many rows, and the state after the last."""
    def unit(x):
        return x * jax.lax.rsqrt((x * x).sum(-1, keepdims=True) + 1e-6)

    batch, h, n, _ = v.shape
    q, k = (jnp.repeat(unit(a), h // a.shape[1], 1) for a in (q, k))
    parts = [a.reshape(batch, h, n // rows, rows, -1).transpose(2, 0, 1, 3, 4) for a in (q * q.shape[-1] ** -0.5, k, v, log_a, beta)]

    def step(state, part):
        q, k, v, log_a, beta = part
        u = jnp.cumsum(log_a, 2)
        decay = jnp.exp(jnp.where(jnp.tril(jnp.ones((rows, rows), bool)), u - u.mT, -jnp.inf))
        lower = jnp.tril(beta * (k @ k.mT) * decay, -1)
        w = jax.lax.linalg.triangular_solve(lower, beta * (v - jnp.exp(u) * (k @ state)), left_side=True, lower=True, unit_diagonal=True)
        o = ((q @ k.mT) * decay) @ w + jnp.exp(u) * (q @ state)
        return jnp.exp(u[:, :, -1:]) * state + (k * jnp.exp(u[:, :, -1:] - u)).mT @ w, o

    last, o = jax.lax.scan(step, first, tuple(parts))
    return o.transpose(1, 2, 0, 3, 4).reshape(v.shape), last


def device_array(array, dtype):
    return jnp.asarray(array.view({"bf16": jnp.bfloat16, "f8e4m3fn": jnp.float8_e4m3fn}.get(dtype, array.dtype)))


def prepare(expression, problem):
    own = (attention, windowed, gathered, chunked, received, selected, corrected, routed, mixture)
    names = {"jax": jax, "jnp": jnp, **{function.__name__: function for function in own}, **problem.values}
    inputs = [device_array(value, problem.dtypes[name]) for name, value in problem.inputs.items()]
    compute = eval(f"lambda {', '.join(problem.inputs)}: {expression}", names)
    run = jax.jit(lambda spare, *inputs: compute(*inputs), donate_argnums=0, keep_unused=True)
    several = len(problem.outputs) > 1
    latest = [device_array(value, problem.dtypes[name]).copy() for name, value in problem.empties().items()]
    latest = latest if several else latest[0]

    def call():
        nonlocal latest
        latest = jax.block_until_ready(run(latest, *inputs))

    def result():
        values = latest if several else [latest]
        return [shown(value, problem.dtypes[name], shape) for value, (name, shape) in zip(values, problem.outputs.items(), strict=True)]

    return call, result


def shown(value, dtype, shape):
    if value is None:
        return None
    floats = {"bf16": jnp.bfloat16, "f32": jnp.float32}
    value = np.asarray(value.astype(floats.get(dtype, value.dtype))).reshape(shape)
    return value.view(np.uint16) if dtype == "bf16" else value
