"""The results of the command line's verbs as objects: text in a terminal, HTML in a notebook."""
import html
import json
import os


class Text(str):
    """A text that is displayed unchanged."""

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        return "<pre>%s</pre>" % html.escape(self)


class Report:
    """`text`: the output of the command line, which str() and repr() return."""

    def __init__(self, text):
        self.text = text.rstrip("\n")

    def __str__(self):
        return self.text

    __repr__ = __str__

    def _repr_html_(self):
        return "<pre>%s</pre>" % html.escape(self.text)


class Explanation(Report):
    """How each block is compiled, and why."""


class CheckReport(Report):
    """The interpreter's findings. True if there are none and the reference agrees.

    `findings`: a dict for each, with `file`, `line`, `column`, `kind`, `message`, `grid_step`, `operand`, `count`, `notes`.
    """

    def __init__(self, text, ok, more):
        super().__init__(text)
        self.ok, self._more, self._findings = ok, more, None

    def __bool__(self):
        return self.ok

    @property
    def findings(self):
        if self._findings is None:
            self._findings = [] if self.ok else [json.loads(line) for line in self._more().splitlines() if line.startswith("{")]
        return self._findings


# Where scripts of outputs do not run, the frame keeps its first height, and scrolls.
FRAME = (
    '<iframe srcdoc="%s" onload="const page = this.contentDocument.documentElement; '
    "new ResizeObserver(() => { this.style.height = page.offsetHeight + 1 + 'px' }).observe(page)\" "
    'style="width: 100%%; height: 48em; border: 0; resize: vertical"></iframe>')


class TpuReport(Report):
    """The predicted cost on a TPU. `data`: the figures; `html`: the report as a page; `svg`: the roofline ("" for programs)."""

    def __init__(self, text, page, svg, more):
        super().__init__(text)
        self.html, self.svg, self._more, self._data = page, svg, more, None

    @property
    def data(self):
        if self._data is None:
            self._data = json.loads(self._more())
        return self._data

    def _repr_html_(self):
        if not self.html:
            return super()._repr_html_()
        return FRAME % html.escape(self.html)


class BenchReport(Report):
    """Times of the kernel and of its naive reference. `data`: the figures of `pkc bench --json`."""

    def __init__(self, data):
        self.data = data
        super().__init__(self._text())

    def _rows(self):
        d = self.data
        rate = ("%.4g GFLOP/s" % d["gflops"]) if d.get("gflops") else ""
        rows = [("sizes", " ".join("%s=%s" % item for item in d["sizes"].items())),
                ("best", "%.4g ms" % d["best_ms"]), ("median", "%.4g ms, %d runs" % (d["median_ms"], d["runs"])),
                ("threads", str(d["threads"])), ("rate", ", ".join(x for x in (rate, "%.4g GB/s" % d["gbytes_per_s"]) if x))]
        if d.get("peak_share"):
            rows.append(("share of peak", "%.0f %%" % (100 * d["peak_share"])))
        if d.get("naive_ms"):
            rows.append(("naive reference", "%.4g ms: %.3g times slower" % (d["naive_ms"], d["naive_speedup"])))
        if d.get("max_abs_error") is not None:
            rows.append(("largest difference", "%.3g at %s, allowed %.3g" % (d["max_abs_error"], d["worst_element"], d["tolerance"])))
        return rows

    def _text(self):
        return "\n".join(["%s on %s" % (self.data["kernel"], self.data["target"]),
                          *("  %-19s %s" % row for row in self._rows())])

    def _repr_html_(self):
        rows = "".join("<tr><th style='text-align: left'>%s</th><td style='text-align: left'>%s</td></tr>" %
                       tuple(map(html.escape, row)) for row in self._rows())
        return "<table><caption>%s</caption>%s</table>" % (html.escape(self.text.split("\n")[0]), rows)


def read(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()
