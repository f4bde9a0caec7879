// The data of operands of check, run and bench: files and generated numbers (docs/cli.md defines
// how they are drawn).
#include "codegen/ir/share.h"
#include "codegen/run/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- reading the text of an INPUT

static bool parse_number(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return *text && !*end;
}

static bool parse_seed(const char *text, uint64_t *seed) {
  if (!*text || strspn(text, "0123456789") != strlen(text)) return false;
  errno = 0;
  *seed = strtoull(text, NULL, 10);
  return errno == 0;
}

static const char *parse_randint(Arena *arena, const char *text, InputSpec *spec) {
  const char *words[3] = {text, NULL, NULL};
  for (int i = 1; i < 3; i++) {
    char *copy = arena_strndup(arena, words[i - 1], strlen(words[i - 1])),
         *colon = strchr(copy, ':');
    if (!colon) return "is invalid: expected randint:LOW:HIGH:SEED";
    *colon = 0;
    words[i - 1] = copy;
    words[i] = colon + 1;
  }
  spec->kind = INPUT_RANDINT;
  if (!parse_int(words[0], &spec->low) || !parse_int(words[1], &spec->high) ||
      !parse_seed(words[2], &spec->seed))
    return "is invalid: expected randint:LOW:HIGH:SEED";
  return spec->low < spec->high ? NULL : "is invalid: LOW must be below HIGH";
}

static bool is_file_of_others(const char *text) {
  static const char *const endings[] = {".npz",         ".pt", ".pth", ".ckpt",
                                        ".safetensors", ".h5", ".pkl"};
  const char *dot = strrchr(text, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
    if (strcmp(dot, endings[i]) == 0) return true;
  return false;
}

const char *input_parse(Arena *arena, const char *text, InputSpec *spec) {
  *spec = (InputSpec){.text = text};
  size_t length = strlen(text);
  if (strcmp(text, "iota") == 0)
    spec->kind = INPUT_IOTA;
  else if (strcmp(text, "zeros") == 0)
    spec->kind = INPUT_CONST;
  else if (strcmp(text, "ones") == 0)
    *spec = (InputSpec){.kind = INPUT_CONST, .value = 1, .text = text};
  else if (strncmp(text, "randint:", 8) == 0)
    return parse_randint(arena, text + 8, spec);
  else if (strncmp(text, "patterns:", 9) == 0) {
    spec->kind = INPUT_PATTERNS;
    return parse_seed(text + 9, &spec->seed) ? NULL : "is invalid: expected patterns:SEED";
  } else if (strncmp(text, "random:", 7) == 0)
    return parse_seed(text + 7, &spec->seed) ? NULL : "is invalid: expected random:SEED";
  else if (strncmp(text, "const:", 6) == 0) {
    spec->kind = INPUT_CONST;
    return parse_number(text + 6, &spec->value) ? NULL : "is invalid: expected const:NUMBER";
  } else if (length > 4 && strcmp(text + length - 4, ".npy") == 0) {
    spec->kind = INPUT_FILE;
    spec->path = text;
  } else if (is_file_of_others(text)) {
    return "is not a .npy file: save each array of it with numpy.save(\"NAME.npy\", array), "
           "tensors of PyTorch with tensor.numpy()";
  } else {
    return "is neither a .npy file nor random:SEED, randint:LOW:HIGH:SEED, patterns:SEED, iota, "
           "zeros, ones or const:V";
  }
  return NULL;
}

// ---- numbers from counters: draw n of a stream needs no other draw

// splitmix64's finisher.
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t stream_key(uint64_t seed, int stream) {
  return mix(mix(seed + golden) + ((uint64_t)stream + 1) * golden);
}
static uint64_t draw(uint64_t key, uint64_t n) { return mix(key + (n + 1) * golden); }
static double unit(uint64_t bits) { return ((double)(bits >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)

// Box and Muller: elements 2i and 2i + 1 are the cosine and the sine of draws 2i (radius) and 2i +
// 1 (angle).
static void fill_normal(HostArray *array, int64_t count, uint64_t key) {
  for (int64_t i = 0; i < count; i += 2) {
    double radius = sqrt(-2 * log(unit(draw(key, (uint64_t)i))));
    double angle = 6.283185307179586 * unit(draw(key, (uint64_t)i + 1));
    array_set(array, i, radius * cos(angle));
    if (i + 1 < count) array_set(array, i + 1, radius * sin(angle));
  }
}

// Exact for 64 bits too, unlike array_set, which uses a double.
static void set_int(HostArray *array, int64_t index, int64_t value) {
  if (is_wide(array->dtype) && is_integer(array->dtype))
    array_set_int(array, index, value);
  else
    array_set(array, index, (double)value);
}

// const:V for 64-bit integers, with all digits of V.
static bool wide_constant(const InputSpec *spec, DType dtype, int64_t *value) {
  const char *text = strncmp(spec->text, "const:", 6) == 0 ? spec->text + 6 : spec->text;
  if (!is_wide(dtype) || !is_integer(dtype)) return false;
  if (parse_int(text, value)) return dtype == DT_I64 || *value >= 0;
  uint64_t number;
  bool fits = parse_seed(text, &number) && dtype == DT_U64;
  *value = (int64_t)number;
  return fits;
}

static void fill_constant(HostArray *array, int64_t count, const InputSpec *spec) {
  int64_t whole;
  bool exact = wide_constant(spec, array->dtype, &whole);
  double value = array->dtype == DT_BOOL ? spec->value != 0 : spec->value;
  for (int64_t i = 0; i < count; i++)
    if (exact)
      array_set_int(array, i, whole);
    else
      array_set(array, i, value);
}

static void fill_integers(HostArray *array, int64_t count, uint64_t key, int64_t low,
                          int64_t high) {
  uint64_t span = (uint64_t)high - (uint64_t)low;
  for (int64_t i = 0; i < count; i++) {
    uint64_t part = (uint64_t)(((unsigned __int128)draw(key, (uint64_t)i) * span) >> 64);
    set_int(array, i, (int64_t)((uint64_t)low + part));
  }
}

static void fill_random(HostArray *array, int64_t count, uint64_t key) {
  if (is_float(array->dtype))
    fill_normal(array, count, key);
  else if (array->dtype == DT_BOOL)
    fill_integers(array, count, key, 0, 2);
  else if (dtype_info[array->dtype].class == CLASS_UNSIGNED)
    fill_integers(array, count, key, 0, 8);
  else
    fill_integers(array, count, key, -8, 8);
}

// ---- patterns: NaN, infinities, zeros, subnormals and small numbers

enum { PATTERN_NAN, PATTERN_INFINITY, PATTERN_ZERO, PATTERN_SUBNORMAL };

// For a dtype with infinities; a quiet NaN.
static uint64_t ieee_pattern(const DTypeInfo *t, int kind, uint64_t rest) {
  const uint64_t fraction = (UINT64_C(1) << (t->precision - 1)) - 1;
  const uint64_t exponent = ((UINT64_C(1) << (t->bits - 1)) - 1) & ~fraction;
  if (kind == PATTERN_NAN)
    return exponent | (fraction ^ (fraction >> 1)) | (rest & fraction >> 1 & ~UINT64_C(1));
  if (kind == PATTERN_INFINITY) return exponent;
  return kind == PATTERN_ZERO ? 0 : rest & fraction;
}

// The bits of a draw, unless it is an ordinary number (false).
static bool is_pattern(const DTypeInfo *t, uint64_t drawn, uint64_t *bits) {
  const int kind = (int)(drawn >> 61);
  const uint64_t sign = (drawn >> 60 & 1) << (t->bits - 1);
  switch (t->special) {
    case SPECIAL_IEEE:
      *bits = sign | ieee_pattern(t, kind, drawn);
      return kind <= PATTERN_SUBNORMAL;
    case SPECIAL_FN:
      *bits = sign | (kind == PATTERN_NAN ? 0x7f : 0);
      return kind == PATTERN_NAN || kind == PATTERN_ZERO;
    default:
      *bits = t->special == SPECIAL_SCALE ? 0xff : 0x80;
      return kind == PATTERN_NAN;
  }
}

static void set_bits(HostArray *array, int64_t index, uint64_t bits) {
  const size_t bytes = (size_t)dtype_bytes(array->dtype);
  const uint8_t narrow = (uint8_t)bits;
  const uint16_t half = (uint16_t)bits;
  const uint32_t single = (uint32_t)bits;
  memcpy((char *)array->data + (size_t)index * bytes,
         bytes == 1   ? (const void *)&narrow
         : bytes == 2 ? (const void *)&half
         : bytes == 4 ? (const void *)&single
                      : (const void *)&bits,
         bytes);
}

static void fill_patterns(HostArray *array, int64_t count, uint64_t key) {
  const DTypeInfo *t = &dtype_info[array->dtype];
  for (int64_t i = 0; i < count; i++) {
    const uint64_t drawn = draw(key, (uint64_t)i);
    uint64_t bits;
    if (is_float(array->dtype) && is_pattern(t, drawn, &bits))
      set_bits(array, i, bits);
    else
      array_set(array, i, (double)(drawn % 4 + 1));
  }
}

static const char *check_file(Arena *arena, const InputSpec *spec, const HostArray *array) {
  const NpyHeader *header = &spec->header;
  bool same = header->rank == array->rank &&
              memcmp(header->dim, array->dim, sizeof(int64_t) * (size_t)array->rank) == 0;
  if (!npy_holds(header, array->dtype) || !same)
    return arena_printf(arena, "%s has changed while it was read", spec->path);
  return npy_read_data(arena, spec->path, header, (HostArray *)array);
}

// ---- one file per device

static const char in_name[] = "{device}";

bool has_pieces(const char *path) { return strstr(path, in_name) != NULL; }

const char *piece_path(Arena *arena, const char *path, int device) {
  const char *at = strstr(path, in_name);
  if (!at) return path;
  return arena_printf(arena, "%.*s%d%s", (int)(at - path), path, device, at + sizeof in_name - 1);
}

static const char *read_piece(Arena *arena, const char *path, HostArray *part) {
  NpyHeader header;
  int64_t count;
  const char *wrong = npy_read_header(arena, path, &header);
  if (wrong) return arena_printf(arena, "%s: %s", path, wrong);
  if (header.rank != part->rank || !npy_holds(&header, part->dtype) ||
      memcmp(header.dim, part->dim, sizeof(int64_t) * (size_t)part->rank) != 0)
    return arena_printf(arena, "%s: expected the dtype and shape of the other devices' files",
                        path);
  array_elements(part, &count);
  part->data = malloc((size_t)(count * dtype_bytes(part->dtype)) + 1);
  if (!part->data) return "no memory for a device's part";
  return npy_read_data(arena, path, &header, part);
}

static const char *fill_pieces(Arena *arena, const InputSpec *spec, HostArray *array) {
  const char *wrong = NULL;
  for (int i = 0; i < ir_device_count(spec->kernel) && !wrong; i++) {
    const char *path = piece_path(arena, spec->path, i);
    Share share = device_share(spec->kernel, spec->operand, array, i);
    share.part.data = NULL;
    wrong = read_piece(arena, path, &share.part);
    Rows rows = rows_of(&share, array);
    if (!wrong) visit_rows(&share, array, share.first ? give_row : compare_row, &rows);
    if (rows.differs >= 0)
      wrong =
          arena_printf(arena, "%s differs from an earlier device's copy of the same part", path);
    free(share.part.data);
  }
  return wrong;
}

static void raise_plane(const InputSpec *spec, HostArray *array, int64_t count) {
  int64_t inner = 1;
  for (int i = spec->axis + 1; i < array->rank; i++) inner *= array->dim[i];
  for (int64_t e = 0; e < count && spec->raised; e++)
    if (e / inner % array->dim[spec->axis] == spec->index) array_set(array, e, spec->to);
}

const char *input_fill(Arena *arena, const InputSpec *spec, int stream, HostArray *array) {
  int64_t count;
  if (!array_elements(array, &count)) return "the array is too large";
  uint64_t key = stream_key(spec->seed, stream);
  switch (spec->kind) {
    case INPUT_RANDOM:
      fill_random(array, count, key);
      break;
    case INPUT_RANDINT:
      fill_integers(array, count, key, spec->low, spec->high);
      break;
    case INPUT_PATTERNS:
      fill_patterns(array, count, key);
      break;
    case INPUT_FILE:
      return spec->kernel ? fill_pieces(arena, spec, array) : check_file(arena, spec, array);
    case INPUT_ARRAY:
      memcpy(array->data, spec->array->data, (size_t)count * (size_t)dtype_bytes(array->dtype));
      return NULL;
    case INPUT_CONST:
      fill_constant(array, count, spec);
      break;
    case INPUT_IOTA:
      for (int64_t i = 0; i < count; i++) set_int(array, i, array->dtype == DT_BOOL ? i & 1 : i);
      break;
  }
  raise_plane(spec, array, count);
  return NULL;
}
