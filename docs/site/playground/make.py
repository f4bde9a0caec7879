#!/usr/bin/env python3
"""Writes the playground: one HTML page that holds the compiler, an editor and the kernel library, and needs no server.

    docs/site/playground/make.py PKC.JS PKC.WASM PAGE.html

PKC.JS and PKC.WASM are the compiler as emcc has made it. The editor is CodeMirror 5, from Debian's libjs-codemirror.
"""
import base64
import gzip
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
CODEMIRROR = pathlib.Path("/usr/share/javascript/codemirror")
SCRIPTS = ["lib/codemirror.js", "addon/mode/simple.js", "addon/lint/lint.js", "addon/edit/matchbrackets.js", "addon/edit/closebrackets.js", "addon/comment/comment.js"]
STYLES = ["lib/codemirror.css", "addon/lint/lint.css"]
MOST_BYTES = 3_000_000

sys.path.append(str(ROOT / "docs" / "editors"))
from grammars import codemirror  # noqa: E402


def read(*paths):
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def in_element(text):
    """Text that may be the content of a script element."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def main(compiler, wasm, to):
    if not CODEMIRROR.is_dir():
        sys.exit("docs/site/playground/make.py: the editor is missing: apt-get install libjs-codemirror")
    kernels = {str(path.relative_to(ROOT / "kernels")): path.read_text(encoding="utf-8") for path in sorted((ROOT / "kernels").rglob("*.pk"))}
    mode = f"const MODE = {json.dumps(codemirror())};\n"
    parts = {
        "CSS": read(*(CODEMIRROR / name for name in STYLES), HERE / "page.css"),
        "KERNELS": json.dumps(kernels).replace("</", "<\\/"),
        "WASM": base64.b64encode(gzip.compress(pathlib.Path(wasm).read_bytes(), mtime=0)).decode(),
        "WORKER": in_element(read(pathlib.Path(compiler), HERE / "worker.js")),
        "EDITOR": in_element(read(*(CODEMIRROR / name for name in SCRIPTS))),
        "PAGE": in_element(mode + read(HERE / "page.js")),
    }
    page = re.sub("@([A-Z]+)@", lambda part: parts[part[1]], read(HERE / "page.html")).encode()
    if len(page) > MOST_BYTES:
        sys.exit(f"docs/site/playground/make.py: the page has {len(page)} bytes, more than {MOST_BYTES}")
    pathlib.Path(to).write_bytes(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
