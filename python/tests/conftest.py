"""Each run starts with an empty cache, and ends with the lines that tests/check.sh reads."""
import os
import tempfile

import pytest

os.environ.pop("CC", None)
os.environ["CCACHE_DISABLE"] = "1"  # it keeps files where pkc does
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="pkc-python-")
# Devices of JAX for kernels that talk to each other. They take 8 of them: JAX's interpreter hangs where all of XLA's threads run it.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=16")
if os.environ.get("PKC_TESTS") in ("sample", "few"):
    os.environ.setdefault("PKC_CFLAGS", "-O1")  # a whole run compiles as a user does
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # what JAX computes here is what is wanted, not what is found


GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are spread evenly
SHIPPED = 6  # of the kernels that JAX ships: each compiles for seconds
FEW = 40  # tests with an old JAX


def sampled(items, most):
    """That many items, in their order."""
    chosen = sorted(range(len(items)), key=lambda k: k * GOLDEN % 1)[:most]
    return [items[k] for k in sorted(chosen)]


def pytest_configure(config):
    config.addinivalue_line("markers", "each_jax: runs with the oldest JAX too")


def pytest_collection_modifyitems(config, items):
    """With $PKC_TESTS=sample: two sets of parameters of each test, and some of JAX's kernels; few: some tests, and those that are marked
    each_jax. Tests that are named run whole."""
    wanted = os.environ.get("PKC_TESTS")
    if wanted not in ("sample", "few") or any("::" in word for word in config.args):
        return
    functions = {}
    for item in items:
        functions.setdefault((item.path.name, item.originalname), []).append(item)
    shipped = [name for name in functions if name[0] == "test_pallas_shipped.py"]
    left = set(shipped) - set(sampled(shipped, SHIPPED))
    kept = {id(item) for name, group in functions.items() if name not in left for item in sampled(group, 2)}
    if wanted == "few":
        always = {id(item) for item in items if item.get_closest_marker("each_jax")}
        kept = always | {id(item) for item in sampled([item for item in items if id(item) in kept], FEW)}
    out = [item for item in items if id(item) not in kept]
    if out:
        print("\nleft out: %d of %d tests" % (len(out), len(items)))
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if id(item) in kept]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder of the test's own, and nothing remembered in the process."""
    from pkc import _build
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_build, "_loaded", {})
    return tmp_path / "pkc"


@pytest.fixture
def on_four_devices():
    """Runs a program in a process whose XLA has four devices; the program prints how many it saw, last."""
    import subprocess
    import sys

    jax = pytest.importorskip("jax")
    if not hasattr(jax, "shard_map"):
        pytest.skip("this JAX has no jax.shard_map")

    def run(text):
        done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              cwd=os.path.dirname(__file__), env=dict(os.environ, XLA_FLAGS="--xla_force_host_platform_device_count=4"))
        assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr

    return run


def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    skipped = {}
    for report in stats.get("skipped", []):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped.setdefault(why, []).append(report.nodeid)
    for why, names in skipped.items():
        terminalreporter.write_line("SKIPPED python (%d tests): %s" % (len(names), why))
    failed = stats.get("failed", []) + stats.get("error", [])
    for report in failed:
        terminalreporter.write_line("FAIL %s; reproduce: tests/python.sh 'python/%s'" % (report.nodeid, report.nodeid))
    terminalreporter.write_line("%d passed, %d failed" % (len(stats.get("passed", [])), len(failed)))


def pytest_sessionfinish():
    import shutil
    shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)
