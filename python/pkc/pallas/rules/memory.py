"""Reads and writes of refs, and the position in the grid."""
import copy

from pkc.pallas.translate import Ref, tree_of
from pkc.pallas.values import ATOM, Value, broadcast, literal, physical_shape, shape_text
from pkc.pallas.window import Window, mark_stored, window_of


def ref_window(tr, ref, transforms):
    """The window of a ref that is read or written directly."""
    ref = tr.env[ref] if not isinstance(ref, Ref) else ref
    found = window_of(tr, ref, transforms or ())
    touch(found.ref)
    return found


def touch(ref, stored=False):
    if stored:
        mark_stored(ref)
    while ref is not None:
        ref.touched = True
        ref = ref.of


def load(tr, window, shape, dtype, indices="wrapped"):
    """The contents of a window. Arrays of indices are as in NumPy, where -1 is the last element (wrapped), clamped, or plain."""
    repeated = [isinstance(e, tuple) and e[2] == 0 for e in window.entries]  # one element along the axis, again and again
    if any(repeated):
        one = _replaced(window, [(e[0], 1, 1) if again else e for e, again in zip(window.entries, repeated)])
        return broadcast(load(tr, one, one.shape, dtype, indices), shape)
    if not window.arrays:
        return Value(window.text(), shape, dtype, reads=True)
    entries = window.entries
    joined = next(e.shape for e in entries if isinstance(e, Value) and e.shape)
    parts = []
    for k, e in enumerate(entries):
        if isinstance(e, tuple):
            parts.append(":")
        elif isinstance(e, Value) and e.shape:
            parts.append(_INDICES[indices](tr, e, window.ref.shape[k]))
        else:
            parts.append("broadcast(cast(%s, i32), %s)" % (e if isinstance(e, int) else e.text, shape_text(joined)))
    whole = [e if isinstance(e, tuple) else (0, window.ref.shape[k], 1) for k, e in enumerate(entries)]
    text = Window.text(_replaced(window, whole))
    return Value("%s[%s]" % (text, ", ".join(parts)), shape, dtype, reads=True)


def contents(tr, ref):
    """The contents of a whole ref."""
    window = ref_window(tr, ref, ())
    return load(tr, window, window.shape, ref.dtype)


def _replaced(window, entries):
    made = Window(window.ref)
    made.entries = entries
    return made


def _wrapped(tr, index, n):
    """Indices with NumPy's meaning of negative ones."""
    if index.dtype[0] == "u" or index.text.startswith("iota("):
        return index.text
    tr.held(index)
    return "where(%s < 0, %s + %d, %s)" % (index.text, index.text, n, index.text)


_INDICES = {
    "wrapped": _wrapped,
    "clamped": lambda tr, index, n: "clamp(%s, 0, %d)" % (index.typed, n - 1),
    "plain": lambda tr, index, n: index.typed,
}


def _get(tr, equation):
    window = ref_window(tr, equation.invars[0], _transforms(equation, 1))
    out = equation.outvars[0]
    return load(tr, window, physical_shape(out.aval), tr.dtype(out))


def _transforms(equation, skip):
    found = tree_of(equation, "tree", skip)
    return found if isinstance(found, (tuple, list)) else (found,)


def store_text(value):
    """A value as the right side of a store: it may be thinner than the window."""
    return value.thin.typed if value.thin.index else value.thin.text


def _old(tr, equation, window, mask=None, other=None):
    """The value before the store, if it is used. Masked-out lanes have the elements of `other`."""
    out = equation.outvars[0]
    if tr.uses[out]:
        value = load(tr, window, physical_shape(out.aval), tr.dtype(out), indices="wrapped" if mask is None else "clamped")
        if mask is not None:
            form = "where({1}, {0}, {2})" if window.arrays else "load({0}, mask = {1}, other = {2})"
            text = form.format(value.text if window.arrays else window.text(), mask.text, store_text(other))
            value = Value(text, value.shape, value.dtype, reads=True)
        tr.writer.let(value, "old")
        return value
    return None


def _swap(tr, equation):
    window = ref_window(tr, equation.invars[0], _transforms(equation, 2))
    value = tr.read(equation.invars[1])
    old = _old(tr, equation, window)
    store(tr, window, value, "=")
    return old


def store(tr, window, value, sign, indices="wrapped"):
    touch(window.ref, stored=True)
    name = window.ref.store
    if window.arrays:
        return _scatter(tr, window, value, sign, indices)
    tr.writer.effect("%s %s %s;" % (window.text(name), sign, store_text(value)))
    return None


def _scatter(tr, window, value, sign, indices):
    """Stores at positions given by arrays of indices."""
    arrays = window.arrays
    if sign not in ("=", "+="):
        tr.refuse("a store at array indices that combines")
    shape = window.entries[arrays[0]].shape
    count = 1
    for n in shape:
        count *= n
    if any(window.entries[k].shape != shape for k in arrays):
        tr.refuse("array indices of different shapes in a store", "Broadcast them to one shape.")
    indices = [_INDICES[indices](tr, window.entries[k], window.ref.shape[k]) for k in arrays]
    if len(shape) != 1:
        indices = ["reshape(%s, [%d])" % (text, count) for text in indices]
    ints = [k for k, e in enumerate(window.entries) if not isinstance(e, tuple)]
    kept = [k for k in range(len(window.entries)) if k in arrays or isinstance(window.entries[k], tuple)]
    rows = [k for k in kept if k not in arrays]
    text = value.typed
    if len(shape) != 1 or ints != list(range(ints[0], ints[0] + len(ints))) or len(ints) != len(arrays):
        contiguous = ints == list(range(ints[0], ints[0] + len(ints)))
        before = [window.entries[k][1] for k in rows if k < ints[0]] if contiguous else []
        after = [window.entries[k][1] for k in rows][len(before):]
        text = "reshape(%s, %s)" % (text, shape_text([*before, count, *after]))
        lead = len([k for k in rows if k < arrays[0]])
        if lead != len(before):
            order = [*range(1, 1 + lead), 0, *range(1 + lead, 1 + len(rows))]
            text = "transpose(%s, (%s))" % (text, ", ".join(map(str, order)))
    axes = [kept.index(k) for k in arrays]
    window.entries = [(0, window.ref.shape[k], 1) if k in arrays else e for k, e in enumerate(window.entries)]
    place, axis = (indices[0], str(axes[0])) if len(axes) == 1 else ("(%s)" % ", ".join(indices), "(%s)" % ", ".join(map(str, axes)))
    name = "scatter" if sign == "=" else "scatter_add"
    tr.writer.effect("%s(%s, %s, %s, axis = %s);" % (name, window.text(window.ref.store), place, text, axis))
    return None


def _addupdate(tr, equation):
    window = ref_window(tr, equation.invars[0], _transforms(equation, 2))
    value = tr.read(equation.invars[1])
    store(tr, window, value, "+=")


def _mask_of(tr, window, mask):
    """The mask of an access as Triton makes it, whose lanes keep their places: without one of its own it has one where the window
    may leave its ref. None: a mask changes nothing."""
    if mask is not None:
        return tr.read(mask)
    if window.arrays:
        return None
    leaves = False
    for entry, n in zip(window.entries, window.ref.shape):
        start, size, stride = entry if isinstance(entry, tuple) else (0, 1, 1)
        if size and (size - 1) * stride >= n:
            tr.refuse("a slice of %d elements of an axis of %d, without a mask" % (size, n),
                      "Give it a mask, which is false for the elements that are not there.")
        leaves |= not isinstance(start, int) or start < 0 or start + (size - 1) * stride >= n > 0
    return literal(True, "bool") if leaves else None


def _masked_load(tr, equation):
    ref, transforms, mask, other = tree_of(equation, "args_tree")
    window = ref_window(tr, ref, transforms)
    out, mask = equation.outvars[0], _mask_of(tr, window, mask)
    if mask is None:
        return load(tr, window, physical_shape(out.aval), tr.dtype(out))
    if window.arrays:
        return _masked_gather(tr, window, mask, other, out)
    text = "load(%s, mask = %s" % (window.text(), mask.text)
    if other is not None:
        text += ", other = %s" % store_text(tr.read(other))
    text += ")"
    return Value(text, physical_shape(out.aval), tr.dtype(out), ATOM, reads=True)


def _masked_gather(tr, window, mask, other, out):
    value = load(tr, window, physical_shape(out.aval), tr.dtype(out), "clamped")
    if other is None:
        return value
    chosen = "where(%s, %s, %s)" % (mask.text, value.text, store_text(tr.read(other)))
    return Value(chosen, value.shape, value.dtype, reads=True)


def _masked_swap(tr, equation):
    ref, transforms, value, mask = tree_of(equation, "args_tree")
    window = ref_window(tr, ref, transforms)
    value = tr.read(value)
    mask = _mask_of(tr, window, mask)
    if mask is not None and tr.uses[equation.outvars[0]]:
        value, mask = tr.held(value), tr.held(mask)
    old = _old(tr, equation, window, mask, value)
    if mask is None:
        store(tr, window, value, "=")
        return old
    if window.arrays:
        before = load(tr, window, value.shape, value.dtype, "clamped")
        chosen = Value("where(%s, %s, %s)" % (mask.text, value.typed, before.text), value.shape, value.dtype, reads=True)
        store(tr, window, chosen, "=")
        return old
    touch(window.ref, stored=True)
    tr.writer.effect("store(%s, %s, mask = %s);" % (window.text(window.ref.store), store_text(value), mask.text))
    return old


# ---- atomic updates: steps of a grid that meet in one place run one after the other

_COMBINED = {"xchg": "{1}", "add": "{0} + {1}", "max": "max({0}, {1})", "min": "min({0}, {1})", "and": "{0} & {1}", "or": "{0} | {1}",
             "xor": "{0} ^ {1}"}


def _atomic_update(tr, equation):
    ref, transforms, value, mask = tree_of(equation, "args_tree")
    window, value, kind = ref_window(tr, ref, transforms), tr.held(tr.read(value)), equation.params["atomic_type"].name.lower()
    if window.arrays and (kind != "add" or mask is not None):
        tr.refuse("an atomic update at array indices, other than an addition without a mask", "Update one element or a slice at a time.")
    old, mask = load(tr, window, value.shape, value.dtype), _mask_of(tr, window, mask)
    if mask is not None:
        mask = tr.held(mask)
        old = Value("load(%s, mask = %s)" % (window.text(), mask.text), value.shape, value.dtype, reads=True)
    if not window.arrays or tr.uses[equation.outvars[0]]:
        tr.writer.let(old, "old")
    if window.arrays:
        store(tr, window, value, "+=")
        return old
    new = Value(_COMBINED[kind].format(old.text, value.thin.typed), value.shape, value.dtype)
    if mask is None:
        store(tr, window, new, "=")
    else:
        touch(window.ref, stored=True)
        tr.writer.effect("store(%s, %s, mask = %s);" % (window.text(window.ref.store), new.text, mask.text))
    return old


def _atomic_swap(tr, equation):
    ref, wanted, value = equation.invars
    window, wanted, value = ref_window(tr, ref, ()), tr.read(wanted), tr.read(value)
    old = load(tr, window, (), tr.dtype(equation.outvars[0]))
    tr.writer.let(old, "old")
    store(tr, window, Value("where(%s == %s, %s, %s)" % (old.text, wanted.typed, value.typed, old.text), (), old.dtype), "=")
    return old


# ---- the grid

def _program_id(tr, equation):
    axis = tr.axes[equation.params["axis"]]
    return Value(axis, (), "i32", index=True) if isinstance(axis, str) else copy.copy(axis[0])


def _num_programs(tr, equation):
    axis = tr.axes[equation.params["axis"]]
    return Value("num_programs(%s)" % axis, (), "i32", index=True) if isinstance(axis, str) else copy.copy(axis[1])


RULES = {
    "get": _get,
    "swap": _swap,
    "addupdate": _addupdate,
    "masked_load": _masked_load,
    "masked_swap": _masked_swap,
    "atomic_rmw": _atomic_update,
    "atomic_cas": _atomic_swap,
    "program_id": _program_id,
    "num_programs": _num_programs,
}
