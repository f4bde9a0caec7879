#!/usr/bin/env python3
"""Published projects with Pallas kernels on a CPU: how many of their own tests pass, file by file, and what JAX's interpreters do with the same.

    tests/wild.py --sources FOLDER [--python PROGRAM] [PROJECT | PROJECT:FILE ..]    runs them, and renews docs/wild.md
    tests/wild.py --write                                                            the page again, of docs/wild.json
    tests/wild.py                                                                    as a test: is the page that of the file?

FOLDER has a checkout of each project under its own name (`git clone https://github.com/vllm-project/tpu-inference`), of JAX one for each
series (jax-0.11); a folder without .git has its commit in NAME.commit beside it. PROGRAM is a Python with pytest, JAX, pkc and what the project's tests import.
Nothing in the projects is edited: tests/wild/projects.py says what their tests are told of the machine.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from suite import ROOT, check, finish

sys.path.insert(0, str(ROOT / "tests" / "wild"))
import projects  # noqa: E402
from wildpage import KINDS, MODES, WORST, counts, page  # noqa: E402

DATA, PAGE = ROOT / "docs" / "wild.json", ROOT / "docs" / "wild.md"
FASTER = ("PKC_CFLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")
LATE = 75  # the status of a process that the plugin ended: its test took too long


# ---- running

def said(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit_of(folder):
    beside = pathlib.Path(folder + ".commit")
    return said("git", "-C", folder, "rev-parse", "HEAD") if os.path.isdir(os.path.join(folder, ".git")) else \
        beside.read_text().strip() if beside.exists() else "unknown"


def run_file(project, folder, file, mode, options):
    """Counts and causes of a file's tests."""
    rows, last = run_tests(project, folder, file, mode, options)
    wrong = sorted({row["test"] for row in rows if row.get("outcome") == "wrong"})
    if wrong and mode == "pkc" and options.compare:
        other = run_tests(project, folder, file, options.compare, options, wrong)[0]
        add_compared(rows, {row["test"]: row["outcome"] for row in worst(row for row in other if "test" in row)}, MODES[options.compare])
    return counted(rows, last)


def add_compared(rows, outcomes, name):
    """Says of each wrong result what another mode makes of the same test."""
    words = {"passed": "not with " + name, "wrong": "with %s too" % name}
    for row in rows:
        if row.get("outcome") == "wrong" and row["test"] in outcomes:
            row["why"] = "%s; %s" % (row.get("why", ""), words.get(outcomes[row["test"]], "%s does not run it" % name))


def run_tests(project, folder, file, mode, options, only=()):
    """Rows of a file's tests, or only of those named, and the last line that they said."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = os.path.join(scratch, "rows")
        open(rows, "w").close()
        environment = {**os.environ, **project.variables, "WILD_PROJECT": project.name, "WILD_MODE": mode, "WILD_FOLDER": folder, "WILD_FILE": file,
                       "WILD_ROWS": rows, "WILD_ONLY": json.dumps(list(only)), "WILD_SAMPLE": str(options.sample), "WILD_EACH": str(options.each), "JAX_PLATFORMS": "cpu",
                       "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "wild"), os.environ.get("PYTHONPATH", "")])}
        words = [options.python, "-m", "pytest", "-q", "-p", "wildplugin", "-p", "no:cacheprovider", "--import-mode=importlib", "--tb=short", "--capture=no", "--rootdir", folder,
                 os.path.join(folder, file)]
        said_last, end = os.path.join(scratch, "said"), time.monotonic() + options.limit
        while run_once(words, environment, scratch, said_last, rows, end):
            pass
        if options.keep:
            kept = pathlib.Path(options.keep, "-".join([project.key(options.jax), mode, *(["of-wrong"] if only else []), *pathlib.Path(file).parts]))
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(rows, str(kept) + ".rows")
            shutil.copy(said_last, str(kept) + ".said")
        last = open(said_last, encoding="utf-8", errors="replace").read().strip().splitlines()[-1:]
        return read_rows(rows), last


def read_rows(rows):
    with open(rows, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def run_once(words, environment, scratch, output, rows, end):
    """Runs the tests that have not been run; true: a test ended the process, which has its row now, and others may be left."""
    with open(output, "w", encoding="utf-8") as said_to:
        try:
            status = subprocess.run(words, env=environment, cwd=scratch, stdout=said_to, stderr=subprocess.STDOUT, timeout=max(1, end - time.monotonic())).returncode
        except subprocess.TimeoutExpired:
            return False
    found = read_rows(rows)
    over = {row["test"] for row in found if "test" in row}
    ended = [row["began"] for row in found if "began" in row and row["began"] not in over]
    with open(rows, "a", encoding="utf-8") as lines:
        for test in ended:
            row = {"outcome": "late"} if status == LATE else {"outcome": "failed", "why": "the process ended with status %d" % status}
            lines.write(json.dumps({"test": test, **row}) + "\n")
    return bool(ended)


def worst(rows):
    """A row for each test: of several, as of its setup, its parts and its end, the worst."""
    found = {}
    for row in rows:
        before = found.setdefault(row["test"], row)
        if WORST.index(row["outcome"]) < WORST.index(before["outcome"]):
            found[row["test"]] = row
    return list(found.values())


def counted(rows, end):
    collected = next((row for row in rows if "tests" in row), None)
    rows = worst(row for row in rows if "test" in row)
    kinds = collections.Counter(row["outcome"] for row in rows)
    causes = collections.Counter((row["outcome"], row["why"]) for row in rows if row["outcome"] not in ("passed", "skipped") and row.get("why"))
    result = {kind: kinds[kind] for kind in KINDS if kinds[kind]}
    none = collected is None or not collected["tests"] + collected["left"]
    if none and re.match(r"\d+ skipped in ", "".join(end)):
        result["skipped"] = 1  # the file skips itself
    elif none:
        result["failed"], causes = 1, {("failed", "the file cannot be imported: " + "".join(end)): 1}
    elif collected["tests"] + collected["left"] > len(rows):
        result["left"] = collected["tests"] + collected["left"] - len(rows)
    marked = sum(row["outcome"] == "passed" and row.get("marked", False) for row in rows)
    if marked:
        result["unexpected"] = marked
    result["causes"] = [[kind, why[:160], count] for (kind, why), count in sorted(causes.items(), key=lambda item: (-item[1], item[0]))[:6]]
    return result


def how(options):
    """What made the run a quicker one, in words."""
    flags = ["`%s=%s`" % (name, os.environ[name]) for name in FASTER if name in os.environ]
    most = "at most %d tests of each function of tests" % options.sample if options.sample else "all tests"
    return ", ".join([most, "%g s for each" % options.each, *flags])


def run_project(project, folder, files, options):
    missing = said(options.python, "-c", "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])", *project.needs)
    if missing:
        print(f"{project.name}: {options.python} has no {missing}", flush=True)
        return
    stamp = {"commit": commit_of(folder), "jax": options.jax, "how": how(options),
             "pkc": said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"), "date": datetime.date.today().isoformat()}
    for file in files:
        for mode in options.modes or ("pkc", *project.interpreters):
            found = {**run_file(project, folder, file, mode, options), **stamp}
            kept = read_data()  # again: another run may have added to it
            kept.setdefault(project.key(options.jax), {"files": {}})["files"].setdefault(file, {})[mode] = found
            save(kept)
            print(f"{project.key(options.jax)} {file} {mode}: {counts(found)}", flush=True)


def chosen(words, sources, jax):
    """[(project, folder, files)] that the words name; without words all."""
    for project in projects.PROJECTS:
        folder = str(pathlib.Path(sources).resolve() / project.key(jax))
        files = project.files(folder)
        wanted = [word.split(":", 1) for word in words if word.split(":", 1)[0] == project.name]
        if words:
            files = [file for file in files if any(len(word) == 1 or word[1] in file for word in wanted)]
        if files:
            yield project, folder, files


def read_data():
    return json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}


def save(kept):
    """Replaces the files, so that another run never reads half of one."""
    for path, text in (DATA, json.dumps(kept, indent=1, sort_keys=True) + "\n"), (PAGE, page(kept)):
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", metavar="FOLDER", help="where the projects' checkouts are")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="the Python that runs the tests")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N tests of each function of tests (default: all)")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="for one file; tests that did not come count as not run")
    parser.add_argument("--each", type=float, default=60, metavar="SECONDS", help="for one test (default 60)")
    parser.add_argument("--keep", metavar="FOLDER", help="what each file's tests said is put there")
    parser.add_argument("--modes", nargs="*", choices=MODES, help="only these (default: pkc and the project's interpreters)")
    parser.add_argument("--compare", choices=list(MODES)[1:], help="run the tests that are wrong with pkc in this mode too, and say of each what came out")
    parser.add_argument("--write", action="store_true", help="write the page again")
    parser.add_argument("names", nargs="*", metavar="PROJECT[:FILE]", help="only these, by a part of the file's name")
    options = parser.parse_args()
    if options.write:
        save(read_data())
    elif options.sources:
        options.jax = said(options.python, "-c", "import jax; print(jax.__version__)") or sys.exit(f"wild: {options.python} has no JAX")
        for project, folder, files in chosen(options.names, options.sources, options.jax):
            run_project(project, folder, files, options)
    else:
        check("docs/wild.md is made of docs/wild.json (tests/wild.py --write)", PAGE.exists() and page(read_data()) == PAGE.read_text(encoding="utf-8"))
        return finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
