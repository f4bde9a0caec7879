#!/usr/bin/env python3
"""Random pairs of expressions: those that `pkc prove` proves must be equal in floats.

Rewriting rules turn one expression into the other. Half of the rules hold for all inputs; the other half fail for negative inputs, at ties, or everywhere.
NumPy evaluates each pair that was proved, at random numbers, small integers and zeros.

usage: random_proofs.py [--seed S] [--count N] [--verbose]; prints "N passed, N failed".
"""
import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy

from sampling import most
from suite import PKC, check, finish

SHAPE = (2, 3)
NAMES = {"x": "f64", "y": "f64", "z": "f64", "m": "i8", "n": "i8"}
SAME, NEAR = 1e-13, 1e-9  # numbers count as equal if they are closer than this, relative to their terms
UNARY = ["exp", "log", "sqrt", "rsqrt", "abs", "sign", "tanh", "logistic", "neg", "square", "floor", "truncated", "reciprocal", "expm1", "log1p", "softplus"]
BINARY = ["add", "sub", "mul", "div", "max", "min"]
FOLDS = ["reduce_sum", "reduce_max", "reduce_min", "cumsum", "cummax", "sort"]
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
CONNECTED = {"and": "&&", "or": "||"}
TRUTHS = [*COMPARISONS, *CONNECTED, "not"]
CONSTANTS = [0, 1, 2, 3, -1, 0.5, 0.1, 0.25, -2]


# ---- trees: (operation, operand, ..), a name, or a number

def leaf(r):
    return r.choice(["x", "y", "z", "x", "y", "z", r.choice(CONSTANTS), "whole"])


def whole(r, depth):
    """An integer expression of i8."""
    return r.choice(["m", "n"]) if depth == 0 or r.random() < 0.3 else (r.choice(["iadd", "isub", "imul"]), whole(r, depth - 1), whole(r, depth - 1))


def tree(r, depth):
    if depth == 0 or r.random() < 0.15:
        at = leaf(r)
        return ("float", r.choice(["i8", "i16", "i32", "u8"]), whole(r, 2)) if at == "whole" else at
    kind = r.random()
    if kind < 0.3:
        return (r.choice(UNARY), tree(r, depth - 1))
    if kind < 0.75:
        return (r.choice(BINARY), tree(r, depth - 1), tree(r, depth - 1))
    if kind < 0.87:
        return ("where", truth(r, depth - 1), tree(r, depth - 1), tree(r, depth - 1))
    return (r.choice(FOLDS), tree(r, depth - 1))


def truth(r, depth):
    kind = r.random()
    if kind < 0.3 and depth > 0:
        return (r.choice(list(CONNECTED)), truth(r, depth - 1), truth(r, depth - 1)) if kind < 0.25 else ("not", truth(r, depth - 1))
    return (r.choice(list(COMPARISONS)), tree(r, depth), tree(r, depth))


# ---- rewritings of a node: the result, or None

def is_op(t, *names):
    return isinstance(t, tuple) and t[0] in names


def swap(t, r):
    return (t[0], t[2], t[1]) if is_op(t, "add", "mul", "max", "min", "sub", "div") else None


def regroup(t, r):
    if is_op(t, "add", "mul", "max", "min", "sub") and is_op(t[2], t[0]):
        return (t[0], (t[0], t[1], t[2][1]), t[2][2])
    return None


def distribute(t, r):
    if is_op(t, "mul", "div", "max") and is_op(t[1], "add", "sub", "max"):
        return (t[1][0], (t[0], t[1][1], t[2]), (t[0], t[1][2], t[2]))
    return None


def through(t, r):
    """f(a op b) as f(a) op' f(b)."""
    if is_op(t, "exp") and is_op(t[1], "add", "sub"):
        return ({"add": "mul", "sub": "div"}[t[1][0]], ("exp", t[1][1]), ("exp", t[1][2]))
    if is_op(t, "log") and is_op(t[1], "mul", "div"):
        return ({"mul": "add", "div": "sub"}[t[1][0]], ("log", t[1][1]), ("log", t[1][2]))
    if is_op(t, "sqrt", "rsqrt", "abs", "sign", "neg", "floor") and is_op(t[1], "mul", "div", "max", "add"):
        return (t[1][0], (t[0], t[1][1]), (t[0], t[1][2]))
    return None


def expand(t, r):
    return {"tanh": lambda a: ("sub", 1, ("div", 2, ("add", ("exp", ("mul", 2, a)), 1))), "logistic": lambda a: ("div", 1, ("add", 1, ("exp", ("neg", a)))),
            "square": lambda a: ("mul", a, a), "rsqrt": lambda a: ("div", 1, ("sqrt", a)), "neg": lambda a: ("sub", 0, a), "reciprocal": lambda a: ("div", 1, a),
            "expm1": lambda a: ("sub", ("exp", a), 1), "log1p": lambda a: ("log", ("add", a, 1)), "softplus": lambda a: ("log", ("add", 1, ("exp", a))),
            "abs": lambda a: ("max", a, ("neg", a)), "min": lambda a, b: ("neg", ("max", ("neg", a), ("neg", b))), "reduce_min": lambda a: ("neg", ("reduce_max", ("neg", a))),
            "sub": lambda a, b: ("add", a, ("neg", b)), "div": lambda a, b: ("mul", a, ("div", 1, b))}.get(t[0], lambda *_: None)(*t[1:]) if isinstance(t, tuple) else None


def wrap(t, r):
    """Indirect forms, right and wrong ones."""
    if isinstance(t, tuple) and (t[0] in TRUTHS or t[0] in ("iadd", "isub", "imul")) or t in ("m", "n"):
        return None
    other = r.choice(["x", "y", "z"])
    return r.choice([("log", ("exp", t)), ("exp", ("log", t)), ("sub", ("add", t, other), other), ("div", ("mul", t, other), other), ("max", t, t), ("sqrt", ("square", t)),
                     ("square", ("sqrt", t)), ("add", t, ("mul", 0, other)), ("abs", t), ("max", t, 0), ("max", t, -1e30), ("mul", ("sign", t), ("abs", t)), ("where", ("eq", t, other), other, t),
                     ("where", ("gt", t, t), other, t), ("where", ("ge", t, t), t, other), ("where", ("lt", t, other), t, t), ("mul", t, ("exp", ("sub", t, t))), ("truncated", t), ("floor", t)])


def compared(t, r):
    if not is_op(t, *COMPARISONS):
        return None
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
    return r.choice([(mirrored[t[0]], t[2], t[1]), (r.choice(list(COMPARISONS)), t[1], t[2]), (t[0], ("sub", t[1], t[2]), 0), (t[0], ("mul", 2, t[1]), ("mul", 2, t[2]))])


def chosen(t, r):
    if not is_op(t, "where"):
        return None
    opposite = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
    condition, a, b = t[1:]
    z = r.choice(["x", "y", "z"])
    other = (opposite[condition[0]], *condition[1:]) if condition[0] in COMPARISONS and r.random() < 0.7 else ("not", condition)
    some = r.choice([condition, other])
    return r.choice([("where", other, b, a), ("where", condition, b, a), a, b, ("max", a, b), ("where", condition, ("where", some, a, z), b), ("where", condition, a, ("where", some, z, b)),
                     ("where", condition, ("sub", ("add", ("where", some, z, 0), a), z), b), ("where", ("and", condition, some), a, b), ("where", ("or", condition, some), a, b)])


def connected(t, r):
    if not is_op(t, *CONNECTED):
        return None
    dual = {"and": "or", "or": "and"}[t[0]]
    return r.choice([(t[0], t[2], t[1]), ("not", (dual, ("not", t[1]), ("not", t[2]))), ("not", (t[0], ("not", t[1]), ("not", t[2]))), (t[0], t, t[1]), (dual, t, t[1]), (t[0], ("not", t[1]), t[2]),
                     (dual, t[1], t[2]), (t[0], t[1], t[1])])


def cast_later(t, r):
    if is_op(t, "float") and is_op(t[2], "iadd", "isub", "imul"):
        return (t[2][0][1:], ("float", t[1], t[2][1]), ("float", t[1], t[2][2]))
    return None


def changed(t, r):
    if isinstance(t, (int, float)):
        return r.choice(CONSTANTS)
    if is_op(t, *BINARY):
        return (r.choice(BINARY), *t[1:])
    if is_op(t, *FOLDS):
        return (r.choice(FOLDS), *t[1:])
    return r.choice(["x", "y", "z"]) if t in ("x", "y", "z") else None


REWRITINGS = [swap, swap, regroup, distribute, through, through, expand, expand, wrap, compared, chosen, chosen, connected, cast_later, changed]


def places(t, at=()):
    yield at
    if isinstance(t, tuple):
        for k, part in enumerate(t[1:], 1):
            if not (t[0] == "float" and k == 1):
                yield from places(part, at + (k,))


def rewritten(t, r):
    for _ in range(40):
        at = r.choice(list(places(t)))
        node = t
        for k in at:
            node = node[k]
        new = r.choice(REWRITINGS)(node, r)
        if new is not None:
            return put(t, at, new)
    return t


def put(t, at, new):
    return new if not at else t[:at[0]] + (put(t[at[0]], at[1:], new),) + t[at[0] + 1:]


# ---- chains: exp(a - b) * exp(b - c) is exp(a - c) for whatever a, b and c are

def term(r):
    """A factor of the product: quotients of exponentials, exponentials, maxima, roots, or a sum with one of them."""
    x, y, z = (r.choice(["x", "y", "z"]) for _ in range(3))
    inner = r.choice([x, ("add", x, y), ("mul", x, y), ("sub", x, ("max", y, z))])
    made = r.choice([("tanh", inner), ("logistic", inner), ("div", x, ("add", 1, ("exp", inner))), ("exp", ("neg", ("square", inner))), ("max", inner, z), ("tanh", ("tanh", inner)),
                     ("mul", ("tanh", inner), ("logistic", z)), ("sqrt", ("add", 1, ("square", inner)))])
    return r.choice([made, made, ("mul", r.choice([2, 0.5, 3, -1]), made), ("add", made, r.choice(["x", ("logistic", "y")])), ("mul", z, made)])


def chain(r):
    """The product and its result, every second one with a mistake: another term, factor or sign."""
    terms = [term(r) for _ in range(r.choice([2, 3, 3, 4]))]
    factors = [("exp", ("sub", a, b)) for a, b in zip(terms, terms[1:])]
    r.shuffle(factors)
    product = factors[0]
    for factor in factors[1:]:
        product = r.choice([("mul", product, factor), ("mul", factor, product), ("div", product, ("div", 1, factor))])
    whole = ("exp", ("sub", terms[0], terms[-1]))
    if r.random() < 0.3:
        product, whole = (("mul", "y", side) for side in (product, whole))
    if r.random() < 0.5:
        return product, whole
    at = r.choice([at for at in places(product) if at])
    node = product
    for k in at:
        node = node[k]
    return put(product, at, r.choice([r.choice(terms), ("neg", node), ("mul", node, node), r.choice(["x", "y", "z"]), term(r)])), whole


# ---- roots of squares and products, and another result, which is defined where its own roots exist

def root_rule(r, t, u):
    """Two expressions with roots that are equal wherever both are defined, or only for some signs of t and u."""
    root = lambda *factors: ("sqrt", factors[0] if len(factors) == 1 else ("mul", factors[0], factors[1]))
    return r.choice([(root(("square", t)), t), (root(("square", t)), t), (("square", root(t)), t), (("mul", root(t), root(u)), root(t, u)), (root(t, u), ("mul", root(t), root(u))),
                     (("mul", t, ("rsqrt", t)), root(t)), (root(("square", t), ("square", u)), ("mul", t, u)), (root(("square", t), u), ("mul", t, root(u))), (("div", root(t, u), root(u)), root(t)),
                     (("reciprocal", ("rsqrt", t)), root(t)), (root(root(("square", t), ("square", t))), t), (("square", ("square", root(t))), ("square", t)), (root(("square", t)), ("abs", t)),
                     (root(("square", ("mul", k := r.choice([3, 31, 43]), t))), ("mul", r.choice([k, -k]), root(("square", t)))), (("mul", ("abs", t), ("abs", u)), ("abs", ("mul", t, u)))])


def around(r, other, root):
    """Combines the one and the `other` in the same way on both sides: selections, of which one arm is read, and comparisons."""
    condition, arm, low = truth(r, 0), r.choice([root, root, "x", "y", "z", 0, ("sqrt", ("square", "y"))]), r.choice(["x", "y", "z", 0, other])
    return r.choice([lambda t: t, lambda t: t, lambda t: t, lambda t: ("where", condition, t, arm), lambda t: ("where", condition, arm, t), lambda t: ("where", ("lt", t, low), "y", "z"),
                     lambda t: ("where", ("le", t, low), "y", "z"), lambda t: ("max", t, arm), lambda t: ("max", ("sub", t, ("max", other, arm)), 0), lambda t: ("floor", t), lambda t: ("mul", t, arm),
                     lambda t: ("sub", t, arm), lambda t: ("exp", t)])


def with_roots(r):
    """The expressions, and another result of both sides. With many roots, inputs are drawn again until all roots exist."""
    t, u = (r.choice(["x", "y", "z", ("sub", "x", "y"), ("mul", "y", "z"), ("neg", "z"), ("exp", "x"), ("add", 1, ("square", "y"))]) for _ in range(2))
    root = r.choice([("sqrt", t), ("rsqrt", t), ("mul", ("sqrt", t), ("sqrt", "z"))])
    one, other = root_rule(r, t, u)
    both = around(r, other, root)
    first, second = both(one), both(other)
    for k in range(r.choice([0, 0, 3, 12])):
        factor = ("sqrt", ("add", k + 1, ("square", "xyz"[k % 3])))
        first, second = ("mul", first, factor), ("mul", second, factor)
    return first, second, r.choice([root, root, "x", ("sqrt", ("mul", "x", "y")), ("where", ("lt", "y", 0), ("sqrt", "x"), "z")])


# ---- text

def text(t):
    if isinstance(t, str):
        return t
    if isinstance(t, (int, float)):
        return f"({float(t)!r})"
    op, *parts = t
    if op == "float":
        return f"cast(cast({text(parts[1])}, {parts[0]}), f64)"
    said = [text(p) for p in parts]
    signs = {"add": "+", "sub": "-", "mul": "*", "div": "/", "iadd": "+", "isub": "-", "imul": "*", **COMPARISONS, **CONNECTED}
    if op in signs:
        return f"({said[0]} {signs[op]} {said[1]})"
    if op in ("cumsum", "cummax", "sort"):
        return f"{op}({said[0]} + 0.0 * x, axis = 1)"
    if op.startswith("reduce"):
        return f"({op}({said[0]} + 0.0 * x, axis = 1) + 0.0 * x)"
    return {"neg": "(-{})", "not": "(!{})", "square": "({0} * {0})", "truncated": "cast(cast({}, i32), f64)", "reciprocal": "(1.0 / {})"}.get(op, op + "({})").format(", ".join(said)) if op != "where" else \
        f"where({', '.join(said)})"


# ---- values

class Values:
    """The value of an expression at inputs; `usable` is False if a result is not a number, or depends on rounding."""

    def __init__(self, inputs, assumes_unequal, wide=float):
        self.inputs = {name: v if v.dtype == "int8" else v.astype(wide) for name, v in inputs.items()}
        self.assumes_unequal, self.wide = assumes_unequal, wide
        self.usable, self.greatest = numpy.ones(SHAPE, bool), numpy.ones(SHAPE)

    def keep(self, v, fold=False):
        v = numpy.broadcast_to(v, SHAPE).astype(self.wide)
        good = numpy.isfinite(v)
        self.usable &= good
        self.greatest = numpy.maximum(self.greatest, numpy.abs(numpy.where(good, v, 1)))
        if fold:
            self.usable = numpy.broadcast_to(self.usable.all(1, keepdims=True), SHAPE).copy()
            self.greatest = numpy.broadcast_to(self.greatest.max(1, keepdims=True), SHAPE).copy()
        return v

    def whole(self, t):
        if isinstance(t, str):
            return self.inputs[t]
        return {"iadd": numpy.add, "isub": numpy.subtract, "imul": numpy.multiply}[t[0]](self.whole(t[1]), self.whole(t[2]))

    def truth(self, t):
        if t[0] in CONNECTED or t[0] == "not":
            sides = [self.truth(part) for part in t[1:]]
            return ~sides[0] if t[0] == "not" else sides[0] & sides[1] if t[0] == "and" else sides[0] | sides[1]
        a, b = self.of(t[1]), self.of(t[2])
        apart = numpy.abs(a - b)
        close = apart <= NEAR * self.greatest
        if t[0] in ("eq", "ne"):  # equal up to rounding
            equal = apart <= SAME * self.greatest
            self.usable &= ~(close & (self.assumes_unequal | ~equal))
            return equal if t[0] == "eq" else ~equal
        self.usable &= ~close | (a == b)
        return {"lt": numpy.less, "le": numpy.less_equal, "gt": numpy.greater, "ge": numpy.greater_equal}[t[0]](a, b)

    def apart(self, t):
        """An arm of a selection, and where it is usable, because the other arm is not read there."""
        before = self.usable.copy()
        value, usable = self.of(t), self.usable
        self.usable = before
        return value, usable

    def of(self, t):
        if isinstance(t, str):
            return self.inputs[t]
        if isinstance(t, (int, float)):
            return numpy.full(SHAPE, t, self.wide)
        if t[0] == "float":
            return self.keep(self.whole(t[2]).astype({"i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32"}[t[1]]))
        if t[0] == "where":
            condition = self.truth(t[1])
            (a, usable), (b, usable_other) = self.apart(t[2]), self.apart(t[3])
            self.usable = numpy.where(condition, usable, usable_other)
            return self.keep(numpy.where(condition, a, b))
        a = self.of(t[1])
        if t[0] in ("floor", "truncated", "sign"):
            self.usable &= (numpy.abs(a - numpy.round(a)) > NEAR * self.greatest) | (a == numpy.round(a))
            self.usable &= (numpy.abs(a) < 2**31) | (t[0] != "truncated")
        if t[0] in ("exp", "logistic", "softplus"):
            self.usable &= numpy.abs(a) < 300
        return self.keep(OF[t[0]](a, *(self.of(b) for b in t[2:])), fold=t[0] in FOLDS)


ROW = {"axis": 1, "keepdims": True}
OF = {"exp": numpy.exp, "log": numpy.log, "sqrt": numpy.sqrt, "rsqrt": lambda a: 1 / numpy.sqrt(a), "abs": numpy.abs, "sign": numpy.sign, "tanh": numpy.tanh, "neg": numpy.negative,
      "logistic": lambda a: 1 / (1 + numpy.exp(-a)), "square": lambda a: a * a, "floor": numpy.floor, "truncated": numpy.trunc, "reciprocal": lambda a: 1 / a, "expm1": numpy.expm1,
      "log1p": numpy.log1p, "softplus": lambda a: numpy.log1p(numpy.exp(a)), "add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "div": numpy.divide,
      "max": numpy.maximum, "min": numpy.minimum, "reduce_sum": lambda a: a.sum(**ROW), "reduce_max": lambda a: a.max(**ROW), "reduce_min": lambda a: a.min(**ROW),
      "cumsum": lambda a: a.cumsum(1), "cummax": lambda a: numpy.maximum.accumulate(a, 1), "sort": lambda a: numpy.sort(a, 1)}


def drawn(r, generic):
    inputs = {}
    for name, dtype in NAMES.items():
        ways = [lambda: r.normal(0, 1, SHAPE), lambda: numpy.abs(r.normal(0, 2, SHAPE))] + ([] if generic else [lambda: r.integers(-3, 4, SHAPE).astype(float), lambda: numpy.zeros(SHAPE)])
        inputs[name] = r.integers(-128, 128, SHAPE).astype("int8") if dtype == "i8" else ways[r.integers(len(ways))]()
    return inputs


def difference(first, second, seed, assumes_unequal):
    """The inputs at which they differ, or None."""
    r = numpy.random.default_rng(seed)
    integers = "'float'" in repr((first, second))  # so that operands are often equal
    for k in range(120):
        inputs = drawn(r, k % 3 == 0)
        sides = [Values(inputs, assumes_unequal and (k % 3 != 0 or integers), wide) for wide in (float, float, numpy.longdouble, numpy.longdouble)]
        with numpy.errstate(all="ignore"):
            a, b, c, d = (side.of(tree) for side, tree in zip(sides, (first, second) * 2))
            rounding = 1000 * (numpy.abs(a - c) + numpy.abs(b - d))  # so that much cancels
            apart = numpy.abs(a - b) > 1e-6 * numpy.maximum(sides[0].greatest, sides[1].greatest) + rounding
        wrong = apart & numpy.all([side.usable for side in sides], 0)
        if wrong.any():
            at = tuple(numpy.argwhere(wrong)[0])
            return f"at {list(map(int, at))} {a[at]:g} and {b[at]:g} for " + ", ".join(f"{name} = {v.tolist()}" for name, v in inputs.items())
    return None


# ---- pairs

def loaded(t):
    return re.sub(r"\b([xyzmn])\b", r"\1[...]", text(t))


def prove(folder, number, first, second, beside):
    path = Path(folder) / f"pair{number}.pk"
    head = ", ".join(f"{name}: {dtype}{list(SHAPE)}" for name, dtype in NAMES.items())
    path.write_text(f"kernel t({head}) -> (a: f64{list(SHAPE)}, o: f64{list(SHAPE)}) {{ a[...] = {loaded(beside)}; o[...] = {loaded(first)} + 0.0 * x[...]; }}\n"
                    f"reference t {{ a = {text(beside)}; o = {text(second)} + 0.0 * x; }}\n")
    run = subprocess.run([PKC, "prove", str(path), "--json", "--max-time", "5", "m=randint:-128:128:1", "n=randint:-128:128:2"], capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


def pair(seed):
    """Two expressions, and another result of both sides."""
    r = random.Random(seed)
    kind = r.random()
    if kind < 0.2:
        return *chain(r), "x"
    if kind < 0.4:
        return with_roots(r)
    first = tree(r, r.choice([1, 2, 3]))
    second = first
    for _ in range(r.choice([1, 1, 2, 3])):
        second = rewritten(second, r)
    return first, second, "x"


def judge(folder, number, seed):
    first, second, beside = pair(seed)
    status, out, err = prove(folder, number, first, second, beside)
    what = f"seed {seed}: `{text(first)}` for `{text(second)}` beside `{text(beside)}`"
    if status not in (0, 3, 4, 5):
        return "refused" if status == 1 else "ended", status == 1, f"{what}: exit {status}: {err}"
    said = json.loads(out)
    if said["verdict"] != "proved":
        return said["verdict"], True, what
    assumed = " ".join(said["assumptions"])
    differs = None if re.search("integers.* [mn]", assumed) else difference(first, second, seed, "equality" in assumed)
    return "proved", differs is None, f"{what} is proved ({assumed}), but {differs}"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=None)
    options.add_argument("--verbose", action="store_true")
    options = options.parse_args()
    count = options.count or most(600, 300, 60, "pairs")
    counts = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        for verdict, good, said in pool.map(lambda k: judge(folder, k, options.seed * 1000003 + k), range(count)):
            counts[verdict] = counts.get(verdict, 0) + 1
            check(said, good)
            if options.verbose:
                print(verdict, said)
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())))
    check("a third of the pairs is proved or refuted", 3 * (counts.get("proved", 0) + counts.get("refuted", 0)) >= count, counts)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
