#!/usr/bin/env python3
"""Gradients of published forward kernels, derived by pkc, compared with those of the functions of jax.numpy that proofs.py compares them with.

    tests/wild/gradients.py [PROJECT [NAME ..]] [--sources FOLDER]    writes their table in docs/gradients.md

PROJECT is jax, whose kernels come with JAX, or tpu-inference, whose checkout FOLDER holds. A custom_vjp of a project is ignored:
the derivative is that of the forward kernel. The oracle is JAX's gradient of the plain function in binary64.
"""
import argparse
import importlib
import math
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
for path in ("build/python", "python/tests", "tests/wild"):
    sys.path.insert(0, str(ROOT / path))
PAGE = ROOT / "docs/gradients.md"
PROJECTS = ["jax", "tpu-inference"]
BOUND = {4: 2e-5, 2: 2e-2}  # limits of the error relative to the greatest gradient, by the bytes of the narrowest operand
REPEATED = 7


def primals_alone():
    """Makes calls of a function with its own backward function call the plain function."""
    import jax
    jax.custom_vjp.__call__ = lambda self, *a, **words: self.fun(*a, **words)


def keys_of_pages(pages, table):
    """[heads, pages, rows, width] and a table of pages by sequence as [sequences, keys, heads, width]."""
    held = pages[:, table]
    return held.reshape(*held.shape[:2], -1, held.shape[-1]).transpose(1, 2, 0, 3)


def more_of_jax():
    """JAX's other kernels with a gradient. gpu/*_mgpu.py has kernels of Mosaic GPU, which run on one only; tpu/random has numbers of integers;
    tpu/all_gather.py needs a mesh of TPUs."""
    import jax
    import numpy
    decode, paged = (importlib.import_module("jax.experimental.pallas.ops.gpu." + n) for n in ("decode_attention", "paged_attention"))
    double = importlib.import_module("jax.experimental.pallas.ops.tpu.example_kernel").double

    def shape(*extents):
        return jax.ShapeDtypeStruct(extents, "float32")

    def attention(q, k, v, lengths):
        """Queries [sequences, heads, width] of keys [sequences, keys, heads, width]."""
        heads = q.shape[1] // k.shape[2]
        k, v = (jax.numpy.repeat(x, heads, axis=2) for x in (k, v))
        s = jax.numpy.einsum("bhd,bshd->bhs", q, k)
        s = jax.numpy.where(jax.numpy.arange(k.shape[1]) < jax.numpy.asarray(lengths)[:, None, None], s, -jax.numpy.inf)
        return jax.numpy.einsum("bhs,bshd->bhd", jax.nn.softmax(s), v)

    def decoded():
        return (lambda q, k, v: decode.gqa(q, k, v, sm_scale=1.0, block_h=16, block_k=16, k_splits=2), lambda q, k, v: attention(q, k, v, [64, 64]),
                [shape(2, 4, 16), shape(2, 64, 2, 16), shape(2, 64, 2, 16)])

    def decoded_in_part():
        lengths = numpy.array([20, 50], "i4")
        return (lambda q, k, v, n: decode.gqa(q, k, v, None, n, sm_scale=1.0, block_h=16, block_k=16, k_splits=2), attention,
                [shape(2, 4, 16), shape(2, 64, 2, 16), shape(2, 64, 2, 16), lengths])

    def pages():
        table = numpy.array([[3, 1, 4, 7], [6, 2, 0, 5]], "i4")
        return (lambda q, k, v, t, n: paged.paged_attention(q, k, v, t, n, block_h=16, pages_per_compute_block=2, k_splits=2),
                lambda q, k, v, t, n: attention(q, keys_of_pages(k, table), keys_of_pages(v, table), n),
                [shape(2, 4, 16), shape(2, 8, 16, 16), shape(2, 8, 16, 16), table, numpy.array([40, 64], "i4")])
    return [("gpu.decode_attention", "2 sequences of 64 keys", decoded), ("gpu.decode_attention", "20 and 50 of 64 keys", decoded_in_part),
            ("gpu.paged_attention", "40 and 64 keys", pages), ("tpu.example_kernel", "16 x 128", lambda: (double, lambda x: x * 2, [shape(16, 128)]))]


def cases(name, folder):
    """(name, sizes, a function that returns the kernel, the plain function, and their arguments)"""
    if name == "jax":
        return [case[:3] for case in importlib.import_module("pallas_proofs").CASES] + more_of_jax()
    project = importlib.import_module("proofs_" + name.replace("-", "_"))
    project.prepare(folder)
    return project.CASES


def filled(arguments):
    """Arrays for the arguments that are shapes: standard normal, by a fixed seed."""
    import jax
    import numpy
    rng = numpy.random.default_rng(0)
    return [jax.numpy.asarray(rng.standard_normal(a.shape), a.dtype) if isinstance(a, jax.ShapeDtypeStruct) else jax.numpy.asarray(a) for a in arguments]


def loss(f):
    """A weighted sum of all results, with different weights of the elements."""
    import jax
    jnp = jax.numpy

    def number(*arrays):
        leaves = [v for v in jax.tree.leaves(f(*arrays)) if jnp.issubdtype(v.dtype, jnp.floating)]
        return sum((v.astype(jnp.promote_types(v.dtype, "float32")) * jnp.sin(jnp.arange(v.size).reshape(v.shape) + k)).sum() for k, v in enumerate(leaves))
    return number


def exact(plain, arrays, floats):
    """The gradients in binary64."""
    import jax
    import numpy
    with jax.enable_x64(True):
        wide = [jax.numpy.asarray(numpy.asarray(a, "f8")) if k in floats else a for k, a in enumerate(arrays)]
        return [numpy.asarray(g, "f8") for g in jax.grad(loss(plain), floats)(*wide)]


def error(found, wanted):
    """The greatest error, relative to the greatest element of its gradient."""
    import numpy
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        scale = max(numpy.abs(b).max(initial=0), 1e-30)
        worst = max(worst, float(numpy.abs(numpy.asarray(a, "f8") - b).max(initial=0) / scale))
    return math.inf if math.isnan(worst) else worst


def seconds(f, arrays):
    import jax
    jax.block_until_ready(f(*arrays))
    best = math.inf
    for _ in range(REPEATED):
        start = time.perf_counter()
        jax.block_until_ready(f(*arrays))
        best = min(best, time.perf_counter() - start)
    return best


def measured(make):
    """(error, the error of JAX in f32, cost relative to JAX's gradient), or the message."""
    import jax
    kernel, plain, arguments = make()
    arrays = filled(arguments)
    floats = tuple(k for k, a in enumerate(arrays) if jax.numpy.issubdtype(a.dtype, jax.numpy.floating))
    ours, theirs = (jax.jit(jax.grad(loss(f), floats)) for f in (kernel, plain))
    found, wanted = ours(*arrays), exact(plain, arrays, floats)
    width = min(arrays[k].dtype.itemsize for k in floats)
    return error(found, wanted), error(theirs(*arrays), wanted), seconds(ours, arrays) / seconds(theirs, arrays), BOUND[width]


def row(name, at, make):
    try:
        worst, theirs, cost, bound = measured(make)
    except Exception as wrong:  # report any failure of the project or the derivation
        told = str(wrong) or type(wrong).__name__
        reason = re.search(r"is refused: (.*?)(?:: write a|, whose values the gradient|: loop to|\n|$)", told)
        return "| `%s` | %s | refused: %s | | |" % (name, at, re.sub(r"\s+", " ", reason[1] if reason else told).replace("|", "\\|")[:120]), False
    good = worst <= max(bound, 4 * theirs)
    return "| `%s` | %s | %s%.1e | %.1e | %.2f |" % (name, at, "" if good else "**wrong** ", worst, theirs, cost), good


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("project", choices=PROJECTS, nargs="?", default="jax")
    options.add_argument("--sources", metavar="FOLDER")
    options.add_argument("names", nargs="*")
    options = options.parse_args()
    if options.project != "jax" and not options.sources:
        sys.exit("%s needs --sources FOLDER" % options.project)
    os.environ["WILD_FILE"] = "none"
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    primals_alone()
    import pkc.pallas
    made = cases(options.project, os.path.join(options.sources or "", options.project))
    pkc.pallas.install()
    rows, passed, total = ["| kernel | at | error | of JAX in f32 | cost |", "|---|---|---|---|---|"], 0, 0
    for name, at, make in made:
        if "its gradients" in at or name.endswith("_vjp") or (options.names and name not in options.names):
            continue
        line, good = row(name, at, make)
        print(line, flush=True)
        rows.append(line)
        passed, total = passed + good, total + 1
    print("%d of %d gradients are equal to those of their references" % (passed, total))
    if not options.names:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub("(<!-- gradients of %s -->\n).*?(<!-- end -->)" % options.project, lambda m: m[1] + "\n".join(rows) + "\n" + m[2], text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
