// Chooses the micro-kernel that multiplies the operands of a dot, and their layout.
#include "codegen/loops/loops.h"

static const DotKind kinds[DOT_KINDS] = {
    [DOT_F32] = {DOT_F32, DT_F32, 1},       [DOT_BF16] = {DOT_BF16, DT_COUNT, 2},
    [DOT_I8] = {DOT_I8, DT_COUNT, 4},       [DOT_U8] = {DOT_U8, DT_COUNT, 4},
    [DOT_I8_U8] = {DOT_I8_U8, DT_COUNT, 4}, [DOT_U8_I8] = {DOT_U8_I8, DT_COUNT, 4},
    [DOT_I16] = {DOT_I16, DT_I16, 2},       [DOT_I32] = {DOT_I32, DT_I32, 1},
    [DOT_F64] = {DOT_F64, DT_F64, 1},       [DOT_I64] = {DOT_I64, DT_I64, 1},
};

bool is_byte(DType t) { return t == DT_I8 || t == DT_U8; }

static DotId byte_kind(DType a, DType b) {
  return a == DT_I8 ? (b == DT_I8 ? DOT_I8 : DOT_I8_U8) : (b == DT_U8 ? DOT_U8 : DOT_U8_I8);
}

static bool fits_i16(DType t) { return t == DT_BOOL || (is_narrow_integer(t) && t != DT_U16); }

// The operands may be exchanged: the left one is that whose rows are the rows of the result.
static DotId choose(const Target *target, const Instr *dot) {
  DType a = dot->args[0]->type.dtype, b = dot->args[1]->type.dtype;
  DotShape s = dot_shape(dot);
  if (s.matrices) a = s.a->type.dtype, b = s.b->type.dtype;
  if (a == DT_BF16 && (b == DT_BF16 || is_byte(b)) && target->bf16_dot) return DOT_BF16;
  if (is_wide(a)) return is_float(a) ? DOT_F64 : DOT_I64;
  if (is_float(a)) return DOT_F32;
  if (is_byte(a) && is_byte(b) && target->byte_dot) return byte_kind(a, b);
  return fits_i16(a) && fits_i16(b) ? DOT_I16 : DOT_I32;
}

static void note_kind(Instr *v, void *context) {
  const Gen *g = context;
  if (v->op == OP_DOT && v->note) val(v)->dot.kind = &kinds[choose(g->target, v)];
}

void choose_dot_kinds(Gen *g) { ir_walk(g->k->body, note_kind, g); }

void choose_byte_kind(const Instr *dot, DType left, DType right) {
  val(dot)->dot.kind = &kinds[byte_kind(left, right)];
}

DType dot_element(const DotKind *kind, DType operand) {
  if (kind->id == DOT_BF16) return DT_BF16;
  return kind->element == DT_COUNT ? operand : kind->element;
}

bool has_skinny_kernel(const DotKind *kind, DType right) {
  return kind->element == DT_COUNT ||
         (kind->element == DT_F32 && (dtype_bytes(right) > 1 || is_byte(right)));
}

int tail_columns(const Gen *g) { return g->lanes / 2; }

bool may_have_tail(const Gen *g, const Instr *dot) {
  const Dim columns = dot->type.dim[1];
  if (val(dot)->dot.kind->element != DT_F32) return false;
  if (val(dot)->demand[1] != DEMAND_FULL || !dim_is_const(columns)) return true;
  return columns % g->lanes > 0 && columns % g->lanes <= tail_columns(g);
}

bool uses_byte_products(const Schedule *s) {
  for (int i = 0; i < s->groups.count; i++) {
    const Group *group = s->groups.at[i];
    if (group->kind == GROUP_GENERIC && group->method == METHOD_BYTE_PRODUCTS) return true;
    for (int r = 0; r < 2; r++)
      if (group->inner[r] && uses_byte_products(group->inner[r])) return true;
  }
  return false;
}

static void note_used(const Schedule *s, bool *used) {
  for (int i = 0; i < s->groups.count; i++) {
    const Group *group = s->groups.at[i];
    for (int k = 0; k < group->steps.count; k++)
      if (group->steps.at[k].product.dot)
        used[val(group->steps.at[k].product.dot)->dot.kind->id] = true;
    if (group->kind == GROUP_GENERIC &&
        (group->method == METHOD_PRODUCTS || group->method == METHOD_WIDE_PRODUCTS))
      used[val(group->instr)->dot.kind->id] = true;
    for (int r = 0; r < 2; r++)
      if (group->inner[r]) note_used(group->inner[r], used);
  }
}

void used_dot_kinds(const Gen *g, bool *used) { note_used(g->body, used); }

// Explains the choice of a dot's arithmetic.
const char *why_kind(Gen *g, const Instr *dot) {
  const Target *t = g->target;
  switch (val(dot)->dot.kind->id) {
    case DOT_BF16:
      return text(g, "%s: pairs of bf16, summed in f32; %s", t->bf16_dot, t->why_bf16);
    case DOT_I8:
    case DOT_U8:
    case DOT_I8_U8:
    case DOT_U8_I8:
      return text(g, "%s: bytes by fours, summed in i32%s%s", t->byte_dot,
                  target_tiles(t) ? "; " : "", target_tiles(t) ? target_tiles(t) : "");
    case DOT_I16:
      if (dtype_bytes(dot->args[0]->type.dtype) > 1)
        return "pairs of 16-bit integers, summed in i32";
      return "widened to pairs of 16-bit integers: this target has no instruction that multiplies "
             "these bytes";
    case DOT_F32:
      if (dot->args[0]->type.dtype == DT_BF16) return text(g, "widened to f32: %s", t->why_bf16);
      return dot->args[0]->type.dtype == DT_F32 ? NULL : "widened to f32";
    default:
      return NULL;
  }
}
