/* A call: inputs read, statics taken from them, a variant found or made, outputs allocated, the
 * kernel called without Python's lock. */
#include "core.h"

static PyObject *raise_status(pk_status status) {
  const char *message = pk_message(NULL);
  PyObject *type = status == PK_NO_MEMORY ? PyExc_MemoryError
                   : status == PK_FAILED  ? PyExc_RuntimeError
                                          : PyExc_ValueError;
  PyErr_SetString(type, message);
  return NULL;
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
  if (s == caller->statics) return true; /* known with the variant */
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

/* Bytes of uint8, each with several elements of an operand's last axis. */
static bool take_bytes(Call *call, int index) {
  const int dtype = call->caller->operand[index].dtype;
  Slot *slot = &call->slot[index];
  DLTensor *tensor = &slot->tensor;
  const int rank = tensor->ndim, each = 8 / dtypes[dtype].dlpack.bits;
  if (rank < 1 || rank > PK_MAX_RANK) return true; /* refused by its rank */
  if (tensor->strides && tensor->shape[rank - 1] > 1 && tensor->strides[rank - 1] != 1)
    return refuse(call, index, PyExc_ValueError, "expected bytes side by side along the last axis");
  for (int i = 0; i < rank; i++) {
    slot->shape[i] = tensor->shape[i];
    if (tensor->strides) slot->strides[i] = tensor->strides[i] * each;
  }
  slot->shape[rank - 1] *= each;
  if (tensor->strides) {
    slot->strides[rank - 1] = 1;
    tensor->strides = slot->strides;
  }
  tensor->shape = slot->shape;
  tensor->dtype = dtypes[dtype].dlpack;
  return true;
}

/* Does an element of a tensor fill a byte: uint8, or as many lanes of the dtype as fit (torch's
 * float4_e2m1fn_x2)? */
static bool fills_byte(DLDataType type, DLDataType lane) {
  if (type.code == kDLUInt && type.bits == 8 && type.lanes == 1) return true;
  return type.code == lane.code && type.bits == lane.bits && type.bits * type.lanes == 8;
}

/* An operand whose elements share bytes: the caller passes bytes with several elements each, or an
 * array of the dtype, which in NumPy has one byte for each element. */
static bool take_packed(Call *call, int index) {
  const Operand *operand = &call->caller->operand[index];
  DLTensor *tensor = &call->slot[index].tensor;
  if (!operand->packed || call->slot[index].object == NULL) return true;
  if (operand->dtype >= 0 && fills_byte(tensor->dtype, dtypes[operand->dtype].dlpack))
    return take_bytes(call, index);
  call->slot[index].in_bytes = tensor->dtype.bits < 8 && call->slot[index].kind != KIND_DLPACK;
  return true;
}

/* Once the dtype is known: a byte an element. */
static void set_bytes(Slot *slot) {
  if (slot->in_bytes) slot->tensor.dtype.bits = 8;
}

static bool check_operand(Call *call, int index, bool output) {
  const Operand *operand = &call->caller->operand[index];
  Slot *slot = &call->slot[index];
  if (!take_packed(call, index)) return false;
  if (!check_device(call, index) || !take_dtype(call, index)) return false;
  if (slot->tensor.ndim != operand->rank)
    return refuse(call, index, PyExc_ValueError, "expected %d axes, found %d", operand->rank,
                  slot->tensor.ndim);
  if (output && slot->read_only)
    return refuse(call, index, PyExc_ValueError, "an output, and the array is read-only");
  set_bytes(slot);
  return take_extents(call, index);
}

static bool read_operand(Call *call, int index, PyObject *object, bool output) {
  return read_object(call, index, object, output) && check_operand(call, index, output);
}

/* ---- arguments */

static bool is_name(PyObject *key, const char *name) {
  return PyUnicode_CompareWithASCIIString(key, name) == 0;
}

/* A whole number, `most` + 1 where it is larger; -1 where it is negative; else an exception. */
static bool read_number(PyObject *value, long long most, long long *number) {
  int overflow = 0;
  PyObject *index = PyNumber_Index(value);
  *number = index ? PyLong_AsLongLongAndOverflow(index, &overflow) : -1;
  Py_XDECREF(index);
  if (!index) return false;
  if (overflow > 0 || *number > most) *number = most + 1;
  if (*number < 0) *number = -1;
  return true;
}

static bool read_threads(Call *call, PyObject *value) {
  long long threads = 0;
  if (value == Py_None) return true;
  if (!read_number(value, MOST_THREADS, &threads)) {
    PyErr_Format(PyExc_TypeError, "%s: threads: expected a whole number, found %R",
                 call->caller->name, value);
    return false;
  }
  if (threads < 1 || threads > MOST_THREADS) {
    PyErr_Format(PyExc_ValueError, "%s: threads: expected 1 to %d, found %R", call->caller->name,
                 (int)MOST_THREADS, value);
    return false;
  }
  call->threads = (int)threads;
  return true;
}

static bool take_size(const Call *call, PyObject *key, PyObject *value, int64_t *size) {
  long long number;
  if (!read_number(value, INT32_MAX, &number)) {
    PyErr_Format(PyExc_TypeError,
                 "%s: %U is not an operand, out or threads, and not a size: a size is a whole "
                 "number",
                 call->caller->name, key);
    return false;
  }
  if (number < 0 || number > INT32_MAX) {
    PyErr_Format(PyExc_ValueError, "%s: %U: expected a size from 0 to %d, found %R",
                 call->caller->name, key, (int)INT32_MAX, value);
    return false;
  }
  *size = number;
  return true;
}

static bool read_size(Call *call, PyObject *key, PyObject *value) {
  int64_t size;
  if (!take_size(call, key, value, &size)) return false;
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

/* Reads the arguments of a call: inputs by position or name, sizes, statics, and `out`. */
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

static const pk_kernel *known_variant(const Call *call) {
  const Caller *caller = call->caller;
  for (int i = 0; i < caller->variants; i++)
    if (same_statics(caller, caller->variant[i].value, call->statics))
      return caller->variant[i].kernel;
  return NULL;
}

/* An exception, and NULL, also where an operand has another dtype than the variant's. */
static const pk_kernel *find_variant(Call *call) {
  const Caller *caller = call->caller;
  const pk_kernel *kernel = known_variant(call);
  if (!kernel && !(kernel = make_variant(call))) return NULL;
  for (int i = 0; i < caller->operands; i++) {
    if (caller->operand[i].dtype != -1 - caller->statics || !call->slot[i].object) continue;
    pk_dtype wanted = kernel->operand[i].dtype;
    if ((int)wanted != find_dtype(call->slot[i].tensor.dtype))
      return refuse_dtype(call, i, dtypes[wanted].name), NULL;
  }
  return kernel;
}

/* ---- outputs */

/* Where NAME=N are sizes of the kernel, they are `given`, of all its sizes. */
static bool take_sizes(Call *call, const pk_kernel *kernel, int64_t *given) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  for (int i = 0; i < kernel->sizes; i++) given[i] = -1;
  while (call->sizes && PyDict_Next(call->sizes, &position, &key, &value)) {
    int i = 0;
    while (i < kernel->sizes && !is_name(key, kernel->size_name[i])) i++;
    if (i == kernel->sizes) {
      PyErr_Format(PyExc_TypeError, "%s: %U is not an operand or size, nor out or threads",
                   kernel->name, key);
      return false;
    }
    if (!take_size(call, key, value, &given[i])) return false;
  }
  return true;
}

/* A size that was given must agree with the sizes that determine it. */
static bool check_derived(const pk_kernel *kernel, const int64_t *given,
                          int64_t (*shapes)[PK_MAX_RANK]) {
  for (int i = kernel->inputs; i < kernel->operands; i++) {
    for (int axis = 0; axis < kernel->operand[i].rank; axis++) {
      int64_t at = -1 - kernel->operand[i].shape[axis], found = shapes[i - kernel->inputs][axis];
      if (at < kernel->bound || given[at] < 0 || given[at] == found) continue;
      PyErr_Format(PyExc_ValueError, "%s: %s=%lld, but the other sizes make it %lld", kernel->name,
                   kernel->size_name[at], (long long)given[at], (long long)found);
      return false;
    }
  }
  return true;
}

/* One that numpy.empty makes as well as helper.make does. */
static bool is_plain_result(Kind kind, int rank, const int64_t *shape, pk_dtype dtype) {
  int64_t bytes = dtypes[dtype].bytes;
  for (int i = 0; kind == KIND_JAX && i < rank && bytes < SMALL_RESULT; i++)
    if (__builtin_mul_overflow(bytes, shape[i], &bytes)) return false;
  return kind == KIND_NUMPY || (kind == KIND_JAX && bytes < SMALL_RESULT);
}

static bool make_array(Call *call, int index, const int64_t *shape, pk_dtype dtype) {
  Slot *slot = &call->slot[index];
  int rank = call->caller->operand[index].rank;
  PyObject *key = NULL, *array = NULL, *tuple = PyTuple_New(rank);
  for (int i = 0; tuple && i < rank; i++) PyTuple_SetItem(tuple, i, PyLong_FromLongLong(shape[i]));
  if (tuple) key = PyLong_FromLong((long)dtype);
  if (key && is_plain_result(call->kind, rank, shape, dtype)) {
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
  bool good = read_memory(call, index, array, true) && take_packed(call, index);
  Py_DECREF(array);
  set_bytes(slot);
  slot->kind = call->kind;
  return good;
}

/* An aliased operand without `out`: the kernel works on a copy. */
static bool copy_alias(Call *call, int index, int input) {
  Slot *from = &call->slot[input], *to = &call->slot[index];
  PyObject *array = PyObject_CallFunctionObjArgs(helper.copy, from->object, NULL);
  if (!array) return false;
  bool good = read_memory(call, index, array, true) && take_packed(call, index);
  Py_DECREF(array);
  if (!good) return false;
  set_bytes(to);
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

/* Makes the outputs that the caller did not give: copies of aliased inputs, new arrays otherwise.
 */
static bool make_outputs(Call *call, const pk_kernel *kernel, DLTensor **tensors) {
  const Caller *caller = call->caller;
  int64_t shape[MOST_OPERANDS][PK_MAX_RANK], small[32], *given = small;
  bool missing = call->sizes != NULL;
  for (int i = caller->inputs; i < caller->operands; i++) missing |= !call->slot[i].object;
  if (!missing) return true;
  if (kernel->sizes > 32) given = PyMem_Malloc(sizeof *given * (size_t)kernel->sizes);
  if (!given) return (void)PyErr_NoMemory(), false;
  bool good = take_sizes(call, kernel, given);
  pk_status status = good ? pk_output_shapes(NULL, kernel, tensors, given, shape) : PK_OK;
  good = good && (status != PK_OK || check_derived(kernel, given, shape));
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

/* What the caller gets for a slot that was made for it. */
static PyObject *finished(const Slot *slot, pk_dtype dtype) {
  PyObject *done = slot->kind == KIND_JAX ? small_array_of_jax(slot, dtype) : NULL;
  if (done || PyErr_Occurred()) return done;
  PyObject *kind = PyLong_FromLong((long)slot->kind), *number = PyLong_FromLong((long)dtype);
  if (kind && number)
    done = PyObject_CallFunctionObjArgs(helper.finish, kind, slot->object, number, NULL);
  Py_XDECREF(kind);
  Py_XDECREF(number);
  return done;
}

static PyObject *result(const Call *call, const pk_kernel *kernel, int index, bool given) {
  const Slot *slot = &call->slot[index];
  if (given || slot->kind == KIND_NUMPY || slot->kind == KIND_DLPACK || slot->kind == KIND_TORCH) {
    Py_INCREF(slot->object);
    return slot->object;
  }
  return finished(slot, kernel->operand[index].dtype);
}

static PyObject *results(const Call *call, const pk_kernel *kernel, const bool *given) {
  const int first = kernel->inputs, outputs = kernel->operands - first;
  if (outputs == 1) return result(call, kernel, first, given[first]);
  PyObject *tuple = PyTuple_New(outputs);
  for (int i = 0; tuple && i < outputs; i++) {
    PyObject *one = result(call, kernel, first + i, given[first + i]);
    if (!one || PyTuple_SetItem(tuple, i, one) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

/* ---- the call */

/* The default number of threads of a call on tensors of torch is at most torch's; 0: no limit. */
static bool find_limit(const Call *call, int *limit) {
  *limit = 0;
  if (call->kind != KIND_TORCH || call->threads || helper.torch_threads == Py_None) return true;
  PyObject *number = PyObject_CallFunctionObjArgs(helper.torch_threads, NULL);
  if (!number) return false;
  const long threads = PyLong_AsLong(number);
  Py_DECREF(number);
  if (threads == -1 && PyErr_Occurred()) return false;
  if (threads > 0 && threads <= MOST_THREADS) *limit = (int)threads;
  return true;
}

/* A whole call: arguments, the variant for them, outputs, and the kernel without the GIL. */
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
  int limit;
  if (!find_limit(call, &limit)) return NULL;
  pk_status status;
  Py_BEGIN_ALLOW_THREADS;
  if (call->threads) pk_context_set_threads(NULL, call->threads);
  if (limit) pk_context_limit_threads(NULL, limit);
  status = pk_call_kernel(NULL, kernel, tensors);
  if (limit) pk_context_limit_threads(NULL, 0);
  if (call->threads) pk_context_set_threads(NULL, 0);
  Py_END_ALLOW_THREADS;
  return status == PK_OK ? results(call, kernel, given) : raise_status(status);
}

static void begin(Call *call, Caller *caller) {
  call->caller = caller;
  call->kind = KIND_NUMPY;
  call->threads = 0;
  call->sizes = NULL;
  for (int i = 0; i < caller->operands; i++) {
    call->slot[i].object = call->slot[i].owner = NULL;
    call->slot[i].kind = KIND_NUMPY;
    call->slot[i].read_only = call->slot[i].in_bytes = false;
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

PyObject *Caller_call(PyObject *self, PyObject *args, PyObject *keywords) {
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
      if (extent < 0 && size[at] < 0) {
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
  int64_t shapes[MOST_OPERANDS][PK_MAX_RANK], size[MOST_SIZES];
  if (PyList_Size(inputs) != caller->inputs)
    return PyErr_Format(PyExc_TypeError, "%s: expected %d arrays, found %zd", caller->name,
                        caller->inputs, PyList_Size(inputs));
  for (int i = 0; i < caller->inputs; i++) {
    if (!read_shape(call, i, PyList_GetItem(inputs, i))) return NULL;
    tensors[i] = &call->slot[i].tensor;
  }
  const pk_kernel *kernel = find_variant(call);
  if (!kernel) return NULL;
  if (kernel->sizes > MOST_SIZES)
    return PyErr_Format(PyExc_ValueError, "%s has more than %d sizes", caller->name, MOST_SIZES);
  if (!take_sizes(call, kernel, size)) return NULL;
  if (kernel->prepare_from)
    return shapes_without_plan(call, kernel, size, shapes) ? planned(call, kernel, shapes) : NULL;
  pk_status status = pk_output_shapes(NULL, kernel, tensors, size, shapes);
  if (status != PK_OK) return raise_status(status);
  return check_derived(kernel, size, shapes) ? planned(call, kernel, shapes) : NULL;
}

PyObject *Caller_plan(PyObject *self, PyObject *args) {
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
