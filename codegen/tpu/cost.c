// The costs of a body's operations on a chip: exact counts, and modelled times of each unit.
//
// Values live in vector registers of 8 x 128 elements; elements narrower than 32 bits are computed
// in 32 bits, or in 16 bits if the chip has packed arithmetic. Spills, changes of layout and the
// schedule of instructions are not modelled.
#include "codegen/tpu/internal.h"

#include <math.h>

const char *const unit_names[UNITS] = {
    "MXU",  "vector unit",  "transcendental unit", "cross-lane unit",
    "VMEM", "vector store", "scalar unit"};

typedef struct {
  double alu, eup;
  bool transcendental;
} OpTime;

static const OpTime op_times[OP_COUNT] = {
#define FUNCTION(id, name, class, domain, exactness, f64, bound, laws, jax, vector, \
                 transcendental, instead, meaning)                                  \
  [OP_##id] = {vector, transcendental, RESULT_##exactness != RESULT_EXACT},
#define OPERATOR(id, name, class, domain, exactness, f64, bound, neutral, laws, interval, \
                 spelling, call, vector, transcendental, meaning)                         \
  [OP_##id] = {vector, transcendental, false},
#include "codegen/ir/ops.def"
};

static int64_t extent(const CostModel *m, Dim dim) {
  return dim_is_const(dim) ? dim : m->sizes[dim_size_index(dim)];
}

static int64_t elements(const CostModel *m, const Type *t) {
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++) count = saturating_mul(count, extent(m, t->dim[i]));
  return count;
}

// The number of vector registers of a value of this type.
static double registers(const CostModel *m, const Type *t) {
  const double *v = m->chip->value;
  double rows = v[CHIP_SUBLANES] * (dtype_bytes(t->dtype) == 2 && v[CHIP_PACKED] > 0 ? 2 : 1),
         count = 1;
  for (int i = 0; i < t->rank; i++) {
    double n = (double)extent(m, t->dim[i]);
    count *= i == t->rank - 1 ? ceil(n / v[CHIP_LANES]) : i == t->rank - 2 ? ceil(n / rows) : n;
  }
  return count;
}

static void use(const CostModel *m, Cost *cost, Unit unit, double operations) {
  static const ChipField per_cycle[UNITS] = {[UNIT_VPU] = CHIP_ALUS,
                                             [UNIT_EUP] = CHIP_EUPS,
                                             [UNIT_XLU] = CHIP_XLUS,
                                             [UNIT_STORE] = CHIP_STORES};
  const double *v = m->chip->value;
  double rate = unit == UNIT_SCALAR ? 1 : v[per_cycle[unit]];
  cost->busy[unit] += operations / rate / (v[CHIP_CLOCK] * v[CHIP_SUSTAINED]);
}

// ---- elementwise

// Indices count as 32-bit values, whatever their type.
static bool is_index_cast(const Instr *instr) {
  DType to = instr->type.dtype, from = instr->args[0]->type.dtype;
  return instr->op == OP_CAST && is_integer(to) && is_integer(from) && dtype_bytes(to) >= 4 &&
         dtype_bytes(from) >= 4;
}

static void elementwise_cost(const CostModel *m, const Instr *instr, Cost *cost) {
  if (is_index_cast(instr)) return;
  double count = registers(m, &instr->type);
  OpTime time = op_times[instr->op];
  bool floats = is_float(instr->type.dtype);
  OpClass class = op_info[instr->op].class;
  if (class == OPC_COMPARE || class == OPC_PREDICATE) count = registers(m, &instr->args[0]->type);
  if (!floats || (time.alu == 0 && time.eup == 0)) {
    // Integer division uses floats; other integer operations are one instruction.
    bool divides = !floats && op_has(instr->op, DIVIDES);
    time = (OpTime){divides ? 12 : 1, divides ? 1 : 0, false};
  }
  use(m, cost, UNIT_VPU, count * time.alu);
  use(m, cost, UNIT_EUP, count * time.eup);
  int64_t n = elements(m, &instr->type);
  if (floats && time.transcendental)
    cost->transcendentals = n;
  else if (floats && (class == OPC_UNARY || class == OPC_BINARY || class == OPC_TERNARY))
    cost->flops = saturating_mul(n, class == OPC_TERNARY ? 2 : 1);
}

// ---- moving elements

bool crosses_lanes(const CostModel *m, const Instr *transpose) {
  int last = transpose->type.rank - 1;
  return last >= 1 && !m->free_transpose[transpose->id] && transpose->ints[last] != last;
}

// The involvement of the last two axes: along lanes every register crosses the lanes, along
// sublanes it is rotated.
static void shape_cost(const CostModel *m, const Instr *instr, Cost *cost) {
  const Type *from = &instr->args[0]->type, *to = &instr->type;
  double in = registers(m, from), out = registers(m, to);
  bool narrow = from->rank == 0 || from->dim[from->rank - 1] == 1;
  bool wide = to->rank > 0 && to->dim[to->rank - 1] != 1;
  int last = to->rank - 1;
  switch (instr->op) {
    case OP_BROADCAST:
      if (from->rank > 0 && narrow && wide) use(m, cost, UNIT_XLU, in);
      return;
    case OP_TRANSPOSE:
      if (!crosses_lanes(m, instr)) return;
      use(m, cost, UNIT_XLU, in > out ? in : out);
      cost->row_blocks = 1;
      return;
    case OP_RESHAPE:
      if (from->rank > 0 && to->rank > 0 &&
          extent(m, from->dim[from->rank - 1]) == extent(m, to->dim[last]))
        return;
      use(m, cost, UNIT_XLU, 2 * (in > out ? in : out));
      return;
    case OP_WINDOW:
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_GATHER:
      use(m, cost, UNIT_XLU, instr->ival == last ? 8 * out : out);
      return;
    case OP_ROLL:
    case OP_REV:
      use(m, cost, UNIT_XLU, out);
      return;
    default:
      use(m, cost, UNIT_VPU, out);
  }
}

// ---- reductions and scans

static double steps_within(double n, double width) {
  return n > 1 ? ceil(log2(n < width ? n : width)) : 0;
}

static void reduce_cost(const CostModel *m, const Instr *instr, Cost *cost) {
  const Type *from = &instr->args[0]->type;
  bool arg = op_info[instr->op].class == OPC_ARGREDUCE;
  int64_t axes = arg ? (int64_t)1 << instr->ival : instr->ival;
  int last = from->rank - 1;
  double in = registers(m, from), out = registers(m, &instr->type), weight = arg ? 3 : 1;
  use(m, cost, UNIT_VPU, weight * in);
  if (last >= 1 && axes & (int64_t)1 << (last - 1)) {
    double steps =
        steps_within((double)extent(m, from->dim[last - 1]), m->chip->value[CHIP_SUBLANES]);
    use(m, cost, UNIT_VPU, weight * steps * out);
    use(m, cost, UNIT_XLU, steps * out);
  }
  if (last >= 0 && axes & (int64_t)1 << last) use(m, cost, UNIT_XLU, weight * out);
  if (is_float(from->dtype) && !arg) cost->flops = elements(m, from);
}

static void scan_cost(const CostModel *m, const Instr *instr, Cost *cost) {
  const Type *t = &instr->type;
  double n = registers(m, t), length = (double)extent(m, t->dim[instr->ival]);
  int last = t->rank - 1;
  if (instr->op == OP_SORT || instr->op == OP_ARGSORT) {
    double depth = steps_within(length, INFINITY);
    use(m, cost, UNIT_VPU, 3 * n * depth * (depth + 1) / 2);
    use(m, cost, UNIT_XLU, n * depth * (depth + 1) / 2);
    return;
  }
  double width = instr->ival == last       ? m->chip->value[CHIP_LANES]
                 : instr->ival == last - 1 ? m->chip->value[CHIP_SUBLANES]
                                           : 1;
  double steps = steps_within(length, width);
  use(m, cost, UNIT_VPU, n * (1 + steps));
  use(m, cost, UNIT_XLU, n * steps);
  if (is_float(t->dtype)) cost->flops = elements(m, t);
}

// ---- contraction

typedef struct {
  double batch, m, k, n;
} Product;

static Product product_of(const CostModel *model, const Instr *dot) {
  Product p = {1, 1, 1, 1};
  const Type *a = &dot->args[0]->type, *b = &dot->args[1]->type;
  for (int label = 0; label < DOT_LABELS; label++) {
    double size = 0;
    bool in_a = false, in_b = false, in_out = false;
    for (int i = 0; i < a->rank; i++)
      if (dot->labels.a[i] == label) in_a = true, size = (double)extent(model, a->dim[i]);
    for (int i = 0; i < b->rank; i++)
      if (dot->labels.b[i] == label) in_b = true, size = (double)extent(model, b->dim[i]);
    for (int i = 0; i < dot->type.rank; i++) in_out |= dot->labels.out[i] == label;
    if (!in_a && !in_b) continue;
    *(!in_out ? &p.k : in_a && in_b ? &p.batch : in_a ? &p.m : &p.n) *= size;
  }
  return p;
}

static bool runs_on_mxu(DType t) { return is_float(t) || dtype_info[t].bits <= 8; }

enum { F32_PARTS = 3 };  // of bf16; with an operand of one part this is the number of passes

static bool is_small(DType t) { return dtype_info[t].bits <= 8; }

// The number of bf16 products for f32 operands: fewer with a precision of fewer parts.
static double f32_passes(const Chip *chip, Precision precision, bool both) {
  if (precision == PRECISION_DEFAULT) return 1;
  if (precision == PRECISION_HIGH) return both ? 3 : 2;
  return both ? chip->value[CHIP_F32_PASSES] : F32_PARTS;
}

DotRate dot_rate(const Chip *chip, const Instr *dot, int cores) {
  DType a = dot->args[0]->type.dtype, b = dot->args[1]->type.dtype;
  DType wider = dtype_info[a].bits < dtype_info[b].bits ? b : a;
  if (wider == DT_F32) {
    double passes = f32_passes(chip, (Precision)dot->ival, a == b);
    bool whole = passes == chip->value[CHIP_F32_PASSES];
    return (DotRate){
        whole ? chip_peak(chip, DT_F32, cores) : chip_peak(chip, DT_BF16, cores) / passes, passes};
  }
  bool bytes = is_small(a) && is_small(b);
  if (bytes && is_float(a) != is_float(b))
    return (DotRate){chip_peak(chip, is_float(a) ? a : b, cores), 1};
  return (DotRate){chip_peak(chip, bytes ? wider : DT_BF16, cores), 1};
}

// If the matrix unit does not accept both operands together, the integers are converted to floats
// first.
static void convert_operands(const CostModel *model, const Instr *dot, Cost *cost) {
  DType a = dot->args[0]->type.dtype, b = dot->args[1]->type.dtype;
  if (is_float(a) == is_float(b) || chip_multiplies(model->chip, a, b)) return;
  Type lanes = dot->args[is_float(a)]->type;
  lanes.dtype = DT_I32;
  use(model, cost, UNIT_VPU, 2 * registers(model, &lanes));
}

// Cycles in which a row enters the array: its input takes 32 bits a lane. The parts of an f32 that
// several passes multiply are bf16; one pass rounds f32 on its way in.
static double input_cycles(DType t, double passes) {
  return dtype_info[t].bits == 32 && passes == 1 ? 1 : 0.5;
}

// Cycles of a product on the MXUs of a core. An MXU loads the weights of a fold while it works on
// the one before: they enter the array in `right` cycles a row, and its rows in `left` cycles
// each, at the same time if the input has room for both. A fold stays on one MXU, or its rows are
// divided.
static double product_cycles(double mxus, double size, double folds, double rows, double left,
                             double right) {
  double best = INFINITY;
  bool both_fit = left + right <= 1;
  for (double parts = 1; parts <= mxus; parts++) {
    double each = ceil(rows / parts / 8) * 8, passes = ceil(folds * parts / mxus);
    double input = both_fit ? fmax(left * each, right * size) : left * each + right * size;
    double cycles = fmax(each, size) + (passes - 1) * fmax(each, input);
    if (cycles < best) best = cycles;
  }
  return best;
}

// The cost of a contraction, on the matrix unit or the vector unit.
static void dot_cost(const CostModel *model, const Instr *dot, Cost *cost) {
  const double *v = model->chip->value;
  Product p = product_of(model, dot);
  DType a = dot->args[0]->type.dtype, b = dot->args[1]->type.dtype;
  int64_t products =
      saturating_mul(elements(model, &dot->type), p.k < 9e18 ? (int64_t)p.k : INT64_MAX);
  cost->flops = cost->dot_flops = saturating_mul(2, products);
  double work = 2 * p.batch * p.m * p.k * p.n;
  if (work == 0) return;
  if (!runs_on_mxu(a) || !runs_on_mxu(b))
    return use(model, cost, UNIT_VPU, work / v[CHIP_SUBLANES] / v[CHIP_LANES]);
  convert_operands(model, dot, cost);
  DotRate rate = dot_rate(model->chip, dot, 1);
  double size = v[CHIP_MXU_SIZE], times = rate.passes, peak = rate.peak;
  double cycle = 2 * size * size * v[CHIP_MXUS] / (peak * v[CHIP_SUSTAINED]);  // for all passes
  double folds = p.batch * ceil(p.k / size) * ceil(p.n / size),
         rows = ceil(p.m / v[CHIP_SUBLANES]) * v[CHIP_SUBLANES];
  cost->row_blocks = fmax(1, floor(rows / size));
  cost->mxu_ideal = work / peak;
  const double sustained = cost->mxu_ideal / v[CHIP_SUSTAINED];
  cost->mxu_passes = cost->mxu_ideal * (1 - 1 / times);
  cost->mxu_latency = (size + size - 2) * cycle / times;  // the load is part of its first fold
  cost->busy[UNIT_MXU] = fmax(product_cycles(v[CHIP_MXUS], size, folds, rows,
                                             input_cycles(a, times), input_cycles(b, times)) *
                                  cycle,
                              sustained);
  cost->mxu_padding = cost->busy[UNIT_MXU] - sustained;
  cost->mxu_serial = p.batch * mxu_serial_cycles(size, size, rows, p.k, p.n) * cycle;
}

// ---- memory

static void use_stores(const CostModel *m, Cost *cost, int64_t bytes) {
  use(m, cost, UNIT_STORE,
      (double)bytes / 4 / m->chip->value[CHIP_SUBLANES] / m->chip->value[CHIP_LANES]);
}

static bool overhangs(const CostModel *m, const Ref *ref) {
  for (int i = 0; i < ref->array.rank; i++) {
    int64_t block = extent(m, ref->block[i]), dim = extent(m, ref->array.dim[i]);
    if (block > 0 && dim % block != 0) return true;
  }
  return false;
}

// Elements past the edge may have any value there: a load compares indices and selects, as 32-bit
// lanes.
static void pad_cost(const CostModel *m, const Instr *load, Cost *cost) {
  Type lanes = load->type;
  lanes.dtype = DT_I32;
  if (load->ref->has_pad && load->type.rank > 0 && overhangs(m, load->ref))
    use(m, cost, UNIT_VPU, 3 * registers(m, &lanes));
}

static void memory_cost(const CostModel *m, const Instr *instr, Cost *cost) {
  const Ref *ref = instr->ref;
  if (instr->op == OP_FETCH || instr->op == OP_WRITEBACK || instr->op == OP_COPY_START ||
      instr->op == OP_COPY_WAIT)
    return;
  if (instr->op != OP_LOAD && instr->op != OP_STORE) return use(m, cost, UNIT_SCALAR, 1);
  if ((ref->space != SPACE_VMEM && ref->space != SPACE_VAR) || ref->type.rank == 0)
    return use(m, cost, UNIT_SCALAR, 1);
  int64_t size[MAX_RANK];
  for (int i = 0; i < ref->type.rank; i++) size[i] = extent(m, instr->window.size[i]);
  int64_t bytes = tpu_padded_bytes(m->chip, ref->type.dtype, ref->type.rank, size, NULL);
  *(instr->op == OP_LOAD ? &cost->load_bytes : &cost->store_bytes) = bytes;
  cost->busy[UNIT_VMEM] = (double)bytes / chip_vmem_bandwidth(m->chip);
  if (instr->op == OP_STORE) use_stores(m, cost, bytes);
  if (instr->op == OP_LOAD) pad_cost(m, instr, cost);
}

// A value in VMEM is stored once and loaded at each use.
static void add_value(const CostModel *m, const Instr *instr, Cost *cost) {
  if (!m->buffered) return;
  if (has_result(instr) && m->buffered[instr->id]) {
    int64_t bytes = value_bytes(m, &instr->type);
    use_stores(m, cost, bytes);
    cost->busy[UNIT_VMEM] += (double)bytes / chip_vmem_bandwidth(m->chip);
  }
  for (int i = 0; i < instr->nargs; i++)
    if (m->buffered[instr->args[i]->id])
      cost->busy[UNIT_VMEM] +=
          (double)value_bytes(m, &instr->args[i]->type) / chip_vmem_bandwidth(m->chip);
}

// The cost of an instruction, without its regions.
static bool own_cost(const CostModel *m, const Instr *instr, Cost *cost) {
  OpClass class = op_info[instr->op].class;
  if (has_result(instr) && instr->type.rank == 0 && class > OPC_LEAF && class < OPC_SHAPE) {
    use(m, cost, UNIT_SCALAR, 1);
    return true;
  }
  switch (class) {
    case OPC_LEAF:
    case OPC_CONTROL:
      return true;
    case OPC_UNARY:
    case OPC_PREDICATE:
    case OPC_BINARY:
    case OPC_COMPARE:
    case OPC_SELECT:
    case OPC_TERNARY:
    case OPC_CAST:
      elementwise_cost(m, instr, cost);
      return true;
    case OPC_SHAPE:
      shape_cost(m, instr, cost);
      return true;
    case OPC_REDUCE:
    case OPC_ARGREDUCE:
      reduce_cost(m, instr, cost);
      return true;
    case OPC_SCAN:
      scan_cost(m, instr, cost);
      return true;
    case OPC_DOT:
      dot_cost(m, instr, cost);
      return true;
    case OPC_MEMORY:
      memory_cost(m, instr, cost);
      return true;
    default:
      return false;
  }
}

bool op_cost(const CostModel *m, const Instr *instr, Cost *cost) {
  *cost = (Cost){0};
  bool known = own_cost(m, instr, cost);
  add_value(m, instr, cost);
  return known;
}

void cost_add(Cost *sum, const Cost *cost) {
  for (int u = 0; u < UNITS; u++) sum->busy[u] += cost->busy[u];
  sum->mxu_ideal += cost->mxu_ideal;
  sum->mxu_padding += cost->mxu_padding;
  sum->mxu_in_step += cost->mxu_in_step;
  sum->mxu_passes += cost->mxu_passes;
  sum->mxu_serial += cost->mxu_serial;
  sum->flops = saturating_add(sum->flops, cost->flops);
  sum->dot_flops = saturating_add(sum->dot_flops, cost->dot_flops);
  sum->transcendentals = saturating_add(sum->transcendentals, cost->transcendentals);
  sum->load_bytes = saturating_add(sum->load_bytes, cost->load_bytes);
  sum->store_bytes = saturating_add(sum->store_bytes, cost->store_bytes);
}

// ---- a transpose that only dots read costs nothing, because the MXU accepts either operand
// transposed

typedef struct {
  bool *dot, *other;
} Uses;

static void note_uses(Instr *instr, void *context) {
  Uses *uses = context;
  for (int i = 0; i < instr->nargs; i++)
    *(instr->op == OP_DOT ? &uses->dot[instr->args[i]->id] : &uses->other[instr->args[i]->id]) =
        true;
}

CostModel cost_model(Arena *arena, const Kernel *k, const Chip *chip, const int64_t *sizes) {
  CostModel m = {.arena = arena, .k = k, .chip = chip, .sizes = sizes};
  Uses uses = {NEW_ARRAY(arena, bool, k->next_id + 1), NEW_ARRAY(arena, bool, k->next_id + 1)};
  ir_walk(k->body, note_uses, &uses);
  for (int i = 0; i <= k->next_id; i++) uses.dot[i] &= !uses.other[i];
  m.free_transpose = uses.dot;
  return m;
}
