"""A plugin of pytest: prepares the process for a project ($WILD_PROJECT), and writes a row for each test to $WILD_ROWS."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import projects  # noqa: E402

_project = projects.by_name(os.environ["WILD_PROJECT"])
_mode, _folder = os.environ["WILD_MODE"], os.environ["WILD_FOLDER"]
_rows = open(os.environ["WILD_ROWS"], "a", buffering=1, encoding="utf-8")
GOLDEN = (5**0.5 - 1) / 2  # its multiples modulo 1 are spread evenly


def _interpret(how):
    """Every call is interpreted by JAX: by XLA's loop over the grid, or by the interpreter that acts out a TPU."""
    from jax._src import config
    from jax.experimental.pallas import tpu as pltpu
    config.pallas_tpu_interpret_mode_context_manager.set_global(True if how == "interpret" else pltpu.InterpretParams())


def pytest_configure(config):
    _project.prepare(_folder, _mode)
    if _mode == "pkc":
        import pkc.pallas
        pkc.pallas.install(interpreted=True)
    else:
        _interpret(_mode)


def pytest_collection_modifyitems(config, items):
    _project.collected(items)
    most, groups, kept = int(os.environ.get("WILD_SAMPLE", "0")), {}, set()
    for item in items:  # numbered tests of absl are one function
        groups.setdefault((item.cls, re.sub(r"\d+( \(.*)?$", "", item.name.split("[")[0])), []).append(item)
    for group in groups.values():
        order = sorted(range(len(group)), key=lambda k: k * GOLDEN % 1)
        kept |= {id(group[k]) for k in order[:most or len(group)]}
    left = [item for item in items if id(item) not in kept]
    items[:] = [item for item in items if id(item) in kept]
    config.hook.pytest_deselected(items=left)
    _rows.write(json.dumps({"tests": len(items), "left": len(left)}) + "\n")


def cause(text):
    """A failure in a line: what was refused, or the first line of the exception."""
    said = re.findall(r"^E +(.*)$", text, re.M) or text.strip().splitlines()[-1:] or [""]
    refused = next((re.sub(r".*pkc\.pallas: ", "", line) for line in said if "pkc.pallas: " in line), None)
    if refused is not None:
        return "refused", refused
    first = next((line for line in said if re.match(r"[\w.]*(Error|Exception|Warning|Failed)\b", line)), said[0])
    kind = "wrong" if re.match(r"AssertionError|Failed", first) and "Mismatched" in text or "Not equal to tolerance" in text else "failed"
    return kind, re.sub(r"\s+", " ", first)


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    row = {"test": report.nodeid.split("::", 1)[-1], "outcome": report.outcome, "seconds": round(report.duration, 2)}
    if hasattr(report, "wasxfail"):
        row["marked"] = True  # as failing, by the project
        row["outcome"] = "failed" if report.outcome == "skipped" else report.outcome
    if report.outcome == "failed":
        row["outcome"], row["why"] = cause(str(report.longrepr))
        if "[XPASS(strict)]" in str(report.longrepr):
            row.update(outcome="passed", marked=True)
    elif report.outcome == "skipped" and "marked" not in row:
        row["why"] = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)[:200]
    _rows.write(json.dumps(row) + "\n")
