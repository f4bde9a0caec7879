"""Pallas kernels of JAX, compiled for the CPU.

    import pkc.pallas
    pkc.pallas.install()        # from here on pl.pallas_call runs compiled on JAX's CPU backend

    pkc.pallas.to_pk(f, *args)                the .pk text of the kernels that f(*args) calls
    pkc.pallas.grad_to_pallas(f, *args)       the gradient of that kernel, as Python that calls Pallas
    pkc.pallas.check(f, *args)                runs them in the checker
    pkc.pallas.tpu(f, *args, chip="v6e")      what they cost on a TPU
    pkc.pallas.prove(f, reference, *args)     is f(*args) reference(*args), for all floats?

The manual is docs/python.md of pkc.
"""
from pkc import _versions

try:
    import jax
except ImportError as error:
    raise ImportError("pkc.pallas requires JAX: %s" % error) from None
_versions.require("pkc.pallas", jax)

from pkc.pallas.errors import TranslationError
from pkc.pallas.reports import check, grad_to_pallas, to_pk, tpu
from pkc.pallas.lowering import install
from pkc.pallas.proofs import prove

__all__ = ["TranslationError", "check", "grad_to_pallas", "install", "prove", "to_pk", "tpu"]
