#!/usr/bin/env python3
"""The grammars of .pk for editors and documents: what editors/grammars.py writes is in the tree, its words are those of the compiler, and each grammar
reads every .pk file of the tree as the compiler does.
"""
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lsp import Server, place, tokens_of
from suite import ROOT, check, finish

sys.path.insert(0, str(ROOT / "editors"))
import grammars  # noqa: E402
import words  # noqa: E402

PK_FILES = [path for folder in ("kernels", "tests/cases", "tests/tpu", "examples", "tests/randomized") for path in sorted((ROOT / folder).rglob("*.pk"))]
KINDS = {"Keyword.Type": "type", "Keyword": "keyword", "Literal.Number": "number", "Literal.String": "string", "Comment": "comment"}
CLASSES = set(KINDS.values())
DTYPES = words.dtypes()
CODEMIRROR = pathlib.Path("/usr/share/javascript/codemirror")


def test_written():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "editors" / "grammars.py", folder], check=True)
        made = [path.relative_to(folder) for path in pathlib.Path(folder).rglob("*") if path.is_file()]
        check("editors/grammars.py writes files", made)
        for path in made:
            check(f"{path} is what editors/grammars.py writes", (pathlib.Path(folder) / path).read_bytes() == (ROOT / path).read_bytes())


def test_words():
    """The tables, as words.py reads them, against those that were compiled: what the language server offers."""
    server = Server()
    text = "kernel k(x: f32[8]) -> (o: f32[8]) {\n  o[...] = x[...];\n}\n"
    server.open(text)
    offered = {14: set(), 25: set(), 3: set()}
    for item in server.about("completion", position=place(text, text.index("x[..."))):
        if item["kind"] in offered and item["label"] != "k":
            offered[item["kind"]].add(item["label"])
    server.end()
    for kind, found in ((14, words.keywords()), (25, words.dtypes()), (3, words.functions())):
        check(f"words of kind {kind}", offered[kind] == set(found), sorted(offered[kind] ^ set(found)))


class Classes:
    """What the language server says of each word of a text."""

    def __init__(self):
        self.server = Server()

    def of(self, text):
        """(word, class) of each word of a text, or None if the compiler cannot parse it."""
        uri = "file:///a.pk"
        self.server.open(text, uri)
        # A name may be that of a dtype, which only its declaration tells.
        found = [(word, "type" if word in DTYPES else kind) for word, kind, _ in tokens_of(self.server, text, False)]
        parsed = self.server.about("formatting", options={}) is not None
        self.server.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
        return [(word, kind) for word, kind in found if kind in CLASSES] if parsed else None


def known_files():
    """{file: (its text, the compiler's classes of its words)} of the files that the compiler can parse."""
    classes, found = Classes(), {}
    for path in PK_FILES:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        theirs = classes.of(text)
        if theirs is not None:
            found[path.relative_to(ROOT)] = text, theirs
    check("most files of the tree can be parsed", len(found) > 0.9 * len(PK_FILES) > 500, [len(found), len(PK_FILES)])
    check("the server ends well", classes.server.end() == (0, ""))
    return found


def pygments_classes(lexer, text):
    from pygments import token
    found = []
    for kind, value in lexer.get_tokens(text):
        kind = next((mine for name, mine in KINDS.items() if kind in token.string_to_tokentype(name)), None)
        if kind == "string" and found and found[-1][1] == "string" and not re.fullmatch(r'"(?:\\.|[^"\\])*"', found[-1][0]):
            found[-1] = (found[-1][0] + value, kind)
        elif kind == "comment":
            found += [(line, kind) for line in value.split("\n") if line]
        elif kind:
            found.append((value, kind))
    return found


def test_pygments(known):
    if importlib.util.find_spec("pygments") is None:
        print("SKIPPED grammars, their lexer for Pygments: no pygments here (apt-get install python3-pygments)")
        return
    from pygments import token
    spec = importlib.util.spec_from_file_location("pkc_pygments", ROOT / "python" / "pkc" / "_pygments.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lexer = module.PkLexer(stripnl=False, ensurenl=False)
    for name, (text, theirs) in known.items():
        wrong = [value for kind, value in lexer.get_tokens(text) if kind in token.Error]
        check(f"{name}: Pygments knows all of it", not wrong, wrong)
        ours = pygments_classes(lexer, text)
        check(f"{name}: Pygments shows the classes of the compiler", ours == theirs, first_difference(ours, theirs))
    for text in ('"open', "1x", "0x", "é", "'a'", "a ? b", '"\\q"', "#", "@"):
        check(f"{text}: an error", any(kind in token.Error for kind, _ in lexer.get_tokens(text)))


RUN_MODE = """
global.self = global;
const CodeMirror = require(process.argv[2] + "/addon/runmode/runmode.node.js"), fs = require("fs");
require(process.argv[2] + "/addon/mode/simple.js");
const [mode, texts] = JSON.parse(fs.readFileSync(0, "utf8"));
CodeMirror.defineSimpleMode("pk", mode);
const found = texts.map(text => {
  const tokens = [];
  CodeMirror.runMode(text, "pk", (word, kind) => tokens.push([word, kind]));
  return tokens;
});
console.log(JSON.stringify(found));
"""


def test_codemirror(known):
    """The mode of the playground's editor."""
    if not (shutil.which("node") and CODEMIRROR.is_dir()):
        print("SKIPPED grammars, the mode of CodeMirror: needs node and libjs-codemirror")
        return
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "run.js"
        script.write_text(RUN_MODE)
        given = json.dumps([grammars.codemirror(), [text for text, _ in known.values()]])
        done = subprocess.run(["node", script, CODEMIRROR], input=given, capture_output=True, text=True)
    if not check("CodeMirror runs", done.returncode == 0, done.stderr):
        return
    for (name, (_, theirs)), tokens in zip(known.items(), json.loads(done.stdout)):
        ours = [(word, kind) for word, kind in tokens if kind in CLASSES]
        check(f"{name}: CodeMirror shows the classes of the compiler", ours == theirs, first_difference(ours, theirs))


def first_difference(ours, theirs):
    at = next((k for k, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
    return f"token {at}: {ours[max(at - 2, 0) : at + 2]}, expected {theirs[max(at - 2, 0) : at + 2]}"


def main():
    test_written()
    test_words()
    known = known_files()
    test_pygments(known)
    test_codemirror(known)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
