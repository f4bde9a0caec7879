#!/usr/bin/env python3
"""examples/gpt2 trains, continues a checkpoint to the same bits, writes, and refuses damaged checkpoints with a message.

python/tests/test_gpt2.py compares its kernels with torch. Ends with `N passed, N failed`."""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = os.environ.get("BUILD", "build")
PROGRAM = ROOT / BUILD / "gpt2" / "gpt2"
passed = failed = 0


def check(what, good, said=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAIL gpt2: {what}: {said}")


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    return done.returncode, done.stdout.decode("latin1"), done.stderr.decode("latin1")


def refused(what, expected, *words):
    status, out, err = run(*words)
    check(what, status == 1 and expected in err and err.count("\n") == 1 and not out, (status, out, err))


def train(folder, name, *words):
    path = folder / name
    status, out, err = run("train", "docs/language.md", "README.md", "--checkpoint", path, "--steps", 60, "--batch", 4, *words)
    check(f"train {words}", status == 0, err)
    return path, out


def main():
    made = subprocess.run([os.environ.get("MAKE", "make"), "-s", f"BUILD={BUILD}", f"{BUILD}/gpt2/gpt2"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    check("builds", made.returncode == 0, made.stdout[-600:])
    if made.returncode:
        print(f"{passed} passed, {failed} failed")
        return 1
    with tempfile.TemporaryDirectory(prefix="gpt2_") as name:
        folder = pathlib.Path(name)
        whole, out = train(folder, "whole")
        loss = float(out.rsplit("loss ", 1)[1].split()[0])
        check("the loss falls", 1 < loss < 4.2, out)
        check("same bits on two threads", train(folder, "threads", "--threads", 2)[0].read_bytes() == whole.read_bytes())
        parts, _ = train(folder, "parts", "--stop", 25)
        check("a part differs", parts.read_bytes() != whole.read_bytes())
        _, out = train(folder, "parts", "--threads", 2)
        check("continued to the same bits", "continued" in out and parts.read_bytes() == whole.read_bytes(), out)
        check("nothing is left", sorted(p.name for p in folder.iterdir()) == ["parts", "threads", "whole"])
        status, text, err = run("sample", "--checkpoint", whole, "--length", 150, "--prompt", "The kernel ")
        check("writes past its context", status == 0 and text.startswith("The kernel ") and len(text) == 150 + 12, (status, err))
        check("the same text again", run("sample", "--checkpoint", whole, "--length", 150, "--prompt", "The kernel ", "--threads", 2)[1] == text)
        check("another seed", run("sample", "--checkpoint", whole, "--length", 150, "--prompt", "The kernel ", "--seed", 2)[1] != text)
        data = whole.read_bytes()
        damaged = folder / "damaged"
        header = int.from_bytes(data[:8], "little")
        swap = lambda a, b: data[:8] + data[8:8 + header].replace(a, b, 1) + data[8 + header:]  # noqa: E731
        assert len(swap(b'"shape":[256,128]', b'"shape":[128,256]')) == len(data)
        for what, text, expected in (
                ("empty", b"", "is not a safetensors file"), ("a text", b"hello world, this is not a model", "is not a safetensors file"),
                ("a header cut short", data[:100], "cut short"), ("a tensor cut short", data[:len(data) // 20], "is cut short at the tensor"),
                ("a wrong shape", swap(b'"shape":[256,128]', b'"shape":[128,256]'), "the tensor wte: axis 0 is not 256"),
                ("a wrong dtype", swap(b'"dtype":"F32"', b'"dtype":"F16"'), "the tensor wte is not of F32"),
                ("a missing tensor", swap(b'"bqkv":', b'"bqkw":'), "has no tensor bqkv"),
                ("no heads", swap(b'"heads":"4"', b'"heads":"x"'), "the metadata has no good heads"),
                ("heads that do not fit", swap(b'"heads":"4"', b'"heads":"3"'), "not 3 whole heads"),
                ("a huge size", swap(b'"layers":"4"', b'"layers":"9999999"')[:header], "cut short")):
            damaged.write_bytes(text)
            refused(what, expected, "sample", "--checkpoint", damaged)
            refused(what + ", to train", expected, "train", "README.md", "--checkpoint", damaged)
            check(what + " stays as it is", damaged.read_bytes() == text)
        refused("no text", "requires a text", "train")
        refused("a text that is not there", "No such file", "train", "no/such/text")
        refused("a short text", "at least 65 are needed", "train", "/dev/null")
        refused("no checkpoint", "requires --checkpoint", "sample")
        refused("an empty prompt", "the prompt is empty", "sample", "--checkpoint", whole, "--prompt", "")
        refused("an option", "unknown option --abc", "train", "README.md", "--abc", "1")
        refused("a number", "--steps: expected a number from 1", "train", "README.md", "--steps", "0")
        status, _, err = run("train", "README.md", "--steps", "1", "--checkpoint", folder / "a" / "b")
        check("a checkpoint that cannot be written", status == 1 and "No such file" in err, (status, err))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
