// The network of a slice: its chips, its links, and the route of a message.
#ifndef CODEGEN_TPU_TORUS_H
#define CODEGEN_TPU_TORUS_H

#include "codegen/tpu/internal.h"

enum { TORUS_AXES = 3, MOST_CHIPS = 65536 };

// The part of a slice along the used axes; whether these wrap depends on the whole slice. Chips are
// numbered in row-major order of their positions, and slice by slice.
struct Torus {
  const Chip *chip;
  const char *shape;  // of the whole slice, as requested
  int axes;
  int64_t size[TORUS_AXES], chips;  // of one slice
  bool wraps[TORUS_AXES];
  char name[TORUS_AXES];  // 'x' ..
  int64_t slices;
  double one_way;  // B/s of a link in one direction
};

// Reads integers with a separator between them; returns their number, or -1 for other text.
int torus_read_list(const char *text, char separator, int64_t *list, int most);
// mesh: X, XxY or XxYxZ; over: the used axes, "x,z"; NULL: all. Returns NULL, or an error message.
const char *torus_read(Arena *arena, const Chip *chip, const char *mesh, const char *over,
                       int64_t slices, Torus *t);
// "4x4", "16 (wraps)x8": for the used axes
void torus_put_shape(const Torus *t, Buf *out);

// The chip of each device of a kernel's mesh. The mesh has one axis for all chips, or the axes of a
// slice, after an axis for the slices if there are several.
void torus_place(const Torus *t, const Kernel *k, int *chip);

// ---- links: each chip has one in each direction of each axis, and one to and one from the
// data-centre network

int torus_links(const Torus *t);
bool torus_is_dcn(const Torus *t, int link);
// "(1, 2) +x", "slice 1 (1, 2) to DCN"
const char *torus_link_name(Arena *arena, const Torus *t, int link);
const char *torus_chip_name(Arena *arena, const Torus *t, int chip);

// A route from one chip to another: along x first, then y, then z. At half of an axis that wraps,
// both directions are equally short; `down`: the axes along which the route descends.
typedef struct {
  int from, to;
  unsigned down, ties;  // one bit per axis; ties: both directions are equally short
  int hops;
} Route;
Route torus_route(const Torus *t, int from, int to);
// The link that a message at chip `at` takes next; *next: the chip after it.
int torus_step(const Torus *t, const Route *route, int at, int *next);

#endif
