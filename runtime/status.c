/* Statuses, messages and the names of things in them. */
#include "runtime/runtime.h"

#include <stdarg.h>
#include <stdio.h>

#ifndef PK_VERSION /* given by the makefile */
#define PK_VERSION "unknown"
#endif

const char *pk_version(void) { return PK_VERSION; }

const char *pk_status_name(pk_status status) {
  static const char *const name[] = {
      [PK_OK] = "PK_OK",
      [PK_BAD_ARGUMENT] = "PK_BAD_ARGUMENT",
      [PK_BAD_SIZE] = "PK_BAD_SIZE",
      [PK_REQUIREMENT] = "PK_REQUIREMENT",
      [PK_OVERLAP] = "PK_OVERLAP",
      [PK_VMEM_EXCEEDED] = "PK_VMEM_EXCEEDED",
      [PK_NO_MEMORY] = "PK_NO_MEMORY",
      [PK_FAILED] = "PK_FAILED",
      [PK_BUSY] = "PK_BUSY",
  };
  size_t index = (size_t)status;
  return index < sizeof name / sizeof *name ? name[index] : "unknown status";
}

pk_status pk_refuse(pk_context *context, const pk_kernel *kernel, pk_status status,
                    const char *format, ...) {
  int used = 0;
  if (kernel && kernel->name)
    used = snprintf(context->message, sizeof context->message, "%s: ", kernel->name);
  if (used < 0 || used >= (int)sizeof context->message) used = 0;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(context->message + used, sizeof context->message - (size_t)used, format,
                  arguments);
  va_end(arguments);
  return status;
}

void pk_fail(pk_worker *worker, const char *message) {
  if (!worker->failure) worker->failure = message ? message : "failed";
}

typedef struct {
  const char *name;
  int64_t bytes;
  DLDataType dlpack;
} dtype_row;

static const dtype_row dtypes[] = {
#define ROW(id, name, numpy, bytes, code, bits, xla) [PK_##id] = {name, bytes, {code, bits, 1}},
    PK_DTYPES(ROW)
#undef ROW
};

int64_t pk_dtype_bytes(pk_dtype dtype) { return dtypes[dtype].bytes; }
const char *pk_dtype_name(pk_dtype dtype) { return dtypes[dtype].name; }
DLDataType pk_dtype_dlpack(pk_dtype dtype) { return dtypes[dtype].dlpack; }
