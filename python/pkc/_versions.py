"""Differences between versions of JAX: one row for each series, with its changes. A new series is a new row.

The rest of the package asks `of(jax)` for the row of the version that is installed.
"""
import contextlib
import functools
import re
import warnings

# ---- forms of equations


def _scan_of_numbers(params):
    return params["num_consts"], params["num_carry"]


def _scan_of_tree(params):
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


class _Pipeline:
    """The operands of an emit_pipeline, by kind.

    `maps`: what each index map captures; `bounds`: extents of the grid that are known at run time; `body`: what the body captures;
    `refs`: what `tree` makes the refs of; `shared`: do cores share the grid, or does the body take its indices?
    `explicit`: does the body take them, where a parameter says so? `rest`: the parameters by which `_emit_pipeline` carries it out.
    """

    def __init__(self, params, maps, bounds, body, refs, tree):
        self.bounds, self.body, self.refs, self.tree, self.explicit = list(bounds), list(body), list(refs), tree, False
        captured = iter(maps)
        self.maps = [[next(captured) for _ in block.index_map_jaxpr.consts] for block in params["grid_mapping"].block_mappings]
        self.rest = {name: value for name, value in params.items() if name not in ("grid_mapping", "body_jaxpr", "args_tree", "refs_tree")}


def _pipeline_of_list(params, atoms):
    mapping, atoms = params["grid_mapping"], list(atoms)
    counts = [sum(len(block.index_map_jaxpr.consts) for block in mapping.block_mappings), mapping.num_dynamic_grid_bounds,
              params["_num_extra_dynamic"], params["body_consts_len"]]
    maps, bounds, offsets, body = ([atoms.pop(0) for _ in range(count)] for count in counts)
    found = _Pipeline(params, maps, bounds, body, atoms, params["args_tree"])
    static, left = params["_static_grid_offsets"], iter(offsets)
    found.shared = bool(offsets) or any(offset != 0 for offset in static)
    for name in ("_num_extra_dynamic", "body_consts_len", "_static_grid_offsets"):
        del found.rest[name]
    found.rest["_grid_offsets"] = tuple(offset if isinstance(offset, int) else next(left) for offset in static)
    return found


def _pipeline_of_tree(params, atoms):
    given = params["args_tree"].unflatten(list(atoms))
    found = _Pipeline(params, given.all_index_map_consts, given.dynamic_grid_spec, given.body_consts, given.refs_flat, params["refs_tree"])
    for name in ("core_axis", "core_axis_name"):
        del found.rest[name]
    found.explicit = found.rest.pop("_explicit_indices")
    found.shared = found.explicit or given.core_id is not None and params["num_cores"] != 1
    found.rest["core_id"] = given.core_id
    return found


def _trace_wrapped(function, avals):
    from jax._src import api_util, linear_util
    from jax._src.interpreters import partial_eval
    from jax.extend import core
    wrapped = linear_util.wrap_init(function, debug_info=api_util.debug_info("pkc", function, avals, {}))
    jaxpr, _, consts = partial_eval.trace_to_jaxpr_dynamic(wrapped, avals)
    return core.ClosedJaxpr(jaxpr, consts)


def _trace_tree(function, avals):
    from jax._src import api_util, config, flattree
    from jax._src.interpreters import partial_eval
    debug = api_util.debug_info("pkc", function, avals, {})
    with config.mutable_array_checks(False):
        return partial_eval.trace_to_jaxpr_nocache(function, flattree.flatten_args(*avals), debug_info=debug)[0]


# ---- what kernels ask while they are traced

def _v5e_in_full(tpu_info):
    return tpu_info.TpuInfo(
        chip_version=tpu_info.ChipVersion.TPU_V5E, generation=5, num_cores=1, num_lanes=128, num_sublanes=8, mxu_column_size=128,
        vmem_capacity_bytes=128 << 20, cmem_capacity_bytes=0, smem_capacity_bytes=1 << 20, hbm_capacity_bytes=16 * 10**9,
        mem_bw_bytes_per_second=82 * 10**10, bf16_ops_per_second=197 * 10**12, int8_ops_per_second=394 * 10**12,
        fp8_ops_per_second=0, int4_ops_per_second=788 * 10**12)


def _v5e(tpu_info):
    return tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_V5E, 1)


def _v7x_sparse_cores(tpu_info):
    return tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_7X, 1).sparse_core


# ---- the table

class Series:
    """A row: the version that it begins with, the version that was tested, and what changed, by name.

    `pallas`: does `pkc.pallas` take it?
    `views`: the classes of transforms that make a ref another one: what they do.
    `compiler_params`: those of a TPU, of the parameter of a pallas_call.
    `tpu_info`: the description of a TPU v5e, of JAX's module of that name.
    `sparse_cores`: the description of the SparseCores of a TPU v7x, or None.
    `asks_for_cores`: the function by which a mesh of cores asks the device for them; None where `create_tensorcore_mesh` does it.
    `scan`: (constants, carries) of the parameters of a scan.
    `pipeline`: the operands of an emit_pipeline; None where a kernel has the copies that it stands for.
    `step_indices`: of what the body of `_emit_pipeline` gets, the indices in the grid.
    `traced`: the jaxpr of a function of refs, of their types.
    `copy_beside`: do copies have refs and transforms beside each other, not as one?
    """

    def __init__(self, since, tested, before=None, **changes):
        self.__dict__.update(vars(before) if before else {})
        self.__dict__.update(since=since, tested=tested, **changes)


def _table(*rows):
    table = []
    for since, tested, changes in rows:
        table.append(Series(since, tested, table[-1] if table else None, **changes))
    return table


TABLE = _table(
    ((0, 5, 3), "0.5.3", dict(pallas=False)),
    ((0, 8), "0.8.3", dict(
        pallas=True, views={"RefBitcaster": "bitcast", "RefReshaper": "reshape", "RefTransposer": "transpose"},
        compiler_params=lambda given: given.get("mosaic_tpu"), tpu_info=_v5e_in_full, sparse_cores=lambda tpu_info: None, asks_for_cores=None,
        scan=_scan_of_numbers, pipeline=None, step_indices=None, traced=None, copy_beside=True)),
    ((0, 9), "0.9.2", dict(
        views={"BitcastTransform": "bitcast", "ReshapeTransform": "reshape", "TransposeTransform": "transpose"},
        compiler_params=lambda given: given, tpu_info=_v5e)),
    ((0, 10), "0.10.0", dict(pipeline=_pipeline_of_list, step_indices=tuple, traced=_trace_wrapped)),
    ((0, 10, 1), "0.10.2", dict(copy_beside=False)),
    ((0, 11), "0.11.2", dict(
        asks_for_cores="_get_default_num_cores", scan=_scan_of_tree,
        pipeline=_pipeline_of_tree, step_indices=lambda step: step.index, traced=_trace_tree)),
    ((0, 12), "0.12.0.1", dict(sparse_cores=_v7x_sparse_cores)),
)


def _numbers(version):
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


@functools.lru_cache(maxsize=None)
def row(version):
    """The row of a version; the last row if it is newer than all; None if it is too old."""
    return next((series for series in reversed(TABLE) if series.since <= _numbers(version)), None)


def of(jax):
    return row(jax.__version__)


def _tested(part):
    names = [series.tested for series in TABLE if series.pallas or part == "pkc.jax"]
    return "%s and %s" % (", ".join(names[:-1]), names[-1])


def is_newer(version):
    """Whether the version is newer than the last series of the table."""
    return _numbers(version)[:2] > TABLE[-1].since[:2]


_warned = set()  # newer versions: pkc.pallas imports pkc.jax, and one warning is enough


def require(part, jax):
    """Raises ImportError if JAX is too old for a part of the package; warns once if it is newer than the tested versions."""
    found = of(jax)
    if found is None or part == "pkc.pallas" and not found.pallas:
        raise ImportError("%s: JAX %s is too old: tested are %s" % (part, jax.__version__, _tested(part)))
    if is_newer(jax.__version__) and jax.__version__ not in _warned:
        _warned.add(jax.__version__)
        warnings.warn("%s: JAX %s is newer than what was tested, %s: it is tried" % (part, jax.__version__, _tested(part)), stacklevel=3)


@contextlib.contextmanager
def noted(part, jax):
    """Adds to an error that the installed version is newer than the tested ones."""
    try:
        yield
    except Exception as error:
        if is_newer(jax.__version__) and hasattr(error, "add_note") and not getattr(error, "__notes__", None):
            error.add_note("%s was tested with JAX %s; this is JAX %s." % (part, _tested(part), jax.__version__))
        raise
