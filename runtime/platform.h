/* Differences between operating systems: all files of the library use these functions.
 * docs/platforms.md lists what each system offers. Linux, macOS, FreeBSD and other systems with
 * POSIX are one row, Windows (mingw) is the other. <pk/cpu.h> and SIMDe handle differences between
 * processors. */
#ifndef RUNTIME_PLATFORM_H
#define RUNTIME_PLATFORM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#pragma GCC visibility push(hidden)

/* Memory with an alignment that is a power of 2; NULL: no memory. If the alignment is that of huge
 * pages, the system is asked for huge pages. */
#define PK_HUGE_PAGE ((size_t)2 << 20)
void *pk_allocate_aligned(size_t bytes, size_t alignment);
void pk_free_aligned(void *memory);

/* The number of processors that the process may use, ignoring quotas. */
int pk_schedulable(void);
/* The processor of the calling thread, or -1 if it is unknown. */
int pk_current_processor(void);
/* If all processors are busy, the system may wake a thread on the processor of its caller and leave
 * it there, where the two only alternate. This moves the thread to any other processor that it may
 * use, if the system has a call for that. */
void pk_leave_processor(int processor);

/* Registers handlers for fork; always true on systems without fork. */
bool pk_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));
/* Creates a thread that blocks all signals. */
bool pk_start_quiet_thread(pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*body)(void *), void *argument);

/* Opens a text file that child processes do not inherit; NULL if it cannot be read. */
FILE *pk_open_text(const char *path);

#pragma GCC visibility pop
#endif
