// Regimes of products: the compiler evaluates the rows of <pk/dot/regimes.h> if it knows the sizes,
// and `explain` lists them all.
//
// For an extent that is known only at run time, the question is whether a regime may apply.
#include "codegen/loops/loops.h"

// The conditions on sizes alone, without a core's set of regimes.
#define SIZE_FUNCTION(name, of, core, bits, parameters, can, pays, ...) \
  static bool takes_##name parameters { return (can) && (pays); }
PK_REGIMES_OF_SIZES(SIZE_FUNCTION)

bool may_be_skinny(Dim rows) { return takes_skinny(dim_is_const(rows) ? rows : 0); }

bool is_skinny(Dim rows) { return dim_is_const(rows) && takes_skinny(rows); }

bool may_go_by_panels(const Gen *g, Dim rows, Dim columns) {
  return takes_block(true, dim_is_const(rows) ? rows : INT64_MAX,
                     dim_is_const(columns) ? columns : INT64_MAX, g->panel, INT64_MAX);
}

// ---- the explanation

// The operations of a row, one bit each.
enum {
  SKINNY = 1,
  SKINNY_ROWS = 2,
  SKINNY_LINES = 4,
  TILES = 8,
  BLOCKED = 16,
  FILLED = 32,
  TAIL = 64,
  TRANSPOSES = 128,
  SKINNY_GROUPS = 256,
};
enum { ALL = false, SOME = true };

typedef struct {
  const char *name;
  unsigned of;
  bool some;  // only cores whose set of regimes has it
  const char *form, *when, *figure;
} Regime;

#define ROW(name, of, core, bits, parameters, can, pays, ...) \
  [PK_REGIME_##name] = {#name, of, core, __VA_ARGS__},
static const Regime regimes[PK_REGIME_COUNT] = {PK_DOT_REGIMES(ROW)};

// The number of the core that `can` or `pays` uses: if it is 0, the regime never applies.
static bool has_number(const Core *core, int regime) {
  const struct {
    int regime;
    int64_t number;
  } numbers[] = {
      {PK_REGIME_block, core->block},
      {PK_REGIME_thin, core->thin},
      {PK_REGIME_rows_followed, core->rows_followed},
      {PK_REGIME_lines_followed, core->lines_followed},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].regime == regime) return numbers[i].number != 0;
  return true;
}

static bool core_has(const Core *core, int regime) {
  return has_number(core, regime) && (!regimes[regime].some || core->regimes >> regime & 1);
}

typedef struct {
  Gen *g;
  unsigned found;
} RegimeSearch;

static void note_operands(RegimeSearch *search, const Instr *dot) {
  const Gen *g = search->g;
  const Instr *b = dot_shape(dot).b;
  const RefGen *r = b->op == OP_LOAD ? &g->refs[b->ref->id] : NULL;
  if (!r || !r->in_place.dot_rows) return;
  search->found |= SKINNY;
  if (r->transposed)
    search->found |= val(dot)->dot.kind->element == DT_COUNT ? SKINNY_GROUPS : SKINNY_LINES;
  else if (r->ref->array.dtype == DT_F32)
    search->found |= SKINNY_ROWS;
  if (r->in_place.filled_by) search->found |= FILLED;
}

static void note_product(Instr *v, void *context) {
  RegimeSearch *search = context;
  if (v->op != OP_DOT || !dot_shape(v).plain) return;
  if (!is_skinny(v->type.dim[0])) search->found |= TILES;
  if (val(v)->scratch) search->found |= BLOCKED;
  if (val(v)->dot.tail_columns) search->found |= TAIL | SKINNY_LINES;
  note_operands(search, v);
}

// Large outputs of transposes use non-temporal stores.
static void note_transpose(Instr *v, void *context) {
  RegimeSearch *search = context;
  const Instr *store = v->note ? val(v)->stored_by : NULL;
  const Group *group = v->note ? val(v)->group : NULL;
  if (v->op == OP_TRANSPOSE && v->type.dtype == DT_F32 && store && may_stream(search->g, store) &&
      group && group->kind == GROUP_GENERIC && group->method == METHOD_TRANSPOSE)
    search->found |= TRANSPOSES;
}

void explain_regimes(Gen *g) {
  RegimeSearch search = {g, 0};
  bool any = false;
  ir_walk(g->k->body, note_product, &search);
  ir_walk(g->k->body, note_transpose, &search);
  for (int i = 0; i < PK_REGIME_COUNT; i++) {
    const Regime *row = &regimes[i];
    if (!(row->of & search.found) || !core_has(g->target->core, i)) continue;
    if (!any) explain(g, "\nRegimes: what the sizes of a call choose, and what that gains");
    any = true;
    explain(g, "  %-12s %s", row->name, row->form);
    explain(g, "  %-12s when: %s", "", row->when);
    explain(g, "  %-12s measured: %s", "", row->figure);
  }
}
