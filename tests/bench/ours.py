"""Our side: a kernel compiled to a shared object, and called from Python like its peers."""

import ctypes
import hashlib
import os
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-O2", "-march=native", "-ffp-contract=off"]
DTYPES = re.findall(r'^  X\(\w+, "(\w+)"', (ROOT / "include/pk/dtypes.h").read_text(), re.M)  # in the order of pk_dtype
MAX_RANK, ABI = 8, 10


class BuildError(Exception):
    pass


def command(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(map(str, words))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def compile_shared(target, words):
    """Writes `target` atomically."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}.part")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command([*compiler, *FLAGS, "-fPIC", "-shared", *words, "-o", part, "-lm"])
    part.rename(target)
    return target


def contents(*paths):
    digest = hashlib.sha256(" ".join([os.environ.get("CC", "cc"), *FLAGS]).encode())
    for path in paths:
        digest.update(Path(path).read_bytes())
    return digest


def build_native(build):
    """native.c and the measurement of the machine's peaks, as a shared object."""
    sources = [ROOT / name for name in ("tests/bench/native.c", "runtime/cpu.c", "runtime/platform.c", "runtime/cpu.h", "runtime/platform.h")]
    target = build / f"bench/native-{contents(*sources).hexdigest()[:16]}.so"
    return target if target.exists() else compile_shared(target, ["-Wno-psabi", "-I", ROOT, "-I", ROOT / "include", *sources[:3]])


def kernel_file(name):
    """A kernel of the library, FILE or FOLDER/FILE, with :KERNEL if its name differs from that of the file; or a kernel of the tests."""
    file = name.partition(":")[0]
    library = ROOT / f"kernels/{file}.pk"
    return library if library.exists() else ROOT / f"tests/cases/kernels/{file}.pk"


def kernel_name(name):
    return name.rpartition(":")[2].rpartition("/")[2]


def build_kernel(build, name, statics):
    """The compiled kernel, which is compiled again if the generated C, the headers or the runtime have changed."""
    settings = [word for key, value in statics.items() for word in ("-D", f"{key}={value}")]
    text = command([build / "pkc", kernel_file(name), "-k", kernel_name(name), *settings, "-o", "-"])
    digest = contents(build / "libpkrt.a", *sorted((ROOT / "include/pk").rglob("*.h")))
    digest.update(text.encode())
    target = build / f"bench/{kernel_name(name)}-{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    source = target.with_suffix(".c")
    target.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    return compile_shared(target, ["-pthread", "-I", ROOT / "include", source, build / "libpkrt.a"])


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    """DLTensor"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Operand(ctypes.Structure):
    """pk_operand"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("output", ctypes.c_bool),
        ("alias", ctypes.c_int),
        ("shape", ctypes.c_int64 * MAX_RANK),
    ]


class Description(ctypes.Structure):
    """The beginning of pk_kernel"""

    _fields_ = [
        ("abi", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("signature", ctypes.c_char_p),
        ("statics", ctypes.c_char_p),
        ("operands", ctypes.c_int),
        ("inputs", ctypes.c_int),
        ("operand", ctypes.POINTER(Operand)),
        ("sizes", ctypes.c_int),
        ("size_name", ctypes.POINTER(ctypes.c_char_p)),
    ]


class Call(ctypes.Structure):
    """kernel_call of native.c"""

    _fields_ = [(name, ctypes.c_void_p) for name in ("function", "context", "kernel", "tensors")]


PAIRS = {"f4e2m1fn"}  # two elements share a byte, a number in arrays of NumPy
EXTENTS = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max}


def static_value(text):
    named = {"true": True, "false": False}
    for read in (named.__getitem__, int, float):
        try:
            return read(text)
        except (KeyError, ValueError):
            pass
    return text


def extent(name, sizes):
    """A size, or an expression of others, such as 128 * K."""
    return sizes[name] if name in sizes else eval(name.replace(" / ", " // "), {"__builtins__": {}, **EXTENTS}, dict(sizes))


class Kernel:
    def __init__(self, path, name):
        self.library = ctypes.CDLL(str(path))
        self.description = Description.in_dll(self.library, f"{kernel_name(name)}_kernel")
        if self.description.abi != ABI:
            raise BuildError(f"{name}: ABI {self.description.abi}, this tool knows {ABI}")
        words = (self.description.statics or b"").decode().split()
        self.statics = {key: static_value(value) for key, value in (word.split("=", 1) for word in words)}
        self.library.pk_context_new.restype = ctypes.c_void_p
        self.library.pk_message.restype = ctypes.c_char_p

    def context(self, threads):
        made = ctypes.c_void_p(self.library.pk_context_new())
        self.library.pk_context_set_threads(made, threads)
        return made

    def operands(self, sizes):
        """(name, dtype, shape, whether it is an output) of each operand, in the order of the signature."""
        names = [self.description.size_name[i].decode() for i in range(self.description.sizes)]
        for operand in self.description.operand[: self.description.operands]:
            axes = operand.shape[: operand.rank]
            shape = tuple(axis if axis >= 0 else extent(names[-1 - axis], {**self.statics, **sizes}) for axis in axes)
            if DTYPES[operand.dtype] in PAIRS:
                shape = (*shape[:-1], shape[-1] // 2)
            yield operand.name.decode(), DTYPES[operand.dtype], shape, operand.output

    def alias(self, index):
        """The name of the operand whose memory this output shares, if any."""
        other = self.description.operand[index].alias
        return self.description.operand[other].name.decode() if other >= 0 else None

    def caller(self, native, arrays, dtypes, threads=1):
        """A function of no arguments that runs the kernel on these arrays once."""
        context = self.context(threads)
        tensors = [tensor(array, dtype) for array, dtype in zip(arrays, dtypes)]
        pointers = (ctypes.POINTER(Tensor) * len(tensors))(*map(ctypes.pointer, tensors))
        address = [ctypes.cast(what, ctypes.c_void_p) for what in (self.library.pk_call_kernel, pointers)]
        if self.library.pk_call_kernel(context, ctypes.byref(self.description), pointers):
            raise RuntimeError(self.library.pk_message(context).decode())
        call = Call(address[0], context, ctypes.addressof(self.description), address[1])
        run, pointer = native.bench_pk_call_kernel, ctypes.byref(call)
        run.restype = None
        keep = (arrays, tensors, pointers)
        return lambda keep=keep: run(pointer)


def tensor(array, dtype):
    code = {"bf16": 4, "bool": 6, "f8e4m3fn": 10, "f8e8m0fnu": 14, "f4e2m1fn": 17}.get(dtype, {"f": 2, "i": 0, "u": 1, "b": None}[dtype[0]])
    bits = int(re.search(r"\d+", dtype)[0]) if dtype != "bool" else 8
    extents = (*array.shape[:-1], array.shape[-1] * 2) if dtype in PAIRS else array.shape
    shape = (ctypes.c_int64 * array.ndim)(*extents)
    return Tensor(array.ctypes.data, 1, 0, array.ndim, DataType(code, bits, 1), shape, None, 0)
