// The model of a TPU: chips as data (chips.def), and the cost of a lowered kernel on a chip (`pkc
// tpu`). In: the block IR as lowered, a chip, sizes. Out: counts, times, reports, traces. Uses ir.
#ifndef CODEGEN_TPU_TPU_H
#define CODEGEN_TPU_TPU_H

#include "codegen/ir/ir.h"
#include "dsl/say.h"

// ---- chip.c

typedef enum {
#define FIELD(id, name, unit, need, meaning) CHIP_##id,
#include "codegen/tpu/chips.def"
  CHIP_FIELDS
} ChipField;

typedef struct {
  const char *name;
  double value[CHIP_FIELDS];
} Chip;

// What is wrong with the facts of chips.def, for example a missing one, or NULL.
const char *chip_table_problem(Arena *arena);
// The chips of chips.def, and those that chip_file added.
int chip_count(void);
const Chip *chip_at(int index);
const Chip *chip_find(const char *name);  // NULL: there is none
// Adds the chip that a file of `name N`, `like CHIP` and `FIELD VALUE` lines describes. Returns
// NULL, or an error message.
const char *chip_file(Arena *arena, const char *path, const Chip **chip);
void chip_list(Buf *out);          // a table of all
void chip_list_sources(Buf *out);  // every constant with its unit and source
// A kernel runs on `chip_cores` cores, each with its share of the chip's peak and HBM bandwidth.
int chip_cores(const Chip *chip);
// Why the HBM of the cores that a kernel runs on cannot hold operands of that many bytes, or NULL.
const char *chip_exceeded(Arena *arena, const Chip *chip, double bytes);
double chip_hbm_bandwidth(const Chip *chip, int cores);
double chip_hbm_sustained(const Chip *chip, int cores);
// operations a second of `cores` cores; f32 in its passes
double chip_peak(const Chip *chip, DType operands, int cores);
double chip_vmem_bandwidth(const Chip *chip);  // of a core
// Does the matrix unit accept these two dtypes? rules.def
bool chip_multiplies(const Chip *chip, DType a, DType b);

// as in a TPU's memory: two 4-bit values per byte
int64_t tpu_bytes(DType dtype, int64_t elements);
// The tile of a buffer's last two axes, and its size in bytes, in whole tiles; INT64_MAX: overflow.
int64_t tpu_tile_sublanes(const Chip *chip, DType dtype);
int64_t tpu_whole_lanes(const Chip *chip, int64_t length);  // that a row of elements takes
int64_t tpu_padded_bytes(const Chip *chip, DType dtype, int rank, const int64_t *dim,
                         int64_t *padded);

// Cycles of a weight-stationary pass of `rows` rows over an array of that many rows and columns of
// weights, loading included; of a whole product, its folds one after the other.
double mxu_fold_cycles(double array_rows, double array_columns, double rows);
double mxu_serial_cycles(double array_rows, double array_columns, double m, double k, double n);

// ---- rules.c
// What keeps a kernel from running on a chip, as errors of the 07xx in diag. Returns how many there
// are.
int tpu_check(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag);
// Only the errors of its dtypes.
int tpu_check_dtypes(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag);
void tpu_list_regimes(Buf *out);  // the errors of the model, by bound
void tpu_list_rules(Buf *out);    // with their sources
// The first axis that is not declared parallel although its steps, at least two, are provably
// independent; -1: there is none, or cores can share the steps of another axis.
int tpu_axis_to_share(const Kernel *k, const int64_t *sizes);
// program.c: the errors of a program's calls, each with the kernel's own sizes.
int tpu_check_program(Kernel *k, const Chip *chip, const int64_t *sizes, Diag *diag);

// ---- model.c: a kernel on a chip

typedef struct Model Model;
// The slice, as on the command line.
typedef struct {
  const char *mesh, *over;  // X, XxY or XxYxZ; the axes that are used, NULL: all
  int64_t count;            // number of such slices, connected by the data-centre network; 0: one
} Slice;
// NULL, with *wrong saying why the grid cannot be modelled. events: how many events of the pipeline
// are kept for the trace and the timeline; whole: every grid step is simulated, also those that
// repeat others.
typedef struct {
  int64_t events;
  bool whole;
  const Slice *slice;  // the slice of a kernel with a mesh; NULL: one of the mesh's shape
} ModelOptions;
Model *tpu_model(Arena *arena, Kernel *k, const int64_t *sizes, const Chip *chip,
                 ModelOptions options, const char **wrong);

// Quantities of a call that do not depend on the chip: operations, bytes that blocks move, grid
// steps.
typedef struct {
  double flops, bytes, steps,
      walked;    // walked: steps that repeat no others, and what devices do to each other
  bool by_data;  // control flow depends on data
} ModelCounts;
ModelCounts tpu_model_counts(const Model *m);
// Why the operands do not fit the chip's HBM; NULL: they do.
const char *tpu_model_unfit(const Model *m);

// ---- program.c: the sums over the calls of a program
typedef struct ProgramModel ProgramModel;
// Prefetched operands of calls are read from the program's inputs (Ref.prefetched). events: the
// turns and the events of each call's first one are kept for the trace and the page.
ProgramModel *tpu_program(Arena *arena, Kernel *k, const int64_t *sizes, const Chip *chip,
                          ModelOptions options, const char **wrong);
// Does a call prefetch elements of this input?
bool tpu_program_prefetches(const Kernel *k, int input);
// The same as tpu_model_unfit, for a program.
const char *tpu_program_unfit(const ProgramModel *m);
void tpu_program_text(const ProgramModel *m, Buf *out);
void tpu_program_json(const ProgramModel *m, const char *path, Buf *out);
void tpu_program_table(ProgramModel *const *models, int count, Buf *out);
void tpu_program_trace(const ProgramModel *m, Buf *out);
void tpu_program_svg(const ProgramModel *m, Buf *out);  // one point per call
void tpu_program_html(const ProgramModel *m, ProgramModel *const *all, int count, Buf *out);
void tpu_program_compare(const ProgramModel *a, const ProgramModel *b, const char *const *names,
                         bool json, Buf *out);

// ---- the forms of a report
void tpu_text(const Model *m, Buf *out);
void tpu_table(Model *const *models, int count, Buf *out);
void tpu_json(const Model *m, const char *path, Buf *out);
void tpu_trace(const Model *m, Buf *out);
void tpu_html(const Model *m, Model *const *all, int count, Buf *out);
// A table of the differences, or one JSON object with both.
void tpu_compare(const Model *a, const Model *b, const char *const *names, bool json, Buf *out);
void tpu_roofline_svg(const Model *m, Buf *out);

// ---- sweep.c
// Every combination of some statics' values, ranked. A range is a static and LOW:HIGH (doubling) or
// A,B,C.
typedef struct {
  Arena *arena;
  const char *path;
  const Argument *ranges;
  int count;
  const Chip *chip;
  const Slice *slice;
  bool json;
  // The kernel with the statics at these values, and its sizes. Returns NULL, or an error message
  // (in the arena).
  const char *(*bind)(void *context, Arena *arena, const Argument *statics, int count, Kernel **k,
                      int64_t **sizes);
  void *context;
} SweepRequest;
int tpu_sweep(const SweepRequest *request);  // prints the ranking; an exit status

// ---- mesh.c
typedef struct {
  Arena *arena;
  const char *mesh, *what;  // X, XxY or XxYxZ; the collective, or "send", or "matmul"
  const char *over;         // the axes that it runs along; NULL: all
  const Argument *arguments;
  int count;
  const Chip *chip;
  bool json;
} MeshRequest;
int tpu_mesh(const MeshRequest *request);  // prints the cost; an exit status

#endif
