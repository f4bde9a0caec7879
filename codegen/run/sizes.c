// The part of `pkc explain` for given sizes: grid steps, and the VMEM of each buffer compared with
// the budget.
#include "codegen/run/run.h"

#include <string.h>

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

// Prints grid steps and VMEM for the given sizes.
void explain_sizes(Kernel *k, const int64_t *sizes, Buf *out) {
  buf_puts(out, "\nFor");
  for (int i = 0; i < k->sizes.count; i++)
    buf_printf(out, " %s=%lld", k->sizes.at[i].name, (long long)sizes[i]);
  buf_putc(out, '\n');
  explain_steps(k, sizes, out);
  int64_t total = 0, limit = k->vmem_limit ? k->vmem_limit : VMEM_LIMIT_DEFAULT;
  for (int i = 0; i < k->refs.count; i++) {
    const Ref *r = k->refs.at[i];
    int64_t bytes = vmem_bytes(r, sizes);
    if (!add_i64(total, bytes, &total)) total = INT64_MAX;
    if (bytes == 0) continue;
    buf_printf(out, "  %-12s %14lld bytes of VMEM", r->name, (long long)bytes);
    buf_printf(out,
               r->buffers == 2  ? ", two buffers\n"
               : r->buffers > 2 ? ", %d buffers\n"
                                : "\n",
               r->buffers);
  }
  buf_printf(out, "  in all       %14lld of %lld: %s\n", (long long)total, (long long)limit,
             total <= limit && total < INT64_MAX ? "fits"
                                                 : "does not fit; make the largest blocks smaller");
}
