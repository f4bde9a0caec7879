/* What differs between operating systems: every file of the library asks for it here.
 * docs/platforms.md lists what each system offers. Linux, macOS, FreeBSD and other systems with
 * POSIX are one row, Windows (mingw) is the other. Processors are the matter of <pk/cpu.h> and of
 * SIMDe. */
#ifndef RUNTIME_PLATFORM_H
#define RUNTIME_PLATFORM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#pragma GCC visibility push(hidden)

/* Memory with an alignment that is a power of 2; NULL: there is none. Where the alignment is that
 * of huge pages, the system is asked for them. */
#define PK_HUGE_PAGE ((size_t)2 << 20)
void *pk_allocate_aligned(size_t bytes, size_t alignment);
void pk_free_aligned(void *memory);

/* Processors that the process may use, without regard to quotas. */
int pk_schedulable(void);
/* The calling thread's, or -1 where the system does not tell. */
int pk_current_processor(void);
/* Where all processors are busy, the system may wake a thread on its caller's and leave it there:
 * two threads take turns at what one does as fast. Such a thread moves to any other processor that
 * it may use, if the system has a call for that. */
void pk_leave_processor(int processor);

/* Calls of a process that makes children by fork; true where no system call does. */
bool pk_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));
/* A thread that gets no signals of the host's. */
bool pk_start_quiet_thread(pthread_t *thread, const pthread_attr_t *attributes,
                           void *(*body)(void *), void *argument);

/* A text that children do not inherit; NULL: it cannot be read. */
FILE *pk_open_text(const char *path);

#pragma GCC visibility pop
#endif
