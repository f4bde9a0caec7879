"""Copies and semaphores."""
import jax

from pkc import _versions
from pkc.pallas.rules.devices import needs_mesh, remote_copy
from pkc.pallas.translate import tree_of
from pkc.pallas.values import Value
from pkc.pallas.window import mark_stored, scalar, window_of


def _parts(item):
    """(ref, transforms) of a Ref or TransformedRef, which may be one of another."""
    transforms = ()
    while hasattr(item, "transforms"):
        item, transforms = item.ref, (*item.transforms, *transforms)
    return item, transforms


class _Transformed:
    """A ref and the transforms beside it."""

    def __init__(self, ref, transforms):
        self.ref = ref
        self.transforms = [t for item in transforms or () for t in ([item] if not hasattr(item, "transforms") else item.transforms)]


def _operands(parts):
    """(source, target, semaphore, semaphore of the sender, device) of a copy."""
    if not _versions.of(jax).copy_beside:
        return parts[:5]
    refs = [None if ref is None else _Transformed(ref, transforms) for ref, transforms in zip(parts[0:8:2], parts[1:8:2])]
    return *refs, parts[8]


def _window(tr, item, transforms=None):
    ref, own = _parts(item)
    if isinstance(ref, (tuple, list)):
        tr.refuse("`pl.select_ref` here", "Only copies take refs that are chosen.")
    return window_of(tr, tr.env[ref], own if transforms is None else transforms)


def _choices(tr, item):
    """(scalar that chooses or None, windows) of an operand of a copy."""
    ref, transforms = _parts(item)
    if not isinstance(ref, (tuple, list)):
        return None, [_window(tr, item)]
    which, *rest = transforms
    if type(which).__name__ != "SelectTransform":
        tr.refuse("the transform `%s` of several refs" % type(which).__name__, "Use pl.select_ref first.")
    windows = []
    for one in ref:
        inner, own = _parts(one)
        windows.append(_window(tr, inner, [*own, *rest]))
    index = which.idx if isinstance(which.idx, int) else scalar(tr, which.idx)
    name = tr.writer.name("which")
    tr.writer.flush()
    tr.writer.line("let %s = clamp(%s, 0, %d);" % (name, index if isinstance(index, int) else index.text, len(windows) - 1))
    return name, windows


def _each_choice(tr, operands, then, chosen=()):
    """Calls `then` with the windows, for every combination of run-time choices."""
    if not operands:
        return then(*chosen)
    (name, windows), rest = operands[0], operands[1:]
    if name is None:
        return _each_choice(tr, rest, then, (*chosen, windows[0]))
    for k, window in enumerate(windows):
        tr.writer.open("when %s == %d" % (name, k))
        _each_choice(tr, rest, then, (*chosen, window))
        tr.writer.close()
    return None


def _copy(tr, equation, start=None):
    """A copy that the text `start` starts, or a wait for it."""
    source, target, semaphore, remote_semaphore, device = _operands(tree_of(equation, "tree"))
    if device is not None:
        return _remote(tr, equation, (source, target, remote_semaphore, semaphore), device, start)
    operands = [_choices(tr, item) for item in (source, target, semaphore)]
    tr.writer.flush()

    def one(source, target, semaphore):
        _same_lengths(source, target)
        mark_stored(target.ref)
        copy = "async_copy(%s -> %s, %s)" % (source.text(), target.text(target.ref.store), semaphore.text())
        if start:
            tr.writer.line(copy + start)
        if bool(start) == semaphore.ref.lasting:
            tr.writer.line(copy + ".wait();")
    _each_choice(tr, operands, one)
    return []


def _remote(tr, equation, items, device, start):
    operands = [_choices(tr, item) for item in items]
    tr.writer.flush()

    def one(source, target, sent, came):
        _same_lengths(source, target)
        if start:
            mark_stored(target.ref)
        remote_copy(tr, source, target, sent, came, device, equation.params.get("device_id_type"), start)
    _each_choice(tr, operands, one)
    return []


def _same_lengths(source, target):
    """Gives both windows of a copy the same expression for a run-time length."""
    lengths = iter([e[1] for e in source.entries if isinstance(e, tuple)])
    for k, e in enumerate(target.entries):
        if isinstance(e, tuple):
            length = next(lengths, e[1])
            target.entries[k] = e if isinstance(length, int) else (e[0], length, e[2])


def _start(tr, equation):
    if equation.params.get("add"):
        tr.refuse("a copy that adds", "Copy to scratch, and add from there.")
    priority = equation.params.get("priority") or 0
    return _copy(tr, equation, ".start(%s);" % ("priority = %d" % priority if priority else ""))


def _wait(tr, equation):
    return _copy(tr, equation)


def _signal(tr, equation):
    ref, transforms, value, device, core = (list(tree_of(equation, "args_tree")) + [None] * 5)[:5]
    if core is not None:
        tr.refuse("a signal to another core", "Kernels run on one core here.")
    place = None if device is None else needs_mesh(tr, "a signal to another device").place(
        tr, device, equation.params.get("device_id_type"))
    to = ", device = " + place if place else ""
    tr.writer.effect("signal(%s, %s%s);" % (_window(tr, ref, transforms).text(), _text(tr, value), to))
    return []


def _text(tr, value):
    return tr.read(value).text if not isinstance(value, (int, bool)) else str(int(value))


def _semaphore_wait(tr, equation):
    ref, transforms, value, decrement = (list(tree_of(equation, "args_tree")) + [True] * 4)[:4]
    if not _is_true(decrement):
        tr.refuse("a wait that leaves the semaphore as it is", "Use pl.semaphore_read in a loop.")
    tr.writer.effect("wait(%s, %s);" % (_window(tr, ref, transforms).text(), _text(tr, value)))
    return []


def _is_true(value):
    return bool(getattr(value, "val", value))


def _read(tr, equation):
    ref, transforms = tree_of(equation, "args_tree")
    return Value("read(%s)" % _window(tr, ref, transforms).text(), (), "i32", reads=True)


RULES = {
    "dma_start": _start,
    "dma_wait": _wait,
    "semaphore_signal": _signal,
    "semaphore_wait": _semaphore_wait,
    "semaphore_read": _read,
    "add_dependency": lambda tr, equation: [],
}
