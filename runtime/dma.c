/* The DMA engine: blocks between arrays and VMEM, clipped to the array. */
#include "runtime/runtime.h"

#include <string.h>

static int64_t magnitude(int64_t a) { return a < 0 ? -a : a; }

/* Drops axes of one element, orders the others by the target's stride, the largest outermost, and
 * merges contiguous axes. False if there is nothing to move. */
static bool simplify(const pk_nest *from, pk_nest *to) {
  to->rank = 0;
  for (int k = 0; k < from->rank; ++k) {
    if (from->count[k] <= 0) return false;
    if (from->count[k] == 1) continue;
    int at = to->rank++;
    for (; at > 0 && magnitude(to->to_stride[at - 1]) < magnitude(from->to_stride[k]); --at) {
      to->count[at] = to->count[at - 1];
      to->from_stride[at] = to->from_stride[at - 1];
      to->to_stride[at] = to->to_stride[at - 1];
    }
    to->count[at] = from->count[k];
    to->from_stride[at] = from->from_stride[k];
    to->to_stride[at] = from->to_stride[k];
  }
  int last = 0; /* the axis being merged into */
  for (int k = 1; k < to->rank; ++k) {
    bool dense = to->from_stride[last] == to->from_stride[k] * to->count[k] &&
                 to->to_stride[last] == to->to_stride[k] * to->count[k];
    if (dense) {
      to->count[last] *= to->count[k];
    } else {
      to->count[++last] = to->count[k];
    }
    to->from_stride[last] = to->from_stride[k];
    to->to_stride[last] = to->to_stride[k];
  }
  if (to->rank > 0) to->rank = last + 1;
  return true;
}

/* Inlined with a constant size, memcpy of an element is a load and a store. */
static inline void copy_elements(int64_t count, size_t bytes, const char *from, int64_t from_stride,
                                 char *to, int64_t to_stride) {
  for (int64_t i = 0; i < count; ++i) memcpy(to + i * to_stride, from + i * from_stride, bytes);
}

/* Copies a strided row of elements. */
static void copy_row(int64_t count, int64_t bytes, const char *from, int64_t from_stride, char *to,
                     int64_t to_stride) {
  if (from_stride == bytes && to_stride == bytes) {
    memcpy(to, from, (size_t)(count * bytes));
    return;
  }
  switch (bytes) {
    case 1:
      copy_elements(count, 1, from, from_stride, to, to_stride);
      return;
    case 2:
      copy_elements(count, 2, from, from_stride, to, to_stride);
      return;
    case 4:
      copy_elements(count, 4, from, from_stride, to, to_stride);
      return;
    case 8:
      copy_elements(count, 8, from, from_stride, to, to_stride);
      return;
    default:
      copy_elements(count, (size_t)bytes, from, from_stride, to, to_stride);
      return;
  }
}

/* For a transposed source, makes the axis along which it is contiguous the second last; false if
 * there is no such axis. */
static bool make_plane(pk_nest *nest, int64_t bytes) {
  int row = nest->rank - 1, across = row - 1;
  if (row < 1 || nest->from_stride[row] == bytes || nest->from_stride[row] == 0) return false;
  while (across >= 0 && magnitude(nest->from_stride[across]) != bytes) --across;
  if (across < 0) return false;
  int64_t count = nest->count[across], from_stride = nest->from_stride[across],
          to_stride = nest->to_stride[across];
  for (; across < row - 1; ++across) {
    nest->count[across] = nest->count[across + 1];
    nest->from_stride[across] = nest->from_stride[across + 1];
    nest->to_stride[across] = nest->to_stride[across + 1];
  }
  nest->count[across] = count;
  nest->from_stride[across] = from_stride;
  nest->to_stride[across] = to_stride;
  return true;
}

/* Copies the last two axes in strips of one cache line of the target, so that the source's lines
 * are reused while they are in L1. */
static void copy_plane(const pk_nest *nest, int64_t bytes, const char *from, char *to) {
  int row = nest->rank - 1, across = row - 1;
  int64_t strip = 64 / bytes;
  for (int64_t begin = 0; begin < nest->count[row]; begin += strip) {
    int64_t count = nest->count[row] - begin < strip ? nest->count[row] - begin : strip;
    const char *strip_from = from + begin * nest->from_stride[row];
    char *strip_to = to + begin * nest->to_stride[row];
    for (int64_t i = 0; i < nest->count[across]; ++i) {
      copy_row(count, bytes, strip_from + i * nest->from_stride[across], nest->from_stride[row],
               strip_to + i * nest->to_stride[across], nest->to_stride[row]);
    }
  }
}

/* Copies a nest of loops over elements, after simplifying it. */
void pk_copy_nest(pk_nest given, int64_t element_bytes, const char *from, char *to) {
  pk_nest nest;
  if (!simplify(&given, &nest)) return;
  if (nest.rank == 0) {
    memcpy(to, from, (size_t)element_bytes);
    return;
  }
  bool plane = make_plane(&nest, element_bytes);
  int row = nest.rank - 1, outer = plane ? row - 1 : row; /* axes [0, outer) are walked here */
  int64_t index[PK_WINDOW_RANK] = {0};
  for (;;) {
    if (plane)
      copy_plane(&nest, element_bytes, from, to);
    else
      copy_row(nest.count[row], element_bytes, from, nest.from_stride[row], to,
               nest.to_stride[row]);
    int k = outer - 1;
    for (; k >= 0; --k) {
      if (++index[k] < nest.count[k]) break;
      from -= nest.from_stride[k] * (nest.count[k] - 1);
      to -= nest.to_stride[k] * (nest.count[k] - 1);
      index[k] = 0;
    }
    if (k < 0) return;
    from += nest.from_stride[k];
    to += nest.to_stride[k];
  }
}

/* The part [low, high) of each axis of a block that is in bounds; false if it is empty. */
static bool clip(const pk_array *array, const pk_block *block, int64_t *low, int64_t *high) {
  bool any = true;
  for (int k = 0; k < block->rank; ++k) {
    int64_t start = block->start[k], extent = block->block[k], dim = array->dim[k];
    if (start >= dim || (start < 0 && start <= -extent)) {
      low[k] = high[k] = 0;
      any = false;
      continue;
    }
    low[k] = start < 0 ? -start : 0;
    int64_t room =
        start < 0 ? dim : dim - start; /* elements of the array from the first of the part on */
    high[k] = room < extent - low[k] ? low[k] + room : extent;
    if (low[k] >= high[k]) any = false;
  }
  return any;
}

/* Fills [low, high) of a block in VMEM. */
static void fill(const pk_block *block, const int64_t *low, const int64_t *high, int64_t bytes,
                 char *vmem, const void *pad) {
  pk_nest nest = {.rank = block->rank};
  for (int k = 0; k < block->rank; ++k) {
    if (low[k] >= high[k]) return;
    nest.count[k] = high[k] - low[k];
    nest.to_stride[k] = block->vmem_stride[k] * bytes;
    vmem += low[k] * nest.to_stride[k];
  }
  pk_copy_nest(nest, bytes, pad, vmem);
}

/* Fills the part outside the array: for each axis the parts before and after the array, within the
 * in-bounds part of the earlier axes. */
static void fill_outside(const pk_block *block, const int64_t *low, const int64_t *high,
                         int64_t bytes, char *vmem, const void *pad) {
  int64_t first[PK_MAX_RANK], end[PK_MAX_RANK];
  for (int k = 0; k < block->rank; ++k) {
    first[k] = 0;
    end[k] = block->block[k];
  }
  for (int k = 0; k < block->rank; ++k) {
    end[k] = low[k];
    fill(block, first, end, bytes, vmem, pad);
    first[k] = high[k];
    end[k] = block->block[k];
    fill(block, first, end, bytes, vmem, pad);
    first[k] = low[k];
    end[k] = high[k];
  }
}

typedef enum { TO_VMEM, FROM_VMEM } dma_direction;

/* Copies the part of a block that is in bounds; returns its bytes. */
static int64_t move_inside(const pk_array *array, const pk_block *block, const int64_t *low,
                           const int64_t *high, int64_t bytes, dma_direction direction,
                           const char *from, char *to) {
  pk_nest nest = {.rank = block->rank};
  int64_t array_offset = 0, vmem_offset = 0, elements = 1;
  for (int k = 0; k < block->rank; ++k) {
    int64_t array_stride = array->stride[k] * bytes, vmem_stride = block->vmem_stride[k] * bytes;
    nest.count[k] = high[k] - low[k];
    nest.from_stride[k] = direction == TO_VMEM ? array_stride : vmem_stride;
    nest.to_stride[k] = direction == TO_VMEM ? vmem_stride : array_stride;
    array_offset += (block->start[k] + low[k]) * array_stride;
    vmem_offset += low[k] * vmem_stride;
    elements *= nest.count[k];
  }
  int64_t from_offset = direction == TO_VMEM ? array_offset : vmem_offset,
          to_offset = direction == TO_VMEM ? vmem_offset : array_offset;
  if (array->packed) { /* bytes is 1: offsets are in elements */
    int array_bits = array->packed;
    pk_copy_packed_nest(
        &nest,
        (pk_bits){(char *)(uintptr_t)from, from_offset, direction == TO_VMEM ? array_bits : 8},
        (pk_bits){to, to_offset, direction == TO_VMEM ? 8 : array_bits});
    return elements * array_bits / 8;
  }
  pk_copy_nest(nest, bytes, from + from_offset, to + to_offset);
  return elements * bytes;
}

void pk_dma_in(pk_worker *worker, const pk_array *array, pk_dtype dtype, const pk_block *block,
               void *vmem, const void *pad) {
  void *trace = worker ? worker->trace : NULL;
  int64_t begun = trace ? pk_trace_now() : 0, bytes = pk_dtype_bytes(dtype), moved = 0;
  int64_t low[PK_MAX_RANK], high[PK_MAX_RANK];
  bool any = clip(array, block, low, high);
  if (pad) fill_outside(block, low, high, bytes, vmem, pad);
  if (any) moved = move_inside(array, block, low, high, bytes, TO_VMEM, array->data, vmem);
  if (trace) pk_trace_record(trace, "dma in", "dma", begun, "bytes", moved);
}

void pk_dma_out(pk_worker *worker, const pk_array *array, pk_dtype dtype, const pk_block *block,
                const void *vmem) {
  void *trace = worker ? worker->trace : NULL;
  int64_t begun = trace ? pk_trace_now() : 0, bytes = pk_dtype_bytes(dtype), moved = 0;
  int64_t low[PK_MAX_RANK], high[PK_MAX_RANK];
  if (clip(array, block, low, high))
    moved = move_inside(array, block, low, high, bytes, FROM_VMEM, vmem, array->data);
  if (trace) pk_trace_record(trace, "dma out", "dma", begun, "bytes", moved);
}

/* ---- explicit copies */

/* The elements [low, high) of an axis of a window that are in bounds. */
static void inside_axis(const pk_window *w, int k, int64_t *low, int64_t *high) {
  int64_t start = w->start[k], step = w->step[k], dim = w->dim[k], first = start;
  *low = 0;
  if (start < 0) {
    uint64_t before = 0 - (uint64_t)start, skipped = before / (uint64_t)step,
             rest = before % (uint64_t)step;
    *low = (int64_t)(skipped + (rest != 0));
    first = rest ? step - (int64_t)rest : 0;
  }
  int64_t count = first < dim ? (dim - 1 - first) / step + 1 : 0;
  *high = *low < w->size[k] && count < w->size[k] - *low ? *low + count : w->size[k];
  if (*high < *low) *low = *high = 0;
}

/* Pairs the axes of both ends that have more than one element; false if one end is entirely out of
 * bounds. */
typedef struct {
  int rank;
  int64_t low[PK_WINDOW_RANK], high[PK_WINDOW_RANK], stride[PK_WINDOW_RANK];
  int64_t size[PK_WINDOW_RANK];
  int64_t at; /* element (0, ..), in bytes */
} window_axes;

/* The extents, strides and in-bounds part of a window; false if it is empty. */
static bool take_axes(const pk_window *w, int64_t bytes, window_axes *axes) {
  bool any = true;
  *axes = (window_axes){.at = 0};
  for (int k = 0; k < w->rank; ++k) {
    int64_t low, high, stride = w->stride[k] * bytes;
    if (w->size[k] <= 0) return false;
    inside_axis(w, k, &low, &high);
    if (low >= high) {
      any = false;
      low = high = 0;
    } else {
      axes->at += w->start[k] * stride;
    }
    if (w->size[k] == 1) continue;
    int i = axes->rank++;
    axes->low[i] = low;
    axes->high[i] = high;
    axes->size[i] = w->size[k];
    axes->stride[i] = stride * w->step[k];
  }
  return any;
}

static bool overlap(const pk_nest *nest, int64_t bytes, const char *from, const char *to) {
  intptr_t from_low = (intptr_t)from, from_high = from_low + (intptr_t)bytes, to_low = (intptr_t)to,
           to_high = to_low + (intptr_t)bytes;
  for (int k = 0; k < nest->rank; ++k) {
    int64_t f = (nest->count[k] - 1) * nest->from_stride[k],
            t = (nest->count[k] - 1) * nest->to_stride[k];
    *(f < 0 ? &from_low : &from_high) += (intptr_t)f;
    *(t < 0 ? &to_low : &to_high) += (intptr_t)t;
  }
  return from_low < to_high && to_low < from_high;
}

/* If the source overlaps the target, copies one element at a time, in order. */
static void copy_in_order(const pk_nest *nest, int64_t bytes, const char *from, char *to) {
  int64_t index[PK_WINDOW_RANK] = {0};
  for (;;) {
    memmove(to, from, (size_t)bytes);
    int k = nest->rank - 1;
    for (; k >= 0; --k) {
      from += nest->from_stride[k];
      to += nest->to_stride[k];
      if (++index[k] < nest->count[k]) break;
      from -= nest->from_stride[k] * nest->count[k];
      to -= nest->to_stride[k] * nest->count[k];
      index[k] = 0;
    }
    if (k < 0) return;
  }
}

static void copy_packed(const pk_nest *nest, pk_packing packed, const char *from, int64_t from_at,
                        char *to, int64_t to_at) {
  pk_copy_packed_nest(nest,
                      (pk_bits){(char *)(uintptr_t)from, from_at, packed.from ? packed.from : 8},
                      (pk_bits){to, to_at, packed.to ? packed.to : 8});
}

void pk_move_nest(const pk_nest *nest, int64_t bytes, pk_packing packed, const char *from,
                  int64_t from_at, char *to, int64_t to_at) {
  if (packed.from || packed.to)
    copy_packed(nest, packed, from, from_at, to, to_at);
  else if (overlap(nest, bytes, from + from_at, to + to_at))
    copy_in_order(nest, bytes, from + from_at, to + to_at);
  else
    pk_copy_nest(*nest, bytes, from + from_at, to + to_at);
}

/* Copies between two windows; returns the bytes. */
static int64_t copy_window(int64_t bytes, const pk_window *from, const pk_window *to,
                           pk_packing packed, const void *other) {
  window_axes source, target;
  bool from_inside = take_axes(from, bytes, &source), to_inside = take_axes(to, bytes, &target);
  if (!to_inside || source.rank != target.rank) return 0;
  pk_nest nest = {.rank = target.rank}, outside = {.rank = target.rank};
  int64_t at = source.at, put = target.at, fill_at = target.at;
  bool any = from_inside, all = from_inside;
  int64_t elements = 1;
  for (int k = 0; k < target.rank; ++k) {
    int64_t low = target.low[k] > source.low[k] ? target.low[k] : source.low[k];
    int64_t high = target.high[k] < source.high[k] ? target.high[k] : source.high[k];
    any = any && low < high;
    all = all && source.low[k] == 0 && source.high[k] == source.size[k];
    nest.count[k] = high - low;
    nest.from_stride[k] = source.stride[k];
    nest.to_stride[k] = outside.to_stride[k] = target.stride[k];
    outside.count[k] = target.high[k] - target.low[k];
    elements *= any ? nest.count[k] : 0;
    if (any) at += low * source.stride[k], put += low * target.stride[k];
    fill_at += target.low[k] * target.stride[k];
  }
  if (other && !all && packed.to)
    copy_packed(&outside, (pk_packing){0, packed.to}, other, 0, to->data, fill_at);
  else if (other && !all)
    pk_copy_nest(outside, bytes, other, to->data + fill_at);
  if (!any) return 0;
  pk_move_nest(&nest, bytes, packed, from->data, at, to->data, put);
  return elements * bytes;
}

void pk_copy_packed(pk_worker *worker, pk_dtype dtype, const pk_window *from, int from_packed,
                    const pk_window *to, int to_packed, const void *other, int64_t *semaphore) {
  void *trace = worker ? worker->trace : NULL;
  int64_t begun = trace ? pk_trace_now() : 0, bytes = pk_dtype_bytes(dtype), whole = bytes;
  int64_t moved = copy_window(bytes, from, to, (pk_packing){from_packed, to_packed}, other);
  for (int k = 0; k < to->rank; ++k) whole = pk_sat_mul(whole, to->size[k]);
  if (semaphore) *semaphore = pk_sat_add(*semaphore, whole);
  if (trace) pk_trace_record(trace, "async copy", "dma", begun, "bytes", moved);
}

void pk_copy_start(pk_worker *worker, pk_dtype dtype, const pk_window *from, const pk_window *to,
                   const void *other, int64_t *semaphore) {
  pk_copy_packed(worker, dtype, from, 0, to, 0, other, semaphore);
}
