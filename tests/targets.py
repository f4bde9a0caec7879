#!/usr/bin/env python3
"""Every kernel, generated and compiled for other targets, agrees with its reference: `pkc run` compares them.

`pkc test` runs the cases natively and portably; this suite runs the other targets that the machine supports. Ends with `N passed, N failed`."""
import os
import subprocess
import sys

from sampling import sampled

from suite import PKC, ROOT

TARGETS = {"x86-64-v3": [], "x86-64-v2": [], "x86-64-v4": ["avx512bw"], "x86-64-v3-vnni": ["avx_vnni"], "zen4": ["avx512_bf16"], "zen5": ["avx512_bf16"], "x86-64-v4-amx": ["avx512_bf16"]}
EMULATED = "x86-64-v4-amx emulated"  # requires the matrix unit; without one, the target above runs with vectors
TARGETS[EMULATED] = TARGETS["x86-64-v4-amx"]
CASES = [
    "add M=33 N=77",
    "axpy N=1000",
    "selu M=9 N=100",
    "gelu M=9 N=100",
    "softmax M=7 N=333",
    "row_sum M=7 N=333",
    "rmsnorm M=7 N=333",
    "layernorm M=7 N=333",
    "transpose M=70 N=45",
    "matmul M=45 N=70 K=37 -D BM=32 -D BN=64 -D BK=16",
    "matmul M=45 N=70 K=37 -D T=bf16",
    "matmul M=45 N=70 K=37 -D T=i8",
    "matmul M=5 N=70 K=37 -D T=i8",
    "matmul M=5 N=70 K=37 -D T=bf16",
    "mlp M=33 D=40 F=70",
    "flash_attn B=1 H=4 G=2 N=70 S=90 -D BQ=32 -D BK=32",
    "flash_attn B=1 H=4 G=2 N=70 S=90 -D CAUSAL=true -D T=bf16 -D D=80",
    "flash_attn B=1 H=4 G=2 N=1 S=90",
]


def main():
    machine = os.uname().machine
    if machine != "x86_64":
        print(f"SKIPPED targets: they are x86-64's, this is {machine}")
        print("0 passed, 0 failed")
        return 0
    with open("/proc/cpuinfo", encoding="ascii") as cpu:
        flags = cpu.read().split()
    targets = [name for name, wanted in TARGETS.items() if all(flag in flags for flag in wanted)]
    for name in sorted(set(TARGETS) - set(targets)):
        print(f"SKIPPED targets, {name}: this machine has no {', '.join(TARGETS[name])}")
    passed = failed = 0
    for case, target in sampled([(c, t) for c in CASES for t in targets], 20):
        kernel, *arguments = case.split()
        command = [PKC, "run", f"kernels/{kernel}.pk", *arguments, "--target", target.split()[0]]
        env = dict(os.environ)
        if target == EMULATED:
            env["PKC_CFLAGS"] = env.get("PKC_CFLAGS", "") + " -DPK_AMX_EMULATED"
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=env)
        said = (done.stdout + done.stderr).strip()
        good = done.returncode == 0 and ("agrees with the reference" in said or "equal to the reference" in said)
        passed += good
        failed += not good
        if not good:
            print(f"FAIL {said.splitlines()[-1:] or done.returncode}; reproduce: {' '.join(command)}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
