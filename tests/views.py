#!/usr/bin/env python3
"""Random chains of views against a model of bits in NumPy: windows (also of views, at constant and run-time starts, with strides),
bitcasts between widths of 2 to 32 bits, reshapes and transposes, of integers and floats; odd extents; copies from a view, to a view and between views,
of constant and run-time lengths, also where they leave a window and to another device; loads, stores and scatters of parts, through two views of one ref, masked loads and stores also where they leave the view;
loads of elements of which some bits were never stored, which the interpreter has to report; loops, and steps of a grid or a pipeline,
whose views begin elsewhere each time; copies between two views of one ref, views of operands that share memory, and products of what views hold.
Some of the refs are scratch of a scope.

Each kernel is interpreted, and compiled together with others for one of this machine's targets, a few of them with optimisation too.
The text and operands of one that fails stay in build/views.

    tests/views.py [COUNT [SEED [FLAGS OF THE C COMPILER]]]

Ends with "N passed, N failed".
"""
import os
import random
import shutil
import sys
import tempfile

import numpy as np

from randomized import runner, tree
from sampling import most

WORK = os.path.join(runner.BUILD, "views")
BATCH = 120  # kernels that are compiled together
# Memory is modelled as units of 2 bits. How many an element has, and the dtype of files of it.
UNITS = {"i2": 1, "u2": 1, "i4": 2, "u4": 2, "u8": 4, "i8": 4, "f8e4m3fn": 4, "f8e5m2": 4, "u16": 8, "i16": 8, "bf16": 8, "f16": 8, "u32": 16, "i32": 16, "f32": 16}
INTEGERS = [t for t in UNITS if t[0] in "iu"]
FILES = {"f8e4m3fn": "V1", "f8e5m2": "V1", "u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "bf16": "V2", "f16": "f2", "u32": "u4", "i32": "i4", "f32": "f4"}


class View:
    """A view: for each element, the numbers of its units in the root; -1 is outside."""

    def __init__(self, root, dims, dtype, kinds, tag="v", own=None, start="s[%d]"):
        """`own` draws the run-time starts; the rest is the same for views that are made from the same random state."""
        self.root, self.dtype, self.kinds, self.tag, self.lines, self.name = root, dtype, kinds, tag, [], root
        self.own, self.start = own, start
        self.ids = np.arange(int(np.prod(dims)) * UNITS[dtype]).reshape([*dims, UNITS[dtype]])

    @property
    def dims(self):
        return self.ids.shape[:-1]

    def step(self, made, words, ids, window="[...]"):
        name = "%s_%s%d" % (self.root, self.tag, len(self.lines))
        self.lines.append("  let %s = view(%s%s%s);\n" % (name, self.name, window, "".join(", " + w for w in words)))
        self.name, self.ids = name, ids

    def bitcast(self, r):
        dtype = r.choice(self.kinds)
        have, want = self.ids.shape[-1], UNITS[dtype]
        if have != want and (len(self.dims) < 2 or self.dims[-2] * have % want):
            return
        ids = self.ids
        if want > have:  # rows join
            n = want // have
            ids = ids.reshape(*self.dims[:-2], self.dims[-2] // n, n, self.dims[-1], have)
            ids = np.moveaxis(ids, -3, -2).reshape(*self.dims[:-2], self.dims[-2] // n, self.dims[-1], want)
        elif want < have:
            n = have // want
            ids = ids.reshape(*self.dims, n, want)
            ids = np.moveaxis(ids, -2, -3).reshape(*self.dims[:-2], self.dims[-2] * n, self.dims[-1], want)
        self.dtype = dtype
        self.step(None, ["dtype = " + dtype], ids)

    def reshape(self, r):
        count, left = int(np.prod(self.dims)), []
        p, n = 2, count
        while n > 1:
            while n % p == 0:
                left.append(p)
                n //= p
            p += 1
        shape = [1] * r.choice([1, 2, 3, 4, 1, 2, 3, 4, 8])
        for p in left:
            shape[r.randrange(len(shape))] *= p
        if count == 0:
            shape = [r.choice([0, 1, 2, 3]) for _ in shape]
            shape[r.randrange(len(shape))] = 0
        self.step(None, ["shape = [%s]" % ", ".join(map(str, shape))], self.ids.reshape(*shape, self.ids.shape[-1]))

    def transpose(self, r):
        perm = list(range(len(self.dims)))
        r.shuffle(perm)
        self.step(None, ["perm = (%s%s)" % (", ".join(map(str, perm)), "," if len(perm) == 1 else "")], self.ids.transpose(*perm, len(perm)))

    def window(self, r, starts, leave=False, lengths=None):
        """The text of a random window and its number of bytes. `leave`: parts of it may be outside; `lengths`: some lengths are run-time values."""
        ids, words, axis = self.ids, [], 0
        for dim in self.dims:
            if r.random() < 0.35:
                words.append(":")
                axis += 1
                continue
            stride = r.choice([1, 1, 1, 2, 3])
            size = min(r.randint(1, max(1, dim)), (dim - 1) // stride + 1)
            start = r.randint(0, max(0, dim - (size - 1) * stride - 1))
            constant = r.random() < 0.4
            low, high = 0, max(0, dim - (size - 1) * stride - 1)
            if leave and r.random() < 0.15:
                low, high, constant = -2, dim + 1, False
                start = r.randint(low, high)
            text = str(start)
            if not constant:
                start = self.own.randint(low, high) if self.own else start
                text = self.start % len(starts)
                starts.append(start)
            squeeze = size == 1 and r.random() < 0.5
            at = start + stride * np.arange(size)
            part = np.take(ids, np.clip(at, 0, dim - 1).astype(int), axis)
            outside = ((at < 0) | (at >= dim)).reshape([-1 if k == axis else 1 for k in range(part.ndim)])
            part = np.where(outside, -1, part)
            length = str(size)
            if lengths is not None and not squeeze and r.random() < 0.4:
                length = "n%d" % len(lengths)
                lengths.append((length, len(starts)))
                starts.append(size)
            ids = part[(slice(None),) * axis + (0,)] if squeeze else part
            words.append(text if squeeze else "ds(%s, %s%s)" % (text, length, ", %d" % stride if stride > 1 else ""))
            axis += not squeeze
        return "[%s]" % ", ".join(words), ids

    def grow(self, r, starts, steps, leave):
        for _ in range(steps):
            kind = r.choice(["window", "bitcast", "bitcast", "reshape", "reshape", "transpose"])
            if kind != "window" or not self.dims:
                getattr(self, kind if self.dims or kind == "reshape" else "reshape")(r)
                continue
            text, ids = self.window(r, starts, leave)
            self.step(None, [], ids, text)


def random_units(rng, shape, floats):
    """Random data; without NaNs, whose bits need not be kept."""
    units = rng.integers(0, 4, shape).astype(np.uint8)
    if floats:
        units.reshape(-1)[1::2] &= 2
    return units


def elements(units, dtype):
    """Units, with those of an element along the last axis, as an array of a file; an element of less than a byte takes a byte."""
    weight = np.array([1, 4, 16, 64], np.uint8)
    if units.shape[-1] < 4:
        return (units * weight[:units.shape[-1]]).sum(-1).astype(np.uint8).view("V1")
    raw = (units.reshape(*units.shape[:-1], units.shape[-1] // 4, 4) * weight).sum(-1).astype(np.uint8)
    return np.ascontiguousarray(raw).view(FILES[dtype])[..., 0]


def integers(units, dtype):
    """Units, with those of an element along the last axis, as numbers."""
    bits = 2 * UNITS[dtype]
    found = (units.astype(np.int64) << 2 * np.arange(UNITS[dtype])).sum(-1)
    return found - ((found >> bits - 1) << bits) if dtype[0] == "i" else found


def same(found, want, dtype):
    """Whether the defined units are equal, bit for bit."""
    found, want = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (found, want))
    few = (1 << 2 * UNITS[dtype]) - 1 if UNITS[dtype] < 4 else 255
    return found.shape == want.shape and np.array_equal(found & few, want & few)


def values(memory, ids):
    """The units of elements; those outside are 0."""
    return np.where(ids < 0, 0, memory[np.maximum(ids, 0)]).astype(np.uint8)


def put(memory, ids, new, mask=None):
    keep = ids >= 0 if mask is None else (ids >= 0) & mask[..., None]
    memory[ids[keep]] = new[keep]


def move_text(name, source, target, copied):
    """A copy, or an assignment."""
    return "let %s = async_copy(%s -> %s, c); %s.start(); %s.wait();\n" % (name, source, target, name, name) if copied else "%s = %s;\n" % (target, source)


def shape_text(dims):
    return "[%s]" % ", ".join(map(str, dims)) if len(dims) else ""


def root_dims(r):
    """A random number of rows; some refs have no element."""
    lengths = [0, 1, 2, 3, 4, 6, 8, 16] if r.random() < 0.1 else [1, 2, 3, 4, 6, 8, 16]
    outer = [r.choice([1, 1, 2]) for _ in range(6)] if r.random() < 0.06 else [r.choice(lengths) for _ in range(r.choice([0, 0, 1, 1, 2]))]
    return outer + [r.choice(lengths) for _ in range(2)]


class Kernel:
    def __init__(self, n, seed):
        self.r, rng = random.Random("%d.%d" % (seed, n)), np.random.default_rng([seed, n])
        r = self.r
        self.leave = r.random() < 0.3
        self.starts, self.lengths, self.outside, self.missing, self.packed = [], [], False, False, set()
        self.kinds = r.choice([[t for t in UNITS if UNITS[t] >= 4], INTEGERS, ["u8", "i16", "u32"], list(UNITS)])
        self.floats = any("f" in t for t in self.kinds)
        dims, dtype = root_dims(r), r.choice(self.kinds)
        self.kind = r.choice(["copies", "copies", "accesses", "accesses", "unfilled", "remote", "loops", "inside", "steps", "aliased", "products"])
        if self.kind == "remote":
            dims = [max(n, 1) for n in dims]
        self.data = {name: random_units(rng, [*dims, UNITS[dtype]], self.floats) for name in "xy"}
        self.dims, self.dtype, self.shards, self.aliases, self.end = dims, dtype, {}, {}, ""
        getattr(self, self.kind)(rng)
        self.values.setdefault("s", np.array(self.starts or [0], np.int32))

    def stored(self, name):
        return elements(self.data[name], self.dtype)

    def root(self):
        """Declares t as scratch, or, without elements, which scratch must have, as a variable."""
        text = "t: %s%s%s" % ("vmem " if 0 not in self.dims else "", self.dtype, shape_text(self.dims))
        if 0 in self.dims:
            return "  var %s = 0;\n" % text
        if self.r.random() < 0.3:
            self.end = "  }\n"
            return "  scoped %s {\n" % text
        return "  scratch %s;\n" % text

    def of_root(self, memory, dims=None):
        return elements(memory.reshape(*(self.dims if dims is None else dims), UNITS[self.dtype]), self.dtype)

    def copies(self, rng):
        """Copies from a view of x to o, and from z to a view of p, which initially equals y."""
        r = self.r
        a, b = View("x", self.dims, self.dtype, self.kinds), View(r.choice(["p", "t"] if 0 not in self.dims else ["p"]), self.dims, self.dtype, self.kinds)
        for view in (a, b):
            view.grow(r, self.starts, r.randint(1, 6), self.leave)
        lengths = []
        from_text, from_ids = a.window(r, self.starts, self.leave, lengths)
        to_text, to_ids = b.window(r, self.starts, self.leave)
        z, o = random_units(rng, to_ids.shape, self.floats), np.zeros(from_ids.shape, np.uint8)
        self.outside = (from_ids < 0).any(-1)
        named = iter(lengths)
        to_o = ", ".join("ds(0, %s)" % next(named)[0] if t.startswith("ds(") and ", n" in t else ":"
                         for t in split(from_text) if t.startswith("ds(") or t == ":")
        self.inputs = [("x", self.dtype, self.dims), ("y", self.dtype, self.dims), ("z", b.dtype, z.shape[:-1]), ("w", a.dtype, o.shape[:-1])]
        self.packed = {name for name, dtype, dims in self.inputs if UNITS[dtype] < 4 and len(dims) and r.random() < 0.6}
        self.outputs = [("o", a.dtype, o.shape[:-1]), ("p", self.dtype, self.dims)]
        self.values = {"x": self.stored("x"), "y": self.stored("y"), "z": elements(z, b.dtype), "w": elements(o, a.dtype)}
        p = self.data["y"].reshape(-1).copy()
        put(p, to_ids, z)
        self.want = {"o": elements(values(self.data["x"].reshape(-1), from_ids), a.dtype), "p": self.of_root(p)}
        lines = ["  block x, y, z, w, o, p: any;\n  scratch c: sem dma;\n", self.root()]
        lines += ["  let %s = s[%d];\n" % item for item in lengths] + a.lines + b.lines
        target = b.root
        moves = [("w[...]", "o[...]") if o.ndim > 1 else ("w", "o"), ("y[...]", target + "[...]")]
        moves += [(a.name + from_text, "o[%s]" % to_o if to_o else "o"), ("z[...]" if z.ndim > 1 else "z", b.name + to_text)]
        moves += [("t[...]", "p[...]")] if target == "t" else []
        for k, (source, to) in enumerate(moves):
            lines.append("  let m%d = async_copy(%s -> %s, c);\n  m%d.start();\n  m%d.wait();\n" % (k, source, to, k, k))
        self.body = "".join(lines)

    def accesses(self, rng):
        """A store to one view of t, possibly masked or a scatter, and loads of another view, possibly masked, before and after it."""
        r = self.r
        view, other = View("t", self.dims, self.dtype, self.kinds), View("t", self.dims, self.dtype, self.kinds, "w")
        view.grow(r, self.starts, r.randint(1, 6), False)
        if r.random() < 0.5:
            other = view
        else:
            other.grow(r, self.starts, r.randint(1, 6), False)
        masked_load = r.random() < 0.4
        load, load_ids = view.window(r, self.starts, masked_load and r.random() < 0.6)
        masked_load = masked_load and load_ids.ndim > 1
        if not masked_load and (load_ids < 0).any():
            load, load_ids = view.window(r, self.starts)
        way = r.choice(["plain", "plain", "masked", "masked", "scatter"])
        store, store_ids = other.window(r, self.starts, way == "masked" and r.random() < 0.6)
        if store_ids.ndim == 1:  # one element: there is no masked form and no scatter for it
            way, (store, store_ids) = "plain", other.window(r, self.starts)
        way = way if store_ids.ndim > 1 else "plain"
        shape, mask = list(store_ids.shape), np.ones(store_ids.shape[:-1], bool)
        memory = self.data["x"].reshape(-1).copy()
        chosen = np.ones(load_ids.shape[:-1], bool)
        if masked_load:
            chosen = rng.integers(0, 4, chosen.shape).astype(bool) & (load_ids >= 0).all(-1)
        filling = random_units(rng, load_ids.shape, self.floats)  # where the mask is false

        def loaded():
            return elements(np.where(chosen[..., None], values(memory, load_ids), filling), view.dtype)

        o = loaded()
        if way == "scatter":
            axis = r.randrange(len(shape) - 1)
            mask = rng.integers(-1, shape[axis] + 1, r.randint(1, 5))
            shape[axis] = len(mask)
        elif way == "masked":
            mask = rng.integers(0, 2, mask.shape).astype(bool) & (store_ids >= 0).all(-1)
        z = random_units(rng, shape, self.floats)
        if way == "scatter":
            for row, at in enumerate(mask):
                if 0 <= at < store_ids.shape[axis]:
                    put(memory, np.take(store_ids, at, axis), np.take(z, row, axis))
        else:
            put(memory, store_ids, z, mask)
        q = loaded()
        self.inputs = [("x", self.dtype, self.dims), ("z", other.dtype, z.shape[:-1]), ("m", "i32", mask.shape)]
        self.outputs = [("o", view.dtype, o.shape), ("q", view.dtype, q.shape), ("p", self.dtype, self.dims)]
        self.values = {"x": self.stored("x"), "z": elements(z, other.dtype), "m": mask.astype(np.int32)}
        if masked_load:
            self.inputs += [("k", "i32", chosen.shape), ("f", view.dtype, chosen.shape)]
            self.values.update(k=chosen.astype(np.int32), f=elements(filling, view.dtype))
        self.want = {"o": o, "q": q, "p": self.of_root(memory)}
        get = lambda name, rank: name + "[...]" if rank else name
        part, new = other.name + store, get("z", z.ndim - 1)
        assign = {"plain": "  %s = %s;\n" % (part, new),
                  "masked": "  store(%s, %s, mask = %s != 0);\n" % (part, new, get("m", z.ndim - 1)),
                  "scatter": "  scatter(%s, m[...], %s, axis = %d);\n" % (part, new, axis if way == "scatter" else 0)}[way]
        lines = view.lines + (other.lines if other is not view else [])
        text = "load(%s%s, mask = k[...] != 0, other = f[...])" % (view.name, load) if masked_load else view.name + load
        loads = ["  %s = %s;\n" % (get(name, o.ndim), text) for name in "oq"]
        self.body = "%s%s  t[...] = x[...];\n%s%s%s  p[...] = t[...];\n" % (
            self.root(), "".join(lines), loads[0], assign, loads[1])

    def loops(self, rng):
        """A loop whose views begin elsewhere in each turn: each turn reads a part of t, by a load or a copy, and stores to another one if its flag is set."""
        r = self.r
        count, copied, twice = r.randint(1, 4), r.random() < 0.4 and 0 not in self.dims, r.random() < 0.5
        state, turns = r.getstate(), []
        for k in range(count):
            r.setstate(state)
            own, starts = random.Random(int(rng.integers(1 << 30))), []
            view, other = (View("t", self.dims, self.dtype, self.kinds, tag, own, "s[k, %d]") for tag in "vw")
            view.grow(r, starts, r.randint(1, 6), False)
            if twice:
                other.grow(r, starts, r.randint(1, 6), False)
            else:
                other = view
            turns.append((view.window(r, starts), other.window(r, starts), starts))
        (load, load_ids), (store, store_ids), starts = turns[0]
        if max(load_ids.ndim, store_ids.ndim) > 8:  # an operand has an axis for the turns
            return self.accesses(rng)
        memory, flags, o = self.data["x"].reshape(-1).copy(), rng.integers(0, 2, count), []
        z = random_units(rng, (count, *store_ids.shape), self.floats)
        for k, ((_, ids), (_, to), _) in enumerate(turns):
            o.append(values(memory, ids))
            if flags[k]:
                put(memory, to, z[k])
        self.inputs = [("x", self.dtype, self.dims), ("z", other.dtype, z.shape[:-1])]
        self.outputs = [("o", view.dtype, (count, *load_ids.shape[:-1])), ("p", self.dtype, self.dims)]
        self.values = {"x": self.stored("x"), "z": elements(z, other.dtype), "s": np.array([[*starts, flag] for (_, _, starts), flag in zip(turns, flags)], np.int32)}
        self.want = {"o": elements(np.stack(o), view.dtype), "p": self.of_root(memory)}
        lines = "".join("  " + line for line in view.lines + (other.lines if twice else []))
        reads, stores = move_text("m", view.name + load, "o[k]", copied), move_text("n", "z[k]", other.name + store, copied)
        self.body = "%s%s  t[...] = x[...];\n  for k in 0..%d {\n%s    %s    if s[k, %d] > 0 {\n      %s    }\n  }\n  p[...] = t[...];\n" % (
            "  block z, o: any;\n  scratch c: sem dma;\n" if copied else "", self.root(), count, lines, reads, len(starts), stores)

    def steps(self, rng):
        """Steps of the grid or of a pipeline, each of which loads a part of its block of x through a view, and then stores to a view of this block
        or of its block of p, which becomes equal to the former."""
        r = self.r
        if 0 in self.dims or len(self.dims) > 7:
            return self.accesses(rng)
        inner, count = r.random() < 0.5, r.randint(1, 4)
        names = {"a": "x", "b": "z", "c": "p", "d": "o"} if inner else {name: name for name in "xzpo"}
        a, b, c, d = names
        stored = c if inner else r.choice([a, c])  # only the blocks of a grid's inputs may be stored to
        state, turns = r.getstate(), []
        for _ in range(count):
            r.setstate(state)
            own, starts, views = random.Random(int(rng.integers(1 << 30))), [], []
            for root, tag in ((a, "v"), (stored, "w")):
                view = View(root, self.dims, self.dtype, self.kinds, tag, own, "s[k, %d]")
                view.grow(r, starts, r.randint(1, 6), False)
                views.append((view, *view.window(r, starts)))
            turns.append((views, starts))
        (view, load, load_ids), (other, store, store_ids) = turns[0][0]
        if max(load_ids.ndim, store_ids.ndim) > 8:  # an operand has an axis for the steps
            return self.accesses(rng)
        x, z = (random_units(rng, (count, *shape), self.floats) for shape in ((self.data["x"].size,), store_ids.shape))
        p, o = x.copy(), []
        for k, (((_, _, ids), (_, _, to)), _) in enumerate(turns):
            o.append(values(x[k], ids))
            put(p[k], to, z[k])
        whole = [count, *self.dims]
        self.inputs = [("x", self.dtype, whole), ("z", other.dtype, z.shape[:-1])]
        self.outputs = [("o", view.dtype, (count, *load_ids.shape[:-1])), ("p", self.dtype, whole)]
        self.values = {"x": self.of_root(x, whole), "z": elements(z, other.dtype), "s": np.array([starts or [0] for _, starts in turns], np.int32)}
        self.want = {"o": elements(np.stack(o), view.dtype), "p": self.of_root(p, whole)}
        ranks = {"x": len(self.dims), "p": len(self.dims), "z": store_ids.ndim - 1, "o": load_ids.ndim - 1}
        dims = {name: shape[1:] for name, _, shape in self.inputs + self.outputs}
        part = lambda name: name + "[...]" if ranks[names[name]] else name
        spec = lambda name: "[%s] at (%s)" % (", ".join(["_", *map(str, dims[name])]), ", ".join(["k", *["0"] * len(dims[name])]))
        blocks = "".join("    block %s%s: %s;\n" % (name, " of " + of if inner else "", spec(of)) for name, of in names.items())
        statements = ["%s = %s;\n" % (part(d), view.name + load), "%s = %s;\n" % (part(c), part(a)), "%s = %s;\n" % (other.name + store, part(b))]
        if stored == a:
            statements[1:] = reversed(statements[1:])
        body = "".join(view.lines + other.lines) + "".join("  " + line for line in statements)
        if inner:
            self.body = "  block x, z, o, p: any;\n  pipeline (k in %d) {\n%s%s  }\n" % (count, blocks, body)
        else:
            self.body = "  grid (k in %d);\n%s%s" % (count, blocks, body)

    def aliased(self, rng):
        """Copies, in HBM, from a view of x to o, then from z to a view of p, which shares the memory of x, then from the first view again to q."""
        r = self.r
        a, b = (View(r.choice(roots), self.dims, self.dtype, self.kinds, tag) for roots, tag in (("xp", "v"), ("p", "w")))
        for view in (a, b):
            view.grow(r, self.starts, r.randint(1, 6), False)
        (from_text, from_ids), (to_text, to_ids) = (view.window(r, self.starts) for view in (a, b))
        z, memory = random_units(rng, to_ids.shape, self.floats), self.data["x"].reshape(-1).copy()
        o = values(memory, from_ids)
        put(memory, to_ids, z)
        get = lambda name, ids: name + "[...]" if ids.ndim > 1 else name
        self.inputs = [("x", self.dtype, self.dims), ("z", b.dtype, z.shape[:-1])]
        self.outputs = [("o", a.dtype, o.shape[:-1]), ("q", a.dtype, o.shape[:-1]), ("p", self.dtype, self.dims)]
        self.aliases = {"p": "x"}
        self.values = {"x": self.stored("x"), "z": elements(z, b.dtype)}
        self.want = {"o": elements(o, a.dtype), "q": elements(values(memory, from_ids), a.dtype), "p": self.of_root(memory)}
        moves = [(a.name + from_text, get("o", from_ids)), (get("z", to_ids), b.name + to_text), (a.name + from_text, get("q", from_ids))]
        self.body = "  alias p = x;\n  block x, z, o, q, p: any;\n  scratch c: sem dma;\n" + "".join(a.lines + b.lines)
        self.body += "".join("  " + move_text("m%d" % k, *move, True) for k, move in enumerate(moves))

    def products(self, rng):
        """A product of the integers in a part of a view with those of z, on either side, which is stored to o as it is or through a view."""
        r = self.r
        view = View("t", self.dims, self.dtype, self.kinds)
        view.grow(r, self.starts, r.randint(1, 6), False)
        if view.dtype not in INTEGERS:
            view.dtype = next(t for t in ("i8", "i16", "u32") if UNITS[t] == UNITS[view.dtype])
            view.step(None, ["dtype = " + view.dtype], view.ids)
        load, ids = view.window(r, self.starts)
        rows, columns = (int(np.prod(ids.shape[:-2])), ids.shape[-2]) if ids.ndim > 1 else (1, 1)
        part, dtype = view.name + load, r.choice(INTEGERS)
        if ids.ndim != 3 or r.random() < 0.3:
            part = "reshape(%s, [%d, %d])" % (part, rows, columns)
        n, way, kept = r.choice([1, 2, 3, 17, 40]), r.choice(["left", "right", "turned"]), r.choice(["plain", "plain", "turned", "flat"])
        z = random_units(rng, ((n, rows) if way == "right" else (n, columns) if way == "turned" else (columns, n)) + (UNITS[dtype],), False)
        memory = self.data["x"].reshape(-1)
        seen, other = integers(values(memory, ids), view.dtype).reshape(rows, columns), integers(z, dtype)
        o = {"left": lambda: seen @ other, "right": lambda: other @ seen, "turned": lambda: other @ seen.T}[way]().astype(np.int32)
        dims = {"plain": o.shape, "turned": o.shape[::-1], "flat": (o.size,)}[kept]
        self.inputs = [("x", self.dtype, self.dims), ("z", dtype, z.shape[:-1])]
        self.outputs = [("o", "i32", dims), ("p", self.dtype, self.dims)]
        self.values = {"x": self.stored("x"), "z": elements(z, dtype)}
        self.want = {"o": o.T if kept == "turned" else o.reshape(dims), "p": self.of_root(memory)}
        target = {"plain": "", "turned": "  let r = view(o[...], perm = (1, 0));\n", "flat": "  let r = view(o[...], shape = [%d, %d]);\n" % o.shape}[kept]
        product = {"left": "dot(%s, z[...])", "right": "dot(z[...], %s)", "turned": "dot(z[...], %s.T)"}[way] % part
        self.body = "%s%s%s  t[...] = x[...];\n  %s[...] = %s;\n  p[...] = t[...];\n" % (
            self.root(), "".join(view.lines), target, "r" if target else "o", product)

    def inside(self, rng):
        """A copy from a view of t to another one, of other elements of t."""
        r, state = self.r, self.r.getstate()
        if 0 in self.dims:  # a variable, which no copy moves
            return self.accesses(rng)
        for _ in range(12):
            r.setstate(state)
            starts, views = [], []
            for tag in "vw":
                inner = r.getstate()
                view = View("t", self.dims, self.dtype, self.kinds, tag, random.Random(int(rng.integers(1 << 30))))
                view.grow(r, starts, r.randint(1, 6), False)
                views.append((view, *view.window(r, starts)))
                r.setstate(inner)
            (a, from_text, from_ids), (b, to_text, to_ids) = views
            if from_ids.ndim > 1 and not np.intersect1d(from_ids // 4, to_ids // 4).size:  # of bytes, which a copy reads and writes whole
                break
        else:
            return self.accesses(rng)
        if r.random() < 0.5:
            b, to_text, to_ids = self.in_a_row(rng, starts, a, from_ids) or (b, to_text, to_ids)
        memory = self.data["x"].reshape(-1).copy()
        put(memory, to_ids, values(memory, from_ids))
        self.starts = starts
        self.inputs, self.outputs = [("x", self.dtype, self.dims)], [("p", self.dtype, self.dims)]
        self.values, self.want = {"x": self.stored("x")}, {"p": self.of_root(memory)}
        self.body = "  scratch c: sem dma;\n%s  t[...] = x[...];\n%s  %s  p[...] = t[...];\n" % (
            self.root(), "".join(a.lines + b.lines), move_text("m", a.name + from_text, b.name + to_text, True))

    def in_a_row(self, rng, starts, view, ids):
        """Elements of t one after another, as many and in the shape of those with these units, none of which they are; None: there are not so many."""
        flat, count = View("t", self.dims, self.dtype, [view.dtype], "f"), int(np.prod(ids.shape[:-1]))
        flat.bitcast(self.r)
        if flat.dtype != view.dtype or not count:
            return None
        total = int(np.prod(flat.dims))
        flat.step(None, ["shape = [%d]" % total], flat.ids.reshape(total, -1))
        places = [at for at in range(total - count + 1) if not np.intersect1d(flat.ids[at:at + count] // 4, ids // 4).size]
        if not places:
            return None
        at = int(rng.choice(places))
        starts.append(at)
        shape = ids.shape[:-1]
        flat.step(None, ["shape = [%s]" % ", ".join(map(str, shape))], flat.ids[at:at + count].reshape(*shape, -1), "[ds(s[%d], %d)]" % (len(starts) - 1, count))
        return flat, "[...]", flat.ids

    def unfilled(self, rng):
        """A store to a view of t, and a load of elements with bits that may not have been stored."""
        r = self.r
        view = View("t", self.dims, self.dtype, self.kinds)
        view.grow(r, self.starts, r.randint(1, 6), False)
        store, store_ids = view.window(r, self.starts)
        dtype, of, load, load_ids = view.dtype, view.name, store, store_ids
        if r.random() < 0.5:
            other = View("t", self.dims, self.dtype, self.kinds, "w") if r.random() < 0.7 else view
            other.grow(r, self.starts, r.randint(0, 2), False)
            load, load_ids = other.window(r, self.starts)
        else:
            other = view
        z = random_units(rng, store_ids.shape, self.floats)
        memory, stored = np.zeros(self.data["x"].size, np.uint8), np.zeros(self.data["x"].size, bool)
        put(memory, store_ids, z)
        stored[store_ids.reshape(-1)] = True
        self.outside = ~stored[load_ids].all(-1)
        self.missing = bool(self.outside.any())
        o = elements(values(memory, load_ids), other.dtype)
        self.inputs, self.outputs = [("z", dtype, z.shape[:-1])], [("o", other.dtype, o.shape)]
        self.values, self.want = {"z": elements(z, dtype)}, {"o": o}
        get = lambda name, rank: name + "[...]" if rank else name
        lines = view.lines + (other.lines if other is not view else [])
        self.body = "%s%s  %s%s = %s;\n  %s = %s%s;\n" % (
            self.root(), "".join(lines), of, store, get("z", z.ndim - 1), get("o", o.ndim), other.name, load)

    def remote(self, rng):
        """Each of two devices copies a view of its x to o of the other one, and its z to a view of p of the other one; the sender determines
        the positions."""
        r, state, sent = self.r, self.r.getstate(), []
        for device in range(2):
            r.setstate(state)
            own, starts = random.Random(int(rng.integers(1 << 30))), []
            a, b = (View(r.choice(roots), self.dims, self.dtype, self.kinds, own=own, start="s[dev, %d]") for roots in ("xu", "pt"))
            parts = []
            for view in (a, b):
                view.grow(r, starts, r.randint(0, 6), self.leave)
                if not view.dims:
                    view.reshape(r)
                text, ids = view.window(r, starts, self.leave)
                parts.append((text, ids) if ids.ndim > 1 else ("[...]", view.ids))
            sent.append((parts, starts))
        (from_text, from_ids), (to_text, to_ids) = sent[0][0]
        x, y = ([self.data[name].reshape(-1), random_units(rng, self.data[name].size, self.floats)] for name in "xy")
        z, w, o, outside, p = [random_units(rng, to_ids.shape, self.floats) for _ in range(2)], np.zeros(from_ids.shape, np.uint8), [], [], []
        for device in range(2):
            (_, ids), (_, to) = sent[1 - device][0]
            o.append(np.where(ids < 0, w, values(x[1 - device], ids)))
            outside.append((ids < 0).any(-1))
            p.append(y[device].copy())
            put(p[device], to, z[1 - device])
        whole = lambda dims: [2 * dims[0], *dims[1:]]
        root = lambda arrays: self.of_root(np.stack(arrays), whole(self.dims))
        joined = lambda arrays, dtype: elements(np.concatenate(arrays), dtype)
        self.outside = np.concatenate(outside)
        self.inputs = [("x", self.dtype, whole(self.dims)), ("y", self.dtype, whole(self.dims)), ("z", b.dtype, whole(to_ids.shape[:-1])), ("w", a.dtype, whole(w.shape[:-1]))]
        self.outputs = [("o", a.dtype, whole(w.shape[:-1])), ("p", self.dtype, whole(self.dims))]
        self.shards = {name: "d" + ", _" * (len(dims) - 1) for name, _, dims in self.inputs + self.outputs}
        self.values = {"x": root(x), "y": root(y), "z": joined(z, b.dtype), "w": joined([w, w], a.dtype),
                       "s": np.array([starts or [0] for _, starts in sent], np.int32)}
        self.want = {"o": joined(o, a.dtype), "p": root(p)}
        copies = ["async_copy(w[...] -> o[...], c)", "async_copy(y[...] -> %s[...], c)" % b.root]
        copies += ["async_copy(x[...] -> u[...], c)"] if a.root == "u" else []
        there = "send = c, recv = %s, device = (d = 1 - dev)"
        remote = ["remote_copy(%s%s -> o[...], %s)" % (a.name, from_text, there % "e"), "remote_copy(z[...] -> %s%s, %s)" % (b.name, to_text, there % "f")]
        copies += ["barrier()", *remote] + (["async_copy(t[...] -> p[...], c)"] if b.root == "t" else [])
        shape = "vmem %s%s" % (self.dtype, shape_text(self.dims))
        self.body = "  mesh (d: 2);\n  block x, y, z, w, o, p: any;\n  scratch c, e, f: sem dma;\n" + "".join("  scratch %s: %s;\n" % (name, shape) for name in (a.root, b.root) if name in "ut") + "  let dev = device(d);\n"
        self.body += "".join(a.lines + b.lines)
        for k, copy in enumerate(copies):
            self.body += "  barrier();\n" if copy == "barrier()" else "  let m%d = %s;\n  m%d.start();\n  m%d.wait();\n" % (k, copy, k, k)

    def text(self, name):
        def declared(n, t, d):
            packed, shard = " packed " if n in self.packed else "", self.shards.get(n)
            return "%s: %s%s%s%s" % (n, t, packed, shape_text(d), " shard (%s)" % shard if shard else "")
        inputs, outputs = ([declared(*operand) for operand in some] for some in (self.inputs, self.outputs))
        return "kernel %s(%s) -> (%s) {\n  prefetch s: i32%s;\n%s%s}\n" % (
            name, ", ".join(inputs), ", ".join(outputs), shape_text(self.values["s"].shape), self.body, self.end)


def split(window):
    """The elements of an index."""
    parts, depth, now = [], 0, ""
    for c in window[1:-1]:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(now.strip())
            now = ""
        else:
            now += c
    return parts + [now.strip()] if now.strip() else parts


class Twin:
    """A kernel for a batch of tests/randomized."""

    def __init__(self, name, kernel):
        self.name, self.of, self.tests = name, kernel, [{"sizes": {}, "inputs": {}}]
        self.prefetch = [tree.Operand("s", "i32", kernel.values["s"].shape, "prefetch")]
        self.inputs, self.outputs = ([tree.Operand(*operand, "any") for operand in some] for some in (kernel.inputs, kernel.outputs))
        for operand in self.inputs:
            operand.packed = operand.name in kernel.packed
        for operand in self.outputs:
            operand.alias = kernel.aliases.get(operand.name)

    def keep(self, folder):
        """Writes its text and operands to build/views."""
        os.makedirs(WORK, exist_ok=True)
        for name in os.listdir(folder):
            if name.startswith(self.name + "."):
                shutil.copy(os.path.join(folder, name), WORK)


class Case:
    def __init__(self, n, seed):
        kernel = Kernel(n, seed)
        self.kernel = Twin("k%d" % n, kernel)
        self.expected = [{name: (kernel.want[name], dtype, kernel.outside if name == "o" else False) for name, dtype, _ in kernel.outputs}]


class Batch(runner.Batch):
    """Cases whose operands are files, compared bit for bit."""

    decode = staticmethod(lambda dtype, raw: raw)

    def text(self, case):
        return case.kernel.of.text(case.kernel.name)

    def words(self, case, number):
        """The operands of `pkc check`, in files."""
        found = []
        for name, array in case.kernel.of.values.items():
            path = self.path(case, ".%s.npy" % name)
            np.save(path, array)
            found.append("%s=%s" % (name, path))
        return found

    def given(self, case, test, operand, shape, number):
        raw = np.ascontiguousarray(case.kernel.of.values[operand.name])
        return (runner.pack(operand.dtype, raw.view(np.uint8)) if operand.packed else raw).tobytes()

    def is_expected(self, case, err):
        return case.kernel.of.leave or case.kernel.of.missing

    def has_to_report(self, case):
        return case.kernel.of.missing

    def run_compiled(self, good):
        """Kernels that read unspecified elements are not compiled."""
        good = [case for case in good if not case.kernel.of.missing]
        if good:
            super().run_compiled(good)

    interpreted = False

    def interpret(self, cases):
        self.interpreted = True
        super().interpret(cases)
        self.interpreted = False

    def differences(self, found, want):
        """For the interpreter elements outside are unspecified; compiled code leaves them unchanged."""
        array, dtype, outside = want
        if self.interpreted:
            found = np.where(outside, array.reshape(found.shape).view(found.dtype), found)
        return None if same(found, array, dtype) else " has other bits"

def run_batch(seed, first, count):
    """The failures of kernels [first, first + count), which are compiled together."""
    config, more = runner.random_configs("views%d" % seed, first, sorted(runner.machine_targets()), [c for c in ("gcc", "clang") if shutil.which(c)])
    folder = tempfile.mkdtemp(prefix="views_")
    cases = [Case(n, seed) for n in range(first, first + count)]
    failures = Batch(cases, config, folder).run()
    if more:
        failures += Batch(cases[::max(1, count // runner.OPTIMISED_KERNELS)], more, folder).run(runner.OF_C)
    for f in failures:
        f.case.kernel.keep(folder)
    shutil.rmtree(folder)
    return failures


def main():
    count = int(sys.argv[1]) if sys.argv[1:] else most(240, 60, what="kernels")
    seed = int(sys.argv[2]) if sys.argv[2:] else 1
    runner.MORE_FLAGS += sys.argv[3:]
    failed = set()
    for first in range(0, count, BATCH):
        for f in run_batch(seed, first, min(BATCH, count - first)):
            failed.add(f.case.kernel.name)
            print("FAIL %s of seed %d, %s, %s: %s" % (f.case.kernel.name, seed, f.kind, f.config, f.message), flush=True)
    print("%d passed, %d failed" % (count - len(failed), len(failed)))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
