/* Checkpoints as safetensors: 8 bytes of length, a header in JSON, the tensors. */
#define _GNU_SOURCE
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HEADER = 1 << 20 };
static const char *const endings[3] = {"", ".m", ".v"};

static bool wrong(const char *path, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "gpt2: %s: ", path);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  return false;
}

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

/* ---- reading: of the header's JSON, the members that are looked for by name */

/* Behind "NAME": in a text, or NULL. */
static const char *member(const char *text, const char *name) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *found = strstr(text, key);
  return found ? found + strlen(key) : NULL;
}

/* A number, in quotes or not, that ends before `ends`. */
static bool number(const char **text, int64_t *value) {
  char *end;
  const char *p = *text + strspn(*text, "\" [,");
  errno = 0;
  *value = strtoll(p, &end, 10);
  *text = end;
  return end != p && errno == 0 && *value >= 0;
}

/* The header as text, the file behind it; NULL with a message. */
static char *open_checkpoint(const char *path, FILE **file, int64_t *data) {
  uint64_t size = 0;
  *file = fopen(path, "rb");
  if (!*file) return wrong(path, "%s", strerror(errno)), NULL;
  char *text = NULL;
  if (fread(&size, sizeof size, 1, *file) != 1 || size < 2 || size > MOST_HEADER)
    wrong(path, "is not a safetensors file");
  else if (!(text = calloc(1, (size_t)size + 1)))
    wrong(path, "no memory");
  else if (fread(text, 1, (size_t)size, *file) != size || text[0] != '{' || strlen(text) != size)
    wrong(path, "the header is cut short or is not JSON"), free(text), text = NULL;
  if (!text) fclose(*file);
  *data = (int64_t)size + 8;
  return text;
}

bool checkpoint_sizes(const char *path, Sizes *sizes, int64_t *step) {
  static const char *const names[6] = {"layers",    "heads",  "features",
                                       "positions", "tokens", "step"};
  int64_t *const to[6] = {&sizes->layers,    &sizes->heads,  &sizes->features,
                          &sizes->positions, &sizes->tokens, step};
  FILE *file;
  int64_t data;
  char *text = open_checkpoint(path, &file, &data);
  if (!text) return false;
  bool good = true;
  for (int i = 0; good && i < 6; i++) {
    const char *at = member(text, names[i]);
    good = at && number(&at, to[i]) && (i == 5 || (*to[i] >= 1 && *to[i] <= 1 << 20));
    if (!good) wrong(path, "the metadata has no good %s", names[i]);
  }
  if (good && sizes->features % sizes->heads != 0)
    good = wrong(path, "%" PRId64 " features are not %" PRId64 " whole heads", sizes->features,
                 sizes->heads);
  free(text);
  fclose(file);
  return good;
}

/* The place of a tensor in the file, when it has the layout's shape. */
static bool find_tensor(const char *path, const char *text, const char *name, const Layout *layout,
                        int i, int64_t *at) {
  const char *entry = member(text, name), *p = entry ? strchr(entry, '}') : NULL;
  if (!p) return wrong(path, "has no tensor %s", name);
  const char *dtype = member(entry, "dtype"), *shape = member(entry, "shape"),
             *offsets = member(entry, "data_offsets");
  if (!dtype || !shape || !offsets || offsets > p || strncmp(dtype, "\"F32\"", 5) != 0)
    return wrong(path, "the tensor %s is not of F32", name);
  for (int axis = 0; axis < parameter_axes[i]; axis++) {
    int64_t extent;
    if (!number(&shape, &extent) || extent != layout->shape[i][axis])
      return wrong(path, "the tensor %s: axis %d is not %" PRId64, name, axis,
                   layout->shape[i][axis]);
  }
  int64_t end;
  if (*shape != ']' || !number(&offsets, at) || !number(&offsets, &end) ||
      end - *at != 4 * parameter_count(layout, i))
    return wrong(path, "the tensor %s has a wrong size", name);
  return true;
}

bool checkpoint_read(const char *path, const Layout *layout, float *parts[3]) {
  FILE *file;
  int64_t data, at;
  char *text = open_checkpoint(path, &file, &data);
  if (!text) return false;
  bool good = true;
  for (int part = 0; good && part < 3; part++)
    for (int i = 0; good && parts[part] && i < PARAMETERS; i++) {
      char name[NAME_LENGTH];
      snprintf(name, sizeof name, "%s%s", parameter_names[i], endings[part]);
      const size_t count = (size_t)parameter_count(layout, i);
      good = find_tensor(path, text, name, layout, i, &at);
      if (good && (fseek(file, (long)(data + at), SEEK_SET) != 0 ||
                   fread(parts[part] + layout->start[i], sizeof(float), count, file) != count))
        good = wrong(path, "is cut short at the tensor %s", name);
    }
  free(text);
  fclose(file);
  return good;
}
