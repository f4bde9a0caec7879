#!/usr/bin/env python3
"""Builds a program with what `make install` installs for other builds: the CMake package, and pkg-config files under both names."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from suite import BUILD, ROOT, check, finish

PROJECT = """cmake_minimum_required(VERSION 3.13)
project(example C)
find_package(pkc {version} REQUIRED)
{kernel}
add_executable(example {example})
target_link_libraries(example PRIVATE add)
"""
KERNEL = "pkc_add_kernel(add add.pk -D BM=64 -D BN=128)"
WANT = "10 21 32 13 24 35"  # tests/embed/example.c adds 10 20 30 to the rows 0 1 2 and 3 4 5


def run(words, **more):
    done = subprocess.run([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.returncode, done.stdout


def configure(folder, prefix, version="0.2", kernel=KERNEL):
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "kernels/add.pk", folder)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(version=version, kernel=kernel, example=ROOT / "tests/embed/example.c"))
    shutil.rmtree(folder / "build", ignore_errors=True)
    return run(["cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DPKC_FLAGS=-O1"])


def build_and_run(folder, what):
    status, said = run(["cmake", "--build", folder / "build"])
    if check(f"{what} is built", status == 0, said):
        status, said = run([folder / "build/example"])
        check(f"{what} runs", status == 0 and said.split() == WANT.split(), said)
    return said


def test_cmake(folder, prefix):
    status, said = configure(folder, prefix)
    if not check("CMake finds the package", status == 0, said):
        return
    build_and_run(folder, "a program with a kernel")
    text = (folder / "build/add.kernel/add.c").read_text()
    check("statics reach the compiler", "BM=64" in text and "BN=128" in text, text[:500])
    check("nothing is built twice", "pkc add.pk" not in run(["cmake", "--build", folder / "build"])[1])
    source = folder / "add.pk"
    source.write_text(source.read_text() + "\n// changed\n")
    os.utime(source, (2e9, 2e9))
    check("a change of the kernel builds it again", "pkc add.pk" in run(["cmake", "--build", folder / "build"])[1])
    source.write_text("kernel add(")
    status, said = run(["cmake", "--build", folder / "build"])
    check("an error of the kernel is shown", status != 0 and "add.pk:1:" in said, said)
    for what, version, kernel, part in (
        ("a later version", "0.3", KERNEL, "0.3"), ("another first number", "1", KERNEL, "requested version"), ("not a kernel", "", "pkc_add_kernel(add add.c)", "is a .pk file"),
    ):
        status, said = configure(folder, prefix, version, kernel)
        check(f"{what} is refused", status != 0 and part in said, said)
    check("without a version", configure(folder, prefix, "")[0] == 0)


def test_pkg_config(folder, prefix):
    state = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = {name: run(["pkg-config", "--cflags", "--libs", name], env=state) for name in ("pkc", "pk")}
    check("pkg-config knows both names", flags["pk"] == flags["pkc"] and flags["pk"][0] == 0 and "-lpkrt" in flags["pk"][1], flags)
    folder.mkdir()
    run([prefix / "bin/pkc", ROOT / "kernels/add.pk", "-o", folder / "add.c"])
    words = ["cc", "-std=c11", "-O1", f"-I{folder}", ROOT / "tests/embed/example.c", folder / "add.c", "-o", folder / "example", *flags["pkc"][1].split()]
    status, said = run(words)
    check("pkg-config: built", status == 0, said)
    check("pkg-config: runs", run([folder / "example"])[1].split() == WANT.split())


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prefix = folder / "prefix"
        status, said = run([os.environ.get("MAKE", "make"), "-C", ROOT, "install", f"PREFIX={prefix}", f"BUILD={os.path.relpath(BUILD, ROOT)}"])
        if not check("make install", status == 0, said[-2000:]):
            return
        test_pkg_config(folder / "plain", prefix)
        if shutil.which("cmake"):
            test_cmake(folder / "example", prefix)
        else:
            print("SKIPPED cmake: it is not installed")


main()
sys.exit(finish())
