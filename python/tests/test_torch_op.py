"""Kernels as operators of torch: torch.compile, autograd, vmap, torch.export."""
import numpy
import pytest
from kernels import SCALE, made, pair, scale, scaled

import pkc

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch.library", reason="torch is older than 2.4")
if not hasattr(torch.library, "custom_op"):
    pytest.skip("torch is older than 2.4", allow_module_level=True)
import pkc.torch  # noqa: E402

SQUARE = """
kernel square(x: T[M, N]) -> (o: T[M, N], rows: f32[M, 1]) {
  static T: dtype = f32;
  grid (i in cdiv(M, 8) parallel);
  block x, o: [8, N] at (i, 0);
  block rows: [8, 1] at (i, 0);
  o[...] = x[...] * x[...];
  rows[...] = reduce_sum(cast(x[...], f32), axis = 1);
}
kernel square_backward(x: f32[M, N], do: f32[M, N], d_rows: f32[M, 1]) -> (dx: f32[M, N]) {
  grid (i in cdiv(M, 8) parallel);
  block x, do, dx: [8, N] at (i, 0);
  block d_rows: [8, 1] at (i, 0);
  dx[...] = 2 * x[...] * do[...] + d_rows[...];
}
kernel halves(x: f32[N]) -> (o: f32[M, 2]) {
  require N == 2 * M;
  o[...] = reshape(x[...], [M, 2]);
}
kernel grow(x: f32[M, N]) -> (o: f32[2 * M + 1, cdiv(N, 2)]) {
  o[...] = broadcast(cast(M, f32), [2 * M + 1, cdiv(N, 2)]) + x[0, 0];
}
"""


def kernels(name):
    return pkc.kernel(SQUARE, name)


def square():
    return pkc.torch.op(made_once("square"), "pkc_tests::square", backward=made_once("square_backward"))


_made = {}


def made_once(name):
    return _made.setdefault(name, kernels(name))


def scale_op():
    return pkc.torch.op(scale(), "pkc_tests::scale")


@pytest.mark.parametrize("shape", [(5, 7), (0, 7), (64, 128), (1, 1)])
def test_eager(shape):
    x, y = pair(*shape)
    numpy.testing.assert_array_equal(scale_op()(torch.tensor(x), torch.tensor(y)).numpy(), scaled(x, y))
    strided = torch.tensor(x.T.copy()).T
    numpy.testing.assert_array_equal(scale_op()(strided, torch.tensor(y)).numpy(), scaled(x, y))


def test_opcheck():
    x, y = map(torch.tensor, pair())
    torch.library.opcheck(scale_op(), (x, y))
    torch.library.opcheck(square(), (x.clone().requires_grad_(),))


def test_gradients():
    x = torch.randn(5, 7, requires_grad=True)
    o, rows = square()(x)
    go, gr = torch.randn(5, 7), torch.randn(5, 1)
    torch.autograd.backward([o, rows], [go, gr])
    torch.testing.assert_close(x.grad, 2 * x.detach() * go + gr)
    x.grad = None
    square()(x)[0].sum().backward()  # the other output has no gradient
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_gradient_by_function():
    k = pkc.kernel(SCALE)
    f = pkc.torch.op(k, "pkc_tests::scale_with_gradient", backward=lambda i, o, g: (2 * g[0], g[0].sum(0)))
    x, y = (torch.tensor(v, requires_grad=True) for v in pair())
    f(x, y).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2)) and torch.equal(y.grad, torch.full_like(y, x.shape[0]))
    broken = pkc.torch.op(pkc.kernel(SCALE), "pkc_tests::broken", backward=lambda i, o, g: g)
    with pytest.raises(ValueError, match="expected 2 gradients, one for each input, found 1"):
        broken(x, y).sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(backend, dynamic):
    torch._dynamo.reset()
    operator = scale_op()
    f = torch.compile(lambda x, y: operator(torch.sin(x), y) + 1, backend=backend, fullgraph=True, dynamic=dynamic)
    for shape in ((5, 7), (6, 7), (9, 11)):
        x, y = map(torch.tensor, pair(*shape))
        torch.testing.assert_close(f(x, y), 2 * torch.sin(x) + y + 1)


def test_compile_with_dtypes_that_follow():
    torch._dynamo.reset()
    text = "kernel sums(x: T[M, N]) -> (s: accum(T)[M, 1]) { static T: dtype = f32; s[...] = reduce_sum(cast(x[...], accum(T)), axis = 1); }"
    sums = pkc.torch.op(pkc.kernel(text), "pkc_tests::sums")
    f = torch.compile(lambda x: sums(x) * 2, backend="aot_eager", fullgraph=True, dynamic=True)
    for dtype, wide in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32), (torch.float32, torch.float32)):
        for rows in (3, 5):
            o = f(torch.ones(rows, 7, dtype=dtype))
            assert o.dtype == wide and torch.equal(o, torch.full((rows, 1), 14, dtype=wide))


def test_compile_gradients_and_extents():
    torch._dynamo.reset()
    operator = square()
    f = torch.compile(lambda x: operator(x * 3)[0].sum(), backend="aot_eager", fullgraph=True)
    x = torch.randn(5, 7, requires_grad=True)
    f(x).backward()
    torch.testing.assert_close(x.grad, 18 * x.detach())
    halves = pkc.torch.op(made_once("halves"), "pkc_tests::halves")
    h = torch.compile(lambda x: halves(x) * 2, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (6, 10, 2):
        x = torch.arange(float(n))
        assert torch.equal(h(x), 2 * x.reshape(-1, 2))
    grow = pkc.torch.op(made_once("grow"), "pkc_tests::grow")
    g = torch.compile(lambda x: grow(x) * 2, backend="aot_eager", fullgraph=True, dynamic=True)
    for shape in ((3, 5), (4, 8), (7, 1)):
        x = torch.ones(shape)
        assert torch.equal(g(x), torch.full((2 * shape[0] + 1, (shape[1] + 1) // 2), 2.0 * (shape[0] + 1)))


def test_vmap():
    x, y = torch.randn(4, 5, 7), torch.randn(7)
    torch.testing.assert_close(torch.vmap(scale_op(), in_dims=(0, None))(x, y), 2 * x + y)
    o, rows = torch.vmap(square(), in_dims=1)(x)
    torch.testing.assert_close(o, (x * x).transpose(0, 1))
    torch.testing.assert_close(rows[:, :, 0], x.sum(2).T)


def test_export():
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return operator(x, y)
    operator = scale_op()
    x, y = map(torch.tensor, pair())
    program = torch.export.export(Module(), (x, y))
    assert "pkc_tests.scale" in str(program.graph)
    assert torch.equal(program.module()(x, y), scale_op()(x, y))


def test_refused():
    x, y = map(torch.tensor, pair())
    assert scale_op() is scale_op()
    with pytest.raises(ValueError, match="pkc_tests::scale is an operator already"):
        pkc.torch.op(made("kernel other() -> (o: f32[4]) { o[...] = 0; }"), "pkc_tests::scale")
    with pytest.raises(ValueError, match="threads: expected 1 to 1024"):
        pkc.torch.op(scale(), "pkc_tests::threads", threads=0)
    with pytest.raises(ValueError, match="x of scale is the name of no .*expected one of a, o, do"):
        pkc.torch.op(pkc.kernel("kernel f(a: f32[M]) -> (o: f32[M]) { o[...] = a[...]; }"), "pkc_tests::f", backward=scale())
    with pytest.raises(TypeError, match="expected f32"):
        scale_op()(x.double(), y)
    with pytest.raises(TypeError, match="expected a kernel or a function"):
        pkc.torch.op(scale(), "pkc_tests::g", backward=3)
    with pytest.raises((ValueError, RuntimeError), match="axis|extent|size"):
        scale_op()(x, torch.zeros(3))


def test_names_that_python_has():
    text = "kernel def(lambda: f32[N], out: f32[N]) -> (o: f32[N]) { o[...] = lambda[...] - out[...]; }"
    k = pkc.torch.op(pkc.kernel(text), "pkctest::names")
    x, y = torch.arange(5.0), torch.ones(5)
    assert torch.equal(k(x, y), x - 1)
    assert torch.equal(torch.compile(lambda x, y: k(x, y) * 2, backend="eager", fullgraph=True)(x, y), 2 * (x - 1))
