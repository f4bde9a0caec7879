/* vec/packed.h: vectors of integers of 8 and 16 bits and of bools that are as wide in a register
 * as in memory: 4 or 2 times PK_LANES lanes. Included by vec.h only.
 * pk_packed8, pk_packed16   PK_VEC_BYTES of lanes, signed or not; a lane of a mask is 0 or -1
 * pk_packed_load_T(p), pk_packed_store_T(p, v)   of i8, u8, i16, u16 and bool
 * pk_packed_splat_T(x)      x in all lanes; mask8 and mask16 instead of bool
 * pk_packed_OP_T(a, ..)     the same as pk_OP_i32, modulo 2^bits; also for masks
 * pk_packed_join_OP_T(v, x) combines v, a vector of PK_LANES lanes of 32 bits or a mask, by OP with
 *                           each group of PK_LANES lanes of x */
#ifndef PK_VEC_PACKED_H
#define PK_VEC_PACKED_H

typedef int8_t pk_i8p __attribute__((vector_size(PK_PART_BYTES)));
typedef uint8_t pk_u8p __attribute__((vector_size(PK_PART_BYTES)));
typedef int16_t pk_i16p __attribute__((vector_size(PK_PART_BYTES)));
typedef uint16_t pk_u16p __attribute__((vector_size(PK_PART_BYTES)));
typedef pk_u8p pk_mask8p;
typedef pk_u16p pk_mask16p;
#if PK_PARTS == 1
typedef pk_u8p pk_packed8;
typedef pk_u16p pk_packed16;
#else
typedef struct {
  pk_u8p part[PK_PARTS];
} pk_packed8;
typedef struct {
  pk_u16p part[PK_PARTS];
} pk_packed16;
#endif

#if PK_PART_BYTES == 64
#define PK_PACKED_NATIVE(type, name, a, b) ((type)_mm512_##name((__m512i)(a), (__m512i)(b)))
#elif PK_PART_BYTES == 32
#define PK_PACKED_NATIVE(type, name, a, b) \
  ((type)simde_mm256_##name((simde__m256i)(a), (simde__m256i)(b)))
#else
#define PK_PACKED_NATIVE(type, name, a, b) \
  ((type)simde_mm_##name((simde__m128i)(a), (simde__m128i)(b)))
#endif

/* An expression of parts a and b, which have the lanes T, as an operation on vectors. */
#define PK_PACKED_UNARY(op, bits, T, expression)                      \
  PK_INLINE pk_packed##bits pk_packed_##op##_##T(pk_packed##bits x) { \
    PK_EACH_PART({                                                    \
      const pk_##T##p a = (pk_##T##p)PK_PART(x, k);                   \
      PK_PART(x, k) = (pk_u##bits##p)(expression);                    \
    })                                                                \
    return x;                                                         \
  }
#define PK_PACKED_BINARY(op, bits, T, expression)                                        \
  PK_INLINE pk_packed##bits pk_packed_##op##_##T(pk_packed##bits x, pk_packed##bits y) { \
    PK_EACH_PART({                                                                       \
      const pk_##T##p a = (pk_##T##p)PK_PART(x, k), b = (pk_##T##p)PK_PART(y, k);        \
      PK_PART(x, k) = (pk_u##bits##p)(expression);                                       \
    })                                                                                   \
    return x;                                                                            \
  }

#define PK_PACKED_MEMORY(T, bits, element)                                    \
  PK_INLINE pk_packed##bits pk_packed_load_##T(const void *p) {               \
    pk_packed##bits x;                                                        \
    __builtin_memcpy(&x, p, sizeof x);                                        \
    return x;                                                                 \
  }                                                                           \
  PK_INLINE void pk_packed_store_##T(void *p, pk_packed##bits x) {            \
    __builtin_memcpy(p, &x, sizeof x);                                        \
  }                                                                           \
  PK_INLINE pk_packed##bits pk_packed_splat_##T(element value) {              \
    pk_packed##bits x;                                                        \
    PK_EACH_PART(PK_PART(x, k) = (pk_u##bits##p){0} + (uint##bits##_t)value;) \
    return x;                                                                 \
  }
#define PK_PACKED_COMPARISONS(T, bits)  \
  PK_PACKED_BINARY(eq, bits, T, a == b) \
  PK_PACKED_BINARY(ne, bits, T, a != b) \
  PK_PACKED_BINARY(lt, bits, T, a < b)  \
  PK_PACKED_BINARY(le, bits, T, a <= b) \
  PK_PACKED_BINARY(gt, bits, T, a > b)  \
  PK_PACKED_BINARY(ge, bits, T, a >= b)
#define PK_PACKED_BITWISE(T, bits)          \
  PK_PACKED_BINARY(and, bits, T, (a) & (b)) \
  PK_PACKED_BINARY(or, bits, T, a | b)      \
  PK_PACKED_BINARY(xor, bits, T, a ^ b)     \
  PK_PACKED_UNARY(not, bits, T, ~a)
#define PK_PACKED_SELECT(T, bits)                                                         \
  PK_INLINE pk_packed##bits pk_packed_select_##T(pk_packed##bits m, pk_packed##bits a,    \
                                                 pk_packed##bits b) {                     \
    PK_EACH_PART(PK_PART(a, k) =                                                          \
                     (PK_PART(m, k) & PK_PART(a, k)) | (~PK_PART(m, k) & PK_PART(b, k));) \
    return a;                                                                             \
  }
/* Sums and products are of unsigned lanes, which wrap. */
#define PK_PACKED_INTEGERS(T, bits, native)                                       \
  PK_PACKED_MEMORY(T, bits, int64_t)                                              \
  PK_PACKED_COMPARISONS(T, bits)                                                  \
  PK_PACKED_BITWISE(T, bits)                                                      \
  PK_PACKED_SELECT(T, bits)                                                       \
  PK_PACKED_BINARY(add, bits, T, (pk_u##bits##p)a + (pk_u##bits##p)b)             \
  PK_PACKED_BINARY(sub, bits, T, (pk_u##bits##p)a - (pk_u##bits##p)b)             \
  PK_PACKED_BINARY(mul, bits, T, ((pk_u##bits##p)a) * ((pk_u##bits##p)b))         \
  PK_PACKED_UNARY(neg, bits, T, -(pk_u##bits##p)a)                                \
  PK_PACKED_BINARY(max, bits, T, PK_PACKED_NATIVE(pk_##T##p, max_##native, a, b)) \
  PK_PACKED_BINARY(min, bits, T, PK_PACKED_NATIVE(pk_##T##p, min_##native, a, b))
PK_PACKED_INTEGERS(i8, 8, epi8)
PK_PACKED_INTEGERS(u8, 8, epu8)
PK_PACKED_INTEGERS(i16, 16, epi16)
PK_PACKED_INTEGERS(u16, 16, epu16)
PK_PACKED_UNARY(abs, 8, i8, PK_PACKED_NATIVE(pk_u8p, min_epu8, a, -(pk_u8p)a))
PK_PACKED_UNARY(abs, 8, u8, a)
PK_PACKED_UNARY(abs, 16, i16, PK_PACKED_NATIVE(pk_i16p, max_epi16, a, -(pk_u16p)a))
PK_PACKED_UNARY(abs, 16, u16, a)

/* Masks: true, all ones, is the greatest of the unsigned lanes. */
#define PK_PACKED_MASKS(bits)                                        \
  PK_PACKED_COMPARISONS(mask##bits, bits)                            \
  PK_PACKED_BITWISE(mask##bits, bits)                                \
  PK_PACKED_SELECT(mask##bits, bits)                                 \
  PK_INLINE pk_packed##bits pk_packed_splat_mask##bits(bool value) { \
    return pk_packed_splat_i##bits(value ? -1 : 0);                  \
  }                                                                  \
  PK_PACKED_UNARY(from_mask, bits, u##bits, a & 1)                   \
  PK_PACKED_UNARY(to_mask, bits, u##bits, a != 0)
PK_PACKED_MASKS(8)
PK_PACKED_MASKS(16)
PK_INLINE pk_packed8 pk_packed_load_bool(const void *p) {
  return pk_packed_to_mask_u8(pk_packed_load_u8(p));
}
PK_INLINE void pk_packed_store_bool(void *p, pk_packed8 x) {
  pk_packed_store_u8(p, pk_packed_from_mask_u8(x));
}

/* Through memory, because its loads widen. */
#define PK_PACKED_JOIN(op, T, bits, element, lane)                            \
  PK_INLINE pk_i32v pk_packed_join_##op##_##T(pk_i32v v, pk_packed##bits x) { \
    element lanes[8 * sizeof x / bits];                                       \
    pk_packed_store_##T(lanes, x);                                            \
    PK_UNROLL for (int k = 0; k < 32 / bits; k++) v =                         \
        pk_##op##_##lane(v, pk_load_##T(lanes + k * PK_LANES));               \
    return v;                                                                 \
  }
#define PK_PACKED_JOINS(T, bits, element, lane) \
  PK_PACKED_JOIN(add, T, bits, element, i32)    \
  PK_PACKED_JOIN(mul, T, bits, element, i32)    \
  PK_PACKED_JOIN(max, T, bits, element, lane)   \
  PK_PACKED_JOIN(min, T, bits, element, lane)
PK_PACKED_JOINS(i8, 8, int8_t, i32)
PK_PACKED_JOINS(u8, 8, uint8_t, u32)
PK_PACKED_JOINS(i16, 16, int16_t, i32)
PK_PACKED_JOINS(u16, 16, uint16_t, u32)
#define PK_PACKED_JOIN_MASK(op, bits)                                                         \
  PK_INLINE pk_mask pk_packed_join_##op##_mask##bits(pk_mask v, pk_packed##bits x) {          \
    uint##bits##_t lanes[8 * sizeof x / bits];                                                \
    pk_packed_store_u##bits(lanes, x);                                                        \
    PK_UNROLL for (int k = 0; k < 32 / bits; k++) v =                                         \
        pk_##op##_mask(v, pk_ne_i32(pk_load_u##bits(lanes + k * PK_LANES), pk_splat_i32(0))); \
    return v;                                                                                 \
  }
PK_PACKED_JOIN_MASK(and, 8)
PK_PACKED_JOIN_MASK(or, 8)
PK_PACKED_JOIN_MASK(xor, 8)
PK_PACKED_JOIN_MASK(and, 16)
PK_PACKED_JOIN_MASK(or, 16)
PK_PACKED_JOIN_MASK(xor, 16)

#endif
