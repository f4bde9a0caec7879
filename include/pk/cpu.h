/* cpu.h: what this processor can do. Shared by the compiler (--target=native) and the
 * runtime (kernels that were compiled for several machines). */
#ifndef PK_CPU_H
#define PK_CPU_H

#include <stdbool.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* Features, as a set of bits. The levels of x86-64 are those of its psABI. */
enum {
  PK_CPU_X86_64 = 1,
  PK_CPU_V2 = 1 << 1,
  PK_CPU_V3 = 1 << 2,
  PK_CPU_V4 = 1 << 3,
  PK_CPU_AVX_VNNI = 1 << 4,
  PK_CPU_AVX512_VNNI = 1 << 5,
  PK_CPU_FAST_BF16 = 1 << 6, /* vdpbf16ps at twice the rate of f32: AMD's */
  PK_CPU_AARCH64 = 1 << 8,
  PK_CPU_DOTPROD = 1 << 9,
  PK_CPU_RISCV64 = 1 << 12,
};

#if defined(__x86_64__)
/* A bit of what cpuid says of extended features. */
static inline bool pk_cpu_bit(unsigned part, bool ecx, int bit) {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, part, &a, &b, &c, &d) && ((ecx ? c : a) >> bit & 1);
}

static inline unsigned pk_cpu_features(void) {
  __builtin_cpu_init();
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  const bool bf16 = v4 && pk_cpu_bit(1, false, 5) && __builtin_cpu_is("amd");
  return PK_CPU_X86_64 | (v2 ? PK_CPU_V2 : 0u) | (v3 ? PK_CPU_V3 : 0u) | (v4 ? PK_CPU_V4 : 0u) |
         (v3 && pk_cpu_bit(1, false, 4) ? PK_CPU_AVX_VNNI : 0u) |
         (v4 && pk_cpu_bit(0, true, 11) ? PK_CPU_AVX512_VNNI : 0u) | (bf16 ? PK_CPU_FAST_BF16 : 0u);
}
#elif defined(__aarch64__) && defined(__linux__)
static inline unsigned pk_cpu_features(void) {
  enum { HAS_DOTPROD = 1 << 20 }; /* HWCAP_ASIMDDP */
  return PK_CPU_AARCH64 | (getauxval(AT_HWCAP) & HAS_DOTPROD ? PK_CPU_DOTPROD : 0u);
}
#elif defined(__aarch64__)
static inline unsigned pk_cpu_features(void) { return PK_CPU_AARCH64; }
#elif defined(__riscv) && __riscv_xlen == 64
static inline unsigned pk_cpu_features(void) { return PK_CPU_RISCV64; }
#else
static inline unsigned pk_cpu_features(void) { return 0; }
#endif

#endif
