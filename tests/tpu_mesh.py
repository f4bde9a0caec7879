#!/usr/bin/env python3
"""Kernels for many devices on a modelled slice: collectives against closed forms, routes and waits of messages, overlap, slices, deadlocks, every
form of the report.

usage: tpu_mesh.py; prints "N passed, N failed".
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

from suite import PKC, ROOT, check, finish

COLLECTIVES = os.path.join(ROOT, "kernels", "collectives")
HOP, LINK = 1e-6, {"v5e": 4.5e10, "v5p": 9e10, "v6e": 9e10}


def kernel(name):
    return os.path.join(COLLECTIVES, name + ".pk")


def run(path, *words, status=0):
    done = subprocess.run([PKC, "tpu", path, *words], capture_output=True, text=True, timeout=120)
    check(f"status of {os.path.basename(path)} {' '.join(words)}", done.returncode == status, f"{done.returncode} {done.stderr}")
    return done.stderr if status else done.stdout


def model(path, *words):
    text = run(path if path.endswith(".pk") else kernel(path), *words, "--json")
    return json.loads(text) if text else {"seconds": 0, "mesh": {"wait_s": 0, "links": [], "busiest_link_s": 0}}


def near(what, got, expected, part=0.01):
    check(what, abs(got - expected) <= part * abs(expected), f"{got:.6g} is not {expected:.6g}")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def ring_file(folder):
    """Chips like a v5e whose axes wrap around from three chips on."""
    return write(folder, "rings.txt", "name rings\nlike v5e\nwrap 3\npod_x 64\npod_y 64\n")


# ---- closed forms for transfers bound by bandwidth: waits for other devices against bytes divided by links

def closed_forms(folder):
    rings = ["--chip-file", ring_file(folder)]
    for n in (3, 4, 7, 16):
        whole = 2**20 * n * 4 * 16
        each = whole / n / LINK["v5e"]
        got = model("all_gather", f"M={2**20 * n}", "N=16", "--mesh", str(n), *rings)
        near(f"all-gather around a ring of {n}", got["mesh"]["wait_s"], (n - 1) * each)
        near(f"its latency on {n}", got["mesh"]["wait_s"] - (n - 1) * each, (n - 1) * HOP + n // 2 * HOP)
        both = model("all_gather_both", f"M={2**20 * n}", "H=8", "--mesh", str(n), *rings)
        near(f"both ways around a ring of {n}", both["mesh"]["wait_s"], (n - 1) * each / 2)
        rows = 2**14 * n
        all_reduce = model("all_reduce", f"M={rows}", "N=256", "--mesh", str(n), *rings)
        near(f"all-reduce around a ring of {n}", all_reduce["mesh"]["wait_s"], 2 * (n - 1) * 2**24 / LINK["v5e"])
        scatter = model("reduce_scatter", f"M={rows}", "N=256", "--mesh", str(n), *rings)
        near(f"reduce-scatter around a ring of {n}", scatter["mesh"]["wait_s"], (n - 1) * 2**24 / LINK["v5e"])


def exchange(n, wraps):
    """All-to-all: the blocks on the busiest link of n chips; each chip sends one block to each other chip."""
    if wraps:
        return n * n / 8 if n % 2 == 0 else (n * n - 1) / 8
    return (n // 2) * (n - n // 2)


def exchanges(folder):
    rings = ["--chip-file", ring_file(folder)]
    for n in (3, 4, 5, 6, 7, 8, 9, 16):
        for wraps in (True, False) if n <= 15 else (True,):
            block = 2**22
            got = model("all_to_all", f"M={2**10 * n}", f"N={2**10 * n}", "--mesh", str(n), *(rings if wraps else ()))
            blocks = exchange(n, wraps)
            near(f"all-to-all on {n}, wrapping {wraps}: its busiest link", got["mesh"]["busiest_link_s"], blocks * block / LINK["v5e"])
            rest = 2 * n * HOP + 2 * block / 8.1e11  # latency, and the block that is not sent
            check(f"all-to-all on {n}, wrapping {wraps}: nothing but the busiest link, latency and the own block",
                  0 < got["seconds"] - blocks * block / LINK["v5e"] < 0.002 * got["seconds"] + rest, got["seconds"])
    flat = model("all_to_all", "M=65536", "N=8192", "--mesh", "8x8", *rings)
    # each row of 8 chips sends an eighth of the array: n n / 8 blocks of a row's
    near("all-to-all on a torus of 8 by 8: its busiest link", flat["mesh"]["busiest_link_s"], 8 * 65536 * 8192 * 4 / 64**2 * 8 / LINK["v5e"])


def closed_calculator():
    """The two simulations of --mesh agree."""
    text = subprocess.run([PKC, "tpu", "--mesh", "16", "all-to-all", f"bytes={2**30}", "--json"], capture_output=True, text=True).stdout
    near("all-to-all as the closed form has it", model("all_to_all", "M=16384", "N=16384", "--mesh", "16")["mesh"]["busiest_link_s"],
         json.loads(text)["transfer_s"])


# ---- routes and queues

def ways():
    part = 2**26 / 16 / LINK["v5e"]
    for shift, hops in ((1, 1), (3, 3), (-1, 1), (13, 3), (15, 1)):
        got = model("permute", "M=1048576", "N=16", "-D", f"S={shift}", "--mesh", "16")
        near(f"a shift by {shift}: each link has {hops} messages", got["mesh"]["busiest_link_s"], hops * part)
        # all hops but one overlap with the wait for other messages
        near(f"a shift by {shift} waits for {hops} messages", got["mesh"]["wait_s"] - 8 * HOP, hops * part + HOP, 1e-6)
        check(f"a shift by {shift} takes the shorter way", got["mesh"]["most_hops"] == hops and
              all(link["link"].endswith("+x" if shift in (1, 3) else "-x") for link in got["mesh"]["links"]), got["mesh"]["links"])
    half = model("permute", "M=1048576", "N=16", "-D", "S=8", "--mesh", "16")
    near("half way around: half of each message in either direction", half["mesh"]["busiest_link_s"], 4 * part)
    check("all links are used", half["mesh"]["links_used"] == 32, half["mesh"]["links_used"])
    line = model("permute", "M=524288", "N=16", "-D", "S=1", "--mesh", "8")
    near("a line: the last one's message goes all the way back, beside the others", line["mesh"]["wait_s"] - 7 * HOP, part + 7 * HOP, 1e-3)
    check("rings lie on neighbours", all(model("permute", f"M={n}", "N=1", "--mesh", shape, "--chip", chip)["mesh"]["most_hops"] == 1
          for n, shape, chip in ((16, "4x4", "v5e"), (24, "3x8", "v5e"), (24, "8x3", "v5e"), (64, "4x4x4", "v5p"), (256, "16x16", "v5e"))), "")


TWO_AXES = """kernel shift(x: f32[M, N] shard ((a, b), _)) -> (o: f32[M, N] shard ((a, b), _)) {
  static A = 4, B = 4;
  mesh (a: A, b: B);
  block x, o: any;
  scratch sent, arrived: sem dma;
  barrier();
  let move = remote_copy(x[...] -> o[...], send = sent, recv = arrived, device = (a = (device(a) + 1) % A, b = (device(b) + 1) % B));
  move.start();
  move.wait();
}
reference shift { o = x; }
"""


def dimension_order(folder):
    path = write(folder, "shift.pk", TWO_AXES)
    got = model(path, "M=256", "N=1", "--mesh", "16x16")
    check("x first, then y: one link of each", got["mesh"]["most_hops"] == 2 and got["mesh"]["links_used"] == 512, got["mesh"])
    check("both axes go up", {link["link"][-2:] for link in got["mesh"]["links"]} == {"+x", "+y"}, "")
    small = model(path, "M=16", "N=1", "--mesh", "4x4")
    check("without wraps the last ones go back along the row", small["mesh"]["most_hops"] == 6, small["mesh"]["most_hops"])


def over():
    words = ["M=1048576", "N=16"]
    ring, of_torus, line = (model("all_gather", *words, *where) for where in (["--mesh", "16"], ["--mesh", "16x16", "--over", "y"],
                                                                             ["--mesh", "16x8", "--over", "x"]))
    check("an axis of a torus is a ring", ring["seconds"] == of_torus["seconds"] == line["seconds"], [m["seconds"] for m in (ring, of_torus, line)])
    cube = [model("all_gather", *words, "--chip", "v5p", "--mesh", "4x4x4", "--over", part)["mesh"] for part in ("x", "x,z", "z,y")]
    check("axes of whole cubes wrap", [m["wraps"] for m in cube] == [[True], [True, True], [True, True]], cube)
    check("how many devices", [m["devices"] for m in cube] == [4, 16, 16], cube)
    flat = model("all_gather", *words, "--chip", "v5p", "--mesh", "4x4x2", "--over", "x")["mesh"]
    check("others do not", flat["wraps"] == [False], flat)
    check("so does the report say", "16 (wraps) along y of 8x16" in run(kernel("all_gather"), *words, "--mesh", "8x16", "--over", "y"), "")
    text = subprocess.run([PKC, "tpu", "--mesh", "8x16", "all-gather", "bytes=1e9", "--over", "y", "--json"], capture_output=True, text=True).stdout
    near("collectives over one axis", json.loads(text)["seconds"], 1e9 * 15 / 16 / 2 / LINK["v5e"])


def slices():
    """A ring over two slices of 8: the part between the slices is the bottleneck."""
    got = model("all_gather", "M=1048576", "N=16", "--mesh", "8", "--slices", "2")
    part = 2**26 / 16 / 3.125e9
    near("every step waits for the data-centre network", got["mesh"]["wait_s"], 15 * part)
    check("four of its ends are used", sum("DCN" in link["link"] for link in got["mesh"]["links"]) == 4, got["mesh"]["links"])
    check("it binds", got["bound"] == "DCN bandwidth", got["bound"])
    torus = model("all_gather_torus", "M=262144", "N=16", "--mesh", "8", "--slices", "2")
    check("the first axis of a mesh is the slices", torus["mesh"]["devices"] == 16, torus["mesh"])


# ---- work within a device

def overlap():
    words = ["M=8192", "K=1024", "N=32768", "--mesh", "4x4"]
    together, apart = model("gather_matmul", *words), model(os.path.join(ROOT, "tests", "tpu", "gather_then_matmul.pk"), *words)
    moved = 15 * (8192 * 1024 * 4 / 16 / LINK["v5e"] + HOP)
    check("the product hides the messages", together["mesh"]["wait_s"] < 0.02 * together["compute_s"], together["mesh"])
    near("compute, then communicate", apart["mesh"]["wait_s"], moved)
    near("the sum of its parts", apart["seconds"], sum(apart[key] for key in (
        "compute_s", "step_overhead_s", "inner_overhead_s", "wait_s", "prologue_s", "epilogue_s")), 1e-9)
    near("what overlap saves", apart["seconds"] - together["seconds"], moved, 0.02)
    slow = model("gather_matmul", "M=8192", "K=1024", "N=2048", "--mesh", "4x4")
    check("where messages take longer, they bind", slow["bound"] == "ICI bandwidth" and slow["seconds"] > 15 * 2**21 / LINK["v5e"], slow["bound"])
    none = model("all_gather", "M=0", "N=3")
    check("an empty array", none["mesh"]["copied_bytes"] == 0 and none["mesh"]["links_used"] == 0, none["mesh"])
    one = model("gather_matmul", "M=512", "K=1024", "N=2048", "-D", "D=1")
    check("one device waits for no other", one["mesh"]["copies"] == 0 and one["mesh"]["wait_s"] == 0, one["mesh"])


def many():
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    got = model("all_to_all", "M=16384", "N=16384", "--mesh", "16x16")
    taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    check("256 devices take seconds", taken < 4, taken)
    check("all of them talk", got["mesh"]["copies"] == got["mesh"]["signals"] == 256 * 255, got["mesh"]["copies"])
    words = ["M=256", "N=512", "--mesh", "4x4", "--json"]
    check("a run is always the same", run(kernel("all_to_all"), *words) == run(kernel("all_to_all"), *words), "")
    for name in sorted(os.listdir(COLLECTIVES)):
        sizes = re.search(r"// test: (.*)", open(os.path.join(COLLECTIVES, name), encoding="utf-8").read())
        if name.endswith(".pk") and sizes:
            check(f"{name} is modelled", model(os.path.join(COLLECTIVES, name), *sizes[1].split())["seconds"] > 0, "")


ONE_CHIP = """kernel one(x: f32[M, 512], w: f32[512, 256]) -> (o: f32[M, 256]) {
  static BM = 64;%s
  grid (i in cdiv(M, BM));
  block x: [BM, 512] at (i, 0);
  block w: [512, 256] at (0, 0);
  block o: [BM, 256] at (i, 0);
  scratch ready: sem regular;
  %s
  o[...] = dot(x[...], w[...]);
}
reference one { o = dot(x, w); }
"""


def one_chip(folder):
    """A device that talks to itself costs what a chip without a mesh does, to the picosecond: two simulations, one model."""
    alone = model(write(folder, "alone.pk", ONE_CHIP % ("", "")), "M=4096")
    meshed = model(write(folder, "meshed.pk", ONE_CHIP % ("\n  mesh (d: 1);", "signal(ready); wait(ready);")), "M=4096")
    for key in ("seconds", "compute_s", "wait_s", "prologue_s", "epilogue_s", "step_overhead_s", "hbm_bytes"):
        check(f"one device and one chip: {key}", alone[key] == meshed[key], (alone[key], meshed[key]))


def programs(folder):
    path = os.path.join(ROOT, "tests", "cases", "mesh", "programs.pk")
    words = ["-k", "two_layers", "M=1024", "E=1024", "F=1024"]
    got = json.loads(run(path, *words, "--mesh", "8", "--json"))
    calls = {call["kernel"]: call for call in got["calls"]}
    check("calls of kernels on a mesh, and of one without", set(calls) == {"gather_product", "relu", "product_scatter"}, calls)
    near("their times follow each other", got["seconds"], sum(call["seconds"] for call in calls.values()), 1e-9)
    near("a call costs what its kernel does", calls["gather_product"]["seconds"],
         model(path, "-k", "gather_product", "M=1024", "K=1024", "N=1024", "--mesh", "8")["seconds"], 1e-9)
    trace = os.path.join(folder, "program.json")
    check("chips", "  v5p " in run(path, *words, "--mesh", "4", "--trace", trace), "")
    events = json.load(open(trace, encoding="utf-8"))["traceEvents"]
    check("its trace has links and calls", {"link", "call"} <= {e.get("cat") for e in events}, "")
    both = run(path, *words, "--mesh", "4", "--compare", "mesh=8")
    check("two slices for a program", "in gather_product" in both, both)


# ---- forms

def forms(folder):
    trace, page = os.path.join(folder, "t.json"), os.path.join(folder, "p.html")
    words = ["M=4096", "K=256", "N=4096", "--mesh", "2x2"]
    text = run(kernel("gather_matmul"), *words, "--trace", trace, "--html", page)
    for line in ("slice        2x2: links of 4.5e+10 B/s", "devices      4; ", "messages     12 copies of ", "links        busiest "):
        check(f"the report says {line}", line in text, text[:600])
    check("chips with such a network", re.search(r"\n  v5p ", text) and not re.search(r"\n  8i ", text), text[-900:])
    events = json.load(open(trace, encoding="utf-8"))["traceEvents"]
    links = [e for e in events if e.get("cat") == "link"]
    check("the trace has links", len(links) == 12 and all(e["args"]["bytes"] == 2**20 for e in links), links[:2])
    names = {e["args"]["name"] for e in events if e["ph"] == "M"}
    check("rows of links and of devices", {"links", "(0, 0) +y", "waits for devices", "MXU"} <= names, names)
    check("what waits", any(e.get("cat") == "wait" for e in events), "")
    by_link = {}
    for e in sorted(links, key=lambda e: e["ts"]):
        check("a link carries one message at a time", e["ts"] >= by_link.get(e["tid"], 0) - 1e-6, e)
        by_link[e["tid"]] = e["ts"] + e["dur"]
    html = open(page, encoding="utf-8").read()
    check("the page has a table of all links", html.count("<tr><td></td><td>(") == 4 and "<td>3145728</td>" in html, "")
    check("the page shows links", "(0, 1) +x" in html and " to (" in html and "waits" in html, "")
    both = run(kernel("all_gather"), "M=65536", "N=64", "--mesh", "4x4", "--compare", "mesh=16")
    check("two slices beside each other", "waits for devices" in both and "time" in both, both)
    chips = json.loads(run(kernel("all_gather"), "M=65536", "N=64", "--mesh", "4x4", "--compare", "chip=v6e", "--json"))
    check("two chips", chips["a"]["seconds"] > 1.85 * chips["b"]["seconds"], chips)
    ranked = [json.loads(line) for line in run(kernel("permute"), "M=4096", "N=16", "--mesh", "16", "--sweep", "S=1,4,15", "--json").splitlines()]
    check("a sweep of how far", [r["statics"]["S"] for r in ranked][2] == "4" and ranked[0]["seconds"] < ranked[2]["seconds"], ranked)


# ---- mistakes and deadlocks

DEADLOCK = """kernel stuck(x: f32[8, 128] shard (d, _)) -> (o: f32[8, 128] shard (d, _)) {
  static D = 4;
  mesh (d: D);
  scratch ready: sem regular;
  %s
  o[...] = x[...];
}
reference stuck { o = x; }
"""


def kernels_of(name):
    """Kernels of tests/cases/mesh with the arguments of their first test."""
    path = os.path.join(ROOT, "tests", "cases", "mesh", name)
    with open(path, encoding="utf-8") as file:
        found = re.findall(r"^// (?:test|refused): -k (\w+) ?([^->\n]*)", file.read(), re.M)
    return [(path, kernel_name, words.split()) for kernel_name, words in dict(reversed(found)).items()]


def right_ones():
    """A kernel in which `pkc check` finds nothing ends in the model too."""
    for path, name, words in kernels_of("right.pk"):
        check(f"{name} ends", model(path, "-k", name, *words)["seconds"] > 0, "")
    waits = os.path.join(ROOT, "tests", "cases", "mesh", "semaphores.pk")
    for name in ("all_wait", "waits_for_two", "one_is_gone"):
        check(f"{name} waits for ever", "no device can go on" in run(waits, "-k", name, "M=16", status=1), "")


def deadlocks(folder):
    def stuck(body):
        return run(write(folder, "stuck.pk", DEADLOCK % body), status=1)
    text = stuck("when device(d) == 2 { wait(ready); }")
    check("no device gives it", "device (d = 2) waits in line 5 for `ready`, which has 0 of 1; no device gives it more" in text, text)
    text = stuck("wait(ready);\n  signal(ready, device = (d = (device(d) + 1) % D));")
    check("a circle", "no device can go on, and 4 of 4 wait: device (d = 0) waits in line 5" in text and "device (d = 3) gives it more in line 6" in text, text)
    text = stuck("when device(d) < 2 { wait(ready); signal(ready, device = (d = 1 - device(d))); }")
    check("a circle closes", "which closes the cycle" in text, text)
    text = stuck("when device(d) == 0 { wait(ready, 2); }\n  when device(d) == 1 { signal(ready, device = (d = 0)); }")
    check("the first of two signals ends no wait", "`ready`, which has 1 of 2" in text, text)
    text = stuck("scratch many: sem regular[3];\n  when device(d) == 0 { wait(many[1]); }\n  when device(d) == 1 { signal(many[2], device = (d = 0)); }")
    check("another element ends no wait", "`many` number 1, which has 0 of 1" in text, text)
    text = stuck("when device(d) > 0 { barrier(); }")
    check("a barrier without one", "for the barrier, which has 3 of 4; no device gives it more" in text, text)


def mistakes():
    gather = kernel("all_gather")
    for words, said in ((["M=9", "N=1", "--mesh", "4x4"], "divide"),
                        (["M=32", "N=1", "--mesh", "32"], "a pod of v5e has 16"),
                        (["M=8", "N=1", "--mesh", "2x2x2"], "2 axes"),
                        (["M=8", "N=1", "--mesh", "4", "--chip", "8i"], "the network of 8i is not known"),
                        (["M=8", "N=1", "--mesh", "2000000000"], "from 1 to 1024 devices, not 2000000000"),
                        (["M=8", "N=1", "--over", "x"], "require --mesh"),
                        (["M=64", "N=1", "--mesh", "4x4", "-D", "D=8"], "the mesh is 16, not of D = 8"),
                        (["M=8", "N=1", "--mesh", "4x4", "--over", "x,x"], "different axes"),
                        (["M=8", "N=1", "--mesh", "4x4", "--over", "z"], "different axes")):
        text = run(gather, *words, status=1)
        check(f"{' '.join(words)}: {said}", said in text and text.count("error:") == 1, text)
    for mesh in ("x", "0", "-3", "4x", "x4", "4xx4", "4,4", "9" * 30):
        text = run(gather, "M=8", "N=1", "--mesh=" + mesh, status=2)
        check(f"--mesh={mesh}", "expects positive numbers" in text, text)
    text = run(kernel("all_gather_torus"), "M=64", "N=1", "--mesh", "4x4x4", "--chip", "v5p", status=1)
    check("a mesh that does not lie on the slice", "the mesh 4x4 does not fit a slice of 4x4x4" in text and "--over" in text, text)
    text = run(os.path.join(ROOT, "kernels", "add.pk"), "N=8", "--mesh", "4", status=1)
    check("a kernel without a mesh", "`add` has no mesh and runs on one device, not on a mesh of 4" in text, text)
    for number in ("nan", "-1", "1e300", "", "8x"):
        text = run("all-gather", "bytes=" + number, "--mesh", "4x4", status=1)
        check(f"bytes={number}", f"a number from 0 to 1e30, not `{number}`" in text, text)


BLOCKS = """kernel doubled(x: f32[M, N] shard (d, _)) -> (o: f32[M, N] shard (d, _)) {
  static D = 2, B = 64;
  mesh (d: D);
  grid (i in cdiv(M / D, B));
  block x, o: [B, N] at (i, 0);
  barrier();
  o[...] = x[...] * 2.0;
}
"""


def other_verbs(folder):
    """Rules and the model apply to the part of a device; `pkc tune` does not try other numbers of devices."""
    path = write(folder, "doubled.pk", BLOCKS)

    def other(*words):
        done = subprocess.run([PKC, *words], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr
    status, text = other("check", path, "M=512", "N=512", "--tpu", "v5e")
    check("check --tpu of a mesh", status == 0 and "nothing keeps it from running on v5e" in text, text)
    status, text = other("check", path, "M=512", "N=512", "-D", "B=12", "--tpu", "v5e")
    check("check --tpu of its blocks", status == 3 and "12 elements are neither a multiple of 8" in text, text)
    status, text = other("tune", path, "M=512", "N=512", "--chip", "v5e")
    check("tune --chip of a mesh", status == 0 and re.search(r"^ +B +time", text) and " D " not in text, text)


with tempfile.TemporaryDirectory() as temporary:
    for test in (closed_forms, exchanges, dimension_order, one_chip, programs, forms, deadlocks, other_verbs):
        test(temporary)
for test in (closed_calculator, ways, over, slices, overlap, many, right_ones, mistakes):
    test()
sys.exit(finish())
