#!/usr/bin/env python3
"""C for several targets in one file: the printed commands build it, and each processor runs the best variant that it supports.

QEMU emulates other processors (`qemu-x86_64 -cpu ..`). Results are whole numbers and compared exactly. Ends with
`N passed, N failed`."""
import os
import shutil
import subprocess
import sys
import tempfile

from suite import BUILD, PKC, ROOT, check, finish

MORE = os.environ.get("PKC_CFLAGS", "")  # sanitizers: such programs cannot be static
FLAGS = f"-I{ROOT}/include {MORE}"

MAIN = r"""
#include "KERNEL.h"
#include <stdio.h>
enum { M = 37, N = 29, K = 41 };
static float a[M * K], b[K * N], c[M * N];
static DLTensor tensor(float *data, int64_t *shape) {
  return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
}
int main(void) {
  int64_t as[] = {M, K}, bs[] = {K, N}, cs[] = {M, N};
  for (int i = 0; i < M * K; i++) a[i] = (float)(i % 7 - 3);
  for (int i = 0; i < K * N; i++) b[i] = (float)(i % 5 - 2);
  DLTensor x = tensor(a, as), y = tensor(b, bs), z = tensor(c, cs);
  const char *target = pk_kernel_target(&KERNEL_kernel);
  printf("%s: ", target ? target : "none");
  if (KERNEL(NULL, &x, &y, &z) != PK_OK) return printf("%s\n", pk_message(NULL)), 0;
  int wrong = 0;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < K; k++) sum += a[i * K + k] * b[k * N + j];
      wrong += c[i * N + j] != SCALE * sum;
    }
  printf("%d wrong\n", wrong);
}
"""
PROGRAM = """
kernel product(a: f32[M, K], b: f32[K, N]) -> (c: f32[M, N]) {
  grid (i in cdiv(M, 16) parallel);
  block a: [16, K] at (i, 0);
  block b: [K, N];
  block c: [16, N] at (i, 0);
  c[...] = dot(a[...], b[...]);
}
kernel twice(x: f32[M, N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8, N] at (i, 0);
  o[...] = x[...] + x[...];
}
program scaled(a: f32[M, K], b: f32[K, N]) -> (c: f32[M, N]) {
  let p = product(a, b);
  c = twice(p);
}
"""
def sh(command, folder):
    done = subprocess.run(command, shell=isinstance(command, str), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    return done.returncode, done.stdout


def build(folder, kernel, source, scale, targets, compiler="cc"):
    """The program that calls `kernel`, compiled by the commands that pkc prints."""
    status, lines = sh([PKC, "--targets", targets, *source, "-o", f"{kernel}.c"], folder)
    check(f"{kernel} for {targets}", status == 0, lines)
    lines = lines.replace("$(pkg-config --cflags pkc)", FLAGS + " -Wall -Wextra -Werror")
    status, said = sh("set -e\n" + (lines if compiler == "cc" else lines.replace("cc ", compiler + " ")), folder)
    check(f"{kernel} for {targets}: the printed lines", status == 0, said[:400])
    with open(os.path.join(folder, "main.c"), "w", encoding="ascii") as file:
        file.write(MAIN.replace("KERNEL", kernel).replace("SCALE", str(scale)))
    status, said = sh(f"cc -std=c11 {FLAGS} -I. main.c {kernel}.a {BUILD}/libpkrt.a -lm -pthread {'' if MORE else '-static'} -o {kernel}", folder)
    check(f"{kernel} for {targets}: the archive", status == 0, said[:400])
    return os.path.join(folder, kernel)


def refusals(folder):
    matmul = f"{ROOT}/kernels/matmul.pk"
    for words, expected in ((["--targets", "x86-64-v3,abc", matmul], "unknown target abc"),
                            (["--targets", "x86-64-v3,aarch64", matmul], "different architectures"),
                            (["--targets", "", matmul], "expects a value"),
                            (["--targets=x86-64-v3,", matmul], "one is empty"),
                            (["--targets=generic", "--emit=pallas", matmul], "requires --emit=c or --emit=h"),
                            (["--targets=generic", "-dl", matmul], "requires --emit=c or --emit=h"),
                            (["run", "--targets=generic", matmul], "takes no value")):
        status, said = sh([PKC, *words], folder)
        check(" ".join(words), status == 2 and expected in said, said)


def main():
    with tempfile.TemporaryDirectory(prefix="variants_") as folder:
        refusals(folder)
        if os.uname().machine != "x86_64":
            print(f"SKIPPED variants: they are x86-64's, this is {os.uname().machine}")
            return finish()
        native = subprocess.run([PKC, "--targets"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0]
        with open(os.path.join(folder, "scaled.pk"), "w", encoding="ascii") as file:
            file.write(PROGRAM)
        listed = f"generic,x86-64-v2,native,x86-64-v3,{native}"
        programs = [build(folder, "matmul", [f"{ROOT}/kernels/matmul.pk"], 1, listed),
                    build(folder, "scaled", ["-k", "scaled", "scaled.pk"], 2, listed)]
        newer = build(tempfile.mkdtemp(dir=folder), "matmul", [f"{ROOT}/kernels/matmul.pk"], 1, "x86-64-v3,x86-64-v2")
        for program in programs:
            said = sh([program], folder)[1]
            check(f"{program} here", said == f"{native}: 0 wrong\n", said)
        if MORE:
            print("SKIPPED variants, other processors: PKC_CFLAGS is set")
        elif not shutil.which("qemu-x86_64"):
            print("SKIPPED variants, other processors: no qemu-x86_64 here (apt-get install qemu-user)")
        else:
            for processor, target in (("Haswell", "x86-64-v3"), ("Nehalem", "x86-64-v2"), ("qemu64", "generic")):
                for program in programs:
                    said = sh(["qemu-x86_64", "-cpu", processor, program], folder)[1].splitlines()[-1:]
                    check(f"{program} on {processor}", said == [f"{target}: 0 wrong"], said)
            said = sh(["qemu-x86_64", "-cpu", "qemu64", newer], folder)[1]
            check("a processor that no variant suits",
                  "none: matmul: the kernel was compiled for x86-64-v3, x86-64-v2: this processor supports none of them" in said, said)
        status, text = sh([PKC, "--targets=x86-64-v2,generic", "--emit=c", f"{ROOT}/kernels/add.pk"], folder)
        check("--emit=c", status == 0 and text.startswith("#if defined PK_TARGET_x86_64_v2\n") and "cc -std" not in text, text[:200])
    return finish()


if __name__ == "__main__":
    sys.exit(main())
