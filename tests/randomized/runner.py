"""Runs a batch of kernels: front end, interpreter, compiled C in one program; compares each with the results of the twin."""
import json
import os
import random
import re
import signal
import struct
import subprocess

import numpy as np

from . import tree
from .evaluator import shape_of, sizes_of
from .inputs import make
from .types import DTYPES, decode, encode, is_float, kept_nans, pack, unpack

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
PKC = os.environ.get("PKC", os.path.join(BUILD, "pkc"))
MANY = os.path.join(os.path.dirname(PKC), "tests", "many")  # made by `make unit`
OTHER_BITS, OTHER_BITS_APART, BESIDE = 200, 201, 202  # the exit status of harness.c
MORE_FLAGS = []  # flags of the C compiler, for all batches
C_SECONDS = 600  # seconds for the C compiler, on a busy machine

X86 = {"zen5": "-march=x86-64-v4 -mavx512vnni -mavx512bf16", "zen4": "-march=x86-64-v4 -mavx512vnni -mavx512bf16", "x86-64-v4-vnni": "-march=x86-64-v4 -mavx512vnni",
       "x86-64-v4": "-march=x86-64-v4", "x86-64-v3": "-march=x86-64-v3", "x86-64-v3-vnni": "-march=x86-64-v3 -mavxvnni",
       "x86-64-v4-amx": "-march=x86-64-v4 -mavx512vnni -mavx512bf16 -DPK_AMX_EMULATED",
       "x86-64-v2": "-march=x86-64-v2", "generic": "-march=x86-64 -DSIMDE_NO_NATIVE"}
ARM = {"aarch64": "-march=armv8-a", "aarch64-dotprod": "-march=armv8.2-a+dotprod", "aarch64-i8mm": "-march=armv8.2-a+dotprod+i8mm+bf16", "generic": "-DSIMDE_NO_NATIVE"}
FEATURES = {"zen5": "avx512_bf16", "zen4": "avx512_bf16", "x86-64-v4-vnni": "avx512_vnni", "x86-64-v4": "avx512vl", "x86-64-v3": "avx2",
            "x86-64-v3-vnni": "avx_vnni", "x86-64-v2": "sse4_2", "x86-64-v4-amx": "avx512_bf16"}


def machine_targets():
    """Targets that this machine can run, with the flags of their C."""
    if os.uname().machine == "aarch64":
        return dict(ARM)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        features = set(next((line for line in file if line.startswith("flags")), "").split())
    return {n: f for n, f in X86.items() if n not in FEATURES or FEATURES[n] in features}


class Config:
    """How a batch is compiled and run."""

    def __init__(self, target, cc="gcc", optimise="-O1", literal=False, threads=1, linked=False, divided=False):
        self.target, self.cc, self.optimise, self.literal, self.threads = target, cc, optimise, literal, threads
        self.divided = divided  # every cell is divided into functions, not only long ones
        self.linked = linked and os.path.exists(self.micro)

    def words(self):
        return [f"--target={self.target}"] + ["--dma=literal"] * self.literal + ["--long-cell=1"] * self.divided

    def __str__(self):
        return " ".join([self.target, self.cc, self.optimise] + ["linked"] * self.linked + ["divided"] * self.divided + [
            "literal" if self.literal else "direct", f"threads={self.threads}"])

    @property
    def cross(self):
        return self.cc.startswith("aarch64-linux-gnu")

    @property
    def micro(self):
        """The library of micro-kernels, which `make micro` builds."""
        return os.path.join(BUILD, f"libpkrt_{self.target}.a")

    @property
    def most(self):
        """The number of kernels in one C file, limited with optimisation because of memory."""
        return 300 if self.optimise == "-O0" else 20

    def flags(self):
        flags = (ARM if self.cross else machine_targets())[self.target].split()
        flags += ["-DPK_OUTLINE"] if self.optimise == "-O0" else []
        return flags + MORE_FLAGS + (["-DPK_MICRO=" + self.target.replace("-", "_")] if self.linked else [])

    def libraries(self):
        if self.cross:
            return [os.path.join(ROOT, "build/aarch64/libpkrt.a"), "-lm", "-static"]
        library = os.environ.get("PKC_LIBRARY") or os.path.join(BUILD, "libpkrt.a")
        return ([self.micro] if self.linked else []) + [library, "-lm"]


# A batch is compiled in the cheapest way: without inlining, without optimisation, mostly by clang, which takes half the time. A few kernels of
# some batches are compiled with optimisation too, which takes twenty times as long for each.
CHEAP = [("clang", "-O0")] * 12 + [("gcc", "-O0")]
OPTIMISED = [("clang", "-O1")] * 2 + [("gcc", "-O1"), ("gcc", "-O2")]
OPTIMISED_BATCHES, OPTIMISED_KERNELS = 0.3, 6


def random_configs(seed, number, targets, compilers, cross=False):
    """How the batch that begins with this kernel is compiled, and how a few of its kernels are compiled again, or None."""
    r = random.Random(f"config:{seed}:{number}")

    def one(ways):
        threads, literal = r.choice([1, 2, 2, 3, 4]), r.random() < 0.2
        cc, optimise = r.choice([way for way in ways if way[0] in compilers] or [(c, ways[0][1]) for c in compilers])
        return Config(r.choice(targets), cc, optimise, literal, threads, r.random() < 0.5, r.random() < 0.25)
    first, more = one(CHEAP), None
    if cross and r.random() < 0.3:
        more = Config(r.choice(["aarch64", "aarch64-dotprod", "aarch64-i8mm"]), "aarch64-linux-gnu-gcc", "-O1", r.random() < 0.2, r.choice([1, 2, 2, 3]))
    elif r.random() < OPTIMISED_BATCHES:
        more = one(OPTIMISED)
    return first, more


class Failure:
    def __init__(self, kind, case, test, message, config):
        self.kind, self.case, self.test, self.message, self.config = kind, case, test, message, config
        self.notes = []


def run(command, seconds, **more):
    """(status, output, errors); the status is None after a time-out."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **more)
    try:
        out, err = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return None, "", ""
    return p.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def differences(got, want):
    """Compares an output, as float64 or int64, with the Memory of the twin; returns None or a message."""
    same = (got == want.d) | ((got != got) & (want.d != want.d))
    if want.e is not None:
        same |= np.abs(got - want.d) <= np.where(np.isnan(want.e), np.inf, want.e)
    if same.all():
        return None
    where = np.argwhere(~same)
    place = tuple(int(n) for n in where[0])
    bound = "" if want.e is None or not want.e[place] else f" within {want.e[place]:.3g}"
    return f"{list(place)} is {got[place]:.9g}, expected {want.d[place]:.9g}{bound}; {len(where)} of {same.size} elements differ"


def other_nans(dtype, raw, want):
    """Compares an output whose NaNs were only moved; returns None or a message."""
    kept = kept_nans(want.d)
    if not kept.any():
        return None
    bits = encode(dtype, want.d).reshape(want.d.shape)
    found = np.ascontiguousarray(raw).view(bits.dtype).reshape(want.d.shape)
    wrong = np.argwhere(kept & (found != bits))
    if not len(wrong):
        return None
    place = tuple(int(n) for n in wrong[0])
    return f"{list(place)} is a NaN of the bits {int(found[place]):#x}, expected {int(bits[place]):#x}; {len(wrong)} of {kept.sum()} NaNs differ"


def pkc(commands, seconds, folder):
    """(status, errors) of each command; the status is None after a time-out."""
    if not commands:
        return []
    if not os.path.exists(MANY) or os.path.getmtime(MANY) < os.path.getmtime(PKC):
        return [(status, err) for status, _, err in (run([PKC] + words, seconds) for words in commands)]
    path = os.path.join(folder, "commands")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join("".join(word + "\n" for word in words) for words in commands) + "\n")
    p = subprocess.run([MANY, path, str(seconds)], stdout=subprocess.PIPE, check=True)
    results, at = [], 0
    for _ in commands:
        end = p.stdout.index(b"\n", at)
        status, length = map(int, p.stdout[at:end].split())
        at = end + 1 + length
        status = None if status == 1000 + signal.SIGALRM else 1000 - status if status >= 1000 else status
        results.append((status, p.stdout[end + 1:at].decode(errors="replace")))
    return results


def read_npy(path, o, decode_raw=decode):
    """The number of bytes of an operand; a row of a packed one is padded to whole bytes."""
    dtype = o.dtype
    with open(path, "rb") as file:
        raw = file.read()
    info, (length,) = DTYPES[dtype], struct.unpack_from("<H", raw, 8)
    header = raw[10:10 + length].decode()
    shape = tuple(int(n) for n in header[header.index("(") + 1:header.index(")")].split(",") if n.strip())
    data = np.frombuffer(raw, np.dtype(info.storage), offset=10 + length)
    return data.reshape(shape) if o.packed else decode_raw(dtype, data.reshape(shape))


def unpacked_rows(o, rows, shape):
    """The elements of an array in a file of `pkc check`, or None if bits after the last element of a row are set."""
    if rows.shape != tuple(shape[:-1]) + (-(-shape[-1] * DTYPES[o.dtype].bits // 8),):
        return None
    parts = [unpack(o.dtype, row, shape[-1]) for row in rows.reshape(-1, rows.shape[-1])] if rows.size else []
    if any(rest.any() for _, rest in parts):
        return None
    return decode(o.dtype, np.array([row for row, _ in parts], np.uint8).reshape(shape))


def packed_bytes(o, shape):
    return (int(np.prod(shape, dtype=np.int64)) * DTYPES[o.dtype].bits + 7) // 8


OF_C = {"compiled", "crash", "hang", "status", "c-compiler"}  # kinds of failures of compiled kernels


def only_moved(err):
    """Whether `pkc check` reports only windows that were moved inside."""
    lines = [line for line in err.splitlines() if ".pk:" in line]
    return bool(lines) and all(re.search(r": a slice of .* is out of range on axis", line) for line in lines)


class Batch:
    """Cases that are compiled into one program."""

    def __init__(self, cases, config, folder, seconds=60):
        self.cases, self.config, self.folder, self.seconds = cases, config, folder, seconds
        self.failures, self.calls = [], 0

    def fail(self, kind, case, test, message):
        self.failures.append(Failure(kind, case, test, message, self.config))

    def path(self, case, ending):
        return os.path.join(self.folder, case.kernel.name + ending)

    # ---- methods that kinds of cases other than trees override

    text = staticmethod(lambda case: tree.kernel_text(case.kernel))
    words = staticmethod(lambda case, number: tree.test_words(case.kernel.tests[number]))
    decode, differences = staticmethod(decode), staticmethod(differences)

    def given(self, case, test, operand, shape, number):
        """The bytes of operand `number`."""
        raw = encode(operand.dtype, make(test["inputs"][operand.name], operand.dtype, shape, number))
        return (pack(operand.dtype, raw) if operand.packed else raw).tobytes()

    def is_expected(self, case, err):
        """The kind of a finding of `pkc check`."""
        return case.kernel.moves and only_moved(err)

    def has_to_report(self, case):
        """Whether `pkc check` reports something."""
        return False

    # ---- pkc

    def front_end(self):
        """The cases that compile to C."""
        commands, good = [], []
        for case in self.cases:
            with open(self.path(case, ".pk"), "w", encoding="utf-8") as file:
                file.write(self.text(case))
            commands.append([self.path(case, ".pk"), "-o", self.path(case, ".c")] + self.config.words())
        for case, (status, err) in zip(self.cases, pkc(commands, self.seconds, self.folder)):
            if status == 0:
                good.append(case)
                continue
            lines = [line for line in err.splitlines() if "rror" in line] or err.splitlines() or [""]
            kind = "hang" if status is None else "refused" if status == 1 else "internal"
            self.fail(kind, case, 0, f"pkc ends with {status}: {lines[0]}")
        return good

    @staticmethod
    def has_patterns(case, number):
        return any(text.startswith("patterns") for text in case.kernel.tests[number]["inputs"].values())

    def outputs_of(self, case, number):
        return [(o, self.path(case, f".{number}.{o.name}.npy")) for o in case.kernel.outputs]

    def interpret(self, cases):
        calls, commands = [(case, number) for case in cases for number in range(len(case.kernel.tests))], []
        for case, number in calls:
            command = ["check", self.path(case, ".pk"), "--quiet"] + self.words(case, number)
            for o, path in self.outputs_of(case, number):
                command += ["-o", f"{o.name}={path}"]
            commands.append(command)
        for (case, number), (status, err) in zip(calls, pkc(commands, self.seconds, self.folder)):
            if status != 0 and not (status == 3 and self.is_expected(case, err)):
                kind = "check-hang" if status is None else {1: "check-refused", 3: "finding"}.get(status, "internal")
                lines = [line for line in err.splitlines() if ".pk:" in line] or err.splitlines() or [""]
                self.fail(kind, case, number, f"pkc check ends with {status}: {lines[0]}")
                continue
            if status == 0 and self.has_to_report(case):
                self.fail("finding", case, number, "pkc check reports nothing")
            for o, path in self.outputs_of(case, number):
                found, want = read_npy(path, o, self.decode), case.expected[number][o.name]
                if o.packed:
                    found = unpacked_rows(o, found, want.d.shape)
                wrong = " is not packed as it should be" if found is None else self.differences(found, want)
                if not wrong and is_float(o.dtype) and self.has_patterns(case, number):
                    wrong = other_nans(o.dtype, encode(o.dtype, found), want)
                os.unlink(path)
                if wrong:
                    self.fail("interpreter", case, number, f"interpreted {o.name}{wrong}")
                    break

    # ---- C

    def compile(self, cases):
        """The program for these cases, or None and the message of the C compiler."""
        names = [case.kernel.name for case in cases]
        source, program = os.path.join(self.folder, "all.c"), os.path.join(self.folder, "program")
        with open(source, "w", encoding="utf-8") as file:
            for name in names:
                file.write(f'#include "{name}.c"\n')
            file.write("const pk_kernel *const kernels[] = {" + ", ".join(f"&{name}_kernel" for name in names) + "};\n")
        c = self.config
        command = [c.cc, "-std=c11", "-w", "-ffp-contract=off", "-pthread", "-DPK_FENCES", c.optimise] + c.flags() + [
            "-I" + ROOT, "-I" + os.path.join(ROOT, "include"), "-I" + self.folder, "-o", program, source,
            os.path.join(HERE, "harness.c"), os.path.join(ROOT, "runtime", "guard.c")] + c.libraries()
        status, _, err = run(command, C_SECONDS)
        if status == 0:
            return program, None
        lines = [line for line in err.splitlines() if "error" in line or "undefined" in line] or err.splitlines() or [f"ends with {status}"]
        return None, lines[0]

    def call_bytes(self, place, case, test):
        k = case.kernel
        operands = k.prefetch + k.inputs + k.outputs
        parts = [struct.pack("<iii", place, self.config.threads, len(operands))]
        for number, o in enumerate(operands):
            shape = shape_of(o.shape, sizes_of(k, test))
            if number < len(operands) - len(k.outputs):
                raw = self.given(case, test, o, shape, number)
            elif o.packed:
                raw = b"\x5a" * packed_bytes(o, shape)
            else:
                raw = b"\x5a" * (int(np.prod(shape, dtype=np.int64)) * ((DTYPES[o.dtype].bits + 7) // 8)) if DTYPES[o.dtype].bits >= 8 \
                    else b"\x05" * int(np.prod(shape, dtype=np.int64))
            parts += [struct.pack("<i", len(shape)), struct.pack(f"<{len(shape)}q", *shape), struct.pack("<q", len(raw)), raw]
        return b"".join(parts)

    def execute(self, program, cases):
        data = os.path.join(self.folder, "data")
        calls = [(place, case, number) for place, case in enumerate(cases) for number in range(len(case.kernel.tests))]
        with open(data, "wb") as file:
            for place, case, number in calls:
                file.write(self.call_bytes(place, case, case.kernel.tests[number]))
        runner = ["qemu-aarch64"] if self.config.cross else []
        status, _, err = run(runner + [program, data], 200 + 25 * len(calls))
        if status != 0:
            raise RuntimeError(f"the harness ends with {status}: {err[:500]}")
        with open(data + ".out", "rb") as file:
            for _, case, number in calls:
                self.compare_call(file, case, number, err)
                self.calls += 1

    def compare_call(self, file, case, number, err):
        k, test = case.kernel, case.kernel.tests[number]
        status = struct.unpack("<i", file.read(4))[0]
        wrong, raws = None, {}
        for o in k.prefetch + k.inputs + k.outputs:
            shape = shape_of(o.shape, sizes_of(k, test))
            storage = np.dtype(DTYPES[o.dtype].storage)
            count = int(np.prod(shape, dtype=np.int64))
            raw = np.frombuffer(file.read(packed_bytes(o, shape) if o.packed else count * storage.itemsize), storage)
            if o.packed:
                given, (raw, rest) = raw, unpack(o.dtype, raw, count)
            if o.packed and o in k.outputs and not o.alias and not wrong and given.size and status == 0:
                kept = unpack(o.dtype, np.full(given.size, 0x5a, np.uint8), count)[1]
                wrong = None if (rest == kept).all() else f"{o.name} has other bits behind its last element"
            raw = raws.setdefault(o.alias, raw.reshape(shape)) if o.alias else raw.reshape(shape)
            raws[o.name] = raw
            if o in k.outputs and not wrong and status == 0:
                bits = 1 if o.dtype == "bool" else DTYPES[o.dtype].bits
                if bits < 8 and raw.size and raw.max() >= 1 << bits:
                    wrong = f"{o.name} holds a byte {int(raw.max())}, which {o.dtype} has not"
                else:
                    found = self.differences(self.decode(o.dtype, raw), case.expected[number][o.name])
                    if not found and is_float(o.dtype) and self.has_patterns(case, number):
                        found = other_nans(o.dtype, raw, case.expected[number][o.name])
                    wrong = found and o.name + found
        if status >= 1000:
            kind = "hang" if status - 1000 in (signal.SIGALRM, signal.SIGXCPU) else "crash"
            self.fail(kind, case, number, f"the compiled kernel dies of signal {status - 1000}")
        elif status == OTHER_BITS:
            self.fail("compiled", case, number, f"other bits on {self.config.threads} threads than on one")
        elif status == OTHER_BITS_APART:
            self.fail("compiled", case, number, "other bits where rows of operands have gaps")
        elif status == BESIDE:
            said = [line for line in err.splitlines() if line.startswith(k.name + ": the compiled kernel ")] or ["beside an operand"]
            self.fail("crash", case, number, said[-1].removeprefix(k.name + ": "))
        elif status:
            self.fail("status", case, number, f"the compiled kernel refuses: {err.strip().splitlines()[-1] if err.strip() else status}")
        elif wrong:
            self.fail("compiled", case, number, f"compiled {wrong}")

    def run(self, kinds=None):
        """Runs everything, or only what the failures in `kinds` require."""
        good = self.front_end()
        if kinds is None or kinds & {"finding", "interpreter", "internal", "check-hang", "check-refused"}:
            self.interpret(good)
        if kinds is not None and not kinds & OF_C:
            return self.failures
        for first in range(0, len(good), self.config.most):
            self.run_compiled(good[first:first + self.config.most])
        return self.failures

    def run_compiled(self, good):
        program, wrong = self.compile(good)
        if program is None and len(good) == 1:
            self.fail("c-compiler", good[0], 0, wrong)
        elif program is None:
            whole, half = len(self.failures), len(good) // 2
            self.run_compiled(good[:half])
            self.run_compiled(good[half:])
            if len(self.failures) == whole:
                raise RuntimeError(f"kernels do not compile together: {wrong}")
        else:
            self.execute(program, good)


def version():
    status, out, _ = run(["git", "-C", ROOT, "describe", "--always", "--dirty"], 20)
    return out.strip() if status == 0 else run([PKC, "--version"], 20)[1].strip()


def log_line(path, record):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
