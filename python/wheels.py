#!/usr/bin/env python3
"""Wheels for Linux on x86-64 and aarch64 that need no newer glibc than 2.17, and the source distribution, as an index for pip.

    make wheels
    pip install --extra-index-url file://$PWD/build/wheels/simple pkc

`make sdist` calls it with a folder, and writes only the source distribution there.
`zig cc` compiles and links for both processors. Hatchling and ziglang are installed into an environment below build/wheels.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / os.environ.get("BUILD", "build") / "wheels"
MACHINES = ["x86_64", "aarch64"]
GLIBC = "2.17"
HATCHLING, ZIG = "hatchling>=1.20", "ziglang>=0.12"
HEADERS = {"simde": "simde-common.h", "dlpack": "dlpack.h", "isl": "ctx.h"}


def run(*words, **more):
    words = [str(word) for word in words]
    if subprocess.run(words, cwd=ROOT, **more).returncode:
        sys.exit("wheels: %s failed" % shlex.join(words))


def environment(*needed):
    """The Python that has what is needed."""
    folder, python = WORK / "env", WORK / "env/bin/python"
    done = folder / "installed"
    if not done.exists() or not {*needed} <= {*done.read_text().split()}:
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *needed)
        done.write_text(" ".join(needed))
    return python


def header_folder():
    """Headers that do not depend on the processor, apart from those of this machine's C library.

    Debian's pyconfig.h includes one by the processor's name; on two processors of 64 bits they agree in what is used here."""
    folder = WORK / "include"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, header in HEADERS.items():
        found = subprocess.run(["cc", "-M", "-x", "c", "-"], input="#include <%s/%s>\n" % (name, header), capture_output=True, text=True).stdout.split()
        place = next((word for word in found if word.endswith("/%s/%s" % (name, header))), None)
        if place:
            (folder / name).symlink_to(pathlib.Path(place).parent)
    own = sysconfig.get_config_var("MULTIARCH")
    name = "python" + sysconfig.get_config_var("LDVERSION")
    if own and os.path.isdir("/usr/include/%s/%s" % (own, name)):
        for machine in MACHINES:
            (folder / ("%s-linux-gnu" % machine)).mkdir()
            (folder / ("%s-linux-gnu" % machine) / name).symlink_to("/usr/include/%s/%s" % (own, name))
    return folder


def make_wheel(python, machine, headers):
    zig = shlex.join([str(python), "-m", "ziglang"])
    state = {**os.environ, "CC": "%s cc -target %s-linux-gnu.%s -isystem %s" % (zig, machine, GLIBC, headers), "AR": zig + " ar",
             "CFLAGS": "-g0 -Wno-error", "STRIP": "true", "MICRO_TARGETS": "", "MPICC": "no-mpi", "BUILD": str(WORK / machine), "PKC_PLATFORM": "linux_" + machine}
    run(python, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", WORK / "simple/pkc", "./python", env=state)


def make_sdist(python, folder):
    subprocess.run([python, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], cwd=ROOT / "python", check=True)


def main():
    if sys.argv[1:]:
        make_sdist(environment(HATCHLING), pathlib.Path(sys.argv[1]).resolve())
        return
    python = environment(HATCHLING, ZIG)
    shutil.rmtree(WORK / "simple", ignore_errors=True)
    headers = header_folder()
    for machine in MACHINES:
        make_wheel(python, machine, headers)
    make_sdist(python, WORK / "simple/pkc")
    files = sorted(path.name for path in (WORK / "simple/pkc").iterdir())
    (WORK / "simple/pkc/index.html").write_text("".join('<a href="%s">%s</a>\n' % (name, name) for name in files))
    print("\n".join(str(WORK / "simple/pkc" / name) for name in files))


main()
