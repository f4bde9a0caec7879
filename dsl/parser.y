// The grammar of .pk. Grammar only: each action is one call into dsl/build.c.
//
//   lemon -q -l -dbuild/gen dsl/parser.y        writes build/gen/parser.c and build/gen/parser.h; exit status 1 on any conflict
//
// Words like `block` are tokens; words like `pad` fall back to NAME wherever the grammar has no use for them. The driver in
// dsl/parse.c asks parser_accepts() before it feeds a token, so the generated error handling is never reached; after an error
// it pops symbols until RECOVER_ITEM (stands for an item) or RECOVER_HEADER (stands for what is between a word like `when`
// and its `{`) is accepted.

%name parser
%token_prefix T_
%token_type {Token}
%default_type {Node *}
%extra_context {Parse *p}
%stack_size 0
%start_symbol file

%include {
#include <stdlib.h>
#include "dsl/parse.h"
#pragma GCC diagnostic ignored "-Wunused-variable"  // the template's, not ours
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#define YYNOERRORRECOVERY 1
#define YYPARSEFREENEVERNULL 1
}
%syntax_error { INTERNAL("a token was fed that the parser does not accept"); }
%stack_overflow { INTERNAL("the parser's stack cannot grow"); }

%fallback NAME KERNEL PROGRAM REFERENCE ANY SMEM VMEM SEM DMA BARRIER REGULAR AT ELEMENT SLICE PAD HALO OF BUFFERS REVISIT PARALLEL ARBITRARY SHARD PACKED.

%left OR.
%left AND.
%nonassoc EQ NE LT LE GT GE.
%left BITOR.
%left BITXOR.
%left BITAND.
%left SHL SHR USHR.
%left PLUS MINUS.
%left STAR SLASH PERCENT.
%right NOT TILDE.

%type items {NodeList *}
%type params {NodeList *}
%type param_list {NodeList *}
%type names {NodeList *}
%type name_list {NodeList *}
%type statics {NodeList *}
%type axes {NodeList *}
%type axis_list {NodeList *}
%type bindings {NodeList *}
%type scratches {NodeList *}
%type mesh_axes {NodeList *}
%type named_list {NodeList *}
%type shard {Node *}
%type exprs {NodeList *}
%type expr_list {NodeList *}
%type args {NodeList *}
%type arg_list {NodeList *}
%type subscripts {NodeList *}
%type subscript_list {NodeList *}
%type semaphore {Token}
%type assigning {Token}

// ---- the file

file ::= tops.
tops ::= .
tops ::= tops top(T). { build_top(p, T); }

top(A) ::= KERNEL(K) NAME(N) LPAREN params(I) RPAREN ARROW LPAREN params(O) RPAREN body(B). { A = build_kernel(p, K, N, I, O, B); }
top(A) ::= KERNEL RECOVER_HEADER body. { A = NULL; }
top(A) ::= PROGRAM(K) NAME(N) LPAREN params(I) RPAREN ARROW LPAREN params(O) RPAREN body(B). { A = build_composite(p, K, N, I, O, B); }
top(A) ::= PROGRAM RECOVER_HEADER body. { A = NULL; }
top(A) ::= REFERENCE(R) NAME(N) body(B). { A = build_reference(p, R, N, B); }
top(A) ::= REFERENCE(R) NAME(N) LPAREN params(I) RPAREN ARROW LPAREN params(O) RPAREN body(B). { A = build_own_reference(p, R, N, I, O, B); }
top(A) ::= REFERENCE RECOVER_HEADER body. { A = NULL; }
top(A) ::= fn(F). { A = F; }
top(A) ::= RECOVER_ITEM. { A = NULL; }

params(A) ::= . { A = list_empty(p); }
params(A) ::= param_list(L). { A = L; }
params(A) ::= param_list(L) COMMA. { A = L; }
param_list(A) ::= param(X). { A = list_add(p, NULL, X); }
param_list(A) ::= param_list(L) COMMA param(X). { A = list_add(p, L, X); }
param(A) ::= NAME(N) COLON elements(D). { A = build_param(p, N, D, NULL, NULL); }
param(A) ::= NAME(N) COLON elements(D) shape(S). { A = build_param(p, N, D, S, NULL); }
param(A) ::= NAME(N) COLON elements(D) shape(S) shard(P). { A = build_param(p, N, D, S, P); }
shard(A) ::= SHARD(F) LPAREN exprs(L) RPAREN(R). { A = build_shard(p, F, L, R); }

dtype(A) ::= NAME(N). { A = build_literal(p, N_NAME, N); }
dtype(A) ::= NAME(N) LPAREN args(L) RPAREN(R). { A = build_call(p, N, L, R); }
elements(A) ::= dtype(D). { A = D; }
elements(A) ::= dtype(D) PACKED. { A = mark_packed(D); }
shape(A) ::= LBRACKET(L) exprs(X) RBRACKET(R). { A = build_list(p, N_ARRAY, L, X, R); }

fn(A) ::= FN(F) NAME(N) LPAREN names(P) RPAREN ASSIGN value(V) SEMI(E). { A = build_fn(p, F, N, P, V, NULL, E.span); }
fn(A) ::= FN(F) NAME(N) LPAREN names(P) RPAREN body(B). { A = build_fn(p, F, N, P, NULL, B, B->span); }
fn(A) ::= FN RECOVER_HEADER body. { A = NULL; }
names(A) ::= . { A = list_empty(p); }
names(A) ::= name_list(L). { A = L; }
names(A) ::= name_list(L) COMMA. { A = L; }
name_list(A) ::= NAME(N). { A = list_add(p, NULL, build_literal(p, N_NAME, N)); }
name_list(A) ::= name_list(L) COMMA NAME(N). { A = list_add(p, L, build_literal(p, N_NAME, N)); }

// ---- items: declarations and statements

body(A) ::= LBRACE(L) items(I) RBRACE(R). { A = build_items(p, L, I, R); }
items(A) ::= . { A = list_empty(p); }
items(A) ::= items(L) item(X). { A = list_add(p, L, X); }
items(A) ::= items(L) SCRATCH(F) scratches(S) SEMI(E). { A = list_append(p, L, F, S, E); }
items(A) ::= items(L) BLOCK bindings(B) COLON spec(S) SEMI(E). { A = build_pipeline_blocks(p, L, B, S, E); }
item(A) ::= RECOVER_ITEM. { A = NULL; }

item(A) ::= STATIC(F) statics(L) SEMI(E). { A = build_list(p, N_STATIC, F, L, E); }
statics(A) ::= static_item(X). { A = list_add(p, NULL, X); }
statics(A) ::= statics(L) COMMA static_item(X). { A = list_add(p, L, X); }
static_item(A) ::= NAME(N) ASSIGN expr(V). { A = build_static_item(p, N, NULL, V); }
static_item(A) ::= NAME(N) COLON NAME(T) ASSIGN expr(V). { A = build_static_item(p, N, build_literal(p, N_NAME, T), V); }

item(A) ::= REQUIRE(F) expr(C) SEMI(E). { A = build_require(p, F, C, NULL, E); }
item(A) ::= REQUIRE(F) expr(C) COLON STRING(S) SEMI(E). { A = build_require(p, F, C, &S, E); }

item(A) ::= GRID(F) LPAREN axes(L) RPAREN SEMI(E). { A = build_list(p, N_GRID, F, L, E); }
axes(A) ::= . { A = list_empty(p); }
axes(A) ::= axis_list(L). { A = L; }
axes(A) ::= axis_list(L) COMMA. { A = L; }
axis_list(A) ::= axis(X). { A = list_add(p, NULL, X); }
axis_list(A) ::= axis_list(L) COMMA axis(X). { A = list_add(p, L, X); }
axis(A) ::= NAME(N) IN expr(X). { A = build_axis(p, N, X, AXIS_ARBITRARY, NULL); }
axis(A) ::= NAME(N) IN expr(X) PARALLEL(W). { A = build_axis(p, N, X, AXIS_PARALLEL, &W); }
axis(A) ::= NAME(N) IN expr(X) ARBITRARY(W). { A = build_axis(p, N, X, AXIS_ARBITRARY, &W); }

item(A) ::= BLOCK(F) name_list(L) COLON spec(S) SEMI(E). { A = build_block(p, F, L, S, E); }
bindings(A) ::= binding(X). { A = list_add(p, NULL, X); }
bindings(A) ::= bindings(L) COMMA binding(X). { A = list_add(p, L, X); }
binding(A) ::= NAME(N) OF NAME(O). { A = build_binding(p, N, O); }
spec(A) ::= ANY(W). { A = build_spec(p, &W, SPACE_ANY, NULL, NULL); }
spec(A) ::= SMEM(W). { A = build_spec(p, &W, SPACE_SMEM, NULL, NULL); }
spec(A) ::= VMEM(W). { A = build_spec(p, &W, SPACE_VMEM, NULL, NULL); }
spec(A) ::= SMEM(W) shape(S). { A = build_spec(p, &W, SPACE_SMEM, S, NULL); }
spec(A) ::= VMEM(W) shape(S). { A = build_spec(p, &W, SPACE_VMEM, S, NULL); }
spec(A) ::= shape(S). { A = build_spec(p, NULL, SPACE_VMEM, S, NULL); }
spec(A) ::= SMEM(W) shape(S) map(M). { A = build_spec(p, &W, SPACE_SMEM, S, M); }
spec(A) ::= VMEM(W) shape(S) map(M). { A = build_spec(p, &W, SPACE_VMEM, S, M); }
spec(A) ::= shape(S) map(M). { A = build_spec(p, NULL, SPACE_VMEM, S, M); }
spec(A) ::= spec(S) PAD(W) expr(V). { A = spec_pad(p, S, W, V); }
spec(A) ::= spec(S) BUFFERS(W) expr(V). { A = spec_buffers(p, S, W, V); }
spec(A) ::= spec(S) HALO(W) expr_list(L). { A = spec_halo(p, S, W, L); }
spec(A) ::= spec(S) REVISIT(W) ANY(Y). { A = spec_revisit(p, S, W, Y); }
map(A) ::= AT(W) LPAREN exprs(L) RPAREN(R). { A = build_map(p, W, AT_BLOCK, L, R); }
map(A) ::= AT(W) ELEMENT LPAREN exprs(L) RPAREN(R). { A = build_map(p, W, AT_ELEMENT, L, R); }
map(A) ::= AT(W) SLICE LPAREN exprs(L) RPAREN(R). { A = build_map(p, W, AT_SLICE, L, R); }

scratches(A) ::= scratch(X). { A = list_add(p, NULL, X); }
scratches(A) ::= scratches(L) COMMA scratch(X). { A = list_add(p, L, X); }
scratch(A) ::= name_list(L) COLON VMEM dtype(D). { A = build_scratch(p, L, SPACE_VMEM, D, NULL, NULL); }
scratch(A) ::= name_list(L) COLON VMEM dtype(D) shape(S). { A = build_scratch(p, L, SPACE_VMEM, D, NULL, S); }
scratch(A) ::= name_list(L) COLON SMEM dtype(D). { A = build_scratch(p, L, SPACE_SMEM, D, NULL, NULL); }
scratch(A) ::= name_list(L) COLON SMEM dtype(D) shape(S). { A = build_scratch(p, L, SPACE_SMEM, D, NULL, S); }
scratch(A) ::= name_list(L) COLON SEM semaphore(K). { A = build_scratch(p, L, SPACE_SEM, NULL, &K, NULL); }
scratch(A) ::= name_list(L) COLON SEM semaphore(K) shape(S). { A = build_scratch(p, L, SPACE_SEM, NULL, &K, S); }
semaphore(A) ::= DMA(W). { A = W; }
semaphore(A) ::= REGULAR(W). { A = W; }
semaphore(A) ::= BARRIER(W). { A = W; }

item(A) ::= ALIAS(F) NAME(O) ASSIGN NAME(I) SEMI(E). { A = build_alias(p, F, O, I, E); }
item(A) ::= PREFETCH(F) param_list(L) SEMI(E). { A = build_list(p, N_PREFETCH, F, L, E); }
item(A) ::= MESH(F) LPAREN mesh_axes(L) RPAREN SEMI(E). { A = build_list(p, N_MESH, F, L, E); }
item(A) ::= MESH(F) LPAREN mesh_axes(L) COMMA RPAREN SEMI(E). { A = build_list(p, N_MESH, F, L, E); }
mesh_axes(A) ::= NAME(N) COLON expr(X). { A = list_add(p, NULL, build_keyword(p, N, X)); }
mesh_axes(A) ::= mesh_axes(L) COMMA NAME(N) COLON expr(X). { A = list_add(p, L, build_keyword(p, N, X)); }
item(A) ::= VMEM_LIMIT(F) expr(X) SEMI(E). { A = build_statement(p, N_VMEM_LIMIT, F, NULL, X, NULL, NULL, E.span); }
item(A) ::= fn(F). { A = F; }

item(A) ::= LET(F) NAME(N) ASSIGN value(V) SEMI(E). { A = build_statement(p, N_LET, F, &N, V, NULL, NULL, E.span); }
item(A) ::= LET(F) NAME(N) COMMA name_list(L) ASSIGN value(V) SEMI(E). { A = build_let_list(p, F, N, L, V, E); }
item(A) ::= VAR NAME(N) ASSIGN value SEMI. { A = build_untyped_var(p, N); }
item(A) ::= VAR(F) NAME(N) COLON dtype(D) SEMI(E). { A = build_statement(p, N_VAR, F, &N, D, NULL, NULL, E.span); }
item(A) ::= VAR(F) NAME(N) COLON dtype(D) shape(S) SEMI(E). { A = build_statement(p, N_VAR, F, &N, D, S, NULL, E.span); }
item(A) ::= VAR(F) NAME(N) COLON dtype(D) ASSIGN value(V) SEMI(E). { A = build_statement(p, N_VAR, F, &N, D, NULL, V, E.span); }
item(A) ::= VAR(F) NAME(N) COLON dtype(D) shape(S) ASSIGN value(V) SEMI(E). { A = build_statement(p, N_VAR, F, &N, D, S, V, E.span); }
item(A) ::= expr(X) SEMI(E). { A = build_expression_statement(p, X, E); }
item(A) ::= expr(X) ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, OP_NONE, V, E); }
item(A) ::= expr(X) COMMA expr_list(L) ASSIGN(O) value(V) SEMI(E). { A = build_assign_list(p, X, L, O, V, E); }
item(A) ::= expr(X) ADD_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_ADD, V, E); }
item(A) ::= expr(X) SUB_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_SUB, V, E); }
item(A) ::= expr(X) MUL_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_MUL, V, E); }
item(A) ::= expr(X) DIV_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_DIV, V, E); }
item(A) ::= expr(X) REM_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_REM, V, E); }
item(A) ::= expr(X) AND_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_BITAND, V, E); }
item(A) ::= expr(X) XOR_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_BITXOR, V, E); }
item(A) ::= expr(X) OR_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_BITOR, V, E); }
item(A) ::= expr(X) SHL_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_SHL, V, E); }
item(A) ::= expr(X) SHR_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_SHR, V, E); }
item(A) ::= expr(X) USHR_ASSIGN(O) value(V) SEMI(E). { A = build_assign(p, X, O, BIN_USHR, V, E); }

item(A) ::= WHEN(F) condition(C) body(B). { A = build_statement(p, N_WHEN, F, NULL, C, B, NULL, B->span); }
item(A) ::= WHILE(F) condition(C) body(B). { A = build_statement(p, N_WHILE, F, NULL, C, B, NULL, B->span); }
item(A) ::= if(X). { A = X; }
if(A) ::= IF(F) condition(C) body(B). { A = build_statement(p, N_IF, F, NULL, C, B, NULL, B->span); }
if(A) ::= IF(F) condition(C) body(B) ELSE body(N). { A = build_statement(p, N_IF, F, NULL, C, B, N, N->span); }
if(A) ::= IF(F) condition(C) body(B) ELSE if(N). { A = build_statement(p, N_IF, F, NULL, C, B, N, N->span); }
condition(A) ::= expr(X). { A = X; }
condition(A) ::= RECOVER_HEADER(T). { A = build_hole(p, T); }
item(A) ::= FOR(F) NAME(N) IN expr(X) DOTDOT expr(Y) body(B). { A = build_for(p, F, N, X, Y, B, 0); }
item(A) ::= STATIC(F) FOR NAME(N) IN expr(X) DOTDOT expr(Y) body(B). { A = build_for(p, F, N, X, Y, B, FOR_STATIC); }
item(A) ::= FOR RECOVER_HEADER body. { A = NULL; }
item(A) ::= STATIC FOR RECOVER_HEADER body. { A = NULL; }
item(A) ::= BREAK(F) SEMI(E). { A = build_statement(p, N_BREAK, F, NULL, NULL, NULL, NULL, E.span); }
item(A) ::= RETURN(F) value(V) SEMI(E). { A = build_statement(p, N_RETURN, F, NULL, V, NULL, NULL, E.span); }
item(A) ::= REGION(F) STRING(S) body(B). { A = build_statement(p, N_REGION, F, &S, NULL, B, NULL, B->span); }
item(A) ::= REGION RECOVER_HEADER body. { A = NULL; }
item(A) ::= SCOPED(F) scratches(L) body(B). { A = build_block_statement(p, N_SCOPED, F, L, B); }
item(A) ::= SCOPED RECOVER_HEADER body. { A = NULL; }
item(A) ::= PIPELINE(F) LPAREN axes(L) RPAREN body(B). { A = build_block_statement(p, N_PIPELINE, F, L, B); }
item(A) ::= PIPELINE RECOVER_HEADER body. { A = NULL; }

// ---- values

value(A) ::= expr(X). { A = X; }
value(A) ::= if_expr(X). { A = X; }
if_expr(A) ::= IF(F) condition(C) LBRACE value(Y) RBRACE ELSE LBRACE value(N) RBRACE(E). { A = build_if_expr(p, F, C, Y, N, E.span); }
if_expr(A) ::= IF(F) condition(C) LBRACE value(Y) RBRACE ELSE if_expr(N). { A = build_if_expr(p, F, C, Y, N, N->span); }

expr(A) ::= postfix(X). { A = X; }
expr(A) ::= MINUS(O) expr(X). [NOT] { A = build_unary(p, UN_NEG, O, X); }
expr(A) ::= NOT(O) expr(X). { A = build_unary(p, UN_NOT, O, X); }
expr(A) ::= TILDE(O) expr(X). { A = build_unary(p, UN_BITNOT, O, X); }
expr(A) ::= expr(X) STAR(O) expr(Y). { A = build_binary(p, BIN_MUL, X, O, Y); }
expr(A) ::= expr(X) SLASH(O) expr(Y). { A = build_binary(p, BIN_DIV, X, O, Y); }
expr(A) ::= expr(X) PERCENT(O) expr(Y). { A = build_binary(p, BIN_REM, X, O, Y); }
expr(A) ::= expr(X) PLUS(O) expr(Y). { A = build_binary(p, BIN_ADD, X, O, Y); }
expr(A) ::= expr(X) MINUS(O) expr(Y). { A = build_binary(p, BIN_SUB, X, O, Y); }
expr(A) ::= expr(X) SHL(O) expr(Y). { A = build_binary(p, BIN_SHL, X, O, Y); }
expr(A) ::= expr(X) SHR(O) expr(Y). { A = build_binary(p, BIN_SHR, X, O, Y); }
expr(A) ::= expr(X) USHR(O) expr(Y). { A = build_binary(p, BIN_USHR, X, O, Y); }
expr(A) ::= expr(X) BITAND(O) expr(Y). { A = build_binary(p, BIN_BITAND, X, O, Y); }
expr(A) ::= expr(X) BITXOR(O) expr(Y). { A = build_binary(p, BIN_BITXOR, X, O, Y); }
expr(A) ::= expr(X) BITOR(O) expr(Y). { A = build_binary(p, BIN_BITOR, X, O, Y); }
expr(A) ::= expr(X) EQ(O) expr(Y). { A = build_binary(p, BIN_EQ, X, O, Y); }
expr(A) ::= expr(X) NE(O) expr(Y). { A = build_binary(p, BIN_NE, X, O, Y); }
expr(A) ::= expr(X) LT(O) expr(Y). { A = build_binary(p, BIN_LT, X, O, Y); }
expr(A) ::= expr(X) LE(O) expr(Y). { A = build_binary(p, BIN_LE, X, O, Y); }
expr(A) ::= expr(X) GT(O) expr(Y). { A = build_binary(p, BIN_GT, X, O, Y); }
expr(A) ::= expr(X) GE(O) expr(Y). { A = build_binary(p, BIN_GE, X, O, Y); }
expr(A) ::= expr(X) AND(O) expr(Y). { A = build_binary(p, BIN_AND, X, O, Y); }
expr(A) ::= expr(X) OR(O) expr(Y). { A = build_binary(p, BIN_OR, X, O, Y); }

postfix(A) ::= NAME(N). { A = build_literal(p, N_NAME, N); }
postfix(A) ::= INT(N). { A = build_literal(p, N_INT, N); }
postfix(A) ::= FLOAT(N). { A = build_literal(p, N_FLOAT, N); }
postfix(A) ::= TRUE(N). { A = build_literal(p, N_BOOL, N); }
postfix(A) ::= FALSE(N). { A = build_literal(p, N_BOOL, N); }
postfix(A) ::= STRING(N). { A = build_literal(p, N_STRING, N); }
postfix(A) ::= shape(X). { A = X; }
postfix(A) ::= LPAREN(L) RPAREN(R). { A = build_parentheses(p, L, list_empty(p), true, R); }
postfix(A) ::= LPAREN(L) expr_list(X) RPAREN(R). { A = build_parentheses(p, L, X, false, R); }
postfix(A) ::= LPAREN(L) expr_list(X) COMMA RPAREN(R). { A = build_parentheses(p, L, X, true, R); }
postfix(A) ::= LPAREN(L) named_list(X) RPAREN(R). { A = build_list(p, N_NAMED, L, X, R); }
postfix(A) ::= LPAREN(L) named_list(X) COMMA RPAREN(R). { A = build_list(p, N_NAMED, L, X, R); }
named_list(A) ::= NAME(N) ASSIGN expr(X). { A = list_add(p, NULL, build_keyword(p, N, X)); }
named_list(A) ::= named_list(L) COMMA NAME(N) ASSIGN expr(X). { A = list_add(p, L, build_keyword(p, N, X)); }
postfix(A) ::= NAME(N) LPAREN args(L) RPAREN(R). { A = build_call(p, N, L, R); }
postfix(A) ::= postfix(X) DOT NAME(N). { A = build_member(p, X, N); }
postfix(A) ::= postfix(X) DOT NAME(N) LPAREN args(L) RPAREN(R). { A = build_method(p, X, N, L, R); }
postfix(A) ::= postfix(X) LBRACKET subscripts(L) RBRACKET(R). { A = build_index(p, X, L, R); }

exprs(A) ::= . { A = list_empty(p); }
exprs(A) ::= expr_list(L). { A = L; }
exprs(A) ::= expr_list(L) COMMA. { A = L; }
expr_list(A) ::= expr(X). { A = list_add(p, NULL, X); }
expr_list(A) ::= expr_list(L) COMMA expr(X). { A = list_add(p, L, X); }

args(A) ::= . { A = list_empty(p); }
args(A) ::= arg_list(L). { A = L; }
args(A) ::= arg_list(L) COMMA. { A = L; }
arg_list(A) ::= arg(X). { A = list_add(p, NULL, X); }
arg_list(A) ::= arg_list(L) COMMA arg(X). { A = list_add(p, L, X); }
arg(A) ::= expr(X). { A = X; }
arg(A) ::= expr(X) ARROW expr(Y). { A = build_arrow(p, X, Y); }
arg(A) ::= NAME(N) ASSIGN expr(X). { A = build_keyword(p, N, X); }

subscripts(A) ::= . { A = list_empty(p); }
subscripts(A) ::= subscript_list(L). { A = L; }
subscripts(A) ::= subscript_list(L) COMMA. { A = L; }
subscript_list(A) ::= subscript(X). { A = list_add(p, NULL, X); }
subscript_list(A) ::= subscript_list(L) COMMA subscript(X). { A = list_add(p, L, X); }
subscript(A) ::= ELLIPSIS(T). { A = build_literal(p, N_ELLIPSIS, T); }
subscript(A) ::= expr(X). { A = X; }
subscript(A) ::= bound(X) COLON(C) bound(Y). { A = build_slice(p, X, C, Y, NULL, NULL); }
subscript(A) ::= bound(X) COLON(C) bound(Y) COLON(D) bound(Z). { A = build_slice(p, X, C, Y, &D, Z); }
bound(A) ::= . { A = NULL; }
bound(A) ::= expr(X). { A = X; }

%code {
bool parser_accepts(const void *self, int kind) {
  enum { LONGEST_GUESS = 64 };
  const yyParser *y = self;
  YYACTIONTYPE pushed[LONGEST_GUESS], state = y->yytos->stateno;
  int pushes = 0;
  const yyStackEntry *top = y->yytos;
  for (;;) {
    YYACTIONTYPE action = yy_find_shift_action((YYCODETYPE)kind, state);
    if (action <= YY_MAX_SHIFTREDUCE || action == YY_ACCEPT_ACTION) return true;
    if (action < YY_MIN_REDUCE) return false;
    int pops = -yyRuleInfoNRhs[action - YY_MIN_REDUCE];
    for (; pops && pushes; pops--) pushes--;
    top -= pops;
    YYACTIONTYPE below = pushes ? pushed[pushes - 1] : top->stateno;
    state = yy_find_reduce_action(below, yyRuleInfoLhs[action - YY_MIN_REDUCE]);
    REQUIRE(pushes < LONGEST_GUESS);
    pushed[pushes++] = state;
    if (state == YY_ACCEPT_ACTION) return true;
  }
}

// How many more brackets are open once this symbol is on the stack.
static int opens(YYCODETYPE major) {
  if (major == T_LPAREN || major == T_LBRACKET || major == T_LBRACE) return 1;
  return major == T_RPAREN || major == T_RBRACKET || major == T_RBRACE ? -1 : 0;
}

int parser_pop(void *self) {
  yyParser *y = self;
  int change = -opens(y->yytos->major);
  yy_pop_parser_stack(y);
  return change;
}

int parser_depth(const void *self) {
  const yyParser *y = self;
  return (int)(y->yytos - y->yystack);
}

int parser_open_brackets(const void *self) {
  const yyParser *y = self;
  int open = 0;
  for (const yyStackEntry *e = y->yystack + 1; e <= y->yytos; e++) open += opens(e->major);
  return open;
}
}
