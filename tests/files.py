#!/usr/bin/env python3
"""What pkc writes and where: the cache of programs, output files, temporary folders. Runs as root and as any other user, without NumPy."""
import os
import pathlib
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

from suite import PKC, ROOT, check, finish

ADD = str(ROOT / "kernels" / "add.pk")
RUN = ["run", ADD, "M=3", "N=5"]
NOBODY = 65534
os.environ["CCACHE_DISABLE"] = "1"  # ccache writes to the folder that pkc uses

def pkc(folder, *words, **environment):
    done = subprocess.run([PKC, *words], cwd=folder, env=dict(os.environ, **environment), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300)
    return done


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def check_outputs(folder):
    (folder / "add.c").write_text("old")
    os.chmod(folder / "add.c", 0o640)
    check("compile", pkc(folder, ADD).returncode == 0)
    check("the mode stays", mode(folder / "add.c") == 0o640 and "pk_status" in (folder / "add.c").read_text())
    (folder / "real.c").write_text("old")
    os.symlink("real.c", folder / "link.c")
    os.symlink("absent.c", folder / "dangling.c")
    for name, target in (("link.c", "real.c"), ("dangling.c", "absent.c")):
        check("compile to " + name, pkc(folder, ADD, "-o", name).returncode == 0)
        check(name + " stays a link", (folder / name).is_symlink() and "pk_status" in (folder / target).read_text())
    if os.getuid() == 0:
        (folder / "theirs.c").write_text("old")
        os.chown(folder / "theirs.c", NOBODY, NOBODY)
        check("compile to another's file", pkc(folder, ADD, "-o", "theirs.c").returncode == 0)
        check("the owner stays", os.stat(folder / "theirs.c").st_uid == NOBODY)
    else:
        (folder / "locked").mkdir()
        (folder / "locked" / "a.c").write_text("o" * 1000000)
        (folder / "locked" / "a.h").write_text("")
        os.chmod(folder / "locked", 0o500)
        check("compile to a folder that takes no files", pkc(folder, ADD, "-o", "locked/a.c").returncode == 0)
        check("it was written in place", (folder / "locked" / "a.c").read_text().startswith("/*") and (folder / "locked" / "a.c").stat().st_size < 100000)
        os.chmod(folder / "locked", 0o700)
        os.chmod(folder / "add.c", 0o400)
        check("a file that may not be written is refused", pkc(folder, ADD, "-o", "add.c").returncode == 1)
    os.mkfifo(folder / "pipe")
    reader = subprocess.Popen(["cat", str(folder / "pipe")], stdout=subprocess.PIPE)
    check("compile to a pipe", pkc(folder, ADD, "--emit=c", "-o", "pipe").returncode == 0)
    check("the pipe has it", b"pk_status" in reader.communicate(timeout=60)[0] and stat.S_ISFIFO(os.stat(folder / "pipe").st_mode))
    check("nothing is left", not [p for p in folder.iterdir() if p.name.endswith(".tmp")])


def entries(cache):
    return sorted(p for p in (cache / "pkc").iterdir())


def check_swapped(folder, cache, here):
    """Programs whose names in the cache collide, and objects."""
    kernel = "kernel k(x: f32[M]) -> (o: f32[M]) { grid (i in cdiv(M, 8)); block x, o: [8] at (i); o[...] = x[...] + %s; }\n"
    before, factors = set(entries(cache)), ("1.5", "2.5")

    def computed(factor):
        (folder / "factor.pk").write_text(kernel % factor)
        done = pkc(folder, "run", "factor.pk", "M=3", "x=zeros", "-o", "o=o.npy", **here)
        return done.returncode == 0 and (folder / "o.npy").read_bytes()[-12:] == 3 * struct.pack("<f", float(factor))
    check("they are made", all([computed(factor) for factor in factors]))
    programs = [p for p in set(entries(cache)) - before if "." not in p.name]
    objects = [p for p in entries(cache) if p.suffix == ".o"]
    check("two more programs, and the objects of the harness", len(programs) == 2 and len(objects) >= 2)
    for group in programs, objects:
        contents = [p.read_bytes() for p in group]
        for path, data in zip(group, contents[1:] + contents[:1]):
            path.write_bytes(data)
        for path in programs if group is objects else []:
            path.unlink()
        check("swapped", all([computed(factor) for factor in factors]))
        check("each has its own contents again", group is objects or [p.read_bytes() for p in group] == contents)


def check_no_room(folder):
    """A cache that cannot be written, and one that is a file: pkc compiles in a temporary folder and removes it."""
    (folder / "temporary").mkdir()
    (folder / "cache").mkdir()
    (folder / "file").write_text("")
    environment = dict(os.environ, TMPDIR=str(folder / "temporary"))
    small = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64k none "$XDG_CACHE_HOME" && exec "$0" "$@"', PKC, *RUN]
    cases = [("a file in its place", [PKC, *RUN], folder / "file"), ("no folder can be made there", [PKC, *RUN], "/proc")]
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", folder / "cache"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        cases.append(("no room", small, folder / "cache"))
    else:
        print("SKIPPED files, a cache without room: no file system can be mounted")
    for what, words, cache in cases:
        done = subprocess.run(words, cwd=folder, env=dict(environment, XDG_CACHE_HOME=str(cache)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        said = done.stderr.decode()
        check("a cache: " + what, done.returncode == 0 and said.count("is not used: ") == 1, said[:300])
        check("nothing is left: " + what, not list((folder / "temporary").iterdir()))
    done = subprocess.run([PKC, *RUN], cwd=folder, env=dict(environment, TMPDIR="/nowhere", XDG_CACHE_HOME=str(folder / "cache")), stderr=subprocess.PIPE, timeout=300, check=False)
    check("no folder for temporary files", done.returncode == 0 and not [p for p in entries(folder / "cache") if p.is_dir()], done.stderr.decode()[:300])


def check_cache(folder):
    cache = folder / "cache"
    here = {"XDG_CACHE_HOME": str(cache)}
    check("run", pkc(folder, *RUN, **here).returncode == 0)
    check("the cache is its owner's alone", mode(cache / "pkc") == 0o700, oct(mode(cache / "pkc")))
    programs = [p for p in entries(cache) if "." not in p.name]
    check("one program is kept", len(programs) == 1 and not [p for p in entries(cache) if p.is_dir()])
    before = programs[0].stat().st_mtime_ns
    check("run again", pkc(folder, *RUN, CC="cc", **here).returncode == 0)
    check("use is noted", programs[0].stat().st_mtime_ns > before)
    whole = programs[0].read_bytes()
    for what, damage in (("empty", b""), ("cut short", whole[:len(whole) // 2]), ("overwritten", b"#!/bin/false\n")):
        for path in entries(cache):
            path.write_bytes(damage)
        done = pkc(folder, *RUN, **here)
        check("an entry that is " + what, done.returncode == 0, done.stderr[:200])
    check("it is made again", programs[0].read_bytes()[:4] == b"\x7fELF")
    for at in (20, len(whole) // 2, len(whole) - 50, len(whole) - 20, len(whole) - 1):
        for path in entries(cache):
            data = bytearray(path.read_bytes())
            data[min(at, len(data) - 1)] ^= 16
            path.write_bytes(data)
        done = pkc(folder, *RUN, **here)
        check("an entry of one flipped bit, at %d" % at, done.returncode == 0 and programs[0].read_bytes() == whole, done.stderr[:200])
    check_swapped(folder, cache, here)
    os.chmod(programs[0], 0o777)
    inode = programs[0].stat().st_ino
    check("run with an open entry", pkc(folder, *RUN, **here).returncode == 0)
    check("an entry that others may write is made again", programs[0].stat().st_ino != inode)
    os.chmod(cache / "pkc", 0o777)
    done = pkc(folder, *RUN, **here)
    check("a cache that others may write is not used", done.returncode == 0 and "is not used" in done.stderr, done.stderr[:200])
    os.chmod(cache / "pkc", 0o700)
    if os.getuid() == 0:
        os.chown(cache / "pkc", NOBODY, NOBODY)
        done = pkc(folder, *RUN, **here)
        check("another's cache is not used", done.returncode == 0 and "is not used" in done.stderr, done.stderr[:200])
        os.chown(cache / "pkc", 0, 0)
    old = cache / "pkc" / ("0" * 32)
    old.write_bytes(b"x" * 4096)
    os.utime(old, (1, 1))
    abandoned = cache / "pkc" / "pkc-abcdef"
    abandoned.mkdir()
    os.utime(abandoned, (1, 1))
    check("run with a limit", pkc(folder, "run", ADD, "M=3", "N=5", "-D", "BM=8", PKC_CACHE_LIMIT="1K", **here).returncode == 0)
    check("the oldest goes, what is in use stays", not old.exists() and not abandoned.exists() and programs[0].exists())


def check_precompiled(folder):
    """From the eighth compilation on, the headers of kernels are precompiled; a damaged precompiled header is ignored."""
    cache = folder / "headers"

    def compile_one(n, **more):
        return pkc(folder, "run", ADD, "M=3", "N=5", "-D", "BM=%d" % (8 * n), XDG_CACHE_HOME=str(cache), **more)

    def kept():
        return [p for p in entries(cache) if p.name.endswith(".gch")]

    for n in range(1, 8):
        compile_one(n)
    check("seven compilations keep no header", kept() == [])
    check("the eighth makes it", compile_one(8).returncode == 0 and len(kept()) == 1)
    header = kept()[0]
    os.utime(header, (1, 1))
    check("the ninth uses it", compile_one(9).returncode == 0 and header.stat().st_mtime > 1)
    whole = header.read_bytes()
    for n, damage in enumerate((whole[:len(whole) // 2], whole[:4], b"", whole[:5000] + b"x" * 100000)):
        header.write_bytes(damage)
        done = compile_one(10 + n)
        check("a header that is damaged (%d)" % n, done.returncode == 0, done.stderr[:200])
        header.write_bytes(whole)
    header.with_suffix("").unlink()
    check("a header without its text", compile_one(14).returncode == 0)
    header.write_bytes(whole)
    os.chmod(header, 0o666)
    os.utime(header, (1, 1))
    check("a header that others may write is not used", compile_one(15).returncode == 0 and header.stat().st_mtime == 1)
    header.unlink()
    for n in range(16, 24):
        compile_one(n)
    check("one that was removed is made again", len(kept()) == 1)
    broken = compile_one(24, PKC_CFLAGS="-include no_such_file.h")
    check("what the compiler says comes through", broken.returncode != 0 and "no_such_file.h" in broken.stderr, broken.stderr[:200])


def check_home(folder):
    home = folder / "no" / "home"
    environment = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"}
    done = subprocess.run([PKC, *RUN], cwd=folder, env=dict(environment, HOME=str(home)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    check("run without a home", done.returncode == 0, done.stderr.decode()[:200])
    check("no home is made", not (folder / "no").exists())


def alive(pid):
    try:
        return "Z" not in pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def take_signals():
    """Restores signals in a child: a background job of a shell ignores SIGINT, and a program under nohup SIGHUP, and children inherit this."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def check_signals(folder):
    """A slow C compiler and its child, which may ignore signals: both end with pkc."""
    compiler, stubborn = folder / "slow-cc", folder / "stubborn-cc"
    for path, stay in ((compiler, ""), (stubborn, 'trap "" TERM INT HUP\n')):
        path.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo slow; exit; }\n%ssleep 600 &\necho $$ $! >"%s"\nwait\n' % (stay, folder / "pids"))
        os.chmod(path, 0o755)
    for number, compiler in ((signal.SIGINT, compiler), (signal.SIGTERM, compiler), (signal.SIGHUP, compiler), (signal.SIGTERM, stubborn)):
        for more in (["--no-cache"], []):
            (folder / "temporary").mkdir(exist_ok=True)
            (folder / "pids").unlink(missing_ok=True)
            child = subprocess.Popen([PKC, *RUN, *more], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     preexec_fn=take_signals,
                                     env=dict(os.environ, CC=str(compiler), TMPDIR=str(folder / "temporary"), XDG_CACHE_HOME=str(folder / "slow")))
            deadline = time.time() + 120
            while time.time() < deadline and not ((folder / "pids").exists() and (folder / "pids").read_text().strip()):
                time.sleep(0.02)
            pids = [int(word) for word in (folder / "pids").read_text().split()]
            child.send_signal(number)
            check("ended by the signal", child.wait(timeout=60) == -number)
            check("no child is left: they were waited for", not any(alive(pid) for pid in pids))
            left = list((folder / "temporary").iterdir()) + [p for p in (folder / "slow").glob("pkc/*") if p.is_dir()]
            check("no folder is left", not left, str(left))


def check_supervised(folder):
    """A signal to the supervisor, or the end of its parent, ends all processes that it started."""
    command = ["sh", "-c", 'sleep 600 & echo $$ $! >"$0.tmp"; mv "$0.tmp" "$0"; wait', str(folder / "pids")]
    parent = [sys.executable, "-c", "import os, sys; os.spawnv(os.P_WAIT, sys.argv[1], [sys.argv[1], '--supervise', str(os.getpid()), *sys.argv[2:]])", PKC, *command]
    for what, words, end in (("a signal", [PKC, "--supervise", str(os.getpid()), *command], signal.SIGTERM),
                             ("an interrupt", [PKC, "--supervise", str(os.getpid()), *command], signal.SIGINT), ("the end of the parent", parent, signal.SIGKILL)):
        (folder / "pids").unlink(missing_ok=True)
        child = subprocess.Popen(words, preexec_fn=take_signals)
        deadline = time.time() + 60
        while time.time() < deadline and not (folder / "pids").exists():
            time.sleep(0.02)
        pids = [int(word) for word in (folder / "pids").read_text().split()]
        child.send_signal(end)
        check(f"supervised: ended by {what}", child.wait(timeout=60) == -end)
        deadline = time.time() + (30 if end == signal.SIGKILL else 0)
        while any(alive(pid) for pid in pids) and time.time() < deadline:
            time.sleep(0.02)
        check(f"supervised: nothing is left after {what}", not any(alive(pid) for pid in pids))
    for words, status, said in ((["sh", "-c", "exit 3"], 3, ""), (["sh", "-c", "kill -ABRT $$"], -signal.SIGABRT, ""), (["/nowhere/cc"], 127, "No such file")):
        done = pkc(folder, "--supervise", str(os.getpid()), *words)
        check(f"supervised: {words}", done.returncode == status and said in done.stderr, (done.returncode, done.stderr))
    check("supervised: the parent is gone", pkc(folder, "--supervise", "1", "sh", "-c", "exit 0").returncode == -signal.SIGTERM)


def main():
    print("SKIPPED files, %s" % ("what may not be written: runs as root" if os.getuid() == 0 else "another's files: does not run as root"))
    for group in (check_outputs, check_cache, check_no_room, check_precompiled, check_home, check_signals, check_supervised):
        with tempfile.TemporaryDirectory(prefix="files-") as path:
            group(pathlib.Path(path))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
