// Right operands of byte products that are fields of bytes: weights of a few bits, several
// to a byte.
//
// Each element of such an operand is computed from one byte, and the operand is a few fields of
// these bytes, however the kernel writes it: shifts, masks, subtractions, concatenated or
// interleaved. The dot then reads the bytes, and the micro-kernel takes the fields out of vectors
// of them (include/pk/dot/fields.h).
#include "codegen/ir/scalar.h"
#include "codegen/loops/loops.h"

#include <string.h>

enum { VALUES = 256, DEEPEST = 16, MOST_ELEMENTS = 256, MOST_BITS = 7 };

// An element of the operand: a constant (value[0]), or a function of one byte (value[b] for byte
// b).
typedef struct {
  const Instr *bytes;  // in memory; NULL: a number
  int64_t at;          // index of the byte along the last axis
  int64_t value[VALUES];
} Element;

// ---- an element as a function of a byte

typedef struct {
  Gen *g;
  const Expr *leading[MAX_RANK];  // indices along all axes but the last
  int leads;
} Where;

static bool is_in_memory(const Instr *v) {
  while (v->op == OP_RESHAPE && splits_axes(v) && is_transparent(v)) v = v->args[0];
  return v->op == OP_LOAD && is_transparent(v) && v->nargs == v->ref->type.rank &&
         !v->window.squeeze[v->nargs - 1] && v->window.stride[v->nargs - 1] == 1;
}

static bool is_byte_there(const Where *where, const Instr *v, const Expr *const *at, Element *e) {
  const DType t = v->type.dtype;
  bool there = v->type.rank == where->leads + 1 && is_byte(t) && is_in_memory(v) &&
               expr_is_const(at[where->leads], &e->at);
  for (int i = 0; there && i < where->leads; i++) there = at[i] == where->leading[i];
  if (!there) return false;
  e->bytes = v;
  for (int b = 0; b < VALUES; b++) e->value[b] = wrap_int(t, b);
  return true;
}

static bool find_element(const Where *where, const Instr *v, const Expr *const *at, int depth,
                         Element *e);

static bool find_moved(const Where *where, const Instr *v, const Expr *const *at, int depth,
                       Element *e) {
  const Expr *from[MAX_RANK];
  AxisMap map;
  if (!ir_axis_map(v, &map)) return false;
  operand_index(where->g, v, &map, at, from);
  return find_element(where, v->args[0], from, depth, e);
}

static bool find_in_part(const Where *where, const Instr *v, const Expr *const *at, int depth,
                         Element *e) {
  const Expr *from[MAX_RANK];
  int64_t index;
  if (!expr_is_const(at[v->ival], &index)) return false;
  memcpy(from, at, sizeof from);
  for (int part = 0; part < v->nargs; part++) {
    const Dim extent = v->args[part]->type.dim[v->ival];
    if (!dim_is_const(extent)) return false;
    if (index < extent) {
      from[v->ival] = number(where->g, index);
      return find_element(where, v->args[part], from, depth, e);
    }
    index -= extent;
  }
  return false;
}

static bool find_computed(const Where *where, const Instr *v, const Expr *const *at, int depth,
                          Element *e) {
  enum { MOST_ARGS = 3 };
  Element arg[MOST_ARGS];
  if (v->nargs > MOST_ARGS || op_info[v->op].class == OPC_SELECT) return false;
  e->bytes = NULL;
  for (int i = 0; i < v->nargs; i++) {
    if (!find_element(where, v->args[i], at, depth, &arg[i])) return false;
    if (e->bytes && arg[i].bytes && (e->bytes != arg[i].bytes || e->at != arg[i].at)) return false;
    if (arg[i].bytes) e->bytes = arg[i].bytes, e->at = arg[i].at;
  }
  for (int b = 0; b < (e->bytes ? VALUES : 1); b++) {
    Scalar operands[MOST_ARGS];
    for (int i = 0; i < v->nargs; i++) operands[i].i = arg[i].value[arg[i].bytes ? b : 0];
    e->value[b] = scalar_apply(v->op, v->type.dtype, v->args[0]->type.dtype, operands).i;
  }
  return true;
}

static bool find_element(const Where *where, const Instr *v, const Expr *const *at, int depth,
                         Element *e) {
  if (depth == 0 || !is_integer(v->type.dtype)) return false;
  if (is_byte_there(where, v, at, e)) return true;
  e->bytes = NULL;
  if (v->op == OP_CONST) return e->value[0] = v->ival, true;
  if (v->op == OP_IOTA)
    return expr_is_const(at[v->ival], &e->value[0]) &&
           e->value[0] == wrap_int(v->type.dtype, e->value[0]);
  if (v->op == OP_CONCAT) return find_in_part(where, v, at, depth - 1, e);
  if (op_is_elementwise(v->op)) return find_computed(where, v, at, depth - 1, e);
  return find_moved(where, v, at, depth - 1, e);
}

// ---- fields

typedef struct {
  int bits, first;
  int64_t flip, bias;
} Field;

// Is the value of each byte (its field ^ flip) - bias?
static bool is_field(const int64_t *value, const Field *f) {
  for (int b = 0; b < VALUES; b++)
    if (value[b] != ((b >> f->first & ((1 << f->bits) - 1)) ^ f->flip) - f->bias) return false;
  return true;
}

static bool find_field(const Element *e, Field *f) {
  int64_t least = e->value[0], most = e->value[0];
  for (int b = 1; e->bytes && b < VALUES; b++) {
    if (e->value[b] < least) least = e->value[b];
    if (e->value[b] > most) most = e->value[b];
  }
  for (f->bits = 1; f->bits <= MOST_BITS && (most - least) >> f->bits; f->bits++) continue;
  f->bias = -least;
  f->flip = e->value[0] - least;
  for (f->first = 0; f->bits <= MOST_BITS && f->first + f->bits <= 8; f->first++)
    if (e->bytes && is_field(e->value, f)) return true;
  return false;
}

// The element along k for each field of each byte; -1: none.
typedef struct {
  int64_t element[MOST_ELEMENTS][8];
  int64_t bytes;
  int first, last;  // bits at which the first and the last field start
} Order;

// Are the elements in steps, so that each field of each byte is one of them?
static bool in_steps(const Order *o, int64_t count, Fields *f) {
  f->first = o->first;
  f->fields = (o->last - o->first) / f->bits + 1;
  if (o->bytes * f->fields != count || (o->last - o->first) % f->bits) return false;
  f->k_first = o->element[0][o->first];
  f->k_byte = o->bytes > 1 ? o->element[1][o->first] - f->k_first : 1;
  f->k_field = f->fields > 1 ? o->element[0][o->first + f->bits] - f->k_first : 0;
  for (int64_t b = 0; b < o->bytes; b++)
    for (int i = 0; i < f->fields; i++)
      if (o->element[b][o->first + i * f->bits] != f->k_first + b * f->k_byte + i * f->k_field)
        return false;
  return true;
}

static void note_place(Order *o, int64_t byte, int first, int64_t element) {
  for (; o->bytes <= byte; o->bytes++) memset(o->element[o->bytes], -1, sizeof o->element[0]);
  o->element[byte][first] = element;
  if (first < o->first) o->first = first;
  if (first > o->last) o->last = first;
}

// The bytes whose fields are the elements of v along its last axis; NULL: they are not fields.
static const Instr *bytes_of(Gen *g, const Instr *v, Fields *f) {
  const Dim count = v->type.dim[v->type.rank - 1];
  const Expr *at[MAX_RANK];
  Where where = {.g = g, .leads = v->type.rank - 1};
  Order order = {.first = 8};
  Element e;
  Field first = {0}, field;
  const Instr *bytes = NULL;
  if (!dim_is_const(count) || count < 2 || count > MOST_ELEMENTS || is_in_memory(v)) return NULL;
  for (int i = 0; i < where.leads; i++)
    at[i] = where.leading[i] = expr_symbol(&g->exprs, text(g, "%%%d", i));
  for (int64_t k = 0; k < count; k++) {
    at[where.leads] = number(g, k);
    if (!find_element(&where, v, at, DEEPEST, &e) || !find_field(&e, &field)) return NULL;
    if (k == 0) bytes = e.bytes, first = field;
    if (e.bytes != bytes || e.at >= MOST_ELEMENTS || field.bits != first.bits ||
        field.flip != first.flip || field.bias != first.bias)
      return NULL;
    note_place(&order, e.at, field.first, k);
  }
  f->bits = first.bits, f->flip = first.flip, f->bias = first.bias;
  return in_steps(&order, count, f) ? bytes : NULL;
}

// ---- dots

// Are the bytes of the left operand contiguous along k?
static bool has_left(const MatrixProduct *s) {
  return is_byte(s->a->type.dtype) && s->k == s->a->type.rank - 1 && !is_row_scalar(s->a) &&
         (is_in_memory(s->a) || !is_transparent(s->a));
}

static void find_dot(Instr *v, void *context) {
  Gen *g = context;
  if (v->op != OP_DOT || v->type.rank < 3 || dtype_bytes(v->type.dtype) != 4) return;
  const MatrixProduct s = matrix_product(v);
  if (!s.plain || is_float(v->type.dtype) || !has_left(&s)) return;
  if (!is_byte(s.b->type.dtype) || s.k2 != s.b->type.rank - 1) return;
  Fields *f = NEW(g->arena, Fields);
  const Instr *bytes = bytes_of(g, s.b, f);
  if (!bytes || val(bytes)->region != val(v)->region) return;
  val(v)->dot.fields = f;
  v->args[v->args[0] != s.b] = (Instr *)bytes;
}

void find_fields(Gen *g) {
  ir_walk(g->k->body, find_dot, g);
  find_users_again(g);
}

static void note_fields(Instr *v, void *context) {
  if (v->op == OP_DOT && val(v)->dot.fields) *(bool *)context = true;
}

bool uses_fields(const Kernel *k) {
  bool found = false;
  ir_walk(k->body, note_fields, &found);
  return found;
}
