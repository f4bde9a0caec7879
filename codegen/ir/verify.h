// The verifier of the block IR, shared by its files.
#ifndef CODEGEN_IR_VERIFY_H
#define CODEGEN_IR_VERIFY_H

#include "codegen/ir/ir.h"

// The instructions that a region may contain.
typedef enum { PLACE_SIZE, PLACE_LAUNCH, PLACE_MAP, PLACE_BODY, PLACE_REFERENCE } CodePlace;

typedef struct {
  Kernel *k;
  const char *message;  // the first violated rule
  Instr **visible;      // by id: values that may be used here
  bool *seen;           // by id
  bool *open;           // by id: a SCOPED or PIPELINE around the current instruction
  const Instr **owner;  // by id, of an ARG: the FOR or PIPELINE
  CodePlace place;
  int size_limit;  // sizes below this number may be used
  int loops;       // loops around the current instruction, inside this region tree
} Verifier;

// Notes the first violated rule.
void verify_fail(Verifier *v, const Instr *instr, const char *format, ...) PRINTF_LIKE(3, 4);
#define RULE(condition, ...) ((condition) ? (void)0 : verify_fail(v, instr, __VA_ARGS__))

// verify_values.c
bool is_scalar(const Instr *instr, DType dtype);
bool same_type(const Type *a, const Type *b);
bool valid_dim(const Verifier *v, Dim dim);
void verify_type(Verifier *v, const Instr *instr, const Type *type);
void verify_elementwise(Verifier *v, const Instr *instr);
void verify_shape_op(Verifier *v, const Instr *instr);
void verify_reduce(Verifier *v, const Instr *instr);
void verify_scan(Verifier *v, const Instr *instr);
void verify_dot(Verifier *v, const Instr *instr);

// verify_memory.c
bool known_ref(const Verifier *v, const Ref *ref);
void verify_memory(Verifier *v, const Instr *instr);

#endif
