#!/usr/bin/env python3
"""Random kernels with copies by hand, and with aliases: `pkc check` finds a race exactly if a simple model does.

The model of copies uses sets of elements. It takes a copy as finished if every set of copies whose bytes reach those of the waits contains
it; without a finding, the printed sums do not depend on the time at which copies move their data. The model of the grid's pipeline
compares times, that of cores compares rows. Program N is always the same text.
usage: races.py [FIRST COUNT]; prints "N passed, N failed".
"""
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

from suite import PKC

ROWS, COLUMNS = 6, 8
KEYS = {"file", "line", "column", "kind", "message", "grid_step", "operand", "count", "notes"}
MODES = (["--dma=wait"], ["--dma=start"], ["--dma=random", "--seed=1"], ["--dma=random", "--seed=2"])


class Window:
    """The window of rows first, first + stride, .. and columns low..high of `name`."""

    def __init__(self, draw, name, rows=None, columns=None):
        self.name = name
        self.rows = rows or draw.randint(1, ROWS // 2)
        self.stride = draw.randint(1, 2) if self.rows > 1 else 1
        self.columns = columns or draw.choice((2, 4, COLUMNS))
        self.first = draw.randint(0, ROWS - (self.rows - 1) * self.stride - 1)
        self.low = draw.randint(0, COLUMNS - self.columns)

    def text(self):
        step = f", {self.stride}" if self.stride > 1 else ""
        return f"{self.name}[ds({self.first}, {self.rows}{step}), {self.low}:{self.low + self.columns}]"

    def elements(self):
        rows = range(self.first, self.first + self.rows * self.stride, self.stride)
        return {(self.name, r, c) for r in rows for c in range(self.low, self.low + self.columns)}


class Copy:
    def __init__(self, draw):
        self.source = Window(draw, draw.choice(("x", "a", "b")))
        self.target = Window(draw, draw.choice(("a", "b")), self.source.rows, self.source.columns)
        while self.target.name == self.source.name:
            self.target = Window(draw, draw.choice(("a", "b")), self.source.rows, self.source.columns)
        self.semaphore = draw.randint(0, 1)
        self.bytes = 4 * self.source.rows * self.source.columns
        self.text = f"async_copy({self.source.text()} -> {self.target.text()}, s[{self.semaphore}])"


def over(started, taken):
    """The copies that are in every set with at least this number of bytes."""
    sets = [c for n in range(len(started) + 1) for c in itertools.combinations(started, n)]
    enough = [c for c in sets if sum(copy.bytes for copy in c) >= taken]
    return [copy for copy in started if all(copy in c for c in enough)]


class Copies:
    """The copies, waits, loads and stores of one step."""

    finding, options = "race:", []

    def __init__(self, draw):
        self.lines, self.race = [], False
        self.started, self.taken, self.over, unwaited = [[], []], [0, 0], [], []
        for _ in range(draw.randint(4, 14)):
            kind = draw.choice("sswwlt")
            if kind == "s" and len(unwaited) < 5:
                copy = Copy(draw)
                self.touch(copy.source.elements(), False)
                self.touch(copy.target.elements(), True)
                self.started[copy.semaphore].append(copy)
                unwaited.append(copy)
                self.lines.append(f"{copy.text}.start();")
            elif kind == "w" and unwaited:
                self.wait(unwaited.pop(draw.randrange(len(unwaited))))
            elif kind in "lt":
                window = Window(draw, draw.choice("ab"))
                self.touch(window.elements(), kind == "t")
                text = window.text()
                self.lines.append(f"{text} = {draw.randint(1, 99)};" if kind == "t" else f"sum[...] += reduce_sum({text}, axis = (0, 1));")
        for copy in unwaited:
            self.wait(copy)

    def wait(self, copy):
        self.taken[copy.semaphore] += copy.bytes
        self.over += over(self.started[copy.semaphore], self.taken[copy.semaphore])
        self.lines.append(f"{copy.text}.wait();")

    def touch(self, elements, writes):
        for copy in self.started[0] + self.started[1]:
            others = copy.target.elements() | (copy.source.elements() if writes else set())
            self.race = self.race or (copy not in self.over and bool(elements & others))

    def text(self):
        shape = f"i32[{ROWS}, {COLUMNS}]"
        body = "\n  ".join(self.lines)
        return f"""kernel races(x: {shape}) -> (o: i32[1, 1]) {{
  block x: any;
  scratch a: vmem {shape}, b: vmem {shape}, sum: vmem i32[1, 1], s: sem dma[2];
  a[...] = 1000;
  b[...] = 2000;
  sum[...] = 0;
  {body}
  o[...] = sum[...] + reduce_sum(a[...] + 3 * b[...], axis = (0, 1));
  print("{{}}", o[0, 0]);
}}
"""


def choose(rows):
    """An expression of the axis i whose value is rows[i]."""
    text = str(rows[-1])
    for step, row in enumerate(rows[:-1]):
        text = f"where(i == {step}, {row}, {text})"
    return text


class Cores:
    """Steps along a parallel axis, each of which reads and writes rows of an output in HBM."""

    finding = "in the parallel axis"

    def __init__(self, draw):
        cells = draw.randint(1, 5)
        self.reads = [draw.randrange(9) for _ in range(cells)]
        self.writes = [draw.randrange(9) for _ in range(cells)]
        self.cores = draw.choice((1, 2, 3, cells))
        core = [cell // -(-cells // self.cores) for cell in range(cells)]
        self.race = any(
            core[a] != core[b] and self.writes[a] in (self.reads[b], self.writes[b]) for a in range(cells) for b in range(cells))
        self.options = [] if self.cores == cells else [f"--cores={self.cores}"]

    def text(self):
        return f"""kernel cores(x: i32[1, 8]) -> (o: i32[9, 8]) {{
  grid (i in {len(self.reads)} parallel);
  block o: any;
  scratch a: vmem i32[1, 8], b: vmem i32[1, 8], s: sem dma;
  a[...] = x[...];
  let get = async_copy(o[ds({choose(self.reads)}, 1), :] -> b[...], s);
  get.start();
  get.wait();
  let put = async_copy(a[...] -> o[ds({choose(self.writes)}, 1), :], s);
  put.start();
  put.wait();
}}
"""


class Aliased:
    """A grid that reads and writes rows of one array under two names."""

    finding, options = "through an alias", []

    def __init__(self, draw):
        steps = draw.randint(1, 7)
        self.fetched = [draw.randrange(4) for _ in range(steps)]
        self.written = [draw.randrange(4) for _ in range(steps)]
        self.ahead, self.slow = draw.randint(1, 4), draw.randint(0, 1)
        self.race = any(
            row == other and t < s and 2 * (t + self.slow) + 1 >= 2 * (s - self.ahead + 1)
            for s, row in enumerate(self.fetched) if s == 0 or row != self.fetched[s - 1]
            for t, other in enumerate(self.written) if t + 1 == steps or other != self.written[t + 1])

    def text(self):
        return f"""kernel aliased(x: i32[4, 8]) -> (o: i32[4, 8]) {{
  grid (i in {len(self.fetched)} arbitrary);
  block x: [1, 8] at ({choose(self.fetched)}, 0) buffers {self.ahead};
  block o: [1, 8] at ({choose(self.written)}, 0) buffers {self.slow + 1};
  alias o = x;
  o[...] = x[...];
}}
"""


def failure(number, path):
    draw = random.Random(number)
    program = (Copies, Aliased, Copies, Cores)[number % 4](draw)
    with open(path, "w") as file:
        file.write(program.text())
    runs = [subprocess.run([PKC, "check", path, "x=iota", *mode, *program.options], capture_output=True, text=True) for mode in MODES]
    for run, mode in zip(runs, MODES):
        if (program.finding in run.stderr) != program.race or (number % 2 == 0 and run.returncode != 3 * program.race):
            return f"{mode}: {'a race' if program.race else 'no race'} expected: {run.stderr}"
        if run.returncode == 0 and run.stdout != runs[0].stdout:
            return f"{mode}: {run.stdout} is not {runs[0].stdout}"
    found = subprocess.run([PKC, "check", path, "x=iota", "--json", *program.options], capture_output=True, text=True).stdout
    findings = [json.loads(line) for line in found.splitlines()]
    if any(program.finding in f["message"] for f in findings) != program.race or any(set(f) != KEYS for f in findings):
        return f"--json: {found}"
    return None


def main():
    first, count = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (0, 100)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            wrong = failure(number, os.path.join(folder, "races.pk"))
            if wrong:
                failed += 1
                print(f"FAIL program {number} of tests/races.py: {wrong}; reproduce: tests/races.py {number} 1")
    print(f"{count - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
