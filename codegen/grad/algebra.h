// How values change with a point that moves.
#ifndef CODEGEN_GRAD_ALGEBRA_H
#define CODEGEN_GRAD_ALGEBRA_H

#include "codegen/grad/internal.h"

// How a value changes when the points before and after a step move by d; by[i] is the share of
// point i. Each element of a point moves on its own: axis[i] is 1 + the axis of the point that axis
// i of the value runs along, or 0 if all elements along it change alike.
typedef enum { UNKNOWN, ADDED, SCALED } Change;
typedef struct {
  Change kind;  // by * d is added to it, or it is multiplied by e^(by * d)
  double by[2];
  int8_t axis[MAX_RANK];
} Class;

typedef struct {
  const Instr *moved;   // the point
  Class move;           // the class of its move
  const Class *of;      // by ref: the class of its loads; NULL: they do not change
  Instr *const *added;  // by ref: what is added to a sum, which its class holds for; or NULL
  Class *known;         // by id
  bool *seen;           // by id
} Algebra;

Algebra new_algebra(const Kernel *k);
Class class_of(Algebra *a, const Instr *v);
// The class of a point that moves along those axes, as bits.
Class point_class(Change kind, int when, const Type *type, int64_t axes);
// Is it scaled by moves of point `when`, each element by those of the same element of the point?
bool scales_with(const Class *c, const Type *type, int when, const Class *point, const Type *of);
bool is_fixed(Class c);
bool same_class(Class a, Class b);
Class as(Change kind, Class c);  // the class if it changes that way; a fixed one does in any
const Instr *bare(const Instr *v);
bool is_positive(const Instr *v);  // made of exponentials and constants that are not negative
// Does the value move nothing that the reference yields, stores or branches on? Then its gradient
// is 0. ids: the number of ids.
bool moves_nothing(Algebra *a, int ids, const Region *region, const Instr *v);

#endif
