"""The text of a kernel, line by line, with the lines of Python it comes from."""
import re

from pkc.pallas.errors import Place

RESERVED = set("""fn return static require grid block scratch alias mesh vmem_limit scoped pipeline region prefetch let var when if
else for while break in true false""".split())
OTHER_WORDS = set("""kernel program reference any smem vmem sem dma barrier regular at element slice pad halo of buffers revisit
parallel arbitrary inf nan ds""".split())


class Writer:
    """Statements and names.

    A value may be pending: it is used once, and its text goes where the use is. What reads memory is given a name before the
    next statement that may change memory, so that reads stay where they were.
    """

    def __init__(self, names=()):
        self.lines, self.places, self.indent = [], [], 1
        self.taken = RESERVED | OTHER_WORDS | set(names)
        self.pending = []  # (value, name wanted), in order
        self.place, self.said = Place(), None

    # ---- names

    def name(self, wanted):
        """A name that is not taken."""
        base = re.sub(r"\W+", "_", wanted or "", flags=re.ASCII).strip("_") or "v"
        base = "v" + base if base[0].isdigit() else base
        made, count = base, 1
        while made in self.taken:
            count += 1
            made = "%s_%d" % (base, count) if base[-1].isdigit() else "%s%d" % (base, count)
        self.taken.add(made)
        return made

    # ---- lines

    def line(self, text):
        self._comment()
        self.lines.append("  " * self.indent + text)
        self.places.append(self.place)

    def _comment(self):
        if self.place and self.place != self.said:
            source = self.place.text.encode("utf-8", "replace").decode("utf-8")
            name = self.place.file.rsplit("/", 1)[-1]
            self.lines.append("  " * self.indent + ("// %s:%d: %s" % (name, self.place.line, source))[:160].rstrip("\\"))
            self.places.append(self.place)
            self.said = self.place

    def let(self, value, wanted):
        """Gives a value its own statement."""
        inner = value.thin
        name = self.name(wanted)
        self.line("let %s = %s;" % (name, inner.typed if inner.constant else inner.text))
        inner.constant = False
        inner.named(name)
        value.reads, value.pending = False, False

    # ---- pending values

    def postpone(self, value, wanted):
        value.pending = True
        self.pending.append((value, wanted, self.place))

    def take(self, value):
        """Uses a pending value's text."""
        if value.pending:
            value.pending = False
            self.pending = [item for item in self.pending if item[0] is not value]

    def flush(self, everything=False):
        """Names pending values: those that read memory, or all."""
        kept, place = [], self.place
        items, self.pending = self.pending, []
        for value, wanted, where in items:
            if not value.pending:
                continue
            if everything or value.reads:
                self.place = where
                self.let(value, wanted)
            else:
                kept.append((value, wanted, where))
        self.place = place
        self.pending = kept + self.pending

    def effect(self, text):
        """A statement that may change memory."""
        self.flush()
        self.line(text)

    def open(self, text):
        """Begins a block of statements."""
        self.line(text + " {")
        self.indent += 1

    def close(self, text="}"):
        self.indent -= 1
        self.lines.append("  " * self.indent + text)
        self.places.append(self.place)
