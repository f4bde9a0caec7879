"""Pallas kernels that talk to other devices, under shard_map on CPU devices: what `remote_kernels.py` prints."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("jax")


@pytest.fixture(scope="module")
def said():
    """{kernel and devices: what came of it}"""
    import jax
    if not hasattr(jax, "shard_map"):
        pytest.skip("this JAX has no jax.shard_map")
    done = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "remote_kernels.py")], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=500, env=dict(os.environ, PK_DEVICE_TIMEOUT="60"))
    assert done.stdout.endswith("all were tried\n"), done.stdout + done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines()[:-1])


KERNELS = ["right_permute", "all_gather", "all_reduce", "reduce_scatter", "reduce_scatter_pipelined", "all_to_all", "gather_matmul",
           "broadcast"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_collectives(said, kernel):
    """Equal to JAX's collectives on 2, 4 and 8 devices."""
    lines = {name: line for name, line in said.items() if name.startswith(kernel + " on ")}
    assert set(lines.values()) == {"equal"}, lines


@pytest.mark.parametrize("what", ["torus", "repeated", "mistakes"])
def test_forms(said, what):
    assert said[what] == "equal"
