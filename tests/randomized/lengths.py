"""Random kernels whose values have lengths that follow from sizes: joins, padding, slices of every n-th element, and axes that are divided
where a requirement says that they can be."""
import re

from . import tree
from .evaluator import sizes_of
from .expressions import Ref
from .generator import Generator, case as drawn
from .tree import Axis, Expr, Operand, Stmt, binary, call, index
from .types import INDEX, Type, is_float

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40]
MOST = 400  # limit of the factors and the constant of a length


class Length:
    """A sum of a number and of multiples of names (sizes and rounded quotients)."""

    def __init__(self, terms=(), number=0):
        self.terms = {name: factor for name, factor in dict(terms).items() if factor}
        self.number = number

    def plus(self, other, factor=1):
        names = list(self.terms) + [n for n in other.terms if n not in self.terms]
        return Length({n: self.terms.get(n, 0) + factor * other.terms.get(n, 0) for n in names}, self.number + factor * other.number)

    def divided(self, by):
        """The exact quotient, or None."""
        if any(n % by for n in [*self.terms.values(), self.number]):
            return None
        return Length({name: n // by for name, n in self.terms.items()}, self.number // by)

    def key(self):
        return tuple(sorted(self.terms.items())), self.number

    def dim(self):
        """As an extent of a type: a number or an expression."""
        names = {name: f"({name})" if "/" in name else name for name in self.terms}
        text = " + ".join(name if n == 1 else f"{n} * {names[name]}" for name, n in self.terms.items())
        if not text:
            return self.number
        return f"{text} {'+' if self.number > 0 else '-'} {abs(self.number)}" if self.number else text

    def size(self):
        return sum(self.terms.values()) + self.number / 10


class Long:
    """A value, and the lengths of its axes."""

    def __init__(self, expr, lengths):
        self.expr, self.lengths = expr, lengths


class Lengths(Generator):
    """Values are built from inputs up, by operations that change the length of an axis."""

    def dtype(self):
        return self.r.choice(["f32"] * 4 + ["i32"] * 3 + ["bf16", "f16", "i8", "u8", "f64", "i64"])

    def size_value(self, name):
        r = self.r
        if name in self.multiples:
            return self.multiples[name] * r.choice([0 if self.least == 0 else 1, 1, 2, 3, 5, 8])
        return r.choice(SIZES + [0, 0] * (self.least == 0))

    def type_of(self, lengths, dtype):
        return Type(dtype, tuple(n.dim() for n in lengths))

    # ---- inputs

    def new_length(self):
        r = self.r
        kind = r.randrange(8)
        if kind == 0 or len(self.nominal) > 4:
            return Length(number=r.choice([1, 2, 3, 4, 8, 16, 17]))
        name = self.new_size(None)
        if kind <= 2:
            self.multiples[name] = r.choice([2, 2, 3, 4, 8])
            return Length({name: 1})
        if kind == 3:  # H occurs only in the requirement
            half = self.fresh("H")
            factor = r.choice([2, 2, 3])
            self.k.requires.append(f"{name} == {factor} * {half}")
            self.k.solved.append((half, f"{name} / {factor}"))
            self.multiples[name] = factor
            self.equal[name] = Length({half: factor})
            return Length({name: 1})
        return Length({name: 1})

    def new_input(self, rows, dtype):
        """An input with these rows and another axis with a new length, before or after them."""
        length = self.r.choice(self.lengths) if self.lengths and self.chance(0.4) else self.new_length()
        self.lengths.append(length)
        lengths = list(rows)
        lengths.insert(self.r.randint(0, len(rows)) if not self.k.axes else len(rows), length)
        o = Operand(self.fresh("x"), dtype, [n.dim() for n in lengths])
        if self.k.axes:
            at = [tree.name(a.name, INDEX) for a in self.k.axes] + [index(0)] * (len(lengths) - len(self.k.axes))
            o.mode, o.block, o.at = "block", [1] * len(self.k.axes) + list(o.shape[len(self.k.axes):]), at
        self.k.inputs.append(o)
        ref = Ref(o.name, dtype, o.ref)
        lengths = [Length(number=1)] * len(self.k.axes) + lengths[len(self.k.axes):]
        return Long(self.whole(ref), lengths)

    def leaf(self, rows, dtype):
        if len(self.k.inputs) < 4 or self.chance(0.1):
            self.found.append(self.new_input(rows, dtype))
        v = self.found[-1] if self.chance(0.5) else self.r.choice(self.found)
        return Long(self.to_dtype(v.expr, dtype), v.lengths)

    # ---- operations

    def part(self, v, axis, low, high, step, length):
        """v[low:high:step] along an axis; None: not written."""
        if length.dim() == 0:  # a block has no axis of 0
            return None
        sub = [("all",)] * len(v.lengths)
        sub[axis] = ("span", low, high, step)
        lengths = list(v.lengths)
        lengths[axis] = length
        return Long(Expr("index", self.type_of(lengths, v.expr.type.dtype), [v.expr], sub=sub), lengths)

    def reduced(self, length):
        """Replaces sizes by their values according to requirements."""
        for name, n in list(length.terms.items()):
            if name in self.equal:
                length = length.plus(Length({name: n}), -1).plus(self.equal[name], n)
        return length

    def whole_sizes(self, length):
        """The inverse replacement: pkc keeps the size that is declared first."""
        for name, half in self.equal.items():
            (part, factor), = half.terms.items()
            length = self.joined_parts_of(length, part, factor, name)
        for part in [p for p in length.terms if " / " in p]:
            name, factor = part.split(" / ")
            length = self.joined_parts_of(length, part, int(factor), name)
        return length

    @staticmethod
    def joined_parts_of(length, part, factor, name):
        count = length.terms.get(part, 0) // factor
        return length.plus(Length({part: factor * count}), -1).plus(Length({name: count}))

    def below(self, length):
        """A part of the terms of a length."""
        r = self.r
        return Length({name: r.randint(0, n) for name, n in length.terms.items()}, r.randint(0, max(0, length.number)))

    def cut(self, v, axis):
        whole = v.lengths[axis]
        if whole.number < 0 or any(name not in self.nominal for name in whole.terms):  # bounds of slices are sums of sizes
            return None
        high = self.below(whole) if self.chance(0.7) else whole
        low = self.below(high) if self.chance(0.7) else Length()
        return self.part(v, axis, None if low.key() == Length().key() and self.chance(0.7) else low.dim(),
                         None if high is whole and self.chance(0.7) else high.dim(), 1, high.plus(low, -1))

    def every(self, v, axis):
        """Every n-th element, from the first or a later one."""
        r, whole = self.r, v.lengths[axis]
        step, low = r.choice([2, 2, 2, 3, 4]), r.choice([0, 0, 1])
        if low and whole.number < 1:
            self.least = 1  # no size is 0
            if not whole.terms or whole.number < 0:
                return None
        rest = self.reduced(whole.plus(Length(number=low), -1))
        if all(n % step == 0 for n in rest.terms.values()):
            length = Length({name: n // step for name, n in rest.terms.items()}, -(-rest.number // step))
        elif any(name not in self.nominal or name in self.multiples for name in rest.terms):
            return None
        else:
            length = Length({f"cdiv({rest.dim()}, {step})": 1})
        return self.part(v, axis, low if low or self.chance(0.3) else None, None, step, length)

    def joined(self, v, axis, rows):
        """Concatenates the value with another one, or with itself."""
        other = v if self.chance(0.3) else self.leaf(rows, v.expr.type.dtype)
        for k, n in enumerate(other.lengths):
            if len(other.lengths) != len(v.lengths) or (k != axis and n.key() != v.lengths[k].key()):
                lengths = list(v.lengths)
                lengths[axis] = Length(number=self.r.choice([1, 2, 3]))
                other = Long(self.filled(self.type_of(lengths, v.expr.type.dtype)), lengths)
                break
        both = [v, other] if self.chance(0.6) else [other, v]
        lengths = list(v.lengths)
        lengths[axis] = both[0].lengths[axis].plus(both[1].lengths[axis])
        t = self.type_of(lengths, v.expr.type.dtype)
        return Long(call("concatenate", t, [x.expr for x in both], f"axis = {axis}", axis=axis), lengths)

    def filled(self, t):
        return tree.full(t, 1.0 if is_float(t.dtype) else 1)

    def widened_by(self, v, axis):
        low, high = self.r.choice([(0, 1), (1, 1), (2, 0), (3, 5), (0, 7)])
        widths = [(low, high) if k == axis else (0, 0) for k in range(len(v.lengths))]
        lengths = list(v.lengths)
        lengths[axis] = lengths[axis].plus(Length(number=low + high))
        return Long(self.padded(v.expr, widths, self.type_of(lengths, v.expr.type.dtype)), lengths)

    def shaped(self, v, lengths):
        t = self.type_of(lengths, v.expr.type.dtype)
        return Long(call("reshape", t, [v.expr], tree.shape_text(t.shape)), lengths)

    def split_axis(self, v, axis):
        """Reshapes [N] to [N / n, n] or [n, N / n]."""
        r, whole, parts = self.r, v.lengths[axis], None
        for name in list(whole.terms):
            if list(whole.terms) == [name] and whole.terms[name] == 1 and not whole.number and name in self.multiples and name not in self.equal:
                n = r.choice([f for f in range(2, 9) if self.multiples[name] % f == 0])
                text = f"{name} % {n} == 0"
                if text not in self.k.requires:
                    self.k.requires.append(text)
                parts = [Length({f"{name} / {n}": 1}), Length(number=n)]
        if parts is None and list(whole.terms) and list(whole.terms)[0] in self.equal and len(whole.terms) == 1 and not whole.number:
            half = self.equal[list(whole.terms)[0]]
            factor = next(iter(half.terms.values())) * next(iter(whole.terms.values()))
            parts = [Length({next(iter(half.terms)): 1}), Length(number=factor)]
        if parts is None:
            n = r.choice([2, 3, 4])
            exact = whole.divided(n)
            if exact is None or exact.number < 0:
                return None
            parts = [exact, Length(number=n)]
        if self.chance(0.3):
            parts.reverse()
        return self.shaped(v, v.lengths[:axis] + parts + v.lengths[axis + 1:])

    def merged_axes(self, v):
        for k in range(len(v.lengths) - 1):
            a, b = v.lengths[k:k + 2]
            for n, other in ((a, b), (b, a)):
                if not n.terms and other.size() * n.number <= MOST and all("cdiv" not in name for name in other.terms):
                    whole = Length({name: f * n.number for name, f in other.terms.items()}, other.number * n.number)
                    name = next(iter(other.terms), "")
                    if name.endswith(f" / {n.number}") and other.terms[name] == 1 and len(other.terms) == 1 and not other.number:
                        whole = Length({name.split(" / ")[0]: 1})
                    elif " / " in name:
                        continue
                    return self.shaped(v, v.lengths[:k] + [whole] + v.lengths[k + 2:])
        return None

    def reduced_axis(self, v, axis):
        """A reduction along an axis, which is kept with one element or removed."""
        dtype, keep = v.expr.type.dtype, self.chance(0.4) or len(v.lengths) == 1
        function = self.r.choice(["reduce_max", "reduce_min", "reduce_sum", "reduce_sum"])
        if dtype in ("i8", "u8") or function == "reduce_sum":
            v = Long(self.small(v.expr), v.lengths)
        lengths = list(v.lengths)
        lengths[axis:axis + 1] = [Length(number=1)] if keep else []
        tail = [f"axis = {axis}"] + ([] if keep else ["keep = false"])
        return Long(call(function, self.type_of(lengths, dtype), [v.expr], *tail, axes=[axis], keep=keep), lengths)

    def with_itself(self, v):
        t = v.expr.type
        kind = self.r.randrange(4)
        if kind == 0:
            return Long(self.bounded(binary(self.r.choice("+-"), t, v.expr, v.expr)), v.lengths)
        if kind == 1:
            return Long(call(self.r.choice(["max", "min"]), t, [v.expr, self.literal(t.dtype, True)]), v.lengths)
        axis = self.r.randrange(len(v.lengths))
        if kind == 2:
            return Long(call("rev", t, [v.expr], f"axis = {axis}", axis=axis), v.lengths)
        return Long(call("cummax", t, [v.expr], f"axis = {axis}", axis=axis, reverse=False), v.lengths)

    def step(self, v, rows):
        r, axis = self.r, self.r.randrange(len(v.lengths))
        if self.k.axes and axis < len(self.k.axes):
            axis = len(v.lengths) - 1
        kind = r.randrange(12)
        if kind <= 1:
            return self.cut(v, axis)
        if kind <= 3:
            return self.every(v, axis)
        if kind <= 5:
            return self.joined(v, axis, rows) if v.lengths[axis].size() * 2 <= MOST else None
        if kind <= 7:
            return self.widened_by(v, axis)
        if kind == 8:
            return self.split_axis(v, axis) if len(v.lengths) < 4 else None
        if kind == 9:
            return None if self.k.axes else self.merged_axes(v)
        if kind == 10:
            return self.reduced_axis(v, axis) if len(v.lengths) > len(self.k.axes) + 1 or not self.k.axes else None
        return self.with_itself(v)

    # ---- the kernel

    def make(self):
        k, r = self.k, self.r
        self.prelude, self.depth, self.lengths, self.found = [], 0, [], []
        self.multiples, self.equal, self.least = {}, {}, 0
        rows = r.choice([[], [Length(number=r.choice([1, 2, 3, 5]))], [Length(number=2), Length(number=3)]])
        if self.chance(0.3):
            rows = [Length({self.new_size(1): 1})]
            k.axes = [Axis("i", tree.name(rows[0].dim(), INDEX), self.chance(0.6))]
        body = []
        for n in range(r.choice([1, 1, 2])):
            v = self.leaf(rows, self.dtype())
            for _ in range(r.randint(1, 5)):
                v = self.step(v, rows) or v
                if self.chance(0.4):
                    body.append(self.let(v.expr))
                    v = Long(self.values[-1], v.lengths)
            body.append(self.output(f"o{n or ''}", v))
        k.body = body
        k.threads = r.choice([1, 2])
        self.nominal = dict.fromkeys(self.nominal, 24)
        self.repair_sizes()
        self.shown = {half for half, _ in k.solved if any(re.search(rf"\b{half}\b", str(n)) for o in k.outputs for n in o.shape)}

    def make_test(self):
        """The sizes of a test, which include those that only outputs have as an axis."""
        test = super().make_test()
        test["sizes"].update({name: n for name, n in sizes_of(self.k, test).items() if name in self.shown})
        return test

    def output(self, name, v):
        """A new output, and the store to it."""
        k = self.k
        for axis in reversed(range(len(v.lengths))):
            length = self.whole_sizes(v.lengths[axis])
            v.lengths[axis] = length
            if len(length.key()[0]) + (length.number != 0) > 1 and any(half in length.terms for half, _ in k.solved):
                v = self.reduced_axis(v, axis)  # an axis of H + 1 is solved for H, one of H + N is not
        lengths = list(v.lengths)
        o = Operand(name, v.expr.type.dtype, [n.dim() for n in lengths])
        if k.axes:
            o = Operand(name, o.dtype, [k.axes[0].extent.attr["name"], *o.shape[1:]])
            o.mode, o.block, o.at = "block", [1, *o.shape[1:]], [tree.name("i", INDEX)] + [index(0)] * (len(lengths) - 1)
        k.outputs.append(o)
        return Stmt("store", [v.expr], ref=name, sub=[("dots",)], symbol="=")


def case(seed, number, avoid):
    """Kernel `number` of `seed`: always the same."""
    return drawn(seed, number, avoid, Lengths)
