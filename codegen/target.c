#include "codegen/target.h"

#include <string.h>

enum { KIB = 1024 };

// Names, vector width, register tile, caches, flags. The first row that the machine at hand supports is what "native" means.
const Target targets[] = {
    {"x86-64-v4", 64, 14, 2, 32 * KIB, 1024 * KIB, "-march=x86-64-v4", "x86_64-linux-gnu-", "AVX-512: 32 registers of 64 bytes"},
    {"x86-64-v3", 32, 6, 2, 32 * KIB, 512 * KIB, "-march=x86-64-v3", "x86_64-linux-gnu-",
     "AVX2 and FMA: 16 registers of 32 bytes"},
    {"x86-64-v2", 16, 6, 2, 32 * KIB, 256 * KIB, "-march=x86-64-v2", "x86_64-linux-gnu-", "SSE4.2: 16 registers of 16 bytes"},
    {"aarch64", 16, 8, 2, 64 * KIB, 512 * KIB, "-march=armv8-a", "aarch64-linux-gnu-", "NEON: 32 registers of 16 bytes"},
    {"riscv64", 16, 8, 2, 32 * KIB, 512 * KIB, "-march=rv64gc", "riscv64-linux-gnu-", "RISC-V without vectors"},
    {"generic", 16, 4, 2, 32 * KIB, 256 * KIB, "", "", "any machine with a C compiler"},
};
const int target_count = sizeof targets / sizeof *targets;

static const char *native_name(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  return v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : v2 ? "x86-64-v2" : "generic";
#elif defined(__aarch64__)
  return "aarch64";
#elif defined(__riscv) && __riscv_xlen == 64
  return "riscv64";
#else
  return "generic";
#endif
}

// The row of the machine at hand, compiled for exactly that machine.
static const Target *native_target(void) {
  static Target native;
  if (!native.name) {
    native = *target_find(native_name());
    native.cc_prefix = "";
#if defined(__x86_64__)
    native.cc_flags = "-march=native";
#elif defined(__aarch64__)
    native.cc_flags = "-mcpu=native";
#endif
  }
  return &native;
}

const Target *target_find(const char *name) {
  if (strcmp(name, "native") == 0) return native_target();
  for (int i = 0; i < target_count; i++)
    if (strcmp(name, targets[i].name) == 0) return &targets[i];
  return NULL;
}
