// A kernel's body as a reference: its grid is loops around the body, in the order of its steps,
// and the memory of outputs, scratch and vars is vars. Blocks are windows of arrays that are padded
// to a whole number of them.
#include "codegen/grad/blocks.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/rewrite.h"

typedef struct {
  Grad g;
  Instr **array;  // by ref: of an input, its padded array
  Ref **state;    // by ref: the var that has its memory
  Instr **axis;   // by axis of the grid: its index,
  Instr **steps;  // and its extent
} Steps;

static const Type no_type = {.dtype = DT_COUNT};

static bool refuse(Steps *s, Span span, const char *what) {
  diag_error(s->g.diag, span, ERR_KERNEL_DERIVED,
             "%s has no derivative in a kernel without a reference: write a reference, which `pkc "
             "grad` differentiates instead",
             what);
  return false;
}

// ---- supported bodies

static bool is_known(const Ref *ref, int axis) {
  Dim dim = ref->array.dim[axis], block = ref->block[axis];
  return block == 1 || dim == block || (dim_is_const(dim) && dim_is_const(block));
}

// An output that shares the memory of an input: a step fetches the blocks of the input before it
// stores to them, if both have the same blocks and no step returns to one.
static bool check_alias(Steps *s, const Ref *ref) {
  if (!same_blocks(s->g.k, ref, ref->alias))
    return refuse(s, ref->span, "an output that aliases an input with other blocks");
  if (ref->revisit)
    return refuse(s, ref->span, "an output that aliases an input and may be revisited");
  return true;
}

static bool check_operand(Steps *s, const Ref *ref) {
  if (ref->alias && !check_alias(s, ref)) return false;
  if (ref->whole) return true;
  if (ref->at == AT_SLICE) return refuse(s, ref->map_span, "a block at a slice");
  for (int i = 0; i < ref->array.rank; i++) {
    if (ref->at == AT_ELEMENT && (ref->halo[i][0] || ref->halo[i][1]))
      return refuse(s, ref->map_span, "a block that may begin outside of its array");
    if (ref->at == AT_BLOCK && !is_known(ref, i))
      return refuse(s, ref->map_span, "a block that does not divide an array of run-time size");
  }
  return true;
}

static bool check_refs(Steps *s) {
  const Kernel *k = s->g.k;
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    if (ref_is_operand(ref) && !check_operand(s, ref)) return false;
  }
  return k->mesh.count ? refuse(s, k->span, "a mesh") : true;
}

// What has only to be in order, as the statements of a reference are.
static bool only_orders(Op op) {
  return op == OP_FETCH || op == OP_WRITEBACK || op == OP_COPY_WAIT || op == OP_SEM_SIGNAL ||
         op == OP_SEM_WAIT;
}

static bool is_supported(Op op) {
  static const Op supported[] = {OP_LOAD,  OP_STORE,  OP_IF,         OP_FOR, OP_YIELD,
                                 OP_NAMED, OP_SCOPED, OP_COPY_START, OP_MOVE};
  for (size_t i = 0; i < sizeof supported / sizeof *supported; i++)
    if (op == supported[i]) return true;
  return only_orders(op) || (!op_acts(op) && op != OP_STEP_AXIS);
}

// Is the window one of the parts of that size that the ref consists of?
static bool divides(const Ref *ref, const Window *window, Instr *const *starts) {
  for (int i = 0; i < ref->type.rank; i++) {
    const Dim dim = ref->type.dim[i], size = window->size[i];
    if (dim == size && ir_is_const(starts[i], 0)) continue;
    if (!dim_is_const(size) || size < 1 || !is_multiple(starts[i], size, NULL)) return false;
    if (size != 1 && (!dim_is_const(dim) || dim % size)) return false;
  }
  return true;
}

static bool is_plain_copy(const Instr *v) {
  if (v->chain || v->target_chain || v->flags & INSTR_OTHER) return false;
  for (int i = 0; i < MAX_RANK; i++)
    if (v->window.length[i] || v->target_window.length[i]) return false;
  return !(v->flags & INSTR_EDGE) || (divides(v->ref, &v->window, ir_starts(v, false)) &&
                                      divides(v->target, &v->target_window, ir_starts(v, true)));
}

static bool check_instr(Steps *s, const Instr *v) {
  if (v->op == OP_WHILE || v->op == OP_BREAK) return refuse_instr(s->g.k, v, s->g.diag);
  if (!is_supported(v->op))
    return refuse(s, v->span, arena_printf(s->g.arena, "`%s`", op_info[v->op].name));
  if ((v->op == OP_LOAD || v->op == OP_STORE) && is_open(v))
    return refuse(s, v->span, "a masked part that may leave its block");
  if (op_starts_copy(v->op) && !is_plain_copy(v))
    return refuse(s, v->span, "a copy of a view, or of a part that data determines,");
  return true;
}

// ---- arrays

static int64_t padding(const Ref *ref, int axis) {
  Dim dim = ref->array.dim[axis], block = ref->block[axis];
  if (ref->whole || ref->at != AT_BLOCK || block == 1 || dim == block) return 0;
  return dim % block ? block - dim % block : 0;
}

static Type padded(const Ref *ref) {
  Type type = ref->array;
  for (int i = 0; i < type.rank; i++)
    if (padding(ref, i)) type.dim[i] += padding(ref, i);
  return type;
}

static Instr *padded_array(Grad *g, Ref *ref) {
  Instr *x = put(g, OP_ARRAY, ref->array, 0);
  x->ref = ref;
  const Type type = padded(ref);
  if (type_same_shape(&type, &x->type)) return x;
  Instr *with = ref->has_pad ? ir_append(g->k, g->out, ir_copy(g->k, ref->pad))
                             : put_zero(g, type_scalar(type.dtype));
  x = put(g, OP_PAD, type, 2, x, with);
  for (int i = 0; i < type.rank; i++) x->ints2[i] = padding(ref, i);
  return x;
}

static void start_memory(Steps *s) {
  Grad *g = &s->g;
  for (int i = 0; i < g->k->refs.count; i++) {
    Ref *ref = g->k->refs.at[i];
    if (ref->space == SPACE_SEM) continue;
    if (ref->role == REF_INPUT) {
      s->array[i] = padded_array(g, ref);
    } else {
      const Type type = ref_is_operand(ref) ? padded(ref) : ref->type;
      s->state[i] = new_state(g, ref->name, type);
      put_store(g, s->state[i], ref->alias ? s->array[ref->alias->id] : put_zero(g, type));
    }
  }
}

// ---- index maps and extents

static Instr *window_of(Steps *s, Instr *x, const Instr *load, Instr *const *starts);

// Copies a value of an index map or extent to the current position.
static Instr *brought(Steps *s, const Instr *v) {
  Grad *g = &s->g;
  if (v->op == OP_AXIS) return s->axis[v->ival];
  if (v->op == OP_EXTENT) return s->steps[v->ival];
  Instr *copy = ir_copy(g->k, v);
  for (int i = 0; i < v->nargs; i++) copy->args[i] = brought(s, v->args[i]);
  if (v->op == OP_LOAD) return window_of(s, s->array[v->ref->id], v, copy->args);
  copy->note = NULL;
  return ir_append(g->k, g->out, copy);
}

// The start of a block along an axis of the array.
static Instr *block_start(Steps *s, const Ref *ref, int axis) {
  if (!ref_is_operand(ref) || ref->whole) return put_index(&s->g, 0);
  Instr *at = brought(s, ir_yielded(ref->index_map, axis));
  if (ref->at != AT_BLOCK || ref->block[axis] == 1 || ir_is_const(at, 0)) return at;
  return put_pair(&s->g, OP_MUL, at, put_extent(&s->g, ref->block[axis]));
}

// ---- parts

static Instr *window_of(Steps *s, Instr *x, const Instr *load, Instr *const *starts) {
  for (int i = 0; i < x->type.rank; i++)
    if (load->window.stride[i] != 1) refuse(s, load->span, "a part with gaps");
  return window_value(&s->g, x, load, starts);
}

static Instr *block_of(Steps *s, const Ref *ref) {
  Instr *x = s->array[ref->id];
  if (ref->whole) return x;
  for (int i = 0; i < ref->array.rank; i++)
    x = piece(&s->g, x, i, block_start(s, ref, i), ref->block[i]);
  return squeezed(&s->g, x, ref->squeeze);
}

// Clamps a start, so that the window stays within its block.
static Instr *within(Grad *g, Instr *start, Dim block, Dim size, int64_t stride) {
  if (start->op == OP_CONST || !dim_is_const(block) || !dim_is_const(size)) return start;
  Instr *least = put_pair(g, OP_MAX, start, put_index(g, 0));
  return put_pair(g, OP_MIN, least, put_index(g, block - (size - 1) * stride - 1));
}

// The value where its place is in the array, and 0 past its edges: it has no gradient there.
static Instr *clipped(Grad *g, const Ref *ref, const Instr *store, Instr *value) {
  int at = 0;
  for (int i = 0; i < ref->array.rank; i++) {
    if (store->window.squeeze[i]) continue;
    if (padding(ref, i)) {
      Type along = {.dtype = DT_I64, .rank = value->type.rank};
      for (int j = 0; j < along.rank; j++) along.dim[j] = j == at ? value->type.dim[j] : 1;
      Instr *place = put_iota(g, along, DT_I64, at);
      if (store->window.stride[i] != 1)
        place = put_pair(g, OP_MUL, place, put_int(g, store->window.stride[i], along));
      place = put_pair(g, OP_ADD, put_spread(g, store->args[i], along), place);
      Instr *test = put_test(g, OP_LT, place, put_int(g, ref->array.dim[i], along));
      value = put_choice(g, put_spread(g, test, value->type), value, put_zero(g, value->type));
    }
    at++;
  }
  return value;
}

// The contents of a window after a masked store.
static Instr *masked_store(Steps *s, const Instr *store, Instr *mask, Instr *value) {
  Instr *old = ir_copy(s->g.k, store);
  old->op = OP_LOAD;
  old->type = value->type;
  old->flags = 0;
  old->nargs = store->ref->type.rank;
  old->args = store->args;
  return put_choice(&s->g, mask, value, ir_append(s->g.k, s->g.out, old));
}

// Replaces an access of a block by one of the var that holds the whole array.
static void access_state(Steps *s, Instr *v) {
  Grad *g = &s->g;
  const Ref *ref = v->ref;
  const Window inner = v->window;
  const bool blocks = ref_is_operand(ref) && !ref->whole;
  const int rank = s->state[ref->id]->type.rank, values = v->op == OP_STORE;
  Instr *mask = ir_mask(v);
  Instr **args = NEW_ARRAY(g->arena, Instr *, rank + 1), *value = values ? ir_store_value(v) : NULL;
  int at = 0;
  for (int i = 0; i < rank; i++) {
    const bool gone = blocks && ref->squeeze[i];
    args[i] = block_start(s, ref, i);
    v->window.size[i] = gone ? 1 : inner.size[at];
    v->window.stride[i] = gone ? 1 : inner.stride[at];
    v->window.squeeze[i] = gone || inner.squeeze[at];
    if (gone) continue;
    Instr *start = v->args[at];
    if (blocks) start = within(g, start, ref->block[i], inner.size[at], inner.stride[at]);
    args[i] = ir_is_const(args[i], 0) ? start
              : ir_is_const(start, 0) ? args[i]
                                      : put_pair(g, OP_ADD, args[i], start);
    at++;
  }
  v->args = args;
  v->nargs = rank + values;
  v->ref = s->state[ref->id];
  if (!values) return;
  value = ref_is_operand(ref) ? clipped(g, ref, v, value) : value;
  args[rank] = mask ? masked_store(s, v, mask, value) : value;
  v->flags = 0;
}

static bool replace(Instr *v, Instr *by) {
  if (v->text && !by->text) by->text = v->text;
  ir_replace(v, by);
  return false;
}

// ---- copies, which are assignments where they start: until it is waited for, nothing may change
// what a copy reads, or use what it writes

static Instr *copied_part(Steps *s, const Instr *copy) {
  Grad *g = &s->g;
  Instr *load = ir_new(g->k, OP_LOAD, ir_window_type(&copy->ref->type, &copy->window), g->span,
                       copy->ref->type.rank, ir_starts(copy, false));
  load->ref = copy->ref;
  load->window = copy->window;
  if (copy->ref->role == REF_INPUT) return window_of(s, block_of(s, copy->ref), load, load->args);
  access_state(s, load);
  return ir_append(g->k, g->out, load);
}

static void assign_copy(Steps *s, const Instr *copy) {
  Grad *g = &s->g;
  const int rank = copy->target->type.rank;
  Instr *value = copied_part(s, copy), *args[MAX_RANK + 1];
  for (int i = 0; i < rank; i++) args[i] = ir_starts(copy, true)[i];
  args[rank] = put_reshape(g, value, ir_window_type(&copy->target->type, &copy->target_window));
  Instr *store = ir_new(g->k, OP_STORE, no_type, g->span, rank + 1, args);
  store->ref = copy->target;
  store->window = copy->target_window;
  access_state(s, store);
  ir_append(g->k, g->out, store);
}

// The rule that rewrites the body as one step on arrays: copies become assignments, blocks of
// inputs become windows, and state becomes variables.
static bool step_rule(Rewriter *w, Instr *v) {
  Steps *s = w->context;
  s->g.out = w->out;
  s->g.span = v->span;
  if (!check_instr(s, v) || only_orders(v->op)) return false;
  if (op_starts_copy(v->op)) {
    assign_copy(s, v);
    return false;
  }
  if (v->op == OP_SCOPED || v->op == OP_NAMED) {
    ir_splice(w, v->regions[0]);
    return false;
  }
  if (v->op == OP_AXIS) return replace(v, s->axis[v->ival]);
  if (v->op == OP_EXTENT) return replace(v, s->steps[v->ival]);
  if (v->op == OP_LOAD && v->ref->role == REF_INPUT)
    return replace(v, window_of(s, block_of(s, v->ref), v, v->args));
  if (v->op == OP_LOAD || v->op == OP_STORE) access_state(s, v);
  ir_rewrite_inside(w, v);
  return true;
}

// ---- the reference

// Opens one loop for each grid axis; the body of the innermost is the current position.
static void begin_steps(Steps *s) {
  Grad *g = &s->g;
  for (int i = 0; i < g->k->grid.count; i++) {
    Instr *to = s->steps[i] = brought(s, ir_yielded(g->k->grid.at[i].extent, 0));
    Instr *loop = put(g, OP_FOR, no_type, 2, put_index(g, 0), to);
    Region *body = loop->regions[0] = ir_region(g->k);
    body->arg = s->axis[i] = ir_new(g->k, OP_ARG, type_scalar(DT_I64), g->span, 0, NULL);
    g->out = body;
  }
}

static void yield_outputs(Steps *s) {
  Grad *g = &s->g;
  Instr **results = NEW_ARRAY(g->arena, Instr *, g->k->outputs + 1);
  for (int i = 0; i < g->k->outputs; i++) {
    const Ref *ref = g->k->refs.at[g->k->inputs + i];
    results[i] = put_load(g, s->state[ref->id]);
    for (int j = 0; j < ref->array.rank; j++)
      results[i] = piece(g, results[i], j, put_index(g, 0), ref->array.dim[j]);
  }
  ir_append(g->k, g->out, ir_new(g->k, OP_YIELD, no_type, g->span, g->k->outputs, results));
}

// See grad.h.
bool grad_steps(Kernel *k, Diag *diag) {
  ir_expand_pipelines(k);
  const int errors = diag_error_count(diag), refs = k->refs.count, axes = k->grid.count;
  Region *top = ir_region(k);
  Steps s = {
      .g = {.k = k, .diag = diag, .arena = k->arena, .top = top, .out = top, .span = k->span},
      .array = NEW_ARRAY(k->arena, Instr *, refs + 1),
      .state = NEW_ARRAY(k->arena, Ref *, refs + 1),
      .axis = NEW_ARRAY(k->arena, Instr *, axes + 1),
      .steps = NEW_ARRAY(k->arena, Instr *, axes + 1)};
  if (!check_refs(&s)) return false;
  unmask_body(k);
  start_memory(&s);
  begin_steps(&s);
  Region *inside = s.g.out;
  Rewriter w = {.k = k, .rule = step_rule, .context = &s};
  ir_rewrite(&w, k->body);
  for (int i = 0; i < k->body->instrs.count; i++) ir_append(k, inside, k->body->instrs.at[i]);
  s.g.out = top;
  yield_outputs(&s);
  k->reference = top;
  k->refs.count = k->inputs + k->outputs;
  for (int i = 0; i < k->refs.count; i++) k->refs.at[i]->type = k->refs.at[i]->array;
  return diag_error_count(diag) == errors;
}
