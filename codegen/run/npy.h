// Arrays in .npy files.
#ifndef CODEGEN_RUN_NPY_H
#define CODEGEN_RUN_NPY_H

#include "codegen/ir/array.h"

typedef struct {
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK];
  bool fortran;
  int packed;  // elements of each byte along the last axis, whose extent counts them; 0: not packed
  bool opaque;  // bytes of i4, u4 or fp8: the file does not say which
  size_t data_offset;
} NpyHeader;
// Returns NULL, or an error message about the file. `length` is the length of the whole file.
const char *npy_parse(Arena *arena, const char *bytes, size_t length, NpyHeader *header);
bool npy_holds(const NpyHeader *header, DType dtype);
// Reads only the part of the file that contains the header.
const char *npy_read_header(Arena *arena, const char *path, NpyHeader *header);
// Fills `array`, whose data has room for all elements; dtype and shape must match the header.
const char *npy_read_data(Arena *arena, const char *path, const NpyHeader *header,
                          HostArray *array);
// Treats the bytes of a file of u8 as packed elements, two of 4 bits or four of 2: the last axis
// gets `extent` elements or, if the number of bytes does not match, as many as the bytes hold.
void npy_unpack(NpyHeader *header, DType dtype, int64_t extent);
// NULL, or why it could not be written; then an existing file is unchanged. `packed`: elements of
// fewer than 8 bits share bytes along the last axis, and are written as u8.
const char *npy_write(Arena *arena, const char *path, const HostArray *array, bool packed);

#endif
