"""Kernels whose subcores wait for each other: what each does between two barriers is a phase, and a phase of all subcores runs before the next one.

The grid has an axis of phases before the one of subcores, and every subcore has memories of its own. A value of an earlier phase is computed again,
or kept in scratch if memory was read for it.
"""
import jax
from jax.extend import core as jex

from pkc import _versions
from pkc.pallas.errors import place_of, refuse
from pkc.pallas.translate import SPARSE, key_of
from pkc.pallas.values import ADD, Value, physical_shape, shape_text
from pkc.pallas.window import Part, Window, scalar

_BARRIER, _ADD = (SPARSE, "barrier"), (SPARSE, "sc_fetch_and_add")
_MOST = 256  # phases
_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
_ADVICE = "All subcores run one phase before the next: a barrier may be in loops of constant length, and not in branches."


# ---- barriers

def _inner(equation):
    """The jaxprs of an equation's parameters."""
    for value in equation.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            found = getattr(one, "jaxpr", one)
            if hasattr(found, "eqns"):
                yield found


def _has(equation, keys):
    return key_of(equation.primitive) in keys or any(_has(inner, keys) for jaxpr in _inner(equation) for inner in jaxpr.eqns)


def waits(jaxpr):
    """Whether subcores wait for each other, or reach into each other's memory."""
    return any(_has(equation, (_BARRIER, _ADD)) for equation in jaxpr.eqns)


def _nested(equation):
    """Whether the equation has a barrier inside, and is none; or may have scratch that other subcores add to."""
    keys = (_BARRIER, _ADD) if equation.primitive.name in (*_CALLS, "run_scoped") else (_BARRIER,)
    return key_of(equation.primitive) != _BARRIER and _has(equation, keys)


def _unfold(equation):
    """(jaxpr, how often it runs) of an equation with a barrier inside."""
    name, p = equation.primitive.name, equation.params
    if name in _CALLS:
        return p[_CALLS[name]], 1
    if name == "run_scoped":
        return p["jaxpr"], 1
    if name == "scan" and p["length"] <= _MOST and not p["reverse"]:
        consts, carries = _versions.of(jax).scan(p)
        if (consts + carries, carries) == (len(equation.invars), len(equation.outvars)):
            return p["jaxpr"], p["length"]
    return refuse("a barrier of subcores in `%s`" % name, place_of(equation), _ADVICE)


def _scoped(jaxpr):
    """The types of the scratch of every `run_scoped` with a barrier inside, in the order in which they are entered."""
    for equation in jaxpr.eqns:
        if _nested(equation):
            inner, times = _unfold(equation)
            for _ in range(times):
                if equation.primitive.name == "run_scoped":
                    yield from (var.aval for var in inner.invars)
                yield from _scoped(getattr(inner, "jaxpr", inner))


def flattened(jaxpr, names):
    """The jaxpr whose barriers are in no loop or call, and the types of the scratch that it takes beside: that of `run_scoped`. `names`: [(axis, extent)]."""
    if not any(_nested(equation) for equation in jaxpr.eqns):
        return jaxpr, []
    from jax._src import core as jax_core
    scratch = list(_scoped(jaxpr))

    def function(*operands):
        given = len(jaxpr.invars)
        _evaluate(jaxpr, (), operands[:given], iter(operands[given:]))
        return ()
    with jax_core.extend_axis_env_nd(names):
        found = _versions.of(jax).traced(function, [*(var.aval for var in jaxpr.invars), *scratch])
    return getattr(found, "jaxpr", found), scratch


def _evaluate(jaxpr, captured, operands, scratch):
    """Traces a jaxpr, with those that have barriers in the places of their calls."""
    from jax._src import source_info_util
    consts = getattr(jaxpr, "consts", ()) if captured is None else captured
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands]))

    def read(atom):
        return atom.val if isinstance(atom, jex.Literal) else env[atom]
    for equation in jaxpr.eqns:
        values = [read(atom) for atom in equation.invars]
        if _nested(equation):
            inner, times = _unfold(equation)
            if equation.primitive.name == "run_scoped":
                results = _evaluate(inner, values, [next(scratch) for _ in inner.invars], scratch)
            else:
                consts = _versions.of(jax).scan(equation.params)[0] if equation.primitive.name == "scan" else 0
                results = values[consts:]
                for _ in range(times):
                    results = _evaluate(inner, None, [*values[:consts], *results], scratch)
        else:
            found = equation.primitive.get_bind_params(equation.params)
            functions, params = found if isinstance(found, tuple) else ((), found)  # before 0.12: functions, too
            with source_info_util.user_context(equation.source_info.traceback), equation.ctx.manager:
                results = equation.primitive.bind(*functions, *values, **params)
            results = results if equation.primitive.multiple_results else [results]
        env.update(zip(equation.outvars, results))
    return [read(atom) for atom in jaxpr.outvars]


# ---- a memory for each subcore

def of_each(ref, axis):
    """The part of a subcore of what all have, along the first axis."""
    window = Window(ref)
    window.entries[0] = Value(axis, (), "i32", index=True)
    return Part(window)


# ---- the body

class Phases:
    """The phases of a jaxpr, and the values that one has of an earlier one. `axis`, `name`: the axes of subcores and of phases; `extent`: how many subcores."""

    def __init__(self, jaxpr, extent):
        self.jaxpr, self.extent, self.axis, self.name = jaxpr, extent, None, None
        self.parts = [[]]
        for equation in jaxpr.eqns:
            if key_of(equation.primitive) == _BARRIER:
                self.parts.append([])
            else:
                self.parts[-1].append(equation)
        if len(self.parts) > _MOST:
            refuse("%d barriers of subcores" % (len(self.parts) - 1), None, "Have fewer iterations.")
        self.born = {var: (k, equation) for k, part in enumerate(self.parts) for equation in part for var in equation.outvars}
        self.plain = set()  # can be computed again
        for _, equation in self.born.values():
            reads = any(type(effect).__name__ != "NamedAxisEffect" for effect in equation.effects)  # an index of the grid has that one
            if not reads and all(self._is_plain(atom) for atom in equation.invars):
                self.plain.update(equation.outvars)

    def _is_plain(self, atom):
        return isinstance(atom, jex.Literal) or atom in self.plain or atom not in self.born and not hasattr(atom.aval, "inner_aval")

    def _wanted(self, k):
        """(equations to compute again, kept values to read) of a phase."""
        again, read, left = set(), set(), [atom for equation in self.parts[k] for atom in equation.invars]
        while left:
            atom = left.pop()
            born, equation = (k, None) if isinstance(atom, jex.Literal) else self.born.get(atom, (k, None))
            if born == k or id(equation) in again or atom in read:
                continue
            if atom in self.plain:
                again.add(id(equation))
                left += equation.invars
            else:
                read.add(atom)
        return again, read

    def write(self, tr, operands):
        writer, kept = tr.writer, {}
        wanted = [self._wanted(k) for k in range(len(self.parts))]
        for var in {var for _, read in wanted for var in read}:
            if hasattr(var.aval, "inner_aval"):
                tr.refuse("a ref that is made before a barrier of subcores and used after it", "Use scratch of the kernel, or run_scoped.")
            name, shape = writer.name("kept"), physical_shape(var.aval)
            tr.hoisted.append("%s: vmem %s%s" % (name, tr.dtype(var), shape_text((self.extent, *shape))))
            kept[var] = Value("%s[%s]" % (name, self.axis), shape, tr.dtype(var), reads=True)
        tr._count(self.jaxpr)
        for var in self.born:
            tr.uses[var] += tr.uses[var] and len(self.parts)  # in several phases
        for var, operand in zip(self.jaxpr.invars, operands):
            tr.bind_operand(var, operand)
        for k, part in enumerate(self.parts):
            again, read = wanted[k]
            writer.open("when %s == %d" % (self.name, k))
            for equation in (one for before in self.parts[:k] for one in before if id(one) in again):
                tr.equation(equation)
            for var in read:
                tr.env[var] = Value(kept[var].text, kept[var].shape, kept[var].dtype, reads=True)
                tr.held(tr.env[var])
            for equation in part:
                tr.equation(equation)
            for var in kept:
                if self.born[var][0] == k:
                    value = tr.read(var).thin
                    writer.line("%s = %s;" % (kept[var].text, value.typed))
            writer.flush()
            writer.pending = []
            writer.close()


def _fetch_and_add(tr, equation):
    """Adds to the memory of a subcore; another one adds before or after it."""
    atom, value, *indices, subcore = equation.invars
    ref = tr.env[atom]
    if not isinstance(ref, Part):
        tr.refuse("`fetch_and_add` to a ref that is not scratch of the kernel", "Use scratch of the kernel in SMEM.")
    window = Window(ref.whole)
    window.entries = [scalar(tr, index) for index in (subcore, *indices)]
    old = Value(window.text(), (), ref.dtype, reads=True)
    tr.writer.let(old, "old")
    for one in (ref, window.ref):
        one.touched = one.stored = True
    tr.writer.effect("%s = %s + %s;" % (window.text(window.ref.store), old.text, tr.read(value).at(ADD + 1)))
    return old


def _barrier(tr, equation):
    tr.refuse("a barrier of subcores here", _ADVICE)


RULES = {_BARRIER: _barrier, _ADD: _fetch_and_add}
