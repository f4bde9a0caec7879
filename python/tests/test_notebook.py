"""`%%pk`: kernels of a notebook's cell."""
import numpy
import pytest
from kernels import SCALE, TWO, pair

import pkc
from pkc import _notebook

X, Y = pair()


def test_names():
    text = 'fn f(a) = a; // kernel no(\n/* kernel not( */ kernel one(x: f32[N]) {} program two() { print("kernel three("); }\nreference one {}'
    assert _notebook.names(text) == ["one", "two"]


def test_cell(cache):
    (name, scale), = _notebook.cell(SCALE).items()
    assert name == "scale"
    numpy.testing.assert_array_equal(scale(X, Y), 2 * X + Y)
    assert list(_notebook.cell(SCALE + TWO)) == ["scale", "two"]
    for line in ("BM", "=3", "BM="):
        with pytest.raises(ValueError, match="expected NAME=VALUE"):
            _notebook.cell(SCALE, line)
    with pytest.raises(pkc.CompileError, match="the cell has no kernel"):
        _notebook.cell("// nothing")


def test_magic(cache, capsys):
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "pkc")
        shell.run_cell_magic("pk", "", SCALE)
        numpy.testing.assert_array_equal(shell.user_ns["scale"](X, Y), 2 * X + Y)
        capsys.readouterr()
        shell.user_ns.pop("scale")
        shell.run_cell_magic("pk", "", SCALE.replace("{", "{ let z = unknown_name;", 1))
        assert "<cell>:" in capsys.readouterr().err and "scale" not in shell.user_ns
        shell.run_cell_magic("pk", "NO=1", SCALE)
        assert "NO" in capsys.readouterr().err
    finally:
        shells.InteractiveShell.clear_instance()


def test_colours():
    pygments = pytest.importorskip("pygments")
    from pygments import lexers, token
    for lexer in (lexers.get_lexer_by_name("pk"), lexers.get_lexer_for_filename("softmax.pk")):
        found = list(pygments.lex(SCALE, lexer))
        assert (token.Keyword.Declaration, "kernel") in found and (token.Keyword.Type, "f32") in found
        assert "".join(text for _, text in found).strip() == SCALE.strip()
    display = pytest.importorskip("IPython.display")
    assert '<span class="kd">kernel</span>' in display.Code(SCALE, language="pk")._repr_html_()
