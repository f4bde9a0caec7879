// The output of `pkc explain`: grid, how each operand moves, memory, dots, edges, loops.
#include "codegen/loops/loops.h"
#include "codegen/loops/loop_text.h"

#include <string.h>

// ---- texts

static const char *shape_text(Gen *g, const Type *t) {
  const char *s = text(g, "%s[", dtype_info[t->dtype].name);
  for (int i = 0; i < t->rank; i++)
    s = text(g, "%s%s%s", s, i ? ", " : "", extent_plain(g, t->dim[i]));
  return text(g, "%s]", s);
}

// "4 x 4 tiles": the number of (8, 128) tiles of a block.
static const char *tiles_text(Gen *g, const Type *t) {
  if (t->rank == 0) return "scalar";
  Dim columns = t->dim[t->rank - 1], rows = t->rank > 1 ? t->dim[t->rank - 2] : 1;
  const char *across = dim_is_const(columns) ? text(g, "%lld", (long long)((columns + 127) / 128))
                                             : text(g, "cdiv(%s, 128)", extent_plain(g, columns));
  const char *down = dim_is_const(rows) ? text(g, "%lld", (long long)((rows + 7) / 8))
                                        : text(g, "cdiv(%s, 8)", extent_plain(g, rows));
  return text(g, "%s x %s tiles of (8,128)", down, across);
}

// An index expression as it is in the source.
static const char *source_text(Gen *g, const Region *region, int k) {
  const Source *s = g->k->source;
  Span span = ir_yielded(region, k)->span;
  bool there = s && s->text && span.end > span.start && span.end <= s->length;
  return there ? text(g, "%.*s", (int)(span.end - span.start), s->text + span.start)
               : expr_plain(index_expr(g, region, k));
}

// ---- grid, operands

static void explain_grid(Gen *g) {
  explain(g, "Grid");
  for (int i = 0; i < g->k->grid.count; i++) {
    const GridAxis *axis = &g->k->grid.at[i];
    explain(g, "  %-12s n_%s = %-36s %s", axis->name, g->c_name.axis[i],
            source_text(g, axis->extent, 0),
            axis->proved     ? "parallel by proof: each step has its own blocks, and no step reads "
                               "what another step wrote"
            : axis->parallel ? "parallel: any order, split over threads"
                             : "arbitrary: in order, on one thread");
    if (axis->in_order) explain(g, "  %-12s not parallel: %s", "", axis->in_order);
    if (g->batch && g->batch->axis == i) explain_batch(g);
    if (g->split && g->split->axis == i) explain_split(g);
    if (g->merge && g->merge->axis == i) explain_merge(g);
  }
  if (!g->k->grid.count) explain(g, "  one step");
}

// Explains the form of each operand.
static void explain_operands(Gen *g) {
  explain(g, "\nOperands");
  for (int i = 0; i < g->k->refs.count; i++) {
    const RefGen *r = &g->refs[i];
    if (!ref_is_operand(r->ref)) continue;
    explain(g, "  %-12s %-6s %s, %s", r->ref->name, r->ref->role == REF_INPUT ? "input" : "output",
            shape_text(g, &r->ref->type), tiles_text(g, &r->ref->type));
    explain(g, "  %-12s %s: %s", "", form_text(r->form), r->why);
    if (r->element != r->ref->type.dtype)
      explain(g, "  %-12s stored as %s", "", dtype_info[r->element].name);
    if (r->in_place.when)
      explain(g, "  %-12s %s in place instead where %s%s", "",
              r->stored ? "written and read back" : "read",
              r->in_place.always ? "it is as long as its windows" : "all that is read",
              r->in_place.always ? ""
              : r->stored        ? " and stored of it is in bounds"
                                 : " of it is in bounds");
    if (r->revisited.count)
      explain(g, "  %-12s kept in VMEM while the grid revisits it: up to %s blocks, as many as fit",
              "", expr_plain(r->revisited.most));
    if (r->in_place.dot_rows)
      explain(g, "  %-12s read in place instead when its dots have 24 rows or fewer: rows are %s",
              "", expr_plain(r->in_place.dot_rows));
    if (r->in_place.filled_by && val(r->in_place.filled_by)->dot.tail_columns)
      explain(g, "  %-12s .. and when it has %d columns or fewer", "", tail_columns(g));
    if (r->in_place.filled_by)
      explain(g, "  %-12s .. and when it is small (see Regimes): whole vectors of columns%s", "",
              val(r->in_place.filled_by)->dot.tail_columns ? " and tail columns" : "");
    if (r->in_place.filled_by)
      explain(g, "  %-12s packed by the dot itself, as its first rows read it in place", "");
    if (r->form != FORM_DIRECT && r->ref->role == REF_INPUT && r->fetch_at &&
        r->fetch_at != g->k->body && !g->options->literal_dma)
      explain(g,
              "  %-12s fetched where it is first used: steps that skip the use skip the transfer",
              "");
  }
}

// ---- memory

typedef struct {
  Gen *g;
  const Buffer *buffer;
  const char *text;
} Holding;

static void add_held(Instr *v, void *context) {
  Holding *h = context;
  if (!v->note || val(v)->buffer != h->buffer) return;
  const char *why = why_kept(h->g, v);
  h->text = text(h->g, "%s\n  %-16s %s of line %d%s%s", h->text, "", instr_text(h->g, v),
                 line_of(h->g, v->span), *why ? ": " : "", why);
}

static void explain_buffer(Gen *g, const Buffer *b) {
  Type t = {.dtype = b->element, .rank = b->rank};
  memcpy(t.dim, b->dim, sizeof t.dim);
  Holding held = {g, b, ""};
  ir_walk(g->k->body, add_held, &held);
  bool flat = b->rank == 1 && b->dim[0] == 1;  // panels
  const char *shape = flat ? dtype_info[b->element].name : shape_text(g, &t);
  explain(g, "  %-16s %s%s  (%s; %s)%s", b->name, b->inside ? "none" : expr_plain(b->bytes),
          b->copies ? " for each block" : "", b->purpose, shape, held.text);
}

static void explain_memory(Gen *g) {
  if (!g->buffers.count) {
    explain(g,
            "\nMemory of a worker\n  none: every block is read and written in place, every value "
            "stays in registers");
    return;
  }
  explain(g,
          "\nMemory of a worker, in bytes (the VMEM budget counts blocks and scratch as a TPU "
          "holds them: blocks twice, in whole "
          "tiles)");
  for (int i = 0; i < g->buffers.count; i++) explain_buffer(g, g->buffers.at[i]);
}

// ---- dots

typedef struct {
  Gen *g;
  bool dots;
} DotSearch;

// Explains how a dot is computed.
static void explain_dot(Instr *v, void *context) {
  DotSearch *d = context;
  if (v->op != OP_DOT) return;
  Gen *g = d->g;
  if (!d->dots) explain(g, "\nDots");
  d->dots = true;
  DotShape s = dot_shape(v);
  if (!s.plain) {
    explain(g,
            "  line %d: not a product of two matrices: one for each index of leading axes, or "
            "plain loops",
            line_of(g, v->span));
    return;
  }
  explain(g, "  line %d: register tile %d x %d, operands as %s, sums in %s", line_of(g, v->span),
          g->target->dot_rows, g->panel,
          dtype_info[dot_element(val(v)->dot.kind, s.a->type.dtype)].name,
          is_float(v->type.dtype) ? "f32" : "i32");
  const char *why = why_kind(g, v);
  if (why) explain(g, "    %s", why);
  if (val(v)->dot.tail_columns)
    explain(g,
            "    up to %d tail columns and more rows: a skinny product with its operands exchanged",
            tail_columns(g));
  if (val(v)->dot.left)
    explain(g, "    left operand packed before the loop: it is not in memory in rows");
  const Group *group = val(v)->group;
  const Step *step = group->kind == GROUP_ROWS ? &group->steps.at[val(v)->step] : NULL;
  if (step && step->product.in_place)
    explain(g, "    right operand read in place: the dot has %lld rows, 24 or fewer",
            (long long)group->lead[0]);
  if (step && step->product.right)
    explain(g,
            "    right operand computed during the dot, %d rows at a time, when it has 24 rows or "
            "fewer",
            step->product.right->feeds.rows);
  if (step && step->product.right && step->product.right->feeds.in_registers)
    explain(g, "    .. of up to %d rows it is multiplied in registers",
            step->product.right->feeds.in_registers);
  if (val(v)->dot.panels)
    explain(g,
            "    right operand packed into panels before the loop: it is computed, or also used "
            "otherwise");
  if (val(v)->scratch)
    explain(g,
            "    panel by panel when it has %d rows or more and more than %d columns: left rows "
            "are copied or prefetched, and the next panel is prefetched, while tiles are computed",
            PK_DOT_BLOCK_ROWS, PK_DOT_BRING * g->panel);
  Demand along = contracted_demand(g, v);
  if (along != DEMAND_FULL)
    explain(g, "    stops at %s: all later terms are products with zero", expr_plain(along));
}

// ---- operations without a vector form on this target

// Why the 64-bit elements of v are computed lane by lane, or NULL: as include/pk/vec/wide.h and
// wide_divide.h do.
static const char *why_by_lanes(const Target *t, const Instr *v) {
  if (!v->type.rank || !is_wide(v->type.dtype)) return NULL;
  const bool divides =
      v->op == OP_DIV || v->op == OP_REM || v->op == OP_FLOORDIV || v->op == OP_MOD;
  if (divides && !is_float(v->type.dtype) && t->vector_bytes < 64)
    return "the machine's divider is faster than vectors without conversions of 64-bit integers";
  const bool fused = target_has_fma(t);
  if (is_float(v->type.dtype) && !fused && (v->op == OP_FLOORDIV || v->op == OP_FMA))
    return "this target has no fused multiply-add";
  return NULL;
}

typedef struct {
  Gen *g;
  bool any;
} LaneSearch;

static void explain_by_lanes(Instr *v, void *context) {
  LaneSearch *s = context;
  const char *why = why_by_lanes(s->g->target, v);
  if (!why) return;
  if (!s->any) explain(s->g, "\nLane by lane");
  s->any = true;
  explain(s->g, "  line %d: %s of %s: %s", line_of(s->g, v->span), instr_text(s->g, v),
          dtype_info[v->type.dtype].name, why);
}

// ---- values that are looked up

// Lists the members of a group whose elements are read from a table in a register.
static void explain_tables(Gen *g, Group *group) {
  const Expr *index[MAX_RANK];
  for (int i = 0; i < MAX_RANK; i++) index[i] = expr_symbol(&g->exprs, "row");
  if (group->kind != GROUP_ROWS) return;
  if (group->feeds.in_registers && dot_shape(made_dot(group)).b_transposed)
    index[group->leads] = expr_mul(&g->exprs, index[0], number(g, TRANSPOSED_COLUMNS));
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    const bool *spared = spared_members(g, group, step, index);
    for (int m = 0; m < step->members.count; m++) {
      const Instr *v = step->members.at[m];
      Table t;
      if (spared[m] || !table_of(g, group, v, index, &t)) continue;
      if (!g->explains_tables)
        explain(g,
                "\nLooked up in a register of 16 values, because four bits determine the result");
      g->explains_tables = true;
      explain(g, "  line %d: %s", line_of(g, v->span), instr_text(g, v));
    }
  }
}

// ---- edges

// Names the operand axes with this number of in-bounds elements; the first one describes the
// number.
static void explain_inside(Gen *g, Demand inside) {
  const char *what = NULL, *who = "";
  for (int i = 0; i < g->k->refs.count; i++) {
    const Ref *ref = g->k->refs.at[i];
    for (int k = 0, axis = 0; ref_is_operand(ref) && k < ref->array.rank; k++) {
      if (ref->squeeze[k]) continue;
      if (g->refs[i].inside[axis++] != inside) continue;
      if (!what)
        what = text(g, "of %s elements from %s%s, those below %s", extent_plain(g, ref->block[k]),
                    ref->at == AT_BLOCK ? "block " : "", source_text(g, ref->index_map, k),
                    extent_plain(g, ref->array.dim[k]));
      who = text(g, "%s%s%s axis %d", who, *who ? ", " : "", ref->name, k);
    }
  }
  if (what) explain(g, "  %-12s %s (%s)", inside->name, what, who);
}

static void explain_edges(Gen *g) {
  if (!g->insides.count && !g->bounds.count) return;
  explain(g,
          "\nEdges: the part of a block that is in bounds, or that a mask leaves; loops end there");
  for (int i = 0; i < g->insides.count; i++) explain_inside(g, g->insides.at[i].count);
  for (int i = 0; i < g->bounds.count; i++)
    explain(g,
            "  %-12s columns up to the last that a strip of rows needs: a mask compares columns "
            "with rows",
            g->bounds.at[i]->end->name);
}

static void explain_loops(Gen *g) {
  Buf loops = {0};
  print_regions(g, &loops);
  if (loops.length) explain(g, "\nLoops of a step\n%.*s", (int)loops.length - 1, loops.text);
  buf_free(&loops);
}

static void put_count(Buf *out, int count, const char *one, const char *several) {
  if (count)
    buf_printf(out, "%s%d %s", out->length ? " and " : "", count, count == 1 ? one : several);
}

static void explain_outlined(Gen *g) {
  Buf what = {0};
  if (!g->outlined.functions) return;
  put_count(&what, g->outlined.statements, "statement", "statements");
  put_count(&what, g->outlined.runs, "run of statements", "runs of statements");
  explain(g, "\nLong cell");
  explain(g, "  %s became calls of %d functions: those", what.text, g->outlined.functions);
  explain(g, "  that differ only in names and numbers share one");
  buf_free(&what);
}

static void explain_title(Gen *g) {
  const Calibration *measured = g->target->core->calibration;
  explain(g, "%s for %s: vectors of %d bytes (%d lanes)%s%s", g->k->name, g->target->name,
          g->target->vector_bytes, g->lanes, measured ? ", calibration " : "",
          measured ? measured->id : "");
  const char *statics = "";
  for (int i = 0; i < g->k->statics.count; i++)
    statics = text(g, "%s %s=%s", statics, g->k->statics.at[i].name, g->k->statics.at[i].value);
  explain(g, *statics ? "statics:%s\n" : "%s", statics);
}

// The notes of the decisions (about masks) go under a title of their own, indented.
static const char *take_earlier(Gen *g) {
  const char *lines = "", *at = g->explain->length ? text(g, "%s", g->explain->text) : "";
  for (size_t length; *at; at += length + (at[length] == '\n')) {
    length = strcspn(at, "\n");
    lines = text(g, "%s\n  %.*s", lines, (int)length, at);
  }
  g->explain->length = 0;
  return lines;
}

void explain_all(Gen *g) {
  const char *masks = take_earlier(g);
  explain_title(g);
  explain_grid(g);
  explain_operands(g);
  explain_memory(g);
  DotSearch dots = {g, false};
  ir_walk(g->k->body, explain_dot, &dots);
  explain_regimes(g);
  LaneSearch lanes = {g, false};
  ir_walk(g->k->body, explain_by_lanes, &lanes);
  visit_groups(g, g->body, explain_tables);
  explain_edges(g);
  if (*masks) explain(g, "\nMasks%s", masks);
  explain_loops(g);
  explain_outlined(g);
}
