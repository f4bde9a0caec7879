"""Block sizes that `pkc tune` found."""
import subprocess

import numpy
import pytest

import pkc

SCALE = """
kernel scale(x: f32[M, N], y: f32[N]) -> (o: f32[M, N]) {
  static BM = 32;
  grid (i in cdiv(M, BM) parallel);
  block x: [BM, N] at (i, 0);
  block o: [BM, N] at (i, 0);
  o[...] = x[...] * 2 + y[...];
}

reference scale { o = x * 2 + y; }
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "scale.pk"
    path.write_text(SCALE, encoding="utf-8")
    return path


def statics(kernel):
    return {s["name"]: s["value"] for s in kernel.signature["statics"]}


def test_no_file(path):
    assert statics(pkc.load(path, tuned={"M": 64, "N": 256})) == statics(pkc.load(path))


def test_found(path):
    usual = statics(pkc.load(path))
    block = next(iter(usual))
    subprocess.run([pkc.PROGRAM, "tune", path, "M=64", "N=256", "--over", f"{block}=16", "--min-time", "0.001"], check=True)
    tuning = path.with_name("scale.pk.tuning")
    head, line = tuning.read_text(encoding="utf-8").splitlines()
    tuning.write_text(f"{head}\n{line.split(' blocks=')[0]} blocks={block}:16 times=1.5\n", encoding="utf-8")
    tuned = pkc.load(path, tuned={"M": 60, "N": 256})
    assert statics(tuned) == {**usual, block: "16"}
    assert statics(pkc.load(path, tuned={"M": 6, "N": 256})) == usual
    assert statics(pkc.load(path, tuned={"M": 60, "N": 256}, **{block: 8})) == {**usual, block: "8"}
    x, y = numpy.random.rand(60, 256).astype("f4"), numpy.random.rand(256).astype("f4")
    assert numpy.array_equal(tuned(x, y), pkc.load(path)(x, y))
    tuning.write_text(f"{head}\ndamaged\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="is not a line of tuning"):
        assert statics(pkc.load(path, tuned={"M": 60, "N": 256})) == usual


def test_sizes_are_missing(path):
    path.with_name("scale.pk.tuning").write_text("# pkc tuning 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="sizes that must be given: N"):
        pkc.load(path, tuned={"M": 60})
