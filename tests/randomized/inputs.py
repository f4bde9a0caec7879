"""The data of an INPUT of the command line (docs/cli.md)."""
import numpy as np

from .types import DTYPES, FNUZ, SCALE, convert, from_bits, holder, int_range, is_float

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x):
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def _draws(seed, operand, count):
    key = _mix(_mix(np.array([seed], np.uint64) + GOLDEN) + np.uint64(operand + 1) * GOLDEN)
    return _mix(key + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)


def _patterns(dtype, draw):
    """Numbers from 1 to 4 with quiet NaNs, infinities, zeros and subnormals, as far as the dtype has them."""
    info, kind = DTYPES[dtype], draw >> np.uint64(61)
    one = np.uint64(1)
    sign, fraction = (draw >> np.uint64(60) & one) << np.uint64(info.bits - 1), (1 << info.digits - 1) - 1
    number = convert(dtype, (draw % np.uint64(4) + one).astype(np.float64), "f32")
    if dtype in FNUZ or dtype == SCALE:
        return np.where(kind == 0, from_bits(dtype, np.full(draw.shape, 0xff if dtype == SCALE else 0x80)), number)
    if dtype == "f8e4m3fn":
        return np.where((kind == 0) | (kind == 2), from_bits(dtype, sign | np.where(kind == 0, np.uint64(0x7f), np.uint64(0))), number)
    exponent = np.uint64((1 << info.bits - 1) - 1 & ~fraction)
    payload = draw & np.uint64(fraction >> 1 & ~1)
    bits = np.select([kind == 0, kind == 1, kind == 2], [exponent | np.uint64(fraction ^ fraction >> 1) | payload, exponent, np.uint64(0)],
                     draw & np.uint64(fraction))
    return np.where(kind <= 3, from_bits(dtype, sign | bits), number)


def make(text, dtype, shape, operand):
    """The array of `text` for operand number `operand`: randint:LOW:HIGH:SEED, patterns:SEED of floats, iota, zeros, ones, const:V."""
    count = int(np.prod(shape, dtype=np.int64))
    kind, *rest = text.split(":")
    if kind == "patterns":
        return _patterns(dtype, _draws(int(rest[0]), operand, count)).reshape(shape)
    if kind == "iota":
        flat = np.arange(count) % 2 if dtype == "bool" else np.arange(count)
    elif kind == "randint":
        low, high, seed = map(int, rest)
        draw, span = _draws(seed, operand, count), np.uint64(high - low)
        upper = (draw >> np.uint64(32)) * span + ((draw & np.uint64(0xFFFFFFFF)) * span >> np.uint64(32))
        flat = (upper >> np.uint64(32)).astype(np.int64) + low
    else:
        flat = np.full(count, {"zeros": 0, "ones": 1}.get(kind) if kind != "const" else float(rest[0]))
    if is_float(dtype):
        return convert(dtype, flat.astype(np.float64), "f32").reshape(shape)
    if DTYPES[dtype].kind == "b":
        return (flat != 0).reshape(shape)
    if DTYPES[dtype].bits == 64:
        return flat.astype(holder(dtype)).reshape(shape)
    return np.clip(flat, *int_range(dtype)).astype(np.int64).reshape(shape)
