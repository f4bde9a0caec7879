// Laps of a profiling build: the piece of the kernel that a thread executes.
#include "codegen/emit/internal.h"

enum { MOST_PLACES = 511 };  // of <pk/profile.h>; further places are counted as the last one

// Names are interned.
static int place_number(CWriter *w, const ProfilePlace *place) {
  ProfilePlaces *places = w->g->options->profile;
  for (int i = 0; i < places->count; i++) {
    const ProfilePlace *p = &places->at[i];
    if (p->lines == place->lines && p->what == place->what && p->region == place->region &&
        p->kernel == place->kernel)
      return i + 1;
  }
  if (places->count == MOST_PLACES) return MOST_PLACES;
  LIST_PUSH(w->g->arena, places, *place);
  return places->count;
}

static void put_lap(CWriter *w, const char *lines, int first, const char *what) {
  ProfilePlace place = {intern(lines), first, intern(what), w->region, intern(w->g->k->name)};
  line(w, "pk_lap(%d);", place_number(w, &place));
}

void lap(CWriter *w, Instr *const *members, int count, const char *what) {
  Buf lines = {0};
  int first = 0, last = 0;
  if (!w->g->options->profile || count == 0) return;
  for (int i = 0; i < count; i++) {
    int number = line_of(w->g, members[i]->span);
    bool seen = false;
    for (int j = 0; j < i; j++) seen |= line_of(w->g, members[j]->span) == number;
    if (seen) continue;
    buf_printf(&lines, "%s%d", last ? ", " : "", number);
    if (!first) first = number;
    last = number;
  }
  put_lap(w, lines.text, first, what);
  buf_free(&lines);
}

void lap_at(CWriter *w, Span span, const char *what) {
  if (!w->g->options->profile) return;
  int number = line_of(w->g, span);
  put_lap(w, text(w->g, "%d", number), number, what);
}

Span block_span(const Ref *ref) {
  return ref->map_span.end > ref->map_span.start ? ref->map_span : ref->span;
}

void lap_device(CWriter *w) {
  if (w->g->options->profile && w->g->k->mesh.count)
    line(w, "pk_device_laps(worker->device->index);");
}

void lap_outside(CWriter *w) {
  if (w->g->options->profile) line(w, "pk_lap(0);");
}
