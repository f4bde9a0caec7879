/* amx.h: the matrix unit of Intel's server cores from the fourth generation of Xeon on: eight tiles
 * of up to 16 rows of up to 64 bytes, and sums of products of them.
 *
 *   pk_amx_configure(unit, config)        shapes of the tiles; all become zero
 *   pk_amx_zero(unit, t)
 *   pk_amx_load(unit, t, from, ld)        rows `ld` bytes apart
 *   pk_amx_store(unit, t, to, ld)
 *   pk_amx_dot_bf16(unit, c, a, b)        c [m, n] += a [m, 2 k] b [k, n, 2], in f32
 *   pk_amx_dot_ss, _su, _us, _uu          c [m, n] += a [m, 4 k] b [k, n, 4], bytes with (s) or
 *                                         without (u) a sign, in i32; sums wrap
 *   pk_amx_release(unit)                  the unit is idle again
 *
 * t, c, a, b are numbers, 0 to 7, written out. PK_AMX is 1 where these are instructions or, with
 * PK_AMX_EMULATED, functions on a `pk_amx` in memory. A processor may lack the unit, or the system
 * keep it: ask pk_amx_ready() first.
 *
 * Source of what an operation computes: Intel 64 and IA-32 Architectures Software Developer's
 * Manual, volume 2, TILELOADD, TDPBF16PS, TDPBSSD. TDPBF16PS sums the even and the odd products of
 * a row separately, in the order of k, each by a fused multiply-add; it then adds the two sums to
 * each other and the result to c. Subnormal operands and results are 0.
 */
#ifndef PK_AMX_H
#define PK_AMX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The macros of GCC, and of Clang up to 15. */
#if (defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AMX_BF16__)) || \
    (defined(__AMXTILE__) && defined(__AMXINT8__) && defined(__AMXBF16__))
#define PK_AMX_INSTRUCTIONS 1
#else
#define PK_AMX_INSTRUCTIONS 0
#endif
#if defined(PK_AMX_EMULATED) || (PK_AMX_INSTRUCTIONS && !defined(SIMDE_NO_NATIVE))
#define PK_AMX 1
#else
#define PK_AMX 0
#endif

enum { PK_AMX_ROWS = 16, PK_AMX_BYTES = 64, PK_AMX_TILES = 8 };

/* As LDTILECFG reads it. */
typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16]; /* bytes of a row, by tile */
  uint8_t rows[16];
} pk_amx_config;

#if PK_AMX && !defined(PK_AMX_EMULATED)

#include <immintrin.h>
#include <pk/rt.h>
static inline bool pk_amx_ready(void) { return pk_has_amx(); }
typedef char pk_amx; /* the unit is the thread's own */

/* The intrinsics of some compilers do not say that they read memory. */
#define PK_AMX_MEMORY __asm__ volatile("" ::: "memory")
#define pk_amx_configure(unit, config) \
  do {                                 \
    (void)(unit);                      \
    PK_AMX_MEMORY;                     \
    _tile_loadconfig(config);          \
  } while (0)
#define pk_amx_zero(unit, t) _tile_zero(t)
#define pk_amx_load(unit, t, from, ld)     \
  do {                                     \
    PK_AMX_MEMORY;                         \
    _tile_loadd(t, from, (long long)(ld)); \
  } while (0)
#define pk_amx_store(unit, t, to, ld)     \
  do {                                    \
    _tile_stored(t, to, (long long)(ld)); \
    PK_AMX_MEMORY;                        \
  } while (0)
#define pk_amx_dot_bf16(unit, c, a, b) _tile_dpbf16ps(c, a, b)
#define pk_amx_dot_ss(unit, c, a, b) _tile_dpbssd(c, a, b)
#define pk_amx_dot_su(unit, c, a, b) _tile_dpbsud(c, a, b)
#define pk_amx_dot_us(unit, c, a, b) _tile_dpbusd(c, a, b)
#define pk_amx_dot_uu(unit, c, a, b) _tile_dpbuud(c, a, b)
#define pk_amx_release(unit) _tile_release()

#elif PK_AMX

typedef struct {
  pk_amx_config config;
  unsigned char tile[PK_AMX_TILES][PK_AMX_ROWS][PK_AMX_BYTES];
  int64_t loads, stores, dots; /* counted for tests */
} pk_amx;

static inline bool pk_amx_ready(void) { return true; }

static inline void pk_amx_configure(pk_amx *unit, const pk_amx_config *config) {
  unit->config = *config;
  memset(unit->tile, 0, sizeof unit->tile);
}
static inline void pk_amx_zero(pk_amx *unit, int t) {
  memset(unit->tile[t], 0, sizeof unit->tile[t]);
}
static inline void pk_amx_load(pk_amx *unit, int t, const void *from, int64_t ld) {
  pk_amx_zero(unit, t);
  unit->loads++;
  for (int r = 0; r < unit->config.rows[t]; r++)
    memcpy(unit->tile[t][r], (const char *)from + r * ld, unit->config.bytes[t]);
}
static inline void pk_amx_store(pk_amx *unit, int t, void *to, int64_t ld) {
  unit->stores++;
  for (int r = 0; r < unit->config.rows[t]; r++)
    memcpy((char *)to + r * ld, unit->tile[t][r], unit->config.bytes[t]);
}
static inline void pk_amx_release(pk_amx *unit) { unit->config.palette = 0; }

/* Replaces subnormal numbers by 0. */
static inline float pk_amx_normal(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (!(bits & 0x7f800000u)) bits &= 0x80000000u;
  memcpy(&x, &bits, 4);
  return x;
}
static inline float pk_amx_number(const unsigned char *bf16) {
  const uint32_t bits = (uint32_t)bf16[0] << 16 | (uint32_t)bf16[1] << 24;
  float x;
  memcpy(&x, &bits, 4);
  return pk_amx_normal(x);
}
/* The processor raises an exception for shapes that do not match. */
static inline void pk_amx_begin_dot(pk_amx *unit, int c, int a, int b) {
  const pk_amx_config *s = &unit->config;
  if (s->palette != 1 || c == a || c == b || a == b || s->rows[c] != s->rows[a] ||
      s->bytes[c] != s->bytes[b] || s->bytes[a] != 4 * s->rows[b] || s->bytes[c] % 4)
    __builtin_trap();
  unit->dots++;
}
static inline void pk_amx_dot_bf16(pk_amx *unit, int c, int a, int b) {
  pk_amx_begin_dot(unit, c, a, b);
  for (int m = 0; m < unit->config.rows[c]; m++)
    for (int n = 0; n < unit->config.bytes[c] / 4; n++) {
      float sum[2] = {0, 0}, old;
      for (int k = 0; k < unit->config.bytes[a] / 2; k++)
        sum[k % 2] = pk_amx_normal(
            __builtin_fmaf(pk_amx_number(&unit->tile[a][m][2 * k]),
                           pk_amx_number(&unit->tile[b][k / 2][4 * n + k % 2 * 2]), sum[k % 2]));
      memcpy(&old, &unit->tile[c][m][4 * n], 4);
      old = pk_amx_normal(pk_amx_normal(old) + pk_amx_normal(sum[0] + sum[1]));
      memcpy(&unit->tile[c][m][4 * n], &old, 4);
    }
}

#define PK_AMX_DOT_BYTES(name, left, right)                                                       \
  static inline void pk_amx_dot_##name(pk_amx *unit, int c, int a, int b) {                       \
    pk_amx_begin_dot(unit, c, a, b);                                                              \
    for (int m = 0; m < unit->config.rows[c]; m++)                                                \
      for (int n = 0; n < unit->config.bytes[c] / 4; n++) {                                       \
        uint32_t sum;                                                                             \
        memcpy(&sum, &unit->tile[c][m][4 * n], 4);                                                \
        for (int k = 0; k < unit->config.bytes[a]; k++)                                           \
          sum +=                                                                                  \
              (uint32_t)((left)unit->tile[a][m][k] * (right)unit->tile[b][k / 4][4 * n + k % 4]); \
        memcpy(&unit->tile[c][m][4 * n], &sum, 4);                                                \
      }                                                                                           \
  }
PK_AMX_DOT_BYTES(ss, int8_t, int8_t)
PK_AMX_DOT_BYTES(su, int8_t, uint8_t)
PK_AMX_DOT_BYTES(us, uint8_t, int8_t)
PK_AMX_DOT_BYTES(uu, uint8_t, uint8_t)

#endif
/* Calls dot/amx.h and returns, if there is a matrix unit. For functions without a result. */
#if PK_AMX
#define PK_DOT_ON_AMX(kind, product, size, factor)            \
  if (pk_amx_ready()) {                                       \
    pk_amx unit = {0};                                        \
    pk_dot_amx_multiply_##kind(&unit, product, size, factor); \
    return;                                                   \
  }
#else
#define PK_DOT_ON_AMX(kind, product, size, factor)
#endif

#endif
