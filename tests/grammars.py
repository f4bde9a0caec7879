#!/usr/bin/env python3
"""The grammars of .pk for editors and documents: the tree contains what docs/editors/grammars.py writes, the words are those of the compiler,
and each grammar reads every .pk file of the tree as the compiler does.
"""
import importlib.util
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lsp import Server, place, tokens_of
from sampling import sampled
from suite import PKC, ROOT, check, finish

sys.path.insert(0, str(ROOT / "docs" / "editors"))
import grammars  # noqa: E402
import words  # noqa: E402

PK_FILES = [path for folder in ("kernels", "tests/cases", "tests/tpu", "examples", "tests/randomized") for path in sorted((ROOT / folder).rglob("*.pk"))]
KINDS = {"Keyword.Type": "type", "Keyword": "keyword", "Literal.Number": "number", "Literal.String": "string", "Comment": "comment"}
CLASSES = set(KINDS.values())
DTYPES = words.dtypes()
PARSER = ROOT / "docs" / "editors" / "tree-sitter-pk"
VSCODE = ROOT / "docs" / "editors" / "vscode"
CODEMIRROR = pathlib.Path("/usr/share/javascript/codemirror")


def test_written():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "docs" / "editors" / "grammars.py", folder], check=True)
        made = [path.relative_to(folder) for path in pathlib.Path(folder).rglob("*") if path.is_file()]
        check("docs/editors/grammars.py writes files", made)
        for path in made:
            check(f"{path} is what docs/editors/grammars.py writes", (pathlib.Path(folder) / path).read_bytes() == (ROOT / path).read_bytes())


def test_words():
    """The tables as words.py reads them, against the compiled ones, which the language server offers."""
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
    """The classes that the language server gives the words of a text."""

    def __init__(self):
        self.server = Server()

    def of(self, text):
        """(word, class) of each word of a text, or None if the compiler cannot parse it."""
        uri = "file:///a.pk"
        self.server.open(text, uri)
        # Only the declaration tells whether a name is that of a dtype.
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


TREES = """
#include <stdio.h>
#include <stdlib.h>
#include <tree_sitter/api.h>

const TSLanguage *tree_sitter_pk(void);

int main(int count, char **paths) {
  static char text[1 << 22];
  TSParser *parser = ts_parser_new();
  if (!ts_parser_set_language(parser, tree_sitter_pk())) return 1;
  for (int i = 1; i < count; i++) {
    FILE *file = fopen(paths[i], "rb");
    if (!file) return 1;
    TSTree *tree = ts_parser_parse_string(parser, NULL, text, (uint32_t)fread(text, 1, sizeof text, file));
    char *nodes = ts_node_string(ts_tree_root_node(tree));
    puts(nodes);
    free(nodes);
    fclose(file);
    ts_tree_delete(tree);
  }
  ts_parser_delete(parser);
  return 0;
}
"""


class TreeSitter:
    """The parser in the tree, compiled with Debian's library."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.program, self.library = self.folder / "trees", self.folder / "pk.so"
        (self.folder / "trees.c").write_text(TREES)

    def build(self):
        parser = PARSER / "src" / "parser.c"
        self.compile("-o", self.program, self.folder / "trees.c", parser, "-ltree-sitter")
        self.compile("-shared", "-fPIC", "-o", self.library, parser)

    def compile(self, *words):
        done = subprocess.run([os.environ.get("CC", "cc"), "-O0", *words], capture_output=True, text=True)
        check("the parser is compiled without warnings", done.returncode == 0 and not done.stderr, done.stderr)

    def trees(self, paths):
        done = subprocess.run([self.program, *paths], capture_output=True, text=True)
        check("the parser runs", done.returncode == 0, done.stderr)
        return done.stdout.splitlines()

    def tree(self, text):
        path = self.folder / "text.pk"
        path.write_text(text, encoding="utf-8")
        return self.trees([path])[0]


def test_tree_sitter(known):
    grammar = json.loads((PARSER / "src" / "grammar.json").read_text())
    test_names_of_the_parser(grammar)
    test_script(grammar)
    test_generator()
    if subprocess.run([os.environ.get("CC", "cc"), "-E", "-"], input="#include <tree_sitter/api.h>", capture_output=True, text=True).returncode != 0:
        print("SKIPPED grammars, the parser of tree-sitter: libtree-sitter-dev is missing (apt-get install libtree-sitter-dev)")
        return
    with tempfile.TemporaryDirectory() as folder:
        own = TreeSitter(folder)
        own.build()
        for name, tree in zip(known, own.trees([ROOT / name for name in known])):
            check(f"{name}: tree-sitter parses it", "ERROR" not in tree and "MISSING" not in tree, tree[:300])
        for text in ("kernel k(", "fn f(a) = a b;", "reference r { let x = ; }", "kernel k(x: f32[8]) { }", "fn f(a) = a +;", "grid (i in 3);", 'fn f() = "open;'):
            tree = own.tree(text)
            check(f"{text}: an error", "ERROR" in tree or "MISSING" in tree, tree)
        test_corpus(own)
        test_highlights(own, known)


def test_names_of_the_parser(grammar):
    """The parser was generated from the grammar: it has the same nodes and words."""
    text = (PARSER / "src" / "parser.c").read_text()
    symbols = re.search(r"ts_symbol_names\[\] = \{(.*?)\n\};", text, re.S)[1]
    named = {json.loads(name) for name in re.findall(r'\] = ("(?:[^"\\]|\\.)*")', symbols)}
    rules = grammar["rules"]
    strings = set(strings_of([rule for rule in rules.values() if rule["type"] != "STRING"]))
    made = {name for name in named if not re.search(r"_repeat\d+$", name) and name != "end"}
    shown = {name for name in rules if not name.startswith("_")}
    fields = set(re.findall(r'^  \[field_\w+\] = "(\w+)"', text, re.M))
    check("parser.c has the fields of grammar.json", fields == fields_of(list(rules.values())), fields)
    check("parser.c is made of grammar.json", made <= set(rules) | strings and shown | strings <= made, sorted(made ^ (shown | strings)))


def fields_of(rule):
    """The fields of a rule, or of a list of rules."""
    if isinstance(rule, list):
        return {name for part in rule for name in fields_of(part)}
    own = {rule["name"]} if rule["type"] == "FIELD" else set()
    return own | fields_of(rule.get("members") or [rule[name] for name in ("content",) if name in rule])


def strings_of(rule):
    """The words and marks of a rule, or of a list of rules."""
    if isinstance(rule, list):
        return [text for part in rule for text in strings_of(part)]
    if rule["type"] == "STRING":
        return [rule["value"]]
    return strings_of(rule.get("members") or [rule[name] for name in ("content",) if name in rule])


RUN_GRAMMAR = """
const rule = r => (typeof r === "string" ? { type: "STRING", value: r } : r instanceof RegExp ? { type: "PATTERN", value: r.source.replaceAll("\\\\/", "/") } : r);
const side = type => (value, content) => ({ type, value, content: rule(content) });
global.seq = (...members) => ({ type: "SEQ", members: members.map(rule) });
global.choice = (...members) => ({ type: "CHOICE", members: members.map(rule) });
global.optional = content => choice(content, { type: "BLANK" });
global.prec = { left: side("PREC_LEFT"), right: side("PREC_RIGHT") };
global.field = (name, content) => ({ type: "FIELD", name, content: rule(content) });
global.token = content => ({ type: "TOKEN", content: rule(content) });
global.grammar = given => given;
const $ = new Proxy({}, { get: (_, name) => ({ type: "SYMBOL", name }) }), made = require(process.argv[2]);
console.log(JSON.stringify({ rules: Object.entries(made.rules).map(([name, of]) => [name, rule(of($))]), extras: made.extras($).map(rule) }));
"""


def test_script(grammar):
    """grammar.js, which is for readers, has the rules of grammar.json."""
    if not shutil.which("node"):
        print("SKIPPED grammars, grammar.js: no node here")
        return
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "run.js"
        script.write_text(RUN_GRAMMAR)
        done = subprocess.run(["node", script, PARSER / "grammar.js"], capture_output=True, text=True)
    made = json.loads(done.stdout) if done.returncode == 0 else {}
    check("grammar.js is grammar.json", made == {"rules": [list(row) for row in grammar["rules"].items()], "extras": grammar["extras"]}, done.stderr)


def test_generator():
    """If the command line of tree-sitter is installed, it generates a parser from grammar.js, which passes the corpus tests."""
    if not shutil.which("tree-sitter"):
        print("SKIPPED grammars, the generator of tree-sitter: no tree-sitter here")
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(PARSER, pathlib.Path(folder) / "pk")
        for words_ in (["generate"], ["test"]):
            done = subprocess.run(["tree-sitter", *words_], cwd=copy, capture_output=True, text=True)
            check(f"tree-sitter {words_[0]}", done.returncode == 0, done.stdout + done.stderr)
        same = json.loads((copy / "src" / "grammar.json").read_text())["rules"] == json.loads((PARSER / "src" / "grammar.json").read_text())["rules"]
        check("grammar.js is grammar.json", same)


def test_corpus(own):
    for path in sorted((PARSER / "test" / "corpus").glob("*.txt")):
        for title, text, tree in re.findall(r"^=+\n(.*)\n=+\n\n(.*?)\n---\n\n(.*?)\n(?=\n=|\Z)", path.read_text(), re.M | re.S):
            found = own.tree(text)
            if not re.search(r"\w: ", tree):  # fields are compared if the expected tree has some, as in tree-sitter's own tests
                found = re.sub(r"\w+: ", "", found)
            check(f"{path.name}, {title}", found == re.sub(r"\s+", " ", tree).strip(), found)


RUN_QUERY = """
local library, query, list = os.getenv("LIBRARY"), io.open(os.getenv("QUERY")):read("a"), vim.json.decode(io.open(os.getenv("LIST")):read("a"))
vim.treesitter.require_language("pk", library)
local parsed = vim.treesitter.parse_query("pk", query)
local out = {}
for _, path in ipairs(list) do
  local text, found = io.open(path, "rb"):read("a"), {}
  local root = vim.treesitter.get_string_parser(text, "pk"):parse()[1]:root()
  for id, node in parsed:iter_captures(root, text, 0, -1) do
    local row, column, last_row, last_column = node:range()
    table.insert(found, { row, column, last_row, last_column, parsed.captures[id] })
  end
  table.insert(out, found)
end
io.open(os.getenv("OUT"), "w"):write(vim.json.encode(out))
"""


def test_highlights(own, known):
    """The query of highlights, in Neovim: keywords, numbers and strings are the compiler's."""
    if not shutil.which("nvim"):
        print("SKIPPED grammars, the highlights of tree-sitter: no nvim here (apt-get install neovim)")
        return
    names = list(known)[:: 1 if os.environ.get("PKC_TESTS") == "all" else 7]
    listed, out, script = own.folder / "list.json", own.folder / "out.json", own.folder / "query.lua"
    listed.write_text(json.dumps([str(ROOT / name) for name in names]))
    script.write_text(RUN_QUERY)
    places = {"LIBRARY": own.library, "QUERY": PARSER / "queries" / "highlights.scm", "LIST": listed, "OUT": out}
    done = subprocess.run(["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-c", f"luafile {script}", "-c", "qa!"], capture_output=True, text=True,
                          env={**os.environ, **{name: str(path) for name, path in places.items()}})
    if not check("Neovim runs the query", out.exists(), done.stderr):
        return
    kinds = {"keyword": "keyword", "boolean": "keyword", "number": "number", "string": "string"}
    for name, captures in zip(names, json.loads(out.read_text())):
        text, theirs = known[name]
        lines = text.encode().split(b"\n")
        ours = [(lines[row][column:end].decode(), kinds[kind]) for row, column, _, end, kind in sorted(captures) if kind in kinds]
        theirs = [token for token in theirs if token[1] in kinds.values()]
        check(f"{name}: tree-sitter shows the classes of the compiler", ours == theirs, first_difference(ours, theirs))


SCOPES = {"keyword.control": "keyword", "constant.language": "keyword", "support.type": "type", "constant.numeric": "number", "string.quoted": "string", "comment": "comment"}


class TextMate:
    """An interpreter of the rules that docs/editors/textmate.py writes, with Python's regular expressions."""

    def __init__(self, grammar):
        self.repository = grammar["repository"]
        self.root = {"end": None, "found": self.prepared(grammar["patterns"]), "class": None}

    def prepared(self, patterns):
        """(compiled expression, class, the state that it begins)."""
        rows = []
        for rule in patterns:
            if "include" in rule:
                rows += self.prepared(self.repository[rule["include"][1:]]["patterns"])
                continue
            kind = self.kind(rule.get("name"))
            state = {"end": re.compile(rule["end"]), "found": self.prepared(rule.get("patterns", [])), "class": kind} if "begin" in rule else None
            at_begin = self.kind(rule.get("beginCaptures", {}).get("0", {}).get("name")) or kind
            rows.append((re.compile(rule.get("begin") or rule["match"]), at_begin, state))
        return rows

    @staticmethod
    def kind(scope):
        return next((kind for name, kind in SCOPES.items() if (scope or "").startswith(name)), None)

    def classes(self, text):
        found, stack = [], [self.root]
        for line in text.split("\n"):
            of = [None] * len(line)
            self.line(line + "\n", stack, of)
            found += runs(line, of)
        return found

    def line(self, line, stack, of):
        at, nexts = 0, {}

        def match(expression):
            if expression not in nexts or nexts[expression] and nexts[expression].start() < at:
                nexts[expression] = expression.search(line, at)
            return nexts[expression]

        while True:
            state = stack[-1]
            rows = [(state["end"], state["class"], None)] if state["end"] else []
            hits = [(hit.start(), k, hit) for k, (expression, _, _) in enumerate(rows + state["found"]) if (hit := match(expression))]
            start, k, hit = min(hits, default=(len(of), 0, None))
            of[at:start] = [state["class"]] * (start - at)
            if not hit:
                return
            _, kind, begun = (rows + state["found"])[k]
            at = hit.end()
            of[start:at] = [kind or state["class"]] * (min(at, len(of)) - start)
            if rows and k == 0:
                stack.pop()
            elif begun:
                stack.append(begun)


def runs(line, of):
    """(word, class) of the parts of a line, from the class of each character."""
    found = []
    for kind, part in itertools.groupby(zip(of, line), key=lambda pair: pair[0]):
        if kind:
            found.append(("".join(character for _, character in part), kind))
    return found


def test_textmate(known):
    grammar = json.loads((VSCODE / "syntaxes" / "pk.tmLanguage.json").read_text())
    reader = TextMate(grammar)
    for name, (text, theirs) in known.items():
        ours = reader.classes(text)
        check(f"{name}: the TextMate grammar shows the classes of the compiler", ours == theirs, first_difference(ours, theirs))


STUBS = {
    "vscode": """
const settings = require(process.argv[2] + "/package.json").contributes.configuration.properties;
exports.workspace = { getConfiguration: name => ({ get: key => ((console.log(JSON.stringify(settings[name + "." + key].default))), process.env.PK_SERVER) }) };
""",
    "vscode-languageclient/node": """
const { spawn } = require("child_process");
exports.LanguageClient = class {
  constructor(id, server, client) {
    console.log(JSON.stringify([id, server.args, client]));
    Object.assign(this, { server, waiting: new Map(), said: new Map(), bytes: Buffer.alloc(0), count: 0 });
  }
  send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.process.stdin.write(`Content-Length: ${body.length}\\r\\n\\r\\n`);
    this.process.stdin.write(body);
  }
  ask(method, params) {
    const id = ++this.count;
    this.send({ id, method, params });
    return new Promise(done => this.waiting.set(id, done));
  }
  read(bytes) {
    this.bytes = Buffer.concat([this.bytes, bytes]);
    for (let head; (head = this.bytes.indexOf("\\r\\n\\r\\n")) >= 0; ) {
      const end = head + 4 + Number(/Content-Length: (\\d+)/.exec(this.bytes.toString("latin1", 0, head))[1]);
      if (this.bytes.length < end) return;
      const message = JSON.parse(this.bytes.toString("utf8", head + 4, end));
      this.bytes = this.bytes.subarray(end);
      (message.id ? this.waiting.get(message.id) : this.published)(message.result || message.params);
    }
  }
  async start() {
    this.process = spawn(this.server.command, this.server.args, { stdio: ["pipe", "pipe", "inherit"] });
    this.process.stdout.on("data", bytes => this.read(bytes));
    await this.ask("initialize", { processId: process.pid, capabilities: {} });
    this.send({ method: "initialized", params: {} });
  }
  async open(uri, text) {
    const found = new Promise(done => (this.published = done));
    this.send({ method: "textDocument/didOpen", params: { textDocument: { uri, languageId: "pk", version: 1, text } } });
    return (await found).diagnostics;
  }
  async stop() {
    const ended = new Promise(done => this.process.on("exit", done));
    await this.ask("shutdown", null);
    this.send({ method: "exit" });
    console.log(JSON.stringify(await ended));
  }
};
""",
}
RUN_EXTENSION = """
const client = require("vscode-languageclient/node").LanguageClient.prototype, start = client.start;
let begun;
client.start = function () { begun = this; return start.call(this); };
(async () => {
  const extension = require(process.argv[2] + "/" + process.argv[3]), uri = "file:///a.pk";
  await extension.activate();
  console.log(JSON.stringify(await begun.open(uri, process.argv[4])));
  console.log(JSON.stringify(await begun.ask("textDocument/hover", { textDocument: { uri }, position: { line: 1, character: 6 } })));
  await extension.deactivate();
})();
"""
EXTENDED = "kernel k(x: f32[8]) -> (o: f32[8]) {\n  let twice = x[...] * 2;\n  o[...] = twicf;\n}\n"


def test_manifest(package):
    """The requirements of the editor on package.json: https://code.visualstudio.com/api/references/extension-manifest."""
    check("its name and publisher may be in an identifier", all(re.fullmatch("[a-z0-9][a-z0-9-]*", package[key]) for key in ("name", "publisher")))
    check("its version is a version", re.fullmatch(r"\d+\.\d+\.\d+", package["version"]))
    check("it says which editors it runs in", re.fullmatch(r"\^\d+\.\d+\.\d+", package["engines"]["vscode"]))
    check("its categories are known", set(package["categories"]) <= {"Programming Languages"})
    # Since 1.74 the language that an extension contributes activates it, without activationEvents.
    check("it is activated by its language", tuple(map(int, package["engines"]["vscode"][1:].split("."))) >= (1, 74, 0))
    settings = package["contributes"]["configuration"]["properties"]
    check("its settings have types, defaults and descriptions", all({"type", "default", "description"} <= set(of) for of in settings.values()))
    used = set(re.findall(r'getConfiguration\("(\w+)"\)\.get\("(\w+)"\)', (VSCODE / package["main"]).read_text()))
    check("it reads the settings that it has", {".".join(pair) for pair in used} == set(settings), used)
    needed = set(re.findall(r'require\("([^"/]+)', (VSCODE / package["main"]).read_text()))
    check("it depends on what it requires", needed == {"vscode"} | set(package["dependencies"]), needed)
    languages = {language["id"] for language in package["contributes"]["languages"]}
    check("its grammars are of its languages", {grammar["language"] for grammar in package["contributes"]["grammars"]} <= languages)


def test_vscode():
    """The extension names files that exist, and shows the answers of `pkc lsp`; the editor and its client are stubs that run in Node."""
    package = json.loads((VSCODE / "package.json").read_text())
    test_manifest(package)
    language, grammar = package["contributes"]["languages"][0], package["contributes"]["grammars"][0]
    for path in (package["main"], language["configuration"], grammar["path"]):
        check(f"the extension has {path}", (VSCODE / path).is_file())
    check("its scope is that of the grammar", grammar["scopeName"] == json.loads((VSCODE / grammar["path"]).read_text())["scopeName"])
    check("its configuration is JSON", json.loads((VSCODE / language["configuration"]).read_text())["comments"]["lineComment"] == "//")
    if not shutil.which("node"):
        print("SKIPPED grammars, the extension of VS Code: needs node")
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STUBS.items():
            path = pathlib.Path(folder, "node_modules", name + ("/index.js" if "/" not in name else ".js"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        script = pathlib.Path(folder) / "run.js"
        script.write_text(RUN_EXTENSION)
        state = {**os.environ, "NODE_PATH": f"{folder}/node_modules", "PK_SERVER": str(PKC)}
        done = subprocess.run(["node", script, VSCODE, package["main"], EXTENDED], capture_output=True, text=True, env=state, timeout=120)
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    if not check("the extension runs", len(rows) == 5 and not done.stderr, done.stdout + done.stderr):
        return
    default, begun, (diagnostic,), hover, status = rows
    check("it starts the program of the setting with lsp", [default, begun] == ["pkc", ["pkc", ["lsp"], {"documentSelector": [{"language": language["id"]}]}]], begun)
    check("the editor gets the diagnostics", "did you mean `twice`" in diagnostic["message"] and diagnostic["range"]["start"] == {"line": 2, "character": 11}, diagnostic)
    check("the editor gets the hover", "value twice: f32[8]" in hover["contents"]["value"], hover)
    check("the server ends with the extension", status == 0, status)


GROUPS = {"Type": "type", "Number": "number", "String": "string", "Escape": "string", "Comment": "comment", "Boolean": "keyword"}
SHOW_VIM = """
set nocompatible hidden encoding=utf-8 noswapfile viminfo=
let &runtimepath = $PK_VIM . ',' . &runtimepath
filetype plugin on
syntax on
let s:found = []
for s:path in readfile($PK_FILES)
  execute 'edit' fnameescape(s:path)
  let s:rows = []
  for s:line in range(1, line('$'))
    call add(s:rows, map(range(1, len(getline(s:line))), 'synID(s:line, v:val, 1)'))
  endfor
  let s:names = {}
  for s:row in s:rows
    for s:id in s:row
      if !has_key(s:names, s:id)
        let s:names[s:id] = synIDattr(s:id, 'name')
      endif
    endfor
  endfor
  call add(s:found, [&filetype, &commentstring, s:names, s:rows])
  bwipeout
endfor
call writefile([json_encode(s:found)], $PK_OUT)
qall!
"""


def test_vim(known):
    """The syntax file in Vim and in Neovim, if they are installed."""
    names = sampled(known, 40, 12, "files in Vim")
    for editor, start in (("vim", ["-u", "NONE", "-i", "NONE", "-es"]), ("nvim", ["--headless", "-u", "NONE", "-es"])):
        if not shutil.which(editor):
            print(f"SKIPPED grammars, the syntax file in {editor}: it is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            paths = {"PK_VIM": ROOT / "docs" / "editors" / "vim", "PK_FILES": f"{folder}/files", "PK_OUT": f"{folder}/out"}
            pathlib.Path(paths["PK_FILES"]).write_text("".join(f"{ROOT / name}\n" for name in names))
            script = pathlib.Path(folder) / "show.vim"
            script.write_text(SHOW_VIM)
            state = {**os.environ, "HOME": folder, **{name: str(path) for name, path in paths.items()}}
            done = subprocess.run([editor, *start, "-S", script], capture_output=True, text=True, env=state, stdin=subprocess.DEVNULL, timeout=500)
            if not check(f"{editor} reads the syntax file", pathlib.Path(paths["PK_OUT"]).is_file(), done.stdout + done.stderr):
                continue
            shown = json.loads(pathlib.Path(paths["PK_OUT"]).read_text())
        for name, (kind, comment, groups, rows) in zip(names, shown):
            check(f"{name}: {editor} knows the file", [kind, comment] == ["pk", "// %s"], [kind, comment])
            text, theirs = known[name]
            of = {int(number): group_class(group) for number, group in groups.items()}
            ours = [(word.encode("latin-1").decode(), kind) for line, ids in zip(text.split("\n"), rows) for word, kind in runs(line.encode().decode("latin-1"), map(of.get, ids))]
            check(f"{name}: {editor} shows the classes of the compiler", ours == theirs, first_difference(ours, theirs))


def group_class(group):
    name = group.removeprefix("pk")
    return "keyword" if name.endswith("Keyword") else GROUPS.get(name)


def first_difference(ours, theirs):
    at = next((k for k, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
    return f"token {at}: {ours[max(at - 2, 0) : at + 2]}, expected {theirs[max(at - 2, 0) : at + 2]}"


def main():
    test_written()
    test_words()
    known = known_files()
    test_pygments(known)
    test_codemirror(known)
    test_tree_sitter(known)
    test_textmate(known)
    test_vscode()
    test_vim(known)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
