// Arithmetic modulo primes below 2^61.
#include "codegen/prove/field.h"

// Primes that are -1 modulo 16 and modulo 3, 5, .. 19, by the multiples of these below 2^61. Each
// prime between 19 and 200000 is a square modulo some of them, and not modulo others.
static const uint64_t step = UINT64_C(16) * 3 * 5 * 7 * 11 * 13 * 17 * 19;
static const uint16_t steps_below[ROOT_PAIRS * PRIMES] = {
    55,   115,  130,  204,  211,  227,  300,  305,  344,  384,  393,  500,  544,  574,  577,  657,
    673,  711,  779,  866,  889,  910,  938,  973,  1017, 1021, 1075, 1119, 1187, 1194, 1211, 1332,
    1395, 1417, 1448, 1466, 1470, 1541, 1554, 1590, 1714, 1754, 1869, 1898, 1900, 1909, 1926, 1941,
    1946, 2025, 2050, 2274, 2293, 2332, 2357, 2359, 2427, 2499, 2564, 2583, 2689, 2835, 2838, 2853};

void fields_of_pair(int pair, Field *fields) {
  static const Field first[PRIMES] = {
      {UINT64_C(2305843009210604639), UINT64_C(1152921504605302319)},
      {UINT64_C(2305843009208027519), UINT64_C(1152921504604013759)}};
  for (int f = 0; f < PRIMES; f++) {
    uint64_t p =
        pair ? ((UINT64_C(1) << 61) / step - steps_below[(pair - 1) * PRIMES + f]) * step - 1 : 0;
    fields[f] = pair ? (Field){p, p / 2} : first[f];
  }
}

uint64_t mod_pow(uint64_t a, uint64_t n, uint64_t m) {
  uint64_t result = 1;
  for (; n; n >>= 1) {
    if (n & 1) result = mod_mul(result, a, m);
    a = mod_mul(a, a, m);
  }
  return result;
}

// Euclid's algorithm, on a * x = r mod m.
uint64_t mod_inverse(uint64_t a, uint64_t m) {
  int64_t x = 1, next_x = 0;
  uint64_t r = a, next_r = m;
  while (next_r) {
    uint64_t quotient = r / next_r, rest = r % next_r;
    int64_t last = x - (int64_t)((__int128)quotient * next_x);
    r = next_r, next_r = rest;
    x = next_x, next_x = last;
  }
  return x < 0 ? m - (uint64_t)-x : (uint64_t)x;
}

uint64_t mod_of(int64_t n, uint64_t m) {
  if (n >= 0 && (uint64_t)n < m) return (uint64_t)n;
  return n >= 0 ? (uint64_t)n % m : mod_neg((0 - (uint64_t)n) % m, m);
}

bool mod_root(uint64_t a, uint64_t m, uint64_t *root) {
  *root = mod_pow(a, (m + 1) / 4, m);  // m = 3 mod 4
  return mod_mul(*root, *root, m) == a;
}

static uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

Draw draw_start(uint64_t key, uint64_t what) {
  Draw h = {mixed(key ^ 0x9e3779b97f4a7c15), mixed(key + 0xd1b54a32d192ed03)};
  draw_add(&h, what);
  return h;
}

void draw_add(Draw *h, uint64_t word) {
  uint64_t a = mixed(h->a + word + 0x9e3779b97f4a7c15),
           b = mixed(h->b ^ (word * 0xff51afd7ed558ccd + 1));
  h->a = a + (b << 17 | b >> 47);
  h->b = mixed(b + a * 0xc4ceb9fe1a85ec53);
}

uint64_t draw_element(Draw *h, uint64_t m) {
  for (;;) {
    draw_add(h, 0x2545f4914f6cdd1d);
    unsigned __int128 wide = (unsigned __int128)mixed(h->a) << 64 | mixed(h->b ^ h->a);
    uint64_t drawn = (uint64_t)(wide % m);
    if (drawn) return drawn;
  }
}
