"""pkc.pallas: what functions of values become, the lines of Python they have, and values that outlive stores."""
import re

import numpy
import pytest

from pallas_calls import installed, jax, jnp, lax, pl, pltpu, values  # noqa: F401 (installed: a fixture)
import pkc.pallas

jex = pytest.importorskip("jax.extend.core", reason="JAX has no jaxprs to walk")


def compare(functions, *args):
    """Each function in one kernel, against XLA."""
    wanted = [jax.jit(f)(*args) for f in functions]

    def kernel(*refs):
        operands = [ref[...] for ref in refs[:len(args)]]
        for f, out in zip(functions, refs[len(args):]):
            out[...] = f(*operands)
    found = jax.jit(pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in wanted]))(*args)
    for k, (a, b) in enumerate(zip(found, wanted)):
        assert a.dtype == b.dtype
        rtol = 1e-2 if a.dtype == "bfloat16" else 1e-5
        numpy.testing.assert_allclose(a.astype("float32"), b.astype("float32"), rtol=rtol, atol=1e-5, err_msg=str(k))


def test_branches_for_platforms():
    compare([jnp.diag, lambda x: jnp.diagonal(x, 1), lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
             lambda x: lax.platform_dependent(x, tpu=jnp.sin, default=jnp.cos)], values(7, 7))


def _updates(operation, mode, row):
    """x.at[..] at the places that a row of indices names: one, several, windows and those of a batch."""
    def at(x, places, v):
        return getattr(x.at[places], operation)(v, mode=mode)

    def batch(x, i, axis):
        return jax.vmap(lambda a, i: at(a, i, a[:3] * 3 - 1), in_axes=(axis, None), out_axes=axis)(x, i[row])
    return [lambda x, i: at(x, i[row, 0], 0.5), lambda x, i: at(x, (i[row, 0], 2), 0.5), lambda x, i: at(x, (slice(None), i[row, 0] - 4), 0.5),
            lambda x, i: at(x, (i[row, 0], slice(1, 3)), x[0, :2] * 2), lambda x, i: at(x, i[row], x[:3] * 2),
            lambda x, i: at(x, (i[row], slice(1, 3)), x[:3, :2] * 2), lambda x, i: at(x, (i[row], i[row] // 2), x[:3, 0] * 2),
            lambda x, i: at(x, (slice(None), i[row] - 4), x[:, :3] * 2), lambda x, i: batch(x, i, 0), lambda x, i: batch(x, i, 1),
            lambda x, i: jax.vmap(lambda a, i: at(a, i, a[1] * 3 - 1))(x[:3], i[row])]


@pytest.mark.parametrize("operation", ["set", "add", "multiply", "min", "max"])
def test_updates_in_and_out_of_range(operation):
    """An update that reaches out of the array is left out, or with mode "clip" moved in."""
    x, i = values(8, 5), numpy.array([[8, 2, -1], [-9, 100, 1], [3, 0, 7]], "i4")
    strided = [lambda x, i: getattr(x.at[::2], operation)(x[:4] * 2), lambda x, i: getattr(x.at[::2, 1:3], operation)(x[:4, :2] * 2),
               lambda x, i: getattr(x.at[1:7, ::2], operation)(x[:6, :3] * 2), lambda x, i: getattr(x.at[::3, ::2], operation)(x[:3, :3] * 2),
               lambda x, i: getattr(x.at[7], operation)(2.0), lambda x, i: getattr(x.at[8, 1], operation)(2.0)]
    compare([f for mode, rows in ((None, (0, 1, 2)), ("clip", (0, 1))) for row in rows for f in _updates(operation, mode, row)] + strided, x, i)


def test_windows_at_several_places():
    """The windows may overlap, and one that reaches out of the array in part is left out whole."""
    numbers = lax.ScatterDimensionNumbers(update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(1, 0))
    indices = numpy.array([[1, 2], [2, 3], [4, 1], [3, 7], [0, -1]], "i4")
    compare([lambda x, i, mode=mode, f=f: f(x, i, x.reshape(10, 2, 2)[:5], numbers, mode=mode)
             for mode in ("drop", "clip") for f in (lax.scatter_add, lax.scatter_mul, lax.scatter_max)], values(8, 5), indices)


def test_loops_of_a_batch():
    """A `while` under vmap goes on for the elements whose condition holds; the others keep their values."""
    def halve(x):
        return lax.while_loop(lambda c: jnp.abs(c[0]) > 0.1, lambda c: (c[0] / 2, c[1] + 1), (x, 0))

    def rows(x):
        return lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] * 2 + 1, c[1] + jnp.sum(c[1])), (jnp.abs(x[0]), x))[1]
    compare([lambda x, n: jax.vmap(halve)(x[:, 0])[1], lambda x, n: jax.vmap(jax.vmap(halve))(x)[0], lambda x, n: jax.vmap(rows)(x),
             lambda x, n: jax.vmap(rows, in_axes=1, out_axes=1)(x), lambda x, n: jax.vmap(lambda v, m: lax.fori_loop(0, m, lambda i, c: c + v * i, v))(x, n),
             lambda x, n: jax.vmap(lambda v: lax.while_loop(lambda c: c < n[3], lambda c: c + 1, v))(n)], values(8, 5), numpy.arange(-2, 6, dtype="i4"))


def test_functions_that_some_versions_have():
    x, words = values(8, 16), numpy.random.default_rng(0).integers(-2**31, 2**31, (8, 16)).astype("i4")
    coefficients = [0.5, -1.0, 2.0] * 4
    given = [lambda x, w: jnp.log2(jnp.abs(x)), lambda x, w: jax.grad(lambda v: jnp.tanh(v).sum())(x), lambda x, w: jnp.tanh(x) ** 2]
    given += [lambda x, w: lax.polynomial(x, coefficients[:3]), lambda x, w: lax.polynomial(x, coefficients),
              lambda x, w: lax.polynomial(x, [x, x[:1], 1.0])] if hasattr(lax, "polynomial") else []
    given += [lambda x, w: lax.mulhi(w, w[::-1]), lambda x, w: lax.mulhi(w.astype("uint32"), w[::-1].astype("uint32"))] \
        if hasattr(lax, "mulhi") else []
    compare(given, x, words)


@pytest.mark.skipif(not hasattr(pltpu, "einshape"), reason="this JAX has no einshape")
def test_einshape():
    compare([lambda x: pltpu.einshape("(ab)c->acb", x, b=4), lambda x: pltpu.einshape("a(bc)->(ba)c", x, c=16),
             lambda x: pltpu.einshape("ab->ba", x)], values(24, 32))


@pytest.mark.parametrize("own", [False, True])
def test_functions_of_the_fuser(own):
    """Those that say how they are computed in a kernel, and those that do not, with what they capture."""
    fuser = pytest.importorskip("jax.experimental.pallas.fuser", reason="JAX has no fuser")

    @fuser.custom_fusion
    def shifted(x, start):
        return x * 2 + start
    shifted.def_pull_block_spec(lambda specs: (None, None))
    shifted.def_eval_rule(lambda context, x, start: (x * 2 + start,))
    if own:
        shifted.def_pallas_impl(lambda x, start: start - x)
    x = values(8, 16)

    def kernel(x_ref, o_ref):
        o_ref[...] = shifted(x_ref[...], 3.0)
    found = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    numpy.testing.assert_allclose(found, 3 - x if own else 3 + 2 * x, rtol=1e-6)


def test_searches():
    compare([lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y), lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y, side="right"),
             lambda x, y: jnp.interp(y, jnp.arange(5.0), jnp.arange(5.0)**2), lambda x, y: jnp.histogram(x, 5)[0],
             lambda x, y: jnp.select([x < -1, x < 1], [x, x * 2], 0.0)], values(8, 16), values(8, 1, seed=1))


def test_gathers_that_keep_axes():
    def gather(offset, collapsed, mapped, sizes):
        numbers = lax.GatherDimensionNumbers(offset_dims=offset, collapsed_slice_dims=collapsed, start_index_map=mapped)
        return lambda x, i: lax.gather(x, i, numbers, sizes, mode="clip")
    compare([gather((1, 2), (), (0,), (1, 16)), gather((0, 1), (), (0,), (1, 16)), gather((0, 2), (), (1,), (8, 1)),
             lambda x, i: gather((1, 2), (), (0, 1), (1, 1))(x, jnp.concatenate([i, i], 1))],
            values(8, 16), numpy.array([[3], [0], [9], [-1], [7]], "i4"))


def test_order_of_all_floats():
    a = numpy.array([-numpy.inf, -2, -0.0, 0.0, 1e-40, 3, numpy.inf, numpy.nan], "f4")
    compare([lambda a, b: lax.lt_to_p.bind(a, b), lambda a, b: lax.le_to_p.bind(a, b)] if hasattr(lax, "lt_to_p") else
            [lambda a, b: jnp.searchsorted(a[0], b[:, 0])], numpy.broadcast_to(a, (8, 8)), numpy.broadcast_to(a[:, None], (8, 8)))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_windows_that_are_reduced(dtype):
    def window(combine, neutral, *shape, **words):
        return lambda x: lax.reduce_window(x, numpy.asarray(neutral, dtype), combine, *shape, **words)
    least, greatest = (-numpy.inf, numpy.inf) if dtype == "float32" else (numpy.iinfo(dtype).min, numpy.iinfo(dtype).max)
    compare([window(lax.max, least, (2, 2), (2, 2), "VALID"), window(lax.add, 0, (3, 3), (1, 1), "SAME"),
             window(lax.min, greatest, (2, 3), (1, 2), ((1, 0), (0, 2)), window_dilation=(3, 2)),
             window(lax.add, 0, (1, 13), (1, 1), ((0, 0), (12, 0))), window(lax.max, least, (9, 1), (1, 1), "VALID"),
             window(lax.add, 0, (2, 2), (3, 1), "VALID", base_dilation=(2, 3))], (values(8, 13) * 9).astype(dtype))


def test_too_long_windows():
    with pytest.raises(pkc.pallas.TranslationError, match="Windows of up to 256 elements"):
        compare([lambda x: lax.reduce_window(x, numpy.float32(0), lax.add, (300,), (1,), "VALID")], values(400))


def test_bools_as_numbers():
    compare([lambda x, y: jnp.argmax(x, axis=1), lambda x, y: jnp.argmin(x, axis=0), lambda x, y: jnp.max(x, axis=1), lambda x, y: jnp.min(x),
             lambda x, y: jnp.maximum(x, y), lambda x, y: jnp.minimum(x, y), lambda x, y: jnp.dot(x, y.T),
             lambda x, y: jnp.matmul(x, y.T, preferred_element_type=jnp.float32), lambda x, y: jnp.matmul(x, y.T, preferred_element_type=jnp.int32)],
            values(8, 13) > 0.3, values(8, 13, seed=1) > 0.6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_products_of_integers_as_floats(dtype):
    narrow = "bfloat16" if numpy.dtype(dtype).itemsize < 4 else "float32"  # JAX refuses narrower ones
    compare([lambda x: jnp.matmul(x, x.T, preferred_element_type=jnp.float32), lambda x: jnp.einsum("ij,kj->ki", x, x, preferred_element_type=narrow)],
            numpy.random.default_rng(0).integers(0, min(numpy.iinfo(dtype).max, 1 << 20), (8, 16)).astype(dtype))


# ---- stores between a value and its uses

def stepwise(f, x, between):
    """f(x), with between() after each of its operations."""

    def run(jaxpr, consts, operands):
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands]))

        def read(atoms):
            return [a.val if isinstance(a, jex.Literal) else env[a] for a in atoms]
        for e in jaxpr.eqns:
            if e.primitive.name in ("jit", "pjit"):
                results = run(e.params["jaxpr"].jaxpr, e.params["jaxpr"].consts, read(e.invars))
            else:
                given = e.primitive.get_bind_params(e.params)
                functions, params = given if isinstance(given, tuple) else ((), given)
                results = e.primitive.bind(*functions, *read(e.invars), **params)
                results = results if e.primitive.multiple_results else [results]
                between()
            env.update(zip(e.outvars, results))
        return read(jaxpr.outvars)
    closed = jax.make_jaxpr(f)(x)
    return run(closed.jaxpr, closed.consts, [x])[0]


OUTLIVING = [
    lambda x: x - jnp.sum(x, axis=1)[:, None],
    lambda x: x - jnp.max(x, axis=1, keepdims=True) + jnp.min(x, axis=0, keepdims=True),
    lambda x: jax.nn.softmax(x, axis=0),
    lambda x: lax.cond((x[0, 0] > 0).astype(jnp.int32), lambda v: v * 2, lambda v: v - 1, x),
    lambda x: lax.switch((x[0, 0] > 0).astype(jnp.int32) + (x[1, 1] > 0), [lambda v: v * 2, lambda v: v - 1, jnp.abs], x),
    lambda x: jnp.where((x > 0).astype(jnp.int32) == 1, x, -x),
    lambda x: lax.dynamic_slice(x, ((x[0, 0] > 0).astype(jnp.int32), 3), (4, 5)) + x[:1, :5],
    lambda x: jnp.broadcast_to(x[:, 2:3], x.shape) + x.T.reshape(x.shape),
    lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
    lambda x: lax.fori_loop(0, (x[0, 0] > -9).astype(jnp.int32) + 1, lambda i, v: v + i, x),
    lambda x: x.at[:, 3].add(jnp.sum(x, axis=1)),
    lambda x: x * (jnp.arange(16) + x[0, 0].astype(jnp.int32)),
    lambda x: lax.top_k(x, 3)[0] + lax.top_k(x, 3)[1],
]


def test_values_outlive_stores():
    """A value is what memory held when it was computed, in whatever form it is used later."""
    x = values(8, 16)
    wanted = [jax.jit(f)(x) for f in OUTLIVING]

    def kernel(x_ref, *refs):
        outs, scratch = refs[:-1], refs[-1]

        def change():
            scratch[...] = scratch[...] * 2 + 3
        for f, out in zip(OUTLIVING, outs):
            scratch[...] = x_ref[...]
            out[...] = stepwise(f, scratch[...], change)
    found = pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in wanted],
                           scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)])(x)
    for k, (a, b) in enumerate(zip(found, wanted)):
        numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=str(k))


# ---- the text

def test_no_unused_names():
    def kernel(x_ref, o_ref, i_ref):
        x, columns = x_ref[...], lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
        for k in range(2):
            o_ref[:, k:k + 1] = jnp.max(x, axis=1, keepdims=True)
            at = jnp.min(jnp.where(x == jnp.max(x, axis=1, keepdims=True), columns, x.shape[1]), axis=1, keepdims=True)
            i_ref[:, k:k + 1] = at
            x = jnp.where(columns == at, -jnp.inf, x)
    text = pkc.pallas.to_pk(pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct((8, 2), t) for t in ("float32", "int32")]), values(8, 16))
    names = re.findall(r"let (\w+) =", text)
    assert names and all(len(re.findall(r"\b%s\b" % name, re.sub(r"//.*", "", text))) > 1 for name in names), text


def test_lines_of_a_prediction():
    def kernel(x_ref, o_ref):
        def step(state):
            n, x = state
            return n + 1, x - jnp.exp(x)

        _, x = lax.while_loop(lambda state: jnp.any(state[1] > 0), step, (0, x_ref[...]))
        o_ref[...] = x
    report = pkc.pallas.tpu(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), "float32")), values(8, 128))
    assert report.data["transcendentals"] == 8 * 128  # what ends by data runs once
    named = {int(n) for n in re.findall(r"line +(\d+)  test_pallas_values.py:\d+: ", str(report).split("These lines in Python")[1])}
    assert {line["line"] for line in report.data["losses"]} & named
    assert "_, x = lax.while_loop(" in str(report)


def test_lines_of_a_backward_pass():
    """The kernel of a backward pass has its own lines, in texts and in messages, not that of the forward call."""
    def forward_kernel(x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...])

    def backward_kernel(x_ref, d_ref, o_ref):
        slope = jnp.cos(x_ref[...])
        o_ref[...] = slope * d_ref[...]

    def refused_kernel(x_ref, d_ref, o_ref):
        o_ref[...] = lax.lgamma(x_ref[...]) * d_ref[...]

    def function(backward):
        call = pl.pallas_call(forward_kernel, out_shape=jax.ShapeDtypeStruct((8, 16), "float32"))
        f = jax.custom_vjp(call)
        f.defvjp(lambda x: (call(x), x),
                 lambda x, d: (pl.pallas_call(backward, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, d),))
        return jax.grad(lambda x: jnp.sum(f(x)))
    x = values(8, 16)
    text = pkc.pallas.to_pk(function(backward_kernel), x)
    assert "slope = jnp.cos(x_ref[...])\n  let slope = cos(x_ref[...]);" in text.split("kernel backward_kernel")[1]
    numpy.testing.assert_allclose(jax.jit(function(backward_kernel))(x), numpy.cos(x), rtol=1e-5, atol=1e-6)
    with pytest.raises(pkc.pallas.TranslationError, match=r"<locals>.refused_kernel\n"):
        jax.jit(function(refused_kernel))(x)


def test_windows_of_a_whole_axis_stay_in_the_array():
    def kernel(start_ref, o_ref):
        o_ref[:, pl.ds(start_ref[0], 4)] = jnp.full((4, 4), pl.program_id(0) * 2 + pl.program_id(1) + 1, jnp.float32)
    found = pl.pallas_call(kernel, grid=(2, 2), in_specs=[pl.BlockSpec((1,), lambda i, j: (0,))],
                           out_specs=pl.BlockSpec((4, 4), lambda i, j: (i, j)),
                           out_shape=jax.ShapeDtypeStruct((6, 6), jnp.float32))(jnp.zeros(1, jnp.int32))
    row = numpy.repeat([1, 2], [4, 2])
    numpy.testing.assert_array_equal(found, numpy.concatenate([[row] * 4, [row + 2] * 2]))


@pytest.mark.parametrize("dtype, word", [(jnp.bfloat16, jnp.uint16), (jnp.float16, jnp.uint16), (jnp.float8_e4m3fn, jnp.uint8), (jnp.float8_e5m2, jnp.uint8)])
def test_moves_keep_bits(dtype, word):
    """Every pattern, NaNs of all kinds included, comes through bitcasts and moves as it was."""
    n = 256 if word == jnp.uint16 else 16
    x = numpy.arange(n * n).astype(word).reshape(n, n)

    def there_and_back(x_ref, o_ref):
        o_ref[...] = lax.bitcast_convert_type(jnp.flip(lax.bitcast_convert_type(x_ref[...], dtype), 0), word)

    def moved(x_ref, o_ref):
        floats = lax.bitcast_convert_type(x_ref[...], dtype)
        o_ref[...] = jnp.where(x_ref[...] % 2 == 0, floats, jnp.roll(floats, n, 1)).T
    for kernel, out, expected in ((there_and_back, word, x[::-1]), (moved, dtype, x.T)):
        result = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, out))(x)
        assert (numpy.asarray(result).view(word) == expected).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_reduce_precision(dtype):
    """Infinities past the greatest number, zeros for what would be subnormal, and the neighbours of both limits."""
    limits = numpy.array([2.0**p * (1 + k * 2.0**-12) for p in (-14, -6, 7, 7.954, 15) for k in range(-6, 7)] + [240, 248, 256, 448, 464, 57344, 61440, 65504, 65520])
    spread = 10 ** numpy.random.default_rng(1).uniform(-9, 6, 300)
    x = numpy.concatenate([limits, spread, [0, 1, numpy.inf, numpy.nan]])
    with numpy.errstate(over="ignore"):
        x = jnp.asarray(numpy.concatenate([x, -x])).astype(dtype)
    x = jnp.where(jnp.abs(x) < jnp.finfo(dtype).tiny, 0, x)  # XLA rounds subnormal operands by their bits

    formats = [(5, 10), (4, 3), (5, 2), (8, 7), (8, 23)]

    def kernel(x_ref, *outs):
        for out, bits in zip(outs, formats):
            out[...] = lax.reduce_precision(x_ref[...], *bits)
    results = pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * len(formats))(x)
    for result, bits in zip(results, formats):
        found, wanted = (numpy.asarray(value, "f4") for value in (result, lax.reduce_precision(x, *bits)))
        numpy.testing.assert_array_equal(found, wanted, err_msg=str(bits))
        assert (numpy.signbit(found) == numpy.signbit(wanted))[~numpy.isnan(wanted)].all(), bits
