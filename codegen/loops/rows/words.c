// Words and their parts: rows of narrow elements that are parts of the same words, and words that
// are composed of rows of narrow elements. If the words or the parts are in memory, a few shuffles
// split or join whole vectors, instead of a shift of each lane.
#include "codegen/ir/axes.h"
#include "codegen/loops/loops.h"

#include <string.h>

static int width(const Instr *v) { return dtype_info[v->type.dtype].bits; }

// Does the operation keep all bits of its operand?
static bool keeps_bits(const Instr *v) {
  const Instr *of = v->args[0];
  return v->op == OP_BITCAST || (v->op == OP_CAST && width(v) == width(of) &&
                                 is_integer(v->type.dtype) && is_integer(of->type.dtype));
}

bool accesses_rows(const Instr *v) {
  const int rank = v->ref->type.rank;
  const bool masked = v->op == OP_LOAD ? v->nargs > rank : ir_mask(v) != NULL;
  return rank > 0 && !masked && !ir_may_leave(v) && lane_step(v) == 1 &&
         !v->window.squeeze[rank - 1] && v->window.stride[rank - 1] == 1 && !v->ref->packed;
}

// Are the elements of each row contiguous in memory, with this number of bits?
static bool lies_in_rows(Gen *g, const Instr *v, int bits) {
  const int last = v->type.rank - 1;
  Place p;
  if (last < 0 || v->type.dim[last] == 1 || v->type.dtype == DT_BOOL) return false;
  if (val(v)->buffer)
    return !val(v)->row_local && place_of(g, v, &p) && dtype_info[p.element].bits == bits;
  if (!is_transparent(v)) return false;
  if (v->op == OP_LOAD) return accesses_rows(v) && dtype_info[ir_access_dtype(v)].bits == bits;
  const bool in_lanes = v->op == OP_BROADCAST && v->args[0]->type.rank > 0 &&
                        ir_operand_axis(v, last) == v->args[0]->type.rank - 1;
  return (in_lanes || ir_keeps_lanes(v)) && lies_in_rows(g, v->args[0], bits);
}

// ---- parts of words

// Does row i of the jammed rows shift by i parts of a word?
static bool shifts_by_parts(Gen *g, const Group *group, const Instr *count, int bits, int parts) {
  const Expr *at[MAX_RANK];
  int64_t shift;
  for (int row = 0; row < JAMMED; row++) {
    index_of_row(g, group, jammed_row(g, row), at);
    if (!known_integer(g, group, count, at, &shift) || shift != row % parts * bits) return false;
  }
  return true;
}

const Instr *words_of(Gen *g, const Group *group, const Instr *v, int bits) {
  if (!group->by_words || v->op != OP_CAST || width(v) != bits) return NULL;
  const Instr *w = v->args[0];
  const int all = width(w);
  bool shifted = false;
  if (!is_integer(v->type.dtype) || !is_integer(w->type.dtype) || all <= bits || all > 32)
    return NULL;
  for (; is_computed_in(group, w); w = w->args[0]) {
    if (keeps_bits(w)) continue;
    const bool shifts = (w->op == OP_USHR || w->op == OP_SHR) && !shifted &&
                        shifts_by_parts(g, group, w->args[1], bits, all / bits);
    if (!shifts) return NULL;
    shifted = true;
  }
  return shifted && lies_in_rows(g, w, all) ? w : NULL;
}

// ---- words of parts

typedef struct {
  Gen *g;
  const Group *group;
  int width, bits;  // of a word and of a part; 0: not known yet
  const Instr **part;
} Join;

// Adds the operand of a chain of `or`: a part in its place.
static bool add_part(Join *j, const Instr *v) {
  const Expr *at[MAX_RANK];
  int64_t shift = 0;
  if (v->op == OP_SHL && is_computed_in(j->group, v)) {
    index_of_row(j->g, j->group, expr_symbol(&j->g->exprs, "row"), at);
    if (!known_integer(j->g, j->group, v->args[1], at, &shift)) return false;
    v = v->args[0];
  }
  if (v->op != OP_CAST || !is_computed_in(j->group, v)) return false;
  const Instr *of = v->args[0];
  const int bits = width(of);
  if (dtype_info[of->type.dtype].class != CLASS_UNSIGNED || bits < 8 || bits >= j->width ||
      (j->bits && j->bits != bits) || shift % bits || shift >= j->width || j->part[shift / bits])
    return false;
  while (is_computed_in(j->group, of) && keeps_bits(of)) of = of->args[0];
  j->bits = bits;
  j->part[shift / bits] = of;
  return lies_in_rows(j->g, of, bits);
}

static bool add_parts(Join *j, const Instr *v) {
  if (v->op != OP_OR || !is_computed_in(j->group, v)) return add_part(j, v);
  return add_parts(j, v->args[0]) && add_parts(j, v->args[1]);
}

int parts_joined(Gen *g, const Group *group, const Instr *v, int bits, const Instr **part) {
  Join j = {g, group, bits, 0, part};
  if (v->op != OP_OR || !is_integer(v->type.dtype) || width(v) != bits) return 0;
  memset(part, 0, WORD_PARTS * sizeof *part);
  if (val(v)->group != group || !add_parts(&j, v->args[0]) || !add_parts(&j, v->args[1])) return 0;
  for (int i = 0; i < bits / j.bits; i++)
    if (!part[i]) return 0;
  return bits / j.bits;
}

int vectors_joined(Gen *g, const Group *group, const Step *step, int bits) {
  const Instr *part[WORD_PARTS];
  int vectors = 0;
  for (int m = 0; m < step->members.count; m++) {
    const int n = parts_joined(g, group, step->members.at[m], bits, part);
    if (n && vectors && n != vectors) return 0;
    if (n) vectors = n;
  }
  return vectors;
}

// ---- values between the two

static bool is_served(Gen *g, const Group *group, const Instr *user, int bits) {
  const Instr *part[WORD_PARTS];
  return words_of(g, group, user, bits) || parts_joined(g, group, user, bits, part);
}

bool serves_words(Gen *g, const Group *group, const Instr *v, int bits) {
  if (!is_transparent(v) && !is_computed_in(group, v)) return false;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    if (!is_served(g, group, user, bits) && !serves_words(g, group, user, bits)) return false;
  }
  return val(v)->users.count > 0;
}
