// Right operands of dots that are only widened to f32, or from bytes to bf16: the dot reads them
// unconverted from memory, and its micro-kernel widens them in registers.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

typedef struct {
  int *uses;   // by Instr.id
  int *loads;  // by Ref.id, including copies
  Buf *notes;
} Counts;

static void count_loads(Instr *v, void *context) {
  const Counts *c = context;
  if (v->op == OP_LOAD || op_starts_copy(v->op)) c->loads[v->ref->id]++;
}

// The dtypes other than f32 that skinny products read; f32 represents all of their values.
static bool is_widened(DType t) { return t == DT_BF16 || t == DT_F16 || t == DT_I8 || t == DT_U8; }

static Instr *behind_transposes(const Counts *c, Instr *v) {
  while (v->op == OP_TRANSPOSE && v->type.rank == 2 && c->uses[v->id] == 1) v = v->args[0];
  return v;
}

// Is it a block of an input that only this load reads, as a whole?
static bool is_own_block(const Counts *c, const Instr *load) {
  if (load->op != OP_LOAD || c->uses[load->id] != 1) return false;
  const Ref *ref = load->ref;
  return c->loads[ref->id] == 1 && ir_window_is_full(load) && load->nargs == ref->type.rank &&
         ref->role == REF_INPUT && ref->space == SPACE_VMEM && ref->at == AT_BLOCK &&
         ref->type.rank == 2 && !ref->squeeze[ref->array.rank - 1];
}

// Can an operand of dtype `from` be multiplied directly, instead of its conversion to `to`?
static bool widens_to(DType from, DType to) {
  return to == DT_F32 ? is_widened(from) : to == DT_BF16 && (from == DT_I8 || from == DT_U8);
}

static Instr *widening_of(const Counts *c, Instr *operand) {
  Instr *cast = behind_transposes(c, operand);
  bool widens = cast->op == OP_CAST && c->uses[cast->id] == 1 &&
                widens_to(cast->args[0]->type.dtype, cast->type.dtype);
  return widens && is_own_block(c, behind_transposes(c, cast->args[0])) ? cast : NULL;
}

// The transposes after the cast now move narrow elements.
static void leave_out(Instr *dot, int operand, const Instr *cast) {
  Instr **at = &dot->args[operand];
  for (; *at != cast; at = &(*at)->args[0]) (*at)->type.dtype = cast->args[0]->type.dtype;
  *at = cast->args[0];
}

static void narrow_dot(Instr *dot, void *context) {
  const Counts *c = context;
  if (dot->op != OP_DOT || dot->type.dtype != DT_F32) return;
  const DotShape s = dot_shape(dot);
  if (!s.plain) return;
  const int right = behind_transposes(c, dot->args[1]) == s.b;
  if (behind_transposes(c, dot->args[right]) != s.b) return;
  const Instr *cast = widening_of(c, dot->args[right]);
  if (!cast || (cast->type.dtype == DT_BF16 && s.b_transposed)) return;
  leave_out(dot, right, cast);
  buf_printf(c->notes, "right operand of dot: %s is widened as it is read\n",
             dtype_info[cast->args[0]->type.dtype].name);
  c->uses[cast->id] = 0;
}

static bool is_used(Rewriter *w, Instr *v) {
  const Counts *c = w->context;
  ir_rewrite_inside(w, v);
  return v->op != OP_CAST || c->uses[v->id];
}

// Requires: dots in their accumulator's dtype. Preserves: the meaning. Afterwards: the right
// operand of a dot of f32 may be narrower.
void narrow_operands(Kernel *k, Buf *notes) {
  Counts c = {ir_uses(k, k->body).count, NEW_ARRAY(k->arena, int, k->refs.count + 1), notes};
  ir_walk(k->body, count_loads, &c);
  ir_walk(k->body, narrow_dot, &c);
  ir_rewrite(&(Rewriter){.k = k, .rule = is_used, .context = &c}, k->body);
}
