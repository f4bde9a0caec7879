#!/usr/bin/env python3
"""Kernels of published projects, each with a function of jax.numpy that it is compared with (pkc.pallas.prove).

    tests/wild/proofs.py PROJECT [NAME ..] --sources FOLDER    runs them, and writes their table in docs/proved-kernels.md

FOLDER holds the checkouts: tpu-inference, tokamax. The script needs JAX; tokamax also needs the packages that it imports.
"""
import argparse
import importlib
import os
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
for path in ("build/python", "python/tests", "tests/wild"):
    sys.path.insert(0, str(ROOT / path))
PAGE = ROOT / "docs/proved-kernels.md"
SECONDS = 60
PROJECTS = ["tpu-inference", "tokamax"]


def crossed(project):
    import pkc.pallas
    cases = project.CASES
    for first, second in project.CROSSED:
        kernel, _, arguments = cases[first][2]()
        proof = pkc.pallas.prove(kernel, cases[second][2]()[1], *arguments, max_time=SECONDS)
        if proof.verdict != "refuted":
            sys.exit("%s with the reference of %s: %s" % (cases[first][:2], cases[second][:2], proof))


def prove(make):
    """Returns (verdict and reason, seconds)."""
    import pkc.pallas
    start = time.time()
    try:
        kernel, reference, arguments = make()
        proof = pkc.pallas.prove(kernel, reference, *arguments, max_time=SECONDS)
        said = proof.verdict if proof.verdict == "proved" else "%s: %s" % (proof.verdict, proof.data.get("reason") or proof)
    except Exception as wrong:  # report any failure of the project or the importer
        said = "not translated: " + str(wrong)
    return re.sub(r"\s+", " ", said).replace("|", "\\|")[:160], time.time() - start


def table(name, folder, chosen):
    """The rows of a project's table: of the chosen cases, or of all if none are chosen."""
    project = importlib.import_module("proofs_" + name.replace("-", "_"))
    project.prepare(folder)
    rows = ["| kernel | at | verdict | seconds |", "|---|---|---|---|"]
    for case, at, make in project.CASES:
        if not chosen or case in chosen:
            said, seconds = prove(make)
            rows.append("| `%s` | %s | %s | %.1f |" % (case, at, said, seconds))
            print(rows[-1], flush=True)
    if not chosen:
        crossed(project)
    return "\n".join(rows) + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("project", choices=PROJECTS)
    options.add_argument("--sources", metavar="FOLDER", required=True)
    options.add_argument("names", nargs="*")
    options = options.parse_args()
    os.environ["WILD_FILE"] = "none"
    rows = table(options.project, os.path.join(options.sources, options.project), options.names)
    if not options.names:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub("(<!-- %s -->\n).*?(<!-- end -->)" % options.project, lambda m: m[1] + rows + m[2], text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
