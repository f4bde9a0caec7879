"""Kernels as trees, and their text."""
from .types import INDEX, Type


class Expr:
    """An expression: its operation, type, operands and constant attributes."""

    __slots__ = ("op", "type", "args", "attr")

    def __init__(self, op, type_, args=(), **attr):
        self.op, self.type, self.args, self.attr = op, type_, list(args), attr


class Stmt:
    """A statement: its kind, expressions, bodies and constant attributes."""

    __slots__ = ("kind", "exprs", "bodies", "attr")

    def __init__(self, kind, exprs=(), bodies=(), **attr):
        self.kind, self.exprs, self.bodies, self.attr = kind, list(exprs), list(bodies), attr


class Operand:
    """An array of the signature, and the block of a step.

    mode: "whole" (no block line), "block", "element", "smem", "any", "prefetch".
    block: a number, a size's name or "_" for each axis; at: the index map; ref: shape of the ref.
    """

    def __init__(self, name, dtype, shape, mode="whole", block=(), at=(), pad=None, buffers=None, revisit=False, halo=None):
        self.name, self.dtype, self.shape, self.mode = name, dtype, tuple(shape), mode
        self.block, self.at, self.pad, self.buffers = tuple(block), list(at), pad, buffers
        self.revisit, self.halo, self.alias = revisit, halo, None
        self.stored = False  # an input whose block the body stores to
        self.ignores = None  # the name of a parallel axis that an output's map ignores
        self.packed = False  # whether its elements share bytes

    @property
    def ref(self):
        if self.mode in ("block", "element"):
            return tuple(b for b in self.block if b != "_")
        return self.shape


class Axis:
    def __init__(self, name, extent, parallel, word=True):
        self.name, self.extent, self.parallel, self.word = name, extent, parallel, word


class Scratch:
    def __init__(self, name, dtype, shape, space="vmem"):
        self.name, self.dtype, self.shape, self.space = name, dtype, tuple(shape), space


class Kernel:
    def __init__(self, name):
        self.name = name
        self.inputs, self.outputs, self.prefetch = [], [], []
        self.axes, self.scratch, self.fns, self.statics = [], [], [], []
        self.body, self.tests = [], []
        self.semaphores = {}  # by name: dma or regular
        self.requires = []  # conditions of sizes
        self.solved = []  # sizes that occur only in these, each with its value
        self.pipeline = False  # the grid is a `pipeline` of the body
        self.moves = False  # windows may leave their axes; they are moved inside and reported
        self.undeclared = False  # the text declares no axis parallel; the results are the same
        self.threads = 1


# ---- building


def index(value):
    return Expr("lit", INDEX, value=value)


def binary(symbol, type_, a, b):
    return Expr("bin", type_, [a, b], symbol=symbol)


def call(function, type_, args, *tail, **parameters):
    """`function(args, tail..)`; `parameters` has the tail for the evaluator."""
    return Expr("call", type_, args, fn=function, tail=tail, par=parameters)


def name(text, type_):
    return Expr("name", type_, name=text)


def full(type_, value):
    if type_.shape:
        return Expr("full", type_, value=value)
    return Expr("cast_lit", type_, value=value)


# ---- walking


def walk_expr(expr):
    yield expr
    for arg in expr.args:
        yield from walk_expr(arg)


def walk_stmts(body):
    for stmt in body:
        yield stmt
        for inner in stmt.bodies:
            yield from walk_stmts(inner)


def several(exprs):
    """A list of values for several names or targets."""
    return Expr("list", INDEX, exprs, several=True)


def exprs_of(kernel):
    for axis in kernel.axes:
        yield from walk_expr(axis.extent)
    for operand in kernel.inputs + kernel.outputs:
        for entry in operand.at:
            yield from walk_expr(entry)
    for fn in kernel.fns:
        yield from walk_expr(fn[2])
    for stmt in walk_stmts(kernel.body):
        for expr in stmt.exprs:
            yield from walk_expr(expr)


# ---- text

LEVELS = [["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">="], ["|"], ["^"], ["&"], ["<<", ">>", ">>>"], ["+", "-"], ["*", "/", "%"]]
LEVEL = {symbol: level for level, symbols in enumerate(LEVELS) for symbol in symbols}
UNARY_LEVEL, ATOM = 9, 10


def shape_text(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


def literal_text(value, dtype):
    if dtype == "bool":
        return "true" if value else "false"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e9:
        text = repr(float(value))
        return text
    return repr(value)


def literal_level(text):
    return UNARY_LEVEL if text.startswith("-") else ATOM


def start_text(start, moved):
    named = moved and any(e.op == "name" and e.attr["name"] != "BLOCK" for e in walk_expr(start))
    return text_of(binary("+", INDEX, start, Expr("lit", INDEX, value=moved)) if named else start)


def subscript_text(sub, args, moved=0):
    """`args` are the run-time positions. `moved` is the distance from them to the start of the window, by name."""
    if sub == [("bare",)]:
        return ""
    parts, rest = [], iter(args)
    for item in sub:
        kind = item[0]
        if kind == "at":
            parts.append(text_of(next(rest)))
        elif kind == "ds":
            start, (size, stride) = start_text(next(rest), moved), item[1:]
            parts.append(f"ds({start}, {size})" if stride == 1 else f"ds({start}, {size}, {stride})")
        elif kind == "run":
            start, size = start_text(next(rest), moved), text_of(next(rest))
            parts.append(f"ds({start}, {size})" if item[1] == 1 else f"ds({start}, {size}, {item[1]})")
        elif kind == "range":
            first, last, step = item[1:]
            parts.append(f"{first}:{last}" if step == 1 else f"{first}:{last}:{step}")
        elif kind == "span":
            low, high, step = ["" if n is None else str(n) for n in item[1:]]
            parts.append(f"{low}:{high}" + (f":{step}" if item[3] > 1 else ""))
        elif kind == "const":
            parts.append(str(item[1]))
        else:
            parts.append({"all": ":", "none": "None", "dots": "..."}[kind])
    return "[" + ", ".join(parts) + "]"


def _binary_text(expr):
    level = LEVEL[expr.attr["symbol"]]
    left, right = [leveled(arg) for arg in expr.args]
    compares = level == LEVEL["=="]
    a = left[0] if left[1] > level or (left[1] == level and not compares) else f"({left[0]})"
    b = right[0] if right[1] > level else f"({right[0]})"
    return f"{a} {expr.attr['symbol']} {b}", level


def leveled(expr):
    """Text, and how tightly its outermost operator binds."""
    op, attr, args = expr.op, expr.attr, expr.args
    dtype, shape = expr.type
    if op == "name":
        return attr["name"], ATOM
    if op == "lit":
        text = literal_text(attr["value"], dtype)
        return text, literal_level(text)
    if op == "full":
        return f"full({shape_text(shape)}, {literal_text(attr['value'], dtype)}, dtype = {dtype})", ATOM
    if op == "cast_lit":
        return f"cast({literal_text(attr['value'], dtype)}, {dtype})", ATOM
    if op == "bin":
        return _binary_text(expr)
    if op == "un":
        inner, level = leveled(args[0])
        return attr["symbol"] + (inner if level > UNARY_LEVEL else f"({inner})"), UNARY_LEVEL
    if op == "list":
        return f"({', '.join(map(text_of, args))})", ATOM
    if op == "if":
        c, a, b = map(text_of, args)
        return f"if {c} {{ {a} }} else " + (b if args[2].op == "if" else f"{{ {b} }}"), 0
    if op == "tuple":
        return f"({', '.join(map(text_of, args))},)", ATOM
    if op == "call":
        first = [attr["first"]] if "first" in attr else []
        return f"{attr['fn']}({', '.join(first + [text_of(a) for a in args] + list(attr['tail']))})", ATOM
    if op == "gather" and attr["direct"]:
        return args[0].attr["ref"] + subscript_text(attr["sub"], args[1:]), ATOM
    if op == "load":
        return attr["ref"] + subscript_text(attr["sub"], args), ATOM
    if op == "masked_load":
        window = attr["ref"] + subscript_text(attr["sub"], args[1 + attr["has_other"]:])
        other = f", other = {text_of(args[1])}" if attr["has_other"] else ""
        return f"load({window}, mask = {text_of(args[0])}{other})", ATOM
    inner, level = leveled(args[0])
    inner = inner if level == ATOM else f"({inner})"
    if op in ("index", "gather"):
        return inner + subscript_text(attr["sub"], args[1:]), ATOM
    if op == "part":
        return f"{inner}[{attr['part']}]", ATOM
    if op == "turned":
        return f"{inner}.T", ATOM
    raise ValueError(op)


def text_of(expr):
    return leveled(expr)[0]


def _stmt_head(stmt):
    kind, attr, e = stmt.kind, stmt.attr, stmt.exprs
    if kind == "view":
        parts = [f"shape = {shape_text(attr['shape'])}"] if attr["reshaped"] else []
        parts += [f"perm = ({', '.join(map(str, attr['perm']))},)"] if attr["perm"] else []
        parts = ([f"dtype = {attr['dtype']}"] if attr["dtype"] != attr["source"] else []) + parts
        return f"let {attr['name']} = view({', '.join([attr['ref'] + subscript_text(attr['sub'], e)] + parts)});"
    if kind == "let":
        return f"let {attr['name']} = {text_of(e[0])};"
    if kind == "lets":
        return f"let {', '.join(attr['names'])} = {text_of(e[0])};"
    if kind == "stores":
        return f"{', '.join(name + subscript_text(sub, args) for name, sub, args in targets_of(stmt))} = {text_of(e[0])};"
    if kind == "var":
        shape = shape_text(attr["shape"]) if attr["shape"] else ""
        return f"var {attr['name']}: {attr['dtype']}{shape} = {text_of(e[0])};"
    if kind == "assign":
        return f"{attr['name']} {attr['symbol']} {text_of(e[0])};"
    if kind == "store":
        return f"{attr['ref']}{subscript_text(attr['sub'], e[1:])} {attr['symbol']} {text_of(e[0])};"
    if kind == "masked_store":
        return f"store({attr['ref']}{subscript_text(attr['sub'], e[2:])}, {text_of(e[0])}, mask = {text_of(e[1])});"
    if kind == "scatter":
        window = attr["ref"] + subscript_text(attr["sub"], e[2:])
        at = f"({', '.join(map(text_of, e[1].args))})" if e[1].op == "tuple" else text_of(e[1])
        return f"{attr['fn']}({window}, {at}, {text_of(e[0])}, axis = {attr['axis']});"
    if kind == "break":
        return "break;"
    if kind == "raw":
        return attr["text"]
    raise ValueError(kind)


def copy_text(stmt, moved=0):
    attr, n = stmt.attr, stmt.attr["positions"]
    source = attr["source"] + subscript_text(attr["sub"], stmt.exprs[:n], moved)
    target = attr["target"] + subscript_text(attr["to"], stmt.exprs[n:], moved)
    return f"async_copy({source} -> {target}, {attr['semaphore']})"


def targets_of(stmt):
    """(ref, subscripts, positions) of each target of `stores`."""
    first = 1
    for name, sub, count in stmt.attr["targets"]:
        yield name, sub, stmt.exprs[first:first + count]
        first += count


def stmt_lines(body, depth):
    pad = "  " * depth
    for stmt in body:
        kind, attr, e = stmt.kind, stmt.attr, stmt.exprs
        if not stmt.bodies:
            yield pad + _stmt_head(stmt)
            continue
        if kind in ("when", "if", "while"):
            head = f"{kind} {text_of(e[0])}"
        elif kind == "for":
            word = "static for" if attr["static"] else "for"
            head = f"{word} {attr['name']} in {text_of(e[0])}..{text_of(e[1])}"
        elif kind == "copy":
            yield f"{pad}let {attr['name']} = {copy_text(stmt)};"
            yield f"{pad}{attr['name']}.start();"
            yield from stmt_lines(stmt.bodies[0], depth)
            waits = f"{copy_text(stmt, attr['wait_moved'])}.wait();" if attr.get("wait_moved") else f"{attr['name']}.wait();"
            yield pad + (f"wait({attr['semaphore']}, 1);" if attr["regular"] else waits)
            continue
        elif kind == "region":
            head = f'region "{attr["name"]}"'
        elif kind == "scoped":
            head = "scoped " + ", ".join(f"{s.name}: {s.space} {s.dtype}{shape_text(s.shape)}" for s in attr["scratch"])
        else:
            raise ValueError(kind)
        yield f"{pad}{head} {{"
        yield from stmt_lines(stmt.bodies[0], depth + 1)
        if len(stmt.bodies) > 1:
            yield pad + "} else {"
            yield from stmt_lines(stmt.bodies[1], depth + 1)
        yield pad + "}"


def block_name(operand):
    """The block of an operand in a pipeline."""
    return "b" + operand.name


def _word(kernel, axis):
    return " parallel" if axis.parallel and not kernel.undeclared else " arbitrary" if axis.word else ""


def param_text(operand):
    packed = " packed " if operand.packed else ""
    return f"{operand.name}: {operand.dtype}{packed}" + (shape_text(operand.shape) if operand.shape else "")


def _block_line(o, statics=(), name=None):
    if o.mode in ("any", "smem"):
        return f"  block {o.name}: {o.mode};"
    names = {value: n for n, value in statics}
    word = "at element" if o.mode == "element" else "at"
    block = [names.get(b, b) for b in o.block]
    line = f"  block {name or o.name}: {shape_text(block)} {word} ({', '.join(text_of(e) for e in o.at)})"
    if o.pad is not None:
        line += f" pad {literal_text(o.pad, o.dtype)}"
    if o.halo is not None:
        line += " halo " + ", ".join(f"({low}, {high})" for low, high in o.halo)
    if o.buffers is not None:
        line += f" buffers {o.buffers}"
    if o.revisit:
        line += " revisit any"
    return line + ";"


def test_words(test):
    words = [f"{n}={v}" for n, v in test["sizes"].items()] + [f"{n}={v}" for n, v in test["inputs"].items()]
    return words


def kernel_text(k, with_tests=True):
    """The text of a kernel, or of a program with its kernels."""
    lines = []
    if with_tests:
        lines += ["// test: " + " ".join(test_words(t) + ([f"threads={k.threads}"] if k.threads > 1 else [])) for t in k.tests]
    if not isinstance(k, Kernel):
        return "\n".join(lines + [k.text()])
    for fn_name, params, body, local, _ in k.fns:
        if not local:
            lines.append(f"fn {fn_name}({', '.join(params)}) = {text_of(body)};")
    lines.append(f"kernel {k.name}({', '.join(map(param_text, k.inputs))}) -> ({', '.join(map(param_text, k.outputs))}) {{")
    if k.statics:
        lines.append("  static " + ", ".join(f"{n} = {v}" for n, v in k.statics) + ";")
    lines += [f"  require {condition};" for condition in k.requires]
    if k.prefetch:
        lines.append("  prefetch " + ", ".join(map(param_text, k.prefetch)) + ";")
    grid = ", ".join(f"{a.name} in {text_of(a.extent)}{'' if k.pipeline else _word(k, a)}" for a in k.axes)
    if k.axes and not k.pipeline:
        lines.append(f"  grid ({grid});")
    for o in k.inputs + k.outputs:
        if k.pipeline and o.mode == "block":
            lines.append(f"  block {o.name}: any;")
        elif o.mode != "whole":
            lines.append(_block_line(o, k.statics))
    for o in k.outputs:
        if o.alias:
            lines.append(f"  alias {o.name} = {o.alias};")
    for s in k.scratch:
        lines.append(f"  scratch {s.name}: {s.space} {s.dtype}{shape_text(s.shape) if s.shape else ''};")
    lines += [f"  scratch {s}: sem {kind};" for s, kind in k.semaphores.items()]
    for fn_name, params, body, local, _ in k.fns:
        if local:
            lines.append(f"  fn {fn_name}({', '.join(params)}) = {text_of(body)};")
    if k.pipeline:
        lines.append(f"  pipeline ({grid}) {{")
        moved = [o for o in k.inputs + k.outputs if o.mode == "block"]
        lines += ["  " + _block_line(o, k.statics, f"{block_name(o)} of {o.name}") for o in moved]
        lines += list(stmt_lines(k.body, 2)) + ["  }"]
    else:
        lines += stmt_lines(k.body, 1)
    return "\n".join(lines + ["}"]) + "\n"


__all__ = [n for n in dir() if not n.startswith("_")] + ["Type"]
