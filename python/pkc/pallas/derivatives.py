"""Derivatives of pl.pallas_call: `pkc grad --kernel` derives the translated kernel block by block."""
import functools

import jax
from jax.experimental import pallas as pl
from jax.interpreters import ad

import pkc
from pkc import _linear
from pkc import jax as pkc_jax
from pkc._kernel import quickest_grad
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

    @functools.cached_property
    def _translated(self):
        return self.derivable()

    def _call(self, wrt, forward, values, read, given):
        text, kernel, threads = self._translated
        derive = functools.partial(_derived, text, kernel, tuple(text.order.index(i) for i in wrt), forward)
        inputs = [values[i] for i in text.order]
        return pkc_jax.derived_call(derive()[0], lambda: derive(again=True)[0], inputs, read, given, threads, {})

    def reads(self, wrt, values):
        """The outputs that the gradient reads, which are kept."""
        try:
            text, kernel, _ = self._translated
            return _derived(text, kernel, tuple(text.order.index(i) for i in wrt), False)[1]
        except TranslationError:  # `back` tells
            return ()

    def forth(self, wrt, values, directions):
        try:
            return self._call(wrt, True, values, (), directions)
        except TranslationError:
            return self._forth_of_jax(wrt, values, directions)

    def _forth_of_jax(self, wrt, values, directions):
        known = [jax.numpy.zeros_like(v) if jax.numpy.issubdtype(v.dtype, jax.numpy.floating) else ad.Zero(jax.typeof(v).to_tangent_aval())
                 for v in values]
        for i, direction in zip(wrt, directions):
            known[i] = direction
        return tuple(d for d in self.theirs(values, known)[1] if not isinstance(d, ad.Zero))

    def back(self, wrt, values, outputs, gradients):
        return self._call(wrt, False, values, outputs, gradients)


@functools.lru_cache(maxsize=1024)
def _derived(text, kernel, wrt, forward, again=False):
    """The derivative of a kernel with respect to the inputs with these numbers, and the numbers of the outputs that it reads. It has blocks like the
    kernel's; if there is no such derivative, or for `again` (second derivatives), it is the derivative of the body as a reference, step by step."""
    inputs = [o["name"] for o in kernel.signature["operands"] if o["direction"] == "input"]
    wrt = tuple(inputs[i] for i in wrt)
    try:
        return (pkc.grad(kernel, wrt, forward=forward), ()) if again else quickest_grad(kernel, wrt, forward)
    except pkc.CompileError as error:
        raise TranslationError("pkc.pallas: the gradient of %s is refused: %s\n  Give it one by jax.custom_vjp." % (
            text.name, explained(text, error))) from None
