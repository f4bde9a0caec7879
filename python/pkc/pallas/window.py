"""Windows of refs: a chain of JAX's transforms as one subscript, after views where the chain changes dtype, shape or order."""
import copy
import re

import jax
from jax.extend import core as jex

from pkc import _versions
from pkc.pallas.rules.arrays import numbers, reshaped
from pkc.pallas.translate import Ref
from pkc.pallas.values import ADD, MUL, Value, bits_of, dtype_name, shape_text


class Window:
    """A ref, and for each of its axes an int or value (one element), an array of indices, Listed ones, or (start, size, stride)."""

    def __init__(self, ref):
        self.ref = ref
        self.entries = [(0, n, 1) for n in ref.shape]

    @classmethod
    def of(cls, ref):
        """The window of a whole ref, or of a part."""
        found = cls(ref.whole if isinstance(ref, Part) else ref)
        if isinstance(ref, Part):
            found.entries = list(ref.entries)
        return found

    @property
    def values(self):
        """The entries that are known only at run time."""
        parts = [part for e in self.entries for part in (e if isinstance(e, tuple) else (e,))]
        return [part for part in parts if isinstance(part, Value)]

    def narrow(self, indices):
        """Applies an indexer to the remaining axes."""
        self.entries = [entry if index is None else _compose(entry, index) for entry, index in self._paired(indices)]

    def takes(self, indices):
        """Whether a window of this window, clamped in it, equals a window of the ref, clamped in the ref."""
        return all(index is None or _is_one_slice(entry, index, n) for (entry, index), n in zip(self._paired(indices), self.ref.shape))

    def _paired(self, indices):
        """The entries, each with the index of its axis, or None."""
        left = iter(indices)  # none for the axes of a key of random numbers
        return [(e, next(left, (0, e[1], 1)) if isinstance(e, tuple) else None) for e in self.entries]

    @property
    def arrays(self):
        return [k for k, e in enumerate(self.entries) if isinstance(e, Value) and e.shape]

    @property
    def is_whole(self):
        return all(e == (0, n, 1) for e, n in zip(self.entries, self.ref.shape))

    @property
    def listed(self):
        """The axes whose indices are in memory."""
        return [k for k, e in enumerate(self.entries) if isinstance(e, Listed)]

    @property
    def shape(self):
        return tuple(e[1] if isinstance(e, tuple) else e.count for e in self.entries if isinstance(e, (tuple, Listed)))

    @property
    def reads(self):
        return any(part.reads for part in self.values)

    def straighten(self):
        """Arrays of consecutive indices, each along a different axis, become slices."""
        places = [k for k, e in enumerate(self.entries) if not isinstance(e, tuple)]
        arrays = self.arrays
        if not arrays or len(places) < len(self.entries) and places != list(range(places[0], places[-1] + 1)):
            return
        rank, axes = len(self.entries[arrays[0]].shape), []
        for k in arrays:
            value = self.entries[k].thin
            shape = (1,) * (rank - len(value.shape)) + value.shape
            own = [axis for axis, n in enumerate(shape) if n != 1]
            if value.ramp is None or len(own) > 1:
                return
            axes.append(own[0] if own else None)
        if axes != list(range(rank)):
            return
        for k in arrays:
            value = self.entries[k].thin
            start = int(value.ramp.number) if value.ramp.constant else value.ramp
            self.entries[k] = (start, max(value.shape, default=1), 1)

    def text(self, name=None):
        """The subscripted name. Axes with arrays of indices are taken whole."""
        name = name or self.ref.name
        if not self.ref.shape:
            return name
        if self.is_whole:
            return name + "[...]"
        cuts = [_cut(e, n) for e, n in zip(self.entries, self.ref.shape)]
        while len(cuts) > 1 and cuts[-1] == ":":
            cuts.pop()
        return "%s[%s]" % (name, ", ".join(cuts))


class Listed:
    """Indices along one axis, which a copy reads one by one: the elements of a window of a ref with one slice, or of a value.

    `ignored`: the index that stands for no element, or None.
    """

    def __init__(self, window, value=None, ignored=None):
        self.window, self.value, self.ignored = window, value, ignored

    @property
    def count(self):
        return self.value.shape[0] if self.window is None else self.window.shape[0]

    def at(self, place):
        """The index at this place of the list."""
        if self.window is None:
            return Value("%s[%s]" % (self.value.text, place.text), (), self.value.dtype)
        one = copy.copy(self.window)
        one.entries = [_compose(e, place) if isinstance(e, tuple) else e for e in one.entries]
        return Value(one.text(), (), one.ref.dtype, reads=True)


class Part(Ref):
    """A window of a ref that is used as a ref."""

    def __init__(self, window):
        super().__init__(window.ref.name, window.shape, window.ref.dtype, window.ref.space, window.ref.store)
        self.whole, self.entries = window.ref, window.entries


def _plus(a, b):
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(b, int) and b == 0:
        return a
    if isinstance(a, int) and a == 0:
        return b
    texts = [Value(str(v), (), "i32", constant=True) if isinstance(v, int) else v for v in (a, b)]
    if all(isinstance(v, Value) for v in (a, b)) and a.dtype != b.dtype:
        texts = [v if v.index or v.constant or v.dtype == "i32" else Value("cast(%s, i32)" % v.text, v.shape, "i32", reads=v.reads)
                 for v in texts]
    return Value("%s + %s" % (texts[0].at(ADD), texts[1].at(ADD + 1)), (), "i32", ADD, index=all(t.index or t.constant for t in texts),
                 reads=any(t.reads for t in texts))


def _times(a, n):
    if n == 1:
        return a
    if isinstance(a, int):
        return a * n
    return Value("%s * %d" % (a.at(MUL), n), a.shape, a.dtype, MUL, index=a.index, reads=a.reads)


def placed(start, stride, index):
    """The place of an element of a slice."""
    return _plus(start, _times(index, stride))


def _compose(entry, index):
    start, _, stride = entry
    if isinstance(index, Listed):
        return index
    if isinstance(index, tuple):
        return _plus(start, _times(index[0], stride)), index[1], stride * index[2]
    if isinstance(index, Value) and index.shape:
        if (start, stride) == (0, 1):
            return index
        return Value("%s + %s" % (_times(index, stride).at(ADD), start if isinstance(start, int) else start.at(ADD + 1)), index.shape,
                     index.dtype, ADD, reads=True)
    return placed(start, stride, index)


def _is_within(index, n):
    """Whether it is known to be in bounds along an axis of n elements."""
    if isinstance(index, tuple):
        start, size, stride = index
        return all(isinstance(part, int) for part in (start, size)) and 0 <= start and (size == 0 or start + (size - 1) * stride < n)
    return isinstance(index, int) and 0 <= index < n


def _is_one_slice(entry, index, n):
    """Whether, along an axis of n elements, the part of the slice `entry` that `index` selects is one slice, however both are clamped."""
    start, size, stride = entry
    whole = (start, size, stride) == (0, n, 1) or isinstance(index, tuple) and index == (0, size, 1)
    lasting = isinstance(size, Value) or stride == 0  # a view has neither
    return whole or lasting or _is_within(entry, n) and _is_within(index, size)


def _cut(entry, n):
    if isinstance(entry, int):
        return str(entry)
    if isinstance(entry, (Value, Listed)):
        return entry.text if isinstance(entry, Value) and not entry.shape else ":"
    start, size, stride = entry
    if isinstance(start, int) and isinstance(size, int):
        stop = start + (size - 1) * stride + 1 if size else start
        if stride == 1 or stop <= n:
            if (start, size, stride) == (0, n, 1):
                return ":"
            if stop <= n and start >= 0:
                return "%s:%s%s" % (start or "", stop if stop != n else "", "" if stride == 1 else ":%d" % stride)
    words = "%s, %s" % (start if isinstance(start, int) else start.text, size if isinstance(size, int) else size.text)
    return "ds(%s%s)" % (words, "" if stride == 1 else ", %d" % stride)


def scalar(tr, item):
    """An entry of an indexer as an int or a value."""
    if isinstance(item, (jex.Var, jex.Literal)):
        value = tr.read(item)
        if isinstance(value, Ref):
            value = Value(value.name, (), "i32", reads=True)
        if value.number is not None and value.shape == () and value.constant:
            return int(value.number)
        return value
    if hasattr(item, "shape") and getattr(item, "shape", ()):
        return tr.constant(item)
    return int(item)


def _index(tr, item):
    ignored, transforms = None, ()
    if type(item).__name__ == "Indices":  # of SparseCore
        item, ignored = item.values, item.ignored_value
    if hasattr(item, "transforms"):
        item, transforms = item.ref, item.transforms
    elif all(hasattr(item, name) for name in ("start", "size", "stride")):
        return _start(tr, item.start), scalar(tr, item.size), int(item.stride)
    ref = tr.env.get(item) if isinstance(item, jex.Var) else None
    if isinstance(ref, Ref) and (ref.shape or transforms):
        return _listed(tr, ref, transforms, ignored)
    found = scalar(tr, item)
    if ignored is not None:
        return Listed(None, tr.held(found), ignored)
    return found


def _start(tr, item):
    """The start of a slice: a number, or the only element of an array, such as one that a load of one element gave."""
    found = scalar(tr, item)
    if isinstance(found, Value) and found.shape and all(n == 1 for n in found.shape):
        return reshaped(found, ())
    return found


def _listed(tr, ref, transforms, ignored):
    """The indices that a ref holds; one element of a ref is a scalar."""
    window = window_of(tr, ref, transforms)
    while ref is not None:
        ref.touched, ref = True, ref.of
    if not window.shape:
        return Value(window.text(), (), window.ref.dtype, reads=True)
    if len(window.shape) != 1 or window.arrays or window.listed:
        tr.refuse("indices of a copy in a ref of shape %s" % (window.shape,), "Use a ref with one axis, such as indices_ref.at[0].")
    return Listed(window, None, ignored)


_OF_SUBCORE = "SharedMemRefSliceTransform"


def _of_subcore(tr, transform, shape):
    """The indices of this subcore's part of what all subcores of a core share: a slice along the last axis."""
    names = [name for name in tr.all_names if name is not None]
    if len(names) < 2:  # the axes of a mesh of subcores are that of cores and that of subcores
        tr.refuse("`slice_subcore_vmem_from_shared` in a kernel without subcores", "Use a mesh of vector subcores.")
    extent = transform.transform_type(jax.core.ShapedArray(shape, "int32")).shape[-1]
    subcore = Value(tr.all_names[names[-1]][0], (), "i32", index=True)
    return [*((0, n, 1) for n in shape[:-1]), (_times(subcore, extent), extent, 1)]


def window_of(tr, ref, transforms):
    """The window of a ref after transforms. Views among them become statements."""
    found, views = Window.of(ref), _versions.of(jax).views
    for transform in transforms:
        kind = type(transform).__name__
        if found.listed or found.arrays:
            _takes_all(tr, transform)
        elif kind in ("NDIndexer", _OF_SUBCORE):
            indices = _of_subcore(tr, transform, found.shape) if kind == _OF_SUBCORE else [_index(tr, item) for item in transform.indices]
            if ref.space != "sem" and not found.takes(indices):
                found = Window(_view(tr, found))
            found.narrow(indices)
        elif kind in views:
            found = Window(_view(tr, found, transform, views[kind]))
        else:
            tr.refuse("the transform `%s` of a ref" % kind, "Use slices, bitcast, reshape or transpose of the ref.")
    found.straighten()
    return _semaphore(tr, found)


def _takes_all(tr, transform):
    """Refuses a transform of elements that indices name, unless it takes all of them."""
    indices = [_index(tr, item) for item in getattr(transform, "indices", ())]
    if type(transform).__name__ != "NDIndexer" or indices != [(0, n, 1) for n in transform.shape]:
        tr.refuse("a transform of the elements of a ref that indices name", "Transform the ref first, and give the indices last.")


def mark_stored(ref):
    """Marks a ref, and the refs that it is a view of, as stored to."""
    while ref is not None:
        ref.stored = True
        ref = ref.of


def _with_dtype(shape, old, new):
    """The shape of the same bits in another dtype."""
    bits = [bits_of(d) for d in (old, new)]
    return tuple(shape) if bits[0] == bits[1] else (*shape[:-2], shape[-2] * bits[0] // bits[1], shape[-1])


def _step(transform, window, kind):
    """The effect of a transform, if there is one: the argument of `view`, and the resulting shape and dtype."""
    shape, dtype = window.shape, window.ref.dtype
    if transform is None:
        return "", shape, dtype
    if kind == "bitcast":
        to = dtype_name(transform.dtype)
        return ", dtype = " + to, _with_dtype(shape, dtype, to), to
    if kind == "reshape":
        shape = _complete(tuple(transform.shape), shape)
        return ", shape = " + shape_text(shape), shape, dtype
    perm = tuple(transform.permutation)
    return ", perm = " + numbers(perm), tuple(shape[k] for k in perm), dtype


def _view(tr, window, transform=None, kind=None):
    """A ref that is a view of a window."""
    ref = window.ref
    if ref.space == "sem":
        return _Semaphores(window, transform, kind)
    step, shape, dtype = _step(transform, window, kind)
    tr.writer.flush()
    names = []
    for of in dict.fromkeys((ref.name, ref.store) if ref.space != "any" else (ref.store,)):  # in HBM both are one memory
        names.append(tr.writer.name(re.sub(r"_?(ref|view\d*)$", "", of) + "_view"))
        tr.writer.line("let %s = view(%s%s);" % (names[-1], window.text(of), step))
    made = Ref(names[0], shape, dtype, ref.space, names[-1])
    made.of = ref
    return made


class _Semaphores(Ref):
    """The semaphores of a window in another shape or order; each is an element of the window's ref."""

    def __init__(self, window, transform, kind):
        super().__init__(window.ref.name, window.shape, None, "sem")
        self.window, self.lasting = window, window.ref.lasting
        self.perm = tuple(transform.permutation) if kind == "transpose" else None
        self.shape = tuple(window.shape[k] for k in self.perm) if self.perm else _complete(tuple(transform.shape), window.shape)

    def element(self, indices):
        """The window of the element at these indices."""
        found = Window(self.window.ref)
        found.entries = list(self.window.entries)
        if self.perm:
            ordered = [indices[self.perm.index(k)] for k in range(len(indices))]
        else:
            ordered = _apart(_number(indices, self.shape), self.window.shape)
        left = iter(ordered)
        found.entries = [_compose(entry, next(left)) if isinstance(entry, tuple) else entry for entry in found.entries]
        return found


def _number(indices, shape):
    """The number of the element in row-major order."""
    number = 0
    for index, n in zip(indices, shape):
        number = _plus(_times(number, n), index)
    return number


def _apart(number, shape):
    """The indices of that element."""
    found, inner = [], 1
    for n in reversed(shape):
        if isinstance(number, int):
            found.append(number // inner % n)
        else:
            found.append(Value("%s / %d %% %d" % (number.at(MUL), inner, n), (), number.dtype, MUL, index=number.index, reads=number.reads))
        inner *= n
    return found[::-1]


def _semaphore(tr, found):
    """A window of the ref that semaphores are declared as."""
    while isinstance(found.ref, _Semaphores):
        indices = [e[0] if isinstance(e, tuple) and e[1] == 1 else e for e in found.entries]
        if any(isinstance(e, tuple) for e in indices):
            tr.refuse("several semaphores of a view at once", "Take one of them.")
        found = found.ref.element(indices)
    return found


def _complete(shape, old):
    if -1 not in shape:
        return shape
    count, known = 1, 1
    for n in old:
        count *= n
    for n in shape:
        known *= n if n != -1 else 1
    return tuple(count // known if n == -1 else n for n in shape)
