// Declarations of a kernel: grid, blocks, scratch, aliases, requirements.
#include "codegen/lower/refs.h"

#include <string.h>

// ---- regions of index arithmetic

// If an index is written out, a shared operand is repeated for each operation that uses it.
static bool is_short(Lower *l, const Region *region) {
  const int64_t first = region->instrs.count ? region->instrs.at[0]->id : 0;
  int64_t *terms = NEW_ARRAY(l->arena, int64_t, l->k->next_id - first + 1);
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    int64_t total = 1;
    for (int k = 0; k < v->nargs; k++) {
      const int64_t at = v->args[k]->id - first;
      total += at >= 0 && terms[at] ? terms[at] : 1;
    }
    if (total > MAX_INDEX_TERMS) {
      diag_error(
          l->diag, v->span, ERR_TOO_LARGE,
          "this has more than %d operations when all names in it are replaced by their values",
          MAX_INDEX_TERMS);
      return false;
    }
    terms[v->id - first] = total;
  }
  return true;
}

bool check_index_region(Lower *l, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (instr->op == OP_YIELD) continue;
    OpClass class = op_info[instr->op].class;
    bool pure = class == OPC_LEAF || op_is_elementwise(instr->op) || instr->op == OP_LOAD;
    if (pure && instr->type.rank == 0 && !is_float(instr->type.dtype)) continue;
    diag_error(l->diag, instr->span, ERR_INDEX_ONLY,
               "only integer arithmetic on scalars is allowed here, and this is %s",
               type_text(l, &instr->type));
    return false;
  }
  return is_short(l, region);
}

static Region *lower_extent(Lower *l, const Node *node) {
  Frame frame;
  Region *region = enter_region(l, &frame);
  Instr *value = lower_index(l, node);
  if (value) yield_from(l, value, node->span);
  leave_region(l);
  return value && check_index_region(l, region) ? region : NULL;
}

// ---- grid

static void declare_axes(Lower *l, const Node *grid) {
  if (l->k->grid.count > 0) {
    diag_error(l->diag, grid->span, ERR_DUPLICATE, "a kernel has one grid");
    diag_note(l->diag, l->k->grid.at[0].span, "the first one is here");
    return;
  }
  for (int i = 0; i < grid->list.count; i++) {
    const Node *axis = grid->list.at[i];
    Symbol *s = axis->name && axis->name[0] == '_' && !axis->name[1]
                    ? NULL
                    : declare(l, SYM_AXIS, axis->name, axis->name_span);
    if (s) s->index = i;
    LIST_PUSH(
        l->arena, &l->k->grid,
        ((GridAxis){
            .name = axis->name, .span = axis->name_span, .parallel = axis->op == AXIS_PARALLEL}));
  }
}

static void lower_extents(Lower *l, const Node *grid) {
  l->place = IN_EXTENT;
  for (int i = 0; i < grid->list.count && i < l->k->grid.count; i++) {
    if (l->k->grid.at[i].extent) return;  // a second grid: reported
    const Node *extent = grid->list.at[i]->a;
    Region *region = lower_extent(l, extent);
    if (!region) continue;
    l->k->grid.at[i].extent = region;
    const Instr *value = ir_yielded(region, 0);
    if (value->op == OP_CONST && value->ival < 0)
      diag_error(l->diag, extent->span, ERR_GRID_EXTENT,
                 "a grid extent must be at least 0, not %lld", (long long)value->ival);
  }
}

// ---- blocks

static void note_array(Lower *l, const Ref *ref) {
  if (!is_broken(l, ref))
    diag_note(l->diag, ref->span, "`%s` is %s", ref->name, type_text(l, &ref->array));
}

bool lower_block_axes(Lower *l, const Node *spec, Ref *ref) {
  for (int i = 0; i < spec->list.count; i++) {
    const Node *node = spec->list.at[i];
    ref->squeeze[i] = node->kind == N_UNDERSCORE;
    ref->block[i] = 1;
    if (ref->squeeze[i]) continue;
    if (!lower_dim(l, node, &ref->block[i])) return false;
    if (ref->block[i] == 0) {
      diag_error(l->diag, node->span, ERR_BLOCK_EXTENT, "a block axis must be at least 1");
      return false;
    }
    ref->type.dim[ref->type.rank++] = ref->block[i];
  }
  return true;
}

// The extents of an operand's blocks.
static bool lower_block_shape(Lower *l, const Node *spec, Ref *ref) {
  int count = spec->list.count;
  if (count != ref->array.rank) {
    diag_error(l->diag, spec->span, ERR_BLOCK_RANK, "a block of %d %s for `%s`, which has %d",
               count, count == 1 ? "axis" : "axes", ref->name, ref->array.rank);
    note_array(l, ref);
    return false;
  }
  ref->type.rank = 0;
  ref->whole = count == 0;
  return lower_block_axes(l, spec, ref);
}

static bool is_slice(const Node *node) {
  return node->kind == N_CALL && strcmp(node->name, "ds") == 0 && node->list.count == 2;
}

// `at slice` gives starts and then lengths: those of ds(start, length), else the whole extent of
// the block.
static Region *lower_map_region(Lower *l, const Node *spec, const Ref *ref) {
  Frame frame;
  Instr *values[2 * MAX_RANK];
  int rank = ref->array.rank;
  bool good = true;
  Region *region = enter_region(l, &frame);
  for (int i = 0; i < rank; i++) {
    const Node *node = spec->list2.at[i];
    bool slice = ref->at == AT_SLICE && is_slice(node);
    values[i] = lower_index(l, slice ? node->list.at[0] : node);
    values[rank + i] = slice                 ? lower_index(l, node->list.at[1])
                       : ref->at == AT_SLICE ? dim_value(l, ref->block[i], node->span)
                                             : NULL;
    good = good && values[i] && (values[rank + i] || ref->at != AT_SLICE);
  }
  if (good)
    emit(l, OP_YIELD, no_result, ref->map_span, ref->at == AT_SLICE ? 2 * rank : rank, values);
  leave_region(l);
  return good && check_index_region(l, region) ? region : NULL;
}

static void lower_map(Lower *l, const Node *spec, Ref *ref) {
  int count = spec->list2.count;
  ref->at = (AtMode)spec->ival;
  ref->map_span = spec->span;
  if (count > 0)
    ref->map_span = (Span){spec->list2.at[0]->span.start, spec->list2.at[count - 1]->span.end};
  if (count != ref->array.rank) {
    diag_error(l->diag, ref->map_span, ERR_MAP_ARITY,
               "an index map of %d %s for `%s`, which has %d %s", count,
               count == 1 ? "entry" : "entries", ref->name, ref->array.rank,
               ref->array.rank == 1 ? "axis" : "axes");
    note_array(l, ref);
    ref->index_map = NULL;
    return;
  }
  if (count == 0) return;
  l->place = IN_MAP;
  ref->index_map = lower_map_region(l, spec, ref);  // NULL: reported
}

bool lower_pad_value(Lower *l, const Node *spec, Ref *ref) {
  Frame frame;
  ExprContext place = l->place;
  l->place = IN_PAD;
  enter_region(l, &frame);
  Value v = lower_expr(l, spec->a);
  if (is_static(v)) {
    ref->pad = constant_of(l, v, ref->array.dtype, spec->a->span);
    ref->has_pad = ref->pad != NULL;
  } else if (!is_error(v)) {
    diag_error(l->diag, spec->a->span, ERR_NOT_CONSTANT, "`pad` requires a constant, not %s",
               value_text(l, v));
  }
  leave_region(l);
  l->place = place;
  return ref->has_pad;
}

static void lower_halo(Lower *l, const Node *spec, Ref *ref) {
  const NodeList *pairs = &spec->c->list;
  if (ref->at != AT_ELEMENT || pairs->count != ref->array.rank) {
    diag_error(l->diag, spec->c->span, ERR_BAD_HALO,
               ref->at != AT_ELEMENT
                   ? "`halo` requires `at element`"
                   : "`halo` requires a pair (before, after) for each axis of `%s`",
               ref->name);
    return;
  }
  for (int i = 0; i < pairs->count; i++) {
    int count;
    if (!lower_int_list(l, pairs->at[i], "a halo", ref->halo[i], 2, &count)) return;
    if (count == 2 && ref->halo[i][0] >= 0 && ref->halo[i][1] >= 0) continue;
    diag_error(l->diag, pairs->at[i]->span, ERR_BAD_HALO,
               "a halo must be a pair of numbers of elements, (before, after)");
    return;
  }
}

static void lower_buffers(Lower *l, const Node *node, Ref *ref) {
  int64_t buffers;
  l->place = IN_SHAPE;
  if (!lower_static_int(l, node, "the number of buffers", &buffers)) return;
  if (buffers < 1 || buffers > MOST_BUFFERS)
    diag_error(l->diag, node->span, ERR_BAD_BUFFERS,
               "a block may have from 1 to %d buffers, not %lld", MOST_BUFFERS, (long long)buffers);
  else
    ref->buffers = (int)buffers;
}

static void lower_spec(Lower *l, const Node *spec, Ref *ref) {
  ref->space = (Space)spec->op;
  if (ref_is_operand(ref)) l->spec[ref->id] = spec;
  l->place = IN_SHAPE;
  bool shape = spec->flags & BLOCK_HAS_SHAPE, map = spec->flags & BLOCK_HAS_MAP;
  REQUIRE(shape || !map);
  if (shape && !lower_block_shape(l, spec, ref)) {
    mark_broken(l, ref);
    return;
  }
  if (map) lower_map(l, spec, ref);
  if (spec->a && ref->role == REF_INPUT) lower_pad_value(l, spec, ref);
  if (spec->c) lower_halo(l, spec, ref);
  ref->buffers = ref->whole || ref->space == SPACE_ANY ? 1 : 2;
  if (spec->b) lower_buffers(l, spec->b, ref);
  ref->revisit = ref->role == REF_OUTPUT && spec->flags & BLOCK_REVISIT_ANY;
}

static Ref *named_operand(Lower *l, const char *name, Span span) {
  Symbol *s = find_symbol(l, name);
  if (s && s->kind == SYM_OPERAND) return s->ref;
  const char *names[MAX_LIST];
  int count = 0;
  for (int i = 0; i < l->k->inputs + l->k->outputs && count < MAX_LIST; i++)
    names[count++] = l->k->refs.at[i]->name;
  if (s) {
    diag_error(l->diag, span, ERR_NOT_AN_OPERAND, "`%s` is a %s; expected an operand", name,
               symbol_kind_text(s->kind));
    diag_note(l->diag, s->span, "`%s` is declared here", name);
  } else {
    diag_error(l->diag, span, ERR_NOT_AN_OPERAND, "there is no operand `%s`%s", name,
               suggestion(l, name, names, count));
  }
  return NULL;
}

// A `block` declaration, for each operand that it names.
static void lower_block(Lower *l, const Node *block, const Node **declared) {
  bool input = false, known = false, good = true;
  for (int i = 0; i < block->list.count; i++) {
    const Node *name = block->list.at[i];
    Ref *ref = named_operand(l, name->name, name->span);
    if (!ref) continue;
    known = true;
    input = input || ref->role == REF_INPUT;
    if (declared[ref->id]) {
      diag_error(l->diag, name->span, ERR_DUPLICATE, "the block of `%s` is declared twice",
                 ref->name);
      diag_note(l->diag, declared[ref->id]->span, "the first time is here");
      continue;
    }
    declared[ref->id] = name;
    if (!good) mark_broken(l, ref);
    if (!good) continue;
    if (ref->prefetch) {
      diag_error(l->diag, name->span, ERR_BAD_PREFETCH,
                 "`%s` is prefetched: all of it is in SMEM, and it has no blocks", ref->name);
      diag_note(l->diag, ref->span, "`%s` is declared here", ref->name);
      continue;
    }
    int errors = diag_error_count(l->diag);
    lower_spec(l, block->a, ref);
    if (diag_error_count(l->diag) > errors)
      good = false;  // on a shared line one mistake is one error
  }
  if (good && known && !input && block->a->a)
    diag_error(l->diag, block->a->a->span, ERR_PAD_ON_OUTPUT,
               "`pad` gives the value of reads past the end, and this is an output");
}

// ---- the others

static SemaphoreKind semaphore_kind(const char *name) {
  int kind = 0;
  while (strcmp(semaphore_names[kind], name) != 0) kind++;
  return (SemaphoreKind)kind;
}

static bool lower_scratch_type(Lower *l, const Node *node, Type *type) {
  *type = type_scalar(node->op == SPACE_SEM ? DT_I32 : DT_F32);
  l->place = IN_SHAPE;
  bool good = !node->b || lower_shape(l, node->b, type);
  if (node->a && !lower_dtype(l, node->a, &type->dtype)) return false;
  for (int i = 0; good && i < type->rank; i++)
    if (type->dim[i] == 0) {
      diag_error(l->diag, node->b->list.at[i]->span, ERR_BLOCK_EXTENT,
                 "an axis of scratch must be at least 1");
      good = false;
    } else if (node->op == SPACE_SEM && !dim_is_const(type->dim[i])) {
      diag_error(l->diag, node->b->list.at[i]->span, ERR_BAD_SEMAPHORE,
                 "the number of semaphores must be a constant");
      good = false;
    }
  return good;
}

void lower_scratch(Lower *l, const Node *node, Instr *scope) {
  Type type;
  bool good = lower_scratch_type(l, node, &type);
  for (int i = 0; i < node->list.count; i++) {
    const Node *name = node->list.at[i];
    Symbol *s = declare(l, SYM_SCRATCH, name->name, name->span);
    s->ref = NEW(l->arena, Ref);
    *s->ref = (Ref){.name = name->name,
                    .id = l->k->refs.count,
                    .role = REF_SCRATCH,
                    .space = (Space)node->op,
                    .type = type,
                    .span = name->span,
                    .semaphore = node->op == SPACE_SEM ? semaphore_kind(node->name) : SEM_DMA,
                    .scope = scope};
    LIST_PUSH(l->arena, &l->k->refs, s->ref);
    if (!good || !check_ref_elements(l, s->ref)) mark_broken(l, s->ref);
  }
}

// An `alias` declaration: the output must have the type and the division of the input.
static void lower_alias(Lower *l, const Node *node) {
  Ref *output = named_operand(l, node->name, node->name_span),
      *input = named_operand(l, node->a->name, node->a->span);
  if (!output || !input) return;
  bool roles = output->role == REF_OUTPUT && input->role == REF_INPUT;
  bool same = type_same_shape(&output->array, &input->array) &&
              output->array.dtype == input->array.dtype && same_shard(output, input) &&
              output->packed == input->packed;
  for (int i = 0; i < l->k->refs.count && roles; i++)
    if (l->k->refs.at[i]->alias == input || output->alias) {
      diag_error(l->diag, node->span, ERR_BAD_ALIAS, "`%s` already shares memory",
                 output->alias ? output->name : input->name);
      return;
    }
  if (roles && same) {
    output->alias = input;
    return;
  }
  diag_error(l->diag, node->span, ERR_BAD_ALIAS,
             !roles ? "`alias output = input;` joins an output to an input"
             : output->packed != input->packed ? "`%s` and `%s`: one is packed, and one is not"
             : same_shard(output, input)       ? "`%s` and `%s` differ in dtype or shape: %s and %s"
                                               : "`%s` and `%s` differ in sharding: %s and %s",
             output->name, input->name, type_text(l, &output->array), type_text(l, &input->array));
}

static void lower_require(Lower *l, const Node *node) {
  Frame frame;
  Value c;
  l->place = IN_REQUIRE;
  Region *region = enter_region(l, &frame);
  bool good = lower_condition(l, node->a, &c);
  if (good && c.kind == V_DATA) yield_from(l, c.instr, node->a->span);
  leave_region(l);
  const char *message =
      node->name ? node->name
                 : arena_strndup(l->arena, diag_source(l->diag)->text + node->a->span.start,
                                 node->a->span.end - node->a->span.start);
  if (good && c.kind == V_BOOL && !c.ival)
    diag_error(l->diag, node->a->span, ERR_REQUIRE_FAILS, "this cannot be true: %s", message);
  if (good && c.kind == V_DATA && check_index_region(l, region))
    LIST_PUSH(l->arena, &l->k->requires, ((Requirement){node->a->span, region, message}));
}

void require_at_call(Lower *l, Op op, const Type *a, const Type *b, Span span,
                     const char *message) {
  Frame frame;
  Region *region = enter_region(l, &frame);
  Instr *x = product_value(l, a->dim, a->rank, span), *y = product_value(l, b->dim, b->rank, span);
  yield_from(l, emit2(l, op, type_scalar(DT_BOOL), span, x, y), span);
  leave_region(l);
  LIST_PUSH(l->arena, &l->k->requires, ((Requirement){span, region, message}));
}

static void lower_vmem_limit(Lower *l, const Node *node) {
  l->place = IN_SHAPE;
  if (!lower_static_int(l, node->a, "a VMEM limit", &l->k->vmem_limit)) return;
  if (l->k->vmem_limit <= 0)
    diag_error(l->diag, node->a->span, ERR_BAD_VMEM_LIMIT,
               "a VMEM limit must be a positive number of bytes");
}

static void add_prelude(Lower *l, const Node *node) {
  Symbol *scope = l->scope;
  Node one = {.name = node->name, .span = node->name_span};
  for (int i = 0; i == 0 || i < node->list.count; i++) {
    const Node *name = node->list.count ? node->list.at[i] : &one;
    Symbol *s = declare(l, SYM_PRELUDE, name->name, name->span);
    s->node = node;
    s->scope = scope;
    s->index = i;
  }
}

// Lowers one declaration.
static void lower_declaration(Lower *l, const Node *node, const Node **declared) {
  switch (node->kind) {
    case N_FN:
      add_function(l, node);
      return;
    case N_LET:
      add_prelude(l, node);
      return;
    case N_GRID:
      lower_extents(l, node);
      return;
    case N_BLOCK:
      lower_block(l, node, declared);
      return;
    case N_SCRATCH:
      lower_scratch(l, node, NULL);
      return;
    case N_ALIAS:
      lower_alias(l, node);
      return;
    case N_REQUIRE:
      lower_require(l, node);
      return;
    case N_VMEM_LIMIT:
      lower_vmem_limit(l, node);
      return;
    case N_PREFETCH:  // part of the signature
    case N_MESH:      // before it
    default:
      return;
  }
}

static void check_order(Lower *l, const Node *items, int count) {
  const Node *first = NULL;
  for (int i = 0; i < count; i++) {
    const Node *item = items->list.at[i];
    if (!first && !is_declaration(item) && item->kind != N_LET && item->kind != N_FN &&
        item->kind != N_ERROR)
      first = item;
    if (!first || !is_declaration(item)) continue;
    diag_error(l->diag, item->span, ERR_ORDER, "declarations must come before statements");
    diag_note(l->diag, first->span, "the first statement is here");
    return;
  }
}

void lower_declarations(Lower *l) {
  const Node *items = l->node->a;
  int count = count_declarations(items);
  check_order(l, items, count);
  for (int i = 0; i < count; i++)
    if (items->list.at[i]->kind == N_GRID) declare_axes(l, items->list.at[i]);
  const Node **declared = NEW_ARRAY(l->arena, const Node *, l->k->refs.count + 1);
  int operands = l->k->refs.count;
  for (int i = 0; i < count && !l->stopped; i++) lower_declaration(l, items->list.at[i], declared);
  for (int i = 0; i < operands; i++)
    if (!is_broken(l, l->k->refs.at[i]) && !check_ref_elements(l, l->k->refs.at[i]))
      mark_broken(l, l->k->refs.at[i]);
  for (int i = count; i < items->list.count; i++)
    if (items->list.at[i]->kind == N_FN) add_function(l, items->list.at[i]);
  l->kernel_functions = l->functions;
  for (Function *f = l->functions; f != l->file_functions; f = f->next) {
    f->scope = l->scope;
    f->visible = &l->kernel_functions;
  }
}

// ---- outputs whose index map ignores a parallel axis

// The first access of a ref in source order, if every step executes it.
static const Instr *first_access(const Region *region, const Ref *ref) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    bool access = v->op == OP_LOAD || v->op == OP_STORE || v->op == OP_COPY_START;
    if (access && (v->ref == ref || v->target == ref)) return v;
    bool always = v->op == OP_NAMED || v->op == OP_SCOPED;
    const Instr *inner = always ? first_access(v->regions[0], ref) : NULL;
    if (inner) return inner;
    if (op_info[v->op].class == OPC_CONTROL && v->regions[0]) return NULL;
  }
  return NULL;
}

// Each cell has its own block, so no cell can read or keep what another one left in memory.
static void check_ignored(Lower *l, const Ref *ref, const GridAxis *axis) {
  const Instr *first = first_access(l->k->body, ref);
  const char *why = NULL;
  Span span = ref->map_span;
  if (ref->alias)
    why = "so it shares no memory with an input";
  else if (ref->revisit)
    why = "so it is not revisited";
  else if (first && first->op == OP_LOAD) {
    why = "so this reads what no step has stored";
    span = first->span;
  }
  if (!why) return;
  diag_error(l->diag, span, ERR_PARALLEL_IGNORED,
             "each step along the parallel axis `%s` has its own block of `%s`, %s", axis->name,
             ref->name, why);
  diag_note(l->diag, axis->span, "`%s` is declared parallel here; arbitrary runs it in order",
            axis->name);
}

void check_parallel(Lower *l) {
  const Kernel *k = l->k;
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    for (int a = 0; a < k->grid.count && !is_broken(l, k->refs.at[i]); a++)
      if (ir_ignores_axis(k, k->refs.at[i], a)) {
        check_ignored(l, k->refs.at[i], &k->grid.at[a]);
        break;
      }
}
