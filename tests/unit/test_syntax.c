// Messages, lexer, parser and formatter. `test_syntax 60 7` tries random texts of seed 7 for a
// minute; by default it tries few.
#include "dsl/ast.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void expect(bool ok, const char *what, const char *detail) {
  check(ok, what, "%s", detail ? detail : "");
}

static void check_text(const char *got, const char *want, const char *what) {
  bool ok = strcmp(got, want) == 0;
  expect(ok, what, "texts differ");
  if (!ok) printf("  got:  %s\n  expected: %s\n", got, want);
}

// ---- the stages of one text

typedef struct {
  Arena *arena;
  Source source;
  Diag *diag;
  Node *file;
} Reading;

static Reading read_bytes(const char *text, size_t length) {
  Reading r = {.arena = arena_new()};
  r.source =
      (Source){.path = "t.pk", .text = arena_strndup(r.arena, text, length), .length = length};
  r.diag = NULL;
  return r;
}

static void parse_text(Reading *r, const char *text, size_t length) {
  *r = read_bytes(text, length);
  Source *source = NEW(r->arena, Source);
  *source = r->source;
  r->diag = diag_new(r->arena, source);
  r->file = parse(r->arena, source, r->diag);
}

static char *dump_of(const Reading *r) {
  Buf buf = {0};
  ast_dump(r->file, &buf);
  char *text = arena_strndup(r->arena, buf.text, buf.length);
  buf_free(&buf);
  return text;
}

static char *messages_of(const Reading *r, DiagFormat format) {
  Buf buf = {0};
  buf_puts(&buf, "");
  diag_print(r->diag, &buf, format);
  char *text = arena_strndup(r->arena, buf.text, buf.length);
  buf_free(&buf);
  return text;
}

static bool format_text(Arena *arena, const char *text, size_t length, Buf *out) {
  Source *source = NEW(arena, Source);
  *source = (Source){.path = "t.pk", .text = arena_strndup(arena, text, length), .length = length};
  buf_puts(out, "");
  return format_source(arena, source, diag_new(arena, source), out);
}

// ---- trees of expressions

#define BEFORE "kernel k(x: f32) -> (o: f32) {\n"
#define AFTER "\n}\n"

// The expression written with all parentheses, from the tree.
static void put_expression(const Node *n, Buf *out) {
  if (n->kind == N_BINARY) {
    buf_putc(out, '(');
    put_expression(n->a, out);
    buf_printf(out, "%s", binary_spelling((BinaryOp)n->op));
    put_expression(n->b, out);
    buf_putc(out, ')');
  } else if (n->kind == N_UNARY) {
    buf_printf(out, "(%c", "-!~"[n->op]);
    put_expression(n->a, out);
    buf_putc(out, ')');
  } else if (n->kind == N_INT) {
    buf_printf(out, "%lld", (long long)n->ival);
  } else if (n->kind == N_FLOAT) {
    buf_printf(out, "%g", n->fval);
  } else if (n->kind == N_NAME) {
    buf_puts(out, n->name);
  } else {
    buf_printf(out, "<%s>", node_name[n->kind]);
  }
}

static void check_expression(const char *text, const char *want) {
  Reading r;
  Buf buf = {0}, got = {0};
  buf_printf(&buf, BEFORE "let v = %s;" AFTER, text);
  parse_text(&r, buf.text, buf.length);
  check_text(messages_of(&r, DIAG_TEXT), "", text);
  if (diag_error_count(r.diag) == 0) {
    put_expression(r.file->list.at[0]->a->list.at[0]->a, &got);
    check_text(got.text, want, text);
  }
  buf_free(&buf);
  buf_free(&got);
  arena_free(r.arena);
}

static void test_expressions(void) {
  static const struct {
    const char *text, *want;
  } rows[] = {
      {"a + b * c", "(a+(b*c))"},
      {"a - b - c", "((a-b)-c)"},
      {"a % b / c * d", "(((a%b)/c)*d)"},
      {"-a * b", "((-a)*b)"},
      {"!a && ~b == c", "((!a)&&((~b)==c))"},
      {"a || b && c | d ^ e & f << g + h", "(a||(b&&(c|(d^(e&(f<<(g+h)))))))"},
      {"a >>> b >> c << d", "(((a>>>b)>>c)<<d)"},
      {"a & b == c", "((a&b)==c)"},
      {"(a < b) < c", "((a<b)<c)"},
      {"a != b || a <= c || a >= d || a > e", "((((a!=b)||(a<=c))||(a>=d))||(a>e))"},
      {"0x7fffFFFFffffffff", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"- -1", "(-(-1))"},
      {"007 + 1.5e3 + 2e-2", "((7+1500)+0.02)"},
      {"pad + any * kernel", "(pad+(any*kernel))"},
      {"f(a).b[c].d(e)", "<method>"},
      {"(a,)", "<tuple>"},
      {"if a { b } else if c { d } else { e }", "<if_expr>"},
      {"1 .T", "<member>"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    check_expression(rows[i].text, rows[i].want);
  expect(binary_precedence(BIN_MUL) > binary_precedence(BIN_OR), "precedence table", NULL);
}

// ---- messages

// Each row: a text, and the start of each message it must give, as "line:column code text", one a
// line.
static void check_messages(const char *text, size_t length, const char *want) {
  Reading r;
  Buf got = {0};
  parse_text(&r, text, length);
  buf_puts(&got, "");
  const char *line = messages_of(&r, DIAG_TEXT);
  for (const char *end; (end = strchr(line, '\n')); line = end + 1) {
    const char *error = strstr(line, ": error: ");
    if (strncmp(line, "t.pk:", 5) != 0 || !error || error > end) continue;
    const char *code = end;
    while (*code != '[') code--;
    buf_printf(&got, "%.*s %.5s %.*s\n", (int)(error - line) - 5, line + 5, code + 1,
               (int)(code - error) - 10, error + 9);
  }
  check_text(got.text, want, text);
  buf_free(&got);
  arena_free(r.arena);
}

static void test_messages(void) {
  static const struct {
    const char *text, *want;
  } rows[] = {
      {"", ""},
      {BEFORE "a = 1" AFTER, "2:6 E0101 expected `;` after `1`\n"},
      {BEFORE "let a = 1\nlet b = 2\nlet c = (3;\nlet d = 4;" AFTER,
       "2:10 E0101 expected `;` after `1`\n3:10 E0101 expected `;` after `2`\n4:11 E0101 expected "
       "`,` or `)` after the value, "
       "found `;`\n"},
      {BEFORE "let a = 1. + 2;" AFTER,
       "2:9 E0103 a float has digits on both sides of the dot: write `1.0`\n"},
      {BEFORE "let a = .5e3;" AFTER,
       "2:9 E0103 a float has digits on both sides of the dot: write `0.5e3`\n"},
      {BEFORE "let a = 12f;" AFTER,
       "2:9 E0103 `12f` is not a number: no letter or `_` may follow a number directly\n"},
      {BEFORE "let a = 1_000;" AFTER,
       "2:9 E0103 `1_000` is not a number: no letter or `_` may follow a number directly\n"},
      {BEFORE "let a = 9223372036854775808;" AFTER,
       "2:9 E0103 this integer does not fit 64 bits\n"},
      {BEFORE "let a = b - 9223372036854775808;" AFTER,
       "2:13 E0103 this integer does not fit 64 bits\n"},
      {BEFORE "let a = 1e999;" AFTER,
       "2:9 E0103 this number is too large for an f64; infinity is written inf\n"},
      {BEFORE "let a = 1e-999;" AFTER, "2:9 E0103 this number is too small for an f64\n"},
      {BEFORE "let a = \"x;\nlet b = 2;" AFTER,
       "2:9 E0104 this string is not closed: expected `\"` on the same line\n"},
      {BEFORE "/* a", "2:1 E0104 this comment is not closed: expected `*/`\n"},
      {BEFORE "let a = \"\\q\";" AFTER, "2:10 E0106 unknown escape in a string\n"},
      {BEFORE "let a = b $@\x01\xff c;\nlet d = $ 3;" AFTER,
       "2:11 E0102 `$` does not belong to the language\n3:9 E0102 `$` does not belong to the "
       "language\n"},
      {BEFORE "let a = b < c < d;" AFTER,
       "2:15 E0101 comparisons do not chain: write `a < b && b < c`\n"},
      {BEFORE "when a = b { c = 1; }" AFTER,
       "2:8 E0101 `=` assigns and is not allowed here: write `==` to compare\n"},
      {BEFORE "when a and b or c { d = 1; }" AFTER,
       "2:8 E0101 there is no `and`: write `&&`\n2:14 E0101 there is no `or`: write `||`\n"},
      {BEFORE "when not b { d = 1; }" AFTER, "2:6 E0101 there is no `not`: write `!`\n"},
      {BEFORE "let for = 1;" AFTER, "2:5 E0101 `for` is a reserved word and cannot be a name\n"},
      {BEFORE "a + 1;" AFTER,
       "2:1 E0101 a value alone does nothing: expected an assignment or a call\n"},
      {BEFORE "for i in range(3) { a = 1; }" AFTER,
       "2:19 E0101 expected a range: write `for i in 0..n { }`, and with a step `for k in "
       "0..cdiv(n, s) { let i = k * s; .. }`\n"},
      {BEFORE "block x: [1] pad 0 pad 1;" AFTER, "2:20 E0101 `pad` occurs twice in this block\n"},
      {BEFORE "block x: [1] at (i) halo 3;" AFTER,
       "2:26 E0101 `halo` takes (before, after) pairs, as in `halo (2, 0)`\n"},
      {BEFORE "let s = if a { 1 b } else { 2 };\nlet q = 3 4;" AFTER,
       "2:18 E0101 expected `}` after the value, found `b`\n3:11 E0101 expected `;` after the "
       "value, found `4`\n"},
      {BEFORE "when a b { c d; }\ne f;" AFTER,
       "2:8 E0101 expected `{` after the value, found `b`\n2:14 E0101 expected `=` or `;` after "
       "the value, found `d`\n"
       "3:3 E0101 expected `=` or `;` after the value, found `f`\n"},
      {BEFORE "when a { b = 1;\n" BEFORE AFTER, "3:1 E0101 expected `}` before `kernel`\n"},
      {BEFORE "when a\n  b = 1;\n}" AFTER, "2:7 E0101 expected `{` after `a`\n"},
      {BEFORE "a = 1;\n", "3:1 E0101 expected `}` before the end of the file\n"},
      {"kernel k(x f32) -> (o: f32) { a b; }\nfn f(a = 1;\nfn g(b) = c d;",
       "1:12 E0101 expected `:`, found `f32`\n1:33 E0101 expected `=` or `;` after the value, "
       "found `b`\n"
       "2:8 E0101 expected `,` or `)`, found `=`\n3:13 E0101 expected `;` after the value, found "
       "`d`\n"},
      {"}\n", "1:1 E0101 expected `fn`, `kernel`, `program` or `reference`, found `}`\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    check_messages(rows[i].text, strlen(rows[i].text), rows[i].want);
  check_messages("fn f(a) = a;\0", 13,
                 "1:13 E0102 the byte 0x00 does not belong to the language\n");
}

static void check_note(const char *body, const char *note, bool there) {
  Reading r;
  Buf buf = {0};
  buf_printf(&buf, BEFORE "%s" AFTER, body);
  parse_text(&r, buf.text, buf.length);
  expect((strstr(messages_of(&r, DIAG_TEXT), note) != NULL) == there, "note", body);
  buf_free(&buf);
  arena_free(r.arena);
}

static void test_notes(void) {
  check_note("let a = b // 2;\nlet c = 1;", "note: `//` starts a comment; write floordiv(a, b)",
             true);
  check_note("let a = f(b // c)\n;", "note: `//` starts a comment", true);
  check_note("let a = b  // the number of rows that are left\nlet c = 1;", "note: `//`", false);
  check_note("a = \"\\z\";", "note: the escapes are", true);
  check_note("a == 1;", "note: `==` compares; write `=` to assign", true);
  check_note("a = 'b';", "note: strings are in double quotes", true);
}

// ---- diagnostics by themselves

static Reading diag_of(const char *text, size_t length) {
  Reading r = read_bytes(text, length);
  Source *source = NEW(r.arena, Source);
  *source = r.source;
  r.diag = diag_new(r.arena, source);
  return r;
}

static void test_diag_text(void) {
  Reading r = diag_of("ab\tcd\x01\xff\xc3\xa9z\nsecond\nthird", 24);
  diag_error(r.diag, (Span){3, 9}, ERR_SYNTAX, "late\x1b[0m");
  diag_note(r.diag, (Span){11, 20}, "other place");
  diag_note(r.diag, (Span){0, 0}, "no place");
  diag_warning(r.diag, (Span){0, 2}, ERR_SYNTAX, "early");
  diag_warning(r.diag, (Span){0, 2}, ERR_SYNTAX, "early");
  diag_note(r.diag, (Span){0, 0}, "of the repeated one");
  check_text(messages_of(&r, DIAG_TEXT),
             "t.pk:1:1: warning: early [E0101]\n"
             "    1 | ab  cd??\xc3\xa9z\n      | ^~\n"
             "t.pk:1:4: error: late?[0m [E0101]\n"
             "    1 | ab  cd??\xc3\xa9z\n      |     ^~~~~\n"
             "t.pk:2:1: note: other place\n"
             "    2 | second\n      | ^~~~~~\n"
             "note: no place\n",
             "text of messages");
  check_text(messages_of(&r, DIAG_JSON),
             "{\"file\":\"t.pk\",\"line\":1,\"column\":1,\"end_column\":3,\"severity\":\"warning\","
             "\"code\":\"E0101\","
             "\"message\":\"early\",\"notes\":[]}\n"
             "{\"file\":\"t.pk\",\"line\":1,\"column\":4,\"end_column\":10,\"severity\":\"error\","
             "\"code\":\"E0101\",\"message\":"
             "\"late\\u001b[0m\","
             "\"notes\":[{\"file\":\"t.pk\",\"line\":2,\"column\":1,\"end_column\":7,\"message\":"
             "\"other place\"},"
             "{\"file\":\"t.pk\",\"message\":\"no place\"}]}\n",
             "JSON of messages");
  expect(strstr(messages_of(&r, DIAG_COLOUR), "\033[1;31merror:") != NULL, "colour", NULL);
  arena_free(r.arena);
}

static void test_diag_limits(void) {
  Buf buf = {0};
  for (int i = 0; i < 100000; i++) buf_puts(&buf, "0123456789");
  Reading r = diag_of(buf.text, buf.length);
  for (uint32_t i = 0; i < 50; i++) {
    expect(diag_too_many(r.diag) == (i >= 20), "limit", NULL);
    diag_error(r.diag, (Span){500000 + i, 900000}, ERR_SYNTAX, "number %u", i);
    diag_note(r.diag, (Span){0, 0}, "its note");
  }
  const char *text = messages_of(&r, DIAG_TEXT);
  expect(strlen(text) < 20 * 400, "long lines are shown in part", text);
  expect(strstr(text, "t.pk: too many errors: stopped after 20\n") != NULL, "closing line", NULL);
  expect(strstr(text, "number 19") && !strstr(text, "number 20"), "the first 20 are kept", NULL);
  expect(strstr(text, "    1 | ...0123456789") != NULL, "window", text);
  arena_free(r.arena);
  buf_free(&buf);
  expect(error_meaning(101) != NULL && error_meaning(99999) == NULL, "meanings", NULL);
  Source source = {.path = "t.pk", .text = "a\nbc\n", .length = 5};
  int line, column;
  source_position(&source, 3, &line, &column);
  expect(line == 2 && column == 2, "position", NULL);
  source_position(&source, 99, &line, &column);
  expect(line == 3 && column == 1, "position past the end", NULL);
}

// ---- deep and long texts

static void check_hostile(const char *head, const char *unit, int times, const char *tail,
                          const char *code) {
  Buf buf = {0};
  Reading r;
  buf_puts(&buf, head);
  for (int i = 0; i < times; i++) buf_puts(&buf, unit);
  buf_puts(&buf, tail);
  parse_text(&r, buf.text, buf.length);
  const char *text = messages_of(&r, DIAG_JSON);
  expect(code ? strstr(text, code) != NULL : text[0] == 0, unit, text);
  dump_of(&r);
  buf_free(&buf);
  arena_free(r.arena);
}

static void test_hostile(void) {
  const int many = 100000;
  check_hostile(BEFORE "let a = ", "(", many, "", "E0105");
  check_hostile(BEFORE "let a = ", "[", many, ";" AFTER, "E0105");
  check_hostile(BEFORE "let a = ", "f(", many, "1;" AFTER, "E0105");
  check_hostile(BEFORE, "when a {", many, "" AFTER, "E0105");
  check_hostile(BEFORE "let a = ", "-", many, "1;" AFTER, "E0105");
  check_hostile(BEFORE "let a = 1", " + 1", many, ";" AFTER, "E0105");
  check_hostile(BEFORE "let a = b", "[0]", many, ";" AFTER, "E0105");
  check_hostile(BEFORE "let a = b", ".c()", many, ";" AFTER, "E0105");
  check_hostile(BEFORE, "if a { b = 1; } else ", many, "{ }" AFTER, "E0105");
  check_hostile(BEFORE "let a = ", "if a { 1 } else ", many, "{ 2 };" AFTER, "E0105");
  check_hostile(BEFORE "let a = [", "1, ", many, "];" AFTER, NULL);
  check_hostile(BEFORE "let a = 1", " + 1", 900, ";" AFTER, NULL);
  check_hostile(BEFORE, "a = 1; ", many, AFTER, NULL);
  check_hostile("", "{", many, "", "E0101");
  check_hostile("", "kernel ", many, "", "E0101");
  check_hostile("", "$ ", many, "", "E0102");
  check_hostile("// ", "          ", 900000, "", "E0107");
}

// ---- the formatter

static const char everything[] =
    "/* a\n   b   \n*/\nfn relu(a)=max(a,0); fn   two(a, b) { let c = a+b; return if c>0 {c} else "
    "if a>0 {a} else {-c}; } // "
    "two\n\n\n// c\n"
    "kernel all(x: T[M,K], y: f32, idx: i32[], w: accum(T)[_k],) -> (o: T[M, K], p: f32[E + 1]) { "
    "// the kernel\n"
    "\n  static T:dtype=f32, BM = 256, NEG=-9223372036854775808, HEX = 0xFF, F = 1.5e-3, "
    "G=1e5;\n\n\n"
    "  require M%BM==0:\"M must be \\\"whole\\\"\\n\";\n  require K > 0;\n  prefetch off: i32[E + "
    "1], n: i32;\n  mesh (x: 4, y: "
    "2);\n"
    "  vmem_limit 16*1024*1024;\n  alias o=x;\n  let pad = 3;\n"
    "  grid (i in cdiv(M, BM) parallel, j in n arbitrary, k in max(1,cdiv(K, 4)),);\n"
    "  block x: [_, BM, 1,] at (i, j, floordiv(k,2)) pad -1 buffers 3;\n  block y: any;\n  block "
    "t: smem [1, 8] at (i,0);\n"
    "  block w: smem;\n  block z: [] at () pad(0) ;\n  block v: vmem [1]; block u: vmem [1] at "
    "(0);\n"
    "  block o, p: [BM,N] at element (i * BM - 1, 0) halo (2, 0), (1, 1) revisit any;\n"
    "  block q: [BM] at slice (ds(off[i], off[i+1] - off[i])) halo ((1, 2),);\n  scratch m, l: "
    "vmem f32[BQ, 1];\n"
    "  scratch acc: vmem accum(T)[BM, BN], s : sem dma[2], r: sem regular, bar: sem barrier;\n  "
    "scratch c: smem i32;\n"
    "  fn inner(v) = v*2;\n  when  i==0{acc[...]=0;}\n  when i == 0 { }\n"
    "  if i == 1 { acc[...] = 1; } else if i == 2 { acc[...] += 2; } else { acc[...] >>>= 1; }\n"
    "  if i == 1 { acc[...] = 1; } // c\n  else {\n    acc[...] = 2; /* odd */ acc[0] = 3; // "
    "trailing\n    // last\n  }\n"
    "  for _ in 0..n-1 { static for t in -1..4 { if t == 3 { break; } } }\n  while (i < 3 && "
    "!x[0]) || ~j != - -1 { foo(); }\n"
    "  var v: f32[8,4] = 0; var u: i32 = 1;\n  let a = x[ds(i * 8, 8, 2), :, None, ..., 1:, :-1, "
    "::2, a+1:b*2:c];\n"
    "  let e = (x[...] + y).T.reshape((1,), ()).sum(axis = (0,1), keep=false);\n"
    "  let k2 = kernel + reference*any(smem)[vmem] - at(element).slice[halo:of];\n  let b = "
    "[1,2,[3, 4]]; let g = -x[1] - -2 + "
    "!b;\n"
    "  let c2 = async_copy(x.at[0] -> buf[k % 2], s[k % 2]); c2.start();\n"
    "  remote_copy(src -> dst, device = (1 + i, 0), send, recv,);\n"
    "  let a = 1 << 2 >> 3 >>> 4 & 5 ^ 6 | 7 == 8 && 9 < 10 || (1 < 2) == (2 > 3) && 1 >= 2 && 2 "
    "<= 3;\n"
    "  scoped buf: vmem f32[8, 128], a, b: vmem bool, s2: sem dma[2] { buf[...] = 0; }\n"
    "  region \"soft\\tmax\" {\n"
    "    pipeline (t in n, u in 4 parallel) { block a of x, b of y: [bm, bk] at (t, 0) buffers 3; "
    "block d of o: any; a[...] = 1 "
    ".T; }\n"
    "  }\n  let long = aaaaaaaaaaaaaaaaaaaaaaaa(bbbbbbbbbbbbbbbbbbbbbb, cccccccccccccccccccc) + "
    "dddddddddddddddddddd(eeeeeeeeeee, "
    "ffffffffffffffffffff) - gggggggg - 1 * // in the middle\n   h[:, i:j] /* in */ + 4 * // "
    "twice\n // alone\n 5;\n"
    "  o[...] = if i == 0 { 1.0 } else { 2.0 };\n\n}\nreference all { let q = 3; p = if q { o } "
    "else { x }; }\n// end";

// format(x) parses to the same tree, and format(format(x)) is format(x). A text that does not parse
// is not formatted.
static void check_round_trip(const char *text, size_t length, const char *what) {
  Reading before, after;
  Buf once = {0}, twice = {0};
  parse_text(&before, text, length);
  bool parses = diag_error_count(before.diag) == 0;
  expect(format_text(before.arena, text, length, &once) == parses, what,
         "format and parse disagree");
  if (parses) {
    parse_text(&after, once.text, once.length);
    bool same = diag_error_count(after.diag) == 0 && strcmp(dump_of(&before), dump_of(&after)) == 0;
    expect(same, what, once.text);
    if (!same) printf("%s", messages_of(&after, DIAG_TEXT));
    expect(format_text(after.arena, once.text, once.length, &twice), what,
           "the formatted text is refused");
    bool stable = once.length == twice.length && memcmp(once.text, twice.text, once.length) == 0;
    expect(stable, what, "not idempotent");
    if (!stable) printf("--- once\n%s--- twice\n%s", once.text, twice.text);
    arena_free(after.arena);
  }
  buf_free(&once);
  buf_free(&twice);
  arena_free(before.arena);
}

static void check_format(const char *text, const char *want) {
  Arena *arena = arena_new();
  Buf out = {0};
  format_text(arena, text, strlen(text), &out);
  check_text(out.text, want, "layout");
  check_round_trip(text, strlen(text), text);
  buf_free(&out);
  arena_free(arena);
}

static void test_format(void) {
  check_format("", "");
  check_format("// only a comment  ", "// only a comment\n");
  check_format(
      "\xEF\xBB\xBF"
      "fn f(a)=a;\r\n",
      "fn f(a) = a;\n");
  check_format(
      "kernel k( x:f32[M,N] )->( o:f32[M,N] ){\n\n\n\no[...]=x[...]*-1;// a\n\n\n\nlet  bb=1;// "
      "b\nlet c=a[1 : ,::2];// c\n\n}",
      "kernel k(x: f32[M, N]) -> (o: f32[M, N]) {\n  o[...] = x[...] * -1;  // a\n\n  let bb = 1;  "
      "        // b\n"
      "  let c = a[1:, ::2];  // c\n}\n");
  check_format(
      "kernel k() -> (o: f32) { when i == 0 { a = 1; } when i == 0 {\na = 1; } }",
      "kernel k() -> (o: f32) {\n  when i == 0 { a = 1; }\n  when i == 0 {\n    a = 1;\n  }\n}\n");
}

static void test_round_trip(void) {
  Reading r;
  Buf out = {0};
  check_round_trip(everything, sizeof everything - 1, "everything");
  parse_text(&r, everything, sizeof everything - 1);
  check_text(messages_of(&r, DIAG_TEXT), "", "everything parses");
  expect(format_text(r.arena, everything, sizeof everything - 1, &out), "everything is formatted",
         NULL);
  int column = 0;
  for (const char *c = out.text; *c; c++) {
    column = *c == '\n' ? 0 : column + 1;
    expect(column < 200, "long lines are broken", c);
  }
  buf_free(&out);
  arena_free(r.arena);
}

// ---- random texts

static uint64_t random_state = 1;
static uint32_t random_below(uint32_t limit) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((random_state >> 33) % limit);
}

static const char *const words[] = {
#define TOKEN(id, text, class) text,
#include "dsl/tokens.def"
#undef TOKEN
    "?",
    "//",
    "/*",
    "*/",
    "\n",
    "\n",
    "\"s\"",
    "x",
    "y",
    "0",
    "1.5",
    "and",
    "or",
    "not",
    "a[...]",
    "f(x)",
    ";",
    ";",
    "{",
    "}",
    "(",
    ")",
    "kernel k(x: f32) -> (o: f32) {",
    "// c\n",
    "/* d */",
    "/* e\n*/",
    "x = y;",
    "let a = 1;",
    "when x {",
    "}",
    "a, b",
    ", ",
    "$",
    "\x80"};

static void random_words(Buf *buf) {
  uint32_t count = random_below(60);
  if (random_below(2)) buf_puts(buf, BEFORE);
  for (uint32_t i = 0; i < count; i++) {
    buf_puts(buf, words[random_below(sizeof words / sizeof words[0])]);
    if (random_below(4)) buf_putc(buf, ' ');
  }
  if (random_below(2)) buf_puts(buf, AFTER);
}

static void random_bytes(Buf *buf) {
  uint32_t count = random_below(300);
  buf_puts(buf, "");
  for (uint32_t i = 0; i < count; i++) buf_putc(buf, (char)random_below(256));
}

// Everything, with some pieces dropped, doubled, or replaced by white space, comments or words.
static void random_change(Buf *buf) {
  uint32_t changes = 1 + random_below(4), size = sizeof everything - 1;
  buf_add(buf, everything, size);
  for (uint32_t i = 0; i < changes; i++) {
    Buf next = {0};
    uint32_t at = random_below((uint32_t)buf->length),
             drop = random_below(3) ? 0 : random_below(12);
    if (at + drop > buf->length) drop = 0;
    buf_add(&next, buf->text, at);
    if (drop == 0)
      buf_puts(&next,
               random_below(2) ? words[random_below(sizeof words / sizeof words[0])] : " /* x */ ");
    if (random_below(4) == 0) buf_puts(&next, "\n// y\n");
    buf_add(&next, buf->text + at + drop, buf->length - at - drop);
    buf_free(buf);
    *buf = next;
  }
}

static void test_random(double seconds) {
  static void (*const makers[])(Buf *) = {random_words, random_bytes, random_change, random_change};
  clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
  int texts = 0;
  while (clock() < end && check_failures == 0) {
    Buf buf = {0};
    makers[random_below(4)](&buf);
    check_round_trip(buf.text, buf.length, "random text");
    Reading r;
    parse_text(&r, buf.text, buf.length);
    messages_of(&r, DIAG_JSON);
    messages_of(&r, DIAG_TEXT);
    if (check_failures) printf("--- the text\n%s\n", buf.text);
    arena_free(r.arena);
    buf_free(&buf);
    texts++;
  }
  if (seconds > 1) printf("%d random texts\n", texts);
}

// ---- edited texts: the tree and the messages are those of the text alone

static bool same_span(Span a, Span b) { return a.start == b.start && a.end == b.end; }

static bool same_tree(const Node *a, const Node *b);

static bool same_list(const NodeList *a, const NodeList *b) {
  bool same = a->count == b->count;
  for (int i = 0; same && i < a->count; i++) same = same_tree(a->at[i], b->at[i]);
  return same;
}

static bool same_tree(const Node *a, const Node *b) {
  if (!a || !b) return a == b;
  return a->kind == b->kind && same_span(a->span, b->span) && a->name == b->name &&
         same_span(a->name_span, b->name_span) && a->op == b->op && a->flags == b->flags &&
         a->ival == b->ival && memcmp(&a->fval, &b->fval, sizeof a->fval) == 0 &&
         same_tree(a->a, b->a) && same_tree(a->b, b->b) && same_tree(a->c, b->c) &&
         same_list(&a->list, &b->list) && same_list(&a->list2, &b->list2);
}

// Puts something into the text, or takes something out.
static void edit_text(Buf *buf) {
  static const char *const tops[] = {"fn g(a) = a * 2;\n",
                                     "kernel h(x: f32) -> (o: f32) { o = x; }\n",
                                     "reference h { o = x; }\n",
                                     "fn",
                                     "kernel k(",
                                     "/*",
                                     "\"",
                                     "\n",
                                     " "};
  Buf next = {0};
  uint32_t at = random_below((uint32_t)buf->length + 1),
           drop = random_below(2) ? random_below(random_below(4) ? 4 : 400) : 0;
  if (drop > buf->length - at) drop = (uint32_t)buf->length - at;
  buf_add(&next, buf->text, at);
  if (random_below(3))
    buf_puts(&next, random_below(2) ? words[random_below(sizeof words / sizeof words[0])]
                                    : tops[random_below(sizeof tops / sizeof tops[0])]);
  buf_add(&next, buf->text + at + drop, buf->length - at - drop);
  buf_free(buf);
  *buf = next;
}

// Reverts some edits, so that texts do not consist only of mistakes.
static void test_edited(int texts) {
  static const char top[] = "fn f(a) = a;\nfn twice(a) { return a * 2; } // c\n" BEFORE
                            "o = x;" AFTER "reference k { o = x; }\n";
  for (int i = 0; i < texts && check_failures == 0; i++) {
    Buf buf = {0}, earlier = {0};
    Syntax syntax = {0};
    Arena *before = NULL;
    for (uint32_t n = random_below(5); n < 5; n++)
      buf_add(&buf, n % 2 ? everything : top, (n % 2 ? sizeof everything : sizeof top) - 1);
    for (int step = 0; step < 30 && check_failures == 0; step++) {
      Reading whole, again = read_bytes(buf.text, buf.length);
      parse_text(&whole, buf.text, buf.length);
      again.diag = diag_new(again.arena, &again.source);
      again.file = parse_again(&syntax, &again.source, again.diag);
      expect(same_tree(again.file, whole.file), "the tree of an edited text", "differs");
      check_text(messages_of(&again, DIAG_JSON), messages_of(&whole, DIAG_JSON), "its messages");
      if (check_failures) printf("--- the text\n%s\n--- after\n%s\n", buf.text, earlier.text);
      arena_free(whole.arena);
      arena_free(before);
      before = again.arena;
      bool back = earlier.text && random_below(3) == 0;
      Buf kept = {0};
      buf_add(&kept, buf.text, buf.length);
      if (back) {
        buf_free(&buf);
        buf_add(&buf, earlier.text, earlier.length);
      } else {
        edit_text(&buf);
      }
      buf_free(&earlier);
      earlier = kept;
    }
    arena_free(before);
    syntax_free(&syntax);
    buf_free(&buf);
    buf_free(&earlier);
  }
}

int main(int argc, char **argv) {
  test_expressions();
  test_messages();
  test_notes();
  test_diag_text();
  test_diag_limits();
  test_hostile();
  test_format();
  test_round_trip();
  if (argc > 2) random_state = strtoull(argv[2], NULL, 10);
  test_edited(argc > 1 ? 100 * atoi(argv[1]) : 50);
  test_random(argc > 1 ? atof(argv[1]) : 0.5);
  return check_end();
}
