#!/usr/bin/env python3
"""Times the kernels and every installed peer: `make bench`. docs/performance.md explains the results."""

import argparse
import datetime
import json
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # files are written to build/ only

import cases
import kept
import ours
import pages
import report

HERE = Path(__file__).resolve().parent
FULL_SECONDS, QUICK_SECONDS = 6.0, 1.5
START_LIMIT, CASE_LIMIT = 180, 600  # seconds; a case that takes longer is given up

# Freed pages stay with the process, so that no contender pays for page faults; all allocations use large pages.
WARM = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_TOP_PAD_": str(64 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
# Peers without a matrix engine, for comparison with machines that have none.
NO_ENGINE = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512"}


class Died(Exception):
    pass


def environment(options):
    """The environment of the measuring process. XLA uses as many threads as cores are allowed, or one."""
    xla = ["--xla_cpu_multi_thread_eigen=false"] if options.threads == 1 else []
    xla += ["--xla_cpu_max_isa=AVX512"] if options.no_amx else []
    threads = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "MKL", "OPENBLAS", "BLIS")}
    threads["MKL_THREADING_LAYER"] = "SEQUENTIAL" if options.threads == 1 else "GNU"
    engine = NO_ENGINE if options.no_amx else {}
    return {**os.environ, **WARM, **QUIET, **threads, **engine, "XLA_FLAGS": " ".join(xla)}


class Worker:
    """The measuring process, which is restarted if a case ends it."""

    def __init__(self, options, native):
        self.options, self.native, self.process, self.about = options, native, None, {}

    def start(self):
        read_end, write_end = os.pipe()
        pin = []
        if self.options.cpu != "none" and shutil.which("taskset"):
            pin = ["taskset", "-c", self.options.cpu]
        self.process = subprocess.Popen(
            [*pin, self.options.python, HERE / "measure.py", str(write_end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=None if self.options.verbose else subprocess.DEVNULL,
            pass_fds=[write_end],
            env=environment(self.options),
            cwd=ours.ROOT,
            text=True,
        )
        os.close(write_end)
        self.answers, self.pending = read_end, b""
        setting = {"native": str(self.native), "peers": self.options.peers, "no_amx": self.options.no_amx, "threads": self.options.threads}
        self.about = self.ask(setting, START_LIMIT)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            os.close(self.answers)
            self.process = None

    def read_line(self, limit):
        end = time.monotonic() + limit
        while b"\n" not in self.pending:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise Died(f"no answer in {limit:.0f} s")
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise Died(f"the measuring process ended with status {self.process.wait()}")
            self.pending += part
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def ask(self, request, limit):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return self.read_line(limit)
        except (Died, BrokenPipeError) as error:
            self.stop()
            raise Died(str(error))

    def measure(self, case, libraries, seconds):
        if not self.process:
            self.start()
        request = {"name": case.name, "libraries": {k: str(v) for k, v in libraries.items()}, "seconds": seconds}
        return self.ask(request, CASE_LIMIT)


def build(case, options):
    libraries = {"ours": ours.build_kernel(options.build, case.kernel, case.statics)}
    if case.round:
        statics = case.statics if case.round_statics is None else case.round_statics
        libraries["round"] = ours.build_kernel(options.build, case.kernel, statics)
    return libraries


def run_case(case, options, worker):
    try:
        answer = worker.measure(case, build(case, options), options.seconds)
    except (ours.BuildError, Died) as error:
        answer = {"name": case.name, "error": str(error)}
    described = {"kernel": case.kernel, "sizes": case.sizes, "statics": case.statics, "goal": case.goal}
    counted = case.counted and not (options.matrix_engine and case.dtype in ("bf16", "i8"))
    return {
        **described,
        "counted": counted,
        "threads": options.threads,
        "round_sizes": case.round,
        "round_statics": case.round_statics,
        "dtype": case.dtype,
        **answer,
    }


def processor():
    """Returns (model, whether it has a matrix engine)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine(), False
    about = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return about.get("model name", platform.machine()), "amx_tile" in about.get("flags", "").split()


def machine():
    """The key of the processor for kept results: names such as AMD EPYC denote several models."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return processor()[0]
    about = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    exact = [f"{key.split()[-1]} {about[key]}" for key in ("cpu family", "model", "CPU part") if key in about]
    return f"{processor()[0]} ({', '.join(exact)})" if exact else processor()[0]


def compiler():
    return ours.command([*os.environ.get("CC", "cc").split(), "--version"]).splitlines()[0]


def describe(worker, options, load):
    model, _ = processor()
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "matrix_engine": options.matrix_engine,
        "no_amx": options.no_amx,
        "system": platform.system(),
        "compiler": compiler(),
        "load": load,
        "peers": worker.about.get("peers", {}),
        "missing": worker.about.get("missing", {}),
        "seconds": options.seconds,
        "threads": options.threads,
    }


def show(text):
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\033[K{text[: width - 1]}")
        sys.stderr.flush()


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--case", action="append", metavar="TEXT", help="only cases whose names contain TEXT (may be repeated)")
    parser.add_argument("--goals", action="store_true", help="only the cases with a goal")
    parser.add_argument("--odd", action="store_true", help="only the odd sizes")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SECONDS} instead of {FULL_SECONDS} s of rounds a case")
    parser.add_argument(
        "--peer", action="append", dest="peers", metavar="NAME", help="only this peer (may be repeated; none: no peer)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a chart of the ratios")
    parser.add_argument("--build", type=Path, default=ours.ROOT / "build", metavar="DIR", help="where pkc and libpkrt.a are")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of every contender; ours is also run on one")
    parser.add_argument("--cpu", metavar="N[,N...]", help="the cores to stay on (none: any; default: the last, one a thread)")
    parser.add_argument("--no-amx", action="store_true", help="peers leave the matrix engine alone, and bf16 and i8 are counted")
    parser.add_argument("--python", default=sys.executable, metavar="PROGRAM", help="the Python that has the peers")
    parser.add_argument("--keep", action="store_true", help="keep the results in docs/performance/, for this model of processor, and renew docs/performance.md")
    parser.add_argument("--edges", action="store_true", help="instead of the cases, time each regime of products and transposes with and without it (pkc calibrate --edges)")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--verbose", action="store_true", help="show what peers say on standard error")
    options = parser.parse_args(words)
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= options.threads <= len(cores):
        parser.error(f"--threads: 1 to {len(cores)}, the number of cores")
    options.cpu = options.cpu or ",".join(map(str, cores[-options.threads :]))
    options.seconds = QUICK_SECONDS if options.quick else FULL_SECONDS
    options.build = options.build.resolve()
    options.matrix_engine = processor()[1] and not options.no_amx
    return options


def kept_rows(results):
    today, revision, rows = datetime.date.today(), kept.commit(), {}
    for case in results["cases"]:
        if not report.verified(case) or case["clock"] != "wall":
            continue
        peer = report.best_peer(case)
        found = case["ratios"][peer] if peer else None
        rows[report.title(case)] = kept.row_of(case, report.time_of(case, "ours")["best"], peer, found, today, revision)
    return rows


def choose(options):
    chosen = cases.GOALS if options.goals else cases.ODD if options.odd else cases.CASES
    if options.case:
        chosen = [case for case in chosen if any(text in case.name for text in options.case)]
    return chosen


def run(options, chosen):
    worker = Worker(options, ours.build_native(options.build))
    load, results = [os.getloadavg()[0]], []
    try:
        worker.start()
        for number, case in enumerate(chosen):
            show(f"{number + 1}/{len(chosen)} {case.name}")
            results.append(run_case(case, options, worker))
            load.append(os.getloadavg()[0])
            show("")
            print(report.line(results[-1]), flush=True)
            save(options.json, describe(worker, options, load), results)
    except (KeyboardInterrupt, SystemExit):
        print("interrupted: what was measured so far", file=sys.stderr)
    finally:
        worker.stop()
    return {"machine": describe(worker, options, load), "cases": results}


def save(path, machine, results):
    write(path, json.dumps({"machine": machine, "cases": results}, indent=1) + "\n")


def write(path, text):
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the measuring process ends too
    options = parse(words)
    chosen = choose(options)
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not chosen:
        sys.exit("bench: no case of that name (--list shows them)")
    for needed in ("pkc", "libpkrt.a"):
        if not (options.build / needed).exists():
            sys.exit(f"bench: {options.build / needed} is missing: run make first")
    if options.edges:
        return subprocess.run([options.build / "pkc", "calibrate", "--edges"]).returncode
    if subprocess.run([options.python, "-c", "import numpy"], capture_output=True).returncode != 0:
        sys.exit(f"bench: {options.python} has no NumPy: run `make bench-peers`, or install python3-numpy")
    before = kept.read(machine())
    print(kept.provenance(machine(), before, datetime.date.today()), flush=True)
    try:
        results = run(options, chosen)
    except (ours.BuildError, Died) as error:
        sys.exit(f"bench: {error}")
    if text := report.summary(results):
        print(text)
    rows = kept_rows(results)
    for line in kept.changes(before, rows):
        print(line)
    if options.keep:
        busy = [report.title(case) for case in results["cases"] if case.get("clock", "wall") != "wall"]
        if busy:
            print(f"not kept, because the machine was busy: {', '.join(busy)}")
        kept.keep(machine(), rows)
        pages.write()
    write(options.markdown, report.markdown(results))
    write(options.svg, report.chart(results))
    return 0 if all(report.verified(case) for case in results["cases"]) else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
