// pkc tpu --sweep: models every combination of some statics and ranks them.
#include "codegen/tpu/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STATICS = 8, MOST_CANDIDATES = 4096, SHOWN = 20 };

typedef struct {
  const char *name;
  LIST(const char *) values;
} Range;

typedef struct {
  int value[MOST_STATICS];
  const char *wrong;  // NULL: the rest counts
  double seconds, mxu, busy, hbm;
  int64_t vmem, limit, steps;
  const char *bound;
  bool refused;  // by the rules of the chip
} Candidate;

typedef struct {
  const SweepRequest *request;
  Range range[MOST_STATICS];
  int ranges;
  LIST(Candidate) found;
} Sweep;

// ---- ranges

// LOW:HIGH doubles from LOW; A,B,C is a list.
static bool read_values(Arena *arena, const char *text, Range *range) {
  const char *colon = strchr(text, ':');
  if (colon) {
    int64_t low, high;
    if (!parse_int(arena_strndup(arena, text, (size_t)(colon - text)), &low) ||
        !parse_int(colon + 1, &high))
      return false;
    if (low < 1 || high < low || high > INT32_MAX) return false;
    for (int64_t v = low; v <= high; v *= 2)
      LIST_PUSH(arena, &range->values, (const char *)arena_printf(arena, "%lld", (long long)v));
    return true;
  }
  while (*text) {
    size_t length = strcspn(text, ",");
    if (length == 0) return false;
    LIST_PUSH(arena, &range->values, (const char *)arena_strndup(arena, text, length));
    text += length + (text[length] == ',');
  }
  return range->values.count > 0;
}

static const char *add_range(Sweep *s, const char *name, const char *text) {
  Arena *arena = s->request->arena;
  if (s->ranges == MOST_STATICS) return "too many statics are swept";
  Range *range = &s->range[s->ranges++];
  range->name = intern(name);
  if (read_values(arena, text, range)) return NULL;
  return arena_printf(arena, "--sweep expects %s=LOW:HIGH or %s=A,B,C, not %s", name, name, text);
}

static const char *read_ranges(Sweep *s) {
  const char *wrong = NULL;
  int64_t count = 1;
  for (int i = 0; !wrong && i < s->request->count; i++)
    wrong = add_range(s, s->request->ranges[i].name, s->request->ranges[i].value);
  for (int i = 0; i < s->ranges; i++) count = saturating_mul(count, s->range[i].values.count);
  if (!wrong && count > MOST_CANDIDATES)
    wrong = arena_printf(s->request->arena, "%lld combinations; at most %d are tried",
                         (long long)count, MOST_CANDIDATES);
  return wrong;
}

// ---- candidates

static void model_program(const Sweep *s, Arena *arena, Kernel *k, const int64_t *sizes,
                          Candidate *c) {
  const ProgramModel *m = tpu_program(arena, k, sizes, s->request->chip,
                                      (ModelOptions){.slice = s->request->slice}, &c->wrong);
  if (m) c->wrong = tpu_program_unfit(m);
  if (m && !c->wrong && !m->times) c->wrong = "it makes no calls";
  if (!m || c->wrong) return;
  const Model *fullest = tpu_fullest(m)->model, *longest = tpu_longest(m)->model;
  c->seconds = m->seconds;
  c->mxu = m->mxu;
  c->busy = m->mxu_busy;
  c->hbm = m->hbm;
  c->vmem = fullest->vmem;
  c->limit = fullest->vmem_limit;
  c->steps = m->steps;
  c->bound = arena_printf(s->request->arena, "%s, longest in %s", longest->bound, longest->k->name);
  c->refused = !k->mesh.count &&
               tpu_check_program(k, s->request->chip, sizes, diag_new(arena, k->source)) > 0;
}

// Models the kernel or program with the candidate's statics, and stores the result or the reason
// for a refusal.
static void model_candidate(const Sweep *s, Arena *arena, const Argument *statics, Candidate *c) {
  Kernel *k;
  int64_t *sizes;
  c->wrong = s->request->bind(s->request->context, arena, statics, s->ranges, &k, &sizes);
  if (c->wrong) return;
  if (k->flow) {
    model_program(s, arena, k, sizes, c);
    return;
  }
  const Model *m = tpu_model(arena, k, sizes, s->request->chip,
                             (ModelOptions){.slice = s->request->slice}, &c->wrong);
  if (m && !c->wrong) c->wrong = tpu_model_unfit(m);
  if (!m || c->wrong) return;
  c->seconds = m->seconds;
  c->mxu = m->mxu;
  c->busy = tpu_busy(m, UNIT_MXU);
  c->hbm = m->hbm_share;
  c->vmem = m->vmem;
  c->limit = m->vmem_limit;
  c->steps = m->sim.totals.steps;
  c->bound = m->bound;
  c->refused =  // of a mesh the rules are not known yet
      !k->mesh.count && tpu_check(k, s->request->chip, sizes, diag_new(arena, k->source)) > 0;
}

static void try_candidate(Sweep *s, const int *value) {
  Arena *arena = arena_new(), *kept = s->request->arena;
  Argument statics[MOST_STATICS];
  Candidate c = {0};
  for (int i = 0; i < s->ranges; i++) {
    c.value[i] = value[i];
    statics[i] = (Argument){s->range[i].name, s->range[i].values.at[value[i]]};
  }
  model_candidate(s, arena, statics, &c);
  if (c.wrong) c.wrong = arena_strndup(kept, c.wrong, strlen(c.wrong));
  LIST_PUSH(kept, &s->found, c);
  arena_free(arena);
}

static int rank(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  if (!x->wrong != !y->wrong) return x->wrong ? 1 : -1;
  if (x->refused != y->refused) return x->refused ? 1 : -1;
  bool fits_x = x->vmem <= x->limit, fits_y = y->vmem <= y->limit;
  if (fits_x != fits_y) return fits_x ? -1 : 1;
  return x->seconds < y->seconds ? -1 : x->seconds > y->seconds ? 1 : 0;
}

static void try_all(Sweep *s) {
  int value[MOST_STATICS] = {0};
  for (int i = 0; i >= 0;) {
    try_candidate(s, value);
    for (i = s->ranges - 1; i >= 0 && ++value[i] == s->range[i].values.count; i--) value[i] = 0;
  }
  sort_items(s->found.at, (size_t)s->found.count, sizeof *s->found.at, rank);
}

// ---- results

static void put_table(const Sweep *s, Buf *out) {
  for (int i = 0; i < s->ranges; i++) buf_printf(out, "%8s", s->range[i].name);
  buf_puts(out, "         time   steps    MXU     HBM    VMEM  bound by\n");
  for (int r = 0; r < s->found.count && r < SHOWN; r++) {
    const Candidate *c = &s->found.at[r];
    for (int i = 0; i < s->ranges; i++) buf_printf(out, "%8s", s->range[i].values.at[c->value[i]]);
    if (c->wrong)
      buf_printf(out, "  %s\n", c->wrong);
    else
      buf_printf(out, " %9.4g us %7lld %5.1f %% %5.1f %% %5.1f %%  %s%s%s\n", c->seconds * 1e6,
                 (long long)c->steps, 100 * c->busy, 100 * c->hbm,
                 100 * (double)c->vmem / (double)c->limit,
                 c->vmem <= c->limit ? "" : "does not fit; ", c->bound,
                 c->refused ? "  (refused: check --tpu)" : "");
  }
  if (s->found.count > SHOWN) buf_printf(out, "and %d more\n", s->found.count - SHOWN);
}

// `--json`: one object a line for each candidate.
static void put_json(const Sweep *s, Buf *out) {
  for (int r = 0; r < s->found.count; r++) {
    const Candidate *c = &s->found.at[r];
    json_open(out, NULL, '{');
    json_open(out, "statics", '{');
    for (int i = 0; i < s->ranges; i++)
      json_text(out, s->range[i].name, s->range[i].values.at[c->value[i]]);
    json_close(out, '}');
    if (c->wrong) {
      json_text(out, "wrong", c->wrong);
    } else {
      json_real(out, "seconds", c->seconds);
      json_int(out, "steps", c->steps);
      json_real(out, "mxu", c->mxu);
      json_real(out, "mxu_busy", c->busy);
      json_real(out, "hbm", c->hbm);
      json_int(out, "vmem", c->vmem);
      json_bool(out, "fits", c->vmem <= c->limit);
      json_bool(out, "refused", c->refused);
      json_text(out, "bound", c->bound);
    }
    buf_puts(out, "}\n");
  }
}

int tpu_sweep(const SweepRequest *request) {
  Sweep s = {.request = request};
  const char *wrong = read_ranges(&s);
  if (wrong) return user_error("%s", wrong);
  try_all(&s);
  if (s.found.at[0].wrong)
    return user_error("%s: no combination can be modelled: %s", request->path, s.found.at[0].wrong);
  Buf out = {0};
  if (request->json)
    put_json(&s, &out);
  else
    put_table(&s, &out);
  int status = write_result("-", &out);
  buf_free(&out);
  return status;
}
