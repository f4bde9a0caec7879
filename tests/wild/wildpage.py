"""Writes docs/wild.md from docs/wild.json."""
import collections
import re

import causes
import projects

HEAD = """# Published Pallas kernels on a CPU

Projects that publish Pallas kernels test them on a TPU or GPU, or in JAX's interpreters.
This page reports the results of these tests on a CPU, unedited, under `pkc.pallas.install(interpreted=True)`.
"""
WORDS = """A test counts as *wrong* if a result differs by more than the test allows, as *refused* if pkc does not translate a kernel and says so, and as *late* if it exceeded its time limit on a machine that was doing other work too.
*Failed* tests ended in another way; tests that skip themselves are not counted, and *not run* are those outside of a sample or of a file's time limit.
The tables of the projects give the causes; [pallas-in.md](pallas-in.md#what-was-run) shows the evidence for results of JAX's own tests that differ.

JAX has two interpreters, which ran some of the files: `interpret=True`, a loop over the grid, and `InterpretParams`, which simulates a TPU.
"""
RUNS = """## Runs

`tests/wild.py` runs the tests and writes this page from `docs/wild.json`:

    tests/wild.py --sources FOLDER --python PROGRAM

Files were run with different commits of pkc: a test that failed with an older commit may pass now.
With `--compare interpret`, tests with a wrong result run in JAX's interpreter too.
"""
MODES = {"pkc": "pkc", "interpret": "`interpret=True`", "params": "`InterpretParams`"}
KINDS = {"passed": "passed", "refused": "refused", "wrong": "wrong", "failed": "failed", "expected": "failed as marked", "late": "late", "skipped": "skipped",
         "left": "not run"}
WORST = ("wrong", "refused", "failed", "late", "expected", "passed", "skipped")
SUMMED = ("passed", "refused", "wrong", "failed", "late", "left")  # columns of the first table; tests marked as failing count as failed


def counts(found):
    """The results of the tests of a file, in words."""
    words = [f"{found[kind]} {word}" for kind, word in KINDS.items() if found.get(kind) and kind != "skipped"]
    if found.get("unexpected"):
        words[0] += f" ({found['unexpected']} of them marked as failing)"
    return ", ".join(words) or ("all skip themselves" if found.get("skipped") else "nothing ran")


class Column:
    """The results of the tests of each file in a mode, with a version of JAX if the project's tests belong to one."""

    def __init__(self, project, key, mode, files):
        self.version = key[len(project.name) + 1:]
        self.title = " ".join(part for part in (self.version and "JAX " + self.version, MODES[mode]) if part)
        self.mode, self.found = mode, {file: modes[mode] for file, modes in files.items() if mode in modes}

    def cell(self, file):
        return counts(self.found[file]) if file in self.found else ""


def columns_of(project, kept):
    keys = sorted((key for key in kept if key == project.name or project.versions and key.startswith(project.name + "-")), reverse=True,
                  key=lambda key: [int(n) for n in re.findall(r"\d+", key[len(project.name):])])
    found = [Column(project, key, mode, kept[key]["files"]) for key in keys for mode in MODES]
    return [column for column in found if column.found]


def table(rows):
    """Markdown; the first row is the head."""
    return ["| " + " | ".join(row) + " |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]] + [""]


def escaped(text):
    """The message of a test for a cell of a table, with signs of Markdown outside code escaped."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"[\\<\[*]", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts).replace("|", "\\|")


# ---- the page: the first table

def summary(every):
    """A row for each project, version of JAX and mode; an interpreter's is followed by what pkc does with the same files."""
    rows = [["project", "JAX", "with", "tests that ran", *(KINDS[kind] for kind in SUMMED)]]
    for project, columns in every:
        by = {(column.version, column.mode): column for column in columns}
        for (version, mode), column in by.items():
            rows.append([project.name, series(column), MODES[mode] + of_files(column, by.get((version, "pkc"))), *sums(column.found.values())])
            if mode != "pkc" and (version, "pkc") in by:
                own = [found for file, found in by[version, "pkc"].found.items() if file in column.found]
                rows.append(["", "", "pkc, the same files", *sums(own)])
    return table(rows)


def series(column):
    return column.version or ", ".join(sorted({".".join(found["jax"].split(".")[:2]) for found in column.found.values()}))


def of_files(column, pkc):
    return "" if pkc is None or len(pkc.found) == len(column.found) else ", %d of %d files" % (len(column.found), len(pkc.found))


def sums(found):
    """The number of tests that ran, and of each result, in several files."""
    total = collections.Counter()
    for one in found:
        total.update({kind: one.get(kind, 0) for kind in KINDS})
    ran = sum(count for kind, count in total.items() if kind not in ("skipped", "left"))
    total["failed"] += total["expected"]
    return [str(ran), *(str(total[kind] or "") for kind in SUMMED)]


# ---- the page: a project

def explained(file, why):
    """The cause of a failure in words for readers of the page, or the message of the test if causes.py does not have it."""
    name = file.rsplit("/", 1)[-1]
    return next((words for files, pattern, words in causes.CAUSES if re.search(files, name) and re.search(pattern, why)), None) or escaped(why)


def reasons(file, found, known=()):
    """{(kind, cause): tests} of a file. Causes in `known`, and those that no run kept, are without words."""
    left, told = {kind: found.get(kind, 0) for kind in ("refused", "wrong", "failed", "expected", "late", "left")}, collections.Counter()
    for kind, why, count in found.get("causes", []):
        cause = kind, explained(file, why)
        told[(kind, "") if cause in known else cause] += count
        left[kind] -= count
    told.update({(kind, ""): count for kind, count in left.items() if count > 0})
    return told


def shortfall(file, found, known=()):
    """The tests that did not pass, with causes; a cause in `known` is not repeated."""
    told = sorted(reasons(file, found, known).items(), key=lambda item: list(KINDS).index(item[0][0]))
    return "; ".join("%d %s%s" % (count, KINDS[kind], ": " + why if why else "") for (kind, why), count in told)


def passes(found):
    ran = sum(found.get(kind, 0) for kind in KINDS if kind not in ("skipped", "left"))
    if not ran:
        return "all skip themselves" if found.get("skipped") else "none ran"
    marked = " (%d of them marked as failing)" % found["unexpected"] if found.get("unexpected") else ""
    return "%d of %d%s" % (found.get("passed", 0), ran, marked)


def section(project, columns):
    newest = [column for column in columns if column.version == columns[0].version]
    own, others = newest[0].found, newest[1:]
    rows = [["file", "passed", "did not pass, and why", *(MODES[column.mode] for column in others)]]
    for file in sorted({file for column in newest for file in column.found}):
        found = own.get(file, {})
        rows.append([f"`{file}`", passes(found) if found else "", shortfall(file, found), *(column.cell(file) for column in others)])
    name = " with JAX " + newest[0].version if newest[0].version else ""
    return [f"## [{project.name}](https://github.com/{project.repository}){name}", "", *([project.remark, ""] if project.remark else []), *table(rows),
            *older(project, columns, own)]


def older(project, columns, newest):
    """The versions of JAX before the newest; causes that the newest has too are not repeated."""
    rest = [column for column in columns if column.version != columns[0].version]
    if not rest:
        return []
    rows = [["file", *(column.title for column in rest)]]
    for file in sorted({file for column in rest for file in column.found}):
        known = reasons(file, newest.get(file, {}))
        cells = [". ".join(filter(None, [passes(column.found[file]), shortfall(file, column.found[file], known)])) if file in column.found else "" for column in rest]
        rows.append([f"`{file}`", *cells])
    return [f"### {project.name} with older versions of JAX", "", "Causes that the table above names for the same file are left out.", "", *table(rows)]


def runs(every):
    """What was run, each combination once."""
    rows = collections.Counter((project.name, one["date"], one["pkc"], one["jax"], one["commit"][:10], one.get("how", "all tests"))
                               for project, columns in every for column in columns for one in column.found.values())
    return table([["project", "date", "pkc", "JAX", "commit", "tests", "files"], *([*row, str(files)] for row, files in sorted(rows.items()))])


def page(kept):
    every = [(project, columns) for project, columns in ((project, columns_of(project, kept)) for project in projects.PROJECTS) if columns]
    sections = [line for project, columns in every for line in section(project, columns)]
    return "\n".join([HEAD, *summary(every), WORDS, *sections, RUNS, *runs(every)])[:-1]
