"""The error for kernels that cannot be translated, with the position in Python."""
import linecache


class TranslationError(NotImplementedError):
    """A Pallas kernel, or a part of one, that cannot be expressed as .pk text.

    The text names what it is, where it is in Python, and what to do.
    """


class Place:
    """The line of Python that an equation comes from, or none."""

    def __init__(self, file="", line=0, function=""):
        self.file, self.line, self.function = file, line, function

    def __eq__(self, other):
        return isinstance(other, Place) and (self.file, self.line) == (other.file, other.line)

    def __hash__(self):
        return hash((self.file, self.line))

    def __bool__(self):
        return bool(self.line)

    def __str__(self):
        return "%s:%d" % (self.file, self.line)

    @property
    def text(self):
        return linecache.getline(self.file, self.line).strip() if self.line else ""


def place_of(equation):
    """The user's line of an equation of a jaxpr."""
    from jax._src import source_info_util
    frame = source_info_util.user_frame(equation.source_info.traceback)
    return Place(frame.file_name, frame.start_line, frame.function_name) if frame else Place()


LEFT = "pass interpret=True to this pallas_call."


def refuse(what, place=None, advice=""):
    """Raises the error; it says what is not supported, where, and what to do instead."""
    raise refusal(what, place, advice)


def unknown(what, place=None, advice=LEFT):
    """The refusal to raise from an unexpected exception of this package, which becomes its cause."""
    return refusal("%s has no translation" % what, place, advice[0].upper() + advice[1:])


def refusal(what, place=None, advice=""):
    text = "pkc.pallas: " + what
    if place:
        text += "\n  %s" % place
        if place.function:
            text += ", in %s" % place.function
        if place.text:
            text += "\n    " + place.text
    if advice:
        text += "\n  " + advice
    return TranslationError(text)


def explained(text, error):
    """The diagnostics of a CompileError of translated text, with the lines of Python."""
    parts = []
    for item in error.diagnostics or []:
        inside = 0 < item["line"] <= len(text.places)
        place = text.places[item["line"] - 1] if inside else None
        line = text.text.splitlines()[item["line"] - 1].strip() if inside else ""
        where = "\n  %s\n    %s" % (place, place.text) if place else ""
        parts.append("%s%s\n  in the translation: %s" % (item["message"], where, line))
    return "\n".join(parts) or str(error)
