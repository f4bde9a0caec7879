/* The tensors of a GPT-2 by their published names: wte.weight, h.0.attn.c_attn.weight, .. */
#include "model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of parameters, and of the optimiser's two means. */
static const char *const endings[PARTS] = {"", ".m", ".v"};

/* Which parameter a tensor is, or which part of it for one layer. */
static const struct {
  const char *name;
  int parameter, half; /* half: 0 scales, 1 shifts; -1: all of it */
} places[] = {{"wte.weight", WTE, -1},
              {"wpe.weight", WPE, -1},
              {"ln_f.weight", LNF, 0},
              {"ln_f.bias", LNF, 1},
              {"h.ln_1.weight", LN1, 0},
              {"h.ln_1.bias", LN1, 1},
              {"h.attn.c_attn.weight", WQKV, -1},
              {"h.attn.c_attn.bias", BQKV, -1},
              {"h.attn.c_proj.weight", WO, -1},
              {"h.attn.c_proj.bias", BO, -1},
              {"h.ln_2.weight", LN2, 0},
              {"h.ln_2.bias", LN2, 1},
              {"h.mlp.c_fc.weight", WUP, -1},
              {"h.mlp.c_fc.bias", BUP, -1},
              {"h.mlp.c_proj.weight", WDOWN, -1},
              {"h.mlp.c_proj.bias", BDOWN, -1}};
enum { PLACES = sizeof places / sizeof *places };

/* A tensor of the layout: its name, its shape, and where its elements are. */
typedef struct {
  int part, place, axes;
  int64_t layer, shape[MOST_AXES], start, count;
} Slot;

/* Masks that some files hold; the head, which is the table of tokens. */
static const char *const others[] = {"h.attn.bias", "h.attn.masked_bias", "lm_head.weight"};

/* A tensor's name without `transformer.`, the number of its layer, which is -1 where it has none,
 * and its ending, which is `part`. */
typedef struct {
  char rest[TENSOR_NAME];
  int64_t layer;
  int part;
} Name;

static Name split_name(const char *name) {
  static const char prefix[] = "transformer.";
  Name to = {.layer = -1};
  if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
  const size_t digits = strncmp(name, "h.", 2) == 0 ? strspn(name + 2, "0123456789") : 0;
  if (digits == 0 || digits > 6 || name[2 + digits] != '.') {
    strcpy(to.rest, name);
  } else {
    to.layer = 0;
    for (size_t i = 0; i < digits; i++) to.layer = to.layer * 10 + (name[2 + i] - '0');
    to.rest[0] = 'h';
    strcpy(to.rest + 1, name + 2 + digits);
  }
  const size_t length = strlen(to.rest);
  for (int part = 1; part < PARTS; part++)
    if (length > 2 && strcmp(to.rest + length - 2, endings[part]) == 0) {
      to.part = part;
      to.rest[length - 2] = 0;
    }
  return to;
}

static bool in_layers(int place) { return places[place].name[1] == '.'; }

static int find_place(const char *rest) {
  for (int i = 0; i < PLACES; i++)
    if (strcmp(places[i].name, rest) == 0) return i;
  return -1;
}

static bool is_other(const char *rest) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(others[i], rest) == 0) return true;
  return false;
}

/* A parameter that is not of a layer. */
static const Stored *find(const Tensors *tensors, const char *wanted) {
  for (int i = 0; i < tensors->count; i++) {
    const Name name = split_name(tensors->at[i].name);
    if (name.layer < 0 && name.part == 0 && strcmp(name.rest, wanted) == 0) return &tensors->at[i];
  }
  return NULL;
}

static bool table_sizes(const Tensors *tensors, const char *name, int64_t *rows, int64_t *columns) {
  const Stored *stored = find(tensors, name);
  if (!stored) return wrong(tensors->path, "has no tensor %s", name);
  if (stored->axes != 2 || stored->shape[0] < 1 || stored->shape[1] < 1 ||
      stored->shape[0] > MOST_TOKENS || stored->shape[1] > MOST_FEATURES)
    return wrong(tensors->path, "the tensor %s is not a table", stored->name);
  *rows = stored->shape[0];
  *columns = stored->shape[1];
  return true;
}

/* A head of its own would be another model. */
static bool check_head(const Tensors *tensors) {
  const Stored *head = find(tensors, "lm_head.weight"), *table = find(tensors, "wte.weight");
  return !head ||
         (head->bytes == table->bytes &&
          memcmp(head->data, table->data, (size_t)head->bytes) == 0) ||
         wrong(tensors->path, "the tensor %s is not the same as %s", head->name, table->name);
}

bool published_sizes(const Tensors *tensors, Sizes *sizes) {
  int64_t C;
  *sizes = (Sizes){0};
  if (!table_sizes(tensors, "wte.weight", &sizes->tokens, &sizes->features) ||
      !table_sizes(tensors, "wpe.weight", &sizes->positions, &C) || !check_head(tensors))
    return false;
  for (int i = 0; i < tensors->count; i++) {
    const Name name = split_name(tensors->at[i].name);
    const int place = find_place(name.rest);
    if (place < 0 ? !is_other(name.rest)
                  : in_layers(place) != (name.layer >= 0) ||
                        (name.part > 0 && !checkpoint_is_own(tensors)))
      return wrong(tensors->path, "the tensor %s is not one of a GPT-2", tensors->at[i].name);
    if (name.layer >= sizes->layers) sizes->layers = name.layer + 1;
  }
  if (sizes->layers == 0) return wrong(tensors->path, "has no layers");
  if (sizes->layers > MOST_LAYERS || sizes->layers > tensors->count)
    return wrong(tensors->path, "has layer %" PRId64 ", but not all before it", sizes->layers - 1);
  return true;
}

/* Calls `visit` for each tensor of the layout, in the order of a file, until it returns false. */
static bool each_slot(const Layout *layout, int parts, bool (*visit)(void *, const Slot *),
                      void *to) {
  for (int part = 0; part < parts; part++)
    for (int i = 0; i < PLACES; i++) {
      const int parameter = places[i].parameter, half = places[i].half;
      const int skip = in_layers(i) + (half >= 0);
      Slot slot = {.part = part, .place = i, .axes = parameter_axes[parameter] - skip, .count = 1};
      memcpy(slot.shape, layout->shape[parameter] + skip, (size_t)slot.axes * sizeof *slot.shape);
      for (int axis = 0; axis < slot.axes; axis++) slot.count *= slot.shape[axis];
      for (slot.layer = 0; slot.layer < (in_layers(i) ? layout->sizes.layers : 1); slot.layer++) {
        const int64_t piece = half >= 0 ? 2 * slot.layer + half : slot.layer;
        slot.start = layout->start[parameter] + piece * slot.count;
        if (!visit(to, &slot)) return false;
      }
    }
  return true;
}

/* ---- reading */

typedef struct {
  const Tensors *tensors;
  const Stored **found; /* [PARTS][PLACES][layers] */
  int64_t layers;
  float *const *to; /* NULL: checks */
} Reading;

static const Stored **found_at(const Reading *r, int part, int place, int64_t layer) {
  return &r->found[(part * PLACES + place) * r->layers + layer];
}

/* False, with a message, where a tensor is there twice. */
static bool reading_open(Reading *r) {
  r->found = calloc((size_t)(PARTS * PLACES * r->layers), sizeof *r->found);
  if (!r->found) return wrong(r->tensors->path, "no memory");
  for (int i = 0; i < r->tensors->count; i++) {
    const Stored *stored = &r->tensors->at[i];
    const Name name = split_name(stored->name);
    const int place = find_place(name.rest);
    if (place < 0) continue;
    const Stored **to = found_at(r, name.part, place, name.layer < 0 ? 0 : name.layer);
    if (*to) return wrong(r->tensors->path, "the tensor %s is there twice", stored->name);
    *to = stored;
  }
  return true;
}

static bool read_slot(void *reading, const Slot *slot) {
  const Reading *r = reading;
  const Stored *stored = *found_at(r, slot->part, slot->place, slot->layer);
  const char *name = places[slot->place].name, *ending = endings[slot->part];
  if (!stored && in_layers(slot->place))
    return wrong(r->tensors->path, "layer %" PRId64 " has no tensor %s%s", slot->layer, name + 2,
                 ending);
  if (!stored) return wrong(r->tensors->path, "has no tensor %s%s", name, ending);
  if (!r->to) return stored_check(r->tensors, stored, slot->axes, slot->shape);
  stored_read(stored, r->to[slot->part] + slot->start);
  return true;
}

bool published_read(const Tensors *tensors, const Layout *layout, float *const *to, int parts) {
  Reading r = {tensors, NULL, layout->sizes.layers, to};
  const bool good = reading_open(&r) && each_slot(layout, parts, read_slot, &r);
  free(r.found);
  return good;
}

/* ---- writing */

typedef struct {
  FILE *file;
  int64_t at;
  const float *const *from;
} Written;

static bool write_entry(void *written, const Slot *slot) {
  Written *w = written;
  const char *name = places[slot->place].name;
  const int64_t end = w->at + slot->count * (int64_t)sizeof(float);
  if (in_layers(slot->place))
    fprintf(w->file, ",\"h.%" PRId64 "%s", slot->layer, name + 1);
  else
    fprintf(w->file, ",\"%s", name);
  fprintf(w->file, "%s\":{\"dtype\":\"F32\",\"shape\":[", endings[slot->part]);
  for (int axis = 0; axis < slot->axes; axis++)
    fprintf(w->file, "%s%" PRId64, axis ? "," : "", slot->shape[axis]);
  fprintf(w->file, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", w->at, end);
  w->at = end;
  return true;
}

static bool write_elements(void *written, const Slot *slot) {
  const Written *w = written;
  const size_t count = (size_t)slot->count;
  return fwrite(w->from[slot->part] + slot->start, sizeof(float), count, w->file) == count;
}

void published_entries(FILE *file, const Layout *layout, int parts) {
  each_slot(layout, parts, write_entry, &(Written){.file = file});
}

bool published_elements(FILE *file, const Layout *layout, const float *const *from, int parts) {
  return each_slot(layout, parts, write_elements, &(Written){.file = file, .from = from});
}
