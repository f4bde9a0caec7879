// Python for JAX Pallas, from the block IR as lowered. Shared by the files of the writer.
#ifndef CODEGEN_PALLAS_INTERNAL_H
#define CODEGEN_PALLAS_INTERNAL_H

#include "codegen/ir/facts.h"

// Precedences of Python's operators, based on those of dsl/operators.def, with others in between.
#define PY_BINDS(precedence) (2 * (precedence))
typedef enum {
  PY_CHOICE = 0,
  PY_EITHER = PY_BINDS(2),
  PY_BOTH = PY_BINDS(3),
  PY_NOT = PY_BOTH + 1,
  PY_COMPARE = PY_BINDS(4),
  PY_OR = PY_BINDS(5),
  PY_XOR = PY_BINDS(6),
  PY_AND = PY_BINDS(7),
  PY_PLUS = PY_BINDS(9),
  PY_TIMES = PY_BINDS(10),
  PY_UNARY,
  PY_ATOM = PY_UNARY + 2
} Precedence;

// The Python text of an instruction's value.
typedef struct {
  const char *text;    // an expression: the value, or its name
  Precedence prec;     // of its outermost operator
  Type type;           // the type in JAX, whose shape broadcasts to the instruction's
  bool host;           // a Python number, which takes the dtype of its context and has no axes
  bool pending;        // not written yet, because its users will write it
  const Region *home;  // the region of its only user
  int uses, left;      // number of users in the kernel; number of users that are not written yet
  Interval bounds;     // for an integer: the bounds of its elements
  uint64_t reads;      // the refs that the text reads (bit id % 64)
  const char *right;   // for an INFIX: the text of its right operand
} PyValue;

enum { PY_LINE = 96, PY_WIDTH = 120 };  // longer expressions are split, longer lines are broken

typedef struct {
  const char *name;
  const Instr *holder;  // NULL: keeps the name
  int scope;
} PyName;

// The padding of an array's axes, for copies that exceed it, and for blocks of pipelines, which
// must be whole; the text of the value it contains, NULL: arbitrary.
typedef struct {
  int64_t after[MAX_RANK], least[MAX_RANK];  // least: the extent that copies need
  int64_t multiple[MAX_RANK];                // a divisor of the padded extent; 0: none
  const char *filler;
} PyPadding;

// A pipeline around the current text.
typedef struct {
  const Instr *instr;
  const char *axis[MAX_RANK];
} PyPipeline;

typedef struct {
  Kernel *k;
  const PyPipeline *pipeline;  // NULL: none
  const char *function;        // its name, if a program calls it; NULL: the kernel's own
  const char ***callee_size;   // of a program, by callee: the names of its sizes
  Arena *arena;
  Diag *diag;
  Buf *out;
  int indent;
  LIST(PyName) names;  // names in use, the innermost last
  int scope;           // number of functions around the current text
  LIST(Instr *) pending;
  const char **size, **axis;  // by size, grid axis
  const char **ref;           // by ref: its name
  bool *is_carried;           // by ref: a var that is a Python value, not memory
  const char **var;  // by ref, then by depth of loops (its flag for `break`): the current name,
                     // NULL if it has no value yet
  int vars, loops;
  bool launch;            // index maps, extents, requirements: everything is one expression
  bool map;               // within these, an index map
  PyPadding *padding;     // by ref
  bool *may_grow;         // by ref: it may be padded
  bool body;              // inside the kernel's function
  Interval *axis_bounds;  // by grid axis or variable
  bool *axis_used;        // by grid axis, in the body
  // the helpers that are used, among them pads of windows with strides
  bool pads, strides, fills, windows;
} Py;

static inline PyValue *py(const Instr *instr) { return instr->note; }

// ---- text.c: names, lines, small texts
#define py_text(p, ...) arena_printf((p)->arena, __VA_ARGS__)
void py_line(Py *p, const char *format, ...) PRINTF_LIKE(2, 3);
// a free name, which is now in use
const char *py_name(Py *p, const char *base, const Instr *holder);
// a free name for a function that is called at once, so that it remains free
const char *py_free_name(Py *p, const char *base);
void py_enter(Py *p);  // begins and ends the body of a function
void py_leave(Py *p);
const char *py_dtype(DType dtype);  // jnp.float32
const char *py_dim(Py *p, Dim dim);
const char *py_list(Py *p, const char *const *items, int count);   // a, b, c
const char *py_tuple(Py *p, const char *const *items, int count);  // (a, b, c), (a,), ()
const char *py_shape(Py *p, const Type *type);                     // (8, N)
const char *py_quoted(Py *p, const char *text);
const char *py_number(Py *p, DType dtype, const Instr *constant);
const Type *py_whole_type(const Ref *ref);          // of the array whose parts the devices have
bool py_has_size(const Type *type, int size);       // is it one of its axes?
bool py_is_filled(const Kernel *k, int size);       // is it above 0 in every call?
bool py_must_be_filled(const Kernel *k, int size);  // Pallas has no empty blocks
const Ref *py_empty_ref(const Kernel *k);           // a ref that has none in every call, or NULL
bool py_may_be_empty(const Kernel *k, const Ref *ref);
// reports an error, because there is no counterpart
void py_fail(Py *p, Span span, const char *format, ...) PRINTF_LIKE(3, 4);

// ---- expr.c: values as expressions
void py_count_uses(Py *p, Region *region);  // gives every instruction its PyValue
// an `if` between scalars without effects, which is an expression
bool py_is_choice(const Instr *v);
void py_value(Py *p, Instr *v, const Region *here);
// its text, for a user that requires at least this precedence
const char *py_use(Py *p, Instr *v, Precedence least);
const char *py_exact(Py *p, Instr *v);  // an array of exactly this shape and dtype
void py_assign(Py *p, Instr *v, const char *base);
void py_flush(Py *p, uint64_t refs);  // writes the pending texts that read these refs
// a region of scalar expressions as one expression
const char *py_yielded(Py *p, Region *region, int index);

// ---- memory.c: windows of refs
void py_load(Py *p, Instr *v);
void py_store(Py *p, Instr *v);
void py_copy(Py *p, Instr *v);
void py_semaphore(Py *p, Instr *v);

// ---- body.c: statements
void py_region(Py *p, Region *region, int from);

// ---- pipeline.c
bool py_writes_pipelines(const Kernel *k);  // each as pltpu.emit_pipeline?
void py_pipeline(Py *p, Instr *v);
const char *py_step_axis(const Py *p, const Instr *v);
Instr *py_block_index(const Kernel *k, const Ref *ref, int axis);  // the result of the index map
// Does the index stay below dim, in elements, in every step?
bool py_step_is_within(const Ref *block, const Instr *index, Dim dim);

// ---- file.c
void py_imports(Py *p);
void py_helpers(Py *p);
void py_signature(Py *p);
void py_sizes(Py *p);   // the sizes that follow from the arrays
void py_checks(Py *p);  // the kernel's requirements
// The first input that has the size as an axis, or NULL.
const Ref *py_binding_input(const Kernel *k, int size);
const char *py_empty_output(Py *p, const Ref *ref);
void py_refuse_empty(Py *p);  // returns early, or raises, if an array has no elements

// ---- kernel.c
void py_start_kernel(Py *p);
void py_kernel_call(Py *p, const Buf *body);    // the kernel's body, and its launch
const char *py_scratch(Py *p, const Ref *ref);  // pltpu.VMEM((8, 128), jnp.float32)
const char *py_map_entry(Py *p, const Ref *ref,
                         int axis);  // an index map's entry, in the kernel's body

#endif
