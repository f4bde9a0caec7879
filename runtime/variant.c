/* Kernels that were compiled for several processors: selects the variant for this machine. */
#define _DEFAULT_SOURCE
#include "runtime/runtime.h"

#include <pk/cpu.h>
#include <stdatomic.h>
#include <string.h>

/* Determined once per process, because `cpuid` takes microseconds in a virtual machine. */
static unsigned features(void) {
  enum { KNOWN = 1u << 31 };
  static atomic_uint known;
  unsigned set = atomic_load_explicit(&known, memory_order_relaxed);
  if (!set) {
    set = pk_cpu_features() | KNOWN;
    atomic_store_explicit(&known, set, memory_order_relaxed);
  }
  return set;
}

bool pk_has_amx(void) { return features() & PK_CPU_AMX; }

static const pk_variant *choose(const pk_kernel *kernel) {
  const unsigned set = features();
  for (const pk_variant *v = kernel->variant; v->kernel; ++v)
    if (!(v->needs & ~set)) return v;
  return NULL;
}

const pk_kernel *pk_variant_to_run(const pk_kernel *kernel) {
  if (!kernel || kernel->abi != PK_ABI || !kernel->variant) return kernel;
  const pk_variant *v = choose(kernel);
  return v ? v->kernel : kernel;
}

const char *pk_kernel_target(const pk_kernel *kernel) {
  if (!kernel || kernel->abi != PK_ABI || !kernel->variant) return "";
  const pk_variant *v = choose(kernel);
  return v ? v->target : NULL;
}

pk_status pk_refuse_processor(pk_context *context, const pk_kernel *kernel) {
  char names[256] = "";
  for (const pk_variant *v = kernel->variant; v->kernel; ++v) {
    const size_t used = strlen(names);
    if (used + strlen(v->target) + 3 > sizeof names) break;
    strcat(strcat(names, used ? ", " : ""), v->target);
  }
  return pk_refuse(context, kernel, PK_BAD_ARGUMENT,
                   "the kernel was compiled for %s: this processor supports none of them", names);
}
