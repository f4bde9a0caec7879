/* The tensors of a folder, which may be in several files, as weights of the dtype that the kernels
 * were compiled for. */
#include "model.h"

#include "json.h"
#include "tensors.h"

#include "groups.h"
#include "narrow.h"
#include "rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FILES = 1024, MOST_PATH = 4096 };

static const Weights weight_kinds[] = {{"f32", kDLFloat, 32, 32},
                                       {"bf16", kDLBfloat, 16, 16},
                                       {"i8", kDLInt, 8, 16},
                                       {"i4", kDLUInt, 4, 16}};

/* Names after model.layers.N. or, of what is not in layers, whole ones; gemma: the name in Gemma
 * where it differs. */
static const struct {
  const char *name, *gemma;
  bool layered, matrix;
} roles[ROLES] = {
    [TABLE] = {"model.embed_tokens.weight", 0, false, true},
    [HEAD] = {"lm_head.weight", 0, false, true},
    [LNF] = {"model.norm.weight", 0, false, false},
    [LN1] = {"input_layernorm.weight", 0, true, false},
    [WQ] = {"self_attn.q_proj.weight", 0, true, true},
    [WK] = {"self_attn.k_proj.weight", 0, true, true},
    [WV] = {"self_attn.v_proj.weight", 0, true, true},
    [WO] = {"self_attn.o_proj.weight", 0, true, true},
    [POST1] = {"post_attention_layernorm.weight", 0, true, false},
    [LN2] = {"post_attention_layernorm.weight", "pre_feedforward_layernorm.weight", true, false},
    [WG] = {"mlp.gate_proj.weight", 0, true, true},
    [WU] = {"mlp.up_proj.weight", 0, true, true},
    [WD] = {"mlp.down_proj.weight", 0, true, true},
    [POST2] = {"post_feedforward_layernorm.weight", 0, true, false},
    [BQ] = {"self_attn.q_proj.bias", 0, true, false},
    [BK] = {"self_attn.k_proj.bias", 0, true, false},
    [BV] = {"self_attn.v_proj.bias", 0, true, false},
    [NQ] = {"self_attn.q_norm.weight", 0, true, false},
    [NK] = {"self_attn.k_norm.weight", 0, true, false}};

const Weights *weights_find(const char *name) {
  for (size_t i = 0; i < sizeof weight_kinds / sizeof *weight_kinds; i++)
    if (strcmp(weight_kinds[i].name, name) == 0) return &weight_kinds[i];
  return NULL;
}

bool role_is_matrix(Role role) { return roles[role].matrix; }

static bool is_used(const Config *c, Role role) {
  switch (role) {
    case HEAD:
      return !c->tied;
    case POST1:
    case POST2:
      return config_is_gemma(c);
    case BQ:
    case BK:
    case BV:
      return c->family == QWEN2;
    case NQ:
    case NK:
      return c->family == QWEN3 || c->family == GEMMA3;
    default:
      return true;
  }
}

void role_shape(const Config *c, Role role, int64_t *parts, int64_t *rows, int64_t *columns) {
  const int64_t C = c->features, q = c->heads * c->head, k = c->groups * c->head;
  const int64_t shapes[ROLES][2] = {[TABLE] = {c->tokens, C},
                                    [HEAD] = {c->tokens, C},
                                    [LNF] = {1, C},
                                    [LN1] = {1, C},
                                    [WQ] = {q, C},
                                    [WK] = {k, C},
                                    [WV] = {k, C},
                                    [WO] = {C, q},
                                    [POST1] = {1, C},
                                    [LN2] = {1, C},
                                    [WG] = {c->inner, C},
                                    [WU] = {c->inner, C},
                                    [WD] = {C, c->inner},
                                    [POST2] = {1, C},
                                    [BQ] = {1, q},
                                    [BK] = {1, k},
                                    [BV] = {1, k},
                                    [NQ] = {1, c->head},
                                    [NK] = {1, c->head}};
  *parts = roles[role].layered ? c->layers : 1;
  *rows = shapes[role][0];
  *columns = shapes[role][1];
}

/* ---- files */

typedef struct {
  int count;
  char path[MOST_FILES][MOST_PATH / 8];
  Tensors file[MOST_FILES];
} Files;

static bool open_file(Files *files, const char *folder, const char *name) {
  char path[MOST_PATH];
  if (strchr(name, '/') || strcmp(name, "..") == 0)
    return wrong(folder, "the file %s is not in the folder", name);
  for (int i = 0; i < files->count; i++)
    if (strcmp(strrchr(files->path[i], '/') + 1, name) == 0) return true;
  const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  if (files->count == MOST_FILES || length >= (int)sizeof *files->path)
    return wrong(folder, "has too many files, or too long a path");
  memcpy(files->path[files->count], path, (size_t)length + 1);
  if (!tensors_open(&files->file[files->count], files->path[files->count])) return false;
  files->count++;
  return true;
}

/* {"metadata": .., "weight_map": {name of a tensor: file, ..}} */
static bool open_indexed(Files *files, const char *folder, const char *index) {
  const unsigned char *map;
  int64_t size;
  char key[TENSOR_NAME], name[TENSOR_NAME];
  bool seen = false;
  if (!file_map(index, &map, &size)) return false;
  Json json = {(const char *)map, (const char *)map + size, false};
  bool good = json_open(&json, '{');
  for (bool first = true; good && json_more(&json, '}', &first);) {
    good = json_key(&json, key, sizeof key);
    if (!good || strcmp(key, "weight_map") != 0) {
      good = good && json_skip(&json);
      continue;
    }
    seen = true;
    good = json_open(&json, '{');
    for (bool inner = true; good && json_more(&json, '}', &inner);) {
      good = json_key(&json, key, sizeof key) && json_string(&json, name, sizeof name, NULL);
      if (good && !open_file(files, folder, name)) {
        file_unmap(map, size);
        return false;
      }
    }
  }
  good = good && seen && json_end(&json);
  const ptrdiff_t at = json.at - (const char *)map;
  file_unmap(map, size);
  return good || wrong(index, "is not JSON with a weight_map at byte %td", at);
}

static bool open_files(Files *files, const char *folder) {
  char index[MOST_PATH];
  const int length = snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  if (length >= (int)sizeof index) return wrong(folder, "the path is too long");
  return access(index, F_OK) == 0 ? open_indexed(files, folder, index)
                                  : open_file(files, folder, "model.safetensors");
}

static void close_files(Files *files) {
  for (int i = 0; i < files->count; i++) tensors_close(&files->file[i]);
  free(files);
}

/* ---- which tensor is what */

typedef struct {
  const Tensors *file;
  const Stored *stored;
} Found;

/* The role of a tensor, and its layer; ROLES where it has none. */
static Role role_of(const Config *c, const char *name, int64_t *layer) {
  static const char prefix[] = "model.layers.";
  *layer = 0;
  const bool layered = strncmp(name, prefix, sizeof prefix - 1) == 0;
  if (layered) {
    char *end;
    name += sizeof prefix - 1;
    if (*name < '0' || *name > '9') return ROLES;
    *layer = strtoll(name, &end, 10);
    if (*end != '.' || *layer >= c->layers) return ROLES;
    name = end + 1;
  }
  for (int i = 0; i < ROLES; i++) {
    const bool own = config_is_gemma(c) && roles[i].gemma;
    if (roles[i].layered == layered && (is_used(c, (Role)i) || i == HEAD) &&
        strcmp(name, own ? roles[i].gemma : roles[i].name) == 0)
      return (Role)i;
  }
  return ROLES;
}

static bool is_ignored(const char *name) {
  static const char end[] = ".rotary_emb.inv_freq";
  const size_t length = strlen(name);
  return length >= sizeof end && strcmp(name + length - (sizeof end - 1), end) == 0;
}

/* [ROLES][layers], NULL where something does not fit. */
static Found *find_tensors(const Files *files, const Config *c) {
  Found *found = calloc((size_t)(ROLES * c->layers), sizeof *found);
  if (!found) return wrong(files->path[0], "no memory"), NULL;
  for (int f = 0; f < files->count; f++)
    for (int i = 0; i < files->file[f].count; i++) {
      const Stored *stored = &files->file[f].at[i];
      int64_t layer;
      const Role role = role_of(c, stored->name, &layer);
      if (role == ROLES && is_ignored(stored->name)) continue;
      Found *to = role == ROLES ? NULL : &found[role * c->layers + layer];
      if (to && !to->stored) {
        *to = (Found){&files->file[f], stored};
        continue;
      }
      wrong(files->path[f],
            to ? "the tensor %s is there twice"
               : "the tensor %s is not one of the model that config.json describes",
            stored->name);
      free(found);
      return NULL;
    }
  return found;
}

static bool check_tensors(const Files *files, const Config *c, const Found *found) {
  for (int i = 0; i < ROLES; i++) {
    int64_t parts, rows, columns;
    if (!is_used(c, (Role)i)) continue;
    role_shape(c, (Role)i, &parts, &rows, &columns);
    for (int64_t part = 0; part < parts; part++) {
      const Found *f = &found[i * c->layers + part];
      const char *name = config_is_gemma(c) && roles[i].gemma ? roles[i].gemma : roles[i].name;
      if (!f->stored && roles[i].layered)
        return wrong(files->path[0], "has no tensor model.layers.%" PRId64 ".%s", part, name);
      if (!f->stored) return wrong(files->path[0], "has no tensor %s", name);
      const int64_t shape[2] = {rows, columns};
      if (!stored_check(f->file, f->stored, roles[i].matrix ? 2 : 1,
                        roles[i].matrix ? shape : shape + 1))
        return false;
    }
  }
  const Found *head = &found[HEAD * c->layers], *table = &found[TABLE * c->layers];
  return !c->tied || !head->stored ||
         (head->stored->bytes == table->stored->bytes &&
          memcmp(head->stored->data, table->stored->data, (size_t)head->stored->bytes) == 0) ||
         wrong(head->file->path,
               "the tensor lm_head.weight is not the same as model.embed_tokens.weight, and "
               "tie_word_embeddings is true");
}

/* ---- weights */

static int64_t scale_bytes(const Model *m, Role role) {
  int64_t parts, rows, columns;
  role_shape(&m->config, role, &parts, &rows, &columns);
  return m->weights->bits == 4 ? parts * rows * (columns / GROUP) * 2 : parts * rows * 4;
}

static int64_t weight_bytes(const Model *m, Role role) {
  int64_t parts, rows, columns;
  role_shape(&m->config, role, &parts, &rows, &columns);
  return parts * rows * columns * (roles[role].matrix ? m->weights->bits : 32) / 8;
}

static bool is_aliased(const Model *m, int role) { return role == HEAD && m->config.tied; }

static void allocate(Model *m) {
  int64_t all = 0;
  for (int i = 0; i < ROLES; i++)
    if (!is_aliased(m, i))
      all += weight_bytes(m, (Role)i) + (roles[i].matrix ? scale_bytes(m, (Role)i) : 0);
  check_room(all);
  for (int i = 0; i < ROLES; i++) {
    if (is_aliased(m, i)) continue;
    m->weight[i] = memory(weight_bytes(m, (Role)i));
    if (roles[i].matrix) m->scale[i] = memory(scale_bytes(m, (Role)i));
  }
  if (m->config.tied) m->weight[HEAD] = m->weight[TABLE], m->scale[HEAD] = m->scale[TABLE];
}

static void narrow_matrix(const Model *m, pk_context *context, const float *from, void *to,
                          void *scales, int64_t rows, int64_t columns) {
  Tensor in, out, scale;
  if (m->weights->bits == 4) {
    VIEW(&in, from, kDLFloat, rows, columns / GROUP, GROUP);
    view(&out, to, kDLUInt, 8, 3, (int64_t[]){rows, columns / GROUP, GROUP / 2});
    view(&scale, scales, kDLFloat, 16, 3, (int64_t[]){rows, columns / GROUP, 1});
    call(context, &quantise_groups_kernel, (DLTensor *[]){&in.t, &out.t, &scale.t});
    return;
  }
  VIEW(&in, from, kDLFloat, rows, columns);
  view(&out, to, m->weights->code, m->weights->bits, 2, in.shape);
  VIEW(&scale, scales, kDLFloat, rows);
  if (m->weights->bits == 16)
    call(context, &narrow_kernel, (DLTensor *[]){&in.t, &out.t});
  else
    call(context, &quantise_rows_kernel, (DLTensor *[]){&in.t, &out.t, &scale.t});
}

/* One tensor to its place; Gemma's norms multiply by 1 + w. */
static void read_part(Model *m, pk_context *context, int role, int64_t part, const Stored *stored,
                      float *wide) {
  int64_t parts, rows, columns;
  role_shape(&m->config, (Role)role, &parts, &rows, &columns);
  char *to = (char *)m->weight[role] + weight_bytes(m, (Role)role) / parts * part;
  if (!roles[role].matrix) {
    stored_read(stored, (float *)(void *)to);
    const bool shifted = config_is_gemma(&m->config) && !(role >= BQ && role <= BV);
    for (int64_t i = 0; shifted && i < columns; i++) ((float *)(void *)to)[i] += 1;
    return;
  }
  if (m->weights->bits == 32) {
    stored_read(stored, (float *)(void *)to);
  } else if (m->weights->bits == 16 && strcmp(stored->dtype, "BF16") == 0) {
    memcpy(to, stored->data, (size_t)stored->bytes);
  } else {
    stored_read(stored, wide);
    narrow_matrix(m, context, wide, to,
                  (char *)m->scale[role] + scale_bytes(m, (Role)role) / parts * part, rows,
                  columns);
  }
}

static void read_all(Model *m, pk_context *context, const Found *found) {
  int64_t most = 0, parts, rows, columns;
  for (int i = 0; i < ROLES; i++) {
    role_shape(&m->config, (Role)i, &parts, &rows, &columns);
    if (rows * columns > most) most = rows * columns;
  }
  most *= (int64_t)sizeof(float);
  float *wide = m->weights->bits == 32 ? NULL : memory(most);
  for (int i = 0; i < ROLES; i++) {
    role_shape(&m->config, (Role)i, &parts, &rows, &columns);
    for (int64_t part = 0; is_used(&m->config, (Role)i) && part < parts; part++) {
      const Stored *stored = found[i * m->config.layers + part].stored;
      read_part(m, context, i, part, stored, wide);
      stored_release(stored);
    }
  }
  if (wide) memory_free(wide, most);
}

static void check_groups(const Model *m, const char *folder) {
  const Config *c = &m->config;
  if ((m->weights->bits == 4 || m->rounds) &&
      (c->features % GROUP || c->inner % GROUP || c->heads * c->head % GROUP))
    fail("%s: rows of the matrices are not whole groups of %d elements, as %s require", folder,
         GROUP, m->weights->bits == 4 ? "4 bits" : "activations in i8");
}

void model_load(Model *m, const char *folder, pk_context *context) {
  Files *files = calloc(1, sizeof *files);
  if (!files) fail("no memory");
  check_groups(m, folder);
  Found *found = open_files(files, folder) ? find_tensors(files, &m->config) : NULL;
  if (!found || !check_tensors(files, &m->config, found)) exit(1);
  allocate(m);
  read_all(m, context, found);
  free(found);
  close_files(files);
}

void model_free(Model *m) {
  for (int i = 0; i < ROLES; i++) {
    if (is_aliased(m, i)) continue;
    free(m->weight[i]);
    free(m->scale[i]);
  }
}

void model_view(const Model *m, Role role, Tensor *weight, Tensor *scale) {
  int64_t parts, rows, columns;
  role_shape(&m->config, role, &parts, &rows, &columns);
  const bool matrix = roles[role].matrix, groups = matrix && m->weights->bits == 4;
  const int64_t shape[3] = {parts, rows, groups ? columns / 2 : columns},
                scales[3] = {parts, rows, groups ? columns / GROUP : 1},
                vectors[2] = {parts, columns};
  const int lead = roles[role].layered ? 0 : 1;
  if (!matrix) {
    view(weight, m->weight[role], kDLFloat, 32, 2 - lead, vectors + lead);
    return;
  }
  view(weight, m->weight[role], m->weights->code, groups ? 8 : m->weights->bits, 3 - lead,
       shape + lead);
  view(scale, m->scale[role], kDLFloat, groups ? 16 : 32, 3 - lead, scales + lead);
}
