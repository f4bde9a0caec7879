/* model.h: the sizes and parameters of a GPT-2, in one piece of memory. */
#ifndef GPT2_MODEL_H
#define GPT2_MODEL_H

#include "tensors.h"

#include <pk/pk.h>
#include <stdbool.h>
#include <stdio.h>

/* In the order of the programs' operands. */
enum { WTE, WPE, LN1, WQKV, BQKV, WO, BO, LN2, WUP, BUP, WDOWN, BDOWN, LNF, PARAMETERS };
enum { ROW = 4096, NAME_LENGTH = 16, MOST_AXES = 5 };
/* More are refused: no number of bytes then passes 63 bits. */
enum { MOST_LAYERS = 1 << 12, MOST_FEATURES = 1 << 20, MOST_TOKENS = 1 << 24 };

typedef struct {
  int64_t layers, heads, features, positions, tokens;
} Sizes;

/* Parameters in the order of the programs' operands; each is `data + start[i]`, of `shape[i]`.
 * Memory has first the matrices, which decay, then the rest, each part filled up to whole rows of
 * ROW. */
typedef struct {
  Sizes sizes;
  int64_t start[PARAMETERS], shape[PARAMETERS][MOST_AXES];
  int64_t matrix_rows, rows;
} Layout;

extern const char *const parameter_names[PARAMETERS];
extern const int parameter_axes[PARAMETERS];

void layout_make(Layout *layout, const Sizes *sizes);
int64_t parameter_count(const Layout *layout, int i);
/* The start of training: normal deviates of 0.02, scaled down by the root of the number of layers
 * where a residual is added to. */
void parameters_initialise(const Layout *layout, float *data, uint64_t seed);

/* Bits that depend on the seed and the counter alone: SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t random_bits(uint64_t seed, uint64_t counter);
/* Uniform in [0, 1). */
double random_unit(uint64_t seed, uint64_t counter);

/* ---- checkpoint.c: what training writes */

/* Parameters, and the two means of the optimiser as NAME.m and NAME.v; `step` in the metadata. The
 * file appears whole or not at all. False, with a message on standard error, as all of these. */
bool checkpoint_write(const char *path, const Layout *layout, const float *parts[3], int64_t step);
bool checkpoint_is_own(const Tensors *tensors);
bool checkpoint_sizes(const Tensors *tensors, Sizes *sizes, int64_t *step);
/* Whether `parts` of the three are there, each tensor of its shape: before there is memory for
 * them. */
bool checkpoint_check(const Tensors *tensors, const Layout *layout, int parts);
void checkpoint_read(const Tensors *tensors, const Layout *layout, float *const *to, int parts);

/* ---- published.c: the tensors of published checkpoints, by the names that Hugging Face gives them
 */

/* The sizes follow from the shapes, except the number of heads, which is 0. */
bool published_sizes(const Tensors *tensors, Sizes *sizes);
/* Whether every tensor is there, once and of its shape: before there is memory for them. */
bool published_check(const Tensors *tensors, const Layout *layout);
void published_read(const Tensors *tensors, const Layout *layout, float *parameters);

#endif
