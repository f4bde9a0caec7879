/* sample.h: the choice of the next tokens, by kernels/sampling.pk. */
#ifndef EXAMPLES_SAMPLE_H
#define EXAMPLES_SAMPLE_H

#include "host.h"

typedef struct {
  int32_t seed, top_k;
  float temperature, top_p;
} Sampling;

/* One token for each row of logits, f32[batch, tokens]. It depends on the row, the seed and `step`
 * alone. */
void sample_tokens(pk_context *context, const Sampling *how, int64_t step, const float *logits,
                   int64_t batch, int64_t tokens, int32_t *token);

#endif
