#include "sample.h"

#include "sampling.h"

void sample_tokens(pk_context *context, const Sampling *how, int64_t step, const float *logits,
                   int64_t batch, int64_t tokens, int32_t *token) {
  const int32_t number = (int32_t)step;
  Tensor rows, scalar[3], real[2], to;
  const int32_t *const integers[3] = {&how->seed, &number, &how->top_k};
  const float *const reals[2] = {&how->temperature, &how->top_p};
  VIEW(&rows, logits, kDLFloat, batch, tokens);
  for (int i = 0; i < 3; i++) view(&scalar[i], integers[i], kDLInt, 32, 0, &tokens); /* no axes */
  for (int i = 0; i < 2; i++) VIEW(&real[i], reals[i], kDLFloat, 1);
  VIEW(&to, token, kDLInt, batch, 1);
  call(context, &sampling_kernel,
       (DLTensor *[]){&rows.t, &scalar[0].t, &scalar[1].t, &real[0].t, &real[1].t, &scalar[2].t,
                      &to.t});
}
