"""The wheel holds what `make python-package` makes: compiler, headers, runtime, extension module, Python files."""
import os
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        root = os.path.dirname(os.path.abspath(self.root))
        if not os.path.exists(os.path.join(root, "GNUmakefile")):
            raise RuntimeError("the wheel is made in a checkout of pkc: %s has no GNUmakefile" % root)
        build = os.environ.get("BUILD", "build")
        jobs = [] if "MAKEFLAGS" in os.environ else ["-j%d" % len(os.sched_getaffinity(0))]
        done = subprocess.run([os.environ.get("MAKE", "make"), "-C", root, *jobs, "--no-print-directory", "python-package",
                               "BUILD=" + build, "PYTHON=" + sys.executable], stdout=sys.stderr)
        if done.returncode != 0:
            raise RuntimeError("`make python-package` failed; `make deps` installs what it needs")
        build_data["pure_python"] = False
        build_data["tag"] = "cp39-abi3-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["force_include"][os.path.join(root, build, "python", "pkc")] = "pkc"
