// The verifier of the block IR: regions, and the kernel.
#include "codegen/ir/verify.h"
#include "codegen/ir/axes.h"
#include "codegen/ir/layout.h"

#include <string.h>

// ---- regions

// A region yields `count` values of `type`; count 0: it does not yield.
typedef struct {
  int count;
  Type type;
} Results;

static void check_region(Verifier *v, const Instr *owner, Region *region, Results results);

static void check_pipeline(Verifier *v, Instr *instr) {
  Results nothing = {0}, indices = {0, type_scalar(DT_I64)};
  RULE(v->place == PLACE_BODY, "outside the body");
  RULE(instr->nargs >= 1 && instr->nargs <= MAX_RANK, "%d axes", instr->nargs);
  for (int i = 0; i < instr->nargs; i++)
    RULE(is_scalar(instr->args[i], DT_I64), "extent %d is not an i64 scalar", i);
  for (int i = 0; i < 2; i++)
    RULE(instr->regions[i] && instr->regions[i]->arg, "no step in region %d", i);
  for (int i = 0; i < v->k->refs.count; i++)
    if (v->k->refs.at[i]->scope == instr) indices.count += v->k->refs.at[i]->array.rank;
  if (v->message) return;
  RULE(ir_is_pure(instr->regions[0]), "its index maps do more than compute");
  check_region(v, instr, instr->regions[0], indices);
  v->loops = 0;
  v->open[instr->id] = true;
  check_region(v, instr, instr->regions[1], nothing);
  v->open[instr->id] = false;
}

// A control instruction: its condition, regions and results.
static void check_control(Verifier *v, Instr *instr) {
  Results nothing = {0}, condition = {1, type_scalar(DT_BOOL)},
          result = {has_result(instr), instr->type};
  int loops = v->loops;
  RULE(v->place != PLACE_REFERENCE || instr->op == OP_IF || instr->op == OP_FOR ||
           instr->op == OP_YIELD,
       "not in a reference");
  if (v->message) return;
  switch (instr->op) {
    case OP_IF:
      RULE(is_scalar(instr->args[0], DT_BOOL), "the condition is not a bool scalar");
      RULE(instr->regions[1] || !has_result(instr), "a result but no else region");
      check_region(v, instr, instr->regions[0], result);
      if (instr->regions[1]) check_region(v, instr, instr->regions[1], result);
      break;
    case OP_FOR:
      RULE(is_scalar(instr->args[0], DT_I64) && is_scalar(instr->args[1], DT_I64),
           "the bounds are not i64 scalars");
      RULE(instr->regions[0] && instr->regions[0]->arg, "no variable");
      v->loops++;
      check_region(v, instr, instr->regions[0], nothing);
      break;
    case OP_WHILE:
      v->loops = 0;
      check_region(v, instr, instr->regions[0], condition);
      v->loops = loops + 1;
      check_region(v, instr, instr->regions[1], nothing);
      break;
    case OP_SCOPED:
      v->open[instr->id] = true;
      check_region(v, instr, instr->regions[0], nothing);
      v->open[instr->id] = false;
      break;
    case OP_PIPELINE:
      check_pipeline(v, instr);
      break;
    case OP_NAMED:
      check_region(v, instr, instr->regions[0], nothing);
      break;
    case OP_BREAK:
      RULE(v->loops > 0, "outside a loop");
      break;
    case OP_ASSERT:
      RULE(is_scalar(instr->args[0], DT_BOOL), "the condition is not a bool scalar");
      break;
    default:
      break;
  }
  v->loops = loops;
  if (instr->op == OP_NAMED || instr->op == OP_PRINT || instr->op == OP_ASSERT)
    RULE(instr->text, "no text");
}

// An instruction without operands.
static void check_leaf(Verifier *v, const Instr *instr) {
  bool in_step = v->place == PLACE_BODY || v->place == PLACE_MAP;
  switch (instr->op) {
    case OP_CONST:
      RULE(instr->type.rank == 0, "not a scalar");
      break;
    case OP_IOTA:
      RULE(instr->ival >= 0 && instr->ival < instr->type.rank && instr->type.dtype != DT_BOOL,
           "no such axis");
      break;
    case OP_SIZE:
      RULE(instr->ival >= 0 && instr->ival < v->size_limit, "size %lld is not known here",
           (long long)instr->ival);
      break;
    case OP_AXIS:
    case OP_EXTENT:
      RULE(in_step && instr->ival >= 0 && instr->ival < v->k->grid.count,
           "grid axis %lld is not known here", (long long)instr->ival);
      break;
    case OP_DEVICE:
      RULE(v->place == PLACE_BODY && instr->ival >= 0 && instr->ival < v->k->mesh.count,
           "mesh axis %lld is not known here", (long long)instr->ival);
      break;
    case OP_ARG:
      verify_fail(v, instr, "is outside a loop's head");
      break;
    case OP_STEP_AXIS: {
      const Instr *owner = instr->args[0]->op == OP_ARG ? v->owner[instr->args[0]->id] : NULL;
      RULE(owner && owner->op == OP_PIPELINE, "not of a pipeline's step");
      RULE(!owner || (instr->ival >= 0 && instr->ival < owner->nargs), "no axis %lld",
           (long long)instr->ival);
      break;
    }
    case OP_ARRAY:
      RULE(v->place == PLACE_REFERENCE && known_ref(v, instr->ref) && instr->ref->role == REF_INPUT,
           "not an input, or outside a reference");
      if (!v->message)
        RULE(same_type(&instr->type, &instr->ref->array), "the type is not the array's");
      break;
    default:
      INTERNAL("leaf %d", (int)instr->op);
  }
  if (instr->op == OP_SIZE || instr->op == OP_AXIS || instr->op == OP_EXTENT ||
      instr->op == OP_DEVICE || instr->op == OP_STEP_AXIS)
    RULE(is_scalar(instr, DT_I64), "not an i64 scalar");
}

static void check_arguments(Verifier *v, const Instr *instr) {
  int expected = op_info[instr->op].nargs;
  RULE(instr->nargs >= 0 && (expected < 0 || instr->nargs == expected),
       "%d arguments instead of %d", instr->nargs, expected);
  for (int i = 0; !v->message && i < instr->nargs; i++) {
    const Instr *arg = instr->args[i];
    RULE(arg && arg->id >= 0 && arg->id < v->k->next_id && v->visible[arg->id] == arg,
         "argument %d (%%%d) is not defined here", i, arg ? arg->id : -1);
    if (!v->message) RULE(has_result(arg), "argument %d has no value", i);
  }
}

// Outside of bodies and references all instructions are index arithmetic on scalars.
static void check_place(Verifier *v, const Instr *instr) {
  if (v->place == PLACE_REFERENCE || v->place == PLACE_BODY) return;
  OpClass class = op_info[instr->op].class;
  bool pure = class == OPC_LEAF || op_is_elementwise(instr->op) || instr->op == OP_IF ||
              instr->op == OP_YIELD || instr->op == OP_LOAD;
  RULE(pure, "not allowed in index arithmetic");
  if (has_result(instr))
    RULE(instr->type.rank == 0 && !is_float(instr->type.dtype),
         "index arithmetic is on integer scalars");
}

static void define(Verifier *v, Instr *instr) {
  RULE(instr->id >= 0 && instr->id < v->k->next_id, "id beyond next_id");
  if (v->message) return;
  RULE(!v->seen[instr->id], "two instructions have this id, or one is in two places");
  v->seen[instr->id] = true;
  v->visible[instr->id] = instr;
}

// All rules of one instruction.
static void check_instr(Verifier *v, Instr *instr) {
  if (instr->op >= OP_COUNT) return verify_fail(v, NULL, "%%%d has no operation", instr->id);
  check_arguments(v, instr);
  if (v->message) return;
  if (has_result(instr)) verify_type(v, instr, &instr->type);
  if (op_has_result(instr->op))
    RULE(has_result(instr), "no result");
  else if (instr->op != OP_IF)
    RULE(!has_result(instr), "a result");
  check_place(v, instr);
  if (v->message) return;
  switch (op_info[instr->op].class) {
    case OPC_LEAF:
      check_leaf(v, instr);
      break;
    case OPC_SHAPE:
      verify_shape_op(v, instr);
      break;
    case OPC_REDUCE:
    case OPC_ARGREDUCE:
      verify_reduce(v, instr);
      break;
    case OPC_SCAN:
      verify_scan(v, instr);
      break;
    case OPC_DOT:
      verify_dot(v, instr);
      break;
    case OPC_MEMORY:
      verify_memory(v, instr);
      break;
    case OPC_CONTROL:
      check_control(v, instr);
      break;
    default:
      verify_elementwise(v, instr);
  }
}

static void check_yield(Verifier *v, const Instr *owner, const Region *region, Results results) {
  const Instr *last = region->instrs.count ? region->instrs.at[region->instrs.count - 1] : NULL;
  if (results.count == 0) return;
  if (!last || last->op != OP_YIELD)
    return verify_fail(v, owner, "a region does not end in a yield");
  const Instr *instr = last;
  RULE(instr->nargs == results.count, "yields %d values instead of %d", instr->nargs,
       results.count);
  for (int i = 0; !v->message && i < results.count; i++)
    RULE(results.type.dtype == DT_COUNT || same_type(&instr->args[i]->type, &results.type),
         "value %d has the wrong type", i);
}

// The instructions of a region, and its results.
static void check_region(Verifier *v, const Instr *owner, Region *region, Results results) {
  if (v->message) return;
  if (!region) return verify_fail(v, owner, "a region is missing");
  Instr *arg = region->arg;
  if (arg) {
    const Instr *instr = arg;
    bool loops = owner && (owner->op == OP_FOR || owner->op == OP_PIPELINE);
    RULE(loops && arg->op == OP_ARG && is_scalar(arg, DT_I64), "not the i64 variable of a for");
    define(v, arg);
    if (!v->message) v->owner[arg->id] = owner;
  }
  int done = 0;
  for (; !v->message && done < region->instrs.count; done++) {
    Instr *instr = region->instrs.at[done];
    if (!instr) return verify_fail(v, owner, "an instruction is missing");
    bool last = done == region->instrs.count - 1;
    if (instr->op == OP_YIELD)
      RULE(last && results.count > 0, "yields where no result is expected");
    check_instr(v, instr);
    if (!v->message) define(v, instr);
  }
  if (!v->message) check_yield(v, owner, region, results);
  for (int i = 0; i < done && !v->message; i++) v->visible[region->instrs.at[i]->id] = NULL;
  if (arg && !v->message) v->visible[arg->id] = NULL;
}

static void check_tree(Verifier *v, Region *region, CodePlace place, int size_limit,
                       Results results, const char *what) {
  if (v->message) return;
  v->place = place;
  v->size_limit = size_limit;
  v->loops = 0;
  check_region(v, NULL, region, results);
  if (v->message) v->message = arena_printf(v->k->arena, "%s: %s", what, v->message);
}

// ---- the kernel

// The block's type follows from its spec.
static void check_block(Verifier *v, const Ref *ref) {
  const Instr *instr = NULL;
  RULE(ref->type.dtype == ref->array.dtype, "`%s`: block and array differ in dtype", ref->name);
  int axis = 0;
  for (int i = 0; !v->message && i < ref->array.rank; i++) {
    RULE(valid_dim(v, ref->block[i]), "`%s`: block axis %d names a size that does not exist",
         ref->name, i);
    if (ref->squeeze[i]) {
      RULE(ref->block[i] == 1, "`%s`: squeezed axis %d has another extent than 1", ref->name, i);
      continue;
    }
    RULE(axis < ref->type.rank && ref->type.dim[axis] == ref->block[i],
         "`%s`: the block's type does not follow from its spec", ref->name);
    axis++;
  }
  RULE(axis == ref->type.rank, "`%s`: the block's type does not follow from its spec", ref->name);
}

// The attributes after an operand's type: pad, alias, packed; its parts and buffers.
static void check_properties(Verifier *v, const Ref *ref) {
  const Instr *instr = NULL;
  if (ref->has_pad) {
    const Ref *of = ref->operand ? ref->operand : ref;
    RULE(of->role == REF_INPUT && ref->pad && ref->pad->op == OP_CONST,
         "`%s`: pad is not a constant of an input", ref->name);
    if (!v->message)
      RULE(is_scalar(ref->pad, ref->array.dtype), "`%s`: pad has another dtype", ref->name);
  }
  if (ref->alias) {
    bool input =
        known_ref(v, ref->alias) && ref->alias->role == REF_INPUT && ref->role == REF_OUTPUT;
    RULE(input && same_type(&ref->alias->array, &ref->array) && ref->alias->packed == ref->packed,
         "`%s`: an alias joins an output to an input of its type", ref->name);
  }
  RULE(!ref->packed || (ref_is_operand(ref) && is_part_of_byte(ref->array.dtype) &&
                        ref->array.rank > 0 && !ref->prefetch && !v->k->mesh.count),
       "`%s` cannot be packed", ref->name);
  for (int i = 0; !v->message && i < ref->array.rank; i++)
    RULE(ref->parts[i] <= 1 || !dim_is_const(ref->array.dim[i]) ||
             ref->array.dim[i] % ref->parts[i] == 0,
         "`%s`: axis %d does not divide into %lld parts", ref->name, i, (long long)ref->parts[i]);
  RULE(ref->buffers >= 1 && ref->buffers <= MOST_BUFFERS, "`%s`: %d buffers", ref->name,
       ref->buffers);
}

// The array and blocks of an operand, or of a pipeline's block.
static void check_operand(Verifier *v, const Ref *ref) {
  const Instr *instr = NULL;
  verify_type(v, NULL, &ref->array);
  if (!v->message) check_block(v, ref);
  if (!v->message) check_properties(v, ref);
  if (v->message) return;
  if (ref->operand) {
    RULE(ref->scope && ref->scope->op == OP_PIPELINE && ref->space == SPACE_VMEM && !ref->index_map,
         "`%s` is not a block of a pipeline", ref->name);
    RULE(known_ref(v, ref->operand) && ref->operand->space == SPACE_ANY &&
             same_type(&ref->array, &ref->operand->type) && ref->at != AT_SLICE,
         "`%s` is a block of an array that is not in HBM", ref->name);
    return;
  }
  RULE(!ref->prefetch || (ref->role == REF_INPUT && ref->whole && ref->space == SPACE_SMEM &&
                          is_integer(ref->type.dtype)),
       "`%s` cannot be prefetched", ref->name);
  Results indices = {ref->at == AT_SLICE ? 2 * ref->array.rank : ref->array.rank,
                     type_scalar(DT_I64)};
  if (ref->index_map)
    check_tree(v, ref->index_map, PLACE_MAP, v->k->sizes.count, indices,
               arena_printf(v->k->arena, "index map of `%s`", ref->name));
  else
    RULE(ref->whole || ref->space == SPACE_ANY, "`%s` has no index map", ref->name);
}

// The refs of a kernel, and their order.
static void check_refs(Verifier *v) {
  const Instr *instr = NULL;
  const Kernel *k = v->k;
  RULE(k->inputs >= 0 && k->outputs >= 0 && (int64_t)k->inputs + k->outputs <= k->refs.count,
       "more operands than refs");
  for (int i = 0; !v->message && i < k->refs.count; i++) {
    const Ref *ref = k->refs.at[i];
    RULE(known_ref(v, ref) && ref->id == i && ref->name, "ref %d is not in its place", i);
    if (v->message) return;
    bool in_place = i < k->inputs                ? ref->role == REF_INPUT
                    : i < k->inputs + k->outputs ? ref->role == REF_OUTPUT
                                                 : !ref_is_operand(ref);
    RULE(in_place, "`%s` is not where its role belongs", ref->name);
    verify_type(v, NULL, &ref->type);
    RULE(!ref->scope || ref->role == REF_SCRATCH, "`%s` has a scope but is not a scratch",
         ref->name);
    RULE(!ref->operand || ref->role == REF_SCRATCH, "`%s` is a block and not scratch", ref->name);
    RULE(!ref->scope || ref->scope->op == (ref->operand ? OP_PIPELINE : OP_SCOPED),
         "`%s` lives where it does not belong", ref->name);
    if (!v->message && (ref_is_operand(ref) || ref->operand)) check_operand(v, ref);
    if (v->message) v->message = arena_printf(v->k->arena, "ref `%s`: %s", ref->name, v->message);
  }
}

static void check_states(Verifier *v) {
  const Instr *instr = NULL;
  for (int i = 0; !v->message && i < v->k->states.count; i++) {
    const Ref *ref = v->k->states.at[i];
    RULE(known_ref(v, ref) && ref->id == i && ref->name && ref->space == SPACE_VAR && !ref->scope,
         "var %d of the reference is not in its place", i);
    if (!v->message) verify_type(v, NULL, &ref->type);
  }
}

static void check_launch(Verifier *v) {
  Kernel *k = v->k;
  Results index = {1, type_scalar(DT_I64)}, condition = {1, type_scalar(DT_BOOL)};
  for (int i = 0; i < k->sizes.count; i++)
    if (k->sizes.at[i].value)
      check_tree(v, k->sizes.at[i].value, PLACE_SIZE, i, index, "derived size");
  for (int i = 0; i < k->grid.count; i++)
    check_tree(v, k->grid.at[i].extent, PLACE_LAUNCH, k->sizes.count, index, "grid extent");
  for (int i = 0; i < k->requires.count; i++)
    check_tree(v, k->requires.at[i].condition, PLACE_LAUNCH, k->sizes.count, condition,
               "requirement");
}

// A reference yields one whole array per output.
static void check_reference(Verifier *v) {
  Kernel *k = v->k;
  Results arrays = {k->outputs, {.dtype = DT_COUNT}};
  check_tree(v, k->reference, PLACE_REFERENCE, k->sizes.count, arrays, "reference");
  if (v->message || k->outputs == 0) return;
  const Instr *instr = k->reference->instrs.at[k->reference->instrs.count - 1];
  for (int i = 0; !v->message && i < k->outputs; i++)
    RULE(same_type(&instr->args[i]->type, &k->refs.at[k->inputs + i]->array),
         "value %d does not have the output's type", i);
}

const char *ir_verify(Kernel *k) {
  Verifier verifier = {.k = k}, *v = &verifier;
  v->visible = NEW_ARRAY(k->arena, Instr *, k->next_id + 1);
  v->seen = NEW_ARRAY(k->arena, bool, k->next_id + 1);
  v->open = NEW_ARRAY(k->arena, bool, k->next_id + 1);
  v->owner = NEW_ARRAY(k->arena, const Instr *, k->next_id + 1);
  check_launch(v);
  check_refs(v);
  check_states(v);
  check_tree(v, k->body, PLACE_BODY, k->sizes.count, (Results){0}, "body");
  if (k->reference) check_reference(v);
  return v->message;
}
