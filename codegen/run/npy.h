// Arrays in .npy files.
#ifndef CODEGEN_RUN_NPY_H
#define CODEGEN_RUN_NPY_H

#include "codegen/ir/array.h"

typedef struct {
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK];
  bool fortran;
  int packed;   // elements of each byte along the last axis, which dim counts; 0: not packed
  bool opaque;  // bytes of which the file does not say whether they are i4, u4 or fp8
  size_t data_offset;
} NpyHeader;
// NULL, or what is wrong with the file. `length` is that of the whole file.
const char *npy_parse(Arena *arena, const char *bytes, size_t length, NpyHeader *header);
bool npy_holds(const NpyHeader *header, DType dtype);
// Reads only as much of the file as the header needs.
const char *npy_read_header(Arena *arena, const char *path, NpyHeader *header);
// Fills `array`, whose data has room for all elements, whose dtype and shape were checked against
// the header.
const char *npy_read_data(Arena *arena, const char *path, const NpyHeader *header,
                          HostArray *array);
// Bytes of a file of u8 as elements that share them, two of 4 bits or four of 2: the last axis gets
// `extent` elements, or as many as the bytes have room for where these are not those of `extent`.
void npy_unpack(NpyHeader *header, DType dtype, int64_t extent);
// NULL, or why it could not be written; an existing file stays whole then. `packed`: elements of
// fewer than 8 bits share bytes along the last axis, and are written as u8.
const char *npy_write(Arena *arena, const char *path, const HostArray *array, bool packed);

#endif
