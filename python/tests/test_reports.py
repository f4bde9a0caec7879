"""help, reports, texts."""
import inspect
import pydoc
import subprocess
import sys

import ml_dtypes
import numpy
import pytest
from kernels import COPY, IN_PLACE, PROGRAM, SCALE, TWO, made, pair, scale

import pkc
from pkc import _arrays
from pkc._tool import Source

RACE = """
kernel race(x: f32[N]) -> (o: f32[8]) {
  grid (i in cdiv(N, 8) arbitrary);
  block x: [8] at (i);
  block o: [8] at (0);
  o[...] = x[...] + o[...];
}
"""


def test_help():
    text = pydoc.plain(pydoc.render_doc(scale()))
    assert "scale(x: f32[M, N], y: f32[N]) -> (o: f32[M, N])" in text
    assert "Twice x, and y added." in text and "Sizes, from the arrays: M, N" in text
    text = made(TWO).__doc__
    assert "Static D: integer = 4, from the arrays" in text
    assert "o is written to the memory of x" in made(IN_PLACE).__doc__
    assert repr(scale()) == "<pkc kernel scale(x: f32[M, N], y: f32[N]) -> (o: f32[M, N])>"
    assert str(inspect.signature(scale())) == "(x, y, *, out=None, threads=None, **sizes)"


def test_stub():
    scope = {}
    exec(made(TWO).stub, scope)
    assert list(inspect.signature(scope["two"]).parameters) == ["x", "n", "out", "threads", "sizes"]
    assert "Tuple[Any, Any]" in made(TWO).stub and "Static D" in scope["two"].__doc__


@pytest.mark.parametrize("operand", ["lambda", "None", "self", "out", "threads", "sizes", "lambda_"])
def test_names_that_python_has(operand):
    other = "lambda" if operand == "lambda_" else "y"
    k = pkc.kernel("kernel def(%s: f32[N], %s: f32[N]) -> (o: f32[N]) { o[...] = %s[...] - %s[...]; }" % (operand, other, operand, other))
    x, y, scope = numpy.arange(5, dtype="f4"), numpy.ones(5, "f4"), {}
    numpy.testing.assert_array_equal(k(x, y), x - 1)
    if operand not in ("out", "threads"):  # those are the call's own
        numpy.testing.assert_array_equal(k(**{operand: x, other: y}), x - 1)
    exec(k.stub, scope)
    assert list(inspect.signature(scope["def_"]).parameters) == list(inspect.signature(k).parameters)
    assert len(inspect.signature(k).bind(x, y, out=None, threads=1, N=5).args) == 2


def test_source_c():
    assert "scale_kernel" in scale().source_c and "pk_status scale(" in repr(scale().source_c)
    assert pkc.kernel(TWO, D=77).source_c.count("77") > 0


def test_check():
    report = scale().check(M=9, N=5)
    assert report and report.findings == [] and "no findings" in repr(report) and "<pre>" in report._repr_html_()
    assert scale().check(*pair()).ok
    report = pkc.kernel(RACE).check(N=20)
    assert not report.ok and report.findings and report.findings[0]["line"] == 6
    assert report.findings[0]["message"] in report.text
    with pytest.raises(ValueError, match="N"):
        scale().check(M=9)
    with pytest.raises(ValueError, match="Q"):
        scale().check(M=9, N=3, Q=4)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn,
                                   "f2", "bool", ">i4"], ids=str)
def test_check_of_arrays(dtype, tmp_path, monkeypatch):
    x = (numpy.arange(12).reshape(3, 4) % 3).astype(dtype)
    words = []
    run = Source.run
    monkeypatch.setattr(Source, "run", lambda self, verb, given: words.extend(given) or run(self, verb, given))
    assert made(COPY).check(x.T).ok
    assert not x.dtype.isnative or "T=" + _arrays.dtype_name(x.dtype) in words


def test_program():
    k = made(PROGRAM)
    assert k.signature["kind"] == "program" and "3 calls of 2 kernels" in k.explain().text
    report = k.tpu(M=64, N=64)
    assert "five" in report.text and report.svg == "" and "<pre>" in report._repr_html_()
    assert k.bench(M=64, N=64, min_time=0.05, max_time=0.2).data["kernel"] == "five"


def test_explain():
    assert "Operands" in repr(scale().explain())
    assert "grid steps" in scale().explain(M=64, N=64).text.lower() or "VMEM" in scale().explain(M=64, N=64).text


def test_tpu():
    report = scale().tpu(M=4096, N=1024, chip="v6e")
    assert "v6e" in report.text and report.data["chip"] == "v6e"
    assert report.svg.lstrip().startswith("<svg") and "<iframe" in report._repr_html_() and "html" in report.html
    with pytest.raises(ValueError, match="v99"):
        scale().tpu(M=4, N=4, chip="v99")


def test_bench():
    report = scale().bench(M=64, N=64, min_time=0.05, max_time=0.2, threads=2)
    assert report.data["ok"] and report.data["threads"] == 2
    assert "best" in repr(report) and "<table>" in report._repr_html_()
    report = scale().bench(*pair(), naive=False, min_time=0.05, max_time=0.2)
    assert report.data["naive_ms"] is None and report.data["sizes"] == {"M": 5, "N": 7}


def test_command():
    said = subprocess.run([sys.executable, "-m", "pkc", "--version"], stdout=subprocess.PIPE, universal_newlines=True)
    assert said.stdout.startswith("pkc %s\n" % pkc.__version__)
    assert pkc.processors() >= 1
