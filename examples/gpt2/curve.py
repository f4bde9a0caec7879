#!/usr/bin/env python3
"""The loss of a small GPT-2 over 100 steps of training, in kernels and in torch: the same first weights, sequences and rates.

    python3 examples/gpt2/curve.py --plot docs/gpt2-loss.svg

Requires the Python package pkc (pip install ./python) and torch. The text is docs/*.md, a token is a byte. Prints both curves' ends and how far
they are apart at most; with --most, fails where that is more."""
import argparse
import pathlib
import sys

import numpy
import torch

import pkc
from measure import Torch, weights

HERE = pathlib.Path(__file__).resolve().parent
LAYERS, HEADS, TOKENS, S, BATCH = 4, 2, 256, 64, 8
BETAS, DECAY, LONGEST = (0.9, 0.95), 0.1, 1.0
MATRICES = {"wte", "wpe", "wqkv", "wo", "wup", "wdown"}  # what decays


def batches(steps):
    text = numpy.frombuffer(b"".join(path.read_bytes() for path in sorted((HERE.parents[1] / "docs").glob("*.md"))), numpy.uint8).astype(numpy.int32)
    rng = numpy.random.default_rng(1)
    for at in rng.integers(0, len(text) - S, (steps, BATCH)):
        rows = text[at[:, None] + numpy.arange(S + 1)]
        yield numpy.ascontiguousarray(rows[:, :-1]), numpy.ascontiguousarray(rows[:, 1:])


def rates(steps, most=2e-3):
    return [most * min(1.0, (step + 1) / 10) for step in range(steps)]


def by_kernels(made, steps, threads):
    parameters = {name: array.copy() for name, array in made.items()}
    means = {name: [numpy.zeros_like(array) for _ in range(2)] for name, array in made.items()}
    gradients = pkc.load(HERE / "gpt2.pk", "gpt2_gradients", S=S, E=64)
    adamw = pkc.load(HERE.parents[1] / "kernels/train/adamw.pk")
    losses = []
    for step, ((token, target), rate) in enumerate(zip(batches(steps), rates(steps)), 1):
        loss, *found = gradients(token.reshape(-1), target.reshape(-1, 1), *parameters.values(), threads=threads)
        losses.append(float(loss.mean()))
        norm = numpy.sqrt(sum((g.astype(numpy.float64) ** 2).sum() for g in found))
        clip = min(1.0, LONGEST / norm)
        for name, g in zip(parameters, found):
            numbers = numpy.array([rate, 1 / (1 - BETAS[0] ** step), 1 / (1 - BETAS[1] ** step), clip, DECAY if name in MATRICES else 0], numpy.float32)
            flat = [a.reshape(-1, a.shape[-1]) for a in (parameters[name], *means[name], g)]
            adamw(*flat, numbers, out=tuple(flat[:3]), threads=threads)
    return losses


def by_torch(made, steps, threads):
    torch.set_num_threads(threads)
    model = Torch(made, HEADS, "f32", BATCH)
    model.w = {name: torch.tensor(array, requires_grad=True) for name, array in made.items()}
    groups = [{"params": [w for name, w in model.w.items() if (name in MATRICES) == decays], "weight_decay": DECAY if decays else 0.0}
              for decays in (True, False)]
    optimiser = torch.optim.AdamW(groups, lr=1.0, betas=BETAS, eps=1e-8)
    losses = []
    for (token, target), rate in zip(batches(steps), rates(steps)):
        loss = model.gradients(torch.from_numpy(token).long(), torch.from_numpy(target).long())
        losses.append(float(loss.detach()))
        torch.nn.utils.clip_grad_norm_(list(model.w.values()), LONGEST)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
    return losses


def svg(mine, other):
    width, height, left, top = 640, 300, 50, 30
    high, steps = 6.0, len(mine)

    def points(losses):
        return " ".join(f"{left + width * i / max(1, steps - 1):.1f},{top + height * (1 - y / high):.1f}" for i, y in enumerate(losses))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 40} {top + height + 50}" font-family="sans-serif" font-size="12" fill="#333">',
           f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="18">Loss of a GPT-2 of {LAYERS} layers and {64 * HEADS} features, nats a byte</text>',
           f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>',
           f'<polyline points="{points(other)}" fill="none" stroke="#e0a030" stroke-width="6"/>',
           f'<polyline points="{points(mine)}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>',
           f'<text x="{left + width - 150}" y="{top + 30}" fill="#1f5fa8">kernels (thin)</text>',
           f'<text x="{left + width - 150}" y="{top + 48}" fill="#b07810">torch (wide)</text>']
    out += [f'<text x="{left - 6}" y="{top + height * (1 - y / high) + 4:.1f}" text-anchor="end">{y}</text>' for y in range(0, int(high) + 1)]
    out += [f'<text x="{left + width * i / max(1, steps - 1):.1f}" y="{top + height + 18}" text-anchor="middle">{i}</text>' for i in range(0, steps, 10)]
    out.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">step</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--most", type=float, help="the largest difference of two losses that is allowed")
    o = parser.parse_args()
    made = weights(LAYERS, HEADS, TOKENS)
    made["wpe"] = made["wpe"][:S].copy()
    mine, other = by_kernels(made, o.steps, o.threads), by_torch(made, o.steps, o.threads)
    apart = max(abs(a - b) for a, b in zip(mine, other))
    print(f"step 0: {mine[0]:.4f} and {other[0]:.4f}; step {o.steps - 1}: {mine[-1]:.4f} and {other[-1]:.4f}; at most {apart:.1e} apart")
    if o.plot:
        pathlib.Path(o.plot).write_text(svg(mine, other))
    return int(o.most is not None and apart > o.most)


if __name__ == "__main__":
    sys.exit(main())
