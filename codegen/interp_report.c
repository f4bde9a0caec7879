// Findings of the interpreter: one for each place and kind, counted.
#include "codegen/interp_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST_LINE = 160, MOST_PRINTED = 1000 };

static void put_place(const Source *source, Span span, Buf *out) {
  if (!source || !source->path) return;
  if (!source->text || (span.start == 0 && span.end == 0)) {
    buf_printf(out, "%s: ", source->path);
    return;
  }
  int line, column;
  source_position(source, span.start, &line, &column);
  buf_printf(out, "%s:%d:%d: ", source->path, line, column);
}

// The source line with carets under the range.
static void put_source_line(const Source *source, Span span, Buf *out) {
  if (!source || !source->text || (span.start == 0 && span.end == 0) || span.start > source->length) return;
  uint32_t start = span.start, end = span.start;
  while (start > 0 && source->text[start - 1] != '\n') start--;
  while (end < source->length && source->text[end] != '\n') end++;
  if (end - start > WIDEST_LINE && span.start - start > WIDEST_LINE / 2) start = span.start - WIDEST_LINE / 2;
  if (end - start > WIDEST_LINE) end = start + WIDEST_LINE;
  bool blank = true;
  for (uint32_t i = start; i < end; i++) blank &= isspace((unsigned char)source->text[i]) != 0;
  if (blank) return;
  buf_printf(out, "\n  %.*s\n  ", (int)(end - start), source->text + start);
  for (uint32_t i = start; i < span.start; i++) buf_putc(out, source->text[i] == '\t' ? '\t' : ' ');
  buf_putc(out, '^');
  for (uint32_t i = span.start + 1; i < span.end && i < end; i++) buf_putc(out, '~');
}

static void put_step(const Interp *in, Buf *out) {
  if (!in->in_grid || in->k->grid.count == 0) return;
  buf_puts(out, "\n  at grid step (");
  for (int i = 0; i < in->k->grid.count; i++)
    buf_printf(out, "%s%s=%lld", i ? ", " : "", in->k->grid.at[i].name, (long long)in->axes[i]);
  buf_putc(out, ')');
}

void find(Interp *in, const void *where, FindingKind kind, Span span, const char *format, ...) {
  for (int i = 0; i < in->findings.count; i++)
    if (in->findings.at[i].where == where && in->findings.at[i].kind == kind) {
      in->findings.at[i].count++;
      return;
    }
  Finding finding = {where, kind, 1, NULL};
  if (in->findings.count < CHECK_MAX_FINDINGS) {
    Buf text = {0};
    va_list args;
    put_place(in->k->source, span, &text);
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    put_source_line(in->k->source, span, &text);
    put_step(in, &text);
    finding.text = arena_strndup(in->report->arena, text.text, text.length);
    buf_free(&text);
  }
  LIST_PUSH(in->report->arena, &in->findings, finding);
}

void finish_report(Interp *in) {
  CheckReport *report = in->report;
  for (int i = 0; i < in->findings.count; i++) {
    const Finding *finding = &in->findings.at[i];
    if (!finding->text || report->findings.count >= CHECK_MAX_FINDINGS) {
      report->more++;
      continue;
    }
    const char *text = finding->text;
    if (finding->count > 1) text = arena_printf(report->arena, "%s\n  (%lld times in all)", text, (long long)finding->count);
    LIST_PUSH(report->arena, &report->findings, text);
  }
}

void stop_for_memory(Interp *in, int64_t bytes) {
  in->stopped = true;
  if (bytes == INT64_MAX)
    find(in, in->k, FIND_MEMORY, in->k->span, "`%s` needs more memory than there is addresses for", in->k->name);
  else
    find(in, in->k, FIND_MEMORY, in->k->span, "`%s` needs too much memory to be interpreted: another %lld bytes", in->k->name,
         (long long)bytes);
}

const char *poison_cause(Interp *in, uint8_t mark) {
  if (mark == POISON_MASKED) return "it was masked off in a load without `other`";
  if (mark == 0 || mark > POISON_REFS || mark > in->k->refs.count)
    return "it comes from an operation out of range, or from a store never made";
  const Ref *ref = in->k->refs.at[mark - 1];
  static const char *const causes[] = {
      "it was read past the end of `%s`, which has no `pad`", "it was read from output block `%s` before it was stored",
      "it was read from scratch `%s` before it was written", "it was read from `%s` before it was set"};
  Buf text = {0};
  const char *cause = causes[ref->role], *hole = strstr(cause, "%s");
  buf_add(&text, cause, (size_t)(hole - cause));
  buf_puts(&text, ref->name);
  buf_puts(&text, hole + 2);
  const char *copy = arena_strndup(in->report->arena, text.text, text.length);
  buf_free(&text);
  return copy;
}

void format_indices(Buf *out, const int64_t *index, int count) {
  for (int i = 0; i < count; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)index[i]);
}

// ---- values, for print

static void put_element(Buf *out, const Value *v, int64_t e) {
  char text[40];
  if (poison_at(v, e)) return buf_putc(out, '?');
  if (v->dtype == DT_BOOL) return buf_puts(out, v->i[e] ? "true" : "false");
  if (!is_float(v->dtype)) return buf_printf(out, "%lld", (long long)v->i[e]);
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v->f[e]);
    if ((float)strtod(text, NULL) == (float)v->f[e]) break;
  }
  buf_puts(out, text);
}

static void put_axis(Buf *out, const Value *v, int axis, int64_t *next) {
  if (axis == v->rank) {
    if (*next < MOST_PRINTED) put_element(out, v, *next);
    ++*next;
    return;
  }
  buf_putc(out, '[');
  for (int64_t i = 0; i < v->dim[axis]; i++) {
    if (*next >= MOST_PRINTED) {
      buf_puts(out, ", ..");
      break;
    }
    if (i) buf_puts(out, ", ");
    put_axis(out, v, axis + 1, next);
  }
  buf_putc(out, ']');
}

const char *format_value(Interp *in, const Value *v) {
  Buf out = {0};
  int64_t next = 0;
  if (v->count == 0 && v->rank > 0)
    buf_puts(&out, "[]");
  else
    put_axis(&out, v, 0, &next);
  const char *copy = arena_strndup(in->report->arena, out.text, out.length);
  buf_free(&out);
  return copy;
}
