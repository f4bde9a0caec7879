// Dtypes, memory spaces, and the shapes of values.
#ifndef DSL_TYPES_H
#define DSL_TYPES_H

#include "dsl/base.h"

enum { MAX_RANK = 8 };

// dtypes.def has a row for each.
typedef enum {
#define INTEGER(id, ...) DT_##id,
#define FLOAT(id, ...) DT_##id,
#include "dsl/dtypes.def"
  DT_COUNT
} DType;

typedef enum { CLASS_BOOL, CLASS_SIGNED, CLASS_UNSIGNED, CLASS_FLOAT } DTypeClass;
typedef enum {
  SPECIAL_NONE,
  SPECIAL_IEEE,
  SPECIAL_FN,
  SPECIAL_FNUZ,
  SPECIAL_SCALE,
  SPECIAL_FINITE
} Special;
typedef struct {
  const char *name;
  int bits;
  DTypeClass class;
  const char *ctype, *numpy, *npy;
  int precision, least_exponent;  // of a float dtype
  double greatest;
  Special special;
  const char *meaning;
} DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT];

static inline bool is_float(DType t) { return dtype_info[t].class == CLASS_FLOAT; }
static inline bool is_integer(DType t) {
  return dtype_info[t].class == CLASS_SIGNED || dtype_info[t].class == CLASS_UNSIGNED;
}
static inline bool is_narrow_float(DType t) { return is_float(t) && dtype_info[t].bits < 32; }
static inline bool is_narrow_integer(DType t) { return is_integer(t) && dtype_info[t].bits < 32; }
// 64 bits wide: computed in lanes of their own width.
static inline bool is_wide(DType t) { return dtype_info[t].bits == 64; }
// An element of fewer than 8 bits, which occupies a byte.
static inline bool is_part_of_byte(DType t) { return dtype_info[t].bits < 8; }
// A float that occupies a byte.
static inline bool is_byte_float(DType t) { return is_float(t) && dtype_info[t].bits <= 8; }
// A power of two or NaN: it can be converted, compared and selected, but not computed with.
static inline bool is_scale(DType t) { return dtype_info[t].special == SPECIAL_SCALE; }
static inline bool has_arithmetic(DType t) { return is_float(t) && !is_scale(t); }
// The size of an element in memory.
static inline int dtype_bytes(DType t) { return (dtype_info[t].bits + 7) / 8; }
DType unsigned_of_width(int bits);
DType signed_of_width(int bits);
DType dtype_by_name(const char *name);  // DT_COUNT if there is none
DType dtype_accum(DType t);             // accum(T): T itself if it has 64 bits, else f32 or i32
// The accum for products of an a and a b; DT_COUNT if it is a float that does not hold both
// exactly, as f32 does not hold i32, or if integers of 64 bits are combined with others.
DType dtype_product(DType a, DType b);
// Integers only. Numbers of u64 are represented by the int64_t with the same bits: the greatest is
// -1.
int64_t dtype_min(DType t);
int64_t dtype_max(DType t);

// An axis: a constant >= 0, or a run-time size of the kernel, encoded as -1 - (index in
// Kernel.sizes). Two run-time axes are the same only if they name the same size.
typedef int64_t Dim;
static inline bool dim_is_const(Dim d) { return d >= 0; }
static inline Dim dim_of_size(int index) { return -1 - (Dim)index; }
static inline int dim_size_index(Dim d) { return (int)(-1 - d); }

typedef struct {
  DType dtype;
  int rank;
  Dim dim[MAX_RANK];
} Type;
static inline Type type_scalar(DType dtype) { return (Type){.dtype = dtype}; }
static inline Type type_as(Type t, DType dtype) {  // with the same shape
  t.dtype = dtype;
  return t;
}
// Is an axis 0? Run-time sizes are taken to be greater.
static inline bool type_is_empty(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] == 0) return true;
  return false;
}

static inline bool type_has_sizes(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (!dim_is_const(t->dim[i])) return true;
  return false;
}
static inline bool type_same_shape(const Type *a, const Type *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

typedef enum {
  SPACE_VMEM,
  SPACE_SMEM,
  SPACE_ANY,
  SPACE_SEM,
  SPACE_VAR
} Space;  // SPACE_VAR: a `var` of the body

// The unit of an index map: blocks, or elements (AT_SLICE: elements, with a run-time length).
typedef enum { AT_BLOCK, AT_ELEMENT, AT_SLICE } AtMode;

// A block in VMEM is padded to whole tiles along its last two axes: (8, 128), (32, 128) for
// elements of one byte, or (64, 128) and (128, 128) for those of 4 and 2 bits, which share bytes
// (as on TPUs before generation 7).
enum { TILE_LANES = 128 };
static inline int tile_sublanes(DType t) {
  return dtype_bytes(t) > 1 ? 8 : 256 / dtype_info[t].bits;
}

#endif
