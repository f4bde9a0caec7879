// The derivative of a kernel's body as kernels of blocks: of the gradient, one for all inputs whose
// gradients are added up along the same axes of the grid; along directions, one for all. Where the
// last step along an axis stores a function of sums that is derived apart, the sums come first, as
// a kernel, then their gradients, then those of the steps.
#include "codegen/grad/carried.h"
#include "codegen/grad/operations.h"
#include "codegen/grad/saved.h"
#include "codegen/grad/text.h"

#include <string.h>

typedef struct {
  Part part;
  int64_t ignored, split;  // as in Blocks
  bool scattered;
  bool between;      // its results are those of sums, which the other groups read
  const char *wrt;   // names of inputs with commas between them
  const char *name;  // of its kernel
} Group;

typedef struct {
  KernelAgain *again;
  void *context;
  const GradOptions *options;
  Diag *diag;
  Arena *arena;
  Kernel *k;     // as lowered
  bool choices;  // branches that store are stores of chosen elements
  GridSums sums;
  LIST(Group) groups;
  LIST(const char *) calls;  // of the program
  bool reads_sums;           // a kernel reads the final sums
  const Known *known;        // the outputs that hold them
  int known_count;
  const Carried *carried;  // state along the grid, or NULL
  GradResult made;         // of the last kernel
  GradResult result;       // of all kernels
  const char *kept;        // the bytes of the sums
  Buf *out;
} Work;

static Kernel *lowered_again(const Work *w) {
  Kernel *k = w->again(w->context);
  if (w->options->vmem_limit) k->vmem_limit = w->options->vmem_limit;
  unmask_body(k);
  straighten_body(k, w->choices);
  return k;
}

// ---- groups

static bool is_wanted(const Work *w, const Ref *ref) {
  const char *list = w->options->wrt;
  return has_arithmetic(ref->array.dtype) && (!list || is_in_list(list, ref->name));
}

static void add_to_group(Work *w, Group to, const char *name) {
  for (int i = 0; i < w->groups.count; i++) {
    Group *group = &w->groups.at[i];
    if (group->part != to.part || group->between != to.between || group->ignored != to.ignored ||
        group->split != to.split || group->scattered != to.scattered)
      continue;
    group->wrt = list_with(w->arena, group->wrt, name);
    return;
  }
  to.wrt = name;
  to.name = arena_printf(w->arena, "%s_d%s", w->k->name, name);
  LIST_PUSH(w->arena, &w->groups, to);
}

static void add_input(Work *w, const Ref *ref) {
  const bool apart = w->sums.apart, end = apart && is_read_at_end(&w->sums, ref);
  Group group = {.part = end     ? PART_END
                         : apart ? PART_STEP
                                 : PART_ALL,
                 .ignored = ignored_axes(w->k, ref),
                 .split = split_axes(w->k, ref),
                 .scattered = is_scattered(w->k, ref)};
  if (end) group.ignored &= ~w->sums.axes;
  add_to_group(w, group, ref->name);
}

static bool has_part(const Work *w, Part part) {
  for (int i = 0; i < w->groups.count; i++)
    if (w->groups.at[i].part == part) return true;
  return false;
}

static void find_groups(Work *w) {
  if (w->options->forward) {
    Group all = {.wrt = w->options->wrt, .name = arena_printf(w->arena, "%s_forward", w->k->name)};
    LIST_PUSH(w->arena, &w->groups, all);
    return;
  }
  for (int i = 0; i < w->k->inputs; i++)
    if (is_wanted(w, w->k->refs.at[i])) add_input(w, w->k->refs.at[i]);
  const Group sums = {.part = PART_END, .between = true};
  for (int i = 0; has_part(w, PART_STEP) && i < w->k->refs.count; i++)
    if (is_grid_sum(&w->sums, w->k->refs.at[i])) add_to_group(w, sums, w->k->refs.at[i]->name);
  if (w->groups.count == 1)
    w->groups.at[0].name = arena_printf(w->arena, "%s_backward", w->k->name);
}

// ---- one kernel

static Kernel *derive_group(Work *w, const Group *group, Blocks *b, bool masks) {
  w->made = (GradResult){0};
  Kernel *k = lowered_again(w);
  *b = part_as_reference(k, group->part, w->options->forward);
  b->ignored = group->ignored;
  b->split = group->split;
  b->scattered = group->scattered;
  b->masks = masks;
  b->known = w->known;
  b->known_count = w->known_count;
  const GradOptions how = {.wrt = group->wrt,
                           .forward = w->options->forward,
                           .saved = w->options->saved,
                           .result = &w->made,
                           .blocks = b};
  return grad_derive(k, &how, w->diag) ? k : NULL;
}

// The blocks of an operand, and how it is read.
typedef struct {
  const Ref *like;
  bool adds_up;  // a gradient, which is stored once it is added up
} Cut;

// An operand of the derivative has the span of the one that it derives.
static Cut cut_of(const Blocks *b, const Kernel *k, int operand) {
  const Ref *ref = k->refs.at[operand];
  const bool result = operand >= k->inputs;
  for (int i = 0; i < b->inputs + b->outputs; i++) {
    if (b->refs[i].span.start != ref->span.start) continue;
    const Ref *like = result && b->partial && b->partial[i] ? b->partial[i] : &b->refs[i];
    const bool every = !b->backwards || (ignored_axes(k, like) & b->backwards);
    return (Cut){like, result && every && blocks_add_up(b)};
  }
  for (int i = 0; i < b->edge_count; i++)
    if (b->edges[i].span.start == ref->span.start) return (Cut){&b->edges[i], false};
  INTERNAL("a derivative of nothing: %s", ref->name);
}

// Does the kernel read this operand, or is it a result?
static bool is_there(const Kernel *k, int operand, bool all) {
  const Ref *ref = k->refs.at[operand];
  return all || operand >= k->inputs || ref->prefetch || reads_array(k->reference, ref);
}

// Does the kernel have this operand? The kernels of a program have only the inputs that they read,
// and those that give them sizes.
static bool is_operand(const Kernel *k, const Blocks *b, int operand, bool all) {
  return is_there(k, operand, all) || (b->sizing && operand < b->inputs && b->sizing[operand]);
}

// ---- its text

static const char *dim_text(Writer *t, Dim dim) {
  const Type one = {.rank = 1, .dim = {dim}};
  const char *text = dims_text(t, &one);
  return word_text(t, "%.*s", (int)strlen(text) - 2, text + 1);
}

// The blocks of a gradient that is added up contain all places that its input's blocks move to.
static bool is_spread(const Kernel *k, const Cut *cut, int axis) {
  return cut->adds_up && followed_axis(k, cut->like, axis) == -2;
}

static const char *block_text(Writer *t, const Kernel *k, const Cut *cut) {
  const Ref *ref = cut->like;
  const char *text = "[";
  for (int i = 0; i < ref->array.rank; i++) {
    const bool spread = is_spread(k, cut, i);
    const char *dim =
        ref->squeeze[i] && !spread ? "_" : dim_text(t, spread ? ref->array.dim[i] : ref->block[i]);
    text = word_text(t, "%s%s%s", text, i ? ", " : "", dim);
  }
  return word_text(t, "%s]", text);
}

static const char *outer_name(Writer *t, const Kernel *k, int axis) {
  return word_text(t, "%s_outer", k->grid.at[axis].name);
}

static const char *inner_name(Writer *t, const Kernel *k, int axis) {
  return word_text(t, "%s_inner", k->grid.at[axis].name);
}

// The input whose block stays for several steps of the axis: *at is its axis, *divisor the number
// of steps.
static const Ref *split_by(const Kernel *k, const Blocks *b, int axis, int *at,
                           const Instr **divisor) {
  for (int i = 0; i < b->inputs + b->outputs; i++)
    for (*at = 0; *at < b->refs[i].array.rank; ++*at)
      if (block_axis(k, &b->refs[i], *at) == -2 &&
          divided_axis(k, &b->refs[i], *at, divisor) == axis)
        return &b->refs[i];
  INTERNAL("an axis that nothing divides");
}

// The number of steps of a divided axis that share a block.
static const char *divisor_text(Writer *t, const Kernel *k, const Blocks *b, int axis) {
  int at;
  const Instr *divisor;
  const Ref *ref = split_by(k, b, axis, &at, &divisor);
  yielded_text(t, ref->index_map, at);
  return used(t, (Instr *)divisor, BINDS_ATOM);
}

static const char *axis_text(Writer *t, const Kernel *k, const Blocks *b, int axis) {
  const char *name = k->grid.at[axis].name;
  if (b->backwards >> axis & 1) return word_text(t, "num_programs(%s) - 1 - %s", name, name);
  if (!(b->split >> axis & 1)) return name;
  return word_text(t, "%s * %s + %s", outer_name(t, k, axis), divisor_text(t, k, b, axis),
                   inner_name(t, k, axis));
}

static const char *index_text(Writer *t, const Kernel *k, const Blocks *b, const Cut *cut, int i) {
  const Ref *ref = cut->like;
  const int axis = followed_axis(k, ref, i);
  if (ref->at == AT_ELEMENT && !cut->adds_up) return yielded_text(t, ref->index_map, i);
  if (axis == -1 || is_spread(k, cut, i)) return "0";
  if (axis < 0) return yielded_text(t, ref->index_map, i);
  if (ref->at == AT_ELEMENT || axis == block_axis(k, ref, i)) return axis_text(t, k, b, axis);
  if (b->split >> axis & 1) return outer_name(t, k, axis);
  return yielded_text(t, ref->index_map, i);
}

static const char *map_text(Writer *t, const Kernel *k, const Blocks *b, const Cut *cut) {
  const char *text = "(";
  for (int i = 0; i < cut->like->array.rank; i++)
    text = word_text(t, "%s%s%s", text, i ? ", " : "", index_text(t, k, b, cut, i));
  return word_text(t, "%s)", text);
}

// " halo (0, 0), (1, 1)"
static const char *halo_text(Writer *t, const Ref *ref) {
  const char *text = "";
  bool any = false;
  for (int i = 0; i < ref->array.rank; i++) {
    any = any || ref->halo[i][0] > 0 || ref->halo[i][1] > 0;
    text = word_text(t, "%s%s(%lld, %lld)", text, i ? ", " : " halo ", (long long)ref->halo[i][0],
                     (long long)ref->halo[i][1]);
  }
  return any ? text : "";
}

static bool overhangs(const Ref *ref) {
  for (int i = 0; i < ref->array.rank; i++)
    if (may_overhang(ref, i)) return true;
  return false;
}

static const char *pad_text(Writer *t, const Blocks *b, const Ref *ref) {
  if (!ref->has_pad && b->pads && overhangs(ref) && ref->role == REF_INPUT)
    return is_float(ref->array.dtype) ? " pad 0.0" : " pad 0";
  if (!ref->has_pad) return "";
  ref->pad->note = NEW(t->arena, Word);
  compose(t, ref->pad);
  return word_text(t, " pad %s", used(t, ref->pad, BINDS_LEAST));
}

// "[8, N] at (i, 0)"; NULL: all of the array, which needs no blocks.
static const char *cut_text(Writer *t, const Kernel *k, const Blocks *b, int operand) {
  const Cut cut = cut_of(b, k, operand);
  const Ref *ref = cut.like;
  const bool own = ref->name == k->refs.at[operand]->name;
  const bool scalar = own && !ref->array.rank && !ref->prefetch;
  const char *space = scalar && ref->space == SPACE_SMEM ? "smem" : NULL;
  if (ref->whole || !ref->array.rank) return space;
  const bool element = ref->at == AT_ELEMENT && !cut.adds_up;
  const bool past = overhangs(ref) || (b->backwards && may_miss_any(k, ref));
  const bool zero = operand < k->inputs && (ref->has_pad || (b->masks && past));
  return word_text(t, "%s at %s%s%s%s", block_text(t, k, &cut), element ? "element " : "",
                   map_text(t, k, b, &cut),
                   own    ? pad_text(t, b, ref)
                   : zero ? " pad 0.0"
                          : "",
                   element ? halo_text(t, ref) : "");
}

// One line for all operands with the same blocks.
static void write_blocks(Writer *t, const Kernel *k, const Blocks *b, bool all) {
  const int count = k->inputs + k->outputs;
  const char **cuts = NEW_ARRAY(t->arena, const char *, count);
  for (int i = 0; i < count; i++) cuts[i] = is_operand(k, b, i, all) ? cut_text(t, k, b, i) : NULL;
  for (int i = 0; i < count; i++) {
    if (!cuts[i]) continue;
    const char *names = k->refs.at[i]->name, *cut = cuts[i];
    for (int j = i + 1; j < count; j++) {
      if (!cuts[j] || strcmp(cuts[j], cut) != 0) continue;
      names = word_text(t, "%s, %s", names, k->refs.at[j]->name);
      cuts[j] = NULL;
    }
    text_line(t, "  block %s: %s;", names, cut);
  }
}

// Is the extent at least 1?
static bool has_steps(const Instr *extent) {
  return extent->op == OP_CONST || (extent->op == OP_MAX && ir_is_const(extent->args[0], 1));
}

// least: there is a step even where there are no blocks.
static const char *extent_text(Writer *t, const Kernel *k, int axis, bool least) {
  const Instr *extent = ir_yielded(k->grid.at[axis].extent, 0);
  Dim size;
  int64_t by;
  const bool blocks = rounded_up(extent, &size, &by), steps = has_steps(extent);
  const char *text =
      blocks ? word_text(t, "cdiv(%s, %lld)", t->size[dim_size_index(size)], (long long)by)
             : yielded_text(t, k->grid.at[axis].extent, 0);
  const bool most = blocks ? steps || least : least && !steps;
  return most ? word_text(t, "max(1, %s)", text) : text;
}

static const char *add_axis(Writer *t, const char *text, const char *name, const char *extent,
                            bool parallel) {
  return word_text(t, "%s%s%s in %s %s", text, *text ? ", " : "", name, extent,
                   parallel ? "parallel" : "arbitrary");
}

static const char *outer_extent(Writer *t, const Kernel *k, const Blocks *b, int axis) {
  int at;
  const Instr *divisor;
  const Ref *ref = split_by(k, b, axis, &at, &divisor);
  return dim_text(t, ref->array.dim[at]);
}

// Axes along which gradients are added up come last, and have a step where there are no blocks.
static void write_grid(Writer *t, const Kernel *k, const Blocks *b) {
  const char *text = "";
  for (int inner = 0; inner < 2; inner++)
    for (int i = 0; i < k->grid.count; i++) {
      const bool split = b->split >> i & 1;
      if (b->skipped >> i & 1) continue;
      if (split && inner)
        text = add_axis(t, text, inner_name(t, k, i), divisor_text(t, k, b, i), false);
      else if (split)
        text = add_axis(t, text, outer_name(t, k, i), outer_extent(t, k, b, i), true);
      else if ((b->ignored >> i & 1) == inner && inner)
        text = add_axis(t, text, k->grid.at[i].name, extent_text(t, k, i, true), false);
      else if ((b->ignored >> i & 1) == inner)
        text = add_axis(t, text, k->grid.at[i].name, extent_text(t, k, i, false),
                        k->grid.at[i].parallel);
    }
  if (*text) text_line(t, "  grid (%s);", text);
}

// "i == 0 && j == 0", or the last step.
static const char *step_text(Writer *t, const Kernel *k, const Blocks *b, bool last) {
  const char *text = "";
  for (int i = 0; i < k->grid.count; i++) {
    const bool split = b->split >> i & 1;
    const char *name = split ? inner_name(t, k, i) : k->grid.at[i].name, *to = "0";
    if (!(b->ignored >> i & 1) && !split) continue;
    if (last) to = word_text(t, "num_programs(%s) - 1", name);
    text = word_text(t, "%s%s%s == %s", text, *text ? " && " : "", name, to);
  }
  return text;
}

static void write_when(Writer *t, const char *condition, const char *text) {
  text_line(t, *condition ? "  when %s {%s }" : "  %s%s", condition,
            *condition ? text : text + strspn(text, " "));
}

// "[V, 8]": the memory of a sum.
static const char *sum_dims(Writer *t, const Kernel *k, const Cut *cut) {
  Type type = {.dtype = cut->like->array.dtype};
  for (int i = 0; i < cut->like->array.rank; i++)
    if (is_spread(k, cut, i))
      type.dim[type.rank++] = cut->like->array.dim[i];
    else if (!cut->like->squeeze[i])
      type.dim[type.rank++] = cut->like->block[i];
  return dims_text(t, &type);
}

// What the steps carry, and the text that sets it to 0.
static const char *write_memory(Writer *t, const Kernel *k) {
  const char *start = "";
  for (int i = 0; i < k->states.count; i++) {
    const Ref *ref = k->states.at[i];
    const char *name = text_name(t, ref->name), *dtype = dtype_info[ref->type.dtype].name;
    const char *dims = ref->type.rank ? dims_text(t, &ref->type) : "";
    t->state[i] = name;
    text_line(t, "  scratch %s: vmem %s%s;", name, dtype, dims);
    start =
        word_text(t, "%s %s[...] = %s;", start, name, ref->type.dtype == DT_BOOL ? "false" : "0");
  }
  return start;
}

// A gradient is added up in its own block, or in scratch if that is of a wider dtype.
static void write_sums(Writer *t, const Kernel *k, const Blocks *b) {
  const char *start = "";
  t->parts = NEW_ARRAY(t->arena, SumPart, k->outputs);
  for (int i = 0; i < k->outputs; i++) {
    const Ref *ref = k->refs.at[k->inputs + i];
    const Cut cut = cut_of(b, k, k->inputs + i);
    const DType dtype = ref->array.dtype;
    const bool own = dtype == cut.like->array.dtype;
    if (!cut.adds_up) continue;
    const char *name = own ? ref->name : word_text(t, "sum_%s", ref->name);
    t->parts[i] = (SumPart){.name = name, .window = "[...]"};
    if (!own)
      text_line(t, "  scratch %s: vmem %s%s;", name, dtype_info[dtype].name, sum_dims(t, k, &cut));
    start = word_text(t, "%s %s[...] = 0;", start, name);
  }
  write_when(t, step_text(t, k, b, false), word_text(t, "%s%s", start, write_memory(t, k)));
}

// The element at which the block begins along an axis. A computed one gets a name.
static const char *start_text(Writer *t, const Ref *ref, int axis) {
  yielded_text(t, ref->index_map, axis);
  Instr *at = ir_yielded(ref->index_map, axis);
  const bool blocks = ref->at == AT_BLOCK && ref->block[axis] != 1;
  const char *text = used(t, at, blocks ? BINDS_ATOM : BINDS_SUM);
  if (blocks) text = word_text(t, "%s * %lld", text, (long long)ref->block[axis]);
  if (!strpbrk(text, " (")) return text;
  const char *name = text_name(t, "start");
  text_line(t, "  let %s = %s;", name, text);
  return name;
}

// The mask of the elements along an axis, from `start` on, that are in bounds, combined with
// `before`. at: the axis of the added value.
static const char *inside_text(Writer *t, const Ref *ref, int axis, int at, const char *start,
                               const char *before) {
  Type along = ref->type;
  const char *place = start;
  for (int i = 0; i < along.rank; i++)
    if (i != at) along.dim[i] = 1;
  if (ref->block[axis] != 1)
    place = word_text(t, "%s + iota(%s, axis = %d, dtype = i64)", start, dims_text(t, &along), at);
  return word_text(t, "%s%s%s >= 0 && %s < %s", before, *before ? " && " : "", place, place,
                   dim_text(t, ref->array.dim[axis]));
}

// The elements that a step adds to.
static void choose_part(Writer *t, const Kernel *k, const Cut *cut, SumPart *part) {
  const Ref *ref = cut->like;
  const char *window = "", *mask = "";
  bool single = true;  // the condition is the same for all elements
  int at = 0;
  for (int i = 0; i < ref->array.rank; i++) {
    const bool spread = is_spread(k, cut, i);
    const char *start = spread ? start_text(t, ref, i) : NULL, *axis = ":";
    if (spread)
      axis =
          ref->squeeze[i] ? start : word_text(t, "ds(%s, %lld)", start, (long long)ref->block[i]);
    if (spread || !ref->squeeze[i])
      window = word_text(t, "%s%s%s", window, *window ? ", " : "", axis);
    if (spread && (ref->has_pad || ref->at == AT_ELEMENT || may_overhang(ref, i)))
      mask = inside_text(t, ref, i, at, start, mask), single = single && ref->block[i] == 1;
    at += !ref->squeeze[i];
  }
  part->window = word_text(t, "[%s]", window);
  if (*mask && single)
    part->when = mask;
  else if (*mask)
    part->mask = word_text(t, "broadcast(%s, %s)", mask, dims_text(t, &ref->type));
}

static void store_sums(Writer *t, const Kernel *k, const Blocks *b) {
  const char *text = "";
  for (int i = 0; i < k->outputs; i++) {
    const char *name = k->refs.at[k->inputs + i]->name;
    if (!t->parts[i].name || strcmp(t->parts[i].name, name) == 0) continue;
    text = word_text(t, "%s %s[...] = cast(%s[...], %s);", text, name, t->parts[i].name,
                     dtype_info[cut_of(b, k, k->inputs + i).like->array.dtype].name);
  }
  if (*text) write_when(t, step_text(t, k, b, true), text);
}

// The operands with their arrays as types, all of them or those that are used.
static const char *arrays_text(Writer *t, const Kernel *k, const Blocks *b, int from, int count,
                               bool all, bool prefetch) {
  LIST(Ref *) refs = {0};
  for (int i = from; i < from + count; i++) {
    Ref *ref = NEW(t->arena, Ref);
    const Cut cut = cut_of(b, k, i);
    *ref = (Ref){.name = k->refs.at[i]->name, .array = cut.like->array, .packed = cut.like->packed};
    if (is_operand(k, b, i, all) && k->refs.at[i]->prefetch == prefetch)
      LIST_PUSH(t->arena, &refs, ref);
  }
  return text_operands(t, refs.at, refs.count);
}

// Marks the sizes in the shapes of these operands.
static bool *sizes_of(const Kernel *k, const Blocks *b, int from, int count) {
  bool *known = NEW_ARRAY(k->arena, bool, k->sizes.count + 1);
  for (int i = from; i < from + count; i++) {
    const Type *array = &cut_of(b, k, i).like->array;
    for (int j = 0; j < array->rank && is_operand(k, b, i, false); j++)
      if (!dim_is_const(array->dim[j])) known[dim_size_index(array->dim[j])] = true;
  }
  return known;
}

// The operands of a call, and "V = V": the sizes of its results that its inputs do not have.
static const char *with_sizes(Writer *t, const Kernel *k, const Blocks *b, const char *text) {
  const bool *known = sizes_of(k, b, 0, k->inputs), *wanted = sizes_of(k, b, k->inputs, k->outputs);
  for (int i = 0; i < k->sizes.count; i++)
    if (wanted[i] && !known[i] && !k->sizes.at[i].value)
      text = word_text(t, "%s%s%s = %s", text, *text ? ", " : "", k->sizes.at[i].name,
                       k->sizes.at[i].name);
  return text;
}

static void write_head(Writer *t, const char *name, const Kernel *k, const Blocks *b, bool all) {
  t->blocks = true;
  const char *prefetched = arrays_text(t, k, b, 0, k->inputs, all, true);
  text_signature(t, "kernel", name, arrays_text(t, k, b, 0, k->inputs, all, false),
                 arrays_text(t, k, b, k->inputs, k->outputs, all, false));
  if (*prefetched) text_line(t, "  prefetch %s;", prefetched);
  text_requirements(t, all ? NULL : sizes_of(k, b, 0, k->inputs));
  write_grid(t, k, b);
  write_blocks(t, k, b, all);
  if (k->vmem_limit) text_line(t, "  vmem_limit %lld;", (long long)k->vmem_limit);
}

// The derived grid has one step along an axis of extent 0. Does that step read an element that does
// not exist: of a prefetched operand, or of a gradient whose blocks are single elements, which no
// mask clears?
static bool reads_nothing(const Kernel *k, const Blocks *b, int axis) {
  for (int i = 0; i < k->inputs; i++)
    if (k->refs.at[i]->prefetch) return true;
  for (int o = b->inputs; o < b->inputs + b->outputs; o++)
    for (int i = 0; i < b->refs[o].array.rank; i++)
      if (b->refs[o].block[i] == 1 && followed_axis(k, &b->refs[o], i) == axis) return true;
  return false;
}

// Keeps the step along an axis of extent 0 from adding anything.
static void begin_steps(Writer *t, const Kernel *k, const Blocks *b) {
  const char *text = "";
  for (int i = 0; i < k->grid.count; i++) {
    const bool split = b->split >> i & 1;
    if (!(b->ignored >> i & 1) || split || has_steps(ir_yielded(k->grid.at[i].extent, 0))) continue;
    if (!b->guarded && !reads_nothing(k, b, i)) continue;
    text = word_text(t, "%s%s%s < %s", text, *text ? " && " : "", k->grid.at[i].name,
                     extent_text(t, k, i, false));
  }
  if (!*text) return;
  text_line(t, "  when %s {", text);
  t->indent++;
}

// A step that does nothing adds nothing.
static void begin_guard(Writer *t, const Kernel *k, const Blocks *b) {
  const char *text = yielded_text(t, b->guard, 0);
  if (!blocks_add_up(b)) {
    text_line(t, "  when !(%s) {", text);
    for (int i = k->inputs; i < k->inputs + k->outputs; i++)
      text_line(t, "    %s[...] = 0;", k->refs.at[i]->name);
    text_line(t, "  }");
  }
  text_line(t, "  when %s {", text);
  t->indent++;
}

// Says what a kernel computes again.
static void write_again(Work *w, Writer *t, const char *name, const bool *again) {
  const char *text = again_text(t, again);
  if (!text) return;
  text_line(t, "  // %s", text);
  LIST_PUSH(w->arena, &w->result.notes, word_text(t, "%s %s", name, text));
}

// Writes one derived kernel: signature, sums that are carried along the grid, the guard, and the
// body.
static void write_kernel(Work *w, const char *name, bool all, Kernel *k, const Blocks *b) {
  Writer t;
  text_start(&t, k, w->out);
  const bool adds_up = blocks_add_up(b);
  for (int i = 0; i < k->grid.count; i++)
    if ((b->split | b->backwards) >> i & 1)
      t.axis[i] = word_text(&t, "(%s)", axis_text(&t, k, b, i));
  write_head(&t, name, k, b, all);
  write_again(w, &t, name, w->made.again);
  if (adds_up) write_sums(&t, k, b);
  if (adds_up) begin_steps(&t, k, b);
  if (b->guard) begin_guard(&t, k, b);
  for (int i = 0; i < k->outputs && b->scattered; i++) {
    const Cut cut = cut_of(b, k, k->inputs + i);
    choose_part(&t, k, &cut, &t.parts[i]);
  }
  text_body(&t, k);
  while (t.indent) {
    t.indent--;
    text_line(&t, "  }");
  }
  if (adds_up) store_sums(&t, k, b);
  text_line(&t, "}\n");
}

// ---- the kernel

static const char *names_text(Writer *t, const Kernel *k, const Blocks *b, int from, int count,
                              bool all) {
  const char *text = "";
  for (int i = from; i < from + count; i++)
    if (is_operand(k, b, i, all))
      text = word_text(t, "%s%s%s", text, *text ? ", " : "", k->refs.at[i]->name);
  return text;
}

// A gradient that does not read those of outputs is 0: nothing is added up.
static bool is_zero(const Kernel *k) {
  for (int i = 0; i < k->inputs; i++)
    if (is_there(k, i, false)) return false;
  return true;
}

static Kernel *derive_masked(Work *w, const Group *group, Blocks *b) {
  Kernel *k = derive_group(w, group, b, false);
  if (!k || w->options->forward) return k;
  if (group->between || needs_masks(k, b)) k = derive_group(w, group, b, true);
  if (!k || !blocks_add_up(b) || w->groups.count == 1 || !is_zero(k)) return k;
  Group own = *group;
  if (own.split || own.scattered) return k;
  own.ignored = 0;
  k = derive_group(w, &own, b, false);
  b->skipped = group->ignored;
  b->guard = NULL;
  return k;
}

// Does a kernel use the number of steps of a divided axis?
static bool counts_steps(const Region *region, int64_t split) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_EXTENT && split >> v->ival & 1) return true;
    for (int r = 0; r < 2; r++)
      if (v->regions[r] && counts_steps(v->regions[r], split)) return true;
  }
  return false;
}

static bool check_kernel(Work *w, const Kernel *k, const Blocks *b) {
  bool counts =
      counts_steps(k->reference, b->split) || (b->guard && counts_steps(b->guard, b->split));
  if (!k->states.count && !counts) return true;
  diag_error(w->diag, k->span, ERR_KERNEL_DERIVED,
             counts ? "the derivative of `%s` depends on the number of steps along an axis along "
                      "which several steps share a block: `pkc grad` differentiates the reference"
                    : "the derivative of `%s` needs vars, which --kernel does not write: `pkc "
                      "grad` differentiates the reference",
             w->k->name);
  return false;
}

static void see_reads(Work *w, const Kernel *k) {
  for (int i = 0; i < w->k->refs.count; i++)
    for (int j = 0; j < k->inputs; j++) {
      const Ref *ref = w->k->refs.at[i];
      if (k->refs.at[j]->name != ref->name || !is_there(k, j, false)) continue;
      w->reads_sums = w->reads_sums || is_carried(&w->sums, ref);
      if (ref->role == REF_OUTPUT) w->result.read = list_with(w->arena, w->result.read, ref->name);
    }
}

static bool write_group(Work *w, const Group *group) {
  Blocks b;
  Kernel *k = derive_masked(w, group, &b);
  if (!k || !check_kernel(w, k, &b)) return false;
  Writer t = {.k = k, .arena = w->arena};
  const char *results = names_text(&t, k, &b, k->inputs, k->outputs, true);
  const char *given = names_text(&t, k, &b, 0, k->inputs, false);
  const char *call = word_text(&t, "%s%s = %s(%s);", group->between ? "let " : "", results,
                               group->name, with_sizes(&t, k, &b, given));
  LIST_PUSH(w->arena, &w->calls, call);
  see_reads(w, k);
  w->result.operations += w->made.operations;
  write_kernel(w, group->name, w->groups.count == 1, k, &b);
  return true;
}

// Writes a kernel whose results are kept for the others: `keeps` names them with their bytes.
// axes: of the grid, along which memory carries them; 0: it is that of the results.
static void write_kept(Work *w, const char *name, Kernel *k, const Blocks *b, int64_t axes) {
  Writer t;
  text_start(&t, k, w->out);
  write_head(&t, name, k, b, false);
  w->kept = "";
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    const char *bytes = bytes_text(&t, &cut_of(b, k, i).like->array);
    const char *keeps = word_text(&t, "%s keeps %s bytes", k->refs.at[i]->name, bytes);
    text_line(&t, "  // %s", keeps);
    LIST_PUSH(w->arena, &w->result.notes, word_text(&t, "%s of %s", keeps, name));
    w->kept = word_text(&t, "%s%s%s", w->kept, *w->kept ? " + " : "", bytes);
  }
  bool *again = NEW_ARRAY(w->arena, bool, k->next_id + 1);
  for (int id = 0; id < k->next_id; id++) again[id] = true;
  const Operations found = operations_of(k, again);
  w->result.operations += estimated(&found.all);
  write_again(w, &t, name, again);
  const Blocks carries = {.ignored = axes};
  if (axes) write_when(&t, step_text(&t, k, &carries, false), write_memory(&t, k));
  for (int i = 0; i < k->states.count && !axes; i++) t.state[i] = k->states.at[i]->name;
  text_body(&t, k);
  text_line(&t, "}\n");
  const char *call =
      word_text(&t, "let %s = %s(%s);", names_text(&t, k, b, k->inputs, k->outputs, true), name,
                names_text(&t, k, b, 0, k->inputs, false));
  LIST_PUSH(w->arena, &w->calls, call);
}

// The final sums, each in its own block.
static void write_grid_sums(Work *w) {
  Kernel *k = lowered_again(w);
  const Blocks b = sums_as_reference(k);
  write_kept(w, arena_printf(w->arena, "%s_sums", w->k->name), k, &b, 0);
}

// ---- state along the grid

// The inputs to derive by, and the states before a step.
static const char *wrt_of_step(const Work *w, const Kernel *k) {
  const char *list = "";
  for (int i = 0; i < k->inputs; i++) {
    const Ref *ref = k->refs.at[i];
    const bool state = i >= w->k->inputs;
    if (!has_arithmetic(ref->type.dtype) || (!state && !is_wanted(w, ref))) continue;
    list = arena_printf(w->arena, "%s%s%s", list, *list ? "," : "", ref->name);
  }
  return list;
}

static Kernel *derive_step(Work *w, Blocks *b, bool masks) {
  Kernel *k = lowered_again(w);
  *b = step_as_reference(k, w->carried);
  b->masks = masks;
  w->made = (GradResult){0};
  const GradOptions how = {
      .wrt = wrt_of_step(w, k), .saved = w->options->saved, .result = &w->made, .blocks = b};
  return grad_derive(k, &how, w->diag) ? k : NULL;
}

// Makes the number of steps along an axis a size of its own, unless it is one.
static Dim count_of(Kernel *k, int axis, Dim dim) {
  static const Type none = {.dtype = DT_COUNT};
  if (dim_is_const(dim) || !k->sizes.at[dim_size_index(dim)].value) return dim;
  const char *name = intern_printf("%s_count", k->grid.at[axis].name);
  LIST_PUSH(k->arena, &k->sizes, ((Size){.name = name, .span = k->span}));
  Region *extent = k->grid.at[axis].extent = ir_region(k);
  Instr *size = ir_new(k, OP_SIZE, type_scalar(DT_I64), k->span, 0, NULL);
  size->ival = k->sizes.count - 1;
  ir_append(k, extent, size);
  ir_append(k, extent, ir_new(k, OP_YIELD, none, k->span, 1, &size));
  return dim_of_size(k->sizes.count - 1);
}

// A sum of the parts of a gradient that the cells have made.
static void write_parts_sum(Work *w, int at, const char *parts) {
  static const Type none = {.dtype = DT_COUNT};
  Kernel *k = lowered_again(w);
  const Ref *input = k->refs.at[at];
  Ref *part = partial_blocks(k, w->carried, input);
  const int64_t missing = missing_axes(k, w->carried->axes, input);
  for (int i = 0, axis = 0; i < k->grid.count; i++)
    if (missing >> i & 1) part->array.dim[axis] = count_of(k, i, part->array.dim[axis]), axis++;
  Ref *refs = NEW_ARRAY(k->arena, Ref, 2), *from = NEW(k->arena, Ref), *to = NEW(k->arena, Ref);
  const char *name = arena_printf(w->arena, "%s_d%s", w->k->name, input->name);
  refs[0] = *part;
  refs[0].name = parts;
  refs[0].span = (Span){UINT32_MAX, UINT32_MAX};
  refs[1] = *input;
  *from = refs[0];
  *to = refs[1];
  from->role = REF_INPUT;
  from->array = from->type;
  to->role = REF_OUTPUT;
  to->name = intern_printf("d%s", input->name);
  to->array = to->type = type_as(input->type, part->array.dtype);
  const Blocks b = {.inputs = 1,
                    .outputs = 1,
                    .refs = refs,
                    .ignored = missing,
                    .skipped = ignored_axes(k, input) & ~missing,
                    .split = split_axes(k, input),
                    .guarded = true};
  for (int i = 0; i < k->grid.count; i++) k->grid.at[i].parallel = true;
  k->refs.count = k->states.count = 0;
  LIST_PUSH(k->arena, &k->refs, from);
  LIST_PUSH(k->arena, &k->refs, to);
  k->inputs = k->outputs = to->id = 1;
  from->id = 0;
  k->reference = ir_region(k);
  Instr *sum = ir_new(k, OP_ARRAY, from->type, k->span, 0, NULL);
  sum->ref = from;
  ir_append(k, k->reference, sum);
  ir_append(k, k->reference, ir_new(k, OP_YIELD, none, k->span, 1, &sum));
  w->made.again = NEW_ARRAY(w->arena, bool, k->next_id + 1);
  write_kernel(w, name, false, k, &b);
  Writer t = {.k = k, .arena = w->arena};
  LIST_PUSH(w->arena, &w->calls,
            word_text(&t, "%s = %s(%s);", to->name, name, with_sizes(&t, k, &b, parts)));
}

// "db_parts: f32[B, H, N, S]"
static const char *declared_text(Writer *t, const char *name, const Type *type) {
  const char *dims = type->rank ? dims_text(t, type) : "";
  return word_text(t, "var %s: %s%s;", name, dtype_info[type->dtype].name, dims);
}

// The input whose gradient a result is the parts of; -1: none.
static int part_of(const Kernel *k, const Blocks *b, int result) {
  const Ref *like = cut_of(b, k, result).like;
  for (int i = 0; i < b->inputs; i++)
    if (like == b->partial[i]) return i;
  return -1;
}

static bool has_parts(const Kernel *k, const Blocks *b) {
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    if (part_of(k, b, i) >= 0) return true;
  return false;
}

// Gradients that other kernels add up are variables of the program.
static void name_parts(Work *w, Kernel *k, const Blocks *b) {
  Writer t;
  Buf unused = {0};
  text_start(&t, k, &unused);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    const int input = part_of(k, b, i);
    if (input < 0) continue;
    const char *name = k->refs.at[i]->name = intern_printf("%s_parts", k->refs.at[i]->name);
    const Type *array = &b->partial[input]->array;
    const char *bytes = bytes_text(&t, array);
    w->kept = w->kept ? word_text(&t, "%s + %s", w->kept, bytes) : bytes;
    LIST_PUSH(w->arena, &w->result.notes, word_text(&t, "%s takes %s bytes", name, bytes));
    LIST_PUSH(w->arena, &w->calls,
              word_text(&t, "%s  // takes %s bytes", declared_text(&t, name, array), bytes));
  }
}

static const char *states_read(const Work *w, const Kernel *k) {
  const char *list = NULL;
  for (int i = w->k->inputs; i < k->inputs; i++) {
    const char *name = k->refs.at[i]->name;
    if (is_before_name(name) && reads_array(k->reference, k->refs.at[i]))
      list = list_with(w->arena, list, name);
  }
  return list;
}

// One kernel goes through the steps from the last to the first; others add up what its cells give
// to the same elements.
static bool write_carried(Work *w) {
  Blocks b;
  Kernel *k = derive_step(w, &b, false);
  if (k && needs_masks(k, &b)) k = derive_step(w, &b, true);
  if (!k || !check_kernel(w, k, &b)) return false;
  w->made.again = carry_gradients(k, &b, w->made.again);
  const char *states = states_read(w, k);
  const bool alone = !states && !has_parts(k, &b);
  const char *name = arena_printf(w->arena, alone ? "%s_backward" : "%s_steps", w->k->name);
  if (states) {
    Kernel *forward = lowered_again(w);
    const Blocks of = states_as_reference(forward, w->carried, states);
    write_kept(w, arena_printf(w->arena, "%s_states", w->k->name), forward, &of, w->carried->axes);
  }
  name_parts(w, k, &b);
  Writer t = {.k = k, .arena = w->arena};
  LIST_PUSH(w->arena, &w->calls,
            word_text(&t, "%s = %s(%s);", names_text(&t, k, &b, k->inputs, k->outputs, true), name,
                      with_sizes(&t, k, &b, names_text(&t, k, &b, 0, k->inputs, false))));
  w->result.operations += w->made.operations;
  write_kernel(w, name, alone, k, &b);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    const int input = part_of(k, &b, i);
    if (input >= 0) write_parts_sum(w, input, k->refs.at[i]->name);
  }
  return true;
}

// ---- the program

static const char *signature_text(Writer *t, const Work *w, bool results) {
  LIST(Ref *) refs = {0};
  Kernel *k = w->k;
  for (int i = 0; i < k->inputs; i++)
    if (!results)
      LIST_PUSH(t->arena, &refs, k->refs.at[i]);
    else if (is_wanted(w, k->refs.at[i]))
      LIST_PUSH(t->arena, &refs, new_operand(k, REF_OUTPUT, k->refs.at[i], "d"));
  for (int i = k->inputs; i < k->inputs + k->outputs && !results; i++)
    if (is_in_list(w->options->saved, k->refs.at[i]->name))
      LIST_PUSH(t->arena, &refs, k->refs.at[i]);
  for (int i = k->inputs; i < k->inputs + k->outputs && !results; i++)
    if (has_arithmetic(k->refs.at[i]->array.dtype))
      LIST_PUSH(t->arena, &refs, new_operand(k, REF_INPUT, k->refs.at[i], "d"));
  return text_operands(t, refs.at, refs.count);
}

// The calls in their order: the sums come first, then their gradients, then the others.
static void order_calls(Work *w) {
  LIST(const char *) calls = {0};
  const int count = w->groups.count;
  if (w->reads_sums) write_grid_sums(w);
  if (w->reads_sums) LIST_PUSH(w->arena, &calls, w->calls.at[count]);
  for (int between = 1; between >= 0; between--)
    for (int i = 0; i < count; i++)
      if (w->groups.at[i].between == between) LIST_PUSH(w->arena, &calls, w->calls.at[i]);
  w->calls.at = calls.at;
  w->calls.count = calls.count;
}

static void write_program(Work *w) {
  Writer t;
  text_start(&t, w->k, w->out);
  text_signature(&t, "program", arena_printf(w->arena, "%s_backward", w->k->name),
                 signature_text(&t, w, false), signature_text(&t, w, true));
  text_requirements(&t, NULL);
  if (w->kept) text_limit(&t, w->kept, w->options->memory);
  for (int i = 0; i < w->calls.count; i++) text_line(&t, "  %s", w->calls.at[i]);
  text_line(&t, "}\n");
}

// The bytes of VMEM that the sum of a gradient and its block take; 0: they depend on sizes.
static int64_t bytes_of_sum(const Kernel *k, const Ref *ref) {
  const DType dtype = ref->array.dtype, sum = dtype_accum(dtype);
  int64_t bytes = (dtype_info[dtype].bits + (sum == dtype ? 0 : dtype_info[sum].bits)) / 8;
  for (int i = 0; i < ref->array.rank; i++) {
    const Dim dim = followed_axis(k, ref, i) == -2 ? ref->array.dim[i] : ref->block[i];
    if (!dim_is_const(dim) || __builtin_mul_overflow(bytes, dim, &bytes)) return 0;
  }
  return bytes;
}

// A window of a sum has constant extents, and the whole sum must fit in VMEM.
static bool check_sum(Work *w, const Ref *ref) {
  const Kernel *k = w->k;
  const int64_t limit = k->vmem_limit ? k->vmem_limit : VMEM_LIMIT_DEFAULT,
                bytes = bytes_of_sum(k, ref);
  int moved = -1;
  for (int i = 0; i < ref->array.rank; i++)
    if (followed_axis(k, ref, i) == -2 && !dim_is_const(ref->block[i])) moved = i;
  if (moved >= 0)
    diag_error(w->diag, ref->map_span, ERR_KERNEL_DERIVED,
               "axis %d of the blocks of `%s` has a run-time extent, and its index is not a grid "
               "axis with one step for each block, which --kernel does not differentiate",
               moved, ref->name);
  else if (bytes > limit)
    diag_error(w->diag, ref->map_span, ERR_KERNEL_DERIVED,
               "the gradient of `%s` is accumulated in VMEM and needs %lld bytes there, more than "
               "the limit of %lld; `pkc grad` differentiates the reference of `%s`",
               ref->name, (long long)bytes, (long long)limit, k->name);
  return moved < 0 && bytes <= limit;
}

static bool check_sums(Work *w) {
  bool good = true;
  for (int i = 0; i < w->k->inputs && good && !w->options->forward; i++) {
    const Ref *ref = w->k->refs.at[i];
    if (is_wanted(w, ref) && is_scattered(w->k, ref)) good = check_sum(w, ref);
  }
  return good;
}

// The gradients of blocks that are independent, and of sums.
static bool write_groups(Work *w) {
  if (!w->options->forward) w->sums = find_grid_sums(w->k);
  if (!check_sums(w)) return false;
  if (w->options->saved && w->sums.apart)
    w->known = known_by_outputs(w->k, &w->sums, w->options->saved, &w->known_count);
  find_groups(w);
  for (int i = 0; i < w->groups.count; i++)
    if (!write_group(w, &w->groups.at[i])) return false;
  if (w->groups.count == 1 && !w->reads_sums) return true;
  order_calls(w);
  return true;
}

// Does --kernel derive the body? *carried: its state along the grid.
static bool is_derived(const Work *w, Carried *carried) {
  Diag *first = diag_new(w->arena, w->k->source), *second = diag_new(w->arena, w->k->source);
  if (check_blocks(w->k, w->options->forward, first)) return true;
  if (!w->options->forward) *carried = find_carried(w->k, second);
  return carried->axes;
}

// Finds the form of the body that --kernel derives. Otherwise `diag` has what is refused.
static void choose_form(Work *w, Carried *carried, Diag *diag) {
  Kernel *given = w->k;
  if (is_derived(w, carried)) return;
  const Carried of_given = *carried;
  if (given->body && !given->mesh.count) {
    w->choices = true;
    w->k = lowered_again(w);
    if (is_derived(w, carried)) return;
    w->choices = false;
    w->k = given;
  }
  if (of_given.refused)
    find_carried(given, diag);
  else
    check_blocks(given, w->options->forward, diag);
}

bool grad_kernel(KernelAgain *lowered, void *context, const GradOptions *options, Diag *diag,
                 Buf *out) {
  const int errors = diag_error_count(diag);
  Kernel *derived = lowered(context);
  Work w = {lowered, context, options, diag, derived->arena, .out = out};
  if (options->result) w.result = *options->result;
  w.k = lowered_again(&w);
  Carried carried = {0};
  choose_form(&w, &carried, diag);
  if (carried.axes) w.carried = &carried;
  if (diag_error_count(diag) != errors) return false;
  Kernel *k = w.k;
  const bool refers = derived->reference && !options->saved;
  if (refers &&
      !grad_derive(derived, &(GradOptions){.wrt = options->wrt, .forward = options->forward}, diag))
    return false;
  if (!choose_inputs(k, options->wrt, NEW_ARRAY(k->arena, bool, k->inputs + 1), diag)) return false;
  if (!(w.carried ? write_carried(&w) : write_groups(&w))) return false;
  if (options->saved && !w.result.read) {
    refuse_saved(k, options->saved, diag);
    return false;
  }
  if (w.calls.count > 1) write_program(&w);
  if (options->result) *options->result = w.result;
  if (!refers) return true;
  Writer t;
  text_start(&t, derived, out);
  text_line(&t, "reference %s {", derived->name);
  text_body(&t, derived);
  text_line(&t, "}");
  return true;
}
