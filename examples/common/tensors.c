/* Safetensors (https://github.com/huggingface/safetensors): 8 bytes of length, a header in JSON,
 * the tensors. */
#define _GNU_SOURCE
#include "tensors.h"

#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEADER = 100 << 20 };

bool wrong(const char *path, const char *format, ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (char *c = text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
  fprintf(stderr, "%s: %s: %s\n", program_name, path, text);
  return false;
}

bool file_map(const char *path, const unsigned char **map, int64_t *size) {
  struct stat about;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &about) != 0) {
    const int why = errno;
    if (file >= 0) close(file);
    return wrong(path, "%s", strerror(why));
  }
  *size = about.st_size;
  *map = (const unsigned char *)"";
  void *found = NULL;
  if (!S_ISREG(about.st_mode))
    errno = S_ISDIR(about.st_mode) ? EISDIR : EINVAL, found = MAP_FAILED;
  else if (*size > 0)
    found = mmap(NULL, (size_t)*size, PROT_READ, MAP_PRIVATE, file, 0);
  const int why = errno;
  close(file);
  if (found == MAP_FAILED) return wrong(path, "%s", strerror(why));
  if (found) *map = found;
  return true;
}

void file_unmap(const unsigned char *map, int64_t size) {
  if (size > 0) munmap((void *)(uintptr_t)map, (size_t)size);
}

Stored *tensors_add(Tensors *tensors) {
  if (tensors->count == tensors->room) {
    const int room = tensors->room ? 2 * tensors->room : 64;
    Stored *grown =
        room <= MOST_TENSORS ? realloc(tensors->at, (size_t)room * sizeof *grown) : NULL;
    if (!grown) return wrong(tensors->path, "has more than %d tensors", tensors->count), NULL;
    tensors->at = grown;
    tensors->room = room;
  }
  return memset(&tensors->at[tensors->count++], 0, sizeof(Stored));
}

static int element_bytes(const char *dtype) {
  static const struct {
    const char *name;
    int bytes;
  } dtypes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8},     {"I64", 8},
                {"U64", 8}, {"I32", 4}, {"U32", 4},  {"I16", 2},     {"U16", 2},
                {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (strcmp(dtype, dtypes[i].name) == 0) return dtypes[i].bytes;
  return 0;
}

bool stored_size_good(const Stored *stored) {
  int64_t bytes = element_bytes(stored->dtype);
  for (int axis = 0; axis < stored->axes; axis++)
    if (__builtin_mul_overflow(bytes, stored->shape[axis], &bytes)) return false;
  return bytes == stored->bytes;
}

static bool read_metadata(Tensors *tensors, Json *json) {
  if (!json_open(json, '{')) return false;
  for (bool first = true; json_more(json, '}', &first);) {
    char key[32], value[32];
    if (!json_key(json, key, sizeof key) || !json_string(json, value, sizeof value, NULL))
      return false;
    if (tensors->metadata_count == MOST_METADATA) continue;
    memcpy(tensors->metadata[tensors->metadata_count].key, key, sizeof key);
    memcpy(tensors->metadata[tensors->metadata_count++].value, value, sizeof value);
  }
  return !json->bad;
}

static bool read_shape(Stored *stored, Json *json) {
  if (!json_open(json, '[')) return false;
  for (bool first = true; json_more(json, ']', &first); stored->axes++)
    if (stored->axes == TENSOR_AXES || !json_integer(json, &stored->shape[stored->axes]))
      return false;
  return !json->bad;
}

/* {"dtype": .., "shape": [..], "data_offsets": [from, to]}; offsets count from the end of the
 * header. */
static bool read_entry(Stored *stored, Json *json, int64_t *from, int64_t *to) {
  char key[32];
  int seen = 0;
  bool inner = true;
  if (!json_open(json, '{')) return false;
  for (bool first = true; json_more(json, '}', &first);) {
    if (!json_key(json, key, sizeof key)) return false;
    if (strcmp(key, "dtype") == 0) {
      if (!json_string(json, stored->dtype, sizeof stored->dtype, NULL)) return false;
      seen |= 1;
    } else if (strcmp(key, "shape") == 0) {
      if (!read_shape(stored, json)) return false;
      seen |= 2;
    } else if (strcmp(key, "data_offsets") == 0) {
      if (!json_open(json, '[') || !json_more(json, ']', &inner) || !json_integer(json, from) ||
          !json_more(json, ']', &inner) || !json_integer(json, to) || json_more(json, ']', &inner))
        return false;
      seen |= 4;
    } else if (!json_skip(json)) {
      return false;
    }
  }
  return !json->bad && seen == 7;
}

static bool read_tensor(Tensors *tensors, Json *json, const char *name, int64_t data) {
  int64_t from = 0, to = 0;
  Stored *stored = tensors_add(tensors);
  if (!stored) return false;
  if (!read_entry(stored, json, &from, &to))
    return wrong(tensors->path, "the header does not describe the tensor %s well", name);
  memcpy(stored->name, name, strlen(name) + 1);
  if (from > to || to > tensors->size - data)
    return wrong(tensors->path,
                 "is cut short at the tensor %s: it ends at byte %" PRId64 " of %" PRId64, name,
                 from > to               ? from
                 : to > INT64_MAX - data ? to
                                         : data + to,
                 tensors->size);
  stored->data = tensors->map + data + from;
  stored->bytes = to - from;
  if (element_bytes(stored->dtype) && !stored_size_good(stored))
    return wrong(tensors->path,
                 "the tensor %s has %" PRId64 " bytes, which is not what its shape asks for", name,
                 stored->bytes);
  return true;
}

static bool read_safetensors(Tensors *tensors) {
  uint64_t header = 0;
  char name[TENSOR_NAME];
  if (tensors->size >= 8) memcpy(&header, tensors->map, 8); /* little-endian, as are the machines */
  if (header < 2 || header > MOST_HEADER || (tensors->size > 8 && tensors->map[8] != '{'))
    return wrong(tensors->path, "is not a safetensors file, nor .npz");
  if (header > (uint64_t)tensors->size - 8)
    return wrong(tensors->path,
                 "the header is cut short: it has %" PRIu64 " bytes, the file %" PRId64, header,
                 tensors->size);
  const char *text = (const char *)tensors->map + 8;
  Json json = {text, text + header, false};
  bool good = json_open(&json, '{');
  for (bool first = true; good && json_more(&json, '}', &first);) {
    const char *at = json.at;
    good = json_key(&json, name, sizeof name);
    if (good && strlen(name) + 1 == sizeof name)
      return wrong(tensors->path, "the name %.40s.. is too long", name);
    if (good && strcmp(name, "__metadata__") == 0)
      good = read_metadata(tensors, &json);
    else if (good && !read_tensor(tensors, &json, name, 8 + (int64_t)header))
      return false;
    if (!good) json.at = at;
  }
  return (good && json_end(&json)) ||
         wrong(tensors->path, "the header is not JSON of tensors at byte %td",
               json.at - (const char *)tensors->map);
}

bool tensors_open(Tensors *tensors, const char *path) {
  *tensors = (Tensors){.path = path};
  if (!file_map(path, &tensors->map, &tensors->size)) return false;
  const bool archive = tensors->size >= 4 && memcmp(tensors->map, "PK\3\4", 4) == 0;
  if (archive ? npz_read(tensors) : read_safetensors(tensors)) return true;
  tensors_close(tensors);
  return false;
}

void tensors_close(Tensors *tensors) {
  file_unmap(tensors->map, tensors->size);
  free(tensors->at);
  *tensors = (Tensors){0};
}

const Stored *tensors_find(const Tensors *tensors, const char *name) {
  for (int i = 0; i < tensors->count; i++)
    if (strcmp(tensors->at[i].name, name) == 0) return &tensors->at[i];
  return NULL;
}

const char *tensors_metadata(const Tensors *tensors, const char *key) {
  for (int i = 0; i < tensors->metadata_count; i++)
    if (strcmp(tensors->metadata[i].key, key) == 0) return tensors->metadata[i].value;
  return NULL;
}

/* ---- elements */

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static float from_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
                 fraction = half & 0x3ff;
  if (exponent == 0) return from_bits(sign | 0x3f800000) * (float)fraction * 0x1p-24F;
  return from_bits(sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13);
}

bool stored_check(const Tensors *tensors, const Stored *stored, int axes, const int64_t *shape) {
  static const char *const dtypes[] = {"F32", "F16", "BF16"};
  if (stored->axes != axes)
    return wrong(tensors->path, "the tensor %s has %d axes, not %d", stored->name, stored->axes,
                 axes);
  for (int axis = 0; axis < axes; axis++) {
    if (stored->shape[axis] != shape[axis])
      return wrong(tensors->path, "the tensor %s: axis %d is %" PRId64 ", not %" PRId64,
                   stored->name, axis, stored->shape[axis], shape[axis]);
  }
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (strcmp(stored->dtype, dtypes[i]) == 0) return true;
  return wrong(tensors->path, "the tensor %s is of %s, not of F32, F16 or BF16", stored->name,
               stored->dtype);
}

void stored_release(const Stored *stored) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                  first = ((uintptr_t)stored->data + page - 1) / page * page,
                  end = ((uintptr_t)stored->data + (uintptr_t)stored->bytes) / page * page;
  if (first < end) (void)madvise((void *)first, (size_t)(end - first), MADV_DONTNEED);
}

void stored_read(const Stored *stored, float *to) {
  const bool brain = strcmp(stored->dtype, "BF16") == 0;
  if (strcmp(stored->dtype, "F32") == 0) {
    memcpy(to, stored->data, (size_t)stored->bytes);
    return;
  }
  for (int64_t i = 0; i < stored->bytes / 2; i++) {
    uint16_t half;
    memcpy(&half, stored->data + 2 * i, 2);
    to[i] = brain ? from_bits((uint32_t)half << 16) : from_f16(half);
  }
}
