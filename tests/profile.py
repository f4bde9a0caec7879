#!/usr/bin/env python3
"""`pkc profile`: places with their lines, times that add up to the call's, threads, regions, programs, the trace.

Ends with the line "N passed, N failed".
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from suite import PKC, check, finish

KERNEL = """// Two loops over rows in a region, one outside, a loop, a transposition.
kernel two(x: f32[M, 256]) -> (o: f32[M, 256], t: f32[256, M]) {
  grid (i in cdiv(M, 64) parallel);
  block x: [64, 256] at (i, 0);
  block o: [64, 256] at (i, 0);
  block t: [256, 64] at (0, i);
  scratch s: vmem f32[64, 256];
  region "soften" {
    let e = exp(x[...]);
    s[...] = e / reduce_sum(e, axis = 1);
  }
  for n in 0..3 { s[...] = s[...] * s[...] + 1; }
  o[...] = s[...];
  t[...] = s[...].T;
}

program both(x: f32[M, 256]) -> (o: f32[M, 256], t: f32[256, M]) { let a, b = two(x); o, t = two(a); }
"""


def expect(what, good, said=""):
    check(what, good, said)


def profile(*words):
    run = subprocess.run([PKC, "profile", *words], capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


def adds_up(found):
    """Each thread is at some place for the whole call, except for moments at the beginning and the end."""
    for thread in range(found["threads"]):
        at = sum(place["threads_us"][thread] for place in found["places"])
        if not 0.85 * found["call_ms"] * 1e3 - 20 <= at <= 1.15 * found["call_ms"] * 1e3 + 20:
            return False
    return abs(sum(p["us"] for p in found["places"]) - sum(t for p in found["places"] for t in p["threads_us"])) < 1e-3 * found["call_ms"] * 1e3 + 1


def places(found):
    return {(p["lines"], p["what"]): p for p in found["places"]}


def test_kernel(path, trace):
    status, out, err = profile(path, "-k", "two", "M=640", "--min-time", "0.05", "--json", "--trace", trace)
    expect("it runs", status == 0, err)
    found = json.loads(out)
    at = places(found)
    expect("times add up", adds_up(found), out)
    lines = {lines for lines, _ in at}
    expect("each line that computes is there", any("9" in (n or "").split(", ") for n in lines) and any("12" in (n or "") for n in lines)
           and any("14" in (n or "") for n in lines), out)
    regions = {p["region"] for p in found["places"] if p["lines"] and re.match(r"(9|10)\b", p["lines"])}
    expect("the region is named", regions == {"soften"} and all(p["region"] is None for p in found["places"] if p["lines"] == "14"), out)
    expect("visits", all(p["visits"] > 0 for p in found["places"] if p["us"] > 1 and p["lines"]), out)
    expect("the cost of a lap is measured", 0 < found["lap_ns"] < 1000 and found["plain_ms"] > 0, out)
    with open(trace, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    names = {event["name"].split(":")[0] for event in events}
    expect("the trace holds the same places", names == {p["lines"] for p in found["places"] if p["lines"] and p["visits"]}, str(names))
    order = sorted(events, key=lambda e: e["ts"])
    expect("one after the other", all(a["ts"] + a["dur"] <= b["ts"] + 0.01 for a, b in zip(order, order[1:])))
    status, out, _ = profile(path, "-k", "two", "M=640", "--min-time", "0.05")
    shares = [float(s) for s in re.findall(r"^ *([\d.]+)% ", out, re.M)]
    expect("a table with shares of 100 %", status == 0 and abs(sum(shares) - 100) < 2 and "in soften: let e = exp(x[...]);" in out
           and "A lap is" in out, out)


def test_threads(path):
    for seconds in "0.05", "0.5", "2", "8":  # a thread that gets no processor has no cells
        status, out, err = profile(path, "-k", "two", "M=6400", "--min-time", seconds, "--threads", "2", "--json")
        found = json.loads(out) if status == 0 else {"threads": 0, "places": []}
        if found["threads"] == 2:
            break
    expect("two threads", found["threads"] == 2 and all(len(p["threads_us"]) == 2 for p in found["places"]) and adds_up(found), out + err)


def test_program(path):
    status, out, err = profile(path, "-k", "both", "M=64", "--min-time", "0.02", "--json")
    found = json.loads(out) if status == 0 else {"places": []}
    expect("a program's kernels", any(p["kernel"] == "two" for p in found["places"]) and adds_up(found), out + err)


def test_shapes(path):
    for size in (0, 1, 63, 65):
        status, _, err = profile(path, "-k", "two", f"M={size}", "--min-time", "0.001")
        expect(f"M={size}", status == 0, err)
    status, _, err = profile(path, "-k", "two")
    expect("sizes are missing", status == 1 and "sizes that must be given" in err, err)


def test_library():
    for words in ("kernels/flash_attn.pk B=1 H=2 G=1 N=300 S=300 -D CAUSAL=true", "kernels/matmul.pk M=300 K=300 N=300 -D T=bf16",
                  "kernels/matmul.pk M=2 K=300 N=300", "kernels/matmul_dma.pk M=512 K=512 N=512", "kernels/transpose.pk M=300 N=301"):
        status, out, err = profile(*words.split(), "--min-time", "0.02", "--json")
        expect(words, status == 0 and adds_up(json.loads(out)), out + err)


def test_mesh():
    """The devices of a mesh, in the order of their indices: each waits, and its times add up too."""
    for words, devices in ("kernels/collectives/ring_attention.pk S=64", 4), ("kernels/collectives/all_gather_torus.pk M=48 N=33", None), (
            "kernels/collectives/mlp.pk", 4):
        sizes = [] if "=" in words else re.search(r"^// test: (.*)", open(words, encoding="utf-8").read(), re.M).group(1).split()
        status, out, err = profile(*words.split(), *sizes, "--min-time", "0.02", "--json")
        found = json.loads(out) if status == 0 else {"threads": 0, "places": []}
        waits = [p for p in found["places"] if p["what"] in ("wait", "copy_wait")]
        expect(words, status == 0 and adds_up(found) and devices in (None, found["threads"]) and waits
               and all(p["visits"] >= found["threads"] for p in waits), out + err)
    status, out, err = profile("kernels/collectives/ring_attention.pk", "S=64", "--min-time", "0.02")
    expect("columns of devices", status == 0 and "4 devices" in out and " device 0 device 1 device 2 device 3" in out, out + err)


def test_plain_c(path):
    """Only profiling builds have laps."""
    run = subprocess.run([PKC, path, "-k", "two", "-o", "-"], capture_output=True, text=True)
    expect("no laps in other builds", run.returncode == 0 and "pk_lap" not in run.stdout and "profile.h" not in run.stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "two.pk")
        with open(path, "w", encoding="utf-8") as f:
            f.write(KERNEL)
        test_kernel(path, os.path.join(folder, "trace.json"))
        test_threads(path)
        test_program(path)
        test_shapes(path)
        test_plain_c(path)
    test_library()
    test_mesh()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
