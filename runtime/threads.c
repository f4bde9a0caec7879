/* Chooses the number of threads of a call. */
#include "runtime/runtime.h"

/* Each thread must have at least this much work, in nanoseconds, unless the number was measured:
 * waking a sleeping thread takes the caller 2 to 5 microseconds. */
#define WORTH_A_THREAD 25000
/* Each thread is assumed to lengthen a call by this many nanoseconds: most threads are still
 * spinning when a call begins, and all of them join and leave through one cache line. */
#define COST_OF_A_THREAD 1000

double pk_thread_cost(const pk_kernel *kernel) {
  return kernel->thread_ns > 0 ? (double)kernel->thread_ns : COST_OF_A_THREAD;
}

/* With T threads a call of W nanoseconds takes about W / T + T * cost, which is least where
 * T * T * cost = W. */
int pk_threads_worth(const pk_kernel *kernel, int64_t cells, double work, int allowed) {
  const double all = (double)cells * work * 1e3 / PK_WORK_PER_MICROSECOND,
               worth = kernel->worth_ns > 0 ? (double)kernel->worth_ns : WORTH_A_THREAD,
               cost = pk_thread_cost(kernel);
  int threads = 1;
  if (allowed > cells) allowed = (int)cells;
  while (threads < allowed && (threads + 1.0) * worth <= all &&
         (threads + 1.0) * (threads + 1.0) * cost <= all)
    ++threads;
  return threads;
}
