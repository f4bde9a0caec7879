/* tensors.h: files of named arrays, read in place: safetensors, and .npz that is not
 * compressed. */
#ifndef EXAMPLES_TENSORS_H
#define EXAMPLES_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TENSOR_NAME = 128, TENSOR_AXES = 8, MOST_TENSORS = 1 << 16, MOST_METADATA = 16 };

typedef struct {
  char name[TENSOR_NAME], dtype[8]; /* as safetensors calls it: F32, F16, BF16, .. */
  int axes;
  int64_t shape[TENSOR_AXES];
  const unsigned char *data;
  int64_t bytes;
} Stored;

typedef struct {
  const char *path;
  const unsigned char *map;
  int64_t size;
  Stored *at;
  int count, room;
  struct {
    char key[32], value[32];
  } metadata[MOST_METADATA];
  int metadata_count;
} Tensors;

extern const char program_name[]; /* messages begin with it */

/* Says on standard error, in one line, what is wrong with a file; false. Names come from the file:
 * their control characters are shown as `?`. */
bool wrong(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A whole file in memory; false, with a message. */
bool file_map(const char *path, const unsigned char **map, int64_t *size);
void file_unmap(const unsigned char *map, int64_t size);

/* All tensors are within the file and have as many bytes as their shapes say. */
bool tensors_open(Tensors *tensors, const char *path);
void tensors_close(Tensors *tensors);
const Stored *tensors_find(const Tensors *tensors, const char *name);
const char *tensors_metadata(const Tensors *tensors, const char *key); /* NULL: none */

/* Whether the tensor has this shape and is of F32, F16 or BF16. */
bool stored_check(const Tensors *tensors, const Stored *stored, int axes, const int64_t *shape);
/* Copies the elements as f32. */
void stored_read(const Stored *stored, float *to);
/* The tensor has been read: its pages need not stay in memory. */
void stored_release(const Stored *stored);

/* npz.c: the arrays of an archive, added to the tensors. */
bool npz_read(Tensors *tensors);
Stored *tensors_add(Tensors *tensors);       /* NULL, with a message */
bool stored_size_good(const Stored *stored); /* as many bytes as its shape asks for */

#endif
