"""Kernels: created from text, called with arrays, and inspected."""
import functools
import inspect
import json
import keyword
import os
import re
import tempfile

import numpy

from pkc import _arrays, _build, _core, _reports
from pkc._tool import CompileError, Source, tuned_blocks


def _static_text(kernel, name, value):
    """A static's value in the notation of the language."""
    if isinstance(value, (bool, numpy.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return _arrays.dtype_name(value) or value
    if isinstance(value, (int, numpy.integer)):
        return str(int(value))
    if isinstance(value, (float, numpy.floating)):
        return repr(float(value))
    dtype = _arrays.dtype_name(value)
    if dtype is None:
        raise TypeError("%s: the static %s: expected a number, bool, dtype or text, found %s" % (kernel, name, type(value).__name__))
    return dtype


class Kernel(_core.Caller):
    """A kernel, compiled when it is called. Made by pkc.load and pkc.kernel.

    k(x, y, ..)                the outputs, in new arrays of the kind of the inputs
    k(.., out=o, threads=2)    into o; for several outputs a tuple, where None asks for a new array
    k.signature                what `pkc --emit=signature` says, as a dict
    k.check(M=9), k.explain(), k.tpu(M=4096), k.bench(M=512), k.source_c, k.stub
    """

    def __new__(cls, source, kernel=None, target=None, statics=None):
        return super().__new__(cls)

    def __init__(self, source, kernel=None, target=None, statics=None):
        names = list(_build._targets())
        self.target = target or names[0]
        if self.target not in names:
            raise ValueError("target: expected one of %s, found %s" % (", ".join(names), target))
        if not isinstance(kernel, (str, type(None))):
            raise TypeError("expected the name of a kernel, found %s" % type(kernel).__name__)
        self._made_of = source, kernel, target, statics
        self._source = source
        self._words = ["-k", kernel] if kernel else []
        self._words += ["--target", target or "native"]  # native has what `pkc calibrate` measured
        fixed = {name: _static_text(kernel or source.name, name, value) for name, value in (statics or {}).items()}
        for name, value in fixed.items():
            self._words += ["-D", "%s=%s" % (name, value)]
        self.signature = json.loads(source.compile("--emit=signature", *self._words))
        self.__name__ = self.signature["kernel"]
        self._bound = self._find_bound(fixed)
        super().__init__(self.__name__, *self._table())
        self.__doc__ = _document(self.signature, self._bound)
        self.__signature__ = _python_signature(self.signature)

    def _find_bound(self, fixed):
        """The statics that arrays determine, in the order of the table."""
        statics = [s["name"] for s in self.signature["statics"] if s["name"] not in fixed]
        used = {word for o in self.signature["operands"] for word in (o["type"], *o["shape"])}
        return [name for name in statics if name in used]

    def _table(self):
        operands, bound = self.signature["operands"], self._bound
        inputs = [o for o in operands if o["direction"] == "input"]
        places = {o["name"]: i for i, o in enumerate(operands)}

        def row(o):
            axes = tuple(bound.index(axis) if axis in bound else -1 for axis in o["shape"])
            return o["name"], self._dtype_code(o["type"], o["dtype"]), places.get(o["alias"], -1), o["packed"], axes
        return len(inputs), tuple(bound), tuple(row(o) for o in operands)

    def _dtype_code(self, text, dtype):
        """The dtype in the form of `Operand` in core.h: a number, a bound static, or the code for a dtype that follows from bound statics."""
        if text in self._bound:
            return -1 - self._bound.index(text)
        follows = set(re.findall(r"\w+", text)) & set(self._bound)
        return -1 - len(self._bound) if follows else _arrays.NAMES.index(dtype)

    # ---- variants

    def _settings(self, values):
        words = []
        for name, value in zip(self._bound, values):
            if value >= 0:
                static = next(s for s in self.signature["statics"] if s["name"] == name)
                words += ["-D", "%s=%s" % (name, _arrays.NAMES[value] if static["type"] == "dtype" else value)]
        return words

    def _variant(self, values):
        """For _core: the address of the kernel for the values of the bound statics; -1: an array does not determine one."""
        text = self._source.compile("--emit=c", *self._words, *self._settings(values))
        return _build.build(text, self.signature["symbol"] + "_kernel", self.target)

    def with_statics_of(self, arrays, extents=True):
        """The kernel with the statics that these inputs determine, or those that their dtypes alone do."""
        known = {}
        inputs = [o for o in self.signature["operands"] if o["direction"] == "input"]
        for operand, array in zip(inputs, arrays):
            known.update((axis, n) for axis, n in zip(operand["shape"], array.shape) if extents and axis in self._bound)
            if operand["type"] in self._bound:
                known[operand["type"]] = _arrays.dtype_name(array.dtype)
        source, kernel, target, statics = self._made_of
        return Kernel(source, kernel, target, {**known, **(statics or {})})

    @property
    def source_c(self):
        """The C for the given or default statics."""
        return _reports.Text(self._source.compile("--emit=c", *self._words))

    @property
    def stub(self):
        """A Python function with this signature and documentation, as text for a .pyi file."""
        return _reports.Text(_stub(self))

    def __reduce__(self):
        """Pickles the text: the kernel is compiled on the machine that unpickles it."""
        return Kernel, self._made_of

    def __repr__(self):
        return "<pkc kernel %s>" % _signature_text(self.signature)

    # ---- verbs

    def _arguments(self, folder, arrays, named):
        """The command-line words after the file: arrays become .npy files, other values are unchanged."""
        inputs = [o["name"] for o in self.signature["operands"] if o["direction"] == "input"]
        if len(arrays) > len(inputs):
            raise TypeError("%s: expected at most %d arrays, found %d" % (self.__name__, len(inputs), len(arrays)))
        words, dtypes = [], {}
        for name, value in [*zip(inputs, arrays), *named.items()]:
            if name in inputs and not isinstance(value, str):
                path = os.path.join(folder, name + ".npy")
                array = _as_numpy(value)
                numpy.save(path, array)
                static = next(o["type"] for o in self.signature["operands"] if o["name"] == name)
                if static in self._bound and hasattr(value, "dtype"):
                    dtypes.setdefault(static, _arrays.dtype_name(value.dtype))
                value = path
            words.append("%s=%s" % (name, value))
        # A .npy file does not distinguish i4, u4 and fp8.
        return [*words, *(word for static, dtype in dtypes.items() if dtype for word in ("-D", "%s=%s" % (static, dtype)))]

    def _verb(self, verb, options, arrays, named):
        with tempfile.TemporaryDirectory(prefix="pkc-") as folder:
            words = [word.replace("FOLDER", folder) for word in options]
            status, out, err = self._source.run(verb, [*self._words, *words, *self._arguments(folder, arrays, named)])
            if status in (1, 2):
                refused = re.match("pkc: (error: )?", err)
                raise ValueError(err[refused.end():].strip()) if refused else CompileError(err.strip())
            if status not in (0, 3):
                raise RuntimeError("pkc %s failed (status %d): %s" % (verb, status, err.strip()))
            return status, out, err, [_reports.read(folder, name) for name in ("report.html", "roofline.svg")]

    def check(self, *arrays, seed=None, dma=None, tpu=None, **named):
        """Runs the interpreter on arrays, or on random data of sizes NAME=N, and compares with the reference."""
        options = [word for name, value in (("seed", seed), ("dma", dma), ("tpu", tpu)) if value is not None
                   for word in ("--" + name, str(value))]
        status, out, err, _ = self._verb("check", options, arrays, named)
        return _reports.CheckReport(out + err, status == 0, lambda: self._verb("check", [*options, "--json"], arrays, named)[1])

    def explain(self, **sizes):
        """Explains how each block is compiled, and why; with sizes also grid steps and VMEM."""
        return _reports.Explanation(self._verb("explain", [], (), sizes)[1])

    def tpu(self, *arrays, chip="v5e", **named):
        """The predicted cost on a TPU. Only prefetched operands require arrays."""
        options = ["--chip", chip]
        files = ["--html", "FOLDER/report.html", "--svg", "FOLDER/roofline.svg"] if self.signature["kind"] == "kernel" else []
        _, out, _, (page, svg) = self._verb("tpu", [*options, *files], arrays, named)
        return _reports.TpuReport(out, page, svg, lambda: self._verb("tpu", [*options, "--json"], arrays, named)[1])

    def bench(self, *arrays, threads=None, min_time=None, max_time=None, naive=True, **named):
        """Times the kernel and its naive reference, on arrays or for sizes NAME=N."""
        options = ["--json"] + ([] if naive else ["--no-naive"])
        for name, value in (("threads", threads), ("min-time", min_time), ("max-time", max_time)):
            options += [] if value is None else ["--" + name, str(value)]
        _, out, err, _ = self._verb("bench", options, arrays, named)
        return _reports.BenchReport(json.loads(out.strip().splitlines()[-1]))


def _as_numpy(value):
    """For .npy files: a NumPy array in the machine's byte order."""
    kind = _arrays.kind_of(value)
    if kind == _arrays.REFUSED:
        return numpy.asarray(value)
    if kind in (_arrays.TORCH, _arrays.TORCH_LIKE):
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            return value.view(__import__("torch").int16).numpy().view("V2")
        return value.numpy()
    array = numpy.asarray(value)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.name == "bfloat16":
        return array.view("V2")
    return array


# ---- texts

def _operand_text(o):
    return "%s: %s%s[%s]" % (o["name"], o["type"], " packed " if o["packed"] else "", ", ".join(o["shape"]))


def _signature_text(signature):
    sides = [", ".join(_operand_text(o) for o in signature["operands"] if o["direction"] == way) for way in ("input", "output")]
    return "%s(%s) -> (%s)" % (signature["kernel"], *sides)


def _document(signature, bound):
    lines = [_signature_text(signature), ""]
    if signature["doc"]:
        lines += [*signature["doc"].split("\n"), ""]
    if signature["sizes"]:
        lines.append("Sizes, from the arrays: %s" % ", ".join(signature["sizes"]))
    for s in signature["statics"]:
        taken = ", from the arrays" if s["name"] in bound else ""
        lines.append("Static %s: %s = %s%s" % (s["name"], s["type"], s["value"], taken))
    for o in signature["operands"]:
        if o["prefetch"]:
            lines.append("Prefetched: %s" % o["name"])
        if o["alias"]:
            lines.append("%s is written to the memory of %s: to a copy of it, unless out=%s" % (o["name"], o["alias"], o["alias"]))
    lines += ["Requires: %s" % text for text in signature["requires"]]
    return "\n".join(lines)


def _python_name(name, taken):
    """A valid Python name that is not in `taken`."""
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def parameters(signature):
    """The names of the inputs as parameters, and the number of positional-only ones: up to the last input whose name is not a valid parameter."""
    own = [o["name"] for o in signature["operands"] if o["direction"] == "input"]
    names = []
    for name in own:
        names.append(_python_name(name, {"out", "threads", "sizes", *names, *(n for n in own if n != name)}))
    return names, max((i + 1 for i, name in enumerate(own) if name != names[i]), default=0)


def _python_signature(signature):
    kinds = inspect.Parameter
    names, first = parameters(signature)
    return inspect.Signature([*(kinds(name, kinds.POSITIONAL_ONLY) for name in names[:first]),
                              *(kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in names[first:]),
                              *(kinds(name, kinds.KEYWORD_ONLY, default=None) for name in ("out", "threads")),
                              kinds("sizes", kinds.VAR_KEYWORD)])


def _stub(kernel):
    signature = kernel.signature
    outputs = [o for o in signature["operands"] if o["direction"] == "output"]
    result = {0: "None", 1: "Any"}.get(len(outputs), "Tuple[%s]" % ", ".join("Any" for _ in outputs))
    names, first = parameters(signature)
    words = ["%s: Any" % name for name in names]
    words[first:first] = ["/"] if first else []
    lines = ["from typing import Any, Optional, Tuple", "",
             "def %s(%s) -> %s:" % (_python_name(signature["symbol"], ()), ", ".join(
                 [*words, "*", "out: Any = None", "threads: Optional[int] = None", "**sizes: int"]), result)]
    text = kernel.__doc__.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "\n".join([*lines, '    """' + text.replace("\n", "\n    ").replace("\n    \n", "\n\n"), '    """', ""])


# ---- making kernels

def kernel(text, /, kernel=None, *, target=None, **statics):
    """A kernel from the text of a .pk file. `kernel` names one of several; NAME=VALUE sets a static."""
    if not isinstance(text, str):
        raise TypeError("expected the text of a kernel, found %s" % type(text).__name__)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CompileError("<kernel>: %s" % error) from None
    return Kernel(Source(text, "<kernel>"), kernel, target, statics)


def grad(kernel, /, wrt=None, *, forward=False, blocks=False, saved=None):
    """The derivative of a kernel's reference, as a kernel: `pkc grad` derives it.

    k(inputs.., gradients of the outputs..) gives the gradients of the inputs; with forward=True k(inputs.., directions..) gives
    the outputs' directions. `wrt` names the inputs to differentiate with respect to (default: all float inputs). With blocks=True
    it is the derivative of what the kernel's body does, with blocks like its own (`pkc grad --kernel`). `saved` names outputs of the
    kernel that the gradient takes after its inputs, and reads instead of computing them again; "auto" chooses those that make it cheaper.
    Statics have the values that the kernel was made with, or their defaults.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError("expected a kernel, found %s" % type(kernel).__name__)
    return _derived(kernel, wrt, forward, saved, ["--kernel"] if blocks else [])


def _derived(kernel, wrt, forward, saved, more):
    lists = [("--wrt", wrt), ("--saved", saved)]
    lists = [(option, [names] if isinstance(names, str) else list(names or [])) for option, names in lists]
    words = [*kernel._words, *(word for option, names in lists if names for word in (option, ",".join(names))),
             *(["--forward"] if forward else []), *more]
    source = Source(kernel._source.made_by("grad", words), "<derivative of %s>" % kernel.__name__)
    name = "%s_%s" % (kernel.__name__, "forward" if forward else "backward")
    return Kernel(source, name if more else None, kernel._made_of[2])


_NO_LIMIT = 1 << 48  # bytes of VMEM of kernels that only a CPU runs, as codegen/ir/ir.h has it


@functools.lru_cache(maxsize=1024)
def quickest_grad(kernel, wrt, forward):
    """(The derivative with blocks like the kernel's, else that of its reference; the numbers of the outputs that it takes after the inputs.)"""
    saved = None if forward else "auto"
    try:
        derived = _derived(kernel, wrt, forward, saved, ["--kernel", "--vmem-limit", str(_NO_LIMIT)])
    except CompileError:
        derived = grad(kernel, wrt, forward=forward, saved=saved)
    own, its = ([o for o in k.signature["operands"] if o["direction"] == "input"] for k in (kernel, derived))
    outputs = [o["name"] for o in kernel.signature["operands"] if o["direction"] == "output"]
    taken = {o["name"] for o in its[len(own):]}
    return derived, tuple(i for i, name in enumerate(outputs) if name in taken)


MOST_TEXT = 64 << 20  # as dsl/base.h has it


def load(path, /, kernel=None, *, target=None, tuned=None, **statics):
    """A kernel from a .pk file, which is read once. `kernel` names one of several; NAME=VALUE sets a static.

    tuned={"M": 4096, ..}: with the block sizes that PATH.tuning has for such sizes (`pkc tune`).
    """
    path = os.fsdecode(path)
    with open(path, "rb") as file:
        text = file.read(MOST_TEXT + 1)
    if len(text) > MOST_TEXT:
        raise CompileError("%s: it has more than %d MiB, the most that pkc reads" % (path, MOST_TEXT >> 20))
    try:
        source = Source(text.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise CompileError("%s: %s" % (path, error)) from None
    made = Kernel(source, kernel, target, statics)
    blocks = tuned_blocks(path, made._words, tuned) if tuned else {}
    return Kernel(source, kernel, target, {**statics, **blocks}) if blocks else made
