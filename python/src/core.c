/* pkc._core: calls compiled kernels with arrays of Python.
 *
 * A Caller knows a kernel's operands, and the variants of the kernel that were compiled so far, by
 * the values of the statics that are taken from the arrays. A call reads the arrays' memory (NumPy
 * by __array_struct__, others by DLPack), chooses or asks for a variant, allocates outputs, and
 * calls it without the GIL. What is rare is left to pkc/_arrays.py: set_helpers names its
 * functions. Limited API of Python 3.9.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <dlfcn.h>
#include <pk/rt.h>
#include <string.h>

enum { MOST_STATICS = 16, MOST_OPERANDS = 64, READ_ONLY = 1, ANY_DTYPE = -1 };

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
  int dtype; /* a pk_dtype, or -1 - (index of a static) */
  int rank;
  int alias;             /* of an output: the input whose memory it is, or -1 */
  int axis[PK_MAX_RANK]; /* the static that is this extent, or -1 */
} Operand;

typedef struct {
  int64_t value[MOST_STATICS]; /* a pk_dtype or an extent; -1: not taken from an array */
  const pk_kernel *kernel;
} Variant;

typedef struct {
  PyObject_HEAD char *name;
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

typedef struct {
  uint32_t major, minor;
  void *context;
  void (*deleter)(void *);
  uint64_t flags;
  DLTensor tensor;
} VersionedTensor;

/* What `__array_struct__` points to. */
typedef struct {
  int two, nd;
  char typekind;
  int itemsize, flags;
  Py_ssize_t *shape, *strides;
  void *data;
} ArrayInterface;
enum { ARRAY_ALIGNED = 0x100, ARRAY_NOTSWAPPED = 0x200, ARRAY_WRITEABLE = 0x400 };

/* ---- helpers: functions and tables of _arrays.py */

static struct {
  PyObject *kinds;        /* dict: type -> kind */
  PyObject *kind_of;      /* object -> kind; remembers its type in `kinds` */
  PyObject *numpy_dtypes; /* dict: dtype that is none of NumPy's own -> pk_dtype */
  PyObject *torch_known;  /* dict: dtype of torch -> pk_dtype, device of the CPU -> 0; filled with
                             the first tensor */
  PyObject *dtypes;       /* dict: pk_dtype -> dtype of NumPy */
  PyObject *empty;        /* numpy.empty */
  PyObject *adapt;        /* (object, is an output) -> an array of NumPy with the same elements */
  PyObject *make;         /* (kind, shape, pk_dtype) -> an array of NumPy for a result */
  PyObject *finish;       /* (kind, array) -> the result */
  PyObject *copy;         /* array -> a new array, of NumPy or torch */
  PyObject *found;        /* object -> its dtype as text */
  PyObject *scalar;       /* (number, pk_dtype) -> an array of NumPy of rank 0 */
} helper;
static PyObject *max_version, *no_arguments;
static struct {
  PyObject *array_struct, *dlpack, *data_ptr, *shape, *stride, *dtype, *device, *is_neg,
      *requires_grad;
} word;

/* ---- dtypes */

static const struct {
  const char *name;
  int bytes;
  DLDataType dlpack;
} dtypes[] = {
#define ROW(id, name, bytes, code, bits) {name, bytes, {code, bits, 1}},
    PK_DTYPES(ROW)
#undef ROW
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static int find_dtype(DLDataType type) {
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i].dlpack.code == type.code && dtypes[i].dlpack.bits == type.bits && type.lanes == 1)
      return i;
  return -1;
}

/* ---- errors */

/* "softmax: operand x: .." */
static bool refuse(const Call *call, int index, PyObject *type, const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyObject *text = PyUnicode_FromFormatV(format, args);
  va_end(args);
  if (text) {
    PyErr_Format(type, "%s: operand %s: %U", call->caller->name, call->caller->operand[index].name,
                 text);
    Py_DECREF(text);
  }
  return false;
}

static bool refuse_dtype(const Call *call, int index, const char *expected) {
  PyObject *found = PyObject_CallFunctionObjArgs(helper.found, call->slot[index].object, NULL);
  if (!found) return false;
  refuse(call, index, PyExc_TypeError, "expected %s, found %U", expected, found);
  Py_DECREF(found);
  return false;
}

static PyObject *raise_status(pk_status status) {
  const char *message = pk_message(NULL);
  PyObject *type = status == PK_NO_MEMORY ? PyExc_MemoryError
                   : status == PK_FAILED  ? PyExc_RuntimeError
                                          : PyExc_ValueError;
  PyErr_SetString(type, message);
  return NULL;
}

/* ---- an object's memory */

/* NumPy's own dtypes; -1 where pkc has no such dtype. */
static struct {
  char kind;
  int bytes;
  const char *name;
  int dtype;
} own_dtypes[] = {
    {'f', 4, "f32", -1}, {'f', 2, "f16", -1}, {'f', 8, "f64", -1}, {'i', 4, "i32", -1},
    {'i', 1, "i8", -1},  {'i', 2, "i16", -1}, {'i', 8, "i64", -1}, {'u', 1, "u8", -1},
    {'u', 2, "u16", -1}, {'u', 4, "u32", -1}, {'u', 8, "u64", -1}, {'b', 1, "bool", -1},
};
enum { OWN_DTYPES = sizeof own_dtypes / sizeof *own_dtypes };

static void find_own_dtypes(void) {
  for (int i = 0; i < OWN_DTYPES; i++)
    for (int k = 0; k < DTYPES; k++)
      if (strcmp(own_dtypes[i].name, dtypes[k].name) == 0) own_dtypes[i].dtype = k;
}

static int numpy_dtype(const ArrayInterface *array, PyObject *object) {
  for (int i = 0; i < OWN_DTYPES; i++)
    if (own_dtypes[i].kind == array->typekind && own_dtypes[i].bytes == array->itemsize)
      return own_dtypes[i].dtype;
  PyObject *dtype = PyObject_GetAttrString(object, "dtype");
  PyObject *other = dtype ? PyDict_GetItemWithError(helper.numpy_dtypes, dtype) : NULL;
  Py_XDECREF(dtype);
  return other ? (int)PyLong_AsLong(other) : -1;
}

/* DLPack counts strides in elements; false when NumPy's, in bytes, are none. */
static bool set_strides(Slot *slot, const ArrayInterface *array) {
  for (int i = 0; i < array->nd; i++) {
    int64_t bytes = array->strides[i];
    slot->shape[i] = array->shape[i];
    slot->strides[i] = array->itemsize ? bytes / array->itemsize : 0;
    if (array->shape[i] > 1 && slot->strides[i] * array->itemsize != bytes) return false;
  }
  return true;
}

static bool read_numpy(Call *call, int index, PyObject *object, bool output);

/* The long way: an equal array of NumPy. */
static bool read_adapted(Call *call, int index, PyObject *object, bool output) {
  Slot *slot = &call->slot[index];
  PyObject *array =
      PyObject_CallFunctionObjArgs(helper.adapt, object, output ? Py_True : Py_False, NULL);
  if (!array) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (value && (PyErr_GivenExceptionMatches(type, PyExc_TypeError) ||
                  PyErr_GivenExceptionMatches(type, PyExc_ValueError))) {
      refuse(call, index, type, "%S", value);
      Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    } else {
      PyErr_Restore(type, value, trace);
    }
    return false;
  }
  bool good = read_numpy(call, index, array, output);
  Py_XDECREF(slot->object);
  slot->object = object;
  Py_INCREF(object);
  Py_DECREF(array); /* the capsule of its interface keeps it */
  return good;
}

static bool read_numpy(Call *call, int index, PyObject *object, bool output) {
  Slot *slot = &call->slot[index];
  Py_INCREF(object);
  slot->object = object;
  PyObject *capsule = PyObject_GetAttr(object, word.array_struct);
  const ArrayInterface *array = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
  if (!array) {
    Py_XDECREF(capsule);
    return false;
  }
  slot->owner = capsule;
  if (array->nd > PK_MAX_RANK)
    return refuse(call, index, PyExc_ValueError, "expected %d axes, found %d",
                  call->caller->operand[index].rank, array->nd);
  bool swapped = !(array->flags & ARRAY_NOTSWAPPED);
  int dtype = swapped ? -1 : numpy_dtype(array, object);
  if (dtype < 0 && PyErr_Occurred()) return false;
  bool regular = set_strides(slot, array) && (array->flags & ARRAY_ALIGNED);
  if (!regular && dtype >= 0) {
    Py_CLEAR(slot->owner);
    Py_CLEAR(slot->object);
    return read_adapted(call, index, object, output);
  }
  slot->read_only = !(array->flags & ARRAY_WRITEABLE);
  slot->tensor = (DLTensor){.data = array->data,
                            .device = {kDLCPU, 0},
                            .ndim = array->nd,
                            .shape = slot->shape,
                            .strides = slot->strides};
  slot->tensor.dtype = dtype < 0 ? (DLDataType){255, 0, 0} : dtypes[dtype].dlpack;
  return true;
}

/* A capsule, of DLPack 1 where the object knows it. */
static PyObject *dlpack_capsule(PyObject *object, Kind kind) {
  PyObject *method = PyObject_GetAttr(object, word.dlpack), *capsule = NULL;
  if (method && kind != KIND_JAX) capsule = PyObject_Call(method, no_arguments, max_version);
  bool old = method && (kind == KIND_JAX || (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)));
  if (old) {
    PyErr_Clear();
    capsule = PyObject_CallFunctionObjArgs(method, NULL);
  }
  Py_XDECREF(method);
  return capsule;
}

static bool read_dlpack(Call *call, int index, PyObject *object, Kind kind, bool output) {
  Slot *slot = &call->slot[index];
  PyObject *capsule = dlpack_capsule(object, kind);
  if (!capsule) {
    PyErr_Clear();
    return read_adapted(call, index, object, output);
  }
  Py_INCREF(object);
  slot->object = object;
  slot->owner = capsule; /* not renamed: its destructor frees what it holds */
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const VersionedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->major != 1)
      return refuse(call, index, PyExc_TypeError, "DLPack version %u.%u is not known",
                    (unsigned)managed->major, (unsigned)managed->minor);
    slot->tensor = managed->tensor;
    slot->read_only = managed->flags & READ_ONLY;
    return true;
  }
  const DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
  if (!managed) return false;
  slot->tensor = managed->dl_tensor;
  slot->read_only = kind == KIND_JAX;
  return true;
}

/* A property, or the result of a method, that is true; false where there is none. */
static bool is_true(PyObject *object, PyObject *name, bool method) {
  PyObject *value =
      method ? PyObject_CallMethodObjArgs(object, name, NULL) : PyObject_GetAttr(object, name);
  bool yes = value && PyObject_IsTrue(value) > 0;
  if (!value) PyErr_Clear();
  Py_XDECREF(value);
  return yes;
}

/* Numbers of a tuple; -1 where it is none, or too long. */
static int read_tuple(PyObject *tuple, int64_t *numbers) {
  if (!tuple || !PyTuple_Check(tuple)) return -1;
  Py_ssize_t count = PyTuple_Size(tuple);
  for (int i = 0; i < count && i < PK_MAX_RANK; i++)
    numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
  return count <= PK_MAX_RANK && !PyErr_Occurred() ? (int)count : -1;
}

/* Shape, strides and address of a plain tensor; a capsule would take some microseconds more. */
static bool set_tensor(Slot *slot, PyObject *tensor, int dtype) {
  PyObject *shape = PyObject_GetAttr(tensor, word.shape);
  PyObject *strides = PyObject_CallMethodObjArgs(tensor, word.stride, NULL);
  PyObject *address = PyObject_CallMethodObjArgs(tensor, word.data_ptr, NULL);
  int rank = read_tuple(shape, slot->shape);
  bool good = rank >= 0 && read_tuple(strides, slot->strides) == rank && address;
  void *data = good ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  Py_XDECREF(address);
  slot->tensor = (DLTensor){.data = data,
                            .device = {kDLCPU, 0},
                            .ndim = rank,
                            .dtype = dtypes[dtype].dlpack,
                            .shape = slot->shape,
                            .strides = slot->strides};
  return good && !PyErr_Occurred();
}

/* What torch_known says of a property; -1 where it is unknown. */
static int known_number(PyObject *tensor, PyObject *name) {
  PyObject *value = PyObject_GetAttr(tensor, name);
  PyObject *number = value ? PyDict_GetItemWithError(helper.torch_known, value) : NULL;
  Py_XDECREF(value);
  return number ? (int)PyLong_AsLong(number) : -1;
}

/* False: another way has to be found; no exception is set. */
static bool read_tensor(Slot *slot, PyObject *tensor) {
  int dtype = known_number(tensor, word.dtype);
  bool plain = dtype >= 0 && known_number(tensor, word.device) == 0 &&
               !is_true(tensor, word.requires_grad, false);
  if (plain && set_tensor(slot, tensor, dtype)) {
    Py_INCREF(tensor);
    slot->object = tensor;
    return true;
  }
  PyErr_Clear();
  return false;
}

static int kind_of(PyObject *object) {
  PyObject *known = PyDict_GetItemWithError(helper.kinds, (PyObject *)Py_TYPE(object));
  if (known) return (int)PyLong_AsLong(known);
  if (PyErr_Occurred()) return -1;
  PyObject *kind = PyObject_CallFunctionObjArgs(helper.kind_of, object, NULL);
  if (!kind) return -1;
  long value = PyLong_AsLong(kind);
  Py_DECREF(kind);
  return (int)value;
}

/* A number of Python as an operand of rank 0. */
static bool read_number(Call *call, int index, PyObject *object) {
  PyObject *dtype = PyLong_FromLong(call->caller->operand[index].dtype), *array = NULL;
  if (dtype) array = PyObject_CallFunctionObjArgs(helper.scalar, object, dtype, NULL);
  Py_XDECREF(dtype);
  bool good = array && read_numpy(call, index, array, false);
  Py_XDECREF(array);
  return good;
}

static bool read_memory(Call *call, int index, PyObject *object, bool output) {
  int kind = kind_of(object);
  if (kind < 0) return false;
  call->slot[index].kind = kind == KIND_TORCH_LIKE ? KIND_TORCH : (Kind)kind;
  if (kind == KIND_NUMPY) return read_numpy(call, index, object, output);
  if (kind == KIND_TORCH || kind == KIND_TORCH_LIKE) {
    if (is_true(object, word.is_neg, true)) return read_adapted(call, index, object, output);
    if (kind == KIND_TORCH && read_tensor(&call->slot[index], object)) return true;
  }
  return read_dlpack(call, index, object, (Kind)kind, output);
}

static bool read_object(Call *call, int index, PyObject *object, bool output) {
  int kind = kind_of(object);
  if (kind < 0) return false;
  const Operand *operand = &call->caller->operand[index];
  bool number = PyLong_Check(object) || PyFloat_Check(object);
  if (number && operand->rank == 0 && operand->dtype >= 0 && !output)
    return read_number(call, index, object);
  if (kind == KIND_REFUSED) {
    call->slot[index].object = object;
    Py_INCREF(object);
    return refuse_dtype(call, index, "an array");
  }
  if (output && kind == KIND_JAX)
    return refuse(call, index, PyExc_TypeError, "an output, and a JAX array cannot be written to");
  if (!read_memory(call, index, object, output)) return false;
  Kind read = call->slot[index].kind;
  if (call->kind == KIND_NUMPY && read != KIND_DLPACK) call->kind = read;
  return true;
}

/* ---- statics, from the arrays */

static const char *const device_names[] = {
    [kDLCUDA] = "CUDA",   [kDLOpenCL] = "OpenCL", [kDLVulkan] = "Vulkan",
    [kDLMetal] = "Metal", [kDLROCM] = "ROCm",
};

static bool check_device(const Call *call, int index) {
  unsigned type = (unsigned)call->slot[index].tensor.device.device_type;
  if (type == kDLCPU || type == kDLCUDAHost) return true;
  const char *name = type < sizeof device_names / sizeof *device_names ? device_names[type] : NULL;
  if (!name)
    return refuse(call, index, PyExc_TypeError, "expected CPU memory, found DLPack device type %u",
                  type);
  return refuse(call, index, PyExc_TypeError, "expected CPU memory, found a device of %s", name);
}

static bool take_dtype(Call *call, int index) {
  const Caller *caller = call->caller;
  int wanted = caller->operand[index].dtype, found = find_dtype(call->slot[index].tensor.dtype);
  char text[160];
  if (wanted >= 0) return found == wanted || refuse_dtype(call, index, dtypes[wanted].name);
  int s = -1 - wanted;
  if (found < 0) return refuse_dtype(call, index, "a dtype of pkc");
  if (call->statics[s] < 0) {
    call->statics[s] = found;
    call->bound_by[s] = index;
  }
  if (call->statics[s] == found) return true;
  PyOS_snprintf(text, sizeof text, "%s (%s, as of %s)", dtypes[call->statics[s]].name,
                caller->static_name[s], caller->operand[call->bound_by[s]].name);
  return refuse_dtype(call, index, text);
}

static bool take_extents(Call *call, int index) {
  const Caller *caller = call->caller;
  const Operand *operand = &caller->operand[index];
  for (int i = 0; i < operand->rank; i++) {
    int s = operand->axis[i];
    if (s < 0) continue;
    int64_t extent = call->slot[index].tensor.shape[i];
    if (call->statics[s] < 0) {
      call->statics[s] = extent;
      call->bound_by[s] = index;
    }
    if (call->statics[s] != extent)
      return refuse(call, index, PyExc_ValueError,
                    "axis %d: expected %lld (%s, as of %s), found %lld", i,
                    (long long)call->statics[s], caller->static_name[s],
                    caller->operand[call->bound_by[s]].name, (long long)extent);
  }
  return true;
}

static bool check_operand(Call *call, int index, bool output) {
  const Operand *operand = &call->caller->operand[index];
  const Slot *slot = &call->slot[index];
  if (!check_device(call, index) || !take_dtype(call, index)) return false;
  if (slot->tensor.ndim != operand->rank)
    return refuse(call, index, PyExc_ValueError, "expected %d axes, found %d", operand->rank,
                  slot->tensor.ndim);
  if (output && slot->read_only)
    return refuse(call, index, PyExc_ValueError, "an output, and the array is read-only");
  return take_extents(call, index);
}

static bool read_operand(Call *call, int index, PyObject *object, bool output) {
  return read_object(call, index, object, output) && check_operand(call, index, output);
}

/* ---- arguments */

static bool is_name(PyObject *key, const char *name) {
  return PyUnicode_CompareWithASCIIString(key, name) == 0;
}

/* -1 with an exception where it is none. */
static long long whole_number(PyObject *value) {
  PyObject *index = PyNumber_Index(value);
  long long number = index ? PyLong_AsLongLong(index) : -1;
  Py_XDECREF(index);
  return number;
}

static bool read_threads(Call *call, PyObject *value) {
  if (value == Py_None) return true;
  long threads = (long)whole_number(value);
  if (threads == -1 && PyErr_Occurred()) return false;
  if (threads < 1 || threads > 1024) {
    PyErr_Format(PyExc_ValueError, "%s: threads: expected 1 to 1024, found %ld", call->caller->name,
                 threads);
    return false;
  }
  call->threads = (int)threads;
  return true;
}

static bool read_size(Call *call, PyObject *key, PyObject *value) {
  long long size = whole_number(value);
  if (size == -1 && PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError,
                 "%s: %U is not an operand, out or threads, and not a size: a size is a number",
                 call->caller->name, key);
    return false;
  }
  if (!call->sizes && !(call->sizes = PyDict_New())) return false;
  return PyDict_SetItem(call->sizes, key, value) == 0;
}

static bool read_keyword(Call *call, PyObject *key, PyObject *value, PyObject **out) {
  const Caller *caller = call->caller;
  if (is_name(key, "out")) return *out = value == Py_None ? NULL : value, true;
  if (is_name(key, "threads")) return read_threads(call, value);
  for (int i = 0; i < caller->inputs; i++) {
    if (!is_name(key, caller->operand[i].name)) continue;
    if (call->slot[i].object) {
      PyErr_Format(PyExc_TypeError, "%s: operand %U is given twice", caller->name, key);
      return false;
    }
    return read_operand(call, i, value, false);
  }
  return read_size(call, key, value);
}

static bool read_inputs(Call *call, PyObject *args, PyObject *keywords, PyObject **out) {
  const Caller *caller = call->caller;
  Py_ssize_t count = PyTuple_Size(args), position = 0;
  PyObject *key, *value;
  if (count > caller->inputs) {
    PyErr_Format(PyExc_TypeError, "%s: expected %d arrays, found %zd", caller->name, caller->inputs,
                 count);
    return false;
  }
  for (int i = 0; i < count; i++)
    if (!read_operand(call, i, PyTuple_GetItem(args, i), false)) return false;
  while (keywords && PyDict_Next(keywords, &position, &key, &value))
    if (!read_keyword(call, key, value, out)) return false;
  for (int i = 0; i < caller->inputs; i++) {
    if (call->slot[i].object) continue;
    PyErr_Format(PyExc_TypeError, "%s: operand %s is missing: expected %d arrays, found %zd",
                 caller->name, caller->operand[i].name, caller->inputs, count);
    return false;
  }
  return true;
}

/* out=array, or a sequence with an array or None for each output. */
static bool read_outputs(Call *call, PyObject *out) {
  const Caller *caller = call->caller;
  int outputs = caller->operands - caller->inputs;
  bool several = PyTuple_Check(out) || PyList_Check(out);
  Py_ssize_t count = several ? PySequence_Size(out) : 1;
  if (count != outputs) {
    PyErr_Format(PyExc_TypeError, "%s: out: expected %d arrays, found %zd", caller->name, outputs,
                 count);
    return false;
  }
  for (int i = 0; i < outputs; i++) {
    PyObject *object = several ? PySequence_GetItem(out, i) : out;
    bool good =
        object && (object == Py_None || read_operand(call, caller->inputs + i, object, true));
    if (several) Py_XDECREF(object);
    if (!good) return false;
  }
  return true;
}

/* ---- variants */

static bool same_statics(const Caller *caller, const int64_t *a, const int64_t *b) {
  for (int i = 0; i < caller->statics; i++)
    if (a[i] != b[i]) return false;
  return true;
}

/* self._variant({NAME: value}): the address of the pk_kernel. */
static const pk_kernel *make_variant(Call *call) {
  Caller *caller = call->caller;
  PyObject *values = PyTuple_New(caller->statics);
  for (int i = 0; values && i < caller->statics; i++)
    PyTuple_SetItem(values, i, PyLong_FromLongLong(call->statics[i]));
  PyObject *address =
      values ? PyObject_CallMethod((PyObject *)caller, "_variant", "(O)", values) : NULL;
  Py_XDECREF(values);
  const pk_kernel *kernel = address ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  if (!kernel) return NULL;
  if (kernel->abi != PK_ABI || kernel->operands != caller->operands) {
    PyErr_Format(PyExc_RuntimeError, "%s: the compiled kernel does not match its signature",
                 caller->name);
    return NULL;
  }
  Variant *more = PyMem_Realloc(caller->variant, sizeof *more * ((size_t)caller->variants + 1));
  if (!more) return (void)PyErr_NoMemory(), NULL;
  caller->variant = more;
  more[caller->variants].kernel = kernel;
  memcpy(more[caller->variants++].value, call->statics, sizeof call->statics);
  return kernel;
}

static const pk_kernel *find_variant(Call *call) {
  const Caller *caller = call->caller;
  for (int i = 0; i < caller->variants; i++)
    if (same_statics(caller, caller->variant[i].value, call->statics))
      return caller->variant[i].kernel;
  return make_variant(call);
}

/* ---- outputs */

/* Where NAME=N are sizes of the kernel, they are `given`. */
static bool take_sizes(Call *call, const pk_kernel *kernel, int64_t *given) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  for (int i = 0; i < kernel->bound; i++) given[i] = -1;
  while (call->sizes && PyDict_Next(call->sizes, &position, &key, &value)) {
    int i = 0;
    while (i < kernel->bound && !is_name(key, kernel->size_name[i])) i++;
    if (i == kernel->bound) {
      PyErr_Format(PyExc_TypeError, "%s: %U is not an operand or size, nor out or threads",
                   kernel->name, key);
      return false;
    }
    given[i] = PyLong_AsLongLong(value);
  }
  return true;
}

static bool make_array(Call *call, int index, const int64_t *shape, pk_dtype dtype) {
  Slot *slot = &call->slot[index];
  int rank = call->caller->operand[index].rank;
  PyObject *key = NULL, *array = NULL, *tuple = PyTuple_New(rank);
  for (int i = 0; tuple && i < rank; i++) PyTuple_SetItem(tuple, i, PyLong_FromLongLong(shape[i]));
  if (tuple) key = PyLong_FromLong((long)dtype);
  if (key && call->kind == KIND_NUMPY) {
    PyObject *type = PyDict_GetItemWithError(helper.dtypes, key);
    if (type) array = PyObject_CallFunctionObjArgs(helper.empty, tuple, type, NULL);
  }
  if (key && !array && !PyErr_Occurred()) {
    PyObject *kind = PyLong_FromLong((long)call->kind);
    if (kind) array = PyObject_CallFunctionObjArgs(helper.make, kind, tuple, key, NULL);
    Py_XDECREF(kind);
  }
  Py_XDECREF(key);
  Py_XDECREF(tuple);
  if (!array) return false;
  bool good = read_memory(call, index, array, true);
  Py_DECREF(array);
  slot->kind = call->kind;
  return good;
}

/* An aliased operand without `out`: the kernel works on a copy. */
static bool copy_alias(Call *call, int index, int input) {
  Slot *from = &call->slot[input], *to = &call->slot[index];
  PyObject *array = PyObject_CallFunctionObjArgs(helper.copy, from->object, NULL);
  if (!array) return false;
  bool good = read_memory(call, index, array, true);
  Py_DECREF(array);
  if (!good) return false;
  to->kind = call->kind;
  Py_CLEAR(from->owner);
  from->owner = to->owner;
  Py_XINCREF(to->owner); /* NULL: `to` keeps its object, which is the memory */
  from->tensor = to->tensor;
  memcpy(from->shape, to->shape, sizeof from->shape);
  memcpy(from->strides, to->strides, sizeof from->strides);
  if (from->tensor.shape == to->shape) {
    from->tensor.shape = from->shape;
    from->tensor.strides = from->strides;
  }
  return true;
}

static bool make_outputs(Call *call, const pk_kernel *kernel, DLTensor **tensors) {
  const Caller *caller = call->caller;
  int64_t shape[MOST_OPERANDS][PK_MAX_RANK], small[32], *given = small;
  bool missing = call->sizes != NULL;
  for (int i = caller->inputs; i < caller->operands; i++) missing |= !call->slot[i].object;
  if (!missing) return true;
  if (kernel->bound > 32) given = PyMem_Malloc(sizeof *given * (size_t)kernel->bound);
  if (!given) return (void)PyErr_NoMemory(), false;
  bool good = take_sizes(call, kernel, given);
  pk_status status = good ? pk_output_shapes(NULL, kernel, tensors, given, shape) : PK_OK;
  if (given != small) PyMem_Free(given);
  if (status != PK_OK) raise_status(status);
  if (!good || status != PK_OK) return false;
  for (int i = caller->inputs; i < caller->operands; i++) {
    int alias = caller->operand[i].alias;
    if (call->slot[i].object) continue;
    good = alias >= 0 ? copy_alias(call, i, alias)
                      : make_array(call, i, shape[i - caller->inputs], kernel->operand[i].dtype);
    if (!good) return false;
    tensors[i] = &call->slot[i].tensor;
  }
  return true;
}

static PyObject *result(Call *call, int index, bool given) {
  Slot *slot = &call->slot[index];
  if (given || slot->kind == KIND_NUMPY || slot->kind == KIND_DLPACK || slot->kind == KIND_TORCH) {
    Py_INCREF(slot->object);
    return slot->object;
  }
  PyObject *kind = PyLong_FromLong((long)slot->kind), *done = NULL;
  if (kind) done = PyObject_CallFunctionObjArgs(helper.finish, kind, slot->object, NULL);
  Py_XDECREF(kind);
  return done;
}

static PyObject *results(Call *call, const bool *given) {
  const Caller *caller = call->caller;
  int outputs = caller->operands - caller->inputs;
  if (outputs == 1) return result(call, caller->inputs, given[caller->inputs]);
  PyObject *tuple = PyTuple_New(outputs);
  for (int i = 0; tuple && i < outputs; i++) {
    PyObject *one = result(call, caller->inputs + i, given[caller->inputs + i]);
    if (!one || PyTuple_SetItem(tuple, i, one) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

/* ---- the call */

static PyObject *run(Call *call, PyObject *args, PyObject *keywords) {
  const Caller *caller = call->caller;
  DLTensor *tensors[MOST_OPERANDS + 1];
  bool given[MOST_OPERANDS + 1];
  PyObject *out = NULL;
  if (!read_inputs(call, args, keywords, &out)) return NULL;
  if (out && !read_outputs(call, out)) return NULL;
  const pk_kernel *kernel = find_variant(call);
  if (!kernel) return NULL;
  for (int i = 0; i < caller->operands; i++) {
    tensors[i] = &call->slot[i].tensor;
    given[i] = call->slot[i].object != NULL;
  }
  if (!make_outputs(call, kernel, tensors)) return NULL;
  pk_status status;
  Py_BEGIN_ALLOW_THREADS;
  if (call->threads) pk_context_set_threads(NULL, call->threads);
  status = pk_call_kernel(NULL, kernel, tensors);
  if (call->threads) pk_context_set_threads(NULL, 0);
  Py_END_ALLOW_THREADS;
  return status == PK_OK ? results(call, given) : raise_status(status);
}

static void begin(Call *call, Caller *caller) {
  call->caller = caller;
  call->kind = KIND_NUMPY;
  call->threads = 0;
  call->sizes = NULL;
  for (int i = 0; i < caller->operands; i++) {
    call->slot[i].object = call->slot[i].owner = NULL;
    call->slot[i].read_only = false;
  }
  for (int i = 0; i < MOST_STATICS; i++) call->statics[i] = -1;
}

static void end(Call *call) {
  for (int i = 0; i < call->caller->operands; i++) {
    Py_XDECREF(call->slot[i].owner);
    Py_XDECREF(call->slot[i].object);
  }
  Py_XDECREF(call->sizes);
}

static PyObject *Caller_call(PyObject *self, PyObject *args, PyObject *keywords) {
  Call call;
  begin(&call, (Caller *)self);
  PyObject *done = run(&call, args, keywords);
  end(&call);
  return done;
}

/* ---- a call that is planned: shapes without memory */

/* (object, shape, pk_dtype or -1): an input that somebody else will pass. */
static bool read_shape(Call *call, int index, PyObject *item) {
  Slot *slot = &call->slot[index];
  PyObject *object, *shape;
  int dtype;
  if (!PyArg_ParseTuple(item, "OO!i", &object, &PyTuple_Type, &shape, &dtype)) return false;
  Py_INCREF(object);
  slot->object = object;
  Py_ssize_t rank = PyTuple_Size(shape);
  for (int i = 0; i < rank && i < PK_MAX_RANK; i++) {
    slot->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    if (slot->shape[i] == -1 && PyErr_Occurred()) return false;
  }
  slot->tensor = (DLTensor){.data = slot, /* nothing reads it */
                            .device = {kDLCPU, 0},
                            .ndim = (int)rank,
                            .dtype = dtype < 0 ? (DLDataType){255, 0, 0} : dtypes[dtype].dlpack,
                            .shape = slot->shape};
  return check_operand(call, index, false);
}

/* Of a kernel whose plan reads prefetched elements, which are not known yet: extents that are
 * constants or sizes of inputs. */
static bool shapes_without_plan(const Call *call, const pk_kernel *kernel, int64_t *size,
                                int64_t (*shapes)[PK_MAX_RANK]) {
  for (int i = 0; i < kernel->operands; i++) {
    for (int axis = 0; axis < kernel->operand[i].rank; axis++) {
      int64_t extent = kernel->operand[i].shape[axis], at = -1 - extent;
      if (i < kernel->inputs && at >= 0 && at < kernel->bound && size[at] < 0)
        size[at] = call->slot[i].tensor.shape[axis];
      if (i < kernel->inputs) continue;
      if (extent < 0 && (at >= kernel->bound || size[at] < 0)) {
        refuse(call, i, PyExc_TypeError, "axis %d depends on prefetched elements or on no input",
               axis);
        return false;
      }
      shapes[i - kernel->inputs][axis] = extent < 0 ? size[at] : extent;
    }
  }
  return true;
}

static PyObject *planned(const Call *call, const pk_kernel *kernel,
                         int64_t (*shapes)[PK_MAX_RANK]) {
  PyObject *list = PyList_New(0);
  for (int i = kernel->inputs; list && i < kernel->operands; i++) {
    PyObject *shape = PyTuple_New(kernel->operand[i].rank), *row = NULL;
    for (int k = 0; shape && k < kernel->operand[i].rank; k++)
      PyTuple_SetItem(shape, k, PyLong_FromLongLong(shapes[i - call->caller->inputs][k]));
    if (shape) row = Py_BuildValue("(Ni)", shape, (int)kernel->operand[i].dtype);
    if (!row || PyList_Append(list, row) != 0) Py_CLEAR(list);
    Py_XDECREF(row);
  }
  return list ? Py_BuildValue("(NN)", PyLong_FromVoidPtr((void *)(uintptr_t)kernel), list) : NULL;
}

/* _plan([(object, shape, dtype), ..], sizes): the address of the kernel, and what its outputs are.
 */
static PyObject *plan(Call *call, PyObject *inputs) {
  const Caller *caller = call->caller;
  DLTensor *tensors[MOST_OPERANDS + 1];
  int64_t shapes[MOST_OPERANDS][PK_MAX_RANK], size[64];
  if (PyList_Size(inputs) != caller->inputs)
    return PyErr_Format(PyExc_TypeError, "%s: expected %d arrays, found %zd", caller->name,
                        caller->inputs, PyList_Size(inputs));
  for (int i = 0; i < caller->inputs; i++) {
    if (!read_shape(call, i, PyList_GetItem(inputs, i))) return NULL;
    tensors[i] = &call->slot[i].tensor;
  }
  const pk_kernel *kernel = find_variant(call);
  if (!kernel) return NULL;
  if (kernel->bound > 64)
    return PyErr_Format(PyExc_ValueError, "%s has more than 64 sizes", caller->name);
  if (!take_sizes(call, kernel, size)) return NULL;
  if (kernel->prepare_from)
    return shapes_without_plan(call, kernel, size, shapes) ? planned(call, kernel, shapes) : NULL;
  pk_status status = pk_output_shapes(NULL, kernel, tensors, size, shapes);
  return status == PK_OK ? planned(call, kernel, shapes) : raise_status(status);
}

static PyObject *Caller_plan(PyObject *self, PyObject *args) {
  Call call;
  PyObject *inputs, *sizes;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &inputs, &PyDict_Type, &sizes)) return NULL;
  begin(&call, (Caller *)self);
  Py_INCREF(sizes);
  call.sizes = sizes;
  PyObject *done = plan(&call, inputs);
  end(&call);
  return done;
}

/* ---- making a Caller */

static char *copy_text(PyObject *text) {
  PyObject *bytes = PyUnicode_Check(text) ? PyUnicode_AsUTF8String(text) : NULL;
  if (!bytes) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected a name");
    return NULL;
  }
  size_t length = (size_t)PyBytes_Size(bytes);
  char *copy = PyMem_Malloc(length + 1);
  if (copy)
    memcpy(copy, PyBytes_AsString(bytes), length + 1);
  else
    PyErr_NoMemory();
  Py_DECREF(bytes);
  return copy;
}

/* (name, dtype, alias, (static or -1, ..)) */
static bool set_operand(Caller *caller, int index, PyObject *tuple) {
  Operand *operand = &caller->operand[index];
  PyObject *name, *axes;
  if (!PyArg_ParseTuple(tuple, "UiiO!", &name, &operand->dtype, &operand->alias, &PyTuple_Type,
                        &axes))
    return false;
  Py_ssize_t rank = PyTuple_Size(axes);
  bool valid = rank <= PK_MAX_RANK && operand->dtype < DTYPES &&
               operand->dtype >= -caller->statics && operand->alias < caller->inputs;
  operand->rank = (int)rank;
  for (int i = 0; valid && i < rank; i++) {
    operand->axis[i] = (int)PyLong_AsLong(PyTuple_GetItem(axes, i));
    valid = operand->axis[i] >= -1 && operand->axis[i] < caller->statics;
  }
  if (!valid && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "not an operand");
  return valid && (operand->name = copy_text(name));
}

static bool set_operands(Caller *caller, PyObject *statics, PyObject *operands) {
  Py_ssize_t count = PyTuple_Size(operands), names = PyTuple_Size(statics);
  if (count > MOST_OPERANDS || names > MOST_STATICS || caller->inputs > count) {
    PyErr_Format(PyExc_ValueError,
                 "%s: a kernel that Python calls has at most %d operands, and %d statics in their "
                 "shapes and dtypes",
                 caller->name, MOST_OPERANDS, MOST_STATICS);
    return false;
  }
  caller->operand = PyMem_Calloc((size_t)count + 1, sizeof *caller->operand);
  if (!caller->operand) return (void)PyErr_NoMemory(), false;
  for (; caller->statics < names; caller->statics++) {
    char *name = copy_text(PyTuple_GetItem(statics, caller->statics));
    if (!name) return false;
    caller->static_name[caller->statics] = name;
  }
  for (; caller->operands < count; caller->operands++)
    if (!set_operand(caller, caller->operands, PyTuple_GetItem(operands, caller->operands)))
      return false;
  return true;
}

static void forget(Caller *caller) {
  for (int i = 0; i < caller->operands; i++) PyMem_Free(caller->operand[i].name);
  for (int i = 0; i < caller->statics; i++) PyMem_Free(caller->static_name[i]);
  PyMem_Free(caller->operand);
  PyMem_Free(caller->variant);
  PyMem_Free(caller->name);
}

static PyObject *Caller_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  (void)args, (void)keywords;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  return allocate(type, 0);
}

static int Caller_init(PyObject *self, PyObject *args, PyObject *keywords) {
  Caller *caller = (Caller *)self;
  PyObject *name, *statics, *operands;
  int inputs;
  (void)keywords;
  if (!PyArg_ParseTuple(args, "UiO!O!", &name, &inputs, &PyTuple_Type, &statics, &PyTuple_Type,
                        &operands))
    return -1;
  if (caller->name) {
    PyErr_SetString(PyExc_RuntimeError, "a kernel is made once");
    return -1;
  }
  caller->inputs = inputs;
  return (caller->name = copy_text(name)) && set_operands(caller, statics, operands) ? 0 : -1;
}

static void Caller_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  forget((Caller *)self);
  release(self);
  Py_DECREF(type);
}

static PyMethodDef caller_methods[] = {
    {"_plan", Caller_plan, METH_VARARGS, "The address of a variant and the shapes of its outputs."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot caller_slots[] = {
    {Py_tp_methods, (void *)caller_methods},
    {Py_tp_new, (void *)Caller_new},
    {Py_tp_init, (void *)Caller_init},
    {Py_tp_dealloc, (void *)Caller_dealloc},
    {Py_tp_call, (void *)Caller_call},
    {Py_tp_doc, (void *)"Calls the variants of a kernel; the base of pkc.Kernel."},
    {0, NULL},
};
static PyType_Spec caller_spec = {"pkc._core.Caller", sizeof(Caller), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, caller_slots};

/* ---- functions of the module */

/* load(path, symbol) -> the address of the pk_kernel. The library stays loaded. */
static PyObject *load(PyObject *module, PyObject *args) {
  const char *path, *symbol;
  (void)module;
  if (!PyArg_ParseTuple(args, "ss", &path, &symbol)) return NULL;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *kernel = library ? dlsym(library, symbol) : NULL;
  if (kernel) return PyLong_FromVoidPtr(kernel);
  return PyErr_Format(PyExc_OSError, "%s", dlerror());
}

static PyObject *version(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  return PyUnicode_FromString(pk_version());
}

static PyObject *processors(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  return PyLong_FromLong(pk_processors());
}

static PyObject *dtype_names(PyObject *module, PyObject *none) {
  (void)module, (void)none;
  PyObject *names = PyTuple_New(DTYPES);
  for (int i = 0; names && i < DTYPES; i++)
    PyTuple_SetItem(names, i, PyUnicode_FromString(dtypes[i].name));
  return names;
}

static PyObject *set_helpers(PyObject *module, PyObject *args) {
  (void)module;
  PyObject **places[] = {&helper.kinds,  &helper.kind_of, &helper.numpy_dtypes, &helper.torch_known,
                         &helper.dtypes, &helper.empty,   &helper.adapt,        &helper.make,
                         &helper.finish, &helper.copy,    &helper.found,        &helper.scalar};
  const int count = sizeof places / sizeof *places;
  if (PyTuple_Size(args) != count)
    return PyErr_Format(PyExc_TypeError, "expected %d helpers", count);
  for (int i = 0; i < count; i++) {
    PyObject *old = *places[i];
    *places[i] = PyTuple_GetItem(args, i);
    Py_INCREF(*places[i]);
    Py_XDECREF(old);
  }
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"load", load, METH_VARARGS, "load(path, symbol): the address of a kernel"},
    {"version", version, METH_NOARGS, "the runtime's version"},
    {"processors", processors, METH_NOARGS, "how many processors the process may use"},
    {"dtype_names", dtype_names, METH_NOARGS, "the dtypes, in the order of their numbers"},
    {"set_helpers", set_helpers, METH_VARARGS, "what pkc/_arrays.py does"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "pkc._core",
                                        "Calls compiled kernels.",
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

static bool make_words(void) {
  const struct {
    PyObject **place;
    const char *text;
  } words[] = {
      {&word.array_struct, "__array_struct__"},
      {&word.dlpack, "__dlpack__"},
      {&word.data_ptr, "data_ptr"},
      {&word.shape, "shape"},
      {&word.stride, "stride"},
      {&word.dtype, "dtype"},
      {&word.device, "device"},
      {&word.is_neg, "is_neg"},
      {&word.requires_grad, "requires_grad"},
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!(*words[i].place = PyUnicode_InternFromString(words[i].text))) return false;
  no_arguments = PyTuple_New(0);
  max_version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
  return no_arguments && max_version;
}

PyMODINIT_FUNC PyInit__core(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&caller_spec) : NULL;
  find_own_dtypes();
  bool good = type && make_words() && PyModule_AddObject(module, "Caller", type) == 0;
  if (!good) Py_CLEAR(module);
  return module;
}
