/* pack_narrow.h: transposes between a few long lines and short contiguous rows with one element
 * for each line. Only pack.h includes it.
 *
 * One step reads a vector for each line and writes as many. Each vector written takes its lanes
 * from all vectors read. */
#ifndef PK_PACK_NARROW_H
#define PK_PACK_NARROW_H

enum { PK_NARROW_LINES = 9 };

#if PK_PART_BYTES == 64
/* The distance in bytes between the vectors of a step, and between steps. */
typedef struct {
  int64_t step, next;
} pk_narrow_step;

/* Elements of 4 bytes have 16 lanes. Elements of 1 or 2 bytes have 32 lanes of 2 bytes. */
PK_DOT_INLINE __m512i pk_narrow_load(int size, const char *p) {
  if (size > 1) return _mm512_loadu_si512(p);
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
PK_DOT_INLINE void pk_narrow_store(int size, char *p, __m512i v, bool stream) {
  if (stream)
    _mm512_stream_si512((__m512i *)(void *)p, v);
  else if (size > 1)
    _mm512_storeu_si512(p, v);
  else
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi16_epi8(v));
}
PK_DOT_INLINE __m512i pk_narrow_pick(const int lanes, __m512i row, uint32_t here, __m512i which,
                                     __m512i v) {
  return lanes == 16 ? _mm512_mask_permutexvar_epi32(row, (__mmask16)here, which, v)
                     : _mm512_mask_permutexvar_epi16(row, here, which, v);
}

/* apart: the step reads rows and writes lines. Lane l of written vector k is then element
 * l * lines + k of the vectors read, in sequence. Otherwise it is element (lanes * k + l) / lines
 * of line (lanes * k + l) % lines. */
PK_DOT_INLINE void pk_narrow_tile(const int lines, const int lanes, int size, char *to,
                                  pk_narrow_step put, const char *from, pk_narrow_step get,
                                  bool apart, bool stream, int64_t tiles) {
  union {
    int32_t word[16];
    int16_t half[32];
  } lane[PK_NARROW_LINES];
  uint32_t here[PK_NARROW_LINES][PK_NARROW_LINES] = {{0}};
  for (int k = 0; k < lines; k++)
    for (int l = 0; l < lanes; l++) {
      const int at = apart ? l * lines + k : lanes * k + l, which = apart ? at % lanes : at / lines;
      if (lanes == 16)
        lane[k].word[l] = which;
      else
        lane[k].half[l] = (int16_t)which;
      here[k][apart ? at / lanes : at % lines] |= UINT32_C(1) << l;
    }
  for (int64_t t = 0; t < tiles; t++, from += get.next, to += put.next) {
    __m512i v[PK_NARROW_LINES];
    PK_DOT_UNROLL for (int k = 0; k < lines; k++) v[k] = pk_narrow_load(size, from + k * get.step);
    PK_DOT_UNROLL for (int k = 0; k < lines; k++) {
      const __m512i which = _mm512_loadu_si512(&lane[k]);
      __m512i row = _mm512_setzero_si512();
      PK_DOT_UNROLL for (int j = 0; j < lines; j++) row =
          pk_narrow_pick(lanes, row, here[k][j], which, v[j]);
      pk_narrow_store(size, to + k * put.step, row, stream);
    }
  }
}

PK_DOT_OUTLINE void pk_narrow_tiles(int lines, int size, char *to, pk_narrow_step put,
                                    const char *from, pk_narrow_step get, bool apart, bool stream,
                                    int64_t tiles) {
#define PK_NARROW_CASE(n)                                               \
  if (lines == n && size == 4)                                          \
    pk_narrow_tile(n, 16, 4, to, put, from, get, apart, stream, tiles); \
  else if (lines == n)                                                  \
    pk_narrow_tile(n, 32, size, to, put, from, get, apart, stream, tiles);
  PK_NARROW_CASE(2)
  PK_NARROW_CASE(3)
  PK_NARROW_CASE(4)
  PK_NARROW_CASE(5)
  PK_NARROW_CASE(6)
  PK_NARROW_CASE(7)
  PK_NARROW_CASE(8)
  PK_NARROW_CASE(9)
#undef PK_NARROW_CASE
}

/* Transposes as many elements of each line as whole vectors hold, and returns their number; 0 if
 * the transpose has another shape. Strides are in bytes. stream: uses non-temporal stores if all
 * vectors written are aligned to cache lines. */
PK_DOT_INLINE int64_t pk_transpose_narrow(int size, char *dst, int64_t dld, const char *src,
                                          int64_t ld, int64_t rows, int64_t cols, bool stream) {
  const bool apart = cols <= rows;
  const int64_t lanes = size == 4 ? 16 : 32, lines = apart ? cols : rows,
                tiles = (apart ? rows : cols) / lanes;
  if (lines < 2 || lines > PK_NARROW_LINES || (apart ? ld : dld) != lines * size) return 0;
  const pk_narrow_step dense = {lanes * size, lanes * size * lines},
                       strided = {apart ? dld : ld, lanes * size};
  stream &= size == 4 && ((uintptr_t)dst | (uintptr_t)(apart ? dld : 0)) % 64 == 0;
  pk_narrow_tiles((int)lines, size, dst, apart ? strided : dense, src, apart ? dense : strided,
                  apart, stream, tiles);
  return lanes * tiles;
}
#else
PK_DOT_INLINE int64_t pk_transpose_narrow(int size, char *dst, int64_t dld, const char *src,
                                          int64_t ld, int64_t rows, int64_t cols, bool stream) {
  (void)size, (void)dst, (void)dld, (void)src, (void)ld, (void)rows, (void)cols, (void)stream;
  return 0;
}
#endif

#endif
