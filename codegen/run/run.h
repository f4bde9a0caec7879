// Runs a kernel on data: binds sizes and arrays, fills inputs, builds a program from the C, runs it
// in a child process, and compares its outputs. In: a .pk file and options. Out: arrays, verdicts,
// figures. Uses every folder except tpu and pallas.
#ifndef CODEGEN_RUN_RUN_H
#define CODEGEN_RUN_RUN_H

#include "codegen/ir/work.h"
#include "codegen/run/npy.h"
#include "codegen/run/program.h"

// ---- inputs.c

typedef enum {
  INPUT_RANDOM,
  INPUT_RANDINT,
  INPUT_PATTERNS,
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
  NpyHeader header;        // of the whole array, from the file or the array
  // one file per device, whose names contain {device}; `of`: what the array is; NULL: a single file
  const Kernel *kernel;
  const Ref *operand;
  // raised: the elements at that index along that axis are `to` instead of the drawn values
  bool raised;
  int axis;
  int64_t index;
  double to;
} InputSpec;
// Returns NULL, or an error message about the text of an INPUT. Files are opened later.
const char *input_parse(Arena *arena, const char *text, InputSpec *spec);
// The name of a device's file, if there is one file per device: "x.{device}.npy".
bool has_pieces(const char *path);
const char *piece_path(Arena *arena, const char *path, int device);
// Does its shape follow from the input?
static inline bool input_has_shape(const InputSpec *spec) {
  return spec->kind == INPUT_FILE || spec->kind == INPUT_ARRAY;
}
// Fills an array; `stream` is the operand's index in the signature. Returns NULL, or an error
// message.
const char *input_fill(Arena *arena, const InputSpec *spec, int stream, HostArray *array);

// ---- solve.c
// Gives the UNBOUND sizes that others determine: by a requirement, or by an axis that is an
// expression. What is solved may be negative.
enum { UNBOUND = INT32_MIN };
void solve_sizes(const Kernel *k, int64_t *sizes);

// ---- bind.c: from a file and NAME=VALUE arguments to a kernel with sizes and operand shapes

typedef struct {
  Program program;
  LowerOptions lower_options;  // as the kernel was lowered
  int64_t *sizes;
  InputSpec *inputs;    // one an input operand
  HostArray *operands;  // shapes; data is set by the function that allocates
  int64_t total_bytes;  // of all operands at 64-byte aligned offsets
  int64_t *offsets;  // of operands in such a block of memory; an aliased output has the offset of
                     // its input
  const char *refusal;  // why the sizes are refused, or NULL
  CheckOptions check;   // how the kernel is interpreted
  bool placed;  // shapes and offsets are valid, which they may be even if a requirement does not
                // hold
} Binding;

// DONE, or USER_ERROR with `message` (in the arena) or, if message is NULL, with diagnostics in
// program.diag.
int bind_kernel(Binding *binding, Arena *arena, const Options *options, const char *path,
                const char **message);
// bind_kernel, with messages on standard error; with `refuse` a refusal is an error.
int bind_or_report(Binding *binding, const Options *options, bool refuse);
// Operands in `memory` (total_bytes, at offsets): fills inputs, and sets the bytes of outputs to
// 0xff. Returns NULL, or an error message.
const char *bind_fill(Binding *binding, void *memory);
// Reserves room for another array, aligned like operands; false on overflow.
bool add_array_bytes(int64_t *total, const HostArray *array);
const char *check_memory(
    Arena *arena,
    int64_t bytes);  // NULL, or a message that the machine does not have as much memory
// Memory of the process; NULL if there is none.
void *map_memory(int64_t bytes, int fd);

// ---- sizes.c

// Grid steps and VMEM for the given sizes, as text.
void explain_sizes(Kernel *k, const int64_t *sizes, Buf *out);

// ---- build.c: a kernel's C to a program

typedef struct {
  const char *symbol;  // the name of the kernel's function
  // texts; naive (those of emit_judge and, if timed, of emit_naive) may be NULL
  const char *c, *h, *naive;
  // the beginning of c, except comments: a header that is cached in compiled form
  const char *prologue;
  bool timed;
  bool world;         // the program is one of several processes: world.c
  const char *micro;  // the target whose micro-kernels are linked if they are installed; NULL: none
  const char *cc;     // compiler command; NULL: $CC, else cc
  const char *flags;  // for kernel and harness
  const char *naive_flags;  // with the level of optimisation
  bool no_cache;
} BuildJob;

// The path of the program (in the arena), or NULL with *message. If `temporary`, the caller removes
// it by build_discard.
const char *build_program(Arena *arena, const BuildJob *job, bool *temporary, const char **message);
void build_discard(const char *program);
// Creates a folder, inside another one or in $TMPDIR; NULL with errno. A signal that ends the
// process removes it.
const char *temporary_folder(Arena *arena, const char *inside);
void remove_folder(Arena *arena, const char *folder);  // with its files
// Flags for compiling on this machine: those of the target, or the native ones where this processor
// lacks its instructions, so that its C runs here too.
const char *target_flags(const Target *target);
// Flags for the naive reference: `timed` as a user would compile it, otherwise quick to compile.
const char *naive_target_flags(bool timed);
// $PKC_RUNNER, which runs the programs of a cross compiler; NULL if it is not set
const char *runner(void);
// The path of one of pkc's own files ("include", "libpkrt.a", "harness.c"), found relative to the
// executable; NULL if it does not exist.
const char *support_path(Arena *arena, const char *name);

// ---- child.c
// Flushes standard output and ends a forked process without its parent's atexit handlers. The
// status is USER_ERROR if the output cannot be written.
NORETURN void leave_child(int status);

// Runs words[0] (looked up in PATH), which inherits the file descriptor `keep` (or -1). Collects
// standard output and, unless `errors` is NULL, standard error. Kills it after `seconds`, unless
// that is 0. Returns the wait status, or -1 with errno if it could not be started (ETIMEDOUT: if it
// was killed).
int run_child(const char *const *words, int keep, double seconds, Buf *output, Buf *errors);
// The same; after two seconds a terminal shows `waiting` with the elapsed seconds.
int run_awaited(const char *const *words, int keep, double seconds, const char *waiting,
                Buf *output, Buf *errors);
// Runs body in its own process, whose end ends the processes that it started. Standard output and
// error are collected. Otherwise like run_child; if body returns, the status is 0.
int run_apart(void (*body)(void *context), void *context, double seconds, Buf *output, Buf *errors);
// Runs a command for the process `parent`. The end of `parent`, or a signal to this process, ends
// everything that the command started. Returns the command's exit status, or 127 with the reason on
// standard error.
int supervise(const char *parent, const char *const *words);
// splits at spaces; NULL-terminated
const char *const *split_words(Arena *arena, const char *const *texts, int count);

// ---- compare.c

// The expected outputs, in order. allowed[i]: one number for each element of outputs[i], the
// allowed difference (INFINITY: any value is right); NULL: they must be equal.
typedef struct {
  HostArray *outputs;
  const double **allowed;
} Reference;

// Must this output of the kernel, counted from 0, equal that of its reference?
bool must_be_equal(Kernel *k, int output);
// One compared element.
typedef struct {
  int64_t index;  // flat; -1: none
  double got, want, error, allowed;
} Judged;
typedef struct {
  // number of elements that differ by too much; number of elements for which any value is right
  int64_t wrong, undetermined;
  Judged first, worst;  // the first wrong element; the one whose difference is the largest multiple
                        // of its allowance
  int output;           // the output of the worst element, if several are compared
} Comparison;
// `specified` is NULL, or has a byte for each element: 0 excludes it.
Comparison compare_arrays(const HostArray *got, const HostArray *want, const double *allowed,
                          const Tolerance *tolerance, const uint8_t *specified);
// Adds the elements of another output.
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
  const char *message;  // the reason of a refusal or a failure
  bool crashed;
} Outcome;

// Arrays with the shapes of the outputs, and their positions in a dataset's memory; none: NULL.
typedef struct {
  HostArray *arrays;
  int64_t *offsets;
} Places;

typedef struct {
  int fd;
  char *memory;
  int64_t bytes;
  Places naive, expected, allowed;  // outputs of the naive reference in f32; those of the judge
  Reference reference;              // the expected outputs
} Dataset;

typedef struct {
  const char *mode;
  int threads;
  bool judge, naive, progress, quiet;  // quiet: the output of the kernel's `print` is discarded
  bool checked;  // a second call, with arrays that have gaps between their rows
  double min_time, max_time, timeout;  // seconds; 0: none given
  int64_t vmem_limit;
  const char *trace;  // NULL: none
  bool counters;
  // bench: the arithmetic (f32, f64, bf16, i8) whose rate, and memory's, are measured; NULL: none
  const char *peak;
} ExecuteOptions;
void execute(Arena *arena, const char *program, const Binding *binding, const Dataset *data,
             const ExecuteOptions *options, Outcome *outcome);
// The number that the output has for a key, or `otherwise`.
double outcome_number(Arena *arena, const Outcome *outcome, const char *key, double otherwise);
// The processor's counters that the harness printed, as a line of text or as members of a JSON
// object; nothing without --counters.
void put_counters(const Options *options, const Outcome *outcome, bool json, Buf *out);

// Options for building the C of a binding. `naive_flags` NULL: without the naive reference.
typedef struct {
  const char *cc, *flags, *naive_flags;
  bool timed;   // also build the naive reference in f32
  bool linked;  // link the target's micro-kernels, if they are installed
  bool fenced;  // detect writes outside buffers of the arena
} BuildFlags;

// One kernel on one machine: bound, built, with its data; shared by run, bench and test.
typedef struct {
  Binding binding;
  Dataset data;
  const char *program;
  // judge: the reference also runs, for comparison; naive: in f32, to be timed
  bool temporary, judge, naive;
  Outcome outcome;
} Session;
// Builds and fills it after binding. Returns NULL, or an error message.
const char *session_open(Session *session, const Options *options, const BuildFlags *flags);
void session_close(Session *session);
// Compares outputs with those of the reference: returns the worst of all, and CHECK_FAILED with
// messages on standard error, or DONE.
int session_compare(Session *session, const Options *options, Comparison *all);
// the name of the worst element: "o[3, 4]"
const char *session_element(Arena *arena, const Session *session, const Comparison *all);
// ": difference 1e-7 at o[3, 4], allowed 3e-7", the undetermined elements, or nothing.
const char *comparison_summary(Arena *arena, const Session *session, const Comparison *all);
// Reports a failure of execute: USER_ERROR, or an internal error if the compiled kernel crashed.
// DONE if there is none.
int session_status(const Session *session, const char *path);

// ---- interpreted.c: results of the interpreter

// Operands in new memory, with filled inputs.
typedef struct {
  void *memory;
  int64_t bytes;
  HostArray *operands;
  Reference outputs;    // with the allowed differences, if requested
  double **allowed;     // the allowed differences of every output
  uint8_t **specified;  // for a body, for each output: which elements are specified
  CheckReport report;
} Interpreted;
// Interprets the kernel, or its reference (whose outputs never share memory with inputs). Returns
// NULL, or an error message. `judges`: other results will be compared with these, so allowed
// differences are computed.
const char *interpret_binding(Arena *arena, Binding *binding, bool reference, bool judges,
                              Interpreted *result);
void interpreted_free(Interpreted *result);

// ---- world.c

// The number of processes that mpirun started together, and the rank of this one. Without it: one,
// 0.
int64_t world_count(void);
int64_t world_number(void);

// ---- python.c

// The allowed difference of a float from the result of other code, whose rounding is unknown: one
// number per element, NULL if all must be equal. of_kernel: the possible error of its own
// computation, or NULL.
const double *rounding_allowance(Arena *arena, const HostArray *want, const double *of_kernel);
// Calls FILE.py:FUNCTION on the inputs. of_kernel: the possible error of the kernel's own
// computation, for each output (interpret_binding's `allowed`), or NULL. seconds: a time limit; 0:
// that of the manual. Returns NULL, or an error message.
const char *python_reference(Arena *arena, const char *spec, Binding *binding,
                             double *const *of_kernel, double seconds, Reference *result);

#endif
