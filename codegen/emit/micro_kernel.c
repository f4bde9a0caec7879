// Names of the functions that multiply and pack the operands of a dot.
#include "codegen/emit/internal.h"

// The suffix of the names of a micro-kernel's functions, and its header (NULL: pk/dot.h).
static const struct {
  const char *name, *header;
} micro_kernels[DOT_KINDS] = {
    [DOT_F32] = {"f32", NULL},
    [DOT_BF16] = {"bf16", "pk/dot/bf16.h"},
    [DOT_I8] = {"i8", "pk/dot/i8.h"},
    [DOT_U8] = {"u8", "pk/dot/i8.h"},
    [DOT_I8_U8] = {"i8_u8", "pk/dot/i8.h"},
    [DOT_U8_I8] = {"u8_i8", "pk/dot/i8.h"},
    [DOT_I16] = {"i16", "pk/dot/i16.h"},
    [DOT_I32] = {"i32", NULL},
    [DOT_F64] = {"f64", "pk/dot/wide.h"},
    [DOT_I64] = {"i64", "pk/dot/wide.h"},
};

const char *micro_kernel_name(const DotKind *kind) { return micro_kernels[kind->id].name; }

void put_dot_headers(Gen *g, Buf *out) {
  bool used[DOT_KINDS] = {false};
  const char *last = "";
  bool any = false;
  used_dot_kinds(g, used);
  for (int i = 0; i < DOT_KINDS; i++) {
    any |= used[i];
    if (!micro_kernels[i].header || micro_kernels[i].header == last || !used[i]) continue;
    last = micro_kernels[i].header;
    buf_printf(out, "#include <%s>\n", last);
  }
  const bool bytes = uses_byte_products(g->body);
  if (bytes) buf_printf(out, "#include <pk/dot/%s.h>\n", uses_fields(g->k) ? "fields" : "lines");
  if (any || bytes)
    buf_printf(out, "PK_DOT_AGREES(%d, %d, %d);\n", PK_DOT_SKINNY, PK_DOT_BLOCK_ROWS, PK_DOT_BRING);
}

static const char *packed_name(DType t) {
  return t == DT_BOOL ? "u8" : t == DT_U32 || t == DT_I32 ? "i32" : dtype_info[t].name;
}

// The name for an operand of this kind of dot: bytes may be widened to floats.
static const char *widened_name(Gen *g, const DotKind *kind, DType t) {
  bool to_float = kind->element == DT_F32 && (t == DT_I8 || t == DT_U8);
  return to_float ? text(g, "%s_f32", packed_name(t)) : packed_name(t);
}

// Bytes multiplied by bf16.
static bool widens_bytes(const DotKind *kind, DType t) {
  return kind->id == DOT_BF16 && (t == DT_I8 || t == DT_U8);
}

const char *pack_rows_text(Gen *g, const DotKind *kind, DType from, bool transposed) {
  const char *t = transposed ? "_t" : "";
  if (kind->element == DT_COUNT) return text(g, "pk_copy_rows%s_b%d", t, dtype_bytes(from));
  return text(g, "pk_pack_rows%s_%s", t, widened_name(g, kind, from));
}

const char *pack_panels_text(Gen *g, const DotKind *kind, DType from, bool transposed) {
  const char *t = transposed ? "_t" : "";
  if (widens_bytes(kind, from)) return text(g, "pk_pack_panels%s_%s_bf16", t, packed_name(from));
  if (kind->element == DT_COUNT) return text(g, "pk_pack_groups%s_%s", t, micro_kernel_name(kind));
  return text(g, "pk_pack_panels%s_%s", t, widened_name(g, kind, from));
}

const char *skinny_kernel_name(Gen *g, const DotKind *kind, DType right, bool transposed) {
  const char *t = transposed ? "_t" : "";
  if (widens_bytes(kind, right)) return text(g, "pk_dot_skinny_groups_%s_bf16", packed_name(right));
  if (kind->element == DT_COUNT)
    return text(g, "pk_dot_skinny_groups%s_%s", t, micro_kernel_name(kind));
  return text(g, "pk_dot_skinny%s_%s", t, widened_name(g, kind, right));
}
