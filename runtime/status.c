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

pk_status pk_refuse(pk_context *context, const pk_kernel *kernel, pk_status status, const char *format, ...) {
  int used = 0;
  if (kernel && kernel->name) used = snprintf(context->message, sizeof context->message, "%s: ", kernel->name);
  if (used < 0 || used >= (int)sizeof context->message) used = 0;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(context->message + used, sizeof context->message - (size_t)used, format, arguments);
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
    [PK_BOOL] = {"bool", 1, {PK_DL_BOOL, 8, 1}},
    [PK_I8] = {"i8", 1, {kDLInt, 8, 1}},
    [PK_U8] = {"u8", 1, {kDLUInt, 8, 1}},
    [PK_I16] = {"i16", 2, {kDLInt, 16, 1}},
    [PK_U16] = {"u16", 2, {kDLUInt, 16, 1}},
    [PK_I32] = {"i32", 4, {kDLInt, 32, 1}},
    [PK_U32] = {"u32", 4, {kDLUInt, 32, 1}},
    [PK_I64] = {"i64", 8, {kDLInt, 64, 1}},
    [PK_BF16] = {"bf16", 2, {kDLBfloat, 16, 1}},
    [PK_F16] = {"f16", 2, {kDLFloat, 16, 1}},
    [PK_F32] = {"f32", 4, {kDLFloat, 32, 1}},
    [PK_I4] = {"i4", 1, {kDLInt, 4, 1}},
    [PK_U4] = {"u4", 1, {kDLUInt, 4, 1}},
    [PK_F8E4M3FN] = {"f8e4m3fn", 1, {PK_DL_FLOAT8_E4M3FN, 8, 1}},
    [PK_F8E5M2] = {"f8e5m2", 1, {PK_DL_FLOAT8_E5M2, 8, 1}},
};

int64_t pk_dtype_bytes(pk_dtype dtype) { return dtypes[dtype].bytes; }
const char *pk_dtype_name(pk_dtype dtype) { return dtypes[dtype].name; }
DLDataType pk_dtype_dlpack(pk_dtype dtype) { return dtypes[dtype].dlpack; }
