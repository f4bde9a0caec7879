"""Calls from many threads, and threads within a call."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from kernels import COPY, SCALE, made, pair, scale, scaled

import pkc

SLOW = """
kernel slow(x: f32[N]) -> (o: f32[N]) {
  var s: f32[N] = x[...];
  for i in 0..200000 { s = s * 0.999 + 0.5; }
  o[...] = s;
}
"""


def in_threads(count, work):
    wrong = []

    def run(i):
        try:
            work(i)
        except Exception as error:
            wrong.append(error)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong, wrong


def test_many_callers():
    def work(i):
        x, y = pair(3 + i, 5 + 3 * i, seed=i)
        for _ in range(200):
            numpy.testing.assert_array_equal(scale()(x, y, threads=1 + i % 2), scaled(x, y))
    in_threads(8, work)


def test_first_calls_at_once(cache):
    k = pkc.kernel(COPY)

    def work(i):
        x = numpy.arange(6).reshape(2, 3).astype(["f4", "i2", "f2"][i % 3])
        numpy.testing.assert_array_equal(k(x), x)
    in_threads(6, work)
    assert len(list(cache.glob("*.so"))) == 3


def test_errors_are_those_of_the_caller():
    def work(i):
        x, y = pair()
        for _ in range(200):
            try:
                scale()(x, y[:i])
                assert i == 7
            except ValueError as error:
                assert str(error).endswith("found %d" % i)
    in_threads(8, work)


def test_the_lock_of_python_is_free_during_a_call():
    k, x = made(SLOW), numpy.ones(4096, "f4")
    k(x)
    done, counted = threading.Event(), 0
    thread = threading.Thread(target=lambda: (k(x), done.set()))
    thread.start()
    start = time.perf_counter()
    while not done.is_set():
        counted += 1
    thread.join()
    seconds = time.perf_counter() - start
    assert counted > 1000, "%d rounds in %g s" % (counted, seconds)


def test_threads_of_a_call():
    x, y = pair(4000, 500)
    want = scaled(x, y)
    for threads in (1, 2, 7):
        numpy.testing.assert_array_equal(scale()(x, y, threads=threads), want)


FORK = """
import os
from kernels import pair, scale, scaled
x, y = pair(4000, 500)
scale()(x, y, threads=2)
child = os.fork()
if child == 0:
    os._exit(0 if (scale()(x, y, threads=2) == scaled(x, y)).all() else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def test_fork():
    done = subprocess.run([sys.executable, "-c", FORK], cwd=os.path.dirname(__file__), timeout=300)
    assert done.returncode == 0


SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*) ;; *) : >"$0 began"; sleep 1 ;; esac
exec cc "$@"
"""


@pytest.fixture
def slow_compiler(cache, tmp_path, monkeypatch):
    """It compiles for a second from when it writes the file that this gives."""
    path = tmp_path / "slow compiler"
    path.write_text(SLOW_COMPILER)
    path.chmod(0o755)
    monkeypatch.setenv("CC", "'%s'" % path)
    return tmp_path / "slow compiler began"


def wait_for(path):
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def in_background(call, began):
    thread = threading.Thread(target=call)
    thread.start()
    wait_for(began)
    return thread


def test_calls_while_another_kernel_compiles(slow_compiler):
    x, y = pair()
    scale()(x, y)
    thread, calls = in_background(lambda: pkc.kernel(SCALE.replace("2.0", "3.0"))(x, y), slow_compiler), 0
    while thread.is_alive():
        scale()(x, y)
        calls += 1
    assert calls > 100


def test_fork_while_a_kernel_compiles(slow_compiler):
    x, y = pair()
    k = pkc.kernel(SCALE.replace("2.0", "4.0"))
    thread = in_background(lambda: k(x, y), slow_compiler)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if (k(x, y) == 4 * x + y).all() else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_interrupted_while_it_compiles(slow_compiler, cache):
    x, y = pair()
    k = pkc.kernel(SCALE.replace("2.0", "5.0"))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    threading.Thread(target=lambda: (wait_for(slow_compiler), os.kill(os.getpid(), signal.SIGINT))).start()
    with pytest.raises(KeyboardInterrupt):
        k(x, y)
    assert not list(cache.glob("pkc-*"))
    numpy.testing.assert_array_equal(k(x, y), 5 * x + y)


def test_a_kernel_that_is_forgotten_while_it_runs():
    work, out = [pkc.kernel(SLOW), numpy.ones(4096, "f4")], []
    want = work[0](work[1])
    thread = threading.Thread(target=lambda: out.append(work.pop(0)(work.pop())))
    thread.start()
    thread.join()
    numpy.testing.assert_array_equal(out[0], want)


def test_pickling():
    import copy
    import pickle
    x, y = pair()
    k = pkc.kernel(SCALE + COPY, "copy", T="f32")
    for other in (pickle.loads(pickle.dumps(k)), copy.copy(k), copy.deepcopy(k)):
        assert (other.__name__, other.signature, other.target) == (k.__name__, k.signature, k.target)
        numpy.testing.assert_array_equal(other(x), x)
    text = "import sys, pickle, numpy; k, x, y = pickle.load(sys.stdin.buffer); assert (k(x, y) == 2 * x + y).all()"
    subprocess.run([sys.executable, "-c", text], input=pickle.dumps((scale(), x, y)), check=True)


COUNT_THREADS = """
import os, sys
import numpy
sys.path.insert(0, %r)
from kernels import pair, scale, scaled
x, y = pair(3000, 500)
before = len(os.listdir("/proc/self/task"))
for _ in range(3):
    numpy.testing.assert_array_equal(scale()(x, y), scaled(x, y))
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.parametrize("chosen", [None, "1", "3"])
def test_threads_by_default(chosen):
    """A call has all processors of the process, unless PK_THREADS is another number."""
    environment = {name: value for name, value in os.environ.items() if name != "PK_THREADS"}
    if chosen:
        environment["PK_THREADS"] = chosen
    program = [sys.executable, "-c", COUNT_THREADS % os.path.dirname(os.path.abspath(__file__))]
    started = int(subprocess.run(program, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    assert started == (int(chosen) if chosen else pkc.processors()) - 1


def test_many_threads_by_default():
    """Calls that share the processors give the same bits."""
    def work(i):
        x, y = pair(1500 + i, 500)
        for _ in range(5):
            numpy.testing.assert_array_equal(scale()(x, y), scaled(x, y))
    in_threads(16, work)
