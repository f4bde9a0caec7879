// References: the same expressions on whole arrays.
#include "codegen/lower/internal.h"

static void load_inputs(Lower *l) {
  for (int i = 0; i < l->k->inputs; i++) {
    Ref *ref = l->k->refs.at[i];
    l->array[i] = emit(l, OP_ARRAY, ref->array, ref->span, 0, NULL);
    l->array[i]->ref = ref;
  }
}

static void yield_outputs(Lower *l, const Node *reference) {
  Instr **results = NEW_ARRAY(l->arena, Instr *, l->k->outputs + 1);
  bool good = true;
  for (int i = 0; i < l->k->outputs; i++) {
    const Ref *ref = l->k->refs.at[l->k->inputs + i];
    results[i] = l->array[ref->id];
    good = good && results[i];
    if (results[i] || l->stored[ref->id]) continue;
    diag_error(l->diag, reference->name_span, ERR_REFERENCE_OUTPUT,
               "the reference does not assign the output `%s`", ref->name);
    diag_note(l->diag, ref->span, "`%s` is declared here", ref->name);
  }
  if (good) emit(l, OP_YIELD, no_result, reference->span, l->k->outputs, results);
}

void lower_reference(Lower *l, const Node *reference, int declarations) {
  Frame frame;
  l->place = IN_REFERENCE;
  l->scope = l->root;
  l->functions = l->kernel_functions;
  l->loop = LOOP_NONE;
  for (int i = 0; i < l->k->inputs + l->k->outputs; i++) l->stored[i] = false;
  Region *region = enter_region(l, &frame);
  l->whole = region;
  load_inputs(l);
  for (int i = declarations; i < reference->a->list.count && !l->stopped; i++)
    lower_statement(l, reference->a->list.at[i]);
  yield_outputs(l, reference);
  leave_region(l);
  l->k->reference = region;
}

// ---- a reference with a signature of its own

// The whole of a ref: one start for each of its axes.
static Instr *whole_window(Lower *l, Region *region, Op op, Ref *ref, Instr *value, Span span) {
  Instr *args[MAX_RANK + 1];
  const int rank = ref->type.rank;
  for (int i = 0; i < rank; i++) args[i] = ir_const_int(l->k, region, DT_I64, 0, span);
  args[rank] = value;
  Instr *v = ir_new(l->k, op, value ? no_result : ref->type, span, rank + (value != NULL), args);
  v->ref = ref;
  for (int i = 0; i < rank; i++) v->window.size[i] = ref->type.dim[i];
  for (int i = 0; i < rank; i++) v->window.stride[i] = 1;
  return ir_append(l->k, region, v);
}

typedef struct {
  Lower *l;
  Ref **var;      // by state: the var of the body
  Instr **image;  // by Instr.id
} Body;

static void copy_region(Body *b, const Region *from, Region *to);

static Region *copied_region(Body *b, const Region *from) {
  Region *to = from ? ir_region(b->l->k) : NULL;
  if (from && from->arg) {
    to->arg = ir_copy(b->l->k, from->arg);
    b->image[from->arg->id] = to->arg;
  }
  if (from) copy_region(b, from, to);
  return to;
}

static void copy_instr(Body *b, const Instr *v, Region *to) {
  Lower *l = b->l;
  if (v->op == OP_ARRAY) {
    b->image[v->id] = whole_window(l, to, OP_LOAD, v->ref, NULL, v->span);
    return;
  }
  Instr *copy = ir_copy(l->k, v);
  for (int a = 0; a < v->nargs; a++) copy->args[a] = b->image[v->args[a]->id];
  for (int r = 0; r < 2; r++) copy->regions[r] = copied_region(b, v->regions[r]);
  if (v->ref && v->ref->role == REF_STATE) copy->ref = b->var[v->ref->id];
  b->image[v->id] = ir_append(l->k, to, copy);
}

static void copy_region(Body *b, const Region *from, Region *to) {
  for (int i = 0; i < from->instrs.count; i++) copy_instr(b, from->instrs.at[i], to);
}

static Ref *body_var(Lower *l, const Ref *state) {
  Ref *var = NEW(l->arena, Ref);
  *var = *state;
  var->id = l->k->refs.count;
  var->role = REF_VAR;
  LIST_PUSH(l->arena, &l->k->refs, var);
  return var;
}

// One step on whole arrays: the reference, with its operands as blocks and its vars as vars.
static Region *body_of_reference(Lower *l) {
  Kernel *k = l->k;
  Body b = {.l = l,
            .var = NEW_ARRAY(l->arena, Ref *, k->states.count + 1),
            .image = NEW_ARRAY(l->arena, Instr *, k->next_id)};
  for (int i = 0; i < k->states.count; i++) b.var[i] = body_var(l, k->states.at[i]);
  Region *body = ir_region(k);
  for (int i = 0; i < k->inputs; i++)
    ir_add(k, body, OP_FETCH, no_result, k->refs.at[i]->span, 0)->ref = k->refs.at[i];
  copy_region(&b, k->reference, body);
  const Instr *yield = body->instrs.at[--body->instrs.count];
  for (int i = 0; i < k->outputs; i++)
    whole_window(l, body, OP_STORE, k->refs.at[k->inputs + i], yield->args[i], yield->span);
  for (int i = 0; i < k->outputs; i++)
    ir_add(k, body, OP_WRITEBACK, no_result, k->span, 0)->ref = k->refs.at[k->inputs + i];
  return body;
}

// Declarations of blocks and grids are for kernels.
static bool check_own_declarations(Lower *l, int declarations) {
  bool good = true;
  for (int i = 0; i < declarations; i++) {
    const Node *node = l->node->a->list.at[i];
    if (!is_declaration(node) || node->kind == N_STATIC || node->kind == N_REQUIRE) continue;
    diag_error(l->diag, node->span, ERR_REFERENCE_STATEMENT,
               "a reference works on whole arrays: `static` and `require` are all it declares");
    good = false;
  }
  return good;
}

void lower_own_reference(Lower *l) {
  const int declarations = count_declarations(l->node->a);
  if (!check_own_declarations(l, declarations)) return;
  int errors = diag_error_count(l->diag);
  lower_reference(l, l->node, declarations);
  if (diag_error_count(l->diag) > errors) return;
  l->k->body = body_of_reference(l);
  l->k->vmem_limit = VMEM_UNLIMITED;
}
