// Moves of operands between HBM and VMEM, as C: the position of a block, fetching it in its form,
// and writing it back.
#include "codegen/emit/internal.h"

#include <ctype.h>
#include <string.h>

const char *pk_dtype_name(DType t) {
  static const char *const names[DT_COUNT] = {
#define INTEGER(id, ...) [DT_##id] = "PK_" #id,
#define FLOAT(id, ...) [DT_##id] = "PK_" #id,
#include "dsl/dtypes.def"
#undef DTYPE
  };
  return names[t];
}

static const char *array_text(Gen *g, const Ref *ref) {
  return text(g, "%s->array[%d]", reading(g, "call"), ref->id);
}

static const Expr *flag(Gen *g, const RefGen *r, const char *what) {
  return expr_symbol(&g->exprs, text(g, "%s_%s", r->stem, what));
}

const Expr *streams_expr(Gen *g, const RefGen *r) { return flag(g, r, "stream"); }

// `at slice`: the number of elements of the block that the map requests along array axis k.
static const Expr *length_of(Gen *g, const Ref *ref, int k) {
  return index_expr(g, ref->index_map, ref->array.rank + k);
}

static const Expr *clamped(Gen *g, const Expr *e, const Expr *most) {
  return expr_call(&g->exprs, "pk_idx_clamp", e, number(g, 0), most);
}

static const char *slice_text(Gen *g, const RefGen *r) {
  const char *starts = "", *lengths = "";
  for (int k = 0; k < r->ref->array.rank; k++) {
    starts = text(g, "%s%s%s", starts, k ? ", " : "", expr_text(r->at[k]));
    lengths = text(g, "%s%s%s", lengths, k ? ", " : "", expr_text(length_of(g, r->ref, k)));
  }
  return text(g, "pk_sliced(&%s, %d, (const int64_t[]){%s}, (const int64_t[]){%s})",
              array_text(g, r->ref), r->ref->array.rank, starts, lengths);
}

// The array from or to which the engine moves a block.
static const char *moved_array(Gen *g, const RefGen *r) {
  return r->ref->at == AT_SLICE ? text(g, "%s_slice", r->stem) : array_text(g, r->ref);
}

// The distance between neighbouring elements of the array along its axis k.
static const Expr *hbm_stride(Gen *g, const RefGen *r, int k) {
  const Ref *ref = r->ref;
  int axis = 0;
  if (k == ref->array.rank - 1) return number(g, 1);
  for (int i = 0; i < k; i++) axis += !ref->squeeze[i];
  bool stacked = g->batch && g->batch->operands[ref->id].stacked,
       named = r->form == FORM_DIRECT && !stacked && !ref->squeeze[k] &&
               r->stride[axis]->kind == EXPR_SYMBOL;
  return named ? r->stride[axis]
               : expr_code(&g->exprs, text(g, "%s.stride[%d]", array_text(g, ref), k));
}

// The address of the block's first element in HBM. An index outside the array is clamped to its
// edge: nothing is read there.
static const Expr *hbm_pointer(Gen *g, const RefGen *r) {
  const Ref *ref = r->ref;
  const Expr *offset = number(g, 0);
  for (int k = 0; k < ref->array.rank; k++) {
    if (expr_is(r->start[k], 0)) continue;
    const Expr *inside = r->at[k], *extent = extent_expr(g, ref->array.dim[k]);
    if (!r->in_range[k]) inside = clamped(g, inside, extent);
    offset = expr_add(&g->exprs, offset, expr_mul(&g->exprs, inside, hbm_stride(g, r, k)));
  }
  const char *base = text(g, "(%s *)(void *)%s.data", ctype(ref->array.dtype), array_text(g, ref));
  return pointer_expr(g, base, offset);
}

// Is a squeezed index outside the array? NULL: never.
static const Expr *is_outside(Gen *g, const RefGen *r) {
  ExprPool *pool = &g->exprs;
  const Expr *outside = NULL;
  for (int k = 0; k < r->ref->array.rank; k++) {
    if (!r->ref->squeeze[k] || r->in_range[k]) continue;
    const Expr *at = r->at[k], *extent = extent_expr(g, r->ref->array.dim[k]);
    if (at->kind != EXPR_CONST)
      outside = expr_or(pool, outside, expr_operator(pool, EXPR_LT, at, number(g, 0)));
    outside = expr_or(pool, outside, expr_operator(pool, EXPR_GE, at, extent));
  }
  return outside;
}

static const Expr *outside_expr(Gen *g, const RefGen *r) {
  return is_outside(g, r) ? flag(g, r, "outside") : NULL;
}

static const char *hbm_text(Gen *g, const RefGen *r) { return expr_text(hbm_pointer(g, r)); }

// ---- the position of a step's block

static const Expr *at_value(Gen *g, const void *of, int k) {
  (void)g;
  return ((const RefGen *)of)->start[k];
}

// The extent of the block within the array along its axis k.
static const Expr *inside_value(Gen *g, const void *of, int k) {
  const RefGen *r = of;
  const Expr *block = extent_expr(g, r->ref->block[k]);
  if (r->ref->at == AT_SLICE) block = clamped(g, length_of(g, r->ref, k), block);
  if (is_split(g, r, k)) block = g->split->length;
  if (is_merged(g, r, k)) block = expr_mul(&g->exprs, block, g->merge->together);
  return expr_call(&g->exprs, "pk_inside", extent_expr(g, r->ref->array.dim[k]), r->at[k], block);
}

// The same for the blocks of all cells that are merged.
static const Expr *adjacent_value(Gen *g, const void *of, int k) {
  const RefGen *r = of;
  const Expr *blocks =
      expr_mul(&g->exprs, extent_expr(g, r->ref->block[k]), batch_variable(g, BATCH_TOGETHER));
  return expr_call(&g->exprs, "pk_inside", extent_expr(g, r->ref->array.dim[k]), r->at[k], blocks);
}

static const Expr *stacked_value(Gen *g, const void *of, int k) {
  (void)of;
  (void)k;
  return expr_mul(&g->exprs, g->batch->own, batch_variable(g, BATCH_TOGETHER));
}

static const Expr *outside_value(Gen *g, const void *of, int k) {
  (void)k;
  return is_outside(g, of);
}

static const Expr *stride_value(Gen *g, const void *of, int k) {
  return row_stride(g, ((const RefGen *)of)->ref, k);
}

static const Expr *pointer_value(Gen *g, const void *of, int k) {
  (void)k;
  return hbm_pointer(g, of);
}

static const Expr *stream_value(Gen *g, const void *of, int k) {
  (void)k;
  const RefGen *r = of;
  const char *far = r->loaded ? "_far" : "";
  const Expr *large =
      expr_code(&g->exprs, text(g, "pk_streams%s(%s, %d)", far, reading(g, "call"), r->ref->id));
  return r->in_place.when ? expr_and(&g->exprs, flag(g, r, "whole"), large) : large;
}

// The position of a block that is used in place if it is whole, and otherwise as a copy.
static const Expr *whole_value(Gen *g, const void *of, int k) {
  (void)g;
  (void)k;
  return ((const RefGen *)of)->in_place.when;
}

static const Expr *placed_stride_value(Gen *g, const void *of, int k) {
  const RefGen *r = of;
  int axis = 0;
  for (int i = 0; i < k; i++) axis += !r->ref->squeeze[i];
  return expr_choose(&g->exprs, flag(g, r, "whole"), row_stride(g, r->ref, k),
                     r->buffer->stride[axis]);
}

// The position of an output's block.
static const Expr *placed_value(Gen *g, const void *of, int k) {
  const RefGen *r = of;
  (void)k;
  return expr_choose(&g->exprs, flag(g, r, "whole"), hbm_pointer(g, r),
                     expr_symbol(&g->exprs, r->buffer->name));
}

static bool is_declared(const Declarations *list, const Expr *variable) {
  for (int i = 0; i < list->count; i++)
    if (list->at[i].variable == variable) return true;
  return false;
}

static void declare_insides(Gen *g, const RefGen *r, Declarations *list) {
  for (int k = 0, axis = 0; k < r->ref->array.rank; k++) {
    if (r->ref->squeeze[k]) continue;
    Demand inside = r->inside[axis++];
    if (inside == DEMAND_FULL || is_declared(list, inside)) continue;
    bool batched = g->batch && g->batch->inside == inside, stacked = batched && !g->batch->columns;
    const Expr *own = stacked ? g->batch->own : inside;
    declare_variable(g, list, "const int64_t", own,
                     batched && !stacked ? adjacent_value : inside_value, r, k);
    if (stacked) declare_variable(g, list, "const int64_t", inside, stacked_value, r, k);
  }
}

static void declare_strides(Gen *g, const RefGen *r, Value value, Declarations *list) {
  for (int k = 0, axis = 0; k < r->ref->array.rank; k++) {
    if (r->ref->squeeze[k]) continue;
    const Expr *stride = r->stride[axis++];
    if (stride->kind == EXPR_SYMBOL)
      declare_variable(g, list, "const int64_t", stride, value, r, k);
  }
}

// The position of a block that is read or written in place.
static void declare_direct(Gen *g, const RefGen *r, Declarations *list) {
  const Ref *ref = r->ref;
  const char *constness = ref->role == REF_INPUT ? "const " : "";
  declare_strides(g, r, stride_value, list);
  declare_variable(g, list, text(g, "%s%s *const", constness, ctype(ref->array.dtype)),
                   expr_symbol(&g->exprs, r->name), pointer_value, r, 0);
}

static bool is_named_here(Gen *g, const RefGen *r, int k) {
  return r->at[k] && r->at[k] == expr_symbol(&g->exprs, text(g, "%s_at%d", r->stem, k));
}

static void declare_block(Gen *g, RefGen *r, Declarations *list) {
  for (int k = 0; k < r->ref->array.rank; k++)
    if (is_named_here(g, r, k))
      declare_variable(g, list, "const int64_t", r->at[k], at_value, r, k);
  declare_insides(g, r, list);
  if (is_outside(g, r))
    declare_variable(g, list, "const bool", outside_expr(g, r), outside_value, r, 0);
  if (r->form == FORM_DIRECT) declare_direct(g, r, list);
  if (!r->in_place.when) return;
  declare_variable(g, list, "const bool", flag(g, r, "whole"), whole_value, r, 0);
  declare_strides(g, r, placed_stride_value, list);
  if (r->ref->role == REF_OUTPUT)
    declare_variable(g, list, text(g, "%s *const", ctype(r->element)),
                     expr_symbol(&g->exprs, r->name), placed_value, r, 0);
}

void declare_position(Gen *g, RefGen *r, Declarations *list) {
  declare_block(g, r, list);
  if (r->streams) declare_variable(g, list, "const bool", streams_expr(g, r), stream_value, r, 0);
}

// ---- keys of blocks

static const Expr *block_index(Gen *g, const RefGen *r, int k) {
  const Ref *ref = r->ref;
  if (is_split(g, r, k)) return g->split->place;
  if (ref->at == AT_BLOCK) {
    const Expr *index = index_expr(g, ref->index_map, k);
    bool plain = index->kind == EXPR_CONST || index->kind == EXPR_SYMBOL;
    return plain || ref->block[k] != 1 ? index : r->at[k];
  }
  const Expr *block = extent_expr(g, ref->block[k]), *extent = extent_expr(g, ref->array.dim[k]);
  const Expr *end = expr_call(&g->exprs, "pk_idx_add", r->at[k], block, NULL);
  return clamped(g, end, expr_add(&g->exprs, extent, block));
}

static const Expr *block_count(Gen *g, const RefGen *r, int k) {
  ExprPool *pool = &g->exprs;
  const Expr *dim = extent_expr(g, r->ref->array.dim[k]), *block = extent_expr(g, r->ref->block[k]);
  if (is_split(g, r, k)) return expr_mul(pool, expr_ceil_div(pool, dim, block), g->split->parts);
  if (r->ref->at == AT_BLOCK) return expr_ceil_div(pool, dim, block);
  return expr_add(pool, expr_add(pool, dim, block), number(g, 1));
}

static const char *fold_indices(Gen *g, const RefGen *r, const char *function) {
  ExprPool *pool = &g->exprs;
  const Expr *key = number(g, 0);
  for (int k = 0; k < r->ref->array.rank; k++) {
    const Expr *index = block_index(g, r, k);
    if (!expr_is(index, 0)) key = expr_call(pool, function, key, index, block_count(g, r, k));
  }
  for (int k = 0; r->ref->at == AT_SLICE && k < r->ref->array.rank; k++) {
    const Expr *block = extent_expr(g, r->ref->block[k]),
               *length = clamped(g, length_of(g, r->ref, k), block);
    key = expr_call(pool, function, key, length, expr_add(pool, block, number(g, 1)));
  }
  return expr_text(key);
}

// ---- fetching

static const char *block_text(Gen *g, const RefGen *r) {
  const Ref *ref = r->ref;
  const char *starts = "", *blocks = "", *strides = "";
  for (int k = 0, axis = 0; k < ref->array.rank; k++) {
    const char *comma = k ? ", " : "",
               *stride = ref->squeeze[k] ? "0" : expr_text(r->stride[axis++]);
    starts = text(g, "%s%s%s", starts, comma, expr_text(r->at[k]));
    blocks = text(g, "%s%s%s", blocks, comma, extent_text(g, ref->block[k]));
    strides = text(g, "%s%s%s", strides, comma, stride);
  }
  if (ref->array.rank == 0) starts = blocks = strides = "0";
  return text(g, "(pk_block){%d, {%s}, {%s}, {%s}}", ref->array.rank, starts, blocks, strides);
}

static const Expr *if_inside(Gen *g, const RefGen *r, const Expr *e) {
  const Expr *outside = outside_expr(g, r);
  return outside ? expr_choose(&g->exprs, outside, number(g, 0), e) : e;
}

// The number of elements of the block inside the array along an axis, if squeezed indices are
// inside.
static const Expr *count_inside(Gen *g, const RefGen *r, int axis) {
  return demand_expr(g, r->inside[axis], r->ref->type.dim[axis]);
}

const Expr *hbm_row_stride(Gen *g, const Ref *ref) {
  int row = ref->array.rank - 2;
  while (row >= 0 && ref->squeeze[row]) row--;
  return row_stride(g, ref, row);
}

const Expr *is_skinny_flag(Gen *g, const RefGen *r) { return flag(g, r, "skinny"); }

const Expr *small_right(Gen *g, const RefGen *r) {
  return r->in_place.filled_by ? flag(g, r, "small") : NULL;
}

// Declares the conditions under which an operand is read in place although it has panels.
static void declare_in_place(CWriter *w, const RefGen *r) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const Ref *ref = r->ref;
  const Expr *most = expr_symbol(pool, "PK_DOT_SKINNY"), *outside = outside_expr(g, r),
             *skinny = expr_operator(pool, EXPR_LE, r->in_place.dot_rows, most);
  if (r->in_place.filled_by && val(r->in_place.filled_by)->dot.tail_columns)
    skinny = expr_or(
        pool, skinny,
        expr_operator(pool, EXPR_LE, count_inside(g, r, 1), expr_symbol(pool, "PK_DOT_TAIL")));
  skinny = expr_and(pool, skinny, r->in_place.whole);
  if (outside) skinny = expr_and(pool, skinny, expr_not(pool, outside));
  line(w, "const bool %s = %s;", is_skinny_flag(g, r)->name, expr_text(skinny));
  if (small_right(g, r)) {
    const char *rows = expr_text(count_inside(g, r, 0)),
               *columns = expr_text(count_inside(g, r, 1)),
               *tail = val(r->in_place.filled_by)->dot.tail_columns ? "PK_DOT_TAIL" : "0",
               *ld = expr_text(expr_mul(pool, number(g, dtype_bytes(ref->array.dtype)),
                                        hbm_row_stride(g, ref)));
    const Expr *small =
        expr_code(pool, text(g, "pk_dot_is_small(%s, %s, %s, %s)", rows, columns, ld, tail));
    small = expr_and(pool, expr_not(pool, is_skinny_flag(g, r)),
                     expr_and(pool, r->in_place.whole, small));
    line(w, "const bool %s = %s;", small_right(g, r)->name, expr_text(small));
  }
  line(w, "const %s *const %s_hbm = %s;", ctype(ref->array.dtype), r->stem, hbm_text(g, r));
}

const Expr *source_of_panels(Gen *g, const RefGen *r) {
  ExprPool *pool = &g->exprs;
  const Expr *skinny = is_skinny_flag(g, r), *small = small_right(g, r);
  if (!small) return skinny;
  return expr_or(pool, expr_or(pool, skinny, small),
                 expr_and(pool, flag(g, r, "new"), r->in_place.whole));
}

static const char *pad_text(Gen *g, const RefGen *r) {
  const Ref *ref = r->ref;
  if (!ref->has_pad) return "0";
  if (ref->array.dtype == DT_BOOL) return ref->pad->ival ? "1" : "0";
  const char *pad = const_text(ref->pad);
  return r->element == DT_BF16 ? text(g, "pks_bits_bf16(%s)", pad) : pad;
}

// Packs an operand into the panels of a dot.
static void emit_pack(CWriter *w, RefGen *r) {
  Gen *g = w->g;
  const Ref *ref = r->ref;
  int k_axis = r->transposed, other = 1 - k_axis;
  DType t = ref->array.dtype;
  const char *cast = t == DT_U32 ? "(const int32_t *)" : "",
             *pointer = r->in_place.dot_rows ? text(g, "%s_hbm", r->stem) : hbm_text(g, r),
             *source = *cast ? text(g, "%s(%s)", cast, pointer) : pointer,
             *ld = expr_text(hbm_row_stride(g, ref)),
             *full_cols = demand_text(g, r->demand[other], ref->type.dim[other]),
             *pad = pad_text(g, r);
  const char *rows = expr_text(if_inside(g, r, count_inside(g, r, k_axis))),
             *cols = expr_text(if_inside(g, r, count_inside(g, r, other)));
  line(w, "const int64_t %s_begun = pk_trace_start(%s);", r->stem, reading(g, "worker"));
  if (r->form == FORM_PANELS)
    line(w, "%s(%s, %s, %s, %s, %s, %s, %s, %s);", pack_panels_text(g, r->kind, t, r->transposed),
         r->name, expr_text(r->depth), source, ld, rows, cols, full_cols, pad);
  else
    line(w, "%s(%s, %s, %s, %s, %s, %s, %s, %s, %s);", pack_rows_text(g, r->kind, t, r->transposed),
         r->name, expr_text(r->stride[0]), source, ld, rows, cols,
         demand_text(g, r->demand[k_axis], ref->type.dim[k_axis]), full_cols, pad);
  const Expr *moved = expr_mul(&g->exprs, count_inside(g, r, k_axis), count_inside(g, r, other));
  moved = if_inside(g, r, expr_mul(&g->exprs, moved, number(g, dtype_bytes(t))));
  line(w, "pk_trace_moved(worker, \"%s: pack %s\", %s_begun, %s);", ref->name,
       r->form == FORM_PANELS ? "panels" : "rows", r->stem, expr_text(moved));
}

// Copies the block to `to`, or emit_pack lays it out there, unless it is there already.
static void emit_fetch_to(CWriter *w, RefGen *r, const char *to) {
  Gen *g = w->g;
  const Ref *ref = r->ref;
  const char *element = ctype(r->element), *slot_name = text(g, "%s_slot", r->stem),
             *at = text(g, "%s.%s", reading(g, "a"), r->buffer->name),
             *tag = text(g, "%s.%s_blocks_tag", reading(g, "a"), r->stem);
  if (r->revisited.count) {
    line(w, "const int64_t %s = (int64_t)((uint64_t)%s %% (uint64_t)a.%s_slots);", slot_name,
         fold_indices(g, r, "pk_slot"), r->stem);
    at = text(g, "%s + %s * %s", at, slot_name, expr_text(r->buffer->pitch));
  }
  line(w, "%s *const %s = %s;", element, to, arena_text(g, r->element, at));
  const char *tag_at = text(g, "%s%s", arena_text(g, DT_I64, tag),
                            r->revisited.count ? text(g, " + %s", slot_name) : "");
  if (r->in_place.dot_rows) declare_in_place(w, r);
  ExprPool *pool = &g->exprs;
  const Expr *is_other =
      expr_code(pool, text(g, "pk_slot_miss(%s, %s)", tag_at, fold_indices(g, r, "pk_key")));
  if (small_right(g, r)) is_other = expr_and(pool, expr_not(pool, small_right(g, r)), is_other);
  if (r->in_place.dot_rows)
    is_other = expr_and(pool, expr_not(pool, is_skinny_flag(g, r)), is_other);
  if (r->in_place
          .filled_by) {  // as by its first rows: there is at least one, since no rows count as few
                         // rows
    const Expr *is_new = flag(g, r, "new");
    line(w, "const bool %s = %s;", is_new->name, expr_text(is_other));
    if (!r->in_place.whole) return;
    is_other = expr_and(pool, is_new, expr_not(pool, r->in_place.whole));
  }
  open_block(w, "if (%s)", expr_text(is_other));
  if (ref->at == AT_SLICE) line(w, "const pk_array %s_slice = %s;", r->stem, slice_text(g, r));
  if (r->form == FORM_COPY)
    line(w, "pk_dma_in(worker, &%s, %s, &%s, %s, %s);", moved_array(g, r),
         pk_dtype_name(ref->array.dtype), block_text(g, r), to,
         ref->has_pad ? element_pointer(g, ref->pad) : "NULL");
  else
    emit_pack(w, r);
  close_block(w);
}

void emit_fetch(CWriter *w, RefGen *r) {
  Gen *g = w->g;
  if (!r->in_place.when) {
    emit_fetch_to(w, r, r->name);
    return;
  }
  const char *copy = text(g, "%s_copy", r->stem);
  line(w, "const %s *%s = %s;", ctype(r->element), r->name, hbm_text(g, r));
  open_block(w, "if (%s)", expr_text(expr_not(&g->exprs, flag(g, r, "whole"))));
  emit_fetch_to(w, r, copy);
  line(w, "%s = %s;", r->name, copy);
  close_block(w);
}

// ---- writing back

// A block is held, and this is the last of the cells of parallel axes that do not move it.
static const Expr *has_to_be_written(Gen *g, const RefGen *r) {
  ExprPool *pool = &g->exprs;
  const Expr *all = expr_symbol(pool, text(g, "%s_held", r->stem));
  for (int i = 0; i < g->k->grid.count; i++) {
    if (!ir_ignores_axis(g->k, r->ref, i)) continue;
    const Expr *last = expr_sub(pool, grid_extent(g, i), number(g, 1));
    const Expr *index = expr_symbol(pool, g->c_name.axis[i]);
    all = expr_and(pool, all, expr_operator(pool, EXPR_EQ, index, last));
  }
  return all;
}

static void emit_writeback(CWriter *w, const RefGen *r) {
  Gen *g = w->g;
  const char *name = r->stem;
  reading(g, "worker");
  line(w, "if (%s) pk_dma_out(worker, &%s, %s, &%s_block, %s);", expr_text(has_to_be_written(g, r)),
       moved_array(g, r), pk_dtype_name(r->ref->array.dtype), name, reading(g, r->buffer->name));
}

// The key of a block that is used in place is -1: no block is held then.
void emit_change_of_block(CWriter *w, RefGen *r) {
  Gen *g = w->g;
  const char *name = r->stem, *key = fold_indices(g, r, "pk_key"),
             *whole = r->in_place.when ? flag(g, r, "whole")->name : NULL;
  if (whole) key = text(g, "%s ? -1 : %s", reading(g, whole), key);
  line(w, "const int64_t %s_key = %s;", name, key);
  open_block(w, "if (%s_held != %s_key + 1)", name, name);
  emit_writeback(w, r);
  line(w, "%s_held = %s_key + 1;", name, name);
  line(w, "%s_block = %s;", name, block_text(g, r));
  if (r->ref->at == AT_SLICE) line(w, "%s_slice = %s;", name, slice_text(g, r));
  if (r->ref->revisit)
    line(w, "%spk_dma_in(worker, &%s, %s, &%s_block, %s, NULL);",
         whole ? text(g, "if (!%s) ", whole) : "", moved_array(g, r),
         pk_dtype_name(r->ref->array.dtype), name, reading(g, r->buffer->name));
  close_block(w);
}

void emit_last_writeback(CWriter *w, RefGen *r) { emit_writeback(w, r); }
