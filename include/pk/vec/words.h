/* vec/words.h: words in memory taken apart, and words joined from rows of their parts in memory.
 * Included by vec.h only.
 * pk_packed_part_W_T(p, k)   part k, of T bits, lowest first, of each word of W bits from p on: as
 *                            many as a packed vector of T bits has lanes
 * pk_join_8_32(k, a, b, c, d), pk_join_16_32(k, a, b), pk_packed_join_8_16(k, a, b)
 *                            vector k of the words whose parts are the elements from a, b, .. on,
 *                            lowest first
 * Calls for all k load each vector once, because the C compiler sees that the loads are the same.
 *
 * Instructions interleave vectors within each 16 bytes. So pieces of the vectors are put in another
 * order before they are joined, and after they are taken apart. */
#ifndef PK_VEC_WORDS_H
#define PK_VEC_WORDS_H

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PK_PART_PLACE(n, k) ((n)-1 - (k))
#else
#define PK_PART_PLACE(n, k) (k)
#endif

typedef uint64_t pk_pieces __attribute__((vector_size(PK_PART_BYTES)));

/* f(i, x) for each element i of a machine's vector. */
#define PK_LIST_2(f, i, x) f(i, x), f((i) + 1, x)
#define PK_LIST_4(f, i, x) PK_LIST_2(f, i, x), PK_LIST_2(f, (i) + 2, x)
#define PK_LIST_8(f, i, x) PK_LIST_4(f, i, x), PK_LIST_4(f, (i) + 4, x)
#define PK_LIST_16(f, i, x) PK_LIST_8(f, i, x), PK_LIST_8(f, (i) + 8, x)
#define PK_LIST_32(f, i, x) PK_LIST_16(f, i, x), PK_LIST_16(f, (i) + 16, x)
#define PK_LIST_64(f, i, x) PK_LIST_32(f, i, x), PK_LIST_32(f, (i) + 32, x)
#if PK_PART_BYTES == 64
#define PK_EACH_8(f, x) PK_LIST_64(f, 0, x)
#define PK_EACH_16(f, x) PK_LIST_32(f, 0, x)
#define PK_EACH_32(f, x) PK_LIST_16(f, 0, x)
#define PK_EACH_64(f, x) PK_LIST_8(f, 0, x)
#elif PK_PART_BYTES == 32
#define PK_EACH_8(f, x) PK_LIST_32(f, 0, x)
#define PK_EACH_16(f, x) PK_LIST_16(f, 0, x)
#define PK_EACH_32(f, x) PK_LIST_8(f, 0, x)
#define PK_EACH_64(f, x) PK_LIST_4(f, 0, x)
#else
#define PK_EACH_8(f, x) PK_LIST_16(f, 0, x)
#define PK_EACH_16(f, x) PK_LIST_8(f, 0, x)
#define PK_EACH_32(f, x) PK_LIST_4(f, 0, x)
#define PK_EACH_64(f, x) PK_LIST_2(f, 0, x)
#endif

/* The elements of the lower (0) or the upper halves (1) of each 16 bytes of a and b, alternating.
 */
#define PK_ZIPPED(bits, half, i)                                                       \
  ((i) / (128 / bits) * (128 / bits) + (half) * (64 / bits) + (i) % (128 / bits) / 2 + \
   ((i) % 2 ? 8 * PK_PART_BYTES / bits : 0))
#define PK_ZIP_8(i, x) PK_ZIPPED(8, x, i)
#define PK_ZIP_16(i, x) PK_ZIPPED(16, x, i)
#define PK_ZIP_32(i, x) PK_ZIPPED(32, x, i)
#define PK_ZIP_64(i, x) PK_ZIPPED(64, x, i)
#define PK_ZIP(bits, T)                                                                   \
  PK_INLINE pk_u8p pk_zip_low_##bits(pk_u8p a, pk_u8p b) {                                \
    return (pk_u8p)__builtin_shufflevector((T)a, (T)b, PK_EACH_##bits(PK_ZIP_##bits, 0)); \
  }                                                                                       \
  PK_INLINE pk_u8p pk_zip_high_##bits(pk_u8p a, pk_u8p b) {                               \
    return (pk_u8p)__builtin_shufflevector((T)a, (T)b, PK_EACH_##bits(PK_ZIP_##bits, 1)); \
  }
PK_ZIP(8, pk_u8p)
PK_ZIP(16, pk_u16p)
PK_ZIP(32, pk_u32p)
PK_ZIP(64, pk_pieces)

/* In each 16 bytes first the lowest parts of all words, then the next ones; sizes in bytes. */
#define PK_GROUP_PLACE(word, part, i)                                               \
  ((i) / 16 * 16 + (i) % 16 % (part) + (i) % 16 / (part) % (16 / (word)) * (word) + \
   PK_PART_PLACE((word) / (part), (i) % 16 / (part) / (16 / (word))) * (part))
#define PK_GROUP_4_1(i, x) PK_GROUP_PLACE(4, 1, i)
#define PK_GROUP_4_2(i, x) PK_GROUP_PLACE(4, 2, i)
#define PK_GROUP_2_1(i, x) PK_GROUP_PLACE(2, 1, i)
#define PK_GROUPED(word, part)                                                    \
  PK_INLINE pk_u8p pk_grouped_##word##_##part(pk_u8p a) {                         \
    return __builtin_shufflevector(a, a, PK_EACH_8(PK_GROUP_##word##_##part, 0)); \
  }
PK_GROUPED(4, 1)
PK_GROUPED(4, 2)
PK_GROUPED(2, 1)

/* Of n pieces in each 16 bytes, piece k of line l is to be, or was, piece k * lines + l of all. */
enum { PK_LINES = PK_PART_BYTES / 16 };
#define PK_SORT_2(i, x) ((i) % PK_LINES * 2 + (i) / PK_LINES)
#define PK_SORT_4(i, x) ((i) % PK_LINES * 4 + (i) / PK_LINES)
#define PK_DEAL_2(i, x) ((i) % 2 * PK_LINES + (i) / 2)
#define PK_DEAL_4(i, x) ((i) % 4 * PK_LINES + (i) / 4)
#define PK_REORDER(name, list, bits, T)                                          \
  PK_INLINE pk_u8p name(pk_u8p a) {                                              \
    return (pk_u8p)__builtin_shufflevector((T)a, (T)a, PK_EACH_##bits(list, 0)); \
  }
PK_REORDER(pk_sorted_2, PK_SORT_2, 64, pk_pieces)
PK_REORDER(pk_sorted_4, PK_SORT_4, 32, pk_u32p)
PK_REORDER(pk_dealt_2, PK_DEAL_2, 64, pk_pieces)
PK_REORDER(pk_dealt_4, PK_DEAL_4, 32, pk_u32p)

PK_INLINE pk_u8p pk_bytes_at(const char *p, int64_t n) {
  pk_u8p x;
  __builtin_memcpy(&x, p + n * PK_PART_BYTES, sizeof x);
  return x;
}

#define PK_PACKED_PART_2(W, T, word, part)                                                         \
  PK_INLINE pk_packed##T pk_packed_part_##W##_##T(const void *p, int which) {                      \
    pk_packed##T x;                                                                                \
    PK_EACH_PART({                                                                                 \
      const pk_u8p a = pk_grouped_##word##_##part(pk_bytes_at((const char *)p, 2 * k)),            \
                   b = pk_grouped_##word##_##part(pk_bytes_at((const char *)p, 2 * k + 1));        \
      PK_PART(x, k) = (pk_u##T##p)pk_sorted_2(which ? pk_zip_high_64(a, b) : pk_zip_low_64(a, b)); \
    })                                                                                             \
    return x;                                                                                      \
  }
PK_PACKED_PART_2(32, 16, 4, 2)
PK_PACKED_PART_2(16, 8, 2, 1)
PK_INLINE pk_packed8 pk_packed_part_32_8(const void *p, int which) {
  pk_packed8 x;
  PK_EACH_PART({
    const pk_u8p a = pk_grouped_4_1(pk_bytes_at((const char *)p, 4 * k)),
                 b = pk_grouped_4_1(pk_bytes_at((const char *)p, 4 * k + 1)),
                 c = pk_grouped_4_1(pk_bytes_at((const char *)p, 4 * k + 2)),
                 d = pk_grouped_4_1(pk_bytes_at((const char *)p, 4 * k + 3)),
                 ab = which < 2 ? pk_zip_low_32(a, b) : pk_zip_high_32(a, b),
                 cd = which < 2 ? pk_zip_low_32(c, d) : pk_zip_high_32(c, d);
    PK_PART(x, k) = pk_sorted_4(which % 2 ? pk_zip_high_64(ab, cd) : pk_zip_low_64(ab, cd));
  })
  return x;
}

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PK_LOW_FIRST(f, a, b) f(b, a)
#else
#define PK_LOW_FIRST(f, a, b) f(a, b)
#endif
/* Vector n of the words, of those of the machine. */
#define PK_JOIN_2(T)                                                                           \
  PK_INLINE pk_u8p pk_joined_##T(const char *a, const char *b, int n) {                        \
    const pk_u8p x = pk_dealt_2(pk_bytes_at(a, n / 2)), y = pk_dealt_2(pk_bytes_at(b, n / 2)); \
    return n % 2 ? PK_LOW_FIRST(pk_zip_high_##T, x, y) : PK_LOW_FIRST(pk_zip_low_##T, x, y);   \
  }
PK_JOIN_2(8)
PK_JOIN_2(16)
PK_INLINE pk_u8p pk_joined_4(const char *a, const char *b, const char *c, const char *d, int n) {
  const pk_u8p x = pk_dealt_4(pk_bytes_at(a, n / 4)), y = pk_dealt_4(pk_bytes_at(b, n / 4)),
               z = pk_dealt_4(pk_bytes_at(c, n / 4)), w = pk_dealt_4(pk_bytes_at(d, n / 4));
  const bool upper = n % 4 >= 2;
  const pk_u8p low = upper ? PK_LOW_FIRST(pk_zip_high_8, x, y) : PK_LOW_FIRST(pk_zip_low_8, x, y),
               high = upper ? PK_LOW_FIRST(pk_zip_high_8, z, w) : PK_LOW_FIRST(pk_zip_low_8, z, w);
  return n % 2 ? PK_LOW_FIRST(pk_zip_high_16, low, high) : PK_LOW_FIRST(pk_zip_low_16, low, high);
}
PK_INLINE pk_i32v pk_join_8_32(int which, const void *a, const void *b, const void *c,
                               const void *d) {
  pk_i32v x;
  PK_EACH_PART(PK_PART(x, k) =
                   (pk_i32p)pk_joined_4((const char *)a, (const char *)b, (const char *)c,
                                        (const char *)d, which * PK_PARTS + k);)
  return x;
}
PK_INLINE pk_i32v pk_join_16_32(int which, const void *a, const void *b) {
  pk_i32v x;
  PK_EACH_PART(PK_PART(x, k) =
                   (pk_i32p)pk_joined_16((const char *)a, (const char *)b, which * PK_PARTS + k);)
  return x;
}
PK_INLINE pk_packed16 pk_packed_join_8_16(int which, const void *a, const void *b) {
  pk_packed16 x;
  PK_EACH_PART(PK_PART(x, k) =
                   (pk_u16p)pk_joined_8((const char *)a, (const char *)b, which * PK_PARTS + k);)
  return x;
}
#endif
