// Internal to pkc lsp: the declarations of a document, and the references to them.
#ifndef CODEGEN_VERBS_LSP_NAMES_H
#define CODEGEN_VERBS_LSP_NAMES_H

#include "codegen/verbs/lsp/lsp.h"

typedef enum {
  NAME_KERNEL,  // or a program
  NAME_FUNCTION,
  NAME_STATIC,
  NAME_SIZE,
  NAME_AXIS,  // of a grid, a pipeline or a mesh
  NAME_OPERAND,
  NAME_SCRATCH,
  NAME_VARIABLE,
  NAME_VALUE,  // of a let, the variable of a loop
  NAME_PARAMETER
} NameKind;

typedef struct {
  NameKind kind;
  const char *name;  // interned
  Span span;         // the name where it is declared
  Span visible;      // approximately where it is visible
  const Node *node;
  const Node *owner;  // the kernel or function that it is a part of, for keywords of calls; or NULL
} NameDeclaration;

// A name in the text, including that of a declaration itself; declaration -1: a name of the
// language, or unknown.
typedef struct {
  Span span;
  int declaration;
} NameUse;

typedef struct {
  const Node *keyword, *callee;
} KeywordUse;

struct Names {
  LIST(NameDeclaration) declarations;
  LIST(NameUse) uses;  // in their order in the text
  LIST(KeywordUse) keywords;
};

const Names *document_names(Document *document);
// The names as they would be if a declaration and its uses had another name, which is not a word of
// the syntax.
const Names *renamed_names(Document *document, Arena *arena, int declaration, const char *name);
const char *name_kind_text(NameKind kind);
// The use whose name is at an offset, or ends there; NULL: there is none.
const NameUse *use_at_offset(const Names *names, uint32_t offset);

#endif
