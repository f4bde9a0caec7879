#!/usr/bin/env python3
"""Gradients of random kernels without references.

Each kernel is written together with a function of NumPy that runs its cells in order; the kernel must have that meaning. Its derivatives by
`pkc grad --kernel` and by `pkc grad` are compared with central differences of the function in binary64. --kernel may refuse a body only where
it contains what --kernel does not derive; `pkc grad` derives them all.

    tests/random_gradients.py [N] [SEED] [FIRST]    N random kernels (default 40), from number FIRST on
"""
import collections
import random
import re
import sys

import numpy as np

from gradients import ALONG, BINARY, UNARY, WORK, close, derived, evaluate, numeric_gradient
from suite import check, finish

# Operations on blocks. The others of these tables have kinks that differences find nearly everywhere, or cost too much to write again.
UNARY_NAMES = [name for name in UNARY if name not in ("CAST", "FLOOR", "ERF_INV")]
BINARY_NAMES = [name for name in BINARY if name not in ("REM", "MOD")]


class Kernel:
    """A random kernel over blocks of B rows and C columns: its text, and the function of its inputs that computes its outputs."""

    def __init__(self, rng):
        self.rng = rng
        self.rows, self.columns = rng.choice([1, 2, 3, 4]), rng.choice([1, 2, 3])
        self.sizes = {"M": rng.choice([1, 2, 3, 5, 7]), "N": rng.choice([1, 2, 3])}
        self.batch = rng.random() < 0.3
        self.inputs = {"x": ["M", self.columns], "w": [self.columns, self.columns], "v": [1, self.columns]}
        if self.batch:
            self.inputs["x"] = ["N", *self.inputs["x"]]
        self.fresh, self.refused = 0, set()
        self.names = {"x[...]": self.tile, "v[...]": (1, self.columns)}  # what expressions may read: a text, and its shape
        self.scratch, self.lines, self.steps = [], [], []
        self.write()

    @property
    def tile(self):
        return self.rows, self.columns

    def extent(self, dim):
        return self.sizes.get(dim, dim)

    def name(self, base):
        self.fresh += 1
        return f"{base}{self.fresh}"

    # Expressions: (text, a function of the cell's values, shape)

    def leaf(self, shape):
        fits = [n for n, s in self.names.items() if all(a in (1, b) for a, b in zip(s, shape))]
        exact = [n for n in fits if self.names[n] == shape]
        if exact and (self.rng.random() < 0.85 or len(exact) == len(fits)):
            name = self.rng.choice(exact)
            return name, lambda e: e[name]
        if fits:
            name = self.rng.choice(fits)
            return f"broadcast({name}, [{shape[0]}, {shape[1]}])", lambda e: np.broadcast_to(e[name], shape)
        value = self.rng.choice([0.25, -0.5, 1.5])
        return f"broadcast(cast({value}, f64), [{shape[0]}, {shape[1]}])", lambda e: np.full(shape, value)

    def expression(self, shape, depth):
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf(shape)
        kinds = ["unary", "binary", "binary", "select", "fold"]
        if shape == self.tile:
            kinds += ["dot", "mask", "along", "along"]
        return getattr(self, self.rng.choice(kinds))(shape, depth - 1)

    def apply(self, form, f, *operands):
        text = re.sub(r"\b[AB]\b", lambda m: f"({operands['AB'.index(m[0])][0]})", form)
        return f"({text})", lambda e: f(*(g(e) for _, g in operands))

    def unary(self, shape, depth):
        return self.apply(*UNARY[self.rng.choice(UNARY_NAMES)], self.expression(shape, depth))

    def binary(self, shape, depth):
        return self.apply(*BINARY[self.rng.choice(BINARY_NAMES)], self.expression(shape, depth), self.expression(shape, depth))

    def select(self, shape, depth):
        (c, fc), (a, fa), (b, fb) = (self.expression(shape, depth if k else 0) for k in range(3))
        return f"where(({c}) > 0.1, {a}, {b})", lambda e: np.where(fc(e) > 0.1, fa(e), fb(e))

    def fold(self, shape, depth):
        """A reduction along an axis of extent 1 of the shape, or a sum that is broadcast."""
        axis = self.rng.randrange(2)
        whole = tuple(self.tile[k] if k == axis else n for k, n in enumerate(shape))
        a, fa = self.expression(whole, depth)
        what, f = self.rng.choice([("sum", np.sum), ("max", np.max), ("min", np.min)])
        text = f"reduce_{what}({a}, axis = {axis})"
        if shape[axis] == 1:
            return text, lambda e: f(fa(e), axis=axis, keepdims=True)
        return f"broadcast({text}, [{shape[0]}, {shape[1]}])", lambda e: np.broadcast_to(f(fa(e), axis=axis, keepdims=True), shape)

    def along(self, shape, depth):
        a = self.expression(shape, depth)
        axis = self.rng.randrange(2)
        form, f, _ = ALONG[self.rng.choice(["CUMSUM", "REV", "ROLL", "SOFTMAX"])]
        return self.apply(form.replace("K", str(axis)), lambda v: f(v, axis=axis), a)

    def dot(self, shape, depth):
        a, fa = self.expression(shape, depth)
        kind = self.rng.randrange(3)
        if kind == 0:
            return f"dot({a}, w[...])", lambda e: fa(e) @ e["w[...]"]
        if kind == 1:
            return f"dot({a}, transpose(w[...]))", lambda e: fa(e) @ e["w[...]"].T
        b, fb = self.expression(shape, 0)
        return f"dot(dot({a}, transpose({b})), {b})", lambda e: fa(e) @ fb(e).T @ fb(e)

    def mask(self, shape, depth):
        """Lanes inside of the array, or columns."""
        a, fa = self.expression(shape, depth)
        rows = self.rows
        if self.rng.random() < 0.5:
            return (f"where(i * {rows} + iota([{shape[0]}, {shape[1]}], axis = 0) < M, {a}, 0.0)",
                    lambda e: np.where(e["i"] * rows + np.arange(rows)[:, None] < self.sizes["M"], fa(e), 0))
        return (f"where(iota([{shape[0]}, {shape[1]}], axis = 1) <= iota([{shape[0]}, {shape[1]}], axis = 0), {a}, 0.5)",
                lambda e: np.where(np.arange(shape[1])[None, :] <= np.arange(shape[0])[:, None], fa(e), 0.5))

    # Statements: a text, and a function that changes the cell's values

    def add(self, text, step):
        self.lines.append(text)
        self.steps.append(step)

    def any_shape(self):
        return self.rng.choice([self.tile, self.tile, (1, self.columns), (self.rows, 1)])

    def tame(self, value):
        """Values of state and of loops stay small."""
        text, f = value
        return f"tanh({text})", lambda e: np.tanh(f(e))

    def let(self):
        shape, name = self.any_shape(), self.name("t")
        text, f = self.expression(shape, 2)
        self.add(f"let {name} = {text};", lambda e: e.__setitem__(name, f(e)))
        self.names[name] = shape

    def declare(self, base, shape):
        name = self.name(base)
        self.scratch.append(f"scratch {name}: vmem f64[{shape[0]}, {shape[1]}];")
        return name, f"{name}[...]"

    def keep(self):
        """Scratch that a step stores, changes, and reads."""
        shape = self.any_shape()
        name, at = self.declare("s", shape)
        text, f = self.expression(shape, 2)
        self.add(f"{at} = {text};", lambda e: e.__setitem__(at, f(e)))
        self.names[at] = shape
        self.change(name, at, shape)

    def change(self, name, at, shape):
        kind = self.rng.randrange(4)
        if kind == 0:
            text, f = self.tame(self.expression(shape, 1))
            self.add(f"{at} += {text};", lambda e: e.__setitem__(at, e[at] + f(e)))
        elif kind < 3:
            self.store_part(name, at, shape)

    def store_part(self, name, at, shape):
        """The lanes of a mask, or a column."""
        text, f = self.tame(self.expression(shape, 1))
        if shape[1] > 1 and self.rng.random() < 0.5:
            self.add(f"{name}[:, 0:1] = ({text})[:, 1:2];", lambda e: e.__setitem__(at, np.concatenate([f(e)[:, 1:2], e[at][:, 1:]], 1)))
        else:
            c, fc = self.expression(shape, 0)
            self.add(f"store({at}, {text}, mask = ({c}) > 0.2);", lambda e: e.__setitem__(at, np.where(fc(e) > 0.2, f(e), e[at])))

    def carry(self):
        """State from step to step."""
        shape = self.any_shape()
        name, at = self.declare("h", shape)
        first = self.rng.choice(["0.5", "-1.0"])
        self.add(f"when i == 0 {{ {at} = {first}; }}", lambda e: e.__setitem__(at, np.full(shape, float(first)) if e["i"] == 0 else e[at]))
        if self.rng.random() < 0.4:  # the state is first read after a store of a part of it
            self.store_part(name, at, shape)
        self.names[at] = shape
        text, f = self.apply(*BINARY[self.rng.choice(["ADD", "MUL", "MAX", "ATAN2"])], (at, lambda e: e[at]), self.tame(self.expression(shape, 2)))
        if self.rng.random() < 0.3:
            self.add(f"when i % 2 == 0 {{ {at} = {text}; }}", lambda e: e.__setitem__(at, f(e) if e["i"] % 2 == 0 else e[at]))
        else:
            self.add(f"{at} = {text};", lambda e: e.__setitem__(at, f(e)))
        if self.rng.random() < 0.4:
            self.change(name, at, shape)

    def loop(self):
        """Turns that change scratch."""
        shape = self.any_shape()
        _, at = self.declare("r", shape)
        start, fs = self.expression(shape, 1)
        self.names[at] = shape
        text, f = self.tame(self.expression(shape, 1))
        turns, bound = self.rng.randrange(4), None
        if self.rng.random() < 0.25:
            self.refused.add("for")
            turns, bound = self.sizes["M"] % 3, "M % 3"

        def run(e):
            e[at] = fs(e)
            for _ in range(turns):
                e[at] = f(e)
        self.add(f"{at} = {start};\nfor t in 0..{bound or turns} {{ {at} = {text}; }}", run)

    def branch(self):
        """Scratch that branches store."""
        shape = self.any_shape()
        _, at = self.declare("c", shape)
        start, fs = self.expression(shape, 1)
        self.names[at] = shape
        (a, fa), (b, fb), (c, fc) = (self.tame(self.expression(shape, 1)) for _ in range(3))
        kind, by = self.rng.randrange(3), self.rng.choice([2, 3])
        text = [f"if i % {by} == 0 {{ {at} = {a}; }} else {{ {at} = {b}; }}",
                f"if i % {by} == 0 {{ {at} = {a}; }} else {{ when i > 1 {{ {at} += {b}; {at} = {c}; }} }}",
                f"when i % {by} != 0 {{ if i < 2 {{ {at} = {a}; }} else {{ {at} = {b}; }} }}"][kind]
        if kind or self.rng.random() < 0.5:
            text = f"{at} = {start};\n{text}"
            first = fs
        else:
            del self.names[at]  # the branches do not read what nothing has stored
            (a, fa), (b, fb) = (self.tame(self.expression(shape, 1)) for _ in range(2))
            text = f"if i % {by} == 0 {{ {at} = {a}; }} else {{ {at} = {b}; }}"
            first = fa
            self.names[at] = shape

        def run(e):
            even = e["i"] % by == 0
            e[at] = first(e)
            if kind == 0:
                e[at] = (fa if even else fb)(e)
            elif kind == 1 and even:
                e[at] = fa(e)
            elif kind == 1 and e["i"] > 1:
                e[at] = e[at] + fb(e)
                e[at] = fc(e)
            elif kind == 2 and not even:
                e[at] = (fa if e["i"] < 2 else fb)(e)
        self.add(text, run)

    def inner(self):
        """Scratch of a part of the body."""
        shape = self.any_shape()
        _, to = self.declare("u", shape)
        name = self.name("q")
        at = f"{name}[...]"
        start, fs = self.expression(shape, 1)
        self.names[at] = shape
        text, f = self.expression(shape, 1)
        del self.names[at]

        def run(e):
            e[at] = fs(e)
            e[to] = f(e)
        self.add(f"scoped {name}: vmem f64[{shape[0]}, {shape[1]}] {{ {at} = {start}; {to} = {text}; }}", run)
        self.names[to] = shape

    def write(self):
        kinds = ["let", "let", "keep", "keep"]
        self.carries = self.rng.random() < 0.5
        if self.carries:
            kinds += ["carry", "carry"]
        if self.rng.random() < 0.4:
            kinds += ["loop", "inner", "branch"]
        for _ in range(self.rng.randrange(1, 4)):
            getattr(self, self.rng.choice(kinds))()
        text, f = self.expression(self.tile, 3)
        self.add(f"o[...] = {text};", lambda e: e.__setitem__("o", f(e)))

    def text(self):
        at = "b, i, 0" if self.batch else "i, 0"
        first = "_, " if self.batch else ""
        shapes = {n: ", ".join(map(str, s)) for n, s in self.inputs.items()}
        axis = f"i in cdiv(M, {self.rows}) {'arbitrary' if self.carries else 'parallel'}"
        lines = [f"grid ({'b in N parallel, ' if self.batch else ''}{axis});",
                 f"block x: [{first}{self.rows}, {self.columns}] at ({at}) pad 0;", f"block o: [{first}{self.rows}, {self.columns}] at ({at});",
                 f"block w: [{self.columns}, {self.columns}] at (0, 0);", f"block v: [1, {self.columns}] at (0, 0);", *self.scratch, *self.lines]
        arguments = ", ".join(f"{n}: f64[{s}]" for n, s in shapes.items())
        return f"kernel k({arguments}) -> (o: f64[{shapes['x']}]) {{\n" + "\n".join(lines) + "\n}\n"

    def __call__(self, arrays):
        x = arrays["x"] if self.batch else arrays["x"][None]
        rows, out = x.shape[1], np.zeros_like(x)
        for b in range(x.shape[0]):
            e = {"w[...]": arrays["w"], "v[...]": arrays["v"]}
            for i in range(-(-rows // self.rows)):
                part = x[b, i * self.rows:(i + 1) * self.rows]
                e["x[...]"] = np.concatenate([part, np.zeros([self.rows - len(part), self.columns])])
                e["i"] = i
                for step in self.steps:
                    step(e)
                out[b, i * self.rows:(i + 1) * self.rows] = e["o"][:len(part)]
        return out if self.batch else out[0]


def limited(name, path, to, arrays, want, folder, part):
    """With a part of the memory that its values take, the gradient computes some of them again, and has the same bits; or it is refused."""
    kept = sum(int(n) for n in re.findall(r"// keeps (\d+) bytes", to.read_text()))
    if not kept:
        return
    memory = max(1, int(part * kept))
    done = derived(path, to, "--memory", memory)
    if check(f"{name}: --memory {memory}", done.returncode == 0, done.stderr):
        found, said = evaluate(to, arrays, list(want), {}, folder)
        SEGMENTS["refused" if found is None else "cut" if "segment ==" in to.read_text() else "one"] += 1
        check(f"{name}: --memory {memory}, the same bits", "the gradient keeps" in said if found is None else
              all(found[n].tobytes() == want[n].tobytes() for n in want), said)


SEGMENTS = collections.Counter()


def case(number, seed):
    rng = random.Random(f"kernel {seed} {number}")
    k = Kernel(rng)
    folder = WORK / f"kernel{number}"
    folder.mkdir(parents=True, exist_ok=True)
    path, to = folder / "k.pk", folder / "b.pk"
    path.write_text(k.text())
    data = np.random.default_rng(rng.randrange(1 << 30))
    arrays = {n: data.standard_normal([k.extent(d) for d in s]) for n, s in k.inputs.items()}
    what = f"kernel {number} of seed {seed} ({path}: {k.sizes})"
    want = k(arrays)
    got, said = evaluate(path, arrays, ["o"], k.sizes, folder)
    if not check(f"{what}: it is what it means", got and np.allclose(got["o"], want, 1e-9, 1e-9, equal_nan=True), said or "another value"):
        return None
    if not np.isfinite(want).all() or np.abs(want).max(initial=0) > 1e3:
        return None
    do = data.standard_normal(want.shape)
    numeric = numeric_gradient(k, arrays, do)
    refusal = None
    for options in (["--kernel"], []):
        if not options:  # which needs to know how far the last blocks overhang
            path.write_text(re.sub(r"\b[MN]\b", lambda m: str(k.sizes[m[0]]), k.text()))
        name = f"{what}: pkc grad {' '.join(options)}"
        done = derived(path, to, *options)
        if options and done.returncode and "[E0607]" in done.stderr:
            refusal = re.search(r"error: (.*?)(?:\[E|$)", done.stderr)[1]
            check(f"{name}: not refused without need", k.refused, done.stderr)
            continue
        if not check(f"{name}: a gradient", done.returncode == 0, done.stderr):
            continue
        text = to.read_text()
        outputs = [n for n in (f"d{n}" for n in arrays) if re.search(rf"\b{n}: f64", text)]
        found, said = evaluate(to, {**arrays, "do": do}, outputs, k.sizes if options else {}, folder)
        if check(f"{name}: it runs", found is not None, said):
            wrong = [n for n in arrays if f"d{n}" in found and not close(found[f"d{n}"], numeric[n])]
            check(f"{name}: the gradient by differences", not wrong, wrong)
            if not options:
                limited(name, path, to, {**arrays, "do": do}, found, folder, rng.choice([0.5, 0.7, 0.8, 0.9]))
    return refusal


def main():
    numbers = [int(word) for word in sys.argv[1:]]
    count, seed, first = numbers + [40, 1, 0][len(numbers):]
    refusals = collections.Counter(case(number, seed) for number in range(first, first + count))
    del refusals[None]
    for message, times in refusals.most_common():
        print(f"{times} refused by --kernel: {message}")
    print(f"with limited memory: {dict(SEGMENTS)}")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
