// Walks over the tree of regions, groups and steps.
#include "codegen/loops/loops.h"

void visit_groups(Gen *g, Schedule *s, void (*visit)(Gen *g, Group *group)) {
  for (int i = 0; i < s->groups.count; i++) {
    visit(g, s->groups.at[i]);
    for (int r = 0; r < 2; r++)
      if (s->groups.at[i]->inner[r]) visit_groups(g, s->groups.at[i]->inner[r], visit);
  }
}

// ---- steps of a group

int run_of_step(const Group *group, int step) {
  int dots = 0;
  for (int s = 0; s < step; s++) dots += is_dot(&group->steps.at[s]);
  return dots;
}

static bool reduces(const Step *step) {
  for (int m = 0; m < step->members.count; m++)
    if (op_info[step->members.at[m]->op].class == OPC_REDUCE) return true;
  return false;
}

// A reduction ends with a long chain of dependent operations, and so do scalars that follow from
// it. In a loop of their own the chains of several rows overlap: flash attention takes 2 to 3 %
// less time.
int loop_of_step(const Group *group, int step) {
  int loop = 0;
  for (int s = 0; group->has_dot && s < step; s++)
    loop += is_dot(&group->steps.at[s]) ? 1 : reduces(&group->steps.at[s]) ? 2 : 0;
  return loop;
}

int loop_after(const Group *group, int after) {
  if (after < 0 || !group->has_dot) return 0;
  const Step *step = &group->steps.at[after];
  return loop_of_step(group, after) + (is_dot(step) || reduces(step));
}

int loop_of(const Group *group, const Instr *v) {
  bool between = is_row_scalar(v) && op_info[v->op].class != OPC_REDUCE;
  return between ? loop_after(group, val(v)->after) : loop_of_step(group, val(v)->step);
}

void take_out(Group *group, const Instr *v) {
  for (int s = 0; s < group->steps.count; s++) {
    Step *step = &group->steps.at[s];
    int kept = 0;
    for (int m = 0; m < step->members.count; m++)
      if (step->members.at[m] != v) step->members.at[kept++] = step->members.at[m];
    step->members.count = kept;
  }
  int kept = 0;
  for (int i = 0; i < group->scalars.count; i++)
    if (group->scalars.at[i] != v) group->scalars.at[kept++] = group->scalars.at[i];
  group->scalars.count = kept;
}

bool any_store(const Group *group, bool (*holds)(const Instr *store, const void *context),
               const void *context) {
  for (int i = 0; i < group->scalars.count; i++)
    if (group->scalars.at[i]->op == OP_STORE && holds(group->scalars.at[i], context)) return true;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (step->product.into && holds(step->product.into, context)) return true;
    if (step->product.result && holds(step->product.result, context)) return true;
    for (int m = 0; m < step->members.count; m++)
      if (step->members.at[m]->op == OP_STORE && holds(step->members.at[m], context)) return true;
  }
  return false;
}
