// Integers as sums of loop indices and numbers.
#include "codegen/ir/affine.h"

#include <string.h>

// Expressions share operands, so a walk over all paths may take forever.
enum { DEEPEST = 10 };

bool is_counter_type(DType t) { return dtype_info[t].class == CLASS_SIGNED && dtype_bytes(t) >= 4; }

const Instr *without_casts(const Instr *v) {
  while (v->op == OP_CAST && is_counter_type(v->type.dtype) &&
         is_counter_type(v->args[0]->type.dtype))
    v = v->args[0];
  return v;
}

static bool add_term(Affine *a, const Instr *of, int64_t factor) {
  for (int i = 0; i < a->terms; i++)
    if (a->term[i].of == of) {
      a->term[i].factor += factor;
      return true;
    }
  if (a->terms == AFFINE_TERMS) return false;
  a->term[a->terms++] = (AffineTerm){of, factor};
  return true;
}

static bool add(Affine *a, const Instr *v, const int *axis_of, int64_t factor, int depth);

static bool add_broadcast(Affine *a, const Instr *v, const int *axis_of, int64_t factor,
                          int depth) {
  const Type *from = &v->args[0]->type;
  int inner[MAX_RANK];
  if (from->rank == 0) return add_term(a, without_casts(v->args[0]), factor);
  for (int i = 0; i < from->rank; i++)
    inner[i] = from->dim[i] == 1 ? -1 : axis_of[i + v->type.rank - from->rank];
  return add(a, v->args[0], inner, factor, depth);
}

// Adds factor * v; factor is 1 or -1.
static bool add(Affine *a, const Instr *v, const int *axis_of, int64_t factor, int depth) {
  v = without_casts(v);
  if (!is_counter_type(v->type.dtype) || depth == 0) return false;
  if (v->type.rank == 0) return add_term(a, v, factor);
  switch (v->op) {
    case OP_IOTA:
      if (axis_of[v->ival] >= 0) a->coefficient[axis_of[v->ival]] += factor;
      return true;
    case OP_BROADCAST:
      return add_broadcast(a, v, axis_of, factor, depth - 1);
    case OP_NEG:
      return add(a, v->args[0], axis_of, -factor, depth - 1);
    case OP_ADD:
    case OP_SUB:
      return add(a, v->args[0], axis_of, factor, depth - 1) &&
             add(a, v->args[1], axis_of, v->op == OP_ADD ? factor : -factor, depth - 1);
    default:
      return false;
  }
}

bool affine_of(const Instr *v, const int *axis_of, Affine *a) {
  memset(a, 0, sizeof *a);
  return add(a, v, axis_of, 1, DEEPEST);
}

bool affine_subtract(Affine *a, const Affine *b) {
  for (int i = 0; i < MAX_RANK; i++) a->coefficient[i] -= b->coefficient[i];
  for (int i = 0; i < b->terms; i++)
    if (!add_term(a, b->term[i].of, -b->term[i].factor)) return false;
  return true;
}

bool affine_is_index(const Affine *a, int axis, const Instr **start) {
  for (int i = 0; i < MAX_RANK; i++)
    if (a->coefficient[i] != (i == axis)) return false;
  *start = a->terms ? a->term[0].of : NULL;
  return a->terms == 0 || (a->terms == 1 && a->term[0].factor == 1);
}
