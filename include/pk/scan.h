/* scan.h: running sums, products, maxima and minima along lines, in order: as many lines at a time
 * as a vector has lanes. Square blocks of elements go through registers, turned, so that each
 * vector holds an element of every line. */
#ifndef PK_SCAN_H
#define PK_SCAN_H

#include <pk/scalar.h>
#include <pk/vec.h>

enum { PK_SCAN_FEWEST = PK_LANES / 4 }; /* lines; fewer go one by one */

#define PK_SCAN_AS_IT_IS(v) v

/* `in` and `out` are the T and the vector of a line's elements as pk_transpose_f32 takes them. */
#define PK_SCAN(op, T, type, vector, in, out)                                                     \
  static inline void pk_scan_line_##op##_##T(type *to, const type *from, int64_t n,               \
                                             bool reverse) {                                      \
    for (int64_t k = 0; k < n; k++) {                                                             \
      const int64_t at = reverse ? n - 1 - k : k;                                                 \
      to[at] = k ? pks_##op##_##T(to[reverse ? at + 1 : at - 1], from[at]) : from[at];            \
    }                                                                                             \
  }                                                                                               \
  /* `last`: the lines so far, if there is anything before; `width` columns of `count` lines */   \
  PK_INLINE vector pk_scan_block_##op##_##T(type *to, int64_t to_row, const type *from,           \
                                            int64_t from_row, int count, int width, bool reverse, \
                                            vector last, bool begun) {                            \
    pk_f32v x[PK_LANES];                                                                          \
    PK_UNROLL for (int k = 0; k < PK_LANES; k++) x[k] =                                           \
        k < count ? in(pk_loadn_##T(from + k * from_row, width)) : pk_splat_f32(0);               \
    pk_transpose_f32(x);                                                                          \
    PK_UNROLL for (int k = 0; k < PK_LANES; k++) {                                                \
      const int at = reverse ? PK_LANES - 1 - k : k;                                              \
      if (at >= width) continue;                                                                  \
      last = begun ? pk_##op##_##T(last, out(x[at])) : out(x[at]);                                \
      begun = true;                                                                               \
      x[at] = in(last);                                                                           \
    }                                                                                             \
    pk_transpose_f32(x);                                                                          \
    PK_UNROLL for (int k = 0; k < PK_LANES; k++) if (k < count)                                   \
        pk_storen_##T(to + k * to_row, out(x[k]), width);                                         \
    return last;                                                                                  \
  }                                                                                               \
  static inline void pk_scan_lines_##op##_##T(type *to, int64_t to_row, const type *from,         \
                                              int64_t from_row, int64_t rows, int64_t n,          \
                                              bool reverse) {                                     \
    for (int64_t row = 0; row < rows; row += PK_LANES) {                                          \
      const int count = pk_clamp_lanes(rows - row);                                               \
      type *const line = to + row * to_row;                                                       \
      const type *const source = from + row * from_row;                                           \
      vector last = out(pk_splat_f32(0));                                                         \
      for (int k = 0; k < count && count < PK_SCAN_FEWEST; k++)                                   \
        pk_scan_line_##op##_##T(line + k * to_row, source + k * from_row, n, reverse);            \
      for (int64_t step = 0; step < n && count >= PK_SCAN_FEWEST; step += PK_LANES) {             \
        const int width = pk_clamp_lanes(n - step);                                               \
        const int64_t at = reverse ? n - step - width : step;                                     \
        if (count == PK_LANES && width == PK_LANES && step > 0)                                   \
          last = pk_scan_block_##op##_##T(line + at, to_row, source + at, from_row, PK_LANES,     \
                                          PK_LANES, reverse, last, true);                         \
        else                                                                                      \
          last = pk_scan_block_##op##_##T(line + at, to_row, source + at, from_row, count, width, \
                                          reverse, last, step > 0);                               \
      }                                                                                           \
    }                                                                                             \
  }
#define PK_SCAN_I32(op) PK_SCAN(op, i32, int32_t, pk_i32v, pk_bitcast_i32_f32, pk_bitcast_f32_i32)
#define PK_SCAN_F32(op) PK_SCAN(op, f32, float, pk_f32v, PK_SCAN_AS_IT_IS, PK_SCAN_AS_IT_IS)

PK_SCAN_F32(add)
PK_SCAN_F32(mul)
PK_SCAN_F32(max)
PK_SCAN_F32(min)
PK_SCAN_I32(add)
PK_SCAN_I32(mul)
PK_SCAN_I32(max)
PK_SCAN_I32(min)
#undef PK_SCAN_I32
#undef PK_SCAN_F32
#undef PK_SCAN
#undef PK_SCAN_AS_IT_IS

#endif
