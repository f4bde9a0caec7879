"""A pallas_call as the text of a kernel: signature, grid, blocks, scratch, and the body."""
import re

import jax

from pkc.pallas.errors import Place, TranslationError, refuse, unknown
from pkc.pallas.rules import RULES, phases
from pkc.pallas.rules.control import scratch_bytes, scratch_text
from pkc.pallas.rules.devices import Devices
from pkc.pallas.translate import Ref, Translator
from pkc.pallas.values import MUL, Value, dtype_name, is_integer, key_shape, memory_of, physical_shape, shape_text
from pkc.pallas.window import Part, Window
from pkc.pallas.writer import RESERVED, Writer

VMEM_LIMIT = 128 << 20  # of the language, where a kernel does not say another


class Text:
    """A kernel's text, the Python line of each of its lines, and how it is called.

    `mesh`: its extents are those of shard_map's mesh, and each device makes a call of its own, with its part; else None.
    `shared`: the number of leading operands that the text does not divide: each device passes the whole array.
    `order`: for each operand of the kernel, which operand of the pallas_call it is; `outputs`: the same of its outputs. Semaphores
    that the caller holds are none of them. `aliases`: (operand of the pallas_call, output of the kernel). `own`: operands of the
    pallas_call that the kernel stores to, in memory of the call: further outputs, whose results are not returned.
    """

    def __init__(self, name, text, places, order, outputs, aliases, mesh=None, shared=0, own=()):
        self.name, self.text, self.places, self.mesh, self.shared = name, text, places, mesh, shared
        self.order, self.outputs, self.aliases, self.own = order, outputs, aliases, own

    def named(self, name):
        """The text, with another name of the kernel."""
        return re.sub(r"(?m)^kernel %s\(" % re.escape(self.name), lambda _: "kernel %s(" % name, self.text, count=1)


def translate(jaxpr, grid_mapping, input_output_aliases=(), compiler_params=None, name=None, padded=False, mesh=None, **_):
    """The Text of what pallas_call_p's parameters say. `padded`: what lies past the end of an input is what JAX's interpreter has
    there. `mesh`: [(axis, extent)] of the shard_map that the call is in, or None."""
    try:
        return _text(jaxpr, grid_mapping, input_output_aliases, compiler_params, name, padded, mesh)
    except TranslationError:
        raise
    except Exception as error:  # a form of an operand, a block or a grid that is not known here, or another version of JAX
        raise unknown("a part of the kernel %s outside its body" % source_of(jaxpr)) from error


def source_of(jaxpr):
    """The name of the kernel's function in Python, and where it is."""
    return (getattr(getattr(jaxpr, "debug_info", None), "func_src_info", None) or "").strip()


def _text(*given):
    launch = _Launch(*given)
    text = launch.text()
    blocks = launch.blocks_after_all()
    devices = launch.devices if launch.devices and launch.devices.talks else None
    own = launch.stored_inputs()
    return _Launch(*given, blocks, devices, own).text() if blocks or devices or own else text


def _space(aval):
    """The memory space of a ref: any, smem, vmem or sem."""
    text = memory_of(aval)
    if text in ("any", "hbm", "host"):
        return "any"
    return text if text in ("smem",) else "sem" if "sem" in text and text != "smem" else "vmem"


class _Launch:
    def __init__(self, jaxpr, mapping, aliases, params, name, padded, mesh, blocks=(), devices=None, own=()):
        self.jaxpr, self.mapping, self.params, self.padded = jaxpr, mapping, params, padded
        self.read_directly, self.own = blocks, own
        info = getattr(jaxpr, "debug_info", None)
        self.function = source_of(jaxpr)
        self.writer = Writer()
        self.devices = Devices(mesh, self.writer, devices) if mesh else None
        wanted = name or (self.function.split(" ")[0] if self.function else "kernel")
        self.name = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "kernel"
        if self.name[0].isdigit():
            self.name = "k" + self.name
        if self.name in RESERVED:
            self.name += "_kernel"
        if jaxpr.constvars:
            refuse("the kernel %s captures arrays" % self.function, None, "Pass them as inputs.")
        self.names = list(getattr(info, "arg_names", None) or [])
        self.aliases = list(aliases)

    # ---- names

    def operand_name(self, k, default):
        found = self.names[k] if k < len(self.names) and self.names[k] else default
        return self.writer.name(found)

    def _is_apart(self):
        return self.devices is not None and self.devices.apart

    def axis_names(self):
        m = self.mapping
        given = []
        for block in m.block_mappings:
            names = getattr(block.index_map_jaxpr.jaxpr.debug_info, "arg_names", None) or []
            if len(names) >= len(m.grid) and all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", n or "") for n in names[:len(m.grid)]):
                given = list(names)
                break
        result = []
        for k in range(len(m.grid)):
            wanted = given[k] if given and k not in m.vmapped_dims else self._axis_name(k)
            result.append(self.writer.name(wanted))
        return result

    def _axis_name(self, k):
        """The name of an axis that no index map names: that of the mesh, or a letter."""
        m, spare = self.mapping, "ijklmnpqr"
        if k in m.vmapped_dims:
            return "b"
        named = m.grid_names[k] if m.grid_names else None
        if isinstance(named, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", named):
            return named
        return spare[k - sum(v < k for v in m.vmapped_dims)] if k < len(spare) else "i%d" % k

    # ---- the whole

    def text(self):
        m = self.mapping
        beside = self._find_phases()
        self._operands(beside)
        self.axes = self.axis_names()
        self._scratch()
        self._header()
        self._maps()
        self._batched()
        writer = self.writer
        body = Writer(writer.taken)
        shown = [self.axes[k] for k in range(len(m.grid)) if k not in m.vmapped_dims]
        tr = Translator(body, shown, RULES)
        tr.all_names = dict(zip(m.grid_names or (), zip(self.axes, m.grid)))
        tr.devices = self.devices
        if self.phases:
            self.phases.write(tr, self.refs)
        else:
            tr.run(self.jaxpr, self.refs)
        self.scratch += tr.hoisted
        self.scoped, self.prng, body.place = tr.scoped, tr.prng, Place()
        self._begin_prng(body)
        self._hand_over(body)
        for ref in self.outputs:  # nothing is stored: its elements are unspecified, but a store is required
            if not ref.stored and ref.space != "sem" and not any(target is ref for _, target in self.pairs):
                body.line("%s%s = %s;" % (ref.name, "[...]" if ref.shape else "", "false" if ref.dtype == "bool" else "0"))
                ref.touched = True
        self._blocks()
        lines = [*self.first, *self.declared, *writer.lines, *self.late, "", *body.lines, "}"]
        places = [None] * (len(lines) - 1 - len(body.lines)) + body.places + [None]
        return Text(self.name, "\n".join(lines) + "\n", places, self.order, self.results, self.call_aliases,
                    tuple(extent for _, extent in self.devices.axes) if self._is_apart() else None, len(self.bounds) + len(self.prefetched),
                    [len(self.bounds) + m.num_index_operands + k for k in self.own])

    def _batched(self):
        """For the body, an operand in HBM with an axis of vmap is its part at this index along that axis."""
        first = self.mapping.num_index_operands
        for k, (block, (extents, _, starts)) in enumerate(zip(self.mapping.block_mappings, self.maps), first):
            ref = self.operand_refs[k]
            if ref.space == "any" and "_" in extents:
                ref.shape, ref.parted = physical_shape(block.array_aval), True
                window = Window(ref)
                window.entries = [Value(start, (), "i32", index=True) if extent == "_" else entry
                                  for extent, start, entry in zip(extents, starts, window.entries)]
                self.refs[k] = Part(window)

    def blocks_after_all(self):
        """The operands in HBM that the body accesses directly, although they were assumed to be accessed by copies alone."""
        refs = self.operand_refs[self.mapping.num_index_operands:]
        return {k for k, ref in enumerate(refs) if ref.space == "any" and ref.touched and (ref.pipelined or ref.parted)}

    def stored_inputs(self):
        """The inputs in HBM that the body stores to although no output shares their memory: they become scratch, initialised from the inputs."""
        shared = [source for source, _ in self.pairs]
        return [k for k, ref in enumerate(self.inputs)
                if ref.space == "any" and ref.stored and not ref.touched and not any(source is ref for source in shared)]

    def _hand_over(self, body):
        """The first step takes the counts of semaphores that other calls made, and the last one gives those that are left."""
        first, last = [], []
        for count, ref in self.counts:
            index, lines = ", ".join("i%d" % k for k in range(len(ref.shape))), first if count.role == "input" else last
            one, number = ("%s[%s]" % (name, index) if index else name for name in (ref.name, count.name))
            lines += ["for i%d in 0..%d {" % (k, n) for k, n in enumerate(ref.shape)]
            lines += ["signal(%s, %s);" % (one, number)] if count.role == "input" else ["%s = read(%s);" % (number, one), "wait(%s, %s);" % (one, number)]
            lines += ["}"] * len(ref.shape)
        for lines, at, test in (last, len(body.lines), "{0} == num_programs({0}) - 1"), (first, 0, "{0} == 0"):
            if lines and self.axes:
                axes = [*self.axes, self.phases.name] if self.phases else self.axes
                lines[:] = ["when %s {" % " && ".join(test.format(axis) for axis in axes), *lines, "}"]
            body.lines[at:at], body.places[at:at] = ["  " + line for line in lines], [Place()] * len(lines)

    def _begin_prng(self, body):
        """The first step initialises the generator's state, unless every step does."""
        if self.prng is None or self.prng.seeded:
            return
        first = ["    " + line for line in self.prng.first()]
        if self.axes:
            first = ["  when %s {" % " && ".join("%s == 0" % axis for axis in self.axes), *first, "  }"]
        body.lines[:0], body.places[:0] = first, [Place()] * len(first)

    def _find_phases(self):
        """Divides a kernel whose subcores wait for each other. The types of the scratch that it has beside its own."""
        self.phases, m = None, self.mapping
        if not m.grid or not phases.waits(self.jaxpr):
            return []
        if any(not isinstance(extent, int) for extent in m.grid) or m.vmapped_dims:
            refuse("a kernel under `vmap` whose subcores wait for each other", None, "Call it in a loop.")
        self.jaxpr, beside = phases.flattened(self.jaxpr, [(name, extent) for name, extent in zip(m.grid_names or (), m.grid) if name is not None])
        self.phases = phases.Phases(self.jaxpr, m.grid[-1])
        return beside

    def _operands(self, beside):
        """The refs of the kernel's operands, and their order in the .pk kernel."""
        m = self.mapping
        bounds, index, inputs = m.num_dynamic_grid_bounds, m.num_index_operands, m.num_inputs
        avals = [v.aval for v in self.jaxpr.invars]
        self.bounds = [self.writer.name("n") for _ in range(bounds)]
        self.prefetched, self.smem_index, self.counts = [], [], []
        refs = []
        for k in range(index):
            inner = avals[k].inner_aval
            ref = Ref(self.operand_name(k, "s%d" % k), physical_shape(inner), self._dtype(inner, "prefetched operand"), "prefetch")
            refs.append(ref)
            (self.prefetched if is_integer(ref.dtype) else self.smem_index).append(k)
        for k, block in enumerate(m.block_mappings):
            aval = getattr(avals[index + k], "inner_aval", avals[index + k])
            space = _space(block.transformed_block_aval) if hasattr(avals[index + k], "inner_aval") else "vmem"
            if space == "any" and k in self.read_directly:
                space = "vmem"
            if block.transforms:
                refuse("the operand %s: a transformed block as operand" % block.origin, None, "Use scratch in the kernel.")
            default = "x%d" % k if k < inputs else "o%d" % (k - inputs)
            if space == "sem":
                refs.append(self._semaphore(self.operand_name(index + k, "sem"), block, k, inputs))
                continue
            refs.append(Ref(self.operand_name(index + k, default), physical_shape(aval), self._dtype(block.array_aval, block.origin), space))
        self.operand_refs = refs
        self.inputs, self.outputs = refs[index:index + inputs], refs[index + inputs:]
        for ref in self.inputs:
            ref.role = "input"
        for ref in self.outputs:
            ref.role = "output"
        self.order = [*range(bounds), *(bounds + k for k in self.prefetched), *(bounds + k for k in self.smem_index),
                      *(bounds + index + k for k, ref in enumerate(self.inputs) if ref.space != "sem")]
        self.results = [k for k, ref in enumerate(self.outputs) if ref.space != "sem"]
        self.call_aliases, self.pairs = [], []
        held = dict(self.counts)
        for source, target in self.aliases:
            if self.outputs[target] in held:  # both are the same semaphore
                held[self.outputs[target]].name = held[self.inputs[source - index]].name
            if target not in self.results or self.outputs[target] in held:
                continue
            if source < index:
                refuse("the output %d aliases a prefetched operand" % target, None, "Make it an input with memory_space=pltpu.SMEM.")
            self.pairs.append((self.inputs[source - index], self.outputs[target]))
            self.call_aliases.append((bounds + source, self.results.index(target)))
            self.inputs[source - index].store = self.outputs[target].name
        self.hidden = []
        for k in self.own:
            ref, array = self.inputs[k], m.block_mappings[k].array_aval
            made = Ref(self.writer.name(ref.name + "_own"), physical_shape(array), ref.dtype, "any")
            self.pairs.append((ref, made))
            self.call_aliases.append((bounds + index + k, len(self.results) + len(self.hidden)))
            self.hidden.append(made)
            ref.store = made.name
        # Scalars that pl.kernel captures are values, not refs.
        semaphores = [(ref, "dma") for ref in refs if ref.space == "sem"] + [(ref, "regular") for ref in {r.name: r for r in held.values()}.values()]
        self.scratch = ["%s: sem %s%s" % (ref.name, kind, shape_text(ref.shape) if ref.shape else "") for ref, kind in semaphores]
        refs = [held.get(ref, ref) for ref in refs]
        self.refs = [ref if hasattr(aval, "inner_aval") else Value(ref.name, ref.shape, ref.dtype) for ref, aval in zip(refs, avals)]
        first = index + len(m.block_mappings)
        own = [self.operand_name(k, "scratch") for k in range(first, len(avals) - len(beside))]
        self.scratch_names = [*own, *(self.writer.name("scratch") for _ in beside)]

    def _scratch(self):
        """The scratch of the kernel. Where subcores wait for each other, each has its own, except of what all of a core share."""
        if self.phases:
            self.phases.axis, self.phases.name = self.axes[-1], self.writer.name("phase")
        scratch = self.jaxpr.invars[len(self.jaxpr.invars) - len(self.scratch_names):]
        for name, var in zip(self.scratch_names, scratch):
            each = (self.phases.extent,) if self.phases and memory_of(var.aval) != "vmem_shared" else ()
            text, ref = scratch_text(self._declarer(), name, var.aval, each)
            self.scratch.append(text)
            self.refs.append(phases.of_each(ref, self.phases.axis) if each else ref)

    def _semaphore(self, name, block, k, inputs):
        """A semaphore that another call waits for. Copies that are started on it complete at once; of a regular one the count is an operand."""
        ref = Ref(name, block.array_aval.shape, None, "sem")
        if "dma" in str(block.array_aval.dtype):
            ref.lasting = True
            return ref
        if self._is_apart():
            refuse("a kernel that talks to other devices and gives semaphores to another kernel", None, "Use scratch in the kernel.")
        count = Ref(self.writer.name(name + "_count"), ref.shape, "i32", "smem")
        count.stored = count.touched = k >= inputs
        self.counts.append((count, ref))
        return count

    def _declarer(self):
        return Translator(self.writer, self.axes if hasattr(self, "axes") else (), RULES, declaring=True)

    def _dtype(self, aval, what):
        name = dtype_name(aval.dtype)
        if name is None:
            refuse("%s has the dtype %s" % (what, aval.dtype), None, "Use a dtype that docs/language.md lists.")
        return name

    def _header(self):
        m = self.mapping
        others = [self.operand_refs[k] for k in self.smem_index]

        def typed(ref, shape, divided=True):
            if divided and self._is_apart():
                return "%s: %s%s%s" % (ref.name, ref.dtype, shape_text(self.devices.shape(shape)), self.devices.shard(shape))
            return "%s: %s%s" % (ref.name, ref.dtype, shape_text(shape))

        arrays = [physical_shape(block.array_aval) for block in m.block_mappings]
        inputs = [typed(ref, ref.shape) for ref in others]
        inputs += [typed(ref, shape) for ref, shape in zip(self.inputs, arrays) if ref.space != "sem"]
        outputs = [typed(ref, shape) for ref, shape in zip(self.outputs, arrays[m.num_inputs:]) if ref.space != "sem"]
        outputs += [typed(ref, ref.shape) for ref in self.hidden]
        self.first = ["// %s" % self.function] if self.function else []
        self.first.append("kernel %s(%s) -> (%s) {" % (self.name, ", ".join(inputs), ", ".join(outputs)))
        self.declared = [self.devices.declaration()] if self._is_apart() else []
        if self.prefetched or self.bounds:
            words = ["%s: i32" % n for n in self.bounds]
            words += [typed(self.operand_refs[k], self.operand_refs[k].shape, divided=False) for k in self.prefetched]
            self.declared.append("  prefetch %s;" % ", ".join(words))
        self.late = ["  block %s: smem;" % ref.name for ref in others]

    # ---- index maps

    def _maps(self):
        """The index map of each block as texts; `let` lines may come before."""
        m = self.mapping
        self.maps = []
        axes = [Value(name, (), "i32", index=True) for name in self.axes]
        index = self.operand_refs[:m.num_index_operands]
        for block in m.block_mappings:
            jaxpr = block.index_map_jaxpr.jaxpr
            tr = self._declarer()
            tr.axes, tr.all_names = self.axes, {}
            results = tr.run(jaxpr, [*axes, *index])
            extents, word, starts = self._start(block, results)
            key = [str(n) for n in key_shape(block.array_aval.dtype)]
            self.maps.append((extents + key, word, starts + ["0"] * len(key)))

    def _start(self, block, results):
        """(extents of the block, word of the map, starts)."""
        dims = [type(d).__name__ for d in block.block_shape]
        extents = ["_" if kind in ("Squeezed", "NoneType") else str(_size(d)) for kind, d in zip(dims, block.block_shape)]
        if "Indirect" in dims:
            refuse("%s: a block of kind pl.Indirect" % block.origin, None, "Copy the rows in the kernel, from an operand in pl.ANY.")
        if "BoundedSlice" in dims:
            return extents, "at slice", [_element(*item) for item in zip(_slices(block, results), dims, block.block_shape)]
        if "Element" in dims:
            return extents, "at element", [_element(*item) for item in zip(results, dims, block.block_shape)]
        return extents, "at", [v.text for v in results]

    # ---- declarations after the body is known

    def _blocks(self):
        m = self.mapping
        late = self.late
        if m.grid:
            late_grid = []
            dynamic = iter(self.bounds)
            outputs = [" ".join(self.maps[m.num_inputs + k][2]) for k in self.results]
            for k, (axis, extent) in enumerate(zip(self.axes, m.grid)):
                text = str(extent) if isinstance(extent, int) else next(dynamic)
                if self.phases and k == len(m.grid) - 1:
                    late_grid.append("%s in %d" % (self.phases.name, len(self.phases.parts)))
                late_grid.append("%s in %s%s" % (axis, text, " parallel" if self._is_parallel(k, outputs) else ""))
            self.declared.append("  grid (%s);" % ", ".join(late_grid))
        stays = [self._block(ref, block, place) for ref, block, place in
                 zip([*self.inputs, *self.outputs], m.block_mappings, self.maps) if ref.space != "sem"]
        late += [line for line in stays if line]
        late += ["  block %s: any;" % ref.name for ref in self.hidden]
        late += ["  alias %s = %s;" % (target.name, source.name) for source, target in self.pairs]
        late += ["  scratch %s;" % text for text in self.scratch]
        late += self._limit()

    def _limit(self):
        """A VMEM limit, if the blocks may exceed the language's default, because a CPU has memory. (pkc.pallas.tpu checks a TPU's limit.)"""
        m = self.mapping
        total = sum(scratch_bytes(v.aval) for v in self.jaxpr.invars[m.num_index_operands + len(m.block_mappings):]) + self.scoped
        for block in m.block_mappings:
            buffers = getattr(block.pipeline_mode, "buffer_count", None) or 2
            total += buffers * scratch_bytes(block.transformed_block_aval)
        return ["  vmem_limit %d;" % (1 << (2 * total).bit_length())] if 2 * total > VMEM_LIMIT else []

    def _is_parallel(self, k, outputs):
        """Whether the axis is declared parallel and every output moves along it."""
        words = getattr(self.params, "dimension_semantics", None)
        m = self.mapping
        remembers = any(ref.stored for ref in self.operand_refs[:m.num_index_operands])  # and would forget where the index changes
        draws = self.prng is not None and not self.prng.seeded  # and continues where the step before ended
        if words is None or k in m.vmapped_dims or remembers or draws or self._is_apart():
            return False
        own = k - sum(v < k for v in m.vmapped_dims)
        if own >= len(words) or "parallel" not in str(getattr(words[own], "value", words[own])).lower():
            return False
        return all(re.search(r"\b%s\b" % self.axes[k], text) for text in outputs)

    def _block(self, ref, block, place):
        extents, word, starts = place
        whole = block.has_trivial_window()
        if ref.space == "any" and not ref.touched:
            return "  block %s: any;" % ref.name
        options = ""
        shared = any(target is ref for _, target in self.pairs)
        if shared:  # what no step stores is what the input holds
            options = " revisit any"
        buffers = getattr(block.pipeline_mode, "buffer_count", None)
        if buffers and buffers != 2 and not whole:
            options += " buffers %d" % buffers
        if whole and "_" not in extents and not shared:
            return "  block %s: smem;" % ref.name if ref.space == "smem" else None
        if self.padded and ref in self.inputs:
            options = " pad %s%s" % (_padding(ref.dtype), options)
        space = "smem " if ref.space == "smem" else ""
        return "  block %s: %s[%s] %s (%s)%s;" % (ref.name, space, ", ".join(extents), word, ", ".join(starts), options)


def _padding(dtype):
    """The padding of a block: NaN, or the least number."""
    if dtype == "bool":
        return "false"
    if not is_integer(dtype):
        return "nan"
    return str(-(1 << int(dtype[1:]) - 1)) if dtype[0] == "i" else "0"


def _slices(block, results):
    """The results of an index map, with a pair (start, size) for each slice."""
    items = jax.tree.unflatten(block.index_map_out_tree, results)
    return [item if isinstance(item, Value) else (item.start, item.size) for item in items]


def _element(value, kind, dim):
    """The start of a block along an axis, in elements; or its slice."""
    if kind == "BoundedSlice":
        if not isinstance(value, tuple):
            raise TypeError("Must return a pl.ds from the index_map for a BoundedSlice dimension.")
        return "ds(%s)" % ", ".join(str(part) if isinstance(part, int) else part.text for part in value)
    if kind == "Blocked":
        return "%s * %d" % (value.at(MUL), _size(dim)) if value.text != "0" else "0"
    low = tuple(getattr(dim, "padding", (0, 0)) or (0, 0))[0] if kind == "Element" else 0
    return value.text if not low else "%s - %d" % (value.text, low)


def _size(dim):
    return int(getattr(dim, "block_size", dim) if not isinstance(dim, int) else dim)
