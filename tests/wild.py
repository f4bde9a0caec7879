#!/usr/bin/env python3
"""Published projects with Pallas kernels on a CPU: the number of their own tests that pass, by file, and the results of JAX's interpreters.

    tests/wild.py --sources FOLDER [--python PROGRAM] [PROJECT | PROJECT:FILE ..]    runs them, and updates docs/wild.md
    tests/wild.py --write                                                            writes the page from docs/wild.json
    tests/wild.py                                                                    tests that the page agrees with the file, and that a killed run can be resumed

FOLDER has a checkout of each project under its own name (`git clone https://github.com/vllm-project/tpu-inference`), of JAX one for each
series (jax-0.11); a folder without .git has its commit in NAME.commit beside it. PROGRAM is a Python with pytest, JAX, pkc and what the project's tests import.
The projects are not edited: tests/wild/projects.py patches what their tests learn of the machine.
"""
import argparse
import collections
import datetime
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from suite import BUILD, ROOT, check, finish

sys.path.insert(0, str(ROOT / "tests" / "wild"))
import projects  # noqa: E402
from wildpage import KINDS, MODES, WORST, counts, page  # noqa: E402

DATA, PAGE = ROOT / "docs" / "wild.json", ROOT / "docs" / "wild.md"
FASTER = ("PKC_CFLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")
LATE = 75  # the exit status of a process that the plugin ended because its test took too long


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
    return {**counted(rows, last), "how": how(options) + of_others(rows, options.pkc)}


def of_others(rows, pkc):
    """The number of tests that an earlier commit of pkc finished, in words."""
    others = collections.Counter(row["pkc"] for row in worst(row for row in rows if "test" in row) if row.get("pkc", pkc) != pkc)
    return "".join("; %d of them with pkc `%s`" % (count, commit) for commit, count in sorted(others.items()))


def add_compared(rows, outcomes, name):
    """Adds to each wrong result the outcome of the same test in another mode."""
    words = {"passed": "not with " + name, "wrong": "with %s too" % name}
    for row in rows:
        if row.get("outcome") == "wrong" and row["test"] in outcomes:
            row["why"] = "%s; %s" % (row.get("why", ""), words.get(outcomes[row["test"]], "%s does not run it" % name))


def run_tests(project, folder, file, mode, options, only=()):
    """The rows of a file's tests, or of the named ones, and the last line of their output."""
    with tempfile.TemporaryDirectory() as scratch:
        rows, said_last = places(project, file, mode, options, only, scratch)
        begin(rows, options.resume)
        environment = {**os.environ, **project.variables, "WILD_PROJECT": project.name, "WILD_MODE": mode, "WILD_FOLDER": folder, "WILD_FILE": file,
                       "WILD_ROWS": rows, "WILD_ONLY": json.dumps(list(only)), "WILD_SAMPLE": str(options.sample), "WILD_EACH": str(options.each), "WILD_PKC": options.pkc,
                       "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "wild"), os.environ.get("PYTHONPATH", "")])}
        # The project may turn warnings into errors; those of a later JAX are not part of its tests.
        words = [options.python, "-m", "pytest", "-q", "-p", "wildplugin", "-p", "no:cacheprovider", "-o", "filterwarnings=default",
                 "--import-mode=importlib", "--tb=short", "--capture=no", "--rootdir", folder, os.path.join(folder, file)]
        end = time.monotonic() + options.limit
        while run_once(words, environment, scratch, said_last, rows, end):
            pass
        last = open(said_last, encoding="utf-8", errors="replace").read().strip().splitlines()[-1:]
        return read_rows(rows), last


def places(project, file, mode, options, only, scratch):
    """The paths of the rows of a file's tests and of its output: in the folder of --keep, if there is one."""
    if not options.keep:
        return os.path.join(scratch, "rows"), os.path.join(scratch, "said")
    os.makedirs(options.keep, exist_ok=True)
    kept = os.path.join(os.path.abspath(options.keep), "-".join([project.key(options.jax), mode, *(["of-wrong"] if only else []), *pathlib.Path(file).parts]))
    return kept + ".rows", kept + ".said"


def begin(rows, resume):
    """Starts a file of rows. To resume a run, it keeps the rows of the finished tests; an unfinished test runs again."""
    found = read_rows(rows) if resume and os.path.exists(rows) else []
    over = {row["test"] for row in found if "test" in row}
    with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(rows), delete=False, encoding="utf-8") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in found if row.get("test", row.get("began")) in over)
    os.replace(lines.name, rows)


def read_rows(rows):
    """The rows of a file. A killed process may have left an incomplete last line, which is skipped."""
    with open(rows, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def run_once(words, environment, scratch, output, rows, end):
    """Runs the tests without a row. Returns true if a test ended the process; that test now has a row, and others may be left."""
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
            lines.write(json.dumps({"test": test, "pkc": environment["WILD_PKC"], **row}) + "\n")
    return bool(ended)


def worst(rows):
    """One row for each test: the worst of the rows of its setup, its parts and its teardown."""
    found = {}
    for row in rows:
        before = found.setdefault(row["test"], row)
        if WORST.index(row["outcome"]) < WORST.index(before["outcome"]):
            found[row["test"]] = row
    return list(found.values())


def counted(rows, end):
    collected = next((row for row in reversed(rows) if "tests" in row), None)
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
    result["causes"] = [[kind, why[:160], count] for (kind, why), count in sorted(causes.items(), key=lambda item: (-item[1], item[0]))[:12]]
    return result


def how(options):
    """How the run was shortened, in words."""
    flags = ["`%s=%s`" % (name, os.environ[name]) for name in FASTER if name in os.environ]
    most = "at most %d tests of each function of tests" % options.sample if options.sample else "all tests"
    return ", ".join([most, "%g s for each" % options.each, *flags])


def run_project(project, folder, files, options):
    missing = said(options.python, "-c", "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])", *project.needs)
    if missing:
        print(f"{project.name}: {options.python} has no {missing}", flush=True)
        return
    stamp = {"commit": commit_of(folder), "jax": options.jax, "pkc": options.pkc, "date": datetime.date.today().isoformat()}
    for file in files:
        for mode in options.modes or ("pkc", *project.interpreters):
            found = {**run_file(project, folder, file, mode, options), **stamp}
            kept = read_data()  # read again, because another run may have added to it
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


# ---- as a test

ENDED = """
import os, pathlib, signal

def ran(name):
    with open(pathlib.Path(__file__).parent / "ran", "a") as file:
        file.write(name + " ")

def test_first():
    ran("first")

def test_second():
    ran("second")
    if not os.path.exists(__file__ + ".over"):
        open(__file__ + ".over", "w").close()
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(1)

def test_third():
    ran("third")
    raise ValueError("as always")
"""


def check_resume():
    """A run that is killed in the second of three tests, and continues with another commit of pkc; then one that starts again."""
    programs = [sys.executable, *(str(BUILD / folder / "bin" / "python") for folder in ("venv", "jax"))]
    program = next((program for program in programs if os.path.exists(program) and said(program, "-c", "import pytest; print(1)")), None)
    if not program:
        print("SKIPPED wild: no Python with pytest")
        return
    with tempfile.TemporaryDirectory() as scratch:
        package, file = pathlib.Path(scratch, "pkc"), pathlib.Path(scratch, "ended_test.py")
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "pallas.py").write_text("def install(**words):\n    pass\n\n\nclass lowering:\n    pass\n")
        file.write_text(ENDED)
        os.environ["PYTHONPATH"] = scratch
        options = argparse.Namespace(python=program, keep=os.path.join(scratch, "kept"), resume=True, sample=0, each=60, limit=600, jax="0", pkc="first", compare=None)
        runs = [projects.by_name("helion"), scratch, file.name, "pkc", options]
        killed = multiprocessing.get_context("fork").Process(target=run_file, args=runs)
        killed.start()
        killed.join()
        check("the run is killed", killed.exitcode == -signal.SIGKILL, killed.exitcode)
        options.pkc = "then"
        found, ran = run_file(*runs), (file.parent / "ran").read_text().split()
        check("a resumed run repeats only the test that was killed", ran == "first second second third".split(), ran)
        check("a resumed run counts all tests", (found["passed"], found["failed"], found.get("left")) == (2, 1, None), found)
        check("a resumed run names the commit of what was kept", found["how"].endswith("; 1 of them with pkc `first`"), found)
        options.resume = False
        found, again = run_file(*runs), (file.parent / "ran").read_text().split()[len(ran):]
        check("without --resume all tests run", again == "first second third".split() and "with pkc" not in found["how"], again)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", metavar="FOLDER", help="where the projects' checkouts are")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="the Python that runs the tests")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N tests of each function of tests (default: all)")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="for one file; tests that did not come count as not run")
    parser.add_argument("--each", type=float, default=60, metavar="SECONDS", help="for one test (default 60)")
    parser.add_argument("--keep", metavar="FOLDER", help="the result of each test, and what the tests of each file said, is put there")
    parser.add_argument("--resume", action="store_true", help="continue a run whose results are in the folder of --keep: finished tests do not run again")
    parser.add_argument("--modes", nargs="*", choices=MODES, help="only these (default: pkc and the project's interpreters)")
    parser.add_argument("--compare", choices=list(MODES)[1:], help="run the tests that are wrong with pkc in this mode too, and say of each what came out")
    parser.add_argument("--write", action="store_true", help="write the page again")
    parser.add_argument("names", nargs="*", metavar="PROJECT[:FILE]", help="only these, by a part of the file's name")
    options = parser.parse_args()
    if options.write:
        save(read_data())
    elif options.resume and not options.keep:
        parser.error("--resume needs the folder of --keep")
    elif options.sources:
        options.pkc = said("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
        options.jax = said(options.python, "-c", "import jax; print(jax.__version__)") or sys.exit(f"wild: {options.python} has no JAX")
        for project, folder, files in chosen(options.names, options.sources, options.jax):
            run_project(project, folder, files, options)
    else:
        check("docs/wild.md is made of docs/wild.json (tests/wild.py --write)", PAGE.exists() and page(read_data()) == PAGE.read_text(encoding="utf-8"))
        check_resume()
        return finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
