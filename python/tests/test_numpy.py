"""Calls with arrays of NumPy: values, layouts, dtypes, statics."""
import pathlib

import ml_dtypes
import numpy
import pytest
from kernels import COPY, COUNT, HALVES, IN_PLACE, PROGRAM, TWO, made, pair, scale, scaled

import pkc

LIBRARY = pathlib.Path(pkc.__file__).parent / "share" / "pkc" / "kernels"
NARROW = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4] + [
    getattr(ml_dtypes, name) for name in "float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu int2 uint2 float4_e2m1fn".split() if hasattr(ml_dtypes, name)]
WIDE = ["float32", "float16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (0, 7), (5, 0), (0, 0), (129, 257)])
def test_result(shape):
    x, y = pair(*shape)
    o = scale()(x, y)
    assert type(o) is numpy.ndarray and o.dtype == numpy.float32 and o.shape == shape
    numpy.testing.assert_array_equal(o, scaled(x, y))


LAYOUTS = {
    "transposed": lambda x: numpy.asfortranarray(x), "reversed": lambda x: x[::-1, ::-1][::-1, ::-1][::-1][::-1],
    "negative rows": lambda x: x[::-1].copy()[::-1], "negative columns": lambda x: x[:, ::-1].copy()[:, ::-1],
    "every third": lambda x: numpy.repeat(numpy.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "slice": lambda x: numpy.pad(x, 3)[3:-3, 3:-3], "broadcast": lambda x: x,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_input_layouts(layout):
    x, y = pair(9, 13)
    view = LAYOUTS[layout](x)
    numpy.testing.assert_array_equal(view, x)
    numpy.testing.assert_array_equal(scale()(view, y), scaled(x, y))
    numpy.testing.assert_array_equal(scale()(x, numpy.broadcast_to(y[:1], 13)), scaled(x, y[0]))


@pytest.mark.parametrize("layout", [lambda: numpy.empty((13, 9), "f4").T, lambda: numpy.zeros((18, 39), "f4")[::2, ::3],
                                    lambda: numpy.empty((9, 13), "f4")[::-1, ::-1]])
def test_output_layouts(layout):
    x, y = pair(9, 13)
    out = layout()
    assert scale()(x, y, out=out) is out
    numpy.testing.assert_array_equal(out, scaled(x, y))
    if out.base is not None and out.base.size > out.size:
        assert numpy.count_nonzero(out.base) == numpy.count_nonzero(out)


def test_no_copy_of_what_has_rows():
    x, y = pair(64, 64)
    out = numpy.zeros((64, 128), "f4")[:, 32:96]
    scale()(x, y, out=out)
    numpy.testing.assert_array_equal(out, scaled(x, y))


def test_unaligned_input_is_copied_and_output_refused():
    x, y = pair()
    memory = bytearray(1) + x.tobytes()
    odd = numpy.frombuffer(memory, "f4", offset=1).reshape(x.shape)
    if odd.flags.aligned:
        pytest.skip("the machine has no unaligned memory")
    numpy.testing.assert_array_equal(scale()(odd, y), scaled(x, y))
    with pytest.raises(ValueError, match="not aligned"):
        scale()(x, y, out=odd)
    field = numpy.zeros((5, 7), "f4,i1")["f0"]
    field[...] = x
    numpy.testing.assert_array_equal(scale()(field, y), scaled(x, y))


def test_read_only_input():
    x, y = pair()
    x.flags.writeable = False
    numpy.testing.assert_array_equal(scale()(x, numpy.frombuffer(y.tobytes(), "f4")), scaled(x, y))


@pytest.mark.parametrize("dtype", [*WIDE, *NARROW], ids=str)
def test_dtypes(dtype):
    dtype = numpy.dtype(dtype)
    x = (numpy.arange(11 * 3).reshape(11, 3) % 7 + (dtype.name == "float8_e8m0fnu")).astype(numpy.float32).astype(dtype)
    o = made(COPY)(x)
    assert o.dtype == dtype
    numpy.testing.assert_array_equal(o, x)
    numpy.testing.assert_array_equal(made(COPY)(x.T), x.T)
    into = numpy.zeros((3, 11), dtype).T
    made(COPY)(x, out=into)
    numpy.testing.assert_array_equal(into, x)


def test_dtypes_that_follow():
    """`a` has the dtype of sums of x's: a call takes it as the variant for x has it."""
    add = pkc.kernel("kernel add(x: T[N], a: accum(T)[1]) -> (o: T[N], s: accum(T)[1]) { static T: dtype = f32; o[...] = x[...]; s[...] = 2.0 * a[...]; }")
    for dtype, wide in (("float64", "float64"), ("float32", "float32"), (ml_dtypes.bfloat16, "float32"), ("float64", "float64")):
        x, a = numpy.arange(5).astype(dtype), numpy.ones(1, wide)
        o, s = add(x, a)
        assert o.dtype == dtype and s.dtype == wide and s[0] == 2
        add(x, a, out=(None, numpy.zeros(1, wide)))
        other = {"float32": "float64", "float64": "float32"}[wide]
        with pytest.raises(TypeError, match="operand a: expected f.., found f.."):
            add(x, a.astype(other))
        with pytest.raises(TypeError, match="operand s: expected f.., found f.."):
            add(x, a, out=(None, numpy.zeros(1, other)))


def test_solved_sizes():
    x = numpy.arange(8, dtype="f4")
    for sizes in ({}, {"M": 4}):
        numpy.testing.assert_array_equal(made(HALVES)(x, **sizes), x.reshape(4, 2))
    with pytest.raises(ValueError, match="M=3, but the other sizes make it 4"):
        made(HALVES)(x, M=3)
    with pytest.raises(ValueError, match=r"N == 2 \* M"):
        made(HALVES)(x[:7])
    with pytest.raises(ValueError, match=r"operand o: axis 0: expected 4 \(M\), found 3"):
        made(HALVES)(x, out=numpy.zeros((3, 2), "f4"))


def test_keywords():
    x, y = pair()
    want = scaled(x, y)
    numpy.testing.assert_array_equal(scale()(y=y, x=x), want)
    numpy.testing.assert_array_equal(scale()(x, y=y, threads=2), want)
    numpy.testing.assert_array_equal(scale()(x, y, out=None, M=5, threads=None), want)


def test_statics_from_arrays():
    x, n = pair(3, 6)[0], numpy.full(3, 10, "i4")
    k = made(TWO)
    a, b = k(x, n)
    numpy.testing.assert_array_equal(a, x + x)
    numpy.testing.assert_array_equal(b, [10, 11, 12, 13])
    assert b.dtype == numpy.int32
    a, b = k(x.astype(ml_dtypes.bfloat16), n, out=(None, numpy.empty(4, "f4")))
    assert a.dtype == ml_dtypes.bfloat16 and b.dtype == numpy.float32
    numpy.testing.assert_array_equal(b, [10, 11, 12, 13])
    assert k(x, n)[1].dtype == numpy.int32


def test_fixed_statics():
    k = pkc.kernel(TWO, D=6, T=numpy.float32, O="f32")
    a, b = k(pair(3, 6)[0], numpy.zeros(3, "i4"))
    assert b.dtype == numpy.float32
    with pytest.raises(ValueError, match=r"operand x: axis 1: expected 6, found 5"):
        k(pair(3, 5)[0], numpy.zeros(3, "i4"))
    with pytest.raises(TypeError, match="operand x: expected f32, found f16"):
        k(pair(3, 6)[0].astype("f2"), numpy.zeros(3, "i4"))
    assert pkc.kernel(TWO, D=numpy.int64(6)).signature["statics"][1]["value"] == "6"
    with pytest.raises(TypeError, match="static D"):
        pkc.kernel(TWO, D=object())
    for text in ("6", "2*3", "(6)", "cdiv(11, 2)"):
        assert pkc.kernel(TWO, D=text).signature["statics"][1]["value"] == "6"
    for text in ("2 * B0", "(", "6, 7", "8 9", "a b", "(2,)f4", "\u00e9"):
        with pytest.raises(pkc.CompileError, match="-D D=.*expected a constant expression"):
            pkc.kernel(TWO, D=text)


def test_alias_works_on_a_copy_unless_it_is_the_output():
    k, x = made(IN_PLACE), numpy.arange(20, dtype="f4")
    o = k(x)
    numpy.testing.assert_array_equal(x, numpy.arange(20))
    numpy.testing.assert_array_equal(o, 2 * numpy.arange(20))
    numpy.testing.assert_array_equal(k(x[::-2]), 2 * x[::-2])
    assert k(x, out=x) is x
    numpy.testing.assert_array_equal(x, 2 * numpy.arange(20))
    with pytest.raises(ValueError, match="expected the memory and strides of x"):
        k(x, out=numpy.zeros(20, "f4"))


def test_sizes_of_outputs_alone():
    numpy.testing.assert_array_equal(made(COUNT)(N=5), numpy.arange(5))
    out = numpy.zeros(7, "i4")
    made(COUNT)(out=out)
    numpy.testing.assert_array_equal(out, numpy.arange(7))
    with pytest.raises(ValueError, match="N"):
        made(COUNT)()
    with pytest.raises(ValueError, match="expected a size from 0"):
        made(COUNT)(N=1 << 31)


def test_rank_0():
    k = made("kernel add0(x: f32[], y: f32[]) -> (o: f32[]) { o[...] = x[...] + y[...]; }")
    o = k(numpy.array(2, "f4"), numpy.float32(3))
    assert o.shape == () and o == 5


def test_numbers_for_operands_of_rank_0():
    k = made("kernel add1(x: f32[N], a: f32, n: i8) -> (o: f32[N]) { o[...] = x[...] + a + cast(n, f32); }")
    x = pair()[1]
    numpy.testing.assert_array_equal(k(x, 2.5, -3), x + numpy.float32(2.5) + numpy.float32(-3))
    numpy.testing.assert_array_equal(k(x, 2, numpy.int8(4)), x + numpy.float32(2) + numpy.float32(4))
    for n in (128, -129, 1.5, float("nan"), float("inf"), 1 << 70):
        with pytest.raises(ValueError, match="does not fit an operand of i8"):
            k(x, 2, n)
    with pytest.raises(TypeError, match="operand x: expected an array, found float"):
        k(1.0, 2, 3)


def test_program():
    k = made(PROGRAM)
    x = numpy.round(8 * pair()[0])
    assert k.__name__ == "five" and "Five times x." in k.__doc__
    numpy.testing.assert_array_equal(k(x), 5 * x)
    numpy.testing.assert_array_equal(k(x.T, out=numpy.empty((5, 7), "f4").T), 5 * x.T)
    numpy.testing.assert_array_equal(pkc.kernel(PROGRAM, "twice")(x), 2 * x)
    with pytest.raises(ValueError, match="five: operand o: axis 0"):
        k(x, out=numpy.empty((4, 7), "f4"))
    assert k.check(M=3, N=4).ok


def test_prefetched():
    rng = numpy.random.default_rng(1)
    k = pkc.load(LIBRARY / "paged_attention.pk")
    q, keys, values = (rng.standard_normal(s, "f4") for s in ((2, 1, 8, 64), (1, 4, 16, 64), (1, 4, 16, 64)))
    table, length = numpy.array([[3, 1], [0, 2]], "i4"), numpy.array([20, 5], "i4")
    o = k(table, length, q, keys, values)
    for b in range(2):
        rows, wide = (p[0][table[b]].reshape(-1, 64)[:length[b]].astype("f8") for p in (keys, values))
        s = q[b, 0].astype("f8") @ rows.T / 8
        p = numpy.exp(s - s.max(1, keepdims=True))
        numpy.testing.assert_allclose(o[b, 0], (p / p.sum(1, keepdims=True)) @ wide, rtol=2e-5, atol=2e-6)


def test_library_of_kernels():
    rng = numpy.random.default_rng(0)
    a, b = rng.standard_normal((33, 44), "f4"), rng.standard_normal((44, 55), "f4")
    matmul = pkc.load(str(LIBRARY / "matmul.pk"))
    numpy.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)
    numpy.testing.assert_allclose(matmul(b.T, a.T, threads=2), b.T @ a.T, rtol=1e-5, atol=1e-5)
    i = rng.integers(-100, 100, (9, 20)).astype("i1")
    numpy.testing.assert_array_equal(matmul(i, i.T), i.astype("i4") @ i.T.astype("i4"))
    half = matmul(a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16))
    assert half.dtype == ml_dtypes.bfloat16
    numpy.testing.assert_allclose(half.astype("f4"), a @ b, rtol=0.05, atol=0.3)


PACKED = """kernel widened(w: T packed [K, N], s: f32[1, N]) -> (o: f32[K, N], c: T packed [K, N]) {
  static T = i4;
  grid (i in cdiv(K, 4) parallel);
  block w, o, c: [4, N] at (i, 0);
  o[...] = cast(w[...], f32) * s[...];
  c[...] = ~w[...];
}
"""


def packed_bytes(values, bits):
    """As a packed array has them: the first element of a byte in its lowest bits."""
    each = 8 // bits
    values = numpy.asarray(values).astype(int).reshape(len(values), -1, each) & (1 << bits) - 1
    return sum(values[:, :, k] << k * bits for k in range(each)).astype("u1")


@pytest.mark.parametrize("dtype, bits", [("int4", 4), ("uint4", 4), ("int2", 2), ("uint2", 2)])
def test_packed(dtype, bits):
    k = pkc.kernel(PACKED.replace("  static T = i4;\n", "").replace("T", dtype[0] + dtype[-1]))
    rng = numpy.random.default_rng(0)
    s = rng.standard_normal((1, 8)).astype("f4")
    w = rng.integers(0, 4, (5, 8)).astype(getattr(ml_dtypes, dtype))
    mask = (1 << bits) - 1
    for given in (w, packed_bytes(w, bits), w[::-1][::-1]):
        o, c = k(given, s)
        numpy.testing.assert_array_equal(o, w.astype("f4") * s)
        assert c.dtype == w.dtype
        numpy.testing.assert_array_equal(c.astype(int) & mask, ~w.astype(int) & mask)
    out = numpy.zeros((5, 8 * bits // 8), "u1")
    k(w, s, out=(None, out))
    numpy.testing.assert_array_equal(out, packed_bytes(~w.astype(int), bits))
    assert k.signature["operands"][0]["packed"] and not k.signature["operands"][1]["packed"]
    with pytest.raises(TypeError, match="operand w: expected %s, found i8" % k.signature["operands"][0]["dtype"]):
        k(w.astype("i1"), s)
    with pytest.raises(ValueError, match="side by side"):
        k(packed_bytes(w, bits)[:, ::-1], s)


def test_packed_floats():
    """MXFP4's elements: bytes of two, a byte for each, or torch's pairs."""
    fp4 = ml_dtypes.float4_e2m1fn
    k = pkc.kernel("kernel f(w: f4e2m1fn packed[M, N], s: f32[M, 1]) -> (o: f32[M, N], c: f4e2m1fn packed[M, N]) {"
                   "o[...] = cast(w[...], f32) * s[...]; c[...] = -w[...]; }")
    codes = numpy.random.default_rng(0).integers(0, 16, (5, 8)).astype("u1")
    s = numpy.exp2(numpy.arange(5) - 2.0).astype("f4")[:, None]
    pairs = codes[:, ::2] | codes[:, 1::2] << 4
    for w in (codes.view(fp4), pairs):
        o, c = k(w, s)
        numpy.testing.assert_array_equal(o, codes.view(fp4).astype("f4") * s)
        numpy.testing.assert_array_equal(c.view("u1"), codes ^ 8)
    torch = pytest.importorskip("torch", reason="torch is not installed")
    k = pkc.kernel("kernel f(w: f4e2m1fn packed[M, N], s: f32[M, 1]) -> (o: f32[M, N]) { o[...] = cast(w[...], f32) * s[...]; }")
    o = k(torch.from_numpy(pairs).view(torch.float4_e2m1fn_x2), torch.from_numpy(s))
    numpy.testing.assert_array_equal(o.numpy(), codes.view(fp4).astype("f4") * s)


def test_packed_static():
    """The dtype is taken from the array."""
    k = pkc.kernel(PACKED)
    w = numpy.arange(20).reshape(4, 5).astype(ml_dtypes.uint4)
    o, c = k(w, numpy.ones((1, 5), "f4"))
    numpy.testing.assert_array_equal(o, w.astype("f4"))
    assert c.dtype == w.dtype


def test_prints(capsys):
    kernel = pkc.kernel("kernel f(x: f32[N]) -> (o: f32[N]) { block x, o: [8]; grid (i in 1); print(\"{} and {}\", N, x[1]); o[...] = x[...]; }")
    for value, text in ((0.25, "0.25"), (4.2, "4.2"), (1 / 3, "0.33333334"), (-1e-30, "-1e-30"), (3e20, "3e+20"), (numpy.nan, "nan"), (-numpy.inf, "-inf"), (-0.0, "-0.0")):
        kernel(numpy.full(8, value, "f4"))
        printed = capsys.readouterr()
        assert printed.out == "8 and %s\n" % text and not printed.err
