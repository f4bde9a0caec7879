"""The pkc program: .pk text in, C, signatures and reports out."""
import json
import os
import subprocess
import tempfile
import time
import warnings

from pkc import _progress
from pkc._compiler import environment

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(FOLDER, "bin", "pkc")


NOT_STARTED = 127


def run_program(words, timeout=None, stderr=subprocess.PIPE, **more):
    """Like subprocess.run with captured outputs. An exception, or the end of this process, ends the program and all its children."""
    command = [PROGRAM, "--supervise", str(os.getpid()), *words]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environment(), **more) as child:
        try:
            out, err = _wait(child, timeout, "pkc " + words[1] if words[0] == PROGRAM else "the C compiler")
        except BaseException:
            child.terminate()
            child.wait()
            raise
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def _wait(child, timeout, name):
    """Like child.communicate; in a notebook a line shows how long it has taken."""
    progress, start = _progress.progress(name), time.monotonic()
    if progress is None:
        return child.communicate(timeout=timeout)
    try:
        while True:
            left = None if timeout is None else start + timeout - time.monotonic()
            try:
                return child.communicate(timeout=_progress.STEP if left is None else min(_progress.STEP, left))
            except subprocess.TimeoutExpired:
                if left is not None and left <= _progress.STEP:
                    raise
                progress.show(time.monotonic() - start)
    finally:
        progress.end()


class CompileError(Exception):
    """A kernel does not compile.

    The text is pkc's, with a caret under each place; `diagnostics` are the same as dicts (`file`, `line`, `column`,
    `end_column`, `severity`, `code`, `message`, `notes`).
    """

    def __init__(self, text, diagnostics=()):
        super().__init__(text)
        self.diagnostics = list(diagnostics)


class Source:
    """The text of a .pk file at the time it was read. Messages call it `name`."""

    def __init__(self, text, name):
        self.text, self.name = text, name

    def run(self, verb, words=(), timeout=None):
        """Runs a verb on the text: (status, standard output, standard error)."""
        base = os.path.basename(self.name)
        base = base if base.isprintable() and not base.startswith("-") and base not in ("", ".", "..") else "kernel.pk"
        with tempfile.TemporaryDirectory(prefix="pkc-") as folder:
            with open(os.path.join(folder, base), "w", encoding="utf-8", newline="") as file:
                file.write(self.text)
            command = [PROGRAM, *([verb] if verb else []), base, *words]
            done = run_program(command, cwd=folder, timeout=timeout)
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        if base != self.name:
            out, err = (self._with_name(text, base) for text in (out, err))
        return done.returncode, out, err

    def _with_name(self, text, base):
        lines = text.split("\n")
        for i, line in enumerate(lines):
            for start in (base + ":", "pkc: " + base + ":"):
                if line.startswith(start):
                    lines[i] = start[:-len(base) - 1] + self.name + line[len(start) - 1:]
        return "\n".join(lines)

    def compile(self, *words):
        """The output of `pkc FILE words..`; raises CompileError on an error."""
        return self.made_by(None, words)

    def made_by(self, verb, words):
        """The output of a verb; raises CompileError on an error."""
        status, out, err = self.run(verb, words)
        if status == 0:
            return out
        if status not in (1, 2):
            raise RuntimeError("pkc failed (status %d): %s" % (status, err.strip()))
        raise CompileError(err.strip(), self._diagnostics(verb, words))

    def _diagnostics(self, verb, words):
        lines = self.run(verb, (*words, "--diagnostics=json"))[2].splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        for item in found:
            for place in (item, *item["notes"]):
                place["file"] = self.name
        return found


def tuned_blocks(path, words, sizes):
    """The statics that `pkc tune` found for these sizes, as a dict. An unusable file causes a warning."""
    if not os.path.exists(os.fspath(path) + ".tuning"):
        return {}
    command = [PROGRAM, "tune", "--show", os.fspath(path), *words, *("%s=%s" % item for item in sizes.items())]
    done = run_program(command, universal_newlines=True)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    for line in done.stderr.splitlines():
        warnings.warn(line, stacklevel=3)
    return {name: int(value) for name, value in (word.split("=") for word in done.stdout.split())}


def targets():
    """The targets with their C compiler flags, this machine's first."""
    done = subprocess.run([PROGRAM, "--targets"], stdout=subprocess.PIPE, check=True, universal_newlines=True)
    return [(words[0], [w for w in words[1:] if not w.startswith("-D")])
            for words in (line.split() for line in done.stdout.splitlines())]
