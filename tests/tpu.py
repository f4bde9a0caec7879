"""The TPU model by the public command: calculated answers, closed forms, both simulations, published figures."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from suite import PKC, check, finish

MATMUL, FLASH = "kernels/matmul.pk", "kernels/flash_attn.pk"
def run(*words, status=0):
    done = subprocess.run([PKC, "tpu", *words], capture_output=True, text=True)
    check(" ".join(words), done.returncode == status, f"status {done.returncode}: {done.stderr[:300]}")
    return done.stdout if status == 0 else done.stderr


def model(*words):
    return json.loads(run(*words, "--json"))


def near(value, wanted, relative):
    return abs(value - wanted) <= relative * abs(wanted)


def statics(**values):
    return [word for name, value in values.items() for word in ("-D", f"{name}={value}")]


def sizes(m, k, n):
    return [f"M={m}", f"K={k}", f"N={n}"]


# The lines of a table whose first word is `name`.
def row(text, name):
    return next(line for line in text.splitlines() if line.split()[:1] == [name])


def intensities():
    v5e = row(run("--chips"), "v5e").split()
    check("v5e from HBM", v5e[10] == "243", v5e)
    check("v5e from VMEM", v5e[11] == "11.1", v5e)
    m = model(MATMUL, *statics(T="bf16"), *sizes(4096, 4096, 4096))
    check("intensity of a product of 4096", round(m["dot_flops"] / m["once_bytes"]) == 1365, m["dot_flops"] / m["once_bytes"])
    sources = run("--sources")
    check("peak from geometry", "1.966e+14 FLOP/s, published 1.97e+14" in sources, "")
    check("a peak that geometry does not give", "published 9.2e+14" in sources, "")


# The first batch at which a product of int8 is bound by compute, each operand counted once.
def crossover(out, memory, first):
    def by_compute(batch):
        m = model(MATMUL, *statics(T="i8", O=out, BM=1024, BK=1024, BN=64), *sizes(16384, 4096, batch))
        bandwidth = m[memory]
        return m["useful_flops"] / m["peak"] >= m["once_bytes"] / bandwidth

    check(f"crossover of int8 to {out}, {memory}", by_compute(first) and not by_compute(first - 1), first)


def capacity():
    m = model(MATMUL, *sizes(512, 512, 512))
    check("VMEM of v5e", m["vmem"]["limit"] == 128 << 20, m["vmem"]["limit"])
    m = model("tests/cases/tpu/column.pk", "M=256")
    x = next(b for b in m["vmem"]["buffers"] if b["name"] == "x")
    check("a column in VMEM", x["padded"] == [256, 128] and x["bytes"] == 2 * 256 * 128 * 4, x)
    for chip, dtype, rows in (("v5e", "bf16", 8), ("7x", "bf16", 16), ("v5e", "i8", 32), ("v5e", "f32", 8)):
        m = model("tests/cases/tpu/column.pk", "M=1", *statics(T=dtype, BM=1), "--chip", chip)
        check(f"tile of {dtype} on {chip}", m["vmem"]["buffers"][0]["padded"] == [rows, 128], m["vmem"]["buffers"][0])
    text = run(MATMUL, *statics(BM=4096, BK=4096, BN=4096), *sizes(8192, 8192, 8192))
    check("what to shrink", "does not fit" in text and "half of it saves 67108864 bytes" in text, text)


# Values that are read again after a reduction lie in VMEM.
def values():
    large = [FLASH, "B=1", "H=1", "G=1", "N=16384", "S=16384", *statics(T="bf16", BQ=16384, BK=16384, D=256)]
    m = model(*large)
    check("scores in VMEM", 1 << 30 <= m["vmem"]["values"] < 1.1 * (1 << 30) and not m["vmem"]["fits"], m["vmem"]["values"])
    text = run(*large)
    check("which line holds them", f"line {m['vmem']['values_line']}: " in text and "The values of line" in text, text)
    check("a product holds none", model(MATMUL, *sizes(4096, 4096, 4096), *statics(T="bf16"))["vmem"]["values"] == 0, "")
    check("nor does what fits into registers", model("kernels/softmax.pk", "M=8", "N=128")["vmem"]["values"] == 0, "")
    found = [json.loads(line) for line in run(*large[:6], *statics(T="bf16", D=256), "--sweep", "BQ=512,16384", "BK=512,16384", "--json").splitlines()]
    check("a sweep refuses what does not fit", [c["fits"] for c in found][:1] == [True] and not found[-1]["fits"], found)
    text = run(MATMUL, *sizes(8192, 8192, 8192), *statics(T="bf16", BM=1024, BK=2048, BN=2048))
    check("more than the default", "a kernel gets by default: in Pallas it needs vmem_limit_bytes" in text, text)


# Cycles of one fold: on one MXU, however many there are; a further one waits for its weights or its rows.
def folds():
    for chip, cycles in (("v5e", 128), ("v6e", 256)):
        m = model(MATMUL, *statics(T="bf16", BM=128, BK=128, BN=128), *sizes(128, 256, 128), "--chip", chip)
        size, mxus = {"v5e": (128, 4), "v6e": (256, 2)}[chip]
        share = 128 * 128 * 128 / (cycles * mxus * size * size)
        check(f"the share of the array on {chip}", near(m["mxu_full"], share, 1e-9), m["mxu_full"])
    two = model(MATMUL, *statics(T="bf16", BM=128, BK=256, BN=128), *sizes(128, 256, 128))
    check("two folds on four MXUs use two", near(two["mxu_full"], 0.5, 1e-9), two["mxu_full"])


# Cycles of an MXU, a product alone: busy times full is the share of the peak.
def alone():
    for chip, clock, cases in (("v5e", 1.97e14 / (8 * 128 * 128), ((8, 128, 128, 128), (128, 256, 128, 128), (256, 256, 256, 256))),
                               ("v6e", 9.2e14 / (4 * 256 * 256), ((8, 128, 128, 256), (128, 256, 128, 256), (128, 512, 512, 384)))):
        for m, k, n, cycles in cases:
            r = model("tests/tpu/product.pk", *sizes(m, k, n), "--chip", chip)
            check(f"{m} {k} {n} on {chip}", near(r["mxu_busy"] * r["seconds"] * clock, cycles, 1e-6), r["mxu_busy"] * r["seconds"] * clock)
            check("busy and full are the share of the peak", near(r["mxu_busy"] * r["mxu_full"], r["mxu"], 1e-6), r)
    # A row of f32 enters an array in a cycle, one of bf16 in half a cycle: in the second of two folds, 128 rows and 256 of weights do, at
    # the same time if both have 16 bits.
    for a, b, second in (("bf16", "bf16", 128), ("f32", "bf16", 256), ("bf16", "f32", 320), ("f32", "f32", 384), ("f16", "bf16", 128)):
        r = model("tests/tpu/product.pk", *sizes(128, 512, 512), *statics(A=a, B=b), "--chip", "v6e")
        taken = r["mxu_busy"] * r["seconds"] * 9.2e14 / (4 * 256 * 256)
        check(f"{a} by {b} on v6e", near(taken, 256 + second, 1e-6), taken)


# A million steps whose blocks are data: user time of one process.
def many_steps():
    before = os.times().children_user
    text = run("tests/tpu/gather.pk", "S=1000000", "R=100000", "at=randint:0:99999:1")
    taken = os.times().children_user - before
    check("a million steps", taken < 1 and "1000000 steps" in text, f"{taken} s")
    check("other chips are left out", "Other chips: --chip CHIP" in text and "On each chip" not in text, text[-300:])


# A grid whose length is data stays on one core.
def megacore():
    m = model(MATMUL, *sizes(1024, 1024, 1024), "--chip", "v5p")
    check("two cores share a grid", m["cores"] == 2, m["cores"])
    m = model("tests/cases/tpu/dynamic.pk", "M=64", "count=const:4", "--chip", "v5p")
    check("but none whose length is data", m["cores"] == 1 and m["steps"] == 4 * 8, m)
    text = run("tests/tpu/gather.pk", "S=1000", "R=100000", "at=randint:0:99999:1", "--chip", "v5p")
    check("an idle core whose work is found", "a core is idle: `i` is not declared `parallel`" in text, text)


def hbm():
    text = run(MATMUL, *sizes(1 << 20, 1 << 20, 1 << 20), status=1)
    check("operands larger than the HBM", "its operands take 1.319e+13 bytes, and the HBM of v5e has 1.6e+10" in text, text)
    table = run(MATMUL, *sizes(32768, 32768, 32768)).split("On each chip")[1]
    check("which chips hold them", "larger than its HBM" in row(table, "v2") and "larger" not in row(table, "v5p"), table)
    check("which chips have the dtypes", "check --tpu" in row(run(MATMUL, *sizes(64, 64, 64), *statics(T="bf16")), "v3"), "")


def programs():
    path = ["tests/cases/programs/basic.pk", "-k", "straight"]
    text = run(*path, "M=100000", "N=100000", status=1)
    check("operands of a program larger than the HBM", "its operands take" in text and "the HBM of v5e has 1.6e+10" in text, text)
    table = run(*path, "M=20000", "N=60000").split("On each chip")[1]
    check("which chips hold them", "do not fit HBM" in row(table, "v2") and "do not" not in row(table, "v5p"), table)


DECODER = ["tests/cases/programs/transformer.pk", "T=64", "V=1000", "D=256", "P=128", "L=3", "F=1024", "token=randint:0:999:1"]
SPLIT = ["tests/cases/programs/decode.pk", "S=4096", "H=8", "D=128"]


def program_pictures(folder):
    trace, page, picture = (os.path.join(folder, name) for name in ("program.json", "program.html", "program.svg"))
    m = json.loads(run(*DECODER, "--json", "--trace", trace, "--html", page, "--svg", picture))
    events = [e for e in json.load(open(trace))["traceEvents"] if e["ph"] == "X"]
    calls = [e for e in events if e["cat"] == "call"]
    check("a call of the trace for each that is made", len(calls) == sum(c["times"] for c in m["calls"]) == 17, len(calls))
    check("one after the other", all(near(a["ts"] + a["dur"], b["ts"], 1e-6) for a, b in zip(calls, calls[1:])), "")
    check("to the end", near(calls[-1]["ts"] + calls[-1]["dur"], m["seconds"] * 1e6, 1e-6), "")
    check("the loop's variable is said", calls[2]["args"]["at"] == "l=0" and "at" not in calls[0]["args"], calls[:3])
    moved = sum(e["args"]["bytes"] for e in events if e["cat"] == "dma" and e["ts"] < calls[1]["ts"] - 1e-5)
    check("below a call is what it does", moved == m["calls"][0]["moved_bytes"], moved)
    check("the time is the sum of the calls", near(sum(c["times"] * c["seconds"] for c in m["calls"]), m["seconds"], 1e-9), "")
    text, svg = open(page).read(), open(picture).read()
    check("a section a call", text.count("<details id=") == text.count('href="#call-') == len(m["calls"]), "")
    check("drawings of a program", text.count("<svg") == text.count("</svg>") == 2 + 2 * len(m["calls"]), "")
    check("a point a call", svg.count("<circle") == len(m["calls"]), "")
    check("losses point at lines of their kernel", all(f'class="line" data-line="{n}"' in text for n in re.findall(r'<button data-line="(\d+)"', text)), "")


def program_tables():
    found = [json.loads(line) for line in run(*SPLIT, "--sweep", "BK=64:512", "--json").splitlines()]
    check("blocks of a program", [c["statics"]["BK"] for c in found] == ["512", "256", "128", "64"], found)
    check("as when modelled alone", found[1]["seconds"] == json.loads(run(*SPLIT, *statics(BK=256), "--json"))["seconds"], found)
    both = json.loads(run(*SPLIT, "--compare", "BK=256", "--json"))
    check("two settings of a program", both["b"]["seconds"] == found[1]["seconds"] and both["b"]["steps"] == 16 * 8 + 8, both)
    check("and the time in each kernel", near(both["a"]["in part"] + both["a"]["in combine"], both["a"]["seconds"], 1e-9), both)
    check("a program beside a kernel", "takes two kernels or two programs" in
          run("tests/cases/programs/basic.pk", "-k", "straight", "M=64", "N=128", "--compare", "tests/cases/programs/basic.pk:add", status=1), "")
    other = json.loads(run("kernels/softmax.pk", "M=64", "N=128", "--compare", "tests/cases/programs/basic.pk:add", "--json"))
    check("a kernel of another file", other["b"]["kernel"] == "add", other)


# What a call prefetches is read from the program's input.
def program_prefetch():
    path = ["kernels/attention/decode.pk", "-k", "decode_split", "B=4", "G=2", "S=4096"]
    part, m = (json.loads(run(*path[:2], name, *path[3:], "length=const:700", "--json")) for name in ("part", "decode_split"))
    check("a kernel with prefetched lengths, and the program that calls it", m["calls"][0]["seconds"] == part["seconds"], m)
    check("what must be given", "length must be given: `part` prefetches it" in run(*path, status=1), "")
    text = run("tests/cases/tpu/computed_index.pk", "-k", "chosen", "M=64", "N=256", status=1)
    check("what the program computes", "earlier calls compute `at` of `gather`: -k gather models the kernel alone" in text, text)
    m = json.loads(run("tests/cases/tpu/layers.pk", "-k", "layers", "M=64", "L=3", "count=iota", "--json"))
    check("each turn has its own", [c["steps"] for c in m["calls"]] == [8, 8 * (1 + 2 + 3), 8], m)


# The bottleneck is named, with a line, and its share is consistent.
def lines():
    for words, name in ((["kernels/train/adamw.pk", "M=4096", "N=4096", "--chip", "v6e"], "HBM moves 448 MiB, which binds"),
                        (["kernels/softmax.pk", "M=4096", "N=4096"], "512 grid steps cost 0.35 us each, which binds")):
        m = model(*words)
        binding = [loss["text"] for loss in m["losses"] if "which binds" in loss["text"]]
        check(f"what binds {m['kernel']} is named, and nothing else", len(binding) == 1 and name in binding[0] == m["losses"][0]["text"], m["losses"])
    for chip in ("v5e", "v6e", "7x"):
        words = [FLASH, "B=1", "H=8", "G=8", "N=4096", "S=4096", *statics(T="bf16", D=128, BQ=512, BK=1024, CAUSAL="true"), "--chip", chip]
        m, text = model(*words), run(*words)
        names = {"MXU": "mxu_s", "vector unit": "vector_s", "transcendental unit": "transcendental_s", "vector store": "store_s"}
        sums = {unit: sum(line[key] for line in m["lines"]) for unit, key in names.items()}
        check(f"the lines are the whole on {chip}", near(sums["MXU"], m["mxu_busy"] * m["seconds"], 1e-6), sums)
        check(f"what binds works longest on {chip}", m["bound"] not in sums or sums[m["bound"]] == max(sums.values()), sums)
        if m["bound"] in sums and m["bound"] != "MXU":
            check(f"a loss names its line on {chip}", any("which binds" in loss["text"] for loss in m["losses"]), m["losses"])
        check("useful and executed FLOP", "useful FLOP" in text and "executed FLOP" in text, text)


def ends_by_data():
    """A `while` that a condition on data leaves runs once, a `for` in it to its bound."""
    check("a loop that ends by data", model("tests/tpu/until.pk")["transcendentals"] == 16 * 8 * 128, "")
    text = "`if` depends on data: counted as if it did not hold, and a `while` that it ends ran once"
    check("its assumption", text in run("tests/tpu/until.pk"), "")


def padding():
    for k, n, share in ((128, 128, 1), (64, 128, 0.5), (128, 64, 0.5), (64, 64, 0.25)):
        m = model(MATMUL, *statics(T="bf16", BM=1024, BK=k, BN=n), *sizes(1024, k, n))
        check(f"array of {k} x {n}", near(m["mxu_full"], share, 1e-9), m["mxu_full"])


def streams():
    def of(kernel):
        return model("tests/tpu/unfused.pk", "-k", kernel, "M=1024", "N=1024")["streams"]

    check("streams unfused", of("sum") + of("product") + of("hyperbolic") == 8, "")
    check("streams fused", of("fused") == 4, "")


# Share of 197 TF that JAX's guide to Pallas matmuls measured on v5e; a caller's time holds the dispatch.
def published():
    for blocks, sizes_and_shares in (((128, 128, 128), ((1024, 3.7), (4096, 5.9), (8192, 6.1))),
                                     ((512, 1024, 1024), ((1024, 8.6), (4096, 78.5), (8192, 91.5)))):
        for n, measured in sizes_and_shares:
            bm, bk, bn = blocks
            m = model(MATMUL, *statics(T="bf16", BM=bm, BK=bk, BN=bn), *sizes(n, n, n))
            share = 100 * 2 * n**3 / 1.97e14 / m["seconds_with_dispatch"]
            check(f"{blocks} at {n}", abs(share - measured) <= 10, f"{share:.1f} %, measured {measured} %")
    order = [model(MATMUL, *statics(T="bf16", BM=b, BK=b, BN=b), *sizes(4096, 4096, 4096))["seconds"] for b in (128, 256, 512, 1024)]
    check("larger blocks are faster", order == sorted(order, reverse=True), order)
    m = model(MATMUL, *statics(T="bf16", BM=128, BK=128, BN=128), *sizes(8192, 8192, 8192))
    check("262,144 steps", m["steps"] == 262144 and near(m["seconds"], 91.8e-3, 0.1), m["seconds"])


def closed_forms():
    m, k, n, bm, bk, bn = 2048, 1024, 4096, 256, 128, 512
    r = model(MATMUL, *statics(BM=bm, BK=bk, BN=bn), *sizes(m, k, n))
    check("bytes of a blocked product", r["hbm_bytes"] == 4 * (m * k * n // bn + k * n * m // bm + m * n), r["hbm_bytes"])
    check("operations of a product", r["dot_flops"] == 2 * m * n * k, r["dot_flops"])
    r = model("kernels/add.pk", "M=4096", "N=4096")
    check("bytes of a sum", r["hbm_bytes"] == 3 * 4096 * 4096 * 4, r["hbm_bytes"])
    check("a sum is bound by HBM", r["bound"] == "HBM bandwidth" and r["hbm"] > 0.95, r["hbm"])
    narrow, wide = (model("kernels/add.pk", "M=4096", f"N={n}") for n in (64, 128))
    check("rows in HBM fill whole lanes", narrow["hbm_bytes"] == wide["hbm_bytes"] == 3 * 4096 * 128 * 4, narrow["hbm_bytes"])
    r = model("kernels/gelu.pk", "M=1024", "N=1024")
    check("one transcendental an element", r["transcendentals"] == 1024 * 1024, r["transcendentals"])
    causal = model(FLASH, "B=1", "H=1", "G=1", "N=1024", "S=1024", *statics(CAUSAL="true", BQ=128, BK=128))
    text = run(FLASH, "B=1", "H=1", "G=1", "N=1024", "S=1024", *statics(CAUSAL="true", BQ=128, BK=128))
    unread = {o["name"]: o["unread_bytes"] for o in causal["operands"]}
    check("but are fetched", unread == {"q": 0, "k": 28 * 128 * 128 * 4, "v": 28 * 128 * 128 * 4, "o": 0}, unread)
    check("which is said", "1.75 MiB of the 4 MiB of `k`, 1.75 MiB of the 4 MiB of `v`; a CPU does not read those" in text, text[-900:])
    # The blocks of a row of the grid skip different iterations, and equal iterations are counted.
    words = [FLASH, "B=1", "H=3", "G=1", "N=4096", "S=4096", *statics(T="bf16", CAUSAL="true")]
    both = [[o["unread_bytes"] for o in model(*words, *walk)["operands"]] for walk in ([], ["--walk-all"])]
    check("skipped blocks, counted and walked", both[0] == both[1] and both[0][1] > 0, both)
    check("blocks above the diagonal are not computed", causal["dot_flops"] == 36 * 4 * 128 * 128 * 64, causal["dot_flops"])


# The pipeline of a grid, and the same one written out inside a body as copies and semaphores, move the same.
def copies_by_hand():
    blocks = statics(BM=128, BN=128, BK=128)
    grid = model(MATMUL, *sizes(1000, 512, 2000), *blocks)
    inside = model("tests/cases/memory/pipeline.pk", *sizes(1000, 512, 2000), *blocks)
    moved = [[(o["bytes"], o["issued"]) for o in m["operands"]] for m in (grid, inside)]
    check("transfers of a pipeline inside a body", moved[0] == moved[1], moved)
    check("one grid step instead of many", inside["steps"] == 1 and inside["dot_flops"] == grid["dot_flops"], inside["dot_flops"])
    check("its iterations cost what grid steps do", near(inside["inner_overhead_s"], grid["step_overhead_s"], 0.1), inside["inner_overhead_s"])
    check("nothing is left out", not inside["not_modelled"], inside["not_modelled"])


# An iteration of each of the two costs as much as a grid step.
def nested_pipelines():
    m = model("tests/cases/memory/pipeline_nested.pk", "M=64", "N=800")
    check("steps of nested pipelines", near(m["inner_overhead_s"], (16 + 16 * 100) * 0.35e-6, 1e-9), m["inner_overhead_s"])


def bounds():
    for words in ([MATMUL, *sizes(1000, 777, 1234)], [FLASH, "B=1", "H=2", "G=1", "N=500", "S=700"], ["kernels/add.pk", "M=1", "N=1"],
                  ["kernels/softmax.pk", "M=0", "N=9"]):
        for chip in ("v2", "v3", "v4", "v5p", "v5e", "v6e", "7x"):
            m = model(*words, "--chip", chip)
            check(f"bounds of {words[0]} on {chip}", m["lower_s"] <= m["seconds"] * (1 + 1e-9) and m["seconds"] <= m["upper_s"], m["seconds"])


# Repeated steps are counted instead of simulated, with the same time to the picosecond.
def both_ways():
    cases = [
        [MATMUL, *statics(BM=64, BN=128, BK=32), *sizes(1000, 777, 1234)],
        [MATMUL, *statics(BM=8, BN=2, BK=4), *sizes(5000, 130, 3)],
        [FLASH, "B=2", "H=16", "G=4", "N=1000", "S=2000", *statics(BQ=64, BK=128)],
        [FLASH, "B=2", "H=16", "G=4", "N=1000", "S=1000", *statics(BQ=64, BK=128, CAUSAL="true")],
        ["tests/cases/tpu/reuse.pk", "M=30", "N=30", "K=30"],
        ["kernels/row_sum.pk", "M=9000", "N=9000"],
        ["tests/cases/memory/matmul_by_hand.pk", "M=1600", "N=24", "K=64"],
    ]
    for words in cases:
        for chip in ("v5e", "v4"):
            short, whole = model(*words, "--chip", chip), model(*words, "--chip", chip, "--walk-all")
            walked = short.pop("steps_walked"), whole.pop("steps_walked")
            check(f"both ways: {' '.join(words)} on {chip}", short == whole and walked[0] < walked[1], walked)
    m = model(MATMUL, *statics(T="bf16", BM=128, BK=128, BN=128), *sizes(131072, 131072, 131072), "--chip", "8t")
    check("a billion steps", m["steps"] == 1 << 30 and m["steps_walked"] < 100000, m["steps_walked"])


def mesh():
    def of(*words):
        return json.loads(run("--mesh", *words, "--json"))

    m = of("4x4", "send", "bytes=1.7e7", "from=0,0", "to=3,3")
    check("4x4 slice, corner to corner", m["hops"] == 6 and near(m["seconds"], 194.9e-6, 1e-3), m)
    m = of("16x16", "send", "bytes=0", "from=0,0", "to=15,15")
    check("a torus wraps around", m["hops"] == 2, m)
    m = of("4x4", "send", "bytes=0", "from=0,0", "to=3,3", "--chip", "v6e")
    check("v6e wraps from 16 on", m["hops"] == 6, m)
    m = of("4x4x4", "send", "bytes=0", "from=0,0,0", "to=3,3,3", "--chip", "v5p")
    check("a whole cube wraps", m["hops"] == 3, m)
    m = of("2x4x4", "send", "bytes=0", "from=0,0,0", "to=1,3,3", "--chip", "v5p")
    check("half a cube does not", m["hops"] == 7, m)
    v, link = 1e9, 9e10
    check("gather on a ring", near(of("16", "all-gather", f"bytes={v}")["seconds"], v * 15 / 16 / link, 1e-9), "")
    check("gather on a line", near(of("8", "all-gather", f"bytes={v}")["seconds"], v * 7 / 8 / (link / 2), 1e-9), "")
    check("gather on a torus", near(of("16x16", "all-gather", f"bytes={v}")["seconds"], v * 255 / 256 / (2 * link), 1e-9), "")
    check("small gathers are latency", near(of("16", "all-gather", "bytes=100")["seconds"], 8e-6, 1e-9), "")
    both = [of("16x16", c, f"bytes={v}")["seconds"] for c in ("reduce-scatter", "all-reduce")]
    check("all-reduce is twice reduce-scatter", near(both[1], 2 * both[0], 1e-9), both)
    check("all-to-all on a ring", near(of("16", "all-to-all", f"bytes={v}")["seconds"], v / 4 / link, 1e-9), "")
    check("all-to-all on odd axes", near(of("3", "all-to-all", "bytes=9e6")["seconds"], 44.444e-6, 1e-4)
          and near(of("5", "all-to-all", "bytes=2.5e7")["seconds"], 133.333e-6, 1e-4), "")
    check("along one axis of a torus", near(of("16x4", "all-gather", f"bytes={v}", "axes=0")["seconds"], v * 15 / 16 / link, 1e-9), "")
    check("which wraps by the slice's rule", near(of("4x4x4", "all-gather", f"bytes={v}", "axes=2", "--chip", "v5p")["seconds"], v * 3 / 4 / 1.8e11, 1e-9), "")
    run("--mesh", "4x4", "all-gather", "bytes=1", "axes=0,0", status=1)
    check("axes in any order", of("28x16x20", "all-gather", "bytes=1e9", "--chip", "v5p")["links"] == 6, "")
    plan = {line["parallel"]: line for line in map(json.loads, run("--mesh", "16", "matmul", "M=4096", "K=8192", "N=2189", "--json").splitlines())}
    pipeline = plan["pipeline"]
    check("a microbatch of a pipeline", near(pipeline["compute_s"], 11.7e-6, 0.01) and near(pipeline["communication_s"], 23.3e-6, 0.01)
          and pipeline["bound"] == "communication", pipeline)
    check("overlap hides the shorter", all(max(p["compute_s"], p["communication_s"]) <= p["overlapped_s"] <= p["compute_s"] + p["communication_s"]
          for p in plan.values()), plan)
    check("a pod has an end", "a pod of v5e has 16" in run("--mesh", "32x32", "all-gather", "bytes=1", status=1), "")
    check("v5e has two axes", "2 axes" in run("--mesh", "2x2x2", "all-gather", "bytes=1", status=1), "")
    # Tensor parallel is bound by compute while N > chips * peak / (bandwidth of the axes), as the two times are equal there.
    lines = run("--mesh", "16", "matmul", "M=8192", "K=8192", "N=65536").splitlines()
    check("tensor parallel at 2.3e3 * 16", "compute" in row("\n".join(lines), "tensor"), lines)
    lines = run("--mesh", "16", "matmul", "M=8192", "K=8192", "N=16384").splitlines()
    check("tensor parallel below", "communication" in row("\n".join(lines), "tensor"), lines)


def sweep():
    words = [MATMUL, *statics(T="bf16"), *sizes(4096, 4096, 4096), "--sweep", "BM=128:1024", "BN=128,512", "BK=1024"]
    found = [json.loads(line) for line in run(*words, "--json").splitlines()]
    check("eight combinations", len(found) == 8, len(found))
    times = [c["seconds"] for c in found]
    check("ranked by time", times == sorted(times), times)
    best = found[0]["statics"]
    check("the best as when modelled alone", times[0] == model(MATMUL, *statics(T="bf16", **best), *sizes(4096, 4096, 4096))["seconds"], best)
    check("what does not fit comes last", not [json.loads(line) for line in run(MATMUL, *sizes(8192, 8192, 8192), "--sweep",
          "BM=256,8192", "BN=8192", "BK=256,8192", "--json").splitlines()][-1]["fits"], "")
    found = [json.loads(line) for line in run(MATMUL, *sizes(512, 512, 512), "--sweep", "BN=64,128", "BM=64,256", "--json").splitlines()]
    check("what check --tpu refuses comes last", [c["refused"] for c in found] == [c["statics"]["BN"] == "64" for c in found] and not
          found[0]["refused"] and found[-1]["refused"], found)
    text = run(MATMUL, *sizes(512, 512, 512), "--sweep", "BN=64,128", "BM=64")
    check("and is marked", text.count("(refused: check --tpu)") == 1, text)
    run(MATMUL, *sizes(1, 1, 1), "--sweep", "BM=4:2", status=1)
    check("a static that does not exist", "-D NONE: the kernel `matmul` has no static of that name" in run(MATMUL, *sizes(1, 1, 1), "--sweep",
          "NONE=1:2", status=1), "")


def chips():
    for name, chip in (("V5LitePod", "v5e"), ("trillium", "v6e"), ("Ironwood", "7x"), ("V4I", "v4i"), ("8t", "8t")):
        check(f"chip {name}", model(MATMUL, *sizes(64, 64, 64), "--chip", name)["chip"] == chip, "")
    m = [model("tests/tpu/int4.pk", "M=1024", *statics(T=t)) for t in ("i8", "i4")]
    check("products of 4 bits have a peak of their own", near(m[1]["peak"], 2 * m[0]["peak"], 1e-9), m[1]["peak"])


def comparisons():
    words = [MATMUL, *sizes(4096, 4096, 4096), *statics(T="bf16", BM=128, BK=128, BN=128)]
    small, large = model(*words), model(*words[:4], *statics(T="bf16", BM=512, BK=1024, BN=1024))
    both = json.loads(run(*words, "--compare", "BM=512,BK=1024,BN=1024", "--json"))
    check("two settings", (both["a"]["seconds"], both["b"]["seconds"]) == (small["seconds"], large["seconds"]), both)
    text = run(*words, "--compare", "BM=512,BK=1024,BN=1024")
    check("only what changed", row(text, "steps").split()[1:3] == ["32768", "128"] and "cores" not in text, text)
    check("another chip", json.loads(run(*words, "--compare", "chip=v6e", "--json"))["b"]["chip"] == "v6e", "")
    check("another size", json.loads(run(*words, "--compare", "M=8192", "--json"))["b"]["steps"] == 65536, "")
    both = json.loads(run("kernels/softmax.pk", "M=1024", "N=1024", "--compare", "kernels/rmsnorm.pk", "--json"))
    check("two kernels", [both[s]["kernel"] for s in "ab"] == ["softmax", "rmsnorm"], both)
    run(*words, "--compare", "BM", status=1)
    run(*words, "--compare", "NONE=1", status=1)


def errors():
    m = model(MATMUL, *sizes(4096, 4096, 4096), *statics(T="bf16", BM=512, BK=1024, BN=1024))
    check("an error bar", m["error_low_s"] < m["seconds"] < m["error_high_s"], m["error_low_s"])
    check("and where it is from", "times the model in 9 of 10 of" in run(MATMUL, *sizes(4096, 4096, 4096), *statics(T="bf16", BM=512, BK=1024, BN=1024)), "")
    check("listed with the sources", "errors, by what binds" in run("--sources"), "")


def chip_files():
    with tempfile.NamedTemporaryFile("w", suffix=".chip") as f:
        f.write("# a chip of one's own\nname mine\nlike v5e\nhbm_bandwidth 1.62e12\n")
        f.flush()
        mine, v5e = (model("kernels/add.pk", "M=4096", "N=4096", *w) for w in (["--chip-file", f.name], []))
        check("a chip of a file", mine["chip"] == "mine" and near(mine["seconds"], v5e["seconds"] / 2, 0.05), mine["seconds"])
        f.write("clock none\n")
        f.flush()
        check("a chip file's mistake", "line 5: clock requires a number" in run("--chips", "--chip-file", f.name, status=1), "")


def traces(folder):
    path = os.path.join(folder, "tpu.json")
    m = model(MATMUL, *statics(T="bf16", BM=128, BK=128, BN=128), *sizes(512, 512, 512), "--walk-all", "--trace", path)
    events = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
    moved = sum(e["args"]["bytes"] for e in events if e["cat"] == "dma")
    check("the trace moves what was counted", moved == m["hbm_bytes"], moved)
    check("the trace computes what was counted", sum(e["args"]["flops"] for e in events if e["cat"] == "mxu") == m["dot_flops"], "")
    end = max(e["ts"] + e["dur"] for e in events)
    check("the trace ends before the run does", end * 1e-6 <= m["seconds"] * (1 + 1e-9), end)
    path = os.path.join(folder, "cpu.json")
    done = subprocess.run([PKC, "run", MATMUL, *sizes(300, 300, 300), "--dma=literal", "--counters", "--trace", path], capture_output=True, text=True)
    events = json.load(open(path))["traceEvents"] if done.returncode == 0 else []
    counted = done.stdout
    check("the CPU's trace", done.returncode == 0 and {"cell", "dma"} <= {e.get("cat") for e in events}, done.stderr[:200])
    words = [FLASH, "B=1", "H=1", "G=1", "N=300", "S=300", "--target", "generic", "--trace", path]
    subprocess.run([PKC, "run", *words], capture_output=True, check=True)
    packs = [e for e in json.load(open(path))["traceEvents"] if e.get("cat") == "dma" and ": pack " in e["name"]]
    check("packs in the CPU's trace", {"k", "v"} <= {e["name"].split(":")[0] for e in packs} and all(e["args"]["bytes"] > 0 for e in packs), packs[:2])
    check("counters are shown, or why not", "instructions" in counted or "no counters" in counted, counted)


# One self-contained page, opened in a browser where there is one.
def page(folder):
    path = os.path.join(folder, "page.html")
    run(FLASH, "B=1", "H=2", "G=2", "N=512", "S=512", "--html", path, "--svg", os.path.join(folder, "roofline.svg"))
    text = open(path).read()
    check("three drawings", text.count("<svg") == 3 and text.count("</svg>") == 3, "")
    check("nothing is loaded from elsewhere", not re.search(r"(src|href)=|url\(|@import", text), "")
    browser = next((b for b in ("chromium-headless-shell", "chromium", "chromium-browser") if shutil.which(b)), None)
    if not browser:
        print("SKIPPED tpu, its page in a browser: no chromium here (apt-get install chromium-headless-shell)")
        return
    dom = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "file://" + path], capture_output=True, text=True,
                         timeout=120).stdout
    shots = [os.path.join(folder, f"{width}.png") for width in (1200, 600)]
    for shot in shots:
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={os.path.basename(shot)[:-4]},2400",
                        f"--screenshot={shot}", "file://" + path], capture_output=True, timeout=120)
    check("pictures of it, wide and narrow", all(os.path.getsize(shot) > 50000 for shot in shots if os.path.exists(shot)) and len(shots) == 2, shots)
    check("losses point at lines of the source", all(f'class="line" data-line="{n}"' in text for n in re.findall(r'<button data-line="(\d+)"', text)), "")
    check("a browser reads the page", dom.count("<svg") == 3 and "On each chip" in dom and "parsererror" not in dom, dom[:200])


LONG_NAMES = """kernel long_names(an_input_with_a_name_that_is_longer_than_the_columns_of_numbers: f32[M, N]) -> (the_output_of_the_kernel: f32[M, N]) {
  grid (i in cdiv(M, 7) parallel);
  block an_input_with_a_name_that_is_longer_than_the_columns_of_numbers, the_output_of_the_kernel: [7, N] at (i, 0);
  scratch a_buffer_with_a_long_name: vmem bf16[2, 16, 16, 1024];
  a_buffer_with_a_long_name[...] = 0;
  the_output_of_the_kernel[...] = an_input_with_a_name_that_is_longer_than_the_columns_of_numbers[...];
}
"""


def report_text():
    """Columns under their heads, no rooflines without FLOP, refusals of `check --tpu`, and cores that wait for links."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "k.pk")
        with open(path, "w", encoding="utf-8") as file:
            file.write(LONG_NAMES)
        text = run(path, "M=64", "N=200")
    lines = text.splitlines()
    for head, last in (("HBM", "moved"), ("VMEM", "bytes")):
        first = next(i for i, line in enumerate(lines) if line.split()[:1] == [head])
        column = lines[first].index(last) + len(last)
        rows = lines[first + 1:first + 4]
        check(f"the numbers of {head} end under `{last}`", all(r[column - 1].isdigit() and r[column] == " " for r in rows), rows)
    check("no rooflines without FLOP", "Rooflines" not in text and "Rooflines" in run("kernels/softmax.pk", "M=64", "N=200"), text)
    check("what a chip refuses is said", "1 problem would keep it from running: `pkc check --tpu v5e`" in text, text)
    check("what it takes is not", "refused" not in run("kernels/softmax.pk", "M=64", "N=256"), "")
    linked = run("kernels/collectives/all_reduce.pk", "--mesh", "8", "N=4096", "M=1024", "--chip", "v5p", "--json")
    check("no core is idle that waits for links", "ICI bandwidth" in linked and "a core is idle" not in linked, linked)
    alone = run(MATMUL, *sizes(64, 4096, 64), *statics(BM=64, BK=64, BN=64), "--chip", "v5p", "--json")
    check("a core without cells is idle", "a core is idle" in alone, alone)


def mistakes():
    check("too much to walk", "it has 16777216 steps, and --walk-all simulates at most 4000000" in run(MATMUL, *sizes(32768, 32768, 32768),
          *statics(T="bf16", BM=128, BK=128, BN=128), "--walk-all", status=1), "")
    check("unknown chip", "did you mean v5" in run(MATMUL, *sizes(1, 1, 1), "--chip", "v5f", status=1), "")
    check("sizes are missing", "sizes that must be given" in run(MATMUL, "M=1", status=1), "")
    run(status=2)


for test in (intensities, capacity, values, folds, alone, many_steps, megacore, hbm, programs, program_tables, program_prefetch, lines, ends_by_data, padding, streams, published, closed_forms, copies_by_hand, nested_pipelines, bounds, both_ways, mesh, sweep, chips, comparisons, errors, chip_files, report_text, mistakes):
    test()
with tempfile.TemporaryDirectory() as temporary:
    traces(temporary)
    page(temporary)
    program_pictures(temporary)
crossover("i8", "hbm_bandwidth", 263)
crossover("bf16", "hbm_bandwidth", 281)
crossover("i8", "vmem_bandwidth", 12)
sys.exit(finish())
