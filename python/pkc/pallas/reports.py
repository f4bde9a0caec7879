"""Looking at the kernels that a function of JAX calls: their text, what the checker finds, what they cost."""
import re

import jax
import numpy
from jax.extend import core as jex

from pkc import _reports
from pkc._kernel import Kernel
from pkc._tool import CompileError, Source
from pkc.pallas import lowering
from pkc.pallas.errors import TranslationError
from pkc.pallas.values import is_key

_CALLS = ("pallas_call", "mpmd_map")
_INNER = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat": "jaxpr",
          "checkpoint": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


# ---- running a function, to see its kernels with their operands

def _evaluate(jaxpr, consts, operands, seen):
    """Runs a jaxpr, one equation after the other; `seen` is called with each kernel and its operands."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands]))

    def value(atom):
        return atom.val if isinstance(atom, jex.Literal) else env[atom]
    for e in jaxpr.eqns:
        results = _equation(e, [value(atom) for atom in e.invars], seen)
        env.update(zip(e.outvars, results))
    return [value(atom) for atom in jaxpr.outvars]


def _closed(jaxpr, operands, seen):
    if hasattr(jaxpr, "jaxpr"):
        return _evaluate(jaxpr.jaxpr, jaxpr.consts, operands, seen)
    return _evaluate(jaxpr, (), operands, seen)


def _equation(e, values, seen):
    name, p = e.primitive.name, e.params
    if name in _CALLS:
        if any("sem" in str(getattr(var.aval, "dtype", "")) for var in e.outvars):
            raise TranslationError("pkc.pallas: a kernel that hands a semaphore to another cannot be looked at by itself")
        with lowering.observed(lambda text: seen(text, values)):
            return e.primitive.bind(*values, **p)
    if name in _INNER and not _is_plain(p[_INNER[name]]):
        return _closed(p[_INNER[name]], values, seen)
    if name == "cond" and not all(_is_plain(b) for b in p["branches"]):
        branches = p["branches"]
        return _closed(branches[min(max(int(values[0]), 0), len(branches) - 1)], values[1:], seen)
    if name == "while" and not (_is_plain(p["body_jaxpr"]) and _is_plain(p["cond_jaxpr"])):
        return _while(p, values, seen)
    if name == "scan" and not _is_plain(p["jaxpr"]):
        return _scan(p, values, seen)
    names, params = e.primitive.get_bind_params(p)
    results = e.primitive.bind(*names, *values, **params)
    return results if e.primitive.multiple_results else [results]


def _is_plain(jaxpr):
    """Has it no kernel?"""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    for e in inner.eqns:
        if e.primitive.name in _CALLS:
            return False
        for item in e.params.values():
            for one in item if isinstance(item, (tuple, list)) else (item,):
                if hasattr(one, "eqns") or hasattr(getattr(one, "jaxpr", None), "eqns"):
                    if not _is_plain(one):
                        return False
    return True


def _while(p, values, seen):
    a, b = p["cond_nconsts"], p["body_nconsts"]
    carry = values[a + b:]
    while bool(_closed(p["cond_jaxpr"], [*values[:a], *carry], seen)[0]):
        carry = _closed(p["body_jaxpr"], [*values[a:a + b], *carry], seen)
    return carry


def _scan(p, values, seen):
    n, consts, carries = p["length"], p["num_consts"], p["num_carry"]
    carry, xs, rows = values[consts:consts + carries], values[consts + carries:], []
    for t in reversed(range(n)) if p["reverse"] else range(n):
        results = _closed(p["jaxpr"], [*values[:consts], *carry, *(x[t] for x in xs)], seen)
        carry = results[:carries]
        rows.append(results[carries:])
    if p["reverse"]:
        rows.reverse()
    count = len(p["jaxpr"].out_avals) - carries
    stacked = [jax.numpy.stack([row[k] for row in rows]) if rows else
               jax.numpy.zeros((0, *p["jaxpr"].out_avals[carries + k].shape), p["jaxpr"].out_avals[carries + k].dtype)
               for k in range(count)]
    return [*carry, *stacked]


def _launches(f, args, kwargs):
    """(Text, operands) of each kernel that f(*args) runs."""
    found = []
    closed = jax.make_jaxpr(lambda *a: f(*a, **kwargs))(*args)
    _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(args),
              lambda text, values: found.append((text, [_operand(values[k]) for k in text.order])))
    if not found:
        raise ValueError("pkc.pallas: %s calls no Pallas kernel" % getattr(f, "__name__", f))
    return found


def _operand(value):
    """int4 in whole bytes and keys as numbers, as kernels take them."""
    if is_key(value.dtype):
        value = jax.random.key_data(value)
    array = numpy.asarray(value)
    return array.astype(array.dtype.name.replace("int4", "int8")) if array.dtype.name in ("int4", "uint4") else array


# ---- the functions

def to_pk(f, *args, **kwargs):
    """The .pk text of the kernels that f(*args) calls, each once. Nothing runs."""
    texts = []

    def seen(text):
        if text.text not in texts:
            texts.append(text.text)
    with lowering.observed(seen, only=True):
        jax.jit(lambda *a: f(*a, **kwargs)).lower(*args)
    if not texts:
        raise ValueError("pkc.pallas: %s calls no Pallas kernel" % getattr(f, "__name__", f))
    return _reports.Text("\n".join(texts))


def _kernel(text, limited=False):
    """A kernel for looking at; `limited`: by a TPU's memory."""
    source = re.sub(r"\n  vmem_limit \d+;\n", "\n\n", text.text) if limited else text.text
    try:
        return Kernel(Source(source, text.name + ".pk"), text.name)
    except CompileError as error:
        raise lowering.refused(text, error) from None


def _with_python(text, report):
    """A report, with the line of Python behind each place."""
    lines = []
    for line in report.split("\n"):
        lines.append(line)
        found = re.match(re.escape(text.name) + r"\.pk:(\d+):", line)
        place = text.places[int(found.group(1)) - 1] if found and int(found.group(1)) <= len(text.places) else None
        if place:
            lines.append("  %s: %s" % (place, place.text))
    return "\n".join(lines)


class Check(_reports.Report):
    """What the checker found in each kernel. True where it found nothing. `findings`: dicts, with `python` for the line."""

    def __init__(self, parts):
        super().__init__("\n".join("%s: %s" % (text.name, _with_python(text, str(report)).strip()) for text, report in parts))
        self._parts = parts

    def __bool__(self):
        return all(bool(report) for _, report in self._parts)

    @property
    def ok(self):
        return bool(self)

    @property
    def findings(self):
        result = []
        for text, report in self._parts:
            for item in report.findings:
                line = item.get("line") or 0
                place = text.places[line - 1] if 0 < line <= len(text.places) else None
                result.append({**item, "kernel": text.name, "python": str(place) if place else None})
        return result


def check(f, *args, seed=None, dma=None, **kwargs):
    """Runs the kernels that f(*args) calls in the checker, which watches for races, copies without a wait, reads of elements that were not written, and blocks and windows out of range."""
    return Check([(text, _kernel(text).check(*operands, seed=seed, dma=dma)) for text, operands in _launches(f, args, kwargs)])


def tpu(f, *args, chip="v5e", **kwargs):
    """What the kernels that f(*args) calls cost on a TPU: a report, or a list where there are several kernels."""
    reports = []
    for text, operands in _launches(f, args, kwargs):
        kernel = _kernel(text, limited=True)
        try:
            reports.append(kernel.tpu(*operands, chip=chip))
        except CompileError as error:
            raise TranslationError("pkc.pallas: %s: %s" % (text.name, error)) from None
    return reports[0] if len(reports) == 1 else reports
