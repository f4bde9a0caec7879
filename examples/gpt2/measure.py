#!/usr/bin/env python3
"""GPT-2 in kernels beside torch, in eager mode or compiled: the same random weights in the shapes of the published models, results compared, tokens a second.

    python3 examples/gpt2/measure.py --rows prompt,token,token8 --weights f32,bf16,i8,i4 --threads 1,2
    python3 examples/gpt2/measure.py --compile

Requires the Python package pkc (pip install ./python) and torch. Rows: `prompt` reads 512 tokens, `token` and `token8` write one token of 1 and 8
sequences behind 512, `training` is loss and gradients of 4 sequences of 256. Times are minima of pairs of runs that alternate. i8 and i4 have no
counterpart in torch."""
import argparse
import pathlib
import time

import numpy
import torch
import torch.nn.functional as F

import pkc

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {"tiny": (2, 2, 1000), "124M": (12, 12, 50257), "355M": (24, 16, 50257)}
E, P, PROMPT = 64, 1024, 512
MATRICES = "wte wqkv wo wup wdown".split()
TORCH = {"f32": torch.float32, "bf16": torch.bfloat16}


def weights(layers, heads, tokens, seed=1):
    C = heads * E
    shapes = dict(wte=(tokens, C), wpe=(P, C), ln1=(layers, 2, C), wqkv=(layers, C, 3 * C), bqkv=(layers, 3 * C), wo=(layers, C, C), bo=(layers, C),
                  ln2=(layers, 2, C), wup=(layers, C, 4 * C), bup=(layers, 4 * C), wdown=(layers, 4 * C, C), bdown=(layers, C), lnf=(2, C))
    rng = numpy.random.default_rng(seed)
    made = {name: (0.07 * (rng.random(shape, numpy.float32) - 0.5)) for name, shape in shapes.items()}
    for name in ("ln1", "ln2", "lnf"):
        made[name][..., 0, :] += 1
    return made


class Torch:
    """The model as it is written in torch: [in, out] matrices, scaled_dot_product_attention, a cache that is written in place."""

    def __init__(self, made, heads, dtype, batch):
        self.w = {name: torch.from_numpy(array).to(TORCH[dtype]) for name, array in made.items()}
        self.layers, self.heads, self.C = len(made["ln1"]), heads, heads * E
        self.k, self.v = ([torch.zeros(batch, heads, P, E, dtype=TORCH[dtype]) for _ in range(self.layers)] for _ in range(2))

    def hidden(self, token, at, cache=True):
        w, (batch, count) = self.w, token.shape
        h = w["wte"][token] + w["wpe"][at:at + count]
        for l in range(self.layers):
            n = F.layer_norm(h, (self.C,), w["ln1"][l, 0], w["ln1"][l, 1])
            qkv = torch.addmm(w["bqkv"][l], n.view(-1, self.C), w["wqkv"][l]).view(batch, count, 3, self.heads, E).permute(2, 0, 3, 1, 4)
            q, k, v = qkv
            if cache:
                self.k[l][:, :, at:at + count], self.v[l][:, :, at:at + count] = k, v
                k, v = self.k[l][:, :, :at + count], self.v[l][:, :, :at + count]
            a = F.scaled_dot_product_attention(q, k, v, is_causal=count > 1).transpose(1, 2).reshape(-1, self.C)
            h = h + torch.addmm(w["bo"][l], a, w["wo"][l]).view(h.shape)
            n = F.layer_norm(h, (self.C,), w["ln2"][l, 0], w["ln2"][l, 1])
            u = F.gelu(torch.addmm(w["bup"][l], n.view(-1, self.C), w["wup"][l]), approximate="tanh")
            h = h + torch.addmm(w["bdown"][l], u, w["wdown"][l]).view(h.shape)
        return F.layer_norm(h, (self.C,), w["lnf"][0], w["lnf"][1])

    def next(self, token, at):
        with torch.inference_mode():
            return self.hidden(token, at)[:, -1] @ self.w["wte"].T

    def gradients(self, token, target):
        for tensor in self.w.values():
            tensor.requires_grad_(True)
            tensor.grad = None
        loss = F.cross_entropy((self.hidden(token, 0, False) @ self.w["wte"].T).flatten(0, 1), target.flatten())
        loss.backward()
        return loss


class Kernels:
    def __init__(self, made, heads, dtype, batch, threads, products="f32", row=False, cache="f32"):
        self.threads, self.batch = threads, batch
        given, self.scales, self.meant = dict(made), [], dict(made)
        for name in MATRICES:
            rows = made[name] if name == "wte" or dtype == "f32" else numpy.ascontiguousarray(made[name].swapaxes(1, 2))
            scale = numpy.zeros(made[name].shape[:1] if name == "wte" else (len(made[name]), made[name].shape[2]), numpy.float32)
            if dtype == "i8":
                kernel = pkc.load(HERE.parents[1] / "kernels/quantise.pk", "quantise_rows")
                q, scale = (numpy.stack(x) for x in zip(*map(kernel, rows.reshape(-1, *rows.shape[-2:]))))
                given[name], scale = q.reshape(rows.shape), scale.reshape(rows.shape[:-1])
                wide = given[name] * scale[..., None]
                self.meant[name] = wide if name == "wte" else numpy.ascontiguousarray(wide.swapaxes(1, 2))
            elif dtype == "i4":
                q, scale = pkc.load(HERE.parents[1] / "kernels/quantise.pk", "quantise_groups")(rows.reshape(-1, rows.shape[-1] // 32, 32))
                halves = numpy.concatenate([q & 15, q >> 4], 2).astype(numpy.float32) - 8
                wide = (halves * scale).reshape(rows.shape)
                given[name], scale = (x.reshape(*rows.shape[:-1], -1, x.shape[-1]) for x in (q, scale))
                self.meant[name] = wide if name == "wte" else numpy.ascontiguousarray(wide.swapaxes(1, 2))
            elif dtype == "bf16":
                given[name] = torch.from_numpy(rows).bfloat16()
            self.scales.append(scale)
        self.weights = list(given.values())
        layers = len(made["ln1"])
        self.k, self.v = (numpy.zeros((layers, batch, heads, P, E), {"f32": "f4", "f16": "f2"}[cache]) for _ in range(2))
        if dtype == "i4":
            self.step = pkc.load(HERE / "next.pk", "gpt2_next_groups", E=E, X=products, KV=cache, BQ=heads * E // 32)
        else:
            self.step = pkc.load(HERE / "next.pk", "gpt2_next", E=E, W=dtype, X=products, KV=cache)
        self.row = self.step
        if row and dtype == "i4":
            self.row = pkc.load(HERE / "next.pk", "gpt2_next_groups", E=E, KV=cache, BQ=heads * E // 32)
        elif row:
            self.row = pkc.load(HERE / "next.pk", "gpt2_next", E=E, W=dtype, KV=cache, ROW=True)
        if dtype == "bf16":  # one kind of arrays for a call
            self.k, self.v = torch.from_numpy(self.k), torch.from_numpy(self.v)
        self.logits = None

    def next(self, token, at):
        batch, count = token.shape
        full = numpy.full(batch, at, numpy.int32), numpy.full(batch, count - 1, numpy.int32)
        self.logits = (self.row if batch * count == 1 else self.step)(*full, token, self.k, self.v, *self.weights, *self.scales, out=(self.logits, self.k, self.v), threads=self.threads)[0]
        return self.logits


def alternate(functions, seconds):
    """Minima of runs that take turns, two at a time: threads of one that still wait for work take time from the first run of the next."""
    best, begin = [float("inf")] * len(functions), time.perf_counter()
    while True:
        for i, function in [pair for pair in enumerate(functions) for _ in range(2)]:
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
        if time.perf_counter() - begin > seconds:
            return best


def difference(got, want):
    got, want = (numpy.asarray(x.detach().float() if isinstance(x, torch.Tensor) else x) for x in (got, want))
    return float(numpy.abs(got - want).max() / numpy.abs(want).max())


def measure_writing(o, made, row, dtype, threads, timed):
    batch, count, at = {"prompt": (1, PROMPT, 0), "token": (1, 1, PROMPT), "token8": (8, 1, PROMPT)}[row]
    layers, heads, tokens = MODELS[o.model]
    token = numpy.random.default_rng(2).integers(0, tokens, (batch, count)).astype(numpy.int32)
    prompt = numpy.random.default_rng(3).integers(0, tokens, (batch, PROMPT)).astype(numpy.int32)
    mine = Kernels(made, heads, dtype, batch, threads, o.products if dtype != "f32" else "f32", not o.no_rows, o.cache)
    base = dtype if dtype in TORCH else "f32"
    other = Torch(mine.meant, heads, base, batch)
    if o.compile:
        other.hidden = torch.compile(other.hidden, dynamic=False)
    torch.set_num_threads(threads)
    if at:
        mine.next(prompt, 0)
        other.next(torch.from_numpy(prompt).long(), 0)
    wide = torch.from_numpy(token).long()
    apart = difference(mine.next(token, at), other.next(wide, at))
    calls = [lambda: mine.next(token, at)] + ([lambda: other.next(wide, at)] if dtype in TORCH else [])
    return batch * count, apart, timed(calls, o.seconds)


def measure_training(o, made, threads, timed):
    layers, heads, tokens = MODELS[o.model]
    batch, count = o.batch, 256
    token, target = numpy.random.default_rng(2).integers(0, tokens, (2, batch, count)).astype(numpy.int32)
    step = pkc.load(HERE / "gpt2.pk", "gpt2_gradients", S=count, E=E)
    other = Torch(made, heads, "f32", batch)
    if o.compile:
        other.hidden = torch.compile(other.hidden, dynamic=False)
    torch.set_num_threads(threads)
    out = step(token.reshape(-1), target.reshape(-1, 1), *made.values(), threads=threads)
    wide = [torch.from_numpy(x).long() for x in (token, target)]
    other.gradients(*wide)
    apart = max(difference(a, other.w[name].grad) for name, a in zip(made, out[1:]))
    calls = [lambda: step(token.reshape(-1), target.reshape(-1, 1), *made.values(), out=out, threads=threads), lambda: other.gradients(*wide)]
    return batch * count, apart, timed(calls, o.seconds)


def main(timed=alternate):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="124M")
    parser.add_argument("--rows", default="prompt,token,token8,training")
    parser.add_argument("--weights", default="f32,bf16,i8,i4")
    parser.add_argument("--products", choices=TORCH, default="f32", help="what narrow weights are multiplied in (f32)")
    parser.add_argument("--cache", choices=["f32", "f16"], default="f32", help="keys and values of the kernels (f32)")
    parser.add_argument("--no-rows", action="store_true", help="without the kernels for one token of one sequence")
    parser.add_argument("--compile", action="store_true", help="beside torch.compile, in place of eager mode")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--batch", type=int, default=4, help="sequences of a step of training")
    parser.add_argument("--seconds", type=float, default=5)
    o = parser.parse_args()
    made = weights(*MODELS[o.model])
    print(f"{'row':10} {'weights':8} {'threads':7} {'pkc tok/s':>10} {'torch tok/s':>11} {'ratio':>6}  largest difference / largest value", flush=True)
    for threads in map(int, o.threads.split(",")):
        for row in o.rows.split(","):
            for dtype in o.weights.split(",") if row != "training" else ["f32"]:
                count, apart, best = measure_training(o, made, threads, timed) if row == "training" else measure_writing(o, made, row, dtype, threads, timed)
                other = f"{count / best[1]:11.1f} {best[1] / best[0]:6.2f}" if len(best) > 1 else f"{'':11} {'':6}"
                print(f"{row:10} {dtype:8} {threads:7} {count / best[0]:10.1f} {other}  {apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
