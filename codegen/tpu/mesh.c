// pkc tpu --mesh: formulas for the cost of moving data between the chips of a slice.
//
// A chip has a link to each neighbour along each axis; a link carries half of what the table lists
// in either direction. Axes wrap around only where the slice is large enough (chips.def).
// Collectives use all axes at once. docs/tpu.md derives the formulas.
#include "codegen/tpu/torus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const MeshRequest *request;
  Torus torus;
} Mesh;

typedef struct {
  double seconds, latency, transfer;
  int64_t hops;
  int links;  // the number of links of the chip that waits longest
} MeshCost;

// ---- the command line

static const char *argument(const Mesh *m, const char *name) {
  for (int i = 0; i < m->request->count; i++)
    if (strcmp(m->request->arguments[i].name, name) == 0) return m->request->arguments[i].value;
  return NULL;
}

static bool read_number(const char *text, double *value) {
  char *end;
  if (!text) return false;
  *value = strtod(text, &end);
  return *text && !*end && *value >= 0 && *value < 1e30;
}

// axes=0,2: as --over x,z.
static const char *over_of(const Mesh *m) {
  int64_t axis[TORUS_AXES];
  const char *text = argument(m, "axes");
  Buf over = {0};
  if (!text) return m->request->over;
  int count = torus_read_list(text, ',', axis, TORUS_AXES);
  for (int i = 0; i < count; i++)
    buf_printf(&over, "%s%c", i ? "," : "", axis[i] < TORUS_AXES ? (int)('x' + axis[i]) : '?');
  const char *kept =
      arena_strndup(m->request->arena, count > 0 ? over.text : "?", count > 0 ? over.length : 1);
  buf_free(&over);
  return kept;
}

// ---- costs

static MeshCost cost_of(const Mesh *m, int64_t hops, double bytes, double bandwidth, int links,
                        bool both) {
  MeshCost c = {
      .hops = hops, .latency = (double)hops * m->torus.chip->value[CHIP_ICI_HOP], .links = links};
  c.transfer = bandwidth > 0 ? bytes / bandwidth : 0;
  c.seconds = both ? c.latency + c.transfer : fmax(c.latency, c.transfer);
  return c;
}

// A message takes the shortest way along each axis, and its parts a link of each axis on which the
// chips differ.
static MeshCost send_cost(const Mesh *m, const int64_t *from, const int64_t *to, double bytes) {
  int64_t hops = 0;
  int links = 0;
  for (int i = 0; i < m->torus.axes; i++) {
    int64_t distance = llabs((long long)(to[i] - from[i]));
    if (m->torus.wraps[i] && m->torus.size[i] - distance < distance)
      distance = m->torus.size[i] - distance;
    hops += distance;
    links += distance > 0;
  }
  return cost_of(m, hops, bytes, links * m->torus.one_way, links, true);
}

// Every chip receives the part of the array that it does not have: over two links along an axis
// that wraps, over one link at the end of one that does not.
static MeshCost gather_cost(const Mesh *m, double bytes) {
  int64_t hops = 0;
  int links = 0;
  for (int i = 0; i < m->torus.axes; i++) {
    if (m->torus.size[i] < 2) continue;
    hops += m->torus.wraps[i] ? m->torus.size[i] / 2 : m->torus.size[i] - 1;
    links += m->torus.wraps[i] ? 2 : 1;
  }
  return cost_of(m, hops, bytes * (double)(m->torus.chips - 1) / (double)m->torus.chips,
                 links * m->torus.one_way, links, false);
}

static MeshCost reduce_cost(const Mesh *m, double bytes) {
  MeshCost c = gather_cost(m, bytes);
  c.hops *= 2;
  c.latency *= 2;
  c.transfer *= 2;
  c.seconds *= 2;
  return c;
}

// The data of one half of an axis for the other crosses its middle in each direction, over one link
// per row, or two if the axis wraps. It is a quarter of the array, or slightly less if the halves
// are not equal.
static MeshCost exchange_cost(const Mesh *m, double bytes) {
  MeshCost worst = {0};
  int64_t hops = 0;
  for (int i = 0; i < m->torus.axes; i++)
    hops += m->torus.wraps[i] ? m->torus.size[i] / 2 : m->torus.size[i] - 1;
  for (int i = 0; i < m->torus.axes; i++) {
    if (m->torus.size[i] < 2) continue;
    int links = m->torus.wraps[i] ? 2 : 1;
    double n = (double)m->torus.size[i], part = m->torus.size[i] % 2 ? (1 - 1 / (n * n)) / 4 : 0.25;
    MeshCost c = cost_of(m, hops, bytes * part,
                         (double)(m->torus.chips / m->torus.size[i]) * links * m->torus.one_way,
                         links, false);
    if (c.seconds >= worst.seconds) worst = c;
  }
  return worst;
}

typedef MeshCost Collective(const Mesh *m, double bytes);
static const struct {
  const char *name, *meaning;
  Collective *cost;
} collectives[] = {
    {"all-gather", "each chip has a part of the array, and gets the whole array", gather_cost},
    {"reduce-scatter", "each chip has an array as long as the sum, and gets a part of the sum",
     gather_cost},
    {"all-reduce", "a reduce-scatter, then an all-gather", reduce_cost},
    {"all-to-all", "each chip has a part of the array, and sends a part of that to each other chip",
     exchange_cost},
};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

// ---- results

// Prints the cost of a collective, as text or JSON.
static int show(const Mesh *m, const char *what, double bytes, MeshCost c) {
  Buf out = {0};
  double dcn = bytes / m->torus.chip->value[CHIP_DCN];
  if (m->request->json) {
    json_open(&out, NULL, '{');
    json_text(&out, "collective", what);
    json_text(&out, "chip", m->torus.chip->name);
    json_text(&out, "mesh", m->request->mesh);
    json_real(&out, "bytes", bytes);
    json_real(&out, "seconds", c.seconds);
    json_real(&out, "latency_s", c.latency);
    json_real(&out, "transfer_s", c.transfer);
    json_int(&out, "hops", c.hops);
    json_int(&out, "links", c.links);
    json_real(&out, "dcn_s", dcn);
    buf_puts(&out, "}\n");
  } else {
    buf_printf(&out, "%s of %.6g B on %s ", what, bytes, m->torus.chip->name);
    torus_put_shape(&m->torus, &out);
    buf_printf(&out,
               "\n  time       %.4g us\n  latency    %.4g us: %lld hop%s\n  transfer   %.4g us: %d "
               "link%s of %.3g B/s one way\n",
               c.seconds * 1e6, c.latency * 1e6, (long long)c.hops, c.hops == 1 ? "" : "s",
               c.transfer * 1e6, c.links, c.links == 1 ? "" : "s", m->torus.one_way);
    buf_printf(&out, "  over DCN   %.4g us, by one chip's share of it\n", dcn * 1e6);
  }
  int status = write_result("-", &out);
  buf_free(&out);
  return status;
}

static int send(const Mesh *m, double bytes) {
  int64_t from[TORUS_AXES], to[TORUS_AXES];
  if (torus_read_list(argument(m, "from"), ',', from, TORUS_AXES) != m->torus.axes ||
      torus_read_list(argument(m, "to"), ',', to, TORUS_AXES) != m->torus.axes)
    return user_error(
        "send requires from=X,Y and to=X,Y, with as many numbers as the mesh has axes");
  for (int i = 0; i < m->torus.axes; i++)
    if (from[i] >= m->torus.size[i] || to[i] >= m->torus.size[i])
      return user_error("there is no such chip: axis %d has %lld", i, (long long)m->torus.size[i]);
  return show(m, "send", bytes, send_cost(m, from, to, bytes));
}

// ---- a product spread over the chips

typedef struct {
  const char *name, *meaning;
  double compute, moved, together;
} Plan;

// The steps of a ring: in each step except the last one, a part is sent while the previously
// received part is multiplied.
static double overlapped(const Mesh *m, double compute, double moved) {
  double parts = (double)m->torus.chips;
  return fmax(compute, moved) + fmin(compute, moved) / parts;
}

static void put_plan(const Mesh *m, const Plan *p, Buf *out) {
  const char *bound = p->compute >= p->moved ? "compute" : "communication";
  if (!m->request->json) {
    buf_printf(out, "%-10s %9.4g us   %9.4g us %9.4g us  %s: %s\n", p->name, p->compute * 1e6,
               p->moved * 1e6, p->together * 1e6, bound, p->meaning);
    return;
  }
  json_open(out, NULL, '{');
  json_text(out, "parallel", p->name);
  json_real(out, "compute_s", p->compute);
  json_real(out, "communication_s", p->moved);
  json_real(out, "overlapped_s", p->together);
  json_text(out, "bound", bound);
  buf_puts(out, "}\n");
}

// Compares ways to divide a product among the chips of a slice.
static int plans(const Mesh *m) {
  double rows, inner, columns, stages = (double)m->torus.chips;
  if (!read_number(argument(m, "M"), &rows) || !read_number(argument(m, "K"), &inner) ||
      !read_number(argument(m, "N"), &columns))
    return user_error(
        "matmul requires M=, K= and N=: activations [M, K] by weights [K, N], in bf16");
  double work = 2 * rows * inner * columns, peak = m->torus.chip->value[CHIP_BF16],
         batches = 4 * stages;
  double hop = m->torus.chip->value[CHIP_ICI_HOP], batch = work / peak / batches,
         passed = fmax(hop, 2 * rows * inner / batches / m->torus.one_way);
  const Plan list[] = {
      {"data", "M split; training sums the weights' gradient", 3 * work / peak / stages,
       reduce_cost(m, 2 * inner * columns).seconds, 0},
      {"tensor", "N split; the activations are gathered", work / peak / stages,
       gather_cost(m, 2 * rows * inner).seconds, 0},
      {"pipeline",
       arena_printf(
           m->request->arena,
           "a layer a stage; one of %.0f microbatches in a stage, and its way to the next; "
           "all stages fill and drain in %.4g us",
           batches, (batches + stages - 1) * fmax(batch, passed) * 1e6),
       batch, passed, fmax(batch, passed)},
  };
  Buf out = {0};
  if (!m->request->json) {
    buf_printf(&out, "[%.6g, %.6g] by [%.6g, %.6g] in bf16 on %s ", rows, inner, inner, columns,
               m->torus.chip->name);
    torus_put_shape(&m->torus, &out);
    buf_puts(&out, "\nparallel        compute  communication   overlapped  bound by\n");
  }
  for (int i = 0; i < 3; i++) {
    Plan p = list[i];
    if (p.together <= 0) p.together = overlapped(m, p.compute, p.moved);
    put_plan(m, &p, &out);
  }
  int status = write_result("-", &out);
  buf_free(&out);
  return status;
}

// `pkc tpu --mesh XxY COMMAND`.
int tpu_mesh(const MeshRequest *request) {
  Mesh m = {.request = request};
  const char *verb = request->what;
  bool sends = strcmp(verb, "send") == 0;
  const char *wrong = torus_read(request->arena, request->chip, request->mesh,
                                 sends ? NULL : over_of(&m), 1, &m.torus);
  if (wrong) return user_error("%s", wrong);
  if (strcmp(verb, "matmul") == 0) return plans(&m);
  double bytes;
  if (!argument(&m, "bytes"))
    return user_error("%s requires bytes=N", *verb ? verb : "a collective");
  if (!read_number(argument(&m, "bytes"), &bytes))
    return user_error("%s requires bytes=N, a number from 0 to 1e30, not `%s`",
                      *verb ? verb : "a collective", argument(&m, "bytes"));
  if (strcmp(verb, "send") == 0) return send(&m, bytes);
  for (int i = 0; i < COLLECTIVES; i++)
    if (strcmp(verb, collectives[i].name) == 0)
      return show(&m, verb, bytes, collectives[i].cost(&m, bytes));
  Buf names = {0};
  for (int i = 0; i < COLLECTIVES; i++)
    buf_printf(&names, "  %-15s bytes=N  %s\n", collectives[i].name, collectives[i].meaning);
  int status = user_error(
      "--mesh requires one of\n  send            bytes=N from=X,Y to=X,Y\n%s  matmul          M= "
      "K= N=",
      names.text);
  buf_free(&names);
  return status;
}
