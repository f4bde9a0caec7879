"""The words of the language, as the compiler's tables have them."""
import pathlib
import re


def words_of(root, path, rows):
    """The first quoted strings of the rows of a .def file."""
    return re.findall(rf'^(?:{rows})\(\w+, "(\w+)"', (pathlib.Path(root) / path).read_text(encoding="utf-8"), re.M)


def keywords(root):
    return words_of(root, "dsl/tokens.def", "TOKEN")


def dtypes(root):
    return words_of(root, "dsl/dtypes.def", "INTEGER|FLOAT")
