// Pass `strips`: a loop that changes single columns of a ref, as `scatter` along the last axis
// does, runs for a few rows at a time instead of for all.
//
// An access of a column loads one cache line for each row and uses one element of it. The lines of
// many rows leave the first cache before the next column uses them; those of a few rows stay.
//
// Requires: nothing. Preserves: every bit, because no row reads what another row stores, and the
// steps of the loop are in order for each row.
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

enum {
  STRIP = 4,   // rows: several, because a step may read what the previous one stored in its row
  MANY = 256,  // rows whose lines, of two refs, fill a first cache
  LINE_BITS = 512
};

typedef struct {
  Kernel *k;
  const bool *fixed;  // by Ref.id: ir_fixed_inputs
  int stripped;
  // of a loop
  const Instr *store;         // the first one, whose windows and shape all others have
  bool *inside;               // by Instr.id: it is in the loop
  int axes[MAX_RANK], count;  // of columns, those that have rows; the last one in strips
  Instr **copy;               // by Instr.id, of one copy of the loop
  Instr *offset[MAX_RANK];    // by axis of a column: the first row of that copy
  Dim size[MAX_RANK];
} Stripper;

// ---- which loops

static bool is_single(const Type *type) {
  for (int i = 0; i < type->rank; i++)
    if (type->dim[i] != 1) return false;
  return true;
}

static void find_stores(Instr *v, void *context) {
  Stripper *s = context;
  s->inside[v->id] = true;
  if (v->op == OP_STORE && !s->store) s->store = v;
}

static bool is_column(const Stripper *s, const Type *type) {
  return type_same_shape(type, &ir_store_value(s->store)->type);
}

// Do all operands that the loop computes have one element?
static bool reads_singles(const Stripper *s, const Instr *v) {
  for (int i = 0; i < v->nargs; i++)
    if (s->inside[v->args[i]->id] && !is_single(&v->args[i]->type)) return false;
  return true;
}

static bool is_same_start(const Instr *a, const Instr *b) {
  return a == b || (a->op == OP_CONST && ir_is_const(b, a->ival));
}

// Are the rows of the access those of the first store, if it is to the same ref?
static bool has_rows_of_store(const Stripper *s, const Instr *access) {
  for (int i = 0; i < s->count && access->ref == s->store->ref; i++) {
    const int k = window_axis(access, s->axes[i]);
    if (k != window_axis(s->store, s->axes[i]) ||
        access->window.stride[k] != s->store->window.stride[k] ||
        !is_same_start(access->args[k], s->store->args[k]))
      return false;
  }
  return true;
}

// Is it an access of a column whose rows are all in bounds, and those of the first store? A block
// that overhangs its array has rows that are not needed.
static bool may_access(const Stripper *s, const Instr *access) {
  if (access->flags) return false;
  for (int i = 0; i < s->count; i++) {
    const int k = window_axis(access, s->axes[i]);
    if (!ir_axis_is_inside(access, k) || !never_overhangs(access->ref, k)) return false;
  }
  return access->ref == s->store->ref ? has_rows_of_store(s, access)
                                      : access->op == OP_LOAD && s->fixed[access->ref->id];
}

static bool may_strip_region(const Stripper *s, const Region *region);

static bool may_strip(const Stripper *s, const Instr *v) {
  if (v->op == OP_IF)
    return !has_result(v) && may_strip_region(s, v->regions[0]) &&
           may_strip_region(s, v->regions[1]);
  if (v->op == OP_STORE) return is_column(s, &ir_store_value(v)->type) && may_access(s, v);
  if (v->op == OP_LOAD && is_column(s, &v->type)) return may_access(s, v);
  if (v->op == OP_LOAD) return is_single(&v->type) && s->fixed[v->ref->id] && reads_singles(s, v);
  if (op_info[v->op].effect != EFFECT_NONE || v->regions[0]) return false;
  if (is_single(&v->type)) return reads_singles(s, v);
  if (!is_column(s, &v->type)) return false;
  if (v->op == OP_BROADCAST) return is_single(&v->args[0]->type);
  for (int i = 0; i < v->nargs; i++)
    if (!s->inside[v->args[i]->id]) return false;
  return op_is_elementwise(v->op);
}

static bool may_strip_region(const Stripper *s, const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++)
    if (!may_strip(s, region->instrs.at[i])) return false;
  return true;
}

// Are the lines of a ref's rows apart?
static bool has_long_rows(const Type *ref) {
  const Dim row = ref->dim[ref->rank - 1];
  return !dim_is_const(row) || row * dtype_info[ref->dtype].bits > LINE_BITS;
}

// The axes of a column that have rows. False: there are few rows.
static bool find_rows(Stripper *s, const Type *column) {
  int64_t rows = 1;
  s->count = 0;
  for (int i = 0; i < column->rank; i++) {
    if (column->dim[i] == 1) continue;
    s->axes[s->count++] = i;
    if (!dim_is_const(column->dim[i])) rows = MANY;
    if (rows < MANY) rows *= column->dim[i] < MANY ? column->dim[i] : MANY;
  }
  return rows >= MANY;
}

// Are the stores to columns of many rows, in a ref of many columns?
static bool has_columns(Stripper *s) {
  const Instr *store = s->store;
  const Type *ref = &store->ref->type;
  const int last = ref->rank - 1;
  return last >= 1 && !store->window.squeeze[last] && store->window.size[last] == 1 &&
         has_long_rows(ref) && find_rows(s, &ir_store_value(store)->type);
}

static bool is_stripped(Stripper *s, const Instr *loop) {
  if (loop->op != OP_FOR || has_result(loop)) return false;
  s->store = NULL;
  s->inside = NEW_ARRAY(s->k->arena, bool, s->k->next_id + 1);
  ir_walk(loop->regions[0], find_stores, s);
  s->inside[loop->regions[0]->arg->id] = true;
  return s->store && has_columns(s) && may_strip_region(s, loop->regions[0]);
}

// ---- a copy of the loop for some rows

static Region *copy_region(Stripper *s, const Region *region);

static void narrow_access(Stripper *s, Region *out, Instr *access, int axis) {
  const int k = window_axis(access, axis);
  Instr *by = s->offset[axis], *start = access->args[k];
  const int64_t stride = access->window.stride[k];
  const Type i64 = type_scalar(DT_I64);
  access->window.size[k] = s->size[axis];
  if (stride != 1)
    by = ir_add(s->k, out, OP_MUL, i64, access->span, 2, by,
                ir_const_int(s->k, out, DT_I64, stride, access->span));
  if (!ir_is_const(start, 0)) by = ir_add(s->k, out, OP_ADD, i64, access->span, 2, start, by);
  access->args[k] = by;
}

static void copy_instr(Stripper *s, Region *out, const Instr *v) {
  Instr *copy = s->copy[v->id] = ir_copy(s->k, v);
  const bool store = v->op == OP_STORE;
  for (int i = 0; i < v->nargs; i++)
    if (s->inside[v->args[i]->id]) copy->args[i] = s->copy[v->args[i]->id];
  for (int r = 0; r < 2; r++)
    if (v->regions[r]) copy->regions[r] = copy_region(s, v->regions[r]);
  for (int i = 0; i < s->count && (store || (has_result(v) && is_column(s, &v->type))); i++) {
    if (!store) copy->type.dim[s->axes[i]] = s->size[s->axes[i]];
    if (store || v->op == OP_LOAD) narrow_access(s, out, copy, s->axes[i]);
  }
  ir_append(s->k, out, copy);
}

static Region *copy_region(Stripper *s, const Region *region) {
  Region *copy = ir_region(s->k);
  if (region->arg) copy->arg = s->copy[region->arg->id] = ir_copy(s->k, region->arg);
  for (int i = 0; i < region->instrs.count; i++) copy_instr(s, copy, region->instrs.at[i]);
  return copy;
}

static void put_loops(Stripper *s, Region *out, const Instr *loop, int i);

// `size` rows from `first` on.
static void put_rows(Stripper *s, Region *out, const Instr *loop, int i, Instr *first, Dim size) {
  s->offset[s->axes[i]] = first;
  s->size[s->axes[i]] = size;
  put_loops(s, out, loop, i + 1);
}

// The copies of the loop for the rows along the i-th axis and those after it.
static void put_loops(Stripper *s, Region *out, const Instr *loop, int i) {
  if (i == s->count) {
    copy_instr(s, out, loop);
    return;
  }
  Kernel *k = s->k;
  const Dim extent = ir_store_value(s->store)->type.dim[s->axes[i]];
  const bool strips = i == s->count - 1 && dim_is_const(extent) && extent >= STRIP;
  const int64_t width = strips ? STRIP : 1;
  Instr *count = strips ? ir_const_int(k, out, DT_I64, extent / width, loop->span)
                        : ir_extent(k, out, extent, loop->span);
  Instr *zero = ir_const_int(k, out, DT_I64, 0, loop->span);
  Region *body = ir_region(k);
  body->arg = ir_new(k, OP_ARG, type_scalar(DT_I64), loop->span, 0, NULL);
  Instr *first = body->arg;
  if (strips)
    first = ir_add(k, body, OP_MUL, type_scalar(DT_I64), loop->span, 2, first,
                   ir_const_int(k, body, DT_I64, width, loop->span));
  put_rows(s, body, loop, i, first, width);
  ir_add(k, out, OP_FOR, loop->type, loop->span, 2, zero, count)->regions[0] = body;
  if (strips && extent % width)
    put_rows(s, out, loop, i, ir_const_int(k, out, DT_I64, extent - extent % width, loop->span),
             extent % width);
}

static bool strip_loop(Rewriter *w, Instr *v) {
  Stripper *s = w->context;
  if (!is_stripped(s, v)) {
    ir_rewrite_inside(w, v);
    return true;
  }
  s->copy = NEW_ARRAY(s->k->arena, Instr *, s->k->next_id + 1);
  put_loops(s, w->out, v, 0);
  s->stripped++;
  return false;
}

void strip_columns(Kernel *k, Buf *notes) {
  if (!k->body) return;
  Stripper s = {.k = k, .fixed = ir_fixed_inputs(k)};
  ir_rewrite(&(Rewriter){.k = k, .rule = strip_loop, .context = &s}, k->body);
  if (notes && s.stripped)
    buf_printf(notes, "%d loop%s over single columns run%s for a few rows at a time\n", s.stripped,
               s.stripped == 1 ? "" : "s", s.stripped == 1 ? "s" : "");
}
