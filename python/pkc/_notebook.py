"""`%load_ext pkc`: the cell magic `%%pk`, which makes the kernels of a cell functions of the notebook."""
import re
import shlex
import sys

from pkc import _kernel
from pkc._tool import CompileError

SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
ENTRY = re.compile(r"\b(?:kernel|program)\s+([A-Za-z_]\w*)\s*\(")


def names(text):
    """The kernels and programs of a text."""
    return list(dict.fromkeys(ENTRY.findall(SKIPPED.sub(" ", text))))


def cell(text, line=""):
    """The kernels of a cell by their names. The words of its first line are statics, NAME=VALUE."""
    statics = {}
    for word in shlex.split(line):
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ValueError("%%%%pk: expected NAME=VALUE, a static of the kernels, found %r" % word)
        statics[name] = value
    found = names(text)
    if not found:
        raise CompileError("the cell has no kernel: write `kernel NAME(x: f32[N]) -> (o: f32[N]) { .. }`")
    source = _kernel.Source(text, "<cell>")
    return {name: _kernel.Kernel(source, name, None, statics) for name in found}


def load(shell):
    def pk(line, text):
        try:
            made = cell(text, line)
        except (CompileError, ValueError) as error:  # pkc's text has the place; Python's traceback would bury it
            print(error, file=sys.stderr)
            return
        shell.push(made)

    shell.register_magic_function(pk, "cell", "pk")
