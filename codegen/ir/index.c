// Index arithmetic: sizes, requirements, grid extents, index maps.
#include "codegen/ir/index.h"
#include "codegen/ir/scalar.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  const Kernel *k;
  const int64_t *sizes, *axes;
  int64_t *values;  // by id - first
  int first, last;
  const Instr *clamped;
} IndexEval;

static void find_ids(const Region *region, int *first, int *last) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (instr->id < *first) *first = instr->id;
    if (instr->id > *last) *last = instr->id;
    for (int r = 0; r < 2; r++)
      if (instr->regions[r]) find_ids(instr->regions[r], first, last);
  }
}

static int64_t eval_unary(const Instr *instr, int64_t a) {
  if (instr->op == OP_CAST && instr->type.dtype == DT_BOOL) return a != 0;
  if (instr->op == OP_CAST || instr->op == OP_BITCAST) return wrap_int(instr->type.dtype, a);
  return int_unary(instr->op, instr->type.dtype, a);
}

static const Region *run_index_region(IndexEval *eval, const Region *region);

int64_t prefetched_element(const Instr *load, const int64_t *arg, bool *outside) {
  const HostArray *array = load->ref->prefetched;
  int64_t at = 0, count;
  bool masked = load->flags & INSTR_MASKED, inside = true;
  REQUIRE(array && array_elements(array, &count));
  for (int i = 0; i < array->rank; i++) {
    int64_t last = array->dim[i] - 1;
    if (arg[i] < 0 || arg[i] > last) inside = false;
    at = at * array->dim[i] + (arg[i] > last ? last : arg[i] < 0 ? 0 : arg[i]);
  }
  if (!inside && (!masked || arg[array->rank])) *outside = true;
  if (masked && !(inside && arg[array->rank]))
    return load->flags & INSTR_OTHER ? arg[array->rank + 1] : 0;
  return count > 0 ? array_get_int(array, at) : 0;
}

static int64_t eval_load(IndexEval *eval, const Instr *load) {
  int64_t arg[MAX_RANK + 2];
  bool outside = false;
  for (int i = 0; i < load->nargs; i++) arg[i] = eval->values[load->args[i]->id - eval->first];
  int64_t value = prefetched_element(load, arg, &outside);
  if (outside && !eval->clamped) eval->clamped = load;
  return value;
}

int64_t eval_pure(const Instr *instr, const int64_t *arg) {
  if (instr->op == OP_SELECT) return arg[0] ? arg[1] : arg[2];
  switch (op_info[instr->op].class) {
    case OPC_UNARY:
    case OPC_CAST:
      return eval_unary(instr, arg[0]);
    case OPC_BINARY:
      return int_binary(instr->op, instr->type.dtype, arg[0], arg[1]);
    case OPC_COMPARE:
      return int_compare(instr->op, instr->args[0]->type.dtype, arg[0], arg[1]);
    default:
      INTERNAL("%s in index arithmetic", op_info[instr->op].name);
  }
}

static int64_t eval_instr(IndexEval *eval, const Instr *instr) {
  int64_t arg[3] = {0, 0, 0};
  for (int i = 0; i < instr->nargs && i < 3; i++)
    arg[i] = eval->values[instr->args[i]->id - eval->first];
  switch (instr->op) {
    case OP_CONST:
      return instr->ival;
    case OP_SIZE:
      return eval->sizes[instr->ival];
    case OP_AXIS:
      REQUIRE(eval->axes);
      return eval->axes[instr->ival];
    case OP_EXTENT:
      return eval_index(eval->k, eval->k->grid.at[instr->ival].extent, eval->sizes, NULL, 0);
    case OP_LOAD:
      return eval_load(eval, instr);
    default:
      return eval_pure(instr, arg);
  }
}

// Returns the region, whose last instruction is its yield.
static const Region *run_index_region(IndexEval *eval, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *instr = region->instrs.at[i];
    if (instr->op == OP_YIELD) break;
    int64_t *value = &eval->values[instr->id - eval->first];
    if (instr->op != OP_IF) {
      *value = eval_instr(eval, instr);
      continue;
    }
    const Region *taken = instr->regions[eval->values[instr->args[0]->id - eval->first] ? 0 : 1];
    run_index_region(eval, taken);
    *value = eval->values[ir_yielded(taken, 0)->id - eval->first];
  }
  return region;
}

const Instr *eval_region(const Kernel *k, const Region *region, const int64_t *sizes,
                         const int64_t *axes, int64_t *results) {
  enum { USUAL = 64 };
  int64_t usual[USUAL];
  IndexEval eval = {k, sizes, axes, usual, INT32_MAX, 0, NULL};
  find_ids(region, &eval.first, &eval.last);
  size_t count = eval.last >= eval.first ? (size_t)(eval.last - eval.first) + 1 : 1;
  if (count > USUAL) eval.values = calloc(count, sizeof *eval.values);
  if (!eval.values) INTERNAL("no memory for %zu index values", count);
  run_index_region(&eval, region);
  // The map of an operand of rank 0 yields nothing.
  const Instr *yield = region->instrs.count ? region->instrs.at[region->instrs.count - 1] : NULL;
  for (int i = 0; yield && yield->op == OP_YIELD && i < yield->nargs; i++)
    results[i] = eval.values[yield->args[i]->id - eval.first];
  if (count > USUAL) free(eval.values);
  return eval.clamped;
}

int64_t eval_index(const Kernel *k, const Region *region, const int64_t *sizes, const int64_t *axes,
                   int result) {
  int64_t usual[MAX_INDEX];
  const Instr *yield = region->instrs.at[region->instrs.count - 1];
  REQUIRE(result >= 0 && result < yield->nargs);
  if (yield->nargs <= MAX_INDEX) {
    eval_region(k, region, sizes, axes, usual);
    return usual[result];
  }
  int64_t *many = calloc((size_t)yield->nargs, sizeof *many);
  if (!many) INTERNAL("no memory for %d index values", yield->nargs);
  eval_region(k, region, sizes, axes, many);
  int64_t value = many[result];
  free(many);
  return value;
}

int64_t ceil_div(int64_t a, int64_t b) { return b <= 0 ? 0 : a / b + (a % b > 0); }

bool operand_shape(const Kernel *k, const Ref *operand, const int64_t *sizes, HostArray *shape) {
  (void)k;
  const Type *type = &operand->array;
  int64_t count;
  shape->dtype = type->dtype;
  shape->rank = type->rank;
  for (int i = 0; i < type->rank; i++) {
    shape->dim[i] = resolve_dim(sizes, type->dim[i]);
    if (shape->dim[i] < 0 || shape->dim[i] > INT32_MAX) return false;
  }
  return array_elements(shape, &count);
}

// ---- a launch

// Extents of a block are constants or sizes; a block takes whole tiles.
int64_t vmem_bytes(const Ref *ref, const int64_t *sizes) {
  const Type *t = ref->declared ? ref->declared : &ref->type;
  if (ref->space != SPACE_VMEM && ref->space != SPACE_VAR) return 0;
  int64_t bytes = dtype_bytes(t->dtype);
  for (int i = 0; i < t->rank; i++) {
    int64_t n = resolve_dim(sizes, t->dim[i]);
    int64_t tile = i == t->rank - 1 ? TILE_LANES : i == t->rank - 2 ? tile_sublanes(t->dtype) : 1;
    if (!mul_i64(bytes, ceil_div(n, tile) * tile, &bytes)) return INT64_MAX;
  }
  if (is_part_of_byte(t->dtype) && t->rank) bytes = ceil_div(bytes, 8 / dtype_info[t->dtype].bits);
  return !mul_i64(bytes, ref->buffers > 1 ? ref->buffers : 1, &bytes) ? INT64_MAX : bytes;
}

static void list_sizes(const Kernel *k, const int64_t *sizes, Buf *out) {
  for (int i = 0; i < k->sizes.count; i++)
    buf_printf(out, "%s%s = %lld", i ? ", " : " (", k->sizes.at[i].name, (long long)sizes[i]);
  if (k->sizes.count) buf_putc(out, ')');
}

static const char *refuse(Kernel *k, const int64_t *sizes, const char *format, ...)
    PRINTF_LIKE(3, 4);
static const char *refuse(Kernel *k, const int64_t *sizes, const char *format, ...) {
  Buf text = {0};
  va_list args;
  va_start(args, format);
  buf_vprintf(&text, format, args);
  va_end(args);
  list_sizes(k, sizes, &text);
  return arena_take(k->arena, &text);
}

static const char *check_operand_shape(Kernel *k, const Ref *operand, const int64_t *sizes) {
  HostArray shape;
  if (operand_shape(k, operand, sizes, &shape)) return NULL;
  for (int i = 0; i < operand->array.rank; i++) {
    int64_t extent = resolve_dim(sizes, operand->array.dim[i]);
    if (extent < 0 || extent > INT32_MAX)
      return refuse(k, sizes, "axis %d of operand `%s` has %lld elements; an axis has 0 to %d", i,
                    operand->name, (long long)extent, INT32_MAX);
  }
  return refuse(k, sizes, "operand `%s` is too large", operand->name);
}

static const char *check_grid(Kernel *k, const int64_t *sizes) {
  int64_t steps = 1;
  for (int i = 0; i < k->grid.count; i++) {
    int64_t extent = eval_index(k, k->grid.at[i].extent, sizes, NULL, 0);
    if (extent < 0)
      return refuse(k, sizes, "grid axis `%s` has the negative extent %lld", k->grid.at[i].name,
                    (long long)extent);
    if (!mul_i64(steps, extent, &steps))
      return refuse(k, sizes, "the grid has more than 2^63 steps");
  }
  return NULL;
}

const char *derive_sizes(Kernel *k, int64_t *sizes) {
  for (int i = 0; i < k->sizes.count; i++) {
    const Size *size = &k->sizes.at[i];
    if (size->value) sizes[i] = eval_index(k, size->value, sizes, NULL, 0);
    if (sizes[i] < 0)
      return arena_printf(k->arena, "size `%s` is %lld, which is negative", size->name,
                          (long long)sizes[i]);
  }
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    const char *message = check_operand_shape(k, k->refs.at[i], sizes);
    if (message) return message;
  }
  return NULL;
}

const char *check_sizes(Kernel *k, int64_t *sizes) {
  const char *wrong = derive_sizes(k, sizes);
  if (wrong) return wrong;
  for (int i = 0; i < k->requires.count; i++)
    if (!eval_index(k, k->requires.at[i].condition, sizes, NULL, 0)) {
      const char *message = k->requires.at[i].message;
      return refuse(k, sizes, "requirement not met: %s",
                    message ? message : "its condition is false");
    }
  return check_grid(k, sizes);
}
