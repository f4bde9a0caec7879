/* Records the calls of a context in Chrome's trace format (chrome://tracing, Perfetto). */
#define _POSIX_C_SOURCE 200809L
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RING_EVENTS = 1 << 15, NAME_BYTES = 32, MAX_REGIONS = 16 };

typedef struct {
  char name[NAME_BYTES]; /* a copy: the kernel may be unloaded before the file is written */
  const char *kind, *unit;
  int64_t start, duration, value;
} event;

/* The newest events of one thread. */
typedef struct {
  uint64_t recorded;
  int depth;
  const char *region[MAX_REGIONS];
  int64_t region_start[MAX_REGIONS];
  event ring[RING_EVENTS];
} recorder;

struct pk_trace {
  int64_t origin;
  recorder *recorder[PK_MAX_THREADS];
  char path[];
};

int64_t pk_trace_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool pk_trace_reserve(pk_trace *trace, int thread) {
  recorder **r = &trace->recorder[thread];
  if (!*r) *r = calloc(1, sizeof **r);
  if (*r) (*r)->depth = 0;
  return *r != NULL;
}

void *pk_trace_worker(pk_trace *trace, int thread) { return trace->recorder[thread]; }

void pk_trace_record(void *worker_trace, const char *name, const char *kind, int64_t start,
                     const char *unit, int64_t value) {
  recorder *r = worker_trace;
  event *e = &r->ring[r->recorded++ % RING_EVENTS];
  e->kind = kind;
  e->unit = unit;
  e->start = start;
  e->duration = pk_trace_now() - start;
  e->value = value;
  (void)snprintf(e->name, sizeof e->name, "%s", name ? name : "");
}

void pk_trace_begin(pk_worker *worker, const char *name) {
  recorder *r = worker->trace;
  if (!r) return;
  if (r->depth < MAX_REGIONS) {
    r->region[r->depth] = name;
    r->region_start[r->depth] = pk_trace_now();
  }
  ++r->depth;
}

void pk_trace_end(pk_worker *worker) {
  recorder *r = worker->trace;
  if (!r || r->depth == 0) return;
  --r->depth;
  if (r->depth < MAX_REGIONS)
    pk_trace_record(r, r->region[r->depth], "region", r->region_start[r->depth], NULL, 0);
}

int64_t pk_trace_start(const pk_worker *worker) { return worker->trace ? pk_trace_now() : 0; }

void pk_trace_moved(pk_worker *worker, const char *what, int64_t begun, int64_t bytes) {
  if (worker->trace) pk_trace_record(worker->trace, what, "dma", begun, "bytes", bytes);
}

static void write_string(FILE *file, const char *text) {
  (void)putc('"', file);
  for (; *text; ++text) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      (void)fprintf(file, "\\%c", c);
    } else if (c < 0x20 || c > 0x7e) {
      (void)fprintf(file, "\\u%04x", c); /* names are ASCII; a byte is kept readable as Latin-1 */
    } else {
      (void)putc(c, file);
    }
  }
  (void)putc('"', file);
}

static void write_event(FILE *file, const event *e, int thread, int64_t origin) {
  (void)fputs(",\n{\"name\":", file);
  write_string(file, e->name);
  (void)fprintf(file, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
                e->kind, thread, (double)(e->start - origin) / 1e3, (double)e->duration / 1e3);
  if (e->unit) (void)fprintf(file, ",\"args\":{\"%s\":%" PRId64 "}", e->unit, e->value);
  (void)putc('}', file);
}

/* Writes the kept events of all threads as JSON in the Trace Event Format. */
static bool write_trace(const pk_trace *trace) {
  FILE *file = fopen(trace->path, "w");
  if (!file) return false;
  uint64_t dropped = 0;
  (void)fputs(
      "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\","
      "\"pid\":1,\"args\":{\"name\":"
      "\"pk\"}}",
      file);
  for (int thread = 0; thread < PK_MAX_THREADS; ++thread) {
    const recorder *r = trace->recorder[thread];
    if (!r) continue;
    uint64_t kept = r->recorded < RING_EVENTS ? r->recorded : RING_EVENTS;
    dropped += r->recorded - kept;
    for (uint64_t i = r->recorded - kept; i < r->recorded; ++i)
      write_event(file, &r->ring[i % RING_EVENTS], thread, trace->origin);
  }
  (void)fprintf(file, "\n],\"otherData\":{\"dropped\":%" PRIu64 "}}\n", dropped);
  bool failed = ferror(file) != 0;
  return fclose(file) == 0 && !failed;
}

void pk_trace_discard(pk_trace *trace) {
  if (!trace) return;
  for (int i = 0; i < PK_MAX_THREADS; ++i) free(trace->recorder[i]);
  free(trace);
}

void pk_trace_free(pk_trace *trace) {
  if (trace) (void)write_trace(trace);
  pk_trace_discard(trace);
}

static pk_status end_trace(pk_context *context) {
  pk_trace *trace = context->trace;
  if (!trace) return PK_OK;
  pk_status status = PK_OK;
  if (!write_trace(trace)) {
    status = pk_refuse(context, NULL, PK_FAILED, "cannot write the trace %.900s", trace->path);
  }
  context->trace = NULL;
  pk_trace_discard(trace);
  return status;
}

static pk_status begin_trace(pk_context *context, const char *path) {
  size_t bytes = strlen(path) + 1;
  pk_trace *trace = calloc(1, sizeof *trace + bytes);
  if (!trace) return pk_refuse(context, NULL, PK_NO_MEMORY, "no memory for a trace");
  memcpy(trace->path, path, bytes);
  trace->origin = pk_trace_now();
  context->trace = trace;
  return PK_OK;
}

pk_status pk_context_trace(pk_context *context, const char *path) {
  context = context ? context : pk_default_context();
  if (!context) return PK_NO_MEMORY;
  if (!pk_hold(context)) return PK_BUSY;
  context->message[0] = '\0';
  pk_status status = end_trace(context);
  if (status == PK_OK && path) status = begin_trace(context, path);
  pk_release(context);
  return status;
}
