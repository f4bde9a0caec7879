"""Calls from many threads, and threads within a call."""
import os
import subprocess
import sys
import threading
import time

import numpy
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
