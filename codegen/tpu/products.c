// The pairs of operands that the matrix units of each generation take: rows of rules.def.
#include "codegen/tpu/internal.h"

enum {
#define RULE_SOURCE(id, text) SOURCE_##id,
#include "codegen/tpu/rules.def"
  SOURCES
};

static const char *const sources[SOURCES] = {
#define RULE_SOURCE(id, text) text,
#include "codegen/tpu/rules.def"
};

#define IN(dtype) (1u << DT_##dtype)
static const struct {  // left and right are sets of dtypes
  int first, last;
  unsigned left, right;
  int source;
} products[] = {
#define PRODUCT(first, last, left, right, source) {first, last, left, right, SOURCE_##source},
#include "codegen/tpu/rules.def"
};
#undef IN

enum { PRODUCTS = sizeof products / sizeof *products };

bool chip_multiplies(const Chip *chip, DType a, DType b) {
  int generation = (int)chip->value[CHIP_GENERATION];
  for (int i = 0; i < PRODUCTS; i++) {
    if (generation < products[i].first || generation > products[i].last) continue;
    if (products[i].left >> a & 1 && products[i].right >> b & 1) return true;
  }
  return false;
}

static void put_dtypes(Buf *out, unsigned set) {
  const char *between = "";
  for (int t = 0; t < DT_COUNT; t++)
    if (set >> t & 1) {
      buf_printf(out, "%s%s", between, dtype_info[t].name);
      between = ", ";
    }
}

void tpu_list_products(Buf *out) {
  buf_puts(out, "operands of dot that the matrix unit takes, by generation\n");
  for (int i = 0; i < PRODUCTS; i++) {
    buf_printf(out, "  %d to %d  ", products[i].first, products[i].last);
    put_dtypes(out, products[i].left);
    buf_puts(out, " by ");
    put_dtypes(out, products[i].right);
    buf_printf(out, "  %s\n", sources[products[i].source]);
  }
}
