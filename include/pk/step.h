/* step.h: helpers of generated grid steps. */
#ifndef PK_STEP_H
#define PK_STEP_H

#include <pk/machine.h>
#include <pk/rt.h>
#include <pk/vec.h>
#include <string.h>

static inline int64_t pk_round_up(int64_t n, int64_t to) {
  return n > INT64_MAX - to ? INT64_MAX : (n + to - 1) / to * to;
}

/* Distance between rows in memory, in elements: whole vectors, but not a multiple of 1 KiB,
 * which would map rows to the same sets of L1. */
static inline int64_t pk_row_length(int64_t n, int64_t to, int64_t element_bytes) {
  const int64_t whole = pk_round_up(n, to);
  return whole > 0 && whole % (1024 / element_bytes) == 0 ? pk_sat_add(whole, 64 / element_bytes)
                                                          : whole;
}

/* The number of elements of a block that are in bounds. The block has `block` elements from
 * `start` on; the extent of the axis is `dim`. A block that starts before the array counts as
 * out of bounds. */
static inline int64_t pk_inside(int64_t dim, int64_t start, int64_t block) {
  return start < 0 || start >= dim ? 0 : dim - start < block ? dim - start : block;
}

/* The first row of part `part` of a block that is divided into `parts`; its first `rows` rows
 * are in bounds. If parts would have fewer than `least` rows, there are fewer, and the last ones
 * are empty. */
static inline int64_t pk_part_at(int64_t rows, int64_t part, int64_t parts, int64_t least) {
  const int64_t most = rows / least < 1 ? 1 : rows / least, count = parts < most ? parts : most;
  return part >= count ? rows : rows * part / count;
}

/* The fraction of a block that is in bounds, for the block of the axis that has most elements in
 * bounds. */
static inline double pk_filled(int64_t dim, int64_t block) {
  return dim < block ? (double)dim / (double)block : 1;
}

/* The start of a window, clamped so that the window is in bounds; `last` is the last such start. */
static inline int64_t pk_start(int64_t start, int64_t last) {
  return start < 0 || last <= 0 ? 0 : start > last ? last : start;
}

/* Is `index` in bounds of an axis of n elements? */
static inline bool pk_is_index(int64_t index, int64_t n) { return index >= 0 && index < n; }

/* A condition that holds, which compilers do not evaluate when they warn of code that is never
 * reached. */
static inline bool pk_always(void) { return true; }

/* ---- integers that become 16-bit floats: beyond 2^24 their low bits are rounded to odd, so
 * that f32 holds the result exactly and only the last rounding counts (Boldo and Melquiond,
 * round to odd) */

static inline pk_i32v pk_odd_bits(pk_i32v x, pk_mask exact) {
  const pk_i32v low = pk_and_i32(x, pk_splat_i32(0xff)), high = pk_and_i32(x, pk_splat_i32(~0xff)),
                zero = pk_splat_i32(0);
  return pk_select_i32(
      exact, x, pk_or_i32(high, pk_select_i32(pk_ne_i32(low, zero), pk_splat_i32(0x100), zero)));
}
static inline pk_i32v pk_odd_i32(pk_i32v x) {
  return pk_odd_bits(x, pk_lt_u32(pk_add_i32(x, pk_splat_i32(1 << 24)), pk_splat_i32(1 << 25)));
}
static inline pk_i32v pk_odd_u32(pk_i32v x) {
  return pk_odd_bits(x, pk_lt_u32(x, pk_splat_i32(1 << 24)));
}
static inline int64_t pks_odd_bits(int64_t x) {
  uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  if (size >> 24) {
    const int lost = 40 - __builtin_clzll(size);
    const bool sticky = (size & ((UINT64_C(1) << lost) - 1)) != 0;
    size = (size >> lost | sticky) << lost;
  }
  return (int64_t)(x < 0 ? 0 - size : size);
}
static inline int32_t pks_odd_i32(int32_t x) { return (int32_t)pks_odd_bits(x); }
static inline uint32_t pks_odd_u32(uint32_t x) { return (uint32_t)pks_odd_bits(x); }
static inline float pks_odd_i64(int64_t x) {
  const int64_t bits = pks_odd_bits(x);
  return (float)bits;
}

/* ---- elements of prefetched operands: an index out of bounds is clamped; for an empty array
 * the element is 0 */

static inline int64_t pk_element_at(const pk_array *array, int rank, const int64_t *index) {
  int64_t at = 0;
  for (int k = 0; k < rank; k++) {
    if (array->dim[k] <= 0) return -1;
    at += pk_idx_clamp(index[k], 0, array->dim[k] - 1) * array->stride[k];
  }
  return at;
}
#define PK_ELEMENT(name, type)                                                                  \
  static inline type pk_element_##name(const pk_array *array, int rank, const int64_t *index) { \
    const int64_t at = pk_element_at(array, rank, index);                                       \
    return at < 0 ? (type)0 : ((const type *)(const void *)array->data)[at];                    \
  }
PK_ELEMENT(i8, int8_t)
PK_ELEMENT(u8, uint8_t)
PK_ELEMENT(i16, int16_t)
PK_ELEMENT(u16, uint16_t)
PK_ELEMENT(i32, int32_t)
PK_ELEMENT(u32, uint32_t)
PK_ELEMENT(i64, int64_t)
PK_ELEMENT(u64, uint64_t)

/* ---- rows of `bytes` bytes that begin `to_step` and `from_step` bytes apart. Contiguous rows are
 * copied at once, since a C library writes long copies without reading the lines that it writes */

PK_INLINE void pk_copy_lines(void *to, int64_t to_step, const void *from, int64_t from_step,
                             int64_t lines, int64_t bytes) {
  enum { LONG = 4096 };
  if (to_step == bytes && from_step == bytes && lines * bytes >= LONG) {
    memcpy(to, from, (size_t)(lines * bytes));
    return;
  }
  for (int64_t i = 0; i < lines; i++)
    memcpy((char *)to + i * to_step, (const char *)from + i * from_step, (size_t)bytes);
}

/* ---- n elements in reverse order; `from` is the first that is read and the last in memory. 16
 * bytes at a time are reversed by one or two instructions */

#define PK_COPY_BACKWARDS(bytes, type, ...)                                              \
  static inline void pk_copy_backwards_b##bytes(void *to, const void *from, int64_t n) { \
    typedef type pk_bytes16 __attribute__((vector_size(16)));                            \
    enum { COUNT = 16 / (bytes) };                                                       \
    char *const out = (char *)to;                                                        \
    const char *const in = (const char *)from;                                           \
    int64_t i = 0;                                                                       \
    for (; i + COUNT <= n; i += COUNT) {                                                 \
      pk_bytes16 v;                                                                      \
      memcpy(&v, in - (i + COUNT - 1) * (bytes), sizeof v);                              \
      v = __builtin_shufflevector(v, v, __VA_ARGS__);                                    \
      memcpy(out + i * (bytes), &v, sizeof v);                                           \
    }                                                                                    \
    for (; i < n; i++) memcpy(out + i * (bytes), in - i * (bytes), bytes);               \
  }
PK_COPY_BACKWARDS(1, uint8_t, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
PK_COPY_BACKWARDS(2, uint16_t, 7, 6, 5, 4, 3, 2, 1, 0)
PK_COPY_BACKWARDS(4, uint32_t, 3, 2, 1, 0)
PK_COPY_BACKWARDS(8, uint64_t, 1, 0)
#undef PK_COPY_BACKWARDS

/* ---- every second of 2n - 1 elements. A vector is made of two, whose last element may be beyond
 * these: the last vector is made of those that end at the last element */

#define PK_LIST(...) __VA_ARGS__
#define PK_TAKE_LANES(v, ...) __builtin_shufflevector(v[0], v[1], __VA_ARGS__)
#define PK_COPY_ALTERNATE(bytes, type, even, odd)                                        \
  static inline void pk_copy_alternate_b##bytes(void *to, const void *from, int64_t n) { \
    typedef type pk_bytes16 __attribute__((vector_size(16)));                            \
    enum { COUNT = 16 / (bytes) };                                                       \
    char *const out = (char *)to;                                                        \
    const char *const in = (const char *)from;                                           \
    pk_bytes16 v[2];                                                                     \
    int64_t i = 0;                                                                       \
    for (; i + COUNT < n; i += COUNT) {                                                  \
      memcpy(v, in + 2 * i * (bytes), sizeof v);                                         \
      v[0] = PK_TAKE_LANES(v, PK_LIST even);                                             \
      memcpy(out + i * (bytes), v, sizeof *v);                                           \
    }                                                                                    \
    if (n > COUNT) {                                                                     \
      memcpy(v, in + (2 * (n - COUNT) - 1) * (bytes), sizeof v);                         \
      v[0] = PK_TAKE_LANES(v, PK_LIST odd);                                              \
      memcpy(out + (n - COUNT) * (bytes), v, sizeof *v);                                 \
      return;                                                                            \
    }                                                                                    \
    for (; i < n; i++) memcpy(out + i * (bytes), in + 2 * i * (bytes), bytes);           \
  }
PK_COPY_ALTERNATE(1, uint8_t, (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                  (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31))
PK_COPY_ALTERNATE(2, uint16_t, (0, 2, 4, 6, 8, 10, 12, 14), (1, 3, 5, 7, 9, 11, 13, 15))
PK_COPY_ALTERNATE(4, uint32_t, (0, 2, 4, 6), (1, 3, 5, 7))
PK_COPY_ALTERNATE(8, uint64_t, (0, 2), (1, 3))
#undef PK_COPY_ALTERNATE
#undef PK_TAKE_LANES
#undef PK_LIST

/* ---- explicit memory: semaphores count bytes or signals */

static inline void pk_semaphore_signal(int64_t *semaphore, int64_t amount) {
  *semaphore = pk_sat_add(*semaphore, amount > 0 ? amount : 0);
}
/* Waits for `amount`. Nothing can arrive later: copies are complete when they have started, and
 * a cell runs alone. */
static inline void pk_semaphore_wait(pk_worker *worker, int64_t *semaphore, int64_t amount,
                                     const char *message) {
  if (*semaphore < amount) pk_fail(worker, message);
  *semaphore = *semaphore < amount ? 0 : *semaphore - (amount > 0 ? amount : 0);
}

/* Limits an array to a block of `at slice`: along each axis it ends at the end of the slice. */
static inline pk_array pk_sliced(const pk_array *array, int rank, const int64_t *start,
                                 const int64_t *length) {
  pk_array sliced = *array;
  for (int k = 0; k < rank; k++) {
    const int64_t end =
        pk_idx_max(0, pk_sat_add(pk_idx_max(start[k], -INT64_MAX), pk_idx_max(length[k], 0)));
    sliced.dim[k] = pk_idx_min(array->dim[k], end);
  }
  return sliced;
}

/* ---- elements of 64-bit index arithmetic */

static inline int64_t pks_load_i64(const int64_t *p) { return *p; }
static inline void pks_store_i64(int64_t *p, int64_t x) { *p = x; }
static inline int64_t pks_add_i64(int64_t a, int64_t b) { return pk_idx_add(a, b); }
static inline int64_t pks_mul_i64(int64_t a, int64_t b) { return pk_idx_mul(a, b); }
static inline int64_t pks_max_i64(int64_t a, int64_t b) { return pk_idx_max(a, b); }
static inline int64_t pks_min_i64(int64_t a, int64_t b) { return pk_idx_min(a, b); }
static inline int64_t pks_and_i64(int64_t a, int64_t b) { return a & b; }
static inline int64_t pks_or_i64(int64_t a, int64_t b) { return a | b; }
static inline int64_t pks_xor_i64(int64_t a, int64_t b) { return a ^ b; }
/* Truncates and saturates; NaN becomes 0. */
static inline int64_t pks_cast_f32_i64(float x) {
  return x != x ? 0 : x >= 0x1p63f ? INT64_MAX : x <= -0x1p63f ? INT64_MIN : (int64_t)x;
}
static inline int64_t pk_idx_abs(int64_t a) { return a < 0 ? pk_idx_neg(a) : a; }
static inline int64_t pk_idx_sign(int64_t a) { return (a > 0) - (a < 0); }
static inline int64_t pk_idx_not(int64_t a) { return ~a; }
static inline int64_t pk_idx_and(int64_t a, int64_t b) { return a & b; }
static inline int64_t pk_idx_or(int64_t a, int64_t b) { return a | b; }
static inline int64_t pk_idx_xor(int64_t a, int64_t b) { return a ^ b; }
static inline int64_t pk_idx_shl(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}
static inline int64_t pk_idx_shr(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
static inline int64_t pk_idx_ushr(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a >> b);
}
static inline int64_t pk_idx_population_count(int64_t a) {
  return __builtin_popcountll((uint64_t)a);
}
static inline int64_t pk_idx_clz(int64_t a) { return a ? __builtin_clzll((uint64_t)a) : 64; }
static inline int64_t pk_idx_pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t result = 1, base = (uint64_t)a;
  for (; b; b >>= 1, base *= base)
    if (b & 1) result *= base;
  return (int64_t)result;
}

/* ---- block caches: a direct-mapped cache of packed copies, by block index */

/* A key for a combination of block indices; indices out of bounds count as one. */
static inline int64_t pk_key(int64_t key, int64_t index, int64_t blocks) {
  return (int64_t)((uint64_t)key * ((uint64_t)blocks + 1) +
                   (uint64_t)(index < 0 || index > blocks ? blocks : index));
}
static inline int64_t pk_slot(int64_t slot, int64_t index, int64_t blocks) {
  const int64_t inside = index < 0 || blocks <= 0 ? 0 : index >= blocks ? blocks - 1 : index;
  return (int64_t)((uint64_t)slot * (uint64_t)(blocks > 0 ? blocks : 1) + (uint64_t)inside);
}
static inline int64_t pk_cdiv(int64_t a, int64_t b) { return b <= 0 ? 0 : a / b + (a % b > 0); }
/* The number of copies to keep: the number that are reused, within `budget` bytes, at least one. */
static inline int64_t pk_slots(int64_t wanted, int64_t bytes, int64_t budget) {
  const int64_t capacity = bytes > 0 ? budget / bytes : 1;
  return wanted < 1 ? 1 : wanted < capacity ? wanted : capacity < 1 ? 1 : capacity;
}
/* Must the block of this key be fetched into its slot, whose tag is given? Sets the tag to the
 * key. */
static inline bool pk_slot_miss(int64_t *tag, int64_t key) {
  if (*tag == key + 1) return false;
  *tag = key + 1;
  return true;
}

/* ---- batches: consecutive cells along an axis that execute a step together, with their rows
 * stacked. Of `n` cells, each `run` read the same blocks; a run is divided into equal batches of
 * at most `most` cells */

/* The number of cells in a batch of up to `capacity` rows, at least 1; cells have `rows` rows. */
static inline int64_t pk_batch_most(int64_t rows, int64_t capacity) {
  return rows < 1 || capacity / rows < 1 ? 1 : capacity / rows;
}
static inline int64_t pk_batches(int64_t n, int64_t run, int64_t most) {
  return pk_sat_mul(pk_cdiv(n, run), pk_cdiv(run, most));
}
static inline int64_t pk_batch_first(int64_t batch, int64_t n, int64_t run, int64_t most) {
  const int64_t parts = pk_cdiv(run, most), at = batch % parts * pk_cdiv(run, parts);
  return pk_idx_min(batch / parts * run + pk_idx_min(at, run), n);
}
/* The row within its own cell of a stacked row; cells have `rows` rows. */
static inline int64_t pk_own_row(int64_t row, int64_t own) { return row < own ? row : row % own; }

/* Reserves the next `bytes` bytes of an arena, aligned to a cache line. Writes their offset to
 * *offset and the new end to *end, which saturates. */
#ifdef PK_FENCES
#include <pk/fence.h>
#else
static inline void pk_reserve(int64_t *end, int64_t *offset, int64_t bytes) {
  *offset = *end;
  *end = pk_sat_add(*end, pk_round_up(bytes, 64));
}
#endif

/* ---- non-temporal stores of outputs that are not read soon */

/* Are this f32 output and the arrays of its call large enough for non-temporal stores? */
static inline bool pk_streams(const pk_call *call, int operand) {
  const int rank = call->kernel->operand[operand].rank;
  const int64_t bytes = pk_array_bytes(&call->array[operand], rank, 4),
                all = call->plan->operand_bytes;
  const bool lone = all - bytes < bytes / 8;
  return bytes >= PK_STREAM_BYTES && all >= PK_STREAM_ALL && !(lone && all < PK_STREAM_LONE);
}

/* The same for an output that is read back in parts: is it so large that the parts would be read
 * from memory anyway? */
static inline bool pk_streams_far(const pk_call *call, int operand) {
  const int rank = call->kernel->operand[operand].rank;
  return pk_array_bytes(&call->array[operand], rank, 4) >= PK_STREAM_FAR;
}

/* The number of elements before the first non-temporal store, from 1 to PK_LANES. The first vector
 * of a row is stored unaligned, and the second begins at this element, which is aligned: the two
 * may overlap, and then store the same values twice. */
static inline int64_t pk_stream_head(const float *to, bool stream) {
  return stream ? PK_LANES - (int64_t)((uintptr_t)to / 4 % PK_LANES) : PK_LANES;
}

/* Can stores from `to` on be non-temporal? Such stores require alignment. */
static inline bool pk_stream_aligned(const float *to, bool stream) {
  return stream && (uintptr_t)to % PK_VEC_BYTES == 0;
}

/* Prefetches a line of the next row into L2. */
static inline void pk_prefetch_l2(const void *p) { __builtin_prefetch(p, 0, 2); }
/* The prefetch distance in rows, for `height` rows of `bytes` each: the next row, or
 * PK_DOT_SKINNY_AHEAD bytes if rows are contiguous. */
static inline int64_t pk_rows_ahead(int64_t height, int64_t bytes, const void *row,
                                    const void *next) {
  const bool dense = (const char *)next - (const char *)row == bytes;
  const int64_t n = dense && bytes > 0 ? PK_DOT_SKINNY_AHEAD / bytes / height : 1;
  return height * (n > 1 ? n : 1);
}
static inline void pk_prefetch_row(const void *p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) pk_prefetch_l2((const char *)p + i);
}

#endif
