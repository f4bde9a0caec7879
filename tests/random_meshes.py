#!/usr/bin/env python3
"""Random kernels of two and three devices: the findings of `pkc check` against those of every single order.

Each device performs a few random signals, waits, copies, loads and stores. `--orders` runs every order of them. A finding in any order must
also be reported without the option, and a kernel without findings must have none in any order.

usage: random_meshes.py [--seed S] [--count N]; prints "N passed, N failed".
"""
import argparse
import pathlib
import random
import re
import subprocess
import tempfile

from suite import PKC, check, finish

MOST_ORDERS = 3000


def statement(r, devices, device):
    """One step of a device, in .pk."""
    other = r.randrange(devices)
    copy = f"remote_copy({r.choice(['x', 'a'])}[...] -> {r.choice('ab')}[...], send = sent, recv = {r.choice(['left', 'right'])}, device = (d = {other}))"
    return r.choice([
        f"signal(go, 1, device = (d = {other}));",
        f"signal(back, 1, device = (d = {other}));",
        f"wait({r.choice(['go', 'back'])}, {r.choice([1, 1, 2])});",
        f"{copy}.start();",
        f"{copy}.wait_send();",
        f"{copy}.wait_recv();",
        "o[...] = b[...];",
        "a[...] = x[...];",
    ])


def meeting(r, devices):
    """A device that waits for some of the signals of others, then copies to one of them."""
    roles = r.sample(range(devices), devices)
    here, there = roles[0], roles[1]
    to = f"remote_copy(x[...] -> b[...], send = sent, recv = left, device = (d = {there}))"
    first, amount = r.choice([(devices - 1, 1), (1, 1), (1, 1), (1, 1)])
    lines = [f"when device(d) == {here} {{ wait(go, {first}); {to}.start(); {to}.wait_send(); }}"]
    if devices - 1 - first:
        lines.append(f"when device(d) == {here} {{ wait(go, {devices - 1 - first}); }}")
    for role in roles[1:]:
        store = r.choice(["b[...] = x[...]; ", "o[...] = b[...]; ", ""]) if role != there else "b[...] = x[...]; "
        lines.append(f"when device(d) == {role} {{ {store}signal(go, {amount}, device = (d = {here})); }}")
    r.shuffle(lines)
    return [*lines, f"when device(d) == {there} {{ {to}.wait_recv(); }}"]


def body(r, devices):
    """Exchanges that are mostly right, with random steps of single devices between them."""
    lines = ["a[...] = x[...];", "b[...] = 0;", "barrier();"]
    if devices == 3 and r.random() < 0.8:
        return [*lines, *meeting(r, devices), "o[...] = b[...];"]
    for _ in range(r.randrange(1, 3)):
        shift = r.randrange(devices)
        to = f"(d = (device(d) + {shift}) % {devices})"
        name = f"p{len(lines)}"
        exchange = [f"let {name} = remote_copy(a[...] -> b[...], send = sent, recv = {r.choice(['left', 'right'])}, device = {to});",
                    f"{name}.start();", f"{name}.wait();"]
        credit = [f"signal(go, 1, device = {to});", f"wait({r.choice(['go', 'go', 'back'])}, 1);"]
        lines += r.choice([exchange, credit, credit + exchange, exchange + credit, meeting(r, devices)])
    for _ in range(r.choice([0, 0, 1, 2])):
        device = r.randrange(devices)
        lines.insert(r.randrange(2, len(lines) + 1), f"when device(d) == {device} {{ {statement(r, devices, device)} }}")
    return lines + ["o[...] = b[...];"]


def kernel(r):
    devices = r.choice([2, 3])
    text = "\n  ".join(body(r, devices))
    return f"""kernel exchange(x: f32[M] shard (d)) -> (o: f32[M] shard (d)) {{
  mesh (d: {devices});
  scratch a, b: vmem f32[M / {devices}], sent, left, right: sem dma, go, back: sem regular;
  {text}
}}
""", 2 * devices


def look(path, size, *more):
    """The kinds of findings, and the line about orders."""
    done = subprocess.run([PKC, "check", str(path), f"M={size}", *more], capture_output=True, text=True)
    said = done.stdout + done.stderr
    known = done.returncode in (0, 3)
    kinds = set(re.findall(r"(?m)^\S+\.pk:\d+:\d+: (race|deadlock|device|devices|the semaphore|element)", said))
    return known, done.returncode == 3, kinds, said


def one(seed, folder):
    text, size = kernel(random.Random(seed))
    path = pathlib.Path(folder) / f"mesh{seed}.pk"
    path.write_text(text)
    known, found, _, said = look(path, size)
    if not known:
        return "refused" if "error" in said else f"crashed: {said}", text
    known, any_found, _, each = look(path, size, "--orders", str(MOST_ORDERS))
    all_orders = re.search(r"in all \d+ orders|in 1 order", each)
    if any_found and not found:
        return f"not found: {each}", text
    if found and all_orders:
        return f"found in no order: {said}", text
    return ("with findings" if found else "without" if all_orders else "of too many orders"), text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.count):
            wrong, text = one(seed, folder)
            outcomes[wrong] = outcomes.get(wrong, 0) + 1
            check(f"mesh {seed}", wrong in ("with findings", "without", "of too many orders"), f"{wrong}\n{text}")
    print(", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())))
    finish()


if __name__ == "__main__":
    main()
