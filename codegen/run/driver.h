// What the verbs of the command line share.
#ifndef CODEGEN_RUN_DRIVER_H
#define CODEGEN_RUN_DRIVER_H

#include "codegen/ir/array.h"
#include "codegen/emit/emit.h"
#include "codegen/check/interp.h"
#include "codegen/lower/lower.h"
#include "codegen/naive/naive.h"
#include "codegen/pallas/pallas.h"
#include "codegen/passes/pass.h"
#include "codegen/tpu/tpu.h"
#include "codegen/ir/work.h"
#include "dsl/say.h"

// ---- options.c

// --tolerance: |got - want| <= absolute + relative * |want| in place of what is allowed.
typedef struct {
  bool given;
  double relative, absolute;
} Tolerance;

typedef struct {
  Arena *arena;
  LIST(const char *) files;
  LIST(Argument) arguments;      // SIZE=N, OPERAND=INPUT, STATIC=VALUE
  LIST(Argument) outputs;        // -o OPERAND=FILE.npy
  LIST(StaticSetting) settings;  // -D
  const char *output, *kernel, *dumps, *emit;
  const char *chip, *chip_file;                   // tpu, check; NULL: not given
  const char *trace, *html, *svg, *sweep, *mesh;  // tpu; NULL: not given
  const Target *target;
  int threads;                // 0: not given
  double min_time, max_time;  // bench; 0: not given
  int64_t vmem_limit;         // 0: not given
  bool literal_dma, no_cache, no_naive, json, verify_only, quiet;
  bool chips, sources, walk_all;  // tpu
  bool counters;                  // run, bench
  bool checked;                   // run
  Tolerance tolerance;            // run, bench, check, test
  CheckOptions check;
  DiagFormat diagnostics;
} Options;

typedef struct Verb Verb;
struct Verb {
  const char *name, *synopsis, *summary;
  unsigned flag;                 // VERB_..: which options apply
  int (*run)(Options *options);  // NULL: not built yet
  const char *text;              // what --help adds
};
extern const Verb verbs[];
extern const int verb_count;
const Verb *verb_find(const char *name);

enum {
  VERB_COMPILE = 1,
  VERB_CHECK = 2,
  VERB_RUN = 4,
  VERB_BENCH = 8,
  VERB_TEST = 16,
  VERB_EXPLAIN = 32,
  VERB_FMT = 64,
  VERB_LATER = 128,
  VERB_TPU = 256
};

// Reads everything after the verb. Returns DONE, or USAGE_ERROR with the reason on standard error, or -1 when --help or
// --version was answered and nothing is left to do.
int options_read(Options *options, const Verb *verb, int count, char **words);
// One NAME=VALUE or option of a test directive; false with a message in the arena.
void options_init(Options *options, Arena *arena);
int options_threads(const Options *options);  // --threads, else $PK_THREADS, else 1

// Wrong usage: message to standard error, returns USAGE_ERROR.
int usage_error(const Verb *verb, const char *format, ...) PRINTF_LIKE(2, 3);

// ---- load.c

typedef struct {
  Arena *arena;
  Source source;
  Node *file;
  Diag *diag;
  const Node *kernel_node;  // the kernel -k names, or the only or first one; NULL when there is none
  Kernel *kernel;           // after program_lower
} Program;

bool program_read(Program *program, const Options *options, Arena *arena, const char *path);  // false: unreadable (errno)
bool program_has_static(const Program *program, const char *name);
// Every NAME=VALUE names a static (or, with `sizes`, a size or an operand): NULL, or what is wrong.
const char *program_check_names(const Program *program, const Options *options, bool sizes);
// -D and the STATIC=VALUE among the arguments.
const StaticSetting *program_settings(const Program *program, const Options *options, int *count);
// After program_read, which collects syntax errors in diag. False when there are errors in diag.
bool program_lower(Program *program, const Options *options, const LowerOptions *lower_options);
// Writes what diag holds to standard error.
void program_report(const Program *program, const Options *options);
// Reads, lowers and reports; the settings of -D and of STATIC=VALUE arguments apply. DONE or USER_ERROR.
int program_load(Program *program, const Options *options, const char *path);
// All passes. Dumps of -d go to standard output. `notes` may be NULL.
void program_optimise(Program *program, const Options *options, Buf *notes);
// Texts of a kernel after the passes; each Buf may be NULL but c.
void program_emit(Program *program, const Options *options, Buf *c, Buf *h, Buf *loops, Buf *explain);

// ---- npy.c

typedef struct {
  DType dtype;
  int rank;
  int64_t dim[MAX_RANK];
  bool fortran;
  bool opaque;  // bytes of which the file does not say whether they are i4, u4 or fp8
  size_t data_offset;
} NpyHeader;
// NULL, or what is wrong with the file. `length` is that of the whole file.
const char *npy_parse(Arena *arena, const char *bytes, size_t length, NpyHeader *header);
bool npy_holds(const NpyHeader *header, DType dtype);
// Reads only as much of the file as the header needs.
const char *npy_read_header(Arena *arena, const char *path, NpyHeader *header);
// Fills `array`, whose data has room for all elements, whose dtype and shape were checked against the header.
const char *npy_read_data(Arena *arena, const char *path, const NpyHeader *header, HostArray *array);
// NULL, or why it could not be written; an existing file stays whole then.
const char *npy_write(Arena *arena, const char *path, const HostArray *array);

// ---- inputs.c

typedef enum { INPUT_RANDOM, INPUT_RANDINT, INPUT_IOTA, INPUT_CONST, INPUT_FILE } InputKind;
typedef struct {
  InputKind kind;
  uint64_t seed;
  int64_t low, high;
  double value;
  const char *path, *text;
  NpyHeader header;
} InputSpec;
// NULL, or what is wrong with the text of an INPUT. Files are opened later.
const char *input_parse(Arena *arena, const char *text, InputSpec *spec);
// Fills an array; `stream` is the operand's index in the signature. NULL or what is wrong.
const char *input_fill(Arena *arena, const InputSpec *spec, int stream, HostArray *array);

// ---- bind.c: from a file and NAME=VALUE arguments to a kernel with sizes and operand shapes

typedef struct {
  Program program;
  LowerOptions lower_options;  // as the kernel was lowered
  int64_t *sizes;
  InputSpec *inputs;    // one an input operand
  HostArray *operands;  // shapes; data is set by whoever allocates
  int64_t total_bytes;  // of all operands at 64-byte aligned offsets
  int64_t *offsets;     // of operands in such a block of memory; an aliased output has its input's
  const char *refusal;  // the sizes are refused: why
  CheckOptions check;   // how the kernel is interpreted
  bool placed;          // shapes and offsets are valid (they may be even where a requirement does not hold)
} Binding;

// DONE, or USER_ERROR with `message` (in the arena) or, when message stays NULL, with diagnostics in program.diag.
int bind_kernel(Binding *binding, Arena *arena, const Options *options, const char *path, const char **message);
// bind_kernel, and what is wrong goes to standard error; a refusal counts as an error when `refuse`.
int bind_or_report(Binding *binding, const Options *options, bool refuse);
// Operands in `memory` (total_bytes, at offsets): inputs filled, bytes of outputs set to 0xff. NULL or what is wrong.
const char *bind_fill(Binding *binding, void *memory);
// Room for one array more, aligned as operands are: false when it overflows.
bool add_array_bytes(int64_t *total, const HostArray *array);
const char *check_memory(Arena *arena, int64_t bytes);  // NULL, or that the machine has not so much
// Memory of the process; NULL when there is none.
void *map_memory(int64_t bytes, int fd);

// ---- explain_sizes.c

// Grid steps and VMEM for given sizes, as text.
void explain_sizes(Kernel *k, const int64_t *sizes, Buf *out);

// ---- build.c: a kernel's C to a program

typedef struct {
  const char *symbol;         // of the kernel: the name of its function
  const char *c, *h, *naive;  // texts; naive (emit_judge's and, when timed, emit_naive's) may be NULL
  bool timed;
  const char *cc;             // compiler command; NULL: $CC, else cc
  const char *flags;          // for kernel and harness
  const char *naive_flags;
  bool no_cache;
} BuildJob;

// The path of the program (in the arena), or NULL with *message. `temporary` says that the caller removes it by build_discard.
const char *build_program(Arena *arena, const BuildJob *job, bool *temporary, const char **message);
void build_discard(const char *program);
const char *target_flags(const Target *target);  // for compiling on this machine
const char *naive_target_flags(void);
const char *runner(void);  // $PKC_RUNNER: runs the programs of a cross compiler; NULL when there is none
// A path of pkc's own files ("include", "libpkrt.a", "harness.c"), found relative to the executable; NULL when it is not there.
const char *support_path(Arena *arena, const char *name);

// ---- child.c

// Runs words[0] (looked up in PATH), with the file descriptor `keep` (or -1) inherited, standard output and, when `errors` is
// not NULL, standard error collected; killed after `seconds`, if that is not 0. Returns the wait status, or -1 with errno when it
// could not be started (ETIMEDOUT: when it was killed).
int run_child(const char *const *words, int keep, double seconds, Buf *output, Buf *errors);
const char *const *split_words(Arena *arena, const char *const *texts, int count);  // at spaces; NULL-terminated

// ---- compare.c

// What outputs are compared with, in their order. allowed[i]: one number for each element of outputs[i], how far a result may be
// from it (INFINITY: anything is right); NULL: equal.
typedef struct {
  HostArray *outputs;
  const float **allowed;
} Reference;

// Must the kernel's outputs of this dtype equal those of its reference?
bool must_be_equal(Kernel *k, DType output);
// One element, judged.
typedef struct {
  int64_t index;  // flat; -1: there is none
  double got, want, error, allowed;
} Judged;
typedef struct {
  int64_t wrong, undetermined;  // elements that differ by too much; elements where anything is right
  Judged first, worst;          // the first wrong one; the one whose difference is the largest part of what is allowed
  int output;                   // whose element the worst is, where several are compared
} Comparison;
// `specified` NULL, or a byte for each element: 0 leaves it out.
Comparison compare_arrays(const HostArray *got, const HostArray *want, const float *allowed, const Tolerance *tolerance,
                          const uint8_t *specified);
// The elements of another output.
void comparison_add(Comparison *all, int output, const Comparison *more);
// "o[3, 4] is 1.5, expected 1.25 (difference 0.25, allowed 1e-6); 12 of 4096 elements differ"
const char *comparison_text(Arena *arena, const char *name, const HostArray *array, const Comparison *comparison);
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

// A memory file with all operands and room for what is expected and, when `timed`, the naive outputs. NULL or what is wrong.
const char *dataset_open(Arena *arena, Binding *binding, bool judge, bool timed, Dataset *data);
void dataset_close(Dataset *data);
typedef struct {
  const char *mode;
  int threads;
  bool judge, naive, progress, quiet;  // quiet: what the kernel prints is dropped
  double min_time, max_time, timeout;  // seconds; 0: none given
  int64_t vmem_limit;
  const char *trace;  // NULL: none
  bool counters;
} ExecuteOptions;
void execute(Arena *arena, const char *program, const Binding *binding, const Dataset *data, const ExecuteOptions *options,
             Outcome *outcome);
// The value of a key in the output, or NULL; the number, or `otherwise`.
const char *outcome_text(Arena *arena, const Outcome *outcome, const char *key);
double outcome_number(Arena *arena, const Outcome *outcome, const char *key, double otherwise);
// The processor's counters that the harness printed, as a line of text or as members of a JSON object; nothing without
// --counters.
void put_counters(const Options *options, const Outcome *outcome, bool json, Buf *out);

// Lowers the kernel of a binding again and builds its C. `naive_flags` NULL: without the naive reference.
typedef struct {
  const char *cc, *flags, *naive_flags;
  bool timed;  // the naive reference in f32 too
} BuildFlags;
const char *compile_binding(Arena *arena, const Binding *binding, const Options *options, const BuildFlags *flags,
                            bool *temporary, const char **message);


// One kernel on one machine: bound, built, with its data; what run, bench and test share.
typedef struct {
  Binding binding;
  Dataset data;
  const char *program;
  bool temporary, judge, naive;  // judge: the reference runs too, to compare with; naive: in f32, for its time
  Outcome outcome;
} Session;
// After binding: builds and fills. NULL or what is wrong.
const char *session_open(Session *session, const Options *options, const BuildFlags *flags);
void session_close(Session *session);
// Outputs against those of the reference: the worst of all, and CHECK_FAILED with messages on standard error, or DONE.
int session_compare(Session *session, const Options *options, Comparison *all);
const char *session_element(Arena *arena, const Session *session, const Comparison *all);  // the name of the worst: "o[3, 4]"
// ": difference 1e-7 at o[3, 4], allowed 3e-7", what is left undetermined, or nothing.
const char *comparison_summary(Arena *arena, const Session *session, const Comparison *all);
// Reports what execute could not do: USER_ERROR, or an internal error when the compiled kernel crashed. DONE when it could.
int session_status(const Session *session, const char *path);

// ---- interpreted.c: what the interpreter says

// Operands in memory of their own, inputs filled.
typedef struct {
  void *memory;
  int64_t bytes;
  HostArray *operands;
  Reference outputs;    // with what may differ from them, when that was asked for
  float **allowed;      // .. of every output
  uint8_t **specified;  // of a body, for each output: which elements are
  CheckReport report;
} Interpreted;
// Interprets the kernel, or its reference (whose outputs never share memory with inputs). NULL or what is wrong.
// `judges`: other results will be compared with these, by what may differ from them.
const char *interpret_binding(Arena *arena, Binding *binding, bool reference, bool judges, Interpreted *result);
void interpreted_free(Interpreted *result);

// ---- report.c: what check and run --checked say; DONE or CHECK_FAILED

int print_findings(const Options *options, const Binding *binding, const CheckReport *report);
// All operands; `specified` (or NULL) says what to leave out; `what`, as in "the reference says".
int print_differences(const Options *options, Binding *binding, const HostArray *got, const Interpreted *want,
                      uint8_t *const *specified, const char *what);
// What -o OPERAND=FILE.npy asks for: do the names exist; the files, from all operands. DONE or USER_ERROR.
int check_output_names(const Options *options, const Kernel *k, const char *path);
int write_operands(const Options *options, const Kernel *k, const HostArray *operands);

// ---- the verbs
int verb_compile(Options *options);
int verb_check(Options *options);
int verb_run(Options *options);
int verb_bench(Options *options);
int verb_test(Options *options);
int verb_explain(Options *options);
int verb_fmt(Options *options);
int verb_tpu(Options *options);

// ---- verb_tpu.c
// The chip that --chip (or --tpu) and --chip-file name, v5e without. DONE, or the status after a message.
int find_chip(const Options *options, const Chip **chip);

#endif
