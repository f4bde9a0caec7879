"""What is refused, with what words; nothing is written then."""
import pathlib
import re
import subprocess
import sys

import numpy
import pytest
from capsules import Capsule
from kernels import PROGRAM, SCALE, TWO, made, pair, scale

import pkc
from pkc import _compiler

LIBRARY = pathlib.Path(pkc.__file__).parent / "share/pkc/kernels"
X, Y = pair()
READ_ONLY = numpy.zeros((5, 7), "f4")
READ_ONLY.flags.writeable = False


CALLS = [
    ("none", lambda k, o: k(), TypeError, "scale: operand x is missing: expected 2 arrays, found 0"),
    ("too few", lambda k, o: k(X, out=o), TypeError, "scale: operand y is missing: expected 2 arrays, found 1"),
    ("too many", lambda k, o: k(X, Y, Y, out=o), TypeError, "scale: expected 2 arrays, found 3"),
    ("twice", lambda k, o: k(X, Y, x=X, out=o), TypeError, "operand x is given twice"),
    ("a list", lambda k, o: k([1.0], Y, out=o), TypeError, "operand x: expected an array, found list"),
    ("masked", lambda k, o: k(numpy.ma.array(X), Y, out=o), TypeError, "expected an array, found MaskedArray"),
    ("None", lambda k, o: k(None, Y, out=o), TypeError, "operand x: expected an array, found NoneType"),
    ("dtype", lambda k, o: k(X.astype("f8"), Y, out=o), TypeError, "operand x: expected f32, found f(loat)?64"),
    ("complex", lambda k, o: k(X.astype("c8"), Y, out=o), TypeError, "operand x: expected f32, found complex64"),
    ("text", lambda k, o: k(numpy.array([["a"]]), Y, out=o), TypeError, "operand x: expected f32, found <U1"),
    ("objects", lambda k, o: k(X.astype(object), Y, out=o), TypeError, "operand x: expected f32, found object"),
    ("output's dtype", lambda k, o: k(X, Y, out=o.view("i4")), TypeError, "operand o: expected f32, found i32"),
    ("byte order", lambda k, o: k(X.astype(">f4"), Y, out=o), TypeError, "found float32 of the other byte order"),
    ("rank", lambda k, o: k(X[0], Y, out=o), ValueError, "operand x: expected 2 axes, found 1"),
    ("a high rank", lambda k, o: k(X.reshape((1,) * 10 + (5, 7)), Y, out=o), ValueError, "operand x: expected 2 axes, found"),
    ("shape", lambda k, o: k(X, Y[:6], out=o), ValueError, r"operand y: axis 0: expected 7 \(N, axis 1 of x\), found 6"),
    ("output's shape", lambda k, o: k(X, Y, out=o[:4]), ValueError, r"operand o: axis 0: expected 5 \(M, axis 0 of x\), found 4"),
    ("a device", lambda k, o: k(Capsule(X, device=(2, 0)), Y, out=o), TypeError, "operand x: expected CPU memory, found a device of CUDA"),
    ("an output's device", lambda k, o: k(X, Y, out=Capsule(o, device=(2, 0))), TypeError, "operand o: expected CPU memory, found a device of"),
    ("read-only", lambda k, o: k(X, Y, out=READ_ONLY), ValueError, "operand o: an output, and the array is read-only"),
    ("overlap", lambda k, o: k(o, Y, out=o), ValueError, "operand o overlaps operand x"),
    ("itself", lambda k, o: k(X, Y, out=numpy.lib.stride_tricks.as_strided(o, strides=(0, 4))), ValueError,
     "several elements at one address"),
    ("outputs", lambda k, o: k(X, Y, out=(o, o)), TypeError, "out: expected 1 arrays, found 2"),
    ("a number as output", lambda k, o: k(X, Y, out=3), TypeError, "operand o: expected an array, found int"),
    ("threads 0", lambda k, o: k(X, Y, out=o, threads=0), ValueError, "threads: expected 1 to 1024, found 0"),
    ("threads 1.5", lambda k, o: k(X, Y, out=o, threads=1.5), TypeError, "threads: expected a whole number, found 1.5"),
    ("threads 2**70", lambda k, o: k(X, Y, out=o, threads=2**70), ValueError, "threads: expected 1 to 1024, found 1180591620717411303424"),
    ("a size of 1.5", lambda k, o: k(X, Y, out=o, M=1.5), TypeError, "M is not an operand"),
    ("a size below 0", lambda k, o: k(X, Y, out=o, M=-5), ValueError, "M: expected a size from 0 to 2147483647, found -5"),
    ("a size of -1", lambda k, o: k(X, Y, out=o, M=-1), ValueError, "M: expected a size from 0 to 2147483647, found -1"),
    ("a large size", lambda k, o: k(X, Y, out=o, M=2**70), ValueError, "M: expected a size from 0 to 2147483647, found 118"),
    ("a class", lambda k, o: k(numpy.ndarray, Y, out=o), TypeError, "operand x: expected an array, found type"),
    ("a record", lambda k, o: k(numpy.zeros((5, 7), "f4,i4"), Y, out=o), TypeError, "operand x: expected f32, found .*'f0'"),
    ("0-d", lambda k, o: k(numpy.float32(1), Y, out=o), ValueError, "operand x: expected 2 axes, found 0"),
    ("a broadcast output", lambda k, o: k(X, Y, out=numpy.broadcast_to(o[0], o.shape)), ValueError, "operand o: an output, and the array is"),
    ("windows as output", lambda k, o: k(X, Y, out=numpy.lib.stride_tricks.as_strided(o, strides=(8, 4))), ValueError,
     "several elements at one address"),
    ("an output that is not aligned", lambda k, o: k(X, Y, out=numpy.zeros(141, "u1")[1:].view("f4").reshape(5, 7)), ValueError,
     "operand o: an output, and its elements are not aligned"),
    ("a word", lambda k, o: k(X, Y, output=o), TypeError, "output is not an operand"),
    ("a size", lambda k, o: k(X, Y, Q=3, out=o), TypeError, "Q is not an operand or size"),
    ("a wrong size", lambda k, o: k(X, Y, M=3, out=o), ValueError, r"operand x: axis 0: expected 3 \(M\), found 5"),
]


@pytest.mark.parametrize("name, call, error, said", CALLS, ids=[c[0] for c in CALLS])
def test_refused(name, call, error, said):
    out = numpy.full((5, 7), 99, "f4")
    with pytest.raises(error, match=said):
        call(scale(), out)
    assert (out == 99).all() and not READ_ONLY.any()
    numpy.testing.assert_array_equal(scale()(X, Y), 2 * X + Y)


def test_statics_that_disagree():
    k = made("kernel both(x: T[N, D], y: T[D]) -> (o: T[N, D]) { static T: dtype = f32, D = 4; o[...] = x[...] + y[...]; }")
    with pytest.raises(TypeError, match=r"operand y: expected f32 \(T, as of x\), found f16"):
        k(X, Y.astype("f2"))
    with pytest.raises(ValueError, match=r"operand y: axis 0: expected 7 \(D, as of x\), found 6"):
        k(X, Y[:6])
    with pytest.raises(TypeError, match="operand x: expected a dtype of pkc, found complex64"):
        k(X.astype("c8"), Y)


def test_requirement_and_assert():
    k = made('kernel even(x: f32[N]) -> (o: f32[N]) { require N % 2 == 0 : "N is even"; o[...] = x[...]; }')
    with pytest.raises(ValueError, match="even: N is even"):
        k(Y)
    k = made('kernel low(x: i32[1]) -> (o: i32[1]) { block x: smem; assert(x[0] < 3, "x is below 3"); o[...] = 0; }')
    with pytest.raises(RuntimeError, match="x is below 3"):
        k(numpy.array([5], "i4"))


def test_compile_error():
    with pytest.raises(pkc.CompileError) as caught:
        pkc.kernel("kernel a(x: f32[N]) -> (o: f32[N]) {\n  o[...] = y[...];\n}")
    assert "<kernel>:2:12: error:" in str(caught.value) and "\n      |            ^" in str(caught.value)
    found, = caught.value.diagnostics
    assert (found["file"], found["line"], found["column"], found["code"]) == ("<kernel>", 2, 12, "E0201")


def test_compile_error_of_a_file(tmp_path):
    path = tmp_path / "bad.pk"
    path.write_text("kernel a(\n")
    with pytest.raises(pkc.CompileError, match="bad.pk:1:") as caught:
        pkc.load(path)
    assert str(caught.value).startswith(str(path))
    with pytest.raises(FileNotFoundError):
        pkc.load(tmp_path / "none.pk")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(pkc.CompileError):
        pkc.load(path)
    with pytest.raises(pkc.CompileError, match="more than 64 MiB"):
        pkc.load("/dev/zero")


def test_names_of_kernels():
    with pytest.raises(pkc.CompileError, match="scale"):
        pkc.kernel(SCALE + TWO)
    assert pkc.kernel(SCALE + TWO, "two").__name__ == "two"
    with pytest.raises(pkc.CompileError, match="WIDTH"):
        pkc.kernel(SCALE, WIDTH=3)
    with pytest.raises(ValueError, match="target: expected one of"):
        pkc.kernel(SCALE, target="cray")
    with pytest.raises(TypeError, match="expected the text of a kernel, found int"):
        pkc.kernel(3)
    with pytest.raises(TypeError, match="expected the name of a kernel, found int"):
        pkc.kernel(SCALE, 3)
    with pytest.raises(ValueError, match="target: expected one of"):
        pkc.kernel(SCALE, target=["zen4"])
    with pytest.raises(pkc.CompileError, match="surrogates"):
        pkc.kernel(SCALE + "// \ud800")


def test_several_outputs_are_refused_before_any_is_written():
    k, x, n = made(TWO), numpy.arange(8, dtype="f4").reshape(2, 4), numpy.arange(2, dtype="i4")
    a = numpy.full((2, 4), 99, "f4")
    for b, error, said in ((numpy.zeros(4, "i4"), ValueError, r"operand b: axis 0: expected 3 \(N \+ 1\), found 4"),
                           (numpy.zeros(3, "c8"), TypeError, "operand b: expected a dtype of pkc, found complex64"),
                           (numpy.broadcast_to(numpy.int32(0), 3), ValueError, "operand b: an output, and the array is read-only"),
                           (a.ravel()[:3].view("i4"), ValueError, "operand b overlaps operand a")):
        with pytest.raises(error, match=said):
            k(x, n, out=(a, b))
        assert (a == 99).all()
    with pytest.raises(TypeError, match="two: out: expected 2 arrays, found 1"):
        k(x, n, out=a)


def test_a_program_and_a_mesh_are_refused_alike():
    five, x = made(PROGRAM), X.copy()
    gather = pkc.load(LIBRARY / "collectives/all_gather.pk", D=2)
    for k in (five, gather):
        for call, error, said in ((lambda: k(x[0]), ValueError, "operand x: expected 2 axes, found 1"),
                                  (lambda: k(x[:4], out=x[:4]), ValueError, "operand o overlaps operand x"),
                                  (lambda: k(), TypeError, "operand x is missing")):
            with pytest.raises(error, match=said):
                call()
    with pytest.raises(TypeError, match="operand x: expected f32, found f64"):
        five(x.astype("f8"))
    with pytest.raises(ValueError, match="all_gather: axis 0 of `x`"):
        gather(x)  # 5 rows, 2 devices
    numpy.testing.assert_array_equal(x, X)


def test_no_compiler(cache, monkeypatch):
    monkeypatch.setenv("CC", "/nowhere/cc -g")
    with pytest.raises(pkc.BuildError, match="no C compiler.*/nowhere/cc.*apt-get install gcc"):
        pkc.kernel(SCALE)(X, Y)
    monkeypatch.setenv("CC", "false")
    with pytest.raises(pkc.BuildError, match="does not work.*install one"):
        pkc.kernel(SCALE)(X, Y)
    monkeypatch.setenv("CC", "true")
    with pytest.raises(pkc.BuildError, match="true ended well and wrote no kernel.so"):
        pkc.kernel(SCALE)(X, Y)
    for name in ("CC", "PKC_CFLAGS"):
        monkeypatch.setenv("CC", "cc")
        monkeypatch.setenv(name, "'cc")
        with pytest.raises(pkc.BuildError, match=r"\$%s \('cc\): No closing quotation" % name):
            pkc.kernel(SCALE)(X, Y)
        monkeypatch.delenv(name)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(pkc.BuildError, match="cc, gcc or clang was not found"):
        pkc.kernel(SCALE)(X, Y)


def test_compiler_of_ziglang(cache, monkeypatch):
    """The package ziglang is a compiler where the system has none, and only there."""
    pytest.importorskip("ziglang")
    monkeypatch.delenv("CC", raising=False)
    assert _compiler.compiler()[1:2] != [_compiler.ZIG]
    monkeypatch.setenv("PATH", "/nowhere")
    assert _compiler.compiler()[1:] == [_compiler.ZIG]
    numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)


def test_compiler_that_fails(cache, monkeypatch):
    monkeypatch.setenv("PKC_CFLAGS", "-DPK_ABI=9999 -Werror")
    with pytest.raises(pkc.BuildError, match="the C compiler failed"):
        pkc.kernel(SCALE)(X, Y)
    monkeypatch.delenv("PKC_CFLAGS")
    numpy.testing.assert_array_equal(pkc.kernel(SCALE)(X, Y), 2 * X + Y)


def test_versions_of_jax():
    """Older ones are refused; newer ones are tried, with a warning."""
    import types
    import warnings

    from pkc import _versions

    def require(part, version):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            _versions.require(part, types.SimpleNamespace(__version__=version))
        return [str(warning.message) for warning in found]
    newest = _versions.TABLE[-1].tested
    for version in ("0.5.3", "0.9.0.1", "0.10.7", "0.11.1.dev2", newest):
        assert not require("pkc.jax", version)
    for part, version in (("pkc.jax", "0.5.2"), ("pkc.jax", "0.4.38"), ("pkc.pallas", "0.7.2"), ("pkc.pallas", "0.5.3")):
        with pytest.raises(ImportError, match="%s: JAX %s is too old: tested are .*, .* and %s" % (part, version, newest)):
            require(part, version)
    for version in ("0.99.0", "1.0", "2.0.0.dev20300101"):
        warning, = require("pkc.pallas", version)
        assert "pkc.pallas: JAX %s is newer than what was tested, 0.8.3, " % version in warning and newest in warning
        assert _versions.row(version) is _versions.TABLE[-1]


def test_later_errors_name_the_tested_versions():
    from types import SimpleNamespace

    from pkc import _versions
    for version, noted in ((_versions.TABLE[-1].tested, False), ("0.99.0", True)):
        with pytest.raises(AttributeError) as caught, _versions.noted("pkc.pallas", SimpleNamespace(__version__=version)):
            raise AttributeError("no such name")
        notes = "".join(getattr(caught.value, "__notes__", ()))
        if hasattr(caught.value, "add_note"):  # newer versions of JAX take no older Python
            assert ("pkc.pallas was tested with JAX 0.8.3, " in notes and "; this is JAX 0.99.0." in notes) == noted


NEWER = """
import warnings
import jax
jax.__version__ = "0.13.0"
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import pkc.pallas
    pkc.pallas.install()
print(*[one.message for one in found if "pkc" in str(one.message)], sep="\\n")
from jax.experimental import pallas as pl
import numpy

def call(function, x):
    def kernel(x_ref, o_ref):
        o_ref[...] = function(x_ref[...])
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
x = numpy.arange(24, dtype="f4").reshape(2, 12)
numpy.testing.assert_array_equal(call(lambda x: 2 * x + 1, x), 2 * x + 1)
print("right")
from pkc import _versions
_versions.TABLE[-1].compiler_params = lambda given: given.no_longer_so  # as after a change in JAX
for function in (jax.lax.lgamma, lambda x: x + 2):
    try:
        call(function, x)
    except Exception as error:
        print(type(error).__name__, error.__notes__[0])
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have no notes")
def test_trial_of_a_newer_version_of_jax():
    """A version after all that are known: one warning, calls that work, and in errors the versions that were tested."""
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    from pkc import _versions
    if _versions.of(jax) is not _versions.TABLE[-1]:
        pytest.skip("an older JAX cannot stand for a newer one")
    done = subprocess.run([sys.executable, "-c", NEWER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    warning, right, *errors = done.stdout.splitlines()
    assert warning.startswith("pkc.pallas: JAX 0.13.0 is newer than what was tested, 0.8.3, ") and warning.endswith(": it is tried")
    assert right == "right" and len(errors) == 2
    for error in errors:
        assert re.fullmatch(r"AttributeError pkc\.pallas was tested with JAX 0\.8\.3, .* and %s; this is JAX 0\.13\.0\." % re.escape(_versions.TABLE[-1].tested), error), error
