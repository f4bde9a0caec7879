// The options of the command line, as data; verbs/options.c reads them.
#ifndef CODEGEN_RUN_OPTIONS_H
#define CODEGEN_RUN_OPTIONS_H

#include "codegen/check/interp.h"
#include "codegen/loops/target.h"
#include "codegen/lower/lower.h"
#include "dsl/diag.h"
#include "dsl/say.h"

// --tolerance: |got - expected| <= absolute + relative * |expected|, instead of the default.
typedef struct {
  bool given;
  double relative, absolute;
} Tolerance;

// An input that is an array in memory.
typedef struct {
  const char *name;  // interned
  const HostArray *array;
} GivenArray;

typedef struct {
  Arena *arena;
  const char *asked;  // --help, --version or --targets, or NULL
  char **words;       // all words after the verb, as given
  int word_count;
  LIST(const char *) files;
  LIST(Argument) arguments;  // SIZE=N, OPERAND=INPUT, STATIC=VALUE
  LIST(GivenArray) given;    // not from the command line: arrays that one run passes to the next
  LIST(Argument) outputs;    // -o OPERAND=FILE.npy
  LIST(StaticSetting) settings;  // -D
  const char *output, *kernel, *dumps, *emit;
  const char *chip, *chip_file;                             // tpu, check; NULL: not given
  const char *trace, *html, *svg, *sweep, *mesh, *compare;  // tpu; NULL: not given
  const Target *target;
  LIST(const Target *) variants;  // --targets=A,B, in the order of the table
  int threads;                    // 0: not given
  int64_t devices;                // check; 0: not given
  double min_time, max_time;      // bench; 0: not given
  int64_t vmem_limit;             // 0: not given
  const char *over;               // tune: NAME=LOW:HIGH,..; tpu: x,y; NULL: not given
  bool on_slice;                  // `mesh` is the shape of a slice of chips
  int64_t slices;                 // tpu; 0: not given
  int64_t most;                   // tune: candidates; 0: not given
  double reference_time;          // run, test: of --reference; 0: not given
  double time_out;                // tune: seconds a run; 0: not given
  ProfilePlaces *profile;         // profile: receives the places; NULL: no laps
  int64_t long_cell;              // lines of C; 0: not given
  bool show;                      // tune, calibrate
  bool reset, write_core;         // calibrate
  bool edges, quick, force;       // calibrate
  bool no_tuning;                 // run, bench, explain
  bool literal_dma, no_cache, no_naive, json, verify_only, quiet;
  bool chips, sources, walk_all;  // tpu
  bool counters;                  // run, bench
  bool checked;                   // run
  bool stdio;                     // lsp
  bool passes;                    // test
  const char *prove_sizes;        // prove; NULL: not given
  int64_t prove_memory;           // prove: bytes; 0: not given
  bool all_sizes;                 // prove
  const char *against;            // prove: a file; NULL: the kernel's reference
  const char *wrt;                // grad; NULL: not given
  const char *saved;              // grad; NULL: not given
  int64_t grad_memory;            // grad, bytes; 0: not given
  bool forward;                   // grad
  bool derive_kernel;             // grad
  bool gradient;                  // explain
  const char *reference;          // run, test: FILE.py:FUNCTION; NULL: none
  Tolerance tolerance;            // run, bench, check, test
  Numerics numerics;              // check, run, bench, explain
  CheckOptions check;
  DiagFormat diagnostics;
} Options;

#endif
