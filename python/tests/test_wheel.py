"""The wheel that tests/python.sh has made and installed."""
import os
import re
import subprocess
import sys
import zipfile

import pytest

WHEEL = os.environ.get("PKC_WHEEL", "")
pytestmark = pytest.mark.skipif(not WHEEL, reason="no wheel: tests/python.sh makes one")


def test_the_tag_is_what_auditwheel_finds():
    pytest.importorskip("auditwheel")
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", WHEEL], stdout=subprocess.PIPE, text=True, check=True).stdout
    tag = re.search(r'following\s+platform\s+tag:\s+"(\w+)"', shown).group(1)
    assert re.match(r"manylinux_2_\d+_\w+$", tag), shown
    assert os.path.basename(WHEEL).endswith("-cp39-abi3-%s.whl" % tag), shown


def test_a_library_that_a_machine_may_lack_is_no_part_of_it():
    with zipfile.ZipFile(WHEEL) as wheel:
        names = wheel.namelist()
    assert "pkc/_core.abi3.so" in names and "pkc/lib/libpkrt.so.0" in names
    assert not [name for name in names if "mpi.so" in name]


def test_a_library_of_the_machine_is_seen(tmp_path, capsys):
    """A wheel with a file that needs another library than that of C is for the machine that made it."""
    pytest.importorskip("hatchling")
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
    try:
        import hatch_build
    finally:
        del sys.path[0]
    source = tmp_path / "a.c"
    source.write_text("#include <stdlib.h>\nvoid *f(void) { return malloc(1); }\n")
    cc = [os.environ.get("CC", "cc"), "-shared", "-fPIC", str(source), "-L" + str(tmp_path)]
    subprocess.run([*cc, "-Wl,-soname,libown.so", "-o", str(tmp_path / "libown.so")], check=True)
    subprocess.run([*cc, "-Wl,--no-as-needed", "-lown", "-o", str(tmp_path / "user.so")], check=True)
    assert re.match(r"manylinux_2_\d+_\w+$", hatch_build.platform_tag(str(tmp_path)))
    os.remove(tmp_path / "libown.so")
    assert re.match(r"linux_\w+$", hatch_build.platform_tag(str(tmp_path)))
    assert "its files need libown.so" in capsys.readouterr().err


def pythons():
    """The Pythons of this machine."""
    script = os.path.join(os.path.dirname(__file__), "..", "..", "tests", "jax.sh")
    if not WHEEL or not os.path.exists(script):
        return []
    return subprocess.run([script, "--pythons"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()


@pytest.mark.parametrize("python", pythons())
def test_it_works_with(python, tmp_path):
    """Installed by itself, with the NumPy that pip takes for this Python."""
    subprocess.run([python, "-m", "venv", str(tmp_path / "own")], check=True)
    own = str(tmp_path / "own" / "bin" / "python")
    done = subprocess.run([own, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--retries", "1", WHEEL], stderr=subprocess.PIPE, text=True)
    if "No matching distribution" in done.stderr or "onnection" in done.stderr:
        pytest.skip("pip cannot install NumPy for %s" % python)
    assert done.returncode == 0, done.stderr
    text = "kernel f(x: f32[N]) -> (o: f32[N]) { grid (i in cdiv(N, 8)); block x, o: [8] at (i); o[...] = 2 * x[...]; }"
    code = "import sys, numpy, pkc; print(sys.version_info[:2], pkc.kernel(%r)(numpy.arange(5, dtype='f4')))" % text
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run([own, "-c", code], stdout=subprocess.PIPE, text=True, check=True, cwd=tmp_path, env=environment).stdout
    assert said.endswith("[0. 2. 4. 6. 8.]\n"), said
