// flags: -march=native
/* The matrix unit of amx.h, emulated: its operations against plain statements of what they compute,
 * the products of dot/amx.h bit by bit against the order of sums that docs/numerics.md gives, how
 * many operations and loads they take, and all that test_dot_groups.c holds products to. */
#define PK_AMX_EMULATED
#ifdef ONE_WIDTH
#define WIDTHS_DONE 1
#else
#define ONE_WIDTH
#define WIDTHS_DONE 0
#endif
#define main test_groups
#include "test_dot_groups.c"
#undef main
#if !WIDTHS_DONE
#include "widths.h"
#endif

static uint16_t random_half(void) { return pk_bf16_from_f32((float)random_bits() * 0x1p-31f - 1); }

/* ---- Operations. */

static void shape(pk_amx *unit, int m, int k, int n) {
  pk_amx_config config = {.palette = 1};
  config.rows[0] = config.rows[1] = (uint8_t)m, config.rows[2] = (uint8_t)k;
  config.bytes[0] = config.bytes[2] = (uint16_t)(4 * n), config.bytes[1] = (uint16_t)(4 * k);
  pk_amx_configure(unit, &config);
}

static void test_bytes_operation(int m, int k, int n, bool left_sign, bool right_sign) {
  unsigned char *a = random_bytes(16 * 64), *b = random_bytes(16 * 64);
  uint32_t *c = random_bytes(16 * 64), wanted[16][16];
  pk_amx unit = {0};
  shape(&unit, m, k, n);
  for (int r = 0; r < m; r++)
    for (int col = 0; col < n; col++) {
      int64_t sum = c[16 * r + col];
      for (int i = 0; i < 4 * k; i++) {
        const int x = a[64 * r + i], y = b[64 * (i / 4) + 4 * col + i % 4];
        sum += (left_sign && x > 127 ? x - 256 : x) * (right_sign && y > 127 ? y - 256 : y);
      }
      wanted[r][col] = (uint32_t)sum;
    }
  pk_amx_load(&unit, 0, c, 64), pk_amx_load(&unit, 1, a, 64), pk_amx_load(&unit, 2, b, 64);
  if (left_sign && right_sign) pk_amx_dot_ss(&unit, 0, 1, 2);
  if (left_sign && !right_sign) pk_amx_dot_su(&unit, 0, 1, 2);
  if (!left_sign && right_sign) pk_amx_dot_us(&unit, 0, 1, 2);
  if (!left_sign && !right_sign) pk_amx_dot_uu(&unit, 0, 1, 2);
  memset(c, 0, 16 * 64);
  pk_amx_store(&unit, 0, c, 64);
  for (int r = 0; r < m; r++)
    check(memcmp(&c[16 * r], wanted[r], (size_t)(4 * n)) == 0, "bytes", "%d x %d x %d, signs %d %d",
          m, k, n, left_sign, right_sign);
  for (int r = 0; r < 16; r++)
    for (int col = 0; col < 16; col++)
      check((r < m && col < n) || c[16 * r + col] == 0, "beyond the shape", "%d x %d", m, n);
  free(a), free(b), free(c);
}

/* One element: the product of a row and a column of 2 k numbers, added to c. */
static float sum_of_pairs(const uint16_t *a, const uint16_t *b, int64_t ldb, int64_t n, float c) {
  float even = 0, odd = 0;
  for (int64_t i = 0; i < n; i += 2) {
    even = fmaf(pk_f32_from_bf16(a[i]), pk_f32_from_bf16(b[i * ldb]), even);
    if (i + 1 < n) odd = fmaf(pk_f32_from_bf16(a[i + 1]), pk_f32_from_bf16(b[(i + 1) * ldb]), odd);
  }
  return c + (even + odd);
}

static void test_subnormal(void) {
  const uint16_t tiny[2] = {0x0001, 0x0001}, one[2] = {0x3f80, 0x3f80}, small[2] = {0x0080, 0x0080},
                 half[2] = {0x3f00, 0};
  float c = 0;
  pk_amx unit = {0};
  shape(&unit, 1, 1, 1);
  pk_amx_load(&unit, 1, tiny, 64), pk_amx_load(&unit, 2, one, 64);
  pk_amx_dot_bf16(&unit, 0, 1, 2);
  pk_amx_store(&unit, 0, &c, 64);
  EXPECT(c == 0); /* a factor */
  pk_amx_load(&unit, 1, small, 64), pk_amx_load(&unit, 2, half, 64);
  pk_amx_dot_bf16(&unit, 0, 1, 2);
  pk_amx_store(&unit, 0, &c, 64);
  EXPECT(c == 0); /* a product */
  pk_amx_load(&unit, 2, one, 64);
  pk_amx_dot_bf16(&unit, 0, 1, 2);
  pk_amx_store(&unit, 0, &c, 64);
  EXPECT(c == 0x1p-125f);
}

/* ---- Products. */

static int64_t ceiling(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* Sums in the order of docs/numerics.md, 32 terms at a time, and the number of operations. */
static void test_bits(int64_t rows, int64_t cols, int64_t k, bool add, bool padded) {
  const int64_t depth = k + k % 2, ldc = padded ? round_up(cols, PK_DOT_NR) : cols;
  uint16_t *a = random_bytes(2 * rows * k), *b = random_bytes(2 * k * cols),
           *panels = random_bytes(2 * depth * round_up(cols, PK_DOT_NR));
  float *c = random_bytes(4 * rows * ldc), *wanted = random_bytes(4 * rows * ldc);
  for (int64_t i = 0; i < rows * k; i++) a[i] = random_half();
  for (int64_t i = 0; i < k * cols; i++) b[i] = random_half();
  for (int64_t i = 0; i < rows * ldc; i++) c[i] = (float)random_bits() * 0x1p-31f;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = 0; n < cols; n++) {
      float sum = add ? c[r * ldc + n] : 0;
      for (int64_t i = 0; i < k; i += 32)
        sum = sum_of_pairs(a + r * k + i, b + i * cols + n, cols, k - i < 32 ? k - i : 32, sum);
      wanted[r * ldc + n] = sum;
    }
  pk_pack_groups_bf16(panels, depth, b, cols, k, cols, cols, 0);
  const pk_dot_product p = {.rows = rows,
                            .cols = cols,
                            .k = k,
                            .a = a,
                            .lda = 2 * k,
                            .panels = panels,
                            .depth = depth,
                            .from = add ? c : NULL,
                            .ldfrom = 4 * ldc,
                            .to = c,
                            .ldto = 4 * ldc,
                            .padded = padded};
  pk_amx unit = {0};
  pk_dot_amx_multiply_bf16(&unit, &p, 2, 0);
  bool right = true;
  for (int64_t r = 0; r < rows; r++)
    right &= memcmp(c + r * ldc, wanted + r * ldc, (size_t)(4 * cols)) == 0;
  check(right, "bits", "%lld x %lld x %lld, add %d", (long long)rows, (long long)k, (long long)cols,
        add);
  /* As few operations as blocks of 16 rows, a vector's columns and 64 bytes of k; and of a whole
   * register tile, four loads for four of them. */
  const int64_t steps = ceiling(k, 32), dots = ceiling(rows, 16) * ceiling(cols, PK_LANES) * steps;
  check(unit.dots == dots, "operations", "%lld, not %lld: %lld x %lld x %lld", (long long)unit.dots,
        (long long)dots, (long long)rows, (long long)k, (long long)cols);
  if (!add && rows % 32 == 0 && cols % PK_DOT_NR == 0 && 2 * k <= 4 * PK_DOT_LONG)
    check(unit.loads == dots, "loads", "%lld for %lld operations", (long long)unit.loads,
          (long long)dots);
  free(a), free(b), free(panels), free(c), free(wanted);
}

static void test_sizes(void) {
  static const int64_t rows[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65},
                       cols[] = {1, 15, 16, 17, 31, 32, 33, 64, 70},
                       depths[] = {1, 2, 3, 31, 32, 33, 63, 64, 96, 130};
  int turn = 0;
  const int every = WIDTHS_DONE ? 11 : 1; /* a fused multiply-add may take a call */
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
      for (size_t d = 0; d < sizeof depths / sizeof *depths; d++, turn++)
        if (turn % every == 0) test_bits(rows[r], cols[c], depths[d], turn & 1, turn & 2);
  test_bits(33, 40, 2 * PK_DOT_LONG, true,
            false); /* divided products, and rows that evict each other */
  test_bits(35, 70, 5 * PK_DOT_LONG + 3, false, false);
}

int main(int argc, char **argv) {
  for (int i = 0; i < 4; i++)
    for (int m = 1; m <= 16; m += 5)
      for (int k = 1; k <= 16; k += 5)
        for (int n = 1; n <= 16; n += 3) test_bytes_operation(m, k, n, i & 1, i & 2);
  test_subnormal();
  test_sizes();
#if !WIDTHS_DONE
  run_widths(__FILE__);
#endif
  return test_groups(argc, argv);
}
