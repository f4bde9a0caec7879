/* config.h: config.json of a published checkpoint, which says what the shapes of tensors do not. */
#ifndef GPT2_CONFIG_H
#define GPT2_CONFIG_H

#include "model.h"

/* Sets the number of heads, and compares the rest with what the kernels compute and the tensors
 * have. `given`: the file, or NULL for config.json in the checkpoint's folder; without one, or
 * where it does not say, a note says what is assumed. False, with a message, where something does
 * not fit.
 */
bool config_apply(const char *given, const char *checkpoint, int64_t head_features, Sizes *sizes);
/* What transformers asks for. False, with a message. */
bool config_write(const char *path, const Sizes *sizes);

#endif
