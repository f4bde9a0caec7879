"""Random attention kernels, forward and backward, in many common forms (for tests/fuzz.py)."""
import random

ROWS = [1, 2, 4, 7, 8, 8, 13, 16, 16, 24, 32, 48, 64]
DEPTHS = [1, 4, 8, 16, 20, 32]


class Attention:
    def __init__(self, rng):
        self.r = r = rng
        self.head, self.lines, self.depth = [], [], 1
        self.inputs, self.outputs, self.requires, self.prefetch = [], [], [], []
        self.mq, self.mk, self.d = r.choice(ROWS), r.choice(ROWS[1:]), r.choice(DEPTHS)
        self.t = r.choice(["f32", "f32", "f32", "bf16", "f16"])
        self.layout = r.choice(["", "", "h", "h", "bh", "1h"])
        self.grouped = self.layout != "" and self.chance(0.5)
        self.rows = "one" if self.chance(0.12) else "blocks"
        if self.rows == "one":
            self.mq = 1
        self.square = self.chance(0.35)
        self.windowed = self.chance(0.3)
        self.shape = f"[{self.mq}, {self.mk}]"

    def chance(self, p):
        return self.r.random() < p

    def say(self, text):
        self.lines.append("  " * self.depth + text)

    def open(self, text):
        self.say(text + " {")
        self.depth += 1

    def close(self):
        self.depth -= 1
        self.say("}")

    # ---- operands

    def array(self, rest, keys=False):
        """The shape of an operand with this layout's leading axes."""
        lead = {"": "", "h": "H, ", "1h": "H, ", "bh": "B, H, "}[self.layout]
        return "[" + (lead.replace("H", "G") if keys and self.grouped else lead) + rest + "]"

    def block(self, names, block, index, keys=False, options=""):
        head = "h / (H / G)" if keys and self.grouped else "h"
        lead = {"": ("", ""), "h": ("_, ", f"{head}, "), "1h": ("1, ", f"{head}, "), "bh": ("_, _, ", f"b, {head}, ")}[self.layout]
        self.head.append(f"block {names}: [{lead[0]}{block}] at ({lead[1]}{index}){options};")

    def add(self, name, rest, dtype, keys=False, data=""):
        self.inputs.append(f"{name}: {dtype}{self.array(rest, keys)}")
        if data:
            self.data.append(f"{name}={data}")

    def read(self, name):
        """The whole block; sometimes its rows or columns from a run-time start, which is 0."""
        rows = {"q": self.mq, "o": self.mq, "k": self.mk, "v": self.mk}.get(name)
        if rows is None or not self.windowed or self.chance(0.4):
            return f"{name}[0]" if self.layout == "1h" else f"{name}[...]"
        rest = self.r.choice([f"ds(min(N, 0), {rows}), :", f":, ds(min(N, 0), {self.d})", f"ds(min(N, 0), {rows}), ds(min(N, 0), {self.d})"])
        return f"{name}[0, {rest}]" if self.layout == "1h" else f"{name}[{rest}]"

    def write(self, name, value):
        self.say(f"{self.read(name)} = {value};")

    def grid(self, last):
        axes = {"": [], "h": ["h in H parallel"], "1h": ["h in H parallel"], "bh": ["b in B parallel", "h in H parallel"]}[self.layout]
        self.head.append("grid (" + ", ".join(axes + last) + ");")
        if self.grouped:
            self.head.insert(0, "require H % G == 0;")

    # ---- masks and biases of the scores

    def positions(self, row_start, col_start):
        dtype = self.r.choice(["", "", "", ", dtype = f32"])
        cast = (lambda s: f"cast({s}, f32)") if dtype else (lambda s: s)
        self.float_positions = bool(dtype)
        form = self.r.randrange(3)
        if form == 0:
            self.say(f"let row = {cast(row_start)} + iota({self.shape}, axis = 0{dtype});")
            self.say(f"let col = {cast(col_start)} + iota({self.shape}, axis = 1{dtype});")
        elif form == 1:
            self.say(f"let row = iota([{self.mq}, 1], axis = 0{dtype}) + {cast(row_start)};")
            self.say(f"let col = iota([1, {self.mk}], axis = 1{dtype}) + {cast(col_start)};")
        else:
            self.say(f"let col = iota({self.shape}, axis = 1{dtype}) + {cast(col_start)};")
            self.say(f"let row = iota({self.shape}, axis = 0{dtype}) + {cast(row_start)};")

    def mask_terms(self, edge):
        r, n = self.r, (lambda s: f"cast({s}, f32)") if self.float_positions else (lambda s: s)
        terms = []
        if edge:
            terms.append(r.choice([f"col < {n('S')}", f"{n('S')} > col", f"col <= {n('S - 1')}"]))
        if self.chance(0.45):
            terms.append(r.choice(["col <= row", "row >= col", "!(col > row)", f"col <= row + {n('S - N')}", "(!CAUSAL || col <= row)"]))
            if "CAUSAL" in terms[-1]:
                self.head.insert(0, f"static CAUSAL = {r.choice(['true', 'false'])};")
        if self.chance(0.25):
            terms.append(r.choice([f"row - col < {r.randint(1, 40)}", f"col > row - {r.randint(1, 40)}", f"abs(row - col) <= {r.randint(0, 20)}"]))
        if self.segments:
            terms.append(r.choice(["same", "same", "(same && keep_all)", "(same || col < 2)"]).replace("keep_all", "row >= 0"))
        if self.dense:
            terms.append(self.dense)
        if self.lengths:
            terms.append(f"col < {n('length')}")
        r.shuffle(terms)
        return terms

    def extras(self, qi, ki):
        """The operands of masks and biases, which are declared before the body."""
        r = self.r
        self.segments = self.chance(0.25)
        self.bias = self.chance(0.2)
        self.dense = None
        self.lengths = self.chance(0.15)
        self.alibi = self.layout != "" and self.chance(0.15)
        self.soft_cap = self.chance(0.2)
        if self.segments:
            self.two = self.chance(0.5)
            q, k = ("N, 1", "1, S") if self.two else ("N", "S")
            self.inputs += [f"qseg: i32[{q}]", f"kseg: i32[{k}]"]
            self.data += ["qseg=randint:0:3:5", "kseg=randint:0:3:6"]
            self.head += [f"block qseg: [{self.mq}, 1] at ({qi}, 0) pad 0;" if self.two else f"block qseg: [{self.mq}] at ({qi}) pad 0;"]
            self.head += [f"block kseg: [1, {self.mk}] at (0, {ki}) pad 9;" if self.two else f"block kseg: [{self.mk}] at ({ki}) pad 9;"]
        if self.bias:
            self.inputs.append(f"bias: {self.t}[N, S]")
            self.head.append(f"block bias: [{self.mq}, {self.mk}] at ({qi}, {ki}) pad 0;")
        if self.chance(0.2):
            self.inputs.append("keep: bool[N, S]")
            self.head.append(f"block keep: [{self.mq}, {self.mk}] at ({qi}, {ki}) pad false;")
            self.dense = r.choice(["keep[...]", "!keep[...]", "(keep[...] || col == row)"])
        if self.lengths:
            self.prefetch.append("len: i32[1]")
            self.data.append("len=randint:0:50:3")
        if self.alibi:
            self.inputs.append("slope: f32[H]")
            self.head.append("block slope: smem;")

    def scores(self, row_start, col_start, q, k, edge):
        """Declares `s`; returns the mask terms."""
        r = self.r
        scale = r.choice(["", f" * {1 / self.d ** 0.5:.6g}", f" * rsqrt({self.d})"])
        dot = r.choice([f"dot({q}, {k}.T)", f"einsum(\"qd,kd->qk\", {q}, {k})", f"dot({q}, {k}, contract = ((1,), (1,)))"])
        self.say(f"let s = {dot}{scale};")
        if self.soft_cap:
            self.say(r.choice(["let s = 5.0 * tanh(s / 5.0);", "let s = tanh(s * 0.25) * 4.0;"]))
        if self.bias:
            self.say("let s = s + cast(bias[...], f32);")
        if self.lengths:
            self.say("let length = len[0];")
        self.positions(row_start, col_start)
        if self.alibi:
            self.say("let s = s - slope[h] * cast(abs(row - col), f32);" if self.chance(0.5) else "let s = s + slope[h] * cast(col - row, f32);")
        if self.segments:
            self.say("let same = qseg[...] == kseg[...];" if self.two else "let same = qseg[...][:, None] == kseg[...][None, :];")
        return self.mask_terms(edge)

    def apply_mask(self, terms, fill, edge_only):
        r = self.r
        if not terms:
            return
        form = r.randrange(5)
        if form == 0 and len(terms) > 1:
            for term in terms:
                self.say(f"let s = where({term}, s, {fill});")
        elif form == 1:
            self.say(f"let mask = {terms[0]};")
            for term in terms[1:]:
                self.say(f"let mask = mask && {term};")
            self.say(f"let s = where(mask, s, {fill});")
        elif form == 2 and edge_only:
            self.say(f"let s = if {edge_only} {{ where({' && '.join(terms)}, s, {fill}) }} else {{ s }};")
        elif form == 3 and edge_only:
            self.say(f"let mask = if {edge_only} {{ {' && '.join(terms)} }} else {{ col >= 0 || row < 0 }};")
            self.shape_note = True
            self.say(f"let s = where(mask, s, {fill});")
        else:
            self.say(f"let s = where({' && '.join(terms)}, s, {fill});")

    # ---- forward

    def keys(self):
        """How the body iterates over blocks of keys: (grid axes, index of the block of keys)."""
        self.loop = self.r.choice(["grid", "grid", "grid", "for", "pipeline"])
        if self.loop == "grid":
            self.extent = self.r.choice([f"cdiv(S, {self.mk})", f"max(1, cdiv(S, {self.mk}))"])
            return [f"w in {self.extent}{self.r.choice([' arbitrary', ''])}"], "w"
        return [], "w"

    def state(self, name):
        """Returns (scratch shape, text that reads it as [mq, 1])."""
        return {"2": (f"[{self.mq}, 1]", f"{name}[...]"), "1": (f"[{self.mq}]", f"{name}[...][:, None]"),
                "lanes": (f"[{self.mq}, 128]", f"{name}[:, 0:1]")}[self.kind]

    def set_state(self, name, value):
        if self.kind == "1":
            value = f"squeeze({value}, axis = 1)" if self.chance(0.7) else f"reshape({value}, [{self.mq}])"
        if self.kind == "lanes":
            value = f"broadcast({value}, [{self.mq}, 128])"
        self.say(f"{name}[...] = {value};")

    def forward(self):
        r = self.r
        self.kind = r.choice(["2", "2", "1", "1", "lanes"])
        last, ki = self.keys()
        if self.loop != "grid":
            self.no_blocks_of_keys()
        else:
            self.extras("i", ki)
        self.grid([f"i in cdiv(N, {self.mq}) parallel"] + last)
        self.add("q", f"N, {self.d}", self.t)
        self.block("q, o", f"{self.mq}, {self.d}", "i, 0", options=r.choice([" pad 0", ""]))
        for name in ("k", "v"):
            self.add(name, f"S, {self.d}", self.t, keys=True)
        if self.loop == "grid":
            self.block("k, v", f"{self.mk}, {self.d}", "w, 0", keys=True, options=" pad 0")
        elif self.loop == "for":
            self.block("k, v", f"S, {self.d}", "0, 0", keys=True)
            self.head.insert(0, f"require S % {self.mk} == 0;")
        else:
            self.head.append("block k, v: any;")
        self.outputs.append(f"o: {self.t}{self.array(f'N, {self.d}')}")
        self.saved = r.choice(["", "", "column", "row", "row", "both"])
        self.declare_saved()
        self.safe = self.chance(0.3)
        self.fill = r.choice(["-inf", "-1e30", "-2.38e38"]) if self.safe else r.choice(["-inf", "-1e30"])
        self.start = r.choice(["-inf", "-1e30"]) if self.safe else "-1e30"
        self.sinks = self.layout != "" and self.chance(0.15)
        if self.sinks:
            self.inputs.append("sink: f32[H]")
            self.head.append("block sink: smem;")
        shape = self.state("m")[0]
        self.variables = self.loop != "grid" and self.chance(0.4)
        if not self.variables:
            self.head.append(f"scratch m, l: vmem f32{shape};")
            self.head.append(f"scratch acc: vmem f32[{self.mq}, {self.d}];")
        self.clear(shape)
        {"grid": self.forward_grid, "for": self.forward_for, "pipeline": self.forward_pipeline}[self.loop]()

    def no_blocks_of_keys(self):
        self.segments = self.bias = self.lengths = self.alibi = False
        self.dense, self.soft_cap = None, self.chance(0.2)
        if self.loop == "pipeline" and self.chance(0.3) and self.layout == "":
            self.inputs.append("keep: bool[N, S]")
            self.head.append("block keep: any;")
            self.dense = "keeps[...]"

    def declare_saved(self):
        if self.saved in ("column", "both"):
            self.outputs.append(f"lse: f32{self.array('N, 1')}")
            self.block("lse", f"{self.mq}, 1", "i, 0")
        if self.saved in ("row", "both"):
            self.outputs.append(f"top: f32{self.array('N')}")
            self.block("top", f"{self.mq}", "i")

    def clear(self, shape):
        start = f"sink[h]" if self.sinks else self.start
        first = "1" if self.sinks else "0"
        if self.variables:
            start = f"full({shape}, {start}, dtype = f32)" if self.sinks else start
            self.say(f"var m: f32{shape} = {start};")
            self.say(f"var l: f32{shape} = {first};")
            self.say(f"var acc: f32[{self.mq}, {self.d}] = 0;")
            return
        when = "when w == 0 { " if self.loop == "grid" else ""
        self.say(f"{when}m[...] = {start}; l[...] = {first}; acc[...] = 0;{' }' if when else ''}")

    def block_step(self, q, k, v, col_start, edge):
        r = self.r
        terms = self.scores(f"i * {self.mq}", col_start, q, k, edge)
        past = f"{col_start} + {self.mk} > S"
        self.apply_mask(terms, self.fill, past if len(terms) == 1 and edge else None)
        old_m, old_l = self.state("m")[1], self.state("l")[1]
        if self.chance(0.4):
            self.say(f"let m_prev = {old_m};")
            self.say(f"let l_prev = {old_l};")
            old_m, old_l = "m_prev", "l_prev"
        if self.chance(0.7):
            self.say(f"let m_new = max({old_m}, reduce_max(s, axis = 1));")
        else:
            self.say(f"let m_cur = reduce_max(s, axis = 1, keep = false)[:, None];")
            self.say(f"let m_new = max({old_m}, m_cur);")
        shift = "m_new"
        if self.safe:
            self.say("let m_safe = where(m_new == -inf, 0, m_new);")
            shift = "m_safe"
        self.say(f"let p = exp(s - {shift});")
        if self.chance(0.15) and terms:
            self.say(f"let p = where({' && '.join(terms)}, p, 0);")
        scale = f"let scale = exp({old_m} - {shift});"
        self.say(scale)
        self.set_state("l", f"scale * {old_l} + reduce_sum(p, axis = 1)")
        p = f"cast(p, {self.t})" if self.t != "f32" else "p"
        if self.chance(0.7):
            self.say(f"acc[...] = scale * acc[...] + dot({p}, {v});")
        else:
            self.say("acc[...] *= scale;")
            self.say(f"acc[...] += dot({p}, {v});")
        self.set_state("m", "m_new")

    def finish(self):
        l, m = self.state("l")[1], self.state("m")[1]
        divisor = self.r.choice([f"where({l} == 0, 1, {l})", f"max({l}, 1e-30)"])
        o = self.r.choice([f"acc[...] / {divisor}", f"acc[...] * (1 / {divisor})", f"acc[...] * reciprocal({divisor})"])
        self.write("o", f"cast({o}, {self.t})" if self.t != "f32" else o)
        if self.saved in ("column", "both"):
            self.write("lse", f"{m} + log({divisor})")
        if self.saved in ("row", "both"):
            self.write("top", f"squeeze({m}, axis = 1)" if self.chance(0.5) or self.kind != "1" else "m[...] + 1")

    def forward_grid(self):
        guard = self.r.choice([None, None, f"w * {self.mk} <= i * {self.mq} + {self.mq - 1}", f"w * {self.mk} < S"])
        if guard:
            self.open(f"{self.r.choice(['when', 'if'])} {guard}")
        self.block_step(self.read("q"), self.read("k"), self.read("v"), f"w * {self.mk}", True)
        if guard:
            self.close()
        self.open("when w == num_programs(w) - 1")
        self.finish()
        self.close()

    def forward_for(self):
        count = f"S / {self.mk}" if self.chance(0.5) else f"min(S / {self.mk}, i * {self.mq} / {self.mk} + 2)"
        self.open(f"for w in 0..{count}")
        at = f"ds(w * {self.mk}, {self.mk})"
        k, v = (f"k[0, {at}, :]", f"v[0, {at}, :]") if self.layout == "1h" else (f"k[{at}, :]", f"v[{at}, :]")
        if self.chance(0.5):
            self.say(f"let kb = {k};")
            self.say(f"let vb = {v};")
            k, v = "kb", "vb"
        self.block_step(self.read("q"), k, v, f"w * {self.mk}", self.chance(0.4))
        self.close()
        self.finish()

    def forward_pipeline(self):
        head = "h / (H / G)" if self.grouped else "h"
        squeeze, lead = {"": ("", ""), "h": ("_, ", f"{head}, "), "1h": ("_, ", f"{head}, "), "bh": ("_, _, ", f"b, {head}, ")}[self.layout]
        self.open(f"pipeline (w in cdiv(S, {self.mk}))")
        self.say(f"block kb of k, vb of v: [{squeeze}{self.mk}, {self.d}] at ({lead}w, 0) pad 0;")
        if self.dense:
            self.say(f"block keeps of keep: [{self.mq}, {self.mk}] at (i, w) pad false;")
        self.block_step(self.read("q"), "kb[...]", "vb[...]", f"w * {self.mk}", True)
        self.close()
        self.finish()

    # ---- backward

    def backward(self):
        r = self.r
        self.of_keys = self.chance(0.5)
        outer, inner = ("j", "i") if self.of_keys else ("i", "j")
        count = {"i": f"cdiv(N, {self.mq})", "j": f"cdiv(S, {self.mk})"}
        self.grouped = self.grouped and not self.of_keys
        self.extras("i", "j")
        self.grid([f"{outer} in {count[outer]} parallel", f"{inner} in {count[inner]} arbitrary"])
        self.dout = r.choice(["dout", "dout", "g_o"])
        for name in ("q", self.dout):
            self.add(name, f"N, {self.d}", self.t)
        for name in ("k", "v"):
            self.add(name, f"S, {self.d}", self.t, keys=True)
        row = self.chance(0.5)
        self.row_saved = row
        rest, block, at = ("N", f"{self.mq}", "i") if row else ("N, 1", f"{self.mq}, 1", "i, 0")
        self.delta = r.choice(["given", "given", "computed"])
        names = ["lse"] + (["delta"] if self.delta == "given" else [])
        for name in names:
            self.add(name, rest, "f32")
        self.block(", ".join(names), block, at, options=" pad 0")
        rows, columns = f"q, {self.dout}" + ("" if self.of_keys else ", dq"), "k, v" + (", dk, dv" if self.of_keys else "")
        if self.delta == "computed":
            self.add("out", f"N, {self.d}", self.t)
            rows += ", out"
        self.block(rows, f"{self.mq}, {self.d}", "i, 0", options=" pad 0")
        self.block(columns, f"{self.mk}, {self.d}", "j, 0", keys=True, options=" pad 0")
        grads = ["dk", "dv"] if self.of_keys else ["dq"]
        self.direct = self.t == "f32" and self.chance(0.4)
        n, size = ("S", self.mk) if self.of_keys else ("N", self.mq)
        for name in grads:
            self.outputs.append(f"{name}: {self.t}{self.array(f'{n}, {self.d}', keys=self.of_keys)}")
        if not self.direct:
            self.head.append(f"scratch {', '.join(g + '_acc' for g in grads)}: vmem f32[{size}, {self.d}];")
        self.backward_body(grads, inner)

    def backward_body(self, grads, inner):
        acc = (lambda g: self.read(g)) if self.direct else (lambda g: f"{g}_acc[...]")
        self.say(f"when {inner} == 0 {{ {' '.join(acc(g) + ' = 0;' for g in grads)} }}")
        guard = self.r.choice([None, None, f"j * {self.mk} <= i * {self.mq} + {self.mq - 1}"])
        if guard:
            self.open(f"when {guard}")
        column = "[:, None]" if self.row_saved else ""
        q, k, v, g = (self.read(n) for n in ("q", "k", "v", self.dout))
        terms = self.scores(f"i * {self.mq}", f"j * {self.mk}", q, k, True)
        late = self.chance(0.4)
        if not late:
            self.apply_mask(terms, self.r.choice(["-inf", "-1e30"]), f"(j + 1) * {self.mk} > S" if len(terms) == 1 else None)
        p = f"exp(min(s - {self.read('lse')}{column}, 8))"
        self.say(f"let p = {p};")
        if late:
            self.say(f"let p = where({' && '.join(terms)}, p, 0);")
        self.say(f"let dp = dot({g}, {v}.T);")
        if self.delta == "computed":
            self.say(f"let delta = reduce_sum(cast({g}, f32) * cast({self.read('out')}, f32), axis = 1);")
        delta = "delta" if self.delta == "computed" else self.read("delta") + column
        self.say(f"let ds = p * (dp - {delta}){' * 0.25' if self.chance(0.5) else ''};")
        cast = (lambda x: f"cast({x}, {self.t})") if self.t != "f32" else (lambda x: x)
        if self.of_keys:
            first, second = ("dv", ("p", g)), ("dk", ("ds", q))
            order = [first, second] if self.chance(0.5) else [second, first]
            for name, (a, b) in order:
                product = self.r.choice([f"dot({cast(a)}.T, {b})", f"dot({cast(a)}, {b}, contract = ((0,), (0,)))"])
                self.say(f"{acc(name)} += {product};")
        else:
            self.say(f"{acc('dq')} += dot({cast('ds')}, {k});")
        if guard:
            self.close()
        if not self.direct:
            self.open(f"when {inner} == num_programs({inner}) - 1")
            for name in grads:
                self.write(name, cast(acc(name)))
            self.close()

    # ---- decoding: few rows, one for each head

    def decode(self):
        r = self.r
        paged = self.chance(0.4)
        self.layout, self.grouped, self.kind = "", False, r.choice(["2", "1", "lanes"])
        rows = self.mq = r.choice([1, 2, 4, 8])
        self.shape = f"[{rows}, {self.mk}]"
        self.segments = self.bias = self.alibi = self.lengths = False
        self.dense, self.soft_cap, self.sinks, self.variables, self.safe, self.loop = None, self.chance(0.2), False, False, False, "grid"
        self.saved, self.fill, self.start = r.choice(["", "column"]), r.choice(["-inf", "-1e30"]), "-1e30"
        self.prefetch.append("len: i32[B]")
        self.data.append(f"len=randint:0:{2 * self.mk + 2}:{r.randrange(99)}")
        self.inputs.append(f"q: {self.t}[B, {rows}, {self.d}]")
        self.outputs.append(f"o: {self.t}[B, {rows}, {self.d}]")
        if self.saved:
            self.outputs.append(f"lse: f32[B, {rows}, 1]")
        self.head.append(f"grid (b in B parallel, w in {'W' if paged else f'max(1, cdiv(S, {self.mk}))'});")
        self.head.append(f"block q, o: [_, {rows}, {self.d}] at (b, 0, 0);")
        if self.saved:
            self.head.append(f"block lse: [_, {rows}, 1] at (b, 0, 0);")
        if paged:
            self.prefetch.append("table: i32[B, W]")
            self.data.append("table=randint:0:3:8")
            self.inputs += [f"{n}: {self.t}[P, {self.mk}, {self.d}]" for n in "kv"]
            self.head.append(f"block k, v: [_, {self.mk}, {self.d}] at (table[b, w], 0, 0);")
            self.head.insert(0, "require P > 2;")
            self.sizes = {"B": [0, 1, 2, 3], "W": [1, 2, 3], "P": [3, 4]}
        else:
            self.inputs += [f"{n}: {self.t}[B, S, {self.d}]" for n in "kv"]
            self.head.append(f"block k, v: [_, {self.mk}, {self.d}] at (b, w, 0) pad 0;")
            self.sizes = {"B": [0, 1, 2, 3], "S": [0, 1, self.mk, 2 * self.mk + 1]}
        shape = self.state("m")[0]
        self.head.append(f"scratch m, l: vmem f32{shape};")
        self.head.append(f"scratch acc: vmem f32[{rows}, {self.d}];")
        self.clear(shape)
        self.open(f"when w * {self.mk} < len[b]")
        self.say(f"let s = dot(q[...], k[...].T) * 0.25;")
        self.say(f"let col = w * {self.mk} + iota({self.shape}, axis = 1);")
        self.say(f"let s = where(col < len[b]{'' if paged else ' && col < S'}, s, {self.fill});")
        self.decode_step()
        self.close()
        self.open("when w == num_programs(w) - 1")
        self.finish()
        self.close()

    def decode_step(self):
        m, l = self.state("m")[1], self.state("l")[1]
        self.say(f"let m_new = max({m}, reduce_max(s, axis = 1));")
        self.say("let p = exp(s - m_new);")
        self.say(f"let scale = exp({m} - m_new);")
        self.set_state("l", f"scale * {l} + reduce_sum(p, axis = 1)")
        self.say(f"acc[...] = scale * acc[...] + dot({'p' if self.t == 'f32' else f'cast(p, {self.t})'}, v[...]);")
        self.set_state("m", "m_new")

    # ---- whole kernels

    def make(self, label):
        self.data, self.sizes = [], None
        {"forward": self.forward, "backward": self.backward, "decode": self.decode}[
            self.r.choice(["forward"] * 5 + ["backward"] * 2 + ["decode"])]()
        return self.text(label)

    def draw_sizes(self, number):
        r = self.r
        if self.sizes:
            return {s: r.choice(v) for s, v in self.sizes.items()}
        around = lambda b: r.choice([1, 2, b - 1 or 1, b, b + 1, 2 * b, 2 * b + 3, 3 * b - 1])
        n, s = around(self.mq), around(self.mk)
        if getattr(self, "loop", "") == "for":
            s = self.mk * r.randint(1, 3)
        elif self.square and number:
            s = n
        g = r.choice([1, 2])
        sizes = {"N": n, "S": s}
        if self.layout:
            sizes["H"] = g * r.randint(1, 2)
        if self.grouped:
            sizes["G"] = g
        if "b" in self.layout:
            sizes["B"] = r.randint(1, 2)
        return sizes

    def text(self, label):
        r, tests = self.r, []
        other = r.choice(["", " --target=generic", " --target=x86-64-v2", " --target=x86-64-v3", " --dma=literal"])
        for n in range(3):
            sizes = " ".join(f"{k}={v}" for k, v in self.draw_sizes(n).items())
            more = " threads=2" if self.chance(0.2) else ""
            tests.append(" ".join(f"// test: {sizes} {' '.join(self.data)}".split()) + (other if n else "") + more)
        lines = list(dict.fromkeys(tests))
        lines.append(f"kernel {label}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}) {{")
        if self.prefetch:
            lines.append(f"  prefetch {', '.join(self.prefetch)};")
        order = {"static": 0, "require": 1, "grid": 2, "block": 3, "scratch": 4}
        lines += ["  " + h for h in sorted(self.head, key=lambda h: order[h.split()[0]])]
        return "\n".join(lines + self.lines + ["}", ""])


def kernel_text(seed, number):
    return Attention(random.Random(f"attention/{seed}/{number}")).make(f"k{number}")
