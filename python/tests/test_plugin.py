"""The plugin of pytest, and pkc.testing."""
import os
import re
import subprocess
import sys

import numpy
import pytest
from kernels import SCALE, pair

import pkc
import pkc.testing

X, Y = pair()
TEXT = """// test: M=5 N=7
// test: M=9 N=3 -D BM=4
// check: M=5 N=7 -> race
kernel double(x: f32[M, N]) -> (o: f32[M, N]) {
  static BM = 8;
  grid (i in cdiv(M, BM));
  block x, o: [BM, N] at (i, 0);
  o[...] = 2.0 * x[...];
}

reference double { o = 2.0 * x; }
"""


def run(folder, *words):
    """The outcome of each test, and all that pytest says."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *words], cwd=str(folder), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, env={**os.environ, "COLUMNS": "200"})
    found = re.findall(r"^\S+?::(.*?) (PASSED|FAILED)\b", done.stdout, re.M)
    return dict(found), done.stdout


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_each_directive_is_a_test(folder):
    (folder / "double.pk").write_text(TEXT)
    (folder / "without.pk").write_text(TEXT.replace("test:", ""))
    found, said = run(folder)
    assert found == {"compiles": "PASSED", "test: M=5 N=7": "PASSED", "test: M=9 N=3 -D BM=4": "PASSED", "check: M=5 N=7 -> race": "FAILED"}, said
    assert "double.pk:3: check: M=5 N=7: nothing was found" in said and "without.pk" not in said and "Traceback" not in said


def test_a_file_that_is_named_needs_no_test_lines(folder):
    (folder / "without.pk").write_text("".join(line for line in TEXT.splitlines(True) if not line.startswith("//")))
    found, said = run(folder, "without.pk")
    assert found == {"compiles": "PASSED"}, said
    assert "no tests ran" in run(folder)[1]


def test_a_wrong_result_fails_its_line(folder):
    (folder / "double.pk").write_text(TEXT.replace("// check: M=5 N=7 -> race\n", "").replace("o = 2.0 * x;", "o = cast(M > 6, f32) * 2.0 * x;"))
    found, said = run(folder)
    assert found == {"compiles": "PASSED", "test: M=5 N=7": "FAILED", "test: M=9 N=3 -D BM=4": "PASSED"}, said
    assert "double.pk:1: test: M=5 N=7: interpreter against the reference" in said


def test_a_file_that_does_not_compile_fails_its_tests(folder):
    (folder / "double.pk").write_text(TEXT.replace("2.0 * x[", "2.0 * z["))
    found, said = run(folder)
    assert set(found.values()) == {"FAILED"} and len(found) == 4, said
    assert "unknown name `z`" in said


def test_one_of_them_is_selected(folder):
    (folder / "double.pk").write_text(TEXT)
    found, said = run(folder, "-k", "BM")
    assert found == {"test: M=9 N=3 -D BM=4": "PASSED"}, said


def test_check_of_a_kernel(cache):
    scale = pkc.kernel(SCALE)
    assert pkc.testing.check(scale, X, Y, reference=lambda x, y: 2 * x + y)
    with pytest.raises(AssertionError, match="result 0 differs from that of the reference"):
        pkc.testing.check(scale, X, Y, reference=lambda x, y: 2 * x - y)
    with pytest.raises(AssertionError, match="result 0 is float32, that of the reference float64"):
        pkc.testing.check(scale, X, Y, reference=lambda x, y: (2 * x + y).astype("f8"))
    with pytest.raises(AssertionError, match="1 results, where the reference gives 2"):
        pkc.testing.check(scale, X, Y, reference=lambda x, y: (2 * x + y, x))
    unwritten = pkc.kernel(SCALE.replace("o[...] =", "when i > 0 { o[...] =", 1).replace(";\n}", "; }\n}", 1))
    with pytest.raises(AssertionError, match="o"):
        pkc.testing.check(unwritten, X, Y)


def test_check_of_a_pallas_function(cache):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    from jax.experimental import pallas as pl

    import pkc.pallas
    pkc.pallas.install()

    def call(body, x):
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), name="body")(x)

    def whole(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    def half(x_ref, o_ref):
        o_ref[:4] = 2 * x_ref[:4]

    x = jax.numpy.arange(8.0)
    pkc.testing.check(lambda x: call(whole, x), x, reference=lambda x: x + x)
    with pytest.raises(AssertionError, match="result 0 differs"):
        pkc.testing.check(lambda x: call(whole, x), x, reference=lambda x: 3 * x)
    with pytest.raises(AssertionError, match="half|body"):
        pkc.testing.check(lambda x: call(half, x), x)
    numpy.testing.assert_array_equal(call(whole, x), 2 * x)
