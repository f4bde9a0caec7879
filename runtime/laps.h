/* Laps of a profiling build (pk/profile.h), by thread, or by device of a mesh. Compiled together
 * with the harness. */
#ifndef PK_LAPS_H
#define PK_LAPS_H

#include <pk/rt.h>

#include <stdbool.h>

void pk_laps_begin(const pk_mesh *mesh); /* before the first call; NULL: by thread */
double pk_laps_cost(void);               /* ticks of one lap */
void pk_laps_clear(void);                /* before a call */
bool pk_laps_keep(void);                 /* keeps the times of the last call; false: no memory */
void pk_laps_print(double tick_ns);      /* the times that were kept, as lines of the harness */
/* The next call records its newest laps. pk_laps_write writes them to a file as lines
 * THREAD PLACE START DURATION, in ns from pk_laps_record on. */
void pk_laps_record(void);
void pk_laps_write(const char *path, double tick_ns);

#endif
