"""A pytest plugin. Each directive in a .pk file that has `// test:` lines, or that the command line names, is a test; `pkc test` runs them."""
import re

import pytest

from pkc._tool import PROGRAM, run_program

DIRECTIVE = re.compile(r"^\s*//\s*(test|check|refused|prove|gradient|error|warning|explain|explain-not|emit|target):\s*(.*?)\s*$")
FAILED = re.compile(r"^FAIL .*?:(\d+): (.*?); reproduce: .*$")


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".pk" and (parent.session.isinitpath(file_path) or any(kind == "test" for _, kind, _ in directives(file_path))):
        return PkFile.from_parent(parent, path=file_path)
    return None


def directives(path):
    """(line, kind, words) of each directive."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        found = DIRECTIVE.match(line)
        if found:
            yield (number, *found.groups())


class Failed(Exception):
    """What `pkc test` reports."""


class PkFile(pytest.File):
    """A .pk file. `pkc test` runs once, when the first test of the file runs."""

    said = None

    def collect(self):
        yield Whole.from_parent(self, name="compiles")
        for number, kind, words in directives(self.path):
            yield Line.from_parent(self, name="%s: %s" % (kind, words), line=number)

    def failures(self):
        """{line: messages}. The key None has the messages about the whole file."""
        if self.said is None:
            self.said = {}
            done = run_program([PROGRAM, "test", self.path.name], cwd=str(self.path.parent))
            out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
            for line in out.splitlines():
                found = FAILED.match(line)
                if line.startswith("FAIL"):
                    self.said.setdefault(int(found.group(1)) if found else None, []).append(found.group(2) if found else line)
            if done.returncode != 0 and not self.said:
                self.said[None] = [(out + err).strip() or "pkc test failed (status %d)" % done.returncode]
        return self.said


class Item(pytest.Item):
    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if excinfo.errisinstance(Failed) else super().repr_failure(excinfo, style)


class Whole(Item):
    """Failures that belong to no directive: of compiling, formatting, printing."""

    def runtest(self):
        own = {item.line for item in self.session.items if isinstance(item, Line) and item.parent is self.parent}
        said = [text for line, texts in self.parent.failures().items() if line not in own for text in texts]
        if said:
            raise Failed("\n".join(said))

    def reportinfo(self):
        return self.path, 0, self.name


class Line(Item):
    """One directive. A file that does not compile fails them all."""

    def __init__(self, *, line, **more):
        super().__init__(**more)
        self.line = line

    def runtest(self):
        failures = self.parent.failures()
        said = failures.get(self.line, failures.get(None))
        if said:
            raise Failed("%s:%d: %s" % (self.path.name, self.line, "\n".join(said)))

    def reportinfo(self):
        return self.path, self.line - 1, self.name
