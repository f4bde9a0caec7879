/* How many threads a call is worth. */
#include "runtime/runtime.h"

/* Microseconds of work that pay for waking a thread. */
#define WORTH_A_THREAD 25
/* Microseconds by which each thread lengthens a call: waking a sleeping thread takes the caller
 * about 2, and all threads enter and leave through one cache line, which takes a fraction of one.
 */
#define COST_OF_A_THREAD 1

/* With T threads a call of W microseconds takes about W / T + T * COST_OF_A_THREAD, which is least
 * where T * T * COST_OF_A_THREAD = W. */
int pk_threads_worth(int64_t cells, double work, int allowed) {
  const double all = (double)cells * work / PK_WORK_PER_MICROSECOND;
  int threads = 1;
  if (allowed > cells) allowed = (int)cells;
  while (threads < allowed && (threads + 1.0) * WORTH_A_THREAD <= all &&
         (threads + 1.0) * (threads + 1.0) * COST_OF_A_THREAD <= all)
    ++threads;
  return threads;
}
