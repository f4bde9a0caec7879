// NumPy's .npy files: versions 1 to 3, little-endian.
#define _GNU_SOURCE
#include "codegen/run/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NPY_MAGIC = 6, NPY_HEADER_MOST = 1 << 20 };

// ---- the header's text: a Python dictionary of three keys

typedef struct {
  const char *at, *end;
  Arena *arena;
} Reader;

static void skip_blanks(Reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
}

static bool accept(Reader *r, char c) {
  skip_blanks(r);
  if (r->at >= r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool accept_word(Reader *r, const char *word) {
  skip_blanks(r);
  size_t length = strlen(word);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

// 'text' or "text" without escapes, as NumPy writes it; NULL: there is none.
static const char *read_string(Reader *r) {
  skip_blanks(r);
  if (r->at >= r->end || (*r->at != '\'' && *r->at != '"')) return NULL;
  const char *start = r->at + 1, *close = memchr(start, *r->at, (size_t)(r->end - start));
  if (!close) return NULL;
  r->at = close + 1;
  return arena_strndup(r->arena, start, (size_t)(close - start));
}

static bool read_extent(Reader *r, int64_t *value) {
  skip_blanks(r);
  const char *start = r->at;
  for (*value = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (!mul_i64(*value, 10, value) || !add_i64(*value, *r->at - '0', value)) return false;
  bool digits = r->at > start && (*start != '0' || r->at == start + 1);  // in Python 08 is an error
  if (digits && r->at < r->end && *r->at == 'L') r->at++;  // files that Python 2 wrote
  return digits;
}

static const char *read_shape(Reader *r, NpyHeader *header) {
  if (!accept(r, '(')) return "its shape is malformed";
  for (header->rank = 0; !accept(r, ')');) {
    int64_t extent;
    if (!read_extent(r, &extent)) return "its shape is malformed";
    if (header->rank == MAX_RANK)
      return arena_printf(r->arena, "it has more than %d axes", MAX_RANK);
    header->dim[header->rank++] = extent;
    if (!accept(r, ',')) {
      if (header->rank == 1 || !accept(r, ')')) return "its shape is malformed";
      break;
    }
  }
  return NULL;
}

static const char *read_descr(Reader *r, NpyHeader *header) {
  skip_blanks(r);
  if (r->at < r->end && *r->at == '[') return "it holds records, not numbers";
  const char *descr = read_string(r);
  if (!descr) return "its dtype is malformed";
  char order = descr[0];
  if (order == '>')
    return arena_printf(r->arena, "its dtype %s is big-endian; save it as little-endian", descr);
  for (int t = 0; t < DT_COUNT; t++) {
    const char *code = dtype_info[t].npy;
    bool no_order = dtype_bytes((DType)t) == 1 || t == DT_BF16;
    if ((order == '<' || order == '=' || (order == '|' && no_order)) &&
        strcmp(descr + 1, code) == 0) {
      header->dtype = (DType)t;
      header->opaque = strcmp(code, "V1") == 0;
      return NULL;
    }
  }
  return arena_printf(r->arena, "its dtype %s is not supported", descr);
}

void npy_unpack(NpyHeader *header, DType dtype, int64_t extent) {
  int each = 8 / dtype_info[dtype].bits, last = header->rank - 1;
  if (header->rank == 0 || header->opaque || header->dtype != DT_U8) return;
  int64_t bytes = header->packed ? (header->dim[last] + each - 1) / each : header->dim[last];
  bool fits = extent >= 0 && extent / each + (extent % each > 0) == bytes;
  if (!fits && !mul_i64(bytes, each, &extent)) extent = INT64_MAX;
  header->packed = each;
  header->dim[last] = extent;
}

bool npy_holds(const NpyHeader *header, DType dtype) {
  if (header->packed) return is_part_of_byte(dtype);
  bool bytes = is_part_of_byte(dtype) || is_byte_float(dtype);
  return header->opaque ? bytes : header->dtype == dtype;
}

static const char *read_order(Reader *r, NpyHeader *header) {
  header->fortran = accept_word(r, "True");
  return header->fortran || accept_word(r, "False") ? NULL : "its fortran_order is malformed";
}

static const char *read_entry(Reader *r, const char *key, NpyHeader *header, unsigned *seen) {
  static const struct {
    const char *key;
    const char *(*read)(Reader *r, NpyHeader *header);
  } entries[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};
  for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) {
    if (strcmp(key, entries[i].key) != 0) continue;
    if (*seen & 1u << i) return arena_printf(r->arena, "its header has %s twice", key);
    *seen |= 1u << i;
    return entries[i].read(r, header);
  }
  return arena_printf(r->arena, "its header has an unknown key %.40s", key);
}

static const char *read_dictionary(Reader *r, NpyHeader *header) {
  unsigned seen = 0;
  if (!accept(r, '{')) return "its header is not a dictionary";
  while (!accept(r, '}')) {
    const char *key = read_string(r);
    if (!key || !accept(r, ':')) return "its header is malformed";
    const char *wrong = read_entry(r, key, header, &seen);
    if (wrong) return wrong;
    if (!accept(r, ',') && !(r->at < r->end && *r->at == '}')) return "its header is malformed";
  }
  skip_blanks(r);
  if (r->at < r->end) return "its header has extra text after the dictionary";
  return seen == 7 ? NULL : "its header lacks descr, fortran_order or shape";
}

// The start and the length of the header text. `length` may be that of a part of the file.
static const char *header_extent(const unsigned char *bytes, size_t length, size_t *start,
                                 size_t *size) {
  if (length < NPY_MAGIC + 2 || memcmp(bytes, "\x93NUMPY", NPY_MAGIC) != 0)
    return "it is not a .npy file";
  if (bytes[6] < 1 || bytes[6] > 3) return "its format version is unknown";
  *start = bytes[6] == 1 ? 10 : 12;
  if (length < *start) return "it ends inside the header";
  *size = (size_t)bytes[8] | (size_t)bytes[9] << 8;
  if (bytes[6] > 1) *size |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
  return *size <= NPY_HEADER_MOST ? NULL : "its header is too long";
}

const char *npy_parse(Arena *arena, const char *bytes, size_t length, NpyHeader *header) {
  size_t start, size;
  *header = (NpyHeader){0};
  const char *wrong = header_extent((const unsigned char *)bytes, length, &start, &size);
  if (wrong) return wrong;
  if (length - start < size) return "it ends inside the header";
  Reader r = {bytes + start, bytes + start + size, arena};
  header->data_offset = start + size;
  return read_dictionary(&r, header);
}

// ---- files

// Reads exactly `bytes` bytes, or fewer at the end of the file.
static size_t read_fully(int fd, char *to, size_t bytes) {
  size_t got = 0;
  while (got < bytes) {
    ssize_t part = read(fd, to + got, bytes - got < (1u << 30) ? bytes - got : 1u << 30);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    got += (size_t)part;
  }
  return got;
}

static const char *check_length(Arena *arena, int fd, const NpyHeader *header) {
  HostArray shape = {.dtype = header->dtype, .rank = header->rank};
  memcpy(shape.dim, header->dim, sizeof shape.dim);
  int64_t count;
  struct stat st;
  if (!array_elements(&shape, &count)) return "its shape is too large";
  if (fstat(fd, &st) != 0) return strerror(errno);
  if (!S_ISREG(st.st_mode)) return NULL;
  int64_t have = (int64_t)st.st_size - (int64_t)header->data_offset,
          want = count * dtype_bytes(header->dtype);
  if (have == want) return NULL;
  if (have > want)
    return arena_printf(arena,
                        "it has %lld bytes of data where its shape requires %lld: is it of "
                        "another shape, or several arrays?",
                        (long long)have, (long long)want);
  return arena_printf(arena, "it is truncated: %lld bytes of data where its shape requires %lld",
                      (long long)(have < 0 ? 0 : have), (long long)want);
}

static const char *read_header_of(Arena *arena, int fd, NpyHeader *header) {
  enum { HEAD = 12 };
  char head[HEAD];
  size_t got = read_fully(fd, head, HEAD), start, size;
  const char *wrong = header_extent((const unsigned char *)head, got, &start, &size);
  if (wrong) return wrong;
  size_t whole = start + size;
  char *bytes = arena_alloc(arena, whole > got ? whole : got);
  memcpy(bytes, head, got);
  if (whole > got) got += read_fully(fd, bytes + got, whole - got);
  wrong = npy_parse(arena, bytes, got, header);
  return wrong ? wrong : check_length(arena, fd, header);
}

const char *npy_read_header(Arena *arena, const char *path, NpyHeader *header) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return strerror(errno);
  const char *wrong = read_header_of(arena, fd, header);
  close(fd);
  return wrong;
}

// Row-major `to` from column-major `from`.
static void from_fortran(const HostArray *to, const char *from, int64_t count) {
  int bytes = dtype_bytes(to->dtype);
  int64_t index[MAX_RANK] = {0};
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0;
    for (int k = to->rank - 1; k >= 0; k--) at = at * to->dim[k] + index[k];
    memcpy((char *)to->data + i * bytes, from + at * bytes, (size_t)bytes);
    for (int k = to->rank - 1; k >= 0 && ++index[k] == to->dim[k]; k--) index[k] = 0;
  }
}

// Normalises bytes from a file: a bool is 0 or 1, and the unused upper bits of narrow integers are
// zeros.
static void tidy_bytes(const HostArray *array, int64_t count) {
  unsigned char *bytes = array->data;
  for (int64_t i = 0; array->dtype == DT_BOOL && i < count; i++) bytes[i] = bytes[i] != 0;
  unsigned char used = (unsigned char)((1u << (dtype_info[array->dtype].bits & 7)) - 1);
  for (int64_t i = 0; is_part_of_byte(array->dtype) && i < count; i++) bytes[i] &= used;
}

static int64_t packed_bytes(int64_t elements, int each) { return (elements + each - 1) / each; }

// Rows of bytes, each of several elements, the first in the lowest bits.
static const char *read_packed(Arena *arena, const char *path, NpyHeader header, HostArray *array) {
  int each = header.packed, bits = 8 / each, last = header.rank - 1;
  int64_t extent = array->dim[last], length = packed_bytes(extent, each), rows;
  HostArray bytes = {.dtype = DT_U8, .rank = header.rank};
  header.packed = 0;
  header.dim[last] = length;
  memcpy(bytes.dim, header.dim, sizeof bytes.dim);
  if (!array_elements(&bytes, &rows)) return "its shape is too large";
  unsigned char *from = bytes.data = arena_alloc(arena, (size_t)rows + 1), *to = array->data;
  const char *wrong = npy_read_data(arena, path, &header, &bytes);
  for (int64_t row = 0; !wrong && length && row < rows / length; row++)
    for (int64_t i = 0; i < extent; i++)
      to[row * extent + i] =
          (unsigned char)(from[row * length + i / each] >> i % each * bits & ((1 << bits) - 1));
  return wrong;
}

const char *npy_read_data(Arena *arena, const char *path, const NpyHeader *header,
                          HostArray *array) {
  if (header->packed) return read_packed(arena, path, *header, array);
  int64_t count;
  if (!array_elements(array, &count)) return "its shape is too large";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return strerror(errno);
  const char *wrong = NULL;
  size_t bytes = (size_t)count * (size_t)dtype_bytes(array->dtype);
  bool transpose = header->fortran && array->rank > 1;
  char *to = transpose ? arena_alloc(arena, bytes) : array->data;
  if (lseek(fd, (off_t)header->data_offset, SEEK_SET) < 0)
    wrong = strerror(errno);
  else if (read_fully(fd, to, bytes) != bytes)
    wrong = "it is truncated";
  else if (transpose)
    from_fortran(array, to, count);
  close(fd);
  if (!wrong) tidy_bytes(array, count);
  return wrong;
}

// All fp8 dtypes are written as plain bytes, because NumPy cannot read its own files of f8e5m2.
static const char *code_of(DType dtype) {
  return is_byte_float(dtype) ? "V1" : dtype_info[dtype].npy;
}

// The array as rows of bytes.
static bool pack(Arena *arena, const HostArray *array, HostArray *bytes) {
  int bits = dtype_info[array->dtype].bits, each = 8 / bits, last = array->rank - 1;
  int64_t extent = array->dim[last], length = packed_bytes(extent, each), rows, count;
  *bytes = *array;
  bytes->dtype = DT_U8;
  bytes->dim[last] = length;
  if (!array_elements(array, &count) || !array_elements(bytes, &rows)) return false;
  unsigned char *to = bytes->data = arena_alloc(arena, (size_t)rows + 1);
  const unsigned char *from = array->data;
  memset(to, 0, (size_t)rows + 1);
  for (int64_t i = 0; i < count; i++)
    to[i / extent * length + i % extent / each] |=
        (unsigned char)((from[i] & ((1 << bits) - 1)) << i % extent % each * bits);
  return true;
}

const char *npy_write(Arena *arena, const char *path, const HostArray *array, bool packed) {
  HostArray bytes;
  if (packed)
    return pack(arena, array, &bytes) ? npy_write(arena, path, &bytes, false)
                                      : "the array is too large";
  int64_t count;
  Buf head = {0}, file = {0};
  if (!array_elements(array, &count)) return "the array is too large";
  buf_printf(&head, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
             dtype_bytes(array->dtype) == 1 ? '|' : '<', code_of(array->dtype));
  for (int k = 0; k < array->rank; k++)
    buf_printf(&head, k ? ", %lld" : "%lld", (long long)array->dim[k]);
  buf_puts(&head, array->rank == 1 ? ",), }" : "), }");
  while ((10 + head.length + 1) % 64) buf_putc(&head, ' ');
  buf_putc(&head, '\n');
  buf_add(&file, "\x93NUMPY\x01\x00", 8);
  buf_putc(&file, (char)(head.length & 255));
  buf_putc(&file, (char)(head.length >> 8));
  buf_add(&file, head.text, head.length);
  buf_add(&file, array->data ? array->data : "", (size_t)count * (size_t)dtype_bytes(array->dtype));
  bool ok = write_file(path, file.text, file.length);
  const char *wrong = ok ? NULL : arena_printf(arena, "%s", strerror(errno));
  buf_free(&head);
  buf_free(&file);
  return wrong;
}
