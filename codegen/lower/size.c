// The signature: operands, and the sizes that their shapes name.
#include "codegen/lower/refs.h"

#include <ctype.h>
#include <string.h>

static bool is_static_name(Lower *l, const char *name) {
  Symbol *s = find_symbol(l, name);
  return s && s->kind == SYM_STATIC;
}

// A name alone in a shape that is not a static is a size.
static void declare_size(Lower *l, const Node *node) {
  if (node->kind != N_NAME || is_static_name(l, node->name) || size_index(l, node->name) >= 0)
    return;
  declare(l, SYM_SIZE, node->name, node->span)->index = l->k->sizes.count;
  LIST_PUSH(l->arena, &l->k->sizes, ((Size){.name = node->name, .span = node->span}));
}

// ---- expressions of sizes

static bool names_are_bound(Lower *l, const Node *node) {
  if (!node) return true;
  if (node->kind == N_NAME && !find_symbol(l, node->name) &&
      dtype_by_name(node->name) == DT_COUNT) {
    diag_error(l->diag, node->span, ERR_UNBOUND_SIZE,
               "the size `%s` is not an axis of any operand, so its value is unknown", node->name);
    return false;
  }
  if (!names_are_bound(l, node->a) || !names_are_bound(l, node->b)) return false;
  for (int i = 0; i < node->list.count; i++)
    if (!names_are_bound(l, node->list.at[i])) return false;
  return true;
}

static bool lower_extent_expression(Lower *l, const Node *node, Dim *dim) {
  Frame frame;
  if (!names_are_bound(l, node)) return false;
  l->place = IN_SIZE;
  Region *region = enter_region(l, &frame);
  Value v = lower_expr(l, node);
  Instr *value = v.kind == V_INT || is_error(v) ? NULL : convert_index(l, v, node->span);
  if (value) yield_from(l, value, node->span);
  leave_region(l);
  if (v.kind == V_INT) return constant_dim(l, v.ival, node->span, dim);
  if (!value || !check_index_region(l, region)) return false;
  const char *name = expression_text(node);
  int part = part_size(l, value), known = part >= 0 ? part : size_index(l, name);
  *dim = dim_of_size(known >= 0 ? known : add_derived_size(l, name, node->span, region));
  return true;
}

static bool lower_axis_extent(Lower *l, const Node *node, Dim *dim) {
  if (node->kind != N_NAME) return lower_extent_expression(l, node, dim);
  Symbol *s = find_symbol(l, node->name);
  int size = size_index(l, node->name);
  if (s && s->kind == SYM_STATIC && s->value.kind != V_INT) {
    if (!is_error(s->value))
      diag_error(l->diag, node->span, ERR_NOT_AN_INTEGER, "an axis must be an integer, not %s",
                 value_text(l, s->value));
    return false;
  }
  if (s && s->kind == SYM_STATIC) return constant_dim(l, s->value.ival, node->span, dim);
  *dim = dim_of_size(size);
  return size >= 0;
}

// ---- sizes that an axis is solved for: M of `ptr: i32[M + 1]`

typedef struct {
  const Node *axis;     // M + 1
  const char *unknown;  // M
  int root;             // the size that the array gives
} Unsolved;

// The only undeclared name in an expression; *count: the number of such names.
static void find_unknown(Lower *l, const Node *node, const char **name, int *count) {
  if (!node) return;
  bool unknown = node->kind == N_NAME && !find_symbol(l, node->name) &&
                 dtype_by_name(node->name) == DT_COUNT && node->name != *name;
  if (unknown) {
    *name = node->name;
    ++*count;
  }
  find_unknown(l, node->a, name, count);
  find_unknown(l, node->b, name, count);
  for (int i = 0; i < node->list.count; i++) find_unknown(l, node->list.at[i], name, count);
}

// (root - constant) / factor.
static Region *solution(Lower *l, const Unsolved *u, int64_t factor, int64_t constant) {
  Frame frame;
  Type index = type_scalar(DT_I64);
  Span span = u->axis->span;
  Region *region = enter_region(l, &frame);
  Instr *v = dim_value(l, dim_of_size(u->root), span);
  if (constant != 0) v = emit2(l, OP_SUB, index, span, v, index_const(l, constant, span));
  if (factor != 1) v = emit2(l, OP_DIV, index, span, v, index_const(l, factor, span));
  yield_from(l, v, span);
  leave_region(l);
  return region;
}

// Not every number of elements has a solution.
static void require_solution(Lower *l, const Unsolved *u, int size) {
  Frame frame;
  Type truth = type_scalar(DT_BOOL);
  Span span = u->axis->span;
  l->place = IN_REQUIRE;
  Region *region = enter_region(l, &frame);
  Instr *zero = index_const(l, 0, span), *solved = dim_value(l, dim_of_size(size), span);
  Instr *extent = dim_value(l, dim_of_size(u->root), span), *again = lower_index(l, u->axis);
  Instr *equal = emit2(l, OP_EQ, truth, span, again, extent),
        *both = emit2(l, OP_AND, truth, span, emit2(l, OP_GE, truth, span, solved, zero), equal);
  yield_from(l, both, span);
  leave_region(l);
  const char *message = arena_printf(l->arena, "an axis of %s elements, %s at least 0",
                                     expression_text(u->axis), u->unknown);
  LIST_PUSH(l->arena, &l->k->requires, ((Requirement){span, region, message}));
}

// Solves an extent that is an expression for one unknown size.
static bool solution_of_axis(Lower *l, const Unsolved *u, int size, bool last) {
  int64_t factor, constant;
  l->place = IN_SIZE;
  const Value v = lower_aside(l, u->axis);
  if (is_error(v)) return last;
  if (!is_index(v) || !solve_linear(l, v.instr, size, &factor, &constant)) {
    if (!last) return false;
    diag_error(
        l->diag, u->axis->span, ERR_UNBOUND_SIZE,
        "the size `%s` is not an axis of any operand, and an axis of `%s` is not solved for it",
        u->unknown, expression_text(u->axis));
    return true;
  }
  Size *root = &l->k->sizes.at[u->root];
  root->solved = size + 1;
  root->factor = factor;
  root->constant = constant;
  l->k->sizes.at[size].value = solution(l, u, factor, constant);
  require_solution(l, u, size);
  return true;
}

// `last`: an axis whose unknown size cannot be solved is an error; otherwise it stays unknown.
static void solve_axis(Lower *l, const Node *axis, bool last) {
  Unsolved u = {.axis = axis};
  Symbol *scope = l->scope;
  int count = 0;
  if (axis->kind == N_NAME) return;
  find_unknown(l, axis, &u.unknown, &count);
  if (count != 1) return;
  u.root = add_derived_size(l, expression_text(axis), axis->span, NULL);
  declare(l, SYM_SIZE, u.unknown, axis->span)->index = u.root + 1;
  int size = add_derived_size(l, u.unknown, axis->span, NULL);
  if (solution_of_axis(l, &u, size, last)) return;
  l->scope = scope;
  l->k->sizes.count = u.root;
}

// ---- sizes that only a requirement names: M of `require N == 2 * M;`

// (other side - rest) / factor.
static Region *required_value(Lower *l, const Node *side, const Node *other, int size, bool last) {
  Frame frame;
  Type index = type_scalar(DT_I64);
  Span span = side->span;
  int64_t factor = 1;
  l->place = IN_SIZE;
  const Value v = lower_aside(l, side);
  Region *region = enter_region(l, &frame);
  Instr *rest = is_index(v) ? linear_rest(l, v.instr, size, &factor, span) : NULL;
  Instr *equal = rest ? lower_index(l, other) : NULL;
  if (equal && !ir_is_const(rest, 0)) equal = emit2(l, OP_SUB, index, span, equal, rest);
  if (equal && factor != 1)
    equal = emit2(l, OP_DIV, index, span, equal, index_const(l, factor, span));
  if (equal) yield_from(l, equal, span);
  leave_region(l);
  if (!rest && !is_error(v) && last)
    diag_error(l->diag, span, ERR_UNBOUND_SIZE,
               "the size `%s` is not an axis of any operand, and `%s` is not solved for it: one "
               "side of `==` has to be a multiple of it, such as 2 * %s + 1",
               l->k->sizes.at[size].name, expression_text(side), l->k->sizes.at[size].name);
  return equal ? region : NULL;
}

static void require_natural(Lower *l, int size, Span span) {
  Frame frame;
  l->place = IN_REQUIRE;
  Region *region = enter_region(l, &frame);
  Instr *zero = index_const(l, 0, span), *value = dim_value(l, dim_of_size(size), span);
  yield_from(l, emit2(l, OP_GE, type_scalar(DT_BOOL), span, value, zero), span);
  leave_region(l);
  const char *message = arena_printf(l->arena, "`%s` is at least 0", l->k->sizes.at[size].name);
  LIST_PUSH(l->arena, &l->k->requires, ((Requirement){span, region, message}));
}

void require_equal(Lower *l, Dim a, Dim b, Span span, const char *message) {
  Frame frame;
  l->place = IN_REQUIRE;
  Region *region = enter_region(l, &frame);
  Instr *left = dim_value(l, a, span), *right = dim_value(l, b, span);
  yield_from(l, emit2(l, OP_EQ, type_scalar(DT_BOOL), span, left, right), span);
  leave_region(l);
  LIST_PUSH(l->arena, &l->k->requires, ((Requirement){span, region, message}));
}

// An unsolved one stays unknown.
static bool solve_equation(Lower *l, const Node *side, const Node *other, const char *unknown,
                           bool last) {
  Symbol *scope = l->scope;
  int size = add_derived_size(l, unknown, side->span, NULL);
  declare(l, SYM_SIZE, unknown, side->span)->index = size;
  Region *value = required_value(l, side, other, size, last);
  l->k->sizes.at[size].value = value;
  if (value) require_natural(l, size, side->span);
  if (value || last) return true;
  l->scope = scope;
  l->k->sizes.count = size;
  return false;
}

// Is a size solved from an equation of a condition?
static bool solve_condition(Lower *l, const Node *c, bool last) {
  const char *of_left = NULL, *of_right = NULL;
  int left = 0, right = 0;
  if (c->kind == N_BINARY && c->op == BIN_AND) {
    const bool first = solve_condition(l, c->a, last);
    return solve_condition(l, c->b, last) || first;
  }
  if (c->kind != N_BINARY || c->op != BIN_EQ) return false;
  find_unknown(l, c->a, &of_left, &left);
  find_unknown(l, c->b, &of_right, &right);
  if (left + right != 1) return false;
  return left ? solve_equation(l, c->a, c->b, of_left, last)
              : solve_equation(l, c->b, c->a, of_right, last);
}

// A requirement may determine a size that another one needs. `last`: an equation that determines
// none is an error.
static void solve_requirements(Lower *l, bool last) {
  const NodeList *items = &l->node->a->list;
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < items->count; i++)
      if (items->at[i]->kind == N_REQUIRE)
        again = solve_condition(l, items->at[i]->a, last) || again;
  }
}

// ---- the order of sizes: those that arrays determine come first

static void renumber(Instr *v, void *context) {
  const int *number = context;
  if (v->op == OP_SIZE) v->ival = number[v->ival];
}

static void order_sizes(Lower *l) {
  Kernel *k = l->k;
  int count = k->sizes.count, next = 0, *number = NEW_ARRAY(l->arena, int, count + 1);
  Size *sizes = NEW_ARRAY(l->arena, Size, count + 1);
  for (int derived = 0; derived < 2; derived++)
    for (int i = 0; i < count; i++) {
      if ((k->sizes.at[i].value != NULL) != derived) continue;
      sizes[next] = k->sizes.at[i];
      number[i] = next++;
    }
  for (int i = 0; i < count; i++) {
    k->sizes.at[i] = sizes[i];
    if (sizes[i].solved) k->sizes.at[i].solved = number[sizes[i].solved - 1] + 1;
    if (sizes[i].value) ir_walk(sizes[i].value, renumber, number);
  }
  for (int i = 0; i < k->requires.count; i++)
    ir_walk(k->requires.at[i].condition, renumber, number);
  for (Symbol *s = l->scope; s; s = s->next)
    if (s->kind == SYM_SIZE) s->index = number[s->index];
}

// A size given to a call of a program: a static, a size or an expression of them.
bool lower_size_argument(Lower *l, const Node *node, Dim *dim) {
  Symbol *s = node->kind == N_NAME ? find_symbol(l, node->name) : NULL;
  if (node->kind == N_NAME && (!s || (s->kind != SYM_STATIC && s->kind != SYM_SIZE))) {
    if (!s)
      unknown_name(l, node->name, node->span);
    else if (!s->poisoned)
      diag_error(l->diag, node->span, ERR_NOT_AN_INTEGER,
                 "a size may depend only on sizes and statics, not on the %s `%s`",
                 symbol_kind_text(s->kind), node->name);
    return false;
  }
  return lower_axis_extent(l, node, dim);
}

// ---- operands

static void zero_map(Lower *l, Ref *ref) {
  Frame frame;
  Instr *zeros[MAX_RANK];
  if (ref->array.rank == 0) return;  // there is only one block
  ref->index_map = enter_region(l, &frame);
  for (int i = 0; i < ref->array.rank; i++)
    zeros[i] = ir_const_int(l->k, l->frame->region, DT_I64, 0, ref->span);
  emit(l, OP_YIELD, no_result, ref->span, ref->array.rank, zeros);
  leave_region(l);
}

// As `block x: any;`.
void stay_in_hbm(Lower *l, Ref *ref) {
  ref->space = SPACE_ANY;
  ref->type = ref->array;
  for (int i = 0; i < ref->array.rank; i++) ref->type.dim[i] = part_dim(l, ref, i);
  ref->whole = true;
  ref->buffers = 1;
  ref->at = AT_BLOCK;
  ref->revisit = false;
  for (int i = 0; i < ref->array.rank; i++) {
    ref->block[i] = ref->type.dim[i];
    ref->squeeze[i] = false;
    ref->halo[i][0] = ref->halo[i][1] = -1;
  }
  zero_map(l, ref);
}

static bool lower_packed(Lower *l, const Node *dtype, const Type *type, const char *name) {
  if (!(dtype->flags & DTYPE_PACKED)) return false;
  const char *why = !is_part_of_byte(type->dtype)
                        ? arena_printf(l->arena,
                                       "elements of i4, u4, i2 and u2 share bytes, those of "
                                       "%s do not",
                                       dtype_info[type->dtype].name)
                    : type->rank == 0  ? "a single element has a byte of its own"
                    : l->k->mesh.count ? "arrays of a kernel with a mesh are not packed"
                                       : NULL;
  if (why) diag_error(l->diag, dtype->span, ERR_BAD_PACKED, "`%s`: %s", name, why);
  return !why;
}

// Declares an operand, from its parameter.
static void lower_param(Lower *l, const Node *param, RefRole role) {
  Ref *ref = NEW(l->arena, Ref);
  Span span = param->name_span;
  *ref = (Ref){.name = param->name,
               .id = l->k->refs.count,
               .role = role,
               .space = SPACE_VMEM,
               .span = span,
               .whole = true,
               .buffers = 1,
               .map_span = span};
  LIST_PUSH(l->arena, &l->k->refs, ref);
  declare(l, SYM_OPERAND, param->name, span)->ref = ref;
  Type array = {.dtype = DT_F32, .rank = param->list.count};
  l->place = IN_SHAPE;
  if (param->a && !lower_dtype(l, param->a, &array.dtype)) mark_broken(l, ref);
  if (array.dtype >= DT_COUNT || is_broken(l, ref)) array.dtype = DT_F32;
  if (array.rank > MAX_RANK) {
    diag_error(l->diag, param->span, ERR_RANK_MISMATCH,
               "`%s` has %d axes, more than the limit of %d", param->name, array.rank, MAX_RANK);
    array.rank = 0;
  }
  ref->array = ref->type = array;  // its axes follow once all sizes are known
  ref->packed = param->a && !is_broken(l, ref) && lower_packed(l, param->a, &array, param->name);
}

static void lower_param_shape(Lower *l, const Node *param, Ref *ref) {
  for (int i = 0; i < ref->array.rank; i++) {
    Dim dim = 1;
    if (!lower_axis_extent(l, param->list.at[i], &dim)) mark_broken(l, ref);
    ref->array.dim[i] = ref->type.dim[i] = ref->block[i] = dim;
    ref->halo[i][0] = ref->halo[i][1] = -1;
  }
  if (param->b && !is_broken(l, ref)) lower_shard(l, param->b, ref);
  zero_map(l, ref);
}

// ---- typing errors

static void count_names(const Node *node, const char *name, int *count) {
  if (!node) return;
  *count += node->kind == N_NAME && node->name == name;
  count_names(node->a, name, count);
  count_names(node->b, name, count);
  count_names(node->c, name, count);
  for (int i = 0; i < node->list.count; i++) count_names(node->list.at[i], name, count);
  for (int i = 0; i < node->list2.count; i++) count_names(node->list2.at[i], name, count);
}

static bool one_letter_apart(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b), same = 0, tail = 0;
  size_t shorter = n < m ? n : m, longer = n < m ? m : n;
  while (same < shorter && a[same] == b[same]) same++;
  while (tail < shorter - same && a[n - 1 - tail] == b[m - 1 - tail]) tail++;
  bool digit = (same < n && isdigit((unsigned char)a[same])) ||
               (same < m && isdigit((unsigned char)b[same]));
  return longer - same - tail <= 1 && !digit;  // numbered names differ on purpose
}

enum { MOST_NAMES_COMPARED = 256 };  // names of sizes: more are not written by hand

static void warn_of_similar_size(Lower *l, const Size *size) {
  int uses = 0;
  if (l->k->sizes.count > MOST_NAMES_COMPARED) return;
  count_names(l->node, size->name, &uses);
  if (uses != 1) return;
  for (Symbol *s = l->scope; s; s = s->next) {
    if ((s->kind != SYM_SIZE && s->kind != SYM_STATIC) || s->name == size->name) continue;
    size_t longest = strlen(s->name) > strlen(size->name) ? strlen(s->name) : strlen(size->name);
    bool near = longest >= 3 && one_letter_apart(size->name, s->name);
    if (!near && !same_but_case(size->name, s->name)) continue;
    diag_warning(l->diag, size->span, ERR_SIMILAR_SIZE,
                 "the size `%s` is used once, and its name is similar to that of the %s `%s`",
                 size->name, symbol_kind_text(s->kind), s->name);
    diag_note(l->diag, s->span, "`%s` is declared here", s->name);
    return;
  }
}

// The operands in order: prefetched ones, inputs, outputs.
typedef LIST(const Node *) Params;

static void add_params(Lower *l, const NodeList *list, Params *params) {
  for (int i = 0; i < list->count; i++) LIST_PUSH(l->arena, params, list->at[i]);
}

static void solve_axes(Lower *l, const Params *params, int count, bool last) {
  for (int i = 0; i < count; i++)
    for (int k = 0; k < params->at[i]->list.count; k++)
      solve_axis(l, params->at[i]->list.at[k], last);
}

// A size that follows from inputs does not need outputs, which no caller has to know.
static void declare_sizes(Lower *l, const Params *params, int inputs) {
  for (int i = 0; i < params->count; i++) {
    if (i == inputs) {
      solve_axes(l, params, inputs, false);
      solve_requirements(l, false);
    }
    for (int k = 0; k < params->at[i]->list.count; k++) declare_size(l, params->at[i]->list.at[k]);
  }
  solve_axes(l, params, params->count, true);
}

static void mark_prefetched(Lower *l, Ref *ref, const Node *param) {
  ref->prefetch = true;
  ref->space = SPACE_SMEM;
  ref->buffers = 1;
  if (ref->packed) {
    diag_error(l->diag, param->a->span, ERR_BAD_PACKED,
               "`%s`: prefetched operands cannot be packed", ref->name);
    ref->packed = false;
  }
  if (is_integer(ref->array.dtype) || is_broken(l, ref)) return;
  diag_error(l->diag, param->a->span, ERR_BAD_PREFETCH,
             "`%s`: prefetched operands must be integers, not %s", ref->name,
             dtype_info[ref->array.dtype].name);
  mark_broken(l, ref);
}

// Declares the operands and sizes of a kernel.
void lower_signature(Lower *l) {
  Params params = {0};
  const NodeList *items = &l->node->a->list;
  for (int i = 0; i < items->count; i++)
    if (items->at[i]->kind == N_PREFETCH) add_params(l, &items->at[i]->list, &params);
  int prefetched = params.count;
  add_params(l, &l->node->list, &params);
  int inputs = params.count;
  add_params(l, &l->node->list2, &params);
  declare_sizes(l, &params, inputs);
  for (int i = 0; i < params.count; i++) {
    lower_param(l, params.at[i], i < inputs ? REF_INPUT : REF_OUTPUT);
    if (i < prefetched) mark_prefetched(l, l->k->refs.at[i], params.at[i]);
  }
  solve_requirements(l, true);
  order_sizes(l);
  l->k->inputs = inputs;
  l->k->outputs = params.count - inputs;
  for (int i = 0; i < params.count; i++) lower_param_shape(l, params.at[i], l->k->refs.at[i]);
  for (int i = 0; i < l->k->sizes.count; i++)
    if (!l->k->sizes.at[i].value && !l->k->sizes.at[i].solved)
      warn_of_similar_size(l, &l->k->sizes.at[i]);
  l->root = l->scope;
}
