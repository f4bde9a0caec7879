/* dtypes.h: the dtypes of operands, a row each, in the order of the compiler's dtypes.def.
 *
 *   X(ID, "name", "NumPy's name", bytes of an element in memory, DLPack's type code, DLPack's bits,
 *     XLA's number, 0 for those that it packs)
 */
#ifndef PK_DTYPES_H
#define PK_DTYPES_H

#define PK_DTYPES(X)                                                                          \
  X(BOOL, "bool", "bool", 1, PK_DL_BOOL, 8, 1)                                                \
  X(I8, "i8", "int8", 1, kDLInt, 8, 2)                                                        \
  X(U8, "u8", "uint8", 1, kDLUInt, 8, 6)                                                      \
  X(I16, "i16", "int16", 2, kDLInt, 16, 3)                                                    \
  X(U16, "u16", "uint16", 2, kDLUInt, 16, 7)                                                  \
  X(I32, "i32", "int32", 4, kDLInt, 32, 4)                                                    \
  X(U32, "u32", "uint32", 4, kDLUInt, 32, 8)                                                  \
  X(I64, "i64", "int64", 8, kDLInt, 64, 5)                                                    \
  X(U64, "u64", "uint64", 8, kDLUInt, 64, 9)                                                  \
  X(BF16, "bf16", "bfloat16", 2, kDLBfloat, 16, 16)                                           \
  X(F16, "f16", "float16", 2, kDLFloat, 16, 10)                                               \
  X(F32, "f32", "float32", 4, kDLFloat, 32, 11)                                               \
  X(F64, "f64", "float64", 8, kDLFloat, 64, 12)                                               \
  X(I4, "i4", "int4", 1, kDLInt, 4, 0)                                                        \
  X(U4, "u4", "uint4", 1, kDLUInt, 4, 0)                                                      \
  X(I2, "i2", "int2", 1, kDLInt, 2, 0)                                                        \
  X(U2, "u2", "uint2", 1, kDLUInt, 2, 0)                                                      \
  X(F8E4M3FN, "f8e4m3fn", "float8_e4m3fn", 1, PK_DL_FLOAT8_E4M3FN, 8, 20)                     \
  X(F8E5M2, "f8e5m2", "float8_e5m2", 1, PK_DL_FLOAT8_E5M2, 8, 19)                             \
  X(F8E4M3B11FNUZ, "f8e4m3b11fnuz", "float8_e4m3b11fnuz", 1, PK_DL_FLOAT8_E4M3B11FNUZ, 8, 23) \
  X(F8E4M3FNUZ, "f8e4m3fnuz", "float8_e4m3fnuz", 1, PK_DL_FLOAT8_E4M3FNUZ, 8, 25)             \
  X(F8E5M2FNUZ, "f8e5m2fnuz", "float8_e5m2fnuz", 1, PK_DL_FLOAT8_E5M2FNUZ, 8, 24)             \
  X(F8E8M0FNU, "f8e8m0fnu", "float8_e8m0fnu", 1, PK_DL_FLOAT8_E8M0FNU, 8, 33)                 \
  X(F4E2M1FN, "f4e2m1fn", "float4_e2m1fn", 1, PK_DL_FLOAT4_E2M1FN, 4, 0)

typedef enum {
#define PK_DTYPE_ID(id, ...) PK_##id,
  PK_DTYPES(PK_DTYPE_ID)
#undef PK_DTYPE_ID
} pk_dtype;

/* Floats in a byte: dtype, special values (f8.h), bits of the fraction, bias of the exponent. */
#define PK_F8_DTYPES(X)         \
  X(f8e4m3fn, FN, 3, 7)         \
  X(f8e5m2, IEEE, 2, 15)        \
  X(f8e4m3b11fnuz, FNUZ, 3, 11) \
  X(f8e4m3fnuz, FNUZ, 3, 8)     \
  X(f8e5m2fnuz, FNUZ, 2, 16)    \
  X(f8e8m0fnu, SCALE, 0, 127)   \
  X(f4e2m1fn, FINITE, 1, 1)

/* Integers in the low bits of a byte: signed dtype, unsigned dtype, bits. */
#define PK_PART_DTYPES(X) \
  X(i4, u4, 4)            \
  X(i2, u2, 2)

#endif
