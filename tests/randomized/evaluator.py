"""The NumPy twin: runs a kernel's tree on data, step by step of the grid.

It tracks unspecified elements, and raises Reject if the kernel is not valid: an unspecified element reaches an output, a condition or an
index; a window or block leaves its array; an output block is revisited, or never written.
"""
import itertools

import numpy as np

from . import operations as op
from . import tree
from .functions import CALLS
from .inputs import make
from .operations import Reject, V
from .types import ANY_NAN, INDEX, holder, is_float, is_int, spread, wrap

MOST_STEPS, MOST_TURNS = 300, 20000


class Memory:
    """A ref, or an array in main memory."""

    def __init__(self, dtype, d, u, e=None):
        self.dtype, self.d, self.u, self.e = dtype, d, u, e
        self.written = None

    @staticmethod
    def empty(dtype, shape):
        return Memory(dtype, np.zeros(shape, holder(dtype)), np.ones(shape, bool))

    def read(self, place):
        u = self.u[place]
        e = None if self.e is None else self.e[place]
        return V(np.array(self.d[place]), np.array(u) if u.any() else None, None if e is None or not e.any() else np.array(e))

    def write(self, place, v, where=True):
        """Elements of the window where `where` holds."""
        shape = self.d[place].shape
        u = spread(False if v.u is None else v.u, shape)
        plain = where is True
        self.d[place] = v.d if plain else np.where(where, v.d, self.d[place])
        self.u[place] = u if plain else np.where(where, u, self.u[place])
        if v.e is not None or self.e is not None:
            if self.e is None:
                self.e = np.zeros(self.d.shape)
            e = 0.0 if v.e is None else v.e
            self.e[place] = e if plain else np.where(where, e, self.e[place])


class View:
    """A window of a ref with another dtype, shape or order of axes; reads and writes access the ref."""

    def __init__(self, base, place, dtype, shape, perm):
        self.base, self.place, self.dtype, self.shape, self.perm = base, place, dtype, shape, perm

    def seen(self, a):
        a = a.reshape(self.shape)
        return np.transpose(a, self.perm) if self.perm else a

    def whole(self):
        v = self.base.read(self.place)
        if self.dtype != self.base.dtype:
            v = op.bitcast(v, self.dtype, self.base.dtype)
        return op.each(v, self.seen)

    @property
    def d(self):
        return self.whole().d

    def read(self, place):
        return op.each(self.whole(), lambda a: np.array(a[place]))

    def write(self, place, v, where=True):
        """Stores the whole view with this part changed."""
        whole = self.whole()
        shape, changed = whole.d.shape, Memory(self.dtype, np.array(whole.d), np.array(spread(
            False if whole.u is None else whole.u, whole.d.shape)), None if whole.e is None else np.array(whole.e))
        changed.write(place, v, where)
        v = V(changed.d, changed.u if changed.u.any() else None, changed.e)

        def back(a):
            a = spread(a, shape)
            a = np.transpose(a, np.argsort(self.perm)) if self.perm else a
            return a.reshape(self.base.d[self.place].shape)
        v = op.each(v, back)
        if self.dtype != self.base.dtype:
            v = op.bitcast(v, self.base.dtype, self.dtype)
        self.base.write(self.place, v)


# Operations of index scalars, in Python integers if these suffice.
OF_INDICES = ("min", "max", "cdiv", "+", "-", "*", "/", "%", "mod", "floordiv", "program_id", "num_programs")


def extent(text, sizes):
    """A size, or an expression of sizes."""
    try:
        value = sizes[text] if text in sizes else eval(text.replace("/", "//"), {"cdiv": lambda a, b: -(-a // b)}, sizes)  # pylint: disable=eval-used
    except NameError as name:
        raise Reject("no such size") from name
    if value < 0:
        raise Reject("a negative length")
    return value


def shape_of(dims, sizes):
    return tuple(extent(n, sizes) if isinstance(n, str) else n for n in dims)


def sizes_of(kernel, test):
    """The sizes in the test, and those that follow from them."""
    sizes = dict(test["sizes"])
    for name, value in getattr(kernel, "solved", ()):
        sizes[name] = extent(value, sizes)
    return sizes


class Break(Exception):
    pass


# Calls that only move elements, whose NaNs keep their bits.
MOVES = {"where", "select_n", "broadcast", "reshape", "squeeze", "transpose", "rev", "repeat", "tile", "pad", "roll", "concatenate", "stack",
         "take", "take_along_axis", "dynamic_slice", "dynamic_update_slice", "split", "unstack"}
SIGNS = {"signbit", "copysign", "nextafter"}  # read the bits of a NaN


def any_nan(v):
    """The value with NaNs of arbitrary bits."""
    if isinstance(v, (list, tuple)):
        return type(v)(any_nan(part) for part in v)
    if v.d.dtype != np.float64 or not np.isnan(v.d).any():
        return v
    return V(np.where(np.isnan(v.d), ANY_NAN, v.d), v.u, v.e)


class Evaluator:
    def __init__(self, kernel, test):
        self.patterns = any(text.startswith("patterns") for text in test["inputs"].values())
        self.k, self.test = kernel, test
        self.sizes = sizes_of(kernel, test)
        self.names = dict(self.sizes)
        for static, value in kernel.statics:
            self.names[static] = value
        self.refs, self.turns, self.held = {}, 0, {}
        self.fns = {f[0]: f for f in kernel.fns}
        self.arrays = {}
        for number, o in enumerate(kernel.prefetch + kernel.inputs):
            shape = self.shape(o.shape)
            data = make(test["inputs"].get(o.name, "random:0"), o.dtype, shape, number)
            self.arrays[o.name] = Memory(o.dtype, data, np.zeros(shape, bool))
        for o in kernel.outputs:
            if o.alias:
                self.arrays[o.name] = self.arrays[o.alias]
                self.arrays[o.alias].written = np.zeros(self.arrays[o.alias].d.shape, np.int64)
                continue
            self.arrays[o.name] = Memory.empty(o.dtype, self.shape(o.shape))
            self.arrays[o.name].written = np.zeros(self.shape(o.shape), np.int64)

    def shape(self, dims):
        return shape_of(dims, self.sizes)

    # ---- index scalars

    def ix(self, expr):
        """A position, bound or extent as a Python integer."""
        if expr.op == "lit":
            return expr.attr["value"]
        if expr.op == "name" and not isinstance(self.names[expr.attr["name"]], V):
            return self.names[expr.attr["name"]]
        function = expr.attr.get("symbol") or expr.attr.get("fn")
        if function in ("program_id", "num_programs"):
            return self.names[("num", expr.attr["par"]["axis"]) if function == "num_programs" else expr.attr["par"]["axis"]]
        if expr.type != INDEX or expr.op not in ("bin", "call") or function not in OF_INDICES or any(a.type != INDEX for a in expr.args):
            v = self.ev(expr)
            if v.u is not None and np.any(v.u):
                raise Reject("unspecified index")
            return int(v.d)
        values = [self.ix(a) for a in expr.args]
        if function in ("min", "max"):
            return {"min": min, "max": max}[function](values)
        a, b = values
        return int(op.INTEGER[function]("i64", np.int64(a), np.int64(b)))

    def truth(self, expr):
        v = self.ev(expr)
        if v.u is not None and np.any(v.u):
            raise Reject("unspecified condition")
        return bool(v.d)

    # ---- values

    def ev(self, expr):
        v = getattr(self, "op_" + expr.op)(expr)
        moves = expr.op not in ("bin", "un", "call") or expr.attr.get("fn") in MOVES or expr.attr.get("fn") in self.fns
        return v if moves or not self.patterns else any_nan(v)

    def operand(self, arg, dtype):
        """A value; an index scalar or bare literal takes the dtype it meets."""
        if arg.type == INDEX:
            v = self.ev(arg) if arg.op not in ("lit", "name") and arg.attr.get("fn") not in OF_INDICES else V(np.int64(self.ix(arg)))
            return V(wrap(dtype, v.d), v.u)
        v = self.ev(arg)
        return V(wrap(dtype, v.d)) if arg.op == "lit" and is_int(dtype) else v

    def op_name(self, expr):
        v = self.names.get(expr.attr["name"])
        if v is None:
            raise Reject("no such name")
        return v if isinstance(v, V) else V(v)

    def op_lit(self, expr):
        return V(expr.attr["value"])

    def op_full(self, expr):
        return V(np.full(self.shape(expr.type.shape), expr.attr["value"], holder(expr.type.dtype)))

    op_cast_lit = op_full

    def op_bin(self, expr):
        symbol, (a, b) = expr.attr["symbol"], expr.args
        if symbol in ("&&", "||") and not expr.type.shape:
            first = self.truth(a)
            return V(first) if first == (symbol == "||") else self.ev(b)
        if symbol in op.COMPARE:
            return op.compare(symbol, *[self.operand(x, "i64" if x.type == INDEX else x.type.dtype) for x in (a, b)])
        dtype = expr.type.dtype
        return op.arithmetic(symbol, dtype, self.operand(a, dtype), self.operand(b, dtype))

    def op_un(self, expr):
        return op.negate(expr.attr["symbol"], expr.type.dtype, self.ev(expr.args[0]))

    def op_turned(self, expr):
        return op.each(self.ev(expr.args[0]), lambda a: np.swapaxes(a, -1, -2))

    def op_if(self, expr):
        return self.ev(expr.args[1] if self.truth(expr.args[0]) else expr.args[2])

    def op_list(self, expr):
        return [self.ev(a) for a in expr.args]

    def op_part(self, expr):
        return self.ev(expr.args[0])[expr.attr["part"]]

    def place(self, sub, args, shape, moves=None):
        """A NumPy index; positions outside are not valid, or move the window inside."""
        moves = self.k.moves if moves is None else moves
        out, rest, axis = [], iter(args), 0
        taken = sum(s[0] not in ("none", "dots", "bare") for s in sub)
        for item in sub:
            kind = item[0]
            if kind == "none":
                out.append(None)
                continue
            if kind in ("dots", "bare"):
                out += [slice(None)] * (len(shape) - taken)
                axis += len(shape) - taken
                continue
            n = shape[axis]
            axis += 1
            if kind == "all":
                out.append(slice(None))
            elif kind == "const":
                out.append(item[1])
            elif kind == "range":
                out.append(slice(*item[1:]))
            elif kind == "span":
                out.append(slice(*[extent(n, self.sizes) if isinstance(n, str) else n for n in item[1:]]))
            else:
                start = self.ix(next(rest))
                size, stride = (max(0, self.ix(next(rest))), item[1]) if kind == "run" else item[1:] if kind == "ds" else (1, 1)
                size = n if isinstance(size, str) else size  # the whole of a run-time axis
                if moves and size and (size - 1) * stride < n:
                    start = min(max(start, 0), n - 1 - (size - 1) * stride)
                last = start + (size - 1) * stride
                if size and (start < 0 or last >= n):
                    raise Reject("a window leaves its ref")
                out.append(start if kind == "at" else slice(start, last + 1 if size else start, stride))
        return tuple(out)

    def window(self, name, sub, args, moves=None):
        ref = self.refs.get(name)
        if ref is None:
            raise Reject("no such ref")
        return ref, self.place(sub, args, ref.d.shape, moves)

    def op_load(self, expr):
        ref, place = self.window(expr.attr["ref"], expr.attr["sub"], expr.args)
        return ref.read(place)

    def lanes(self, sub, args, shape):
        """(clamped indices, which lanes lie inside) of a window that may leave its ref."""
        indices, inside, rest = [], True, iter(args)
        for axis, (item, n) in enumerate(zip(sub, shape)):
            line = np.arange(n)
            if item[0] == "ds":
                line = self.ix(next(rest)) + item[2] * np.arange(item[1])
            after = sum(other[0] != "at" for other in sub[axis + 1:])
            line = np.asarray(self.ix(next(rest))) if item[0] == "at" else line.reshape([-1] + [1] * after)
            indices.append(np.clip(line, 0, max(0, n - 1)))
            inside = inside & (line >= 0) & (line < n)
        return tuple(indices), inside

    def open_load(self, expr):
        ref = self.refs.get(expr.attr["ref"])
        if ref is None or 0 in ref.d.shape:
            raise Reject("no such ref")
        place, inside = self.lanes(expr.attr["sub"], expr.args[2:], ref.d.shape)
        v, mask = ref.read(place), self.ev(expr.args[0])
        self.check_lanes(mask, inside)
        return op.select(V((mask.d & inside).astype(np.int64), mask.u), [self.operand(expr.args[1], ref.dtype), v])

    @staticmethod
    def check_lanes(mask, inside):
        if mask.u is not None or np.any(mask.d & ~inside):
            raise Reject("a mask that is true outside its ref")

    def open_store(self, s):
        ref = self.refs.get(s.attr["ref"])
        if ref is None or 0 in ref.d.shape:
            raise Reject("no such ref")
        place, inside = self.lanes(s.attr["sub"], s.exprs[2:], ref.d.shape)
        v, mask = self.operand(s.exprs[0], ref.dtype), self.ev(s.exprs[1])
        self.check_lanes(mask, inside)
        shape = np.broadcast_shapes(*(i.shape for i in place))
        mask, v = spread(mask.d & inside, shape), op.each(v, lambda a: spread(a, shape))
        at = tuple(spread(i, shape)[mask] for i in place)
        ref.write(at, op.each(v, lambda a: a[mask]))

    def op_masked_load(self, expr):
        if expr.attr.get("open"):
            return self.open_load(expr)
        has_other = expr.attr["has_other"]
        ref, place = self.window(expr.attr["ref"], expr.attr["sub"], expr.args[1 + has_other:], moves=False)
        v, mask = ref.read(place), self.ev(expr.args[0])
        mask = op.each(mask, lambda a: spread(a, v.d.shape))
        other = self.operand(expr.args[1], ref.dtype) if has_other else V(np.zeros_like(v.d), np.ones(v.d.shape, bool))
        return op.select(V(mask.d.astype(np.int64), mask.u), [other, v])

    def op_index(self, expr):
        v = self.ev(expr.args[0])
        place = self.place(expr.attr["sub"], expr.args[1:], v.d.shape)
        return op.each(v, lambda a: a[place])

    def op_gather(self, expr):
        v, indices, place = self.ev(expr.args[0]), iter(expr.args[1:]), []
        for item in expr.attr["sub"]:
            at = None if item[0] == "all" else self.ev(next(indices))
            if at is not None and at.u is not None and np.any(at.u):
                raise Reject("unspecified index")
            place.append(slice(None) if at is None else at.d)
        return op.each(v, lambda a: spread(a, v.d.shape)[tuple(place)])

    def op_call(self, expr):
        function = expr.attr["fn"]
        if function in self.fns:
            return self.call_fn(self.fns[function], expr)
        if self.patterns and function in SIGNS and any(np.isnan(self.ev(a).d).any() for a in expr.args if is_float(a.type.dtype)):
            raise Reject("the sign of a NaN")
        return CALLS[function](self, expr)

    def call_fn(self, fn, expr):
        _, params, body, *_ = fn
        values = [self.ev(a) for a in expr.args]
        saved = {p: self.names.get(p) for p in params}
        self.names.update(zip(params, values))
        try:
            return self.ev(body)
        finally:
            self.names.update(saved)

    # ---- statements

    def run(self, body):
        known = set(self.names)
        for stmt in body:
            self.run_one(stmt)
        for name in set(self.names) - known:
            del self.names[name]

    def run_one(self, stmt):
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise Reject("takes too long")
        getattr(self, "st_" + stmt.kind)(stmt)

    def st_let(self, s):
        self.names[s.attr["name"]] = self.ev(s.exprs[0])

    def st_lets(self, s):
        self.names.update(zip(s.attr["names"], self.ev(s.exprs[0])))

    def st_stores(self, s):
        values = self.ev(s.exprs[0])
        for v, (name, sub, args) in zip(values, tree.targets_of(s)):
            ref, place = self.window(name, sub, args)
            ref.write(place, v)

    def st_var(self, s):
        v, shape, dtype = self.operand(s.exprs[0], s.attr["dtype"]), self.shape(s.attr["shape"]), s.attr["dtype"]
        if not shape:
            self.names[s.attr["name"]] = v
            return
        self.refs[s.attr["name"]] = Memory.empty(dtype, shape)
        self.refs[s.attr["name"]].write(Ellipsis, v)

    def st_assign(self, s):
        name, symbol = s.attr["name"], s.attr["symbol"]
        v = self.operand(s.exprs[0], s.attr["dtype"])
        self.names[name] = v if symbol == "=" else any_nan(op.arithmetic(symbol[:-1], s.attr["dtype"], self.op_name(
            s.attr["target"]), v))

    def st_store(self, s):
        symbol = s.attr["symbol"]
        ref, place = self.window(s.attr["ref"], s.attr["sub"], s.exprs[1:])
        v = self.operand(s.exprs[0], ref.dtype)
        if symbol != "=":
            v = any_nan(op.arithmetic(symbol[:-1], ref.dtype, ref.read(place), v))
        ref.write(place, v)

    def st_masked_store(self, s):
        if s.attr.get("open"):
            return self.open_store(s)
        ref, place = self.window(s.attr["ref"], s.attr["sub"], s.exprs[2:], moves=False)
        v, mask = self.operand(s.exprs[0], ref.dtype), self.ev(s.exprs[1])
        shape, where = ref.d[place].shape, mask.d
        if mask.u is not None:  # these lanes have either the new or the old value
            v, where = V(v.d, spread(mask.u if v.u is None else mask.u | v.u, shape), v.e), mask.d | mask.u
        ref.write(place, v, spread(where, shape))

    def st_scatter(self, s):
        ref, place = self.window(s.attr["ref"], s.attr["sub"], s.exprs[2:])
        axes = s.attr["axis"] if isinstance(s.attr["axis"], tuple) else (s.attr["axis"],)
        vectors = [self.ev(e) for e in (s.exprs[1].args if s.exprs[1].op == "tuple" else s.exprs[1:2])]
        if any(at.u is not None for at in vectors):
            raise Reject("unspecified index")
        window, axis = ref.d[place], axes[0]
        rows = [n for k, n in enumerate(window.shape) if k not in axes]
        rows.insert(axis, vectors[0].d.size)
        v = op.each(self.operand(s.exprs[0], ref.dtype), lambda a: spread(a, rows))
        old = ref.read(place)
        for row, where in enumerate(zip(*(at.d for at in vectors))):
            if any(not 0 <= to < window.shape[k] for k, to in zip(axes, where)):
                continue
            to = tuple(dict(zip(axes, where)).get(k, slice(None)) for k in range(window.ndim))
            part = op.each(v, lambda a: a[(slice(None),) * axis + (row,)])
            if s.attr["fn"] == "scatter_add":
                part = any_nan(op.arithmetic("+", ref.dtype, op.each(old, lambda a: a[to]), part))
            d, u, e = old.d, old.u, old.e
            d[to] = part.d
            if u is None and part.u is not None:
                u = np.zeros(d.shape, bool)
            if u is not None:
                u[to] = False if part.u is None else part.u
            if e is None and part.e is not None:
                e = np.zeros(d.shape)
            if e is not None:
                e[to] = 0 if part.e is None else part.e
            old = V(d, u, e)
        ref.write(place, old)

    def st_view(self, s):
        ref, place = self.window(s.attr["ref"], s.attr["sub"], s.exprs)
        self.refs[s.attr["name"]] = View(ref, place, s.attr["dtype"], self.shape(s.attr["shape"]), s.attr["perm"])

    def st_copy(self, s):
        n = s.attr["positions"]
        source, start = self.window(s.attr["source"], s.attr["sub"], s.exprs[:n], moves=False)
        target, to = self.window(s.attr["target"], s.attr["to"], s.exprs[n:], moves=False)
        v = source.read(start)
        self.run(s.bodies[0])
        target.write(to, v)
        if target.written is not None:
            if v.u is not None:
                raise Reject("unspecified output")
            if np.any((target.written[to] != 0) & (target.written[to] != self.cell)):
                raise Reject("two cells write one element")
            target.written[to] = self.cell

    def st_when(self, s):
        if self.truth(s.exprs[0]):
            self.run(s.bodies[0])

    def st_if(self, s):
        if self.truth(s.exprs[0]):
            self.run(s.bodies[0])
        elif len(s.bodies) > 1:
            self.run(s.bodies[1])

    def st_for(self, s):
        first, last = self.ix(s.exprs[0]), self.ix(s.exprs[1])
        try:
            for t in range(first, last):
                self.names[s.attr["name"]] = t
                self.run(s.bodies[0])
        except Break:
            pass
        self.names.pop(s.attr["name"], None)

    def st_while(self, s):
        try:
            while self.truth(s.exprs[0]):
                self.run(s.bodies[0])
        except Break:
            pass

    def st_break(self, s):
        raise Break

    def st_region(self, s):
        self.run(s.bodies[0])

    def st_scoped(self, s):
        for scratch in s.attr["scratch"]:
            self.refs[scratch.name] = Memory.empty(scratch.dtype, self.shape(scratch.shape))
        self.run(s.bodies[0])
        for scratch in s.attr["scratch"]:
            del self.refs[scratch.name]

    # ---- blocks

    def starts(self, o):
        """The element at which the block of this step begins, for each axis; None for a whole array."""
        if o.mode not in ("block", "element"):
            return None
        array, out = self.arrays[o.name].d, []
        for axis, (entry, b) in enumerate(zip(o.at, o.block)):
            size = 1 if b == "_" else self.shape((b,))[0]
            at = self.ix(entry) * (size if o.mode == "block" else 1)
            n = array.shape[axis]
            low, high = (0, 0) if o.halo is None else o.halo[axis]
            if at > 0 and at >= n or o.mode == "block" and at < 0:
                raise Reject("a block begins outside its array")
            if o.mode == "element" and (at < -low or o.halo is not None and at + size > n + high):
                raise Reject("a block leaves its halo")
            out.append(at)
        return tuple(out)

    def overlap(self, o, starts):
        """The index in the array and in the block of their common elements."""
        array, inside, block = self.arrays[o.name].d, [], []
        for n, at, b in zip(array.shape, starts, o.block):
            size = 1 if b == "_" else self.shape((b,))[0]
            first, last = min(max(0, at), n), max(min(n, at + size), min(max(0, at), n))
            inside.append(slice(first, last))
            block.append(slice(first - at, last - at))
        return tuple(inside), tuple(block)

    def full_shape(self, o):
        return tuple(1 if b == "_" else self.shape((b,))[0] for b in o.block)

    def fetch(self, o, starts):
        array = self.arrays[o.name]
        if starts is None:
            return array
        shape = self.full_shape(o)
        block = Memory.empty(o.dtype, shape)
        if o.pad is not None:
            block.d[...], block.u[...] = o.pad, False
        inside, place = self.overlap(o, starts)
        block.d[place], block.u[place] = array.d[inside], array.u[inside]
        return self.squeezed(o, block)

    def kept_block(self, o, key):
        """The block of an input to which the body stores: it lasts until its index, or that of a parallel axis, changes."""
        if self.held.get(o.name, (None,))[0] != key:
            block = self.refs[o.name]
            self.held[o.name] = key, Memory(o.dtype, np.array(block.d), np.array(block.u))
        return self.held[o.name][1]

    def squeezed(self, o, block):
        shape = self.shape(o.ref)
        return Memory(o.dtype, block.d.reshape(shape), block.u.reshape(shape), None if block.e is None else block.e.reshape(shape))

    def write_back(self, o, starts, block, cell):
        array = self.arrays[o.name]
        if starts is None:
            inside, place, shape = Ellipsis, Ellipsis, array.d.shape
        else:
            inside, place = self.overlap(o, starts)
            shape = self.full_shape(o)
        if block.u.reshape(shape)[place].any():
            raise Reject("unspecified output")
        owner, new = array.written[inside], block.d.reshape(shape)[place]
        others = (owner != 0) & (owner != cell)
        if np.any(others) and (not o.ignores or np.any(others & (array.d[inside] != new)) or array.e is not None or block.e is not None):
            raise Reject("two cells write one element")
        array.written[inside] = cell
        array.d[inside] = new
        array.u[inside] = False
        if block.e is not None or array.e is not None:
            if array.e is None:
                array.e = np.zeros(array.d.shape)
            array.e[inside] = 0 if block.e is None else block.e.reshape(shape)[place]

    # ---- the grid

    def run_step(self, outputs, left, cell):
        self.cell = cell
        self.refs = {n: m for n, m in self.refs.items() if n in self.kept}
        for o in self.k.prefetch + self.k.inputs:
            self.refs[o.name] = self.fetch(o, self.starts(o)) if o.mode not in ("any",) else self.arrays[o.name]
            if o.stored:
                self.refs[o.name] = self.kept_block(o, (self.starts(o), cell))
        for o in self.k.outputs:
            if o.mode == "any":
                self.refs[o.name] = self.arrays[o.name]
                continue
            starts = self.starts(o)
            if o.name in outputs and outputs[o.name][0] != starts:
                self.write_back(o, *outputs.pop(o.name), cell)
            if o.name not in outputs:
                visit = o.name, starts, cell
                if visit in left and not o.revisit:
                    raise Reject("an output block is visited again")
                old = visit in left
                left.add(visit)
                outputs[o.name] = starts, self.met(o, starts, old)
            self.refs[o.name] = outputs[o.name][1]
        if self.k.pipeline:
            for o in self.k.inputs + self.k.outputs:
                if o.mode == "block":
                    self.refs[tree.block_name(o)] = self.refs[o.name]
        self.run(self.k.body)

    def met(self, o, starts, old):
        if starts is None:
            shape = self.shape(o.shape)
            return Memory.empty(o.dtype, shape)
        if not old:
            return Memory.empty(o.dtype, self.shape(o.ref))
        array, block = self.arrays[o.name], Memory.empty(o.dtype, self.full_shape(o))
        inside, place = self.overlap(o, starts)
        block.d[place], block.u[place] = array.d[inside], array.u[inside]
        if array.e is not None:
            block.e = np.zeros(block.d.shape)
            block.e[place] = array.e[inside]
        return self.squeezed(o, block)

    def evaluate(self):
        """The outputs by name."""
        k = self.k
        for o in k.prefetch:
            self.refs[o.name] = self.arrays[o.name]
            if not o.shape:
                self.names[o.name] = V(self.arrays[o.name].d)
        for o in k.inputs:
            if not o.shape:
                self.names[o.name] = V(self.arrays[o.name].d)
        extents = []
        for axis in k.axes:
            extents.append(max(0, self.ix(axis.extent)))
            self.names[("num", axis.name)] = extents[-1]
        if int(np.prod(extents, dtype=np.int64)) > MOST_STEPS:
            raise Reject("too many steps")
        self.run_grid(extents)
        for o in k.outputs:
            if not self.arrays[o.name].written.all():
                raise Reject("elements never written")
        return {o.name: self.arrays[o.name] for o in k.outputs}

    def run_grid(self, extents):
        """The steps in row-major order; memory is lost when the index of a parallel axis changes."""
        k, outputs, left, cells, last = self.k, {}, set(), {}, None
        self.kept = {s.name for s in k.scratch}
        for step in itertools.product(*map(range, extents)):
            outer = tuple(n for n, a in zip(step, k.axes) if a.parallel)
            cell = cells.setdefault(outer, len(cells) + 1)
            if cell != last:
                self.leave(outputs, last)
                for s in k.scratch:
                    self.refs[s.name] = Memory.empty(s.dtype, self.shape(s.shape))
            last = cell
            self.names.update((a.name, n) for a, n in zip(k.axes, step))
            self.run_step(outputs, left, cell)
        self.leave(outputs, last)

    def leave(self, outputs, cell):
        for o in self.k.outputs:
            if o.name in outputs:
                self.write_back(o, *outputs.pop(o.name), cell)
