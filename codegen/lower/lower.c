// Lowering a kernel: choosing it, the order in which its parts are lowered, and the frame of its
// body.
#include "codegen/lower/program.h"
#include "codegen/lower/ops/ops.h"
#include "codegen/ir/names.h"

#include <stdlib.h>
#include <string.h>

// ---- the body

static void transfer(Lower *l, Op op, int from, int count) {
  for (int i = from; i < from + count; i++) {
    Ref *ref = l->k->refs.at[i];
    if (ref->prefetch || ref->space == SPACE_ANY) continue;  // the grid's pipeline does not move it
    emit(l, op, no_result, ref->span, 0, NULL)->ref = ref;
  }
}

typedef struct {
  const Ref *ref;
  bool used;
} RefUse;

static void see_ref(Instr *instr, void *context) {
  RefUse *use = context;
  if (instr->ref == use->ref || instr->target == use->ref) use->used = true;
}

// An aliased output that the body does not mention keeps the content of its input: it stays in HBM.
static void keep_aliases(Lower *l) {
  for (int i = l->k->inputs; i < l->k->inputs + l->k->outputs; i++) {
    Ref *ref = l->k->refs.at[i];
    RefUse use = {.ref = ref};
    ir_walk(l->k->body, see_ref, &use);
    if (!ref->alias || l->stored[i] || use.used) continue;
    stay_in_hbm(l, ref);
    l->stored[i] = true;
  }
}

// Each `let` among the declarations once, oldest first, so that the whole body can use it and its
// mistakes are found.
static void lower_preludes(Lower *l, Symbol *s) {
  LIST(Symbol *) preludes = {0};
  for (; s; s = s->next)
    if (s->kind == SYM_PRELUDE) LIST_PUSH(l->arena, &preludes, s);
  for (int i = preludes.count - 1; i >= 0; i--) lower_lazy(l, preludes.at[i]);
}

static void lower_body(Lower *l) {
  Frame frame;
  const Node *items = l->node->a;
  l->place = IN_BODY;
  l->k->body = enter_region(l, &frame);
  transfer(l, OP_FETCH, 0, l->k->inputs);
  lower_preludes(l, l->scope);
  lower_written_inputs(l);
  int first = count_declarations(items);
  for (int i = 0; i < items->list.count && !l->stopped; i++) {
    const Node *item = items->list.at[i];
    bool declared =
        i < first && (is_declaration(item) || item->kind == N_LET || item->kind == N_FN);
    if (!declared && item->kind != N_FN) lower_statement(l, item);
  }
  restore_inputs(l);
  keep_aliases(l);
  transfer(l, OP_WRITEBACK, l->k->inputs, l->k->outputs);
  leave_region(l);
}

static bool is_window_of(const Node *window, const char *name) {
  while (window->kind == N_INDEX) window = window->a;
  return window->kind == N_NAME && window->name == name;
}

// Is the name stored to, or passed to a function, in branches that were not taken?
static bool mentions_store(const Node *node, const char *name) {
  if (!node) return false;
  if (node->kind == N_ASSIGN && is_window_of(node->a, name)) return true;
  for (int i = 0; node->kind == N_ASSIGN && i < node->list.count; i++)
    if (is_window_of(node->list.at[i], name)) return true;
  for (int i = 0; node->kind == N_CALL && i < node->list.count; i++) {
    const Node *arg = node->list.at[i];
    if (arg->kind == N_ARROW) arg = arg->b;
    if (arg->kind == N_INDEX &&
        (strcmp(node->name, "store") == 0 || node->list.at[i]->kind == N_ARROW))
      arg = arg->a;
    if (arg->kind == N_NAME && arg->name == name) return true;
  }
  if (mentions_store(node->a, name) || mentions_store(node->b, name) ||
      mentions_store(node->c, name))
    return true;
  for (int i = 0; i < node->list.count; i++)
    if (mentions_store(node->list.at[i], name)) return true;
  return false;
}

static void check_stored(Lower *l) {
  for (int i = l->k->inputs; i < l->k->inputs + l->k->outputs; i++) {
    const Ref *ref = l->k->refs.at[i];
    if (ref->alias || l->stored[i] || mentions_store(l->node->a, ref->name)) continue;
    diag_error(l->diag, ref->span, ERR_NEVER_STORED, "nothing is stored to the output `%s`",
               ref->name);
  }
}

// ---- the file

static int compare_top(const void *a, const void *b) {
  const Node *x = *(const Node *const *)a, *y = *(const Node *const *)b;
  if (x->name != y->name) return (uintptr_t)x->name < (uintptr_t)y->name ? -1 : 1;
  if (is_entry(x) != is_entry(y)) return is_entry(x) ? -1 : 1;
  return x->span.start < y->span.start ? -1 : x->span.start > y->span.start;
}

// Reports kernels, programs and references with the same name, and references without a kernel.
static void check_top(Lower *l) {
  LIST(const Node *) sorted = {0};  // those of a name together, its kernels first
  for (int i = 0; i < l->file->list.count; i++) {
    const Node *node = l->file->list.at[i];
    if (is_entry(node) || node->kind == N_REFERENCE) LIST_PUSH(l->arena, &sorted, node);
  }
  sort_items(sorted.at, (size_t)sorted.count, sizeof *sorted.at, compare_top);
  const Node *first = NULL, *kernel = NULL;
  for (int i = 0; i < sorted.count; i++) {
    const Node *node = sorted.at[i];
    bool again = first && first->name == node->name && is_entry(first) == is_entry(node);
    if (!again) first = node;
    if (again) {
      diag_error(l->diag, node->name_span, ERR_DUPLICATE, "the %s `%s` is declared twice",
                 node_name[node->kind], node->name);
      diag_note(l->diag, first->name_span, "the first time is here");
    }
    if (is_entry(node)) kernel = node;
    if (kernel && kernel->name == node->name) continue;
    diag_error(l->diag, node->name_span, ERR_REFERENCE_KERNEL,
               "there is no kernel `%s` for this reference%s", node->name,
               suggest_kernel(l, node->name));
  }
}

static const char *names_text(Lower *l, const char *const *names, int count) {
  enum { MOST = 12 };
  Buf text = {0};
  for (int i = 0; i < count && i < MOST; i++) buf_printf(&text, "%s`%s`", i ? ", " : "", names[i]);
  if (count > MOST) buf_printf(&text, " and %d more", count - MOST);
  return arena_take(l->arena, &text);
}

// The chosen kernel or program, or an error that names the candidates.
static const Node *choose_kernel(Lower *l, const char *name) {
  const char *names[MAX_LIST];
  int count = kernel_names(l->file, names, MAX_LIST);
  count = count < MAX_LIST ? count : MAX_LIST;
  if (name) {
    const Node *kernel = find_kernel(l->file, name);
    if (!kernel)
      diag_error(l->diag, (Span){0}, ERR_NO_KERNEL, "there is no kernel or program `%s`%s", name,
                 suggest_kernel(l, name));
    return kernel;
  }
  if (count == 0) {
    diag_error(l->diag, (Span){0}, ERR_NO_KERNEL, "there is no kernel in this file");
    return NULL;
  }
  const Node *first = default_kernel(l->file);
  if (!first)
    diag_error(l->diag, find_kernel(l->file, names[0])->name_span, ERR_NO_KERNEL,
               "the file has several kernels: -k NAME selects one of %s",
               names_text(l, names, count));
  return first;
}

static void add_file_functions(Lower *l) {
  for (int i = 0; i < l->file->list.count; i++)
    if (l->file->list.at[i]->kind == N_FN) add_function(l, l->file->list.at[i]);
  l->file_functions = l->functions;
  for (Function *f = l->functions; f; f = f->next) f->visible = &l->file_functions;
}

// The name of the kernel's function in C, which differs from those of the file's other kernels.
static const char *function_name(const Lower *l, const char *name) {
  const char *names[MAX_LIST];
  int count = kernel_names(l->file, names, MAX_LIST);
  return name_of_kernel(l->arena, name, NAME_C_KERNEL, names, count < MAX_LIST ? count : MAX_LIST);
}

static void lower_parts(Lower *l) {
  if (l->node->kind == N_PROGRAM) {
    lower_program(l);
    return;
  }
  lower_declarations(l);
  if (l->node->flags & KERNEL_IS_REFERENCE) {
    lower_own_reference(l);
    return;
  }
  lower_body(l);
  check_stored(l);
  check_parallel(l);
  check_devices(l);
}

// What needs the mesh, which is right.
static void lower_with_mesh(Lower *l) {
  Kernel *k = l->k;
  lower_signature(l);
  l->stored = NEW_ARRAY(l->arena, bool, k->refs.count + 1);
  l->array = NEW_ARRAY(l->arena, Instr *, k->refs.count + 1);
  l->spec = NEW_ARRAY(l->arena, const Node *, k->refs.count + 1);
  lower_parts(l);
  const Node *reference = find_top(l->file, N_REFERENCE, k->name);
  if (reference && !(l->node->flags & KERNEL_IS_REFERENCE)) lower_reference(l, reference, 0);
  if (!reference && k->flow && diag_error_count(l->diag) == 0) k->reference = compose_reference(l);
}

static void lower_kernel(Lower *l) {
  Frame outermost;
  enter_region(l, &outermost);
  add_file_functions(l);
  lower_statics(l);
  if (lower_mesh(l)) lower_with_mesh(l);
  leave_region(l);
}

// The kernel of l->node; NULL when that brought errors.
static Kernel *lower_node(Lower *l) {
  int errors = diag_error_count(l->diag);
  l->k = NEW(l->arena, Kernel);
  *l->k = (Kernel){
      .arena = l->arena, .source = l->source, .name = l->node->name, .span = l->node->name_span};
  l->k->symbol = function_name(l, l->node->name);
  lower_kernel(l);
  tell_facts(l);
  if (diag_error_count(l->diag) == errors) check_scales(l);
  if (diag_error_count(l->diag) > errors) return NULL;
  const char *broken = ir_verify(l->k);
  if (broken) INTERNAL("%s", broken);
  return l->k;
}

Kernel *lower_callee(Lower *l, const Node *node, const LowerOptions *options) {
  Lower *callee = NEW(l->arena, Lower);
  *callee = (Lower){.arena = l->arena,
                    .diag = l->diag,
                    .source = l->source,
                    .file = l->file,
                    .node = node,
                    .language = l->language,
                    .caller = l,
                    .programs = l->programs,
                    .options = options};
  return lower_node(callee);
}

Kernel *lower(Arena *arena, const Source *source, const Node *file, const char *name,
              const LowerOptions *options, Diag *diag) {
  static const LowerOptions no_options = {0};
  if (diag_error_count(diag) > 0)
    return NULL;  // text that did not parse is missing from the tree, so further messages would
                  // mislead
  Lower *l = NEW(arena, Lower);
  *l = (Lower){.arena = arena,
               .diag = diag,
               .source = source,
               .file = file,
               .language = &language,
               .options = options ? options : &no_options};
  check_top(l);
  l->node = choose_kernel(l, name);
  if (!l->node) return NULL;
  Kernel *k = lower_node(l);
  return diag_error_count(diag) > 0 ? NULL : k;
}
