"""The forms of bench-matrix: each operation of codegen/ir/ops.def as a small kernel, and its equivalents for peers.

Forms of functions, operators, comparisons and folds follow from their rows there, those of peers from codegen/pallas/pallas.def. Operations
with other operands have rows in SPECIAL; an operation without a form is an error, so that a new one is not forgotten.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from suite import def_rows

FLOATS = ["f32", "bf16", "f16", "f8e4m3fn", "f64"]
INTEGERS = ["i8", "u8", "i16", "i32", "i64"]
DTYPES = [*FLOATS, *INTEGERS, "bool"]
DOMAINS = {"FLOATS": FLOATS, "INTEGERS": INTEGERS, "NUMBERS": FLOATS + INTEGERS, "BITS": [*INTEGERS, "bool"], "ANY": DTYPES}
BITS = {"f32": 32, "bf16": 16, "f16": 16, "f8e4m3fn": 8, "f64": 64, "i8": 8, "u8": 8, "i16": 16, "i32": 32, "u32": 32, "i64": 64, "bool": 8}
JAX = {"f32": "jnp.float32", "bf16": "jnp.bfloat16", "f16": "jnp.float16", "f8e4m3fn": "jnp.float8_e4m3fn", "f64": "jnp.float64", "i8": "jnp.int8",
       "u8": "jnp.uint8", "i16": "jnp.int16", "i32": "jnp.int32", "u32": "jnp.uint32", "i64": "jnp.int64", "bool": "jnp.bool_"}

# Shapes by size: the axes of a long array, and the same with a short axis.
SIZES = {"l1": (4, 16, 64), "l2": (16, 32, 256), "odd": (7, 31, 193), "memory": (64, 128, 1024)}
SHORT = (48, 48, 512)
AXES = {0: "first", 1: "middle", 2: "last"}

INNER = ("LEAF", "MEMORY", "CONTROL")  # classes without forms
PEER_FIRST = {"POW": "jnp.power($0, $1)", "DIV": "lax.div($0, $1)", "REM": "lax.rem($0, $1)", "FLOORDIV": "jnp.floor_divide($0, $1)", "MOD": "jnp.mod($0, $1)",
              "MAX": "jnp.maximum($0, $1)", "MIN": "jnp.minimum($0, $1)", "SHR": "jnp.right_shift($0, $1)", "AND": "$0 & $1", "OR": "$0 | $1"}


@dataclass(frozen=True)
class Form:
    """In `text` and `peer`, $T is the dtype, $K the axis, $P a permutation that exchanges it with another axis; $A, $B, $C are extents."""

    name: str
    operation: str  # ID of ops.def
    text: str  # the kernel's value, or its statements
    peer: str  # "": none
    dtypes: tuple
    inputs: tuple = (("x", "$T", "full"),)  # (name, dtype, shape)
    result: str = "$T"
    shape: str = "full"  # of the result; SHAPES has the words
    axes: tuple = (None,)
    work: float = 1  # operations for each element that is read or written
    torch: str = ""
    sizes: tuple = ()  # a subset of SIZES, if not all apply
    data: dict = field(default_factory=dict)  # (low, high) of an input, if not the default


def shapes(shape, axis):
    """The shapes for the words of operands."""
    a, b, c = shape
    changed = lambda n: tuple(n if k == axis else e for k, e in enumerate(shape))
    swapped = list(shape)
    if axis is not None:
        other = (axis + 1) % 3 if axis < 2 else 0
        swapped[axis], swapped[other] = swapped[other], swapped[axis]
    extent = shape[axis] if axis is not None else 1
    return {"full": shape, "single": (1,), "one": changed(1), "half": changed((extent + 1) // 2), "double": changed(2 * extent), "padded": changed(extent + 3),
            "few": changed(min(extent, 4)), "swapped": tuple(swapped), "line": (extent,), "rows": (a * b, c), "rows4": (a * b * c // 4, 4), "turned4": (4, a * b * c // 4),
            "flat": (a * b * c,), "square": (a * b, a * b), "columns": (c, b), "product": (a * b, b), "batch": (a, c, b), "batch_product": (a, b, b),
            "image": (1, a, b, max(c // 8, 1)), "taps": (3, 3, max(c // 8, 1), 16), "features": (1, a, b, 16)}


def swap(axis):
    other = (axis + 1) % 3 if axis < 2 else 0
    perm = [0, 1, 2]
    perm[axis], perm[other] = other, axis
    return tuple(perm)


def filled(text, dtype, axis, shape):
    """`text` with dtype, axis and extents inserted."""
    words = {"$T": dtype, "$J": JAX.get(dtype, dtype), "$K": str(axis), "$P": str(swap(axis)) if axis is not None else "", "$n": str(shape[axis] if axis is not None else 1),
             "$A": str(shape[0]), "$B": str(shape[1]), "$C": str(shape[2]), "$F": str(shape[0] * shape[1] * shape[2]),
             "$S": f"({', '.join('i[0]' if k == axis else '0' for k in range(3))})",
             "$H": ", ".join(str((extent + 1) // 2 if k == axis else extent) for k, extent in enumerate(shape)),
             "$I": "i|:, i|:, :, i".split("|")[axis or 0], "$E": "::2, :, :|:, ::2, :|:, :, ::2".split("|")[axis or 0], "$L": str(tuple((1, 2) if k == axis else (0, 0) for k in range(3)))}
    return re.sub(r"\$\w", lambda m: words[m[0]], text)


# ---- forms that follow from the tables


def peers():
    """ID: Python with $0, $1, $2 for operands that are arrays; the last row of an operation applies to any operands."""
    found = {row[0]: row[4] for row in def_rows("codegen/pallas/pallas.def", "PY")}
    for row in def_rows("codegen/ir/ops.def", "FUNCTION"):
        arguments = ", ".join(f"${k}" for k in range({"BINARY": 2, "TERNARY": 3}.get(row[2], 1)))
        if row[8]:
            found[row[0]] = f"{row[8]}({arguments})"
    for row in def_rows("codegen/ir/ops.def", "(?:OPERATOR|BITWISE|COMPARISON)"):
        if row[0] not in found:
            spelling = next((text for text in row if re.fullmatch(r"[-+*/%&|^<>=!~]+", text)), None)
            if spelling:
                found[row[0]] = f"$0 {spelling} $1"
    return {**found, **PEER_FIRST}


def as_peer(text, operands):
    text = text.replace("$A", "$K").replace("$X", "$K").replace("$D", ", dtype=$J").replace("$R", "").replace("$N", "")
    for k, name in enumerate(operands):
        text = text.replace(f"${k}", name)
    return text


def operands_of(count):
    return tuple((name, "$T", "full") for name in "xyz"[:count])


def elementwise(row, kind, python):
    identity, name, form = row[0], row[1], row[2] if kind != "COMPARISON" else "COMPARE"
    domain = {"BITWISE": "BITS", "COMPARISON": "ANY"}.get(kind, row[3])
    count = {"BINARY": 2, "COMPARE": 2, "TERNARY": 3}.get(form, 1)
    spelling = next((text for text in row[3:-1] if re.fullmatch(r"[-+*/%&|^<>=!~]+", text)), "") if kind != "FUNCTION" else ""
    values = [f"{operand}[...]" for operand in "xyz"[:count]]
    text = f"{name}({', '.join(values)})" if not spelling else f"{spelling}{values[0]}" if count == 1 else f" {spelling} ".join(values)
    inexact = kind in ("FUNCTION", "OPERATOR") and row[4] == "INEXACT"
    dtypes = [t for t in DOMAINS[domain] if t != "bool" or spelling != "~"]
    data = {"acosh": {"x": (1.1, 2.0)}}.get(name, {"y": (1, 8)} if count > 1 and name in ("shl", "shr", "ushr", "pow", "div", "rem", "floordiv", "mod") else {})
    return Form(name, identity, text, as_peer(python[identity], "xyz"), tuple(dtypes), operands_of(count),
                "bool" if form in ("COMPARE", "PREDICATE") else "$T", work=16 if inexact else 8 if "DIVIDES" in " ".join(row) else 1, torch=f"torch.{name}({', '.join('xyz'[:count])})", data=data)


def fold(row, python):
    identity, name, kind, domain = row[:4]
    keeps = kind == "REDUCE"
    return Form(name, identity, f"{name}(x[...], axis = $K)", as_peer(python[identity], "x"), tuple(DOMAINS[domain]), shape="one" if keeps else "full", axes=(0, 1, 2))


# ---- forms with other operands

MOVED = ("f32", "bf16", "i8", "i64")
KEYS = ("f32", "bf16", "f16", "i8", "u8", "i16", "i32", "i64")
INDEX = {"i": (0, "extent")}


def move(name, operation, text, peer, inputs=operands_of(1), axes=(0, 1, 2), dtypes=MOVED, **more):
    return Form(name, operation, text, peer, dtypes, inputs, axes=axes, **more)


def casts():
    for to in ("f32", "bf16", "f16", "f8e4m3fn", "i8", "i32", "i64", "f64", "bool"):
        yield Form(f"cast to {to}", "CAST", f"cast(x[...], {to})", f"x.astype({JAX[to]})", tuple(t for t in DTYPES if t != to), result=to)


PAIR, INDEXED = operands_of(2), (("x", "$T", "full"), ("i", "i32", "line"))
PLACES = (("x", "$T", "rows"), ("i", "i32", "flat"), ("j", "i32", "flat"))
SPECIAL = [
    Form("call", "ADD", "x[...] + x[...]", "x + x", ("f32",), (("x", "$T", "single"),), shape="single", torch="x + x", sizes=("l1",)),
    *casts(),
    Form("bitcast", "BITCAST", "bitcast(x[...], i32)", "lax.bitcast_convert_type(x, jnp.int32)", ("f32",), result="i32"),
    Form("select", "SELECT", "where(x[...] < y[...], x[...], z[...])", "jnp.where(x < y, x, z)", tuple(DTYPES), operands_of(3), work=2),
    Form("pow 2", "POW", "pow(x[...], 2)", "jnp.power(x, jnp.full_like(x, 2))", ("f32", "bf16", "f16", "f64")),
    Form("pow 3", "POW", "pow(x[...], 3)", "jnp.power(x, jnp.full_like(x, 3))", ("f32", "bf16", "f16", "f64"), work=2),
    Form("pow 0.5", "POW", "pow(x[...], 0.5)", "jnp.power(x, jnp.full_like(x, 0.5))", ("f32", "bf16", "f16", "f64")),
    Form("div 10", "DIV", "x[...] / 10", "lax.div(x, jnp.full_like(x, 10))", tuple(INTEGERS), work=2),
    Form("rem 7", "REM", "x[...] % 7", "lax.rem(x, jnp.full_like(x, 7))", tuple(INTEGERS), work=4),
    Form("floordiv 10", "FLOORDIV", "floordiv(x[...], 10)", "x // jnp.full_like(x, 10)", tuple(INTEGERS), work=3),
    Form("argmax", "ARGMAX", "argmax(x[...], axis = $K)", "jnp.argmax(x, axis=$K, keepdims=True)", KEYS, result="i32", shape="one", axes=(0, 1, 2), work=2),
    Form("argmin", "ARGMIN", "argmin(x[...], axis = $K)", "jnp.argmin(x, axis=$K, keepdims=True)", KEYS, result="i32", shape="one", axes=(0, 1, 2), work=2),
    move("broadcast", "BROADCAST", "broadcast(x[...], [$A, $B, $C])", "jnp.broadcast_to(x, ($A, $B, $C))", (("x", "$T", "one"),)),
    move("reshape", "RESHAPE", "reshape(x[...], [$A, $B, $C])", "x.reshape($A, $B, $C)", (("x", "$T", "flat"),), (None,)),
    move("transpose", "TRANSPOSE", "transpose(x[...], $P)", "x.transpose($P)", shape="swapped"),
    move("transpose n x 4", "TRANSPOSE", "x[...].T", "x.T", (("x", "$T", "rows4"),), (None,), shape="turned4"),
    move("transpose 4 x n", "TRANSPOSE", "x[...].T", "x.T", (("x", "$T", "turned4"),), (None,), shape="rows4"),
    move("slice by 2", "SLICE", "x[...][$E]", "x[$E]", shape="half"),
    move("concatenate", "CONCAT", "concatenate(x[...], y[...], axis = $K)", "jnp.concatenate([x, y], $K)", PAIR, shape="double"),
    move("pad", "PAD", "pad(x[...], $L)", "jnp.pad(x, $L)", shape="padded"),
    move("roll", "ROLL", "roll(x[...], 3, axis = $K)", "jnp.roll(x, 3, axis=$K)"),
    move("rev", "REV", "rev(x[...], axis = $K)", "jnp.flip(x, axis=$K)", dtypes=("f32", "bf16", "f16", "i8", "i64")),
    move("dynamic_slice", "WINDOW", "dynamic_slice(x[...], $S, [$H])", "lax.dynamic_slice(x, [jnp.int32(start) for start in $S], ($H))", (("x", "$T", "full"), ("i", "i32", "single")), shape="half", data={"i": (0, 3)}),
    move("take", "TAKE", "take(x[...], i[...], axis = $K)", 'jnp.take(x, i, axis=$K, mode="clip")', INDEXED, data=INDEX),
    move("take_along_axis", "TAKE_ALONG", "take_along_axis(x[...], i[...], axis = $K)", 'jnp.take_along_axis(x, i, axis=$K, mode="clip")',
         (("x", "$T", "full"), ("i", "i32", "full")), data=INDEX),
    move("take two", "GATHER", "x[i[...], j[...]]", "x[i, j]", PLACES, (None,), data={"i": (0, "rows"), "j": (0, "C")}, shape="flat"),
    move("scatter", "TAKE", "o[...] = x[...]; scatter(o[...], i[...], y[...], axis = $K);", "x.at[$I].set(y)", (*INDEXED, ("y", "$T", "full")), data={"i": (0, "order")}, work=3),
    move("scatter_add", "TAKE", "o[...] = x[...]; scatter_add(o[...], i[...], y[...], axis = $K);", "x.at[$I].add(y)", (*INDEXED, ("y", "$T", "full")), data=INDEX, work=3),
    Form("sort", "SORT", "sort(x[...], axis = $K)", "jnp.sort(x, axis=$K)", KEYS, axes=(0, 1, 2), work=40),
    Form("argsort", "ARGSORT", "argsort(x[...], axis = $K)", "jnp.argsort(x, axis=$K)", KEYS, result="i32", axes=(0, 1, 2), work=40),
    Form("top_k", "SORT", "top_k(x[...], min($n, 4), axis = $K)[0]", "jnp.moveaxis(jax.lax.top_k(jnp.moveaxis(x, $K, 2), min($n, 4))[0], 2, $K)", KEYS, shape="few", axes=(0, 1, 2), work=20),
    Form("random_bits", "XOR", "random_bits(random_key(7), [$F])", "jax.random.bits(jax.random.key(7), ($F,))", ("u32",), (), shape="flat", work=40),
    Form("philox", "XOR", 'random_bits(random_key(7), [$F], impl = "philox4x32")', "jax.random.bits(jax.random.key(7), ($F,))", ("u32",), (), shape="flat", work=40),
    Form("random_uniform", "XOR", "random_uniform(random_key(7), [$F])", "jax.random.uniform(jax.random.key(7), ($F,))", ("f32",), (), shape="flat", work=40),
    Form("random_normal", "XOR", "random_normal(random_key(7), [$F])", "jax.random.normal(jax.random.key(7), ($F,))", ("f32",), (), shape="flat", work=60),
    Form("dot", "DOT", "dot(x[...], y[...])", "jnp.dot(x, y, preferred_element_type=jnp.float32)", ("f32", "bf16", "f16"), (("x", "$T", "rows"), ("y", "$T", "columns")), "f32", "product", work=0),
    Form("dot", "DOT", "dot(x[...], y[...])", "jnp.dot(x, y, preferred_element_type=jnp.int32)", ("i8",), (("x", "$T", "rows"), ("y", "$T", "columns")), "i32", "product", work=0),
    Form("dot batch", "DOT", 'einsum("abc,acd->abd", x[...], y[...])', 'jnp.einsum("abc,acd->abd", x, y, preferred_element_type=jnp.float32)', ("f32", "bf16"),
         (("x", "$T", "full"), ("y", "$T", "batch")), "f32", "batch_product", work=0),
    Form("conv", "DOT", 'conv(x[...], w[...], padding = "same")', 'lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))', ("f32",),
         (("x", "$T", "image"), ("w", "$T", "taps")), "f32", "features", work=0),
]


def forms():
    """All forms; an operation of the table without one is an error."""
    python, found = peers(), list(SPECIAL)
    for kind in ("FUNCTION", "OPERATOR", "BITWISE", "COMPARISON"):
        found += [elementwise(row, kind, python) for row in def_rows("codegen/ir/ops.def", kind)]
    found += [fold(row, python) for row in def_rows("codegen/ir/ops.def", "FOLD")]
    has = {form.operation for form in found}
    without = [row[1] for row in def_rows("codegen/ir/ops.def", "OP") if row[2] not in INNER and row[0] not in has]
    if without:
        raise LookupError(f"tests/bench/forms.py: no form of {', '.join(without)}")
    return found
