/* vec.h: the vector layer of generated C. The only file that includes SIMDe.
 *
 * Defining PK_VEC_BYTES as 64, 32 or 16 before the first include selects the width; the default is
 * the machine's own. A register vector always has PK_LANES lanes of 32 bits: narrow dtypes are
 * widened on load and narrowed on store. Any width works on any machine, but is fast only if
 * the machine supports it: 64 with AVX-512 (f, bw, vl, dq), 32 with AVX2, 16 everywhere else.
 *
 *   pk_f32v   every float
 *   pk_i32v   every integer up to 32 bits, signed or not
 *   pk_mask   bool
 *
 * Names are pk_<operation>_<dtype>. Addresses are aligned to the element only. docs/language.md
 * defines each operation.
 */
#ifndef PK_VEC_H
#define PK_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(SIMDE_NO_NATIVE) && defined(__AVX512F__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__) && defined(__AVX512DQ__)
#define PK_WIDEST_BYTES 64
#elif !defined(SIMDE_NO_NATIVE) && defined(__AVX2__)
#define PK_WIDEST_BYTES 32
#else
#define PK_WIDEST_BYTES 16
#endif

#ifndef PK_VEC_BYTES
#define PK_VEC_BYTES PK_WIDEST_BYTES
#endif
#if PK_VEC_BYTES != 64 && PK_VEC_BYTES != 32 && PK_VEC_BYTES != 16
#error "PK_VEC_BYTES is 64, 32 or 16"
#endif
#define PK_LANES (PK_VEC_BYTES / 4)

/* A vector wider than the machine's consists of parts; with AVX-512 at 64 bytes there is one. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion" /* SIMDe causes some when it is not a system header \
                                               */
#pragma GCC diagnostic ignored "-Wsign-conversion"
#if defined(__clang__) && (PK_VEC_BYTES < 64 || PK_WIDEST_BYTES < 64)
#include <simde/simde-common.h>
#undef SIMDE_VECTORIZE /* clang warns about loops that it cannot vectorise */
#define SIMDE_VECTORIZE
#endif
#if PK_VEC_BYTES == 64 && PK_WIDEST_BYTES == 64
#define PK_PART_BYTES 64
#include <immintrin.h>
#elif PK_VEC_BYTES >= 32 && PK_WIDEST_BYTES >= 32
#define PK_PART_BYTES 32
#include <simde/x86/avx2.h>
#else
#define PK_PART_BYTES 16
#include <simde/x86/sse4.1.h>
#if defined(__FMA__) && !defined(SIMDE_NO_NATIVE)
#include <immintrin.h>
#endif
#endif
#pragma GCC diagnostic pop
#define PK_PARTS (PK_VEC_BYTES / PK_PART_BYTES)
#define PK_PART_LANES (PK_PART_BYTES / 4)

/* Is a fused multiply-add a single instruction? */
#if !defined(SIMDE_NO_NATIVE) && \
    (defined(__FMA__) || PK_PART_BYTES == 64 || defined(__aarch64__) || defined(__riscv_flen))
#define PK_HAS_FMA 1
#else
#define PK_HAS_FMA 0
#endif

/* With PK_OUTLINE, and without optimisation, operations are function calls: a small kernel then
 * compiles at -O0 in 1.6 s instead of 18 (gcc 12), because tables of micro-kernels do not
 * contain copies of the operations. */
#if defined PK_OUTLINE || !defined __OPTIMIZE__
#define PK_INLINE static __attribute__((unused))
#else
#define PK_INLINE static inline __attribute__((always_inline))
#endif
#define PK_UNROLL _Pragma("GCC unroll 16")
#define PK_MOSTLY(condition) __builtin_expect(condition, 1)

/* Parts: vectors of the machine. */
typedef float pk_f32p __attribute__((vector_size(PK_PART_BYTES)));
typedef int32_t pk_i32p __attribute__((vector_size(PK_PART_BYTES)));
typedef uint32_t pk_u32p __attribute__((vector_size(PK_PART_BYTES)));
/* The same in memory, unaligned. */
typedef int32_t pk_i32p_memory __attribute__((vector_size(PK_PART_BYTES), aligned(4), may_alias));

/* A wider vector is a struct, because gcc generates poor code for vectors that the machine
 * lacks. */
#if PK_PARTS == 1
typedef pk_f32p pk_f32v;
typedef pk_i32p pk_i32v;
#define PK_PART(v, k) (v)
#else
typedef struct {
  pk_f32p part[PK_PARTS];
} pk_f32v;
typedef struct {
  pk_i32p part[PK_PARTS];
} pk_i32v;
#define PK_PART(v, k) ((v).part[k])
#endif
#define PK_EACH_PART(...) PK_UNROLL for (int k = 0; k < PK_PARTS; k++) __VA_ARGS__

#if PK_PART_LANES == 16
#define PK_EACH_LANE(x) \
  { x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x }
#define PK_COUNT_UP \
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
#elif PK_PART_LANES == 8
#define PK_EACH_LANE(x) \
  { x, x, x, x, x, x, x, x }
#define PK_COUNT_UP \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
#else
#define PK_EACH_LANE(x) \
  { x, x, x, x }
#define PK_COUNT_UP \
  { 0, 1, 2, 3 }
#endif

/* The lane count for an element count. */
PK_INLINE int32_t pk_clamp_lanes(int64_t n) {
  return n < 0 ? 0 : n > PK_LANES ? PK_LANES : (int32_t)n;
}

#include <pk/vec/base.h>
#if PK_PART_BYTES == 64
#include <pk/vec/512.h>
#else
#if PK_PART_BYTES == 32
#include <pk/vec/256.h>
#else
#include <pk/vec/128.h>
#endif
#include <pk/vec/parts.h>
#endif
#include <pk/vec/f32.h>
#include <pk/vec/i32.h>
#include <pk/vec/cast.h>
#include <pk/vec/narrow.h>
#include <pk/vec/memory.h>
#include <pk/vec/packed.h>
#include <pk/vec/words.h>
#include <pk/vec/across.h>
#include <pk/vec/double.h>
#include <pk/vec/math.h>
#include <pk/vec/math_more.h>
#include <pk/vec/math_narrow.h>

#endif
