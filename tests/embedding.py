"""Builds tests/embed/example.c as its users would: as C and as C++, with gcc and clang, against the static and the shared
library, with the flags that pkg-config gives; and looks at what the library exports."""
import os
import shutil
import subprocess
import sys
import tempfile

from suite import BUILD, PKC, ROOT

WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Werror".split()
SANITIZERS = os.environ.get("PKC_CFLAGS", "").split()
passed = failed = 0


def run(what, words, want=None, env=None):
    """One step, which passes if it succeeds and prints the expected text."""
    global passed, failed
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    if done.returncode == 0 and (want is None or done.stdout.split() == want):
        passed += 1
        return done.stdout
    failed += 1
    said = " / ".join(done.stdout[-2000:].strip().splitlines())
    print(f"FAIL embedding, {what}: status {done.returncode}: {' '.join(words)}: {said}; reproduce: tests/embedding.py")
    return None


def make_prefix(folder):
    """The files that `make install` installs for pkg-config and compilers."""
    prefix = os.path.join(folder, "prefix")
    os.makedirs(os.path.join(prefix, "lib", "pkgconfig"))
    os.symlink(os.path.join(ROOT, "include"), os.path.join(prefix, "include"))
    for name, target in (("libpkrt.so.0", "libpkrt.so"), ("libpkrt.so", "libpkrt.so"), ("libpkrt.a", "libpkrt.a")):
        os.symlink(os.path.join(BUILD, target), os.path.join(prefix, "lib", name))
    text = open(os.path.join(ROOT, "runtime", "pkc.pc.in")).read().replace("@PREFIX@", prefix).replace("@VERSION@", "0").replace("@RPATH@", " -Wl,-rpath,${libdir}")
    with open(os.path.join(prefix, "lib", "pkgconfig", "pkc.pc"), "w") as file:
        file.write(text)
    return prefix


def package_flags(prefix, which):
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, "lib", "pkgconfig"))
    return (run("pkg-config", ["pkg-config", which, "pkc"], env=env) or "").split()


def build_and_run(folder, prefix, c, cxx):
    cflags = package_flags(prefix, "--cflags") + ["-I" + folder, "-O2"] + WARNINGS + SANITIZERS
    libs = package_flags(prefix, "--libs")
    kernel, example = os.path.join(folder, "add.o"), os.path.join(ROOT, "tests", "embed", "example.c")
    if run(c + " kernel", [c, "-std=c11", "-c", os.path.join(folder, "add.c"), "-o", kernel] + cflags) is None:
        return
    for compiler, language in ((c, ["-std=c11", "-x", "c"]), (cxx, ["-std=c++11", "-x", "c++"])):
        for static in (True, False):
            program = os.path.join(folder, "example")
            link = libs if not static else [os.path.join(prefix, "lib", "libpkrt.a") if x == "-lpkrt" else x for x in libs]
            words = [compiler] + language + [example, "-x", "none", kernel, "-o", program] + cflags + link
            if run(f"{compiler} {'static' if static else 'shared'}", words) is None:
                continue
            env = dict(os.environ, PK_THREADS="2")  # the flags name the folder of the library
            env.pop("LD_LIBRARY_PATH", None)
            run(f"{compiler} example", [program], "10 21 32 13 24 35".split(), env)
            bad = subprocess.run([program], env=dict(env, PK_THREADS="many"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            report("a refused call", bad.returncode == 1 and "PK_THREADS" in bad.stderr, bad.stderr)


def report(what, holds, text):
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAIL embedding, {what}: {text}; reproduce: tests/embedding.py")


def check_exports(prefix):
    """The library exports only names that begin with pk_."""
    shown = subprocess.run(["nm", "-D", "--defined-only", os.path.join(prefix, "lib", "libpkrt.so")], stdout=subprocess.PIPE, text=True)
    names = [line.split()[-1] for line in shown.stdout.splitlines()]
    public = "pk_call_kernel pk_context_free pk_context_limit_threads pk_context_new pk_context_set_pool pk_context_set_threads pk_context_set_vmem_limit pk_output_shapes " \
             "pk_context_profile pk_context_trace pk_processors pk_profile_row " \
             "pk_dma_in pk_dma_out pk_fail pk_message pk_print pk_status_name pk_trace_begin pk_trace_end pk_version".split()
    foreign = [name for name in names if not name.startswith("pk_") and not name.startswith("__")]
    report("exports", not foreign and set(public) <= set(names), f"foreign: {foreign}; missing: {set(public) - set(names)}")


def check_libraries(prefix):
    """The library depends only on libc and libm."""
    shown = subprocess.run(["readelf", "-d", os.path.join(prefix, "lib", "libpkrt.so")], stdout=subprocess.PIPE, text=True)
    needed = [line.split("[")[1].rstrip("]") for line in shown.stdout.splitlines() if "(NEEDED)" in line]
    known = ("libc.", "libm.", "libpthread.", "ld-linux") + (("libasan.", "libubsan.") if SANITIZERS else ())
    foreign = [name for name in needed if not name.startswith(known)]
    report("libraries", needed and not foreign, f"needs {foreign}")


def check_unloading(folder, prefix):
    """A library of kernel and runtime is loaded, called on two threads of the default context, and unloaded, ten times."""
    flags = package_flags(prefix, "--cflags") + ["-I" + folder, "-O2"] + WARNINGS
    library, program = os.path.join(folder, "add.so"), os.path.join(folder, "unload")
    kernel = ["gcc", "-std=c11", "-shared", "-fPIC", os.path.join(folder, "add.c"), os.path.join(prefix, "lib", "libpkrt.a"), "-o", library]
    source = os.path.join(ROOT, "tests", "embed", "unload.c")
    if run("library", kernel + flags + ["-pthread", "-lm"]) is None:
        return
    if run("unload", ["gcc", "-std=c11", source, "-o", program] + flags + ["-ldl"]) is not None:
        run("unloading", [program, library], ["unloaded"], dict(os.environ, PK_THREADS="2"))


with tempfile.TemporaryDirectory() as folder:
    if run("pkc", [PKC, os.path.join(ROOT, "kernels", "add.pk"), "-o", os.path.join(folder, "add.c")]) is not None:
        prefix = make_prefix(folder)
        check_exports(prefix)
        check_libraries(prefix)
        if shutil.which("gcc") and not SANITIZERS:
            check_unloading(folder, prefix)
        for c, cxx in (("gcc", "g++"), ("clang", "clang++")):
            if not (shutil.which(c) and shutil.which(cxx)):
                print(f"SKIPPED embedding, {c}: {c} or {cxx} is not installed")
            elif SANITIZERS and c == "clang":
                print(f"SKIPPED embedding, {c}: its sanitizers do not link with a library that gcc built")
            else:
                build_and_run(folder, prefix, c, cxx)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
