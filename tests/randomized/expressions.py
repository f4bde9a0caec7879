"""Random expressions of a required type: each production is a rule of the language, read from the result to the operands."""
from . import tree
from .operations import drawn_functions
from .tree import Expr, Operand, binary, call, full, index
from .types import DTYPES, FLOATS, INDEX, INTS, NUMBERS, SCALE, Type, accumulator, int_range, is_float, is_int

MOST_ELEMENTS = 1536
ONE, TWO = drawn_functions()  # functions of one and of two operands
NARROW_FLOATS = [d for d in FLOATS if DTYPES[d].bits == 8]
WIDE = ("i64", "u64")


class Ref:
    """A ref of the body, and the operations that it permits."""

    def __init__(self, name, dtype, shape, readable=True, writable=False, space="vmem"):
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)
        self.readable, self.writable, self.space = readable, writable, space


class Expressions:
    """Requires r (random.Random), the lists values, refs and indices of what is in scope, nominal (sizes by name), and avoid."""

    def chance(self, p):
        return self.r.random() < p

    def dims(self, shape):
        """Replaces sizes by numbers, to estimate the number of elements."""
        out = 1
        for n in shape:
            out *= self.nominal.get(n, 16) if isinstance(n, str) else n
        return out

    # ---- numbers

    def number(self, dtype, small=False):
        r, kind = self.r, DTYPES[dtype].kind
        if kind == "b":
            return self.chance(0.5)
        if dtype == SCALE:
            return r.choice([0.5, 1.0, 2.0, 4.0])
        if kind == "f":
            if self.chance(0.2) and not small:
                return r.choice([0.5, 0.25, -1.5, 2.5, 0.125])
            return float(r.randint(-3, 4))
        low, high = int_range(dtype)
        if self.chance(0.15) and not small:
            high = min(high, (1 << 63) - 1)
            return r.choice([low + (DTYPES[dtype].bits >= 32 and low < 0), high, high // 2, high // 3])
        return max(low, min(high, r.randint(-3, 7)))

    def literal(self, dtype, small=False):
        """A literal that is combined with a value."""
        value = self.number(dtype, small)
        if is_float(dtype) and self.chance(0.3) and value == int(value):
            value = int(value)
        return Expr("lit", Type(dtype, ()), value=value)

    # ---- index scalars

    def index_value(self, depth=2):
        """Any integer expression of axes, loop variables and sizes."""
        r = self.r
        if depth == 0 or not self.indices or self.chance(0.35):
            if self.indices and self.chance(0.75):
                return r.choice(self.indices)
            return index(r.randint(0, 9))
        a = self.index_value(depth - 1)
        kind = r.randrange(7)
        if kind <= 2:
            return binary(r.choice("+-"), INDEX, a, self.index_value(depth - 1))
        if kind == 3:
            return binary("*", INDEX, a, index(r.randint(1, 4)))
        if kind == 4:
            return binary(r.choice("/%"), INDEX, a, index(r.randint(1, 5)))
        if kind == 5:
            return call(r.choice(["min", "max"]), INDEX, [a, self.index_value(depth - 1)])
        return call(r.choice(["mod", "floordiv"]), INDEX, [a, index(r.randint(1, 5))])

    def integer_scalar(self):
        """An integer scalar from data, or None if there is none."""
        scalars = [v for v in self.values if v.type.shape == () and v.type.dtype == "i32"]
        places = [ref for ref in self.refs if ref.readable and ref.space == "smem" and is_int(ref.dtype) and ref.dtype not in ("u32",)]
        if places and self.chance(0.7):
            ref = self.r.choice(places)
            read = Expr("load", Type(ref.dtype, ()), [self.index_below(n, False) for n in ref.shape], ref=ref.name,
                        sub=[("at",)] * len(ref.shape)) if ref.shape else tree.name(ref.name, Type(ref.dtype, ()))
            return read if ref.dtype == "i32" else call("cast", Type("i32", ()), [read], "i32")
        return self.r.choice(scalars) if scalars else None

    def index_below(self, n, data=True):
        """A position in [0, n); n may be a size."""
        r = self.r
        size = tree.name(n, INDEX) if isinstance(n, str) else index(n)
        if isinstance(n, int) and (n == 1 or self.chance(0.3) or not self.indices):
            return index(r.randrange(n))
        scalar = self.integer_scalar() if data and self.chance(0.3) and isinstance(n, int) else None
        if scalar is not None:
            return call("mod", Type("i32", ()), [scalar, Expr("lit", Type("i32", ()), value=n)])
        if not self.indices:
            return call("mod", INDEX, [index(r.randint(0, 9)), size])
        kind, name = r.randrange(5), r.choice(self.indices)
        if kind == 0:
            return binary("%", INDEX, name, size)
        if kind == 1:
            top = binary("-", INDEX, size, index(1)) if isinstance(n, str) else index(n - 1)
            return call("min", INDEX, [name, top])
        if kind == 2 and isinstance(n, int):
            return call("max", INDEX, [index(0), binary("-", INDEX, index(n - 1), name)])
        if kind == 3 and isinstance(n, int):
            low = call("max", INDEX, [self.index_value(1), index(0)])
            return call("min", INDEX, [low, index(n - 1)])
        return call("mod", INDEX, [self.index_value(2), size])

    # ---- conditions and masks

    def condition(self, depth=1):
        """A scalar bool."""
        r, t = self.r, Type("bool", ())
        if depth and self.chance(0.2):
            return binary(r.choice(["&&", "||"]), t, self.condition(depth - 1), self.condition(depth - 1))
        if depth and self.chance(0.1):
            return Expr("un", t, [self.condition(0)], symbol="!")
        compare = r.choice(["==", "!=", "<", "<=", ">", ">="])
        scalar = self.integer_scalar() if self.chance(0.35) else None
        if scalar is not None:
            return binary(compare, t, scalar, self.literal("i32", True))
        if self.chance(0.15):
            v = self.any_value()
            if v is not None and v.type.dtype in NUMBERS and v.type.shape and 0 not in v.type.shape:
                whole = call("reduce_max", Type(v.type.dtype, ()), [v], "keep = false", axes=range(len(v.type.shape)), keep=False)
                return binary(compare, t, whole, self.literal(v.type.dtype, True))
        return binary(compare, t, self.index_value(2), self.index_value(1) if self.chance(0.4) else index(r.randint(0, 4)))

    def iota(self, shape, axis, dtype="i32"):
        tail = [f"axis = {axis}"] + ([f"dtype = {dtype}"] if dtype != "i32" or self.chance(0.1) else [])
        return call("iota", Type(dtype, tuple(shape)), [], tree.shape_text(shape), *tail, axis=axis)

    def affine(self, shape):
        """An i32 value that counts along axes, with an index scalar."""
        t = Type("i32", tuple(shape))
        v = self.iota(shape, self.r.randrange(len(shape)))
        if len(shape) > 1 and self.chance(0.3):
            v = binary(self.r.choice("+-"), t, v, self.iota(shape, self.r.randrange(len(shape))))
        if self.chance(0.2):
            v = binary("*", t, v, Expr("lit", Type("i32", ()), value=self.r.randint(2, 3)))
        if self.chance(0.5):
            i = self.index_value(1)
            v = binary("+", t, i, v) if self.chance(0.6) and i.op != "lit" else binary("+", t, v, i)
        return v

    def mask(self, shape, depth=1):
        """A bool value: affine terms, data terms, and both."""
        r, t = self.r, Type("bool", tuple(shape))
        if not shape:
            return self.condition()
        if depth and self.chance(0.35):
            return binary(r.choice(["&", "|", "&&", "||", "^"]), t, self.mask(shape, depth - 1), self.mask(shape, depth - 1))
        if depth and self.chance(0.1):
            return Expr("un", t, [self.mask(shape, 0)], symbol="!")
        compare = r.choice(["<", "<", "<=", ">", ">=", "==", "!="])
        if self.chance(0.55):
            side = self.index_value(1) if self.chance(0.5) else index(r.randint(0, 20))
            return binary(compare, t, self.affine(shape), side)
        dtype = r.choice(["f32", "i32", "f32", r.choice(NUMBERS)])
        return binary(compare, t, self.leaf(Type(dtype, tuple(shape))), self.literal(dtype, True))

    # ---- leaves

    def any_value(self):
        """A value or a whole readable ref in scope."""
        refs = [ref for ref in self.refs if ref.readable and ref.space in ("vmem", "view")]
        found = [self.whole(ref) for ref in refs] + self.values[-4:]
        return self.r.choice(found) if found else None

    def near(self, t):
        """A value in scope that can be converted to t in few steps."""
        found = [self.any_value() for _ in range(3)]
        if found[0] is None:
            return None

        def distance(v):
            shape = v.type.shape
            same = sum(a == b for a, b in zip(shape[::-1], t.shape[::-1]))
            return abs(len(shape) - len(t.shape)) + len(t.shape) - same + (v.type.dtype != t.dtype) * 0.5
        return min(found, key=distance)

    def whole(self, ref):
        sub, args = self.from_run_time(ref.shape, [("dots",)], [])
        return Expr("load", Type(ref.dtype, ref.shape), args, ref=ref.name, sub=sub)

    def run_time_zero(self):
        """A position whose run-time value is 0."""
        if self.can_bind and self.chance(0.5):
            if all(o.name != "zero" for o in self.k.inputs):
                self.k.inputs.append(Operand("zero", "i32", [], "smem"))
            return tree.name("zero", Type("i32", ()))
        return call("min", INDEX, [call("max", INDEX, [self.index_value(2), index(0)]), index(0)])

    def from_run_time(self, shape, sub, args):
        """Sometimes, in kernels that do so, takes whole axes from a run-time start."""
        if not self.windowed or self.in_fn or not self.chance(0.3) or any(s[0] in ("bare", "run") for s in sub):
            return sub, args
        missing = len(shape) - sum(s[0] not in ("none", "dots") for s in sub)
        items = [x for s in sub for x in ([("all",)] * missing if s[0] == "dots" else [s])]
        out, positions, rest, axes = [], [], iter(args), iter(shape)
        for item in items:
            n = next(axes) if item[0] != "none" else None
            if item[0] in ("at", "ds"):
                positions.append(next(rest))
            elif item[0] == "all" and n != 0 and self.chance(0.6):
                item = ("ds", n, 1)
                positions.append(self.run_time_zero())
            out.append(item)
        return out, positions

    def moving_subscripts(self, have, want, constant=False):
        """The same for a load, a store or a value, for which windows that leave their axes are moved inside."""
        self.moving = self.k.moves
        fit = self.subscripts(have, want, constant)
        self.moving = False
        return fit

    def start_below(self, room):
        """A run-time position in [0, room), or near it if windows may be moved."""
        start = self.index_below(room)
        names = {i.attr.get("name") for i in self.indices} - {None}
        if not self.moving or self.chance(0.5) or not any(e.attr.get("name") in names for e in tree.walk_expr(start)):
            return start  # a constant would be an error
        return binary(self.r.choice("++-"), INDEX, start, index(self.r.randint(1, 9)))

    def subscripts(self, have, want, constant=False):
        """(subscripts, positions) of a window of shape `want` in axes `have`, or None if this attempt does not fit."""
        sub, args, rest = [], [], list(want)
        drop = len(have) - len(want)
        for k, n in enumerate(have):
            left = len(have) - k
            while rest and len(rest) > left and rest[0] == 1:
                sub.append(("none",))
                rest.pop(0)
            d = rest[0] if rest else None
            if (drop > 0 and self.chance(0.5)) or left > len(rest):
                if n == 0:
                    return None
                drop -= 1
                if isinstance(n, int) and self.chance(0.4):
                    beyond = self.r.randint(0, 5) if self.dead else 0
                    sub.append(("const", self.r.choice([n - 1 + beyond, -n - beyond]) if beyond else self.r.randint(-n, n - 1)))
                elif constant:
                    return None
                else:
                    sub.append(("at",))
                    args.append(self.start_below(n))
                continue
            rest.pop(0)
            item = self.axis_window(n, d, constant)
            if item is None:
                return None
            sub.append(item[0])
            args += item[1]
        while rest and rest[0] == 1:
            sub.append(("none",))
            rest.pop(0)
        if rest:
            return None
        if all(s[0] == "all" for s in sub) and self.chance(0.7):
            sub = [("dots",)]
        elif sub and sub[-1][0] == "all" and self.chance(0.3):
            sub[-1] = ("dots",)
        return (sub, args) if constant else self.from_run_time(have, sub, args)

    def axis_window(self, n, d, constant):
        r = self.r
        if n == d and (isinstance(n, str) or self.chance(0.85)):
            return ("all",), []
        if isinstance(d, str) or d is None:
            return None
        if isinstance(n, str):
            return (("ds", 1, 1), [self.start_below(n)]) if d == 1 and not constant else None
        if d > n or d == 0:
            return None
        most = (n - 1) // (d - 1) if d > 1 else n
        stride = r.randint(1, min(3, most)) if self.chance(0.3) else 1
        room = n - (d - 1) * stride
        if self.dead and self.chance(0.5):
            start = room + r.randint(0, 9)
            if self.chance(0.5):
                return ("range", start, start + (d - 1) * stride + 1, stride) if self.slices_stride(stride) else ("range", start, start + d, 1), []
            return None if constant else (("ds", d, stride), [index(r.choice([start, -r.randint(1, 9)]))])
        if constant or self.chance(0.4):
            start = r.randrange(room)
            return ("range", start, start + (d - 1) * stride + 1, stride) if self.slices_stride(stride) else ("range", start, start + d, 1), []
        return ("ds", d, stride), [self.start_below(room)]

    def slices_stride(self, stride):
        return stride == 1 or self.slice_steps

    def read(self, ref, t):
        """A window of ref of type t, or None."""
        if ref.dtype != t.dtype or (ref.space == "smem" and t.shape):
            return None
        if not ref.shape:
            return tree.name(ref.name, t) if not t.shape and ref.space == "smem" else None
        self.slice_steps = False
        fit = self.moving_subscripts(ref.shape, t.shape)
        if fit is None:
            return None
        sub, args = fit
        if ref.space == "smem":
            return Expr("load", t, args, ref=ref.name, sub=sub)
        if t.shape and ref.space != "view" and self.chance(0.15) and not any(s[0] == "none" for s in sub):
            mask = self.mask(t.shape)
            other = self.literal(t.dtype, True)
            return Expr("masked_load", t, [mask, other] + args, ref=ref.name, sub=sub, has_other=True)
        return Expr("load", t, args, ref=ref.name, sub=sub)

    def open_window(self, ref, shape):
        """(subscripts, positions, mask) of a window that may leave its ref along one axis; the mask is false outside."""
        have, t, scalar = list(ref.shape), Type("bool", tuple(shape)), None
        if len(have) == len(shape) + 1 and isinstance(have[0], int) and have[0]:
            scalar = have.pop(0)
        differ = [k for k, (n, d) in enumerate(zip(have, shape)) if n != d]
        axes = [k for k, (n, d) in enumerate(zip(have, shape)) if isinstance(n, int) and isinstance(d, int) and n and d]
        if len(have) != len(shape) or not axes or ref.space not in ("vmem", "view") or any(k not in axes for k in differ):
            return None
        chosen = differ + [k for k in axes if k not in differ and self.chance(0.3)] or [self.r.choice(axes)]
        sub, starts, terms = [("all",)] * len(shape), {}, []
        for axis in chosen:
            stride = self.r.choice([1, 1, 1, 2])
            sub[axis], starts[axis] = ("ds", shape[axis], stride), self.anywhere()
            lane = self.iota(shape, axis)
            if stride > 1:
                lane = binary("*", lane.type, lane, Expr("lit", Type("i32", ()), value=stride))
            at = binary("+", lane.type, lane, starts[axis])
            terms += [binary(">=", t, at, index(0)), binary("<", t, at, index(have[axis]))]
        args = [starts[axis] for axis in sorted(starts)]
        if scalar is not None:
            sub, args = [("at",)] + sub, [self.anywhere()] + args
            if args[0].op == "lit":  # a constant that is negative counts from the end
                args[0] = binary("+", INDEX, args[0], self.index_value(0)) if self.indices else index(self.r.randrange(scalar + 3))
            terms += [binary(">=", Type("bool", ()), args[0], index(0)), binary("<", Type("bool", ()), args[0], index(scalar))]
        if self.chance(0.5):
            terms.append(self.mask(shape))
        mask = terms[0]
        for term in terms[1:]:
            mask = binary(self.r.choice(["&", "&&"]), t, mask, term)
        return sub, args, mask

    def anywhere(self):
        """A position that may lie outside."""
        start = self.index_value(2)
        return binary("-", INDEX, start, index(self.r.randint(1, 9))) if self.chance(0.3) else start

    def source(self, t):
        """A read or a value that already has type t."""
        same = [v for v in self.values if v.type == t]
        if same and self.chance(0.5):
            return self.r.choice(same)
        refs = [ref for ref in self.refs if ref.readable and ref.dtype == t.dtype]
        self.r.shuffle(refs)
        for ref in refs:
            fit = self.open_window(ref, t.shape) if t.shape and self.chance(0.1) else None
            if fit is not None:
                sub, args, mask = fit
                return Expr("masked_load", t, [mask, self.literal(t.dtype, True)] + args, ref=ref.name, sub=sub, has_other=True, open=True)
            e = self.read(ref, t)
            if e is not None:
                return e
        return self.r.choice(same) if same else None

    def constant(self, t):
        if t.shape and t.dtype not in ("bool", SCALE) and self.chance(0.4):
            return self.iota(t.shape, self.r.randrange(len(t.shape)), t.dtype)
        if t.shape and self.chance(0.2) and t.dtype != "bool" and self.indices:
            inner = call("cast", Type(t.dtype, ()), [self.r.choice(self.indices)], t.dtype)
            return call("broadcast", t, [inner], tree.shape_text(t.shape))
        return full(t, self.number(t.dtype))

    def leaf(self, t):
        if self.chance(0.85):
            e = self.source(t)
            if e is not None:
                return e
        if self.chance(0.85):
            v = self.near(t)
            if v is not None:
                return self.adapt(v, t)
        return self.constant(t)

    # ---- from one type to another

    def to_dtype(self, v, dtype):
        if v.type.dtype == dtype:
            return v
        return call("cast", Type(dtype, v.type.shape), [v], dtype)

    def adapt(self, v, t):
        """Converts v to type t by casts, slices, padding and broadcasts."""
        v = self.to_dtype(v, t.dtype) if self.chance(0.5) else v
        while len(v.type.shape) > len(t.shape):
            v = self.drop_axis(v)
        have, want = list(v.type.shape), list(t.shape)
        for k in range(1, len(have) + 1):
            v = self.adapt_axis(v, len(v.type.shape) - k, want[-k])
        v = self.to_dtype(v, t.dtype)
        if v.type.shape != t.shape:
            v = call("broadcast", t, [v], tree.shape_text(t.shape))
        return v

    def drop_axis(self, v):
        shape = v.type.shape
        axis = self.r.randrange(len(shape))
        rest = Type(v.type.dtype, shape[:axis] + shape[axis + 1:])
        if shape[axis] == 1:
            return call("squeeze", rest, [v], str(axis), axis=axis)
        if isinstance(shape[axis], int) and self.chance(0.5):
            sub = [("all",)] * axis + [("const", self.r.randint(-shape[axis], shape[axis] - 1))]
            return Expr("index", rest, [v], sub=sub)
        return self.reduced(v, axis, False)

    def reduced(self, v, axis, keep):
        shape, dtype = v.type.shape, v.type.dtype
        out = shape[:axis] + ((1,) if keep else ()) + shape[axis + 1:]
        if dtype == "bool":
            function = self.r.choice(["any", "all", "reduce_xor"])
        else:
            function = self.r.choice(["reduce_max", "reduce_min", "reduce_max"] + ([] if is_float(dtype) else ["reduce_sum", "reduce_xor"]))
        tail = [f"axis = {axis}"] + ([] if keep else ["keep = false"])
        return call(function, Type(dtype, out), [v], *tail, axes=[axis], keep=keep)

    def adapt_axis(self, v, axis, want):
        have, shape, r = v.type.shape[axis], v.type.shape, self.r

        def typed(n):
            return Type(v.type.dtype, shape[:axis] + (n,) + shape[axis + 1:])
        if have == want or have == 1:
            return v
        if isinstance(have, str) or isinstance(want, str) or want == 1:
            return self.reduced(v, axis, True)
        if have > want:
            start = r.randint(0, have - want)
            return Expr("index", typed(want), [v], sub=[("all",)] * axis + [("range", start, start + want, 1)])
        if have * 2 <= want and self.chance(0.5):
            times = want // have
            if self.chance(0.5):
                v = call("repeat", typed(have * times), [v], str(times), f"axis = {axis}", n=times, axis=axis)
            else:
                reps = [times if k == axis else 1 for k in range(len(shape))]
                v = call("tile", typed(have * times), [v], f"({', '.join(map(str, reps))},)", reps=reps)
            return self.adapt_axis(v, axis, want)
        low = r.randint(0, want - have)
        widths = [(low, want - have - low) if k == axis else (0, 0) for k in range(len(shape))]
        return self.padded(v, widths, typed(want))

    def padded(self, v, widths, t):
        value = self.number(t.dtype, True)
        text = ", ".join(f"({a}, {b})" for a, b in widths)
        return call("pad", t, [v], f"({text},)", f"value = {tree.literal_text(value, t.dtype)}", widths=widths, value=value)

    def small(self, v):
        """Small whole numbers, so that sums are exact."""
        if not is_float(v.type.dtype) or v.type.dtype == SCALE or (v.op in ("load", "iota") and self.chance(0.5)):
            return v
        v = call("round", v.type, [v])
        low, high = [Expr("lit", Type(v.type.dtype, ()), value=x) for x in (-4, 4)]
        return call("clamp", v.type, [v, low, high])

    def bounded(self, v):
        """Floats that do not grow from step to step."""
        if not is_float(v.type.dtype) or v.type.dtype == SCALE or self.chance(0.2):
            return v
        limit = 8 if v.type.dtype in NARROW_FLOATS else 60
        low, high = [Expr("lit", Type(v.type.dtype, ()), value=x) for x in (-limit, limit)]
        return call("clamp", v.type, [v, low, high])

    # ---- productions

    def expr(self, t, depth):
        if depth <= 0 or self.dims(t.shape) > MOST_ELEMENTS:
            return self.leaf(t)
        kind = DTYPES[t.dtype].kind
        rules = self.SCALES if t.dtype == SCALE else {"b": self.BOOL, "f": self.FLOAT}.get(kind, self.INT)
        moves = self.MOVES if t.dtype == SCALE else self.SHAPE
        if self.plain:
            rules = moves = [rule for rule in rules if rule in self.PLAIN]
        for _ in range(4):
            rule = self.r.choice(rules if self.chance(0.55) or not t.shape else moves)
            e = getattr(self, rule)(t, depth - 1)
            if e is not None:
                return e
        return self.leaf(t)

    def operand(self, t, depth):
        """An operand that broadcasts to t.shape."""
        shape = t.shape
        if shape and self.chance(0.2):
            shape = tuple(1 if self.chance(0.5) else n for n in shape)
            if self.chance(0.3):
                while shape and shape[0] == 1:
                    shape = shape[1:]
        return self.expr(Type(t.dtype, shape), depth)

    def pair(self, t, depth, literals=True):
        a, b = self.expr(t, depth), self.operand(t, depth - self.chance(0.5))
        if literals and self.chance(0.25):
            b = self.literal(t.dtype)
        elif is_int(t.dtype) and self.chance(0.05) and self.indices:
            b = self.r.choice(self.indices)
        return [a, b] if b.op == "lit" or self.chance(0.7) else [b, a]

    def p_arithmetic(self, t, depth):
        return binary(self.r.choice("+-+-*"), t, *self.pair(t, depth))

    def p_divide(self, t, depth):
        if is_float(t.dtype):
            if self.chance(0.6):
                return binary(self.r.choice("*/"), t, self.expr(t, depth), Expr("lit", Type(t.dtype, ()), value=self.r.choice([2, 4, 0.5])))
            below = binary("+", t, call("abs", t, [self.expr(t, depth - 1)]), Expr("lit", Type(t.dtype, ()), value=1))
            return binary("/", t, self.expr(t, depth), below)
        return binary(self.r.choice("/%"), t, *self.pair(t, depth))

    def p_bits(self, t, depth):
        return binary(self.r.choice(["&", "|", "^"]), t, *self.pair(t, depth, t.dtype != "bool"))

    def p_shift(self, t, depth):
        by = self.expr(t, depth) if self.chance(0.3) else Expr("lit", Type(t.dtype, ()), value=self.r.randint(0, min(7, DTYPES[t.dtype].bits, int_range(t.dtype)[1])))
        return binary(self.r.choice(["<<", ">>", ">>>"]), t, self.expr(t, depth), by)

    def p_integer_function(self, t, depth):
        function = self.r.choice(["floordiv", "mod", "cdiv", "mulhi", "pow"])
        if (function == "cdiv" and (not t.dtype.startswith("i") or t.dtype == "i32")) or (function == "mulhi" and t.dtype in WIDE):
            function = "mod"
        return call(function, t, self.pair(t, depth, False))

    def p_integer_unary(self, t, depth):
        function = self.r.choice(["abs", "sign", "population_count", "clz", "square", "~", "-"])
        v = self.expr(t, depth)
        if function in "~-":
            return Expr("un", t, [v], symbol=function)
        return call(function, t, [v])

    def p_float_unary(self, t, depth):
        function = self.r.choice(["abs", "sign", "floor", "ceil", "round", "trunc", "square", "-", "round_half_away", "sqrt"])
        v = self.expr(t, depth)
        if function == "-":
            return Expr("un", t, [v], symbol="-")
        if function == "sqrt":
            v = call("abs", t, [v])
        return call(function, t, [v])

    def p_function(self, t, depth):
        """Functions that are not exact, used rarely and near the root."""
        if depth > 1 or not self.inexact:
            return None
        function = self.r.choice(ONE + TWO * 3)
        return call(function, t, [self.quarters(t) for _ in range(2 if function in TWO else 1)])

    def quarters(self, t):
        """Small numbers, whole or not, that every float dtype can represent."""
        v = self.small(self.leaf(t))
        return binary("*", t, v, Expr("lit", Type(t.dtype, ()), value=0.25)) if self.chance(0.5) else v

    def p_extremum(self, t, depth):
        values = self.pair(t, depth)
        if self.chance(0.2):
            values.append(self.operand(t, depth - 1))
        return call(self.r.choice(["max", "min"]), t, values)

    def p_clamp(self, t, depth):
        low, high = sorted([self.number(t.dtype, True), self.number(t.dtype, True)])
        return call("clamp", t, [self.expr(t, depth)] + [Expr("lit", Type(t.dtype, ()), value=x) for x in (low, high)])

    def p_fma(self, t, depth):
        return call("fma", t, [self.small(self.expr(t, depth - 1)) for _ in range(3)])

    def p_where(self, t, depth):
        mask = self.expr(Type("bool", t.shape), depth - 1) if self.chance(0.3) else self.mask(t.shape)
        return call("where", t, [mask] + self.pair(t, depth))

    def p_select(self, t, depth):
        if self.chance(0.5):
            return call("select_n", t, [self.mask(t.shape), self.expr(t, depth), self.expr(t, depth - 1)])
        n = self.r.randint(2, 4)
        which = call("mod", Type("i32", t.shape), [self.leaf(Type("i32", t.shape)), Expr("lit", Type("i32", ()), value=n)])
        return call("select_n", t, [which] + [self.expr(t, depth - 1) for _ in range(n)])

    def p_cast(self, t, depth):
        source = self.r.choice([d for d in NUMBERS + ["bool", SCALE] if d != t.dtype])
        return self.to_dtype(self.expr(Type(source, t.shape), depth), t.dtype)

    def p_bitcast(self, t, depth):
        bits = DTYPES[t.dtype].bits
        sources = [d for d in INTS if DTYPES[d].bits == bits and d != t.dtype]
        if is_int(t.dtype) and self.chance(0.4):
            sources = [d for d in FLOATS if DTYPES[d].bits == bits]
        if not sources or is_float(t.dtype):
            return None
        source = self.r.choice(sources)
        v = self.expr(Type(source, t.shape), depth)
        if is_float(source):
            v = binary("+", v.type, self.small(v), Expr("lit", Type(source, ()), value=0.0))
        return call("bitcast", t, [v], t.dtype)

    def p_compare(self, t, depth):
        dtype = self.r.choice(["f32", "i32", self.r.choice(NUMBERS + [SCALE])])
        compare = self.r.choice(["==", "!=", "<", "<=", ">", ">="])
        return binary(compare, t, *self.pair(Type(dtype, t.shape), depth))

    def p_not(self, t, depth):
        return Expr("un", t, [self.expr(t, depth)], symbol="!")

    def p_test(self, t, depth):
        dtype = self.r.choice(FLOATS + [SCALE])
        return call(self.r.choice(["isnan", "isinf", "isfinite"]), t, [self.expr(Type(dtype, t.shape), depth)])

    def p_mask(self, t, depth):
        return self.mask(t.shape)

    BOOL = ["p_compare", "p_compare", "p_not", "p_test", "p_mask", "p_mask", "p_bits", "p_where", "p_cast", "p_any"]
    FLOAT = ["p_arithmetic", "p_arithmetic", "p_arithmetic", "p_divide", "p_float_unary", "p_extremum", "p_clamp", "p_fma", "p_where",
             "p_where", "p_select", "p_cast", "p_cast", "p_function", "p_sum", "p_dot", "p_dot"]
    INT = ["p_arithmetic", "p_arithmetic", "p_divide", "p_bits", "p_shift", "p_integer_function", "p_integer_unary", "p_extremum",
           "p_clamp", "p_where", "p_where", "p_select", "p_cast", "p_cast", "p_bitcast", "p_argreduce", "p_sum", "p_dot", "p_argsort"]
    SHAPE = ["p_gather", "p_gather", "p_conv", "p_transpose", "p_reshape", "p_concatenate", "p_pad", "p_roll", "p_rev", "p_cut", "p_broadcast", "p_take", "p_take_along",
             "p_one_hot", "p_dynamic_slice", "p_dynamic_update", "p_stack", "p_split", "p_reduce", "p_reduce", "p_scan", "p_sort",
             "p_sort_by", "p_top_k", "p_insert_axis", "p_unstack", "p_call_fn"]

    SCALES = ["p_extremum", "p_where", "p_select", "p_cast", "p_cast", "p_clamp"]
    MOVES = ["p_gather", "p_transpose", "p_reshape", "p_concatenate", "p_pad", "p_roll", "p_rev", "p_cut", "p_broadcast", "p_take",
             "p_take_along", "p_stack", "p_split", "p_sort", "p_insert_axis", "p_unstack"]

    PLAIN = ["p_arithmetic", "p_divide", "p_bits", "p_shift", "p_integer_unary", "p_float_unary", "p_extremum", "p_clamp", "p_where",
             "p_select", "p_cast", "p_bitcast", "p_compare", "p_not", "p_mask"]

    # shape functions

    def axis_of(self, t, test=lambda n: True):
        """An axis of constant extent that passes the test, or None."""
        axes = [k for k, n in enumerate(t.shape) if isinstance(n, int) and test(n)]
        return self.r.choice(axes) if axes else None

    def with_axis(self, t, axis, n):
        return Type(t.dtype, t.shape[:axis] + (n,) + t.shape[axis + 1:])

    def p_transpose(self, t, depth):
        n = len(t.shape)
        if n < 2:
            return None
        perm = list(range(n))
        self.r.shuffle(perm)
        if self.chance(0.4):
            perm = perm and list(range(n - 2)) + [n - 1, n - 2]
        source = [None] * n
        for k, p in enumerate(perm):
            source[p] = t.shape[k]
        v = self.expr(Type(t.dtype, tuple(source)), depth)
        if perm == list(range(n - 2)) + [n - 1, n - 2] and self.chance(0.5):
            return Expr("turned", t, [v])
        return call("transpose", t, [v], f"({', '.join(map(str, perm))},)", perm=perm)

    def p_reshape(self, t, depth):
        if any(isinstance(n, str) for n in t.shape):
            return None
        count, shape = self.dims(t.shape), []
        for _ in range(self.r.randint(0, 2)):
            factors = [f for f in range(1, count + 1) if count % f == 0] if count else [0]
            shape.append(self.r.choice(factors))
            count = count // shape[-1] if shape[-1] else 0
        shape.append(count)
        self.r.shuffle(shape)
        return call("reshape", t, [self.expr(Type(t.dtype, tuple(shape)), depth)], tree.shape_text(t.shape))

    def p_concatenate(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 2)
        if axis is None:
            return None
        cut = self.r.randint(1, t.shape[axis] - 1)
        parts = [self.expr(self.with_axis(t, axis, n), depth - 1) for n in (cut, t.shape[axis] - cut)]
        return call("concatenate", t, parts, f"axis = {axis}", axis=axis)

    def p_pad(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 2)
        if axis is None:
            return None
        n = self.r.randint(1, t.shape[axis] - 1)
        low = self.r.randint(0, t.shape[axis] - n)
        widths = [(low, t.shape[axis] - n - low) if k == axis else (0, 0) for k in range(len(t.shape))]
        return self.padded(self.expr(self.with_axis(t, axis, n), depth), widths, t)

    def p_roll(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 1)
        if axis is None:
            return None
        shift = self.r.randint(-3, 9)
        v = self.expr(t, depth)
        along = self.axis_of(t, lambda n: n >= 1)
        if along != axis and self.chance(0.4):
            stride = self.r.randint(-2, 3)
            return call("roll", t, [v], str(shift), f"axis = {axis}", f"stride = {stride}", f"stride_axis = {along}", shift=shift, axis=axis,
                        stride=stride, stride_axis=along)
        return call("roll", t, [v], str(shift), f"axis = {axis}", shift=shift, axis=axis)

    def p_rev(self, t, depth):
        axis = self.axis_of(t)
        return None if axis is None else call("rev", t, [self.expr(t, depth)], f"axis = {axis}", axis=axis)

    def p_cut(self, t, depth):
        """A window of a larger value."""
        axis = self.axis_of(t, lambda n: n >= 1)
        if axis is None:
            return None
        source = self.with_axis(t, axis, t.shape[axis] * self.r.choice([1, 2]) + self.r.randint(0, 3))
        if self.dims(source.shape) > MOST_ELEMENTS:
            return None
        self.slice_steps = True
        fit = self.moving_subscripts(source.shape, t.shape, self.chance(0.6))
        if fit is None:
            return None
        return Expr("index", t, [self.expr(source, depth)] + fit[1], sub=fit[0])

    def p_insert_axis(self, t, depth):
        """A value of another rank, with None or without an axis."""
        ones = [k for k, n in enumerate(t.shape) if n == 1]
        if not ones:
            return None
        axis = self.r.choice(ones)
        v = self.expr(Type(t.dtype, t.shape[:axis] + t.shape[axis + 1:]), depth)
        if not v.type.shape:
            return call("reshape", t, [v], tree.shape_text(t.shape))
        sub = [("none",) if k == axis else ("all",) for k in range(len(t.shape))]
        return Expr("index", t, [v], sub=sub)

    def p_broadcast(self, t, depth):
        shape = tuple(1 if self.chance(0.4) else n for n in t.shape)
        if self.chance(0.3):
            shape = shape[1:]
        return call("broadcast", t, [self.expr(Type(t.dtype, shape), depth)], tree.shape_text(t.shape))

    def places(self, shape, n):
        """Indices below n."""
        t = Type("i32", tuple(shape))
        v = self.affine(shape) if self.chance(0.4) else self.leaf(t)
        return call("mod", t, [v, Expr("lit", Type("i32", ()), value=n)])

    def p_take(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 1)
        if axis is None:
            return None
        n = self.r.randint(1, 20)
        v = self.expr(self.with_axis(t, axis, n), depth)
        return call("take", t, [v, self.places((t.shape[axis],), n)], f"axis = {axis}", axis=axis)

    def p_take_along(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 1)
        if axis is None:
            return None
        n = self.r.randint(1, 20)
        v = self.expr(self.with_axis(t, axis, n), depth)
        return call("take_along_axis", t, [v, self.places(t.shape, n)], f"axis = {axis}", axis=axis)

    def p_gather(self, t, depth):
        """Gathers by vectors of indices, along one to three axes."""
        if not t.shape or any(isinstance(n, str) for n in t.shape) or 0 in t.shape:
            return None
        axes = self.r.choice([1, 1, 2, 2, 3])
        apart = axes == 2 and len(t.shape) >= 2 and self.chance(0.3)
        first = 0 if apart else self.r.randrange(len(t.shape))
        after = self.r.randint(first + 1, min(first + 2, len(t.shape) - apart))
        place, rest = t.shape[first:after], t.shape[after:]
        extents = [self.r.randint(1, 9) for _ in range(axes)]
        if apart:
            source, sub = (extents[0], rest[0], extents[1]) + rest[1:], [("at",), ("all",), ("at",)]
        else:
            source, sub = t.shape[:first] + tuple(extents) + rest, [("all",)] * first + [("at",)] * len(extents)
        if len(source) > 8 or self.dims(source) > MOST_ELEMENTS:
            return None
        shapes = [place] + [tuple(1 if self.chance(0.3) else n for n in place) for _ in extents[1:]]
        self.r.shuffle(shapes)
        at = [self.places(shape, n) for shape, n in zip(shapes, extents)]
        v = self.expr(Type(t.dtype, source), depth)
        sub += [("all",)] * (len(source) - len(sub))
        return Expr("gather", t, [v] + at, sub=sub, direct=v.op == "load" and v.attr["sub"] == [("dots",)] and self.chance(0.7))

    def p_conv(self, t, depth):
        """[batch, spatial.., features] of small numbers."""
        if not 3 <= len(t.shape) <= 4 or any(isinstance(n, str) or n == 0 for n in t.shape) or DTYPES[t.dtype].kind == "b":
            return None
        dtype = self.r.choice([d for d in (FLOATS if is_float(t.dtype) else INTS) if (accumulator(d) == t.dtype) or d == t.dtype] or ["f32"])
        out = accumulator(dtype)
        groups, inner, space = self.r.choice([g for g in (1, 1, 2, 3) if t.shape[-1] % g == 0]), self.r.randint(1, 4), range(len(t.shape) - 2)
        window, strides, dilation = [[self.r.choice(of) for _ in space] for of in ([1, 2, 3], [1, 1, 2], [1, 1, 2])]
        padding = [(self.r.randint(0, 1), self.r.randint(0, 1)) for _ in space]
        extents = [(n - 1) * s + (w - 1) * d + 1 - low - high for n, s, w, d, (low, high) in zip(t.shape[1:], strides, window, dilation, padding)]
        x = Type(dtype, (t.shape[0],) + tuple(extents) + (inner * groups,))
        w = Type(dtype, tuple(window) + (inner, t.shape[-1]))
        if min(extents) < 1 or max(self.dims(x.shape), self.dims(w.shape)) > MOST_ELEMENTS // 2:
            return None
        tail = [f"strides = ({', '.join(map(str, strides))},)", f"padding = ({', '.join(f'({a}, {b})' for a, b in padding)},)",
                f"dilation = ({', '.join(map(str, dilation))},)", f"groups = {groups}"]
        args = [self.small(self.expr(x, depth - 1)), self.small(self.expr(w, 0))]
        v = call("conv", Type(out, t.shape), args, *tail, strides=strides, padding=padding, dilation=dilation, groups=groups)
        return self.to_dtype(v, t.dtype)

    def p_one_hot(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 1)
        if axis is None or any(isinstance(n, str) for n in t.shape):
            return None
        at = self.expr(Type("i32", t.shape[:axis] + t.shape[axis + 1:]), depth - 1)
        return call("one_hot", t, [at], str(t.shape[axis]), f"axis = {axis}", f"dtype = {t.dtype}", axis=axis)

    def starts(self, rank):
        entries = [self.index_value(1) for _ in range(rank)]
        return Expr("tuple", INDEX, entries)

    def p_dynamic_slice(self, t, depth):
        if not t.shape or any(isinstance(n, str) for n in t.shape):
            return None
        source = tuple(n + self.r.choice([0, 0, 1, 3]) for n in t.shape)
        if self.dims(source) > MOST_ELEMENTS:
            return None
        return call("dynamic_slice", t, [self.expr(Type(t.dtype, source), depth), self.starts(len(t.shape))], tree.shape_text(t.shape))

    def p_dynamic_update(self, t, depth):
        if not t.shape or any(isinstance(n, str) or n == 0 for n in t.shape):
            return None
        part = tuple(self.r.randint(1, n) for n in t.shape)
        return call("dynamic_update_slice", t, [self.expr(t, depth), self.expr(Type(t.dtype, part), depth - 1), self.starts(len(t.shape))])

    def p_stack(self, t, depth):
        axis = self.axis_of(t, lambda n: 1 <= n <= 3)
        if axis is None:
            return None
        part = Type(t.dtype, t.shape[:axis] + t.shape[axis + 1:])
        return call("stack", t, [self.expr(part, depth - 1) for _ in range(t.shape[axis])], f"axis = {axis}", axis=axis)

    def p_split(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 1)
        if axis is None:
            return None
        n = t.shape[axis]
        if self.chance(0.5):
            parts = self.r.randint(1, 3)
            source, cuts, text = self.with_axis(t, axis, n * parts), [n * k for k in range(1, parts)], str(parts)
            part = self.r.randrange(parts)
        else:
            low, high = self.r.randint(0, 3), self.r.randint(0, 3)
            source, cuts, part = self.with_axis(t, axis, low + n + high), [low, low + n], 1
            text = f"({low}, {low + n})"
        if self.dims(source.shape) > MOST_ELEMENTS or 0 in cuts or high_end(cuts, source.shape[axis]):
            return None
        whole = call("split", source, [self.expr(source, depth)], text, f"axis = {axis}", cuts=cuts, axis=axis)
        return Expr("part", t, [whole], part=part)

    def p_unstack(self, t, depth):
        axis, n = self.r.randint(0, len(t.shape)), self.r.randint(1, 3)
        source = Type(t.dtype, t.shape[:axis] + (n,) + t.shape[axis:])
        if self.dims(source.shape) > MOST_ELEMENTS:
            return None
        whole = call("unstack", source, [self.expr(source, depth)], f"axis = {axis}", axis=axis)
        return Expr("part", t, [whole], part=self.r.randrange(n))

    # operations along axes

    def extent(self, t):
        """The extent of an axis that the operation removes: a small number, or a size."""
        if self.long_sizes and self.chance(0.15):
            return self.r.choice(self.long_sizes)
        shapes = [ref.shape for ref in self.refs if ref.space == "vmem" and ref.shape] + [v.type.shape for v in self.values if v.type.shape]
        if shapes and self.chance(0.6):
            return self.r.choice(self.r.choice(shapes)) or 1
        return self.r.choice([1, 2, 3, 4, 5, 8, 16, 17, 32])

    def widened(self, t):
        """(type of an operand, axis, keep) of a reduction along one axis with the result t."""
        ones = [k for k, n in enumerate(t.shape) if n == 1]
        n = self.extent(t)
        if ones and self.chance(0.7):
            axis = self.r.choice(ones)
            source, keep = self.with_axis(t, axis, n), True
        else:
            axis = self.r.randint(0, len(t.shape))
            source, keep = Type(t.dtype, t.shape[:axis] + (n,) + t.shape[axis:]), False
        return (source, axis, keep) if self.dims(source.shape) <= MOST_ELEMENTS and len(source.shape) <= 5 else None

    def p_reduce(self, t, depth):
        fit = self.widened(t)
        if fit is None:
            return None
        source, axis, keep = fit
        if t.dtype == "bool":
            function = self.r.choice(["any", "all", "reduce_and", "reduce_or", "reduce_xor"])
        else:
            function = self.r.choice(["reduce_max", "reduce_min"] + (["reduce_and", "reduce_or", "reduce_xor"] if is_int(t.dtype) else []))
        tail = [f"axis = {axis - len(source.shape) if self.chance(0.3) else axis}"] + ([] if keep else ["keep = false"])
        return call(function, t, [self.expr(source, depth)], *tail, axes=[axis], keep=keep)

    def p_any(self, t, depth):
        return self.p_reduce(t, depth)

    def p_sum(self, t, depth):
        fit = self.widened(t)
        if fit is None:
            return None
        source, axis, keep = fit
        function = self.r.choice(["reduce_sum", "reduce_sum", "sum", "reduce_prod" if is_int(t.dtype) else "reduce_sum"])
        axes = [axis]
        tail = [f"axis = {axis}"] + ([] if keep else ["keep = false"])
        return call(function, t, [self.small(self.expr(source, depth))], *tail, axes=axes, keep=keep)

    def p_argreduce(self, t, depth):
        fit = self.widened(t) if t.dtype == "i32" else None
        if fit is None or isinstance(fit[0].shape[fit[1]], str):
            return None
        source, axis, keep = fit
        tail = [f"axis = {axis}"] + ([] if keep else ["keep = false"])
        v = self.expr(Type(self.r.choice(NUMBERS), source.shape), depth)
        return call(self.r.choice(["argmax", "argmin"]), t, [v], *tail, axis=axis, keep=keep)

    def p_scan(self, t, depth):
        if t.dtype == "bool":
            return None
        axis, reverse = self.r.randrange(len(t.shape)), self.chance(0.3)
        function = self.r.choice(["cumsum", "cumsum", "cummax", "cummin"] + (["cumprod"] if is_int(t.dtype) else []))
        v = self.expr(t, depth)
        v = self.small(v) if function == "cumsum" else v
        return call(function, t, [v], f"axis = {axis}", *(["reverse = true"] if reverse else []), axis=axis, reverse=reverse)

    def p_sort(self, t, depth):
        if t.dtype == "bool":
            return None
        axis, descending = self.r.randrange(len(t.shape)), self.chance(0.4)
        return call("sort", t, [self.expr(t, depth)], f"axis = {axis}", *(["descending = true"] if descending else []), axis=axis,
                    descending=descending)

    def p_argsort(self, t, depth):
        if t.dtype != "i32" or not t.shape:
            return None
        axis, descending = self.r.randrange(len(t.shape)), self.chance(0.4)
        v = self.expr(Type(self.r.choice(NUMBERS), t.shape), depth)
        return call("argsort", t, [v], f"axis = {axis}", *(["descending = true"] if descending else []), axis=axis, descending=descending)

    def p_sort_by(self, t, depth):
        axis, descending = self.r.randrange(len(t.shape)), self.chance(0.4)
        key = self.expr(Type(self.r.choice(["i32", "f32"]), t.shape), depth - 1)
        both = call("sort_by", t, [key, self.expr(t, depth - 1)], f"axis = {axis}", *(["descending = true"] if descending else []), axis=axis,
                    descending=descending)
        return Expr("part", t, [both], part=1)

    def p_top_k(self, t, depth):
        axis = self.axis_of(t, lambda n: n >= 1)
        if axis is None or t.dtype not in NUMBERS:
            return None
        k = t.shape[axis]
        part = self.r.randrange(2) if t.dtype == "i32" else 0
        dtype = self.r.choice(NUMBERS) if part and self.chance(0.7) else t.dtype
        source = self.with_axis(Type(dtype, t.shape), axis, k + self.r.randint(0, 6))
        if self.dims(source.shape) > MOST_ELEMENTS:
            return None
        both = call("top_k", t, [self.expr(source, depth)], str(k), f"axis = {axis}", axis=axis, k=k)
        return Expr("part", t, [both], part=part)

    # products

    def p_dot(self, t, depth):
        if len(t.shape) < 2 or len(t.shape) > 4 or self.dims(t.shape) > 1024:
            return None
        dtype = self.r.choice(["f32", "f32", "bf16", "f16", self.r.choice(FLOATS)] if is_float(t.dtype) else
                              ["i8", "i32", "u8", self.r.choice(INTS)])
        other = dtype
        if is_float(dtype) and dtype != "f64" and self.chance(0.3):
            other = self.r.choice([d for d in FLOATS if d != "f64"] + ["i8", "u8", "i4", "u4", "i16", "u16"])
        if not is_float(dtype) and dtype not in ("i64", "u64") and self.chance(0.3):
            other = self.r.choice(["i8", "u8", self.r.choice([d for d in INTS if d not in ("i64", "u64")])])
        accumulated = accumulator(dtype)
        if other != dtype and self.chance(0.5):
            dtype, other = other, dtype
        out = "" if t.dtype == accumulated else f"out = {t.dtype}"
        if out and not is_float(t.dtype):
            v = self.product(Type(accumulated, t.shape), dtype, other, [], depth)
            return None if v is None else self.to_dtype(v, t.dtype)
        return self.product(t, dtype, other, [out] if out else [], depth)

    def product(self, t, dtype, other, tail, depth):
        """Operands in any order of axes, leading axes as a batch."""
        k, rank = self.extent(t), len(t.shape)
        tail = tail + ([f'precision = "{self.r.choice(PRECISIONS)}"'] if dtype == other == "f32" and self.chance(0.3) else [])
        batch = t.shape[:rank - 2]
        letters = "bcde"[:rank - 2]
        a, b, turned_a, turned_b = letters + "mk", letters + "kn", self.chance(0.25), self.chance(0.4)
        a = letters + "km" if turned_a else a
        b = letters + "nk" if turned_b else b
        sizes = dict(zip(letters, batch), m=t.shape[-2], n=t.shape[-1], k=k)
        left, right = [Type(d, tuple(sizes[c] for c in word)) for d, word in ((dtype, a), (other, b))]
        if max(self.dims(left.shape), self.dims(right.shape)) > MOST_ELEMENTS:
            return None
        args = [self.small(self.expr(left, depth - 1 if self.chance(0.5) else 0)), self.small(self.expr(right, depth - 1 if self.chance(0.5) else 0))]
        spec = f"{a},{b}->{letters}mn"
        if not batch and not turned_a and not turned_b and self.chance(0.7):
            return call("dot", t, args, *tail, spec=spec)
        if self.chance(0.35):
            return self.einsum(t, spec, args, tail)
        contract = f"contract = (({a.index('k')},), ({b.index('k')},))"
        more = [f"batch = (({', '.join(map(str, range(len(letters))))},), ({', '.join(map(str, range(len(letters))))},))"] if batch else []
        return call("dot", t, args, contract, *more, *tail, spec=spec)

    def einsum(self, t, spec, args, tail):
        e = call("einsum", t, args, *tail, spec=spec)
        e.attr["first"] = f'"{spec}"'
        return e

    def p_call_fn(self, t, depth):
        if self.in_fn or len(self.fns) > 2 or not self.chance(0.6):
            return None
        same = [f for f in self.fns if f[2].type == t]
        if same:
            fn = self.r.choice(same)
        else:
            fn = self.make_fn(t, depth)
        return call(fn[0], t, [self.expr(p, depth - 1) for p in fn[4]])

    def make_fn(self, t, depth):
        """A function of one or two values that uses no other names."""
        params = [f"p{len(self.fns)}{c}" for c in "ab"[:self.r.randint(1, 2)]]
        types = [t] + ([Type(self.r.choice(["f32", "i32", t.dtype]), t.shape)] if len(params) > 1 else [])
        kept = self.values, self.refs, self.indices, self.in_fn
        self.values = [tree.name(p, x) for p, x in zip(params, types)]
        self.refs, self.indices, self.in_fn = [], [], True
        body = self.expr(t, max(1, depth))
        self.values, self.refs, self.indices, self.in_fn = kept
        has_size = names_size(body)
        fn = (f"f{len(self.fns)}", params, body, has_size or self.chance(0.5), types)
        self.fns.append(fn)
        return fn


PRECISIONS = ["default", "high", "highest"]  # these matter only to the matrix unit of a TPU


def names_size(expr):
    """Whether a shape in the function names a size of the kernel; such a function is declared inside the kernel."""
    return any(isinstance(n, str) for e in tree.walk_expr(expr) for n in e.type.shape)


def high_end(cuts, n):
    return any(c >= n for c in cuts)
