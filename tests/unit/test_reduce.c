/* The reductions of reduce.h against pk_max_f32 and pk_min_f32 one by one, at every width. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pk/reduce.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#ifndef ONE_WIDTH
#include "widths.h"
#endif

static bool same(const float *a, const float *b) {
  for (int k = 0; k < PK_LANES; k++)
    if (!(isnan(a[k]) && isnan(b[k])) && memcmp(&a[k], &b[k], 4) != 0) return false;
  return true;
}

static void expect(pk_f32v got, pk_f32v wanted, const char *what, int count, uint32_t kinds) {
  float a[PK_LANES], b[PK_LANES];
  pk_store_f32(a, got);
  pk_store_f32(b, wanted);
  check(same(a, b), what, "%d bytes: of %d, kinds %x", PK_VEC_BYTES, count, kinds);
}

/* Vectors of the values, out of eight, that the bits of `kinds` select. */
static void test_values(int count, uint32_t kinds, uint32_t seed) {
  static const float values[] = {0.0f, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, -NAN};
  pk_f32v greatest = pk_splat_f32(-INFINITY), least = pk_splat_f32(INFINITY);
  pk_extreme_f32 max = pk_max_start_f32(), min = pk_min_start_f32();
  for (int i = 0; i < count; i++) {
    float v[PK_LANES];
    for (int k = 0; k < PK_LANES; k++) {
      do seed = seed * 1664525 + 1013904223;
      while (!(kinds >> (seed >> 29) & 1));
      v[k] = values[seed >> 29];
    }
    const pk_f32v x = pk_load_f32(v);
    greatest = pk_max_f32(greatest, x);
    least = pk_min_f32(least, x);
    max = pk_max_step_f32(max, x);
    min = pk_min_step_f32(min, x);
  }
  expect(pk_max_finish_f32(max), greatest, "max", count, kinds);
  expect(pk_min_finish_f32(min), least, "min", count, kinds);
}

int main(void) {
  for (uint32_t kinds = 1; kinds < 256; kinds++)
    for (int count = 0; count < 8; count++) test_values(count, kinds, kinds * 8 + (uint32_t)count);
#ifndef ONE_WIDTH
  run_widths(__FILE__);
#endif
  return check_end();
}
