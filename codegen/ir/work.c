// The number of operations of a call of the reference (docs/cli.md, `gflops`).
//
// Two for each multiply-add of its einsums; terms that an affine mask removes are not counted.
// Without an einsum, one for each elementwise or reduction operation on an element.
#include "codegen/ir/axes.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/flow.h"
#include "codegen/ir/work.h"

#include <math.h>
#include <string.h>

static double extent_of(const int64_t *sizes, Dim dim) {
  return (double)(dim_is_const(dim) ? dim : sizes[dim_size_index(dim)]);
}

static double elements_of(const int64_t *sizes, const Type *type) {
  double count = 1;
  for (int i = 0; i < type->rank; i++) count *= extent_of(sizes, type->dim[i]);
  return count;
}

// ---- masks: conjunctions of affine inequalities, sum of coefficient[k] * index[k] + constant >= 0

typedef struct {
  double coefficient[MAX_RANK], constant;
} Inequality;
enum { MOST_TERMS = 16, DEEPEST_NUMBER = 10 };
typedef struct {
  int count;
  Inequality terms[MOST_TERMS];
} Mask;

// The value of a number, for sizes.
static bool number_of(const Instr *v, const int64_t *sizes, int depth, double *value) {
  double a, b = 0;
  if (depth == 0 || is_float(v->type.dtype)) return false;
  switch (v->op) {
    case OP_CONST:
      *value = (double)v->ival;
      return true;
    case OP_SIZE:
      *value = (double)sizes[v->ival];
      return true;
    case OP_ARG:  // of an enclosing loop: its middle iteration
      *value = *(const double *)v->note;
      return true;
    case OP_CAST:
      return number_of(v->args[0], sizes, depth - 1, value);
    case OP_NEG:
    case OP_ADD:
    case OP_SUB:
      if (!number_of(v->args[0], sizes, depth - 1, &a) ||
          (v->nargs > 1 && !number_of(v->args[1], sizes, depth - 1, &b)))
        return false;
      *value = v->op == OP_NEG ? -a : v->op == OP_ADD ? a + b : a - b;
      return true;
    default:
      return false;
  }
}

// a >= 0
static bool inequality_of(const Affine *a, const int64_t *sizes, Inequality *t) {
  for (int i = 0; i < MAX_RANK; i++) t->coefficient[i] = (double)a->coefficient[i];
  t->constant = 0;
  for (int i = 0; i < a->terms; i++) {
    double value;
    if (!number_of(a->term[i].of, sizes, DEEPEST_NUMBER, &value)) return false;
    t->constant += (double)a->term[i].factor * value;
  }
  return true;
}

// a OP b as an inequality on integers; false if it is not affine.
static bool add_comparison(const Instr *v, const int64_t *sizes, const int *map, Mask *mask) {
  Affine a, b;
  bool less = v->op == OP_LT || v->op == OP_LE, strict = v->op == OP_LT || v->op == OP_GT;
  if (v->op != OP_LT && v->op != OP_LE && v->op != OP_GT && v->op != OP_GE) return false;
  if (mask->count == MOST_TERMS || !affine_of(v->args[less], map, &a) ||
      !affine_of(v->args[!less], map, &b) || !affine_subtract(&a, &b))
    return false;
  Inequality *t = &mask->terms[mask->count];
  if (!inequality_of(&a, sizes, t)) return false;
  t->constant -= strict;
  mask->count++;
  return true;
}

// Collects the inequalities that v implies; false if some part is not affine.
static bool collect_mask(const Instr *v, const int64_t *sizes, const int *map, Mask *mask) {
  int inner[MAX_RANK];
  switch (v->op) {
    case OP_CONST:
      return v->ival != 0;
    case OP_AND:
      return collect_mask(v->args[0], sizes, map, mask) &&
             collect_mask(v->args[1], sizes, map, mask);
    case OP_OR:  // a mask switched off by a static: `!CAUSAL || ..`
      if (v->args[0]->op == OP_CONST)
        return v->args[0]->ival ? true : collect_mask(v->args[1], sizes, map, mask);
      return false;
    case OP_BROADCAST:
      return ir_operand_axes(v, map, inner) && collect_mask(v->args[0], sizes, inner, mask);
    default:
      return add_comparison(v, sizes, map, mask);
  }
}

// The number of indices in [0, n) along `axis` that satisfy all terms; the other indices contribute
// `constant`.
static double count_line(const Mask *mask, const double *constants, int axis, double n) {
  double low = 0, high = n - 1;
  for (int t = 0; t < mask->count; t++) {
    double c = mask->terms[t].coefficient[axis];
    if (c == 0 && constants[t] < 0) return 0;
    if (c > 0) low = fmax(low, ceil(-constants[t] / c));
    if (c < 0) high = fmin(high, floor(constants[t] / -c));
  }
  return high >= low ? high - low + 1 : 0;
}

// The share of elements for which the mask is true: counted in closed form along the last axis that
// it depends on, and line by line along the one before. 1 for other masks.
static double kept_share(const Mask *mask, const double *extents, int rank) {
  int axes[MAX_RANK], count = 0;
  double constants[MOST_TERMS], kept = 0;
  for (int i = 0; i < rank; i++)
    for (int t = 0; t < mask->count; t++)
      if (mask->terms[t].coefficient[i] != 0) {
        axes[count++] = i;
        break;
      }
  if (count == 0 || count > 2 || (count == 2 && extents[axes[0]] > 1e8)) return 1;
  double lines = count == 2 ? extents[axes[0]] : 1, length = extents[axes[count - 1]];
  for (double line = 0; line < lines; line++) {
    for (int t = 0; t < mask->count; t++)
      constants[t] =
          mask->terms[t].constant + (count == 2 ? line * mask->terms[t].coefficient[axes[0]] : 0);
    kept += count_line(mask, constants, axes[count - 1], length);
  }
  return lines * length > 0 ? kept / (lines * length) : 1;
}

static bool is_nothing(const Instr *v) {
  while (v->op == OP_BROADCAST || v->op == OP_CAST) v = v->args[0];
  return v->op == OP_CONST && is_float(v->type.dtype) && (v->fval == 0 || v->fval <= -1e30);
}

static double select_share(const Instr *select, const int64_t *sizes) {
  Mask mask = {0};
  int map[MAX_RANK];
  double extents[MAX_RANK];
  for (int i = 0; i < select->type.rank; i++) {
    map[i] = i;
    extents[i] = extent_of(sizes, select->type.dim[i]);
  }
  if (!is_nothing(select->args[2]) || !collect_mask(select->args[0], sizes, map, &mask)) return 1;
  return kept_share(&mask, extents, select->type.rank);
}

// The share of an operand's elements that no mask made zero: looks through operations that keep
// zeros (and exp, which makes -inf zero).
static double operand_share(const Instr *v, const int64_t *sizes, int depth) {
  if (depth > 32) return 1;
  switch (v->op) {
    case OP_SELECT:
      return select_share(v, sizes);
    case OP_CAST:
    case OP_EXP:
    case OP_EXP2:
    case OP_MUL:
    case OP_DIV:
    case OP_SUB:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
      return operand_share(v->args[0], sizes, depth + 1);
    default:
      return 1;
  }
}

typedef struct {
  const int64_t *sizes;
  double dots, others;
  double iterations;  // of the loops around the current instruction
  Region *region;
} Work;

// The mask that the only user of a dot's result puts on it, through scaling: those terms need not
// be computed.
typedef struct {
  const Instr *of, *user;
  int users;
} Users;
static void find_users(Instr *v, void *context) {
  Users *u = context;
  for (int i = 0; i < v->nargs; i++)
    if (v->args[i] == u->of) {
      u->user = v;
      u->users++;
    }
}

static double result_share(const Work *w, const Instr *dot) {
  const Instr *at = dot;
  for (int depth = 0; depth < 32; depth++) {
    Users u = {.of = at};
    ir_walk(w->region, find_users, &u);
    if (u.users != 1 || !op_is_elementwise(u.user->op)) return 1;
    if (u.user->op == OP_SELECT && u.user->args[1] == at) return select_share(u.user, w->sizes);
    at = u.user;
  }
  return 1;
}

static double dot_work(const Work *w, const Instr *v) {
  double terms = elements_of(w->sizes, &v->type);
  bool seen[DOT_LABELS] = {0};
  for (int i = 0; i < v->type.rank; i++) seen[v->labels.out[i]] = true;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < v->args[side]->type.rank; i++) {
      int label = side ? v->labels.b[i] : v->labels.a[i];
      if (!seen[label]) terms *= extent_of(w->sizes, v->args[side]->type.dim[i]);
      seen[label] = true;
    }
  double share = result_share(w, v) * operand_share(v->args[0], w->sizes, 0) *
                 operand_share(v->args[1], w->sizes, 0);
  return 2 * terms * share;
}

static void count_work(Work *w, const Instr *v) {
  if (!has_result(v)) return;
  OpClass class = op_info[v->op].class;
  if (v->op == OP_DOT)
    w->dots += w->iterations * dot_work(w, v);
  else if (class == OPC_REDUCE || class == OPC_ARGREDUCE)
    w->others += w->iterations * elements_of(w->sizes, &v->args[0]->type);
  else if (class == OPC_SCAN ||
           (op_is_elementwise(v->op) && v->op != OP_CAST && v->op != OP_BITCAST))
    w->others += w->iterations * elements_of(w->sizes, &v->type);
}

static void count_region(Work *w, Region *region);

// A loop with unknown bounds counts as one iteration.
static void count_loop(Work *w, Instr *loop) {
  double from, to, iterations = w->iterations;
  bool known = number_of(loop->args[0], w->sizes, DEEPEST_NUMBER, &from) &&
               number_of(loop->args[1], w->sizes, DEEPEST_NUMBER, &to);
  double middle = known ? (from + to - 1) / 2 : 0;
  loop->regions[0]->arg->note = &middle;
  if (known) w->iterations *= to > from ? to - from : 0;
  count_region(w, loop->regions[0]);
  w->iterations = iterations;
}

static void count_region(Work *w, Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    count_work(w, v);
    if (v->op == OP_FOR) {
      count_loop(w, v);
    } else {
      count_region(w, v->regions[0]);
      count_region(w, v->regions[1]);
    }
  }
}

static bool add_call(const FlowIteration *iteration, void *context) {
  int64_t *sizes;
  if (!flow_callee_sizes(iteration, &sizes))
    *(double *)context +=
        reference_flops(iteration->k->flow->callees.at[iteration->step->callee].kernel, sizes);
  return true;
}

double reference_flops(Kernel *k, const int64_t *sizes) {
  double calls = 0;
  if (k->flow) flow_walk(k, sizes, add_call, &calls);
  if (k->flow || !k->reference) return calls;
  Work work = {.sizes = sizes, .region = k->reference, .iterations = 1};
  count_region(&work, k->reference);
  return work.dots > 0 ? work.dots : work.others;
}
