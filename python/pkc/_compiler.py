"""Chooses the C compiler for kernels."""
import importlib.util
import os
import shlex
import shutil
import sys

ZIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_zig.py")


class BuildError(RuntimeError):
    """There is no C compiler, or it cannot compile the generated C."""


INSTALL = ("kernels are compiled by a C compiler (GCC or Clang) when they are first called: install one, say by "
           "`apt-get install gcc libc6-dev`, `dnf install gcc`, `conda install gcc` or `pip install ziglang`, or name one in $CC")


def words_of(name):
    """The words of an environment variable, split like in a shell."""
    try:
        return shlex.split(os.environ.get(name, ""))
    except ValueError as error:
        raise BuildError("$%s (%s): %s" % (name, os.environ[name], error)) from None


def compiler():
    """$CC, which may include flags, or the first of cc, gcc, clang, or the compiler of the Python package ziglang."""
    words = words_of("CC")
    for candidate in [words] if words else [["cc"], ["gcc"], ["clang"]]:
        path = shutil.which(candidate[0])
        if path:
            return [path, *candidate[1:]]
    if not words and importlib.util.find_spec("ziglang"):
        return [sys.executable, ZIG]
    raise BuildError("no C compiler: %s was not found; %s" % ("$CC (%s)" % words[0] if words else "cc, gcc or clang", INSTALL))


def environment():
    """The environment for the program pkc, which calls $CC or `cc`. If the system has neither, it sets $CC to the compiler of this package."""
    if os.environ.get("CC") or shutil.which("cc"):
        return dict(os.environ)
    try:
        return {**os.environ, "CC": shlex.join(compiler())}
    except BuildError:  # verbs that compile no C need none, and the others report it
        return dict(os.environ)
