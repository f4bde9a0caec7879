"""A line below a notebook's cell that shows how long a program has been running."""
import sys

STEP = 1  # seconds between two texts


class Progress:
    """The line: from the first second on until the end."""

    def __init__(self, name):
        self.name, self.shown = name, None

    def show(self, seconds):
        from IPython.display import display
        data = {"text/plain": "%s: %d s" % (self.name, seconds)}
        if self.shown is None:
            self.shown = display(data, raw=True, display_id=True)
        else:
            self.shown.update(data, raw=True)

    def end(self):
        if self.shown is not None:
            self.shown.update({"text/plain": ""}, raw=True)


def progress(name):
    """The progress of a program; None outside of notebooks."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return Progress(name) if hasattr(shell, "kernel") else None
