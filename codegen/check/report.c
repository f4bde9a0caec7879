// Findings of the interpreter: one for each position and kind, with a count.
#include "codegen/check/mesh.h"

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
  if (!source || !source->text || (span.start == 0 && span.end == 0) || span.start > source->length)
    return;
  uint32_t start = span.start, end = span.start;
  while (start > 0 && source->text[start - 1] != '\n') start--;
  while (end < source->length && source->text[end] != '\n') end++;
  if (end - start > WIDEST_LINE && span.start - start > WIDEST_LINE / 2)
    start = span.start - WIDEST_LINE / 2;
  if (end - start > WIDEST_LINE) end = start + WIDEST_LINE;
  bool blank = true;
  for (uint32_t i = start; i < end; i++) blank &= isspace((unsigned char)source->text[i]) != 0;
  if (blank) return;
  buf_printf(out, "\n  %.*s\n  ", (int)(end - start), source->text + start);
  for (uint32_t i = start; i < span.start; i++) buf_putc(out, source->text[i] == '\t' ? '\t' : ' ');
  buf_putc(out, '^');
  for (uint32_t i = span.start + 1; i < span.end && i < end; i++) buf_putc(out, '~');
}

void step_axes(const Interp *in, int64_t step, int64_t *axes) {
  for (int i = in->k->grid.count - 1; i >= 0; i--) {
    const Shuffle *shuffle = &in->shuffles[i];
    int64_t extent = in->extents[i], index = step % extent;
    axes[i] = shuffle->factor == 1 ? index : index * shuffle->factor;
    axes[i] = (axes[i] + shuffle->offset) % extent;
    step /= extent;
  }
}

// "i=0, j=1"; NULL if there is no grid.
static const char *step_text(const Interp *in, int64_t step) {
  Buf out = {0};
  if (!in->in_grid || in->k->grid.count == 0 || step < 0) return NULL;
  int64_t *axes = NEW_ARRAY(in->report->arena, int64_t, in->k->grid.count);
  step_axes(in, step, axes);
  for (int i = 0; i < in->k->grid.count; i++)
    buf_printf(&out, "%s%s=%lld", i ? ", " : "", in->k->grid.at[i].name, (long long)axes[i]);
  return arena_take(in->report->arena, &out);
}

// The first ref whose name is in backquotes.
static const char *first_ref(const Interp *in, const char *message) {
  for (const char *at = strchr(message, '`'); at; at = strchr(at, '`')) {
    size_t length = strcspn(++at, "`[");
    for (int i = 0; i < in->k->refs.count; i++) {
      const char *name = in->k->refs.at[i]->name;
      if (strlen(name) == length && memcmp(name, at, length) == 0) return name;
    }
    at += strcspn(at, "`");
    at += *at == '`';
  }
  return NULL;
}

const char *device_text(const Interp *in, int device) {
  const Kernel *k = in->k;
  int64_t index[MOST_MESH_AXES];
  Buf text = {0};
  for (int i = k->mesh.count - 1; i >= 0; i--) {
    index[i] = device % k->mesh.at[i].extent;
    device /= (int)k->mesh.at[i].extent;
  }
  for (int i = 0; i < k->mesh.count; i++)
    buf_printf(&text, "%s%s=%lld", i ? ", " : "", k->mesh.at[i].name, (long long)index[i]);
  return arena_take(in->report->arena, &text);
}

// The devices of a mesh share one list of findings.
static Interp *finder(Interp *in) { return in->mesh ? &in->mesh->devices[0].in : in; }

static const char *finder_device(const Interp *in) {
  return in->mesh ? device_text(in, in->device) : NULL;
}

bool find_again(Interp *in, const void *where, const void *other, FindingKind kind) {
  Interp *all = finder(in);
  for (int i = 0; i < all->findings.count && !is_beyond(in); i++) {
    Finding *old = &all->findings.at[i];
    if (old->where != where || old->other != other || old->kind != kind) continue;
    old->report.count++;
    return true;
  }
  return false;
}

static bool add_finding(Interp *in, const void *where, const void *other, FindingKind kind,
                        Span span, const char *format, va_list args) {
  static const char *const kinds[] = {
#define FIND(id, name, meaning) name,
#include "codegen/check/findings.def"
#undef FIND
  };
  Interp *all = finder(in);
  if (is_beyond(in) || find_again(in, where, other, kind)) return false;
  Finding finding = {where, other, kind, {.kind = kinds[kind], .span = span, .count = 1}};
  bool shown = all->findings.count < CHECK_MAX_FINDINGS;
  if (shown) {
    finding.report.message = arena_vprintf(in->report->arena, format, args);
    finding.report.operand = first_ref(in, finding.report.message);
    finding.report.step = step_text(in, in->step);
    finding.report.device = finder_device(in);
  }
  LIST_PUSH(in->report->arena, &all->findings, finding);
  return shown;
}

bool find(Interp *in, const void *where, FindingKind kind, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  bool first = add_finding(in, where, NULL, kind, span, format, args);
  va_end(args);
  return first;
}

bool find_pair(Interp *in, const void *where, const void *other, FindingKind kind, Span span,
               const char *format, ...) {
  va_list args;
  va_start(args, format);
  bool first = add_finding(in, where, other, kind, span, format, args);
  va_end(args);
  return first;
}

void find_note(Interp *in, Span span, int64_t step, const char *format, ...) {
  va_list args;
  if (is_beyond(in)) return;
  va_start(args, format);
  Interp *all = finder(in);
  FindingNote note = {span, arena_vprintf(in->report->arena, format, args), step_text(in, step),
                      span.end ? finder_device(in) : NULL};
  va_end(args);
  LIST_PUSH(in->report->arena, &all->findings.at[all->findings.count - 1].report.notes, note);
}

static void put_message(const Source *source, Span span, const char *severity, const char *message,
                        const char *device, const char *step, Buf *out) {
  put_place(source, span, out);
  buf_printf(out, "%s%s", severity, message);
  put_source_line(source, span, out);
  if (device || step) buf_puts(out, "\n  at ");
  if (device) buf_printf(out, "device (%s)%s", device, step ? ", " : "");
  if (step) buf_printf(out, "grid step (%s)", step);
}

const char *finding_text(Arena *arena, const Source *source, const CheckFinding *f) {
  Buf out = {0};
  put_message(source, f->span, "", f->message, f->device, f->step, &out);
  if (f->count > 1) buf_printf(&out, "\n  (%lld times in all)", (long long)f->count);
  for (int i = 0; i < f->notes.count; i++) {
    const FindingNote *note = &f->notes.at[i];
    buf_putc(&out, '\n');
    put_message(source, note->span, "note: ", note->message, note->device, note->step, &out);
  }
  return arena_take(arena, &out);
}

void finish_report(Interp *in) {
  CheckReport *report = in->report;
  Interp *all = finder(in);
  for (int i = 0; i < all->findings.count; i++) {
    CheckFinding *finding = &all->findings.at[i].report;
    if (!finding->message || report->findings.count >= CHECK_MAX_FINDINGS) {
      report->more++;
      continue;
    }
    finding->text = finding_text(report->arena, in->k->source, finding);
    LIST_PUSH(report->arena, &report->findings, *finding);
  }
}

void stop_for_memory(Interp *in, int64_t bytes) {
  in->stopped = true;
  if (bytes == INT64_MAX)
    find(in, in->k, FIND_MEMORY, in->k->span, "`%s` needs more memory than a process can address",
         in->k->name);
  else
    find(in, in->k, FIND_MEMORY, in->k->span,
         "`%s` needs too much memory to be interpreted: another %lld bytes", in->k->name,
         (long long)bytes);
}

const char *poison_cause(Interp *in, uint8_t mark) {
  if (mark == POISON_UNWRITTEN) return "no call of the program has written it";
  if (mark == POISON_MASKED) return "it was masked off in a load without `other`";
  if (mark == 0 || mark > POISON_REFS || mark > in->k->refs.count)
    return "it is the result of an operation out of range, or of a store that was not executed";
  const Ref *ref = in->k->refs.at[mark - 1];
  static const char *const causes[] = {"it was read past the end of `%s`, which has no `pad`",
                                       "it was read from output block `%s` before it was stored",
                                       "it was read from scratch `%s` before it was written",
                                       "it was read from `%s` before it was set"};
  Buf text = {0};
  const char *cause = causes[ref->role], *hole = strstr(cause, "%s");
  buf_add(&text, cause, (size_t)(hole - cause));
  buf_puts(&text, ref->name);
  buf_puts(&text, hole + 2);
  return arena_take(in->words, &text);
}

void format_indices(Buf *out, const int64_t *index, int count) {
  for (int i = 0; i < count; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)index[i]);
}

// ---- values, for print

static void put_element(Buf *out, const Value *v, int64_t e) {
  char text[40];
  if (poison_at(v, e)) return buf_putc(out, '?');
  if (v->dtype == DT_BOOL) return buf_puts(out, v->i[e] ? "true" : "false");
  if (v->dtype == DT_U64) return buf_printf(out, "%llu", (unsigned long long)v->i[e]);
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
  return arena_take(in->report->arena, &out);
}

const char *semaphore_text(Interp *in, const Ref *ref, int64_t element) {
  Buf text = {0};
  int64_t index[MAX_RANK];
  for (int i = ref->type.rank - 1; i >= 0; i--) {
    index[i] = element % ref->type.dim[i];
    element /= ref->type.dim[i];
  }
  buf_puts(&text, ref->name);
  if (ref->type.rank)
    buf_putc(&text, '['), format_indices(&text, index, ref->type.rank), buf_putc(&text, ']');
  return arena_take(in->words, &text);
}
