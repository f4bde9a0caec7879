#!/usr/bin/env python3
"""Faults planted in the library's kernels of several devices: `pkc check` must find each.

A fault is one change of a kernel: a wait, signal, start or barrier is removed, doubled or moved before the preceding statement;
a wait is restricted to one end of a copy; a copy or signal goes to another device; another semaphore of an array is used. The finding
must name a line of the file and a device.

    tests/mesh_faults.py [--list] [FILE.pk ..]

Without files: all of kernels/collectives. --list prints each fault with the first line of its finding. Each fault is checked
with the sizes of the kernel's `// test:` lines, those with most devices first, until one finds it. HARMLESS lists the changes
that do not make a kernel wrong. Ends with "N passed, N failed".
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

from suite import PKC, ROOT, check, finish

# The changes that have no effect in any order of the devices, by file and by a piece of the change, with the reason.
HARMLESS = {
    ("moe_dispatch.pk", "recv = told, device = (d = other)).start();` one statement earlier"): "two copies to different arrays start in the other order",
    ("moe_dispatch.pk", "recv = told, device = (d = me)).wait();` one statement earlier"): "two copies to different arrays are waited for in the other order",
    ("ring_attention.pk", "one statement earlier"): "two copies to different arrays are waited for in the other order",
    ("ring_attention.pk", "send = sent[0]"): "both copies are waited for before either source changes",
    ("reduce_scatter.pk", "send = sent[0]"): "the copy is waited for before the next one starts",
}
EXCHANGE = r"\b(?:remote_copy|signal|wait|barrier)\b[^;{}]*;|\b\w+\.(?:start|wait|wait_send|wait_recv)\(\);"
SECONDS = 60


class Text:
    """A kernel's file; `changed` returns its text with another piece from START to END."""

    def __init__(self, text):
        self.text = text
        self.body = text.index("mesh ("), text.index("\nreference")

    def changed(self, start, end, new):
        return self.text[:start] + new + self.text[end:]

    def line(self, place):
        return self.text.count("\n", 0, place) + 1

    def find(self, pattern):
        return re.compile(pattern).finditer(self.text, *self.body)


def is_local(file, statement):
    """Whether a statement `NAME.wait();` waits for a copy within the device."""
    copy = re.match(r"\w+", statement)[0]
    return re.search(rf"let {copy} = async_copy", file.text) is not None


def faults_of_statements(file):
    """(line, the change, the changed text) for each statement that is removed, doubled, halved or moved."""
    before = None
    for found in file.find(EXCHANGE):
        if file.text[:found.start()].rstrip()[-1] not in ";{}":
            continue  # the value of a `let` is not a statement
        start, end, said = found.start(), found.end(), found[0]
        name, line = " ".join(said.split()), file.line(start)
        yield line, f"without `{name}`", file.changed(start, end, "")
        if not said.startswith("barrier"):
            yield line, f"twice `{name}`", file.changed(start, end, f"{said} {said}")
        if said.endswith(".wait();") and not is_local(file, said):
            for half in ("wait_send", "wait_recv"):
                yield line, f"{half} in `{name}`", file.changed(start, end, said.replace(".wait();", f".{half}();"))
        if before and file.text[before.end():start].isspace():
            yield line, f"`{name}` one statement earlier", file.changed(before.start(), end, f"{said} {before[0]}")
        before = found


def faults_of_places(file):
    """(line, the change, the changed text) for each device and semaphore that is replaced."""
    for found in file.find(r"device = \(\w+ = "):
        rest = file.text[found.end():file.text.index(";", found.end())]
        if not re.search(r"\)\)\.wait\w*\(\)$", rest):  # a copy that is only waited for sends nothing
            yield file.line(found.start()), "one device further", file.changed(found.end(), found.end(), "1 + ")
    for found in file.find(r"(recv|send) = (\w+)\[([^\[\]]*)\]"):
        *outer, last = found[3].split(",")
        other = f"{found[1]} = {found[2]}[{','.join([*outer, '0'])}]"
        if last.strip() != "0":
            yield file.line(found.start()), other, file.changed(found.start(), found.end(), other)


def devices(case):
    """The number of devices in a `// test:` line, or 0."""
    product = 1
    extents = re.findall(r"\bD[XY]?=(\d+)", case)
    for extent in extents:
        product *= int(extent)
    return product if extents else 0


def found_in(path, cases):
    """The output of `pkc check` for the first case with a finding, or None."""
    for case in cases:
        done = subprocess.run([PKC, "check", str(path), *case.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=SECONDS)
        if done.returncode:
            return done.stdout
    return None


def check_faults(source, path, listed):
    text = source.read_text(encoding="utf-8")
    cases = sorted(re.findall(r"^// test: (.*)$", text, re.M), key=devices, reverse=True)
    file = Text(text)
    for line, change, changed in (*faults_of_statements(file), *faults_of_places(file)):
        path.write_text(changed, encoding="utf-8")
        what = f"{source.name}:{line}: {change}"
        said = found_in(path, cases)
        if listed:
            print(f"{what}\n    {said.splitlines()[0] if said else 'nothing'}")
        if any(source.name == name and piece in change for (name, piece) in HARMLESS):
            check(what, said is None, "it is listed as harmless, and is found")
            continue
        if check(what, said is not None, "pkc check finds nothing"):
            place = re.search(rf"{re.escape(str(path))}:(\d+):\d+: ", said)
            check(f"{what}: the place", place and ("at device (" in said or "of device (" in said), said[:300])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    files = args.files or [f for f in sorted((ROOT / "kernels/collectives").glob("*.pk")) if "mesh (" in f.read_text(encoding="utf-8")]
    with tempfile.TemporaryDirectory() as folder:
        for source in files:
            check_faults(source, pathlib.Path(folder) / source.name, args.list)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
