"""The mesh of shard_map in a kernel: the device's index, remote copies, and signals to other devices."""
from pkc.pallas.translate import Ref
from pkc.pallas.values import MUL, Value


ONE_AFTER_ANOTHER = "The cores of a kernel may run one after another here, so none can wait for another: use a mesh of one core, or several kernels."


class Devices:
    """The axes of a mesh, [(name, extent)], and what a kernel does with them.

    `talks`: it uses them, so it is one of the .pk kernels with a mesh. `starts`: (source, target, semaphore that says it was sent,
    semaphore that says it came) of the copies that are started, by names of refs; a wait is of one of them.
    """

    def __init__(self, axes, writer, before=None):
        self.axes = list(axes)
        self.apart = before is not None  # the text has the mesh: what it is made of was found out before
        self.names = {name: writer.name(str(name)) for name, _ in self.axes} if self.apart else {name: str(name) for name, _ in self.axes}
        self.talks, self.starts, self.barrier = False, set(before.starts if before else ()), None

    @property
    def count(self):
        product = 1
        for _, extent in self.axes:
            product *= extent
        return product

    def declaration(self):
        return "  mesh (%s);" % ", ".join("%s: %d" % (self.names[name], extent) for name, extent in self.axes)

    def shape(self, shape):
        """The shape of the whole array, of which each device has a part of this shape; parts are contiguous."""
        return (shape[0] * self.count, *shape[1:]) if shape else shape

    def shard(self, shape):
        """The division of an operand among devices, in the notation of the signature."""
        names = [self.names[name] for name, _ in self.axes]
        first = names[0] if len(names) == 1 else "(%s)" % ", ".join(names)
        return " shard (%s)" % ", ".join([first] + ["_"] * (len(shape) - 1)) if shape else ""

    def index(self, name):
        self.talks = True
        return Value("device(%s)" % self.names[name], (), "i32", index=True)

    def place(self, tr, device, kind):
        """`(x = .., y = ..)` of a device id of JAX, None where it is this device: a number (of kind LOGICAL), indices in the order of the axes, or a dictionary
        of indices."""
        if isinstance(device, dict):
            return self._text(self._of_names(tr, device))
        numbers = list(device) if isinstance(device, (tuple, list)) else [device]
        if "MESH" not in str(kind).upper():
            if len(numbers) != 1:
                tr.refuse("a logical device id of %d numbers" % len(numbers))
            return self._text(self._of_number([name for name, _ in self.axes], _number(tr, numbers[0])))
        if len(numbers) != len(self.axes):
            tr.refuse("a device id of %d indices, of a mesh with %d axes" % (len(numbers), len(self.axes)))
        return self._text({name: _number(tr, number) for (name, _), number in zip(self.axes, numbers)})

    def _of_names(self, tr, device):
        found = {}
        for name, index in device.items():
            names = name if isinstance(name, tuple) else (name,)
            if any(one not in self.names for one in names):
                tr.refuse("a device id along %r, which is not an axis of the mesh" % (name,), "A CPU has one core a device.")
            found.update(self._of_number(names, _number(tr, index)))
        return found

    def _of_number(self, names, number):
        """Indices along these axes, the last of which moves fastest. The first is not wrapped, so that a device outside is an error."""
        extents, found, inner = dict(self.axes), {}, 1
        for name in reversed(names):
            text = number if inner == 1 else "%s / %d" % (number.at(MUL), inner)
            value = text if isinstance(text, Value) else Value(text, (), "i32", MUL, index=number.index)
            found[name] = value if name == names[0] else Value("%s %% %d" % (value.at(MUL), extents[name]), (), "i32", MUL, index=value.index)
            inner *= extents[name]
        return found

    def _text(self, found):
        if not found:
            return None
        self.talks = True
        ordered = [(name, found[name]) for name, _ in self.axes if name in found]
        return "(%s)" % ", ".join("%s = %s" % (self.names[name], value.text) for name, value in ordered)


def _number(tr, atom):
    if isinstance(atom, int):
        return Value(str(atom), (), "i32", index=True)
    return tr.atom(atom)


def place_of(tr, what, device, kind):
    """The text of a device id of `what`, a signal or a copy; None: it names no device, or only axes of one core."""
    if isinstance(device, dict):
        cores = [name for name in device if name in tr.all_names]
        if any(tr.all_names[name][1] != 1 for name in cores):
            tr.refuse("%s to another core" % what, ONE_AFTER_ANOTHER)
        device = {name: index for name, index in device.items() if name not in cores}
    return None if device is None or device == {} else needs_mesh(tr, what + " to another device").place(tr, device, kind)


def needs_mesh(tr, what):
    if tr.devices is None:
        tr.refuse(what, "Call the kernel in jax.shard_map.")
    if tr.devices.count > 256 or len(tr.devices.axes) > 4:
        tr.refuse("%s on a mesh of %d devices and %d axes" % (what, tr.devices.count, len(tr.devices.axes)),
                  "A mesh has up to 256 devices and 4 axes.")
    return tr.devices


def remote_copy(tr, source, target, sent, came, device, kind, start):
    """A copy to another device that is started, or a wait for one: on `came`, which for `wait_send` of JAX is what was sent."""
    place = place_of(tr, "a remote copy", device, kind)
    if place is None:
        tr.refuse("a remote copy to the device that starts it", "Use pltpu.make_async_copy.")
    devices, roots = tr.devices, [window.ref.root for window in (source, target)]
    names = [ref.store if ref.role else ref.name for ref in roots]
    first, second = sent.ref.name, came.ref.name
    word = ".start()" if start else ".wait_recv()"
    if start:
        devices.starts.add((*names, first, second))
    elif (names[1], names[0], second, first) in devices.starts and (*names, first, second) not in devices.starts:
        source, target, sent, came, word = target, source, came, sent, ".wait_send()"
    tr.writer.line("remote_copy(%s -> %s, send = %s, recv = %s, device = %s)%s;" % (
        source.text(), target.text(target.ref.store), sent.text(), came.text(), place, word))


def _axis_index(tr, equation):
    name = equation.params["axis_name"]
    if name in tr.all_names:
        return Value(tr.all_names[name][0], (), "i32", index=True)
    if tr.devices is None or name not in tr.devices.names:
        tr.refuse("`axis_index` of %r here" % (name,), "It is known for axes of the grid and, in the body, of the mesh of jax.shard_map.")
    return tr.devices.index(name)


def _barrier_semaphore(tr, equation):
    devices = needs_mesh(tr, "`get_barrier_semaphore`")
    devices.talks = True
    if devices.barrier is None:
        name = tr.writer.name("barrier_semaphore")
        tr.hoisted.append("%s: sem barrier" % name)
        devices.barrier = Ref(name, (), None, "sem")
    return devices.barrier


RULES = {"axis_index": _axis_index, "get_barrier_semaphore": _barrier_semaphore}
