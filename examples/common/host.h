/* host.h: what programs that call kernels need: errors, memory, arrays, the report. */
#ifndef EXAMPLES_HOST_H
#define EXAMPLES_HOST_H

#include <pk/pk.h>
#include <stdbool.h>
#include <stdint.h>

enum { HOST_AXES = 8 };

void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The value of an option on the command line; `fail` if it is not a number from `least` to `most`,
 * or not one of at least 0. */
int64_t option_number(const char *name, const char *text, int64_t least, int64_t most);
double option_real(const char *name, const char *text);
double now(void);
/* Fails where the machine does not have as much beside what memory() gave: not all systems refuse
 * memory that they do not have. */
void check_room(int64_t bytes);
/* Zeroed, aligned; counted for the report. */
void *memory(int64_t bytes);
void memory_free(void *data, int64_t bytes);
/* `profile`: for print_report. */
pk_context *open_context(int threads, bool profile);

/* ---- arrays as the kernels take them */

typedef struct {
  DLTensor t;
  int64_t shape[HOST_AXES];
} Tensor;

void view(Tensor *to, const void *data, DLDataTypeCode code, int bits, int axes,
          const int64_t *shape);
#define VIEW(to, data, code, ...)                                                     \
  view(to, data, code, 32, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
       (const int64_t[]){__VA_ARGS__})
void call(pk_context *context, const pk_kernel *kernel, DLTensor **tensors);

/* The bytes of the heap that are in use; 0 where that is not known. */
int64_t heap_bytes(void);
/* On standard error: memory, and time by kernel. `temporaries`: of the program that was called. */
void print_report(const pk_context *context, int64_t temporaries, int64_t grown);

#endif
