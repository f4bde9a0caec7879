// Numbers with their units.
#include "codegen/tpu/internal.h"

void tpu_put_time(Buf *out, double seconds) {
  if (seconds >= 1)
    buf_printf(out, "%.4g s", seconds);
  else if (seconds >= 1e-3)
    buf_printf(out, "%.4g ms", seconds * 1e3);
  else
    buf_printf(out, "%.4g us", seconds * 1e6);
}

void tpu_put_bytes(Buf *out, int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double n = (double)bytes;
  int unit = 0;
  while (n >= 1024 && unit < 4) n /= 1024, unit++;
  buf_printf(out, "%.4g %s", n, units[unit]);
}
