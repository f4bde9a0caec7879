"""Copies and semaphores."""
import copy

import jax

from pkc import _versions
from pkc.pallas.rules.control import tile_bytes
from pkc.pallas.rules.devices import ONE_AFTER_ANOTHER, place_of, remote_copy
from pkc.pallas.translate import tree_of
from pkc.pallas.values import ADD, Value, shape_text
from pkc.pallas.window import Listed, mark_stored, placed, scalar, window_of


def _parts(item):
    """(ref, transforms) of a Ref or TransformedRef, which may be one of another."""
    transforms = ()
    while hasattr(item, "transforms"):
        item, transforms = item.ref, (*item.transforms, *transforms)
    return item, transforms


class _Transformed:
    """A ref and its transforms."""

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
        if _lists(tr, source) or _lists(tr, target):
            return _each_index(tr, source, target, lambda *windows: move(*windows, semaphore), bool(start))
        return move(source, target, semaphore)

    def move(source, target, semaphore):
        if _adds(tr, equation, target, semaphore, start):
            return _add(tr, source, target) if start else None
        source, target, uncovered = _inside(tr, source, target)
        _same_lengths(source, target)
        mark_stored(target.ref)
        for window in uncovered if start else ():
            _clear(tr, window)
        text = "async_copy(%s -> %s, %s)" % (source.text(), target.text(target.ref.store), semaphore.text())
        if start:
            tr.writer.line(text + start)
        if bool(start) == semaphore.ref.lasting:
            tr.writer.line(text + ".wait();")
    _each_choice(tr, operands, one)
    return []


# ---- copies by indices, and copies that add

def _lists(tr, window):
    """Whether a window has indices along an axis. Those in a value are read one by one, too."""
    window.entries = [Listed(None, tr.held(e)) if isinstance(e, Value) and e.shape else e for e in window.entries]
    return window.listed


def _each_index(tr, source, target, then, starts):
    """Calls `then` with the windows of one element of the list, in a loop over it. A wait counts bytes, and needs no index."""
    if source.listed and target.listed or len(source.listed + target.listed) != 1:
        tr.refuse("a copy with several lists of indices", "Give the indices of one axis, of the source or of the target.")
    by_index, other = (source, target) if source.listed else (target, source)
    place = by_index.listed[0]
    found = by_index.entries[place]
    if found.value is not None and len(found.value.shape) != 1:
        tr.refuse("indices of a copy of shape %s" % (found.value.shape,), "Use one axis.")
    axis = sum(not isinstance(e, (int, Value)) for e in by_index.entries[:place])
    writer, turn = tr.writer, Value(tr.writer.name("row"), (), "i32", index=True)
    count = found.count
    writer.open("for %s in 0..%s" % (turn.text, count if isinstance(count, int) else count.text))
    if found.ignored is not None:
        writer.open("when %s != %d" % (found.at(turn).text, found.ignored))
    one, beside = copy.copy(by_index), copy.copy(other)
    one.entries, beside.entries = list(by_index.entries), list(other.entries)
    one.entries[place] = (found.at(turn) if starts else 0, 1, 1)
    slices = [k for k, e in enumerate(other.entries) if isinstance(e, tuple)]
    first, _, stride = other.entries[slices[axis]]
    beside.entries[slices[axis]] = (placed(first, stride, turn), 1, 1)
    then(*((one, beside) if source.listed else (beside, one)))
    for _ in range(2 if found.ignored is not None else 1):
        writer.close()


def _adds(tr, equation, target, semaphore, start):
    """Whether a copy adds to its target, or is a wait for one that did: the sum is complete where the copy starts."""
    key = semaphore.ref.name, target.ref.store
    if not start:
        return tr.sums.setdefault(key, False)
    adds = bool(equation.params.get("add"))
    if tr.sums.setdefault(key, adds) != adds:
        tr.refuse("a semaphore for copies that add and for others, or that is waited for in an earlier line", "Use another semaphore for the copies that add.")
    return adds


def _add(tr, source, target):
    """Adds a window to another one, in memory of its own: those of a copy may be in HBM."""
    if any(not isinstance(n, int) for n in target.shape):
        tr.refuse("a copy that adds, of a run-time length", "Add windows of a constant length.")
    writer, dtype = tr.writer, target.ref.dtype
    mark_stored(target.ref)
    total, part, moved = (writer.name(name) for name in ("total", "part", "moved"))
    shape = "%s%s" % (dtype, shape_text(target.shape))
    tr.scoped += 2 * tile_bytes(target.shape, 8)
    writer.open("scoped %s: vmem %s, %s: vmem %s, %s: sem dma" % (total, shape, part, shape, moved))
    whole = "[...]" if target.shape else ""
    for step in ("%s -> %s%s" % (target.text(target.ref.store), total, whole), "%s -> %s%s" % (source.text(), part, whole), None,
                 "%s%s -> %s" % (total, whole, target.text(target.ref.store))):
        if step is None:
            writer.line("%s%s += %s%s;" % (total, whole, part, whole))
            continue
        writer.line("async_copy(%s, %s).start();" % (step, moved))
        writer.line("async_copy(%s, %s).wait();" % (step, moved))
    writer.close()


def _remote(tr, equation, items, device, start):
    for semaphore in items[2:]:
        _must_count_bytes(tr, semaphore)
    operands = [_choices(tr, item) for item in items]
    tr.writer.flush()

    def one(source, target, sent, came):
        _same_lengths(source, target)
        if start:
            mark_stored(target.ref)
        remote_copy(tr, source, target, sent, came, device, equation.params.get("device_id_type"), start)
    _each_choice(tr, operands, one)
    return []


def _must_count_bytes(tr, semaphore):
    ref, _ = _parts(semaphore)
    for one in ref if isinstance(ref, (tuple, list)) else [ref]:
        kind = str(_parts(one)[0].aval.inner_aval.dtype).partition("_")[0]
        if kind != "dma":
            tr.refuse("a remote copy with a %s semaphore" % {"semaphore": "regular"}.get(kind, kind),
                      "The semaphores of such a copy count its bytes here: use pltpu.SemaphoreType.DMA.")


def _inside(tr, source, target):
    """(source, target, the windows of the target that get zeros) of a copy whose constant windows may extend past the end of their refs.

    On a TPU the elements there are padding of the memory. The target gets zeros for what the source lacks, and what the target lacks is left out.
    """
    lengths = [[_length_inside(e, n) for e, n in zip(window.entries, window.ref.shape) if isinstance(e, tuple)] for window in (source, target)]
    if len(lengths[0]) != len(lengths[1]):
        return source, target, ()
    copied = [None if None in pair else min(pair) for pair in zip(*lengths)]
    lacks = [k for k, length in enumerate(copied) if length is not None and length < lengths[1][k]]
    if lacks and target.ref.space == "any":
        tr.refuse("a copy to HBM of elements past the end of its source", "Copy them to VMEM, where they are zeros.")
    return _shortened(source, copied), _shortened(target, copied), [_shortened(target, lengths[1], k, copied[k]) for k in lacks]


def _length_inside(entry, n):
    """How many elements of a slice are on an axis of n elements; None: not known. A slice that begins at run time is moved in."""
    start, size, stride = entry
    if not isinstance(size, int) or not stride:
        return None
    return min(size, -(-(n - start) // stride)) if isinstance(start, int) and 0 <= start < n else size


def _shortened(window, lengths, axis=None, first=0):
    """The window with these lengths of its slices, of which None leaves one as it is; the slice `axis` begins at its element `first`."""
    found, slices = copy.copy(window), [k for k, e in enumerate(window.entries) if isinstance(e, tuple)]
    found.entries = list(window.entries)
    for k, (place, length) in enumerate(zip(slices, lengths)):
        start, _, stride = found.entries[place]
        if length is not None:
            found.entries[place] = (start + first * stride, length - first, stride) if k == axis else (start, length, stride)
    return found


def _clear(tr, window):
    """Stores zeros to a window. A store has no run-time lengths: a mask leaves the rest of such an axis as it is."""
    whole, tests = copy.copy(window), []
    whole.entries = [e if not isinstance(e, tuple) or isinstance(e[1], int) else (0, n, 1) for e, n in zip(window.entries, window.ref.shape)]
    slices = [e for e in window.entries if isinstance(e, tuple)]
    for axis, (start, size, stride) in enumerate(slices):
        if not isinstance(size, int):
            if stride != 1:
                tr.refuse("a copy with strides and a run-time length, of elements past the end of its source")
            at = "iota(%s, axis = %d)" % (shape_text(whole.shape), axis)
            begin = Value(str(start), (), "i32") if isinstance(start, int) else start
            tests.append("%s >= %s && %s < %s + %s" % (at, begin.at(ADD), at, begin.at(ADD), size.at(ADD + 1)))
    name, zero = whole.text(window.ref.store), "false" if window.ref.dtype == "bool" else "0"
    tr.writer.line("store(%s, %s, mask = %s);" % (name, zero, " && ".join(tests)) if tests else "%s = %s;" % (name, zero))
    window.ref.touched = True


def _same_lengths(source, target):
    """Gives both windows of a copy the same expression for a run-time length."""
    lengths = iter([e[1] for e in source.entries if isinstance(e, tuple)])
    for k, e in enumerate(target.entries):
        if isinstance(e, tuple):
            length = next(lengths, e[1])
            target.entries[k] = e if isinstance(length, int) else (e[0], length, e[2])


def _start(tr, equation):
    priority = equation.params.get("priority") or 0
    return _copy(tr, equation, ".start(%s);" % ("priority = %d" % priority if priority else ""))


def _wait(tr, equation):
    return _copy(tr, equation)


def _signal(tr, equation):
    ref, transforms, value, device, core = (list(tree_of(equation, "args_tree")) + [None] * 5)[:5]
    if core is not None and not _is_only_core(tr, core):
        tr.refuse("a signal to another core", ONE_AFTER_ANOTHER)
    place = place_of(tr, "a signal", device, equation.params.get("device_id_type"))
    to = ", device = " + place if place else ""
    tr.writer.effect("signal(%s, %s%s);" % (_window(tr, ref, transforms).text(), _text(tr, value), to))
    return []


def _is_only_core(tr, core):
    """Whether the index is 0 in a kernel without an axis that could be one of several cores."""
    return scalar(tr, core) == 0 and all(extent == 1 for _, extent in tr.all_names.values())


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
