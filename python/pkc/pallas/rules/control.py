"""Branches, loops, calls, scratch of a block, and other non-numeric primitives."""
import copy
import itertools
import math
import re

import jax
from jax.extend import core as jex

from pkc import _versions
from pkc.pallas.translate import Ref
from pkc.pallas.values import (ADD, ATOM, UNARY, Value, bits_of, broadcast, dtype_name, is_float, is_integer, is_key, literal,
                               memory_of, physical_shape, shape_text)


# ---- variables

def declare(tr, var, wanted, start=None):
    """Declares a variable for a value of the jaxpr, and returns its value."""
    shape, dtype = physical_shape(var.aval), tr.dtype(var)
    name = tr.writer.name(wanted)
    text = {"bool": "false"}.get(dtype, "0") if start is None else start.thin.typed if start.thin.index else start.thin.text
    tr.writer.line("var %s: %s%s = %s;" % (name, dtype, shape_text(shape) if shape else "", text))
    value = Value(name + ("[...]" if shape else ""), shape, dtype)
    value.name = name
    return value


def assign(tr, variable, value):
    right = value.thin.typed if value.thin.index else value.thin.text
    if right != variable.text:
        tr.writer.line("%s = %s;" % (variable.text, right))


def assign_together(tr, variables, values):
    """Assigns variables simultaneously: a value that reads an earlier one is saved first."""
    done, values = set(), [copy.copy(value.thin) for value in values]
    for variable, value in zip(variables, values):
        if done & set(re.findall(r"\w+", value.text)):
            tr.writer.let(value, "next")
        done.add(variable.name)
    for variable, value in zip(variables, values):
        assign(tr, variable, value)


def body(tr, header, jaxpr, operands, then):
    """A block of statements; `then` receives the results inside it."""
    writer = tr.writer
    writer.open(header)
    then(tr.inline(jaxpr, operands))
    writer.pending = []
    writer.close()


# ---- cond

def _condition(value):
    """A number that is 0 or 1 as a condition."""
    if value.dtype == "bool":
        return value.text
    if value.flag is not None:
        return value.flag.text
    return "%s != 0" % value.at(ADD)


def _negated(text):
    return "!" + text if re.fullmatch(r"\w+", text) else "!(%s)" % text


def _cond(tr, equation):
    branches = equation.params["branches"]
    which = tr.read(equation.invars[0])
    if which.constant:
        taken = branches[min(max(int(which.number), 0), len(branches) - 1)]
        return tr.inline(taken, [tr.read(atom) for atom in equation.invars[1:]])
    tr.writer.flush(everything=True)
    operands = [tr.read(atom) for atom in equation.invars[1:]]
    if tr.declaring:
        return _select(tr, equation, which, branches, operands)
    used = [tr.uses[var] > 0 for var in equation.outvars]
    results = [declare(tr, var, tr.wanted.get(var, "chosen")) if use else None for var, use in zip(equation.outvars, used)]

    def keep(values):
        kept = [(r, v) for r, v in zip(results, values) if r is not None]
        assign_together(tr, [r for r, _ in kept], [v for _, v in kept])

    if len(branches) == 2:
        text = _condition(which)
        if is_empty(branches[0]) and not any(used):
            body(tr, "when " + text, branches[1], operands, keep)
        elif is_empty(branches[1]) and not any(used):
            body(tr, "when " + _negated(text), branches[0], operands, keep)
        else:
            body(tr, "if " + text, branches[1], operands, keep)
            _else(tr, "else", branches[0], operands, keep)
    elif len(branches) == 1:
        keep(tr.inline(branches[0], operands))
    else:
        name = tr.held(which).text
        body(tr, "if %s <= 0" % name, branches[0], operands, keep)
        for k, branch in enumerate(branches[1:], 1):
            _else(tr, "else if %s == %d" % (name, k) if k < len(branches) - 1 else "else", branch, operands, keep)
    return [r if r is not None else literal(0, "i32") for r in results]


def _platform_index(tr, equation):
    """The branch of jax.lax.platform_dependent for a CPU: its own, or the default."""
    for wanted in ("cpu", None):
        for k, names in enumerate(equation.params["platforms"]):
            if names == wanted or wanted in (names or ()):
                return literal(k, tr.dtype(equation.outvars[0]))
    return tr.refuse("`platform_dependent` without a branch for CPUs", "Give it a default.")


def _else(tr, header, jaxpr, operands, then):
    tr.writer.lines.pop()
    tr.writer.places.pop()
    body(tr, "} " + header, jaxpr, operands, then)


def is_empty(jaxpr):
    return not jaxpr.jaxpr.eqns


def _select(tr, equation, which, branches, operands):
    """A selection among declarations, where both sides are expressions."""
    results = [tr.inline(branch, operands) for branch in branches]
    name = which.text if which.flag is None else None
    made = []
    for k in range(len(equation.outvars)):
        text = results[-1][k].text
        for b in range(len(branches) - 2, -1, -1):
            condition = _negated(_condition(which)) if len(branches) == 2 else "%s <= %d" % (name, b)
            text = "where(%s, %s, %s)" % (condition, results[b][k].text, text)
        made.append(Value(text, (), tr.dtype(equation.outvars[k]), index=any(r[k].index for r in results)))
    return made


# ---- loops

def counter_of(jaxpr, carries, offset):
    """The index of the carry that each iteration increments, or None."""
    inner = jaxpr.jaxpr
    made = {e.outvars[0]: e for e in inner.eqns if e.primitive.name == "add"}
    for k in range(carries):
        before, after = inner.invars[offset + k], inner.outvars[k]
        step = made.get(after) if not isinstance(after, jex.Literal) else None
        if step and step.invars[0] is before and isinstance(step.invars[1], jex.Literal) and step.invars[1].val == 1 and \
                not before.aval.shape and is_integer(dtype_name(before.aval.dtype)):
            return k
    return None


def invariants_of(jaxpr, carries, offset):
    inner = jaxpr.jaxpr
    return {k for k in range(carries) if inner.outvars[k] is inner.invars[offset + k]}


def added(value, number):
    if value.number is not None and value.constant:
        return literal(value.number + number, value.dtype)
    if number == 0:
        return value
    return Value("%s + %d" % (value.at(ADD), number), (), value.dtype, ADD, index=value.index, reads=value.reads)


def hold(tr, values):
    """Computes the values that a loop uses before the loop."""
    for value in values:
        if isinstance(value, Value):
            tr.held(value)


class Carries:
    """The carries of a loop: variables, except a counter and values that do not change."""

    def __init__(self, tr, variables, starts, jaxpr, offset, counter=None):
        same = invariants_of(jaxpr, len(starts), offset)
        self.tr, self.values, self.places = tr, list(starts), []
        for k, (var, start) in enumerate(zip(variables, starts)):
            if k == counter or k in same:
                continue
            self.places.append(k)
            self.values[k] = declare(tr, var, tr.wanted.get(var, "carry"), start)

    def update(self, values):
        assign_together(self.tr, [self.values[k] for k in self.places], [values[k] for k in self.places])


def _scan(tr, equation):
    p = equation.params
    jaxpr, length = p["jaxpr"], p["length"]
    consts, carries = _versions.of(jax).scan(p)
    _needs_statements(tr, "a loop")
    tr.writer.flush(everything=True)
    values = [tr.read(atom) for atom in equation.invars]
    starts, xs = values[consts:consts + carries], values[consts + carries:]
    if length == 1 and not xs and len(equation.outvars) == carries:  # one iteration: no loop
        return tr.inline(jaxpr, values)
    if length == 0:  # no iteration: the carries are unchanged, and the outputs have no rows
        return [*starts, *(declare(tr, var, "rows") if tr.uses[var] else literal(0, "i32") for var in equation.outvars[carries:])]
    hold(tr, [*values[:consts], *xs])
    counter = counter_of(jaxpr, carries, consts)
    kept = Carries(tr, equation.outvars[:carries], starts, jaxpr, consts, counter)
    ys = [declare(tr, var, "rows") if tr.uses[var] else None for var in equation.outvars[carries:]]
    plain = counter is not None and not xs and not ys and not p["reverse"] and starts[counter].constant
    first = starts[counter].number if plain else 0
    has_index = counter is not None or xs or any(ys)
    name = tr.writer.name("t") if has_index else "_"
    turn = Value(name, (), "i32", index=True)
    place = Value("%d - %s" % (length - 1, name), (), "i32", ADD, index=True) if p["reverse"] else turn
    inside = list(kept.values)
    if counter is not None:
        inside[counter] = turn if plain or (starts[counter].constant and starts[counter].number == 0) else \
            Value("%s + %s" % (name, starts[counter].at(ADD + 1)), (), starts[counter].dtype, ADD, index=starts[counter].index or
                  starts[counter].constant)
    rows = [_row(x, place) for x in xs]

    def then(results):
        kept_now = results[:carries]
        for y, value in zip(ys, results[carries:]):
            if y is not None:
                tr.writer.line("%s[%s] = %s;" % (y.name, place.text, value.thin.typed if value.thin.index else value.thin.text))
        kept.update(kept_now)

    if carries or ys:
        body(tr, "for %s in %d..%d" % (name, first, first + length), jaxpr, [*values[:consts], *inside, *rows], then)
    after = list(kept.values)
    if counter is not None:
        after[counter] = added(starts[counter], length)
    return [*after, *(y if y is not None else literal(0, "i32") for y in ys)]


def _row(x, place):
    return Value("%s[%s]" % (x.at(ATOM), place.text), x.shape[1:], x.dtype)


def _needs_statements(tr, what):
    if tr.declaring:
        tr.refuse("%s in an index map" % what, "Compute the index in an operand that is prefetched.")


def _bound_of(p, values, counter):
    """The bound of a counter, if the condition of a `while` is only that comparison."""
    inner, consts = p["cond_jaxpr"].jaxpr, p["cond_nconsts"]
    if counter is None or len(inner.eqns) != 1 or inner.eqns[0].primitive.name != "lt" or inner.outvars[0] is not inner.eqns[0].outvars[0]:
        return None
    left, right = inner.eqns[0].invars
    if isinstance(left, jex.Literal) or left is not inner.invars[consts + counter]:
        return None
    if isinstance(right, jex.Literal):
        return literal(right.val, dtype_name(right.aval.dtype))
    place = list(inner.invars).index(right)
    if place < consts:
        return values[place]
    carry = place - consts
    same = invariants_of(p["body_jaxpr"], len(inner.invars) - consts, p["body_nconsts"])
    return values[consts + p["body_nconsts"] + carry] if carry in same else None


def _while(tr, equation):
    p = equation.params
    a, b = p["cond_nconsts"], p["body_nconsts"]
    _needs_statements(tr, "a loop")
    if p["cond_jaxpr"].out_avals[0].shape:
        return _while_any(tr, equation)
    tr.writer.flush(everything=True)
    values = [tr.read(atom) for atom in equation.invars]
    starts = values[a + b:]
    hold(tr, values[:a + b])
    counter = counter_of(p["body_jaxpr"], len(starts), b)
    bound = _bound_of(p, values, counter)
    if bound is not None:
        return _counted(tr, equation, values[a:a + b], starts, counter, bound)
    kept = Carries(tr, equation.outvars, starts, p["body_jaxpr"], b)
    writer = tr.writer
    writer.open("while true")
    header = len(writer.lines) - 1
    condition, = tr.inline(p["cond_jaxpr"], [*values[:a], *kept.values])
    if all(line.strip().startswith("//") for line in writer.lines[header + 1:]):
        del writer.lines[header + 1:], writer.places[header + 1:]
        writer.lines[header] = writer.lines[header].replace("while true", "while " + condition.text)
    else:
        writer.line("when %s { break; }" % _negated(condition.text))
    kept.update(tr.inline(p["body_jaxpr"], [*values[a:a + b], *kept.values]))
    writer.pending = []
    writer.close()
    return kept.values


def _while_any(tr, equation):
    """A batched `while` continues while the condition of any element holds; the other elements keep their values."""
    p = equation.params
    a, b = p["cond_nconsts"], p["body_nconsts"]
    if any(hasattr(atom.aval, "inner_aval") for atom in equation.invars):
        tr.refuse("a batched `while` that accesses a ref", "Carry the values, and store them after the loop.")
    holds, step = jex.jaxpr_as_fun(p["cond_jaxpr"]), jex.jaxpr_as_fun(p["body_jaxpr"])

    def function(*operands):
        def kept(carry):
            on, = holds(*operands[:a], *carry)
            return [jax.numpy.where(on.reshape(on.shape + (1,) * (old.ndim - on.ndim)), new, old)
                    for new, old in zip(step(*operands[a:a + b], *carry), carry)]
        return jax.lax.while_loop(lambda carry: holds(*operands[:a], *carry)[0].any(), kept, list(operands[a + b:]))
    return traced(tr, function, equation.invars)


def _counted(tr, equation, consts, starts, counter, bound):
    """A `while` that counts up to a bound is a `for`."""
    jaxpr = equation.params["body_jaxpr"]
    kept = Carries(tr, equation.outvars, starts, jaxpr, len(consts), counter)
    name = tr.writer.name("t")
    inside = list(kept.values)
    inside[counter] = Value(name, (), starts[counter].dtype, index=True)
    first, last = starts[counter], bound
    body(tr, "for %s in %s..%s" % (name, first.at(UNARY), last.at(UNARY)), jaxpr, [*consts, *inside], kept.update)
    after = list(kept.values)
    after[counter] = Value("max(%s, %s)" % (first.text, last.typed), (), first.dtype, index=first.index and last.index)
    return after


# ---- calls

def _call(key):
    def rule(tr, equation):
        return tr.inline(equation.params[key], [tr.read(atom) for atom in equation.invars])
    return rule


_FLOORED = {"floor_divide": "floordiv", "remainder": "mod"}


def _jit(tr, equation):
    name, jaxpr = equation.params.get("name"), equation.params["jaxpr"]
    if name in _FLOORED and len(equation.invars) == 2 and _is_numpy(jaxpr):
        dtypes = {dtype_name(atom.aval.dtype) for atom in [*equation.invars, *equation.outvars]}
        if len(dtypes) == 1 and is_integer(next(iter(dtypes))):
            from pkc.pallas.rules.elementwise import function
            return function(_FLOORED[name], index=True)(tr, equation)
    operands = [tr.read(atom) for atom in equation.invars]
    return tr.inline(jaxpr, operands)


def _is_numpy(jaxpr):
    """Is it JAX's own function of that name?"""
    info = getattr(jaxpr.jaxpr, "debug_info", None)
    return "/jax/_src/numpy/" in (getattr(info, "func_filename", None) or "").replace("\\", "/")


def _custom_vjp(tr, equation):
    p = equation.params
    return tr.inline(p.get("call_jaxpr") or p["fun_jaxpr"], [tr.read(atom) for atom in equation.invars])


def _custom_fusion(tr, equation):
    """A function of JAX's fuser: its form inside a kernel, if it has one."""
    p, values = equation.params, [tr.read(atom) for atom in equation.invars]
    first = p["num_consts"]
    operands = first + p["pallas_num_consts"]
    if p["pallas_jaxpr"] is not None:
        return tr.inline(p["pallas_jaxpr"], values[operands:], captured=values[first:operands])
    return tr.inline(p["jaxpr"], values[operands:], captured=values[:first])


def traced(tr, function, atoms):
    """The inlined result of a JAX function for these values."""
    avals = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in atoms]
    return tr.inline(jax.make_jaxpr(function)(*avals), [tr.read(atom) for atom in atoms])


def as_function(function):
    """The rule of a primitive that is expressed by other JAX functions."""
    return lambda tr, equation: traced(tr, function, equation.invars)


# ---- scratch in a block

def scratch_text(tr, name, aval, each=()):
    """The declaration of scratch, and its ref; `each`: the extents of axes before its own."""
    inner = aval.inner_aval
    shape, kind = (*each, *physical_shape(inner)), str(inner.dtype)
    for word, space in (("dma", "sem dma"), ("barrier", "sem barrier"), ("sem", "sem regular")):
        if kind.startswith(word):
            return "%s: %s%s" % (name, space, shape_text(shape) if shape else ""), Ref(name, shape, None, "sem")
    dtype = dtype_name(inner.dtype)
    if dtype is None:
        tr.refuse("scratch of dtype %s" % inner.dtype)
    space = "smem" if memory_of(aval) == "smem" else "vmem"
    ref = Ref(name, shape, dtype, space)
    return "%s: %s %s%s" % (name, space, ref.dtype, shape_text(shape)), ref


def scratch_bytes(aval):
    """Its size on a TPU: the last two axes in whole tiles."""
    inner = aval.inner_aval
    if dtype_name(inner.dtype) is None:
        return 0
    return tile_bytes(physical_shape(inner), 4 if is_key(inner.dtype) else inner.dtype.itemsize)


def tile_bytes(shape, size):
    """The size of an array on a TPU, with elements of `size` bytes."""
    shape = [1, 1, *(int(n) for n in shape)]
    return math.prod(shape[:-2]) * (-(-shape[-2] // 32) * 32) * (-(-shape[-1] // 128) * 128) * size


def _run_scoped(tr, equation):
    jaxpr = equation.params["jaxpr"]
    _needs_statements(tr, "`run_scoped`")
    tr.writer.flush(everything=True)
    values = [tr.read(atom) if not isinstance(tr.env.get(atom) if not isinstance(atom, jex.Literal) else None, Ref) else tr.env[atom]
              for atom in equation.invars]
    results = [declare(tr, var, "result") if tr.uses[var] else None for var in equation.outvars]
    names = list(getattr(jaxpr.debug_info, "arg_names", None) or [])
    texts, refs = [], []
    for k, var in enumerate(jaxpr.invars):
        text, ref = scratch_text(tr, tr.writer.name(names[k] if k < len(names) and names[k] else "scratch"), var.aval)
        texts.append(text)
        tr.scoped += scratch_bytes(var.aval)
        refs.append(ref)
    if tr.devices is not None and tr.devices.apart:  # other devices reach what the kernel has as long as it runs
        tr.hoisted += texts
        texts = []
    tr.writer.open("scoped " + ", ".join(texts)) if texts else tr.writer.open("when true")
    if poisons():
        _poison(tr, refs)
    found = tr.inline(jaxpr, refs, values)
    kept = [(r, v) for r, v in zip(results, found) if r is not None]
    assign_together(tr, [r for r, _ in kept], [v for _, v in kept])
    tr.writer.pending = []
    tr.writer.close()
    return [r if r is not None else literal(0, "i32") for r in results]


def poisons():
    """Does scratch contain NaN, or the least integer, before it is written? (JAX's option `jax_pallas_poison_buffers`.)"""
    return bool(getattr(jax.config, "jax_pallas_poison_buffers", False))


def _poison(tr, refs):
    """Fills the scratch of `run_scoped`, as TPUs do with that option."""
    for ref in refs:
        if ref.dtype is None:  # a semaphore
            continue
        least = "true" if ref.dtype == "bool" else "nan" if is_float(ref.dtype) else str(-(1 << (bits_of(ref.dtype) - 1)))
        value = "cast(%s, %s)" % (least, ref.dtype)
        tr.writer.line("%s[...] = broadcast(%s, %s);" % (ref.name, value, shape_text(ref.shape)) if ref.shape else
                       "%s = %s;" % (ref.name, value))
        ref.stored = True


def _empty_ref(tr, equation):
    """Scratch of the kernel, which is unspecified at the beginning of each use."""
    _needs_statements(tr, "`empty_ref`")
    aval = equation.outvars[0].aval
    text, ref = scratch_text(tr, tr.writer.name(tr.wanted.get(equation.outvars[0], "scratch")), aval)
    tr.hoisted.append(text)
    tr.scoped += scratch_bytes(aval)
    return ref


def _new_ref(tr, equation):
    ref, value = _empty_ref(tr, equation), tr.read(equation.invars[0])
    text = value.thin.typed if value.thin.index else value.thin.text
    tr.writer.effect("%s%s = %s;" % (ref.name, "[...]" if ref.shape else "", text))
    return ref


def _freeze(tr, equation):
    ref = tr.env[equation.invars[0]]
    return Value(ref.name + ("[...]" if ref.shape else ""), ref.shape, ref.dtype, reads=True)


# ---- not numerics

def _nothing(tr, equation):
    for atom in equation.invars:
        if not isinstance(atom, jex.Literal) and isinstance(tr.env.get(atom), Value):
            tr.read(atom)
    return [literal(0, "i32") for _ in equation.outvars]


PRINTED = 64  # an array of so many elements is printed in full, a larger one as its dtype
PLACE = "\0"  # of a value in the text of a print


class _Printed:
    """A value that adds itself to `shown` when it is formatted into a text."""

    def __init__(self, tr, value, shown):
        self.place, self.shown = PLACE, shown
        if not value.shape or not 0 < math.prod(value.shape) <= PRINTED:
            self.texts = [value.typed]
            return
        for extent in reversed(value.shape):
            self.place = "[%s]" % " ".join([self.place] * extent)
        self.texts = _elements(tr.held(value))

    def __str__(self):
        self.shown += self.texts
        return self.place

    __repr__ = __str__

    def __format__(self, spec):
        return str(self)


def _elements(value):
    """The texts of a value's elements, in order."""
    thin = value.thin
    if not thin.shape:
        return [thin.typed] * math.prod(value.shape)
    own = [range(n) if n > 1 or whole == 1 else [0] * whole
           for n, whole in zip((1,) * (len(value.shape) - len(thin.shape)) + thin.shape, value.shape)]
    return ["%s[%s]" % (thin.text, ", ".join(map(str, index[len(index) - len(thin.shape):]))) for index in itertools.product(*own)]


def _print(tr, equation):
    from pkc.pallas.rules.memory import contents
    shown, static, text = [], dict(equation.params["static_args"]), equation.params["fmt"]
    values = iter([contents(tr, value) if isinstance(value, Ref) else value for value in map(tr.read, equation.invars)])
    given = [static[k] if k in static else _Printed(tr, next(values), shown) for k in range(len(static) + len(equation.invars))]
    args, named = equation.params["in_tree"].unflatten(given)
    text = text.format(*args, **named) if equation.params["has_placeholders"] else " ".join([text, *map(str, args)])
    if "{}" in text:
        tr.refuse("a print with braces in its text", "Leave the text {} out.")
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace(PLACE, "{}")
    tr.writer.effect('print(%s);' % ", ".join(['"%s"' % text, *shown]))
    return []


def _broadcast_to(tr, equation):
    return broadcast(tr.read(equation.invars[0]), equation.outvars[0].aval.shape)


RULES = {
    "cond": _cond,
    "platform_index": _platform_index,
    "scan": _scan,
    "while": _while,
    "jit": _jit,
    "pjit": _jit,
    "closed_call": _call("call_jaxpr"),
    "eval_jaxpr": _call("call_jaxpr"),
    "xla_metadata_call": _call("jaxpr"),
    "core_call": _call("call_jaxpr"),
    "remat": _call("jaxpr"),
    "remat2": _call("jaxpr"),
    "checkpoint": _call("jaxpr"),
    "custom_jvp_call": _call("call_jaxpr"),
    "custom_vjp_call": _custom_vjp,
    "custom_vjp_call_jaxpr": _custom_vjp,
    "custom_vmap_call": _call("call"),
    "remat_opt": _call("fwd_jaxpr"),
    "custom_fusion": _custom_fusion,
    "run_scoped": _run_scoped,
    "empty_ref": _empty_ref,
    "new_ref": _new_ref,
    "freeze": _freeze,
    "free_ref": lambda tr, equation: [],
    "debug_print": _print,
    "broadcast_to": _broadcast_to,
    **{name: _nothing for name in ("debug_callback", "delay", "trace_start", "trace_stop", "trace_value", "check",
                                   "debug_barrier", "debug_barrier_p")},
}
