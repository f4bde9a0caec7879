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
# The fields of nodes: of each symbol of a rule, as often as it is there.
FIELDS = {
    **dict.fromkeys(("kernel", "program", "reference"), {"NAME": ["name"], "body": ["body"]}),
    "fn": {"NAME": ["name"], "names": ["parameters"], "value": ["value"], "body": ["body"]},
    "param": {"NAME": ["name"], "elements": ["type"], "shape": ["shape"]},
    "static_item": {"NAME": ["name", "type"], "expr": ["value"]},
    "require": {"expr": ["condition"], "STRING": ["message"]},
    "axis": {"NAME": ["name"], "expr": ["extent"]},
    "block": {"name_list": ["name"], "bindings": ["name"], "spec": ["spec"]},
    "binding": {"NAME": ["name", "operand"]},
    "scratch": {"name_list": ["name"], "dtype": ["type"], "semaphore": ["type"], "shape": ["shape"]},
    "alias": {"NAME": ["output", "input"]},
    "let": {"NAME": ["name"], "name_list": ["name"], "value": ["value"]},
    "var": {"NAME": ["name"], "dtype": ["type"], "shape": ["shape"], "value": ["value"]},
    "assign": {"expr": ["target"], "expr_list": ["target"], "value": ["value"]},
    **dict.fromkeys(("when", "while"), {"condition": ["condition"], "body": ["body"]}),
    "if": {"condition": ["condition"], "body": ["body", "else"], "if": ["else"]},
    "if_expr": {"condition": ["condition"], "value": ["value", "else"], "if_expr": ["else"]},
    "for": {"NAME": ["name"], "expr": ["from", "to"], "body": ["body"]},
    "return": {"value": ["value"]},
    "region": {"STRING": ["name"], "body": ["body"]},
    **dict.fromkeys(("scoped", "pipeline"), {"body": ["body"]}),
    "unary": {"expr": ["operand"]},
    "binary": {"expr": ["left", "right"]},
    "arrow": {"expr": ["from", "to"]},
    "call": {"NAME": ["name"], "args": ["arguments"]},
    "method": {"postfix": ["receiver"], "NAME": ["name"], "args": ["arguments"]},
    "member": {"postfix": ["receiver"], "NAME": ["name"]},
    "index": {"postfix": ["receiver"], "subscripts": ["subscripts"]},
    "keyword": {"NAME": ["name"], "expr": ["value"]},
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

    def parts(self, right, node):
        """The symbols of a rule, those that have a field in it."""
        left = {name: list(fields) for name, fields in FIELDS.get(node, {}).items()}
        for name in right:
            symbol = self.symbol(name)
            if left.get(name):
                field = {"type": "FIELD", "name": left[name].pop(0)}
                symbol = {**symbol, "members": [{**field, "content": symbol["members"][0]}, *symbol["members"][1:]]} if name in self.empty else {**field, "content": symbol}
            yield symbol

    def content(self, right, strength, node):
        parts = list(self.parts(right, node))
        content = parts[0] if len(parts) == 1 else {"type": "SEQ", "members": parts}
        operator = strength or (right[1] if len(right) == 3 and right[0] == right[2] == "expr" else right[0] if len(right) == 2 and right[1] == "expr" else None)
        if operator in self.strengths:
            side, value = self.strengths[operator]
            content = {"type": f"PREC_{side}", "value": value, "content": content}
        return content

    def add(self, left, right, strength, node):
        content = self.content(right, strength, node)
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


FUNCTIONS = {"SEQ": "seq", "CHOICE": "choice", "PREC_LEFT": "prec.left", "PREC_RIGHT": "prec.right", "TOKEN": "token", "FIELD": "field"}


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
    given = [str(rule["value"])] if "value" in rule else [json.dumps(rule["name"])] if kind == "FIELD" else []
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
(kernel name: (name) @function)
(program name: (name) @function)
(reference name: (name) @function)
(fn name: (name) @function)
(fn parameters: (name) @parameter)
(call name: (name) @function.call)
((call name: (name) @function.builtin) (#match? @function.builtin "^({functions})$"))
[
{keywords}] @keyword
[
{operators}] @operator
"""
