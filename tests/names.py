#!/usr/bin/env python3
"""Every word of C11, C++20, POSIX, Python and of pkc's own headers and output is used as a name of every kind: the C, the headers (also as
C++), the naive references and the Python that pkc writes must compile.

Few large compilations: kernels with hundreds of names each, all in one C file. Runs without NumPy.
"""
import ast
import builtins
import keyword
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from suite import BUILD, PKC, ROOT, check, finish

CC = os.environ.get("CC", "cc").split()
CHUNK = 320  # number of names in a kernel


C_WORDS = """auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while typeof asm far near linux unix
NULL EOF I complex imaginary bool true false errno stdin stdout stderr assert M_PI INFINITY NAN offsetof main"""
CPP_WORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static
static_assert static_cast std struct switch template this thread_local throw true try typedef typeid typename union unsigned
using virtual void volatile wchar_t while xor xor_eq final override import module"""
C_HEADERS = """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype""".split()
POSIX_HEADERS = """aio arpa/inet dirent dlfcn fcntl fnmatch ftw glob grp iconv langinfo libgen monetary mqueue net/if netdb
netinet/in netinet/tcp nl_types poll pthread pwd regex sched search semaphore spawn strings sys/ipc sys/mman sys/msg
sys/resource sys/select sys/sem sys/shm sys/socket sys/stat sys/statvfs sys/time sys/times sys/types sys/uio sys/un sys/utsname
sys/wait syslog termios ulimit unistd utime utmpx wordexp""".split()
CPP_HEADERS = """algorithm atomic bit cmath complex concepts cstdio cstdlib cstring functional iostream map memory mutex numeric
ranges span string thread tuple utility vector""".split()
# Names that pkc composes of those of an operand x, an axis i and a size M.
MADE = """x_held x_key x_block x_stream x_slot x_skinny x_new x_hbm x_slice x_begun x_at0 x_n0 x_s0 x_blocks x_blocks_tag x_slots
x_data x_stride0 x_size size_x n_i i_run i_most i_batches i_batch i_first i_end M_size M_row size0 bytes clear a plan step_work
cell worker call size array tensors context from to product v1 t1 sum row col advance iteration depth first left best value here strip wanted f_cell
f_layout f_arena f_kernel f_prepare f_operands f_sizes f_naive_kernel f_ u_pk_x u_x pkx_x pkx__x memory dense operands""".split()
ODD = ["_", "__", "___", "_x", "__x", "_X", "__FILE__", "__func__", "pk", "pk_", "pk_a", "pks_a", "PK_A", "naive_x", "kDLCPU",
       "DLTensor", "simde_x", "SIMDE_X", "_mm_add_ps", "__m512", "x" * 10000, "y" * 63 + "a", "y" * 63 + "b"]


def first_error(text):
    lines = [line for line in text.splitlines() if "error" in line]
    return (lines[0] if lines else text)[:400]


def ok(what, run):
    return check(what, run.returncode == 0, "status %d: %s" % (run.returncode, first_error(run.stderr)))


def run(words, **more):
    words = ["timeout", "60", *words]  # ends their children too
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def includes(headers, ending=".h"):
    return "".join("#if __has_include(<%s%s>)\n#include <%s%s>\n#endif\n" % (h, ending, h, ending) for h in headers)


STANDARDS = (["-std=c11"], ["-std=gnu11", "-D_GNU_SOURCE"])


def macros():
    found = set()
    for flags in STANDARDS:
        done = run([*CC, *flags, "-dM", "-E", "-x", "c", "-"], input=includes(C_HEADERS + POSIX_HEADERS))
        found |= set(re.findall(r"^#define (\w+)", done.stdout, re.M))
    return {name for name in found if not name.startswith("_")}


def declared():
    """Every word in the declarations of the headers."""
    found = set()
    for flags in STANDARDS:
        done = run([*CC, *flags, "-E", "-P", "-x", "c", "-"], input=includes(C_HEADERS + POSIX_HEADERS))
        found |= set(re.findall(r"\b[A-Za-z]\w*\b", done.stdout))
    return found


def exported():
    found = set()
    for library in ("libc.so.6", "libm.so.6", "libgomp.so.1"):
        path = run([*CC, "-print-file-name=" + library]).stdout.strip()
        found |= set(re.findall(r" [A-Za-z] (\w+)", run(["nm", "-D", "--defined-only", path]).stdout))
    return found


def own_words():
    """The words of the headers and of the output for some kernels."""
    texts = [path.read_text() for path in (ROOT / "include" / "pk").glob("*.h")]
    for kernel in ("add", "matmul", "softmax", "flash_attn", "matmul_dma"):
        for kind in ("c", "naive", "pallas"):
            texts.append(run([PKC, str(ROOT / "kernels" / (kernel + ".pk")), "--emit=" + kind]).stdout)
    return set(re.findall(r"\b[A-Za-z_]\w*\b", " ".join(texts)))


def language_words():
    """Words that cannot be names in a .pk file."""
    words = re.findall(r'^TOKEN\(\w+, "([a-z_]+)", RESERVED\)', (ROOT / "dsl" / "tokens.def").read_text(), re.M)
    return set(words) | set(re.findall(r'^(?:INTEGER|FLOAT)\(\w+, "(\w+)"', (ROOT / "dsl" / "dtypes.def").read_text(), re.M))


def local_words():
    """Kernels in which a name inside a function may collide with others."""
    words = set(C_WORDS.split()) | set(CPP_WORDS.split()) | macros() | own_words()
    words |= set(keyword.kwlist) | set(getattr(keyword, "softkwlist", [])) | set(dir(builtins)) | set(MADE) | set(ODD)
    words -= {"None", "_"}  # an axis in every kind of index; an unused value
    words |= {name + "_" for name in ("sqrt", "int", "pk", "max", "__FILE", "errno")}
    return sorted(words - language_words())


def chunks(words):
    return [words[i:i + CHUNK] for i in range(0, len(words), CHUNK)]


def joined(words, form, by):
    return by.join(form % w for w in words)


def with_operands(name, words):
    return ("kernel %s(%s) -> (out0: f32[size0a]) {\n  block %s, out0: [8] at (0);\n  out0[...] = %s;\n}\nreference %s { out0 = %s; }\n"
            % (name, joined(words, "%s: f32[size0a]", ", "), ", ".join(words), joined(words, "%s[...]", " + "), name, " + ".join(words)))


def with_outputs(name, words):
    return ("kernel %s(in0: f32[4, 4]) -> (%s) {\n  %s\n}\n"
            % (name, joined(words, "%s: f32[4, 4]", ", "), " ".join("%s[...] = in0[...].T;" % w for w in words)))


def with_values(name, words):
    return ("kernel %s(in0: f32[size0a, 16]) -> (out0: f32[size0a, 16]) {\n  block in0, out0: [8, 16] at (0, 0);\n  %s\n  out0[...] = %s;\n}\n"
            % (name, " ".join("let %s = reduce_max(in0[...] * %d.5, axis = 1);" % (w, i) for i, w in enumerate(words)), " + ".join(words)))


def with_memory(name, words):
    return ("kernel %s(in0: f32[size0a]) -> (out0: f32[size0a]) {\n  block in0, out0: [8] at (0);\n  %s\n  %s\n  out0[...] = %s;\n}\n"
            % (name, joined(words, "scratch %s: vmem f32[8];", " "), joined(words, "%s[...] = in0[...];", " "),
               joined(words, "%s[...]", " + ")))


def with_variables(name, words):
    text = "".join("for %s in 0..3 { out0[%s] = in0[%s] * 2.0; }\n" % (w, w, w) for w in words)
    text += "".join("when true { var %s: f32 = 1.0; while %s < 3 { %s = %s * in0[1]; } out0[0] = %s; }\n" % ((w,) * 5) for w in words)
    return "kernel %s(in0: f32[8]) -> (out0: f32[8]) {\n  block in0, out0: [8] at (0);\n  %s}\n" % (name, text)


def with_sizes(name, words):
    return ("kernel %s(%s) -> (out0: f32[%s]) {\n  grid (n0 in cdiv(%s, 8) parallel);\n  %s\n  block out0: [8] at (n0);\n  out0[...] = %s;\n}\n"
            "reference %s { out0 = in0; }\n"
            % (name, ", ".join("in%d: f32[%s]" % (i, w) for i, w in enumerate(words)), words[0], words[0],
               " ".join("block in%d: [8] at (n0);" % i for i in range(len(words))), " + ".join("in%d[...]" % i for i in range(len(words))),
               name))


def with_axes(name, words):
    return ("kernel %s(in0: f32[size0a, 8]) -> (out0: f32[size0a, 8]) {\n  grid (%s);\n  block in0, out0: [8, 8] at (%s, 0);\n  out0[...] = in0[...];\n}\n"
            % (name, ", ".join("%s in cdiv(size0a, 8) parallel" % w if i == 0 else "%s in 1" % w for i, w in enumerate(words)), words[0]))


ROLES = {"operands": with_operands, "outputs": with_outputs, "values": with_values, "memory": with_memory,
         "variables": with_variables, "sizes": with_sizes, "axes": with_axes}


def pkc(folder, source, *options):
    return run([PKC, source, *options], cwd=folder)


def python_is_sound(text):
    """The Python parses, and does not redefine the builtins that it calls or its imports."""
    tree = ast.parse(text)
    bound, called = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            bound.add(node.name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
    return sorted(bound & ((called & set(dir(builtins))) | {"jax", "jnp", "lax", "pl", "pltpu", "ValueError"}))


def emit(folder, role, index, words, python):
    name = "role_%s%d" % (role, index)
    source = name + ".pk"
    (folder / source).write_text(ROLES[role](name, words))
    if not ok("%s %s .. %s" % (role, words[0], words[-1]), pkc(folder, source)):
        return None
    if role in ("operands", "sizes"):
        done = pkc(folder, source, "--emit=naive")
        if ok("naive of " + name, done):
            (folder / (name + "_naive.c")).write_text(done.stdout)
    if python:
        done = pkc(folder, source, "--emit=pallas")
        if ok("pallas of " + name, done):
            try:
                wrong = python_is_sound(done.stdout)
                check("pallas of %s binds what it calls:" % name, not wrong, str(wrong))
            except SyntaxError as error:
                check("pallas of %s:" % name, False, str(error))
    return name


def compile_all(folder, names):
    """Compiles all kernels in one file, all references in another, and all headers after those of others, in C and in C++."""
    include = "-I" + str(ROOT / "include")
    checks = {"all.c": "".join('#include "%s.c"\n' % n for n in names),
              "headers.c": includes(C_HEADERS + POSIX_HEADERS) + "".join('#include "%s.h"\n' % n for n in names)}
    for name, text in checks.items():
        (folder / name).write_text(text)
    words = [*CC, "-fsyntax-only", "-fmax-errors=9", include, "-I."]
    ok("the C of all kernels", run([*words, "-std=c11", "-Werror=implicit", "all.c"], cwd=folder))
    ok("headers in C", run([*words, "-std=gnu11", "headers.c"], cwd=folder))
    headers = includes(CPP_HEADERS, "") + includes(C_HEADERS[:-6] + POSIX_HEADERS) + "".join('#include "%s.h"\n' % n for n in names)
    (folder / "headers.cpp").write_text(headers)
    if run(["c++", "--version"]).returncode == 0:
        ok("headers in C++", run(["c++", "-fsyntax-only", "-fmax-errors=9", include, "-std=c++20", "headers.cpp"], cwd=folder))
    for naive in sorted(folder.glob("*_naive.c"))[::12]:
        ok("naive " + naive.name, run([*words, "-std=c11", "-w", naive.name], cwd=folder))


def check_kernels(folder, words, called):
    """The functions of kernels with these names are distinct, can be declared together with the headers of others, and link into a working program."""
    done = run([str(BUILD / "tests" / "unit" / "test_names"), "-"], input="\n".join(words) + "\n")
    if not ok("names of kernels", done):
        return
    pairs = [line.split(" ") for line in done.stdout.splitlines()]
    functions = [function for _, function in pairs]
    check("every name has a function", [name for name, _ in pairs] == list(words))
    described = set(words) | {called}
    plain = [f for f in functions if not (f.endswith("_kernel") and f[:-7] in described)]  # these pairs get distinct names only within one file
    defined = plain + [f + "_kernel" for f in plain]
    check("functions and descriptions are distinct", len(set(defined)) == len(defined))
    endings = ["cell", "prepare", "layout", "arena", "operands", "sizes", "kernel"]
    taken = macros() | declared() | exported()
    check("no name is that of a kernel's own tables", not any(f + "_" + e in taken for f in plain for e in endings))
    functions_text = "".join("pk_status %s(pk_context *context);\nextern const pk_kernel %s_kernel;\n" % (f, f) for f in plain)
    include = "-I" + str(ROOT / "include")
    c = includes(C_HEADERS + POSIX_HEADERS) + "#include <pk/pk.h>\n#include <pk/rt.h>\n" + functions_text
    cpp = includes(CPP_HEADERS, "") + includes(C_HEADERS[:-6] + POSIX_HEADERS) + '#include <pk/pk.h>\n#include <pk/rt.h>\nextern "C" {\n' + functions_text + "}\n"
    (folder / "functions.c").write_text(c)
    (folder / "functions.cpp").write_text(cpp)
    ok("functions in C", run([*CC, "-fsyntax-only", "-fmax-errors=9", "-std=gnu11", "-Werror", include, "functions.c"], cwd=folder))
    if run(["c++", "--version"]).returncode == 0:
        ok("functions in C++", run(["c++", "-fsyntax-only", "-fmax-errors=9", "-std=c++20", include, "functions.cpp"], cwd=folder))
    # libc, libm and OpenMP do not call functions of these names.
    traps = "".join('  ".globl %s\\n.set %s, pk_trap\\n"\n' % (f, f) for f in plain if f != called)
    (folder / "trap.c").write_text("#include <stdlib.h>\nvoid pk_trap(void) { abort(); }\n__asm__(\n" + traps + ");\n")
    (folder / "main.c").write_text('#include "%s.h"\n#include <pk/rt.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
                                   "int main(void) {\n  float x[64 * 16] = {1}, y[64 * 16];\n  int64_t shape[] = {64, 16};\n"
                                   "  DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape}, out = in;\n"
                                   "  out.data = y;\n  pk_context *context = pk_context_new();\n  pk_context_set_threads(context, 2);\n"
                                   "  pk_status status = %s(context, &in, &out);\n  pk_context_free(context);\n"
                                   '  printf("%%d %%s\\n", (int)status, strchr("ab", \'b\'));\n  return status;\n}\n' % (called, called))
    sanitizers = os.environ.get("PKC_CFLAGS", "").split()
    done = run([*CC, "-w", "-fno-builtin", *sanitizers, include, "main.c", "trap.c", called + ".c", str(BUILD / "libpkrt.a"), "-fopenmp",
                "-lm", "-o", "program"], cwd=folder)
    if ok("all functions linked", done):
        done = run([str(folder / "program")])
        ok("a program with all functions", done)


def check_meeting(folder):
    """Operands, sizes, axes and values with names that pkc composes of others, for every form of an operand."""
    names = iter(["x_at0", "x_n0", "x_skinny", "n_i", "i_batch", "x_blocks", "x_blocks_tag", "x_slots", "x_hbm", "x_row"])
    s = [next(names) for _ in range(10)]
    text = """kernel meet(x: f32[{0}, {1}], x_held: f32[{1}, {2}], a: f32[{0}, {2}]) -> (x_key: f32[{0}, {2}]) {{
  static {3} = 8;
  grid (i in cdiv({0}, 8) parallel, {4} in cdiv({2}, 16) parallel, {5} in cdiv({1}, 16));
  block x: [8, 16] at (i, {5}) pad 0;
  block x_held: [16, 16] at ({5}, {4}) pad 0;
  block a, x_key: [8, 16] at (i, {4});
  scratch {6}: vmem f32[8, 16];
  scratch {7}: vmem f32[8, 16];
  when {5} == 0 {{ {6}[...] = 0; }}
  {6}[...] += dot(x[...], x_held[...]);
  {7}[...] = {6}[...] + a[...];
  let {8} = reduce_max({7}[...], axis = 1);
  let {9} = {7}[...] - {8};
  when {5} == cdiv({1}, 16) - 1 {{ x_key[...] = {9} + {8}; }}
}}
reference meet {{ x_key = dot(x, x_held) + a; }}
""".format(*s)
    (folder / "meet.pk").write_text(text)
    sizes = ["%s=%d" % (name, n) for name, n in zip(s[:3], (19, 21, 37))]
    for more in ([], ["--dma=literal"]):
        ok("names that meet " + " ".join(more), run([PKC, "run", "meet.pk", *sizes, *more], cwd=folder))


def check_runs(folder):
    """Kernels with names that a program already has, from the text to the result."""
    text = "".join("kernel %s(%s: f32[M]) -> (o: f32[M]) { block %s, o: [M] at (0); let pk_add = %s[...] + 1; o[...] = pk_add * pk_add; }\n"
                   "reference %s { o = (%s + 1) * (%s + 1); }\n" % (k, x, x, x, k, x, x)
                   for k, x in (("sqrt", "int"), ("exit", "memcpy"), ("main", "main"), ("y" * 10000, "z" * 10000)))
    (folder / "runs.pk").write_text(text)
    for kernel in ("sqrt", "exit", "main", "y" * 10000):
        ok("run of " + kernel[:10], run([PKC, "run", "runs.pk", "-k", kernel, "M=7"], cwd=folder))


def main():
    words = local_words()
    with tempfile.TemporaryDirectory(prefix="names-") as path:
        folder = pathlib.Path(path)
        names = []
        for role in [word for word in sys.argv[1:] if word in ROLES] or ROLES:
            parts = chunks(words)
            if role == "axes":  # a grid has few axes: names that C or the output may use
                few = sorted(set(C_WORDS.split() + CPP_WORDS.split() + MADE + ODD + keyword.kwlist) - language_words())
                parts = [few[i:i + 4] for i in range(0, len(few), 4)]
            for index, part in enumerate(parts):
                python = role in ("operands", "values", "sizes") or index % 8 == 0
                names.append(emit(folder, role, index, part, python))
        compile_all(folder, [n for n in names if n])
        (folder / "called.pk").write_text(with_values("called", ["v1", "v2"]))
        ok("called", pkc(folder, "called.pk"))
        check_kernels(folder, sorted(set(words) | declared() | exported()), "called")
        check_meeting(folder)
        check_runs(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
