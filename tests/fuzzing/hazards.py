"""Overlapping windows of one ref: stores and loads of them, through views, products, moves of elements, copies, branches and loops
(for tests/fuzz.py)."""
from .values import FLOATS, Ref, Value, Values, brackets, elements

VIEWED = {"i8": "u8", "u8": "i8", "i16": "u16", "u16": "i16", "i32": "u32", "u32": "i32"}


class Hazards(Values):
    def shifted_windows(self, shape):
        """The texts of two windows of a ref, usually different ones, and their common shape."""
        for _ in range(4):
            found = self.two_windows(shape)
            if found[0] != found[1] or self.chance(0.1):
                break
        return found

    def two_windows(self, shape):
        r, first, second, out = self.r, [], [], []
        near = self.chance(0.5)
        for s in shape:
            kind = r.randrange(6) if isinstance(s, int) else 0
            if kind <= 1 or near and self.chance(0.4):
                first.append(":")
                second.append(":")
                out.append(s)
                continue
            if kind == 2:
                a = self.index_scalar_in(s)
                first.append(a)
                second.append(r.choice([a, self.index_scalar_in(s)]))
                continue
            n = r.randint(max(1, s - 3) if near else 1, s)
            strides = [min(r.choice([1, 1, 1, 2, 3]), (s - 1) // (n - 1)) if n > 1 else 1 for _ in range(2)]
            if self.chance(0.5):
                strides[1] = strides[0]
            texts = [self.span(s, n, stride) for stride in strides]
            first.append(texts[0])
            second.append(texts[0] if self.chance(0.2) else texts[1])
            out.append(n)
        return [", ".join(w) if w else "..." for w in (first, second)] + [out]

    def span(self, s, n, stride):
        room = s - (n - 1) * stride
        if stride == 1 and self.chance(0.5):
            a = self.r.randrange(room)
            return f"{a}:{a + n}"
        start = self.index_scalar_in(room) if self.chance(0.5) else str(self.r.randrange(room))
        return f"ds({start}, {n}" + (f", {stride})" if stride > 1 else ")")

    def hazard_value(self, ref, index, shape):
        """The text of a value of the same shape: the contents of one window, almost unchanged."""
        r, x = self.r, f"{ref.name}[{index}]"
        kind = r.randrange(12)
        if kind == 0 and ref.dtype != "bool":
            return f"{x} * 1"
        if kind == 1 and shape and all(isinstance(s, int) for s in shape):
            return f"reshape(reshape({x}, {brackets([elements(shape)])}), {brackets(shape)})"
        if kind == 2 and shape:
            return f"broadcast({x}, {brackets(shape)})"
        if kind == 3 and shape:
            m = self.fit(self.condition(Value("", shape, "i32", 1)), shape)
            return f"load({x}, mask = {m.text}, other = {self.literal(ref.dtype)})"
        if kind == 4 and shape:
            m = self.fit(self.condition(Value("", shape, "i32", 1)), shape)
            return f"where({m.text}, {x}, {self.literal(ref.dtype)})"
        if kind == 5 and shape:
            return f"{r.choice(['rev', 'rev', 'cummax'])}({x}, axis = {r.randrange(len(shape))})" if ref.dtype != "bool" else x
        if kind == 6 and shape:
            return f"roll({x}, {r.choice([str(r.randint(-3, 3)), self.index_scalar()])}, axis = {r.randrange(len(shape))})"
        if kind == 7 and shape and ref.dtype != "bool":
            return f"broadcast(reduce_{r.choice(['max', 'min'])}({x}, axis = {r.randrange(len(shape))}), {brackets(shape)})"
        if kind == 8 and shape:
            return self.view_text(ref, index, shape)
        return x

    def view_text(self, ref, index, shape):
        """A load of a window through a view of a view that cancel each other."""
        name, kind = self.name("view"), self.r.randrange(3)
        if kind == 0 and ref.dtype in VIEWED:
            self.say(f"let {name} = view({ref.name}[{index}], dtype = {VIEWED[ref.dtype]});")
            return f"bitcast({name}[...], {ref.dtype})"
        if kind == 1 and all(isinstance(s, int) for s in shape):
            self.say(f"let {name} = view({ref.name}[{index}], shape = {brackets([elements(shape), 1])});")
            return f"reshape({name}[...], {brackets(shape)})"
        perm = ", ".join(str(a) for a in reversed(range(len(shape))))
        self.say(f"let {name} = view({ref.name}[{index}], perm = ({perm}{',' if len(shape) == 1 else ''}));")
        return f"transpose({name}[...], ({perm}{',' if len(shape) == 1 else ''}))"

    def hazard_store(self, ref, index, shape, value):
        """Stores a value to a window: plainly, with a mask, through a view, or added."""
        kind = self.r.randrange(8)
        if kind == 0 and shape:
            m = self.fit(self.condition(Value("", shape, "i32", 1)), shape)
            self.say(f"store({ref.name}[{index}], {value}, mask = {m.text});")
        elif kind == 1 and ref.dtype == "bool" and shape:
            self.say(f"store({ref.name}[{index}], {value}, mask = {ref.name}[{index}]);")
        elif kind == 1 and shape and all(isinstance(s, int) for s in shape):
            name, flat = self.name("view"), brackets([1, elements(shape)])
            self.say(f"let {name} = view({ref.name}[{index}], shape = {flat});")
            self.say(f"{name}[...] = reshape({value}, {flat});")
        elif kind == 2 and ref.dtype != "bool":
            self.say(f"{ref.name}[{index}] = max({ref.name}[{index}], {value});")
        else:
            self.say(f"{ref.name}[{index}] = {value};")

    def hazard_step(self, refs, kept):
        """One statement that reads a window and writes another; `kept` has values that were read before."""
        r, ref = self.r, self.r.choice(refs)
        kind = r.randrange(16)
        to, source, shape = self.shifted_windows(ref.shape)
        if kind <= 1:
            v = self.let(f"{ref.name}[{source}]", shape, ref.dtype, ref.bound, ref.exact)
            kept.append((v.text, ref, tuple(shape)))
            if self.chance(0.5):
                self.hazard_store(ref, to, shape, v.text)
        elif kind == 2:
            self.late_store(refs, kept)
        elif kind == 3:
            self.hazard_product(refs)
        elif kind == 4:
            self.turned(ref)
        elif kind == 5 and self.depth < 3:
            mark = self.open(f"{r.choice(['when', 'if'])} {self.scalar_condition()}")
            self.hazard_steps(refs, kept[:], r.randint(1, 2))
            self.close(mark)
        elif kind == 6 and self.depth < 3:
            self.hazard_loop(refs, kept)
        elif kind == 7:
            self.element_step(ref)
        elif kind == 8:
            self.gather(ref)
        elif kind == 9:
            self.rows_and_scalars(refs, kept)
        else:
            other = r.choice(refs) if self.chance(0.2) else ref
            self.hazard_store(other, to, shape, self.hazard_value(ref, source, shape))

    def hazard_steps(self, refs, kept, count):
        for _ in range(count):
            self.hazard_step(refs, kept)

    def late_store(self, refs, kept):
        """Stores a value that was read before other stores, and sometimes reads it again."""
        if not kept:
            return
        text, _, shape = self.r.choice(kept)
        ref = self.r.choice(refs)
        index = []
        for s, n in zip(ref.shape, shape):
            index.append(":" if s == n else self.span(s, n, 1) if isinstance(s, int) and isinstance(n, int) and n < s else None)
        if len(shape) == len(ref.shape) and None not in index:
            self.say(f"{ref.name}[{', '.join(index) or '...'}] = {text};")

    def hazard_loop(self, refs, kept):
        name = self.name("t")
        mark = self.open(f"{'static ' if self.chance(0.2) else ''}for {name} in {self.r.randint(0, 1)}..{self.r.randint(1, 4)}")
        self.loop_names.append(name)
        self.hazard_steps(refs, kept[:], self.r.randint(1, 3))
        self.loop_names.pop()
        self.close(mark)

    def element_step(self, ref):
        """Moves an element or a row; the row may be chosen by a row of the same ref."""
        axes = [a for a, s in enumerate(ref.shape) if isinstance(s, int)]
        if not axes:
            return
        a = self.r.choice(axes)
        index = [[":"] * len(ref.shape) for _ in range(2)]
        for side in index:
            side[a] = self.index_scalar_in(ref.shape[a])
        if len(axes) == len(ref.shape) and self.chance(0.4):
            index = [[self.index_scalar_in(s) for s in ref.shape] for _ in range(2)]
        to, source = [", ".join(side) for side in index]
        self.say(f"{ref.name}[{to}] = {ref.name}[{source}];")

    def turned(self, ref):
        """Stores the transpose of a square window to another window."""
        if len(ref.shape) != 2 or not all(isinstance(s, int) for s in ref.shape):
            return
        n = self.r.randint(1, min(ref.shape))
        m = self.r.randint(1, min(ref.shape))
        to = ", ".join(self.span(s, k, 1) for s, k in zip(ref.shape, (n, m)))
        source = ", ".join(self.span(s, k, 1) for s, k in zip(ref.shape, (m, n)))
        self.say(f"{ref.name}[{to}] = {ref.name}[{source}].T;")

    def gather(self, ref):
        """Gathers elements of a ref, by indices of the ref or of another value, and stores them to it."""
        axes = [a for a, s in enumerate(ref.shape) if isinstance(s, int)]
        if not axes or not ref.shape or not all(isinstance(s, int) for s in ref.shape):
            return
        a, shape = self.r.choice(axes), list(ref.shape)
        i = self.iota(shape, "i32").text
        if ref.dtype == "i32" and self.chance(0.5):
            i = f"{ref.name}[...]"
        self.say(f"{ref.name}[...] = take_along_axis({ref.name}[...], mod({i}, {shape[a]}), axis = {a});")

    def rows_and_scalars(self, refs, kept):
        """Scalars of rows in another ref, which change between the loops over rows that read them."""
        ref = self.r.choice(refs)
        if len(ref.shape) < 2 or ref.dtype == "bool":
            return
        shape = list(ref.shape[:-1]) + [1]
        low = "0" if ref.dtype.startswith("u") else "-60"
        column = [r for r in kept if r[0].startswith("col")]
        if not column:
            name = self.name("col")
            self.head.append(f"scratch {name}: vmem {ref.dtype}{brackets(shape)};")
            self.say(f"{name}[...] = {self.literal(ref.dtype)};")
            kept.append((name, None, ()))
        else:
            name = column[0][0]
        for _ in range(self.r.randint(1, 3)):
            kind = self.r.randrange(4)
            if kind == 0:
                self.say(f"{ref.name}[...] = clamp({ref.name}[...] + {name}[...], {low}, 60);")
            elif kind == 1:
                self.say(f"{name}[...] = reduce_max({ref.name}[...], axis = {len(shape) - 1});")
            elif kind == 2:
                self.say(f"{name}[...] = {self.literal(ref.dtype)};")
            else:
                self.say(f"{name}[...] = max(reduce_min({ref.name}[...], axis = {len(shape) - 1}), {name}[...]);")
        ref.bound = max(ref.bound, 60)

    def hazard_product(self, refs):
        """A product of windows of the refs, stored or added to a window of one of them."""
        ref = self.r.choice(refs)
        other = self.r.choice(refs)
        if len(ref.shape) != 2 or ref.dtype not in ("f32", "i32") or not all(isinstance(s, int) for s in ref.shape):
            return
        if not ref.exact or not other.exact:
            return
        (rows, columns), r = ref.shape, self.r
        m, n, k = r.randint(1, rows), r.randint(1, columns), r.randint(1, min(rows, columns))
        if self.chance(0.6):
            m, n = rows, columns
        a = (self.span(rows, m, 1), self.span(columns, k, 1), "")
        if m <= columns and self.chance(0.4):
            a = (self.span(rows, k, 1), self.span(columns, m, 1), ".T")
        b = (self.span(rows, k, 1), self.span(columns, n, 1), "")
        if n <= rows and self.chance(0.3):
            b = (self.span(rows, n, 1), self.span(columns, k, 1), ".T")
        to = "..." if (m, n) == (rows, columns) else f"{self.span(rows, m, 1)}, {self.span(columns, n, 1)}"
        product = f"dot(clamp({other.name}[{a[0]}, {a[1]}], -9, 9){a[2]}, {ref.name}[{b[0]}, {b[1]}]{b[2]})"
        if self.chance(0.5):
            product = f"dot({other.name}[{a[0]}, {a[1]}]{a[2]}, {ref.name}[{b[0]}, {b[1]}]{b[2]})"
        if self.chance(0.3):
            name = self.name("p")
            self.say(f"let {name} = {product};")
            product = name
            if self.chance(0.5):
                self.say(f"{ref.name}[...] = {self.literal(ref.dtype)};")
        op = r.choice(["=", "=", "+="])
        if self.chance(0.2):
            self.say(f"when {self.scalar_condition()} {{ {ref.name}[...] = 0; }}")
        self.say(f"{ref.name}[{to}] {op} {product};")
        self.say(f"{ref.name}[...] = clamp({ref.name}[...], -60, 60);")
        ref.bound = max(ref.bound, 60)

    def op_hazards(self):
        """One or two refs of a shape, scratch or variables, with overlapping windows."""
        v = self.pick(lambda v: 0 < len(v.shape) and elements(v.shape) <= 1500)
        if v is None:
            return None
        v, refs = self.small(self.clean(v), 60), []
        for _ in range(self.r.choice([1, 1, 2])):
            refs.append(Ref(self.name("s"), v.shape, v.dtype, max(v.bound, 60)))
            refs[-1].exact = v.exact
            name = refs[-1].name
            if self.depth == 1 and self.chance(0.3) and all(isinstance(s, int) for s in v.shape):
                self.say(f"var {name}: {v.dtype}{brackets(v.shape)} = {v.text};")
            else:
                self.head.append(f"scratch {name}: vmem {v.dtype}{brackets(v.shape)};")
                self.say(f"{name}[...] = {v.text};")
        if v.exact and v.dtype in FLOATS + ["i32"]:
            for ref in refs:
                self.say(f"{ref.name}[...] = clamp({ref.name}[...], -60, 60);")
        self.hazard_steps(refs, [], self.r.randint(2, 6))
        for ref in refs:
            z = self.let(f"{ref.name}[...]", ref.shape, ref.dtype, ref.bound, ref.exact)
        return z
