// Running a kernel on data: sizes and arrays bound, inputs filled, the C built to a program, the
// program run in a child process, its outputs compared. In: a .pk file and options. Out: arrays,
// verdicts, figures. Uses every room but tpu and pallas.
#ifndef CODEGEN_RUN_RUN_H
#define CODEGEN_RUN_RUN_H

#include "codegen/ir/work.h"
#include "codegen/run/npy.h"
#include "codegen/run/program.h"

// ---- inputs.c

typedef enum {
  INPUT_RANDOM,
  INPUT_RANDINT,
  INPUT_IOTA,
  INPUT_CONST,
  INPUT_FILE,
  INPUT_ARRAY
} InputKind;
typedef struct {
  InputKind kind;
  uint64_t seed;
  int64_t low, high;
  double value;
  const char *path, *text;
  const HostArray *array;  // INPUT_ARRAY: the elements
  NpyHeader header;        // of the whole array, as the file or the array says
  // a file a device, their names with {device}: of what is the array? NULL: one file
  const Kernel *kernel;
  const Ref *operand;
  // raised: the elements of that index along that axis are `to` in place of what is drawn
  bool raised;
  int axis;
  int64_t index;
  double to;
} InputSpec;
// NULL, or what is wrong with the text of an INPUT. Files are opened later.
const char *input_parse(Arena *arena, const char *text, InputSpec *spec);
// The names of a device's file, and of all devices' files when there are several: "x.{device}.npy".
bool has_pieces(const char *path);
const char *piece_path(Arena *arena, const char *path, int device);
// Does something say what shape it has?
static inline bool input_has_shape(const InputSpec *spec) {
  return spec->kind == INPUT_FILE || spec->kind == INPUT_ARRAY;
}
// Fills an array; `stream` is the operand's index in the signature. NULL or what is wrong.
const char *input_fill(Arena *arena, const InputSpec *spec, int stream, HostArray *array);

// ---- bind.c: from a file and NAME=VALUE arguments to a kernel with sizes and operand shapes

typedef struct {
  Program program;
  LowerOptions lower_options;  // as the kernel was lowered
  int64_t *sizes;
  InputSpec *inputs;    // one an input operand
  HostArray *operands;  // shapes; data is set by the function that allocates
  int64_t total_bytes;  // of all operands at 64-byte aligned offsets
  int64_t *offsets;     // of operands in such a block of memory; an aliased output has its input's
  const char *refusal;  // the sizes are refused: why
  CheckOptions check;   // how the kernel is interpreted
  bool placed;  // shapes and offsets are valid (they may be even where a requirement does not hold)
} Binding;

// DONE, or USER_ERROR with `message` (in the arena) or, when message stays NULL, with diagnostics
// in program.diag.
int bind_kernel(Binding *binding, Arena *arena, const Options *options, const char *path,
                const char **message);
// bind_kernel, and what is wrong goes to standard error; a refusal counts as an error when
// `refuse`.
int bind_or_report(Binding *binding, const Options *options, bool refuse);
// Operands in `memory` (total_bytes, at offsets): inputs filled, bytes of outputs set to 0xff. NULL
// or what is wrong.
const char *bind_fill(Binding *binding, void *memory);
// Room for one array more, aligned as operands are: false when it overflows.
bool add_array_bytes(int64_t *total, const HostArray *array);
const char *check_memory(Arena *arena,
                         int64_t bytes);  // NULL, or that the machine does not have so much
// Memory of the process; NULL when there is none.
void *map_memory(int64_t bytes, int fd);

// ---- sizes.c

// Grid steps and VMEM for given sizes, as text.
void explain_sizes(Kernel *k, const int64_t *sizes, Buf *out);

// ---- build.c: a kernel's C to a program

typedef struct {
  const char *symbol;  // of the kernel: the name of its function
  // texts; naive (emit_judge's and, when timed, emit_naive's) may be NULL
  const char *c, *h, *naive;
  const char *prologue;  // what c begins with, but for comments: a header that is kept compiled
  bool timed;
  bool world;         // the program is one of several processes: world.c
  const char *micro;  // target whose micro-kernels are linked if they are installed; NULL: none
  const char *cc;     // compiler command; NULL: $CC, else cc
  const char *flags;  // for kernel and harness
  const char *naive_flags;  // with the level of optimisation
  bool no_cache;
} BuildJob;

// The path of the program (in the arena), or NULL with *message. `temporary` says that the caller
// removes it by build_discard.
const char *build_program(Arena *arena, const BuildJob *job, bool *temporary, const char **message);
void build_discard(const char *program);
// A new folder, inside another one or in $TMPDIR; NULL with errno. A signal that ends the process
// removes it.
const char *temporary_folder(Arena *arena, const char *inside);
void remove_folder(Arena *arena, const char *folder);  // with its files
const char *target_flags(const Target *target);        // for compiling on this machine
// For the naive reference: `timed` as a compiler would have it, else little time to compile.
const char *naive_target_flags(bool timed);
// $PKC_RUNNER: runs the programs of a cross compiler; NULL when there is none
const char *runner(void);
// A path of pkc's own files ("include", "libpkrt.a", "harness.c"), found relative to the
// executable; NULL when it is not there.
const char *support_path(Arena *arena, const char *name);

// ---- child.c

// Runs words[0] (looked up in PATH), with the file descriptor `keep` (or -1) inherited, standard
// output and, when `errors` is not NULL, standard error collected; killed after `seconds`, if that
// is not 0. Returns the wait status, or -1 with errno when it could not be started (ETIMEDOUT: when
// it was killed).
int run_child(const char *const *words, int keep, double seconds, Buf *output, Buf *errors);
// .. after two seconds a terminal shows `waiting` with the seconds passed, of all.
int run_awaited(const char *const *words, int keep, double seconds, const char *waiting,
                Buf *output, Buf *errors);
// Runs body in a process of its own, whose end takes what it started with it. Standard output and
// error are collected. As run_child otherwise; a body that returns has status 0.
int run_apart(void (*body)(void *context), void *context, double seconds, Buf *output, Buf *errors);
// Runs a command for the process `parent`, whose end ends all that the command started; so does a
// signal to this one. The command's exit status, or 127 with the reason on standard error.
int supervise(const char *parent, const char *const *words);
// at spaces; NULL-terminated
const char *const *split_words(Arena *arena, const char *const *texts, int count);

// ---- compare.c

// What outputs are compared with, in their order. allowed[i]: one number for each element of
// outputs[i], how far a result may be from it (INFINITY: anything is right); NULL: equal.
typedef struct {
  HostArray *outputs;
  const double **allowed;
} Reference;

// Must the kernel's output, counted from 0, equal that of its reference?
bool must_be_equal(Kernel *k, int output);
// One element, judged.
typedef struct {
  int64_t index;  // flat; -1: there is none
  double got, want, error, allowed;
} Judged;
typedef struct {
  // elements that differ by too much; elements where anything is right
  int64_t wrong, undetermined;
  Judged first, worst;  // the first wrong one; the one whose difference is the largest part of what
                        // is allowed
  int output;           // whose element the worst is, where several are compared
} Comparison;
// `specified` NULL, or a byte for each element: 0 leaves it out.
Comparison compare_arrays(const HostArray *got, const HostArray *want, const double *allowed,
                          const Tolerance *tolerance, const uint8_t *specified);
// The elements of another output.
void comparison_add(Comparison *all, int output, const Comparison *more);
// "o[3, 4] is 1.5, expected 1.25 (difference 0.25, allowed 1e-6); 12 of 4096 elements differ"
const char *comparison_text(Arena *arena, const char *name, const HostArray *array,
                            const Comparison *comparison);
// "o[3, 4]"
const char *element_text(Arena *arena, const char *name, const HostArray *array, int64_t flat);

// ---- execute.c: a built program on data

typedef struct {
  Buf output;           // key=value lines
  bool refused;         // by the kernel: message says why
  const char *message;  // of a refusal or a failure
  bool crashed;
} Outcome;

// Arrays of the shapes of the outputs, and where they are in a dataset's memory; none: NULL.
typedef struct {
  HostArray *arrays;
  int64_t *offsets;
} Places;

typedef struct {
  int fd;
  char *memory;
  int64_t bytes;
  Places naive, expected, allowed;  // outputs of the naive reference in f32; those of the judge
  Reference reference;              // .. to compare with
} Dataset;

typedef struct {
  const char *mode;
  int threads;
  bool judge, naive, progress, quiet;  // quiet: what the kernel prints is dropped
  bool checked;                        // a second call, by arrays with gaps between their rows
  double min_time, max_time, timeout;  // seconds; 0: none given
  int64_t vmem_limit;
  const char *trace;  // NULL: none
  bool counters;
  // bench: the arithmetic (f32, f64, bf16, i8) whose rate, and memory's, are measured; NULL: none
  const char *peak;
} ExecuteOptions;
void execute(Arena *arena, const char *program, const Binding *binding, const Dataset *data,
             const ExecuteOptions *options, Outcome *outcome);
// The number that the output gives for a key, or `otherwise`.
double outcome_number(Arena *arena, const Outcome *outcome, const char *key, double otherwise);
// The processor's counters that the harness printed, as a line of text or as members of a JSON
// object; nothing without
// --counters.
void put_counters(const Options *options, const Outcome *outcome, bool json, Buf *out);

// How the C of a binding is built. `naive_flags` NULL: without the naive reference.
typedef struct {
  const char *cc, *flags, *naive_flags;
  bool timed;   // the naive reference in f32 too
  bool linked;  // to the target's micro-kernels, where they are installed
  bool fenced;  // what writes beside a buffer of the arena is found
} BuildFlags;

// One kernel on one machine: bound, built, with its data; what run, bench and test share.
typedef struct {
  Binding binding;
  Dataset data;
  const char *program;
  // judge: the reference runs too, to compare with; naive: in f32, for its time
  bool temporary, judge, naive;
  Outcome outcome;
} Session;
// After binding: builds and fills. NULL or what is wrong.
const char *session_open(Session *session, const Options *options, const BuildFlags *flags);
void session_close(Session *session);
// Outputs against those of the reference: the worst of all, and CHECK_FAILED with messages on
// standard error, or DONE.
int session_compare(Session *session, const Options *options, Comparison *all);
// the name of the worst: "o[3, 4]"
const char *session_element(Arena *arena, const Session *session, const Comparison *all);
// ": difference 1e-7 at o[3, 4], allowed 3e-7", what is left undetermined, or nothing.
const char *comparison_summary(Arena *arena, const Session *session, const Comparison *all);
// Reports what execute could not do: USER_ERROR, or an internal error when the compiled kernel
// crashed. DONE when it could.
int session_status(const Session *session, const char *path);

// ---- interpreted.c: what the interpreter says

// Operands in memory of their own, inputs filled.
typedef struct {
  void *memory;
  int64_t bytes;
  HostArray *operands;
  Reference outputs;    // with what may differ from them, when that was asked for
  double **allowed;     // .. of every output
  uint8_t **specified;  // of a body, for each output: which elements are
  CheckReport report;
} Interpreted;
// Interprets the kernel, or its reference (whose outputs never share memory with inputs). NULL or
// what is wrong. `judges`: other results will be compared with these, by what may differ from them.
const char *interpret_binding(Arena *arena, Binding *binding, bool reference, bool judges,
                              Interpreted *result);
void interpreted_free(Interpreted *result);

// ---- world.c

// How many processes mpirun started together, and which one this is. Without it: one, 0.
int64_t world_count(void);
int64_t world_number(void);

// ---- python.c

// How far a float may be from the result of other code, whose rounding is not known: one
// number an element, NULL where all must be equal. of_kernel: what its own computation may be off
// by, or NULL.
const double *rounding_allowance(Arena *arena, const HostArray *want, const double *of_kernel);
// Calls FILE.py:FUNCTION on the inputs. of_kernel: by how much the kernel's own computation may be
// off, for each output (interpret_binding's `allowed`), or NULL. seconds: a limit; 0: that of the
// manual. NULL or what is wrong.
const char *python_reference(Arena *arena, const char *spec, Binding *binding,
                             double *const *of_kernel, double seconds, Reference *result);

#endif
