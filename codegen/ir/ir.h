// The block IR: a kernel as SSA over N-d values, with regions for control flow and refs in memory
// spaces.
//
// The interpreter, traces and the TPU model read it, and the passes rewrite it. ops.def lists the
// operations; text.c prints the text form and read.c reads it; verify.c holds the rules. Uses no
// other folder than dsl; every folder uses it.
#ifndef CODEGEN_IR_IR_H
#define CODEGEN_IR_IR_H

#include "dsl/diag.h"
#include "dsl/types.h"

typedef enum {
  OPC_LEAF,
  OPC_UNARY,
  OPC_PREDICATE,
  OPC_BINARY,
  OPC_COMPARE,
  OPC_SELECT,
  OPC_TERNARY,
  OPC_CAST,
  OPC_SHAPE,
  OPC_REDUCE,
  OPC_ARGREDUCE,
  OPC_SCAN,
  OPC_DOT,
  OPC_MEMORY,
  OPC_CONTROL
} OpClass;

typedef enum {
#define OP(id, name, class, nargs, domain, attribute, moves, effect, exactness, meaning) OP_##id,
#include "codegen/ir/ops.def"
  OP_COUNT
} Op;

// The dtypes that an operation is defined on: BITS are integers and bool.
typedef enum { DOMAIN_ANY, DOMAIN_NUMBERS, DOMAIN_FLOATS, DOMAIN_INTEGERS, DOMAIN_BITS } Domain;

// The attribute of an instruction, in addition to its arguments.
typedef enum {
  ATTR_NONE,
  ATTR_VALUE,
  ATTR_AXIS,
  ATTR_AXES,
  ATTR_SIZE,
  ATTR_GRID_AXIS,
  ATTR_MESH_AXIS,
  ATTR_REF,
  ATTR_WINDOW,
  ATTR_COPY,
  ATTR_SEMAPHORE,
  ATTR_PERMUTATION,
  ATTR_SLICE,
  ATTR_PAD,
  ATTR_LABELS,
  ATTR_IF,
  ATTR_FOR,
  ATTR_WHILE,
  ATTR_SCOPED,
  ATTR_PIPELINE,
  ATTR_TEXT,
  ATTR_NAMED,
  ATTR_PRINT
} Attribute;

// The axes along which a result element needs operand elements of another index: `ival`, those of
// the mask `ival`, those that a SLICE or PAD changes.
typedef enum { MOVES_NOTHING, MOVES_AXIS, MOVES_AXES, MOVES_MAP, MOVES_ALL } Moves;

// The effect of an instruction in addition to its result. READS: it returns data that another
// instruction wrote. ACTS: it changes memory, control or the outside, so it is kept even if its
// result is unused.
typedef enum { EFFECT_NONE, EFFECT_READS, EFFECT_ACTS } Effect;

// A float result: elements of operands or of memory, with all their bits; exact; rounded once; or
// with an error of its own.
typedef enum { RESULT_MOVED, RESULT_EXACT, RESULT_ROUNDED, RESULT_INEXACT } Exactness;

typedef struct {
  const char *name;
  OpClass class;
  int nargs;
  Domain domain;
  Attribute attribute;
  Moves moves;
  Effect effect;
  Exactness exactness;
  const char *meaning;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];

// How errors grow through an operation: ops.def.
typedef enum { BOUND_NONE, BOUND_MONOTONE, BOUND_STEPS, BOUND_OWN, BOUND_CHOICE } BoundKind;

// The b with a op b = a: for floats -0.0 if 0 is not neutral; for integers only; all bits; the
// extremes of the dtype, including infinities.
typedef enum {
  NEUTRAL_NONE,
  NEUTRAL_ZERO,
  NEUTRAL_MINUS_ZERO,
  NEUTRAL_ONE,
  NEUTRAL_INTEGER_ONE,
  NEUTRAL_ONES,
  NEUTRAL_LEAST,
  NEUTRAL_GREATEST
} Neutral;

// Laws of an elementwise operation.
typedef enum {
  COMMUTES = 1,
  IDEMPOTENT = 2,    // a op a = a
  INVOLUTION = 4,    // op op a = a
  ZERO_OF_ZERO = 8,  // for integers: 0 if an operand is 0
  WRAPS = 16,        // for integers: the exact result may need more bits than the operands have
  DIVIDES = 32,      // divides by b; for integers the quotient by 0 is defined
  CLOSED = 64,       // an exact result never needs more bits than the operands have
  BY_WIDTH = 128,    // for integers: the result depends on the width of the dtype
  PLAIN = 8192,  // equal to the operator of C and Python with its spelling; if it DIVIDES, only for
                 // floats
  OF_NARROW = 16384,  // the vector layer has a form of it for floats of 16 bits and fewer
  CHEAP = 256,        // one instruction of a CPU
  IF_LESS = 512,      // a comparison is true where a < b
  IF_EQUAL = 1024,
  IF_GREATER = 2048,
  IF_UNORDERED = 4096  // an operand is a NaN
} Law;

// The further columns of an elementwise operation; all 0 for operations with a row OP.
typedef struct {
  const char *c;  // its name in C in binary64
  BoundKind bound;
  Neutral neutral;
  unsigned laws;
  const char *spelling;
  const char *jax;
  double vector, transcendental;
  const char *instead;
} ElementInfo;
extern const ElementInfo element_info[OP_COUNT];
extern const Op fold_operation[OP_COUNT];  // the repeated operation of a row FOLD
static inline bool op_has(Op op, Law law) { return element_info[op].laws & law; }
Op op_by_name(const char *name);  // OP_COUNT when there is none
// UNARY .. CAST: result element (i..) needs only operand elements (i..)
bool op_is_elementwise(Op op);
bool op_takes(Op op, DType dtype);  // as its first operand
bool op_has_result(Op op);          // IF has one or not
static inline bool op_acts(Op op) { return op_info[op].effect == EFFECT_ACTS; }
static inline bool op_is_dma(Op op) {
  return op >= OP_MOVE && op <= OP_SEM_READ;
}  // a copy or an operation on a semaphore

typedef struct Instr Instr;
typedef struct Ref Ref;
typedef struct HostArray HostArray;  // codegen/ir/array.h

// A list of instructions run in order. A region with results ends in YIELD. `arg` is the ARG
// instruction of a region of FOR or PIPELINE.
typedef struct {
  LIST(Instr *) instrs;
  Instr *arg;
} Region;

// Which part of a ref a LOAD or STORE touches: along axis k, size[k] elements from start arg k,
// stride[k] apart. A squeezed axis has size 1 and is absent from the value's shape. Where
// `length[k]`, which only the two windows of a copy have, size[k] is 1 and an argument of the copy
// gives the number of elements (ir_length). A start is clamped so that the window is within the
// ref. Under a mask, or with INSTR_OPEN, it is not: lanes outside the ref read `other`, or are not
// stored.
typedef struct {
  Dim size[MAX_RANK];
  int64_t stride[MAX_RANK];
  bool squeeze[MAX_RANK], length[MAX_RANK];
} Window;

// A view of a ref: steps, each applied to the result of the previous one, with the type of its
// result. The starts of windows are arguments of the copy.
typedef enum { CHAIN_WINDOW, CHAIN_BITCAST, CHAIN_RESHAPE, CHAIN_TRANSPOSE } ChainKind;
enum { CHAIN_KINDS = CHAIN_TRANSPOSE + 1 };
extern const char *const chain_names[CHAIN_KINDS];
typedef struct {
  ChainKind kind;
  Type type;
  Window window;  // without lengths
  int perm[MAX_RANK];
} ChainStep;
typedef struct {
  int count;
  const ChainStep *at;
} Chain;

enum { DOT_LABELS = 16 };  // labels of one DOT are 0 .. DOT_LABELS-1

// The precision of a DOT of f32 (ival), by the names of lax.Precision. A bf16 matrix unit uses one
// product for DEFAULT, three for HIGH, six for HIGHEST. NONE: the exact product of f32, as for
// HIGHEST.
typedef enum {
  PRECISION_NONE,
  PRECISION_DEFAULT,
  PRECISION_HIGH,
  PRECISION_HIGHEST,
  PRECISIONS
} Precision;
extern const char *const precision_names[PRECISIONS];  // "" for NONE

// The arithmetic for products of f32 in a body. F32: exact. HIGH: three products of bf16, if their
// precision is `default` or `high`. TPU: as a bf16 matrix unit computes them; one product if no
// precision is given.
typedef enum { NUMERICS_F32, NUMERICS_HIGH, NUMERICS_TPU } Numerics;
// The number of products of bf16 that replace a product of f32, 1 or 3; 0: none.
int bf16_products(Numerics numerics, Precision precision);
// The relative error of a factor of f32 that is represented by its parts in bf16, for that number
// of products.
double bf16_lost(int products);

// Flags. REVERSE also means descending. EDGE: elements of a copy past either end are omitted,
// without a finding. OPEN: lanes of a load without a mask may be outside the ref, or in the target
// of a copy in progress; they are unspecified, without a finding.
enum { INSTR_MASKED = 1, INSTR_OTHER = 2, INSTR_REVERSE = 4, INSTR_EDGE = 8, INSTR_OPEN = 16 };

struct Instr {
  Op op;
  int id;  // unique in the kernel, %id in text
  unsigned flags;
  Type type;  // dtype DT_COUNT: no result
  Span span;  // in the .pk source
  int nargs;
  Instr **args;
  Region *regions[2];
  int64_t ival;
  double fval;
  const char *text;
  Ref *ref;
  Window window;  // LOAD, STORE; COPY, REMOTE: of the source `ref`
  // COPY_START, COPY_WAIT, REMOTE_START; the semaphore also of SEM_SIGNAL, REMOTE_SIGNAL, SEM_WAIT,
  // SEM_READ
  Ref *target, *semaphore;
  Ref *receive;  // REMOTE_START: the semaphore of the other device
  Window target_window;
  const Chain *chain,
      *target_chain;  // of copies: the views whose windows are copied; NULL: the refs themselves
  int64_t ints[MAX_RANK], ints2[MAX_RANK];  // TRANSPOSE, SLICE, PAD
  struct {
    int8_t a[MAX_RANK], b[MAX_RANK], out[MAX_RANK];
  } labels;    // DOT: the label of each axis
  void *note;  // data of the current pass
};

// STATE: a var of the reference, which only its LOADs and STOREs access.
typedef enum { REF_INPUT, REF_OUTPUT, REF_SCRATCH, REF_VAR, REF_STATE } RefRole;

enum { MOST_MESH_AXES = 4, MOST_DEVICES = 1024 };

// The unit of a semaphore: bytes that DMAs have moved, or signals; a barrier is shared by all
// cores.
typedef enum { SEM_DMA, SEM_REGULAR, SEM_BARRIER } SemaphoreKind;
extern const char *const semaphore_names[];

// A ref of the body. Operands also say how their array is cut into blocks: array axis k has
// block[k] elements a block; squeezed axes are absent from `type`.
struct Ref {
  const char *name;
  int id;  // index in Kernel.refs; of a STATE in Kernel.states
  RefRole role;
  Space space;
  Type type;             // the block as the body sees it
  const Type *declared;  // the type in the source, if a pass has changed it, which the VMEM budget
                         // counts; else NULL
  Span span;             // where it is declared
  // SPACE_SEM: its unit; its type gives the number of semaphores (dtype i32)
  SemaphoreKind semaphore;
  Instr *scope;  // scratch: the SCOPED or PIPELINE it lives in; NULL: all of the kernel
  Ref *operand;  // block of a PIPELINE: its operand. Then array, block, squeeze, at, pad
                 // and buffers are as for an operand; the PIPELINE yields its index
  // operands, and blocks of a PIPELINE
  Type array;  // the whole array; of a kernel with a mesh, that of all devices together
  // For a mesh, along axis k: the mesh axes that divide it, the first one slowest, as 1 + their
  // numbers (0: no more), and the number of parts; 0 or 1: it is not divided.
  int8_t shard[MAX_RANK][MOST_MESH_AXES];
  int64_t parts[MAX_RANK];
  bool packed;          // operand: elements of the array share bytes; those of a block never do
  const Type *all;      // the whole type, after ir_take_parts has set `array` to a device's part;
                        // otherwise NULL
  Dim block[MAX_RANK];  // extent of a block along each array axis (1 where squeezed)
  bool squeeze[MAX_RANK];
  AtMode at;  // AT_BLOCK: the map gives block indices; AT_ELEMENT, AT_SLICE: element offsets
  // Yields one i64 per array axis, for AT_SLICE then one length per axis. Holds SIZE, AXIS, EXTENT,
  // LOADs of elements of prefetched operands, and pure scalar ops.
  Region *index_map;
  Span map_span;
  bool has_pad;
  Instr *pad;                 // CONST of the array's dtype
  int64_t halo[MAX_RANK][2];  // AT_ELEMENT: how far a block may start before 0, end past the array;
                              // -1: no bound given
  bool whole;                 // one block that is the whole array
  bool prefetch;  // input in SMEM, all of it, before the grid starts: extents and index maps may
                  // read it
  const HostArray *prefetched;  // `prefetched`: its elements while a run is being bound; else NULL
  int buffers;   // blocks in VMEM at once: 2 by default, 1 if the block does not move
  bool revisit;  // output: any step may return to a block, whose contents are then fetched again
  Ref *alias;    // output: the input it shares memory with
};

// A run-time size. Bound: the extent of axis `axis` of operand `operand`. Derived (an operand's
// shape is an expression such as E + 1, or cdiv(N, 2)): `value` computes it from earlier sizes; the
// operand's axis is checked against it.
typedef struct {
  const char *name;
  Span span;
  Region *value;
  // For a size that an array gives: it is factor * size[solved - 1] + constant, from which that
  // size is derived. solved 0: no such size.
  int solved;
  int64_t factor, constant;
} Size;

// The size that users know for size i, which an array gives: itself, or the one that is solved from
// it.
static inline int size_by_name(const Size *sizes, int i) {
  return sizes[i].solved ? sizes[i].solved - 1 : i;
}

typedef struct {
  const char *name;
  Span span;
  Region *extent;
  bool parallel;         // declared, or proved
  bool proved;           // it was declared arbitrary, and made parallel by passes/axes.c
  const char *in_order;  // why there is no proof; NULL: there is one, or none was tried
} GridAxis;
// Devices are numbered in row-major order of their indices along the axes of the mesh.
typedef struct {
  const char *name;
  Span span;
  int64_t extent;
} MeshAxis;
typedef struct {
  Span span;
  Region *condition;
  const char *message;
} Requirement;
typedef struct {
  const char *name, *value;
} StaticValue;  // the bound values, for messages and the comment of the generated header

typedef struct Kernel Kernel;
struct Kernel {
  Arena *arena;
  const Source *source;
  const char *name;
  const char *symbol;  // of its function in C: names.h
  Span span;
  LIST(Size) sizes;
  LIST(Ref *) refs;     // operands in the order of the signature, then scratch and vars
  LIST(Ref *) states;   // vars of the reference
  int inputs, outputs;  // refs.at[0..inputs) are inputs, then `outputs` outputs
  LIST(GridAxis) grid;
  LIST(MeshAxis) mesh;  // none: one device
  LIST(Requirement) requires;
  LIST(StaticValue) statics;
  int64_t vmem_limit;  // bytes; 0: the default
  bool keep_blocks;    // passes leave blocks as they are declared
  bool one_row;        // contiguous arrays may be treated as one row (elementwise.c)
  Region *body;        // one grid step: FETCHes, the body, WRITEBACKs
  Region *reference;   // whole-array meaning: yields one value per output; NULL when there is none
  double lost;         // the relative error of a factor of f32 in a product in parts (--numerics)
  struct Flow *flow;   // of a program: the calls it makes instead of the body (flow.h); else NULL
  int next_id;
};

enum { VMEM_LIMIT_DEFAULT = 128 << 20, MOST_BUFFERS = 64 };
#define VMEM_UNLIMITED ((int64_t)1 << 48)  // a vmem_limit for kernels that only a CPU runs

// ---- building and reading

Region *ir_region(Kernel *k);
// not yet in a region
Instr *ir_new(Kernel *k, Op op, Type type, Span span, int nargs, Instr *const *args);
// A copy with its own id and arguments, in no region.
Instr *ir_copy(Kernel *k, const Instr *v);
// By Ref.id: blocks of inputs in VMEM that no output shares memory with, and that the body neither
// stores to nor copies to or from.
const bool *ir_fixed_inputs(const Kernel *k);
Instr *ir_append(Kernel *k, Region *region, Instr *instr);  // returns instr
// new + append; args: Instr *
Instr *ir_add(Kernel *k, Region *region, Op op, Type type, Span span, int nargs, ...);
Instr *ir_add_list(Kernel *k, Region *region, Op op, Type type, Span span, int nargs, va_list args);
Instr *ir_const_int(Kernel *k, Region *region, DType dtype, int64_t value, Span span);
// The extent of an axis as an i64.
Instr *ir_extent(Kernel *k, Region *region, Dim dim, Span span);
Instr *ir_const_float(Kernel *k, Region *region, DType dtype, double value, Span span);
bool ir_is_const(const Instr *instr, int64_t value);  // an integer or bool CONST of that value
// LOAD, STORE: all of the ref along this axis, stride 1, start constant 0
bool ir_window_covers(const Instr *instr, int axis);
// LOAD, STORE: the same along every axis
bool ir_window_is_full(const Instr *instr);
// LOAD, STORE: the window is provably in bounds along this axis
bool ir_axis_is_inside(const Instr *instr, int axis);
// The start of a window, clamped so that the window is on its axis; `start` if an extent is not a
// constant
int64_t ir_moved_in(int64_t start, Dim dim, Dim size, int64_t stride);
// LOAD, STORE: the window is within the ref from no other start along this axis than 0
bool ir_starts_at_zero(const Instr *instr, int axis);
// LOAD, STORE: the window is not clamped and may leave the ref
bool ir_may_leave(const Instr *instr);
int ir_line(const Kernel *k, Span span);            // the line of the source where it starts
int ir_operand(const Kernel *k, const char *name);  // its index; -1: there is none
// The constant that is every element of the value, through broadcasts and reshapes; NULL: none.
const Instr *ir_filling(const Instr *v);
Instr *ir_yielded(const Region *region, int k);  // result k of a region with results
// Does it only compute? It changes no memory, and its only control flow is `if` with a value.
bool ir_is_pure(const Region *region);
// does its value depend on the index of that grid axis?
bool ir_uses_axis(const Instr *instr, int64_t axis);
// Is `axis` parallel, with more than one step, and not in the index map of the output? Then each of
// its cells has its own block, and that of the last index is written back.
bool ir_ignores_axis(const Kernel *k, const Ref *output, int axis);
bool ir_ignores_any_axis(const Kernel *k, const Ref *output);
bool ir_any_packed(const Kernel *k);
static inline bool has_result(const Instr *instr) { return instr->type.dtype != DT_COUNT; }
// Do two shapes have the same number of elements for all sizes? Sizes that are products (2 * M) are
// expanded.
bool ir_same_elements(const Kernel *k, const Type *a, const Type *b);
// False if they provably differ; otherwise a `require` relates the sizes.
bool ir_may_have_same_elements(const Kernel *k, const Type *a, const Type *b);
Instr *ir_store_value(const Instr *store);  // the value argument of a STORE
// Does a bitcast turn one into the other? An element of a wider dtype is several rows of a narrower
// one along the second-last axis.
bool ir_same_bits(const Type *a, const Type *b);
// The dtype of the elements of a LOAD or STORE: that of its ref, or for a narrow float the unsigned
// integer with its bits.
DType ir_access_dtype(const Instr *access);
bool ir_may_hold(const Ref *ref, DType dtype);  // may it be that?
// The number of elements of a copy's window along an axis, if an argument gives it; otherwise NULL.
// These arguments are the last ones, and never negative.
Instr *ir_length(const Instr *copy, const Window *window, int axis);
int ir_length_count(const Instr *copy);
// Is it a copy of views, or between dtypes?
bool ir_copies_views(const Instr *copy);
Instr *ir_mask(const Instr *instr);  // of a masked LOAD or STORE, else NULL
// The views or refs of a copy's windows, and the arguments that are the starts of both.
const Type *ir_seen(const Ref *ref, const Chain *chain);
Instr *const *ir_starts(const Instr *copy, bool target);
// The number of arguments of a chain that begins at a value of that type.
int ir_chain_starts(const Type *of, const Chain *chain);
Instr *const *ir_chain_args(const Instr *copy, bool target);
// The index arguments of a semaphore op or copy, after those of its windows.
Instr *const *ir_semaphore_index(const Instr *instr);
Instr *const *ir_receive_index(const Instr *instr);  // REMOTE_START: the same for `receive`
// A cast of a float to an integer of up to 32 bits: rounding may decide which one it is.
bool ir_is_rounded_integer(const Instr *instr);
// REMOTE_START, REMOTE_SIGNAL: the index of the other device along each mesh axis
Instr *const *ir_device_index(const Instr *instr);
int64_t ir_device_count(const Kernel *k);  // 1 without a mesh
// After this, each operand's array is the device's local part.
void ir_take_parts(Kernel *k);
void ir_take_whole(Kernel *k);  // undoes that
static inline const Type *ir_all(const Ref *operand) {
  return operand->all ? operand->all : &operand->array;
}
static inline bool op_starts_copy(Op op) {
  return op == OP_COPY_START || op == OP_REMOTE_START || op == OP_MOVE;
}
// SEM_SIGNAL, REMOTE_SIGNAL, SEM_WAIT: how much is added or taken
Instr *ir_amount(const Instr *instr);
// The type of a window of a value or block of this type; squeezed axes are dropped.
Type ir_window_type(const Type *type, const Window *window);
static inline bool ref_is_operand(const Ref *r) {
  return r->role == REF_INPUT || r->role == REF_OUTPUT;
}

// Calls `visit` for each instruction of a region, and for nested ones after the instruction that
// contains them.
void ir_walk(Region *region, void (*visit)(Instr *instr, void *context), void *context);

// ---- text (pkc -di prints it; `pkc test` and the tests read it back)
void ir_print(const Kernel *k, Buf *out);
// Reads what ir_print wrote. NULL, with diag filled, when it is not well formed.
Kernel *ir_parse(Arena *arena, const Source *source, Diag *diag);

// ---- the rules of the IR. Returns NULL when they hold, else a message (in the kernel's arena)
// that names the instruction.
const char *ir_verify(Kernel *k);

// ---- pipeline.c: replaces each PIPELINE by the copies, loops and scratch that define it. The
// interpreter and all passes but the first see only that form.
void ir_expand_pipelines(Kernel *k);
int ir_block_index(const Kernel *k,
                   const Ref *block);  // the index of the first of its entries among the values
                                       // that the maps yield

// ---- dot.c
// matrices: [M, K] x [K, N], whose operands may be transposed; plain: in a form that the
// micro-kernel accepts.
typedef struct {
  Instr *a, *b;
  bool a_transposed, b_transposed, matrices, plain;
} DotShape;
DotShape dot_shape(const Instr *dot);
// Casts operands of different dtypes to one that represents both, in the body and in the reference.
// The interpreter, the naive reference and the passes after this one, up to narrow.c, require equal
// dtypes, except i8 with u8.
void ir_unmix_dots(Kernel *k);
bool ir_is_mixed_dot(const Instr *v);  // does ir_unmix_dots cast its operands?
DType ir_dot_dtype(const Instr *dot);  // the dtype that the operands of a mixed dot are cast to

#endif
