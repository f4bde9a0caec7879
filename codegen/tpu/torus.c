// The network of a slice: shapes, links, routes.
#include "codegen/tpu/torus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- shapes

int torus_read_list(const char *text, char separator, int64_t *list, int most) {
  int count = 0;
  for (; text && count < most; count++) {
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || value < 0 || value > MOST_CHIPS || (*end && *end != separator)) return -1;
    list[count] = value;
    if (!*end) return count + 1;
    text = end + 1;
  }
  return -1;
}

static int descending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

// The axes of a slice may correspond to those of the pod in any order.
static const char *check_pod(Arena *arena, const Torus *t) {
  int64_t size[TORUS_AXES], pod[TORUS_AXES];
  for (int i = 0; i < TORUS_AXES; i++) {
    pod[i] = (int64_t)t->chip->value[CHIP_POD_X + i];
    size[i] = i < t->axes ? t->size[i] : 0;
  }
  sort_items(size, TORUS_AXES, sizeof *size, descending);
  sort_items(pod, TORUS_AXES, sizeof *pod, descending);
  for (int i = 0; i < t->axes; i++)
    if (size[i] > pod[i])
      return arena_printf(arena, "a pod of %s has %lld chips along an axis, not %lld",
                          t->chip->name, (long long)pod[i], (long long)size[i]);
  return NULL;
}

// Reads "4x4x8" as the axes of a slice. Returns NULL, or an error message.
static const char *read_shape(Arena *arena, Torus *t) {
  const double *v = t->chip->value;
  t->axes = torus_read_list(t->shape, 'x', t->size, TORUS_AXES);
  if (t->axes < 1)
    return arena_printf(arena, "expected X, XxY or XxYxZ, each from 1 to %d chips", MOST_CHIPS);
  if (!(v[CHIP_TORUS] > 0))
    return arena_printf(arena, "the network of %s is not known", t->chip->name);
  if (t->axes > (int)v[CHIP_TORUS])
    return arena_printf(arena, "the network of %s has %.0f axes", t->chip->name, v[CHIP_TORUS]);
  t->chips = 1;
  bool cubes = t->axes == 3;
  for (int i = 0; i < t->axes; i++) {
    if (t->size[i] < 1) return "an axis has at least one chip";
    t->chips *= t->size[i];
    cubes &= t->size[i] % (int64_t)fmax(v[CHIP_WRAP], 1) == 0;
    t->name[i] = (char)('x' + i);
  }
  const char *wrong = check_pod(arena, t);
  for (int i = 0; i < t->axes && !wrong; i++)
    t->wraps[i] =
        t->size[i] > 1 && (v[CHIP_TORUS] > 2 ? cubes : (double)t->size[i] >= v[CHIP_WRAP]);
  return wrong;
}

// Each axis is named once: "x", "x,z".
static bool pick_axes(Torus *t, const char *over) {
  Torus part = *t;
  part.axes = 0;
  part.chips = 1;
  for (unsigned seen = 0;; over += 2) {
    int axis = *over >= 'x' && *over <= 'z' ? *over - 'x' : TORUS_AXES;
    if (axis >= t->axes || (seen & 1U << axis) || (over[1] && over[1] != ',')) return false;
    seen |= 1U << axis;
    part.size[part.axes] = t->size[axis];
    part.wraps[part.axes] = t->wraps[axis];
    part.name[part.axes++] = t->name[axis];
    part.chips *= t->size[axis];
    if (!over[1]) break;
  }
  *t = part;
  return true;
}

const char *torus_read(Arena *arena, const Chip *chip, const char *mesh, const char *over,
                       int64_t slices, Torus *t) {
  *t = (Torus){.chip = chip, .shape = mesh, .slices = slices > 0 ? slices : 1};
  t->one_way = chip->value[CHIP_ICI_LINK] / 2;
  const char *wrong = read_shape(arena, t);
  if (wrong) return arena_printf(arena, "--mesh %s: %s", mesh, wrong);
  if (over && !pick_axes(t, over))
    return arena_printf(arena, "--over %s: expected different axes of the slice, such as x,y",
                        over);
  if (t->slices > MOST_CHIPS / t->chips)
    return "--slices: the model does not support that many chips";
  return NULL;
}

void torus_put_shape(const Torus *t, Buf *out) {
  for (int i = 0; i < t->axes; i++)
    buf_printf(out, "%s%lld%s", i ? "x" : "", (long long)t->size[i], t->wraps[i] ? " (wraps)" : "");
}

// ---- positions of devices

static int chip_at_place(const Torus *t, int64_t slice, const int64_t *place) {
  int64_t chip = slice;
  for (int i = 0; i < t->axes; i++) chip = chip * t->size[i] + place[i];
  return (int)chip;
}

// Row by row, every second one backwards, so that neighbours in the order are neighbours on the
// torus. The last and the first are neighbours too, if the first axis wraps and is even.
static void snake(const Torus *t, int64_t number, int64_t *place) {
  int64_t below = t->chips;
  for (int i = 0; i < t->axes; i++) {
    bool back = number / below % 2 != 0;
    below /= t->size[i];
    int64_t at = number / below % t->size[i];
    place[i] = back ? t->size[i] - 1 - at : at;
  }
}

// A ring through all chips of two axes, whose first extent is even: the first column leads back.
static void round_trip(const Torus *t, int first, int64_t number, int64_t *place) {
  int second = 1 - first;
  int64_t rows = t->size[first], columns = t->size[second] - 1;
  if (number >= rows * columns) {
    place[first] = rows - 1 - (number - rows * columns);
    place[second] = 0;
    return;
  }
  int64_t row = number / columns, column = number % columns;
  place[first] = row;
  place[second] = 1 + (row % 2 ? columns - 1 - column : column);
}

// Devices of a one-dimensional mesh: a ring of neighbours if there is one.
static void place_ring(const Torus *t, int64_t number, int64_t *place) {
  bool flat = t->axes == 2 && t->size[0] > 1 && t->size[1] > 1;
  if (flat && t->size[0] % 2 == 0 && !t->wraps[0])
    round_trip(t, 0, number, place);
  else if (flat && t->size[1] % 2 == 0 && !t->wraps[0])
    round_trip(t, 1, number, place);
  else
    snake(t, number, place);
}

void torus_place(const Torus *t, const Kernel *k, int *chip) {
  int64_t devices = ir_device_count(k), place[TORUS_AXES];
  bool ring = k->mesh.count == 1;
  REQUIRE(devices == t->chips * t->slices);
  for (int64_t d = 0; d < devices; d++) {
    int64_t rest = d % t->chips;
    if (ring) place_ring(t, rest, place);
    for (int i = t->axes - 1; i >= 0 && !ring; i--) {
      place[i] = rest % t->size[i];
      rest /= t->size[i];
    }
    chip[d] = chip_at_place(t, d / t->chips, place);
  }
}

// ---- links and routes

static int64_t place_along(const Torus *t, int chip, int axis) {
  for (int i = t->axes - 1; i > axis; i--) chip /= (int)t->size[i];
  return chip % t->size[axis];
}

int torus_links(const Torus *t) { return (int)(t->chips * t->slices) * (2 * t->axes + 2); }

static int link_kind(const Torus *t, int link) { return link % (2 * t->axes + 2); }
bool torus_is_dcn(const Torus *t, int link) { return link_kind(t, link) >= 2 * t->axes; }

const char *torus_chip_name(Arena *arena, const Torus *t, int chip) {
  Buf name = {0};
  if (t->slices > 1) buf_printf(&name, "slice %lld ", (long long)(chip / t->chips));
  for (int i = 0; i < t->axes; i++)
    buf_printf(&name, "%s%lld", i ? ", " : "(", (long long)place_along(t, chip, i));
  buf_putc(&name, ')');
  const char *kept = arena_strndup(arena, name.text, name.length);
  buf_free(&name);
  return kept;
}

const char *torus_link_name(Arena *arena, const Torus *t, int link) {
  int kind = link_kind(t, link);
  const char *chip = torus_chip_name(arena, t, link / (2 * t->axes + 2));
  if (kind >= 2 * t->axes) return arena_printf(arena, kind % 2 ? "%s from DCN" : "%s to DCN", chip);
  return arena_printf(arena, "%s %c%c", chip, kind % 2 ? '-' : '+', t->name[kind / 2]);
}

Route torus_route(const Torus *t, int from, int to) {
  Route r = {.from = from, .to = to};
  if (from / t->chips != to / t->chips) {
    r.hops = 1;
    return r;
  }
  for (int i = 0; i < t->axes; i++) {
    int64_t up = place_along(t, to, i) - place_along(t, from, i), size = t->size[i];
    bool wraps = t->wraps[i];
    if (wraps && up < 0) up += size;
    bool down = wraps ? up > size - up : up < 0;
    if (down) r.down |= 1U << i;
    if (wraps && up > 0 && 2 * up == size) r.ties |= 1U << i;
    r.hops += (int)(!down ? up : wraps ? size - up : -up);
  }
  return r;
}

int torus_step(const Torus *t, const Route *route, int at, int *next) {
  int first = at * (2 * t->axes + 2), stride = 1;
  if (at / t->chips != route->to / t->chips) {
    *next = route->to;
    return first + 2 * t->axes;
  }
  int axis = 0;
  while (axis < t->axes - 1 && place_along(t, at, axis) == place_along(t, route->to, axis)) axis++;
  for (int i = t->axes - 1; i > axis; i--) stride *= (int)t->size[i];
  int size = (int)t->size[axis], place = (int)place_along(t, at, axis);
  bool down = route->down >> axis & 1;
  int then = down ? (place + size - 1) % size : (place + 1) % size;
  *next = at + (then - place) * stride;
  return first + 2 * axis + down;
}
