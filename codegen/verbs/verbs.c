// The table of verbs.
#include "codegen/verbs/verbs.h"

#include <string.h>

static const char input_text[] =
    "SIZE=N gives a run-time size, STATIC=VALUE a static, OPERAND=INPUT the data of an operand. An "
    "INPUT is\n"
    "  FILE.npy              an array in NumPy's format\n"
    "  random:SEED           floats: standard normal; integers: uniform in [-8, 8); bools: fair "
    "(default random:0)\n"
    "  randint:LOW:HIGH:SEED uniform integers in [LOW, HIGH)\n"
    "  patterns:SEED         floats: NaN, infinities, signed zeros, subnormals, small numbers\n"
    "  iota, zeros, ones, const:V\n"
    "Sizes that follow from a given array may be omitted.\n";

static const char tpu_help[] =
    "Without a file: --chips, --sources, or --mesh with a collective (pkc tpu --mesh 4x4 send "
    "bytes=1e6 from=0,0 to=3,3).\n"
    "A kernel with a mesh is modelled on a slice of chips: pkc tpu FILE.pk SIZE=N .. --mesh 4x4 "
    "--chip v5p.\n";

static const char tune_help[] =
    "Tries block sizes: each is compared with the reference and timed in pairs with the default.\n"
    "The best ones are written to FILE.pk.tuning, which run, bench and explain read. The same "
    "command continues an\n"
    "interrupted search. With --chip the model of a TPU ranks them, and nothing is written.\n";

static const char calibrate_help[] =
    "Takes about a minute on an otherwise idle machine. The result is in the cache folder, for "
    "this processor.\nIt changes which regimes `--target native` selects at which sizes, and how "
    "many threads a call uses; results have\nthe same bits. PKC_CALIBRATION=0 ignores it. Exit "
    "status 6: the machine is busy, nothing is changed.\n";

static const char prove_help[] =
    "Runs kernel and reference in exact arithmetic on random elements of finite fields "
    "(docs/proofs.md).\nIntegers on which control flow or indices depend are drawn as given by "
    "OPERAND=INPUT; the elements of float inputs represent all floats.\nWithout sizes: the "
    "smallest with full, partial and several blocks along each axis.\nExit status: 0 proved, 3 "
    "refuted by floats, 4 undecided, 5 equal on drawn orders.\n";

static const char compile_help[] =
    "Without -o the files have the name of the .pk file, in the current folder. `pkc FILE.pk` does "
    "the same.\n";

static const char test_help[] =
    "$PKC_TEST_CC lists the C compilers to test with (default $CC, else cc), $PKC_JOBS the number "
    "of processes (default 2).\n"
    "$PKC_TEST_PORTABLE gives the optimisation of portable C (default -O1 -DPK_OUTLINE).\n";

static const char grad_help[] =
    "Prints `reference NAME_backward(inputs, gradients of outputs) -> (gradients of inputs)`, or "
    "with\n"
    "--forward `reference NAME_forward(inputs, directions) -> (directions of outputs)`, for the "
    "statics\n"
    "given by -D. The result runs, checks and compiles like a kernel, and can be differentiated "
    "again.\n"
    "--kernel prints a kernel of blocks, or a program of kernels, with that reference.\n";

static const char fmt_help[] = "A FILE of - reads standard input and writes standard output.\n";

static const char watch_help[] =
    "Prints the errors and warnings of each file that was saved, and the result of `pkc test`. "
    "Files that are created\nin a folder are watched too. Ctrl-C ends it.\n";

static const char lsp_help[] =
    "Speaks the Language Server Protocol, as editors that start it do (docs/editors.md).\n";

static const char complete_help[] =
    "The WORDs are those of a command line after `pkc`, up to the cursor; the last one is "
    "incomplete, or empty.\n"
    "Each line is a word, a tab, and what it means.\n";

const Verb verbs[VERB_COUNT] = {
#define VERB(id, name, synopsis, summary, text) {#name, synopsis, summary, VERB_##id, text},
#include "codegen/verbs/verbs.def"
};
const int verb_count = VERB_COUNT;

const Verb *verb_find(const char *name) {
  for (int i = 0; i < verb_count; i++)
    if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
  return NULL;
}

Takes verb_takes(Arena *arena, const Verb *verb) {
  const char *text = strncmp(verb->synopsis, verb->name, strlen(verb->name)) == 0
                         ? verb->synopsis + strlen(verb->name)
                         : verb->synopsis;
  text += strspn(text, " -");
  Takes takes = {.optional = *text == '['};
  text += takes.optional;
  size_t length = strcspn(text, " ]");
  const char *dots = strstr(text, "...");
  takes.several = dots && dots < text + length;
  takes.text = arena_strndup(arena, text, takes.several ? (size_t)(dots - text) : length);
  return takes;
}
