"""The words, literals and rules of the language, from the tables that the compiler is built of. The grammars of editors are made of them (grammars.py)."""
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def tokens():
    """{ID: (spelling or description, class)} of dsl/tokens.def."""
    return {name: (text, kind) for name, text, kind in re.findall(r'^TOKEN\((\w+), "(.*)", (\w+)\)', read("dsl/tokens.def"), re.M)}


def spelled(*classes):
    return [text for text, kind in tokens().values() if kind in classes]


def keywords():
    return spelled("RESERVED", "WORD")


def symbols():
    """The operators and punctuation marks, long ones first."""
    return sorted(spelled("PUNCT", "OPERATOR", "ASSIGNING"), key=lambda text: (-len(text), text))


def dtypes():
    return re.findall(r'^(?:INTEGER|FLOAT)\(\w+, "(\w+)"', read("dsl/dtypes.def"), re.M)


def functions():
    """The functions of the language: rows of codegen/ir/ops.def that are called by name, and of the tables `NAME_builtins` of the lowering."""
    table = re.sub(r"\n +", " ", read("codegen/ir/ops.def")).replace("( ", "(")
    names = set(re.findall(r"^(?:FUNCTION\(\w+, |ALIAS\()(\w+),", table, re.M))
    names.update(name for name, row in re.findall(r"^OPERATOR\(\w+, (\w+),(.*)\)$", table, re.M) if ", INFIX," not in row)
    for path in sorted((ROOT / "codegen/lower").rglob("*.c")):
        for table in re.findall(r"^const Builtin \w+\[\] = \{$(.*?)^\};", path.read_text(encoding="utf-8"), re.M | re.S):
            names.update(re.findall(r'^    (?:\{|REDUCE\()"(\w+)",', table, re.M))
    return sorted(names)


def literals():
    """{"INT" or "FLOAT": regular expression}, from the rules of dsl/lexer.re that report no error."""
    text = read("dsl/lexer.re")
    named = dict(re.findall(r"^    (digit|letter|exponent) = (.*);$", text, re.M))

    def expression(rule):
        for name, meaning in reversed(named.items()):
            rule = re.sub(rf"\b{name}\b", lambda _: meaning if meaning.startswith("[") and meaning.endswith("]") else f"(?:{meaning})", rule)
        return re.sub(r'"(.*?)"', lambda quoted: re.escape(quoted[1]), rule).replace(" ", "")

    rules = re.findall(r"^    (.*?) +\{ return T_(INT|FLOAT); \}", text, re.M)
    return {kind: "|".join(expression(rule) for rule, of in reversed(rules) if of == kind) for kind in ("FLOAT", "INT")}


def escapes():
    """The characters that may follow a backslash in a string."""
    return re.search(r'strchr\("((?:[^"\\]|\\.)*)", backslash', read("dsl/lexer.re"))[1].replace("\\\\", "\\").replace('\\"', '"')


def rules():
    """The productions of dsl/parser.y: (left side, symbols, precedence or None, action), without those that only recover from errors."""
    found = re.findall(r"^(\w+)(?:\(\w\))? ::= ?(.*?) ?\.(?: \[(\w+)\])?(?: \{ (.*) \})?$", read("dsl/parser.y"), re.M)
    for left, right, precedence, action in found:
        right = re.sub(r"\(\w\)", "", right).split()
        if not any(symbol.startswith("RECOVER") for symbol in right):
            yield left, right, precedence or None, action


def productions():
    """{symbol of the grammar: the right sides of its rules}."""
    found = {}
    for left, right, _, _ in rules():
        found.setdefault(left, []).append(right)
    return found


def grown(sets, step):
    """The sets once `step`, which adds to them, adds nothing more."""
    size = -1
    while size != sum(map(len, sets.values())):
        size = sum(map(len, sets.values()))
        step(sets)
    return sets


def first_tokens():
    """{symbol: the tokens that it may begin with}, with None where it may be empty."""
    made = productions()

    def step(sets):
        for left, rights in made.items():
            for right in rights:
                sets[left] |= first_of(right, sets)

    return grown({**{token: {token} for token in tokens()}, **{left: set() for left in made}}, step)


def first_of(symbols, first):
    found = set()
    for symbol in symbols:
        found |= first[symbol] - {None}
        if None not in first[symbol]:
            return found
    return found | {None}


def followers():
    """{symbol: the tokens that may follow it}."""
    first, made = first_tokens(), productions()

    def step(sets):
        for left, rights in made.items():
            for right in rights:
                for at, symbol in enumerate(right):
                    after = first_of(right[at + 1 :], first)
                    sets[symbol] |= after - {None} | (sets[left] if None in after else set())

    return grown({symbol: set() for symbol in first}, step)


def contexts():
    """{keyword: the words that are keywords from there to the next `;` or `{` and names elsewhere}, of declarations and statements."""
    known, made = tokens(), productions()
    ends = {"body", "items", "expr", "value", "condition"}

    def reached(symbols, seen):
        for symbol in symbols:
            if symbol in known:
                if known[symbol][1] == "WORD":
                    yield known[symbol][0]
            elif symbol not in seen | ends:
                seen.add(symbol)
                for right in made[symbol]:
                    yield from reached(right, seen)

    found = {}
    for left in ("top", "item", "items", "fn"):
        for right in made[left]:
            first, *rest = right[right[:1] == [left] :] or [None]
            if first in known and known[first][1] in ("RESERVED", "WORD"):
                found.setdefault(known[first][0], set()).update(reached(rest, set()))
    return {first: sorted(rest) for first, rest in found.items() if rest}


@functools.lru_cache(maxsize=None)
def follower_patterns():
    """{word that may be a name: a regular expression of what follows it where it is a keyword}."""
    known, after = tokens(), followers()
    marks = {"NAME": "[A-Za-z_]", "INT": "[0-9]", "FLOAT": "[0-9]", "STRING": '"'}

    def pattern(token):
        text, kind = known[token]
        return marks.get(token) or (rf"{text}\b" if kind in ("RESERVED", "WORD") else re.escape(text[0]))

    return {text: "|".join(sorted(set(map(pattern, after[token])))) for token, (text, kind) in known.items() if kind == "WORD"}


def keyword(word):
    """A regular expression of a keyword; one that may be a name is a keyword if what follows it fits."""
    after = follower_patterns().get(word)
    return rf"{word}\b(?=\s*(?:{after}))" if after else rf"{word}\b"


def precedences():
    """{operator's token: (LEFT or RIGHT, strength)}. Operators without a direction are of the left."""
    rows = re.findall(r"^%(left|right|nonassoc) (.*)\.$", read("dsl/parser.y"), re.M)
    return {token: ("RIGHT" if side == "right" else "LEFT", strength) for strength, (side, row) in enumerate(rows, 1) for token in row.split()}
