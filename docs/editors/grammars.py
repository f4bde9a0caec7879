#!/usr/bin/env python3
"""Writes the grammars of .pk that editors and other programs read, from the compiler's tables (words.py).

    docs/editors/grammars.py            writes them into the tree
    docs/editors/grammars.py FOLDER     writes them below another folder
"""
import json
import pathlib
import re
import sys
import textwrap

import textmate
import treesitter
import vim
import words

PYGMENTS = "python/pkc/_pygments.py"


def filled(path, text):
    """A file of the tree with other text between its two lines `# ----`."""
    return re.sub(r"(?ms)^(# ---- the words .*?\n).*?^(# ----\n)", lambda old: old[1] + text + old[2], words.read(path), count=1)


def literal(value):
    """A text, or a tuple of texts, as Python's source, by lines that are not too long."""
    if isinstance(value, str):
        return json.dumps(value)
    row = ", ".join(map(json.dumps, value))
    if len(row) < 120:
        return f"({row})"
    return f"(\n{textwrap.fill(row, 136, initial_indent='    ', subsequent_indent='    ')},\n)"


def dictionary(of):
    return "{\n" + "".join(f"    {literal(key)}: {literal(value)},\n" for key, value in of.items()) + "}"


def pygments():
    number = words.literals()
    values = {
        "RESERVED": words.spelled("RESERVED"), "DTYPES": words.dtypes(), "FUNCTIONS": words.functions(), "SYMBOLS": words.symbols(),
        "FLOAT": number["FLOAT"], "INT": number["INT"], "ESCAPES": re.escape(words.escapes()),
    }
    tables = {"CONTEXTS": words.contexts(), "FOLLOWERS": words.follower_patterns()}
    return filled(PYGMENTS, "".join(f"{name} = {literal(value)}\n" for name, value in values.items()) + "".join(f"{name} = {dictionary(value)}\n" for name, value in tables.items()))


def codemirror():
    """The states of a simple mode of CodeMirror 5, which matches at the start of words."""
    number = words.literals()
    contexts = words.contexts()
    text = [
        {"regex": "//.*", "token": "comment"},
        {"regex": r"/\*", "token": "comment", "push": "comment"},
        {"regex": rf'"(?:[^"\\]|\\[{re.escape(words.escapes())}])*"', "token": "string"},
        {"regex": "|".join(map(words.keyword, words.spelled("RESERVED"))), "token": "keyword"},
        {"regex": rf"(?:{'|'.join(words.dtypes())})\b", "token": "type"},
        {"regex": rf"(?:{'|'.join(words.functions())})(?=\s*\()", "token": "builtin"},
        {"regex": r"[A-Za-z_]\w*(?=\s*\()", "token": "def"},
        {"regex": r"[A-Za-z_]\w*", "token": "variable"},
        {"regex": f"{number['FLOAT']}|{number['INT']}", "token": "number"},
    ]
    states = {
        "start": [{"regex": words.keyword(word), "token": "keyword", "push": word} for word in contexts] + text,
        "comment": [{"regex": r".*?\*/", "token": "comment", "pop": True}, {"regex": ".*", "token": "comment"}],
    }
    for word, special in contexts.items():
        states[word] = [{"regex": "[;{]", "pop": True}, {"regex": "|".join(map(words.keyword, special)), "token": "keyword"}, *text]
    return states


TREE_SITTER = "docs/editors/tree-sitter-pk"
FILES = {
    PYGMENTS: pygments,
    f"{TREE_SITTER}/grammar.js": treesitter.grammar_js,
    f"{TREE_SITTER}/src/grammar.json": treesitter.grammar_json,
    f"{TREE_SITTER}/queries/highlights.scm": treesitter.highlights,
    "docs/editors/vscode/syntaxes/pk.tmLanguage.json": textmate.grammar,
    "docs/editors/vim/syntax/pk.vim": vim.syntax,
}


def main(folder=words.ROOT):
    for path, text in FILES.items():
        to = pathlib.Path(folder) / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
