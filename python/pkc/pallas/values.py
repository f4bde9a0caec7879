"""Values of a jaxpr as text of the language."""
import math
import re

import numpy

from pkc import _arrays

# How tightly an operator binds; an operand that binds less gets parentheses.
ATOM, UNARY, MUL, ADD, SHIFT, AND, XOR, OR, COMPARE, BOTH, EITHER = 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0

INLINED = 60  # a longer expression gets a name


def dtype_name(dtype):
    """The language's name of a dtype, or None. Keys of random numbers are numbers."""
    return "u32" if is_key(dtype) else _arrays.dtype_name(dtype)


def is_key(dtype):
    """Whether its elements are keys of random numbers."""
    return str(dtype).startswith("key<")


def key_shape(dtype):
    """The shape of one element as numbers."""
    return tuple(dtype._impl.key_shape) if is_key(dtype) else ()


def physical_shape(aval):
    """The shape of an array, followed by the axes of its keys."""
    return (*aval.shape, *key_shape(aval.dtype))


def memory_of(aval):
    """The name of a ref's memory space: any, hbm, vmem, vmem_shared, smem .. A space of a mesh of cores is that of each of them."""
    space = getattr(aval, "memory_space", None)
    return str(getattr(space, "memory_space", space)).lower().rsplit(".", 1)[-1]


def is_integer(dtype):
    return dtype is not None and dtype[0] in "iu"


def is_float(dtype):
    return dtype is not None and dtype not in ("bool",) and not is_integer(dtype)


def bits_of(dtype):
    """Of an element of a dtype of the language."""
    return int(re.match(r"[a-z]+(\d+)", dtype).group(1)) if dtype != "bool" else 8


def shape_text(shape):
    return "[%s]" % ", ".join(str(int(n)) for n in shape)


def is_word(text):
    """Whether it is a name or a whole variable, and may therefore be repeated."""
    return re.fullmatch(r"-?[\w.]+(\[\.\.\.\])?", text) is not None


class Value:
    """An expression: its text, how tightly it binds, shape and dtype.

    `index`: it is an index scalar (i64) where JAX has an integer of `dtype`.
    `constant`: a number without a dtype of its own, which takes that of what it meets.
    `base`: another value that this one is a NumPy broadcast of; then `text` is made from it.
    `reads`: the text reads a ref or variable, so it must be evaluated before the next store.
    `forms`: texts that give the same elements in other shapes.
    `flag`: for a number made of a bool: the bool.
    `ramp`: its elements are this start, plus 0, 1, 2 .. along its only axis above 1.
    """

    def __init__(self, text, shape, dtype, level=ATOM, index=False, constant=False, base=None, reads=False, number=None):
        self._text, self.shape, self.dtype, self.level = text, tuple(shape), dtype, level
        self.index, self.constant, self.base, self.reads = index, constant, base, reads
        self.number, self.forms, self.flag, self.ramp, self.pending = number, {}, None, None, False

    @property
    def text(self):
        if self.base is None:
            return self._text
        return "broadcast(%s, %s)" % (self.base.typed, shape_text(self.shape))

    @property
    def typed(self):
        """The text converted to JAX's dtype."""
        if self.index or self.constant:
            return "cast(%s, %s)" % (self._text if self.base is None else self.base.text, self.dtype)
        return self.text

    def at(self, level):
        """The text as an operand of an operator of a level."""
        own = ATOM if self.base is not None else self.level
        return self.text if own >= level else "(%s)" % self.text

    @property
    def thin(self):
        """The smaller value of which this one is a NumPy broadcast."""
        return self.base if self.base is not None else self

    def named(self, name):
        """The value has a name now; its other forms may read memory that changes before they are used."""
        if self.reads:
            self.forms, self.flag = {}, None
        self._text, self.level, self.reads, self.pending = name, ATOM, False, False


def broadcast(value, shape):
    """A value broadcast to a larger shape."""
    base = value.thin
    if base.shape == tuple(shape):
        return base
    made = Value(None, shape, value.dtype, base=base, reads=base.reads)
    return made


def number_text(number, dtype):
    """(text, level) of a number."""
    if dtype == "bool":
        return ("true" if number else "false"), ATOM
    if is_integer(dtype):
        number = int(number)
        if number > 2**63 - 1:
            return "cast(%d, %s)" % (number - 2**64, dtype), ATOM
        return str(number), UNARY if number < 0 else ATOM
    return _float_text(float(number), number)


def _float_text(number, exact):
    if math.isnan(number):
        return "nan", ATOM
    if math.isinf(number):
        return ("inf", ATOM) if number > 0 else ("-inf", UNARY)
    short = str(exact)
    try:
        if float(short) != number and type(exact)(float(short)) != exact:
            short = repr(number)
    except (TypeError, ValueError):
        short = repr(number)
    text = short if any(c in short for c in ".e") else short + ".0"
    return text, UNARY if text.startswith("-") else ATOM


def literal(number, dtype):
    """A constant scalar."""
    text, level = number_text(number, dtype)
    typed = dtype == "bool" or text.startswith("cast")
    return Value(text, (), dtype, level, constant=not typed, number=numpy.asarray(number).item())
