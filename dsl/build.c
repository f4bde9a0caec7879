// The actions of the grammar: they build nodes, and reject the mistakes that the grammar alone
// cannot detect.
#include "dsl/parse.h"

#include <string.h>

// Nodes have the depth of their subtree while the tree is built, which is limited so that readers
// may recurse.
typedef struct {
  Node node;
  int depth;
  Node *next;  // that was made after this one
} DeepNode;

static int depth_of(const Node *node) { return node ? ((const DeepNode *)node)->depth : 0; }
Node *node_after(const Node *node) { return ((const DeepNode *)node)->next; }

static Node *new_node(Parse *p, NodeKind kind, Span span) {
  DeepNode *deep = NEW(p->arena, DeepNode);
  deep->node.kind = kind;
  deep->node.span = span;
  deep->depth = 1;
  if (p->newest) ((DeepNode *)p->newest)->next = &deep->node;
  p->newest = &deep->node;
  return &deep->node;
}

static Span join(Span first, Span last) { return (Span){first.start, last.end}; }

static int deepest(const NodeList *list, int depth) {
  for (int i = 0; i < list->count; i++)
    if (depth_of(list->at[i]) > depth) depth = depth_of(list->at[i]);
  return depth;
}

// Called for every node that has children, when it is complete.
static Node *finish(Parse *p, Node *node) {
  const Node *children[] = {node->a, node->b, node->c};
  int depth = deepest(&node->list2, deepest(&node->list, 0));
  for (int i = 0; i < 3; i++)
    if (depth_of(children[i]) > depth) depth = depth_of(children[i]);
  ((DeepNode *)node)->depth = depth + 1;
  if (depth < MAX_TREE_DEPTH) return node;
  if (!p->depth_reported)
    diag_error(p->diag, (Span){node->span.end - 1, node->span.end}, ERR_TOO_DEEP,
               "more than %d operations within one another: split this with `let`", MAX_TREE_DEPTH);
  p->depth_reported = true;
  return new_node(p, N_ERROR, node->span);
}

static Node *named(Node *node, Token name) {
  node->name = name.name;
  node->name_span = name.span;
  return node;
}

// ---- lists

NodeList *list_empty(Parse *p) { return NEW(p->arena, NodeList); }

NodeList *list_add(Parse *p, NodeList *list, Node *node) {
  if (!list) list = list_empty(p);
  if (node) LIST_PUSH(p->arena, list, node);
  return list;
}

// The nodes of more join the list; together they span first to last.
NodeList *list_append(Parse *p, NodeList *list, Token first, NodeList *more, Token last) {
  for (int i = 0; i < more->count; i++) {
    if (i == 0) more->at[i]->span.start = first.span.start;
    if (i == more->count - 1) more->at[i]->span.end = last.span.end;
    list_add(p, list, more->at[i]);
  }
  return list;
}

Node *build_list(Parse *p, NodeKind kind, Token first, NodeList *list, Token last) {
  Node *node = new_node(p, kind, join(first.span, last.span));
  node->list = *list;
  return finish(p, node);
}

// ---- the file

Node *build_file(Arena *arena, const Source *source) {
  Parse p = {.arena = arena};
  return new_node(&p, N_FILE, (Span){0, (uint32_t)source->length});
}

void build_top(Parse *p, Node *top) {
  if (top) LIST_PUSH(p->arena, &p->file->list, top);
}

Node *build_kernel(Parse *p, Token kernel, Token name, NodeList *inputs, NodeList *outputs,
                   Node *body) {
  Node *node = named(new_node(p, N_KERNEL, join(kernel.span, body->span)), name);
  node->list = *inputs;
  node->list2 = *outputs;
  node->a = body;
  return finish(p, node);
}

Node *build_composite(Parse *p, Token program, Token name, NodeList *inputs, NodeList *outputs,
                      Node *body) {
  Node *node = build_kernel(p, program, name, inputs, outputs, body);
  if (node->kind == N_KERNEL) node->kind = N_PROGRAM;
  return node;
}

Node *build_reference(Parse *p, Token reference, Token name, Node *body) {
  Node *node = named(new_node(p, N_REFERENCE, join(reference.span, body->span)), name);
  node->a = body;
  return finish(p, node);
}

Node *build_own_reference(Parse *p, Token reference, Token name, NodeList *inputs,
                          NodeList *outputs, Node *body) {
  Node *node = build_kernel(p, reference, name, inputs, outputs, body);
  node->flags |= KERNEL_IS_REFERENCE;
  return node;
}

Node *build_fn(Parse *p, Token fn, Token name, NodeList *parameters, Node *value, Node *body,
               Span end) {
  Node *node = named(new_node(p, N_FN, join(fn.span, end)), name);
  node->list = *parameters;
  node->a = value;
  node->b = body;
  return finish(p, node);
}

Node *build_items(Parse *p, Token open, NodeList *items, Token close) {
  return build_list(p, N_ITEMS, open, items, close);
}

// `_` in a block's shape squeezes its axis, in a sharding it leaves the axis whole.
static void mark_underscores(NodeList *dims) {
  for (int i = 0; i < dims->count; i++)
    if (dims->at[i]->kind == N_NAME && strcmp(dims->at[i]->name, "_") == 0)
      dims->at[i]->kind = N_UNDERSCORE;
}

Node *mark_packed(Node *dtype) {
  dtype->flags |= DTYPE_PACKED;
  return dtype;
}

Node *build_param(Parse *p, Token name, Node *dtype, Node *shape, Node *shard) {
  Span last = shard ? shard->span : shape ? shape->span : dtype->span;
  Node *node = named(new_node(p, N_PARAM, join(name.span, last)), name);
  node->a = dtype;
  node->b = shard;
  if (shape) node->list = shape->list;
  return finish(p, node);
}

Node *build_shard(Parse *p, Token first, NodeList *axes, Token last) {
  mark_underscores(axes);
  return build_list(p, N_SHARD, first, axes, last);
}

// ---- declarations

Node *build_static_item(Parse *p, Token name, Node *type, Node *value) {
  Node *node = named(new_node(p, N_STATIC_ITEM, join(name.span, value->span)), name);
  node->a = type;
  node->b = value;
  return finish(p, node);
}

Node *build_require(Parse *p, Token require, Node *condition, const Token *message, Token last) {
  Node *node = new_node(p, N_REQUIRE, join(require.span, last.span));
  node->a = condition;
  return finish(p, message ? named(node, *message) : node);
}

Node *build_axis(Parse *p, Token name, Node *extent, int kind, const Token *word) {
  Node *node = named(new_node(p, N_AXIS, join(name.span, word ? word->span : extent->span)), name);
  node->a = extent;
  node->op = kind;
  return finish(p, node);
}

Node *build_block(Parse *p, Token block, NodeList *names, Node *spec, Token last) {
  Node *node = new_node(p, N_BLOCK, join(block.span, last.span));
  node->list = *names;
  node->a = spec;
  return finish(p, node);
}

Node *build_binding(Parse *p, Token name, Token operand) {
  Node *node = named(new_node(p, N_PIPELINE_BLOCK, join(name.span, operand.span)), name);
  node->a = build_literal(p, N_NAME, operand);
  return finish(p, node);
}

NodeList *build_pipeline_blocks(Parse *p, NodeList *items, NodeList *bindings, Node *spec,
                                Token last) {
  for (int i = 0; i < bindings->count; i++) {
    bindings->at[i]->b = spec;
    bindings->at[i]->span.end = last.span.end;
    list_add(p, items, finish(p, bindings->at[i]));
  }
  return items;
}

Node *build_spec(Parse *p, const Token *space, int space_id, Node *dims, Node *map) {
  Span first = space ? space->span : dims->span, last = map    ? map->span
                                                        : dims ? dims->span
                                                               : space->span;
  Node *node = new_node(p, N_BLOCK_SPEC, join(first, last));
  node->op = space_id;
  if (dims) {
    node->flags |= BLOCK_HAS_SHAPE;
    node->list = dims->list;
    mark_underscores(&node->list);
  }
  if (map) {
    node->flags |= BLOCK_HAS_MAP;
    node->list2 = map->list;
    node->ival = map->ival;
  }
  return finish(p, node);
}

Node *build_map(Parse *p, Token at, AtMode mode, NodeList *list, Token last) {
  Node *node = build_list(p, N_TUPLE, at, list, last);
  node->ival = mode;
  return node;
}

static Node *spec_part(Parse *p, Node *spec, Token word, Node **part, Node *value) {
  if (*part)
    diag_error(p->diag, word.span, ERR_SYNTAX, "`%s` occurs twice in this block", word.name);
  *part = value;
  spec->span.end = value->span.end;
  return finish(p, spec);
}

Node *spec_pad(Parse *p, Node *spec, Token word, Node *value) {
  return spec_part(p, spec, word, &spec->a, value);
}
Node *spec_buffers(Parse *p, Node *spec, Token word, Node *value) {
  return spec_part(p, spec, word, &spec->b, value);
}

// Always a tuple of (low, high) pairs, one an axis, however it was written.
Node *spec_halo(Parse *p, Node *spec, Token word, NodeList *pairs) {
  Node *first = pairs->at[0], *halo = first;
  bool nested = pairs->count == 1 && first->kind == N_TUPLE && first->list.count &&
                first->list.at[0]->kind == N_TUPLE;
  if (!nested) {
    halo = new_node(p, N_TUPLE, join(first->span, pairs->at[pairs->count - 1]->span));
    halo->list = *pairs;
  }
  for (int i = 0; i < halo->list.count; i++) {
    const Node *pair = halo->list.at[i];
    if (pair->kind == N_TUPLE && pair->list.count == 2) continue;
    diag_error(p->diag, pair->span, ERR_SYNTAX,
               "`halo` takes (before, after) pairs, as in `halo (2, 0)`");
    break;
  }
  return spec_part(p, spec, word, &spec->c, finish(p, halo));
}

Node *spec_revisit(Parse *p, Node *spec, Token word, Token any) {
  if (spec->flags & BLOCK_REVISIT_ANY)
    diag_error(p->diag, word.span, ERR_SYNTAX, "`%s` occurs twice in this block", word.name);
  spec->flags |= BLOCK_REVISIT_ANY;
  spec->span.end = any.span.end;
  return spec;
}

Node *build_scratch(Parse *p, NodeList *names, int space, Node *dtype, const Token *semaphore,
                    Node *shape) {
  Span last = shape ? shape->span : dtype ? dtype->span : semaphore->span;
  Node *node = new_node(p, N_SCRATCH, join(names->at[0]->span, last));
  node->list = *names;
  node->op = space;
  node->a = dtype;
  node->b = shape;
  return finish(p, semaphore ? named(node, *semaphore) : node);
}

Node *build_alias(Parse *p, Token alias, Token output, Token input, Token last) {
  Node *node = named(new_node(p, N_ALIAS, join(alias.span, last.span)), output);
  node->a = build_literal(p, N_NAME, input);
  return finish(p, node);
}

// ---- statements

Node *build_statement(Parse *p, NodeKind kind, Token first, const Token *name, Node *a, Node *b,
                      Node *c, Span last) {
  Node *node = new_node(p, kind, join(first.span, last));
  node->a = a;
  node->b = b;
  node->c = c;
  return finish(p, name ? named(node, *name) : node);
}

Node *build_untyped_var(Parse *p, Token name) {
  diag_error(p->diag, name.span, ERR_SYNTAX, "a var requires a dtype: `var %s: i32 = ..`",
             name.name);
  return NULL;
}

Node *build_let_list(Parse *p, Token let, Token name, NodeList *names, Node *value, Token last) {
  Node *node = new_node(p, N_LET, join(let.span, last.span));
  node->a = value;
  LIST_PUSH(p->arena, &node->list, build_literal(p, N_NAME, name));
  for (int i = 0; i < names->count; i++) LIST_PUSH(p->arena, &node->list, names->at[i]);
  return finish(p, named(node, name));
}

Node *build_assign(Parse *p, Node *target, Token op, int op_id, Node *value, Token last) {
  Node *node = new_node(p, N_ASSIGN, join(target->span, last.span));
  node->name_span = op.span;
  node->a = target;
  node->op = op_id;
  node->b = value;
  return finish(p, node);
}

Node *build_assign_list(Parse *p, Node *target, NodeList *more, Token op, Node *value, Token last) {
  Node *node = new_node(p, N_ASSIGN, join(target->span, last.span));
  node->name_span = op.span;
  node->a = target;
  node->op = OP_NONE;
  node->b = value;
  node->list = *more;
  return finish(p, node);
}

Node *build_expression_statement(Parse *p, Node *value, Token last) {
  if (value->kind != N_CALL && value->kind != N_METHOD && value->kind != N_ERROR) {
    bool equals = value->kind == N_BINARY && value->op == BIN_EQ;
    bool name = value->kind == N_NAME && value->name;
    if (name && strcmp(value->name, "continue") == 0)
      diag_error(p->diag, value->span, ERR_SYNTAX,
                 "there is no `continue`: write `if !(..) { }` around the rest of the body");
    else if (name && strcmp(value->name, "pass") == 0)
      diag_error(p->diag, value->span, ERR_SYNTAX, "there is no `pass`: a block may be empty");
    else
      diag_error(p->diag, value->span, ERR_SYNTAX,
                 "a value alone does nothing: expected an assignment or a call");
    if (equals) diag_note(p->diag, value->name_span, "`==` compares; write `=` to assign");
    return NULL;
  }
  Node *node = new_node(p, N_CALL_STMT, join(value->span, last.span));
  node->a = value;
  return finish(p, node);
}

Node *build_for(Parse *p, Token first, Token name, Node *from, Node *to, Node *body,
                unsigned flags) {
  Node *node = named(new_node(p, N_FOR, join(first.span, body->span)), name);
  node->a = from;
  node->b = to;
  node->c = body;
  node->flags = flags;
  return finish(p, node);
}

Node *build_block_statement(Parse *p, NodeKind kind, Token first, NodeList *list, Node *body) {
  Node *node = new_node(p, kind, join(first.span, body->span));
  node->list = *list;
  node->b = body;
  return finish(p, node);
}

Node *build_hole(Parse *p, Token token) { return new_node(p, N_ERROR, token.span); }

// ---- values

enum {
  SMALLEST_MAGNITUDE = 1
};  // flag of an INT: 9223372036854775808, which only a minus sign makes an i64

Node *build_literal(Parse *p, NodeKind kind, Token token) {
  Node *node = named(new_node(p, kind, token.span), token);
  node->ival = token.ival;
  node->fval = token.fval;
  if (kind != N_NAME && kind != N_STRING) node->name = NULL;
  if (kind == N_INT && token.ival == INT64_MIN) node->flags = SMALLEST_MAGNITUDE;
  return node;
}

Node *build_unary(Parse *p, UnaryOp op, Token token, Node *value) {
  Span span = join(token.span, value->span);
  if (op == UN_NEG && value->kind == N_INT && value->flags & SMALLEST_MAGNITUDE) {
    value->flags = 0;
    value->span = span;
    return value;
  }
  Node *node = new_node(p, N_UNARY, span);
  node->name_span = token.span;
  node->op = (int)op;
  node->a = value;
  return finish(p, node);
}

Node *build_binary(Parse *p, BinaryOp op, Node *left, Token token, Node *right) {
  Node *node = new_node(p, N_BINARY, join(left->span, right->span));
  node->name_span = token.span;
  node->op = (int)op;
  node->a = left;
  node->b = right;
  return finish(p, node);
}

// Positional and named arguments may mix: remote_copy(a -> b, device = d, send, recv).
static void add_arguments(Parse *p, Node *call, const NodeList *arguments) {
  for (int i = 0; i < arguments->count; i++)
    if (arguments->at[i]->kind == N_KEYWORD)
      LIST_PUSH(p->arena, &call->list2, arguments->at[i]);
    else
      LIST_PUSH(p->arena, &call->list, arguments->at[i]);
}

Node *build_call(Parse *p, Token name, NodeList *arguments, Token last) {
  Node *node = named(new_node(p, N_CALL, join(name.span, last.span)), name);
  add_arguments(p, node, arguments);
  return finish(p, node);
}

Node *build_method(Parse *p, Node *receiver, Token name, NodeList *arguments, Token last) {
  Node *node = named(new_node(p, N_METHOD, join(receiver->span, last.span)), name);
  node->a = receiver;
  add_arguments(p, node, arguments);
  return finish(p, node);
}

Node *build_member(Parse *p, Node *receiver, Token name) {
  Node *node = named(new_node(p, N_MEMBER, join(receiver->span, name.span)), name);
  node->a = receiver;
  return finish(p, node);
}

Node *build_index(Parse *p, Node *base, NodeList *subscripts, Token last) {
  Node *node = new_node(p, N_INDEX, join(base->span, last.span));
  node->a = base;
  node->list = *subscripts;
  for (int i = 0; i < node->list.count; i++)
    if (node->list.at[i]->kind == N_NAME && strcmp(node->list.at[i]->name, "None") == 0)
      node->list.at[i]->kind = N_NONE;
  return finish(p, node);
}

Node *build_slice(Parse *p, Node *start, Token colon, Node *stop, const Token *second, Node *step) {
  Span last = step ? step->span : second ? second->span : stop ? stop->span : colon.span;
  Node *node = new_node(p, N_SLICE, join(start ? start->span : colon.span, last));
  node->a = start;
  node->b = stop;
  node->c = step;
  return finish(p, node);
}

Node *build_keyword(Parse *p, Token name, Node *value) {
  Node *node = named(new_node(p, N_KEYWORD, join(name.span, value->span)), name);
  node->a = value;
  return finish(p, node);
}

Node *build_arrow(Parse *p, Node *from, Node *to) {
  Node *node = new_node(p, N_ARROW, join(from->span, to->span));
  node->a = from;
  node->b = to;
  return finish(p, node);
}

Node *build_parentheses(Parse *p, Token open, NodeList *list, bool tuple, Token close) {
  Token first = open, last = close;
  if (tuple || list->count != 1) return build_list(p, N_TUPLE, first, list, last);
  list->at[0]->span = join(open.span, close.span);
  return list->at[0];
}

Node *build_if_expr(Parse *p, Token first, Node *condition, Node *yes, Node *no, Span last) {
  Node *node = new_node(p, N_IF_EXPR, join(first.span, last));
  node->a = condition;
  node->b = yes;
  node->c = no;
  return finish(p, node);
}
