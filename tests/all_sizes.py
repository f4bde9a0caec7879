#!/usr/bin/env python3
"""`pkc prove --all-sizes`: which kernels are proved safe, which are refuted, and whether `pkc check` agrees at such sizes.

CASES lists kernels with their verdicts. Then each kernel of tests/cases and of the library is tried: if everything is proved, `pkc check`
must find nothing of that kind; if something is refuted, `pkc check` must find it at the sizes that the refutation names.
"""
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import PKC, ROOT, check, finish
from sampling import sampled

STATUS = {0: "proved", 3: "refuted", 4: "unknown"}
# findings of `pkc check` that a proof excludes
KINDS = {"block-index", "halo", "halo-end", "out-of-range", "never-written", "parallel-write", "revisit", "device"}
HEAD = "kernel k(x: f32[M, N]) -> (o: f32[M, N]) "
ROWS = "grid (i in cdiv(M, 4) parallel); block x, o: [4, N] at (i, 0);"
MEMORY = "{ block x, o: any; scratch s: sem dma; "
CELLS = "{ grid (i in M parallel); block x, o: any; scratch s: sem dma; "


def move(source, target, ref="x"):
    copy = f"async_copy({ref}[ds({source}, 1), :] -> o[ds({target}, 1), :], s)"
    return f"{copy}.start(); {copy}.wait();"


GATHER = "kernel k(x: f32[M] shard (d)) -> (o: f32[M]) { mesh (d: 4); block x, o: any; scratch own, sent, arrived: sem dma; let me = device(d); "


def keep(part, length):
    copy = f"async_copy(x[ds(0, {length})] -> o[ds({part} * ({length}), {length})], own)"
    return f"{copy}.start(); {copy}.wait();"


def send(part, device):
    """The body of a GATHER kernel: this device sends its part to another one, which stores it as that part."""
    copy = f"remote_copy(x[...] -> o[ds({part} * (M / 4), M / 4)], send = sent, recv = arrived, device = (d = {device}))"
    return f"{copy}.start(); {copy}.wait();"


CASES = [
    # the kernel, its verdict, a piece of the message
    (HEAD + "{ " + ROWS + " o[...] = x[...]; }", "proved", ""),
    (HEAD + "{ grid (i in M / 4 parallel); block x, o: [4, N] at (i, 0); o[...] = x[...]; }", "refuted", "`o` is stored completely: not for M=1 N=1"),
    (HEAD + "{ grid (i in cdiv(M, 4) + 1 parallel); block x, o: [4, N] at (i, 0); o[...] = x[...]; }", "refuted", "begin in its array"),
    (HEAD + "{ grid (i in cdiv(M, 4) parallel); block x, o: [4, N] at (i / 2, 0); o[...] = x[...]; }", "refuted", "parallel cells write different elements of `o`"),
    (HEAD + "{ grid (i in cdiv(M, 4), j in 2); block x: [4, N] at (i, 0); block o: [4, N] at (i, 0); when j == 0 { o[...] = x[...]; } }", "proved", ""),
    (HEAD + "{ grid (j in 2, i in cdiv(M, 4)); block x: [4, N] at (i, 0); block o: [4, N] at (i, 0); o[...] = x[...]; }", "refuted", "no block of `o` is revisited"),
    (HEAD + "{ " + ROWS + " when i > 0 { o[...] = x[...]; } }", "refuted", "is stored completely"),
    (HEAD + "{ " + ROWS + " when i >= 0 || N > 3 { o[...] = x[...]; } }", "proved", ""),
    (HEAD + "{ require N > 0; " + ROWS + " when x[0, 0] > 0.0 { o[...] = x[...]; } }", "unknown", "`gt`|`load`"),
    (HEAD + "{ " + ROWS + " for t in 0..4 { o[t, :] = x[t, :]; } }", "proved", ""),
    (HEAD + "{ " + ROWS + " for t in 0..3 { o[t, :] = x[t, :]; } }", "refuted", "is stored completely"),
    (HEAD + "{ " + ROWS + " for t in 0..5 { o[t, :] = x[t, :]; } }", "refuted", "a store to `o` is inside it"),
    (HEAD + "{ " + ROWS + " for t in 0..4 { o[t, :] = x[3 - t, :]; } }", "proved", ""),
    (HEAD + "{ " + ROWS + " for t in 0..4 { o[t, :] = x[t + 1, :]; } }", "refuted", "a load from `x` is inside it"),
    (HEAD + "{ " + ROWS + " for t in 0..2 { o[ds(2 * t, 2), :] = x[ds(2 * t, 2), :]; } }", "proved", ""),
    (HEAD + "{ " + ROWS + " for t in 0..2 { o[ds(t * t, 2), :] = x[...][0:2, :]; } }", "unknown", "`mul` in line 1"),
    (HEAD + "{ " + ROWS + " for t in 0..4 { o[t, :] = x[t - 1, :]; } }", "refuted", "a load from `x` is inside it"),
    (HEAD + "{ " + ROWS + " o[...] = load(x[ds(2, 4), :], mask = iota([4, N], axis = 0) < 2, other = 0.0); }", "proved", ""),
    (HEAD + "{ " + ROWS + " o[...] = load(x[ds(2, 4), :], mask = iota([4, N], axis = 0) < 3, other = 0.0); }", "refuted", "a load from `x` is inside it"),
    (HEAD + "{ " + ROWS + " if i == 0 { o[...] = x[...]; } else { o[...] = 2.0 * x[...]; } }", "proved", ""),
    (HEAD + "{ " + ROWS + " for t in 0..4 { o[t, :] = x[t, :]; if N > 3 { break; } } }", "unknown", "is stored completely"),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { grid (i in 2 parallel); o[...] = x[...] * cast(i, f32); }", "unknown", "not known because of their values"),
    (HEAD + MEMORY + "for t in 0..M { " + move("t", "t") + " } }", "proved", ""),
    (HEAD + MEMORY + "for t in 0..M { " + move("min(t + 1, M - 1)", "t") + " } }", "proved", ""),
    (HEAD + MEMORY + "for t in 0..M { " + move("t + 1", "t") + " } }", "refuted", "a copy from `x` is inside it: not for M=1"),
    (HEAD + MEMORY + "for t in 1..M { " + move("t", "t") + " } }", "refuted", "`o` is stored completely: not for M=1"),
    (HEAD + CELLS + move("i", "i") + " }", "proved", ""),
    (HEAD + CELLS + move("i", "M - 1 - i") + " }", "proved", ""),
    (HEAD + CELLS + move("i", "i") + " when i > 0 { " + move("i", "i - 1") + " } }", "refuted", "parallel cells write different elements of `o`"),
    (HEAD + CELLS + move("i", "i") + " when i > 0 { " + move("i - 1", "i", "o") + " } }", "refuted", "parallel cells read no elements of `o` that others write"),
    (HEAD + CELLS + move("i", "i") + " " + move("i", "i", "o") + " }", "proved", ""),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { require M % 4 == 0; grid (i in M / 4 parallel); block x, o: [4] at (i); o[...] = x[...]; }", "proved", ""),
    ("kernel k(x: f32[M]) -> (o: f32[M]) { require M > 8; grid (i in cdiv(M, 4) parallel); block x: [4] at element (max(4 * i - 4, 0)) halo(0, 0); block o: [4] at (i); o[...] = x[...]; }", "refuted|proved", ""),
    ("kernel k(x: f32[G, N], y: f32[H, N]) -> (o: f32[H, N]) { require H % G == 0; grid (h in H parallel); block x: [1, N] at (h / (H / G), 0); block y, o: [1, N] at (h, 0); o[...] = x[...] + y[...]; }", "proved", "H / G is between 1 and 16"),
    ("kernel k(x: f32[G, N], y: f32[H, N]) -> (o: f32[H, N]) { grid (h in H parallel); block x: [1, N] at (h / (H / G), 0); block y, o: [1, N] at (h, 0); o[...] = x[...] + y[...]; }", "refuted", "the blocks of `x` begin in its array"),
    ("kernel k(x: f32[V, N]) -> (o: f32[M, N]) { prefetch row: i32[M]; grid (m in M parallel); block x: [1, N] at (row[m], 0); block o: [1, N] at (m, 0); o[...] = x[...]; }", "proved", "by prefetched elements"),
    ("kernel k(x: f32[V, N]) -> (o: f32[M, N]) { prefetch row: i32[M]; grid (m in M parallel); block x: [1, N] at (row[m + 1], 0); block o: [1, N] at (m, 0); o[...] = x[...]; }", "refuted", "a load from `row` is inside it"),
    ("kernel k(x: f32[M, K], y: f32[K, N]) -> (o: f32[M, N]) { grid (i in cdiv(M, 8) parallel, k in cdiv(K, 8)); block x: [8, 8] at (i, k) pad 0; block y: [8, N] at (k, 0) pad 0; block o: [8, N] at (i, 0); scratch a: vmem f32[8, N]; "
     "when k == 0 { a[...] = 0; } a[...] += dot(x[...], y[...]); when k == num_programs(k) - 1 { o[...] = a[...]; } }", "refuted", "`o` is stored completely: not for M=1 K=0 N=1"),
    (GATHER + "barrier(); " + keep("me", "M / 4") + " for i in 0..4 { " + send("me", "i") + " } }", "proved", ""),
    (GATHER + "barrier(); " + keep("me", "M / 4") + " for i in 0..3 { " + send("me", "i") + " } }", "refuted", "`o` is stored completely: not for M=4, device d=3"),
    (GATHER + "barrier(); " + keep("me", "M / 4") + " for i in 0..5 { " + send("me", "i") + " } }", "refuted", "the named device is in the mesh"),
    (GATHER + "barrier(); " + keep("me", "M / 4") + " for i in 0..4 { " + send("i", "i") + " } }", "refuted", "`o` is stored completely"),
    (GATHER + "barrier(); " + keep("me", "M / 4") + " for i in 0..4 { " + send("(me + 1)", "i") + " } }", "refuted", "a copy to `o` is inside it: not for M=4, device d=3"),
    (GATHER + keep("me", "M / 4") + " }", "refuted", "`o` is stored completely: not for M=4, device d=0"),
    (GATHER + "for i in 0..4 { " + keep("i", "M / 4") + " } }", "proved", ""),
    (GATHER + "for i in 0..4 { " + keep("i", "M / 3") + " } }", "refuted", "a copy to `o` is inside it"),
    ("kernel k(x: f32[M] shard (d)) -> (o: f32[M] shard (d)) { mesh (d: 4); o[ds(0, M / 4)] = x[...]; }", "proved", ""),
    ("kernel k(x: f32[M] shard (d)) -> (o: f32[M]) { mesh (d: 4); o[ds(0, M / 4)] = x[...]; }", "refuted", "`o` is stored completely"),
    ("kernel k(x: f32[M] shard (d)) -> (o: f32[M] shard (d)) { mesh (d: 4); when device(d) < 3 { o[...] = x[...]; } }", "refuted", "`o` is stored completely: not for M=4, device d=3"),
    ("kernel k(x: f32[M] shard (d)) -> (o: f32[M] shard (d)) { mesh (d: 4); for i in 0..17 { when i == device(d) { o[...] = x[...]; } } }", "proved", ""),
    ("kernel k(x: f32[M, N] shard (d, _)) -> (o: f32[M, N] shard (d, _)) { mesh (d: 2); grid (i in cdiv(M / 2, 4) parallel); block x, o: [4, N] at (i, 0); o[...] = x[...]; }", "proved", ""),
    ("kernel k(x: f32[M, N] shard (d, _)) -> (o: f32[M, N] shard (d, _)) { mesh (d: 2); grid (i in cdiv(M, 4) parallel); block x, o: [4, N] at (i, 0); o[...] = x[...]; }", "refuted", "the blocks of `x` begin in its array"),
    ("kernel k(x: f32[M, N] shard (d, _)) -> (o: f32[M, N] shard (d, _)) { mesh (d: 2); grid (i in cdiv(M / 2, 4) parallel); block x, o: [4, N] at (i / 2, 0); o[...] = x[...]; }", "refuted", "parallel cells write different elements of `o`"),
    (HEAD + "{ " + ROWS + " let row = i * 4 + iota([4, N], axis = 0); o[...] = load(x[...], mask = row < M, other = 0.0); }", "proved", ""),
]


def prove(path, *words):
    run = subprocess.run([PKC, "prove", str(path), "--all-sizes", *words], capture_output=True, text=True, timeout=600)
    return STATUS.get(run.returncode, "error"), run.stdout + run.stderr


def sizes_of(where):
    """The sizes of a refutation: "M=1 N=0" of "M=1 N=0, i=0"."""
    return re.findall(r"\w+=\d+", where.partition(",")[0])


def findings(path, words):
    """The kinds of findings that `pkc check` reports, or None if it cannot run."""
    run = subprocess.run([PKC, "check", str(path), *words, "--json"], capture_output=True, text=True)
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode not in (0, 3):
        return None
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return {item["kind"] for item in found if not is_in_reference(lines, item["line"])}


def is_in_reference(lines, number):
    """The facts are of kernels."""
    heads = [line for line in lines[:number or 0] if re.match(r"(kernel|program|reference) ", line)]
    return bool(heads) and heads[-1].startswith("reference")


def refuted_sizes(said):
    facts = json.loads(said.splitlines()[-1])["facts"]
    return [sizes_of(fact["where"]) for fact in facts if fact["verdict"] == "refuted"]


def cases(folder):
    for k, (text, verdict, words) in enumerate(CASES):
        path = Path(folder) / f"case{k}.pk"
        path.write_text(text + "\n")
        found, said = prove(path)
        check(f"case {k}, {text[:90]}..: {verdict}", found in verdict.split("|") and re.search(words if "|" in words else re.escape(words), said), said)
        if found == "refuted":
            for sizes in refuted_sizes(prove(path, "--json")[1]):
                kinds = findings(path, sizes)
                check(f"case {k} at {' '.join(sizes)}: pkc check finds it", kinds is None or kinds, kinds)


# ---- all kernels

def look(path, kernel):
    """Returns (verdict, what is wrong)."""
    found, said = prove(path, "-k", kernel, "--json")
    if found == "proved":
        excluded = KINDS - ({"block-index"} if "by prefetched elements" in said else set())
        for words in re.findall(r"^ *// (?:check|test): (.*)$", path.read_text(encoding="utf-8"), re.M):
            words = words.partition(" -> ")[0].split()
            named = words[words.index("-k") + 1] if "-k" in words else kernel
            if named != kernel or "-D" in words or any(word.startswith(("threads", "--")) for word in words):
                continue
            kinds = findings(path, [*(["-k", kernel] if "-k" not in words else []), *words])
            if kinds and kinds & excluded:
                return found, f"pkc check {' '.join(words)} finds {kinds & excluded}"
    if found == "refuted":
        for sizes in refuted_sizes(said):
            if findings(path, ["-k", kernel, *sizes]) == set():
                return found, f"pkc check finds nothing at {' '.join(sizes)}"
    return found, None


def kernels(folder):
    for path in sorted((ROOT / folder).rglob("*.pk")):
        text = re.sub("//.*", "", path.read_text(encoding="utf-8"))
        for name in re.findall(r"^kernel (\w+)\(", text, re.M):
            yield path, name


def corpus(folder, sample, fast):
    """Counts the verdicts of the kernels of a folder."""
    rows = sampled(kernels(folder), sample, fast, f"kernels of {folder}")
    verdicts = []
    with ThreadPoolExecutor(2) as pool:
        for (path, name), (found, wrong) in zip(rows, pool.map(lambda row: look(*row), rows)):
            check(f"{path.relative_to(ROOT)} {name}", wrong is None, wrong)
            verdicts.append((path, name, found))
    print(f"{folder}: " + ", ".join(f"{sum(v == verdict for *_, v in verdicts)} {verdict}" for verdict in (*STATUS.values(), "error")))
    return verdicts


def main():
    if "without libisl" in prove(ROOT / "kernels/add.pk")[1] or "libisl is missing" in prove(ROOT / "kernels/add.pk")[1]:
        print("SKIPPED all_sizes: libisl is not installed (make deps)")
        return finish()
    with tempfile.TemporaryDirectory() as folder:
        cases(folder)
    corpus("tests/cases", 150, 20)
    for path, name, found in corpus("kernels", 40, 5):
        check(f"{path.relative_to(ROOT)} {name} is not refuted", found != "refuted")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
