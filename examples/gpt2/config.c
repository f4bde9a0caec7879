/* config.json of a published checkpoint: what shapes do not determine. */
#include "config.h"

#include "json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_VALUE = 64, MOST_VALUES = 3 };

/* Members and the values that the kernels are written for; sizes have none here. Others say nothing
 * about what is computed, or tensors tell it. */
typedef enum {
  MODEL,
  ACTIVATION,
  EPSILON,
  SCALE,
  SCALE_BY_LAYER,
  HEADS,
  LAYERS,
  FEATURES,
  POSITIONS,
  TOKENS,
  INNER,
  MEMBERS
} Member;
static const struct {
  const char *name, *values[MOST_VALUES];
} members[MEMBERS] = {
    [MODEL] = {"model_type", {"gpt2"}},
    [ACTIVATION] = {"activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}},
    [EPSILON] = {"layer_norm_epsilon", {"1e-05"}},
    [SCALE] = {"scale_attn_weights", {"true"}},
    [SCALE_BY_LAYER] = {"scale_attn_by_inverse_layer_idx", {"false"}},
    [HEADS] = {"n_head", {0}},
    [LAYERS] = {"n_layer", {0}},
    [FEATURES] = {"n_embd", {0}},
    [POSITIONS] = {"n_positions", {0}},
    [TOKENS] = {"vocab_size", {0}},
    [INNER] = {"n_inner", {0}},
};

/* The texts of members; empty: not there, or null. */
typedef struct {
  char value[MEMBERS][MOST_VALUE];
} Config;

static int find_member(const char *name) {
  int i = 0;
  while (i < MEMBERS && strcmp(members[i].name, name) != 0) i++;
  return i;
}

static bool read_members(Config *config, Json *json) {
  if (!json_open(json, '{')) return false;
  for (bool first = true; json_more(json, '}', &first);) {
    char key[MOST_VALUE];
    if (!json_key(json, key, sizeof key)) return false;
    const int i = find_member(key);
    if (i == MEMBERS ? !json_skip(json) : !json_scalar(json, config->value[i], MOST_VALUE))
      return false;
    if (i < MEMBERS && strcmp(config->value[i], "null") == 0) *config->value[i] = 0;
  }
  return json_end(json);
}

static bool read_config(Config *config, const char *path) {
  const unsigned char *map;
  int64_t size;
  *config = (Config){0};
  if (!file_map(path, &map, &size)) return false;
  Json json = {(const char *)map, (const char *)map + size, false};
  const bool good = read_members(config, &json);
  file_unmap(map, size);
  return good || wrong(path, "is not JSON of a model's configuration at byte %td",
                       json.at - (const char *)map);
}

/* Numbers are equal as f32, in which the kernels compute. */
static bool is_equal(const char *value, const char *wanted) {
  char *end[2];
  const float numbers[2] = {strtof(value, &end[0]), strtof(wanted, &end[1])};
  if (end[1] == wanted || *end[1]) return strcmp(value, wanted) == 0;
  return end[0] != value && !*end[0] && !(numbers[0] < numbers[1]) && !(numbers[0] > numbers[1]);
}

static bool check_values(const Config *config, const char *path) {
  for (int i = 0; i < MEMBERS; i++) {
    bool good = !*config->value[i] || !members[i].values[0];
    for (int k = 0; k < MOST_VALUES && members[i].values[k]; k++)
      good |= is_equal(config->value[i], members[i].values[k]);
    if (!good)
      return wrong(path, "%s is %s; the kernels are written for %s", members[i].name,
                   config->value[i], members[i].values[0]);
  }
  return true;
}

static bool check_size(const Config *config, const char *path, Member member, int64_t wanted) {
  char *end;
  const char *value = config->value[member];
  return !*value || (strtoll(value, &end, 10) == wanted && !*end) ||
         wrong(path, "%s is %s; the tensors have %" PRId64, members[member].name, value, wanted);
}

/* 0: not said. */
static bool read_heads(const Config *config, const char *path, const Sizes *sizes, int64_t *heads) {
  char *end;
  const char *value = config->value[HEADS];
  *heads = 0;
  if (!*value) return true;
  *heads = strtoll(value, &end, 10);
  return (!*end && *heads > 0 && sizes->features % *heads == 0) ||
         wrong(path,
               "n_head is %s; the tensors have %" PRId64
               " features, which is not a multiple of the number of heads",
               value, sizes->features);
}

static bool choose_heads(const Config *config, const char *path, int64_t head_features,
                         Sizes *sizes) {
  int64_t heads;
  if (!read_heads(config, path, sizes, &heads)) return false;
  if (heads > 0 && sizes->features != heads * head_features)
    return wrong(path,
                 "n_head is %" PRId64 ", which makes heads of %" PRId64
                 " features; this program is for %" PRId64 ": make build/gpt2/gpt2 GPT2_E=%" PRId64,
                 heads, sizes->features / heads, head_features, sizes->features / heads);
  if (heads == 0 && sizes->features % head_features != 0)
    return wrong(path, "%" PRId64 " features are not whole heads of %" PRId64, sizes->features,
                 head_features);
  sizes->heads = sizes->features / head_features;
  return true;
}

/* What neither shapes nor the file say. */
static void say_assumed(const Config *config, const char *path, const Sizes *sizes) {
  static const Member silent[] = {ACTIVATION, EPSILON};
  char text[256] = "";
  size_t length = 0;
  if (!*config->value[HEADS])
    length += (size_t)snprintf(text, sizeof text, ", %" PRId64 " heads of %" PRId64 " features",
                               sizes->heads, sizes->features / sizes->heads);
  for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
    if (!*config->value[silent[i]])
      length += (size_t)snprintf(text + length, sizeof text - length, ", %s %s",
                                 members[silent[i]].name, members[silent[i]].values[0]);
  if (length) fprintf(stderr, "gpt2: note: %s: assumed%s\n", path, text + 1);
}

/* The file of this name in the checkpoint's folder. */
static bool find_config(const char *checkpoint, char path[4096]) {
  const char *slash = strrchr(checkpoint, '/');
  const int folder = slash ? (int)(slash - checkpoint) + 1 : 0;
  return snprintf(path, 4096, "%.*sconfig.json", folder, checkpoint) < 4096 &&
         access(path, F_OK) == 0;
}

bool config_apply(const char *given, const char *checkpoint, int64_t head_features, Sizes *sizes) {
  char found[4096];
  const bool beside = !given && find_config(checkpoint, found);
  const char *path = given ? given : beside ? found : checkpoint;
  Config config = {0};
  if ((given || beside) && !read_config(&config, path)) return false;
  if (!check_values(&config, path) || !check_size(&config, path, LAYERS, sizes->layers) ||
      !check_size(&config, path, FEATURES, sizes->features) ||
      !check_size(&config, path, POSITIONS, sizes->positions) ||
      !check_size(&config, path, TOKENS, sizes->tokens) ||
      !check_size(&config, path, INNER, 4 * sizes->features) ||
      !choose_heads(&config, path, head_features, sizes))
    return false;
  say_assumed(&config, path, sizes);
  return true;
}

bool config_write(const char *path, const Sizes *s) {
  FILE *file = fopen(path, "w");
  if (!file) return wrong(path, "%s", strerror(errno));
  fprintf(file,
          "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\",\n"
          " \"n_layer\": %" PRId64 ", \"n_head\": %" PRId64 ", \"n_embd\": %" PRId64
          ", \"n_positions\": %" PRId64 ", \"vocab_size\": %" PRId64
          ",\n \"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-05,\n"
          " \"bos_token_id\": null, \"eos_token_id\": null}\n",
          s->layers, s->heads, s->features, s->positions, s->tokens);
  return fclose(file) == 0 || wrong(path, "cannot be written: %s", strerror(errno));
}
