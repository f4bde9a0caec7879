// What `pkc explain` says when sizes are given: grid steps, and VMEM against its budget, buffer by buffer.
#include "codegen/interp.h"
#include "codegen/emit.h"

#include <string.h>

// Extents of a block are constants or sizes; a block takes whole tiles.
static int64_t padded_bytes(const Type *t, const int64_t *sizes) {
  int64_t bytes = dtype_bytes(t->dtype);
  for (int i = 0; i < t->rank; i++) {
    int64_t n = dim_is_const(t->dim[i]) ? t->dim[i] : sizes[dim_size_index(t->dim[i])];
    int64_t tile = i == t->rank - 1 ? TILE_LANES : i == t->rank - 2 ? tile_sublanes(t->dtype) : 1;
    if (!mul_i64(bytes, (n + tile - 1) / tile * tile, &bytes)) return INT64_MAX;
  }
  return dtype_info[t->dtype].bits == 4 ? (bytes + 1) / 2 : bytes;
}

static void explain_steps(Kernel *k, const int64_t *sizes, Buf *out) {
  int64_t steps = 1;
  buf_puts(out, "  grid        ");
  for (int i = 0; i < k->grid.count; i++) {
    int64_t extent = eval_index(k, k->grid.at[i].extent, sizes, NULL, 0);
    if (extent < 0) extent = 0;
    buf_printf(out, " %s = %lld,", k->grid.at[i].name, (long long)extent);
    if (!mul_i64(steps, extent, &steps)) steps = INT64_MAX;
  }
  buf_printf(out, " %lld step%s\n", (long long)steps, steps == 1 ? "" : "s");
}

void explain_sizes(Kernel *k, const int64_t *sizes, Buf *out) {
  buf_puts(out, "\nFor");
  for (int i = 0; i < k->sizes.count; i++) buf_printf(out, " %s=%lld", k->sizes.at[i].name, (long long)sizes[i]);
  buf_putc(out, '\n');
  explain_steps(k, sizes, out);
  int64_t total = 0, limit = k->vmem_limit ? k->vmem_limit : VMEM_LIMIT_DEFAULT;
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *r = k->refs.at[i];
    int64_t copies = ref_is_operand(r) && !r->whole ? 2 : 1, bytes = padded_bytes(&r->type, sizes);
    if (!mul_i64(bytes, copies, &bytes) || !add_i64(total, bytes, &total)) total = bytes = INT64_MAX;
    buf_printf(out, "  %-12s %14lld bytes of VMEM%s\n", r->name, (long long)bytes, copies == 2 ? ", two buffers" : "");
    if (total == INT64_MAX) break;
  }
  buf_printf(out, "  in all       %14lld of %lld: %s\n", (long long)total, (long long)limit,
             total <= limit ? "fits" : "does not fit; make the largest blocks smaller");
}
