"""The data that an INPUT of the command line stands for (docs/cli.md)."""
import numpy as np

from .types import DTYPES, convert, holder, int_range, is_float

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x):
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def _draws(seed, operand, count):
    key = _mix(_mix(np.array([seed], np.uint64) + GOLDEN) + np.uint64(operand + 1) * GOLDEN)
    return _mix(key + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)


def make(text, dtype, shape, operand):
    """The array of `text` for operand number `operand`: randint:LOW:HIGH:SEED, iota, zeros, ones, const:V."""
    count = int(np.prod(shape, dtype=np.int64))
    kind, *rest = text.split(":")
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
