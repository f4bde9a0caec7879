// What the files that lower programs share.
#ifndef CODEGEN_LOWER_PROGRAM_H
#define CODEGEN_LOWER_PROGRAM_H

#include "codegen/ir/flow.h"
#include "codegen/lower/internal.h"

// What a name of an array refers to.
typedef struct {
  int array;
  bool var;          // calls may assign to it
  const char *into;  // a call has updated it in place: what its contents are called now
  Span updated;      // .. where
} ArrayName;

// A kernel or program that was lowered for a call; `key` tells statics and what is known of the
// arguments.
typedef struct Lowered Lowered;
struct Lowered {
  const char *name, *key;
  Kernel *kernel;  // NULL: with errors, which were reported
  Lowered *next;
};

typedef struct {
  Lower *l;
  Flow *flow;
  int loop;               // the step of the innermost FOR; -1: none
  LIST(ArrayName) names;  // by index of their symbols
  Lowered *lowered;       // kernels
  bool *assigned;         // by operand: some call gives it a value
} ProgramLower;

// A result of a call: something that exists, or a new array of a name.
typedef struct {
  const Node *node;  // what is before `=`
  bool exists, bad;
  FlowPart part;  // when it exists
} Target;

// ---- program.c
void lower_program(Lower *l);
// The array that a name refers to as an argument; NULL, reported, when there is none.
ArrayName *argument_name(ProgramLower *p, const Node *node);
int add_array(ProgramLower *p, const char *name, Span span, Type type);
void declare_array(ProgramLower *p, const Node *name, int array, bool var);
// The node of the array's name in an argument or target: x of x, x[l], reshape(x[l], [M, N]).
const Node *array_node(const Node *node);
// An array or a part of it, perhaps reshaped.
bool lower_part(ProgramLower *p, const Node *node, int array, FlowPart *part);

// ---- program_call.c
void lower_kernel_call(ProgramLower *p, const Node *call, Target *targets, int count);
// The program's size that a callee's is when its sizes are `map`.
Dim map_dim(ProgramLower *p, const Kernel *callee, Dim dim, const Dim *map, Span span);
enum { DIM_UNKNOWN = INT64_MIN };
int add_callee(ProgramLower *p, Kernel *k);  // its number in the flow
void name_callees(ProgramLower *p);          // their functions in C

// ---- program_inline.c
// Replaces a call by the steps of the program k. False, reported, when they do not fit.
bool inline_program(ProgramLower *p, const Kernel *k, const FlowPart *operands, const Dim *map,
                    Span span);
// Is one call of the program k what writes all of `output`, after all that read `input`?
bool writes_last(const Kernel *k, int input, int output);

// ---- program_mesh.c
// How devices divide the arrays: as the operands say, and the calls; these agree.
void place_arrays(ProgramLower *p);

// ---- compose.c
// What the calls do by the references of their kernels; NULL where one has none, or where the
// number of calls is not constant.
Region *compose_reference(Lower *l);
// A copy of a region of index arithmetic, with sizes replaced.
Region *copy_index_region(Lower *l, const Region *region, const Dim *map);
// What a yields, then what b yields.
Region *join_index_regions(Lower *l, const Region *a, const Region *b);

// ---- lower.c
// A kernel of the file, with these settings; NULL, reported.
Kernel *lower_callee(Lower *l, const Node *node, const LowerOptions *options);

// ---- entries.c
const Node *find_top(const Node *file, NodeKind kind, const char *name);
const Node *find_kernel(const Node *file, const char *name);  // or program

#endif
