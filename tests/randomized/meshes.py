"""Random kernels for a few devices: computations of each device, between copies to others, signals and barriers."""
import random

import numpy as np

from . import tree
from .evaluator import Evaluator, Memory
from .generator import LENGTHS, Case
from .inputs import make
from .operations import Reject
from .programs import Alike
from .tree import Kernel, Operand, Scratch, index
from .types import INDEX
from .expressions import Ref

MESHES = [(2,), (2,), (3,), (4,), (2, 2), (1, 3)]


class MeshKernel:
    """A kernel for the runner: its operands are whole arrays."""

    def __init__(self, name, parts, maker):
        self.name, self.parts, self.maker = name, parts, maker
        self.inputs, self.outputs, self.prefetch, self.tests, self.threads = [], [], [], [], 1

    def text(self):
        return self.maker.text()


class Exchange:
    """Copies between devices: of `source` on each one to `target` on another, with statements before the wait.

    kind: "turn" (all devices, around the axis), "line" (all but the last one), "gather" (each one to all along the axis).
    `turned`: both ends are transposed views.
    """

    def __init__(self, kind, axis, by, source, target, fits, ready, number):
        self.kind, self.axis, self.by, self.source, self.target = kind, axis, by, source, target
        self.sub, self.args, self.to, self.places = fits
        self.ready, self.number, self.body, self.turned = ready, number, [], False


def turned_view(name, sub):
    return f"view({name}[...], perm = ({', '.join(str(k) for k in reversed(range(len(sub))))}))"


def turned_text(sub, args):
    """The subscript of a transposed view for that of its ref."""
    rest, parts = iter(args), []
    for item in sub:
        own = [next(rest) for _ in range({"at": 1, "ds": 1, "run": 2}.get(item[0], 0))]
        parts.append(tree.subscript_text([item], own)[1:-1])
    return "[" + ", ".join(reversed(parts)) + "]"


class Maker(Alike):
    can_bind = False

    def __init__(self, seed, number, attempt, avoid):
        super().__init__(seed, f"{number}.mesh", attempt, avoid)
        self.k = Kernel(f"k{number}")
        self.fns = self.k.fns
        self.mesh = self.r.choice(MESHES)
        self.axes = [f"d{n}" for n in range(len(self.mesh))]
        self.devices = list(np.ndindex(*self.mesh))
        self.shards, self.early, self.body, self.late, self.alike = {}, [], [], [], []
        self.exchanges = []
        self.depth, self.budget, self.prelude = 0, 0, []
        self.indices = [tree.name(f"dev{n}", INDEX) for n in range(len(self.mesh))]

    # ---- operands

    def local_shape(self):
        rank = self.r.choice([1, 2, 2, 3])
        return tuple(self.r.choice([n for n in LENGTHS if n <= (5 if rank > 2 else 17)]) for _ in range(rank))

    def shard(self, shape):
        """For each axis of an array the axes of the mesh that divide it."""
        parts = [[] for _ in shape]
        for axis in range(len(self.mesh)):
            if self.chance(0.8):
                self.r.choice(parts).append(axis)
        return parts

    def whole_shape(self, o):
        return [n * int(np.prod([self.mesh[a] for a in axes], dtype=int)) for n, axes in zip(o.shape, self.shards[o.name])]

    def array(self, operands, letter, shape, mode, parts, dtype=None):
        o = Operand(self.fresh(letter), dtype or self.dtype(), shape, mode)
        self.shards[o.name] = parts
        operands.append(o)
        return o

    def make_inputs(self):
        for _ in range(self.r.choice([1, 2, 2, 3])):
            shape = self.local_shape()
            o = self.array(self.k.inputs, "x", shape, self.r.choice(["whole", "whole", "any"]), self.shard(shape))
            ref = Ref(o.name, o.dtype, o.shape)
            (self.far if o.mode == "any" else self.refs).append(ref)
            if o.mode == "whole" and not any(self.shards[o.name]):
                self.alike.append(ref)

    def scratch(self, dtype, shape):
        s = Scratch(self.fresh("s"), dtype, shape)
        self.k.scratch.append(s)
        return Ref(s.name, dtype, shape, True, True)

    # ---- copies to other devices

    def ready(self, axis, fresh):
        """How a device learns that the target on the other one is free."""
        way = self.r.choice(["nothing", "barrier", "signal"] if fresh else ["barrier", "signal", "signal"])
        return way if self.mesh[axis] > 1 or way != "signal" else "barrier"

    def new_target(self, dtype, shape):
        """Scratch that is filled before the first barrier and not accessed until something is sent to it."""
        ref = self.scratch(dtype, shape)
        value = tree.full(tree.Type(dtype, shape), self.number(dtype, True))
        self.early.append(tree.Stmt("store", [value], ref=ref.name, sub=[("dots",)], symbol="="))
        return ref

    def exchange(self):
        """A copy around an axis of the mesh, or along it, or to all along it."""
        r = self.r
        sources = [ref for ref in self.far + self.refs if ref.readable and ref.space == "vmem" and ref.shape and ref.name[0] in "xs"]
        if not sources:
            return
        axis, kind, source = r.randrange(len(self.mesh)), r.choice(["turn", "turn", "line", "gather"]), r.choice(sources)
        gather = kind == "gather"
        old = [ref for ref in self.refs if ref.name[0] == "s" and ref.writable and ref.space == "vmem" and ref.dtype == source.dtype and
               ref is not source and len(ref.shape) == len(source.shape)]
        fresh = gather or not old or self.chance(0.6)
        part = tuple(r.randint(1, n) for n in source.shape) if self.chance(0.4) else source.shape
        self.slice_steps = False
        if gather:
            target = self.new_target(source.dtype, (self.mesh[axis],) + part)
            fit = self.subscripts(source.shape, part)
            to = [("at",)] + [("all",)] * len(part), [self.indices[axis]]
        else:
            target = self.new_target(source.dtype, tuple(n + r.choice([0, 0, 1, 3]) for n in part)) if fresh else r.choice(old)
            if not fresh:
                part = tuple(min(a, b) for a, b in zip(part, target.shape))
            fit, to = self.subscripts(source.shape, part), self.subscripts(target.shape, part)
        if fit is None or to is None or any(x[0] == "none" for x in fit[0] + to[0]):
            return
        x = Exchange(kind, axis, r.randrange(self.mesh[axis]), source.name, target.name, (*fit, *to), self.ready(axis, fresh), len(self.exchanges))
        x.turned = len(source.shape) > 1 and not any(item[0] in ("dots", "bare") for item in x.sub + x.to) and self.chance(0.3)
        self.exchanges.append(x)
        alike = gather and source in self.alike and not x.args
        if target in self.alike:
            self.alike.remove(target)
        kept = list(self.refs)
        self.refs = [ref for ref in self.refs if ref.name not in (source.name, target.name) and ref.space != "view"]
        values = list(self.values)
        self.copying, self.budget = True, r.choice([0, 0, 1, 2])
        x.body = self.statements(0) if self.budget else []
        self.copying, self.values, self.refs = False, values, kept
        target.writable = not gather
        if target not in self.refs:
            self.refs.append(target)
        if alike or gather and len(self.mesh) == 1 and source.name[0] == "x" and not x.args and self.sends_all(x):
            self.alike.append(target)
        self.body.append(x)

    @staticmethod
    def sends_all(x):
        """Whether each device sends values that depend only on itself, so that all have the same result."""
        return not any(e.op == "name" for a in x.args for e in tree.walk_expr(a))

    # ---- the kernel

    def make(self):
        r = self.r
        self.make_inputs()
        for _ in range(r.choice([0, 1, 1, 2])):
            ref = self.scratch(self.dtype(), self.random_shape() or (r.choice(LENGTHS),))
            self.body.append([self.store(ref, True)])
            self.refs.append(ref)
        for _ in range(r.choice([1, 2, 2, 3])):
            self.budget = r.choice([0, 1, 2])
            self.body.append(self.statements(0))
            self.exchange()
        if not self.exchanges:
            raise Reject("devices that have nothing to do with each other")
        self.budget = r.choice([0, 1, 2])
        self.body.append(self.statements(0))
        for _ in range(r.choice([1, 1, 2])):
            shape = self.random_shape() or (3,)
            o = self.array(self.k.outputs, "o", shape, "whole", self.shard_all(shape))
            self.late.append(self.store(Ref(o.name, o.dtype, o.shape, False, True), True))
        if self.alike and self.chance(0.6):
            self.alike_output()
        for o in self.k.inputs:
            self.shards.setdefault(o.name, [[] for _ in o.shape])
        self.k.fns[:] = [f[:3] + (True,) + f[4:] for f in self.k.fns]

    def shard_all(self, shape):
        """An output of which each device writes a separate part."""
        parts = [[] for _ in shape]
        for axis in range(len(self.mesh)):
            self.r.choice(parts).append(axis)
        return parts

    def alike_output(self):
        """An output of which each device has a copy, with the same values on all."""
        shape = self.r.choice(self.alike).shape
        self.refs, self.values, self.indices, self.far = list(self.alike), [], [], []
        o = self.array(self.k.outputs, "o", shape, "whole", [[] for _ in shape])
        self.late.append(self.store(Ref(o.name, o.dtype, o.shape, False, True), True))

    # ---- text

    def param(self, o):
        def axes(parts):
            return "_" if not parts else self.axes[parts[0]] if len(parts) == 1 else "(" + ", ".join(self.axes[a] for a in parts) + ")"
        text = f"{o.name}: {o.dtype}{tree.shape_text(self.whole_shape(o))}"
        return text + (f" shard ({', '.join(map(axes, self.shards[o.name]))})" if any(self.shards[o.name]) else "")

    def device(self, x, by):
        """The text of the device at a distance of `by` along the axis of an exchange."""
        n = self.mesh[x.axis]
        if x.kind == "line":
            place = f"min(dev{x.axis} + 1, {n - 1})" if by > 0 else f"max(dev{x.axis} - 1, 0)"
        else:
            place = f"mod(dev{x.axis} + {by % n}, {n})"
        return f"device = ({self.axes[x.axis]} = {place})"

    def exchange_lines(self, x):
        n, last = x.number, self.mesh[x.axis] - 1
        sends, receives = ("", "") if x.kind != "line" else (f"when dev{x.axis} < {last} {{ ", f"when dev{x.axis} > 0 {{ ")

        def when(guard, text):
            return guard + text + (" }" if guard else "")
        ends = x.source + tree.subscript_text(x.sub, x.args) + " -> " + x.target + tree.subscript_text(x.to, x.places)
        if x.turned:
            yield f"let from{n} = {turned_view(x.source, x.sub)}; let to{n} = {turned_view(x.target, x.to)};"
            ends = f"from{n}{turned_text(x.sub, x.args)} -> to{n}{turned_text(x.to, x.places)}"
        copy = f"let c{n} = remote_copy({ends}, send = sent, recv = come{n}, "
        if x.ready == "barrier":
            yield "barrier();"
        if x.kind == "gather":
            if x.ready == "signal":
                yield f"for e in 0..{last + 1} {{ signal(free{n}, 1, device = ({self.axes[x.axis]} = e)); }}"
                yield f"wait(free{n}, {last + 1});"
            yield f"for e in 0..{last + 1} {{ {copy}device = ({self.axes[x.axis]} = e)); c{n}.start(); }}"
            yield from tree.stmt_lines(x.body, 0)
            yield f"for e in 0..{last + 1} {{ {copy}device = ({self.axes[x.axis]} = e)); c{n}.wait(); }}"
            return
        if x.ready == "signal":
            yield when(receives, f"signal(free{n}, 1, {self.device(x, -x.by if x.kind == 'turn' else -1)});")
            yield when(sends, f"wait(free{n}, 1);")
        yield f"{copy}{self.device(x, x.by if x.kind == 'turn' else 1)});"
        yield when(sends, f"c{n}.start();")
        yield from tree.stmt_lines(x.body, 0)
        if x.kind == "line":
            yield when(sends, f"c{n}.wait_send();")
            yield when(receives, f"c{n}.wait_recv();")
        else:
            yield f"c{n}.wait();" if n % 2 else f"c{n}.wait_recv(); c{n}.wait_send();"

    def text(self):
        k = self.k
        lines = [f"kernel {k.name}({', '.join(map(self.param, k.inputs))}) -> ({', '.join(map(self.param, k.outputs))}) {{"]
        lines.append("  mesh (" + ", ".join(f"{a}: {n}" for a, n in zip(self.axes, self.mesh)) + ");")
        lines += [f"  block {o.name}: any;" for o in k.inputs if o.mode == "any"]
        lines += [f"  scratch {s.name}: vmem {s.dtype}{tree.shape_text(s.shape)};" for s in k.scratch]
        lines += [f"  scratch {s}: sem {kind};" for s, kind in k.semaphores.items()]
        lines += [f"  scratch come{x.number}: sem dma, free{x.number}: sem regular;" for x in self.exchanges] + ["  scratch sent: sem dma;"]
        lines += [f"  fn {name}({', '.join(params)}) = {tree.text_of(body)};" for name, params, body, *_ in k.fns]
        lines += [f"  let dev{n} = device({a});" for n, a in enumerate(self.axes)]
        lines += tree.stmt_lines(self.early, 1)
        lines.append("  barrier();")
        for part in self.body:
            lines += ["  " + line for line in (tree.stmt_lines(part, 0) if isinstance(part, list) else self.exchange_lines(part))]
        return "\n".join(lines + list(tree.stmt_lines(self.late, 1)) + ["}"]) + "\n"


# ---- the twin


class Twin:
    """All devices of a kernel, in lockstep."""

    def __init__(self, maker, test):
        self.m, self.k, self.devices = maker, maker.k, {}
        whole = {}
        for number, o in enumerate(self.k.inputs):
            whole[o.name] = make(test["inputs"][o.name], o.dtype, maker.whole_shape(o), number)
        for place in maker.devices:
            ev = Evaluator(self.k, {"sizes": {}, "inputs": {o.name: "zeros" for o in self.k.inputs}})
            for o in self.k.inputs:
                data = np.array(whole[o.name][self.part(o, place)])
                ev.refs[o.name] = ev.arrays[o.name] = Memory(o.dtype, data, np.zeros(data.shape, bool))
            for s in list(self.k.scratch) + self.k.outputs:
                ev.refs[s.name] = Memory.empty(s.dtype, s.shape)
            ev.names.update((f"dev{n}", at) for n, at in enumerate(place))
            ev.cell = 1
            self.devices[place] = ev

    def part(self, o, place):
        """The part of an array on a device."""
        out = []
        for n, axes in zip(o.shape, self.m.shards[o.name]):
            at = 0
            for a in axes:
                at = at * self.m.mesh[a] + place[a]
            out.append(slice(at * n, at * n + n))
        return tuple(out)

    def run(self, body):
        for ev in self.devices.values():
            for stmt in body:
                ev.run_one(stmt)

    def targets(self, x, place):
        n = self.m.mesh[x.axis]
        at = place[x.axis]
        others = {"turn": [(at + x.by) % n], "line": [at + 1] if at + 1 < n else [], "gather": range(n)}[x.kind]
        return [place[:x.axis] + (other,) + place[x.axis + 1:] for other in others]

    def exchange(self, x):
        sent = []
        for place, ev in self.devices.items():
            source, start = ev.window(x.source, x.sub, x.args)
            _, to = ev.window(x.target, x.to, x.places)
            sent += [(other, to, source.read(start)) for other in self.targets(x, place)]
        self.run(x.body)
        for other, to, v in sent:
            self.devices[other].refs[x.target].write(to, v)

    def evaluate(self):
        self.run(self.m.early)
        for part in self.m.body:
            if isinstance(part, list):
                self.run(part)
            else:
                self.exchange(part)
        self.run(self.m.late)
        return {o.name: self.joined(o) for o in self.k.outputs}

    def joined(self, o):
        shape = self.m.whole_shape(o)
        out, copied = Memory.empty(o.dtype, shape), not any(self.m.shards[o.name])
        for number, (place, ev) in enumerate(self.devices.items()):
            found, at = ev.refs[o.name], self.part(o, place)
            if found.u.any():
                raise Reject("unspecified output")
            if copied and number and (found.e is not None or not np.array_equal(out.d[at], found.d, equal_nan=True)):
                raise Reject("an output that is not the same on all devices")
            out.d[at], out.u[at] = found.d, False
            if found.e is not None:
                out.e = np.zeros(shape) if out.e is None else out.e
                out.e[at] = found.e
        return out


def case(seed, number, avoid):
    """Kernel `number` of `seed`: always the same."""
    attempt = 0
    while True:
        attempt += 1
        maker = Maker(seed, number, attempt, avoid)
        try:
            maker.make()
            test = {"sizes": {}, "inputs": {o.name: maker.data(o) for o in maker.k.inputs}}
            expected = Twin(maker, test).evaluate()
        except Reject:
            continue
        kernel = MeshKernel(maker.k.name, maker.mesh, maker)
        for operands, own in ((kernel.inputs, maker.k.inputs), (kernel.outputs, maker.k.outputs)):
            operands += [Operand(o.name, o.dtype, maker.whole_shape(o)) for o in own]
        kernel.tests, kernel.threads = [test], random.Random(f"threads:{seed}:{number}").choice([1, 1, 2, 3])
        return Case(kernel, [expected], attempt)
