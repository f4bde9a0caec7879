// Reports about the devices of a mesh and the links between them.
#include "codegen/tpu/torus.h"

static void put_slice(const Torus *t, Buf *out) {
  if (t->slices > 1) buf_printf(out, "%lld slices of ", (long long)t->slices);
  torus_put_shape(t, out);
  if (t->axes < torus_read_list(t->shape, 'x', (int64_t[TORUS_AXES]){0}, TORUS_AXES)) {
    buf_puts(out, " along ");
    for (int i = 0; i < t->axes; i++) buf_printf(out, "%s%c", i ? "," : "", t->name[i]);
    buf_printf(out, " of %s", t->shape);
  }
}

static void put_links(const Model *m, Buf *out) {
  const MeshRun *mesh = m->sim.mesh;
  int64_t ps = 0;
  if (mesh->busiest < 0) return;
  for (int i = 0; i < torus_links(m->torus); i++) ps += mesh->link_ps[i];
  buf_printf(out, "  links        busiest %.1f %%: %s, ",
             100 * (double)mesh->link_ps[mesh->busiest] * 1e-12 / m->seconds,
             torus_link_name(m->arena, m->torus, mesh->busiest));
  tpu_put_bytes(out, mesh->link_bytes[mesh->busiest]);
  buf_printf(out, "; the %d that are used %.1f %% on the average\n", mesh->links_used,
             100 * (double)ps * 1e-12 / m->seconds / mesh->links_used);
}

// Prints the slice, and the use of its links.
void tpu_put_mesh(const Model *m, Buf *out) {
  const MeshRun *mesh = m->sim.mesh;
  const Torus *t = m->torus;
  if (!t) return;
  buf_puts(out, "  slice        ");
  put_slice(t, out);
  buf_printf(out, ": links of %.3g B/s one way, ", t->one_way);
  tpu_put_time(out, t->chip->value[CHIP_ICI_HOP]);
  buf_puts(out, " a hop");
  if (t->slices > 1) {
    buf_printf(out, "; DCN of %.3g B/s a chip, ", t->chip->value[CHIP_DCN]);
    tpu_put_time(out, t->chip->value[CHIP_DCN_HOP]);
  }
  if (!mesh) {
    buf_puts(out, "\n  devices      they do not communicate; this is one of them\n");
    return;
  }
  buf_printf(out, "\n  devices      %d; this is the last one to end, %s", mesh->devices,
             torus_chip_name(m->arena, t, mesh->chip[mesh->slowest]));
  buf_puts(out, ", the first ends after ");
  tpu_put_time(out, (double)mesh->first_end_ps * 1e-12);
  buf_puts(out, "\n  waits        ");
  tpu_put_time(out, (double)mesh->wait_ps * 1e-12);
  buf_printf(out, " for other devices, %.1f %% of the time\n",
             m->seconds > 0 ? 100 * (double)mesh->wait_ps * 1e-12 / m->seconds : 0);
  buf_printf(out, "  messages     %lld cop%s of ", (long long)mesh->copies,
             mesh->copies == 1 ? "y" : "ies");
  tpu_put_bytes(out, mesh->bytes);
  buf_printf(out, " in all, over %.3g hops on the average, %lld at most; %lld signal%s\n",
             mesh->copies ? (double)mesh->hops / (double)mesh->copies : 0,
             (long long)mesh->most_hops, (long long)mesh->signals, mesh->signals == 1 ? "" : "s");
  put_links(m, out);
}

static void json_link(const Model *m, int link, Buf *out) {
  const MeshRun *mesh = m->sim.mesh;
  json_open(out, NULL, '{');
  json_text(out, "link", torus_link_name(m->arena, m->torus, link));
  json_int(out, "bytes", mesh->link_bytes[link]);
  json_real(out, "busy_s", (double)mesh->link_ps[link] * 1e-12);
  json_close(out, '}');
}

// The same as JSON.
void tpu_json_mesh(const Model *m, Buf *out) {
  const MeshRun *mesh = m->sim.mesh;
  const Torus *t = m->torus;
  if (!t) return;
  json_open(out, "mesh", '{');
  json_text(out, "slice", t->shape);
  json_int(out, "slices", t->slices);
  json_ints(out, "shape", t->size, t->axes);
  json_open(out, "wraps", '[');
  for (int i = 0; i < t->axes; i++) json_bool(out, NULL, t->wraps[i]);
  json_close(out, ']');
  if (mesh) {
    json_int(out, "devices", mesh->devices);
    json_int(out, "slowest", mesh->slowest);
    json_real(out, "first_end_s", (double)mesh->first_end_ps * 1e-12);
    json_real(out, "wait_s", (double)mesh->wait_ps * 1e-12);
    json_int(out, "copies", mesh->copies);
    json_int(out, "copied_bytes", mesh->bytes);
    json_int(out, "signals", mesh->signals);
    json_int(out, "hops", mesh->hops);
    json_int(out, "most_hops", mesh->most_hops);
    json_int(out, "links_used", mesh->links_used);
    json_real(out, "busiest_link_s",
              mesh->busiest < 0 ? 0 : (double)mesh->link_ps[mesh->busiest] * 1e-12);
    json_open(out, "links", '[');
    for (int i = 0; i < torus_links(t); i++)
      if (mesh->link_ps[i] > 0) json_link(m, i, out);
    json_close(out, ']');
  }
  json_close(out, '}');
}
