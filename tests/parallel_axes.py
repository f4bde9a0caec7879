#!/usr/bin/env python3
"""Grid axes that are parallel by proof.

Each library kernel is compiled with all axes declared `arbitrary`. Those that the library declares parallel must be proved, except
for UNPROVED, whose reasons are compared. If an axis that the library runs in order is proved, `pkc prove --all-sizes` must accept it
as parallel. Kernels that violate one condition each must stay in order and name it, and on 4 threads their results must be those of
steps in order. A kernel with proved axes must have the same bits on 1 and 64 threads. Random kernels must contain axes of both
kinds: tests/random_kernels.py compares their results.

    tests/parallel_axes.py

Ends with "N passed, N failed".
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy
from randomized import generator, tree
from sampling import sampled
from suite import PKC, ROOT, check, finish

COPIES = "the body starts copies or uses semaphores"
SCRATCH = "may be read before a step has stored all of it"
UNPROVED = {
    "kernels/matmul_dma.pk:matmul_dma": COPIES,
    "kernels/paged_attention.pk:paged_attention": COPIES,
    "kernels/attention/paged.pk:paged": COPIES,
    "kernels/attention/sparse.pk:keys": "`dk` may be revisited",
    "kernels/attention/sparse.pk:choose": "`means` " + SCRATCH,
    "kernels/sequence/gated.pk:backward": "`state` " + SCRATCH,
    "kernels/sequence/selective.pk:selective_scan": "`sums` " + SCRATCH,
    "kernels/sequence/selective.pk:blocks": "`state` " + SCRATCH,
    "kernels/train/conv2d_backward.pk:weights": "`dw` may have the same block in several steps",
    "kernels/train/linear_cross_entropy.pk:blocks": "`dw` may have the same block in several steps",
}

BODY = """
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8) arbitrary, j in cdiv(N, 8) arbitrary);
  block x: [8, 8] at (i, j);
  block o: [8, 8] at (i, j);
  SCRATCH
  STEP
}
"""
# Declarations, statements, and the reason why the first axis runs in order; "" if it is parallel.
STEPS = [
    ("", "o[...] = x[...];", ""),
    ("scratch s: vmem f32[8, 8];", "s[...] = x[...]; o[...] = s[...];", ""),
    ("scratch s: vmem f32[8, 8];", "when j == 0 { s[...] = 0.0; } s[...] += x[...]; o[...] = s[...];", ""),
    ("scratch s: vmem f32[8, 8];", "when i == 0 { s[...] = 0.0; } s[...] += x[...]; o[...] = s[...];", "`s` " + SCRATCH),
    ("scratch s: vmem f32[8, 8];", "when j == 1 { s[...] = 0.0; } s[...] += x[...]; o[...] = s[...];", "`s` " + SCRATCH),
    ("scratch s: vmem f32[8, 8];", "when j == 0 { s[0:4, :] = 0.0; } s[...] += x[...]; o[...] = s[...];", "`s` " + SCRATCH),
    ("scratch s: vmem f32[8, 8];", "for a in 0..j { s[...] = 0.0; } s[...] += x[...]; o[...] = s[...];", "`s` " + SCRATCH),
    ("", 'print("{}", i); o[...] = x[...];', "steps print in order"),
]
# A kernel, the arguments of a call, and its output if steps run in order: o[8 * i, 0] of 4096 rows.
IN_ORDER = {
    "a running sum in scratch": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8));
  block x, o: [8, N] at (i, 0);
  scratch s: vmem f32[8, N];
  when i == 0 { s[...] = 0.0; }
  s[...] += x[...];
  o[...] = s[...];
}""", "`s` " + SCRATCH, lambda x: numpy.cumsum(x[::8], axis=0)),
    "a block that steps return to": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8));
  block x: [8, N] at (i, 0);
  block o: [8, N] at (i / 2, 0);
  when i % 2 == 0 { o[...] = 0.0; }
  o[...] = 2.0 * o[...] + x[...];
}""", "`o` may have the same block in several steps", lambda x: 2 * x[::16] + x[8::16]),
    "blocks listed twice": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  prefetch at: i32[cdiv(M, 8)];
  grid (i in cdiv(M, 8));
  block x: [8, N] at (i, 0);
  block o: [8, N] at (at[i], 0) revisit any;
  o[...] = x[...];
}""", "`o` may be revisited", None),
    "blocks listed once": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  prefetch at: i32[cdiv(M, 8)];
  grid (i in cdiv(M, 8));
  block x: [8, N] at (i, 0);
  block o: [8, N] at (at[i], 0);
  o[...] = x[...];
}""", "`o` may have the same block in several steps", None),
    "blocks of an input that are listed": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  prefetch at: i32[cdiv(M, 8)];
  grid (i in cdiv(M, 8));
  block x: [8, N] at (at[i], 0);
  block o: [8, N] at (i, 0);
  o[...] = x[...];
}""", "", None),
    "a condition that is read": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  prefetch at: i32[cdiv(M, 8)];
  grid (i in cdiv(M, 8));
  block x, o: [8, N] at (i, 0);
  scratch s: vmem f32[8, N];
  when at[i] == 0 { s[...] = x[...]; }
  o[...] = s[...];
}""", "`s` " + SCRATCH, None),
    "an extent that is read": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  prefetch n: i32[1];
  grid (i in n[0]);
  block x, o: [8, N] at (i, 0);
  o[...] = x[...];
}""", "an extent of the grid is read from an input", None),
    "an alias read by its neighbour": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8));
  block x: [8, N] at (max(i, 1) - 1, 0);
  block o: [8, N] at (i, 0);
  alias o = x;
  o[...] = x[...] + 1.0;
}""", "`o` shares memory with an input whose blocks move differently", None),
    "an alias that is read as a whole": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8));
  block o: [8, N] at (i, 0);
  alias o = x;
  o[...] = x[0:8, :] + 1.0;
}""", "`o` shares memory with an input whose blocks move differently", None),
    "an alias that moves with its output": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8));
  block x, o: [8, N] at (i, 0);
  alias o = x;
  o[...] = x[...] + 1.0;
}""", "", None),
    "an output without blocks": ("""
kernel k(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8));
  block x: [8, N] at (i, 0);
  o[ds(i * 8, 8), :] = x[...];
}""", "`o` does not have blocks `at` block indices", None),
}
# A fold that rounds after each step: its order is visible in the bits.
FOLD = """
kernel fold(x: f32[M, N]) -> (o: f32[M, 8]) {
  grid (i in cdiv(M, 8), j in cdiv(N, 8));
  block x: [8, 8] at (i, j);
  block o: [8, 8] at (i, 0);
  scratch s: vmem f32[8, 8];
  when j == 0 { s[...] = 0.0; }
  s[...] = 0.7 * s[...] + x[...] / 3.0;
  o[...] = s[...];
}
"""
OUTPUTS = [  # position of the output block
    ("(i, j)", ""),
    ("(j, i)", ""),
    ("(0, j)", "`o` may have the same block in several steps"),
    ("(i / 2, j)", "`o` may have the same block in several steps"),
]


def explained(path, kernel):
    """How each axis runs ("parallel", "proved" or "arbitrary"), and the first reason against it."""
    done = subprocess.run([PKC, "explain", path, *(["-k", kernel] if kernel else [])], cwd=ROOT, capture_output=True, text=True)
    axes = re.findall(r"^  (\S+) +n_\S+ = .*? (parallel|parallel by proof|arbitrary): ", done.stdout, re.M)
    axes = [(axis, "proved" if how.endswith("proof") else how) for axis, how in axes]
    why = re.findall(r"^ +not parallel: (.*)", done.stdout, re.M)
    return axes, why[0] if why else "", done.stderr


def in_order(text):
    return re.sub(r"(\b\w+ in [^;]*?) parallel\b", lambda found: found.group(0).replace(" parallel", " arbitrary"), text)


def interferes(path, kernel, proved):
    """Whether the proof for all sizes refutes a kernel whose proved axes are declared parallel."""
    text = (ROOT / path).read_text(encoding="utf-8")
    before, own, after = re.split(rf"^(kernel {kernel}\b.*?^}})", text, maxsplit=1, flags=re.M | re.S)
    for axis in proved:
        own = re.sub(rf"\b({axis} in [^;]*?) arbitrary\b", r"\1 parallel", own, count=1)
    text = before + own + after
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder) / "k.pk"
        other.write_text(text)
        done = subprocess.run([PKC, "prove", "--all-sizes", str(other), "-k", kernel], cwd=ROOT, capture_output=True, text=True)
    return "parallel cells" in done.stdout + done.stderr and done.returncode != 0


def check_library(folder):
    names = [(path, name) for path in sorted((ROOT / "kernels").rglob("*.pk"))
             for name in re.findall(r"^kernel (\w+)", path.read_text(encoding="utf-8"), re.M)]
    for path, name in sampled(names, 165, 60, "kernels"):
        where = str(path.relative_to(ROOT))
        other = folder / "k.pk"
        other.write_text(in_order(path.read_text(encoding="utf-8")))
        declared, _, _ = explained(where, name)
        new = [axis for axis, how in declared if how == "proved"]
        check(f"{where} {name}: axes in order that are proved do not interfere", not new or not interferes(where, name, new), str(new))
        proved, why, said = explained(str(other), name)
        key = f"{where}:{name}"
        if key in UNPROVED:
            check(f"{key}: the reason", UNPROVED[key] in why, why or "it is proved")
        else:  # `explain` does not mention an axis of one step
            missing = [a for (a, how), (_, now) in zip(declared, proved) if how == "parallel" and now != "proved"]
            check(f"{key}: its parallel axes are proved", len(proved) == len(declared) and (not missing or not why), f"{missing} {why} {said[:200]}")


def check_steps(folder):
    path = folder / "k.pk"
    cases = [(BODY.replace("SCRATCH", scratch).replace("STEP", step), step, why) for scratch, step, why in STEPS]
    cases += [(BODY.replace("SCRATCH", "").replace("STEP", "o[...] = x[...];").replace("o: [8, 8] at (i, j)", f"o: [8, 8] at {at}"), at, why)
              for at, why in OUTPUTS]
    for text, what, want in cases:
        path.write_text(text)
        axes, why, said = explained(str(path), "k")
        first = axes[0][1] if axes else said
        check(f"{what}: the first axis", first == ("arbitrary" if want else "proved") and want in why, f"{first}; {why}; {said[:300]}")


def check_in_order(folder):
    path = folder / "k.pk"
    x = numpy.random.default_rng(1).integers(0, 9, (4096, 256)).astype("f4")
    numpy.save(folder / "x.npy", x)
    for what, (text, want, reference) in IN_ORDER.items():
        path.write_text(text)
        axes, why, said = explained(str(path), "k")
        check(f"{what}: the axis", axes == [("i", "arbitrary" if want else "proved")] and want in why, f"{axes}; {why}; {said[:300]}")
        if not reference:
            continue
        out = folder / "o.npy"
        done = subprocess.run([PKC, "run", path, f"x={folder / 'x.npy'}", "--threads", "4", "--no-tuning", "--quiet", "-o", f"o={out}"],
                              cwd=ROOT, capture_output=True, text=True)
        expected = reference(x)
        same = done.returncode == 0 and (numpy.load(out)[::8][:len(expected)] == expected).all()
        check(f"{what}: 4 threads", same, done.stdout + done.stderr)


def check_drawn(folder):
    """Random kernels contain proved axes, and axes that run in order for each reason."""
    path = folder / "k.pk"
    drawn = collections.Counter()
    for number in range(100):
        kernel = generator.case(1, number).kernel
        kernel.undeclared = True
        path.write_text(tree.kernel_text(kernel))
        axes, why, _ = explained(str(path), None)
        drawn["proved"] += sum(how == "proved" for _, how in axes)
        drawn[re.sub("`.*?`", "`x`", why)] += 1
    for why in ("proved", "`x` may have the same block in several steps", "`x` may be revisited", "`x` " + SCRATCH, COPIES):
        check(f"random kernels: {why}", drawn[why] > 0, str(drawn))


def check_bits(folder):
    library = [("matmul", "M=300 K=130 N=530", "c"), ("flash_attn", "B=1 H=2 G=1 N=300 S=300 -D CAUSAL=true", "o")]
    cases = [(in_order((ROOT / f"kernels/{name}.pk").read_text(encoding="utf-8")), name, words, output) for name, words, output in library]
    cases += [(FOLD, "fold", f"M={rows} N=100", "o") for rows in (0, 1, 8, 9, 1000)]
    path = folder / "k.pk"
    for text, name, words, output in cases:
        path.write_text(text)
        bits = []
        for threads in (1, 3, 64):
            out = folder / f"{threads}.npy"
            done = subprocess.run([PKC, "run", path, *words.split(), "--threads", str(threads), "--no-tuning", "--quiet", "-o", f"{output}={out}"],
                                  cwd=ROOT, capture_output=True, text=True)
            bits.append(out.read_bytes() if done.returncode == 0 else done.stdout + done.stderr)
        check(f"{name} {words}: bits on 3 and 64 threads", isinstance(bits[0], bytes) and bits[0] == bits[1] == bits[2], str(bits[0])[:200])


with tempfile.TemporaryDirectory() as made:
    check_library(pathlib.Path(made))
    check_steps(pathlib.Path(made))
    check_in_order(pathlib.Path(made))
    check_drawn(pathlib.Path(made))
    check_bits(pathlib.Path(made))
sys.exit(finish())
