/* pack.h: relayouts: into the panels of dot.h, into padded rows, and transposes. A source is a
 * matrix whose rows (or, in the _t forms, columns) are contiguous; ld is the distance between them
 * in elements, and may be negative. Only the valid part of the source is read.
 *
 *   pk_pack_panels_T(dst, depth, src, ld, k, n, cols, pad)
 *                                      panels of dot.h: element (kk, nn) = src[kk * ld + nn]
 *   pk_pack_panels_t_T                 the same with element (kk, nn) = src[nn * ld + kk]
 *   pk_pack_rows_T(dst, dld, src, ld, rows, cols, full_rows, full_cols, pad)
 *                                      dst[r * dld + c] = src[r * ld + c]
 *   pk_pack_rows_t_T                   the same with src[c * ld + r]
 *   pk_copy_rows_T, pk_copy_rows_t_T   as pk_pack_rows_T, without conversion
 *   pk_transpose_block_T(dst, dld, src, ld, rows, cols)
 *                                      dst[c * dld + r] = src[r * ld + c]
 *
 * T of a pack is the dtype of the source. Floats become float. Integers of 4 and 8 bits and i16
 * become int16_t, which panels hold as pairs along k, so depth is even; the same holds for bytes
 * that become bf16 (i8_bf16, u8_bf16). i32 and u32 are unchanged. The valid part is k x n or rows x
 * cols; pad fills the rest, up to depth rows of whole panels of cols columns, or up to full_rows x
 * full_cols. T of a copy or transpose is b1, b2 or b4, for elements of that many bytes, or f32.
 */
#ifndef PK_PACK_H
#define PK_PACK_H
#ifdef PK_MICRO
#include <pk/micro.h>
#else

#include <pk/dot.h>

/* Kinds of source elements, constant in every call. B4: elements of 4 bytes at any distance. */
typedef enum {
#define PK_PACK_KIND(kind, dtype, source, to, lanes) PK_PACK_##kind,
  PK_PACK_DTYPES(PK_PACK_KIND)
#undef PK_PACK_KIND
      PK_PACK_B4
} pk_pack_kind;

PK_DOT_INLINE int64_t pk_pack_bytes(const pk_pack_kind kind) {
#define PK_PACK_SIZE(kind_, dtype, source, to, lanes) \
  if (kind == PK_PACK_##kind_) return (int64_t)sizeof(source);
  PK_PACK_DTYPES(PK_PACK_SIZE)
#undef PK_PACK_SIZE
  return 4;
}

PK_DOT_INLINE bool pk_pack_is_word(const pk_pack_kind kind) {
  return kind == PK_PACK_I8 || kind == PK_PACK_U8 || kind == PK_PACK_I16 || kind == PK_PACK_I4 ||
         kind == PK_PACK_U4 || kind == PK_PACK_I2 || kind == PK_PACK_U2 ||
         kind == PK_PACK_I8_BF16 || kind == PK_PACK_U8_BF16;
}

PK_DOT_INLINE pk_i32v pk_pack_from_f32(pk_f32v v) { return pk_bitcast_f32_i32(v); }
PK_DOT_INLINE pk_i32v pk_pack_from_i32(pk_i32v v) { return v; }
PK_DOT_INLINE pk_i32v pk_pack_pad_f32(float pad) { return pk_bitcast_f32_i32(pk_splat_f32(pad)); }
PK_DOT_INLINE pk_i32v pk_pack_pad_i32(int32_t pad) { return pk_splat_i32(pad); }

/* Bytes of an element in a product of f32. */
PK_DOT_INLINE pk_f32v pk_loadn_i8_f32(const int8_t *p, int64_t n) {
  return pk_cast_i32_f32(pk_loadn_i8(p, n));
}
PK_DOT_INLINE pk_f32v pk_loadn_u8_f32(const uint8_t *p, int64_t n) {
  return pk_cast_i32_f32(pk_loadn_u8(p, n));
}

/* The same for a product of bf16, which contains every byte value. */
PK_DOT_INLINE pk_i32v pk_pack_upper(pk_f32v v) {
  return pk_shift_right_unsigned(pk_bitcast_f32_i32(v), 16);
}
PK_DOT_INLINE pk_i32v pk_loadn_i8_bf16(const int8_t *p, int64_t n) {
  return pk_pack_upper(pk_loadn_i8_f32(p, n));
}
PK_DOT_INLINE pk_i32v pk_loadn_u8_bf16(const uint8_t *p, int64_t n) {
  return pk_pack_upper(pk_loadn_u8_f32(p, n));
}

/* n elements, widened to 32 bits, then `pad`: all lanes if n is larger, none if n < 1. */
PK_DOT_INLINE pk_i32v pk_pack_get(const pk_pack_kind kind, const char *src, int64_t n,
                                  pk_i32v pad) {
  if (n <= 0) return pad;
  const void *from = src;
  pk_i32v v = pad;
#define PK_PACK_LOAD(kind_, dtype, source, to, lanes) \
  if (kind == PK_PACK_##kind_) v = pk_pack_from_##lanes(pk_loadn_##dtype((const source *)from, n));
  PK_PACK_DTYPES(PK_PACK_LOAD)
#undef PK_PACK_LOAD
  if (kind == PK_PACK_B4) memcpy(&v, from, n >= PK_LANES ? sizeof v : 4 * (size_t)n);
  return n >= PK_LANES ? v : pk_select_i32(pk_mask_first(n), v, pad);
}

/* Stores the first n lanes as elements of the destination. */
PK_DOT_INLINE void pk_pack_put(const pk_pack_kind kind, void *dst, pk_i32v v, int64_t n) {
  if (pk_pack_is_word(kind))
    pk_storen_i16((int16_t *)dst, v, n);
  else
    pk_storen_i32((int32_t *)dst, v, n);
}

/* In the order of memory, as in the left operand. */
PK_DOT_INLINE pk_i32v pk_pack_pair(pk_i32v even, pk_i32v odd) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  const pk_i32v first = even;
  even = odd;
  odd = first;
#endif
  return pk_or_i32(pk_and_i32(even, pk_splat_i32(0xffff)), pk_shl_i32(odd, pk_splat_i32(16)));
}

/* Transposes PK_LANES lines of n elements, of which `lines` exist: lane i of transposed[t] is
 * element t of line i. */
PK_DOT_INLINE void pk_pack_transposed(const pk_pack_kind kind, pk_i32v transposed[PK_LANES],
                                      const char *src, int64_t ld, int64_t lines, int64_t n,
                                      pk_i32v pad) {
  pk_f32v line[PK_LANES];
  if (lines >= PK_LANES && n >= PK_LANES) {
    PK_DOT_UNROLL for (int i = 0; i < PK_LANES; i++) line[i] =
        pk_bitcast_i32_f32(pk_pack_get(kind, src + i * ld, PK_LANES, pad));
  } else {
    for (int i = 0; i < PK_LANES; i++)
      line[i] = pk_bitcast_i32_f32(i < lines ? pk_pack_get(kind, src + i * ld, n, pad) : pad);
  }
  pk_transpose_f32(line);
  PK_DOT_UNROLL for (int t = 0; t < PK_LANES; t++) transposed[t] = pk_bitcast_f32_i32(line[t]);
}

/* From here on ld is in bytes. Packs rows [from, to) of one panel, whose source has k rows and n
 * columns. */
PK_DOT_INLINE void pk_pack_panel(const pk_pack_kind kind, int32_t *dst, const char *src, int64_t ld,
                                 int64_t from, int64_t to, int64_t k, int64_t n, pk_i32v pad) {
  const int64_t size = pk_pack_bytes(kind), steps = pk_pack_is_word(kind) ? 2 : 1;
  for (int64_t kk = from; kk < to; kk += steps)
    PK_DOT_UNROLL for (int v = 0; v < PK_DOT_NR; v += PK_LANES) {
      pk_i32v row = pk_pack_get(kind, src + kk * ld + v * size, kk < k ? n - v : 0, pad);
      if (steps == 2)
        row = pk_pack_pair(
            row, pk_pack_get(kind, src + (kk + 1) * ld + v * size, kk + 1 < k ? n - v : 0, pad));
      pk_store_i32(dst + kk / steps * PK_DOT_NR + v, row);
    }
}

/* A few rows fill all panels before the next rows, because an uncached source is faster to read
 * along its rows: 512 x 512 f32 from memory 97 us instead of 118, but in L2 80 instead of 65. */
PK_DOT_INLINE void pk_pack_panels(const pk_pack_kind kind, int32_t *dst, int64_t depth,
                                  const char *src, int64_t ld, int64_t k, int64_t n, int64_t cols,
                                  pk_i32v pad) {
  const int64_t size = pk_pack_bytes(kind), steps = pk_pack_is_word(kind) ? 2 : 1;
  for (int64_t from = 0, to; from < depth; from = to) {
    to = depth - from > 16 * steps ? from + 16 * steps : depth;
    for (int64_t c = 0; c < cols; c += PK_DOT_NR) {
      int32_t *panel = dst + c * depth / steps;
      if (to <= k && c + PK_DOT_NR <= n)
        pk_pack_panel(kind, panel, src + c * size, ld, from, to, INT64_MAX, PK_DOT_NR, pad);
      else
        pk_pack_panel(kind, panel, src + c * size, ld, from, to, k, n - c, pad);
    }
  }
}

PK_DOT_INLINE void pk_pack_panels_t(const pk_pack_kind kind, int32_t *dst, int64_t depth,
                                    const char *src, int64_t ld, int64_t k, int64_t n, int64_t cols,
                                    pk_i32v pad) {
  const int64_t size = pk_pack_bytes(kind), steps = pk_pack_is_word(kind) ? 2 : 1,
                rows = depth / steps;
  for (int64_t c = 0; c < cols; c += PK_DOT_NR, dst += rows * PK_DOT_NR)
    for (int64_t v = 0; v < PK_DOT_NR; v += PK_LANES)
      for (int64_t kk = 0; kk < depth; kk += PK_LANES) {
        pk_i32v transposed[PK_LANES];
        pk_pack_transposed(kind, transposed, src + (c + v) * ld + kk * size, ld, n - c - v, k - kk,
                           pad);
        int32_t *to = dst + kk / steps * PK_DOT_NR + v;
        for (int t = 0; t < PK_LANES && kk + t < depth; t += (int)steps, to += PK_DOT_NR)
          pk_store_i32(to,
                       steps == 2 ? pk_pack_pair(transposed[t], transposed[t + 1]) : transposed[t]);
      }
}

PK_DOT_INLINE void pk_pack_rows(const pk_pack_kind kind, char *dst, int64_t dld, const char *src,
                                int64_t ld, int64_t rows, int64_t cols, int64_t full_rows,
                                int64_t full_cols, pk_i32v pad) {
  const int64_t size = pk_pack_bytes(kind), to_size = pk_pack_is_word(kind) ? 2 : 4;
  for (int64_t r = 0; r < full_rows; r++)
    for (int64_t c = 0; c < full_cols; c += PK_LANES)
      pk_pack_put(kind, dst + r * dld + c * to_size,
                  pk_pack_get(kind, src + r * ld + c * size, r < rows ? cols - c : 0, pad),
                  full_cols - c);
}

PK_DOT_INLINE void pk_pack_rows_t(const pk_pack_kind kind, char *dst, int64_t dld, const char *src,
                                  int64_t ld, int64_t rows, int64_t cols, int64_t full_rows,
                                  int64_t full_cols, pk_i32v pad) {
  const int64_t size = pk_pack_bytes(kind), to_size = pk_pack_is_word(kind) ? 2 : 4;
  for (int64_t c = 0; c < full_cols; c += PK_LANES)
    for (int64_t r = 0; r < full_rows; r += PK_LANES) {
      pk_i32v transposed[PK_LANES];
      pk_pack_transposed(kind, transposed, src + c * ld + r * size, ld, cols - c, rows - r, pad);
      for (int t = 0; t < PK_LANES && r + t < full_rows; t++)
        pk_pack_put(kind, dst + (r + t) * dld + c * to_size, transposed[t], full_cols - c);
    }
}

#define PK_PACK_PANELS(name, kind, dtype, source, to, lanes)                                  \
  static inline void pk_pack_##name##_##dtype(to *dst, int64_t depth, const source *src,      \
                                              int64_t ld, int64_t k, int64_t n, int64_t cols, \
                                              to pad) {                                       \
    pk_pack_##name(PK_PACK_##kind, (int32_t *)(void *)dst, depth, (const char *)src,          \
                   (int64_t)sizeof *src *ld, k, n, cols, pk_pack_pad_##lanes(pad));           \
  }
#define PK_PACK_ROWS(name, kind, dtype, source, to, lanes)                                         \
  static inline void pk_pack_##name##_##dtype(to *dst, int64_t dld, const source *src, int64_t ld, \
                                              int64_t rows, int64_t cols, int64_t full_rows,       \
                                              int64_t full_cols, to pad) {                         \
    pk_pack_##name(PK_PACK_##kind, (char *)dst, (int64_t)sizeof *dst *dld, (const char *)src,      \
                   (int64_t)sizeof *src *ld, rows, cols, full_rows, full_cols,                     \
                   pk_pack_pad_##lanes(pad));                                                      \
  }
#define PK_PACK_ALL(kind, dtype, source, to, lanes)        \
  PK_PACK_PANELS(panels, kind, dtype, source, to, lanes)   \
  PK_PACK_PANELS(panels_t, kind, dtype, source, to, lanes) \
  PK_PACK_ROWS(rows, kind, dtype, source, to, lanes)       \
  PK_PACK_ROWS(rows_t, kind, dtype, source, to, lanes)
PK_PACK_DTYPES(PK_PACK_ALL)

#include <pk/pack_narrow.h>

/* Transposes a square of PK_LANES, or an edge of fewer rows or columns. */
PK_DOT_INLINE void pk_transpose_square(const int size, char *dst, int64_t dld, const char *src,
                                       int64_t ld, int64_t rows, int64_t cols) {
  const pk_pack_kind kind = size == 4 ? PK_PACK_I32 : size == 2 ? PK_PACK_I16 : PK_PACK_I8;
  pk_i32v transposed[PK_LANES];
  pk_pack_transposed(kind, transposed, src, ld, rows, cols, pk_splat_i32(0));
  for (int t = 0; t < PK_LANES && t < cols; t++) {
    void *to = dst + t * dld;
    if (size == 4) pk_storen_i32((int32_t *)to, transposed[t], rows);
    if (size == 2) pk_storen_i16((int16_t *)to, transposed[t], rows);
    if (size == 1) pk_storen_i8((int8_t *)to, transposed[t], rows);
  }
}

/* In blocks of 32 x 32, whose lines fit L1 at any distance of rows. */
PK_DOT_INLINE void pk_transpose_blocks(const int size, char *dst, int64_t dld, const char *src,
                                       int64_t ld, int64_t rows, int64_t cols, bool stream) {
  enum { side = 32 };
  const int64_t done = pk_transpose_narrow(size, dst, dld, src, ld, rows, cols, stream);
  if (done && cols <= rows)
    dst += done * size, src += done * ld, rows -= done;
  else if (done)
    dst += done * dld, src += done * size, cols -= done;
  for (int64_t r = 0; r < rows; r += side)
    for (int64_t c = 0; c < cols; c += side)
      for (int64_t cc = c; cc < c + side && cc < cols; cc += PK_LANES)
        for (int64_t rr = r; rr < r + side && rr < rows; rr += PK_LANES)
          pk_transpose_square(size, dst + cc * dld + rr * size, dld, src + rr * ld + cc * size, ld,
                              rows - rr, cols - cc);
}

/* stream: non-temporal, except for the incomplete lines at the ends of the row. Reads up to a
 * vector more than n. */
static inline void pk_put_row(float *to, const float *from, int64_t n, bool stream) {
  const int64_t unaligned = stream ? (int64_t)(-(uintptr_t)to / 4 % PK_LANES) : 0,
                first = n < unaligned ? n : unaligned;
  if (first) pk_storen_f32(to, pk_load_f32(from), first);
  int64_t k = first;
  for (; k + PK_LANES <= n; k += PK_LANES) pk_put_f32(to + k, pk_load_f32(from + k), stream);
  if (k < n) pk_storen_f32(to + k, pk_load_f32(from + k), n - k);
}

/* Through a buffer: `width` columns in pieces of `piece` rows, each piece of a row stored at
 * once. */
PK_DOT_INLINE void pk_transpose_pieces(const int piece, const int width, float *dst, int64_t dld,
                                       const float *src, int64_t ld, int64_t rows, int64_t cols,
                                       bool stream) {
  float buffer[64 * (256 + 16)] __attribute__((aligned(64)));
  const int length = piece + 16;
  for (int64_t r = 0; r < rows; r += piece)
    for (int64_t c = 0; c < cols; c += width) {
      const int64_t m = rows - r < piece ? rows - r : piece,
                    n = cols - c < width ? cols - c : width;
      for (int64_t rr = 0; rr < m; rr += PK_LANES)
        for (int64_t cc = 0; cc < n; cc += PK_LANES) {
          pk_i32v transposed[PK_LANES];
          pk_pack_transposed(PK_PACK_I32, transposed, (const char *)(src + (r + rr) * ld + c + cc),
                             4 * ld, m - rr, n - cc, pk_splat_i32(0));
          float *to = buffer + cc * length + rr;
          PK_DOT_UNROLL for (int t = 0; t < PK_LANES; t++)
              pk_store_f32(to + t * length, pk_bitcast_i32_f32(transposed[t]));
        }
      for (int64_t cc = 0; cc < n; cc++)
        pk_put_row(dst + (c + cc) * dld + r, buffer + cc * length, m, stream);
    }
}

static inline void pk_transpose_block_b1(void *dst, int64_t dld, const void *src, int64_t ld,
                                         int64_t rows, int64_t cols) {
  pk_transpose_blocks(1, (char *)dst, dld, (const char *)src, ld, rows, cols, false);
}

static inline void pk_transpose_block_b2(void *dst, int64_t dld, const void *src, int64_t ld,
                                         int64_t rows, int64_t cols) {
  pk_transpose_blocks(2, (char *)dst, 2 * dld, (const char *)src, 2 * ld, rows, cols, false);
}

/* Whole squares, stored from registers: 4096 squared takes 5.0 ms on Zen 4, through a buffer
 * 14.8. */
PK_DOT_INLINE void pk_transpose_lines(float *dst, int64_t dld, const float *src, int64_t ld,
                                      int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; c += PK_LANES)
    for (int64_t r = 0; r < rows; r += PK_LANES) {
      pk_f32v transposed[PK_LANES];
      PK_DOT_UNROLL for (int t = 0; t < PK_LANES; t++) transposed[t] =
          pk_load_f32(src + (r + t) * ld + c);
      pk_transpose_f32(transposed);
      PK_DOT_UNROLL for (int t = 0; t < PK_LANES; t++)
          pk_put_f32(dst + (c + t) * dld + r, transposed[t], true);
    }
}

/* The same if the rows of the result are not aligned. Two neighbouring squares are stored from
 * registers, from the first whole line of each row on. The elements before the first and after
 * the last whole line are stored separately, and prefetched while the columns before are
 * transposed: 4095 x 4097 takes 5.7 ms on Zen 5, without prefetching 6.6. */
#if PK_PART_BYTES == 64
PK_DOT_INLINE pk_f32v pk_transpose_shifted(pk_i32v first, pk_i32v second, pk_i32v from) {
  return pk_bitcast_i32_f32(
      (pk_i32v)_mm512_permutex2var_epi32((__m512i)first, (__m512i)from, (__m512i)second));
}
/* Each step stores the aligned lines of PK_LANES columns, from this square and the next one. */
PK_DOT_OUTLINE void pk_transpose_rows(float *dst, int64_t dld, const float *src, int64_t ld,
                                      int64_t rows, int64_t cols) {
  int64_t skip[PK_LANES];
  pk_i32v now[PK_LANES], next[PK_LANES], from[PK_LANES];
  for (int64_t c = 0; c < cols; c += PK_LANES) {
    const int64_t n = pk_clamp_lanes(cols - c);
    float *const to = dst + c * dld;
    for (int64_t t = PK_LANES; t < 2 * PK_LANES && c + t < cols; t++) {
      __builtin_prefetch(to + t * dld, 1);
      __builtin_prefetch(to + t * dld + rows - 1, 1);
    }
    pk_pack_transposed(PK_PACK_I32, now, (const char *)(src + c), 4 * ld, rows, n, pk_splat_i32(0));
    for (int64_t t = 0; t < n; t++) {
      skip[t] = (int64_t)(-(uintptr_t)(to + t * dld) / 4 % PK_LANES);
      from[t] = pk_add_i32(pk_lane_i32(), pk_splat_i32((int32_t)skip[t]));
      pk_storen_f32(to + t * dld, pk_bitcast_i32_f32(now[t]), skip[t] < rows ? skip[t] : rows);
    }
    for (int64_t r = 0; r < rows; r += PK_LANES) {
      const int64_t left = rows - r;
      pk_pack_transposed(PK_PACK_I32, next, (const char *)(src + (r + PK_LANES) * ld + c), 4 * ld,
                         left - PK_LANES, n, pk_splat_i32(0));
      if (left >= 2 * PK_LANES && n == PK_LANES) {
        PK_DOT_UNROLL for (int t = 0; t < PK_LANES; t++) {
          pk_put_f32(to + t * dld + r + skip[t], pk_transpose_shifted(now[t], next[t], from[t]),
                     true);
          now[t] = next[t];
        }
        continue;
      }
      for (int64_t t = 0; t < n; t++) {
        const pk_f32v line = pk_transpose_shifted(now[t], next[t], from[t]);
        if (left > skip[t]) pk_storen_f32(to + t * dld + r + skip[t], line, left - skip[t]);
        now[t] = next[t];
      }
    }
  }
}
#else
PK_DOT_INLINE void pk_transpose_rows(float *dst, int64_t dld, const float *src, int64_t ld,
                                     int64_t rows, int64_t cols) {
  (void)dst, (void)dld, (void)src, (void)ld, (void)rows, (void)cols;
}
#endif

PK_REGIMES_OF_TRANSPOSES(PK_REGIME_FUNCTION)

/* stream: the result is large and not read again soon, so stores are non-temporal. If its rows
 * are not aligned, the lines at both ends of a piece are written twice, in parts; longer pieces
 * have fewer. */
static inline void pk_transpose_block_f32(float *dst, int64_t dld, const float *src, int64_t ld,
                                          int64_t rows, int64_t cols, bool stream) {
  const bool lines = (uintptr_t)dst % PK_VEC_BYTES == 0 && dld % PK_LANES == 0;
  if (rows <= PK_NARROW_LINES || cols <= PK_NARROW_LINES)
    pk_transpose_blocks(4, (char *)dst, 4 * dld, (const char *)src, 4 * ld, rows, cols, stream);
  else if (pk_dot_is_squares(stream, lines && rows % PK_LANES == 0 && cols % PK_LANES == 0))
    pk_transpose_lines(dst, dld, src, ld, rows, cols);
  else if (stream && !lines && pk_dot_is_shifted())
    pk_transpose_rows(dst, dld, src, ld, rows, cols);
  else if (stream && !lines)
    pk_transpose_pieces(256, 64, dst, dld, src, ld, rows, cols, true);
  else
    pk_transpose_pieces(64, 32, dst, dld, src, ld, rows, cols, stream);
}

static inline void pk_transpose_block_b4(void *dst, int64_t dld, const void *src, int64_t ld,
                                         int64_t rows, int64_t cols) {
  pk_transpose_block_f32((float *)dst, dld, (const float *)src, ld, rows, cols, false);
}

/* -- elements of 8 bytes: by squares of as many as a part holds, or of half as many; at the edges
 * one by one */

/* Lane l of line k becomes lane k of line l. Each stage interleaves line k and line k + side / 2.
 */
#define PK_TURN_WIDE(name, side, even, odd)                                                        \
  PK_DOT_INLINE void name(char *dst, int64_t dld, const char *src, int64_t ld) {                   \
    typedef int64_t pk_wide_line __attribute__((vector_size(8 * (side))));                         \
    pk_wide_line row[side], next[side];                                                            \
    PK_DOT_UNROLL for (int k = 0; k < (side); k++) memcpy(&row[k], src + k * ld, sizeof row[k]);   \
    PK_DOT_UNROLL for (int stage = 1; stage < (side); stage *= 2) {                                \
      PK_DOT_UNROLL for (int k = 0; k < (side) / 2; k++) {                                         \
        next[2 * k] = __builtin_shufflevector(row[k], row[k + (side) / 2], PK_TURN_LANES even);    \
        next[2 * k + 1] = __builtin_shufflevector(row[k], row[k + (side) / 2], PK_TURN_LANES odd); \
      }                                                                                            \
      PK_DOT_UNROLL for (int k = 0; k < (side); k++) row[k] = next[k];                             \
    }                                                                                              \
    PK_DOT_UNROLL for (int k = 0; k < (side); k++) memcpy(dst + k * dld, &row[k], sizeof row[k]);  \
  }
#define PK_TURN_LANES(...) __VA_ARGS__
enum { PK_WIDE_SIDE = PK_PART_BYTES / 8 };
#if PK_PART_BYTES == 64
PK_TURN_WIDE(pk_turn_wide, 8, (0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15))
PK_TURN_WIDE(pk_turn_half, 4, (0, 4, 1, 5), (2, 6, 3, 7))
#elif PK_PART_BYTES == 32
PK_TURN_WIDE(pk_turn_wide, 4, (0, 4, 1, 5), (2, 6, 3, 7))
PK_TURN_WIDE(pk_turn_half, 2, (0, 2), (1, 3))
#else
PK_TURN_WIDE(pk_turn_wide, 2, (0, 2), (1, 3))
PK_DOT_INLINE void pk_turn_half(char *dst, int64_t dld, const char *src, int64_t ld) {
  (void)dld, (void)ld;
  memcpy(dst, src, 8);
}
#endif
#undef PK_TURN_WIDE
#undef PK_TURN_LANES

/* Less than a square. */
PK_DOT_INLINE void pk_turn_wide_edge(char *dst, int64_t dld, const char *src, int64_t ld,
                                     int64_t rows, int64_t cols) {
  enum { half = PK_WIDE_SIDE / 2 };
  for (int64_t r = 0, lines; r < rows; r += lines) {
    lines = rows - r < half ? rows - r : half;
    for (int64_t c = 0, width; c < cols; c += width) {
      char *const square = dst + c * dld + 8 * r;
      const char *const source = src + r * ld + 8 * c;
      width = cols - c < half ? cols - c : half;
      if (lines == half && width == half)
        pk_turn_half(square, dld, source, ld);
      else
        for (int64_t i = 0; i < lines; i++)
          for (int64_t k = 0; k < width; k++)
            memcpy(square + k * dld + 8 * i, source + i * ld + 8 * k, 8);
    }
  }
}

static inline void pk_transpose_block_b8(void *to, int64_t dld, const void *from, int64_t ld,
                                         int64_t rows, int64_t cols) {
  enum { side = PK_WIDE_SIDE, block = 32 };
  char *const dst = (char *)to;
  const char *const src = (const char *)from;
  dld *= 8, ld *= 8;
  for (int64_t r = 0; r < rows; r += block)
    for (int64_t c = 0; c < cols; c += side) {
      const int64_t width = cols - c < side ? cols - c : side;
      for (int64_t rr = r; rr < r + block && rr < rows; rr += side) {
        const int64_t lines = rows - rr < side ? rows - rr : side;
        char *const square = dst + c * dld + 8 * rr;
        const char *const source = src + rr * ld + 8 * c;
        if (lines == side && width == side)
          pk_turn_wide(square, dld, source, ld);
        else
          pk_turn_wide_edge(square, dld, source, ld, lines, width);
      }
    }
}

PK_DOT_INLINE void pk_copy_fill(const int size, char *dst, int64_t n, uint16_t pad) {
  for (int64_t i = 0; i < n; i++)
    memcpy(dst + i * size, size == 1 ? (const void *)&(uint8_t){(uint8_t)pad} : &pad, (size_t)size);
}

/* The strides are in bytes. */
PK_DOT_INLINE void pk_copy_rows(const int size, char *dst, int64_t dld, const char *src, int64_t ld,
                                int64_t rows, int64_t cols, int64_t full_rows, int64_t full_cols,
                                uint16_t pad, const bool transposed) {
  const int64_t r_end = rows < full_rows ? rows : full_rows,
                c_end = cols < full_cols ? cols : full_cols;
  if (transposed) pk_transpose_blocks(size, dst, dld, src, ld, c_end, r_end, false);
  for (int64_t r = 0; r < full_rows; r++) {
    const int64_t inside = r < r_end && c_end > 0 ? c_end : 0;
    if (!transposed) memcpy(dst + r * dld, src + r * ld, (size_t)(inside * size));
    pk_copy_fill(size, dst + r * dld + inside * size, full_cols - inside, pad);
  }
}

#define PK_COPY_ROWS(name, size, transposed)                                              \
  static inline void pk_copy_##name(void *dst, int64_t dld, const void *src, int64_t ld,  \
                                    int64_t rows, int64_t cols, int64_t full_rows,        \
                                    int64_t full_cols, int pad) {                         \
    pk_copy_rows(size, (char *)dst, (size)*dld, (const char *)src, (size)*ld, rows, cols, \
                 full_rows, full_cols, (uint16_t)pad, transposed);                        \
  }
PK_COPY_ROWS(rows_b1, 1, false)
PK_COPY_ROWS(rows_t_b1, 1, true)
PK_COPY_ROWS(rows_b2, 2, false)
PK_COPY_ROWS(rows_t_b2, 2, true)

#endif /* PK_MICRO */
#endif
