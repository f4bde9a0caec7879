/* The checkpoints of training: safetensors with the parameters, the optimiser's means and the
 * sizes. */
#define _GNU_SOURCE
#include "model.h"
#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const endings[3] = {"", ".m", ".v"};

/* ---- writing */

static void put_header(FILE *file, const Layout *layout, int64_t step) {
  const Sizes *s = &layout->sizes;
  int64_t at = 0;
  fprintf(file,
          "{\"__metadata__\":{\"layers\":\"%" PRId64 "\",\"heads\":\"%" PRId64
          "\",\"features\":\"%" PRId64 "\",\"positions\":\"%" PRId64 "\",\"tokens\":\"%" PRId64
          "\",\"step\":\"%" PRId64 "\"}",
          s->layers, s->heads, s->features, s->positions, s->tokens, step);
  for (int part = 0; part < 3; part++)
    for (int i = 0; i < PARAMETERS; i++) {
      fprintf(file, ",\"%s%s\":{\"dtype\":\"F32\",\"shape\":[", parameter_names[i], endings[part]);
      for (int axis = 0; axis < parameter_axes[i]; axis++)
        fprintf(file, "%s%" PRId64, axis ? "," : "", layout->shape[i][axis]);
      const int64_t end = at + 4 * parameter_count(layout, i);
      fprintf(file, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, end);
      at = end;
    }
  fputc('}', file);
}

static bool put_tensors(FILE *file, const Layout *layout, const float *parts[3]) {
  for (int part = 0; part < 3; part++)
    for (int i = 0; i < PARAMETERS; i++) {
      const size_t count = (size_t)parameter_count(layout, i);
      if (fwrite(parts[part] + layout->start[i], sizeof(float), count, file) != count) return false;
    }
  return true;
}

bool checkpoint_write(const char *path, const Layout *layout, const float *parts[3], int64_t step) {
  char temporary[4096], *text = NULL;
  size_t length = 0;
  if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
    return wrong(path, "the name is too long");
  FILE *header = open_memstream(&text, &length);
  if (!header) return wrong(path, "%s", strerror(errno));
  put_header(header, layout, step);
  fclose(header);
  FILE *file = fopen(temporary, "wb");
  if (!file) {
    free(text);
    return wrong(temporary, "%s", strerror(errno));
  }
  const uint64_t size = length;
  bool good = fwrite(&size, sizeof size, 1, file) == 1 && fwrite(text, 1, length, file) == length &&
              put_tensors(file, layout, parts) && fflush(file) == 0 && fsync(fileno(file)) == 0;
  free(text);
  good = fclose(file) == 0 && good;
  if (good && rename(temporary, path) == 0) return true;
  wrong(path, "cannot be written: %s", strerror(errno));
  unlink(temporary);
  return false;
}

/* ---- reading */

static bool number(const char *text, int64_t *value) {
  char *end;
  errno = 0;
  *value = text ? strtoll(text, &end, 10) : 0;
  return text && end != text && !*end && errno == 0 && *value >= 0;
}

bool checkpoint_is_own(const Tensors *tensors) { return tensors_metadata(tensors, "step") != NULL; }

bool checkpoint_sizes(const Tensors *tensors, Sizes *sizes, int64_t *step) {
  static const char *const names[6] = {"layers",    "heads",  "features",
                                       "positions", "tokens", "step"};
  static const int64_t most[6] = {MOST_LAYERS, MOST_FEATURES, MOST_FEATURES,
                                  MOST_TOKENS, MOST_TOKENS,   INT64_MAX};
  int64_t *const to[6] = {&sizes->layers,    &sizes->heads,  &sizes->features,
                          &sizes->positions, &sizes->tokens, step};
  if (!checkpoint_is_own(tensors))
    return wrong(tensors->path, "is not a checkpoint of training: it has no metadata of one");
  for (int i = 0; i < 6; i++)
    if (!number(tensors_metadata(tensors, names[i]), to[i]) || *to[i] > most[i] ||
        (i != 5 && *to[i] < 1))
      return wrong(tensors->path, "the metadata has no good %s", names[i]);
  if (sizes->features % sizes->heads != 0)
    return wrong(tensors->path, "%" PRId64 " features are not %" PRId64 " whole heads",
                 sizes->features, sizes->heads);
  return true;
}

static const Stored *find_part(const Tensors *tensors, int part, int parameter, char *name) {
  snprintf(name, NAME_LENGTH, "%s%s", parameter_names[parameter], endings[part]);
  return tensors_find(tensors, name);
}

bool checkpoint_check(const Tensors *tensors, const Layout *layout, int parts) {
  char name[NAME_LENGTH];
  for (int part = 0; part < parts; part++)
    for (int i = 0; i < PARAMETERS; i++) {
      const Stored *stored = find_part(tensors, part, i, name);
      if (!stored) return wrong(tensors->path, "has no tensor %s", name);
      if (!stored_check(tensors, stored, parameter_axes[i], layout->shape[i])) return false;
    }
  return true;
}

void checkpoint_read(const Tensors *tensors, const Layout *layout, float *const *to, int parts) {
  char name[NAME_LENGTH];
  for (int part = 0; part < parts; part++)
    for (int i = 0; i < PARAMETERS; i++)
      stored_read(find_part(tensors, part, i, name), to[part] + layout->start[i]);
}
