#!/usr/bin/env python3
"""Generated C and the library on operating systems and processors other than this machine's.

For every platform libpkrt is compiled with all warnings as errors, and a sample of kernels for `generic` and for the target of the platform.
If an emulator is installed, the kernels run on one thread and on three. `generic` must give the same bits as on this machine; the other
target, and `generic` on a processor with fused multiply-add, must agree within a tolerance. Without an emulator everything is only compiled
and linked.

    tests/platforms.py [TEXT]    only platforms whose name contains TEXT

A platform whose compiler is missing is skipped. zig is `$ZIG`, `zig`, or the package ziglang of this Python. The line of a
skipped platform names what is missing. docs/platforms.md has the table. Ends with "N passed, N failed".
"""
import glob
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import numpy as np

from sampling import sampled

from suite import BUILD, PKC, ROOT, check, finish

WORK = BUILD / "platforms"
FLAGS = ["-std=c11", "-O2", "-pthread", "-ffp-contract=off", "-Iinclude", "-I.", '-DPK_VERSION="test"']
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
# The parts of `pkc run` in a kernel's program, which require POSIX.
HARNESS = ["runtime/cpu.c", "runtime/guard.c", "runtime/laps.c", "runtime/measure.c"]
WITHOUT = {"runtime/harness.c", "runtime/micro.c", "runtime/mpi.c", *HARNESS}


def zig():
    if os.environ.get("ZIG"):
        return shlex.split(os.environ["ZIG"])
    if shutil.which("zig"):
        return ["zig"]
    return [sys.executable, "-m", "ziglang"] if importlib.util.find_spec("ziglang") else ["zig"]


def zig_for(triple):
    return [*zig(), "cc", "-target", triple]


WINE = next((w for w in ("wine64", "wine") if shutil.which(w)), "wine")
# NAME: the compiler, the emulator (None: there is none), the target other than `generic`, whether it is POSIX
PLATFORMS = {
    "here": (["cc"], [], "generic", True),
    "linux aarch64": (["aarch64-linux-gnu-gcc", "-static"], ["qemu-aarch64"], "aarch64", True),
    "linux s390x": (["s390x-linux-gnu-gcc", "-static"], ["qemu-s390x"], "generic", True),
    "linux riscv64": (["riscv64-linux-gnu-gcc", "-static"], ["qemu-riscv64"], "riscv64", True),
    "linux musl x86_64": (zig_for("x86_64-linux-musl"), [], "x86-64-v2", True),
    "macos aarch64": (zig_for("aarch64-macos"), None, "aarch64", True),
    "macos x86_64": (zig_for("x86_64-macos"), None, "x86-64-v2", True),
    "freebsd x86_64": (zig_for("x86_64-freebsd"), None, "x86-64-v2", True),
    "windows mingw x86_64": (["x86_64-w64-mingw32-gcc-posix", "-static"], [WINE], "x86-64-v2", False),
}
# These processors fuse the steps of polynomials for `generic` too (PK_HAS_FMA of vec.h), as docs/numerics.md allows.
FUSED = {"linux aarch64", "linux s390x", "linux riscv64"}
BIG_ENDIAN = {"linux s390x"}
SAMPLE = [
    ("softmax", "softmax", {"M": 7, "N": 53}, ""),
    ("matmul", "matmul", {"M": 13, "N": 37, "K": 21}, "-D BM=8 -D BN=16 -D BK=16"),
    ("matmul i8", "matmul", {"M": 9, "N": 33, "K": 20}, "-D T=i8"),
    ("matmul bf16", "matmul", {"M": 9, "N": 33, "K": 20}, "-D T=bf16"),
    ("gelu", "gelu", {"M": 5, "N": 41}, ""),
    ("transpose", "transpose", {"M": 19, "N": 23}, ""),
    ("layernorm", "layernorm", {"M": 6, "N": 45}, "-D T=f16"),
]
TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": "u2", "i8": "i1", "i16": "i2", "i32": "i4", "u8": "u1", "bool": "u1"}


def run(command, **more):
    return subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=400, **more)


def good(what, done):
    said = done.stderr.strip().splitlines()
    return check(what, done.returncode == 0, next((line for line in said if "error" in line), said[-1] if said else ""))


def header_folder():
    """A folder with only SIMDe and DLPack, because theirs has headers of this machine."""
    folder = WORK / "include"
    folder.mkdir(parents=True, exist_ok=True)
    for name, header in ("simde", "simde-common.h"), ("dlpack", "dlpack.h"):
        found = run(["cc", "-M", "-x", "c", "-"], input=f"#include <{name}/{header}>\n").stdout.split()
        place = next(word for word in found if word.endswith(f"/{name}/{header}"))
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(pathlib.Path(place).parent)
    return ["-isystem", folder]


def flags_of(target, compiler):
    """The flags of `pkc --targets`; zig names processors by -mcpu, spelled differently."""
    words = next(line.split()[1:] for line in run([PKC, "--targets"]).stdout.splitlines() if line.split()[0] == target)
    if "-target" not in compiler:
        return words
    march = {"-march=armv8-a": "-mcpu=generic", "-march=x86-64-v2": "-mcpu=x86_64_v2"}
    return [march.get(word, word) for word in words]


def missing(compiler, runner):
    absent = [word for word in (compiler[0], *(runner or [])) if not shutil.which(word)]
    if "-target" in compiler and (absent or run([*zig(), "version"]).returncode):
        return "zig is not installed (pip install ziglang)"
    return f"{absent[0]} is not installed" if absent else ""


class Kernel:
    """One line of SAMPLE: its operands, and its results on a platform."""

    def __init__(self, title, file, sizes, statics):
        self.title, self.sizes, self.statics = title, sizes, statics.split()
        self.file = f"kernels/{file}.pk"
        signature = json.loads(run([PKC, "--emit=signature", *self.statics, self.file]).stdout)
        self.symbol, self.operands = signature["symbol"], signature["operands"]
        random = np.random.default_rng(5)
        self.inputs = [self.draw(random, o) for o in self.operands if o["direction"] == "input"]
        self.outputs = [o for o in self.operands if o["direction"] != "input"]

    def shape(self, operand):
        return [self.sizes[n] if n in self.sizes else int(n) for n in map(str, operand["shape"])]

    def draw(self, random, operand):
        shape, dtype = self.shape(operand), operand["dtype"]
        if dtype[0] in "iu":
            return random.integers(-8, 8, shape).astype(TYPES[dtype])
        values = random.standard_normal(shape).astype(np.float32)
        return (values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" else values.astype(TYPES[dtype])

    def words(self):
        return [extent for operand in self.operands for extent in self.shape(operand)]

    def read(self, path, order):
        data, at = path.read_bytes(), 0
        for operand in self.outputs:
            dtype, count = np.dtype(TYPES[operand["dtype"]]).newbyteorder(order), int(np.prod(self.shape(operand)))
            values = np.frombuffer(data, dtype, count, at).astype(dtype.newbyteorder("="))
            at += values.nbytes
            yield (values.astype(np.uint32) << 16).view(np.float32) if operand["dtype"] == "bf16" else values

    def build(self, platform, compiler, target, flags, library):
        """The program, or None."""
        base = WORK / platform.replace(" ", "_") / f"{self.title.replace(' ', '_')}.{target}"
        emitted = run([PKC, self.file, *self.statics, f"--target={target}", "-o", f"{base}.c"])
        if not good(f"{platform}: {self.title} for {target} to C", emitted):
            return None
        program = base.with_name(base.name + ".exe")
        made = run([*compiler, *flags, *flags_of(target, compiler), "-Wall", "-Werror", f"-DKERNEL={self.symbol}_kernel", f"{base}.c", "tests/platforms/call.c",
                    library, "-lm", "-o", program])
        return program if good(f"{platform}: {self.title} for {target} compiled", made) else None

    def call(self, platform, program, runner, threads):
        """The outputs, or None."""
        given, taken = program.with_suffix(".in"), program.with_suffix(".out")
        order = ">" if platform in BIG_ENDIAN else "<"
        given.write_bytes(b"".join(a.astype(a.dtype.newbyteorder(order)).tobytes() for a in self.inputs))
        taken.unlink(missing_ok=True)
        names = [os.path.relpath(path, ROOT) for path in (given, taken)]
        done = run([*runner, os.path.relpath(program, ROOT), *names, threads, *self.words()], env={**os.environ, "WINEDEBUG": "-all"})
        return list(self.read(taken, order)) if good(f"{platform}: {program.stem} on {threads} threads", done) else None


def near(got, want):
    return got.dtype.kind in "iu" and np.array_equal(got, want) or np.allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=2.0**-7 if got.dtype.itemsize < 4 else 1e-5, atol=1e-5)


def library_of(platform, compiler, posix, flags):
    """libpkrt for a platform, with the parts of `pkc run` if the platform has POSIX, or None."""
    folder = WORK / platform.replace(" ", "_")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = sorted(set(glob.glob("runtime/*.c", root_dir=ROOT)) - WITHOUT)
    objects = []
    for source in sources + (HARNESS if posix else []):
        made = folder / (pathlib.Path(source).stem + ".o")
        if not good(f"{platform}: {source}", run([*compiler, *flags, *STRICT, "-c", source, "-o", made])):
            return None
        if source in sources:
            objects.append(made)
    library = folder / "libpkrt.a"
    archived = run([*(zig() if "-target" in compiler else []), "ar", "rcs", library, *objects])
    return library if good(f"{platform}: libpkrt.a", archived) else None


def try_platform(platform, kernels, expected):
    compiler, runner, own, posix = PLATFORMS[platform]
    if runner and missing(compiler, runner):
        print(f"SKIPPED platforms {platform}, its calls: {missing(compiler, runner)}")
        runner = None
    flags = [*FLAGS, *header_folder()]
    library = library_of(platform, compiler, posix, flags)
    for kernel in kernels if library else []:
        for target in dict.fromkeys(["generic", own]):
            program = kernel.build(platform, compiler, target, flags, library)
            for threads in (1, 3) if program and runner is not None else ():
                got = kernel.call(platform, program, runner, threads)
                want = expected.setdefault(kernel.title, got)
                same = np.array_equal if target == "generic" and platform not in FUSED else near
                check(f"{platform}: {program.stem} on {threads} threads as here",
                      got is not None and all(same(g, w) for g, w in zip(got, want)))


def main():
    text = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [platform for platform in PLATFORMS if platform != "here" and text in platform]
    why = {platform: missing(PLATFORMS[platform][0], None) for platform in chosen}
    for platform in filter(why.get, chosen):
        print(f"SKIPPED platforms {platform}: {why[platform]}")
    found = sampled((platform for platform in chosen if not why[platform]), 2, what="platforms")
    kernels = [Kernel(*line) for line in sampled(SAMPLE, 2)] if found else []
    expected = {}
    for platform in ["here", *found] if found else []:
        try_platform(platform, kernels, expected)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
