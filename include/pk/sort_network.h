/* sort_network.h: keys of PK_SORT_BITS bits in ascending order, by sorting networks.
 * Only sort.h includes it, once for each width.
 *
 * A chunk of keys is a matrix whose rows are vectors. First the columns are sorted by
 * comparing whole rows: each exchange is a minimum and a maximum of two vectors. Then columns are
 * merged in pairs, in fours and so on. Only the first steps of a merge cross lanes; the others stay
 * within columns. Element k of the result is row k % rows of column k / rows. */
#if PK_SORT_BITS == 32
#define PK_SORT(name) name##_32
#define PK_SORT_LANES PK_PART_LANES
#define pk_sort_key int32_t
#define pk_sort_vector pk_i32p
#define PK_SORT_LAST INT32_MAX
#define PK_SORT_INFINITY INT32_C(0x7f800000)
#else
#define PK_SORT(name) name##_64
#define PK_SORT_LANES (PK_PART_LANES / 2)
#define pk_sort_key int64_t
#define pk_sort_vector pk_sort_i64p
#define PK_SORT_LAST INT64_MAX
#define PK_SORT_INFINITY INT64_C(0x7ff0000000000000)
#endif

/* Indices of a shuffle: f(lane, x) for each lane. */
#undef PK_SORT_LIST
#if PK_SORT_BITS * 16 == PK_PART_BYTES * 8
#define PK_SORT_LIST(f, x) PK_SORT_LIST_16(f, x)
#elif PK_SORT_BITS * 8 == PK_PART_BYTES * 8
#define PK_SORT_LIST(f, x) PK_SORT_LIST_8(f, x)
#elif PK_SORT_BITS * 4 == PK_PART_BYTES * 8
#define PK_SORT_LIST(f, x) PK_SORT_LIST_4(f, x)
#else
#define PK_SORT_LIST(f, x) PK_SORT_LIST_2(f, x)
#endif
#define PK_SORT_PARTNER(lane, x) (((lane) ^ (x)) & (PK_SORT_LANES - 1))
#define PK_SORT_CHOICE(lane, x) ((lane) & (x) ? (lane) + PK_SORT_LANES : (lane))
#define PK_SORT_ZIP(lane, x) ((x) + (lane) / 2 + (lane) % 2 * PK_SORT_LANES)

typedef pk_sort_key PK_SORT(pk_sort_memory)
    __attribute__((vector_size(PK_PART_BYTES), aligned(4), may_alias));

PK_INLINE pk_sort_vector PK_SORT(pk_sort_load)(const pk_sort_key *p) {
  return (pk_sort_vector) * (const PK_SORT(pk_sort_memory) *)(const void *)p;
}
PK_INLINE void PK_SORT(pk_sort_store)(pk_sort_key *p, pk_sort_vector v) {
  *(PK_SORT(pk_sort_memory) *)(void *)p = (PK_SORT(pk_sort_memory))v;
}

/* a <= b in each lane. */
PK_INLINE void PK_SORT(pk_exchange)(pk_sort_vector *a, pk_sort_vector *b) {
  const pk_sort_vector low = PK_SORT(pk_sort_min)(*a, *b), high = PK_SORT(pk_sort_max)(*a, *b);
  *a = low;
  *b = high;
}

/* Lane k receives lane k ^ x, where x is a power of 2 or one less. */
PK_INLINE pk_sort_vector PK_SORT(pk_partner)(pk_sort_vector v, int x) {
  if (x == 1) return __builtin_shufflevector(v, v, PK_SORT_LIST(PK_SORT_PARTNER, 1));
  if (x == 2) return __builtin_shufflevector(v, v, PK_SORT_LIST(PK_SORT_PARTNER, 2));
  if (x == 3) return __builtin_shufflevector(v, v, PK_SORT_LIST(PK_SORT_PARTNER, 3));
  if (x == 4) return __builtin_shufflevector(v, v, PK_SORT_LIST(PK_SORT_PARTNER, 4));
  if (x == 7) return __builtin_shufflevector(v, v, PK_SORT_LIST(PK_SORT_PARTNER, 7));
  return __builtin_shufflevector(v, v, PK_SORT_LIST(PK_SORT_PARTNER, 15));
}

/* `high` in the lanes whose number has the bit, `low` in the others. */
PK_INLINE pk_sort_vector PK_SORT(pk_choose)(pk_sort_vector low, pk_sort_vector high, int bit) {
  if (bit == 1) return __builtin_shufflevector(low, high, PK_SORT_LIST(PK_SORT_CHOICE, 1));
  if (bit == 2) return __builtin_shufflevector(low, high, PK_SORT_LIST(PK_SORT_CHOICE, 2));
  if (bit == 4) return __builtin_shufflevector(low, high, PK_SORT_LIST(PK_SORT_CHOICE, 4));
  return __builtin_shufflevector(low, high, PK_SORT_LIST(PK_SORT_CHOICE, 8));
}

PK_INLINE pk_sort_vector PK_SORT(pk_cross)(pk_sort_vector v, int bit) {
  const pk_sort_vector other = PK_SORT(pk_partner)(v, bit);
  return PK_SORT(pk_choose)(PK_SORT(pk_sort_min)(v, other), PK_SORT(pk_sort_max)(v, other), bit);
}

#define PK_SORT_ROW(k) PK_SORT(pk_sort_load)(v + (k)*stride * PK_SORT_LANES)
#define PK_SORT_BACK(k) PK_SORT(pk_sort_store)(v + (k)*stride * PK_SORT_LANES, r[k])
#define PK_SORT_STEP(a, b) PK_SORT(pk_exchange)(&r[a], &r[b])

/* Sorts eight, four or two rows of which each column is bitonic (ascending, then descending, or a
 * rotation of that). */
PK_INLINE void PK_SORT(pk_clean_8)(pk_sort_key *v, int64_t stride) {
  pk_sort_vector r[8] = {PK_SORT_ROW(0), PK_SORT_ROW(1), PK_SORT_ROW(2), PK_SORT_ROW(3),
                         PK_SORT_ROW(4), PK_SORT_ROW(5), PK_SORT_ROW(6), PK_SORT_ROW(7)};
  PK_SORT_STEP(0, 4), PK_SORT_STEP(1, 5), PK_SORT_STEP(2, 6), PK_SORT_STEP(3, 7);
  PK_SORT_STEP(0, 2), PK_SORT_STEP(1, 3), PK_SORT_STEP(4, 6), PK_SORT_STEP(5, 7);
  PK_SORT_STEP(0, 1), PK_SORT_STEP(2, 3), PK_SORT_STEP(4, 5), PK_SORT_STEP(6, 7);
  PK_SORT_BACK(0), PK_SORT_BACK(1), PK_SORT_BACK(2), PK_SORT_BACK(3);
  PK_SORT_BACK(4), PK_SORT_BACK(5), PK_SORT_BACK(6), PK_SORT_BACK(7);
}
PK_INLINE void PK_SORT(pk_clean_4)(pk_sort_key *v, int64_t stride) {
  pk_sort_vector r[4] = {PK_SORT_ROW(0), PK_SORT_ROW(1), PK_SORT_ROW(2), PK_SORT_ROW(3)};
  PK_SORT_STEP(0, 2), PK_SORT_STEP(1, 3), PK_SORT_STEP(0, 1), PK_SORT_STEP(2, 3);
  PK_SORT_BACK(0), PK_SORT_BACK(1), PK_SORT_BACK(2), PK_SORT_BACK(3);
}
PK_INLINE void PK_SORT(pk_clean_2)(pk_sort_key *v, int64_t stride) {
  pk_sort_vector r[2] = {PK_SORT_ROW(0), PK_SORT_ROW(1)};
  PK_SORT_STEP(0, 1);
  PK_SORT_BACK(0), PK_SORT_BACK(1);
}

#define PK_SORT_EIGHT(a, b) \
  if ((b) < count) PK_SORT_STEP(a, b)
/* Sorts up to eight vectors, each lane in any order; an exchange with a vector beyond `count` would
 * have no effect, so it is omitted. */
PK_INLINE void PK_SORT(pk_sort_eight)(pk_sort_vector *r, int count) {
  PK_SORT_EIGHT(0, 2);
  PK_SORT_EIGHT(1, 3);
  PK_SORT_EIGHT(4, 6);
  PK_SORT_EIGHT(5, 7);
  PK_SORT_EIGHT(0, 4);
  PK_SORT_EIGHT(1, 5);
  PK_SORT_EIGHT(2, 6);
  PK_SORT_EIGHT(3, 7);
  PK_SORT_EIGHT(0, 1);
  PK_SORT_EIGHT(2, 3);
  PK_SORT_EIGHT(4, 5);
  PK_SORT_EIGHT(6, 7);
  PK_SORT_EIGHT(2, 4);
  PK_SORT_EIGHT(3, 5);
  PK_SORT_EIGHT(1, 4);
  PK_SORT_EIGHT(3, 6);
  PK_SORT_EIGHT(1, 2);
  PK_SORT_EIGHT(3, 4);
  PK_SORT_EIGHT(5, 6);
}
/* Sorts `count` rows, each column in any order. */
PK_INLINE void PK_SORT(pk_sort_rows)(pk_sort_key *v, int count) {
  pk_sort_vector r[8];
  PK_UNROLL for (int k = 0; k < count; k++) r[k] = PK_SORT(pk_sort_load)(v + k * PK_SORT_LANES);
  PK_SORT(pk_sort_eight)(r, count);
  PK_UNROLL for (int k = 0; k < count; k++) PK_SORT(pk_sort_store)(v + k * PK_SORT_LANES, r[k]);
}
static inline void PK_SORT(pk_sort_blocks)(pk_sort_key *v, int64_t rows, int64_t block) {
  for (pk_sort_key *end = v + rows * PK_SORT_LANES; v < end; v += block * PK_SORT_LANES) {
    if (block == 8) PK_SORT(pk_sort_rows)(v, 8);
    if (block == 7) PK_SORT(pk_sort_rows)(v, 7);
    if (block == 6) PK_SORT(pk_sort_rows)(v, 6);
    if (block == 5) PK_SORT(pk_sort_rows)(v, 5);
    if (block == 4) PK_SORT(pk_sort_rows)(v, 4);
    if (block == 3) PK_SORT(pk_sort_rows)(v, 3);
    if (block == 2) PK_SORT(pk_sort_rows)(v, 2);
  }
}

/* Sorts `parts` times `odd` rows, each column bitonic: merges halves, then sorts each part, which
 * is in any order. */
PK_INLINE void PK_SORT(pk_clean_parts)(pk_sort_key *v, int odd, int parts) {
  pk_sort_vector r[16];
  PK_UNROLL for (int k = 0; k < odd * parts; k++) r[k] =
      PK_SORT(pk_sort_load)(v + k * PK_SORT_LANES);
  if (parts == 4) PK_UNROLL for (int k = 0; k < 2 * odd; k++) PK_SORT_STEP(k, k + 2 * odd);
  if (parts >= 2) PK_UNROLL for (int k = 0; k < odd; k++) PK_SORT_STEP(k, k + odd);
  if (parts == 4) PK_UNROLL for (int k = 2 * odd; k < 3 * odd; k++) PK_SORT_STEP(k, k + odd);
  PK_UNROLL for (int k = 0; k < parts; k++) PK_SORT(pk_sort_eight)(r + k * odd, odd);
  PK_UNROLL for (int k = 0; k < odd * parts; k++)
      PK_SORT(pk_sort_store)(v + k * PK_SORT_LANES, r[k]);
}

/* Sorts rows of which each column is bitonic, as for pk_sort_rows_of. */
static inline void PK_SORT(pk_clean)(pk_sort_key *v, int64_t rows) {
  pk_sort_key *const end = v + rows * PK_SORT_LANES;
  int64_t span = rows;
  for (; span % 8 == 0; span /= 8)
    for (int64_t at = 0; at < rows; at += span)
      for (int64_t i = 0; i < span / 8; i++)
        PK_SORT(pk_clean_8)(v + (at + i) * PK_SORT_LANES, span / 8);
  if (span == 4 || span == 20 || span == 28) {
    for (int64_t at = 0; at < rows; at += span)
      for (int64_t i = 0; i < span / 4; i++)
        PK_SORT(pk_clean_4)(v + (at + i) * PK_SORT_LANES, span / 4);
    span /= 4;
  }
  if (span == 1) return;
  for (; v < end; v += span * PK_SORT_LANES) {
    if (span == 2) PK_SORT(pk_clean_2)(v, 1);
    if (span == 3) PK_SORT(pk_clean_parts)(v, 3, 1);
    if (span == 5) PK_SORT(pk_clean_parts)(v, 5, 1);
    if (span == 6) PK_SORT(pk_clean_parts)(v, 3, 2);
    if (span == 7) PK_SORT(pk_clean_parts)(v, 7, 1);
    if (span == 10) PK_SORT(pk_clean_parts)(v, 5, 2);
    if (span == 12) PK_SORT(pk_clean_parts)(v, 3, 4);
    if (span == 14) PK_SORT(pk_clean_parts)(v, 7, 2);
  }
}

/* Compares element k from the start of two sorted halves with element k from their end; both halves
 * are bitonic afterwards. */
PK_INLINE void PK_SORT(pk_fold_rows)(pk_sort_key *v, int64_t rows) {
  for (int64_t i = 0; i < rows / 2; i++) {
    pk_sort_key *p = v + i * PK_SORT_LANES, *q = v + (rows - 1 - i) * PK_SORT_LANES;
    pk_sort_vector low = PK_SORT(pk_sort_load)(p), high = PK_SORT(pk_sort_load)(q);
    PK_SORT(pk_exchange)(&low, &high);
    PK_SORT(pk_sort_store)(p, low);
    PK_SORT(pk_sort_store)(q, high);
  }
}
static inline void PK_SORT(pk_sort_columns)(pk_sort_key *v, int64_t rows) {
  int64_t sorted = rows;
  while (sorted > 8) sorted /= 2;
  PK_SORT(pk_sort_blocks)(v, rows, sorted);
  for (int64_t half = sorted; half < rows; half *= 2)
    for (int64_t at = 0; at < rows; at += 2 * half) {
      pk_sort_key *part = v + at * PK_SORT_LANES;
      PK_SORT(pk_fold_rows)(part, 2 * half);
      PK_SORT(pk_clean)(part, half);
      PK_SORT(pk_clean)(part + half * PK_SORT_LANES, half);
    }
}

/* The steps of a merge of `columns` columns that cross lanes, except the first. */
PK_INLINE pk_sort_vector PK_SORT(pk_cross_columns)(pk_sort_vector v, int columns) {
  if (columns >= 16) v = PK_SORT(pk_cross)(v, 4);
  if (columns >= 8) v = PK_SORT(pk_cross)(v, 2);
  if (columns >= 4) v = PK_SORT(pk_cross)(v, 1);
  return v;
}

/* Merges the columns of each group, whose halves are in order. */
PK_INLINE void PK_SORT(pk_merge_columns)(pk_sort_key *v, int64_t rows, int columns) {
  for (int64_t i = 0; i < (rows + 1) / 2; i++) {
    pk_sort_key *p = v + i * PK_SORT_LANES, *q = v + (rows - 1 - i) * PK_SORT_LANES;
    const pk_sort_vector a = PK_SORT(pk_sort_load)(p),
                         b = PK_SORT(pk_partner)(PK_SORT(pk_sort_load)(q), columns - 1),
                         low = PK_SORT(pk_sort_min)(a, b), high = PK_SORT(pk_sort_max)(a, b);
    const pk_sort_vector first = PK_SORT(pk_choose)(low, high, columns / 2),
                         last = PK_SORT(pk_partner)(PK_SORT(pk_choose)(high, low, columns / 2),
                                                    columns - 1);
    PK_SORT(pk_sort_store)(q, PK_SORT(pk_cross_columns)(last, columns));
    PK_SORT(pk_sort_store)(p, PK_SORT(pk_cross_columns)(first, columns));
  }
  PK_SORT(pk_clean)(v, rows);
}

PK_INLINE void PK_SORT(pk_sort_zip)(pk_sort_vector *to, const pk_sort_vector *from) {
  PK_UNROLL for (int k = 0; k < PK_SORT_LANES / 2; k++) {
    const pk_sort_vector a = from[k], b = from[k + PK_SORT_LANES / 2];
    to[2 * k] = __builtin_shufflevector(a, b, PK_SORT_LIST(PK_SORT_ZIP, 0));
    to[2 * k + 1] = __builtin_shufflevector(a, b, PK_SORT_LIST(PK_SORT_ZIP, PK_SORT_LANES / 2));
  }
}
/* Transposes LANES rows, or the first `rows`: the elements of each column become `rows` contiguous
 * elements of `to`. */
PK_INLINE void PK_SORT(pk_lay_square)(pk_sort_key *to, const pk_sort_key *v, int64_t rows) {
  enum { LANES = PK_SORT_LANES };
  pk_sort_vector a[LANES], b[LANES];
  PK_UNROLL for (int k = 0; k < LANES; k++) a[k] =
      PK_SORT(pk_sort_load)(v + (k < rows ? k : rows - 1) * LANES);
  PK_SORT(pk_sort_zip)(b, a);
  if (LANES >= 4) PK_SORT(pk_sort_zip)(a, b);
  if (LANES >= 8) PK_SORT(pk_sort_zip)(b, a);
  if (LANES >= 16) PK_SORT(pk_sort_zip)(a, b);
  const bool in_a = LANES == 4 || LANES == 16;
  PK_UNROLL for (int k = 0; k < LANES; k++)
      PK_SORT(pk_sort_store)(to + k * rows, in_a ? a[k] : b[k]);
}
/* Stores the columns one after another. Elements that are stored past the end of a short column are
 * overwritten by the next column. */
static inline void PK_SORT(pk_lay_columns)(pk_sort_key *to, const pk_sort_key *v, int64_t rows) {
  enum { LANES = PK_SORT_LANES };
  if (rows < 4) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t k = 0; k < LANES; k++) to[k * rows + i] = v[i * LANES + k];
    return;
  }
  for (int64_t at = 0; at + LANES <= rows; at += LANES)
    PK_SORT(pk_lay_square)(to + at, v + at * LANES, rows);
  const int64_t last = rows < LANES ? 0 : rows - LANES;
  if (rows % LANES) PK_SORT(pk_lay_square)(to + last, v + last * LANES, rows);
}

/* The number of rows for at least `rows`: a power of 2 times 5 to 8, or fewer than 5; at most a
 * quarter more than requested. */
PK_INLINE int64_t PK_SORT(pk_sort_height)(int64_t rows) {
  int64_t times = 1;
  for (; rows > 8; rows = (rows + 1) / 2) times *= 2;
  return rows * times;
}
/* Vectors for `count` keys of one line. */
PK_INLINE int64_t PK_SORT(pk_sort_rows_of)(int64_t count) {
  return PK_SORT(pk_sort_height)((count + PK_SORT_LANES - 1) / PK_SORT_LANES);
}

/* Sorts `rows` rows of vectors and stores them to `to`. */
static inline void PK_SORT(pk_sort_chunk)(pk_sort_key *to, pk_sort_key *v, int64_t rows) {
  PK_SORT(pk_sort_columns)(v, rows);
  PK_SORT(pk_merge_columns)(v, rows, 2);
  if (PK_SORT_LANES >= 4) PK_SORT(pk_merge_columns)(v, rows, 4);
  if (PK_SORT_LANES >= 8) PK_SORT(pk_merge_columns)(v, rows, 8);
  if (PK_SORT_LANES >= 16) PK_SORT(pk_merge_columns)(v, rows, 16);
  PK_SORT(pk_lay_columns)(to, v, rows);
}

static inline void PK_SORT(pk_merge_keys)(pk_sort_key *to, const pk_sort_key *from, int64_t middle,
                                          int64_t n) {
  const pk_sort_key *a = from, *b = from + middle, *const a_end = b, *const b_end = from + n;
  while (a < a_end && b < b_end) {
    const bool right = *b < *a;
    *to++ = right ? *b : *a;
    a += !right;
    b += right;
  }
  while (a < a_end) *to++ = *a++;
  while (b < b_end) *to++ = *b++;
}

/* Sorts n keys; both arrays have room for pk_sort_scratch(n, PK_SORT_BITS / 8) bytes. Returns the
 * array that contains the sorted keys. */
static inline pk_sort_key *PK_SORT(pk_sort_keys)(pk_sort_key *keys, pk_sort_key *other, int64_t n) {
  for (int64_t at = 0; at < n; at += PK_SORT_CHUNK) {
    const int64_t count = n - at < PK_SORT_CHUNK ? n - at : PK_SORT_CHUNK;
    const int64_t rows = PK_SORT(pk_sort_rows_of)(count);
    for (int64_t i = count; i < rows * PK_SORT_LANES; i++) keys[at + i] = PK_SORT_LAST;
    PK_SORT(pk_sort_chunk)(other + at, keys + at, rows);
  }
  for (int64_t width = PK_SORT_CHUNK; width < n; width *= 2) {
    pk_sort_key *swap = keys;
    keys = other;
    other = swap;
    for (int64_t at = 0; at < n; at += 2 * width) PK_SORT(pk_merge_keys)
    (other + at, keys + at, width < n - at ? width : n - at,
     2 * width < n - at ? 2 * width : n - at);
  }
  return other;
}

#include <pk/sort_lines.h>

#undef PK_SORT_ROW
#undef PK_SORT_BACK
#undef PK_SORT_STEP
#undef PK_SORT_EIGHT
#undef PK_SORT_PARTNER
#undef PK_SORT_CHOICE
#undef PK_SORT_ZIP
#undef PK_SORT
#undef PK_SORT_LANES
#undef PK_SORT_LAST
#undef PK_SORT_INFINITY
#undef PK_SORT_BITS
#undef pk_sort_key
#undef pk_sort_vector
