"""Kernels as operators of torch: under torch.compile, autograd, vmap and torch.export, on CPUs."""
import ast
import operator

from pkc import _arrays
from pkc._kernel import Kernel, grad, parameters, quickest_grad

try:
    import torch
    from torch.library import custom_op
except ImportError as error:
    raise ImportError("pkc.torch requires torch 2.4 or newer: %s" % error) from None

_operators = {}  # name -> (kernel, what it was made with, the operator)


def op(kernel, /, name=None, *, backward=None, threads=None, **sizes):
    """An operator of torch that calls a kernel: a function of its inputs, which are tensors of a CPU.

    name      "library::operator"; by default "pkc::" and the kernel's name
    backward  how it is differentiated; by default by what pkc.grad derives, of the kernel's body or its reference, to any order, on first use.
              Or a kernel, whose operands are found by name: x is the operator's input or output x, and
              do (or d_o, grad_o) the gradient of its output o; its outputs dx are the gradients of the inputs, and inputs that
              it has none for get none. Or a function of (inputs, outputs, gradients of the outputs), three tuples, that
              returns the gradient of each input, or None.
    threads   threads for the kernel's parallel axes; by default $PK_THREADS, else torch.get_num_threads() at each call
    sizes     the sizes that no input tells

    Errors: TypeError and ValueError as in a call of the kernel; ValueError if `name` is another kernel's, or if an operand of
    `backward` has no such name.
    """
    signature = kernel.signature
    if name is None:
        name = "pkc::" + signature["symbol"]
    made_with = (backward, threads, tuple(sorted(sizes.items())))
    if name in _operators:
        known, options, made = _operators[name]
        if known is kernel and options == made_with:
            return made
        raise ValueError("pkc.torch.op: %s is an operator already: give this one another name" % name)
    _arrays.check_threads(threads)
    made = _make(kernel, name, _gradient_function(kernel, backward, threads, sizes), threads, sizes)
    _operators[name] = kernel, made_with, made
    return made


def _of_direction(kernel, way):
    return [o for o in kernel.signature["operands"] if o["direction"] == way]


def _make(kernel, name, gradient, threads, sizes):
    outputs = _of_direction(kernel, "output")
    if not outputs:
        raise ValueError("pkc.torch.op: %s has no output" % kernel.__name__)
    single = len(outputs) == 1
    schema = "(%s) -> %s" % (", ".join("Tensor %s" % name for name in parameters(kernel.signature)[0]),
                             "Tensor" if single else "(%s)" % ", ".join(["Tensor"] * len(outputs)))

    def run(*tensors):
        return kernel(*(t.detach() for t in tensors), threads=threads, **sizes)

    def shapes(*tensors):
        made = [tensors[0].new_empty(shape, dtype=dtype) if tensors else torch.empty(shape, dtype=dtype)
                for shape, dtype in _results(kernel, tensors, sizes)]
        return made[0] if single else tuple(made)

    made = custom_op(name, run, mutates_args=(), device_types="cpu", schema=schema)
    made.register_fake(shapes)
    made.register_vmap(lambda info, dims, *tensors: _mapped(made, single, info, dims, tensors))
    made.register_autograd(gradient, setup_context=_keep)
    return made


# ---- shapes that may be symbolic

def _results(kernel, tensors, sizes):
    """(shape, dtype) of each output. Sizes that are symbolic in torch.compile remain symbolic."""
    _arrays._know_torch()
    if not any(isinstance(n, torch.SymInt) for t in tensors for n in t.shape):
        described = [(t, tuple(t.shape), _number(t)) for t in tensors]
        _, outputs = kernel._plan(described, sizes)
        return [(shape, _arrays._torch_dtypes[number]) for shape, number in outputs]
    known = {s["name"]: int(s["value"]) for s in kernel.signature["statics"] if s["type"] == "integer"}
    known.update(sizes)
    for operand, tensor in zip(_of_direction(kernel, "input"), tensors):
        if len(operand["shape"]) != tensor.dim():
            raise ValueError("operand %s: expected %d axes, found %d" % (operand["name"], len(operand["shape"]), tensor.dim()))
        known.update((axis, n) for axis, n in zip(operand["shape"], tensor.shape) if axis.isidentifier())
    for name, value in kernel.signature["solved"].items():
        known.setdefault(name, _value(ast.parse(value, mode="eval").body, known, value))
    return [(tuple(_value(ast.parse(axis, mode="eval").body, known, axis) for axis in o["shape"]), _dtype(kernel, o, tensors))
            for o in _of_direction(kernel, "output")]


def _number(tensor):
    name = _arrays.dtype_name(tensor.dtype)
    return -1 if name is None else _arrays.NAMES.index(name)


def _dtype(kernel, output, tensors):
    for operand, tensor in zip(_of_direction(kernel, "input"), tensors):
        if operand["type"] == output["type"]:
            return tensor.dtype
    output = next(o for o in kernel.with_statics_of(tensors, extents=False).signature["operands"] if o["name"] == output["name"])
    return _arrays._torch_dtypes[_arrays.NAMES.index(output["dtype"])]


_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
              ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}
_FUNCTIONS = {"cdiv": lambda a, b: (a + b - 1) // b, "floordiv": operator.floordiv, "mod": operator.mod,
              "min": torch.sym_min, "max": torch.sym_max}


def _value(node, known, text):
    """Evaluates an extent of the signature: +, -, *, / and functions of sizes."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, known, text), _value(node.right, known, text))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        return _FUNCTIONS[node.func.id](*(_value(a, known, text) for a in node.args))
    raise ValueError("the extent %s is not known while torch.compile keeps sizes open: compile with dynamic=False" % text)


# ---- vmap: a loop

def _mapped(made, single, info, dims, tensors):
    def at(i):
        return [t if d is None else t.select(d, i) for t, d in zip(tensors, dims)]
    if info.batch_size == 0:
        raise ValueError("vmap of %s over no elements" % made)
    rows = [made(*at(i)) for i in range(info.batch_size)]
    if single:
        return torch.stack(rows), 0
    return tuple(torch.stack(column) for column in zip(*rows)), (0,) * len(rows[0])


# ---- gradients

def _keep(ctx, inputs, output):
    outputs = output if isinstance(output, tuple) else (output,)
    ctx.save_for_backward(*inputs, *outputs)


def _gradient_function(kernel, backward, threads, sizes):
    if backward is None:
        backward = _derived(kernel, threads, sizes)
    elif isinstance(backward, Kernel):
        backward = _paired(kernel, backward, threads)
    elif not callable(backward):
        raise TypeError("backward: expected a kernel or a function, found %s" % type(backward).__name__)
    count = len(_of_direction(kernel, "input"))

    def gradient(ctx, *gradients):
        inputs, results = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        full = tuple(torch.zeros_like(o) if g is None else g for g, o in zip(gradients, results))
        found = backward(tuple(inputs), tuple(results), full)
        found = (found,) if isinstance(found, torch.Tensor) else tuple(found)
        if len(found) != len(inputs):
            raise ValueError("the backward of %s: expected %d gradients, one for each input, found %d" %
                             (kernel.__name__, len(inputs), len(found)))
        return found[0] if len(found) == 1 else found
    return gradient


def _derived(kernel, threads, sizes, meaning=False):
    """The derivative of the kernel as a function of (inputs, outputs, gradients). `meaning`: that of its reference, which reads no outputs."""
    operators = {}

    def make(known):
        derived, read = (grad(known), ()) if meaning else quickest_grad(known, None, False)
        again = None if meaning else _again(known, len(read), threads, sizes)
        name = "pkc::%s_%d" % (derived.signature["symbol"], len(_operators))
        return op(derived, name, backward=again, threads=threads, **sizes), read

    def function(inputs, outputs, gradients):
        known = kernel.with_statics_of(inputs)
        statics = tuple((s["name"], s["value"]) for s in known.signature["statics"])
        if statics not in operators:
            operators[statics] = make(known)
        made, read = operators[statics]
        # outputs that are read follow from the inputs
        found = made(*inputs, *(outputs[i].detach() for i in read), *(g for g in gradients if g.is_floating_point()))
        left = list(found) if isinstance(found, tuple) else [found]
        return [left.pop(0) if t.is_floating_point() else None for t in inputs]
    return function


def _again(kernel, read, threads, sizes):
    """The gradient of the gradient of a kernel, as a function like that of _derived: the gradient of that of its reference, whose operands are
    the same without the outputs that the gradient reads."""
    inputs, derived = len(_of_direction(kernel, "input")), []

    def function(operands, outputs, gradients):
        if not derived:
            derived.append(_derived(grad(kernel), threads, sizes, meaning=True))
        found = derived[0]((*operands[:inputs], *operands[inputs + read:]), outputs, gradients)
        return [*found[:inputs], *[None] * read, *found[inputs:]]
    return function


def _spellings(name):
    return "d" + name, "d_" + name, "grad_" + name


def _paired(kernel, backward, threads):
    """A backward kernel as a function of (inputs, outputs, gradients)."""
    inputs = [o["name"] for o in _of_direction(kernel, "input")]
    outputs = [o["name"] for o in _of_direction(kernel, "output")]
    places = {name: (0, i) for i, name in enumerate(inputs)}
    places.update((name, (1, i)) for i, name in enumerate(outputs))
    places.update((spelling, (2, i)) for i, name in enumerate(outputs) for spelling in _spellings(name))
    taken = [_place(backward, o, places, "input or output, or the gradient of an output,") for o in _of_direction(backward, "input")]
    targets = {spelling: i for i, name in enumerate(inputs) for spelling in _spellings(name)}
    given = [_place(backward, o, targets, "gradient of an input") for o in _of_direction(backward, "output")]
    run = op(backward, "pkc::%s_of_%s_%d" % (backward.signature["symbol"], kernel.signature["symbol"], len(_operators)), threads=threads)

    def function(*groups):
        results = run(*(groups[group][i] for group, i in taken))
        found = [None] * len(inputs)
        for i, result in zip(given, (results,) if isinstance(results, torch.Tensor) else results):
            found[i] = result
        return found
    return function


def _place(backward, operand, places, what):
    if operand["name"] not in places:
        raise ValueError("backward: %s of %s is the name of no %s: expected one of %s" %
                         (operand["name"], backward.__name__, what, ", ".join(places)))
    return places[operand["name"]]
