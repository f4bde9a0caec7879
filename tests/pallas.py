#!/usr/bin/env python3
"""Kernels as `pkc --emit=pallas` writes them, in JAX's interpret mode, against `pkc run` on the same arrays.

The cases are the `// test:` lines of the kernels. JAX is required: of this Python, of build/jax (`make jax`) or of build/venv.

    tests/pallas.py [FILE.pk..]     all cases of these files; a selection of each without

Prints one line a failure, with the command that reproduces it, and ends with "N passed, N failed".
"""
import faulthandler
import os
import re
import subprocess
import sys
import tempfile

from sampling import sampled

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PKC = os.environ.get("PKC", os.path.join(BUILD, "pkc"))
TIMEOUT = 300
# Cases that JAX computes differently, or in which pkc reports an error, by file and by words of the case.
OTHERWISE = {
    "kernels/train/rmsnorm_backward.pk M=1 N=1": "dx is a difference of equal numbers: only rounding is left of it",
    "tests/cases/bugs/folding.pk": "jnp.mod gives +0 where a multiple of a negative number leaves -0",
    "tests/cases/bugs/narrow_fma.pk": "it has no fma, a sum of a product is rounded twice",
    "tests/cases/bugs/no_elements.pk -k no_elements": "E0680: `a` has no elements",
    "tests/cases/bugs/no_elements.pk -k copies": "E0680: `o` has no elements",
    "tests/cases/bugs/product_of_no_narrow_elements.pk -k reshaped": "E0680: `z` has no elements",
    "tests/cases/bugs/product_of_no_narrow_elements.pk -k transposed": "E0680: `z` has no elements",
    "tests/cases/bugs/scan_of_minus_zero.pk -k scan_of_minus_zero": "XLA's running sums begin with +0",
    "tests/cases/check/view_halves.pk -k masked": "E0680: a view of a part of a view that is not a window of its ref",
    "tests/cases/lang/patterns.pk -k special": "XLA compares subnormal numbers as zeros",
    "tests/cases/lang/random.pk": "E0680: an index beyond 32 bits",
    "tests/cases/mesh/eight_axes.pk": "JAX does not interpret remote copies of views",
    "tests/cases/mesh/threads.pk": "JAX does not interpret reads of semaphores on several devices",
    "tests/cases/mesh/views.pk": "JAX does not interpret remote copies of views",
    "tests/cases/bugs/view_of_many_cuts.pk": "E0680: a view of a part of a view that is not a window of its ref",
    "tests/cases/memory/eight_axes.pk": "E0680: a view of a part of a view that is not a window of its ref",
    "tests/cases/memory/alias_in_place.pk -k twice": "JAX's plain interpreter fetches a block again that does not move, that of TPUs "
    "takes no alias of blocks that extend past their array",
    "tests/cases/memory/alias_read_only.pk -k none": "JAX refuses windows that begin at the end of their axis, even without elements",
    "tests/cases/memory/pipeline_nested.pk": "JAX does not interpret scratch of a loop inside another such loop",
    "tests/cases/memory/slice.pk": "E0680: pl.BoundedSlice is not for the blocks of a grid",
    "tests/cases/memory/slice_sum.pk": "E0680: pl.BoundedSlice is not for the blocks of a grid",
    "tests/cases/memory/view_layouts.pk": "JAX does not interpret windows of run-time length of views",
    "tests/cases/memory/view_parts.pk -k stored": "E0680: a view of a part of a view that is not a window of its ref",
    "tests/cases/memory/view_parts_in_columns.pk -k parts_in_columns": "Pallas has no view of a part of a view that is not a window of its ref",
    "tests/cases/memory/view_refused.pk": "E0680: a view of a part of a view that is not a window of its ref",
    "tests/cases/memory/view_stores.pk -k runs": "Pallas has no view of a part of a view that is not a window of its ref",
}
# Cases for the interpreter of TPUs, because the plain one lacks windows of run-time length, and blocks that stay in VMEM while their array
# changes.
LIKE_A_TPU = [
    *("tests/cases/memory/" + name for name in ("copy_length.pk", "copy_rows.pk", "wait_for_several.pk")),
    "tests/cases/hazards/alias_read_in_place.pk",
]
# Floats that are rounded to integers. XLA multiplies by the reciprocal of a constant divisor and has another exp, so a number near a half (or,
# before a cast, near an integer) may be rounded to the neighbour: the permitted difference, in at most 1 % of the elements of an output.
NEIGHBOURS = {
    "kernels/quantise.pk -k quantise_columns": (1,),
    "kernels/quantise.pk -k quantise_rows": (1,),
    "kernels/quantise.pk -k quantise_groups": (1, 16),  # two numbers of 4 bits
    "tests/cases/dtypes/rounded_integers.pk": (1,),
}
# Messages of JAX, XLA and the written kernels that refuse a call, so that there is no result to compare.
REFUSALS = (
    "Pallas has no blocks of no elements",
    "TransposeTransform",  # JAX's interpreter has no copies of transposed refs
    "does not support custom element sizes on non-sub-byte types",  # XLA has no products of elements below 8 bits on CPUs
)
FOLDERS = [
    *("kernels" + d for d in ("", "/attention", "/collectives", "/images", "/matmul", "/moe", "/sequence")),
    *("tests/cases/" + d for d in ("pallas", "kernels", "lang", "bugs", "operations", "memory", "masked", "mesh", "programs", "wide")),
    *("tests/cases/" + d for d in ("check", "dtypes", "hazards", "python")),
]

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Each operation on a narrow float rounds, as the language defines it.
os.environ.setdefault("XLA_FLAGS", "--xla_allow_excess_precision=false --xla_force_host_platform_device_count=8")
try:
    import jax
except ImportError:
    for folder in (os.path.join(BUILD, "jax"), os.path.join(ROOT, "build", "jax"), os.path.join(ROOT, "build", "venv")):
        python = os.path.join(folder, "bin", "python")
        if os.path.exists(python) and "PALLAS_PYTHON" not in os.environ:
            os.environ["PALLAS_PYTHON"] = python
            os.execv(python, [python, *sys.argv])
    print("SKIPPED pallas: JAX is not installed (make jax)")
    print("0 passed, 0 failed")
    sys.exit(0)

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax._src.pallas.mosaic import tpu_info
from jax.experimental.pallas import tpu as pltpu

# emit_pipeline requires tiles of a TPU, also in the interpreter.
tpu_info.registry.setdefault("cpu", lambda: tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_V5E, 1))

# Dtypes that a .npy file names only by their size.
NARROW = {
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "i2": ml_dtypes.int2,
    "u2": ml_dtypes.uint2,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}


def unpack(array, dtype, length):
    """The elements that share the bytes of the last axis, the first in the lowest bits."""
    kind = NARROW[dtype]
    bits = (ml_dtypes.iinfo if dtype[0] in "iu" else ml_dtypes.finfo)(kind).bits
    part = (array[..., None] >> np.arange(0, 8, bits, dtype=np.uint8)) & ((1 << bits) - 1)
    part = part.reshape(*array.shape[:-1], array.shape[-1] * (8 // bits))[..., :length]
    if dtype[0] == "f":
        return np.ascontiguousarray(part).view(kind)
    part = part.astype(np.int8)
    sign = 1 << (bits - 1) if dtype[0] == "i" else 0
    return ((part ^ sign) - sign).astype(kind)


def load(path, dtype, packed=None):
    """An array of `pkc run`; `packed` is the length of the last axis if its elements share bytes."""
    array = np.load(path)
    if packed is not None:
        return unpack(array, dtype, packed)
    return array.view(NARROW[dtype]) if dtype in NARROW else array


def entry(table, path, arguments):
    """The key of a table that matches the file and words of the case, or None."""
    case = f"{' '.join(arguments)} "
    return next((key for key in table if key == path or (key.startswith(path + " ") and f"{key[len(path) + 1:]} " in case)), None)


def differs(got, want, neighbours=()):
    """What is wrong with an array, or None. The tolerance is twice that of docs/cli.md, because both sides have errors."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if want.dtype.kind in "biu" or want.dtype.name in ("int4", "uint4", "int2", "uint2"):
        wrong = got != want
        if neighbours and wrong.sum() <= max(1, wrong.size // 100):
            wrong &= ~np.isin(np.abs(got.astype(np.int64) - want.astype(np.int64)), neighbours)
    else:
        u = float(ml_dtypes.finfo(want.dtype).eps) if want.dtype.itemsize < 4 else 0
        g, w = got.astype(np.float64), want.astype(np.float64)
        finite = w[np.isfinite(w)]
        rms = np.sqrt(np.mean(finite * finite)) if finite.size else 0
        with np.errstate(invalid="ignore"):
            near = np.abs(g - w) <= 2 * (2.0**-23 * 64 + 2.5 * u) * np.maximum(np.abs(w), rms)
        wrong = ~(near | (g == w) | (np.isnan(g) & np.isnan(w)))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{list(at)} is {got[at]}, not {want[at]}; {int(wrong.sum())} of {wrong.size} differ"


def cases(path):
    """The arguments of `pkc run` that a file's directives give."""
    text = open(os.path.join(ROOT, path), encoding="utf-8").read()
    found = [m.group(1).split() for m in re.finditer(r"^// test: (.*)", text, re.M)]
    most = len(found) if sys.argv[1:] else 5 if path.startswith(("kernels/", "tests/cases/operations/")) else 2
    found = found[:: -(-len(found) // most)] if found else []  # each takes one or two seconds
    return [[w for w in words if not w.startswith("threads=")] for words in found]


def settings(arguments, statics):
    """The words of the command line that choose statics and the kernel."""
    words = []
    for i, word in enumerate(arguments):
        if word in ("-D", "-k"):
            words += arguments[i : i + 2]
        elif "=" in word and word.split("=")[0] in statics and arguments[i - 1] != "-D":
            words += ["-D", word]
    return words


def run_pkc(*words):
    python = {**os.environ, "PYTHON": sys.executable}  # references in Python need NumPy
    return subprocess.run([PKC, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, env=python)


class Refused(RuntimeError):
    """Whether Pallas cannot have the kernel, because it has arrays of 64-bit numbers."""

    @staticmethod
    def of(message, header):
        wide = re.search(r"`(\w+)` is an array of (f64|i64|u64) \[E0680\]", message)
        right = wide and re.search(rf"^  \w+ [$%]?{wide[1]}: (\w+ )?{wide[2]}\b", header, re.M)
        return Refused(message) if right else RuntimeError(message)


class Kernel:
    """The Python of a kernel, with its operands' names."""

    def __init__(self, path, words):
        done = run_pkc("--emit=pallas", path, *words)
        if done.returncode:
            raise Refused.of(done.stderr.strip().splitlines()[0], run_pkc("--emit=ir", path, *words).stdout)
        space = {}
        exec(compile(done.stdout, path + ".py", "exec"), space)
        header = run_pkc("--emit=ir", path, *words).stdout
        self.name = re.match(r"(?:kernel|program) (\w+)", header).group(1)
        self.function = space[self.name]
        header = header.split("\nkernel ")[0]  # the kernels that a program calls follow it
        self.mesh = re.search(r"^  mesh ", header, re.M)
        self.aliased = re.search(r"^  output .* alias ", header, re.M)
        self.dtypes = dict(re.findall(r"^  (?:input|output) \$(\w+): (\w+)", header, re.M))
        self.packed = dict(re.findall(r"^  (?:input|output) \$(\w+): .* of \w+\[(?:[^]]*, )?(\w+)\] packed", header, re.M))
        self.inputs = re.findall(r"^  input \$(\w+):", header, re.M)
        self.outputs = re.findall(r"^  output \$(\w+):", header, re.M)

    def sizes(self, given):
        """The sizes that no input determines, which are keyword arguments."""
        code = self.function.__code__
        names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        return {n: v for n, v in given.items() if n in names}


def length_of(kernel, name, sizes):
    """The number of elements along the last axis of a packed operand; None for other operands."""
    last = kernel.packed.get(name)
    return int(sizes.get(last, last)) if last else None


def run_both(kernel, path, arguments, sizes, folder):
    """The outputs of JAX and of `pkc run` on the same inputs."""
    files = {n: os.path.join(folder, n + ".npy") for n in kernel.inputs + kernel.outputs}
    words = ["run", path, *arguments, *(w for n, f in files.items() for w in ("-o", f"{n}={f}"))]
    done = run_pkc(*words)
    if done.returncode:
        raise RuntimeError("pkc run: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    inputs = [load(files[n], kernel.dtypes[n], length_of(kernel, n, sizes)) for n in kernel.inputs]
    if kernel.aliased:  # an updated input was written back to its file: both sides start from that
        for name in kernel.inputs:
            np.save(os.path.join(folder, f"{name}_0.npy"), np.load(files[name]))
        others = [a for a in arguments if a.split("=")[0] not in kernel.inputs]
        given = [f"{n}={folder}/{n}_0.npy" for n in kernel.inputs]
        done = run_pkc("run", path, *others, *given, *words[2 + len(arguments) :])
        if done.returncode:
            raise RuntimeError("pkc run: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    mode = pltpu.InterpretParams() if entry(LIKE_A_TPU, path, arguments) or kernel.mesh else True
    results = kernel.function(*(jnp.asarray(a) for a in inputs), interpret=mode, **kernel.sizes(sizes))
    results = results if isinstance(results, (tuple, list)) else (results,)
    return [np.asarray(r) for r in results], [load(files[n], kernel.dtypes[n], length_of(kernel, n, sizes)) for n in kernel.outputs]


def check(path, arguments, kernels, folder):
    """Runs a case both ways, and returns what is wrong, or None."""
    text = re.sub(r"//.*", "", open(os.path.join(ROOT, path), encoding="utf-8").read())
    if "-k" in arguments:  # a static of one kernel may be a size of another
        head = r"^(?:(?:kernel|program) {0}\b|reference {0}\()".format(arguments[arguments.index("-k") + 1])
        text = re.search(rf"{head}.*?(?=^\w|\Z)", text, re.M | re.S)[0]
    statics = set(re.findall(r"(\w+)\s*(?::\s*\w+\s*)?=", ",".join(re.findall(r"\bstatic ([^;]*);", text))))
    words = settings(arguments, statics)
    key = (path, *words)
    if key not in kernels:
        try:
            kernels[key] = Kernel(path, words)
        except Refused:
            return None
    kernel = kernels[key]
    sizes = {n: int(v) for n, v in (w.split("=", 1) for w in arguments if re.fullmatch(r"\w+=\d+", w)) if n not in statics}
    try:
        results = run_both(kernel, path, arguments, sizes, folder)
    except (ValueError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
        if any(message in str(error) for message in REFUSALS):
            return None
        raise
    neighbours = NEIGHBOURS.get(entry(NEIGHBOURS, path, arguments), ())
    for name, got, want in zip(kernel.outputs, *results):
        wrong = differs(got, want, neighbours)
        if wrong:
            return f"{name}: {wrong}"
    return None


def main():
    paths = sys.argv[1:] or [f"{d}/{n}" for d in FOLDERS for n in sorted(os.listdir(os.path.join(ROOT, d))) if n.endswith(".pk")]
    passed = failed = 0
    chosen = [(path, arguments) for path in paths for arguments in (cases(path) if path not in OTHERWISE else [[]])]
    if not sys.argv[1:]:
        chosen = sampled(chosen, 50)
    kernels = {}
    with tempfile.TemporaryDirectory() as folder:
        for path, arguments in chosen:
            otherwise = entry(OTHERWISE, path, arguments)
            if otherwise:
                code, _, reason = re.fullmatch(r"((E\d+): )?(.*)", OTHERWISE[otherwise]).groups()
                said = run_pkc("--emit=pallas", *otherwise.split()).stderr if code else ""
                good = not code or (code[:-2] in said and reason in said)
                passed, failed = passed + good, failed + (not good)
                if not good:
                    print(f"FAIL {path}: requires {OTHERWISE[otherwise]}; reproduce: build/pkc --emit=pallas {otherwise}")
                continue
            faulthandler.dump_traceback_later(TIMEOUT, exit=True)
            try:
                wrong = check(path, arguments, kernels, folder)
            except Exception as error:
                pltpu.reset_tpu_interpret_mode_state()
                wrong = f"{type(error).__name__}: {str(error)[:300]}".replace("\n", " ")
            passed += wrong is None
            failed += wrong is not None
            if wrong:
                print(f"FAIL {path} {' '.join(arguments)}: {wrong}; reproduce: tests/pallas.py {path}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
