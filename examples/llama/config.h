/* config.h: config.json of a Llama, Mistral, Qwen or Gemma, and the statics of its kernels. */
#ifndef LLAMA_CONFIG_H
#define LLAMA_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

/* More are refused: no number of bytes then passes 63 bits. */
enum { MOST_LAYERS = 1 << 12, MOST_FEATURES = 1 << 20, MOST_TOKENS = 1 << 24 };

typedef enum { LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA2, GEMMA3, FAMILIES } Family;

/* 0 where the model has none of it. */
typedef struct {
  Family family;
  int64_t features, inner, layers, heads, groups, head, tokens, positions;
  int64_t window, period; /* of `period` layers the last sees all positions */
  double epsilon, scale, cap, cap_logits, base, local_base;
  int scaling, local_scaling, activation; /* as kernels/rope.pk and kernels/glu.pk number them */
  double factor, original, low, high, attention;
  bool truncate, tied;
} Config;

/* Members that this program does not know, and values that its kernels do not compute, are refused
 * by name: false, with a message. */
bool config_read(Config *config, const char *path);
bool config_is_gemma(const Config *config);

enum { STATICS = 1024 };
/* The options of pkc that compile the kernels for the model. */
void config_statics(const Config *config, char text[STATICS]);

#endif
