#!/usr/bin/env python3
"""Follows the recipes of docs/hacking.md in a copy of the tree, builds it once, and tests the additions.

    tests/recipes.py              # in build/recipes
    tests/recipes.py --keep       # keeps the copy

A recipe is a list of insertions: a file, the line after which the text is inserted, and the text. If the line no longer exists, the test
fails: update the recipe, here and in the document.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import sampling
from suite import BUILD, ROOT, check, finish

COPY = BUILD / "recipes"
KERNEL = "kernel k(x: f32[M]) -> (o: f32[M]) {{ o[...] = {}; }}\nreference k {{ o = {}; }}\n"


class Recipe:
    def __init__(self, name, insertions, files=()):
        """`insertions`: (path, line, text that follows it, or precedes it if the line begins with ^); `files`: (path, text) of new files."""
        self.name, self.insertions, self.files = name, insertions, files


RECIPES = [
    Recipe(
        "Add an operation",
        [
            (
                "codegen/ir/ops.def",
                'FUNCTION(EXP10, exp10, UNARY, FLOATS, INEXACT, pk_f64_exp10, MONOTONE, 0, "", 4, 2, NULL,\n         "10 to the power a")\n',
                'FUNCTION(EXP3, exp3, UNARY, FLOATS, INEXACT, pk_f64_exp3, MONOTONE, 0, "", 4, 2, NULL, "3 to the power a")\n',
            ),
            (
                "include/pk/f64.h",
                "static inline double pk_f64_exp10(double a) { return pow(10, a); }\n",
                "static inline double pk_f64_exp3(double a) { return pow(3, a); }\n",
            ),
            (
                "include/pk/vec/math_more.h",
                "PK_INLINE pk_f64p pk_exp10_part(pk_f64p x) { return pk_exp2_part(x * 3.3219280948873623); }\n",
                "PK_INLINE pk_f64p pk_exp3_part(pk_f64p x) { return pk_exp2_part(x * 1.5849625007211562); }\n",
            ),
            ("include/pk/vec/math_more.h", "PK_IN_DOUBLE(exp10, -50, 50, y)\n", "PK_IN_DOUBLE(exp3, -100, 100, y)\n"),
            (
                "include/pk/vec/wide_math.h",
                "PK_WIDE_PARTWISE(exp10)\n",
                "PK_INLINE pk_f64p pk_wide_exp3_part(pk_f64p x) { return pk_wide_exp2_part(x * 1.5849625007211562); }\nPK_WIDE_PARTWISE(exp3)\n",
            ),
            ("codegen/grad/derivatives.def", 'SMOOTH(EXP10, "g * y * 2.302585092994046", NULL, NULL)\n', 'SMOOTH(EXP3, "g * y * 1.0986122886681098", NULL, NULL)\n'),
            ("codegen/pallas/pallas.def", 'PY(EXP10, ANY, CALL, ATOM, "jnp.power(10.0, $0)")\n', 'PY(EXP3, ANY, CALL, ATOM, "jnp.power(3.0, $0)")\n'),
        ],
    ),
    Recipe(
        "Add a pass",
        [
            ("codegen/passes/pass.h", "void widen_blocks(Kernel *k, Buf *notes);\n", "void count_values(Kernel *k, Buf *notes);\n"),
            (
                "codegen/passes/pass.c",
                '    {\'w\', "widen", "lengthen elementwise blocks along the contiguous axis", widen_blocks},\n',
                '    {\'z\', "count", "count the values of the body", count_values},\n',
            ),
        ],
        [
            (
                "codegen/passes/count.c",
                "// Pass: counts values. Requires nothing, changes nothing.\n"
                '#include "codegen/passes/pass.h"\n\n'
                "static void count_one(Instr *v, void *count) {\n  (void)v;\n  ++*(int *)count;\n}\n\n"
                "void count_values(Kernel *k, Buf *notes) {\n  int count = 0;\n  if (k->body) ir_walk(k->body, count_one, &count);\n"
                '  if (notes) buf_printf(notes, "the body has %d values\\n", count);\n}\n',
            )
        ],
    ),
    Recipe(
        "Add a verb",
        [
            (
                "codegen/verbs/verbs.def",
                'VERB(FMT, fmt, "fmt FILE.pk...", "rewrite files in the canonical layout, keeping comments", fmt_help)\n',
                'VERB(SIZE, size, "size FILE.pk", "print how many files were given", NULL)\n',
            )
        ],
        [
            (
                "codegen/verbs/size.c",
                "// pkc size: how many files were given.\n"
                '#include "codegen/verbs/verbs.h"\n\n#include <stdio.h>\n\n'
                'int verb_size(Options *options) {\n  printf("%d\\n", options->files.count);\n  return DONE;\n}\n',
            )
        ],
    ),
    Recipe(
        "Add a chip",
        [
            (
                "codegen/tpu/chips.def",
                "FACT(V4I, DCN, 6.25e9, ESTIMATE)\n",
                'CHIP(V4X, "v4x")\nCOMMON(V4X)\n'
                + "".join(
                    f"FACT(V4X, {field}, {value}, ESTIMATE)\n"
                    for field, value in (
                        ("STORES", "1"), ("GENERATION", "4"), ("HBM_BYTES", "8e9"), ("HBM_BANDWIDTH", "6e11"), ("BF16", "1e14"), ("INT8", "1e14"),
                        ("CORES", "1"), ("MXUS", "4"), ("MXU_SIZE", "128"), ("VMEM_BYTES", "16777216"), ("VMEM_SCOPED", "16777216"), ("SMEM_BYTES", "1048576"),
                        ("CLOCK", "1e9"), ("SUBLANES", "8"), ("ALUS", "2"), ("XLUS", "2"), ("ICI_LINK", "9e10"), ("DCN", "6.25e9"), ("SUSTAINED", "1"),
                    )  # fmt: skip
                ),
            )
        ],
    ),
    Recipe(
        "Add a core and its target",
        [
            (
                "codegen/loops/target.c",
                "static const Core small = {.sums = 4, .l2_bytes = 256 * KIB, .kept_bytes = 32 * MIB};\n",
                "static const Core mine = {.sums = 4, .l2_bytes = 2048 * KIB, .kept_bytes = 64 * MIB};\n",
            ),
            (
                "codegen/loops/target.c",
                "const Target targets[] = {\n",
                '    {"mine", PK_CPU_V3 | PK_CPU_AVX_VNNI | PK_CPU_V4 | PK_CPU_AMX | PK_CPU_FAST_BF16, 32, 6, 2, &mine, "-march=x86-64-v3",\n'
                '     X86, NULL, NULL, no_bf16, "a core of this test"},\n',
            ),
        ],
    ),
    Recipe(
        "Add a diagnostic",
        [
            (
                "dsl/errors.def",
                'E(603, REFERENCE_KERNEL, "a reference of a kernel that does not exist")\n',
                'E(604, REFERENCE_NAME, "a reference that is named `wrong`")\n',
            ),
            (
                "dsl/explain.def",
                "^EXPLAIN(NO_COUNTERPART,\n",
                'EXPLAIN(REFERENCE_NAME, "A reference may not be named `wrong`.", "reference wrong { }\\n", "kernel k(x: f32[M]) -> (o: f32[M]) { o[...] = x[...]; }\\n")\n',
            ),
            (
                "codegen/lower/lower.c",
                "    if (kernel && kernel->name == node->name) continue;\n",
                '    if (strcmp(node->name, "wrong") == 0) diag_error(l->diag, node->name_span, ERR_REFERENCE_NAME, "a reference is named `wrong`");\n',
            ),
        ],
    ),
]


def insert(path, behind, text):
    file = COPY / path
    whole, line = file.read_text(encoding="utf-8"), behind.removeprefix("^")
    if check(f"{path} has the line `{line.strip().splitlines()[0]}` once", whole.count(line) == 1):
        file.write_text(whole.replace(line, text + line if behind != line else line + text), encoding="utf-8")


def copy_tree():
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "GNUmakefile", "dsl", "codegen", "include", "runtime", "docs/language.md"], capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        target = COPY / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, target)


def run(*words):
    done = subprocess.run([COPY / "build/pkc", *words], capture_output=True, text=True, cwd=COPY)
    return done.returncode, done.stdout + done.stderr


def try_them():
    (COPY / "three.pk").write_text(KERNEL.format("exp3(x[...])", "exp3(x)"))
    (COPY / "wrong.pk").write_text("kernel k(x: f32[M]) -> (o: f32[M]) { o[...] = x[...]; }\nreference wrong { o = x; }\n")
    status, said = run("run", "three.pk", "M=1000")
    check("the operation runs and agrees with its reference", status == 0, said)
    status, said = run("--emit=pallas", "three.pk")
    check("the operation in Pallas", "jnp.power(3.0" in said, said)
    check("the pass leaves its note", "the body has" in run("explain", "three.pk")[1])
    check("the verb", run("size", "three.pk") == (0, "1\n"))
    check("--help has the verb", "how many files were given" in run("--help")[1])
    status, said = run("tpu", "three.pk", "M=1024", "--chip", "v4x")
    check("the chip", status == 0 and "v4x" in said, said)
    check("the target is listed", "mine" in run("--targets")[1])
    check("the target compiles", run("--target=mine", "three.pk", "-o", "three.c")[0] == 0)
    status, said = run("wrong.pk")
    check("the diagnostic", "E0604" in said and "named `wrong`" in said, said)
    check("its explanation", "may not be named" in run("explain", "E0604")[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the copy in build/recipes")
    options = parser.parse_args()
    if not sampling.most(1, 0, what="builds of a tree that follows the recipes"):
        return finish()
    text = (ROOT / "docs" / "hacking.md").read_text(encoding="utf-8")
    copy_tree()
    for recipe in RECIPES:
        check(f"docs/hacking.md has the recipe `{recipe.name}`", f"## {recipe.name}\n" in text)
        for path, behind, added in recipe.insertions:
            insert(path, behind, added)
        for path, added in recipe.files:
            (COPY / path).write_text(added, encoding="utf-8")
    built = subprocess.run(["make", "-C", COPY, "-j2", "BUILD=build", "WARN=-Wall -Wextra", "all"], capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""})
    if check("the tree builds", built.returncode == 0, built.stderr[-2000:]):
        try_them()
    if not options.keep:
        shutil.rmtree(COPY, ignore_errors=True)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
