#!/usr/bin/env python3
"""The Debian packages of `make deb`: lintian reports nothing, and the packages are installed into a separate root folder, where they
compile a kernel, and leave nothing when they are removed."""
import os
import pathlib
import shutil
import sys
import tempfile

from suite import BUILD, ROOT, check, finish, run

PACKAGES = ["libpkrt0", "libpkrt-dev", "pkc"]


def dpkg(root, *words):
    for folder in ("info", "updates", "triggers"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").touch()
    # this root does not contain the libraries of the system; no package has a script
    state = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "DEBIAN_FRONTEND": "noninteractive"}
    return run("dpkg", f"--root={root}", "--force-depends", "--force-not-root", "--force-script-chrootless", *words, env=state)


def compile_kernel(root, folder):
    """Uses only the compiler, the headers and the library of the packages."""
    usr, pkc = root / "usr", root / "usr/bin/pkc"
    state = {**os.environ, "LD_LIBRARY_PATH": str(usr / "lib"), "XDG_CACHE_HOME": str(folder / "cache")}
    status, said = run(pkc, ROOT / "kernels/add.pk", "-o", folder / "add.c", env=state)
    check("the installed compiler compiles", status == 0, said)
    words = ["cc", "-std=c11", "-O1", "-ffp-contract=off", f"-I{usr}/include", f"-I{folder}", ROOT / "tests/embed/example.c", folder / "add.c", f"-L{usr}/lib", "-lpkrt", "-pthread", "-lm"]
    status, said = run(*words, "-o", folder / "example")
    check("the C of a kernel is compiled and linked", status == 0, said)
    status, said = run(folder / "example", env=state)
    check("the kernel runs", said.split() == "10 21 32 13 24 35".split(), said)
    status, said = run(pkc, "run", usr / "share/pkc/kernels/add.pk", "M=3", "N=5", env=state)
    check("`pkc run` finds its own files", status == 0, said)


def main():
    missing = [tool for tool in ("dpkg-deb", "dpkg-shlibdeps", "dpkg-architecture") if not shutil.which(tool)]
    if missing:
        print(f"SKIPPED deb: {', '.join(missing)} not installed")
        return
    status, said = run(os.environ.get("MAKE", "make"), "-C", ROOT, "deb", f"BUILD={os.path.relpath(BUILD, ROOT)}")
    files = [next(pathlib.Path(BUILD).glob(f"deb/{name}_*.deb"), None) for name in PACKAGES]
    if not check("make deb", status == 0 and all(files), said[-2000:]):
        return
    for name, file in zip(PACKAGES, files):
        depends = run("dpkg-deb", "-f", file, "Depends")[1]
        check(f"{name} names what it needs", ("libc6 (>=" in depends) == (name != "libpkrt-dev") and ("libpkrt0 (=" in depends) == (name == "libpkrt-dev"), depends)
    if shutil.which("lintian"):
        status, said = run("lintian", "--allow-root", "--tag-display-limit", "0", *files)
        check("lintian is content", status == 0 and not said.strip(), said)
    else:
        print("SKIPPED deb by lintian: it is not installed")
    with tempfile.TemporaryDirectory() as folder:
        folder, root = pathlib.Path(folder), pathlib.Path(folder) / "root"
        status, said = dpkg(root, "-i", *files)
        if not check("the packages are installed", status == 0, said):
            return
        for path in ("usr/share/man/man1/pkc.1.gz", "usr/share/bash-completion/completions/pkc", "usr/share/zsh/vendor-completions/_pkc", "usr/share/fish/vendor_completions.d/pkc.fish", "usr/lib/cmake/pkc/pkcConfig.cmake"):
            check(f"{path} is installed", (root / path).is_file())
        compile_kernel(root, folder)
        status, said = dpkg(root, "--purge", *reversed(PACKAGES))
        left = [str(path) for path in root.rglob("*") if path.is_file() and "var/lib/dpkg" not in str(path) and "var/log" not in str(path)]
        check("removal leaves nothing", status == 0 and not left, [said, left])


main()
sys.exit(finish())
