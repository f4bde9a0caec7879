"""Derivatives of pl.pallas_call: `pkc grad --kernel` derives the translated kernel block by block."""
import contextlib
import functools

import jax
from jax.experimental import pallas as pl
from jax.interpreters import ad

import pkc
from pkc import _linear
from pkc import jax as pkc_jax
from pkc.pallas.errors import TranslationError, explained


def take_over(is_ours, derivable):
    """Replaces JAX's derivative of a call, which has no reverse mode.

    `is_ours(interpret)`: is a call with it translated? `derivable(interpret, params)`: (its Text, the kernel, a number of threads).
    """
    theirs = ad.primitive_jvps[pl.pallas_call_p]

    def along(values, directions, *, interpret, **params):
        derive = functools.partial(theirs, interpret=interpret, **params)
        if jax.default_backend() != "cpu" or not is_ours(interpret):
            return derive(values, directions)
        made = pl.pallas_call_p.bind(*values, interpret=interpret, **params)
        known = [None if isinstance(d, ad.Zero) else d for d in directions]
        rule = _Body(functools.partial(derivable, interpret, params), derive)
        found = _linear.tangents(rule, values, known, made)
        return made, [ad.Zero(jax.typeof(o).to_tangent_aval()) if d is None else d for o, d in zip(made, found)]
    ad.primitive_jvps[pl.pallas_call_p] = along


class _Body:
    """The derivative of a call: of the kernel that it is translated to. `theirs` is JAX's rule."""

    def __init__(self, derivable, theirs):
        self.derivable, self.theirs = derivable, theirs

    def _call(self, wrt, forward, values, given):
        text, kernel, threads = self.derivable()
        derive = functools.partial(_derived, text, kernel, tuple(text.order.index(i) for i in wrt), forward)
        arrays = [*(values[i] for i in text.order), *given]
        made = pkc_jax.derived_call(derive(), functools.partial(derive, again=True), arrays, threads, {})
        return made if isinstance(made, tuple) else (made,)

    def forth(self, wrt, values, directions):
        try:
            return self._call(wrt, True, values, directions)
        except TranslationError:
            return self._forth_of_jax(wrt, values, directions)

    def _forth_of_jax(self, wrt, values, directions):
        known = [jax.numpy.zeros_like(v) if jax.numpy.issubdtype(v.dtype, jax.numpy.floating) else ad.Zero(jax.typeof(v).to_tangent_aval())
                 for v in values]
        for i, direction in zip(wrt, directions):
            known[i] = direction
        return tuple(d for d in self.theirs(values, known)[1] if not isinstance(d, ad.Zero))

    def back(self, wrt, values, gradients):
        return self._call(wrt, False, values, gradients)


@functools.lru_cache(maxsize=1024)
def _derived(text, kernel, wrt, forward, again=False):
    """The derivative of a kernel with respect to the inputs with these numbers. It has blocks like the kernel's; if there is no such derivative,
    or for `again` (second derivatives), it is the derivative of the body as a reference, step by step."""
    inputs = [o["name"] for o in kernel.signature["operands"] if o["direction"] == "input"]
    derive = functools.partial(pkc.grad, kernel, [inputs[i] for i in wrt], forward=forward)
    if not again:
        with contextlib.suppress(pkc.CompileError):
            return derive(blocks=True)
    try:
        return derive()
    except pkc.CompileError as error:
        raise TranslationError("pkc.pallas: the gradient of %s is refused: %s\n  Give it one by jax.custom_vjp." % (
            text.name, explained(text, error))) from None
