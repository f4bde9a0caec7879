// The values of a body that are in VMEM: those larger than the registers, from the operation that
// computes them to the last one that reads them.
//
// Elementwise operations run together, a register at a time, with the operations that compute their
// operands and those that read their results. But a reduction or a product has its first element
// only after it has read a whole row. A value that is read again by an operation that waits for
// such a result is therefore in VMEM, in whole tiles, and so is one whose elements are moved.
#include "codegen/tpu/internal.h"

typedef struct {
  const Instr *instr;
  int last;  // position of the last instruction that reads it
} Life;

typedef struct {
  const CostModel *m;
  LIST(Instr *) order;
  int *phase, *last;  // by instruction id
  int *stored;        // by ref id: the phase of the last stored value
  bool *held;         // by instruction id
  bool *anywhere;  // by instruction id: it is recomputed where it is read, from iotas, scalars and
                   // loads
  bool *reads;     // it is computed from a load
  int *uses;
  int *region;  // by instruction id: the enclosing loop or branch
  int in;
} Lives;

bool needs_rows(const Instr *instr) {
  OpClass class = op_info[instr->op].class;
  return class == OPC_REDUCE || class == OPC_ARGREDUCE || class == OPC_SCAN || class == OPC_DOT;
}

// Is it recomputed wherever it is read, or kept in registers through its operands?
static bool is_free(const Instr *instr) {
  OpClass class = op_info[instr->op].class;
  return class == OPC_LEAF || instr->op == OP_LOAD || instr->op == OP_BROADCAST ||
         instr->op == OP_SLICE;
}

static bool moves_elements(const Instr *instr) {
  OpClass class = op_info[instr->op].class;
  return (class == OPC_SHAPE || class == OPC_SCAN) && !is_free(instr);
}

// An elementwise value can be computed where it is read: repeatedly if it is computed from iotas
// and scalars only, otherwise for its only reader.
static bool is_anywhere(const Lives *l, const Instr *instr) {
  bool loads = false;
  if (has_result(instr) && instr->type.rank == 0) return true;
  if (is_free(instr)) {
    for (int i = 0; i < instr->nargs && instr->op != OP_LOAD; i++)
      if (!l->anywhere[instr->args[i]->id]) return false;
    return true;
  }
  if (!op_is_elementwise(instr->op)) return false;
  for (int i = 0; i < instr->nargs; i++) {
    if (!l->anywhere[instr->args[i]->id]) return false;
    loads |= l->reads[instr->args[i]->id];
  }
  return !loads || l->uses[instr->id] <= 1;
}

static int needed_phase(const Lives *l, const Instr *instr) {
  int phase = instr->op == OP_LOAD ? l->stored[instr->ref->id] : 0;
  for (int i = 0; i < instr->nargs; i++)
    if (l->phase[instr->args[i]->id] > phase) phase = l->phase[instr->args[i]->id];
  return phase;
}

static void count_uses(Instr *instr, void *context) {
  Lives *l = context;
  l->reads[instr->id] = instr->op == OP_LOAD && instr->type.rank > 0;
  for (int i = 0; i < instr->nargs; i++) {
    l->uses[instr->args[i]->id]++;
    l->reads[instr->id] |= l->reads[instr->args[i]->id];
  }
}

static bool is_late(const Lives *l, const Instr *instr, int needed) {
  return !is_free(instr) && l->phase[instr->id] < needed && !l->anywhere[instr->id];
}

// The value that broadcasts and slices are taken from.
static const Instr *source_of(const Instr *instr) {
  while (instr->op == OP_BROADCAST || instr->op == OP_SLICE) instr = instr->args[0];
  return instr;
}

// Holds a value that an operation of a later phase reads. An elementwise value without another
// reader is computed in that phase instead, if the operands to be held for it are no larger.
static void hold(Lives *l, const Instr *instr, int needed) {
  int64_t more = 0;
  for (int i = 0; i < instr->nargs; i++) {
    const Instr *operand = source_of(instr->args[i]);
    if (is_late(l, operand, needed) && !l->held[operand->id])
      more = saturating_add(more, value_bytes(l->m, &operand->type));
  }
  bool moves = op_is_elementwise(instr->op) && l->uses[instr->id] == 1 &&
               more <= value_bytes(l->m, &instr->type);
  if (!moves) l->held[instr->id] = true;
  for (int i = 0; moves && i < instr->nargs; i++) {
    const Instr *operand = source_of(instr->args[i]);
    if (is_late(l, operand, needed)) l->held[operand->id] = true;
  }
}

static void list_region(Lives *l, const Region *region);

static void list_instr(Lives *l, Instr *instr) {
  int needed = needed_phase(l, instr);
  LIST_PUSH(l->m->arena, &l->order, instr);
  l->phase[instr->id] = needed + needs_rows(instr);
  l->region[instr->id] = l->in;
  l->anywhere[instr->id] = is_anywhere(l, instr);
  if (instr->op == OP_STORE) l->stored[instr->ref->id] = l->phase[instr->id];
  for (int i = 0; i < instr->nargs; i++) {
    const Instr *arg = instr->args[i];
    bool leaves =
        l->region[arg->id] != l->in || (moves_elements(instr) && !l->m->free_transpose[instr->id]);
    if (leaves && !is_free(arg))
      l->held[arg->id] = true;
    else if (is_late(l, arg, needed))
      hold(l, arg, needed);
  }
  for (int r = 0; r < 2; r++)
    if (instr->regions[r]) list_region(l, instr->regions[r]);
}

static void list_region(Lives *l, const Region *region) {
  int outer = l->in;
  l->in = l->order.count + 1;
  for (int i = 0; i < region->instrs.count; i++) list_instr(l, region->instrs.at[i]);
  l->in = outer;
}

int64_t value_bytes(const CostModel *m, const Type *t) {
  int64_t dim[MAX_RANK];
  if (t->rank == 0 || t->dtype == DT_COUNT) return 0;
  for (int i = 0; i < t->rank; i++)
    dim[i] = dim_is_const(t->dim[i]) ? t->dim[i] : m->sizes[dim_size_index(t->dim[i])];
  // A mask is kept as the 32-bit values from whose comparison it results.
  DType dtype = t->dtype == DT_BOOL ? DT_I32 : t->dtype;
  return tpu_padded_bytes(m->chip, dtype, t->rank, dim, NULL);
}

static int64_t register_bytes(const CostModel *m) {
  const double *v = m->chip->value;
  return (int64_t)(v[CHIP_REGISTERS] * v[CHIP_SUBLANES] * v[CHIP_LANES] * 4);
}

// A value that is not kept is computed where its reader runs.
static void find_last_reads(Lives *l) {
  for (int i = l->order.count - 1; i >= 0; i--) {
    const Instr *instr = l->order.at[i];
    bool moves = has_result(instr) && !l->held[instr->id] && l->last[instr->id] > i;
    int at = moves ? l->last[instr->id] : i;
    for (int a = 0; a < instr->nargs; a++)
      if (l->last[instr->args[a]->id] < at) l->last[instr->args[a]->id] = at;
  }
}

// Which values are kept in VMEM, and the point of the body at which the most registers are live.
Values find_values(const CostModel *m) {
  Arena *arena = m->arena;
  int ids = m->k->next_id + 1;
  Lives l = {.m = m,
             .phase = NEW_ARRAY(arena, int, ids),
             .last = NEW_ARRAY(arena, int, ids),
             .stored = NEW_ARRAY(arena, int, m->k->refs.count + 1),
             .held = NEW_ARRAY(arena, bool, ids),
             .anywhere = NEW_ARRAY(arena, bool, ids),
             .reads = NEW_ARRAY(arena, bool, ids),
             .uses = NEW_ARRAY(arena, int, ids),
             .region = NEW_ARRAY(arena, int, ids)};
  Values values = {.buffered = NEW_ARRAY(arena, bool, ids)};
  ir_walk(m->k->body, count_uses, &l);
  list_region(&l, m->k->body);
  find_last_reads(&l);
  LIST(Life) live = {0};
  int64_t held = 0;
  for (int i = 0; i < l.order.count; i++) {
    const Instr *instr = l.order.at[i];
    // An elementwise operation may store its result in the memory of its operand.
    int ended = op_is_elementwise(instr->op) ? i : i - 1;
    for (int k = live.count - 1; k >= 0; k--)
      if (live.at[k].last <= ended) {
        held -= value_bytes(m, &live.at[k].instr->type);
        live.at[k] = live.at[--live.count];
      }
    if (!has_result(instr) || !l.held[instr->id]) continue;
    int64_t bytes = value_bytes(m, &instr->type);
    if (bytes <= register_bytes(m)) continue;
    values.buffered[instr->id] = true;
    held = saturating_add(held, bytes);
    LIST_PUSH(arena, &live, ((Life){instr, l.last[instr->id]}));
    if (held <= values.peak) continue;
    values.peak = held;
    values.at = instr;
    values.count = live.count;
  }
  return values;
}
