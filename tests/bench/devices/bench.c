/* Two processes: what a remote copy takes beside MPI's own put, its send and memcpy, and an
 * all-reduce beside MPI's. Lines of "NAME BYTES SECONDS": for one copy each way at the same time;
 * of the best of several samples. */
#include "exchange.h"
#include "gather_matmul.h"
#include "gather_then_matmul.h"
#include "gradient_mean.h"

#include <pk/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 100, SAMPLES = 7 }; /* of exchange.pk */

static int rank;
static pk_context *context;
static float *x, *o;
static MPI_Win window;

static DLTensor tensor(float *data, int rank_of, int64_t *shape) {
  return (DLTensor){.data = data,
                    .device = {kDLCPU, 0},
                    .ndim = rank_of,
                    .dtype = {kDLFloat, 32, 1},
                    .shape = shape};
}

static void end_if(pk_status status) {
  if (status == PK_OK) return;
  (void)fprintf(stderr, "%s\n", pk_message(context));
  (void)MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- one exchange of so many floats, ROUNDS times */

static void by_kernel(int64_t count) {
  DLTensor from = tensor(x, 1, &count), to = tensor(o, 1, &count);
  end_if(exchange(context, &from, &to));
}

static void by_put(int64_t count) {
  (void)MPI_Win_lock_all(0, window);
  for (int i = 0; i < ROUNDS; ++i) {
    (void)MPI_Put(x, (int)count, MPI_FLOAT, 1 - rank, 0, (int)count, MPI_FLOAT, window);
    (void)MPI_Win_flush(1 - rank, window);
    (void)MPI_Barrier(MPI_COMM_WORLD);
  }
  (void)MPI_Win_unlock_all(window);
}

static void by_send(int64_t count) {
  for (int i = 0; i < ROUNDS; ++i)
    (void)MPI_Sendrecv(x, (int)count, MPI_FLOAT, 1 - rank, 0, o, (int)count, MPI_FLOAT, 1 - rank, 0,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The same two persistent messages in each round. */
static void by_persistent_send(int64_t count) {
  MPI_Request both[2];
  (void)MPI_Recv_init(o, (int)count, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, &both[0]);
  (void)MPI_Send_init(x, (int)count, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, &both[1]);
  for (int i = 0; i < ROUNDS; ++i) {
    (void)MPI_Startall(2, both);
    (void)MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
  }
  (void)MPI_Request_free(&both[0]);
  (void)MPI_Request_free(&both[1]);
}

/* A put, and a message that announces it. */
static void by_put_and_message(int64_t count) {
  int64_t said = 1, heard;
  (void)MPI_Win_lock_all(0, window);
  for (int i = 0; i < ROUNDS; ++i) {
    (void)MPI_Put(x, (int)count, MPI_FLOAT, 1 - rank, 0, (int)count, MPI_FLOAT, window);
    (void)MPI_Win_flush(1 - rank, window);
    (void)MPI_Sendrecv(&said, 1, MPI_INT64_T, 1 - rank, 0, &heard, 1, MPI_INT64_T, 1 - rank, 0,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  (void)MPI_Win_unlock_all(window);
}

static void by_memcpy(int64_t count) {
  for (int i = 0; i < ROUNDS; ++i) {
    memcpy(o, x, (size_t)count * sizeof *x);
    __asm__ volatile("" ::: "memory");
  }
}

/* ---- sums, ours means, of so many floats of both */

static void sum_by_kernel(int64_t count) {
  int64_t part[] = {1, count};
  DLTensor from = tensor(x, 2, part), to = tensor(o, 1, &count);
  end_if(gradient_mean(context, &from, &to));
}

static void sum_by_mpi(int64_t count) {
  (void)MPI_Allreduce(x, o, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* ---- a product whose left operand is gathered: [ROWS, DEPTH] by [DEPTH, count] in all */

enum { ROWS = 1024, DEPTH = 1024 };

static void product(int64_t count,
                    pk_status run(pk_context *, const DLTensor *, const DLTensor *, DLTensor *)) {
  int64_t part[] = {ROWS / 2, DEPTH}, weights[] = {DEPTH, count / 2}, whole[] = {ROWS, count / 2};
  DLTensor from = tensor(x, 2, part), by = tensor(x + ROWS * DEPTH, 2, weights),
           to = tensor(o, 2, whole);
  end_if(run(context, &from, &by, &to));
}

static void overlapped_product(int64_t count) { product(count, gather_matmul); }
static void gathered_product(int64_t count) { product(count, gather_then_matmul); }

static void measure(const char *name, void run(int64_t), int64_t count, int rounds) {
  double best = 1e30;
  run(count);
  for (int i = 0; i < SAMPLES; ++i) {
    (void)MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    run(count);
    double taken = (MPI_Wtime() - start) / rounds, most = 0;
    (void)MPI_Allreduce(&taken, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (most < best) best = most;
  }
  if (rank == 0) (void)printf("%s %lld %.9f\n", name, (long long)count * 4, best);
}

int main(void) {
  const int64_t most = 16 << 20;
  (void)MPI_Init(NULL, NULL);
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  context = pk_context_new();
  x = aligned_alloc(4096, (size_t)most * sizeof *x);
  o = aligned_alloc(4096, (size_t)most * sizeof *o);
  if (!x || !o) return 1;
  for (int64_t i = 0; i < most; ++i) x[i] = (float)(i % 64);
  memset(o, 0, (size_t)most * sizeof *o);
  (void)MPI_Win_create(o, (MPI_Aint)((size_t)most * sizeof *o), sizeof *o, MPI_INFO_NULL,
                       MPI_COMM_WORLD, &window);
  end_if(pk_context_set_communicator(context, MPI_COMM_WORLD, 0));
  for (int64_t count = 2; count <= 4 << 20; count *= 8) {
    measure("remote_copy", by_kernel, count, ROUNDS);
    measure("MPI_Put", by_put, count, ROUNDS);
    measure("put_and_message", by_put_and_message, count, ROUNDS);
    measure("MPI_Sendrecv", by_send, count, ROUNDS);
    measure("persistent_send", by_persistent_send, count, ROUNDS);
    measure("memcpy", by_memcpy, count, ROUNDS);
  }
  for (int64_t count = 1 << 14; count <= most; count *= 32) {
    measure("gradient_mean", sum_by_kernel, count, 1);
    measure("MPI_Allreduce", sum_by_mpi, count, 1);
  }
  for (int64_t count = 256; count <= 4096; count *= 4) {
    measure("gather_matmul", overlapped_product, count, 1);
    measure("gather_then_matmul", gathered_product, count, 1);
  }
  pk_context_free(context);
  (void)MPI_Win_free(&window);
  (void)MPI_Finalize();
  return 0;
}
