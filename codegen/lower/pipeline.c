// `pipeline`: the grid's own pipeline once more, inside a body, over operands that stay in HBM.
//
// It is written out as what it stands for: buffers and semaphores of its own, a loop over steps,
// and copies that run ahead of the body. With n buffers the block of step s + n - 1 is fetched
// while step s computes, if its index differs from the step before; an output block is written back
// when its index changes at the next step, and after the last.
#include "codegen/lower/refs.h"

typedef struct {
  const Node *node;  // PIPELINE_BLOCK
  Ref *operand;
  bool output;
  int buffers;
  Ref *block;       // what the body sees under the block's name
  Ref *buffer;      // [buffers, block axes]
  Ref *semaphores;  // one a buffer
  Ref *moved;       // i64: blocks whose copy was started
  Ref *entered;     // i64: blocks the body has come to
} Block;

typedef struct {
  const Node *node;
  Instr *extent[MAX_RANK], *steps;
  Block *blocks;
  int count;
  Span span;
} Pipeline;

// ---- small things

static Instr *index_op(Lower *l, Op op, Instr *a, Instr *b) {
  return emit2(l, op, type_scalar(DT_I64), a->span, a, b);
}

static Instr *compare(Lower *l, Op op, Instr *a, Instr *b) {
  return emit2(l, op, type_scalar(DT_BOOL), a->span, a, b);
}

static Instr *either(Lower *l, Instr *a, Instr *b) {
  return emit2(l, OP_OR, type_scalar(DT_BOOL), a->span, a, b);
}

static Instr *read_counter(Lower *l, Ref *counter) {
  Instr *load = emit(l, OP_LOAD, type_scalar(DT_I64), counter->span, 0, NULL);
  load->ref = counter;
  return load;
}

static void write_counter(Lower *l, Ref *counter, Instr *value) {
  emit(l, OP_STORE, no_result, counter->span, 1, &value)->ref = counter;
}

static void count_one(Lower *l, Ref *counter) {
  write_counter(l, counter,
                index_op(l, OP_ADD, read_counter(l, counter), index_const(l, 1, counter->span)));
}

static void open_if(Lower *l, Frame *frame) { enter_region(l, frame); }

static void close_if(Lower *l, Instr *condition) {
  Region *region = l->frame->region;
  leave_region(l);
  emit1(l, OP_IF, no_result, condition->span, condition)->regions[0] = region;
}

static Ref *add_ref(Lower *l, const char *name, RefRole role, Space space, Type type, Instr *scope,
                    Span span) {
  Ref *ref = NEW(l->arena, Ref);
  *ref = (Ref){.name = name,
               .id = l->k->refs.count,
               .role = role,
               .space = space,
               .type = type,
               .span = span,
               .scope = scope};
  LIST_PUSH(l->arena, &l->k->refs, ref);
  return ref;
}

// ---- declarations

static bool lower_pipeline_shape(Lower *l, const Node *spec, Block *b) {
  Ref *ref = b->block;
  int rank = b->operand->array.rank;
  if (!(spec->flags & BLOCK_HAS_SHAPE) || !(spec->flags & BLOCK_HAS_MAP) ||
      spec->ival == AT_SLICE || spec->op != SPACE_VMEM) {
    diag_error(l->diag, spec->span, ERR_BAD_PIPELINE,
               "a block of a pipeline has a shape and an index map, as in `block a of x: [8, 128] "
               "at (t, 0);`");
    return false;
  }
  if (spec->list.count != rank || spec->list2.count != rank) {
    diag_error(l->diag, spec->span, spec->list.count != rank ? ERR_BLOCK_RANK : ERR_MAP_ARITY,
               "`%s` has %d axes; a block of it has as many, and its index map too",
               b->operand->name, rank);
    diag_note(l->diag, b->operand->span, "`%s` is declared here%s", b->operand->name,
              axes_text(l, b->operand));
    return false;
  }
  for (int i = 0; i < rank; i++) {
    const Node *node = spec->list.at[i];
    ref->squeeze[i] = node->kind == N_UNDERSCORE;
    ref->block[i] = 1;
    if (ref->squeeze[i]) continue;
    if (!lower_dim(l, node, &ref->block[i])) return false;
    ref->type.dim[ref->type.rank++] = ref->block[i];
    if (ref->block[i] != 0) continue;
    diag_error(l->diag, node->span, ERR_BLOCK_EXTENT, "a block axis is at least 1");
    return false;
  }
  if (ref->type.rank < MAX_RANK) return true;
  diag_error(l->diag, spec->span, ERR_RANK_MISMATCH, "a block of a pipeline has at most %d axes",
             MAX_RANK - 1);
  return false;
}

static bool lower_pipeline_buffers(Lower *l, const Node *spec, Block *b) {
  int64_t buffers = 2;
  if (spec->b && !lower_static_int(l, spec->b, "the number of buffers", &buffers)) return false;
  b->buffers = (int)buffers;
  if (buffers >= 1 && buffers <= MOST_BUFFERS) return true;
  diag_error(l->diag, spec->b->span, ERR_BAD_BUFFERS, "a block has from 1 to %d buffers, not %lld",
             MOST_BUFFERS, (long long)buffers);
  return false;
}

static Ref *pipelined_operand(Lower *l, const Node *name) {
  Ref *ref = ref_of(l, name);
  if (ref && is_broken(l, ref)) return NULL;
  if (ref && ref_is_operand(ref) && ref->space == SPACE_ANY) return ref;
  if (!ref && is_error(lower_expr(l, name))) return NULL;
  diag_error(l->diag, name->span, ERR_BAD_PIPELINE,
             "a pipeline moves blocks of operands that stay in HBM%s",
             ref && ref_is_operand(ref)
                 ? arena_printf(l->arena, ": declare `block %s: any;`", ref->name)
                 : "");
  return NULL;
}

static bool declare_block(Lower *l, const Node *node, Instr *scope, Block *b) {
  const Node *spec = node->b;
  Span span = node->name_span;
  *b = (Block){.node = node, .operand = pipelined_operand(l, node->a)};
  Symbol *s = declare(l, SYM_SCRATCH, node->name, span);
  b->block = s->ref = NEW(l->arena, Ref);
  *b->block =
      (Ref){.name = node->name, .id = -1, .role = REF_SCRATCH, .space = SPACE_VMEM, .span = span};
  mark_broken(l, b->block);
  if (!b->operand) return false;
  b->output = b->operand->role == REF_OUTPUT;
  if (!b->output) b->block->role = REF_INPUT;
  b->block->array = b->operand->array;
  b->block->type.dtype = b->operand->array.dtype;
  b->block->at = (AtMode)spec->ival;
  if (!lower_pipeline_shape(l, spec, b) || !lower_pipeline_buffers(l, spec, b)) return false;
  l->broken.count--;  // the block is good after all
  Type type = {.dtype = b->block->type.dtype, .rank = b->block->type.rank + 1, .dim = {b->buffers}};
  for (int i = 1; i < type.rank; i++) type.dim[i] = b->block->type.dim[i - 1];
  b->buffer = add_ref(l, node->name, REF_SCRATCH, SPACE_VMEM, type, scope, span);
  Type each = {.dtype = DT_I32, .rank = 1, .dim = {b->buffers}};
  b->semaphores = add_ref(l, arena_printf(l->arena, "%s_arrived", node->name), REF_SCRATCH,
                          SPACE_SEM, each, scope, span);
  b->moved = add_ref(l, arena_printf(l->arena, "%s_moved", node->name), REF_VAR, SPACE_VAR,
                     type_scalar(DT_I64), NULL, span);
  b->entered = add_ref(l, arena_printf(l->arena, "%s_entered", node->name), REF_VAR, SPACE_VAR,
                       type_scalar(DT_I64), NULL, span);
  return true;
}

// ---- steps

// The axes of step number `step`, last axis fastest, as the names that the pipeline gives them.
static void bind_axes(Lower *l, const Pipeline *p, Instr *step) {
  for (int i = p->node->list.count - 1; i >= 0; i--) {
    const Node *axis = p->node->list.at[i];
    Instr *at = i ? index_op(l, OP_REM, step, p->extent[i]) : step;
    if (i) step = index_op(l, OP_DIV, step, p->extent[i]);
    Symbol *s = declare(l, SYM_LOOP, axis->name, axis->name_span);
    s->value = value_data(at);
    s->extent = p->extent[i];
  }
}

// The index map of a block at a step.
static bool map_at(Lower *l, const Pipeline *p, const Block *b, Instr *step, Instr **index) {
  Symbol *scope = l->scope;
  bool good = true;
  bind_axes(l, p, step);
  for (int i = 0; i < b->operand->array.rank; i++) {
    index[i] = lower_index(l, b->node->b->list2.at[i]);
    good = good && index[i];
  }
  l->scope = scope;
  return good;
}

// Does the block of `step`, from 0 to the number of steps, differ from the one before? At both ends
// it does.
static Instr *changes_at(Lower *l, const Pipeline *p, const Block *b, Instr *step) {
  Frame frame;
  Instr *here[MAX_RANK], *before[MAX_RANK];
  Instr *end = either(l, compare(l, OP_EQ, step, index_const(l, 0, p->span)),
                      compare(l, OP_EQ, step, p->steps));
  Region *always = enter_region(l, &frame);
  yield_from(l, ir_const_int(l->k, always, DT_BOOL, 1, p->span), p->span);
  leave_region(l);
  Region *between = enter_region(l, &frame);
  bool good = map_at(l, p, b, step, here) &&
              map_at(l, p, b, index_op(l, OP_SUB, step, index_const(l, 1, p->span)), before);
  Instr *changed = ir_const_int(l->k, between, DT_BOOL, 0, p->span);
  for (int i = 0; good && i < b->operand->array.rank; i++)
    changed = either(l, changed, compare(l, OP_NE, here[i], before[i]));
  yield_from(l, changed, p->span);
  leave_region(l);
  Instr *choice = emit1(l, OP_IF, type_scalar(DT_BOOL), p->span, end);
  choice->regions[0] = always;
  choice->regions[1] = between;
  return good ? choice : NULL;
}

// ---- copies

static void fill_operand_window(const Block *b, Window *w) {
  for (int i = 0; i < b->operand->array.rank; i++) {
    w->size[i] = b->block->block[i];
    w->stride[i] = 1;
    w->squeeze[i] = b->block->squeeze[i];
  }
}

static void fill_buffer_window(const Block *b, Window *w) {
  w->size[0] = w->stride[0] = 1;
  w->squeeze[0] = true;
  for (int i = 1; i < b->buffer->type.rank; i++) {
    w->size[i] = b->buffer->type.dim[i];
    w->stride[i] = 1;
  }
}

static Instr *block_start(Lower *l, const Block *b, int axis, Instr *index) {
  Dim extent = b->block->block[axis];
  if (b->block->at != AT_BLOCK || extent == 1) return index;
  return index_op(l, OP_MUL, index, dim_value(l, extent, index->span));
}

// The copy of a block between its place at `index` in HBM and a buffer; index NULL: any place, for
// a wait, which counts bytes.
static void emit_block_copy(Lower *l, Op op, const Block *b, Instr *const *index, Instr *slot) {
  Instr *hbm[MAX_RANK], *args[3 * MAX_RANK], *zero = index_const(l, 0, b->node->span);
  int rank = b->operand->array.rank, count = 0, buffer_rank = b->buffer->type.rank;
  for (int i = 0; i < rank; i++) hbm[i] = index ? block_start(l, b, i, index[i]) : zero;
  for (int i = 0; !b->output && i < rank; i++) args[count++] = hbm[i];
  for (int i = 0; i < buffer_rank; i++) args[count++] = i ? zero : slot;
  for (int i = 0; b->output && i < rank; i++) args[count++] = hbm[i];
  args[count++] = slot;
  const Node *pad = b->output ? NULL : b->node->b->a;
  Instr *other =
      pad ? convert(l, lower_expr(l, pad), b->block->type.dtype, pad->span, "the pad") : NULL;
  if (other) args[count++] = other;
  Instr *copy = emit(l, op, no_result, b->node->span, count, args);
  copy->ref = b->output ? b->buffer : b->operand;
  copy->target = b->output ? b->operand : b->buffer;
  fill_operand_window(b, b->output ? &copy->target_window : &copy->window);
  fill_buffer_window(b, b->output ? &copy->window : &copy->target_window);
  copy->semaphore = b->semaphores;
  copy->flags = INSTR_EDGE | (other ? INSTR_OTHER : 0u);
}

static Instr *slot_of(Lower *l, const Block *b, Instr *number) {
  return index_op(l, OP_REM, number, index_const(l, b->buffers, b->node->span));
}

// Starts to move the block of `step`, in or out, under `condition`.
static void move_block(Lower *l, const Pipeline *p, const Block *b, Instr *step, Instr *condition) {
  Frame frame;
  Instr *index[MAX_RANK];
  open_if(l, &frame);
  Instr *slot = slot_of(l, b, read_counter(l, b->moved));
  if (map_at(l, p, b, step, index)) emit_block_copy(l, OP_COPY_START, b, index, slot);
  count_one(l, b->moved);
  close_if(l, condition);
}

static void fetch_ahead(Lower *l, const Pipeline *p, const Block *b, Instr *step) {
  Frame frame;
  Instr *inside = compare(l, OP_LT, step, p->steps);
  open_if(l, &frame);
  Instr *changed = changes_at(l, p, b, step);
  if (changed) move_block(l, p, b, step, changed);
  close_if(l, inside);
}

// The body comes to the block of `step`: an input has to have arrived; the buffer of an output has
// to be free again.
static void enter_block(Lower *l, const Pipeline *p, const Block *b, Instr *step) {
  Frame frame, inner;
  Instr *changed = changes_at(l, p, b, step);
  if (!changed) return;
  open_if(l, &frame);
  Instr *number = read_counter(l, b->entered), *slot = slot_of(l, b, number);
  if (b->output) {
    Instr *taken = compare(l, OP_GE, number, index_const(l, b->buffers, p->span));
    open_if(l, &inner);
    emit_block_copy(l, OP_COPY_WAIT, b, NULL, slot);
    close_if(l, taken);
  } else {
    emit_block_copy(l, OP_COPY_WAIT, b, NULL, slot);
  }
  count_one(l, b->entered);
  close_if(l, changed);
}

static void leave_block(Lower *l, const Pipeline *p, const Block *b, Instr *step) {
  Instr *next = index_op(l, OP_ADD, step, index_const(l, 1, p->span));
  Instr *changed = changes_at(l, p, b, next);
  if (changed) move_block(l, p, b, step, changed);
}

static void wait_for_rest(Lower *l, const Block *b) {
  Frame frame;
  Instr *moved = read_counter(l, b->moved), *zero = index_const(l, 0, b->node->span);
  Instr *from = index_op(l, OP_MAX, zero,
                         index_op(l, OP_SUB, moved, index_const(l, b->buffers, b->node->span)));
  Instr *arg = ir_new(l->k, OP_ARG, type_scalar(DT_I64), b->node->span, 0, NULL);
  Region *region = enter_region(l, &frame);
  region->arg = arg;
  emit_block_copy(l, OP_COPY_WAIT, b, NULL, slot_of(l, b, arg));
  leave_region(l);
  emit2(l, OP_FOR, no_result, b->node->span, from, moved)->regions[0] = region;
}

// ---- the body: what names a block means the buffer it is in

typedef struct {
  Lower *l;
  const Block *block;
  Instr *slot;
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

static void insert_start(Renaming *r, Instr *instr, int at) {
  Instr **args = NEW_ARRAY(r->l->arena, Instr *, instr->nargs + 1);
  for (int i = 0; i <= instr->nargs; i++)
    args[i] = i < at ? instr->args[i] : i == at ? r->slot : instr->args[i - 1];
  instr->args = args;
  instr->nargs++;
}

static void rename_block(Instr *instr, void *context) {
  Renaming *r = context;
  const Ref *block = r->block->block;
  int source_rank = instr->ref ? instr->ref->type.rank : 0;
  if (instr->ref == block) {
    insert_start(r, instr, 0);
    shift_window(&instr->window, block->type.rank);
    instr->ref = r->block->buffer;
    source_rank++;
  }
  if (instr->target != block) return;
  insert_start(r, instr, source_rank);
  shift_window(&instr->target_window, block->type.rank);
  instr->target = r->block->buffer;
}

static void lower_step(Lower *l, Pipeline *p, const Node *items, int first, Instr *step) {
  Frame frame;
  for (int i = 0; i < p->count; i++) {
    const Block *b = &p->blocks[i];
    if (!b->output)
      fetch_ahead(l, p, b, index_op(l, OP_ADD, step, index_const(l, b->buffers - 1, p->span)));
    enter_block(l, p, b, step);
  }
  Instr **slots = NEW_ARRAY(l->arena, Instr *, p->count + 1);
  for (int i = 0; i < p->count; i++) {
    const Block *b = &p->blocks[i];
    slots[i] =
        slot_of(l, b, index_op(l, OP_SUB, read_counter(l, b->entered), index_const(l, 1, p->span)));
  }
  Region *body = enter_region(l, &frame);
  bind_axes(l, p, step);
  for (int i = first; i < items->list.count && !l->stopped; i++)
    lower_statement(l, items->list.at[i]);
  leave_region(l);
  Instr *named = emit(l, OP_NAMED, no_result, p->span, 0, NULL);
  named->text = "step";
  named->regions[0] = body;
  for (int i = 0; i < p->count; i++)
    ir_walk(body, rename_block, &(Renaming){l, &p->blocks[i], slots[i]});
  for (int i = 0; i < p->count; i++)
    if (p->blocks[i].output) leave_block(l, p, &p->blocks[i], step);
}

static void lower_steps(Lower *l, Pipeline *p, const Node *items, int first) {
  Frame frame;
  Instr *zero = index_const(l, 0, p->span);
  for (int i = 0; i < p->count; i++) {
    write_counter(l, p->blocks[i].moved, zero);
    write_counter(l, p->blocks[i].entered, zero);
    for (int ahead = 0; !p->blocks[i].output && ahead < p->blocks[i].buffers - 1; ahead++)
      fetch_ahead(l, p, &p->blocks[i], index_const(l, ahead, p->span));
  }
  Instr *arg = ir_new(l->k, OP_ARG, type_scalar(DT_I64), p->span, 0, NULL);
  Symbol *scope = l->scope;
  Function *functions = l->functions;
  LoopKind loop = l->loop;
  Region *region = enter_region(l, &frame);
  region->arg = arg;
  l->loop = LOOP_NONE;
  lower_step(l, p, items, first, arg);
  l->loop = loop;
  l->scope = scope;
  l->functions = functions;
  leave_region(l);
  emit2(l, OP_FOR, no_result, p->span, zero, p->steps)->regions[0] = region;
  for (int i = 0; i < p->count; i++)
    if (p->blocks[i].output) wait_for_rest(l, &p->blocks[i]);
}

static bool lower_pipeline_extents(Lower *l, Pipeline *p) {
  bool good = true;
  p->steps = index_const(l, 1, p->span);
  for (int i = 0; i < p->node->list.count; i++) {
    const Node *axis = p->node->list.at[i];
    if (i >= MAX_RANK) {
      diag_error(l->diag, axis->span, ERR_RANK_MISMATCH, "a pipeline has at most %d axes",
                 MAX_RANK);
      return false;
    }
    Instr *extent = lower_index(l, axis->a);
    good = good && extent;
    if (!extent) continue;
    p->extent[i] = index_op(l, OP_MAX, extent, index_const(l, 0, axis->span));
    p->steps = index_op(l, OP_MUL, p->steps, p->extent[i]);
  }
  return good;
}

void lower_pipeline(Lower *l, const Node *node) {
  Frame frame;
  Symbol *scope = l->scope;
  const Node *items = node->b;
  Pipeline p = {.node = node,
                .span = node->span,
                .blocks = NEW_ARRAY(l->arena, Block, items->list.count + 1)};
  Instr *scoped = ir_new(l->k, OP_SCOPED, no_result, node->span, 0, NULL);
  bool good = lower_pipeline_extents(l, &p);
  int first = 0, errors = diag_error_count(l->diag);
  for (; first < items->list.count && items->list.at[first]->kind == N_PIPELINE_BLOCK; first++)
    good = declare_block(l, items->list.at[first], scoped, &p.blocks[p.count++]) && good;
  for (int i = 0; i < node->list.count; i++)
    declare(l, SYM_LOOP, node->list.at[i]->name, node->list.at[i]->name_span);
  if (good && diag_error_count(l->diag) == errors) {
    scoped->regions[0] = enter_region(l, &frame);
    for (int i = 0; i < p.count; i++)
      if (p.blocks[i].output) l->stored[p.blocks[i].operand->id] = true;
    lower_steps(l, &p, items, first);
    leave_region(l);
    ir_append(l->k, l->frame->region, scoped);
  }
  l->scope = scope;
}
