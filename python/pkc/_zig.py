"""`python _zig.py ..`: the C compiler of the package ziglang, called as GCC and Clang are."""
import os
import re
import sys


def words(given):
    """Zig writes `_` where GCC and Clang write `-` in names of processors. Unless told otherwise, it adds checks of undefined behaviour
    to code that is not optimised, and their library is not linked."""
    return ["-fno-sanitize=undefined"] + [re.sub(r"^-march=x86-64(?:-v(\d))?$", lambda m: "-march=x86_64" + ("_v" + m.group(1) if m.group(1) else ""), word) for word in given]


if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, "-m", "ziglang", "cc", *words(sys.argv[1:])])
