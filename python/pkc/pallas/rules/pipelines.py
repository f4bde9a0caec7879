"""emit_pipeline: the language's `pipeline`, or the equivalent copies."""
import dataclasses
import re

import jax
from jax.extend import core as jex

from pkc import _versions
from pkc.pallas.errors import TranslationError
from pkc.pallas.rules.control import hold, poisons, scratch_bytes
from pkc.pallas.translate import Ref
from pkc.pallas.values import MUL, Value, literal, memory_of, physical_shape
from pkc.pallas.window import Part, window_of
from pkc.pallas.writer import Writer


class _Unsaid(Exception):
    """A feature that the language's `pipeline` does not have."""


def _flat(tree):
    """The refs of a tree, each with its transforms, as (ref, transforms)."""
    from jax._src import state
    from jax._src.tree_util import tracing_registry
    items, _ = tracing_registry.flatten(tree, lambda x: isinstance(x, state.TransformedRef))
    return [(item.ref, item.transforms) if isinstance(item, state.TransformedRef) else (item, ()) for item in items]


def _emit_pipeline(tr, equation):
    tr.writer.flush(everything=True)
    try:
        if poisons():
            raise _Unsaid("what buffers hold before they are written")
        pipeline = _Pipeline(tr, equation)
    except (_Unsaid, TranslationError):
        return tr.inline(_as_copies(equation, tr.all_names), [_operand(tr, atom) for atom in equation.invars])
    pipeline.write()
    return []


def _operand(tr, atom):
    return tr.read(atom) if isinstance(atom, jex.Literal) or not isinstance(tr.env[atom], Ref) else tr.env[atom]


def _number(tr, atom):
    return literal(atom, "i32") if isinstance(atom, int) else _operand(tr, atom)


# ---- as one statement

class _Expressions(Writer):
    """A writer for index maps, which are expressions: nothing is named."""

    def let(self, value, wanted):
        inner = value.thin
        text = inner.typed if inner.constant else inner.text
        value.pending = inner.constant = False
        inner.named(text if re.fullmatch(r"[\w.]+", text) else "(%s)" % text)

    def line(self, text):
        raise _Unsaid("a statement")


class _Pipeline:
    """The texts of a pipeline; making one writes nothing."""

    def __init__(self, tr, equation):
        p = equation.params
        self.tr, self.jaxpr, self.mapping = tr, p["body_jaxpr"], p["grid_mapping"]
        found = _versions.of(jax).pipeline(p, equation.invars)
        if found.shared or self.mapping.vmapped_dims or not self.mapping.grid:
            raise _Unsaid("a grid that several cores share")
        self.constants = [_operand(tr, atom) for atom in found.body]
        self.bounds = [tr.read(atom) for atom in found.bounds]
        held = [value for value in [*self.constants, *self.bounds] if isinstance(value, Value)]
        self.map_constants = [[_operand(tr, atom) for atom in atoms] for atoms in found.maps]
        held += [value for values in self.map_constants for value in values if isinstance(value, Value)]
        windows = [window_of(tr, tr.env[ref], transforms) for ref, transforms in _flat(found.tree.unflatten(found.refs))]
        held += [part for window in windows for part in window.values]
        hold(tr, held)
        names = list(getattr(self.jaxpr.debug_info, "arg_names", None) or [])
        self.axes = self._axis_names()
        self.refs, self.blocks = [], []
        for k, (block, window, var) in enumerate(zip(self.mapping.block_mappings, windows, self.jaxpr.invars)):
            wanted = names[k] if k < len(names) and names[k] else "block"
            self._block(k, block, window, var, wanted, k < self.mapping.num_inputs)

    def _axis_names(self):
        """The axis names of the first index map with plain names."""
        count = len(self.mapping.grid)
        for block in self.mapping.block_mappings:
            names = list(getattr(block.index_map_jaxpr.jaxpr.debug_info, "arg_names", None) or [])[:count]
            if len(names) == count and all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name or "") for name in names):
                break
        else:
            names = ["t"] * count
        return [self.tr.writer.name(name) for name in names]

    def _block(self, k, block, window, var, wanted, is_input):
        operand, aval = window.ref, var.aval
        if operand.space != "any" or operand.role != ("input" if is_input else "output") and not (operand.store != operand.name and not is_input):
            raise _Unsaid("a block of what is not in HBM")
        if operand.of is not None or window.arrays or block.transforms:
            raise _Unsaid("a block of a view")
        if memory_of(aval) not in ("vmem", "default", "none"):
            raise _Unsaid("a block that is not in VMEM")
        extents, word, starts = self._place(block, window, self._map(block, self.map_constants[k]))
        buffers = getattr(block.pipeline_mode, "buffer_count", None) or 2
        name = self.tr.writer.name(wanted)
        self.blocks.append((operand, "block %s of %s: [%s] %s (%s)%s;" % (
            name, operand.name if is_input else operand.store, ", ".join(extents), word, ", ".join(starts),
            "" if buffers == 2 else " buffers %d" % buffers)))
        self.refs.append(Ref(name, physical_shape(aval.inner_aval), operand.dtype, "vmem"))
        self.bytes = getattr(self, "bytes", 0) + buffers * scratch_bytes(aval)

    def _map(self, block, constants):
        """The index map's results, as expressions."""
        writer = _Expressions(self.tr.writer.taken)
        inner = type(self.tr)(writer, self.axes, self.tr.rules, declaring=True)
        inner.all_names, inner.devices, inner.env = self.tr.all_names, self.tr.devices, dict(self.tr.env)
        indices = [Value(name, (), "i32", index=True) for name in self.axes]
        return inner.inline(block.index_map_jaxpr, indices, constants)

    def _place(self, block, window, results):
        """(extents, word of the map, starts) of a block of a window, along the axes of the operand."""
        kinds = {type(dim).__name__ for dim in block.block_shape}
        if kinds & {"BoundedSlice", "Indirect"}:
            raise _Unsaid("slices")
        dims = iter(zip(block.block_shape, results))
        entries = [(entry, next(dims) if isinstance(entry, tuple) else None) for entry in window.entries]
        by_element = "Element" in kinds or any(pair and entry[:1] != (0,) for entry, pair in entries)
        extents, starts = [], []
        for (entry, pair), n in zip(entries, window.ref.shape):
            extent, start = ("_", _text(entry)) if pair is None else self._along(entry, n, *pair, by_element)
            extents.append(extent)
            starts.append(start)
        return extents, "at element" if by_element else "at", starts

    def _along(self, entry, n, dim, value, by_element):
        """(extent, start) along one axis of a window (first, size, stride)."""
        first, size, stride = entry
        kind = type(dim).__name__
        extent = 1 if kind in ("Squeezed", "NoneType") else int(getattr(dim, "block_size", dim))
        if stride != 1 or not isinstance(size, int) or kind == "Element" and any(getattr(dim, "padding", None) or (0, 0)):
            raise _Unsaid("strides")
        whole = (first, size) == (0, n)
        if not whole and (size % extent or kind == "Element"):
            raise _Unsaid("a block that may leave its window")
        text = value.text
        if by_element and kind != "Element" and extent != 1:
            text = "%s * %d" % (value.at(MUL), extent) if text != "0" else "0"
        if first != 0:
            text = "%s + %s" % (_text(first), text)
        return "_" if kind in ("Squeezed", "NoneType") else str(extent), text

    def write(self):
        tr, writer = self.tr, self.tr.writer
        bounds = iter(self.bounds)
        extents = [str(n) if isinstance(n, int) else next(bounds).text for n in self.mapping.grid]
        writer.open("pipeline (%s)" % ", ".join("%s in %s" % pair for pair in zip(self.axes, extents)))
        for (operand, text), is_output in zip(self.blocks, [k >= self.mapping.num_inputs for k in range(len(self.blocks))]):
            writer.line(text)
            operand.pipelined = True
            operand.stored = operand.stored or is_output
        tr.scoped += getattr(self, "bytes", 0)
        outer, tr.axes = tr.axes, self.axes
        tr.inline(self.jaxpr, self.refs, self.constants)
        tr.axes = outer
        writer.pending = []
        writer.close()


def _text(part):
    return str(part) if isinstance(part, int) else part.text


# ---- as copies

def _as_copies(equation, names):
    """A jaxpr of loops, scratch and copies, as JAX makes it for a TPU, with a `pipeline_body` for each step."""
    from jax._src import core as jax_core
    from jax._src.pallas import core
    from jax._src.pallas.mosaic import pipeline
    series, p = _versions.of(jax), equation.params
    mapping = p["grid_mapping"]
    own = [k for k in range(len(mapping.grid)) if k not in mapping.vmapped_dims]  # what the body knows of

    def steps(*atoms):
        found = series.pipeline(p, atoms)
        blocks = [block.replace(index_map_jaxpr=jex.ClosedJaxpr(block.index_map_jaxpr.jaxpr, captured))
                  for block, captured in zip(mapping.block_mappings, found.maps)]
        bounds = iter(found.bounds)
        grid = tuple(next(bounds) if core.is_dynamic_dim(d) else d for d in mapping.grid)
        specs = [_knowing_its_grid(block.to_block_spec(), own, grid) for block in blocks]

        def body(step, *refs):
            indices = [series.step_indices(step)[k] for k in own]
            if found.explicit:
                step = dataclasses.replace(step, index=tuple(indices))
            place = [(index, grid[k]) for index, k in zip(indices, own)]
            flat, tree = pipeline.tracing_registry.flatten(((step, place), found.body, refs))
            pipeline.pipeline_body_p.bind(*flat, jaxpr=p["body_jaxpr"], in_tree=tree, num_inputs=mapping.num_inputs, _explicit_indices=found.explicit)
        run = pipeline._emit_pipeline(
            body, grid=grid, in_specs=specs[:mapping.num_inputs], out_specs=specs[mapping.num_inputs:], _explicit_indices=True, **found.rest)
        refs = pipeline.tracing_registry.flatten(found.tree.unflatten(found.refs), pipeline.is_transformed_ref)[0]
        sizes = [(name, extent) for name, (_, extent) in names.items() if isinstance(extent, int)]
        with jax_core.extend_axis_env_nd(sizes), core.tracing_grid_env(tuple(mapping.grid[k] for k in own), ()):
            run(*refs)
        return ()
    return series.traced(steps, [atom.aval for atom in equation.invars])


def _knowing_its_grid(spec, own, grid):
    """A block's specification whose index map asks for the pipeline's extents, not for those of the kernel's grid."""
    from jax._src.pallas import core

    def index_map(*indices):
        with core.grid_env([core.GridAxis(indices[k], grid[k]) for k in own]):
            return spec.index_map(*indices)
    return dataclasses.replace(spec, index_map=index_map)


def _pipeline_body(tr, equation):
    """One step, in which the body's refs are parts of buffers."""
    (step, place), captured, refs = equation.params["in_tree"].unflatten(list(equation.invars))
    jaxpr = equation.params["jaxpr"]
    operands = [Part(window_of(tr, tr.env[ref], transforms)) for ref, transforms in _flat(refs)]
    if len(jaxpr.invars) > len(operands):  # the body takes its indices, of which JAX may know some
        operands = [*(_number(tr, index) for index in (*step.index, step.local_index)), *operands]
    outer, tr.axes = tr.axes, [tuple(tr.held(_number(tr, atom)) for atom in pair) for pair in place]
    tr.inline(jaxpr, operands, [_operand(tr, atom) for atom in captured])
    tr.axes = outer
    return []


RULES = {"emit_pipeline": _emit_pipeline, "pipeline_body": _pipeline_body}
