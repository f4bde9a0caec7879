/* Calls one compiled kernel on arrays of a file, on any operating system:
 *
 *     call IN OUT THREADS EXTENT..
 *
 * IN: the elements of all inputs, in the byte order of the machine. OUT: those of all outputs, after
 * the call. EXTENT..: the extents of all operands. Compiled with -DKERNEL=NAME_kernel. */
#include <pk/link.h>
#include <pk/kernel.h>
#include <pk/rt.h>

#include <stdio.h>
#include <stdlib.h>

extern const pk_kernel KERNEL;
enum { MOST_OPERANDS = 16 };
static int64_t shape[MOST_OPERANDS][PK_MAX_RANK];
static DLTensor tensor[MOST_OPERANDS], *tensors[MOST_OPERANDS];

static _Noreturn void fail(const char *what) {
  (void)fprintf(stderr, "call: %s\n", what);
  exit(2);
}

static size_t bytes_of(int i) {
  size_t bytes = (size_t)(tensor[i].dtype.bits + 7) / 8;
  for (int k = 0; k < tensor[i].ndim; ++k) bytes *= (size_t)shape[i][k];
  return bytes;
}

static void describe(int i, char ***word) {
  tensor[i] = (DLTensor){.device = {kDLCPU, 0},
                         .ndim = KERNEL.operand[i].rank,
                         .dtype = pk_dtype_dlpack(KERNEL.operand[i].dtype),
                         .shape = shape[i]};
  for (int k = 0; k < tensor[i].ndim; ++k) {
    if (!**word) fail("too few extents");
    shape[i][k] = strtoll(*(*word)++, NULL, 10);
  }
  tensor[i].data = calloc(bytes_of(i) + 1, 1);
  if (!tensor[i].data) fail("no memory");
  tensors[i] = &tensor[i];
}

int main(int count, char **words) {
  if (count < 4 || KERNEL.operands > MOST_OPERANDS) fail("IN OUT THREADS EXTENT..");
  char **word = words + 4;
  for (int i = 0; i < KERNEL.operands; ++i) describe(i, &word);
  FILE *in = fopen(words[1], "rb"), *out = fopen(words[2], "wb");
  if (!in || !out) fail("cannot open the files");
  for (int i = 0; i < KERNEL.inputs; ++i)
    if (fread(tensor[i].data, 1, bytes_of(i), in) != bytes_of(i)) fail("the file is short");
  pk_context *context = pk_context_new();
  pk_context_set_threads(context, atoi(words[3]));
  if (pk_call_kernel(context, &KERNEL, tensors) != PK_OK) fail(pk_message(context));
  pk_context_free(context);
  for (int i = KERNEL.inputs; i < KERNEL.operands; ++i)
    if (fwrite(tensor[i].data, 1, bytes_of(i), out) != bytes_of(i)) fail("the file is not written");
  return fclose(out) == 0 && fclose(in) == 0 ? 0 : 2;
}
