#!/usr/bin/env python3
"""Writes the sources of the website: the documents, the kernel library, the benchmark's pages and the files that they link to.

    docs/site/pages.py FOLDER

The folder repeats the layout of the tree. A README.md becomes index.md, and a file that is not a document becomes a page that shows its text.
"""
import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The table of contents: the caption of each group, and its documents.
GROUPS = {
    "Write kernels": ["docs/tutorial.md", "docs/language.md", "docs/cli.md", "docs/editors.md", "docs/checking.md", "docs/numerics.md", "docs/proofs.md", "docs/proof-rules.md", "docs/proved-kernels.md", "docs/all-sizes.md", "docs/gradients.md"],
    "Kernel library": ["kernels/README.md", "examples/gpt2/README.md"],
    "Call kernels": ["docs/python.md", "docs/pallas-in.md", "docs/embedding.md", "python/README.md"],
    "TPUs and many devices": ["docs/tpu.md", "docs/many-chips.md", "docs/tutorial-performance.md", "docs/pallas.md"],
    "Speed and reliability": ["docs/performance.md", "docs/performance/rows.md", "docs/tried.md", "docs/reliability.md", "docs/platforms.md", "docs/wild.md"],
    "Inside pkc": ["docs/architecture.md", "docs/generated-c.md", "docs/hacking.md", "docs/changes.md"],
}
LINK = re.compile(r"(!?\[(?:[^\[\]]|!?\[[^\[\]]*\]\([^()]*\))*\])\(([^()\s#]*)(#[^()\s]*)?\)")
CODE = re.compile(r"(^```.*?^```$|^    [^\n]*$)", re.M | re.S)
LANGUAGES = {".pk": "pk", ".c": "c", ".h": "c", ".py": "python", ".json": "json"}
FIRST_WORDS = r"(?:kernel|program|reference|mesh|fn|grid|block|let|static|scratch|require) "


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.pending = []  # files of the tree that pages link to
        self.pages = set()

    def write(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        self.pages.add(path)

    def target(self, page, link):
        """Where a link from a page leads on the site; remembers files that become pages. A link to nothing stays, and the test finds it."""
        if not link or ":" in link:
            return link
        path = os.path.normpath(os.path.join(os.path.dirname(page), link))
        if (ROOT / path / "README.md").exists():
            path = os.path.join(path, "README.md")
        if not (ROOT / path).is_file():
            return link
        self.pending.append(path)
        return os.path.relpath(name_of(path), os.path.dirname(page) or ".")

    def linked(self, page, text):
        """The text with its links as they are on the site; code is left as it is."""
        parts = CODE.split(text)
        for number in range(0, len(parts), 2):
            parts[number] = LINK.sub(lambda m: f"{self.link_text(page, m[1])}({self.target(page, m[2])}{m[3] or ''})", parts[number])
        return "".join(parts)

    def link_text(self, page, text):
        return LINK.sub(lambda m: f"{m[1]}({self.target(page, m[2])}{m[3] or ''})", text)

    def add(self, path):
        if name_of(path) in self.pages:
            return
        if path.endswith(".svg") or path.endswith(".png"):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.folder / path)
            self.pages.add(path)
            return
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.endswith(".md"):
            text = with_anchors(self.linked(path, coloured(text))) + (contents() if path == "README.md" else listed(path))
        elif path.startswith("kernels/"):
            text = kernel_page(path, text)
        else:
            text = f"# {path}\n\n{fenced(text, LANGUAGES.get(pathlib.Path(path).suffix, 'text'))}"
        in_contents = path == "README.md" or path in captioned() or path.startswith("kernels/")
        self.write(name_of(path), text if in_contents else f"---\norphan: true\n---\n\n{text}")


def name_of(path):
    """The page of a file."""
    folder, name = os.path.split(path)
    if name == "README.md":
        return os.path.join(folder, "index.md")
    return path if name.endswith((".md", ".svg", ".png")) else path + ".md"


def captioned():
    return {path for group in GROUPS.values() for path in group}


def contents():
    """Below the first page: a link to the playground, where it has been made, and the table of contents."""
    playground = ROOT / os.environ.get("PKC_PLAYGROUND", "build/playground/playground.html")
    link = "\n## Try it\n\n<a href=\"playground.html\">The playground</a> runs the compiler in the browser.\n" if playground.exists() else ""
    groups = (f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(map(name_of, paths)) + "\n```\n" for caption, paths in GROUPS.items())
    return link + "\n" + "\n".join(groups)


def kernels():
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / "kernels").rglob("*.pk"))]


def listed(path):
    """Below the page of the kernel library, the pages of its kernels."""
    if path != "kernels/README.md":
        return ""
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(name_of(kernel).removeprefix("kernels/") for kernel in kernels()) + "\n```\n"


def coloured(text):
    """Fences without a language that hold .pk text say so."""
    return re.sub(rf"^```\n((?:// .*\n)*{FIRST_WORDS})", r"```pk\n\1", text, flags=re.M)


def with_anchors(text):
    return re.sub(r'^<a name="([\w-]+)"></a>$', r"(\1)=", text, flags=re.M)


def fenced(text, language):
    return f"````{language}\n{text.rstrip()}\n````\n"


def kernel_page(path, text):
    """The comment at the head of the file as text, the kernel, and its tests."""
    head = re.match(r"(?://.*\n)*", text)[0]
    lines = [line[2:].strip() for line in head.splitlines()]
    tests = [line for line in lines if re.match(r"(?:test|check|error|warning|refused|prove|explain|explain-not|target|emit): ", line)]
    said = "\n".join(line for line in lines if line not in tests).strip()
    parts = [f"# {path.removeprefix('kernels/')}\n", said + "\n", fenced(text[len(head) :], "pk")]
    if tests:
        parts += ["## Tests\n", f"`pkc test {path}` runs:\n", fenced("\n".join(tests), "text")]
    return "\n".join(parts)


def main():
    site = Site(pathlib.Path(sys.argv[1]))
    shutil.rmtree(site.folder, ignore_errors=True)
    left_out = {f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")} - captioned()
    if left_out:
        sys.exit(f"docs/site/pages.py: GROUPS does not have {', '.join(sorted(left_out))}")
    site.pending = ["README.md", *sorted(captioned()), *kernels()]
    while site.pending:
        site.add(site.pending.pop())


if __name__ == "__main__":
    main()
