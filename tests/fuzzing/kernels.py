"""Random .pk kernels: memory, grid, operands and outputs around random values (for tests/fuzz.py)."""
import random
import re

from .hazards import Hazards
from .values import BLOCKS, FLOATS, INTS, MOST_ELEMENTS, RANGE, Dim, Ref, Value, brackets, elements


class Axis:
    """An axis of the grid."""

    def __init__(self, name, extent, parallel, dim):
        self.name, self.extent, self.parallel, self.dim = name, extent, parallel, dim


class Kernel(Hazards):
    tests = 3                   # directives, if sizes vary

    # ---- memory

    def window(self, shape, must_full=False):
        """(text of the index, shape of the window)."""
        index, out = [], []
        for s in shape:
            kind = self.r.randrange(6) if isinstance(s, int) and not must_full else 0
            if kind <= 1:
                index.append(":")
                out.append(s)
            elif kind == 2:
                index.append(self.r.choice([str(self.r.randrange(s)), self.index_scalar_in(s)]))
            elif kind == 3:
                a = self.r.randrange(s)
                b = self.r.randint(a + 1, s)
                index.append(f"{a}:{b}")
                out.append(b - a)
            else:
                stride = self.r.choice([1, 1, 1, 2, 3])
                n = self.r.randint(1, (s - 1) // stride + 1)
                start = self.index_scalar_in(s - (n - 1) * stride) if kind == 4 else str(self.r.randint(0, s - (n - 1) * stride - 1))
                index.append(f"ds({start}, {n}" + (f", {stride})" if stride > 1 else ")"))
                out.append(n)
        if all(i == ":" for i in index):
            return "...", out
        if index[-1] == ":" and self.chance(0.3):
            index[-1] = "..."
        return ", ".join(index), out

    def open_window(self, shape):
        """(text of the index, shape of the window, condition under which its elements lie inside) of a window that may leave the ref."""
        index, out, terms = [], [], []
        for s in shape:
            kind = self.r.randrange(8) if isinstance(s, int) else 0
            if kind <= 1:
                index.append(":")
                out.append(s)
                continue
            stride, n = (1, 1) if kind == 2 else (self.r.choice([1, 1, 1, 2, 3]), self.r.randint(1, s + 3))
            least = -(n - 1) * stride - 2
            start = str(self.r.randint(0 if kind == 2 else least, s + 2))
            if self.chance(0.6):
                start = f"({self.index_scalar_in(s + 2 - least)} + {least})".replace("+ -", "- ")
            index.append(start if kind == 2 else f"ds({start}, {n}" + (f", {stride})" if stride > 1 else ")"))
            terms.append((start, stride, s, None if kind == 2 else len(out)))
            if kind != 2:
                out.append(n)
        at = [start if axis is None else f"{start} + {stride} * iota({brackets(out)}, axis = {axis})" for start, stride, _, axis in terms]
        return ", ".join(index), out, " && ".join(f"{a} >= 0 && {a} < {t[2]}" for a, t in zip(at, terms))

    def may_open(self, ref):
        return all(isinstance(s, int) for s in ref.shape) and self.chance(0.25)

    def index_scalar_in(self, size):
        """A run-time position below size."""
        names = [a.name for a in self.axes] + self.loop_names
        smem = [s.text for s in self.scalars if s.dtype in ("i32", "i8", "u8", "i16") and s.exact]
        if smem and self.chance(0.3):
            return f"mod(cast({self.r.choice(smem)}, i32), {size})"
        if self.chance(0.12):
            return self.index_in_memory(size)
        if not names:
            return f"{self.r.randrange(size)}"
        name = self.r.choice(names)
        return self.r.choice([f"{name} % {size}", f"({name} * 3 + 1) % {size}", f"max(0, {size - 1} - {name})", f"min({name} * 2, {size - 1})",
                              f"mod({name} - {self.r.randint(0, size)}, {size})"])

    def index_in_memory(self, size):
        """A position below size, held by a variable or an element of scratch."""
        value, name = self.r.choice([str(self.r.randrange(size)), f"{self.index_scalar()} % {size}"]), self.name("n")
        if self.chance(0.5):
            self.say(f"var {name}: i32 = mod({value}, {size});")
            return name
        space, shape, at = self.r.choice([("smem", "[2]", "1"), ("vmem", "[1, 3]", "0, 2")])
        self.head.append(f"scratch {name}: {space} i32{shape};")
        self.say(f"{name}[{at}] = mod({value}, {size});")
        return f"{name}[{at}]"

    def read_window(self, ref):
        if self.may_open(ref):
            index, shape, inside = self.open_window(ref.shape)
            if inside and shape and elements(shape) <= MOST_ELEMENTS:
                if self.chance(0.5):
                    inside += f" && {self.fit(self.condition(Value('', shape, 'i32', 1)), shape).text}"
                return self.let(f"load({ref.name}[{index}], mask = {inside}, other = {self.literal(ref.dtype)})", shape, ref.dtype,
                                max(ref.bound, 5), ref.exact)
        index, shape = self.window(ref.shape)
        if self.chance(0.25) and shape:
            m = self.iota(shape, "bool") if self.chance(0.5) else self.fit(self.condition(Value("", shape, "i32", 1)), shape)
            return self.let(f"load({ref.name}[{index}], mask = {m.text}, other = {self.literal(ref.dtype)})", shape, ref.dtype,
                            max(ref.bound, 5), ref.exact)
        return self.let(f"{ref.name}[{index}]", shape, ref.dtype, ref.bound, ref.exact)

    def write_window(self, ref):
        index, shape = self.window(ref.shape)
        inside = ""
        if self.may_open(ref):
            index, shape, inside = self.open_window(ref.shape)
            if not shape or elements(shape) > MOST_ELEMENTS:
                return
        v = self.pick()
        if self.chance(0.5):
            v = self.read_window(ref)
        v = self.small(self.fit(self.cast(v, ref.dtype), shape), 200)
        if not v.exact and ref.dtype not in FLOATS:
            v = self.iota(shape, ref.dtype)
        ref.exact = ref.exact and v.exact
        ref.bound = max(ref.bound, v.bound)
        if (inside or self.chance(0.25)) and shape:
            m = self.fit(self.condition(Value("", shape, "i32", 1)), shape)
            self.say(f"store({ref.name}[{index}], {v.text}, mask = {inside + ' && ' if inside else ''}{m.text});")
        elif self.chance(0.3) and ref.dtype != "bool" and not self.loop_names:
            op = self.r.choice(["+", "-"] + (["^", "&", "|"] if ref.dtype in INTS else []))
            ref.bound = ref.bound + v.bound if ref.dtype in FLOATS else 1 << 33
            self.say(f"{ref.name}[{index}] {op}= {v.text};")
        elif self.chance(0.15) and self.functions:
            self.say(f"set_to({ref.name}, {self.fit(v, ref.shape).text});")
        else:
            self.say(f"{ref.name}[{index}] = {v.text};")

    def memory_steps(self, ref, count):
        for _ in range(count):
            kind = self.r.randrange(8)
            if kind <= 2:
                self.write_window(ref)
            elif kind <= 4:
                self.read_window(ref)
            elif kind == 5:
                self.swap(ref)
            elif kind == 6 and self.depth < 3:
                mark = self.open(f"{self.r.choice(['when', 'if'])} {self.scalar_condition()}")
                self.memory_steps(ref, self.r.randint(1, 2))
                self.close(mark)
            elif self.depth < 3:
                self.loop(ref)

    def swap(self, ref):
        axes = [a for a, s in enumerate(ref.shape) if isinstance(s, int) and s > 1]
        if not axes:
            return
        a = self.r.choice(axes)
        n = ref.shape[a]
        half = self.r.randint(1, n // 2)
        first, second = [":"] * len(ref.shape), [":"] * len(ref.shape)
        first[a], second[a] = f"0:{half}", f"{n - half}:{n}"
        if self.chance(0.3):
            second[a] = f"1:{half + 1}"
        shape = ref.shape[:a] + (half,) + ref.shape[a + 1:]
        x = self.let(f"{ref.name}[{', '.join(first)}]", shape, ref.dtype, ref.bound, ref.exact)
        y = self.let(f"{ref.name}[{', '.join(second)}]", shape, ref.dtype, ref.bound, ref.exact)
        self.say(f"{ref.name}[{', '.join(first)}] = {y.text};")
        self.say(f"{ref.name}[{', '.join(second)}] = {x.text};")

    def loop(self, ref):
        name = self.name("t")
        static = "static " if self.chance(0.2) else ""
        low, high = self.r.randint(0, 1), self.r.randint(1, 4)
        limit = str(high) if static or self.chance(0.7) else f"{high} + {self.index_scalar()} % 3"
        bound = ref.bound
        mark = self.open(f"{static}for {name} in {low}..{limit}")
        self.loop_names.append(name)
        ref.bound = max(ref.bound, 200)
        self.memory_steps(ref, self.r.randint(1, 3))
        if self.chance(0.2):
            self.say(f"if {name} >= {self.r.randint(1, 3)} {{ break; }}" if not static else f"{ref.name}[...] = {ref.name}[...];")
        self.loop_names.pop()
        self.close(mark)
        ref.bound = max(bound, ref.bound)

    def op_memory(self):
        """A scratch ref that windows are written to and read from."""
        v = self.pick(lambda v: len(v.shape) > 0 and elements(v.shape) <= 2000)
        if v is None:
            return None
        v = self.clean(v)
        ref = Ref(self.name("s"), v.shape, v.dtype, v.bound)
        self.head.append(f"scratch {ref.name}: vmem {ref.dtype}{brackets(ref.shape)};")
        ref.exact = v.exact
        if self.chance(0.3):
            ref.bound, ref.exact = 5, True
            self.say(f"{ref.name}[...] = {self.literal(ref.dtype)};")
        else:
            v = self.small(v, 200)
            ref.bound = v.bound
            self.say(f"{ref.name}[...] = {v.text};")
        self.memory_steps(ref, self.r.randint(1, 4))
        return self.let(f"{ref.name}[...]", ref.shape, ref.dtype, ref.bound, ref.exact)

    def op_rows(self):
        """Refs of one shape, read by rows, by columns, by products and as a whole, between stores of the whole."""
        r = self.r
        v = self.pick(lambda v: len(v.shape) in (1, 2, 2, 3) and v.dtype != "bool" and elements(v.shape) <= 1500)
        if v is None:
            return None
        v, refs = self.small(self.clean(v), 30), []
        for _ in range(r.randint(1, 3)):
            refs.append(Ref(self.name("s"), v.shape, v.dtype, v.bound))
            self.head.append(f"scratch {refs[-1].name}: vmem {v.dtype}{brackets(v.shape)};")
            self.say(f"{refs[-1].name}[...] = {v.text}{'' if self.chance(0.5) else ' + 1'};")
        square = None
        if len(v.shape) == 2 and v.dtype in ("f32", "bf16", "i8", "i32", "i16") and isinstance(v.shape[1], int):
            square = Ref(self.name("s"), [v.shape[1]] * 2, v.dtype, 9)
            self.head.append(f"scratch {square.name}: vmem {v.dtype}{brackets(square.shape)};")
            self.say(f"{square.name}[...] = {self.iota(square.shape, v.dtype).text};")
        parts = [v]
        for _ in range(r.randint(3, 9)):
            self.row_step(v, refs, parts, square)
        for ref in refs:
            z = self.let(f"{ref.name}[...]", v.shape, v.dtype, 200, v.exact)
        return z

    def row_step(self, v, refs, parts, square):
        r = self.r
        ref, index = r.choice(refs), [":"] * len(v.shape)
        if self.chance(0.5):
            a = r.randrange(len(v.shape))
            if isinstance(v.shape[a], int):
                at = r.randrange(v.shape[a])
                index[a] = f"{at}:{at + 1}" if self.chance(0.6) else f"ds({self.index_scalar_in(v.shape[a])}, 1)"
        shape = [1 if i != ":" else d for i, d in zip(index, v.shape)]
        text = "..." if shape == list(v.shape) else ", ".join(index)
        x, y = self.let(f"{ref.name}[{text}]", shape, v.dtype, 60, v.exact), r.choice(parts)
        if self.chance(0.3) and shape:
            x = self.reduce(x, r.randrange(len(shape)), True)
        low = "0" if v.dtype.startswith("u") else "-60"
        if square and self.chance(0.5) and v.exact:
            z = self.row_product(v, refs, parts, square)
        else:
            form = r.choice(["{0} + {1}", "{0} - {1}", "max({0}, {1})", "{0} * 2 + {1}"])
            if v.dtype == "i32" and self.chance(0.3):
                form = f"where({{0}} {self.compare()} {self.index_scalar()}, {{0}}, {{1}})"
            z = self.let(f"clamp({form.format(x.text, y.text)}, {low}, 60)", self.join(x, y)[0], v.dtype, 60, v.exact)
        parts += [x, z]
        if self.chance(0.15):
            self.say(f"when {self.scalar_condition()} {{ {r.choice(refs).name}[...] = {r.choice(parts).text}; }}")
        if self.chance(0.7):
            name, op = r.choice(refs).name, r.choice(["=", "=", "=", "+=", "-="])
            self.say(f"{name}[...] {op} {r.choice(parts).text};")
            if op != "=" and v.dtype in FLOATS:
                self.say(f"{name}[...] = clamp({name}[...], -60, 60);")

    def row_product(self, v, refs, parts, square):
        """A product with an operand in memory, converted back to the shape of the refs."""
        r, out = self.r, "f32" if v.dtype in FLOATS else "i32"
        whole = [p.text for p in parts if p.shape == v.shape] + [f"{ref.name}[...]" for ref in refs]
        x = r.choice(whole)
        if self.chance(0.4):
            turned = f"dot({r.choice(whole)}.T, {x})"
            w = self.let(f"clamp({turned}, -9, 9)", square.shape, out, 9)
            if self.chance(0.7):
                self.say(f"{square.name}[...] = {self.cast(w, v.dtype).text};")
        product = f"dot({x}, {square.name}[...]{r.choice(['', '.T'])})"
        if out == v.dtype and self.chance(0.4):
            name = r.choice(refs).name
            self.say(f"{name}[...] += {product};" if self.chance(0.5) else f"{name}[...] = {product} + {name}[...];")
            self.say(f"{name}[...] = clamp({name}[...], -60, 60);")
        z = self.let(f"clamp({product}, -60, 60)", v.shape, out, 60)
        return self.cast(z, v.dtype)

    def op_var(self):
        """A variable carried through a loop."""
        v = self.pick(lambda v: v.dtype != "bool" and elements(v.shape) <= 2000)
        if v is None:
            return None
        v = self.small(self.clean(v), 20)
        name, t = self.name("w"), self.name("t")
        n = self.r.randint(1, 4)
        window = "[...]" if v.shape else ""
        self.say(f"var {name}: {v.dtype}{brackets(v.shape) if v.shape else ''} = {self.literal(v.dtype)};")
        if self.chance(0.5):
            mark = self.open(f"for {t} in 0..{n}")
        else:
            self.say(f"var {t}: i32 = 0;")
            mark = self.open(f"while {t} < {n}")
            self.say(f"{t} += 1;")
        self.loop_names.append(t)
        inside = self.values[:]
        step = v
        for _ in range(self.r.randint(0, 2)):
            step = self.op_binary() or step
        step = self.small(self.fit(self.cast(step, v.dtype), v.shape), 200)
        low = "0" if v.dtype.startswith("u") else "-99"
        self.say(f"{name}{window} = clamp({name}{window}, {low}, 99) {self.r.choice(['+', '-', '+'])} {step.text};")
        if self.chance(0.3):
            self.say(f"if {t} > {self.r.randint(0, 2)} {{ break; }}")
        self.loop_names.pop()
        self.close(mark)
        assert len(self.values) <= len(inside)
        return self.let(f"{name}{window}", v.shape, v.dtype, 400, v.exact and step.exact)

    # ---- the grid, dims and operands

    def block_size(self):
        return self.r.choice(BLOCKS)

    def make_grid(self):
        self.axes, self.dims = [], []
        for n in range(self.r.choice([0, 1, 1, 1, 2, 2, 2, 3])):
            name, parallel = "ijk"[n], self.chance(0.5)
            if self.chance(0.75):
                size, block = "MKN"[n], self.block_size()
                self.sizes[size] = [1, block, block + 1, 2 * block, max(1, 2 * block - 1), block + block // 2 + 1, max(1, block - 1),
                                    3 * block + 1] + ([] if self.chance(0.9) else [0])
                start, index = f"{name} * {block}", name
                if not parallel and self.chance(0.1):
                    index = f"num_programs({name}) - 1 - {name}"
                    start = f"({index}) * {block}"
                dim = Dim(size, block, index, start, name, overhang=block > 1)
                extent = f"max(1, cdiv({size}, {block}))" if 0 in self.sizes[size] else f"cdiv({size}, {block})"
                dim.overhang = dim.overhang or 0 in self.sizes[size]
            else:
                count = self.r.randint(1, 3)
                extent, dim = str(count), Dim(count, self.r.choice(["_", 1]), name, name, name)
            self.axes.append(Axis(name, extent, parallel, dim))
            self.dims.append(dim)
        last = max([n for n, a in enumerate(self.axes) if a.parallel], default=-1)
        self.trailing = [a.name for a in self.axes[last + 1:]]
        for _ in range(self.r.randint(1, 2)):
            self.dims.append(self.free_dim())

    def free_dim(self):
        kind = self.r.randrange(5)
        block = self.block_size()
        if kind <= 1:
            return Dim(block, block)
        if kind == 2:
            return Dim(max(1, block - self.r.randint(1, 3)), block, overhang=True)
        name = self.r.choice([s for s in "PQRS" if s not in self.sizes])
        if kind == 3:
            self.sizes[name] = list(range(1, 40)) if self.chance(0.5) else [1, 16, 17, 32, 33]
            return Dim(name, name)
        self.sizes[name] = [max(1, block - 1), block, max(1, block // 2), 1]
        return Dim(name, block, overhang=True)

    def param(self, name, dims, dtype):
        return f"{name}: {dtype}[{', '.join(str(d.size) for d in dims)}]" if dims else f"{name}: {dtype}"

    def data(self, name, dtype):
        """(the INPUT of an operand, its greatest magnitude)"""
        seed = self.r.randrange(1000)
        if dtype == "bool":
            return f"{name}=random:{seed}", 1
        if dtype in FLOATS:
            low, high = self.r.choice([(-4, 5), (0, 3), (-9, 10)])
            return f"{name}=randint:{low}:{high}:{seed}", 10
        low, high = RANGE[dtype]
        if self.chance(0.6):
            low, high = max(low, -8), min(high, 9)
        return f"{name}=randint:{max(low, -(1 << 31))}:{high}:{seed}", max(abs(low), abs(high))

    def make_matrices(self):
        """Two operands of which a product with the shape of an output can be formed."""
        tied = [d for d in self.dims if isinstance(d.block, int)]
        out = [d for d in tied if d.axis not in self.trailing] or tied
        if not tied:
            return
        m, n, k = self.r.choice(out), self.r.choice(out), self.r.choice([d for d in tied if d.axis in self.trailing] or tied)
        dtype = self.r.choice(["f32", "f32", "bf16", "f16", "i8", "i16", "i32"])
        for name, row, column in (("x", m, k), ("y", k, n)):
            dims = [row, column] if self.chance(0.6) else [column, row]
            text, bound = self.data(name, dtype)
            self.inputs.append((self.param(name, dims, dtype), text))
            self.make_block(name, dims, dtype, bound)
        self.product = (m, n, dtype)

    def make_input(self, n):
        name = "abcdefgh"[n]
        r = self.r
        rank = r.choice([0, 1, 2, 2, 2, 2, 3, 3, 4])
        dims = [r.choice(self.dims) for _ in range(rank)]
        while elements([d.block if d.block != "_" else 1 for d in dims]) > MOST_ELEMENTS:
            dims.pop()
        for _ in range(2):
            if len(dims) < 4 and self.chance(0.15):
                size = r.randint(1, 4)
                index = r.choice([str(r.randrange(size))] + [f"{a.name} % {size}" for a in self.axes])
                dims.insert(r.randint(0, len(dims)), Dim(size, "_", index))
        dtype = r.choice(self.types)
        text, bound = self.data(name, dtype)
        self.inputs.append((self.param(name, dims, dtype), text))
        if rank == 0 and not dims:
            if self.chance(0.5):
                self.head.append(f"block {name}: smem;")
            v = self.let(f"{name}[...]", (), dtype, bound)
            self.scalars.append(v)
            return
        if self.chance(0.12) and all(d.axis is None and d.block == d.size and isinstance(d.size, int) for d in dims):
            return self.make_smem(name, dims, dtype, bound)
        self.make_block(name, dims, dtype, bound)

    def make_smem(self, name, dims, dtype, bound):
        self.head.append(f"block {name}: smem;")
        for _ in range(2):
            index = ", ".join(str(self.r.randrange(d.size)) for d in dims)
            self.scalars.append(self.let(f"{name}[{index}]", (), dtype, bound))

    def make_block(self, name, dims, dtype, bound):
        shape = [d.block for d in dims if d.block != "_"]
        tags = [d.tag() for d in dims if d.block != "_"]
        pad = None
        if self.chance(0.5) and dtype != "bool":
            pad = self.literal(dtype)
        counted = all(isinstance(d.block, int) for d in dims)
        if counted and dims and self.chance(0.12) and dtype != "bool":
            shape = self.make_element(name, dims, pad or "0")
            pad = pad or "0"
        elif dims or self.chance(0.5):
            text = ", ".join(str(d.block) for d in dims)
            self.head.append(f"block {name}: [{text}] at ({', '.join(d.index for d in dims)})" + (f" pad {pad}" if pad else "") + ";")
        if pad:
            tags = [None] * len(shape)
            bound = max(bound, 5)
        ref = Ref(name, shape, dtype, bound)
        for _ in range(1 if self.chance(0.8) else 2):
            v = self.let(f"{name}[...]", shape, dtype, bound, True, tags)
            if any(t and s == 1 for t, s in zip(tags, shape)):
                self.values.remove(v)
                self.clean(v)
        if shape and not any(tags) and self.chance(0.25):
            self.read_window(ref)

    def make_element(self, name, dims, pad):
        low = [self.r.choice([0, 0, 1, 2]) for _ in dims]
        high = [self.r.choice([0, 0, 1, 3]) for _ in dims]
        blocks = [d.block + a + b for d, a, b in zip(dims, low, high)]
        starts = [f"{d.start} - {a}" if a else d.start for d, a in zip(dims, low)]
        text = f"block {name}: {brackets(blocks)} at element ({', '.join(starts)}) pad {pad}"
        if self.chance(0.3):
            text += " halo " + ", ".join(f"({a}, {b + d.block})" for d, a, b in zip(dims, low, high))
        self.head.append(text + ";")
        return blocks

    # ---- outputs

    def output_dims(self):
        used = len(self.axes) - len(self.trailing)
        used += self.r.randint(0, len(self.trailing))     # a block must not be revisited after it was left
        dims = [a.dim for a in self.axes[:used]]
        rest = [d for d in self.dims if not d.partial and d not in [a.dim for a in self.axes]]
        while len(dims) < 4 and rest and self.chance(0.7 if len(dims) < 2 else 0.25):
            d = self.r.choice(rest)
            if elements([x.block if x.block != "_" else 1 for x in dims + [d]]) <= MOST_ELEMENTS:
                dims.append(d)
            rest.remove(d)
        self.r.shuffle(dims)
        return dims

    def is_walk(self, dims):
        """Whether an output may have these axes: every step of the outer grid axes must have its own block."""
        used = [d.axis for d in dims if d.axis]
        names = [a.name for a in self.axes]
        return len(used) == len(set(used)) >= len(names) - len(self.trailing) and set(used) == set(names[:len(used)])

    def make_output(self, n):
        name, dims = "opqrs"[n], self.output_dims()
        dtype = self.r.choice(self.types)
        plan = self.product if n == 0 else None
        if plan and self.is_walk(plan[:2]):
            dims = list(plan[:2])
            dtype = self.r.choice(["f32", "bf16"]) if plan[2] in FLOATS else "i32"
        else:
            plan = None
        v = (self.pick(lambda v: v.dtype == dtype) if self.chance(0.5) else None) or self.pick()
        if v.dtype != dtype and self.chance(0.6) and not plan:
            dtype = v.dtype
        self.outputs.append(self.param(name, dims, dtype))
        shape = [d.block for d in dims if d.block != "_"]
        tags = [d.tag() for d in dims if d.block != "_"]
        if dims or self.chance(0.5):
            self.head.append(f"block {name}: [{', '.join(str(d.block) for d in dims)}] at ({', '.join(d.index for d in dims)});")
        v = self.fit(self.cast(v, dtype), shape, tags)
        used = {d.axis for d in dims}
        steady = []
        for axis in reversed(self.trailing):
            if axis in used:
                break
            steady.insert(0, axis)
        first = " && ".join(f"{a} == 0" for a in steady)
        final = " && ".join(f"{a} == num_programs({a}) - 1" for a in steady)
        kind = 1 if plan and self.chance(0.8) else self.r.randrange(5)
        if kind == 0 and dtype != "bool":
            self.accumulate(name, v, first)
        elif kind == 1 and dtype != "bool":
            self.accumulate_scratch(name, v, shape, dtype, first, final)
        elif kind == 2 and shape and not any(tags):
            self.store_by_windows(name, v, shape, dtype)
        else:
            self.say(f"{name}[...] = {v.text};")
            if self.chance(0.2) and shape and not any(tags):
                ref = Ref(name, shape, dtype, v.bound)
                ref.exact = v.exact
                self.output_steps(ref)

    def output_steps(self, ref):
        """Loads the contents of an output by windows, and stores them again."""
        if self.chance(0.5):
            self.memory_steps(ref, self.r.randint(1, 3))
        else:
            self.hazard_steps([ref], [], self.r.randint(1, 3))

    def guarded(self, condition, statement):
        self.say(f"when {condition} {{ {statement} }}" if condition else statement)

    def accumulate(self, name, v, first):
        v = self.small(v, 200)
        self.guarded(first, f"{name}[...] = {self.literal(v.dtype)};")
        op = self.r.choice(["+=", "-=", "max", "scale"])
        if op == "max":
            self.say(f"{name}[...] = max({name}[...], {v.text});")
        elif op == "scale":
            self.say(f"{name}[...] = {name}[...] * 2 + {v.text};")
        else:
            self.say(f"{name}[...] {op} {v.text};")

    def accumulate_scratch(self, name, v, shape, dtype, first, final):
        total = self.r.choice(["f32", dtype]) if dtype in FLOATS else dtype
        acc = self.name("acc")
        v = self.clean(self.small(self.cast(v, total), 200))
        self.head.append(f"scratch {acc}: vmem {total}{brackets(shape) if shape else ''};")
        self.guarded(first, f"{acc}[...] = {self.literal(total)};")
        scale = ""
        if self.chance(0.4):
            s = self.pick(lambda w: w.dtype == total and w.exact)
            if s is not None:
                scale = self.small(self.fit(s, [1 if self.chance(0.5) else d for d in shape]), 1).text
        product = self.fresh_dot(shape, total in FLOATS) if total in ("f32", "i32") and len(shape) == 2 and self.chance(0.7) else None
        add = product or v.text
        if scale:
            self.say(f"{acc}[...] = {acc}[...] * {scale} + {add};" if self.chance(0.5) else f"{acc}[...] *= {scale};")
            if self.lines[-1].rstrip().endswith(f"*= {scale};"):
                self.say(f"{acc}[...] += {add};")
        else:
            self.say(f"{acc}[...] += {add};")
        out = f"{acc}[...]" if total == dtype else f"cast({acc}[...], {dtype})"
        if self.chance(0.3) and dtype in FLOATS:
            out = f"max({out}, 0) + 1"
        if self.chance(0.7):
            self.guarded(final, f"{name}[...] = {out};")
        else:
            self.say(f"{name}[...] = {out};")

    def fresh_dot(self, shape, floats):
        """The text of a product of this shape."""
        m, n = shape
        pairs = [(a, b, i, j) for a in self.values for b in self.values for i in (0, 1) for j in (0, 1)
                 if len(a.shape) == 2 and len(b.shape) == 2 and a.dtype == b.dtype != "bool" and (a.dtype in FLOATS) == floats and a.exact and b.exact and
                 a.shape[i] == m and b.shape[j] == n and a.shape[1 - i] == b.shape[1 - j]]
        if not pairs or not all(isinstance(s, int) for s in shape):
            return None
        a, b, i, j = self.r.choice(pairs)
        kind = a.dtype if self.chance(0.6) else self.r.choice(FLOATS if a.dtype in FLOATS else ["i8", "i16", "i32"])
        a, b = self.clean(self.small(self.cast(a, kind), 20)), self.clean(self.small(self.cast(b, kind), 20))
        return f"dot({a.text}{'.T' if i else ''}, {b.text}{'' if j else '.T'})"

    def store_by_windows(self, name, v, shape, dtype):
        ref = Ref(name, shape, dtype, v.bound)
        ref.exact = v.exact
        axes = [a for a, s in enumerate(shape) if isinstance(s, int)]
        if not axes:
            self.say(f"{name}[...] = {v.text};")
            return
        a = self.r.choice(axes)
        index, s = [":"] * len(shape), shape[a]
        if self.chance(0.4) and s > 1:
            cut = self.r.randint(1, s - 1)
            for low, high in self.r.sample([(0, cut), (cut, s)], 2):
                index[a] = f"{low}:{high}"
                text = ", ".join(index)
                self.say(f"{name}[{text}] = {v.text}[{text}];")
        else:
            t = self.name("t")
            index[a] = t
            mark = self.open(f"for {t} in 0..{s}")
            text = ", ".join(index)
            self.say(f"{name}[{text}] = {v.text}[{text}];")
            self.close(mark)
        if self.chance(0.5):
            self.output_steps(ref)

    def make_attention(self):
        """The online softmax over the last arbitrary axis; its result is a value in the last step, and 0 in earlier ones."""
        r, axis = self.r, next((a for a in reversed(self.axes) if a.name in self.trailing and isinstance(a.dim.block, int)), None)
        if axis is None or self.trailing[-1] != axis.name:
            return
        bq, bk, depth, t = r.choice(BLOCKS), axis.dim.block, r.choice([1, 3, 8, 16, 20, 32]), r.choice(["f32", "f32", "bf16"])
        depth_dim, rows = Dim(depth, depth), Dim(bq, bq)
        for name, dim in (("query", rows), ("key", axis.dim), ("value", axis.dim)):
            self.inputs.append((self.param(name, [dim, depth_dim], t), f"{name}=randint:-3:4:{r.randrange(99)}"))
            self.head.append(f"block {name}: [{dim.block}, {depth}] at ({dim.index}, 0) pad 0;")
        m, l, acc = self.name("m"), self.name("l"), self.name("acc")
        self.head.append(f"scratch {m}, {l}: vmem f32[{bq}, 1];")
        self.head.append(f"scratch {acc}: vmem f32[{bq}, {depth}];")
        s, shape = self.name("score"), brackets([bq, bk])
        self.say(f"when {axis.name} == 0 {{ {m}[...] = -1e30; {l}[...] = 0; {acc}[...] = 0; }}")
        guard = self.chance(0.3)
        if guard:
            mark = self.open(f"when {axis.name} * {bk} <= {r.randint(0, bk * 2)}")
        self.say(f"let {s} = dot(query[...], key[...].T) * 0.125;")
        column = f"{axis.dim.start} + iota({shape}, axis = 1)"
        mask = f"{column} < {axis.dim.size}"
        if self.chance(0.5):
            mask += f" && {column} <= iota({shape}, axis = 0) + {r.randint(0, bk)}"
        if self.chance(0.2):
            self.say(f"let {s} = {s} + cast(iota({shape}, axis = 1) % 3, f32);")
        self.say(f"let {s} = where({mask}, {s}, -inf);")
        self.say(f"let {m}_new = max({m}[...], reduce_max({s}, axis = 1));")
        self.say(f"let {m}_p = exp({s} - {m}_new);")
        self.say(f"let {m}_scale = exp({m}[...] - {m}_new);")
        self.say(f"{l}[...] = {m}_scale * {l}[...] + reduce_sum({m}_p, axis = 1);")
        self.say(f"{acc}[...] = {m}_scale * {acc}[...] + dot(cast({m}_p, {t}), value[...]);")
        self.say(f"{m}[...] = {m}_new;")
        if guard:
            self.close(mark)
        self.let(f"{acc}[...] / where({l}[...] == 0, 1, {l}[...])", [bq, depth], "f32", 20, False)
        if self.chance(0.3):
            self.let(f"{m}[...]", [bq, 1], "f32", 20, False)

    # ---- whole kernels

    OPS = [("op_binary", 8), ("op_unary", 5), ("op_where", 4), ("op_cast", 3), ("op_reduce", 4), ("op_dot", 5), ("op_shape", 4),
           ("op_along", 1.5), ("op_softmax", 1), ("op_memory", 2), ("op_rows", 2), ("op_hazards", 3), ("op_if", 1), ("op_var", 1), ("op_compare", 1)]

    def make(self, label):
        r = self.r
        self.inputs, self.outputs = [], []
        self.types = [r.choice(["f32", "f32", "bf16", "f16", "i8", "i32", "bool", "u8", "i16", "u16", "u32"]) for _ in range(r.randint(1, 3))]
        if self.chance(0.4):
            self.types = ["f32"]
        self.make_grid()
        if self.chance(0.2):
            self.functions = ["fn fn0(a, b) { let t = max(a, b); return t * 2 - min(a, t); }", "fn set_to(to, v) { to[...] = v; }"]
        self.product = None
        if self.chance(0.35):
            self.make_matrices()
        for n in range(r.randint(1, 4)):
            self.make_input(n)
        if self.chance(0.12):
            self.make_attention()
        if not self.values or self.chance(0.1):
            self.iota([self.block_size()], self.types[0])
        narrow = self.chance(0.3)
        names, weights = zip(*([("op_rows", 3), ("op_binary", 1), ("op_reduce", 1), ("op_memory", 1)] if narrow else self.OPS))
        for _ in range(r.randint(1, 4 if narrow else 14)):
            getattr(self, r.choices(names, weights)[0])()
            self.values = [v for v in self.values if elements(v.shape) <= MOST_ELEMENTS]
            if not self.values:
                self.iota([self.block_size()], self.types[0])
        for n in range(r.randint(1, 4)):
            self.make_output(n)
        self.name_all_sizes()
        return self.text(label)

    def make_hazards(self, label):
        """Mostly overlapping windows, in scratch, variables and an output."""
        self.inputs, self.outputs, self.product, self.tests = [], [], None, 1
        self.types = [self.r.choice(["f32", "f32", "f32", "i32", "i32", "bf16", "f16", "i8", "u8", "i16", "u16", "u32", "bool"])]
        self.make_grid()
        for n in range(self.r.randint(1, 2)):
            self.make_input(n)
        if not any(v.shape for v in self.values):
            self.iota([self.r.choice([3, 8, 13, 17]) for _ in range(2)], self.types[0])
        for _ in range(self.r.randint(1, 3)):
            self.op_hazards()
        self.make_output(0)
        self.name_all_sizes()
        return self.text(label)

    def name_all_sizes(self):
        """Makes every size an axis of some operand."""
        params = " ".join([p for p, _ in self.inputs] + self.outputs)
        for d in self.dims:
            if isinstance(d.size, str) and not re.search(rf"\b{d.size}\b", params):
                name = "z" + d.size.lower()
                self.inputs.append((self.param(name, [d], "f32"), f"{name}=iota"))
                self.head.append(f"block {name}: [{d.block}] at ({d.index});")

    def directives(self):
        out = []
        data = " ".join(text for _, text in self.inputs)
        for n in range(self.tests if self.sizes else 1):
            sizes = " ".join(f"{s}={self.r.choice(v)}" for s, v in self.sizes.items())
            more = " threads=2" if self.chance(0.25) else ""
            if n == 0 and self.chance(0.5):
                more += self.r.choice([" --target=x86-64-v3", " --target=x86-64-v2", " --target=generic", " --dma=literal", " --dma=literal"])
            out.append(f"// test: {sizes} {data}{more}".replace("  ", " "))
        return list(dict.fromkeys(out))

    def text(self, label):
        grid = [f"{a.name} in {a.extent} {'parallel' if a.parallel else 'arbitrary'}" for a in self.axes]
        text = self.directives() + self.functions
        text.append(f"kernel {label}({', '.join(p for p, _ in self.inputs)}) -> ({', '.join(self.outputs)}) {{")
        text += [f"  grid ({', '.join(grid)});"] if grid else []
        text += ["  " + h for h in self.head] + self.lines + ["}", ""]
        return "\n".join(text)


def kernel_text(seed, number, make=Kernel.make, longest=8000):
    """Kernel `number` of a seed; one that grew too large is drawn again."""
    for attempt in range(100):
        text = make(Kernel(random.Random(f"{seed}/{number}/{attempt}")), f"k{number}")
        if len(text) < longest:
            return text
    return text


def hazards_text(seed, number):
    """A kernel of the family `hazards`."""
    return kernel_text(seed, number, Kernel.make_hazards, 4000)
