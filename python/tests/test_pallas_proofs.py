"""pkc.pallas.prove: kernels that JAX ships are functions of jax.numpy, others are not, and what cannot be looked at is said."""
import functools

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
pytest.importorskip("jax.experimental.pallas.ops.tpu.flash_attention", reason="JAX has no Pallas for TPUs")
import pallas_proofs  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pkc.pallas  # noqa: E402

jnp, shape = jax.numpy, pallas_proofs.shape
SECONDS = 600


def test_the_table_of_the_page():
    before, after = pallas_proofs.page()
    assert before == after, "python python/tests/pallas_proofs.py --write"


@pytest.mark.parametrize("case", range(len(pallas_proofs.CASES)))
def test_kernels_of_jax(case):
    _, _, make, verdict, _ = pallas_proofs.CASES[case]
    kernel, reference, arguments = make()
    proof = pkc.pallas.prove(kernel, reference, *arguments, max_time=SECONDS)
    assert proof.verdict == verdict, proof
    assert bool(proof) == (verdict == "proved")


@pytest.mark.parametrize("wrong", pallas_proofs.WRONG, ids=lambda w: w[0])
def test_wrong_references(wrong):
    _, case, reference = wrong
    kernel, _, arguments = pallas_proofs.CASES[case][2]()
    proof = pkc.pallas.prove(kernel, reference, *arguments, max_time=SECONDS)
    assert proof.verdict == "refuted" and not proof, proof


def doubled(x, block=4):
    spec = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + x_ref[...]), grid=(pl.cdiv(x.shape[0], block),),
                          in_specs=[spec], out_specs=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def test_operations_around_kernels():
    def around(x, y):
        return {"sum": doubled(doubled(x).T).T.sum(0), "other": y + 1}, x
    proof = pkc.pallas.prove(around, lambda x, y: ({"sum": (4 * x).sum(0), "other": 1 + y}, x), shape(7, 5), shape(3))
    assert proof, proof


def test_one_array_many_times_and_none():
    assert pkc.pallas.prove(lambda x: doubled(x) + doubled(x), lambda x: 4 * x, shape(8, 8))
    assert pkc.pallas.prove(lambda x, y: doubled(x), lambda x, y: 2 * x, shape(8, 8), shape(3))
    assert pkc.pallas.prove(lambda x: x + x, lambda x: 2 * x, shape(8, 8))


def test_functions_with_rules_of_their_own():
    """A custom_vmap, and a custom_vjp that is differentiated with optimize_remat, are what they call."""
    mapped = jax.custom_batching.custom_vmap(lambda x: doubled(x))
    mapped.def_vmap(lambda n, batched, x: (doubled(x), True))
    assert pkc.pallas.prove(lambda x: mapped(x) + 1, lambda x: 2 * x + 1, shape(8, 8))
    assert pkc.pallas.prove(lambda x: mapped(x) + 1, lambda x: 3 * x + 1, shape(8, 8)).verdict == "refuted"
    squared = jax.custom_vjp(lambda x: doubled(x) ** 2)
    squared.defvjp(lambda x: (doubled(x) ** 2, x), lambda x, g: (g * 8 * x,), optimize_remat=True)
    for factor, verdict in ((8, "proved"), (4, "refuted")):
        proof = pkc.pallas.prove(jax.grad(lambda x: squared(x).sum()), lambda x, factor=factor: factor * x, shape(8, 8))
        assert proof.verdict == verdict, proof


def test_integers_that_follow_from_given_ones():
    """JAX computes them, by way of floats too, for operands that are not prefetched."""
    def rows(x, counts):
        shares = counts.astype("float32") / counts.sum()
        at = jnp.argsort(-shares).astype("int32")
        return pl.pallas_call(lambda at_ref, x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * at_ref[...][:, None].astype("float32")),
                              out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(at, x)
    counts = pallas_proofs.ints(3, 9, 4)
    assert pkc.pallas.prove(rows, lambda x, _: x * pallas_proofs.ints(1, 2, 0)[:, None], shape(3, 4), counts)
    assert pkc.pallas.prove(rows, lambda x, _: x * pallas_proofs.ints(1, 0, 2)[:, None], shape(3, 4), counts).verdict == "refuted"


def test_vmap_jit_and_constants():
    table = numpy_table()
    assert pkc.pallas.prove(jax.jit(jax.vmap(lambda x: doubled(x) * table)), lambda x: 2 * x * table, shape(2, 8, 5))
    proof = pkc.pallas.prove(jax.jit(jax.vmap(lambda x: doubled(x) * table)), lambda x: 2 * x * (table + 1), shape(2, 8, 5))
    assert proof.verdict == "refuted", proof


def numpy_table():
    return pallas_proofs.numpy.arange(5, dtype="f4")


def test_loops():
    def summed(x):
        return jax.lax.scan(lambda carry, row: (carry + doubled(row), row * 3), jnp.zeros((8, 4)), x)
    assert pkc.pallas.prove(summed, lambda x: (2 * x.sum(0), 3 * x), shape(3, 8, 4))
    assert pkc.pallas.prove(lambda x: jax.lax.fori_loop(0, 3, lambda _, v: doubled(v), x), lambda x: 8 * x, shape(8, 4))


def test_in_place():
    def update(x):
        return pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 3), input_output_aliases={0: 0},
                              out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x) - x
    assert pkc.pallas.prove(update, lambda x: 2 * x, shape(4, 4))


def test_integers():
    ints = pallas_proofs.ints(3, 1, 0, 2)

    def pick(x, rows):
        return doubled(x) * rows[:, None].astype(x.dtype)
    assert pkc.pallas.prove(pick, lambda x, rows: x * (2 * rows)[:, None], shape(4, 4), ints)


@pytest.mark.parametrize("function, said", [
    (lambda x: jax.lax.cond(x[0, 0] > 0, doubled, lambda x: x, x), "depends on data"),
    (lambda x: doubled(jnp.linalg.qr(x)[0]), "qr|householder|geqrf"),
])
def test_what_cannot_be_looked_at(function, said):
    with pytest.raises(pkc.pallas.TranslationError, match=said):
        pkc.pallas.prove(function, lambda x: x, shape(8, 8))


def test_other_results():
    with pytest.raises(ValueError, match="returns float32"):
        pkc.pallas.prove(doubled, lambda x: x[0], shape(8, 8))


def test_verdict_and_data():
    proof = pkc.pallas.prove(doubled, functools.partial(jnp.multiply, 3), shape(8, 8), seed=4)
    assert proof.verdict == "refuted" and proof.data["element"].startswith("o0[") and "refuted" in str(proof)
