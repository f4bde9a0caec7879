// pkc prove --all-sizes: prints the facts about a kernel's safety.
#include "codegen/prove/safe.h"
#include "codegen/verbs/prove.h"

#include <stdio.h>
#include <string.h>

static SafeVerdict worst_of(const SafeReport *report) {
  SafeVerdict worst = SAFE_PROVED;
  for (int i = 0; i < report->facts.count; i++)
    if (report->facts.at[i].verdict > worst) worst = report->facts.at[i].verdict;
  return worst;
}

static int count_of(const SafeReport *report, SafeVerdict verdict) {
  int count = 0;
  for (int i = 0; i < report->facts.count; i++) count += report->facts.at[i].verdict == verdict;
  return count;
}

static const char *fact_text(Arena *arena, const Kernel *k, const SafeFact *fact) {
  int line = fact->span.end ? ir_line(k, fact->span) : 0;
  const char *place = line ? arena_printf(arena, "line %d: ", line) : "";
  const char *how = fact->verdict == SAFE_REFUTED   ? "not for "
                    : fact->verdict == SAFE_UNKNOWN ? "not known because of "
                                                    : "proved";
  return arena_printf(arena, "%s%s: %s%s", place, fact->what, how, fact->where ? fact->where : "");
}

static void print_facts(const Options *options, const Kernel *k, const SafeReport *report) {
  printf("%s: %s for all sizes (%d of %d facts)\n", k->name, safe_names[worst_of(report)],
         count_of(report, SAFE_PROVED), report->facts.count);
  const char *last = "";
  for (int i = 0; i < report->facts.count; i++) {
    const SafeFact *fact = &report->facts.at[i];
    const char *text = fact_text(options->arena, k, fact);
    if (fact->verdict != SAFE_PROVED && strcmp(text, last) != 0) printf("  %s\n", text);
    if (fact->verdict != SAFE_PROVED) last = text;
  }
  for (int i = 0; i < report->assumed.count && !options->quiet; i++)
    printf("%s%s\n", i ? "    " : "  assumed:\n    ", report->assumed.at[i]);
}

// `--json`: one object with the verdict, each fact and the assumptions.
static void print_facts_json(const Options *options, const Kernel *k, const SafeReport *report) {
  Buf out = {0};
  json_open(&out, NULL, '{');
  json_text(&out, "kernel", k->name);
  json_text(&out, "verdict", safe_names[worst_of(report)]);
  json_open(&out, "facts", '[');
  for (int i = 0; i < report->facts.count; i++) {
    const SafeFact *fact = &report->facts.at[i];
    json_open(&out, NULL, '{');
    json_text(&out, "what", fact->what);
    json_text(&out, "verdict", safe_names[fact->verdict]);
    json_int(&out, "line", fact->span.end ? ir_line(k, fact->span) : 0);
    json_text(&out, "where", fact->where);
    json_close(&out, '}');
  }
  json_close(&out, ']');
  json_open(&out, "assumptions", '[');
  for (int i = 0; i < report->assumed.count; i++) json_text(&out, NULL, report->assumed.at[i]);
  json_close(&out, ']');
  json_close(&out, '}');
  printf("%s\n", out.text);
  buf_free(&out);
  (void)options;
}

int prove_all_sizes(const Options *options, Kernel *k) {
  static const int statuses[SAFE_VERDICTS] = {DONE, PROOF_UNDECIDED, CHECK_FAILED};
  SafeReport report = {0};
  const char *wrong = prove_safe(options->arena, k, &report);
  if (wrong) return user_error("%s: %s", options->files.at[0], wrong);
  (options->json ? print_facts_json : print_facts)(options, k, &report);
  return statuses[worst_of(&report)];
}
