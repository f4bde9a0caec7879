#!/usr/bin/env python3
"""`pkc lsp`, as an editor uses it: a client of the Language Server Protocol over pipes.

Documents are edited incrementally and as wholes, in both encodings of positions; then come texts of cases that are cut off anywhere, and
messages that violate the protocol.

    tests/lsp.py --every-prefix [PART/PARTS]    only texts that are cut off, after each character of every file: an hour
"""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from sampling import sampled
from suite import PKC, ROOT, check, def_rows, finish

METHODS = {row[0]: row for row in def_rows("codegen/verbs/lsp/methods.def", "REQUEST")}
ABOUT_DOCUMENTS = [name for name in METHODS if name.startswith("textDocument/")]


class Server:
    def __init__(self, utf8=False, start=True):
        self.process = subprocess.Popen([PKC, "lsp", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.ids, self.diagnostics, self.answers = 0, {}, {}
        if start:
            capabilities = {"general": {"positionEncodings": ["utf-8", "utf-16"]}} if utf8 else {}
            self.capabilities = self.ask("initialize", {"processId": None, "capabilities": capabilities})["capabilities"]
            self.tell("initialized", {})

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def tell(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method, params):
        self.ids += 1
        self.send({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params})
        return self.ids

    def read(self):
        length = 0
        while (line := self.process.stdout.readline()) != b"\r\n":
            if not line:
                raise EOFError(self.process.stderr.read().decode(errors="replace"))
            name, value = line.split(b":")
            length = int(value) if name == b"Content-Length" else length
        message = json.loads(self.process.stdout.read(length).decode())
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"], message["params"]["version"]] = message["params"]["diagnostics"]
        else:
            self.answers[message["id"]] = message
        return message

    def answer(self, number):
        while number not in self.answers:
            self.read()
        return self.answers.pop(number)

    def ask(self, method, params):
        answer = self.answer(self.begin(method, params))
        return answer["result"] if "result" in answer else answer["error"]

    def about(self, method, uri="file:///a.pk", **more):
        return self.ask("textDocument/" + method, {"textDocument": {"uri": uri}, **more})

    def open(self, text, uri="file:///a.pk", version=1):
        self.tell("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "pk", "version": version, "text": text}})

    def change(self, changes, version, uri="file:///a.pk"):
        self.tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": changes})

    def said(self, version=1, uri="file:///a.pk"):
        while (uri, version) not in self.diagnostics:
            self.read()
        return self.diagnostics[uri, version]

    def end(self):
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.leave()

    def leave(self):
        """The status of the process, and its standard error."""
        said = self.process.communicate(timeout=60)[1].decode(errors="replace")
        return self.process.returncode, said


def place(text, at, utf8=False):
    """The position of an index of a text."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return {"line": text.count("\n", 0, at), "character": len(line.encode("utf-8" if utf8 else "utf-16-le")) // (1 if utf8 else 2)}


def span(text, part, utf8=False, after=0):
    at = text.index(part, after)
    return {"start": place(text, at, utf8), "end": place(text, at + len(part), utf8)}


def edited(text, edits, utf8=False):
    """The text after edits in ranges."""
    index = {}
    for at in range(len(text), -1, -1):
        where = place(text, at, utf8)
        index[where["line"], where["character"]] = at
    for edit in sorted(edits, key=lambda e: (e["range"]["start"]["line"], e["range"]["start"]["character"]), reverse=True):
        start, end = (index[edit["range"][k]["line"], edit["range"][k]["character"]] for k in ("start", "end"))
        text = text[:start] + edit["newText"] + text[end:]
    return text


GOOD = "// Twice.\n// And once more.\nkernel k(x: f32[M, 8]) -> (o: f32[M, 8]) {\n  static BM = 8;\n  let y = x[...];\n  o[...] = y;\n}\n"


def test_life():
    server = Server(start=False)
    check("before initialize", server.ask("textDocument/foldingRange", {})["code"] == -32002)
    check("initialize", "capabilities" in server.ask("initialize", {"capabilities": {}}))
    check("initialize twice", server.ask("initialize", {"capabilities": {}})["code"] == -32600)
    check("an unknown request", server.ask("textDocument/other", {})["code"] == -32601)
    server.tell("textDocument/other", {})
    server.send({"jsonrpc": "2.0", "id": 999, "result": None})
    check("shutdown", server.ask("shutdown", None) is None)
    check("after shutdown", server.about("foldingRange")["code"] == -32600)
    server.tell("exit", None)
    check("exit", server.leave() == (0, ""))
    server = Server()
    server.tell("exit", None)
    check("exit without shutdown", server.leave()[0] == 1)
    server = Server()
    server.process.stdin.close()
    server.process.stdin = None
    check("end of input", server.leave() == (1, ""))
    server = Server(utf8=True)
    check("the encoding that was asked for", server.capabilities["positionEncoding"] == "utf-8")
    check("capabilities are those of the table", set(server.capabilities) == {"positionEncoding", "textDocumentSync", *(row[2] for row in METHODS.values() if row[2] != "NULL")})
    server.end()


def test_diagnostics(utf8):
    server = Server(utf8)
    text = GOOD.replace("= y;", '= /* 🙂é */ z;')
    server.open(text)
    (one,) = server.said()
    check("an unknown name", one["range"] == span(text, "z", utf8, text.index("*/")) and one["code"] == "E0301" or one["code"].startswith("E"), one)
    check("its message", "unknown name `z`" in one["message"] and one["severity"] == 1, one)
    server.change([{"range": span(text, "z", utf8, text.index("*/")), "text": "y"}], 2)
    check("mended by an edit in a part", server.said(2) == [])
    text = GOOD + "kernel l(x: f32[M, 8]) -> (o: f32[M, 8]) {\n  o[...] = a;\n}\nkernel m(x: f32[M]) -> (o: f32[M]) { o[...] = b; }\n"
    server.change([{"text": text}], 3)
    check("of several kernels", [m["range"] for m in server.said(3)] == [span(text, "a", utf8, text.index("= a")), span(text, "b", utf8, text.index("= b"))], server.said(3))
    twice = GOOD + GOOD
    server.change([{"text": twice}], 4)
    (one,) = server.said(4)
    check("a note is related", one["relatedInformation"][0]["location"]["range"] == span(twice, "k", utf8, twice.index("kernel") + 6), one)
    server.change([{"text": "kernel k(x: f32[M]) -> (o: f32[M]) { o[...] = (x[...]; }"}], 5)
    check("a text that does not parse", len(server.said(5)) == 1)
    server.change([{"text": ""}], 6)
    check("an empty text", server.said(6) == [])
    server.tell("textDocument/didClose", {"textDocument": {"uri": "file:///a.pk"}})
    server.diagnostics.clear()
    check("a closed document has no messages", server.said(6) == [])
    check("nothing is known of a closed document", server.about("foldingRange") is None)
    check("ends well", server.end() == (0, ""))


def test_edits(seed):
    """Incremental edits give the same text as in Python: symbols and foldings are those of that text, opened as a whole."""
    rng = random.Random(seed)
    for utf8 in (False, True):
        server = Server(utf8)
        text, version = GOOD, 1
        server.open(text)
        for step in range(40):
            changes = []
            for _ in range(rng.randrange(1, 4)):
                start = rng.randrange(len(text) + 1)
                end = min(len(text), start + rng.choice((0, 0, 1, 5, 30)))
                new = rng.choice(("", "x", "é🙂", "\n", "// c\n", "fn f(a) = a;\n", "}", "kernel z(x: f32[M]) -> (o: f32[M]) {\n"))
                changes.append({"range": {"start": place(text, start, utf8), "end": place(text, end, utf8)}, "text": new})
                text = text[:start] + new + text[end:]
            version += 1
            server.change(changes, version)
            server.open(text, "file:///b.pk", version)
            for method in ("documentSymbol", "foldingRange", "formatting"):
                check(f"edits {seed}, step {step}, {method}", server.about(method) == server.about(method, "file:///b.pk"))
            if step % 8 == 0:
                check(f"edits {seed}, step {step}, messages", server.said(version) == json.loads(json.dumps(server.said(version, "file:///b.pk")).replace("b.pk", "a.pk")))
        check("ends well", server.end() == (0, ""))


def test_outline():
    server = Server()
    server.open(GOOD)
    (kernel,) = server.about("documentSymbol")
    check("symbols", (kernel["name"], kernel["detail"]) == ("k", "kernel") and [c["name"] for c in kernel["children"]] == ["x", "o", "BM", "y"], kernel)
    check("the range of a symbol", kernel["selectionRange"] == span(GOOD, "k", after=GOOD.index("kernel ") + 7), kernel)
    folds = server.about("foldingRange")
    check("foldings", folds == [{"startLine": 2, "endLine": 5}, {"startLine": 0, "endLine": 1, "kind": "comment"}], folds)
    check("formatting changes nothing", server.about("formatting", options={}) == [])
    loose = GOOD.replace("let y = ", "let  y=").replace("\n", "\r\n")
    server.open(loose, version=2)
    check("formatting", edited(loose, server.about("formatting", options={})) == GOOD)
    cut = GOOD[: GOOD.index("[...];")] + "[(0, \n\n" + GOOD
    server.open(cut, version=3)
    check("a kernel that is cut off within brackets has symbols", [s["name"] for s in server.about("documentSymbol")] == ["k", "k"])
    server.open("kernel k(", version=4)
    check("what does not parse is not formatted", server.about("formatting", options={}) is None)
    check("ends well", server.end() == (0, ""))


def test_every_file():
    """The edits of formatting give what `pkc fmt` writes, and the diagnostics are those of the command line: none for the library."""
    for path in sampled(sorted((ROOT / "kernels").rglob("*.pk")), 20, 5, "kernels"):
        server = Server(utf8=True)
        text = path.read_text()
        server.open(text)
        check(f"{path.name}: no errors", [m for m in server.said() if m["severity"] == 1] == [], server.said())
        loose = text.replace(" = ", "  =  ").replace(";\n", " ;\n")
        server.open(loose, version=2)
        want = subprocess.run([PKC, "fmt", "-"], input=loose, capture_output=True, text=True).stdout
        check(f"{path.name}: formatted", edited(loose, server.about("formatting", options={}), True) == want)
        check(f"{path.name}: ends well", server.end() == (0, ""))


MOST_INSTRUCTIONS = 100_000_000  # about 20 ms


def long_text():
    """A document of 10,000 lines, and the position of a name in the middle."""
    lines = []
    for path in sorted((ROOT / "kernels").glob("*.pk")) * 20:
        lines += path.read_text().split("\n")
        if len(lines) > 10_000:
            break
    row = next(k for k in range(5000, len(lines)) if re.match(r"\s+let \w\w+ =", lines[k]))
    return "\n".join(lines), {"line": row, "character": lines[row].index("let ") + 5}


def instructions(method, text, at, edits):
    """The instructions of a server that gets `edits` edits, each followed by a request, counted by callgrind."""
    document, behind = {"uri": "file:///a.pk"}, {"line": at["line"] + 1, "character": 0}
    said = [("initialize", {"capabilities": {}}, 1), ("textDocument/didOpen", {"textDocument": {**document, "languageId": "pk", "version": 0, "text": text}}, None)]
    for k in range(edits):
        change = {"range": {"start": behind, "end": behind}, "text": "  let fresh = 1;\n"}
        said.append(("textDocument/didChange", {"textDocument": {**document, "version": k + 1}, "contentChanges": [change]}, None))
        said.append((method, params_of(method, at), k + 3))
    data = b""
    for name, params, number in [*said, ("shutdown", None, 2), ("exit", None, None)]:
        body = json.dumps({"jsonrpc": "2.0", "method": name, "params": params, **({"id": number} if number else {})}).encode()
        data += b"Content-Length: %d\r\n\r\n" % len(body) + body
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", PKC, "lsp"], input=data, capture_output=True)
    check(f"{method} is answered", done.returncode == 0 and done.stdout.count(b'"result"') == edits + 2 and b'"error"' not in done.stdout, done.stderr)
    return int(re.search(rb"Collected : (\d+)", done.stderr)[1])


def test_costs():
    """A request after an edit in 10,000 lines: only the edited declaration is parsed again."""
    if not shutil.which("valgrind"):
        print("SKIPPED lsp, the instructions of requests: there is no valgrind")
        return
    text, at = long_text()
    for method in sampled(ABOUT_DOCUMENTS, 4, 1, "methods"):
        first, second = (instructions(method, text, at, edits) for edits in (1, 2))
        check(f"{method} in 10,000 lines takes at most {MOST_INSTRUCTIONS} instructions", second - first < MOST_INSTRUCTIONS, second - first)


def params_of(method, position, uri="file:///a.pk"):
    return {
        "textDocument": {"uri": uri}, "position": position, "range": {"start": position, "end": {"line": position["line"] + 2, "character": 0}},
        "newName": "renamed", "options": {}, "context": {"diagnostics": [], "includeDeclaration": True},
    }


def test_prefixes():
    """Calls every method at the end of texts that are cut off anywhere."""
    paths = sorted((ROOT / "tests/cases").rglob("*.pk")) + sorted((ROOT / "kernels").rglob("*.pk"))
    rng = random.Random(1)
    for path in sampled(paths, 60, 20, "files"):
        text = path.read_text(errors="replace")
        server = Server(utf8=True)
        cuts = range(len(text) + 1) if len(text) < 400 else sorted(rng.sample(range(len(text)), 60))
        try:
            for version, cut in enumerate(cuts):
                server.open(text[:cut], version=version)
                at = rng.choice((cut, rng.randrange(cut + 1)))
                pending = [server.begin(method, params_of(method, place(text, at, True))) for method in ABOUT_DOCUMENTS]
                bad = [a for a in map(server.answer, pending) if "result" not in a]
                check(f"{path.name} up to {cut}", not bad, bad)
            check(f"{path.name}: ends well", server.end() == (0, ""))
        except (EOFError, BrokenPipeError) as problem:
            server.process.wait(10)
            check(f"{path.name}: crashed with {server.process.returncode} at {cut}", False, problem)


def every_prefix(part, parts):
    """Types each file of the cases, kernels and examples, and calls every method after each character."""
    paths = sorted(path for folder in ("tests/cases", "kernels", "examples") for path in (ROOT / folder).rglob("*.pk"))
    done = 0
    for path in paths[part - 1 :: parts]:
        text, server = path.read_text(errors="replace"), Server(utf8=True)
        server.open("", version=0)
        try:
            for cut in range(1, len(text) + 1):
                start, end = place(text, cut - 1, True), place(text, cut, True)
                server.change([{"range": {"start": start, "end": start}, "text": text[cut - 1]}], cut)
                pending = [server.begin(method, params_of(method, end)) for method in ABOUT_DOCUMENTS]
                bad = [a for a in map(server.answer, pending) if "result" not in a]
                if bad:
                    check(f"{path.name} up to {cut}", False, bad)
                server.said(cut)
                server.diagnostics.clear()
                done += 1
            check(f"{path.name}: ends well", server.end() == (0, ""))
        except (EOFError, BrokenPipeError) as problem:
            server.process.wait(10)
            check(f"{path.name}: crashed with {server.process.returncode} at {cut}", False, problem)
    print(f"{done} texts of {len(paths[part - 1 :: parts])} files, {len(ABOUT_DOCUMENTS)} requests each")


def test_cancelling():
    server = Server()
    server.open(GOOD)
    number = {"jsonrpc": "2.0", "id": "a", "method": "textDocument/foldingRange", "params": {"textDocument": {"uri": "file:///a.pk"}}}
    cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "a"}}
    both = b""
    for message in (number, cancel):
        body = json.dumps(message).encode()
        both += b"Content-Length: %d\r\n\r\n" % len(body) + body
    server.raw(both)
    check("a cancelled request", server.answer("a").get("error", {}).get("code") == -32800)
    server.send(cancel)
    server.send(number)
    check("a cancellation of something else", "result" in server.answer("a"))
    check("ends well", server.end() == (0, ""))


MALFORMED = [
    b"{", b"[]", b"null", b"1", b'"x"', b"{}", b'{"id": 1}', b'{"method": 1, "id": 2}', b'{"jsonrpc": "2.0", "id": {}, "method": "textDocument/hover"}',
    b'{"method": "textDocument/didOpen"}', b'{"method": "textDocument/didOpen", "params": []}', b'{"method": "textDocument/didOpen", "params": {"textDocument": {"uri": 1, "text": 2}}}',
    b'{"method": "textDocument/didChange", "params": {"textDocument": {"uri": "file:///a.pk"}, "contentChanges": [1, {}, {"range": 1, "text": ""}, {"range": {"start": {"line": -1}}, "text": "q"}]}}',
    b'{"method": "textDocument/didChange", "params": {"textDocument": {"uri": "file:///none.pk"}, "contentChanges": [{"text": "q"}]}}',
    b'{"method": "textDocument/didClose", "params": {"textDocument": {"uri": "file:///none.pk"}}}',
    b'{"method": "$/cancelRequest", "params": {"id": null}}', b'{"method": "$/cancelRequest"}', b'{"method": "exit", "id": ', b"[" * 100_000, b'{"a":' * 1000, b'"\\ud800"', b"\xff\xfe", b"",
    b'{"id": 1e400, "method": "shutdown" ', b'{"method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file:///z.pk", "text": "\\u0000kernel\\ud83d(\xff"}}}',
]


def test_malformed():
    server = Server()
    server.open(GOOD)
    for body in MALFORMED:
        server.raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        check(f"alive after {body[:60]}", isinstance(server.ask("textDocument/foldingRange", {"textDocument": {"uri": "file:///a.pk"}}), (list, dict)))
    for method in ABOUT_DOCUMENTS:
        for params in (None, [], 1, {}, {"textDocument": 1}, {"textDocument": {"uri": "file:///a.pk"}},
                       {"textDocument": {"uri": "file:///a.pk"}, "position": 1}, params_of(method, {"line": 1e9, "character": 1e15}), params_of(method, {"line": -5, "character": -1}),
                       params_of(method, {"line": 1.5, "character": "x"})):
            answer = server.answer(server.begin(method, params))
            check(f"{method} of {params}", "result" in answer or answer["error"]["code"] in (-32602, -32803), answer)
    check("a request in place of a notification", server.ask("exit", None)["code"] == -32601)
    check("ends well", server.end() == (0, ""))
    good = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "shutdown"}).encode()
    for what, head, status in (("another case", b"content-length:%d\r\nContent-Type: x\r\n\r\n" % len(good), None), ("line feeds", b"Content-Length: %d \n\n" % len(good), None),
                               ("no length", b"Content-Type: x\r\n\r\n", 1), ("a negative one", b"Content-Length: -5\r\n\r\n", 1), ("words", b"Content-Length: ten\r\n\r\n", 1),
                               ("more than memory", b"Content-Length: 99999999999999999999999\r\n\r\n", 1), ("no header", b"x" * 10_000, 1)):
        server = Server()
        server.raw(head + good)
        if status is None:
            check(f"a header with {what}", "result" in server.answer(5))
            server.tell("exit", None)
            check(f"a header with {what}: ends well", server.leave() == (0, ""))
        else:
            check(f"a header with {what} ends the server", server.leave() == (status, ""))


NAMES = """fn twice(v) = v + v;
kernel k(x: f32[M, 8]) -> (o: f32[M, 8]) {
  static BM = 8;
  grid (i in cdiv(M, BM));
  block x, o: [BM, 8] at (i, 0);
  let y = twice(x[...]);
  for n in 0..2 { let y = y + 1; print("y", y); }
  o[...] = y;
}
reference k { let y = twice(x); o = y; }
program p(a: f32[M, 8]) -> (b: f32[M, 8]) { b = k(a, BM = 4); }
"""


def places(text, *parts):
    """The range of the last letter of each part."""
    return [span(text, part[-1], after=text.index(part) + len(part) - 1) for part in parts]


def test_names():
    server = Server()
    server.open(NAMES)
    check("no messages", server.said() == [])
    for what, parts in {
        "a static": ("static B", "M, B", "[B", "(a, B"), "a size": ("f32[M", "o: f32[M", "cdiv(M"), "a parameter": ("twice(v", "= v", "+ v"), "an axis": ("(i", "at (i"),
        "an operand": ("k(x", "block x", "twice(x", "k { let y = twice(x"), "a kernel": ("kernel k", "reference k", "b = k"), "an output": ("(o", "x, o", "  o", "; o"),
        "a value": ("let y", "let y = y", "o[...] = y"), "one that hides it": ("{ let y", ", y"), "that of a reference": ("k { let y", "o = y"),
    }.items():
        want = [s["start"] for s in places(NAMES, *parts)]
        for use in want:
            declared = server.about("definition", position=use)
            check(f"the definition of {what}", declared and declared["range"]["start"] == want[0], declared)
        for all_of in (True, False):
            uses = server.about("references", position=want[0], context={"includeDeclaration": all_of}) or []
            check(f"references of {what}", [u["range"]["start"] for u in uses] == want[not all_of :], [uses, want])
    check("a function of the language is declared nowhere", server.about("definition", position=span(NAMES, "cdiv")["start"]) is None)
    at = span(NAMES, "BM")["start"]
    edits = server.about("rename", position=at, newName="ROWS")["changes"]["file:///a.pk"]
    check("rename", edited(NAMES, edits) == NAMES.replace("BM", "ROWS"))
    check("what may be renamed", server.about("prepareRename", position=at) == span(NAMES, "BM") and server.about("prepareRename", position={"line": 0, "character": 0}) is None)
    for name in ("", "1x", "let", "a b", "é", "_", "i", "M", "x"):
        check(f"a static is not renamed to {name!r}", server.about("rename", position=at, newName=name)["code"] in (-32602, -32803))
    check("ends well", server.end() == (0, ""))


def test_completion():
    """Completions after half-typed code, and the parameters of the call around it."""
    server = Server()
    head = "fn twice(v, w) = v + w;\nkernel k(x: f32[M, 8]) -> (o: f32[M, 8]) {\n  static BM = 8;\n  grid (i in cdiv(M, BM));\n  let y = x[...];\n  for n in 0..2 { let inner = n; }\n  "
    tail = "\n}\nkernel other(a: f32[K]) -> (b: f32[K]) { b[...] = a[...]; }\n"
    for line, has, hasnot in (
        ("let z = ", "x o M BM i y twice exp reshape let f32 k".split(), "inner n a K z T axis".split()),
        ("let z = ex", ["exp", "x"], ["inner"]), ("let z = reduce_sum(y, ", ["axis = ", "keep = ", "y"], ["v = x"]), ("let z = y.", ["T", "start"], ["exp", "y"]),
        ("// y", [], ["y"]), ("let z = \"a", [], ["y"]), ("o[...] = (x[0, (y + ", ["y", "exp"], ["axis = "]), ("require M > 0 : \"\" ; let z = f(g(h[", ["M"], []),
    ):
        for end in ("", tail):
            text = head + line + end
            server.open(text)
            offered = [item["label"] for item in server.about("completion", position=place(text, len(head + line)))]
            check(f"{line}: completion", set(has) <= set(offered) and not set(hasnot) & set(offered) and offered.count("y") <= 1, [set(has) - set(offered), set(hasnot) & set(offered)])
    for line, label, active in (
        ("exp(", "exp(v)", 0), ("reduce_sum(x, ", "reduce_sum(v, axis = .., keep = ..)", 1), ("reduce_sum(x, keep = ", "reduce_sum(v, axis = .., keep = ..)", 2),
        ("concatenate(x, y, y", "concatenate(v, .., axis = ..)", 0), ("twice(x[1, 2], ", "twice(v, w)", 1), ("exp((x, [y, ", "exp(v)", 0), ("other(", "other(a)", 0), ("x + ", None, 0), ("exp(x);", None, 0), ("exp(x) + ", None, 0),
    ):
        text = head + "let z = " + line + tail
        server.open(text)
        answer = server.about("signatureHelp", position=place(text, len(head + "let z = " + line)))
        check(f"{line}: signature", answer is None if label is None else answer and (answer["signatures"][0]["label"], answer["activeParameter"]) == (label, active), answer)
    check("ends well", server.end() == (0, ""))


def test_fixes():
    """The edit that a diagnostic proposes removes it: they are applied in order, and none is reported again."""
    server = Server(utf8=True)
    base = GOOD.replace("let y = x[...];", "let yes = x[...];")
    for wrong, title in (("yess", "Write `yes`"), ("exq(yes)", "Write `exp`"), ("yes\n  let z = 1", "Insert `;`"), ("yes = yes", "Write `==`"), ("dot(yes, yes, contrac = 1)", "Write `contract`"),
                         ("cast(yes, float)", "Write `f32`")):
        server.diagnostics.clear()
        server.open(base.replace("= y;", f"= {wrong};"))
        (message, *_) = server.said()
        titles = [a["title"] for a in server.about("codeAction", range=message["range"], context={"diagnostics": []})]
        check(f"{wrong}: {title}", titles == [title], [titles, message["message"]])
    done, version = 0, 1
    for path in sorted((ROOT / "tests/cases/errors").glob("*.pk")):
        text = path.read_text(errors="replace")
        version += 1
        server.open(text, version=version)
        messages = server.said(version)
        for message in messages:
            for action in server.about("codeAction", range=message["range"], context={"diagnostics": [message]}):
                if not message["message"].endswith("?") and "expected `" not in message["message"]:
                    continue
                server.open(edited(text, action["edit"]["changes"]["file:///a.pk"], True), version=version + 1)
                said = [[m["message"] for m in some] for some in (messages, server.said(version + 1))]
                done += check(f"{path.name}: {action['title']} mends `{message['message']}`", said[1].count(message["message"]) < said[0].count(message["message"]), said[1])
                version += 2
                server.open(text, version=version)
                server.said(version)  # code actions belong to the latest diagnostics
    check("many are proposed", done >= 20, done)
    check("ends well", server.end() == (0, ""))


def test_renaming():
    """After a name of the library is renamed, no kernel has errors."""
    rng = random.Random(3)
    for path in sampled(sorted((ROOT / "kernels").rglob("*.pk")), 40, 5, "kernels"):
        server = Server(utf8=True)
        text = path.read_text()
        server.open(text)
        code = re.sub(r"//.*|\"[^\"\n]*\"", lambda m: " " * len(m[0].encode()) if m[0].isascii() else m[0], text)
        words = [(m.start(), m[0]) for m in re.finditer(r"[A-Za-z_]\w*", code)]
        for version, (at, word) in enumerate(rng.sample(words, min(25, len(words))), 2):
            answer = server.about("rename", position=place(text, at, True), newName="fresh_name")
            if answer is None:
                continue
            if check(f"{path.name}: {word} at {at} is renamed", "changes" in answer, answer):
                renamed = edited(text, answer["changes"]["file:///a.pk"], True)
                server.open(renamed, "file:///b.pk", version)
                wrong = [m["message"] for m in server.said(version, "file:///b.pk") if m["severity"] == 1]
                check(f"{path.name}: {word} at {at} renamed", not wrong and renamed != text, wrong)
        check(f"{path.name}: ends well", server.end() == (0, ""))


KNOWN = """fn twice(v) = v + v;
fn half(v) = v * 0.5;
kernel k(x: bf16[M, 8]) -> (o: f32[M, 8]) {
  static BM = 4;
  static W = BM * 3;
  grid (i in cdiv(M, BM));
  block x, o: [BM, 8] at (i, 0);
  scratch s: vmem f32[BM, 8];
  let y = cast(x[...], f32);
  let z = reduce_sum(y, axis = 1);
  s[...] = twice(y) + half(z);
  o[...] = s[...] + half(y);
  /* é🙂
     two */ let e = 1.5;
}
"""


def test_hover():
    server = Server(utf8=True)
    server.open(KNOWN)
    check("no messages", server.said() == [])
    ask = lambda part, text=KNOWN: server.about("hover", position=place(text, text.index(part) + len(part) - 1, True))
    for part, has, hasnot in (
        ("k(x", ["operand x: bf16[M, 8]", "block bf16[BM, 8] in VMEM, 64 bytes, held 2 times", "`pkc explain`", "input"], []), ("static W", ["static W = 12"], ["explain"]),
        ("(i", ["axis i", "cdiv(M, BM)"], []), ("scratch s", ["scratch s: f32[BM, 8]", "128 bytes"], []), ("twice(y", ["value y: f32[BM, 8]", "128 bytes"], []),
        ("half(z", ["value z: f32[BM, 1]", "16 bytes", "line 10"], []), ("half(v", ["parameter v: ", "Other calls give it other shapes"], []), ("twice(v", ["parameter v: f32[BM, 8]"], ["Other"]),
        ("reduce_s", ["reduce_sum(v, axis =, keep =)", "accumulate in f32"], []), ("ca", ["cast(v, T)", "truncates and saturates"], ["static"]), ("bf", ["16 bits"], []), ("fn tw", ["function twice"], []),
    ):
        answer = ask(part)
        text = answer["contents"]["value"] if answer else ""
        check(f"hover over {part}", all(h in text for h in has) and not any(h in text for h in hasnot), text)
    check("the range of a hover", ask("static W")["range"] == span(KNOWN, "W", True), ask("static W"))
    check("nothing is said of an operator", server.about("hover", position=place(KNOWN, KNOWN.index("+ v"), True)) is None)
    broken = KNOWN.replace("twice(y) +", "twise(y) +")
    server.open(broken, version=2)
    text = ask("let z", broken)["contents"]["value"]
    check("a kernel with an error has shapes, and no account", "f32[BM, 1]" in text and "explain" not in text, text)
    missing = [name for name in manual_functions() if server_says_nothing(server, name)]
    check("each function of the language has a hover", not missing, missing)
    check("ends well", server.end() == (0, ""))


def manual_functions():
    """Completion offers the functions of the compiler's tables."""
    server = Server()
    server.open(GOOD)
    items = server.about("completion", position=span(GOOD, "y;")["start"])
    server.end()
    return [item["label"] for item in items if "(" in item.get("detail", "")]


def server_says_nothing(server, name):
    text = f"kernel k(x: f32[8]) -> (o: f32[8]) {{ o[...] = {name}(x[...]); }}"
    server.open(text, version=9)
    return server.about("hover", position=span(text, name + "(")["start"]) is None


def test_hints():
    server = Server()
    server.open(KNOWN)
    lines = KNOWN.split("\n")

    def hints(first, last):
        found = server.about("inlayHint", range={"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}})
        return [lines[h["position"]["line"]][: h["position"]["character"]].split()[-1] + h["label"] for h in found]

    want = ["W = 12", "y: f32[BM, 8]", "z: f32[BM, 1]", "e = 1.5"]
    check("hints of a kernel", hints(2, 20) == want, hints(2, 20))
    check("hints of a part", hints(4, 9) == want[:2], hints(4, 9))
    server.said()
    check("hints of functions, once their callers were lowered", hints(0, 2) == ["twice(v: f32[BM, 8]"], hints(0, 2))
    check("ends well", server.end() == (0, ""))
    server = Server(start=False)
    server.ask("initialize", {"capabilities": {"workspace": {"inlayHint": {"refreshSupport": True}}}})
    server.open(KNOWN)
    while server.read().get("method") != "workspace/inlayHint/refresh":
        pass
    server.send({"jsonrpc": "2.0", "id": "hints", "result": None})
    check("ends well", server.end() == (0, ""))


def tokens_of(server, text, utf8, data=None):
    """(word, type, modifiers) of each token."""
    legend = server.capabilities["semanticTokensProvider"]["legend"]
    lines = [line.encode("utf-8" if utf8 else "utf-16-le") for line in re.split("\r\n|\r|\n", text)]
    unit, line, at, out = (1 if utf8 else 2), 0, 0, []
    data = server.about("semanticTokens/full")["data"] if data is None else data
    for k in range(0, len(data), 5):
        down, right, length, kind, bits = data[k : k + 5]
        line, at = line + down, right if down else at + right
        word = lines[line][at * unit : (at + length) * unit].decode("utf-8" if utf8 else "utf-16-le")
        out.append((word, legend["tokenTypes"][kind], [m for i, m in enumerate(legend["tokenModifiers"]) if bits >> i & 1]))
    return out


def test_tokens():
    for utf8 in (False, True):
        server = Server(utf8)
        for text in (KNOWN, KNOWN.replace("\n", "\r\n")):
            server.open(text)
            tokens = tokens_of(server, text, utf8)
            for want in (("kernel", "keyword", []), ("k", "function", ["declaration"]), ("x", "parameter", ["declaration"]), ("bf16", "type", ["defaultLibrary"]), ("M", "enumMember", ["declaration"]),
                         ("8", "number", []), ("twice", "function", []), ("cast", "function", ["defaultLibrary"]), ("y", "variable", ["readonly"]), ("axis", "property", ["defaultLibrary"]),
                         ("/* é🙂", "comment", []), ("     two */", "comment", []), ("e", "variable", ["declaration", "readonly"])):
                check(f"token {want}", want in tokens, tokens)
            words = [word for word, *_ in tokens]
            code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
            check("all names are there, in their order", [w for w in words if re.match(r"[A-Za-z_]\w*$", w)] == re.findall(r"(?<![\w.])[A-Za-z_]\w*", code))
            start, end = place(text, text.index("scratch"), utf8), place(text, text.index("let z"), utf8)
            part = tokens_of(server, text, utf8, server.about("semanticTokens/range", range={"start": start, "end": end})["data"])
            at = words.index("scratch")
            check("tokens of a range", part == tokens[at : at + len(part)] and tokens[at + len(part)][0] == "let", part)
        check("ends well", server.end() == (0, ""))


def test_slices():
    """For a slice with a run-time start `ds` is proposed, and the proposal is valid."""
    server = Server()
    for wrong, title in (("x[:, i:i + 2]", "ds(i, 2)"), ("x[0:M + i:2, 0:2][0:1]", None), ("x[:, i + 1:i + 1 + 2]", "ds(i + 1, 2)"), ("y[0:K]", "ds(0, K)"), ("y[0:K:2]", "ds(0, cdiv(K, 2), 2)"), ("x[:, i:]", None)):
        text = f"kernel k(x: f32[M, 8], y: f32[N]) -> (o: f32[M, 2], p: f32[K]) {{\n  for i in 0..2 {{ let v = {wrong}; }}\n  o[...] = x[:, 0:2];\n  p[...] = full([K], 0.0);\n}}\n"
        server.diagnostics.clear()
        server.open(text)
        messages = server.said()
        actions = server.about("codeAction", range=messages[0]["range"], context={"diagnostics": []})
        check(f"{wrong}: {title}", [a["title"] for a in actions] == ([f"Write `{title}`"] if title else []), [actions, messages])
        if title and actions:
            server.open(edited(text, actions[0]["edit"]["changes"]["file:///a.pk"]), version=2)
            check(f"{wrong}: {title} is right", server.said(2) == [], server.said(2))
    check("ends well", server.end() == (0, ""))


NEOVIM = """
vim.bo.filetype = "pk"
local id = vim.lsp.start_client({ name = "pkc", cmd = { vim.env.PKC, "lsp" }, root_dir = vim.fn.getcwd() })
vim.lsp.buf_attach_client(0, id)
local said = function(count) return vim.wait(20000, function() return #vim.diagnostic.get(0) == count end, 20) end
local ask = function(method, params)
  params.textDocument = vim.lsp.util.make_text_document_params()
  for _, answer in pairs(vim.lsp.buf_request_sync(0, method, params, 20000)) do return answer.result end
end
local out = { ready = vim.wait(20000, function() return vim.lsp.get_client_by_id(id).initialized end, 20) }
out.none = said(0)
vim.api.nvim_buf_set_text(0, 4, 10, 4, 11, { "é🙂w" })
out.wrong = vim.wait(20000, function() return #vim.diagnostic.get(0) > 0 end, 20)
vim.cmd("undo")
out.mended = said(0)
vim.api.nvim_buf_set_text(0, 4, 10, 4, 11, { "w" })
out.one = said(1)
out.message = vim.diagnostic.get(0)[1]
vim.cmd("undo")
out.symbols = ask("textDocument/documentSymbol", {})
vim.api.nvim_buf_set_text(0, 3, 2, 3, 2, { "    " })
vim.lsp.util.apply_text_edits(ask("textDocument/formatting", { options = { tabSize = 2, insertSpaces = true } }), 0, "utf-16")
out.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), "\\n") .. "\\n"
vim.fn.writefile({ vim.json.encode(out) }, "out.json")
vim.cmd("qa!")
"""


def test_neovim():
    if not shutil.which("nvim"):
        print("SKIPPED lsp in Neovim: nvim is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "a.pk").write_text(GOOD)
        (folder / "test.lua").write_text(NEOVIM)
        state = {**os.environ, "PKC": PKC, "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "CCACHE_DISABLE": "1"}
        done = subprocess.run(["nvim", "--headless", "--clean", "a.pk", "-c", "luafile test.lua"], cwd=folder, env=state, capture_output=True, text=True, timeout=200)
        if not check("Neovim runs", (folder / "out.json").exists(), done.stdout + done.stderr):
            return
        out = json.loads((folder / "out.json").read_text())
        check("Neovim: messages come and go", out["ready"] and out["none"] and out["wrong"] and out["mended"] and out["one"], out)
        check("Neovim: a message", out["message"]["lnum"] == 4 and out["message"]["col"] == 10 and "unknown name `w`" in out["message"]["message"], out["message"])
        check("Neovim: symbols", [s["name"] for s in out["symbols"]] == ["k"], out["symbols"])
        check("Neovim: formatting", out["text"] == GOOD, out["text"])


def test_documents():
    """docs/editors.md has a row for each method."""
    text = (ROOT / "docs/editors.md").read_text()
    for method in ABOUT_DOCUMENTS:
        check(f"docs/editors.md describes {method}", f"`{method}`" in text or f"`{method.split('/')[1]}`" in text)


def main():
    test_documents()
    test_life()
    test_diagnostics(False)
    test_diagnostics(True)
    test_outline()
    test_names()
    test_renaming()
    test_completion()
    test_hover()
    test_hints()
    test_tokens()
    test_slices()
    test_fixes()
    for seed in range(2):
        test_edits(seed)
    test_cancelling()
    test_malformed()
    test_every_file()
    test_costs()
    test_neovim()
    test_prefixes()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--every-prefix"]:
        every_prefix(*map(int, (sys.argv[2] if len(sys.argv) > 2 else "1/1").split("/")))
    else:
        main()
    sys.exit(finish())
