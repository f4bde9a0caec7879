// The clocks of a mesh's devices.
#include "codegen/check/mesh.h"

#include <string.h>

static Times *new_times(Mesh *m) {
  Passes *passes = m->passes;
  Times *times = passes->free;
  size_t bytes = sizeof *times + sizeof *times->time * (size_t)m->count;
  if (times)
    passes->free = times->next;
  else
    times = arena_alloc(passes->arena, bytes);
  memset(times, 0, bytes);
  times->users = 1;
  return times;
}

int64_t time_now(Device *d) {
  if (d->sent) d->clock.now++;
  d->sent = false;
  return d->clock.now;
}

Clock share_clock(const Clock *clock) {
  clock->others->users++;
  return *clock;
}

void drop_clock(Mesh *m, Clock *clock) {
  Times *times = clock->others;
  clock->others = NULL;
  if (!times || --times->users) return;
  times->next = m->passes->free;
  m->passes->free = times;
}

int64_t *own_times(Mesh *m, Clock *clock) {
  if (clock->others->users == 1) return clock->others->time;
  Times *copy = new_times(m);
  memcpy(copy->time, clock->others->time, sizeof *copy->time * (size_t)m->count);
  drop_clock(m, clock);
  clock->others = copy;
  return copy->time;
}

bool holds_clock(const Mesh *m, const Clock *clock, const Clock *part) {
  if (clock_time(clock, part->device) < part->now) return false;
  if (clock->others == part->others) return true;
  for (int i = 0; i < m->count; i++)
    if (part->others->time[i] > clock->others->time[i] && i != clock->device) return false;
  return true;
}

void learn_end(Interp *in, Flight *f, bool written) {
  int64_t now = time_now(device_in(in));
  int end = in->device == f->source ? AT_SOURCE : AT_TARGET;
  if (f->read[end] && (f->written[end] || !written)) return;
  in->mesh->learned++;
  if (!f->read[end]) f->read[end] = now;
  if (written) f->written[end] = now;
}

void start_clocks(Mesh *m) {
  Times *nothing = new_times(m);
  for (int i = 0; i < m->count; i++) {
    m->devices[i].clock = (Clock){nothing, i, 1};
    nothing->users++;
  }
}
