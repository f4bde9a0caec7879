/* pkc._core: calls compiled kernels with arrays of Python.
 *
 * A Caller knows a kernel's operands, and the variants of the kernel that were compiled so far, by
 * the values of the statics that are taken from the arrays. pkc.Kernel is derived from it.
 */
#include "core.h"

#include <dlfcn.h>

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

/* (name, dtype, alias, packed, (static or -1, ..)) */
static bool set_operand(Caller *caller, int index, PyObject *tuple) {
  Operand *operand = &caller->operand[index];
  PyObject *name, *axes;
  int packed;
  if (!PyArg_ParseTuple(tuple, "UiipO!", &name, &operand->dtype, &operand->alias, &packed,
                        &PyTuple_Type, &axes))
    return false;
  Py_ssize_t rank = PyTuple_Size(axes);
  bool valid = rank <= PK_MAX_RANK && operand->dtype < DTYPES &&
               operand->dtype >= -1 - caller->statics && operand->alias < caller->inputs;
  operand->rank = (int)rank;
  operand->packed = packed;
  for (int i = 0; valid && i < rank; i++) {
    operand->axis[i] = (int)PyLong_AsLong(PyTuple_GetItem(axes, i));
    valid = operand->axis[i] >= -1 && operand->axis[i] < caller->statics;
  }
  if (!valid && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "not an operand");
  return valid && (operand->name = copy_text(name));
}

/* Copies the names of statics and the description of operands from the arguments of the
 * constructor. */
static bool set_operands(Caller *caller, PyObject *statics, PyObject *operands) {
  Py_ssize_t count = PyTuple_Size(operands), names = PyTuple_Size(statics);
  if (count > MOST_OPERANDS || names > MOST_STATICS || caller->inputs < 0 ||
      caller->inputs > count) {
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
    PyTuple_SetItem(names, i, Py_BuildValue("ss", dtypes[i].name, dtypes[i].numpy));
  return names;
}

static PyObject *set_helpers(PyObject *module, PyObject *args) {
  (void)module;
  PyObject **places[] = {&helper.kinds,       &helper.kind_of,       &helper.numpy_dtypes,
                         &helper.torch_known, &helper.torch_threads, &helper.dtypes,
                         &helper.empty,       &helper.adapt,         &helper.make,
                         &helper.finish,      &helper.copy,          &helper.found,
                         &helper.scalar,      &helper.capsule,       &helper.put,
                         &helper.places,      &helper.jax_config};
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

/* A line of `print`, on any thread. */
static void print_line(const char *text) {
  if (!Py_IsInitialized()) {
    (void)fputs(text, stderr);
    return;
  }
  PyGILState_STATE state = PyGILState_Ensure();
  PySys_FormatStdout("%s", text);
  PyGILState_Release(state);
}

static PyMethodDef functions[] = {
    {"load", load, METH_VARARGS, "load(path, symbol): the address of a kernel"},
    {"version", version, METH_NOARGS, "the runtime's version"},
    {"processors", processors, METH_NOARGS, "how many processors the process may use"},
    {"dtype_names", dtype_names, METH_NOARGS,
     "the dtypes and what NumPy calls them, in the order of their numbers"},
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

PyMODINIT_FUNC PyInit__core(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&caller_spec) : NULL;
  bool good = type && prepare_arrays() && PyModule_AddObject(module, "Caller", type) == 0 &&
              PyModule_AddIntConstant(module, "SMALL_RESULT", SMALL_RESULT) == 0;
  if (good) pk_set_print(print_line);
  if (!good) Py_CLEAR(module);
  return module;
}
