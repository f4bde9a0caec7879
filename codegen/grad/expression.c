// Values as expressions of the language.
#include "codegen/grad/text.h"
#include "codegen/ir/axes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget_pending(Writer *w, const Instr *v) {
  int kept = 0;
  for (int i = 0; i < w->pending.count; i++)
    if (w->pending.at[i] != v) w->pending.at[kept++] = w->pending.at[i];
  w->pending.count = kept;
}

static const char *in_parentheses(Writer *w, const char *text, int binds, int least) {
  return binds >= least ? text : word_text(w, "(%s)", text);
}

const char *used(Writer *w, Instr *v, int least) {
  Word *x = word(v);
  if (x->pending) {
    x->pending = false;
    forget_pending(w, v);
  }
  return in_parentheses(w, x->text, x->binds, least);
}

// ---- shapes

static const char *dim_text(Writer *w, Dim dim) {
  return dim_is_const(dim) ? word_text(w, "%lld", (long long)dim) : w->size[dim_size_index(dim)];
}

const char *dims_text(Writer *w, const Type *type) {
  const char *text = "[";
  for (int i = 0; i < type->rank; i++)
    text = word_text(w, "%s%s%s", text, i ? ", " : "", dim_text(w, type->dim[i]));
  return word_text(w, "%s]", text);
}

static const char *size_text(Writer *w, Dim dim) {
  const char *text = dim_text(w, dim);
  for (const char *c = text; *c; c++)
    if (*c == ' ') return word_text(w, "(%s)", text);
  return text;
}

// ---- constants

// The shortest text that rounds to the same number of the dtype.
static const char *float_text(Writer *w, DType dtype, double value) {
  char digits[40];
  if (value != value) return "nan";
  if (value - value != 0) return value < 0 ? "-inf" : "inf";
  for (int n = 1; dtype != DT_F64 && n < 9; n++) {
    snprintf(digits, sizeof digits, "%.*g", n, value);
    double shorter = strtod(digits, NULL);
    if ((float)shorter == (float)value) return format_double(w->arena, shorter);
  }
  return format_double(w->arena, value);
}

static void compose_constant(Writer *w, const Instr *v) {
  Word *x = word(v);
  if (v->type.dtype == DT_BOOL)
    x->text = v->ival ? "true" : "false";
  else if (is_float(v->type.dtype))
    x->text = float_text(w, v->type.dtype, v->fval);
  else
    x->text = word_text(w, "%lld", (long long)v->ival);
  x->number = true;
  if (x->text[0] == '-') x->binds = BINDS_UNARY;
}

// A constant with a dtype.
static const char *strong(Writer *w, Instr *v) {
  const char *text = used(w, v, BINDS_LEAST);
  if (!word(v)->number || v->type.dtype == DT_BOOL) return text;
  return word_text(w, "cast(%s, %s)", text, dtype_info[v->type.dtype].name);
}

const char *exact(Writer *w, Instr *v) {
  const char *text = used(w, v, BINDS_LEAST), *dtype = dtype_info[v->type.dtype].name;
  if (word(v)->number && v->type.rank)
    return word_text(w, "full(%s, %s, dtype = %s)", dims_text(w, &v->type), text, dtype);
  if (type_same_shape(&word(v)->type, &v->type)) return strong(w, v);
  return word_text(w, "broadcast(%s, %s)", text, dims_text(w, &v->type));
}

// ---- elementwise

static void join_types(const Instr *v, Type *out) {
  for (int a = 0; a < v->nargs; a++) {
    const Type *type = &word(v->args[a])->type;
    int rank = type->rank > out->rank ? type->rank : out->rank;
    Type joined = {.dtype = out->dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
      int p = i - (rank - out->rank), q = i - (rank - type->rank);
      Dim left = p < 0 ? 1 : out->dim[p], right = q < 0 ? 1 : type->dim[q];
      joined.dim[i] = left == 1 ? right : left;
    }
    *out = joined;
  }
}

static bool all_numbers(const Instr *v, int from) {
  for (int i = from; i < v->nargs; i++)
    if (!word(v->args[i])->number) return false;
  return true;
}

static const char *operand(Writer *w, const Instr *v, int i, int least) {
  const int from = v->op == OP_SELECT;
  bool weak = all_numbers(v, from) && i == from && v->args[i]->type.dtype != DT_I64;
  return weak ? strong(w, v->args[i]) : used(w, v->args[i], least);
}

typedef struct {
  const char *spelling;
  int binds;
} Spelling;

static const Spelling *spelling_of(const Instr *v) {
  static const struct {
    Op op;
    Spelling spelling;
  } rows[] = {
#define BINARY(id, text, precedence, operation) {OP_##operation, {text, precedence}},
#include "dsl/operators.def"
#undef BINARY
  };
  const Spelling *found = NULL;
  bool bools = v->args[0]->type.dtype == DT_BOOL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == v->op && (!found || bools)) found = &rows[i].spelling;
  return found;
}

static void compose_call(Writer *w, Instr *v, const char *name) {
  const char *text = word_text(w, "%s(", name);
  for (int i = 0; i < v->nargs; i++)
    text = word_text(w, "%s%s%s", text, i ? ", " : "", operand(w, v, i, BINDS_LEAST));
  word(v)->text = word_text(w, "%s)", text);
}

// floordiv(a + c - 1, c), as lowering writes it.
static bool compose_cdiv(Writer *w, const Instr *v) {
  const Instr *sum = v->args[0], *divisor = v->args[1];
  if (v->op != OP_FLOORDIV || v->type.rank || !w->inlined || divisor->op != OP_CONST ||
      sum->op != OP_ADD || !ir_is_const(sum->args[1], divisor->ival - 1))
    return false;
  word(v)->text =
      word_text(w, "cdiv(%s, %lld)", word(sum->args[0])->text, (long long)divisor->ival);
  return true;
}

static void compose_elementwise(Writer *w, Instr *v) {
  Word *x = word(v);
  if (compose_cdiv(w, v)) return;
  const Spelling *s = v->nargs == 2 ? spelling_of(v) : NULL;
  x->type.rank = 0;
  join_types(v, &x->type);
  x->number = v->type.dtype == DT_I64 && all_numbers(v, 0);
  if (s) {
    bool compares = op_info[v->op].class == OPC_COMPARE;
    const char *left = operand(w, v, 0, s->binds + compares);
    x->text = word_text(w, "%s %s %s", left, s->spelling, operand(w, v, 1, s->binds + 1));
    x->binds = s->binds;
  } else if (v->op == OP_NEG || v->op == OP_NOT) {
    const char *sign = v->op == OP_NEG ? "-" : v->type.dtype == DT_BOOL ? "!" : "~";
    x->text = word_text(w, "%s%s", sign, operand(w, v, 0, BINDS_UNARY + 1));
    x->binds = BINDS_UNARY;
  } else {
    compose_call(w, v, v->op == OP_SELECT ? "where" : op_info[v->op].name);
  }
}

static void compose_cast(Writer *w, Instr *v) {
  Word *x = word(v);
  x->type = type_as(word(v->args[0])->type, v->type.dtype);
  const char *from = v->op == OP_BITCAST ? exact(w, v->args[0]) : used(w, v->args[0], BINDS_LEAST);
  if (v->op == OP_BITCAST) x->type = v->type;
  x->text = word_text(w, "%s(%s, %s)", op_info[v->op].name, from, dtype_info[v->type.dtype].name);
}

// ---- moving elements

static bool drops_reduced(const Instr *v) {
  const Instr *sum = v->args[0];
  int kept = 0;
  if (op_info[sum->op].class != OPC_REDUCE || !word(sum)->pending) return false;
  for (int i = 0; i < sum->type.rank; i++)
    if (!(sum->ival >> i & 1) && (kept >= v->type.rank || v->type.dim[kept++] != sum->type.dim[i]))
      return false;
  return kept == v->type.rank;
}

// One index of an axis that the result does not have.
static bool is_index(const Instr *v) {
  const Instr *part = v->args[0];
  if (part->op != OP_WINDOW || !word(part)->pending || part->type.dim[part->ival] != 1)
    return false;
  bool same = v->type.rank == part->type.rank - 1;
  for (int i = 0; same && i < v->type.rank; i++)
    same = v->type.dim[i] == part->type.dim[i + (i >= part->ival)];
  return same;
}

static void compose_reshape(Writer *w, Instr *v) {
  if (is_index(v)) {
    used(w, v->args[0], BINDS_LEAST);
    word(v)->text = word(v->args[0])->element;
    return;
  }
  if (drops_reduced(v)) {
    const char *sum = exact(w, v->args[0]);
    word(v)->text = word_text(w, "%.*s, keep = false)", (int)strlen(sum) - 1, sum);
    return;
  }
  const char *whole = exact(w, v->args[0]);
  word(v)->text = word_text(w, "reshape(%s, %s)", whole, dims_text(w, &v->type));
}

static const char *ints_text(Writer *w, const int64_t *ints, int count) {
  const char *text = "(";
  for (int i = 0; i < count; i++)
    text = word_text(w, "%s%s%lld", text, i ? ", " : "", (long long)ints[i]);
  return word_text(w, count == 1 ? "%s,)" : "%s)", text);
}

static const char *slice_axis(Writer *w, const Instr *v, int i) {
  long long start = v->ints[i], step = v->ints2[i];
  Dim from = v->args[0]->type.dim[i], size = v->type.dim[i];
  if (start == 0 && step == 1 && size == from) return ":";
  if (step > 1 && !dim_is_const(size)) return word_text(w, "%lld::%lld", start, step);
  if (!dim_is_const(size)) return word_text(w, "%lld:%lld + %s", start, start, size_text(w, size));
  long long stop = size ? start + (size - 1) * step + 1 : start;
  const char *first = start ? word_text(w, "%lld", start) : "";
  return step > 1 ? word_text(w, "%s:%lld:%lld", first, stop, step)
                  : word_text(w, "%s:%lld", first, stop);
}

static const char *indexed(Writer *w, Instr *v) {
  const char *text = exact(w, v);
  bool atom = word(v)->binds == BINDS_ATOM || text != word(v)->text;
  return atom ? text : word_text(w, "(%s)", text);
}

static void compose_slice(Writer *w, Instr *v) {
  const char *text = word_text(w, "%s[", indexed(w, v->args[0]));
  for (int i = 0; i < v->type.rank; i++)
    text = word_text(w, "%s%s%s", text, i ? ", " : "", slice_axis(w, v, i));
  word(v)->text = word_text(w, "%s]", text);
}

static bool follows_from_sizes(const Instr *v) {
  bool does = v->op == OP_SIZE || v->op == OP_CONST || op_is_elementwise(v->op);
  for (int i = 0; does && i < v->nargs; i++) does = follows_from_sizes(v->args[i]);
  return does;
}

static const char *window_axis(Writer *w, Instr *start, Dim size) {
  if (dim_is_const(size))
    return word_text(w, "ds(%s, %lld)", used(w, start, BINDS_LEAST), (long long)size);
  const char *from = used(w, start, 9);
  return word_text(w, "%s:%s + %s", from, from, size_text(w, size));
}

static void compose_window(Writer *w, Instr *v) {
  Instr *start = v->args[1];
  const char *whole = indexed(w, v->args[0]), *before = "", *after = "";
  bool sliced = dim_is_const(v->type.dim[v->ival]) || follows_from_sizes(start);
  for (int i = 0; i < v->type.rank; i++)
    if (i < v->ival)
      before = word_text(w, "%s%s, ", before, sliced ? ":" : "0");
    else if (i > v->ival)
      after = word_text(w, "%s, %s", after, sliced ? ":" : "0");
  if (sliced) {
    const char *axis = window_axis(w, start, v->type.dim[v->ival]);
    word(v)->element = word_text(w, "%s[%s%s%s]", whole, before, word(start)->text, after);
    word(v)->text = word_text(w, "%s[%s%s%s]", whole, before, axis, after);
    return;
  }
  const char *at = used(w, start, BINDS_LEAST);
  const char *comma = v->type.rank == 1 ? "," : "";
  word(v)->text = word_text(w, "dynamic_slice(%s, (%s%s%s%s), %s)", whole, before, at, after, comma,
                            dims_text(w, &v->type));
}

static void compose_pad(Writer *w, Instr *v) {
  const char *whole = exact(w, v->args[0]), *text = "(";
  for (int i = 0; i < v->type.rank; i++)
    text = word_text(w, "%s%s(%lld, %lld)", text, i ? ", " : "", (long long)v->ints[i],
                     (long long)v->ints2[i]);
  text = word_text(w, v->type.rank == 1 ? "%s,)" : "%s)", text);
  word(v)->text =
      word_text(w, "pad(%s, %s, value = %s)", whole, text, used(w, v->args[1], BINDS_LEAST));
}

static void compose_concat(Writer *w, Instr *v) {
  const char *text = "concatenate(";
  for (int i = 0; i < v->nargs; i++) text = word_text(w, "%s%s, ", text, exact(w, v->args[i]));
  word(v)->text = word_text(w, "%saxis = %lld)", text, (long long)v->ival);
}

// An index for each axis of a gather: its vectors, whose axis comes first if a slice is between
// them.
static void compose_gather(Writer *w, Instr *v) {
  const char *text = word_text(w, "%s[", indexed(w, v->args[0]));
  int axes[MAX_RANK], next = 0;
  const int count = ir_indexed_axes(v, axes), first = axes[0];
  for (int k = 0; k < v->args[0]->type.rank; k++) {
    const bool named = next < count && axes[next] == k;
    text = word_text(w, "%s%s%s", text, k ? ", " : "", named ? exact(w, v->args[1 + next]) : ":");
    next += named;
  }
  text = word_text(w, "%s]", text);
  int64_t back[MAX_RANK];
  for (int k = 0; k < v->type.rank; k++) back[k] = k < first ? k + 1 : k == first ? 0 : k;
  if (axes[count - 1] - first >= count && first > 0)
    text = word_text(w, "transpose(%s, %s)", text, ints_text(w, back, v->type.rank));
  word(v)->text = text;
}

// ---- axes

static const char *axes_text(Writer *w, const Instr *v) {
  int64_t axes[MAX_RANK];
  int count = 0;
  for (int i = 0; i < v->args[0]->type.rank; i++)
    if (v->ival >> i & 1) axes[count++] = i;
  if (count == 1) return word_text(w, "%lld", (long long)axes[0]);
  return ints_text(w, axes, count);
}

static void compose_axis(Writer *w, Instr *v) {
  const OpClass class = op_info[v->op].class;
  const char *text = exact(w, v->args[0]);
  bool sorts = v->op == OP_SORT || v->op == OP_ARGSORT;
  for (int i = 1; i < v->nargs; i++)
    text = word_text(w, "%s, %s", text,
                     v->op == OP_ROLL ? used(w, v->args[i], BINDS_LEAST) : exact(w, v->args[i]));
  const char *axis =
      class == OPC_REDUCE ? axes_text(w, v) : word_text(w, "%lld", (long long)v->ival);
  const char *flag = !(v->flags & INSTR_REVERSE) ? ""
                     : sorts                     ? ", descending = true"
                                                 : ", reverse = true";
  word(v)->text = word_text(w, "%s(%s, axis = %s%s)", op_info[v->op].name, text, axis, flag);
}

static const char *labels_text(Writer *w, const int8_t *labels, int rank) {
  const char *text = "";
  for (int i = 0; i < rank; i++) text = word_text(w, "%s%c", text, 'a' + labels[i]);
  return text;
}

static void compose_dot(Writer *w, Instr *v) {
  Instr *a = v->args[0], *b = v->args[1];
  const char *labels = word_text(w, "%s,%s->%s", labels_text(w, v->labels.a, a->type.rank),
                                 labels_text(w, v->labels.b, b->type.rank),
                                 labels_text(w, v->labels.out, v->type.rank));
  bool matrices = strcmp(labels, "ab,bc->ac") == 0;
  const char *head = matrices ? "dot(" : word_text(w, "einsum(\"%s\", ", labels);
  const char *left = exact(w, a), *tail = "";
  if (v->type.dtype != dtype_product(a->type.dtype, b->type.dtype))
    tail = word_text(w, ", out = %s", dtype_info[v->type.dtype].name);
  if (v->ival) tail = word_text(w, "%s, precision = \"%s\"", tail, precision_names[v->ival]);
  word(v)->text = word_text(w, "%s%s, %s%s)", head, left, exact(w, b), tail);
}

// ---- vars

const char *window_text(Writer *w, const Instr *v) {
  const char *text = "[";
  if (ir_window_is_full(v)) return w->blocks ? "[...]" : "";
  for (int i = 0; i < v->ref->type.rank; i++) {
    const char *axis = ":";
    if (v->window.squeeze[i])
      axis = used(w, v->args[i], BINDS_LEAST);
    else if (v->window.stride[i] != 1 && dim_is_const(v->window.size[i]))
      axis = word_text(w, "ds(%s, %lld, %lld)", used(w, v->args[i], BINDS_LEAST),
                       (long long)v->window.size[i], (long long)v->window.stride[i]);
    else if (v->window.stride[i] != 1)
      axis = word_text(w, "%s::%lld", used(w, v->args[i], BINDS_LEAST),
                       (long long)v->window.stride[i]);
    else if (!ir_window_covers(v, i))
      axis = window_axis(w, v->args[i], v->window.size[i]);
    text = word_text(w, "%s%s%s", text, i ? ", " : "", axis);
  }
  return word_text(w, "%s]", text);
}

static void compose_load(Writer *w, const Instr *v) {
  const char *name = v->ref->prefetch ? v->ref->name : w->state[v->ref->id];
  word(v)->text = word_text(w, "%s%s", name, window_text(w, v));
  if (v->ref->prefetch) return;
  word(v)->reads |= (uint64_t)1 << (v->ref->id & 63);
}

static void compose_choice(Writer *w, Instr *v) {
  const char *c = used(w, v->args[0], BINDS_LEAST), *yes = yielded_text(w, v->regions[0], 0);
  word(v)->text =
      word_text(w, "if %s { %s } else { %s }", c, yes, yielded_text(w, v->regions[1], 0));
  word(v)->binds = -1;
}

// Computes the text of an instruction's value, from those of its operands.
void compose(Writer *w, Instr *v) {
  Word *x = word(v);
  x->binds = BINDS_ATOM;
  x->type = v->type;
  if (op_is_elementwise(v->op) && v->op != OP_CAST && v->op != OP_BITCAST) {
    compose_elementwise(w, v);
    return;
  }
  switch (v->op) {
    case OP_CONST:
      compose_constant(w, v);
      return;
    case OP_SIZE:
      x->text = size_text(w, dim_of_size((int)v->ival));
      return;
    case OP_ARRAY:
      x->text = w->blocks ? word_text(w, "%s[...]", v->ref->name) : v->ref->name;
      return;
    case OP_AXIS:
      x->text = w->axis[v->ival];
      return;
    case OP_EXTENT:
      x->text = word_text(w, "num_programs(%s)", w->k->grid.at[v->ival].name);
      return;
    case OP_IOTA:
      x->text = word_text(w, "iota(%s, axis = %lld, dtype = %s)", dims_text(w, &v->type),
                          (long long)v->ival, dtype_info[v->type.dtype].name);
      return;
    case OP_CAST:
    case OP_BITCAST:
      compose_cast(w, v);
      return;
    case OP_BROADCAST:
      *x = (Word){.uses = x->uses,
                  .home = x->home,
                  .reads = x->reads,
                  .type = word(v->args[0])->type,
                  .number = word(v->args[0])->number,
                  .binds = word(v->args[0])->binds};
      x->text = used(w, v->args[0], BINDS_LEAST);
      return;
    case OP_RESHAPE:
      compose_reshape(w, v);
      return;
    case OP_TRANSPOSE:
      x->text = word_text(w, "transpose(%s, ", exact(w, v->args[0]));
      x->text = word_text(w, "%s%s)", x->text, ints_text(w, v->ints, v->type.rank));
      return;
    case OP_SLICE:
      compose_slice(w, v);
      return;
    case OP_WINDOW:
      compose_window(w, v);
      return;
    case OP_GATHER:
      compose_gather(w, v);
      return;
    case OP_CONCAT:
      compose_concat(w, v);
      return;
    case OP_PAD:
      compose_pad(w, v);
      return;
    case OP_DOT:
      compose_dot(w, v);
      return;
    case OP_LOAD:
      compose_load(w, v);
      return;
    case OP_IF:
      compose_choice(w, v);
      return;
    default:
      compose_axis(w, v);
  }
}

const char *yielded_text(Writer *w, Region *region, int k) {
  bool outer = w->inlined;
  w->inlined = true;
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (!v->note) v->note = NEW(w->arena, Word);
    if (v->op != OP_YIELD) compose(w, v);
  }
  w->inlined = outer;
  Instr *v = ir_yielded(region, k);
  return used(w, v, BINDS_LEAST);
}
