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
  // Of a temporary: the steps from the first to the last during which it holds something.
  int first, last;
  // How devices divide it, as shard of a Ref has it, and where that was said.
  int8_t shard[MAX_RANK][MOST_MESH_AXES];
  bool placed;
  Span placed_at;
  int spare;  // another temporary of this type, with which it changes places in a call that reads
              // and writes it; -1: there is none
} FlowArray;

// What a call gets for one operand: an array, or a part of it that `index` chooses.
typedef struct {
  int array;
  int leading;    // axes, from the first, that are squeezed
  Region *index;  // yields a position for each of them; NULL: leading is 0
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
  // FOR, and the END of one. The variable is AXIS `variable` of the regions inside.
  const char *name;
  int variable;
  Region *bounds;  // yields the first value and the end
  int mate;        // the END, the FOR
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
  // Why the references of the callees do not make one of the program, and where; NULL: they do, or
  // the program has its own.
  const char *uncomposed;
  Span uncomposed_at;
} Flow;

static inline bool flow_is_temporary(const Kernel *k, int array) {
  return array >= k->inputs + k->outputs;
}
// The array in whose memory it is: an aliased output is its input.
int flow_root(const Kernel *k, int array);
// What the argument in a part's place has for a type: without the leading axes, or reshaped.
Type flow_part_type(const Flow *flow, const FlowPart *part);
// Sets first and last of the temporaries.
void flow_find_lives(Flow *flow);

// ---- for given sizes

// One call: the step it is, and the variables of the loops around it.
typedef struct {
  Kernel *k;
  const int64_t *sizes;
  const FlowStep *step;
  const int64_t *variables;
} FlowIteration;

// Calls visit for each call in order, as long as it returns true.
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
// An index of a program by the language's operators, or where there is a prefix in C, by the
// functions PREFIXadd(a, b) and so on; `name` gives the text of SIZE and AXIS.
typedef const char *FlowName(const Instr *instr, void *context);
const char *flow_expression(Arena *arena, const Instr *instr, const char *prefix, FlowName *name,
                            void *context);
// Can flow_expression write it?
bool flow_is_plain(const Region *region);

#endif
