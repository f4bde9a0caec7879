"""Dtypes and their arithmetic on NumPy arrays, each value as its dtype has it: floats are held as float64, integers as int64, u64 as uint64."""
from collections import namedtuple

import numpy as np

np.seterr(all="ignore")  # also of infinities and NaN

# name: (kind, bits, significant bits, least exponent of a subnormal, largest, numpy storage)
Info = namedtuple("Info", "kind bits digits least largest storage")
DTYPES = {
    "f64": Info("f", 64, 53, -1074, 1.7976931348623157e308, "<f8"),
    "f32": Info("f", 32, 24, -149, 3.4028234663852886e38, "<f4"),
    "bf16": Info("f", 16, 8, -133, 3.3895313892515355e38, "<u2"),
    "f16": Info("f", 16, 11, -24, 65504.0, "<f2"),
    "f8e4m3fn": Info("f", 8, 4, -9, 448.0, "u1"),
    "f8e5m2": Info("f", 8, 3, -16, 57344.0, "u1"),
    "f8e4m3fnuz": Info("f", 8, 4, -10, 240.0, "u1"),
    "f8e4m3b11fnuz": Info("f", 8, 4, -13, 30.0, "u1"),
    "f8e5m2fnuz": Info("f", 8, 3, -17, 57344.0, "u1"),
    "f8e8m0fnu": Info("f", 8, 1, -127, 2.0 ** 127, "u1"),
    "i32": Info("i", 32, 0, 0, 0, "<i4"),
    "u32": Info("u", 32, 0, 0, 0, "<u4"),
    "i16": Info("i", 16, 0, 0, 0, "<i2"),
    "u16": Info("u", 16, 0, 0, 0, "<u2"),
    "i8": Info("i", 8, 0, 0, 0, "i1"),
    "u8": Info("u", 8, 0, 0, 0, "u1"),
    "i4": Info("i", 4, 0, 0, 0, "u1"),
    "u4": Info("u", 4, 0, 0, 0, "u1"),
    "i2": Info("i", 2, 0, 0, 0, "u1"),
    "u2": Info("u", 2, 0, 0, 0, "u1"),
    "i64": Info("i", 64, 0, 0, 0, "<i8"),
    "u64": Info("u", 64, 0, 0, 0, "<u8"),
    "bool": Info("b", 8, 0, 0, 0, "u1"),
}
FNUZ = [n for n in DTYPES if n.endswith("fnuz")]  # no infinity, no -0
NO_INFINITY = ["f8e4m3fn"] + FNUZ
SCALE = "f8e8m0fnu"  # powers of two and NaN, without arithmetic
FLOATS = [n for n, i in DTYPES.items() if i.kind == "f" and n != SCALE]
INTS = [n for n, i in DTYPES.items() if i.kind in "iu"]
NUMBERS = FLOATS + INTS
ALL = NUMBERS + ["bool"]

Type = namedtuple("Type", "dtype shape")
INDEX = Type("i64", ())  # a scalar of i64 is an index


def is_float(dtype):
    return DTYPES[dtype].kind == "f"


def is_int(dtype):
    return DTYPES[dtype].kind in "iu"


def accumulator(dtype):
    """The dtype of the sums of products."""
    return dtype if DTYPES[dtype].bits == 64 else "f32" if is_float(dtype) else "i32"


def int_range(dtype):
    """Least and greatest number."""
    info = DTYPES[dtype]
    return (-(1 << info.bits - 1), (1 << info.bits - 1) - 1) if info.kind == "i" else (0, (1 << info.bits) - 1)


def holder(dtype):
    """NumPy's dtype of the arrays that hold values of it."""
    return np.float64 if is_float(dtype) else np.bool_ if dtype == "bool" else np.uint64 if dtype == "u64" else np.int64


WRAPS = {n: (np.int64((1 << i.bits) - 1), np.int64(1 << i.bits - 1) if i.kind == "i" else None)
         for n, i in DTYPES.items() if i.kind != "f" and i.bits < 64}


def wrap(dtype, a):
    """Integers modulo 2^bits."""
    if dtype not in WRAPS:
        return np.asarray(a).astype(holder(dtype), copy=False)
    mask, half = WRAPS[dtype]
    a = np.asarray(a).astype(np.int64, copy=False) & mask
    return a if half is None else (a ^ half) - half


def round_scale(a):
    """Rounds to the nearest power of two, and the midpoint to the greater one."""
    part, exponent = np.frexp(a)
    out = np.ldexp(1.0, np.maximum(np.where(part < 0.75, exponent - 1, exponent), -127))
    return np.where((a > 0) & (a < 1.5 * 2.0 ** 127), out, np.nan)


def round_float(dtype, a):
    """Rounds float64 to nearest even; overflow gives an infinity, in f8e4m3fn a NaN."""
    info = DTYPES[dtype]
    a = np.asarray(a, np.float64)
    if dtype == "f64":
        return a
    if dtype == SCALE:
        return round_scale(a)
    if dtype == "f32":
        return a.astype(np.float32).astype(np.float64)
    if dtype == "f16":
        return a.astype(np.float16).astype(np.float64)
    _, exponent = np.frexp(a)
    unit = np.maximum(exponent - info.digits, info.least)
    out = np.ldexp(np.rint(np.ldexp(a, -unit)), unit)
    out = np.where(np.isfinite(a), out, a)
    over = np.abs(out) > info.largest
    if dtype in NO_INFINITY:
        out = np.where(over | np.isinf(a), np.nan, out)
        return out + 0.0 if dtype in FNUZ else out
    return np.where(over, np.copysign(np.inf, out), out)


def spacing(dtype, a):
    """An upper bound of the spacing of numbers around a."""
    info = DTYPES[dtype]
    size = np.where(np.isfinite(a), np.abs(a), 0)
    return np.ldexp(1.0, np.maximum(np.frexp(size)[1] - info.digits + 1, info.least))


def convert(dtype, a, source):
    """`cast`."""
    kind, old = DTYPES[dtype].kind, DTYPES[source].kind
    if kind == "b":
        return a != 0
    if kind == "f":
        return np.asarray(a).astype(np.float32).astype(np.float64) if dtype == "f32" else round_float(dtype, a)
    if old != "f":
        return wrap(dtype, a)
    low, high = int_range(dtype)
    whole = np.where(np.isnan(a), 0, np.trunc(a))
    inside = (whole >= low) & (whole < float(high + 1))
    return np.where(inside, np.where(inside, whole, 0).astype(holder(dtype)), np.where(whole < 0, *np.array([low, high], holder(dtype))))


def _decode_small(code, exponent_bits, digits, bias=None):
    """The value of a float with `digits` significant bits, one of which is implicit."""
    fraction_bits = digits - 1
    sign = np.where(code >> (exponent_bits + fraction_bits) & 1, -1.0, 1.0)
    exponent = code >> fraction_bits & (1 << exponent_bits) - 1
    fraction = code & (1 << fraction_bits) - 1
    bias = (1 << exponent_bits - 1) - 1 if bias is None else bias
    normal = np.ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
    subnormal = np.ldexp(fraction.astype(np.float64), 1 - bias - fraction_bits)
    return sign * np.where(exponent == 0, subnormal, normal), exponent, fraction


def decode(dtype, raw):
    """Elements as stored to float64, int64 or bool."""
    info = DTYPES[dtype]
    if dtype == "bf16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if dtype == "f8e5m2":
        return (raw.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float64)
    if dtype == SCALE:
        code = raw.astype(np.int64)
        return np.where(code == 255, np.nan, np.ldexp(1.0, code - 127))
    if dtype == "f8e4m3fn":
        code = raw.astype(np.int64)
        value, exponent, fraction = _decode_small(code, 4, 4)
        return np.where((exponent == 15) & (fraction == 7), np.copysign(np.nan, value), value)
    if dtype in FNUZ:
        code = raw.astype(np.int64)
        value = _decode_small(code, 8 - info.digits, info.digits, 2 - info.digits - info.least)[0]
        return np.where(code == 128, np.nan, value)
    if info.kind == "f":
        return raw.astype(np.float64)
    if info.kind == "b":
        return raw != 0
    return wrap(dtype, raw)


def spread(a, shape):
    """np.broadcast_to with a fast path for equal shapes."""
    return a if np.shape(a) == shape else np.broadcast_to(a, shape)


ANY_NAN = np.array(0x7ff8000000000001, np.uint64).view(np.float64)[()]  # its bits are not promised; no narrower dtype has this payload


def kept_nans(d):
    """The NaNs whose bits the language defines."""
    return np.isnan(d) & (np.ascontiguousarray(d).view(np.uint64).reshape(d.shape) != 0x7ff8000000000001)


_TABLES = {}


def bits_of(dtype, a):
    """The bits of each element as non-negative numbers: int64, or uint64 for 64 bits."""
    info = DTYPES[dtype]
    a = np.asarray(a)
    if info.bits == 64:
        return np.ascontiguousarray(a, holder(dtype)).view(np.uint64).reshape(a.shape)
    if info.kind == "b":
        return a.astype(np.int64)
    if info.kind != "f":
        return a.astype(np.int64) & (1 << info.bits) - 1
    if dtype == "f32":
        return a.astype(np.float32).view(np.uint32).astype(np.int64)
    if dtype == "bf16":
        return (a.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.int64)
    if dtype in ("f16", "f8e5m2"):
        half = a.astype(np.float16).view(np.uint16).astype(np.int64)
        return half if dtype == "f16" else half >> 8
    if dtype == SCALE:
        return np.where(np.isnan(a), 255, np.frexp(np.where(np.isnan(a), 1, a))[1] + 126).astype(np.int64)
    if dtype not in _TABLES:
        codes = np.arange(128 if dtype in FNUZ else 127)
        _TABLES[dtype] = decode(dtype, codes)
    place = np.searchsorted(_TABLES[dtype], np.where(np.isnan(a), 0, np.abs(a)))
    if dtype in FNUZ:
        return np.where(np.isnan(a), 128, place | np.where(a < 0, 128, 0))
    return np.where(np.isnan(a), 127, place) | np.where(np.signbit(a), 128, 0)


def from_bits(dtype, bits):
    info = DTYPES[dtype]
    bits = np.asarray(bits)
    if dtype == "f64":
        return np.ascontiguousarray(bits.astype(np.uint64)).view(np.float64).reshape(bits.shape)
    if info.kind in "iu":
        return wrap(dtype, bits)
    storage = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}.get(dtype, np.uint8)
    raw = np.ascontiguousarray(bits.astype(storage))
    return decode(dtype, raw.view(np.dtype(info.storage)))


def pack(dtype, raw):
    """The bytes that elements share, with the first element in the lowest bits."""
    bits = np.unpackbits(np.asarray(raw, np.uint8).reshape(-1, 1), axis=1, bitorder="little")
    return np.packbits(bits[:, :DTYPES[dtype].bits].reshape(-1), bitorder="little")


def unpack(dtype, raw, count):
    """The first `count` elements, a byte each, and the bits after them."""
    width = DTYPES[dtype].bits
    bits = np.unpackbits(np.asarray(raw, np.uint8), bitorder="little")
    return np.packbits(bits[:count * width].reshape(count, width), axis=1, bitorder="little").reshape(count), bits[count * width:]


def encode(dtype, a):
    """Bytes as a kernel takes them."""
    return bits_of(dtype, a).astype({16: np.uint16, 32: np.uint32, 64: np.uint64}.get(DTYPES[dtype].bits, np.uint8))
