#!/usr/bin/env python3
"""`pkc lsp` with an independent client: the sessions in tests/lsp_client by pytest-lsp, whose warnings about the protocol are errors.

pytest-lsp is installed from PyPI into an environment below the build folder; if that fails, the suite is skipped."""
import os
import re
import sys

from sampling import LEVEL
from suite import BUILD, PKC, ROOT, check, finish, run

NEEDED = ["pytest-lsp>=1.0"]
ENVIRONMENT = BUILD / "lsp-client"


def environment():
    """The Python with pytest-lsp, or None."""
    python, mark = ENVIRONMENT / "bin/python", ENVIRONMENT / "installed"
    if mark.exists() and mark.read_text() == " ".join(NEEDED):
        return python
    for words in ([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *NEEDED]):
        status, said = run(*words)
        if status:
            print(f"SKIPPED lsp_client: pytest-lsp cannot be installed: {said.strip().splitlines()[-1]}")
            return None
    mark.write_text(" ".join(NEEDED))
    return python


def main():
    if LEVEL != "all":
        print("left out: 1 of 1 suites")
        return
    python = environment()
    if python:
        status, said = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function", "-W", "error::pytest_lsp.LspSpecificationWarning", ROOT / "tests/lsp_client", env={**os.environ, "PKC": str(PKC)}, timeout=600)
        print(said[-6000:] if status else "", end="")
        check("the sessions", status == 0 and re.search(r"^\d+ passed", said, re.M), said[-300:])


main()
sys.exit(finish())
