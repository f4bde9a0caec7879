/* Calls of an all-gather by two processes, each with its part of x: "ok WHAT" or "FAIL WHAT" a
 * line, from the first process. */
#include "all_gather.h"

#include <pk/mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 5, ROOM = 64 };

static int rank, failed;
static pk_context *context;

/* Whether a condition holds on both processes. */
static void judge(bool good, const char *what) {
  int mine = good, all = 0;
  (void)MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  failed += !all;
  if (rank == 0) (void)printf("%s %s\n", all ? "ok" : "FAIL", what);
}

static DLTensor tensor(float *data, int64_t *shape, int64_t *strides) {
  return (DLTensor){.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = 2,
                    .dtype = {kDLFloat, 32, 1},
                    .shape = shape,
                    .strides = strides};
}

/* The part lies in every second row and backwards, if `strided`. */
static pk_status gather(int64_t rows, bool strided, float *o) {
  float memory[ROOM * COLUMNS], *x = memory + (strided ? (2 * rows - 2) * COLUMNS : 0);
  int64_t shape[] = {rows, COLUMNS}, whole[] = {2 * rows, COLUMNS},
          strides[] = {strided ? -2 * COLUMNS : COLUMNS, 1};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < COLUMNS; ++k) x[i * strides[0] + k] = (float)(100 * rank + 10 * i + k);
  DLTensor from = tensor(x, shape, strides), to = tensor(o, whole, NULL);
  return all_gather(context, &from, &to);
}

static bool is_gathered(const float *o, int64_t rows) {
  for (int64_t i = 0; i < 2 * rows; ++i)
    for (int64_t k = 0; k < COLUMNS; ++k)
      if (o[i * COLUMNS + k] != (float)(100 * (i / rows) + 10 * (i % rows) + k)) return false;
  return true;
}

static void check_calls(void) {
  float o[2 * ROWS * COLUMNS];
  bool good = true;
  for (int i = 0; i < 200 && good; ++i) {
    memset(o, 0, sizeof o);
    good = gather(ROWS, i % 2, o) == PK_OK && is_gathered(o, ROWS);
  }
  judge(good, "200 calls");
  judge(gather(0, false, o) == PK_OK, "no rows");
}

static void check_refusals(void) {
  float o[2 * ROWS * COLUMNS];
  memset(o, 0, sizeof o);
  pk_status status = gather(ROWS - rank, false, o);
  judge(status == PK_BAD_SIZE && strstr(pk_message(context), "found others"), "sizes that differ");
  if (rank == 1) {
    status = all_gather(context, NULL, NULL);
    judge(status == PK_BAD_ARGUMENT, "a device that refuses");
  } else {
    status = gather(ROWS, false, o);
    judge(status == PK_BAD_ARGUMENT && strstr(pk_message(context), "on device (d=1)"),
          "a device that refuses");
  }
  bool written = false;
  for (size_t i = 0; i < sizeof o / sizeof *o; ++i) written |= o[i] != 0;
  judge(!written, "a refused call writes nothing");
  judge(gather(ROWS, false, o) == PK_OK && is_gathered(o, ROWS), "a call after a refused one");
}

static void check_lost(void) {
  float o[2 * ROWS * COLUMNS];
  (void)pk_context_set_communicator(context, MPI_COMM_WORLD, 0.2);
  const pk_status first = rank == 0 ? gather(ROWS, false, o) : PK_FAILED;
  judge(first == PK_FAILED, "a device that does not call");
  const pk_status second = rank == 0 ? gather(ROWS, false, o) : PK_FAILED;
  judge(second == PK_FAILED && (rank || strstr(pk_message(context), "lost")),
        "a call after devices lost each other");
}

int main(void) {
  context = pk_context_new();
  const bool early = pk_context_set_communicator(context, MPI_COMM_NULL, 0) == PK_BAD_ARGUMENT;
  (void)MPI_Init(NULL, NULL);
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  judge(early, "MPI that is not running");
  judge(pk_context_set_communicator(context, MPI_COMM_WORLD, 30) == PK_OK, "a communicator");
  check_calls();
  check_refusals();
  check_lost();
  judge(pk_context_set_communicator(context, MPI_COMM_NULL, 0) == PK_OK, "threads again");
  float x[4 * COLUMNS] = {1}, o[4 * COLUMNS];
  int64_t shape[] = {4, COLUMNS};
  DLTensor from = tensor(x, shape, NULL), to = tensor(o, shape, NULL);
  judge(all_gather(context, &from, &to) == PK_OK && memcmp(x, o, sizeof x) == 0,
        "a call on threads");
  pk_context_free(context);
  judge(failed == 0, "all");
  (void)MPI_Finalize();
  return failed > 0;
}
