"""Random kernels: grid, blocks, memory and statements around random expressions."""
import random
import re

from . import tree
from .evaluator import Evaluator
from .expressions import Expressions, Ref
from .operations import Reject
from .patterns import FEW, Patterns
from .tree import Axis, Expr, Kernel, Operand, Scratch, Stmt, binary, call, index
from .types import ALL, DTYPES, FLOATS, INDEX, INTS, NUMBERS, SCALE, Type, int_range, is_float, is_int

BLOCKS = [1, 2, 3, 4, 5, 7, 8, 8, 16, 16, 17, 32, 33, 64]
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 48, 64]
MOST_GRID_STEPS = 40

# Constructs that are left out because of known faults: each name is a switch (`--with NAME` includes it again).
KNOWN = {}


class Dim:
    """An axis of an array: its extent, its block, and the grid axis that moves it."""

    def __init__(self, size, block, axis=None):
        self.size, self.block, self.axis = size, block, axis


class Generator(Patterns, Expressions):
    can_bind = True  # whether a statement may add sizes and operands

    def __init__(self, seed, number, attempt, avoid=()):
        self.r = random.Random(f"{seed}:{number}:{attempt}")
        self.k = Kernel(f"k{number}")
        self.avoid = set(avoid)
        self.values, self.refs, self.indices, self.fns = [], [], [], self.k.fns
        self.nominal, self.long_sizes, self.in_fn, self.slice_steps = {}, [], False, False
        self.dead = False  # in code that never runs: constant positions may lie outside
        self.patterned = False  # the current test fills floats with patterns: NaNs with payloads, infinities, signed zeros, subnormals
        self.moving = False  # the window of the current store may leave its axis
        self.windowed = self.chance(0.25)  # windows as long as their axis may have any start
        self.inexact, self.copying, self.far = self.chance(0.25), False, []
        self.plain, self.multiplied, self.due, self.asked = False, False, [], []
        self.counter = 0
        self.size_blocks = {}  # size: the block that moves along it, None, or "few" from FEW

    def fresh(self, letter):
        self.counter += 1
        return f"{letter}{self.counter}"

    def dtype(self):
        return self.r.choice(["f32"] * 5 + ["i32"] * 3 + ["bf16", "bf16", "f16", "i8", "u8", "i4", "u4", "f64", "i64", "u64", SCALE] + ALL)

    # ---- sizes

    def new_size(self, block, long=False):
        name = "MNKPQRSTUVWXYZ"[len(self.nominal)]
        self.size_blocks[name] = block
        self.nominal[name] = 2 * block if isinstance(block, int) else 24
        if long:
            self.long_sizes.append(name)
        return name

    def size_value(self, name):
        b, r = self.size_blocks[name], self.r
        if b == "few":
            return r.choice(FEW)
        if b is None:
            return r.choice([1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 40, 0])
        return r.choice([1, b, b + 1, 2 * b, 2 * b + 1, max(1, b - 1), 3 * b - 1, r.randint(1, 2 * b + 3), r.randint(1, 2 * b + 3), 0])

    # ---- the grid and the outputs

    def make_dims(self):
        """The axes of the first output; each is moved by a separate grid axis, or whole."""
        r, rank = self.r, self.r.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4])
        budget, dims = 1024, []
        for k in range(rank):
            kind = r.randrange(10)
            if kind <= 5 and budget > 1:
                block = r.choice([b for b in BLOCKS if b <= budget and (k >= rank - 2 or b <= 5)])
                size = self.new_size(block) if self.chance(0.85) else block * r.randint(1, 3) + r.choice([0, 0, 1, -1])
                dims.append(Dim(max(1, size) if isinstance(size, int) else size, block, "own"))
                budget //= block
            elif kind == 6:
                dims.append(Dim(self.new_size(1), "_", "own"))
            elif kind == 7 and not self.long_sizes and budget >= 40:
                name = self.new_size(None, True)
                dims.append(Dim(name, name))
                budget //= 40
            else:
                n = r.choice([n for n in LENGTHS if n <= budget])
                dims.append(Dim(n, n))
                budget //= n
        return dims

    def count_blocks(self, dim):
        """The number of blocks along an axis, as an expression."""
        b = 1 if dim.block == "_" else dim.block
        size = tree.name(dim.size, INDEX) if isinstance(dim.size, str) else index(dim.size)
        if b == 1:
            return size
        if isinstance(dim.size, int):
            return index(-(-dim.size // b)) if self.chance(0.5) else call("cdiv", INDEX, [size, index(b)])
        if self.chance(0.15):
            return binary("/", INDEX, binary("+", INDEX, size, index(b - 1)), index(b))
        return call("cdiv", INDEX, [size, index(b)])

    def make_grid(self, dims):
        """Grid axes for the moved axes of the outputs, and some on which outputs do not depend."""
        moved = [d for d in dims if d.axis == "own"]
        axes, r = [], self.r
        names = iter("ijkl")
        if len(moved) >= 2 and self.chance(0.12):
            a, b = moved[:2]
            axis = Axis(next(names), binary("*", INDEX, self.count_blocks(a), self.count_blocks(b)), self.chance(0.6))
            i = tree.name(axis.name, INDEX)
            a.at, b.at = binary("/", INDEX, i, self.count_blocks(b)), binary("%", INDEX, i, self.count_blocks(b))
            a.axis = b.axis = axis
            axes.append(axis)
            moved = moved[2:]
        order = moved[:]
        r.shuffle(order)
        for d in order:
            d.axis = Axis(next(names), self.count_blocks(d), self.chance(0.6), self.chance(0.5))
            i = tree.name(d.axis.name, INDEX)
            d.at = i
            if self.chance(0.1):
                d.at = binary("-", INDEX, binary("-", INDEX, self.count_blocks(d), index(1)), i)
            axes.append(d.axis)
        self.extra = []
        for _ in range(r.choice([0, 0, 0, 1, 1, 2]) if len(axes) < 4 else 0):
            if len(axes) >= 4:
                break
            block = r.choice([b for b in BLOCKS if b <= 33])
            kind = r.randrange(3)
            dim = Dim(self.new_size(block), block) if kind else Dim(block * r.randint(1, 3), block)
            extent = self.count_blocks(dim)
            if self.chance(0.5):
                extent = call("max", INDEX, [index(1), extent])
                dim.at_least_one = True
            axis = Axis(next(names), extent, False, self.chance(0.5))
            dim.axis, dim.at = axis, tree.name(axis.name, INDEX)
            self.extra.append(dim)
            last = all(d.axis is axis for d in self.extra)
            place = len(axes) if self.chance(0.75) and last or self.chance(0.5) else r.randint(0, len(axes))
            axes.insert(place, axis)
        self.k.axes = axes
        self.axis_dims = {d.axis.name: d for d in moved + self.extra}
        self.indices = [tree.name(a.name, INDEX) for a in axes]
        for a in axes:
            if self.chance(0.2):
                self.indices.append(call("num_programs", INDEX, [], a.name, axis=a.name))
            if self.chance(0.1):
                self.indices.append(call("program_id", INDEX, [], a.name, axis=a.name))
        self.indices += [tree.name(n, INDEX) for n in self.nominal if self.chance(0.3)]

    def place_output(self, dims, name, dtype):
        """An operand with the axes `dims`."""
        shape, block, at = [], [], []
        for d in dims:
            shape.append(d.size)
            block.append(d.block)
            at.append(d.at if d.axis else index(0))
        if not any(d.axis for d in dims) and self.chance(0.5):
            return Operand(name, dtype, shape)
        o = Operand(name, dtype, shape, "block", block, at)
        if self.chance(0.12):
            o.mode = "element"
            o.at = [binary("*", INDEX, e, index(d.block)) if d.axis and d.block not in ("_", 1) else e for e, d in zip(at, dims)]
        used = {d.axis.name for d in dims if d.axis}
        moves = [n for n, a in enumerate(self.k.axes) if a.parallel or a.name in used or self.merged(a, dims)]
        last = max(moves, default=-1)
        o.revisit = any(n not in moves for n in range(last))
        return o

    @staticmethod
    def merged(axis, dims):
        return any(d.axis is axis for d in dims)

    def more_output_dims(self, dims):
        """The axes of another output: the moved axes in another order, with other whole axes between."""
        moved = [d for d in dims if d.axis and (d.axis.parallel or self.chance(0.7))]
        self.r.shuffle(moved)
        out = list(moved)
        for _ in range(self.r.randint(0, max(0, 3 - len(out)))):
            n = self.r.choice([n for n in LENGTHS if n <= 16])
            out.insert(self.r.randint(0, len(out)), Dim(n, n))
        area = 1
        for d in out:
            area *= self.dims([d.block]) if d.block != "_" else 1
        return out if area <= 1200 else moved

    # ---- inputs

    def input_dims(self, dims, rank):
        """The axes of an input: those of the output, of an operand of a product, or any."""
        def part(d):
            return (d.size, d.block, d.at, True) if d.axis else (d.size, d.block, index(0), False)
        kind = self.r.randrange(10)
        if kind <= 3 and dims:
            same = [part(d) for d in dims]
            if self.chance(0.3):
                place = self.r.randrange(len(same))
                same[place] = (1, 1, index(0), False)
            if self.chance(0.25):
                self.r.shuffle(same)
            return same
        if kind <= 5 and dims:
            sums = [part(d) for d in self.extra] + [(n, n, index(0), False) for n in self.long_sizes + [self.r.choice([4, 8, 16, 17])]]
            pair = [part(self.r.choice(dims[-2:])), sums[0] if self.chance(0.7) else self.r.choice(sums)]
            self.r.shuffle(pair)
            return [part(d) for d in dims[:-2]] + pair if self.chance(0.3) else pair
        return [self.input_dim(dims) for _ in range(rank)]

    def input_dim(self, dims):
        """(extent, block, index map, whether it may overhang) of an axis of an input."""
        r = self.r
        moved = [d for d in dims + self.extra if d.axis]
        kind = r.randrange(12)
        if kind <= 6 and moved:
            d = r.choice(moved)
            if kind <= 4:
                return d.size, d.block, d.at, True
            return self.odd_map(d)
        if kind == 7 and self.long_sizes:
            name = r.choice(self.long_sizes)
            return name, name, index(0), False
        n = r.choice([n for n in LENGTHS if n <= 33])
        if kind == 8:
            return n, r.choice([n + 1, n * 2, n + 5]) if n <= 17 else n + 3, index(0), True
        return n, n, index(0), False

    def odd_map(self, d):
        """Another block along a moved axis, or another order of blocks."""
        r, i = self.r, d.at
        b = 1 if d.block == "_" else d.block
        kind = r.randrange(5)
        if kind == 0:
            return d.size, d.block, call("max", INDEX, [index(0), binary("-", INDEX, i, index(1))]), True
        if kind == 1:
            return d.size, d.block, binary("/", INDEX, i, index(2)), True
        if kind == 2:
            return d.size, d.block, call("mod", INDEX, [binary("*", INDEX, i, index(r.randint(2, 3))), self.count_blocks(d)]), True
        if kind == 3:
            blocks = r.randint(1, 3)
            return b * blocks - r.choice([0, 0, 1]) if b > 1 else blocks, b, binary("%", INDEX, i, index(blocks)), True
        table = self.table()
        if table is None:
            return d.size, d.block, i, True
        blocks = r.randint(1, 4)
        entry = Expr("load", Type("i32", ()), [call("mod", INDEX, [i, index(table.shape[0])])], ref=table.name, sub=[("at",)])
        return b * blocks, b, call("mod", Type("i32", ()), [entry, Expr("lit", Type("i32", ()), value=blocks)]), True

    def table(self):
        """A prefetched table of integers."""
        if self.k.prefetch and self.chance(0.6):
            return self.k.prefetch[0] if self.k.prefetch[0].shape else None
        if len(self.k.prefetch) > 1:
            return None
        table = Operand(self.fresh("t"), "i32", (self.r.choice([1, 3, 4, 7]),), "prefetch")
        self.k.prefetch.append(table)
        return table

    def make_input(self, dims):
        r, rank = self.r, self.r.choice([0, 1, 2, 2, 2, 2, 3, 3, 4])
        dtype, name = self.dtype(), self.fresh("x")
        if rank == 0 or self.chance(0.08):
            dtype = r.choice(INTS) if self.chance(0.8) else dtype
            o = Operand(name, dtype, [r.choice([1, 2, 4, 6])] * min(rank, 2), "smem")
            self.k.inputs.append(o)
            self.refs.append(Ref(name, dtype, o.shape, space="smem"))
            return
        if self.chance(0.1) and not self.k.pipeline:
            o = Operand(name, dtype, [r.choice([n for n in LENGTHS if n <= 16]) for _ in range(rank)], "any")
            self.k.inputs.append(o)
            self.far.append(Ref(name, dtype, o.shape))
            return
        parts = self.input_dims(dims, rank)
        shape, block, at, hang = [list(x) for x in zip(*parts)]
        area = self.dims([b for b in block if b != "_"])
        while area > 2048 and len(shape) > 1:
            del shape[0], block[0], at[0], hang[0]
            area = self.dims([b for b in block if b != "_"])
        if not any(hang) and self.chance(0.4):
            o = Operand(name, dtype, shape)
        else:
            o = Operand(name, dtype, shape, "block", block, at)
            if any(hang) and self.chance(0.75):
                o.pad = self.number(dtype, self.chance(0.9))
                if is_float(dtype) and dtype != SCALE and self.chance(0.6):
                    o.pad = 0.0
            if self.chance(0.12):
                self.by_elements(o)
            if self.chance(0.1):
                o.buffers = r.randint(1, 4)
        self.k.inputs.append(o)
        self.declare_input(o)

    def by_elements(self, o):
        """The block `at element`, a few elements away from where it was."""
        at, halo = [], []
        for b, entry in zip(o.block, o.at):
            size = 1 if b == "_" else b
            low = self.r.choice([0, 0, 1, 2]) if o.pad is not None and size != 1 and not isinstance(size, str) else 0
            if not isinstance(size, int):
                at.append(entry)
            else:
                e = entry if size == 1 else binary("*", INDEX, entry, index(size))
                at.append(binary("-", INDEX, e, index(low)) if low else e)
            halo.append((low, 200))
        o.mode, o.at = "element", at
        if any(low for low, _ in halo) or self.chance(0.3):
            o.halo = halo

    def declare_input(self, o):
        """Masks overhanging blocks, usually."""
        ref = Ref(o.name, o.dtype, o.ref)
        hang = o.mode == "block" and o.pad is None
        if not hang or self.chance(0.15):
            o.stored = ref.writable = o.mode != "any" and all(x.alias != o.name for x in self.k.outputs) and self.chance(0.1)
            self.refs.append(ref)
            return
        mask, axis, t = None, 0, Type("bool", ref.shape)
        for b, n, entry in zip(o.block, o.shape, o.at):
            if b == "_":
                continue
            if not isinstance(b, str) and ref.shape:
                here = binary("+", Type("i32", ref.shape), binary("*", INDEX, entry, index(b)), self.iota(ref.shape, axis)) \
                    if entry.op != "lit" and entry.type == INDEX else self.iota(ref.shape, axis)
                size = tree.name(n, INDEX) if isinstance(n, str) else index(n)
                term = binary("<", t, here, size)
                mask = term if mask is None else binary(self.r.choice(["&", "&&"]), t, mask, term)
            axis += 1
        if mask is None or not ref.shape:
            self.refs.append(ref)
            return
        v = call("where", Type(o.dtype, ref.shape), [mask, self.whole(ref), self.literal(o.dtype, True)])
        self.prelude.append(self.let(v))

    # ---- statements

    def let(self, v):
        name = self.fresh("v")
        self.values.append(tree.name(name, v.type))
        return Stmt("let", [v], name=name)

    def random_shape(self):
        shapes = [ref.shape for ref in self.refs if ref.space == "vmem"] + [v.type.shape for v in self.values]
        if shapes and self.chance(0.7):
            return self.r.choice(shapes)
        rank = self.r.choice([0, 1, 2, 2, 3])
        return tuple(self.r.choice([n for n in LENGTHS if n <= (8 if rank > 2 else 33)]) for _ in range(rank))

    def nested(self, make, extra_values=(), extra_indices=()):
        """A body with its own scope."""
        kept = list(self.values), list(self.indices), list(self.refs)
        self.values += list(extra_values)
        self.indices += list(extra_indices)
        self.depth += 1
        body = make()
        self.depth -= 1
        self.values, self.indices, self.refs = kept
        return body

    def window_of(self, ref):
        """Random (subscripts, positions, shape) of a ref."""
        if self.chance(0.35):
            return self.from_run_time(ref.shape, [("dots",)], []) + (ref.shape,)
        want = []
        for n in ref.shape:
            if isinstance(n, str) or n == 0 or self.chance(0.3):
                want.append(n)
            elif self.chance(0.25):
                continue
            else:
                want.append(self.r.randint(1, n))
        self.slice_steps = False
        fit = self.moving_subscripts(ref.shape, want)
        if fit is None or any(s[0] == "none" for s in fit[0]):
            return [("dots",)], [], ref.shape
        return fit[0], fit[1], tuple(want)

    def open_store(self, ref):
        """A masked store whose window may leave its ref."""
        shape = [self.r.choice([n, n, self.r.randint(1, 20)]) if isinstance(n, int) else n for n in ref.shape]
        fit = self.open_window(ref, shape) if shape else None
        if fit is None:
            return None
        sub, args, mask = fit
        v = self.bounded(self.expr(Type(ref.dtype, tuple(shape)), 2))
        return Stmt("masked_store", [v, mask] + args, ref=ref.name, sub=sub, open=True)

    def store(self, ref, whole=False):
        r = self.r
        opened = self.open_store(ref) if not whole and self.chance(0.12) else None
        if opened is not None:
            return opened
        if ref.space == "smem":
            sub, args, shape = [("at",)] * len(ref.shape), [self.index_below(n) for n in ref.shape], ()
        else:
            sub, args, shape = self.from_run_time(ref.shape, [("dots",)], []) + (ref.shape,) if whole else self.window_of(ref)
        t = Type(ref.dtype, shape)
        v = self.store_value(ref, t, whole)
        if whole:
            return Stmt("store", [v] + args, ref=ref.name, sub=sub, symbol="=")
        if self.chance(0.2) and shape and v.op != "if":
            return Stmt("masked_store", [v, self.mask(shape)] + args, ref=ref.name, sub=sub)
        symbol = "="
        if self.chance(0.25) and v.op != "if" and ref.dtype not in ("bool", SCALE):
            symbol = r.choice(["+=", "-="] + (["&=", "|=", "^=", "*="] if is_int(ref.dtype) else []))
            v = self.small(v)
        if self.chance(0.05) and symbol == "=":
            v = self.literal(ref.dtype)
        return Stmt("store", [v] + args, ref=ref.name, sub=sub, symbol=symbol)

    def store_value(self, ref, t, whole):
        if not whole and ref.readable and self.chance(0.25):
            e = self.read(ref, t)
            if e is not None:
                return self.bounded(e)
        if self.due and self.depth == 0 and self.chance(0.8 if whole else 0.4):
            return self.bounded(self.with_due(t))
        return self.value(t, self.r.choice([1, 2, 2, 3]))

    def with_due(self, t):
        """An expression of a value that outputs must depend on."""
        v = self.adapt(self.due.pop(), t)
        if t.dtype in ("bool", SCALE) or self.chance(0.5):
            return v
        return binary(self.r.choice("+-"), t, v, self.expr(t, 1))

    def statement(self):
        r = self.r
        writable = [ref for ref in self.refs if ref.writable]
        kind = r.randrange(28)
        if kind > 21:
            return self.pattern()
        if kind == 20:
            return self.view()
        if kind == 21:
            return self.copy() if self.depth < 2 else []
        if kind <= 4:
            return [self.let(self.bounded(self.expr(Type(self.dtype(), self.random_shape()), r.choice([1, 2, 3, 3]))))]
        if kind <= 10 and writable:
            return [self.store(r.choice(writable))]
        if kind == 11 and self.depth < 3:
            return [self.never() if self.chance(0.25) else Stmt("when", [self.condition()], [self.nested(self.statements)])]
        if kind == 12 and self.depth < 3:
            bodies = [self.nested(self.statements) for _ in range(r.choice([1, 2, 2]))]
            return [Stmt("if", [self.condition()], bodies)]
        if kind in (13, 14) and self.depth < 3:
            return [self.loop()]
        if kind == 15:
            return [self.let(self.choice(Type(self.dtype(), self.random_shape())))]
        if kind == 16:
            return self.variable()
        if kind == 17 and writable:
            return self.scatter(r.choice(writable))
        if kind == 18 and self.depth < 3:
            return self.scoped()
        if kind == 19 and self.depth < 3:
            return [Stmt("region", [], [self.nested(self.statements)], name=self.fresh("part "))]
        return [self.let(self.bounded(self.expr(Type(self.dtype(), self.random_shape()), 2)))]

    def statements(self, least=1):
        out = []
        for _ in range(self.r.randint(least, 3)):
            if self.budget <= 0:
                break
            self.budget -= 1
            out += self.statement()
        return out

    def never(self):
        """A body that does not run, under a false condition or in a loop without iterations."""
        r, dead, self.dead = self.r, self.dead, True
        body = self.nested(self.statements)
        self.dead, t, i32 = dead, Type("bool", ()), Type("i32", ())
        index_name, n = r.choice(self.indices or [index(1)]), r.randint(0, 4)
        if self.chance(0.3):
            return Stmt("for", [index(n), index(r.randint(0, n))], [body], name=self.fresh("n"), static=False)
        false = r.choice([binary("<", t, index_name, index(0)), binary("<", t, tree.full(i32, n), Expr("lit", i32, value=n))])
        return Stmt("when", [false], [body])

    def loop(self):
        r, name = self.r, self.fresh("n")
        self.depth += 1
        static = self.chance(0.25)
        first = index(r.choice([0, 0, 0, 1, 2]))
        last = index(r.randint(0, 4))
        if not static and self.chance(0.4):
            last = call("min", INDEX, [self.index_value(1), index(r.randint(1, 5))])
        self.depth -= 1
        i = tree.name(name, INDEX)
        if static:  # copies, which are the same or differ in numbers
            inner = self.nested(self.statements, extra_indices=[i, i] if self.chance(0.5) else ())
        else:
            inner = self.nested(self.statements, extra_indices=[i, i])
            if self.chance(0.15):
                inner.append(Stmt("when", [self.condition()], [[Stmt("break")]]))
        return Stmt("for", [first, last], [inner], name=name, static=static)

    def variable(self):
        """A scalar that a loop increments, or an array to which statements store."""
        r, name = self.r, self.fresh("w")
        if self.chance(0.5):
            t = Type(r.choice(["f32", "i32", r.choice(NUMBERS)]), self.random_shape())
            stmt = Stmt("var", [self.value(t, 1)], name=name, dtype=t.dtype, shape=t.shape)
            if t.shape:
                self.refs.append(Ref(name, t.dtype, t.shape, True, True))
            else:
                self.values.append(tree.name(name, t))
            return [stmt]
        t = Type("i32", ())
        out = [Stmt("var", [self.literal("i32", True)], name=name, dtype="i32", shape=())]
        variable = tree.name(name, t)

        def body():
            inner = self.statements(0)
            step = self.condition() if False else None
            by = self.integer_scalar() if self.chance(0.3) else Expr("lit", t, value=r.randint(1, 3))
            del step
            by = Expr("lit", t, value=1) if by is None else by
            inner.append(Stmt("assign", [by], name=name, symbol=r.choice(["+=", "+=", "-=", "*=", "="]), dtype="i32", target=variable))
            return inner
        if self.depth < 3 and self.chance(0.7):
            if self.chance(0.3):
                inner = self.nested(self.statements, [variable])
                inner.append(Stmt("assign", [Expr("lit", t, value=r.randint(1, 4))], name=name, symbol="+=", dtype="i32", target=variable))
                out.append(Stmt("while", [binary("<", Type("bool", ()), variable, Expr("lit", t, value=r.randint(3, 9)))], [inner]))
            else:
                loop_name = self.fresh("n")
                inner = self.nested(body, [variable], [tree.name(loop_name, INDEX)])
                out.append(Stmt("for", [index(0), index(r.randint(0, 4))], [inner], name=loop_name, static=False))
        self.values.append(variable)
        return out

    def scatter(self, ref):
        axes = [a for a, n in enumerate(ref.shape) if isinstance(n, int)]
        if not axes or ref.space == "smem" or ref.dtype == "bool":
            return []
        chosen = sorted(self.r.sample(axes, self.r.choice([1, 1, min(2, len(axes)), min(3, len(axes))])))
        axis, count = chosen[0], self.r.choice([1, 2, 3, 5, 8, 17])
        vectors = [self.scatter_index(count, ref.shape[k]) for k in chosen]
        at = vectors[0] if len(vectors) == 1 else Expr("tuple", INDEX, vectors)
        shape = [n for k, n in enumerate(ref.shape) if k not in chosen]
        shape = tuple(shape[:axis] + [count] + shape[axis:])
        axis = axis if len(chosen) == 1 else tuple(chosen)
        v = self.bounded(self.expr(Type(ref.dtype, shape), 1))
        function = "scatter" if ref.dtype == SCALE else self.r.choice(["scatter", "scatter_add"])
        v = self.small(v) if function == "scatter_add" else v
        return [Stmt("scatter", [v, at], ref=ref.name, sub=[("dots",)], fn=function, axis=axis)]

    def scatter_index(self, count, n):
        """Positions along an axis of n, usually inside it."""
        at = self.leaf(Type("i32", (count,)))
        if self.chance(0.7):
            at = call("mod", at.type, [at, Expr("lit", Type("i32", ()), value=max(1, n + self.r.randint(0, 2)))])
        return at

    def view(self):
        """The subscripts of a window at constant positions."""
        refs = [ref for ref in self.refs if ref.readable and ref.space == "vmem" and ref.shape and all(isinstance(n, int) for n in ref.shape)]
        if not refs:
            return []
        r, ref = self.r, self.r.choice(refs)
        sub, shape = [], []
        for n in ref.shape:
            if self.chance(0.3) and n > 0:
                first = r.randrange(n)
                shape.append(r.randint(1, n - first))
                sub.append(("range", first, first + shape[-1], 1))
            else:
                shape.append(n)
                sub.append(("all",))
        dtype, count = ref.dtype, self.dims(shape)
        if dtype != "bool" and self.chance(0.4):
            dtype = r.choice([d for d in NUMBERS if DTYPES[d].bits == DTYPES[dtype].bits])
        seen = shape
        if self.chance(0.6) and count:
            a = r.choice([f for f in range(1, count + 1) if count % f == 0])
            seen = r.choice([[a, count // a], [count], [a, 1, count // a]])
        perm = None
        if self.chance(0.4):
            perm = list(range(len(seen)))
            r.shuffle(perm)
        final = tuple(seen[p] for p in perm) if perm else tuple(seen)
        sub, args = self.from_run_time(ref.shape, sub, [])
        name = self.fresh("g")
        self.refs.append(Ref(name, dtype, final, True, ref.writable, "view"))
        return [Stmt("view", args, ref=ref.name, sub=sub, name=name, dtype=dtype, source=ref.dtype, shape=tuple(seen), perm=perm,
                     reshaped=seen != shape)]

    def semaphore(self, regular=False):
        name = "sem2" if regular else "sem1"
        self.k.semaphores[name] = "regular" if regular else "dma"
        return name

    def copy(self):
        """Between a ref or an array in HBM and scratch, with other statements before the wait."""
        r = self.r
        if self.k.pipeline or self.copying:
            return []
        targets = [ref for ref in self.refs if ref.writable and ref.readable and ref.space == "vmem" and ref.name[0] == "s" and ref.shape]
        sources = [(ref, s) for ref in self.far + self.refs for s in targets if ref.dtype == s.dtype and ref.name != s.name and
                   ref.readable and (ref in self.far or ref.name[0] == "s") and ref.space == "vmem"]
        if not sources and targets and self.far_input(r.choice(targets)):
            return self.copy()
        if not sources:
            return []
        source, target = r.choice([x for x in sources if x[0] in self.far] or sources)
        before = []
        if self.chance(0.2) and target.dtype != "bool" and DTYPES[target.dtype].bits >= 8 and all(isinstance(n, int) for n in target.shape) and len(self.far) <= 2:
            before, source = self.far_view(target)
        self.slice_steps = False
        partly = len(source.shape) == len(target.shape) and self.chance(0.6)
        fit = None if partly else self.subscripts(source.shape, target.shape)
        sub, args, to, places = (fit + ([("dots",)], [])) if fit else self.part_of_both(source, target)
        if sub is None or any(x[0] == "none" for x in sub):
            return []
        if fit is None and not before and self.chance(0.5):  # lengths of copies of views are constants
            sub, args, to, places = self.run_time_length(source, target, [sub, args, to, places])
        self.copying = True

        def body():
            self.refs = [ref for ref in self.refs if ref.name not in (target.name, source.name) and ref.space != "view"]
            return self.statements(0) if self.chance(0.5) else []
        inner = self.nested(body)
        self.copying, regular = False, not before and self.chance(0.3)  # a copy of a view may be carried out as several
        places = list(args) + list(places)
        same = not before and not any(e.op == "load" for x in places for e in tree.walk_expr(x))  # also at the time of the wait
        return before + [Stmt("copy", places, [inner], source=source.name, sub=sub, target=target.name, to=to,
                              positions=len(args), semaphore=self.semaphore(regular), regular=regular, name=self.fresh("c"),
                              wait_moved=r.choice([-2, 1, 100]) if same and self.chance(0.3) else 0)]

    def far_operand(self, shape, dtype):
        o = Operand(self.fresh("x"), dtype, [max(1, n + self.r.choice([-1, 0, 0, 2, 5])) for n in shape], "any")
        self.k.inputs.append(o)
        self.far.append(Ref(o.name, o.dtype, o.shape))
        return o

    def far_input(self, target):
        """An operand in HBM that a ref's windows can be copied from."""
        if len(self.far) > 2 or any(isinstance(n, str) for n in target.shape):
            return False
        self.far_operand(target.shape, target.dtype)
        return True

    def far_view(self, target):
        """Copies an operand in HBM with as many bits, viewed in the dtype of the target, with its axes in any order: (statement, view)."""
        same = [d for d in NUMBERS if DTYPES[d].bits == DTYPES[target.dtype].bits]
        axes = self.r.sample(range(len(target.shape)), len(target.shape)) if self.chance(0.4) else list(range(len(target.shape)))
        shape = [target.shape[axes.index(k)] for k in range(len(axes))]
        o, name = self.far_operand(shape, self.r.choice(same)), self.fresh("g")
        perm = None if axes == sorted(axes) else tuple(axes)
        view = Stmt("view", [], ref=o.name, sub=[("all",)] * len(o.shape), name=name, dtype=target.dtype, source=o.dtype,
                    shape=tuple(o.shape), perm=perm, reshaped=False)
        return [view], Ref(name, target.dtype, [o.shape[k] for k in axes])

    def run_time_length(self, source, target, fits):
        """The windows with a run-time length along one axis, often 0."""
        sub, args, to, places = [list(x) for x in fits]
        alike = [k for k, (a, b) in enumerate(zip(source.shape, target.shape)) if isinstance(a, int) and isinstance(b, int) and a and b]
        if len(sub) != len(source.shape) or len(to) != len(target.shape) or not alike:
            return fits
        axis, most, length = self.r.choice(alike), None, None
        strides = [self.r.choice([1, 1, 1, 2]) for _ in range(2)]
        most = self.r.randint(0, min((n - 1) // stride + 1 for n, stride in zip((source.shape[axis], target.shape[axis]), strides)))
        length = self.index_below(most + 1)
        if self.chance(0.3) and any(e.op == "load" for e in tree.walk_expr(length)):
            length = binary("-", length.type, length, Expr("lit", length.type, value=1))
        for items, exprs, ref, stride in ((sub, args, source, strides[0]), (to, places, target, strides[1])):
            before = sum(x[0] in ("at", "ds") for x in items[:axis])
            start = self.index_below(max(1, ref.shape[axis] - max(0, most - 1) * stride))
            exprs[before:before + (items[axis][0] in ("at", "ds"))] = [start, length]
            items[axis] = ("run", stride)
        return sub, args, to, places

    def part_of_both(self, source, target):
        """One window that fits both refs."""
        if len(source.shape) != len(target.shape):
            return None, [], [], []
        shape = []
        for a, b in zip(source.shape, target.shape):
            if a != b and (isinstance(a, str) or isinstance(b, str)):
                return None, [], [], []
            shape.append(a if isinstance(a, str) else self.r.randint(min(1, a, b), min(a, b)))
        fits = self.subscripts(source.shape, shape), self.subscripts(target.shape, shape)
        if None in fits or any(x[0] == "none" for f in fits for x in f[0]):
            return None, [], [], []
        return fits[0] + fits[1]

    def scoped(self):
        s = Scratch(self.fresh("s"), self.dtype(), self.random_shape() or (3,))
        ref = Ref(s.name, s.dtype, s.shape, False, True)

        def body():
            first = self.store(ref, True)
            ref.readable = True
            self.refs.append(ref)
            return [first] + self.statements()
        return [Stmt("scoped", [], [self.nested(body)], scratch=[s])]

    # ---- the kernel

    def far_output(self):
        """Adds an output in HBM with an axis for each grid axis, and returns the statements by which each step copies its part at the end."""
        shape = tuple(self.r.choice([n for n in LENGTHS if n <= 16]) for _ in range(self.r.randint(1, 2)))
        moved = [d for d in self.axis_dims.values() if d.axis.parallel]
        if any(not isinstance(d.size, str) or d.block not in ("_", 1) for d in moved):
            return []
        name, dtype = self.fresh("out"), self.dtype()
        s = Scratch(self.fresh("s"), dtype, shape)
        self.k.scratch.append(s)
        self.k.outputs.append(Operand(name, dtype, [d.size for d in moved] + list(shape), "any"))
        ref = Ref(s.name, dtype, shape, True, True)
        places = [tree.name(d.axis.name, INDEX) for d in moved]
        sub = [("at",)] * len(moved) + [("all",)] * len(shape)
        copy = Stmt("copy", places, [[]], source=s.name, sub=[("dots",)], target=name, to=sub, positions=0, semaphore=self.semaphore(),
                    regular=False, name=self.fresh("c"))
        return [self.store(ref, True), copy]

    def ignoring_output(self, dims):
        """Adds an output to which all steps along a parallel axis store the same value, and returns the statement."""
        k, axes = self.k, [d.axis for d in dims if d.axis and d.axis.parallel]
        if not axes:
            return []
        axis = self.r.choice(axes)
        o = self.place_output([d for d in dims if d.axis is not axis], self.fresh("out"), self.dtype())
        if o.revisit or k.prefetch:
            return []
        o.ignores = axis.name
        k.outputs.append(o)
        inputs = [x.name for x in k.inputs if not x.stored and axis.name not in names_of(x.at)]
        kept = self.values, self.refs, self.indices
        self.values, self.refs = [], [ref for ref in self.refs if ref.name in inputs]
        self.indices = [i for i in self.indices if axis.name not in names_of([i])]
        store = self.store(Ref(o.name, o.dtype, o.ref, False, True), True)
        self.values, self.refs, self.indices = kept
        return [store]

    def alias_of(self, o):
        """An input whose memory the output shares, with the same blocks."""
        if o.mode != "block" or o.revisit or not o.shape:
            return
        x = Operand(self.fresh("x"), o.dtype, o.shape, "block", o.block, list(o.at))
        o.alias = x.name
        self.k.inputs.append(x)
        self.declare_input(x)

    def smem_scratch(self, axes):
        s = Scratch(self.fresh("m"), self.r.choice(["i32", "i32", "f32", "i8"]), (self.r.randint(1, 4),), "smem")
        self.k.scratch.append(s)
        t = Type(s.dtype, ())
        stores = [Stmt("store", [self.expr(t, 1), index(n)], ref=s.name, sub=[("at",)], symbol="=") for n in range(s.shape[0])]
        self.refs.append(Ref(s.name, s.dtype, s.shape, True, True, "smem"))
        return [Stmt("when", [self.first_step(axes)], [stores])] if axes and self.chance(0.6) else stores

    def name_statics(self):
        """Replaces numbers of blocks and index maps by names."""
        blocks = sorted({b for o in self.k.inputs + self.k.outputs for b in o.block if isinstance(b, int) and b > 1})
        if not blocks or not self.chance(0.25):
            return
        value = self.r.choice(blocks)
        self.k.statics.append(("BLOCK", value))
        self.k.fns[:] = [f[:3] + (True,) + f[4:] for f in self.k.fns]
        for e in list(tree.exprs_of(self.k)):
            if e.op == "lit" and e.type == INDEX and e.attr["value"] == value:
                e.op, e.attr = "name", {"name": "BLOCK"}

    def into_pipeline(self):
        """Turns the grid into a `pipeline` of the body, if that is equivalent."""
        k = self.k
        operands = [o for o in k.inputs + k.outputs if o.mode == "block"]
        if not k.axes or k.prefetch or any(a.parallel for a in k.axes) or any(o.revisit or o.alias for o in k.outputs):
            return
        if k.semaphores or any(o.stored for o in k.inputs) or not operands or any(o.mode == "element" for o in k.inputs + k.outputs) or not self.chance(0.5):
            return
        k.pipeline = True
        names = {o.name: tree.block_name(o) for o in operands}
        for e in tree.exprs_of(k):
            if e.attr.get("ref") in names:
                e.attr["ref"] = names[e.attr["ref"]]
        for s in tree.walk_stmts(k.body):
            if s.attr.get("ref") in names:
                s.attr["ref"] = names[s.attr["ref"]]
            if s.kind == "stores":
                s.attr["targets"] = [(names.get(name, name), sub, count) for name, sub, count in s.attr["targets"]]

    def pack_some(self):
        """Makes some operands `packed`, which changes only the memory of the caller."""
        aliases = {o.alias for o in self.k.outputs}
        for o in self.k.inputs + self.k.outputs:
            if DTYPES[o.dtype].bits < 8 and o.shape and not o.alias and o.name not in aliases:
                o.packed = self.chance(0.6)
        for o in self.k.outputs:
            if o.alias and DTYPES[o.dtype].bits < 8:
                x = next(x for x in self.k.inputs if x.name == o.alias)
                o.packed = x.packed = self.chance(0.6)

    def first_step(self, axes):
        """The condition that all these axes are at 0."""
        out = None
        for a in axes:
            term = binary("==", Type("bool", ()), tree.name(a.name, INDEX), index(0))
            out = term if out is None else binary("&&", term.type, out, term)
        return out

    def initial(self, ref, axes):
        store = self.store(ref, True)
        ref.readable = True
        if axes and self.chance(0.6):
            return Stmt("when", [self.first_step(axes)], [[store]])
        return store

    def make(self):
        k, r = self.k, self.r
        self.prelude, self.depth, self.budget = [], 0, r.randint(1, 8)
        dims = self.make_dims()
        self.make_grid(dims)
        for _ in range(r.choice([1, 1, 2, 2, 3])):
            self.make_input(dims)
        k.outputs.append(self.place_output(dims, "o", self.dtype()))
        for n in range(r.choice([0, 0, 0, 1, 1, 2])):
            k.outputs.append(self.place_output(self.more_output_dims(dims), f"o{n + 2}", self.dtype()))
        if self.chance(0.08):
            self.alias_of(k.outputs[0])
        for t in k.prefetch:
            self.refs.append(Ref(t.name, t.dtype, t.shape, space="smem"))
        outputs = [Ref(o.name, o.dtype, o.ref, False, True) for o in k.outputs]
        self.asked = [Type(o.dtype, o.shape) for o in outputs]
        last = max([n for n, a in enumerate(k.axes) if a.parallel], default=-1)
        arbitrary = k.axes[last + 1:]
        body = self.prelude
        for _ in range(r.choice([0, 0, 1, 1, 2, 3])):
            s = Scratch(self.fresh("s"), self.dtype(), self.random_shape() or (r.choice(LENGTHS),))
            k.scratch.append(s)
            ref = Ref(s.name, s.dtype, s.shape, False, True)
            body.append(self.initial(ref, arbitrary))
            self.refs.append(ref)
        if self.chance(0.12):
            body += self.smem_scratch(arbitrary)
        late = []
        for o, ref in zip(k.outputs, outputs):
            used = set()
            for entry in o.at:
                used |= {e.attr["name"] for e in tree.walk_expr(entry) if e.op == "name"}
            free = [a for a in (k.axes if o.revisit else arbitrary) if not a.parallel and a.name not in used]
            if (free and self.chance(0.8)) or self.chance(0.35):
                body.append(self.initial(ref, free))
                self.refs.append(ref)
            else:
                late.append(ref)
        while self.budget > 0:
            body += self.statements()
        for ref in [x for x in outputs if x not in late]:
            if self.chance(0.7):
                body.append(self.store(ref))
        for ref in late:
            if self.chance(0.15):
                stores = [self.store(ref, True), self.store(ref, True)]
                body.append(Stmt("if", [self.condition()], [[s] for s in stores]))
            else:
                body.append(self.store(ref, True))
        for ref in self.r.sample(outputs, len(outputs)):
            if self.due and self.chance(0.8):
                body.append(self.store(ref, True))
        if self.chance(0.08):
            body += self.ignoring_output(dims)
        if self.chance(0.08):
            body += self.far_output()
        k.body = body
        k.threads = r.choice([1, 1, 2, 3])
        self.repair_sizes()
        self.into_pipeline()
        self.name_statics()

    def repair_sizes(self):
        """Makes every size an axis of some operand, if necessary of an input."""
        k = self.k
        bound = {n for o in k.inputs + k.outputs for n in o.shape if isinstance(n, str)}
        for name in [n for n in self.nominal if n not in bound]:
            k.inputs.append(Operand(self.fresh("z"), "i8", [name]))
        if not k.inputs:
            k.inputs.append(Operand("z", "i8", [1]))

    # ---- data

    def data(self, o):
        r, kind = self.r, DTYPES[o.dtype].kind
        seed = r.randint(0, 999)
        if o.name == "zero":
            return "zeros"
        if kind == "b":
            return f"randint:0:2:{seed}"
        if o.dtype == SCALE:
            return f"randint:{r.choice([-1, 1, 1, 1])}:9:{seed}"
        if kind == "f":
            if self.patterned:
                return f"patterns:{seed}"
            choice = r.randrange(8)
            return ["iota", "zeros", f"const:{r.randint(-3, 4)}"][choice] if choice < 2 and o.dtype in ("f32", "bf16") else f"randint:-4:5:{seed}"
        low, high = int_range(o.dtype)
        if o.mode in ("prefetch", "smem"):
            return f"randint:0:{min(8, high)}:{seed}"
        if self.chance(0.25):
            return f"randint:{max(low, -1 << 30)}:{min(high, 1 << 30)}:{seed}"
        return f"randint:{max(low, -5)}:{min(high, 9)}:{seed}"

    def make_test(self):
        sizes = {n: self.size_value(n) for n in self.nominal}
        self.patterned = self.chance(0.2)
        return {"sizes": sizes, "inputs": {o.name: self.data(o) for o in self.k.prefetch + self.k.inputs}}


def names_of(exprs):
    """Names of axes in index expressions."""
    inside = [e for x in exprs for e in tree.walk_expr(x)]
    return {e.attr.get("name") for e in inside} | {e.attr["par"].get("axis") for e in inside if e.op == "call"}


class Case:
    """A kernel with the outputs that each of its tests expects."""

    def __init__(self, kernel, expected, attempts):
        self.kernel, self.expected, self.attempts = kernel, expected, attempts


def evaluate(kernel):
    """The outputs for each test; Reject where one is not valid."""
    return [Evaluator(kernel, test).evaluate() for test in kernel.tests]


def steps_of(kernel, test):
    ev = Evaluator(kernel, test)
    for o in kernel.prefetch:
        ev.refs[o.name] = ev.arrays[o.name]
    steps = 1
    for axis in kernel.axes:
        steps *= max(0, ev.ix(axis.extent))
    return steps


def stays_in_order(kernel, output):
    """Whether no block of the output is revisited after it was left, if all axes of the grid run in order."""
    names = set(re.findall(r"\w+", " ".join(map(tree.text_of, output.at or []))))
    moved = [n for n, axis in enumerate(kernel.axes) if axis.name in names]
    return output.revisit or moved == list(range(len(moved)))


def case(seed, number, avoid=tuple(KNOWN), make=Generator):
    """Kernel `number` of `seed`: always the same."""
    attempt = 0
    while True:
        g = make(seed, number, attempt, avoid)
        attempt += 1
        g.k.moves = make is Generator and g.chance(0.1)
        g.make()
        g.pack_some()
        kernel, tests, expected, failed, most = g.k, [], [], 0, g.r.choice([1, 1, 2, 2, 3])
        for _ in range(12):
            if len(tests) >= most or failed >= 3:
                break
            test = g.make_test()
            if steps_of(kernel, test) > MOST_GRID_STEPS or test["sizes"] in [t["sizes"] for t in tests]:
                continue
            try:
                expected.append(Evaluator(kernel, test).evaluate())
                tests.append(test)
            except Reject:
                failed += 1
        if tests:
            kernel.tests = tests
            kernel.undeclared = make is Generator and random.Random(f"undeclared:{seed}:{number}").random() < 0.3
            kernel.undeclared &= all(stays_in_order(kernel, output) for output in kernel.outputs)
            kernel.undeclared &= not any(o.stored for o in kernel.prefetch + kernel.inputs)  # arbitrary axes carry what is stored
            return Case(kernel, expected, attempt)


__all__ = ["Case", "Generator", "KNOWN", "case", "evaluate", "FLOATS"]
