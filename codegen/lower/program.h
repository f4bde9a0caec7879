// Shared by the files that lower programs.
#ifndef CODEGEN_LOWER_PROGRAM_H
#define CODEGEN_LOWER_PROGRAM_H

#include "codegen/ir/flow.h"
#include "codegen/lower/internal.h"

// The meaning of an array's name.
typedef struct {
  int array;
  bool var;          // calls may assign to it
  const char *into;  // the name of its contents after a call has updated it in place
  Span updated;      // the position of that call
} ArrayName;

// A kernel or program that was lowered for a call; `key` contains its statics and the known
// properties of its arguments.
typedef struct Lowered Lowered;
struct Lowered {
  const char *name, *key;
  Kernel *kernel;  // NULL: it has errors, which were reported
  Lowered *next;
};

typedef struct {
  Lower *l;
  Flow *flow;
  int loop;               // the step of the innermost FOR; -1: none
  LIST(ArrayName) names;  // by index of their symbols
  Lowered *lowered;       // kernels
  bool *assigned;         // by operand: a call assigns it
} ProgramLower;

// A result of a call: an existing array, or a new array with a name.
typedef struct {
  const Node *node;  // what is before `=`
  bool exists, bad;
  FlowPart part;  // if it exists
} Target;

// ---- program.c
void lower_program(Lower *l);
// The array to which a name refers as an argument; NULL, after reporting it, if there is none.
ArrayName *argument_name(ProgramLower *p, const Node *node);
int add_array(ProgramLower *p, const char *name, Span span, Type type);
void declare_array(ProgramLower *p, const Node *name, int array, bool var);
// The node of the array's name in an argument or target: x of x, x[l], reshape(x[l], [M, N]).
const Node *array_node(const Node *node);
// An array or a part of it, possibly reshaped.
bool lower_part(ProgramLower *p, const Node *node, int array, FlowPart *part);

// ---- program_call.c
void lower_kernel_call(ProgramLower *p, const Node *call, Target *targets, int count);
// The program's size that corresponds to a callee's, where `map` maps its sizes.
Dim map_dim(ProgramLower *p, const Kernel *callee, Dim dim, const Dim *map, Span span);
enum { DIM_UNKNOWN = INT64_MIN };
int add_callee(ProgramLower *p, Kernel *k);  // returns its number in the flow
void name_callees(ProgramLower *p);          // sets their function names in C

// ---- program_inline.c
// Replaces a call by the steps of the program k. False, after reporting it, if they do not fit.
bool inline_program(ProgramLower *p, const Kernel *k, const FlowPart *operands, const Dim *map,
                    Span span);
// Does a single call of the program k write the whole `output`, after all reads of `input`?
bool writes_last(const Kernel *k, int input, int output);

// ---- program_mesh.c
// How devices divide the arrays: derived from the operands and the calls, which must agree.
void place_arrays(ProgramLower *p);

// ---- compose.c
// The effect of the calls as a composition of the kernels' references; NULL if one has none, or if
// the number of calls is not constant.
Region *compose_reference(Lower *l);
// A copy of a region of index arithmetic, with sizes replaced.
Region *copy_index_region(Lower *l, const Region *region, const Dim *map);
// The results of a, then those of b.
Region *join_index_regions(Lower *l, const Region *a, const Region *b);

// ---- lower.c
// A kernel of the file with these settings; NULL, after reporting errors.
Kernel *lower_callee(Lower *l, const Node *node, const LowerOptions *options);

// ---- entries.c
const Node *find_top(const Node *file, NodeKind kind, const char *name);
const Node *find_kernel(const Node *file, const char *name);  // or program

#endif
