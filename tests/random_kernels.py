#!/usr/bin/env python3
"""Random kernels from the grammar: compiled C and the interpreter against a NumPy twin.

    tests/random_kernels.py [--seed S] [--first K] [--count N] [--seconds T] [--jobs J] [--targets A,B] [--compilers gcc,clang] [--only KIND]
    tests/random_kernels.py --print [--only KIND] [--seed S] [--first K] [--count N]
    tests/random_kernels.py --summary

Kernel number K of seed S is always the same text. Kernels are valid: the twin (tests/randomized/evaluator.py), which tracks unspecified
elements, has run each of them. A batch is compiled into one program; seed and batch determine the compiler, the target and the number of
threads. Some kernels are also compiled with optimisation. A failure is reduced and written to build/random/KIND-S-K.pk with the command
that reproduces it, and printed as a line. Each batch adds a line to a log, build/random/log.jsonl; --summary adds up all lines.

Kinds of failures: refused (by the front end), internal (pkc aborts), hang, c-compiler, crash, status (a call is refused), compiled and
interpreter (results that differ from the twin's), finding (the interpreter reports something). Ends with "N passed, N failed".
"""
import argparse
import collections
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from randomized import generator, lengths, meshes, programs, reducer, rows, runner, tree  # noqa: E402
from sampling import most  # noqa: E402

KINDS = {"rows": rows, "lengths": lengths, "programs": programs, "meshes": meshes, "any": generator}
SHARES = {"programs": 0.05, "meshes": 0.1, "rows": 0.2, "lengths": 0.27}  # cumulative shares of the kinds; the rest is of any kind
FOLDER = os.path.join(runner.BUILD, "random")


def draw(seed, number, avoid, only=None):
    """A kernel of any kind, or of one."""
    what = random.Random(f"what:{seed}:{number}").random()
    kind = only or next((kind for kind, up_to in SHARES.items() if what < up_to), "any")
    return KINDS[kind].case(seed, number, avoid)


def run_batch(job):
    """(counts of kernels and calls, failures as records) of kernels [first, first + count)."""
    seed, first, count, options = job
    start = time.monotonic()
    config, more = runner.random_configs(seed, first, options.targets, options.compilers, options.cross)
    result = {"first": first, "count": count, "calls": 0, "config": str(config), "failures": [], "generated": 0}
    folder = tempfile.mkdtemp(prefix="random_")
    try:
        cases = [draw(seed, n, options.avoid, options.only) for n in range(first, first + count)]
        result["generated"] = time.monotonic() - start
        batches = [runner.Batch(cases, config, folder)]
        if more:
            some = cases[::max(1, len(cases) // runner.OPTIMISED_KERNELS)]
            batches.append(runner.Batch(some, more, folder))
            result.update(optimised=str(more), optimised_count=len(some))
        failures = batches[0].run() + [f for b in batches[1:] for f in b.run(runner.OF_C)]
        result["calls"] = sum(b.calls for b in batches)
        seen = set()
        for f in failures:
            if f.case.kernel.name not in seen:
                seen.add(f.case.kernel.name)
                result["failures"].append(report(f, seed, options, folder))
    except Exception as e:  # a fault of the generator: name the batch
        result["failures"].append({"kind": "generator", "kernel": first, "file": "", "message": f"{type(e).__name__}: {e}",
                                   "config": str(config)})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return dict(result, seconds=time.monotonic() - start)


def report(failure, seed, options, folder):
    number = int(failure.case.kernel.name[1:])
    if options.reduce and isinstance(failure.case.kernel, tree.Kernel):
        failure = reducer.reduce(failure, folder, options.reduce)
    path = os.path.join(FOLDER, f"{failure.kind}-{seed}-{number}.pk")
    os.makedirs(FOLDER, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(reducer.reproducer(failure, seed, number, path))
    return {"kind": failure.kind, "kernel": number, "file": path, "message": failure.message, "config": str(failure.config)}


def way(config):
    """Target, compiler and optimisation."""
    return config.rsplit(" ", 2)[0]


def summary(log):
    counts, kinds, seconds, configs = collections.Counter(), collections.Counter(), 0.0, collections.Counter()
    with open(log, encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            counts["kernels"] += record["count"]
            counts["calls"] += record["calls"]
            seconds += record["seconds"]
            configs[way(record["config"])] += record["count"]
            if "optimised" in record:
                configs[way(record["optimised"])] += record["optimised_count"]
            for f in record["failures"]:
                kinds[f["kind"]] += 1
    print(f"{counts['kernels']} kernels, {counts['calls']} calls, {seconds / 3600:.2f} hours of one core")
    for config, n in sorted(configs.items()):
        print(f"  {config}: {n} kernels")
    for kind, n in sorted(kinds.items()):
        print(f"  {kind}: {n} failures")


def arguments():
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, help="(1000; of samples fewer)")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no batch after this time")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("PKC_JOBS", "2")))
    parser.add_argument("--only", choices=KINDS, help="kernels of one kind: rows (few cells of many rows, which threads cut into parts), programs, meshes")
    parser.add_argument("--batch", type=int, default=240, help="kernels that are compiled in one way")
    parser.add_argument("--targets", default="", help="default: all that this machine can run")
    parser.add_argument("--compilers", default="gcc,clang", help="one for each batch, mostly clang, which takes half the time")
    parser.add_argument("--cflags", default="", help="more flags of the C compiler, such as those of a sanitizer that PKC_LIBRARY is built with")
    parser.add_argument("--cross", action="store_true", help="also aarch64 under qemu (requires build/aarch64/libpkrt.a)")
    parser.add_argument("--with", dest="known", default="", help="write what is left out because of known faults: " +
                        ", ".join(generator.KNOWN))
    parser.add_argument("--reduce", type=float, default=120, help="seconds for reducing a failure; 0 for none")
    parser.add_argument("--log", default=os.path.join(FOLDER, "log.jsonl"), help="(build/random/log.jsonl)")
    parser.add_argument("--print", action="store_true", help="print the kernels, run nothing")
    parser.add_argument("--summary", action="store_true", help="print what all runs so far have counted")
    options = parser.parse_args()
    if options.count is None:
        options.count = 200 if options.print or options.summary else most(1000, 300, 20, "kernels")
    known = [n for n in options.known.split(",") if n]
    for n in known:
        if n not in generator.KNOWN and n != "all":
            parser.error(f"--with {n}: no such switch")
    options.avoid = () if "all" in known else tuple(n for n in generator.KNOWN if n not in known)
    options.targets = options.targets.split(",") if options.targets else sorted(runner.machine_targets())
    options.compilers = [c for c in options.compilers.split(",") if shutil.which(c)]
    runner.MORE_FLAGS += options.cflags.split()
    return options


def main():
    options = arguments()
    if options.summary:
        return summary(options.log)
    numbers = range(options.first, options.first + options.count)
    if options.print:
        for n in numbers:
            print(tree.kernel_text(draw(options.seed, n, options.avoid, options.only).kernel))
        return 0
    jobs = [(options.seed, n, min(options.batch, numbers.stop - n), options) for n in numbers[::options.batch]]
    start, done, failed, calls = time.monotonic(), 0, 0, 0
    version = runner.version()

    def in_time():
        for job in jobs:
            if time.monotonic() - start > options.seconds:
                return
            yield job
    with multiprocessing.Pool(options.jobs) as pool:
        results = pool.imap_unordered(run_batch, in_time()) if options.seconds >= 1e9 else paced(pool, in_time(), options.jobs)
        for result in results:
            done, calls, failed = done + result["count"], calls + result["calls"], failed + len(result["failures"])
            runner.log_line(options.log, dict(result, seed=options.seed, version=version, time=int(time.time())))
            for f in result["failures"]:
                print(f"{f['kind'].upper()} kernel {f['kernel']} of seed {options.seed} ({f['config']}): {f['message']}; see {f['file']}",
                      flush=True)
    seconds = time.monotonic() - start
    print(f"seed {options.seed}: {done} kernels, {calls} calls of compiled code in {seconds:.0f} s, {done / max(seconds, 1e-9):.2f} kernels/s")
    print(f"{done - failed} passed, {failed} failed")
    return 1 if failed else 0


def paced(pool, jobs, most):
    """Like imap_unordered, but takes a job only when a worker is free."""
    running = []
    for job in jobs:
        running.append(pool.apply_async(run_batch, (job,)))
        while len(running) >= most:
            ready = [x for x in running if x.ready()]
            for x in ready:
                running.remove(x)
                yield x.get()
            if not ready:
                time.sleep(0.05)
    for x in running:
        yield x.get()


if __name__ == "__main__":
    sys.exit(main())
