"""`%%pk`: kernels of a notebook's cell; what a notebook shows of reports, and while it waits."""
import re
import shutil
import subprocess

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


def executed(*cells):
    """The outputs of a notebook's cells, and all messages that its kernel sent."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    seen = []

    class Client(nbclient.NotebookClient):
        def process_message(self, message, cell, cell_index):
            seen.append((message["msg_type"], message["content"]))
            return super().process_message(message, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    Client(notebook, timeout=300, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells], seen


def test_notebook(cache):
    (_, _, (*_, value), (*_, report)), _ = executed("%load_ext pkc\nimport numpy", "%%pk\n" + SCALE, "scale(numpy.ones((9, 5), numpy.float32), numpy.ones(5, numpy.float32)).sum()", "scale.tpu(M=1024, N=1024)")
    assert re.search(r"\b135\.0", value.data["text/plain"])  # 9 * 5 * 3
    assert report.data["text/html"].startswith("<iframe srcdoc=") and "</html>" in report.data["text/html"].replace("&gt;", ">").replace("&lt;", "<")


SLOW = "import sys\nfrom pkc._tool import run_program\nrun_program([sys.executable, '-c', 'import time; time.sleep(3.5); print(7)']).stdout"


def test_progress(cache):
    ((line, value),), seen = executed(SLOW)
    shown = [content["data"]["text/plain"] for kind, content in seen if kind in ("display_data", "update_display_data")]
    assert len(shown) >= 3 and all(re.fullmatch(r"the C compiler: \d+ s", text) for text in shown[:-1]) and shown[-1] == ""
    assert line.data["text/plain"] == "" and value.data["text/plain"] == r"b'7\n'"
    (quick,), seen = executed(SLOW.replace("3.5", "0"))
    assert len(quick) == 1 and not any(kind == "display_data" for kind, _ in seen)


def test_frame(cache, tmp_path):
    """The frame of the TPU report is as high as the report."""
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("chromium is not installed")
    shown = _notebook.cell(SCALE)["scale"].tpu(M=1024, N=1024)._repr_html_()
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><html><body>%s</body></html>" % shown, encoding="utf-8")
    dump = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=%s" % tmp_path, "--virtual-time-budget=5000", "--dump-dom", page.as_uri()]
    done = subprocess.run(dump, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300, universal_newlines=True)
    height = re.search(r"<iframe [^>]*style=\"[^\"]*height: ([0-9.]+)px", done.stdout, re.S)
    assert height and float(height[1]) > 800, done.stdout[-300:]


def test_colours():
    pygments = pytest.importorskip("pygments")
    from pygments import lexers, token
    for lexer in (lexers.get_lexer_by_name("pk"), lexers.get_lexer_for_filename("softmax.pk")):
        found = list(pygments.lex(SCALE, lexer))
        assert (token.Keyword.Declaration, "kernel") in found and (token.Keyword.Type, "f32") in found
        assert "".join(text for _, text in found).strip() == SCALE.strip()
    display = pytest.importorskip("IPython.display")
    assert '<span class="kd">kernel</span>' in display.Code(SCALE, language="pk")._repr_html_()
