"""Kernels and programs with a mesh: arrays are whole, and the devices are threads."""
import os

import numpy as np
import pytest

import pkc

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLLECTIVES = os.path.join(ROOT, "kernels", "collectives")


def whole(*shape):
    return np.random.default_rng(7).integers(-64, 64, shape).astype(np.float32)


@pytest.mark.parametrize("devices", (2, 3, 8))
def test_collectives(devices):
    gather = pkc.load(os.path.join(COLLECTIVES, "all_gather.pk"), D=devices)
    x = whole(2 * devices, 5)
    assert np.array_equal(gather(x), x)
    product = pkc.load(os.path.join(COLLECTIVES, "gather_matmul.pk"), D=devices)
    w = whole(5, 3 * devices)
    assert np.array_equal(product(x, w), x @ w)


def test_devices_from_the_arrays():
    reduce = pkc.load(os.path.join(COLLECTIVES, "all_reduce.pk"))
    for devices in (2, 4):
        x = whole(devices, 4 * devices, 3)
        assert np.array_equal(reduce(x), x.sum(axis=0))


def test_program():
    program = pkc.load(os.path.join(ROOT, "tests", "cases", "mesh", "programs.pk"), kernel="two_layers", D=2)
    x, w1, w2 = whole(4, 3), whole(3, 6), whole(6, 3)
    assert np.array_equal(program(x, w1, w2), np.maximum(x @ w1, 0) @ w2)
    assert "on 2 devices" in str(program.check(M=4, E=3, F=4))


def test_signature():
    gather = pkc.load(os.path.join(COLLECTIVES, "all_gather.pk"), D=2)
    assert gather.signature["mesh"] == {"d": 2}
    assert [o["shard"] for o in gather.signature["operands"]] == [[["d"], []], [[], []]]


def test_refused():
    gather = pkc.load(os.path.join(COLLECTIVES, "all_gather.pk"), D=4)
    with pytest.raises(ValueError, match="divides into 4 equal parts"):
        gather(whole(6, 3))
    wrong = pkc.load(os.path.join(ROOT, "tests", "cases", "mesh", "semaphores.pk"), kernel="all_wait")
    with pytest.raises(RuntimeError, match="nothing brings"):
        wrong(whole(8))
