// The whole loop IR of a kernel: the decisions in order, and the tree of regions.
#include "codegen/ir/rewrite.h"
#include "codegen/loops/loops.h"

#include <string.h>

// ---- the tree

// Only for values that are not read outside of the loop.
static bool is_idle(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++)
    if (!has_value_only(region->instrs.at[i])) return false;
  return true;
}

static bool is_idle_if(const Group *group) {
  const Instr *v = group->instr;
  return group->kind == GROUP_CONTROL && v->op == OP_IF && !has_result(v) &&
         is_idle(v->regions[0]) && is_idle(v->regions[1]);
}

static void drop_idle(Gen *g, Schedule *s) {
  (void)g;
  int kept = 0;
  for (int i = 0; i < s->groups.count; i++)
    if (!is_idle_if(s->groups.at[i])) s->groups.at[kept++] = s->groups.at[i];
  s->groups.count = kept;
  for (int i = 0; i < kept; i++) s->groups.at[i]->index = i;
}

static Schedule *build_region(Gen *g, Region *region);

static void build_groups(Gen *g, Schedule *s) {
  for (int i = 0; i < s->groups.count; i++) {
    Group *group = s->groups.at[i];
    if (group->kind == GROUP_GENERIC) choose_method(g, group);
    for (int r = 0; r < 2 && group->kind == GROUP_CONTROL; r++) {
      Region *inner = group->instr->regions[r];
      if (inner && inner->instrs.count) group->inner[r] = build_region(g, inner);
    }
  }
}

#define REGION_DECISION(name, function, needs) REGION_##name,
enum {
#include "codegen/loops/decisions.def"
};
#undef REGION_DECISION

#define NEED(name) (1u << REGION_##name)
#define REGION_DECISION(name, function, needs) {#name, needs, .in_region = function},
const Decision region_decisions[] = {
#include "codegen/loops/decisions.def"
};
#undef REGION_DECISION
#undef NEED
const int region_decision_count = (int)(sizeof region_decisions / sizeof *region_decisions);

// Decides which effects of nested regions a region takes over (absorb.c), before the nested regions
// are built.
static Schedule *build_region(Gen *g, Region *region) {
  Schedule *s = schedule_region(g, region);
  for (int i = 0; i < g->k->refs.count; i++)
    if (g->refs[i].fetch_at == region) LIST_PUSH(g->arena, &s->fetches, &g->refs[i]);
  const int *order = g->options->region_order;
  for (int i = 0; i < region_decision_count; i++)
    region_decisions[order ? order[i] : i].in_region(g, s);
  return s;
}

static void build_tree(Gen *g) { g->body = build_region(g, g->k->body); }

// ---- scalars that are computed by a statement: each has a variable, which emission names

static void make_variable(Gen *g, const Instr *v) {
  if (has_result(v) && v->type.rank == 0)
    val(v)->scalar = expr_variable(&g->exprs, text(g, "%%%d", v->id));
}

static void find_variables(Gen *g, Group *group) {
  const Instr *v = group->instr;
  if (group->kind == GROUP_ROWS) return;
  make_variable(g, v);
  if (v->op == OP_FOR) make_variable(g, v->regions[0]->arg);
}

static void make_variables(Gen *g) { visit_groups(g, g->body, find_variables); }

// ---- the decisions, in order

#define DECISION(name, function, needs) DECISION_##name,
enum {
#include "codegen/loops/decisions.def"
};
#undef DECISION

#define NEED(name) (1u << DECISION_##name)
#define DECISION(name, function, needs) {#name, needs, .run = function},
const Decision decisions[] = {
#include "codegen/loops/decisions.def"
};
#undef DECISION
#undef NEED
const int decision_count = (int)(sizeof decisions / sizeof *decisions);

Gen *build_loops(Kernel *k, const EmitOptions *options, Buf *explain_text) {
  Gen *g = gen_new(k, options, explain_text);
  const int *order = options->order;
  for (int i = 0; i < decision_count; i++) decisions[order ? order[i] : i].run(g);
  const char *broken = verify_loops(g);
  if (broken) INTERNAL("loop IR is wrong: %s", broken);
  return g;
}
