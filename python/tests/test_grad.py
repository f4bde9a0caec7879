"""pkc.grad: derived references as kernels."""
import numpy
import pytest

import pkc

SOFTMAX = """
kernel softmax(x: f32[M, N], n: i32) -> (o: f32[M, N]) {
  static SCALE = 1.0;
  block n: smem;
  let e = exp(SCALE * (x[...] - reduce_max(x[...], axis = 1)));
  o[...] = e / reduce_sum(e, axis = 1);
}
reference softmax {
  let e = exp(SCALE * (x - reduce_max(x, axis = 1)));
  o = e / reduce_sum(e, axis = 1);
}
kernel bare(x: f32[M]) -> (o: f32[M]) { grid (i in cdiv(M, 4) parallel); block x, o: [4] at (i); o[...] = x[...]; }
"""


def softmax(x, scale):
    e = numpy.exp(scale * (x - x.max(1, keepdims=True)))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (0, 3)])
def test_gradient(shape):
    x, do = numpy.random.default_rng(1).standard_normal((2, *shape)).astype("f4")
    derived = pkc.grad(pkc.kernel(SOFTMAX, "softmax", SCALE=2.0))
    o = softmax(x, 2)
    assert derived.__name__ == "softmax_backward"
    assert numpy.allclose(derived(x, numpy.int32(0), do), 2 * o * (do - (o * do).sum(1, keepdims=True)), atol=1e-5)


@pytest.mark.parametrize("blocks", [False, True])
def test_saved(blocks):
    x, do = numpy.random.default_rng(1).standard_normal((2, 5, 7)).astype("f4")
    k, n, o = pkc.kernel(SOFTMAX, "softmax", SCALE=2.0), numpy.int32(0), softmax(x, 2)
    found = pkc.grad(k, "x", blocks=blocks, saved="o")(x, n, o, do)
    assert numpy.allclose(found, 2 * o * (do - (o * do).sum(1, keepdims=True)), atol=1e-5)
    with pytest.raises(pkc.CompileError, match="--saved: `y` is not an output of `softmax`"):
        pkc.grad(k, saved=["y"])


def test_forward_and_again():
    x, dx, do = numpy.random.default_rng(2).standard_normal((3, 5, 7)).astype("f4")
    k, n = pkc.kernel(SOFTMAX, "softmax"), numpy.int32(0)
    forth = pkc.grad(k, "x", forward=True)(x, n, dx)
    back = pkc.grad(k, ["x"])
    assert numpy.isclose((forth * do).sum(), (back(x, n, do) * dx).sum(), atol=1e-5)
    second = pkc.grad(back)(x, n, do, dx)
    assert len(second) == 2 and numpy.allclose(second[1], forth, atol=1e-5)


def test_refused():
    k = pkc.kernel(SOFTMAX, "softmax")
    with pytest.raises(pkc.CompileError, match="only floats have a gradient"):
        pkc.grad(k, wrt="n")
    with pytest.raises(pkc.CompileError, match="a block that does not divide an array of run-time size"):
        pkc.grad(pkc.kernel(SOFTMAX, "bare"))
    with pytest.raises(TypeError, match="expected a kernel"):
        pkc.grad(SOFTMAX)
