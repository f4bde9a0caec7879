// The two prime fields of the proof's numbers, and in each a subgroup of prime order.
#ifndef CODEGEN_PROVE_FIELD_H
#define CODEGEN_PROVE_FIELD_H

#include <stdbool.h>
#include <stdint.h>

enum { PRIMES = 2 };

// p = 2 q + 1, both prime, below 2^61 and 2^60. q is 7 mod 8, and 2, 3, 5, 7, 11 and 13 are squares
// modulo both: so numbers with no other prime factors have roots. -1 is not a square, so one of the
// two roots is a square itself; it is `the` root, and the root of a product of squares is the
// product of their roots.
typedef struct {
  uint64_t p, q;
} Field;
// Pair 0 is just below the powers of 2. The root of (17 x)^2 is 17 times the root of x^2 if 17 is a
// square, else -17 times: each of the other pairs has other squares, so that neither is proved of a
// number that is a square in some and none in others. Of them 17 and 19 are squares too.
enum { ROOT_PAIRS = 32 };
void fields_of_pair(int pair, Field *fields);
static const uint64_t group_generator = 4;  // a square, so of order q

static inline uint64_t mod_add(uint64_t a, uint64_t b, uint64_t m) {
  uint64_t sum = a + b;
  return sum >= m ? sum - m : sum;
}
static inline uint64_t mod_neg(uint64_t a, uint64_t m) { return a ? m - a : 0; }
// m is 2^bits - c with a small c, so the upper part counts c times in the lower one.
static inline uint64_t mod_reduce(unsigned __int128 x, uint64_t m) {
  int bits = m >> 60 ? 61 : 60;
  uint64_t mask = (UINT64_C(1) << bits) - 1, c = mask + 1 - m;
  while (x >> bits) x = ((uint64_t)x & mask) + (x >> bits) * c;
  return (uint64_t)x >= m ? (uint64_t)x - m : (uint64_t)x;
}
static inline uint64_t mod_mul(uint64_t a, uint64_t b, uint64_t m) {
  return mod_reduce((unsigned __int128)a * b, m);
}
uint64_t mod_pow(uint64_t a, uint64_t n, uint64_t m);
uint64_t mod_inverse(uint64_t a, uint64_t m);  // of a nonzero element of a prime field
uint64_t mod_of(int64_t n, uint64_t m);
// The root that is a square itself; false: there is none.
bool mod_root(uint64_t a, uint64_t m, uint64_t *root);

// A keyed hash of words, from which elements are drawn: equal words give equal elements, others
// independent ones.
typedef struct {
  uint64_t a, b;
} Draw;
Draw draw_start(uint64_t key, uint64_t what);
void draw_add(Draw *h, uint64_t word);
uint64_t draw_element(Draw *h, uint64_t m);  // the next element modulo m, not 0

#endif
