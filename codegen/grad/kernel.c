// The derivative of a kernel's body as kernels of blocks: of the gradient, one for all inputs whose
// gradients are added up along the same axes of the grid; along directions, one for all.
#include "codegen/grad/blocks.h"
#include "codegen/grad/text.h"

#include <string.h>

typedef struct {
  int64_t ignored;
  const char *wrt;   // names of inputs with commas between them
  const char *name;  // of its kernel
} Group;

typedef struct {
  KernelAgain *again;
  void *context;
  const GradOptions *options;
  Diag *diag;
  Arena *arena;
  Kernel *k;  // as it was lowered
  LIST(Group) groups;
  Buf *out;
} Work;

// ---- groups

static bool is_wanted(const Work *w, const Ref *ref) {
  const char *list = w->options->wrt;
  size_t length = strlen(ref->name);
  if (!has_arithmetic(ref->array.dtype)) return false;
  if (!list) return true;
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strncmp(at, ref->name, length) == 0 && (!at[length] || at[length] == ',')) return true;
  return false;
}

static void add_to_group(Work *w, const Ref *ref) {
  const int64_t ignored = ignored_axes(w->k, ref);
  for (int i = 0; i < w->groups.count; i++) {
    Group *group = &w->groups.at[i];
    if (group->ignored != ignored) continue;
    group->wrt = arena_printf(w->arena, "%s,%s", group->wrt, ref->name);
    return;
  }
  Group group = {ignored, ref->name, arena_printf(w->arena, "%s_d%s", w->k->name, ref->name)};
  LIST_PUSH(w->arena, &w->groups, group);
}

static void find_groups(Work *w) {
  if (w->options->forward) {
    Group all = {0, w->options->wrt, arena_printf(w->arena, "%s_forward", w->k->name)};
    LIST_PUSH(w->arena, &w->groups, all);
    return;
  }
  for (int i = 0; i < w->k->inputs; i++)
    if (is_wanted(w, w->k->refs.at[i])) add_to_group(w, w->k->refs.at[i]);
  if (w->groups.count == 1)
    w->groups.at[0].name = arena_printf(w->arena, "%s_backward", w->k->name);
}

// ---- one kernel

static Blocks blocks_of(Work *w, const Kernel *k, int64_t ignored) {
  const int count = k->inputs + k->outputs;
  Blocks b = {.inputs = k->inputs, .outputs = k->outputs, .ignored = ignored};
  b.refs = NEW_ARRAY(w->arena, Ref, count + 1);
  for (int i = 0; i < count; i++) b.refs[i] = *k->refs.at[i];
  return b;
}

static Kernel *derive_group(Work *w, const Group *group, Blocks *b, bool masks) {
  Kernel *k = w->again(w->context);
  *b = blocks_of(w, k, group->ignored);
  b->masks = masks;
  blocks_as_reference(k, w->options->forward);
  const GradOptions how = {.wrt = group->wrt, .forward = w->options->forward, .blocks = b};
  return grad_derive(k, &how, w->diag) ? k : NULL;
}

// The derivative by all wanted inputs; the result has its signature.
static Kernel *derive_wanted(Work *w, Blocks *b) {
  const Group all = {0, w->options->wrt, NULL};
  return derive_group(w, &all, b, false);
}

// The blocks of an operand, and how it is read.
typedef struct {
  const Ref *like;
  bool adds_up;  // a gradient, which is stored once it is added up
} Cut;

// An operand of the derivative has the span of the one that it derives.
static Cut cut_of(const Blocks *b, const Kernel *k, int operand) {
  const Ref *ref = k->refs.at[operand];
  for (int i = 0; i < b->inputs + b->outputs; i++)
    if (b->refs[i].span.start == ref->span.start)
      return (Cut){&b->refs[i], operand >= k->inputs && b->ignored};
  INTERNAL("a derivative of nothing: %s", ref->name);
}

static bool is_read(const Region *region, const Ref *ref) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int a = 0; a < v->nargs; a++)
      if (v->args[a]->op == OP_ARRAY && v->args[a]->ref == ref) return true;
    for (int r = 0; r < 2; r++)
      if (v->regions[r] && is_read(v->regions[r], ref)) return true;
  }
  return false;
}

// Has the kernel this operand? A program's kernels have the inputs that they read.
static bool is_there(const Kernel *k, int operand, bool all) {
  return all || operand >= k->inputs || is_read(k->reference, k->refs.at[operand]);
}

// ---- its text

static const char *block_text(Writer *t, const Ref *ref) {
  const char *text = "[";
  for (int i = 0; i < ref->array.rank; i++) {
    Type one = {.rank = 1, .dim = {ref->block[i]}};
    const char *dim = dims_text(t, &one);
    dim = ref->squeeze[i] ? "_" : word_text(t, "%.*s", (int)strlen(dim) - 2, dim + 1);
    text = word_text(t, "%s%s%s", text, i ? ", " : "", dim);
  }
  return word_text(t, "%s]", text);
}

static const char *map_text(Writer *t, const Kernel *k, const Ref *ref) {
  const char *text = "(";
  for (int i = 0; i < ref->array.rank; i++) {
    int axis = block_axis(k, ref, i);
    text = word_text(t, "%s%s%s", text, i ? ", " : "", axis < 0 ? "0" : k->grid.at[axis].name);
  }
  return word_text(t, "%s)", text);
}

static const char *pad_text(Writer *t, const Ref *ref) {
  if (!ref->has_pad) return "";
  ref->pad->note = NEW(t->arena, Word);
  compose(t, ref->pad);
  return word_text(t, " pad %s", used(t, ref->pad, BINDS_LEAST));
}

// "[8, N] at (i, 0)"; NULL: all of the array, which needs no blocks.
static const char *cut_text(Writer *t, const Kernel *k, const Blocks *b, int operand) {
  const Cut cut = cut_of(b, k, operand);
  const Ref *ref = cut.like;
  if (ref->whole || !ref->array.rank) return NULL;
  bool given = ref->name != k->refs.at[operand]->name;
  return word_text(t, "%s at %s%s", block_text(t, ref), map_text(t, k, ref),
                   given ? "" : pad_text(t, ref));
}

// One line for all operands with the same blocks.
static void write_blocks(Writer *t, const Kernel *k, const Blocks *b, bool all) {
  const int count = k->inputs + k->outputs;
  const char **cuts = NEW_ARRAY(t->arena, const char *, count);
  for (int i = 0; i < count; i++) cuts[i] = is_there(k, i, all) ? cut_text(t, k, b, i) : NULL;
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

static const char *extent_text(Writer *t, const Kernel *k, int axis) {
  Dim size;
  int64_t by;
  if (!rounded_up(ir_yielded(k->grid.at[axis].extent, 0), &size, &by))
    return yielded_text(t, k->grid.at[axis].extent, 0);
  return word_text(t, "cdiv(%s, %lld)", t->size[dim_size_index(size)], (long long)by);
}

// Axes along which gradients are added up come last, and have a step where there are no blocks.
static void write_grid(Writer *t, const Kernel *k, int64_t ignored, int64_t skipped) {
  const char *text = "";
  for (int inner = 0; inner < 2; inner++)
    for (int i = 0; i < k->grid.count; i++) {
      if ((ignored >> i & 1) != inner || (skipped >> i & 1)) continue;
      const char *extent = extent_text(t, k, i);
      if (inner) extent = word_text(t, "max(1, %s)", extent);
      text = word_text(t, "%s%s%s in %s %s", text, *text ? ", " : "", k->grid.at[i].name, extent,
                       inner || !k->grid.at[i].parallel ? "arbitrary" : "parallel");
    }
  if (*text) text_line(t, "  grid (%s);", text);
}

// "i == 0 && j == 0", or the last step.
static const char *step_text(Writer *t, const Kernel *k, int64_t ignored, bool last) {
  const char *text = "";
  for (int i = 0; i < k->grid.count; i++) {
    const char *name = k->grid.at[i].name, *to = "0";
    if (!(ignored >> i & 1)) continue;
    if (last) to = word_text(t, "num_programs(%s) - 1", name);
    text = word_text(t, "%s%s%s == %s", text, *text ? " && " : "", name, to);
  }
  return text;
}

static void write_sums(Writer *t, const Kernel *k, const Blocks *b) {
  const char *start = "";
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    const Ref *ref = k->refs.at[i];
    text_line(t, "  scratch sum_%s: vmem %s%s;", ref->name, dtype_info[ref->array.dtype].name,
              dims_text(t, &ref->array));
    start = word_text(t, "%s sum_%s[...] = 0;", start, ref->name);
  }
  text_line(t, "  when %s {%s }", step_text(t, k, b->ignored, false), start);
}

static void store_sums(Writer *t, const Kernel *k, const Blocks *b) {
  const char *text = "";
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    const char *name = k->refs.at[i]->name, *value = word_text(t, "sum_%s[...]", name);
    const Cut cut = cut_of(b, k, i);
    DType dtype = cut.like->array.dtype;
    if (dtype != k->refs.at[i]->array.dtype)
      value = word_text(t, "cast(%s, %s)", value, dtype_info[dtype].name);
    text = word_text(t, "%s %s[...] = %s;", text, name, value);
  }
  text_line(t, "  when %s {%s }", step_text(t, k, b->ignored, true), text);
}

// The operands with their arrays as types, all of them or those that are used.
static const char *arrays_text(Writer *t, const Kernel *k, const Blocks *b, int from, int count,
                               bool all) {
  LIST(Ref *) refs = {0};
  for (int i = from; i < from + count; i++) {
    Ref *ref = NEW(t->arena, Ref);
    const Cut cut = cut_of(b, k, i);
    *ref = (Ref){.name = k->refs.at[i]->name, .array = cut.like->array, .packed = cut.like->packed};
    if (is_there(k, i, all)) LIST_PUSH(t->arena, &refs, ref);
  }
  return text_operands(t, refs.at, refs.count);
}

static void write_kernel(Work *w, const Group *group, Kernel *k, const Blocks *b) {
  Writer t;
  bool all = w->groups.count == 1;
  text_start(&t, k, w->out);
  t.blocks = true;
  t.adds_up = b->ignored != 0;
  text_signature(&t, "kernel", group->name, arrays_text(&t, k, b, 0, k->inputs, all),
                 arrays_text(&t, k, b, k->inputs, k->outputs, all));
  text_requirements(&t);
  write_grid(&t, k, b->ignored, b->skipped);
  write_blocks(&t, k, b, all);
  if (k->vmem_limit) text_line(&t, "  vmem_limit %lld;", (long long)k->vmem_limit);
  if (b->ignored) write_sums(&t, k, b);
  text_body(&t, k);
  if (b->ignored) store_sums(&t, k, b);
  text_line(&t, "}\n");
}

// ---- the kernel

static const char *names_text(Writer *t, const Kernel *k, int from, int count, bool all) {
  const char *text = "";
  for (int i = from; i < from + count; i++)
    if (is_there(k, i, all))
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
  if (needs_masks(k, b)) k = derive_group(w, group, b, true);
  if (!k || !group->ignored || w->groups.count == 1 || !is_zero(k)) return k;
  Group own = *group;
  own.ignored = 0;
  k = derive_group(w, &own, b, false);
  b->skipped = group->ignored;
  return k;
}

static bool write_group(Work *w, const Group *group, const char **call) {
  Blocks b;
  Kernel *k = derive_masked(w, group, &b);
  if (!k) return false;
  if (k->states.count) {
    diag_error(w->diag, k->span, ERR_KERNEL_DERIVED,
               "the derivative of `%s` needs vars, which --kernel does not write: `pkc grad` "
               "derives the reference",
               w->k->name);
    return false;
  }
  Writer t = {.k = k, .arena = w->arena};
  *call = word_text(&t, "%s = %s(%s);", names_text(&t, k, k->inputs, k->outputs, true), group->name,
                    names_text(&t, k, 0, k->inputs, false));
  write_kernel(w, group, k, &b);
  return true;
}

static void write_program(Work *w, Kernel *k, const Blocks *b, const char *const *calls) {
  Writer t;
  text_start(&t, k, w->out);
  text_signature(&t, "program", k->name, arrays_text(&t, k, b, 0, k->inputs, true),
                 arrays_text(&t, k, b, k->inputs, k->outputs, true));
  for (int i = 0; i < w->groups.count; i++) text_line(&t, "  %s", calls[i]);
  text_line(&t, "}\n");
}

bool grad_kernel(KernelAgain *lowered, void *context, const GradOptions *options, Diag *diag,
                 Buf *out) {
  Kernel *k = lowered(context), *derived = lowered(context);
  Work w = {lowered, context, options, diag, k->arena, k, {0}, out};
  if (!check_blocks(k, options->forward, diag)) return false;
  if (derived->reference && !grad_derive(derived, options, diag)) return false;
  Blocks blocks;
  Kernel *wanted = derive_wanted(&w, &blocks);
  if (!wanted) return false;
  find_groups(&w);
  const char **calls = NEW_ARRAY(w.arena, const char *, w.groups.count + 1);
  for (int i = 0; i < w.groups.count; i++)
    if (!write_group(&w, &w.groups.at[i], &calls[i])) return false;
  if (w.groups.count > 1) write_program(&w, wanted, &blocks, calls);
  if (!derived->reference) return true;
  Writer t;
  text_start(&t, derived, out);
  text_line(&t, "reference %s {", derived->name);
  text_body(&t, derived);
  text_line(&t, "}");
  return true;
}
