"""JAX: jitted, compiled by XLA, in the calling thread. The output's buffer is given back to each call (donated)."""

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


def device_array(array, dtype):
    return jnp.asarray(array.view(jnp.bfloat16) if dtype == "bf16" else array)


def prepare(expression, problem):
    names = {"jax": jax, "jnp": jnp, "attention": attention, **problem.values}
    inputs = [device_array(value, problem.dtypes[name]) for name, value in problem.inputs.items()]
    compute = eval(f"lambda {', '.join(problem.inputs)}: {expression}", names)
    run = jax.jit(lambda spare, *inputs: compute(*inputs), donate_argnums=0, keep_unused=True)
    dtype = problem.dtypes[problem.output]
    latest = device_array(problem.empty(), dtype).copy()

    def call():
        nonlocal latest
        latest = run(latest, *inputs)
        latest.block_until_ready()

    def result():
        value = np.asarray(latest)
        return value.view(np.uint16) if dtype == "bf16" else value

    return call, result
