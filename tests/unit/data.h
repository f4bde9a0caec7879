/* data.h: test data.
 *
 *   random_bits()               32 bits, the same sequence in every run
 *   random_word()               64 bits
 *   random_between(low, high)   an integer, both ends included
 *   allocate(bytes)             memory for the rest of the test, also for 0 bytes; aborts if there
 * is none
 *   allocate_random(bytes)      the same, filled with random bytes
 */
#ifndef DATA_H
#define DATA_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t random_bits(void) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}

static inline uint64_t random_word(void) {
  uint64_t high = random_bits();
  return high << 32 | random_bits();
}

static inline int64_t random_between(int64_t low, int64_t high) {
  return low + (int64_t)(random_word() % (uint64_t)(high - low + 1));
}

static inline void *allocate(int64_t bytes) {
  void *p = malloc(bytes > 0 ? (size_t)bytes : 1);
  if (!p) abort();
  return p;
}

static inline void *allocate_random(int64_t bytes) {
  unsigned char *p = allocate(bytes);
  for (int64_t i = 0; i < bytes; i++) p[i] = (unsigned char)(random_bits() >> 8);
  return p;
}

#endif
