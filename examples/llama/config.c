/* config.json as a list of members with dotted names, a table of those that are known, and what
 * follows from them. */
#include "config.h"

#include "json.h"
#include "tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 128, MOST_NAME = 96, MOST_VALUE = 64, MOST_DEPTH = 4 };

/* What a member is about: IGNORED ones do not change the logits, LISTED is one of the values. */
typedef enum { IGNORED, COUNT, REAL, LISTED } Kind;

typedef struct {
  const char *name;
  Kind kind;
  const char *values; /* of LISTED: separated by spaces */
} Known;

static const Known known[] = {
    {"model_type", LISTED, "llama mistral qwen2 qwen3 gemma2 gemma3_text"},
    {"hidden_size", COUNT, 0},
    {"intermediate_size", COUNT, 0},
    {"num_hidden_layers", COUNT, 0},
    {"num_attention_heads", COUNT, 0},
    {"num_key_value_heads", COUNT, 0},
    {"head_dim", COUNT, 0},
    {"vocab_size", COUNT, 0},
    {"max_position_embeddings", COUNT, 0},
    {"rms_norm_eps", REAL, 0},
    {"hidden_act", LISTED, "silu gelu_pytorch_tanh"},
    {"hidden_activation", LISTED, "gelu_pytorch_tanh"},
    {"tie_word_embeddings", LISTED, "true false"},
    {"attention_bias", LISTED, "false"},
    {"mlp_bias", LISTED, "false"},
    {"pretraining_tp", LISTED, "1"},
    {"use_sliding_window", LISTED, "false"},
    {"use_bidirectional_attention", LISTED, "false"},
    {"sliding_window", COUNT, 0},
    {"sliding_window_pattern", COUNT, 0},
    {"_sliding_window_pattern", COUNT, 0},
    {"query_pre_attn_scalar", REAL, 0},
    {"attn_logit_softcapping", REAL, 0},
    {"final_logit_softcapping", REAL, 0},
    {"rope_theta", REAL, 0},
    {"rope_local_base_freq", REAL, 0},
    {"rope_type", LISTED, "default linear llama3 yarn"},
    {"type", LISTED, "default linear llama3 yarn"},
    {"factor", REAL, 0},
    {"low_freq_factor", REAL, 0},
    {"high_freq_factor", REAL, 0},
    {"beta_fast", REAL, 0},
    {"beta_slow", REAL, 0},
    {"attention_factor", REAL, 0},
    {"truncate", LISTED, "true false"},
    {"original_max_position_embeddings", COUNT, 0},
    {"architectures", IGNORED, 0},
    {"attention_dropout", IGNORED, 0},
    {"bos_token_id", IGNORED, 0},
    {"eos_token_id", IGNORED, 0},
    {"pad_token_id", IGNORED, 0},
    {"cache_implementation", IGNORED, 0},
    {"dtype", IGNORED, 0},
    {"torch_dtype", IGNORED, 0},
    {"initializer_range", IGNORED, 0},
    {"max_window_layers", IGNORED, 0}, /* of windows that are off */
    {"transformers_version", IGNORED, 0},
    {"use_cache", IGNORED, 0},
    {"_name_or_path", IGNORED, 0},
};

/* Objects whose members are angles: their names begin with this and a point. */
static const char *const angle_objects[] = {"rope_scaling.", "rope_parameters.full_attention.",
                                            "rope_parameters.sliding_attention.",
                                            "rope_parameters."};
static const char *const angle_members[] = {"rope_theta",
                                            "rope_type",
                                            "type",
                                            "factor",
                                            "low_freq_factor",
                                            "high_freq_factor",
                                            "beta_fast",
                                            "beta_slow",
                                            "attention_factor",
                                            "truncate",
                                            "original_max_position_embeddings"};

typedef struct {
  const char *path;
  int count;
  struct {
    char name[MOST_NAME], value[MOST_VALUE];
  } member[MOST_MEMBERS];
  int64_t layer_types, full_first, full_count; /* the number of them; which are full_attention */
  bool said;                                   /* a message */
  bool regular;                                /* every full_first + 1st, and no other */
} Members;

/* ---- reading */

static bool read_layer_types(Members *m, Json *json) {
  char type[MOST_VALUE];
  m->regular = true;
  m->full_first = -1;
  if (!json_open(json, '[')) return false;
  for (bool first = true; json_more(json, ']', &first); m->layer_types++) {
    if (!json_string(json, type, sizeof type, NULL)) return false;
    const bool full = strcmp(type, "full_attention") == 0;
    m->said = !full && strcmp(type, "sliding_attention") != 0;
    if (m->said)
      return wrong(m->path,
                   "layer_types has %s; this program has full_attention and sliding_attention",
                   type);
    if (full && m->full_first < 0) m->full_first = m->layer_types;
    m->full_count += full;
    m->regular &=
        full == (m->full_first >= 0 && m->layer_types % (m->full_first + 1) == m->full_first);
  }
  return !json->bad;
}

static bool read_object(Members *m, Json *json, const char *prefix, int depth) {
  if (!json_open(json, '{')) return false;
  for (bool first = true; json_more(json, '}', &first);) {
    char key[MOST_NAME], name[2 * MOST_NAME + 2], inner[2 * MOST_NAME + 2];
    if (!json_key(json, key, sizeof key)) return false;
    snprintf(name, sizeof name, "%s%s", prefix, key);
    while (json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at) json->at++;
    const char next = json->at < json->end ? *json->at : 0;
    if (strcmp(name, "layer_types") == 0 && next == '[') {
      if (!read_layer_types(m, json)) return false;
      continue;
    }
    if (next == '{' && depth < MOST_DEPTH) {
      snprintf(inner, sizeof inner, "%.*s.", MOST_NAME, name);
      if (!read_object(m, json, inner, depth + 1)) return false;
      continue;
    }
    if (m->count == MOST_MEMBERS || strlen(name) >= MOST_NAME) return false;
    memcpy(m->member[m->count].name, name, strlen(name) + 1);
    if (next == '[' ? !json_skip(json) : !json_scalar(json, m->member[m->count].value, MOST_VALUE))
      return false;
    if (next == '[') strcpy(m->member[m->count].value, "[..]");
    if (strcmp(m->member[m->count].value, "null") != 0) m->count++;
  }
  return !json->bad;
}

static const char *plain_name(const char *name) {
  for (size_t i = 0; i < sizeof angle_objects / sizeof *angle_objects; i++) {
    const size_t length = strlen(angle_objects[i]);
    if (strncmp(name, angle_objects[i], length) != 0) continue;
    for (size_t k = 0; k < sizeof angle_members / sizeof *angle_members; k++)
      if (strcmp(name + length, angle_members[k]) == 0) return name + length;
    return NULL;
  }
  for (size_t k = 2; k < sizeof angle_members / sizeof *angle_members; k++)
    if (strcmp(name, angle_members[k]) == 0) return NULL;
  return name;
}

static bool is_listed(const char *values, const char *value) {
  const size_t length = strlen(value);
  for (const char *at = values; length && (at = strstr(at, value)) != NULL; at += length)
    if ((at == values || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
  return false;
}

static bool check_member(const char *path, const char *name, const char *value) {
  const char *plain = plain_name(name);
  const Known *found = NULL;
  char *end;
  for (size_t i = 0; plain && i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, plain) == 0) found = &known[i];
  if (!found) return wrong(path, "the member %s is not known to this program", name);
  if (found->kind == LISTED && !is_listed(found->values, value))
    return wrong(path, "%s is %s; the kernels are written for %s", name, value, found->values);
  if (found->kind == COUNT && (strtoll(value, &end, 10) < 1 || *end || strlen(value) > 12))
    return wrong(path, "%s is %s, which is not a number of at least 1", name, value);
  if (found->kind == REAL) {
    const double real = strtod(value, &end);
    if (end == value || *end || !(real > 0 && real < 1e12))
      return wrong(path, "%s is %s, which is not a number above 0", name, value);
  }
  return true;
}

static bool read_members(Members *m, const char *path) {
  const unsigned char *map;
  int64_t size;
  *m = (Members){.path = path};
  if (!file_map(path, &map, &size)) return false;
  Json json = {(const char *)map, (const char *)map + size, false};
  const bool good = read_object(m, &json, "", 0) && json_end(&json);
  const ptrdiff_t at = json.at - (const char *)map;
  file_unmap(map, size);
  if (!good && m->said) return false;
  if (!good) return wrong(path, "is not JSON of a model's configuration at byte %td", at);
  for (int i = 0; i < m->count; i++)
    if (!check_member(path, m->member[i].name, m->member[i].value)) return false;
  return true;
}

/* ---- what follows */

static const char *find(const Members *m, const char *name) {
  for (int i = 0; i < m->count; i++)
    if (strcmp(m->member[i].name, name) == 0) return m->member[i].value;
  return NULL;
}

static bool has(const Members *m, const char *name, const char *value) {
  const char *found = find(m, name);
  return found && strcmp(found, value) == 0;
}

static bool read_count(const Members *m, const char *name, int64_t most, int64_t *to) {
  const char *value = find(m, name);
  if (!value) return wrong(m->path, "has no %s", name);
  *to = strtoll(value, NULL, 10);
  return *to <= most ||
         wrong(m->path, "%s is %s; at most %" PRId64 " are possible", name, value, most);
}

static bool read_real(const Members *m, const char *name, double *to) {
  const char *value = find(m, name);
  if (value) *to = strtod(value, NULL);
  return value || wrong(m->path, "has no %s", name);
}

/* A member of the object that says how angles are scaled. */
static bool read_angle(const Members *m, const char *object, const char *name, double *to) {
  char full[2 * MOST_NAME];
  snprintf(full, sizeof full, "%s%s", object, name);
  return read_real(m, full, to);
}

static const char *find_angle(const Members *m, const char *object, const char *name) {
  char full[2 * MOST_NAME];
  snprintf(full, sizeof full, "%s%s", object, name);
  return find(m, full);
}

static bool read_yarn(Config *c, const Members *m, const char *object) {
  const char *truncate = find_angle(m, object, "truncate");
  c->low = 1, c->high = 32;
  c->attention = 0.1 * log(c->factor) + 1;
  c->truncate = !truncate || strcmp(truncate, "true") == 0;
  return (!find_angle(m, object, "beta_slow") || read_angle(m, object, "beta_slow", &c->low)) &&
         (!find_angle(m, object, "beta_fast") || read_angle(m, object, "beta_fast", &c->high)) &&
         (!find_angle(m, object, "attention_factor") ||
          read_angle(m, object, "attention_factor", &c->attention)) &&
         read_angle(m, object, "original_max_position_embeddings", &c->original);
}

static bool read_scaling(Config *c, const Members *m, const char *object) {
  static const char *const types[] = {"default", "linear", "llama3", "yarn"};
  const char *type = find_angle(m, object, "rope_type");
  if (!type) type = find_angle(m, object, "type");
  c->attention = 1;
  c->truncate = true;
  c->scaling = 0;
  while (type && strcmp(type, types[c->scaling]) != 0) c->scaling++;
  if (c->scaling > 0 && !read_angle(m, object, "factor", &c->factor)) return false;
  if (c->scaling == 2)
    return read_angle(m, object, "low_freq_factor", &c->low) &&
           read_angle(m, object, "high_freq_factor", &c->high) &&
           read_angle(m, object, "original_max_position_embeddings", &c->original);
  return c->scaling < 3 || read_yarn(c, m, object);
}

/* Angles are in rope_parameters, of each kind of layer where there are two, or, in files of before
 * transformers 5, in rope_theta, rope_scaling and rope_local_base_freq. */
static bool read_angles(Config *c, const Members *m) {
  static const char full[] = "rope_parameters.full_attention.",
                    local[] = "rope_parameters.sliding_attention.";
  if (find_angle(m, full, "rope_theta")) {
    const char *type = find_angle(m, local, "rope_type");
    if (type && strcmp(type, "default") != 0)
      return wrong(m->path, "%srope_type is %s; the kernels are written for default", local, type);
    return read_angle(m, full, "rope_theta", &c->base) &&
           read_angle(m, local, "rope_theta", &c->local_base) && read_scaling(c, m, full);
  }
  const bool one = find(m, "rope_parameters.rope_theta") != NULL;
  if (!read_real(m, one ? "rope_parameters.rope_theta" : "rope_theta", &c->base) ||
      !read_scaling(c, m, one ? "rope_parameters." : "rope_scaling."))
    return false;
  c->local_base = c->base;
  c->local_scaling = c->family == GEMMA3 ? 0 : c->scaling;
  return c->family != GEMMA3 || read_real(m, "rope_local_base_freq", &c->local_base);
}

/* Which layers have a window: of Mistral all of them, or none. */
static bool read_windows(Config *c, const Members *m) {
  const bool mistral = c->family == MISTRAL && find(m, "sliding_window");
  const int64_t pattern = mistral ? MOST_LAYERS + 1 : c->family == GEMMA2 ? 2 : 6;
  c->period = 1;
  if (m->layer_types && m->layer_types != c->layers)
    return wrong(m->path, "layer_types has %" PRId64 " layers, num_hidden_layers %" PRId64,
                 m->layer_types, c->layers);
  if (mistral && m->full_count)
    return wrong(m->path,
                 "layer_types has full_attention and sliding_window is not null; the kernels are "
                 "written for Mistral with the window in all layers");
  if (!config_is_gemma(c) && !mistral)
    return m->full_count == m->layer_types ||
           wrong(m->path,
                 "layer_types has sliding_attention; the kernels are written for "
                 "full_attention");
  if (!read_count(m, "sliding_window", MOST_FEATURES, &c->window)) return false;
  c->period = pattern;
  const char *name =
      find(m, "sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  if (find(m, name) && !read_count(m, name, MOST_LAYERS, &c->period)) return false;
  if (m->layer_types && m->full_first >= 0) c->period = m->full_first + 1;
  if (m->layer_types && m->full_first < 0) c->period = MOST_LAYERS + 1;
  return !m->layer_types || m->regular ||
         wrong(m->path,
               "layer_types is not a pattern that repeats: sliding layers, then a full one");
}

static bool read_sizes(Config *c, const Members *m) {
  if (!read_count(m, "hidden_size", MOST_FEATURES, &c->features) ||
      !read_count(m, "intermediate_size", MOST_FEATURES, &c->inner) ||
      !read_count(m, "num_hidden_layers", MOST_LAYERS, &c->layers) ||
      !read_count(m, "num_attention_heads", MOST_FEATURES, &c->heads) ||
      !read_count(m, "num_key_value_heads", MOST_FEATURES, &c->groups) ||
      !read_count(m, "vocab_size", MOST_TOKENS, &c->tokens) ||
      !read_count(m, "max_position_embeddings", MOST_TOKENS, &c->positions))
    return false;
  if (find(m, "head_dim")) {
    if (!read_count(m, "head_dim", 1024, &c->head)) return false;
  } else if (c->family > QWEN2) {
    return wrong(m->path, "has no head_dim");
  } else if (c->features % c->heads != 0) {
    return wrong(m->path, "hidden_size is not a multiple of num_attention_heads");
  } else {
    c->head = c->features / c->heads;
  }
  if (c->head % 2 != 0 || c->head > 1024)
    return wrong(m->path, "heads of %" PRId64 " features are not even or too wide", c->head);
  return c->heads % c->groups == 0 ||
         wrong(m->path, "num_attention_heads is not a multiple of num_key_value_heads");
}

bool config_is_gemma(const Config *c) { return c->family >= GEMMA2; }

static Family family_of(const char *type) {
  static const char *const types[FAMILIES] = {"llama", "mistral", "qwen2",
                                              "qwen3", "gemma2",  "gemma3_text"};
  int i = 0;
  while (strcmp(type, types[i]) != 0) i++;
  return (Family)i;
}

bool config_read(Config *c, const char *path) {
  Members m;
  *c = (Config){0};
  if (!read_members(&m, path)) return false;
  const char *type = find(&m, "model_type");
  if (!type) return wrong(path, "has no model_type");
  c->family = family_of(type);
  const bool gemma = config_is_gemma(c);
  const char *activation = find(&m, gemma ? "hidden_activation" : "hidden_act");
  if (!activation) return wrong(path, "has no %s", gemma ? "hidden_activation" : "hidden_act");
  c->activation = strcmp(activation, "silu") == 0 ? 3 : 2;
  c->tied = find(&m, "tie_word_embeddings") ? has(&m, "tie_word_embeddings", "true") : gemma;
  if (!read_sizes(c, &m) || !read_real(&m, "rms_norm_eps", &c->epsilon) || !read_windows(c, &m) ||
      !read_angles(c, &m))
    return false;
  double scalar = (double)c->head;
  if (gemma && !read_real(&m, "query_pre_attn_scalar", &scalar)) return false;
  c->scale = 1 / sqrt(scalar);
  if (c->family == GEMMA2 && (!read_real(&m, "attn_logit_softcapping", &c->cap) ||
                              !read_real(&m, "final_logit_softcapping", &c->cap_logits)))
    return false;
  if (find(&m, "attn_logit_softcapping") && !read_real(&m, "attn_logit_softcapping", &c->cap))
    return false;
  return !find(&m, "final_logit_softcapping") ||
         read_real(&m, "final_logit_softcapping", &c->cap_logits);
}

/* ---- statics */

static void add(char text[STATICS], const char *name, const char *value) {
  const size_t length = strlen(text);
  snprintf(text + length, STATICS - length, "%s-D %s=%s", length ? " " : "", name, value);
}

static void add_real(char text[STATICS], const char *name, double value) {
  char digits[40], all[48];
  snprintf(digits, sizeof digits, "%.9g", value);
  const size_t whole = strcspn(digits, "e");
  const bool point = memchr(digits, '.', whole) != NULL;
  snprintf(all, sizeof all, "%.*s%s%s", (int)whole, digits, point ? "" : ".0", digits + whole);
  add(text, name, all);
}

static void add_count(char text[STATICS], const char *name, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRId64, value);
  add(text, name, digits);
}

static void add_bool(char text[STATICS], const char *name, bool value) {
  add(text, name, value ? "true" : "false");
}

void config_statics(const Config *c, char text[STATICS]) {
  *text = 0;
  add_count(text, "D", c->head);
  add_count(text, "R", c->heads / c->groups);
  add_bool(text, "BIAS", c->family == QWEN2);
  add_bool(text, "NORM", c->family == QWEN3 || c->family == GEMMA3);
  add_bool(text, "POST", config_is_gemma(c));
  add_real(text, "EPS", c->epsilon);
  add_real(text, "SCALE", c->scale);
  add_count(text, "ACT", c->activation);
  add_count(text, "PERIOD", c->period);
  add_count(text, "WINDOW", c->window);
  add_real(text, "CAP", c->cap);
  add_real(text, "CAP_LOGITS", c->cap_logits);
  add_real(text, "SCALE_TABLE", config_is_gemma(c) ? sqrt((double)c->features) : 1);
  add_real(text, "BASE", c->base);
  add_real(text, "LOCAL", c->local_base);
  add_count(text, "SCALING", c->scaling);
  add_count(text, "LOCAL_SCALING", c->local_scaling);
  if (c->scaling > 0) add_real(text, "rope.FACTOR", c->factor);
  if (c->scaling > 1) {
    add_real(text, "rope.ORIGINAL", c->original);
    add_real(text, "rope.LOW", c->low);
    add_real(text, "rope.HIGH", c->high);
    add_bool(text, "rope.TRUNCATE", c->truncate);
    add_real(text, "rope.ATTENTION", c->attention);
  }
}
