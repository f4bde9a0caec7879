// From a file and NAME=VALUE arguments to a kernel with its sizes and the shapes of its operands.
#define _GNU_SOURCE
#include "codegen/ir/flow.h"
#include "codegen/run/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { DATA_ALIGN = 64, MOST_PREFETCHED = 64 << 20 };

typedef struct {
  const char *name;
  int64_t value;
  const char *wrong;  // the text is not a number: an error, unless the name is unknown
} SizeArgument;

typedef struct {
  Binding *binding;
  Arena *arena;
  const Options *options;
  const char *path;
  NodeList params;  // what is prefetched, inputs, outputs
  int input_count;
  LIST(SizeArgument) sizes;
  InputSpec *specs;  // one a param; kind INPUT_RANDOM, text NULL where not given
  LIST(OperandHint) hints;
} Binder;

// ---- names in the arguments

static void collect_params(Binder *b, const Node *kernel) {
  for (int i = 0; kernel->a && i < kernel->a->list.count; i++) {
    const Node *item = kernel->a->list.at[i];
    for (int j = 0; item->kind == N_PREFETCH && j < item->list.count; j++)
      LIST_PUSH(b->arena, &b->params, item->list.at[j]);
  }
  for (int i = 0; i < kernel->list.count; i++) LIST_PUSH(b->arena, &b->params, kernel->list.at[i]);
  b->input_count = b->params.count;
  for (int i = 0; i < kernel->list2.count; i++)
    LIST_PUSH(b->arena, &b->params, kernel->list2.at[i]);
  b->specs = NEW_ARRAY(b->arena, InputSpec, b->params.count + 1);
}

static int find_param(const Binder *b, const char *name) {
  for (int i = 0; i < b->params.count; i++)
    if (b->params.at[i]->name == name) return i;
  return -1;
}

// The shape and dtype of an operand that a file or an array gives, for the lowering.
static void hint_shape(Binder *b, int index) {
  const NpyHeader *h = &b->specs[index].header;
  OperandHint hint = {.operand = b->params.at[index]->name,
                      .dtype = h->opaque ? DT_COUNT : h->dtype,
                      .rank = h->rank};
  memcpy(hint.dim, h->dim, sizeof hint.dim);
  const Node *type = b->params.at[index]->a;
  if (type && type->flags & DTYPE_PACKED &&
      hint.dtype == DT_U8) {  // the number of elements per byte is unknown
    hint.dtype = DT_COUNT;
    if (hint.rank > 0) hint.dim[hint.rank - 1] = -1;
  }
  LIST_PUSH(b->arena, &b->hints, hint);
}

static const char *read_input(Binder *b, int index, const Argument *a) {
  InputSpec *spec = &b->specs[index];
  if (index >= b->input_count)
    return arena_printf(b->arena, "%s is an output: it takes no data", a->name);
  const char *wrong = input_parse(b->arena, a->value, spec);
  if (wrong) return arena_printf(b->arena, "%s=%s %s", a->name, a->value, wrong);
  if (spec->kind != INPUT_FILE) return NULL;
  wrong = npy_read_header(b->arena, piece_path(b->arena, spec->path, 0), &spec->header);
  if (wrong) return arena_printf(b->arena, "%s=%s: %s", a->name, a->value, wrong);
  hint_shape(b, index);
  return NULL;
}

static const char *read_given(Binder *b, const GivenArray *given) {
  int index = find_param(b, given->name);
  if (index < 0 || index >= b->input_count)
    return arena_printf(b->arena, "%s is not an input of %s", given->name,
                        b->binding->program.kernel_node->name);
  InputSpec *spec = &b->specs[index];
  *spec = (InputSpec){.kind = INPUT_ARRAY,
                      .path = "as it is given",
                      .text = "as it is given",
                      .array = given->array,
                      .header = {.dtype = given->array->dtype, .rank = given->array->rank}};
  memcpy(spec->header.dim, given->array->dim, sizeof spec->header.dim);
  hint_shape(b, index);
  return NULL;
}

static const char *read_size(Binder *b, const Argument *a) {
  SizeArgument size = {.name = a->name};
  if (!parse_int(a->value, &size.value))
    size.wrong = arena_printf(b->arena, "%s=%s: expected a whole number below 2147483648", a->name,
                              a->value);
  if (size.value < 0)
    return arena_printf(b->arena, "%s=%s: a size cannot be negative", a->name, a->value);
  if (size.value > INT32_MAX)
    return arena_printf(b->arena, "%s=%s: an axis has at most 2147483647 elements", a->name,
                        a->value);
  LIST_PUSH(b->arena, &b->sizes, size);
  return NULL;
}

static bool is_given_before(const Binder *b, int argument) {
  const Argument *all = b->options->arguments.at;
  for (int i = 0; i < argument; i++)
    if (all[i].name == all[argument].name) return true;
  return false;
}

// Statics are left to program_settings. A number for a possible size is checked once the kernel's
// sizes are known.
static const char *read_arguments(Binder *b) {
  for (int i = 0; i < b->options->arguments.count; i++) {
    const Argument *a = &b->options->arguments.at[i];
    int operand = find_param(b, a->name);
    const char *wrong = NULL;
    if (is_given_before(b, i))
      wrong = arena_printf(b->arena, "%s is given twice", a->name);
    else if (operand >= 0)
      wrong = read_input(b, operand, a);
    else if (!program_has_static(&b->binding->program, a->name))
      wrong = read_size(b, a);
    if (wrong) return wrong;
  }
  for (int i = 0; i < b->options->given.count; i++) {
    const char *wrong = read_given(b, &b->options->given.at[i]);
    if (wrong) return wrong;
  }
  return NULL;
}

// ---- sizes

static int find_size(const Kernel *k, const char *name) {
  for (int i = 0; i < k->sizes.count; i++)
    if (strcmp(k->sizes.at[i].name, name) == 0) return i;
  return -1;
}

static const char *unknown_name(Binder *b, const char *name) {
  enum { MOST = 64 };
  const Kernel *k = b->binding->program.kernel;
  const char *names[MOST];
  int count = 0;
  for (int i = 0; i < k->sizes.count && count < MOST; i++)
    if (!k->sizes.at[i].value) names[count++] = k->sizes.at[size_by_name(k->sizes.at, i)].name;
  for (int i = 0; i < b->params.count && count < MOST; i++) names[count++] = b->params.at[i]->name;
  const char *near = closest_name(name, names, count);
  return arena_printf(b->arena, "%s is not a size, static or operand of %s%s%s%s", name, k->name,
                      near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static const char *set_size(Binder *b, int index, int64_t value, const char *where) {
  int64_t *size = &b->binding->sizes[index];
  if (*size != UNBOUND && *size != value)
    return arena_printf(b->arena, "sizes disagree: %s is %lld, but %s makes it %lld",
                        b->binding->program.kernel->sizes.at[index].name, (long long)*size, where,
                        (long long)value);
  *size = value;
  return NULL;
}

static const char *sizes_from_arguments(Binder *b) {
  const Kernel *k = b->binding->program.kernel;
  for (int i = 0; i < b->sizes.count; i++) {
    int index = find_size(k, b->sizes.at[i].name);
    if (index < 0) return unknown_name(b, b->sizes.at[i].name);
    if (b->sizes.at[i].wrong) return b->sizes.at[i].wrong;
    b->binding->sizes[index] = b->sizes.at[i].value;
  }
  return NULL;
}

// The extent of the operand's last axis as known so far, or -1.
static int64_t last_extent(const Binder *b, const Ref *operand) {
  Dim dim = operand->array.dim[operand->array.rank - 1];
  if (dim_is_const(dim)) return dim;
  int64_t size = b->binding->sizes[dim_size_index(dim)];
  return size == UNBOUND ? -1 : size;
}

// Files of packed operands come last, because a row of bytes may have room for more elements than
// exist.
static const char *sizes_from_file(Binder *b, const Ref *operand, InputSpec *spec) {
  const Type *array = &operand->array;
  const NpyHeader *h = &spec->header;
  const char *path = spec->path;
  if (operand->packed && h->rank == array->rank)
    npy_unpack(&spec->header, array->dtype, last_extent(b, operand));
  if (!npy_holds(h, array->dtype))
    return arena_printf(b->arena, "%s=%s: expected %s, found %s", operand->name, path,
                        dtype_info[array->dtype].name,
                        h->opaque ? "bytes that are i4, u4 or fp8" : dtype_info[h->dtype].name);
  if (h->rank != array->rank)
    return arena_printf(b->arena, "%s=%s: expected %d axes, found %d", operand->name, path,
                        array->rank, h->rank);
  for (int axis = 0; axis < array->rank; axis++) {
    Dim dim = array->dim[axis];
    const char *where = arena_printf(b->arena, "axis %d of %s (%s)", axis, operand->name, path),
               *wrong = NULL;
    if (h->dim[axis] > INT32_MAX)
      wrong = arena_printf(b->arena, "%s has more than 2147483647 elements", where);
    else if (dim_is_const(dim) && dim != h->dim[axis])
      wrong = arena_printf(b->arena, "%s has %lld elements, expected %lld", where,
                           (long long)h->dim[axis], (long long)dim);
    else if (!dim_is_const(dim))
      wrong = set_size(b, dim_size_index(dim), h->dim[axis], where);
    if (wrong) return wrong;
  }
  return NULL;
}

// The part in the first device's file determines the size of the whole array.
static const char *take_pieces(Binder *b) {
  const Kernel *k = b->binding->program.kernel;
  for (int i = 0; i < k->inputs; i++) {
    InputSpec *spec = &b->specs[i];
    if (spec->kind != INPUT_FILE || !has_pieces(spec->path) || spec->kernel) continue;
    if (!k->mesh.count)
      return arena_printf(b->arena, "%s=%s: a kernel without a mesh has no devices",
                          k->refs.at[i]->name, spec->path);
    spec->kernel = k;
    spec->operand = k->refs.at[i];
    for (int axis = 0; axis < spec->header.rank && axis < spec->operand->array.rank; axis++) {
      int64_t parts = spec->operand->parts[axis] > 1 ? spec->operand->parts[axis] : 1;
      if (!mul_i64(spec->header.dim[axis], parts, &spec->header.dim[axis]))
        return arena_printf(b->arena, "%s=%s: too large", spec->operand->name, spec->path);
    }
  }
  return NULL;
}

static const char *bind_sizes(Binder *b) {
  Kernel *k = b->binding->program.kernel;
  b->binding->sizes = NEW_ARRAY(b->arena, int64_t, k->sizes.count + 1);
  for (int i = 0; i < k->sizes.count; i++) b->binding->sizes[i] = UNBOUND;
  const char *wrong = take_pieces(b);
  if (!wrong) wrong = sizes_from_arguments(b);
  for (int packed = 0; packed < 2; packed++)
    for (int i = 0; !wrong && i < k->inputs; i++)
      if (input_has_shape(&b->specs[i]) && k->refs.at[i]->packed == packed)
        wrong = sizes_from_file(b, k->refs.at[i], &b->specs[i]);
  if (!wrong) solve_sizes(k, b->binding->sizes);
  return wrong;
}

// One message that names all missing arguments.
static const char *missing(Binder *b) {
  const Kernel *k = b->binding->program.kernel;
  Buf sizes = {0}, operands = {0};
  for (int i = 0; i < k->sizes.count; i++)
    if (!k->sizes.at[i].value && b->binding->sizes[i] == UNBOUND)
      buf_printf(&sizes, "%s%s", sizes.length ? ", " : "",
                 k->sizes.at[size_by_name(k->sizes.at, i)].name);
  for (int i = 0; i < k->inputs; i++)
    if (!b->specs[i].text && k->refs.at[i]->prefetch)
      buf_printf(&operands, "%s%s", operands.length ? ", " : "", k->refs.at[i]->name);
  const char *text = NULL;
  if (sizes.length && operands.length)
    text = arena_printf(b->arena, "the sizes %s and the prefetched operands %s must be given",
                        sizes.text, operands.text);
  else if (sizes.length)
    text = arena_printf(b->arena, "sizes that must be given: %s (as NAME=N)", sizes.text);
  else if (operands.length)
    text = arena_printf(b->arena, "prefetched operands that must be given: %s", operands.text);
  buf_free(&sizes);
  buf_free(&operands);
  return text;
}

// If a given size also follows from others, both must be equal.
static const char *check_given_sizes(const Binder *b) {
  for (int i = 0; i < b->sizes.count; i++) {
    const SizeArgument *given = &b->sizes.at[i];
    const Kernel *k = b->binding->program.kernel;
    int64_t found = b->binding->sizes[find_size(k, given->name)];
    if (found != given->value)
      return arena_printf(b->arena, "sizes disagree: %s=%lld, but the other sizes make it %lld",
                          given->name, (long long)given->value, (long long)found);
  }
  return NULL;
}

// ---- shapes and places

static const char *check_given_shape(Binder *b, const HostArray *shape, InputSpec *spec,
                                     const char *name) {
  if (spec->header.packed) npy_unpack(&spec->header, shape->dtype, shape->dim[shape->rank - 1]);
  for (int axis = 0; input_has_shape(spec) && axis < shape->rank; axis++)
    if (spec->header.dim[axis] != shape->dim[axis])
      return arena_printf(b->arena, "axis %d of %s (%s) has %lld elements, expected %lld", axis,
                          name, spec->path, (long long)spec->header.dim[axis],
                          (long long)shape->dim[axis]);
  return NULL;
}

bool add_array_bytes(int64_t *total, const HostArray *array) {
  int64_t count, bytes;
  return array_elements(array, &count) && mul_i64(count, dtype_bytes(array->dtype), &bytes) &&
         add_i64(*total, bytes, total) && add_i64(*total, DATA_ALIGN - 1, total) &&
         ((*total -= *total % DATA_ALIGN), true);
}

// The shapes of the operands, and their offsets in one block of memory.
static const char *place_operands(Binder *b) {
  Binding *binding = b->binding;
  Kernel *k = binding->program.kernel;
  int count = k->inputs + k->outputs;
  binding->operands = NEW_ARRAY(b->arena, HostArray, count);
  binding->offsets = NEW_ARRAY(b->arena, int64_t, count);
  for (int i = 0; i < count; i++) {
    const Ref *operand = k->refs.at[i];
    HostArray *array = &binding->operands[i];
    if (!operand_shape(k, operand, binding->sizes, array))
      return arena_printf(b->arena, "%s is too large", operand->name);
    const char *wrong =
        i < k->inputs ? check_given_shape(b, array, &b->specs[i], operand->name) : NULL;
    if (wrong) return wrong;
    binding->offsets[i] =
        operand->alias ? binding->offsets[operand->alias->id] : binding->total_bytes;
    if (!operand->alias && !add_array_bytes(&binding->total_bytes, array))
      return arena_printf(b->arena, "%s is too large", operand->name);
  }
  return NULL;
}

// Extents and requirements may read prefetched operands, so their elements are set first.
static const char *load_prefetched(Binder *b) {
  Kernel *k = b->binding->program.kernel;
  for (int i = 0; i < k->inputs && k->refs.at[i]->prefetch; i++) {
    Ref *ref = k->refs.at[i];
    HostArray *array = NEW(b->arena, HostArray);
    int64_t bytes = 0;
    if (!operand_shape(k, ref, b->binding->sizes, array) || !add_array_bytes(&bytes, array) ||
        bytes > MOST_PREFETCHED)
      return arena_printf(b->arena, "%s is prefetched into SMEM and has more than %d bytes",
                          ref->name, MOST_PREFETCHED);
    const char *wrong = check_given_shape(b, array, &b->specs[i], ref->name);
    if (wrong) return wrong;
    array->data = arena_alloc(b->arena, (size_t)bytes + 1);
    wrong = input_fill(b->arena, &b->specs[i], i, array);
    if (wrong) return arena_printf(b->arena, "%s: %s", ref->name, wrong);
    ref->prefetched = array;
  }
  return NULL;
}

int bind_kernel(Binding *binding, Arena *arena, const Options *options, const char *path,
                const char **message) {
  Binder b = {.binding = binding, .arena = arena, .options = options, .path = path};
  *binding = (Binding){.check = options->check};
  *message = NULL;
  Program *program = &binding->program;
  if (!program_read(program, options, arena, path)) {
    *message = arena_printf(arena, "cannot read the file: %s", read_problem());
    return USER_ERROR;
  }
  if (program->kernel_node) collect_params(&b, program->kernel_node);
  if (program->kernel_node && diag_error_count(program->diag) == 0) *message = read_arguments(&b);
  if (*message) return USER_ERROR;
  LowerOptions lower_options = {
      .hints = b.hints.at, .hint_count = b.hints.count, .numerics = options->numerics};
  lower_options.settings = program_settings(program, options, &lower_options.setting_count);
  binding->lower_options = lower_options;
  if (!program_lower(program, options, &lower_options)) return USER_ERROR;
  ir_expand_pipelines(program->kernel);
  binding->inputs = b.specs;
  *message = bind_sizes(&b);
  if (!*message) *message = missing(&b);
  if (*message) return USER_ERROR;
  binding->refusal = derive_sizes(program->kernel, binding->sizes);
  if (!binding->refusal) *message = load_prefetched(&b);
  if (*message) return USER_ERROR;
  if (!binding->refusal) binding->refusal = check_sizes(program->kernel, binding->sizes);
  if (!binding->refusal) *message = check_given_sizes(&b);
  if (*message) return USER_ERROR;
  if (!binding->refusal && program->kernel->flow)
    binding->refusal = flow_check(program->kernel, binding->sizes);
  const char *wrong = place_operands(&b);
  binding->placed = !wrong;
  if (!binding->refusal) binding->refusal = wrong;
  return DONE;
}

int bind_or_report(Binding *binding, const Options *options, bool refuse) {
  const char *message, *path = options->files.at[0];
  int status = bind_kernel(binding, options->arena, options, path, &message);
  if (binding->program.diag) program_report(&binding->program, options);
  if (message) return user_error("%s: %s", path, message);
  if (status == DONE && refuse && binding->refusal)
    return user_error("%s: refused: %s", path, binding->refusal);
  return status;
}

// ---- memory

static int64_t available_memory(void) {
  FILE *f = fopen("/proc/meminfo", "r");
  char line[128];
  long long kib = 0;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1) break;
  if (f) fclose(f);
  return kib > 0 ? (int64_t)kib * 1024 : INT64_MAX;
}

const char *check_memory(Arena *arena, int64_t bytes) {
  int64_t have = available_memory();
  if (bytes <= have) return NULL;
  return arena_printf(arena, "%lld bytes of memory are needed, this machine has %lld left",
                      (long long)bytes, (long long)have);
}

void *map_memory(int64_t bytes, int fd) {
  void *memory = mmap(NULL, bytes > 0 ? (size_t)bytes : 1, PROT_READ | PROT_WRITE,
                      fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

const char *bind_fill(Binding *binding, void *memory) {
  Kernel *k = binding->program.kernel;
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    HostArray *array = &binding->operands[i];
    array->data = (char *)memory + binding->offsets[i];
    int64_t count;
    REQUIRE(array_elements(array, &count));
    if (i >= k->inputs) {
      if (!k->refs.at[i]->alias)
        memset(array->data, 0xff, (size_t)count * (size_t)dtype_bytes(array->dtype));
      continue;
    }
    const char *wrong = input_fill(k->arena, &binding->inputs[i], i, array);
    if (wrong) return arena_printf(k->arena, "%s: %s", k->refs.at[i]->name, wrong);
  }
  return NULL;
}
