"""What tests of pl.pallas_call share; they are skipped where JAX has no Pallas."""
import numpy
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp, lax = jax.numpy, jax.lax
pl = pytest.importorskip("jax.experimental.pallas", reason="JAX has no Pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu", reason="JAX has no Pallas for TPUs")
import pkc.pallas  # noqa: E402


@pytest.fixture(autouse=True)
def installed():
    """Every test of a module that imports this fixture runs compiled."""
    pkc.pallas.install()


def values(*shape, seed=0):
    """Standard normal f32 numbers."""
    return numpy.random.default_rng(seed).standard_normal(shape).astype("f4")


def normals(*shape, seed=0, dtype="float32"):
    """The same as an array of JAX, in any dtype."""
    return jnp.asarray(values(*shape, seed=seed), dtype)


def integers(*shape, seed=0):
    """Small integers as f32: sums of them are exact in any order."""
    return numpy.random.default_rng(seed).integers(-50, 50, shape).astype("f4")


def like(x):
    """The shape and dtype of an array, as an `out_shape`."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def matmul_kernel(x_ref, y_ref, o_ref, acc):
    """x @ y in blocks, accumulated along the last axis of the grid."""
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)
    acc[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc[...].astype(o_ref.dtype)
