// Which roots a number depends on, in a run where roots are elements.
//
// sqrt(x) restricts the inputs to those with x >= 0: a run draws x until it has a root, and then
// sqrt(x * x) is x. Such a run says nothing of a result that is defined for other x as well. So a
// number knows the roots that it uses, and those that it needs: without the latter it is a NaN.
#include "codegen/prove/internal.h"

#include <string.h>

// ---- sets of roots, in ascending order; equal sets have one number, and that of the empty one is
// 0

static uint64_t hash_roots(const int *at, int count) {
  uint64_t h = (uint64_t)count;
  for (int i = 0; i < count; i++) h = (h ^ (uint64_t)at[i]) * 0xd6e8feb86659fd93;
  return h ^ h >> 29;
}

static void place_set(RootSets *r, int set) {
  const RootSet *s = &r->all.at[set - 1];
  uint64_t mask = (uint64_t)r->slot_count - 1, slot = hash_roots(s->at, s->count) & mask;
  while (r->slots[slot]) slot = (slot + 1) & mask;
  r->slots[slot] = set;
}

static void grow_sets(Proof *p) {
  RootSets *r = &p->root_sets;
  r->slot_count = r->slot_count ? 2 * r->slot_count : 64;
  r->slots = NEW_ARRAY(p->run, int, r->slot_count);
  for (int set = 1; set <= r->all.count; set++) place_set(r, set);
}

static int set_of(Proof *p, const int *at, int count) {
  RootSets *r = &p->root_sets;
  if (!count) return 0;
  if (2 * (r->all.count + 1) > r->slot_count) grow_sets(p);
  uint64_t mask = (uint64_t)r->slot_count - 1, slot = hash_roots(at, count) & mask;
  for (; r->slots[slot]; slot = (slot + 1) & mask) {
    const RootSet *s = &r->all.at[r->slots[slot] - 1];
    if (s->count == count && memcmp(s->at, at, (size_t)count * sizeof *at) == 0)
      return r->slots[slot];
  }
  RootSet fresh = {NEW_ARRAY(p->run, int, count), count};
  memcpy(fresh.at, at, (size_t)count * sizeof *at);
  LIST_PUSH(p->run, &r->all, fresh);
  return r->slots[slot] = r->all.count;
}

RootSet roots_in(const Proof *p, int set) {
  return set ? p->root_sets.all.at[set - 1] : (RootSet){0};
}

static int merge(Proof *p, const RootSet *a, const RootSet *b, bool common) {
  int count = 0, *merged = NEW_ARRAY(p->run, int, a->count + b->count + 1);
  for (int i = 0, k = 0; i < a->count || k < b->count;) {
    bool left = k == b->count || (i < a->count && a->at[i] <= b->at[k]),
         right = i == a->count || (k < b->count && b->at[k] <= a->at[i]);
    if (!common || (left && right)) merged[count++] = left ? a->at[i] : b->at[k];
    i += left, k += right;
  }
  return set_of(p, merged, count);
}

// The last merges are remembered.
static int merged_sets(Proof *p, int a, int b, bool common) {
  RootMerge *known = &p->root_sets.merges[((unsigned)a * 31 + (unsigned)b * 2 + common) % MERGES];
  if (known->a == a && known->b == b && known->common == common) return known->result;
  const RootSet x = roots_in(p, a), y = roots_in(p, b);
  *known = (RootMerge){a, b, merge(p, &x, &y, common), common};
  return known->result;
}

int roots_of_both(Proof *p, int a, int b) {
  if (a == b || !b) return a;
  return a ? merged_sets(p, a, b, false) : b;
}

int roots_in_common(Proof *p, int a, int b) {
  if (a == b) return a;
  return a && b ? merged_sets(p, a, b, true) : 0;
}

int roots_with(Proof *p, int set, int root) { return roots_of_both(p, set, set_of(p, &root, 1)); }

bool roots_defined(Proof *p, Id x, Id y) {
  const Number *a = at(p, x), *b = at(p, y);
  int used = roots_of_both(p, a->used, b->used), needed = roots_of_both(p, a->needed, b->needed);
  return roots_of_both(p, used, needed) == needed;
}

int roots_needed(Proof *p, int set, Id x, Id y) {
  return roots_of_both(p, set, roots_of_both(p, at(p, x)->needed, at(p, y)->needed));
}

void roots_forget(Proof *p) {
  p->root_sets = (RootSets){0};
  p->root_calls = 0;
}

// ---- which root it is: runs that draw other inputs call `sqrt` in the same order

void proof_name_roots(Proof *p, bool begins) {
  if (begins) p->root_names.count = 0;
  p->names_roots = begins;
}

// A root that is defined for all inputs restricts none: it has no name, which is 0.
int root_name(Proof *p, Id argument, uint8_t signs) {
  int call = p->root_calls++;
  RootName name = {p->instr, signs & NEGATIVE ? argument : 0};
  if (p->names_roots) LIST_PUSH(p->arena, &p->root_names, name);
  if (p->mode != BY_ROOTS) return 0;
  bool known = call < p->root_names.count && p->root_names.at[call].instr == p->instr;
  return known ? p->root_names.at[call].name : ROOT_OF_NO_NAME;
}
