// Built-in functions on the bits of elements, and other elementwise ones that are composed of
// simpler operations.
#include "codegen/lower/ops/ops.h"
#include "codegen/ir/array.h"

static Value wants(Lower *l, const Call *call, const Instr *v, const char *what) {
  diag_error(l->diag, call->node->span, ERR_DTYPE_UNSUPPORTED, "%s requires %s, and this is %s",
             call->builtin->name, what, type_text(l, &v->type));
  return value_error();
}

// The two first arguments as one dtype and shape.
static bool lower_both(Lower *l, const Call *call, Instr **v) {
  Value both[2];
  for (int i = 0; i < 2; i++) both[i] = lower_expr(l, call->arg[i]);
  if (is_error(both[0]) || is_error(both[1])) return false;
  if (both[0].kind != V_DATA && both[1].kind != V_DATA) {
    Instr *data = data_of(l, both[0], call->arg[0]->span);
    if (!data) return false;
    both[0] = value_data(data);
  }
  return unify(l, both, 2, call->node->span, call->builtin->name, v);
}

// ---- powers and rounding

// By repeated squaring, as a compiler of fixed exponents does.
static Instr *power(const Expand *e, Instr *v, uint64_t n) {
  Instr *result = NULL;
  for (Instr *base = v;; base = expand2(e, OP_MUL, base, base)) {
    if (n & 1) result = result ? expand2(e, OP_MUL, result, base) : base;
    if (!(n >>= 1)) break;
  }
  return result ? result : expand_number(e, v->type.dtype, 1);
}

static Value lower_power(Lower *l, const Call *call) {
  int64_t n = 2;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || (call->arg[1] && !lower_static_int(l, call->arg[1], "an exponent", &n)))
    return value_error();
  if (v->type.dtype == DT_BOOL) return wants(l, call, v, "numbers");
  if (n < -1024 || n > 1024 || (n < 0 && !is_float(v->type.dtype))) {
    diag_error(l->diag, call->arg[1]->span, ERR_BAD_ARGUMENT, "an exponent must be from %d to 1024",
               is_float(v->type.dtype) ? -1024 : 0);
    return value_error();
  }
  Expand e = expand_like(l, v, call->node->span);
  Instr *result = power(&e, v, (uint64_t)(n < 0 ? -n : n));
  return value_data(n < 0 ? expand1(&e, OP_RECIP, result) : result);
}

// To the nearest integer, ties away from zero: the part that truncation removes is exact.
static Value lower_round_half_away(Lower *l, const Call *call) {
  Instr *v = lower_array(l, call->arg[0]);
  if (!v) return value_error();
  if (!has_arithmetic(v->type.dtype)) return wants(l, call, v, "floats");
  Expand e = expand_like(l, v, call->node->span);
  DType t = v->type.dtype;
  Instr *whole = expand1(&e, OP_TRUNC, v),
        *rest = expand1(&e, OP_ABS, expand2(&e, OP_SUB, v, whole));
  Instr *up = expand2(&e, OP_ADD, whole, expand1(&e, OP_SIGN, v));
  return value_data(
      expand_select(&e, expand2(&e, OP_GE, rest, expand_float(&e, t, 0.5)), up, whole));
}

// ---- the bits of floats

static DType bits_dtype(const Instr *v) { return signed_of_width(dtype_info[v->type.dtype].bits); }

static Value lower_copysign(Lower *l, const Call *call) {
  Instr *v[2];
  if (!lower_both(l, call, v)) return value_error();
  if (!has_arithmetic(v[0]->type.dtype)) return wants(l, call, v[0], "floats");
  Expand e = expand_like(l, v[0], call->node->span);
  // 0 and NaN have no sign in FNUZ.
  DType t = v[0]->type.dtype, wide = dtype_info[t].special == SPECIAL_FNUZ ? DT_F32 : t;
  Instr *a = expand_cast(&e, v[0], wide), *b = expand_cast(&e, v[1], wide);
  DType i = bits_dtype(a);
  Instr *others = expand_int(&e, i, dtype_max(i)),
        *size = expand2(&e, OP_AND, expand_bits(&e, a, i), others);
  Instr *highest = expand_int(&e, i, dtype_min(i)),
        *sign = expand2(&e, OP_AND, expand_bits(&e, b, i), highest);
  return value_data(expand_cast(&e, expand_bits(&e, expand2(&e, OP_OR, size, sign), wide), t));
}

static Value lower_signbit(Lower *l, const Call *call) {
  Instr *v = lower_array(l, call->arg[0]);
  if (!v) return value_error();
  if (!has_arithmetic(v->type.dtype)) return wants(l, call, v, "floats");
  Expand e = expand_like(l, v, call->node->span);
  DType i = bits_dtype(v);
  Instr *zero = expand_int(&e, i, 0);
  return value_data(expand2(&e, OP_LT, expand_bits(&e, v, i), zero));
}

// The neighbour of a towards b: for one sign, the order of the bits is that of the values.
static Value lower_nextafter(Lower *l, const Call *call) {
  Instr *v[2];
  if (!lower_both(l, call, v)) return value_error();
  DType t = v[0]->type.dtype;
  if (!has_arithmetic(t)) return wants(l, call, v[0], "floats");
  Expand e = expand_like(l, v[0], call->node->span);
  DType i = bits_dtype(v[0]);
  Instr *a = v[0], *b = v[1], *zero = expand_float(&e, t, 0), *one = expand_int(&e, i, 1);
  Instr *bits = expand_bits(&e, a, i), *highest = expand_int(&e, i, dtype_min(i)),
        *sign = expand2(&e, OP_AND, expand_bits(&e, b, i), highest);
  Instr *positive = expand2(&e, OP_GT, a, zero),
        *outwards = expand2(&e, OP_EQ, expand2(&e, OP_LT, a, b), positive);
  Instr *step = expand2(&e, OP_ADD, bits, expand_select(&e, outwards, one, expand_int(&e, i, -1)));
  Instr *least = expand2(&e, OP_OR, sign, one),
        *next = expand_select(&e, expand2(&e, OP_EQ, a, zero), least, step);
  if (dtype_info[t].special == SPECIAL_FNUZ) {  // from the least number to zero, which has no sign
    Instr *lost = expand2(&e, OP_EQ, next, expand_int(&e, i, dtype_min(i)));
    next = expand_select(&e, lost, expand_int(&e, i, 0), next);
  }
  Instr *right = expand1(&e, OP_ISNAN, b),
        *nan = expand2(&e, OP_OR, expand1(&e, OP_ISNAN, a), right);
  Instr *neighbour = expand_bits(&e, next, t),
        *result = expand_select(&e, expand2(&e, OP_EQ, a, b), b, neighbour);
  return value_data(
      expand_select(&e, nan, expand_float(&e, t, (double)__builtin_nanf("")), result));
}

// f32 to a narrower float, upwards as often as the bits dropped are great against a random number:
// it is added to them, and they are cut off. Below the target's normal numbers more bits are
// dropped.
static Value lower_stochastic_round(Lower *l, const Call *call) {
  DType to;
  Instr *v = lower_array(l, call->arg[0]), *random = lower_array(l, call->arg[1]);
  if (!v || !random || !lower_dtype(l, call->arg[2], &to)) return value_error();
  if (v->type.dtype != DT_F32 || !is_narrow_float(to) || is_scale(to))
    return wants(l, call, v, "f32 values and a narrower float dtype");
  if (random->type.dtype != DT_U32 || !can_broadcast(&random->type, &v->type)) {
    diag_error(l->diag, call->arg[1]->span, ERR_SHAPE_MISMATCH,
               "the random bits must be u32 of the shape of the values, not %s",
               type_text(l, &random->type));
    return value_error();
  }
  Expand e = expand_like(l, v, call->node->span);
  random = broadcast_to(l, random, &v->type, call->node->span);
  Instr *bits = expand_bits(&e, v, DT_U32),
        *size = expand2(&e, OP_AND, bits, expand_int(&e, DT_U32, INT32_MAX));
  Instr *exponent = expand_shift(&e, OP_USHR, size, 23),
        *least = expand_int(&e, DT_U32, 127 + dtype_least_exponent(to));
  Instr *low = expand2(&e, OP_SUB, least, expand2(&e, OP_MIN, exponent, least));
  Instr *most = expand_int(&e, DT_U32, 31),
        *normal = expand_int(&e, DT_U32, 24 - dtype_precision(to)),
        *drop = expand2(&e, OP_MIN, expand2(&e, OP_ADD, low, normal), most);
  Instr *one = expand_int(&e, DT_U32, 1), *power = expand_int(&e, DT_U32, 1),
        *mask = expand2(&e, OP_SUB, expand2(&e, OP_SHL, power, drop), one);
  Instr *sum = expand2(&e, OP_ADD, bits, expand2(&e, OP_AND, random, mask));
  Instr *cut = expand_bits(&e, expand2(&e, OP_AND, sum, expand1(&e, OP_NOT, mask)), DT_F32);
  return value_data(expand_cast(&e, expand_select(&e, expand1(&e, OP_ISFINITE, v), cut, v), to));
}

// ---- integers

// The upper half of the product: of 32 bits by halves, of fewer by way of 32.
static Instr *high_product(const Expand *e, Instr *a, Instr *b) {
  Instr *half = expand_int(e, DT_U32, 0xffff);
  Instr *al = expand2(e, OP_AND, a, half), *bl = expand2(e, OP_AND, b, half);
  Instr *ah = expand_shift(e, OP_USHR, a, 16), *bh = expand_shift(e, OP_USHR, b, 16);
  Instr *low = expand_shift(e, OP_USHR, expand2(e, OP_MUL, al, bl), 16);
  Instr *first = expand2(e, OP_ADD, expand2(e, OP_MUL, ah, bl), low);
  Instr *carried = expand2(e, OP_AND, first, half),
        *second = expand2(e, OP_ADD, expand2(e, OP_MUL, al, bh), carried);
  Instr *rest = expand_shift(e, OP_USHR, first, 16),
        *high = expand2(e, OP_ADD, expand2(e, OP_MUL, ah, bh), rest);
  return expand2(e, OP_ADD, high, expand_shift(e, OP_USHR, second, 16));
}

Instr *expand_mulhi(const Expand *e, Instr *a, Instr *b) {
  DType t = a->type.dtype;
  bool is_signed = dtype_info[t].class == CLASS_SIGNED;
  if (dtype_info[t].bits < 32) {
    DType wide = is_signed ? DT_I32 : DT_U32;
    Instr *right = expand_cast(e, b, wide),
          *product = expand2(e, OP_MUL, expand_cast(e, a, wide), right);
    return expand_cast(e, expand_shift(e, OP_SHR, product, dtype_info[t].bits), t);
  }
  Instr *right = expand_bits(e, b, DT_U32),
        *high = high_product(e, expand_bits(e, a, DT_U32), right);
  if (!is_signed) return high;
  Instr *zero = expand_int(e, t, 0), *r = expand_bits(e, high, t);
  r = expand2(e, OP_SUB, r, expand_select(e, expand2(e, OP_LT, a, zero), b, zero));
  return expand2(e, OP_SUB, r, expand_select(e, expand2(e, OP_LT, b, zero), a, zero));
}

static Value lower_mulhi(Lower *l, const Call *call) {
  Instr *v[2];
  if (!lower_both(l, call, v)) return value_error();
  if (!is_integer(v[0]->type.dtype) || is_wide(v[0]->type.dtype))
    return wants(l, call, v[0], "integers of up to 32 bits");
  Expand e = expand_like(l, v[0], call->node->span);
  return value_data(expand_mulhi(&e, v[0], v[1]));
}

// ---- several narrow elements in one

static bool packing(Lower *l, const Call *call, const Node *node, DType wide, DType *packed,
                    int *count) {
  if (!lower_dtype(l, node, packed)) return false;
  int bits = dtype_info[*packed].bits, room = dtype_info[wide].bits;
  *count = room / bits;
  if (*packed != DT_BOOL && room % bits == 0 && room > bits && room <= 32) return true;
  diag_error(l->diag, node->span, ERR_DTYPE_UNSUPPORTED, "%s: %s does not hold several %s",
             call->builtin->name, dtype_info[wide].name, dtype_info[*packed].name);
  return false;
}

// pack_elementwise: several values in the bits of one word.
static Value lower_pack(Lower *l, const Call *call) {
  Value values[8];
  Instr *v[8], *word = NULL;
  DType packed;
  int count = call->rest_count, wanted;
  for (int i = 0; i < count && i < 8; i++)
    if (is_error(values[i] = lower_expr(l, call->rest[i]))) return value_error();
  if (count > 8 || !unify(l, values, count, call->node->span, call->builtin->name, v))
    return value_error();
  DType t = v[0]->type.dtype;
  if (!packing(l, call, call->arg[1], t, &packed, &wanted)) return value_error();
  if (is_float(t) != is_float(packed) || count != wanted) {
    diag_error(l->diag, call->node->span, ERR_ARGUMENT_COUNT,
               "pack_elementwise puts %d values of %s into one of %s, and these are %d", wanted,
               dtype_info[packed].name, dtype_info[t].name, count);
    return value_error();
  }
  Expand e = expand_like(l, v[0], call->node->span);
  for (int i = 0; i < count; i++) {
    Instr *part = expand_shift(&e, OP_SHL, narrow_bits(&e, v[i], packed, dtype_info[t].bits),
                               i * dtype_info[packed].bits);
    word = word ? expand2(&e, OP_OR, word, part) : part;
  }
  return value_data(word);
}

static Value lower_unpack(Lower *l, const Call *call) {
  DType packed, to;
  int64_t index;
  int count;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_static_int(l, call->arg[1], "the place of the element", &index))
    return value_error();
  if (!packing(l, call, call->arg[2], v->type.dtype, &packed, &count) ||
      !lower_dtype(l, call->arg[3], &to))
    return value_error();
  if (index < 0 || index >= count) {
    diag_error(l->diag, call->arg[1]->span, ERR_INDEX_RANGE,
               "%s holds %d of %s: their indices are 0 to %d", dtype_info[v->type.dtype].name,
               count, dtype_info[packed].name, count - 1);
    return value_error();
  }
  Expand e = expand_like(l, v, call->node->span);
  return value_data(expand_cast(&e, narrow_part(&e, v, packed, (int)index), to));
}

// ---- bitcast

static Value lower_bitcast(Lower *l, const Call *call) {
  DType dtype;
  Type type;
  Value v = lower_expr(l, call->arg[0]);
  bool good = lower_dtype(l, call->arg[1], &dtype);
  Instr *data = is_error(v) ? NULL : data_of(l, v, call->arg[0]->span);
  if (!data || !good || !check_bitcast(l, &data->type, dtype, true, call->node->span, &type))
    return value_error();
  return value_data(bitcast_to(l, data, dtype, call->node->span));
}

const Builtin bits_builtins[] = {
    {"square", lower_power, 0, "v"},
    {"integer_pow", lower_power, 0, "v n"},
    {"round_half_away", lower_round_half_away, 0, "v"},
    {"copysign", lower_copysign, 0, "a b"},
    {"signbit", lower_signbit, 0, "v"},
    {"nextafter", lower_nextafter, 0, "a b"},
    {"stochastic_round", lower_stochastic_round, 0, "v random dtype"},
    {"mulhi", lower_mulhi, 0, "a b"},
    {"pack_elementwise", lower_pack, 0, "v+ dtype"},
    {"unpack_elementwise", lower_unpack, 0, "v index packed dtype"},
    {"bitcast", lower_bitcast, 0, "v dtype"},
    {0},
};
