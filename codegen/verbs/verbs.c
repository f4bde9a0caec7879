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
    "  iota, zeros, ones, const:V\n"
    "Sizes that follow from a given array may be left out.\n";

static const char tpu_help[] =
    "Without a file: --chips, --sources, or --mesh with a collective (pkc tpu --mesh 4x4 send "
    "bytes=1e6 from=0,0 to=3,3).\n";

static const char tune_help[] =
    "Tries block sizes: each is compared with the reference and timed in pairs with the default.\n"
    "The best ones go to FILE.pk.tuning, where run, bench and explain find them. An interrupted "
    "search continues\n"
    "where it stopped. With --chip the model of a TPU ranks them, and nothing is written.\n";

const Verb verbs[] = {
    {"compile", "FILE.pk [-o NAME.c]", "compile a kernel to NAME.c and NAME.h", VERB_COMPILE,
     "Without -o the files take the .pk file's own name, in the current folder. `pkc FILE.pk` is "
     "the same.\n"},
    {"check", "check FILE.pk [SIZE=N ...] [OPERAND=INPUT ...] [-o OPERAND=FILE.npy ...]",
     "interpret a kernel and report its mistakes", VERB_CHECK, input_text},
    {"run", "run FILE.pk [SIZE=N ...] [OPERAND=INPUT ...] [-o OPERAND=FILE.npy ...]",
     "run a kernel and compare it with its reference", VERB_RUN, input_text},
    {"bench", "bench FILE.pk [SIZE=N ...] [OPERAND=INPUT ...]",
     "verify a kernel, then time it and its naive reference", VERB_BENCH, input_text},
    {"test", "test PATH...", "run the directives in .pk files and folders of them", VERB_TEST,
     "$PKC_TEST_CC lists the C compilers to test with (default $CC, else cc), $PKC_JOBS the number "
     "of processes (default 2).\n"
     "$PKC_TEST_PORTABLE is how portable C is optimised (default -O1 -DPK_OUTLINE).\n"},
    {"explain", "explain FILE.pk|E0123 [SIZE=N ...]",
     "explain how a kernel is compiled and why, or what an error means", VERB_EXPLAIN, NULL},
    {"tpu", "tpu FILE.pk [SIZE=N ...] [--chip v5e]",
     "model a kernel on a TPU: its time, its memory and what limits it", VERB_TPU, tpu_help},
    {"profile", "profile FILE.pk [SIZE=N ...] [OPERAND=INPUT ...]",
     "show where a compiled kernel spends its time, by source line and thread", VERB_PROFILE,
     input_text},
    {"tune", "tune FILE.pk [SIZE=N ...] [OPERAND=INPUT ...]",
     "search block sizes for this machine, or a TPU", VERB_TUNE, tune_help},
    {"fmt", "fmt FILE.pk...", "rewrite files in the canonical layout, keeping comments", VERB_FMT,
     "A FILE of - reads standard input and writes standard output.\n"},
};
const int verb_count = sizeof verbs / sizeof *verbs;

const Verb *verb_find(const char *name) {
  for (int i = 0; i < verb_count; i++)
    if (strcmp(name, verbs[i].name) == 0) return &verbs[i];
  return NULL;
}
