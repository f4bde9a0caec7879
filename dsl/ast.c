// Makes and prints the syntax tree.
#include "dsl/ast.h"

#include <string.h>

const char *const node_name[N_COUNT] = {
#define NODE(kind, name, fields) name,
#include "dsl/nodes.def"
#undef NODE
};

typedef struct {
  const char *spelling;
  int precedence;
} BinaryInfo;
static const BinaryInfo binary_info[] = {
    {"", 0},
#define BINARY(id, spelling, precedence, operation) {spelling, precedence},
#include "dsl/operators.def"
#undef BINARY
};

const char *binary_spelling(BinaryOp op) { return binary_info[op].spelling; }
int binary_precedence(BinaryOp op) { return binary_info[op].precedence; }

// ---- the dump

enum { DEEPEST_INDENT = 60 };  // beyond it the depth is printed as a number

static const char *const unary_spelling[] = {"-", "!", "~"};
static const char *const space_word[] = {"vmem", "smem", "any", "sem", "var"};
static const char *const at_word[] = {"at", "at element", "at slice"};

static void put_quoted(Buf *out, const char *text) {
  buf_putc(out, '"');
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      buf_printf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      buf_printf(out, "\\x%02x", c);
    else
      buf_putc(out, (char)c);
  }
  buf_putc(out, '"');
}

static void put_flags(Buf *out, const Node *node) {
  if (node->kind == N_FOR && node->flags & FOR_STATIC) buf_puts(out, " static");
  if (node->flags & KERNEL_IS_REFERENCE) buf_puts(out, " reference");
  if (node->flags & DTYPE_PACKED) buf_puts(out, " packed");
  if (node->kind != N_BLOCK_SPEC) return;
  buf_printf(out, " %s", space_word[node->op]);
  if (node->flags & BLOCK_HAS_SHAPE) buf_puts(out, " shape");
  if (node->flags & BLOCK_HAS_MAP) buf_printf(out, " %s", at_word[node->ival]);
  if (node->flags & BLOCK_REVISIT_ANY) buf_puts(out, " revisit-any");
}

// Prints a node's own fields, without its children.
static void put_own_fields(Buf *out, const Node *node) {
  bool is_text = node->kind == N_STRING || node->kind == N_REGION || node->kind == N_REQUIRE;
  if (node->name && is_text) {
    buf_putc(out, ' ');
    put_quoted(out, node->name);
  } else if (node->name) {
    buf_printf(out, " %s", node->name);
  }
  switch (node->kind) {
    case N_INT:
      buf_printf(out, " %lld", (long long)node->ival);
      break;
    case N_BOOL:
      buf_puts(out, node->ival ? " true" : " false");
      break;
    case N_FLOAT:
      buf_printf(out, " %.17g", node->fval);
      break;
    case N_UNARY:
      buf_printf(out, " %s", unary_spelling[node->op]);
      break;
    case N_BINARY:
      buf_printf(out, " %s", binary_spelling((BinaryOp)node->op));
      break;
    case N_ASSIGN:
      buf_printf(out, " %s=", binary_spelling((BinaryOp)node->op));
      break;
    case N_AXIS:
      buf_puts(out, node->op == AXIS_PARALLEL ? " parallel" : " arbitrary");
      break;
    case N_SCRATCH:
      buf_printf(out, " %s", space_word[node->op]);
      break;
    default:
      break;
  }
  put_flags(out, node);
}

static void dump(const Node *node, Buf *out, int depth, const char *label);

static void dump_list(const NodeList *list, Buf *out, int depth, const char *label) {
  for (int i = 0; i < list->count; i++) dump(list->at[i], out, depth, label);
}

// Recursion is bounded: the parser limits the depth of the tree.
static void dump(const Node *node, Buf *out, int depth, const char *label) {
  if (!node) return;
  if (depth <= DEEPEST_INDENT)
    buf_printf(out, "%*s%s%s", 2 * depth, "", label, node_name[node->kind]);
  else
    buf_printf(out, "%*s(%d) %s%s", 2 * DEEPEST_INDENT, "", depth, label, node_name[node->kind]);
  put_own_fields(out, node);
  buf_putc(out, '\n');
  dump_list(&node->list, out, depth + 1, "- ");
  dump_list(&node->list2, out, depth + 1, "= ");
  dump(node->a, out, depth + 1, "a: ");
  dump(node->b, out, depth + 1, "b: ");
  dump(node->c, out, depth + 1, "c: ");
}

void ast_dump(const Node *node, Buf *out) { dump(node, out, 0, ""); }
