"""Replaces the lowering of pl.pallas_call on CPUs by a call of a compiled kernel."""
import contextlib
import functools
import math
import os
import threading

import jax
import numpy
from jax.experimental import pallas as pl
from jax.extend.mlir.dialects import stablehlo as hlo
from jax.interpreters import mlir

import pkc
from pkc import _versions
from pkc import jax as pkc_jax
from pkc.pallas import derivatives, tracing
from pkc.pallas.errors import TranslationError, explained, refuse
from pkc.pallas.launch import source_of, translate
from pkc.pallas.values import is_key, physical_shape

_lock, _kernels = threading.Lock(), {}
_settings = {"installed": False, "threads": None, "keep": None, "interpreted": False, "sparse_cores": False}
_theirs = None
_observer = threading.local()


@contextlib.contextmanager
def observed(function, only=False):
    """A context in which `function` receives the Text of every kernel of this thread; with `only`, lowered functions cannot run."""
    _take_over()
    before = getattr(_observer, "now", None)
    _observer.now = function, only
    try:
        yield
    finally:
        _observer.now = before


def kernel_of(text):
    """The compiled kernel of a Text; equal texts share one."""
    key = (text.name, text.text)
    with _lock:
        if key not in _kernels:
            _keep(text)
            _kernels[key] = _compile(text)
        return _kernels[key]


def _keep(text):
    folder = _settings["keep"]
    if folder:
        os.makedirs(folder, exist_ok=True)
        path, count = os.path.join(folder, text.name + ".pk"), 1
        while os.path.exists(path) and open(path, encoding="utf-8").read() != text.text:
            count += 1
            path = os.path.join(folder, "%s_%d.pk" % (text.name, count))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.text)


def _compile(text):
    try:
        return pkc.kernel(text.text, text.name)
    except pkc.CompileError as error:
        raise refused(text, error) from None


def refused(text, error):
    """The error for a CompileError of translated text, with the lines of Python."""
    return TranslationError("pkc.pallas: the kernel %s is refused: %s" % (text.name, explained(text, error)))


def _is_ours(interpret):
    """Whether a call with this `interpret` is translated."""
    observed_now = getattr(_observer, "now", None) is not None
    return (observed_now or _settings["installed"]) and (not interpret or interpret is True and (_settings["interpreted"] or observed_now))


def _derivable(interpret, params):
    """(The Text of a call, its kernel, the number of threads for calls of its derivatives)."""
    text = translate(padded=bool(interpret), **{**params, "compiler_params": _versions.of(jax).compiler_params(params["compiler_params"])})
    return text, kernel_of(text), _settings["threads"]


def _lowering(ctx, *nodes, interpret=False, **params):
    if not _is_ours(interpret):
        return _theirs(ctx, *nodes, interpret=interpret, **params)
    with _versions.noted("pkc.pallas", jax):
        return _translated(ctx, nodes, interpret, params)


def _translated(ctx, nodes, interpret, params):
    function, only = getattr(_observer, "now", None) or (None, False)
    ctx = ctx.replace(avals_in=[_unpinned(aval) for aval in ctx.avals_in], avals_out=[_unpinned(aval) for aval in ctx.avals_out])
    for aval in [*ctx.avals_in, *ctx.avals_out]:
        if not isinstance(aval, jax.core.ShapedArray):
            refuse("an operand that is not an array: %s" % (aval,), None, "Pass arrays.")
    params = {**params, "mesh": _mesh_of(ctx), "compiler_params": _versions.of(jax).compiler_params(params["compiler_params"])}
    text = translate(padded=bool(interpret) and not function, **params)
    if function:
        function(text)
    if only:
        return [_zeros(aval) for aval in ctx.avals_out]  # without a meaning: it only looks
    effects = _has_effects(params)
    kernel = kernel_of(text)
    if text.mesh:
        return _on_devices(ctx, nodes, text, kernel)
    if len(text.outputs) != len(ctx.avals_out):
        return _with_semaphores(ctx, nodes, text, kernel, effects)
    return _called(ctx, nodes, text, kernel, effects)


def _unpinned(aval):
    """A pinned buffer as an array."""
    return aval.inner_aval if type(aval).__name__ == "AbstractLinVal" else aval


def _refuse_several_meshes():
    """A kernel with a function for each of several meshes is refused by its functions' names; JAX's own error has none."""
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.pallas import mpmd
        lower = mpmd._mpmd_map_fallback_lowering

        @functools.wraps(lower)
        def of_one_mesh(ctx, *nodes, jaxprs, interpret, **params):
            if len(jaxprs) != 1 and _is_ours(interpret):
                refuse("a kernel with several meshes: %s" % "; ".join(map(source_of, jaxprs)), None, "Call a kernel for each of them.")
            return lower(ctx, *nodes, jaxprs=jaxprs, interpret=interpret, **params)
        mpmd._mpmd_map_fallback_lowering = of_one_mesh


def _take_pinned():
    """Lowers pinned buffers to arrays: a call whose output aliases one updates it in place, as it does an array."""
    from jax._src.interpreters import mlir as types
    from jax._src.state import primitives
    pinned = getattr(primitives, "AbstractLinVal", None)
    theirs = types.ir_type_handlers.get(pinned)
    if theirs:  # the type of arguments and results of functions inside a jit
        types.ir_type_handlers[pinned] = lambda aval: theirs(aval) if jax.default_backend() != "cpu" else types.ir_type_handlers[type(aval.inner_aval)](aval.inner_aval)
    rules = {
        "pin_p": lambda ctx, x, **_: [x],
        "unpin_p": lambda ctx, x: [x],
        "create_linear_p": lambda ctx, **_: [_zeros(_unpinned(ctx.avals_out[0]))],
    }
    for name, rule in rules.items():
        if hasattr(primitives, name):  # a newer version may name them otherwise
            mlir.register_lowering(getattr(primitives, name), rule, platform="cpu")


def _mesh_of(ctx):
    """[(axis, extent)] of the mesh of the shard_map being lowered; None outside a shard_map."""
    context = ctx.module_context.axis_context
    mesh, manual = getattr(context, "mesh", None), getattr(context, "manual_axes", ())
    if mesh is None or not manual:
        return None
    axes = list(mesh.shape.items())
    return axes if all(name in manual or extent == 1 for name, extent in axes) else None


def _has_effects(params):
    """Whether the compiler parameters say that a call stays even if its results are not used. XLA's CPU backend keeps all such calls."""
    said = getattr(params["compiler_params"], "has_side_effects", False)
    said = getattr(said, "value", said)
    if said not in (False, True, "pure", "side_effecting", "dataflow_side_effecting"):
        raise ValueError("Invalid side effect type: %s" % (said,))
    return said not in (False, "pure")


def _with_semaphores(ctx, nodes, text, kernel, effects):
    """The results of a call, some of which are semaphores: all copies are complete."""
    made = iter(_called(ctx.replace(avals_out=[ctx.avals_out[k] for k in text.outputs]), nodes, text, kernel, effects))
    return [next(made) if k in text.outputs else _zeros(aval) for k, aval in enumerate(ctx.avals_out)]


def _called(ctx, nodes, text, kernel, effects):
    count = len(ctx.avals_out)
    ctx = ctx.replace(avals_in=[_physical(a) for a in ctx.avals_in],
                      avals_out=[_physical(a) for a in [*ctx.avals_out, *(ctx.avals_in[k] for k in text.own)]])
    avals = [_widened(ctx.avals_in[k]) for k in text.order]
    address, _ = kernel._plan([pkc_jax._described(ctx.avals_in[k]) for k in text.order], {})
    places = {source: k for k, source in enumerate(text.order)}
    aliases = {places[i]: o for i, o in text.aliases}
    results = [_widened(aval) for aval in ctx.avals_out]
    words = {"kernel": pkc_jax.loaded(address), "threads": numpy.int64(_settings["threads"] or 0)}
    if [a.dtype for a in results] == [a.dtype for a in ctx.avals_out] and avals == [ctx.avals_in[k] for k in text.order]:
        rule = jax.ffi.ffi_lowering(pkc_jax._NAME, operand_output_aliases=aliases, has_side_effect=effects)
        return rule(ctx.replace(avals_in=avals), *[nodes[k] for k in text.order], **words)[:count]

    def call(*arrays):
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in results]
        made = jax.ffi.ffi_call(pkc_jax._NAME, shapes, has_side_effect=effects, input_output_aliases=aliases)(
            *[pkc_jax.widen(arrays[k]) for k in text.order], **words)
        return [pkc_jax.narrow(value, aval.dtype) for value, aval in zip(made, ctx.avals_out[:count])]
    ctx = ctx.replace(avals_out=ctx.avals_out[:count])
    return mlir.lower_fun(call, multiple_results=True)(ctx, *nodes)


def _on_devices(ctx, nodes, text, kernel):
    """The call of one device of a mesh: the handler joins it with those of the others. The last argument is
    the number of the device."""
    if jax.process_count() > 1:
        refuse("a kernel that talks to other devices, in a program of several processes", None, "Devices are those of one process.")
    if len(text.outputs) != len(ctx.avals_out):
        refuse("a kernel that talks to other devices and gives semaphores to another kernel", None, "Wait for its copies in it.")
    avals_in, results = [_physical(ctx.avals_in[k]) for k in text.order], [_physical(aval) for aval in [*ctx.avals_out, *(ctx.avals_in[k] for k in text.own)]]
    count = len(ctx.avals_out)
    if any(_widened(aval).dtype != aval.dtype for aval in (*avals_in, *results)):
        refuse("an operand of 4 or 2 bits in a kernel that talks to other devices", None, "Cast it to int8 outside.")
    devices = math.prod(text.mesh)
    wholes = [aval if k < text.shared else _whole(aval, devices) for k, aval in enumerate(avals_in)]
    address, _ = kernel._plan([pkc_jax._described(aval) for aval in wholes], {})
    places = {source: k for k, source in enumerate(text.order)}
    number = hlo.PartitionIdOp().result
    rule = jax.ffi.ffi_lowering(pkc_jax._MESH_NAME, operand_output_aliases={places[i]: o for i, o in text.aliases}, has_side_effect=True)
    ctx = ctx.replace(avals_in=[*avals_in, jax.core.ShapedArray((), numpy.dtype("uint32"))], avals_out=results)
    return rule(ctx, *[nodes[k] for k in text.order], number, kernel=pkc_jax.loaded(address, mesh=True))[:count]


def _whole(aval, count):
    """The parts of all devices, concatenated."""
    return aval.update(shape=(aval.shape[0] * count, *aval.shape[1:])) if aval.shape else aval


def _physical(aval):
    """Keys of random numbers, and semaphores, as numbers."""
    if "sem" in str(aval.dtype):
        return aval.update(dtype=numpy.dtype("int32"))
    return aval.update(shape=physical_shape(aval), dtype=numpy.dtype("uint32")) if is_key(aval.dtype) else aval


def _widened(aval):
    """XLA packs int4 two to a byte; kernels take whole bytes."""
    return aval.update(dtype=pkc_jax.widened(aval.dtype))


def _zeros(aval):
    """A constant; semaphores have the form that XLA holds them in."""
    aval = _physical(aval)
    return mlir.ir_constant(numpy.zeros(aval.shape, "int32" if "sem" in str(aval.dtype) else aval.dtype))


def install(threads=None, keep=None, interpreted=False, sparse_cores=False):
    """Makes pl.pallas_call run compiled on JAX's CPU backend.

    `threads`: how many of XLA's a kernel with parallel axes may use; by default $PK_THREADS, else all. `keep`: a folder that gets the .pk text of every kernel.
    `interpreted`: also take calls with interpret=True; without it, those are left to JAX. Past the end of their inputs is what
    JAX's interpreter has there, NaN or the least integer. `sparse_cores`: `pltpu.get_tpu_info().sparse_core` describes SparseCores, so that
    a program that asks whether to use them does; kernels for them run without it, too.
    """
    told = _settings["sparse_cores"]
    _settings.update(installed=True, threads=threads, keep=keep, interpreted=interpreted, sparse_cores=sparse_cores)
    _take_over()
    if told != sparse_cores:
        tracing.forget_cpu()


def _take_over():
    global _theirs
    if _theirs is not None:
        return
    with _versions.noted("pkc.pallas", jax):
        from jax._src.pallas import pallas_call as module
        _theirs = module._pallas_call_lowering
        mlir.register_lowering(pl.pallas_call_p, _lowering, platform="cpu")
        module._pallas_call_lowering = _lowering  # for pl.kernel and core_map
        _take_pinned()
        _refuse_several_meshes()
        tracing.take_over(_is_ours, lambda: _settings["sparse_cores"])
        derivatives.take_over(_is_ours, _derivable)
