"""Operations on each element."""
import functools
import operator as operator_of

import numpy

from pkc.pallas.rules.control import as_function
from pkc.pallas.values import (ADD, AND, ATOM, COMPARE, MUL, OR, SHIFT, UNARY, XOR, Value, broadcast, dtype_name, is_float, is_integer,
                               literal, number_text)


def operands_of(tr, equation):
    """(values, shape): operands as thin as NumPy's broadcasting allows, and the shape they give together."""
    values = [tr.read(atom) for atom in equation.invars]
    shape = tuple(equation.outvars[0].aval.shape)
    return [v.thin for v in values], shape


def joined_shape(values):
    """The shape to which thin operands broadcast."""
    rank = max(len(v.shape) for v in values)
    padded = [(1,) * (rank - len(v.shape)) + v.shape for v in values]
    return tuple(next((n for n in axis if n != 1), 1) for axis in zip(*padded))


def settle(values):
    """Operands of one dtype: not all of them may be without one, and index scalars stay among themselves.

    Returns whether the result is an index scalar.
    """
    index = any(v.index for v in values) and all((v.index or v.constant) and v.shape == () for v in values)
    if all(v.constant for v in values):
        values[0] = Value(values[0].typed, values[0].shape, values[0].dtype, number=values[0].number)
    return index


def finish(equation, text, level, values, shape, index=False, dtype=None):
    """The value of an elementwise operation on thin operands."""
    made = joined_shape(values)
    reads = any(v.reads for v in values)
    dtype = dtype or dtype_name(equation.outvars[0].aval.dtype)
    value = Value(text, made, dtype, level, index=index, reads=reads)
    return value if made == shape else broadcast(value, shape)


def operator(sign, level, index=False, boolean=None):
    """a SIGN b; on index scalars it gives one if `index`."""

    def rule(tr, equation):
        values, shape = operands_of(tr, equation)
        folded = _folded(sign, *values) if values[0].shape == values[1].shape == () else None
        if folded is not None:
            return folded if shape == () else broadcast(folded, shape)
        if not index:
            values = [plain(v) if v.index else v for v in values]
        is_index = settle(values) and index
        a, b = values
        same = _unchanged(sign, a, b)
        if same is not None:
            return same if same.shape == shape else broadcast(same, shape)
        text = "%s %s %s" % (a.at(level), sign, b.at(level + 1))
        result = finish(equation, text, level, values, shape, index=is_index)
        if sign == "+" and (a.ramp or b.ramp):
            result.thin.ramp = ramp_of(a, b)
        return result
    return rule


def _folded(sign, a, b):
    """The folded sum or product of two small integer literals."""
    combine = {"+": operator_of.add, "-": operator_of.sub, "*": operator_of.mul}.get(sign)
    if combine is None or a.dtype != b.dtype or not all(v.constant and is_integer(v.dtype) and abs(v.number) < 1 << 15 for v in (a, b)):
        return None
    number = combine(int(a.number), int(b.number))
    bits = int(a.dtype[1:])
    low, high = (-1 << bits - 1, 1 << bits - 1) if a.dtype[0] == "i" else (0, 1 << bits)
    return literal(number, a.dtype) if low <= number < high else None


def _is_truth(value):
    """Whether it is the literal true or false."""
    return value.dtype == "bool" and value.shape == () and isinstance(value.number, bool)


def _unchanged(sign, a, b):
    """The operand that is the result: x + 0, x * 1, of index scalars; x & true, x & false, x | true, x | false."""
    for x, y in ((a, b), (b, a)):
        if sign in "&|" and _is_truth(y):
            return x if y.number == (sign == "&") else y
    neutral = {"+": 0, "*": 1}.get(sign)
    for x, y in ((a, b), (b, a)):
        if neutral is not None and x.index and y.constant and y.number == neutral:
            return x
    return None


def ramp_of(a, b):
    """The start of the sum of a ramp and a scalar."""
    if b.ramp:
        a, b = b, a
    if b.shape or b.ramp or b.reads:
        return None
    if a.ramp.number == 0:
        return b
    start = Value("%s + %s" % (a.ramp.at(ADD), b.at(ADD + 1)), (), a.dtype, ADD, index=a.ramp.index and b.index)
    return start


_COMPARED = {"==": operator_of.eq, "!=": operator_of.ne, "<": operator_of.lt, "<=": operator_of.le, ">": operator_of.gt, ">=": operator_of.ge}


def comparison(sign):
    def rule(tr, equation):
        values, shape = operands_of(tr, equation)
        if shape == () and all(v.constant and is_integer(v.dtype) for v in values):
            return literal(bool(_COMPARED[sign](values[0].number, values[1].number)), "bool")
        settle(values)
        a, b = values
        return finish(equation, "%s %s %s" % (a.at(COMPARE + 1), sign, b.at(COMPARE + 1)), COMPARE, values, shape)
    return rule


def plain(value):
    """An index scalar converted to JAX's dtype."""
    return Value(value.typed, value.shape, value.dtype, reads=value.reads) if value.index else value


def function(name, index=False):
    def rule(tr, equation):
        values, shape = operands_of(tr, equation)
        if not index:
            values = [plain(v) for v in values]
        is_index = settle(values) and index
        return finish(equation, "%s(%s)" % (name, ", ".join(v.text for v in values)), ATOM, values, shape, index=is_index)
    return rule


def of_bools(rule, otherwise):
    """A rule with one variant for bools and one for numbers."""
    return lambda tr, equation: (rule if equation.outvars[0].aval.dtype == bool else otherwise)(tr, equation)


def _neg(tr, equation):
    values, shape = operands_of(tr, equation)
    index = settle(values)
    return finish(equation, "-" + values[0].at(UNARY + 1), UNARY, values, shape, index=index)


def _not(tr, equation):
    values, shape = operands_of(tr, equation)
    if _is_truth(values[0]):
        return broadcast(literal(not values[0].number, "bool"), shape)
    values = [plain(v) for v in values]
    settle(values)
    sign = "!" if values[0].dtype == "bool" else "~"
    return finish(equation, sign + values[0].at(UNARY + 1), UNARY, values, shape)


def _cast(tr, equation):
    source = tr.read(equation.invars[0])
    to, shape = tr.dtype(equation.outvars[0]), tuple(equation.outvars[0].aval.shape)
    v = source.thin
    if v.dtype == to:
        return source
    if v.constant and v.shape == ():
        return _constant_cast(v, to, shape)
    if _is_truth(v) and is_integer(to):
        return broadcast(literal(int(v.number), to), shape)
    text = v.text if not v.constant else v.typed
    made = finish(equation, "cast(%s, %s)" % (text, to), ATOM, [v], shape, dtype=to)
    if v.dtype == "bool":
        made.thin.flag = v
    if v.index and is_integer(to) and to != "bool":
        made = finish(equation, v.text, v.level, [v], shape, index=True, dtype=to)
    return made


def _constant_cast(value, to, shape):
    if is_integer(value.dtype) and is_float(to) and abs(value.number) < 2048:
        made = literal(numpy.float32(value.number), to)
    elif is_integer(value.dtype) and is_integer(to) and 0 <= value.number < 8:
        made = literal(value.number, to)
    else:
        made = Value("cast(%s, %s)" % (value.typed, to), (), to)
    return made if shape == () else broadcast(made, shape)


def _select(tr, equation):
    which, *cases = [tr.read(atom) for atom in equation.invars]
    shape = tuple(equation.outvars[0].aval.shape)
    which, cases = which.thin, [case.thin for case in cases]
    if _is_truth(which):
        return broadcast(cases[which.number], shape)
    index = settle(cases) and which.shape == ()
    if not index and which.index:
        which = plain(which)
    texts = [case.text for case in cases]
    if which.dtype == "bool" and len(cases) == 2:
        text = "where(%s, %s, %s)" % (which.text, texts[1], texts[0])
    else:
        text = "select_n(%s, %s)" % (which.text, ", ".join(texts))
    return finish(equation, text, ATOM, [which, *cases], shape, index=index)


def _clamp(tr, equation):
    values, shape = operands_of(tr, equation)
    index = settle(values)
    low, x, high = values
    return finish(equation, "clamp(%s, %s, %s)" % (x.text if not x.constant else x.typed, low.text, high.text), ATOM, values, shape,
                  index=index)


def _integer_pow(tr, equation):
    values, shape = operands_of(tr, equation)
    values = [plain(v) for v in values]
    settle(values)
    n = equation.params["y"]
    text = "integer_pow(%s, %d)" % (values[0].text, abs(n))
    if n == 2:
        text = "square(%s)" % values[0].text
    return finish(equation, text if n >= 0 else "1 / " + text, ATOM if n >= 0 else MUL, values, shape)


def _pow(tr, equation):
    values, shape = operands_of(tr, equation)
    values = [plain(v) for v in values]
    settle(values)
    a, b = values
    power = b.text if a.dtype == b.dtype else "cast(%s, %s)" % (b.typed, a.dtype)
    return finish(equation, "pow(%s, %s)" % (a.text, power), ATOM, values, shape)


def _round(tr, equation):
    name = "round_half_away" if int(equation.params["rounding_method"]) == 0 else "round"
    return function(name)(tr, equation)


def _same(tr, equation):
    return [tr.read(atom) for atom in equation.invars[:len(equation.outvars)]]


_ROUNDED = {(8, 23): "f32", (8, 7): "bf16", (5, 10): "f16", (11, 52): "f64", (4, 3): "f8e4m3fn", (5, 2): "f8e5m2"}
_EXPONENT_BITS = {"f64": 11, "f32": 8, "bf16": 8, "f16": 5}


def _reduce_precision(tr, equation):
    """A rounding by way of a narrower dtype. With fewer bits of exponent, XLA has an infinity past the greatest number and no subnormal numbers."""
    bits = equation.params["exponent_bits"], equation.params["mantissa_bits"]
    own, to = tr.dtype(equation.outvars[0]), _ROUNDED.get(bits)
    if to is None or own not in _EXPONENT_BITS:
        tr.refuse("`reduce_precision` to %d exponent and %d mantissa bits" % bits)
    values, shape = operands_of(tr, equation)
    if to == own:
        return finish(equation, values[0].typed, values[0].level, values, shape)
    if bits[0] >= _EXPONENT_BITS[own]:
        return finish(equation, "cast(cast(%s, %s), %s)" % (values[0].typed, to, own), ATOM, values, shape)
    tr.writer.let(values[0], "exact")
    return finish(equation, _narrowed(values[0].text, bits, to, own), ATOM, values, shape)


def _narrowed(x, bits, to, own):
    """The value of the name x with fewer bits of exponent."""
    bias, unit = (1 << bits[0] - 1) - 1, 2.0 ** -bits[1]
    text = "cast(cast(%s, %s), %s)" % (x, to, own)
    if to == "f8e4m3fn":  # it has numbers where XLA has infinities
        text = "where(abs(%s) >= %s, %s * inf, %s)" % (x, number_text(2.0**bias * (2 - unit / 2), own)[0], x, text)
    return "where(abs(%s) < %s, 0.0 * %s, %s)" % (x, number_text(2.0**(1 - bias) * (1 - unit / 4), own)[0], x, text)


def _inline_asm(tr, equation):
    """That of `approx_tanh` of JAX's Triton."""
    if not equation.params["asm"].startswith("tanh.approx."):
        tr.refuse("inline assembly of a GPU", "Use functions of jax.numpy.")
    return function("tanh")(tr, equation)


_SAME_NAME = """abs sign exp exp2 expm1 log log1p sqrt rsqrt tanh logistic erf sin cos tan sinh cosh asin acos atan asinh acosh atanh
cbrt erfc erf_inv log2 mulhi floor ceil population_count clz square reciprocal atan2 nextafter is_finite""".split()

RULES = {
    **{name: function(name) for name in _SAME_NAME},
    "add": operator("+", ADD, index=True),
    "add_any": operator("+", ADD, index=True),
    "sub": operator("-", ADD, index=True),
    "mul": operator("*", MUL, index=True),
    "div": operator("/", MUL, index=True),
    "rem": operator("%", MUL, index=True),
    "max": of_bools(operator("|", OR), function("max", index=True)),
    "min": of_bools(operator("&", AND), function("min", index=True)),
    "sign": function("sign", index=True),
    "and": operator("&", AND),
    "or": operator("|", OR),
    "xor": operator("^", XOR),
    "shift_left": operator("<<", SHIFT),
    "shift_right_arithmetic": operator(">>", SHIFT),
    "shift_right_logical": operator(">>>", SHIFT),
    "eq": comparison("=="),
    "ne": comparison("!="),
    "lt": comparison("<"),
    "le": comparison("<="),
    "gt": comparison(">"),
    "ge": comparison(">="),
    "neg": _neg,
    "not": _not,
    "convert_element_type": _cast,
    "select_n": _select,
    "clamp": _clamp,
    "integer_pow": _integer_pow,
    "pow": _pow,
    "round": _round,
    "reduce_precision": _reduce_precision,
    "one_minus_square": as_function(lambda x: (1 + x) * (1 - x)),
    "polynomial": as_function(lambda x, *coefficients: functools.reduce(lambda sum, c: sum * x + c, reversed(coefficients))),
    "elementwise_inline_asm": _inline_asm,
    "elementwise_inline_asm_p": _inline_asm,
    **{name: _same for name in ("copy", "copy_p", "stop_gradient", "optimization_barrier", "multiple_of", "max_contiguous", "pvary",
                                "reshard", "mesh_cast", "with_memory_space_constraint", "stage", "pcast", "name", "tie_in",
                                "sharding_constraint", "xla_metadata_value", "reduced_vary_cast", "relayout")},
}
