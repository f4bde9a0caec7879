"""Makes a failing kernel small: drops statements and operands, simplifies expressions and data, and tries again."""
import copy
import re
import time

from . import generator, runner, tree
from .operations import Reject
from .tree import Expr, full
from .types import INDEX

TOGETHER = 10  # candidates that are compiled into one program


def expression_slots(kernel):
    """(list, position) of every expression, outermost first."""
    def inside(exprs):
        for place, expr in enumerate(exprs):
            if not expr.attr.get("several"):
                yield exprs, place
            if expr.op != "part":
                yield from inside(expr.args)
            else:
                yield from inside(expr.args[0].args)
    for stmt in tree.walk_stmts(kernel.body):
        yield from inside(stmt.exprs)
    for operand in kernel.inputs + kernel.outputs:
        yield from inside(operand.at)


def bodies_of(kernel):
    yield kernel.body
    for stmt in tree.walk_stmts(kernel.body):
        yield from stmt.bodies


def names_used(kernel):
    used = set()
    for e in tree.exprs_of(kernel):
        used |= {e.attr.get("name"), e.attr.get("ref"), e.attr.get("fn")}
        used |= {n for n in e.type.shape if isinstance(n, str)}
    for s in tree.walk_stmts(kernel.body):
        used |= {s.attr.get("ref")} | {target[0] for target in s.attr.get("targets", ())}
    return used


def statement_edits(kernel):
    """Functions that remove statements from a copy."""
    for n, body in enumerate(bodies_of(kernel)):
        size = len(body)
        width = size
        while width >= 1:
            for first in range(0, size, width):
                yield lambda k, n=n, a=first, b=first + width: list(bodies_of(k))[n].__delitem__(slice(a, b))
            width //= 2
        for place, stmt in enumerate(body):
            for inner in range(len(stmt.bodies)):
                def hoist(k, n=n, place=place, inner=inner):
                    target = list(bodies_of(k))[n]
                    target[place:place + 1] = target[place].bodies[inner]
                yield hoist


def expression_edits(kernel):
    for n, (exprs, place) in enumerate(expression_slots(kernel)):
        expr = exprs[place]
        if expr.op in ("lit", "full", "cast_lit", "tuple"):
            continue

        def put(k, n=n, make=None):
            slots = list(expression_slots(k))
            target, at = slots[n]
            target[at] = make(target[at])
        inner = [e for e in tree.walk_expr(expr) if e is not expr and e.type == expr.type]
        for which in range(min(3, len(inner))):
            def smaller(e, which=which):
                return [x for x in tree.walk_expr(e) if x is not e and x.type == e.type][which]
            yield lambda k, n=n, f=smaller: put(k, n, f)
        if expr.type == INDEX:
            yield lambda k, n=n: put(k, n, lambda e: tree.index(0))
        elif expr.op != "name" or expr.type.shape:
            yield lambda k, n=n: put(k, n, lambda e: full(e.type, 1.0 if e.type.dtype in generator.FLOATS else True if
                                                          e.type.dtype == "bool" else 1))


def memory_edits(kernel):
    used = names_used(kernel)
    for n, o in enumerate(kernel.inputs):
        if o.name not in used and len(kernel.inputs) > 1:
            yield lambda k, n=n: k.inputs.__delitem__(n)
        if o.pad is not None:
            yield lambda k, n=n: setattr(k.inputs[n], "pad", None)
        if o.buffers is not None:
            yield lambda k, n=n: setattr(k.inputs[n], "buffers", None)
        if o.halo is not None:
            yield lambda k, n=n: setattr(k.inputs[n], "halo", None)
    for n, o in enumerate(kernel.outputs):
        if len(kernel.outputs) > 1:
            def drop(k, n=n):
                name = k.outputs[n].name
                del k.outputs[n]
                for body in list(bodies_of(k)):
                    body[:] = [s for s in body if s.attr.get("ref") != name]
            yield drop
    for n, s in enumerate(kernel.scratch):
        if s.name not in used:
            yield lambda k, n=n: k.scratch.__delitem__(n)
    for n, f in enumerate(kernel.fns):
        if f[0] not in used:
            yield lambda k, n=n: k.fns.__delitem__(n)
    for n, t in enumerate(kernel.prefetch):
        if t.name not in used:
            yield lambda k, n=n: k.prefetch.__delitem__(n)


def data_edits(kernel):
    for name, text in kernel.tests[0]["inputs"].items():
        for simple in ("ones", "iota", "zeros"):
            if text != simple:
                yield lambda k, name=name, simple=simple: k.tests[0]["inputs"].__setitem__(name, simple)
            else:
                break
    for name, value in kernel.tests[0]["sizes"].items():
        for smaller in sorted({1, 2, 3, value // 2, value - 1}):
            if 0 < smaller < value:
                yield lambda k, name=name, smaller=smaller: k.tests[0]["sizes"].__setitem__(name, smaller)


def tidy(kernel):
    """Removes sizes and inputs that no operand uses any longer."""
    names = {o.name for o in kernel.prefetch + kernel.inputs}
    bound = {n for o in kernel.prefetch + kernel.inputs + kernel.outputs for n in o.shape}
    for test in kernel.tests:
        test["inputs"] = {n: v for n, v in test["inputs"].items() if n in names}
        test["sizes"] = {n: v for n, v in test["sizes"].items() if n in bound}


def candidates(kernel):
    for edits in (statement_edits, memory_edits, expression_edits, data_edits):
        for edit in edits(kernel):
            copied = copy.deepcopy(kernel)
            try:
                edit(copied)
                tidy(copied)
                expected = generator.evaluate(copied)
            except (Reject, KeyError, IndexError, ValueError, TypeError, AttributeError):
                continue
            yield generator.Case(copied, expected, 0)


def same_fault(a, b):
    """Whether failures are of the same kind, with the same code of the front end, if any."""
    codes = [re.findall(r"\[(E\d+)\]", f.message) for f in (a, b)]
    return a.kind == b.kind and codes[0] == codes[1]


def still_fails(cases, failure, folder):
    """The first of these cases with the same failure."""
    for n, case in enumerate(cases):
        case.kernel.name = f"k{n}"
    try:
        found = runner.Batch(cases, failure.config, folder).run({failure.kind})
    except RuntimeError:
        return None
    names = {f.case.kernel.name: f for f in reversed(found) if same_fault(f, failure)}
    for case in cases:
        if case.kernel.name in names:
            return names[case.kernel.name]
    return None


def reduce(failure, folder, seconds):
    """A smaller failure of the same kind."""
    end = time.monotonic() + seconds
    kernel = copy.deepcopy(failure.case.kernel)
    kernel.tests = [kernel.tests[failure.test]]
    best = still_fails([generator.Case(kernel, generator.evaluate(kernel), 0)], failure, folder)
    if best is None:
        failure.notes.append("fails only in its batch, or with the other tests before it")
        return failure
    progress = True
    while progress and time.monotonic() < end:
        progress, waiting = False, []
        for case in candidates(best.case.kernel):
            waiting.append(case)
            if len(waiting) < TOGETHER and time.monotonic() < end:
                continue
            found = still_fails(waiting, failure, folder)
            waiting = []
            if found or time.monotonic() > end:
                break
        else:
            found = still_fails(waiting, failure, folder) if waiting else None
        if found:
            best, progress = found, True
    return best


def reproducer(failure, seed, number, path):
    kernel, config = failure.case.kernel, failure.config
    test = kernel.tests[failure.test if failure.test < len(kernel.tests) else 0]
    words = " ".join(tree.test_words(test))
    commands = {"refused": f"pkc {path} -o /dev/null", "interpreter": f"pkc check {path} {words} -o ..", "finding": f"pkc check {path} {words}"}
    options = " ".join(config.words() + ([f"--threads={config.threads}"] if config.threads > 1 else []))
    command = commands.get(failure.kind, f"CC={config.cc} pkc run --checked {options} {path} {words}")
    head = [f"// {failure.kind}: {failure.message}", f"// {command}",
            f"// kernel {number} of seed {seed} of tests/random_kernels.py, {config}"]
    head += [f"// {note}" for note in failure.notes]
    kernel.threads = config.threads
    return "\n".join(head) + "\n" + tree.kernel_text(kernel)
