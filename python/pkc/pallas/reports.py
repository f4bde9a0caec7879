"""Reports on the kernels that a function of JAX calls: their text, the checker's findings, their cost."""
import re

import jax
import numpy
from jax.extend import core as jex

from pkc import _reports, _versions
from pkc import jax as pkc_jax
from pkc._kernel import Kernel, grad
from pkc._tool import CompileError, Source
from pkc.pallas import lowering
from pkc.pallas.errors import TranslationError
from pkc.pallas.values import is_key

_CALLS = ("pallas_call", "mpmd_map")
_INNER = {**dict.fromkeys(("jit", "pjit", "remat", "remat2", "checkpoint", "xla_metadata_call"), "jaxpr"),
          **dict.fromkeys(("closed_call", "core_call", "eval_jaxpr", "custom_jvp_call", "custom_vjp_call"), "call_jaxpr"),
          "custom_vmap_call": "call", "remat_opt": "fwd_jaxpr"}
_NOTHING_HERE = ("with_memory_space_constraint",)  # memories of a TPU: JAX runs it in compiled code alone
_SAME_ON_ALL = ("pvary", "pcast", "pbroadcast")  # what they say of the devices' values is not needed here


# ---- running a function to find its kernels and their operands

class _Walk:
    """Runs a jaxpr, one equation after the other. `seen` is called with each kernel and its operands."""

    def __init__(self, seen):
        self.seen = seen

    def run(self, jaxpr, consts, operands):
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands]))

        def value(atom):
            return self.literal(atom.val) if isinstance(atom, jex.Literal) else env[atom]
        for e in jaxpr.eqns:
            env.update(zip(e.outvars, self._equation(e, [value(atom) for atom in e.invars])))
        return [value(atom) for atom in jaxpr.outvars]

    def _closed(self, jaxpr, operands):
        if hasattr(jaxpr, "jaxpr"):
            return self.run(jaxpr.jaxpr, [self.literal(c) for c in jaxpr.consts], operands)
        return self.run(jaxpr, (), operands)

    def _equation(self, e, values):
        name, p = e.primitive.name, e.params
        if name in _CALLS:
            if any("sem" in str(getattr(var.aval, "dtype", "")) for var in e.outvars):
                raise TranslationError("pkc.pallas: a kernel that hands a semaphore to another cannot be looked at by itself")
            with lowering.observed(lambda text: self.launched(text, values, [len(var.aval.shape) for var in e.invars])):
                return self.bind(e, values)
        if name in _NOTHING_HERE:
            return values
        if name in _INNER and not _is_plain(p[_INNER[name]]):
            return self._closed(p[_INNER[name]], values)
        if name == "cond" and not all(_is_plain(b) for b in p["branches"]):
            branches = p["branches"]
            return self._closed(branches[min(max(int(self.scalar(values[0])), 0), len(branches) - 1)], values[1:])
        if name == "while" and not (_is_plain(p["body_jaxpr"]) and _is_plain(p["cond_jaxpr"])):
            return self._while(p, values)
        if name == "scan" and not _is_plain(p["jaxpr"]):
            return self._scan(p, values)
        if name == "shard_map" and not _is_plain(p["jaxpr"]):
            return self.on_devices(p, values)
        return self.bind(e, values)

    def _while(self, p, values):
        a, b = p["cond_nconsts"], p["body_nconsts"]
        carry = values[a + b:]
        while bool(self.scalar(self._closed(p["cond_jaxpr"], [*values[:a], *carry])[0])):
            carry = self._closed(p["body_jaxpr"], [*values[a:a + b], *carry])
        return carry

    def _scan(self, p, values):
        n, (consts, carries) = p["length"], _versions.of(jax).scan(p)
        carry, xs, rows = values[consts:consts + carries], values[consts + carries:], []
        for t in reversed(range(n)) if p["reverse"] else range(n):
            results = self._closed(p["jaxpr"], [*values[:consts], *carry, *(self.row(x, n, t) for x in xs)])
            carry = results[:carries]
            rows.append(results[carries:])
        if p["reverse"]:
            rows.reverse()
        return [*carry, *(self.stacked([row[k] for row in rows], aval) for k, aval in enumerate(p["jaxpr"].out_avals[carries:]))]

    # ---- operations that differ on several devices

    def bind(self, e, values):
        functions, params = _bind_params(e)
        results = e.primitive.bind(*functions, *values, **params)
        return results if e.primitive.multiple_results else [results]

    def launched(self, text, values, ranks):
        self.seen(text, [_operand(values[k]) for k in text.order])

    def literal(self, value):
        return value

    def scalar(self, value):
        """A value that decides the program's control flow."""
        return value

    def row(self, x, n, t):
        return x[t]

    def stacked(self, rows, aval):
        return jax.numpy.stack(rows) if rows else jax.numpy.zeros((0, *aval.shape), aval.dtype)

    def on_devices(self, p, values):
        return _Devices(self.seen, p["mesh"]).mapped(p, values)


class _Devices(_Walk):
    """Runs the body of a shard_map. A value is what all devices have: their parts one after the other along the first axis, as the
    text of a kernel with a mesh has it; of a scalar the values."""

    def __init__(self, seen, mesh):
        super().__init__(seen)
        self.mesh, self.parts = mesh, jax.sharding.PartitionSpec(tuple(mesh.axis_names))

    def mapped(self, p, values):
        if len(p.get("newly_manual_axes", p.get("manual_axes", self.mesh.axis_names))) < len(self.mesh.axis_names):
            raise TranslationError("pkc.pallas: a shard_map over some axes of a mesh cannot be looked at: name all axes")
        values = self._map(lambda *parts: list(parts), p["in_specs"], None, values)
        return self._map(lambda *parts: list(parts), None, p["out_specs"], self._closed(p["jaxpr"], values), p["jaxpr"].outvars)

    def _map(self, f, ins, outs, values, out_vars=None, in_vars=None):
        """f of each device's parts. Without specs values are what all devices have, and scalars are arrays of one element."""
        def local(*parts):
            scalars = [v.aval.ndim == 0 for v in in_vars or out_vars or ()] if ins is None else [False] * len(parts)
            results = f(*[part.reshape(()) if scalar else part for part, scalar in zip(parts, scalars)])
            return [r.reshape(1) if outs is None and not r.ndim else r for r in results]
        mapped = jax.shard_map(local, mesh=self.mesh, in_specs=self.parts if ins is None else tuple(ins),
                               out_specs=self.parts if outs is None else list(outs), check_vma=False)
        return jax.jit(mapped)(*values)

    def bind(self, e, values):
        if e.primitive.name in _SAME_ON_ALL:
            return values
        return self._map(lambda *parts: _Walk.bind(self, e, parts), None, None, values, in_vars=e.invars)

    def launched(self, text, values, ranks):
        operands = [(_operand(values[k]), ranks[k]) for k in text.order]
        if text.mesh:
            return self.seen(text, [self._same(v, rank) if k < text.shared or not rank else v for k, (v, rank) in enumerate(operands)])
        for device in range(self.mesh.size):
            self.seen(text, [self._part(v, rank, device) for v, rank in operands])
        return None

    def _same(self, value, rank):
        parts = [self._part(value, rank, device) for device in range(self.mesh.size)]
        if any(not numpy.array_equal(part, parts[0]) for part in parts):
            raise TranslationError("pkc.pallas: a kernel whose devices have different scalars or prefetched operands cannot be looked at")
        return parts[0]

    def _part(self, value, rank, device):
        return value.reshape(self.mesh.size, value.shape[0] // self.mesh.size, *value.shape[1:])[device] if rank else value[device]

    def literal(self, value):
        value = jax.numpy.asarray(value)
        whole = jax.numpy.tile(value, (self.mesh.size, *[1] * (value.ndim - 1)) if value.ndim else self.mesh.size)
        return jax.device_put(whole, jax.sharding.NamedSharding(self.mesh, self.parts))

    def scalar(self, value):
        value = numpy.asarray(value)
        if (value != value[0]).any():
            raise TranslationError("pkc.pallas: devices that go different ways around a kernel cannot be looked at")
        return value[0]

    def row(self, x, n, t):
        part = x.reshape(self.mesh.size, n, *x.shape[1:])[:, t]
        return part.reshape(-1, *part.shape[2:])

    def stacked(self, rows, aval):
        if not rows:
            return jax.numpy.zeros((0, *aval.shape), aval.dtype)
        whole = jax.numpy.stack([row.reshape(self.mesh.size, *aval.shape) for row in rows], axis=1)
        return whole.reshape(self.mesh.size * len(rows), *aval.shape)

    def on_devices(self, p, values):
        raise TranslationError("pkc.pallas: a shard_map in a shard_map cannot be looked at")


def _bind_params(e):
    """(functions, parameters) that the primitive is bound with; newer versions of JAX have all in the parameters."""
    given = e.primitive.get_bind_params(e.params)
    return given if isinstance(given, tuple) else ((), given)


def _is_plain(jaxpr):
    """Whether it contains no kernel."""
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


def _launches(f, args, kwargs):
    """(Text, operands) of each kernel that f(*args) runs."""
    found = []
    closed = jax.make_jaxpr(lambda *a: f(*a, **kwargs))(*args)
    _Walk(lambda text, operands: found.append((text, operands))).run(closed.jaxpr, closed.consts, jax.tree.leaves(args))
    if not found:
        raise ValueError("pkc.pallas: %s calls no Pallas kernel" % getattr(f, "__name__", f))
    return found


def _operand(value):
    """Operands in the form that kernels take: int4 in whole bytes, keys as numbers."""
    if is_key(value.dtype):
        value = jax.random.key_data(value)
    return numpy.asarray(pkc_jax.widen(value))


# ---- the functions

def _texts(f, args, kwargs):
    """The translated kernels that f(*args) calls, each once. Nothing runs."""
    texts = {}
    with lowering.observed(lambda text: texts.setdefault(text.text, text), only=True):
        jax.jit(lambda *a: f(*a, **kwargs)).lower(*args)
    if not texts:
        raise ValueError("pkc.pallas: %s calls no Pallas kernel" % getattr(f, "__name__", f))
    return list(texts.values())


def to_pk(f, *args, **kwargs):
    """The .pk text of the kernels that f(*args) calls, each once. Nothing runs.

    Of several kernels with the same name, the later ones have a number after it.
    """
    found = _texts(f, args, kwargs)
    taken, parts = {text.name for text in found}, []
    for k, text in enumerate(found):
        name, count = text.name, 1
        if any(text.name == other.name for other in found[:k]):
            while name in taken:
                count += 1
                name = "%s_%d" % (text.name, count)
        taken.add(name)
        parts.append(text.named(name))
    return _reports.Text("\n".join(parts))


def grad_to_pallas(f, *args, **kwargs):
    """The gradient of the only kernel that f(*args) calls, as the text of a Python module that calls Pallas. Nothing runs.

    NAME_backward(inputs.., gradients of the outputs..) gives the gradients of the inputs of floats, for a jax.custom_vjp. The inputs
    are those of the kernel's text, prefetched ones first.
    """
    text, *others = _texts(f, args, kwargs)
    if others:
        raise ValueError("pkc.pallas: %s calls %d kernels: derive each of them" % (getattr(f, "__name__", f), 1 + len(others)))
    try:
        derived = grad(_kernel(text), blocks=True)
        made = derived._source.made_by("compile", ["-k", derived.__name__, "--emit=pallas"])
    except CompileError as error:
        raise lowering.refused(text, error) from None
    return _reports.Text(made)


def _kernel(text, limited=False):
    """A kernel for reports; `limited`: with the memory limit of a TPU."""
    source = re.sub(r"\n  vmem_limit \d+;\n", "\n\n", text.text) if limited else text.text
    try:
        return Kernel(Source(source, text.name + ".pk"), text.name)
    except CompileError as error:
        raise lowering.refused(text, error) from None


def _with_python(text, report):
    """A report in which each position also has its line of Python."""
    lines = []
    for line in report.split("\n"):
        lines.append(line)
        found = re.match(re.escape(text.name) + r"\.pk:(\d+):", line)
        place = text.places[int(found.group(1)) - 1] if found and int(found.group(1)) <= len(text.places) else None
        if place:
            lines.append("  %s: %s" % (place, place.text))
    return "\n".join(lines)


def _lines_of(text, report):
    """The lines of Python for the lines of the text that a TPU report names."""
    named = {int(n) for n in re.findall(r"\bline (\d+)|^ +(\d+) (?= {3}|\S* %)", report, re.MULTILINE) for n in n if n}
    rows = ["  line %4d  %s:%d: %s" % (n, place.file.rsplit("/", 1)[-1], place.line, place.text)
            for n in sorted(named) if 0 < n <= len(text.places) for place in [text.places[n - 1]] if place]
    return "\n\nThese lines in Python\n" + "\n".join(row[:160] for row in rows) if rows else ""


class Check(_reports.Report):
    """The checker's findings for each kernel. True if there are none. `findings`: dicts; `python` is the line of Python."""

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
    """The cost of the kernels that f(*args) calls on a TPU: a report, or a list of reports if there are several kernels."""
    reports = []
    for text, operands in _launches(f, args, kwargs):
        kernel = _kernel(text, limited=True)
        try:
            report = kernel.tpu(*operands, chip=chip)
        except CompileError as error:
            raise TranslationError("pkc.pallas: %s: %s" % (text.name, error)) from None
        report.text += _lines_of(text, report.text)
        reports.append(report)
    return reports[0] if len(reports) == 1 else reports
