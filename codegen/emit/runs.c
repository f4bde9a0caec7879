// Runs of statements that repeat. If the body of an unrolled loop declares scalars, its statements
// cannot become functions one by one, because a statement reads scalars that earlier ones declare.
// The whole body becomes a function if no later statement reads a scalar that the body declares.
//
// In: the lines of a cell in which outline.c has replaced statements by calls. Out: pieces. The
// statements of a block are divided into runs that follow each other and have the same shape:
// their tokens are the same without names and literals.
#include "codegen/emit/outline.h"

enum {
  LONG_FUNCTION = 1000,  // lines; a shorter cell is left alone (--long-cell)
  LONGEST_RUN = 256,     // statements
  SHORTEST_RUN = 3       // lines
};

// A statement, with the comments before it.
typedef struct {
  int first, head, end;  // lines: the comments, the statement, and what follows
  uint64_t shape;        // 0: it is in no run
  int declared, known;   // its variables: `declared` .. `known` - 1 in the scope of the block
  int last;              // the last unit that reads one of them, or the unit itself
  // The runs that begin here and save most: statements in each, and the unit after the last run.
  int period, after, saved;  // saved: lines
} Unit;

// The statements of a block.
typedef struct {
  Outline *o;
  LIST(Unit) units;
} Block;

static uint64_t add_to_hash(uint64_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001B3u;
  return hash * 0x100000001B3u;
}

// The names of functions belong to the shape, those of variables and types do not.
static uint64_t shape_of(const Outline *o, int first, int end) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (int i = line_start(o, first); i < line_start(o, end); i++) {
    const Token *t = token_at(o, i);
    const bool named = t->kind == TOKEN_NAME && mark_at(o, i + 1) != '(';
    hash = add_to_hash(hash, named ? "@" : t->varies ? "#" : t->text);
  }
  return hash | 1;
}

// Is the line a label, a case or a directive?
static bool is_mark(const Outline *o, int line) {
  const int i = line_start(o, line);
  return is_the_word(o, i, CASE) || mark_at(o, i) == '#' ||
         (token_at(o, i)->kind == TOKEN_NAME && mark_at(o, i + 1) == ':');
}

static bool is_comment(const Outline *o, int line) { return o->lines.at[line].tokens == 0; }

// Does a statement end before line `end`?
static bool is_ended(const Outline *o, int end) {
  const char c = mark_at(o, line_start(o, end) - 1);
  return c == ';' || c == '}';
}

// The unit that begins at a line of the block, which ends at line `end`.
static Unit unit_at(const Outline *o, int first, int end) {
  Unit u = {.first = first, .head = first};
  while (u.head < end && is_comment(o, u.head)) u.head++;
  if (u.head == end) return (Unit){.first = first, .head = end, .end = end};
  u.end = block_end(o, u.head);
  const bool mark = is_mark(o, u.head);
  while (u.end < end && !mark && !is_ended(o, u.end)) u.end = block_end(o, u.end);
  if (!mark && is_ended(o, u.end) && is_closed(o, u.head, u.end))
    u.shape = shape_of(o, u.head, u.end);
  return u;
}

static void declare_line(Outline *o, int line) {
  const int end = line_start(o, block_end(o, line));
  read_declaration(o, line_start(o, line), end);
  for (int i = line_start(o, line), depth = 0; i < end; i++) {
    const char c = mark_at(o, i);
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (depth == 0 && c == ';') read_declaration(o, i + 1, end);
  }
}

// Declares what a statement declares in its block.
static void declare_all(Outline *o, const Unit *u) {
  for (int line = u->head; line < u->end; line = block_end(o, line)) declare_line(o, line);
}

// Sets the last unit that names each variable which this block or an outer one declares.
static void find_last_names(Block *b) {
  Outline *o = b->o;
  o->blocks++;
  for (int k = b->units.count - 1; k >= 0; k--)
    for (int i = line_start(o, b->units.at[k].head); i < line_start(o, b->units.at[k].end); i++) {
      Variable *v = token_at(o, i)->kind == TOKEN_NAME ? slot_of(o, token_at(o, i)->text) : NULL;
      if (!v || !v->name || v->block == o->blocks) continue;
      v->block = o->blocks;
      v->last = k;
    }
}

// Divides the lines of a block into units, which are statements with their inner blocks, and
// extends each to the last use of the names that it declares.
static void read_units(Block *b, int first, int end) {
  Outline *o = b->o;
  const int opened = o->scope.count;
  for (int line = first; line < end; line = b->units.at[b->units.count - 1].end) {
    Unit u = unit_at(o, line, end);
    u.declared = o->scope.count;
    declare_all(o, &u);
    u.known = o->scope.count;
    LIST_PUSH(arena_of(o), &b->units, u);
  }
  find_last_names(b);
  for (int k = 0; k < b->units.count; k++) {
    Unit *u = &b->units.at[k];
    u->last = k;
    for (int i = u->declared; i < u->known; i++) {
      const int last = slot_of(o, o->scope.at[i].name)->last;
      if (last > u->last) u->last = last;
    }
  }
  leave_scope(o, opened);
}

// ---- repetition

// Of the runs with one number of statements, by the unit at which they begin.
typedef struct {
  int *lines;   // of all units before it
  int *last;    // the last unit that reads what the run declares
  int *closed;  // the runs from it on that have the same shape, and declare nothing for others
  int *after;   // the unit after the last run of this shape
} Runs;

static void keep_best(Unit *u, const Runs *r, int at, int period) {
  const int closed = r->closed[at], lines = r->lines[at + period] - r->lines[at];
  const int saved = (closed - 1) * lines - closed;
  if (closed < 2 || lines < SHORTEST_RUN || saved <= u->saved) return;
  u->saved = saved;
  u->period = period;
  u->after = r->after[at];
}

// Adds the runs of `period` statements, given the last readers of runs that are shorter by one.
static void find_runs(Block *b, Runs *r, int period) {
  Unit *unit = b->units.at;
  int same = 0;  // units from `at` on that have the shape of those a period later
  for (int at = b->units.count - period; at >= 0; at--) {
    const int next = at + period, last = unit[next - 1].last;
    const bool alike =
        next < b->units.count && unit[at].shape && unit[at].shape == unit[next].shape;
    same = alike ? same + 1 : 0;
    if (last > r->last[at]) r->last[at] = last;
    r->closed[at] = (r->last[at] < next) + (same >= period ? r->closed[next] : 0);
    r->after[at] = same >= period ? r->after[next] : next;
    keep_best(&unit[at], r, at, period);
  }
}

static void find_repetition(Block *b) {
  const int n = b->units.count;
  Arena *arena = arena_of(b->o);
  Runs r = {.lines = NEW_ARRAY(arena, int, n + 1),
            .last = NEW_ARRAY(arena, int, n + 1),
            .closed = NEW_ARRAY(arena, int, n + 1),
            .after = NEW_ARRAY(arena, int, n + 1)};
  for (int i = 0; i < n; i++)
    r.lines[i + 1] = r.lines[i] + b->units.at[i].end - b->units.at[i].head;
  for (int period = 1; period <= LONGEST_RUN && 2 * period <= n; period++) find_runs(b, &r, period);
}

// ---- pieces

static void read_runs(Outline *o, int first, int end);

static void copy_unit(Block *b, const Unit *u) {
  Outline *o = b->o;
  if (u->head == u->end || !begins_statement(o, &o->lines.at[u->head])) {
    copy_lines(o, u->first, u->end);
    declare_all(o, u);
    return;
  }
  if (u->first < u->head) copy_lines(o, u->first, u->head);
  take_apart(o, u->head, u->end, read_runs);
}

static bool is_run(const Block *b, int first, int end) {
  for (int i = first; i < end; i++)
    if (b->units.at[i].last >= end) return false;
  return true;
}

// The runs that begin with a unit, unless units among them begin better ones.
static bool is_best(const Block *b, int at) {
  const Unit *u = &b->units.at[at];
  for (int i = at + 1; i < u->after; i++)
    if (b->units.at[i].saved > u->saved) return false;
  return u->saved > 0;
}

static void take_run(Block *b, int first, int end) {
  const Unit *u = &b->units.at[first];
  if (!is_run(b, first, end)) {
    for (int i = first; i < end; i++) copy_unit(b, &b->units.at[i]);
    return;
  }
  if (u->first < u->head) copy_lines(b->o, u->first, u->head);
  add_piece(b->o, u->head, b->units.at[end - 1].end);
}

// Makes pieces of the runs that repeat in lines first .. end - 1.
static void read_runs(Outline *o, int first, int end) {
  Block b = {.o = o};
  read_units(&b, first, end);
  find_repetition(&b);
  for (int i = 0; i < b.units.count;) {
    const Unit *u = &b.units.at[i];
    if (is_best(&b, i)) {
      for (; i < u->after; i += u->period) take_run(&b, i, i + u->period);
    } else {
      copy_unit(&b, u);
      i++;
    }
  }
}

static int count_lines(const char *s) {
  int count = 0;
  for (; *s; s++) count += *s == '\n';
  return count;
}

void outline(CWriter *w, const Declarations *before, Buf *functions, Buf *lines) {
  const int64_t wish = w->g->options->long_cell;
  if (!lines->length || count_lines(lines->text) < (wish ? wish : LONG_FUNCTION)) return;
  Buf pieces = {0};
  divide(w, before, read_statements, &w->g->outlined.statements, &pieces, lines);
  divide(w, before, read_runs, &w->g->outlined.runs, &pieces, lines);
  share_large(w->g, functions, &pieces, lines);
  buf_free(&pieces);
}
