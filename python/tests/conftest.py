"""Each run starts with an empty cache, and ends with the lines that tests/check.sh reads."""
import os
import tempfile

import pytest

os.environ.pop("CC", None)
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="pkc-python-")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder of the test's own, and nothing remembered in the process."""
    from pkc import _build
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_build, "_loaded", {})
    return tmp_path / "pkc"


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
        terminalreporter.write_line("FAIL %s; reproduce: make python-check" % report.nodeid)
    terminalreporter.write_line("%d passed, %d failed" % (len(stats.get("passed", [])), len(failed)))


def pytest_sessionfinish():
    import shutil
    shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)
