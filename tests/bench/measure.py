"""The measuring process: it reads cases as lines of JSON on standard input, and answers each with a line on the descriptor that its first
argument names. bench.py starts it, with an environment that keeps freed pages and restricts everything to one thread."""

import ctypes
import importlib
import json
import mmap
import os
import sys
import time
from pathlib import Path

import numpy as np

import cases
import ours
import table

PEERS = ["torch", "inductor", "jax", "mkl", "onednn", "openblas", "blis", "numpy", "pallas"]
STORAGE = {
    "bf16": np.uint16,
    "f32": np.float32,
    "f16": np.float16,
    "i8": np.int8,
    "u8": np.uint8,
    "i32": np.int32,
    "u32": np.uint32,
    "i4": np.int8,
    "f8e4m3fn": np.uint8,
    "f8e8m0fnu": np.uint8,
    "f4e2m1fn": np.uint8,
    "f64": np.float64,
    "i16": np.int16,
    "i64": np.int64,
    "bool": np.bool_,
}
INTEGERS = {"i4": (-8, 8), "f4e2m1fn": (0, 256), "f8e8m0fnu": (124, 130)}  # range of integers that are not random bytes
SAMPLE_SECONDS = 2e-3  # shorter calls are timed several at a time
WARM_BEFORE = 25e-3  # samples of shorter calls begin with an untimed call
LEAST_ROUNDS, MOST_ROUNDS = 5, 300
DISAGREE = 1.1  # permitted ratio of wall to processor time
OWN = ("ours", "round", "alone")  # our contenders; alone: on one thread, in a comparison of several
REST = 0.25  # seconds before a sample with several threads, because threads of OpenMP spin for that time
HUGE_PAGE = 2 << 20


def empty(shape, dtype):
    """Aligned memory; large arrays use large pages, which shared memory would not get."""
    kind = np.dtype(STORAGE[dtype])
    count = int(np.prod(shape, dtype=np.int64))
    size = count * kind.itemsize
    if size < HUGE_PAGE:
        memory = np.zeros(size + 64, np.uint8)
        start = -memory.ctypes.data % 64
    else:
        pages = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(pages, np.uint8)
        start = -memory.ctypes.data % HUGE_PAGE
    memory = memory[start : start + size]
    memory.fill(0)
    return memory.view(kind).reshape(shape)


def fill(array, dtype, seed):
    random = np.random.default_rng(seed)
    if dtype[0] in "iu" or dtype in INTEGERS:
        low, high = INTEGERS.get(dtype) or ((-128, 128) if dtype[0] == "i" else (0, 256))
        array[...] = random.integers(low, high, array.shape, dtype=array.dtype)
        return
    if dtype == "f8e4m3fn":
        array[...] = random.integers(0, 256, array.shape, dtype=array.dtype) & 0xBF  # of at most 2
        return
    values = random.standard_normal(array.shape, dtype=np.float32)
    array[...] = to_bf16(values) if dtype == "bf16" else values


def to_bf16(values):
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_float(array, dtype):
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else array


class Problem:
    """One kernel at one set of sizes, with the data for every contender."""

    def __init__(self, native, kernel, sizes, data=None, threads=1, seed=1):
        self.native, self.kernel, self.threads = native, kernel, threads
        self.values = {**kernel.statics, **sizes}
        self.inputs, self.outputs, self.dtypes, self.bytes, self.alias = {}, {}, {}, {}, {}
        for index, (name, dtype, shape, output) in enumerate(kernel.operands(sizes)):
            self.dtypes[name] = dtype
            self.bytes[name] = int(np.prod(shape, dtype=np.int64)) * np.dtype(STORAGE[dtype]).itemsize
            if output:
                self.outputs[name], self.alias[name] = shape, kernel.alias(index)
                continue
            self.inputs[name] = empty(shape, dtype)
            fill(self.inputs[name], dtype, seed + index)
        for name, expression in (data or {}).items():
            floats = {operand: to_float(array, self.dtypes[operand]) for operand, array in self.inputs.items()}
            values = eval(expression, {"np": np, **vars(table)}, {**self.values, **floats})
            self.inputs[name][...] = to_bf16(np.float32(values)) if self.dtypes[name] == "bf16" else values

    def empties(self):
        """Memory for each output, by name."""
        return {name: empty(shape, self.dtypes[name]) for name, shape in self.outputs.items()}

    def contender(self, threads=None):
        inputs, outs = dict(self.inputs), []
        for name, out in self.empties().items():
            if self.alias[name]:
                out[...] = inputs[self.alias[name]]
                inputs[self.alias[name]] = out
            else:
                out.view(np.uint8).fill(0xFF)  # so that elements that the kernel does not write are found
            outs.append(out)
        arrays = [*inputs.values(), *outs]
        return self.kernel.caller(self.native, arrays, self.dtypes.values(), threads or self.threads), lambda: outs

    def work(self, expression):
        return int(eval(expression, {}, self.values))


def difference(got, expected, dtype, problem, terms):
    """The largest difference of an output, and its ratio to the permitted one, relative to the root mean square, with a tolerance for the errors
    of both sides."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf"), float("inf")
    got, expected = to_float(got, dtype), to_float(expected, dtype)
    if dtype[0] in "iu":
        worst = int(np.abs(got.astype(np.int64) - expected).max(initial=0))
        return worst, float("inf") if worst else 0.0
    coarsest = 2.0**-7 if "bf16" in problem.dtypes.values() else 0
    relative = 2 * (2.0**-23 * (16 + 1.25 * terms**0.5) + 2.5 * coarsest)
    rms = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64))))
    error = np.abs(got - expected)
    share = error / (relative * np.maximum(np.abs(expected), rms)) if rms > 0 else error * np.inf
    worst, ratio = float(error.max(initial=0)), float(share.max(initial=0))
    return worst, ratio if np.isfinite(ratio) else float("inf")


# ---- Time.


def sample(call, repeats):
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(repeats):
        call()
    cpu_end = time.process_time_ns()
    return (time.perf_counter_ns() - wall) / repeats * 1e-6, (cpu_end - cpu) / repeats * 1e-6


class Clock:
    """The samples of one contender, in ms."""

    def __init__(self, call, threads=1):
        self.call, self.wall, self.cpu, self.rest = call, [], [], REST if threads > 1 else 0
        one = sample(call, 1)[1] * 1e-3
        if one < WARM_BEFORE:
            one = min(one, sample(call, 1)[1] * 1e-3)
        self.repeats = max(1, int(SAMPLE_SECONDS / max(one, 1e-7)))
        self.warm = one < WARM_BEFORE or threads > 1

    def take(self):
        time.sleep(self.rest)
        if self.warm:
            self.call()
        wall, cpu = sample(self.call, self.repeats)
        self.wall.append(wall)
        self.cpu.append(cpu)


def take_rounds(clocks, seconds):
    """Runs everyone once in each round; each round begins with the next contender."""
    begun = time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() - begun > seconds:
            break
        first = number % len(clocks)
        for clock in clocks[first:] + clocks[:first]:
            clock.take()


def quartiles(values):
    return [float(q) for q in np.quantile(values, (0.25, 0.5, 0.75))]


def figures(samples):
    low, median, high = quartiles(samples)
    return {"best": min(samples), "median": median, "low": low, "high": high, "spread": (high - low) / median}


def disagreement(clocks):
    """The greatest ratio of wall time to processor time of all contenders."""
    ratios = [sum(clock.wall) / max(sum(clock.cpu), 1e-9) for clock in clocks]
    return max(ratios, key=lambda ratio: abs(np.log(ratio)))


def drop_engines(clocks, unit, least, failed):
    """Peers that are faster than the vector unit can be, by more than the noise: no setting kept them from the matrix engine."""
    for name in [name for name in clocks if name not in OWN]:
        if min(getattr(clocks[name], unit)) * 1.2 < least:
            del clocks[name]
            failed[name] = "uses the matrix engine"


def compare(clock, other, unit):
    """The other's time divided by ours: of the best times, and the quartiles over rounds."""
    mine, theirs = getattr(clock, unit), getattr(other, unit)
    low, median, high = quartiles([t / m for t, m in zip(theirs, mine)])
    best = min(theirs) / min(mine)
    clear = min(best, low) > 1 or max(best, high) < 1
    return {"ratio": best, "low": low, "median": median, "high": high, "clear": clear}


# ---- The machine.


class Machine:
    def __init__(self, native):
        self.native = native
        for name in ("f32", "bf16", "i8"):
            getattr(native, f"bench_{name}_rate").restype = ctypes.c_double
        native.bench_memory_rate.restype = ctypes.c_double
        native.bench_memory_rate.argtypes = [ctypes.c_int64, ctypes.c_int]

    def rates(self):
        """The rate of one core in 1e9 operations a second. It varies with the clock, so each case has its own."""
        return {name: getattr(self.native, f"bench_{name}_rate")() for name in ("f32", "bf16", "i8")}

    def memory_rate(self, problem):
        """The bandwidth for a working set as large as the operands; only for reading if little is written."""
        total, written = sum(problem.bytes.values()), sum(problem.bytes[name] for name in problem.outputs)
        return self.native.bench_memory_rate(min(max(total, 1 << 14), 1 << 28), int(written * 8 > total))

    def bound(self, problem, flops, rates, gbytes):
        """The least possible time in ms by arithmetic and by memory, if each operand is moved once. The bandwidth is that of one core."""
        total = sum(problem.bytes.values())
        dtype = next(iter(problem.dtypes.values()))
        rate = max(rates["f32"], rates.get(dtype, 0)) * problem.threads
        return {"arithmetic": flops / rate * 1e-6, "memory": total / gbytes * 1e-6, "gflops": rate, "gbytes": gbytes}


# ---- Cases.


def load_peers(wanted):
    found, missing = {}, {}
    for name in PEERS:
        if wanted is not None and name not in wanted:
            continue
        try:
            peer = importlib.import_module(f"peers.{name}")
            found[name] = peer, peer.version()
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
    return found, missing


def contenders(case, problem, peers):
    """Maps a name to (call, result), or to the reason why there is none."""
    ready, failed = {"ours": problem.contender()}, {}
    for name, expression in case.expressions.items():
        if name not in peers:
            continue
        try:
            ready[name] = peers[name][0].prepare(expression, problem)
            ready[name][0]()
        except Exception as error:
            ready.pop(name, None)
            failed[name] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
    return ready, failed


def verify(ready, problem, terms):
    """Peers return their outputs in the order of the kernel; None stands for an output that a peer does not compute."""
    ready["ours"][0]()
    ours_too = ready["ours"][1]()
    checks = {}
    for name, (call, result) in ready.items():
        if name == "ours":
            continue
        call()
        found = result()
        pairs = [
            difference(got, np.ascontiguousarray(expected), problem.dtypes[output], problem, terms)
            for output, got, expected in zip(problem.outputs, ours_too, found, strict=True)
            if expected is not None
        ]
        worst, share = (max(column) for column in zip(*pairs))
        checks[name] = {"max_difference": worst, "of_allowed": share, "ok": share <= 1}
    return checks


def measure(case, libraries, machine, peers, seconds, setting):
    threads = setting["threads"]
    kernel = ours.Kernel(libraries["ours"], case.kernel)
    work = cases.KERNELS[case.kernel]
    problem = Problem(machine.native, kernel, case.sizes, work.data, threads)
    ready, failed = contenders(case, problem, peers)
    checks = verify(ready, problem, problem.work(work.terms))
    clocks = {name: Clock(call, threads) for name, (call, _) in ready.items() if name == "ours" or checks[name]["ok"]}
    answer = {"name": case.name, "checks": checks, "failed": failed, "flops": problem.work(work.flops)}
    if case.round:
        neighbour = Problem(machine.native, ours.Kernel(libraries["round"], case.kernel), case.round, work.data, threads)
        clocks["round"] = Clock(neighbour.contender()[0], threads)
    if threads > 1:
        clocks["alone"] = Clock(problem.contender(threads=1)[0], threads)
    before, gbytes = machine.rates(), machine.memory_rate(problem)
    take_rounds(list(clocks.values()), seconds)
    rates = {name: max(rate, before[name]) for name, rate in machine.rates().items()}
    gbytes = max(gbytes, machine.memory_rate(problem))
    apart = disagreement(clocks.values())
    unit = "cpu" if threads == 1 and max(apart, 1 / apart) > DISAGREE else "wall"
    answer.update(bytes=sum(problem.bytes.values()), rates=rates, bound=machine.bound(problem, answer["flops"], rates, gbytes))
    if setting["no_amx"] and answer["flops"]:
        drop_engines(clocks, unit, answer["bound"]["arithmetic"], failed)
    answer.update(clock=unit, disagreement=apart, rounds=len(clocks["ours"].wall))
    answer["times"] = {
        name: {"wall": figures(clock.wall), "cpu": figures(clock.cpu), "repeats": clock.repeats} for name, clock in clocks.items()
    }
    answer["ratios"] = {
        name: compare(clocks["ours"], clock, unit) for name, clock in clocks.items() if name not in OWN
    }
    if threads > 1:
        answer["alone"] = compare(clocks["ours"], clocks["alone"], unit)
    if case.round:
        answer["round_bound"] = machine.bound(neighbour, neighbour.work(work.flops), rates, gbytes)
        answer["round"] = compare(clocks["ours"], clocks["round"], unit)
    return answer


def main():
    answers = os.fdopen(int(sys.argv[1]), "w")
    setting = json.loads(sys.stdin.readline())
    native = ctypes.CDLL(setting["native"])
    machine = Machine(native)
    peers, missing = load_peers(setting["peers"])
    versions = {name: version for name, (_, version) in peers.items()}

    def say(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    say({"peers": versions, "missing": missing, "numpy": np.__version__})
    table = {case.name: case for case in cases.CASES}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = measure(table[request["name"]], request["libraries"], machine, peers, request["seconds"], setting)
        except Exception as error:
            answer = {"name": request["name"], "error": f"{type(error).__name__}: {error}"}
        say(answer)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
