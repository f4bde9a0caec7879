"""Published projects with Pallas kernels, and what their tests require on a CPU. tests/wild.py runs them.

Each has a folder of its own name among the sources; what belongs to a version of JAX has it in the name, as jax-0.11. `files` are test files, by a pattern; `variables` of the environment;
`prepare(mode)` runs in the process of the tests before they are collected, and `collected(items)` after it.
"""
import glob
import importlib.util
import os
import sys
import types


class Project:
    """A project: its repository, and how its tests are run. `versions`: its tests belong to one version of JAX."""

    def __init__(self, repository, files, interpreters=("interpret",), variables=None, prepare=None, collected=None, needs=(), remark="", versions=False):
        self.repository, self.patterns, self.interpreters, self.variables = repository, files, interpreters, variables or {}
        self.versions = versions
        self.prepare, self.collected = prepare or (lambda folder, mode: None), collected or (lambda items: None)
        self.needs, self.remark = needs, remark
        self.name = repository.rsplit("/", 1)[-1]

    def key(self, jax):
        """The key of the results: the name, with the series of JAX if it matters."""
        return "%s-%s" % (self.name, ".".join(jax.split(".")[:2])) if self.versions else self.name

    def files(self, folder):
        found = [path for pattern in self.patterns for path in glob.glob(os.path.join(folder, pattern), recursive=True)]
        return sorted(os.path.relpath(path, folder) for path in dict.fromkeys(found))


# ---- answers for a TPU

VERSION, KIND = 5, "TPU v5 lite"


def answer_for_a_tpu(info, told=VERSION):
    """Makes functions that query the device describe a TPU with one core."""
    from jax._src import test_util
    from jax._src.pallas.mosaic import tpu_info
    from jax.experimental.pallas import tpu as pltpu
    test_util.is_device_tpu = lambda version=None, variant="": version in (None, told) and variant in ("", "e")
    test_util.is_device_tpu_at_least = lambda version: version <= told
    test_util.get_tpu_version = lambda: told
    pltpu.get_tpu_info = lambda: info
    tpu_info.registry.setdefault("cpu", lambda: info)


def tpu_v5e():
    import jax
    from jax._src.pallas.mosaic import tpu_info
    from pkc import _versions
    return _versions.of(jax).tpu_info(tpu_info)


def tpu_v7x():
    """(Its description, its version), to tests of its SparseCores; other facts are of a v5e."""
    import dataclasses

    import jax
    from jax._src.pallas.mosaic import tpu_info
    from pkc import _versions
    return dataclasses.replace(tpu_v5e(), sparse_core=_versions.of(jax).sparse_cores(tpu_info)), 7


def several_devices(count):
    """Makes the CPU appear as several devices; it must be called before JAX initialises devices."""
    os.environ["XLA_FLAGS"] = "%s --xla_force_host_platform_device_count=%d" % (os.environ.get("XLA_FLAGS", ""), count)


def absent_options(*names):
    """Defines options of JAX that the tests set and a newer version no longer has."""
    from jax._src import config
    for name in names:
        if not hasattr(config, name) and name not in config.config._value_holders:
            setattr(config, name, config.bool_state(name=name, default=False, help="of an older version"))


# ---- JAX itself: modules that its wheel does not contain come from the sources

def prepare_jax(folder, mode):
    import jax._src
    import jax._src.pallas
    jax._src.__path__.append(os.path.join(folder, "jax", "_src"))
    jax._src.pallas.__path__.append(os.path.join(folder, "jax", "_src", "pallas"))
    from jax._src import test_util
    from jax._src.pallas import pallas_test_util
    absent_options("jax_pallas_use_mosaic_gpu")
    if os.path.basename(os.environ["WILD_FILE"]) in FOR_SEVERAL:
        several_devices(4)
    if os.path.basename(os.environ["WILD_FILE"]) in OF_AN_INTERPRETER and mode == "pkc":
        from jax.experimental.pallas import tpu as pltpu
        pltpu.InterpretParams = lambda **words: True
    if os.path.basename(os.environ["WILD_FILE"]) in FOR_SEVERAL + NAMED_TPU:
        test_util.test_device_matches = lambda types: not {"cpu", "tpu"}.isdisjoint(types)
    if os.path.basename(os.environ["WILD_FILE"]) in FOR_TPUS:
        answer_for_a_tpu(*(tpu_v7x() if os.path.basename(os.environ["WILD_FILE"]) in WITH_SPARSE_CORES else (tpu_v5e(),)))
        pallas_test_util.PallasTest.INTERPRET = True


def collected_jax(items):
    """Lets the classes of tests for GPUs run with the interpreter."""
    if os.path.basename(os.environ["WILD_FILE"]) not in FOR_TPUS:
        return
    import jax
    type(jax.devices()[0]).num_cores = 1  # the answer of a TPU
    for item in items:
        if hasattr(item.cls, "INTERPRET"):
            item.cls.INTERPRET = True


def _files(names):
    return [name + "_test.py" for name in names.split()]


PLAIN = _files("tpu_pallas pallas ops indexing pallas_vmap pallas_shape_poly gpu_attention gpu_ops gpu_paged_attention")
FOR_SEVERAL = _files("tpu_pallas_distributed tpu_all_gather tpu_splash_attention_kernel_sharded tpu_pallas_interpret_distributed tpu_sparsecore_pallas_distributed")
OF_AN_INTERPRETER = _files("tpu_pallas_interpret_distributed")  # its calls require InterpretParams
NAMED_TPU = _files("tpu_gmm tpu_pallas_random")
WITH_SPARSE_CORES = _files("""tpu_sparsecore_pallas tpu_sparsecore_pallas_distributed ragged_gather_v2 ragged_gather_reduce_v2 ragged_scatter
dense_gather_reduce csa_gather sparse_mla""")
FOR_TPUS = FOR_SEVERAL + _files("""tpu_sparsecore_pallas tpu_ops tpu_pallas_random tpu_ragged_paged_attention tpu_pallas_async tpu_pallas_state
tpu_pallas_memory_space tpu_pallas_pipeline tpu_paged_attention_kernel tpu_splash_attention_kernel tpu_gmm tpu_side_effects
triton_pallas tpu_fusible_matmul tpu_fusible_matmul_with_stateful_fusions tpu_pallas_call_print tpu_pallas_mpmd einshape""")


# ---- vLLM for TPUs: its kernels without the server around them

def _module(name, **contents):
    made = types.ModuleType(name)
    made.__dict__.update(contents)
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, made)
    return made


def _unset(name):
    """A variable of the environment that is not set."""
    if name.startswith("__"):
        raise AttributeError(name)
    return False


def _mesh(shape, names, **words):
    """A mesh whose arrays the compiler shards."""
    import jax
    return jax.make_mesh(shape, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names), **words)


LATER, OF_LATER = 7, _files("quantized_matmul_kernel fused_moe_v1")  # tests skip themselves before this version of the TPU
OF_SEVERAL = _files("all_gather_matmul_kernel fused_moe_v1 ragged_paged_attention_kernel_cp")


def prepare_tpu_inference(folder, mode):
    import logging

    from jax._src import dtypes
    if os.path.basename(os.environ["WILD_FILE"]) in OF_SEVERAL:
        several_devices(8)
    file = os.path.basename(os.environ["WILD_FILE"])
    answer_for_a_tpu(*(tpu_v7x() if file in WITH_SPARSE_CORES else (tpu_v5e(), LATER if file in OF_LATER else VERSION)))
    sys.path.insert(0, folder)
    for name in ("tpu_inference", "tests"):
        _module(name).__path__ = [os.path.join(folder, name)]

    class Logger(logging.Logger):
        info_once = warning_once = debug_once = logging.Logger.debug
    _module("tpu_inference.logger", init_logger=Logger)
    _module("tpu_inference.utils", TPU_HEAD_SIZE_ALIGNMENT=128, make_optimized_mesh=_mesh, align_to=lambda x, a: -(-x // a) * a,
            get_dtype_packing=lambda dtype: 32 // dtypes.itemsize_bits(dtype),
            get_device_name=lambda number=None: "TPU v%d" % VERSION + ("" if number is None else "-%d" % number))
    _module("tests.test_utils", poison_tpu_memory=lambda *args, **words: None)
    _module("tpu_inference.envs").__getattr__ = _unset
    absent = {name for name in ("vllm", "tokamax") if importlib.util.find_spec(name) is None}
    for whole in ("vllm.model_executor.kernels.mhc", "tokamax._src.ops.experimental.gmm_v2.gmm_v2"):
        parts = whole.split(".")
        for k in range(1, len(parts) + 1) if parts[0] in absent else ():
            _module(".".join(parts[:k])).__path__ = []
    if "tokamax" in absent:
        sys.modules["tokamax._src.ops.experimental.gmm_v2.gmm_v2"].gmm_v2 = None


# Sizes for the tests of the fused mixture of experts: with their own, a test did not end in 500 s.
MOE = {"top_k": 2, "num_experts": 8, "hidden_size": 256, "intermediate_size": 256, "num_tokens": 8 * 16,
       "bt": 16, "bf": 256, "bd1": 256, "bd2": 256, "btc": 16, "bfc": 256, "bd1c": 256, "bd2c": 256}


def collected_tpu_inference(items):
    """Makes functions that its modules imported by name describe the same TPU, with chips in a row, and reduces the sizes of the largest tests."""
    import jax
    type(jax.devices()[0]).coords = property(lambda device: (device.id, 0, 0))
    for case in {item.cls for item in items if item.cls and item.cls.__name__ == "MoEKernelTest"}:
        case._test_moe = lambda self, whole=case._test_moe, **words: whole(self, **{**words, **MOE, **{name: 256 for name in words if name.startswith("subc")}})
    for name, module in list(sys.modules.items()):
        if name.startswith("tpu_inference.") and module is not None:
            for asked, answer in (("get_tpu_version", VERSION), ("tpu_kind", KIND), ("is_tpu", True)):
                if asked in vars(module):
                    setattr(module, asked, lambda *args, answer=answer, **words: answer)


PROJECTS = [
    Project("jax-ml/jax", ["tests/pallas/" + name for name in PLAIN + FOR_TPUS],
            prepare=prepare_jax, collected=collected_jax, needs=("absl", "hypothesis"),
            remark="Tests that query the TPU see a v5e with one core, and those of SparseCores the SparseCores of a v7x.\nTests of another commit than the installed JAX may use what that version lacks.", versions=True),
    Project("pytorch/helion", ["test/test_pallas*.py", "test/test_pretuned*pallas*.py"], variables={"HELION_BACKEND": "pallas", "HELION_PALLAS_INTERPRET": "1"},
            prepare=lambda folder, mode: sys.path.insert(0, folder), needs=("torch",),
            remark="Kernels that Helion generates from PyTorch code, with `interpret=True`."),
    Project("vllm-project/tpu-inference", ["tests/kernels/**/*_test.py", "tests/kernels/**/test_*.py"], interpreters=("interpret", "params"),
            prepare=prepare_tpu_inference, collected=collected_tpu_inference, needs=("sympy",),
            remark="vLLM's kernels for TPUs, without the server; tests that query the TPU see a v5e, and those of SparseCores the SparseCores of a v7x.\n"
                   "`fused_moe_v1_test.py` sees 8 TPUs of version 7, and runs with 8 experts and 256 channels: a test with its own 128 experts and 1,024 channels did not end in 500 s."),
]


def by_name(name):
    return next((project for project in PROJECTS if project.name == name), None)

