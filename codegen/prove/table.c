// The table of numbers, the notes about them, and the limits of a proof.
#define _GNU_SOURCE
#include "codegen/prove/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

// Processor time in seconds: verdicts must not depend on the load of the machine. Elapsed time
// where the system does not count it.
static double now(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- the table

static bool has_element(const Number *n) { return n->kind == FINITE && (n->v[0] || n->v[1]); }

// Numbers with the same element are close to each other: see find_element.
static uint64_t hash_number(const Number *n) {
  uint64_t h = n->v[0] ^ n->v[1] << 3, mask;
  if (!has_element(n)) {
    memcpy(&mask, &n->mask, sizeof mask);
    h = n->v[0] ^ (uint64_t)n->kind << 60 ^ (uint64_t)(uintptr_t)n->why ^ (uint64_t)n->signs << 52;
    h ^= n->operands * 0xd1b54a32d192ed03 ^ (uint64_t)n->wrapped << 50;
    h ^= mask * 0x9e3779b97f4a7c15;
  }
  h = (h ^ h >> 32) * 0xd6e8feb86659fd93;
  return h ^ h >> 29;
}

// A slot holds the upper half of a number's hash beside 1 + its id: few numbers are compared.
static uint64_t slot_of(uint64_t hash, Id id) { return hash >> 32 << 32 | (uint64_t)(id + 1); }
static Id slot_id(uint64_t slot) { return (Id)(uint32_t)slot - 1; }

static void place(Proof *p, Id id) {
  uint64_t hash = hash_number(&p->numbers[id]), slot = hash & (uint64_t)(p->slot_count - 1);
  while (p->slots[slot]) slot = (slot + 1) & (uint64_t)(p->slot_count - 1);
  p->slots[slot] = slot_of(hash, id);
}

static void grow_slots(Proof *p) {
  p->slot_count = p->slot_count ? p->slot_count * 2 : 1024;
  free(p->slots);
  p->slots = calloc((size_t)p->slot_count, sizeof *p->slots);
  if (!p->slots) INTERNAL("no memory for numbers");
  for (Id id = 0; id < p->count; id++) place(p, id);
}

static Id find_number(const Proof *p, const Number *n) {
  uint64_t hash = hash_number(n), at = hash & (uint64_t)(p->slot_count - 1);
  for (uint64_t slot; (slot = p->slots[at]); at = (at + 1) & (uint64_t)(p->slot_count - 1))
    if (slot >> 32 == hash >> 32 && memcmp(&p->numbers[slot_id(slot)], n, sizeof *n) == 0)
      return slot_id(slot);
  return -1;
}

// The first number with the same element, or -1.
static Id find_element(const Proof *p, const Number *n) {
  uint64_t hash = hash_number(n), at = hash & (uint64_t)(p->slot_count - 1);
  for (uint64_t slot; (slot = p->slots[at]); at = (at + 1) & (uint64_t)(p->slot_count - 1)) {
    const Number *other = &p->numbers[slot_id(slot)];
    if (slot >> 32 == hash >> 32 && other->kind == FINITE && other->v[0] == n->v[0] &&
        other->v[1] == n->v[1])
      return slot_id(slot);
  }
  return -1;
}

// Equal elements have equal exponents, unless both follow from those of inputs.
static void complete_exponent(Proof *p, Number *n) {
  bool known = n->b[0] != 0;
  if (n->kind != FINITE || (known && !n->hashed)) return;
  Id same = has_element(n) ? find_element(p, n) : ID_ZERO;
  if (same >= 0) {
    const Number *other = at(p, same);
    for (int f = 0; f < PRIMES; f++) n->a[f] = other->a[f], n->b[f] = other->b[f];
    n->hashed = other->hashed || other->opaque;
  } else if (!known) {
    Draw h = draw_start(p->seed, OP_EXP);
    for (int f = 0; f < PRIMES; f++) draw_add(&h, n->v[f]);
    for (int f = 0; f < PRIMES; f++) n->a[f] = draw_element(&h, p->field[f].q), n->b[f] = 1;
    n->hashed = true;
  }
}

Id number_add_new(Proof *p, Number *n) {
  if (p->count * 2 >= p->slot_count) grow_slots(p);
  complete_exponent(p, n);
  Id known = find_number(p, n);
  if (known >= 0) return known;
  if (p->count == p->capacity) {
    if (!p->over) p->over = "memory";
    return ID_UNKNOWN;
  }
  p->numbers[p->count] = *n;
  place(p, p->count);
  return p->count++;
}

static void preset(Proof *p, NumberKind kind, int64_t value, uint8_t signs) {
  Number n;
  memset(&n, 0, sizeof n);
  n.kind = kind;
  n.signs = signs;
  for (int f = 0; f < PRIMES && kind == FINITE; f++) n.v[f] = n.a[f] = (uint64_t)value, n.b[f] = 1;
  n.above = value;
  n.below = kind == FINITE;
  n.shadow = kind == FINITE           ? (double)value
             : kind == PLUS_INFINITY  ? (double)INFINITY
             : kind == MINUS_INFINITY ? -(double)INFINITY
                                      : (double)NAN;
  number_add_new(p, &n);
}

void proof_restart(Proof *p, uint64_t seed, ProofMode mode) {
  if (p->run) arena_free(p->run);
  p->run = arena_new();
  p->seed = seed;
  p->mode = mode;
  fields_of_pair(mode == BY_ROOTS ? 1 + (int)(seed % ROOT_PAIRS) : 0, p->field);
  p->count = 0;
  p->sets.count = p->sets.capacity = 0;
  p->sets.at = NULL;
  p->lost_roots = (LostRoots){0};
  roots_forget(p);
  p->wanted = 0;
  p->stopped = p->splits = false;
  p->bits[0] = p->bits[1] = false;
  if (p->sides) memset(p->sides, 0, (size_t)p->side_count * sizeof *p->sides);
  if (p->slots) memset(p->slots, 0, (size_t)p->slot_count * sizeof *p->slots);
  preset(p, FINITE, 0, ZERO_SIGN);
  preset(p, FINITE, 1, POSITIVE);
  preset(p, PLUS_INFINITY, 0, POSITIVE);
  preset(p, MINUS_INFINITY, 0, NEGATIVE);
  preset(p, NOT_A_NUMBER, 0, ANY_SIGN);
  preset(p, UNKNOWN, 0, ANY_SIGN);
}

// Reserves address space for that many numbers, or for fewer if the system limits it or addresses
// have 32 bits.
static Number *reserve_numbers(int *capacity) {
  for (;; *capacity /= 2) {
    size_t bytes = (size_t)*capacity * sizeof(Number);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) return memory;
    if (*capacity <= 1024) exhausted("out of memory (%zu bytes wanted)", bytes);
  }
}

// Numbers never move; unused address space takes no memory.
Proof *proof_start(Arena *arena, uint64_t seed, double seconds, int64_t bytes) {
  Proof *p = NEW(arena, Proof);
  int64_t most = bytes / (int64_t)sizeof(Number);
  *p = (Proof){.arena = arena, .started = now(), .seconds = seconds};
  p->capacity = (int)(most > INT32_MAX / 4 ? INT32_MAX / 4 : most < 1024 ? 1024 : most);
  p->numbers = reserve_numbers(&p->capacity);
  proof_restart(p, seed, BY_ATOMS);
  return p;
}

void proof_free(Proof *p) {
  arena_free(p->run);
  munmap(p->numbers, (size_t)p->capacity * sizeof(Number));
  free(p->slots);
  free(p->sides);
  free(p->scratch);
}

Side *side_of(Proof *p, Id id) {
  if (id >= p->side_count) {
    int count = id + id / 2 + 256;
    p->sides = realloc(p->sides, (size_t)count * sizeof *p->sides);
    if (!p->sides) exhausted("out of memory (%d numbers wanted)", count);
    memset(p->sides + p->side_count, 0, (size_t)(count - p->side_count) * sizeof *p->sides);
    p->side_count = count;
  }
  return &p->sides[id];
}

const Side *side_known(const Proof *p, Id id) {
  static const Side nothing;
  return id < p->side_count ? &p->sides[id] : &nothing;
}

const CellParts *number_parts(const Proof *p, Id id) { return &side_known(p, id)->parts; }

void number_set_parts(Proof *p, Id id, CellParts parts) {
  if (at(p, id)->kind == FINITE && id >= ID_PRESET) side_of(p, id)->parts = parts;
}

int64_t *proof_scratch(Proof *p, int64_t count) {
  if (count > p->scratch_count) {
    free(p->scratch);
    p->scratch = malloc((size_t)count * sizeof *p->scratch);
    if (!p->scratch) exhausted("out of memory (%lld numbers wanted)", (long long)count);
    p->scratch_count = count;
  }
  return p->scratch;
}

void proof_stop(Proof *p, const Instr *instr) {
  if (!p->stopped) p->why = instr;
  p->stopped = true;
}
bool proof_stopped(const Proof *p, const Instr **why) {
  *why = p->why;
  return p->stopped;
}

void proof_resume(Proof *p) {
  p->started = now();
  p->over = NULL;
  p->stopped = p->splits = false;
  p->why = NULL;
  p->wanted = 0;
}

void proof_side(Proof *p, int side) {
  p->side = side;
  p->bits[side] = false;
}
int proof_side_now(const Proof *p) { return p->side; }
void proof_at(Proof *p, const Instr *instr) { p->instr = instr; }
ProofMode proof_mode(const Proof *p) { return p->mode; }
Arena *proof_arena(const Proof *p) { return p->arena; }
Arena *proof_run_arena(const Proof *p) { return p->run; }
const Number *number_at(const Proof *p, Id id) { return at(p, id); }
bool number_is(const Proof *p, int64_t cell) { return cell >= 0 && cell < p->count; }
uint64_t proof_wanted(const Proof *p) { return p->wanted; }

// ---- limits

bool proof_is_over(const Proof *p) {
  Proof *own = (Proof *)p;
  if (!p->over && (++own->ticks & 255) == 0 && now() - p->started > p->seconds) own->over = "time";
  return p->over || p->wanted;
}

const char *proof_limit_text(const Proof *p) { return p->over; }

// ---- notes

int proof_note_count(const Proof *p) { return p->notes.count; }
const Note *proof_note(const Proof *p, int index) { return &p->notes.at[index]; }

static void add_note(Proof *p, const Note *note) {
  for (int i = p->notes.count - 1; i >= 0; i--) {
    Note *known = &p->notes.at[i];
    bool same = note->text ? known->text && strcmp(known->text, note->text) == 0
                           : known->what[0] == note->what[0] && known->what[1] == note->what[1] &&
                                 (note->what[0] || known->instr == note->instr);
    if (known->kind != note->kind || !same) continue;
    known->sides |= note->sides;
    return;
  }
  LIST_PUSH(p->arena, &p->notes, *note);
}

void proof_remark(Proof *p, NoteKind kind, const Instr *instr, const char *text) {
  add_note(
      p,
      &(Note){.kind = kind, .instr = instr, .text = text, .sides = 1u << p->side, .side = p->side});
}

// For each instruction, the notes of the first run are sufficient.
void note_partial(Proof *p, NoteKind kind, Id argument) {
  const Number *n = at(p, argument);
  if (n->kind != FINITE || n->below || p->mode != BY_ATOMS) return;
  Key key = number_key(p, argument);
  for (int i = p->notes.count - 1, same = 0; i >= 0 && same < 64; i--) {
    const Note *known = &p->notes.at[i];
    same += known->kind == kind && known->instr == p->instr;
    if (same == 64) return;
  }
  add_note(p, &(Note){.kind = kind,
                      .instr = p->instr,
                      .what = {key.word[1], key.word[2]},
                      .sides = 1u << p->side,
                      .side = p->side});
}

// ---- names

Key number_key(const Proof *p, Id x) {
  const Number *n = at(p, x);
  Key key = {{(uint64_t)n->kind, 0, 0, 0}};
  if (n->kind == UNKNOWN) key.word[1] = n->v[0] ? n->v[0] : (uint64_t)x, key.word[2] = n->v[1];
  if (n->kind != FINITE) return key;
  bool logs = has_logs(n);
  if (logs) key.word[0] |= 16;
  for (int f = 0; f < PRIMES; f++)
    key.word[1 + f] =
        logs ? mod_mul(mod_pow(group_generator, n->a[f], p->field[f].p), n->b[f], p->field[f].p)
             : n->v[f];
  memcpy(&key.word[PRIMES + 1], &n->mask, sizeof n->mask);
  return key;
}

bool number_is_named(const Proof *p, Id x) {
  return at(p, x)->kind == UNKNOWN && at(p, x)->v[0] != 0;
}

void draw_key(Draw *h, const Key *key) {
  for (int i = 0; i < PRIMES + 2; i++) draw_add(h, key->word[i]);
}

int compare_keys(const Key *a, const Key *b) {
  for (int i = 0; i < PRIMES + 2; i++)
    if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
  return 0;
}

void draw_number(const Proof *p, Draw *h, Number *n) {
  for (int f = 0; f < PRIMES; f++) {
    n->v[f] = draw_element(h, p->field[f].p);
    n->a[f] = draw_element(h, p->field[f].q);
    n->b[f] = 1;
  }
}

bool number_same(const Proof *p, Id x, Id y, unsigned *lost) {
  const Number *a = at(p, x), *b = at(p, y);
  *lost = (unsigned)(a->lost | b->lost);
  if (a->kind != b->kind) return false;
  if (a->kind == UNKNOWN) return number_is_named(p, x) && a->v[0] == b->v[0] && a->v[1] == b->v[1];
  if (a->kind != FINITE) return true;
  if (a->mask != b->mask) return false;
  if (a->v[0] == b->v[0] && a->v[1] == b->v[1]) return true;
  for (int f = 0; f < PRIMES; f++) {
    uint64_t g = mod_pow(group_generator, a->a[f], p->field[f].p),
             h = mod_pow(group_generator, b->a[f], p->field[f].p);
    if (mod_mul(g, a->b[f], p->field[f].p) != mod_mul(h, b->b[f], p->field[f].p)) return false;
  }
  return true;
}

// ---- the leaves of maxima, in the order of their keys

bool find_leaf(const Proof *p, const LeafSet *set, Id leaf, int *place) {
  Key key = number_key(p, leaf);
  int low = 0, high = set->count;
  while (low < high) {
    int middle = (low + high) / 2;
    Key other = number_key(p, set->at[middle]);
    int order = compare_keys(&other, &key);
    if (order == 0) return true;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *place = low;
  return false;
}

static bool has_leaf(const Proof *p, const LeafSet *set, Id leaf) {
  int place;
  return find_leaf(p, set, leaf, &place);
}

bool is_among(const Proof *p, Id x, Id negative) {
  int which = at(p, x)->set, whole = at(p, negative)->set;
  if (whole >= 0 || which < 0 || at(p, x)->mask != 0) return false;
  const LeafSet *all = &p->sets.at[-whole - 1];
  if (which == 0) return has_leaf(p, all, x);
  const LeafSet *some = &p->sets.at[which - 1];
  for (int i = 0; i < some->count; i++)
    if (!has_leaf(p, all, some->at[i])) return false;
  return true;
}

int number_count(const Proof *p) { return p->count; }
Constants *proof_constants(Proof *p) { return &p->constants; }
bool proof_has_bits(const Proof *p) { return p->bits[0] || p->bits[1]; }
void proof_note_bits(Proof *p, Id atom) { p->bits[p->side] |= at(p, atom)->kind == FINITE; }
bool proof_has_roots(const Proof *p) { return p->roots; }
const LostRoots *proof_lost_roots(const Proof *p) { return &p->lost_roots; }
