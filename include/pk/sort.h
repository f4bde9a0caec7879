/* sort.h: sorting lines of elements, for kernels that sort. */
#ifndef PK_SORT_H
#define PK_SORT_H

#include <pk/step.h>

/* Keys that one network sorts: more are merged, chunk by chunk. */
enum { PK_SORT_CHUNK = 65536 };

#define PK_SORT_LIST_2(f, x) f(0, x), f(1, x)
#define PK_SORT_LIST_4(f, x) f(0, x), f(1, x), f(2, x), f(3, x)
#define PK_SORT_LIST_8(f, x) PK_SORT_LIST_4(f, x), f(4, x), f(5, x), f(6, x), f(7, x)
#define PK_SORT_LIST_16(f, x) \
  PK_SORT_LIST_8(f, x), f(8, x), f(9, x), f(10, x), f(11, x), f(12, x), f(13, x), f(14, x), f(15, x)

typedef int64_t pk_sort_i64p __attribute__((vector_size(PK_PART_BYTES)));
PK_INLINE pk_i32p pk_sort_min_32(pk_i32p a, pk_i32p b) { return pk_part_min_i32(a, b); }
PK_INLINE pk_i32p pk_sort_max_32(pk_i32p a, pk_i32p b) { return pk_part_max_i32(a, b); }
#if PK_PART_BYTES == 64
PK_INLINE pk_sort_i64p pk_sort_min_64(pk_sort_i64p a, pk_sort_i64p b) {
  return (pk_sort_i64p)_mm512_min_epi64((__m512i)a, (__m512i)b);
}
PK_INLINE pk_sort_i64p pk_sort_max_64(pk_sort_i64p a, pk_sort_i64p b) {
  return (pk_sort_i64p)_mm512_max_epi64((__m512i)a, (__m512i)b);
}
#else
PK_INLINE pk_sort_i64p pk_sort_min_64(pk_sort_i64p a, pk_sort_i64p b) {
  const pk_sort_i64p less = a < b;
  return (a & less) | (b & ~less);
}
PK_INLINE pk_sort_i64p pk_sort_max_64(pk_sort_i64p a, pk_sort_i64p b) {
  const pk_sort_i64p less = a < b;
  return (b & less) | (a & ~less);
}
#endif

/* Is any bit set? */
PK_INLINE bool pk_sort_any(pk_i32p v) {
#if PK_PART_BYTES == 64
  return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#else
  int32_t any = 0;
  PK_UNROLL for (int k = 0; k < PK_PART_LANES; k++) any |= v[k];
  return any != 0;
#endif
}

/* What the elements are. */
enum { PK_SORT_SIGNED, PK_SORT_UNSIGNED, PK_SORT_FLOAT };

/* The longest lines that are sorted side by side, so that a line for each lane of a vector is in
 * L2. Contiguous elements are transposed for that, which pays for short lines only. */
enum { PK_SORT_SIDE_BY_SIDE = 4096, PK_SORT_TRANSPOSED = 64, PK_ORDER_TRANSPOSED = 512 };

/* The number of the `left` lines of n elements that are sorted together, one in each lane. 0: lines
 * are sorted one by one, because they are long, or because most lanes would be empty while a line
 * fills several vectors. */
PK_INLINE int64_t pk_sort_side_by_side_count(int64_t n, int64_t longest, int64_t left,
                                             int64_t lanes) {
  if (n > longest || (left < lanes / 2 && n > lanes)) return 0;
  return left < lanes ? left : lanes;
}

#define PK_SORT_BITS 32
#include <pk/sort_network.h>
#define PK_SORT_BITS 64
#include <pk/sort_network.h>

/* -- 32-bit keys of elements, in whose order the elements are to come; NaN comes last either way */

PK_INLINE int32_t pk_sort_key_i32(int32_t x, bool descending) { return descending ? ~x : x; }
PK_INLINE int32_t pk_sort_key_u32(uint32_t x, bool descending) {
  return pk_sort_key_i32((int32_t)(x ^ UINT32_C(1) << 31), descending);
}
/* Zeros of both signs are equal. */
PK_INLINE int32_t pk_sort_key_f32(float x, bool descending) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return INT32_MAX;
  const int32_t key = x == 0 ? 0 : bits ^ (bits >> 31 & INT32_MAX);
  return descending ? ~key : key;
}

/* -- orders: keys with their places, so that equal ones stay in order */

PK_INLINE int64_t pk_sort_placed(int32_t key, int64_t place) {
  return (int64_t)((uint64_t)(uint32_t)key << 32) | place;
}
PK_INLINE int64_t pk_sort_place(int64_t placed) { return placed & UINT32_MAX; }

/* The least `count` of the placed keys that are offered in order of their places. Both arrays have
 * room for all of them, as for pk_sort_keys_64. */
typedef struct {
  int64_t *keys, *other;
  int64_t count, most, held, limit; /* none from the limit on is among the least */
} pk_sort_first;

/* So many of n. A line that is not much longer is sorted at once. */
static inline pk_sort_first pk_sort_first_of(int64_t *keys, int64_t *other, int64_t count,
                                             int64_t n) {
  const int64_t most = n > 8 * count ? 2 * count + 32 : n;
  return (pk_sort_first){keys, other, count, most, 0, INT64_MAX};
}

static inline void pk_sort_shrink(pk_sort_first *f) {
  int64_t *sorted = pk_sort_keys_64(f->keys, f->other, f->held);
  if (f->held > f->count) f->held = f->count;
  memcpy(f->keys, sorted, (size_t)f->held * sizeof *sorted);
  if (f->held == f->count) f->limit = sorted[f->count - 1];
}
PK_INLINE void pk_sort_offer(pk_sort_first *f, int64_t placed) {
  if (placed >= f->limit) return;
  f->keys[f->held++] = placed;
  if (f->held == f->most) pk_sort_shrink(f);
}
static inline const int64_t *pk_sort_chosen(pk_sort_first *f) {
  pk_sort_shrink(f);
  return f->keys;
}

/* -- orders of lines of 32-bit elements: their places go to `to` */

enum { PK_ORDER_LANES = PK_PART_LANES / 2 };

/* The first elements of lines of more elements, one after the other, are chosen, not sorted. */
enum { PK_ORDER_CHOSEN = 1024 };

/* Placed keys of the line at `from`; those that are among the first ones alone, if any are asked
 * for. In most vectors there is none to keep. */
static inline const int64_t *pk_order_line(const pk_sort_job_32 *j, const pk_sort_word_32 *from,
                                           int64_t first) {
  int64_t *const keys = j->scratch, *const other = j->scratch + 2 * j->stride;
  const int32_t flip = pk_sort_flip_32(j->kind, j->descending);
  pk_sort_first f = pk_sort_first_of(keys, other, first, j->n);
  int32_t lane[PK_PART_LANES];
  for (int64_t i = 0; i < j->n; i += PK_PART_LANES) {
    const int64_t left = j->n - i, count = left < PK_PART_LANES ? left : PK_PART_LANES;
    const pk_i32p key =
        pk_sort_keys_of_32(pk_sort_gather_32(from + i * j->step, j->step, left), j->kind, flip);
    if (first && !pk_sort_any((pk_i32p)(key <= (int32_t)(f.limit >> 32)))) continue;
    pk_sort_store_32(lane, key);
    for (int64_t k = 0; k < count; k++)
      if (first)
        pk_sort_offer(&f, pk_sort_placed(lane[k], i + k));
      else
        keys[i + k] = pk_sort_placed(lane[k], i + k);
  }
  return first ? pk_sort_chosen(&f) : pk_sort_keys_64(keys, other, j->n);
}

/* Rows of keys, `first` of which are to be in order: each row goes down those before it. */
static inline void pk_order_rows(int64_t *rows, int64_t n, int64_t first) {
  for (int64_t i = 0; i < n; i++) {
    pk_sort_i64p key = pk_sort_load_64(rows + i * PK_ORDER_LANES);
    for (int64_t k = 0; k < i && k < first; k++) {
      pk_sort_i64p kept = pk_sort_load_64(rows + k * PK_ORDER_LANES);
      pk_exchange_64(&kept, &key);
      pk_sort_store_64(rows + k * PK_ORDER_LANES, kept);
    }
    if (i < first) pk_sort_store_64(rows + i * PK_ORDER_LANES, key);
  }
}

/* Is that less work than a network, of some log(n)^2 / 4 exchanges a row? */
PK_INLINE bool pk_order_inserts(int64_t n, int64_t first) {
  int64_t log = 0;
  while (((int64_t)1 << log) < n) log++;
  return first > 0 && 4 * first < log * (log + 1);
}

/* Elements of 32 bits in rows of 64, as pk_sort_fill_64 places them, and back. */
typedef int32_t pk_order_half
    __attribute__((vector_size(PK_PART_BYTES / 2), aligned(4), may_alias));
static inline void pk_order_fill(int64_t *rows, const pk_sort_word_32 *from, int64_t step,
                                 int64_t line, int64_t n, int64_t count) {
  const bool vectors = line == 1 && count == PK_ORDER_LANES;
  for (int64_t i = 0; vectors && i < n; i++)
    pk_sort_store_64(rows + i * PK_ORDER_LANES,
                     __builtin_convertvector(
                         *(const pk_order_half *)(const void *)(from + i * step), pk_sort_i64p));
  for (int64_t k = 0; !vectors && k < PK_ORDER_LANES; k++) {
    const pk_sort_word_32 *p = from + (k < count ? k : count - 1) * line;
    for (int64_t i = 0; i < n; i++) rows[i * PK_ORDER_LANES + k] = p[i * step];
  }
}
static inline void pk_order_empty(pk_sort_word_32 *to, int64_t step, int64_t line,
                                  const int64_t *rows, int64_t n, int64_t count) {
  const bool vectors = line == 1 && count == PK_ORDER_LANES;
  for (int64_t i = 0; vectors && i < n; i++)
    *(pk_order_half *)(void *)(to + i * step) =
        __builtin_convertvector(pk_sort_load_64(rows + i * PK_ORDER_LANES), pk_order_half);
  for (int64_t k = 0; !vectors && k < count; k++)
    for (int64_t i = 0; i < n; i++)
      to[k * line + i * step] = (int32_t)pk_sort_place(rows[i * PK_ORDER_LANES + k]);
}

/* The key of an element of 32 bits with its place. */
PK_INLINE pk_sort_i64p pk_order_key(pk_sort_i64p bits, int kind, int64_t flip, int64_t place) {
  pk_sort_i64p key = bits ^ flip;
  if (kind == PK_SORT_FLOAT) {
    const pk_sort_i64p size = bits & INT32_MAX, some = (pk_sort_i64p)(size != 0),
                       nan = (pk_sort_i64p)(size > INT32_C(0x7f800000));
    key = (bits ^ (bits >> 63 & INT32_MAX)) & some;
    key = ((key ^ flip) & ~nan) | (nan & INT32_MAX);
  }
  return key << 32 | place;
}

static inline void pk_order_side_by_side(const pk_sort_job_32 *j, int64_t at, int64_t count,
                                         int64_t first) {
  int64_t *const rows = j->scratch;
  const int64_t height = pk_sort_height_64(j->n);
  const int32_t flip = pk_sort_flip_32(j->kind, j->descending);
  pk_order_fill(rows, j->from + at * j->line, j->step, j->line, j->n, count);
  for (int64_t i = 0; i < height; i++) {
    pk_sort_i64p key = INT64_MAX - (pk_sort_i64p){0};
    if (i < j->n) key = pk_order_key(pk_sort_load_64(rows + i * PK_ORDER_LANES), j->kind, flip, i);
    pk_sort_store_64(rows + i * PK_ORDER_LANES, key);
  }
  if (pk_order_inserts(j->n, first))
    pk_order_rows(rows, j->n, first);
  else
    pk_sort_columns_64(rows, height);
  pk_order_empty(j->to + at * j->to_line, j->to_step, j->to_line, rows,
                 first && first < j->n ? first : j->n, count);
}

/* `first`: so many from the start alone; 0: all. */
static inline void pk_order_lines(const pk_sort_job_32 *j, int64_t first) {
  const int64_t turned = first ? PK_ORDER_CHOSEN : PK_ORDER_TRANSPOSED,
                longest = j->step == 1 ? turned : PK_SORT_SIDE_BY_SIDE;
  const int64_t some = first && first < j->n ? first : j->n;
  for (int64_t at = 0, count; at < j->lines; at += count) {
    count = pk_sort_side_by_side_count(j->n, longest, j->lines - at, PK_ORDER_LANES);
    if (count) {
      pk_order_side_by_side(j, at, count, first);
      continue;
    }
    const int64_t *const order = pk_order_line(j, j->from + at * j->line, first);
    for (int64_t i = 0; i < some; i++)
      j->to[at * j->to_line + i * j->to_step] = (int32_t)pk_sort_place(order[i]);
    count = 1;
  }
}

/* -- orders of lines of 64-bit keys, which are sorted together with their places */

typedef struct {
  int64_t *key, *place;
} pk_sort_pairs;

/* Short runs are ordered by counting, for each pair, the pairs that precede it. */
enum { PK_SORT_RANKED = 8 };
static inline void pk_sort_rank(pk_sort_pairs to, pk_sort_pairs from, int64_t at, int64_t count) {
  for (int64_t i = at; i < at + count; i++) {
    const int64_t key = from.key[i];
    int64_t rank = at;
    for (int64_t k = at; k < i; k++) rank += from.key[k] <= key;
    for (int64_t k = i + 1; k < at + count; k++) rank += from.key[k] < key;
    to.key[rank] = key;
    to.place[rank] = from.place[i];
  }
}
/* No branch depends on the keys: a misprediction costs more than a step. */
static inline void pk_sort_merge(pk_sort_pairs to, pk_sort_pairs from, int64_t low, int64_t middle,
                                 int64_t high) {
  int64_t a = low, b = middle, i = low;
  while (a < middle && b < high) {
    const bool right = from.key[b] < from.key[a];
    const int64_t at = right ? b : a;
    to.key[i] = from.key[at];
    to.place[i++] = from.place[at];
    a += !right;
    b += right;
  }
  const int64_t rest = a < middle ? a : b;
  memcpy(to.key + i, from.key + rest, (size_t)(high - i) * sizeof *to.key);
  memcpy(to.place + i, from.place + rest, (size_t)(high - i) * sizeof *to.place);
}
/* Stable. Returns the pairs in order: in `other`, or in `pairs` again. */
static inline pk_sort_pairs pk_sort_in_pairs(pk_sort_pairs pairs, pk_sort_pairs other, int64_t n) {
  for (int64_t at = 0; at < n; at += PK_SORT_RANKED)
    pk_sort_rank(other, pairs, at, n - at < PK_SORT_RANKED ? n - at : PK_SORT_RANKED);
  for (int64_t width = PK_SORT_RANKED; width < n; width *= 2) {
    const pk_sort_pairs from = other, to = pairs;
    for (int64_t low = 0; low < n; low += 2 * width)
      pk_sort_merge(to, from, low, low + width < n ? low + width : n,
                    low + 2 * width < n ? low + 2 * width : n);
    pairs = from;
    other = to;
  }
  return other;
}
/* The order of the n keys at scratch[0], ascending or descending; of the first `first` alone if
 * some are asked for. `scratch` has four rows of `stride`. */
static inline const int64_t *pk_argsort(int64_t *scratch, int64_t stride, int64_t n, int64_t first,
                                        bool descending) {
  pk_sort_pairs pairs = {scratch, scratch + stride},
                other = {scratch + 2 * stride, scratch + 3 * stride};
  const int64_t most = first > 0 && n > 8 * first ? 2 * first + 32 : n;
  int64_t held = 0, limit = INT64_MAX;
  for (int64_t i = 0; i < n; i++) {
    const int64_t key = descending ? ~scratch[i] : scratch[i];
    if (held >= first && most < n && key >= limit) continue;
    scratch[held] = key;
    scratch[stride + held++] = i;
    if (held < most || most == n) continue;
    const pk_sort_pairs sorted = pk_sort_in_pairs(pairs, other, held);
    held = first;
    if (sorted.key != scratch) {
      memcpy(scratch, sorted.key, (size_t)held * sizeof *scratch);
      memcpy(scratch + stride, sorted.place, (size_t)held * sizeof *scratch);
    }
    limit = scratch[first - 1];
  }
  return pk_sort_in_pairs(pairs, other, held).place;
}

#endif
