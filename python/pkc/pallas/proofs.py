"""Proofs that a function of JAX with kernels equals one without: both become programs of the language, which `pkc prove` compares."""
import json
import os
import re
import tempfile

import jax
import numpy
from jax.experimental import pallas as pl
from jax.extend import core as jex

from pkc import _reports
from pkc._kernel import _as_numpy
from pkc._tool import PROGRAM, run_program
from pkc.pallas import lowering
from pkc.pallas.errors import TranslationError
from pkc.pallas.launch import Text
from pkc.pallas.reports import _CALLS, _Walk, _bind_params, _lines_of, _with_python
from pkc.pallas.values import dtype_name, is_key, shape_text

_VERDICTS = {0: "proved", 3: "refuted", 4: "undecided", 5: "equal on drawn orders"}


class _Node:
    """An array of a function: `name` in the program, else result `index` of an equation on other nodes.

    `value`: its elements, where they follow from constants and from integers that were given.
    """

    def __init__(self, aval, name=None, equation=None, operands=(), index=0, value=None):
        self.aval, self.name, self.equation, self.operands, self.index, self.value = aval, name, equation, operands, index, value

    @property
    def is_known(self):
        """Whether it is an array of the integers that were given, or of others that JAX computed from them."""
        return self.value is not None and not jax.numpy.issubdtype(self.aval.dtype, jax.numpy.inexact)

    @property
    def is_number(self):
        """Whether it is a constant that can be written in the text."""
        return self.name is None and (self.equation is None or self.is_known)


class _Inputs:
    """The inputs of both programs: the function's arguments, then constant arrays."""

    def __init__(self, leaves):
        self.names, self.avals, self.data, self._constants = [], [], {}, {}
        self.nodes = [self._argument(k, leaf) for k, leaf in enumerate(leaves)]

    def _argument(self, k, leaf):
        aval = jax.core.ShapedArray(jax.numpy.shape(leaf), jax.dtypes.canonicalize_dtype(leaf.dtype if hasattr(leaf, "dtype") else type(leaf)))
        known = not isinstance(leaf, jax.ShapeDtypeStruct) and not jax.numpy.issubdtype(aval.dtype, jax.numpy.inexact)
        return _Node(aval, self._add("x%d" % k, aval, numpy.asarray(leaf) if known else None), value=numpy.asarray(leaf) if known else None)

    def _add(self, name, aval, data):
        if dtype_name(aval.dtype) is None or is_key(aval.dtype):
            raise TranslationError("pkc.pallas: an array of dtype %s cannot be looked at: pass one of a dtype that docs/language.md lists" % aval.dtype)
        self.names.append(name)
        self.avals.append(aval)
        if data is not None:
            self.data[name] = data
        return name

    def constant(self, value):
        """The name of a constant array; equal ones are one."""
        value = numpy.asarray(value)
        key = (value.shape, str(value.dtype), value.tobytes())
        if key not in self._constants:
            self._constants[key] = self._add("c%d" % len(self._constants), jax.core.ShapedArray(value.shape, value.dtype), value)
        return self._constants[key]


class _Program(_Walk):
    """Splits a jaxpr into kernels: each pallas_call is one, and so are the operations between them that it needs."""

    def __init__(self, name, inputs):
        super().__init__(None)
        self.name, self.inputs = name, inputs
        self.texts, self.places, self.calls, self.count = [], [], [], 0

    # ---- equations

    def bind(self, e, values):
        functions, params = _bind_params(e)
        known = all(v.value is not None for v in values)
        made = e.primitive.bind(*functions, *[v.value for v in values], **params) if known else None
        made = made if made is None or e.primitive.multiple_results else [made]
        return [_Node(var.aval, equation=e, operands=values, index=k, value=None if made is None else numpy.asarray(made[k]))
                for k, var in enumerate(e.outvars)]

    def literal(self, value):
        value = numpy.asarray(value)
        return _Node(jax.core.ShapedArray(value.shape, value.dtype), value=value)

    def scalar(self, value):
        if value.value is None:
            raise TranslationError("pkc.pallas: which way %s goes around a kernel depends on data" % self.name)
        return value.value

    def _traced(self, function, nodes):
        closed = jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(node.aval.shape, node.aval.dtype) for node in nodes])
        return self._closed(closed, nodes)[0]

    def row(self, x, n, t):
        return self._traced(lambda array: array[t], [x])

    def stacked(self, rows, aval):
        return self._traced(lambda *all_rows: jax.numpy.stack(all_rows) if all_rows else jax.numpy.zeros((0, *aval.shape), aval.dtype), rows)

    def on_devices(self, p, values):
        raise TranslationError("pkc.pallas: a kernel in a shard_map cannot be proved")

    def _equation(self, e, values):
        return self._kernel(e, values) if e.primitive.name in _CALLS else super()._equation(e, values)

    # ---- kernels

    def _kernel(self, e, values):
        functions, params = _bind_params(e)
        text = self._translated(lambda *a: e.primitive.bind(*functions, *a, **params), [var.aval for var in e.invars])
        if len(text.outputs) != len(e.outvars):
            raise TranslationError("pkc.pallas: a kernel that hands a semaphore to another cannot be proved")
        aliased = {k for k, _ in text.aliases}
        read = _prefetched(text)
        wanted = [values[k] for at, k in enumerate(text.order) if at not in read or values[k].value is None]
        self._materialise([v for v in wanted if v.name is None])
        names = []
        for at, k in enumerate(text.order):
            v = values[k]
            name = self.inputs.constant(v.value) if at in read and v.value is not None else v.name
            names.append(self._copied(v) if k in aliased else name)
        results = [_Node(var.aval, self._fresh()) for var in e.outvars]
        self._call(text, names, [r.name for r in results] + [self._fresh() for _ in text.own])
        return results

    def _translated(self, function, avals):
        found = []
        with lowering.observed(found.append, only=True):
            jax.jit(function).lower(*[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals])
        return found[0]

    def _fresh(self):
        self.count += 1
        return "v%d" % self.count

    def _call(self, text, operands, results):
        name = "%s_%d" % (text.name, len(self.calls))
        self.texts.append(text.named(name))
        self.places.append(text.places)
        self.calls.append("  let %s = %s(%s);" % (", ".join(results), name, ", ".join(operands)))

    # ---- operations between kernels

    def _copied(self, node):
        name = self._fresh()
        self._compute([node], [name])
        return name

    def _materialise(self, nodes):
        nodes = list({id(node): node for node in nodes}.values())
        for node in nodes:
            node.name = self.inputs.constant(node.value) if node.is_known else None
        nodes = [node for node in nodes if node.name is None]
        if nodes:
            names = [self._fresh() for _ in nodes]
            self._compute(nodes, names)
            for node, name in zip(nodes, names):
                node.name = name

    def _leaves(self, nodes):
        """(named arrays, equations in order) from which the nodes are computed."""
        arrays, equations, seen = [], [], set()
        stack = [(node, False) for node in reversed(nodes)]
        while stack:
            node, done = stack.pop()
            key = id(node) if node.name or node.is_number else id(node.operands)
            if done:
                equations.append(node)
            elif key not in seen:
                seen.add(key)
                if node.name:
                    arrays.append(node)
                elif not node.is_number:
                    stack.append((node, True))
                    stack += [(operand, False) for operand in reversed(node.operands)]
                elif node.value.ndim and (node.value != node.value.flat[:1]).any():
                    node.name = self.inputs.constant(node.value)
                    arrays.append(node)
        return arrays, equations

    def _compute(self, nodes, names):
        """A call of a kernel that computes these nodes from whole arrays."""
        arrays, equations = self._leaves(nodes)

        def value_of(node, env):
            if id(node) in env:
                return env[id(node)]
            if node.is_number:
                return _number(node.value)
            return env[id(node.operands)][node.index]

        def body(*refs):
            env = {id(node): ref[...] for node, ref in zip(arrays, refs)}
            for node in equations:
                e = node.equation
                functions, params = _bind_params(e)
                made = e.primitive.bind(*functions, *[value_of(operand, env) for operand in node.operands], **params)
                env[id(node.operands)] = made if e.primitive.multiple_results else [made]
            for node, ref in zip(nodes, refs[len(arrays):]):
                ref[...] = jax.numpy.broadcast_to(value_of(node, env), ref.shape)
        shapes = [jax.ShapeDtypeStruct(node.aval.shape, node.aval.dtype) for node in nodes]
        call = pl.pallas_call(body, out_shape=shapes, name=self.name)
        self._call(self._translated(call, [node.aval for node in arrays]), [node.name for node in arrays], names)

    # ---- the text

    def finish(self, results):
        names = ["o%d" % k for k in range(len(results))]
        self._compute(results, names)
        self.calls[-1] = self.calls[-1].replace("let ", "", 1)
        self.results = [node.aval for node in results]

    def text(self):
        """Its Text, once the inputs of both programs are known."""
        def typed(names, avals):
            return ", ".join("%s: %s%s" % (n, dtype_name(a.dtype), shape_text(a.shape)) for n, a in zip(names, avals))
        outputs = typed(["o%d" % k for k in range(len(self.results))], self.results)
        head = "program %s_program(%s) -> (%s) {" % (self.name, typed(self.inputs.names, self.inputs.avals), outputs)
        lines = "".join(self.texts) + "\n".join([head, *self.calls, "}", ""])
        places = [place for places in self.places for place in places]
        return Text(self.name, lines, places + [None] * (lines.count("\n") - len(places)), (), (), ())


def _prefetched(text):
    """The positions of a kernel's operands whose elements are known before it runs."""
    found = re.search(r"(?m)^  prefetch (.*);$", text.text)
    return set(range(len(found.group(1).split(": ")) - 1)) if found else set()


def _number(value):
    """A constant whose elements are all equal, within a kernel."""
    return value[()] if not value.ndim else jax.numpy.full(value.shape, value.flat[0] if value.size else 0, value.dtype)


def _program(name, function, args, inputs):
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    program = _Program(name, inputs)
    program.finish(program.run(closed.jaxpr, [program.literal(c) for c in closed.consts], inputs.nodes))
    return program, shape


class Proof(_reports.Report):
    """The verdict of `pkc prove`. True if it is "proved". `verdict`: the word; `data`: the output of `pkc prove --json`."""

    def __init__(self, text, data):
        super().__init__(text)
        self.data, self.verdict = data, data["verdict"]

    def __bool__(self):
        return self.verdict == "proved"


def prove(f, reference, *args, seed=None, max_time=None):
    """Decides whether f(*args), which calls Pallas kernels, is reference(*args), in exact arithmetic, for all floats.

    Only shapes and dtypes of floats matter; integers and bools have the given values where control flow or indices depend on them.
    """
    inputs = _Inputs(jax.tree.leaves(args))
    kernel, made = _program("kernel", f, args, inputs)
    meaning, wanted = _program("reference", reference, args, inputs)
    for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(wanted), strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError("pkc.pallas: the function returns %s%s, the reference %s%s" % (a.dtype, list(a.shape), b.dtype, list(b.shape)))
    texts = kernel.text(), meaning.text()
    options = [word for name, value in (("seed", seed), ("max-time", max_time)) if value is not None for word in ("--" + name, str(value))]
    return _run(texts, inputs.data, options)


def _run(texts, data, options):
    with tempfile.TemporaryDirectory(prefix="pkc-") as folder:
        for text in texts:
            with open(os.path.join(folder, text.name + ".pk"), "w", encoding="utf-8") as file:
                file.write(text.text)
        words = ["%s=%s.npy" % (name, name) for name in data]
        for name, value in data.items():
            numpy.save(os.path.join(folder, name + ".npy"), _as_numpy(value))
        command = [PROGRAM, "prove", texts[0].name + ".pk", "--against", texts[1].name + ".pk", *words, *options]
        said = run_program(command, cwd=folder)
        out, err = (text.decode("utf-8", "replace") for text in (said.stdout, said.stderr))
        if said.returncode not in _VERDICTS:
            raise TranslationError("pkc.pallas: " + "\n".join(_with_python(text, err) for text in texts if text.name + ".pk:" in err) or err)
        json_said = run_program([*command, "--json"], cwd=folder).stdout.decode("utf-8", "replace")
    for word in words:
        out = out.replace(word + " ", "").replace(word, "")
    out = re.sub(r"for 1 draw of the integers .*", "for the integers that were given", out)
    out = re.sub(r"^(kernel_program)?: ", "", out.strip())
    return Proof(out + _lines_of(texts[0], out), json.loads(json_said.splitlines()[-1]))
