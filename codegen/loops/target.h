// The target for which generated C is optimised. It runs on any machine; a wrong target only makes
// it slower.
#ifndef CODEGEN_LOOPS_TARGET_H
#define CODEGEN_LOOPS_TARGET_H

#include "dsl/base.h"

typedef struct Calibration Calibration;

// Properties of a core beyond its instructions. 0: the value in include/pk/machine.h.
typedef struct {
  int sums;  // of a reduction, independent of each other: they hide the latency of an add (4) at
             // two a cycle, half of it
  int64_t l2_bytes;    // of the second-level cache
  int64_t kept_bytes;  // of packed copies that are kept of one operand
  int64_t regimes;     // those of <pk/dot/regimes.h> that only SOME cores have, a bit each
  int64_t piece;  // bytes of a piece of a streamed operand's rows, if cells can be cut into pieces;
                  // 0: any
  int64_t stream_bytes;  // stores to outputs of at least this many bytes are non-temporal
  int64_t stream_all;    // the bytes that the arrays of the call then have, at least
  int64_t stream_lone;   // bytes from which on an output is, if its inputs are negligible
  int64_t near;          // prefetch distance of a product's right operand in steps
  int64_t steps;         // maximum number of steps of a product that are multiplied at a time
  int64_t block;         // rows of a block of a product that is computed panel by panel; 0: none is
  int64_t thin;          // rows of a tile of one vector, if these evict each other from L1
  int64_t skinny_ahead;  // prefetch distance of skinny products in bytes
  int64_t rows_followed;   // rows up to which they do not prefetch an f32 right operand
  int64_t lines_followed;  // rows up to which they do not prefetch a transposed one
  const Calibration
      *calibration;  // the calibration of this machine that some numbers are from; NULL: none
} Core;

// The results of `pkc calibrate` on this machine: calibration.def.
typedef enum {
#define MEASURED(name, ...) CALIBRATED_##name,
#define CUT_OFF(name, ...) CALIBRATED_##name,
#include "codegen/loops/calibration.def"
  CALIBRATED_COUNT
} Calibrated;

struct Calibration {
  bool known[CALIBRATED_COUNT];
  int64_t value[CALIBRATED_COUNT];
  int64_t decided, regimes;  // regimes of <pk/dot/regimes.h> that a race switched, a bit each;
                             // those of them that apply
  const char *id;            // a hash of all this
};

typedef struct {
  const char *name;
  int64_t low, high;
  const char *unit;  // NULL: a cut-off
  const char *meaning;
  size_t number;  // of a cut-off: the offset of its number in Core
} CalibratedRow;
extern const CalibratedRow calibrated_rows[CALIBRATED_COUNT];

// The number of a core that a cut-off replaces.
int64_t *core_number(Core *core, Calibrated cut_off);
// The core with the cut-offs and regimes of a calibration.
Core core_calibrated(const Core *table, const Calibration *calibration);
// The name of a regime of <pk/dot/regimes.h>, and whether only some cores have it.
int regime_count(void);
const char *regime_name(int regime);
bool regime_is_optional(int regime);
// The core as a row of the table in target.c.
void core_write(const Core *core, const char *name, Buf *out);

typedef struct {
  const char *name;           // as --target takes it
  unsigned needs;             // features of <pk/cpu.h>
  int vector_bytes;           // 64, 32 or 16: the width of pk_f32v
  int dot_rows, dot_vectors;  // register tile of `dot`: rows x vectors of accumulators
  const Core *core;
  const char *cc_flags;   // -march=..
  const char *cc_prefix;  // cross compiler prefix, "" for this machine
  const char *byte_dot;   // the instruction that multiplies bytes by fours, or NULL
  const char *bf16_dot;   // the instruction that multiplies bf16 in pairs, if that is faster than
                          // f32; or NULL
  const char *why_bf16;   // why it is not faster, for explain
  const char *meaning;
} Target;

extern const Target targets[];
extern const int target_count;
// NULL for an unknown name. "native" answers by the machine pkc runs on.
const Target *target_find(const char *name);
// Gives "native" the measured numbers of a calibration. NULL restores those of the table.
void target_calibrate(const Calibration *calibration);
// Does it give a core other numbers than those of the table?
bool calibration_moves(const Calibration *calibration);
// Does this processor have the instructions of the target?
bool target_is_here(const Target *target);
// Does it have a fused multiply-add?
bool target_has_fma(const Target *target);
// The instructions by which a matrix unit multiplies bytes and bf16, for explain; NULL: it has
// none.
const char *target_tiles(const Target *target);
// The macros that C for a target defines before it includes a header: its shape, and the numbers
// that differ from include/pk/machine.h.
typedef struct {
  const char *name;
  int64_t value;
} TargetMacro;
enum { MOST_TARGET_MACROS = 15 };
int target_macros(const Target *target, TargetMacro *macros);
// Its name in C: x86_64_v3.
const char *target_symbol(Arena *arena, const char *name);

// The pieces of a kernel that a profiling build times: a place is an index here, from 1 on.
typedef struct {
  const char *lines;   // "49, 53": of the source, that are computed there
  int line;            // the first of them
  const char *what;    // "dot", "pack k", ..
  const char *region;  // the innermost named one, or NULL
  const char *kernel;
} ProfilePlace;
typedef LIST(ProfilePlace) ProfilePlaces;

typedef struct {
  const Target *target;
  bool literal_dma;   // --dma=literal: every logical DMA is carried out by the runtime's engine
  int64_t long_cell;  // --long-cell: lines of C from which on a cell is divided; 0: the default
  bool part;          // a kernel that a program calls: all its functions are static
  bool variant;       // one of several for different targets: only NAME_TARGET_kernel is exported
  // NULL, or the targets that the kernel has variants for: the C chooses among them
  const Target *const *choice;
  int choices;
  ProfilePlaces *profile;  // NULL, or receives the places of a profiling build
  // NULL, or the rows of decisions.def in another order, for the test of their needs.
  const int *order, *region_order;
} EmitOptions;

#endif
