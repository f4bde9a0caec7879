"""Jaxprs to statements: values, refs and the walk over equations. The rules of the primitives are in `rules`."""
import collections
import re
import sys

import jax
import numpy
from jax.extend import core as jex

from pkc.pallas.errors import LEFT, TranslationError, place_of, refuse, unknown
from pkc.pallas.values import INLINED, Value, dtype_name, is_word, literal


def key_of(primitive):
    """What the rule of a primitive is found by. Some of SparseCore have the names of others."""
    module = sys.modules.get("jax._src.pallas.mosaic.sc_primitives")
    own = module is not None and getattr(module, primitive.name.removeprefix("sc_") + "_p", None)
    return (SPARSE, primitive.name) if own is primitive else primitive.name


SPARSE = "SparseCore"


class Ref:
    """A name in memory: an operand, scratch, a semaphore, or a view."""

    def __init__(self, name, shape, dtype, space, store=None):
        self.name, self.shape, self.dtype, self.space = name, tuple(shape), dtype, space
        self.store = store or name  # where stores go: an input that an output aliases is that output
        self.touched = False  # read or written, not only copied
        self.stored = False
        self.role = None  # "input" or "output", of the kernel
        self.pipelined = False  # a pipeline in the body moves its blocks
        self.parted = False  # the body sees a part of it
        self.lasting = False  # a semaphore that one call hands to another
        self.of = None  # of a view: what it is a view of

    @property
    def root(self):
        """The operand or scratch that a view, or a view of a view, refers to."""
        return self.of.root if self.of is not None else self


class Translator:
    """Translates jaxprs into a writer's statements.

    `axes` are the names of the grid's axes that the kernel sees; in a step of a pipeline that became copies, pairs (index, extent).
    """

    def __init__(self, writer, axes=(), rules=None, declaring=False):
        self.writer, self.axes, self.rules = writer, axes, rules
        self.declaring = declaring  # among declarations, where only `let` is allowed
        self.env, self.uses = {}, collections.Counter()
        self.wanted = {}  # names for values that Python gives a name to
        self.hoisted, self.scoped = [], 0  # scratch that statements ask for, and the bytes of all that they have
        self.prng = None  # the state of the generator that TPUs have, where the kernel draws from it
        self.devices = None  # the mesh of shard_map, in a body
        self.sums = {}  # by the names of a semaphore and a target: whether copies on it add
        self.all_names = {}  # (axis, extent) of the grid's axes that have names, for axis_index

    # ---- the environment

    def read(self, atom):
        """A value or ref of the jaxpr; its text will be used once."""
        if isinstance(atom, jex.Literal):
            return self._literal(atom)
        value = self.env[atom]
        if isinstance(value, Value):
            self.writer.take(value.thin)
            self.writer.take(value)
        return value

    def _literal(self, atom):
        dtype = dtype_name(atom.aval.dtype)
        if dtype is None:
            self.refuse("a constant of dtype %s" % atom.aval.dtype)
        value = numpy.asarray(atom.val)
        if value.ndim:
            if value.size and (value == value.flat[0]).all():
                return Value(None, value.shape, dtype, base=literal(value.flat[0], dtype))
            self.refuse("an array of constants of shape %s" % (value.shape,), "Pass it as an input, or make it with iota.")
        return literal(value[()], dtype)

    def atom(self, atom):
        """A value whose text may be used several times."""
        value = self.read(atom)
        return self.held(value)

    def held(self, value):
        """The value, which gets a name unless its text is one word."""
        inner = value.thin
        if inner.reads or not is_word(inner.text):
            self.writer.let(value, "v")
        return value

    def define(self, var, value, wanted="v"):
        """Binds a variable of the jaxpr to an expression."""
        self.env[var] = value
        if not isinstance(value, Value):
            return
        uses, inner = self.uses[var], value.thin
        if not inner.reads and is_word(inner.text):
            return
        if inner.constant and uses:
            return
        wanted = self.wanted.get(var, wanted)
        if uses == 0:
            return
        if uses == 1 and (len(inner.text) <= INLINED or inner.forms) and (var not in self.wanted or inner.index):
            self.writer.postpone(value, wanted)
        else:
            self.writer.let(value, wanted)

    def refuse(self, what, advice=""):
        refuse(what, self.writer.place, advice)

    # ---- the walk

    def run(self, jaxpr, operands):
        """Writes the statements of a jaxpr, and returns its results."""
        self._count(jaxpr)
        for var, operand in zip(jaxpr.invars, operands):
            self.bind_operand(var, operand)
        for equation in jaxpr.eqns:
            self.equation(equation)
        return [self.read(var) for var in jaxpr.outvars]

    def bind_operand(self, var, operand):
        """An operand of an inner jaxpr: named if it is used several times."""
        if isinstance(operand, Value) and self.uses[var] != 1:
            inner = operand.thin
            if self.uses[var] and not inner.constant and (inner.reads or not is_word(inner.text)):
                self.writer.let(operand, "v")
        elif isinstance(operand, Value) and (operand.reads or operand.thin.reads):
            self.writer.postpone(operand, "v")
        self.env[var] = operand

    def _count(self, jaxpr):
        last = {}
        for equation in jaxpr.eqns:
            for var in equation.invars:
                if not isinstance(var, jex.Literal):
                    self.uses[var] += 1
            if equation.outvars:
                last[place_of(equation)] = equation
        for var in jaxpr.outvars:
            if not isinstance(var, jex.Literal):
                self.uses[var] += 1
        for place, equation in last.items():
            found = re.match(r"([A-Za-z_]\w*)\s*=(?!=)", place.text) if place else None
            if found:
                self.wanted[equation.outvars[0]] = found.group(1)

    def equation(self, equation):
        writer = self.writer
        outer, place = writer.place, place_of(equation)
        if place:
            writer.place = place
        rule = self.rules.get(key_of(equation.primitive))
        if rule is None:
            self.refuse("the primitive `%s` has no translation" % equation.primitive.name,
                        "Say it with other operations, or " + LEFT)
        if equation.outvars and not equation.effects and not any(self.uses[var] for var in equation.outvars):
            return
        try:
            result = rule(self, equation)
        except TranslationError:
            raise
        except Exception as error:  # a form that the rule does not know, or another version of JAX; the cause says more
            raise unknown("this form of `%s`" % equation.primitive.name, writer.place, "Say it with other operations, or " + LEFT) from error
        if result is not None:
            results = result if isinstance(result, (list, tuple)) else [result]
            for var, value in zip(equation.outvars, results):
                self.define(var, value)
        writer.place = outer

    def inline(self, jaxpr, operands, captured=None):
        """An inner jaxpr in the place of its call. Variables are shared by all calls, so bindings are renewed. `captured`: values of
        its constants, where the equation passes them."""
        if captured is None:
            captured = [self.constant(const) for const in getattr(jaxpr, "consts", ())]
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        for var, value in zip(jaxpr.constvars, captured):
            self.env[var] = value
        saved, self.uses = self.uses, collections.Counter()
        try:
            return self.run(jaxpr, operands)
        finally:
            self.uses = saved

    def constant(self, value):
        value = numpy.asarray(value)
        dtype = dtype_name(value.dtype)
        if value.ndim == 0 and dtype:
            return literal(value[()], dtype)
        if dtype and value.size and (value == value.flat[0]).all():
            return Value(None, value.shape, dtype, base=literal(value.flat[0], dtype))
        return self.refuse("a captured array of shape %s" % (value.shape,), "Pass it to the kernel as an input.")

    def dtype(self, var):
        name = dtype_name(var.aval.dtype)
        if name is None:
            self.refuse("the dtype %s has no counterpart" % var.aval.dtype)
        return name


def tree_of(equation, key, skip=0):
    """The contents of a tree in an equation's parameters, with the equation's variables in place."""
    return jax.tree.unflatten(equation.params[key], equation.invars[skip:])
