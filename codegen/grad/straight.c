// Brings a kernel's body to a form without nested regions where that is possible: memory of a part
// of the body becomes scratch, loops of a few constant iterations are written out, and branches
// that store become stores of chosen elements.
#include "codegen/grad/blocks.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/rewrite.h"

enum { MOST_UNROLLED = 1000 };  // instructions

typedef struct {
  bool choices;      // branches, too
  Instr *condition;  // of the stores; NULL: always
  Instr *around;     // of both branches; NULL: always
  Instr **before;    // by ref: what the other branch stores in all of it
  Instr *test;       // that chooses that branch
} Straight;

// ---- loops

static bool leaves(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    const bool loop = v->op == OP_FOR || v->op == OP_WHILE;
    if (v->op == OP_BREAK || (!loop && (leaves(v->regions[0]) || leaves(v->regions[1]))))
      return true;
  }
  return false;
}

static int64_t size_of(const Region *region) {
  int64_t size = 0;
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    size += 1 + size_of(v->regions[0]) + size_of(v->regions[1]);
  }
  return size;
}

static bool unrolls(const Instr *v, int64_t *from, int64_t *to) {
  return known_number(v->args[0], from) && known_number(v->args[1], to) && !leaves(v->regions[0]) &&
         *to - *from <= MOST_UNROLLED && (*to - *from) * size_of(v->regions[0]) <= MOST_UNROLLED;
}

static void unroll(Rewriter *w, const Instr *v, int64_t from, int64_t to) {
  const Region *body = v->regions[0];
  for (int64_t at = from; at < to; at++) {
    Region *turn = ir_region(w->k);
    Instr **image = NEW_ARRAY(w->k->arena, Instr *, w->k->next_id + 1);
    image[body->arg->id] = ir_put_number(w, at);
    Grad g = {.k = w->k, .arena = w->k->arena, .out = turn, .span = v->span};
    copy_region(&g, body, &(Copies){.image = image});
    ir_splice(w, turn);
  }
}

// ---- branches

// Can the instructions run where the branch is not taken?
static bool is_harmless(const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    const bool branch = v->op == OP_IF && !has_result(v);
    const bool divides =
        (op_info[v->op].class == OPC_BINARY && !is_float(v->type.dtype)) &&
        (v->op == OP_DIV || v->op == OP_REM || v->op == OP_FLOORDIV || v->op == OP_MOD);
    int64_t from, to;
    if (branch            ? !is_harmless(v->regions[0]) || !is_harmless(v->regions[1])
        : v->op == OP_FOR ? !unrolls(v, &from, &to) || !is_harmless(v->regions[0])
        : v->op == OP_LOAD || v->op == OP_STORE || v->op == OP_YIELD ? false
        : divides                                                    ? v->args[1]->op != OP_CONST
                  : op_acts(v->op) || (v->regions[0] && !has_result(v)))
      return false;
  }
  return true;
}

// The only access of the ref in the region that is not a load before it, if it stores all of it.
static Instr *only_store(const Region *region, const Ref *ref) {
  Instr *found = NULL;
  for (int i = 0; region && i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    const bool access = (v->op == OP_LOAD || v->op == OP_STORE) && v->ref == ref;
    if (v->regions[0] || (access && found)) return NULL;
    if (!access || v->op == OP_LOAD) continue;
    if (v->flags || !ir_window_is_full(v)) return NULL;
    found = v;
  }
  return found;
}

static Instr *both(Rewriter *w, Instr *a, Instr *b) {
  return a ? ir_put(w, OP_AND, type_scalar(DT_BOOL), 2, a, b) : b;
}

static void choose(Rewriter *w, Instr *v) {
  Straight *s = w->context, outer = *s;
  Instr *not = ir_put(w, OP_NOT, type_scalar(DT_BOOL), 1, v->args[0]);
  Instr **before = NEW_ARRAY(w->k->arena, Instr *, w->k->refs.count + 1);
  for (int i = 0; i < w->k->refs.count; i++) {
    Instr *first = only_store(v->regions[0], w->k->refs.at[i]);
    if (first && only_store(v->regions[1], w->k->refs.at[i])) before[i] = first;
  }
  for (int r = 0; r < 2; r++) {
    s->test = v->args[0];
    s->before = before;
    s->around = outer.condition;
    s->condition = both(w, outer.condition, r ? not : v->args[0]);
    ir_splice(w, v->regions[r]);
  }
  *s = outer;
}

// A store in a branch. Returns false if the other branch stores its value, too.
static bool choose_store(Rewriter *w, Instr *v) {
  const Straight *s = w->context;
  const int rank = v->ref->type.rank;
  Instr *first = s->before[v->ref->id], *value = ir_store_value(v);
  if (first == v) return false;
  Instr **args = NEW_ARRAY(w->k->arena, Instr *, rank + 2);
  for (int i = 0; i < v->nargs; i++) args[i] = v->args[i];
  v->args = args;
  Instr *condition = s->condition;
  if (first) {
    Instr *test = ir_put_spread(w, s->test, type_as(value->type, DT_BOOL));
    args[rank] = ir_put(w, OP_SELECT, value->type, 3, test, ir_store_value(first), value);
    condition = s->around;
  }
  if (!condition) return true;
  Instr *mask = ir_put_spread(w, condition, type_as(value->type, DT_BOOL));
  if (v->flags & INSTR_MASKED) mask = ir_put(w, OP_AND, mask->type, 2, ir_mask(v), mask);
  args[rank + 1] = mask;
  v->nargs = rank + 2;
  v->flags |= INSTR_MASKED;
  return true;
}

// ---- the body

static void use_constants(Rewriter *w, Instr *v) {
  int64_t at;
  for (int i = 0; i < v->ref->type.rank; i++)
    if (v->args[i]->op != OP_CONST && known_number(v->args[i], &at))
      v->args[i] = ir_put_number(w, at);
}

static bool straighten(Rewriter *w, Instr *v) {
  const Straight *s = w->context;
  int64_t from, to;
  if (v->op == OP_SCOPED || v->op == OP_NAMED) {
    ir_splice(w, v->regions[0]);
    return false;
  }
  if (v->op == OP_FOR && unrolls(v, &from, &to)) {
    unroll(w, v, from, to);
    return false;
  }
  if (v->op == OP_IF && !has_result(v)) {
    if (known_number(v->args[0], &from)) {
      ir_splice(w, v->regions[from ? 0 : 1]);
      return false;
    }
    if (s->choices && is_harmless(v->regions[0]) && is_harmless(v->regions[1])) {
      choose(w, v);
      return false;
    }
  }
  if (v->op == OP_LOAD || v->op == OP_STORE) use_constants(w, v);
  if (v->op == OP_STORE && s->before) return choose_store(w, v);
  ir_rewrite_inside(w, v);
  return true;
}

void straighten_body(Kernel *k, bool choices) {
  Straight s = {.choices = choices};
  Rewriter w = {.k = k, .rule = straighten, .context = &s};
  for (int i = 0; i < k->refs.count; i++) {
    Ref *ref = k->refs.at[i];
    if (ref->scope && ref->scope->op == OP_SCOPED) ref->scope = NULL;
  }
  if (k->body) ir_rewrite(&w, k->body);
}
