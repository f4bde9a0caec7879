"""No gradient of the library is without a test: against finite differences in binary64, and against torch's autograd.

A test names what it loads. Those of test_gradients.py that call `check` compare with finite differences, those of test_autograd.py that call
`compare` with torch."""
import ast
import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "kernels"
OTHER_NAMES = {"rope", "rope_heads", "dropout", "linear_transposed", "linear_weights"}  # gradients that are kernels of more than that


def gradients():
    """(file, kernel) of the programs and kernels that are gradients, without the parts that programs are made of."""
    for path in sorted(KERNELS.rglob("*.pk")):
        text = re.sub(r"//.*", "", path.read_text())
        programs = dict(re.findall(r"^program (\w+)(.*?)^}", text, re.M | re.S))
        parts = {name for body in programs.values() for name in re.findall(r"(\w+)\(", body)}
        for name in [*programs, *(k for k in re.findall(r"^kernel (\w+)", text, re.M) if k not in parts)]:
            if name.endswith("_backward") or name in OTHER_NAMES:
                yield str(path.relative_to(KERNELS))[:-3], name


def texts_of(file, by):
    """The texts of each test that calls `by`, and those that two of them make together."""
    for function in ast.parse((HERE / file).read_text()).body:
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("test_"):
            continue
        if not any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == by for n in ast.walk(function)):
            continue
        texts = {n.value for n in ast.walk(function) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        sums = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add) for n in ast.walk(function))
        yield texts | ({a + b for a in texts for b in texts} if sums else set())


FOUND = list(gradients())


def test_gradients_are_found():
    assert len(FOUND) > 25 and {name for _, name in FOUND} >= OTHER_NAMES, FOUND


@pytest.mark.parametrize("tests, by", [("test_gradients.py", "check"), ("test_autograd.py", "compare")])
def test_each_has_a_test(tests, by):
    texts = list(texts_of(tests, by))
    files = {file for file, name in FOUND}
    def named(file, name):
        short = file.removeprefix("train/")
        # A kernel of the file's own name needs no other.
        return any((file in t or short in t) and (name in t or name == short) for t in texts)
    assert files and [f"{file}: {name}" for file, name in FOUND if not named(file, name)] == []
