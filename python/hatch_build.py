"""The wheel holds what `make python-package` makes: compiler, headers, runtime, extension module, Python files."""
import os
import re
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+|ld-linux.*)$")  # what every Linux with glibc has


def loaded_files(folder):
    """The programs and shared libraries below a folder."""
    paths = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    for path in paths:
        with open(path, "rb") as file:
            if file.read(4) == b"\x7fELF" and not path.endswith(".o"):
                yield path


def platform_tag(folder):
    """manylinux_2_N_MACHINE, where the files need glibc 2.N and no other library of the system; else the platform of Python.

    $PKC_PLATFORM names the platform that $CC compiles for, if it is another."""
    platform = (os.environ.get("PKC_PLATFORM") or sysconfig.get_platform()).replace("-", "_").replace(".", "_")
    files = list(loaded_files(folder))
    read = subprocess.run(["readelf", "-W", "-d", "-V", *files], stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    own = {os.path.basename(path) for path in files}
    strange = sorted(name for name in set(re.findall(r"Shared library: \[(.*?)\]", read)) - own if not SYSTEM.match(name))
    versions = [int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", read)]
    if strange or not versions:
        print("the tag of the wheel is %s: its files need %s" % (platform, ", ".join(strange) or "another C library than glibc"), file=sys.stderr)
        return platform
    return platform.replace("linux", "manylinux_2_%d" % max(versions), 1)


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        own = os.path.abspath(self.root)
        places = [os.path.join(own, "checkout"), os.path.dirname(own)]  # of a source distribution, or of a checkout
        root = next((place for place in places if os.path.exists(os.path.join(place, "GNUmakefile"))), None)
        if root is None:
            raise RuntimeError("the wheel is made in a checkout of pkc or from its source distribution: %s has no GNUmakefile" % places[1])
        build = os.environ.get("BUILD", "build")
        jobs = [] if "MAKEFLAGS" in os.environ else ["-j%d" % len(os.sched_getaffinity(0))]
        done = subprocess.run([os.environ.get("MAKE", "make"), "-C", root, *jobs, "--no-print-directory", "python-package",
                               "BUILD=" + build, "PYTHON=" + sys.executable], stdout=sys.stderr)
        if done.returncode != 0:
            raise RuntimeError("`make python-package` failed; `make deps` installs what it needs")
        package = os.path.join(root, build, "python", "pkc")
        build_data["pure_python"] = False
        build_data["tag"] = "cp39-abi3-" + platform_tag(package)
        build_data["force_include"][package] = "pkc"
