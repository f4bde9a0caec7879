// exp, log, roots, and operations without a meaning in fields: maxima, orders, functions of libm.
#include "codegen/prove/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- exp and log

Id number_exp(Proof *p, Id x) {
  const Number *a = at(p, x);
  if (a->kind == PLUS_INFINITY || a->kind == NOT_A_NUMBER || a->kind == UNKNOWN) return x;
  if (a->kind == MINUS_INFINITY || a->mask < 0) return ID_ZERO;
  if (a->mask > 0) return number_unknown(p);
  if (x == ID_ZERO) return ID_ONE;
  Number n = number_from(p, x, x);
  n.opaque |= a->hashed;
  for (int f = 0; f < PRIMES; f++)
    n.v[f] = mod_mul(mod_pow(group_generator, a->a[f], p->field[f].p), a->b[f], p->field[f].p);
  n.signs = POSITIVE;
  if (p->mode == BY_ORDER) n.shadow = exp(a->shadow);
  return number_add_new(p, &n);
}

Id number_log(Proof *p, Id x) {
  const Number *a = at(p, x);
  if (a->kind == PLUS_INFINITY || a->kind == NOT_A_NUMBER || a->kind == UNKNOWN) return x;
  if (x == ID_ZERO) return ID_MINUS_INFINITY;
  if (x == ID_ONE) return ID_ZERO;
  if (signs_of(a) == NEGATIVE && a->mask == 0) return ID_NAN;
  if (a->kind != FINITE || a->mask != 0 || a->v[0] == 0 || a->v[1] == 0) return number_unknown(p);
  if (signs_of(a) != POSITIVE) note_partial(p, NOTE_LOG, x);
  Key key = number_key(p, x);
  Draw h = draw_start(p->seed, OP_LOG);
  draw_key(&h, &key);
  Number n = number_from(p, x, x);
  draw_number(p, &h, &n);
  n.opaque = true;
  n.hashed = false;
  n.partial |= signs_of(a) != POSITIVE;
  for (int f = 0; f < PRIMES; f++) n.a[f] = 0, n.b[f] = a->v[f];
  if (p->mode == BY_ORDER) n.shadow = log(a->shadow);
  return number_add_new(p, &n);
}

// ---- atoms

// Is its result a NaN where an operand is one?
static bool keeps_nan(uint64_t what) {
  return what < OP_COUNT && what != OP_POW &&
         (op_info[what].class == OPC_UNARY || op_info[what].class == OPC_BINARY);
}

// Is its result something other than a NaN for a NaN or infinite operand?
static bool hides_nan(uint64_t what) {
  if (what >= OP_COUNT) return false;
  OpClass class = op_info[what].class;
  return class == OPC_COMPARE || class == OPC_PREDICATE || class == OPC_CAST ||
         class == OPC_ARGREDUCE || what == OP_SORT || what == OP_ARGSORT;
}

void note_defined(Proof *p, Id x) {
  if (at(p, x)->partial && p->mode == BY_ATOMS) proof_remark(p, NOTE_DEFINED, p->instr, NULL);
}

Id number_atom(Proof *p, uint64_t what, const Id *operands, int count, double shadow) {
  Draw h = draw_start(p->seed, what);
  Number n = number_from(p, ID_ZERO, ID_ZERO);
  draw_add(&h, (uint64_t)count);
  for (int i = 0; i < count; i++) {
    const Number *a = at(p, operands[i]);
    if (a->kind == UNKNOWN && !a->v[0]) return operands[i];
    Key key = number_key(p, operands[i]);
    draw_key(&h, &key);
    n.lost |= a->lost;
    n.operands |= a->operands;
    n.used = roots_of_both(p, n.used, a->used);
    if (keeps_nan(what)) n.needed = roots_of_both(p, n.needed, a->needed);
    if (hides_nan(what)) note_defined(p, operands[i]);
    n.partial |= a->partial && !hides_nan(what);
    note_sources(p, &n, a);
  }
  draw_number(p, &h, &n);
  n.opaque = true;
  n.signs = ANY_SIGN;
  if (p->mode == BY_ORDER) n.shadow = shadow;
  return number_add_new(p, &n);
}

Id number_of_bits(Proof *p, uint64_t what, const Id *operands, int count) {
  Id atom = number_atom(p, what, operands, count, 0);
  proof_note_bits(p, atom);
  return atom;
}

Id number_named(Proof *p, uint64_t what, const Id *operands, int count) {
  Id atom = number_of_bits(p, what, operands, count);
  if (at(p, atom)->kind != FINITE) return atom;
  Number n = *at(p, atom);
  n.kind = UNKNOWN;
  n.why = p->instr;
  for (int i = 0; i < count; i++)
    if (at(p, operands[i])->kind == UNKNOWN) n.why = at(p, operands[i])->why;
  return number_add_new(p, &n);
}

static Id with_signs(Proof *p, Id id, uint8_t signs) {
  Number n = *at(p, id);
  if (n.kind != FINITE || n.signs == signs) return id;
  n.signs = signs;
  return number_add_new(p, &n);
}

// ---- roots

static Id as_partial(Proof *p, Id id) {
  Number n = *at(p, id);
  n.partial = true;
  return n.kind == FINITE ? number_add_new(p, &n) : id;
}

static int64_t whole_root(int64_t n) {
  int64_t r = (int64_t)(sqrt((double)n) + 0.5);
  return n >= 0 && r * r == n ? r : -1;
}

// The root of a quotient, in all four fields; false: it has none in one of them.
static bool root_of_quotient(const Proof *p, const Number *a, Number *n) {
  for (int f = 0; f < PRIMES; f++) {
    if (!mod_root(a->v[f], p->field[f].p, &n->v[f]) || !mod_root(a->a[f], p->field[f].q, &n->a[f]))
      return false;
    n->b[f] = 1;
  }
  return true;
}

static void note_lost_root(Proof *p, const Number *n, int field, int name) {
  LostRoot lost = {.field = field, .name = name};
  memcpy(lost.source, n->source, sizeof lost.source);
  LIST_PUSH(p->run, &p->lost_roots, lost);
}

static Id root_by_squares(Proof *p, Id x, int name) {
  Number n = *at(p, number_atom(p, OP_SQRT, &x, 1, sqrt(at(p, x)->shadow)));
  const Number *a = at(p, x);
  for (int f = 0; f < PRIMES; f++) {
    uint64_t root;
    n.a[f] = n.b[f] = 0;
    if (mod_root(a->v[f], p->field[f].p, &root))
      n.v[f] = root;
    else
      n.lost |= (uint8_t)(1 << f);
  }
  if (name) n.used = roots_with(p, n.used, name);
  if (name > 0) n.needed = roots_with(p, n.needed, name);
  int known = p->count;
  Id root = number_add_new(p, &n);
  for (int f = 0; f < PRIMES && p->count > known; f++)
    if (n.lost >> f & 1 & ~(a->lost >> f)) note_lost_root(p, &n, f, name);
  return root;
}

// The square root: of a square it is the absolute value, of a rational square a rational number.
// Otherwise it is a new number, by the mode: a root in both fields, or an atom with the operand.
Id number_sqrt(Proof *p, Id x) {
  const Number *a = at(p, x);
  uint8_t signs = signs_of(a);
  int name = root_name(p, x, signs);
  if (a->kind == PLUS_INFINITY || a->kind == NOT_A_NUMBER || a->kind == UNKNOWN) return x;
  if (x == ID_ZERO || x == ID_ONE) return x;
  if (signs == NEGATIVE) return ID_NAN;
  if (a->mask != 0) return number_unknown(p);
  bool partial = signs & NEGATIVE;
  if (partial) note_partial(p, NOTE_ROOT, x);
  signs &= (uint8_t)~NEGATIVE;
  if (a->below && whole_root(a->above) >= 0 && whole_root(a->below) >= 0)
    return number_rational(p, whole_root(a->above), whole_root(a->below));
  Number n = number_from(p, x, x);
  n.shadow = p->mode == BY_ORDER ? sqrt(a->shadow) : 0;
  n.signs = signs;
  if (a->below && root_of_quotient(p, a, &n)) return number_add_new(p, &n);
  p->roots = true;
  Id root = p->mode == BY_ROOTS ? root_by_squares(p, x, name)
                                : number_atom(p, OP_SQRT, &x, 1, sqrt(a->shadow));
  root = with_signs(p, root, signs);
  return partial ? as_partial(p, root) : root;
}

// ---- maxima

int compare_rationals(const Number *a, const Number *b) {
  __int128 left = (__int128)a->above * b->below, right = (__int128)b->above * a->below;
  return (left > right) - (left < right);
}

// Adds a leaf, in the order of keys; of quotients the greatest alone stays.
static void add_leaf(Proof *p, LeafSet *set, Id leaf) {
  int place;
  for (int i = 0; i < set->count; i++) {
    const Number *a = at(p, leaf), *b = at(p, set->at[i]);
    if (!a->below || !b->below) continue;
    if (compare_rationals(a, b) <= 0) return;
    memmove(set->at + i, set->at + i + 1, (size_t)(set->count-- - i - 1) * sizeof(Id));
    break;
  }
  if (find_leaf(p, set, leaf, &place)) return;
  memmove(set->at + place + 1, set->at + place, (size_t)(set->count++ - place) * sizeof(Id));
  set->at[place] = leaf;
}

static void add_leaves(Proof *p, LeafSet *set, Id x) {
  int which = at(p, x)->set;
  if (which <= 0) {
    add_leaf(p, set, x);
    return;
  }
  const LeafSet from = p->sets.at[which - 1];
  for (int i = 0; i < from.count; i++) add_leaf(p, set, from.at[i]);
}

static int leaf_count(const Proof *p, Id x) {
  return at(p, x)->set > 0 ? p->sets.at[at(p, x)->set - 1].count : 1;
}

static uint8_t signs_of_maximum(uint8_t a, uint8_t b) {
  uint8_t least = (uint8_t)(a & b);
  if (a == POSITIVE || b == POSITIVE) return POSITIVE;
  if (!(a & NEGATIVE) || !(b & NEGATIVE)) return (uint8_t)((a | b) & ~NEGATIVE);
  return (uint8_t)(a | b | least);
}

static int find_set(Proof *p, const LeafSet *set) {
  for (int i = p->sets.count - 1; i >= 0 && i >= p->sets.count - 8; i--)
    if (p->sets.at[i].count == set->count &&
        memcmp(p->sets.at[i].at, set->at, (size_t)set->count * sizeof(Id)) == 0)
      return i + 1;
  LIST_PUSH(p->run, &p->sets, *set);
  return p->sets.count;
}

static Id maximum_of_set(Proof *p, LeafSet set, uint8_t signs) {
  if (set.count == 1) return set.at[0];
  Number n = *at(p, number_atom(p, OP_MAX, set.at, set.count, 0));
  if (n.kind != FINITE) return number_unknown(p);
  n.signs = signs;
  n.scale = (int8_t)number_scale(p, set.at, set.count);
  n.set = find_set(p, &set);
  return number_add_new(p, &n);
}

// Leaves that are equal are one: which they are may depend on the roots of both.
static Id with_roots_of(Proof *p, Id id, int used) {
  Number n = *at(p, id);
  n.used = roots_of_both(p, n.used, used);
  return n.used == at(p, id)->used ? id : number_add_new(p, &n);
}

static Id maximum_of_leaves(Proof *p, Id x, Id y) {
  LeafSet set = {NEW_ARRAY(p->run, Id, leaf_count(p, x) + leaf_count(p, y) + 1), 0};
  int used = roots_of_both(p, at(p, x)->used, at(p, y)->used);
  add_leaves(p, &set, x);
  add_leaves(p, &set, y);
  Id most = maximum_of_set(p, set, signs_of_maximum(signs_of(at(p, x)), signs_of(at(p, y))));
  return with_roots_of(p, most, used);
}

Id number_scale_mask(Proof *p, Id x, double mask) {
  Number n = *at(p, x);
  n.mask = mask;
  n.signs = ANY_SIGN;
  if (mask != 0) n.set = 0, n.magnitude_of = 0;
  if (mask == 0 && n.v[0] == 0 && n.v[1] == 0) return ID_ZERO;
  return number_add_new(p, &n);
}

static Id finite_maximum(Proof *p, Id x, Id y) {
  const Number *a = at(p, x), *b = at(p, y);
  if (a->mask != b->mask) return a->mask > b->mask ? x : y;
  if (a->mask != 0) {
    double mask = a->mask;
    Id finite = finite_maximum(p, number_scale_mask(p, x, 0), number_scale_mask(p, y, 0));
    return number_add(p, finite, number_mask(p, mask));
  }
  if (p->mode == BY_ORDER) return a->shadow >= b->shadow ? x : y;
  if (is_rational(a) && is_rational(b)) return compare_rationals(a, b) >= 0 ? x : y;
  if (!(signs_of(a) & NEGATIVE) && !(signs_of(b) & POSITIVE)) return x;
  if (!(signs_of(b) & NEGATIVE) && !(signs_of(a) & POSITIVE)) return y;
  return maximum_of_leaves(p, x, y);
}

Id number_max(Proof *p, Id x, Id y) {
  const Number *a = at(p, x), *b = at(p, y);
  if (x == y) return x;
  if (a->kind == UNKNOWN || b->kind == UNKNOWN) return a->kind == UNKNOWN ? x : y;
  if (a->kind == NOT_A_NUMBER || b->kind == NOT_A_NUMBER) return ID_NAN;
  if (a->kind == PLUS_INFINITY || b->kind == PLUS_INFINITY) return ID_PLUS_INFINITY;
  if (a->kind == MINUS_INFINITY) return y;
  if (b->kind == MINUS_INFINITY) return x;
  return finite_maximum(p, x, y);
}

Id number_min(Proof *p, Id x, Id y) {
  return number_neg(p, number_max(p, number_neg(p, x), number_neg(p, y)));
}

typedef struct {
  Key key;
  Id id;
} Keyed;

static int by_key(const void *a, const void *b) {
  return compare_keys(&((const Keyed *)a)->key, &((const Keyed *)b)->key);
}

// Of finite numbers without masks that are not maxima: sorted once.
static Id maximum_of_plain(Proof *p, const Id *x, int count) {
  Keyed *sorted = malloc((size_t)count * sizeof *sorted);
  LeafSet set = {NEW_ARRAY(p->run, Id, count + 1), 0};
  uint8_t signs = signs_of(at(p, x[0]));
  int used = 0;
  if (!sorted) INTERNAL("no memory for a maximum");
  for (int i = 0; i < count; i++) {
    sorted[i] = (Keyed){number_key(p, x[i]), x[i]};
    used = roots_of_both(p, used, at(p, x[i])->used);
    signs = signs_of_maximum(signs, signs_of(at(p, x[i])));
  }
  sort_items(sorted, (size_t)count, sizeof *sorted, by_key);
  for (int i = 0; i < count; i++)
    if (i == 0 || by_key(&sorted[i - 1], &sorted[i]) != 0) set.at[set.count++] = sorted[i].id;
  free(sorted);
  return with_roots_of(p, maximum_of_set(p, set, signs), used);
}

static bool is_leaf(const Number *n) {
  return n->kind == FINITE && n->mask == 0 && n->set <= 0 && !n->below && signs_of(n) == ANY_SIGN;
}

static bool has_data(const Proof *p, const int64_t *cells, int64_t count) {
  for (int64_t e = 0; e < count; e++) {
    const Number *n = number_is(p, cells[e]) ? at(p, (Id)cells[e]) : NULL;
    if (n && n->kind == FINITE && n->mask == 0 && !n->below) return true;
  }
  return false;
}

Id number_maximum(Proof *p, const int64_t *cells, int64_t count) {
  if (p->level && has_data(p, cells, count)) return ID_ZERO;
  Id *leaves = malloc((size_t)(count + 1) * sizeof *leaves), rest = ID_MINUS_INFINITY;
  int found = 0;
  if (!leaves) INTERNAL("no memory for a maximum");
  for (int64_t e = 0; e < count; e++) {
    Id id = number_is(p, cells[e]) ? (Id)cells[e] : ID_UNKNOWN;
    if (is_leaf(at(p, id)) && p->mode != BY_ORDER)
      leaves[found++] = id;
    else
      rest = number_max(p, rest, id);
  }
  if (found) rest = number_max(p, rest, maximum_of_plain(p, leaves, found));
  free(leaves);
  return rest;
}

Id number_less_key(Proof *p, Id x) {
  Id other = number_neg(p, x);
  Key a = number_key(p, x), b = number_key(p, other);
  return compare_keys(&a, &b) <= 0 ? x : other;
}

// The absolute value as one of x and -x: the one that is a square in each field.
static Id abs_by_squares(Proof *p, Id x) {
  Number n = *at(p, number_atom(p, OP_ABS, &x, 1, 0));
  for (int f = 0; f < PRIMES; f++) {
    uint64_t v = at(p, x)->v[f], m = p->field[f].p;
    n.a[f] = n.b[f] = 0;
    mod_root(mod_mul(v, v, m), m, &n.v[f]);
  }
  return number_add_new(p, &n);
}

Id number_abs(Proof *p, Id x) {
  const Number *a = at(p, x);
  if (a->kind == UNKNOWN || a->kind == NOT_A_NUMBER) return x;
  if (!(signs_of(a) & NEGATIVE)) return x;
  if (!(signs_of(a) & POSITIVE)) return number_neg(p, x);
  if (p->mode == BY_ORDER) return a->shadow >= 0 ? x : number_neg(p, x);
  p->roots = true;
  Id name = number_less_key(p, x);
  bool squares = p->mode == BY_ROOTS && a->kind == FINITE && a->mask == 0;
  Id magnitude = squares ? abs_by_squares(p, name) : number_atom(p, OP_ABS, &name, 1, 0);
  Number n = *at(p, magnitude);
  n.signs = (uint8_t)((signs_of(at(p, x)) & ZERO_SIGN) | POSITIVE);
  n.magnitude_of = 1 + name;
  return n.kind == FINITE ? number_add_new(p, &n) : magnitude;
}

Id number_sign(Proof *p, Id x) {
  const Number *a = at(p, x);
  if (a->kind == UNKNOWN || a->kind == NOT_A_NUMBER) return x;
  uint8_t signs = signs_of(a);
  if (p->mode == BY_ORDER && a->kind == FINITE && a->mask == 0)
    signs = a->shadow > 0 ? POSITIVE : a->shadow < 0 ? NEGATIVE : ZERO_SIGN;
  if (signs == POSITIVE) return ID_ONE;
  if (signs == NEGATIVE) return number_integer(p, -1);
  if (signs == ZERO_SIGN) return ID_ZERO;
  Id name = number_less_key(p, x), sign = number_atom(p, OP_SIGN, &name, 1, 0);
  return name == x ? sign : number_neg(p, sign);
}

Id number_atom_of_all(Proof *p, uint64_t what, const Id *elements, int64_t count) {
  Keyed *sorted = NEW_ARRAY(p->run, Keyed, count + 1);
  Id *named = NEW_ARRAY(p->run, Id, count + 1);
  for (int64_t i = 0; i < count; i++) sorted[i] = (Keyed){number_key(p, elements[i]), elements[i]};
  sort_items(sorted, (size_t)count, sizeof *sorted, by_key);
  for (int64_t i = 0; i < count; i++) named[i] = sorted[i].id;
  return number_atom(p, what, named, (int)count, 0);
}

bool number_is_within(const Proof *p, Id x, double low, double high) {
  const Number *n = at(p, x);
  return n->kind == FINITE && !n->wrapped && n->low >= low && n->high <= high;
}
