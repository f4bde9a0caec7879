"""While a kernel is traced, its queries are answered for a CPU, and `emit_pipeline` remains one equation."""
import contextlib
import dataclasses
import functools
import sys
import threading

import jax

from pkc import _versions

_kernel = threading.local()


def take_over(is_ours, has_sparse_cores):
    """Patches JAX's tracing. `is_ours(interpret)`: will a kernel that is being traced be translated? `has_sparse_cores()`: is the CPU
    a TPU with SparseCores to a program that asks before it chooses a kernel?"""
    from jax._src import source_info_util
    source_info_util.register_exclusion(__file__)  # a line of Python is never one of this file
    _know_cpu(has_sparse_cores)
    _one_core()
    _mark_kernels(is_ours)
    _keep_pipelines()


def _know_cpu(has_sparse_cores):
    """Answers queries for the TPU that a kernel is traced for."""
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.pallas.mosaic import sc_core, tpu_info

        def info():
            found = _versions.of(jax).tpu_info(tpu_info)
            return dataclasses.replace(found, sparse_core=_versions.of(jax).sparse_cores(tpu_info)) if has_sparse_cores() else found
        tpu_info.registry.setdefault("cpu", info)
        _know_sparse_cores(sc_core, tpu_info)


def forget_cpu():
    """The next query for the TPU is answered anew."""
    from jax._src.pallas.mosaic import tpu_info
    getattr(tpu_info.get_tpu_info, "cache_clear", lambda: None)()


def _know_sparse_cores(sc_core, tpu_info):
    """A kernel for SparseCores asks for them, as does a mesh of them."""
    ask = sc_core.get_sparse_core_info

    @functools.wraps(ask)
    def answer():
        try:
            return ask()
        except RuntimeError:
            found = _versions.of(jax).sparse_cores(tpu_info)
            if found is None or jax.default_backend() != "cpu":
                raise
            return found
    for module in (sc_core, sys.modules.get("jax.experimental.pallas.tpu_sc")):
        if module is not None:
            module.get_sparse_core_info = answer


def _one_core():
    """Answers the query of a mesh of cores, because a CPU device does not."""
    asks = _versions.of(jax).asks_for_cores
    return _default_of_one_core(asks) if asks else _mesh_of_one_core()


def _default_of_one_core(asks):
    from jax._src.pallas.mosaic import core
    ask, init = getattr(core, asks), core.TensorCoreMesh.__init__

    def cores():
        try:
            found = ask()
        except AttributeError:
            if jax.default_backend() != "cpu":
                raise
            return 1
        return 1 if found is None and jax.default_backend() == "cpu" else found  # None: the device of a mesh in shard_map

    @functools.wraps(init)
    def of_cores(self, **words):
        init(self, **words if "num_cores" in words else {**words, "num_cores": cores()})
    setattr(core, asks, cores)
    core.TensorCoreMesh.__init__ = of_cores


def _mesh_of_one_core():
    from jax.experimental.pallas import tpu
    mesh = tpu.create_tensorcore_mesh

    @functools.wraps(mesh)
    def of_one_core(axis_name, devices=None, num_cores=None):
        own = jax.default_backend() == "cpu" and devices is None
        return mesh(axis_name, devices, 1 if own and num_cores is None else num_cores)
    tpu.create_tensorcore_mesh = of_one_core


# ---- pipelines

class _Marked(functools.partial):
    """A function that is traced as the kernel of a call; JAX finds its name and position through partials."""

    def __new__(cls, function, ours):
        made = super().__new__(cls, function)
        made.ours = ours
        return made

    def __call__(self, *args, **words):
        before = getattr(_kernel, "ours", False)
        _kernel.ours = self.ours
        try:
            return super().__call__(*args, **words)
        finally:
            _kernel.ours = before


@contextlib.contextmanager
def _own_lines():
    """Equations that are traced in this context keep their own lines of Python: in the backward pass of a custom_vjp, JAX would give them the line of the forward call."""
    from jax._src import source_info_util
    state = getattr(source_info_util, "_source_info_context", None)
    if state is None:  # another version of JAX
        yield
        return
    before = state.context
    state.context = source_info_util.SourceInfo(None, before.name_stack)
    try:
        yield
    finally:
        state.context = before


def _mark_kernels(is_ours):
    """Records while a kernel is traced whether it will be translated, and its lines."""
    from jax._src import config
    from jax._src.pallas import core, pallas_call
    from jax.experimental import pallas

    def ours(interpret):
        everywhere = getattr(config, "pallas_tpu_interpret_mode_context_manager", None)
        return jax.default_backend() == "cpu" and is_ours((everywhere.value if everywhere else None) or interpret)
    call, mapped = getattr(pallas_call, "_pallas_call", None), getattr(core, "core_map", None)
    if call is not None:
        @functools.wraps(call)
        def marked_call(kernel, *args, interpret=False, **words):
            return _own_lines()(call(_Marked(kernel, ours(interpret)), *args, interpret=interpret, **words))
        pallas_call._pallas_call = marked_call
    if mapped is not None:
        @functools.wraps(mapped)
        def marked_map(*args, interpret=False, **words):
            decorate = mapped(*args, interpret=interpret, **words)
            return _own_lines()(lambda function: decorate(_Marked(function, ours(interpret))))
        core.core_map = pallas.core_map = marked_map


def _is_plain(ref):
    """Whether it is a ref, or an index of a ref, of a type that JAX's primitive accepts."""
    try:
        return not getattr(jax.typeof(ref.ref if hasattr(ref, "transforms") else ref), "is_high", False)
    except TypeError:  # buffers of the caller
        return False


def _takes_lists(in_specs=(), out_specs=(), **_):
    """Whether a pipeline has blocks whose index maps return lists of indices, which JAX's primitive does not accept."""
    from jax.experimental import pallas
    specs = jax.tree.leaves((in_specs, out_specs), is_leaf=lambda x: isinstance(x, pallas.BlockSpec))
    return any(type(dim).__name__ == "Indirect" for spec in specs for dim in getattr(spec, "block_shape", None) or ())


def _keep_pipelines():
    """In a kernel that will be translated, emit_pipeline of refs is one equation instead of the copies that it stands for."""
    from jax._src import config
    from jax._src.pallas.mosaic import pipeline
    from jax.experimental.pallas import tpu
    state = getattr(config, "use_emit_pipeline_primitive", None)
    if state is None or not hasattr(pipeline, "emit_pipeline_p"):
        return
    emit = pipeline.emit_pipeline

    @functools.wraps(emit)
    def kept(body, **words):
        lists = _takes_lists(**words)

        def run(*refs, **options):
            leaves = jax.tree.leaves(refs, is_leaf=lambda x: isinstance(x, pipeline.BufferedRefBase))
            whole = not options and not lists and getattr(_kernel, "ours", False) and all(_is_plain(leaf) for leaf in leaves)
            with state(whole or state.value and not lists):  # some versions ask it in `emit`, some in what that returns
                result = emit(body, **words)(*refs, **options)
            return None if whole else result  # the equation's results are an empty list, which a kernel must not return
        return run
    pipeline.emit_pipeline = tpu.emit_pipeline = kept
