"""The examples run, and the README's says what it says."""
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent.parent


def run(*words):
    done = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name, needs, said", [
    ("numpy_arrays", "numpy", "agrees with the reference"), ("torch_tensors", "torch", "torch.bfloat16 (300, 100)"),
    ("torch_compile", "torch", "largest difference of the gradients: "),
    ("torch_transformer", "torch", "100 of 100 sums are right"),
    ("pallas_training", "jax", "the network learned the spirals"),
    ("pallas_kernel", "jax", "softmax_kernel: no findings"),
    ("jax_arrays", "jax", "[ 1.  2.  5. 10. 17.]\n[0. 2. 4. 6. 8.]\n[ 0.  1.  4.  9. 16.]")])
def test_example(name, needs, said):
    if not importlib.util.find_spec(needs):
        pytest.skip("%s is not installed" % needs)
    assert said in run(str(FOLDER / "examples" / (name + ".py")))


def test_readme():
    text = (FOLDER / "README.md").read_text()
    said = run("-c", text.split("```python\n")[1].split("```")[0])
    assert said.startswith("[2. 3. 4. 5. 6. 7. 8.]\n") and "no findings" in said and "bound by" in said


@pytest.mark.each_jax
def test_readme_of_pallas():
    pytest.importorskip("jax", reason="JAX is not installed")
    text = (FOLDER / "README.md").read_text()
    said = run("-c", text.split("```python\n")[2].split("```")[0])
    assert said.startswith("[ 0.  2.  4.  6.  8. 10. 12. 14.]\n") and "o_ref[...] = 2.0 * x_ref[...]" in said
    assert "no findings" in said and "double_kernel on v6e" in said


@pytest.mark.each_jax
def test_readme_of_the_project():
    pytest.importorskip("jax", reason="JAX is not installed")
    text = (FOLDER.parent / "README.md").read_text()
    difference, report = run("-c", text.split("```python\n")[1].split("```")[0]).split("\n", 1)
    assert float(difference) < 1e-7 and report.startswith("softmax on v5e\n") and "bound by" in report


def test_notebook():
    cells = json.loads((FOLDER / "examples" / "notebook.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 3
    scope = {}
    for text in code:
        *head, last = text.rstrip().split("\n")
        exec("\n".join(head), scope)
        exec(last, scope)
