#!/usr/bin/env python3
"""`pkc tune` and its files: verified blocks, crashes and endless loops as lines, resumption, damaged and hostile files.

Ends with the line "N passed, N failed".
"""
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile

from suite import PKC, check, finish

TRAP = """// Blocks that are wrong, that never end, and that may be had.
kernel trap(x: f32[N]) -> (o: f32[N]) {
  static BM = 1024, EXTRA = 0, SPEED = 1;
  require BM != 128: "no blocks of 128";
  grid (i in cdiv(N, BM) parallel);
  block x: [BM] at (i);
  block o: [BM] at (i);
  var n: i32 = 0;
  while BM == 2048 && n >= 0 { n = (n + 1) & 15; }
  o[...] = (x[...] + where(BM == 512, 1.0, 0.0) + EXTRA) * SPEED;
}

reference trap { o = x; }
"""


def pkc(*words, env=None, timeout=300):
    run = subprocess.run([PKC, *words], capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
    return run.returncode, run.stdout, run.stderr


class Kernel:
    """A kernel in a separate folder."""

    def __init__(self, folder, name, text):
        self.path = os.path.join(folder, name + ".pk")
        self.tuning = self.path + ".tuning"
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)

    def line(self):
        with open(self.tuning, encoding="utf-8") as f:
            return f.read().splitlines()[1]

    def write(self, text, mode="w"):
        with open(self.tuning, mode) as f:
            f.write(text)


def test_search(k):
    status, out, err = pkc("tune", k.path, "N=100000", "--time-out", "1", "--min-time", "0.01")
    rows = {int(m[1]): m[2] for m in re.finditer(r"^ +(\d+)  +(\S.*)$", out, re.M)}
    check("it ends well", status == 0 and "written to" in out, out + err)
    check("what is wrong is a line", "differs from the reference: o[0]" in rows.get(512, ""), out)
    check("what never ends is a line", "takes more than 1 s" in rows.get(2048, ""), out)
    check("the default and others are timed", "the default" in rows.get(1024, "") and 256 in rows and 4096 in rows, out)
    check("a static that changes the result is not a block size", "SPEED" not in out and "EXTRA" not in out, out)
    check("the winner is one that may be had", re.search(r" blocks=BM:(256|1024|4096) ", k.line()), k.line())
    check("nothing else is left", sorted(os.listdir(os.path.dirname(k.path))) == ["trap.pk", "trap.pk.tuning"],
           str(os.listdir(os.path.dirname(k.path))))


def test_over(k):
    status, out, _ = pkc("tune", k.path, "N=5000", "--over", "BM=32,64:256", "--min-time", "0.005")
    rows = re.findall(r"^ +(\d+)  ", out, re.M)
    check("--over lists and doubles, with the default", status == 0 and {"32", "64", "256", "1024"} <= set(rows), out)
    check("what is refused is counted", "1 are refused" in out and "128" not in rows, out)
    for words, text in (("EXTRA=1:2", "EXTRA is not a block size of trap; it has BM"), ("BM=0:2", "expected a block size"),
                        ("BM=4:2", "expected a block size"), ("5", "expected NAME=LOW:HIGH"), ("BM=a", "expected a block size")):
        status, out, err = pkc("tune", k.path, "N=5000", "--over", words)
        check(f"--over {words}", status == 1 and text in err, err)
    status, _, err = pkc("tune", k.path, "N=5000", "-D", "BM=64")
    check("nothing is left to try", status == 1 and "no static of trap that -D leaves open" in err, err)
    status, out, err = pkc("tune", k.path, "N=100000", "--chip", "v5e")
    check("--chip ranks by the model", status == 0 and "bound by" in out and out.split()[0] == "BM", out + err)
    status, out, err = pkc("tune", k.path, "N=100000", "--chip", "v5e", "--over", "BM=8:32")
    check("--chip over some blocks", status == 0 and {int(line.split()[0]) for line in out.splitlines() if line.split() and line.split()[0].isdigit()} >= {8, 16, 32}, out + err)


def run_with(k, *words):
    out = os.path.join(os.path.dirname(k.path), "o.npy")
    status, said, err = pkc("run", k.path, "N=100000", "-o", f"o={out}", *words)
    with open(out, "rb") as f:
        data = f.read()
    os.remove(out)
    return status, data, err


def test_found(k):
    key = k.line().split(" blocks=")[0]
    k.write(f"# pkc tuning 1\n{key} blocks=BM:256 times=1.500\n")
    status, out, _ = pkc("explain", k.path, "N=110000")
    check("explain shows it, for sizes of the same class", status == 0 and "BM=256, 1.50 times" in out and "statics: BM=256" in out, out)
    status, out, _ = pkc("bench", k.path, "N=100000", "--json", "--min-time", "0.01")
    check("bench finds it", json.loads(out)["statics"]["BM"] == 256 and json.loads(out)["tuned"] is True, out)
    status, out, _ = pkc("tune", "--show", k.path, "N=100000")
    check("--show prints it", status == 0 and out == "BM=256\n", out)
    check("or nothing", pkc("tune", "--show", k.path, "N=100") == (0, "", ""))
    for what, words in (("another size", ["N=1000"]), ("--no-tuning", ["N=100000", "--no-tuning"]),
                        ("-D", ["N=100000", "-D", "BM=1024"]), ("threads", ["N=100000", "--threads", "2"])):
        status, out, err = pkc("bench", k.path, *words, "--json", "--min-time", "0.01")
        found = json.loads(out)
        check(f"{what} leaves it aside", found["statics"]["BM"] == 1024 and found["tuned"] is False and not err, out + err)
    good = run_with(k)
    check("run finds it", good[0] == 0 and good[1] == run_with(k, "--no-tuning")[1], good[2])
    return key


def test_hostile(k, key):
    plain = run_with(k, "--no-tuning")[1]
    head = "# pkc tuning 1\n"
    other = re.sub("text=[0-9a-f]+", "text=0123456789abcdef", key)
    damaged = "is not a line of tuning"
    cases = [
        ("no first line", f"{key} blocks=BM:256 times=1.5\n", damaged), ("cut off", head + key + " blocks=BM:25", damaged),
        ("empty", "", "is not a file of tuning"), ("NUL", head + "\0" + key, "is not a file of tuning"),
        ("no number", head + key + " blocks=BM:x times=1.5\n", damaged), ("negative", head + key + " blocks=BM:-4 times=1.5\n", damaged),
        ("zero", head + key + " blocks=BM:0 times=1.5\n", damaged), ("huge", head + key + " blocks=BM:99999999999 times=1.5\n", damaged),
        ("twice", head + key + " blocks=BM:4,BM:8 times=1.5\n", damaged), ("times", head + key + " blocks=BM:4 times=nan\n", damaged),
        ("trailing", head + key + " blocks=BM:4 times=1.5 x\n", damaged), ("option", head + key + " blocks=-DBM:4 times=1.5\n", damaged),
        ("blocks of 128 are refused", head + key + " blocks=BM:128 times=1.5\n", "no blocks of 128"),
        ("too large for VMEM", head + key + " blocks=BM:16777216 times=1.5\n", "VMEM"),
        ("another text", head + other + " blocks=BM:256 times=1.5\n", "made for another text"),
    ]
    for static, value in (("EXTRA", 5), ("SPEED", 3), ("NONE", 2)):
        # the key does not contain statics of the blocks
        own = re.sub(rf"{static}:\d+,?", "", key).replace("statics=", "statics=BM:1024,").rstrip(",")
        text = "no static of that name" if static == "NONE" else "is not a block size"
        cases.append((f"the static {static}", f"{head}{own} blocks={static}:{value} times=1.5\n", text))
    for what, text, said in cases:
        k.write(text)
        status, data, err = run_with(k)
        check(f"{what}: a warning", status == 0 and said in err and "the defaults are used" in err, f"{text}\n{err}")
        check(f"{what}: the same results", data == plain, err)
    os.remove(k.tuning)
    for what, make in (("a folder", os.mkdir), ("a pipe", os.mkfifo)):
        make(k.tuning)
        status, data, err = run_with(k)
        check(f"{what}: a warning", status == 0 and data == plain and "is not a file of tuning" in err, err)
        os.rmdir(k.tuning) if what == "a folder" else os.remove(k.tuning)


def test_bytes(k, key):
    """A changed byte must not crash pkc."""
    text = f"# pkc tuning 1\n{key} blocks=BM:256 times=1.500\n".encode()
    statuses = set()
    for at in range(0, len(text), 3):
        k.write(text[:at] + bytes([text[at] ^ (1 + at % 7)]) + text[at + 1:], "wb")
        statuses.add(pkc("explain", k.path, "N=100000")[0])
    check("changed bytes", statuses == {0}, str(statuses))
    os.remove(k.tuning)


def test_resume(k):
    folder = os.path.dirname(k.path)
    words = [PKC, "tune", k.path, "N=100000", "--over", "BM=8:256", "--min-time", "0.2"]
    first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a background job ignores it
    rows = []
    for line in first.stdout:
        rows += re.findall(r"^ +(\d+) +[\d.]+ +[\d.e-]+ ", line)
        if len(rows) >= 2:
            break
    first.send_signal(signal.SIGINT)
    first.communicate()
    part = [name for name in os.listdir(folder) if ".tuning." in name]
    check("an interrupted search leaves what it tried", len(part) == 1 and first.returncode != 0, str(os.listdir(folder)))
    if not part:
        return
    with open(os.path.join(folder, part[0]), "a", encoding="utf-8") as f:
        f.write("BM:4096 times 123 0.5\nBM:16 wrong planted\nBM:3 wrong none\ndamaged\nBM:8 tim")
    status, out, err = pkc(*words[1:-2], "--min-time", "0.005")
    check("it continues where it stopped", status == 0 and re.search(r"^ +16  planted", out, re.M) and "4096" not in out, out + err)
    check("and removes what it kept", not [n for n in os.listdir(folder) if ".tuning." in n], str(os.listdir(folder)))


def test_crash(k):
    """The second program, that of the first candidate, crashes."""
    folder = os.path.dirname(k.path)
    count, runner = os.path.join(folder, "count"), os.path.join(folder, "runner")
    with open(runner, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\necho x >>"{count}"\n[ "$(wc -l <"{count}")" = 2 ] && kill -SEGV $$\nexec "$@"\n')
    os.chmod(runner, stat.S_IRWXU)
    status, out, err = pkc("tune", k.path, "N=5000", "--over", "BM=32:64", "--min-time", "0.005", env={"PKC_RUNNER": runner})
    check("a crash is a line", status == 0 and out.count("died of signal 11") == 1 and "written to" in out, out + err)
    os.remove(k.tuning)


def test_without_reference(folder):
    k = Kernel(folder, "bare", TRAP.split("reference")[0].replace("trap", "bare"))
    status, out, err = pkc("tune", k.path, "N=100000", "--over", "BM=256,512", "--min-time", "0.005")
    check("without a reference the default is what others are held against",
           status == 0 and "differs from the default" in out and "no reference" in out, out + err)
    check("and nothing is written", not os.path.exists(k.tuning))
    program = Kernel(folder, "prog", TRAP + "\nprogram twice(x: f32[N]) -> (o: f32[N]) { let t = trap(x); o = trap(t); }\n")
    status, _, err = pkc("tune", program.path, "N=5000")
    check("a program is refused", status == 1 and "a program has no blocks of its own" in err, err)


def main():
    with tempfile.TemporaryDirectory() as folder:
        k = Kernel(folder, "trap", TRAP)
        test_search(k)
        key = test_found(k)
        test_hostile(k, key)
        test_bytes(k, key)
        test_over(k)
        os.path.exists(k.tuning) and os.remove(k.tuning)
        test_resume(k)
        os.path.exists(k.tuning) and os.remove(k.tuning)
        test_crash(k)
        test_without_reference(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
