/* model.h: the weights of a Llama, Mistral, Qwen or Gemma, as the program of kernels takes them. */
#ifndef LLAMA_MODEL_H
#define LLAMA_MODEL_H

#include "config.h"
#include "host.h"

/* In the order of the program's operands. */
typedef enum {
  TABLE,
  HEAD,
  LNF,
  LN1,
  WQ,
  WK,
  WV,
  WO,
  POST1,
  LN2,
  WG,
  WU,
  WD,
  POST2,
  BQ,
  BK,
  BV,
  NQ,
  NK,
  ROLES
} Role;

/* GROUP: elements of a row that share a scale, of 4 bits and of rounded activations. */
enum { GROUP = 32 };

typedef struct {
  const char *name;
  DLDataTypeCode code;
  int bits, cache_bits; /* of keys and values: floats */
} Weights;

typedef struct {
  Config config;
  const Weights *weights;
  bool rounds; /* what matrices multiply, to bytes with a scale for GROUP elements */
  void *weight[ROLES], *scale[ROLES]; /* scale: of matrices alone */
} Model;

const Weights *weights_find(const char *name); /* NULL: there is none of this name */
bool role_is_matrix(Role role);
/* A role has `parts` matrices or vectors, one a layer, or a single one. */
void role_shape(const Config *config, Role role, int64_t *parts, int64_t *rows, int64_t *columns);

/* Ends the program, with a message, where a file does not fit. All names, shapes and dtypes are
 * compared before there is memory. */
void model_load(Model *model, const char *folder, pk_context *context);
void model_free(Model *model);
void model_view(const Model *model, Role role, Tensor *weight, Tensor *scale);

#endif
