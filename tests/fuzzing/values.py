"""Random values of a .pk kernel: elementwise operations, reductions, products, rearrangements (for tests/fuzz.py)."""
import re

FLOATS = ["f32", "bf16", "f16"]
INTS = ["i8", "u8", "i16", "u16", "i32", "u32"]
RANGE = {"i8": (-128, 127), "u8": (0, 255), "i16": (-(1 << 15), (1 << 15) - 1), "u16": (0, (1 << 16) - 1),
         "i32": (-(1 << 31), (1 << 31) - 1), "u32": (0, (1 << 32) - 1)}
BLOCKS = [1, 2, 3, 4, 5, 6, 7, 8, 8, 11, 12, 13, 16, 16, 17, 19, 24, 31, 32, 33, 40, 48, 64]
MOST_ELEMENTS = 6000        # limit of the elements of a value
MOST_FLOAT = 4096           # greatest magnitude of a float before it is clamped

# ---- parts of a kernel


class Value:
    """`dirty` has for each axis None, or (start, size): elements whose index plus start is not below size are unspecified."""

    def __init__(self, text, shape, dtype, bound, exact=True, dirty=None):
        self.text, self.shape, self.dtype, self.bound, self.exact = text, tuple(shape), dtype, bound, exact
        self.dirty = tuple(dirty) if dirty else (None,) * len(self.shape)


class Dim:
    """An axis of operands: its length, that of a block, and the block of a step."""

    def __init__(self, size, block, index="0", start="0", axis=None, overhang=False, partial=False):
        self.size, self.block, self.index, self.start = size, block, index, start
        self.axis, self.overhang, self.partial = axis, overhang, partial

    def tag(self):
        return (self.start, self.size) if self.overhang else None


class Ref:
    """Memory that the body may read and write by windows."""

    def __init__(self, name, shape, dtype, bound=0):
        self.name, self.shape, self.dtype, self.bound, self.exact = name, tuple(shape), dtype, bound, True


def brackets(shape):
    return "[" + ", ".join(str(s) for s in shape) + "]"


def elements(shape):
    product = 1
    for s in shape:
        product *= s if isinstance(s, int) else 24
    return product


class Values:
    """The text of a kernel as it is written, and values that are formed from others."""

    def __init__(self, rng):
        self.r = rng
        self.lines, self.head, self.depth = [], [], 1
        self.values, self.refs, self.scalars = [], [], []
        self.sizes = {}             # name -> list of plausible run-time values
        self.names = 0
        self.functions = []
        self.loop_names = []
        self.must_clamp = False

    # ---- text

    def name(self, base):
        self.names += 1
        return f"{base}{self.names}"

    def say(self, text):
        self.lines.append("  " * self.depth + text)

    def open(self, text):
        self.say(text + " {")
        self.depth += 1
        return len(self.values)

    def close(self, mark):
        del self.values[mark:]
        self.depth -= 1
        self.say("}")

    def chance(self, p):
        return self.r.random() < p

    # ---- values

    def let(self, expr, shape, dtype, bound, exact=True, dirty=None, keep=True):
        """Binds a value to a name; floats that could grow too large are clamped."""
        if dtype in FLOATS and bound > MOST_FLOAT:
            expr, bound = f"clamp({expr}, -100, 100)", 100
        if dtype in RANGE:
            bound = min(bound, max(abs(b) for b in RANGE[dtype]))
        if dtype == "bool":
            bound = 1
        v = Value(self.name("v"), shape, dtype, bound, exact, dirty)
        self.say(f"let {v.text} = {expr};")
        if keep:
            self.values.append(v)
        return v

    def literal(self, dtype):
        if dtype == "bool":
            return self.r.choice(["true", "false"])
        low = 0 if dtype.startswith("u") else -4
        return str(self.r.randint(low, 5))

    def iota(self, shape, dtype):
        """A new value of this shape."""
        if not shape:
            return self.let(f"full([], {self.literal(dtype)}, dtype = {dtype})", (), dtype, 5)
        axis = self.r.randrange(len(shape))
        as_type = f"iota({brackets(shape)}, axis = {axis})"
        as_type = f"{as_type} % {self.r.randint(2, 9)}"
        if dtype == "bool":
            return self.let(f"{as_type} == 1", shape, "bool", 1)
        return self.let(f"cast({as_type}, {dtype})", shape, dtype, 9)

    def pick(self, want=lambda v: True):
        found = [v for v in self.values if want(v)]
        if not found:
            return None
        return found[-1 - int(len(found) * self.r.random() ** 1.5)] if self.chance(0.5) else self.r.choice(found)

    def clean(self, v, axes=None):
        """The same value with unspecified elements replaced."""
        for a, tag in enumerate(v.dirty):
            if tag is None or (axes is not None and a not in axes):
                continue
            other = self.literal(v.dtype)
            mask = f"{tag[0]} + iota({brackets(v.shape)}, axis = {a}) < {tag[1]}"
            dirty = [None if b == a else t for b, t in enumerate(v.dirty)]
            v = self.let(f"where({mask}, {v.text}, {other})", v.shape, v.dtype, max(v.bound, 5), v.exact, dirty)
        return v

    def small(self, v, limit):
        """The same value with magnitudes of at most `limit`; integers may wrap and stay unchanged."""
        if v.dtype not in FLOATS or v.bound <= limit:
            return v
        limit = max(1, int(limit))
        return self.let(f"clamp({v.text}, -{limit}, {limit})", v.shape, v.dtype, limit, v.exact, v.dirty)

    def cast(self, v, dtype):
        if v.dtype == dtype:
            return v
        if not v.exact and dtype not in FLOATS:
            return self.iota(v.shape, dtype)
        if v.bound > 100 and dtype in FLOATS and v.dtype not in FLOATS:
            low = 0 if v.dtype.startswith("u") else -9
            v = self.let(f"clamp({v.text}, {low}, 9)", v.shape, v.dtype, 9, v.exact, v.dirty)
        bound = v.bound
        if dtype in RANGE and v.bound > RANGE[dtype][1]:
            bound = 1 << 33
        if dtype.startswith("u") and v.dtype not in FLOATS:
            bound = 1 << 33
        return self.let(f"cast({v.text}, {dtype})", v.shape, dtype, bound, v.exact, v.dirty)

    def fit(self, v, shape, tags=None):
        """Converts the value to a shape."""
        shape = tuple(shape)
        if re.fullmatch(r"-?\d+|true|false", v.text):
            return self.let(f"full({brackets(shape)}, {v.text}, dtype = {v.dtype})", shape, v.dtype, v.bound)
        if v.shape == shape and all(t is None or (tags and tags[a] == t) for a, t in enumerate(v.dirty)):
            return v
        v = self.clean(v)
        while len(v.shape) > len(shape):
            v = self.drop_axis(v)
        while len(v.shape) < len(shape):
            a = self.r.randint(0, len(v.shape))
            index = [":"] * len(v.shape)
            index.insert(a, "None")
            v = self.let(f"{v.text}[{', '.join(index)}]", v.shape[:a] + (1,) + v.shape[a:], v.dtype, v.bound, v.exact)
        for a in range(len(shape)):
            v = self.fit_axis(v, a, shape[a])
        if v.shape != shape:
            v = self.let(f"broadcast({v.text}, {brackets(shape)})", shape, v.dtype, v.bound, v.exact)
        return v

    def drop_axis(self, v):
        a = self.r.randrange(len(v.shape))
        shape = v.shape[:a] + v.shape[a + 1:]
        if isinstance(v.shape[a], int) and self.chance(0.4):
            index = [":"] * len(v.shape)
            index[a] = str(self.r.randrange(v.shape[a]))
            return self.let(f"{v.text}[{', '.join(index)}]", shape, v.dtype, v.bound, v.exact)
        return self.reduce(v, a, keep=False)

    def fit_axis(self, v, a, to):
        have = v.shape[a]
        if have == to or have == 1:
            return v
        if to == 1 or not isinstance(have, int) or not isinstance(to, int):
            return self.reduce(v, a, keep=True)
        if have > to:
            return self.slice_axis(v, a, to)
        shape = v.shape[:a] + (to,) + v.shape[a + 1:]
        before = self.r.randint(0, to - have)
        if self.chance(0.6) or before + have + before > to:
            pads = ", ".join(f"({before}, {to - have - before})" if b == a else "(0, 0)" for b in range(len(shape)))
            pads = f"({pads},)" if len(shape) == 1 else f"({pads})"
            return self.let(f"pad({v.text}, {pads}, value = {self.literal(v.dtype)})", shape, v.dtype, max(v.bound, 5), v.exact)
        times = -(-to // have)
        w = self.let(f"concatenate([{', '.join([v.text] * times)}], axis = {a})", v.shape[:a] + (have * times,) + v.shape[a + 1:],
                     v.dtype, v.bound, v.exact)
        return self.slice_axis(w, a, to)

    def slice_axis(self, v, a, to):
        have = v.shape[a]
        if have == to:
            return v
        step = self.r.randint(1, (have - 1) // (to - 1)) if to > 1 and self.chance(0.3) else 1
        start = self.r.randint(0, have - (to - 1) * step - 1)
        stop = min(have, start + (to - 1) * step + 1)
        index = [":"] * len(v.shape)
        index[a] = f"{start}:{stop}" + (f":{step}" if step > 1 else "")
        return self.let(f"{v.text}[{', '.join(index)}]", v.shape[:a] + (to,) + v.shape[a + 1:], v.dtype, v.bound, v.exact)

    def reduce(self, v, axis, keep, op=None):
        """A reduction over one axis or a tuple of axes, without unspecified elements among the reduced ones."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        v = self.clean(v, axes)
        ops = ["and", "or"] if v.dtype == "bool" else ["sum", "sum", "max", "min", "prod"]
        op = op or self.r.choice(ops)
        count = elements([v.shape[a] for a in axes])
        bound = v.bound
        if op == "sum":
            v = self.small(v, min(500, (1 << 22) / max(count, 64)))
            bound = v.bound * count
        if op == "prod":
            if v.dtype in FLOATS:
                v = self.small(v, 1)
            bound = 1 if v.dtype in FLOATS else 1 << 33
        shape = [1 if a in axes else s for a, s in enumerate(v.shape) if keep or a not in axes]
        dirty = [None if a in axes else t for a, t in enumerate(v.dirty) if keep or a not in axes]
        where = str(axes[0]) if len(axes) == 1 else "(" + ", ".join(map(str, axes)) + ")"
        return self.let(f"reduce_{op}({v.text}, axis = {where}" + ("" if keep else ", keep = false") + ")", shape, v.dtype, bound,
                        v.exact, dirty)

    # ---- elementwise

    def partner(self, v, dtype=None):
        """Another value that broadcasts with v."""
        dtype = dtype or v.dtype
        if self.chance(0.15):
            return Value(self.literal(dtype), (), dtype, 5)
        if self.chance(0.1) and self.scalars:
            return self.cast(self.r.choice(self.scalars), dtype)
        w = self.pick(lambda w: w.shape == v.shape and w.dtype == dtype and w.text != v.text) if self.chance(0.5) else self.pick()
        if w is None:
            return self.iota(v.shape, dtype)
        w = self.cast(w, dtype)
        if w.shape != v.shape or self.chance(0.1):
            rank = len(v.shape) if self.chance(0.7) else self.r.randint(0, len(v.shape))
            target = [1 if self.chance(0.2) else s for s in v.shape[len(v.shape) - rank:]]
            w = self.fit(w, target, v.dirty[len(v.shape) - rank:])
        return w

    def join(self, *values):
        """The shape and unspecified parts of values that broadcast together; values with different unspecified parts are cleaned."""
        rank = max(len(v.shape) for v in values)
        shape, dirty, out = [1] * rank, [None] * rank, []
        for v in values:
            skip = rank - len(v.shape)
            bad = [a for a, t in enumerate(v.dirty) if t and dirty[a + skip] not in (None, t)]
            v = self.clean(v, bad) if bad else v
            for a, s in enumerate(v.shape):
                shape[a + skip] = s if shape[a + skip] == 1 else shape[a + skip]
                dirty[a + skip] = dirty[a + skip] or v.dirty[a]
            out.append(v)
        return shape, dirty, out

    def op_unary(self):
        v = self.pick()
        exact, bound, dtype = v.exact, v.bound, v.dtype
        if dtype == "bool":
            expr = f"!{v.text}"
        elif dtype in INTS:
            expr = self.r.choice(["-{0}", "abs({0})", "sign({0})", "~{0}", "population_count({0})", "clz({0})", "{0} * {0}", "-({0} + 1)"])
            expr, bound = expr.format(v.text), 1 << 33
        elif exact and self.chance(0.7):
            expr = self.r.choice(["-{0}", "abs({0})", "sign({0})", "floor({0})", "round({0})", "{0} * {0}", "trunc({0} * 0.5)",
                                  "ceil({0} * 0.25)", "max({0}, 0)"])
            expr, bound = expr.format(v.text), bound * bound + 1
        else:
            v = self.small(v, 8)
            expr = self.r.choice(["exp({0} * 0.25)", "tanh({0} * 0.25)", "logistic({0})", "erf({0} * 0.125)", "sqrt(abs({0}) + 1)",
                                  "rsqrt({0} * {0} + 1)", "log(abs({0}) + 2)", "{0} / 3", "reciprocal(abs({0}) + 1)", "sin({0})",
                                  "log1p(abs({0}))", "expm1({0} * 0.125)", "exp2({0} * 0.5)", "cos({0})"])
            expr, bound, exact = expr.format(v.text), 20, False
        return self.let(expr, v.shape, dtype, bound, exact, v.dirty)

    def op_binary(self):
        v = self.pick()
        if v.dtype != "bool" and not v.exact:
            v = self.small(v, 16)
        w = self.partner(v)
        shape, dirty, (v, w) = self.join(v, w)
        a, b = (v, w) if self.chance(0.5) else (w, v)
        if a.text.lstrip("-").isdigit() or a.text in ("true", "false"):
            a, b = b, a
        exact, bound = v.exact and w.exact, v.bound + w.bound
        if v.dtype == "bool":
            expr = self.r.choice(["{0} && {1}", "{0} || {1}", "{0} ^ {1}", "{0} == {1}", "{0} != {1}", "{0} & !{1}"])
        elif v.dtype in INTS:
            expr = self.r.choice(["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} % {1}", "floordiv({0}, {1})", "mod({0}, {1})",
                                  "min({0}, {1})", "max({0}, {1})", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "cdiv({0}, {1})",
                                  "{0} << ({1} & 15)", "{0} >> ({1} & 31)", "{0} >>> ({1} & 15)", "pow({0}, {1} & 3)",
                                  "clamp({0}, 0, max({1}, 0))", "fn0({0}, {1})"])
            bound = 1 << 33
            if "fn0" in expr and not self.functions:
                expr = "{0} + {1}"
        else:
            choices = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "max({0}, {1})", "min({0}, {1})", "{0} * 2 - {1}", "fma({0}, {1}, {0})"]
            if self.functions:
                choices.append("fn0({0}, {1})")
            if self.chance(0.1):
                choices, exact = ["{0} / (abs({1}) + 1)"], False
            expr = self.r.choice(choices)
            if "*" in expr or "fma" in expr or "fn0" in expr:
                bound = (v.bound + 2) * (w.bound + 2)
        return self.let(expr.format(a.text, b.text), shape, v.dtype, bound, exact, dirty)

    def condition(self, v):
        """Bools that broadcast with v."""
        kind = self.r.randrange(4)
        if kind == 0 and v.shape:
            a = self.r.randrange(len(v.shape))
            add = self.r.choice(["", " + " + self.index_scalar()])
            other = f"iota({brackets(v.shape)}, axis = {self.r.randrange(len(v.shape))})"
            bound = self.r.choice([str(self.r.randint(0, 20)), self.index_scalar(), other])
            return self.let(f"iota({brackets(v.shape)}, axis = {a}){add} {self.compare()} {bound}", v.shape, "bool", 1)
        if kind == 1:
            w = self.pick(lambda w: w.dtype == "bool")
            if w is not None:
                return self.partner(v, "bool")
        w = self.partner(v, self.r.choice(["f32", "i32", "i8", "bf16", v.dtype]))
        if not w.exact or w.dtype == "bool" or w.text.lstrip("-").isdigit():
            return self.iota(v.shape, "bool")
        if self.chance(0.3) and w.dtype in INTS:
            return self.let(f"{w.text} {self.compare()} {self.index_scalar()}", w.shape, "bool", 1, True, w.dirty)
        return self.let(f"{w.text} {self.compare()} {self.literal(w.dtype)}", w.shape, "bool", 1, True, w.dirty)

    def compare(self):
        return self.r.choice(["<", "<=", ">", ">=", "==", "!="])

    def op_where(self):
        v = self.pick()
        c, w = self.condition(v), self.partner(v)
        shape, dirty, (c, v, w) = self.join(c, v, w)
        a, b = (v, w) if self.chance(0.5) else (w, v)
        if a.text in ("true", "false") or (a.text.lstrip("-").isdigit()):
            a, b = b, a
        return self.let(f"where({c.text}, {a.text}, {b.text})", shape, v.dtype, max(v.bound, w.bound), v.exact and w.exact, dirty)

    def op_compare(self):
        v = self.pick(lambda v: v.exact and v.dtype != "bool")
        return self.condition(v) if v else None

    def op_cast(self):
        v = self.pick()
        return self.cast(v, self.r.choice(["f32", "bf16", "f16", "bool"] + INTS))

    # ---- reductions and the like

    def op_reduce(self):
        v = self.pick(lambda v: len(v.shape) > 0)
        if v is None:
            return None
        rank = len(v.shape)
        count = 1 if self.chance(0.7) else self.r.randint(1, rank)
        return self.reduce(v, tuple(sorted(self.r.sample(range(rank), count))), self.chance(0.7))

    def op_along(self):
        v = self.pick(lambda v: len(v.shape) > 0 and v.dtype != "bool")
        if v is None:
            return None
        a = self.r.randrange(len(v.shape))
        v = self.clean(v, [a])
        kinds = ["cumsum", "cummax"]
        if v.exact:
            kinds += ["argmax", "argmin", "sort", "argsort", "cumprod"]
        kind = self.r.choice(kinds)
        n = elements([v.shape[a]])
        if kind in ("argmax", "argmin"):
            keep = self.chance(0.7)
            shape = [1 if b == a else s for b, s in enumerate(v.shape) if keep or b != a]
            dirty = [None if b == a else t for b, t in enumerate(v.dirty) if keep or b != a]
            return self.let(f"{kind}({v.text}, axis = {a}" + ("" if keep else ", keep = false") + ")", shape, "i32", 200, True, dirty)
        more = ", reverse = true" if self.chance(0.4) else ""
        bound, dtype = v.bound, v.dtype
        if kind == "cumprod":
            v, bound = self.small(v, 1), 1 if v.dtype in FLOATS else 1 << 33
        if kind == "cumsum":
            v = self.small(v, 100)
            bound = v.bound * n
        if kind in ("sort", "argsort"):
            more = more.replace("reverse", "descending")
            dtype, bound = ("i32", 200) if kind == "argsort" else (dtype, bound)
        return self.let(f"{kind}({v.text}, axis = {a}{more})", v.shape, dtype, bound, v.exact, v.dirty)

    def op_softmax(self):
        v = self.pick(lambda v: len(v.shape) > 0 and v.dtype in FLOATS)
        if v is None:
            return None
        v = self.small(v, 8)
        a = self.r.randrange(len(v.shape))
        v = self.clean(v, [a])
        most = self.reduce(v, a, True, "max")
        p = self.let(f"exp({v.text} - {most.text})", v.shape, v.dtype, 1, False, v.dirty)
        if self.chance(0.6):
            total = self.reduce(p, a, True, "sum")
            p = self.let(f"{p.text} / {total.text}", v.shape, v.dtype, 1, False, v.dirty)
        return p

    # ---- products

    def dot_partner(self, a):
        """A value with an axis as long as one of a: (value, axis of a, axis of the value)."""
        found = []
        for b in self.values:
            if b.dtype == a.dtype and b.shape and b.exact | a.exact:
                found += [(b, i, j) for i, m in enumerate(a.shape) for j, n in enumerate(b.shape) if m == n and m != 1]
        return self.r.choice(found) if found else None

    def op_dot(self):
        a = self.pick(lambda v: 0 < len(v.shape) <= 3 and v.dtype != "bool")
        if a is None:
            return None
        if self.chance(0.3):
            a = self.cast(a, self.r.choice(["f32", "bf16", "f16", "i8", "i16", "i32", "u8", "u16"]))
        found = self.dot_partner(a)
        if found is None or self.chance(0.15):
            j = self.r.choice(BLOCKS)
            b = self.cast(self.pick(), a.dtype)
            found = (self.fit(b, [a.shape[-1], j]), len(a.shape) - 1, 0)
        b, i, j = found
        if len(b.shape) > 3:
            return None
        a, b = self.clean(a, [i]), self.clean(b, [j])
        count = elements([a.shape[i]])
        limit = min(200, ((1 << 23) / max(count, 32)) ** 0.5)
        a, b = self.small(a, limit), self.small(b, limit)
        return self.emit_dot(a, b, i, j, count)

    def emit_dot(self, a, b, i, j, count):
        batches = [(m, n) for m in range(len(a.shape)) for n in range(len(b.shape))
                   if m != i and n != j and a.shape[m] == b.shape[n] and a.dirty[m] == b.dirty[n]]
        batch = [self.r.choice(batches)] if batches and max(len(a.shape), len(b.shape)) > 2 and self.chance(0.7) else []
        free_a = [m for m in range(len(a.shape)) if m != i and m not in [p[0] for p in batch]]
        free_b = [n for n in range(len(b.shape)) if n != j and n not in [p[1] for p in batch]]
        shape = [a.shape[m] for m, _ in batch] + [a.shape[m] for m in free_a] + [b.shape[n] for n in free_b]
        dirty = [a.dirty[m] for m, _ in batch] + [a.dirty[m] for m in free_a] + [b.dirty[n] for n in free_b]
        if elements(shape) > MOST_ELEMENTS or elements(shape) * count > 200000:
            return None
        out = "f32" if a.dtype in FLOATS else "i32"
        bound = a.bound * b.bound * count
        plain = len(a.shape) == 2 and len(b.shape) == 2 and not batch
        if plain and self.chance(0.7):
            left = a.text if i == 1 else f"{a.text}.T"
            right = b.text if j == 0 else f"{b.text}.T"
            return self.let(f"dot({left}, {right})", shape, out, bound, a.exact and b.exact, dirty)
        text = f"contract = (({i},), ({j},))"
        if batch:
            text += f", batch = (({batch[0][0]},), ({batch[0][1]},))"
        return self.let(f"dot({a.text}, {b.text}, {text})", shape, out, bound, a.exact and b.exact, dirty)

    # ---- rearranging

    def op_shape(self):
        v = self.pick(lambda v: 0 < len(v.shape) and elements(v.shape) <= 2000)
        if v is None:
            return None
        kind = self.r.choice(["transpose", "rev", "roll", "pad", "concatenate", "reshape", "take", "repeat", "tile", "slice", "none", "T"])
        return getattr(self, "shape_" + kind)(v)

    def same(self, expr, v, shape, dirty=None):
        return self.let(expr, shape, v.dtype, v.bound, v.exact, dirty)

    def shape_transpose(self, v):
        perm = list(range(len(v.shape)))
        self.r.shuffle(perm)
        text = "(" + ", ".join(map(str, perm)) + ("," if len(perm) == 1 else "") + ")"
        return self.same(f"transpose({v.text}, {text})", v, [v.shape[p] for p in perm], [v.dirty[p] for p in perm])

    def shape_T(self, v):
        if len(v.shape) < 2:
            return None
        return self.same(f"{v.text}.T", v, v.shape[:-2] + (v.shape[-1], v.shape[-2]), v.dirty[:-2] + (v.dirty[-1], v.dirty[-2]))

    def shape_rev(self, v):
        a = self.r.randrange(len(v.shape))
        v = self.clean(v, [a])
        return self.same(f"rev({v.text}, axis = {a})", v, v.shape, v.dirty)

    def shape_roll(self, v):
        a = self.r.randrange(len(v.shape))
        v = self.clean(v, [a])
        shift = self.r.choice([str(self.r.randint(-9, 9)), str(self.r.randint(1, 3)), self.index_scalar()])
        return self.same(f"roll({v.text}, {shift}, axis = {a})", v, v.shape, v.dirty)

    def shape_pad(self, v):
        v = self.clean(v)
        if not all(isinstance(s, int) for s in v.shape):
            return None
        pads = [(self.r.choice([0, 0, 1, 3]), self.r.choice([0, 0, 2, 5])) for _ in v.shape]
        text = "(" + ", ".join(f"({a}, {b})" for a, b in pads) + ("," if len(pads) == 1 else "") + ")"
        shape = [s + a + b for s, (a, b) in zip(v.shape, pads)]
        return self.let(f"pad({v.text}, {text}, value = {self.literal(v.dtype)})", shape, v.dtype, max(v.bound, 5), v.exact)

    def shape_concatenate(self, v):
        a = self.r.randrange(len(v.shape))
        if not isinstance(v.shape[a], int):
            return None
        parts = [self.clean(v)]
        for _ in range(self.r.randint(1, 2)):
            w = self.pick(lambda w: w.dtype == v.dtype)
            length = self.r.choice([1, 3, 8, v.shape[a]])
            parts.append(self.fit(w, v.shape[:a] + (length,) + v.shape[a + 1:]))
        self.r.shuffle(parts)
        shape = v.shape[:a] + (sum(p.shape[a] for p in parts),) + v.shape[a + 1:]
        return self.let(f"concatenate([{', '.join(p.text for p in parts)}], axis = {a})", shape, v.dtype, max(p.bound for p in parts),
                        all(p.exact for p in parts))

    def shape_reshape(self, v):
        if not all(isinstance(s, int) for s in v.shape):
            return None
        v = self.clean(v)
        rest, shape = elements(v.shape), []
        while rest > 1 and len(shape) < 3:
            divisors = [d for d in range(1, rest + 1) if rest % d == 0]
            shape.append(self.r.choice(divisors))
            rest //= shape[-1]
        shape.append(rest)
        return self.same(f"reshape({v.text}, {brackets(shape)})", v, shape)

    def shape_take(self, v):
        a = self.r.randrange(len(v.shape))
        if not isinstance(v.shape[a], int):
            return None
        v = self.clean(v)
        length = self.r.choice([1, 2, 5, v.shape[a]])
        i = self.pick(lambda w: w.dtype == "i32" and w.exact)
        i = self.fit(i if i and self.chance(0.7) else self.iota(v.shape, "i32"), v.shape[:a] + (length,) + v.shape[a + 1:])
        return self.same(f"take_along_axis({v.text}, mod({i.text}, {v.shape[a]}), axis = {a})", v, i.shape)

    def shape_repeat(self, v):
        a = self.r.randrange(len(v.shape))
        if not isinstance(v.shape[a], int) or v.shape[a] > 40:
            return None
        v, n = self.clean(v), self.r.randint(1, 3)
        return self.same(f"repeat({v.text}, {n}, axis = {a})", v, v.shape[:a] + (v.shape[a] * n,) + v.shape[a + 1:])

    def shape_tile(self, v):
        if not all(isinstance(s, int) and s < 40 for s in v.shape):
            return None
        v, reps = self.clean(v), [self.r.choice([1, 1, 2, 3]) for _ in v.shape]
        text = "(" + ", ".join(map(str, reps)) + ("," if len(reps) == 1 else "") + ")"
        return self.same(f"tile({v.text}, {text})", v, [s * n for s, n in zip(v.shape, reps)])

    def shape_slice(self, v):
        a = self.r.randrange(len(v.shape))
        if not isinstance(v.shape[a], int) or v.shape[a] < 2:
            return None
        return self.slice_axis(self.clean(v), a, self.r.randint(1, v.shape[a] - 1))

    def shape_none(self, v):
        if len(v.shape) > 3:
            return None
        a = self.r.randint(0, len(v.shape))
        index = [":"] * len(v.shape)
        index.insert(a, "None")
        return self.same(f"{v.text}[{', '.join(index)}]", v, v.shape[:a] + (1,) + v.shape[a:], v.dirty[:a] + (None,) + v.dirty[a:])

    # ---- scalars

    def index_scalar(self):
        """A small index scalar."""
        axes = [a.name for a in self.axes] + self.loop_names
        choices = [str(self.r.randint(0, 6))]
        if axes:
            name = self.r.choice(axes)
            choices += [name, f"{name} % {self.r.randint(1, 4)}", f"({name} * {self.r.randint(1, 5)} + {self.r.randint(0, 3)})", f"(2 - {name})"]
        if self.sizes:
            choices.append(self.r.choice(sorted(self.sizes)))
        return self.r.choice(choices)

    def scalar_condition(self):
        smem = [s for s in self.scalars if s.dtype in INTS]
        if smem and self.chance(0.4):
            return f"{self.r.choice(smem).text} {self.compare()} {self.r.randint(0, 5)}"
        text = f"{self.index_scalar()} {self.compare()} {self.r.randint(0, 3)}"
        if self.chance(0.2):
            text = f"{text} {self.r.choice(['&&', '||'])} {self.index_scalar()} {self.compare()} {self.r.randint(0, 3)}"
        return text

    def op_if(self):
        v = self.pick()
        w = self.fit(self.cast(self.pick(), v.dtype), v.shape, v.dirty)
        shape, dirty, (v, w) = self.join(v, w)
        one = "+ 1" if v.dtype != "bool" else "^ true"
        return self.let(f"if {self.scalar_condition()} {{ {v.text} }} else {{ {w.text} {one} }}", shape, v.dtype,
                        max(v.bound, w.bound) + 1, v.exact and w.exact, dirty)
