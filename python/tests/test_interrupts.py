"""What ends a compilation ends all of the C compiler's processes, and leaves no folder."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import pytest
from kernels import SCALE, pair

import pkc

X, Y = pair()

# A driver that waits for a child, as that of GCC does for cc1.
SLOW = '#!/bin/sh\n[ "$1" = --version ] && exec cc --version\n%s\nsleep 600 &\necho $$ $! >"%s.tmp"\nmv "%s.tmp" "%s"\nwait\n'


@pytest.fixture(params=["", 'trap "" TERM INT'], ids=["polite", "stubborn"])
def slow(request, cache, monkeypatch, tmp_path):
    """The file that will have the numbers of the compiler's processes."""
    pids, compiler = tmp_path / "pids", tmp_path / "slow-cc"
    compiler.write_text(SLOW % (request.param, pids, pids, pids))
    compiler.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return pids


def numbers(path):
    deadline = time.time() + 60
    while not path.exists() and time.time() < deadline:
        time.sleep(0.02)
    return [int(word) for word in path.read_text().split()]


def alive(pid):
    try:
        return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Alarm(Exception):
    pass


@pytest.mark.parametrize("number, error", [(signal.SIGALRM, Alarm), (signal.SIGINT, KeyboardInterrupt)])
def test_exception(slow, tmp_path, number, error):
    def ring(*_):
        raise Alarm
    old = signal.signal(signal.SIGALRM, ring)
    helper = subprocess.Popen([sys.executable, "-c", "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
                               "os.kill(int(sys.argv[2]), int(sys.argv[3]))", str(slow), str(os.getpid()), str(int(number))])
    try:
        with pytest.raises(error):
            pkc.kernel(SCALE)(X, Y)
    finally:
        signal.signal(signal.SIGALRM, old)
        helper.wait()
    assert not any(alive(pid) for pid in numbers(slow))
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_end_of_the_process(slow, number):
    """Of one that handles no signal, and runs nothing at its end."""
    text = "import sys; sys.path.insert(0, %r); from kernels import *; import pkc; pkc.kernel(SCALE)(*pair())" % os.path.dirname(__file__)
    child = subprocess.Popen([sys.executable, "-c", text])
    running = numbers(slow)
    child.send_signal(number)
    child.wait()
    deadline = time.time() + 30
    while any(alive(pid) for pid in running) and time.time() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in running)


def test_a_compiler_that_cannot_be_run(cache, monkeypatch, tmp_path):
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/nowhere/sh\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(pkc.BuildError, match="broken-cc cannot be run: No such file or directory; kernels are compiled by"):
        pkc.kernel(SCALE)(X, Y)
    monkeypatch.delenv("CC")
    numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)
