#!/usr/bin/env python3
"""The wheels and the source distribution of `make wheels`, installed from their index with each Python of this machine, with GCC, Clang,
the compiler of the package ziglang, and none; the wheel of the other processor under qemu; the commands of the workflow in examples/ci."""
import json
import os
import pathlib
import platform
import shutil
import sys
import tempfile
import zipfile

from sampling import LEVEL
from suite import BUILD, ROOT, check, finish, run

INDEX = BUILD / "wheels/simple"
MACHINES = ["x86_64", "aarch64"]
TOOLS = ["sh", "env", "ls", "uname"]  # a path without a compiler
KERNEL = "kernel f(x: f32[N]) -> (o: f32[N]) { grid (i in cdiv(N, 8)); block x, o: [8] at (i); o[...] = 2 * x[...]; }"
CALL = f"import numpy, pkc; print(pkc.kernel({KERNEL!r})(numpy.arange(5, dtype='f4')))"
RESULT = "[0. 2. 4. 6. 8.]"


def environment(folder, python):
    run(python, "-m", "venv", folder)
    return folder / "bin"


def install(own, *what):
    return run(own / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--extra-index-url", INDEX.as_uri(), *what)


def state(folder, path, **more):
    """The environment of a process that finds programs in `path`, with an empty cache."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "PYTHONPATH", "PKC_CFLAGS")}
    return {**kept, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache"), **more}


def check_tags():
    """auditwheel finds the platform of the tag, with glibc 2.17."""
    python = BUILD / "wheels/env/bin/python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "auditwheel")
    for machine in MACHINES:
        wheel = next(INDEX.glob(f"pkc/*_{machine}.whl"))
        said = run(python, "-m", "auditwheel", "show", wheel)[1]
        check(f"auditwheel agrees with the tag for {machine}", wheel.name.endswith(f"-cp39-abi3-manylinux_2_17_{machine}.whl") and f'"manylinux_2_17_{machine}"' in said, said)


def check_python(folder, python):
    version = run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")[1].strip()
    own = environment(folder / version, python)
    status, said = install(own, "pkc", "pytest")
    if not check(f"Python {version} installs it", status == 0, said):
        return
    compilers = {cc: state(folder / version / cc, os.environ["PATH"], CC=cc) for cc in ("gcc", "clang") if shutil.which(cc)}
    bare = state(folder / version, str(folder / "tools"))
    status, said = run(own / "python", "-c", CALL, env=bare)
    check(f"Python {version} without a compiler: the message says what to install", status and "pip install ziglang" in said, said)
    status, said = install(own, "pkc[cc]")
    if check(f"Python {version} installs a compiler", status == 0, said):
        compilers["ziglang"] = bare
    for name, variables in compilers.items():
        status, said = run(own / "python", "-c", CALL, env=variables)
        check(f"Python {version}, {name}: a call", said.strip() == RESULT, said)
        status, said = run(own / "pkc", "test", ROOT / "examples/ci/scaled.pk", env=variables)
        check(f"Python {version}, {name}: pkc test", status == 0 and "4 passed, 0 failed" in said, said)
    status, said = run(own / "python", "-m", "pytest", "-q", ROOT / "examples/ci/scaled.pk", env=bare)
    check(f"Python {version}: the plugin of pytest", "3 passed" in said, said)


def check_sdist(folder, python):
    status, said = run(os.environ.get("MAKE", "make"), "-C", ROOT, "sdist", f"BUILD={BUILD.relative_to(ROOT)}", f"PYTHON={python}")
    check("make sdist", status == 0 and len(list(BUILD.glob("wheel/pkc-*.tar.gz"))) == 1, said)
    own = environment(folder / "sdist", python)
    status, said = install(own, "--no-binary", "pkc", "pkc")
    check("the source distribution is built and installed", status == 0, said)
    check("it calls a kernel", run(own / "python", "-c", CALL, env=state(folder, os.environ["PATH"]))[1].strip() == RESULT)


def check_other_processor(folder):
    """The compiler of the wheel for aarch64 writes the C that this machine's writes."""
    root = pathlib.Path("/usr/aarch64-linux-gnu")
    if platform.machine() != "x86_64" or not shutil.which("qemu-aarch64") or not root.is_dir():
        print("SKIPPED wheels: the aarch64 wheel is not run: qemu-aarch64 or the C library for it is not installed")
        return
    for machine in MACHINES:
        with zipfile.ZipFile(next(INDEX.glob(f"pkc/*_{machine}.whl"))) as wheel:
            wheel.extractall(folder / machine)
        (folder / machine / "pkc/bin/pkc").chmod(0o755)
    words = ["pkc/bin/pkc", "--target=generic", "-o", folder / "flash.c", "pkc/share/pkc/kernels/flash_attn.pk"]
    written = []
    for machine, runner in zip(MACHINES, ([], ["qemu-aarch64", "-L", root])):
        status, said = run(*runner, *words, cwd=folder / machine)
        written.append((folder / "flash.c").read_text() if status == 0 else said)
    check("the compiler for aarch64 writes the same C", written[0] == written[1] and "#include" in written[0], written[1][:500])
    for name in ("_core.abi3.so", "lib/libpkrt.so.0"):
        check(f"{name} is for aarch64", "AArch64" in run("readelf", "-h", folder / "aarch64/pkc" / name)[1])


def check_workflow(folder, python):
    """The workflow conforms to GitHub's schema, and its commands run in an environment whose `python` is this one."""
    file, tools = ROOT / "examples/ci/pallas-kernels.yml", BUILD / "wheels/env/bin/python"
    run(tools, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "check-jsonschema", "pyyaml")
    status, said = run(tools, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", file)
    check("the workflow follows GitHub's schema", status == 0, said)
    status, said = run(tools, "-c", "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))", file)
    steps = json.loads(said)["jobs"]["check"]["steps"] if status == 0 else []
    own = environment(folder / "workflow", python)
    variables = state(folder, f"{own}:{os.environ['PATH']}", PKC_WHEELS=str(INDEX / "pkc"), KERNELS=str(ROOT / "examples/ci"))
    commands = [step["run"] for step in steps if "run" in step]
    check("the workflow has commands", len(commands) == 3, commands)
    for command in commands:
        status, said = run("sh", "-e", "-c", command, env=variables, cwd=folder)
        check(f"the workflow's `{command.splitlines()[0]}`", status == 0, said[-2000:])


def main():
    if LEVEL != "all":
        print("left out: 1 of 1 suites")
        return
    status, said = run(os.environ.get("MAKE", "make"), "-C", ROOT, "wheels", f"BUILD={BUILD.relative_to(ROOT)}", f"PYTHON={sys.executable}")
    if not check("make wheels", status == 0 and len(list(INDEX.glob("pkc/*.whl"))) == 2, said[-2000:]):
        return
    check_tags()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "tools").mkdir()
        for tool in TOOLS:
            (folder / "tools" / tool).symlink_to(shutil.which(tool))
        pythons = run(ROOT / "tests/jax.sh", "--pythons")[1].split()
        for python in pythons:
            check_python(folder, python)
        check_sdist(folder, pythons[0])
        check_other_processor(folder)
        check_workflow(folder, pythons[0])


main()
sys.exit(finish())
