"""Derivatives of functions of JAX that other code computes: forward mode, reverse mode, and both again.

A rule says how: rule.forth(wrt, values, directions) and rule.back(wrt, values, outputs, gradients) are tuples of arrays, which JAX can
differentiate; `outputs` are those of the function with the numbers rule.reads(wrt, values). The primitive is linear in the directions; it
is carried out by `forth` and transposed by `back`.
"""
import functools

import jax
import numpy
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

_linear = Primitive("pkc_linear")
_linear.multiple_results = True


def differentiable(run, rule):
    """`run`, a function of arrays that gives one or a tuple, with the derivative of the rule."""
    function = jax.custom_jvp(run)

    @functools.partial(function.defjvp, symbolic_zeros=True)
    def along(values, directions):
        made = function(*values)
        outputs = made if isinstance(made, tuple) else (made,)
        known = [None if isinstance(d, jax.custom_derivatives.SymbolicZero) else d for d in directions]
        found = tuple(numpy.zeros(o.shape, jax.dtypes.float0) if d is None else d
                      for o, d in zip(outputs, tangents(rule, values, known, outputs)))
        return made, found if isinstance(made, tuple) else found[0]

    return function


def tangents(rule, values, directions, outputs):
    """The directions of the outputs, linear in those of the values. A direction of None is 0 for an input; an output that is not a float has None."""
    wrt = tuple(i for i, d in enumerate(directions) if d is not None and _is_float(values[i]))
    made = iter(_bind(rule, wrt, values, [directions[i] for i in wrt], outputs))
    return [next(made) if _is_float(o) else None for o in outputs]


def _is_float(value):
    return jax.numpy.issubdtype(value.dtype, jax.numpy.floating)


def _bind(rule, wrt, values, directions, outputs):
    shapes = tuple((tuple(o.shape), numpy.dtype(o.dtype)) for o in outputs if _is_float(o))
    if not wrt:
        return [jax.numpy.zeros(*shape) for shape in shapes]
    read = [outputs[i] for i in rule.reads(wrt, values)]
    return _linear.bind(*values, *read, *directions, rule=rule, wrt=wrt, read=len(read), outputs=shapes, levels=())


# The operands are the values, among them as many outputs at the end as `read` says, then the directions. `levels`: of each vmap around it,
# the outermost first, the axis of each value: 0, or None where it has none. Directions have all of these axes, and so do the results.

def _apply(run, levels, values, linear):
    for axes in reversed(levels):
        run = jax.vmap(run, in_axes=(axes, 0))
    return list(run(tuple(values), tuple(linear)))


def _run(*operands, rule, wrt, read, outputs, levels):
    count = len(operands) - len(wrt)
    return _apply(lambda values, directions: rule.forth(wrt, values[:len(values) - read], directions), levels, operands[:count], operands[count:])


def _shapes(*operands, rule, wrt, read, outputs, levels):
    batch = tuple(operands[-1].shape[:len(levels)])
    varying = frozenset().union(*(getattr(operand, "vma", frozenset()) for operand in operands))
    more = {"vma": varying} if varying else {}
    return [jax.core.ShapedArray(batch + shape, dtype, **more) for shape, dtype in outputs]


def _derivative(operands, directions, *, rule, wrt, read, outputs, levels):
    bind = functools.partial(_linear.bind, rule=rule, wrt=wrt, read=read, outputs=outputs, levels=levels)
    count = len(operands) - len(wrt)
    moving = [i for i, d in enumerate(directions) if not isinstance(d, ad.Zero) and d.dtype != jax.dtypes.float0]
    if all(i >= count for i in moving):
        return bind(*operands), bind(*operands[:count], *map(ad.instantiate_zeros, directions[count:]))

    def run(*moved):
        given = list(operands)
        for i, value in zip(moving, moved):
            given[i] = value
        return _run(*given, rule=rule, wrt=wrt, read=read, outputs=outputs, levels=levels)

    return jax.jvp(run, [operands[i] for i in moving], [directions[i] for i in moving])


def _transposed(gradients, *operands, rule, wrt, read, outputs, levels):
    count = len(operands) - len(wrt)
    found = _apply(lambda values, given: rule.back(wrt, values[:len(values) - read], values[len(values) - read:], given),
                   levels, operands[:count], map(ad.instantiate_zeros, gradients))
    return [None] * count + [g if ad.is_undefined_primal(o) else None for g, o in zip(found, operands[count:])]


def _batched(operands, axes, *, rule, wrt, read, outputs, levels):
    count = len(operands) - len(wrt)
    size = next(o.shape[axis] for o, axis in zip(operands, axes) if axis is not None)

    def placed(i, operand, axis):
        if axis is not None:
            return jax.numpy.moveaxis(operand, axis, 0)
        return operand if i < count else jax.numpy.broadcast_to(operand, (size, *operand.shape))

    level = tuple(None if axis is None else 0 for axis in axes[:count])
    placed = [placed(i, operand, axis) for i, (operand, axis) in enumerate(zip(operands, axes))]
    made = _linear.bind(*placed, rule=rule, wrt=wrt, read=read, outputs=outputs, levels=(level, *levels))
    return made, [0] * len(made)


_linear.def_impl(_run)
_linear.def_abstract_eval(_shapes)
ad.primitive_jvps[_linear] = _derivative
ad.primitive_transposes[_linear] = _transposed
batching.primitive_batchers[_linear] = _batched
mlir.register_lowering(_linear, mlir.lower_fun(_run, multiple_results=True))
