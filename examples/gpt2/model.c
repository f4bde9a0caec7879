/* The parameters of a GPT-2: names, shapes, places and first values. */
#include "model.h"

#include <math.h>
#include <string.h>

const char *const parameter_names[PARAMETERS] = {"wte", "wpe", "ln1", "wqkv",  "bqkv",  "wo", "bo",
                                                 "ln2", "wup", "bup", "wdown", "bdown", "lnf"};
const int parameter_axes[PARAMETERS] = {2, 2, 3, 3, 2, 3, 2, 3, 3, 2, 3, 2, 2};

static bool is_matrix(int i) { return parameter_names[i][0] == 'w'; }

int64_t parameter_count(const Layout *layout, int i) {
  int64_t count = 1;
  for (int axis = 0; axis < parameter_axes[i]; axis++) count *= layout->shape[i][axis];
  return count;
}

void layout_make(Layout *layout, const Sizes *s) {
  const int64_t L = s->layers, C = s->features;
  const int64_t shapes[PARAMETERS][MOST_AXES] = {
      {s->tokens, C}, {s->positions, C}, {L, 2, C},  {L, C, 3 * C}, {L, 3 * C}, {L, C, C}, {L, C},
      {L, 2, C},      {L, C, 4 * C},     {L, 4 * C}, {L, 4 * C, C}, {L, C},     {2, C}};
  *layout = (Layout){.sizes = *s};
  memcpy(layout->shape, shapes, sizeof shapes);
  int64_t used = 0;
  for (int part = 0; part < 2; part++) {
    for (int i = 0; i < PARAMETERS; i++) {
      if (is_matrix(i) != (part == 0)) continue;
      layout->start[i] = used;
      used += parameter_count(layout, i);
    }
    used = (used + ROW - 1) / ROW * ROW;
    if (part == 0) layout->matrix_rows = used / ROW;
  }
  layout->rows = used / ROW;
}

uint64_t random_bits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

double random_unit(uint64_t seed, uint64_t counter) {
  return (double)(random_bits(seed, counter) >> 11) * 0x1p-53;
}

static double random_normal(uint64_t seed, uint64_t counter) {
  const double two_pi = 6.283185307179586;
  double u = 1 - random_unit(seed, 2 * counter), v = random_unit(seed, 2 * counter + 1);
  return sqrt(-2 * log(u)) * cos(two_pi * v);
}

void parameters_initialise(const Layout *layout, float *data, uint64_t seed) {
  const double residual = 1 / sqrt(2.0 * (double)layout->sizes.layers);
  memset(data, 0, (size_t)(layout->rows * ROW) * sizeof *data);
  for (int i = 0; i < PARAMETERS; i++) {
    const char *name = parameter_names[i];
    float *p = data + layout->start[i];
    const int64_t count = parameter_count(layout, i), C = layout->sizes.features;
    const double deviation =
        0.02 * (strcmp(name, "wo") == 0 || strcmp(name, "wdown") == 0 ? residual : 1);
    if (is_matrix(i))
      for (int64_t n = 0; n < count; n++)
        p[n] = (float)(deviation * random_normal(seed + (uint64_t)i, (uint64_t)n));
    if (strncmp(name, "ln", 2) == 0) /* scales, then shifts */
      for (int64_t n = 0; n < count; n++) p[n] = n / C % 2 == 0;
  }
}
