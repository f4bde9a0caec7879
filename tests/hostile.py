#!/usr/bin/env python3
"""Bad input of every kind: pkc ends with the right status and message, is never killed by a signal, and writes nothing.

Each case is a call of pkc in an empty folder. Runs without NumPy.
"""
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

from suite import PKC, ROOT

os.environ["CCACHE_DISABLE"] = "1"  # ccache would write below XDG_CACHE_HOME

ADD = str(ROOT / "kernels" / "add.pk")
MATMUL = str(ROOT / "kernels" / "matmul.pk")
TIMEOUT = 120

passed = 0
failures = []
group = ""


def npy(descr="<f4", shape=(2, 3), data=None, fortran=False, version=(1, 0), header=None):
    text = header if header is not None else "{'descr': '%s', 'fortran_order': %s, 'shape': %r, }" % (descr, fortran, shape)
    text = text.encode("latin1") + b" " * 10 + b"\n"
    size = struct.pack("<H", len(text)) if version[0] == 1 else struct.pack("<I", len(text))
    if data is None:
        count = 1
        for extent in shape:
            count *= extent
        data = bytes(count * 4)
    return b"\x93NUMPY" + bytes(version) + size + text + data


def call(arguments, files=None, env=None, stdin=None, stdout=None):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        for name, content in (files or {}).items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        before = {path: path.read_bytes() for path in folder.iterdir()}
        environment = dict(os.environ, NO_COLOR="1", **(env or {}))
        done = subprocess.run([PKC, *arguments], cwd=folder, env=environment, timeout=TIMEOUT, input=stdin,
                              stdout=stdout if stdout is not None else subprocess.PIPE, stderr=subprocess.PIPE)
        after = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        changed = sorted(path.name for path in after if before.get(path) != after[path])
        return done.returncode, (done.stdout or b"").decode("utf8", "replace"), done.stderr.decode("utf8", "replace"), changed
    except subprocess.TimeoutExpired:
        return None, "", "no answer within %d s" % TIMEOUT, []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def expect(name, arguments, status, text="", files=None, env=None, stdin=None, stdout=None, writes=()):
    """status: a number or several; text: what standard error (or output, when status is 0) must contain."""
    global passed
    statuses = status if isinstance(status, tuple) else (status,)
    code, out, err, changed = call(arguments, files, env, stdin, stdout)
    problems = []
    if code not in statuses:
        problems.append("status %s, expected %s" % (code, statuses))
    if text and text not in err + (out if 0 in statuses else ""):
        problems.append("the message lacks %r" % text)
    if "runtime error:" in err or "Sanitizer" in err:
        problems.append("undefined behaviour")
    if code not in (0, None) and code in statuses and not err.strip():
        problems.append("no message")
    if sorted(writes) != changed:
        problems.append("wrote %s" % changed)
    if problems:
        shown = " ".join(a if len(a) < 60 else a[:57] + "..." for a in arguments)
        failures.append("FAIL %s: pkc %s: %s; it said: %s; reproduce: tests/hostile.py %s"
                        % (name, shown, "; ".join(problems), err.strip()[:200].replace("\n", " | "), group))
    else:
        passed += 1


def source_cases():
    head = "kernel f(x: f32[M]) -> (o: f32[M]) { "
    bad_sources = {
        "empty": b"",
        "blank": b" \n\n\t\n",
        "comment only": b"// nothing here\n",
        "unclosed comment": b"/* nothing here\n",
        "unclosed string": head + 'require M > 0 : "no end\n o[...] = x[...]; }',
        "binary": bytes(range(256)) * 64,
        "nul bytes": b"kernel f\0(x: f32[M]) -> (o: f32[M]) { o[...] = x[...]; }",
        "random": bytes(random.Random(7).randrange(256) for _ in range(5000)),
        "long line": "kernel f(x: f32[M]) -> (o: f32[M]) { o[...] = x[...] " + "+ x[...] " * 120000 + " ( ; }",
        "long name": "kernel " + "a" * 1000000 + "(",
        "long number": head + "static N = " + "9" * 100000 + "; o[...] = x[...]; }",
        "deep parentheses": head + "o[...] = " + "(" * 100000 + "x[...]" + ")" * 100000 + "; }",
        "deep brackets": head + "o[...] = x" + "[" * 100000 + "]" * 100000 + "; }",
        "deep blocks": head + "when M > 0 { " * 50000 + "}" * 50000 + " }",
        "deep unary": head + "o[...] = " + "-" * 100000 + "x[...]; }",
        "deep not": head + "when " + "!" * 100000 + "true { o[...] = x[...]; } }",
        "many opens": "{" * 200000,
        "many closes": "}" * 200000,
        "missing semicolon": head + "o[...] = x[...] }",
        "unknown name": head + "o[...] = y[...]; }",
        "unknown function": head + "o[...] = frobnicate(x[...]); }",
        "unknown dtype": "kernel f(x: f99[M]) -> (o: f32[M]) { o[...] = x[...]; }",
        "no outputs body": "kernel f(x: f32[M]) -> (o: f32[M]) ",
        "rank of block": head + "block x: [4, 4] at (0, 0); o[...] = x[...]; }",
        "shapes differ": "kernel f(x: f32[4], y: f32[5]) -> (o: f32[4]) { o[...] = x[...] + y[...]; }",
        "mixed dtypes": "kernel f(x: f32[4], y: i32[4]) -> (o: f32[4]) { o[...] = x[...] + y[...]; }",
        "huge block": "kernel f(x: f32[M]) -> (o: f32[M]) { block x, o: [9223372036854775807] at (0); o[...] = x[...]; }",
        "negative block": "kernel f(x: f32[M]) -> (o: f32[M]) { block x, o: [-4] at (0); o[...] = x[...]; }",
        "static of itself": head + "static A = A + 1; o[...] = x[...]; }",
        "recursive fn": "fn g(a) = g(a); " + head + "o[...] = g(x[...]); }",
        "static loop without end": head + "static for i in 0..1000000000000 { o[...] = x[...]; } }",
        "division by zero": head + "static A = 1 / 0, B = 5 % 0; block x, o: [A] at (0); o[...] = x[...]; }",
    }
    for name, text in bad_sources.items():
        expect("compile " + name, ["bad.pk"], 1, "bad.pk", files={"bad.pk": text})
        expect("check " + name, ["check", "bad.pk", "M=4"], 1, "bad.pk", files={"bad.pk": text})
    expect("fmt garbage", ["fmt", "bad.pk"], 1, "bad.pk", files={"bad.pk": b"kernel kernel kernel ((("})
    expect("json of garbage", ["bad.pk", "--diagnostics=json"], 1, '"severity":"error"', files={"bad.pk": b"kernel \xff\xfe("})


def repeated_cases():
    """Of many errors with the same message one is printed, with the lines of the others."""
    text = "kernel f(x: f32[8]) -> (o: f32[8]) {\n%s}\n"
    expect("fifteen alike", ["a.pk"], 1, "note: and 14 more places: lines 3, 4, 5, ", files={"a.pk": text % ("  o[...] = softmax(x[...]);\n" * 15)})
    expect("several in a line", ["a.pk"], 1, "note: and 3 more places: lines 2, 3\n",
           files={"a.pk": text % ("  o[...] = mean(x[...]) + mean(x[...]);\n" * 2)})


def endless_cases():
    """Wherever pkc reads a text, endless input is refused, in bounded memory."""
    global passed
    most = "64 MiB"
    for verb in ("compile", "check", "run", "explain", "fmt"):
        expect(verb + " of what has no end", [verb, "/dev/zero"] + (["M=1", "N=1"] if verb in ("check", "run") else []), (1, 3), most)
    expect("a chip of what has no end", ["tpu", ADD, "M=8", "N=8", "--chip-file", "/dev/zero"], 1, most)
    expect("an array of what has no end", ["run", ADD, "x=/dev/zero", "y=ones", "N=3"], 1, "/dev/zero")
    for verb in ("fmt", "compile"):
        with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
            done = subprocess.run([PKC, verb, "-" if verb == "fmt" else "/dev/stdin"], stdin=endless.stdout, capture_output=True, timeout=TIMEOUT)
            endless.kill()
        if done.returncode == 1 and most.encode() in done.stderr:
            passed += 1
        else:
            failures.append("FAIL %s of an endless pipe: status %d, %s; reproduce: tests/hostile.py endless" % (verb, done.returncode, done.stderr[-200:]))


def usage_cases():
    expect("nothing", [], 2)
    expect("unknown verb", ["chekc", ADD], 2, "did you mean check")
    expect("unknown option", [ADD, "--frobnicate"], 2, "--frobnicate")
    expect("option without value", [ADD, "--target"], 2, "--target")
    expect("unknown target", [ADD, "--target=z80"], 2, "--target is native, ")
    expect("a target that is nearly one", [ADD, "--target=zen9"], 2, "(did you mean zen")
    expect("unknown form", [ADD, "--emit=cuda"], 2, "--emit is c, h, naive, ast, ir, loops, pallas or signature: `cuda`")
    expect("a form that is nearly one", [ADD, "--emit=palas"], 2, "did you mean pallas?")
    expect("options of other verbs are not suggested", ["fmt", "--chcked", ADD], 2, "unknown option --chcked")
    expect("option of another verb", [ADD, "--json"], 2, "--json")
    expect("bad threads", ["run", ADD, "M=1", "N=1", "--threads=0"], 2, "--threads")
    expect("bad threads text", ["run", ADD, "M=1", "N=1", "--threads=many"], 2, "--threads")
    expect("too many threads", ["run", ADD, "M=1", "N=1", "--threads=99999999999"], 2, "a whole number from 1 to 1024")
    expect("a count that is too large", ["check", ADD, "M=1", "N=1", "--orders=9999999999999999999"], 2, "--orders expects a whole number from 1 to 2^63-1")
    expect("two files", [ADD, ADD], 2)
    expect("a size without a value", ["run", ADD, "M", "N=1"], 2, "unexpected second file `M`; sizes, statics and operands are NAME=VALUE")
    for words in (["-o", "a.c", "-o", "b.c"], ["--target=zen4", "--target=zen5"], ["-D", "BM=8", "-D", "BM=16"], ["-k", "add", "-k", "add"]):
        expect("option twice", [ADD, *words], 2, "%s is given twice: `" % words[0].split("=")[0])
    expect("operand written twice", ["run", ADD, "M=1", "N=1", "-o", "o=a.npy", "-o", "o=b.npy"], 2, "-o is given twice: `o=a.npy` and `o=b.npy`")
    expect("a static twice", ["check", ADD, "M=1", "N=1", "BM=8", "BM=16"], 1, "BM is given twice")
    expect("different names", ["check", ADD, "M=1", "N=1", "-D", "BM=8", "-D", "BN=16", "-o", "o=a.npy", "-o", "x=b.npy"], 0, writes=("a.npy", "b.npy"))
    expect("a word of the language as a name", ["new", "if"], 1, "`if` cannot be the name of a kernel: it is a word of the language")
    expect("no word as a verb", [""], 2, "unknown verb ``")
    expect("the file is named once", ["run", "missing.pk"], 1, "pkc: error: missing.pk: cannot read the file: No such file or directory")
    expect("static without value", [ADD, "-D", "BM"], 2, "NAME=VALUE")
    expect("unknown letter", [ADD, "-d", "?"], 2)
    expect("tune without sizes", ["tune", ADD], 1, "sizes that must be given")
    expect("missing file", ["missing.pk"], 1, "missing.pk")
    expect("a folder", ["check", "/tmp"], 1)
    expect("unknown kernel", [ADD, "-k", "nothing"], 1, "nothing")
    expect("unknown static", [ADD, "-D", "NOBODY=4"], 1, "NOBODY")
    expect("static of a wrong type", [ADD, "-D", "BM=f32"], 1, "BM")
    expect("static garbage", [ADD, "-D", "BM=((("], 1)
    expect("negative static", [ADD, "-D", "BM=-4"], 1)
    expect("zero static", [ADD, "-D", "BM=0"], 1)
    expect("huge static", [ADD, "-D", "BM=9223372036854775807"], 1)
    expect("explain with an unknown name", ["explain", ADD, "Q=4"], 1, "Q is not a static")
    expect("compile with a size", [ADD, "M=4"], 1, "M is not a static")
    expect("threads are common to all verbs", ["explain", ADD, "--threads", "2", "--target=generic", "M=4"], 0)
    expect("unknown code", ["explain", "E9999"], 1, "E9999")
    expect("a piece of a code", ["explain", "E20"], 1, "there is no error E20: did you mean E0201, E0202, ")
    expect("help", ["--help"], 0, "pkc")
    expect("version", ["--version"], 0, "pkc ")


def size_cases():
    for verb in ("check", "run", "bench"):
        expect(verb + " missing sizes", [verb, ADD], 1, "M, N")
        expect(verb + " missing one size", [verb, ADD, "M=4"], 1, "N")
        expect(verb + " unknown name", [verb, ADD, "M=4", "N=4", "Q=5"], 1, "Q")
        expect(verb + " negative size", [verb, ADD, "M=-1", "N=4"], 1, "negative")
        expect(verb + " size of text", [verb, ADD, "M=four", "N=4"], 1, "M")
        expect(verb + " huge size", [verb, ADD, "M=99999999999999999999", "N=1"], 1, "M")
        expect(verb + " large size", [verb, ADD, "M=4294967296", "N=1"], 1, "M")
        expect(verb + " too much memory", [verb, ADD, "M=2147483647", "N=2147483647"], 1)
        expect(verb + " much memory", [verb, ADD, "M=2147483647", "N=1000"], 1, "memory")
        expect(verb + " size twice", [verb, ADD, "M=4", "M=5", "N=4"], 1, "twice")
        expect(verb + " output given", [verb, ADD, "M=4", "N=4", "o=zeros"], 1, "output")
        expect(verb + " bad input", [verb, ADD, "M=4", "N=4", "x=whatever"], 1, "x=whatever")
        for text in ("random:", "random:x", "patterns:", "patterns:-1", "randint:1:2", "randint:5:2:1", "const:", "const:x", "randint:0:99999999999999999999:1"):
            expect("%s input %s" % (verb, text), [verb, ADD, "M=4", "N=4", "x=" + text], 1, "x=")
    expect("requirement", ["run", str(ROOT / "kernels" / "flash_attn.pk"), "-D", "D=8", "B=1", "H=3", "G=2", "N=4", "S=4"], 1, "query heads")
    big = "kernel f(x: f32[M]) -> (o: f32[M]) { block x, o: [8] at (0); scratch s: vmem f32[16384, 16384]; s[...] = 0; o[...] = x[...]; }"
    expect("run scratch beyond VMEM", ["run", "f.pk", "M=8"], 1, "VMEM", files={"f.pk": big})
    expect("empty arrays", ["run", ADD, "M=0", "N=5"], 0)
    module = "import numpy as np\ndef good(x, y, M):\n  assert x.shape[0] == M\n  return x + y\n"
    module += "def wrong(x, y):\n  return x - y\ndef short(x):\n  return x[1:]\ndef unknown(x, z):\n  return x\n"
    module += "def text(x):\n  return 'o'\ndef two(x, y):\n  return x, y\ndef leaves():\n  raise SystemExit(7)\ndef other(x):\n  return {'p': x}\n"
    module += "def raises(x):\n  raise ValueError('a bad thing')\ndef imaginary(x, y):\n  return x + y * 1j\n"
    for function, status, text in (("good", 0, "equal to r.py:good"), ("wrong", 3, "differs from the reference"), ("short", 1, "expected the shape"),
                                   ("unknown", 1, "the parameter z is not an input"), ("text", 1, "expected the shape"), ("two", 1, "expected 1 arrays"),
                                   ("leaves", 1, "r.py:leaves"), ("other", 1, "the result has no o"), ("raises", 1, "a bad thing"), ("imaginary", 1, "expected real numbers"), ("none", 1, "has no function none"), ("", 1, "FILE.py:FUNCTION")):
        expect("reference in Python: " + function, ["run", ADD, "M=4", "N=5", "--reference", "r.py:" + function], status, text, files={"r.py": module})
    expect("reference in Python that does not parse", ["run", ADD, "M=4", "N=5", "--reference", "r.py:f"], 1, "SyntaxError", files={"r.py": "def f(:"})
    expect("reference in Python that does not end", ["run", ADD, "M=4", "N=5", "--reference", "r.py:f", "--reference-time", "1.5"], 1,
           "`f` took more than 1.5 s and was ended; --reference-time", files={"r.py": "def f(x, y):\n    while True: pass"})
    expect("no reference in Python", ["run", ADD, "M=4", "N=5", "--reference", "r.py:f"], 1, "cannot read r.py")
    expect("vmem limit", ["run", ADD, "M=8", "N=8", "--vmem-limit=16"], 1, "VMEM")


HUGE = ["2147483647", "2147483648", "4611686018427387904", "9223372036854775807", "(-9223372036854775807 - 1)"]
# All places at which a size, a count or an amount is allowed: declarations, then statements.
HUGE_DECLARATIONS = [
    "block x: [H] at (i);", "block x: [8] at (i * H);", "block x: [8] at element (i + H) halo (H, H) pad 0;", "block x: [8] at slice (ds(H, H));",
    "block x: [8] at (i) buffers H;", "vmem_limit H;", "scratch b: vmem f32[H, H, 2];", "scratch b: vmem i4[H, 8, H];", "scratch b: sem dma[H];",
    "static A = H * 2, B = -H, C = H / -1, D = H % -1, E = abs(H), F = cdiv(H, -1), G = H << 1;", "require cdiv(N * H, 3) > -5;"]
HUGE_VALUES = [
    "iota([H])", "full([H, H, 2], 1.0)", "broadcast(1.0, [H, H])", "reshape(x[...], [H, H])", "reshape(x[...], [N, H])", "pad(x[...], ((H, H),))",
    "repeat(x[...], H, axis = 0)", "tile(x[...], (H,))", "roll(x[...], H, axis = 0)", "roll(x[...], H * i, axis = 0)", "one_hot(iota([8]), H)",
    "split(x[...], H)[0]", "x[...][H:]", "x[...][::H]", "x[...][ds(i * H, 2)]", "x[ds(i * H, 2)]", "x[ds(0, 2, H)]", "dynamic_slice(x[...], (i * H,), [4])",
    "dynamic_slice(x[...], (0,), [H])", "top_k(x[...], H)[0]", "integer_pow(x[...], H)", "cast(x[...], i32) << H", "random_bits(random_key(H), [8], at = (H,), total = [H])",
    "random_split(random_key(1), H)", "stack(x[...], x[...], axis = H)", "reduce_sum(x[...], axis = H)", "cast(i * H, i8)", "concatenate(x[...], full([H], 0.0))",
    "conv(reshape(x[...], [1, 8, 1]), full([3, 1, 1], 1.0), strides = H, dilation = H)", "conv(reshape(x[...], [1, 8, 1]), full([3, 1, 1], 1.0), padding = ((H, H),))",
    "broadcast(x[...], [H, H, H, H, H, H, H, 8])"]
HUGE_KERNELS = [
    "kernel f(x: f32[N]) -> (o: f32[N]) { grid (i in H, j in H, k in H parallel); o[...] = x[...]; }",
    "kernel f(x: f32[H, H, H]) -> (o: f32[N]) { block x: any; o[...] = 1.0; }", "kernel f(x: f32[N]) -> (o: f32[N * H]) { o[...] = 1.0; }",
    "kernel f(x: f32[N, H]) -> (o: f32[N + H]) { block x, o: any; }"]


def huge_cases():
    """No product or sum of sizes overflows: pkc ends with a result or an error, without a signal and without a long wait."""
    outcomes = (0, 1, 3)
    for h in HUGE:
        head = "kernel f(x: f32[N]) -> (o: f32[N]) {"
        texts = [head + " grid (i in cdiv(N, 8)); block o: [8] at (i); %s o[...] = 1.0; }" % d for d in HUGE_DECLARATIONS]
        texts += [head + " grid (i in cdiv(N, 8)); block x, o: [8] at (i); let v = %s; o[...] = x[...]; print(\"{}\", reduce_max(cast(v, f32))); }" % v
                  for v in HUGE_VALUES]
        for text in texts + HUGE_KERNELS:
            text = text.replace("H", h)
            for arguments in (["f.pk", "--emit=c"], ["check", "f.pk", "N=9"]):
                expect("huge " + text, arguments, outcomes, files={"f.pk": text})
    static = "kernel f(x: f32[N]) -> (o: f32[N]) { block x, o: [8] at (0); scratch b: vmem f32[2147483647, 2147483647, 2]; b[5, 9, 0] = 1; o[...] = b[5, 9, 0]; }"
    expect("static scratch", ["f.pk", "--emit=c"], 1, "2^48 elements", files={"f.pk": static})
    dynamic = "kernel f(x: f32[N], y: f32[M]) -> (o: f32[N]) { block x, o: [8] at (0); block y: any; scratch b: vmem %s[N, N, M, M]; b[0, 0, 0, 0] = 1; o[...] = cast(b[0, 0, 0, 0], f32); }"
    for dtype in ("f32", "i4"):
        sizes, files = ["N=1000000", "M=1000000"], {"f.pk": dynamic % dtype}
        expect("dynamic scratch", ["run", "f.pk", *sizes, "--vmem-limit=9223372036854775807"], 1, "more than 9223372036854775807", files=files)
        expect("dynamic scratch", ["check", "f.pk", *sizes], 3, "VMEM", files=files)
        expect("dynamic scratch", ["explain", "f.pk", *sizes], 0, "does not fit", files=files)
        expect("no machine's memory", ["run", "f.pk", "N=8000", "M=100000", "--vmem-limit=9223372036854775807"], 1, "memory", files=files)


def long_sources(n):
    """Texts of n parts, for each kind of part that takes linear time."""
    head = "kernel f(x: f32[M]) -> (o: f32[M]) {\n  grid (i in cdiv(M, 8));\n  block x, o: [8] at (i);\n"
    each = lambda form, count=n: "".join(form.format(k, k + 1) for k in range(count))
    return {
        "lets": head + "  let v0 = x[...];\n" + each("  let v{1} = v{0} + 1.5;\n") + "  o[...] = v%d;\n}\n" % n,
        "parameters": "kernel f(" + ", ".join("x%d: f32[M]" % k for k in range(n // 2)) + ") -> (o: f32[M]) { o[...] = x0[...]; }\n",
        "stores": head + each("  o[{0} & 7] = {0}.0;\n", n // 2) + "}\n",
        "row stores": head + "  scratch t: vmem f32[8];\n  t[...] = x[...];\n" + each("  t[...] = t[...] * 1.5 + {0};\n", n // 2) + "  o[...] = t[...];\n}\n",
        "stores apart": head + "  scratch t: vmem f32[%d, 8];\n" % n + each("  t[{0}, :] = x[...] + 0.5;\n", n // 2) + "  o[...] = t[0, :];\n}\n",
        "kernels": each("kernel f{0}(x: f32[M]) -> (o: f32[M]) {{ o[...] = x[...]; }}\nreference f{0} {{ o = x; }}\n", n // 2),
        "statics": head.replace("grid", "static S0 = 1" + each(", S{1} = S{0} + 1") + ";\n  grid") + "  o[...] = x[...] * S%d;\n}\n" % n,
        "functions": each("fn g{0}(a) = a + 1;\n", n // 8) + head + "  let v = x[...];\n" + each("  let v = g{0}(v);\n", n // 8) + "  o[...] = v;\n}\n",
        "concatenate": head + "  let v = concatenate(" + each("x[...], ", n // 8) + "axis = 0);\n  o[...] = v[0:8];\n}\n",
        "loops": head + "  var a: i32 = 0;\n" + each("  for k in 0..3 {{ a += {0}; }}\n", n // 8) + "  o[...] = x[...] + cast(a, f32);\n}\n",
        "comments": "// {0}\n" * n + head + "  o[...] = x[...];\n}\n",
    }


def seconds_for(arguments, text):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, _, err, _ = call(arguments, files={"f.pk": text})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, err, after.ru_utime - before.ru_utime


def time_cases():
    """Four times the text takes about four times the processor time; with a quadratic part it would take sixteen times."""
    global passed
    n = 6000
    short, long = long_sources(n), long_sources(4 * n)
    for name in short:
        kernel = ["-k", "f0"] if name == "kernels" else []
        for arguments in (["f.pk", "--emit=c", *kernel], ["check", "f.pk", "M=8", *kernel], ["fmt", "f.pk", "-o", "g.pk"]):
            if name == "parameters" and arguments[0] == "check":
                continue
            before, after = seconds_for(arguments, short[name]), seconds_for(arguments, long[name])
            if before[0] == after[0] == 0 and after[2] < max(8 * before[2], 1):
                passed += 1
            else:
                failures.append("FAIL time %s: pkc %s: status %s and %s, %.2f and %.2f s for 4 times the text; it said: %s; reproduce: tests/hostile.py time"
                                % (name, " ".join(arguments), before[0], after[0], before[2], after[2], after[1][:200].replace("\n", " | ")))


def npy_cases():
    bad = {
        "empty": b"",
        "magic only": b"\x93NUMPY",
        "no magic": b"hello, world, this is not a npy file",
        "version 9": npy(version=(9, 0)),
        "cut header": npy()[:30],
        "cut data": npy()[:-5],
        "bytes behind the data": npy() + b"12345",
        "huge header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b"{",
        "no dictionary": npy(header="hello"),
        "no shape": npy(header="{'descr': '<f4', 'fortran_order': False, }"),
        "unknown key": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}"),
        "open string": npy(header="{'descr': '<f4"),
        "negative shape": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }"),
        "huge shape": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3), }"),
        "overflowing shape": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
        "many axes": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ("1, " * 40)),
        "open shape": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3"),
        "big endian": npy(descr=">f4"),
        "wrong dtype": npy(descr="<i4"),
        "double": npy(descr="<f8", data=bytes(48)),
        "records": npy(header="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }"),
        "objects": npy(descr="|O"),
        "wrong rank": npy(shape=(6,)),
        "rank 0": npy(shape=(), data=bytes(4)),
        "junk behind": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } junk"),
        "second dictionary": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } {}"),
        "key twice": npy(header="{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"),
        "no tuple": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (6), }"),
        "leading zero": npy(header="{'descr': '<f4', 'fortran_order': False, 'shape': (02, 3), }"),
        "bad fortran": npy(header="{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3), }"),
    }
    for name, content in bad.items():
        for verb in ("check", "run"):
            expect("%s npy %s" % (verb, name), [verb, ADD, "-D", "T=f32", "x=a.npy", "y=ones", "N=3"], 1, "a.npy", files={"a.npy": content})
    for name in ("a.pt", "a.npz", "a.safetensors"):
        expect("run " + name, ["run", ADD, "x=" + name, "y=ones", "N=3"], 1, "numpy.save", files={name: b"PK"})
    good = npy()
    expect("npy missing", ["run", ADD, "x=nothing.npy", "y=ones"], 1, "nothing.npy")
    expect("npy sizes disagree", ["run", ADD, "x=a.npy", "y=b.npy"], 1, "disagree", files={"a.npy": good, "b.npy": npy(shape=(2, 4))})
    expect("npy against a size", ["run", ADD, "x=a.npy", "M=5"], 1, "disagree", files={"a.npy": good})
    for version in ((1, 0), (2, 0), (3, 0)):
        expect("npy version %d" % version[0], ["check", ADD, "x=a.npy"], 0, files={"a.npy": npy(version=version)})
    values = [float(i) for i in range(6)]
    rows, columns = struct.pack("<6f", *values), struct.pack("<6f", *[values[r * 3 + c] for c in range(3) for r in range(2)])
    for name, content in (("rows", npy(data=rows)), ("fortran", npy(data=columns, fortran=True))):
        check_output(name, content, rows)


def check_output(name, content, expected):
    """The output of x + 0 has the elements of x in C order."""
    global passed
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hostile-"))
    (folder / "a.npy").write_bytes(content)
    done = subprocess.run([PKC, "run", ADD, "x=a.npy", "y=zeros", "-o", "o=o.npy"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output = (folder / "o.npy").read_bytes() if (folder / "o.npy").exists() else b""
    shutil.rmtree(folder)
    if done.returncode == 0 and output.endswith(expected):
        passed += 1
    else:
        failures.append("FAIL npy %s: status %s, %s; reproduce: tests/hostile.py %s"
                        % (name, done.returncode, done.stderr.decode()[:200].replace("\n", " | "), group))


def output_cases():
    expect("disk full", [ADD, "-o", "/dev/full"], 1, "/dev/full")
    with open("/dev/full", "wb") as full:
        expect("standard output full", ["--help"], 1, "standard output", stdout=full)
        expect("text to a full disk", [ADD, "--emit=c"], 1, "standard output", stdout=full)
    expect("no such folder", [ADD, "-o", "nowhere/add.c"], 1, "nowhere")
    expect("a folder as output", [ADD, "-o", "/tmp"], 1)
    expect("header as output", [ADD, "-o", "add.h"], 1, ".h")
    expect("npy to a full disk", ["run", ADD, "M=2", "N=2", "-o", "o=/dev/full"], 1, "/dev/full")
    expect("npy to no folder", ["run", ADD, "M=2", "N=2", "-o", "o=nowhere/o.npy"], 1, "nowhere")
    expect("an output of no name", ["run", ADD, "M=2", "N=2", "-o", "q=o.npy"], 1, "q")
    expect("output without file", ["run", ADD, "M=2", "N=2", "-o", "o"], 2)
    expect("compiled", [ADD], 0, writes=("add.c", "add.h"))
    expect("fmt to a full disk", ["fmt", "a.pk", "-o", "/dev/full"], 1, "/dev/full", files={"a.pk": pathlib.Path(ADD).read_bytes()})


def compiler_cases():
    cold = {"XDG_CACHE_HOME": "/dev/null/cache"}
    for verb in ("run", "bench"):
        where = [verb, ADD, "M=3", "N=5", "--no-cache"]
        expect(verb + " no compiler", where, 1, "/nonexistent/cc", env={"CC": "/nonexistent/cc"})
        expect(verb + " false as compiler", where, 1, "false", env={"CC": "false"})
        expect(verb + " true as compiler", where, 1, "is it a C compiler?", env={"CC": "true"})
        expect(verb + " blank compiler", where, (0, 1), env={"CC": " "})
        expect(verb + " bad flag", where, 1, "compiler failed", env={"PKC_CFLAGS": "-fno-such-flag-at-all"})
        expect(verb + " no temporary folder", where, 1, "folder", env={"TMPDIR": "/nonexistent"})
    expect("no cache folder", ["run", ADD, "M=3", "N=5"], 0, env=dict(cold, HOME="/dev/null/home"))


def fuzz_cases():
    """Kernels with changed, missing and doubled bytes: any status but a signal, no hang."""
    global passed
    rng = random.Random(20)
    texts = [path.read_bytes() for path in sorted((ROOT / "kernels").glob("*.pk"))]
    for index in range(150):
        text = bytearray(rng.choice(texts))
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(text))
            kind = rng.randrange(4)
            if kind == 0:
                text[at] = rng.randrange(256)
            elif kind == 1:
                del text[at:at + rng.randrange(1, 20)]
            elif kind == 2:
                text[at:at] = text[at:at + rng.randrange(1, 40)]
            else:
                text[at:at] = rng.choice([b"(", b"[", b"{", b"}", b";", b"-", b"0", b"..", b"static ", b"9999999999", b"K", b"..."])
            if not text:
                text = bytearray(b" ")
        code, _, err, _ = call(["fuzz.pk", "--emit=c"], files={"fuzz.pk": bytes(text)})
        if code in (0, 1):
            passed += 1
            continue
        kept = pathlib.Path(tempfile.gettempdir()) / ("pkc-fuzz-%d.pk" % index)
        kept.write_bytes(bytes(text))
        failures.append("FAIL fuzz %d: status %s: %s; reproduce: pkc %s --emit=c" % (index, code, err.strip()[:200].replace("\n", " | "), kept))


def main():
    groups = {"source": source_cases, "endless": endless_cases, "repeated": repeated_cases, "usage": usage_cases, "size": size_cases, "huge": huge_cases, "npy": npy_cases, "output": output_cases,
              "compiler": compiler_cases, "time": time_cases, "fuzz": fuzz_cases}
    chosen = [name for name in sys.argv[1:] if name in groups] or list(groups)
    for name in chosen:
        global group
        group = name
        groups[name]()
    for line in failures:
        print(line)
    print("%d passed, %d failed" % (passed, len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
