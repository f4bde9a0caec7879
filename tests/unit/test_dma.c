/* The DMA engine and the test for overlap against brute force, on random and hostile cases. */
#include "runtime/runtime.h"
#include "check.h"
#include "data.h"

#include <stdio.h>
#include <string.h>

/* ---- Overlap against brute force. */

static void random_view(pk_view *view, int *rank, int64_t element_bytes, int64_t *marks) {
  *rank = (int)random_between(0, 3);
  memset(view, 0, sizeof *view);
  memset(marks, 0, 2048 * sizeof *marks);
  int64_t below = 0, above = 0;
  view->elements = 1;
  for (int k = 0; k < *rank; ++k) {
    view->caller.dim[k] = random_between(1, 5);
    view->caller.stride[k] = random_between(-14, 14);
    int64_t reach = view->caller.stride[k] * (view->caller.dim[k] - 1);
    *(reach < 0 ? &below : &above) += reach < 0 ? -reach : reach;
    view->elements *= view->caller.dim[k];
  }
  view->span = (below + above + 1) * element_bytes;
  view->low = (uintptr_t)(random_between(0, 200 / element_bytes) * element_bytes);
  for (int64_t i = 0; i < view->elements; ++i) {
    int64_t rest = i, address = (int64_t)view->low + below * element_bytes;
    for (int k = 0; k < *rank; ++k) {
      address += rest % view->caller.dim[k] * view->caller.stride[k] * element_bytes;
      rest /= view->caller.dim[k];
    }
    for (int64_t b = 0; b < element_bytes; ++b) ++marks[address + b];
  }
}

static void test_overlap_random(void) {
  static int64_t a_marks[2048], b_marks[2048];
  for (int round = 0; round < 20000 && check_failures < 5; ++round) {
    int64_t a_bytes = INT64_C(1) << random_between(0, 2), b_bytes = INT64_C(1)
                                                                    << random_between(0, 2);
    pk_view a, b;
    int a_rank, b_rank;
    random_view(&a, &a_rank, a_bytes, a_marks);
    random_view(&b, &b_rank, b_bytes, b_marks);
    bool meet = false, repeats = false;
    for (int i = 0; i < 2048; ++i) {
      meet |= a_marks[i] && b_marks[i];
      repeats |= a_marks[i] > 1;
    }
    check(pk_views_overlap(&a, a_rank, a_bytes, &b, b_rank, b_bytes) == meet,
          "whether two views overlap", "differs");
    check(pk_view_overlaps_itself(&a, a_rank, a_bytes) == repeats, "whether a view overlaps itself",
          "differs");
  }
}

/* ---- The DMA engine against brute force. */

typedef struct {
  pk_array array;
  pk_block block;
  int64_t bytes;
  unsigned char memory[1 << 16], vmem[1 << 16], before[1 << 16];
} dma_case;

/* Strides that keep elements apart, in a random order of axes, with gaps, some negative; returns
 * the offset of element 0. */
static int64_t random_strides(int rank, const int64_t *extent, int64_t *stride, bool negative) {
  int order[PK_MAX_RANK];
  for (int k = 0; k < rank; ++k) order[k] = k;
  for (int k = rank - 1; k > 0 && random_between(0, 1); --k) {
    int other = (int)random_between(0, k), kept = order[k];
    order[k] = order[other];
    order[other] = kept;
  }
  int64_t dense = random_between(0, 3) ? 1 : 2, origin = 8;
  for (int k = rank - 1; k >= 0; --k) {
    int axis = order[k];
    stride[axis] = dense;
    dense = dense * (extent[axis] > 0 ? extent[axis] : 1) +
            (random_between(0, 2) ? 0 : random_between(0, 2));
    if (!negative || random_between(0, 3)) continue;
    if (extent[axis] > 0) origin += stride[axis] * (extent[axis] - 1);
    stride[axis] = -stride[axis];
  }
  return origin;
}

static int64_t random_start(int64_t dim, int64_t block) {
  const int64_t hostile[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1,      -block,
                             1 - block, dim,           dim - 1,   -(INT64_C(1) << 40)};
  if (random_between(0, 5) == 0) return hostile[random_between(0, 8)];
  return random_between(-block - 1, dim + 1);
}

/* Calls `visit` with the offsets of every element of the block: in the array, or -1 outside of it,
 * and in VMEM. */
static bool for_each(const dma_case *c, int64_t origin,
                     bool (*visit)(const dma_case *, int64_t, int64_t)) {
  int64_t total = 1;
  for (int k = 0; k < c->block.rank; ++k) total *= c->block.block[k];
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, array = origin, vmem = 8;
    bool inside = true;
    for (int k = c->block.rank - 1; k >= 0; --k) {
      int64_t index = rest % c->block.block[k];
      rest /= c->block.block[k];
      int64_t place;
      inside &= !__builtin_add_overflow(c->block.start[k], index, &place) && place >= 0 &&
                place < c->array.dim[k];
      vmem += index * c->block.vmem_stride[k];
      if (inside) array += place * c->array.stride[k];
    }
    if (!visit(c, inside ? array : -1, vmem)) return false;
  }
  return true;
}

static const unsigned char pad_bytes[8] = {0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8};
static unsigned char model[1 << 16];

static bool model_in_pad(const dma_case *c, int64_t array, int64_t vmem) {
  memcpy(model + vmem * c->bytes, array < 0 ? pad_bytes : c->memory + array * c->bytes,
         (size_t)c->bytes);
  return true;
}
static bool model_in(const dma_case *c, int64_t array, int64_t vmem) {
  return array < 0 || model_in_pad(c, array, vmem);
}
static bool model_out(const dma_case *c, int64_t array, int64_t vmem) {
  if (array >= 0) memcpy(model + array * c->bytes, c->vmem + vmem * c->bytes, (size_t)c->bytes);
  return true;
}

static void test_dma(void) {
  static dma_case c;
  static const pk_dtype dtype[] = {PK_I8, PK_BF16, PK_F32, PK_I64};
  for (int round = 0; round < 20000 && check_failures < 5; ++round) {
    int rank = c.block.rank = (int)random_between(0, 4), kind = (int)random_between(0, 3);
    c.bytes = INT64_C(1) << kind;
    for (int k = 0; k < rank; ++k) {
      int64_t most = rank == 2 ? 40 : 6;
      c.array.dim[k] = random_between(0, 4) ? random_between(1, most) : random_between(0, 1);
      c.block.block[k] = random_between(0, 20) ? random_between(1, most) : 0;
      c.block.start[k] = random_start(c.array.dim[k], c.block.block[k]);
    }
    int64_t origin = random_strides(rank, c.array.dim, c.array.stride, true);
    (void)random_strides(rank, c.block.block, c.block.vmem_stride, false);
    for (size_t i = 0; i < sizeof c.memory; i += 8) {
      uint64_t bits = random_word(), more = random_word();
      memcpy(c.memory + i, &bits, 8);
      memcpy(c.vmem + i, &more, 8);
      if (i > 50000) break;
    }
    c.array.data = (char *)c.memory + origin * c.bytes;
    memcpy(c.before, c.vmem, sizeof c.vmem);
    memcpy(model, c.vmem, sizeof model);
    bool pad = random_between(0, 1);
    (void)for_each(&c, origin, pad ? model_in_pad : model_in);
    pk_dma_in(NULL, &c.array, dtype[kind], &c.block, c.vmem + 8 * c.bytes, pad ? pad_bytes : NULL);
    check(memcmp(model, c.vmem, sizeof model) == 0, "pk_dma_in", "differs");
    memcpy(c.vmem, c.before, sizeof c.vmem);
    memcpy(model, c.memory, sizeof model);
    (void)for_each(&c, origin, model_out);
    pk_dma_out(NULL, &c.array, dtype[kind], &c.block, c.vmem + 8 * c.bytes);
    check(memcmp(model, c.memory, sizeof model) == 0, "pk_dma_out", "differs");
  }
}

int main(void) {
  test_overlap_random();
  test_dma();
  return check_end();
}
