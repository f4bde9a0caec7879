// The kernels and programs of a file, and their declarations.
#include "codegen/lower/internal.h"
#include "codegen/lower/program.h"

#include <string.h>

int kernel_names(const Node *file, const char **names, int capacity) {
  int count = 0;
  for (int i = 0; i < file->list.count; i++)
    if (is_entry(file->list.at[i])) {
      if (count < capacity) names[count] = file->list.at[i]->name;
      count++;
    }
  return count;
}

const char *suggest_kernel(Lower *l, const char *name) {
  const char *names[MAX_LIST];
  const int count = kernel_names(l->file, names, MAX_LIST);
  return suggestion(l, name, names, count < MAX_LIST ? count : MAX_LIST);
}

// The only one of its kind; NULL: there is none, or there are several.
static const Node *only_one(const Node *file, NodeKind kind, bool *several) {
  const Node *only = NULL;
  for (int i = 0; i < file->list.count; i++) {
    const Node *node = file->list.at[i];
    if (node->kind != kind) continue;
    *several = *several || (only && only->name != node->name);
    if (!only) only = node;
  }
  return *several ? NULL : only;
}

const Node *default_kernel(const Node *file) {
  bool several = false;
  const Node *program = only_one(file, N_PROGRAM, &several);
  return program || several ? program : only_one(file, N_KERNEL, &several);
}

int static_names(const Node *file, const char *kernel, const char **names, int capacity) {
  int count = 0;
  for (int i = 0; i < file->list.count; i++) {
    const Node *node = file->list.at[i];
    if (!is_entry(node) || (kernel && strcmp(node->name, kernel) != 0)) continue;
    for (int k = 0; k < node->a->list.count; k++) {
      const Node *item = node->a->list.at[k];
      for (int j = 0; item->kind == N_STATIC && j < item->list.count; j++) {
        if (count < capacity) names[count] = item->list.at[j]->name;
        count++;
      }
    }
  }
  return count;
}

const Node *find_top(const Node *file, NodeKind kind, const char *name) {
  for (int i = 0; i < file->list.count; i++) {
    const Node *node = file->list.at[i];
    if (node->kind == kind && strcmp(node->name, name) == 0) return node;
  }
  return NULL;
}

const Node *find_kernel(const Node *file, const char *name) {
  const Node *kernel = find_top(file, N_KERNEL, name);
  return kernel ? kernel : find_top(file, N_PROGRAM, name);
}

bool is_declaration(const Node *node) {
  switch (node->kind) {
    case N_STATIC:
    case N_REQUIRE:
    case N_GRID:
    case N_BLOCK:
    case N_SCRATCH:
    case N_ALIAS:
    case N_PREFETCH:
    case N_MESH:
    case N_VMEM_LIMIT:
      return true;
    default:
      return false;
  }
}

int count_declarations(const Node *items) {
  int count = 0;
  for (int i = 0; i < items->list.count; i++)
    if (is_declaration(items->list.at[i])) count = i + 1;
  return count;
}
