"""Settings of Sphinx for the website, and the colours of .pk text. `make site` uses them."""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ["PKC_ROOT"])
sys.path.append(str(ROOT / "python" / "pkc"))
from _pygments import PkLexer  # noqa: E402

project = "pkc"
release = re.search(r"^VERSION := (.*)", (ROOT / "GNUmakefile").read_text(encoding="utf-8"), re.M)[1]
author = copyright = "the authors of pkc"
root_doc = "index"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["linkify"] if "linkify_it" in sys.modules else []
highlight_language = "text"
# Samples of C and Python leave lines out, and some files begin below the first heading.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
html_theme = "furo"
html_title = "pkc"
html_copy_source = html_show_sourcelink = False
html_show_copyright = False
# The playground, where it has been made: it is copied as it is.
PLAYGROUND = ROOT / os.environ.get("PKC_PLAYGROUND", "build/playground/playground.html")
html_extra_path = [str(PLAYGROUND)] if PLAYGROUND.exists() else []
html_theme_options = {"top_of_page_buttons": []}


def setup(app):
    app.add_lexer("pk", PkLexer)
