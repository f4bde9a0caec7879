/* micro.h: declares micro-kernels that are linked, as an alternative to compiling those of dot.h
 * and pack.h with each kernel, which takes most of the compile time: 1.1 s for a matmul, 0.3 s if
 * they are linked.
 *
 * With `#define PK_MICRO zen4`, the name of a target, dot.h, pack.h and the headers in dot/ declare
 * their functions only, and the kernel is linked to libpkrt_zen4.a. PK_VEC_BYTES, PK_DOT_MR and
 * PK_DOT_NV must be those of the library, which `pkc --targets` prints for the target.
 * runtime/micro.c is the source of the library.
 */
#ifndef PK_MICRO_H
#define PK_MICRO_H

#include <pk/dot/product.h>

/* X(name, parameters, arguments) for every micro-kernel. */
#define PK_MICRO_KERNELS(X)                                                             \
  PK_MICRO_PRODUCTS(X)                                                                  \
  PK_MICRO_GROUPS(X, i8, int8_t)                                                        \
  PK_MICRO_GROUPS(X, u8, uint8_t)                                                       \
  PK_MICRO_GROUPS(X, i8_u8, uint8_t)                                                    \
  PK_MICRO_GROUPS(X, u8_i8, int8_t)                                                     \
  PK_MICRO_GROUPS(X, bf16, uint16_t)                                                    \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_groups_i8_bf16)                                     \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_groups_u8_bf16)                                     \
  PK_MICRO_LINES(X, pk_dot_lines_i8)                                                    \
  PK_MICRO_LINES(X, pk_dot_lines_u8)                                                    \
  PK_MICRO_LINES(X, pk_dot_lines_i8_u8)                                                 \
  PK_MICRO_LINES(X, pk_dot_lines_u8_i8)                                                 \
  PK_MICRO_FIELDS(X, pk_dot_fields_i8)                                                  \
  PK_MICRO_FIELDS(X, pk_dot_fields_u8)                                                  \
  PK_MICRO_COPY(X, pk_copy_rows_b1)                                                     \
  PK_MICRO_COPY(X, pk_copy_rows_t_b1)                                                   \
  PK_MICRO_COPY(X, pk_copy_rows_b2)                                                     \
  PK_MICRO_COPY(X, pk_copy_rows_t_b2)                                                   \
  PK_MICRO_TRANSPOSE(X, pk_transpose_block_b1)                                          \
  PK_MICRO_TRANSPOSE(X, pk_transpose_block_b2)                                          \
  PK_MICRO_TRANSPOSE(X, pk_transpose_block_b4)                                          \
  PK_MICRO_TRANSPOSE(X, pk_transpose_block_b8)                                          \
  X(pk_transpose_block_f32,                                                             \
    (float *dst, int64_t dld, const float *src, int64_t ld, int64_t rows, int64_t cols, \
     bool stream),                                                                      \
    (dst, dld, src, ld, rows, cols, stream))

#define PK_MICRO_LINES(X, name) X(name, (const pk_dot_lines *p), (p))
#define PK_MICRO_FIELDS(X, name) X(name, (const pk_dot_lines *p, const pk_dot_fields *f), (p, f))
#define PK_MICRO_PRODUCT(X, name) X(name, (const pk_dot_product *p), (p))
#define PK_MICRO_PRODUCTS(X)                  \
  PK_MICRO_PRODUCT(X, pk_dot_product_f32)     \
  PK_MICRO_PRODUCT(X, pk_dot_product_i32)     \
  PK_MICRO_PRODUCT(X, pk_dot_product_i16)     \
  PK_MICRO_PRODUCT(X, pk_dot_tail_f32)        \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_f32)      \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_bf16)     \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_f16)      \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_i8_f32)   \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_u8_f32)   \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_t_f32)    \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_t_bf16)   \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_t_f16)    \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_t_i8_f32) \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_t_u8_f32)

/* Products whose elements are in groups along k, and their panels. */
#define PK_MICRO_GROUPS(X, T, right)                   \
  PK_MICRO_PRODUCT(X, pk_dot_product_##T)              \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_groups_##T)        \
  PK_MICRO_PRODUCT(X, pk_dot_skinny_groups_t_##T)      \
  PK_MICRO_PANELS(X, pk_pack_groups_##T, right, right) \
  PK_MICRO_PANELS(X, pk_pack_groups_t_##T, right, right)

#define PK_MICRO_PANELS(X, name, source, to)                                                     \
  X(name,                                                                                        \
    (to * dst, int64_t depth, const source *src, int64_t ld, int64_t k, int64_t n, int64_t cols, \
     to pad),                                                                                    \
    (dst, depth, src, ld, k, n, cols, pad))
#define PK_MICRO_ROWS(X, name, source, to)                                             \
  X(name,                                                                              \
    (to * dst, int64_t dld, const source *src, int64_t ld, int64_t rows, int64_t cols, \
     int64_t full_rows, int64_t full_cols, to pad),                                    \
    (dst, dld, src, ld, rows, cols, full_rows, full_cols, pad))
#define PK_MICRO_PACKS(X, dtype, source, to)               \
  PK_MICRO_PANELS(X, pk_pack_panels_##dtype, source, to)   \
  PK_MICRO_PANELS(X, pk_pack_panels_t_##dtype, source, to) \
  PK_MICRO_ROWS(X, pk_pack_rows_##dtype, source, to)       \
  PK_MICRO_ROWS(X, pk_pack_rows_t_##dtype, source, to)
#define PK_MICRO_COPY(X, name)                                                        \
  X(name,                                                                             \
    (void *dst, int64_t dld, const void *src, int64_t ld, int64_t rows, int64_t cols, \
     int64_t full_rows, int64_t full_cols, int pad),                                  \
    (dst, dld, src, ld, rows, cols, full_rows, full_cols, pad))
#define PK_MICRO_TRANSPOSE(X, name)                                                          \
  X(name, (void *dst, int64_t dld, const void *src, int64_t ld, int64_t rows, int64_t cols), \
    (dst, dld, src, ld, rows, cols))

/* pk_X_zen4 for pk_X. */
#define PK_MICRO_NAME(name, target) PK_MICRO_JOIN(name, target)
#define PK_MICRO_JOIN(name, target) name##_##target

#ifdef PK_MICRO
#define PK_MICRO_LINK(name, parameters, arguments) \
  void PK_MICRO_NAME(name, PK_MICRO) parameters;   \
  static inline void name parameters { PK_MICRO_NAME(name, PK_MICRO) arguments; }
PK_MICRO_KERNELS(PK_MICRO_LINK)
#define PK_MICRO_LINK_PACKS(kind, dtype, source, to, lanes) \
  PK_MICRO_PACKS(PK_MICRO_LINK, dtype, source, to)
PK_PACK_DTYPES(PK_MICRO_LINK_PACKS)
#endif

#endif
