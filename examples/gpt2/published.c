/* Published checkpoints of GPT-2: wte.weight, h.0.attn.c_attn.weight, .. */
#include "model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Masks that some files hold; the head, which is the table of tokens. */
static const char *const others[] = {"h.attn.bias", "h.attn.masked_bias", "lm_head.weight"};

/* A tensor's name without `transformer.` and the number of its layer, which is -1 where it has
 * none. */
static void split_name(const char *name, char *rest, int64_t *layer) {
  static const char prefix[] = "transformer.";
  if (strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
  const size_t digits = strncmp(name, "h.", 2) == 0 ? strspn(name + 2, "0123456789") : 0;
  *layer = -1;
  if (digits == 0 || digits > 6 || name[2 + digits] != '.') {
    strcpy(rest, name);
    return;
  }
  *layer = 0;
  for (size_t i = 0; i < digits; i++) *layer = *layer * 10 + (name[2 + i] - '0');
  rest[0] = 'h';
  strcpy(rest + 1, name + 2 + digits);
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

/* One that is not of a layer. */
static const Stored *find(const Tensors *tensors, const char *wanted) {
  for (int i = 0; i < tensors->count; i++) {
    char rest[TENSOR_NAME];
    int64_t layer;
    split_name(tensors->at[i].name, rest, &layer);
    if (layer < 0 && strcmp(rest, wanted) == 0) return &tensors->at[i];
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
  int64_t C, layer;
  *sizes = (Sizes){0};
  if (!table_sizes(tensors, "wte.weight", &sizes->tokens, &sizes->features) ||
      !table_sizes(tensors, "wpe.weight", &sizes->positions, &C) || !check_head(tensors))
    return false;
  for (int i = 0; i < tensors->count; i++) {
    char rest[TENSOR_NAME];
    split_name(tensors->at[i].name, rest, &layer);
    const int place = find_place(rest);
    if (place < 0 ? !is_other(rest) : in_layers(place) != (layer >= 0))
      return wrong(tensors->path, "the tensor %s is not one of a GPT-2", tensors->at[i].name);
    if (layer >= sizes->layers) sizes->layers = layer + 1;
  }
  if (sizes->layers == 0) return wrong(tensors->path, "has no layers");
  if (sizes->layers > MOST_LAYERS || sizes->layers > tensors->count)
    return wrong(tensors->path, "has layer %" PRId64 ", but not all before it", sizes->layers - 1);
  return true;
}

/* The tensors by place and layer, [PLACES][layers]; NULL, with a message, where one is there
 * twice. */
static const Stored **by_place(const Tensors *tensors, int64_t layers) {
  const Stored **found = calloc((size_t)(PLACES * layers), sizeof *found);
  if (!found) return wrong(tensors->path, "no memory"), NULL;
  for (int i = 0; i < tensors->count; i++) {
    char rest[TENSOR_NAME];
    int64_t layer;
    split_name(tensors->at[i].name, rest, &layer);
    const int place = find_place(rest);
    if (place < 0) continue;
    const Stored **to = &found[place * layers + (layer < 0 ? 0 : layer)];
    if (*to) {
      wrong(tensors->path, "the tensor %s is there twice", tensors->at[i].name);
      free(found);
      return NULL;
    }
    *to = &tensors->at[i];
  }
  return found;
}

/* Checks every tensor, or, with parameters, reads them. */
static bool each_place(const Tensors *tensors, const Layout *layout, const Stored **found,
                       float *parameters) {
  for (int i = 0; i < PLACES; i++) {
    const int parameter = places[i].parameter, half = places[i].half;
    const int skip = in_layers(i) + (half >= 0), axes = parameter_axes[parameter] - skip;
    const int64_t *shape = layout->shape[parameter] + skip;
    int64_t count = 1;
    for (int axis = 0; axis < axes; axis++) count *= shape[axis];
    for (int64_t layer = 0; layer < (in_layers(i) ? layout->sizes.layers : 1); layer++) {
      const Stored *stored = found[i * layout->sizes.layers + layer];
      const int64_t place = half >= 0 ? 2 * layer + half : layer;
      if (!stored && in_layers(i))
        return wrong(tensors->path, "layer %" PRId64 " has no tensor %s", layer,
                     places[i].name + 2);
      if (!stored) return wrong(tensors->path, "has no tensor %s", places[i].name);
      if (!parameters && !stored_check(tensors, stored, axes, shape)) return false;
      if (parameters) stored_read(stored, parameters + layout->start[parameter] + place * count);
    }
  }
  return true;
}

bool published_check(const Tensors *tensors, const Layout *layout) {
  const Stored **found = by_place(tensors, layout->sizes.layers);
  const bool good = found && each_place(tensors, layout, found, NULL);
  free(found);
  return good;
}

void published_read(const Tensors *tensors, const Layout *layout, float *parameters) {
  const Stored **found = by_place(tensors, layout->sizes.layers);
  if (found) each_place(tensors, layout, found, parameters);
  free(found);
}
