/* Kernels with a mesh under shard_map: XLA calls the handler once for each of its devices, in any
 * order and on any of its threads, and the calls of one kernel by all devices are one call of pkc.
 *
 * No thread of XLA is blocked while others are missing: a call that is not the last one is left
 * with a future. The last one starts a thread for each of the others, which settles the future when
 * the device's work is done: XLA continues the device's program in that same call, and may wait
 * there for other devices. Included by xla.c. */
#include <pk/link.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

typedef struct Meeting Meeting;

/* What one device passes. XLA keeps the memory until the future is settled. */
typedef struct {
  bool here;
  DLTensor tensor[MOST_OPERANDS];
  int64_t dim[MOST_OPERANDS][PK_MAX_RANK];
  const XLA_FFI_Api *api;
  XLA_FFI_Future *future; /* NULL: of the last device, whose handler returns the result */
  pk_status status;
  char message[PK_LINK_MESSAGE];
  Meeting *meeting;
} Arrival;

typedef struct Crew Crew;

/* A call that not all devices have made yet, or that runs. */
struct Meeting {
  Meeting *next;
  int64_t run;      /* the execution of a program */
  const void *site; /* the call in it */
  const pk_kernel *kernel;
  int count, here;
  time_t deadline;
  Crew *crew;
  enum { WAIT, GO, CANCEL } state; /* none begins before all have a thread */
  int left;                        /* devices whose call is not over */
  pthread_mutex_t lock;            /* of the two above */
  pthread_cond_t changed;
  Arrival arrival[]; /* by the number of the device */
};

/* The contexts of that many devices, which are kept from call to call. */
struct Crew {
  Crew *next;
  int count;
  pk_context *context[];
};

static pthread_mutex_t meetings_lock = PTHREAD_MUTEX_INITIALIZER;
static Meeting *meetings; /* those that wait for devices */
static Crew *crews;       /* those that do nothing */
static bool watched;      /* a thread looks for meetings whose time is over */

static int device_count(const pk_kernel *kernel) {
  int64_t count = 1;
  for (int i = 0; i < kernel->mesh->axes; i++) count *= kernel->mesh->extent[i];
  return (int)count;
}

/* ---- crews */

static void free_crew(Crew *crew) {
  for (int i = 0; crew && i < crew->count; i++)
    if (crew->context[i]) pk_context_free(crew->context[i]);
  free(crew);
}

static Crew *new_crew(int count) {
  Crew *crew = calloc(1, sizeof *crew + (size_t)count * sizeof *crew->context);
  pk_link **links = calloc((size_t)count, sizeof(pk_link *));
  bool good = crew && links;
  if (crew) crew->count = count;
  for (int i = 0; i < count && good; i++) {
    good = (crew->context[i] = pk_context_new()) != NULL;
    if (good) pk_context_set_threads(crew->context[i], 1);
  }
  good = good && pk_link_threads(count, links);
  for (int i = 0; i < count && good; i++) pk_context_set_link(crew->context[i], links[i]);
  free(links);
  if (good) return crew;
  free_crew(crew);
  return NULL;
}

static Crew *take_crew(int count) {
  pthread_mutex_lock(&meetings_lock);
  Crew **at = &crews;
  while (*at && (*at)->count != count) at = &(*at)->next;
  Crew *crew = *at;
  if (crew) *at = crew->next;
  pthread_mutex_unlock(&meetings_lock);
  return crew ? crew : new_crew(count);
}

static void give_back(Crew *crew) {
  pthread_mutex_lock(&meetings_lock);
  crew->next = crews;
  crews = crew;
  pthread_mutex_unlock(&meetings_lock);
}

/* ---- errors */

static XLA_FFI_Error *error_of(const XLA_FFI_Api *api, pk_status status, const char *message) {
  XLA_FFI_Error_Create_Args args = {
      .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
      .message = message,
      .errc = status == PK_NO_MEMORY ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
              : status == PK_FAILED  ? XLA_FFI_Error_Code_INTERNAL
                                     : XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return status == PK_OK ? NULL : api->XLA_FFI_Error_Create(&args);
}

/* Errors of these functions say that the arguments are not those of this version: nothing is left
 * to do. */
static void drop_error(const XLA_FFI_Api *api, XLA_FFI_Error *error) {
  XLA_FFI_Error_Destroy_Args args = {.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE,
                                     .error = error};
  if (error) api->XLA_FFI_Error_Destroy(&args);
}

static void settle(const Arrival *a) {
  XLA_FFI_Future_SetAvailable_Args good = {
      .struct_size = XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, .future = a->future};
  XLA_FFI_Future_SetError_Args bad = {.struct_size = XLA_FFI_Future_SetError_Args_STRUCT_SIZE,
                                      .future = a->future};
  if (a->status == PK_OK) {
    drop_error(a->api, a->api->XLA_FFI_Future_SetAvailable(&good));
    return;
  }
  bad.error = error_of(a->api, a->status, a->message);
  drop_error(a->api, a->api->XLA_FFI_Future_SetError(&bad));
}

/* ---- all devices of a call */

static Meeting *new_meeting(const pk_kernel *kernel, int64_t run, const void *site, long seconds) {
  const int count = device_count(kernel);
  Meeting *m = calloc(1, sizeof *m + (size_t)count * sizeof m->arrival[0]);
  if (!m) return NULL;
  *m = (Meeting){.run = run,
                 .site = site,
                 .kernel = kernel,
                 .count = count,
                 .left = count,
                 .deadline = time(NULL) + seconds};
  for (int i = 0; i < count; i++) m->arrival[i].meeting = m;
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->changed, NULL);
  return m;
}

static void free_meeting(Meeting *m) {
  pthread_cond_destroy(&m->changed);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

/* A device is done with the meeting. */
static void leave(Meeting *m) {
  pthread_mutex_lock(&m->lock);
  const bool last = --m->left == 0;
  pthread_mutex_unlock(&m->lock);
  if (!last) return;
  if (m->crew) give_back(m->crew);
  free_meeting(m);
}

static void refuse_arrival(Arrival *a) {
  a->status = PK_NO_MEMORY;
  (void)snprintf(a->message, sizeof a->message, "pkc: no memory or threads for all devices");
}

static void run_device(Arrival *a) {
  Meeting *m = a->meeting;
  pk_context *context = m->crew->context[a - m->arrival];
  DLTensor *tensors[MOST_OPERANDS];
  for (int i = 0; i < m->kernel->operands; i++) tensors[i] = &a->tensor[i];
  a->status = pk_call_kernel(context, m->kernel, tensors);
  if (a->status != PK_OK) (void)snprintf(a->message, sizeof a->message, "%s", pk_message(context));
}

static void *run_other(void *argument) {
  Arrival *a = argument;
  Meeting *m = a->meeting;
  pthread_mutex_lock(&m->lock);
  while (m->state == WAIT) pthread_cond_wait(&m->changed, &m->lock);
  const bool goes = m->state == GO;
  pthread_mutex_unlock(&m->lock);
  if (goes)
    run_device(a);
  else
    refuse_arrival(a);
  const Arrival own = *a;
  leave(m);
  settle(&own);
  return NULL;
}

/* Starts the devices other than `number`, and runs that one. */
static void hold(Meeting *m, int number) {
  pthread_t thread;
  int started = 0;
  m->crew = take_crew(m->count);
  for (int i = 0; m->crew && i < m->count; i++) {
    if (i == number) continue;
    if (pthread_create(&thread, NULL, run_other, &m->arrival[i]) != 0) break;
    (void)pthread_detach(thread);
    m->arrival[i].here = false; /* its thread settles its future */
    started++;
  }
  const bool good = started + 1 == m->count;
  pthread_mutex_lock(&m->lock);
  m->state = good ? GO : CANCEL;
  pthread_cond_broadcast(&m->changed);
  pthread_mutex_unlock(&m->lock);
  if (good)
    run_device(&m->arrival[number]);
  else
    refuse_arrival(&m->arrival[number]);
  for (int i = 0; i < m->count && !good; i++) {
    if (i == number || !m->arrival[i].here) continue;
    refuse_arrival(&m->arrival[i]);
    settle(&m->arrival[i]);
    leave(m);
  }
}

/* ---- devices that never arrive */

static long time_limit(void) {
  const char *text = getenv("PK_DEVICE_TIMEOUT");
  char *end = NULL;
  const double value = text ? strtod(text, &end) : 0;
  return text && *text && !*end && value > 0 && value < 1e9 ? (long)value + 1 : 120;
}

static void give_up(Meeting *m) {
  for (int i = 0; i < m->count; i++) {
    Arrival *a = &m->arrival[i];
    if (!a->here) continue;
    a->status = PK_FAILED;
    (void)snprintf(a->message, sizeof a->message,
                   "pkc: %d of %d devices have reached the kernel %s in %ld s (PK_DEVICE_TIMEOUT)",
                   m->here, m->count, m->kernel->name, time_limit());
    settle(a);
  }
  free_meeting(m);
}

/* Takes out a meeting whose time is over; NULL: there is none. */
static Meeting *overdue(void) {
  for (Meeting **at = &meetings; *at; at = &(*at)->next) {
    if ((*at)->deadline > time(NULL)) continue;
    Meeting *m = *at;
    *at = m->next;
    return m;
  }
  return NULL;
}

static void *watch(void *unused) {
  pthread_mutex_lock(&meetings_lock);
  while (meetings) {
    Meeting *m = overdue();
    pthread_mutex_unlock(&meetings_lock);
    if (m)
      give_up(m);
    else
      (void)nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    pthread_mutex_lock(&meetings_lock);
  }
  watched = false;
  pthread_mutex_unlock(&meetings_lock);
  return unused;
}

static void begin_watching(void) {
  pthread_t thread;
  if (watched || pthread_create(&thread, NULL, watch, NULL) != 0) return;
  watched = true;
  (void)pthread_detach(thread);
}

/* ---- one device */

static bool take_arguments(const XLA_FFI_CallFrame *frame, const pk_kernel *kernel, Arrival *a) {
  set_tensors(frame, kernel, 0, NULL, 0, a->tensor);
  for (int i = 0; i < kernel->operands; i++) {
    if (a->tensor[i].ndim != kernel->operand[i].rank) return false;
    if (a->tensor[i].ndim)
      memcpy(a->dim[i], a->tensor[i].shape, (size_t)a->tensor[i].ndim * sizeof a->dim[i][0]);
    a->tensor[i].shape = a->dim[i];
  }
  a->api = frame->api;
  return a->here = true;
}

/* The meeting that this device has not joined yet; a new one if it has joined all. */
static Meeting *find_meeting(int64_t run, const void *site, const pk_kernel *kernel, int number) {
  for (Meeting *m = meetings; m; m = m->next)
    if (m->run == run && m->site == site && m->kernel == kernel && !m->arrival[number].here)
      return m;
  Meeting *m = new_meeting(kernel, run, site, time_limit());
  if (!m) return NULL;
  m->next = meetings;
  return meetings = m;
}

static void remove_meeting(const Meeting *m) {
  Meeting **at = &meetings;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
}

/* Returns the meeting if it is complete, otherwise NULL and an error or none. The caller holds the
 * lock. */
static Meeting *come(XLA_FFI_CallFrame *frame, const pk_kernel *kernel, int64_t run,
                     const void *site, int number, XLA_FFI_Error **error) {
  Meeting *m = find_meeting(run, site, kernel, number);
  if (!m || !take_arguments(frame, kernel, &m->arrival[number])) {
    *error = error_of(frame->api, m ? PK_BAD_ARGUMENT : PK_NO_MEMORY,
                      "pkc: arguments that are not those of the kernel, or no memory for them");
    return NULL;
  }
  if (m->here + 1 < m->count) {
    XLA_FFI_Future_Create_Args args = {.struct_size = XLA_FFI_Future_Create_Args_STRUCT_SIZE};
    *error = frame->api->XLA_FFI_Future_Create(&args);
    m->arrival[number].here = !*error;
    m->here += !*error;
    m->arrival[number].future = frame->future = args.future;
    begin_watching();
    return NULL;
  }
  remove_meeting(m);
  return m;
}

/* ---- the sites of calls: a program that calls a kernel twice has two, and devices may reach them
 * in different orders */

static XLA_FFI_TypeId site_type;

static void free_site(void *site) { free(site); }

static XLA_FFI_Error *register_sites(const XLA_FFI_CallFrame *frame) {
  static const char name[] = "pkc_site";
  static const XLA_FFI_TypeInfo info = {.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE,
                                        .deleter = free_site};
  XLA_FFI_Type_Register_Args args = {.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE,
                                     .name = {name, sizeof name - 1},
                                     .type_id = &site_type,
                                     .type_info = &info};
  return site_type.type_id ? NULL : frame->api->XLA_FFI_Type_Register(&args);
}

static XLA_FFI_Error *new_site(XLA_FFI_CallFrame *frame) {
  bool answered = false;
  XLA_FFI_State_Set_Args args = {.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE,
                                 .ctx = frame->ctx,
                                 .stage = XLA_FFI_ExecutionStage_INSTANTIATE,
                                 .type_id = &site_type};
  XLA_FFI_Error *error = register_sites(frame);
  answer_metadata(frame, &answered);
  for (__typeof__(frame->extension_start) e = frame->extension_start; e && answered; e = e->next)
    if (e->type == XLA_FFI_Extension_Metadata)
      ((XLA_FFI_Metadata_Extension *)e)->metadata->state_type_id = site_type;
  if (error || answered) return error;
  args.state = malloc(1);
  if (!args.state) return error_of(frame->api, PK_NO_MEMORY, "pkc: no memory for a call");
  error = frame->api->XLA_FFI_State_Set(&args);
  if (error) free(args.state);
  return error;
}

/* ---- the handler of one device */

static XLA_FFI_Error *join(XLA_FFI_CallFrame *frame, const pk_kernel *kernel, int64_t run,
                           const void *site, int number) {
  XLA_FFI_Error *error = NULL;
  pthread_mutex_lock(&meetings_lock);
  Meeting *m = come(frame, kernel, run, site, number, &error);
  pthread_mutex_unlock(&meetings_lock);
  if (!m) return error;
  hold(m, number);
  error = error_of(frame->api, m->arrival[number].status, m->arrival[number].message);
  leave(m);
  return error;
}

/* The call of one device of a mesh: joins the calls of the others with the same run, and the last
 * one to arrive runs the kernel. */
static XLA_FFI_Error *call_device(XLA_FFI_CallFrame *frame) {
  bool answered = false;
  XLA_FFI_Error *error = NULL;
  XLA_FFI_RunId_Get_Args run = {.struct_size = XLA_FFI_RunId_Get_Args_STRUCT_SIZE,
                                .ctx = frame->ctx};
  XLA_FFI_State_Get_Args site = {.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE,
                                 .ctx = frame->ctx,
                                 .stage = XLA_FFI_ExecutionStage_INSTANTIATE,
                                 .type_id = &site_type};
  answer_metadata(frame, &answered);
  if (answered) return NULL;
  const pk_kernel *kernel = called(frame, 1, &error);
  if (kernel) error = frame->api->XLA_FFI_RunId_Get(&run);
  if (kernel && !error) error = frame->api->XLA_FFI_State_Get(&site);
  if (error) return error;
  const XLA_FFI_Buffer *number = frame->args.args[kernel->inputs];
  const uint32_t device = *(const uint32_t *)number->data;
  if (!kernel->mesh || device >= (uint32_t)device_count(kernel))
    return refuse(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                  "pkc: the program runs on more devices than the mesh has");
  return join(frame, kernel, run.run_id, site.state, (int)device);
}

const struct {
  XLA_FFI_Error *(*call)(XLA_FFI_CallFrame *);
  int (*add)(int64_t, const pk_kernel *);
  XLA_FFI_Error *(*instantiate)(XLA_FFI_CallFrame *);
} pk_xla_mesh = {call_device, add, new_site};
