"""Kernels that several tests call, and what they compute."""
import functools

import numpy

import pkc

SCALE = """
// Twice x, and y added.
kernel scale(x: f32[M, N], y: f32[N]) -> (o: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8, N] at (i, 0);
  o[...] = 2.0 * x[...] + y[...];
}
reference scale { o = 2.0 * x + y; }
"""

# Statics in dtypes and shapes; an output's dtype of its own; a derived size.
TWO = """
kernel two(x: T[N, D], n: i32[N]) -> (a: T[N, D], b: O[N + 1]) {
  static T: dtype = f32, D = 4, O: dtype = i32;
  a[...] = x[...] + x[...];
  b[...] = cast(iota([N + 1]) + n[0], O);
}
"""

COPY = """
kernel copy(x: T[M, N]) -> (o: T[M, N]) {
  static T: dtype = f32;
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8, N] at (i, 0);
  o[...] = x[...];
}
"""

IN_PLACE = """
kernel twice(x: f32[M]) -> (o: f32[M]) {
  alias o = x;
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8] at (i) pad 0;
  o[...] = x[...] * 2;
}
"""

COUNT = """
kernel count() -> (o: i32[N]) { o[...] = iota([N]); }
"""

HALVES = """
kernel halves(x: f32[N]) -> (o: f32[M, 2]) { require N == 2 * M; o[...] = reshape(x[...], [M, 2]); }
"""

PROGRAM = """
kernel twice(x: T[M, N]) -> (o: T[M, N]) { static T: dtype = f32; o[...] = x[...] + x[...]; }
kernel sum(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, N]) { o[...] = x[...] + y[...]; }
// Five times x.
program five(x: f32[M, N]) -> (o: f32[M, N]) {
  let a = twice(x);
  let b = twice(a);
  o = sum(b, x);
}
"""


@functools.lru_cache(maxsize=None)
def made(text):
    return pkc.kernel(text)


def scale():
    return made(SCALE)


def scaled(x, y):
    return numpy.float32(2) * x + y


def pair(m=5, n=7, seed=0):
    random = numpy.random.default_rng(seed)
    return random.standard_normal((m, n), "f4"), random.standard_normal(n, "f4")
