#!/usr/bin/env python3
"""`pkc calibrate`: the file of a calibration, the commands that read it, what it may change and must not change; `pkc explain --threads`.

Ends with the line "N passed, N failed".
"""
import os
import pathlib
import random
import re
import stat
import subprocess
import sys
import tempfile

from suite import PKC, ROOT, check, def_rows, finish

MATMUL, TRANSPOSE, ADD = (str(ROOT / "kernels" / f"{name}.pk") for name in ("matmul", "transpose", "add"))
PRIME = (1 << 64) - 1
LEVEL = os.environ.get("PKC_TESTS", "all")


def seal(text):
    """The hash of 128 bits that codegen/run/cache.c computes of a text."""
    a, b = 0xcbf29ce484222325, 7
    for byte in text:
        a = ((a ^ byte) * 0x100000001b3) & PRIME
        b = ((b + byte + 1) * 0x9e3779b97f4a7c15) & PRIME
        b ^= b >> 29
    a = ((a ^ 0xff) * 0x100000001b3) & PRIME
    return b"%016x%016x" % (a, b)


class Machine:
    """A separate cache folder with a calibration."""

    def __init__(self, folder):
        self.env = {**os.environ, "XDG_CACHE_HOME": folder}
        self.env.pop("PKC_CALIBRATION", None)
        self.folder = pathlib.Path(folder, "pkc", ".calibration")
        status, _, err = self.pkc("calibrate", "--show")
        check("--show without a calibration", status == 0, err)
        self.path = None

    def pkc(self, *words, env=None, timeout=600):
        run = subprocess.run([PKC, *words], capture_output=True, text=True, timeout=timeout, env={**self.env, **(env or {})})
        return run.returncode, run.stdout, run.stderr

    def write(self, data, mode=0o600):
        self.path.write_bytes(data)
        self.path.chmod(mode)

    def made(self, *lines):
        """A valid file with these lines."""
        text = self.head + "".join(line + "\n" for line in lines).encode()
        return text + b"seal=" + seal(text) + b"\n"

    def c(self, *words, env=None):
        return self.pkc("--emit=c", MATMUL, *words, env=env)


def learn_head(m, folder):
    """The first lines of a file for this machine, from a run without races."""
    status, out, err = m.pkc("calibrate", "--force", "--quick")
    check("it calibrates", status == 0 and "calibration " in out and "measured" in out, out + err)
    check("with progress", "caches, memory and threads" in err, err)
    files = list(m.folder.iterdir())
    check("one file, for its owner alone", len(files) == 1 and stat.S_IMODE(files[0].stat().st_mode) == 0o600, str(files))
    m.path = files[0]
    text = m.path.read_bytes()
    m.head = b"".join(line + b"\n" for line in text.split(b"\n")[:3])
    check("its seal", text == text[:text.rindex(b"seal=")] + b"seal=" + seal(text[:text.rindex(b"seal=")]) + b"\n", text.decode())
    return text, out


def test_measured(out):
    rows = dict(re.findall(r"^  (\w+) +(\d+) ", out, re.M))
    low = {name: int(value) for name, value in rows.items()}
    for name, least, most in (("l1_bytes", 8 << 10, 1 << 18), ("l2_bytes", 1 << 17, 1 << 25), ("gather_ps", 50, 20000),
                              ("memory_rate", 20, 500000), ("past_rate", 20, 500000), ("through_rate", 20, 500000)):
        check(f"{name} is plausible", least <= low.get(name, 0) <= most, out)
    check("caches grow", low.get("l1_bytes", 0) < low.get("l2_bytes", 0), out)
    check("memory is farther than a cache", low.get("gather_ps", 1) < low.get("gather_far_ps", 0), out)
    if low.get("processors", 1) > 1:
        check("a thread costs time", 1000 <= low.get("worth_ns", 0) <= 2000000 and 1 <= low.get("thread_ns", 0) < 1000000, out)


def test_agrees(m, first):
    """A second run keeps each value that lies within one step of the first run's."""
    status, out, err = m.pkc("calibrate", "--force", "--quick")
    numbers = [dict(re.findall(r"^  (\w+) +(\d+) +\S", text, re.M)) for text in (first, out)]
    moved = [name for name in numbers[0] if name in numbers[1] and
           not 1 / 2.1 <= int(numbers[0][name]) / max(1, int(numbers[1][name])) <= 2.1]
    check("two calibrations agree", status == 0 and len(moved) <= 2, f"{moved}: {first}{out}{err}")


def test_store(m):
    plain = m.c(env={"PKC_CALIBRATION": "0"})
    check("the C without a calibration", plain[0] == 0 and "calibration" not in plain[1].split("*/")[0], plain[1][:400])
    m.write(m.made("rows_followed=5", "near=20", "regime.streamed=0", "worth_ns=9000", "thread_ns=300"))
    status, out, err = m.c()
    identity = re.search(r"calibration ([0-9a-f]{8})", out)
    check("the C has it", status == 0 and not err and identity and "#define PK_DOT_ROWS_FOLLOWED 5" in out and
          "#define PK_DOT_NEAR 20" in out and ".worth_ns = 9000" in out and ".thread_ns = 300" in out, out[:600])
    check("linked micro-kernels have other numbers", "#undef PK_MICRO" in out, out[:600])
    check("named targets do not read it", m.c("--target", "zen4")[1] == m.c("--target", "zen4", env={"PKC_CALIBRATION": "0"})[1])
    check("--target native does", m.c("--target", "native")[1] == out)
    check("--targets does not", m.pkc("--targets")[1] == m.pkc("--targets", env={"PKC_CALIBRATION": "0"})[1])
    status, said, err = m.pkc("explain", MATMUL)
    check("explain names it", status == 0 and identity and f"calibration {identity[1]}" in said.split("\n")[0], said[:200])
    status, said, _ = m.pkc("calibrate", "--show")
    check("--show", status == 0 and re.search(r"rows_followed +5 ", said) and re.search(r"streamed +off", said) and
          identity and identity[1] in said, said)
    status, said, _ = m.pkc("calibrate", "--write-core")
    check("--write-core", status == 0 and said.startswith("static const Core measured = {.sums = ") and ".rows_followed = 5" in said and
          ".near = 20" in said and "REGIME(streamed)" not in said, said)
    m.write(m.made("worth_ns=9000", "thread_ns=300"))
    check("costs alone leave the micro-kernels linked", "#undef" not in m.c()[1] and ".worth_ns = 9000" in m.c()[1])
    for words, says in ((["--show", "--reset"], "exclude each other"), (["x"], "unexpected word"), (["--show=1"], "takes no value")):
        status, _, err = m.pkc("calibrate", *words)
        check(f"calibrate {' '.join(words)} is wrong use", status == 2 and says in err, err)
    return plain[1]


def test_rows(m):
    """Every row of the tables is accepted at both ends of its range, and refused beyond them."""
    rows = [(row[0], row[1], row[2]) for word in ("MEASURED", "CUT_OFF") for row in def_rows("codegen/loops/calibration.def", word)]
    check("the table was read", len(rows) > 20, str(rows))
    for name, *ends in rows:
        low, high = (eval(end) for end in ends)
        for value, good in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
            m.write(m.made(f"{name}={value}"))
            _, _, err = m.c()
            check(f"{name}={value}", ("is damaged" not in err) == good, err)


def test_hostile(m, plain):
    good = m.made("rows_followed=5")
    def sealed(text):
        return text + b"seal=" + seal(text) + b"\n"
    lines = m.head.decode().splitlines()
    cases = [
        ("empty", b"", "is damaged"), ("cut off", good[:-1], "is damaged"), ("without a seal", good[:good.rindex(b"seal=")], "is damaged"),
        ("NUL", sealed(m.head + b"\0rows_followed=5\n"), "is damaged"), ("an unknown name", m.made("rows_folowed=5"), "is damaged"),
        ("twice", m.made("near=1", "near=1"), "is damaged"), ("no number", m.made("near="), "is damaged"),
        ("a sign", m.made("near=-1"), "is damaged"), ("huge", m.made("near=99999999999999999999"), "is damaged"),
        ("no equals", m.made("near"), "is damaged"), ("an empty line", m.made(""), "is damaged"),
        ("a regime of all cores", m.made("regime.skinny=0"), "is damaged"), ("no regime", m.made("regime.x=0"), "is damaged"),
        ("regime=2", m.made("regime.tiled=2"), "is damaged"), ("a regime twice", m.made("regime.tiled=1", "regime.tiled=1"), "is damaged"),
        ("too long", sealed(m.head + b"#" * (1 << 17)), "is damaged"),
        ("another version", sealed(m.head.replace(b"calibration 1", b"calibration 2")), "of another version"),
        ("another version, sealed otherwise", b"# pkc calibration 12\nx\n", "of another version"),
        ("another processor", sealed(m.head.replace(lines[1].encode(), b"processor=" + b"0" * 32)), "of another processor"),
        ("other tables", sealed(m.head.replace(lines[2].encode(), b"tables=" + b"0" * 32)), "other tables"),
    ]
    for what, data, says in cases:
        m.write(data)
        status, out, err = m.c()
        check(f"{what}: a warning, and the tables", status == 0 and out == plain and (says in err or "not a file of this user" in err), f"{status} {err}")
    m.write(good, 0o666)
    status, out, err = m.c()
    check("writable by others: not used", status == 0 and out == plain and "of this user alone" in err, err)
    m.path.unlink()
    m.path.symlink_to("/dev/zero")
    status, out, err = m.c()
    check("a link: not followed", status == 0 and out == plain and "the tables are used" in err, err)
    m.path.unlink()
    for make, remove in ((os.mkfifo, os.remove), (os.mkdir, os.rmdir)):
        make(m.path)
        status, out, err = m.c()
        check("neither a pipe nor a folder", status == 0 and out == plain and "the tables are used" in err, err)
        remove(m.path)
    m.write(good)
    m.folder.chmod(0o777)
    check("a folder of others is not looked at", m.c()[1:] == (plain, ""))
    m.folder.chmod(0o700)
    check("--reset", m.pkc("calibrate", "--reset") == (0, "", "") and m.c()[1:] == (plain, "") and not m.path.exists())
    check("--reset again", m.pkc("calibrate", "--reset") == (0, "", ""))
    status, out, _ = m.pkc("calibrate", "--show")
    check("--show says that there is none", status == 0 and "is not calibrated" in out, out)
    check("--write-core needs one", m.pkc("calibrate", "--write-core")[0] == 1)


def test_fuzz(m, plain):
    """A changed byte must not crash pkc; if the seal is computed anew, the reader judges the line itself."""
    rng, good = random.Random(1), m.made("l1_bytes=32768", "near=20", "regime.tiled=1", "worth_ns=9000")
    statuses = set()
    for n in range(400 if LEVEL == "all" else 80):
        data = bytearray(good[:good.rindex(b"seal=")])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            what = rng.randrange(3)
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                del data[at]
            else:
                data[at:at] = bytes([rng.choice(b"\n=.0129-\xff\0ar")])
        m.write(bytes(data) + (b"seal=" + seal(bytes(data)) + b"\n" if n % 4 else good[good.rindex(b"seal="):]))
        status, out, err = m.pkc("--emit=c", ADD)
        statuses.add((status, bool(out), not err or "the tables are used" in err))
    check("changed bytes", statuses <= {(0, True, True)}, str(statuses))
    m.path.unlink()


def test_bits(m, folder):
    """Cut-offs and regimes do not change a bit of a product, a transpose or a sum."""
    calls = [(MATMUL, "M=1", "K=600", "N=700"), (MATMUL, "M=5", "K=513", "N=1024"), (MATMUL, "M=17", "K=2048", "N=512"),
             (MATMUL, "M=130", "K=520", "N=1030"), (MATMUL, "M=64", "K=1024", "N=16"), (TRANSPOSE, "M=1025", "N=777"),
             (ADD, "M=1000", "N=777"), (str(ROOT / "kernels/matmul/linear_transposed.pk"), "M=3", "K=512", "N=300")]
    calls = [call for call in calls if os.path.exists(call[0])]
    lows, highs = [], []
    for name, low, high in (row[:3] for row in def_rows("codegen/loops/calibration.def", "CUT_OFF")):
        lows.append(f"{name}={eval(low)}")
        highs.append(f"{name}={min(eval(high), 1 << 30)}")
    regimes = re.findall(r"^  X\((\w+), \w+, SOME", (ROOT / "include/pk/dot/regimes.h").read_text(), re.M)
    check("the table of regimes was read", len(regimes) > 5, str(regimes))
    sets = [lows + [f"regime.{name}=0" for name in regimes], highs + [f"regime.{name}=1" for name in regimes],
            lows + [f"regime.{name}=1" for name in regimes]]
    if LEVEL == "fast":
        sets, calls = sets[:2], calls[:3]

    def run(path, *words, env=None):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        output = re.search(r"-> \((\w+):", text)[1]
        file = os.path.join(folder, "out.npy")
        status, _, err = m.pkc("run", path, *words, "--threads", "1", "-o", f"{output}={file}", env=env)
        data = pathlib.Path(file).read_bytes() if status == 0 else None
        return data, err
    for call in calls:
        plain, err = run(*call, env={"PKC_CALIBRATION": "0"})
        check(f"{call}: it runs", plain is not None, err)
        for lines in sets:
            m.write(m.made(*lines))
            data, err = run(*call)
            check(f"{os.path.basename(call[0])} {' '.join(call[1:])}: the same bits with {lines[0]} .. {lines[-1]}", data == plain and not err, err)
    m.path.unlink()


def test_busy(m):
    """While two other processes use the processors, a calibration changes nothing, and its exit status says so."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        status, out, err = m.pkc("calibrate")
    finally:
        for other in others:
            other.kill()
            other.wait()
    check("a busy machine is not calibrated", status == 6 and not out and "is busy" in err and not m.path.exists(), f"{status} {out}{err}")


def plans(m, *words, env=None):
    status, out, err = m.pkc("explain", *words, env=env)
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +([\d.]+)  ?(.*)$", out.split("\nThreads:")[-1], re.M)
    check(f"explain {' '.join(words[1:])}", status == 0 and rows, out + err)
    return [(int(a), int(t), int(c), float(s), b) for a, t, c, s, b in rows]


def test_threads(m):
    row_sum = str(ROOT / "kernels/row_sum.pk")
    calls = [(MATMUL, "M=4096", "K=512", "N=4096"), (MATMUL, "M=64", "K=64", "N=64"), (MATMUL, "M=700", "K=300", "N=900"),
             (ADD, "M=4096", "N=4096"), (row_sum, "M=8192", "N=4096"), (ADD, "M=0", "N=5"), (TRANSPOSE, "M=1", "N=1")]
    for call in calls:
        for most in (8, 64, 192):
            found = plans(m, *call, "--threads", str(most))
            if not found:
                continue
            check(f"{call} {most}: as many as asked", found[-1][0] == most and found[0][0] == 1, str(found))
            check(f"{call} {most}: one is one", found[0][1] == 1 and found[0][3] == 1, str(found))
            check(f"{call} {most}: bounds", all(t <= a and t <= max(1, c) and s <= t + 0.01 and (s <= c + 0.01 or c == 0) and s > 0
                                                for a, t, c, s, _ in found), str(found))
            check(f"{call} {most}: monotone", all(x[3] * 0.93 <= y[3] and x[1] <= y[1] for x, y in zip(found, found[1:])), str(found))
    big = {a: (t, s, b) for a, t, c, s, b in plans(m, *calls[0], "--threads", "64")}
    check("a large product uses 64 threads", big[64][0] == 64 and big[64][1] > 40, str(big))
    lines = plans(m, *calls[3], "--threads", "192")
    check("memory saturates", lines[-1][3] < 40 and any(b.startswith("memory") for *_, b in lines), str(lines))
    check("a small one stays on its thread", plans(m, *calls[1], "--threads", "64")[-1][1] <= 4)
    m.write(m.made("worth_ns=10000000", "thread_ns=300"))
    check("measured costs decide", plans(m, MATMUL, "M=512", "K=512", "N=512", "--threads", "64")[-1][1] == 1)
    m.write(m.made("worth_ns=1000", "thread_ns=100"))
    check("and the other way", plans(m, MATMUL, "M=512", "K=512", "N=512", "--threads", "2")[-1][1] == 2)
    m.path.unlink()
    for words, says in (([MATMUL], "must be given"), ([MATMUL, "M=3"], "must be given")):
        status, out, err = m.pkc("explain", *words, "--threads", "4")
        check("sizes are missing", status == 0 and "\nThreads: " in out, out + err)


def test_measured_threads(m):
    """The model against a measurement on two threads, if two processors are free: if two processes take as long as one."""
    import time

    def spin():
        return subprocess.Popen([sys.executable, "-c", "for i in range(6000000): pass"])

    def seconds(count):
        start = time.monotonic()
        for process in [spin() for _ in range(count)]:
            process.wait()
        return time.monotonic() - start
    if len(os.sched_getaffinity(0)) < 2 or min(seconds(2) for _ in range(3)) > 1.15 * min(seconds(1) for _ in range(3)):
        print("not measured: fewer than two processors are free")
        return
    for call in ((MATMUL, "M=1024", "K=512", "N=1024"), (ADD, "M=2048", "N=2048")):
        model = plans(m, *call, "--threads", "2")[-1][3]
        ms = {}
        for _ in range(3):
            for threads in (1, 2):
                _, out, _ = m.pkc("bench", *call, "--no-naive", "--json", "--min-time", "0.1", "--threads", str(threads))
                found = float(re.search(r'"best_ms": ?([\d.e+-]+)', out)[1])
                ms[threads] = min(found, ms.get(threads, found))
        real = ms[1] / ms[2]
        check(f"{call[1:]}: two threads, {real:.2f} times, the model says {model:.2f}", 0.6 <= real / model <= 1.5)


def main():
    with tempfile.TemporaryDirectory() as folder:
        m = Machine(folder)
        text, out = learn_head(m, folder)
        test_measured(out)
        test_agrees(m, out)
        plain = test_store(m)
        test_rows(m)
        test_hostile(m, plain)
        test_fuzz(m, plain)
        test_bits(m, folder)
        test_threads(m)
        test_measured_threads(m)
        test_busy(m)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
