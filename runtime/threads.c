/* Chooses the number of threads of a call. */
#include "runtime/runtime.h"

/* Each thread must have this much work, in microseconds. An estimate: waking a sleeping thread
 * takes the caller 2 to 5. */
#define WORTH_A_THREAD 25
/* Each thread is assumed to lengthen a call by this many microseconds. An estimate: most threads
 * still spin when they are called, and enter and leave through one cache line. */
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
