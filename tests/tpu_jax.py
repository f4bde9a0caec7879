"""The transfers that `pkc tpu` counts against those of JAX's TPU interpreter: order, step and block index of each.

Grids, blocks and index maps are read from the text of the kernels and evaluated as Python, independently of the compiler. Without JAX (of
this Python, of build/jax or of build/venv) the comparison is reported as skipped."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import jax
except ImportError:
    for folder in ("jax", "venv"):
        python = os.path.join("build", folder, "bin", "python")
        if os.path.exists(python) and not os.environ.get("PKC_TPU_JAX"):
            os.execve(python, [python, *sys.argv], {**os.environ, "PKC_TPU_JAX": "1", "JAX_PLATFORMS": "cpu"})
    print("SKIPPED tpu_jax: JAX is not installed (make jax)")
    print("0 passed, 0 failed")
    sys.exit(0)

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
import jax._src.pallas.mosaic.interpret.interpret_pallas_call as interpreter

PKC = os.environ.get("PKC", "build/pkc")

CASES = [
    ("kernels/add.pk", dict(M=16, N=512), dict(BM=8, BN=128)),
    ("kernels/transpose.pk", dict(M=256, N=384), dict(BM=128, BN=128)),
    ("kernels/matmul.pk", dict(M=32, K=512, N=256), dict(BM=8, BK=128, BN=128)),
    ("kernels/matmul.pk", dict(M=32, K=128, N=256), dict(BM=8, BK=128, BN=128)),
    ("kernels/flash_attn.pk", dict(B=2, H=4, G=2, N=32, S=256), dict(BQ=8, BK=128, D=128, CAUSAL="true")),
    ("kernels/flash_attn.pk", dict(B=1, H=2, G=1, N=16, S=128), dict(BQ=8, BK=128, D=128)),
    ("kernels/softmax.pk", dict(M=64, N=128), {}),
    ("kernels/row_sum.pk", dict(M=32, N=256), dict(BM=8)),
    ("tests/cases/tpu/reuse.pk", dict(M=3, N=4, K=5), {}),
]


def python(expression):
    return expression.replace("/", "//").replace("&&", " and ").replace("||", " or ")


# The statics of the kernel, the grid extents, and for each operand the shapes of array and block and the index map.
def read(path, sizes, statics):
    text = re.sub(r"//.*", "", open(path).read())
    head, body = re.match(r"\s*kernel \w+\((.*?)\) -> \((.*?)\) \{(.*)", text, re.S).group(1), text
    names = {"cdiv": lambda a, b: -(-a // b), "max": max, "min": min, **sizes}
    for name, value in re.findall(r"(\w+)(?:: dtype)? = ([^,;]+)", " ".join(re.findall(r"static (.*?);", body, re.S))):
        try:
            names[name] = eval(python(value), {}, names)
        except (NameError, SyntaxError):
            names[name] = 0
    names.update({k: v for k, v in statics.items() if isinstance(v, int)})
    axes = re.findall(r"(\w+) in (.*?) (?:parallel|arbitrary)", re.search(r"grid \((.*?)\);", body, re.S).group(1))
    extents = [eval(python(extent), {}, names) for _, extent in axes]
    shapes = {}
    signature = re.match(r"\s*kernel \w+\((.*?)\) -> \((.*?)\) \{", text, re.S)
    for part in signature.groups():
        for name, shape in re.findall(r"(\w+): \w+\[(.*?)\]", part):
            shapes[name] = [eval(python(d), {}, names) for d in shape.split(",")]
    operands = collections.OrderedDict((name, None) for name in shapes)
    for group, block, index in re.findall(r"block ([\w, ]+): \[(.*?)\] at \((.*?)\)(?: pad [^;]+)?;", body):
        block = [None if d.strip() == "_" else eval(python(d), {}, names) for d in block.split(",")]
        for name in group.split(","):
            operands[name.strip()] = (shapes[name.strip()], block, index)
    inputs = [name for name, _ in re.findall(r"(\w+): \w+\[(.*?)\]", signature.group(1))]
    assert head and all(operands.values()), path
    return names, [a for a, _ in axes], extents, operands, inputs


def jax_transfers(path, sizes, statics):
    names, axes, extents, operands, inputs = read(path, sizes, statics)
    seen = collections.defaultdict(list)
    steps = {}

    def step(point):
        return steps.setdefault(tuple(int(p) for p in point), len(steps))

    original = interpreter.get, interpreter.store

    def get(*arguments, input_name=None, **others):
        if len(arguments) > 7 and arguments[7] is not None:
            seen["in"].append((int(arguments[4]), step(arguments[7]), [int(i) for i in arguments[6]]))
        return original[0](*arguments, input_name=input_name, **others)

    def store(*arguments, output_name=None, **others):
        if len(arguments) > 8 and arguments[8] is not None:
            seen["out"].append((int(arguments[4]), step(arguments[8]), [int(i) for i in arguments[7]]))
        return original[1](*arguments, output_name=output_name, **others)

    def spec(name):
        _, block, index = operands[name]
        code = compile(python(f"({index},)"), path, "eval")
        return pl.BlockSpec(tuple(block), lambda *at: eval(code, {}, {**names, **dict(zip(axes, at))}))

    def body(*refs):
        for ref in refs[len(inputs):]:
            ref[...] = jnp.zeros_like(ref)

    interpreter.get, interpreter.store = get, store
    try:
        outputs = [n for n in operands if n not in inputs]
        # Grid points are numbered by their order in the row-major grid, which is the order of `arbitrary` axes.
        total = 1
        for extent in extents:
            total *= extent
        for number in range(total):
            point, rest = [], number
            for extent in reversed(extents):
                point.insert(0, rest % extent)
                rest //= extent
            step(point)
        pl.pallas_call(body, grid=tuple(extents), in_specs=[spec(n) for n in inputs], out_specs=[spec(n) for n in outputs],
                       out_shape=[jax.ShapeDtypeStruct(tuple(operands[n][0]), jnp.float32) for n in outputs],
                       interpret=pltpu.InterpretParams())(*[jnp.zeros(tuple(operands[n][0]), jnp.float32) for n in inputs])
    finally:
        interpreter.get, interpreter.store = original
    result = {}
    for kind, group in (("in", inputs), ("out", outputs)):
        # Buffers are numbered in the order of the operands.
        for name, buffer in zip(group, sorted({b for b, _, _ in seen[kind]})):
            result[name] = [(s, i) for b, s, i in seen[kind] if b == buffer]
    return result


def model_transfers(path, sizes, statics):
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        words = [f"{n}={v}" for n, v in sizes.items()] + [w for n, v in statics.items() for w in ("-D", f"{n}={v}")]
        subprocess.run([PKC, "tpu", path, *words, "--json", "--walk-all", "--trace", trace.name], check=True, stdout=subprocess.DEVNULL)
        events = json.load(open(trace.name))["traceEvents"]
    result = collections.defaultdict(list)
    for e in events:
        if e.get("cat") == "dma":
            result[e["name"]].append((e["args"]["step"], e["args"]["block"]))
    return result


passed = failed = 0
for path, sizes, statics in CASES:
    wanted, found = jax_transfers(path, sizes, statics), model_transfers(path, sizes, statics)
    for name in wanted:
        if wanted[name] == found[name]:
            passed += 1
            continue
        failed += 1
        print(f"FAIL {path} {sizes}: transfers of {name}: JAX {wanted[name][:6]}.., pkc {found[name][:6]}..; reproduce: python3 tests/tpu_jax.py")
    if set(wanted) != set(found):
        failed += 1
        print(f"FAIL {path}: operands {sorted(wanted)} and {sorted(found)}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
