// Linear forms of sizes: what `require` and derived sizes say of the extents of slices and shapes.
#include "codegen/lower/internal.h"

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
    if (!mul_i64(times, b->factor[i], &product) || !add_i64(a->factor[i], product, &out->factor[i]))
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

// A derived size is what it is derived from, where that is linear.
static Linear *size_form(Lower *l, int index) {
  const Region *value = l->k->sizes.at[index].value;
  Linear *derived = value ? linear_form(l, ir_yielded(value, 0)) : NULL;
  if (derived) return derived;
  Linear *own = constant_form(l, 0);
  own->factor[index] = 1;
  return own;
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
    default:
      return NULL;
  }
}

// ---- equations that hold in every call

typedef struct {
  Linear *form;  // is 0
  int pivot;     // a size whose factor in it is 1
} Equation;

typedef LIST(Equation) Equations;

static Linear *reduce(Lower *l, const Equations *known, Linear *form) {
  for (int i = 0; form && i < known->count; i++)
    form = add_form(l, form, -form->factor[known->at[i].pivot], known->at[i].form);
  return form;
}

static void add_equation(Lower *l, Equations *known, Linear *form) {
  form = reduce(l, known, form);
  for (int i = form ? size_count(l) - 1 : -1; i >= 0; i--)
    if (form->factor[i] == 1 || form->factor[i] == -1) {
      form = add_form(l, constant_form(l, 0), form->factor[i], form);
      if (form) LIST_PUSH(l->arena, known, ((Equation){form, i}));
      return;
    }
}

static void add_condition(Lower *l, Equations *known, const Instr *c) {
  if (c->op == OP_AND) {
    add_condition(l, known, c->args[0]);
    add_condition(l, known, c->args[1]);
  } else if (c->op == OP_EQ) {
    add_equation(l, known, add_form(l, linear_form(l, c->args[0]), -1, linear_form(l, c->args[1])));
  }
}

static Equations equations(Lower *l) {
  Equations known = {0};
  for (int i = 0; i < l->k->requires.count; i++)
    add_condition(l, &known, ir_yielded(l->k->requires.at[i].condition, 0));
  return known;
}

// ---- questions

// Sizes are not negative, so a sum of them without negative factors is not either.
static bool never_negative(const Lower *l, const Linear *form) {
  if (!form || form->constant < 0) return false;
  for (int i = 0; i < size_count(l); i++)
    if (form->factor[i] < 0) return false;
  return true;
}

static bool same_form(const Lower *l, const Linear *a, const Linear *b) {
  return a && b && a->constant == b->constant &&
         memcmp(a->factor, b->factor, sizeof *a->factor * (size_t)size_count(l)) == 0;
}

// The axis that has as many elements as a reduced form says, if there is one.
static bool dim_of_form(Lower *l, const Equations *known, const Linear *form, Dim *out) {
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

bool linear_slice(Lower *l, Linear *from, Linear *to, Dim dim, Dim *length, bool *inside) {
  Equations known = equations(l);
  Linear *end = dim_is_const(dim) ? constant_form(l, dim) : size_form(l, dim_size_index(dim));
  if (!to) to = end;
  *inside = never_negative(l, reduce(l, &known, from)) &&
            never_negative(l, reduce(l, &known, add_form(l, end, -1, to)));
  return dim_of_form(l, &known, reduce(l, &known, add_form(l, to, -1, from)), length);
}

bool solve_linear(Lower *l, const Instr *v, int size, int64_t *factor, int64_t *constant) {
  Linear *form = linear_form(l, v);
  if (!form || form->factor[size] < 1) return false;
  *factor = form->factor[size];
  *constant = form->constant;
  form->factor[size] = 0;
  return is_constant_form(l, form);
}
