// Expands `pipeline` to its definition: buffers and semaphores, a loop over steps, and copies that
// run ahead of the body.
//
// With n buffers the block of step s + n - 1 is fetched while step s computes, if its index differs
// from the step before; an output block is written back when its index changes at the next step,
// and after the last.
#include "codegen/ir/flow.h"
#include "codegen/ir/rewrite.h"

#include <string.h>

typedef struct {
  Ref *ref;          // [block axes] at first, then [buffers, block axes]
  const Ref *block;  // as it was
  int first;         // the index of its first entry among the values that the maps yield
  bool output;
  Ref *semaphores;  // one a buffer
  Ref *moved;       // i64: blocks whose copy was started
  Ref *entered;     // i64: blocks that the body has reached
} Block;

typedef struct {
  Kernel *k;
  Region *region;  // instructions go there
  Instr *pipeline, *steps, *scoped;
  Instr **copy;  // by id: the copy of an instruction of a region
  int ids;       // the number of these
  Block *blocks;
  int count;
  Span span;
} Pipeline;

static const Type nothing = {.dtype = DT_COUNT};

// ---- helpers

static Instr *emit(Pipeline *p, Op op, Type type, Span span, int nargs, Instr *const *args) {
  return ir_append(p->k, p->region, ir_new(p->k, op, type, span, nargs, args));
}

static Instr *emit2(Pipeline *p, Op op, DType dtype, Instr *a, Instr *b) {
  Instr *args[] = {a, b};
  return emit(p, op, type_scalar(dtype), a->span, 2, args);
}

static Instr *index_op(Pipeline *p, Op op, Instr *a, Instr *b) {
  return emit2(p, op, DT_I64, a, b);
}

static Instr *compare(Pipeline *p, Op op, Instr *a, Instr *b) {
  return emit2(p, op, DT_BOOL, a, b);
}

static Instr *either(Pipeline *p, Instr *a, Instr *b) { return emit2(p, OP_OR, DT_BOOL, a, b); }

static Instr *number(Pipeline *p, int64_t value, Span span) {
  return ir_const_int(p->k, p->region, DT_I64, value, span);
}

static Instr *read_counter(Pipeline *p, Ref *counter) {
  Instr *load = emit(p, OP_LOAD, type_scalar(DT_I64), counter->span, 0, NULL);
  load->ref = counter;
  return load;
}

static void write_counter(Pipeline *p, Ref *counter, Instr *value) {
  emit(p, OP_STORE, nothing, counter->span, 1, &value)->ref = counter;
}

static void count_one(Pipeline *p, Ref *counter) {
  Instr *one = number(p, 1, counter->span);
  write_counter(p, counter, index_op(p, OP_ADD, read_counter(p, counter), one));
}

// Instructions are now added to a new region; returns the previous one.
static Region *open_region(Pipeline *p) {
  Region *outer = p->region;
  p->region = ir_region(p->k);
  return outer;
}

static void close_if(Pipeline *p, Region *outer, Instr *condition) {
  Region *region = p->region;
  p->region = outer;
  emit(p, OP_IF, nothing, condition->span, 1, &condition)->regions[0] = region;
}

static Instr *yield(Pipeline *p, Instr *v) { return emit(p, OP_YIELD, nothing, p->span, 1, &v); }

// ---- index maps

static Region *copy_region(Pipeline *p, const Region *region);

// The copy of v, or v itself if it is computed outside.
static Instr *copied(const Pipeline *p, Instr *v) {
  return v->id < p->ids && p->copy[v->id] ? p->copy[v->id] : v;
}

static Instr *copy_instr(Pipeline *p, const Instr *v) {
  Instr *copy = ir_copy(p->k, v);
  for (int i = 0; i < v->nargs; i++) copy->args[i] = copied(p, v->args[i]);
  for (int r = 0; r < 2; r++)
    if (v->regions[r]) copy->regions[r] = copy_region(p, v->regions[r]);
  return ir_append(p->k, p->region, copy);
}

static Region *copy_region(Pipeline *p, const Region *region) {
  Region *outer = open_region(p), *copy = p->region;
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    p->copy[v->id] = copy_instr(p, v);
  }
  p->region = outer;
  return copy;
}

// Computes the indices of a step along the axes. The last axis is the innermost.
static void emit_axes(Pipeline *p, Instr *step, Instr **axes) {
  for (int i = p->pipeline->nargs - 1; i >= 0; i--) {
    Instr *extent = p->pipeline->args[i];
    axes[i] = i ? index_op(p, OP_REM, step, extent) : step;
    if (i) step = index_op(p, OP_DIV, step, extent);
  }
}

// Is it needed for the values `first` .. `first + count` that the region yields?
static void mark_needed(bool *needed, const Instr *v, int ids) {
  if (v->id >= ids || needed[v->id]) return;
  needed[v->id] = true;
  for (int i = 0; i < v->nargs; i++) mark_needed(needed, v->args[i], ids);
  for (int r = 0; r < 2; r++)
    for (int i = 0; v->regions[r] && i < v->regions[r]->instrs.count; i++)
      mark_needed(needed, v->regions[r]->instrs.at[i], ids);
}

// The index of the block at a step.
static void map_at(Pipeline *p, const Block *b, Instr *step, Instr **index) {
  const Region *maps = p->pipeline->regions[0];
  Instr *axes[MAX_RANK];
  bool *needed = NEW_ARRAY(p->k->arena, bool, p->ids);
  int rank = b->block->array.rank;
  emit_axes(p, step, axes);
  for (int i = 0; i < rank; i++) mark_needed(needed, ir_yielded(maps, b->first + i), p->ids);
  for (int i = 0; i + 1 < maps->instrs.count; i++) {
    const Instr *v = maps->instrs.at[i];
    if (v->op == OP_STEP_AXIS && v->args[0] == maps->arg)
      p->copy[v->id] = axes[v->ival];
    else if (needed[v->id])
      p->copy[v->id] = copy_instr(p, v);
  }
  for (int i = 0; i < rank; i++) index[i] = copied(p, ir_yielded(maps, b->first + i));
}

// Does the block of `step`, from 0 to the number of steps, differ from the previous one? At both
// ends it does.
static Instr *changes_at(Pipeline *p, const Block *b, Instr *step) {
  Instr *here[MAX_RANK], *before[MAX_RANK];
  Instr *after = compare(p, OP_EQ, step, p->steps),
        *end = either(p, compare(p, OP_EQ, step, number(p, 0, p->span)), after);
  Region *outer = open_region(p), *always = p->region;
  yield(p, ir_const_int(p->k, always, DT_BOOL, 1, p->span));
  open_region(p);
  Region *between = p->region;
  map_at(p, b, step, here);
  map_at(p, b, index_op(p, OP_SUB, step, number(p, 1, p->span)), before);
  Instr *changed = ir_const_int(p->k, between, DT_BOOL, 0, p->span);
  for (int i = 0; i < b->block->array.rank; i++)
    if (here[i] != before[i]) changed = either(p, changed, compare(p, OP_NE, here[i], before[i]));
  yield(p, changed);
  p->region = outer;
  Instr *choice = emit(p, OP_IF, type_scalar(DT_BOOL), p->span, 1, &end);
  choice->regions[0] = always;
  choice->regions[1] = between;
  return choice;
}

// ---- copies

static void fill_operand_window(const Block *b, Window *w) {
  for (int i = 0; i < b->block->array.rank; i++) {
    w->size[i] = b->block->block[i];
    w->stride[i] = 1;
    w->squeeze[i] = b->block->squeeze[i];
  }
}

static void fill_buffer_window(const Block *b, Window *w) {
  w->size[0] = w->stride[0] = 1;
  w->squeeze[0] = true;
  for (int i = 1; i < b->ref->type.rank; i++) {
    w->size[i] = b->ref->type.dim[i];
    w->stride[i] = 1;
  }
}

static Instr *block_start(Pipeline *p, const Block *b, int axis, Instr *index) {
  Dim extent = b->block->block[axis];
  if (b->block->at != AT_BLOCK || extent == 1 || ir_is_const(index, 0)) return index;
  return index_op(p, OP_MUL, index, ir_extent(p->k, p->region, extent, index->span));
}

static Instr *pad_of(Pipeline *p, const Block *b) {
  if (!b->block->has_pad) return NULL;
  Instr *pad = emit(p, OP_CONST, b->block->pad->type, b->block->pad->span, 0, NULL);
  pad->ival = b->block->pad->ival;
  pad->fval = b->block->pad->fval;
  return pad;
}

// The copy of a block between its place at `index` in HBM and a buffer; index NULL: any place, for
// a wait, which counts bytes.
static void emit_block_copy(Pipeline *p, Op op, const Block *b, Instr *const *index, Instr *slot) {
  Instr *hbm[MAX_RANK], *args[3 * MAX_RANK], *zero = number(p, 0, b->ref->span);
  int rank = b->block->array.rank, count = 0;
  for (int i = 0; i < rank; i++) hbm[i] = index ? block_start(p, b, i, index[i]) : zero;
  for (int i = 0; !b->output && i < rank; i++) args[count++] = hbm[i];
  for (int i = 0; i < b->ref->type.rank; i++) args[count++] = i ? zero : slot;
  for (int i = 0; b->output && i < rank; i++) args[count++] = hbm[i];
  args[count++] = slot;
  Instr *other = b->output ? NULL : pad_of(p, b);
  if (other) args[count++] = other;
  Instr *copy = emit(p, op, nothing, b->ref->span, count, args);
  copy->ref = b->output ? b->ref : b->block->operand;
  copy->target = b->output ? b->block->operand : b->ref;
  fill_operand_window(b, b->output ? &copy->target_window : &copy->window);
  fill_buffer_window(b, b->output ? &copy->window : &copy->target_window);
  copy->semaphore = b->semaphores;
  copy->flags = INSTR_EDGE | (other ? INSTR_OTHER : 0u);
}

static Instr *slot_of(Pipeline *p, const Block *b, Instr *at) {
  return index_op(p, OP_REM, at, number(p, b->block->buffers, b->ref->span));
}

// Starts to move the block of `step`, in or out, under `condition`.
static void move_block(Pipeline *p, const Block *b, Instr *step, Instr *condition) {
  Instr *index[MAX_RANK];
  Region *outer = open_region(p);
  Instr *slot = slot_of(p, b, read_counter(p, b->moved));
  map_at(p, b, step, index);
  emit_block_copy(p, OP_COPY_START, b, index, slot);
  count_one(p, b->moved);
  close_if(p, outer, condition);
}

static void fetch_ahead(Pipeline *p, const Block *b, Instr *step) {
  Instr *inside = compare(p, OP_LT, step, p->steps);
  Region *outer = open_region(p);
  move_block(p, b, step, changes_at(p, b, step));
  close_if(p, outer, inside);
}

// The body reaches the block of `step`: an input must have arrived; the buffer of an output must be
// free again.
static void enter_block(Pipeline *p, const Block *b, Instr *step) {
  Instr *changed = changes_at(p, b, step);
  Region *outer = open_region(p);
  Instr *at = read_counter(p, b->entered), *slot = slot_of(p, b, at);
  if (b->output) {
    Instr *taken = compare(p, OP_GE, at, number(p, b->block->buffers, p->span));
    Region *inner = open_region(p);
    emit_block_copy(p, OP_COPY_WAIT, b, NULL, slot);
    close_if(p, inner, taken);
  } else {
    emit_block_copy(p, OP_COPY_WAIT, b, NULL, slot);
  }
  count_one(p, b->entered);
  close_if(p, outer, changed);
}

static void leave_block(Pipeline *p, const Block *b, Instr *step) {
  Instr *next = index_op(p, OP_ADD, step, number(p, 1, p->span));
  move_block(p, b, step, changes_at(p, b, next));
}

static void emit_for(Pipeline *p, Region *outer, Region *body, Instr *from, Instr *to, Span span) {
  Instr *bounds[] = {from, to};
  p->region = outer;
  emit(p, OP_FOR, nothing, span, 2, bounds)->regions[0] = body;
}

static void wait_for_rest(Pipeline *p, const Block *b) {
  Instr *moved = read_counter(p, b->moved), *zero = number(p, 0, b->ref->span);
  Instr *from = index_op(p, OP_MAX, zero,
                         index_op(p, OP_SUB, moved, number(p, b->block->buffers, b->ref->span)));
  Region *outer = open_region(p), *body = p->region;
  body->arg = ir_new(p->k, OP_ARG, type_scalar(DT_I64), b->ref->span, 0, NULL);
  emit_block_copy(p, OP_COPY_WAIT, b, NULL, slot_of(p, b, body->arg));
  emit_for(p, outer, body, from, moved, b->ref->span);
}

// ---- the body: names of blocks become the buffers that hold them

typedef struct {
  Pipeline *p;
  Instr *const *slots;
  Instr *zero;
} Renaming;

static void shift_window(Window *w, int rank) {
  for (int i = rank; i > 0; i--) {
    w->size[i] = w->size[i - 1];
    w->stride[i] = w->stride[i - 1];
    w->squeeze[i] = w->squeeze[i - 1];
  }
  w->size[0] = w->stride[0] = 1;
  w->squeeze[0] = true;
}

static void insert_start(const Renaming *r, Instr *instr, int at, Instr *start) {
  Instr **args = NEW_ARRAY(r->p->k->arena, Instr *, instr->nargs + 1);
  for (int i = 0; i <= instr->nargs; i++)
    args[i] = i < at ? instr->args[i] : i == at ? start : instr->args[i - 1];
  instr->args = args;
  instr->nargs++;
}

// The number of the block whose ref it was; -1: none.
static int block_of(const Pipeline *p, const Ref *ref) {
  for (int i = 0; ref && i < p->count; i++)
    if (p->blocks[i].ref == ref) return i;
  return -1;
}

// A ref as it was before it became buffers.
static const Type *type_before(const Pipeline *p, const Ref *ref) {
  int block = block_of(p, ref);
  return block < 0 ? &ref->type : &p->blocks[block].block->type;
}

// The chain begins at the buffer's slot; its arguments are those from `at` on.
static const Chain *rename_chain(const Renaming *r, Instr *instr, const Chain *chain, int number,
                                 int at) {
  const Type *block = &r->p->blocks[number].block->type;
  ChainStep *steps = NEW_ARRAY(r->p->k->arena, ChainStep, chain->count + 1);
  Chain *renamed = NEW(r->p->k->arena, Chain);
  steps[0] = (ChainStep){.kind = CHAIN_WINDOW, .type = *block};
  for (int i = 0; i < block->rank; i++) {
    steps[0].window.size[i] = block->dim[i];
    steps[0].window.stride[i] = 1;
    insert_start(r, instr, at, r->zero);
  }
  shift_window(&steps[0].window, block->rank);
  insert_start(r, instr, at, r->slots[number]);
  memcpy(steps + 1, chain->at, (size_t)chain->count * sizeof *steps);
  *renamed = (Chain){chain->count + 1, steps};
  return renamed;
}

// Replaces the block of a pipeline in an instruction by the slot of its buffer.
static void rename_block(Instr *instr, void *context) {
  const Renaming *r = context;
  int from = block_of(r->p, instr->ref), to = block_of(r->p, instr->target);
  if (from < 0 && to < 0) return;
  const Type *source = type_before(r->p, instr->ref);
  int source_rank = instr->chain ? ir_seen(instr->ref, instr->chain)->rank : source->rank;
  int end = instr->nargs - ir_length_count(instr),
      own = instr->target ? ir_chain_starts(type_before(r->p, instr->target), instr->target_chain)
                          : 0;
  if (to >= 0 && instr->target_chain)
    instr->target_chain = rename_chain(r, instr, instr->target_chain, to, end - own);
  if (from >= 0 && instr->chain)
    instr->chain = rename_chain(r, instr, instr->chain, from,
                                end - own - ir_chain_starts(source, instr->chain));
  if (to >= 0 && !instr->target_chain) {
    insert_start(r, instr, source_rank, r->slots[to]);
    shift_window(&instr->target_window, r->p->blocks[to].block->type.rank);
  }
  if (from < 0 || instr->chain) return;
  insert_start(r, instr, 0, r->slots[from]);
  shift_window(&instr->window, r->p->blocks[from].block->type.rank);
}

static void see_chain(Instr *instr, void *context) {
  if (instr->chain || instr->target_chain) *(bool *)context = true;
}

static void use_copies(Instr *instr, void *context) {
  const Pipeline *p = context;
  for (int i = 0; i < instr->nargs; i++) instr->args[i] = copied(p, instr->args[i]);
}

// The body at `step`, in a named region.
static void emit_body(Pipeline *p, Instr *step, Instr *const *slots) {
  const Region *old = p->pipeline->regions[1];
  Region *outer = open_region(p), *body = p->region;
  Instr *axes[MAX_RANK];
  emit_axes(p, step, axes);
  memset(p->copy, 0, sizeof *p->copy * (size_t)p->ids);
  for (int i = 0; i < old->instrs.count; i++) {
    Instr *v = old->instrs.at[i];
    if (v->op == OP_STEP_AXIS && v->args[0] == old->arg)
      p->copy[v->id] = axes[v->ival];
    else
      ir_append(p->k, body, v);
  }
  ir_walk(body, use_copies, p);
  p->region = outer;
  bool chains = false;
  ir_walk(body, see_chain, &chains);
  Renaming renaming = {p, slots, chains ? number(p, 0, p->span) : NULL};
  Instr *named = emit(p, OP_NAMED, nothing, p->span, 0, NULL);
  named->text = "step";
  named->regions[0] = body;
  ir_walk(body, rename_block, &renaming);
}

static void emit_step(Pipeline *p, Instr *step) {
  Instr **slots = NEW_ARRAY(p->k->arena, Instr *, p->count + 1);
  for (int i = 0; i < p->count; i++) {
    const Block *b = &p->blocks[i];
    if (!b->output)
      fetch_ahead(p, b, index_op(p, OP_ADD, step, number(p, b->block->buffers - 1, p->span)));
    enter_block(p, b, step);
  }
  for (int i = 0; i < p->count; i++) {
    const Block *b = &p->blocks[i];
    Instr *one = number(p, 1, p->span);
    slots[i] = slot_of(p, b, index_op(p, OP_SUB, read_counter(p, b->entered), one));
  }
  emit_body(p, step, slots);
  for (int i = 0; i < p->count; i++)
    if (p->blocks[i].output) leave_block(p, &p->blocks[i], step);
}

static void emit_steps(Pipeline *p) {
  Instr *zero = number(p, 0, p->span);
  for (int i = 0; i < p->count; i++) {
    const Block *b = &p->blocks[i];
    write_counter(p, b->moved, zero);
    write_counter(p, b->entered, zero);
    for (int ahead = 0; !b->output && ahead < b->block->buffers - 1; ahead++)
      fetch_ahead(p, b, number(p, ahead, p->span));
  }
  Region *outer = open_region(p), *body = p->region;
  body->arg = ir_new(p->k, OP_ARG, type_scalar(DT_I64), p->span, 0, NULL);
  emit_step(p, body->arg);
  emit_for(p, outer, body, zero, p->steps, p->span);
  for (int i = 0; i < p->count; i++)
    if (p->blocks[i].output) wait_for_rest(p, &p->blocks[i]);
}

// ---- refs

static Ref *new_ref(Pipeline *p, const Ref *of, const char *what, Space space, Type type) {
  Ref *ref = NEW(p->k->arena, Ref);
  *ref = (Ref){.name = arena_printf(p->k->arena, "%s_%s", of->name, what),
               .role = space == SPACE_VAR ? REF_VAR : REF_SCRATCH,
               .space = space,
               .type = type,
               .span = of->span,
               .scope = space == SPACE_VAR ? NULL : p->scoped};
  return ref;
}

// The block's ref becomes its buffers.
static void make_buffers(Pipeline *p, Block *b) {
  Ref *ref = b->ref, *block = NEW(p->k->arena, Ref);
  *block = *ref;
  b->block = block;
  b->output = block->operand->role == REF_OUTPUT;
  *ref = (Ref){.name = block->name,
               .id = block->id,
               .role = REF_SCRATCH,
               .space = SPACE_VMEM,
               .span = block->span,
               .scope = p->scoped};
  ref->type = (Type){.dtype = block->type.dtype, .rank = block->type.rank + 1};
  ref->type.dim[0] = block->buffers;
  for (int i = 1; i < ref->type.rank; i++) ref->type.dim[i] = block->type.dim[i - 1];
  Type each = {.dtype = DT_I32, .rank = 1, .dim = {block->buffers}};
  b->semaphores = new_ref(p, ref, "arrived", SPACE_SEM, each);
  b->moved = new_ref(p, ref, "moved", SPACE_VAR, type_scalar(DT_I64));
  b->entered = new_ref(p, ref, "entered", SPACE_VAR, type_scalar(DT_I64));
}

static void find_blocks(Pipeline *p) {
  Kernel *k = p->k;
  int first = 0, added = 0;
  Ref **refs = NEW_ARRAY(k->arena, Ref *, 4 * k->refs.count);
  p->blocks = NEW_ARRAY(k->arena, Block, k->refs.count + 1);
  for (int i = 0; i < k->refs.count; i++) {
    Ref *ref = refs[added++] = k->refs.at[i];
    if (ref->scope != p->pipeline) continue;
    Block *b = &p->blocks[p->count++];
    *b = (Block){.ref = ref, .first = first};
    first += ref->array.rank;
    make_buffers(p, b);
    refs[added++] = b->semaphores;
    refs[added++] = b->moved;
    refs[added++] = b->entered;
  }
  k->refs.at = refs;
  k->refs.count = k->refs.capacity = added;
  for (int i = 0; i < added; i++) refs[i]->id = i;
}

// ---- all of them

static void expand(Rewriter *w, Instr *pipeline) {
  Kernel *k = w->k;
  Pipeline p = {
      .k = k, .region = w->out, .pipeline = pipeline, .span = pipeline->span, .ids = k->next_id};
  p.copy = NEW_ARRAY(k->arena, Instr *, p.ids + 1);
  p.steps = number(&p, 1, p.span);
  for (int i = 0; i < pipeline->nargs; i++)
    p.steps = index_op(&p, OP_MUL, p.steps, pipeline->args[i]);
  p.scoped = ir_new(k, OP_SCOPED, nothing, pipeline->span, 0, NULL);
  find_blocks(&p);
  p.scoped->regions[0] = p.region = ir_region(k);
  emit_steps(&p);
  ir_rewrite(w, p.scoped->regions[0]);  // those in the body
  ir_append(k, w->out, p.scoped);
}

static bool expand_in(Rewriter *w, Instr *v) {
  if (v->op != OP_PIPELINE) {
    ir_rewrite_inside(w, v);
    return true;
  }
  expand(w, v);
  return false;
}

static void note_pipeline(Instr *instr, void *context) {
  if (instr->op == OP_PIPELINE) *(bool *)context = true;
}

void ir_expand_pipelines(Kernel *k) {
  bool any = false;
  ir_walk(k->body, note_pipeline, &any);
  if (any) ir_rewrite(&(Rewriter){.k = k, .rule = expand_in}, k->body);
  for (int i = 0; k->flow && i < k->flow->callees.count; i++)
    ir_expand_pipelines(k->flow->callees.at[i].kernel);
}
