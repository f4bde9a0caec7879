#!/usr/bin/env python3
"""The kernel library against NumPy in float64.

Every case runs `pkc run` on arrays made here, with one thread and with two, and compares the output with a float64
computation in this file; the two runs must give the same bits. Some cases also run with --target generic.

    tests/oracle.py [TEXT]    only cases whose name contains TEXT

Prints one line a failure, with the command that reproduces it (its arrays are kept), and ends with "N passed, N failed".
"""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import zlib

import numpy as np

from sampling import sampled

from suite import PKC, ROOT

WORK = os.path.join(os.environ.get("BUILD", "build"), "oracle", str(os.getpid()))
TIMEOUT = 150

# ---- bfloat16 as uint16 patterns


def to_bf16(values):
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(patterns):
    return (patterns.astype(np.uint32) << 16).view(np.float32)


class Bf16:
    """An array whose file has the header that ml_dtypes writes for bfloat16."""

    def __init__(self, values):
        self.patterns = to_bf16(values)
        self.values = from_bf16(self.patterns).astype(np.float64)


def save(path, array):
    with open(path, "wb") as file:
        if isinstance(array, Bf16):
            header = {"descr": "<V2", "fortran_order": False, "shape": array.patterns.shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.write(array.patterns.tobytes())
        else:
            np.lib.format.write_array(file, np.ascontiguousarray(array))


def load(path):
    array = np.load(path)
    if array.dtype.kind == "V":
        return from_bf16(array.view(np.uint16))
    return array


def exact(array):
    """The values of an input, for computing with."""
    if isinstance(array, Bf16):
        return array.values
    return array if array.dtype.kind == "i" else array.astype(np.float64)


# ---- the functions that the kernels compute


def softmax(x):
    if x.shape[-1] == 0:
        return x
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def selu(x):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rmsnorm(x, w):
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True) / max(x.shape[1], 1) + 1e-6) * w


def layernorm(x, w, b):
    count = max(x.shape[1], 1)
    centred = x - x.sum(axis=1, keepdims=True) / count
    return centred / np.sqrt((centred * centred).sum(axis=1, keepdims=True) / count + 1e-5) * w + b


def attention(q, k, v, causal):
    heads, groups = q.shape[1], k.shape[1]
    k, v = (np.repeat(t, heads // groups, axis=1) for t in (k, v))
    scores = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(q.shape[3])
    if causal:
        row, col = np.ogrid[: scores.shape[2], : scores.shape[3]]
        scores = np.where(col <= row, scores, -np.inf)
    return np.matmul(softmax(scores), v)


def matmul(a, b):
    if a.dtype.kind == "i":
        a, b = a.astype(np.int64), b.astype(np.int64)
    return a @ b


def mlp(x, w1, b1, w2, b2):
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2


# ---- the cases


class Case:
    """One kernel on given arrays. `bound` is the greatest absolute error; 0 requires equal values."""

    def __init__(self, name, kernel, output, inputs, expected, bound, options=(), generic=False, refused=None):
        self.name, self.kernel, self.output, self.inputs = name, kernel, output, inputs
        self.expected, self.bound, self.options, self.generic, self.refused = expected, bound, list(options), generic, refused


cases = []


def add_case(name, kernel, inputs, compute, bound, output="o", **more):
    """`inputs` and `compute` are called when the case runs, so that few arrays are alive at a time."""
    cases.append(Case(name, kernel, output, inputs, compute, bound, **more))


def normals(name, **shapes):
    """A generator of standard normals, the same in every run."""

    def make():
        random = np.random.default_rng(zlib.crc32(name.encode()))
        return {key: random.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}

    return make


def elementwise_cases(m, n):
    size = f"{m}x{n}"
    generic = (m, n) in ((7, 5), (33, 257))
    name = f"add {size}"
    add_case(name, "add", normals(name, x=(m, n), y=(m, n)),
             lambda a: (a["x"] + a["y"]), 0, generic=generic)
    for kernel, function in (("selu", selu), ("gelu", gelu)):
        name = f"{kernel} {size}"
        add_case(name, kernel, normals(name, x=(m, n)), lambda a, f=function: f(exact(a["x"])), 2e-6, generic=generic)
    name = f"transpose {size}"
    add_case(name, "transpose", normals(name, x=(m, n)), lambda a: a["x"].T, 0, generic=generic)


def row_cases(m, n):
    size = f"{m}x{n}"
    generic = (m, n) in ((7, 5), (33, 257))
    root = max(n, 1) ** 0.5
    name = f"softmax {size}"
    add_case(name, "softmax", normals(name, x=(m, n)), lambda a: softmax(exact(a["x"])), 2e-6, generic=generic)
    name = f"row_sum {size}"
    add_case(name, "row_sum", normals(name, x=(m, n)),
             lambda a: exact(a["x"]).sum(axis=1, keepdims=True), 5e-6 * root, generic=generic)
    name = f"rmsnorm {size}"
    add_case(name, "rmsnorm", normals(name, x=(m, n), w=(n,)),
             lambda a: rmsnorm(exact(a["x"]), exact(a["w"])), 1e-5, generic=generic)
    name = f"layernorm {size}"
    add_case(name, "layernorm", normals(name, x=(m, n), w=(n,), b=(n,)),
             lambda a: layernorm(exact(a["x"]), exact(a["w"]), exact(a["b"])), 1e-5, generic=generic)


def axpy_case(n):
    name = f"axpy {n}"
    add_case(name, "axpy", normals(name, a=(1,), x=(n,), y=(n,)), lambda a: a["a"] * a["x"] + a["y"], 0, generic=n == 7)


def matmul_inputs(name, m, k, n, dtype):
    def make():
        random = np.random.default_rng(zlib.crc32(name.encode()))
        if dtype == "i8":
            return {"a": random.integers(-128, 128, (m, k), dtype=np.int8), "b": random.integers(-128, 128, (k, n), dtype=np.int8)}
        a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
        return {"a": Bf16(a), "b": Bf16(b)} if dtype == "bf16" else {"a": a, "b": b}

    return make


def matmul_case(m, k, n, dtype):
    name = f"matmul {dtype} {m}x{k}x{n}"
    root = max(k, 1) ** 0.5
    bound = {"f32": 1e-5 * root, "bf16": 2e-2 * root, "i8": 0}[dtype]
    add_case(name, "matmul", matmul_inputs(name, m, k, n, dtype), lambda a: matmul(exact(a["a"]), exact(a["b"])), bound,
             output="c", generic=(m, k, n) == (33, 65, 47))


def mlp_case(m, d, f):
    name = f"mlp {m}x{d}x{f}"
    make = normals(name, x=(m, d), w1=(d, f), b1=(f,), w2=(f, d), b2=(d,))
    bound = 1e-5 * (max(d, 1) * max(f, 1)) ** 0.5
    add_case(name, "mlp", make, lambda a: mlp(*(exact(a[key]) for key in ("x", "w1", "b1", "w2", "b2"))), bound,
             generic=(m, d, f) == (7, 5, 9))


def attention_inputs(name, shapes, dtype):
    make = normals(name, **shapes)
    return make if dtype == "f32" else lambda: {key: Bf16(array) for key, array in make().items()}


def attention_case(b, h, g, n, s, d, causal=False, dtype="f32"):
    name = f"flash_attn {dtype} B={b} H={h} G={g} N={n} S={s} D={d}" + (" causal" if causal else "")
    shapes = {"q": (b, h, n, d), "k": (b, g, s, d), "v": (b, g, s, d)}
    add_case(name, "flash_attn", attention_inputs(name, shapes, dtype),
             lambda a: attention(*(exact(a[key]) for key in "qkv"), causal), 5e-6 if dtype == "f32" else 2e-2,
             options=["-D", f"CAUSAL={str(causal).lower()}"], generic=d == 80 and n < 200)


def matmul_dma_case(m, k, n):
    name = f"matmul_dma {m}x{k}x{n}"
    add_case(name, "matmul_dma", normals(name, a=(m, k), b=(k, n)), lambda a: exact(a["a"]) @ exact(a["b"]),
             1e-5 * max(k, 1) ** 0.5, output="c", options=["-D", "BM=8", "-D", "BN=24", "-D", "BK=16"], generic=k == 16)


def embedding_case(rows, d, n, dtype="f32"):
    name = f"embedding {dtype} {rows}x{d} at {n}"

    def make():
        table = normals(name, table=(rows, d))()["table"]
        ids = np.random.default_rng(zlib.crc32(name.encode())).integers(0, rows, n).astype(np.int32)
        return {"id": ids, "table": Bf16(table) if dtype == "bf16" else table}

    add_case(name, "embedding", make, lambda a: exact(a["table"])[a["id"]], 0, generic=n == 7)


def quantise_cases(m, n, kernel, axis):
    """Equal values: the scale is one division in f32, and q rounds another one to the nearest integer."""
    name = f"{kernel} {m}x{n}"
    make = normals(name, w=(m, n))

    def scale(a):
        return np.abs(a["w"]).max(axis=axis, initial=0) / np.float32(127)

    def q(a):
        s = np.expand_dims(scale(a), axis)
        return np.round(a["w"] / np.where(s == 0, np.float32(1), s)).astype(np.int8)

    for output, compute in (("scale", scale), ("q", q)):
        add_case(f"{name} {output}", "quantise", make, compute, 0, output=output, options=["-k", kernel], generic=n == 5)


def refused_case(name, kernel, text, arrays):
    cases.append(Case(f"refused: {name}", kernel, None, lambda: arrays, None, 0, refused=text))


def list_cases():
    for m, n in ((0, 0), (0, 3), (3, 0), (1, 1), (1, 7), (7, 1), (7, 5), (33, 257), (1000, 777), (3, 100000)):
        elementwise_cases(m, n)
        row_cases(m, n)
    row_cases(1, 1000000)
    for n in (0, 1, 7, 100000):
        axpy_case(n)
    for dtype in ("f32", "bf16", "i8"):
        for m, k, n in ((0, 3, 2), (3, 0, 4), (3, 2, 0), (1, 1, 1), (1, 7, 5), (7, 1, 5), (8, 300, 1), (33, 65, 47), (300, 777, 515),
                        (1, 1000, 777), (8, 1000, 777), (1000, 777, 100)):
            matmul_case(m, k, n, dtype)
    for m, d, f in ((0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (7, 5, 9), (100, 77, 1000), (300, 200, 513)):
        mlp_case(m, d, f)
    for d in (64, 80, 96, 128):
        for causal in (False, True):
            attention_case(1, 2, 2, 129, 131, d, causal)
            attention_case(2, 1, 1, 7, 5, d, causal)
    for causal in (False, True):
        attention_case(1, 8, 2, 1000, 777, 64, causal)
        attention_case(1, 2, 1, 1, 1023, 64, causal)
        attention_case(1, 2, 1, 5, 0, 64, causal)
        attention_case(1, 4, 2, 300, 1100, 80, causal)
        attention_case(1, 4, 2, 333, 515, 64, causal, "bf16")
        attention_case(1, 2, 2, 130, 77, 96, causal, "bf16")
        attention_case(1, 2, 1, 5, 0, 64, causal, "bf16")
    for m, k, n in ((0, 16, 24), (8, 0, 24), (8, 16, 24), (24, 160, 96)):
        matmul_dma_case(m, k, n)
    for rows, d, n in ((1, 1, 1), (5, 9, 7), (3, 4, 0), (300, 130, 129)):
        embedding_case(rows, d, n)
    embedding_case(300, 130, 129, "bf16")
    for m, n in ((0, 3), (1, 1), (7, 5), (37, 130)):
        quantise_cases(m, n, "quantise_columns", 0)
        quantise_cases(m, n, "quantise_rows", 1)
    attention_case(1, 1, 1, 1, 1, 64)
    attention_case(0, 2, 1, 3, 4, 64)
    attention_case(1, 0, 1, 3, 4, 64)
    attention_case(1, 2, 1, 0, 4, 64)
    attention_case(1, 1, 1, 1, 1, 1)
    # Rows with entries of -inf and entries far apart.
    wide = np.array([[0, -np.inf, 1], [1e30, 0, -1e30], [-3e38, -3e38, -3e38], [88.8, -88.8, 1000]], dtype=np.float32)
    add_case("softmax of wide rows", "softmax", lambda: {"x": wide}, lambda a: softmax(exact(a["x"])), 2e-6)
    far = (np.arange(24, dtype=np.float32).reshape(2, 12) + 1e4).astype(np.float32)
    ones, zeros = np.ones(12, dtype=np.float32), np.zeros(12, dtype=np.float32)
    add_case("layernorm of rows far from 0", "layernorm", lambda: {"x": far, "w": ones, "b": zeros},
             lambda a: layernorm(exact(a["x"]), exact(a["w"]), exact(a["b"])), 1e-3)
    f32 = lambda *shape: np.zeros(shape, dtype=np.float32)
    refused_case("sizes disagree", "add", "y", {"x": f32(3, 4), "y": f32(4, 3)})
    refused_case("wrong rank", "add", "x", {"x": f32(3), "y": f32(3)})
    refused_case("wrong dtype", "add", "x", {"x": np.zeros((3, 4)), "y": f32(3, 4)})
    refused_case("inner sizes disagree", "matmul", "b", {"a": f32(3, 4), "b": f32(5, 6)})
    refused_case("heads", "flash_attn", "query heads", {"q": f32(1, 3, 4, 8), "k": f32(1, 2, 4, 8), "v": f32(1, 2, 4, 8)})


# ---- which kernels are compared with NumPy, in this suite or in another one

SUITES = ["tests/oracle.py", "tests/devices.py", *sorted(glob.glob("python/tests/test_*.py", root_dir=ROOT))]


def uncovered():
    """Kernels of the library that neither a suite names nor a program that a suite names."""
    suites = "".join((ROOT / name).read_text(encoding="utf-8") for name in SUITES)
    for path in sorted((ROOT / "kernels").rglob("*.pk")):
        entries = re.split(r"^(?=(?:kernel|program|reference) )", path.read_text(encoding="utf-8"), flags=re.M)
        named = [(re.match(r"(kernel|program) (\w+)", entry), entry) for entry in entries]
        programs = "".join(entry for m, entry in named if m and m[1] == "program" and re.search(rf"\b{m[2]}\b", suites))
        for m, _ in named:
            if m and not re.search(rf"\b{m[2]}\b", suites) and not re.search(rf"= {m[2]}\(", programs):
                yield f"{path.relative_to(ROOT)}: {m[2]}"


# ---- running them


def judge(got, expected, bound):
    """What is wrong, or None."""
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if got.size == 0:
        return None
    if bound == 0:
        wrong = ~(got == expected)
        return f"{int(wrong.sum())} of {got.size} elements differ" if wrong.any() else None
    error = np.abs(got.astype(np.float64) - expected)
    error[np.isnan(error)] = np.inf
    worst = np.unravel_index(np.argmax(error), error.shape)
    if error[worst] <= bound:
        return None
    place = ", ".join(str(int(i)) for i in worst)
    return f"error {error[worst]:.3g} > {bound:.3g} at [{place}]: {got[worst]!r}, expected {expected[worst]!r}"


def command_of(case, folder, options, output):
    command = [PKC, "run", f"kernels/{case.kernel}.pk"] + case.options + options
    command += [f"{key}={folder}/{key}.npy" for key in case.names]
    return command + (["-o", f"{case.output}={output}"] if output else [])


def shown(command):
    return " ".join([os.path.relpath(command[0], ROOT)] + command[1:])


def execute(command):
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, errors="replace")
    except subprocess.TimeoutExpired:
        return None, f"no end after {TIMEOUT} s"
    except OSError as error:
        return None, str(error)
    return done.returncode, done.stderr.strip() or done.stdout.strip()


def one_line(text):
    return " / ".join(line.strip() for line in text.splitlines()[:4])


def run_refused(case, folder):
    command = command_of(case, folder, [], None)
    status, text = execute(command)
    if status != 1 or case.refused not in text:
        return [f"FAIL {case.name}: exit status {status}, expected 1 and a message with `{case.refused}`: {one_line(text)}; "
                f"reproduce: {shown(command)}"]
    return []


def run_variants(case, folder, expected):
    variants = [("1 thread", ["--threads", "1"]), ("2 threads", ["--threads", "2"])]
    if case.generic:
        variants.append(("generic", ["--target", "generic"]))
    failures, results = [], {}
    for number, (label, options) in enumerate(variants):
        output = f"{folder}/{case.output}{number}.npy"
        command = command_of(case, folder, options, output)
        status, text = execute(command)
        problem = None
        if status != 0:
            problem = f"exit status {status}: {one_line(text)}"
        elif not os.path.exists(os.path.join(ROOT, output)):
            problem = "no output was written"
        else:
            got = load(os.path.join(ROOT, output))
            results[label] = got
            problem = judge(got, expected, case.bound)
        if not problem and label == "2 threads" and "1 thread" in results and got.tobytes() != results["1 thread"].tobytes():
            problem = "other bits than with one thread"
        if problem:
            failures.append(f"FAIL {case.name} ({label}): {problem}; reproduce: {shown(command)}")
    return failures, len(variants)


def run_case(number, case):
    folder = f"{WORK}/{number}"
    path = os.path.join(ROOT, folder)
    os.makedirs(path)
    arrays = case.inputs()
    case.names = list(arrays)
    for key, array in arrays.items():
        save(f"{path}/{key}.npy", array)
    if case.refused:
        failures, count = run_refused(case, folder), 1
    else:
        with np.errstate(all="ignore"):
            expected = case.expected(arrays)
        failures, count = run_variants(case, folder, expected)
    if not failures:
        shutil.rmtree(path, ignore_errors=True)
    return failures, count


def main():
    list_cases()
    text = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [case for case in cases if text in case.name]
    if not text:
        chosen = sampled(chosen, 40)
    passed = failed = 0
    for name in uncovered():
        print(f"FAIL {name} is not compared with NumPy by any suite; reproduce: tests/oracle.py", flush=True)
        failed += 1
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(2, min(8, os.cpu_count() or 2))) as pool:
        for failures, count in pool.map(run_case, range(len(chosen)), chosen):
            for line in failures:
                print(line, flush=True)
            failed += len(failures)
            passed += count - len(failures)
    if failed == 0:
        shutil.rmtree(os.path.join(ROOT, WORK), ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
