// Linear forms of sizes: what `require` and derived sizes say about the extents of slices and
// shapes.
#include "codegen/lower/internal.h"

#include <math.h>
#include <string.h>

// constant + the sum of factor[i] times size i.
struct Linear {
  int64_t constant, *factor;
};

static int size_count(const Lower *l) { return l->k->sizes.count; }

static Linear *constant_form(Lower *l, int64_t constant) {
  Linear *out = NEW(l->arena, Linear);
  *out = (Linear){constant, NEW_ARRAY(l->arena, int64_t, size_count(l) + 1)};
  return out;
}

// a + times b; NULL where a number does not fit 64 bits, or a or b is NULL.
static Linear *add_form(Lower *l, const Linear *a, int64_t times, const Linear *b) {
  if (!a || !b) return NULL;
  Linear *out = constant_form(l, 0);
  int64_t product;
  if (!mul_i64(times, b->constant, &product) || !add_i64(a->constant, product, &out->constant))
    return NULL;
  for (int i = 0; i < size_count(l); i++)
    if (!mul_i64(times, b->factor[i], &product) ||
        !add_i64(a->factor[i], product, &out->factor[i]) || out->factor[i] == INT64_MIN)
      return NULL;
  return out;
}

static bool is_constant_form(const Lower *l, const Linear *a) {
  for (int i = 0; i < size_count(l); i++)
    if (a->factor[i] != 0) return false;
  return true;
}

static Linear *product_form(Lower *l, const Linear *a, const Linear *b) {
  if (!a || !b) return NULL;
  if (is_constant_form(l, a)) return add_form(l, constant_form(l, 0), a->constant, b);
  return is_constant_form(l, b) ? add_form(l, constant_form(l, 0), b->constant, a) : NULL;
}

static bool same_form(const Lower *l, const Linear *a, const Linear *b) {
  return a && b && a->constant == b->constant &&
         memcmp(a->factor, b->factor, sizeof *a->factor * (size_t)size_count(l)) == 0;
}

static Linear *own_form(Lower *l, int index) {
  Linear *own = constant_form(l, 0);
  own->factor[index] = 1;
  return own;
}

// With more sizes or inequalities than these, less is derived.
enum { MOST_INEQUALITIES = 256 };

// The dividend of a quotient by a constant, without quotients in it.
static Linear *dividend_form(Lower *l, const Instr *v) {
  const int depth = l->quotients++;
  Linear *form = depth == 0 ? linear_form(l, v->args[0]) : NULL;
  l->quotients--;
  return form;
}

// A quotient is identified by the first size that equals it, in the same or other words.
static Linear *quotient_form(Lower *l, const Instr *v) {
  if (v->args[1]->op != OP_CONST || size_count(l) > MOST_INEQUALITIES) return NULL;
  const Linear *dividend = dividend_form(l, v);
  for (int i = 0; dividend && i < size_count(l); i++) {
    const Region *value = l->k->sizes.at[i].value;
    const Instr *other = value ? ir_yielded(value, 0) : NULL;
    if (other && other->op == v->op && ir_is_const(other->args[1], v->args[1]->ival) &&
        same_form(l, dividend, dividend_form(l, other)))
      return own_form(l, i);
  }
  return NULL;
}

// A derived size is replaced by its expression, if that is linear.
static Linear *size_form(Lower *l, int index) {
  const Region *value = l->k->sizes.at[index].value;
  Linear *derived = value ? linear_form(l, ir_yielded(value, 0)) : NULL;
  return derived ? derived : own_form(l, index);
}

Linear *linear_form(Lower *l, const Instr *v) {
  const Linear *zero = constant_form(l, 0);
  switch (v->op) {
    case OP_CONST:
      return constant_form(l, v->ival);
    case OP_SIZE:
      return size_form(l, (int)v->ival);
    case OP_NEG:
      return add_form(l, zero, -1, linear_form(l, v->args[0]));
    case OP_ADD:
    case OP_SUB:
      return add_form(l, linear_form(l, v->args[0]), v->op == OP_ADD ? 1 : -1,
                      linear_form(l, v->args[1]));
    case OP_MUL:
      return product_form(l, linear_form(l, v->args[0]), linear_form(l, v->args[1]));
    case OP_DIV:
    case OP_FLOORDIV:
      return quotient_form(l, v);
    default:
      return NULL;
  }
}

// ---- facts that hold in every call

typedef struct {
  Linear *form;  // is 0
  int pivot;     // a size whose factor in it is 1
} Equation;

typedef LIST(Linear *) Forms;

typedef struct {
  LIST(Equation) equal;
  Forms positive;  // are at least 0
} Relations;

static Linear *reduce(Lower *l, const Relations *known, Linear *form) {
  for (int i = 0; form && i < known->equal.count; i++)
    form = add_form(l, form, -form->factor[known->equal.at[i].pivot], known->equal.at[i].form);
  return form;
}

static void add_positive(Lower *l, Relations *known, Linear *form) {
  if (form) LIST_PUSH(l->arena, &known->positive, form);
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Divides a form by the common divisor of its factors. Sizes are integers, so the constant of an
// inequality is rounded down; false if rounding changed it.
static bool shorten(const Lower *l, Linear *form) {
  int64_t divisor = 0;
  for (int i = 0; i < size_count(l); i++)
    divisor = common_divisor(divisor, form->factor[i] < 0 ? -form->factor[i] : form->factor[i]);
  if (divisor <= 1) return true;
  int64_t rest = form->constant % divisor;
  for (int i = 0; i < size_count(l); i++) form->factor[i] /= divisor;
  form->constant = form->constant / divisor - (rest < 0);
  return rest == 0;
}

static void add_equation(Lower *l, Relations *known, Linear *form) {
  add_positive(l, known, form);
  add_positive(l, known, add_form(l, constant_form(l, 0), -1, form));
  form = reduce(l, known, form);
  if (form && !shorten(l, form)) return;  // it holds in no call
  for (int i = form ? size_count(l) - 1 : -1; i >= 0; i--)
    if (form->factor[i] == 1 || form->factor[i] == -1) {
      form = add_form(l, constant_form(l, 0), form->factor[i], form);
      if (form) LIST_PUSH(l->arena, &known->equal, ((Equation){form, i}));
      return;
    }
}

// A side of a comparison; NULL where it may not fit 64 bits, so that the comparison says less.
static Linear *side_of(Lower *l, const Instr *v) {
  Linear *form = linear_form(l, v);
  double most = form ? fabs((double)form->constant) : 0;
  for (int i = 0; form && i < size_count(l); i++)
    most += fabs((double)form->factor[i]) * (double)INT32_MAX;
  return most < 0x1p62 ? form : NULL;
}

// Is `part` x / n, or rounded up, for n elements that divide x?
static bool is_exact_part(Lower *l, const Instr *part, const Linear *x, int64_t n) {
  bool divides = part->op == OP_DIV || part->op == OP_FLOORDIV;
  if (!divides || !ir_is_const(part->args[1], n)) return false;
  const Linear *over = add_form(l, linear_form(l, part->args[0]), -1, x);
  return over && is_constant_form(l, over) && over->constant >= 0 && over->constant < n;
}

// `x % n == 0`: a size that is x / n is so exactly.
static void add_exact_parts(Lower *l, Relations *known, const Instr *rest) {
  const Linear *x = linear_form(l, rest->args[0]);
  int64_t n = rest->args[1]->ival;
  for (int i = 0; x && i < size_count(l); i++) {
    const Region *value = l->k->sizes.at[i].value;
    if (value && is_exact_part(l, ir_yielded(value, 0), x, n))
      add_equation(l, known, add_form(l, x, -n, size_form(l, i)));
  }
}

static void add_condition(Lower *l, Relations *known, const Instr *c) {
  if (c->op == OP_AND) {
    add_condition(l, known, c->args[0]);
    add_condition(l, known, c->args[1]);
    return;
  }
  bool order = c->op == OP_LT || c->op == OP_LE || c->op == OP_GT || c->op == OP_GE;
  if (!order && c->op != OP_EQ) return;
  const Instr *rest = c->args[0];
  bool is_rest = (rest->op == OP_REM || rest->op == OP_MOD) && rest->args[1]->op == OP_CONST;
  if (c->op == OP_EQ && is_rest && ir_is_const(c->args[1], 0)) add_exact_parts(l, known, rest);
  bool greater = c->op == OP_GT || c->op == OP_GE, strict = c->op == OP_LT || c->op == OP_GT;
  Linear *form = add_form(l, side_of(l, c->args[!greater]), -1, side_of(l, c->args[greater]));
  if (c->op == OP_EQ)
    add_equation(l, known, form);
  else
    add_positive(l, known, add_form(l, form, 1, constant_form(l, strict ? -1 : 0)));
}

static bool has_no_negative(const Lower *l, const Linear *form) {
  bool good = form->constant >= 0;
  for (int i = 0; i < size_count(l); i++) good = good && form->factor[i] >= 0;
  return good;
}

// q = x / n of x >= 0: n q is at most x and at least x - n + 1.
static void add_quotients(Lower *l, Relations *known) {
  for (int i = 0; i < size_count(l) && size_count(l) <= MOST_INEQUALITIES; i++) {
    const Region *value = l->k->sizes.at[i].value;
    const Instr *q = value ? ir_yielded(value, 0) : NULL;
    bool divides = q && (q->op == OP_DIV || q->op == OP_FLOORDIV);
    if (!divides || q->args[1]->op != OP_CONST || q->args[1]->ival < 1) continue;
    const int64_t n = q->args[1]->ival;
    const Linear *x = dividend_form(l, q);
    if (!x || !has_no_negative(l, x)) continue;
    Linear *rest = add_form(l, x, -n, size_form(l, i));
    add_positive(l, known, rest);
    add_positive(l, known, add_form(l, constant_form(l, n - 1), -1, rest));
  }
}

static Relations what_is_known(Lower *l) {
  Relations known = {0};
  add_quotients(l, &known);
  for (int i = 0; i < l->k->requires.count; i++)
    add_condition(l, &known, ir_yielded(l->k->requires.at[i].condition, 0));
  return known;
}

// ---- inequalities: Fourier-Motzkin elimination

// The inequality without `size` that follows from two in which its factors have opposite signs.
static Linear *without_size(Lower *l, const Linear *up, const Linear *down, int size) {
  Linear *sum = add_form(l, constant_form(l, 0), -down->factor[size], up);
  sum = add_form(l, sum, up->factor[size], down);
  if (sum) shorten(l, sum);
  return sum;
}

static Forms eliminate(Lower *l, const Forms *from, int size) {
  Forms to = {0};
  for (int i = 0; i < from->count; i++) {
    const Linear *a = from->at[i];
    if (a->factor[size] == 0) LIST_PUSH(l->arena, &to, from->at[i]);
    for (int k = 0; k < from->count && a->factor[size] > 0; k++) {
      const Linear *b = from->at[k];
      Linear *sum = b->factor[size] < 0 ? without_size(l, a, b, size) : NULL;
      if (sum) LIST_PUSH(l->arena, &to, sum);
      if (to.count > MOST_INEQUALITIES) return (Forms){0};
    }
  }
  return to;
}

// The facts, and for each size that it is at least 0.
static Forms inequalities(Lower *l, const Relations *known) {
  Forms all = {0};
  for (int i = 0; i < known->positive.count; i++) LIST_PUSH(l->arena, &all, known->positive.at[i]);
  for (int i = 0; i < size_count(l); i++) {
    Linear *size = constant_form(l, 0);
    size->factor[i] = 1;
    LIST_PUSH(l->arena, &all, size);
  }
  return all;
}

// Is a form at least 0 in every call? It is if no values satisfy both form <= -1 and the facts.
static bool never_negative(Lower *l, const Relations *known, const Linear *form) {
  Linear *contrary = add_form(l, constant_form(l, -1), -1, form);
  if (form && has_no_negative(l, form)) return true;
  if (!contrary || size_count(l) + known->positive.count > MOST_INEQUALITIES) return false;
  Forms all = inequalities(l, known);
  LIST_PUSH(l->arena, &all, contrary);
  for (int i = 0; i < size_count(l); i++) all = eliminate(l, &all, i);
  for (int i = 0; i < all.count; i++)
    if (all.at[i]->constant < 0) return true;
  return false;
}

// ---- questions

// The axis that has as many elements as a reduced form says, if there is one.
static bool dim_of_form(Lower *l, const Relations *known, const Linear *form, Dim *out) {
  if (!form) return false;
  *out = form->constant;
  if (is_constant_form(l, form)) return form->constant >= 0;
  for (int i = 0; i < size_count(l); i++)
    if (same_form(l, form, reduce(l, known, size_form(l, i)))) {
      *out = dim_of_size(i);
      return true;
    }
  return false;
}

static Linear *form_of_dim(Lower *l, Dim dim) {
  return dim_is_const(dim) ? constant_form(l, dim) : size_form(l, dim_size_index(dim));
}

// ---- forms as instructions and text

static Instr *value_of_form(Lower *l, const Linear *form, Span span) {
  Type index = type_scalar(DT_I64);
  Instr *sum = index_const(l, form->constant, span);
  for (int i = 0; i < size_count(l); i++) {
    if (form->factor[i] == 0) continue;
    Instr *size = dim_value(l, dim_of_size(i), span);
    Instr *term = emit2(l, OP_MUL, index, span, size, index_const(l, form->factor[i], span));
    sum = emit2(l, OP_ADD, index, span, sum, term);
  }
  return sum;
}

// Does a size's expression need parentheses after a factor, or next to + and -?
static bool needs_parentheses(const char *of, bool multiplied) {
  int depth = 0;
  for (; of && *of; of++) {
    depth += (*of == '(') - (*of == ')');
    if (depth == 0 && strchr(multiplied ? "/%+-<>&|^" : "<>&|^", *of)) return true;
  }
  return false;
}

static void put_term(Buf *text, int64_t factor, const char *of) {
  const char *sign = text->length == 0 ? (factor < 0 ? "-" : "") : factor < 0 ? " - " : " + ";
  unsigned long long size =
      factor < 0 ? 0ULL - (unsigned long long)factor : (unsigned long long)factor;
  if (factor == 0) return;
  buf_puts(text, sign);
  if (size != 1 || !of) buf_printf(text, "%llu%s", size, of ? " * " : "");
  if (of) buf_printf(text, needs_parentheses(of, size != 1) ? "(%s)" : "%s", of);
}

static const char *form_text(Lower *l, const Linear *form) {
  Buf text = {0};
  for (int pass = 1; pass >= -1; pass -= 2)  // what is added first
    for (int i = 0; i < size_count(l); i++)
      if ((form->factor[i] > 0) == (pass > 0))
        put_term(&text, form->factor[i], l->k->sizes.at[i].name);
  put_term(&text, form->constant, NULL);
  return arena_take(l->arena, &text);
}

// Calls for which it is below 0 are refused.
static void require_form(Lower *l, const Linear *form, Span span, const char *message) {
  Frame frame;
  Region *region = enter_region(l, &frame);
  Instr *zero = index_const(l, 0, span), *value = value_of_form(l, form, span),
        *at_least = emit2(l, OP_GE, type_scalar(DT_BOOL), span, value, zero);
  yield_from(l, at_least, span);
  leave_region(l);
  LIST_PUSH(l->arena, &l->k->requires, ((Requirement){span, region, message}));
}

static void require_length(Lower *l, const Linear *form, const char *name, Span span) {
  Relations known = what_is_known(l);
  if (never_negative(l, &known, form)) return;
  require_form(l, form, span,
               l->place == IN_REFERENCE
                   ? "an axis of the reference has no negative length"
                   : arena_printf(l->arena, "an axis of %s elements has no negative length", name));
}

static Dim size_of_form(Lower *l, const Linear *form, Span span) {
  Frame frame;
  const char *name = intern(form_text(l, form));
  int known = size_index(l, name);
  if (known >= 0) return dim_of_size(known);
  require_length(l, form, name, span);
  Region *region = enter_region(l, &frame);
  yield_from(l, value_of_form(l, form, span), span);
  leave_region(l);
  return dim_of_size(add_derived_size(l, name, span, region));
}

static int64_t divide_up(int64_t a, int64_t step) { return a / step + (a % step > 0); }

// The length of every step-th of `count` elements, where that is linear.
static Linear *stepped_form(Lower *l, const Linear *count, int64_t step) {
  Linear *out = constant_form(l, divide_up(count->constant, step));
  for (int i = 0; i < size_count(l); i++) {
    if (count->factor[i] % step != 0) return NULL;
    out->factor[i] = count->factor[i] / step;
  }
  return out;
}

static Dim stepped_size(Lower *l, const Linear *count, int64_t step, Span span) {
  Frame frame;
  Type index = type_scalar(DT_I64);
  Linear *last = add_form(l, count, 1, constant_form(l, step - 1));
  const char *name =
      intern(arena_printf(l->arena, "cdiv(%s, %lld)", form_text(l, count), (long long)step));
  int same = size_index(l, name);
  if (same >= 0) return dim_of_size(same);
  if (last) require_length(l, last, name, span);
  Region *region = enter_region(l, &frame);
  Instr *value = last ? value_of_form(l, last, span) : index_const(l, 0, span);
  Instr *quotient = emit2(l, OP_FLOORDIV, index, span, value, index_const(l, step, span));
  yield_from(l, quotient, span);
  leave_region(l);
  const Linear *known = quotient_form(l, quotient);
  for (int i = 0; known && i < size_count(l); i++)
    if (known->factor[i]) return dim_of_size(i);
  return dim_of_size(add_derived_size(l, name, span, region));
}

bool linear_slice(Lower *l, Linear *from, Linear *to, Dim dim, int64_t step, Dim *length,
                  bool *inside, Span span) {
  Relations known = what_is_known(l);
  Linear *end = form_of_dim(l, dim);
  if (!to) to = end;
  *inside = never_negative(l, &known, from) && never_negative(l, &known, add_form(l, end, -1, to));
  Linear *count = add_form(l, to, -1, from), *least = reduce(l, &known, count);
  Linear *stepped = least ? stepped_form(l, least, step) : NULL;
  if (dim_of_form(l, &known, reduce(l, &known, stepped), length)) return true;
  if (!count || !*inside || (step == 1 && !never_negative(l, &known, count))) return false;
  *length = stepped ? size_of_form(l, stepped, span) : stepped_size(l, count, step, span);
  return true;
}

bool sum_dim(Lower *l, const Instr *v, Span span, Dim *out) {
  Linear *form = linear_form(l, v);
  if (!form) return false;
  Relations known = what_is_known(l);
  if (!dim_of_form(l, &known, reduce(l, &known, form), out)) *out = size_of_form(l, form, span);
  return true;
}

bool slice_at_call(Lower *l, Linear *from, Linear *to, Dim dim, Dim *length, Span span) {
  Relations known = what_is_known(l);
  Linear *end = form_of_dim(l, dim);
  if (!to) to = end;
  Linear *count = add_form(l, to, -1, from), *rest = add_form(l, end, -1, to);
  if (!count || !rest) return false;
  if (!never_negative(l, &known, from))
    require_form(l, from, span, "a slice of the reference starts before its axis");
  if (!never_negative(l, &known, rest))
    require_form(l, rest, span, "a slice of the reference ends past its axis");
  if (dim_of_form(l, &known, reduce(l, &known, count), length)) return true;
  *length = size_of_form(l, count, span);
  return true;
}

Dim joined_dim(Lower *l, Dim a, Dim b, Span span) {
  Relations known = what_is_known(l);
  Dim joined;
  Linear *sum = add_form(l, form_of_dim(l, a), 1, form_of_dim(l, b));
  if (!sum) return INT64_MAX;
  return dim_of_form(l, &known, reduce(l, &known, sum), &joined) ? joined
                                                                 : size_of_form(l, sum, span);
}

bool solve_linear(Lower *l, const Instr *v, int size, int64_t *factor, int64_t *constant) {
  Linear *form = linear_form(l, v);
  if (!form || form->factor[size] < 1) return false;
  *factor = form->factor[size];
  *constant = form->constant;
  form->factor[size] = 0;
  return is_constant_form(l, form);
}

Instr *linear_rest(Lower *l, const Instr *v, int size, int64_t *factor, Span span) {
  Linear *form = linear_form(l, v);
  if (!form || form->factor[size] < 1) return NULL;
  *factor = form->factor[size];
  form->factor[size] = 0;
  return value_of_form(l, form, span);
}

Dim shifted_dim(Lower *l, Dim dim, int64_t by, Span span) {
  Dim known_dim;
  if (dim_is_const(dim) || by == 0) return dim_is_const(dim) ? dim + by : dim;
  Relations known = what_is_known(l);
  Linear *form = add_form(l, size_form(l, dim_size_index(dim)), by, constant_form(l, 1));
  if (dim_of_form(l, &known, reduce(l, &known, form), &known_dim)) return known_dim;
  return size_of_form(l, form, span);
}

// ---- products of extents

// Removes from both lists the sizes that they have in common.
static void cancel_sizes(Dim *a, int *a_count, Dim *b, int *b_count) {
  for (int i = 0; i < *a_count;) {
    int k = 0;
    while (k < *b_count && b[k] != a[i]) k++;
    if (k == *b_count) {
      i++;
      continue;
    }
    a[i] = a[--*a_count];
    b[k] = b[--*b_count];
  }
}

// The sizes of a shape, and the product of its constants.
static bool split_extents(const Type *type, Dim *sizes, int *count, int64_t *factor) {
  *count = 0;
  *factor = 1;
  for (int i = 0; i < type->rank; i++) {
    if (!dim_is_const(type->dim[i])) sizes[(*count)++] = type->dim[i];
    if (dim_is_const(type->dim[i]) && !mul_i64(*factor, type->dim[i], factor)) return false;
  }
  return true;
}

bool same_elements(Lower *l, const Type *a, const Type *b) {
  Dim x[MAX_RANK], y[MAX_RANK];
  int x_count, y_count;
  int64_t x_factor, y_factor;
  if (ir_same_elements(l->k, a, b)) return true;
  if (!split_extents(a, x, &x_count, &x_factor) || !split_extents(b, y, &y_count, &y_factor))
    return false;
  cancel_sizes(x, &x_count, y, &y_count);
  if (x_count > 1 || y_count > 1) return false;
  const Linear *zero = constant_form(l, 0);
  Linear *left = x_count ? add_form(l, zero, x_factor, form_of_dim(l, x[0]))
                         : constant_form(l, x_factor),
         *right = y_count ? add_form(l, zero, y_factor, form_of_dim(l, y[0]))
                          : constant_form(l, y_factor);
  Relations known = what_is_known(l);
  Linear *rest = reduce(l, &known, add_form(l, left, -1, right));
  return rest && rest->constant == 0 && is_constant_form(l, rest);
}

Instr *product_value(Lower *l, const Dim *dims, int count, Span span) {
  Instr *product = NULL;
  for (int i = 0; i < count; i++) {
    if (dims[i] == 1) continue;
    Instr *size = dim_value(l, dims[i], span);
    product = product ? index_op(l, OP_MUL, product, size, span) : size;
  }
  return product ? product : index_const(l, 1, span);
}

// The value of a size that is a product.
static Region *product_region(Lower *l, const Dim *dims, int count, Span span) {
  Frame frame;
  Region *region = enter_region(l, &frame);
  yield_from(l, product_value(l, dims, count, span), span);
  leave_region(l);
  return region;
}

bool product_dim(Lower *l, const Dim *dims, int count, Span span, Dim *product) {
  int64_t constant = 1;
  int sizes = 0;
  const char *name = "";
  for (int i = 0; i < count; i++) {
    if (dim_is_const(dims[i]) && !mul_i64(constant, dims[i], &constant)) return false;
    if (dim_is_const(dims[i])) continue;
    const char *text = dim_text(l, *product = dims[i]);
    name = arena_printf(l->arena, strchr(text, ' ') ? "%s%s(%s)" : "%s%s%s", name,
                        sizes++ ? " * " : "", text);
  }
  if (sizes == 1 && constant == 1) return true;
  if (sizes == 0 || constant == 0) {
    *product = constant;
    return true;
  }
  if (constant != 1) name = arena_printf(l->arena, "%s * %lld", name, (long long)constant);
  name = intern(name);
  int known = size_index(l, name);
  *product = dim_of_size(
      known >= 0 ? known : add_derived_size(l, name, span, product_region(l, dims, count, span)));
  return true;
}
