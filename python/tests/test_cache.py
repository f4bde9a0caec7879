"""Variants in memory and on disk."""
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import numpy
import pytest
from kernels import COPY, SCALE, pair

import pkc
from pkc import _build, _headers

X, Y = pair()


def entries(cache):
    """But for those of precompiled headers."""
    return sorted(p for p in cache.iterdir() if p.suffix not in (".uses", ".h", ".gch"))


def forget(monkeypatch):
    monkeypatch.setattr(_build, "_loaded", {})


def no_compiling(monkeypatch):
    def refuse(*words):
        raise AssertionError("it is compiled again")
    monkeypatch.setattr(_build, "_compile", refuse)


def test_memory(cache, monkeypatch):
    k = pkc.kernel(COPY)
    k(X)
    k(X.astype("f2"))
    assert len(entries(cache)) == 2
    no_compiling(monkeypatch)
    k(X), k(X[:2, :3]), k(X.astype("f2"))
    pkc.kernel(COPY)(X)
    with pytest.raises(AssertionError):
        k(X.astype("i2"))


def test_disk(cache, monkeypatch):
    pkc.kernel(SCALE)(X, Y)
    entry, = entries(cache)
    assert entry.suffix == ".so" and os.stat(cache).st_mode & 0o77 == 0
    forget(monkeypatch)
    no_compiling(monkeypatch)
    os.utime(entry, (0, 0))
    numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
    assert time.time() - entry.stat().st_mtime < 60


def test_flags_and_text_are_part_of_the_key(cache, monkeypatch):
    pkc.kernel(SCALE)(X, Y)
    forget(monkeypatch)
    monkeypatch.setenv("PKC_CFLAGS", "-DANYTHING")
    pkc.kernel(SCALE)(X, Y)
    assert len(entries(cache)) == 2
    pkc.kernel(SCALE.replace("2.0", "3.0"))(X, Y)
    assert len(entries(cache)) == 3
    numpy.testing.assert_array_equal(pkc.kernel(SCALE, target="generic")(X, Y), 2 * X + Y)
    assert len(entries(cache)) == 4


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(p.read_bytes()[:5000]), lambda p: p.write_bytes(b""),
                                    lambda p: p.write_text("no program"), lambda p: p.chmod(0o777), lambda p: p.write_bytes(p.read_bytes() + b"x"),
                                    *(lambda p, at=at: flip(p, at) for at in (0, 40, 2000, -2000, -50, -1))])
def test_damaged_entry(cache, monkeypatch, damage):
    """One flipped bit and more: it is made again."""
    pkc.kernel(SCALE)(X, Y)
    entry, = entries(cache)
    whole = entry.read_bytes()
    replace(entry, whole)
    damage(entry)
    forget(monkeypatch)
    numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
    assert entry.read_bytes() == whole


def replace(entry, contents):
    entry.unlink()  # a library in use is not overwritten
    entry.write_bytes(contents)


def flip(path, at):
    contents = bytearray(path.read_bytes())
    contents[at] ^= 4
    path.write_bytes(contents)


def test_entries_that_change_names(cache, monkeypatch):
    texts = [SCALE, SCALE.replace("2.0", "3.0")]
    for text in texts:
        pkc.kernel(text)(X, Y)
    both = entries(cache)
    for entry, contents in zip(both, [p.read_bytes() for p in reversed(both)]):
        replace(entry, contents)
    forget(monkeypatch)
    for text, factor in zip(texts, (2, 3)):
        numpy.testing.assert_array_equal(pkc.kernel(text)(X, Y), factor * X + Y)


def test_no_room(cache, monkeypatch, tmp_path):
    """A cache that takes nothing: a warning, and what is compiled is used. The temporary folder goes."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="is not used: No space left"):
        patch.setattr(os, "replace", full)
        numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
    assert entries(cache) == [] and not list((tmp_path / "temporary").iterdir())


SMALL = """
import sys, warnings, numpy
sys.path.insert(0, %r)
from kernels import SCALE, pair, scaled
import pkc
x, y = pair()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert (pkc.kernel(SCALE)(x, y) == scaled(x, y)).all()
assert "is not used: No space left" in str(said[0].message), said
""" % os.path.dirname(__file__)


def test_a_small_file_system(cache):
    cache.mkdir(mode=0o700)
    shell = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=8k,mode=700 none "$1" && exec "$2" -c "$3"', "sh", str(cache)]
    if shutil.which("unshare") is None or subprocess.run([*shell, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no file system can be mounted")
    subprocess.run([*shell, sys.executable, SMALL], check=True)


def test_precompiled_headers(cache, monkeypatch):
    monkeypatch.setattr(_headers, "EACH", 2)
    compile_with, headers = _build._compile, []

    def observe(text, head, tail, folder, header=None):
        headers.append(header)
        return compile_with(text, head, tail, folder, header)

    def call(factor):
        numpy.testing.assert_array_equal(pkc.kernel(SCALE.replace("2.0", "%d.0" % factor))(X, Y), factor * X + Y)
    monkeypatch.setattr(_build, "_compile", observe)
    for factor in (3, 4, 5):
        call(factor)
    header, = set(headers[1:])
    assert headers[0] is None and header.endswith(".h")
    kept, = cache.glob("*.gch")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:len(whole) // 2])
    call(6)  # the compiler passes over it or fails: either way a kernel is made
    kept.write_bytes(whole)

    def fail(text, head, tail, folder, header=None):
        if header:
            raise _build.BuildError("a header of another date")
        return compile_with(text, head, tail, folder)
    monkeypatch.setattr(_build, "_compile", fail)
    call(7)
    assert not kept.exists()


def test_folder_of_others(cache, monkeypatch):
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others own it or may write"):
        numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
    assert entries(cache) == []


def test_names_of_folders(monkeypatch, tmp_path):
    """With spaces, quotes and letters of any alphabet; a file, a link to nowhere, and a path that is not a folder."""
    odd = tmp_path / "a b \u00fc \u4e2d '\"$x"
    (tmp_path / "file").mkdir()
    (tmp_path / "file/pkc").write_text("")
    (tmp_path / "file/pkc").chmod(0o600)
    (tmp_path / "link").mkdir()
    (tmp_path / "link/pkc").symlink_to("/nowhere/at/all")
    for base in (odd, "/proc", "/etc/passwd", "relative", tmp_path / "file", tmp_path / "link"):
        forget(monkeypatch)
        monkeypatch.setenv("XDG_CACHE_HOME", str(base))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
    assert len(entries(odd / "pkc")) == 1
    path = odd / "-k; 'a' \n.pk"
    path.write_text(SCALE)
    for name in (path, str(path), os.fsencode(path)):
        numpy.testing.assert_array_equal(pkc.load(name)(X, Y), 2 * X + Y)


def test_a_cache_that_cannot_be_written(cache, monkeypatch):
    """Its entries cannot be used either, where it is another's."""
    cache.mkdir(mode=0o700)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    with pytest.warns(RuntimeWarning, match="pkc is not used: it cannot be written"):
        numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
    assert entries(cache) == []


def test_no_home(cache, monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
    assert not (tmp_path / "none").exists()


def test_limit(cache, monkeypatch):
    cache.mkdir(mode=0o700)
    old, recent, left = cache / "old.so", cache / "recent.so", cache / "pkc-abcdef"
    for path in (old, recent):
        path.write_bytes(b"x" * 5000)
    left.mkdir()
    for path in (old, left):
        os.utime(path, (0, 0))
    monkeypatch.setenv("PKC_CACHE_LIMIT", "1K")
    pkc.kernel(SCALE)(X, Y)
    assert not old.exists() and not left.exists() and recent.exists()


def test_failure_leaves_nothing(cache, monkeypatch):
    monkeypatch.setenv("PKC_CFLAGS", "-nonsense-flag")
    with pytest.raises(pkc.BuildError):
        pkc.kernel(SCALE)(X, Y)
    assert entries(cache) == []


def test_processes_at_once(cache):
    text = "import sys, numpy, pkc; sys.path.insert(0, %r); from kernels import *; x, y = pair();" \
           "assert (pkc.kernel(SCALE)(x, y) == scaled(x, y)).all()" % os.path.dirname(__file__)
    running = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    assert len(entries(cache)) == 1
