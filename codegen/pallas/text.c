// Python text: names, lines, shapes and numbers.
#include "codegen/ir/names.h"
#include "codegen/pallas/internal.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Where a line of Python may be broken: after the last comma that leaves it short enough, inside as
// few brackets as possible; 0: nowhere.
static size_t break_at(const char *text, size_t room) {
  size_t best = 0;
  int depth = 0, least = INT_MAX;
  bool quoted = false;
  for (size_t i = 0; text[i] && (i < room || !best); i++) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    depth += strchr("([{", text[i]) ? 1 : strchr(")]}", text[i]) ? -1 : 0;
    if (text[i] != ',' || text[i + 1] != ' ' || depth < 1 || depth > least) continue;
    least = depth;
    best = i + 2;
  }
  return best;
}

static bool ends_with(const Buf *out, const char *text) {
  size_t length = strlen(text);
  return out->length >= length && memcmp(out->text + out->length - length, text, length) == 0;
}

// Does a blank line precede this text? A nested function has one.
static bool stands_apart(const Py *p, const char *text) {
  if (strncmp(text, "@", 1) != 0 && strncmp(text, "def ", 4) != 0) return false;
  if (!p->out->length || ends_with(p->out, ":\n") || ends_with(p->out, "\n\n")) return false;
  size_t line = p->out->length - 1;
  while (line > 0 && p->out->text[line - 1] != '\n') line--;
  return p->out->text[line + (size_t)p->indent * 2] != '@';
}

void py_line(Py *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  Buf line = {0};
  buf_vprintf(&line, format, args);
  va_end(args);
  const char *text = line.text;
  size_t indent = (size_t)p->indent * 2;
  if (stands_apart(p, text)) buf_putc(p->out, '\n');
  while (indent + strlen(text) > PY_WIDTH) {
    size_t end = break_at(text, PY_WIDTH - indent);
    if (!end) break;
    buf_printf(p->out, "%*s%.*s\n", (int)indent, "", (int)end - 1, text);
    text += end;
    indent = (size_t)p->indent * 2 + 4;
  }
  buf_printf(p->out, "%*s%s\n", (int)indent, "", text);
  buf_free(&line);
}

// ---- names

static const PyName *find_name(const Py *p, const char *name) {
  for (int i = p->names.count - 1; i >= 0; i--)
    if (strcmp(p->names.at[i].name, name) == 0) return &p->names.at[i];
  return NULL;
}

// May a value take this name? A name whose holder is no longer read, in the same function, is free
// again.
static bool is_free(const Py *p, const char *name, const Instr *holder) {
  if (name_is_reserved(name, NAME_PY_LOCAL)) return false;
  const PyName *taken = find_name(p, name);
  if (!taken) return true;
  return holder && taken->holder && taken->scope == p->scope && py(taken->holder)->left <= 0;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool mentions(const char *text, const char *name) {
  size_t length = strlen(name);
  for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
    if ((at == text || !is_word(at[-1])) && !is_word(at[length])) return true;
  return false;
}

// Is the name read by text that is not written yet?
static bool is_awaited(const Py *p, const char *name) {
  for (int i = 0; i < p->pending.count; i++)
    if (mentions(py(p->pending.at[i])->text, name)) return true;
  return false;
}

static const char *unused_name(Py *p, const char *base, const Instr *holder) {
  const char *name = base;
  for (int n = 2; !is_free(p, name, holder) || (find_name(p, name) && is_awaited(p, name)); n++)
    name = py_text(p, isdigit((unsigned char)base[strlen(base) - 1]) ? "%s_%d" : "%s%d", base, n);
  return name;
}

const char *py_free_name(Py *p, const char *base) { return unused_name(p, base, NULL); }

const char *py_name(Py *p, const char *base, const Instr *holder) {
  const char *name = unused_name(p, base, holder);
  PyName taken = {name, holder, p->scope};
  LIST_PUSH(p->arena, &p->names, taken);
  return name;
}

void py_enter(Py *p) {
  p->indent++;
  p->scope++;
}

void py_leave(Py *p) {
  while (p->names.count && p->names.at[p->names.count - 1].scope == p->scope) p->names.count--;
  p->indent--;
  p->scope--;
}

// ---- small texts

const char *py_dtype(DType dtype) {
  static const char *const names[DT_COUNT] = {
#define INTEGER(id, name, bits, class, ctype, numpy, ...) [DT_##id] = "jnp." numpy,
#define FLOAT(id, name, bits, ctype, numpy, ...) [DT_##id] = "jnp." numpy,
#include "dsl/dtypes.def"
  };
  return names[dtype == DT_I64 ? DT_I32 : dtype];  // i64: an index
}

const char *py_dim(Py *p, Dim dim) {
  return dim_is_const(dim) ? py_text(p, "%lld", (long long)dim) : p->size[dim_size_index(dim)];
}

const char *py_list(Py *p, const char *const *items, int count) {
  const char *list = "";
  for (int i = 0; i < count; i++) list = py_text(p, "%s%s%s", list, i ? ", " : "", items[i]);
  return list;
}

const char *py_tuple(Py *p, const char *const *items, int count) {
  return py_text(p, "(%s%s)", py_list(p, items, count), count == 1 ? "," : "");
}

const char *py_shape(Py *p, const Type *type) {
  const char *items[MAX_RANK];
  for (int i = 0; i < type->rank; i++) items[i] = py_dim(p, type->dim[i]);
  return py_tuple(p, items, type->rank);
}

const char *py_quoted(Py *p, const char *text) {
  Buf buf = {0};
  buf_putc(&buf, '"');
  for (; text && *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      buf_printf(&buf, "\\%c", c);
    else if (c < 32 || c == 127)
      buf_printf(&buf, "\\x%02x", c);
    else
      buf_putc(&buf, (char)c);
  }
  buf_putc(&buf, '"');
  return arena_take(p->arena, &buf);
}

// The shortest digits that JAX reads as the same f32; narrower floats are among these.
static const char *float_text(Py *p, double value) {
  if (isnan(value)) return "jnp.nan";
  if (isinf(value)) return value > 0 ? "jnp.inf" : "-jnp.inf";
  const char *digits = "";
  for (int n = 1; n <= 17; n++) {
    digits = py_text(p, "%.*g", n, value);
    if ((float)strtod(digits, NULL) == (float)value) break;
  }
  return strpbrk(digits, ".e") ? digits : py_text(p, "%s.0", digits);
}

const char *py_number(Py *p, DType dtype, const Instr *constant) {
  if (is_float(dtype)) return float_text(p, constant->fval);
  if (dtype == DT_BOOL) return constant->ival ? "True" : "False";
  return py_text(p, "%lld", (long long)constant->ival);
}

void py_fail(Py *p, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (diag_error_count(p->diag) == 0)
    diag_error(p->diag, span, ERR_NO_COUNTERPART, "Pallas has no counterpart: %s",
               arena_vprintf(p->arena, format, args));
  va_end(args);
}

// ---- sizes of arrays

const Type *py_whole_type(const Ref *ref) { return ref->all ? ref->all : &ref->array; }

static bool has_dim(const Type *type, Dim dim) {
  for (int i = 0; i < type->rank; i++)
    if (type->dim[i] == dim) return true;
  return false;
}

bool py_has_size(const Type *type, int size) { return has_dim(type, dim_of_size(size)); }

// Is the size above 0 after the early return? It is if every output has it as an axis.
bool py_is_filled(const Kernel *k, int size) {
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    if (!py_has_size(&k->refs.at[i]->array, size) &&
        !py_has_size(py_whole_type(k->refs.at[i]), size))
      return false;
  return true;
}

// Would the ref have no elements in Pallas if this dim were 0? An input that only copies read would
// get one element.
static bool must_fill(const Ref *ref, Dim dim) {
  bool block = !ref->prefetch && ref->space != SPACE_ANY;
  return (block && has_dim(&ref->type, dim)) ||
         (ref->role == REF_OUTPUT && has_dim(&ref->array, dim));
}

bool py_must_be_filled(const Kernel *k, int size) {
  for (int i = 0; i < k->refs.count; i++)
    if (must_fill(k->refs.at[i], dim_of_size(size))) return true;
  return false;
}

const Ref *py_empty_ref(const Kernel *k) {
  for (int i = 0; i < k->refs.count; i++)
    if (must_fill(k->refs.at[i], 0)) return k->refs.at[i];
  return NULL;
}

bool py_may_be_empty(const Kernel *k, const Ref *ref) {
  if (has_dim(&ref->array, 0)) return true;
  for (int size = 0; size < k->sizes.count; size++)
    if (py_has_size(&ref->array, size) && !py_is_filled(k, size) && !py_must_be_filled(k, size))
      return true;
  return false;
}
