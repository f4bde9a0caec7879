/* model.h: the sizes and parameters of a GPT-2, in one piece of memory. */
#ifndef GPT2_MODEL_H
#define GPT2_MODEL_H

#include "tensors.h"

#include <pk/pk.h>
#include <stdbool.h>
#include <stdio.h>

/* In the order of the programs' operands. */
enum { WTE, WPE, LN1, WQKV, BQKV, WO, BO, LN2, WUP, BUP, WDOWN, BDOWN, LNF, PARAMETERS };
enum { ROW = 4096, MOST_AXES = 5 };
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

/* ---- published.c: tensors by the names that Hugging Face gives them. Training adds the two means
 * of the optimiser, whose names end in .m and .v: a file has one part, or all PARTS. */

enum { PARTS = 3 };

/* The sizes follow from the shapes, except the number of heads, which is 0. False, with a message
 * on standard error, as all of these. */
bool published_sizes(const Tensors *tensors, Sizes *sizes);
/* Whether every tensor of the parts is there, once and of its shape: with `to` NULL, before there
 * is memory for them. Else reads them. */
bool published_read(const Tensors *tensors, const Layout *layout, float *const *to, int parts);
/* The members of a safetensors header, each after a comma, and the elements in their order. */
void published_entries(FILE *file, const Layout *layout, int parts);
bool published_elements(FILE *file, const Layout *layout, const float *const *from, int parts);

/* ---- checkpoint.c: what training writes, with the number of heads and the step in the metadata */

/* One part has no step: a published model. The file appears whole or not at all. */
bool checkpoint_write(const char *path, const Layout *layout, const float *const *from, int parts,
                      int64_t step);
bool checkpoint_is_own(const Tensors *tensors);
bool checkpoint_sizes(const Tensors *tensors, Sizes *sizes, int64_t *step);

#endif
