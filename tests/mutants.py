#!/usr/bin/env python3
"""Mutation testing of the compiler: each fault of a table is made on purpose, alone, and a test has to fail.

    tests/mutants.py [PATTERN ..] [--list] [--check] [--new] [--quick] [--own] [--suites A,B] [--folder DIR]

PATTERN is a piece of "FILE: what the fault breaks"; without a pattern all faults are tried. The beginning of the table,
tests/mutation/table.txt, explains it. An entry whose text does not occur exactly once is stale, which is a failure: look at the code and
write the entry anew. --check only looks for stale entries, within a second, and builds nothing: tests/check.sh runs it.

Faults are made in a copy of the tree (build/mutation/tree), which is built with little optimisation; the C of kernels is compiled without
optimisation and with functions that are not inlined. For each fault the tests that its entry names run first, then all of SUITES, until
one fails. A suite runs once without a fault before it is used. Results are appended to build/mutation/results.jsonl; --new leaves out
faults that were found according to that file. --own runs only the suites of the entry, --quick only those of them that take a few seconds,
and random kernels. --suites runs only the given suites.

Ends with "N passed, N failed": passed are those that a test found.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TABLE = os.path.join(HERE, "mutation", "table.txt")

# Cheap suites first: those without a C compiler, then those that compile many kernels at once.
QUICK = ["tests/unit/test_ir.c", "tests/unit/test_loops.c", "tests/unit/test_lower.c", "tests/cases/check", "tests/cases/errors",
         "tests/unit/test_interp.c", "tests/cases/structure", "random"]
SUITES = QUICK + ["tests/cases/hazards", "tests/cases/masked", "tests/cases/bugs", "tests/cases/lang", "tests/cases/memory",
                  "tests/cases/kernels", "tests/cases/wide", "tests/cases/operations", "kernels", "tests/races.py",
                  "tests/masked_windows.py", "tests/fuzz.py", "tests/folding.py", "tests/operations.py", "tests/dtypes.py",
                  "tests/oracle.py", "tests/verdict.py"]
# Batches of random kernels; those of `rows` run on several threads.
RANDOM = {"random": "--seed 2 --count 100 --batch 100", "rows": "--only rows --seed 7 --count 150 --batch 50"}
PACKAGE = "python/tests/"  # suites of pytest: a file, or FILE::TEST
SECONDS = 900  # seconds for one suite; a fault that makes it exceed this is found


class Mutant:
    def __init__(self, file, first, what):
        self.file, self.first, self.what = file, first, what
        self.old, self.new = [], []

    def __str__(self):
        return f"{self.file}: {self.what}"

    def apply(self, text):
        """The text with the fault, or None if its original text does not occur exactly once, up to white space."""
        pattern = r"\s+".join(map(re.escape, "\n".join(self.old).split()))
        places = list(re.finditer(pattern, text))
        if len(places) != 1:
            return None
        return text[:places[0].start()] + "\n".join(self.new) + text[places[0].end():]


def read_table(path=TABLE):
    """The entries, in the order of the file."""
    mutants, file, first = [], None, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            mark, rest = line[:2], line[2:].rstrip("\n")
            if mark == "@ ":
                file, _, tests = rest.partition(" : ")
                first = tests.split()
            elif mark == "# ":
                mutants.append(Mutant(file, first, rest))
            elif mark in ("- ", "+ "):
                (mutants[-1].old if mark == "- " else mutants[-1].new).append(rest)
            elif mark == "! ":
                mutants[-1].first = rest.split() + mutants[-1].first
    return mutants


def is_stale(mutant):
    path = os.path.join(ROOT, mutant.file)
    if not os.path.isfile(path):
        return True
    with open(path, encoding="utf-8") as file:
        return mutant.apply(file.read()) is None


def check(mutants):
    """The text of every entry occurs once in the code, and its suites exist."""
    failures = [f"stale  {m}: its text does not occur just once in the file" for m in mutants if is_stale(m)]
    failures += [f"no suite `{s}`  {m}" for m in mutants for s in m.first if s not in RANDOM and not os.path.exists(os.path.join(ROOT, s.split("::")[0]))]
    print("\n".join(f"FAIL {text}" for text in failures), end="\n" if failures else "")
    print(f"{len(mutants) - min(len(failures), len(mutants))} passed, {len(failures)} failed")
    return 1 if failures else 0


class Found(Exception):
    """A test failed, with its output."""


class Tree:
    """A copy of the project that is built again after each change."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "tree")
        self.trusted = set()  # suites that passed without a fault
        self.seconds = {}
        self.env = dict(os.environ, CC="clang" if shutil.which("clang") else "cc", PKC_CFLAGS="-O0 -DPK_OUTLINE", PKC_JOBS="1",
                        PKC_TESTS="fast", BUILD="build", PYTHON=sys.executable, PKC=os.path.join(self.folder, "build", "pkc"),
                        XDG_CACHE_HOME=os.path.join(folder, "cache"))
        self.env.pop("PKC_TEST_CC", None)
        os.makedirs(os.path.join(self.folder, "build"), exist_ok=True)
        self.copy()
        jax = os.path.join(self.folder, "build", "jax")
        if not os.path.lexists(jax):
            os.symlink(os.path.join(ROOT, "build", "jax"), jax)

    def copy(self):
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE, check=True).stdout
        names = set(names.decode().split("\n"))
        self.remove_others(names)
        for name in sorted(names):
            source, target = os.path.join(ROOT, name), os.path.join(self.folder, name)
            if not os.path.isfile(source):
                continue
            with open(source, "rb") as file:
                text = file.read()
            if os.path.exists(target):
                with open(target, "rb") as file:
                    if file.read() == text:
                        continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)

    def remove_others(self, names):
        """Removes files of an earlier copy that no longer exist in the project."""
        for folder, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if name != "build"]
            for name in files:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.folder) not in names:
                    os.remove(path)

    def run(self, command, seconds, stop=None):
        """Returns (status, output), and stops early at a line that `stop` matches."""
        p = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             start_new_session=True)
        out, end = [], time.monotonic() + seconds
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(p.pid, signal.SIGKILL))
        signal.alarm(int(seconds))
        try:
            for line in p.stdout:
                out.append(line.decode(errors="replace").rstrip())
                if stop and stop.search(out[-1]):
                    return 1, [out[-1]]
            status = p.wait()
        finally:
            signal.alarm(0)
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
        if time.monotonic() >= end:
            return 1, [f"takes more than {seconds} s"]
        return status, out

    def make(self, *targets):
        status, out = self.run(["make", "-s", "-j2", "CC=cc", "CFLAGS=-O1 -g0 -w", *targets], 600)
        return None if status == 0 else next((line for line in out if "error" in line), out[-1] if out else "make fails")

    def build(self):
        return self.make("build/pkc", "build/tests/many", "build/libpkrt.a", "build/libpkrt.so", "micro")

    def command(self, suite):
        if suite in RANDOM:
            return [sys.executable, "tests/random_kernels.py", *RANDOM[suite].split(), "--reduce", "0", "--jobs", "1",
                    "--compilers", "clang" if shutil.which("clang") else "gcc", "--log", "/dev/null"]
        if suite.startswith(PACKAGE):
            return ["env", "CC=cc", "tests/python.sh", suite]
        if suite.endswith(".py"):
            return [sys.executable, suite]
        if suite.startswith("tests/unit/"):
            return ["build/" + suite[:-2]]
        return ["build/pkc", "test", suite]

    def test(self, suite):
        """Raises Found if it fails."""
        if suite.startswith("tests/unit/"):
            wrong = self.make("build/" + suite[:-2])
            if wrong:
                raise Found(wrong)
        stop = re.compile(r"^(FAIL|[A-Z-]+ kernel \d+ of seed)")
        start = time.monotonic()
        status, out = self.run(self.command(suite), SECONDS, stop)
        if suite.startswith(PACKAGE) and any(line.startswith("SKIPPED") for line in out):
            status = 1  # it has run no test
        self.seconds[suite] = time.monotonic() - start
        if status:
            said = [line for line in out if re.search("FAIL|error|internal", line)] or out or [f"status {status}"]
            raise Found(said[0])


def trust(tree, suite):
    """Runs a suite once without a fault; a suite that fails then is not used."""
    if suite in tree.trusted:
        return True
    try:
        tree.test(suite)
    except Found as f:
        print(f"  {suite} fails without a fault and is left out: {f}", flush=True)
        return False
    tree.trusted.add(suite)
    return True


class Session:
    def __init__(self, folder, quick, own, suites):
        self.tree, self.quick, self.own, self.suites = Tree(folder), quick, own, suites
        self.unusable = set()

    def usable(self, suites, mutant, text, path):
        """The suites in order, each once; a suite runs without a fault before its first use."""
        seen = set()
        for suite in suites:
            if suite in seen or suite in self.unusable:
                continue
            seen.add(suite)
            if suite not in self.tree.trusted:
                self.write(path, text)
                self.tree.build()
                if not trust(self.tree, suite):
                    self.unusable.add(suite)
                    continue
                self.write(path, mutant.apply(text))
                self.tree.build()
            yield suite

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def find(self, mutant):
        """Records what found the mutant."""
        path = os.path.join(self.tree.folder, mutant.file)
        record = {"file": mutant.file, "what": mutant.what, "by": None, "said": "", "seconds": 0.0}
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            text = ""
        if mutant.apply(text) is None:
            return dict(record, by="stale", said="its text does not occur just once: the entry is stale")
        self.write(path, mutant.apply(text))
        start = time.monotonic()
        try:
            wrong = self.tree.build()
            if wrong:
                return dict(record, by="stale", said=f"does not compile: {wrong}")
            suites = self.suites or mutant.first + ([] if self.own else SUITES)
            if self.quick and not self.suites:
                suites = [s for s in mutant.first + ["random"] if s in QUICK or s.endswith(".pk")]
            for suite in self.usable(suites, mutant, text, path):
                try:
                    begun = time.monotonic()
                    self.tree.test(suite)
                except Found as f:
                    return dict(record, by=suite, said=str(f)[:200], seconds=time.monotonic() - start, last=time.monotonic() - begun)
            return dict(record, seconds=time.monotonic() - start)
        finally:
            self.write(path, text)


def known_to_be_found(path):
    found = set()
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                r = json.loads(line)
                (found.add if r["by"] not in (None, "stale") else found.discard)(f"{r['file']}: {r['what']}")
    return found


def say(record):
    name = f"{record['file']}: {record['what']}"
    if record["by"] is None:
        print(f"FAIL survives ({record['seconds']:.0f} s)  {name}", flush=True)
    elif record["by"] == "stale":
        print(f"FAIL stale  {name}: {record['said']}", flush=True)
    else:
        print(f"found in {record['seconds']:4.0f} s by {record['by']:<26} {name}", flush=True)


def main():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--list", action="store_true", help="print the faults, run nothing")
    parser.add_argument("--check", action="store_true", help="only look for stale entries; build nothing")
    parser.add_argument("--new", action="store_true", help="only those that the results do not call found")
    parser.add_argument("--quick", action="store_true", help="only the entry's own suites that take a few seconds, and random")
    parser.add_argument("--own", action="store_true", help="only the entry's own suites")
    parser.add_argument("--suites", default="", help="only these, with commas between them")
    parser.add_argument("--folder", type=os.path.abspath, default=os.path.join(ROOT, "build", "mutation"))
    options = parser.parse_args()
    mutants = [m for m in read_table() if not options.patterns or any(p in str(m) for p in options.patterns)]
    if options.list:
        print("\n".join(map(str, mutants)))
        return 0
    if options.check:
        return check(mutants)
    os.makedirs(options.folder, exist_ok=True)
    results = os.path.join(options.folder, "results.jsonl")
    if options.new:
        found = known_to_be_found(results)
        mutants = [m for m in mutants if str(m) not in found]
    print(f"{len(mutants)} faults; building in {options.folder}/tree", flush=True)
    session = Session(options.folder, options.quick, options.own, [s for s in options.suites.split(",") if s])
    wrong = session.tree.build()
    if wrong:
        print(f"FAIL the project itself: {wrong}\n0 passed, 1 failed")
        return 1
    by, failed = {}, 0
    for number, mutant in enumerate(mutants, 1):
        record = session.find(mutant)
        with open(results, "a", encoding="utf-8") as file:
            file.write(json.dumps(dict(record, time=int(time.time()))) + "\n")
        print(f"{number}/{len(mutants)} ", end="")
        say(record)
        failed += record["by"] in (None, "stale")
        by.setdefault(record["by"] or "no test", []).append(record["seconds"])
    for suite, seconds in sorted(by.items(), key=lambda x: -len(x[1])):
        print(f"  {len(seconds):3d} by {suite}, {sum(seconds) / len(seconds):.0f} s each")
    print(f"{len(mutants) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
