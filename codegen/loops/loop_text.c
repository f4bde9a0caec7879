// Prints the loop IR.
#include "codegen/loops/loop_text.h"

#include <inttypes.h>
#include <string.h>

const char *form_text(Form form) {
  static const char *const names[] = {[FORM_DIRECT] = "direct",
                                      [FORM_COPY] = "copy",
                                      [FORM_ROWS] = "pack rows",
                                      [FORM_PANELS] = "pack panels"};
  return names[form];
}

const char *instr_text(Gen *g, const Instr *v) {
  const char *op = v->op == OP_STORE ? text(g, "store %s", v->ref->name) : op_info[v->op].name;
  bool named = v->text && op_info[v->op].class != OPC_CONTROL;
  return named ? text(g, "%%%d %s = %s", v->id, v->text, op) : text(g, "%%%d %s", v->id, op);
}

// ---- why a value is kept

// The first dot and the first reader in another group, the last one in the same group.
typedef struct {
  const Instr *dot, *elsewhere, *later;
} Readers;

static void find_readers(Readers *r, const Instr *v, const Instr *through) {
  for (int i = 0; i < val(through)->users.count; i++) {
    const Instr *user = val(through)->users.at[i];
    if (is_transparent(user) || feeds_only_dots(user))
      find_readers(r, v, user);
    else if (user->op == OP_DOT && !r->dot)
      r->dot = user;
    else if (val(user)->group != val(v)->group && !r->elsewhere)
      r->elsewhere = user;
    else if (val(user)->group == val(v)->group && user->op != OP_DOT &&
             (!r->later || val(user)->position > val(r->later)->position))
      r->later = user;
  }
}

const char *why_kept(Gen *g, const Instr *v) {
  if (val(v)->snapshot && v->op == OP_LOAD)
    return text(g, "%s may change before the last use of this", v->ref->name);
  Readers r = {0};
  find_readers(&r, v, v);
  if (r.elsewhere)
    return text(g, "another loop reads it, for line %d", line_of(g, r.elsewhere->span));
  if (r.dot) return text(g, "operand of the dot in line %d", line_of(g, r.dot->span));
  if (v->op == OP_DOT && r.later)
    return text(g, "a dot leaves its sums in memory, line %d reads them",
                line_of(g, r.later->span));
  if (r.later) return text(g, "read again in line %d", line_of(g, r.later->span));
  return "";
}

static const char *kept_text(Gen *g, const Instr *v) {
  const Val *info = val(v);
  if (info->recompute) return " (computed again where it is used: cheaper than keeping it)";
  if (!info->buffer || v->op == OP_STORE) return "";
  const char *why = why_kept(g, v);
  return text(g, " (kept in %s%s%s)", info->buffer->name, *why ? ": " : "", why);
}

// ---- lines

typedef struct {
  Gen *g;
  Buf *out;
  bool details;  // also the iterations of column loops, and facts about values
} Printer;

static void put(Printer *p, int depth, const char *format, ...) PRINTF_LIKE(3, 4);
static void put(Printer *p, int depth, const char *format, ...) {
  buf_printf(p->out, "%*s", depth * 2, "");
  va_list args;
  va_start(args, format);
  buf_vprintf(p->out, format, args);
  va_end(args);
  buf_putc(p->out, '\n');
}

// Instructions of one source line are printed on one line.
static void put_members(Printer *p, int depth, Instr *const *members, int count) {
  for (int i = 0, line = 0; i < count; i++) {
    int at = line_of(p->g, members[i]->span);
    if (at != line)
      buf_printf(p->out, "%s%*sline %d: ", i ? "\n" : "", depth * 2, "", at);
    else
      buf_puts(p->out, ", ");
    buf_printf(p->out, "%s%s%s%s", instr_text(p->g, members[i]),
               p->details && val(members[i])->never_overflows ? " of at most 0" : "",
               p->details && val(members[i])->narrowed_by_stores ? " narrowed as it is stored" : "",
               kept_text(p->g, members[i]));
    line = at;
  }
  if (count) buf_putc(p->out, '\n');
}

static void put_scalars(Printer *p, int depth, const Group *group, int after) {
  LIST(Instr *) here = {0};
  for (int i = 0; i < group->scalars.count; i++)
    if (val(group->scalars.at[i])->after == after)
      LIST_PUSH(p->g->arena, &here, group->scalars.at[i]);
  if (!here.count) return;
  put(p, depth, "once a row:");
  put_members(p, depth + 1, here.at, here.count);
}

// Operands that are packed before the loop.
static const char *packed_text(Gen *g, const Step *step) {
  const Instr *dot = step->product.dot;
  const Buffer *left = val(dot)->dot.left, *panels = val(dot)->dot.panels;
  const char *first = left ? text(g, ", left packed to %s", left->name) : "";
  if (step->product.in_place) return text(g, "%s, right in place", first);
  if (!panels) return first;
  return text(g, "%s, right %spacked to %s", first,
              step->product.right ? text(g, "computed %d rows at a time for few rows, else ",
                                         step->product.right->feeds.rows)
                                  : "",
              panels->name);
}

// A dot as -dl prints it: its columns, operands, and the place of its result.
static void put_dot(Printer *p, int depth, const Step *step) {
  Gen *g = p->g;
  const char *columns = demand_plain(g, step->demand, step->columns), *where;
  if (step->product.into)
    where = text(g, step->product.set ? ", to %s%s%s" : ", added to %s in place%s%s",
                 step->product.into->ref->name, step->product.result ? ", at last to " : "",
                 step->product.result ? step->product.result->ref->name : "");
  else
    where = kept_text(g, step->product.dot);
  put(p, depth, p->details ? "dot to %s columns, along %s%s:" : "dot to %s columns:", columns,
      demand_plain(g, step->product.along, dot_depth(step->product.dot)),
      val(step->product.dot)->dot.tail_columns ? "; tail columns on their own" : "");
  const char *onto = step->product.parts.count
                         ? text(g, ", %d products along %lld as one", step->product.parts.count,
                                (long long)step->product.depth)
                     : step->product.onto ? text(g, ", added to %%%d", step->product.onto->id)
                                          : "";
  put(p, depth + 1, "line %d: %s%s%s%s%s", line_of(g, step->product.dot->span),
      instr_text(g, step->product.dot), onto, where, packed_text(g, step),
      step->product.fresh ? text(g, ", from zero where %%%d holds", step->product.fresh->id) : "");
}

static const char *names_text(Gen *g, Instr *const *accesses, int count) {
  const char *all = "";
  for (int i = 0; i < count; i++)
    all = text(g, "%s%s%s", all, i ? ", " : "", accesses[i]->ref->name);
  return all;
}

static const char *packed_columns_text(Gen *g, const ColumnLoop *loop) {
  if (!loop->packed && !loop->together) return "";
  return text(g, ", first %d at a time%s%s", first_lanes(g, loop),
              loop->packed ? text(g, " in vectors packed in %d bits", loop->packed) : "",
              loop->together ? " whose words are joined from rows of their parts" : "");
}

// The iterations of a column loop, as "; .." after its columns.
static const char *iterations_text(Gen *g, const ColumnLoop *loop) {
  const char *s = loop->whole ? text(g, "; %d per iteration", loop->vectors * g->lanes) : "";
  if (loop->part) s = text(g, "%s; sums of %" PRId64, s, loop->part);
  if (loop->rest)
    s = text(g, "%s; %s", s, loop->partial ? "the last vector partial" : "rest by vectors");
  if (loop->streamed.count)
    s = text(g, "%s; %s by non-temporal stores%s", s,
             names_text(g, loop->streamed.at, loop->streamed.count),
             loop->aligned ? ", aligned" : "");
  if (loop->unmasked) s = text(g, "%s; without %%%d before its end", s, loop->unmasked->mask->id);
  if (loop->ahead.count)
    s = text(g, "%s; next row of %s ahead", s,
             names_text(g, (Instr *const *)loop->ahead.at, loop->ahead.count));
  return s;
}

// The form of the loops that compute a dot's right operand.
static const char *producer_text(Gen *g, const Group *producer) {
  if (!producer->feeds.dots) return "";
  const char *ahead = producer->feeds.ahead.count
                          ? text(g, "; next rows of %s ahead",
                                 names_text(g, (Instr *const *)producer->feeds.ahead.at,
                                            producer->feeds.ahead.count))
                          : "";
  const char *registers = producer->feeds.in_registers ? text(g, ", of up to %d rows in registers",
                                                              producer->feeds.in_registers)
                                                       : "";
  return text(g, "; for a dot of few rows %d at a time%s%s", producer->feeds.rows, registers,
              ahead);
}

// Prints a group of rows for -dl.
static void put_rows(Printer *p, int depth, const Group *group) {
  Gen *g = p->g;
  const char *to = "";
  for (int i = 0; i < group->leads; i++)
    to = text(g, "%s%s %s", to, i ? " x" : " to",
              demand_plain(g, group->lead_demand[i], group->lead[i]));
  const char *or_more = p->details && group->strips.buffer_rows > group->strips.rows
                            ? text(g, " or %d", group->strips.buffer_rows)
                            : "";
  const char *strips =
      group->strips.rows ? text(g, " in strips of %d%s", group->strips.rows, or_more) : "";
  const char *jammed = p->details && group->jammed ? text(g, ", %d together", group->jammed) : "";
  put(p, depth, "rows%s%s%s%s:", *to ? to : ": one", strips, jammed,
      p->details ? producer_text(g, group) : "");
  put_scalars(p, depth + 1, group, -1);
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (is_dot(step)) {
      put_dot(p, depth + 1, step);
    } else if (step->members.count) {
      put(p, depth + 1, "columns to %s%s%s:", demand_plain(g, step->demand, step->columns),
          packed_columns_text(g, &step->loop), p->details ? iterations_text(g, &step->loop) : "");
      put_members(p, depth + 2, step->members.at, step->members.count);
    }
    put_scalars(p, depth + 1, group, s);
  }
}

static void put_region(Printer *p, int depth, const Schedule *s);

// Fetches and write-backs are printed elsewhere: with the regions that fetch, and with the outputs.
static void put_control(Printer *p, int depth, const Group *group) {
  const Instr *v = group->instr;
  if (v->op == OP_FETCH || v->op == OP_WRITEBACK || v->op == OP_YIELD) return;
  put(p, depth, "%s of line %d%s", op_info[v->op].name, line_of(p->g, v->span),
      v->regions[0] ? ":" : "");
  for (int r = 0; r < 2; r++) {
    if (!group->inner[r]) continue;
    if (r && v->op == OP_IF) put(p, depth, "else:");
    if (r && v->op == OP_WHILE) put(p, depth, "do:");
    put_region(p, depth + 1, group->inner[r]);
  }
}

static const char *const method_text[METHOD_COUNT] = {
    [METHOD_ELEMENTS] = "element by element",
    [METHOD_MOVE] = "elements moved one by one",
    [METHOD_ROWS] = "rows moved, or square blocks through registers",
    [METHOD_STRIDED] = "elements moved with a stride: no neighbours stay together",
    [METHOD_TRANSPOSE] = "square blocks through registers",
    [METHOD_CONCATENATE] = "one part after the other",
    [METHOD_DONE] = "its parts are computed where they belong",
    [METHOD_PAD] = "element by element, padded",
    [METHOD_REDUCE] = "a reduction for each element",
    [METHOD_REDUCE_ROWS] = "rows reduced to one, by vectors of columns",
    [METHOD_REDUCE_STRIPS] = "rows reduced to one, 8 rows of a strip of columns at a time",
    [METHOD_ARG_REDUCE] = "a search for each element",
    [METHOD_ARG_ROWS] = "rows searched in order, by vectors of columns",
    [METHOD_ARG_LINES] = "lines searched by vectors",
    [METHOD_SCAN] = "running along an axis",
    [METHOD_SCAN_ROWS] = "running from row to row, by vectors of columns",
    [METHOD_SCAN_LINES] = "running along several lines at once, square blocks through registers",
    [METHOD_SORT] = "sorted along an axis, with the places of elements",
    [METHOD_SORT_LINES] = "sorted by networks, several short lines at once",
    [METHOD_CONTRACT] = "a sum of products for each element",
    [METHOD_PRODUCTS] = "a product of matrices for each leading index",
    [METHOD_WIDE_PRODUCTS] = "a product of matrices of 64-bit elements for each leading index",
    [METHOD_BYTE_PRODUCTS] = "a product of matrices of bytes for each leading index",
};

static const char *fields_text(Gen *g, const Instr *v) {
  const Fields *f = val(v)->dot.fields;
  return f ? text(g, ", %d fields of %d bits in each byte of the right one", f->fields, f->bits)
           : "";
}

static void put_group(Printer *p, int depth, const Group *group) {
  switch (group->kind) {
    case GROUP_ROWS:
      put_rows(p, depth, group);
      break;
    case GROUP_CONTROL:
      put_control(p, depth, group);
      break;
    case GROUP_GENERIC:
      put(p, depth, "%s%s:", method_text[group->method], fields_text(p->g, group->instr));
      put_members(p, depth + 1, &group->instr, 1);
      break;
    case GROUP_SCALAR:
      put_members(p, depth, &group->instr, 1);
      break;
  }
}

static void put_region(Printer *p, int depth, const Schedule *s) {
  for (int i = 0; i < s->fetches.count; i++)
    put(p, depth, "fetch %s: %s", s->fetches.at[i]->ref->name, form_text(s->fetches.at[i]->form));
  for (int i = 0; i < s->groups.count; i++) put_group(p, depth, s->groups.at[i]);
}

void print_regions(Gen *g, Buf *out) { put_region(&(Printer){g, out, false}, 1, g->body); }

// ---- the objects that regions use: grid, refs, buffers, bounds

static void put_grid(Printer *p) {
  const Kernel *k = p->g->k;
  for (int i = 0; i < k->grid.count; i++) {
    const Batch *batch = p->g->batch && p->g->batch->axis == i ? p->g->batch : NULL;
    const Split *split = p->g->split && p->g->split->axis == i ? p->g->split : NULL;
    put(p, 1, "axis %s%s%s%s", p->g->c_name.axis[i], k->grid.at[i].parallel ? " parallel" : "",
        !batch           ? ""
        : batch->columns ? text(p->g, ", cells side by side to %s columns", batch->inside->name)
                         : text(p->g, ", cells stacked to %s rows", batch->inside->name),
        split ? text(p->g, ", cells in parts of %s", split->inside->name) : "");
  }
}

static const char *strides_text(Gen *g, const Expr *const *strides, int rank) {
  const char *all = "";
  for (int i = 0; i < rank; i++)
    all = text(g, "%s%s%s", all, i ? ", " : "", expr_plain(strides[i]));
  return all;
}

// The part of each axis that is read or written.
static const char *extents_text(Gen *g, const RefGen *r) {
  const char *all = "";
  for (int i = 0; i < r->ref->type.rank; i++)
    all = text(g, "%s%s%s", all, i ? ", " : "", demand_plain(g, r->demand[i], r->ref->type.dim[i]));
  return all;
}

static void put_ref(Printer *p, const RefGen *r) {
  static const char *const roles[] = {
      [REF_INPUT] = "input", [REF_OUTPUT] = "output", [REF_SCRATCH] = "scratch", [REF_VAR] = "var"};
  Gen *g = p->g;
  bool strided = r->form != FORM_PANELS && r->ref->space != SPACE_ANY && r->ref->type.rank;
  put(p, 1, "%s %s %s[%s]: %s%s%s%s%s%s", roles[r->ref->role], r->ref->name,
      dtype_info[r->element].name, extents_text(g, r),
      ref_is_operand(r->ref) ? form_text(r->form) : "kept", r->transposed ? ", transposed" : "",
      r->buffer    ? text(g, " in %s", r->buffer->name)
      : r->streams ? ", by non-temporal stores when large"
                   : "",
      strided ? text(g, ", strides %s", strides_text(g, r->stride, r->ref->type.rank)) : "",
      r->in_place.dot_rows
          ? text(g, ", in place for few of %s rows", expr_plain(r->in_place.dot_rows))
          : "",
      r->in_place.filled_by ? text(g, ", filled by %%%d", r->in_place.filled_by->id) : "");
}

static void put_buffer(Printer *p, const Buffer *b) {
  put(p, 1, "buffer %s %s, %s bytes%s: %s", b->name, dtype_info[b->element].name,
      expr_plain(b->bytes),
      b->copies   ? text(p->g, " times %s", expr_plain(b->copies->definition))
      : b->inside ? text(p->g, " from %s on", expr_plain(b->offset))
                  : "",
      b->purpose);
}

static void put_bound(Printer *p, const StripBound *b) {
  put(p, 1, "bound %s of a strip, to %s, by %%%d%s", b->end->name,
      demand_plain(p->g, b->base, b->columns), b->mask->id,
      b->shared ? ", that of the last row for all" : "");
}

void print_loops(Gen *g, Buf *out) {
  Printer p = {g, out, true};
  buf_printf(out, "loops of %s: vectors of %d lanes, panels of %d columns\n", g->k->name, g->lanes,
             g->panel);
  put_grid(&p);
  for (int i = 0; i < g->k->refs.count; i++) put_ref(&p, &g->refs[i]);
  for (int i = 0; i < g->buffers.count; i++) put_buffer(&p, g->buffers.at[i]);
  for (int i = 0; i < g->bounds.count; i++) put_bound(&p, g->bounds.at[i]);
  put(&p, 1, "step:");
  put_region(&p, 2, g->body);
}
