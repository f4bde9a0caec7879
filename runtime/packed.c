/* Copies of elements that share bytes: two of 4 bits, or four of 2, the first in the lowest bits.
 */
#include "runtime/runtime.h"

#include <string.h>

enum { CHUNK = 1024 };

/* ---- single elements; another thread may be writing the other elements of the byte */

static uint8_t *byte_of(const pk_bits *row, int64_t at) {
  return (uint8_t *)row->data + ((at * row->bits) >> 3);
}
static int shift_of(const pk_bits *row, int64_t at) { return (int)((at * row->bits) & 7); }

static uint8_t get(const pk_bits *row, int64_t at) {
  const uint8_t byte = __atomic_load_n(byte_of(row, at), __ATOMIC_RELAXED);
  return (uint8_t)(byte >> shift_of(row, at) & ((1 << row->bits) - 1));
}

static void put(const pk_bits *row, int64_t at, uint8_t value) {
  const int shift = shift_of(row, at), mask = ((1 << row->bits) - 1) << shift;
  uint8_t *byte = byte_of(row, at), seen = __atomic_load_n(byte, __ATOMIC_RELAXED), wanted;
  do wanted = (uint8_t)((seen & ~mask) | ((value << shift) & mask));
  while (
      !__atomic_compare_exchange_n(byte, &seen, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* ---- whole bytes */

typedef uint8_t bytes16 __attribute__((vector_size(16)));

/* Returns the number of bytes processed. */
static int64_t unpack_pairs(int64_t bytes, const uint8_t *from, uint8_t *to) {
  int64_t i = 0;
#if defined __has_builtin
#if __has_builtin(__builtin_shufflevector)
  for (; i + 16 <= bytes; i += 16) {
    bytes16 both, low, high;
    memcpy(&both, from + i, 16);
    low = both & 15;
    high = both >> 4;
    const bytes16 first = __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                                  21, 6, 22, 7, 23),
                  second = __builtin_shufflevector(low, high, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                   13, 29, 14, 30, 15, 31);
    memcpy(to + 2 * i, &first, 16);
    memcpy(to + 2 * i + 16, &second, 16);
  }
#endif
#endif
  return i;
}

static int64_t pack_pairs(int64_t bytes, const uint8_t *from, uint8_t *to) {
  int64_t i = 0;
#if defined __has_builtin
#if __has_builtin(__builtin_shufflevector)
  for (; i + 16 <= bytes; i += 16) {
    bytes16 first, second;
    memcpy(&first, from + 2 * i, 16);
    memcpy(&second, from + 2 * i + 16, 16);
    const bytes16 low = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                                20, 22, 24, 26, 28, 30),
                  high = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19,
                                                 21, 23, 25, 27, 29, 31),
                  both = (low & 15) | (high << 4);
    memcpy(to + i, &both, 16);
  }
#endif
#endif
  return i;
}

static void unpack_bytes(int64_t bytes, int bits, const uint8_t *from, uint8_t *to) {
  const int each = 8 / bits, mask = (1 << bits) - 1;
  for (int64_t i = bits == 4 ? unpack_pairs(bytes, from, to) : 0; i < bytes; ++i) {
    for (int k = 0; k < each; ++k) to[i * each + k] = (uint8_t)(from[i] >> k * bits & mask);
  }
}

static void pack_bytes(int64_t bytes, int bits, const uint8_t *from, uint8_t *to) {
  const int each = 8 / bits, mask = (1 << bits) - 1;
  for (int64_t i = bits == 4 ? pack_pairs(bytes, from, to) : 0; i < bytes; ++i) {
    int byte = 0;
    for (int k = 0; k < each; ++k) byte |= (from[i * each + k] & mask) << k * bits;
    to[i] = (uint8_t)byte;
  }
}

/* ---- rows */

static void read_row(const pk_bits *row, int64_t stride, int64_t count, uint8_t *to) {
  const int each = 8 / row->bits;
  int64_t i = 0, at = row->at;
  if (stride == 1 && each > 1) {
    for (; i < count && shift_of(row, at + i); ++i) to[i] = get(row, at + i);
    const int64_t bytes = (count - i) / each;
    unpack_bytes(bytes, row->bits, byte_of(row, at + i), to + i);
    i += bytes * each;
  }
  for (; i < count; ++i)
    to[i] = each > 1 ? get(row, at + i * stride) : (uint8_t)row->data[at + i * stride];
}

static void write_row(const pk_bits *row, int64_t stride, int64_t count, const uint8_t *from) {
  const int each = 8 / row->bits;
  int64_t i = 0, at = row->at;
  if (stride == 1 && each > 1) {
    for (; i < count && shift_of(row, at + i); ++i) put(row, at + i, from[i]);
    const int64_t bytes = (count - i) / each;
    pack_bytes(bytes, row->bits, from + i, byte_of(row, at + i));
    i += bytes * each;
  }
  for (; i < count; ++i) {
    if (each > 1)
      put(row, at + i * stride, from[i]);
    else
      row->data[at + i * stride] = (char)from[i];
  }
}

static bool is_plain(const pk_bits *row, int64_t stride) { return row->bits == 8 && stride == 1; }

static void copy_row(int64_t count, pk_bits from, int64_t from_stride, pk_bits to,
                     int64_t to_stride) {
  uint8_t between[CHUNK];
  if (is_plain(&to, to_stride)) {
    read_row(&from, from_stride, count, (uint8_t *)to.data + to.at);
    return;
  }
  if (is_plain(&from, from_stride)) {
    write_row(&to, to_stride, count, (const uint8_t *)from.data + from.at);
    return;
  }
  for (int64_t done = 0; done < count; done += CHUNK) {
    const int64_t part = count - done < CHUNK ? count - done : CHUNK;
    read_row(&from, from_stride, part, between);
    write_row(&to, to_stride, part, between);
    from.at += part * from_stride;
    to.at += part * to_stride;
  }
}

/* Copies a nest of loops whose elements have fewer than 8 bits at either end, a row at a time. */
void pk_copy_packed_nest(const pk_nest *nest, pk_bits from, pk_bits to) {
  const int row = nest->rank - 1;
  int64_t index[PK_WINDOW_RANK] = {0};
  for (int k = 0; k < nest->rank; ++k) {
    if (nest->count[k] <= 0) return;
  }
  for (;;) {
    if (row < 0)
      copy_row(1, from, 1, to, 1);
    else
      copy_row(nest->count[row], from, nest->from_stride[row], to, nest->to_stride[row]);
    int k = row - 1;
    for (; k >= 0; --k) {
      from.at += nest->from_stride[k];
      to.at += nest->to_stride[k];
      if (++index[k] < nest->count[k]) break;
      from.at -= nest->from_stride[k] * nest->count[k];
      to.at -= nest->to_stride[k] * nest->count[k];
      index[k] = 0;
    }
    if (k < 0) return;
  }
}
