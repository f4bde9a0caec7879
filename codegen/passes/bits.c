// Pass `bits`: elements of narrow floats that are only moved keep all their bits.
//
// Lanes hold narrow floats as f32. The conversion to f32 and back makes a NaN quiet, and loses its
// sign if the dtype has only one NaN. Values that loads, moves of elements (RESULT_MOVED in
// ops.def) and selections lead to a store or a bitcast are therefore integers of the dtype's width.
// Arithmetic reads a float, by a second load if both are needed. `neg` and `abs` of such elements
// change only the sign bit, in these integers, and a cast to bool compares them with zero.
#include "codegen/ir/rewrite.h"
#include "codegen/ir/scalar.h"
#include "codegen/passes/pass.h"

// The origin of a value's elements: arithmetic only; constants; or memory or a bitcast, whose bits
// must be preserved.
typedef enum { COMPUTED, CONSTANT, KEPT } Origin;

// Notes on an instruction by id, for the ids that exist when the pass begins.
typedef struct {
  Origin *origin;
  bool *wanted;  // a store or bitcast uses its bits
  Instr **bits;  // its elements as integers
  bool changed;
} Bits;

// Is it a float that is narrower than its lanes?
static bool is_narrow(const Instr *v) {
  return v->type.dtype != DT_COUNT && is_narrow_float(v->type.dtype);
}

static Type bits_type(Type t) { return type_as(t, unsigned_of_width(dtype_info[t.dtype].bits)); }

// Has the dtype a zero with a sign? In FNUZ its bits are a NaN; scales have no sign.
static bool has_negative_zero(DType t) {
  return !is_scale(t) && dtype_info[t].special != SPECIAL_FNUZ;
}

// Does v change only the sign bit?
static bool changes_sign(const Instr *v) {
  return (v->op == OP_NEG || v->op == OP_ABS) && is_narrow(v) && has_negative_zero(v->type.dtype);
}

// Is v a comparison of a narrow float with zero? A scale is never zero.
static bool finds_zeros(const Instr *v) {
  return v->op == OP_CAST && v->type.dtype == DT_BOOL && is_narrow(v->args[0]) &&
         !is_scale(v->args[0]->type.dtype);
}

// Are the elements of the result those of operand i, except for the sign bit?
static bool passes_on(const Instr *v, int i) {
  const bool keeps = op_info[v->op].exactness == RESULT_MOVED || changes_sign(v);
  return keeps && is_narrow(v) && is_narrow(v->args[i]);
}

static Instr *yielded(const Instr *branch, int side) {
  const Region *region = branch->regions[side];
  return region->instrs.at[region->instrs.count - 1]->args[0];
}

static Origin origin_of(const Bits *b, const Instr *v) {
  if (v->op == OP_LOAD || (v->op == OP_BITCAST && !is_narrow(v->args[0]))) return KEPT;
  int moved = 0, constant = 0;
  for (int i = 0; i < v->nargs; i++) {
    if (!passes_on(v, i)) continue;
    if (b->origin[v->args[i]->id] == KEPT) return KEPT;
    moved++;
    constant += b->origin[v->args[i]->id] == CONSTANT;
  }
  for (int side = 0; v->op == OP_IF && side < 2; side++)
    if (b->origin[yielded(v, side)->id] == KEPT) return KEPT;
  return v->op == OP_CONST || (moved && constant == moved) ? CONSTANT : COMPUTED;
}

// A selection comes after the operations on both its sides.
static void find_origins(Bits *b, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) find_origins(b, v->regions[r]);
    if (is_narrow(v)) b->origin[v->id] = origin_of(b, v);
  }
}

static void want(Bits *b, const Instr *v) {
  if (b->wanted[v->id]) return;
  b->wanted[v->id] = true;
  if (b->origin[v->id] == COMPUTED) return;
  for (int i = 0; i < v->nargs; i++)
    if (passes_on(v, i)) want(b, v->args[i]);
  for (int r = 0; v->op == OP_IF && r < 2; r++) want(b, yielded(v, r));
}

// The value whose bits an instruction uses, or NULL.
static const Instr *taken_by(const Bits *b, const Instr *v) {
  const bool casts = (v->op == OP_BITCAST && !is_narrow(v)) || finds_zeros(v);
  const Instr *value = v->op == OP_STORE ? ir_store_value(v) : casts ? v->args[0] : NULL;
  return value && is_narrow(value) && b->origin[value->id] == KEPT ? value : NULL;
}

static void want_taken(Instr *v, void *context) {
  const Instr *value = taken_by(context, v);
  if (value) want(context, value);
}

static Instr *as_bits(Rewriter *w, Type type, Instr *v) {
  type = bits_type(type);
  return v->type.dtype == type.dtype ? v : ir_put(w, OP_BITCAST, type, 1, v);
}

// The same load or move of integers.
static Instr *moved(Rewriter *w, const Instr *v) {
  const Bits *b = w->context;
  Instr *copy = ir_copy(w->k, v);
  copy->type = bits_type(v->type);
  for (int i = 0; i < copy->nargs; i++)
    if (passes_on(v, i)) copy->args[i] = b->bits[v->args[i]->id];
  return ir_append(w->k, w->out, copy);
}

static Instr *with_constant(Rewriter *w, Op op, Type result, Instr *bits, int64_t value) {
  Instr *c = ir_const_int(w->k, w->out, bits->type.dtype, value, w->span);
  return ir_put(w, op, result, 2, bits, ir_put_spread(w, c, bits->type));
}

// The operand's bits with the sign inverted, or without it.
static Instr *with_other_sign(Rewriter *w, const Instr *v) {
  const Bits *b = w->context;
  const Type type = bits_type(v->type);
  const int64_t sign = (int64_t)1 << (dtype_info[v->type.dtype].bits - 1);
  const bool inverts = v->op == OP_NEG;
  return with_constant(w, inverts ? OP_XOR : OP_AND, type, b->bits[v->args[0]->id],
                       inverts ? sign : sign - 1);
}

static Instr *is_not_zero(Rewriter *w, DType dtype, Instr *bits) {
  const int64_t sign = (int64_t)1 << (dtype_info[dtype].bits - 1);
  if (has_negative_zero(dtype)) bits = with_constant(w, OP_AND, bits->type, bits, sign - 1);
  return with_constant(w, OP_NE, type_as(bits->type, DT_BOOL), bits, 0);
}

// The selection is made on integers; users that read floats convert its result.
static Instr *chosen(Rewriter *w, Instr *v) {
  const Bits *b = w->context;
  Instr *choice = ir_copy(w->k, v),
        *bits[2] = {b->bits[yielded(v, 0)->id], b->bits[yielded(v, 1)->id]};
  choice->type = bits_type(v->type);
  for (int r = 0; r < 2; r++) {
    const Region *side = v->regions[r];
    side->instrs.at[side->instrs.count - 1]->args[0] = bits[r];
    v->regions[r] = NULL;
  }
  ir_append(w->k, w->out, choice);
  ir_become_unary(v, OP_BITCAST, choice);
  return choice;
}

// The bits of a value that has already been added to the region.
static Instr *bits_of(Rewriter *w, Instr *v) {
  const Bits *b = w->context;
  const DType dtype = bits_type(v->type).dtype;
  if (v->op == OP_CONST)
    return ir_const_int(w->k, w->out, dtype,
                        scalar_bitcast(dtype, v->type.dtype, (Scalar){.f = v->fval}).i, v->span);
  if (b->origin[v->id] == COMPUTED) return as_bits(w, v->type, v);
  if (changes_sign(v)) return with_other_sign(w, v);
  if (v->op != OP_BITCAST) return moved(w, v);
  return as_bits(w, v->type, passes_on(v, 0) ? b->bits[v->args[0]->id] : v->args[0]);
}

// False: its result consists of the bits themselves.
static bool use_bits(Rewriter *w, Instr *v) {
  Bits *b = w->context;
  const Instr *value = taken_by(b, v);
  Instr *bits = value ? b->bits[value->id] : NULL;
  if (!bits) return true;
  b->changed = true;
  if (v->op == OP_BITCAST && v->type.dtype == bits->type.dtype) {
    ir_replace(v, bits);
    return false;
  }
  if (finds_zeros(v)) {
    ir_replace(v, is_not_zero(w, value->type.dtype, bits));
    return false;
  }
  v->args[v->op == OP_STORE ? v->ref->type.rank : 0] = bits;
  return true;
}

static bool keep_bits_of(Rewriter *w, Instr *v) {
  Bits *b = w->context;
  if (!use_bits(w, v)) return false;
  ir_rewrite_inside(w, v);
  if (!b->wanted[v->id]) return true;
  if (v->op == OP_IF && b->origin[v->id] == KEPT) {
    b->bits[v->id] = chosen(w, v);
    return true;
  }
  ir_append(w->k, w->out, v);
  b->bits[v->id] = bits_of(w, v);
  return false;
}

// Requires: no masked loads except of scalars. Preserves: the meaning. Afterwards: the values of
// some loads and stores of narrow floats are integers with their bits.
void keep_bits(Kernel *k, Buf *notes) {
  (void)notes;
  const int ids = k->next_id + 1;
  Bits b = {.origin = NEW_ARRAY(k->arena, Origin, ids),
            .wanted = NEW_ARRAY(k->arena, bool, ids),
            .bits = NEW_ARRAY(k->arena, Instr *, ids)};
  if (!k->body) return;
  find_origins(&b, k->body);
  ir_walk(k->body, want_taken, &b);
  ir_rewrite(&(Rewriter){.k = k, .rule = keep_bits_of, .context = &b}, k->body);
  if (b.changed) remove_unread(k, k->body);
}
