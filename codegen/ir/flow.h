// A program: calls of kernels, in order, on whole arrays and on parts of them. Its operands, sizes,
// requirements and reference are those of a Kernel, whose `flow` is not NULL; the body is empty.
#ifndef CODEGEN_FLOW_H
#define CODEGEN_FLOW_H

#include "codegen/ir/array.h"
#include "codegen/ir/ir.h"

// An array: the first ones are the operands, in the order of the signature, then the temporaries.
typedef struct {
  const char *name;
  Span span;
  Type type;
  bool packed;  // an operand whose elements share bytes
  int loop;     // the step of the innermost FOR around its declaration; -1: none
  // For a temporary: the first and the last step during which it is live.
  int first, last;
  // How devices divide it, in the form of Ref.shard, and where that was declared.
  int8_t shard[MAX_RANK][MOST_MESH_AXES];
  bool placed;
  Span placed_at;
  int spare;  // another temporary of this type, with which it is exchanged in a call that reads
              // and writes it; -1: there is none
} FlowArray;

// The argument of a call for one operand: an array, or the part of it at `index`.
typedef struct {
  int array;
  int leading;    // axes, from the first, that are squeezed
  Region *index;  // yields a position for each leading axis; NULL: leading is 0
  bool reshaped;  // to `shape`, in row-major order
  Type shape;
  Span span;
} FlowPart;

typedef enum { FLOW_CALL, FLOW_FOR, FLOW_END } FlowKind;

typedef struct {
  FlowKind kind;
  Span span;
  int loop;  // the step of the innermost FOR around it; -1: none
  // CALL
  int callee;
  FlowPart *parts;  // one an operand of the callee
  // FOR, and the END of one. The loop variable is AXIS `variable` in the regions inside.
  const char *name;
  int variable;
  Region *bounds;  // yields the first value and the end
  int mate;        // the END of a FOR, or the FOR of an END
} FlowStep;

// A kernel with its statics bound.
typedef struct {
  Kernel *kernel;
} FlowCallee;

typedef struct Flow {
  LIST(FlowArray) arrays;
  LIST(FlowStep) steps;
  LIST(FlowCallee) callees;
  int variables;
  // Why the program's reference cannot be composed of those of the callees, and where; NULL: it
  // can, or the program has its own.
  const char *uncomposed;
  Span uncomposed_at;
} Flow;

static inline bool flow_is_temporary(const Kernel *k, int array) {
  return array >= k->inputs + k->outputs;
}
// The array whose memory it uses: for an aliased output, its input.
int flow_root(const Kernel *k, int array);
// The type of a part as an argument: without the leading axes, or reshaped.
Type flow_part_type(const Flow *flow, const FlowPart *part);
// Sets first and last of the temporaries.
void flow_find_lives(Flow *flow);

// ---- for given sizes

// One call: its step, and the values of the loop variables.
typedef struct {
  Kernel *k;
  const int64_t *sizes;
  const FlowStep *step;
  const int64_t *variables;
} FlowIteration;

// Calls `visit` for each call in order, until it returns false.
typedef bool FlowVisit(const FlowIteration *iteration, void *context);
void flow_walk(Kernel *k, const int64_t *sizes, FlowVisit *visit, void *context);
// The shape of a part, and its first element in the array. NULL, or why it is refused.
const char *flow_part(const FlowIteration *iteration, int operand, HostArray *shape,
                      int64_t *element);
// The sizes of the callee, derived ones included (in the arena of the program). NULL, or why the
// call is refused.
const char *flow_callee_sizes(const FlowIteration *iteration, int64_t **sizes);
// All calls. NULL, or why the program is refused.
const char *flow_check(Kernel *k, const int64_t *sizes);
// "l=3", or NULL outside of loops
const char *flow_iteration_text(const FlowIteration *iteration);

void flow_print(const Kernel *k, Buf *out);    // temporaries and steps
void flow_explain(const Kernel *k, Buf *out);  // the same, under a title
// "(d, _)": how devices divide an array
void flow_print_shard(const Kernel *k, const int8_t (*shard)[MOST_MESH_AXES], int rank, Buf *out);
void flow_print_call(const Kernel *k, const FlowStep *step, Buf *out);
// Writes an index of a program with the language's operators or, if there is a prefix, in C with
// the functions PREFIXadd(a, b) and so on; `name` returns the text of SIZE and AXIS.
typedef const char *FlowName(const Instr *instr, void *context);
const char *flow_expression(Arena *arena, const Instr *instr, const char *prefix, FlowName *name,
                            void *context);
// Can flow_expression write it?
bool flow_is_plain(const Region *region);

#endif
