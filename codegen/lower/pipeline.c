// `pipeline`: a pipeline as the grid's own, inside a body, over operands that stay in HBM.
//
// One instruction with a region for the index maps of its blocks and one for its body;
// ir/pipeline.c defines it.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

// ---- declarations

// The extents and the index map of a pipeline's block.
static bool lower_pipeline_shape(Lower *l, const Node *spec, Ref *ref) {
  int rank = ref->operand->array.rank;
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
               ref->operand->name, rank);
    diag_note(l->diag, ref->operand->span, "`%s` is declared here%s", ref->operand->name,
              axes_text(l, ref->operand));
    return false;
  }
  if (!lower_block_axes(l, spec, ref)) return false;
  if (ref->type.rank < MAX_RANK) return true;
  diag_error(l->diag, spec->span, ERR_RANK_MISMATCH, "a block of a pipeline has at most %d axes",
             MAX_RANK - 1);
  return false;
}

static bool lower_pipeline_buffers(Lower *l, const Node *spec, Ref *ref) {
  int64_t buffers = 2;
  if (spec->b && !lower_static_int(l, spec->b, "the number of buffers", &buffers)) return false;
  ref->buffers = (int)buffers;
  if (buffers >= 1 && buffers <= MOST_BUFFERS) return true;
  diag_error(l->diag, spec->b->span, ERR_BAD_BUFFERS,
             "a block may have from 1 to %d buffers, not %lld", MOST_BUFFERS, (long long)buffers);
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

// Declares a block of a pipeline as a ref.
static bool declare_block(Lower *l, const Node *node, Instr *pipeline) {
  Ref *operand = pipelined_operand(l, node->a);
  Symbol *s = declare(l, SYM_SCRATCH, node->name, node->name_span);
  Ref *ref = s->ref = NEW(l->arena, Ref);
  *ref = (Ref){.name = node->name,
               .id = l->k->refs.count,
               .role = REF_SCRATCH,
               .space = SPACE_VMEM,
               .span = node->name_span,
               .scope = pipeline,
               .operand = operand,
               .at = (AtMode)node->b->ival};
  for (int i = 0; i < MAX_RANK; i++) ref->halo[i][0] = ref->halo[i][1] = -1;
  LIST_PUSH(l->arena, &l->k->refs, ref);
  mark_broken(l, ref);
  if (!operand) return false;
  if (operand->role == REF_OUTPUT) l->stored[operand->id] = true;
  ref->array = operand->type;  // all of it, or what this device has
  ref->type.dtype = operand->array.dtype;
  if (!lower_pipeline_shape(l, node->b, ref) || !lower_pipeline_buffers(l, node->b, ref))
    return false;
  if (node->b->a && operand->role == REF_INPUT && !lower_pad_value(l, node->b, ref)) return false;
  l->broken.count--;  // the block is valid after all
  return true;
}

// ---- regions

// Opens a region whose argument is the number of a step, and names the axes that it is split into.
static Region *enter_steps(Lower *l, const Node *node, const Instr *pipeline, Frame *frame) {
  Region *region = enter_region(l, frame);
  region->arg = ir_new(l->k, OP_ARG, type_scalar(DT_I64), node->span, 0, NULL);
  for (int i = 0; i < pipeline->nargs; i++) {
    const Node *axis = node->list.at[i];
    Instr *at = emit1(l, OP_STEP_AXIS, type_scalar(DT_I64), axis->name_span, region->arg);
    at->ival = i;
    at->text = axis->name;
    Symbol *s = declare(l, SYM_LOOP, axis->name, axis->name_span);
    s->value = value_data(at);
    s->extent = pipeline->args[i];
  }
  return region;
}

// Yields the index of each block along each axis of its array.
static bool lower_maps(Lower *l, const Node *node, Instr *pipeline, int blocks) {
  Frame frame;
  Symbol *scope = l->scope;
  LIST(Instr *) entries = {0};
  bool good = true;
  pipeline->regions[0] = enter_steps(l, node, pipeline, &frame);
  for (int b = 0; b < blocks; b++) {
    const NodeList *map = &node->b->list.at[b]->b->list2;
    for (int i = 0; i < map->count; i++) {
      Instr *index = lower_index(l, map->at[i]);
      good = good && index;
      LIST_PUSH(l->arena, &entries, index);
    }
  }
  if (good && entries.count) emit(l, OP_YIELD, no_result, node->span, entries.count, entries.at);
  leave_region(l);
  l->scope = scope;
  return good;
}

static void lower_steps(Lower *l, const Node *node, Instr *pipeline, int first) {
  Frame frame;
  Symbol *scope = l->scope;
  Function *functions = l->functions;
  LoopKind loop = l->loop;
  pipeline->regions[1] = enter_steps(l, node, pipeline, &frame);
  l->loop = LOOP_NONE;
  l->unsure++;
  for (int i = first; i < node->b->list.count && !l->stopped; i++)
    lower_statement(l, node->b->list.at[i]);
  l->unsure--;
  l->loop = loop;
  l->scope = scope;
  l->functions = functions;
  leave_region(l);
}

static bool lower_pipeline_extents(Lower *l, const Node *node, Instr **extent) {
  Type index = type_scalar(DT_I64);
  bool good = true;
  for (int i = 0; i < node->list.count; i++) {
    const Node *axis = node->list.at[i];
    if (i >= MAX_RANK) {
      diag_error(l->diag, axis->span, ERR_RANK_MISMATCH, "a pipeline has at most %d axes",
                 MAX_RANK);
      return false;
    }
    Instr *value = lower_index(l, axis->a);
    good = good && value;
    if (value)
      extent[i] = emit2(l, OP_MAX, index, axis->span, value, index_const(l, 0, axis->span));
  }
  return good;
}

void lower_pipeline(Lower *l, const Node *node) {
  Symbol *scope = l->scope;
  const Node *items = node->b;
  Instr *extent[MAX_RANK];
  bool good = lower_pipeline_extents(l, node, extent);
  Instr *pipeline =
      ir_new(l->k, OP_PIPELINE, no_result, node->span, good ? node->list.count : 0, extent);
  int blocks = 0, errors = diag_error_count(l->diag);
  for (; blocks < items->list.count && items->list.at[blocks]->kind == N_PIPELINE_BLOCK; blocks++)
    good = declare_block(l, items->list.at[blocks], pipeline) && good;
  for (int i = 0; i < node->list.count; i++)
    declare(l, SYM_LOOP, node->list.at[i]->name, node->list.at[i]->name_span);
  if (good && diag_error_count(l->diag) == errors && lower_maps(l, node, pipeline, blocks)) {
    lower_steps(l, node, pipeline, blocks);
    ir_append(l->k, l->frame->region, pipeline);
  }
  l->scope = scope;
}
