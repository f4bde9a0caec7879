"""`python _zig.py ..` runs the C compiler of the package ziglang with the options of GCC and Clang."""
import os
import sys


def words(given):
    """The options as zig takes them. Zig spells x86-64-v3 with underscores, and by default instruments code that is not optimised with
    UBSan, whose library it does not link."""
    return ["-fno-sanitize=undefined", *("-march=" + word[7:].replace("-", "_") if word.startswith("-march=x86-64") else word for word in given)]


if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, "-m", "ziglang", "cc", *words(sys.argv[1:])])
