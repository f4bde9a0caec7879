"""Random masks: edges, diagonals, windows and data in every combination, wherever a mask is allowed (for tests/fuzz.py)."""
import random

BLOCKS = [1, 2, 3, 4, 7, 8, 8, 11, 16, 16, 17, 24, 32, 33, 48, 64]


class Masks:
    def __init__(self, rng):
        self.r = r = rng
        self.lines, self.depth, self.count = [], 1, 0
        self.bm, self.bn, self.bk = r.choice(BLOCKS), r.choice(BLOCKS), r.choice([1, 4, 8, 16, 20])
        self.whole = self.chance(0.15)  # blocks are whole rows of run-time length
        if self.whole:
            self.bn = "S"
        self.padded = self.chance(0.8)
        self.inner = not self.whole and self.chance(0.5)
        self.shape = f"[{self.bm}, {self.bn}]"
        self.values, self.masks, self.outputs, self.blocks, self.starts, self.scratch = [], [], [], [], [], []
        self.functions, self.exact = [], True

    def chance(self, p):
        return self.r.random() < p

    def say(self, text):
        self.lines.append("  " * self.depth + text)

    def name(self, base):
        self.count += 1
        return f"{base}{self.count}"

    def let(self, base, value, keep):
        name = self.name(base)
        self.say(f"let {name} = {value};")
        keep.append(name)
        return name

    # ---- terms of masks

    def position(self, name, axis, block, start):
        """Declares the run-time position along an axis, in one of its forms."""
        r = self.r
        form, dtype = r.randrange(5), r.choice(["i32"] * 8 + ["f32", "u32", "i16"])
        thin = f"[{self.bm}, 1]" if axis == 0 else f"[1, {self.bn}]"
        shape = self.shape if form < 3 else thin
        self.types[name] = dtype
        plain = "" if dtype == "i32" else f", dtype = {dtype}"
        cast = (lambda s: f"cast({s}, {dtype})") if dtype in ("f32",) else (lambda s: s)
        iota = f"iota({shape}, axis = {axis}{plain})"
        if form == 4:
            iota = f"iota([{block}]{plain})" + ("[:, None]" if axis == 0 else "[None, :]")
        if start == "0":
            self.say(f"let {name} = {iota};")
        elif form == 1:
            self.say(f"let {name} = {iota} + {cast(start)};")
        elif form == 2 and dtype == "i32":
            self.say(f"let {name} = place({start}, {iota});")
            self.functions.append("fn place(start, i) = start + i;")
        else:
            self.say(f"let {name} = {cast(start)} + {iota};")

    def pair(self):
        """Row and column in one dtype."""
        if self.types["row"] == self.types["col"]:
            return "row", "col"
        wide = self.r.choice(["i32", "f32"])
        return tuple(n if self.types[n] == wide else f"cast({n}, {wide})" for n in ("row", "col"))

    def size(self, name, of):
        return f"cast({name}, f32)" if self.types[of] == "f32" else name

    def edge(self):
        n, p = ("S", "col") if self.chance(0.75) else ("N", "row")
        s = self.size(n, p)
        less = self.types[p] not in ("u32",)
        return self.r.choice([f"{p} < {s}", f"{p} < {s}", f"{s} > {p}", f"!({p} >= {s})"] + ([f"{p} <= {s} - 1"] if less else []))

    def diagonal(self):
        row, col = self.pair()
        shift = self.r.randint(0, 20)
        signed = "u" not in self.types["row"] + self.types["col"]
        forms = [f"{col} <= {row}", f"{col} < {row}", f"{row} >= {col}", f"{row} > {col}", f"!({col} > {row})", f"{col} == {row}",
                 f"{col} <= {row} + {shift}", f"{col} >= {row}", f"{row} < {col}"]
        if signed:
            forms += [f"{row} - {col} < {shift}", f"{col} > {row} - {shift}", f"{row} - {col} >= 0", f"{col} - {row} <= {shift}"]
        if signed and self.types["row"] == self.types["col"] == "i32":
            forms += ["col <= row + S - N", "col + S <= row + N", "abs(row - col) < w[0]", "row - col < w[0]", "col / 4 <= row / 4",
                      "(row + col) % 3 != 0"]
        return self.r.choice(forms)

    def data(self):
        return self.r.choice(["x[...] > 0", "x[...] == y[...]", "b[...]", "!b[...]", "cseg[...][None, :] == 1", "rseg[...][:, None] != 0",
                              "rseg[...][:, None] == cseg[...][None, :]", f"{self.value()} < 2"])

    def constant(self):
        return self.r.choice(["FLAG", "!FLAG", "w[0] > 5", "i == 0", "N > 3", "w[1] == 1"])

    def term(self, depth=0):
        kind = self.r.random()
        if kind < 0.3:
            return self.edge()
        if kind < 0.52:
            return self.diagonal()
        if kind < 0.72:
            return self.data()
        if kind < 0.79:
            return f"({self.constant()} {self.r.choice(['&&', '||'])} {self.term(2)})"
        if self.masks and kind < 0.88:
            return self.r.choice(self.masks)
        if depth < 2:
            return self.r.choice([f"({self.mask(depth + 1)})", f"!({self.mask(depth + 1)})", f"where({self.term(2)}, {self.term(2)}, {self.term(2)})",
                                  f"(({self.term(2)}) ^ ({self.term(2)}))", f"both({self.term(2)}, {self.term(2)})"])
        return self.edge()

    def mask(self, depth=0):
        joint = self.r.choice([" && "] * 5 + [" || ", " & "])
        return joint.join(self.term(depth) if joint != " & " else f"({self.term(depth)})" for _ in range(self.r.choice([1, 2, 2, 3, 3, 4])))

    def full_mask(self):
        """A mask of the whole shape, because only `where` broadcasts masks."""
        return f"broadcast({self.mask()}, {self.shape})" if self.thin() else self.mask()

    def thin(self):
        return True

    # ---- uses of masks

    def value(self):
        return self.r.choice(self.values or ["x[...]"])

    def constant_value(self):
        return self.r.choice(["0", "0", "0", "-inf", "1", "-1e30", "2"])

    def op_where(self):
        other = self.r.choice([self.constant_value(), self.value(), f"where({self.mask()}, {self.value()}, 0)"])
        self.let("v", f"where({self.full_mask()}, {self.value()}, {other})", self.values)

    def op_mask(self):
        self.let("m", self.full_mask(), self.masks)

    def op_exp(self):
        self.let("v", f"exp(where({self.full_mask()}, min({self.value()}, 4), -inf))", self.values)

    def op_softmax(self):
        s = self.let("v", f"where({self.full_mask()}, clamp({self.value()}, -9, 9), -inf)", self.values)
        p = self.let("v", f"exp({s} - max(reduce_max({s}, axis = 1), -9))", self.values)
        if self.chance(0.5):
            self.let("v", f"{p} / max(reduce_sum({p}, axis = 1), 0.001)", self.values)
        self.values.remove(s)

    def op_arithmetic(self):
        a, b = self.value(), self.value()
        self.let("v", self.r.choice([f"clamp({a}, -50, 50) + clamp({b}, -50, 50)", f"clamp({a}, -50, 50) * 0.5", f"max({a}, {b})",
                                     f"clamp({a}, -50, 50) * cast({self.full_mask()}, f32)", f"tanh({a})"]), self.values)

    def op_reduce(self):
        v = f"clamp({self.value()}, -50, 50)"
        axis = self.r.choice(["1", "1", "0", "(0, 1)"])
        kind = self.r.choice(["sum", "sum", "max", "min", "any", "count", "prod"])
        full, m = f"where({self.full_mask()}, {v}, 0)", self.full_mask()
        text = {"sum": f"reduce_sum({full}, axis = {axis})", "max": f"max(reduce_max(where({m}, {v}, -inf), axis = {axis}), -60)",
                "min": f"min(reduce_min(where({m}, {v}, inf), axis = {axis}), 60)", "any": f"cast({self.r.choice(['any', 'all'])}({m}, axis = {axis}), f32)",
                "count": f"cast(reduce_sum(cast({m}, i32), axis = {axis}), f32)",
                "prod": f"reduce_prod(where({m}, clamp({v}, 0.5, 1), 1), axis = {axis})"}[kind]
        r = self.let("r", text, [])
        if axis == "1" and self.chance(0.5) and (self.inner or self.whole):
            self.output(f"{self.bm}, 1", "N, 1", "i, 0", r, columns=True)
        else:
            self.let("v", f"{self.value()} + {r}" if self.chance(0.5) else f"where({self.full_mask()}, {r}, {self.value()})", self.values)
            self.values[-1] = self.let("v", f"clamp({self.values[-1]}, -99, 99)", [])

    def op_dot(self):
        if self.whole:
            return
        a = f"where({self.full_mask()}, clamp({self.value()}, -9, 9), 0)"
        if self.inner and self.chance(0.5):
            product = self.let("d", f"dot({a}, y_k[...])", [])
            self.need_k = True
            self.output(f"{self.bm}, {self.bk}", f"N, {self.bk}", "i, 0", product, columns=True)
        else:
            self.need_q = True
            s = self.let("s", f"dot(q[...], k[...].T)", [])
            self.let("v", f"where({self.full_mask()}, {s}, {self.constant_value()})", self.values)
            self.values[-1] = self.let("v", f"clamp({self.values[-1]}, -99, 99)", [])

    def op_masked_load(self):
        self.let("v", f"load({self.r.choice('xy')}[...], mask = {self.full_mask()}, other = {self.r.choice(['0', '-inf', '3'])})", self.values)

    def op_masked_store(self):
        name = self.name("t")
        self.scratch.append(name)
        self.say(f"{name}[...] = {self.constant_value()};")
        self.say(f"store({name}[...], {self.value()}, mask = {self.full_mask()});")
        self.let("v", f"{name}[...]", self.values)

    def op_along(self):
        v = f"where({self.full_mask()}, clamp({self.value()}, -3, 3), 0)"
        self.let("v", self.r.choice([f"cumsum({v}, axis = {self.r.randint(0, 1)})", f"roll({v}, 1, axis = 1)"]), self.values)

    def op_guard(self):
        name = self.name("v")
        condition = self.r.choice(["w[0] > 5", "i == 0", f"(i + 1) * {self.bm} > N", "N > 3"])
        v = self.value()
        self.say(f"let {name} = if {condition} {{ where({self.full_mask()}, {v}, 0) }} else {{ {v} }};")
        self.values.append(name)

    # ---- results

    def output(self, block, array, at, value, columns=False):
        name = self.name("o")
        self.outputs.append(f"{name}: f32[{array}]")
        self.blocks.append(f"block {name}: [{block}] at ({at});")
        if columns and self.inner:
            self.starts.append(name)
            self.say(f"{name}[...] += {value};" if self.chance(0.7) else f"{name}[...] = max({name}[...], {value});")
        else:
            self.say(f"{name}[...] = {value};")

    def final_outputs(self):
        at = "i, 0" if self.whole else "i, j"
        for v in self.r.sample(self.values, min(len(self.values), self.r.randint(1, 3))):
            if self.chance(0.25):
                self.output(f"{self.bm}, {self.bn}", "N, S", at, v)
                self.lines.pop()
                self.say(f"o{self.count}[...] = 7;")
                self.say(f"store(o{self.count}[...], {v}, mask = {self.full_mask()});")
            else:
                self.output(f"{self.bm}, {self.bn}", "N, S", at, v)

    OPS = [("op_where", 5), ("op_mask", 3), ("op_exp", 2), ("op_softmax", 1.5), ("op_arithmetic", 2), ("op_reduce", 4), ("op_dot", 3),
           ("op_masked_load", 1.5), ("op_masked_store", 1), ("op_along", 0.5), ("op_guard", 1)]

    def make(self, label):
        r = self.r
        self.types, self.need_k, self.need_q = {}, False, False
        column = ("col", 1, self.bn, "0" if self.whole else f"j * {self.bn}")
        order = [("row", 0, self.bm, f"i * {self.bm}"), column]
        r.shuffle(order)
        for p in order:
            self.position(*p)
        if not self.padded:
            for v in "xy":
                self.let("v", f"where(row < {self.size('N', 'row')} && col < {self.size('S', 'col')}, {v}[...], 0)", self.values)
        names, weights = zip(*self.OPS)
        for _ in range(r.randint(1, 7)):
            getattr(self, r.choices(names, weights)[0])()
        if not self.values:
            self.op_where()
        self.final_outputs()
        return self.text(label)

    def data_texts(self):
        return ["x=randint:-3:4:1", "y=randint:-2:3:2", "w=randint:0:12:3", "rseg=randint:0:3:5", "cseg=randint:0:3:6"] + (
            ["y_k=randint:-2:3:7"] if self.need_k else []) + (["q=randint:-2:3:8", "k=randint:-2:3:9"] if self.need_q else [])

    def text(self, label):
        r = self.r
        width = 16 if self.whole else self.bn
        around = lambda b: r.choice([1, 2, b - 1 or 1, b, b + 1, 2 * b, 2 * b + 3, 3 * b - 1])
        tests = []
        other = r.choice(["", " --target=generic", " --target=x86-64-v2", " --target=x86-64-v3", " --dma=literal"])
        for n in range(3):
            rows, columns = around(self.bm), around(width)
            if self.chance(0.3):
                rows = columns
            threads = " threads=2" if self.chance(0.2) else ""
            tests.append(f"// test: N={min(rows, 150)} S={min(columns, 150)} {' '.join(self.data_texts())}{threads}{other if n else ''}")
        at, pad = ("i, 0" if self.whole else "i, j"), " pad 0" if self.padded else ""
        out = list(dict.fromkeys(tests)) + ["fn both(a, b) = a && b;"] + list(dict.fromkeys(self.functions))
        inputs = ["x: f32[N, S]", "y: f32[N, S]", "b: bool[N, S]", "rseg: i32[N]", "cseg: i32[S]", "w: i32[2]"]
        inputs += ([f"y_k: f32[S, {self.bk}]"] if self.need_k else []) + ([f"q: f32[N, {self.bk}]", f"k: f32[S, {self.bk}]"] if self.need_q else [])
        out.append(f"kernel {label}({', '.join(inputs)}) -> ({', '.join(self.outputs)}) {{")
        out.append(f"  static FLAG = {r.choice(['true', 'false'])};")
        out.append(f"  grid (i in cdiv(N, {self.bm}) parallel{'' if self.whole else f', j in cdiv(S, {self.bn})' + ('' if self.inner else ' parallel')});")
        out.append(f"  block x, y: [{self.bm}, {self.bn}] at ({at}){pad};")
        column = "0" if self.whole else "j"
        out += [f"  block b: [{self.bm}, {self.bn}] at ({at}) pad false;", f"  block rseg: [{self.bm}] at (i) pad 0;",
                f"  block cseg: [{self.bn}] at ({column}) pad 0;", "  block w: smem;"]
        out += [f"  block y_k: [{self.bn}, {self.bk}] at ({column}, 0) pad 0;"] if self.need_k else []
        out += [f"  block q: [{self.bm}, {self.bk}] at (i, 0) pad 0;", f"  block k: [{self.bn}, {self.bk}] at ({column}, 0) pad 0;"] if self.need_q else []
        out += ["  " + b for b in self.blocks] + [f"  scratch {s}: vmem f32{self.shape};" for s in self.scratch]
        if self.starts:
            out.append("  when j == 0 { " + " ".join(f"{s}[...] = 0;" for s in self.starts) + " }")
        return "\n".join(out + self.lines + ["}", ""])


def kernel_text(seed, number):
    return Masks(random.Random(f"masks/{seed}/{number}")).make(f"k{number}")
