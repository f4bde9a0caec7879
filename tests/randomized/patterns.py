"""Random statements of the forms that passes and loops recognise: selections between values, variables, several values at once, stores to
equal windows, concatenations of computed parts, windows of padded values, sums of products, products with a computed right operand, products
of windows of images, products of bytes with fields of bytes."""
import copy

from . import tree
from .expressions import MOST_ELEMENTS, Ref
from .tree import Expr, Operand, Stmt, binary, call, index
from .types import INDEX, NUMBERS, SCALE, Type

FEW = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 23, 24, 25, 26, 33]  # rows of a product, around what is multiplied in registers
EXTENTS = [1, 3, 5, 7, 8, 15, 16, 17, 23, 24, 32, 33, 37, 40, 64]


class Patterns:
    """Requires the fields of Generator. `due`: values on which outputs must depend."""

    def known_type(self):
        """A value, usually one in scope."""
        types = [Type(ref.dtype, ref.shape) for ref in self.refs if ref.readable and ref.space in ("vmem", "view")]
        types += [v.type for v in self.values if v.type != INDEX]
        return self.r.choice(types) if types and self.chance(0.75) else Type(self.dtype(), self.random_shape())

    def elementwise(self, t, depth):
        """An expression of operations by element, as long as operands of its type are found."""
        kept, self.plain = self.plain, True
        e = self.bounded(self.expr(t, depth))
        self.plain = kept
        return e

    def value(self, t, depth):
        """The value of a `let` or a store: an expression or a selection."""
        return self.choice(t) if self.chance(0.15) else self.bounded(self.expr(t, depth))

    def choice(self, t, depth=1):
        def side():
            if depth and self.chance(0.25):
                return self.choice(t, depth - 1)
            return self.elementwise(t, self.r.randint(0, 2)) if self.chance(0.75) else self.bounded(self.expr(t, 2))
        return Expr("if", t, [self.condition(), side(), side()])

    def pattern(self):
        """Random statements; outputs must depend on their values that stay in scope."""
        makers = [self.choices, self.variables, self.several, self.swaps, self.same_windows, self.joined_parts, self.padded_windows, self.computed_product,
                  self.computed_product, self.image_product, self.fields_product]
        if self.depth:
            del makers[-4:]
        return self.r.choice(makers)()

    def owe(self, v):
        if self.depth == 0:
            self.due.append(v)

    def wanted(self, least=0):
        """A type, usually one of an output."""
        types = [t for t in self.asked if len(t.shape) >= least]
        return self.r.choice(types) if types and self.chance(0.6) else self.known_type()

    def named(self, v):
        """(statement, name) of a let."""
        stmt = self.let(v)
        return stmt, tree.name(stmt.attr["name"], v.type)

    # ---- selections, variables

    def choices(self):
        t, out = self.known_type(), []
        for _ in range(self.r.randint(1, 2)):
            stmt, name = self.named(self.choice(t))
            out.append(stmt)
        stmt, name = self.named(self.elementwise(t, 2) if self.chance(0.5) else name)
        self.owe(name)
        return out + [stmt]

    def bare(self, ref):
        return Expr("load", Type(ref.dtype, ref.shape), [], ref=ref.name, sub=[("bare",)])

    def variables(self):
        """Variables with arrays that are usually stored and read as a whole."""
        t = self.known_type()
        if not t.shape or t.dtype == "bool":
            return []
        refs, out = [], []
        for _ in range(self.r.choice([1, 2, 2])):
            ref = Ref(self.fresh("w"), t.dtype, t.shape, True, True)
            out.append(Stmt("var", [self.value(t, 1)], name=ref.name, dtype=t.dtype, shape=t.shape))
            refs.append(ref)

        def body():
            inner = []
            for _ in range(self.r.randint(1, 4)):
                inner += self.change(refs, t)
            return inner
        if self.chance(0.3) and self.depth < 3:
            i = self.fresh("n")
            last = index(self.r.randint(0, 3))
            out.append(Stmt("for", [index(0), last], [self.nested(body, extra_indices=[tree.name(i, INDEX)])], name=i, static=False))
        else:
            out += body()
        self.refs += refs
        self.owe(self.bare(self.r.choice(refs)))
        return out

    def change(self, refs, t):
        """A statement for one of these variables."""
        r, ref = self.r, self.r.choice(refs)
        kind = r.randrange(9)
        if kind == 0:
            return [self.let(self.bare(ref))]
        if kind == 1 and len(refs) > 1:
            values = [self.bare(refs[1]), self.changed(refs, t)]
            return [Stmt("stores", [tree.several(values)], targets=[(x.name, [("bare",)], 0) for x in refs])]
        if kind == 2:
            return [self.store(ref)]
        if kind == 3 and self.depth < 3:
            return [Stmt("when", [self.condition()], [[self.assign(ref, self.changed(refs, t))]])]
        if kind == 4:
            return [self.assign(ref, self.choice(t))]
        return [self.assign(ref, self.changed(refs, t))]

    def changed(self, refs, t):
        old = self.bare(self.r.choice(refs))
        if t.dtype == SCALE:
            return call("max", t, [old, self.elementwise(t, 1)])
        return self.bounded(binary(self.r.choice("+-"), t, old, self.elementwise(t, 1)))

    @staticmethod
    def assign(ref, v):
        return Stmt("store", [v], ref=ref.name, sub=[("bare",)], symbol="=")

    # ---- several values

    def several(self):
        """`let a, b = ..;`"""
        if self.chance(0.4):
            values = [self.elementwise(self.known_type(), 2) for _ in range(self.r.randint(2, 3))]
            e, types = tree.several(values), [v.type for v in values]
        else:
            made = self.call_of_several()
            if made is None:
                return []
            e, types = made
        names = [self.fresh("v") for _ in types]
        found = [tree.name(n, t) for n, t in zip(names, types)]
        self.values += found
        self.owe(self.r.choice(found))
        return [Stmt("lets", [e], names=names)]

    def call_of_several(self):
        t = self.known_type()
        rule = self.r.choice([self.p_split, self.p_split, self.p_unstack, self.p_top_k, self.p_sort_by]) if t.shape else self.p_unstack
        e = rule(t, 1)
        if e is None:
            return None
        e = e.args[0]
        function, source, axis = e.attr["fn"], e.args[0].type, e.attr["par"]["axis"]
        if function == "sort_by":
            types = [a.type for a in e.args]
        elif function == "top_k":
            cut = self.with_axis(source, axis, e.attr["par"]["k"])
            types = [cut, Type("i32", cut.shape)]
        elif function == "unstack":
            types = [t] * source.shape[axis]
        else:
            cuts = [0] + e.attr["par"]["cuts"] + [source.shape[axis]]
            types = [self.with_axis(source, axis, b - a) for a, b in zip(cuts, cuts[1:])]
        if len(types) < 2 or any(0 in x.shape for x in types):
            return None
        e.attr["several"] = True
        return e, types

    def swaps(self):
        """`a[..], b[..] = (b[..], a[..]);`"""
        refs = [ref for ref in self.refs if ref.writable and ref.readable and ref.space in ("vmem", "view")]
        if not refs:
            return []
        targets, values, args = [], [], []
        for _ in range(self.r.randint(2, 3)):
            ref = self.r.choice(refs)
            sub, at, shape = self.window_of(ref)
            t = Type(ref.dtype, shape)
            same = [x for x in refs if (x.dtype, x.shape) == (ref.dtype, ref.shape)]
            read = Expr("load", t, copy.deepcopy(at), ref=self.r.choice(same).name, sub=sub)
            targets.append((ref.name, sub, len(at)))
            values.append(read if self.chance(0.6) else self.bounded(self.expr(t, 1)))
            args += at
        self.owe(self.whole(self.r.choice(refs)))
        return [Stmt("stores", [tree.several(values)] + args, targets=targets)]

    # ---- windows that are equal, overlap, or lie apart

    def same_windows(self):
        refs = [ref for ref in self.refs if ref.writable and ref.readable and ref.space == "vmem" and ref.dtype in NUMBERS and
                ref.shape and all(isinstance(n, int) and n for n in ref.shape)]
        out = []
        if not refs or self.chance(0.4):
            made = self.new_ref()
            if made is None:
                return []
            ref, out = made
        else:
            ref = self.r.choice(refs)
        turn = self.fresh("n")

        def body():
            window, inner, olds = self.a_window(ref), [], []
            for _ in range(self.r.randint(2, 4)):
                inner += self.store_window(ref, window, olds)
            return inner
        if self.chance(0.7) and self.depth < 3:
            i = tree.name(turn, INDEX)
            out.append(Stmt("for", [index(0), index(self.r.randint(1, 4))], [self.nested(body, extra_indices=[i, i])], name=turn, static=False))
        else:
            out += self.nested(body)
        self.owe(self.whole(ref))
        return out

    def new_ref(self):
        """A variable with a value, to windows of which statements store."""
        shape = (self.r.choice([3, 4, 7, 12, 17]), self.r.choice([1, 2, 5, 16, 17, 20]))
        if self.chance(0.2):
            shape = shape[:1]
        t = Type(self.r.choice(["f32", "i32", "f32", self.r.choice(NUMBERS)]), shape)
        ref = Ref(self.fresh("w"), t.dtype, t.shape, True, True)
        stmt = Stmt("var", [self.bounded(self.expr(t, 1))], name=ref.name, dtype=t.dtype, shape=t.shape)
        self.refs.append(ref)
        return ref, [stmt]

    def a_window(self, ref):
        """(subscripts, starts, rooms, shape): `rooms` is by how much the starts may grow."""
        sub, starts, rooms, shape = [], [], [], []
        for axis, n in enumerate(ref.shape):
            kind = self.r.randrange(8)
            if kind == 0 and n > 1:
                sub.append(("at",))
                rooms.append(self.r.randint(0, 1))
                starts.append(self.index_below(n - rooms[-1]))
            elif kind <= 4 and n > 1 or axis == 0:
                size = self.r.randint(1, n)
                rooms.append(self.r.randint(0, min(2, n - size)))
                sub.append(("ds", size, 1))
                starts.append(self.index_below(n - size - rooms[-1] + 1))
                shape.append(size)
            else:
                sub.append(("all",))
                shape.append(n)
        return sub, starts, rooms, tuple(shape)

    def shifted(self, window):
        """The positions of a window, or of an adjacent one."""
        _, starts, rooms, _ = window
        starts = copy.deepcopy(starts)
        for k, room in enumerate(rooms):
            if room and self.chance(0.25):
                by = Expr("lit", starts[k].type, value=self.r.randint(1, room))
                starts[k] = index(starts[k].attr["value"] + by.attr["value"]) if starts[k].op == "lit" else binary("+", starts[k].type, starts[k], by)
        return starts

    def store_window(self, ref, window, olds):
        sub, _, _, shape = window
        t = Type(ref.dtype, shape)

        def read():
            return Expr("load", t, self.shifted(window), ref=ref.name, sub=sub)
        out, kind, v = [], self.r.randrange(9), read()
        axis = self.axis_of(t)
        if kind == 0:
            stmt, name = self.named(v)
            olds.append(name)
            out.append(stmt)
            v = self.elementwise(t, 1)
        elif kind == 1 and olds:
            v = self.r.choice(olds)
        elif kind == 2 and axis is not None:
            v = binary("-", t, v, call("reduce_max", self.with_axis(t, axis, 1), [read()], f"axis = {axis}", axes=[axis], keep=True))
        elif kind == 3 and axis is not None:
            v = call("rev", t, [v], f"axis = {axis}", axis=axis)
        elif kind == 4:
            v = self.elementwise(t, 1)
        elif kind == 5 and self.depth < 3:
            return [Stmt("when", [self.condition()], [[self.store_of(ref, window, binary("+", t, v, read()))]])]
        else:
            v = binary(self.r.choice("+-"), t, v, self.r.choice([read(), self.elementwise(t, 1)] + olds[-1:]))
        return out + [self.store_of(ref, window, v)]

    def store_of(self, ref, window, v):
        if self.chance(0.15) and v.type.shape:
            return Stmt("masked_store", [self.bounded(v), self.mask(v.type.shape)] + self.shifted(window), ref=ref.name, sub=window[0])
        symbol = self.r.choice(["=", "=", "+=", "-="])
        v = self.small(v) if symbol != "=" else self.bounded(v)
        return Stmt("store", [v] + self.shifted(window), ref=ref.name, sub=window[0], symbol=symbol)

    # ---- concatenations of parts that are computed

    def joined_parts(self):
        t = self.wanted(2 if self.chance(0.7) else 1)
        axes = [k for k, n in enumerate(t.shape) if isinstance(n, int) and n >= 2]
        if not axes or self.dims(t.shape) > MOST_ELEMENTS:
            return []
        axis, out, names, left = self.r.choice(axes), [], [], None
        left = t.shape[axis]
        while left:
            same = [x for x in names if x.type.shape[axis] <= left]
            if same and self.chance(0.3):
                names.append(self.r.choice(same))
            else:
                size = left if len(names) == 3 else self.r.choice([self.r.randint(1, left), -(-t.shape[axis] // 2), 1])
                stmt, name = self.named(self.elementwise(self.with_axis(t, axis, min(size, left)), self.r.randint(1, 2)))
                out.append(stmt)
                names.append(name)
            left -= names[-1].type.shape[axis]
        stmt, whole = self.named(call("concatenate", t, names, f"axis = {axis}", axis=axis))
        out.append(stmt)
        v = whole
        for _ in range(self.r.randint(1, 2)):
            v = self.moved(v, t)
        if self.chance(0.4) and t.dtype in NUMBERS:
            v = self.bounded(binary(self.r.choice("+-"), t, v, whole))
        stmt, name = self.named(v)
        self.owe(name)
        return out + [stmt]

    def moved(self, v, t):
        axis = self.axis_of(t)
        if self.chance(0.5):
            return call("rev", t, [v], f"axis = {axis}", axis=axis)
        shift = self.r.randint(-2, 5)
        return call("roll", t, [v], str(shift), f"axis = {axis}", shift=shift, axis=axis)

    # ---- sums of windows of a padded value

    def padded_windows(self):
        r, t = self.r, self.wanted(2)
        axes = [k for k, n in enumerate(t.shape[:-1] if self.chance(0.85) else t.shape) if isinstance(n, int) and n > 0]
        if not axes or t.dtype not in NUMBERS or self.dims(t.shape) > MOST_ELEMENTS // 4:
            return []
        shape, widths, reach = list(t.shape), [(0, 0)] * len(t.shape), [0] * len(t.shape)
        for k in r.sample(axes, r.randint(1, min(2, len(axes)))):
            low, high = r.randint(0, 3), r.randint(0, 3)
            reach[k] = max(low + high - t.shape[k] + 1, 0) + r.randint(0, 3)
            widths[k], shape[k] = (low, high), t.shape[k] + reach[k] - low - high
        wide = Type(t.dtype, tuple(n + m if m else n for n, m in zip(t.shape, reach)))
        out, total = [], None
        stmt, inner = self.named(self.small(self.elementwise(Type(t.dtype, tuple(shape)), r.randint(0, 1))))
        out.append(stmt)
        stmt, padded = self.named(self.padded(inner, widths, wide))
        out.append(stmt)
        if self.chance(0.85):
            self.values.pop()  # only these windows read it
        for _ in range(r.randint(1, 4)):
            starts = [r.randint(0, m) for m in reach]
            term = Expr("index", t, [padded], sub=[("range", a, a + n, 1) if m else ("all",) for a, n, m in zip(starts, t.shape, reach)])
            if self.chance(0.5):
                term = binary("*", t, term, self.literal(t.dtype, True))
            total = term if total is None else binary("+", t, total, term)
        stmt, name = self.named(self.bounded(total))
        self.owe(name)
        return out + [stmt]

    # ---- products of few rows with a computed right operand

    def operand_for(self, dtype, shape):
        """Adds a whole operand of small numbers, and returns its load."""
        o = Operand(self.fresh("x"), dtype, shape)
        self.k.inputs.append(o)
        return Expr("load", Type(dtype, o.shape), [], ref=o.name, sub=[("dots",)])

    def extent_of_few(self, most):
        if self.chance(0.5):
            return self.new_size("few")
        return self.r.choice([n for n in FEW if 0 < n <= most])

    def computed_product(self):
        """One or two dots, whose right operands are computed from one array."""
        if not self.can_bind or self.multiplied or len(self.nominal) > 10:
            return []
        self.multiplied = True
        r, dtype = self.r, self.r.choice(["f32", "f32", "f32", "bf16", "bf16", "bf16", "bf16", "f16", "i8"])
        integer, turned = dtype == "i8", self.chance(0.5)
        asked = [t.shape[-1] for t in self.asked if t.shape and isinstance(t.shape[-1], int) and t.shape[-1] > 0]
        m = self.extent_of_few(33)
        n = r.choice(asked) if asked and self.chance(0.5) else self.extent_of_few(33) if self.chance(0.2) else r.choice(EXTENTS)
        k = self.extent_of_few(37) if self.chance(0.3) else r.choice(EXTENTS)
        shape = (n, k) if turned else (k, n)
        if self.dims(shape) > MOST_ELEMENTS:
            return []
        wide, out = Type("i32" if integer else "f32", shape), []
        source = self.operand_for(r.choice(["i8", "u8", "i4", "bf16", "f32", "f16", "i32", dtype]), shape)
        rights = []
        for _ in range(r.choice([1, 1, 1, 2])):
            stmt, name = self.named(self.right_of(source, wide, dtype))
            out.append(stmt)
            rights.append(name)
            if self.chance(0.85):
                self.values.pop()  # only the dots read it
        total = None
        for _ in range(r.choice([1, 1, 2, 4])):
            left = self.operand_for(dtype, (m, k))
            right = Expr("turned", Type(dtype, (k, n)), [r.choice(rights)]) if turned else r.choice(rights)
            if not integer and self.chance(0.25):
                stmt, left = self.named(self.small(left))
                out.append(stmt)
            product = call("dot", Type(wide.dtype, (m, n)), [left, right], spec="mk,kn->mn")
            total = product if total is None else binary("+", total.type, total, product)
        if self.chance(0.4):
            return out + self.summed(total)
        stmt, name = self.named(total)
        self.owe(name)
        return out + [stmt]

    def right_of(self, source, wide, dtype):
        """An elementwise function of the source that is exact in the dtype."""
        v = self.to_dtype(source, wide.dtype)
        for _ in range(self.r.randint(0, 2)):
            v = binary(self.r.choice("+-*"), wide, v, self.literal(wide.dtype, True))
        if dtype == "i8":
            return self.to_dtype(v, dtype)
        v = self.small(call("max", wide, [v, Expr("lit", Type(wide.dtype, ()), value=-3)]))
        if self.chance(0.5):
            v = binary("*", wide, v, Expr("lit", Type(wide.dtype, ()), value=self.r.choice([0.5, 2, -1])))
        return self.to_dtype(v, dtype)

    # ---- products of bytes for each batch index, whose right operand is fields of bytes, or nearly

    def fields_product(self):
        if not self.can_bind or self.multiplied or len(self.nominal) > 10:
            return []
        self.multiplied = True
        r, out = self.r, []
        bits = r.choice([4, 4, 4, 2, 1, 3])
        count, size = r.randint(1, 8 // bits), r.choice([1, 3, 4, 8, 16, 16, 17, 32])
        k, axes = count * size, r.sample(range(2), 2)
        extents = {"q": self.extent_of_few(9), "m": self.extent_of_few(33), "n": r.choice(EXTENTS)}
        left, right = ["qm"[axes[0]], "qm"[axes[1]]], ["qn"[i] for i in r.sample(range(2), 2)]
        dtype = r.choice(["u8", "u8", "i8"])
        x = self.operand_for(r.choice(["i8", "i8", "u8"]), tuple(extents[c] for c in left) + (k,))
        bytes_ = self.operand_for(dtype, tuple(extents[c] for c in right) + (size,))
        if max(self.dims(x.type.shape), self.dims(bytes_.type.shape)) > MOST_ELEMENTS:
            return []
        fields = [self.field(bytes_, bits, i) for i in r.sample(range(8 // bits), count)]
        lead = bytes_.type.shape[:2]
        if r.choice([True, True, False]) or count == 1:
            v = fields[0] if count == 1 else call("concatenate", Type(dtype, lead + (k,)), fields, "axis = 2", axis=2)
        else:
            v = call("stack", Type(dtype, lead + (size, count)), fields, "axis = 3", axis=3)
            v = call("reshape", Type(dtype, lead + (k,)), [v], tree.shape_text(lead + (k,)))
        if self.chance(0.3):
            v = self.to_dtype(v, "i8")
            v = binary("-", v.type, v, Expr("lit", Type("i8", ()), value=r.choice([1 << (bits - 1), 1])))
        stmt, name = self.named(v)
        out.append(stmt)
        if self.chance(0.85):
            self.values.pop()  # it serves the product alone
        a, b = "".join(left) + "k", "".join(right) + "k"
        t = Type("i32", tuple(extents[c] for c in "qmn"))
        contract = "contract = ((2), (2))"
        product = call("dot", t, [x, name], contract, f"batch = (({a.index('q')}), ({b.index('q')}))", spec=f"{a},{b}->qmn")
        stmt, name = self.named(product)
        self.owe(name)
        return out + [stmt]

    def field(self, v, bits, place):
        """A field of each byte, written in one of several ways."""
        t, first = v.type, bits * place

        def number(n):
            return Expr("lit", Type(t.dtype, ()), value=n)
        if t.dtype == "u8" and first + bits == 8 and self.chance(0.5):
            return binary(">>", t, v, number(first))
        moved = binary(">>", t, v, number(first)) if first else v
        kept = binary("&", t, moved, number((1 << bits) - 1))
        if t.dtype == "i8" and self.chance(0.3):  # with a sign
            return binary("-", t, binary("^", t, kept, number(1 << (bits - 1))), number(1 << (bits - 1)))
        return binary("&", t, v, number(((1 << bits) - 1) << first)) if self.chance(0.1) and first + bits < 8 else kept

    # ---- products of windows of images: rows that a reshape merges, times any right operand

    def image_product(self):
        if not self.can_bind or self.multiplied or len(self.nominal) > 10:
            return []
        self.multiplied = True
        r, out, total = self.r, [], None
        shape = (r.randint(1, 6), r.choice([1, 7, 8, 9, 12, 16]), r.choice([1, 3, 8, 16, 17, 32]))
        m, k, n = shape[0] * shape[1], shape[2], r.choice(EXTENTS)
        image = self.image(shape, out)
        for _ in range(r.choice([1, 1, 2, 3])):
            left = call("reshape", Type("f32", (m, k)), [image()], tree.shape_text((m, k)))
            right = self.any_right(k, n)
            for operand in r.sample(["left", "right"], r.randint(0, 2)):  # in either order
                stmt, name = self.named(left if operand == "left" else right)
                out.append(stmt)
                if self.chance(0.8):
                    self.values.pop()  # only the product reads it
                left, right = (name, right) if operand == "left" else (left, name)
            product = call("dot", Type("f32", (m, n)), [left, right], spec="mk,kn->mn")
            total = product if total is None else binary("+", product.type, total, product)
        if self.chance(0.4):
            return out + self.summed(total)
        stmt, name = self.named(self.bounded(total))
        self.owe(name)
        return out + [stmt]

    def image(self, shape, out):
        """A function that returns windows of one image: an operand, a padded value or a computed one."""
        r, t = self.r, Type("f32", shape)
        reach = [r.choice([0, 0, 1, 2]), r.choice([0, 0, 2, 3]), 0]
        wide = Type("f32", tuple(a + b for a, b in zip(shape, reach)))
        kind = r.randrange(5)
        if kind == 0:
            low = [r.randint(0, n) for n in reach]
            inner = self.operand_for("f32", tuple(n + b - a if b else n for n, b, a in zip(shape, reach, reach)))
            whole = self.padded(inner, [(a, n - a) for a, n in zip(low, reach)], wide)
        else:
            whole = self.operand_for("f32", wide.shape)
            if kind == 1:
                whole = self.small(self.elementwise(wide, 1))
        if kind < 2 or self.chance(0.3):
            stmt, whole = self.named(whole)
            out.append(stmt)
            self.values.pop()

        def window():
            if not any(reach):
                return whole
            starts = [r.randint(0, n) for n in reach]
            return Expr("index", t, [whole], sub=[("range", a, a + n, 1) if b else ("all",) for a, n, b in zip(starts, shape, reach)])
        return window

    def any_right(self, k, n):
        """An operand, an elementwise value, or any expression."""
        t, kind = Type("f32", (k, n)), self.r.randrange(5)
        if kind == 0:
            return self.operand_for("f32", t.shape)
        if kind == 1:
            return self.right_of(self.operand_for(self.r.choice(["f32", "i8", "bf16"]), t.shape), t, "f32")
        if kind == 2:
            return Expr("turned", t, [self.small(self.expr(Type("f32", (n, k)), 2))])
        return self.small(self.expr(t, self.r.randint(1, 3)))

    def summed(self, product):
        """Adds the product to a variable, in a loop or without one."""
        t, name = product.type, self.fresh("w")
        ref = Ref(name, t.dtype, t.shape, True, True)
        out = [Stmt("var", [tree.full(t, 1 if t.dtype == "i32" else 1.0)], name=name, dtype=t.dtype, shape=t.shape)]
        add = Stmt("store", [product], ref=name, sub=[("dots",)], symbol="+=")
        if self.chance(0.5) and self.depth < 3:
            out.append(Stmt("for", [index(0), index(self.r.randint(0, 2))], [[add]], name=self.fresh("n"), static=False))
        else:
            out.append(add)
        self.refs.append(ref)
        self.owe(self.whole(ref))
        return out


__all__ = ["FEW", "Patterns"]
