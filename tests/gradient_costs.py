#!/usr/bin/env python3
"""Instructions of derived backward kernels (`pkc grad --kernel`), compared with the hand-written ones of kernels/.

callgrind counts the instructions of one call on one thread, so the figures do not depend on how busy the machine is.
Both are compiled for x86-64-v3, whose instructions valgrind knows.

    tests/gradient_costs.py [-v] [KERNEL ..]    -v prints each pair; KERNEL chooses some

Ends with "N passed, N failed".
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from suite import BUILD, PKC, ROOT, check, finish

TARGET, CC = "x86-64-v3", ["gcc", "-std=c11", "-O2", "-march=x86-64-v3", "-ffp-contract=off", "-I%s" % (ROOT / "include")]
CODES = {"i": "kDLInt", "u": "kDLUInt", "f": "kDLFloat", "bf": "kDLBfloat"}
# The gradient of matmul as two kernels of the library, which read no scale, bias and residual.
MATMUL = """
program matmul_by_hand(a: f32[M, K], b: f32[K, N], dc: f32[M, N], zeros: f32[K], r: f32[M, K]) -> (da: f32[M, K], db: f32[K, N]) {
  da = linear_transposed(dc, b, zeros, zeros, r);
  db = linear_weights(a, dc);
}
"""
# Each row: the highest ratio that passes, the forward kernel and its file, the hand-written backward kernel and its file, sizes, and outputs
# of the forward kernel that the derived one reads.
# The goal is 1.3; a higher limit lies just above the measured ratio. The hand-written softmax_backward, cross_entropy_backward and
# attention_backward read outputs of the forward kernel, which the derived ones compute again without `--saved`.
PAIRS = [
    (1.65, "flash_attn", "flash_attn.pk", "attention_backward", "train/attention.pk", "B=1 H=2 G=2 N=128 S=128"),
    (1.45, "flash_attn", "flash_attn.pk", "attention_backward", "train/attention.pk", "B=1 H=2 G=2 N=256 S=256"),
    (1.35, "flash_attn", "flash_attn.pk", "attention_backward", "train/attention.pk", "B=1 H=2 G=2 N=512 S=512"),
    (1.3, "attention", "train/attention.pk", "attention_backward", "train/attention.pk", "B=1 H=2 G=2 N=128 S=128", "o,lse"),
    (1.3, "attention", "train/attention.pk", "attention_backward", "train/attention.pk", "B=1 H=2 G=2 N=256 S=256", "o,lse"),
    (1.3, "attention", "train/attention.pk", "attention_backward", "train/attention.pk", "B=1 H=2 G=2 N=512 S=512", "o,lse"),
    (2.25, "softmax", "softmax.pk", "softmax_backward", "train/softmax_backward.pk", "M=256 N=512"),
    (1.3, "softmax", "softmax.pk", "softmax_backward", "train/softmax_backward.pk", "M=256 N=512", "o"),
    (1.3, "layernorm", "layernorm.pk", "layernorm_backward", "train/layernorm_backward.pk", "M=256 N=512"),
    (1.3, "rmsnorm", "rmsnorm.pk", "rmsnorm_backward", "train/rmsnorm_backward.pk", "M=256 N=512"),
    (1.3, "rmsnorm_residual", "norm_residual.pk", "rmsnorm_residual_backward", "train/norm_residual_backward.pk", "M=256 N=512"),
    (1.3, "layernorm_residual", "norm_residual.pk", "layernorm_residual_backward", "train/norm_residual_backward.pk", "M=256 N=512"),
    (1.3, "gelu", "gelu.pk", "gelu_backward", "train/gelu_backward.pk", "M=256 N=512"),
    (1.3, "glu", "glu.pk", "glu_backward", "train/glu_backward.pk", "M=256 N=512"),
    (1.3, "swiglu", "matmul/linear.pk", "swiglu_backward", "train/swiglu_backward.pk", "M=256 N=256 K=128"),
    (1.3, "matmul", "matmul.pk", "matmul_by_hand", "matmul/linear.pk", "M=128 N=256 K=128"),
    (1.3, "conv1d", "sequence/conv1d.pk", "conv1d_backward", "train/conv1d_backward.pk", "B=2 N=256 C=128"),
    (1.3, "ssd", "sequence/ssd.pk", "ssd_backward", "sequence/ssd.pk", "B=1 H=2 G=1 N=256"),
    (1.3, "cross_entropy", "train/cross_entropy.pk", "cross_entropy_backward", "train/cross_entropy.pk", "M=256 N=512"),
    (1.3, "cross_entropy", "train/cross_entropy.pk", "cross_entropy_backward", "train/cross_entropy.pk", "M=256 N=512", "lse"),
    (1.3, "embedding", "embedding.pk", "embedding_backward", "train/embedding_backward.pk", "V=256 N=256 D=128"),
    (1.3, "biased", "attention/biased.pk", "biased_backward", "attention/biased.pk", "B=1 H=2 G=2 N=512 S=512"),
]


def run(words, folder):
    done = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, env=dict(os.environ, PK_THREADS="1"))
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(map(str, words)), done.stderr))
    return done


def main_text(name, operands, sizes):
    """A program that calls the kernel once, with floats in [-1, 1) and integers 0 and 1."""
    lines = ["#include \"%s.h\"" % name, "#include <stdlib.h>", "int main(void) {"]
    scope = dict(sizes, cdiv=lambda a, b: -(-a // b), max=max, min=min)
    for n, operand in enumerate(operands):
        extents = [eval(one.replace("/", "//"), scope) if given is None else given for one, given in zip(operand["shape"], operand["extents"])]
        kind, bits = re.fullmatch(r"(bf|[iuf])(\d+)", operand["dtype"]).groups()
        count = 1
        for extent in extents:
            count *= extent
        lines += ["  int64_t shape%d[] = {%s};" % (n, ", ".join(map(str, extents))),
                  "  DLTensor o%d = {calloc(%d, %d), {kDLCPU, 0}, %d, {%s, %s, 1}, shape%d, NULL, 0};" % (
                      n, max(1, count), int(bits) // 8, len(extents), CODES[kind], bits, n)]
        if operand["direction"] == "input" and operand["dtype"] in ("f32", "i32"):
            value = "(rand() >> 4) %% 2048 / 1024.0f - 1" if kind == "f" else "(rand() >> 4) % 2"
            lines += ["  for (long n = 0; n < %d; n++) ((%s *)o%d.data)[n] = %s;" % (
                count, "float" if kind == "f" else "int32_t", n, value.replace("%%", "%"))]
    return "\n".join(lines + ["  return %s(NULL, %s);" % (name, ", ".join("&o%d" % n for n in range(len(operands)))), "}", ""])


def instructions(path, name, sizes, folder):
    """The instructions of one call of a kernel."""
    signature = json.loads(run([PKC, path, "-k", name, "--emit=signature"], folder).stdout)
    sizes = {size: int(value) for size, value in (word.split("=") for word in sizes.split())}
    with open(os.path.join(folder, "main.c"), "w", encoding="utf-8") as out:
        out.write(main_text(name, signature["operands"], sizes))
    run([PKC, path, "-k", name, "--target", TARGET, "-o", name + ".c"], folder)
    run([*CC, "-o", "main", name + ".c", "main.c", BUILD / "libpkrt.a", "-lm", "-lpthread"], folder)
    said = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=" + name, "./main"], folder)
    return int(re.search(r"Collected\s*:\s*(\d+)", said.stderr).group(1))


def main():
    if not shutil.which("valgrind") or not shutil.which("gcc"):
        print("SKIPPED gradient_costs: there is no valgrind or no gcc")
        return finish()
    chosen = [word for word in sys.argv[1:] if word != "-v"]
    for most, kernel, path, by_hand, its, sizes, *saved in PAIRS:
        if chosen and kernel not in chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            derived, options = os.path.join(folder, "derived.pk"), ["--saved", *saved] if saved else []
            what = " ".join([kernel, sizes, *options])
            with open(derived, "w", encoding="utf-8") as out:
                out.write(run([PKC, "grad", ROOT / "kernels" / path, "-k", kernel, "--kernel", *options], folder).stdout)
            written = os.path.join(folder, "by_hand.pk")
            with open(written, "w", encoding="utf-8") as out:
                out.write((ROOT / "kernels" / its).read_text(encoding="utf-8") + (MATMUL if kernel == "matmul" else ""))
            ours = instructions(derived, kernel + "_backward", sizes, folder)
            theirs = instructions(written, by_hand, sizes, folder)
            check(what, ours <= most * theirs, "%d instructions, and %d by hand: %.2f times as many, where %.2f is allowed" % (
                ours, theirs, ours / theirs, most))
            if "-v" in sys.argv:
                print("%s: %d, %d by hand: %.2f" % (what, ours, theirs, ours / theirs), flush=True)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
