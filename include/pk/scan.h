/* scan.h: running sums, products, maxima and minima along lines, in order, PK_LANES lines
 * at a time. Square blocks of elements are transposed in registers, so that each vector holds an
 * element of every line. */
#ifndef PK_SCAN_H
#define PK_SCAN_H

#include <pk/scalar.h>
#include <pk/vec.h>

enum { PK_SCAN_FEWEST = PK_LANES / 4 }; /* lines; fewer are processed one by one */

#define PK_SCAN_AS_IT_IS(v) v

/* T is the type of an element in memory, L of a lane; `in` and `out` convert a vector to the
 * form that pk_transpose_f32 takes, and back. */
#define PK_SCAN(op, T, L, type, vector, in, out)                                                  \
  static inline void pk_scan_line_##op##_##T(type *to, const type *from, int64_t n,               \
                                             bool reverse) {                                      \
    if (n <= 0) return;                                                                           \
    const int64_t first = reverse ? n - 1 : 0, step = reverse ? -1 : 1;                           \
    PK_SCAN_LANE_##L sum = pks_load_##T(from + first);                                            \
    pks_store_##T(to + first, sum);                                                               \
    for (int64_t k = 1; k < n; k++) {                                                             \
      const int64_t at = first + k * step;                                                        \
      sum = pks_##op##_##L(sum, pks_load_##T(from + at));                                         \
      pks_store_##T(to + at, sum);                                                                \
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
      last = begun ? pk_##op##_##L(last, out(x[at])) : out(x[at]);                                \
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
#define PK_SCAN_INTEGER(op, T, L, type) \
  PK_SCAN(op, T, L, type, pk_i32v, pk_bitcast_i32_f32, pk_bitcast_f32_i32)
#define PK_SCAN_FLOAT(op, T, type) \
  PK_SCAN(op, T, f32, type, pk_f32v, PK_SCAN_AS_IT_IS, PK_SCAN_AS_IT_IS)
#define PK_SCAN_LANE_f32 float
#define PK_SCAN_LANE_i32 int32_t
#define PK_SCAN_LANE_u32 uint32_t
/* Sums and products of integers of fewer than 32 bits wrap when they are stored; those of 16-bit
 * floats are f32. */
#define PK_SCAN_INTEGERS(op)              \
  PK_SCAN_INTEGER(op, i8, i32, int8_t)    \
  PK_SCAN_INTEGER(op, u8, u32, uint8_t)   \
  PK_SCAN_INTEGER(op, i16, i32, int16_t)  \
  PK_SCAN_INTEGER(op, u16, u32, uint16_t) \
  PK_SCAN_INTEGER(op, i32, i32, int32_t)  \
  PK_SCAN_INTEGER(op, u32, u32, uint32_t)
#define PK_SCAN_EXTREMES(op)        \
  PK_SCAN_INTEGERS(op)              \
  PK_SCAN_FLOAT(op, f32, float)     \
  PK_SCAN_FLOAT(op, bf16, uint16_t) \
  PK_SCAN_FLOAT(op, f16, uint16_t)

PK_SCAN_FLOAT(add, f32, float)
PK_SCAN_FLOAT(mul, f32, float)
PK_SCAN_INTEGERS(add)
PK_SCAN_INTEGERS(mul)
PK_SCAN_EXTREMES(max)
PK_SCAN_EXTREMES(min)
#undef PK_SCAN_EXTREMES
#undef PK_SCAN_INTEGERS
#undef PK_SCAN_LANE_f32
#undef PK_SCAN_LANE_i32
#undef PK_SCAN_LANE_u32
#undef PK_SCAN_FLOAT
#undef PK_SCAN_INTEGER
#undef PK_SCAN
#undef PK_SCAN_AS_IT_IS

#endif
