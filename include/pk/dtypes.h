/* dtypes.h: the dtypes of operands, a row each, in the order of the compiler's dtypes.def.
 *
 *   X(ID, "name", bytes of an element in memory, DLPack's type code, DLPack's bits)
 */
#ifndef PK_DTYPES_H
#define PK_DTYPES_H

#define PK_DTYPES(X)                                 \
  X(BOOL, "bool", 1, PK_DL_BOOL, 8)                  \
  X(I8, "i8", 1, kDLInt, 8)                          \
  X(U8, "u8", 1, kDLUInt, 8)                         \
  X(I16, "i16", 2, kDLInt, 16)                       \
  X(U16, "u16", 2, kDLUInt, 16)                      \
  X(I32, "i32", 4, kDLInt, 32)                       \
  X(U32, "u32", 4, kDLUInt, 32)                      \
  X(I64, "i64", 8, kDLInt, 64)                       \
  X(U64, "u64", 8, kDLUInt, 64)                      \
  X(BF16, "bf16", 2, kDLBfloat, 16)                  \
  X(F16, "f16", 2, kDLFloat, 16)                     \
  X(F32, "f32", 4, kDLFloat, 32)                     \
  X(F64, "f64", 8, kDLFloat, 64)                     \
  X(I4, "i4", 1, kDLInt, 4)                          \
  X(U4, "u4", 1, kDLUInt, 4)                         \
  X(F8E4M3FN, "f8e4m3fn", 1, PK_DL_FLOAT8_E4M3FN, 8) \
  X(F8E5M2, "f8e5m2", 1, PK_DL_FLOAT8_E5M2, 8)

typedef enum {
#define PK_DTYPE_ID(id, name, bytes, code, bits) PK_##id,
  PK_DTYPES(PK_DTYPE_ID)
#undef PK_DTYPE_ID
} pk_dtype;

#endif
