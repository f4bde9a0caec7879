// Which micro-kernel multiplies the operands of a dot, and how they lie for it.
#include "codegen/loops/loops.h"

typedef enum {
  KIND_F32,
  KIND_BF16,
  KIND_I8,
  KIND_U8,
  KIND_I8_U8,
  KIND_U8_I8,
  KIND_I16,
  KIND_I32,
  KIND_F64,
  KIND_I64,
  KIND_COUNT
} Kind;

static const DotKind kinds[KIND_COUNT] = {
    [KIND_F32] = {"f32", DT_F32, 1, NULL},
    [KIND_BF16] = {"bf16", DT_COUNT, 2, "pk/dot/bf16.h"},
    [KIND_I8] = {"i8", DT_COUNT, 4, "pk/dot/i8.h"},
    [KIND_U8] = {"u8", DT_COUNT, 4, "pk/dot/i8.h"},
    [KIND_I8_U8] = {"i8_u8", DT_COUNT, 4, "pk/dot/i8.h"},
    [KIND_U8_I8] = {"u8_i8", DT_COUNT, 4, "pk/dot/i8.h"},
    [KIND_I16] = {"i16", DT_I16, 2, "pk/dot/i16.h"},
    [KIND_I32] = {"i32", DT_I32, 1, NULL},
    [KIND_F64] = {"f64", DT_F64, 1, "pk/dot/wide.h"},
    [KIND_I64] = {"i64", DT_I64, 1, "pk/dot/wide.h"},
};

static bool is_byte(DType t) { return t == DT_I8 || t == DT_U8; }

static bool fits_i16(DType t) { return t == DT_BOOL || (is_narrow_integer(t) && t != DT_U16); }

// The operands may change places: the left one is that whose rows are the rows of the result.
static Kind choose(const Target *target, const Instr *dot) {
  DType a = dot->args[0]->type.dtype, b = dot->args[1]->type.dtype;
  DotShape s = dot_shape(dot);
  if (s.matrices) a = s.a->type.dtype, b = s.b->type.dtype;
  if (a == DT_BF16 && b == DT_BF16 && target->bf16_dot) return KIND_BF16;
  if (is_wide(a)) return is_float(a) ? KIND_F64 : KIND_I64;
  if (is_float(a)) return KIND_F32;
  if (is_byte(a) && is_byte(b) && target->byte_dot)
    return a == DT_I8 ? (b == DT_I8 ? KIND_I8 : KIND_I8_U8) : (b == DT_U8 ? KIND_U8 : KIND_U8_I8);
  return fits_i16(a) && fits_i16(b) ? KIND_I16 : KIND_I32;
}

static void note_kind(Instr *v, void *context) {
  const Gen *g = context;
  if (v->op == OP_DOT && v->note) val(v)->kind = &kinds[choose(g->target, v)];
}

void choose_dot_kinds(Gen *g) { ir_walk(g->k->body, note_kind, g); }

DType dot_element(const DotKind *kind, DType operand) {
  return kind->element == DT_COUNT ? operand : kind->element;
}

static const char *packed_name(DType t) {
  return t == DT_BOOL ? "u8" : t == DT_U32 || t == DT_I32 ? "i32" : dtype_info[t].name;
}

const char *pack_rows_text(Gen *g, const DotKind *kind, DType from, bool transposed) {
  const char *t = transposed ? "_t" : "";
  if (kind->element == DT_COUNT) return text(g, "pk_copy_rows%s_b%d", t, dtype_bytes(from));
  return text(g, "pk_pack_rows%s_%s", t, packed_name(from));
}

const char *pack_panels_text(Gen *g, const DotKind *kind, DType from, bool transposed) {
  const char *t = transposed ? "_t" : "";
  if (kind->element == DT_COUNT) return text(g, "pk_pack_groups%s_%s", t, kind->name);
  return text(g, "pk_pack_panels%s_%s", t, packed_name(from));
}

bool reads_few_rows(const DotKind *kind, DType right) {
  return kind->element == DT_COUNT || (kind->element == DT_F32 && dtype_bytes(right) > 1);
}

const char *few_rows_text(Gen *g, const DotKind *kind, DType right, bool transposed) {
  const char *t = transposed ? "_t" : "";
  if (kind->element == DT_COUNT) return text(g, "pk_dot_few_groups%s_%s", t, kind->name);
  return text(g, "pk_dot_few%s_%s", t, dtype_info[right].name);
}

int odd_columns(const Gen *g) { return g->lanes / 2; }

bool may_be_odd(const Gen *g, const Instr *dot) {
  const Dim columns = dot->type.dim[1];
  if (val(dot)->kind->element != DT_F32) return false;
  if (val(dot)->demand[1] != DEMAND_FULL || !dim_is_const(columns)) return true;
  return columns % g->lanes > 0 && columns % g->lanes <= odd_columns(g);
}

// The kinds of the products in a region.
static void note_used(const Schedule *s, bool *used) {
  for (int i = 0; i < s->groups.count; i++) {
    const Group *group = s->groups.at[i];
    for (int k = 0; k < group->steps.count; k++)
      if (group->steps.at[k].dot) used[val(group->steps.at[k].dot)->kind - kinds] = true;
    if (group->kind == GROUP_GENERIC &&
        (group->method == METHOD_PRODUCTS || group->method == METHOD_WIDE_PRODUCTS))
      used[val(group->instr)->kind - kinds] = true;
    for (int r = 0; r < 2; r++)
      if (group->inner[r]) note_used(group->inner[r], used);
  }
}

void put_dot_headers(Gen *g, Buf *out) {
  bool used[KIND_COUNT] = {false};
  const char *last = "";
  note_used(g->body, used);
  for (int i = 0; i < KIND_COUNT; i++) {
    if (!kinds[i].header || kinds[i].header == last || !used[i]) continue;
    last = kinds[i].header;
    buf_printf(out, "#include <%s>\n", last);
  }
}

const char *why_kind(Gen *g, const Instr *dot) {
  const Target *t = g->target;
  switch ((Kind)(val(dot)->kind - kinds)) {
    case KIND_BF16:
      return text(g, "%s: pairs of bf16, summed in f32; %s", t->bf16_dot, t->why_bf16);
    case KIND_I8:
    case KIND_U8:
    case KIND_I8_U8:
    case KIND_U8_I8:
      return text(g, "%s: bytes by fours, summed in i32", t->byte_dot);
    case KIND_I16:
      if (dtype_bytes(dot->args[0]->type.dtype) > 1)
        return "pairs of 16-bit integers, summed in i32";
      return "widened to pairs of 16-bit integers: this target has no instruction that multiplies "
             "these bytes";
    case KIND_F32:
      if (dot->args[0]->type.dtype == DT_BF16) return text(g, "widened to f32: %s", t->why_bf16);
      return dot->args[0]->type.dtype == DT_F32 ? NULL : "widened to f32";
    default:
      return NULL;
  }
}
