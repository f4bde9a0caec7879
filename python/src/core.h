/* What the files of pkc._core share. Limited API of Python 3.9. */
#ifndef PKC_CORE_H
#define PKC_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <pk/rt.h>
#include <string.h>

#pragma GCC visibility push(hidden)

enum { MOST_STATICS = 16, MOST_OPERANDS = 64, MOST_SIZES = 256, MOST_THREADS = 1024 };
enum { SMALL_RESULT = 1 << 18 }; /* bytes; from here on jax.dlpack costs less than a copy */

/* How an object's memory is read; as in _arrays.py. */
typedef enum {
  KIND_NUMPY,
  KIND_TORCH,
  KIND_JAX,
  KIND_DLPACK,
  KIND_REFUSED,
  KIND_TORCH_LIKE /* of a class derived from torch.Tensor: by DLPack */
} Kind;

typedef struct {
  char *name;
  int dtype; /* a pk_dtype; or -1 - (index of a static), or -1 - statics: as the variant has it */
  int rank;
  bool packed;           /* its elements share bytes */
  int alias;             /* of an output: the input whose memory it is, or -1 */
  int axis[PK_MAX_RANK]; /* the static that is this extent, or -1 */
} Operand;

typedef struct {
  int64_t value[MOST_STATICS]; /* a pk_dtype or an extent; -1: not taken from an array */
  const pk_kernel *kernel;
} Variant;

typedef struct {
  PyObject base;
  char *name;
  int inputs, operands, statics;
  Operand *operand;
  char *static_name[MOST_STATICS];
  Variant *variant;
  int variants;
} Caller;

/* An operand of a call. `owner` keeps the memory alive. */
typedef struct {
  DLTensor tensor;
  int64_t shape[PK_MAX_RANK], strides[PK_MAX_RANK];
  PyObject *object, *owner;
  Kind kind;
  bool read_only;
  bool in_bytes; /* of a packed operand: it has a byte an element */
} Slot;

typedef struct {
  Caller *caller;
  Slot slot[MOST_OPERANDS];
  int64_t statics[MOST_STATICS];
  int bound_by[MOST_STATICS]; /* the operand a static's value comes from */
  Kind kind;                  /* of results */
  int threads;
  PyObject *sizes; /* dict of NAME=N, or NULL */
} Call;

/* ---- arrays.c: the memory of an object and its description */

/* Functions and tables of pkc/_arrays.py. */
typedef struct {
  PyObject *kinds;         /* dict: type -> kind */
  PyObject *kind_of;       /* object -> kind; remembers its type in `kinds` */
  PyObject *numpy_dtypes;  /* dict: dtype that is none of NumPy's own -> pk_dtype */
  PyObject *torch_known;   /* dict: dtype of torch -> pk_dtype, device of the CPU -> 0; filled with
                              the first tensor */
  PyObject *torch_threads; /* torch.get_num_threads, or None */
  PyObject *dtypes;        /* dict: pk_dtype -> dtype of NumPy */
  PyObject *empty;         /* numpy.empty */
  PyObject *adapt;         /* (object, is an output) -> an array of NumPy with the same elements */
  PyObject *make;          /* (kind, shape, pk_dtype) -> an array of NumPy for a result */
  PyObject *finish;        /* (kind, array, pk_dtype) -> the result */
  PyObject *copy;          /* array -> a new array, of NumPy or torch */
  PyObject *found;         /* (object, dtype as DLPack says it or None) -> its dtype as text */
  PyObject *scalar;        /* (number, pk_dtype) -> an array of NumPy of rank 0 */
  PyObject *capsule;       /* array of JAX -> what its __dlpack__ gives */
  PyObject *put;           /* the function that jax.numpy.asarray calls in the end, or None */
  PyObject *places;        /* dict: (pk_dtype, extents..) of a small array -> its (abstract value,
                              sharding, devices), as `put` expects them */
  PyObject *jax_config;    /* jax.config, or None */
} Helpers;
extern Helpers helper;

/* The row of a pk_dtype. */
typedef struct {
  const char *name, *numpy;
  int bytes;
  DLDataType dlpack;
} DtypeRow;
enum {
#define ROW(id, ...) +1
  DTYPES = 0 PK_DTYPES(ROW)
#undef ROW
};
extern const DtypeRow dtypes[];
int find_dtype(DLDataType type); /* -1: none */

/* Raise "softmax: operand x: .."; false. */
bool refuse(const Call *call, int index, PyObject *type, const char *format, ...);
bool refuse_dtype(const Call *call, int index, const char *expected);

/* Fill a slot from an object that a caller gives, or one that was just made. False with an
 * exception. */
bool read_object(Call *call, int index, PyObject *object, bool output);
bool read_memory(Call *call, int index, PyObject *object, bool output);
/* A small array of NumPy copied to one of JAX. NULL without an exception where pkc/_arrays.py has
 * to do it. */
PyObject *small_array_of_jax(const Slot *slot, pk_dtype dtype);
bool prepare_arrays(void); /* once */

/* ---- call.c */

PyObject *Caller_call(PyObject *self, PyObject *args, PyObject *keywords);
/* _plan([(object, shape, pk_dtype), ..], {size: value}): the address of a variant, and shape and
 * dtype of each output; no array is needed. */
PyObject *Caller_plan(PyObject *self, PyObject *args);

#pragma GCC visibility pop
#endif
