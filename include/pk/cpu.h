/* cpu.h: the features of this processor. Shared by the compiler (--target=native) and the
 * runtime (kernels compiled for several targets). */
#ifndef PK_CPU_H
#define PK_CPU_H

#include <stdbool.h>
#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* Features, as a set of bits. The x86-64 levels are those of its psABI. */
enum {
  PK_CPU_X86_64 = 1,
  PK_CPU_V2 = 1 << 1,
  PK_CPU_V3 = 1 << 2,
  PK_CPU_V4 = 1 << 3,
  PK_CPU_AVX_VNNI = 1 << 4,
  PK_CPU_AVX512_VNNI = 1 << 5,
  PK_CPU_FAST_BF16 = 1 << 6, /* vdpbf16ps at twice the rate of f32: AMD's */
  PK_CPU_AMX = 1 << 7,       /* tiles, of bytes and of bf16 */
  PK_CPU_AARCH64 = 1 << 8,
  PK_CPU_DOTPROD = 1 << 9,
  PK_CPU_MMLA = 1 << 10, /* products of pairs of rows by pairs of columns, of bytes and of bf16 */
  PK_CPU_RISCV64 = 1 << 12,
};

#if defined(__x86_64__)
/* The extended features of cpuid. */
enum { PK_CPUID_EAX, PK_CPUID_EBX, PK_CPUID_ECX, PK_CPUID_EDX };
static inline bool pk_cpu_bit(unsigned part, int word, int bit) {
  unsigned words[4];
  return __get_cpuid_count(7, part, &words[0], &words[1], &words[2], &words[3]) &&
         (words[word] >> bit & 1);
}

/* The registers of the matrix unit take 8 KiB a thread, which Linux gives only to a process that
 * requests them. Source: Linux, Documentation/arch/x86/xstate.rst. */
static inline bool pk_cpu_amx(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
  enum { AMX_BF16 = 22, AMX_TILE = 24, AMX_INT8 = 25 };
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  return pk_cpu_bit(0, PK_CPUID_EDX, AMX_TILE) && pk_cpu_bit(0, PK_CPUID_EDX, AMX_INT8) &&
         pk_cpu_bit(0, PK_CPUID_EDX, AMX_BF16) &&
         syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
  return false;
#endif
}

static inline unsigned pk_cpu_features(void) {
  __builtin_cpu_init();
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  const bool vnni = v4 && pk_cpu_bit(0, PK_CPUID_ECX, 11);
  const bool bf16 = v4 && pk_cpu_bit(1, PK_CPUID_EAX, 5) && __builtin_cpu_is("amd");
  return PK_CPU_X86_64 | (v2 ? PK_CPU_V2 : 0u) | (v3 ? PK_CPU_V3 : 0u) | (v4 ? PK_CPU_V4 : 0u) |
         (v3 && pk_cpu_bit(1, PK_CPUID_EAX, 4) ? PK_CPU_AVX_VNNI : 0u) |
         (vnni ? PK_CPU_AVX512_VNNI : 0u) | (bf16 ? PK_CPU_FAST_BF16 : 0u) |
         (vnni && pk_cpu_amx() ? PK_CPU_AMX : 0u);
}
#elif defined(__aarch64__) && defined(__linux__)
static inline unsigned pk_cpu_features(void) {
  enum { HAS_DOTPROD = 1 << 20 };                  /* HWCAP_ASIMDDP */
  enum { HAS_I8MM = 1 << 13, HAS_BF16 = 1 << 14 }; /* HWCAP2_I8MM, HWCAP2_BF16 */
  const bool fours = getauxval(AT_HWCAP) & HAS_DOTPROD;
  const unsigned long more = getauxval(AT_HWCAP2);
  return PK_CPU_AARCH64 | (fours ? PK_CPU_DOTPROD : 0u) |
         (fours && (more & HAS_I8MM) && (more & HAS_BF16) ? PK_CPU_MMLA : 0u);
}
#elif defined(__aarch64__)
static inline unsigned pk_cpu_features(void) { return PK_CPU_AARCH64; }
#elif defined(__riscv) && __riscv_xlen == 64
static inline unsigned pk_cpu_features(void) { return PK_CPU_RISCV64; }
#else
static inline unsigned pk_cpu_features(void) { return 0; }
#endif

#endif
