/* An object's memory as a DLTensor: NumPy by __array_struct__, plain tensors of torch by their
 * properties, others by DLPack; pkc/_arrays.py handles rare ones. */
#include "core.h"

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
enum { READ_ONLY = 1 }; /* of a VersionedTensor */
enum { ARRAY_ALIGNED = 0x100, ARRAY_NOTSWAPPED = 0x200, ARRAY_WRITEABLE = 0x400 };

Helpers helper;
static PyObject *max_version, *no_arguments;
static struct {
  PyObject *array_struct, *dlpack, *data_ptr, *shape, *stride, *dtype, *device, *is_neg,
      *requires_grad, *default_device;
} word;

/* ---- dtypes */

const DtypeRow dtypes[] = {
#define ROW(id, name, numpy, bytes, code, bits, xla) {name, numpy, bytes, {code, bits, 1}},
    PK_DTYPES(ROW)
#undef ROW
};

int find_dtype(DLDataType type) {
  for (int i = 0; i < DTYPES; i++)
    if (dtypes[i].dlpack.code == type.code && dtypes[i].dlpack.bits == type.bits && type.lanes == 1)
      return i;
  return -1;
}

/* ---- errors */

/* "softmax: operand x: .." */
bool refuse(const Call *call, int index, PyObject *type, const char *format, ...) {
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

/* What a DLTensor says of its elements. */
static PyObject *dlpack_text(DLDataType type) {
  int known = find_dtype(type);
  if (known >= 0) return PyUnicode_FromString(dtypes[known].name);
  return PyUnicode_FromFormat("elements of DLPack's code %d, %d bits and %d lanes", (int)type.code,
                              (int)type.bits, (int)type.lanes);
}

bool refuse_dtype(const Call *call, int index, const char *expected) {
  const Slot *slot = &call->slot[index];
  PyObject *said = slot->kind == KIND_DLPACK ? dlpack_text(slot->tensor.dtype) : NULL;
  PyObject *found =
      PyObject_CallFunctionObjArgs(helper.found, slot->object, said ? said : Py_None, NULL);
  if (found) refuse(call, index, PyExc_TypeError, "expected %s, found %U", expected, found);
  Py_XDECREF(said);
  Py_XDECREF(found);
  return false;
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

/* Reads an object with __array_struct__ without a copy. An array that cannot be used where it is
 * goes to read_adapted. */
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
  if (kind == KIND_JAX) return PyObject_CallFunctionObjArgs(helper.capsule, object, NULL);
  PyObject *method = PyObject_GetAttr(object, word.dlpack), *capsule = NULL;
  if (method) capsule = PyObject_Call(method, no_arguments, max_version);
  if (method && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_CallFunctionObjArgs(method, NULL);
  }
  Py_XDECREF(method);
  return capsule;
}

/* Neither name that a capsule of DLPack has before somebody takes it. */
static bool refuse_capsule(const Call *call, int index, PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "used_dltensor") ||
      PyCapsule_IsValid(capsule, "used_dltensor_versioned"))
    return refuse(call, index, PyExc_ValueError,
                  "expected a capsule of DLPack, found one that is used up");
  PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(capsule), "__name__");
  if (type)
    refuse(call, index, PyExc_TypeError,
           "expected __dlpack__ to give a capsule of DLPack, found %U", type);
  Py_XDECREF(type);
  return false;
}

/* Reads an object with __dlpack__ without a copy; one that refuses goes to read_adapted. */
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
  if (!PyCapsule_IsValid(capsule, "dltensor")) return refuse_capsule(call, index, capsule);
  const DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
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

/* False: the object is read in another way; no exception is set. */
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

bool read_memory(Call *call, int index, PyObject *object, bool output) {
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

bool read_object(Call *call, int index, PyObject *object, bool output) {
  int kind = kind_of(object);
  if (kind < 0) return false;
  const Operand *operand = &call->caller->operand[index];
  bool number = PyLong_Check(object) || PyFloat_Check(object);
  if (number && operand->rank == 0 && operand->dtype >= 0 && !output)
    return read_number(call, index, object);
  if (kind == KIND_REFUSED) {
    call->slot[index].object = object;
    call->slot[index].kind = KIND_REFUSED;
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

/* ---- results */

/* An array's key in helper.places. */
static PyObject *place_key(const DLTensor *tensor, pk_dtype dtype) {
  PyObject *key = PyTuple_New(tensor->ndim + 1);
  for (int i = 0; key && i <= tensor->ndim; i++) {
    PyObject *number = PyLong_FromLongLong(i == 0 ? (long long)dtype : tensor->shape[i - 1]);
    if (!number || PyTuple_SetItem(key, i, number) != 0) Py_CLEAR(key);
  }
  return key;
}

/* jax.config.jax_default_device is None. */
static bool goes_to_first_device(void) {
  PyObject *device = PyObject_GetAttr(helper.jax_config, word.default_device);
  bool is_none = device == Py_None;
  if (!device) PyErr_Clear();
  Py_XDECREF(device);
  return is_none;
}

PyObject *small_array_of_jax(const Slot *slot, pk_dtype dtype) {
  if (helper.put == Py_None || !goes_to_first_device()) return NULL;
  PyObject *key = place_key(&slot->tensor, dtype), *list = PyList_New(1), *done = NULL;
  PyObject *place = key ? PyDict_GetItemWithError(helper.places, key) : NULL;
  if (place && list) {
    Py_INCREF(place);
    Py_INCREF(slot->object);
    PyList_SetItem(list, 0, slot->object);
    done = PyObject_CallFunctionObjArgs(helper.put, PyTuple_GetItem(place, 0),
                                        PyTuple_GetItem(place, 1), list, PyTuple_GetItem(place, 2),
                                        Py_False, NULL);
    Py_DECREF(place);
    if (!done && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear(); /* JAX was reset, say */
  }
  Py_XDECREF(list);
  Py_XDECREF(key);
  return done;
}

bool prepare_arrays(void) {
  find_own_dtypes();
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
      {&word.default_device, "jax_default_device"},
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!(*words[i].place = PyUnicode_InternFromString(words[i].text))) return false;
  no_arguments = PyTuple_New(0);
  max_version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
  return no_arguments && max_version;
}
