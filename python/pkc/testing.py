"""Checks of kernels for test suites.

    import pkc.testing

    def test_softmax():
        pkc.testing.check(softmax, x)

This package is also a pytest plugin, which runs the `// test:` lines of .pk files.
"""
__all__ = ["check"]


def check(f, *args, reference=None, rtol=1e-5, atol=1e-5, seed=None, dma=None, **kwargs):
    """Raises AssertionError with the findings of the checker on f(*args).

    `f` is a kernel of this package, or a function that calls Pallas kernels. `reference` is a function of the same
    arguments; results of f that differ from its results by more than the tolerances are an AssertionError too.
    Integers and bools are compared within the tolerances as well. Returns the report of the checker.
    """
    report = _report(f, args, seed, dma, kwargs)
    if not report:
        raise AssertionError(str(report))
    if reference is not None:
        _compare(f(*args, **kwargs), reference(*args, **kwargs), rtol, atol)
    return report


def _report(f, args, seed, dma, kwargs):
    from pkc._kernel import Kernel
    if isinstance(f, Kernel):
        return f.check(*args, seed=seed, dma=dma, **kwargs)
    import pkc.pallas
    return pkc.pallas.check(f, *args, seed=seed, dma=dma, **kwargs)


def _compare(found, wanted, rtol, atol):
    import numpy
    found, wanted = (list(x) if isinstance(x, (tuple, list)) else [x] for x in (found, wanted))
    if len(found) != len(wanted):
        raise AssertionError("%d results, where the reference gives %d" % (len(found), len(wanted)))
    for number, (one, other) in enumerate(zip(found, wanted)):
        one, other = numpy.asarray(one), numpy.asarray(other)
        if one.dtype != other.dtype:
            raise AssertionError("result %d is %s, that of the reference %s" % (number, one.dtype, other.dtype))
        exact = one.dtype.kind in "biu"
        numpy.testing.assert_allclose(*(x if exact else x.astype("f8") for x in (one, other)), rtol=rtol, atol=atol,
                                      err_msg="result %d differs from that of the reference" % number)
