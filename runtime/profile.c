/* Time by kernel: one row for each name, in the order of the first calls. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

typedef struct {
  char name[NAME_BYTES]; /* a copy: the kernel may be unloaded before the row is read */
  int64_t calls, nanoseconds;
} row;

struct pk_profile {
  int count, capacity;
  row *rows;
};

pk_status pk_context_profile(pk_context *context, int on) {
  context = context ? context : pk_default_context();
  if (!context) return PK_NO_MEMORY;
  if (!pk_hold(context)) return PK_BUSY;
  if (on) {
    pk_profile_free(context->profile);
    context->profile = calloc(1, sizeof *context->profile);
  }
  context->profiling = on && context->profile;
  pk_release(context);
  return on && !context->profile ? PK_NO_MEMORY : PK_OK;
}

void pk_profile_free(pk_profile *profile) {
  if (profile) free(profile->rows);
  free(profile);
}

/* NULL if there is no memory for another row. */
static row *find_row(pk_profile *profile, const char *name) {
  for (int i = 0; i < profile->count; ++i)
    if (strncmp(profile->rows[i].name, name, NAME_BYTES - 1) == 0) return &profile->rows[i];
  if (profile->count == profile->capacity) {
    const int capacity = profile->capacity ? 2 * profile->capacity : 32;
    row *grown = realloc(profile->rows, (size_t)capacity * sizeof *grown);
    if (!grown) return NULL;
    profile->rows = grown;
    profile->capacity = capacity;
  }
  row *added = &profile->rows[profile->count++];
  memset(added, 0, sizeof *added);
  memcpy(added->name, name, strnlen(name, NAME_BYTES - 1));
  return added;
}

void pk_profile_add(pk_profile *profile, const char *name, int64_t nanoseconds) {
  row *found = find_row(profile, name);
  if (!found) return;
  ++found->calls;
  found->nanoseconds += nanoseconds;
}

int pk_profile_row(const pk_context *context, int index, pk_kernel_time *time) {
  context = context ? context : pk_default_context();
  const pk_profile *profile = context ? context->profile : NULL;
  if (!profile || index < 0 || index >= profile->count) return 0;
  const row *r = &profile->rows[index];
  *time = (pk_kernel_time){r->name, r->calls, (double)r->nanoseconds * 1e-9};
  return 1;
}
