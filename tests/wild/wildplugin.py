"""A plugin of pytest: it prepares the process for a project ($WILD_PROJECT), and writes rows for the beginning and the result of each test to
$WILD_ROWS. Tests that already have a row are not run again. Each test has $WILD_EACH seconds.
"""
import inspect
import json
import math
import os
import re
import signal
import sys
import threading

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import projects  # noqa: E402

_project = projects.by_name(os.environ["WILD_PROJECT"])
_mode, _folder = os.environ["WILD_MODE"], os.environ["WILD_FOLDER"]
_rows = open(os.environ["WILD_ROWS"], "a", buffering=1, encoding="utf-8")
_each, _only = float(os.environ["WILD_EACH"]), set(json.loads(os.environ.get("WILD_ONLY", "[]")))  # the tests to run; empty: all
GRACE, LATE = 20, 75  # seconds after which a process whose test does not return to Python is ended, and its exit status
GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are spread evenly


def _interpret(how):
    """Makes JAX interpret every call: by a loop of XLA over the grid, or by the interpreter that simulates a TPU."""
    from jax._src import config
    from jax.experimental.pallas import tpu as pltpu
    config.pallas_tpu_interpret_mode_context_manager.set_global(True if how == "interpret" else pltpu.InterpretParams())


def _leave_none_to_jax():
    """Makes a call that pkc leaves to JAX's interpreter an error, because it would not test pkc."""
    from pkc.pallas import lowering

    def theirs(*_, **words):
        raise RuntimeError("the call asks for JAX's interpreter: interpret = %r" % (words.get("interpret"),))
    lowering._theirs = theirs


def pytest_configure(config):
    _project.prepare(_folder, _mode)
    if _mode == "pkc":
        import pkc.pallas
        pkc.pallas.install(interpreted=True)
        _leave_none_to_jax()
    else:
        _interpret(_mode)


def _name(nodeid):
    return nodeid.split("::", 1)[-1]


def _rows_before():
    """The tests that began in an earlier process."""
    with open(os.environ["WILD_ROWS"], encoding="utf-8") as rows:
        return {row["began"] for row in map(json.loads, rows) if "began" in row}


def _function(item):
    """The function of a test with parameters. absl makes a separate function for each combination."""
    code = inspect.unwrap(item.function).__code__
    return code.co_filename, code.co_firstlineno


def pytest_collection_modifyitems(config, items):
    _project.collected(items)
    items[:] = [item for item in items if not _only or _name(item.nodeid) in _only]
    most, groups, kept = int(os.environ.get("WILD_SAMPLE", "0")), {}, set()
    for item in items:
        groups.setdefault((item.cls, _function(item)), []).append(item)
    for group in groups.values():
        order = sorted(range(len(group)), key=lambda k: k * GOLDEN % 1)
        kept |= {id(group[k]) for k in order[:most or len(group)]}
    _rows.write(json.dumps({"tests": len(kept), "left": len(items) - len(kept)}) + "\n")
    began = _rows_before()
    left = [item for item in items if id(item) not in kept or _name(item.nodeid) in began]
    items[:] = [item for item in items if id(item) in kept and _name(item.nodeid) not in began]
    config.hook.pytest_deselected(items=left)


_late = False


def _over(*_):
    global _late
    _late = True
    raise TimeoutError("the test took more than %g s" % _each)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    global _late
    _late = False
    _rows.write(json.dumps({"began": _name(item.nodeid)}) + "\n")
    signal.signal(signal.SIGALRM, _over)
    signal.setitimer(signal.ITIMER_REAL, _each)
    last = threading.Timer(_each + GRACE, os._exit, (LATE,))
    last.daemon = True
    last.start()
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        last.cancel()


def cause(text):
    """A failure as a line: the refusal, or the first line of the exception."""
    said = re.findall(r"^E +(.*)$", text, re.M) or text.strip().splitlines()[-1:] or [""]
    refused = next((re.sub(r".*pkc\.pallas: ", "", line) for line in said if "pkc.pallas: " in line), None)
    if refused is not None:
        return "refused", refused
    first = next((line for line in said if re.match(r"[\w.]*(Error|Exception|Warning|Failed)\b", line)), said[0])
    if re.match(r"AssertionError|Failed", first) and "Mismatched" in text or "Not equal to tolerance" in text:
        return "wrong", difference(text)
    if re.search(r"'(HloModule|module @)", first):
        return "failed", "the text of the program is not as expected"
    return "failed", re.sub(r"\s+", " ", first)


def difference(text):
    """The difference of a wrong result in NumPy's words, without digits, so that tests with the same cause are counted together."""
    most = re.search(r"Max absolute difference[^:]*: *([\d.e+-]+)", text)
    return "a result differs by up to 1e%+d" % math.ceil(math.log10(float(most[1]))) if most and float(most[1]) > 0 else "a result differs"


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    row = {"test": _name(report.nodeid), "outcome": report.outcome, "seconds": round(report.duration, 2), "pkc": os.environ["WILD_PKC"]}
    if hasattr(report, "wasxfail"):
        row["marked"] = True  # marked as failing by the project
        row["outcome"] = "expected" if report.outcome == "skipped" else report.outcome
    if report.outcome == "failed":
        row["outcome"], row["why"] = ("late", "") if _late else cause(str(report.longrepr))
        if re.search(r"\[XPASS\(strict\)\]|^Unexpected success$", str(report.longrepr), re.M):
            row.pop("why", None)
            row.update(outcome="passed", marked=True)
    elif report.outcome == "skipped" and "marked" not in row:
        row["why"] = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)[:200]
    _rows.write(json.dumps(row) + "\n")
