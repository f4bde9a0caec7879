// From the block IR as lowered to Python for JAX Pallas. What the parts of the writer share.
#ifndef CODEGEN_PALLAS_INTERNAL_H
#define CODEGEN_PALLAS_INTERNAL_H

#include "codegen/ir/facts.h"

// Precedences of Python's operators, from those of dsl/operators.def, and between them.
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

// What Python knows of an instruction's value.
typedef struct {
  const char *text;    // an expression: the value, or the name it was given
  Precedence prec;     // of its outermost operator
  Type type;           // as JAX has it: the shape broadcasts to the instruction's
  bool host;           // a Python number: takes the dtype that it meets, and has no axes
  bool pending;        // not written yet: the text is what its only user will write
  const Region *home;  // where its only user is
  int uses, left;      // in the kernel; of those not yet met
  Interval bounds;     // of an integer: of its elements
  uint64_t reads;      // refs whose contents the text reads (bit id % 64)
  const char *right;   // of an INFIX: its right operand's text
} PyValue;

enum { PY_LINE = 96, PY_WIDTH = 120 };  // longer expressions are taken apart, longer lines broken

typedef struct {
  const char *name;
  const Instr *holder;  // NULL: keeps the name
  int scope;
} PyName;

// What is added at the ends of an array's axes, for copies that go past it, and for blocks of
// pipelines, which have to be whole; the text of what it holds, NULL: anything.
typedef struct {
  int64_t after[MAX_RANK], least[MAX_RANK];  // least: extent that copies need
  int64_t multiple[MAX_RANK];                // of what the extent becomes; 0: of nothing
  const char *filler;
} PyRoom;

// A pipeline around the current text.
typedef struct {
  const Instr *instr;
  const char *axis[MAX_RANK];
} PyPipeline;

typedef struct {
  Kernel *k;
  const PyPipeline *pipeline;  // NULL: none
  const char *function;        // its name, where a program calls it; NULL: the kernel's own
  const char ***callee_size;   // of a program, by callee: the names of its sizes
  Arena *arena;
  Diag *diag;
  Buf *out;
  int indent;
  LIST(PyName) names;  // taken, innermost last
  int scope;           // functions around the current text
  LIST(Instr *) pending;
  const char **size, **axis;  // by size, grid axis
  const char **ref;           // by ref: its name
  bool *is_carried;           // by ref: a var that is a Python value, not memory
  const char **var;  // by ref, then by depth of loops (its flag for `break`): the name now, NULL
                     // where it has no value yet
  int vars, loops;
  bool launch;            // index maps, extents, requirements: all in one expression
  bool map;               // of these, an index map
  PyRoom *room;           // by ref
  bool *may_grow;         // by ref: it may get room
  bool body;              // inside the kernel's function
  Interval *axis_bounds;  // by grid axis or variable
  bool *axis_used;        // by grid axis, in the body
  // helpers that are wanted; pads of windows with strides among them
  bool pads, strides, fills, windows;
} Py;

static inline PyValue *py(const Instr *instr) { return instr->note; }

// ---- text.c: names, lines, small texts
#define py_text(p, ...) arena_printf((p)->arena, __VA_ARGS__)
void py_line(Py *p, const char *format, ...) PRINTF_LIKE(2, 3);
// a free name, taken from now on
const char *py_name(Py *p, const char *base, const Instr *holder);
// one for a function that is called at once: not taken
const char *py_free_name(Py *p, const char *base);
void py_enter(Py *p);  // the body of a function begins, and ends
void py_leave(Py *p);
const char *py_dtype(DType dtype);  // jnp.float32
const char *py_dim(Py *p, Dim dim);
const char *py_list(Py *p, const char *const *items, int count);   // a, b, c
const char *py_tuple(Py *p, const char *const *items, int count);  // (a, b, c), (a,), ()
const char *py_shape(Py *p, const Type *type);                     // (8, N)
const char *py_quoted(Py *p, const char *text);
const char *py_number(Py *p, DType dtype, const Instr *constant);
const Type *py_whole_type(const Ref *ref);          // of the array that all devices have parts of
bool py_has_size(const Type *type, int size);       // as one of its axes?
bool py_is_filled(const Kernel *k, int size);       // above 0 wherever the kernel is called?
bool py_must_be_filled(const Kernel *k, int size);  // Pallas has no blocks of no elements
bool py_may_be_empty(const Kernel *k, const Ref *ref);
// no counterpart: an error
void py_fail(Py *p, Span span, const char *format, ...) PRINTF_LIKE(3, 4);

// ---- expr.c: values as expressions
void py_count_uses(Py *p, Region *region);  // gives every instruction its PyValue
bool py_is_choice(const Instr *v);  // an `if` between scalars without effects: an expression
void py_value(Py *p, Instr *v, const Region *here);
// its text, for a user that needs at least this precedence
const char *py_use(Py *p, Instr *v, Precedence least);
const char *py_exact(Py *p, Instr *v);  // an array of the very shape and dtype
void py_assign(Py *p, Instr *v, const char *base);
void py_flush(Py *p, uint64_t refs);  // writes what still reads these refs
// of a region of scalar expressions, in one expression
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
Instr *py_block_index(const Kernel *k, const Ref *ref, int axis);  // what the index map yields
// Does the index stay below dim, in elements, whatever the step is?
bool py_step_is_within(const Ref *block, const Instr *index, Dim dim);

// ---- file.c
void py_imports(Py *p);
void py_helpers(Py *p);
void py_signature(Py *p);
void py_sizes(Py *p);   // .. that follow from the arrays
void py_checks(Py *p);  // .. what the kernel requires of them
// The first input that has the size as an axis, or NULL.
const Ref *py_binding_input(const Kernel *k, int size);
const char *py_empty_output(Py *p, const Ref *ref);
void py_refuse_empty(Py *p);  // returns early, or raises, where an array has no elements

// ---- kernel.c
void py_start_kernel(Py *p);
void py_kernel_call(Py *p, const Buf *body);    // the kernel's body, and what launches it
const char *py_scratch(Py *p, const Ref *ref);  // pltpu.VMEM((8, 128), jnp.float32)
const char *py_map_entry(Py *p, const Ref *ref, int axis);  // of an index map, in the kernel's body

#endif
