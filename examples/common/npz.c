/* The arrays of a .npz: a ZIP archive of .npy files, as numpy.savez writes it. */
#include "tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t little(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static const char damaged[] = "the archive is damaged or cut short";

/* ---- one array: magic, version, a dict of Python, the elements */

/* What follows 'KEY': in the dict; NULL: nothing. */
static const char *dict_value(const char *text, const char *key) {
  char quoted[32];
  (void)snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *found = strstr(text, quoted);
  return found ? found + strlen(quoted) + strspn(found + strlen(quoted), " ") : NULL;
}

static bool read_dtype(Stored *stored, const char *text) {
  static const char *const names[][2] = {{"'<f4'", "F32"}, {"'<f2'", "F16"}, {"'<f8'", "F64"},
                                         {"'<i4'", "I32"}, {"'<i8'", "I64"}, {"'|i1'", "I8"},
                                         {"'|u1'", "U8"},  {"'|b1'", "BOOL"}};
  for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
    if (strncmp(text, names[i][0], 5) == 0) return strcpy(stored->dtype, names[i][1]), true;
  return false;
}

static bool read_shape(Stored *stored, const char *text) {
  if (!text || *text++ != '(') return false;
  for (;;) {
    text += strspn(text, " ,");
    if (*text == ')') return true;
    int64_t extent = 0;
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 15 || stored->axes == TENSOR_AXES) return false;
    for (size_t i = 0; i < digits; i++) extent = extent * 10 + (*text++ - '0');
    stored->shape[stored->axes++] = extent;
  }
}

static bool read_array(Tensors *tensors, Stored *stored, const unsigned char *bytes, int64_t size) {
  char text[1024];
  const int wide =
      size > 6 && bytes[6] > 1 ? 4 : 2; /* of the header's length: versions 1; 2 and 3 */
  if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0)
    return wrong(tensors->path, "%s is not an array", stored->name);
  const uint64_t length = little(bytes + 8, wide);
  if (length >= sizeof text || (int64_t)length > size - 8 - wide)
    return wrong(tensors->path, "%s: the array's header is too long", stored->name);
  memcpy(text, bytes + 8 + wide, length);
  text[length] = 0;
  const char *order = dict_value(text, "fortran_order");
  if (!read_dtype(stored, dict_value(text, "descr")))
    return wrong(tensors->path, "%s: the array's dtype is not one of NumPy's own, little-endian",
                 stored->name);
  if (!order || strncmp(order, "False", 5) != 0)
    return wrong(tensors->path, "%s: its rows are not in C order", stored->name);
  if (!read_shape(stored, dict_value(text, "shape")))
    return wrong(tensors->path, "%s: the array has no good shape", stored->name);
  stored->data = bytes + 8 + wide + length;
  stored->bytes = size - 8 - wide - (int64_t)length;
  return stored_size_good(stored) ||
         wrong(tensors->path, "is cut short at the tensor %s", stored->name);
}

/* ---- the archive */

typedef struct {
  uint64_t entries, size, at; /* of the directory */
} Directory;

static bool find_directory(const Tensors *tensors, Directory *directory) {
  const unsigned char *map = tensors->map;
  for (int64_t at = tensors->size - 22; at >= 0 && at >= tensors->size - 22 - 65535; at--) {
    if (memcmp(map + at, "PK\5\6", 4) != 0) continue;
    *directory =
        (Directory){little(map + at + 10, 2), little(map + at + 12, 4), little(map + at + 16, 4)};
    if (directory->entries != 0xffff && directory->at != 0xffffffff &&
        directory->size != 0xffffffff)
      return true;
    if (at < 20 || memcmp(map + at - 20, "PK\6\7", 4) != 0) return false;
    const uint64_t wide = little(map + at - 12, 8);
    if (tensors->size < 56 || wide > (uint64_t)tensors->size - 56 ||
        memcmp(map + wide, "PK\6\6", 4) != 0)
      return false;
    *directory = (Directory){little(map + wide + 32, 8), little(map + wide + 40, 8),
                             little(map + wide + 48, 8)};
    return true;
  }
  return false;
}

/* An entry's size and place; those of more than 4 GB are in its extra field. */
static bool entry_numbers(const unsigned char *entry, uint64_t name, uint64_t extra,
                          uint64_t numbers[3]) {
  static const int places[3] = {24, 20, 42}; /* size, size in the archive, place */
  const unsigned char *field = entry + 46 + name, *end = field + extra;
  for (int i = 0; i < 3; i++) numbers[i] = little(entry + places[i], 4);
  while (end - field >= 4 && little(field, 2) != 1) {
    const uint64_t length = little(field + 2, 2);
    if (length > (uint64_t)(end - field - 4)) return false;
    field += 4 + length;
  }
  field += 4;
  for (int i = 0; i < 3; i++) {
    if (numbers[i] != 0xffffffff) continue;
    if (end - field < 8) return false;
    numbers[i] = little(field, 8);
    field += 8;
  }
  return true;
}

static bool read_entry(Tensors *tensors, const unsigned char *entry, uint64_t name_length,
                       uint64_t extra) {
  const uint64_t size = (uint64_t)tensors->size;
  uint64_t numbers[3];
  if (!entry_numbers(entry, name_length, extra, numbers)) return wrong(tensors->path, damaged);
  if (name_length > 8 && memcmp(entry + 46 + name_length - 9, "/data.pkl", 9) == 0)
    return wrong(tensors->path,
                 "is a file of torch.save: write one with "
                 "safetensors.torch.save_file(model.state_dict(), FILE)");
  if (name_length < 4 || memcmp(entry + 46 + name_length - 4, ".npy", 4) != 0) return true;
  name_length -= 4;
  Stored *stored = tensors_add(tensors);
  if (!stored) return false;
  if (name_length >= sizeof stored->name)
    return wrong(tensors->path, "a name of %" PRIu64 " bytes is too long", name_length);
  memcpy(stored->name, entry + 46, name_length);
  if (little(entry + 10, 2) != 0)
    return wrong(tensors->path, "%s is compressed: write the file with numpy.savez", stored->name);
  const uint64_t local = numbers[2];
  if (size < 30 || local > size - 30 || memcmp(tensors->map + local, "PK\3\4", 4) != 0)
    return wrong(tensors->path, damaged);
  const uint64_t data =
      local + 30 + little(tensors->map + local + 26, 2) + little(tensors->map + local + 28, 2);
  if (data > size || numbers[0] > size - data)
    return wrong(tensors->path, "is cut short at the tensor %s", stored->name);
  return read_array(tensors, stored, tensors->map + data, (int64_t)numbers[0]);
}

bool npz_read(Tensors *tensors) {
  Directory directory;
  const uint64_t size = (uint64_t)tensors->size;
  if (!find_directory(tensors, &directory) || directory.at > size ||
      directory.size > size - directory.at)
    return wrong(tensors->path, damaged);
  const unsigned char *at = tensors->map + directory.at, *end = at + directory.size;
  for (uint64_t i = 0; i < directory.entries; i++) {
    if (end - at < 46 || memcmp(at, "PK\1\2", 4) != 0) return wrong(tensors->path, damaged);
    const uint64_t name = little(at + 28, 2), extra = little(at + 30, 2),
                   whole = 46 + name + extra + little(at + 32, 2);
    if ((uint64_t)(end - at) < whole) return wrong(tensors->path, damaged);
    if (!read_entry(tensors, at, name, extra)) return false;
    at += whole;
  }
  return true;
}
