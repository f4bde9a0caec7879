"""pkc.jax.call: kernels as custom calls of XLA."""
import subprocess
import sys

import numpy
import pytest
from kernels import COPY, COUNT, HALVES, IN_PLACE, SCALE, TWO, made, pair, scale, scaled
from test_numpy import LIBRARY

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
call = pytest.importorskip("pkc.jax").call
import pkc  # noqa: E402


def test_eager_and_jit():
    x, y = pair(70, 30)
    want = scaled(x, y)
    numpy.testing.assert_array_equal(call(scale(), x, y), want)
    o = jax.jit(lambda x, y: call(scale(), x + 1, y) * 2)(x, y)
    numpy.testing.assert_array_equal(o, 2 * scaled(x + 1, y))
    for shape in ((0, 3), (1, 1), (300, 2)):
        x, y = pair(*shape)
        numpy.testing.assert_array_equal(jax.jit(lambda x, y: call(scale(), x, y))(x, y), scaled(x, y))


@pytest.mark.parametrize("threads", [None, 1, 2, 5, 64])
def test_threads(threads):
    x, y = pair(3000, 500)
    f = jax.jit(lambda x, y: call(scale(), x, y, threads=threads))
    for _ in range(20):
        numpy.testing.assert_array_equal(f(x, y), scaled(x, y))


@pytest.mark.parametrize("dtype", "float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int32 uint32 int16 uint16 int8 uint8 bool".split())
def test_dtypes(dtype):
    x = (jnp.arange(33).reshape(11, 3) % 7).astype(dtype)
    o = jax.jit(lambda x: call(made(COPY), x.T))(x)
    assert o.dtype == x.dtype
    numpy.testing.assert_array_equal(o, x.T)


@pytest.mark.parametrize("dtype", "bf16 f16 f8e4m3fn f8e5m2 f8e8m0fnu f8e4m3fnuz f8e5m2fnuz f8e4m3b11fnuz".split())
def test_small_numbers_become_narrower(dtype):
    """XLA calls a kernel with subnormal numbers as zeros. Rounding to a narrower float is not arithmetic: the bits are those of a call from NumPy."""
    kernel = pkc.kernel("kernel narrow(x: f32[M, N]) -> (o: %s[M, N]) { o[...] = cast(x[...], %s); }" % (dtype, dtype))
    bits = numpy.random.default_rng(0).integers(0, 1 << 24, (2, 32, 129)) | numpy.array([0, 1 << 31]).reshape(2, 1, 1)
    x = bits.astype("u4").view("f4").reshape(64, 129)
    numpy.testing.assert_array_equal(numpy.asarray(jax.jit(lambda x: call(kernel, x))(x)).view("u1"), numpy.asarray(kernel(x)).view("u1"))


def test_statics_and_several_outputs():
    a, b = jax.jit(lambda x: call(made(TWO), x, jnp.full(3, 10)))(pair(3, 6)[0])
    numpy.testing.assert_array_equal(a, 2 * pair(3, 6)[0])
    numpy.testing.assert_array_equal(b, [10, 11, 12, 13])


def test_vmap_scan_and_cond():
    x, y = pair(70, 30)
    x = x.reshape(5, 14, 30)
    want = numpy.stack([scaled(one, y) for one in x])
    numpy.testing.assert_array_equal(jax.vmap(lambda x: call(scale(), x, y))(x), want)
    o = jax.lax.scan(lambda c, x: (c, call(scale(), x, c)), y, x)[1]
    numpy.testing.assert_array_equal(o, want)
    o = jax.jit(lambda p, x: jax.lax.cond(p, lambda x: call(scale(), x, y), lambda x: x, x))(True, x[0])
    numpy.testing.assert_array_equal(o, want[0])


def test_custom_vjp():
    f = jax.custom_vjp(lambda x, y: call(scale(), x, y))
    f.defvjp(lambda x, y: (f(x, y), None), lambda _, g: (call(scale(), g, jnp.zeros(g.shape[1])), g.sum(0)))
    x, y = pair()
    gx, gy = jax.jit(jax.grad(lambda x, y: f(x, y).sum(), (0, 1)))(x, y)
    numpy.testing.assert_array_equal(gx, numpy.full((5, 7), 2))
    numpy.testing.assert_array_equal(gy, numpy.full(7, 5))


def test_alias_and_donation():
    x = jnp.arange(2000, dtype="float32")
    want = 2 * numpy.arange(2000)
    numpy.testing.assert_array_equal(jax.jit(lambda x: call(made(IN_PLACE), x))(x), want)
    numpy.testing.assert_array_equal(x, numpy.arange(2000))
    f = jax.jit(lambda x: call(made(IN_PLACE), x), donate_argnums=0)
    place = x.unsafe_buffer_pointer()
    o = f(x)
    numpy.testing.assert_array_equal(o, want)
    assert o.unsafe_buffer_pointer() == place


def test_prefetched():
    k = pkc.load(LIBRARY / "paged_attention.pk")
    rng = numpy.random.default_rng(1)
    args = [numpy.array([[3, 1], [0, 2]], "i4"), numpy.array([20, 5], "i4"),
            *(rng.standard_normal(s, "f4") for s in ((2, 1, 8, 64), (1, 4, 16, 64), (1, 4, 16, 64)))]
    numpy.testing.assert_array_equal(jax.jit(lambda *a: call(k, *a))(*args), k(*args))


def test_several_devices(on_four_devices):
    text = """
import jax, numpy
from jax.sharding import Mesh, PartitionSpec as P
from kernels import pair, scale, scaled
import pkc.jax
shard_map = getattr(jax, "shard_map", None)
mesh = Mesh(numpy.array(jax.devices()), ("d",))
x, y = pair(64, 30)
f = shard_map(lambda x, y: pkc.jax.call(scale(), x, y, threads=2), mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"), check_vma=False)
for _ in range(10):
    assert (numpy.asarray(jax.jit(f)(x, y)) == scaled(x, y)).all()
small = jax.numpy.asarray(x), jax.numpy.asarray(y)
for at in (0, 2, 0):  # not in a program: where JAX's own results would be
    with jax.default_device(jax.devices()[at]):
        for _ in range(2):
            assert scale()(*small).devices() == {jax.devices()[at]}
print(len(jax.devices()))
"""
    on_four_devices(text)


def test_errors():
    x, y = pair()
    with pytest.raises(ValueError, match=r"operand y: axis 0: expected 7 \(N, axis 1 of x\), found 6"):
        jax.jit(lambda x, y: call(scale(), x, y))(x, y[:6])
    with pytest.raises(TypeError, match="operand x: expected f32, found i32"):
        jax.jit(lambda x, y: call(scale(), x, y))(x.astype("i4"), y)
    with pytest.raises(TypeError, match="expected 2 arrays, found 1"):
        call(scale(), x)
    with pytest.raises(ValueError, match="threads"):
        call(scale(), x, y, threads=0)
    low = made('kernel low(x: i32[1]) -> (o: i32[1]) { block x: smem; assert(x[0] < 3, "x is below 3"); o[...] = 0; }')
    with pytest.raises(Exception, match="x is below 3"):
        jax.jit(lambda x: call(low, x))(numpy.array([5], "i4")).block_until_ready()
    even = made('kernel even(x: f32[N]) -> (o: f32[N]) { require N % 2 == 0 : "N is even"; o[...] = x[...]; }')
    with pytest.raises(ValueError, match="N is even"):
        jax.jit(lambda x: call(even, x))(y)


def test_sizes():
    numpy.testing.assert_array_equal(jax.jit(lambda: call(made(COUNT), N=6))(), numpy.arange(6))
    with pytest.raises(ValueError, match="no operand says what N is: pass it as a size, N="):
        call(made(COUNT))


def test_solved_sizes():
    x = numpy.arange(8, dtype="f4")
    for sizes in ({}, {"M": 4}):
        numpy.testing.assert_array_equal(jax.jit(lambda x: call(made(HALVES), x, **sizes))(x), x.reshape(4, 2))
    with pytest.raises(ValueError, match="M=3, but the other sizes make it 4"):
        jax.jit(lambda x: call(made(HALVES), x, M=3))(x)
    with pytest.raises(ValueError, match=r"N == 2 \* M"):
        call(made(HALVES), x[:7])


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_packed_dtypes(dtype):
    if not hasattr(jnp, dtype):
        pytest.skip("this JAX has no " + dtype)
    low = -2 ** (int(dtype[-1]) - 1) if dtype[0] == "i" else 0
    wide = jnp.asarray(numpy.arange(35).reshape(5, 7) % 2 ** int(dtype[-1]) + low)
    x = wide.astype(dtype)
    o = jax.jit(lambda x: call(made(COPY), x.T))(x)
    assert o.dtype == x.dtype
    numpy.testing.assert_array_equal(o.astype("int32"), x.T.astype("int32"))
    batch = jax.jit(jax.vmap(lambda x: call(made(COPY), x)))(jnp.stack([wide, wide[::-1]]).astype(dtype))
    numpy.testing.assert_array_equal(batch[1].astype("int32"), wide[::-1])


def test_packed_floats():
    if not hasattr(jnp, "float4_e2m1fn"):
        pytest.skip("this JAX has no float4_e2m1fn")
    x = jnp.asarray(numpy.linspace(-7, 7, 35).reshape(5, 7), jnp.float4_e2m1fn)
    o = jax.jit(lambda x: call(made(COPY), x.T))(x)
    assert o.dtype == x.dtype
    numpy.testing.assert_array_equal(o.astype("float32"), x.T.astype("float32"))


def test_batches():
    """One custom call, whatever is batched, and no loop of XLA's."""
    rng = numpy.random.default_rng(0)
    x, y = rng.standard_normal((3, 4, 9, 5), "f4"), rng.standard_normal((4, 5), "f4")
    want = numpy.stack([[scaled(x[i, j], y[j]) for j in range(4)] for i in range(3)])
    f = jax.jit(jax.vmap(jax.vmap(lambda x, y: call(scale(), x, y)), (0, None)))
    numpy.testing.assert_array_equal(f(x, y), want)
    assert "while" not in f.lower(x, y).as_text()
    inner = jax.vmap(jax.vmap(lambda x, y: call(scale(), x, y, threads=2), (2, None), 1), (None, 0))
    numpy.testing.assert_array_equal(inner(x[0].transpose(1, 2, 0), y),
                                     numpy.stack([[scaled(x[0, j], y[i]) for j in range(4)] for i in range(4)]).transpose(0, 2, 1, 3))
    assert jax.vmap(lambda x: call(scale(), x, y[0]))(x[0, :0]).shape == (0, 9, 5)
    z = jnp.arange(12, dtype="float32").reshape(3, 4)
    numpy.testing.assert_array_equal(jax.jit(jax.vmap(lambda z: call(made(IN_PLACE), z)))(z), 2 * z)
    a, b = jax.vmap(lambda x, n: call(made(TWO), x, n))(x[0], numpy.full((4, 9), 10, "i4"))
    numpy.testing.assert_array_equal(a, 2 * x[0])
    numpy.testing.assert_array_equal(b, numpy.tile(numpy.arange(10) + 10, (4, 1)))
    low = made('kernel low(x: i32[1]) -> (o: i32[1]) { block x: smem; assert(x[0] < 3, "x is below 3"); o[...] = 0; }')
    with pytest.raises(Exception, match="x is below 3"):
        jax.block_until_ready(jax.vmap(lambda x: call(low, x))(numpy.array([[1], [5]], "i4")))


EXPORT = """
import sys, jax, numpy, pkc.jax
from jax import export
from kernels import pair, scale, scaled
x, y = pair()
if sys.argv[1] == "write":
    f = jax.jit(lambda x, y: pkc.jax.call(scale(), x, y) + 1)
    try:
        export.export(f)(x, y)
    except ValueError as error:
        assert "pkc_call" in str(error), error
    else:
        raise AssertionError("no refusal")
    made = export.export(f, disabled_checks=[export.DisabledSafetyCheck.custom_call("pkc_call")])(x, y)
    open(sys.argv[2], "wb").write(made.serialize())
else:
    f = export.deserialize(open(sys.argv[2], "rb").read()).call
    pkc.jax.call(scale(), numpy.ones((2, 2), "f4"), numpy.ones(2, "f4")) if sys.argv[1] == "ready" else None
    if sys.argv[1] == "unready":
        pkc.jax._add()
        try:
            jax.block_until_ready(f(x, y))
        except Exception as error:
            assert "pkc.jax.prepare" in str(error), error
        else:
            raise AssertionError("no refusal")
        pkc.jax.prepare(scale(), x, y)
    assert (numpy.asarray(f(x, y)) == scaled(x, y) + 1).all()
"""


def test_export(tmp_path):
    pytest.importorskip("flatbuffers", reason="flatbuffers is not installed")
    import os
    for word in ("write", "ready", "unready"):
        done = subprocess.run([sys.executable, "-c", EXPORT, word, str(tmp_path / "f")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, cwd=os.path.dirname(__file__))
        assert done.returncode == 0, done.stderr


def test_a_kernel_of_another_process():
    call(scale(), *pair())
    with pytest.raises(Exception, match="another process"):
        jax.block_until_ready(jax.ffi.ffi_call("pkc_call", jax.ShapeDtypeStruct((5, 7), "float32"))(
            *pair(), kernel=numpy.int64(12345678), threads=numpy.int64(1)))


def test_ranks_of_another_kernel():
    x, y = pair()
    call(scale(), x, y)
    number = pkc.jax.loaded(scale()._plan([pkc.jax._described(v) for v in (x, y)], {})[0])
    with pytest.raises(Exception, match="ranks"):
        jax.block_until_ready(jax.ffi.ffi_call("pkc_call", jax.ShapeDtypeStruct((5, 7), "float32"))(
            x, y[None, None], kernel=number, threads=numpy.int64(1)))
