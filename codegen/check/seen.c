// Views that boxes refer to. A copy that runs repeatedly uses the same ones again.
#include "codegen/check/internal.h"

#include <limits.h>
#include <string.h>

Seen *seen_new(Interp *in, SeenPool *pool, const Layout *l, const int64_t *sizes) {
  Seen *s = pool->unused;
  if (s) {
    pool->unused = s->next;
  } else {
    s = NEW(in->arena, Seen);
    s->sizes = NEW_ARRAY(in->arena, int64_t, pool->sizes + 1);
    s->start = NEW_ARRAY(in->arena, int64_t, LAYOUT_PLACES);
  }
  memcpy(s->sizes, sizes, (size_t)pool->sizes * sizeof *s->sizes);
  s->layout = l;
  s->pool = pool;
  s->users = 1;
  s->empty = false;
  return s;
}

void hold_box(const Box *box) {
  if (box->seen) box->seen->users++;
}

void drop_box(const Box *box) {
  Seen *s = box->seen;
  if (!s || --s->users) return;
  s->next = s->pool->unused;
  s->pool->unused = s;
}

void walk_seen(const Seen *s, PartVisitor *visit, void *context) {
  if (!s->empty) layout_walk(s->layout, s->sizes, s->start, visit, context);
}

int64_t bytes_of_parts(const Layout *l, const int64_t *sizes) {
  // Each of the two lists has room for up to twice the parts that it holds.
  const int64_t parts = layout_part_count(l, sizes);
  return parts > INT_MAX / 2 ? INT64_MAX : 4 * parts * (int64_t)sizeof(Part);
}
