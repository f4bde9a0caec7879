"""The grammar of .pk for tree-sitter, from the rules of dsl/parser.y: as the JSON that its generator reads, and as grammar.js.

A rule whose action builds a node of the syntax tree is a node here, with the same name; all others are hidden, and their symbols belong to
the node around them. tree-sitter has no empty rules: a symbol that may be empty is optional where it is used.
"""
import json
import re

import words

# Nodes that several functions of dsl/build.c make, by the names of those.
SAME = {
    "composite": "program", "own_reference": "reference", "pipeline_blocks": "block", "let_list": "let", "assign_list": "assign", "items": "body",
    "expression_statement": "statement",
}
SHOWN = {"file", "dtype"}  # symbols of the grammar that are nodes themselves
REPORTED = {"build_untyped_var"}  # what these build is an error


def node_of(action):
    """The name of the node that the action of a rule builds, or None."""
    built = re.match(r"A = (?:build_literal|build_list|build_statement|build_block_statement)\(p, N_(\w+)", action or "") or re.match(r"A = build_(\w+)\(", action or "")
    name = built and built[1].lower()
    return SAME.get(name, name)


class Grammar:
    def __init__(self):
        self.known = words.tokens()
        self.strengths = words.precedences()
        rules = [rule for rule in words.rules() if not any(name in (rule[3] or "") for name in REPORTED)]
        made = [(*self.element(left, right), strength, node_of(action)) for left, right, strength, action in rules]
        self.empty = {left for left, right, _, _ in made if not right}
        self.names = {left for left, _, _, _ in made}
        self.nodes = {node for _, right, _, node in made if node and not self.is_token(right, node)}
        self.rules = {}
        for left, right, strength, node in made:
            if right:
                self.add(left, right, strength, node)

    def is_token(self, right, node):
        """Is the node one token, which has this name itself?"""
        return len(right) == 1 and self.known.get(right[0], ("", ""))[1] == "OTHER" and right[0].lower() == node

    def element(self, left, right):
        """A rule that continues `items` by a declaration is one of `item`."""
        continues = left == "items" and right[:1] == [left] and right[1] in self.known
        return ("item", right[1:]) if continues else (left, right)

    def symbol(self, name):
        if name in self.known:
            text, kind = self.known[name]
            return {"type": "SYMBOL", "name": name.lower()} if kind == "OTHER" else {"type": "STRING", "value": text}
        symbol = {"type": "SYMBOL", "name": self.hidden(name)}
        return {"type": "CHOICE", "members": [symbol, {"type": "BLANK"}]} if name in self.empty else symbol

    def hidden(self, name):
        return name if name in SHOWN else "_" + name

    def content(self, right, strength):
        parts = [self.symbol(name) for name in right]
        content = parts[0] if len(parts) == 1 else {"type": "SEQ", "members": parts}
        operator = strength or (right[1] if len(right) == 3 and right[0] == right[2] == "expr" else right[0] if len(right) == 2 and right[1] == "expr" else None)
        if operator in self.strengths:
            side, value = self.strengths[operator]
            content = {"type": f"PREC_{side}", "value": value, "content": content}
        return content

    def add(self, left, right, strength, node):
        content = self.content(right, strength)
        if node and not self.is_token(right, node):
            self.put(node, content)
            content = {"type": "SYMBOL", "name": node}
        self.put(self.hidden(left), content)

    def put(self, name, content):
        rule = self.rules.setdefault(name, [])
        if content not in rule:
            rule.append(content)

    def tokens(self):
        number = words.literals()
        escape = f"\\\\[{re.escape(words.escapes())}]"
        comment = [{"type": "PATTERN", "value": "//.*"}, {"type": "PATTERN", "value": r"/\*([^*]|\*+[^*/])*\*+/"}]
        return {
            "name": {"type": "PATTERN", "value": "[A-Za-z_][A-Za-z_0-9]*"},
            "int": {"type": "PATTERN", "value": number["INT"].replace("(?:", "(")},
            "float": {"type": "PATTERN", "value": number["FLOAT"].replace("(?:", "(")},
            "string": {"type": "PATTERN", "value": f'"([^"\\\\\\n]|{escape})*"'},
            "comment": {"type": "TOKEN", "content": {"type": "CHOICE", "members": comment}},
        }

    def whole(self):
        rules = {name: of[0] if len(of) == 1 else {"type": "CHOICE", "members": of} for name, of in self.rules.items()}
        return {
            "name": "pk", "word": "name", "rules": {"file": rules.pop("file"), **rules, **self.tokens()},
            "extras": [{"type": "PATTERN", "value": r"[\s\uFEFF]"}, {"type": "SYMBOL", "name": "comment"}],
            "conflicts": [], "precedences": [], "externals": [], "inline": [], "supertypes": [],
        }


FUNCTIONS = {"SEQ": "seq", "CHOICE": "choice", "PREC_LEFT": "prec.left", "PREC_RIGHT": "prec.right", "TOKEN": "token"}


def script(rule, indent):
    """A rule in the language of grammar.js."""
    kind = rule["type"]
    if kind == "SYMBOL":
        return f"$.{rule['name']}"
    if kind == "STRING":
        return json.dumps(rule["value"])
    if kind == "PATTERN":
        return "/" + rule["value"].replace("/", "\\/") + "/"
    if kind == "CHOICE" and rule["members"][-1]["type"] == "BLANK":
        return f"optional({script(rule['members'][0], indent)})"
    given = [str(rule["value"])] if "value" in rule else []
    given += [script(part, indent + 2) for part in rule.get("members", [rule.get("content")])]
    row = f"{FUNCTIONS[kind]}({', '.join(given)})"
    if len(row) + indent < 120:
        return row
    return f"{FUNCTIONS[kind]}(" + "".join(f"\n{' ' * (indent + 2)}{part}," for part in given) + f"\n{' ' * indent})"


def grammar_json():
    return json.dumps(Grammar().whole(), indent=1) + "\n"


def grammar_js():
    whole = Grammar().whole()
    rows = "".join(f"    {name}: $ => {script(rule, 4)},\n" for name, rule in whole["rules"].items())
    extras = ", ".join(script(rule, 2) for rule in whole["extras"])
    return f"// Written by docs/editors/grammars.py from the rules of dsl/parser.y.\nmodule.exports = grammar({{\n  name: \"pk\",\n  word: $ => $.name,\n  extras: $ => [{extras}],\n  rules: {{\n{rows}  }},\n}});\n"


def highlights():
    """The classes of nodes, in tree-sitter's language of queries."""
    keywords = "".join(f'  "{word}"\n' for word in words.keywords() if word not in ("true", "false"))
    whole = {rule.get("value") for rule in Grammar().whole()["rules"].values()}  # such a token is a node with the name of its rule
    marks = [text for text in words.symbols() if text not in "()[]{},;:" and text not in whole]
    operators = "".join(f"  {json.dumps(mark)}\n" for mark in sorted(marks))
    functions = "|".join(words.functions())
    return f"""; Written by docs/editors/grammars.py.
(comment) @comment
(string) @string
(int) @number
(float) @number
(bool) @boolean
(dtype (name) @type)
((name) @type.builtin (#match? @type.builtin "^({'|'.join(words.dtypes())})$"))
(kernel . (name) @function)
(program . (name) @function)
(reference . (name) @function)
(fn . (name) @function)
(call . (name) @function.call)
((call . (name) @function.builtin) (#match? @function.builtin "^({functions})$"))
[
{keywords}] @keyword
[
{operators}] @operator
"""
