"""Dtypes and their arithmetic on NumPy arrays: floats are held as float64, integers as int64, each value as its dtype has it."""
from collections import namedtuple

import numpy as np

# name: (kind, bits, significant bits, least exponent of a subnormal, largest, numpy storage)
Info = namedtuple("Info", "kind bits digits least largest storage")
DTYPES = {
    "f64": Info("f", 64, 53, -1074, 1.7976931348623157e308, "<f8"),
    "f32": Info("f", 32, 24, -149, 3.4028234663852886e38, "<f4"),
    "bf16": Info("f", 16, 8, -133, 3.3895313892515355e38, "<u2"),
    "f16": Info("f", 16, 11, -24, 65504.0, "<f2"),
    "f8e4m3fn": Info("f", 8, 4, -9, 448.0, "u1"),
    "f8e5m2": Info("f", 8, 3, -16, 57344.0, "u1"),
    "i32": Info("i", 32, 0, 0, 0, "<i4"),
    "u32": Info("u", 32, 0, 0, 0, "<u4"),
    "i16": Info("i", 16, 0, 0, 0, "<i2"),
    "u16": Info("u", 16, 0, 0, 0, "<u2"),
    "i8": Info("i", 8, 0, 0, 0, "i1"),
    "u8": Info("u", 8, 0, 0, 0, "u1"),
    "i4": Info("i", 4, 0, 0, 0, "u1"),
    "u4": Info("u", 4, 0, 0, 0, "u1"),
    "bool": Info("b", 8, 0, 0, 0, "u1"),
    "i64": Info("i", 64, 0, 0, 0, "<i8"),
}
FLOATS = [n for n, i in DTYPES.items() if i.kind == "f"]
INTS = [n for n, i in DTYPES.items() if i.kind in "iu" and n != "i64"]
NUMBERS = FLOATS + INTS
ALL = NUMBERS + ["bool"]

Type = namedtuple("Type", "dtype shape")
INDEX = Type("i64", ())


def is_float(dtype):
    return DTYPES[dtype].kind == "f"


def is_int(dtype):
    return DTYPES[dtype].kind in "iu"


def accumulator(dtype):
    """The dtype of the sums of products."""
    return "i32" if not is_float(dtype) else "f64" if dtype == "f64" else "f32"


def int_range(dtype):
    """Least and greatest number."""
    info = DTYPES[dtype]
    return (-(1 << info.bits - 1), (1 << info.bits - 1) - 1) if info.kind == "i" else (0, (1 << info.bits) - 1)


def wrap(dtype, a):
    """Integers modulo 2^bits."""
    info = DTYPES[dtype]
    mask = (1 << info.bits) - 1
    a = np.asarray(a, np.int64) & mask
    if info.kind == "i":
        a = np.where(a >> info.bits - 1 & 1, a - (mask + 1), a)
    return a


def round_float(dtype, a):
    """Rounds float64 to nearest even; what is too large becomes an infinity, in f8e4m3fn a NaN."""
    info = DTYPES[dtype]
    a = np.asarray(a, np.float64)
    if dtype == "f64":
        return a
    with np.errstate(all="ignore"):
        if dtype == "f32":
            return a.astype(np.float32).astype(np.float64)
        if dtype == "f16":
            return a.astype(np.float16).astype(np.float64)
        _, exponent = np.frexp(a)
        unit = np.maximum(exponent - info.digits, info.least)
        out = np.ldexp(np.rint(np.ldexp(a, -unit)), unit)
        out = np.where(np.isfinite(a), out, a)
        over = np.abs(out) > info.largest
        if dtype == "f8e4m3fn":
            return np.where(over, np.nan, out)
        return np.where(over, np.copysign(np.inf, out), out)


def spacing(dtype, a):
    """An upper bound of the distance of neighbours around a."""
    info = DTYPES[dtype]
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(a), np.abs(a), 0)
        return np.ldexp(1.0, np.maximum(np.frexp(size)[1] - info.digits + 1, info.least))


def convert(dtype, a, source):
    """`cast`."""
    kind, old = DTYPES[dtype].kind, DTYPES[source].kind
    if kind == "b":
        return a != 0
    if kind == "f":
        return round_float(dtype, a)
    if old != "f":
        return wrap(dtype, a)
    low, high = int_range(dtype)
    with np.errstate(all="ignore"):
        return np.where(np.isnan(a), 0, np.clip(np.trunc(a), low, high)).astype(np.int64)


def _decode_small(code, exponent_bits, digits):
    """The value of a float with `digits` significant bits of which one is implied."""
    fraction_bits = digits - 1
    sign = np.where(code >> (exponent_bits + fraction_bits) & 1, -1.0, 1.0)
    exponent = code >> fraction_bits & (1 << exponent_bits) - 1
    fraction = code & (1 << fraction_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
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
    if dtype == "f8e4m3fn":
        code = raw.astype(np.int64)
        value, exponent, fraction = _decode_small(code, 4, 4)
        return np.where((exponent == 15) & (fraction == 7), np.nan, value)
    if info.kind == "f":
        return raw.astype(np.float64)
    if info.kind == "b":
        return raw != 0
    return wrap(dtype, raw.astype(np.int64))


_TABLES = {}


def bits_of(dtype, a):
    """The bits of each element, int64 and not negative."""
    info = DTYPES[dtype]
    a = np.asarray(a)
    if info.kind == "b":
        return a.astype(np.int64)
    if info.kind != "f":
        return a.astype(np.int64) & (1 << info.bits) - 1
    with np.errstate(all="ignore"):
        if dtype == "f32":
            return a.astype(np.float32).view(np.uint32).astype(np.int64)
        if dtype == "bf16":
            return (a.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.int64)
        if dtype in ("f16", "f8e5m2"):
            half = a.astype(np.float16).view(np.uint16).astype(np.int64)
            return half if dtype == "f16" else half >> 8
    if dtype not in _TABLES:
        codes = np.arange(127)
        _TABLES[dtype] = decode(dtype, codes)
    place = np.searchsorted(_TABLES[dtype], np.where(np.isnan(a), 0, np.abs(a)))
    return np.where(np.isnan(a), 127, place) | np.where(np.signbit(a), 128, 0)


def from_bits(dtype, bits):
    info = DTYPES[dtype]
    bits = np.asarray(bits, np.int64)
    if info.kind in "iu":
        return wrap(dtype, bits)
    storage = {"f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}.get(dtype, np.uint8)
    raw = np.ascontiguousarray(bits.astype(storage))
    return decode(dtype, raw.view(np.dtype(info.storage)))


def encode(dtype, a):
    """Bytes as a kernel wants them."""
    if dtype == "f64":
        return np.asarray(a, np.float64)
    return bits_of(dtype, a).astype({8: np.uint8, 4: np.uint8, 16: np.uint16, 32: np.uint32}[DTYPES[dtype].bits])
