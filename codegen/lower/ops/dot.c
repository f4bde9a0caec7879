// Contractions: dot and einsum.
#include "codegen/lower/ops/ops.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct {
  int count;
  int8_t at[MAX_RANK];
} Labels;  // of the axes of one array

// ---- dtypes

static bool check_operand(Lower *l, const Call *call, const Node *node, Instr **v) {
  Value value = lower_expr(l, node);
  *v = NULL;
  if (is_error(value)) return false;
  if (value.kind != V_DATA || is_index(value)) {
    diag_error(l->diag, node->span, ERR_BAD_ARGUMENT, "%s contracts arrays, not %s",
               call->builtin->name, value_text(l, value));
    return false;
  }
  *v = value.instr;
  if (value.instr->type.dtype != DT_BOOL) return true;
  diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED,
             "%s requires numbers, and this is %s; cast it", call->builtin->name,
             value_text(l, value));
  return false;
}

static void do_not_mix(Lower *l, const Call *call, const Instr *a, const Instr *b) {
  DType x = a->type.dtype, y = b->type.dtype;
  const char *why = "integers of 64 bits mix with no others";
  if (is_float(x) || is_float(y))
    why = arena_printf(l->arena, "%s does not hold every %s",
                       dtype_info[x == DT_F64 || y == DT_F64 ? DT_F64 : DT_F32].name,
                       dtype_info[is_float(x) ? y : x].name);
  diag_error(l->diag, call->node->span, ERR_DTYPE_MISMATCH, "%s of %s and %s: %s; cast one of them",
             call->builtin->name, type_text(l, &a->type), type_text(l, &b->type), why);
}

// The dtype of the sums of products of the operands; each two of them mix.
static bool mix_operands(Lower *l, const Call *call, Instr *const *v, int count, DType *sums) {
  *sums = dtype_accum(v[0]->type.dtype);
  for (int i = 1; i < count; i++)
    for (int k = 0; k < i; k++) {
      DType both = dtype_product(v[k]->type.dtype, v[i]->type.dtype);
      if (both == DT_COUNT) {
        do_not_mix(l, call, v[k], v[i]);
        return false;
      }
      if (is_float(both) && *sums != DT_F64) *sums = both;
    }
  return true;
}

static bool lower_out(Lower *l, const Node *node, DType sums, DType *out) {
  *out = sums;
  if (!node) return true;
  if (!lower_dtype(l, node, out)) return false;
  if (is_float(*out) == is_float(sums) && *out != DT_BOOL) return true;
  diag_error(l->diag, node->span, ERR_DTYPE_MISMATCH,
             "`out = %s` of products that are summed in %s: cast the result instead",
             dtype_info[*out].name, dtype_info[sums].name);
  return false;
}

// ---- precision

bool lower_precision(Lower *l, const Node *node, Precision *precision) {
  *precision = PRECISION_NONE;
  if (!node) return true;
  Value text = lower_expr(l, node);
  if (is_error(text)) return false;
  for (int i = 1; i < PRECISIONS && text.kind == V_STRING; i++)
    if (strcmp(text.text, precision_names[i]) == 0) return *precision = (Precision)i, true;
  const char *near =
      text.kind == V_STRING ? suggestion(l, text.text, precision_names + 1, PRECISIONS - 1) : "";
  diag_propose(l->diag, (Span){0, 0}, NULL);  // the quotes are missing
  diag_error(l->diag, node->span, ERR_BAD_ARGUMENT,
             "`precision` must be \"default\", \"high\" or \"highest\"%s", near);
  return false;
}

static Instr *rounded_to(Lower *l, Instr *v, DType dtype) {
  return emit1(l, OP_CAST, with_dtype(v->type, dtype), v->span, v);
}

// The part of v that is lost by rounding to bf16.
static Instr *rest_of(Lower *l, Instr *v, Instr *rounded) {
  return emit2(l, OP_SUB, v->type, v->span, v, rounded_to(l, rounded, DT_F32));
}

static Instr *like_dot(Lower *l, const Instr *dot, Instr *a, Instr *b) {
  Instr *v = emit2(l, OP_DOT, dot->type, dot->span, a, b);
  v->labels = dot->labels;
  return v;
}

// A dot of f32, multiplied in parts of bf16: the first parts, and with three products each first
// part by the other's second.
static Instr *dot_of_parts(Lower *l, const Instr *dot, int products) {
  Instr *first[2], *second[2] = {NULL, NULL}, *sum = NULL;
  for (int i = 0; i < 2; i++) {
    bool splits = dot->args[i]->type.dtype == DT_F32;
    first[i] = splits ? rounded_to(l, dot->args[i], DT_BF16) : dot->args[i];
    if (splits && products > 1)
      second[i] = rounded_to(l, rest_of(l, dot->args[i], first[i]), DT_BF16);
  }
  for (int i = 0; i < 2; i++) {
    if (!second[i]) continue;
    Instr *part = like_dot(l, dot, i ? first[0] : second[0], i ? second[1] : first[1]);
    sum = sum ? emit2(l, OP_ADD, dot->type, dot->span, sum, part) : part;
  }
  Instr *most = like_dot(l, dot, first[0], first[1]);
  return sum ? emit2(l, OP_ADD, dot->type, dot->span, sum, most) : most;
}

Instr *with_precision(Lower *l, Instr *dot, Precision precision) {
  dot->ival = precision;
  bool has_f32 = dot->args[0]->type.dtype == DT_F32 || dot->args[1]->type.dtype == DT_F32;
  int products = l->place == IN_BODY && has_f32 && dot->type.dtype != DT_F64
                     ? bf16_products(l->options->numerics, precision)
                     : 0;
  if (!products) return dot;
  l->k->lost = fmax(l->k->lost, bf16_lost(products));
  return dot_of_parts(l, dot, products);
}

// ---- one contraction

// Labels by first appearance, so that the text reads "ab,bc->ac".
static void relabel(Labels *labels, int8_t *names, int *next) {
  for (int i = 0; i < labels->count; i++) {
    int8_t *name = &names[labels->at[i]];
    if (*name < 0) *name = (int8_t)(*next)++;
    labels->at[i] = *name;
  }
}

static Instr *contract(Lower *l, Instr *a, const Labels *la, Instr *b, const Labels *lb,
                       const Labels *out, DType dtype, Precision precision, Span span) {
  Type type = {.dtype = dtype, .rank = out->count};
  for (int i = 0; i < out->count; i++) {
    for (int k = 0; k < la->count; k++)
      if (la->at[k] == out->at[i]) type.dim[i] = a->type.dim[k];
    for (int k = 0; k < lb->count; k++)
      if (lb->at[k] == out->at[i]) type.dim[i] = b->type.dim[k];
  }
  Instr *dot = emit2(l, OP_DOT, type, span, a, b);
  Labels named[] = {*la, *lb, *out};
  int8_t names[DOT_LABELS];
  int next = 0;
  memset(names, -1, sizeof names);
  for (int i = 0; i < 3; i++) relabel(&named[i], names, &next);
  memcpy(dot->labels.a, named[0].at, sizeof named[0].at);
  memcpy(dot->labels.b, named[1].at, sizeof named[1].at);
  memcpy(dot->labels.out, named[2].at, sizeof named[2].at);
  return with_precision(l, dot, precision);
}

// ---- dot

typedef struct {
  int count;
  int64_t a[MAX_RANK], b[MAX_RANK];
} AxisPairs;

// A pair of lists of axes, as dot takes for contracted and batch axes.
static bool lower_axis_pairs(Lower *l, const Node *node, const char *what, const Instr *a,
                             const Instr *b, AxisPairs *pairs) {
  int counts[2];
  *pairs = (AxisPairs){0};
  if (!node) return true;
  if ((node->kind != N_TUPLE && node->kind != N_ARRAY) || node->list.count != 2) {
    diag_error(l->diag, node->span, ERR_BAD_ARGUMENT,
               "`%s` must be a pair of lists of axes, ((of a ..), (of b ..))", what);
    return false;
  }
  if (!lower_int_list(l, node->list.at[0], "an axis number", pairs->a, MAX_RANK, &counts[0]))
    return false;
  if (!lower_int_list(l, node->list.at[1], "an axis number", pairs->b, MAX_RANK, &counts[1]))
    return false;
  if (counts[0] != counts[1]) {
    diag_error(l->diag, node->span, ERR_ARGUMENT_COUNT, "`%s` pairs %d axes with %d", what,
               counts[0], counts[1]);
    return false;
  }
  pairs->count = counts[0];
  for (int side = 0; side < 2; side++) {
    const Type *type = side ? &b->type : &a->type;
    for (int i = 0; i < pairs->count; i++) {
      int64_t *axis = side ? &pairs->b[i] : &pairs->a[i];
      if (*axis < 0) *axis += type->rank;
      if (*axis >= 0 && *axis < type->rank) continue;
      diag_error(l->diag, node->list.at[side]->span, ERR_AXIS_RANGE, "there is no such axis of %s",
                 type_text(l, type));
      return false;
    }
  }
  return true;
}

// Axes paired get one label; `from` is the first free label. False, reported, when an axis is
// paired twice or lengths differ.
static bool label_pairs(Lower *l, const Call *call, const Instr *a, const Instr *b,
                        const AxisPairs *pairs, Labels *la, Labels *lb, int *next) {
  for (int i = 0; i < pairs->count; i++) {
    int8_t *x = &la->at[pairs->a[i]], *y = &lb->at[pairs->b[i]];
    if (*x >= 0 || *y >= 0) {
      diag_error(l->diag, call->node->span, ERR_AXIS_RANGE, "dot: an axis is named twice");
      return false;
    }
    Dim da = a->type.dim[pairs->a[i]], db = b->type.dim[pairs->b[i]];
    if (da != db) {
      diag_error(l->diag, call->node->span, ERR_SHAPE_MISMATCH,
                 "dot of %s and %s: contracted axes of %s and %s differ", type_text(l, &a->type),
                 type_text(l, &b->type), dim_text(l, da), dim_text(l, db));
      return false;
    }
    *x = *y = (int8_t)(*next)++;
  }
  return true;
}

static bool default_contraction(Lower *l, const Call *call, const Instr *a, const Instr *b,
                                AxisPairs *pairs) {
  bool plain = a->type.rank >= 1 && b->type.rank >= 1 && a->type.rank <= 2 && b->type.rank <= 2 &&
               !call->arg[3];
  if (!plain) {
    diag_error(l->diag, call->node->span, ERR_RANK_MISMATCH,
               "dot of %s and %s needs `contract = ((..), (..))` to say which axes are contracted",
               type_text(l, &a->type), type_text(l, &b->type));
    return false;
  }
  *pairs = (AxisPairs){.count = 1, .a = {a->type.rank - 1}, .b = {0}};
  return true;
}

static void label_rest(Labels *labels, int *next, Labels *out) {
  for (int i = 0; i < labels->count; i++) {
    if (labels->at[i] >= 0) continue;
    labels->at[i] = (int8_t)(*next)++;
    if (out->count < MAX_RANK) out->at[out->count] = labels->at[i];
    out->count++;
  }
}

// The function dot.
static Value lower_dot(Lower *l, const Call *call) {
  Instr *v[2];
  AxisPairs contracted, batch;
  DType sums, out_dtype;
  Precision precision;
  bool good =
      check_operand(l, call, call->arg[0], &v[0]) && check_operand(l, call, call->arg[1], &v[1]);
  if (!good || !mix_operands(l, call, v, 2, &sums) ||
      !lower_out(l, call->arg[4], sums, &out_dtype) ||
      !lower_precision(l, call->arg[5], &precision))
    return value_error();
  if (!lower_axis_pairs(l, call->arg[2], "contract", v[0], v[1], &contracted)) return value_error();
  if (!lower_axis_pairs(l, call->arg[3], "batch", v[0], v[1], &batch)) return value_error();
  if (!call->arg[2] && !default_contraction(l, call, v[0], v[1], &contracted)) return value_error();
  Labels a = {.count = v[0]->type.rank}, b = {.count = v[1]->type.rank}, out = {0};
  memset(a.at, -1, sizeof a.at);
  memset(b.at, -1, sizeof b.at);
  int next = 0;
  if (!label_pairs(l, call, v[0], v[1], &batch, &a, &b, &next)) return value_error();
  for (; out.count < next; out.count++) out.at[out.count] = (int8_t)out.count;
  if (!label_pairs(l, call, v[0], v[1], &contracted, &a, &b, &next)) return value_error();
  label_rest(&a, &next, &out);
  label_rest(&b, &next, &out);
  if (out.count > MAX_RANK) {
    diag_error(l->diag, call->node->span, ERR_RANK_MISMATCH,
               "the result would have %d axes, more than the limit of %d", out.count, MAX_RANK);
    return value_error();
  }
  return value_data(contract(l, v[0], &a, v[1], &b, &out, out_dtype, precision, call->node->span));
}

// ---- einsum

enum { MAX_OPERANDS = 16 };

typedef struct {
  Lower *l;
  const Call *call;
  const Node *spec;
  int operands, letters;
  char letter[DOT_LABELS];
  Dim extent[DOT_LABELS];
  Labels in[MAX_OPERANDS], out;
  Instr *v[MAX_OPERANDS];
  Precision precision;
} Einsum;

static bool bad_spec(Einsum *e, const char *why) {
  diag_error(e->l->diag, e->spec->span, ERR_BAD_EINSUM, "%s", why);
  return false;
}

static int label_of(Einsum *e, char c) {
  for (int i = 0; i < e->letters; i++)
    if (e->letter[i] == c) return i;
  if (e->letters == DOT_LABELS) return -1;
  e->letter[e->letters] = c;
  return e->letters++;
}

static bool has_label(const Labels *labels, int label) {
  for (int i = 0; i < labels->count; i++)
    if (labels->at[i] == label) return true;
  return false;
}

// Reads letters up to a comma, an arrow or the end.
static bool read_labels(Einsum *e, const char **text, Labels *labels) {
  for (; **text && **text != ',' && **text != '-'; ++*text) {
    if (**text == ' ') continue;
    if (!isalpha((unsigned char)**text))
      return bad_spec(e, "an einsum specification is made of letters, `,` and `->`");
    int label = label_of(e, **text);
    if (label < 0) return bad_spec(e, "more than 16 different letters in an einsum");
    if (has_label(labels, label))
      return bad_spec(e, "a letter occurs twice in one operand or in the result");
    if (labels->count == MAX_RANK) return bad_spec(e, "more than 8 letters for one array");
    labels->at[labels->count++] = (int8_t)label;
  }
  return true;
}

// Without an arrow: the letters that occur once, in the order of the alphabet.
static bool implied_result(Einsum *e) {
  for (int c = 'A'; c <= 'z'; c++) {
    int count = 0, label = -1;
    for (int i = 0; i < e->letters; i++)
      if (e->letter[i] == c) label = i;
    for (int k = 0; label >= 0 && k < e->operands; k++) count += has_label(&e->in[k], label);
    if (count != 1) continue;
    if (e->out.count == MAX_RANK) return bad_spec(e, "the result would have more than 8 axes");
    e->out.at[e->out.count++] = (int8_t)label;
  }
  return true;
}

static bool read_spec(Einsum *e, const char *text) {
  for (;;) {
    if (e->operands == MAX_OPERANDS) return bad_spec(e, "more than 16 operands");
    if (!read_labels(e, &text, &e->in[e->operands++])) return false;
    if (*text != ',') break;
    text++;
  }
  if (!*text) return implied_result(e);
  int before = e->letters;
  if (text[1] != '>') return bad_spec(e, "expected `->` before the result's letters");
  text += 2;
  if (!read_labels(e, &text, &e->out)) return false;
  if (*text) return bad_spec(e, "an einsum has one result");
  return e->letters == before || bad_spec(e, "a letter of the result is in no operand");
}

// Checks the axes of an einsum's operands against its specification.
static bool check_extents(Einsum *e) {
  bool known[DOT_LABELS] = {false};
  for (int k = 0; k < e->operands; k++) {
    const Type *type = &e->v[k]->type;
    if (type->rank != e->in[k].count) {
      diag_error(e->l->diag, e->call->rest[k]->span, ERR_BAD_EINSUM,
                 "the einsum names %d axes of this operand, %s", e->in[k].count,
                 type_text(e->l, type));
      return false;
    }
    for (int i = 0; i < type->rank; i++) {
      int label = e->in[k].at[i];
      if (known[label] && e->extent[label] != type->dim[i]) {
        diag_error(e->l->diag, e->call->rest[k]->span, ERR_BAD_EINSUM,
                   "the axis `%c` is %s here and %s before", e->letter[label],
                   dim_text(e->l, type->dim[i]), dim_text(e->l, e->extent[label]));
        return false;
      }
      known[label] = true;
      e->extent[label] = type->dim[i];
    }
  }
  return true;
}

static Instr *single_operand(Einsum *e, DType dtype) {
  Lower *l = e->l;
  Span span = e->call->node->span;
  Instr *v = e->v[0];
  if (v->type.dtype != dtype) v = emit1(l, OP_CAST, with_dtype(v->type, dtype), span, v);
  Labels kept = {0};
  int64_t reduced = 0;
  for (int i = 0; i < e->in[0].count; i++) {
    if (has_label(&e->out, e->in[0].at[i]))
      kept.at[kept.count++] = e->in[0].at[i];
    else
      reduced |= INT64_C(1) << i;
  }
  v = reduce_axes(l, OP_REDUCE_SUM, v, reduced, false, span).instr;
  int perm[MAX_RANK];
  for (int i = 0; i < e->out.count; i++)
    for (int k = 0; k < kept.count; k++)
      if (kept.at[k] == e->out.at[i]) perm[i] = k;
  return transpose_to(l, v, perm, span);
}

// The labels that a product of the first `upto` operands must keep: those of later operands or of
// the result.
static bool needed_labels(Einsum *e, const Labels *a, const Labels *b, int upto, Labels *out) {
  *out = (Labels){0};
  for (int label = 0; label < e->letters; label++) {
    bool later = has_label(&e->out, label);
    for (int k = upto; k < e->operands; k++) later = later || has_label(&e->in[k], label);
    if (!later || (!has_label(a, label) && !has_label(b, label))) continue;
    if (out->count == MAX_RANK)
      return bad_spec(e, "an intermediate product would have more than 8 axes");
    out->at[out->count++] = (int8_t)label;
  }
  return true;
}

static Instr *chain(Einsum *e, DType accumulated, DType out) {
  Instr *v = e->v[0];
  Labels labels = e->in[0];
  for (int k = 1; k < e->operands; k++) {
    bool last = k == e->operands - 1;
    Labels product = e->out;
    if (!last && !needed_labels(e, &labels, &e->in[k], k + 1, &product)) return NULL;
    v = contract(e->l, v, &labels, e->v[k], &e->in[k], &product, last ? out : accumulated,
                 e->precision, e->call->node->span);
    labels = product;
  }
  return v;
}

// If dtypes differ: the products of some operands are multiplied by others.
static void widen_operands(Einsum *e, DType sums) {
  bool same = true;
  for (int k = 1; k < e->operands; k++) same &= e->v[k]->type.dtype == e->v[0]->type.dtype;
  for (int k = 0; k < e->operands && !same; k++)
    if (e->v[k]->type.dtype != sums)
      e->v[k] = emit1(e->l, OP_CAST, with_dtype(e->v[k]->type, sums), e->call->node->span, e->v[k]);
}

// The function einsum, as a sequence of contractions.
static Value lower_einsum(Lower *l, const Call *call) {
  Value spec = lower_expr(l, call->arg[0]);
  if (is_error(spec)) return spec;
  Einsum *e = NEW(l->arena, Einsum);
  *e = (Einsum){.l = l, .call = call, .spec = call->arg[0]};
  if (spec.kind != V_STRING) {
    bad_spec(e, "the first argument of einsum is a string such as \"ij,jk->ik\"");
    return value_error();
  }
  if (!read_spec(e, spec.text)) return value_error();
  if (e->operands != call->rest_count) {
    diag_error(l->diag, call->node->span, ERR_ARGUMENT_COUNT,
               "the einsum names %d operands, the call has %d", e->operands, call->rest_count);
    return value_error();
  }
  DType sums, out;
  for (int k = 0; k < e->operands; k++)
    if (!check_operand(l, call, call->rest[k], &e->v[k])) return value_error();
  if (!check_extents(e) || !mix_operands(l, call, e->v, e->operands, &sums) ||
      !lower_out(l, call->arg[2], sums, &out) || !lower_precision(l, call->arg[3], &e->precision))
    return value_error();
  if (e->operands > 2 && is_float(sums)) widen_operands(e, sums);
  if (e->operands > 1) return value_data(chain(e, sums, out));
  Instr *v = single_operand(e, sums);
  return value_data(
      v->type.dtype == out ? v : emit1(l, OP_CAST, with_dtype(v->type, out), call->node->span, v));
}

const Builtin dot_builtins[] = {
    {"dot", lower_dot, 0, "a b contract? batch? out? precision?"},
    {"einsum", lower_einsum, 0, "spec v+ out? precision?"},
    {0},
};
