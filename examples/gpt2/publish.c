/* Models that are read to be sampled, fine-tuned or published, and the folder of a published one.
 */
#include "gpt2.h"

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

float *load_parameters(Layout *layout, const char *path, const char *config) {
  Tensors tensors;
  Sizes sizes;
  int64_t step;
  if (!tensors_open(&tensors, path)) exit(1);
  const bool own = checkpoint_is_own(&tensors);
  if (own ? !checkpoint_sizes(&tensors, &sizes, &step) : !published_sizes(&tensors, &sizes))
    exit(1);
  if (own && sizes.features != sizes.heads * E) fail_sizes(path, &sizes);
  if (own && config) fail("--config is of published checkpoints, and %s is one of training", path);
  layout_make(layout, &sizes);
  if (!published_read(&tensors, layout, NULL, 1) ||
      (!own && !config_apply(config, path, E, &layout->sizes)))
    exit(1);
  float *data = memory(layout->rows * ROW * (int64_t)sizeof *data);
  published_read(&tensors, layout, &data, 1);
  tensors_close(&tensors);
  return data;
}

void publish(const Options *o) {
  Layout layout;
  char model[4096], config[4096];
  const char *folder = o->texts[0];
  if (!o->checkpoint) fail("publish requires --checkpoint FILE");
  if (o->text_count != 1) fail("publish requires one folder");
  if (snprintf(model, sizeof model, "%s/model.safetensors", folder) >= (int)sizeof model ||
      snprintf(config, sizeof config, "%s/config.json", folder) >= (int)sizeof config)
    fail("%s: the path is too long", folder);
  float *data = load_parameters(&layout, o->checkpoint, o->config);
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) fail("%s: %s", folder, strerror(errno));
  if (!checkpoint_write(model, &layout, (const float *[]){data}, 1, 0) ||
      !config_write(config, &layout.sizes))
    exit(1);
  free(data);
}
