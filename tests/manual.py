#!/usr/bin/env python3
"""Compares the manual with the compiler.

Runs the examples of docs/language.md and docs/gradients.md: each fenced block that holds a whole kernel, or a reference with a signature, with the `// test:` lines in it.
Compares the tables of functions (docs/language.md) and operations (docs/pallas.md) with codegen/ir/ops.def, from which
`tests/manual.py --write` writes them.
Compares the synopsis and the table of options in docs/cli.md, and the man page, with codegen/verbs/*.def, from which `--write` writes them.
Compares the table of the library in docs/gradients.md with what `pkc grad` derives, from which `--write` writes it.
Compares the samples of what pkc prints (docs/architecture.md, docs/generated-c.md) with what it prints; `--write` renews their numbers.

Ends with the line "N passed, N failed".
"""
import os
import re
import subprocess
import sys
import tempfile

from suite import PKC, def_rows


def examples(text):
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        if re.search(r"^(?:kernel|reference) \w+\(", block, re.M):
            yield block


# ---- the tables of operations, from those that the compiler reads


def operations():
    return list(def_rows("codegen/ir/ops.def", "(?:OP|FOLD|FUNCTION|OPERATOR|BITWISE|COMPARISON)"))


def functions():
    """(id, name, class, domain, JAX, meaning) of each FUNCTION."""
    for identity, name, kind, domain, _, _, _, _, jax, _, _, _, meaning in def_rows("codegen/ir/ops.def", "FUNCTION"):
        yield identity, name, kind, domain, jax, meaning


def call(name, kind):
    return f"{name}(a, b)" if kind == "BINARY" else f"{name}(a)"


def functions_table():
    letters = {"NUMBERS": "F I", "FLOATS": "F", "INTEGERS": "I"}
    names = {}
    for alias, identity in def_rows("codegen/ir/ops.def", "ALIAS"):
        names.setdefault(identity, []).append(alias)
    lines = ["| function | on | meaning |", "|---|---|---|"]
    for identity, name, kind, domain, _, meaning in functions():
        calls = " ".join(f"`{call(n, kind)}`" for n in [name, *names.get(identity, [])])
        lines.append(f"| {calls} | {letters[domain]} | {meaning} |")
    return "\n".join(lines)


def operations_table():
    words = {"$0": "a", "$1": "b", "$2": "c", "$T": "dtype", "$S": "shape", "$E": "shape", "$A": "k", "$L": "n", "$X": "k", "$P": "perm", "$D": "", "$R": "", "$N": ""}
    names = {row[0]: row[1] for row in operations()}
    found = {name: [] for name in names.values()}
    for operation, operands, _, _, text in def_rows("codegen/pallas/pallas.def", "PY"):
        if operands not in ("HOST", "POSITIVE", "DIVISOR"):
            for word, meaning in words.items():
                text = text.replace(word, meaning)
            kind = "" if operands == "ANY" else f" ({operands.lower().replace('_', ' ')})"
            found[names[operation]].append(f"`{text}`{kind}")
    for _, name, kind, _, jax, _ in functions():
        if jax:
            found[name].append(f"`{call(jax, kind)}`")
    cells = [f"| `{name}` | {', '.join(texts)} |" for name, texts in found.items() if texts]
    return "\n".join(["| operation | Python |", "|---|---|", *(c.replace("a | b", "a \\| b") for c in cells)])


TABLES = [("docs/language.md", functions_table), ("docs/pallas.md", operations_table), ("docs/cli.md", lambda: options_table())]


def with_table(text, table):
    """The text with the table in the place of the first one that has its header."""
    header = re.escape(table.split("\n")[0])
    return re.sub(rf"^{header}\n(?:\|.*\n)*", lambda _: table + "\n", text, count=1, flags=re.M)


def write_tables():
    for path, table in TABLES:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        text = with_table(text, table())
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def wrong_tables():
    for path, table in TABLES:
        with open(path, encoding="utf-8") as f:
            if table() not in f.read():
                yield f"{path} does not have the table that tests/manual.py --write writes"
    pallas = open("docs/pallas.md", encoding="utf-8").read()
    language = open("docs/language.md", encoding="utf-8").read()
    section = language[language.index("## Pallas and .pk") :] + pallas
    emitter = [n for n in os.listdir("codegen/pallas") if n.endswith(".c")]
    text = "".join(open(os.path.join("codegen/pallas", n), encoding="utf-8").read() for n in emitter)
    written = set(re.findall(r"\b(?:pl|pltpu)\.[A-Za-z_]+(?<!_)", text))
    missing = sorted(n for n in written if n not in section)
    if missing:
        yield f"the manual does not name {', '.join(missing)}"


# ---- the command line, from the tables of verbs and options


def verbs():
    """(name, synopsis, summary) of each verb."""
    for _, name, synopsis, summary, _ in def_rows("codegen/verbs/verbs.def", "VERB"):
        yield name, synopsis, summary


def options():
    """(option, its value or "", the verbs that accept it, help) of each option."""
    source = open("codegen/verbs/options.c", encoding="utf-8").read()
    sets = dict(re.findall(r"^  ([A-Z]+) = (VERB_[^,}]*)", source, re.M))
    for name, value, accepted, _, _, text in def_rows("codegen/verbs/options.def", "OPTION"):
        accepted = re.sub(r"\b[A-Z]+\b", lambda word: sets.get(word[0], word[0]), accepted)
        which = {"ALL_VERBS": "all", "KERNEL_VERBS": "all with a kernel"}.get(accepted) or ", ".join(re.findall(r"VERB_(\w+)", accepted)).lower()
        yield name, "" if value == "NULL" else value, which, text.replace(" (see below)", "")


def synopsis_text():
    return "".join(f"    pkc {synopsis}\n" for _, synopsis, _ in verbs())


def options_table():
    lines = ["| option | verbs | meaning |", "|---|---|---|"]
    for name, value, which, text in options():
        head = name + ("=" if value and name.startswith("--") else " " if value else "") + value
        cells = [f"`{head}`", which, text]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def roff(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def man_synopsis():
    lines = []
    for name, synopsis, _ in verbs():
        words = re.sub(r"[A-Z][A-Za-z.]*(?:=[A-Z][A-Za-z.]*)?", r"<i>\g<0><r>", synopsis)
        words = re.sub(r"(?<!\w)--?[a-z]+", r"<b>\g<0><r>", words)
        words = re.sub(rf"^{name}\b", r"<b>\g<0><r>", words)
        words = re.sub("<([ibr])>", lambda m: "\\f" + m[1].upper(), roff(words))
        lines.append(f".B pkc\n{words}")
    return "\n.br\n".join(lines) + "\n"


def man_verbs():
    return "".join(f".TP\n.B {name}\n{roff(summary)}.\n" for name, _, summary in verbs())


def man_options():
    lines = []
    for name, value, which, text in options():
        sign = "=" if name.startswith("--") else " "
        head = f"\\fB{roff(name)}\\fR" + (f"{sign}\\fI{roff(value)}\\fR" if value else "")
        lines.append(f".TP\n{head}{'' if which == 'all' else f' ({which})'}\n{roff(text)}.\n")
    return "".join(lines)


def gradient_of(path, kernel):
    """How `pkc grad` derives a kernel of the library: by blocks, from its reference, by steps; or the reason why not."""
    if subprocess.run([PKC, "grad", path, "-k", kernel, "--kernel"], capture_output=True, check=False).returncode == 0:
        return "blocks"
    done = subprocess.run([PKC, "grad", path, "-k", kernel], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        text = open(path, encoding="utf-8").read()
        return "reference" if re.search(rf"^reference {kernel}\b", text, re.M) else "steps"
    return "integers" if "has no float input" in done.stderr else "not"


def gradients_table():
    columns = {"blocks": "of blocks", "reference": "a reference", "steps": "step by step", "not": "refused"}
    lines = ["| file | " + " | ".join(columns.values()) + " | written by hand |", "|---" * (len(columns) + 2) + "|"]
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk("kernels") for name in names if name.endswith(".pk"))
    hand = {}
    for path in files:
        for backward, forward, where in re.findall(r"^// gradient: (\w+) of (\w+)(?: in (\S+))?", open(path, encoding="utf-8").read(), re.M):
            of = os.path.normpath(os.path.join(os.path.dirname(path), where)) if where else path
            hand.setdefault(of, {})[backward] = forward
    for path in files:
        kernels = re.findall(r"^kernel (\w+)\(", open(path, encoding="utf-8").read(), re.M)
        found = {kernel: gradient_of(path, kernel) for kernel in kernels}
        if set(found.values()) <= {"integers"}:
            continue
        cells = [", ".join(f"`{k}`" for k in kernels if found[k] == column) for column in columns]
        lines.append(" | ".join([f"| {path[len('kernels/'):]}", *cells, ", ".join(f"`{k}`" for k in sorted(hand.get(path, {}))) + " |"]))
    return "\n".join(lines).replace("|  |", "| |").replace("|  |", "| |") + "\n"


# (document, the name of the piece in its comments, the piece)
PIECES = [
    ("docs/cli.md", "synopsis", lambda: "\n" + synopsis_text() + "\n"),
    ("docs/pkc.1", "synopsis", man_synopsis),
    ("docs/pkc.1", "verbs", man_verbs),
    ("docs/pkc.1", "options", man_options),
    ("docs/gradients.md", "gradients of the library", gradients_table),
]


def with_piece(path, text, name, piece):
    """The text with the piece between the comments that name it."""
    begin, end = ("<!-- ", " -->") if path.endswith(".md") else ('.\\" ', "")
    first, last = f"{begin}{name}: tests/manual.py --write{end}\n", f"{begin}end of {name}{end}\n"
    return text[: text.index(first) + len(first)] + piece + text[text.index(last) :]


def write_pieces():
    for path, name, piece in PIECES:
        with open(path, encoding="utf-8") as f:
            text = with_piece(path, f.read(), name, piece())
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def wrong_pieces():
    for path, name, piece in PIECES:
        text = open(path, encoding="utf-8").read()
        if with_piece(path, text, name, piece()) != text:
            yield f"{path}: other {name} than tests/manual.py --write writes"
    known = {name for name, *_ in options()} | {"-h"}
    for path in ("docs/cli.md", "docs/tutorial.md", "docs/language.md", "README.md"):
        for line in re.findall(r"pkc [^\n`]*", open(path, encoding="utf-8").read()):
            for option in re.findall(r"(?<= )(--[a-z][a-z-]*)", line.split("#")[0]):
                if option not in known and "cmake" not in line:
                    yield f"{path} has the option {option}, which pkc does not"


# ---- samples: lines after `From `pkc ARGUMENTS`..:`, indented or fenced, with `..` where some are left out

SAMPLED = {"docs/architecture.md": 3, "docs/generated-c.md": 2}
SAMPLE = re.compile(r"^From `pkc ([^`]*)`.*:\n\n(?:```c\n(?=(?:.*\n)+?```$))?((?:(?!```).+\n)+)", re.M)


def numberless(line):
    return re.sub(r"\d+", "0", line)


def renewed(sample, printed):
    """The printed lines of a sample, in the order of the sample; None for a line that is not printed.

    Lines are found by their text without its numbers; those between two `..` are neighbours.
    """
    lines, found, start = sample.splitlines(), [], 0
    chunks = [[]]
    for line in lines:
        chunks[-1:] = [chunks[-1], []] if line.strip() == ".." else [chunks[-1] + [line.strip()]]
    plain = [numberless(line.strip()) for line in printed]
    for chunk in chunks:
        wanted = [numberless(line) for line in chunk]
        places = [p for p in range(start, len(plain) - len(chunk) + 1) if plain[p : p + len(chunk)] == wanted]
        exact = [p for p in places if [line.strip() for line in printed[p : p + len(chunk)]] == chunk]
        if not places:
            return None
        place = (exact or places)[0]
        found += [line.strip() for line in printed[place : place + len(chunk)]] + [".."]
        start = place + len(chunk)
    indents = [line[: len(line) - len(line.lstrip())] for line in lines]
    return "".join(f"{indent}{line}\n" for indent, line in zip(indents, found))


def samples(text):
    """(command, sample, the sample as it should be or None) for each sample of a document."""
    for match in SAMPLE.finditer(text):
        run = subprocess.run([PKC, *match[1].split()], capture_output=True, text=True)
        yield f"pkc {match[1]}", match[2], renewed(match[2], run.stdout.splitlines())


def write_samples():
    for path in SAMPLED:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for _, sample, should in list(samples(text)):
            text = text.replace(sample, should or sample)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def wrong_samples():
    for path, count in SAMPLED.items():
        with open(path, encoding="utf-8") as f:
            found = list(samples(f.read()))
        if len(found) != count:
            yield f"{path} has {len(found)} samples of what pkc prints, not {count}"
        for command, sample, should in found:
            if should is None:
                yield f"{path} has lines that `{command}` does not print"
            elif should != sample:
                yield f"{path} has other numbers than `{command}` prints (tests/manual.py --write renews them)"


def main():
    passed = failed = 0
    if sys.argv[1:] == ["--write"]:
        write_tables()
        write_pieces()
        return write_samples()
    for wrong in [*wrong_tables(), *wrong_pieces(), *wrong_samples()]:
        failed += 1
        print(f"FAIL {wrong}; reproduce: tests/manual.py")
    passed += not failed
    texts = [(doc, block) for doc in ("docs/language.md", "docs/gradients.md") for block in examples(open(doc, encoding="utf-8").read())]
    with tempfile.TemporaryDirectory() as folder:
        for number, (doc, block) in enumerate(texts):
            path = os.path.join(folder, f"example{number}.pk")
            with open(path, "w", encoding="utf-8") as example:
                example.write(block)
            run = subprocess.run([PKC, "test", path], capture_output=True, text=True)
            good = run.returncode == 0 and (" 0 passed" not in run.stdout)
            passed += good
            failed += not good
            if not good:
                said = " / ".join((run.stdout + run.stderr).strip().splitlines())
                print(f"FAIL an example of {doc} ({block.split('(')[0].strip()}): {said}; reproduce: tests/manual.py")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
