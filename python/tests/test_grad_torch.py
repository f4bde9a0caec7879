"""Gradients of pkc.torch.op, derived from references."""
import numpy
import pytest

torch = pytest.importorskip("torch")
import pkc
from pkc.torch import op

TEXT = """
kernel soft(x: T[M, N], n: i32[1], y: f32[M, N]) -> (o: T[M, N], count: i32[M, 1], p: f32[M, N]) {
  static T: dtype = f32;
  let e = exp(x[...] - reduce_max(x[...], axis = 1));
  o[...] = e / reduce_sum(e, axis = 1);
  count[...] = reduce_sum(cast(x[...] > 0, i32), axis = 1);
  p[...] = y[...] * y[...] * y[...];
}
reference soft {
  let e = exp(x - reduce_max(x, axis = 1));
  o = e / reduce_sum(e, axis = 1);
  count = reduce_sum(cast(x > 0, i32), axis = 1);
  p = y * y * y;
}
kernel bare(x: f32[N]) -> (o: f32[N]) { grid (i in cdiv(N, 4) parallel); block x, o: [4] at (i); for t in 0..1 { o[...] = x[...]; } }
"""
KERNEL = pkc.kernel(TEXT, "soft")


def ours(x, y):
    o, _, p = op(KERNEL, "pkctest::soft")(x, torch.zeros(1, dtype=torch.int32), y)
    return o, p


def theirs(x, y):
    return torch.softmax(x, 1), y ** 3


def pair(shape=(5, 7), dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator).to(d).requires_grad_() for d in (dtype, torch.float32)]


def gradients(f, x, y):
    o, p = f(x, y)
    return torch.autograd.grad((o.float() ** 2).sum() + p.sum(), (x, y))


@pytest.mark.parametrize("shape, dtype", [((5, 7), torch.float32), ((1, 1), torch.float32), ((0, 3), torch.float32), ((5, 7), torch.bfloat16)])
def test_gradient(shape, dtype):
    x, y = pair(shape, dtype)
    for got, want, like in zip(gradients(ours, x, y), gradients(theirs, x, y), (x, y)):
        assert got.dtype == like.dtype and torch.allclose(got, want, atol=1e-5 if got.dtype == torch.float32 else 2e-2)


def test_again():
    x, y = pair()
    second = []
    for f in (ours, theirs):
        o, p = f(x, y)
        first = torch.autograd.grad((o ** 2).sum() + p.sum(), (x, y), create_graph=True)
        second.append(torch.autograd.grad(sum((g ** 2).sum() for g in first), (x, y)))
    assert all(torch.allclose(got, want, atol=1e-4) for got, want in zip(*second))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    compiled = torch.compile(ours, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for shape in ((5, 7), (3, 4)):
        x, y = pair(shape)
        assert all(torch.allclose(g, w, atol=1e-5) for g, w in zip(gradients(compiled, x, y), gradients(theirs, x, y)))


def test_part():
    x, y = pair()
    o, _ = ours(x, y)
    (got,) = torch.autograd.grad(o[0].sum() * 3 + o[1, 2], (x,))
    o, _ = theirs(x, y)
    (want,) = torch.autograd.grad(o[0].sum() * 3 + o[1, 2], (x,))
    assert torch.allclose(got, want, atol=1e-5)
    torch.library.opcheck(op(KERNEL, "pkctest::soft"), (x, torch.zeros(1, dtype=torch.int32), y))


def test_refused():
    bare = op(pkc.kernel(TEXT, "bare"), "pkctest::bare")
    x = torch.ones(3, requires_grad=True)
    assert numpy.array_equal(bare(x).detach(), [1, 1, 1])
    with pytest.raises(pkc.CompileError, match="a block that does not divide an array of run-time size"):
        bare(x).sum().backward()
