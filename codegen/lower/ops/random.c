// Random numbers: counter-based generators composed of operations on u32, as jax.random defines
// them. An element depends only on the key and on its place in the whole array.
#include "codegen/lower/ops/ops.h"

#include <string.h>

typedef struct {
  Instr *word[2];
} Key;  // two u32 scalars

typedef struct {
  Lower *l;
  const Call *call;
  Key key;
  bool philox;
  Type shape;
  Instr *count[2];  // of each element: its index in the whole array, 64 bits, the upper half first
} Draw;

enum { WORDS = 4 };

// ---- the generators: from key and counter, all of one shape

static Instr *rotate_left(const Expand *e, Instr *v, int places) {
  Instr *low = expand_shift(e, OP_USHR, v, 32 - places), *high = expand_shift(e, OP_SHL, v, places);
  return expand2(e, OP_OR, high, low);
}

// Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3": 20 rounds of
// Threefry-2x32.
static void threefry(const Expand *e, const Key *key, Instr **x) {
  static const int distances[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Instr *k[3] = {key->word[0], key->word[1], NULL}, *parity = expand_int(e, DT_U32, 0x1BD11BDA);
  k[2] = expand2(e, OP_XOR, expand2(e, OP_XOR, k[0], k[1]), parity);
  for (int i = 0; i < 2; i++) x[i] = expand2(e, OP_ADD, x[i], k[i]);
  for (int group = 0; group < 5; group++) {
    for (int round = 0; round < 4; round++) {
      x[0] = expand2(e, OP_ADD, x[0], x[1]);
      x[1] = expand2(e, OP_XOR, x[0], rotate_left(e, x[1], distances[group % 2][round]));
    }
    x[0] = expand2(e, OP_ADD, x[0], k[(group + 1) % 3]);
    Instr *bumped = expand2(e, OP_ADD, k[(group + 2) % 3], expand_int(e, DT_U32, group + 1));
    x[1] = expand2(e, OP_ADD, x[1], bumped);
  }
}

// The same paper's Philox-4x32, 10 rounds.
static void philox(const Expand *e, const Key *key, Instr **x) {
  Instr *k[2] = {key->word[0], key->word[1]},
        *factor[2] = {expand_int(e, DT_U32, 0xD2511F53), expand_int(e, DT_U32, 0xCD9E8D57)};
  for (int round = 0; round < 10; round++) {
    if (round > 0) {
      k[0] = expand2(e, OP_ADD, k[0], expand_int(e, DT_U32, 0x9E3779B9));
      k[1] = expand2(e, OP_ADD, k[1], expand_int(e, DT_U32, 0xBB67AE85));
    }
    Instr *low[2], *high[2];
    for (int i = 0; i < 2; i++) {
      low[i] = expand2(e, OP_MUL, factor[i], x[2 * i]);
      high[i] = expand_mulhi(e, factor[i], x[2 * i]);
    }
    x[0] = expand2(e, OP_XOR, expand2(e, OP_XOR, high[1], x[1]), k[0]);
    x[2] = expand2(e, OP_XOR, expand2(e, OP_XOR, high[0], x[3]), k[1]);
    x[1] = low[1];
    x[3] = low[0];
  }
}

// The two first words that the generator makes of a counter; what jax.random derives keys with.
static Key hash(const Expand *e, bool is_philox, const Key *key, Instr *upper, Instr *lower) {
  Instr *zero = expand_int(e, DT_U32, 0), *x[WORDS] = {upper, lower, upper, lower};
  Key spread = *key;
  for (int i = 0; i < 2; i++) spread.word[i] = broadcast_to(e->l, key->word[i], &e->shape, e->span);
  if (is_philox) {
    x[0] = x[1] = zero;
    philox(e, &spread, x);
  } else {
    threefry(e, &spread, x);
  }
  return (Key){{x[0], x[1]}};
}

static Instr *bits_of_counter(const Draw *d, const Expand *e) {
  Instr *zero = expand_int(e, DT_U32, 0), *x[WORDS] = {d->count[0], d->count[1], zero, zero};
  Key key = d->key;
  for (int i = 0; i < 2; i++) key.word[i] = broadcast_to(e->l, key.word[i], &e->shape, e->span);
  if (!d->philox) {
    threefry(e, &key, x);
    return expand2(e, OP_XOR, x[0], x[1]);
  }
  philox(e, &key, x);
  Instr *last = expand2(e, OP_XOR, x[2], x[3]), *first = expand2(e, OP_XOR, x[0], x[1]);
  return expand2(e, OP_XOR, first, last);
}

// ---- keys: values u32[2]

static Expand scalar(Lower *l, Span span) { return (Expand){l, span, type_scalar(DT_U32)}; }

static Instr *word_of(Lower *l, Instr *v, int i, Span span) {
  Type one = {.dtype = DT_U32, .rank = 1, .dim = {1}}, none = type_scalar(DT_U32);
  if (v->op == OP_CONCAT && v->nargs == 2 && v->args[i]->type.dim[0] == 1)
    return reshape_to(l, v->args[i], &none, span);
  Instr *slice = emit1(l, OP_SLICE, one, span, v);
  slice->ints[0] = i;
  slice->ints2[0] = 1;
  return reshape_to(l, slice, &none, span);
}

static bool lower_key(Lower *l, const Node *node, Key *key) {
  Instr *v = lower_array(l, node);
  if (!v) return false;
  if (v->type.dtype != DT_U32 || v->type.rank != 1 || v->type.dim[0] != 2) {
    diag_error(l->diag, node->span, ERR_BAD_ARGUMENT,
               "a key is u32[2], as random_key gives it, not %s", type_text(l, &v->type));
    return false;
  }
  for (int i = 0; i < 2; i++) key->word[i] = word_of(l, v, i, node->span);
  return true;
}

// The words side by side along a new last axis.
static Instr *join_words(Lower *l, const Key *key, Span span) {
  Type one = key->word[0]->type, both;
  one.dim[one.rank++] = 1;
  both = one;
  both.dim[one.rank - 1] = 2;
  Instr *parts[2];
  for (int i = 0; i < 2; i++) parts[i] = reshape_to(l, key->word[i], &one, span);
  Instr *joined = emit(l, OP_CONCAT, both, span, 2, parts);
  joined->ival = one.rank - 1;
  return joined;
}

static bool lower_impl(Lower *l, const Node *node, bool *is_philox) {
  *is_philox = false;
  if (!node) return true;
  Value v = lower_expr(l, node);
  if (is_error(v)) return false;
  *is_philox = v.kind == V_STRING && strcmp(v.text, "philox4x32") == 0;
  if (*is_philox || (v.kind == V_STRING && strcmp(v.text, "threefry2x32") == 0)) return true;
  diag_error(l->diag, node->span, ERR_BAD_ARGUMENT, "`impl` is \"threefry2x32\" or \"philox4x32\"");
  return false;
}

// An integer scalar as u32: its low 32 bits.
static Instr *lower_word(Lower *l, const Node *node) {
  Instr *v = lower_index(l, node);
  Expand e = scalar(l, node->span);
  return v ? expand_cast(&e, v, DT_U32) : NULL;
}

static Value lower_random_key(Lower *l, const Call *call) {
  bool is_philox;
  Expand e = scalar(l, call->node->span);
  Instr *seed = lower_word(l, call->arg[0]), *zero = expand_int(&e, DT_U32, 0);
  if (!seed || !lower_impl(l, call->arg[1], &is_philox)) return value_error();
  Key key = {{zero, seed}};
  if (is_philox) {
    Instr *x[WORDS] = {zero, seed, zero, zero};
    philox(&e, &(Key){{zero, zero}}, x);
    key = (Key){{x[0], x[1]}};
  }
  return value_data(join_words(l, &key, call->node->span));
}

static Value lower_fold_in(Lower *l, const Call *call) {
  Key key;
  bool is_philox;
  Expand e = scalar(l, call->node->span);
  Instr *data;
  if (!lower_key(l, call->arg[0], &key) || !(data = lower_word(l, call->arg[1])) ||
      !lower_impl(l, call->arg[2], &is_philox))
    return value_error();
  Key folded = hash(&e, is_philox, &key, expand_int(&e, DT_U32, 0), data);
  return value_data(join_words(l, &folded, call->node->span));
}

static Value lower_random_split(Lower *l, const Call *call) {
  Key key;
  bool is_philox;
  int64_t n = 2;
  Span span = call->node->span;
  if (!lower_key(l, call->arg[0], &key) || !lower_impl(l, call->arg[2], &is_philox))
    return value_error();
  if (call->arg[1] && !lower_static_int(l, call->arg[1], "the number of keys", &n))
    return value_error();
  if (n < 1 || n > INT32_MAX) {
    diag_error(l->diag, call->arg[1]->span, ERR_BAD_ARGUMENT,
               "the number of keys is from 1 to 2^31-1");
    return value_error();
  }
  Expand e = {l, span, {.rank = 1, .dim = {n}}};
  Instr *index = emit(l, OP_IOTA, with_dtype(e.shape, DT_U32), span, 0, NULL);
  Key keys = hash(&e, is_philox, &key, expand_int(&e, DT_U32, 0), index);
  return value_data(join_words(l, &keys, span));
}

// ---- counters

// Element counts that stay below 2^32 need no upper half.
static bool fits_word(const Type *whole) {
  int64_t all = 1;
  for (int k = 0; k < whole->rank; k++)
    if (!dim_is_const(whole->dim[k]) || !mul_i64(all, whole->dim[k], &all)) return false;
  return all <= INT64_C(1) << 32;
}

// start (one an axis, i64) + index, as a place in the row-major whole.
static void count_in_word(Draw *d, const Expand *e, const Type *whole, Instr *const *starts) {
  Lower *l = d->l;
  Expand one = {l, e->span, type_scalar(DT_I64)};
  Instr *base = expand_int(&one, DT_I64, 0), *sum = NULL;
  int64_t stride = 1;
  for (int k = d->shape.rank - 1; k >= 0; k--) {
    base = expand2(&one, OP_ADD, base,
                   expand2(&one, OP_MUL, starts[k], expand_int(&one, DT_I64, stride)));
    if (d->shape.dim[k] != 1) {
      Instr *index = emit(l, OP_IOTA, with_dtype(e->shape, DT_U32), e->span, 0, NULL);
      index->ival = k;
      if (stride != 1)
        index = expand2(e, OP_MUL, index, expand_int(e, DT_U32, (int64_t)(uint32_t)stride));
      sum = sum ? expand2(e, OP_ADD, sum, index) : index;
    }
    stride *= whole->dim[k];
  }
  Instr *first = broadcast_to(l, expand_cast(&one, base, DT_U32), &e->shape, e->span);
  d->count[0] = expand_int(e, DT_U32, 0);
  d->count[1] = sum ? expand2(e, OP_ADD, first, sum) : first;
}

// In 64 bits for all axes but the last, along which the lower half may carry.
static void count_in_two_words(Draw *d, const Expand *e, const Type *whole, Instr *const *starts) {
  Lower *l = d->l;
  int last = d->shape.rank - 1;
  Expand rows = {l, e->span, d->shape}, one = {l, e->span, type_scalar(DT_I64)};
  rows.shape.dim[last] = 1;
  Instr *base = broadcast_to(l, starts[last], &rows.shape, e->span),
        *stride = dim_value(l, whole->dim[last], e->span);
  for (int k = last - 1; k >= 0; k--) {
    Instr *index = emit(l, OP_IOTA, with_dtype(rows.shape, DT_I64), e->span, 0, NULL);
    index->ival = k;
    index = expand2(&rows, OP_ADD, index, broadcast_to(l, starts[k], &rows.shape, e->span));
    base = expand2(&rows, OP_ADD, base,
                   expand2(&rows, OP_MUL, index, broadcast_to(l, stride, &rows.shape, e->span)));
    stride = expand2(&one, OP_MUL, stride, dim_value(l, whole->dim[k], e->span));
  }
  Instr *upper = expand_cast(&rows, expand_shift(&rows, OP_SHR, base, 32), DT_U32),
        *lower = expand_cast(&rows, base, DT_U32);
  Instr *index = emit(l, OP_IOTA, with_dtype(e->shape, DT_U32), e->span, 0, NULL);
  index->ival = last;
  lower = broadcast_to(l, lower, &e->shape, e->span);
  d->count[1] = expand2(e, OP_ADD, lower, index);
  Instr *carry = expand_cast(e, expand2(e, OP_LT, d->count[1], lower), DT_U32);
  d->count[0] = expand2(e, OP_ADD, broadcast_to(l, upper, &e->shape, e->span), carry);
}

static bool lower_whole(Draw *d, const Node *total, const Node *at, Type *whole, Instr **starts) {
  Lower *l = d->l;
  bool list = at && (at->kind == N_TUPLE || at->kind == N_ARRAY);
  *whole = d->shape;
  if (total && !lower_shape(l, total, whole)) return false;
  if (whole->rank != d->shape.rank || (list && at->list.count != whole->rank) ||
      (at && !list && whole->rank != 1)) {
    diag_error(l->diag, d->call->node->span, ERR_RANK_MISMATCH,
               "`at` and `total` have a number for each axis of %s", shape_text(l, &d->shape));
    return false;
  }
  for (int k = 0; k < whole->rank; k++)
    if (!(starts[k] = !at ? ir_const_int(l->k, l->frame->region, DT_I64, 0, d->call->node->span)
                          : lower_index(l, list ? at->list.at[k] : at)))
      return false;
  return true;
}

// ---- samples: arguments key, shape, dtype, then at, total and impl from `first` on

static bool begin(Lower *l, const Call *call, int first, Draw *d) {
  Type whole;
  Instr *starts[MAX_RANK];
  *d = (Draw){.l = l, .call = call};
  if (!lower_key(l, call->arg[0], &d->key) || !lower_shape(l, call->arg[1], &d->shape))
    return false;
  if (!lower_impl(l, call->arg[first + 2], &d->philox)) return false;
  if (!lower_whole(d, call->arg[first + 1], call->arg[first], &whole, starts)) return false;
  Expand e = {l, call->node->span, d->shape};
  if (fits_word(&whole))
    count_in_word(d, &e, &whole, starts);
  else
    count_in_two_words(d, &e, &whole, starts);
  return true;
}

static Value lower_random_bits(Lower *l, const Call *call) {
  Draw d;
  DType t = DT_U32;
  if (call->arg[2] && !lower_dtype(l, call->arg[2], &t)) return value_error();
  if (t != DT_U32 && t != DT_U16 && t != DT_U8) {
    diag_error(l->diag, call->arg[2]->span, ERR_DTYPE_UNSUPPORTED,
               "random bits are u8, u16 or u32, not %s", dtype_info[t].name);
    return value_error();
  }
  if (!begin(l, call, 3, &d)) return value_error();
  Expand e = {l, call->node->span, d.shape};
  return value_data(expand_cast(&e, bits_of_counter(&d, &e), t));
}

static bool float_dtype(Lower *l, const Node *node, DType *t) {
  *t = DT_F32;
  if (!node) return true;
  if (!lower_dtype(l, node, t)) return false;
  if (has_arithmetic(*t) && !is_wide(*t)) return true;
  diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED,
             "random numbers are of a float dtype of up to 32 bits, not %s", dtype_info[*t].name);
  return false;
}

// In [0, 1): the upper bits as the fraction of a number in [1, 2).
static Instr *unit(const Draw *d, const Expand *e, DType t) {
  int width = dtype_info[t].bits, fraction = dtype_precision(t) - 1,
      bits = fraction < 8 ? 8 : width;
  Instr *v = bits_of_counter(d, e);
  if (bits < 32) v = expand2(e, OP_AND, v, expand_int(e, DT_U32, (INT64_C(1) << bits) - 1));
  int64_t one = (int64_t)(1 - dtype_least_exponent(t)) << fraction;
  Instr *exponent = expand_int(e, DT_U32, one);
  v = expand2(e, OP_OR, expand_shift(e, OP_USHR, v, bits - fraction), exponent);
  v = expand_bits(e, expand_cast(e, v, unsigned_of_width(width)), t);
  return expand2(e, OP_SUB, v, expand_float(e, t, 1));
}

static Instr *between(const Expand *e, Instr *v, Instr *least, Instr *most) {
  Instr *scaled = expand2(e, OP_MUL, v, expand2(e, OP_SUB, most, least));
  return expand2(e, OP_MAX, least, expand2(e, OP_ADD, scaled, least));
}

// The function random_uniform.
static Value lower_random_uniform(Lower *l, const Call *call) {
  Draw d;
  DType t;
  Instr *bound[2];
  if (!float_dtype(l, call->arg[2], &t) || !begin(l, call, 5, &d)) return value_error();
  Expand e = {l, call->node->span, d.shape};
  for (int i = 0; i < 2; i++) {
    const Node *node = call->arg[3 + i];
    Value v = node ? lower_expr(l, node) : value_int(i);
    if (is_error(v) ||
        !(bound[i] = convert(l, v, t, node ? node->span : call->node->span, "a bound")))
      return value_error();
    if (!can_broadcast(&bound[i]->type, &d.shape)) {
      diag_error(l->diag, node->span, ERR_SHAPE_MISMATCH, "a bound of shape %s does not fit %s",
                 shape_text(l, &bound[i]->type), shape_text(l, &d.shape));
      return value_error();
    }
    bound[i] = broadcast_to(l, bound[i], &d.shape, call->node->span);
  }
  Instr *v = unit(&d, &e, t);
  return value_data(call->arg[3] || call->arg[4] ? between(&e, v, bound[0], bound[1]) : v);
}

// By the inverse of the distribution: sqrt(2) erf_inv of a number in (-1, 1).
static Value lower_random_normal(Lower *l, const Call *call) {
  Draw d;
  DType t;
  if (!float_dtype(l, call->arg[2], &t) || !begin(l, call, 3, &d)) return value_error();
  Expand e = {l, call->node->span, d.shape};
  double least = -1 + dtype_spacing(t) / 2;
  Instr *above = expand_float(&e, t, 1), *below = expand_float(&e, t, least),
        *v = expand1(&e, OP_ERF_INV, between(&e, unit(&d, &e, t), below, above));
  return value_data(expand2(&e, OP_MUL, expand_float(&e, t, 1.4142135623730951), v));
}

static Value lower_random_bernoulli(Lower *l, const Call *call) {
  Draw d;
  if (!begin(l, call, 3, &d)) return value_error();
  Expand e = {l, call->node->span, d.shape};
  Value p = call->arg[2] ? lower_expr(l, call->arg[2]) : value_float(0.5);
  DType t = p.kind == V_DATA && has_arithmetic(p.instr->type.dtype) ? p.instr->type.dtype : DT_F32;
  Instr *chance = is_error(p) ? NULL : convert(l, p, t, call->node->span, "a probability");
  if (!chance) return value_error();
  if (!can_broadcast(&chance->type, &d.shape)) {
    diag_error(l->diag, call->arg[2]->span, ERR_SHAPE_MISMATCH,
               "a probability of shape %s does not fit %s", shape_text(l, &chance->type),
               shape_text(l, &d.shape));
    return value_error();
  }
  chance = broadcast_to(l, chance, &d.shape, call->node->span);
  return value_data(expand2(&e, OP_LT, unit(&d, &e, t), chance));
}

const Builtin random_builtins[] = {
    {"random_key", lower_random_key, 0, "seed impl?"},
    {"random_fold_in", lower_fold_in, 0, "key data impl?"},
    {"random_split", lower_random_split, 0, "key n? impl?"},
    {"random_bits", lower_random_bits, 0, "key shape dtype? at? total? impl?"},
    {"random_uniform", lower_random_uniform, 0,
     "key shape dtype? minval? maxval? at? total? impl?"},
    {"random_normal", lower_random_normal, 0, "key shape dtype? at? total? impl?"},
    {"random_bernoulli", lower_random_bernoulli, 0, "key shape p? at? total? impl?"},
    {0},
};
