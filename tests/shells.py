#!/usr/bin/env python3
"""Interactive use: completion in bash, zsh and fish, `pkc help`, `new`, `watch`, and misspelled options.

`pkc complete` is called directly, and by each installed shell in a pseudo-terminal.
"""
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from suite import PKC, ROOT, check, def_rows, finish

ADD, FLASH = (str(ROOT / "kernels" / name) for name in ("add.pk", "flash_attn.pk"))
os.environ["CCACHE_DISABLE"] = "1"


def run(*words, cwd=ROOT, status=0):
    done = subprocess.run([PKC, *words], capture_output=True, text=True, cwd=cwd, timeout=300)
    check("status of pkc " + " ".join(words), done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def complete(*words, cwd=ROOT):
    lines = run("complete", "--", *words, cwd=cwd).splitlines()
    return [line.split("\t")[0] for line in lines]


def test_candidates(folder):
    verbs = [row[1] for row in def_rows("codegen/verbs/verbs.def", "VERB")]
    first = complete("")
    check("every verb but complete itself", [w for w in first if w in verbs] == [v for v in verbs if v != "complete"], first)
    check("files beside them", "kernels/" in first, first)
    check("no word is the same as an empty one", complete() == first)
    for verb in verbs:
        offered = complete(verb, "-")
        check(f"options of {verb}", "--help" in offered and len(offered) == len(set(offered)), offered)
    check("a part of a verb", complete("pro") == ["profile", "prove"])
    check("files of a folder", complete("run", str(ROOT / "kernels") + "/flash") == [FLASH])
    check("names of the kernel", set(complete("run", FLASH, "")) == {f"{n}=" for n in "B H N G S q k v T D CAUSAL BQ BK".split()})
    check("given names are not repeated", "B=" not in complete("run", FLASH, "B=1", "") and "BQ=" not in complete("run", FLASH, "-D", "BQ=4", ""))
    check("statics alone, where sizes are not taken", complete(FLASH, "") == ["T=", "D=", "CAUSAL=", "BQ=", "BK="])
    check("inputs", {"q=random:", "q=iota"} <= set(complete("run", FLASH, "q=")))
    check("the name that begins like another", complete("run", FLASH, "kk=") == [])
    check("dtypes", complete("run", FLASH, "T=bf") == ["T=bf16"] and complete("run", FLASH, "CAUSAL=") == ["CAUSAL=true", "CAUSAL=false"])
    check("outputs after -o", complete("run", FLASH, "-o", "") == ["o=", "q=", "k=", "v="])
    check("statics after -D", complete("check", FLASH, "-D", "C") == ["CAUSAL="])
    several = str(folder / "several.pk")
    pathlib.Path(several).write_text("kernel first(x: f32[M]) -> (o: f32[M]) { o[...] = x[...]; }\nkernel second(w: f32[M, N]) -> (o: f32[M, N]) { static BM = 8; o[...] = w[...]; }\n")
    check("several kernels: one is chosen first", complete("run", several, "") == ["-k"])
    check("kernels after -k", complete("run", several, "-k", "sec") == ["second"])
    check("names of the chosen one", complete("run", several, "-k", "second", "") == ["M=", "N=", "w=", "BM="])
    check("joined values", complete("run", "--target=zen") == ["--target=zen5", "--target=zen4"])
    check("values apart", complete("run", "--target", "zen") == ["zen5", "zen4"])
    check("lists of values", complete("--targets=zen4,gen") == ["--targets=zen4,generic"])
    check("codes", "E0201" in complete("explain", "E02") and complete("help", "pro") == ["profile", "prove"])
    check("a file that is not there", complete("run", "nothing.pk", "") == [])
    broken = folder / "broken.pk"
    broken.write_text("kernel k(x: f32[M, N + 1]) -> (o: f32[M]) { static BM = 8; o[...] = x[; }")
    check("a half-typed kernel", complete("run", str(broken), "") == ["M=", "N=", "x=", "BM="])
    (folder / "a b").mkdir()
    (folder / "a b" / "c.pk").write_text("")
    (folder / "c.txt").write_text("")
    (folder / ".hidden.pk").write_text("")
    check("folders with blanks, and only .pk files", complete("run", "", cwd=folder) == ["a b/", "broken.pk", "several.pk"])
    check("a file in a folder with a blank", complete("run", "a b/", cwd=folder) == ["a b/c.pk"])
    check("hidden files where they are asked for", complete("run", ".h", cwd=folder) == [".hidden.pk"])


def test_choices():
    """Every word that is offered as the value of an option is accepted by it."""
    for name, value, accepted, *_ in def_rows("codegen/verbs/options.def", "OPTION"):
        if "|" not in value or not value.replace("|", "").isalnum() or not value.islower():
            continue
        verb = accepted.split("|")[0].strip().removeprefix("VERB_").lower().replace("all_verbs", "check")
        check(f"values of {name}", complete(verb, f"{name}=") == [f"{name}={word}" for word in value.split("|")])
        for word in value.split("|"):
            done = subprocess.run([PKC, verb, f"{name}={word}", "missing.pk"], capture_output=True, text=True)
            check(f"{name}={word} is accepted", done.returncode == 1, done.stderr)


# ---- in the shells


class Terminal:
    """A shell in a pseudo-terminal."""

    def __init__(self, words, environment, cwd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(words[0], words, environment)
        self.shown = ""

    def wait(self, text, seconds=30):
        end = time.time() + seconds
        while text not in self.shown and time.time() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
        return text in self.shown

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


# A typed line that ends with a tab, and the words that the program then gets.
LINES = [
    ("pkc prof\t", ["profile"]),
    ("pkc run fla\t", ["run", "flash.pk"]),
    ("pkc run sub/ins\t", ["run", "sub/inside.pk"]),
    ("pkc run flash.pk CAU\tt\t", ["run", "flash.pk", "CAUSAL=true"]),
    ("pkc run flash.pk q=rando\t3", ["run", "flash.pk", "q=random:3"]),
    ("pkc check --diag\tj\t flash.pk", ["check", "--diagnostics=json", "flash.pk"]),
    ("pkc run spa\t", ["run", "spa ced.pk"]),
]


def at_terminal(shell, start, ready, folder, environment):
    terminal = Terminal(start, environment, folder)
    try:
        if not check(f"{shell} starts", terminal.wait(ready), terminal.shown[-500:]):
            return
        for number, (line, words) in enumerate(LINES):
            pieces = line.split("\t")
            for index, piece in enumerate(pieces):
                terminal.type(piece + ("\t" if index < len(pieces) - 1 else ""))
                time.sleep(0.4)
            mark = f"GOT{number}"
            terminal.type(f" {mark}\r")
            wanted = "".join(f"<{word}>" for word in [*words, mark])
            check(f"{shell}: {line!r}", terminal.wait(wanted, 10), terminal.shown[-300:].replace("\r", ""))
    finally:
        terminal.close()


def test_shells(folder):
    files, path = folder / "files", folder / "bin"
    (files / "sub").mkdir(parents=True)
    path.mkdir()
    shutil.copy(FLASH, files / "flash.pk")
    shutil.copy(FLASH, files / "sub" / "inside.pk")
    shutil.copy(FLASH, files / "spa ced.pk")
    # It prints the words that it gets, and has the completion of pkc.
    (path / "pkc").write_text(f"""#!/bin/sh\n[ "$1" = complete ] && exec {PKC} "$@"\nprintf '<%s>' "$@"\necho\n""")
    (path / "pkc").chmod(0o755)
    home = folder / "home"
    home.mkdir()
    environment = dict(os.environ, PATH=f"{path}:{os.environ['PATH']}", HOME=str(home), TERM="dumb", PS1="ready> ", XDG_CONFIG_HOME=str(home), XDG_DATA_HOME=str(home))
    completions = ROOT / "docs/completions"
    if shutil.which("bash"):
        rc = home / "bashrc"
        rc.write_text(f"PS1='ready> '\nbind 'set bell-style none'\nbind 'set enable-bracketed-paste off'\nsource {completions}/pkc.bash\n")
        at_terminal("bash", ["bash", "--rcfile", str(rc), "-i"], "ready> ", files, environment)
    else:
        print("SKIPPED shells, bash: it is not installed")
    if shutil.which("zsh"):
        (home / ".zshrc").write_text(f"fpath=({completions} $fpath)\nautoload -U compinit; compinit -u -D\nunsetopt zle_bracketed_paste\nPS1='ready> '\n")
        at_terminal("zsh", ["zsh", "-i"], "ready> ", files, dict(environment, ZDOTDIR=str(home)))
    else:
        print("SKIPPED shells, zsh: it is not installed (make deps)")
    if shutil.which("fish"):
        test_fish(files, completions / "pkc.fish", environment)
    else:
        print("SKIPPED shells, fish: it is not installed (make deps)")


def test_fish(files, script, environment):
    for line, wanted in [
        ("pkc prof", "profile"),
        ("pkc run sub/ins", "sub/inside.pk"),
        ("pkc run flash.pk CAUSAL=t", "CAUSAL=true"),
        ("pkc run flash.pk q=rando", "q=random:"),
        ("pkc check --diagnostics=j", "--diagnostics=json"),
        ("pkc run spa", "spa ced.pk"),
        ("pkc run spa\\ ", "spa ced.pk"),
    ]:
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], capture_output=True, text=True, cwd=files, env=environment, timeout=60)
        found = [text.split("\t")[0].replace("\\ ", " ") for text in done.stdout.splitlines()]
        check(f"fish: {line}", found == [wanted], f"{found} {done.stderr}")


# ---- the other verbs


def test_new(folder):
    said = run("new", "scaled", cwd=folder)
    check("new says what it wrote", "wrote scaled.pk" in said, said)
    check("its tests pass", " 0 failed" in run("test", "scaled.pk", cwd=folder))
    check("it is formatted", run("fmt", "--check", "scaled.pk", cwd=folder) == "")
    check("pkc check of it", "no findings" in run("check", "scaled.pk", "M=9", "N=5", cwd=folder))
    check("an existing file stays", "scaled.pk exists already" in run("new", "scaled.pk", cwd=folder, status=1))
    check("another folder", "wrote a b/x1.pk" in run("new", "a b/x1.pk", cwd=folder))
    for name in ("1st", "a-b", "", ".pk", "if", "two words"):
        said = run("new", name, cwd=folder, status=1)
        check(f"`{name}` is not a name", "cannot be the name of a kernel" in said or "exists" in said, said)
    check("a folder that is not there", "cannot write" in run("new", "nowhere/k", cwd=folder, status=1))
    check("a name is needed", "NAME is missing" in run("new", status=2))


class Watch:
    def __init__(self, *words, cwd):
        self.process = subprocess.Popen([PKC, "watch", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, start_new_session=True,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a background job ignores it
        os.set_blocking(self.process.stdout.fileno(), False)

    def until(self, *texts, seconds=60):
        said, end = "", time.time() + seconds
        while not all(text in said for text in texts) and time.time() < end:
            said += (self.process.stdout.read() or b"").decode()
            time.sleep(0.05)
        return said


def save(path, text):
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def test_watch(folder):
    good = (folder / "scaled.pk").read_text()
    watched = folder / "watched"
    watched.mkdir()
    kernel = watched / "k.pk"
    kernel.write_text(good)
    watch = Watch(".", cwd=watched)
    try:
        said = watch.until("0 failed")
        check("watch tests at once", "./k.pk" in said and "0 failed" in said, said)
        save(kernel, good.replace("x[...] +", "z[...] +"))
        said = watch.until("E0201")
        check("a mistake is reported with its place", "k.pk:12:12: error" in said and "0 failed" not in said, said)
        save(kernel, good.replace("o = x +", "o = x -"))
        said = watch.until("passed")
        check("a wrong result is reported", "FAIL" in said, said)
        kernel.write_text(good)
        said = watch.until("0 failed")
        check("a file that is written in place", "0 failed" in said, said)
        (watched / "second.pk").write_text(good.replace("scaled", "second"))
        check("a new file", "second.pk" in watch.until("0 failed"))
        kernel.unlink()
        time.sleep(0.5)
        check("a file that is gone", watch.process.poll() is None)
        watch.process.send_signal(signal.SIGINT)
        check("it ends by Ctrl-C", watch.process.wait(timeout=20) == -signal.SIGINT)
    finally:
        watch.process.kill()
        watch.process.stdout.close()
    check("a path that is not there", "cannot read nowhere" in run("watch", "nowhere", status=1))


def test_words():
    check("help of a verb", run("help", "run") == run("run", "--help"))
    check("help alone", run("help") == run("--help"))
    check("help of an unknown verb", "did you mean prove" in run("help", "prov", status=2))
    lines = run("--version").splitlines()
    targets = [line.split()[0] for line in run("--targets").splitlines()]
    check("the version comes first", lines[0].startswith("pkc ") and len(lines) == 3, lines)
    check("it names the targets", set(lines[2].removeprefix("targets: ").split(", ")) == set(targets) and lines[1] == f"this machine: {targets[0]}", lines)
    check("fmt --check is --verify", run("fmt", "--check", ADD) == run("fmt", "--verify", ADD))
    for word, meant in [("--no_cache", "--no-cache"), ("--noCache", "--no-cache"), ("--MAX-TIME=3", "--max-time"), ("--vmem_limit=5", "--vmem-limit"), ("-target=zen4", "--target")]:
        check(f"{word}: another spelling", f"note: {word.split('=')[0]} is read as {meant}\n" in run("bench", ADD, word, "--help"))
    check("the value of an option in another spelling", run("tpu", "kernels/axpy.pk", "N=4096", "--Chip", "v4").startswith(run("tpu", "kernels/axpy.pk", "N=4096", "--chip", "v4")))
    check("--targte=zen4: the option that is meant", "did you mean --target?" in run("bench", ADD, "--targte=zen4", status=2))
    check("a verb in capitals", "did you mean check?" in run("CHECK", ADD, status=2))
    check("-o=FILE", "write -o x.c" in run(ADD, "-o=x.c", status=2))
    check("no kernel: no statics", "does not apply" in run("help", "run", "-D", "BM=4", status=2))
    check("a second word", "unexpected second word" in run("help", "run", "check", status=2))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        test_candidates(folder)
        test_choices()
        test_shells(folder)
        test_new(folder)
        test_watch(folder)
        test_words()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
