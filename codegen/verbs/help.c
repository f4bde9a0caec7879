// Prints --help, --version, --targets, and `pkc help`.
#include "codegen/passes/pass.h"
#include "codegen/verbs/verbs.h"

#include <stdio.h>
#include <string.h>

#ifndef PKC_VERSION
#define PKC_VERSION "unknown"
#endif

static void print_targets(void) {
  printf("\nTargets (--target; native is %s here)\n", target_find("native")->name);
  for (int i = 0; i < target_count; i++)
    printf("  %-22s %s\n", targets[i].name, targets[i].meaning);
}

void each_stage(Arena *arena, StageVisit *visit, void *context) {
  visit(context, 'a', "the syntax tree");
  visit(context, 'i', "the block IR as lowered");
  for (int i = 0; i < pass_count; i++)
    visit(context, passes[i].letter,
          arena_printf(arena, "the block IR after %s: %s", passes[i].name, passes[i].help));
  visit(context, 'l', "the loop IR");
  visit(context, 'n', "the naive reference as C");
}

static void print_stage(void *context, char letter, const char *meaning) {
  (void)context;
  printf("  %-22c %s\n", letter, meaning);
}

static void print_stages(Arena *arena) {
  printf("\nStages (-d)\n");
  each_stage(arena, print_stage, NULL);
}

static void print_options(const Verb *verb) {
  printf("\nOptions\n");
  for (int i = 0; i < option_count; i++) {
    const OptionRow *row = &option_rows[i];
    if (!(row->verbs & verb->flag)) continue;
    char head[64];
    snprintf(head, sizeof head, "%s%s%s", row->name,
             row->value ? (row->name[1] == '-' ? "=" : " ") : "", row->value ? row->value : "");
    printf("  %-22s %s\n", head, row->help);
  }
}

static void print_verb_help(Arena *arena, const Verb *verb) {
  printf("usage: pkc %s\n\n%s.\n", verb->synopsis, verb->summary);
  if (verb->text) printf("\n%s", verb->text);
  print_options(verb);
  if (verb->flag == VERB_COMPILE) print_stages(arena);
  const char *value;
  if (option_find("--target", verb, &value)->verbs & verb->flag) print_targets();
}

enum { SYNOPSIS_WIDTH = 50 };

static void print_help(void) {
  printf("pkc %s compiles .pk kernels to C.\n\n", PKC_VERSION);
  for (int i = 0; i < verb_count; i++) {
    const int width = printf("  pkc %s", verbs[i].synopsis);
    if (width > SYNOPSIS_WIDTH) putchar('\n');
    printf("%*s%s\n", SYNOPSIS_WIDTH + 1 - (width > SYNOPSIS_WIDTH ? 0 : width), "",
           verbs[i].summary);
  }
  printf(
      "\n`pkc VERB --help` says more. Exit status: 0 done, 1 an error in what was given, 2 wrong "
      "usage,\n"
      "3 a check or comparison failed, 4 and 5 see `pkc prove --help`, 134 an internal error.\n");
}

// For makefiles: one line NAME FLAGS.. per target, with the flags for the C of `pkc compile
// --target=NAME` and for runtime/micro.c.
static void print_flags_of(const Target *t) {
  TargetMacro macros[MOST_TARGET_MACROS];
  int count = target_macros(t, macros);
  printf("%s%s%s", t->name, *t->cc_flags ? " " : "", t->cc_flags);
  for (int i = 0; i < count; i++) printf(" -D%s=%lld", macros[i].name, (long long)macros[i].value);
  printf("\n");
}

static void print_target_flags(void) {
  const char *native = target_find("native")->name;
  for (int own = 1; own >= 0; own--)
    for (const Target *t = targets; t < targets + target_count; t++)
      if ((strcmp(t->name, native) == 0) == own) print_flags_of(t);
}

static void print_version(void) {
  printf("pkc %s\nthis machine: %s\ntargets:", PKC_VERSION, target_find("native")->name);
  for (int i = 0; i < target_count; i++) printf("%s %s", i ? "," : "", targets[i].name);
  printf("\n");
}

void answer(Arena *arena, const Verb *verb, const char *asked) {
  if (strcmp(asked, "--version") == 0)
    print_version();
  else if (strcmp(asked, "--targets") == 0)
    print_target_flags();
  else if (verb)
    print_verb_help(arena, verb);
  else
    print_help();
}

int verb_help(Options *options) {
  const char *word = options->files.count ? options->files.at[0] : NULL;
  const Verb *verb = word ? verb_find(word) : NULL;
  if (word && !verb) return unknown_verb(word, "");
  answer(options->arena, verb, "--help");
  return DONE;
}
