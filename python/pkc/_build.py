"""Compiles a kernel's C to a shared object, cached by content in the same folder as the command line's programs."""
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings

from pkc import _core, _headers
from pkc._compiler import INSTALL, BuildError, compiler, words_of
from pkc._tool import FOLDER, NOT_STARTED, run_program, targets

CACHE_LIMIT = 1 << 30
IN_USE_SECONDS = 60 * 60  # an entry that was used so recently stays
ABANDONED_SECONDS = 24 * 60 * 60  # a temporary folder so old is abandoned
FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-pthread"]


# ---- the C compiler

def _run_compiler(words):
    done = run_program(words, stderr=subprocess.STDOUT)
    if done.returncode == NOT_STARTED:
        raise BuildError("the C compiler %s cannot be run: %s; %s" % (words[0], done.stdout.decode("utf-8", "replace").strip(), INSTALL))
    return done


@functools.lru_cache(maxsize=None)
def _version(words):
    done = _run_compiler([*words, "--version"])
    if done.returncode != 0:
        raise BuildError("the C compiler does not work: `%s --version` fails; %s" % (" ".join(words), INSTALL))
    return done.stdout


@functools.lru_cache(maxsize=None)
def _targets():
    return dict(targets())


def native():
    """The target of this machine."""
    return next(iter(_targets()))


# ---- what an object depends on

@functools.lru_cache(maxsize=None)
def _package_digest():
    """A digest of the files with which kernels are compiled and linked."""
    digest = hashlib.sha256()
    files = [os.path.join(FOLDER, "lib", name) for name in os.listdir(os.path.join(FOLDER, "lib")) if name.startswith("libpkrt")]
    for folder, _, names in os.walk(os.path.join(FOLDER, "include", "pk")):
        files += [os.path.join(folder, name) for name in names]
    for path in sorted(files):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest.update(path[len(FOLDER):].encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return digest.digest()


@functools.lru_cache(maxsize=None)
def _processor():
    """The processor, because -march=native depends on it and machines may share a home folder."""
    keys = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features", "isa")
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read().split("\n\n")[0]
    except OSError:
        return ""
    return "\n".join(line for line in first.split("\n") if line.startswith(keys))


def _key(text, command):
    digest = hashlib.sha256()
    for part in (text, "\0".join(command), _version(tuple(compiler())), _processor(), FOLDER, _package_digest()):
        digest.update((part if isinstance(part, bytes) else part.encode()) + b"\0\0")
    return digest.hexdigest()[:32]


# ---- the cache

def _is_own(info):
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def cache_folder():
    """The cache folder, created if necessary, or None. A folder that others can write to is not used, because its files are executed."""
    base, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if base.startswith("/"):
        path = os.path.join(base, "pkc")
    elif home.startswith("/") and os.path.isdir(home):
        path = os.path.join(home, ".cache", "pkc")
    else:
        return None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.lexists(path):
            os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        return _refuse_cache(path, error.strerror)
    if not os.access(path, os.W_OK):
        return _refuse_cache(path, "it cannot be written")
    info = os.lstat(path)
    if stat.S_ISDIR(info.st_mode) and _is_own(info):
        return path
    return _refuse_cache(path, "others own it or may write there")


def _refuse_cache(path, why):
    """Warns that programs are compiled in a temporary folder."""
    warnings.warn("pkc: the cache %s is not used: %s" % (path, why), RuntimeWarning, stacklevel=2)


def _seal(key, contents):
    """Appends a seal, which the loader ignores, to an entry's file: a renamed or damaged entry is compiled again."""
    digest = hashlib.sha256(contents)
    digest.update(key.encode())
    return b"pkc kept" + digest.digest()


def _is_kept(path, key):
    """Whether there is a valid entry with this key, which is then marked as used."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with open(file, "rb") as opened:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or not _is_own(info):
            return False
        contents, length = opened.read(), len(_seal(key, b""))
        if len(contents) < length or contents[-length:] != _seal(key, memoryview(contents)[:-length]):
            return False
        os.utime(file)  # the oldest are removed first
        return True


def _keep(cache, made, path, key):
    """Stores an entry atomically, even if another process stores the same; False, with a warning, if the cache rejects it."""
    with open(made, "rb") as file:
        contents = file.read()
    try:
        file, temporary = tempfile.mkstemp(prefix="pkc-", dir=cache)
        try:
            with open(file, "wb") as opened:
                opened.write(contents + _seal(key, contents))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        _refuse_cache(cache, error.strerror)
        return False
    return True


def _cache_limit():
    text = os.environ.get("PKC_CACHE_LIMIT", "")
    digits = text.rstrip("KMG")
    units = {"": 0, "K": 10, "M": 20, "G": 30}
    if not digits.isdigit() or text[len(digits):] not in units:
        return CACHE_LIMIT
    return int(digits) << units[text[len(digits):]]


def _limit_cache(folder):
    entries, now = [], time.time()
    for item in os.scandir(folder):
        try:
            if not item.name.startswith("."):
                entries.append((item.stat(follow_symlinks=False), item.is_dir(follow_symlinks=False), item.path))
        except OSError:
            pass
    total, limit = sum(info.st_size for info, is_folder, _ in entries if not is_folder), _cache_limit()
    for info, is_folder, path in sorted(entries, key=lambda entry: entry[0].st_mtime):
        age = now - info.st_mtime
        try:
            if is_folder and age > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
            elif not is_folder and total > limit and age > IN_USE_SECONDS:
                os.unlink(path)
                total -= info.st_size
        except OSError:
            pass


# ---- compiling

def _micro(target):
    """Flags that link the target's micro-kernels, if these are installed, instead of compiling them."""
    path = os.path.join(FOLDER, "lib", "libpkrt_%s.a" % target)
    if os.environ.get("PKC_MICRO") == "0" or not os.path.exists(path):
        return [], []
    return ["-DPK_MICRO=" + target.replace("-", "_")], [path]


def _command(target):
    """The words of the compiler's command before and after the files."""
    flags = _targets()[target]
    if native() != target and any(flag.startswith("-m") for flag in flags):
        flags = _targets()[native()]  # it runs here, whatever the C was shaped for
    define, library = _micro(target)
    head = [*compiler(), *FLAGS, *flags, *define, "-I" + os.path.join(FOLDER, "include"),
            *words_of("PKC_CFLAGS")]
    lib = os.path.join(FOLDER, "lib")
    tail = [*library, "-L" + lib, "-l:libpkrt.so.0", "-lm", "-Wl,-rpath," + lib, "-Wl,-Bsymbolic"]
    return head, tail


def _compile(text, head, tail, folder, header=None):
    source, made = os.path.join(folder, "kernel.c"), os.path.join(folder, "kernel.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    include = ["-include", header] if header else []
    done = _run_compiler([*head, *include, "-o", made, source, *tail])
    if done.returncode != 0:
        raise BuildError("the C compiler failed (status %d): %s\n%s" %
                         (done.returncode, " ".join([*head, *tail]), done.stdout.decode("utf-8", "replace")[:4000]))
    if not os.path.exists(made):
        raise BuildError("the C compiler %s ended well and wrote no %s; %s" % (head[0], os.path.basename(made), INSTALL))
    return made


def _compile_kept(text, head, tail, folder, cache):
    """Compiles with a precompiled header if the cache has one, or if it is time to make one."""
    prologue = _headers.prologue(text)
    if not cache or not prologue:
        return _compile(text, head, tail, folder)
    path = os.path.join(cache, _key(prologue, [*head, "header"]) + ".h")
    header = _headers.precompiled(path, prologue, head, cache)
    try:
        return _compile(text, head, tail, folder, header)
    except BuildError:
        if not header:
            raise
        _headers.forget(header)
        return _compile(text, head, tail, folder)


def _build(text, symbol, head, tail):
    cache, key = cache_folder(), _key(text, [*head, *tail])
    kept = os.path.join(cache, key + ".so") if cache else None
    if kept and _is_kept(kept, key):
        return _core.load(kept, symbol)
    folder = tempfile.mkdtemp(prefix="pkc-")
    try:
        made = _compile_kept(text, head, tail, folder, cache)
        if kept and _keep(cache, made, kept, key):
            made = kept
        address = _core.load(made, symbol)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if cache:
        _limit_cache(cache)
    return address


_lock, _locks = threading.Lock(), {}  # a lock for each key: different kernels compile at the same time
_loaded = {}  # (text, command) -> address of the kernel: loaded libraries stay
_numbers = {}  # address -> a number made of the text, the same in every process


def _forget_locks():
    """In the child of a fork the threads that held the locks do not exist."""
    global _lock
    _lock = threading.Lock()
    _locks.clear()


os.register_at_fork(after_in_child=_forget_locks)


def build(text, symbol, target, flags=()):
    """Builds a C text and returns the address of its object `symbol`, for example a pk_kernel."""
    head, tail = _command(target)
    head += flags
    key = (text, *head, *tail)
    with _lock:
        own = _locks.setdefault(key, threading.Lock())
    with own:
        if key not in _loaded:
            address = _loaded[key] = _build(text, symbol, head, tail)
            _numbers[address] = int.from_bytes(hashlib.sha256(("%s\0%s" % (symbol, text)).encode()).digest()[:8], "little", signed=True)
        return _loaded[key]


def number(address):
    """The number of a kernel that was built, which is the same for the same C in every process."""
    return _numbers[address]
