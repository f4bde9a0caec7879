/* Memory whose surroundings must not be accessed, for programs that detect accesses outside an
 * array or a buffer: the harness of `pkc run` and `pkc test`, and that of random kernels. An array
 * is next to pages that fault. The space between these pages and the array, the gaps between its
 * rows, and the fences between the buffers of an arena (<pk/fence.h>) contain a pattern. */
#ifndef PK_GUARD_H
#define PK_GUARD_H

#include <pk/rt.h>
#include <stddef.h>

typedef enum {
  PK_GUARD_END,  /* without gaps, before a page that faults */
  PK_GUARD_BEGIN /* after such a page, with gaps after its rows if the caller allows gaps */
} pk_guard_place;

/* The memory of an array: rows of `row` bytes, `pitch` bytes from one to the next. */
typedef struct pk_guarded pk_guarded;
struct pk_guarded {
  const char *name;
  char *data;
  int64_t rows, row, pitch, stride[PK_MAX_RANK];
  char *base;
  size_t span; /* bytes between the pages that fault */
  pk_guarded *next;
};

/* Allocates memory for a tensor of `bytes` bytes whose shape is set; sets its data, and its strides
 * if there are gaps. `element`: bytes of an element; 0: no gaps. False: no memory. */
bool pk_guard_open(pk_guarded *guarded, const char *name, pk_guard_place place, DLTensor *tensor,
                   int64_t bytes, int64_t element);
/* The total of all arrays. */
void pk_guard_close_all(void);
/* The array without the gaps between its rows. */
void pk_guard_put(const pk_guarded *guarded, const char *dense);
void pk_guard_get(const pk_guarded *guarded, char *dense);
/* The description of a write outside an open array or a buffer; NULL if there was none. */
const char *pk_guard_broken(void);
/* After this, an access to a page next to an array calls `report` in a handler of SIGSEGV; `report`
 * must not return. */
void pk_guard_catch(void (*report)(const char *message));

#endif
