/* The checkpoints of training: safetensors with the parameters and the optimiser's means. */
#define _GNU_SOURCE
#include "model.h"
#include "tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing */

/* `format` is what transformers asks for. */
static void put_header(FILE *file, const Layout *layout, int parts, int64_t step) {
  fprintf(file, "{\"__metadata__\":{\"format\":\"pt\"");
  if (parts == PARTS)
    fprintf(file, ",\"heads\":\"%" PRId64 "\",\"step\":\"%" PRId64 "\"", layout->sizes.heads, step);
  fputc('}', file);
  published_entries(file, layout, parts);
  fputc('}', file);
}

bool checkpoint_write(const char *path, const Layout *layout, const float *const *from, int parts,
                      int64_t step) {
  char temporary[4096], *text = NULL;
  size_t length = 0;
  if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
    return wrong(path, "the name is too long");
  FILE *header = open_memstream(&text, &length);
  if (!header) return wrong(path, "%s", strerror(errno));
  put_header(header, layout, parts, step);
  for (long at = ftell(header); at % 8 != 0; at++) fputc(' ', header); /* elements are aligned */
  fclose(header);
  FILE *file = fopen(temporary, "wb");
  if (!file) {
    free(text);
    return wrong(temporary, "%s", strerror(errno));
  }
  const uint64_t size = length;
  bool good = fwrite(&size, sizeof size, 1, file) == 1 && fwrite(text, 1, length, file) == length &&
              published_elements(file, layout, from, parts) && fflush(file) == 0 &&
              fsync(fileno(file)) == 0;
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
  if (!checkpoint_is_own(tensors))
    return wrong(tensors->path,
                 "is not a checkpoint of training: --from starts from a published model");
  if (!published_sizes(tensors, sizes)) return false;
  if (!number(tensors_metadata(tensors, "step"), step))
    return wrong(tensors->path, "the metadata has no good step");
  if (!number(tensors_metadata(tensors, "heads"), &sizes->heads) || sizes->heads < 1)
    return wrong(tensors->path, "the metadata has no good heads");
  if (sizes->features % sizes->heads != 0)
    return wrong(tensors->path, "%" PRId64 " features are not %" PRId64 " whole heads",
                 sizes->features, sizes->heads);
  return true;
}
