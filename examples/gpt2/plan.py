#!/usr/bin/env python3
"""What a GPT-2 takes on a TPU, by `pkc tpu`: time, bound, memory and utilisation of a step, on one chip or a mesh of them.

    examples/gpt2/plan.py v5e                            124M, 8 sequences of 1024 tokens: a token, a prompt, a step of training
    examples/gpt2/plan.py v5p --model 1558M --mesh 4x2   4 parts of the batch, 2 of each matrix
    examples/gpt2/plan.py v5e --plot plan.svg            time of a token and utilisation by batch
    examples/gpt2/plan.py all --mesh 4x2                 a line for each chip

`gpt2 --plan v5e ..` of gpt2.c calls this.

The kernels are those of next.pk and gpt2.pk, the choice of tokens and the optimiser, one call of each in the sizes of the step, times how often the
step calls it; the first axis of the mesh divides the batch, the second the heads, the columns of wqkv, wup and wte and the rows of wo and wdown, and
the optimiser's work. Collectives follow the kernels and do not overlap them."""
import argparse
import concurrent.futures
import functools
import json
import math
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PKC = os.environ.get("PKC", str(HERE.parents[1] / "build/pkc"))
MODELS = {"124M": (12, 12), "355M": (24, 16), "774M": (36, 20), "1558M": (48, 25)}  # layers, heads of 64 features
TOKENS, POSITIONS, E = 50257, 1024, 64
BYTES = {"f32": 4, "bf16": 2, "i8": 1, "i4": 0.625}  # i4: 4 bytes of scale for 32 elements
CACHE = {name: "f32" if name == "f32" else "bf16" for name in BYTES}  # bf16 is what TPUs have for the f16 of the program
GROUP, ROW = 32, 4096  # ROW: the optimiser sees all parameters as rows of that many
ELSEWHERE = {"adamw": "kernels/train/adamw.pk", "sampling": "kernels/sampling.pk"}


def run(*words):
    done = subprocess.run([PKC, "tpu", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip() or "pkc tpu failed")
    return done.stdout


@functools.lru_cache(maxsize=None)
def model(chip, file, kernel, words):
    path = HERE.parents[1] / ELSEWHERE[kernel] if kernel in ELSEWHERE else HERE / file
    return json.loads(run(path, "-k", kernel, "--chip", chip, "--json", *words))


@functools.lru_cache(maxsize=None)
def collective(chip, mesh, kind, size):
    """Seconds; `mesh` is the ring of chips that take part."""
    return json.loads(run("--mesh", f"{mesh}x1", kind, f"bytes={size}", "--chip", chip, "--json"))["seconds"] if mesh > 1 else 0.0


@functools.lru_cache(maxsize=None)
def chips():
    """Bytes of HBM of each, and whether its network is known."""
    rows = [line.split() for line in run("--chips").split("\n\n")[0].splitlines()]
    return {row[0]: (float(row[1]) * 1e9, any(word in ("2D", "3D") for word in row)) for row in rows if row[1].replace(".", "").isdigit()}


def hbm_bytes(chip):
    if chip not in chips():
        sys.exit(f"no chip {chip}: pkc tpu --chips lists them")
    return chips()[chip][0]


# ---- the calls of a step: (kernel, how often, settings)

def rows(n, most=256):
    """A block of rows: no more than there are."""
    return min(most, max(8, math.ceil(n / 8) * 8))


def forward_calls(o, batch, count, tensor, at):
    """next.pk: `count` new tokens of each of `batch` sequences behind `at` others."""
    layers, heads = MODELS[o.model]
    C, M, own = heads * E, batch * count, math.ceil(heads / tensor) * E
    bits = ("-D", "X=" + ("f32" if o.weights == "f32" else "bf16"), *(() if o.weights == "i4" else ("-D", f"W={o.weights}")))
    block = ("-D", f"BM={rows(M)}")
    product = block if o.weights == "f32" else (*bits, *block)
    kind = {"f32": "", "i4": "_groups"}.get(o.weights, "_narrow")
    linear, onto = "linear" + kind, "onto" + kind
    place_kernel, score = ("place_groups", "score_groups") if o.weights == "i4" else ("place", "score")

    def sizes(features, of="K"):
        return f"Q={features // GROUP}" if o.weights == "i4" else f"{of}={features}"
    cache = ("-D", f"KV={CACHE[o.weights]}")
    attention = (*cache, "-D", f"E={E}", "-D", f"BQ={rows(count, 128)}")
    place = (f"B={batch}", f"at=const:{at}")
    gelu = ("-D", "GELU=true")
    table = math.ceil(TOKENS / tensor)
    last = (*bits, "-D", f"BM={rows(batch)}")
    return [
        (place_kernel, 1, (*(() if o.weights == "i4" else ("-D", f"W={o.weights}")), *place, f"T={count}", f"V={TOKENS}", sizes(C, "C"),
                           f"P={POSITIONS}", "token=const:1")),
        ("normalise", 2 * layers, (f"M={M}", f"C={C}")),
        ("normalise", 1, (f"M={batch}", f"C={C}")),
        (linear, layers, (*product, f"M={M}", sizes(C), f"N={3 * own}")),
        ("remember", layers, (*cache, *place, f"T={count}", f"H={own // E}", f"E={E}", f"P={POSITIONS}")),
        ("recall", layers, (*attention, *place, f"T={count}", f"H={own // E}", f"P={POSITIONS}")),
        (onto, layers, (*product, f"M={M}", sizes(own), f"N={C}")),
        (linear, layers, (*product, *gelu, f"M={M}", sizes(C), f"N={4 * own}")),
        (onto, layers, (*product, f"M={M}", sizes(4 * own), f"N={C}")),
        ("pick", 1, (f"B={batch}", f"T={count}", f"C={C}", f"last=const:{count - 1}")),
        (score, 1, (*last, f"M={batch}", sizes(C, "C"), f"V={table}")),
        ("sampling", 1, (f"M={batch}", f"N={TOKENS}"))]


def training_calls(o, batch, count, tensor):
    """gpt2.pk: a step on `batch` sequences of `count` tokens."""
    layers, heads = MODELS[o.model]
    C, M, own = heads * E, batch * count, math.ceil(heads / tensor) * E
    table, block = math.ceil(TOKENS / tensor), ("-D", f"BM={rows(M)}")
    attention = ("-D", f"E={E}", f"B={batch}", f"S={count}", f"H={own // E}")
    products = [(C, 3 * own), (own, C), (C, 4 * own), (4 * own, C)]
    loss = (f"M={M}", f"C={C}", f"V={table}")
    matrix_rows, other_rows = (math.ceil(n / tensor / ROW) for n in parameter_parts(o))
    return [
        ("embed", 1, (f"M={M}", f"C={C}", f"V={TOKENS}", f"P={POSITIONS}", "token=const:1", "-D", f"S={count}")),
        ("normalise", 2 * layers + 1, (f"M={M}", f"C={C}")),
        *((kernel, layers, (*block, f"M={M}", f"K={k}", f"N={n}")) for kernel, (k, n) in zip(("linear", "onto", "linear", "onto"), products)),
        ("attend", layers, attention),
        ("gelu", layers, (f"M={M}", f"N={4 * own}")),
        *((kernel, 1, loss) for kernel in ("loss_of", "loss_tokens", "loss_rows")),
        ("normalise_rows", 2 * layers + 1, (f"M={M}", f"C={C}")),
        ("normalise_columns", 2 * layers + 1, (f"M={M}", f"C={C}")),
        *(("linear_weights", layers, (f"M={M}", f"K={k}", f"N={n}")) for k, n in products),
        *(("linear_input", layers, (*block, f"M={M}", f"K={k}", f"N={n}")) for k, n in products),
        *(("column_sums", layers, (f"M={M}", f"N={n}")) for _, n in products),
        ("gelu_backward", layers, (f"M={M}", f"N={4 * own}")),
        *((kernel, layers, attention) for kernel in ("attend_delta", "attend_queries", "attend_keys")),
        ("embed_tokens", 1, (f"M={M}", f"C={C}", f"V={TOKENS}", "token=const:1")),
        ("embed_positions", 1, (f"B={batch}", f"S={count}", f"C={C}", f"P={POSITIONS}")),
        ("squares", 1, (f"M={matrix_rows + other_rows}", f"N={ROW}")),
        *(("adamw", 1, (f"M={count}", f"N={ROW}")) for count in (matrix_rows, other_rows))]


# ---- sums

def parameter_parts(o):
    """Elements of the matrices and tables, and of scales, shifts and biases."""
    layers, heads = MODELS[o.model]
    C = heads * E
    return (TOKENS + POSITIONS) * C + layers * 12 * C * C, layers * 13 * C + 2 * C


def parameters(o):
    return sum(parameter_parts(o))


def matrices(o):
    """Elements of the matrices that a token is multiplied by."""
    layers, heads = MODELS[o.model]
    return TOKENS * heads * E + layers * 12 * (heads * E) ** 2


def add_up(o, name, file, calls, batch, count, training=False):
    """`batch` sequences on each part of the mesh."""
    data, tensor = o.mesh
    layers, heads = MODELS[o.model]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda c: model(o.chip, file, c[0], c[2]), calls))
    kernels = {}
    for (kernel, times, _), m in zip(calls, found):
        row = kernels.setdefault(kernel, {"calls": 0, "seconds": 0.0, "bound": {}})
        row["calls"] += times
        row["seconds"] += times * m["seconds"]
        row["bound"][m["bound"]] = row["bound"].get(m["bound"], 0) + times * m["seconds"]
    busy = sum(row["seconds"] for row in kernels.values())
    sums = 2 * layers * (2 if training else 1) * collective(o.chip, tensor, "all-reduce", batch * count * heads * E * 4)
    gradients = collective(o.chip, data, "all-reduce", parameters(o) * 4 // tensor) if training else 0.0
    seconds = busy + sums + gradients
    attended = 4 * layers * heads * E * batch * count * (count / 2 if count > 1 else o.context)
    multiplied = 2 * batch * (count * (matrices(o) - (0 if training else TOKENS * heads * E)) + (0 if training else TOKENS * heads * E))
    flops = (multiplied + attended) * (3 if training else 1)
    peak = max(m["peak"] for m in found)
    return {"step": name, "seconds": seconds, "kernels_s": busy, "sums_s": sums, "gradients_s": gradients, "tokens_per_s": data * batch * count / seconds,
            "useful_flops": flops, "peak": peak, "utilisation": flops / tensor / seconds / peak,
            "bound": max(("kernels", busy), ("sums over the mesh", sums), ("gradients over the mesh", gradients), key=lambda x: x[1])[0],
            "kernels": kernels}


def memory(o, batch):
    """Bytes on one chip: of writing, and of training."""
    layers, heads = MODELS[o.model]
    _, tensor = o.mesh
    C, M = heads * E, batch * o.context
    weights = matrices(o) * BYTES[o.weights] / tensor + POSITIONS * C * 4
    cache = 2 * layers * batch * POSITIONS * C * BYTES[CACHE[o.weights]] / tensor
    kept = M * C * 4 * ((4 * layers + 2) + layers * (3 + 1 + 8) / tensor)
    return {"weights": weights, "cache": cache, "writing": weights + cache, "training": parameters(o) * 16 / tensor + kept, "hbm": hbm_bytes(o.chip)}


def weights_bound(o):
    """The batch from which reading the weights takes less time than multiplying by them, at peak and at the HBM's bandwidth."""
    kernel, _, words = forward_calls(o, 8, 1, 1, 0)[3]
    m = model(o.chip, "next.pk", kernel, words)
    return BYTES[o.weights] * m["peak"] / (2 * m["hbm_bandwidth"])


def by_batch(o):
    found = []
    for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        step = add_up(o, "token", "next.pk", forward_calls(o, batch, 1, o.mesh[1], o.context - 1), batch, 1)
        m = step["kernels"]
        products = sum(row["seconds"] for k, row in m.items() if k.startswith(("linear", "onto", "score")))
        found.append({"batch": batch, "seconds": step["seconds"], "products_s": products, "attention_s": m["recall"]["seconds"],
                      "utilisation": step["utilisation"], "products": 2 * batch * matrices(o) / o.mesh[1] / products / step["peak"], "fits": memory(o, batch)["writing"] <= hbm_bytes(o.chip)})
    return found


# ---- what is shown

def shown(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def print_step(step):
    print(f"\n{step['step']}: {shown(step['seconds'])}, {step['tokens_per_s']:.0f} tokens/s, {100 * step['utilisation']:.1f} % of the MXU's peak, "
          f"most of it in {step['bound']}")
    for kernel, row in sorted(step["kernels"].items(), key=lambda x: -x[1]["seconds"]):
        bound = max(row["bound"], key=row["bound"].get)
        print(f"  {kernel:18} {row['calls']:5} calls {shown(row['seconds']):>9}  {100 * row['seconds'] / step['seconds']:5.1f} %  {bound}")
    for name in ("sums", "gradients"):
        if step[name + "_s"] > 0:
            print(f"  {name + ' over the mesh':18} {'':11} {shown(step[name + '_s']):>9}  {100 * step[name + '_s'] / step['seconds']:5.1f} %")


def print_plan(plan):
    print(f"GPT-2 {plan['model']} on {plan['chip']}, {plan['mesh'][0]} x {plan['mesh'][1]} chips, {plan['batch']} sequences on each of {plan['mesh'][0]}, "
          f"{plan['context']} tokens, weights in {plan['weights']}")
    m = plan["memory"]
    for name in ("writing", "training"):
        print(f"  memory of {name:9} {m[name] / 1e9:6.2f} GB of {m['hbm'] / 1e9:.0f}: {'fits' if m[name] <= m['hbm'] else 'does not fit'}")
    print(f"  reading the weights bounds the products of a token up to a batch of {plan['weights_bound']:.0f}")
    for step in plan["steps"]:
        print_step(step)


def print_chips(plans):
    first = plans[0]
    print(f"GPT-2 {first['model']}, {first['mesh'][0]} x {first['mesh'][1]} chips, {first['batch']} sequences on each of {first['mesh'][0]}, "
          f"{first['context']} tokens, weights in {first['weights']}; each step: time, share of the MXU's peak, what bounds most of it\n")
    print(f"{'chip':6} {'token':>34} {'prompt':>34} {'training, f32':>34} {'memory of writing, training':>29} {'weights bound to':>17}")
    for plan in plans:
        cells = []
        for step in plan["steps"]:
            bound = {}
            for row in step["kernels"].values():
                for name, seconds in row["bound"].items():
                    bound[name] = bound.get(name, 0) + seconds
            most = max(bound, key=bound.get) if step["bound"] == "kernels" else "mesh"
            cells.append(f"{shown(step['seconds']):>8} {100 * step['utilisation']:5.1f} % {most:>17}")
        m = plan["memory"]
        room = " ".join(f"{m[name] / 1e9:6.2f} GB{'' if m[name] <= m['hbm'] else '!'}" for name in ("writing", "training"))
        print(f"{plan['chip']:6} {' '.join(f'{cell:>34}' for cell in cells)} {room:>29} {plan['weights_bound']:17.0f}")
    if any(p["memory"][name] > p["memory"]["hbm"] for p in plans for name in ("writing", "training")):
        print("\n!: does not fit")


def svg(plan):
    """Two panels over the batch: the time of a token, and the share of the peak."""
    points, width, height, left, gap = plan["by_batch"], 640, 260, 70, 60
    low = 10 ** math.floor(math.log10(min(min(p["products_s"], p["attention_s"]) for p in points)))
    high = 10 ** math.ceil(math.log10(max(p["seconds"] for p in points)))

    def x(batch):
        return left + (width - left - 130) * math.log2(batch) / math.log2(points[-1]["batch"])

    def line(key, to, colour, label, lift=4):
        path = " ".join(f"{x(p['batch']):.1f},{to(p[key]):.1f}" for p in points)
        end = points[-1]
        return (f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
                f'<text x="{x(end["batch"]) + 6:.1f}" y="{to(end[key]) + lift:.1f}" fill="{colour}">{label}</text>')

    def log(value):
        return 30 + height * (1 - math.log10(value / low) / math.log10(high / low))

    def share(value):
        return 30 + height + gap + height * -math.log10(max(value, 1e-4)) / 4
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {2 * height + gap + 80}" font-family="sans-serif" font-size="12" fill="#333">',
           f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="18">GPT-2 {plan["model"]}, weights in {plan["weights"]}, one token on {plan["chip"]}, '
           f'{plan["context"]} tokens before it</text>']
    for top in (30, 30 + height + gap):
        out.append(f'<rect x="{left}" y="{top}" width="{x(points[-1]["batch"]) - left}" height="{height}" fill="none" stroke="#999"/>')
    for p in points:
        out.append(f'<text x="{x(p["batch"]):.1f}" y="{2 * height + gap + 48}" text-anchor="middle">{p["batch"]}</text>')
    crowded = next((p for p in points if not p["fits"]), None)
    if crowded:
        out.append(f'<text x="{x(crowded["batch"]):.1f}" y="{height + 46}" text-anchor="middle" fill="#b00">no room from here on</text>')
    tick = low
    while tick <= high * 1.001:
        out.append(f'<text x="{left - 6}" y="{log(tick) + 4:.1f}" text-anchor="end">{shown(tick)}</text>')
        tick *= 10
    for i in range(5):
        out.append(f'<text x="{left - 6}" y="{share(10.0 ** -i) + 4:.1f}" text-anchor="end">{100 * 10.0 ** -i:g} %</text>')
    edge = plan["weights_bound"]
    if edge <= points[-1]["batch"]:
        out.append(f'<line x1="{x(edge):.1f}" x2="{x(edge):.1f}" y1="30" y2="{2 * height + gap + 30}" stroke="#999" stroke-dasharray="4"/>'
                   f'<text x="{x(edge) - 4:.1f}" y="{46}" text-anchor="end">weights bound to {edge:.0f}</text>')
    out += [line("seconds", log, "#1f5fa8", "in all", -8), line("products_s", log, "#2a8f4f", "products"), line("attention_s", log, "#c05a1a", "attention"),
            line("utilisation", share, "#1f5fa8", "of the peak, in all"), line("products", share, "#2a8f4f", "in products"),
            f'<text x="{(left + x(points[-1]["batch"])) / 2:.1f}" y="{2 * height + gap + 68}" text-anchor="middle">sequences on a chip</text></svg>']
    return "\n".join(out) + "\n"


def whole(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("expected a positive number")
    return value


def mesh(text):
    parts = text.split("x")
    if len(parts) != 2:
        raise argparse.ArgumentTypeError("expected two numbers, as in 4x2")
    return tuple(map(whole, parts))


def planned(o):
    tensor = o.mesh[1]
    steps = [add_up(o, "one token of each sequence", "next.pk", forward_calls(o, o.batch, 1, tensor, o.context - 1), o.batch, 1),
             add_up(o, "a prompt", "next.pk", forward_calls(o, o.batch, o.context, tensor, 0), o.batch, o.context),
             add_up(o, "a step of training, f32", "gpt2.pk", training_calls(o, o.batch, o.context, tensor), o.batch, o.context, True)]
    return {"chip": o.chip, "model": o.model, "mesh": o.mesh, "batch": o.batch, "context": o.context, "weights": o.weights,
            "memory": memory(o, o.batch), "weights_bound": weights_bound(o), "steps": steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chip", help="as pkc tpu --chips lists them, or all")
    parser.add_argument("--model", choices=MODELS, default="124M")
    parser.add_argument("--weights", choices=BYTES, default="bf16")
    parser.add_argument("--batch", type=whole, default=8, help="sequences on each part of the mesh (8)")
    parser.add_argument("--context", type=whole, default=POSITIONS, help="tokens of a prompt and of a sequence in training (1024)")
    parser.add_argument("--mesh", type=mesh, default=(1, 1), help="parts of the batch x parts of the matrices (1x1)")
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    if o.context > POSITIONS:
        parser.error(f"--context: the models have {POSITIONS} positions")
    if o.mesh[1] > MODELS[o.model][1]:
        parser.error(f"--mesh: {o.model} has {MODELS[o.model][1]} heads")
    if o.chip == "all":
        if o.plot:
            parser.error("--plot is of one chip")
        left = [chip for chip in chips() if o.mesh != (1, 1) and not chips()[chip][1]]
        plans = [planned(argparse.Namespace(**{**vars(o), "chip": chip})) for chip in chips() if chip not in left]
        if o.json:
            print(json.dumps(plans))
        else:
            print_chips(plans)
            if left:
                print("\nNot shown, since their networks are not known: " + ", ".join(left))
        return
    hbm_bytes(o.chip)
    plan = planned(o)
    if o.plot:
        plan["by_batch"] = by_batch(o)
        pathlib.Path(o.plot).write_text(svg(plan))
    if o.json:
        print(json.dumps(plan))
    else:
        print_plan(plan)


if __name__ == "__main__":
    main()
