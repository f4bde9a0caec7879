// conv: a convolution as a sum of products, one for each place in its window.
#include "codegen/lower/ops/ops.h"

#include <string.h>

enum { MAX_SPATIAL = MAX_RANK - 3 };

// x [N, spatial.., C] and w [window.., C / groups, O].
typedef struct {
  Lower *l;
  const Call *call;
  Instr *x, *w;
  int spatial;
  int64_t stride[MAX_SPATIAL], dilation[MAX_SPATIAL], low[MAX_SPATIAL], high[MAX_SPATIAL], groups;
  Dim out[MAX_SPATIAL];
  bool sizes;  // of a reference: axes of run-time size
  DType dtype;
  Precision precision;
} Conv;

static bool refuse(const Conv *c, const Node *node, const char *what) {
  diag_error(c->l->diag, (node ? node : c->call->node)->span, ERR_SHAPE_MISMATCH,
             "conv of %s and %s: %s", type_text(c->l, &c->x->type), type_text(c->l, &c->w->type),
             what);
  return false;
}

// A number for each spatial axis; one number stands for all.
static bool lower_numbers(Conv *c, const Node *node, const char *what, int64_t *out) {
  int count = 1;
  for (int i = 0; i < c->spatial; i++) out[i] = 1;
  if (!node) return true;
  if (!lower_int_list(c->l, node, what, out, MAX_SPATIAL, &count)) return false;
  for (int i = 1; count == 1 && i < c->spatial; i++) out[i] = out[0];
  for (int i = 0; i < c->spatial; i++)
    if ((count != 1 && count != c->spatial) || out[i] < 1 || out[i] > INT32_MAX) {
      diag_error(c->l->diag, node->span, ERR_BAD_ARGUMENT,
                 "%s must be a positive number, or one for each of %d axes", what, c->spatial);
      return false;
    }
  return true;
}

// The elements from the first place of the window to the last.
static int64_t window_of(const Conv *c, int axis) {
  return (c->w->type.dim[axis] - 1) * c->dilation[axis] + 1;
}

// The argument `padding` of conv.
static bool lower_padding(Conv *c, const Node *node) {
  int count;
  bool list = node && (node->kind == N_TUPLE || node->kind == N_ARRAY);
  for (int i = 0; i < c->spatial; i++) c->low[i] = c->high[i] = 0;
  if (!node) return true;
  if (!list || node->list.count != c->spatial) {
    Value text = list ? value_error() : lower_expr(c->l, node);
    if (text.kind == V_STRING && strcmp(text.text, "valid") == 0) return true;
    if (text.kind != V_STRING || strcmp(text.text, "same") != 0)
      return refuse(c, node,
                    "`padding` must be \"same\", \"valid\", or a pair for each spatial axis");
    for (int i = 0; i < c->spatial; i++) {
      int64_t n = c->x->type.dim[1 + i], window = window_of(c, i);
      if (!dim_is_const(n) && c->stride[i] != 1)
        return refuse(c, node, "\"same\" with a stride requires axes of constant length");
      if (!dim_is_const(n)) n = window;
      int64_t out = (n + c->stride[i] - 1) / c->stride[i],
              all = (out - 1) * c->stride[i] + window - n;
      c->low[i] = all > 0 ? all / 2 : 0;
      c->high[i] = all > 0 ? all - all / 2 : 0;
    }
    return true;
  }
  for (int i = 0; i < c->spatial; i++) {
    int64_t pair[2];
    if (!lower_int_list(c->l, node->list.at[i], "a pad width", pair, 2, &count)) return false;
    if (count != 2 || pair[0] < 0 || pair[1] < 0 || pair[0] > INT32_MAX || pair[1] > INT32_MAX)
      return refuse(c, node, "a pad width must be a pair (before, after) from 0 on");
    c->low[i] = pair[0];
    c->high[i] = pair[1];
  }
  return true;
}

static bool check_shapes(Conv *c) {
  const Type *x = &c->x->type, *w = &c->w->type;
  c->spatial = x->rank - 2;
  if (x->rank != w->rank || x->rank < 3 || c->spatial > MAX_SPATIAL)
    return refuse(c, NULL,
                  "x is [batch, .., channels] and w [window.., channels, features], of one to 5 "
                  "spatial axes");
  bool reference = c->l->place == IN_REFERENCE;
  for (int i = 0; i < x->rank; i++) {
    if (i > 0 && !dim_is_const(x->dim[i]) && !reference)
      return refuse(c, NULL, "all axes of x except the batch must have constant lengths");
    if (!dim_is_const(w->dim[i]) && (i < c->spatial || !reference))
      return refuse(c, NULL,
                    reference ? "the window must have a constant size"
                              : "all axes of w must have constant lengths");
    c->sizes = c->sizes || (reference && (!dim_is_const(x->dim[i]) || !dim_is_const(w->dim[i])));
  }
  return true;
}

static bool check_groups(const Conv *c) {
  const Type *x = &c->x->type, *w = &c->w->type;
  Dim channels = x->dim[x->rank - 1], taps = w->dim[w->rank - 2], features = w->dim[w->rank - 1];
  bool sizes = !dim_is_const(channels) || !dim_is_const(taps) || !dim_is_const(features);
  if (sizes && c->groups != 1)
    return refuse(c, NULL, "groups require constant numbers of channels and features");
  if (sizes ? channels == taps
            : c->groups >= 1 && channels == taps * c->groups && features % c->groups == 0)
    return true;
  return refuse(c, NULL,
                "x must have `groups` times the channels of w, and the number of features must be "
                "a multiple of `groups`");
}

// (n + pad - window) / stride + 1; calls for which that is not the number of places are refused.
static Dim places_at_call(Conv *c, int axis) {
  Lower *l = c->l;
  Span span = c->call->node->span;
  int64_t more = c->low[axis] + c->high[axis] - window_of(c, axis);
  Dim n = c->x->type.dim[1 + axis];
  if (c->stride[axis] == 1) return shifted_dim(l, n, more + 1, span);
  if (more < 0)
    require_at_call(l, OP_GE, &(Type){.rank = 1, .dim = {n}}, &(Type){.rank = 1, .dim = {-more}},
                    span, "conv: the window fits into the padded axis");
  Frame frame;
  Dim room = shifted_dim(l, n, more, span);
  const char *text = dim_text(l, room);
  const char *name = arena_printf(l->arena, strchr(text, ' ') ? "(%s) / %lld + 1" : "%s / %lld + 1",
                                  text, (long long)c->stride[axis]);
  int known = size_index(l, name);
  if (known >= 0) return dim_of_size(known);
  Region *region = enter_region(l, &frame);
  Instr *stride = index_const(l, c->stride[axis], span),
        *steps = index_op(l, OP_DIV, dim_value(l, room, span), stride, span);
  yield_from(l, index_op(l, OP_ADD, steps, index_const(l, 1, span), span), span);
  leave_region(l);
  return dim_of_size(add_derived_size(l, intern(name), span, region));
}

static bool check_window(Conv *c) {
  int64_t places = 1;
  for (int i = 0; i < c->spatial; i++) {
    int64_t window = window_of(c, i), n = c->x->type.dim[1 + i], room = n + c->low[i] + c->high[i];
    if (!dim_is_const(n))
      c->out[i] = c->w->type.dim[i] ? places_at_call(c, i) : 0;
    else
      c->out[i] = c->w->type.dim[i] && room >= window ? (room - window) / c->stride[i] + 1 : 0;
    places *= c->w->type.dim[i] < MAX_UNROLL ? c->w->type.dim[i] : MAX_UNROLL;
    if (places > MAX_UNROLL) return refuse(c, NULL, "the window has too many positions");
  }
  return check_groups(c);
}

static Instr *padded(Conv *c) {
  Type type = c->x->type;
  for (int i = 0; i < c->spatial; i++) type.dim[1 + i] += c->low[i] + c->high[i];
  if (type_same_shape(&type, &c->x->type)) return c->x;
  Expand e = {c->l, c->call->node->span, {0}};
  Instr *v = emit2(c->l, OP_PAD, type, c->call->node->span, c->x, expand_number(&e, type.dtype, 0));
  for (int i = 0; i < c->spatial; i++) v->ints[1 + i] = c->low[i], v->ints2[1 + i] = c->high[i];
  return v;
}

// The part of x under one position of the window, as [rows, groups, channels].
static Instr *seen(Conv *c, Instr *x, const int64_t *at, const Type *rows) {
  Type type = x->type;
  for (int i = 0; i < c->spatial; i++) type.dim[1 + i] = c->out[i];
  Instr *v = emit1(c->l, OP_SLICE, type, c->call->node->span, x);
  for (int k = 0; k < type.rank; k++) {
    bool spatial = k >= 1 && k <= c->spatial;
    v->ints[k] = spatial ? at[k - 1] * c->dilation[k - 1] : 0;
    v->ints2[k] = spatial ? c->stride[k - 1] : 1;
  }
  return reshape_to(c->l, v, rows, c->call->node->span);
}

static Instr *weights(Conv *c, const int64_t *at, const Type *shape) {
  Type type = c->w->type;
  for (int i = 0; i < c->spatial; i++) type.dim[i] = 1;
  Instr *v = emit1(c->l, OP_SLICE, type, c->call->node->span, c->w);
  for (int k = 0; k < type.rank; k++) v->ints[k] = k < c->spatial ? at[k] : 0, v->ints2[k] = 1;
  return reshape_to(c->l, v, shape, c->call->node->span);
}

// [rows, channels] x [channels, features], or with an axis of groups: "rgc,cgf->rgf".
static Instr *product(Conv *c, Instr *x, Instr *w, const Type *out) {
  Instr *dot =
      emit2(c->l, OP_DOT, with_dtype(*out, dtype_accum(x->type.dtype)), c->call->node->span, x, w);
  const int8_t plain[3][3] = {{0, 1}, {1, 2}, {0, 2}},
               grouped[3][3] = {{0, 1, 2}, {2, 1, 3}, {0, 1, 3}};
  for (int i = 0; i < out->rank; i++) {
    dot->labels.a[i] = out->rank == 3 ? grouped[0][i] : plain[0][i];
    dot->labels.b[i] = out->rank == 3 ? grouped[1][i] : plain[1][i];
    dot->labels.out[i] = out->rank == 3 ? grouped[2][i] : plain[2][i];
  }
  return with_precision(c->l, dot, c->precision);
}

// A convolution as the sum, over the taps of the kernel, of products of shifted inputs with the
// weights of that tap.
static Value sum_of_products(Conv *c) {
  Span span = c->call->node->span;
  const Type *w = &c->w->type;
  int64_t channels = w->dim[w->rank - 2], features = w->dim[w->rank - 1], pixels = 1, places = 1;
  bool whole = dim_is_const(c->x->type.dim[0]), groups = c->groups > 1;
  Type result = {.dtype = dtype_accum(c->dtype), .rank = c->x->type.rank};
  result.dim[0] = c->x->type.dim[0];
  for (int i = 0; i < c->spatial; i++) {
    result.dim[1 + i] = c->out[i];
    pixels *= c->out[i];
    places *= w->dim[i];
  }
  result.dim[result.rank - 1] = features;
  Type rows = {.dtype = c->dtype}, taps = {.dtype = c->dtype}, out = {0};
  if (!whole && pixels != 1)
    return refuse(c, NULL, "a batch of run-time size requires outputs of one position"),
           value_error();
  Dim first = whole ? c->x->type.dim[0] * pixels : c->x->type.dim[0];
  rows.rank = taps.rank = out.rank = groups ? 3 : 2;
  rows.dim[0] = out.dim[0] = first;
  if (groups) rows.dim[1] = taps.dim[1] = out.dim[1] = c->groups;
  rows.dim[rows.rank - 1] = taps.dim[0] = channels;
  taps.dim[taps.rank - 1] = out.dim[out.rank - 1] = features / c->groups;
  Instr *x = padded(c), *sum = NULL;
  Expand e = {c->l, span, out};
  int64_t at[MAX_SPATIAL] = {0};
  for (int64_t i = 0; i < places && pixels > 0; i++) {
    Instr *tap = weights(c, at, &taps), *term = product(c, seen(c, x, at, &rows), tap, &out);
    sum = sum ? expand2(&e, OP_ADD, sum, term) : term;
    for (int k = c->spatial - 1; k >= 0 && ++at[k] == w->dim[k]; k--) at[k] = 0;
  }
  if (!sum) sum = expand_number(&e, result.dtype, 0);
  return value_data(reshape_to(c->l, sum, &result, span));
}

// ---- axes of run-time size, in references

// [.., channels] x [channels, features], with an axis of groups between if there are several.
static Instr *product_along(Conv *c, Instr *x, Instr *w) {
  Span span = c->call->node->span;
  int rank = c->x->type.rank, last = c->groups > 1 ? rank : rank - 1;
  Type out = with_dtype(x->type, dtype_accum(c->dtype));
  out.dim[last] = w->type.dim[w->type.rank - 1];
  Instr *dot = emit2(c->l, OP_DOT, out, span, x, w);
  for (int i = 0; i < last; i++) dot->labels.a[i] = dot->labels.out[i] = (int8_t)i;
  dot->labels.a[last] = dot->labels.b[0] = (int8_t)last;
  dot->labels.out[last] = dot->labels.b[w->type.rank - 1] = (int8_t)(last + 1);
  if (c->groups > 1) dot->labels.b[1] = (int8_t)(last - 1);
  return with_precision(c->l, dot, c->precision);
}

static Instr *seen_at_call(Conv *c, const int64_t *at, Instr *zero) {
  Span span = c->call->node->span;
  Instr *v = c->x;
  for (int i = 0; i < c->spatial; i++)
    v = take_places(c->l, v, 1 + i, c->out[i], c->stride[i], at[i] * c->dilation[i] - c->low[i],
                    zero, span);
  if (c->groups == 1) return v;
  Type type = v->type;
  int64_t channels = type.dim[type.rank - 1];
  type.dim[type.rank - 1] = c->groups;
  type.dim[type.rank++] = channels / c->groups;
  return reshape_to(c->l, v, &type, span);
}

// A convolution along axes of run-time size, as a sum over the positions of the window.
static Value sum_at_call(Conv *c) {
  Lower *l = c->l;
  Span span = c->call->node->span;
  const Type *w = &c->w->type;
  Dim features = w->dim[w->rank - 1];
  Type taps = {.dtype = c->dtype, .rank = 2, .dim = {w->dim[w->rank - 2], features}};
  Type result = with_dtype(c->x->type, dtype_accum(c->dtype));
  int64_t places = 1, at[MAX_SPATIAL] = {0};
  if (c->groups > 1 && result.rank == MAX_RANK)
    return refuse(c, NULL, "groups allow at most 4 spatial axes of run-time size"), value_error();
  if (c->groups > 1)
    taps =
        (Type){.dtype = c->dtype, .rank = 3, .dim = {taps.dim[0], c->groups, features / c->groups}};
  for (int i = 0; i < c->spatial; i++) {
    result.dim[1 + i] = c->out[i];
    places *= w->dim[i];
  }
  result.dim[result.rank - 1] = features;
  Expand e = {l, span, {0}};
  Instr *zero = expand_number(&e, c->dtype, 0), *sum = NULL;
  for (int64_t i = 0; i < places; i++) {
    Instr *tap = weights(c, at, &taps), *term = product_along(c, seen_at_call(c, at, zero), tap);
    sum = sum ? emit2(l, OP_ADD, term->type, span, sum, term) : term;
    for (int k = c->spatial - 1; k >= 0 && ++at[k] == w->dim[k]; k--) at[k] = 0;
  }
  if (!sum) return value_data(broadcast_to(l, expand_number(&e, result.dtype, 0), &result, span));
  return value_data(reshape_to(l, sum, &result, span));
}

// The function conv.
static Value lower_conv(Lower *l, const Call *call) {
  Conv c = {.l = l, .call = call, .groups = 1};
  Value both[2] = {lower_expr(l, call->arg[0]), lower_expr(l, call->arg[1])};
  if (is_error(both[0]) || is_error(both[1])) return value_error();
  c.x = data_of(l, both[0], call->arg[0]->span);
  c.w = c.x ? convert(l, both[1], c.x->type.dtype, call->arg[1]->span, "conv") : NULL;
  if (!c.w || !check_shapes(&c)) return value_error();
  c.dtype = c.x->type.dtype;
  if (c.dtype == DT_BOOL) return refuse(&c, NULL, "these are bools; cast them"), value_error();
  DType out = dtype_accum(c.dtype);
  if (!lower_numbers(&c, call->arg[2], "`strides`", c.stride) ||
      !lower_numbers(&c, call->arg[4], "`dilation`", c.dilation))
    return value_error();
  if (!lower_padding(&c, call->arg[3])) return value_error();
  if (call->arg[5] && !lower_static_int(l, call->arg[5], "`groups`", &c.groups))
    return value_error();
  if (call->arg[6] && !lower_dtype(l, call->arg[6], &out)) return value_error();
  if (!lower_precision(l, call->arg[7], &c.precision)) return value_error();
  if (!check_window(&c)) return value_error();
  Value sum = c.sizes ? sum_at_call(&c) : sum_of_products(&c);
  if (is_error(sum) || sum.instr->type.dtype == out) return sum;
  return value_data(
      emit1(l, OP_CAST, with_dtype(sum.instr->type, out), call->node->span, sum.instr));
}

const Builtin conv_builtins[] = {
    {"conv", lower_conv, 0, "x w strides? padding? dilation? groups? out? precision?"},
    {0},
};
