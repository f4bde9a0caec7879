// Refs of the interpreter: the grid's own transfers, and their mistakes.
#include "codegen/check/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool stays_in_place(const Ref *ref) { return ref->space == SPACE_ANY; }

// ---- blocks and their places in the array

static int64_t block_extent(const Interp *in, const Ref *ref, int axis) {
  return resolve_dim(in->sizes, ref->block[axis]);
}

static void map_index(Interp *in, const Ref *ref, const int64_t *axes, int64_t *index) {
  memset(index, 0, sizeof *index * MAX_INDEX);
  const Instr *clamped =
      ref->index_map ? eval_region(in->k, ref->index_map, in->sizes, axes, index) : NULL;
  if (clamped)
    find(in, clamped, FIND_SLICE, clamped->span, "the index map of `%s` reads `%s` out of range",
         ref->name, clamped->ref->name);
}

// The number of elements of the block along each axis: its extent, or the length of `at slice`,
// clamped to the block.
static int64_t live_extent(const Interp *in, const Ref *ref, const int64_t *index, int axis) {
  int64_t extent = block_extent(in, ref, axis),
          length = ref->at == AT_SLICE ? index[ref->array.rank + axis] : extent;
  return length < 0 ? 0 : length < extent ? length : extent;
}

// The first element of the block along each axis, clamped to at most one block outside of the
// array; beyond that the whole block is past the end anyway.
static void block_start(const Interp *in, const Ref *ref, const int64_t *index, int64_t *start) {
  const HostArray *array = in->refs[ref->id].array;
  for (int i = 0; i < ref->array.rank; i++) {
    int64_t extent = block_extent(in, ref, i), at = index[i];
    if (ref->at == AT_BLOCK && (index[i] < 0 || !mul_i64(index[i], extent, &at)))
      at = array->dim[i];
    start[i] = at < -extent ? -extent : at > array->dim[i] ? array->dim[i] : at;
  }
}

// Reports a block index that is out of range.
static void check_block_index(Interp *in, const Ref *ref, const int64_t *index) {
  const RefState *state = &in->refs[ref->id];
  Span span = map_place(ref);
  for (int i = 0; i < ref->array.rank; i++) {
    long long at = (long long)index[i], dim = (long long)state->array->dim[i],
              extent = (long long)block_extent(in, ref, i);
    if (ref->at == AT_BLOCK && (index[i] < 0 || index[i] >= state->blocks[i])) {
      const char *hint = index[i] >= 0 && dim > 0 && at < dim
                             ? "; did you return an element offset? (use `at element`)"
                             : "";
      find(in, ref, FIND_BLOCK_INDEX, span,
           "block index %lld of `%s` on axis %d is out of range: valid are 0 to %lld (%lld "
           "elements in blocks of %lld)%s",
           at, ref->name, i, (long long)state->blocks[i] - 1, dim, extent, hint);
    }
    if (ref->at == AT_BLOCK) continue;
    int64_t length = ref->at == AT_SLICE ? index[ref->array.rank + i] : extent;
    if (length < 0 || length > extent)
      find(in, ref, FIND_SLICE, span,
           "the slice of `%s` has %s on axis %d, but its block holds 0 to %lld", ref->name,
           count_text(in->words, length), i, extent);
    const int64_t *halo = ref->halo[i];
    int64_t past = INT64_MIN,
            end;  // for sums that do not fit: far past the end, or far before the start
    if (!add_i64(at, extent, &end))
      past = INT64_MAX;
    else if (!sub_i64(end, dim, &past))
      past = INT64_MIN;
    if (halo[0] >= 0 && at < -halo[0])
      find(in, ref, FIND_HALO, span,
           "the block of `%s` starts at element %lld of axis %d, but its halo allows no start "
           "before "
           "%lld",
           ref->name, at, i, (long long)-halo[0]);
    if (halo[1] >= 0 && past > halo[1])
      find(in, ref, FIND_HALO_END, span,
           "the block of `%s` on axis %d starts at element %lld and ends %lld past the array, but "
           "its halo allows %lld",
           ref->name, i, at, (long long)past, (long long)halo[1]);
  }
}

// A row of a block: `count` elements from `at` in the block; those in [low, high) are in the array,
// the first of them at `array_at`.
typedef struct {
  int64_t at, count, low, high, array_at;
} Line;

typedef void LineVisitor(Interp *in, const Ref *ref, const Line *line);

// Calls `visit` for each line of a block along its last axis.
static void visit_lines(Interp *in, const Ref *ref, const int64_t *start, LineVisitor *visit) {
  const HostArray *array = in->refs[ref->id].array;
  int rank = ref->array.rank, last = rank - 1;
  int64_t extent[MAX_RANK], live[MAX_RANK], index[MAX_RANK] = {0};
  for (int i = 0; i < rank; i++) {
    extent[i] = block_extent(in, ref, i);
    live[i] = live_extent(in, ref, in->refs[ref->id].index, i);
    if (extent[i] == 0) return;
  }
  Line line = {.count = rank ? extent[last] : 1};
  for (;; line.at += line.count) {
    bool inside = true;
    line.array_at = 0;
    for (int i = 0; i < last; i++) {
      int64_t at = start[i] + index[i];
      inside &= at >= 0 && at < array->dim[i] && index[i] < live[i];
      line.array_at = line.array_at * array->dim[i] + (inside ? at : 0);
    }
    line.low = 0, line.high = line.count;
    if (rank) {
      line.low = start[last] < 0 ? -start[last] : 0;
      line.high = live[last];
      if (array->dim[last] - start[last] < line.high) line.high = array->dim[last] - start[last];
      line.array_at = line.array_at * array->dim[last] + start[last] + line.low;
    }
    if (!inside || line.low > line.high) line.low = line.high = line.count;
    visit(in, ref, &line);
    int axis = last - 1;
    while (axis >= 0 && ++index[axis] == extent[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

static void array_index(const HostArray *array, int64_t element, Buf *out) {
  int64_t index[MAX_RANK];
  for (int i = array->rank - 1; i >= 0; i--) {
    index[i] = element % array->dim[i];
    element /= array->dim[i];
  }
  buf_putc(out, '[');
  format_indices(out, index, array->rank);
  buf_putc(out, ']');
}

// ---- inputs

static void fill_edge(Interp *in, Value *block, const Ref *ref, int64_t from, int64_t count) {
  if (!ref->has_pad) return fill_unspecified(block, from, count, ref_mark(ref));
  memset(block->poison + from, 0, (size_t)count);
  if (block->uncertain) memset(block->error + from, 0, (size_t)count * sizeof *block->error);
  int64_t cell = in->arithmetic->constant(arithmetic_context(in), block->dtype, ref->pad);
  for (int64_t e = from; e < from + count; e++) block->i[e] = cell;
}

// Copies the errors of elements between a block and HBM; either may have none.
static void copy_errors(Value *to, int64_t at, const double *from, int64_t from_at, int64_t count) {
  if (to->uncertain && from)
    memcpy(to->error + at, from + from_at, (size_t)count * sizeof *to->error);
  if (to->uncertain && !from) memset(to->error + at, 0, (size_t)count * sizeof *to->error);
}

// Which elements of an input are specified; NULL: all.
static const uint8_t *given_of(const Interp *in, const Ref *ref) {
  if (ref->role == REF_OUTPUT) ref = ref->alias;
  return ref && ref->role == REF_INPUT && in->options.input_specified
             ? in->options.input_specified[ref->id]
             : NULL;
}

static bool is_written_here(const RefState *state, int64_t element) {
  return state->written && state->written[element] != WRITTEN_NEVER;
}

// Reads one line of a block from its array.
static void fetch_line(Interp *in, const Ref *ref, const Line *line) {
  RefState *state = &in->refs[ref->id];
  int64_t inside = line->high - line->low;
  fill_edge(in, &state->block, ref, line->at, line->low);
  fill_edge(in, &state->block, ref, line->at + line->high, line->count - line->high);
  int64_t at = line->at + line->low;
  if (state->image && state->image != &state->block) {
    memcpy(state->block.i + at, state->image->i + line->array_at,
           (size_t)inside * sizeof *state->block.i);
    memcpy(state->block.poison + at, state->image->poison + line->array_at, (size_t)inside);
    copy_missing(in, &state->block, &(Walk){1, {inside}, {1}, at}, state->image,
                 &(Walk){1, {inside}, {1}, line->array_at});
    copy_errors(&state->block, at, state->image->uncertain ? state->image->error : NULL,
                line->array_at, inside);
    return;
  }
  miss_all(&state->block, at, inside);
  read_elements(state->array, line->array_at, inside, &state->block, at);
  copy_errors(&state->block, at, state->errors, line->array_at, inside);
  for (int64_t e = 0; e < inside; e++)
    state->block.poison[at + e] =
        state->written && state->written[line->array_at + e] == WRITTEN_UNSTORED ? POISON_OTHER : 0;
  const uint8_t *given = given_of(in, ref);
  for (int64_t e = 0; given && e < inside; e++)
    if (!given[line->array_at + e] && !is_written_here(state, line->array_at + e))
      state->block.poison[at + e] = POISON_UNWRITTEN;
}

// The block's place in HBM.
static Box array_box(Interp *in, const Ref *ref) {
  const RefState *state = &in->refs[ref->id];
  const void *memory = state->image ? (const void *)state->image : state->array;
  Box box = {.ref = ref, .memory = memory, .rank = ref->array.rank};
  block_start(in, ref, state->index, box.start);
  for (int i = 0; i < ref->array.rank; i++) {
    box.dim[i] = state->array->dim[i];
    box.extent[i] = live_extent(in, ref, state->index, i);
    box.stride[i] = 1;
  }
  return box;
}

static void check_block_access(Interp *in, const Ref *ref, bool writes, const char *doing) {
  if (in->transfer_count == 0 && !in->mesh) return;
  Box box = whole_block(in, ref);
  check_access(in, NULL, &box, NULL, writes, doing);
}

static void fetch_block(Interp *in, const Ref *ref, const int64_t *index) {
  RefState *state = &in->refs[ref->id];
  int64_t start[MAX_RANK];
  memcpy(state->index, index, sizeof state->index);
  state->held = true;
  block_start(in, ref, index, start);
  visit_lines(in, ref, start, fetch_line);
}

void run_fetch(Interp *in, const Instr *instr) {
  RefState *state = &in->refs[instr->ref->id];
  int64_t index[MAX_INDEX];
  map_index(in, instr->ref, in->axes, index);
  if (state->held && memcmp(index, state->index, sizeof index) == 0) return;
  check_block_index(in, instr->ref, index);
  check_block_access(in, instr->ref, true, "replaced by the next block");
  fetch_block(in, instr->ref, index);
  if (!state->written) return;
  Box box = array_box(in, instr->ref);
  check_fetch(in, instr->ref, &box);
  check_cores(in, NULL, &box, false);
}

// ---- outputs

// -1: the index is out of range, or blocks are not tracked.
static int64_t block_number(const Ref *ref, const RefState *state) {
  int64_t number = 0;
  if (ref->at != AT_BLOCK || !state->left) return -1;
  for (int i = 0; i < ref->array.rank; i++) {
    if (state->index[i] < 0 || state->index[i] >= state->blocks[i]) return -1;
    number = number * state->blocks[i] + state->index[i];
  }
  return number;
}

// Do two cells differ only in axes that are not in the output's index map?
static bool is_cell_of_block(const Interp *in, const RefState *state, int64_t a, int64_t b) {
  bool same = true;
  for (int i = in->k->grid.count - 1; i >= 0; i--) {
    if (!in->k->grid.at[i].parallel) continue;
    same =
        same && (a % in->extents[i] == b % in->extents[i] || (state->ignores && state->ignores[i]));
    a /= in->extents[i];
    b /= in->extents[i];
  }
  return same;
}

// Begins a block of an output: reports blocks that other cells have written, and revisits.
static void enter_block(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  check_block_index(in, ref, state->index);
  int64_t number = block_number(ref, state);
  if (number < 0) return;
  Buf what = {0};
  buf_puts(&what, "block (");
  format_indices(&what, state->index, ref->array.rank);
  buf_putc(&what, ')');
  int64_t owner = state->owner[number];
  bool same_step = owner == in->parallel_step + 1;
  if (owner && !is_cell_of_block(in, state, owner - 1, in->parallel_step))
    find(in, ref, FIND_PARALLEL, map_place(ref),
         "%s of output `%s` is written by two steps that differ in the parallel axis `%s`",
         what.text, ref->name, differing_axis(in, owner - 1));
  state->owner[number] = in->parallel_step + 1;
  if (!same_step) state->left[number] = false;
  if (state->left[number] && same_step && !ref->revisit)
    find(in, ref, FIND_REVISIT, map_place(ref),
         "%s of output `%s` is visited again after it was left: its contents are lost", what.text,
         ref->name);
  buf_free(&what);
}

static bool is_written(uint8_t mark) { return mark == WRITTEN_GOOD || mark == WRITTEN_UNSPECIFIED; }

// With `revisit any`, a revisited block keeps its previous contents.
static void restore_line(Interp *in, const Ref *ref, const Line *line) {
  RefState *state = &in->refs[ref->id];
  int64_t inside = line->high - line->low, from = line->at + line->low;
  read_elements(state->array, line->array_at, inside, &state->block, from);
  copy_errors(&state->block, from, state->errors, line->array_at, inside);
  for (int64_t e = 0; e < inside; e++)
    if (ref->alias || is_written(state->written[line->array_at + e]))
      state->block.poison[from + e] = 0;
}

static void restore_block(Interp *in, const Ref *ref) {
  int64_t start[MAX_RANK];
  block_start(in, ref, in->refs[ref->id].index, start);
  visit_lines(in, ref, start, restore_line);
}

static void begin_output(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  int64_t index[MAX_INDEX];
  if (stays_in_place(ref)) return;
  map_index(in, ref, in->axes, index);
  bool moved = in->cell_begins || !state->held || memcmp(index, state->index, sizeof index) != 0;
  memcpy(state->index, index, sizeof index);
  state->held = true;
  if (!moved) return;
  check_block_access(in, ref, true, "replaced by the next block");
  fill_unspecified(&state->block, 0, state->block.count, POISON_UNSTORED);
  if (ref->revisit) restore_block(in, ref);
  enter_block(in, ref);
}

// Semaphores of a device of a mesh may be signalled before the device begins.
static bool is_begun(const Interp *in, const Ref *ref) {
  return in->mesh && in->step == 0 && ref->space == SPACE_SEM;
}

// A parallel step may run on another core, with scratch of its own.
void begin_step(Interp *in) {
  expire_transfers(in);
  for (int i = 0; i < in->k->refs.count && !in->stopped; i++) {
    const Ref *ref = in->k->refs.at[i];
    Value *block = &in->refs[i].block;
    if (ref->role == REF_OUTPUT)
      begin_output(in, ref);
    else if (ref->role == REF_VAR)
      fill_unspecified(block, 0, block->count, ref_mark(ref));
    else if (ref->role == REF_SCRATCH && !ref->scope && in->cell_begins && !is_begun(in, ref))
      begin_scratch(in, ref);
  }
}

static void write_unspecified(HostArray *array, int64_t element) {
  if (is_float(array->dtype))
    array_set(array, element, unspecified_float());
  else
    array_set_int(array, element, unspecified_int(array->dtype));
}

static void report_poison(Interp *in, const Ref *ref, int64_t element, uint8_t mark) {
  const RefState *state = &in->refs[ref->id];
  const Instr *store = state->last_store;
  Buf at = {0};
  array_index(state->array, element, &at);
  find(in, store ? (const void *)store : ref, FIND_POISON_OUT,
       store && store->span.end ? store->span : ref->span,
       "element %s of output `%s` gets an unspecified value: %s", at.text, ref->name,
       poison_cause(in, mark));
  buf_free(&at);
}

// Writes one line of a block to its array.
static void write_line(Interp *in, const Ref *ref, const Line *line) {
  RefState *state = &in->refs[ref->id];
  int64_t inside = line->high - line->low, from = line->at + line->low;
  write_elements(state->array, line->array_at, inside, &state->block, from);
  if (state->image && state->image != &state->block) {
    memcpy(state->image->i + line->array_at, state->block.i + from,
           (size_t)inside * sizeof *state->block.i);
    memcpy(state->image->poison + line->array_at, state->block.poison + from, (size_t)inside);
    copy_missing(in, state->image, &(Walk){1, {inside}, {1}, line->array_at}, &state->block,
                 &(Walk){1, {inside}, {1}, from});
    copy_errors(state->image, line->array_at, state->block.uncertain ? state->block.error : NULL,
                from, inside);
  }
  if (state->errors && state->block.uncertain)
    memcpy(state->errors + line->array_at, state->block.error + from,
           (size_t)inside * sizeof *state->errors);
  for (int64_t e = 0; e < inside; e++) {
    int64_t element = line->array_at + e;
    uint8_t mark = state->block.poison[from + e];
    state->written[element] = mark == POISON_UNSTORED ? WRITTEN_UNSTORED
                              : mark                  ? WRITTEN_UNSPECIFIED
                                                      : WRITTEN_GOOD;
    if (!mark) continue;
    if (mark != POISON_UNSTORED) report_poison(in, ref, element, mark);
    write_unspecified(state->array, element);
  }
}

static void write_block(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  int64_t start[MAX_RANK], number = block_number(ref, state);
  block_start(in, ref, state->index, start);
  visit_lines(in, ref, start, write_line);
  if (number >= 0) state->left[number] = true;
  state->held = false;
}

static bool is_same_value(DType t, int64_t a, int64_t b) {
  Scalar x = {.i = a}, y = {.i = b};
  return a == b || (is_float(t) && isnan(x.f) && isnan(y.f));
}

// If each cell has its own block and only one of them is written back, all must be equal.
static void compare_line(Interp *in, const Ref *ref, const Line *line) {
  RefState *state = &in->refs[ref->id];
  for (int64_t e = 0; e < line->high - line->low; e++) {
    int64_t element = line->array_at + e, value = state->block.i[line->at + line->low + e];
    if (state->block.poison[line->at + line->low + e]) continue;
    if (state->first_cell[element] == 0) {
      state->first[element] = value;
      state->first_cell[element] = in->parallel_step + 1;
      continue;
    }
    if (is_same_value(ref->array.dtype, state->first[element], value)) continue;
    Buf at = {0};
    array_index(state->array, element, &at);
    find(
        in, ref, FIND_PARALLEL, map_place(ref),
        "element %s of output `%s` gets different values from two steps that differ in the "
        "parallel axis `%s`, which does not move its block: the value of the last index is written",
        at.text, ref->name, differing_axis(in, state->first_cell[element] - 1));
    buf_free(&at);
    return;
  }
}

// Is it the last of the cells that have the same block of an output?
static bool is_last_cell(const Interp *in, const RefState *state) {
  for (int i = 0; i < in->k->grid.count; i++)
    if (state->ignores[i] && in->axes[i] != in->extents[i] - 1) return false;
  return true;
}

// Does the block leave VMEM at this step, and must it be written back?
static bool is_written_back(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  int64_t next[MAX_INDEX], start[MAX_RANK];
  if (!state->held) return false;
  if (!in->last_step && !(state->ignores && in->cell_ends)) {
    map_index(in, ref, in->next_axes, next);
    if (memcmp(next, state->index, sizeof next) == 0) return false;
  }
  if (!state->ignores) return true;
  block_start(in, ref, state->index, start);
  visit_lines(in, ref, start, compare_line);
  state->held = is_last_cell(in, state);
  return state->held;
}

void run_writeback(Interp *in, const Instr *instr) {
  const Ref *ref = instr->ref;
  if (!is_written_back(in, ref)) return;
  check_block_access(in, ref, false, "written back");
  Box box = array_box(in, ref);
  begin_writeback(in, ref, &box);
  check_cores(in, NULL, &box, true);
  write_block(in, ref);
}

// ---- the start and the end

static void *shadow(Interp *in, int64_t count, int64_t item_bytes) {
  int64_t bytes;
  void *p = mul_i64(count > 0 ? count : 1, item_bytes, &bytes)
                ? calloc((size_t)(count > 0 ? count : 1), (size_t)item_bytes)
                : NULL;
  if (!p) stop_for_memory(in, INT64_MAX);
  return p;
}

// An output and the input whose memory it shares.
static void start_alias(Interp *in, const Ref *output, int64_t elements) {
  int input_id = output->alias->id;
  RefState *state = &in->refs[output->id], *input = &in->refs[input_id];
  bool in_place = stays_in_place(output), input_in_place = stays_in_place(output->alias);
  if (input->array->data != state->array->data && elements > 0)
    memcpy(state->array->data, input->array->data,
           (size_t)(elements * dtype_bytes(state->array->dtype)));
  if (in->options.input_error && in->options.input_error[input_id] && state->errors)
    memcpy(state->errors, in->options.input_error[input_id],
           (size_t)elements * sizeof *state->errors);
  input->array = state->array;
  input->written = state->written;
  input->errors = state->errors;
  input->shared = output;
  if (in_place || input_in_place)
    input->image = state->image = in_place ? &state->block : &input->block;
  if (!input_in_place && output->alias->buffers > in->lookahead)
    in->lookahead = output->alias->buffers;
}

static void start_ignored(Interp *in, const Ref *ref, int64_t elements) {
  RefState *state = &in->refs[ref->id];
  state->ignores = shadow(in, in->k->grid.count, sizeof *state->ignores);
  state->first = shadow(in, elements, sizeof *state->first);
  state->first_cell = shadow(in, elements, sizeof *state->first_cell);
  for (int i = 0; i < in->k->grid.count && state->ignores; i++)
    state->ignores[i] = ir_ignores_axis(in->k, ref, i);
}

static void start_output(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  int64_t elements, blocks = 1;
  array_elements(state->array, &elements);
  for (int i = 0; i < ref->array.rank; i++)
    if (!mul_i64(blocks, state->blocks[i], &blocks)) blocks = INT64_MAX;
  state->written = shadow(in, elements, 1);
  if (in->bounds) state->errors = shadow(in, elements, sizeof *state->errors);
  // There are more blocks than elements only if an axis has size 0; then there is nothing to track.
  if (ref->at == AT_BLOCK && blocks <= (elements > 0 ? elements : 1)) {
    state->owner = shadow(in, blocks, sizeof *state->owner);
    state->left = shadow(in, blocks, sizeof *state->left);
  }
  if (stays_in_place(ref) || ref->at != AT_BLOCK || ref->alias) state->shared = ref;
  if (ir_ignores_any_axis(in->k, ref)) start_ignored(in, ref, elements);
  if (ref->alias && !in->stopped) start_alias(in, ref, elements);
}

static void start_operand(Interp *in, const Ref *ref, HostArray *array) {
  RefState *state = &in->refs[ref->id];
  state->array = array;
  for (int i = 0; i < ref->array.rank; i++) {
    int64_t blocks = ceil_div(array->dim[i], block_extent(in, ref, i));
    state->blocks[i] = blocks > 0 ? blocks : 1;
  }
  if (ref->role == REF_OUTPUT) start_output(in, ref);
  if (ref->role == REF_INPUT && in->options.input_error)
    state->errors = in->options.input_error[ref->id];
}

// Index maps and extents read it.
bool is_prefetch_known(const CheckOptions *options, const HostArray *array) {
  const Arithmetic *a = options->arithmetic;
  int64_t elements;
  array_elements(array, &elements);
  for (int64_t e = 0; a && a->knows && e < elements; e++)
    if (!a->knows(options->context, array_get_int(array, e))) return false;
  return true;
}

// Creates the blocks of all refs, and the state of operands.
bool start_refs(Interp *in, HostArray *operands) {
  const Kernel *k = in->k;
  for (int i = 0; i < k->refs.count && !in->stopped; i++) {
    const Ref *ref = k->refs.at[i];
    Value *block = &in->refs[i].block;
    if (!value_shape(in, block, &ref->type) || !value_poison(in, block)) return false;
    if (in->bounds && !value_error(in, block)) return false;
    begin_scratch(in, ref);
    if (ref->role == REF_OUTPUT) memset(block->poison, POISON_UNSTORED, (size_t)block->count);
    if (ref_is_operand(ref)) start_operand(in, ref, &operands[i]);
    if (ref->prefetch && !is_prefetch_known(&in->options, &operands[i]))
      return !(in->stopped = true);
    if (ref->prefetch) k->refs.at[i]->prefetched = &operands[i];
  }
  static const int64_t origin[MAX_INDEX];
  for (int i = 0; i < k->inputs + k->outputs && !in->stopped; i++) {
    const Ref *ref = k->refs.at[i];
    bool whole = ref->role == REF_INPUT ? stays_in_place(ref) || ref->prefetch
                                        : stays_in_place(ref) && ref->alias;
    if (whole) fetch_block(in, ref, origin);
  }
  return !in->stopped;
}

static bool is_given(const Interp *in, const Ref *ref, int64_t element) {
  const uint8_t *given = given_of(in, ref);
  return !given || given[element];
}

static void report_unwritten(Interp *in, const Ref *ref) {
  RefState *state = &in->refs[ref->id];
  int64_t elements, missing = 0, first = 0;
  array_elements(state->array, &elements);
  for (int64_t e = 0; e < elements; e++) {
    if (is_written(state->written[e]) ||
        (state->written[e] == WRITTEN_NEVER && ref->alias && is_given(in, ref, e)))
      continue;
    if (missing++ == 0) first = e;
    write_unspecified(state->array, e);
  }
  if (missing == 0) return;
  Buf at = {0};
  array_index(state->array, first, &at);
  find(in, ref, FIND_UNWRITTEN, ref->span,
       "%lld of the %lld elements of output `%s` are never written, the first is %s",
       (long long)missing, (long long)elements, ref->name, at.text);
  buf_free(&at);
}

// Returns the requested information about an output's elements.
static void note_output(Interp *in, const Ref *ref, int output) {
  const RefState *state = &in->refs[ref->id];
  double *allowed = in->options.allowed ? in->options.allowed[output] : NULL;
  uint8_t *specified = in->options.specified ? in->options.specified[output] : NULL;
  int64_t elements;
  array_elements(state->array, &elements);
  for (int64_t e = 0; e < elements; e++) {
    uint8_t mark = state->written[e];
    if (specified)
      specified[e] =
          mark == WRITTEN_GOOD || (mark == WRITTEN_NEVER && ref->alias && is_given(in, ref, e));
    if (allowed) allowed[e] = bound_allowed(in, state->array->dtype, 0, state->errors[e]);
  }
}

// See internal.h.
void end_refs(Interp *in) {
  const Kernel *k = in->k;
  for (int i = k->inputs; i < k->inputs + k->outputs && !in->stopped; i++) {
    const Ref *ref = k->refs.at[i];
    if (stays_in_place(ref)) write_block(in, ref);
    report_unwritten(in, ref);
    note_output(in, ref, i - k->inputs);
  }
  for (int i = 0; i < k->refs.count; i++) {
    RefState *state = &in->refs[i];
    value_free(&state->block);
    free(state->semaphores);
    if (k->refs.at[i]->role != REF_OUTPUT) continue;
    free(state->written);
    free(state->errors);
    free(state->owner);
    free(state->ignores);
    free(state->first);
    free(state->first_cell);
    free(state->left);
    free(state->accesses);
  }
}

// Vars of the reference, unspecified at first.
bool start_states(Interp *in) {
  for (int i = 0; i < in->k->states.count; i++) {
    const Ref *ref = in->k->states.at[i];
    Value *block = &in->states[i].block;
    if (!value_shape(in, block, &ref->type) || !value_poison(in, block)) return false;
    if (in->bounds && !value_error(in, block)) return false;
    fill_unspecified(block, 0, block->count, ref_mark(ref));
  }
  return true;
}
