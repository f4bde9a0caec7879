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

/* The same of a vector, and back. The key of a NaN is that of no number. */
PK_INLINE pk_i32v pk_sort_turn(pk_i32v bits) {
  return pk_xor_i32(bits, pk_and_constant(pk_shift_right(bits, 31), INT32_MAX));
}
PK_INLINE pk_i32v pk_sort_keys_f32(pk_f32v x, pk_i32v flip) {
  const pk_i32v bits = pk_bitcast_f32_i32(x), zero = pk_splat_i32(0);
  const pk_i32v key = pk_select_i32(pk_eq_f32(x, pk_splat_f32(0)), zero, pk_sort_turn(bits));
  return pk_select_i32(pk_ne_f32(x, x), pk_splat_i32(INT32_MAX), pk_xor_i32(key, flip));
}

/* -- lines of values */

/* Integers whose bits `flip` inverts are in the order of the keys. */
static inline void pk_sort_line_32(int32_t *to, const int32_t *from, int64_t n, int32_t flip,
                                   int64_t *room, int64_t stride) {
  int32_t *keys = (int32_t *)(void *)room;
  const pk_i32v turn = pk_splat_i32(flip);
  for (int64_t i = 0; i < n; i += PK_LANES)
    pk_store_i32(keys + i, pk_xor_i32(pk_loadn_i32(from + i, n - i), turn));
  keys = pk_sort_keys_32(keys, (int32_t *)(void *)(room + 2 * stride), n);
  for (int64_t i = 0; i < n; i += PK_LANES)
    pk_storen_i32(to + i, pk_xor_i32(pk_loadn_i32(keys + i, n - i), turn), n - i);
}

static inline void pk_sort_line_i32(int32_t *to, const int32_t *from, int64_t n, bool descending,
                                    int64_t *room, int64_t stride) {
  pk_sort_line_32(to, from, n, descending ? -1 : 0, room, stride);
}
static inline void pk_sort_line_u32(uint32_t *to, const uint32_t *from, int64_t n, bool descending,
                                    int64_t *room, int64_t stride) {
  pk_sort_line_32((int32_t *)to, (const int32_t *)from, n, descending ? INT32_MAX : INT32_MIN, room,
                  stride);
}

/* What its key does not tell: the signs of zeros, and NaNs, each in the order they had. */
static inline void pk_sort_odd_f32(float *to, const float *from, int64_t n) {
  int64_t zero = 0, nan = n;
  while (zero < n && to[zero] != 0) zero++;
  for (int64_t i = 0; i < n; i++) nan -= from[i] != from[i];
  for (int64_t i = 0; i < n; i++)
    if (from[i] == 0)
      memcpy(&to[zero++], &from[i], sizeof *to);
    else if (from[i] != from[i])
      memcpy(&to[nan++], &from[i], sizeof *to);
}

static inline void pk_sort_line_f32(float *to, const float *from, int64_t n, bool descending,
                                    int64_t *room, int64_t stride) {
  int32_t *keys = (int32_t *)(void *)room;
  const pk_i32v flip = pk_splat_i32(descending ? -1 : 0), minus = pk_splat_i32(INT32_MIN);
  pk_mask odd = pk_splat_mask(false);
  for (int64_t i = 0; i < n; i += PK_LANES) {
    const pk_f32v x = pk_loadn_f32(from + i, n - i);
    odd = pk_or_mask(odd, pk_or_mask(pk_ne_f32(x, x), pk_eq_i32(pk_bitcast_f32_i32(x), minus)));
    pk_store_i32(keys + i, pk_sort_keys_f32(x, flip));
  }
  keys = pk_sort_keys_32(keys, (int32_t *)(void *)(room + 2 * stride), n);
  for (int64_t i = 0; i < n; i += PK_LANES) {
    const pk_i32v key = pk_xor_i32(pk_loadn_i32(keys + i, n - i), flip);
    pk_storen_f32(to + i, pk_bitcast_i32_f32(pk_sort_turn(key)), n - i);
  }
  if (pk_any(odd)) pk_sort_odd_f32(to, from, n);
}

/* -- orders: keys with their places, so that equal ones stay in order */

PK_INLINE int64_t pk_sort_placed(int32_t key, int64_t place) {
  return (int64_t)((uint64_t)(uint32_t)key << 32) | place;
}
PK_INLINE int64_t pk_sort_place(int64_t placed) { return placed & UINT32_MAX; }

/* A line of elements, one after the other: n placed keys. */
static inline void pk_sort_place_f32(int64_t *keys, const float *from, int64_t n, bool descending) {
  const pk_i32v flip = pk_splat_i32(descending ? -1 : 0);
  int32_t key[PK_LANES];
  for (int64_t i = 0; i < n; i += PK_LANES) {
    pk_store_i32(key, pk_sort_keys_f32(pk_loadn_f32(from + i, n - i), flip));
    const int64_t count = pk_clamp_lanes(n - i);
    for (int64_t k = 0; k < count; k++) keys[i + k] = pk_sort_placed(key[k], i + k);
  }
}

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
/* Of elements one after the other; in most vectors there is none to keep. */
static inline void pk_sort_offer_f32(pk_sort_first *f, const float *from, int64_t n,
                                     bool descending) {
  const pk_i32v flip = pk_splat_i32(descending ? -1 : 0);
  int32_t key[PK_LANES];
  for (int64_t i = 0; i < n; i += PK_LANES) {
    const pk_i32v keys = pk_sort_keys_f32(pk_loadn_f32(from + i, n - i), flip);
    const pk_mask low = pk_le_i32(keys, pk_splat_i32((int32_t)(f->limit >> 32)));
    uint32_t kept = pk_mask_bits(pk_and_mask(low, pk_mask_first(n - i)));
    if (kept) pk_store_i32(key, keys);
    for (; kept; kept &= kept - 1) {
      const int k = __builtin_ctz(kept);
      pk_sort_offer(f, pk_sort_placed(key[k], i + k));
    }
  }
}
static inline const int64_t *pk_sort_chosen(pk_sort_first *f) {
  pk_sort_shrink(f);
  return f->keys;
}

/* Stable merge sort of n keys at room[0]; room has four rows of `stride`. Returns the order,
 * ascending or descending. */
static inline const int64_t *pk_argsort(int64_t *room, int64_t stride, int64_t n, bool descending) {
  const int64_t *key = room;
  int64_t *from = room + stride, *to = room + 2 * stride;
  for (int64_t i = 0; i < n; i++) from[i] = i;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      const int64_t middle = low + width < n ? low + width : n,
                    high = low + 2 * width < n ? low + 2 * width : n;
      int64_t a = low, b = middle;
      for (int64_t i = low; i < high; i++) {
        const bool right =
            a >= middle ||
            (b < high && (descending ? key[from[b]] > key[from[a]] : key[from[b]] < key[from[a]]));
        to[i] = right ? from[b++] : from[a++];
      }
    }
    int64_t *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

#endif
