"""Random programs: calls of random kernels, whose results are operands of later calls."""
import random

import numpy as np

from . import tree
from .evaluator import Evaluator, Memory
from .generator import MOST_GRID_STEPS, Case, Generator, steps_of
from .inputs import make
from .operations import Reject
from .tree import Operand


class Call:
    """A call of a kernel: its operands in the program, and whether a loop repeats it for each part of some of them."""

    def __init__(self, kernel, generator):
        self.kernel, self.generator = kernel, generator
        self.sizes = {}      # by size of the kernel: a size of the program, or a number
        self.arguments = []  # by input: the name of the array
        self.results = []    # by output: the name of the array
        self.turns = None    # of the loop
        self.parts, self.whole = set(), set()  # arrays of which a call takes a part in each iteration


class Program:
    """A program for the runner."""

    def __init__(self, name):
        self.name, self.calls, self.arrays = name, [], {}
        self.inputs, self.outputs, self.prefetch, self.tests = [], [], [], []
        self.temporaries, self.threads = [], 1

    def text(self):
        lines = []
        for c in self.calls:
            lines += tree.kernel_text(c.kernel, False).split("\n")
        lines.append(f"program {self.name}({', '.join(map(tree.param_text, self.inputs))}) -> ({', '.join(map(tree.param_text, self.outputs))}) {{")
        stored = {o.name for o in self.outputs}
        for call in self.calls:
            new = not call.turns and not any(r in stored for r in call.results)
            if not new:
                lines += [f"  var {tree.param_text(self.arrays[r])};" for r in call.results if r not in stored]
            lines += ["  " + line for line in self.call_lines(call, new)]
        return "\n".join(lines + ["}"]) + "\n"

    @staticmethod
    def call_lines(call, new):
        def operand(name):
            return name + "[l]" if name in call.parts else name
        known = {n for o in call.kernel.inputs for n in o.shape} | (set() if new else {n for o in call.kernel.outputs for n in o.shape})
        words = [operand(a) for a in call.arguments] + [f"{n} = {v}" for n, v in call.sizes.items() if n not in known]
        line = f"{'let ' if new else ''}{', '.join(map(operand, call.results))} = {call.kernel.name}({', '.join(words)});"
        return [f"for l in 0..{call.turns} {{ {line} }}"] if call.turns else [line]


class Alike(Generator):
    """Draws kernels of few dtypes, so that results of one can be operands of another."""

    def dtype(self):
        return self.r.choice(["f32", "f32", "i32"]) if self.chance(0.85) else super().dtype()


class Maker:
    def __init__(self, seed, number, attempt, avoid):
        self.r = random.Random(f"program:{seed}:{number}:{attempt}")
        self.p, self.values, self.count = Program(f"k{number}"), {}, 0
        for n in range(self.r.choice([2, 2, 3])):
            g = Alike(seed, f"{number}.{n}", attempt, avoid)
            g.make()
            k = g.k
            if k.prefetch or any(o.alias or o.ignores for o in k.outputs) or any(o.stored for o in k.inputs):
                raise Reject("an operand that programs here do not have")
            k.name = f"{self.p.name}_{'abc'[n]}"
            k.fns[:] = [f[:3] + (True,) + f[4:] for f in k.fns]
            self.p.calls.append(Call(k, g))

    def chance(self, p):
        return self.r.random() < p

    # ---- sizes that are unified

    def found(self, n):
        """The name or number with which a size of the program is unified."""
        while n in self.values:
            n = self.values[n]
        return n

    def shape(self, call, o):
        return [self.found(call.sizes[n]) if isinstance(n, str) else n for n in o.shape]

    def unify(self, shape, other):
        """Unifies the new sizes in `shape` with those of `other`; returns False, without a change, if that is not possible."""
        kept = dict(self.values)
        for a, b in zip(shape, other):
            a, b = self.found(a), self.found(b)
            if a == b:
                continue
            if not isinstance(a, str):
                self.values = kept
                return False
            self.values[a] = b
        return len(shape) == len(other)

    # ---- calls

    def add(self, operands, o, call, stacked=False):
        self.count += 1
        shape = ([call.turns] if stacked else []) + self.shape(call, o)
        array = Operand(f"{'r' if operands is self.p.temporaries else o.name[0]}{self.count}", o.dtype, shape)
        operands.append(array)
        self.p.arrays[array.name] = array
        (call.parts if stacked else call.whole).add(array.name)
        return array.name

    def argument(self, call, o):
        """An earlier array that fits, or None."""
        before = [a for a in self.p.arrays.values() if a.dtype == o.dtype and a.name not in {x.name for x in self.p.outputs}]
        self.r.shuffle(before)
        before.sort(key=lambda a: a not in self.p.temporaries)
        for a in before:
            if a.name not in call.parts and len(a.shape) == len(o.shape) and (a in self.p.temporaries or self.chance(0.3)) and self.unify(self.shape(call, o), list(a.shape)):
                call.whole.add(a.name)
                return a.name
            part = call.turns and a.name not in call.whole and len(a.shape) == len(o.shape) + 1 and a.shape[0] == call.turns
            if part and self.unify(self.shape(call, o), list(a.shape[1:])):
                call.parts.add(a.name)
                return a.name
        return self.add(self.p.inputs, o, call, bool(call.turns) and self.chance(0.6))

    def make(self):
        p = self.p
        for number, call in enumerate(p.calls):
            last = number == len(p.calls) - 1
            call.sizes = {n: f"{n}{number}" for n in call.generator.nominal}
            call.turns = self.r.choice([1, 2, 3]) if self.chance(0.2) else None
            call.arguments = [self.argument(call, o) for o in call.kernel.inputs]
            for o in call.kernel.outputs:
                operands = p.outputs if last or self.chance(0.3) else p.temporaries
                call.results.append(self.add(operands, o, call, bool(call.turns)))
        for call in p.calls:
            call.sizes = {n: self.found(v) for n, v in call.sizes.items()}
        for a in p.arrays.values():
            a.shape = tuple(self.found(n) for n in a.shape)
        passed = {a.name for a in p.temporaries} & {name for call in p.calls for name in call.arguments}
        if not passed and self.chance(0.9):
            raise Reject("calls that have nothing to do with each other")
        used = {n for call in p.calls for n in call.sizes.values() if isinstance(n, str)}
        if used - {n for o in p.inputs + p.outputs for n in o.shape}:
            raise Reject("a size that no operand has")
        p.threads = self.r.choice([1, 1, 2, 3])
        return p

    def make_test(self):
        sizes, inputs = {}, {}
        for call in self.p.calls:
            for n, v in call.sizes.items():
                if isinstance(v, str) and v not in sizes:
                    sizes[v] = call.generator.size_value(n)
        for call in self.p.calls:
            for name, o in zip(call.arguments, call.kernel.inputs):
                if name not in inputs and self.p.arrays[name] in self.p.inputs:
                    inputs[name] = call.generator.data(o)
        shown = {n for o in self.p.inputs + self.p.outputs for n in o.shape}
        return {"sizes": {n: v for n, v in sizes.items() if n in shown}, "inputs": inputs}


def evaluate(program, test):
    """The outputs for a test."""
    def shape_of(a):
        return tuple(test["sizes"].get(n, n) for n in a.shape)
    memory = {}
    for number, o in enumerate(program.inputs):
        data = make(test["inputs"][o.name], o.dtype, shape_of(o), number)
        memory[o.name] = Memory(o.dtype, data, np.zeros(data.shape, bool))
    for o in program.outputs + program.temporaries:
        memory[o.name] = Memory.empty(o.dtype, shape_of(o))
    for call in program.calls:
        sizes = {n: test["sizes"].get(v, v) for n, v in call.sizes.items()}
        for turn in range(call.turns or 1):
            run_call(call, sizes, turn, memory)
    for o in program.outputs:
        if memory[o.name].u.any():
            raise Reject("elements never written")
    return {o.name: memory[o.name] for o in program.outputs}


def run_call(call, sizes, turn, memory):
    k = call.kernel

    def part(name, a):
        return a if a is None or name not in call.parts else a[turn]
    test = {"sizes": sizes, "inputs": {o.name: "zeros" for o in k.inputs}}
    ev = Evaluator(k, test)
    if steps_of(k, test) > MOST_GRID_STEPS:
        raise Reject("too many steps")
    for name, o in zip(call.arguments, k.inputs):
        m = memory[name]
        if m.e is not None and np.any(m.e):
            raise Reject("inexact operand")
        ev.arrays[o.name] = Memory(o.dtype, part(name, m.d), part(name, m.u))
    results = ev.evaluate()
    for name, o in zip(call.results, k.outputs):
        found, m = results[o.name], memory[name]
        place = turn if name in call.parts else Ellipsis
        m.d[place], m.u[place] = found.d, found.u
        if found.e is not None:
            m.e = np.zeros(m.d.shape) if m.e is None else m.e
            m.e[place] = found.e


def case(seed, number, avoid):
    """Program `number` of `seed`: always the same."""
    attempt = 0
    while True:
        attempt += 1
        try:
            maker = Maker(seed, number, attempt, avoid)
            program, tests, expected = maker.make(), [], []
        except Reject:
            continue
        for _ in range(6):
            test = maker.make_test()
            if len(tests) >= 2 or test["sizes"] in [t["sizes"] for t in tests]:
                continue
            try:
                expected.append(evaluate(program, test))
                tests.append(test)
            except Reject:
                pass
        if tests:
            program.tests = tests
            return Case(program, expected, attempt)
