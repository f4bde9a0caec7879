"""The grammar of .pk for TextMate, which VS Code reads, from the compiler's tables (words.py)."""
import json
import re

import words


def alternatives(of):
    return rf"\b(?:{'|'.join(of)})"


def rule(scope, match):
    return {"name": scope + ".pk", "match": match}


def text():
    """The rules that hold everywhere; the first of those that match at a place wins."""
    number = words.literals()
    reserved = [word for word in words.spelled("RESERVED") if word not in ("true", "false")]
    operators = [mark for mark in words.symbols() if mark not in "()[]{},;:"]
    escape = rf"\\[{re.escape(words.escapes())}]"
    return [
        rule("comment.line.double-slash", "//.*"),
        {"name": "comment.block.pk", "begin": r"/\*", "end": r"\*/"},
        {"name": "string.quoted.double.pk", "begin": '"', "end": '"|$', "patterns": [rule("constant.character.escape", escape)]},
        rule("constant.language", r"\b(?:true|false)\b"),
        rule("keyword.control", alternatives(map(words.keyword, reserved))),
        rule("support.type", alternatives(words.dtypes()) + r"\b"),
        rule("support.function", alternatives(words.functions()) + r"(?=\s*\()"),
        rule("entity.name.function", r"\b[A-Za-z_]\w*(?=\s*\()"),
        rule("constant.numeric", rf"\b(?:{number['FLOAT']}|{number['INT']})\b"),
        rule("keyword.operator", "|".join(map(re.escape, operators))),
    ]


def contexts():
    """Declarations and statements in which some names are keywords, to the next `;` or `{`."""
    for word, special in words.contexts().items():
        inside = [rule("keyword.control", alternatives(map(words.keyword, special))), {"include": "#text"}]
        yield {"begin": rf"\b{words.keyword(word)}", "beginCaptures": {"0": {"name": "keyword.control.pk"}}, "end": "[;{]", "patterns": inside}


def grammar():
    whole = {
        "name": "pk",
        "scopeName": "source.pk",
        "fileTypes": ["pk"],
        "patterns": [*contexts(), {"include": "#text"}],
        "repository": {"text": {"patterns": text()}},
    }
    return json.dumps(whole, indent=1) + "\n"
