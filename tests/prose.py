#!/usr/bin/env python3
"""Checks comments, messages, --help and documents against a few rules.

PHRASES lists phrases that are hard to read and must not return. A line of a document has one sentence, as far as full stops show.
Files, folders, identifiers, and functions with their files that docs/hacking.md, docs/architecture.md and README.md name must exist.

`tests/prose.py FILE..` checks only these files.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys

from suite import ROOT, check, finish

# A pattern, and what to write instead.
PHRASES = [
    (r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer|more|less|later|earlier|further|wider|smaller|larger|better|worse|greater)", "is not a"),
    (r"\bwants?\b(?! to\b)", "requires, needs, or expected"),
    (r"\bstands?\b(?! for\b| in for\b|-in)", "is"),
    (r"\b(?:[Nn]obody|[Aa]nybody|[Ww]hoever)\b", "nothing, no one, or the one who; better: the passive"),
    (r"\bas (?:it|they) (?:lies?|stands?)\b|\bwhere (?:it|they) lies?\b(?! (?:in|on|inside|outside|past|partly)\b)", "in place, unchanged, as is"),
    (r"\bturned over\b|\bin its stead\b|\bone too many\b|\bput right\b|\bgoes without saying\b", "the usual term"),
    (r"\bgoes? on (?:from|with|where)\b", "continues"),
    (r"\badds? nothing up\b|\bnothing (?:here )?is called\b|\bkeeps? quiet\b", "what is meant"),
    (r"^(?://|/\*|#) \.\.(?!\.)", "a sentence of its own"),
    (r"\bnot built yet\b", "not implemented yet"),
    (r"\bhas not (?:it|the|a|an|any)\b", "does not have"),
]
# The same, for documents only (DOCUMENTS).
DOC_PHRASES = [
    (r", of which\b", "a sentence of its own, or `whose`"),
    (r"\bbehind\b", "after, or what follows"),
    (r"\bbeside\b", "next to, outside, in parallel with, or compared with"),
    (r"\bso many\b", "the number, or as many as"),
    (r"\bone (?:after|behind) the other\b", "in order, contiguous, or one after another"),
    (r"\bby turns\b", "alternately"),
    (r"\bpast the caches\b", "non-temporal"),
    (r"\bfor sure\b|\b(?:is|are) sure to\b|\bsurely\b", "provably, or certainly"),
    (r"\b(?:all|everything|anything|any) but\b|, but for\b", "except"),
    (r"\bholds?\b[^.|\n]*\bagainst\b", "compares with"),
    (r"\ball the same\b", "nevertheless"),
    (r"\bleft aside\b|\bleaves? aside\b", "ignored"),
    (r"\b(?:is|are|goes|go|read|stored?|used) as (?:it is|they are)\b", "unchanged, or in place"),
    (r"\bin place of\b", "instead of"),
    (r"\blies?\b", "is"),
    (r"\bsays? otherwise\b", "gives another"),
    (r"\bin step\b", "in lockstep"),
    (r"\bat a go\b|\bin a go\b", "at once"),
    (r"\bmakes? of (?:it|them)\b", "the verb that is meant"),
]
DOCUMENTS = re.compile(r"README\.md$|^docs/.*\.md$")
README_LINES = 120
LOOKED_AT = (".c", ".h", ".def", ".y", ".re", ".pk", ".py", ".md", ".sh", ".1")
LEFT_OUT = ("tests/fuzzing/corpus/", "tests/tpu/published/", "tests/prose.py", "codegen/ir/names.def")
C_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
PY_TEXT = re.compile(r"\"\"\".*?\"\"\"|#[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|^    [^\n]*$", re.M | re.S)


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def texts(path, text):
    """(offset, prose) for each piece of prose in a file."""
    if path.endswith((".md", ".1")):
        yield 0, CODE.sub(blank, text)
        return
    for found in (PY_TEXT if path.endswith((".py", ".sh")) else C_TEXT).finditer(text):
        # a text continues on the next line of a comment or string
        joined = re.sub(r"\n[ \t]*(?://|\*)", lambda m: " " * len(m[0]), found[0])
        yield found.start(), re.sub(r"[ \n]+", lambda m: " " + "\0" * (len(m[0]) - 1), re.sub(r"`[^`]*`", blank, joined))


def wrong_phrases(path, text):
    for offset, prose in texts(path, text):
        plain = prose.replace("\0", "") if not path.endswith((".md", ".1")) else prose
        if path.endswith(".py"):
            plain = re.sub(r"\{[^{}]*\}", blank, plain)  # expressions in f-strings
        for pattern, instead in PHRASES + DOC_PHRASES * bool(DOCUMENTS.search(path)):
            for found in re.finditer(pattern, plain):
                line = text.count("\n", 0, offset) + 1 + (plain.count("\n", 0, found.start()) if path.endswith((".md", ".1")) else 0)
                yield f"{path}:{line}: `{found[0].strip()}`: write {instead}"


def two_sentences(path, text):
    """Lines of documents on which one sentence ends and another begins."""
    for number, line in enumerate(CODE.sub(blank, text).splitlines(), 1):
        if re.search(r"[a-z)]{2}\. +[A-Z][a-z]+ ", line) and not line.lstrip().startswith(("|", "#", "![")) and line[:4] != "    ":
            yield f"{path}:{number}: a second sentence on the line"


# ---- names of files and functions

NAMED = ["README.md", "docs/hacking.md", "docs/architecture.md"]
FOLDERS = ["", "codegen/", "include/", "include/pk/", "runtime/", "tests/", "tests/randomized/", "python/", "docs/", "dsl/"]
MADE = {"build/", "path/", "a.npy", "b.npy", "c.npy", "softmax.c", "softmax.h", "softmax.py", "dlpack.h"}


def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    return [name for name in listed if name] or [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if "build" not in p.parts]


def exists(name, listed, bases):
    wild = re.escape(name.rstrip("/")).replace(r"\*", "[^/]*")
    wild = re.sub(r"\\{([^}]*)\\}", lambda m: "(?:%s)" % m[1].replace(",", "|"), wild)
    return name in bases or any(re.search(rf"(?:^|/){wild}(?:/|$)", path) for path in listed)


def missing_names(path, text, listed):
    bases = {os.path.basename(name) for name in listed}
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for code in re.findall(r"`([^`\n]+)`", plain):
        for name in re.findall(r"(?<![\w./<-])((?:[\w*{},-]+/)*[\w*{},-]+\.(?:c|h|def|py|sh|re|y|md|pk|txt))(?![\w.])", code):
            if "NAME" not in name and "FILE" not in name and name not in MADE and not name.startswith("build/") and not exists(name, listed, bases):
                yield f"{path} names {name}, which does not exist"
    # `function` (`file`)
    for function, file in re.findall(r"`([a-z_0-9]+)` \(`([\w/.]+\.[ch])`\)", plain):
        homes = [name for name in listed if name.endswith("/" + file) or name == file]
        if homes and not any(re.search(rf"\b{function}\b", (ROOT / home).read_text(encoding="utf-8")) for home in homes):
            yield f"{path} names {function} of {file}, which does not have it"
    if path == "docs/hacking.md":
        yield from missing_identifiers(path, plain)


@functools.cache
def words_of_sources():
    sources = [name for name in files() if name.endswith((".c", ".h", ".def", ".py", ".sh", ".y", ".re")) or name == "GNUmakefile"]
    return {word for name in sources if (ROOT / name).is_file() for word in re.findall(r"\w+", (ROOT / name).read_text(encoding="utf-8", errors="replace"))}


def missing_identifiers(path, plain):
    """Names with an underscore or in capitals, such as `ir_put`, `RULES` and the words of `PK_WIDE_PARTWISE(exp3)`.

    NAME in a name, as in `verb_NAME`, is a placeholder; codes of diagnostics are numbers in dsl/errors.def.
    """
    for code in re.findall(r"`([^`\n]+)`", plain):
        for name in re.findall(r"(?<![\w./<-])(?:[A-Za-z]\w*_\w*|_\w+|[A-Z][A-Z0-9_]{2,})(?![\w./>*])", code):
            if "NAME" not in name and not re.fullmatch(r"E\d{4}", name) and name not in words_of_sources():
                yield f"{path} names {name}, which no source has"


def main():
    listed = files()
    chosen = [n for n in listed if n.endswith(LOOKED_AT) or n == "GNUmakefile"]
    if sys.argv[1:]:
        chosen = [os.path.relpath(os.path.abspath(name), ROOT) for name in sys.argv[1:]]
    chosen = [n for n in chosen if not n.startswith(LEFT_OUT) and (ROOT / n).is_file()]
    for path in chosen:
        text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
        wrong = list(wrong_phrases(path, text))
        if path.startswith("docs/") and path.endswith(".md") and path != "docs/changes.md" or path == "README.md":
            wrong += two_sentences(path, text)
        if path == "README.md" and text.count("\n") > README_LINES:
            wrong.append(f"{path} has {text.count(chr(10))} lines, more than {README_LINES}")
        if path in NAMED:
            wrong += missing_names(path, text, listed)
        for line in wrong:
            check(line, False)
        if not wrong:
            check(path, True)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
