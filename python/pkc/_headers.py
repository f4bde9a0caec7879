"""Precompiled headers of generated C in the cache. They take four fifths of the compile time of a small kernel."""
import contextlib
import fcntl
import os
import re
import stat
import tempfile

from pkc._tool import run_program

EACH = 8  # making one takes as long as it saves in so many compilations; one of so many makes it, should it fail or be removed

_PROLOGUE = re.compile(r"(?:#define PK_\w+ \d+\n)*#include <pk/kernel\.h>\n")


def prologue(text):
    """The first lines of a kernel's C, without comments, or None for other C."""
    found = _PROLOGUE.search(text)
    return found.group() if found else None


def _is_whole(path):
    """Whether it is a file of this user that begins like GCC's and Clang's precompiled headers. Marks it as used."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        info = os.fstat(file)
        own = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not own or os.read(file, 4) not in (b"gpch", b"CPCH"):
            return False
        os.utime(file)
        return True
    finally:
        os.close(file)


@contextlib.contextmanager
def _turn(path):
    """Counts a compilation by one byte in the file. Returns whether this process must make the header; no other process does so meanwhile."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        count = os.fstat(file).st_size
        os.write(file, b".")
        yield count % EACH == EACH - 1
    except BlockingIOError:
        yield False
    finally:
        os.close(file)


def precompiled(path, text, command, cache):
    """`path`, a header that exists in precompiled form, or None."""
    if _is_whole(path + ".gch"):
        return path
    try:
        with _turn(path + ".uses") as due:
            if not due:
                return None
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with tempfile.TemporaryDirectory(prefix="pkc-", dir=cache) as folder:
                made = os.path.join(folder, "header.gch")
                words = [word for word in command if word != "-shared"]
                done = run_program([*words, "-x", "c-header", "-o", made, path])
                if done.returncode != 0:
                    return None
                os.replace(made, path + ".gch")
                return path
    except OSError:
        return None


def forget(path):
    """Removes a header that is damaged, or older than the headers it was made from."""
    with contextlib.suppress(OSError):
        os.unlink(path + ".gch")
