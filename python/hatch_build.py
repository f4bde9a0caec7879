"""The wheel holds what `make python-package` makes: compiler, headers, runtime, extension module, Python files."""
import os
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


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
        build_data["pure_python"] = False
        build_data["tag"] = "cp39-abi3-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["force_include"][os.path.join(root, build, "python", "pkc")] = "pkc"
