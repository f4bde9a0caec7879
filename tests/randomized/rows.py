"""Random kernels with few cells of many rows that are mostly independent, which threads divide into parts."""
from . import tree
from .expressions import Ref
from .generator import Dim, Generator, case as drawn
from .tree import Expr, Operand, Scratch, Stmt, binary, call, index
from .types import INTS, Type, is_float

ROWS = [16, 17, 24, 33, 40, 64, 64, 65, 72, 80, 96]  # products are divided from 64 rows on
COLUMNS = [1, 2, 5, 8, 15, 16, 17, 20]
DEPTHS = [1, 3, 4, 7, 8, 16, 17]


class Rows(Generator):
    """Values have the shape (lead.., rows, columns); `mixing` is the probability of an arbitrary statement."""

    def dtype(self):
        return self.r.choice(["f32"] * 5 + ["i32"] * 2 + ["bf16", "f16", "i8", "u8", "f64", "i64"])

    def size_value(self, name):
        b, r = self.size_blocks[name], self.r
        if name != self.rows.size:
            return super().size_value(name)
        return r.choice([b, b, b - 1, b + 1, b // 2, b + 7, b + b // 2, 2 * b, 2 * b - 3, 15, 1, 0, r.randint(1, 2 * b)])

    # ---- axes

    def make_dims(self):
        r = self.r
        block = r.choice(ROWS)
        self.rows = Dim(None, block, "own")
        self.rows.size = self.new_size(block) if self.chance(0.9) else block + r.choice([0, 0, 5, -1])
        columns, kind = r.choice(COLUMNS), r.randrange(8)
        if kind == 0:
            self.columns = Dim(self.new_size(8), 8, "own")
        elif kind == 1:
            name = self.new_size(None, True)
            self.columns = Dim(name, name)
        else:
            self.columns = Dim(columns, columns)
        lead, kind = [], r.randrange(8)
        if kind == 0:
            lead = [Dim(2, 2)]
        elif kind == 1:
            lead = [Dim(self.new_size(1), "_", "own")]
        return lead + [self.rows, self.columns]

    def make_grid(self, dims):
        super().make_grid(dims)
        self.rows.axis.parallel = True
        self.lead = [d for d in dims if d not in (self.rows, self.columns)]
        self.depths = [d for d in self.extra] + [Dim(n, n) for n in self.r.sample(DEPTHS, 2)]

    def new_input(self, dims, dtype):
        """Adds an input with these axes, and returns a ref with values by rows."""
        at = [d.at if d.axis else index(0) for d in dims]
        o = Operand(self.fresh("x"), dtype, [d.size for d in dims], "block", [d.block for d in dims], at)
        moved = any(d.axis for d in dims)
        if not moved and self.chance(0.5):
            o.mode, o.block, o.at = "whole", (), []
        elif moved and self.chance(0.7):
            o.pad = 0.0 if is_float(dtype) else 0
        self.k.inputs.append(o)
        ref = Ref(o.name, dtype, o.ref)
        self.refs.append(ref)
        return ref

    def shape(self, *dims):
        return tuple(d.block for d in self.lead + list(dims) if d.block != "_")

    # ---- values by rows

    def of_rows(self, columns, dtype):
        """A value in scope with these columns and all rows, or a new operand."""
        shape = self.shape(self.rows, columns)
        found = [v for v in self.by_rows if v.type.shape == shape]
        same = [v for v in found if v.type.dtype == dtype]
        if same and self.chance(0.8) or (found and (self.chance(0.3) or len(self.k.inputs) > 5)):
            return self.to_dtype(self.r.choice((same or found)[-3:]), dtype)
        ref = self.new_input(self.lead + [self.rows, columns], dtype)
        self.by_rows.append(self.whole(ref))
        return self.by_rows[-1]

    def alike(self, columns, dtype):
        """A value that is the same in all rows, or depends only on the column."""
        kind = self.r.randrange(4)
        if kind == 0:
            return self.literal(dtype, True)
        if kind == 1 and columns.block != "_":
            draws = dtype == "bool" or (len(self.k.inputs) < 6 and self.chance(0.7))
            return self.shared_row(columns, dtype) if draws else self.iota((columns.block,), 0, dtype)
        return self.of_rows(Dim(1, 1), dtype)

    def shared_row(self, columns, dtype):
        """A row that all rows read: an operand as it is, converted, or with something added."""
        other = self.r.choice([dtype, dtype, "bf16", "f16", "f32", "i8"])
        v = self.whole(self.new_input([columns], other))
        if self.chance(0.4):
            v = self.bounded(binary("+", v.type, v, self.literal(other, True)))
        return self.to_dtype(v, dtype)

    def computed(self, columns, dtype, depth):
        """A value by rows of the required type."""
        r, t = self.r, Type(dtype, self.shape(self.rows, columns))
        kind = r.randrange(12)
        if depth <= 0 or kind == 0:
            return self.of_rows(columns, dtype)
        if kind <= 3:
            b = self.alike(columns, dtype) if self.chance(0.4) else self.computed(columns, dtype, depth - 1)
            return self.bounded(binary(r.choice("+-"), t, self.computed(columns, dtype, depth - 1), b))
        if kind == 4:
            return call(r.choice(["max", "min"]), t, [self.computed(columns, dtype, depth - 1), self.alike(columns, dtype)])
        if kind == 5:
            mask = binary(r.choice(["<", ">=", "=="]), Type("bool", t.shape), self.computed(columns, dtype, depth - 1), self.literal(dtype, True))
            return call("where", t, [mask, self.computed(columns, dtype, depth - 1), self.alike(columns, dtype)])
        if kind == 6:
            other = r.choice([d for d in ("f32", "i32", "bf16", "i8") if d != dtype])
            return self.to_dtype(self.computed(columns, other, depth - 1), dtype)
        if kind == 7 and columns.block != 1:
            v = self.computed(columns, dtype, depth - 1)
            top = call(r.choice(["reduce_max", "reduce_min"]), self.with_axis(t, len(t.shape) - 1, 1), [v], f"axis = {len(t.shape) - 1}",
                       axes=[len(t.shape) - 1], keep=True)
            return self.bounded(binary("-", t, v, top))
        if kind >= 8 and len(t.shape) == 2:
            return self.row_product(columns, t, depth)
        return call("max", t, [self.computed(columns, dtype, depth - 1), self.of_rows(columns, dtype)])

    def row_product(self, columns, t, depth):
        """A product of rows with a matrix that all parts read."""
        r, deep = self.r, self.r.choice(self.depths)
        dtype = r.choice(["f32", "f32", "bf16", "f16"]) if is_float(t.dtype) else "i8"
        if len(self.k.inputs) > 6:
            return self.of_rows(columns, t.dtype)
        left = self.computed(deep, dtype, depth - 1) if self.chance(0.5) else self.of_rows(deep, dtype)
        turned = self.chance(0.4)
        right = self.whole(self.new_input([columns, deep] if turned else [deep, columns], dtype))
        if turned:
            right = Expr("turned", Type(dtype, right.type.shape[::-1]), [right])
        wide = Type("f32" if is_float(dtype) else "i32", t.shape)
        return self.to_dtype(call("dot", wide, [self.small(left), self.small(right)], spec="mk,kn->mn"), t.dtype)

    # ---- statements

    def row_store(self, ref, columns, symbol):
        v = self.computed(columns, ref.dtype, self.r.choice([1, 2, 2, 3]))
        v = self.small(v) if symbol != "=" else v
        sub, args = self.from_run_time(ref.shape, [("dots",)], [])
        return Stmt("store", [v] + args, ref=ref.name, sub=sub, symbol=symbol)

    def row_statement(self):
        """A value, or a store to scratch of rows."""
        if self.kept and self.chance(0.5):
            ref, columns = self.r.choice(self.kept)
            return [self.row_store(ref, columns, self.r.choice(["=", "+=", "-="]))]
        columns = self.r.choice([self.columns, self.columns, self.r.choice(self.depths)])
        stmt = self.let(self.computed(columns, self.dtype(), 2))
        self.by_rows.append(self.values[-1])
        return [stmt]

    def scratch_of_rows(self, arbitrary):
        columns = self.r.choice([self.columns, Dim(1, 1)])
        if isinstance(columns.block, str):
            return []
        s = Scratch(self.fresh("s"), self.r.choice(["f32", "f32", "i32", "bf16"]), self.shape(self.rows, columns))
        self.k.scratch.append(s)
        ref = Ref(s.name, s.dtype, s.shape, True, True)
        v = tree.full(Type(s.dtype, s.shape), 1 if s.dtype in INTS else 1.0)
        store = Stmt("store", [v], ref=s.name, sub=[("dots",)], symbol="=")
        self.kept.append((ref, columns))
        self.refs.append(ref)
        self.by_rows.append(self.whole(ref))
        return [Stmt("when", [self.first_step(arbitrary)], [[store]])] if arbitrary and self.chance(0.7) else [store]

    def make(self):
        k, r = self.k, self.r
        self.prelude, self.depth, self.by_rows, self.kept = [], 0, [], []
        self.budget, mixing = 2, r.choice([0, 0, 0, 0.3])
        dims = self.make_dims()
        self.make_grid(dims)
        last = max(n for n, a in enumerate(k.axes) if a.parallel)
        arbitrary, outputs, body = k.axes[last + 1:], [], []
        alike = self.columns.axis and self.columns.axis.parallel  # an output has all parallel axes
        for n in range(r.choice([1, 1, 2, 3])):
            columns = self.columns if n == 0 or alike or self.chance(0.6) else Dim(1, 1)
            o = self.place_output(self.lead + [self.rows, columns], f"o{n or ''}", self.dtype())
            if o.mode == "element" and self.chance(0.8):
                o.mode, o.at = "block", [d.at if d.axis else index(0) for d in self.lead + [self.rows, columns]]
            k.outputs.append(o)
            outputs.append((Ref(o.name, o.dtype, o.ref, False, True), columns))
        if self.chance(0.08):
            self.alias_of(k.outputs[0])
        for _ in range(r.choice([0, 0, 1, 2])):
            body += self.scratch_of_rows(arbitrary)
        for _ in range(r.randint(0, 4)):
            body += self.statement() if self.chance(mixing) else self.row_statement()
        stores = [self.row_store(ref, columns, "=") for ref, columns in outputs]
        k.body = self.prelude + body + stores
        k.threads = r.choice([2, 3, 4])
        self.repair_sizes()
        self.name_statics()


def case(seed, number, avoid):
    """Kernel `number` of `seed`: always the same."""
    return drawn(seed, number, avoid, Rows)
