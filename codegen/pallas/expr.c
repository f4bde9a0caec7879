// Values as Python expressions: nested if they are short and used once, otherwise assigned to
// names.
#include "codegen/ir/axes.h"
#include "codegen/ir/scalar.h"
#include "codegen/pallas/internal.h"

#include <string.h>

// ---- the table

typedef enum {
  ON_HOST,
  ON_POSITIVE,
  ON_DIVISOR,
  ON_NATURAL,
  ON_FLOAT,
  ON_NARROW_FLOAT,
  ON_FLOAT_DESCENDING,
  ON_SCALE,
  ON_SCALE_DESCENDING,
  ON_MATRIX,
  ON_BOOL,
  ON_PLAIN,
  ON_ANY
} Operands;
typedef enum { FORM_INFIX, FORM_CALL, FORM_METHOD, FORM_ATOMS, FORM_EXACT } PyForm;

typedef struct {
  Op op;
  Operands operands;
  PyForm form;
  Precedence prec;
  const char *text;
} PyRow;

// Text without operands is the name of a function of all operands.
static const PyRow rows[] = {
#define PY(op, operands, form, prec, text) {OP_##op, ON_##operands, FORM_##form, PY_##prec, text},
#include "codegen/pallas/pallas.def"
#undef PY
#define BINARY(id, spelling, precedence, operation) \
  {OP_##operation, ON_PLAIN, FORM_INFIX, PY_BINDS(precedence), "$0 " spelling " $1"},
#include "dsl/operators.def"
#undef BINARY
#define FUNCTION(id, name, class, domain, exactness, f64, bound, laws, jax, vector, \
                 transcendental, instead, meaning)                                  \
  {OP_##id, ON_ANY, FORM_CALL, PY_ATOM, jax},
#include "codegen/ir/ops.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static int first_operand(const Instr *v) { return v->op == OP_SELECT ? 1 : 0; }

static bool all_host(const Instr *v) {
  for (int i = 0; i < v->nargs; i++) {
    const Instr *arg = v->args[i];
    if (!py(arg)->host || (arg->type.dtype != DT_I64 && arg->type.dtype != DT_BOOL)) return false;
  }
  return true;
}

static bool is_positive(const Instr *v) {
  if (!is_integer(v->type.dtype)) return false;
  int64_t least = v->type.dtype == DT_I64 && v->type.rank == 0 ? 0 : 1;
  return py(v->args[0])->bounds.low >= 0 && py(v->args[1])->bounds.low >= least;
}

// Does a row of pallas.def apply to the instruction's operands?
static bool fits(const PyRow *row, const Instr *v) {
  DType dtype = v->nargs ? v->args[first_operand(v)]->type.dtype : v->type.dtype;
  switch (row->operands) {
    case ON_HOST:
      return all_host(v);
    case ON_POSITIVE:
      return is_positive(v);
    case ON_DIVISOR:
      return is_integer(dtype) &&
             (py(v->args[1])->bounds.low > 0 || py(v->args[1])->bounds.high < 0);
    case ON_NATURAL:
      return is_integer(dtype) && py(v->args[1])->bounds.low >= 0;
    case ON_FLOAT:
      return is_float(dtype);
    case ON_NARROW_FLOAT:
      return is_float(dtype) && dtype != DT_F32;
    case ON_FLOAT_DESCENDING:
      return is_float(dtype) && v->flags & INSTR_REVERSE;
    case ON_SCALE:
      return is_scale(dtype);
    case ON_SCALE_DESCENDING:
      return is_scale(dtype) && v->flags & INSTR_REVERSE;
    case ON_BOOL:
      return dtype == DT_BOOL;
    case ON_MATRIX:
      return v->type.rank == 2 && v->ints[0] == 1;
    case ON_PLAIN:
      return op_has(v->op, PLAIN) && !op_has(v->op, DIVIDES);
    case ON_ANY:
      return true;
  }
  return false;
}

static const PyRow *find_row(const Instr *v) {
  for (int i = 0; i < ROWS; i++)
    if (rows[i].op == v->op && *rows[i].text && fits(&rows[i], v)) return &rows[i];
  return NULL;
}

// ---- operands

static void forget_pending(Py *p, const Instr *v) {
  int kept = 0;
  py(v)->pending = false;
  for (int i = 0; i < p->pending.count; i++)
    if (p->pending.at[i] != v) p->pending.at[kept++] = p->pending.at[i];
  p->pending.count = kept;
}

// Is the text the name of a var? It is pending until its last use, because the var may change.
static bool names_var(const Py *p, const Instr *v) {
  return v->op == OP_LOAD && p->is_carried[v->ref->id] && py(v)->reads;
}

const char *py_use(Py *p, Instr *v, Precedence least) {
  PyValue *value = py(v);
  value->left--;
  if (value->pending && (!names_var(p, v) || value->left <= 0)) forget_pending(p, v);
  return value->prec < least ? py_text(p, "(%s)", value->text) : value->text;
}

// Converts a Python number to a scalar of its dtype.
static const char *strong(Py *p, Instr *v) {
  return py_text(p, "%s(%s)", py_dtype(v->type.dtype), py_use(p, v, PY_CHOICE));
}

const char *py_exact(Py *p, Instr *v) {
  const PyValue *value = py(v);
  if (v->type.rank == 0 && value->host)
    return v->type.dtype == DT_I64 ? py_use(p, v, PY_CHOICE) : strong(p, v);
  if (value->host)
    return py_text(p, "jnp.full(%s, %s, %s)", py_shape(p, &v->type), py_use(p, v, PY_CHOICE),
                   py_dtype(v->type.dtype));
  if (type_same_shape(&value->type, &v->type)) return py_use(p, v, PY_CHOICE);
  return py_text(p, "jnp.broadcast_to(%s, %s)", py_use(p, v, PY_CHOICE), py_shape(p, &v->type));
}

// lax functions accept a Python number together with an array only if the array has the number's
// default dtype.
static const char *exact_operand(Py *p, Instr *v, bool alone) {
  DType dtype = v->type.dtype;
  bool natural = dtype == DT_I32 || dtype == DT_I64 || dtype == DT_F32;
  return py(v)->host && natural && !alone ? py_use(p, v, PY_CHOICE) : py_exact(p, v);
}

static bool others_are_host(const Instr *v) {
  for (int i = first_operand(v); i < v->nargs; i++)
    if (!py(v->args[i])->host) return false;
  return true;
}

static const char *operand(Py *p, const Instr *v, const PyRow *row, int i, bool strengthen) {
  Instr *arg = v->args[i];
  if (row->form == FORM_EXACT) return exact_operand(p, arg, strengthen && i == 0);
  bool infix = row->form == FORM_INFIX,
       method = row->form == FORM_METHOD && row->text[0] == '$' && i == 0;
  Precedence least = method || row->form == FORM_ATOMS ? PY_ATOM : PY_CHOICE;
  if (infix)
    least = row->prec == PY_UNARY || (i == 0 && v->nargs == 2 && row->prec != PY_COMPARE)
                ? row->prec
                : row->prec + 1;
  if (row->prec == PY_CHOICE && row->form == FORM_INFIX) least = i == 2 ? PY_CHOICE : PY_EITHER;
  if (v->op == OP_FMA && i < 2) least = i == 0 ? PY_TIMES : PY_UNARY;
  if (strengthen && i == first_operand(v) && py(arg)->host) return strong(p, arg);
  if (op_is_elementwise(v->op)) return py_use(p, arg, least);
  const char *whole = py_exact(p, arg);
  bool plain = py(arg)->prec >= least || whole != py(arg)->text;
  return plain ? whole : py_text(p, "(%s)", whole);
}

// ---- filling in a row

static const char *axes_text(Py *p, int64_t mask) {
  const char *items[MAX_RANK];
  int count = 0;
  for (int i = 0; i < MAX_RANK; i++)
    if (mask >> i & 1) items[count++] = py_text(p, "%d", i);
  return count == 1 ? items[0] : py_tuple(p, items, count);
}

static const char *permutation_text(Py *p, const Instr *v) {
  const char *items[MAX_RANK];
  for (int i = 0; i < v->type.rank; i++) items[i] = py_text(p, "%lld", (long long)v->ints[i]);
  return py_list(p, items, v->type.rank);
}

static const char *shape_list(Py *p, const Type *type) {
  const char *items[MAX_RANK];
  for (int i = 0; i < type->rank; i++) items[i] = py_dim(p, type->dim[i]);
  return type->rank ? py_list(p, items, type->rank) : "()";
}

typedef struct {
  Py *p;
  const Instr *v;
} Filling;

// The text for a letter in a row of pallas.def.
static const char *word_text(void *context, char letter) {
  Py *p = ((Filling *)context)->p;
  const Instr *v = ((Filling *)context)->v;
  bool widens = is_integer(v->type.dtype) && dtype_bytes(v->type.dtype) < 4,
       reverse = v->flags & INSTR_REVERSE;
  switch (letter) {
    case 'T':
      return py_dtype(v->type.dtype);
    case 'S':
      return py_shape(p, &v->type);
    case 'E':
      return shape_list(p, &v->type);
    case 'A':
      return py_text(p, "%lld", (long long)v->ival);
    case 'L':
      return py_dim(p, v->type.dim[v->ival]);
    case 'X':
      return axes_text(p, v->ival);
    case 'P':
      return permutation_text(p, v);
    case 'D':
      return widens ? py_text(p, ", dtype=%s", py_dtype(v->type.dtype)) : "";
    case 'R':
      return reverse ? ", reverse=True" : "";
    case 'N':
      return reverse ? ", descending=True" : "";
    default:
      INTERNAL("pallas.def: $%c", letter);
  }
}

static const char *fill(Py *p, const Instr *v, const PyRow *row, const char *const *operands) {
  Filling filling = {p, v};
  if (strchr(row->text, '$'))
    return fill_template(p->arena, row->text, operands, word_text, &filling);
  return py_text(p, "%s(%s)", row->text, py_list(p, operands, v->nargs));
}

// The shape to which NumPy broadcasts the operands.
static Type joined_type(const Instr *v) {
  Type type = {.dtype = v->type.dtype};
  for (int i = 0; i < v->nargs; i++) {
    const Type *t = &py(v->args[i])->type;
    int rank = t->rank > type.rank ? t->rank : type.rank;
    Type wider = {.dtype = type.dtype, .rank = rank};
    for (int k = 0; k < rank; k++) {
      int in_t = k - (rank - t->rank), in_type = k - (rank - type.rank);
      Dim a = in_t >= 0 ? t->dim[in_t] : 1, b = in_type >= 0 ? type.dim[in_type] : 1;
      wider.dim[k] = a == 1 ? b : a;
    }
    type = wider;
  }
  return type;
}

static void compose_row(Py *p, Instr *v, const PyRow *row) {
  PyValue *value = py(v);
  enum { MOST = 4 };
  const char *operands[MOST];
  bool elementwise = op_is_elementwise(v->op), host = elementwise && all_host(v);
  host = host && (v->type.dtype == DT_I64 || v->type.dtype == DT_BOOL) &&
         strncmp(row->text, "jnp.", 4) != 0;
  if (op_info[v->op].class == OPC_COMPARE) host = others_are_host(v);
  value->type = elementwise && row->form != FORM_EXACT ? joined_type(v) : v->type;
  bool strengthen = elementwise && !host && v->nargs > 0 && others_are_host(v) &&
                    op_info[v->op].class != OPC_COMPARE;
  REQUIRE(v->nargs <= MOST);
  for (int i = 0; i < v->nargs; i++)
    operands[i] = operand(p, v, row, i, strengthen && v->op != OP_CAST);
  value->text = fill(p, v, row, operands);
  value->prec = row->prec;
  value->host = host;
  value->right = row->form == FORM_INFIX && v->nargs == 2 ? operands[1] : NULL;
}

// ---- bounds of integers

static Interval bounds_of(Py *p, const Instr *v) {
  Interval args[3];
  bool elementwise = op_is_elementwise(v->op);
  for (int i = 0; (elementwise || v->op == OP_BROADCAST) && i < v->nargs; i++)
    args[i] = py(v->args[i])->bounds;
  // Division of indices by 0 raises an error.
  bool divides = elementwise && op_has(v->op, DIVIDES) && v->type.dtype == DT_I64;
  if (divides && v->type.rank == 0 && args[1].low == 0 && args[1].high > 0) args[1].low = 1;
  if (v->op == OP_DEVICE) return (Interval){0, p->k->mesh.at[v->ival].extent - 1};
  return interval_of_value(v, p->axis_bounds, args);
}

// ---- operations without a row

// The text of a cast.
static void compose_cast(Py *p, Instr *v) {
  Instr *arg = v->args[0];
  DType from = arg->type.dtype, to = v->type.dtype;
  PyValue *value = py(v);
  bool index = (from == DT_I64 && to == DT_I32) || (from == DT_I32 && to == DT_I64) || from == to;
  if (from == DT_U32 && to == DT_I64)
    py_fail(p, v->span, "u32 as an index: it has no integers of 64 bits");
  if (index) {
    value->type = py(arg)->type;
    value->host = py(arg)->host;
    value->prec = py(arg)->prec;
    value->text = py_use(p, arg, PY_CHOICE);
  } else if (arg->op == OP_CONST && to == DT_U32 && is_integer(from)) {
    value->text = py_text(p, "jnp.uint32(%lld)", (long long)wrap_int(DT_U32, arg->ival));
    value->prec = PY_ATOM;
    value->host = false;
  } else if (py(arg)->host && is_integer(to) &&
             (dtype_bytes(to) < 4 || (to == DT_U32 && bounds_of(p, arg).low < 0))) {
    value->text = py_text(p, "jnp.int32(%s).astype(%s)", py_use(p, arg, PY_CHOICE), py_dtype(to));
    value->prec = PY_ATOM;
  } else {
    static const PyRow on_host = {OP_CAST, ON_HOST, FORM_CALL, PY_ATOM, "$T($0)"};
    const PyRow *row = find_row(v);
    compose_row(p, v, py(arg)->host ? &on_host : row);
    value->host = false;
  }
  value->type.dtype = to;
}

static void compose_broadcast(Py *p, Instr *v) {
  const PyValue *arg = py(v->args[0]);
  PyValue *value = py(v);
  value->type = arg->type;
  value->host = arg->host;
  value->prec = arg->prec;
  value->text = py_use(p, v->args[0], PY_CHOICE);
}

// The text of a slice.
static void compose_slice(Py *p, Instr *v) {
  const Type *from = &v->args[0]->type;
  const char *items[MAX_RANK];
  int count = v->type.rank;
  for (int i = 0; i < v->type.rank; i++) {
    long long start = v->ints[i], step = v->ints2[i];
    if (v->type.dim[i] == from->dim[i] && start == 0 && step == 1) {
      items[i] = ":";
      continue;
    }
    long long stop = v->type.dim[i] ? start + (v->type.dim[i] - 1) * step + 1 : start;
    const char *first = start ? py_text(p, "%lld", start) : "",
               *stride = step > 1 ? py_text(p, ":%lld", step) : "";
    items[i] =
        py_text(p, "%s:%s%s", first, stop == from->dim[i] ? "" : py_text(p, "%lld", stop), stride);
  }
  while (count > 1 && strcmp(items[count - 1], ":") == 0) count--;
  const char *whole = py_exact(p, v->args[0]);
  bool atom = py(v->args[0])->prec == PY_ATOM || whole != py(v->args[0])->text;
  py(v)->text = py_text(p, atom ? "%s[%s]" : "(%s)[%s]", whole, py_list(p, items, count));
}

static void compose_concat(Py *p, Instr *v) {
  const char *parts = "";
  for (int i = 0; i < v->nargs; i++)
    parts = py_text(p, "%s%s%s", parts, i ? ", " : "", py_exact(p, v->args[i]));
  py(v)->text = py_text(p, "jnp.concatenate([%s], axis=%lld)", parts, (long long)v->ival);
}

// Indices are clamped to their axes; their axis comes first if a slice is between them.
static void compose_gather(Py *p, Instr *v) {
  const Type *from = &v->args[0]->type;
  const char *items[MAX_RANK], *whole = py_exact(p, v->args[0]);
  int axes[MAX_RANK], next = 0;
  const int count = ir_indexed_axes(v, axes), first = axes[0];
  for (int k = 0; k < from->rank; k++) {
    const bool named = next < count && axes[next] == k;
    items[k] = named ? py_text(p, "jnp.clip(%s, 0, %s - 1)", py_exact(p, v->args[1 + next]),
                               py_dim(p, from->dim[k]))
                     : ":";
    next += named;
  }
  const bool atom = py(v->args[0])->prec == PY_ATOM || whole != py(v->args[0])->text;
  const char *text = py_text(p, atom ? "%s[%s]" : "(%s)[%s]", whole, py_list(p, items, from->rank));
  const bool apart = axes[count - 1] - first >= count && first > 0;
  py(v)->text = apart ? py_text(p, "jnp.moveaxis(%s, 0, %d)", text, first) : text;
}

static void compose_pad(Py *p, Instr *v) {
  const char *items[MAX_RANK];
  for (int i = 0; i < v->type.rank; i++)
    items[i] = py_text(p, "(%lld, %lld)", (long long)v->ints[i], (long long)v->ints2[i]);
  const char *whole = py_exact(p, v->args[0]);
  py(v)->text = py_text(p, "jnp.pad(%s, %s, constant_values=%s)", whole,
                        py_tuple(p, items, v->type.rank), py_use(p, v->args[1], PY_CHOICE));
}

static const char *labels_text(Py *p, const int8_t *labels, int rank) {
  const char *text = "";
  for (int i = 0; i < rank; i++) text = py_text(p, "%s%c", text, 'a' + labels[i]);
  return text;
}

// The operands in the wider of their dtypes, which represents both exactly.
static const char *factor(Py *p, Instr *v, DType dtype) {
  const char *whole = py_exact(p, v);
  if (v->type.dtype == dtype) return whole;
  bool atom = py(v)->prec == PY_ATOM || whole != py(v)->text;
  return py_text(p, atom ? "%s.astype(%s)" : "(%s).astype(%s)", whole, py_dtype(dtype));
}

static int axis_of(const int8_t *labels, int rank, int label) {
  for (int i = 0; i < rank; i++)
    if (labels[i] == label) return i;
  return -1;
}

// Axes that both operands have, as dot_general takes them: those of the result (batch) or those
// that are summed.
static const char *shared_axes(Py *p, const Instr *v, bool batch) {
  const char *of_a[MAX_RANK], *of_b[MAX_RANK];
  int count = 0;
  for (int i = 0; i < v->args[0]->type.rank; i++) {
    int label = v->labels.a[i], other = axis_of(v->labels.b, v->args[1]->type.rank, label);
    bool kept = axis_of(v->labels.out, v->type.rank, label) >= 0;
    if (other < 0 || kept != batch) continue;
    of_a[count] = py_text(p, "%d", i);
    of_b[count++] = py_text(p, "%d", other);
  }
  return py_text(p, "(%s, %s)", py_tuple(p, of_a, count), py_tuple(p, of_b, count));
}

// The labels of dot_general's result: batch axes, then those of a alone, then those of b. False if
// one operand is also summed separately, which dot_general does not support.
static bool general_labels(const Instr *v, int8_t *labels) {
  int count = 0;
  for (int part = 0; part < 3; part++) {
    const Instr *from = v->args[part == 2];
    for (int i = 0; i < from->type.rank; i++) {
      int label = part == 2 ? v->labels.b[i] : v->labels.a[i];
      bool shared = part == 2 ? axis_of(v->labels.a, v->args[0]->type.rank, label) >= 0
                              : axis_of(v->labels.b, v->args[1]->type.rank, label) >= 0;
      bool kept = axis_of(v->labels.out, v->type.rank, label) >= 0;
      if (!kept && !shared) return false;
      if (kept && shared == (part == 0)) labels[count++] = (int8_t)label;
    }
  }
  return true;
}

// Operands of two dtypes, which dot_general and some matrix units accept.
static const char *mixed_dot(Py *p, Instr *v, const char *tail) {
  int8_t labels[MAX_RANK];
  if (!general_labels(v, labels)) return NULL;
  const char *left = py_exact(p, v->args[0]), *right = py_exact(p, v->args[1]), *perm[MAX_RANK];
  const char *text = py_text(p, "lax.dot_general(%s, %s, (%s, %s), %s)", left, right,
                             shared_axes(p, v, false), shared_axes(p, v, true), tail);
  bool moved = false;
  for (int i = 0; i < v->type.rank; i++) {
    int at = axis_of(labels, v->type.rank, v->labels.out[i]);
    perm[i] = py_text(p, "%d", at);
    moved = moved || at != i;
  }
  return moved ? py_text(p, "jnp.transpose(%s, %s)", text, py_tuple(p, perm, v->type.rank)) : text;
}

static const char *uniform_dot(Py *p, Instr *v, DType common, const char *tail) {
  Instr *a = v->args[0], *b = v->args[1];
  const char *left = factor(p, a, common), *right = factor(p, b, common);
  const char *labels = py_text(p, "%s,%s->%s", labels_text(p, v->labels.a, a->type.rank),
                               labels_text(p, v->labels.b, b->type.rank),
                               labels_text(p, v->labels.out, v->type.rank));
  const char *call =
      strcmp(labels, "ab,bc->ac") == 0 ? "jnp.dot(" : py_text(p, "jnp.einsum(\"%s\", ", labels);
  return py_text(p, "%s%s, %s, %s)", call, left, right, tail);
}

static bool is_in_bf16(DType t) { return t == DT_BF16 || dtype_info[t].bits <= 8; }

static void compose_dot(Py *p, Instr *v) {
  DType a = v->args[0]->type.dtype, b = v->args[1]->type.dtype;
  DType sums = is_float(v->type.dtype) ? DT_F32 : DT_I32;
  bool parts = is_float(sums) && a != b ? !is_in_bf16(a) || !is_in_bf16(b) : a == DT_F32;
  static const char *const names[PRECISIONS] = {"HIGHEST", "DEFAULT", "HIGH", "HIGHEST"};
  const char *precision =
      parts || v->ival ? py_text(p, ", precision=lax.Precision.%s", names[v->ival]) : "";
  const char *tail = py_text(p, "preferred_element_type=%s%s", py_dtype(sums), precision);
  const char *text = a == b ? NULL : mixed_dot(p, v, tail);
  if (!text) text = uniform_dot(p, v, a == b ? a : sums, tail);
  if (v->type.dtype != sums) text = py_text(p, "%s.astype(%s)", text, py_dtype(v->type.dtype));
  py(v)->text = text;
}

// The text of an instruction without operands.
static void compose_leaf(Py *p, const Instr *v) {
  PyValue *value = py(v);
  value->host = v->op != OP_AXIS && v->op != OP_STEP_AXIS && v->op != OP_ARG && v->op != OP_DEVICE;
  if (v->op == OP_CONST)
    value->text = py_number(p, v->type.dtype, v);
  else if (v->op == OP_SIZE)
    value->text = p->size[v->ival];
  else if (v->op == OP_EXTENT)
    value->text = py_text(p, p->body ? "pl.num_programs(%lld)" : "grid[%lld]", (long long)v->ival);
  else if (v->op == OP_AXIS)
    value->text = p->axis[v->ival];
  else if (v->op == OP_STEP_AXIS)
    value->text = py_step_axis(p, v);
  else if (v->op == OP_DEVICE)
    value->text = py_text(p, "lax.axis_index(%s)", py_quoted(p, p->k->mesh.at[v->ival].name));
  if (v->op == OP_AXIS) p->axis_used[v->ival] = p->axis_used[v->ival] || p->body;
  if (value->text[0] == '-') value->prec = PY_UNARY;
  if (v->op == OP_CONST && v->type.dtype == DT_U32 &&
      v->ival > INT32_MAX) {  // more than JAX accepts as a Python number
    value->text = py_text(p, "jnp.uint32(%s)", value->text);
    value->host = false;
  }
}

// (x + c - 1) // c
static bool compose_cdiv(Py *p, Instr *v) {
  if (v->op != OP_FLOORDIV) return false;
  Instr *sum = v->args[0], *divisor = v->args[1];
  if (divisor->op != OP_CONST || sum->op != OP_ADD || divisor->ival < 2 ||
      !ir_is_const(sum->args[1], divisor->ival - 1))
    return false;
  if (!p->launch && !py(sum)->pending) return false;
  py_use(p, sum, PY_CHOICE);
  py(v)->text = py_text(p, "pl.cdiv(%s, %lld)", py(sum->args[0])->text, (long long)divisor->ival);
  py(v)->host = all_host(v);
  py(v)->type = joined_type(v);
  return true;
}

bool py_is_choice(const Instr *v) {
  return v->op == OP_IF && has_result(v) && v->type.rank == 0 && ir_is_pure(v->regions[0]) &&
         ir_is_pure(v->regions[1]);
}

// An `if` between scalars: both sides are computed, which has no effect, and one is selected.
static void compose_choice(Py *p, Instr *v) {
  PyValue *value = py(v);
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < v->regions[side]->instrs.count; i++)
      if (v->regions[side]->instrs.at[i]->op != OP_YIELD)
        py_value(p, v->regions[side]->instrs.at[i], v->regions[side]);
  Instr *c = v->args[0], *a = ir_yielded(v->regions[0], 0), *b = ir_yielded(v->regions[1], 0);
  bool host = py(c)->host && py(a)->host && py(b)->host, both = ir_is_const(b, 0),
       either = ir_is_const(a, 1);
  if (v->type.dtype == DT_BOOL && both) {
    value->prec = host ? PY_BOTH : PY_AND;
    const char *left = py_use(p, c, value->prec);
    value->text = py_text(p, host ? "%s and %s" : "%s & %s", left, py_use(p, a, value->prec + 1));
  } else if (v->type.dtype == DT_BOOL && either) {
    value->prec = host ? PY_EITHER : PY_OR;
    const char *left = py_use(p, c, value->prec);
    value->text = py_text(p, host ? "%s or %s" : "%s | %s", left, py_use(p, b, value->prec + 1));
  } else if (host) {
    value->prec = PY_CHOICE;
    const char *first = py_use(p, a, PY_EITHER), *test = py_use(p, c, PY_EITHER);
    value->text = py_text(p, "%s if %s else %s", first, test, py_use(p, b, PY_CHOICE));
  } else {
    bool weak = py(a)->host && py(b)->host && v->type.dtype != DT_I64;
    const char *test = py_use(p, c, PY_CHOICE),
               *first = weak ? strong(p, a) : py_use(p, a, PY_CHOICE);
    value->text = py_text(p, "jnp.where(%s, %s, %s)", test, first, py_use(p, b, PY_CHOICE));
  }
  value->host = host;
}

// `false or x`, which lowering writes, is x.
static bool compose_neutral(Py *p, Instr *v) {
  if ((v->op != OP_OR && v->op != OP_AND) || v->type.dtype != DT_BOOL || v->type.rank > 0)
    return false;
  Instr *first = v->args[0], *second = v->args[1];
  if (first->op != OP_CONST || (first->ival != 0) == (v->op == OP_OR)) return false;
  PyValue *value = py(v);
  py_use(p, first, PY_CHOICE);
  value->text = py_use(p, second, PY_CHOICE);
  value->prec = py(second)->prec;
  value->host = py(second)->host;
  return true;
}

// The text of an instruction's value.
static void compose(Py *p, Instr *v) {
  PyValue *value = py(v);
  value->prec = PY_ATOM;
  value->type = v->type;
  switch (v->op) {
    case OP_CONST:
    case OP_SIZE:
    case OP_AXIS:
    case OP_STEP_AXIS:
    case OP_EXTENT:
    case OP_DEVICE:
      value->type.rank = 0;
      compose_leaf(p, v);
      return;
    case OP_BROADCAST:
      compose_broadcast(p, v);
      return;
    case OP_CAST:
      compose_cast(p, v);
      return;
    case OP_SLICE:
      compose_slice(p, v);
      return;
    case OP_GATHER:
      compose_gather(p, v);
      return;
    case OP_CONCAT:
      compose_concat(p, v);
      return;
    case OP_PAD:
      compose_pad(p, v);
      return;
    case OP_DOT:
      compose_dot(p, v);
      return;
    case OP_LOAD:
      py_load(p, v);
      return;
    case OP_IF:
      compose_choice(p, v);
      return;
    default:
      break;
  }
  if (compose_cdiv(p, v) || compose_neutral(p, v)) return;
  const PyRow *row = find_row(v);
  if (row)
    compose_row(p, v, row);
  else
    py_fail(p, v->span, "`%s` of these operands", op_info[v->op].name), value->text = "0";
}

// ---- names or nesting

static bool is_plain(const char *text) {
  for (; *text; text++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *text))
      return false;
  return true;
}

void py_assign(Py *p, Instr *v, const char *base) {
  PyValue *value = py(v);
  if (value->pending) forget_pending(p, v);
  const char *name = py_name(p, base, v);
  py_line(p, "%s = %s", name, value->text);
  value->text = name;
  value->prec = PY_ATOM;
  value->reads = 0;
}

void py_flush(Py *p, uint64_t refs) {
  for (int i = 0; i < p->pending.count;) {
    Instr *v = p->pending.at[i];
    if (py(v)->reads & refs)
      py_assign(p, v, v->text ? v->text : "t");
    else
      i++;
  }
}

// Operands that would make the line too long get names.
static void take_apart(Py *p, Instr *v) {
  for (;;) {
    size_t total = 0;
    Instr *longest = NULL;
    for (int i = 0; i < v->nargs; i++) {
      const PyValue *arg = py(v->args[i]);
      total += strlen(arg->text);
      if (arg->pending && !names_var(p, v->args[i]) &&
          (!longest || strlen(arg->text) > strlen(py(longest)->text)))
        longest = v->args[i];
    }
    if (total <= PY_LINE || !longest) return;
    py_assign(p, longest, "t");
  }
}

// Defers a text to the users of the value.
static void postpone(Py *p, Instr *v) {
  if (!py(v)->pending) LIST_PUSH(p->arena, &p->pending, v);
  py(v)->pending = true;
}

// Computes the text of a value, and gives it a name unless its only user can write it.
void py_value(Py *p, Instr *v, const Region *here) {
  PyValue *value = py(v);
  if (!p->launch && value->uses == 0) return;
  if (!p->launch) take_apart(p, v);
  for (int i = 0; i < v->nargs; i++)
    if (py(v->args[i])->pending) value->reads |= py(v->args[i])->reads;
  compose(p, v);
  // After a refusal the text is not used; the values that it reads may have no names.
  if (!value->text && diag_error_count(p->diag)) value->text = "None";
  value->bounds = bounds_of(p, v);
  bool far = v->type.dtype == DT_I64 && !value->host &&
             (value->bounds.low > INT32_MAX || value->bounds.high < INT32_MIN);
  if (far) py_fail(p, v->span, "an index beyond 32 bits");
  if (p->launch || (is_plain(value->text) && !names_var(p, v))) return;
  bool small = value->host && strlen(value->text) < 24;
  if (names_var(p, v))
    postpone(p, v);
  else if (v->text && v->op != OP_IF)
    py_assign(p, v, v->text);
  else if ((value->uses > 1 || value->home != here) && !small)
    py_assign(p, v, "t");
  else if (!small)
    postpone(p, v);
}

// From the last instruction to the first, so that only values that are read count as users.
void py_count_uses(Py *p, Region *region) {
  if (region->arg) region->arg->note = NEW(p->arena, PyValue);
  for (int i = 0; i < region->instrs.count; i++)
    region->instrs.at[i]->note = NEW(p->arena, PyValue);
  for (int i = region->instrs.count - 1; i >= 0; i--) {
    Instr *v = region->instrs.at[i];
    bool acts = op_acts(v->op) && !py_is_choice(v);
    if (!acts && py(v)->uses == 0) continue;
    for (int side = 0; side < 2; side++)
      if (v->regions[side]) py_count_uses(p, v->regions[side]);
    for (int k = 0; k < v->nargs; k++) {
      PyValue *arg = py(v->args[k]);
      arg->uses++, arg->left++;
      arg->home = region;
    }
  }
}

const char *py_yielded(Py *p, Region *region, int index) {
  bool launch = p->launch;
  p->launch = true;
  py_count_uses(p, region);
  for (int i = 0; i < region->instrs.count; i++)
    if (region->instrs.at[i]->op != OP_YIELD) py_value(p, region->instrs.at[i], region);
  p->launch = launch;
  return py(ir_yielded(region, index))->text;
}
