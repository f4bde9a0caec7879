#!/usr/bin/env python3
"""Links of the documents, and of the website that `make site` generates.

Each link in a Markdown file of the tree leads to a file, and to a heading or anchor of it. If `make site` has installed its generator, the site
is written, each link of its pages leads to a page and an id, and the search finds kernels in a browser.
"""
import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

from suite import ROOT, check, finish

ENVIRONMENT, PAGES = ROOT / "build" / "site" / "env" / "installed", ROOT / "build" / "site" / "html"
LINK = re.compile(r"\]\(([^()\s#]*)(?:#([^()\s]*))?\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|^    [^\n]*$", re.M | re.S)


def documents():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    return listed or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md") if "build" not in path.parts]


def slug(heading):
    """The anchor of a heading on its page."""
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


def anchors(path):
    text = re.sub(r"^```.*?^```$", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)} | set(re.findall(r'<a name="([^"]*)"', text))


def check_document(path):
    text = CODE.sub(lambda code: code[0] if code[0].startswith("`") and code[0][1] != "`" else "", (ROOT / path).read_text(encoding="utf-8"))
    for link, anchor in LINK.findall(text):
        if ":" in link:
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), link)) if link else path
        there = (ROOT / target).exists()
        check(f"{path} links to {link}", there)
        if anchor and there and target.endswith(".md"):
            check(f"{path} links to {link}#{anchor}", anchor in anchors(target))


class Page(html.parser.HTMLParser):
    """The links and ids of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name"):
                self.ids.add(value)


def check_site():
    made = subprocess.run(["make", "-s", "-C", ROOT, "site"], capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""})
    if not check("make site", made.returncode == 0, made.stdout[-500:] + made.stderr[-1500:]):
        return
    pages = {path: Page(path) for path in PAGES.rglob("*.html")}
    check("pages", len(pages) > 100, len(pages))
    for path, page in pages.items():
        broken = [link for link in page.links if not leads_somewhere(path, link, pages)]
        check(f"links of {path.relative_to(PAGES)}", not broken, broken)


def leads_somewhere(path, link, pages):
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    return target.is_file() and (not parts.fragment or target not in pages or urllib.parse.unquote(parts.fragment) in pages[target].ids)


def check_search():
    browser = next((name for name in ("chromium-headless-shell", "chromium", "chromium-browser") if shutil.which(name)), None)
    if browser is None:
        print("SKIPPED website, its search in a browser: no chromium here (apt-get install chromium-headless-shell)")
        return
    page = f"file://{PAGES}/search.html?q=softmax"
    shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom", page], capture_output=True, text=True, timeout=120)
    check("the search finds a kernel", 'href="kernels/softmax.pk.html' in shown.stdout, shown.stdout[-300:])


def main():
    for path in documents():
        check_document(path)
    if ENVIRONMENT.exists():
        check_site()
        check_search()
    else:
        print("SKIPPED website: make site has not installed its generator")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
