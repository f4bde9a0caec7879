// The mesh of a program: each array has one sharding, used by all calls.
#include "codegen/lower/program.h"

#include <string.h>

typedef int8_t Shard[MAX_RANK][MOST_MESH_AXES];

static const char *shard_text(const ProgramLower *p, const int8_t (*shard)[MOST_MESH_AXES],
                              int rank) {
  Buf text = {0};
  flow_print_shard(p->l->k, shard, rank, &text);
  return arena_take(p->l->arena, &text);
}

static bool is_divided(const int8_t (*shard)[MOST_MESH_AXES], int rank) {
  for (int i = 0; i < rank; i++)
    if (shard[i][0]) return true;
  return false;
}

static bool same_mesh(const Kernel *a, const Kernel *b) {
  if (a->mesh.count != b->mesh.count) return false;
  for (int i = 0; i < a->mesh.count; i++)
    if (a->mesh.at[i].extent != b->mesh.at[i].extent) return false;
  return true;
}

static const char *mesh_text(const ProgramLower *p, const Kernel *k) {
  Buf text = {0};
  for (int i = 0; i < k->mesh.count; i++)
    buf_printf(&text, "%s%s: %lld", i ? ", " : "", k->mesh.at[i].name,
               (long long)k->mesh.at[i].extent);
  return arena_take(p->l->arena, &text);
}

// A kernel without a mesh runs on every device, on arrays that are replicated on all devices.
static bool check_mesh(const ProgramLower *p, const FlowStep *step, const Kernel *callee) {
  const Lower *l = p->l;
  if (callee->mesh.count == 0 || same_mesh(l->k, callee)) return true;
  diag_error(l->diag, step->span, ERR_BAD_MESH,
             l->k->mesh.count ? "`%s` has the mesh (%s), and the program another one"
                              : "`%s` has a mesh: `mesh (%s);` makes it the program's too",
             callee->name, mesh_text(p, callee));
  diag_note(l->diag, callee->mesh.at[0].span, "its mesh is here");
  return false;
}

// The sharding that the kernel needs for the array of an operand. False: the operand is a part, or
// has another shape, of an array that is divided along the axes that select the part.
static bool wanted_shard(const FlowArray *array, const FlowPart *part, const Ref *ref,
                         Shard shard) {
  memset(shard, 0, sizeof(Shard));
  for (int i = 0; i < ref->array.rank && part->leading + i < MAX_RANK; i++)
    memcpy(shard[part->leading + i], ref->shard[i], sizeof shard[0]);
  bool choosing = false;
  for (int i = 0; i < part->leading; i++) choosing |= array->placed && array->shard[i][0];
  if (!part->reshaped) return !choosing;
  bool divided = is_divided(shard, MAX_RANK);
  return !divided &&
         !(array->placed && is_divided((int8_t(*)[MOST_MESH_AXES])array->shard, array->type.rank));
}

// Divides an array as a called kernel requires, or reports a conflict.
static bool place_operand(ProgramLower *p, const FlowPart *part, const Ref *ref,
                          const Kernel *callee) {
  const Lower *l = p->l;
  FlowArray *array = &p->flow->arrays.at[part->array];
  Shard wanted;
  if (!wanted_shard(array, part, ref, wanted)) {
    diag_error(l->diag, part->span, ERR_BAD_SHARD,
               part->reshaped
                   ? "`%s` cannot be reshaped: its parts, or those of `%s`, are on several devices"
                   : "this part of `%s` is not on all devices: an axis that is divided is `%s`'s",
               array->name, part->reshaped ? ref->name : callee->name);
    return false;
  }
  if (!array->placed) {
    array->placed = true;
    array->placed_at = part->span;
    memcpy(array->shard, wanted, sizeof wanted);
    return true;
  }
  if (memcmp(array->shard, wanted, sizeof wanted) == 0) return true;
  diag_error(l->diag, part->span, ERR_BAD_SHARD,
             "`%s` is divided as shard %s, and `%s` of `%s` is divided as shard %s", array->name,
             shard_text(p, array->shard, array->type.rank), ref->name, callee->name,
             shard_text(p, wanted, array->type.rank));
  diag_note(l->diag, array->placed_at, "`%s` is divided here", array->name);
  return false;
}

static void place_call(ProgramLower *p, const FlowStep *step) {
  const Kernel *callee = p->flow->callees.at[step->callee].kernel;
  int operands = callee->inputs + callee->outputs;
  if (!check_mesh(p, step, callee)) return;
  for (int i = 0; i < operands; i++)
    if (!place_operand(p, &step->parts[i], callee->refs.at[i], callee)) return;
}

void place_arrays(ProgramLower *p) {
  const Kernel *k = p->l->k;
  Flow *flow = p->flow;
  for (int i = 0; i < flow->arrays.count; i++) flow->arrays.at[i].placed = false;
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    FlowArray *array = &flow->arrays.at[i];
    array->placed = true;
    array->placed_at = k->refs.at[i]->span;
    memcpy(array->shard, k->refs.at[i]->shard, sizeof array->shard);
  }
  for (int i = 0; i < flow->steps.count; i++)
    if (flow->steps.at[i].kind == FLOW_CALL) place_call(p, &flow->steps.at[i]);
  for (int i = 0; i < flow->arrays.count; i++) {
    const FlowArray *array = &flow->arrays.at[i];
    if (array->spare >= 0)
      memcpy(flow->arrays.at[array->spare].shard, array->shard, sizeof array->shard);
  }
}
