// Arithmetic of the TPU model that no command prints by itself: the fold formula, tiles, rates.
#include "codegen/tpu/tpu.h"
#include "check.h"

#include <math.h>
#include <stdio.h>

static void expect(const char *name, double got, double want) {
  check(fabs(got - want) <= 1e-9 * fabs(want), name, "%.17g, expected %.17g", got, want);
}

// SCALE-Sim's golden run of a 256 x 256 by 256 x 128 product on a 32 x 32 weight-stationary array
// reports 52447 cycles, 41248 of them stalls; its count is the number of the last cycle, from 0.
static void test_folds(void) {
  expect("a fold of 8 rows over 4 x 4", mxu_fold_cycles(4, 4, 8), 2 * 4 + 4 + 8 - 2);
  expect("SCALE-Sim's golden run", mxu_serial_cycles(32, 32, 256, 256, 128), 52447 - 41248 + 1);
  expect("a ragged product has whole folds", mxu_serial_cycles(128, 128, 8, 129, 1),
         2 * (3 * 128 + 8 - 2));
}

static void test_tiles(void) {
  const Chip *v5e = chip_find("v5e"), *next = chip_find("7x");
  int64_t padded[3];
  expect("bytes of a column", (double)tpu_padded_bytes(v5e, DT_F32, 2, (int64_t[]){256, 1}, padded),
         256 * 128 * 4);
  expect("a column's lanes", (double)padded[1], 128);
  expect("16-bit rows", (double)tpu_tile_sublanes(v5e, DT_BF16), 8);
  expect("16-bit rows from generation 7 on", (double)tpu_tile_sublanes(next, DT_BF16), 16);
  expect("8-bit rows", (double)tpu_tile_sublanes(v5e, DT_I8), 32);
  expect("4-bit rows", (double)tpu_tile_sublanes(v5e, DT_I4), 64);
  expect("4-bit values lie two to a byte",
         (double)tpu_padded_bytes(v5e, DT_I4, 2, (int64_t[]){64, 128}, NULL), 64 * 128 / 2);
  expect("leading axes are not padded",
         (double)tpu_padded_bytes(v5e, DT_F32, 3, (int64_t[]){3, 8, 128}, NULL), 3 * 8 * 128 * 4);
  expect("too large",
         (double)tpu_padded_bytes(v5e, DT_F32, 2, (int64_t[]){INT64_MAX / 2, 128}, NULL),
         (double)INT64_MAX);
}

static void test_rates(void) {
  const Chip *v5e = chip_find("v5e"), *v4 = chip_find("v4"), *v3 = chip_find("v3");
  expect("f32 in six passes", chip_peak(v5e, DT_F32, 1) * 6, chip_peak(v5e, DT_BF16, 1));
  expect("a megacore has the chip's bandwidth", chip_hbm_bandwidth(v4, 1), 1.2e12);
  expect("a core of v3 has half", chip_hbm_bandwidth(v3, 1), 4.5e11);
  expect("cores of a megacore", chip_cores(v4), 2);
  expect("v5e's peak from its geometry", 4 * 2 * 128.0 * 128 * 1.5e9, 1.96608e14);
  // v5p's vector unit is published as 1.4e13 FLOP/s.
  const double *v = chip_find("v5p")->value;
  expect(
      "v5p's vector unit",
      floor(v[CHIP_CORES] * v[CHIP_SUBLANES] * v[CHIP_LANES] * v[CHIP_ALUS] * v[CHIP_CLOCK] / 1e12),
      14);
}

/* Every chip has the facts by which the model divides. */
static void test_chips(void) {
  Arena *arena = arena_new();
  for (int i = 0; i < chip_count(); i++) {
    const Chip *chip = chip_at(i);
    const double rates[] = {chip_peak(chip, DT_BF16, 1), chip_peak(chip, DT_F32, 1),
                            chip_peak(chip, DT_I8, 1), chip_hbm_bandwidth(chip, 1),
                            chip_vmem_bandwidth(chip)};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
      check(rates[r] > 0 && isfinite(rates[r]), chip->name, "rate %zu is %g", r, rates[r]);
    check(chip_cores(chip) >= 1, chip->name, "has %d cores", chip_cores(chip));
    check(tpu_tile_sublanes(chip, DT_F32) >= 1, chip->name, "has no sublanes");
    check(chip_find(chip->name) == chip, chip->name, "is not found by its name");
  }
  const char *wrong = chip_table_problem(arena);
  check(!wrong, "chips.def", "%s", wrong ? wrong : "");
  arena_free(arena);
}

int main(void) {
  test_chips();
  test_folds();
  test_tiles();
  test_rates();
  return check_end();
}
