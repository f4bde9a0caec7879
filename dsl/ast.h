// The syntax tree. One struct for every kind of node: nodes.def says which fields a kind uses.
#ifndef DSL_AST_H
#define DSL_AST_H

#include "dsl/diag.h"
#include "dsl/types.h"

typedef enum {
#define NODE(kind, name, fields) N_##kind,
#include "dsl/nodes.def"
#undef NODE
  N_COUNT
} NodeKind;

typedef enum { UN_NEG, UN_NOT, UN_BITNOT } UnaryOp;  // - ! ~

// The operators of operators.def.
typedef enum {
  OP_NONE,
#define BINARY(id, spelling, precedence, operation) BIN_##id,
#include "dsl/operators.def"
#undef BINARY
} BinaryOp;

enum { AXIS_ARBITRARY, AXIS_PARALLEL };
enum {
  BLOCK_HAS_SHAPE = 1,
  BLOCK_HAS_MAP = 2,
  BLOCK_REVISIT_ANY = 4,
  FOR_STATIC = 8,
  DTYPE_PACKED = 16,
  KERNEL_IS_REFERENCE = 32
};

typedef struct Node Node;
typedef LIST(Node *) NodeList;

struct Node {
  NodeKind kind;
  Span span;         // all of the node
  const char *name;  // interned
  Span name_span;    // where the name (or a BINARY's operator) is
  int op;
  unsigned flags;
  int64_t ival;
  double fval;
  Node *a, *b, *c;
  NodeList list, list2;
};

extern const char *const node_name[N_COUNT];
const char *binary_spelling(BinaryOp op);
int binary_precedence(BinaryOp op);

// Parses a whole source. Always returns a FILE node; what could not be parsed is reported in diag
// and left out.
Node *parse(Arena *arena, const Source *source, Diag *diag);

// The same for a text that may be an edited form of the previous one: unchanged declarations are
// reused from the previous tree, which is modified. `syntax` begins as {0}. The text must live
// until the next call, and the tree is valid until then.
typedef struct {
  uint32_t start, end;  // `end` is the start of the next part
  Node *first, *last;   // of its nodes, in the order of their creation
  int top, tops;        // its nodes in the list of the file
  bool faultless;
} SyntaxPart;
typedef LIST(SyntaxPart) SyntaxParts;
typedef struct {
  Arena *arena;  // of the nodes of this text and of earlier ones
  Source source;
  Node *file;
  SyntaxParts parts;  // on the arena; each is one declaration, or several that could not be parsed
  size_t parsed;      // bytes of text whose nodes are on the arena
} Syntax;
Node *parse_again(Syntax *syntax, const Source *source, Diag *diag);
void syntax_free(Syntax *syntax);

// The tree as indented text (pkc -da).
void ast_dump(const Node *node, Buf *out);

// The canonical layout, which preserves comments: format(format(x)) == format(x). False, with diag
// filled, if the text does not parse.
bool format_source(Arena *arena, const Source *source, Diag *diag, Buf *out);
void format_parsed(Arena *arena, const Source *source, Buf *out);  // of a text without errors

#endif
