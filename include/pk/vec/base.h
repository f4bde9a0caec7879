/* vec/base.h: the operations for which the vector extensions of gcc and clang generate good code on
 * every machine. Included by vec.h only. */
#ifndef PK_VEC_BASE_H
#define PK_VEC_BASE_H

/* Elements in memory, whatever their type. */
typedef uint8_t pk_memory8 __attribute__((may_alias));
typedef uint16_t pk_memory16 __attribute__((may_alias));
typedef int32_t pk_memory32 __attribute__((may_alias));
typedef int64_t pk_memory64 __attribute__((may_alias));

/* Parts: the operations that reductions use by name. */
PK_INLINE pk_f32p pk_part_add(pk_f32p a, pk_f32p b) { return a + b; }
PK_INLINE pk_f32p pk_part_sub(pk_f32p a, pk_f32p b) { return a - b; }
PK_INLINE pk_f32p pk_part_mul(pk_f32p a, pk_f32p b) { return a * b; }
PK_INLINE pk_f32p pk_part_div(pk_f32p a, pk_f32p b) { return a / b; }
PK_INLINE pk_i32p pk_part_add_i32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)((pk_u32p)a + (pk_u32p)b);
}
PK_INLINE pk_i32p pk_part_sub_i32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)((pk_u32p)a - (pk_u32p)b);
}
PK_INLINE pk_i32p pk_part_mul_i32(pk_i32p a, pk_i32p b) {
  return (pk_i32p)((pk_u32p)a * (pk_u32p)b);
}
PK_INLINE pk_i32p pk_part_and(pk_i32p a, pk_i32p b) { return a & b; }
PK_INLINE pk_i32p pk_part_or(pk_i32p a, pk_i32p b) { return a | b; }
PK_INLINE pk_i32p pk_part_xor(pk_i32p a, pk_i32p b) { return a ^ b; }
PK_INLINE pk_i32p pk_part_shift_left(pk_i32p a, int n) { return (pk_i32p)((pk_u32p)a << n); }
PK_INLINE pk_i32p pk_part_shift_right(pk_i32p a, int n) { return a >> n; }
PK_INLINE pk_i32p pk_part_shift_right_unsigned(pk_i32p a, int n) {
  return (pk_i32p)((pk_u32p)a >> n);
}

/* An operation on parts becomes one on vectors. */
#define PK_LIFT_F32(name, part) \
  PK_INLINE pk_f32v name(pk_f32v a) { PK_EACH_PART(PK_PART(a, k) = part(PK_PART(a, k));) return a; }
#define PK_LIFT_I32(name, part) \
  PK_INLINE pk_i32v name(pk_i32v a) { PK_EACH_PART(PK_PART(a, k) = part(PK_PART(a, k));) return a; }
#define PK_LIFT2_F32(name, part)                                                \
  PK_INLINE pk_f32v name(pk_f32v a, pk_f32v b) {                                \
    PK_EACH_PART(PK_PART(a, k) = part(PK_PART(a, k), PK_PART(b, k));) return a; \
  }
#define PK_LIFT2_I32(name, part)                                                \
  PK_INLINE pk_i32v name(pk_i32v a, pk_i32v b) {                                \
    PK_EACH_PART(PK_PART(a, k) = part(PK_PART(a, k), PK_PART(b, k));) return a; \
  }
#define PK_LIFT_SHIFT(name, part)                                   \
  PK_INLINE pk_i32v name(pk_i32v a, int n) {                        \
    PK_EACH_PART(PK_PART(a, k) = part(PK_PART(a, k), n);) return a; \
  }

PK_LIFT2_F32(pk_add_f32, pk_part_add)
PK_LIFT2_F32(pk_sub_f32, pk_part_sub)
PK_LIFT2_F32(pk_mul_f32, pk_part_mul)
PK_LIFT2_F32(pk_div_f32, pk_part_div)
PK_LIFT2_I32(pk_add_i32, pk_part_add_i32)
PK_LIFT2_I32(pk_sub_i32, pk_part_sub_i32)
PK_LIFT2_I32(pk_mul_i32, pk_part_mul_i32)
PK_LIFT2_I32(pk_and_i32, pk_part_and)
PK_LIFT2_I32(pk_or_i32, pk_part_or)
PK_LIFT2_I32(pk_xor_i32, pk_part_xor)
/* By a constant below 32. */
PK_LIFT_SHIFT(pk_shift_left, pk_part_shift_left)
PK_LIFT_SHIFT(pk_shift_right, pk_part_shift_right)
PK_LIFT_SHIFT(pk_shift_right_unsigned, pk_part_shift_right_unsigned)

PK_INLINE pk_f32v pk_splat_f32(float x) {
  pk_f32v r;
  PK_EACH_PART(PK_PART(r, k) = (pk_f32p)PK_EACH_LANE(x);)
  return r;
}
PK_INLINE pk_i32v pk_splat_i32(int32_t x) {
  pk_i32v r;
  PK_EACH_PART(PK_PART(r, k) = (pk_i32p)PK_EACH_LANE(x);)
  return r;
}
PK_INLINE pk_i32v pk_splat_u32(uint32_t x) { return pk_splat_i32((int32_t)x); }
PK_INLINE pk_i32v pk_lane_i32(void) {
  pk_i32v r;
  PK_EACH_PART(PK_PART(r, k) = (pk_i32p)PK_COUNT_UP + k * PK_PART_LANES;)
  return r;
}
PK_INLINE pk_i32v pk_bitcast_f32_i32(pk_f32v a) {
  pk_i32v r;
  PK_EACH_PART(PK_PART(r, k) = (pk_i32p)PK_PART(a, k);)
  return r;
}
PK_INLINE pk_f32v pk_bitcast_i32_f32(pk_i32v a) {
  pk_f32v r;
  PK_EACH_PART(PK_PART(r, k) = (pk_f32p)PK_PART(a, k);)
  return r;
}
/* To nearest even. */
PK_INLINE pk_f32v pk_cast_i32_f32(pk_i32v a) {
  pk_f32v r;
  PK_EACH_PART(PK_PART(r, k) = __builtin_convertvector(PK_PART(a, k), pk_f32p);)
  return r;
}
PK_INLINE pk_i32v pk_and_constant(pk_i32v a, int32_t x) { return pk_and_i32(a, pk_splat_i32(x)); }
PK_INLINE pk_i32v pk_add_constant(pk_i32v a, int32_t x) { return pk_add_i32(a, pk_splat_i32(x)); }

#endif
