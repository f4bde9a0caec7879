"""The syntax of .pk for Vim, from the compiler's tables (words.py)."""
import words

LINKS = {
    "Keyword": "Keyword", "Boolean": "Boolean", "Type": "Type", "Builtin": "Function", "Function": "Identifier", "Number": "Number", "String": "String",
    "Escape": "SpecialChar", "Comment": "Comment", "Operator": "Operator",
}


def pattern(expression):
    r"""A regular expression of Python's form as one of Vim's very magic form, between slashes."""
    return "/\\v" + expression.replace("(?:", "%(").replace(r"\b", ">").replace("/", r"\/") + "/"


def keyword(word):
    """A keyword; one that may be a name is a keyword if what follows it fits, on the next lines too."""
    after = words.follower_patterns().get(word)
    return rf"{word}>%(\_s*%({after}))@=" if after else f"{word}>"


def alternatives(of):
    return f"<%({'|'.join(of)})"


def contexts():
    """Regions of declarations and statements in which some names are keywords, to the next `;` or `{`."""
    for word, special in words.contexts().items():
        region, inside = f"pkOf{word.capitalize()}", f"pk{word.capitalize()}Keyword"
        yield f"syntax match {inside} {pattern(alternatives(map(keyword, special)))} contained"
        yield f"syntax region {region} matchgroup=pkKeyword start={pattern('<' + keyword(word))} matchgroup=NONE end=/[;{{]/ contains=@pkText,{inside}"
        yield f"highlight default link {inside} pkKeyword"


def syntax():
    """Of the items that match at a place, `syntax keyword` wins, then the last one: so words that begin regions are matches, and comments follow operators."""
    number, first = words.literals(), words.contexts()
    reserved = [word for word in words.spelled("RESERVED") if word not in ("true", "false")]
    operators = "".join(sorted({mark[0] for mark in words.symbols()} - set("()[]{},;:"), key=lambda mark: (mark != "-", mark)))
    escape = "\\\\[" + words.escapes().replace("\\", "\\\\") + "]"
    rows = [
        '" Written by docs/editors/grammars.py from the tables of the compiler.',
        'if exists("b:current_syntax")',
        "  finish",
        "endif",
        "syntax case match",
        "syntax sync fromstart",
        f"syntax cluster pkText contains={','.join('pk' + name for name in LINKS if name != 'Escape')}",
        f"syntax keyword pkKeyword {' '.join(word for word in reserved if word not in first)}",
        "syntax keyword pkBoolean true false",
        f"syntax keyword pkType {' '.join(words.dtypes())}",
        f"syntax match pkKeyword {pattern(alternatives(word for word in reserved if word in first) + '>')}",
        f"syntax match pkOperator @[{operators}]@",
        r"syntax match pkFunction /\v<[A-Za-z_]\w*>%(\s*\()@=/",
        f"syntax match pkBuiltin {pattern(alternatives(words.functions()))[:-1]}>%(\\s*\\()@=/",
        f"syntax match pkNumber {pattern('<%(' + number['FLOAT'] + '|' + number['INT'] + ')>')}",
        f"syntax match pkEscape /{escape}/ contained",
        r'syntax match pkString /"\%([^"\\]\|\\.\)*"/ contains=pkEscape',
        "syntax match pkComment +//.*+ contains=@Spell",
        r"syntax region pkComment start=+/\*+ end=+\*/+ contains=@Spell",
        *contexts(),
        *(f"highlight default link pk{name} {to}" for name, to in LINKS.items()),
        'let b:current_syntax = "pk"',
    ]
    return "\n".join(rows) + "\n"
