// Would a kernel run on a TPU? The rules that Pallas' TPU lowering and the chips impose on the
// block IR (`check --tpu`).
//
// Rules: JAX, jax/_src/pallas/mosaic/lowering.py (blocks, operations, dtypes, loads and stores),
// and the chips' memories (chips.def). A finding has a code of the 07xx of dsl/errors.def, which
// names its rule.
#include <stdio.h>
#include <string.h>

#include "codegen/tpu/internal.h"

enum { NEVER = 1000 };

typedef enum {
#define RULE_GROUP(id, text) GROUP_##id,
#include "codegen/tpu/rules.def"
  GROUPS
} Group;

static const char *const group_texts[GROUPS] = {
#define RULE_GROUP(id, text) text,
#include "codegen/tpu/rules.def"
};

enum {
#define RULE_SOURCE(id, text) SOURCE_##id,
#include "codegen/tpu/rules.def"
  RULE_SOURCES
};

static const char *const rule_sources[RULE_SOURCES] = {
#define RULE_SOURCE(id, text) text,
#include "codegen/tpu/rules.def"
};

// The first generation that supports it; 0: there is no rule.
static const int first_generation[GROUPS][DT_COUNT] = {
#define RULE(group, dtype, since, source) [GROUP_##group][DT_##dtype] = since,
#include "codegen/tpu/rules.def"
};

static bool is_known(DType t) { return first_generation[GROUP_ARITHMETIC][t] > 0; }

void tpu_list_rules(Buf *out) {
  static const struct {
    Group group;
    DType dtype;
    int since, source;
  } rules[] = {
#define RULE(group, dtype, since, source) {GROUP_##group, DT_##dtype, since, SOURCE_##source},
#include "codegen/tpu/rules.def"
  };
  buf_puts(out, "rules of `pkc check --tpu`: the first generation that has it\n");
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    char since[16];
    snprintf(since, sizeof since, "%d", rules[i].since);
    buf_printf(out, "  %-9s %-47s %-5s %s\n", dtype_info[rules[i].dtype].name,
               group_texts[rules[i].group], rules[i].since == NEVER ? "never" : since,
               rule_sources[rules[i].source]);
  }
  tpu_list_products(out);
}

typedef struct {
  Kernel *k;
  const Chip *chip;
  const int64_t *sizes;
  Diag *diag;
  int generation;
  LIST(uint64_t) said;  // place and code of each finding: a place in an unrolled loop is named once
} Rules;

static bool is_new(Rules *r, Span span, ErrorCode code) {
  uint64_t key = (uint64_t)span.start << 32 | (uint64_t)code;
  for (int i = 0; i < r->said.count; i++)
    if (r->said.at[i] == key) return false;
  LIST_PUSH(r->k->arena, &r->said, key);
  return true;
}

#define FIND(r, span, code, ...) \
  (is_new(r, span, code) ? diag_error((r)->diag, span, code, __VA_ARGS__) : (void)0)
#define WARN(r, span, code, ...) \
  (is_new(r, span, code) ? diag_warning((r)->diag, span, code, __VA_ARGS__) : (void)0)

static int64_t extent_of(const Rules *r, Dim dim) {
  return dim_is_const(dim) ? dim : r->sizes[dim_size_index(dim)];
}

// ---- blocks

// The multiple of `tile` next to `block` that fits in the axis, or all of it.
static int64_t nearest_legal(int64_t block, int64_t tile, int64_t dim) {
  int64_t up = (block + tile - 1) / tile * tile, down = block / tile * tile;
  if (down > 0 && block - down <= up - block) return down;
  return up < dim ? up : dim;
}

static void check_block_axis(Rules *r, const Ref *ref, int axis, int64_t tile) {
  int64_t block = extent_of(r, ref->block[axis]), dim = extent_of(r, ref->array.dim[axis]);
  if (block == dim || block % tile == 0) return;
  FIND(r, ref->map_span.end ? ref->map_span : ref->span, ERR_TPU_TILE,
       "block of `%s`, axis %d: %lld elements are neither a multiple of %lld nor the whole axis of "
       "%lld; the nearest that is: "
       "%lld",
       ref->name, axis, (long long)block, (long long)tile, (long long)dim,
       (long long)nearest_legal(block, tile, dim));
}

static void check_vector_block(Rules *r, const Ref *ref) {
  int64_t block = extent_of(r, ref->block[0]), dim = extent_of(r, ref->array.dim[0]);
  int64_t lanes = (int64_t)r->chip->value[CHIP_LANES],
          sublanes = (int64_t)r->chip->value[CHIP_SUBLANES];
  int bits = dtype_info[ref->type.dtype].bits;
  int64_t least = lanes * (bits < 32 ? 32 / bits : 1);
  bool power = block > 0 && (block & (block - 1)) == 0 && block >= least;
  if (block == dim || block % (lanes * sublanes) == 0 || power) return;
  int64_t legal = least;
  while (legal < block) legal *= 2;
  FIND(r, ref->span, ERR_TPU_TILE,
       "block of `%s`: %lld elements of a vector are not a power of two from %lld on, a multiple "
       "of %lld, or all of %lld; the "
       "nearest that is: %lld",
       ref->name, (long long)block, (long long)least, (long long)(lanes * sublanes), (long long)dim,
       (long long)(legal < dim ? legal : dim));
}

static void check_block(Rules *r, const Ref *ref) {
  int rank = ref->array.rank;
  if (ref->space != SPACE_VMEM) return;
  if (rank == 0)
    FIND(r, ref->span, ERR_TPU_TILE,
         "`%s` has rank 0: a block in VMEM has at least one axis; `smem` takes scalars", ref->name);
  if (rank == 1) check_vector_block(r, ref);
  if (rank < 2) return;
  check_block_axis(r, ref, rank - 1, (int64_t)r->chip->value[CHIP_LANES]);
  check_block_axis(r, ref, rank - 2, 8);
}

static void check_pipeline(Rules *r, const Ref *ref) {
  if (ref->space == SPACE_ANY || ref->prefetch) return;
  if (ref->buffers > 2)
    FIND(r, ref->span, ERR_TPU_PIPELINE,
         "`%s` has %d buffers: the grid's pipeline has 1 or 2; `pipeline` in the body takes any "
         "number",
         ref->name, ref->buffers);
  if (ref->at == AT_SLICE)
    FIND(r, ref->map_span, ERR_TPU_PIPELINE,
         "`%s`: only a `pipeline` in the body moves slices of run-time length", ref->name);
  if (ref->revisit && ref->buffers != 1)
    FIND(r, ref->span, ERR_TPU_PIPELINE,
         "`%s` may be revisited and has %d buffers: it needs `buffers 1`", ref->name, ref->buffers);
}

// It runs, but the contents of the output depend on which core is faster.
static void warn_of_megacore(Rules *r, const Ref *ref) {
  if (r->chip->value[CHIP_MEGACORE] <= 0) return;
  for (int i = 0; i < r->k->grid.count; i++)
    if (ir_ignores_axis(r->k, ref, i))
      WARN(r, ref->map_span, ERR_TPU_MEGACORE,
           "the parallel axis `%s` does not move the blocks of `%s`: both cores of %s take "
           "its steps, and the last to finish writes them; make it arbitrary",
           r->k->grid.at[i].name, ref->name, r->chip->name);
}

int tpu_axis_to_share(const Kernel *k, const int64_t *sizes) {
  int found = -1;
  if (ir_grid_is_read(k)) return -1;
  for (int i = 0; i < k->grid.count; i++) {
    const GridAxis *axis = &k->grid.at[i];
    if (!axis->parallel && (found >= 0 || ir_why_in_order(k, i))) continue;
    if (eval_index(k, axis->extent, sizes, NULL, 0) < 2) continue;
    if (axis->parallel) return -1;
    found = i;
  }
  return found;
}

static void warn_of_idle_core(Rules *r) {
  const int axis = chip_cores(r->chip) > 1 ? tpu_axis_to_share(r->k, r->sizes) : -1;
  if (axis < 0) return;
  WARN(r, r->k->grid.at[axis].span, ERR_TPU_IDLE_CORE,
       "one core of %s executes all steps, though those along `%s` provably do not depend on each "
       "other: declare `%s` parallel (in Pallas, in dimension_semantics), and both cores execute "
       "them",
       r->chip->name, r->k->grid.at[axis].name, r->k->grid.at[axis].name);
}

static const char *known_dtype(DType t) { return is_float(t) ? "bf16 or f32" : "i32 or u32"; }

static void check_ref(Rules *r, const Ref *ref) {
  DType t = ref->type.dtype;
  if (is_wide(t) && ref->type.rank + ref->array.rank > 0)
    FIND(r, ref->span, ERR_TPU_DTYPE, "`%s`: a TPU has no arrays of %s; it has those of %s",
         ref->name, dtype_info[t].name, known_dtype(t));
  else if (ref->space != SPACE_SEM && ref->space != SPACE_VAR && !is_known(t))
    FIND(r, ref->span, ERR_TPU_DTYPE, "`%s`: %s is not a dtype of arrays on a TPU; %s is",
         ref->name, dtype_info[t].name, known_dtype(t));
  if (!ref_is_operand(ref)) return;
  check_block(r, ref);
  check_pipeline(r, ref);
  warn_of_megacore(r, ref);
}

// ---- memory

typedef struct {
  const Ref *ref;
  int64_t bytes;
} Held;

static int64_t held_bytes(const Rules *r, const Ref *ref) {
  int64_t dim[MAX_RANK], bytes;
  for (int i = 0; i < ref->type.rank; i++) dim[i] = extent_of(r, ref->type.dim[i]);
  bytes = tpu_padded_bytes(r->chip, ref->type.dtype, ref->type.rank, dim, NULL);
  return mul_i64(bytes, ref_is_operand(ref) ? ref->buffers : 1, &bytes) ? bytes : INT64_MAX;
}

static Values values_of(const Rules *r) {
  CostModel cost = cost_model(r->k->arena, r->k, r->chip, r->sizes);
  return find_values(&cost);
}

// Do the buffers in a memory fit?
static void check_budget(Rules *r, Space space, ChipField field, const char *name) {
  Held largest = {0};
  int64_t total = 0, limit = (int64_t)r->chip->value[field];
  for (int i = 0; i < r->k->refs.count; i++) {
    const Ref *ref = r->k->refs.at[i];
    if (ref->space != space) continue;
    int64_t bytes = held_bytes(r, ref);
    if (!add_i64(total, bytes, &total)) total = INT64_MAX;
    if (bytes > largest.bytes) largest = (Held){ref, bytes};
  }
  Values values = {0};
  if (space == SPACE_VMEM) values = values_of(r);
  if (space == SPACE_VMEM && r->k->vmem_limit && r->k->vmem_limit < limit) limit = r->k->vmem_limit;
  total = saturating_add(total, values.peak);
  if (total <= limit) return;
  FIND(r, r->k->span, ERR_TPU_BUDGET,
       "%s: %lld bytes of buffers%s in whole tiles, %lld more than the %lld of %s", name,
       (long long)total, values.at ? " and values" : "", (long long)(total - limit),
       (long long)limit, r->chip->name);
  if (values.at)
    diag_note(r->diag, values.at->span, "%lld bytes of values live after `%s`",
              (long long)values.peak, op_info[values.at->op].name);
  for (int i = 0; i < r->k->refs.count; i++) {
    const Ref *ref = r->k->refs.at[i];
    if (ref->space == space && held_bytes(r, ref) > 0)
      diag_note(r->diag, ref->span, "`%s`: %lld bytes%s%s", ref->name,
                (long long)held_bytes(r, ref),
                ref_is_operand(ref) && ref->buffers > 1 ? ", all its buffers together" : "",
                ref == largest.ref ? "; the largest: halve this block first" : "");
  }
}

// ---- operations

// The replacement for an operation that the tensor core does not support; NULL: it is supported.
static const char *way_out(Op op) {
  static const char *const instead[OP_COUNT] = {
      [OP_REDUCE_PROD] = "exp(reduce_sum(log(x))) for positive x, or a loop",
      [OP_REDUCE_XOR] = "a loop over slices of a ref",
      [OP_REV] = "a loop over slices of a ref",
      [OP_WINDOW] = "a window of a ref, x[ds(i, n)]",
      [OP_TAKE] = "take_along_axis on the last two axes, or a prefetched index in a block's map",
      [OP_CUMSUM] = "dot with a triangular matrix",
  };
  const char *text = element_info[op].instead ? element_info[op].instead : instead[op];
  if (text) return *text ? text : "its definition by exp or log";
  return op_info[op].class == OPC_SCAN ? "a loop over slices of a ref" : NULL;
}

static void check_supported(Rules *r, const Instr *v, DType t, Group group);

// take_along_axis: along the last two axes, within one register.
static void check_gather(Rules *r, const Instr *v) {
  const Type *from = &v->args[0]->type, *index = &v->args[1]->type;
  int axis = (int)v->ival, last = v->type.rank - 1;
  if (axis < last - 1) {
    FIND(r, v->span, ERR_TPU_OPERATION,
         "take_along_axis works along the last two axes, not along axis %d", axis);
    return;
  }
  check_supported(r, v, from->dtype, axis == last ? GROUP_GATHER_LANES : GROUP_GATHER_SUBLANES);
  int bits = dtype_info[from->dtype].bits;
  int64_t most = axis == last
                     ? (int64_t)r->chip->value[CHIP_LANES]
                     : (int64_t)r->chip->value[CHIP_SUBLANES] * (bits < 32 ? 32 / bits : 1),
          extent = extent_of(r, from->dim[axis]);
  if (extent > most)
    FIND(r, v->span, ERR_TPU_OPERATION,
         "take_along_axis reads %lld elements along axis %d: one vector register holds %lld",
         (long long)extent, axis, (long long)most);
  if (bits < 32 && dtype_info[index->dtype].bits != bits)
    FIND(r, v->span, ERR_TPU_DTYPE, "take_along_axis of %s takes indices of as many bits, not %s",
         dtype_info[from->dtype].name, dtype_info[index->dtype].name);
}

static void check_operation(Rules *r, const Instr *v) {
  const char *instead = way_out(v->op);
  if (instead)
    FIND(r, v->span, ERR_TPU_OPERATION, "`%s` is not supported on the tensor core; write %s",
         op_info[v->op].name, instead);
  if (v->op == OP_TAKE_ALONG) check_gather(r, v);
}

static void check_supported(Rules *r, const Instr *v, DType t, Group group) {
  int since = first_generation[group][t] ? first_generation[group][t] : NEVER;
  if (r->generation >= since) return;
  const char *instead = is_float(t)                                    ? "f32"
                        : group == GROUP_ARG_REDUCE                    ? "f32"
                        : is_integer(t) || group == GROUP_GATHER_LANES ? "i32"
                                                                       : "another dtype";
  const char *name = op_info[v->op].name, *dtype = dtype_info[t].name;
  if (since == NEVER)
    FIND(r, v->span, ERR_TPU_DTYPE, "%s of %s: no tensor core supports it; cast to %s first", name,
         dtype, instead);
  else if (t == DT_F32 || t == DT_I32)
    FIND(r, v->span, ERR_TPU_DTYPE, "%s of %s: supported from generation %d on, not on %s", name,
         dtype, since, r->chip->name);
  else
    FIND(r, v->span, ERR_TPU_DTYPE,
         "%s of %s: supported from generation %d on, not on %s; cast to %s first", name, dtype,
         since, r->chip->name, instead);
}

static bool is_sum(Op op) {
  return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_NEG || op == OP_SIGN ||
         op == OP_ABS || op == OP_MAX || op == OP_MIN;
}

static Group group_of(const Instr *v) {
  switch (op_info[v->op].class) {
    case OPC_REDUCE:
      return GROUP_REDUCE;
    case OPC_ARGREDUCE:
      return GROUP_ARG_REDUCE;
    case OPC_COMPARE:
      return GROUP_COMPARE;
    case OPC_UNARY:
    case OPC_BINARY:
    case OPC_TERNARY:
      return is_sum(v->op) ? GROUP_ADD : GROUP_ARITHMETIC;
    default:
      return GROUPS;
  }
}

// A value that consists of iotas and scalars is an index, which has 32 bits on a TPU.
static bool is_index(const Instr *v) {
  if (is_float(v->type.dtype)) return false;
  if (v->type.rank == 0 || v->op == OP_IOTA || v->op == OP_CONST) return true;
  if (v->nargs == 0 || v->op == OP_LOAD || v->op == OP_IF) return false;
  for (int i = 0; i < v->nargs; i++)
    if (!is_index(v->args[i])) return false;
  return true;
}

static bool is_too_wide(const Instr *v) {
  if (!is_wide(v->type.dtype)) return false;
  return v->type.dtype != DT_I64 || (v->op == OP_CAST && v->type.rank > 0 && !is_index(v->args[0]));
}

static void check_dtypes(Rules *r, const Instr *v) {
  if (has_result(v) && op_is_elementwise(v->op)) {
    if (is_too_wide(v))
      FIND(r, v->span, ERR_TPU_DTYPE, "%s gives %s: a TPU has lanes of 32 bits",
           op_info[v->op].name, dtype_info[v->type.dtype].name);
    else if (v->type.rank > 0 && !is_known(v->type.dtype))
      FIND(r, v->span, ERR_TPU_DTYPE, "%s gives %s, which is not a dtype of a TPU; %s is",
           op_info[v->op].name, dtype_info[v->type.dtype].name, known_dtype(v->type.dtype));
  }
  DType t = v->nargs ? v->args[0]->type.dtype : v->type.dtype;
  Group group = group_of(v);
  bool vectors = v->type.rank > 0 || group == GROUP_REDUCE || group == GROUP_ARG_REDUCE;
  if (group != GROUPS && vectors && is_known(t)) check_supported(r, v, t, group);
}

static const char *suggested(const Rules *r, DType a, DType b) {
  if (dtype_info[a].class == CLASS_UNSIGNED || dtype_info[b].class == CLASS_UNSIGNED)
    return "; cast to a signed dtype";
  if (!is_float(a) && !is_float(b) && chip_multiplies(r->chip, DT_I8, DT_I8))
    return "; cast both to i8";
  return chip_multiplies(r->chip, DT_BF16, DT_BF16) ? "; cast to bf16 or f32" : "; cast to f32";
}

static void check_product(Rules *r, const Instr *v) {
  DType a = v->args[0]->type.dtype, b = v->args[1]->type.dtype;
  if (!chip_multiplies(r->chip, a, b))
    FIND(r, v->span, ERR_TPU_DTYPE, "dot of %s and %s: the matrix unit of %s does not take them%s",
         dtype_info[a].name, dtype_info[b].name, r->chip->name, suggested(r, a, b));
}

// ---- loads, stores and copies

// Does a window start and end at whole tiles?
static void check_aligned(Rules *r, const Instr *v, const Ref *ref, const Window *w,
                          Instr *const *starts, const char *what) {
  int rank = ref->type.rank;
  for (int i = rank - 1; i >= 0 && i >= rank - 2; i--) {
    int64_t tile = i == rank - 1 ? (int64_t)r->chip->value[CHIP_LANES]
                                 : tpu_tile_sublanes(r->chip, ref->type.dtype);
    int64_t size = extent_of(r, w->size[i]), dim = extent_of(r, ref->type.dim[i]);
    if (size == dim && w->stride[i] == 1) continue;
    if (w->length[i]) {
      if (is_multiple(starts[i], tile, r->sizes) && is_multiple(ir_length(v, w, i), tile, r->sizes))
        continue;
      FIND(r, v->span, ERR_TPU_ALIGNMENT,
           "%s of `%s`, axis %d: its start and length are not known to be multiples of %lld", what,
           ref->name, i, (long long)tile);
      return;
    }
    bool placed = is_multiple(starts[i], tile, r->sizes);
    if (placed && size % tile == 0) continue;
    FIND(r, v->span, ERR_TPU_ALIGNMENT,
         "%s of `%s`, axis %d: %s; a slice of %s starts and ends at multiples of %lld", what,
         ref->name, i,
         placed ? arena_printf(r->k->arena, "%lld elements", (long long)size)
                : "its start is not known to be a multiple of the tile",
         dtype_info[ref->type.dtype].name, (long long)tile);
    return;
  }
}

// Rules that also apply to slices of 32-bit refs: no strides along lanes, and run-time offsets
// along lanes only in whole registers.
static void check_slice(Rules *r, const Instr *v, const char *verb) {
  const Ref *ref = v->ref;
  int last = ref->type.rank - 1;
  int64_t lanes = (int64_t)r->chip->value[CHIP_LANES],
          tile = last > 0 ? lanes : lanes * (int64_t)r->chip->value[CHIP_SUBLANES];
  int bits = dtype_info[ref->type.dtype].bits;
  for (int i = 0; i <= last; i++)
    if (v->window.stride[i] != 1 && bits != 32)
      FIND(r, v->span, ERR_TPU_ACCESS,
           "a strided %s takes 32-bit elements, not %s: widen `%s` or take the slice of a value",
           verb, dtype_info[ref->type.dtype].name, ref->name);
  if (v->window.stride[last] != 1)
    FIND(r, v->span, ERR_TPU_ACCESS, "a %s of `%s` has a stride along its last axis", verb,
         ref->name);
  const Instr *start = v->args[last];
  if (start->op == OP_CONST || is_multiple(start, tile, r->sizes)) return;
  if (extent_of(r, v->window.size[last]) == extent_of(r, ref->type.dim[last])) return;
  FIND(r, v->span, ERR_TPU_ALIGNMENT,
       "%s of `%s`, axis %d: its start is known only at run time, and not to be a multiple of %lld",
       verb, ref->name, last, (long long)tile);
}

// Can the chip execute a load or store?
static void check_access(Rules *r, const Instr *v) {
  const Ref *ref = v->ref;
  bool store = v->op == OP_STORE;
  const Type *t = store ? &ir_store_value(v)->type : &v->type;
  const char *verb = store ? "store" : "load";
  if (ref->space == SPACE_SMEM && t->rank > 0)
    FIND(r, v->span, ERR_TPU_ACCESS,
         "scalar memory is read and written by single elements: `%s` here %ss %d axes", ref->name,
         verb, t->rank);
  if (ref->space == SPACE_VMEM && t->rank == 0 && store)
    FIND(r, v->span, ERR_TPU_ACCESS,
         "a scalar is not stored to VMEM: write `%s[0:1, 0:1] = ..`, or declare `%s` in smem",
         ref->name, ref->name);
  if (v->flags & INSTR_MASKED && !store)
    FIND(r, v->span, ERR_TPU_ACCESS,
         "the tensor core has no masked loads: load the whole window, then where(mask, v, other)");
  if (v->flags & INSTR_MASKED && store && dtype_info[t->dtype].bits != 32)
    FIND(r, v->span, ERR_TPU_ACCESS, "a masked store takes 32-bit elements, not %s",
         dtype_info[t->dtype].name);
  if (ref->space == SPACE_VMEM && ref->type.rank > 0) check_slice(r, v, verb);
  if (ref->space == SPACE_VMEM && dtype_info[ref->type.dtype].bits < 32 && ref->type.rank > 0)
    check_aligned(r, v, ref, &v->window, v->args, verb);
}

static void check_copy(Rules *r, const Instr *v) {
  if (r->generation < 4)
    FIND(r, v->span, ERR_TPU_ACCESS, "a body can start copies from generation 4 on, not on %s",
         r->chip->name);
  if (v->ref->type.dtype == DT_BOOL)
    FIND(r, v->span, ERR_TPU_DTYPE, "a TPU has no copies of bool: hold masks in memory as i32");
  if (!v->chain) check_aligned(r, v, v->ref, &v->window, v->args, "a copy from a slice");
  if (!v->target_chain)
    check_aligned(r, v, v->target, &v->target_window, ir_starts(v, true), "a copy to a slice");
}

// Are two or more of the last axes together as long as `length`?
static bool ends_in(const Rules *r, const Type *t, int64_t length) {
  int64_t product = extent_of(r, t->dim[t->rank - 1]);
  for (int axis = t->rank - 2; axis >= 0 && product < length; axis--)
    product = saturating_mul(product, extent_of(r, t->dim[axis]));
  return product == length;
}

// The forms that JAX's tests of Mosaic have (tests/pallas/tpu_pallas_test.py, test_reshape_*): the
// last axis stays, takes in the axes before it, or is split; other axes change freely.
static void check_reshape(Rules *r, const Instr *v) {
  const Type *a = &v->args[0]->type, *b = &v->type;
  if (a->rank == 0 || b->rank == 0 || a->dim[a->rank - 1] == b->dim[b->rank - 1]) return;
  const int64_t from = extent_of(r, a->dim[a->rank - 1]), to = extent_of(r, b->dim[b->rank - 1]);
  if (from == 1 || to == 1)
    return;  // an axis that remains after a reduction, or that broadcasting requires
  const int64_t lanes = (int64_t)r->chip->value[CHIP_LANES];
  const bool folds = ends_in(r, a, to), splits = ends_in(r, b, from);
  if (!folds && !splits)
    FIND(r, v->span, ERR_TPU_LAYOUT,
         "a reshape may keep the last axis, fold the axes before it into it, or split it: this one "
         "does none of these; use two reshapes");
  else if (splits && to % lanes != 0 && r->generation < 5)
    FIND(r, v->span, ERR_TPU_LAYOUT,
         "a reshape that splits the last axis into parts of %lld lanes, which is not a multiple of "
         "%lld: supported from generation 5 on, not on %s",
         (long long)to, (long long)lanes, r->chip->name);
  else if (folds && b->rank == 1 && dtype_info[b->dtype].bits == 8 && r->generation < 5)
    FIND(r, v->span, ERR_TPU_LAYOUT,
         "a reshape of %s to one axis: supported from generation 5 on, not on %s",
         dtype_info[b->dtype].name, r->chip->name);
}

static void check_instr(Instr *v, void *context) {
  Rules *r = context;
  check_operation(r, v);
  check_dtypes(r, v);
  if (v->op == OP_DOT) check_product(r, v);
  if (v->op == OP_LOAD || v->op == OP_STORE) check_access(r, v);
  if (v->op == OP_COPY_START) check_copy(r, v);
  if (v->op == OP_RESHAPE) check_reshape(r, v);
}

static Rules rules_of(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag) {
  return (Rules){.k = k,
                 .chip = chip,
                 .sizes = sizes,
                 .diag = diag,
                 .generation = (int)chip->value[CHIP_GENERATION]};
}

int tpu_check(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag) {
  Rules rules = rules_of(k, chip, sizes, diag);
  int before = diag_error_count(diag);
  for (int i = 0; i < k->refs.count; i++) check_ref(&rules, k->refs.at[i]);
  check_budget(&rules, SPACE_VMEM, CHIP_VMEM_BYTES, "VMEM");
  check_budget(&rules, SPACE_SMEM, CHIP_SMEM_BYTES, "SMEM");
  ir_walk(k->body, check_instr, &rules);
  warn_of_idle_core(&rules);
  return diag_error_count(diag) - before;
}

static void check_instr_dtypes(Instr *v, void *context) {
  check_dtypes(context, v);
  if (v->op == OP_DOT) check_product(context, v);
}

int tpu_check_dtypes(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag) {
  Rules rules = rules_of(k, chip, sizes, diag);
  int before = diag_error_count(diag);
  ir_walk(k->body, check_instr_dtypes, &rules);
  return diag_error_count(diag) - before;
}
