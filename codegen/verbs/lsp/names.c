// Resolves the names of a document: declarations, and the uses of each.
//
// Only the syntax tree is used, so names in branches and functions that no kernel uses are resolved
// too. The declarations of a kernel, and the functions of a block, are known in all of it; a `let`
// or `var` is known after its statement.
#include "codegen/verbs/lsp/names.h"

#include <string.h>

enum { BUCKETS = 1 << 12 };

// A declaration that is visible, or a part of a kernel or function; `other`: the one before it with
// the same hash, as 1 + its index, or 0.
typedef struct {
  int declaration, other;
} Listed;

// A declaration of the names found before, and its new name.
typedef struct {
  const Names *of;
  int declaration;
  const char *name;
} Renaming;

typedef struct {
  Document *document;
  Arena *arena;
  Names *names;
  LIST(Listed) scope;  // the declarations that are visible, innermost last
  LIST(Listed)
  parts;  // of all kernels and functions: the names that may be keywords of their calls
  int newest[BUCKETS], newest_part[BUCKETS];  // the last of each hash, as 1 + its index
  uint32_t from;                              // not 0: new declarations are visible from there on
  const Node *entry;                          // the current kernel or program, or NULL
  const Renaming *renaming;
} Walk;

static void walk(Walk *w, const Node *node);

static void walk_list(Walk *w, const NodeList *list) {
  for (int i = 0; i < list->count; i++) walk(w, list->at[i]);
}

const char *name_kind_text(NameKind kind) {
  static const char *const text[] = {"kernel",  "function", "static",   "size",  "axis",
                                     "operand", "scratch",  "variable", "value", "parameter"};
  return text[kind];
}

static Span name_place(const Node *node) {
  return node->name_span.end ? node->name_span : node->span;
}

// The name of a node, or the new name if it refers to a renamed declaration.
static const char *name_of(const Walk *w, const Node *node) {
  const Renaming *to = w->renaming;
  if (!to || node->name != to->of->declarations.at[to->declaration].name) return node->name;
  const NameUse *use = use_at_offset(to->of, name_place(node).start);
  return use && use->declaration == to->declaration ? to->name : node->name;
}

// ---- scopes

static unsigned hash_of(const char *name, const Node *owner) {
  return (unsigned)(((uintptr_t)name / 16 * 0x9E3779B1u ^ (uintptr_t)owner / 16 * 0x85EBCA6Bu) >>
                    7) %
         BUCKETS;
}

static const NameDeclaration *listed(const Walk *w, Listed l) {
  return &w->names->declarations.at[l.declaration];
}

// Ends the scope of the declarations since then, at an offset of the text.
static void leave_scope(Walk *w, int outer, uint32_t end) {
  for (int i = w->scope.count - 1; i >= outer; i--) {
    Listed last = w->scope.at[i];
    w->names->declarations.at[last.declaration].visible.end = end;
    w->newest[hash_of(listed(w, last)->name, NULL)] = last.other;
  }
  w->scope.count = outer;
}

// ---- declarations and uses

static void use_at(Walk *w, Span span, int declaration) {
  LIST_PUSH(w->arena, &w->names->uses, ((NameUse){span, declaration}));
}

// A declaration that belongs to `owner`: a kernel, a function, or NULL.
static int declare_name(Walk *w, NameKind kind, const Node *node, const char *name, Span span,
                        const Node *owner) {
  NameDeclaration d = {.kind = kind, .name = name, .span = span, .node = node, .owner = owner};
  d.visible.start = w->from ? w->from : span.end;
  LIST_PUSH(w->arena, &w->names->declarations, d);
  int index = w->names->declarations.count - 1;
  int *newest = &w->newest[hash_of(name, NULL)], *part = &w->newest_part[hash_of(name, owner)];
  LIST_PUSH(w->arena, &w->scope, ((Listed){index, *newest}));
  *newest = w->scope.count;
  if (owner) {
    LIST_PUSH(w->arena, &w->parts, ((Listed){index, *part}));
    *part = w->parts.count;
  }
  use_at(w, span, index);
  return index;
}

static void declare_node(Walk *w, NameKind kind, const Node *node) {
  if (node->name && strcmp(node->name, "_") != 0)
    declare_name(w, kind, node, name_of(w, node), name_place(node), w->entry);
}

static bool is_callable(NameKind kind) { return kind == NAME_KERNEL || kind == NAME_FUNCTION; }

// The innermost declaration of a value, or of a kernel or function; -1: there is none.
static int find_name(const Walk *w, const char *name, bool callable) {
  for (int i = w->newest[hash_of(name, NULL)]; i; i = w->scope.at[i - 1].other) {
    const NameDeclaration *d = listed(w, w->scope.at[i - 1]);
    if (d->name == name && is_callable(d->kind) == callable) return w->scope.at[i - 1].declaration;
  }
  return -1;
}

static void use_name(Walk *w, const Node *node) {
  use_at(w, name_place(node), find_name(w, name_of(w, node), false));
}

// ---- kernels

// The names in the shapes of operands that are nothing else are sizes.
static void declare_sizes(Walk *w, const Node *node) {
  if (!node) return;
  if (node->kind == N_NAME && find_name(w, name_of(w, node), false) < 0)
    declare_node(w, NAME_SIZE, node);
  declare_sizes(w, node->a);
  declare_sizes(w, node->b);
  for (int i = 0; i < node->list.count; i++) declare_sizes(w, node->list.at[i]);
}

static void declare_list(Walk *w, NameKind kind, const NodeList *list) {
  for (int i = 0; i < list->count; i++) declare_node(w, kind, list->at[i]);
}

// Declares the items that are visible in the whole kernel.
static void declare_early(Walk *w, const Node *items) {
  for (int i = 0; items && i < items->list.count; i++) {
    const Node *item = items->list.at[i];
    if (item->kind == N_STATIC) declare_list(w, NAME_STATIC, &item->list);
    if (item->kind == N_MESH || item->kind == N_GRID) declare_list(w, NAME_AXIS, &item->list);
    if (item->kind == N_PREFETCH) declare_list(w, NAME_OPERAND, &item->list);
    for (int k = 0; item->kind == N_SCRATCH && k < item->list.count; k++)
      declare_node(w, NAME_SCRATCH, item->list.at[k]);
  }
}

static void declare_functions(Walk *w, const Node *items) {
  const uint32_t from = w->from;
  w->from = items->span.start + 1;
  for (int i = 0; i < items->list.count; i++) {
    const Node *item = items->list.at[i];
    if (item->kind == N_FN)
      declare_name(w, NAME_FUNCTION, item, name_of(w, item), name_place(item), NULL);
  }
  w->from = from;
}

static void declare_shapes(Walk *w, const NodeList *params) {
  for (int i = 0; i < params->count; i++)
    for (int k = 0; k < params->at[i]->list.count; k++) declare_sizes(w, params->at[i]->list.at[k]);
}

static void walk_items(Walk *w, const Node *items) {
  if (!items) return;
  int outer = w->scope.count;
  if (items->kind != N_ITEMS) {
    walk(w, items);
  } else {
    declare_functions(w, items);
    walk_list(w, &items->list);
  }
  leave_scope(w, outer, items->span.end);
}

static bool is_reference_of(const Walk *w, const Node *top, const Node *kernel) {
  return top->kind == N_REFERENCE && name_of(w, top) == name_of(w, kernel);
}

// Is a reference that of a kernel or program?
static bool has_entry(const Walk *w, const Node *reference) {
  const NodeList *tops = &w->document->file->list;
  for (int i = 0; i < tops->count; i++)
    if (is_entry(tops->at[i]) && is_reference_of(w, reference, tops->at[i])) return true;
  return false;
}

// The body of the reference sees the declarations of its kernel.
static void walk_reference(Walk *w, const Node *kernel) {
  const Node *file = w->document->file;
  for (int i = 0; i < file->list.count; i++)
    if (is_reference_of(w, file->list.at[i], kernel)) walk_items(w, file->list.at[i]->a);
}

// The end of a kernel. An incomplete kernel extends to the next declaration; its names are visible
// in its reference too.
static uint32_t entry_end(const Walk *w, const Node *kernel) {
  const Node *file = w->document->file;
  uint32_t end = UINT32_MAX;
  for (int i = 0; i < file->list.count; i++) {
    const Node *top = file->list.at[i];
    bool own = is_reference_of(w, top, kernel);
    if (top->span.start > kernel->span.start && !own && top->span.start < end)
      end = top->span.start;
  }
  return end;
}

// A kernel or program: its operands are visible in all of it and in its reference, its statements
// only after themselves.
static void walk_entry(Walk *w, const Node *kernel) {
  int outer = w->scope.count;
  w->entry = kernel;
  w->from = kernel->span.start + 1;
  declare_early(w, kernel->a);
  declare_list(w, NAME_OPERAND, &kernel->list);
  declare_list(w, NAME_OPERAND, &kernel->list2);
  declare_shapes(w, &kernel->list);
  declare_shapes(w, &kernel->list2);
  for (int i = 0; i < kernel->a->list.count; i++)
    if (kernel->a->list.at[i]->kind == N_PREFETCH) declare_shapes(w, &kernel->a->list.at[i]->list);
  walk_list(w, &kernel->list);
  walk_list(w, &kernel->list2);
  w->entry = NULL;
  w->from = 0;
  declare_functions(w, kernel->a);
  const NodeList *items = &kernel->a->list;
  int first = count_declarations(kernel->a);
  for (int i = 0; i < first; i++) walk(w, items->at[i]);
  int known = w->scope.count;
  const uint32_t end = entry_end(w, kernel);
  for (int i = first; i < items->count; i++) walk(w, items->at[i]);
  leave_scope(w, known, end);
  if (!(kernel->flags & KERNEL_IS_REFERENCE)) walk_reference(w, kernel);
  leave_scope(w, outer, end);
}

// ---- the rest

static void walk_function(Walk *w, const Node *fn) {
  int outer = w->scope.count;
  for (int i = 0; i < fn->list.count; i++)
    declare_name(w, NAME_PARAMETER, fn->list.at[i], name_of(w, fn->list.at[i]),
                 name_place(fn->list.at[i]), fn);
  walk(w, fn->a);
  walk_items(w, fn->b);
  leave_scope(w, outer, fn->span.end);
}

// The parameter, static or operand that a keyword of a call names: the first one of that name.
static int find_part(const Walk *w, const Node *owner, const char *name) {
  int found = -1;
  for (int i = owner ? w->newest_part[hash_of(name, owner)] : 0; i; i = w->parts.at[i - 1].other) {
    const NameDeclaration *d = listed(w, w->parts.at[i - 1]);
    if (d->owner == owner && d->name == name) found = w->parts.at[i - 1].declaration;
  }
  return found;
}

// What a keyword names may be declared later in the file: it is looked up at the end.
static void walk_call(Walk *w, const Node *node) {
  int callee = find_name(w, name_of(w, node), true);
  use_at(w, node->name_span, callee);
  walk_list(w, &node->list);
  for (int i = 0; i < node->list2.count; i++) {
    const Node *keyword = node->list2.at[i];
    if (callee >= 0) {
      KeywordUse use = {keyword, w->names->declarations.at[callee].node};
      LIST_PUSH(w->arena, &w->names->keywords, use);
    }
    walk(w, keyword->a);
  }
}

static void walk_for(Walk *w, const Node *node) {
  int outer = w->scope.count;
  walk(w, node->a);
  walk(w, node->b);
  declare_node(w, NAME_VALUE, node);
  walk_items(w, node->c);
  leave_scope(w, outer, node->span.end);
}

// A block of its own scope that begins with declarations: of scratch, or of axes and blocks.
static void walk_block(Walk *w, const Node *node) {
  int outer = w->scope.count;
  for (int i = 0; i < node->list.count; i++) {
    const Node *item = node->list.at[i];
    if (item->kind == N_AXIS) declare_node(w, NAME_AXIS, item);
    walk(w, item);
  }
  walk_items(w, node->b);
  leave_scope(w, outer, node->span.end);
}

static void walk_let(Walk *w, const Node *node) {
  walk(w, node->a);
  if (node->list.count == 0) declare_node(w, NAME_VALUE, node);
  declare_list(w, NAME_VALUE, &node->list);
}

static void walk_var(Walk *w, const Node *node) {
  walk(w, node->a);
  walk(w, node->b);
  walk(w, node->c);
  declare_node(w, NAME_VARIABLE, node);
}

// Scratch of a kernel was declared with the other declarations of the kernel.
static void walk_scratch(Walk *w, const Node *node) {
  walk(w, node->a);
  walk(w, node->b);
  for (int i = 0; i < node->list.count; i++) {
    int known = find_name(w, name_of(w, node->list.at[i]), false);
    bool declared = known >= 0 && w->names->declarations.at[known].node == node->list.at[i];
    if (!declared) declare_node(w, NAME_SCRATCH, node->list.at[i]);
  }
}

static void walk_pipeline_block(Walk *w, const Node *node) {
  walk(w, node->a);
  walk(w, node->b);
  declare_node(w, NAME_OPERAND, node);
}

static void walk_children(Walk *w, const Node *node) {
  walk(w, node->a);
  walk(w, node->b);
  walk(w, node->c);
  walk_list(w, &node->list);
  walk_list(w, &node->list2);
}

// Visits a syntax tree in source order: declares names in their scopes, and binds each use to a
// declaration.
static void walk(Walk *w, const Node *node) {
  if (!node) return;
  switch (node->kind) {
    case N_NAME:
      use_name(w, node);
      break;
    case N_CALL:
      walk_call(w, node);
      break;
    case N_FN:
      walk_function(w, node);
      break;
    case N_LET:
      walk_let(w, node);
      break;
    case N_VAR:
      walk_var(w, node);
      break;
    case N_FOR:
      walk_for(w, node);
      break;
    case N_SCOPED:
    case N_PIPELINE:
      walk_block(w, node);
      break;
    case N_SCRATCH:
      walk_scratch(w, node);
      break;
    case N_PIPELINE_BLOCK:
      walk_pipeline_block(w, node);
      break;
    case N_ITEMS:
      walk_items(w, node);
      break;
    case N_ALIAS:
      use_name(w, node);
      walk(w, node->a);
      break;
    case N_NAMED:
      for (int i = 0; i < node->list.count; i++) use_name(w, node->list.at[i]);
      walk_children(w, node);
      break;
    default:
      walk_children(w, node);
      break;
  }
}

static void resolve_keywords(Walk *w) {
  for (int i = 0; i < w->names->keywords.count; i++) {
    const KeywordUse *use = &w->names->keywords.at[i];
    use_at(w, name_place(use->keyword), find_part(w, use->callee, name_of(w, use->keyword)));
  }
}

static void walk_file(Walk *w, const Node *file) {
  w->from = 1;
  for (int i = 0; i < file->list.count; i++) {
    const Node *top = file->list.at[i];
    if (is_entry(top)) declare_name(w, NAME_KERNEL, top, name_of(w, top), name_place(top), NULL);
  }
  declare_functions(w, file);
  w->from = 0;
  for (int i = 0; i < file->list.count; i++) {
    const Node *top = file->list.at[i];
    if (is_entry(top))
      walk_entry(w, top);
    else if (top->kind == N_FN)
      walk(w, top);
    else if (top->kind == N_REFERENCE)
      use_at(w, name_place(top), find_name(w, name_of(w, top), true));
    if (top->kind == N_REFERENCE && !has_entry(w, top)) walk_items(w, top->a);
  }
  leave_scope(w, 0, UINT32_MAX);
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

// A stable sort by one digit of the start of each use.
static void sort_by_digit(const NameUse *from, NameUse *to, int count, int shift) {
  int next[DIGITS + 1] = {0};
  for (int i = 0; i < count; i++) next[(from[i].span.start >> shift) % DIGITS + 1]++;
  for (int digit = 0; digit < DIGITS; digit++) next[digit + 1] += next[digit];
  for (int i = 0; i < count; i++) to[next[(from[i].span.start >> shift) % DIGITS]++] = from[i];
}

// The uses in order, each once, because sizes and blocks of pipelines are visited several times.
static void sort_uses(Arena *arena, Names *names, uint32_t end) {
  int kept = 0;
  NameUse *spare = NEW_ARRAY(arena, NameUse, names->uses.count);
  for (int shift = 0; shift < 32 && end >> shift; shift += DIGIT_BITS) {
    NameUse *from = names->uses.at;
    sort_by_digit(from, spare, names->uses.count, shift);
    names->uses.at = spare;
    spare = from;
  }
  for (int i = 0; i < names->uses.count; i++)
    if (kept == 0 || names->uses.at[kept - 1].span.start != names->uses.at[i].span.start)
      names->uses.at[kept++] = names->uses.at[i];
  names->uses.count = kept;
}

// The later of two uses that are adjacent there.
const NameUse *use_at_offset(const Names *names, uint32_t offset) {
  int low = 0, high = names->uses.count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (names->uses.at[middle].span.start <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  const NameUse *last = low > 0 ? &names->uses.at[low - 1] : NULL;
  return last && offset <= last->span.end ? last : NULL;
}

static Names *find_names(Document *d, Arena *arena, const Renaming *renaming) {
  const Node *file = document_tree(d);
  Names *names = NEW(arena, Names);
  Walk *w = NEW(arena, Walk);
  w->document = d;
  w->arena = arena;
  w->names = names;
  w->renaming = renaming;
  walk_file(w, file);
  resolve_keywords(w);
  sort_uses(arena, names, (uint32_t)d->source.length);
  return names;
}

const Names *document_names(Document *d) {
  if (!d->names) d->names = find_names(d, d->arena, NULL);
  return d->names;
}

const Names *renamed_names(Document *d, Arena *arena, int declaration, const char *name) {
  const Renaming renaming = {document_names(d), declaration, intern(name)};
  return find_names(d, arena, &renaming);
}
