"""Calls with tensors of torch."""
import os
import subprocess
import sys

import numpy
import pytest
from kernels import COPY, IN_PLACE, made, pair, scale, scaled

import pkc

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("shape", [(5, 7), (0, 7), (64, 128), (1, 1)])
def test_result(shape):
    x, y = pair(*shape)
    o = scale()(torch.tensor(x), torch.tensor(y))
    assert isinstance(o, torch.Tensor) and o.dtype == torch.float32 and o.device.type == "cpu"
    numpy.testing.assert_array_equal(o.numpy(), scaled(x, y))
    assert isinstance(scale()(x, torch.tensor(y)), torch.Tensor)


@pytest.mark.parametrize("dtype", "float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int32 int16 int8 uint8 bool".split())
def test_dtypes(dtype):
    if not hasattr(torch, dtype):
        pytest.skip("this torch has no such dtype")
    if dtype == "bool" and tuple(map(int, torch.__version__.split(".")[:1])) < (2,):
        pytest.skip("bool is not in DLPack of torch before 2")
    x = (torch.arange(33).reshape(11, 3) % 7).to(getattr(torch, dtype))
    o = made(COPY)(x)
    assert o.dtype == x.dtype
    assert torch.equal(o.to(torch.float32), x.to(torch.float32))


def test_layouts_and_outputs():
    x, y = pair(9, 13)
    t = torch.tensor(x.T.copy()).T
    out = torch.zeros(18, 39)[::2, ::3]
    assert scale()(t, torch.tensor(y), out=out, threads=2) is out
    numpy.testing.assert_array_equal(out.numpy(), scaled(x, y))
    x = torch.arange(20, dtype=torch.float32)
    before = x.clone()
    assert torch.equal(made(IN_PLACE)(x), 2 * before) and torch.equal(x, before)
    made(IN_PLACE)(x, out=x)
    assert torch.equal(x, 2 * before)


def test_grad():
    x, y = map(torch.tensor, pair())
    with pytest.raises(TypeError, match="operand x: expected a tensor that does not require grad"):
        scale()(x.requires_grad_(), y)
    numpy.testing.assert_array_equal(scale()(x.detach(), y).numpy(), scaled(*pair()))


def test_refused():
    x, y = map(torch.tensor, pair())
    with pytest.raises(TypeError, match="operand x: expected f32, found (torch.float|f)64"):
        scale()(x.double(), y)
    with pytest.raises(TypeError, match="DLPack"):
        scale()(x.to_sparse(), y)
    with pytest.raises(ValueError, match="operand x: expected 2 axes, found 1"):
        scale()(x[0], y)
    with pytest.raises(TypeError):
        scale()(torch.empty(5, 7, device="meta"), y)


def test_other_tensors():
    x, y = map(torch.tensor, pair())
    z = torch.complex(x, x).conj().imag  # its signs are changed when it is read
    want = scaled(-pair()[0], pair()[1])
    if z.is_neg():
        with pytest.raises(TypeError, match="resolve_neg"):
            scale()(z, y)
    numpy.testing.assert_array_equal(scale()(z.resolve_neg(), y).numpy(), want)

    class Mine(torch.Tensor):
        pass
    o = scale()(x.as_subclass(Mine), y)
    assert isinstance(o, torch.Tensor)
    numpy.testing.assert_array_equal(o.numpy(), scaled(*pair()))
    with pytest.raises(ValueError, match="found 10"):
        scale()(x.reshape((1,) * 8 + (5, 7)), y)
    with pytest.raises(ValueError, match="operand o overlaps operand x"):
        scale()(x, y, out=x)


def test_verbs():
    assert scale().check(*map(torch.tensor, pair())).ok


COUNT_THREADS = """
import os, sys
import numpy, torch, pkc.torch
sys.path.insert(0, %r)
from kernels import pair, scale, scaled
torch.set_num_threads(int(sys.argv[1]))
x, y = pair(3000, 500)
arrays = (x, y) if sys.argv[2] == "numpy" else (torch.tensor(x), torch.tensor(y))
call = pkc.torch.op(scale()) if sys.argv[2] == "op" else scale()
call(arrays[0][:1], arrays[1])  # compiles, with one cell
before = len(os.listdir("/proc/self/task"))
numpy.testing.assert_array_equal(numpy.asarray(call(*arrays)), scaled(x, y))
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.parametrize("what", ["tensors", "op", "numpy"])
@pytest.mark.parametrize("chosen", [1, 2])
def test_threads_of_torch(what, chosen):
    """A call on tensors has at most as many threads as torch; one on arrays of NumPy has the processors."""
    environment = {name: value for name, value in os.environ.items() if name != "PK_THREADS"}
    program = [sys.executable, "-c", COUNT_THREADS % os.path.dirname(os.path.abspath(__file__)), str(chosen), what]
    started = int(subprocess.run(program, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    if what == "numpy":
        assert (started > 0) == (pkc.processors() > 1)
    else:
        assert started == min(chosen, pkc.processors()) - 1
